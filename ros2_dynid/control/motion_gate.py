"""The motion gate: every trajectory that moves a robot passes here, is checked, and is refused if anything is wrong.

Checking a long trajectory takes a while, so it is done before, by whoever prepares it (`approve`); what is sent must
have been approved for the very limits that hold now, and must begin where the robot is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference, check_end
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array

SHARE = 0.02
"""A velocity or acceleration may exceed its limit by this share: what interpolation between few points adds to a plan
that uses its limits to the full."""
SLACK = 1e-6
"""Excess of a position [rad or m] that is rounding."""
WITHIN = np.linspace(0.0, 1.0, 11)
"""Where a segment is looked at; its ends are among them."""


@dataclass(frozen=True, eq=False)
class ApprovedTrajectory:
    """A trajectory within the limits. Made by `approve` and `approve_stop` only."""

    points: Reference
    limits: MotionLimits
    is_stop: bool = False


def approve(points: Reference, limits: MotionLimits) -> ApprovedTrajectory:
    """Return the trajectory as one that may be sent, or refuse it: joints, order, numbers, times, ends, limits."""
    _check_form(points, limits)
    if points.dq is None or np.any(np.abs(points.dq[0]) > 1e-9):
        raise InputError("the trajectory does not begin at rest", "begin it with zero velocities")
    _check_range(points, limits, limits.lower, limits.upper, limits.velocity, limits.acceleration)
    return ApprovedTrajectory(points, limits)


def approve_stop(points: Reference, expected: Reference, limits: MotionLimits) -> ApprovedTrajectory:
    """Return a stop as one that may be sent; `expected` is the motion from the state that it begins in.

    A robot that is outside of its limits already must be allowed to stop there: the limits reach to its state.
    """
    _check_form(points, limits)
    q, dq = expected.q[0], expected.at(float(expected.t[0]) + 1e-9)[1]
    _check_range(
        expected,
        limits,
        np.minimum(limits.lower, q),
        np.maximum(limits.upper, q),
        np.maximum(limits.velocity, np.abs(dq)),
        np.maximum(limits.acceleration, limits.deceleration),
    )
    return ApprovedTrajectory(points, limits, is_stop=True)


def _check_form(points: Reference, limits: MotionLimits) -> None:
    if points.joint_names != limits.joint_names:
        raise InputError(
            f"the trajectory is for {', '.join(points.joint_names)}",
            f"the robot's joints are {', '.join(limits.joint_names)}, in this order",
        )
    for values in (points.t, points.q, points.dq, points.ddq, points.tau):
        if values is not None and not np.all(np.isfinite(values)):
            raise InputError("the trajectory holds a value that is not finite", "nothing is sent")
    if points.t[0] <= 0 or np.any(np.diff(points.t) <= 0):
        raise InputError("the times of the trajectory do not increase, or start now", "nothing is sent")
    if points.dq is None:
        raise InputError("the trajectory has no velocities", "give velocities in every point")
    check_end(points)


def _check_range(
    points: Reference, limits: MotionLimits, lower: Array, upper: Array, velocity: Array, acceleration: Array
) -> None:
    q, dq, ddq = points.within(WITHIN)
    for kind, excess in (
        ("position", np.maximum(q - upper, lower - q).max(axis=0) - SLACK),
        ("velocity", np.abs(dq).max(axis=0) - velocity * (1 + SHARE)),
        ("acceleration", np.abs(ddq).max(axis=0) - acceleration * (1 + SHARE)),
    ):
        if np.any(excess > 0):
            j = int(np.argmax(excess > 0))
            raise InputError(
                f"the {kind} of joint {limits.joint_names[j]!r} would pass its limit by {excess[j]:.3g}",
                "nothing is sent",
            )


class MotionGate:
    """Sends what was approved by `publish(points, delay, number)`, which returns when [s] it was sent."""

    def __init__(self, publish: Callable[[Reference, float, int], float]) -> None:
        """Nothing has been sent yet."""
        self._publish = publish
        self.number = 0

    def send(self, what: ApprovedTrajectory, limits: MotionLimits, q: Array, delay: float = 0.0) -> float:
        """Send and return when; q, shape (n,): where the robot is. The first point must be near enough to it.

        A controller goes from where it is, or from what it desired, to the first point by itself, within the first
        point's time t1: by a cubic, whose velocity reaches 1.5 d / t1 and whose acceleration reaches 6 d / t1^2.
        """
        if what.limits is not limits:
            raise InputError("the limits have changed since the trajectory was checked", "start again")
        if not what.is_stop:
            d, t1 = np.abs(what.points.q[0] - q), float(what.points.t[0]) + delay
            if not np.all((1.5 * d / t1 <= limits.velocity) & (6 * d / t1**2 <= limits.acceleration)):
                j = int(np.argmax(6 * d / t1**2 / limits.acceleration))
                raise InputError(
                    f"the trajectory begins {d[j]:.3g} from joint {limits.joint_names[j]!r}", "start again from there"
                )
        self.number += 1
        return self._publish(what.points, delay, self.number)
