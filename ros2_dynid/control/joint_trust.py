# SPDX-License-Identifier: Apache-2.0

"""Trust in joint states: which one is new, can be right, and is fresh enough to say where the robot is.

What is known of the robot is judged by the value of the stamp, by the values themselves, and by when they came. Drivers
that stamp with zero are judged by arrival alone.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from ros2_dynid.control.motion_limits import fastest_joint
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import DISORDER, State
from ros2_dynid.model.robot import Array, Robot

CONFIRMED = 0.02
"""A velocity is what this long [s] of joint states say: drivers differentiate positions with jitter."""
FEWEST = 3
"""Joint states that are kept at least."""
REST_WINDOW, REST_SPEED = 0.1, 0.02
"""At rest: the mean speed over this window [s] is below this [rad/s or m/s]. Encoders of 1 mrad show up to 0.01."""
JUMP = 3.0
"""A position that changed by more than this many times what the velocity limit allows did not move: it is wrong."""
JUMP_SLACK = 0.02
"""Distance [rad or m] that noise and jitter of the stamps may add to a step."""
NEAR, TRUST = 0.15, 5.0
"""After a jump a position is not believed until it is this near [rad or m] to the last one believed, or has not jumped
for TRUST seconds: an encoder was set."""
UNSEEN = 0.5
"""Silence [s] over which the velocity limit says how far the robot may have come. After a longer one a position is only
believed near the last one: it may be another robot's, whose driver has taken the place of the one that is silent."""
LATE = 2.0
"""A joint state measured more than this many times the longest silence ago does not tell where the robot is now."""


class JointStateArrived(NamedTuple):
    """A joint state came at `now` [s], measured at this time [s] of our clock."""

    now: float
    state: State
    measured_at: float


class JointTrust:
    """The last joint states of a robot, and the last one believed (None: none yet).

    velocity: limits, shape (n,), infinite where not known; stale: longest silence [s]; heard: when [s] a new one came
    last; jumped: positions have jumped since this was last set to False, at jumped_at [s]; doubt: why the newest joint
    state is not believed, nothing ("") if it is; lost: since a silence the robot is not where it was.
    """

    def __init__(self, stale: float, velocity: Array | None = None, jumped_at: float = -np.inf) -> None:
        """Nothing has come yet; jumped_at: when [s] positions have jumped, as far as others know."""
        self.stale = stale
        self.velocity = np.empty(0) if velocity is None else velocity
        self.believed: JointStateArrived | None = None
        self.jumped, self.jumped_at = False, jumped_at
        self.heard = -np.inf
        self.doubt, self.lost = "", False
        self._history: deque[JointStateArrived] = deque(maxlen=2000)
        self._distrust = ""
        self._repeats = False

    # --- what comes

    def take(self, event: JointStateArrived) -> str:
        """Take a joint state; return what is wrong with the data, or nothing ("")."""
        now, state, measured_at = event
        if not np.isfinite(state.q).all():
            j = int(np.argmin(np.isfinite(state.q)))
            self._distrust = self.doubt = f"joint {state.joint_names[j]}: its position is not a number"
            return self._distrust
        if not self._history:
            return self._keep(event, np.inf)
        before = self._history[-1]
        if self._is_repeated(state, before.state):
            self._repeats = True
            return ""  # nothing new: it does not count as heard
        if before.measured_at - DISORDER <= measured_at < before.measured_at:
            return ""  # overtaken on the way: something newer is known
        if measured_at < before.measured_at:  # a clock that was set back: what came before cannot be compared
            self._history.clear()
            return self._keep(event, now - before.now)
        span = max(measured_at - before.measured_at, now - before.now, 1e-6)
        if span >= self.stale:  # between then and now anything may have happened
            self._history.clear()
            return self._keep(event, span)
        step = np.abs(state.q - before.state.q)
        far = step > JUMP * span * self.velocity + JUMP_SLACK
        if far.any():
            j = int(np.argmax(far))
            self._history.clear()
            self.jumped, self.jumped_at = True, now
            self._keep(event, span)
            self._distrust = (
                f"joint {state.joint_names[j]} jumped by {step[j]:.3f} in {span:.3f} s: its position is wrong"
            )
            return self._distrust
        return self._keep(event, span)

    def take_anywhere(self, event: JointStateArrived) -> None:
        """Take a joint state as `take` does, for somebody to whom the robot may be elsewhere after a silence."""
        self.take(event)
        if self.lost:
            self.forget()
            self.take(event)

    def forget(self) -> None:
        """Forget where the robot was; the next joint state is believed."""
        self.believed, self.jumped_at, self.lost = None, -np.inf, False
        self._history.clear()

    def rewind(self, now: float, shift: float) -> None:
        """Forget times of a clock that was set back by `shift` to `now` [s]; joint states must come anew."""
        self._history.clear()
        self.believed = None
        self.heard, self.jumped_at = min(self.heard, now), min(self.jumped_at, now)

    def _keep(self, event: JointStateArrived, span: float) -> str:
        """Keep a joint state that comes `span` [s] after the one before."""
        self._repeats, self._distrust = False, ""
        self.heard = event.now
        self._believe(event, span)
        history = self._history
        history.append(event)
        while len(history) > FEWEST and history[1].now < event.now - 2 * REST_WINDOW:
            history.popleft()
        return ""

    def _believe(self, event: JointStateArrived, span: float) -> None:
        """Believe a joint state that comes `span` [s] after the one before, unless the robot cannot be there."""
        before, self.doubt = self.believed, ""
        calm = not self.lost and event.now - self.jumped_at >= TRUST
        if before is None or (calm and span < self.stale):
            self.believed = event
            return
        away = np.abs(event.state.q - before.state.q)
        if span >= self.stale:
            reach = NEAR + span * self.velocity if span < UNSEEN else np.full_like(away, NEAR)
            if not self.lost and np.any(away > reach):
                self.lost, self.jumped_at = True, event.now
        if np.all(away <= NEAR):
            self.lost = False
        elif self.lost or not calm:
            what = "is not where it was last seen" if self.lost else "has jumped"
            self.doubt = f"joint {event.state.joint_names[int(np.argmax(away))]!r} {what}: its positions are not used"
            return
        self.believed = event

    @staticmethod
    def _is_repeated(state: State, before: State) -> bool:
        """Whether a driver says the same again: its stamp, positions and velocities."""
        return (
            state.stamp == before.stamp != 0
            and np.array_equal(state.q, before.q)
            and np.array_equal(state.dq, before.dq, equal_nan=True)
        )

    # --- where the robot is

    def seen(self, now: float) -> State | None:
        """Return the last joint state believed, None if it is too old to say where the robot is."""
        believed = self.believed
        return None if believed is None or now - believed.now > self.stale else believed.state

    def known_motion(self, now: float) -> tuple[Array, Array]:
        """Return q and dq, shape (n,), as measured; refuse what needs them if the robot is not seen."""
        seen = self.seen(now)
        if seen is None:
            raise InputError("the position of the robot is not known", "check the topic joint_states")
        return seen.q, seen.dq

    def motion_text(self, now: float, robot: Robot | None) -> str:
        """Return in words what is measured of the robot's motion."""
        seen = self.seen(now)
        if seen is None or robot is None:
            return "whether the robot moves is not known, joint states are missing"
        if not np.isfinite(seen.dq).all():
            return "whether the robot moves is not known, joint states have no velocities"
        return fastest_joint(robot, seen.dq) if np.any(np.abs(seen.dq) > REST_SPEED) else "the robot was at rest"

    @property
    def last(self) -> JointStateArrived:
        """The newest joint state."""
        return self._history[-1]

    @property
    def samples(self) -> tuple[JointStateArrived, ...]:
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

    def silence(self, now: float) -> str:
        """Return what is wrong if no new joint state has come for too long, or an old one, or nothing ("")."""
        if now - self.heard <= self.stale:
            late = now - self.last.measured_at if self._history else 0.0
            return f"the joint states come {late:.3f} s late" if late > LATE * self.stale else ""
        if self._repeats:
            return f"the joint states have repeated the same stamp for {now - self.heard:.3f} s: their source is frozen"
        return f"no joint state for {now - self.heard:.3f} s, more than {self.stale:g} s"

    # --- how it moves

    def velocity_seen(self) -> Array:
        """Return the mean velocity, shape (n,), over the last CONFIRMED seconds of positions; 0 if not known."""
        span, step = self.way(CONFIRMED)
        return step / span if span > 0 else np.zeros(len(self.velocity))

    @property
    def confirmed(self) -> bool:
        """Whether the newest joint state may be acted upon: it is believed, and others have come since a silence.

        The first one after a silence cannot be told from a wrong one: the robot may have come far meanwhile.
        """
        return not self.doubt and len(self._history) >= FEWEST

    def moves_steadily(self) -> bool:
        """Whether the positions of the last CONFIRMED seconds lie on a line, as motion does within so short a time.

        Those of two drivers in turn, or before and after a step, do not: their velocity means nothing.
        """
        recent = self.recent()
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
        span, step = self.way(REST_WINDOW)
        return bool(np.all(np.abs(step) < REST_SPEED * span)) if span >= 0.9 * REST_WINDOW else None

    def recent(self) -> list[JointStateArrived]:
        """Return the joint states of the last CONFIRMED seconds."""
        since = self.last.measured_at - CONFIRMED - 1e-6
        return [sample for sample in self._history if sample.measured_at >= since]

    def way(self, seconds: float) -> tuple[float, Array]:
        """Return the time [s] and the way, shape (n,), between the newest state and the one `seconds` before it."""
        history = self.samples
        if not history:
            return 0.0, np.zeros(len(self.velocity))
        newest = first = history[-1]
        for sample in reversed(history):
            first = sample
            if newest.measured_at - sample.measured_at >= seconds:
                break
        return newest.measured_at - first.measured_at, newest.state.q - first.state.q
