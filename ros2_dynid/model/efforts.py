# SPDX-License-Identifier: Apache-2.0

"""What a joint's effort means: where it is measured, and what the robot itself adds to a commanded one.

Where a joint's effort is measured: at the motor, including rotor inertia and friction, or at the link.

    motor      Ia ddq + Fv dq + Fc sign(dq) is part of it: motor currents, motor torque times the gear's ratio
    link       none of it is: a torque sensor between gear and link
    link+Fc    a part is, by its parameters: what acts beyond the sensor, such as the dry friction of a seal

What a robot itself adds to a commanded effort: nothing, what holds it still, a share of its friction.

    nothing                       the motors give the effort that is commanded
    gravity                       the robot adds what holds it still: weights, springs and offsets, its payload's too
    arm-gravity                   the same without the payload, which it does not know
    gravity+friction:0.8          and 0.8 of the friction of a moving joint; friction:0.8 alone is possible, too

What we command is the model's torque minus that, so a declaration that is wrong applies gravity twice, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot


DRIVE = ("Ia", "Fv", "Fc")
"""Parameters of a drive: rotor inertia, viscous and Coulomb friction."""
MOTOR, LINK = "motor", "link"


def parse_sensor(sensor: str) -> tuple[str, ...]:
    """Return the drive parameters, of Ia, Fv and Fc, that an effort measured there includes."""
    side, *parts = sensor.split("+")
    wrong = side not in (MOTOR, LINK) or (side == MOTOR and parts) or any(part not in DRIVE for part in parts)
    if wrong or len(set(parts)) != len(parts):
        raise InputError(f"the sensor is {sensor!r}", "write motor, link, or link+Fc and the like with Ia, Fv, Fc")
    return DRIVE if side == MOTOR else _in_order(parts)


def _in_order(parts: Iterable[str]) -> tuple[str, ...]:
    selection = set(parts)
    return tuple(part for part in DRIVE if part in selection)


def sensor_name(measured_drive: Iterable[str]) -> str:
    """Return the name of a sensor whose effort includes these drive parameters."""
    parts = _in_order(measured_drive)
    return MOTOR if parts == DRIVE else "+".join((LINK, *parts))


def with_sensors(robot: Robot, measured_drive: Mapping[str, Iterable[str]]) -> Robot:
    """Return the robot whose joint efforts, by name, include these drive parameters; the others are dropped.

    A priori values and friction terms that the efforts do not include are no part of the robot's torque.
    """
    unknown = [name for name in measured_drive if name not in robot.active_names]
    if unknown:
        raise InputError(f"sensor of the joint {unknown[0]!r}", f"the robot has {', '.join(robot.active_names)}")
    drive_parts = {name: _in_order(parts) for name, parts in measured_drive.items()}
    joints = tuple(
        replace(joint, measured_drive=drive_parts.get(joint.name, joint.measured_drive)) for joint in robot.joints
    )
    unmeasured = {f"{part}{j}" for j, one in enumerate(joints, 1) for part in DRIVE if part not in one.measured_drive}
    parameters = {name: value for name, value in robot.parameters.items() if name not in unmeasured}
    terms = tuple(term for term in robot.friction if joints[term.joint - 1].measured_drive == DRIVE)
    return replace(robot, joints=joints, parameters=parameters, friction=terms)


def declared_sensors(robot: Robot, text: str) -> Robot:
    """Return the robot with the sensors of a request: one for all joints, or JOINT=SENSOR,JOINT=SENSOR."""
    if "=" not in text:
        return with_sensors(robot, dict.fromkeys(robot.active_names, parse_sensor(text)))
    pairs = [part.partition("=") for part in text.split(",")]
    return with_sensors(robot, {name.strip(): parse_sensor(sensor.strip()) for name, _, sensor in pairs})


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


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """How far the model's torque may be wrong, by active joint (n,) [N.m or N]; NaN where not known.

    sigma: residual level of the identification; torque_std: largest standard deviation of the predicted torque.
    """

    sigma: NDArray[np.float64]
    torque_std: NDArray[np.float64]
