# SPDX-License-Identifier: Apache-2.0

"""Commands that do more than ask a use case: base, mdh, export, convert, bench and demo, with files and refusals."""

from __future__ import annotations

import io
import math
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from answers_of_commands import refused, result
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.expressions import expression
from ros2_dynid.base_parameters.symbols import symbolic_terms
from ros2_dynid.cli import main
from ros2_dynid.commands import base, bench, demo, export, mdh
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector, unit_of
from ros2_dynid.usecases.export import UrdfOutcome
from urdf_text import joint, link, urdf

rng = np.random.default_rng(0)
ARM = urdf(
    link("base"),
    link("one", rng),
    link("two", rng),
    joint("waist", "base", "one"),
    joint("elbow", "one", "two", xyz="0.1 0 0.3", axis="0 1 0"),
    name="arm",
)


def printed(command, outcome):
    out = io.StringIO()
    command.show(outcome, Console(file=out, width=200, highlight=False))
    return out.getvalue()


# --- the command line itself


def test_interrupts_are_told_unless_they_are_ignored():
    before = signal.getsignal(signal.SIGINT)
    try:
        for set_, kept in ((signal.SIG_DFL, signal.default_int_handler), (signal.SIG_IGN, signal.SIG_IGN)):
            signal.signal(signal.SIGINT, set_)
            assert main(["--json"]) == 2
            assert signal.getsignal(signal.SIGINT) is kept
    finally:
        signal.signal(signal.SIGINT, before)


# --- base


def test_base_passes_every_choice_on(monkeypatch):
    class AskedError(Exception):
        pass

    found = {}

    def stop(robot, **options):
        found.update(options, robot=robot.name)
        raise AskedError

    monkeypatch.setattr("ros2_dynid.base_parameters.base_parameters", stop)
    for scale, given in (("auto", None), ("always", True), ("never", False)):
        line = f"base demo3 --from accel --method svd --only inertial,rotor --order Ia,2 --tolerance 1e-9 --seed 4 --scale {scale}"  # noqa: E501
        with pytest.raises(AskedError):
            main([*line.split(), "--tilting-base"])
        assert found == {
            "robot": "demo3", "source": "accel", "method": "svd", "groups": ("inertial", "rotor"), "order": ("Ia", "2"),
            "tolerance": 1e-9, "seed": 4, "scale": given, "tilting_base": True,
        }  # fmt: skip


def test_base_tells_value_unit_and_formulas_of_each(capsys):
    robot = load_robot("puma3")
    expected = base_parameters(robot)
    values = expected.values(robot, standard_vector(robot))
    symbols = symbolic_terms(robot, expected)
    told = result(capsys, "base", "puma3")
    assert told["n_base"] == len(expected) == len(told["base"])
    assert told["n_standard"] == 14 * 3 == told["n_base"] + len(told["eliminated"]) + len(told["regrouped"])
    assert (told["from"], told["method"], told["robot"]) == ("torque", "qr", "puma3")
    assert told["paper_set"] is None and told["latex"] is None
    for k, entry in enumerate(told["base"]):
        assert entry["leader"] == expected.leaders[k] and entry["unit"] == unit_of(robot, entry["leader"])
        assert entry["value"] == pytest.approx(values[k]) and entry["terms"] == pytest.approx(expected.terms(k))
        assert entry["expression"] == expression(expected, k)
        assert entry["symbolic"] == expression(expected, k, symbols) and entry["symbolic"] != ""
    assert any(entry["symbolic"] != entry["expression"] for entry in told["base"])


def test_the_set_of_the_paper_has_values_of_its_terms(capsys):
    robot = load_robot("puma560")
    told = result(capsys, "base", "puma560", "--only", "inertial", "--paper-set")["paper_set"]
    for entry in told:
        expected = sum(factor * robot.parameters.get(name, 0.0) for name, factor in entry["terms"].items())
        assert entry["value"] == pytest.approx(expected)
    assert any(entry["value"] for entry in told)


def test_base_prints_formulas_and_hides_what_is_alone():
    terms = {"ZZ1": 1.0, "YY2": 1.0}
    rows = (
        base.BaseEntry("ZZR1", "ZZ1", terms, 1.25, "kg.m^2", "ZZR1 = ZZ1 + 1.0 YY2", "ZZR1 = ZZ1 + YY2", ""),
        base.BaseEntry("Fv1", "Fv1", {"Fv1": 1.0}, 0.5, "N.m.s", "Fv1 = Fv1", None, ""),
    )
    told = (
        base.IdentifiabilityEntry("ZZ1", "combined", ("ZZR1",), "leads"),
        base.IdentifiabilityEntry("YY2", "combined", ("ZZR1",), "moves"),
        base.IdentifiabilityEntry("Fv1", "alone", ("Fv1",), "no other"),
        base.IdentifiabilityEntry("M1", "no", (), "never moves"),
    )
    outcome = base.BaseOutcome(
        "arm", 28, 2, ("M1",), ("YY2",), rows, 12.5, None, None, "energy", "svd", told, ("w1",), ("n1",)
    )
    text = printed(base, outcome)
    lines = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "arm: base parameters from the energy model" in lines
    assert "ZZR1 ZZ1 + YY2 1.25 kg.m^2" in lines and "Fv1 0.5 N.m.s" in lines
    assert "YY2 combined moves" in lines and "M1 no never moves" in lines
    assert not any(line.startswith(("ZZ1 ", "Fv1 alone")) for line in lines)
    assert "28 standard parameters: 1 without effect, 1 regrouped, 2 base parameters" in lines
    assert "by svd: condition number 12.5" in lines
    assert lines[-2:] == ["note: n1", "note: w1"]


# --- mdh


def test_a_row_of_the_table_in_degrees_and_metres():
    limits = mdh.JointLimits(-math.pi / 2, math.pi, 1.0, 2.0, 3.0)
    free = mdh.JointLimits(-math.inf, math.inf, 1.0, 2.0, 3.0)
    turn = mdh.MdhJoint("a", 0, 0, 0.0, 0.0, math.pi / 4, 0.25, -math.pi / 6, 0.5, "revolute", limits)
    slide = mdh.MdhJoint(
        "b", 1, 1, 0.0, 0.0, 0.0, 0.0, math.pi, 0.125, "prismatic", mdh.JointLimits(-0.1, 0.2, 1, 1, 1)
    )
    free_ = mdh.MdhJoint("c", 2, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "revolute", free)
    loop = mdh.MdhJoint("d", 3, 0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, "revolute", limits, mdh.Follows({"a": 1.0}, 0.0))
    eye = np.eye(4).tolist()
    tool = [[1.0, 0.0, 0.0, 0.75], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    outcome = mdh.MdhOutcome(
        "arm", (turn, slide, free_, loop), eye, {"hand": tool}, {"hand": 4}, (0, 0, -9.81), {}, ("n",)
    )
    lines = [" ".join(line.split()) for line in printed(mdh, outcome).splitlines()]
    assert "1 a 0 0 45 0.25 q - 30 0.5 -90 .. 180" in lines
    assert "2 b 1 1 0 0 180 q + 0.125 -0.1 .. 0.2" in lines
    assert "3 c 2 0 0 0 q 0 none" in lines
    assert any(line.startswith("4 d 3 0") and line.endswith("passive") for line in lines)
    assert "frame 4 -> hand:" in lines and "1 0 0 0.75" in lines
    assert lines[lines.index("base link -> frame 0:") + 1 : lines.index("frame 4 -> hand:")] == [
        "1 0 0 0",
        "0 1 0 0",
        "0 0 1 0",
    ]
    assert lines[-1] == "note: n" and not any(
        "gamma" in line and "alpha" in line and " b " in line for line in lines[:3]
    )
    branch = mdh.MdhJoint("a", 0, 0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, "revolute", limits)
    branched = mdh.MdhOutcome("arm", (branch,), eye, {}, {}, (0, 0, -9.81), {}, ())
    assert "1 a 0 0 0 0.5 0 0 q 0 -90 .. 180" in [
        " ".join(line.split()) for line in printed(mdh, branched).splitlines()
    ]


# --- export and convert


def test_the_urdf_that_is_read_is_never_replaced(tmp_path, capsys):
    source = tmp_path / "arm.urdf"
    source.write_text(ARM)
    assert "this is an input of the command" in refused(capsys, "export", source, "--to", "urdf", "-o", tmp_path)
    assert source.read_text() == ARM
    (tmp_path / "file").write_text("x")
    assert "the output is a file" in refused(capsys, "export", source, "--to", "urdf", "-o", tmp_path / "file")
    told = result(capsys, "export", source, "--to", "urdf", "-o", tmp_path / "new")
    assert told["files"] == [str(tmp_path / "new" / "arm.urdf")] and (tmp_path / "new" / "arm.urdf").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "arm.urdf").write_text("<robot/>")
    result(capsys, "export", source, "--to", "urdf", "-o", tmp_path / "other")
    assert "elbow" in (tmp_path / "other" / "arm.urdf").read_text(), "another file of that name is"


def test_names_of_generated_files(tmp_path, capsys):
    told = result(capsys, "export", "puma3", "--to", "runtime", "-o", tmp_path, "--name", "my arm")
    assert told["files"] == [str(tmp_path / "my_arm.dynid")] and told["error_bars"] is False
    told = result(capsys, "export", "puma3", "--to", "numpy", "-o", tmp_path, "--only", "M3,MX3", "--effort", "1")
    assert set(told["parameters"]) == {"M3", "MX3"}
    robot = load_robot("puma3")
    assert told["parameters"] == {name: pytest.approx(robot.parameters.get(name, 0.0)) for name in ("M3", "MX3")}
    torque = told["functions"]["torque"]
    assert (told["multiplications"], told["additions"]) == (torque["multiplications"], torque["additions"])


def test_export_prints_counts_notes_and_files():
    counts = {"torque": export.OperationCount(120, 90), "friction": export.OperationCount(12, 9)}
    text = printed(export, export.CodeOutcome(120, 90, counts, {}, ("a.c", "a.h")))
    lines = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "torque 120 90" in lines and "friction 12 9" in lines and lines[-2:] == ["a.c", "a.h"]
    assert printed(export, UrdfOutcome(("a.urdf",), ("[n]",), {})).split() == ["[n]", "a.urdf"]
    assert printed(export, export.RuntimeOutcome(("a.dynid",), True)).split() == ["a.dynid"]


def test_parameters_of_a_model_that_are_exported(tmp_path, capsys):
    robot = load_robot("puma3")
    found = base_parameters(robot)
    value = found.values(robot, standard_vector(robot))
    model = model_of(robot, found, value, np.full(len(found), 0.1), np.eye(len(found)))
    save_model(model, tmp_path / "model.yaml")
    line = ["export", tmp_path / "model.yaml", "--to", "numpy", "--effort", "1", "-o", tmp_path / "out", "--only"]
    leaders, names = list(found.leaders), list(found.names)
    regrouped = next(k for k in range(len(found)) if names[k] != leaders[k])
    for only, kept in (
        (names[regrouped], [leaders[regrouped]]),
        (leaders[regrouped], [leaders[regrouped]]),
        ("friction", [name for name in leaders if name.startswith(("Fv", "Fc"))]),
        (f"rotor,{names[0]}", [name for name in leaders if name.startswith("Ia") or name == leaders[0]]),
    ):
        told = result(capsys, *line, only)
        assert list(told["parameters"]) == kept
        for name, one in told["parameters"].items():
            assert one == pytest.approx(value[leaders.index(name)])
    assert "--only 'XX9' is not a group or parameter of the model" in refused(capsys, *line, "XX9")


def test_convert_cuts_and_tells_what_it_wrote(tmp_path, capsys):
    rows = [f"{0.01 * k!r},{k}.0,{2 * k}.0" for k in range(100)]
    (tmp_path / "in.csv").write_text("\n".join(["time,a.position,a.effort", *rows]) + "\n")
    told = result(capsys, "convert", tmp_path / "in.csv", tmp_path / "out.npz", "--start", "0.2", "--end", "0.5")
    assert told["samples"] == 31 and told["joints"] == ["a"] and told["fields"] == ["q", "tau"]
    assert (told["start"], told["end"]) == pytest.approx((0.2, 0.5))
    with np.load(tmp_path / "out.npz") as data:
        np.testing.assert_allclose(data["q"][:, 0], np.arange(20.0, 51.0))
        np.testing.assert_allclose(data["tau"][:, 0], 2 * np.arange(20.0, 51.0))
    assert "--overwrite" in refused(capsys, "convert", tmp_path / "not.csv", tmp_path / "out.npz"), "before it is read"
    result(capsys, "convert", tmp_path / "in.csv", tmp_path / "out.npz", "--overwrite")
    with np.load(tmp_path / "out.npz") as data:
        assert len(data["q"]) == 100


# --- bench


@pytest.fixture
def benches(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "bench_folder", lambda: tmp_path)
    (tmp_path / "bench_one.py").write_text("def measure():\n    return {'a': 2.0}, {'x': 1e-6}\n")
    (tmp_path / "bench_two.py").write_text("def measure():\n    return {'b': 3.0}, {'y': 0.5}\n")
    (tmp_path / "bench_peer.py").write_text("import pinocchio_that_is_missing\ndef measure():\n    return {}, {}\n")
    (tmp_path / "bench_study.py").write_text("raise SystemExit('a study, run by itself')\n")
    yield tmp_path
    for name in ("one", "two", "peer", "study"):
        sys.modules.pop(f"bench_{name}", None)


def test_bench_runs_what_has_measures_and_names_missing_peers(benches, capsys):
    told = result(capsys, "bench")
    assert told["ratios"] == {"a": 2.0, "b": 3.0} and told["seconds"] == {"x": 1e-6, "y": 0.5}
    assert told["left_out"] == [
        "peer: pinocchio_that_is_missing is not installed; get it with ./dynid bench in a checkout, or with "
        "pip install pinocchio_that_is_missing"
    ]
    assert result(capsys, "bench", "--only", "two, one")["ratios"] == {"a": 2.0, "b": 3.0}
    assert result(capsys, "bench", "--only", "two")["ratios"] == {"b": 3.0}
    assert "there is no benchmark 'three'; choose from one, peer, study, two" in refused(
        capsys, "bench", "--only", "three"
    )
    (benches / "bench_study.py").write_text("x = 1\n")
    assert "has no function measure; run it by itself" in refused(capsys, "bench", "--only", "study")


# --- demo


def test_demo_passes_its_choices_on_and_refuses_others_first(monkeypatch, tmp_path, capsys):
    given = []

    def run(*args, **options):
        given.append((args, options))
        raise DynidError("enough")

    monkeypatch.setattr("ros2_dynid.demo.demo", run)
    monkeypatch.setattr(demo, "check_installation", lambda: None)
    line = ["demo", "--robot", "demo3", "--seed", "4", "--duration", "5", "--payload", "2.5", "--panel"]
    assert "enough" in refused(capsys, *line, "-o", tmp_path / "new")
    (args, options) = given[0]
    options.pop("say")
    assert args == ("demo3", tmp_path / "new")
    assert options == {"seed": 4, "duration": 5.0, "payload": 2.5, "panel": True}
    monkeypatch.chdir(tmp_path)
    refused(capsys, "demo")
    (args, options) = given[1]
    options.pop("say")
    assert args[0] == "demo6" and args[1].parent == tmp_path and args[1].name.startswith("dynid_demo_20")
    assert options == {"seed": 1, "duration": 8.0, "payload": 1.5, "panel": False}
    for words, said in (
        (["--duration", "0"], "must be positive"),
        (["--duration", "nan"], "must be positive"),
        (["--payload", "-1"], "must be positive"),
        (["--seed", "-1"], "--seed -1"),
        (["-o", str(tmp_path)], "the output exists already"),
    ):
        assert said in refused(capsys, "demo", *words)
    assert len(given) == 2


def test_demo_says_what_is_not_installed(monkeypatch, capsys):
    for name, said in (("rclpy", "needs ROS 2"), ("ros2_dynid.msg", "needs ROS 2"), ("mujoco", "mujoco")):
        monkeypatch.setattr("importlib.util.find_spec", lambda asked, name=name: None if asked == name else object())
        assert said in refused(capsys, "demo", "-o", "there is no such folder")
    monkeypatch.setattr("importlib.util.find_spec", lambda asked: object())
    demo.check_installation()


def test_demo_prints_errors_parameters_and_goals(monkeypatch):
    error, other = SimpleNamespace(relative=0.0125, rms=0.25), SimpleNamespace(relative=0.0375, rms=0.5)
    rows = {
        "ZZR1": SimpleNamespace(true=1.0, value=1.25, std=0.125),
        "M2": SimpleNamespace(true=2.0, value=2.5, std=None),
    }
    outcome = SimpleNamespace(
        fit={"all": error}, validation={"all": other}, truth=SimpleNamespace(base=rows),
        goals={"tracks": True, "weighs": False}, report="report.html", seconds=141.6, folder="demo",
    )  # fmt: skip
    monkeypatch.setattr("ros2_dynid.demo.trials_of", lambda outcome: {"tracking": [("with", "0.2 mrad")]})
    lines = [" ".join(line.replace("│", " ").split()) for line in printed(demo, outcome).splitlines()]
    for line in (
        "all 1.25% 3.75% 0.500", "ZZR1 1.0000 1.2500 0.1250", "M2 2.0000 2.5000 -", "tracking", "with: 0.2 mrad",
        "yes tracks", "NO weighs", "report: report.html", "142 s; recordings, model and logs are in demo",
    ):  # fmt: skip
        assert line in lines
