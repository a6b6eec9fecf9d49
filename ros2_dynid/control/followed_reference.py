# SPDX-License-Identifier: Apache-2.0

"""What the feedforward follows: a trajectory, one that waits for its time, or the points of a stream.

Everything passes the motion gate first (control/motion_gate.py), by the limits and the state that hold at the time.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.control.joint_trust import REST_SPEED
from ros2_dynid.control.motion_gate import ApprovedStop, StreamGate, check_start, check_way
from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import braking
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array

Begun = tuple[Reference, float]
"""A trajectory and when its time 0 is [s]."""
MotionState = tuple[Array, Array]
"""q and dq, shape (n,), as measured; a velocity that is not known is NaN."""


class FollowedReference:
    """See the module. near: how far [rad or m] a reference may begin from where the robot is.

    running, waiting, passed_on: trajectories with their begin [s], None if there is none; streamed: when [s] the last
    point of a stream came; place: when [s] and where, q of shape (n,), the reference last had a torque; halted: by a
    stop, until `allow`.
    """

    def __init__(self) -> None:
        """Begin without a reference."""
        self.running: Begun | None = None
        self.waiting: Begun | None = None
        self.passed_on: Begun | None = None
        self.place: tuple[float, Array] | None = None
        self.streamed = -np.inf
        self.halted = False
        self._gate: StreamGate | None = None

    def forget(self) -> None:
        """Forget where the robot was to go, and where it was."""
        self.waiting = self.passed_on = self.place = None

    def is_under_way(self, now: float) -> bool:
        """Whether a trajectory that was passed on has not ended at `now` [s]."""
        return self.passed_on is not None and now < self.passed_on[1] + self.passed_on[0].duration

    def check_allowed(self) -> None:
        """Refuse a reference after a stop."""
        if self.halted:
            raise InputError("the feedforward was stopped", "deactivate and activate it to go on")

    def wait(self, points: Reference, begin: float) -> None:
        """Keep a trajectory until its time comes."""
        self.waiting = (points, begin)

    def begin_waiting(self, now: float, measured: MotionState, limits: MotionLimits, near: float) -> None:
        """Follow the trajectory whose time has come, if the robot is there."""
        assert self.waiting is not None
        _check_begin(*self.waiting, now, measured, limits, near)
        self.running, self.waiting = self.waiting, None

    def begin_stream(self, measured: MotionState, limits: MotionLimits, near: float) -> None:
        """Follow points of a stream that begins where the robot is."""
        self._gate = StreamGate(limits, measured, near)

    def take_point(self, q: Array, dq: Array, ddq: Array, now: float) -> None:
        """Take the next point of the stream, shape (n,) each, or refuse it."""
        assert self._gate is not None
        self._gate.check(q, dq, ddq, now)
        self.waiting, self.streamed = None, now

    def brake(
        self, now: float, seen: MotionState | None, limits: MotionLimits, near: float, lead: float
    ) -> tuple[Reference, str] | None:
        """Return a stop of what was passed on, and why it passes a limit ("": it does not); None: nothing moves.

        It begins where the robot is `seen`, None if it is not; with the velocity of what was passed on while the robot
        follows that. lead: expected time [s] until the controller's first step along it.
        """
        passed = self.passed_on
        if passed is not None and self.is_under_way(now):
            q, dq = passed[0].at(now - passed[1])[:2]
            error = np.full_like(q, near)
        elif seen is not None and np.any(np.abs(np.nan_to_num(seen[1])) > REST_SPEED):
            q, dq, error = seen[0], np.nan_to_num(seen[1]), np.zeros_like(seen[0])
        else:
            return None
        if seen is not None:
            error = np.abs(seen[0] - q)
            if np.any(error > near):
                dq = np.where(np.isfinite(seen[1]), seen[1], dq)
            q = seen[0]
        stop = braking(limits, q, dq, error, lead, dense=True)
        self.passed_on = None
        try:
            ApprovedStop(stop.points, stop.expected, limits)
        except InputError as why:
            return stop.points, why.what
        return stop.points, ""


def check_reachable(
    points: Reference, begin: float, now: float, measured: MotionState, limits: MotionLimits, near: float
) -> None:
    """Refuse a trajectory that a controller, which goes to its first point by itself, would not reach in time."""
    ahead = begin + float(points.t[0]) - now
    try:
        _check_begin(points, begin, now, measured, limits, near)
    except InputError:
        if ahead <= 0:
            raise
        check_way(points, ahead, measured, limits)


def _check_begin(
    points: Reference, begin: float, now: float, measured: MotionState, limits: MotionLimits, near: float
) -> None:
    """Refuse a trajectory that is not where the robot is: its first point, or where it has come to by now."""
    first = points.q[0], np.zeros_like(points.q[0]) if points.dq is None else points.dq[0]
    if now - begin > points.t[0]:
        first = points.at(now - begin)[:2]
    check_start(first, measured, limits, near)
