# SPDX-License-Identifier: Apache-2.0

"""Find a pose where the robot can rest: within its limits, without collision, held by its motors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import Shapes, clearance
from ros2_dynid.excitation.limits import Bounds
from ros2_dynid.model.robot import Array, Robot

ENOUGH_CLEARANCE_M = 0.15
"""More clearance than this [m] does not make a pose better."""
CANDIDATES = 300
"""Random poses that are tried where neither zero nor the middle of the limits is safe."""


def rest_pose(
    robot: Robot,
    bounds: Bounds,
    *,
    start: Sequence[float] | None = None,
    shapes: Shapes | None = None,
    chi: Array | None = None,
    zero_first: bool = False,
    seed: int = 0,
) -> Array:
    """Return a safe rest pose, shape (n_active,): `start` if given, else the first safe candidate; refuse others.

    Candidates: the middle of the limits, zero (first with zero_first), then random poses.
    """
    index = [j - 1 for j in robot.active]
    lower, upper = bounds.lower[index], bounds.upper[index]
    if start is not None:
        pose = np.asarray(start, dtype=float)
        if pose.shape != lower.shape or not np.all(np.isfinite(pose)):
            raise InputError(f"the start pose has {pose.size} values", f"give {len(index)}, in the robot's order")
        for k in np.flatnonzero((pose < lower) | (pose > upper)):
            raise InputError(
                f"the start pose puts joint {robot.active_names[k]!r} at {pose[k]:.6g}, outside {lower[k]:.6g} to"
                f" {upper[k]:.6g} (limits less the margin)",
                Text("choose a start pose inside, or a smaller ", Option("margin")),
                robot.name,
            )
        fault = fault_of(robot, bounds, shapes, chi, pose)
        if fault:
            raise InputError(
                f"at the start pose {fault}", Text("choose another start pose: ", Option("start")), robot.name
            )
        return pose
    middle = 0.5 * (lower + upper)
    zero = np.where((lower <= 0.0) & (upper >= 0.0), 0.0, middle)
    rng = np.random.default_rng(seed)
    first = (zero, middle) if zero_first else (middle, zero)
    poses = [*first, *rng.uniform(0.7 * lower + 0.3 * middle, 0.7 * upper + 0.3 * middle, (CANDIDATES, len(index)))]
    if robot.loops is not None:  # where they were assembled, or within reach
        assembled = np.array([robot.loops.assembly.get(j, 0.0) for j in robot.active])
        reached = random_positions(robot, rng, CANDIDATES, np.pi)
        poses = [q for q in (assembled, *reached) if np.all((q >= lower) & (q <= upper))]
    faults: list[str] = []
    for spare in (
        1.5,
        1.0,
    ):  # a trajectory needs clearance around its rest pose, but some links are never farther apart
        best: tuple[float, Array] | None = None
        for pose in poses:
            faults.append(fault_of(robot, bounds, shapes, chi, pose, spare))
            if not faults[-1]:
                distance = (
                    ENOUGH_CLEARANCE_M
                    if shapes is None
                    else min(clearance(robot, shapes, pose[None])[0], ENOUGH_CLEARANCE_M)
                )
                if best is None or distance > best[0]:
                    best = (distance, pose)
                if distance >= ENOUGH_CLEARANCE_M:
                    break
        if best is not None:
            return np.asarray(best[1])
    raise InputError(
        f"no pose was found in which the robot can rest: in the middle of its limits {faults[len(poses)]}",
        Text("check the effort limits, the floor and the collision shapes, or give ", Option("start")),
        robot.name,
    )


def fault_of(
    robot: Robot, bounds: Bounds, shapes: Shapes | None, chi: Array | None, pose: Array, spare: float = 1.0
) -> str:
    """Return why the robot cannot rest at a pose, or an empty text; `spare`: extra distance required [m]."""
    if shapes is not None:
        distance, what = clearance(robot, shapes, pose[None])
        if distance < spare * shapes.margin:
            return f"{what} are {distance:.4g} m apart, the margin is {shapes.margin:g} m"
    if chi is not None:
        zero = np.zeros((1, len(pose)))
        tau = np.abs(regressor(robot, pose[None], zero, zero)[0] @ chi)
        for k in np.flatnonzero(spare * tau > bounds.effort):
            return f"joint {robot.active_names[k]!r} needs {tau[k]:.4g} N.m (or N) of {bounds.effort[k]:.4g} to stand"
    return ""
