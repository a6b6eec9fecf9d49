# SPDX-License-Identifier: Apache-2.0

"""Friction sweeps: each joint at constant speeds, both ways, under low, medium and high gravity load.

At constant speed and equal positions, the torques of the two directions differ by twice the friction. The load on a
joint's gear is chosen by the pose of the others: among random safe poses, those with the smallest, the largest and
intermediate gravity torques on the joint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import Shapes
from ros2_dynid.excitation.limits import DEFAULT_MARGIN, Bounds, Caps, bounds_of, check_trajectory, known_parameters
from ros2_dynid.excitation.pose import fault_of, rest_pose
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.static import SLOW, sweep_span, time_between, way_is_clear
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.robot import Array, Robot

SPEEDS = (0.02, 0.06, 0.2, 0.5)
"""Fractions of the velocity limits: slow ones show Stribeck friction, fast ones how viscous friction bends."""
LOADS = 3
MAX_SWEEP_S = 4.0
"""Longest slow sweep [s]; it covers a shorter distance instead."""
CANDIDATES = 120
"""Number of random poses that loads are chosen from."""
MIN_GAIN = 0.1
"""Loads that differ by less than this share of the largest are the same."""
ROUNDING = 1e-9
"""Gravity torques below this share of the other joints' are rounding errors, as of a vertical axis."""
PUSHES = (0.5, 0.2, 0.08, 0.03)
"""Fractions of the acceleration limit to try, until every effort limit holds."""


def friction_sweeps(
    robot: Robot,
    *,
    speeds: Sequence[float] = SPEEDS,
    loads: int = LOADS,
    reach: float = 0.5,
    margin: float = DEFAULT_MARGIN,
    caps: Caps | None = None,
    start: Sequence[float] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    candidates: int = CANDIDATES,
) -> Trajectory:
    """Return sweeps of constant speed, one joint after the other, both ways, at several speeds and gravity loads.

    speeds: fractions of the velocity limit; loads: poses of the other joints for each joint, fewer where gravity does
    not change with them; reach: way to each side [rad or m], less where a limit or the collision margin is nearer;
    candidates: number of random poses that loads are chosen from.
    """
    values = np.array(speeds, dtype=float)
    if not len(values) or not np.all((values > 0) & (values <= 1.0)) or loads < 1 or not reach > 0:
        hint = "give fractions of the velocity limit, above 0 and at most 1, and at least one load"
        raise InputError("speeds or loads of friction sweeps", hint, robot.name)
    bounds, chi = bounds_of(robot, margin, caps), known_parameters(robot)
    rest = rest_pose(robot, bounds, start=start, shapes=shapes, chi=chi, zero_first=True, seed=seed)
    index = [j - 1 for j in robot.active]
    rng = np.random.default_rng(seed)
    pool = [rest, *rng.uniform(bounds.lower[index], bounds.upper[index], (candidates, len(index)))]
    pool = [pose for pose in pool if not fault_of(robot, bounds, shapes, chi, pose)]
    pool = [pose for pose in pool if way_is_clear(robot, shapes, rest, pose)]  # and so is the way back
    sweeps = []
    for k in range(len(index)):
        sweeps += [
            (k, *candidate) for candidate in choose_sweep_poses(robot, bounds, shapes, chi, pool, k, loads, reach)
        ]
    problem = ""
    for push in PUSHES:
        trajectory = join_sweeps(robot, bounds, shapes, rest, sweeps, values, push)
        problems = check_trajectory(robot, trajectory, margin=margin, caps=caps)
        if not problems:
            return trajectory
        problem = str(problems[0])
    raise InputError(problem, Text("choose another start pose, ", Option("start"), ", or wider limits"), robot.name)


def choose_sweep_poses(
    robot: Robot,
    bounds: Bounds,
    shapes: Shapes | None,
    chi: Array | None,
    pool: Sequence[Array],
    k: int,
    loads: int,
    reach: float,
) -> list[tuple[Array, float, float]]:
    """Return poses, each with the ends of joint k's sweep, from low to high gravity torque on it."""
    candidates: list[tuple[float, Array, float, float]] = []
    largest = 0.0
    for pose in pool:
        try:
            low, high = sweep_span(robot, bounds, shapes, pose, k, reach)
        except InputError:
            continue
        ends = np.array([pose, pose])
        ends[:, k] = low, high
        if any(fault_of(robot, bounds, shapes, chi, end) for end in ends):
            continue
        way = np.repeat(pose[None], 9, axis=0)
        way[:, k] = np.linspace(low, high, 9)
        torque = np.zeros_like(way) if chi is None else np.abs(gravity_torque(robot, chi, way))
        largest = max(largest, float(torque.max()))
        candidates.append((float(np.mean(torque[:, k])), pose, low, high))
    if not candidates:
        name = robot.active_names[k]
        raise InputError(f"joint {name!r} cannot sweep at any safe pose", "choose wider limits", robot.name)
    sizes = np.array([load for load, *_ in candidates])
    if np.ptp(sizes) <= max(MIN_GAIN * sizes.max(), ROUNDING * largest):
        # gravity does not change with the pose: where the robot starts is as good as anywhere
        return [candidates[0][1:]]
    target_loads = np.linspace(sizes.min(), sizes.max(), loads) if loads > 1 else [sizes.max()]
    best = dict.fromkeys(int(np.argmin(np.abs(sizes - size))) for size in target_loads)
    return [candidates[i][1:] for i in best]


def join_sweeps(
    robot: Robot,
    bounds: Bounds,
    shapes: Shapes | None,
    rest: Array,
    sweeps: Sequence[tuple[int, Array, float, float]],
    values: Array,
    push: float,
) -> Trajectory:
    """Return the sweeps one after the other, from rest to rest; push: fraction of the acceleration limits."""
    index = [j - 1 for j in robot.active]
    states, speeds, times = [rest], [np.zeros_like(rest)], [0.0]

    def add(q: Array, dq: Array, u: float) -> None:
        states.append(q)
        speeds.append(dq)
        times.append(times[-1] + u)

    def move(to: Array) -> None:
        if not np.allclose(states[-1], to):
            add(to, np.zeros_like(rest), time_between(bounds, index, states[-1], to, SLOW))

    for k, pose, low, high in sweeps:
        if not way_is_clear(robot, shapes, states[-1], pose):
            move(rest)
        unit = np.eye(len(rest))[k]
        move(pose)
        v_max, a_max = bounds.velocity[index[k]], push * bounds.acceleration[index[k]]
        for fraction in values:
            # 1.5 v / u is the peak acceleration from 0 to v; speeding up and braking may take half of the way
            v = min(fraction * v_max, np.sqrt((high - low) * a_max / 3.0))
            u = 1.5 * v / a_max
            half = 0.5 * min(high - low, v * (MAX_SWEEP_S + u))
            middle = 0.5 * (low + high)
            move(pose + (middle - half - pose[k]) * unit)
            for a, b in ((middle - half, middle + half), (middle + half, middle - half)):
                sign = np.sign(b - a)
                at = [pose + (x - pose[k]) * unit for x in (a + sign * v * u / 2, b - sign * v * u / 2, b)]
                add(at[0], sign * v * unit, u)
                add(at[1], sign * v * unit, (abs(b - a) - v * u) / v)
                add(at[2], np.zeros_like(rest), u)
        move(pose)
    move(rest)
    curve = through_points(np.array(times), np.array(states), np.array(speeds))
    return Trajectory(robot.active_names, curve, "friction")
