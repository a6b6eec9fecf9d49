# SPDX-License-Identifier: Apache-2.0

"""Hashes of recordings: taken by the workers in batches, and only where the stamp is not known."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from ros2_dynid.fleet.hash_recordings import batch_places, hash_recordings, load_stamps
from ros2_dynid.fleet.workers import ThisProcess


def test_recordings_elsewhere_are_not_read_to_be_known(tmp_path):
    """So any number of them goes into one task, whatever their size."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    places = []
    for k in range(2):
        system.pipe_file(f"/large/{k}.csv", b"12345")
        (tmp_path / f"{k}.csv").write_text("12345")
        places += [f"memory://large/{k}.csv", str(tmp_path / f"{k}.csv")]
    tasks = []

    class Watched(ThisProcess):
        def run(self, next_task):
            for done in super().run(next_task):
                tasks.append(done.task.arguments[0])
                yield done

    found = {"arm": SimpleNamespace(recordings=tuple(sorted(places, reverse=True)), validate=())}
    known, unread, _ = hash_recordings(
        found, tmp_path / "stamps.json", Watched(), lambda stage, done: None, batch_bytes=3
    )
    assert sorted(map(len, tasks)) == [1, 1, 2] and len(known) == 4 and not unread
    assert [known[place].size for place in places] == [5, 5, 5, 5]


def test_hashing_is_shared_in_batches_and_a_known_stamp_is_not_read_again(tmp_path):
    sizes = {"a": 60, "b": 30, "c": 20, "d": 500, "e": 1}
    assert batch_places(list("abcde"), sizes, most_bytes=100) == [("a", "b"), ("c",), ("d",), ("e",)]
    assert batch_places(["x", "y", "z"], {}, most=2) == [("x", "y"), ("z",)] and batch_places([], {}) == []
    files = [tmp_path / f"{k}.mcap" for k in range(3)]
    for k, file in enumerate(files[:2]):
        file.write_bytes(bytes([k]) * 10)
    found = {"arm": SimpleNamespace(recordings=tuple(map(str, files)), validate=(str(files[0]),))}
    stamps, told = tmp_path / "stamps.json", []
    known, unread, seconds = hash_recordings(found, stamps, ThisProcess(), lambda stage, done: told.append(done))
    assert set(known) == {str(f) for f in files[:2]} and list(unread) == [str(files[2])] and seconds >= 0.0
    assert told and max(told) <= 0.05 + 1e-12 and told[-1] == pytest.approx(0.05)
    assert load_stamps(stamps) == known
    asked = []

    class Watched(ThisProcess):
        def run(self, next_task):
            for done in super().run(next_task):
                asked.extend(done.task.arguments[0])
                yield done

    os.utime(files[1], ns=(5, 5))
    again, *_ = hash_recordings(found, stamps, Watched(), lambda stage, done: None)
    assert asked == [str(files[1]), str(files[2])] and again[str(files[0])] == known[str(files[0])]
    for text in ("", "[]", "{", '{"a": 3}', '{"a": [1, "x", 2]}'):
        stamps.write_text(text)
        assert load_stamps(stamps) == {}
