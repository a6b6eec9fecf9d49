"""The one door for recordings: a bag, a CSV or an npz file becomes Samples in the robot's joint order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.notes import Note, NoteKind, damage, remark, repaired
from ros2_dynid.recording.bags import Bag, choose_topics, is_bag, open_bag
from ros2_dynid.recording.decode import Decoded, Decoder
from ros2_dynid.recording.merge import Merger, Window
from ros2_dynid.recording.samples import FIELDS, Samples, cut, in_order_of, missing_joint, ordered, shortened
from ros2_dynid.recording.tables import TABLES, in_si, iter_table
from ros2_dynid.recording.units import SI, Units

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Array, Robot

CHUNK = 65_536
"""Samples read at a time."""
_MOST_JOINT_SETS = 200


@dataclass(frozen=True)
class Reading:
    """How a recording is read: see load_samples."""

    topic: str | Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    units: Units = SI
    stamps: str = "auto"
    start: float | None = None
    end: float | None = None


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
    in_order: bool = True,
) -> Samples:
    """Read a recording: a rosbag2 folder or file, a ROS 1 bag, a CSV or an npz file.

    robot: the joints come out in the order of robot.active_names, others are ignored; None takes all there are.
    topic: of a bag, found by its type if None. columns: {"time" or "NAME.position", ...: header} of a table.
    stamps: "header", "bag" (when it was recorded), or "auto": header stamps unless all of them are zero.
    start, end: keep start <= t <= end [s]; t counts from the first sample of a bag, and is a table's own time.
    in_order: sort and drop samples so that t strictly increases; False gives them as recorded.
    """
    return read_samples(path, robot, Reading(topic, columns, units or SI, stamps, start, end), in_order=in_order)


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
    known = {field: values for field, values in arrays.items() if field == "q" or not np.isnan(values).all()}
    samples = replace(last.with_arrays(t, known), notes=tuple(notes))
    if in_order:
        samples = ordered(samples)
    return cut(samples, reading.start, reading.end)


def iter_samples(
    path: str | Path,
    robot: Robot | None = None,
    *,
    chunk: int = CHUNK,
    reading: Reading | None = None,
    notes: list[Note] | None = None,
) -> Iterator[Samples]:
    """Yield a recording in order, some `chunk` samples at a time, for recordings larger than memory.

    Nothing is sorted or cut: streamed.py does that. Unknown values are NaN. What there is to note is appended to
    `notes`, some of it only after the last samples.
    """
    path = Path(path)
    reading = reading or Reading()
    wanted = None if robot is None else robot.active_names
    if reading.stamps not in ("auto", "header", "bag"):
        raise InputError(f"unknown kind of stamps {reading.stamps!r}", "choose auto, header or bag")
    if not path.exists():
        raise InputError("there is no such file or folder", "check the path", str(path))
    if path.suffix.lower() in TABLES:
        for samples in iter_table(path, robot, reading.columns, reading.units, [] if notes is None else notes):
            yield samples if wanted is None else in_order_of(samples, wanted)
        return
    if not is_bag(path):
        what = f"the name ends in {path.suffix[:20]!r}" if path.suffix else "the name has no ending"
        raise InputError(what, "give a rosbag2 folder, .mcap, .db3, .bag, .csv or .npz file", str(path))
    units = replace(reading.units, time="s")  # the stamps of a bag have a unit of their own
    for samples in _bag_samples(open_bag(path), wanted, chunk, reading, [] if notes is None else notes):
        yield in_si(samples, robot, units)


def _bag_samples(
    bag: Bag, wanted: Sequence[str] | None, chunk: int, reading: Reading, notes: list[Note]
) -> Iterator[Samples]:
    source = str(bag.path)
    topics = choose_topics(bag, wanted, reading.topic)
    merger = Merger(wanted, reading.stamps)
    decoders: dict[int, Decoder] = {}
    start_ns: int | None = None
    count = 0
    for final in (False, True):
        windows = _windows(bag, topics, merger, decoders, chunk) if not final else iter([merger.window(final=True)])
        for window in windows:
            if window is None or not len(window.stamp):
                continue
            if start_ns is None:
                start_ns = int(window.stamp[0])
            count += len(window.stamp)
            yield _samples(window, start_ns, source)
    failed = sum(decoder.failed for decoder in decoders.values())
    reason = next((decoder.reason for decoder in decoders.values() if decoder.reason), "")
    if count == 0:
        warnings = bag.file_warnings()
        if failed:
            what = f"none of the {failed} messages on {', '.join(topics)} can be decoded ({reason[:120]})"
            raise InputError(what, "the bag is damaged or of another message type", source)
        if wanted is not None and merger.seen:
            missing = [name for name in wanted if name not in merger.seen]
            if missing:
                raise missing_joint(missing, list(merger.seen), source)
            what = f"the joints of the robot never appear together on {', '.join(topics)}"
            raise InputError(what, "record all publishers of joint states at the same time", source)
        what = f"there is no joint state on {', '.join(topics)}" + (f" ({warnings[0]})" if warnings else "")
        raise InputError(what, "record the robot's joint states", source)
    notes += map(damage, bag.file_warnings())
    messages = sum(channel.count for channel in bag.channels if channel.count > 0)
    if bag.announced is not None and 0 < messages < bag.announced:
        missed = f"{bag.announced - messages} of the {bag.announced} messages announced by metadata.yaml are missing"
        notes.append(damage(missed))
    if failed:
        notes.append(damage(f"{failed} messages could not be decoded and were left out ({reason[:120]})"))
    notes += _merge_notes(merger, topics, wanted)


def _merge_notes(merger: Merger, topics: Sequence[str], wanted: Sequence[str] | None) -> list[Note]:
    notes = []
    if merger.stamps == "bag":
        text = "the header stamps are not set: the times are those of recording, with the jitter of transport"
        notes.append(Note(NoteKind.STAMPS, text))
    if merger.unstamped:
        notes.append(repaired(f"{merger.unstamped} messages without a stamp were left out"))
    if merger.interpolated:
        joints = shortened(sorted(merger.interpolated))
        notes.append(repaired(f"joint states come in parts: {joints} interpolated at the times of the other joints"))
    if merger.dropped:
        notes.append(repaired(f"{merger.dropped} samples were left out, since not all joints were published then"))
    if len(topics) > 1:
        notes.append(remark(f"joint states of several topics were joined: {', '.join(topics[:10])}"))
    if wanted is not None:
        extra = [name for name in merger.seen if name not in wanted]
        if extra:
            notes.append(remark(f"ignored joints not in the robot: {shortened(extra)}"))
    return notes


def _windows(
    bag: Bag, topics: Sequence[str], merger: Merger, decoders: dict[int, Decoder], chunk: int
) -> Iterator[Window | None]:
    """Yield windows of whole samples while the messages stream in; the last ones stay in the merger."""
    limit = chunk
    joint_sets: set[frozenset[str]] = set()
    for block, channels in bag.blocks(topics):
        decoded: dict[str, list[Decoded]] = {}
        for channel in channels:
            rows = np.flatnonzero(block.channel == channel.id)
            decoder = decoders.setdefault(id(channel), Decoder(channel))
            for item in decoder.decode(block if len(channels) == 1 else block.take(rows)):
                joint_sets.add(frozenset(item.names))
                if len(joint_sets) > _MOST_JOINT_SETS:
                    what = f"topic {channel.topic} names other joints from message to message"
                    raise InputError(what, Text("choose another topic (", Option("topic"), ")"), str(bag.path))
                decoded.setdefault(channel.topic, []).append(replace(item, rows=rows[item.rows]))
        for topic, items in decoded.items():
            merger.add(topic, items, block.stamp)
        if merger.waiting >= limit:
            yield merger.window()
            limit = merger.waiting + chunk  # what waits for a slower publisher is no reason to hurry


def _samples(window: Window, start_ns: int, source: str) -> Samples:
    dq, ddq, tau = (window.arrays.get(field) for field in FIELDS[1:])
    q = window.arrays.get("q")
    if q is None:
        q = np.full((len(window.stamp), len(window.names)), np.nan)
    t: Array = (window.stamp - start_ns) / 1e9  # the nearest number to the decimal one
    return Samples(t, window.names, q, dq, ddq, tau, source, start_ns=start_ns)


class Growing:
    """An array that grows in its first axis without ever being held twice."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._array: Array | None = None
        self._length = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._length

    def append(self, values: Array, begin: int) -> None:
        """Add rows, the first of them as row `begin`; rows skipped are NaN."""
        needed = begin + len(values)
        if self._array is None:
            self._array = np.empty((needed, *values.shape[1:]))
        elif needed > len(self._array):
            # realloc moves pages of a large array instead of copying them
            self._array.resize(
                (max(needed, len(self._array) + len(self._array) // 4), *values.shape[1:]), refcheck=False
            )
        self._array[self._length : begin] = np.nan
        self._array[begin:needed] = values
        self._length = needed

    def array(self, length: int | None = None) -> Array:
        """Return the rows, filled up with NaN to `length`; the object must not be used after that."""
        assert self._array is not None
        length = self._length if length is None else length
        self._array.resize((length, *self._array.shape[1:]), refcheck=False)
        self._array[self._length :] = np.nan
        return self._array
