# SPDX-License-Identifier: Apache-2.0

"""Wrenches of a force-torque sensor beside the joint states: geometry_msgs/WrenchStamped of a bag, columns of a table.

A table names them PREFIX.force.x ... PREFIX.torque.z (or PREFIX.fx ... PREFIX.tz); an npz file has an array of shape
(N, 6) by that name, beside `t`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
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
from ros2_dynid.recording.table.read_table import TEXT_TABLES

WRENCH = "geometry_msgs/msg/WrenchStamped"
AXES = ("force.x", "force.y", "force.z", "torque.x", "torque.y", "torque.z")
SHORT = ("fx", "fy", "fz", "tx", "ty", "tz")
MAX_MESSAGE = 1 << 16


@dataclass(frozen=True, eq=False)
class Wrenches:
    """Force [N] and torque [N.m] in the sensor's frame, w of shape (N, 6), at increasing times t (N,) [s].

    t counts as the joint states' time of the same recording does; frame: what the messages call the sensor's frame.
    """

    t: Array
    w: Array
    frame: str = ""


def read_wrenches(path: str | Path, topic: str, start_ns: int, reading: Reading | None = None) -> Wrenches:
    """Return the wrenches on `topic` of a bag, or in the columns `topic` of a table.

    start_ns: stamp of the joint states' time 0; reading: stamps, columns, rate and cut in time, unit of a table's time.
    """
    reading, path = reading or Reading(), Path(path)
    if path.suffix.lower() in (*TEXT_TABLES, ".npz"):
        t, w = _read_npz(path, topic, reading) if path.suffix.lower() == ".npz" else _read_csv(path, topic, reading)
        t = t * TIME_UNITS[reading.units.time] - start_ns / 1e9
        t = t if reading.rate is None else np.arange(len(t)) / reading.rate
        frame = ""
    else:
        t, w, frame = _read_bag(open_bag(path), topic, start_ns, reading.stamps)
    good = np.isfinite(t) & np.isfinite(w).all(axis=1)
    good &= (t >= (-np.inf if reading.start is None else reading.start)) & (
        t <= (np.inf if reading.end is None else reading.end)
    )
    t, w = t[good], w[good]
    t, first = np.unique(t, return_index=True)
    if len(t) < 16:
        raise InputError(f"only {len(t)} wrenches can be used", "record the sensor for some seconds", str(path))
    return Wrenches(t, w[first], frame)


def _read_bag(bag: Bag, topic: str, start_ns: int, stamps: str) -> tuple[Array, Array, str]:
    channels = [
        (file, channel) for file in bag.files for channel in file.channels if channel.topic in (topic, "/" + topic)
    ]
    wrong = [channel for _, channel in channels if channel.type != WRENCH or channel.encoding not in ("cdr", "ros1")]
    if not channels or wrong:
        available = dict.fromkeys(c.topic for file in bag.files for c in file.channels if c.type == WRENCH)
        what = f"topic {topic} has type {wrong[0].type[:80]}" if wrong else f"the bag has no topic {topic!r}"
        hint = f"choose a topic of type {WRENCH}: {', '.join(available) or 'there is none'}"
        raise InputError(what, hint, str(bag.path))
    header, logged, values, frame, failed = [], [], [], "", 0
    for file, channel in channels:
        for block in file.blocks({channel.id}):
            for row in range(len(block)):
                try:
                    stamp, frame, wrench = _message(block.payload(row), channel)
                except DamagedDataError:
                    failed += 1
                    continue
                header.append(stamp)
                logged.append(int(block.stamp[row]))
                values.append(wrench)
    if not values:
        raise InputError(f"no wrench on {topic} can be read ({failed} damaged)", "record the sensor", str(bag.path))
    by_header = stamps == "header" or (stamps == "auto" and any(header))
    times_ns = np.array(header if by_header else logged, dtype=np.int64)
    valid = (times_ns != 0) | (np.median(times_ns) <= EPOCH_LIKE)
    return (times_ns[valid] - start_ns) / 1e9, np.array(values)[valid], frame


def _message(data: bytes, channel: Channel) -> tuple[int, str, list[float]]:
    """Return stamp [ns], frame and the six numbers of a serialized WrenchStamped."""
    if data[:4] == ZSTD_MAGIC:
        data = decompress("zstd", data, MAX_MESSAGE)
    reader = CdrReader(data, channel.encoding)
    if channel.encoding == "ros1":
        reader.u32()  # the header's number
    seconds, nanoseconds = reader.u32(), reader.u32()
    frame = reader.string()
    reader.align(8)
    at = reader.position
    reader.skip(48)
    return seconds * 1_000_000_000 + nanoseconds, frame, np.frombuffer(data, reader.byte_order + "f8", 6, at).tolist()


def _time(reading: Reading, available: Sequence[str], *names: str) -> str:
    """Return the name of the time column: mapped, or one of these names."""
    columns = reading.columns or {}
    return [*(columns[x] for x in names if x in columns), *(x for x in names if x in available), names[0]][0]


def _read_npz(path: Path, name: str, reading: Reading) -> tuple[Array, Array]:
    try:
        with np.load(path, allow_pickle=False) as data:
            time = _time(reading, data.files, "t", "time")
            if name not in data or time not in data:
                raise InputError(f"there is no array {name!r}, or no t", f"it has {', '.join(data.files)}", str(path))
            t, w = np.asarray(data[time], dtype=float).reshape(-1), np.asarray(data[name], dtype=float)
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy each have their own errors for a damaged file
        raise InputError(f"it cannot be read: {error}", "give an npz file", str(path)) from None
    if w.shape != (len(t), 6):
        raise InputError(f"{name} has shape {w.shape}", f"give it the shape ({len(t)}, 6)", str(path))
    return t, w


def _read_csv(path: Path, prefix: str, reading: Reading) -> tuple[Array, Array]:
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        sample = stream.readline()
        delimiter = max(",;\t", key=sample.count)
        stream.seek(0)
        rows = csv.reader(stream, delimiter=delimiter)
        header = [cell.strip() for cell in next(rows, [])]
        time = _time(reading, header, "time", "t", "Time")
        names = next(
            ([f"{prefix}.{x}" for x in form] for form in (AXES, SHORT) if f"{prefix}.{form[0]}" in header), None
        )
        if names is None or time not in header or any(name not in header for name in names):
            expected = f"{time}, {prefix}.{AXES[0]} ... {prefix}.{AXES[-1]}"
            raise InputError(f"wrench columns are missing: {expected}", "name their prefix", str(path))
        places = [header.index(name) for name in (time, *names)]
        table = np.array(list(_numbers(rows, places)))
    return (table[:, 0], table[:, 1:]) if len(table) else (np.zeros(0), np.zeros((0, 6)))


def _numbers(rows: Iterator[list[str]], places: list[int]) -> Iterator[list[float]]:
    for row in rows:
        try:
            yield [float(row[k]) for k in places]
        except (ValueError, IndexError):
            yield [np.nan] * len(places)
