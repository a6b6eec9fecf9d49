# SPDX-License-Identifier: Apache-2.0

"""Slow experiments: static poses for gravity, ramps of constant velocity for friction, and moves between two poses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import Shapes, clearance
from ros2_dynid.excitation.limits import DEFAULT_MARGIN, Bounds, Caps, bounds_of, known_parameters
from ros2_dynid.excitation.pose import fault_of, rest_pose
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.robot import Array, Robot

SLOW = 0.3
"""Fraction of the velocity limits for moves between poses; of the acceleration limits its square root times less."""
CANDIDATES = 400
WAY_STEPS = 60


def approach(
    robot: Robot,
    q_from: Sequence[float] | Array,
    q_to: Sequence[float] | Array,
    *,
    speed: float = SLOW,
    margin: float = 0.0,
    caps: Caps | None = None,
) -> Trajectory:
    """Return the straight move, in joint space, from rest at q_from to rest at q_to, shape (n_active,), at a low speed.

    Both ends must be inside the limits; a quintic between two poses at rest stays between them.
    """
    bounds = bounds_of(robot, margin, caps)
    ends = np.array([q_from, q_to], dtype=float)
    if ends.shape != (2, len(robot.active)) or not np.all(np.isfinite(ends)):
        raise InputError(f"poses of shape {ends.shape[1:]}", f"give {len(robot.active)} positions each", robot.name)
    index = [j - 1 for j in robot.active]
    outside = (ends < bounds.lower[index] - 1e-9) | (ends > bounds.upper[index] + 1e-9)
    if outside.any():
        name = robot.active_names[int(np.flatnonzero(outside.any(axis=0))[0])]
        raise InputError(f"joint {name!r} begins or ends outside its limits", "move it inside first", robot.name)
    t = np.array([0.0, time_between(bounds, index, ends[0], ends[1], speed)])
    return Trajectory(robot.active_names, through_points(t, ends, np.zeros_like(ends)), "approach")


def time_between(bounds: Bounds, index: list[int], a: Array, b: Array, speed: float) -> float:
    """Return the time [s] of a quintic from rest to rest: peaks are 15/8 of the mean velocity, 5.7735 A / u^2."""
    if not 0.0 < speed <= 1.0:
        raise InputError(f"speed {speed}", "give a fraction of the full speed, above 0 and at most 1")
    way = np.abs(b - a)
    by_velocity = 1.875 * way / (speed * bounds.velocity[index])
    by_acceleration = np.sqrt(10.0 / np.sqrt(3.0) * way / (speed * bounds.acceleration[index]))
    return float(max(0.2, by_velocity.max(), by_acceleration.max())) * (1.0 + 1e-9)


def static_poses(
    robot: Robot,
    *,
    poses: int = 20,
    hold_s: float = 2.0,
    seed: int = 0,
    margin: float = DEFAULT_MARGIN,
    caps: Caps | None = None,
    start: Sequence[float] | None = None,
    shapes: Shapes | None = None,
    speed: float = SLOW,
    candidates: int = CANDIDATES,
) -> Trajectory:
    """Return a tour of poses, each held for hold_s [s]: torques at rest are gravity, offset and stiction.

    The poses are chosen, one after the other, from the safe ones of random candidates so that det(W^T W) of the static
    regressor grows most; the way from each to the next keeps the collision margin.
    """
    if poses < 1 or not hold_s > 0:
        raise InputError(f"{poses} poses held for {hold_s} s", "give at least one and a positive time [s]")
    bounds, chi = bounds_of(robot, margin, caps), known_parameters(robot)
    index = [j - 1 for j in robot.active]
    rest = rest_pose(robot, bounds, start=start, shapes=shapes, chi=chi, zero_first=True, seed=seed)
    rng = np.random.default_rng(seed)
    pool = rng.uniform(bounds.lower[index], bounds.upper[index], (candidates, len(index)))
    pool = np.array([pose for pose in pool if not fault_of(robot, bounds, shapes, chi, pose)]).reshape(-1, len(index))
    zero = np.zeros_like(pool)
    Y = regressor(robot, pool, zero, zero)
    Y = Y[:, :, np.abs(Y).max(axis=(0, 1)) > 0]
    scale = np.linalg.norm(Y, axis=(0, 1))
    Y = Y / scale
    information = 1e-6 * np.eye(Y.shape[2])
    tour, unvisited = [rest], list(range(len(pool)))
    for _ in range(poses):
        gain = {k: np.linalg.slogdet(information + Y[k].T @ Y[k])[1] for k in unvisited}
        reachable = (
            k for k in sorted(unvisited, key=lambda k: -gain[k]) if way_is_clear(robot, shapes, tour[-1], pool[k])
        )
        best = next(reachable, None)
        if best is None:
            break
        information = information + Y[best].T @ Y[best]
        tour.append(pool[best])
        unvisited.remove(best)
    while len(tour) > 1 and not way_is_clear(robot, shapes, tour[-1], rest):
        tour.pop()
    if len(tour) < 2:
        raise InputError(
            "no safe pose can be reached from the start pose", Text("choose another one: ", Option("start")), robot.name
        )
    states, times = [rest], [0.0]
    for a, b in zip(tour, [*tour[1:], rest], strict=True):
        states += [b, b]
        times += [times[-1] + time_between(bounds, index, a, b, speed), 0.0]
        times[-1] = times[-2] + hold_s
    q = np.array(states)
    return Trajectory(robot.active_names, through_points(np.array(times), q, np.zeros_like(q)), "static")


def way_is_clear(robot: Robot, shapes: Shapes | None, a: Array, b: Array) -> bool:
    """Return whether the straight way between two poses keeps the collision margin."""
    if shapes is None:
        return True
    steps = max(WAY_STEPS, int(np.abs(b - a).max() / 0.03))
    s = np.linspace(0.0, 1.0, steps)[:, None]
    return clearance(robot, shapes, a + s * (b - a))[0] >= shapes.margin


def ramps(
    robot: Robot,
    *,
    speeds: Sequence[float] = (0.05, 0.15, 0.4, 0.8),
    reach: float = 1.0,
    margin: float = DEFAULT_MARGIN,
    caps: Caps | None = None,
    start: Sequence[float] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
) -> Trajectory:
    """Return ramps of constant velocity, one joint after the other and both ways, for friction.

    speeds: fractions of the velocity limit; reach: largest way to each side of the rest pose [rad or m], less where a
    limit or the collision margin is nearer.
    """
    values = np.array(speeds, dtype=float)
    if not len(values) or not np.all((values > 0) & (values <= 1.0)) or not reach > 0:
        raise InputError("speeds of ramps", "give fractions of the velocity limit, above 0 and at most 1", robot.name)
    bounds, chi = bounds_of(robot, margin, caps), known_parameters(robot)
    rest = rest_pose(robot, bounds, start=start, shapes=shapes, chi=chi, zero_first=True, seed=seed)
    states, speeds_, times = [rest], [np.zeros_like(rest)], [0.0]

    def add(q: Array, dq: Array, u: float) -> None:
        states.append(q)
        speeds_.append(dq)
        times.append(times[-1] + u)

    for k, j in enumerate(robot.active):
        low, high = sweep_span(robot, bounds, shapes, rest, k, reach)
        unit = np.eye(len(rest))[k]
        v_max, a_max = bounds.velocity[j - 1], 0.5 * bounds.acceleration[j - 1]
        to_low = rest + (low - rest[k]) * unit
        add(to_low, np.zeros_like(rest), time_between(bounds, [i - 1 for i in robot.active], rest, to_low, SLOW))
        for fraction in values:
            # 1.5 v / u is the peak acceleration from 0 to v; speeding up and braking may take half of the way
            v = min(fraction * v_max, np.sqrt((high - low) * a_max / 3.0))
            u = 1.5 * v / a_max
            for a, b in ((low, high), (high, low)):
                sign = np.sign(b - a)
                at = [rest + (x - rest[k]) * unit for x in (a + sign * v * u / 2, b - sign * v * u / 2, b)]
                add(at[0], sign * v * unit, u)
                add(at[1], sign * v * unit, (abs(b - a) - v * u) / v)
                add(at[2], np.zeros_like(rest), u)
        add(rest, np.zeros_like(rest), time_between(bounds, [i - 1 for i in robot.active], to_low, rest, SLOW))
    curve = through_points(np.array(times), np.array(states), np.array(speeds_))
    return Trajectory(robot.active_names, curve, "ramps")


def sweep_span(
    robot: Robot, bounds: Bounds, shapes: Shapes | None, rest: Array, k: int, reach: float
) -> tuple[float, float]:
    """Return the lowest and highest position of joint k while the others rest: limits, reach, collision margin."""
    j = robot.active[k] - 1
    ends = []
    for limit, side in ((bounds.lower[j], -1.0), (bounds.upper[j], 1.0)):
        way = min(abs(limit - rest[k]), reach)
        while way > 1e-3 and not way_is_clear(robot, shapes, rest, rest + side * way * np.eye(len(rest))[k]):
            way *= 0.8
        ends.append(float(rest[k] + side * way))
    if ends[1] - ends[0] < 1e-2:
        name = robot.active_names[k]
        raise InputError(
            f"joint {name!r} cannot do a ramp at the start pose: its limits are too close",
            "choose another one",
            robot.name,
        )
    return ends[0], ends[1]
