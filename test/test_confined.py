# SPDX-License-Identifier: Apache-2.0

"""Folders that requests from the network may name files in: nothing leads out of them, nothing in them is replaced."""

from __future__ import annotations

import pytest

from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError


def test_a_folder_is_made_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Folder("~/deep/er").path == tmp_path / "deep/er" and (tmp_path / "deep/er").is_dir()
    Folder(tmp_path / "deep/er")  # there already
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    assert Folder(tmp_path / "link/er").inside("a") == tmp_path / "deep/er/a"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "link/secret", "link", "a/../../secret", "../in2/x"])
def test_what_leads_out_is_refused_by_every_question(tmp_path, name):
    folder = Folder(tmp_path / "in")
    (tmp_path / "secret").write_text("x")
    (tmp_path / "in2").mkdir()
    (tmp_path / "in2/x").touch()
    (tmp_path / "in/link").symlink_to(tmp_path)
    for ask in (folder.inside, folder.existing, folder.new):
        with pytest.raises(InputError, match="is not inside the folder allowed") as caught:
            ask(name)
        assert str(tmp_path / "in") in caught.value.hint


def test_names_that_are_none_are_refused(tmp_path):
    folder = Folder(tmp_path)
    for name in ("", "a\0b"):
        with pytest.raises(InputError, match="is not a path"):
            folder.inside(name)
    for name in (".", "a/..", str(tmp_path)):
        with pytest.raises(InputError, match="is not inside"):
            folder.inside(name)


def test_what_is_read_exists_and_what_is_written_does_not(tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "bag").mkdir()
    (tmp_path / "file").touch()
    assert folder.existing("bag") == folder.existing(str(tmp_path / "bag")) == tmp_path / "bag"
    assert folder.existing("file") == tmp_path / "file" and folder.inside("a/b/c") == tmp_path / "a/b/c"
    with pytest.raises(InputError, match="'gone' does not exist"):
        folder.existing("gone")
    for name in ("bag", "file"):
        with pytest.raises(InputError, match="exists already"):
            folder.new(name)
    assert folder.new("other") == folder.new("other", unique=True) == tmp_path / "other"
    names = []
    for _ in range(3):
        names.append(folder.new("bag", unique=True).name)
        (tmp_path / names[-1]).mkdir()
    assert names == ["bag_2", "bag_3", "bag_4"]
    (tmp_path / "run").touch()
    (tmp_path / "run_2").symlink_to(tmp_path.parent / "nowhere")
    with pytest.raises(InputError, match="'run_2' is not inside"):
        folder.new("run", unique=True)
