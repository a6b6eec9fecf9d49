# SPDX-License-Identifier: Apache-2.0

"""Sort a recording larger than memory: read it once for its times, then again in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note
from ros2_dynid.recording.samples import FIELDS, Samples, cut, longest_stretch, ordered


@dataclass(frozen=True)
class Outline:
    """What all pieces of a recording have in common, and their total number of samples."""

    joint_names: tuple[str, ...]
    fields: tuple[str, ...]
    """The signals that are known somewhere (q always), in the order of FIELDS."""
    count: int
    first: float
    last: float
    start_ns: int
    source: str
    notes: tuple[Note, ...] = ()


def outline_of(samples: Samples) -> Outline:
    """Return the outline of samples that are whole in memory."""
    first, last = (float(samples.t[0]), float(samples.t[-1])) if len(samples) else (0.0, 0.0)
    fields = tuple(samples.arrays())
    return Outline(
        samples.joint_names, fields, len(samples), first, last, samples.start_ns, samples.source, samples.notes
    )


@dataclass(frozen=True)
class Streamed:
    """A recording as load_samples(..., start, end) would return it, but in pieces."""

    outline: Outline
    pieces: Iterator[Samples]


def streamed(
    read: Callable[[list[Note]], Iterable[Samples]], start: float | None = None, end: float | None = None
) -> Streamed:
    """Return a recording in order and cut to start <= t <= end [s]; of the first reading only the times are kept.

    read(notes) reads the recording from its beginning, as iter_samples does, and appends its remarks to the list.
    """
    notes: list[Note] = []
    times: list[Array] = []
    measured_fields = {"q"}
    piece: Samples | None = None
    for piece in read(notes):
        times.append(piece.t)
        measured_fields |= {field for field, values in piece.arrays().items() if not np.isnan(values).all()}
    assert piece is not None  # reading raises rather than yield nothing
    t = np.concatenate(times)
    bare = Samples(t, (), np.empty((len(t), 0)), source=piece.source, notes=tuple(notes), start_ns=piece.start_ns)
    result = cut(ordered(bare), start, end)
    fields = tuple(field for field in FIELDS if field in measured_fields)
    first, last = (float(result.t[0]), float(result.t[-1])) if len(result) else (0.0, 0.0)
    outline = Outline(piece.joint_names, fields, len(result), first, last, piece.start_ns, piece.source, result.notes)
    finite = t[np.isfinite(t)]
    rows = longest_stretch(finite)[0] if len(finite) else slice(0, 0)
    return Streamed(outline, _sort_pieces(read([]), outline, rows, _lateness(finite[rows])))


def _lateness(t: Array) -> float:
    """Return the largest delay [s] of a sample behind one that it should precede."""
    return float(np.max(np.maximum.accumulate(t) - t, initial=0.0))


def _sort_pieces(pieces: Iterable[Samples], outline: Outline, rows: slice, lateness: float) -> Iterator[Samples]:
    """Yield the samples of the rows (of those with a time) in order; samples wait as long as a late one may precede
    them.
    """
    waiting: Samples | None = None
    position = 0
    for piece in pieces:
        finite = _with_fields(piece.take(np.isfinite(piece.t)), outline.fields)
        inside = slice(max(rows.start - position, 0), max(rows.stop - position, 0))
        position += len(finite)
        waiting_samples = _append_samples(waiting, finite.take(inside))
        if not len(waiting_samples):
            continue
        if np.any(np.diff(waiting_samples.t) < 0):
            waiting_samples = waiting_samples.take(np.argsort(waiting_samples.t, kind="stable"))
        # A later sample may still have this very time, and then the first of the two counts: both must be seen.
        split = int(np.searchsorted(waiting_samples.t, waiting_samples.t[-1] - lateness, side="left"))
        waiting = waiting_samples.take(slice(split, None))
        yield from _within(waiting_samples.take(slice(0, split)), outline)
    if waiting is not None:
        yield from _within(waiting, outline)


def _within(samples: Samples, outline: Outline) -> Iterator[Samples]:
    keep = np.concatenate((np.ones(min(1, len(samples)), bool), np.diff(samples.t) > 0))
    keep &= (samples.t >= outline.first) & (samples.t <= outline.last)
    if keep.any():
        yield samples if keep.all() else samples.take(keep)


def _with_fields(samples: Samples, fields: tuple[str, ...]) -> Samples:
    """Return the samples with exactly these fields, NaN where they lack one."""
    arrays = samples.arrays()
    unknown = [field for field in fields if field not in arrays]
    arrays |= {field: np.full(samples.q.shape, np.nan) for field in unknown}
    return samples.with_arrays(samples.t, {field: arrays[field] for field in fields})


def _append_samples(waiting: Samples | None, samples: Samples) -> Samples:
    if waiting is None or not len(waiting):
        return samples
    arrays, more = waiting.arrays(), samples.arrays()
    merged = {field: np.concatenate((arrays[field], more[field])) for field in arrays}
    return samples.with_arrays(np.concatenate((waiting.t, samples.t)), merged)
