# SPDX-License-Identifier: Apache-2.0

"""Trust in joint states: which one is new, can be right, and is fresh enough to say where the robot is."""

from __future__ import annotations

import numpy as np

from ros2_dynid.control.feedforward_events import MeasuredState
from ros2_dynid.model.robot import Array, Robot

JUMP, NEAR, TRUST = 3.0, 0.15, 5.0
"""A position that changes by more than JUMP times what the velocity limit allows, and NEAR [rad or m], did not move. It
is not believed until it is near to the last one believed, or has not jumped for TRUST seconds: an encoder was set."""


class JointTrust:
    """The last joint state that was believed (`measured`, None: none yet) and when it arrived [s]."""

    def __init__(self) -> None:
        """Nothing has been measured yet."""
        self.measured: MeasuredState | None = None
        self.arrival = -np.inf
        self._seen: tuple[float, MeasuredState] | None = None  # the last joint state and when, believed or not
        self._jumped = -np.inf  # when positions have jumped last

    def forget(self) -> None:
        """Forget where the robot was; the next joint state is believed."""
        self.measured = None
        self.arrival = self._jumped = -np.inf

    def is_fresh(self, now: float, stale: float) -> bool:
        """Whether the last joint state believed is at most `stale` [s] old."""
        return now - self.arrival <= stale

    def take(self, state: MeasuredState, now: float, robot: Robot | None) -> str:
        """Take a joint state that comes `now` [s]; return what is wrong with it, or nothing ("").

        robot: whose velocity limits tell a jump, if known.
        """
        if not np.isfinite(state.q).all():
            k = int(np.argmin(np.isfinite(state.q)))
            return f"joint state of {state.joint_names[k]!r} is not finite: not used"
        if self._repeats(state):
            return ""
        jumping = self._jumping_joint(state, now, robot)
        settled = now - self._jumped >= TRUST or self._is_near(state.q)
        if settled or robot is None or robot.active_names != state.joint_names or self.measured is None:
            self.measured, self.arrival = state, now
        return f"joint state of {jumping!r} jumps further than the joint can move: not used" if jumping else ""

    def _repeats(self, state: MeasuredState) -> bool:
        """Whether a driver says the same again: its stamp, positions and velocities."""
        before = self.measured
        return (
            before is not None
            and state.stamp == before.stamp != 0
            and np.array_equal(state.q, before.q)
            and np.array_equal(state.dq, before.dq, equal_nan=True)
        )

    def _is_near(self, q: Array) -> bool:
        return self.measured is not None and bool(np.all(np.abs(q - self.measured.q) <= NEAR))

    def _jumping_joint(self, state: MeasuredState, now: float, robot: Robot | None) -> str:
        """Return the joint that has moved further than it can since the last joint state, or nothing ("")."""
        seen, self._seen = self._seen, (now, state)
        if robot is None or robot.active_names != state.joint_names or self.measured is None:
            return ""
        if seen is None or seen[1].joint_names != state.joint_names:
            return ""
        speed = np.array([robot.joints[j - 1].limits.velocity for j in robot.active])
        steps = np.abs(state.q - seen[1].q) > NEAR + JUMP * speed * max(now - seen[0], 1e-6)
        if not steps.any():
            return ""
        self._jumped = now
        return state.joint_names[int(np.argmax(steps))]
