# SPDX-License-Identifier: Apache-2.0

"""Watching a robot that moves: the first thing that is wrong with its joint states, in words, or nothing ("").

What is known of the robot is judged by the value of the stamp, by the values themselves, and by when they came. Drivers
that stamp with zero are judged by arrival alone; values that repeat bit by bit under a reference that moves show up as
a tracking error, and are named for what they are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.reference import Reference
from ros2_dynid.model.joint_state import DISORDER, State
from ros2_dynid.model.robot import Array

CONFIRMED = 0.02
"""A velocity limit is passed when this long [s] of joint states say so, and at least FEWEST of them: drivers
differentiate positions with jitter, and a single sample 5 % over the limit is no motion."""
FEWEST = 3
REST_WINDOW, REST_SPEED = 0.1, 0.02
"""At rest: the mean speed over this window [s] is below this [rad/s or m/s]. Encoders of 1 mrad show up to 0.01."""
CLEARLY = 5.0
"""What moves this many times as fast as what counts for rest is seen to move, by a robot that lags, too."""
JUMP = 3.0
"""A position that changed by more than this many times what the velocity limit allows did not move: it is wrong."""
JUMP_SLACK = 0.02
"""Distance [rad or m] that noise and jitter of the stamps may add to a step."""
LATE = 2.0
"""A joint state measured more than this many times the longest silence ago does not tell where the robot is now."""
UNMOVED = 0.1
"""Share of the tracking tolerance below which a joint has not moved at all."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A joint state with its times [s] on our clock: when it came and when it was measured."""

    state: State
    came: float
    measured_at: float


class Supervisor:
    """Keeps the last joint states of a robot, and compares them with limits and with the reference being followed.

    jumped: positions have jumped since this was last set to False, at jumped_at [s]; where the robot is cannot be told
    from them.
    """

    def __init__(self, limits: MotionLimits, settings: MotionSettings, jumped_at: float = -np.inf) -> None:
        """Watch the joints of `limits`; jumped_at: when [s] their positions have jumped, as far as others know."""
        self.limits, self.settings = limits, settings
        self._history: deque[Sample] = deque(maxlen=2000)
        self._points: Reference | None = None
        self._begin = 0.0
        self._stopped: tuple[Reference, float] | None = None
        self._origin: Array | None = None
        self._distrust = ""
        self._repeats = False
        self.jumped, self.jumped_at = False, jumped_at
        self.heard = -np.inf
        self.worst_error = 0.0

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

    def may_go_on(self) -> bool:
        """Whether a robot at rest may be one that goes on along what was stopped: that hardly moves at this time."""
        if self._stopped is None:
            return False
        points, begin = self._stopped
        t = self.last.measured_at - begin
        step = points.at(t)[0] - points.at(t - REST_WINDOW)[0]
        return t < points.duration and bool(np.all(np.abs(step) < CLEARLY * REST_SPEED * REST_WINDOW))

    def goes_on(self, now: float) -> bool:
        """Whether the robot is seen to move along what was stopped: it began so slowly that it seemed to rest."""
        if self._stopped is None or not self.known(now) or not self.moves():
            return False
        points, begin = self._stopped
        q, dq, _, _ = points.at(self.last.measured_at - begin)
        there = np.abs(self.last.state.q - q) <= self.settings.tracking
        as_fast = np.abs(self.velocity() - dq) <= 0.5 * np.abs(dq) + REST_SPEED
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

    # --- what is known of the robot

    @property
    def last(self) -> Sample:
        """The newest joint state."""
        return self._history[-1]

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The last joint states, newest last, as they are at this moment: any thread may ask."""
        return tuple(self._history)

    def known(self, now: float) -> bool:
        """Whether there is a joint state of all joints that is new, and that can be right."""
        return not self.unknown(now)

    def unknown(self, now: float) -> str:
        """Return why the position of the robot is not known, or nothing ("")."""
        if not self._history and not self._distrust:
            return "no joint state of all joints has come yet"
        return self._distrust or self.silence(now)

    def take(self, state: State, now: float, measured_at: float) -> str:
        """Take a joint state that comes `now` and was measured_at [s]; return what is wrong with the data, or ""."""
        if not np.all(np.isfinite(state.q)):
            j = int(np.argmax(~np.isfinite(state.q)))
            self._distrust = f"joint {state.joint_names[j]}: its position is not a number"
            return self._distrust
        if self._history:
            before = self.last
            if state.stamp != 0 and state.stamp == before.state.stamp:
                self._repeats = True
                return ""  # nothing new: it does not count as heard
            if before.measured_at - DISORDER <= measured_at < before.measured_at:
                return ""  # overtaken on the way: something newer is known
            if measured_at < before.measured_at:  # a clock that was set back: what came before cannot be compared
                self._history.clear()
            else:
                step = np.abs(state.q - before.state.q)
                span = max(measured_at - before.measured_at, now - before.came)
                jumped = step > JUMP * self.limits.velocity * span + JUMP_SLACK
                if jumped.any() and span < self.settings.stale:
                    j = int(np.argmax(jumped))
                    self._distrust = (
                        f"joint {state.joint_names[j]} jumped by {step[j]:.3f} in {span:.3f} s: its position is wrong"
                    )
                    self.jumped, self.jumped_at = True, now
                    self._history.clear()
                    self._keep(state, now, measured_at)
                    return self._distrust
                if span >= self.settings.stale:  # between then and now anything may have happened
                    self._history.clear()
        self._repeats, self._distrust = False, ""
        self._keep(state, now, measured_at)
        return ""

    def _keep(self, state: State, now: float, measured_at: float) -> None:
        self.heard = now
        self._history.append(Sample(state, now, measured_at))
        while len(self._history) > FEWEST and self._history[1].came < now - 2 * REST_WINDOW:
            self._history.popleft()

    def silence(self, now: float) -> str:
        """Return what is wrong if no new joint state has come for too long, or an old one, or nothing ("")."""
        if now - self.heard <= self.settings.stale:
            late = now - self.last.measured_at if self._history else 0.0
            return f"the joint states come {late:.3f} s late" if late > LATE * self.settings.stale else ""
        if self._repeats:
            return f"the joint states have repeated the same stamp for {now - self.heard:.3f} s: their source is frozen"
        return f"no joint state for {now - self.heard:.3f} s, more than {self.settings.stale:g} s"

    def velocity(self) -> Array:
        """Return the mean velocity, shape (n,), over the last CONFIRMED seconds of positions; 0 if not known."""
        span, step = self._span(CONFIRMED)
        return step / span if span > 0 else np.zeros(len(self.limits.joint_names))

    def moves_steadily(self) -> bool:
        """Whether the positions of the last CONFIRMED seconds lie on a line, as motion does within so short a time.

        Those of two drivers in turn, or before and after a step, do not: their velocity means nothing.
        """
        since = self.last.measured_at - CONFIRMED - 1e-6
        recent = [sample for sample in self._history if sample.measured_at >= since]
        t = np.array([sample.measured_at for sample in recent])
        q = np.array([sample.state.q for sample in recent])
        t, q = t - t.mean(), q - q.mean(axis=0)
        slope = t @ q / max(float(t @ t), 1e-12)
        return bool(np.all(np.abs(q - np.outer(t, slope)) <= JUMP_SLACK / 2))

    def at_rest(self) -> bool:
        """Whether the last joint states, over REST_WINDOW seconds, show no motion. Any thread may ask."""
        return self._rests() is True

    def moves(self) -> bool:
        """Whether the last joint states, over REST_WINDOW seconds, show motion."""
        return self._rests() is False

    def _rests(self) -> bool | None:
        """Return whether there is no motion, or None if the robot has not been seen for long enough."""
        span, step = self._span(REST_WINDOW)
        return bool(np.all(np.abs(step) < REST_SPEED * span)) if span >= 0.9 * REST_WINDOW else None

    def _span(self, seconds: float) -> tuple[float, Array]:
        """Return the time [s] and the way, shape (n,), between the newest state and the one `seconds` before it."""
        history = self.samples
        if not history:
            return 0.0, np.zeros(len(self.limits.joint_names))
        newest = first = history[-1]
        for sample in reversed(history):
            first = sample
            if newest.measured_at - sample.measured_at >= seconds:
                break
        return newest.measured_at - first.measured_at, newest.state.q - first.state.q

    def rewind(self, now: float, shift: float) -> None:
        """Forget times of a clock that was set back by `shift` to `now` [s]; joint states must come anew.

        The reference goes on from where it was.
        """
        self._history.clear()
        self._begin -= shift
        if self._stopped is not None:
            self._stopped = self._stopped[0], self._stopped[1] - shift
        self.heard, self.jumped_at = min(self.heard, now), min(self.jumped_at, now)

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
        span, step = self._span(CONFIRMED)
        if span < CONFIRMED:
            return ""
        mean, stated = step / span, self.last.state.dq
        fast = np.abs(mean) > allowed
        if np.any(np.abs(stated) > allowed):
            since = self.last.measured_at - CONFIRMED - 1e-6
            recent = np.array([sample.state.dq for sample in self._history if sample.measured_at >= since])
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
