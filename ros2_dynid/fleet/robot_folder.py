# SPDX-License-Identifier: Apache-2.0

"""The folder of a robot in the result: the files of its model, and its result with the key of what it was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.atomic import committed, digest, unsynced
from ros2_dynid.fleet.store import ENDING, packed, read_whole, unpacked, write_whole
from ros2_dynid.fleet.trends import FrictionPoint
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.model.robot import Array
from ros2_dynid.report.build import MODEL, PAGE

OWN = f"robot{ENDING}"


@dataclass(frozen=True, eq=False)
class RecordingRow:
    """A recording in the robot's light: relative torque error under the robot's estimate and under its own, duration
    [s], first stamp [s since 1970, 0: not known], friction."""

    place: str
    together: float
    alone: float
    seconds: float
    time: float
    friction: FrictionPoint | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RobotResult:
    """A robot reduced: the plain estimate of its base parameters, its recordings, the verdict on its model.

    problem: why there is no model.
    """

    id: str
    joints: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    value: Array
    covariance: Array
    identified: NDArray[np.bool_]
    rows: tuple[RecordingRow, ...]
    level: str
    verdict: tuple[str, ...]
    fit: dict[str, TorqueError]
    validation: dict[str, TorqueError]
    problem: str = ""


@dataclass(frozen=True, eq=False)
class StoredRobot:
    """A robot's result with the key of what it was made from, and the digests of its model's files by name."""

    key: str
    result: RobotResult
    files: dict[str, str]


KINDS = (FrictionPoint, RecordingRow, RobotResult, StoredRobot, TorqueError)
"""All that a stored robot may hold."""


def stored_robot(folder: Path) -> StoredRobot | None:
    """Return the result that an earlier run left, None if there is none or a file of its model is not that one."""
    data = read_whole(folder / OWN)
    record = None if data is None else unpacked(data, StoredRobot, KINDS)
    if record is None or not isinstance(record.files, dict):
        return None
    whole = all((folder / name).is_file() and digest(folder / name) == own for name, own in record.files.items())
    return record if whole else None


def store_robot(folder: Path, key: str, result: RobotResult, write: Callable[[Path], object] | None) -> StoredRobot:
    """Write a robot: the files of its model, then its result with their digests; the key comes last.

    write: writes the files into the folder that it is given, None if there is no model: those of an earlier one are
    taken away. Nobody waits for the disk: after a power cut the digests tell, and the robot is identified again.
    """
    (folder / OWN).unlink(missing_ok=True)
    digests: dict[str, str] = {}
    if write is not None:
        with unsynced(), committed(folder, last=MODEL) as new:
            write(new)
            digests = {name: digest(new / name) for name in file_names(new)}
    else:
        for name in (MODEL, PAGE):
            (folder / name).unlink(missing_ok=True)
    record = StoredRobot(key, result, digests)
    write_whole(folder / OWN, packed(record))
    return record


def put(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a model that was made elsewhere."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def file_names(folder: Path) -> list[str]:
    """Return the names of all files below a folder, relative to it, in order."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
