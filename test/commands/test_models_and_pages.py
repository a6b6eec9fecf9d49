# SPDX-License-Identifier: Apache-2.0

"""Commands on identified models and on pages, as a whole: files and figures are those of the model."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from rosbags.rosbag2 import Reader as Rosbag2Reader
from rosbags.typesys import Stores, get_typestore

from answers_of_commands import refused, result
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.expressions import align
from ros2_dynid.cli import main
from ros2_dynid.codec import encode
from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.commands import base, excite, preview
from ros2_dynid.commands.shared import terminal
from ros2_dynid.commands.shared.arguments import as_flag, with_flags
from ros2_dynid.dynamics.friction_law import nearest_plain
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import Option, Text
from ros2_dynid.excitation.limits import Caps
from ros2_dynid.identification.model_file import TorqueError, load_model, model_of, save_model
from ros2_dynid.identification.torque_std import error_bars, torque_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.recording.read import streamed
from ros2_dynid.usecases.export import export_mjcf
from ros2_dynid.usecases.mjcf import mjcf_files
from ros2_dynid.usecases.plan import Surroundings
from ros2_dynid.usecases.preview import PreviewRequest
from ros2_dynid.usecases.robot_source import RobotSource
from urdf_text import joint, link, urdf

STORE = get_typestore(Stores.ROS2_JAZZY)
NAMES = ("waist", "shoulder", "elbow")
TABLE = ("gamma", "b", "alpha", "d", "theta", "r")
KINDS = ("position", "velocity", "acceleration")
LAW = (
    FrictionTerm(1, FrictionKind.CUBIC, 0.01),
    FrictionTerm(2, FrictionKind.TEMPERATURE, -0.05, reference=31.0),
    FrictionTerm(3, FrictionKind.STRIBECK, 0.8, speed=0.2),
)


@pytest.fixture(scope="module")
def robot():
    return load_robot("demo3")


def values_of(robot, seed):
    """Return standard parameters of their own for each link and drive, as a mapping."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.8, 1.2, len(standard_names(robot)))
    return dict(zip(standard_names(robot), (standard_vector(robot) * scale).tolist(), strict=True))


def made(robot, path, **more):
    """Return a model that is stored at path: base values of parameters that are not the a priori ones."""
    base_ = base_parameters(robot, method="closed-form")
    value = base_.values(robot, standard_vector(robot, values_of(robot, 1)))
    A = np.random.default_rng(2).standard_normal((len(base_), len(base_)))
    covariance = 1e-4 * (A @ A.T)
    save_model(model_of(robot, base_, value, np.sqrt(np.diag(covariance)), covariance, **more), path)
    return load_model(path)


def motions(path, robot, *, warmth=None):
    """Write a table of motions with its columns in any order, and return q, dq and ddq."""
    rng = np.random.default_rng(5)
    motion = rng.uniform(-1, 1, (3, 6, 3))
    columns = {f"{n}.{kind}": motion[k][:, j] for k, kind in enumerate(KINDS) for j, n in enumerate(robot.active_names)}
    for name, values in (warmth or {}).items():
        columns[f"{name}.temperature"] = values
    order = rng.permutation(len(columns))
    names = [list(columns)[k] for k in order]
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["time", *names])
        for row in range(6):
            table.writerow([0.25 * row, *("" if np.isnan(x := columns[n][row]) else repr(float(x)) for n in names)])
    return motion


def read(path):
    with Path(path).open(newline="") as stream:
        header, *rows = csv.reader(stream)
    return header, np.array(rows, dtype=float)


# --- torques of a model


@pytest.mark.parametrize("flags", [[], ["--no-friction"]])
def test_torques_of_a_model_and_their_deviations_stand_below_their_titles(tmp_path, capsys, robot, flags):
    model = made(robot, tmp_path / "model.yaml")
    motion = motions(tmp_path / "m.csv", robot)
    friction = not flags
    told = result(capsys, "torque", tmp_path / "model.yaml", tmp_path / "m.csv", tmp_path / "t.csv", "--std", *flags)
    header, found = read(tmp_path / "t.csv")
    assert header == ["time", *(f"{n}.effort" for n in NAMES), *(f"{n}.effort_std" for n in NAMES)]
    tau, std = model.torque(*motion, friction=friction), torque_std(model, *motion, friction=friction)
    np.testing.assert_allclose(found, np.column_stack((0.25 * np.arange(6), tau, std)), rtol=1e-9)
    for j, name in enumerate(NAMES):
        assert told["effort"][name]["rms"] == pytest.approx(np.linalg.norm(tau[:, j]) / np.sqrt(6))
        assert told["effort"][name]["max"] == pytest.approx(np.abs(tau[:, j]).max())
    assert any(tau[:, j].max() < -tau[:, j].min() for j in range(3)), "the largest may be negative"


def test_rows_faster_than_the_recordings_are_told_by_joint(tmp_path, capsys, robot):
    _, dq, _ = motions(tmp_path / "m.csv", robot)
    fastest = np.sort(np.abs(dq), axis=0)[-3]  # two rows are faster
    used = {name: {"speed": float(v), "load": 1.0} for name, v in zip(NAMES[:2], fastest, strict=False)}
    line = ["torque", tmp_path / "model.yaml", tmp_path / "m.csv", tmp_path / "t.csv"]
    for obtained, told in (({"used": used}, dict.fromkeys(NAMES[:2], 2)), ({}, {}), ({"used": "much"}, {})):
        made(robot, tmp_path / "model.yaml", obtained=obtained)
        assert result(capsys, *line)["extrapolated"] == told


def test_each_set_of_a_model_has_torques_of_its_own(tmp_path, capsys, robot):
    sets = {"standard": values_of(robot, 3), "consistent": values_of(robot, 4)}
    model = made(robot, tmp_path / "model.yaml", **sets, serve="consistent")
    motion = motions(tmp_path / "m.csv", robot)
    chi = {name: standard_vector(robot, values) for name, values in sets.items()}
    chi |= {"base": model.chi_of(model.value), "served": chi["consistent"]}
    line = ["torque", tmp_path / "model.yaml", tmp_path / "m.csv", tmp_path / "t.csv"]
    for use, values in chi.items():
        result(capsys, *line, "--use", use)
        np.testing.assert_allclose(read(line[-1])[1][:, 1:], inverse_dynamics(robot, values, *motion), rtol=1e-9)
    made(robot, tmp_path / "model.yaml")
    assert "no standard parameters; identify with --standard" in refused(capsys, *line, "--use", "standard")
    assert "identified with gravity" in refused(capsys, *line, "--gravity", "0,0,9.81")


def test_temperatures_no_drive_has_are_refused_and_missing_ones_told(tmp_path, capsys, robot):
    made(replace(robot, friction=LAW), tmp_path / "model.yaml")
    line = ["torque", tmp_path / "model.yaml", tmp_path / "m.csv", tmp_path / "t.csv"]
    warm = np.array([-60.0, 0.0, 31.0, 50.0, 100.0, 200.0])
    motions(tmp_path / "m.csv", robot, warmth={"shoulder": warm, "elbow": np.full(6, np.nan)})
    assert result(capsys, *line)["reference"] == {}, "known wherever it counts"
    whole = read(tmp_path / "t.csv")[1]
    motions(tmp_path / "m.csv", robot, warmth={"shoulder": np.where(np.arange(6) == 3, np.nan, warm)})
    assert result(capsys, *line)["reference"] == {"shoulder": 31.0}
    part = read(tmp_path / "t.csv")[1]
    assert np.flatnonzero(np.any(part != whole, axis=1)).tolist() == [3]
    motions(tmp_path / "m.csv", robot)
    assert result(capsys, *line)["reference"] == {"shoulder": 31.0}
    for wrong in (-60.5, 200.5):
        motions(tmp_path / "m.csv", robot, warmth={"shoulder": np.where(np.arange(6) == 2, wrong, warm)})
        said = refused(capsys, *line)
        assert f"shoulder.temperature is {wrong:g} deg C in row 3; give degrees Celsius from -60 to 200" in said
        result(capsys, *line, "--no-friction")  # which does not ask for it


# --- a model in other forms


def test_the_runtime_gets_what_the_model_serves_with_its_bars(tmp_path, capsys, robot):
    model = made(robot, tmp_path / "model.yaml", consistent=values_of(robot, 4), serve="consistent")
    told = result(capsys, "export", tmp_path / "model.yaml", "--to", "runtime", "-o", tmp_path / "out")
    assert told == {"files": [str(tmp_path / "out" / "demo3.dynid")], "error_bars": True}
    data = (tmp_path / "out" / "demo3.dynid").read_bytes()
    assert data == runtime_bytes(robot, model.chi, error_bars(model))
    assert data != runtime_bytes(robot, standard_vector(robot), error_bars(model))
    result(capsys, "export", "demo3", "--to", "runtime", "-o", tmp_path / "out")
    assert (tmp_path / "out" / "demo3.dynid").read_bytes() == runtime_bytes(robot, standard_vector(robot), None)


@pytest.mark.parametrize("serve", ["base", "consistent"])
def test_code_has_the_essential_parameters_unless_bodies_are_served(tmp_path, capsys, robot, serve):
    names = base_parameters(robot, method="closed-form").names
    more = {"essential": tuple(names[::2]), "consistent": values_of(robot, 4), "serve": serve}
    errors = {"all": TorqueError(1.0, 0.0321)}
    obtained = {"created": "2026-01-02", "method": "wls"}
    model = made(robot, tmp_path / "model.yaml", **more, fit=errors, obtained=obtained)
    line = ["export", tmp_path / "model.yaml", "--to", "numpy", "--effort", 1, "-o", tmp_path]
    told = result(capsys, *line)
    kept = [k for k, name in enumerate(names) if serve == "consistent" or name in names[::2]]
    assert list(told["parameters"]) == [model.leaders[k] for k in kept]
    assert list(told["parameters"].values()) == pytest.approx([model.served[k] for k in kept])
    text = Path(told["files"][0]).read_text()
    assert f"identified ({serve} set), 2026-01-02, method wls." in text and "Fit: 3.21 % of the torque." in text
    missing = next(k for k in range(1, len(names), 2) if names[k] == model.leaders[k])
    if serve == "base":
        assert "--only leaves no parameter" in refused(capsys, *line, "--only", names[missing])


def test_code_without_friction_has_none_of_the_law(tmp_path, capsys, robot):
    made(replace(robot, friction=LAW[:1]), tmp_path / "model.yaml")
    line = ["export", tmp_path / "model.yaml", "--to", "numpy", "--effort", 1, "-o", tmp_path]
    for only, there in (("inertial,rotor", False), ("inertial,friction", True)):
        told = result(capsys, *line, "--only", only)
        assert ("Friction term" in Path(told["files"][0]).read_text()) is there
        groups = {group_of(name) for name in told["parameters"]}
        assert groups == set(only.split(","))


def test_code_that_cannot_be_is_refused(tmp_path, capsys):
    assert "--float is for C only" in refused(capsys, "export", "demo3", "--to", "numpy", "--float", "-o", tmp_path)
    assert "--effort 0 is less than 1" in refused(capsys, "export", "demo3", "--effort", "0", "-o", tmp_path)
    assert not list(tmp_path.iterdir())


ARM = urdf(
    link("base"),
    *(link(name, np.random.default_rng(k)) for k, name in enumerate(("one", "two", "three"))),
    joint("waist", "base", "one"),
    joint("elbow", "one", "two", xyz="0.1 0 0.3", axis="0 1 0"),
    joint("wrist", "two", "three", xyz="0 0.1 0.2", axis="1 0 0"),
    name="arm",
)


@pytest.fixture
def arm(tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    return tmp_path / "arm.urdf"


def drives(robot, values):
    return {name: values[name] for name in values if group_of(name) in ("friction", "rotor", "offset")}


def test_a_urdf_gets_the_standard_parameters_and_the_drives_of_the_base_ones(tmp_path, capsys, arm):
    robot = load_robot(arm)
    found = values_of(robot, 3)
    inertial = {name: value for name, value in found.items() if group_of(name) == "inertial"} | {"Fv2": 0.625}
    model = made(robot, tmp_path / "model.yaml", standard=inertial)
    known = drives(robot, dict(zip(model.leaders, model.value, strict=True)))
    assert known and "Fv2" in known
    line = ["export", tmp_path / "model.yaml", "--to", "urdf", "-o", tmp_path / "out"]
    told = result(capsys, *line, "--urdf", arm)
    assert told["parameters"] == pytest.approx({**known, **inertial})
    assert told["parameters"]["Fv2"] == 0.625, "what is standard comes first"
    again = load_robot(tmp_path / "out" / "arm.urdf")
    for name, value in inertial.items():
        assert again.parameters.get(name, 0.0) == pytest.approx(value, abs=1e-9), name
    assert "a model file does not contain the URDF; give it: --urdf FILE" in refused(capsys, *line)
    (tmp_path / "arm.xacro").write_text(ARM)
    assert "only a URDF can be updated" in refused(capsys, *line, "--urdf", tmp_path / "arm.xacro")
    made(robot, tmp_path / "model.yaml")
    assert "no standard parameters; identify with --standard" in refused(capsys, *line, "--urdf", arm)
    made(robot, tmp_path / "model.yaml", consistent=found)
    assert result(capsys, *line, "--urdf", arm)["parameters"] == pytest.approx({**known, **found})
    other = values_of(robot, 7)
    for serve, served in (("base", found), ("consistent", other)):
        made(robot, tmp_path / "model.yaml", standard=found, consistent=other, serve=serve)
        assert result(capsys, *line, "--urdf", arm)["parameters"] == pytest.approx(served)


@pytest.mark.parametrize("how", ["link", "hard link", "way round"])
def test_the_urdf_that_is_read_is_never_replaced_whatever_it_is_called(tmp_path, capsys, arm, how):
    (tmp_path / "out").mkdir()
    source, target = arm, tmp_path / "out"
    if how == "link":
        (target / "arm.urdf").symlink_to(arm)
    elif how == "hard link":
        (target / "arm.urdf").hardlink_to(arm)
    else:
        source, target = tmp_path / "out" / ".." / "arm.urdf", tmp_path
    said = "the output is a symbolic link" if how == "link" else "this is an input of the command"
    assert said in refused(capsys, "export", source, "--to", "urdf", "-o", target)
    assert arm.read_text() == ARM


def test_mjcf_is_that_of_the_chain_asked_for(tmp_path, capsys, arm):
    chain = {"base_link": "one", "tip_link": "three", "hold": {"wrist": 0.5}}
    robot = load_robot(arm, **chain)
    flags = ["--base-link", "one", "--tip-link", "three", "--hold", "wrist=0.5"]
    told = result(capsys, "export", arm, "--to", "mjcf", "-o", tmp_path / "out", "--name", "my arm", *flags)
    made_ = mjcf_files(robot, standard_vector(robot), name="my arm", urdf=arm, chain=chain)
    assert told["files"] == [str(tmp_path / "out" / name) for name in made_.files] and "my_arm.xml" in told["files"][0]
    assert {name: (tmp_path / "out" / name).read_bytes() for name in made_.files} == dict(made_.files)
    assert told["notes"] == list(made_.notes) and told["parameters"] == pytest.approx(dict(robot.parameters))
    model = made(robot, tmp_path / "model.yaml", standard=values_of(robot, 3))
    told = result(capsys, "export", tmp_path / "model.yaml", "--to", "mjcf", "-o", tmp_path / "out")
    expected = mjcf_files(model.robot, standard_vector(robot, values_of(robot, 3)))
    assert (tmp_path / "out" / "arm.xml").read_bytes() == expected.files["arm.xml"]


def test_a_law_that_a_form_does_not_know_becomes_the_nearest_plain_one(tmp_path, robot):
    bent = replace(robot, friction=(LAW[0], LAW[2]))
    values = values_of(robot, 3)
    used = {name: {"speed": 1.0 + k, "load": 5.0 - k} for k, name in enumerate(NAMES)}
    model = made(bent, tmp_path / "model.yaml", obtained={"used": used}, standard=values)
    outcome = export_mjcf(model, tmp_path / "mjcf")
    chi = nearest_plain(bent, standard_vector(bent, values), np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 3.0]))
    assert outcome.parameters == dict(zip(standard_names(robot), chi.tolist(), strict=True))
    assert {name for name in values if outcome.parameters[name] != values[name]} == {"Fv1", "Fc1", "Fv3", "Fc3"}
    (note,) = (note for note in outcome.notes if note.startswith("MJCF supports Fv and Fc only"))
    assert bent.friction[0].name in note
    for obtained in ({}, {"used": "x"}, {"used": {"waist": used["waist"]}}):  # speeds and loads are not known
        assert export_mjcf(replace(model, obtained=obtained), tmp_path / "mjcf", overwrite=True).parameters == values
    assert (
        export_mjcf(replace(model, robot=robot, friction_covariance=None), tmp_path / "mjcf", overwrite=True).parameters
        == values
    )
    assert export_mjcf(bent, tmp_path / "mjcf", overwrite=True).parameters == dict(bent.parameters)


class AskedError(Exception):
    """What was asked for is known."""


def asked(monkeypatch, place, *words):
    """Return the arguments that a command line gives to a function."""
    given = []

    def stop(*args, **options):
        given.append((args, options))
        raise AskedError

    monkeypatch.setattr(place, stop)
    with pytest.raises(AskedError):
        main(list(map(str, words)))
    return given[0]


def test_a_urdf_says_what_it_cannot_hold_of_the_law(tmp_path, capsys, arm):
    robot = replace(load_robot(arm), friction=(FrictionTerm(2, FrictionKind.CUBIC, 0.01),))
    used = {name: {"speed": 2.0, "load": 1.0} for name in robot.active_names}
    drives_ = {"off1": 0.25, "Ia2": 0.375}
    made(robot, tmp_path / "model.yaml", standard=values_of(robot, 3) | drives_, obtained={"used": used})
    told = result(capsys, "export", tmp_path / "model.yaml", "--to", "urdf", "--urdf", arm, "-o", tmp_path / "out")
    assert sum("supports Fv and Fc only" in note for note in told["notes"]) == 1
    assert sum("no constant torque: off1 0.25" in note for note in told["notes"]) == 1
    assert sum(note.startswith("URDF has no rotor inertia: Ia2 0.375") for note in told["notes"]) == 1
    assert not any("viscous and Coulomb friction only" in note for note in told["notes"]), "none is left out then"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torque demo3 m.csv out/t.csv", "t.csv"), ("export arm.urdf --to urdf -o out", "arm.urdf"),
        ("export demo3 --to runtime -o out", "demo3.dynid"), ("convert m.csv out/c.csv --overwrite", "c.csv"),
    ],
)  # fmt: skip
def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch, capsys, robot, arm, line, name):
    """Who has the old one open reads it to its end, and no crash leaves a part of the new one under its name."""
    motions(tmp_path / "m.csv", robot)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("old")
    (tmp_path / "opened").hardlink_to(tmp_path / "out" / name)
    result(capsys, *line.split())
    assert (tmp_path / "opened").read_text() == "old" and (tmp_path / "out" / name).stat().st_size > 100
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_convert_leaves_alone_what_takes_the_name_meanwhile(tmp_path, monkeypatch, capsys, robot):
    motions(tmp_path / "m.csv", robot)
    monkeypatch.setattr(
        "ros2_dynid.recording.read.streamed",
        lambda *args: (tmp_path / "out.csv").write_text("theirs") and streamed(*args),
    )
    line = ["convert", tmp_path / "m.csv", tmp_path / "out.csv"]
    assert "exists already" in refused(capsys, *line)
    assert (tmp_path / "out.csv").read_text() == "theirs"
    result(capsys, *line, "--overwrite")
    assert read(tmp_path / "out.csv")[1].shape[0] == 6


def test_torques_are_of_the_robot_and_the_rows_asked_for(monkeypatch, tmp_path, capsys, robot):
    (tmp_path / "m.csv").write_text(
        "time,waist.position,shoulder.position,elbow.position\n0.5,0,1,2\n0.25,1,0,-1\n0.25,0,0,0\n"
    )
    line = ["torque", "demo3", tmp_path / "m.csv", tmp_path / "t.csv", "--static"]
    assert result(capsys, *line)["rows"] == 3
    q = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    tau = inverse_dynamics(robot, standard_vector(robot), q, 0 * q, 0 * q)
    found = read(tmp_path / "t.csv")[1]
    np.testing.assert_allclose(found, np.column_stack(([0.5, 0.25, 0.25], tau)), atol=1e-9)
    assert (tmp_path / "t.csv").read_text().endswith("\n"), "another line may follow"
    flags = "--base-link a --tip-link b --hold c=1 --joint-limits l.yaml --gravity 1,2,3 --use standard"
    args, _ = asked(
        monkeypatch, "ros2_dynid.usecases.robot_source.load_robot_or_model", *line, "--overwrite", *flags.split()
    )
    source = RobotSource(
        "demo3", base_link="a", tip_link="b", hold={"c": 1.0}, joint_limits="l.yaml", gravity=(1.0, 2.0, 3.0)
    )
    assert args == (source, "standard")


def test_convert_takes_the_robots_joints_in_its_order_and_units_and_names_the_topic(tmp_path, capsys, robot):
    columns = ["time", "elbow.position", "lamp.position", "waist.position", "shoulder.position"]
    rows = [[0.1 * k, 10.0 * k, 5.0, -20.0 * k, 30.0] for k in range(4)]
    (tmp_path / "in.csv").write_text("\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n")
    line = ["convert", tmp_path / "in.csv", tmp_path / "bag", "--out-topic", "/arm/states", "--angle-unit", "deg"]
    told = result(capsys, *line, "--robot", "demo3", "--start", "0.1")
    assert told["joints"] == list(NAMES) and told["samples"] == 3
    with Rosbag2Reader(tmp_path / "bag") as reader:
        messages = [(c.topic, STORE.deserialize_cdr(data, c.msgtype)) for c, _, data in reader.messages()]
    assert {topic for topic, _ in messages} == {"/arm/states"}
    assert [list(m.name) for _, m in messages] == [list(NAMES)] * 3
    degrees = [[row[3], row[4], row[1]] for row in rows[1:]]
    np.testing.assert_allclose([m.position for _, m in messages], np.radians(degrees))
    assert result(capsys, "convert", tmp_path / "in.csv", tmp_path / "all.csv")["joints"] == [
        "elbow", "lamp", "waist", "shoulder",
    ]  # fmt: skip


def test_convert_tells_what_was_repaired_and_what_was_left_out(tmp_path, capsys):
    rows = ["0.0,1,1", "0.2,2,2", "0.1,3,3", "0.2,4,4"]
    (tmp_path / "in.csv").write_text("\n".join(["time,a.position,a.acceleration", *rows]) + "\n")
    told = result(capsys, "convert", tmp_path / "in.csv", tmp_path / "bag")
    assert told["notes"] == [
        "1 late samples were sorted in",
        "1 samples that repeat a stamp were dropped",
        "JointState has no accelerations: they were left out",
    ]


# --- the table of a robot


@pytest.mark.parametrize("name", ["hitachi_hpr", "stanford", "demo6"])
def test_mdh_tells_every_field_of_every_joint(capsys, name):
    robot = load_robot(name)
    told = result(capsys, "mdh", name)
    follows = {one.joint: one for one in robot.passive}
    for number, (row, own) in enumerate(zip(told["joints"], robot.joints, strict=True), start=1):
        limits, passive = row.pop("limits"), row.pop("passive")
        assert row.pop("type") == ("prismatic" if own.sigma else "revolute")
        assert row == {name: getattr(own, name) for name in row} and set(row) >= {"name", "parent", "sigma", *TABLE}
        for kind in ("lower", "upper", "velocity", "acceleration", "effort"):
            bound = getattr(own.limits, kind)
            assert limits[kind] == (bound if np.isfinite(bound) else None), kind
        if number not in follows:
            assert passive is None
            continue
        terms = {robot.joints[k - 1].name: factor for k, factor in follows[number].terms.items()}
        assert passive == {"terms": terms, "offset": follows[number].offset}
    assert told["base"] == robot.base.tolist() and told["gravity"] == robot.gravity.tolist()
    assert told["tools"] == {link_: pose.tolist() for link_, (_, pose) in robot.tools.items()}
    assert told["tool_joints"] == {link_: number for link_, (number, _) in robot.tools.items()}
    assert told["parameters"] == dict(robot.parameters) and told["notes"] == list(robot.notes)


# --- base


def test_base_as_latex_and_what_it_refuses(capsys):
    told = result(capsys, "base", "demo3", "--latex", "--method", "closed-form")
    assert told["latex"] == align(entry["latex"] for entry in told["base"])
    assert all(entry["latex"] != entry["expression"] for entry in told["base"])
    assert main(["base", "demo3", "--latex", "--method", "closed-form"]) == 0
    assert capsys.readouterr().out == told["latex"]
    assert "--seed -1 is negative" in refused(capsys, "base", "demo3", "--seed", "-1")
    assert "--only names no group" in refused(capsys, "base", "demo3", "--only", " , ")


@pytest.mark.parametrize("tilting", [True, False])
def test_base_of_a_base_that_tilts_says_why_of_that(capsys, tilting):
    robot = load_robot("puma3")
    flags, order = ["--tilting-base"] if tilting else [], ("rotor", "3", "2", "1")
    told = result(capsys, "base", "puma3", "--order", ",".join(order), *flags)
    found = base_parameters(robot, order=order, tilting_base=tilting)
    expected = encode(base.base_outcome(robot, found, order=order, tilting_base=tilting))
    assert {**told, "seconds": 0.0} == {**expected, "seconds": 0.0}
    other = encode(base.base_outcome(robot, found, order=order, tilting_base=not tilting))
    assert other != expected, "it makes a difference"


def test_a_gap_that_is_not_finite_is_not_told(robot):
    found = base_parameters(robot, method="closed-form")
    for gap, told in ((1e6, ["gap at the rank 1e+06"]), (np.inf, [])):
        outcome = base.base_outcome(robot, replace(found, gap=gap, cond=None, S=None))
        assert outcome.gap == (gap if told else None)
        out = io.StringIO()
        base.show(outcome, Console(file=out, width=120, highlight=False))
        assert out.getvalue().splitlines()[-1 - len(robot.notes)] == ": ".join(["by closed-form", *told])


def test_base_prints_the_set_of_the_paper():
    rows = (base.PaperCombination("K1", {"ZZ1": 1.0, "YY2": -2.0}, 1.0),)
    outcome = base.BaseOutcome("arm", 28, 0, (), (), (), None, None, None, "torque", "qr", (), (), (), paper_set=rows)
    out = io.StringIO()
    base.show(outcome, Console(file=out, width=120, highlight=False))
    lines = [" ".join(line.replace("│", " ").split()) for line in out.getvalue().splitlines()]
    assert "minimal linear combinations as in Lin's Theorem 2" in lines
    assert "K1 ZZ1 - 2 YY2" in lines
    assert lines[-1] == "by qr" and not any("not identifiable" in line for line in lines)


# --- pages


@pytest.fixture
def pages(monkeypatch):
    """Return the requests for pages that are made, and what is shown of them."""
    seen = SimpleNamespace(requests=[], shown=[])

    def previewed(request):
        seen.requests.append(request)
        return SimpleNamespace(), f"page {len(seen.requests)}"

    monkeypatch.setattr("ros2_dynid.usecases.preview.previewed", previewed)
    monkeypatch.setattr(
        "ros2_dynid.preview.page.serve_page",
        lambda page, ready, *, browser: seen.shown.append((page, browser)) or ready("http://here"),
    )
    return seen


@pytest.mark.parametrize(
    ("flags", "asked", "shown"),
    [
        ([], False, []),
        (["--preview"], True, [("page 1", True)]),
        (["--save-preview", "p.html"], True, []),
        (["--preview", "--save-preview", "p.html"], True, [("page 1", True)]),
    ],
)
def test_excite_shows_the_trajectory_with_the_limits_it_was_planned_for(monkeypatch, pages, flags, asked, shown):
    monkeypatch.setattr("ros2_dynid.usecases.plan.plan", lambda request, progress: SimpleNamespace())
    monkeypatch.setattr(excite, "show", lambda outcome, console: None)
    line = (
        "excite demo3 -o out.yaml --floor -0.25 --max-position 1 --max-velocity 2 --max-acceleration 3 --max-effort 4"
    )
    assert main([*line.split(), *flags]) == 0
    save = "p.html" if "--save-preview" in flags else None
    expected = PreviewRequest(
        "out.yaml", RobotSource("demo3"), Surroundings(floor=-0.25), save=save, caps=Caps(1.0, 2.0, 3.0, 4.0)
    )
    assert pages.requests == ([expected] if asked else []) and pages.shown == shown


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ([], [("page 1", True)]),
        (["--no-browser"], [("page 1", False)]),
        (["--save", "p.html"], []),
        (["--screenshot", "p.png"], []),
    ],
)
def test_preview_shows_the_page_unless_files_are_asked_for(monkeypatch, capsys, pages, flags, shown):
    monkeypatch.setattr(preview, "show", lambda outcome, console: None)
    assert main(["preview", "t.yaml", "demo3", *flags]) == 0
    assert len(pages.requests) == 1 and pages.shown == shown
    out, err = capsys.readouterr()
    assert out == "" and err == ("preview: http://here (Ctrl-C ends it)\n" if shown else "")


# --- flags and the terminal


def test_options_are_written_as_they_are_typed():
    for option, typed in (
        (Option("hold"), "--hold"),
        (Option("overwrite", True), "--overwrite"),
        (Option("checks", False), "no --checks"),
        (Option("angle_unit", "deg"), "--angle-unit deg"),
        (Option("row_cutoff", 2.5), "--row-cutoff 2.5"),
        (Option("gains", {"elbow": -1.0, "wrist": 0.5}), "--gains elbow=-1,wrist=0.5"),
        (Option("groups", ("rotor", "friction")), "--only rotor,friction"),
        (Option("gravity", (-9.81, 0.0, 0.0)), "--gravity=-9.81,0,0"),
        (Option("source", "energy"), "--from energy"),
        (Option("delay", 0.0), "--delay 0"),
    ):
        assert as_flag(option) == typed
    outcome = {"a": [Text("set ", Option("angle_unit", "deg"))], "b": (1.5, None, "set angle_unit: deg")}
    assert with_flags(outcome) == {"a": ["set --angle-unit deg"], "b": (1.5, None, "set angle_unit: deg")}


def test_a_table_that_just_fits_is_one():
    def printed(width):
        screen = Console(file=io.StringIO(), width=width)
        terminal.print_table(screen, [terminal.Column("joint"), terminal.Column("value")], [("elbow", "0.125")])
        return screen.file.getvalue()

    width = max(map(len, printed(200).splitlines()))
    assert printed(width) == printed(200) and "joint: elbow\nvalue: 0.125\n" in printed(width - 1)


def test_progress_is_for_those_who_look(monkeypatch, capsys):
    monkeypatch.setattr(terminal.sys.stdout, "isatty", lambda: True, raising=False)  # what they look at is the other
    with terminal.progress_bar(no_color=False) as nothing:
        assert nothing is None
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.progress_bar(no_color=True) as tell:
        for stage, done in (("reading", 0.0), ("reading", 0.3), ("fitting", 0.756), ("reading", 1.0)):
            tell(stage, done)
    assert capsys.readouterr().err == "  0 %  reading\n 76 %  fitting\n100 %  reading\n"
    shown = []
    monkeypatch.setattr("rich.progress.Progress.update", lambda bar, task, **more: shown.append((bar.tasks[0], more)))
    with terminal.progress_bar(no_color=False) as tell:
        tell("[bold]fitting", 0.5)
    ((task, more),) = shown
    assert task.total == 1.0 and more == {"description": "\\[bold]fitting", "completed": 0.5}
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: False, raising=False)
    with terminal.progress_bar(no_color=True) as nothing:
        assert nothing is None


@pytest.mark.parametrize("flags", [[], ["--no-color"]])
def test_colours_are_written_unless_they_are_not_wanted(monkeypatch, capsys, flags):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["mdh", "demo3", *flags]) == 0
    out = capsys.readouterr().out
    assert ("\x1b[" in out) is (not flags) and "shoulder" in out


def test_a_table_too_wide_for_the_terminal_is_told_in_lines():
    columns = [terminal.Column("joint"), terminal.Column("effort\nrms", right=True), terminal.Column("")]
    rows = [("shoulder_pan", "12.5", "x" * 20), ("elbow", "", "y")]
    wide, narrow = io.StringIO(), io.StringIO()
    terminal.print_table(Console(file=wide, width=60), columns, rows)
    terminal.print_table(Console(file=narrow, width=30), columns, rows)
    assert "shoulder_pan" in wide.getvalue() and "joint:" not in wide.getvalue()
    assert narrow.getvalue().splitlines() == ["joint: shoulder_pan", "effort rms: 12.5", "x" * 20, "", "joint: elbow", "y", ""]  # noqa: E501  # fmt: skip
