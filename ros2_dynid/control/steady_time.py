# SPDX-License-Identifier: Apache-2.0

"""Simulated time without its leaps: a clock that is set in mid-motion must not make it seem over, or not begun."""

from __future__ import annotations

import threading

FASTEST = 100.0
"""Simulations run at most this many times faster than real time."""
STEP = 0.5
"""Longest step [s] between two messages of a simulated clock."""
BACK = 0.1
"""Threads that ask at the same time may see the clock go back by this [s]."""
AHEAD = 1.0
"""A stamp of the simulated time that is ahead of its clock by less than this [s] shows how late the clock's messages
are: they come ten times a second, or through a busy machine."""
STANDS = 2.0
"""A clock that stands for longer than this [s] of real time has died, and the simulation with it."""


class SteadyTime:
    """Any thread may ask. When the simulated clock has died, time goes on as real time does, so that the silence of
    joint states is noticed.
    """

    def __init__(self) -> None:
        """Begin with the first time given."""
        self.lock = threading.Lock()
        self._leapt = 0.0
        self._simulated = self._now = 0.0
        self._changed = self._real = 0.0
        self._stamp = 0.0

    def heard(self, stamp: float) -> None:
        """Take the stamp [s] of a joint state: the simulated time is at least that."""
        with self.lock:
            if not -BACK <= stamp - self._stamp <= 0.0:  # jitter does not take time back, a clock that was set does
                self._stamp = stamp

    def ns_of(self, stamp_ns: int) -> int:
        """Return a stamp [ns] of the simulated clock in the time that `at` gives; 0, for none, stays 0."""
        with self.lock:
            return stamp_ns - round(1e9 * self._leapt) if stamp_ns else 0

    def at(self, simulated: float, real: float) -> float:
        """Return the time [s] when the simulated clock says `simulated` and the machine's own one `real` [s]."""
        with self.lock:
            if 0.0 < self._stamp - simulated < AHEAD:
                simulated = self._stamp
            if simulated != self._simulated:
                step = simulated - self._leapt - self._now
                if self._simulated > 0 and not -BACK <= step <= STEP + FASTEST * (real - self._changed):
                    self._leapt = simulated - self._now
                self._simulated, self._changed = simulated, real
            elif simulated > 0:
                self._leapt -= max(0.0, real - max(self._real, self._changed + STANDS))
            self._real = max(self._real, real)
            self._now = simulated - self._leapt
            return self._now
