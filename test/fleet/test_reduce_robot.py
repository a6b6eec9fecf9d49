# SPDX-License-Identifier: Apache-2.0

"""A robot's folder: written whole, and known by the digests of its files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_results import reduced
from ros2_dynid.fleet.reduce_robot import (
    OWN,
    file_names,
    put,
    store_robot,
    stored_robot,
)
from ros2_dynid.fleet.store import packed, write_whole


def test_a_robots_folder_is_known_by_the_digests_of_its_files(tmp_path):
    folder = tmp_path / "arm"
    files = {"model.yaml": b"m", "report.html": b"r", "tables/a.csv": b"t"}
    written = store_robot(folder, "key", reduced("arm"), lambda new: put(files, new))
    assert {name: (folder / name).read_bytes() for name in files} == files
    assert written.files == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert file_names(folder) == [*sorted(files)[:2], OWN, "tables/a.csv"]
    found = stored_robot(folder)
    assert (found.key, found.files, found.result.names) == ("key", written.files, written.result.names)
    (folder / "tables/a.csv").write_bytes(b"T")
    assert stored_robot(folder) is None and stored_robot(tmp_path / "none") is None
    (folder / "tables/a.csv").unlink()
    assert stored_robot(folder) is None
    write_whole(folder / OWN, packed(replace(written, files=("model.yaml",))))
    assert stored_robot(folder) is None, "of another version"

    def fails(new: Path) -> None:
        (new / "model.yaml").write_bytes(b"half")
        raise OSError("the disk is full")

    store_robot(folder, "key", reduced("arm"), lambda new: put(files, new))
    with pytest.raises(OSError, match="full"):
        store_robot(folder, "other", reduced("arm"), fails)
    assert stored_robot(folder) is None and (folder / "model.yaml").read_bytes() == b"m"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    without = store_robot(folder, "key", reduced("arm", problem="odd"), None)
    assert not without.files and not (folder / "model.yaml").exists() and not (folder / "report.html").exists()
    assert stored_robot(folder).result.problem == "odd"
