# SPDX-License-Identifier: Apache-2.0

"""Read any recording: a bag, a CSV or an npz file becomes Samples in the robot's joint order.

A recording is sorted in one reading, piece by piece. A stamp that steps back by at most CLOCK_RESET belongs to a late
message, so samples wait that long before they are emitted. Where the clock was set back, only the longest stretch
counts, which is known at the end: such a recording needs two readings (`streamed`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.errors import InputError, Note, remark, repaired
from ros2_dynid.model.files import missing
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag.read_bag import is_bag, iter_bag, open_bag
from ros2_dynid.recording.floating_base import drive_robot, has_base, with_base
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import (
    CLOCK_RESET,
    FIELDS,
    SI,
    Reading,
    Samples,
    Units,
    cut,
    in_order_of,
    in_si,
    longest_stretch,
    ordered,
)
from ros2_dynid.recording.table.read_table import is_table, iter_table
from ros2_dynid.recording.torque_topic import with_torques

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Array, Robot


def ahead(pieces: Generator[Samples]) -> Iterator[Samples]:
    """Yield the pieces in order, decoding one ahead; one thread reads everything, as SQLite requires."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, pieces, None)
        try:
            while (piece := following.result()) is not None:
                following = pool.submit(next, pieces, None)
                yield piece
        finally:
            pool.submit(pieces.close)


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
        known_fields = {
            field: array for field, array in last.arrays().items() if field == "q" or not np.isnan(array).all()
        }
        return last if len(known_fields) == len(last.arrays()) else last.with_arrays(last.t, known_fields)
    fields = dict.fromkeys(field for part in parts for field in part.arrays())
    arrays: dict[str, Array] = {}
    for field in fields:
        column = [part.arrays().get(field, np.full(part.q.shape, np.nan)) for part in parts]
        array = np.concatenate(column)
        if field == "q" or not np.isnan(array).all():
            arrays[field] = array
    return last.with_arrays(np.concatenate([part.t for part in parts]), arrays)


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
    return Streamed(outline, _sort_pieces(read([]), outline, rows, largest_delay(finite[rows])))


def largest_delay(t: Array) -> float:
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


CHUNK = 65_536
"""Samples read at a time."""
RATE_RATIO = 1.5
"""Of a rate that is given over that of the stamps, from which a remark is made: stamps that are uneven, late or lost
tell nearly the same."""


def load_samples(
    path: str | Path,
    robot: Robot | None = None,
    *,
    topic: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    units: Units | None = None,
    stamps: str = "auto",
    start: float | None = None,
    end: float | None = None,
    rate: float | None = None,
    in_order: bool = True,
) -> Samples:
    """Read a recording: a rosbag2 folder or file, a ROS 1 bag, a CSV, npz, HDF5 or MATLAB file, a LeRobot data set.

    robot: the joints come out in the order of robot.active_names, others are ignored; None takes all there are.
    topic: of a bag, found by its type if None. columns: {"time" or "NAME.position", ...: header} of a table.
    stamps: "header", "bag" (when it was recorded), or "auto": header stamps unless all of them are zero.
    start, end: keep start <= t <= end [s]; t counts from the first sample of a bag, and is a table's own time.
    rate: the samples are evenly spaced at this rate [Hz], whatever stamps or time column say.
    in_order: sort and drop samples so that t strictly increases; False gives them as recorded.
    """
    reading = Reading(topic, columns, units or SI, stamps, start, end, rate)
    return read_samples(path, robot, reading, in_order=in_order)


def read_samples(
    path: str | Path, robot: Robot | None = None, reading: Reading | None = None, *, in_order: bool = True
) -> Samples:
    """Read a recording as load_samples does, with its options in `reading`."""
    reading = reading or Reading()
    notes: list[Note] = []
    growing: dict[str, Growing] = {}
    last: Samples | None = None
    for samples in iter_samples(path, robot, reading=reading, notes=notes):
        last = samples
        begin = len(growing["t"]) if growing else 0
        for field, values in {"t": samples.t, **samples.arrays()}.items():
            growing.setdefault(field, Growing()).append(values, begin)
    assert last is not None  # iter_samples raises rather than yield nothing
    t = growing.pop("t").array()
    arrays = {field: values.array(len(t)) for field, values in growing.items()}
    known_fields = {field: values for field, values in arrays.items() if field == "q" or not np.isnan(values).all()}
    samples = replace(last.with_arrays(t, known_fields), notes=tuple(notes))
    if in_order:
        samples = ordered(samples)
    return cut(samples, reading.start, reading.end)


def iter_samples(
    path: str | Path | RemoteFile,
    robot: Robot | None = None,
    *,
    chunk: int = CHUNK,
    reading: Reading | None = None,
    notes: list[Note] | None = None,
) -> Iterator[Samples]:
    """Yield a recording as recorded, about `chunk` samples at a time, for recordings larger than memory.

    streamed.py sorts and cuts. Unknown values are NaN. Remarks are appended to `notes`, some of them only after the
    last samples.
    """
    reading = reading or Reading()
    count = 0
    for samples in _as_stamped(
        path if isinstance(path, RemoteFile) else Path(path), robot, chunk, reading, [] if notes is None else notes
    ):
        if reading.rate is None:
            yield samples
            continue
        if count == 0 and notes is not None:
            notes += _stamps_against_rate(samples.t, reading.rate)
        yield replace(samples, t=(count + np.arange(len(samples))) / reading.rate)
        count += len(samples)


def _stamps_against_rate(t: Array, rate: float) -> list[Note]:
    """Return a remark if stamps that are there tell another rate than the one given [Hz]."""
    known = t[np.isfinite(t)]
    step = float(known[-1] - known[0]) / (len(known) - 1) if len(known) > 1 else 0.0
    if step <= 0.0 or 1.0 / RATE_RATIO < rate * step < RATE_RATIO:
        return []
    return [
        remark(f"the stamps tell {1.0 / step:.4g} samples a second, not {rate:.4g}: leave the rate out to use them")
    ]


def _as_stamped(
    path: Path | RemoteFile, robot: Robot | None, chunk: int, reading: Reading, notes: list[Note]
) -> Iterator[Samples]:
    if robot is not None and robot.floating and isinstance(path, Path) and path.exists() and has_base(path, reading):
        drives = _as_stamped(path, drive_robot(robot), chunk, reading, notes)
        yield from with_base(robot, drives, path, reading)
        return
    joint_names = None if robot is None else robot.active_names
    if reading.stamps not in ("auto", "header", "bag"):
        raise InputError(f"unknown kind of stamps {reading.stamps!r}", "choose auto, header or bag")
    if isinstance(path, Path):
        if not path.exists():
            raise missing(path)
        if is_table(path):
            for samples in iter_table(path, robot, reading, notes):
                yield samples if joint_names is None else in_order_of(samples, joint_names)
            return
        if not is_bag(path):
            what = f"the name ends in {path.suffix[:20]!r}" if path.suffix else "the name has no ending"
            raise InputError(
                what,
                "give a rosbag2 folder, .mcap, .db3, .bag, .csv, .npz, .h5 or .mat file, or a LeRobot data set",
                str(path),
            )
    units = replace(reading.units, time="s")  # the stamps of a bag have a unit of their own
    bag = iter_bag(open_bag(path), joint_names, chunk, reading, notes)
    if reading.torque_topic:
        torques = replace(reading, topic=reading.torque_topic)
        bag = with_torques(bag, iter_bag(open_bag(path), None, chunk, torques, []), str(path))
    for samples in bag:
        yield in_si(samples, robot, units)


class Growing:
    """An array that grows in its first axis without a second copy in memory."""

    def __init__(self) -> None:
        """Start empty."""
        self._array: Array | None = None
        self._length = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._length

    def append(self, values: Array, begin: int) -> None:
        """Add rows, the first of them as row `begin`; rows skipped are NaN."""
        end = begin + len(values)
        if self._array is None:
            self._array = np.empty((end, *values.shape[1:]))
        elif end > len(self._array):
            # realloc moves pages of a large array instead of copying them
            self._array.resize((max(end, len(self._array) + len(self._array) // 4), *values.shape[1:]), refcheck=False)
        self._array[self._length : begin] = np.nan
        self._array[begin:end] = values
        self._length = end

    def array(self, length: int | None = None) -> Array:
        """Return the rows, filled up with NaN to `length`; the object must not be used after that."""
        assert self._array is not None
        length = self._length if length is None else length
        self._array.resize((length, *self._array.shape[1:]), refcheck=False)
        self._array[self._length :] = np.nan
        return self._array
