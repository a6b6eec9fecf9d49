# SPDX-License-Identifier: Apache-2.0

"""A motion for position servos: what their gains, friction, armature and delay look like in commands and positions.

One joint after the other moves around the rest pose: reversals ever faster at several amplitudes, which tell stiffness,
damping, armature and delay from each other; steps as fast as the limits allow, with holds, for the delay and the limit
of the torque; slow reversals at constant speed, for friction; holds on the way, for gravity and the encoder's bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import Shapes
from ros2_dynid.excitation.limits import DEFAULT_MARGIN, Bounds, Caps, bounds_of, check_trajectory, known_parameters
from ros2_dynid.excitation.pose import rest_pose
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.static import SLOW, sweep_span, time_between
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.robot import Array, Robot

AMPLITUDES = (1.0, 0.4, 0.1)
"""Of the reversals, as shares of half the span: friction shows in small ones, a limit of the torque in large ones."""
SLOWEST_REVERSAL, FASTEST_REVERSAL, REVERSALS = 1.0, 0.08, 10
"""Times from one end to the other [s], and their number: 0.5 to 6 Hz, slower where a limit asks for it."""
STEPS = (0.5, -0.5, 1.0, -1.0, 0.25, -0.25)
"""Ends of the steps, as shares of half the span."""
CRAWLS = ((0.1, 4.0), (0.3, 2.0))
"""Slow reversals: share of the span, and time from one end to the other [s]."""
HOLD_S = 0.6
"""Time at rest after a step [s]: servos settle within it."""
SPEEDS = (1.0, 0.5, 0.25, 0.1)
"""Fractions of the limits of velocity and acceleration to try, until every effort limit holds."""


@dataclass
class _Path:
    """Knots of the motion: times, positions, and whether the joint passes a knot at the mean speed of its way."""

    t: list[float] = field(default_factory=lambda: [0.0])
    q: list[Array] = field(default_factory=list)
    dq: list[Array] = field(default_factory=list)

    def add(self, q: Array, duration: float, dq: Array | None = None) -> None:
        self.t.append(self.t[-1] + duration)
        self.q.append(q)
        self.dq.append(np.zeros_like(q) if dq is None else dq)


def servo_motion(
    robot: Robot,
    *,
    reach: float = 0.5,
    margin: float = DEFAULT_MARGIN,
    caps: Caps | None = None,
    start: Sequence[float] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
) -> Trajectory:
    """Return the motion; reach: way of each joint to each side [rad or m], less where a limit is nearer."""
    bounds, chi = bounds_of(robot, margin, caps), known_parameters(robot)
    rest = rest_pose(robot, bounds, start=start, shapes=shapes, chi=chi, zero_first=True, seed=seed)
    spans = [sweep_span(robot, bounds, shapes, rest, k, reach) for k in range(len(robot.active))]
    problem = ""
    for speed in SPEEDS:
        path = _Path(q=[rest], dq=[np.zeros_like(rest)])
        for k, (low, high) in enumerate(spans):
            _move_joint(path, robot, bounds, rest, k, low, high, speed)
        curve = through_points(np.array(path.t), np.array(path.q), np.array(path.dq))
        trajectory = Trajectory(robot.active_names, curve, "servo")
        problems = check_trajectory(robot, trajectory, margin=margin, caps=caps)
        if not problems:
            return trajectory
        problem = str(problems[0])
    raise InputError(problem, Text("choose another start pose, ", Option("start"), ", or wider limits"), robot.name)


def _move_joint(
    path: _Path, robot: Robot, bounds: Bounds, rest: Array, k: int, low: float, high: float, speed: float
) -> None:
    """Add the motion of joint k between its ends, from the rest pose and back."""
    index = [j - 1 for j in robot.active]
    middle, half = 0.5 * (low + high), 0.5 * (high - low)

    def at(place: float) -> Array:
        pose = rest.copy()
        pose[k] = middle + half * place
        return pose

    def go(place: float, shortest: float, fraction: float = speed) -> None:
        pose = at(place)
        if not np.allclose(pose, path.q[-1]):
            path.add(pose, max(shortest, time_between(bounds, index, path.q[-1], pose, fraction)))

    go(0.0, 1.0, min(SLOW, speed))
    for amplitude in AMPLITUDES:
        for r, duration in enumerate(np.geomspace(SLOWEST_REVERSAL, FASTEST_REVERSAL, REVERSALS)):
            go(amplitude if r % 2 == 0 else -amplitude, float(duration))
    for place in STEPS:
        go(place, 0.0)
        path.add(at(place), HOLD_S)
    for amplitude, duration in CRAWLS:
        go(-amplitude, 0.5, min(SLOW, speed))
        _crawl(path, at(-amplitude), at(amplitude), duration)
        _crawl(path, at(amplitude), at(-amplitude), duration)
    path.add(rest, max(0.5, time_between(bounds, index, path.q[-1], rest, min(SLOW, speed))))


def _crawl(path: _Path, a: Array, b: Array, duration: float) -> None:
    """Add a way at constant speed, with a twentieth of the time to speed up and to brake."""
    u = 0.05 * duration
    v = (b - a) / (duration - u)
    path.add(a + 0.5 * v * u, u, v)
    path.add(b - 0.5 * v * u, duration - 2.0 * u, v)
    path.add(b, u)
