# SPDX-License-Identifier: Apache-2.0

"""Read a table (CSV, npz, HDF5, MATLAB, LeRobot) in pieces, in SI units, with times from the start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.errors import InputError, Note
from ros2_dynid.recording.samples import Reading, Samples, in_si
from ros2_dynid.recording.table.csv_file import iter_csv
from ros2_dynid.recording.table.hdf5_file import read_hdf5
from ros2_dynid.recording.table.lerobot_folder import INFO, iter_lerobot
from ros2_dynid.recording.table.mat_file import read_mat
from ros2_dynid.recording.table.npz_file import read_npz

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot

ARRAY_FILES = {".npz": read_npz, ".h5": read_hdf5, ".hdf5": read_hdf5, ".mat": read_mat}
TEXT_TABLES = (".csv", ".txt", ".tsv")
TABLES = (*TEXT_TABLES, *ARRAY_FILES)
WALL_CLOCK = 1e7
"""A first time [s] beyond this is a date; t then counts from the first sample."""


def is_table(path: Path) -> bool:
    """Return whether a file or folder is a table, and no bag."""
    return path.suffix.lower() in TABLES or (path / INFO).is_file()


def iter_table(path: Path, robot: Robot | None, reading: Reading, notes: list[Note]) -> Iterator[Samples]:
    """Yield a CSV file in pieces, others whole: all joints named, or those of the robot.

    Remarks are appended to `notes`. With a rate in `reading`, missing times are 0.
    """
    names = None if robot is None else robot.active_names
    start: float | None = None
    columns, timeless = reading.columns or {}, reading.rate is not None
    read_arrays = ARRAY_FILES.get(path.suffix.lower())
    tables: Iterable[Samples]
    if path.is_dir():
        tables = iter_lerobot(path, names, columns, notes, reading.episode)
    elif read_arrays is not None:
        tables = read_arrays(path, names, columns, timeless)
    else:
        tables = iter_csv(path, names, columns, notes, timeless, reading.format)
    for samples in tables:
        if not len(samples):
            continue
        scaled = in_si(samples, robot, reading.units)
        if start is None:
            first = float(scaled.t[0])
            start = first if np.isfinite(first) and WALL_CLOCK < abs(first) < 9e9 else 0.0
        yield replace(scaled, t=scaled.t - start, start_ns=round(start * 1e9)) if start else scaled
    if start is None:
        raise InputError("the table has no samples", "give at least one row of numbers", str(path))
