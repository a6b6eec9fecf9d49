# SPDX-License-Identifier: Apache-2.0

"""The motion behind measured positions, at the time of one of them, for comparing measured with predicted torque.

Positions of a short window are fitted by a cubic in the time since its middle, joint by joint: its derivatives there
are velocity and acceleration without delay, whatever the rate and however uneven the stamps. What is known is half a
window old, which a plot does not mind; its stamp is that of the joint state it belongs to.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from ros2_dynid.model.robot import Array

WINDOW = 0.06
"""Length of the window [s]: up to 3 Hz an acceleration comes out within a few percent."""
FEWEST, MOST = 7, 64
"""Joint states in a window; of a quicker stream only as many as are needed are kept."""
BREAK = 0.5
"""A pause longer than this share of the window breaks the stream, as a clock that jumps back does."""


@dataclass(frozen=True)
class FittedMotion:
    """A joint state with its acceleration: stamp [ns]; q as measured, dq and ddq as fitted, each of shape (n,)."""

    stamp: int
    q: Array
    dq: Array
    ddq: Array


class MotionWindow:
    """Takes joint states as they come; `middle` is the motion in the middle of the last ones."""

    def __init__(self, window: float = WINDOW) -> None:
        """Start with nothing seen; `window` [s]."""
        self._window = window
        self._states: deque[tuple[int, Array]] = deque(maxlen=MOST)

    def take(self, stamp: int, q: Array) -> None:
        """Take positions, shape (n,), measured at `stamp` [ns]; the stream breaks where it must not be fitted over."""
        if not np.all(np.isfinite(q)):
            self._states.clear()
            return
        if self._states:
            pause = 1e-9 * (stamp - self._states[-1][0])
            if pause <= 0 or pause > max(BREAK * self._window, 3 * self._period()):
                self._states.clear()
            elif pause < self._window / MOST:
                return
        self._states.append((stamp, q.copy()))
        while len(self._states) > FEWEST and stamp - self._states[1][0] > 1e9 * self._window:
            self._states.popleft()

    def middle(self) -> FittedMotion | None:
        """Return the motion in the window's middle, or None until there is a whole window."""
        states = list(self._states)
        if len(states) < FEWEST or self._span() < 0.9 * self._window:
            return None
        states = states[1 - len(states) % 2 :]  # as many before the middle one as after it
        stamp, q = states[len(states) // 2]
        t = 1e-9 * np.array([at - stamp for at, _ in states], dtype=float)
        scale = float(np.abs(t).max())
        positions = np.array([row for _, row in states]) - q
        powers = (t / scale)[:, None] ** np.arange(4)
        _, dq, ddq, _ = np.linalg.lstsq(powers, positions, rcond=None)[0]
        return FittedMotion(stamp, q, dq / scale, 2 * ddq / scale**2)

    def _span(self) -> float:
        return 1e-9 * (self._states[-1][0] - self._states[0][0])

    def _period(self) -> float:
        return self._span() / (len(self._states) - 1) if len(self._states) > 1 else self._window
