# SPDX-License-Identifier: Apache-2.0

"""Sort a recording in one reading, piece by piece.

A stamp that steps back by at most CLOCK_RESET belongs to a late message, so samples wait that long before they are
emitted. Where the clock was set back, only the longest stretch counts, which is known at the end: such a recording
needs two readings (`streamed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note, repaired
from ros2_dynid.recording.samples import CLOCK_RESET, Samples, cut

Read = Callable[[list[Note]], Iterable[Samples]]
"""Reads a recording from its beginning, as iter_samples does, and appends its remarks to the list."""


class ClockSetBackError(Exception):
    """Stamps step back too far to be put in order in one reading."""


def in_order(
    read: Read, notes: list[Note], start: float | None = None, end: float | None = None, *, size: int
) -> Iterator[Samples]:
    """Yield a recording with strictly increasing times, cut to start <= t <= end [s], about `size` samples at a time.

    Remarks are appended to `notes` after the last samples.
    """
    sorter = _Sorter(start, end)
    reading_notes: list[Note] = []
    parts: list[Samples] = []
    count = 0
    for piece in read(reading_notes):
        ordered_part = sorter.take(piece)
        if len(ordered_part):
            parts.append(ordered_part)
            count += len(ordered_part)
        if count >= size:
            yield joined_samples(parts)
            parts, count = [], 0
    rest = sorter.rest()
    if len(rest):
        parts.append(rest)
    if parts:
        yield joined_samples(parts)
    notes += [*reading_notes, *sorter.notes()]


class _Sorter:
    """Sorts samples as they come, and counts what it dropped or moved."""

    def __init__(self, start: float | None, end: float | None) -> None:
        self._start, self._end = start, end
        self._waiting: list[Samples] = []
        self._newest, self._previous, self._emitted_until = -np.inf, -np.inf, -np.inf
        self._first, self._last = np.inf, -np.inf
        self._without_time = self._late = self._repeated = self._emitted_count = 0
        self._any_piece: Samples | None = None

    def take(self, piece: Samples) -> Samples:
        """Add samples as recorded; return those that no later sample can precede."""
        self._any_piece = piece
        finite = np.isfinite(piece.t)
        self._without_time += int(np.count_nonzero(~finite))
        piece = piece if finite.all() else piece.take(finite)
        if len(piece):
            steps = np.diff(piece.t, prepend=piece.t[0] if np.isinf(self._previous) else self._previous)
            if np.any(steps < -CLOCK_RESET) or piece.t.min() < self._emitted_until:
                raise ClockSetBackError
            self._late += int(np.count_nonzero(steps < 0))
            self._previous, self._newest = float(piece.t[-1]), max(self._newest, float(piece.t.max()))
            self._waiting.append(piece)
        # A later sample may still have the very time of the limit, and then the first of the two counts.
        return self._emit(self._newest - CLOCK_RESET)

    def rest(self) -> Samples:
        """Return the remaining samples."""
        remaining = self._emit(np.inf)
        if not self._emitted_count and self._any_piece is not None and np.isfinite(self._first):
            cut(self._span(self._any_piece), self._start, self._end)  # says what lies where
        return remaining

    def notes(self) -> list[Note]:
        """Return notes on dropped and moved samples."""
        texts = (
            (self._without_time, "samples without a time were dropped"),
            (self._late, "late samples were sorted in"),
            (self._repeated, "samples that repeat a stamp were dropped"),
        )
        return [repaired(f"{count} {text}") for count, text in texts if count]

    def _emit(self, until: float) -> Samples:
        if not self._waiting:
            assert self._any_piece is not None
            return self._any_piece.take(slice(0, 0))
        waiting = joined_samples(self._waiting)
        if np.any(np.diff(waiting.t) < 0):
            waiting = waiting.take(np.argsort(waiting.t, kind="stable"))
        split = int(np.searchsorted(waiting.t, until, side="left"))
        emitted, self._waiting = waiting.take(slice(0, split)), [waiting.take(slice(split, None))]
        if not len(emitted):
            return emitted
        new = np.diff(emitted.t, prepend=self._emitted_until) > 0
        self._repeated += int(np.count_nonzero(~new))
        self._first, self._last = min(self._first, float(emitted.t[0])), float(emitted.t[-1])
        self._emitted_until = float(emitted.t[-1])
        keep = new & (emitted.t >= (-np.inf if self._start is None else self._start))
        keep &= emitted.t <= (np.inf if self._end is None else self._end)
        self._emitted_count += int(np.count_nonzero(keep))
        return emitted if keep.all() else emitted.take(keep)

    def _span(self, some: Samples) -> Samples:
        t = np.array([self._first, self._last])
        return Samples(t, (), np.empty((2, 0)), source=some.source)


def joined_samples(parts: Sequence[Samples]) -> Samples:
    """Return the samples of all parts concatenated; a signal missing in a part is NaN there."""
    last = parts[-1]
    if len(parts) == 1:
        measured = {field: array for field, array in last.arrays().items() if field == "q" or not np.isnan(array).all()}
        return last if len(measured) == len(last.arrays()) else last.with_arrays(last.t, measured)
    fields = dict.fromkeys(field for part in parts for field in part.arrays())
    arrays: dict[str, Array] = {}
    for field in fields:
        column = [part.arrays().get(field, np.full(part.q.shape, np.nan)) for part in parts]
        array = np.concatenate(column)
        if field == "q" or not np.isnan(array).all():
            arrays[field] = array
    return last.with_arrays(np.concatenate([part.t for part in parts]), arrays)
