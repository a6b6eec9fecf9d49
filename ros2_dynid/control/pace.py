# SPDX-License-Identifier: Apache-2.0

"""Real time in fixed periods: how many are due, and which stamp belongs to each."""

from __future__ import annotations


class Pace:
    """Periods of `period_ns` counted from `now_ns`; the clock of the stamps is the one that messages carry [ns]."""

    def __init__(self, period_ns: int, now_ns: int, stamp_ns: int, most: int = 50) -> None:
        """Start now; after a pause of more than `most` periods the pause is dropped instead of made up for."""
        self.period_ns, self.most = period_ns, most
        self._origin, self._stamp = now_ns, stamp_ns
        self.steps = 0
        self.dropped = 0

    def due(self, now_ns: int) -> int:
        """Return how many periods have ended since the last one counted."""
        behind = (now_ns - self._origin) // self.period_ns - self.steps
        if behind > self.most:
            skip = behind - 1
            self.dropped += skip
            self._origin += skip * self.period_ns
            self._stamp += skip * self.period_ns
            return 1
        return max(behind, 0)

    @property
    def stamp(self) -> int:
        """The stamp [ns] of the last period counted."""
        return self._stamp + self.steps * self.period_ns

    def count(self) -> int:
        """Count one period and return the stamp [ns] of its end."""
        self.steps += 1
        return self.stamp
