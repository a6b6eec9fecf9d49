# SPDX-License-Identifier: Apache-2.0

"""Check that two descriptions are of the same robot: a model must not be used on another one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Force, Pivot
from ros2_dynid.model.robot import NO_LOOPS, Robot

GEOMETRY = ("gamma", "b", "alpha", "d", "theta", "r")


def check_same_robot(robot: Robot, other: Robot, source: str) -> None:
    """Refuse a model of another robot: other joints, couplings, loops or geometry."""
    if robot.active_names != other.active_names:
        actual, expected = ", ".join(other.active_names), ", ".join(robot.active_names)
        raise InputError(f"the model has the joints {actual}", f"this robot has {expected}: load its own model", source)
    if _coupled(robot) != _coupled(other):
        raise InputError("the model has other coupled motors or closed loops", "identify this robot", source)
    if [_geometry(force) for force in robot.forces] != [_geometry(force) for force in other.forces]:
        raise InputError("the model has other springs, cylinders or cables", "identify this robot", source)
    for mine, its in zip(robot.joints, other.joints, strict=True):
        ours, theirs = ([float(getattr(joint, key)) for key in GEOMETRY] for joint in (mine, its))
        if mine.sigma != its.sigma or mine.parent != its.parent or not np.allclose(ours, theirs, atol=1e-6):
            raise InputError(f"the model has another geometry at joint {mine.name!r}", "identify this robot", source)


def _coupled(robot: Robot) -> tuple[object, ...]:
    """Return how motors and loops couple the joints, with factors and offsets to a millionth."""
    motors = [(c.motor, c.independent_inertia, _round_factors(c.weights)) for c in robot.coupling]
    followers = {p.joint: (_round_factors(p.terms), round(p.offset, 6)) for p in robot.passive}
    loops = robot.loops or NO_LOOPS
    cuts = [[_rounded_pivot(pivot) for pivot in pair] for pair in loops.pairs]
    return motors, followers, loops.passive, _round_factors(loops.assembly), cuts


def _rounded_pivot(pivot: Pivot) -> tuple[float, ...]:
    return (pivot.joint, *(round(x, 6) for x in pivot.point))


def _round_factors(factors: Mapping[int, float]) -> dict[int, float]:
    return {joint: round(factor, 6) for joint, factor in factors.items()}


def _geometry(force: Force) -> tuple[object, ...]:
    """Return what two elements must share, to about a micrometre."""
    points = [_rounded_pivot(pivot) for pivot in force.pivots]
    return force.powers, _round_factors(force.weights), points, round(force.rest, 6)
