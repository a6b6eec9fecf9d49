# SPDX-License-Identifier: Apache-2.0

"""How to identify: everything that a caller may choose besides the robot and the recordings."""

from __future__ import annotations

from dataclasses import dataclass, field

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.choices import DISTANCES, RELATIVE_STD, Method
from ros2_dynid.identification.friction.laws import AUTO, check_law
from ros2_dynid.identification.preparation.preparation_options import PreparationOptions
from ros2_dynid.model.efforts import DRIVE, LINK, check_sensors, felt_parts
from ros2_dynid.recording.samples import Reading

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
    not support; essential_std: relative standard deviation above which one may be dropped; standard: standard
    parameters closest to the a priori ones; distance: measured in each link's own units ("scaled"), or in SI units and
    on the leaders of essential parameters only, as seed 002 prints it ("euclidean"); consistent: those that physical
    links can have. checks: refuse efforts of wrong sign or unit, and recordings that contradict each other. friction:
    auto, or a law (friction/laws.py); prior: what the estimate is drawn towards, one of PRIORS or a model.yaml. sensor:
    which torque the efforts are, one of SENSORS, or motor, link, link+Fc for all joints or as JOINT=link,JOINT=motor;
    torque_sensor: what the torques at the links hold that are recorded beside efforts: link, link+Fc and the like.
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
    sensor: str = SENSORS[0]
    controller: str | None = None
    torque_sensor: str = LINK

    def __post_init__(self) -> None:
        """Refuse choices that do not exist."""
        if not isinstance(self.method, Method):
            raise InputError(f"unknown method {self.method!r}", f"choose from {', '.join(map(str, Method))}")
        if self.cross_validate is not None and (self.cross_validate < 0 or self.cross_validate == 1):
            raise InputError(f"cross_validate is {self.cross_validate}", "give 2 or more stretches, or 0 for none")
        check_law(self.friction)
        if felt_parts(self.torque_sensor) == DRIVE:
            raise InputError("the torque sensor is at the motor", "write link, or link+Fc and the like")
        if self.sensor not in SENSORS:
            check_sensors(self.sensor)
        if self.prior not in PRIORS and not self.prior.endswith((".yaml", ".yml")):
            raise InputError(f"prior is {self.prior!r}", f"choose from {', '.join(PRIORS)}, or give a model.yaml")
        if self.essential and self.prior not in ("auto", "none"):
            hint = Text("essential parameters are the data's alone: ", Option("prior", "none"))
            raise InputError("a prior is given with essential parameters", hint)
        if self.distance not in DISTANCES:
            raise InputError(f"distance is {self.distance!r}", f"choose from {', '.join(DISTANCES)}")
        if not 0.0 < self.essential_std < 1.0:
            raise InputError(f"essential_std is {self.essential_std}", "give a relative deviation between 0 and 1")
