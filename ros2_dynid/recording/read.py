# SPDX-License-Identifier: Apache-2.0

"""Read any recording: a bag, a CSV or an npz file becomes Samples in the robot's joint order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.notes import Note
from ros2_dynid.recording.bag.folder import is_bag, open_bag
from ros2_dynid.recording.bag.read_bag import iter_bag
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import Samples, cut, in_order_of, in_si, ordered
from ros2_dynid.recording.table.read_table import TABLES, iter_table
from ros2_dynid.recording.torque_topic import with_torques
from ros2_dynid.recording.units import SI, Units

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Array, Robot

CHUNK = 65_536
"""Samples read at a time."""


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
    """Read a recording: a rosbag2 folder or file, a ROS 1 bag, a CSV or an npz file.

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
    measured = {field: values for field, values in arrays.items() if field == "q" or not np.isnan(values).all()}
    samples = replace(last.with_arrays(t, measured), notes=tuple(notes))
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
        yield replace(samples, t=(count + np.arange(len(samples))) / reading.rate)
        count += len(samples)


def _as_stamped(
    path: Path | RemoteFile, robot: Robot | None, chunk: int, reading: Reading, notes: list[Note]
) -> Iterator[Samples]:
    joint_names = None if robot is None else robot.active_names
    if reading.stamps not in ("auto", "header", "bag"):
        raise InputError(f"unknown kind of stamps {reading.stamps!r}", "choose auto, header or bag")
    if isinstance(path, Path):
        if not path.exists():
            raise InputError("there is no such file or folder", "check the path", str(path))
        if path.suffix.lower() in TABLES:
            for samples in iter_table(path, robot, reading, notes):
                yield samples if joint_names is None else in_order_of(samples, joint_names)
            return
        if not is_bag(path):
            what = f"the name ends in {path.suffix[:20]!r}" if path.suffix else "the name has no ending"
            raise InputError(what, "give a rosbag2 folder, .mcap, .db3, .bag, .csv or .npz file", str(path))
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
