"""Whether two descriptions are of the same robot: a model must not be used on another one."""

from __future__ import annotations

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Force
from ros2_dynid.model.robot import Robot

GEOMETRY = ("gamma", "b", "alpha", "d", "theta", "r")


def check_same_robot(robot: Robot, other: Robot, source: str) -> None:
    """Refuse a model of another robot: other joints, or another geometry."""
    if robot.active_names != other.active_names:
        has, wanted = ", ".join(other.active_names), ", ".join(robot.active_names)
        raise InputError(f"the model has the joints {has}", f"this robot has {wanted}: load its own model", source)
    if [c.motor for c in robot.coupling] != [c.motor for c in other.coupling] or robot.n != other.n:
        raise InputError("the model has other coupled motors or closed loops", "identify this robot", source)
    if [_geometry(force) for force in robot.forces] != [_geometry(force) for force in other.forces]:
        raise InputError("the model has other springs, cylinders or cables", "identify this robot", source)
    for mine, its in zip(robot.joints, other.joints, strict=True):
        ours, theirs = ([float(getattr(joint, key)) for key in GEOMETRY] for joint in (mine, its))
        if mine.sigma != its.sigma or mine.parent != its.parent or not np.allclose(ours, theirs, atol=1e-6):
            raise InputError(f"the model has another geometry at joint {mine.name!r}", "identify this robot", source)


def _geometry(force: Force) -> tuple[object, ...]:
    """Return what two elements must share, to about a micrometre."""
    points = [(pivot.joint, *(round(x, 6) for x in pivot.point)) for pivot in force.pivots]
    return force.powers, dict(force.weights), points, round(force.rest, 6)
