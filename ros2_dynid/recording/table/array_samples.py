# SPDX-License-Identifier: Apache-2.0

"""Arrays t (N,) and FIELDS of samples (N, n) of npz, HDF5 and MATLAB files.

The joints are in the robot's order, or named by an array joint_names.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import FIELDS, Samples, samples_of, shortened

LARGEST_RATIO, ALWAYS_ALLOWED = 100, 8 << 20
"""Arrays larger than this many times their file, and than this many bytes, are refused: a byte may become a double."""
READING_MEMORY = 300_000_000
"""Memory [bytes] that a library may take to read a file, beside LARGEST_RATIO times its size."""
USUAL_NAMES = {
    "t": ("time", "timestamp", "timestamps"),
    "q": ("qpos", "position", "positions", "joint_positions"),
    "dq": ("qd", "qvel", "velocity", "velocities", "joint_velocities"),
    "ddq": ("qdd", "qacc", "acceleration", "accelerations"),
    "tau": ("effort", "efforts", "torque", "torques", "joint_torques"),
}
"""What others call the signals, where no array has our name."""


def array_names(available: Collection[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the array that holds each signal: as `columns` says, else the one of that name, else of a usual name."""
    mapped = {ours: columns.get(ours, ours) for ours in ("t", "joint_names", *FIELDS)}
    if "t" not in columns and "time" in columns:
        mapped["t"] = columns["time"]
    for ours, usual in USUAL_NAMES.items():
        if mapped[ours] == ours and ours not in available:
            mapped[ours] = next((name for name in usual if name in available), ours)
    return mapped


def refuse_larger(size: int, path: Path, hint: str) -> None:
    """Refuse arrays [bytes] that are far larger than the file can hold."""
    if size > max(LARGEST_RATIO * path.stat().st_size, ALWAYS_ALLOWED):
        what = f"its arrays claim {size / 1e9:.3g} GB, the file has {path.stat().st_size / 1e6:.3g} MB"
        raise InputError(what, hint, str(path))


@contextlib.contextmanager
def limited_memory(path: Path) -> Iterator[None]:
    """Let this process take only so much more memory as a file may need, so that a library's claims end in an error."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    allowed = taken + READING_MEMORY + LARGEST_RATIO * path.stat().st_size
    if before[0] == resource.RLIM_INFINITY or allowed < before[0]:
        resource.setrlimit(resource.RLIMIT_AS, (allowed, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def samples_of_arrays(
    raw_arrays: dict[str, NDArray[np.generic]],
    mapped: Mapping[str, str],
    available: Sequence[str],
    joint_names: Sequence[str] | None,
    timeless: bool,
    source: str,
) -> Samples:
    """Return the samples of arrays by signal; timeless: without t the times are 0."""
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
    arrays = {name: _by_samples(array, len(t)) for name, array in arrays.items()}
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
    return samples_of(t, joints, arrays, source)


def _by_samples(array: Array, count: int) -> Array:
    """Return the array with samples first; other languages write (n, N)."""
    if array.ndim == 1:
        return array[:, None]
    return array.T if array.shape[0] != count and array.shape[1] == count else array


def _as_floats(array: NDArray[np.generic], name: str, source: str) -> Array:
    if array.dtype.kind not in "fiu" or array.ndim > 2:
        what = f"array {name!r} has type {array.dtype} and {array.ndim} dimensions"
        raise InputError(what, "give numbers of shape (N, n)", source)
    return np.ascontiguousarray(array, dtype=np.float64)
