# SPDX-License-Identifier: Apache-2.0

"""MATLAB files, by SciPy; those of version 7.3 are HDF5. Fields of a structure are named STRUCT/FIELD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.table.array_samples import array_names, limited_memory, refuse_larger, samples_of_arrays
from ros2_dynid.recording.table.hdf5_file import read_hdf5

MAX_DEPTH = 5
"""Structures within structures."""


def read_mat(
    path: Path, joint_names: Sequence[str] | None, columns: Mapping[str, str], timeless: bool = False
) -> list[Samples]:
    """Read the signals of a MATLAB file, as read_npz does."""
    import scipy.io  # here, since it takes a while to import

    try:
        sizes = [8 * int(np.prod(shape, dtype=float)) for _, shape, _ in scipy.io.whosmat(path)]
        refuse_larger(sum(sizes), path, "give a file that holds its data")
        with limited_memory(path):  # what is inside structures and cells may claim any size
            variables = _flat(scipy.io.loadmat(path, simplify_cells=True, verify_compressed_data_integrity=True))
    except NotImplementedError:  # version 7.3
        return read_hdf5(path, joint_names, columns, timeless)
    except InputError:
        raise
    except Exception as error:  # scipy.io lets through what its reading meets
        what = f"this is not a MATLAB file or it is damaged ({type(error).__name__})"
        raise InputError(what, "save it with save(..., '-v7')", str(path)) from None
    mapped = array_names(variables, columns)
    raw_arrays = {ours: variables[theirs] for ours, theirs in mapped.items() if theirs in variables}
    return [samples_of_arrays(raw_arrays, mapped, list(variables), joint_names, timeless, str(path))]


def _flat(content: Mapping[str, Any], before: str = "", depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return arrays of numbers by name, those of structures as STRUCT/FIELD and, for one structure, as FIELD."""
    arrays: dict[str, Any] = {}
    inner: list[dict[str, Any]] = []
    for name, value in content.items():
        if isinstance(value, Mapping) and depth > 1:
            inner.append(_flat(value, f"{before}{name}/", depth - 1))
        elif isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            arrays[before + name] = value
    if len(inner) == 1 and not arrays and not before:
        arrays |= {name.rpartition("/")[2]: value for name, value in inner[0].items()}
    for fields in inner:
        arrays |= fields
    return arrays
