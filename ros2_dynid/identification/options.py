# SPDX-License-Identifier: Apache-2.0

"""How to identify: everything that a caller may choose besides the robot and the recordings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.codec import NamedChoice
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.friction_columns import AUTO, PLAIN, check_law
from ros2_dynid.model.efforts import DRIVE, LINK, check_sensors, effort_gains, parse_sensor
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Reading


class Method(NamedChoice):
    """The estimators."""

    OLS = "ols"
    """Ordinary least squares: every row counts alike."""
    WLS = "wls"
    """Weighted by the standard deviation of each joint's error."""
    IRLS = "irls"
    """Robust: rows that fit badly count less."""
    TLS = "tls"
    """Total least squares: encoder noise in the regressor too."""
    IV = "iv"
    """Instrumental variables."""
    IDIM_IV = "idim-iv"
    """Instrumental variables from a simulated closed loop."""
    DIDIM = "didim"
    """Closed-loop output error: simulated against measured torque."""
    ENERGY = "energy"
    """The energy model: no accelerations."""
    SEQUENTIAL = "sequential"
    """The square-root information filter."""
    RECURSIVE = "recursive"
    """From the last joint to the first."""


class VelocitySource(NamedChoice):
    """Where velocities come from."""

    AUTO = "auto"
    """Whichever is better for each joint."""
    POSITION = "position"
    """Differentiated positions."""
    MEASURED = "measured"
    """As recorded."""


DISTANCES = ("scaled", "euclidean")
"""How a change of standard parameters is measured: in each link's own units, or in SI units as in Gautier 2013."""
SIGNIFICANT_SHARE = 0.01
"""Share of a joint's largest torque below which Izaguirre 1992 calls a parameter not significant."""
RELATIVE_STD = 0.1
"""Base parameters with a larger relative standard deviation are candidates to leave the essential ones."""


@dataclass(frozen=True)
class PreparationOptions:
    """How to prepare a recording; None: proposed from the data.

    position_cutoff, row_cutoff: low-pass of the positions, and of torque and regressor alike [Hz]; row_rate: rows kept
    a second for each joint [Hz]; slow: rows of a joint slower than this fraction of its top speed are left out, since
    Coulomb friction is not defined there; velocity: where it comes from; gains: drive
    gains by joint name, tau = gain times the recorded effort; delay: the recorded effort is this late [s] (None: it is
    estimated beside the parameters).
    """

    position_cutoff: float | None = None
    row_cutoff: float | None = None
    row_rate: float | None = None
    slow: float = 0.02
    velocity: VelocitySource = VelocitySource.AUTO
    gains: Mapping[str, float] = field(default_factory=dict)
    delay: float | None = None

    def __post_init__(self) -> None:
        """Refuse settings without meaning."""
        for name in ("position_cutoff", "row_cutoff", "row_rate"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value} Hz", "give a positive frequency [Hz]")
        if not 0.0 <= self.slow < 1.0:
            raise InputError(f"slow is {self.slow}", "give a fraction of the top speed between 0 and 1")
        if not isinstance(self.velocity, VelocitySource):
            raise InputError(f"velocity is {self.velocity!r}", f"choose from {', '.join(map(str, VelocitySource))}")
        if self.delay is not None and not np.isfinite(self.delay):
            raise InputError(f"the delay is {self.delay} s", "give a finite number of seconds")

    def with_filters(self, position: float | None, row: float | None, highest: float) -> PreparationOptions:
        """Return the options with these cut-offs [Hz], as far as the data carry them, unless others are asked for."""
        if position is None or row is None:
            return self
        return replace(
            self,
            position_cutoff=self.position_cutoff or min(position, highest),
            row_cutoff=self.row_cutoff or min(row, highest),
        )

    def gains_of(self, robot: Robot) -> Array:
        """Return the drive gain of each active joint, shape (n,): the robot's where none is given."""
        unknown = set(self.gains) - set(robot.active_names)
        if unknown:
            hint = f"the robot has {', '.join(robot.active_names)}"
            raise InputError(f"a drive gain is given for {min(unknown)!r}", hint)
        known = zip(robot.active_names, effort_gains(robot).tolist(), strict=True)
        gains = np.array([self.gains.get(name, gain) for name, gain in known])
        if not np.all(np.isfinite(gains)) or np.any(gains == 0):
            hint = "give N.m (or N) for each unit of the recorded effort"
            raise InputError("a drive gain is zero or not finite", hint)
        return gains


PRIORS = ("auto", "none", "urdf")
"""What an estimate may be drawn towards, beside the model in a file: the robot's description where that helps unseen
data, nothing, or the description in any case."""

SENSORS = ("auto", "found")
"""Where efforts are measured, beside what a caller declares (model/efforts.py): as the robot's description says,
the data only being asked; or as the data say."""


@dataclass(frozen=True)
class IdentifyOptions:
    """What to identify and how.

    method: the estimator; preparation: filters, velocities, drive gains and delay; reading: topic, columns, units and
    time span of recordings that are files; cross_validate: number of stretches left out in turn, 0 for none; None:
    five, if there are no recordings to validate on and the data suffice. essential: drop parameters that the data do
    not support; essential_std: relative standard deviation above which one may be dropped; significant: drop those
    that make less than this share of the largest torque of every joint instead, None for none; standard: standard
    parameters closest to the a priori ones; distance: measured in each link's own units ("scaled"), or in SI units and
    on the leaders of essential parameters only, as in Gautier 2013 ("euclidean"); consistent: those that physical
    links can have. checks: refuse efforts of wrong sign or unit, and recordings that contradict each other. friction:
    auto, or a law; prior: what the estimate is drawn towards, one of PRIORS or a model.yaml. sensor:
    which torque the efforts are, one of SENSORS, or motor, link, link+Fc for all joints or as JOINT=link,JOINT=motor;
    torque_sensor: what the torques at the links hold that are recorded beside efforts: link, link+Fc and the like.
    standing: feet that stand in all recordings, whose forces are not known, with 3 components each, or 6 of a sole.
    controller: file with the gains of the robot's own controller (sim/controller_file.py), None if it is not known.
    """

    method: Method = Method.WLS
    preparation: PreparationOptions = field(default_factory=PreparationOptions)
    reading: Reading = field(default_factory=Reading)
    cross_validate: int | None = None
    essential: bool = False
    standard: bool = False
    consistent: bool = False
    checks: bool = True
    friction: str = AUTO
    prior: str = PRIORS[0]
    distance: str = DISTANCES[0]
    essential_std: float = RELATIVE_STD
    significant: float | None = None
    sensor: str = SENSORS[0]
    controller: str | None = None
    torque_sensor: str = LINK
    standing: tuple[tuple[str, int], ...] = ()

    @property
    def drops_parameters(self) -> bool:
        """Return whether base parameters are dropped: what is left is the set `essential`, by either rule."""
        return self.essential or self.significant is not None

    def __post_init__(self) -> None:
        """Refuse choices that do not exist."""
        if not isinstance(self.method, Method):
            raise InputError(f"unknown method {self.method!r}", f"choose from {', '.join(map(str, Method))}")
        if self.cross_validate is not None and (self.cross_validate < 0 or self.cross_validate == 1):
            raise InputError(f"cross_validate is {self.cross_validate}", "give 2 or more stretches, or 0 for none")
        check_law(self.friction)
        if self.standing and self.friction not in (AUTO, PLAIN):
            raise InputError(f"friction is {self.friction}", f"feet that stand allow {PLAIN} only: leave it out")
        second = parse_sensor(self.torque_sensor)
        if second.drive == DRIVE or not second.gravity:
            what = "at the motor" if second.gravity else "without gravity"
            raise InputError(f"the torque sensor is {what}", "write link, or link+Fc and the like")
        if self.sensor not in SENSORS:
            check_sensors(self.sensor)
        if self.prior not in PRIORS and not self.prior.endswith((".yaml", ".yml")):
            raise InputError(f"prior is {self.prior!r}", f"choose from {', '.join(PRIORS)}, or give a model.yaml")
        if self.essential and self.significant is not None:
            hint = Text("choose ", Option("essential", True), " or ", Option("significant"))
            raise InputError("parameters are to be dropped by two rules", hint)
        if self.significant is not None and not 0.0 < self.significant < 1.0:
            raise InputError(f"significant is {self.significant}", "give a share of the torque between 0 and 1")
        if self.drops_parameters and self.prior not in ("auto", "none"):
            hint = Text("essential parameters are the data's alone: ", Option("prior", "none"))
            raise InputError("a prior is given with essential parameters", hint)
        if self.distance not in DISTANCES:
            raise InputError(f"distance is {self.distance!r}", f"choose from {', '.join(DISTANCES)}")
        if not 0.0 < self.essential_std < 1.0:
            raise InputError(f"essential_std is {self.essential_std}", "give a relative deviation between 0 and 1")


def parse_feet(items: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return the feet of FOOT or FOOT=sole with the number of force components that each takes."""
    feet = []
    for item in items:
        name, _, kind = item.partition("=")
        if kind not in ("", "point", "sole"):
            raise InputError(f"standing foot {item!r}", "write FOOT or FOOT=sole")
        feet.append((name, 6 if kind == "sole" else 3))
    return tuple(feet)
