# SPDX-License-Identifier: Apache-2.0

"""What a joint's effort means: what a measured one holds, and what the robot itself adds to a commanded one.

What a measured effort holds:

    motor                         the torque of the drive, Ia ddq + Fv dq + Fc sign(dq) included: motor currents times
                                  their gain, motor torque times the gear's ratio
    current                       the same as a motor current whose gain is not known: the model's torques are in
                                  amperes, and command nothing
    link                          none of these: a torque sensor between gear and link
    link+Fc                       some, by their parameters: what acts beyond the sensor, such as dry friction of a seal
    motor-gravity                 all but gravity, which the robot's controller compensates by itself
    motor-gravity-friction:0.8    and without 0.8 of the friction; -friction alone: without any
    none                          nothing: it is not measured, and only a floating base's forces tell of the links

A model is one of the efforts that it was identified from: its torque lacks what they lack.

What a robot itself adds to a commanded effort: nothing, what holds it still, a share of its friction.

    nothing                       the motors give the effort that is commanded
    gravity                       the robot adds what holds it still: weights, springs and offsets, its payload's too
    arm-gravity                   the same without the payload, which it does not know
    gravity+friction:0.8          and 0.8 of the friction of a moving joint; friction:0.8 alone is possible, too

What we command is the torque of the motors minus that, so a declaration that is wrong applies gravity twice, or not at
all. Of what the efforts lack and the robot adds, nothing is left to subtract.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, Text

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot


DRIVE = ("Ia", "Fv", "Fc")
"""Parameters of a drive: rotor inertia, viscous and Coulomb friction."""
MOTOR, CURRENT, LINK, NONE = "motor", "current", "link", "none"
SENSOR_CHOICES = (
    "motor, current, link, link+Fc and the like with Ia, Fv, Fc; and -gravity, -friction:SHARE for what is missing"
)
_SENSOR = re.compile(
    r"(?P<side>motor|current|link)(?P<parts>(\+(Ia|Fv|Fc))*)(?P<gravity>-gravity)?(?P<friction>-friction(:(?P<share>[0-9.e-]+))?)?"
)


def _in_order(parts: Iterable[str]) -> tuple[str, ...]:
    selection = set(parts)
    return tuple(part for part in DRIVE if part in selection)


@dataclass(frozen=True)
class MeasuredEffort:
    """What the effort measured at one joint holds.

    drive: of Ia, Fv and Fc, in this order; gravity: whether that is in it; missing: the share of friction, 0 to below
    1, that is not in it although Fv and Fc are; gain: torque [N.m or N] in one unit of the effort, such as N.m/A;
    current: it is a current whose gain is not known; absent: nothing is measured.
    """

    drive: tuple[str, ...] = DRIVE
    gravity: bool = True
    missing: float = 0.0
    gain: float = 1.0
    current: bool = False
    absent: bool = False

    def __post_init__(self) -> None:
        """Refuse what no sensor measures."""
        if self.drive != _in_order(self.drive):
            raise InputError(f"its effort includes {self.drive}", f"name some of {', '.join(DRIVE)}, in this order")
        if not 0.0 <= self.missing < 1.0:
            raise InputError(f"of friction {self.missing:g} is not in the effort", "give a share from 0 to below 1")
        if not np.isfinite(self.gain) or self.gain == 0.0:
            raise InputError(f"the gain of the effort is {self.gain:g}", "give N.m (or N) for each unit of the effort")

    def __str__(self) -> str:
        """Return it as it is declared, without its gain."""
        if self.absent:
            return NONE
        motor = CURRENT if self.current else MOTOR
        side = motor if self.drive == DRIVE else "+".join((LINK, *self.drive))
        missing = f"-friction:{self.missing!r}" if self.missing else ""
        return side + ("" if self.gravity else "-gravity") + missing


MOTOR_TORQUE = MeasuredEffort()
LINK_TORQUE = MeasuredEffort(())
NO_EFFORT = MeasuredEffort((), absent=True)


def parse_sensor(sensor: str) -> MeasuredEffort:
    """Return what an effort declared by a text such as link+Fc or motor-gravity holds."""
    if sensor == NONE:
        return NO_EFFORT
    declared = _SENSOR.fullmatch(sensor)
    parts = [part for part in (declared["parts"] if declared else "").split("+") if part]
    try:
        missing = float(declared["share"] or 1.0) if declared and declared["friction"] else 0.0
    except ValueError:
        missing = np.nan
    at_motor, current = declared is not None and declared["side"] != LINK, sensor.startswith(CURRENT)
    wrong = declared is None or (at_motor and parts) or len(set(parts)) != len(parts)
    if wrong or declared is None or not 0.0 <= missing <= 1.0 or (missing and not at_motor):
        raise InputError(f"the sensor is {sensor!r}", f"write {SENSOR_CHOICES}")
    drive = DRIVE if at_motor else _in_order(parts)
    if missing == 1.0:
        return MeasuredEffort(("Ia",), not declared["gravity"])
    return MeasuredEffort(drive, not declared["gravity"], missing, current=current)


def with_gain(measured: MeasuredEffort, gain: float) -> MeasuredEffort:
    """Return what an effort holds whose gain is known: torque [N.m or N] in one unit of it."""
    return replace(measured, gain=gain, current=False)


def sensor_name(drive: Iterable[str]) -> str:
    """Return the name of a sensor whose effort includes these drive parameters."""
    return str(MeasuredEffort(_in_order(drive)))


def with_sensors(robot: Robot, measures: Mapping[str, MeasuredEffort]) -> Robot:
    """Return the robot whose joint efforts, by name, hold this; drive parameters in none of them are dropped.

    A priori values and friction terms that the efforts do not include are no part of the robot's torque.
    """
    unknown = [name for name in measures if name not in robot.active_names]
    if unknown:
        raise InputError(f"sensor of the joint {unknown[0]!r}", f"the robot has {', '.join(robot.active_names)}")
    joints = tuple(replace(joint, measures=measures.get(joint.name, joint.measures)) for joint in robot.joints)
    unmeasured = {f"{part}{j}" for j, one in enumerate(joints, 1) for part in DRIVE if part not in one.measured_drive}
    parameters = {name: value for name, value in robot.parameters.items() if name not in unmeasured}
    terms = tuple(term for term in robot.friction if joints[term.joint - 1].measured_drive == DRIVE)
    return replace(robot, joints=joints, parameters=parameters, friction=terms)


def declared_sensors(robot: Robot, text: str) -> Robot:
    """Return the robot with the sensors of a request: one for all joints, or JOINT=SENSOR,JOINT=SENSOR.

    Gains stay as they are.
    """
    if "=" in text:
        pairs = [part.partition("=") for part in text.split(",")]
        declared = {name.strip(): parse_sensor(sensor.strip()) for name, _, sensor in pairs}
    else:
        declared = dict.fromkeys(robot.drive_names, parse_sensor(text))
    gains = {joint.name: joint.measured.gain for joint in robot.joints if joint.measured.gain != 1.0}
    return with_sensors(
        robot, {name: with_gain(one, gains[name]) if name in gains else one for name, one in declared.items()}
    )


def effort_gains(robot: Robot) -> NDArray[np.float64]:
    """Return the torque in one unit of the effort measured at each active joint, shape (n,)."""
    return np.array([robot.joints[j - 1].measured.gain for j in robot.active])


def in_amperes(robot: Robot) -> bool:
    """Return whether the efforts of a joint, and so its torques in a model, are currents whose gain is not known."""
    return any(robot.joints[j - 1].measured.current for j in robot.active)


IN_AMPERES = "its efforts are motor currents whose gains are not known: a model of them is in amperes"
FIND_GAINS = Text("find the gains (dynid gains), and identify again with ", Option("gains"))


def measures_gravity(robot: Robot) -> bool:
    """Return whether the efforts hold gravity; it is the same at all joints (robot.py)."""
    return all(robot.joints[j - 1].measured.gravity for j in robot.active)


def check_sensors(text: str) -> None:
    """Refuse an unknown sensor; joint names are checked once the robot is known."""
    for part in text.split(","):
        parse_sensor(part.split("=", 1)[-1].strip())


GRAMMAR = re.compile(r"nothing|(?P<gravity>gravity|arm-gravity)?((^|(?<=y)\+)friction:(?P<share>[0-9.e-]+))?")
CHOICES = "nothing, gravity, arm-gravity or gravity+friction:SHARE with SHARE between 0 and 1"


@dataclass(frozen=True)
class AddedEffort:
    """What the robot adds at one joint: gravity, that of its payload, too, and a share of friction from 0 to 1."""

    gravity: bool = False
    payload: bool = False
    friction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no robot adds."""
        if not 0.0 <= self.friction <= 1.0:
            raise InputError(f"the share of friction that the robot adds is {self.friction:g}", "give one from 0 to 1")
        if self.payload and not self.gravity:
            raise InputError("the robot adds its payload's gravity without its own", "declare gravity, too")

    def __str__(self) -> str:
        """Return it as it is declared."""
        parts = ["gravity" if self.payload else "arm-gravity"] if self.gravity else []
        parts += [f"friction:{self.friction!r}"] if self.friction else []
        return "+".join(parts) or "nothing"


def added_effort(text: str) -> AddedEffort:
    """Return what a text such as gravity+friction:0.8 declares."""
    declared = GRAMMAR.fullmatch(text)
    try:
        share = float(declared["share"] or 0.0) if text and declared else np.nan
    except ValueError:
        share = np.nan
    if declared is None or not 0.0 <= share <= 1.0:
        raise InputError(f"the effort that the robot adds is {text!r}", f"choose {CHOICES}")
    return AddedEffort(declared["gravity"] is not None, declared["gravity"] == "gravity", share)


def with_added_effort(robot: Robot, adds: Mapping[str, AddedEffort]) -> Robot:
    """Return the robot with the declarations of active joints, by name; the others keep theirs."""
    joints = tuple(replace(j, adds=adds[j.name]) if j.name in adds else j for j in robot.joints)
    return replace(robot, joints=joints)


def declare_added_effort(robot: Robot, texts: Sequence[str]) -> Robot:
    """Return the robot as declared by one text for all active joints or one for each; by none or "", as it is."""
    declarations = [text for text in texts if text]
    if not declarations:
        return robot
    names = robot.active_names
    if len(declarations) != len(texts) or len(texts) not in (1, len(names)):
        what = f"the effort that the robot adds is declared for {len(declarations)} of {len(names)} joints"
        raise InputError(what, "declare it for each joint, or once for all")
    declared = [
        added_effort(text) for text in (declarations if len(declarations) == len(names) else declarations * len(names))
    ]
    return with_added_effort(robot, dict(zip(names, declared, strict=True)))


@dataclass(frozen=True, eq=False)
class AddedByJoint:
    """What the robot adds, by active joint, shape (n,): whether gravity, whether the payload's, and which friction."""

    gravity: NDArray[np.bool_]
    payload: NDArray[np.bool_]
    friction: NDArray[np.float64]

    @cached_property
    def nothing(self) -> bool:
        """Whether the motors give what is commanded."""
        return not (self.gravity.any() or self.friction.any())

    def same_as(self, other: AddedByJoint) -> bool:
        """Whether the same is added at every joint."""
        return all(
            np.array_equal(getattr(self, key), getattr(other, key)) for key in ("gravity", "payload", "friction")
        )


def added_by_joint(robot: Robot) -> AddedByJoint | None:
    """Return what the robot adds at its active joints, or None while one of them does not declare it."""
    adds = [robot.joints[j - 1].adds for j in robot.active]
    declarations = [one for one in adds if one is not None]
    if len(declarations) != len(adds):
        return None
    return AddedByJoint(
        np.array([one.gravity for one in declarations]),
        np.array([one.payload for one in declarations]),
        np.array([one.friction for one in declarations]),
    )


def added_beyond_model(robot: Robot) -> AddedByJoint | None:
    """Return what the robot adds of the torque of its model, which lacks what the measured efforts lack, or None.

    Gravity that they lack is not in the model. Of friction F the model has s F and the robot adds a F, so the motors
    need (1 - a) F more: the model's less 1 - (1 - a) / s of it, which is below 0 where efforts lack more than a F.
    """
    adds = added_by_joint(robot)
    if adds is None:
        return None
    measured = [robot.joints[j - 1].measured for j in robot.active]
    held, share = np.array([one.gravity for one in measured]), np.array([1.0 - one.missing for one in measured])
    return AddedByJoint(adds.gravity & held, adds.payload & held, 1.0 - (1.0 - adds.friction) / share)


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """How far the model's torque may be wrong, by active joint (n,) [N.m or N]; NaN where not known.

    sigma: residual level of the identification; torque_std: largest standard deviation of the predicted torque.
    """

    sigma: NDArray[np.float64]
    torque_std: NDArray[np.float64]
