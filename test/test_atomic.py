# SPDX-License-Identifier: Apache-2.0

"""Results are written together and never over what they are made from, whenever the writer is killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from motions import recorded_motion
from ros2_dynid.atomic import (
    PREFIX,
    check_digests,
    committed,
    digest,
    put_in_place,
    replacing,
    unsynced,
    write_bytes,
    write_text,
)
from ros2_dynid.cli import main
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot

WRITER = """
import itertools, json, sys
from pathlib import Path
from ros2_dynid.atomic import committed, digest
whole, folder = sys.argv[1] == "whole", Path(sys.argv[2])
for k in itertools.count():
    place = folder / f"r{k}" if whole else folder / "r"
    with committed(place, last="model.json") as new:
        (new / "tables").mkdir()
        for name in ("data.npz", "tables/a.csv", "tables/b.csv"):
            (new / name).write_text(f"{k} " * 5000)
        digests = {name: digest(new / name) for name in ("data.npz", "tables/a.csv", "tables/b.csv")}
        (new / "model.json").write_text(json.dumps({"result": k, "digests": digests}))
    print(k, flush=True)
"""


def killed_writer(folder: Path, kind: str, rng: random.Random) -> None:
    """Let results be written until some are there, and kill the writer at any moment."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, kind, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(rng.randint(1, 30)):
        process.stdout.readline()
    time.sleep(rng.uniform(0.0, 0.003))
    process.kill()
    process.wait(30.0)


def test_a_new_folder_is_whole_or_not_there(tmp_path):
    rng = random.Random(1)
    for turn in range(8):
        around = tmp_path / str(turn)
        killed_writer(around, "whole", rng)
        for folder in around.glob("r*"):
            digests = json.loads((folder / "model.json").read_text())["digests"]
            check_digests(folder, digests, "model.json")
            assert all((folder / name).is_file() for name in digests)
        with committed(around / "again", last="model.json") as new:
            (new / "model.json").write_text("{}")
        assert not list(around.glob(f"{PREFIX}*")), "what a killed run left is swept away"


def test_whoever_is_killed_leaves_the_old_result_or_the_new_one(tmp_path):
    rng = random.Random(2)
    for turn in range(8):
        folder = tmp_path / str(turn) / "r"
        (folder / "mine").mkdir(parents=True)
        (folder / "mine" / "notes.txt").write_text("ours")
        (folder / "latest").symlink_to("model.json")
        killed_writer(folder.parent, "old", rng)
        model = json.loads((folder / "model.json").read_text())
        results = {int((folder / name).read_text().split()[0]) for name in model["digests"]}
        assert results == {model["result"]}, "all files are of one result"
        check_digests(folder, model["digests"], "model.json")
        assert (folder / "mine" / "notes.txt").read_text() == "ours" and (folder / "latest").is_symlink()
        with committed(folder, last="model.json") as new:
            (new / "model.json").write_text("{}")
        assert not list(folder.parent.glob(f"{PREFIX}*")), "what a killed run left is swept away"


def test_the_current_folder_stays_the_same_and_a_result_cut_short_there_is_recognised(tmp_path, monkeypatch):
    (tmp_path / "model.json").write_text("old")
    (tmp_path / "data.npz").write_text("old")
    monkeypatch.chdir(tmp_path)
    before, digests = tmp_path.stat().st_ino, {"data.npz": digest(tmp_path / "data.npz")}
    with committed(Path(), last="model.json") as new:
        (new / "data.npz").write_text("new")
    assert tmp_path.stat().st_ino == before and (tmp_path / "model.json").read_text() == "old"
    with pytest.raises(InputError, match="does not belong"):
        check_digests(tmp_path, digests, "model.json")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_the_old_result(tmp_path, error):
    (tmp_path / "model.json").write_text("old")
    with pytest.raises(error), committed(tmp_path, last="model.json") as new:
        (new / "model.json").write_text("new")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]
    assert (tmp_path / "model.json").read_text() == "old"


def test_identify_never_replaces_its_recording(tmp_path, monkeypatch, capsys):
    recorded_motion(tmp_path, load_robot("demo3"))
    (tmp_path / "motion.npz").rename(tmp_path / "data.npz")
    before = digest(tmp_path / "data.npz")
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--overwrite"]):
        assert main(["identify", "demo3", "data.npz", "-o", ".", *more]) == 2
        assert "this is an input" in capsys.readouterr().err
    assert digest(tmp_path / "data.npz") == before
    vouching = []
    monkeypatch.setattr(
        "ros2_dynid.pipeline.committed", lambda folder, *, last: vouching.append(last) or committed(folder, last=last)
    )
    assert main(["identify", "demo3", "data.npz", "-o", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["report"]) == ("out/model.yaml", "out/report.html"), "where they are at the end"
    assert vouching == ["model.yaml"], "the one with the digests of the others"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "data.npz", "model.yaml", "report.html", "summary.json", "tables",
    }  # fmt: skip
    for name in ("data.npz", "summary.json"):  # new ones beside an old model, as a kill between the files leaves them
        whole = (tmp_path / "out" / name).read_bytes()
        (tmp_path / "out" / name).write_bytes(whole + b" ")
        capsys.readouterr()
        assert main(["report", "out"]) == 2
        assert f"{name} does not belong to model.yaml" in capsys.readouterr().err
        (tmp_path / "out" / name).write_bytes(whole)
    assert main(["report", "out", "--no-figures"]) == 0


def test_export_never_replaces_its_urdf(tmp_path, monkeypatch, capsys):
    urdf = next((Path(__file__).parents[1] / "config" / "robots").glob("*.urdf"))
    (tmp_path / "arm.urdf").write_bytes(urdf.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["export", "arm.urdf", "--to", "urdf", "-o", "."]) == 2
    assert "this is an input" in capsys.readouterr().err
    assert (tmp_path / "arm.urdf").read_bytes() == urdf.read_bytes()


def test_the_mask_of_other_threads_files_is_left_alone(tmp_path):
    """Files written by another thread meanwhile are never open to everybody."""
    before, stop, modes = os.umask(0o077), threading.Event(), set()

    def write() -> None:
        while not stop.is_set():
            with replacing(tmp_path / "ours") as file:
                file.write(b"x")

    writers = [threading.Thread(target=write) for _ in range(3)]
    try:
        for writer in writers:
            writer.start()
        for k in range(2000):
            (tmp_path / f"theirs{k}").touch()
            modes.add((tmp_path / f"theirs{k}").stat().st_mode & 0o777)
    finally:
        stop.set()
        for writer in writers:
            writer.join(30.0)
        os.umask(before)
    assert modes == {0o600}
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_file_takes_its_place_when_it_is_whole_or_not_at_all(tmp_path, error):
    place = tmp_path / "a.yaml"
    place.write_text("old")
    with pytest.raises(error), replacing(place) as file:
        file.write(b"half")
        (begun,) = [path for path in tmp_path.iterdir() if path != place]
        assert begun.name.startswith(".a.yaml.") and begun.suffix == ".yaml" and place.read_text() == "old"
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"] and place.read_text() == "old"
    refused = pytest.raises(InputError, match="this exists already; choose another name")
    with refused as caught, replacing(place, overwrite=False) as file:
        file.write(b"new")
    assert caught.value.source == str(place) and place.read_text() == "old"
    with replacing(tmp_path / "b", overwrite=False) as file:
        file.write(b"first")
    write_bytes(place, b"new")
    write_text(tmp_path / "c", "µ")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.yaml": b"new", "b": b"first", "c": b"\xc2\xb5",
    }  # fmt: skip


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_two_may_write_a_file_at_once_and_its_mode_is_what_the_mask_leaves(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as other:
            one.write(b"one")
            other.write(b"other")
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == b"one", "who is done last"
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode and len(list(tmp_path.iterdir())) == 1


def test_the_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_size))
    put = Path.replace
    monkeypatch.setattr(Path, "replace", lambda new, path: done.append("renamed") or put(new, path))
    write_text(tmp_path / "a", "12345")
    assert done == [5, "renamed"]
    with pytest.raises(RuntimeError), unsynced():
        raise RuntimeError
    write_text(tmp_path / "a", "1")
    assert done[2:] == [1, "renamed"], "it is waited for again"


def test_the_file_that_vouches_for_the_others_is_put_in_place_last(tmp_path, monkeypatch):
    order = []
    put = Path.replace
    where = tmp_path.resolve()
    monkeypatch.chdir(where)  # which is not exchanged
    monkeypatch.setattr(
        Path, "replace", lambda new, path: order.append(path.relative_to(where).as_posix()) or put(new, path)
    )
    with committed(where, last="m.json") as new:
        for name in ("a", "m.json", "z"):
            (new / name).write_text(name)
        (new / "deep/er").mkdir(parents=True)
        (new / "deep/er/m.json").write_text("another of its name")
    assert order[-1] == "m.json" and sorted(order) == ["a", "deep/er/m.json", "m.json", "z"]
    assert (tmp_path / "m.json").read_text() == "m.json"
    assert (tmp_path / "deep/er/m.json").read_text() == "another of its name"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "m.json", "z", "deep"}


def test_a_folder_that_somebody_makes_meanwhile_gets_the_files_too(tmp_path):
    with committed(tmp_path / "r", last="m.json") as new:
        (new / "m.json").write_text("ours")
        (tmp_path / "r").mkdir()
        (tmp_path / "r/theirs").touch()
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"m.json", "theirs"}
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_what_another_run_is_writing_is_not_swept_away(tmp_path):
    with committed(tmp_path / "one", last="m") as first:
        (first / "m").write_text("1")
        (tmp_path / f"{PREFIX}left").mkdir()  # of a run that was killed
        with committed(tmp_path / "two", last="m") as second:
            (second / "m").write_text("2")
            assert first.is_dir() and not (tmp_path / f"{PREFIX}left").exists()
    assert [(tmp_path / name / "m").read_text() for name in ("one", "two")] == ["1", "2"]


def test_digests_are_those_of_the_bytes_and_a_missing_file_is_no_harm(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    assert digest(tmp_path / "a") == wanted
    check_digests(tmp_path, {"a": wanted, "gone": "x"}, "model.yaml")
    with pytest.raises(InputError, match=r"a does not belong to model\.yaml; .*overwrite: true") as caught:
        check_digests(tmp_path, {"gone": "x", "a": wanted[::-1]}, "model.yaml")
    assert caught.value.source == str(tmp_path)


def test_without_links_a_name_that_is_taken_is_left_alone(tmp_path, monkeypatch):
    def link(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", link)
    (tmp_path / "new").write_text("new")
    (tmp_path / "taken").write_text("old")
    with pytest.raises(InputError, match="exists already"):
        put_in_place(tmp_path / "new", tmp_path / "taken", overwrite=False)
    assert (tmp_path / "taken").read_text() == "old"
    put_in_place(tmp_path / "new", tmp_path / "free", overwrite=False)
    assert (tmp_path / "free").read_text() == "new" and not (tmp_path / "new").exists()


def test_a_name_is_taken_in_one_step_without_looking_first(tmp_path, monkeypatch):
    """Two that end at once cannot both have it, and a link that leads nowhere has a name as well."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "taken").write_text("old")
    monkeypatch.setattr(Path, "exists", lambda path, **_: False)  # as it was a moment before
    for name, said in (("link", "a symbolic link"), ("taken", "exists already")):
        with pytest.raises(InputError, match=said), replacing(tmp_path / name, overwrite=False) as file:
            file.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "taken").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"link", "taken"}, "nothing else is left"


def test_files_wait_for_the_disk_unless_their_digests_are_kept(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    write_text(tmp_path / "a", "1")
    assert len(waited) == 1
    with unsynced(), committed(tmp_path / "folder", last="b") as new:
        write_text(new / "b", "2")
    assert len(waited) == 1 and (tmp_path / "folder" / "b").read_text() == "2"
    with committed(tmp_path / "other", last="b") as new:
        write_text(new / "b", "2")
    assert len(waited) == 4, "the file, the folder around and the folder"
