# SPDX-License-Identifier: Apache-2.0

"""Any form into any other and back, cut by time, whole or not at all, and never over something else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bagmaker import EPOCH, ROS1, plain_messages, write_bag, write_bag1
from ros2_dynid.cli import main
from ros2_dynid.errors import InputError
from ros2_dynid.recording.read import load_samples, outline_of
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_pieces, save_samples

NAMES = ("arm.base", 'elbow,"odd', "joint 3")
FORMS = ("a.csv", "a.npz", "a.mcap", "bag")
URDF = """<robot name="r"><link name="base"/><link name="l1"/><link name="l2"/>
<joint name="joint2" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 0 1"/>
<limit lower="-9" upper="9" effort="99" velocity="99"/></joint>
<joint name="joint1" type="revolute"><parent link="l1"/><child link="l2"/><axis xyz="0 1 0"/>
<limit lower="-9" upper="9" effort="99" velocity="99"/></joint></robot>"""


def some(count=500, **changes):
    rng = np.random.default_rng(0)
    q, dq, tau = (rng.normal(size=(count, 3)) for _ in range(3))
    tau[3, 1] = np.nan
    return replace(Samples(np.arange(count) / 100, NAMES, q, dq, None, tau, start_ns=EPOCH), **changes)


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_any_to_any_and_back_keeps_every_value(tmp_path, first, second):
    samples = some()
    save_samples(samples, tmp_path / first)
    (tmp_path / "next").mkdir()
    save_samples(load_samples(tmp_path / first), tmp_path / "next" / second)
    back = load_samples(tmp_path / "next" / second)
    assert back.joint_names == NAMES and back.ddq is None
    for field in ("t", "q", "dq", "tau"):
        assert np.array_equal(getattr(back, field), getattr(samples, field), equal_nan=True), field


def test_accelerations_and_missing_signals(tmp_path):
    samples = some(ddq=np.ones((500, 3)), tau=None)
    for form in ("a.csv", "a.npz"):
        assert save_samples(samples, tmp_path / form) == []
        back = load_samples(tmp_path / form)
        assert np.array_equal(back.ddq, samples.ddq) and back.tau is None
    assert save_samples(samples, tmp_path / "bag") == ["JointState has no accelerations: they were left out"]
    assert load_samples(tmp_path / "bag").tau is None


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_overwritten_unless_asked(tmp_path, form):
    save_samples(some(), tmp_path / form)
    with pytest.raises(InputError, match=r"exists already; choose another name, or allow it: overwrite: true"):
        save_samples(some(10), tmp_path / form)
    assert len(load_samples(tmp_path / form)) == 500
    save_samples(some(10), tmp_path / form, overwrite=True)
    assert len(load_samples(tmp_path / form)) == 10
    assert [path.name for path in tmp_path.iterdir()] == [form]


@pytest.mark.parametrize("form", FORMS)
def test_what_takes_the_name_meanwhile_is_left_alone(tmp_path, form):
    """Two conversions into one place: the first to end has it, unless the other may overwrite."""
    samples = some(20)

    def pieces():
        yield samples.take(slice(0, 10))
        save_samples(some(7), tmp_path / form)
        yield samples.take(slice(10, None))

    with pytest.raises(InputError, match="this exists already"):
        save_pieces(outline_of(samples), pieces(), tmp_path / form, overwrite=False)
    assert len(load_samples(tmp_path / form)) == 7
    assert [path.name for path in tmp_path.iterdir()] == [form]


@pytest.mark.parametrize("form", FORMS)
def test_signals_that_are_nowhere_known_are_none(tmp_path, form):
    nan = np.full((500, 3), np.nan)
    save_samples(some(dq=nan), tmp_path / form)
    back = load_samples(tmp_path / form)
    assert back.dq is None and back.tau is not None
    save_samples(some(q=nan), tmp_path / f"unknown{form}")
    assert np.isnan(load_samples(tmp_path / f"unknown{form}").q).all(), "positions are always there"


def test_a_folder_that_is_no_bag_is_not_replaced(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="more in the folder than a bag"):
        save_samples(some(), tmp_path / "home", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["home", "thesis.tex"]
    (tmp_path / "more" / "x.mcap").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    for name in ("more", "file"):
        with pytest.raises(InputError, match="this is not a bag, or there is more in the folder"):
            save_samples(some(), tmp_path / name, overwrite=True)
    assert (tmp_path / "more" / "x.mcap").is_dir() and (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("other", ["thesis.tex", "notes.mcap/inside", "metadata.yaml.old"])
def test_a_bag_with_anything_else_beside_it_is_not_replaced(tmp_path, other):
    save_samples(some(20), tmp_path / "bag")
    (tmp_path / "bag" / other).parent.mkdir(exist_ok=True)
    (tmp_path / "bag" / other).write_text("mine")
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    with pytest.raises(InputError, match="this is not a bag, or there is more in the folder"):
        save_samples(some(), tmp_path / "bag", overwrite=True)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "bag" / other).read_text() == "mine" and len(load_samples(tmp_path / "bag" / "bag_0.mcap")) == 20


def test_a_failure_leaves_nothing_behind(tmp_path):
    broken = some(t=np.full(500, np.nan))
    with pytest.raises(InputError, match="not a number of seconds"):
        save_samples(broken, tmp_path / "bag")
    with pytest.raises(InputError, match="negative"):
        save_samples(some(start_ns=0, t=np.arange(500) - 5.0), tmp_path / "a.mcap")
    for name in ("a.db3", "a.bag", "a.json"):
        with pytest.raises(InputError, match="cannot write"):
            save_samples(some(), tmp_path / name)
    with pytest.raises(InputError, match="create it first"):
        save_samples(some(), tmp_path / "no" / "a.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def urdf(tmp_path):
    (tmp_path / "r.urdf").write_text(URDF)
    return str(tmp_path / "r.urdf")


def test_the_command_converts_cuts_and_selects(tmp_path, urdf, capsys):
    messages, _, _, q, dq, tau = plain_messages(2001)
    bag = write_bag(tmp_path / "bag", messages)
    out = str(tmp_path / "out.csv")
    assert main(["convert", str(bag), out, "--robot", urdf, "--start", "0.5", "--end", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["joints"] == ["joint2", "joint1"] and result["samples"] == len(load_samples(out))
    rows = load_samples(out)
    assert 0.5 <= rows.t[0] < 0.502 and 0.998 < rows.t[-1] <= 1.0
    first = round(rows.t[0] * 1000)
    assert np.array_equal(rows.q[0], q[first, [1, 0]]) and np.array_equal(rows.tau[0], tau[first, [1, 0]])
    assert np.array_equal(rows.dq[0], dq[first, [1, 0]])
    assert main(["convert", str(bag), out]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--overwrite" in error
    old = write_bag1(tmp_path / "old.bag", plain_messages(100, store=ROS1)[0])
    assert main(["convert", str(old), str(tmp_path / "new")]) == 0
    assert np.array_equal(load_samples(tmp_path / "new").q, load_samples(old).q)


def test_the_command_maps_columns_and_units(tmp_path, urdf, capsys):
    (tmp_path / "log.csv").write_text("stamp;a;b\n0;0;90\n10;180;45\n")
    options = [
        "--columns",
        "time=stamp,joint1.position=a,joint2.position=b",
        "--time-unit",
        "ms",
        "--angle-unit",
        "deg",
    ]
    assert main(["convert", str(tmp_path / "log.csv"), str(tmp_path / "o.npz"), "--robot", urdf, *options]) == 0
    capsys.readouterr()
    with np.load(tmp_path / "o.npz") as archive:
        assert np.allclose(archive["q"], [[np.pi / 2, 0], [np.pi / 4, np.pi]]) and np.allclose(archive["t"], [0, 0.01])


def test_the_check_command_reads_and_exits_with_0(tmp_path, urdf, capsys, monkeypatch):
    bag = write_bag(tmp_path / "bag", plain_messages(300)[0])
    assert main(["check", str(bag), urdf, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rate"] == pytest.approx(1000, rel=0.01) and len(result["joints"]) == 2
    assert {"rate", "gaps", "joints", "problems"} <= set(result)
    monkeypatch.setenv("COLUMNS", "80")  # as where the output is piped
    assert main(["check", str(bag), urdf]) == 0
    text = capsys.readouterr().out
    assert "joint2" in text and "\u2026" not in text
    head = next(line for line in text.splitlines() if line.startswith("joint"))
    assert " ".join(head.split()) == "joint [rad, m] used [rad/s, m/s] [N.m, N] [N.m, N]"
    assert main(["check", str(tmp_path / "nothing"), urdf]) == 2
    assert capsys.readouterr().err.count("\n") == 1
