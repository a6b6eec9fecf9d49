# SPDX-License-Identifier: Apache-2.0

"""Recordings of a fleet: how they are found, known by their content, and reached elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleet_results import OPTIONS, ROBOT
from ros2_dynid.errors import InputError
from ros2_dynid.fleet.fleet_file import Member
from ros2_dynid.fleet.map_recording import Failed, identities, reason
from ros2_dynid.fleet.recordings import Identity, find, identity, is_url, list_files, readable, stamp_of


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
    assert list_files(unsorted, "x") == ["a", "b", "c"]
    with readable("memory://listed/bag") as copy:
        assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == ["bag_0.db3", "metadata.yaml"]
