# SPDX-License-Identifier: Apache-2.0

"""HDF5 files, by h5py: data sets are named by their path, or by its last part where no other ends so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.table.array_samples import array_names, limited_memory, refuse_larger, samples_of_arrays

MAX_DATA_SETS = 20_000


def read_hdf5(
    path: Path, joint_names: Sequence[str] | None, columns: Mapping[str, str], timeless: bool = False
) -> list[Samples]:
    """Read the signals of an HDF5 file, as read_npz does; only the data sets that hold them are read."""
    try:
        import h5py
    except ImportError:
        raise MissingPackageError("h5py", f"{path}: an HDF5 file") from None
    try:
        with limited_memory(path), h5py.File(path, "r") as file:  # a piece may be larger than its data set
            data_sets = _numeric_data_sets(file)
            mapped = array_names(data_sets, columns)
            used = {ours: data_sets[theirs] for ours, theirs in mapped.items() if theirs in data_sets}
            refuse_larger(sum(8 * data.size for data in used.values()), path, "give a file that holds its data")
            raw_arrays = {ours: _in_rows(np.asarray(data[()])) for ours, data in used.items()}
            available = [name for name in data_sets if name not in used]
    except InputError:
        raise
    except Exception as error:  # h5py has no error of its own for damaged files
        what = f"this is not an HDF5 file or it is damaged ({type(error).__name__})"
        raise InputError(what, "give a file that h5py can read", str(path)) from None
    return [samples_of_arrays(raw_arrays, mapped, available, joint_names, timeless, str(path))]


def _numeric_data_sets(file: Any) -> dict[str, Any]:
    """Return the data sets of numbers that the file itself holds, by path and by the last part of it."""
    by_path: dict[str, Any] = {}

    def collect(name: str, item: Any) -> bool | None:
        numeric = getattr(item, "dtype", None) is not None and item.dtype.kind in "fiu"
        if numeric and len(item.shape) <= 2 and not item.is_virtual and item.external is None:
            by_path[name] = item
        return True if len(by_path) >= MAX_DATA_SETS else None

    file.visititems(collect)
    leaves = [name.rpartition("/")[2] for name in by_path]
    alone = {leaf: data for leaf, data in zip(leaves, by_path.values(), strict=True) if leaves.count(leaf) == 1}
    return {**alone, **by_path}


def _in_rows(array: Any) -> Any:
    """Return a row or column vector as a vector: MATLAB has no others."""
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape and array.size > 1 else array
