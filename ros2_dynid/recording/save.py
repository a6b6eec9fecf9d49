# SPDX-License-Identifier: Apache-2.0

"""Write samples as CSV, npz or a rosbag2 MCAP bag, atomically, and never over another file."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from ros2_dynid.atomic import put_in_place, replacing
from ros2_dynid.errors import InputError
from ros2_dynid.output_files import check_file, errors_name, existing
from ros2_dynid.recording.bag.writer import BagWriter
from ros2_dynid.recording.read import Outline, outline_of
from ros2_dynid.recording.samples import SUFFIXES, Samples

_FOREIGN = (".db3", ".bag", ".zstd", ".xlsx", ".json", ".yaml", ".yml", ".h5", ".parquet", ".npy", ".mat")
_ROWS = 20_000


def save_samples(
    samples: Samples, path: str | Path, *, overwrite: bool = False, topic: str = "/joint_states"
) -> list[str]:
    """Write samples to .csv, .npz, .mcap or a rosbag2 folder (any other name); return notes on what was left out."""
    return save_pieces(outline_of(samples), [samples], path, overwrite=overwrite, topic=topic)


def save_pieces(
    outline: Outline, pieces: Iterable[Samples], path: str | Path, *, overwrite: bool, topic: str = "/joint_states"
) -> list[str]:
    """Write the pieces of a recording, one at a time in memory, as save_samples does."""
    path = check_target(path, overwrite=overwrite)
    suffix = path.suffix.lower()
    checked_pieces = _check_sample_count(outline, pieces)
    left_out: list[str] = []
    if suffix == ".csv":
        with replacing(path, overwrite=overwrite) as stream:
            _write_csv(outline, checked_pieces, stream)
    elif suffix == ".npz":
        with replacing(path, overwrite=overwrite) as stream:
            _write_npz(outline, checked_pieces, stream, path.parent)
    else:
        _write_bag(outline, checked_pieces, path, overwrite, topic)
        if "ddq" in outline.fields:
            left_out.append("JointState has no accelerations: they were left out")
        if "q_r" in outline.fields:
            left_out.append("JointState has no commanded positions: they were left out")
        if "temperature" in outline.fields:
            left_out.append("JointState has no temperatures: they were left out")
        if "tau_f" in outline.fields:
            left_out.append("JointState has no feedforward efforts: they were left out")
        if "tau_l" in outline.fields:
            left_out.append("JointState has one effort: torques at the links were left out")
        if "q_m" in outline.fields:
            left_out.append("JointState has one position: those of the motors were left out")
    return left_out


def check_target(path: str | Path, *, inputs: Sequence[str | Path | None] = (), overwrite: bool = False) -> Path:
    """Refuse early a target that cannot be written, is an input, or exists already."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in _FOREIGN:
        raise InputError(f"cannot write {suffix} files", "name a .csv, .npz or .mcap file, or a folder", str(path))
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}", "create it first", str(path))
    check_file(path, existing(inputs), overwrite=overwrite, folder=suffix not in (".csv", ".npz", ".mcap"))
    return path


def _check_sample_count(outline: Outline, pieces: Iterable[Samples]) -> Iterator[Samples]:
    """Yield at most _ROWS samples at a time, and check their total number."""
    count = 0
    for piece in pieces:
        for begin in range(0, len(piece), _ROWS):
            yield piece.take(slice(begin, begin + _ROWS))
        count += len(piece)
    if count != outline.count:
        what = f"it had {outline.count} samples when it was first read and {count} when it was read again"
        raise InputError(what, "convert it when it is no longer being written", outline.source)


def _write_csv(outline: Outline, pieces: Iterable[Samples], stream: IO[bytes]) -> None:
    names = ["time", *(f"{joint}.{SUFFIXES[field]}" for field in outline.fields for joint in outline.joint_names)]
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(names)
    stream.write(header.getvalue().encode())
    for piece in pieces:
        arrays = piece.arrays()
        block = np.hstack([piece.t[:, None], *(arrays[field] for field in outline.fields)])
        stream.write("".join([",".join(map(repr, row)) + "\n" for row in block.tolist()]).encode())


def _write_npz(outline: Outline, pieces: Iterable[Samples], stream: IO[bytes], folder: Path) -> None:
    """Write the arrays side by side to files without a name, then one after the other into the archive."""
    shape = (outline.count, len(outline.joint_names))
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {}
        for field in ("t", *outline.fields):
            files[field] = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            head = {"descr": "<f8", "fortran_order": False, "shape": shape[:1] if field == "t" else shape}
            np.lib.format.write_array_header_1_0(files[field], head)
        for piece in pieces:
            for field, values in {"t": piece.t, **piece.arrays()}.items():
                files[field].write(np.ascontiguousarray(values, "<f8").tobytes())
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            with archive.open("joint_names.npy", "w") as member:
                np.lib.format.write_array(member, np.array(outline.joint_names, dtype=str), allow_pickle=False)
            for field, file in files.items():
                file.seek(0)
                with archive.open(f"{field}.npy", "w", force_zip64=True) as member:
                    shutil.copyfileobj(file, member, 1 << 20)


def _write_bag(outline: Outline, pieces: Iterable[Samples], path: Path, overwrite: bool, topic: str) -> None:
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder,
        errors_name(path, Path(folder)),
    ):
        bag = Path(folder) / "bag"
        with BagWriter(bag, name=path.name) as writer:
            channel = writer.add_topic(topic)
            for piece in pieces:
                if not np.isfinite(piece.t).all() or np.abs(piece.t).max() > 9e9:
                    raise InputError("a time is not a number of seconds", "correct the time column", outline.source)
                stamps = outline.start_ns + np.round(piece.t * 1e9).astype(np.int64)
                if stamps.min() < 0:
                    what = "a time lies before 1970"
                    raise InputError(what, "shift the times so that none is negative", outline.source)
                arrays = piece.arrays()
                fields = [arrays.get(field) for field in ("q", "dq", "tau")]
                writer.write_joint_states(channel, outline.joint_names, stamps, fields)
        if path.suffix.lower() == ".mcap":
            put_in_place(bag / f"{path.name}_0.mcap", path, overwrite=overwrite)
        else:
            check_target(path, overwrite=overwrite)  # a bag that has taken the name meanwhile is left alone
            _place_folder(bag, path, Path(folder) / "old")


def _place_folder(new: Path, path: Path, aside: Path) -> None:
    """Rename a finished bag to its target; a bag that is overwritten moves into the folder that is deleted."""
    if path.exists():
        if not path.is_dir() or any(not _belongs_to_a_bag(item) for item in path.iterdir()):
            what = "this is not a bag, or there is more in the folder than a bag"
            raise InputError(what, "remove it yourself or choose another name", str(path))
        path.rename(aside)
    try:
        new.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise


def _belongs_to_a_bag(item: Path) -> bool:
    return item.is_file() and (item.name == "metadata.yaml" or item.suffix in (".mcap", ".db3", ".zstd"))
