# SPDX-License-Identifier: Apache-2.0

"""Vectors beside the joint states: columns PREFIX.AXIS of a table, an array of an npz file, messages of a bag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag.cdr import CdrReader
from ros2_dynid.recording.bag.merge import EPOCH_LIKE
from ros2_dynid.recording.bag.read_bag import Bag, open_bag
from ros2_dynid.recording.bag.storage import ZSTD_MAGIC, Channel, DamagedDataError, decompress
from ros2_dynid.recording.samples import TIME_UNITS, Reading
from ros2_dynid.recording.table.csv_file import read_header, read_lines, read_numbers
from ros2_dynid.recording.table.read_table import TEXT_TABLES

MAX_MESSAGE = 1 << 16
Axes = Sequence[str]


@dataclass(frozen=True)
class MessageKind:
    """A type of messages that begin with a header: `strings` more texts, then `count` numbers of 8 bytes."""

    type: str
    count: int
    strings: int = 0


@dataclass(frozen=True, eq=False)
class Vectors:
    """Values, shape (N, k), at increasing times t (N,) [s] of the joint states of the same recording.

    frame: what the messages call the frame of the values; kind: of the messages, None for a table.
    """

    t: Array
    values: Array
    frame: str = ""
    kind: MessageKind | None = None


def is_file_of_columns(path: Path) -> bool:
    """Return whether a file is a table whose columns can be named: CSV or npz."""
    return path.suffix.lower() in (*TEXT_TABLES, ".npz")


def read_columns(path: Path, prefix: str, forms: Sequence[Axes], reading: Reading, start_ns: int) -> Vectors | None:
    """Return the columns PREFIX.AXIS of a table in the first of the forms that it has, or None.

    An npz file has an array PREFIX of shape (N, len(axes)) instead.
    """
    of_arrays = path.suffix.lower() == ".npz"
    found = _npz_array(path, prefix, forms, reading) if of_arrays else _csv_columns(path, prefix, forms, reading)
    if found is None:
        return None
    t, values = found
    t = t * TIME_UNITS[reading.units.time] - start_ns / 1e9
    return _usable(np.arange(len(t)) / reading.rate if reading.rate else t, values, reading, str(path))


def read_messages(path: Path, topic: str, kinds: Sequence[MessageKind], reading: Reading, start_ns: int) -> Vectors:
    """Return the numbers of the messages on `topic` of a bag, which have one of these types."""
    bag = open_bag(path)
    t, values, frame, kind = _bag_messages(bag, topic, kinds, start_ns, reading.stamps)
    used = _usable(t, values, reading, str(path))
    return Vectors(used.t, used.values, frame, kind)


def topics_of(path: Path, kind: MessageKind) -> list[str]:
    """Return the topics of a bag that have messages of this kind."""
    return list(dict.fromkeys(c.topic for file in open_bag(path).files for c in file.channels if c.type == kind.type))


def _usable(t: Array, values: Array, reading: Reading, source: str) -> Vectors:
    """Return the samples with finite values and times within the cut, each time once."""
    good = np.isfinite(t) & np.isfinite(values).all(axis=1)
    good &= (t >= (-np.inf if reading.start is None else reading.start)) & (
        t <= (np.inf if reading.end is None else reading.end)
    )
    t, first = np.unique(t[good], return_index=True)
    return Vectors(t, values[good][first])


def _csv_columns(path: Path, prefix: str, forms: Sequence[Axes], reading: Reading) -> tuple[Array, Array] | None:
    blocks = read_lines(path)
    first = next(blocks, [])
    header, delimiter, skipped = read_header(first, str(path))
    time = _time(reading, header, "time", "t", "Time")
    form = next((axes for axes in forms if all(f"{prefix}.{axis}" in header for axis in axes)), None)
    if form is None or time not in header:
        return None
    use = [header.index(name) for name in (time, *(f"{prefix}.{axis}" for axis in form))]
    parts, number, lines = [], skipped, first[skipped:]
    for following in (*blocks, None):
        if following is None and lines and lines[-1].count(delimiter) < len(header) - 1:
            lines = lines[:-1]  # cut off
        parts.append(read_numbers(lines, delimiter, use, header, number, str(path)))
        number, lines = number + len(lines), following or []
    table = np.concatenate(parts)
    return table[:, 0], _wide(table[:, 1:], forms)


def _npz_array(path: Path, name: str, forms: Sequence[Axes], reading: Reading) -> tuple[Array, Array] | None:
    try:
        with np.load(path, allow_pickle=False) as data:
            time = _time(reading, data.files, "t", "time")
            if name not in data or time not in data:
                return None
            t, values = np.asarray(data[time], dtype=float).reshape(-1), np.asarray(data[name], dtype=float)
    except Exception as error:  # zipfile, zlib and numpy each have their own errors for a damaged file
        raise InputError(f"it cannot be read: {error}", "give an npz file", str(path)) from None
    if values.shape not in [(len(t), len(axes)) for axes in forms]:
        sizes = " or ".join(str((len(t), len(axes))) for axes in forms)
        raise InputError(f"{name} has shape {values.shape}", f"give it the shape {sizes}", str(path))
    return t, _wide(values, forms)


def _wide(values: Array, forms: Sequence[Axes]) -> Array:
    """Return the values with zeros for what a shorter form leaves out at the end."""
    return np.pad(values, ((0, 0), (0, max(map(len, forms)) - values.shape[1])))


def _time(reading: Reading, available: Sequence[str], *names: str) -> str:
    """Return the name of the time column: mapped, or one of these names."""
    columns = reading.columns or {}
    return [*(columns[x] for x in names if x in columns), *(x for x in names if x in available), names[0]][0]


def _bag_messages(
    bag: Bag, topic: str, kinds: Sequence[MessageKind], start_ns: int, stamps: str
) -> tuple[Array, Array, str, MessageKind]:
    by_type = {kind.type: kind for kind in kinds}
    channels = [
        (file, channel) for file in bag.files for channel in file.channels if channel.topic in (topic, "/" + topic)
    ]
    wrong = [c for _, c in channels if c.type not in by_type or c.encoding not in ("cdr", "ros1")]
    if not channels or wrong:
        available = dict.fromkeys(c.topic for file in bag.files for c in file.channels if c.type in by_type)
        what = f"topic {topic} has type {wrong[0].type[:80]}" if wrong else f"the bag has no topic {topic!r}"
        hint = f"choose a topic of type {' or '.join(by_type)}: {', '.join(available) or 'there is none'}"
        raise InputError(what, hint, str(bag.path))
    kind = by_type[channels[0][1].type]
    header, logged, values, frame, failed = [], [], [], "", 0
    for file, channel in channels:
        for block in file.blocks({channel.id}):
            for row in range(len(block)):
                try:
                    stamp, frame, numbers = _message(block.payload(row), channel, kind)
                except DamagedDataError:
                    failed += 1
                    continue
                header.append(stamp)
                logged.append(int(block.stamp[row]))
                values.append(numbers)
    if not values:
        raise InputError(f"no message on {topic} can be read ({failed} damaged)", "record it", str(bag.path))
    by_header = stamps == "header" or (stamps == "auto" and any(header))
    times_ns = np.array(header if by_header else logged, dtype=np.int64)
    valid = (times_ns != 0) | (np.median(times_ns) <= EPOCH_LIKE)
    return (times_ns[valid] - start_ns) / 1e9, np.array(values)[valid], frame, kind


def _message(data: bytes, channel: Channel, kind: MessageKind) -> tuple[int, str, list[float]]:
    """Return stamp [ns], frame and the numbers of a serialized message."""
    if data[:4] == ZSTD_MAGIC:
        data = decompress("zstd", data, MAX_MESSAGE)
    reader = CdrReader(data, channel.encoding)
    if channel.encoding == "ros1":
        reader.u32()  # the header's number
    seconds, nanoseconds = reader.u32(), reader.u32()
    frame = reader.string()
    for _ in range(kind.strings):
        reader.string()
    reader.align(8)
    at = reader.position
    reader.skip(8 * kind.count)
    numbers = np.frombuffer(data, reader.byte_order + "f8", kind.count, at).tolist()
    return seconds * 1_000_000_000 + nanoseconds, frame, numbers
