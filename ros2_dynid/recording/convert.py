"""Samples out: CSV, npz or a rosbag2 MCAP bag, whole or not at all, and never over something else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.recording.samples import FIELDS, SUFFIXES, Samples
from ros2_dynid.recording.writer import BagWriter

_FOREIGN = (".db3", ".bag", ".zstd", ".xlsx", ".json", ".yaml", ".yml", ".h5", ".parquet", ".npy", ".mat")
_ROWS = 20_000


def save_samples(
    samples: Samples, path: str | Path, *, overwrite: bool = False, topic: str = "/joint_states"
) -> list[str]:
    """Write samples to .csv, .npz, .mcap or a rosbag2 folder (any other name); return notes on what was left out."""
    path = check_target(path, overwrite=overwrite)
    suffix = path.suffix.lower()
    notes: list[str] = []
    if suffix not in (".csv", ".npz") and samples.ddq is not None:
        notes.append("JointState has no accelerations: they were left out")
    if suffix == ".csv":
        with _placed_file(path, overwrite) as new:
            _write_csv(samples, new)
    elif suffix == ".npz":
        with _placed_file(path, overwrite) as new, new.open("wb") as stream:
            names = np.array(samples.joint_names, dtype=str)
            content: dict[str, Any] = {"t": samples.t, "joint_names": names, **samples.arrays()}
            np.savez(stream, **content)
    else:
        _write_bag(samples, path, overwrite, topic)
    return notes


def check_target(path: str | Path, *, overwrite: bool = False) -> Path:
    """Refuse, before the work, a target that cannot be written or that exists already."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in _FOREIGN:
        raise InputError(f"cannot write {suffix} files", "name a .csv, .npz or .mcap file, or a folder", str(path))
    if path.exists() and not overwrite:
        raise InputError("this exists already", "choose another name or add --overwrite", str(path))
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}", "make it first", str(path))
    return path


@contextmanager
def _placed_file(path: Path, overwrite: bool) -> Iterator[Path]:
    """Give a file beside the path to write to; put it in place when all went well, remove it when not."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    new = Path(name)
    try:
        os.close(handle)
        yield new
        with new.open("rb+") as stream:
            os.fsync(stream.fileno())
        new.chmod(0o666 & ~_umask())
        if overwrite:
            new.replace(path)
        else:
            _place_new(new, path)
    finally:
        new.unlink(missing_ok=True)


def _place_new(new: Path, path: Path) -> None:
    """Give a finished file its name, unless something has taken the name meanwhile."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise InputError("this exists already", "choose another name or add --overwrite", str(path)) from None
    except OSError:  # a filesystem without links
        new.rename(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_csv(samples: Samples, path: Path) -> None:
    arrays = samples.arrays()
    names = ["time", *(f"{joint}.{SUFFIXES[f]}" for f in FIELDS if f in arrays for joint in samples.joint_names)]
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(",".join(f'"{name}"' if "," in name or '"' in name else name for name in names) + "\n")
        for begin in range(0, len(samples), _ROWS):
            rows = slice(begin, begin + _ROWS)
            block = np.hstack([samples.t[rows, None], *(arrays[f][rows] for f in FIELDS if f in arrays)])
            stream.writelines(",".join(map(repr, row)) + "\n" for row in block.tolist())


def _write_bag(samples: Samples, path: Path, overwrite: bool, topic: str) -> None:
    single = path.suffix.lower() == ".mcap"
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        bag = Path(folder) / "bag"
        with BagWriter(bag, name=path.name) as writer:
            channel = writer.add_topic(topic)
            for begin in range(0, len(samples), _ROWS):
                part = samples.take(slice(begin, begin + _ROWS))
                if not np.isfinite(part.t).all() or np.abs(part.t).max() > 9e9:
                    raise InputError("a time is not a number of seconds", "correct the time column", samples.source)
                stamps = samples.start_ns + np.round(part.t * 1e9).astype(np.int64)
                if stamps.min() < 0:
                    raise InputError(
                        "a time lies before 1970", "shift the times so that none is negative", samples.source
                    )
                arrays = part.arrays()
                fields = [arrays.get(field) for field in ("q", "dq", "tau")]
                writer.write_joint_states(channel, samples.joint_names, stamps, fields)
        if single:
            file = bag / f"{path.name}_0.mcap"
            if overwrite:
                file.replace(path)
            else:
                _place_new(file, path)
        else:
            _place_folder(bag, path, Path(folder) / "old")


def _place_folder(new: Path, path: Path, aside: Path) -> None:
    """Give a finished bag its name; a bag that is to be overwritten goes only when the new one is in place."""
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
    shutil.rmtree(aside, ignore_errors=True)


def _belongs_to_a_bag(item: Path) -> bool:
    return item.is_file() and (item.name == "metadata.yaml" or item.suffix in (".mcap", ".db3", ".zstd"))
