"""Simulated time without its leaps: a clock that is set ahead in mid-motion must not make the motion seem over."""

from __future__ import annotations

import threading

FASTEST = 100.0
"""Simulations run at most this many times faster than real time."""
STEP = 0.5
"""Longest step [s] between two messages of a simulated clock."""


class SteadyTime:
    """Any thread may ask. Time that goes back is passed on: it was set, and whoever moves a robot must stop it."""

    def __init__(self) -> None:
        """Begin with the first time given."""
        self._lock = threading.Lock()
        self._leapt = 0.0
        self._last, self._real = 0.0, 0.0

    def at(self, simulated: float, real: float) -> float:
        """Return the time [s] when the simulated clock says `simulated` and the machine's own one `real` [s]."""
        with self._lock:
            now = simulated - self._leapt
            if self._last > 0 and now - self._last > STEP + FASTEST * (real - self._real):
                self._leapt += now - self._last
                now = self._last
            self._last, self._real = now, real
            return now
