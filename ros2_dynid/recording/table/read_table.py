# SPDX-License-Identifier: Apache-2.0

"""Read a table, CSV or npz, in pieces, in SI units, with times from the start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.errors import InputError, Note
from ros2_dynid.recording.samples import Reading, Samples, in_si
from ros2_dynid.recording.table.csv_file import iter_csv
from ros2_dynid.recording.table.npz_file import read_npz

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot

TABLES = (".csv", ".txt", ".tsv", ".npz")
WALL_CLOCK = 1e7
"""A first time [s] beyond this is a date; t then counts from the first sample."""


def iter_table(path: Path, robot: Robot | None, reading: Reading, notes: list[Note]) -> Iterator[Samples]:
    """Yield a CSV file in pieces, an npz file whole; all joints it names, or those of the robot if it names none.

    Remarks are appended to `notes`. With a rate in `reading`, missing times are 0.
    """
    names = None if robot is None else robot.active_names
    start: float | None = None
    npz = path.suffix.lower() == ".npz"
    columns, timeless = reading.columns or {}, reading.rate is not None
    tables = read_npz(path, names, columns, timeless) if npz else iter_csv(path, names, columns, notes, timeless)
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
