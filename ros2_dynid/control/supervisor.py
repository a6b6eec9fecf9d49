"""Watching a robot that follows a trajectory: the first thing that is wrong, in words, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.reference import Reference
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class Tolerances:
    """What is still right: tracking error [rad or m], joint states not older than `stale` [s].

    overshoot: how far a position [rad or m] may leave its limits, and a velocity exceed its limit as a share, before
    the motion is stopped: sensors are noisy and a trajectory may lead right up to a limit.
    """

    tracking: float = 0.2
    stale: float = 0.1
    overshoot: float = 0.05


class Supervisor:
    """Compares joint states with the reference that is being followed and with the robot's limits."""

    def __init__(self, robot: Robot, tolerances: Tolerances) -> None:
        """Watch `robot`."""
        limits = [robot.joints[j - 1].limits for j in robot.active]
        self._names = robot.active_names
        self._tolerances = tolerances
        margin = tolerances.overshoot
        self._lower = np.array([limit.lower for limit in limits]) - margin
        self._upper = np.array([limit.upper for limit in limits]) + margin
        self._velocity = np.array([limit.velocity for limit in limits]) * (1 + margin)
        self._points: Reference | None = None
        self._begin = self._seen = 0.0
        self.worst_error = 0.0

    def begin(self, points: Reference, now: float) -> None:
        """Expect the robot on `points` from time `now` [s] on."""
        self._points, self._begin, self._seen = points, now, min(now, self._seen) if self._seen else now
        self.worst_error = 0.0

    def end(self) -> None:
        """Expect nothing more."""
        self._points = None

    @property
    def watching(self) -> bool:
        """Whether a motion is being watched."""
        return self._points is not None

    def reference(self, now: float) -> tuple[Array, Array]:
        """Return q and dq, shape (n,), of the reference at time `now` [s]."""
        assert self._points is not None
        q, dq, _, _ = self._points.at(now - self._begin)
        return q, dq

    def remaining(self, now: float) -> float:
        """Return the time [s] until the end of the motion."""
        assert self._points is not None
        return self._begin + self._points.duration - now

    def observe(self, q: Array, dq: Array, now: float, measured_at: float | None = None) -> str:
        """Return what is wrong with a joint state that comes `now` [s] and was measured_at [s], or nothing ("")."""
        self._seen = now
        if self._points is None:
            return ""
        if not np.all(np.isfinite(q)):
            return f"joint {self._names[int(np.argmax(~np.isfinite(q)))]}: its position is not a number"
        for outside, what in ((q < self._lower, "below its limit"), (q > self._upper, "above its limit")):
            if outside.any():
                j = int(np.argmax(outside))
                return f"joint {self._names[j]} is {what}: {q[j]:.3f}"
        fast = np.abs(dq) > self._velocity
        if fast.any():
            j = int(np.argmax(fast))
            return f"joint {self._names[j]} is faster than its limit: {dq[j]:.3f}"
        measured_at = now if measured_at is None else measured_at
        if measured_at < self._begin:  # the motion has not begun for the robot
            return ""
        error = np.abs(q - self.reference(measured_at)[0])
        self.worst_error = max(self.worst_error, float(error.max()))
        if self.worst_error > self._tolerances.tracking:
            j = int(np.argmax(error))
            return (
                f"joint {self._names[j]} is {error[j]:.3f} off its reference, more than {self._tolerances.tracking:g}"
            )
        return ""

    def silence(self, now: float) -> str:
        """Return what is wrong if joint states have not come for too long, or nothing ("")."""
        if self._points is None or now - self._seen <= self._tolerances.stale:
            return ""
        return f"no joint state for {now - self._seen:.3f} s, more than {self._tolerances.stale:g} s"
