# SPDX-License-Identifier: Apache-2.0

"""npz files: arrays t (N,) and FIELDS of samples (N, n), the joints in the robot's order or named by joint_names."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import FIELDS, Samples, samples_of, shortened

LARGEST_RATIO, ALWAYS_ALLOWED = 100, 256 << 20
"""Arrays larger than this many times their file, and than this many bytes, are refused."""


def read_npz(
    path: Path, joint_names: Sequence[str] | None, columns: Mapping[str, str], timeless: bool = False
) -> list[Samples]:
    """Read arrays t and FIELDS of samples; others are ignored; joint_names, if there, names the columns.

    timeless: without t the times are 0.
    """
    source = str(path)
    try:
        _check_size(path)
        with np.load(path, allow_pickle=False) as archive:
            mapped = {ours: columns.get(ours, ours) for ours in ("t", "joint_names", *FIELDS)}
            if "t" not in columns:
                mapped["t"] = columns.get(
                    "time", "t" if "t" in archive.files or "time" not in archive.files else "time"
                )
            raw_arrays = {ours: archive[theirs] for ours, theirs in mapped.items() if theirs in archive.files}
            available = list(archive.files)
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy each have their own errors for a damaged file
        what = f"this is not an npz file or it is damaged ({type(error).__name__})"
        raise InputError(what, "save arrays with numpy.savez", source) from None
    if timeless and "t" not in raw_arrays and "q" in raw_arrays:
        raw_arrays["t"] = np.zeros(len(np.atleast_1d(raw_arrays["q"])))
    for name in ("t", "q"):
        if name not in raw_arrays:
            hint = Text(f"give t (N,) and q (N, n); the file has {shortened(available)}")
            if name == "t":
                hint = Text(f"the file has {shortened(available)}; map it, or give the rate [Hz]: ", Option("rate"))
            raise InputError(f"there is no array {mapped[name]!r}", hint, source)
    arrays = {name: _as_floats(array, name, source) for name, array in raw_arrays.items() if name != "joint_names"}
    t = arrays.pop("t").reshape(-1)
    arrays = {name: array[:, None] if array.ndim == 1 else array for name, array in arrays.items()}
    n = arrays["q"].shape[1] if arrays["q"].ndim == 2 else 0
    names = raw_arrays.get("joint_names")
    if names is not None and names.dtype.kind == "U" and names.shape == (n,):
        joints = tuple(str(name) for name in names)
    elif joint_names is not None:
        if n != len(joint_names):
            what = f"q has {n} columns, the robot {len(joint_names)} active joints"
            raise InputError(what, "give one column per joint, in the robot's order", source)
        joints = tuple(joint_names)
    else:
        joints = tuple(f"joint{j}" for j in range(1, n + 1))
    return [samples_of(t, joints, arrays, source)]


def _check_size(path: Path) -> None:
    """Refuse an archive whose arrays are far larger than the file can hold."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        size = sum(info.file_size for info in infos)
    if size > max(LARGEST_RATIO * path.stat().st_size, ALWAYS_ALLOWED):
        what = f"its arrays claim {size / 1e9:.3g} GB, the file has {path.stat().st_size / 1e6:.3g} MB"
        raise InputError(what, "save the arrays with numpy.savez", str(path))


def _as_floats(array: NDArray[np.generic], name: str, source: str) -> Array:
    if array.dtype.kind not in "fiu" or array.ndim > 2:
        what = f"array {name!r} has type {array.dtype} and {array.ndim} dimensions"
        raise InputError(what, "give numbers of shape (N, n)", source)
    return np.ascontiguousarray(array, dtype=np.float64)
