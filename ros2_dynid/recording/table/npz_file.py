# SPDX-License-Identifier: Apache-2.0

"""npz files, with arrays as array_samples.py expects them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.table.array_samples import array_names, refuse_larger, samples_of_arrays


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
            mapped = array_names(archive.files, columns)
            raw_arrays = {ours: archive[theirs] for ours, theirs in mapped.items() if theirs in archive.files}
            available = list(archive.files)
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy each have their own errors for a damaged file
        what = f"this is not an npz file or it is damaged ({type(error).__name__})"
        raise InputError(what, "save arrays with numpy.savez", source) from None
    return [samples_of_arrays(raw_arrays, mapped, available, joint_names, timeless, source)]


def _check_size(path: Path) -> None:
    """Refuse an archive whose arrays are far larger than the file can hold."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        size = sum(info.file_size for info in infos)
    refuse_larger(size, path, "save the arrays with numpy.savez")
