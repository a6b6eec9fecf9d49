"""Real time in fixed periods: how many are due, and which stamp belongs to each."""

from __future__ import annotations


class Pace:
    """Periods of `period_ns` counted from `now_ns`; both clocks in ns, the stamp's being the one that messages carry."""

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

    def count(self) -> int:
        """Count one period and return the stamp [ns] of its end."""
        self.steps += 1
        return self._stamp + self.steps * self.period_ns
