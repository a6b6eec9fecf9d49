# SPDX-License-Identifier: Apache-2.0

"""Watching a robot that moves: the first thing that is wrong with its joint states, in words, or nothing ("").

Values that repeat bit by bit under a reference that moves show up as a tracking error, and are named for what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.joint_trust import CONFIRMED, FEWEST, REST_SPEED, REST_WINDOW, JointTrust
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.reference import Reference
from ros2_dynid.model.robot import Array

CLEARLY = 5.0
"""What moves this many times as fast as what counts for rest is seen to move, by a robot that lags, too."""
UNMOVED = 0.1
"""Share of the tracking tolerance below which a joint has not moved at all."""
STEP_SPEED = 1.5
"""Positions that change this many times as fast as the velocity limit are those of a step (an encoder that was reset, a
simulation that was begun anew), not of motion: joint states tell of motion above the limit long before."""


@dataclass(frozen=True, eq=False)
class StopStart:
    """Where a stop begins: q and dq, shape (n,), and how far the controller's own start may be off in all three.

    error, speed_error, doubt: as for control.stop.braking; dense: joint states have no velocities; follows: the robot
    is seen on its reference.
    """

    q: Array
    dq: Array
    error: Array
    speed_error: Array
    doubt: Array
    dense: bool
    follows: bool


class Supervisor(JointTrust):
    """Trust in the joint states of a robot that moves: they are compared with limits and with what is followed."""

    def __init__(self, limits: MotionLimits, settings: MotionSettings, jumped_at: float = -np.inf) -> None:
        """Watch the joints of `limits`; jumped_at: when [s] their positions have jumped, as far as others know."""
        super().__init__(settings.stale, limits.velocity, jumped_at)
        self.use(limits, settings)
        self._points: Reference | None = None
        self._begin = 0.0
        self._stopped: tuple[Reference, float] | None = None
        self._origin: Array | None = None
        self.worst_error = 0.0

    def use(self, limits: MotionLimits, settings: MotionSettings) -> None:
        """Watch by other limits and settings from now on."""
        self.limits, self.settings = limits, settings
        self.velocity, self.stale = limits.velocity, settings.stale

    # --- what is followed

    def follow(self, points: Reference, begin: float, *, stop: bool = False) -> None:
        """Expect the robot on `points` from time `begin` [s] on; stop: they stop what was followed until now."""
        if not stop:
            self._stopped = None
        elif self._stopped is None and self._points is not None:
            self._stopped = self._points, self._begin
        self._points, self._begin, self.worst_error = points, begin, 0.0
        self._origin = self.last.state.q if self._history else None

    def reference(self, now: float) -> tuple[Array, Array]:
        """Return q and dq, shape (n,), of the reference at time `now` [s]."""
        assert self._points is not None
        q, dq, _, _ = self._points.at(now - self._begin)
        return q, dq

    def followed(self, now: float) -> tuple[Reference, float]:
        """Return the reference that is followed, and the time of it [s] that holds now."""
        assert self._points is not None
        return self._points, max(now - self._begin, 0.0)

    @property
    def follows_something(self) -> bool:
        """Whether it is known what the robot is to follow."""
        return self._points is not None

    def stop_start(self, now: float, *, moved: bool) -> StopStart:
        """Return where a stop at `now` [s] begins: what is measured, or the reference if that is all there is.

        The velocity is the reference's while the robot follows it: measured ones are noisy. moved: the robot is to
        move along the reference; while it is being stopped what is measured counts.
        """
        error, settings = self.error(now), self.settings
        q, dq = self.reference(now)
        follows = moved and bool(np.all(error <= settings.tracking))
        known, speed_error = self.known(now) and not self.jumped, np.zeros_like(q)
        known = known and (follows or (self.confirmed and self.moves_steadily()))
        if not known:
            # It was not further off than the tolerance when it was last seen, and may have stood since.
            doubt = settings.tracking + self.unseen(now)
            return StopStart(
                q, dq, np.minimum(error, settings.tracking), speed_error, doubt, dense=False, follows=False
            )
        if not follows:
            braked = self.velocity_to_brake()
            dq, speed_error = braked, np.abs(braked - dq)
        seen = self.last.state.q
        since = min(max(now - self.last.measured_at, 0.0), settings.stale)
        way = q - self.reference(now - since)[0] if follows else since * dq
        doubt = np.abs(way) if follows else np.zeros_like(q)  # it may have stood since
        dense = bool(np.all(np.isnan(self.last.state.dq)))
        return StopStart(self.limits.not_beyond(seen + way, seen), dq, error, speed_error, doubt, dense, follows)

    def velocity_to_brake(self) -> Array:
        """Return the velocity seen, shape (n,), that a stop begins with; 0 where positions made a step."""
        seen = self.velocity_seen()
        return np.where(np.abs(seen) > STEP_SPEED * self.limits.velocity, 0.0, seen)

    def may_go_on(self) -> bool:
        """Whether a robot at rest may be one that goes on along what was stopped: that hardly moves at this time."""
        if self._stopped is None:
            return False
        points, begin = self._stopped
        t = self.last.measured_at - begin
        step = points.at(t)[0] - points.at(t - REST_WINDOW)[0]
        return t < points.duration and bool(np.all(np.abs(step) < CLEARLY * REST_SPEED * REST_WINDOW))

    def forget_stopped(self) -> None:
        """Expect nothing any more of what was stopped: somebody else moves the robot."""
        self._stopped = None

    def goes_on(self, now: float) -> bool:
        """Whether the robot is seen to move along what was stopped: it began so slowly that it seemed to rest."""
        if self._stopped is None or not self.known(now) or not self.moves():
            return False
        points, begin = self._stopped
        q, dq, _, _ = points.at(self.last.measured_at - begin)
        there = np.abs(self.last.state.q - q) <= self.settings.tracking
        as_fast = np.abs(self.velocity_seen() - dq) <= 0.5 * np.abs(dq) + REST_SPEED
        return bool(np.any(np.abs(dq) > REST_SPEED) and np.all(there & as_fast))

    def unseen(self, now: float) -> Array:
        """Return how far the reference has moved, shape (n,), since the robot was last seen."""
        before = self.last.measured_at if self._history else now
        return np.abs(self.reference(now)[0] - self.reference(min(before, now))[0])

    @property
    def until(self) -> float:
        """Time [s] at which the reference ends."""
        assert self._points is not None
        return self._begin + self._points.duration

    def rewind(self, now: float, shift: float) -> None:
        """Forget times of a clock that was set back by `shift` to `now` [s]; the reference goes on."""
        super().rewind(now, shift)
        self._begin -= shift
        if self._stopped is not None:
            self._stopped = self._stopped[0], self._stopped[1] - shift

    # --- what is wrong with the motion

    def problem(self) -> str:
        """Return what is wrong with the newest joint state of a robot that follows the reference, or nothing ("")."""
        return self._out_of_limits() or self._off_reference()

    def _out_of_limits(self) -> str:
        q, names, margin = self.last.state.q, self.limits.joint_names, self.settings.overshoot
        for outside, what in (
            (q < self.limits.lower - margin, "below its lower limit"),
            (q > self.limits.upper + margin, "above its upper limit"),
        ):
            if outside.any():
                j = int(np.argmax(outside))
                return f"joint {names[j]} is {what}: {q[j]:.3f}"
        allowed = self.limits.velocity * (1 + margin)
        span, step = self.way(CONFIRMED)
        if span < CONFIRMED:
            return ""
        mean, stated = step / span, self.last.state.dq
        fast = np.abs(mean) > allowed
        if np.any(np.abs(stated) > allowed):
            recent = np.array([sample.state.dq for sample in self.recent()])
            if len(recent) >= FEWEST:
                fast |= np.all(recent > allowed, axis=0) | np.all(recent < -allowed, axis=0)
        if fast.any():
            j = int(np.argmax(fast))
            speed = mean[j] if abs(mean[j]) > allowed[j] else stated[j]
            return f"joint {names[j]} is faster than its limit of {self.limits.velocity[j]:g}: {speed:.3f}"
        return ""

    def _off_reference(self) -> str:
        sample, names, tolerance = self.last, self.limits.joint_names, self.settings.tracking
        if self._points is None or sample.measured_at < self._begin:  # the motion has not begun for the robot
            return ""
        q = sample.state.q
        error = np.abs(q - self.reference(sample.measured_at)[0])
        self.worst_error = max(self.worst_error, float(error.max()))
        if not np.any(error > tolerance):
            return ""
        j = int(np.argmax(error))
        if self._origin is not None and np.all(np.abs(q - self._origin) < UNMOVED * tolerance):
            return (
                f"the controller did not take the trajectory: joint {names[j]} has not moved, its reference has by"
                f" {error[j]:.3f}; is the controller active?"
            )
        return f"joint {names[j]} is {error[j]:.3f} off its reference, more than {tolerance:g}"

    def error(self, now: float) -> Array:
        """Return |measured - reference|, shape (n,), for the newest joint state; zeros if there is none."""
        if self._points is None or not self._history:  # nothing to compare
            return np.zeros(len(self.limits.joint_names))
        return np.abs(self.last.state.q - self.reference(min(self.last.measured_at, now))[0])
