# SPDX-License-Identifier: Apache-2.0

"""Where a joint's effort is measured: at the motor, including rotor inertia and friction, or at the link.

motor      Ia ddq + Fv dq + Fc sign(dq) is part of it: motor currents, motor torque times the gear's ratio
link       none of it is: a torque sensor between gear and link
link+Fc    a part is, by its parameters: what acts beyond the sensor, such as the dry friction of a seal
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import DRIVE, Robot

MOTOR, LINK = "motor", "link"


def felt_parts(sensor: str) -> tuple[str, ...]:
    """Return the drive parameters, of Ia, Fv and Fc, that an effort measured there includes."""
    side, *parts = sensor.split("+")
    wrong = side not in (MOTOR, LINK) or (side == MOTOR and parts) or any(part not in DRIVE for part in parts)
    if wrong or len(set(parts)) != len(parts):
        raise InputError(f"the sensor is {sensor!r}", "write motor, link, or link+Fc and the like with Ia, Fv, Fc")
    return DRIVE if side == MOTOR else tuple(part for part in DRIVE if part in parts)


def sensor_name(felt: Iterable[str]) -> str:
    """Return the name of a sensor whose effort includes these drive parameters."""
    felt = set(felt)
    return MOTOR if felt == set(DRIVE) else "+".join((LINK, *(part for part in DRIVE if part in felt)))


def with_sensors(robot: Robot, felt: Mapping[str, Iterable[str]]) -> Robot:
    """Return the robot whose joint efforts, by name, include these drive parameters; the others are dropped.

    A priori values and friction terms that the efforts do not include are no part of the robot's torque.
    """
    unknown = [name for name in felt if name not in robot.active_names]
    if unknown:
        raise InputError(f"sensor of the joint {unknown[0]!r}", f"the robot has {', '.join(robot.active_names)}")
    measured = {name: set(parts) for name, parts in felt.items()}
    joints = tuple(
        replace(joint, felt=tuple(part for part in DRIVE if part in measured[joint.name]))
        if joint.name in measured
        else joint
        for joint in robot.joints
    )
    unmeasured = {f"{part}{j}" for j, joint in enumerate(joints, start=1) for part in DRIVE if part not in joint.felt}
    parameters = {name: value for name, value in robot.parameters.items() if name not in unmeasured}
    terms = tuple(term for term in robot.friction if joints[term.joint - 1].felt == DRIVE)
    return replace(robot, joints=joints, parameters=parameters, friction=terms)


def declared_sensors(robot: Robot, text: str) -> Robot:
    """Return the robot with the sensors of a request: one for all joints, or JOINT=SENSOR,JOINT=SENSOR."""
    if "=" not in text:
        return with_sensors(robot, dict.fromkeys(robot.active_names, felt_parts(text)))
    pairs = [part.partition("=") for part in text.split(",")]
    return with_sensors(robot, {name.strip(): felt_parts(sensor.strip()) for name, _, sensor in pairs})


def check_sensors(text: str) -> None:
    """Refuse an unknown sensor; joint names are checked once the robot is known."""
    for part in text.split(","):
        felt_parts(part.split("=", 1)[-1].strip())
