# SPDX-License-Identifier: Apache-2.0

"""Stopping and starting within the limits, whatever a controller takes for the state that it starts from.

A joint trajectory controller goes from where it is to the first point of a new trajectory by a cubic of its own. It may
start from the measured state or from the state it desired; the two differ by the tracking error, and it starts some
milliseconds after the trajectory was sent. So the first point lies far enough ahead that a cubic which makes up for
both stays within the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.control.motion_gate import ApprovedStop
from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array

SHORTEST = 0.05
"""Shortest stop [s]: of a robot at rest, too."""
LONGEST = 1.0
"""Longest stop [s] for the sake of a controller whose speed differs from what is measured: the robot must stop soon."""
GRID = 1e-3
"""Times of the points are multiples of this [s]."""
SPENT = 0.9
"""Share of the way to a position limit that a stop takes because of doubt: the rest is for the robot's overshoot."""
SLOW = 1e-6
"""A joint slower than this [rad/s or m/s] reaches no position limit in the time of a stop."""
DENSE = 0.02
"""Distance of points [s] for controllers that know no velocities, which go straight from point to point."""


@dataclass(frozen=True, eq=False)
class Brake:
    """A stop: the points to send, times from its arrival, and the motion expected from now on."""

    points: Reference
    expected: Reference


def braking_time(dq: Array, a: Array, error: Array, speed_error: Array | float = 0.0) -> Array:
    """Return the least T [s], shape (n,), to stop from dq within a, though the start may be off in position and speed.

    The cubic to rest, dq T / 2 further on, decelerates by |dq| / T; one that starts `error` and `speed_error` off needs
    up to 6 error / T^2 + 4 speed_error / T more. T is the root of a T^2 - (|dq| + 4 speed_error) T - 6 error = 0.
    """
    B = np.abs(dq) + 4 * speed_error
    return (B + np.sqrt(B**2 + 24 * a * error)) / (2 * a)


def catching_up_time(dq: Array, v: Array, error: Array) -> Array:
    """Return the least T [s], shape (n,), such that a cubic to rest that starts `error` behind stays within speed v.

    Its speed is (1 - s) (|dq| + 6 d s) with s = t / T and d = error / T; the greatest is (|dq| + 6 d)^2 / (24 d) where
    6 d > |dq|. It is v for the d below: 2 v / 3 from rest, v / 6 from full speed.
    """
    u: Array = np.minimum(np.abs(dq), v)
    d: Array = (2 * v - u + 2 * np.sqrt(v * (v - u))) / 6
    return error / d


def braking(
    limits: MotionLimits,
    q: Array,
    dq: Array,
    error: Array,
    lead: float,
    *,
    speed_error: Array | float = 0.0,
    doubt: Array | float = 0.0,
    dense: bool = False,
) -> Brake:
    """Return the stop from q, dq, shape (n,), which hold now; it takes effect `lead` [s] later, between 0 and 2 lead.

    error, shape (n,): how far the controller's own start may be from q. speed_error, doubt, shape (n,): how far its
    speed may be from dq, and how much further off it may be for all that is known; they make the stop no longer than
    the way to the position limits allows, and speed_error not longer than LONGEST. All joints stop at the same time, so
    that a single point says all. None is led over its position limit. dense: more points, for a controller that
    interpolates positions only.
    """
    a, lead = limits.deceleration, max(lead, GRID)
    off = error + np.abs(dq) * lead
    begin = limits.not_beyond(q + lead * dq, q)
    ahead = np.where(dq > 0, np.maximum(limits.upper - begin, 0.0), np.maximum(begin - limits.lower, 0.0))

    def needed(off: Array, speed_error: Array | float = 0.0) -> float:
        return float(
            np.max(np.maximum(braking_time(dq, a, off, speed_error), catching_up_time(dq, limits.velocity, off)))
        )

    room = np.min(np.divide(2 * SPENT * ahead, np.abs(dq), out=np.full_like(dq, np.inf), where=np.abs(dq) > SLOW))
    wanted = max(min(needed(off, speed_error), LONGEST), needed(off + doubt))
    T = _on_grid(max(needed(off), min(wanted, float(room)), SHORTEST))
    end = begin + np.clip(0.5 * T * dq, -ahead, ahead)
    still = np.zeros_like(q)
    expected = reference(
        limits.joint_names, np.array([0.0, lead, lead + T]), np.stack((q, begin, end)), np.stack((dq, dq, still))
    )
    # a controller that is off makes up for it on the way to the first point: no point comes before it can have
    caught_up = float(np.max(braking_time(still, a, error, speed_error)))
    t = np.append(np.arange(DENSE, T - 0.5 * DENSE, DENSE), T) if dense else np.array([T])
    joins = [instant >= caught_up and joins_within_limit(instant, T, dq, limits.velocity, off) for instant in t[:-1]]
    t = t[np.argmax([*joins, True]) :]
    points = [expected.at(lead + float(instant)) for instant in t[:-1]]
    positions = np.array([*(point[0] for point in points), end])
    velocities = np.array([*(point[1] for point in points), still])
    return Brake(reference(limits.joint_names, t, positions, velocities), expected)


MARGIN_SHARES = (0.0, 0.25, 0.5, 0.75)
"""Of the margin that a motion keeps to the position limits a stop uses no more than it needs: the first of these shares
with which it keeps the limits of speed and acceleration."""


def motion_extent(*motions: Reference) -> tuple[Array, Array]:
    """Return the least and the largest positions, shape (n,) each, of motions of the same joints."""
    q = np.concatenate([motion.within(np.linspace(0.0, 1.0, 11))[0] for motion in motions])
    return q.min(axis=0), q.max(axis=0)


def stop_with_margin(
    limits: MotionLimits, extent: tuple[Array, Array], brake: Callable[[MotionLimits], Brake]
) -> tuple[Brake, ApprovedStop] | None:
    """Return the stop that leaves the extent of the motion, shape (n,) each, by as little as it can; None: it cannot.

    brake: returns the stop within position limits. Neither a robot's overshoot nor what is beside the path that was
    checked for collisions should be met at a hard limit.
    """
    for share in MARGIN_SHARES:
        lower, upper = (
            inner + share * (outer - inner) for inner, outer in zip(extent, (limits.lower, limits.upper), strict=True)
        )
        narrow = replace(limits, lower=np.maximum(lower, limits.lower), upper=np.minimum(upper, limits.upper))
        stop = brake(narrow)
        try:
            return stop, ApprovedStop(stop.points, stop.expected, narrow)
        except InputError:
            continue
    return None


def joins_within_limit(t: float, T: float, dq: Array, v: Array, error: Array) -> bool:
    """Return whether a cubic that starts `error` behind is on a stop of length T [s] after t within speed v.

    Its speed is |dq| - c s + k s (1 - s) with s in 0..1, c = |dq| t / T and k = 6 error / t; the greatest is
    |dq| + (k - c)^2 / (4 k) where k > c. For t = T that is catching_up_time's condition. A straight line is slower.
    """
    u = np.minimum(np.abs(dq), v)
    return bool(np.all(6 * error / t <= (np.sqrt(v - u) + np.sqrt(v - u + u * t / T)) ** 2))


def start_time(limits: MotionLimits, error: float, share: float) -> float:
    """Return the time [s] of the first point such that a controller off by `error` reaches it within `share` of limits.

    The cubic between states at rest `error` apart has the velocity 1.5 error / t and the acceleration 6 error / t^2.
    """
    velocity, acceleration = share * limits.velocity, share * limits.acceleration
    t = max(1.5 * error / float(velocity.min()), float(np.sqrt(6 * error / acceleration.min())), SHORTEST)
    return _on_grid(t)


def speed_up(x: Array) -> tuple[Array, Array, Array]:
    """Return the way, the speed and the acceleration at x = t / T of a rise from rest: its speed is 3 x^2 - 2 x^3.

    Ways are in speed T, half of one in all, accelerations in speed / T, 1.5 at most. Backwards it is a fall to rest.
    """
    return x**3 - 0.5 * x**4, 3 * x**2 - 2 * x**3, 6 * x - 6 * x**2


def _on_grid(t: float) -> float:
    """Return the first multiple of GRID at or after t [s]."""
    return float(np.ceil(t / GRID - 1e-9) * GRID)


def approach_reference(
    joint_names: Sequence[str], q_from: Array, q_to: Array, velocity: Array, acceleration: Array
) -> Reference:
    """Return a move from rest at q_from to rest at q_to, shape (n,), as quick as velocity and acceleration allow.

    The quintic's peak velocity is 15/8 of the mean one, its peak acceleration 10 / sqrt(3) of distance / T^2.
    """
    distance = np.abs(q_to - q_from)
    T = max(float(np.max(1.875 * distance / velocity)), float(np.max(np.sqrt(5.7735 * distance / acceleration))), 0.1)
    return quintic(joint_names, q_from, q_to, T)


def quintic(joint_names: Sequence[str], q_from: Array, q_to: Array, T: float, points: int = 50) -> Reference:
    """Return the move from rest at q_from to rest at q_to, shape (n,), in T [s]: 10 x^3 - 15 x^4 + 6 x^5, x = t / T."""
    x = np.linspace(0.0, 1.0, points)[:, None]
    D = q_to - q_from
    q = q_from + D * (10 * x**3 - 15 * x**4 + 6 * x**5)
    dq = D * (30 * x**2 - 60 * x**3 + 30 * x**4) / T
    ddq = D * (60 * x - 180 * x**2 + 120 * x**3) / T**2
    return reference(joint_names, x[:, 0] * T, q, dq, ddq)
