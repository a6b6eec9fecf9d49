"""Simulated time without its leaps: a clock that is set ahead in mid-motion must not make the motion seem over."""

from __future__ import annotations

import threading

FASTEST = 100.0
"""Simulations run at most this many times faster than real time."""
STEP = 0.5
"""Longest step [s] between two messages of a simulated clock."""
STANDS = 2.0
"""A clock that stands for longer than this [s] of real time has died, and the simulation with it."""


class SteadyTime:
    """Any thread may ask. Time that goes back is passed on: it was set, and whoever moves a robot must stop it.

    When the simulated clock has died, time goes on as real time does, so that the silence of joint states is noticed.
    """

    def __init__(self) -> None:
        """Begin with the first time given."""
        self._lock = threading.Lock()
        self._leapt = 0.0
        self._simulated = self._now = 0.0
        self._changed = self._real = 0.0

    def at(self, simulated: float, real: float) -> float:
        """Return the time [s] when the simulated clock says `simulated` and the machine's own one `real` [s]."""
        with self._lock:
            if simulated != self._simulated:
                leap = simulated - self._leapt - self._now - STEP - FASTEST * (real - self._changed)
                if self._simulated > 0 and leap > 0:
                    self._leapt = simulated - self._now
                self._simulated, self._changed = simulated, real
            elif simulated > 0:
                self._leapt -= max(0.0, real - max(self._real, self._changed + STANDS))
            self._real = max(self._real, real)
            self._now = simulated - self._leapt
            return self._now
