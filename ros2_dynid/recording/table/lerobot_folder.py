# SPDX-License-Identifier: Apache-2.0

"""LeRobot data sets, versions 2 and 3: a folder with meta/info.json and parquet files under data/, by pyarrow.

observation.state holds positions, or what the ending of a name says (.pos, .vel, .effort); action holds the positions
commanded. Episodes follow each other with a pause, which is a gap of the recording.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError, MissingPackageError, Note, remark
from ros2_dynid.model.files import read_bytes
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import FIELDS, Samples, missing_joint, samples_of
from ros2_dynid.recording.table.array_samples import refuse_larger
from ros2_dynid.recording.table.column_map import assign_columns

INFO = Path("meta") / "info.json"
MAX_INFO, MAX_WIDTH = 5_000_000, 10_000
PAUSE = 10.0
"""Time [s] between two episodes: longer than any gap that is filled, so that each stays a stretch of its own."""
VECTORS = {
    "observation.state": "position",
    "observation.velocity": "velocity",
    "observation.effort": "effort",
    "observation.torque": "effort",
    "action": "reference",
}
"""Features that hold a value for each joint, and the signal that they are where names do not say it."""
ENDINGS = {
    "pos": "position",
    "position": "position",
    "vel": "velocity",
    "velocity": "velocity",
    "effort": "effort",
    "torque": "effort",
    "tau": "effort",
}


@dataclass(frozen=True)
class Feature:
    """A feature of the data set and the columns NAME.signal that it holds, one for each of its numbers."""

    name: str
    columns: tuple[str, ...]


def iter_lerobot(
    path: Path,
    joint_names: Sequence[str] | None,
    columns: Mapping[str, str],
    notes: list[Note],
    episode: int | None = None,
) -> Iterator[Samples]:
    """Yield the episodes of a data set one after the other, or the one asked for; append remarks to `notes`."""
    source = str(path)
    fps, features = _read_info(path, joint_names, source)
    header = [column for feature in features for column in feature.columns]
    _, signals = assign_columns(header, joint_names, columns, source)
    names = tuple(dict.fromkeys(joint for _, joint in signals)) if joint_names is None else tuple(joint_names)
    missing = [name for name in names if ("q", name) not in signals]
    if missing:
        raise missing_joint(missing, list(dict.fromkeys(joint for _, joint in signals)), source)
    start, count = 0.0, 0
    for number, t, values in _episodes(path, features, fps, source):
        if episode is not None and number != episode:
            continue
        arrays = {
            field: np.stack([_column(values, signals.get((field, name))) for name in names], axis=1)
            for field in FIELDS
            if any((field, name) in signals for name in names)
        }
        t = t - t[0] + start
        start, count = float(t[-1]) + PAUSE, count + 1
        yield samples_of(t, names, arrays, source)
    if not count:
        what = "it has no episodes" if episode is None else f"it has no episode {episode}"
        raise InputError(what, "choose one that meta/episodes lists", source)
    if count > 1:
        notes.append(remark(f"{count} episodes, one after the other with pauses of {PAUSE:g} s"))


def _column(values: Array, place: int | None) -> Array:
    return np.full(len(values), np.nan) if place is None else values[:, place]


def _read_info(path: Path, joint_names: Sequence[str] | None, source: str) -> tuple[float, list[Feature]]:
    """Return the frames a second and the features that hold values for joints."""
    try:
        info = json.loads(read_bytes(path / INFO, MAX_INFO))
        fps, described = float(info["fps"]), info["features"]
        version = str(info["codebase_version"])
        vectors = {name: described[name] for name in VECTORS if name in described}
        features = [Feature(name, tuple(_names(name, entry, joint_names))) for name, entry in vectors.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        what = f"meta/info.json is not that of a LeRobot data set ({type(error).__name__})"
        raise InputError(what, "give a data set of version 2 or 3", source) from None
    if not version.startswith(("v2", "v3")):
        raise InputError(
            f"the data set has version {version[:20]!r}", "convert it to v2.1 or v3.0 with lerobot", source
        )
    if not any(feature.name == "observation.state" for feature in features) or not 0 < fps < 1e6:
        raise InputError("the data set has no observation.state, or no rate", "give one with joint positions", source)
    return fps, features


def _names(feature: str, entry: Mapping[str, Any], joint_names: Sequence[str] | None) -> list[str]:
    """Return NAME.signal for each number of a feature; without names the robot's joints in their order."""
    (width,) = entry["shape"]
    if not 0 < width <= MAX_WIDTH:
        raise ValueError("width")
    names = entry.get("names") or []
    if isinstance(names, Mapping):  # {"motors": [...]}
        names = next(iter(names.values()))
    if len(names) != width:
        robot = joint_names if joint_names is not None and len(joint_names) == width else None
        names = robot or [f"joint{i + 1}" for i in range(width)]
    columns = []
    for name in map(str, names):
        joint, _, ending = name.rpartition(".")
        if not (joint and ending in ENDINGS):
            joint, ending = name, ""
        signal = VECTORS[feature] if feature == "action" or not ending else ENDINGS[ending]
        if joint_names is not None and joint not in joint_names:
            joint = joint.removeprefix("main_")  # so the followers of the first data sets are called
        columns.append(f"{joint}.{signal}")
    return columns


def _episodes(path: Path, features: list[Feature], fps: float, source: str) -> Iterator[tuple[int, Array, Array]]:
    """Yield number, times (N,) and values (N, columns) of each episode; an episode lies in one file."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingPackageError("pyarrow", f"{source}: a LeRobot data set") from None
    width = sum(len(feature.columns) for feature in features)
    for file in sorted((path / "data").glob("*/*.parquet")):
        try:
            reader = parquet.ParquetFile(file)
            columns = {feature.name for feature in features}
            refuse_larger(8 * _claimed(reader.metadata, width, columns), file, "give a data set that holds its data")
            table = reader.read([*(feature.name for feature in features), "episode_index", "frame_index"])
            frames = table.column("frame_index").to_numpy().astype(float)
            episodes = table.column("episode_index").to_numpy()
            parts = [_matrix(table.column(f.name), len(f.columns)) for f in features]
        except InputError:
            raise
        except Exception as error:  # pyarrow has many errors for damaged files
            what = f"this is not the parquet file of a LeRobot data set ({type(error).__name__})"
            raise InputError(what, "copy the data set again", str(file)) from None
        values = np.hstack(parts)
        for number in dict.fromkeys(episodes.tolist()):
            rows = episodes == number
            yield int(number), frames[rows] / fps, values[rows]


def _claimed(metadata: Any, width: int, columns: set[str]) -> int:
    """Return how many numbers a file claims: lists of any length are a few bytes where all of them are the same."""
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
    values = sum(
        chunk.num_values for chunk in chunks if any(f"{chunk.path_in_schema}.".startswith(f"{c}.") for c in columns)
    )
    return max(int(values), int(metadata.num_rows) * width) + 3 * int(metadata.num_rows)


def _matrix(column: Any, width: int) -> Array:
    """Return a column of lists (or of numbers) as a matrix (N, width) [ValueError if they differ in length]."""
    combined = column.combine_chunks()
    flat = (
        combined.flatten() if hasattr(combined, "flatten") and width >= 1 and hasattr(combined, "values") else combined
    )
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=float).reshape(len(column), width)
