# SPDX-License-Identifier: Apache-2.0

"""The parts of a fleet's run, each by itself: names, hashes, files, order of work, tables of the page."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import multiprocessing
import os
import re
import subprocess
import sys
import time
import warnings
import zlib
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.fleet import forking, run, workers
from ros2_dynid.fleet import page as page_module
from ros2_dynid.fleet.fleet_file import MOST_ROBOTS, Member, load_fleet
from ros2_dynid.fleet.kinds import Own, compare_kind
from ros2_dynid.fleet.map_recording import Failed, Source, failed, identities, reason
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.recordings import Identity, _files, find, identity, is_url, readable, stamp_of
from ros2_dynid.fleet.reduce_robot import (
    OWN,
    RecordingRow,
    Reduced,
    RobotResult,
    file_names,
    put,
    reduce_robot,
    store_robot,
    stored_robot,
)
from ros2_dynid.fleet.run import in_turn
from ros2_dynid.fleet.store import HEADER, Store, fingerprint, packed, read_whole, sweep, unpacked, write_whole
from ros2_dynid.fleet.summary import FailedRecording, summarise
from ros2_dynid.fleet.trends import FrictionPoint, Trend
from ros2_dynid.fleet.workers import Task, ThisProcess
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.rows import most_threads
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.output_files import locked_folder

ROBOT = load_robot("demo3")
OPTIONS = IdentifyOptions()


# --- hashes and files


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, eq=False)
class Box:
    name: str
    content: object


@dataclass(frozen=True, eq=False)
class Crate:
    name: str
    content: object


def test_a_fingerprint_tells_values_and_kinds_apart_and_is_the_same_in_every_process():
    values = [
        1, 1.0, True, None, "1", "", [], [1], [[1]], [1, 2], [2, 1], {"a": 1}, {"a": 2}, {"b": 1}, {}, Colour.BLUE,
        Box("a", 1), Box("a", 2), Box("b", 1), Crate("a", 1), np.zeros(2), np.zeros(3), np.zeros((1, 2)),
        np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]), 0.1, -0.0, 0.0,
    ]  # fmt: skip
    prints = [fingerprint(value) for value in values]
    assert len(set(prints)) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint((1, 2)) == fingerprint([1, 2]) != fingerprint(1, 2)
    assert fingerprint(Colour.RED) != fingerprint("red")
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    wide = np.arange(6.0).reshape(2, 3)
    assert fingerprint(np.asfortranarray(wide)) == fingerprint(wide)
    assert fingerprint(7) == hashlib.sha256(b"[7]").hexdigest()
    with pytest.raises(TypeError, match="cannot be stored"):
        fingerprint(object())


def test_values_are_the_same_after_packing_and_only_known_kinds_are_built():
    content = {
        "array": np.arange(6.0).reshape(2, 3), "upper": np.triu(np.arange(1.0, 17.0).reshape(4, 4)),
        "tall": np.triu(np.arange(1.0, 16.0).reshape(5, 3)), "wide": np.triu(np.arange(1.0, 16.0).reshape(3, 5)),
        "small": np.array([[1.0, 2.0], [0.0, 3.0]]), "none": np.empty((0, 4)), "numbers": np.array([3, -4]),
        "marks": np.array([[True], [False]]), "nan": np.array([np.nan, np.inf]), "slice": slice(2, 9),
        "flag": True, "off": False, "null": None, "int": -5, "float": 0.1, "text": "a\n", "list": (1, (2.5, "x")),
        "colour": Colour.BLUE, "box": Box("inner", ()),
    }  # fmt: skip
    data = packed(Box("outer", content))
    back = unpacked(data, Box, (Box, Colour))
    assert back is not None and back.name == "outer" and set(back.content) == set(content)
    for name, value in content.items():
        found = back.content[name]
        if isinstance(value, np.ndarray):
            assert np.array_equal(found, value, equal_nan=found.dtype.kind == "f") and found.shape == value.shape, name
            assert found.dtype == value.dtype
        elif name == "box":
            assert isinstance(found, Box) and found.name == "inner" and found.content == ()
        else:
            assert found == value and type(found) is type(value), name
    assert unpacked(data, Crate, (Box, Crate, Colour)) is None, "of another kind"
    assert unpacked(data, Box, (Box,)) is None, "with a kind that is not known"
    with pytest.raises(TypeError, match="set cannot be stored"):
        packed({1, 2})
    with pytest.raises(TypeError, match="type cannot be stored"):
        packed(Box)


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "Box", "fields": {"name": "a"}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [5], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [-1, -2], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [-1, 2], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [0, -1], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "u", "shape": [-3, -3], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [1], "at": -1}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "u", "shape": [3, 3], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "i", "shape": [4], "at": 0}}},
        {"enum": "Colour", "value": "green"},
        {"kind": "os", "fields": {}},
        {"something": 1},
        {"map": [["a", 1]]},
        [1, 2],
    ],
)
def test_a_tree_that_nobody_packed_counts_as_missing(tree):
    text = json.dumps(tree).encode()
    body = text + np.arange(2.0).tobytes() + np.arange(1).tobytes()
    magic = HEADER.unpack_from(packed(1))[0]
    data = HEADER.pack(magic, zlib.crc32(body), len(text), 24) + body
    assert unpacked(data, Box, (Box, Colour)) is None
    right = json.dumps({"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [2], "at": 0}}})
    body = right.encode() + body[len(text) :]
    whole = HEADER.pack(magic, zlib.crc32(body), len(right), 24) + body
    assert unpacked(whole, Box, (Box, Colour)) is not None, "the test's own header is right"


def test_a_file_is_whole_or_counts_as_missing(tmp_path):
    store = Store(tmp_path / "outcomes")
    assert store.load("abcd") is None
    data = packed(Box("a", np.arange(5.0)))
    store.save("abcd", data)
    assert store.path("abcd") == tmp_path / "outcomes/ab/abcd.fleet" and store.load("abcd") == data
    assert [path.name for path in store.path("abcd").parent.iterdir()] == ["abcd.fleet"]
    file = tmp_path / "x"
    changed = bytearray(data)
    changed[-1] ^= 1
    other = bytearray(data)
    other[7] ^= 1
    for bad in (b"", data[:10], data[:-1], data + b" ", bytes(changed), bytes(other), b"\0" * len(data)):
        file.write_bytes(bad)
        assert read_whole(file) is None and unpacked(bad, Box, (Box,)) is None
    file.write_bytes(data)
    assert read_whole(file) == data


def test_what_a_killed_run_began_to_write_is_swept_away(tmp_path, monkeypatch):
    write_whole(tmp_path / "ab/abcd.fleet", packed(1))
    begun = tmp_path / "ab/.abcd.fleet.0123456789ab"
    begun.write_bytes(b"begun")
    (tmp_path / "ab/.folder.fleet.x").mkdir()
    (tmp_path / ".other").write_text("not ours")
    sweep(tmp_path)
    assert not begun.exists() and (tmp_path / "ab/abcd.fleet").exists() and (tmp_path / ".other").exists()

    def refused(path, target):
        raise OSError("no rename here")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="no rename"):
        write_whole(tmp_path / "ab/new.fleet", b"x")
    assert sorted(p.name for p in (tmp_path / "ab").iterdir()) == [".folder.fleet.x", "abcd.fleet"]


def test_a_folder_is_locked_by_one_and_a_file_is_no_folder(tmp_path):
    with (
        locked_folder(tmp_path / "a/b"),
        pytest.raises(InputError, match="another run"),
        locked_folder(tmp_path / "a/b"),
    ):
        pass
    with locked_folder(tmp_path / "a/b"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="the output is a file"), locked_folder(tmp_path / "file"):
        pass


# --- the fleet file


def fleet(folder: Path, text: str) -> list[Member]:
    (folder / "fleet.yaml").write_text(text)
    return load_fleet(folder / "fleet.yaml")


def test_defaults_hold_for_all_robots_and_a_robot_has_the_last_word(tmp_path):
    for name in ("one", "two", ".hidden"):
        (tmp_path / "bags" / name).mkdir(parents=True)
    (tmp_path / "bags/file.txt").touch()
    text = """
defaults: {robot: demo3, kind: arm, gains: {waist: 2.0, upper: 3.0}, options: {friction: stribeck, standard: true},
           validate: check}
robots:
  - {id: cell1, recordings: a.mcap, gains: {upper: 4.0}, options: {friction: load}}
  - {id: cell2, recordings: [b, c], kind: other, gravity: [0, 0, 9.0], robot: demo3}
folders: [bags]
"""
    text = text.replace("waist", ROBOT.active_names[0]).replace("upper", ROBOT.active_names[1])
    cell1, cell2, one, two = fleet(tmp_path, text)
    assert [m.id for m in (cell1, cell2, one, two)] == ["cell1", "cell2", "one", "two"]
    assert cell1.recordings == ("a.mcap",) and cell1.validate == ("check",) and cell1.folder is None
    assert cell2.recordings == ("b", "c") and (cell1.kind, cell2.kind, one.kind) == ("arm", "other", "arm")
    assert cell1.options.friction == "load" and cell1.options.standard and cell2.options.friction == "stribeck"
    first, second = ROBOT.active_names[:2]
    assert dict(cell1.options.preparation.gains) == {first: 2.0, second: 4.0}
    assert dict(two.options.preparation.gains) == {first: 2.0, second: 3.0}
    assert one.folder == tmp_path / "bags/one" and two.folder == tmp_path / "bags/two" and one.recordings == ()
    assert one.robot is cell1.robot and cell2.robot is not cell1.robot
    np.testing.assert_allclose(np.abs(cell2.robot.gravity).max(), 9.0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{robot: demo3}", "unknown field 'robot'"),
        ("{defaults: {id: a}, robots: []}", "unknown field 'defaults.id'"),
        ("{defaults: [1], robots: []}", "defaults is"),
        ("{robots: none}", "robots is not a list"),
        ("{robots: [7]}", r"robots\[0\] is '7'"),
        ("{folders: 7}", "folders is not a list"),
        ("{folders: [[a]]}", "folders is not a list"),
        ("{folders: nowhere}", "no such folder"),
        ("{robots: [{id: '', robot: demo3, recordings: a}]}", "not a valid folder name"),
        ("{robots: [{id: .., robot: demo3, recordings: a}]}", "not a valid folder name"),
        ("{robots: [{id: a, robot: demo3, recordings: a, gravity: [1, 2]}]}", "gravity"),
        ("{robots: [{id: a, robot: demo3, recordings: a, options: 3}], defaults: {options: {}}}", "options is '3'"),
    ],
)
def test_other_wrong_fleet_files_are_refused(tmp_path, text, line):
    with pytest.raises(InputError, match=line):
        fleet(tmp_path, text)


def test_names_have_a_length_and_fleets_a_size(tmp_path, monkeypatch):
    fleet(tmp_path, f"robots: [{{id: {'a' * 80}, robot: demo3, recordings: a}}]")
    with pytest.raises(InputError, match="not a valid folder name"):
        fleet(tmp_path, f"robots: [{{id: {'a' * 81}, robot: demo3, recordings: a}}]")
    assert MOST_ROBOTS >= 100_000
    monkeypatch.setattr("ros2_dynid.fleet.fleet_file.MOST_ROBOTS", 1)
    fleet(tmp_path, "robots: [{id: a, robot: demo3, recordings: a}]")
    with pytest.raises(InputError, match="robots is not a list"):
        fleet(tmp_path, "robots: [{id: a, robot: demo3, recordings: a}, {id: b, robot: demo3, recordings: a}]")


# --- recordings


def member(*recordings: str, validate: tuple[str, ...] = (), folder: Path | None = None) -> Member:
    return Member("arm", "", ROBOT, OPTIONS, recordings, validate, folder)


def test_recordings_are_found_by_path_glob_and_folder(tmp_path):
    for name in ("b/2.mcap", "b/1.mcap", "b/deep/er/3.mcap", "b/notes.txt", "b/.hidden/4.mcap", "b/UP.MCAP",
                 "b/validate/5.mcap", "b/deep/validate/6.csv", "b/bag/metadata.yaml", "b/bag/bag_0.mcap",
                 "b/bag/in/7.mcap", "b/8.db3.zstd"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def names(places):
        return [os.path.relpath(place, tmp_path / "b") for place in places]

    found = find(member("b/*.mcap", "b/2.mcap", "b/none*", validate=("b/1.mcap", "b/gone.mcap")), tmp_path)
    assert names(found.recordings) == ["2.mcap"] and names(found.validate) == ["1.mcap", "gone.mcap"]
    assert found.missing == (("b/none*", "no file matches; check the path"),)
    assert names(find(member("b/**/*.mcap"), tmp_path).recordings)[0] == "1.mcap"
    below = find(member(folder=tmp_path / "b"), tmp_path)
    assert names(below.recordings) == ["1.mcap", "2.mcap", "8.db3.zstd", "UP.MCAP", "bag", "deep/er/3.mcap"]
    assert names(below.validate) == ["deep/validate/6.csv", "validate/5.mcap"] and not below.missing
    (tmp_path / "empty/validate").mkdir(parents=True)
    (tmp_path / "empty/validate/a.mcap").touch()
    nothing = find(member(folder=tmp_path / "empty"), tmp_path)
    assert len(nothing.validate) == 1 and "has no recording" in nothing.missing[0][1]
    (tmp_path / "alone").mkdir()
    for name in ("metadata.yaml", "alone_0.mcap"):  # bags put right into the robot's folder
        (tmp_path / "alone" / name).touch()
    alone = find(member(folder=tmp_path / "alone"), tmp_path)
    assert [Path(place).name for place in alone.recordings] == ["alone_0.mcap"]
    wrong = find(member("nosuch://plant/a.mcap"), tmp_path)
    assert not wrong.recordings and "cannot be opened" in wrong.missing[0][1] and "nosuch" in wrong.missing[0][0]
    assert is_url("s3://a/b") and not is_url("a/b:c")


def test_recordings_of_every_format_are_found_below_a_folder_and_in_the_home_folder(tmp_path, monkeypatch):
    names = ["a.mcap", "b.db3", "c.bag", "d.csv", "e.npz", "f.mcap.zstd", "g.db3.zstd", "h.mcap.zst", "i.db3.zst"]
    for name in (*names, "j.txt", "k.mcap.part", "l.zstd"):
        (tmp_path / name).touch()
    below = find(member(folder=tmp_path), tmp_path)
    assert [Path(place).name for place in below.recordings] == names and not below.validate
    (tmp_path / "to_validate").mkdir()
    for name in ("validate.mcap", "revalidate_9.mcap"):
        (tmp_path / "to_validate" / name).touch()
    named = find(member(folder=tmp_path / "to_validate"), tmp_path)
    assert len(named.recordings) == 2 and not named.validate, "only a folder of that name below the robot's is held out"
    monkeypatch.setenv("HOME", str(tmp_path))
    found = find(member("~/a.mcap", "~/*.csv"), Path("/elsewhere"))
    assert found.recordings == (str(tmp_path / "a.mcap"), str(tmp_path / "d.csv")) and not found.missing


def test_a_file_that_was_replaced_by_another_of_its_size_and_time_has_another_stamp(tmp_path):
    file, other = tmp_path / "a.mcap", tmp_path / "new"
    for path, text in ((file, "one"), (other, "two")):
        path.write_text(text)
        os.utime(path, ns=(7, 7))
    before = stamp_of(str(file))
    other.replace(file)
    assert stamp_of(str(file)) != before and stamp_of(str(file))[0] == before[0] == 3
    os.utime(file, ns=(7, 8))
    later = stamp_of(str(file))
    with file.open("a") as stream:
        stream.write("!")
    os.utime(file, ns=(7, 8))
    assert stamp_of(str(file)) != later
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "metadata.yaml").write_text("abc")
    (bag / "bag_0.mcap").write_text("de")
    whole = identity(str(bag)).content
    (bag / "metadata.yaml").write_text("abcd")
    (bag / "bag_0.mcap").write_text("e")
    assert identity(str(bag)).content != whole, "where one file ends and the next begins counts"


def test_a_recording_is_what_its_bytes_are(tmp_path):
    one, same, other = (tmp_path / name for name in ("a.mcap", "b.mcap", "c.csv"))
    for path in (one, same, other):
        path.write_bytes(b"x" * 3_000_000)
    assert identity(str(one)).content == identity(str(same)).content != identity(str(other)).content
    assert identity(str(one)).size == 3_000_000 and identity(str(one)).stamp != identity(str(same)).stamp
    before = stamp_of(str(one))
    os.utime(one, ns=(1, 1))
    assert stamp_of(str(one)) != before and identity(str(one)).content == identity(str(same)).content
    one.write_bytes(b"x" * 2_999_999 + b"y")
    assert identity(str(one)).content != identity(str(same)).content, "the last byte counts"
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "metadata.yaml").write_text("a")
    (bag / "bag_0.mcap").write_text("bc")
    (bag / "folder").mkdir()
    whole = identity(str(bag))
    assert whole.size == 3
    (bag / "bag_0.mcap").rename(bag / "bag_1.mcap")
    assert identity(str(bag)).content != whole.content
    answers = identities((str(one), str(tmp_path / "gone")))
    assert isinstance(answers[0], Identity) and isinstance(answers[1], Failed)
    assert reason(answers[1]) == "there is no such file or folder; check the path"


def test_a_recording_that_grows_while_it_is_hashed_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "a.mcap"
    file.write_bytes(b"x" * 100)
    opened = Path.open

    def growing(path, mode="r"):
        stream = opened(path, mode)
        with opened(path, "ab") as end:
            end.write(b"more")
        return stream

    monkeypatch.setattr(Path, "open", growing)
    with pytest.raises(InputError, match="changes while it is read"):
        identity(str(file))


@pytest.mark.parametrize(
    ("written", "refused"),
    [(None, False), (b"y" * 100, True), (b"x" * 99, True)],
    ids=["left alone", "same size", "cut"],
)
def test_a_recording_that_is_written_while_it_is_hashed_is_refused_whatever_its_size(
    tmp_path, monkeypatch, written, refused
):
    file = tmp_path / "a.mcap"
    file.write_bytes(b"x" * 100)
    os.utime(file, ns=(7, 7))  # whatever is written is later than this
    opened = Path.open

    def changing(path, mode="r"):
        stream = opened(path, mode)
        if written is not None:
            with opened(path, "wb") as other:
                other.write(written)
        return stream

    monkeypatch.setattr(Path, "open", changing)
    if refused:
        with pytest.raises(InputError, match="changes while it is read"):
            identity(str(file))
    else:
        assert identity(str(file)).size == 100


def test_storage_that_refuses_is_said_in_one_line(tmp_path, monkeypatch):
    memory = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem

    def refuses(*arguments, **options):
        raise RuntimeError("the token has expired " + 300 * "x")

    memory().pipe_file("/refusing/a.csv", b"1")
    monkeypatch.setattr(memory, "glob", refuses)
    ((name, why),) = find(member("memory://refusing/*.csv"), tmp_path).missing
    assert name == "memory://refusing/*.csv" and len(why) < 300
    assert "it cannot be listed (the token has expired" in why and "check the URL" in why
    monkeypatch.setattr(memory, "ukey", refuses)
    with pytest.raises(InputError, match=r"it cannot be reached \(the token has expired") as caught:
        stamp_of("memory://refusing/a.csv")
    assert caught.value.source == "memory://refusing/a.csv" and len(str(caught.value)) < 350
    monkeypatch.setattr(memory, "get", refuses)
    with (
        pytest.raises(InputError, match=r"it cannot be copied \(the token has expired"),
        readable("memory://refusing/a.csv"),
    ):
        pass


def test_storage_that_does_not_tell_a_size_is_no_error(monkeypatch):
    memory = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem
    memory().pipe_file("/silent/unknown.mcap", b"12345")
    with readable("memory://silent/unknown.mcap") as known:
        assert known.size == 5
    monkeypatch.setattr(memory, "size", lambda self, path: None)
    assert identity("memory://silent/unknown.mcap").size == 0
    with readable("memory://silent/unknown.mcap") as unknown:
        assert unknown.size == 0


def test_recordings_elsewhere_are_not_read_to_be_known(tmp_path, monkeypatch):
    """So any number of them goes into one task, whatever their size."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr(run, "BATCH_BYTES", 3)
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
    known, unread, _ = run._identities(found, tmp_path / "stamps.json", Watched(), lambda stage, done: None)
    assert sorted(map(len, tasks)) == [1, 1, 2] and len(known) == 4 and not unread
    assert [known[place].size for place in places] == [5, 5, 5, 5]


def test_errors_become_one_line():
    assert failed(InputError("what", "do this", "a.mcap"), "b") == Failed("what", "do this", "a.mcap")
    assert failed(MemoryError(), "b") == Failed(
        "there is not enough memory for it", "give the workers more memory", "b"
    )
    denied = failed(PermissionError(13, "Permission denied"), "b")
    assert denied.what == "it cannot be read (Permission denied)" and denied.source == "b"
    assert failed(OSError("odd"), "b").what == "it cannot be read (odd)"
    assert failed(DynidError("this; is wrong; mend it"), "b") == Failed("this; is wrong", "mend it", "b")
    assert failed(DynidError("wrong"), "b") == Failed("wrong", "wrong", "b")
    assert reason(Failed("what", "hint", "a")) == "what; hint"


def test_hashing_is_shared_in_batches_and_a_known_stamp_is_not_read_again(tmp_path, monkeypatch):
    sizes = {"a": 60, "b": 30, "c": 20, "d": 500, "e": 1}
    monkeypatch.setattr(run, "BATCH_BYTES", 100)
    assert run._batches(list("abcde"), sizes) == [("a", "b"), ("c",), ("d",), ("e",)]
    monkeypatch.setattr(run, "BATCH", 2)
    assert run._batches(["x", "y", "z"], {}) == [("x", "y"), ("z",)] and run._batches([], {}) == []
    files = [tmp_path / f"{k}.mcap" for k in range(3)]
    for k, file in enumerate(files[:2]):
        file.write_bytes(bytes([k]) * 10)
    found = {"arm": SimpleNamespace(recordings=tuple(map(str, files)), validate=(str(files[0]),))}
    stamps, told = tmp_path / "stamps.json", []
    known, unread, seconds = run._identities(found, stamps, ThisProcess(), lambda stage, done: told.append(done))
    assert set(known) == {str(f) for f in files[:2]} and list(unread) == [str(files[2])] and seconds >= 0.0
    assert told and max(told) <= 0.05 + 1e-12 and told[-1] == pytest.approx(0.05)
    assert run._stamps(stamps) == known
    asked = []

    class Watched(ThisProcess):
        def run(self, next_task):
            for done in super().run(next_task):
                asked.extend(done.task.arguments[0])
                yield done

    os.utime(files[1], ns=(5, 5))
    again, *_ = run._identities(found, stamps, Watched(), lambda stage, done: None)
    assert asked == [str(files[1]), str(files[2])] and again[str(files[0])] == known[str(files[0])]
    for text in ("", "[]", "{", '{"a": 3}', '{"a": [1, "x", 2]}'):
        stamps.write_text(text)
        assert run._stamps(stamps) == {}


# --- the start of workers


def test_workers_are_forked_from_a_process_that_has_what_they_need():
    """In a process of its own: here Dask is loaded already, and has chosen."""
    code = """
import os, sys
from ros2_dynid.fleet.forking import METHOD, begin_to_start
before = dict(os.environ)
begin_to_start()
begin_to_start()
assert dict(os.environ) == before and "numpy" not in sys.modules and "distributed" not in sys.modules
import dask
assert dask.config.get(METHOD) == "forkserver"
from ros2_dynid.fleet.workers import Task, workers
from ros2_dynid.fleet.recordings import is_url
import builtins
waiting = [Task(builtins.eval, ("sorted(__import__('sys').modules)",), "a"), Task(os.getenv, ("OMP_NUM_THREADS",), "b")]
with workers(None, 1) as hands:
    found = {done.task.subject: done.result for done in hands.run(lambda: waiting.pop() if waiting else None)}
assert "ros2_dynid.fleet.reduce_robot" in found["a"] and "ros2_dynid.fleet.map_recording" in found["a"]
assert found["b"] == "1", found["b"]
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
    user = {**environment, "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "spawn"}
    kept = "import dask; from ros2_dynid.fleet.forking import METHOD, begin_to_start as b; b()"
    code = f"{kept}; assert dask.config.get(METHOD) == 'spawn'"
    subprocess.run([sys.executable, "-c", code], check=True, env=user, timeout=60)


@pytest.fixture
def fork_server(monkeypatch):
    """Let no process be started; return the environments that it would have had, and what it would have loaded."""
    started = []
    context = multiprocessing.get_context("forkserver")
    monkeypatch.setattr(context, "set_forkserver_preload", lambda names: started.append(names))
    monkeypatch.setattr(forking.forkserver, "ensure_running", lambda: started.append(dict(os.environ)))
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    for name in forking.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return started


@pytest.mark.parametrize("paths", [None, "/some/where"])
def test_the_process_that_workers_are_forked_from_finds_our_modules_and_has_one_thread(fork_server, monkeypatch, paths):
    dask = pytest.importorskip("dask")
    if paths is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", paths)
    monkeypatch.setattr(sys, "path", ["/a", "", "/b", *sys.path])
    before = dict(os.environ)
    with dask.config.set({forking.METHOD: None}):
        forking.begin_to_start()
        assert dask.config.get(forking.METHOD) == "forkserver"
    names, theirs = fork_server
    assert names == ["distributed.nanny", "ros2_dynid.fleet.reduce_robot", "ros2_dynid.fleet.map_recording"]
    assert theirs["PYTHONPATH"].split(os.pathsep) == [path for path in sys.path if path]
    assert {theirs[name] for name in forking.VARIABLES} == {"1"} and len(forking.VARIABLES) >= 3
    assert dict(os.environ) == before, "our own stays as it was"


def test_what_the_user_has_chosen_for_threads_and_for_the_start_of_workers_holds(fork_server, monkeypatch):
    dask = pytest.importorskip("dask")
    first, *others = forking.VARIABLES
    monkeypatch.setenv(first, "4")
    with dask.config.set({forking.METHOD: "spawn"}):
        forking.begin_to_start()
        assert dask.config.get(forking.METHOD) == "spawn"
    assert fork_server[1][first] == "4" == os.environ[first] and not set(others) & set(fork_server[1])
    fork_server.clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "dask", None)
        forking.begin_to_start()  # whoever needs it says so
    fork_server.clear()
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace())
    forking.begin_to_start()
    assert not fork_server, "Dask is loaded, and has chosen"


# --- the order of work


def hands(count: int, *, share_files: bool = False) -> SimpleNamespace:
    """Return workers that are never asked to do anything."""
    return SimpleNamespace(count=count, dashboard="", share_files=share_files)


def test_robots_with_large_recordings_come_first_and_each_recording_once():
    sizes = {"a": 5, "b": 50, "c": 7, "d": 6, "e": 50, "f": 1}
    robots = {"one": ["a", "c"], "two": ["d", "b"], "three": ["e", "f", "a"], "four": []}
    assert in_turn(robots, sizes) == ["b", "d", "e", "a", "f", "c"]
    assert in_turn({"x": ["a", "b", "c"]}, sizes) == ["b", "c", "a"]


def test_a_robot_comes_as_soon_as_its_recordings_are_mapped(tmp_path):
    """Tasks without the work: who is asked for what, and when."""
    members = [Member(name, "", ROBOT, OPTIONS, (), ()) for name in ("small", "large", "none", "broken")]
    pairs = {"small": ["s1", "s2"], "large": ["l1", "l2", "s2"], "none": [], "broken": ["x1"]}
    known = {key: Identity(key, size, "") for key, size in (("s1", 1), ("s2", 2), ("l1", 9), ("l2", 8), ("x1", 1))}
    keys = {key: Source(key, key, ROBOT, OPTIONS.preparation, OPTIONS.reading) for key in known}
    sources = {robot: [(keys[key], key) for key in own] for robot, own in pairs.items()}
    found = {robot: SimpleNamespace(validate=("l1", "gone")) for robot in pairs}
    store = Store(tmp_path / "outcomes")
    tasks = run._Tasks(members, found, known, sources, keys, store, tmp_path, "again", hands(2))

    def mapped(task, result):
        return tasks.take(workers.Done(task, (result,), 1.0))

    order = [tasks.next_task() for _ in range(5)]
    assert [task.subject for task in order] == ["l1", "l2", "s2", "s1", "x1"] and tasks.next_task() is None
    by_key = {task.subject: task for task in order}
    assert mapped(by_key["l1"], packed(1)) == ("reading recordings (1 of 5)", pytest.approx(0.9 / 5))
    mapped(by_key["l2"], packed(2))
    assert tasks.next_task() is None
    mapped(by_key["x1"], Failed("torn", "mend it"))
    assert tasks.broken == {"x1": "torn; mend it"} and tasks.next_task() is None, "nothing of it can be used"
    mapped(by_key["s2"], packed(3))
    robot = tasks.next_task()
    assert robot.subject == "large"
    job = robot.arguments[0]
    assert [source.place for source in job.sources] == ["l1", "l2", "s2"] and job.stored[2] == packed(3)
    assert [source.place for source in job.validation] == ["l1"]
    assert (job.folder, job.command, job.id) == ("robots/large", "again", "large")
    assert job.target is None, "who does not reach our files hands them back"
    assert tasks.next_task() is None and tasks.mapped == 4 and tasks.mapping == 4.0
    stage, done = tasks.take(workers.Done(robot, Reduced(reduced("large"), {"model.yaml": b"a", "t/b.csv": b"c"}), 2.0))
    assert stage == "identifying robots (1 of 4)" and done == pytest.approx(0.9 * 4 / 5 + 0.1 * 1 / 4)
    assert tasks.reduced == 1 and 2.0 <= tasks.identifying < 3.0 and list(tasks.results) == ["large"]
    assert tasks.folders == {"large": ("robots/large/model.yaml", "robots/large/report.html")}
    assert (tmp_path / "robots/large/t/b.csv").read_bytes() == b"c"
    with pytest.raises(InputError, match="large: torn"):
        tasks.take(workers.Done(robot, Failed("torn", "mend it"), 2.0))
    some = {"large": sources["large"]}
    again = run._Tasks(members[1:2], found, known, some, keys, store, tmp_path, "another command", hands(2))
    assert again.next_task() is None and list(again.results) == ["large"] and again.reduced == again.mapped == 0
    (tmp_path / "robots/large/t/b.csv").unlink()
    anew = run._Tasks(members[1:2], found, known, some, keys, store, tmp_path, "", hands(1))
    task = anew.next_task()
    assert task.subject == "large"
    anew.take(workers.Done(task, Reduced(reduced("large", problem="odd"), {}), 0.0))
    assert not (tmp_path / "robots/large/model.yaml").exists() and anew.folders == {}
    other = replace(OPTIONS, standard=True)
    for changed in (
        replace(members[1], options=other),
        replace(members[1], robot=with_gravity(ROBOT, (0.0, 0.0, 1.0))),
    ):
        different = run._Tasks([changed], found, known, some, keys, store, tmp_path, "", hands(2))
        assert different.next_task() is not None
    less = run._Tasks(members[1:2], found, known, {"large": sources["large"][:2]}, keys, store, tmp_path, "", hands(2))
    assert less.next_task().arguments[0].stored == (packed(1), packed(2))
    unchecked = {"large": SimpleNamespace(validate=())}
    assert run._Tasks(members[1:2], unchecked, known, some, keys, store, tmp_path, "", hands(2)).next_task() is not None
    mapped(by_key["s1"], packed(4))
    store.path("s1").unlink()
    with pytest.raises(InputError, match="its stored R factors are missing") as caught:
        tasks.next_task()
    assert caught.value.source == "s1"


def test_workers_of_this_machine_store_what_they_find_themselves(tmp_path):
    """Outcomes and models do not pass through the process that hands out the tasks."""
    source = Source("k", "k", ROBOT, OPTIONS.preparation, OPTIONS.reading)
    found, known, sources = {"arm": SimpleNamespace(validate=())}, {"k": Identity("k", 1, "")}, {"arm": [(source, "k")]}
    members, store = [Member("arm", "", ROBOT, OPTIONS, (), ())], Store(tmp_path / "outcomes")
    given = (members, found, known, sources, {"k": source}, store, tmp_path, "")
    tasks = run._Tasks(*given, hands(1, share_files=True))
    recording = tasks.next_task()
    assert recording.arguments == ((source,), (store.path("k"),))
    store.save("k", packed(1))  # as the worker does
    assert tasks.take(workers.Done(recording, (None,), 1.0)) == ("reading recordings (1 of 1)", pytest.approx(0.9))
    robot = tasks.next_task()
    job = robot.arguments[0]
    assert job.stored == (store.path("k"),) and job.target == tmp_path / "robots" / "arm"
    foreign = reduce_robot(job)
    assert isinstance(foreign, Failed) and "missing or damaged" in foreign.what
    stored = store_robot(job.target, job.key, reduced("arm"), lambda new: put({"model.yaml": b"m"}, new))
    tasks.take(workers.Done(robot, Reduced(stored.result, {}, stored), 1.0))
    assert tasks.folders == {"arm": ("robots/arm/model.yaml", "robots/arm/report.html")} and tasks.reduced == 1
    again = run._Tasks(*given, hands(1, share_files=True))
    assert again.next_task() is None and again.results["arm"].id == "arm" and again.folders == tasks.folders
    (job.target / "model.yaml").write_bytes(b"")  # as after a power cut: it is not what was written
    assert run._Tasks(*given, hands(1, share_files=True)).next_task() is not None
    store.path("k").unlink()
    gone = reduce_robot(job)
    assert isinstance(gone, Failed) and "missing or damaged" in gone.what and gone.source == "k"
    with pytest.raises(InputError, match="missing or damaged; repeat") as caught:
        tasks.take(workers.Done(robot, gone, 1.0))
    assert caught.value.source == "k"


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


def test_robots_of_one_geometry_are_of_one_kind():
    lighter = replace(ROBOT, parameters={"M1": 3.0}, name="other")
    assert run._geometry(ROBOT) == run._geometry(lighter) and len(run._geometry(ROBOT)) == 8
    longer = replace(ROBOT, joints=(replace(ROBOT.joints[0], r=0.7), *ROBOT.joints[1:]))
    tilted = with_gravity(ROBOT, (0.0, 0.0, 1.0))
    assert len({run._geometry(one) for one in (ROBOT, longer, tilted)}) == 3


def test_short_recordings_are_mapped_several_at_a_time_and_each_by_itself_after_a_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "TOGETHER_BYTES", 100)
    monkeypatch.setattr(run, "SPREAD", 2)
    sizes = [300, 60, 40, 39, 20, 20, 20, 20, 20, 20]
    known = {f"k{k}": Identity(f"k{k}", size, "") for k, size in enumerate(sizes)}
    keys = {key: Source(key, key, ROBOT, OPTIONS.preparation, OPTIONS.reading) for key in known}
    sources = {"arm": [(source, key) for key, source in keys.items()]}
    members, found = [Member("arm", "", ROBOT, OPTIONS, (), ())], {"arm": SimpleNamespace(validate=())}
    tasks = run._Tasks(members, found, known, sources, keys, Store(tmp_path), tmp_path, "", hands(1))
    order = [tasks.next_task() for _ in range(7)]
    assert [task.subject for task in order] == ["k0", "k1 k2", "k3 k4 k5", "k6", "k7", "k8", "k9"]
    assert tasks.next_task() is None
    tasks.take(workers.Done(order[2], Failed("lost", "more memory"), 0.0))
    assert tasks.mapped == 0 and not tasks.broken
    again = [tasks.next_task() for _ in range(3)]
    assert [task.subject for task in again] == ["k3", "k4", "k5"] and tasks.next_task() is None
    early = run._Tasks(members, found, known, sources, keys, Store(tmp_path), tmp_path, "", hands(1))
    early.take(workers.Done([early.next_task() for _ in range(2)][1], Failed("lost", "more memory"), 0.0))
    assert [early.next_task().subject for _ in range(3)] == ["k1", "k2", "k3 k4 k5"], "many others are left, and yet"
    tasks.take(workers.Done(again[1], Failed("lost", "more memory"), 0.0))
    assert tasks.broken == {"k4": "lost; more memory"} and tasks.mapped == 1
    tasks.take(workers.Done(order[1], (packed(1), Failed("torn", "mend it")), 0.0))
    assert set(tasks.broken) == {"k2", "k4"} and tasks.mapped == 3 and tasks.last_mapped > 0.0


def test_tasks_run_one_after_the_other_in_this_process():
    waiting = [Task(lambda a, b: a + b, (1, 2), "sum"), Task(abs, (-3,), "size")]
    done = list(ThisProcess().run(lambda: waiting.pop(0) if waiting else None))
    assert [(one.task.subject, one.result) for one in done] == [("sum", 3), ("size", 3)]
    assert all(one.seconds >= 0.0 for one in done)


def test_workers_of_dask_take_tasks_as_they_become_ready():
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    waiting = [Task(pow, (k, 2), str(k)) for k in range(8)]
    waiting.append(Task(len, (bytes(11_000_000),), "8"))  # as a year of outcomes; Dask warns of 10 MB
    waiting.append(Task(abs, (-7,), "last"))
    open_tasks, most, returned = set(), 0, []

    def next_task():
        nonlocal most
        if len(waiting) == 1 and len(returned) < 9:
            return None  # the last one waits for all others
        if not waiting:
            return None
        open_tasks.add(waiting[0].subject)
        most = max(most, len(open_tasks))
        return waiting.pop(0)

    inside = {"n_workers": 3, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with dask.config.set(workers.SETTINGS), distributed.Client(**inside) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        hands = workers.DaskWorkers(client, share_files=True)
        assert hands.count == 3
        for done in hands.run(next_task):
            open_tasks.discard(done.task.subject)
            returned.append((done.task.subject, done.result))
            assert done.seconds >= 0.0
    assert sorted(returned[:9]) == [*((str(k), k**2) for k in range(8)), ("8", 11_000_000)] and returned[9] == (
        "last",
        7,
    )
    assert most == 2 * 3, "some ahead, and no more"


def test_a_task_on_a_worker_has_one_thread_and_its_time_is_taken():
    def work(number):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return number, most_threads.get()

    before = most_threads.get()
    assert before != 1
    result, seconds = workers._timed(work, (3,))
    assert result == (3, 1) and 0.02 <= seconds < 1.0 and most_threads.get() == before


@pytest.mark.parametrize(("names", "count"), [((), 1), (("a",), 1), (("a", "b", "c"), 3)])
def test_a_cluster_says_how_many_workers_it_has_and_where_its_dashboard_is(names, count):
    asked = []

    def client(link):
        def info(n_workers):
            asked.append(n_workers)
            return {"workers": dict.fromkeys(names)}

        return SimpleNamespace(scheduler_info=info, dashboard_link=link)

    hands = workers.DaskWorkers(client("http://x:8787"), share_files=True)
    assert (hands.count, hands.dashboard, hands.share_files) == (count, "http://x:8787", True)
    assert workers.DaskWorkers(client(None), share_files=False).dashboard == "" and asked == [-1, -1], "all of them"


def test_workers_that_do_not_start_in_time_are_one_line(monkeypatch):
    distributed = pytest.importorskip("distributed")
    in_threads(monkeypatch)

    def late(self, n_workers, timeout):
        raise TimeoutError(f"only 0 of {n_workers} after {timeout} s")

    monkeypatch.setattr(distributed.Client, "wait_for_workers", late)
    with (
        pytest.raises(InputError, match=r"the workers do not start \(only 0 of 2 after 120 s\)"),
        workers.workers(None, 2),
    ):
        pass


def test_a_task_that_kills_its_workers_has_failed_and_a_lost_scheduler_ends_the_run():
    distributed = pytest.importorskip("distributed")
    hands = workers.DaskWorkers.__new__(workers.DaskWorkers)

    def future(error):
        def result():
            raise error

        return SimpleNamespace(result=result)

    found = hands._result(future(distributed.KilledWorker("task", None, 3)))
    assert isinstance(found, Failed) and "every worker that ran it was lost" in found.what
    with pytest.raises(InputError, match="connection to the scheduler is lost"):
        hands._result(future(distributed.CancelledError("task")))
    assert hands._result(SimpleNamespace(result=lambda: 5)) == 5


def test_loggers_of_dask_are_quiet_afterwards():
    names = ("distributed.some", "tornado", "asyncio", "distributedx", "ros2_dynid.x")
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        workers.quiet_logs()
        quiet = [name for name in names if logging.getLogger(name).level > logging.CRITICAL]
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert quiet == ["distributed.some", "tornado", "asyncio"]


def in_threads(monkeypatch):
    """Let clusters that are started have threads for processes: they are there at once."""
    distributed = pytest.importorskip("distributed")
    started, cluster = [], distributed.LocalCluster

    def inside(**settings):
        started.append(dict(settings))
        made = cluster(**{**settings, "processes": False, "protocol": "tls://", "dashboard_address": None})
        started[-1]["address"] = made.scheduler_address
        return made

    monkeypatch.setattr(distributed, "LocalCluster", inside)
    return started


def test_a_cluster_has_a_process_of_one_thread_for_each_core_and_is_closed_to_others(monkeypatch):
    started = in_threads(monkeypatch)
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda process: {0, 5, 7})  # the cores that are ours
    for count, wanted in ((2, 2), (None, 3)):
        with workers.workers(None, count) as hands:
            waiting = [Task(abs, (-k,), "") for k in range(5)]
            found = [done.result for done in hands.run(lambda rest=waiting: rest.pop() if rest else None)]
            assert hands.count == wanted and sorted(found) == [0, 1, 2, 3, 4] and hands.share_files
            assert dask.config.get("distributed.scheduler.allowed-failures") == 3
            assert dask.config.get("distributed.worker.daemon") is True
            tls = started[0]["address"]
            stranger = distributed.Security.temporary().get_connection_args("client")
            with pytest.raises(OSError, match="TLS certificate does not match"):
                asyncio.run(distributed.comm.connect(tls, timeout=1.0, **stranger))
            with pytest.raises(OSError):
                asyncio.run(distributed.comm.connect(tls.replace("tls:", "tcp:"), timeout=1.0))
            ours = started[0]["security"].get_connection_args("client")
            asyncio.run(distributed.comm.connect(tls, timeout=5.0, **ours))
        settings = started.pop()
        assert settings["n_workers"] == wanted and settings["threads_per_worker"] == 1 and settings["processes"]
        assert settings["dashboard_address"] == "127.0.0.1:0", "for this machine only"
        assert settings["silence_logs"] == logging.CRITICAL


def test_a_scheduler_is_used_where_it_is_and_refused_where_it_has_no_workers(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "CONNECT", 1.0)
    quiet = []
    monkeypatch.setattr(workers, "quiet_logs", lambda: quiet.append(True))
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=1, **options) as cluster:
        with workers.workers(cluster.scheduler_address, None) as hands:
            assert hands.count == 1 and isinstance(hands, workers.DaskWorkers)
            assert not hands.share_files, "its workers may be on other machines"
        assert cluster.scheduler.workers, "it is not ours to end"
    with distributed.LocalCluster(n_workers=0, **options) as empty:
        address = empty.scheduler_address
        with pytest.raises(InputError, match="the scheduler has no workers"), workers.workers(address, None):
            pass
    for address in ("tcp://127.0.0.1:9", "nosuch://127.0.0.1:9"):
        with (
            pytest.raises(InputError, match="there is no scheduler at this address") as caught,
            workers.workers(address, None),
        ):
            pass
        assert caught.value.source == address
    assert len(quiet) == 4, "what Dask would log of it is said in one line"


def test_wrong_numbers_of_workers_are_refused():
    with pytest.raises(InputError, match="both a scheduler and a number"), workers.workers("tcp://a:1", 2):
        pass
    with pytest.raises(InputError, match="workers is -1"), workers.workers(None, -1):
        pass
    with workers.workers(None, 0) as hands:
        assert isinstance(hands, ThisProcess) and hands.count == 1 and not hands.dashboard


# --- a recording in parts


def part(count: int = 3) -> SimpleNamespace:
    shape = np.zeros((count, 2))
    return SimpleNamespace(
        t=np.zeros(count), q=shape, dq=shape, ddq=shape, tau=shape, sign=shape, bridged=np.zeros(count)
    )


# --- summary and page


def reduced(robot: str, value: float = 1.0, **changes) -> RobotResult:
    rows = tuple(
        RecordingRow(f"{robot}/{k}.mcap", 0.01 * (k + 1), 0.02, 60.0, 1.7e9 + 86400.0 * k,
                     FrictionPoint(np.array([2.0]), np.array([0.1])))
        for k in range(2)
    )  # fmt: skip
    found = RobotResult(
        robot, ("elbow",), ("Fv1", "Fc1"), ("N.m.s/rad", "N.m"), np.array([value, 3.0]), 1e-4 * np.eye(2),
        np.ones(2, dtype=bool), rows, "good", ("good: fine",),
        {}, {},
    )  # fmt: skip
    return replace(found, **changes)


def test_the_most_serious_verdict_comes_first(monkeypatch):
    results = {f"cell{k}": reduced(f"cell{k}", 1.0 + 0.01 * k) for k in range(6)}
    results["far"] = reduced("far", 9.0, problem="the gains differ", level="bad")
    results["bad"] = reduced("bad", 1.02, problem="the recordings contradict each other", level="bad")
    worn = Trend("elbow", (1.7e9, 1.8e9), (1.0, 2.0), (0.1, 0.1), 0.9, 1.1, 0.01, 0.001, 1.7e9)
    plain = [Trend("elbow", (1.7e9, 1.8e9), (1.0, 1.0), (0.1, 0.1))]

    def over_time(joints, times, points):
        return [worn] if next(names) in ("cell3", "bad", "far") else plain

    names = iter(results)
    monkeypatch.setattr("ros2_dynid.fleet.summary.trends", over_time)
    lost = [FailedRecording("gone", "a.mcap", "torn"), FailedRecording("cell1", "b.mcap", "torn")]
    kinds = {"arm": [*results, "gone", "idle"]}
    folders = {"cell1": ("robots/cell1/model.yaml", "robots/cell1/report.html")}
    found = summarise(kinds, results, lost, folders)
    verdicts = {robot: one.verdict for robot, one in found.robots.items()}
    assert verdicts == {
        **{f"cell{k}": "good" for k in range(6)}, "cell3": "changed", "far": "stands out", "bad": "refused",
        "gone": "no data", "idle": "no data",
    }  # fmt: skip
    assert found.robots["gone"].reason == "none of its recordings can be used (1 failed)"
    assert found.robots["idle"].reason == "it has no recordings"
    assert found.robots["cell3"].reason == "the friction of elbow left its band on 2023-11-14"
    assert [(one.joint, one.date, one.change_per_day) for one in found.robots["cell3"].left] == [
        ("elbow", "2023-11-14", 0.01)
    ]
    assert (
        found.robots["far"].reason.startswith("stands out in Fv1 (+") and "gains differ" in found.robots["far"].reason
    )
    assert found.robots["far"].left and not found.robots["cell1"].left
    assert found.robots["cell1"].model == "robots/cell1/model.yaml" and not found.robots["cell2"].model
    assert found.robots["cell1"].report == "robots/cell1/report.html"
    assert (found.robots["cell1"].recordings, found.robots["cell1"].seconds) == (2, 120.0)
    (outlier,) = found.outliers
    assert (outlier.robot, outlier.parameter, outlier.value, outlier.unit) == ("far", "Fv1", 9.0, "N.m.s/rad")
    assert outlier.sigmas > 10.0 and outlier.mean == pytest.approx(1.02, abs=0.03)
    (kind,) = found.kinds
    assert kind.robots == tuple(results) and [row.robots for row in kind.parameters] == [8, 8]
    assert kind.parameters[1].mean == pytest.approx(3.0) and kind.parameters[1].spread == 0.0
    assert set(found.robots["cell1"].shrunk) == {"Fv1", "Fc1"}
    names = iter(results)
    data = page_data(fleet_page(found))
    assert [row["id"] for row in data["robots"]][:5] == ["bad", "cell3", "far", "gone", "idle"], "those in doubt first"
    rows = {row["id"]: row for row in data["robots"]}
    assert rows["far"]["sigmas"] > 10 and rows["far"]["seconds"] == pytest.approx(120, rel=1e-3)
    assert rows["gone"]["sigmas"] is None and rows["cell1"]["report"] == "robots/cell1/report.html"
    assert [one["id"] for one in data["trends"]][:3] == ["bad", "cell3", "far"] and data["trends"][0]["changed"]
    assert not data["trends"][3]["changed"] and len(data["trends"]) == len(results)
    assert [row["robot"] for row in data["failed"]] == ["gone", "cell1"]
    worst = data["worst"]
    assert len(worst) == 2 * len(results) and worst[0]["together"] == 2.0 and worst[-1]["together"] == 1.0
    assert worst[0]["recording"].endswith("1.mcap") and worst[0]["alone"] == 2.0
    assert len(data["kinds"][0]["z"]) == len(results) and data["kinds"][0]["names"] == ["Fv1", "Fc1"]


def page_data(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_head_of_the_page_says_who_stands_out():
    few = {f"cell{k}": reduced(f"cell{k}", 1.0 + 0.01 * k) for k in range(5)}
    calm = summarise({"arm": list(few)}, few, [], {})
    page = fleet_page(calm)
    assert "No robot stands out" in page and "could not be used" not in page.split("<script")[0]
    assert "5 robots, 10 recordings, 10 min in all" in page and "Verdicts: 5 good." in page
    few["cell1"] = replace(few["cell1"], level="note")
    few["cell3"] = replace(few["cell3"], level="note")
    assert "Verdicts: 3 good, 2 note." in fleet_page(summarise({"arm": list(few)}, few, [], {}))
    many = replace(calm, robots={
        f"r{k:02d}": replace(calm.robots["cell0"], verdict="stands out", reason=f"reason {k}") for k in range(23)
    }, failed=(FailedRecording("a", "b", "c"),))  # fmt: skip
    page = fleet_page(many)
    assert "r19: reason 19" in page and "3 more robots stand out." in page
    assert "1 recordings could not be used." in page and "No robot stands out" not in page


def test_long_tables_and_texts_are_cut():
    many = {f"cell{k}": reduced(f"cell{k}", 1.0 + 0.01 * (k % 7)) for k in range(101)}
    lost = [FailedRecording("a", f"{'p' * 300}/{k}", "r" * 300) for k in range(3001)]
    data = page_data(fleet_page(summarise({"arm": list(many)}, many, lost, {})))
    assert len(data["failed"]) == 3000 and len(data["worst"]) == 200
    assert data["failed"][7]["reason"] == "r" * 240
    assert data["failed"][7]["recording"] == "p" * 238 + "/7", "the end of a path says most"
    order = [row["together"] for row in data["worst"]]
    assert order == sorted(order, reverse=True)
    assert data["robots"][0]["kind"] == "arm" and data["robots"][3]["recordings"] == 2


def test_long_trends_are_thinned_and_numbers_are_rounded(monkeypatch):
    trend = Trend("elbow", tuple(1e9 + k for k in range(100)), tuple(np.arange(100.0) + 0.123456), (0.1,) * 100,
                  -1.23456, 200.0, None, None, 1e9 + 50)  # fmt: skip
    thin = page_module._joint(trend, 10)
    assert len(thin["t"]) == len(thin["y"]) == 10 and thin["t"][0] == 10**9 and thin["t"][-1] == 10**9 + 99
    assert thin["y"][-1] == 99.12 and thin["low"] == -1.235 and thin["slope"] is None and thin["left"] == 1e9 + 50
    assert len(page_module._joint(trend, 100)["t"]) == 100
    assert page_module._round_value(float("nan")) is None and page_module._round_value(None) is None
    assert page_module._percent(None) is None
    monkeypatch.setattr(page_module, "MOST_POINTS", 40)
    robots = {f"cell{k}": reduced(f"cell{k}") for k in range(4)}
    found = replace(summarise({"arm": list(robots)}, robots, [], {}), trends={name: [trend] for name in robots})
    assert {len(one["joints"][0]["t"]) for one in page_data(fleet_page(found))["trends"]} == {10}
    monkeypatch.setattr(page_module, "MOST_POINTS", 1)
    assert {len(one["joints"][0]["t"]) for one in page_data(fleet_page(found))["trends"]} == {6}


def test_robots_are_shrunk_by_what_their_recordings_leave_open():
    """One parameter, in closed form: (x / C + mean / T) / (1 / C + 1 / T)."""
    rng = np.random.default_rng(1)
    std = np.array([0.01, 0.2, 0.5, 0.1, 0.3])
    x = 2.0 + 0.3 * rng.standard_normal(5)
    found = compare_kind(
        [Own(np.array([a]), np.array([[s**2]]), np.array([True])) for a, s in zip(x, std, strict=True)]
    )
    C, T, mean = std**2, found.spread[0] ** 2, found.mean[0]
    np.testing.assert_allclose(found.shrunk[:, 0], (x / C + mean / T) / (1 / C + 1 / T), rtol=1e-6)
    np.testing.assert_allclose(found.shrunk_std[:, 0], 1 / np.sqrt(1 / C + 1 / T), rtol=1e-6)
    blind = [Own(np.array([a]), np.array([[0.01]]), np.array([k > 0])) for k, a in enumerate(x)]
    seen = compare_kind(blind)
    assert seen.shrunk[0, 0] == seen.mean[0] and seen.shrunk_std[0, 0] == seen.spread[0]


def test_a_long_verdict_names_the_worst_and_counts_the_rest():
    names = tuple(f"p{k}" for k in range(7))
    rng = np.random.default_rng(3)

    def own(robot, x, **changes):
        found = reduced(robot, **changes)
        return replace(
            found,
            names=names,
            units=("N.m",) * 7,
            value=x,
            covariance=1e-4 * np.eye(7),
            identified=np.ones(7, dtype=bool),
        )

    results = {f"cell{k}": own(f"cell{k}", 1.0 + 0.01 * rng.standard_normal(7)) for k in range(12)}
    far = np.ones(7)
    far[:6] += np.array([1.0, -3.0, 2.0, 5.0, -4.0, 6.0])
    results["far"] = own("far", far)
    results["odd"] = own("odd", 1.0 - 4.0 * (np.arange(7) == 6))
    found = summarise({"arm": list(results)}, results, [], {})
    sizes = [abs(one.sigmas) for one in found.outliers]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 7
    reason_ = found.robots["far"].reason
    assert re.fullmatch(r"stands out in p5 \(\+.*p3 \(\+.*p4 \(-.*p1 \(-[^,]* and 2 more", reason_), reason_
    assert re.fullmatch(r"stands out in p6 \(-[0-9.]+ sigma\)", found.robots["odd"].reason)
    assert found.robots["cell1"].reason == "good: fine" and found.robots["cell1"].remarks == ("good: fine",)
    none = summarise({"arm": ["a"], "leg": ["b"]}, {"b": own("b", far, verdict=())}, [], {})
    assert none.robots["b"].shrunk == {}, "of one robot nobody knows what the others would be"
    assert none.robots["b"].reason == "" and [kind.name for kind in none.kinds] == ["leg"]
    assert none.kinds[0].parameters[0].spread is None and none.kinds[0].parameters[0].mean == 2.0
    blind = summarise({"leg": ["b"]}, {"b": replace(own("b", far), identified=np.zeros(7, dtype=bool))}, [], {})
    assert blind.kinds == () and blind.robots["b"].shrunk == {}


# --- what the map knows already


@dataclass(frozen=True)
class Named:
    name: str
    elsewhere: object = None


def test_recordings_elsewhere_are_listed_and_copies_go_away(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name in ("b.csv", "a.csv", "x.txt"):
        system.pipe_file(f"/listed/{name}", name.encode())
    found = find(member("memory://listed/*.csv", "memory://listed/gone.csv"), tmp_path)
    assert found.recordings == ("memory://listed/a.csv", "memory://listed/b.csv")
    assert found.missing == (("memory://listed/gone.csv", "no file matches; check the path"),)
    (tmp_path / "c.csv").write_text("c")
    url = f"file://{tmp_path}/c.csv"
    assert find(member(url), tmp_path).recordings == (url,)
    with readable("memory://listed/a.csv") as copy:
        assert copy.name == "a.csv" and copy.read_bytes() == b"a.csv"
        folder = copy.parent
    assert not folder.exists()
    with readable(str(tmp_path / "c.csv")) as path:
        assert path == tmp_path / "c.csv"
    one = identity("memory://listed/a.csv")
    assert one.size == 5 and one.content == one.stamp != identity("memory://listed/b.csv").stamp
    system.pipe_file("/listed/a.csv", b"longer")
    assert stamp_of("memory://listed/a.csv") != (one.size, one.stamp)
    with pytest.raises(InputError, match="there is no such file"):
        stamp_of("memory://listed/gone.csv")
    system.pipe_file("/listed/bag/metadata.yaml", b"1")
    system.pipe_file("/listed/bag/bag_0.db3", b"23")
    whole = identity("memory://listed/bag")
    assert whole.size == 3
    for name, same in (("metadata.yaml", b"2"), ("bag_0.db3", b"45")):
        system.pipe_file(f"/listed/bag/{name}", same)
        assert identity("memory://listed/bag").stamp != whole.stamp, "every file of it counts"
        whole = identity("memory://listed/bag")
    unsorted = SimpleNamespace(isdir=lambda path: True, find=lambda path: ["b", "c", "a"])
    assert _files(unsorted, "x") == ["a", "b", "c"]
    with readable("memory://listed/bag") as copy:
        assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == ["bag_0.db3", "metadata.yaml"]
