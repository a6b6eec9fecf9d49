# SPDX-License-Identifier: Apache-2.0

"""Robot files: what they say, what they refuse, the way there and back, and the robots that are shipped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.model import load
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.load import load_robot, shipped_robots
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from urdf_text import joint, link, urdf

SHIPPED = sorted(shipped_robots())


def table(robot):
    return [(j.parent, j.sigma, j.gamma, j.b, j.alpha, j.d, j.theta, j.r) for j in robot.joints]


def same(one, other):
    return (
        one.name == other.name
        and one.joints == other.joints
        and np.array_equal(one.gravity, other.gravity)
        and np.array_equal(one.base, other.base)
        and one.tools.keys() == other.tools.keys()
        and all(one.tools[k][0] == other.tools[k][0] for k in one.tools)
        and all(np.array_equal(one.tools[k][1], other.tools[k][1]) for k in one.tools)
        and one.coupling == other.coupling
        and one.passive == other.passive
        and one.parameters == other.parameters
        and one.notes == other.notes
    )


def test_the_robots_of_the_papers_are_shipped():
    names = {"puma560", "puma3", "demo3", "tx40", "tx40_iam6", "stanford", "puma260", "hitachi_hpr", "demo6"}
    assert names <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_robots_have_limits_and_go_there_and_back(name):
    robot = load_robot(name)
    assert robot.name == name
    for number in robot.active:
        limits = robot.joints[number - 1].limits
        assert np.all(np.isfinite([limits.lower, limits.upper, limits.velocity, limits.acceleration, limits.effort]))
    data = robot_to_dict(robot)
    assert same(robot_from_dict(yaml.safe_load(yaml.safe_dump(data)), "test"), robot)
    assert same(robot_from_dict(json.loads(json.dumps(data)), "test"), robot)


@pytest.mark.parametrize("name", ["demo3", "stanford", "puma260", "hitachi_hpr", "demo6"])
def test_robots_of_our_own_have_links_that_a_body_can_have(name):
    robot = load_robot(name)
    chi = standard_vector(robot)[: 14 * robot.n].reshape(robot.n, 14)
    for XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M, *_ in chi:
        body = Inertia(M, np.array([MX, MY, MZ]), np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]]))
        assert M > 0
        assert body.fault() is None


def test_thin_plates_and_rods_are_bodies_and_what_is_thinner_is_not():
    """A plate's largest principal moment is the sum of the others, and a rod has one of 0: rounding decides nothing."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        a, b = 10.0 ** rng.uniform(-6, 1, 2)
        mass, centre = 10.0 ** rng.uniform(-2, 2), rng.uniform(-1.0, 1.0, 3)
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        for moments, fault in (
            ((a, b, a + b), None),
            ((0.0, b, b), None),
            ((a, a, 1.999 * a), None),
            ((a, a, 2.001 * a), "triangle"),
            ((-1e-3 * b, b, b), "negative"),
        ):
            J = turn @ np.diag(moments) @ turn.T + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
            found = Inertia(mass, mass * centre, J).fault()
            far = mass * centre @ centre > 1e5 * max(map(abs, moments))  # lost in the digits of the parallel-axis term
            assert (found is None) if fault is None else far or (found is not None and fault in found)


def test_puma560_is_the_one_of_gautier_1991():
    robot = load_robot("puma560")
    right = np.pi / 2
    assert table(robot) == [
        (0, 0, 0, 0, 0, 0, 0, 0),
        (1, 0, 0, 0, -right, 0, 0, 0),
        (2, 0, 0, 0, 0, 0.5, 0, 0.2),
        (3, 0, 0, 0, -right, 0.02, 0, 0.6),
        (4, 0, 0, 0, right, 0, 0, 0),
        (5, 0, 0, 0, -right, 0, 0, 0),
    ]
    assert dict(robot.joints[3].symbols) == {"d": "D4", "r": "R4"}
    p = robot.parameters
    wrist = p["M4"] + p["M5"] + p["M6"]
    ZZR1 = p["ZZ1"] + p["YY2"] + p["YY3"] + 0.4 * p["MZ3"] + 0.2904 * wrist + 0.29 * p["M3"] + p["Ia1"]
    XXR2 = p["XX2"] - p["YY2"] - 0.25 * (p["M3"] + wrist)
    XXR3 = p["XX3"] - p["YY3"] + p["YY4"] + 1.2 * p["MZ4"] + (0.36 - 0.0004) * wrist
    assert (round(ZZR1, 4), round(XXR2, 4), round(XXR3, 4)) == (5.0186, -2.05, 0.7634)


def test_puma3_has_the_base_parameters_of_gautier_khalil_1992():
    p = load_robot("puma3").parameters
    base = {
        "ZZR1": p["ZZ1"] + p["YY2"] + p["YY3"] + 0.4 * p["MZ3"] + 0.29 * p["M3"] + p["Ia1"],
        "XXR2": p["XX2"] - p["YY2"] - 0.25 * p["M3"],
        "XZR2": p["XZ2"] - 0.5 * p["MZ3"] - 0.1 * p["M3"],
        "ZZR2": p["ZZ2"] + 0.25 * p["M3"] + p["Ia2"],
        "MXR2": p["MX2"] + 0.5 * p["M3"],
        "XXR3": p["XX3"] - p["YY3"],
        "XY3": p["XY3"],
        "ZZ3": p["ZZ3"],
        "MY3": p["MY3"],
    }
    table6 = (5.0186, -2.05, -1.07, 6.55, 4.3, 0.7634, 0.6872, 0.9646, 1.14)
    assert tuple(round(value, 4) for value in base.values()) == table6


def test_tx40_has_the_parameters_and_the_coupling_of_gautier_venture_2013():
    robot, independent = load_robot("tx40"), load_robot("tx40_iam6")
    assert len(standard_names(robot)) == 86
    assert len(standard_names(independent)) == 87
    assert (robot.parameters["MZ4"], robot.parameters["Fcm6"], robot.parameters["Ia2"]) == (-0.586, 1.88, 0.507)
    assert robot.joints[1].theta == -np.pi / 2
    assert dict(robot.coupling[0].weights) == {5: 1.0, 6: 1.0}


def test_the_parallelogram_of_the_hitachi_stays_closed():
    """The forearm's point x4 = D5 and the rod's point x5 = -D4 are one point, whatever the active joints do."""
    robot = load_robot("hitachi_hpr")
    assert len(robot.active) == 5
    T = frames(robot, np.random.default_rng(0).uniform(-2, 2, size=(20, 5)))
    d4, d5 = robot.joints[3].d, robot.joints[4].d
    forearm = T[:, 3] @ np.array([d5, 0, 0, 1])
    rod = T[:, 4] @ np.array([-d4, 0, 0, 1])
    np.testing.assert_allclose(forearm, rod, atol=1e-12)


def write(tmp_path, text, name="robot.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


TABLE = "joints:\n  - {name: a, alpha: 90, limits: {lower: -1, upper: 1}}\n  - {name: b, type: prismatic, r: 1e-1}\n"


def test_defaults_units_and_text_numbers(tmp_path):
    robot = load_robot(write(tmp_path, "angle_unit: deg\n" + TABLE, "mine.yaml"))
    assert robot.name == "mine"
    assert [j.parent for j in robot.joints] == [0, 1]
    assert robot.joints[0].alpha == np.pi / 2
    assert robot.joints[0].limits.upper == 1.0
    assert robot.joints[1].r == 0.1
    assert np.array_equal(robot.gravity, [0, 0, -9.81])


def test_rounded_radians_are_snapped_with_a_note(tmp_path):
    robot = load_robot(write(tmp_path, "joints: [{name: a, alpha: 1.5708}]"))
    assert robot.joints[0].alpha == np.pi / 2
    assert any("rounded" in note and "a alpha" in note for note in robot.notes)


REFUSED = {
    "no mapping": ("- 1\n- 2\n", ("not a mapping",)),
    "broken YAML": ("joints: [\n", ("not YAML", "line")),
    "a Python object": ("joints: !!python/object/apply:os.system [ls]\n", ("not YAML",)),
    "no joints": ("name: r\n", ("no joints", "urdf:")),
    "unknown key": ("gravty: [0, 0, 1]\n" + TABLE, ("'gravty'", "did you mean 'gravity'")),
    "key twice": (TABLE + "name: a\nname: b\n", ("'name'", "twice")),
    "unknown joint key": ("joints: [{name: a, aplha: 1}]", ("joint 'a'", "'aplha'", "'alpha'")),
    "unknown type": ("joints: [{name: a, type: ball}]", ("joint 'a'", "'ball'", "prismatic")),
    "unknown limit": ("joints: [{name: a, limits: {max: 1}}]", ("joint 'a'", "'max'")),
    "limits crossed": ("joints: [{name: a, limits: {lower: 1, upper: 0}}]", ("joint 'a'", "lower <= upper")),
    "text": ("joints: [{name: a, d: long}]", ("joint 'a', d", "'long'", "number")),
    "nan": ("joints: [{name: a, d: .nan}]", ("joint 'a', d", "finite")),
    "unknown parent": ("joints: [{name: a}, {name: b, parent: c}]", ("joint 'b', parent", "'c'")),
    "parent after": ("joints: [{name: a, parent: 2}, {name: b}]", ("joint 'a', parent", "2")),
    "a joint twice": ("joints: [{name: a}, {name: a}]", ("'a'", "twice")),
    "unknown unit": ("angle_unit: grad\n" + TABLE, ("'grad'", "rad or deg")),
    "unknown parameter": (TABLE + "parameters: {ZZ3: 1}\n", ("'ZZ3'",)),
    "misspelt parameter": (TABLE + "parameters: {zz1: 1}\n", ("'zz1'",)),
    "parameter without number": (TABLE + "parameters: {ZZ1: x}\n", ("ZZ1", "'x'")),
    "coupling of an unknown joint": (TABLE + "coupling: [{motor: a, joints: {a: 1, c: 1}}]\n", ("coupling", "'c'")),
    "coupling of a lonely motor": (
        TABLE + "coupling: [{motor: a, joints: {a: 1}}]\n",
        ("coupling", "at least one other"),
    ),
    "passive joint unknown": (TABLE + "passive: {c: {a: 1}}\n", ("passive", "'c'")),
    "passive on passive": (TABLE + "passive: {a: {b: 1}, b: {a: 1}}\n", ("passive",)),
    "loops without cuts": (TABLE + "loops: {passive: [b]}\n", ("loops lack", "cuts:")),
    "loop at an unknown link": (
        TABLE
        + "loops: {passive: [b], cuts: [{from: {joint: a, point: [0, 0, 0]}, to: {link: x, point: [0, 0, 0]}}]}\n",
        ("loops", "'x'"),
    ),
    "hinge with one axis": (
        TABLE + "loops: {passive: [b], cuts: [{from: {joint: b, point: [0, 0, 0], axis: [0, 0, 1]}, "
        "to: {joint: 0, point: [0, 0, 0]}}]}\n",
        ("axis at one end only",),
    ),
    "loop within a link": (
        TABLE
        + "loops: {passive: [b], cuts: [{from: {joint: a, point: [0, 0, 0]}, to: {joint: a, point: [1, 0, 0]}}]}\n",
        ("points of one link",),
    ),
    "gravity of two": ("gravity: [0, -9.81]\n" + TABLE, ("gravity", "3 numbers")),
    "base not rigid": ("base: [[2,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]\n" + TABLE, ("base", "rigid")),
    "hold without urdf": ("hold: {a: 1}\n" + TABLE, ("hold", "urdf")),
    "urdf missing": ("urdf: nowhere.urdf\n", ("nowhere.urdf", "no such file")),
    "symbol with a blank": ("joints: [{name: a, d: 1, symbols: {d: 'D 3'}}]", ("'D 3'", "'a'")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line(case, tmp_path):
    text, words = REFUSED[case]
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_robot(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message
    for word in words:
        assert word in message


ARM = urdf(
    *(link("base"), link("a"), link("b"), link("c")),
    joint("j1", "base", "a", inside='<dynamics damping="0.5" friction="0.25"/>'),
    joint("j2", "a", "b", xyz="0.3 0 0"),
    joint("j3", "b", "c", xyz="0.3 0 0", axis="1 0 0"),
)


def test_a_robot_file_refines_a_urdf(tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    path = write(
        tmp_path,
        "name: better\nurdf: arm.urdf\nhold: {j3: 0.5}\ngravity: [0, 0, -1.62]\n"
        "joints: [{name: j2, limits: {acceleration: 7}}]\n"
        "coupling: [{motor: j2, joints: {j1: 1, j2: 1}}]\nparameters: {Ia1: 0.4, Fv1: 0.6}\n",
    )
    robot = load_robot(path)
    assert (robot.name, robot.n) == ("better", 2)
    assert robot.gravity[2] == -1.62
    assert replace(robot.joints[1].limits, acceleration=np.inf).upper == 3.0
    assert robot.joints[1].limits.acceleration == 7.0
    assert robot.parameters["Fc1"] == 0.25
    assert (robot.parameters["Ia1"], robot.parameters["Fv1"]) == (0.4, 0.6)
    assert robot.coupling[0].motor == 2
    with pytest.raises(InputError, match="beside urdf"):
        load_robot(write(tmp_path, "urdf: arm.urdf\njoints: [{name: j2, d: 1}]\n"))
    with pytest.raises(InputError, match="unknown joint 'j9'"):
        load_robot(write(tmp_path, "urdf: arm.urdf\njoints: [{name: j9}]\n"))


def test_moveit_limits(tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    limits = write(
        tmp_path,
        "default_velocity_scaling_factor: 0.1\njoint_limits:\n"
        "  j1: {has_velocity_limits: true, max_velocity: 1.5, has_acceleration_limits: true, max_acceleration: 4}\n"
        "  j2: {has_velocity_limits: false, max_velocity: 0.0, has_acceleration_limits: false, max_acceleration: 0}\n"
        "  gripper: {has_acceleration_limits: true, max_acceleration: 1}\n",
        "joint_limits.yaml",
    )
    first, second, third = load_robot(tmp_path / "arm.urdf", joint_limits=limits).joints
    assert (first.limits.velocity, first.limits.acceleration, first.limits.upper) == (1.5, 4.0, 3.0)
    assert (second.limits.velocity, second.limits.acceleration) == (2.0, np.inf)
    assert third.limits.acceleration == np.inf
    for text, word in (
        ("a: 1\n", "joint_limits"),
        ("joint_limits: {x: {max_acceleration: 1}}\n", "'j1'"),
        ("joint_limits: {j1: {max_acceleration: -1}}\n", "positive"),
        ("joint_limits: {j1: 3}\n", "'j1'"),
    ):
        with pytest.raises(InputError, match=word):
            load_robot(tmp_path / "arm.urdf", joint_limits=write(tmp_path, text, "bad.yaml"))


def test_xacro_files_are_taken_where_xacro_is_there(tmp_path):
    pytest.importorskip("xacro")
    text = ARM.replace('<robot name="test">', '<robot name="test" xmlns:xacro="http://ros.org/wiki/xacro">').replace(
        'xyz="0.3 0 0"', 'xyz="${0.1 + 0.2} 0 0"'
    )
    assert load_robot(write(tmp_path, text, "arm.urdf.xacro")).n == 3
    with pytest.raises(InputError, match="xacro refuses"):
        load_robot(write(tmp_path, text.replace("0.1 + 0.2", "nothing"), "bad.xacro"))


def test_xacro_files_that_are_not_there_or_too_large_do_not_reach_xacro(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="there is no such file"):
        load_robot(tmp_path / "gone.xacro")
    (tmp_path / "large.xacro").write_text("<robot/>" + 40 * " ")
    monkeypatch.setattr(load, "MAX_BYTES", 40)
    with pytest.raises(InputError, match="it has more than"):
        load_robot(tmp_path / "large.xacro")


def test_names_and_paths_that_lead_nowhere(tmp_path):
    for path, word in (
        ("pumma560", "puma560"),
        ("nowhere.urdf", "no such file"),
        (tmp_path, "a folder is no robot"),
        ("", "shipped robot"),
    ):
        with pytest.raises(InputError, match=word):
            load_robot(path)
    with pytest.raises(InputError, match="neither a URDF nor a robot file"):
        load_robot(write(tmp_path, "hello", "robot.txt"))
    with pytest.raises(InputError, match="sub-chains"):
        load_robot("puma560", tip_link="x")


def test_a_urdf_goes_there_and_back(tmp_path):
    robot = load_robot(write(tmp_path, ARM, "arm.urdf"))
    assert isinstance(robot, Robot)
    assert same(robot_from_dict(yaml.safe_load(yaml.safe_dump(robot_to_dict(robot))), "test"), robot)


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000 + "x"])
def test_yaml_nested_without_end_is_refused_and_crashes_nothing(tmp_path, text):
    path = tmp_path / "deep.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="not YAML"):
        load_robot(path)
