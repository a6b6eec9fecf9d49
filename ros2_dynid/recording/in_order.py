"""A recording in order and in pieces, read once.

A stamp that steps back by at most CLOCK_RESET is a message that came late, so it is enough to hold back that much time
before samples are given away. Where the clock was set back, only the longest stretch counts, which is known at the end:
such a recording takes two readings (`streamed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note, repaired
from ros2_dynid.recording.samples import CLOCK_RESET, Samples, cut

Read = Callable[[list[Note]], Iterable[Samples]]
"""Reads a recording from its beginning, as iter_samples does, and appends what there is to note."""


class ClockSetBackError(Exception):
    """Stamps step back too far to be put in order in one reading."""


def in_order(
    read: Read, notes: list[Note], start: float | None = None, end: float | None = None, *, size: int
) -> Iterator[Samples]:
    """Yield a recording with times that strictly increase, cut to start <= t <= end [s], some `size` samples at a time.

    What there is to note is appended to `notes` after the last samples.
    """
    arranged = _Arranged(start, end)
    found: list[Note] = []
    ready: list[Samples] = []
    count = 0
    for piece in read(found):
        taken = arranged.take(piece)
        if len(taken):
            ready.append(taken)
            count += len(taken)
        if count >= size:
            yield joined_samples(ready)
            ready, count = [], 0
    rest = arranged.rest()
    if len(rest):
        ready.append(rest)
    if ready:
        yield joined_samples(ready)
    notes += [*found, *arranged.notes()]


class _Arranged:
    """Puts samples in order as they come, and counts what that takes."""

    def __init__(self, start: float | None, end: float | None) -> None:
        self._start, self._end = start, end
        self._waiting: list[Samples] = []
        self._newest, self._before, self._given = -np.inf, -np.inf, -np.inf
        self._first, self._last = np.inf, -np.inf
        self._timeless = self._late = self._repeated = self._kept = 0
        self._some: Samples | None = None

    def take(self, piece: Samples) -> Samples:
        """Take samples as recorded and return those that no later one can precede."""
        self._some = piece
        finite = np.isfinite(piece.t)
        self._timeless += int(np.count_nonzero(~finite))
        piece = piece if finite.all() else piece.take(finite)
        if len(piece):
            steps = np.diff(piece.t, prepend=piece.t[0] if np.isinf(self._before) else self._before)
            if np.any(steps < -CLOCK_RESET) or piece.t.min() < self._given:
                raise ClockSetBackError
            self._late += int(np.count_nonzero(steps < 0))
            self._before, self._newest = float(piece.t[-1]), max(self._newest, float(piece.t.max()))
            self._waiting.append(piece)
        # A later sample may still have the very time of the limit, and then the first of the two counts.
        return self._give(self._newest - CLOCK_RESET)

    def rest(self) -> Samples:
        """Return what is left after the last samples."""
        given = self._give(np.inf)
        if not self._kept and self._some is not None and np.isfinite(self._first):
            cut(self._span(self._some), self._start, self._end)  # says what lies where
        return given

    def notes(self) -> list[Note]:
        """Return what the order took."""
        texts = (
            (self._timeless, "samples without a time were dropped"),
            (self._late, "late samples were sorted in"),
            (self._repeated, "samples that repeat a stamp were dropped"),
        )
        return [repaired(f"{count} {text}") for count, text in texts if count]

    def _give(self, until: float) -> Samples:
        if not self._waiting:
            assert self._some is not None
            return self._some.take(slice(0, 0))
        held = joined_samples(self._waiting)
        if np.any(np.diff(held.t) < 0):
            held = held.take(np.argsort(held.t, kind="stable"))
        split = int(np.searchsorted(held.t, until, side="left"))
        ready, self._waiting = held.take(slice(0, split)), [held.take(slice(split, None))]
        if not len(ready):
            return ready
        new = np.diff(ready.t, prepend=self._given) > 0
        self._repeated += int(np.count_nonzero(~new))
        self._first, self._last = min(self._first, float(ready.t[0])), float(ready.t[-1])
        self._given = float(ready.t[-1])
        keep = new & (ready.t >= (-np.inf if self._start is None else self._start))
        keep &= ready.t <= (np.inf if self._end is None else self._end)
        self._kept += int(np.count_nonzero(keep))
        return ready if keep.all() else ready.take(keep)

    def _span(self, some: Samples) -> Samples:
        t = np.array([self._first, self._last])
        return Samples(t, (), np.empty((2, 0)), source=some.source)


def joined_samples(parts: Sequence[Samples]) -> Samples:
    """Return samples one after the other; a signal that only some parts know is NaN in the others."""
    last = parts[-1]
    if len(parts) == 1:
        known = {field: array for field, array in last.arrays().items() if field == "q" or not np.isnan(array).all()}
        return last if len(known) == len(last.arrays()) else last.with_arrays(last.t, known)
    fields = dict.fromkeys(field for part in parts for field in part.arrays())
    arrays: dict[str, Array] = {}
    for field in fields:
        column = [part.arrays().get(field, np.full(part.q.shape, np.nan)) for part in parts]
        array = np.concatenate(column)
        if field == "q" or not np.isnan(array).all():
            arrays[field] = array
    return last.with_arrays(np.concatenate([part.t for part in parts]), arrays)
