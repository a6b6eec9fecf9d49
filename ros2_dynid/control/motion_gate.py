# SPDX-License-Identifier: Apache-2.0

"""The motion gate: every trajectory and every reference that moves a robot is checked here, and refused in one line.

Checking a long trajectory takes a while, so it is done before, by whoever prepares it: an `ApprovedTrajectory` checks
itself when it is made. What is sent must have been checked for the very limits that hold now, and must begin where the
robot is. A limit that is not known is infinite, and is not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference, check_end, reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array

SHARE = 0.02
"""A velocity, acceleration or effort may exceed its limit by this share: what interpolation between few points adds to
a plan that uses its limits to the full."""
SLACK = 1e-6
"""Excess of a position [rad or m] that is rounding."""
WITHIN = np.linspace(0.0, 1.0, 11)
"""Where a segment is looked at; its ends are among them."""
START_SPEED = 0.2
"""Share of its velocity limit by which a joint's speed may differ from the first one of a reference: drivers
differentiate positions with jitter."""
LOOK_BACK = 0.1
"""A streamed point is compared with the last one, and with one that is at least this old [s]: a jump shows in the
first, a stream that creeps faster than it says in the second, though the times of points jitter."""
LARGEST = float(np.finfo(float).max)
"""Bounds of a streamed value that has no limit: what is not finite is beyond them."""


@dataclass(frozen=True, eq=False)
class ApprovedTrajectory:
    """A trajectory from rest to rest that may be sent: making one checks joints, numbers, times, ends and limits.

    start: where the robot is, shape (n,), if that matters: one beyond a position limit may come back from there.
    """

    points: Reference
    limits: MotionLimits
    start: Array | None = None

    def __post_init__(self) -> None:
        """Refuse what must not be sent."""
        points, limits = self.points, self.limits
        _check_command(points, limits)
        if points.dq is None or np.any(np.abs(points.dq[0]) > 1e-9):
            raise InputError("the trajectory does not begin at rest", "begin it with zero velocities")
        _check_range(points, limits if self.start is None else limits.reaching(self.start))


@dataclass(frozen=True, eq=False)
class ApprovedStop:
    """A stop that may be sent: making one checks it; `expected` is the motion from the state that it begins in.

    A robot that is outside of its limits already must be allowed to stop there: the limits reach to its state.
    """

    points: Reference
    expected: Reference
    limits: MotionLimits

    def __post_init__(self) -> None:
        """Refuse what must not be sent."""
        limits, expected = self.limits, self.expected
        _check_command(self.points, limits)
        q, dq = expected.q[0], expected.at(float(expected.t[0]) + 1e-9)[1]
        harder = np.maximum(limits.acceleration, limits.deceleration)
        _check_range(expected, replace(limits.reaching(q, dq), acceleration=harder))


class MotionGate:
    """Sends what was checked by `publish(points, delay, number)`, which returns when [s] it was sent.

    number: of the last command; forced: why the last stop was sent though it passes a limit, nothing ("") if it does
    not.
    """

    def __init__(self, publish: Callable[[Reference, float, int], float]) -> None:
        """Nothing has been sent yet."""
        self._publish = publish
        self.number = 0
        self.forced = ""

    def send(self, trajectory: ApprovedTrajectory, limits: MotionLimits, q: Array, delay: float = 0.0) -> float:
        """Send and return when; q, shape (n,): where the robot is. The first point must be near enough to it.

        A controller goes from where it is, or from what it desired, to the first point by itself, within the first
        point's time t1: by a cubic, whose velocity reaches 1.5 d / t1 and whose acceleration reaches 6 d / t1^2.
        """
        if trajectory.limits is not limits:
            raise InputError("the limits have changed since the trajectory was checked", "start again")
        points = trajectory.points
        d, t1 = np.abs(points.q[0] - q), float(points.t[0]) + delay
        if not np.all((1.5 * d / t1 <= limits.velocity) & (6 * d / t1**2 <= limits.acceleration)):
            j = int(np.argmax(6 * d / t1**2 / limits.acceleration))
            raise InputError(
                f"the trajectory begins {d[j]:.3g} from joint {limits.joint_names[j]!r}", "start again from there"
            )
        return self._send(points, delay)

    def send_stop(self, stop: ApprovedStop) -> float:
        """Send a stop that keeps the limits, and return when."""
        self.forced = ""
        return self._send(stop.points, 0.0)

    def force_stop(self, points: Reference, limits: MotionLimits, reason: str) -> float:
        """Send a stop though it passes a limit, for this reason, and return when: not to stop would be worse."""
        _check_command(points, limits)
        self.forced = reason
        return self._send(points, 0.0)

    def _send(self, points: Reference, delay: float) -> float:
        self.number += 1
        return self._publish(points, delay, self.number)


# --- references that others send


def check_trajectory(points: Reference, limits: MotionLimits, start: Array | None = None) -> None:
    """Refuse a whole trajectory of somebody else: form, rest at the end, limits of position, velocity, acceleration.

    It may begin now and in motion; whether the robot is there is `check_start`'s. start: as for ApprovedTrajectory.
    """
    if len(points.t) > 1:
        _check_form(points, limits)
    else:
        check_end(points)
    _check_range(points, limits if start is None else limits.reaching(start))


def check_start(first: tuple[Array, Array], measured: tuple[Array, Array], limits: MotionLimits, near: float) -> None:
    """Refuse a reference whose first q and dq, shape (n,), are not where the robot is: `measured` q and dq.

    near: how far a position may be off [rad or m]. A measured speed that is no number is not compared.
    """
    distance = np.abs(first[0] - measured[0])
    if np.any(distance > near):
        j = int(np.argmax(distance))
        raise InputError(
            f"the reference begins {distance[j]:.3g} from joint {limits.joint_names[j]!r}, more than {near:g}",
            "begin it where the robot is",
        )
    apart = np.abs(first[1] - np.where(np.isfinite(measured[1]), measured[1], first[1]))
    excess = apart - START_SPEED * limits.velocity
    if np.any(excess > 0):
        j = int(np.argmax(excess))
        raise InputError(
            f"the reference begins with a speed {apart[j]:.3g} apart from that of joint {limits.joint_names[j]!r}",
            "begin it with the robot's speed",
        )


def check_way(points: Reference, t1: float, measured: tuple[Array, Array], limits: MotionLimits) -> None:
    """Refuse a trajectory that a controller would not reach from q and dq within the limits: by a cubic in t1 [s]."""
    still = np.zeros_like(points.q[0])
    dq_from = np.where(np.isfinite(measured[1]), measured[1], still)
    dq_to = still if points.dq is None else points.dq[0]
    way = reference(
        points.joint_names,
        np.array([0.0, t1]),
        np.stack((measured[0], points.q[0])),
        np.stack((dq_from, dq_to)),
    )
    _check_range(way, limits.reaching(measured[0]), "the way to the reference's start: ")


def check_efforts(tau: Array, effort: Array, joint_names: tuple[str, ...]) -> None:
    """Refuse a trajectory whose torques tau, shape (K, n), pass the effort limits, shape (n,)."""
    if not np.isfinite(tau).all():
        raise InputError("a torque along the trajectory is not finite", "give a trajectory with reasonable numbers")
    _refuse_excess("effort", np.abs(tau).max(axis=0) - effort, SHARE * effort, joint_names)


class StreamGate:
    """Checks the points of one stream; quick, since a thousand come a second.

    Beside the limits of each point, the way from the last point and from one LOOK_BACK ago is bounded by the velocity
    limits: a stream that jumps is refused whatever velocities it claims.
    """

    def __init__(self, limits: MotionLimits, measured: tuple[Array, Array], near: float) -> None:
        """Begin a stream where the robot is: q and dq, shape (n,); near: distance [rad or m] that may be off."""
        self._limits, self._measured, self._near = limits.reaching(measured[0]), measured, near
        reach = self._limits
        lower, upper = np.nan_to_num(reach.lower - SLACK), np.nan_to_num(reach.upper + SLACK)
        most = [np.minimum(x, LARGEST / 2) * (1 + SHARE) for x in (reach.velocity, reach.acceleration)]
        self._lower, self._upper = lower.tolist(), upper.tolist()
        self._most = (*most[0].tolist(), *most[1].tolist())
        self._speeds = most[0].tolist()
        self._last = self._anchor = self._next = (-np.inf, [0.0])  # times [s] and positions, set by the first point

    def check(self, q: Array, dq: Array, ddq: Array, now: float) -> None:
        """Refuse a point q, dq, ddq, shape (n,), that comes `now` [s]."""
        values = q.tolist()
        if self._last[0] == -np.inf:
            self._check_first(q, dq, ddq)
            self._last = self._anchor = self._next = (now, values)
        for most, value in zip(self._most, (*dq.tolist(), *ddq.tolist()), strict=True):
            if not -most <= value <= most:
                self._refuse(q, dq, ddq)
        (then, last), (before, anchor), near = self._last, self._anchor, self._near
        passed, long = max(now - then, 0.0), max(now - before, 0.0)
        rows = zip(values, self._lower, self._upper, self._speeds, last, anchor, strict=True)
        for value, lower, upper, speed, old, older in rows:
            if not lower <= value <= upper:
                self._refuse(q, dq, ddq)
            if abs(value - old) > near + speed * passed:
                self._refuse_jump(q, last, passed)
            if abs(value - older) > near + speed * long:
                self._refuse_jump(q, anchor, long)
        self._last = (now, values)
        if now - self._next[0] >= LOOK_BACK:
            self._anchor, self._next = self._next, self._last

    def _check_first(self, q: Array, dq: Array, ddq: Array) -> None:
        """Refuse a first point that passes a limit, or is not where the robot is."""
        self._refuse(q, dq, ddq)
        check_start((q, dq), self._measured, self._limits, self._near)

    def _refuse(self, q: Array, dq: Array, ddq: Array) -> None:
        """Refuse a point that is not finite or passes a limit, and say which."""
        names = self._limits.joint_names
        for kind, values in (("position", q), ("velocity", dq), ("acceleration", ddq)):
            if not np.all(np.isfinite(values)):
                j = int(np.argmin(np.isfinite(values)))
                raise InputError(f"the {kind} of joint {names[j]!r} is not finite", "send numbers")
        _check_samples(q[None], dq[None], ddq[None], self._limits)

    def _refuse_jump(self, q: Array, before: list[float], passed: float) -> None:
        excess = np.abs(q - np.array(before)) - np.array(self._speeds) * passed - self._near
        j = int(np.argmax(excess))
        raise InputError(
            f"the stream's position of joint {self._limits.joint_names[j]!r} jumps {excess[j]:.3g} further than its"
            " velocity limit allows",
            "stream a continuous motion",
        )


# --- what each check looks at


def _check_command(points: Reference, limits: MotionLimits) -> None:
    """Refuse what a joint trajectory controller must not get: as _check_form, and a first point that is due now."""
    _check_form(points, limits)
    if points.t[0] <= 0:
        raise InputError("the times of the trajectory do not increase, or start now", "nothing is sent")


def _check_form(points: Reference, limits: MotionLimits) -> None:
    if points.joint_names != limits.joint_names:
        raise InputError(
            f"the trajectory is for {', '.join(points.joint_names)}",
            f"the robot's joints are {', '.join(limits.joint_names)}, in this order",
        )
    for values in (points.t, points.q, points.dq, points.ddq, points.tau):
        if values is not None and not np.all(np.isfinite(values)):
            raise InputError("the trajectory holds a value that is not finite", "nothing is sent")
    if points.t[0] < 0 or np.any(np.diff(points.t) <= 0):
        raise InputError("the times of the trajectory do not increase, or start now", "nothing is sent")
    if points.dq is None:
        raise InputError("the trajectory has no velocities", "give velocities in every point")
    check_end(points)


def _check_range(points: Reference, limits: MotionLimits, where: str = "") -> None:
    _check_samples(*points.within(WITHIN), limits, where)


def _check_samples(q: Array, dq: Array, ddq: Array, limits: MotionLimits, where: str = "") -> None:
    """Refuse motion, shape (N, n) each, that passes a limit."""
    names, velocity, acceleration = limits.joint_names, limits.velocity, limits.acceleration
    beyond = np.maximum(q - limits.upper, limits.lower - q).max(axis=0)
    _refuse_excess("position", beyond, np.full_like(beyond, SLACK), names, where)
    _refuse_excess("velocity", np.abs(dq).max(axis=0) - velocity, SHARE * velocity, names, where)
    _refuse_excess("acceleration", np.abs(ddq).max(axis=0) - acceleration, SHARE * acceleration, names, where)


def _refuse_excess(kind: str, excess: Array, allowed: Array, names: tuple[str, ...], where: str = "") -> None:
    """Name the joint that passes its limit by more than is allowed, shape (n,) each."""
    wrong = excess > allowed
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InputError(
            f"{where}the {kind} of joint {names[j]!r} would pass its limit by {excess[j]:.3g}", "nothing is sent"
        )
