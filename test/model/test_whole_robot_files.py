# SPDX-License-Identifier: Apache-2.0

"""A robot file with every field different: there and back; each field that is wrong is refused by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import MeasuredEffort
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Limits, Loops, Passive, Robot
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict

JOINTS = tuple(
    Joint(
        f"j{k}",
        parent,
        sigma,
        *(0.01 * k + 0.1 * i for i in range(1, 7)),
        limits=Limits(-k, 2.0 * k, 3.0 * k, 4.0 * k, 5.0 * k),
        symbols={"d": f"D{k}", "theta": f"T{k}"} if k == 2 else {},
        measures=MeasuredEffort(("Fv",), gain=2.5) if k == 5 else None,
    )
    for k, (parent, sigma) in enumerate(((0, 0), (1, PRISMATIC), (2, 0), (2, 0), (0, 0)), start=1)
)
ROBOT = Robot(
    "whole",
    JOINTS,
    gravity=np.array([1.0, -2.0, -9.0]),
    base=transform(rotation_rpy(0.1, 0.2, 0.3), np.array([0.4, 0.5, 0.6])),
    tools={
        "hand": (3, transform(rotation_rpy(0.3, 0.2, 0.1), np.array([0.1, 0.2, 0.3]))),
        "foot": (0, transform(np.eye(3), np.array([0.7, 0.8, 0.9]))),
    },
    coupling=(Coupling(1, {1: 1.5, 2: -0.5}, True), Coupling(2, {2: 2.5, 3: 0.25})),
    passive=(Passive(4, {1: 0.5, 3: -2.0}, 0.125),),
    parameters={"M1": 3.0, "ZZ2": 4.0, "Iam1": 5.0, "Fvm2": 6.0, "Ks1": 7.0, "Kf2": 8.0, "Ks2": 9.0, "Kc1": 0.5},
    friction=(
        FrictionTerm(1, FrictionKind.STRIBECK, 1.0, 0.1, 0.2, 0.01),
        FrictionTerm(2, FrictionKind.POWER, 2.0, None, exponent=1.5, exponent_std=0.05),
        FrictionTerm(3, FrictionKind.TEMPERATURE, -3.0, 0.3, reference=31.0),
    ),
    forces=(
        Force("rope", ForceKind.CABLE, (1, 3), {1: 1.0, 3: -0.75}, rest=0.3),
        Force("piston", ForceKind.CYLINDER, (0, 1), {}, (Pivot(0, (0.1, 0.2, 0.3)), Pivot(3, (0.4, 0.5, 0.6))), 0.7),
    ),
    notes=("as built",),
)


def test_every_field_goes_there_and_back():
    again = robot_from_dict(robot_to_dict(ROBOT), "f")
    assert again.joints == ROBOT.joints and (again.name, again.notes) == ("whole", ("as built",))
    np.testing.assert_array_equal(again.gravity, ROBOT.gravity)
    np.testing.assert_allclose(again.base, ROBOT.base, atol=1e-15)
    assert again.tools.keys() == ROBOT.tools.keys()
    for name, (number, pose) in ROBOT.tools.items():
        assert again.tools[name][0] == number
        np.testing.assert_allclose(again.tools[name][1], pose, atol=1e-15)
    assert (again.coupling, again.passive, again.friction) == (ROBOT.coupling, ROBOT.passive, ROBOT.friction)
    assert {k: v for k, v in again.parameters.items() if v} == dict(ROBOT.parameters)
    assert again.forces[0] == ROBOT.forces[0]
    mine, theirs = (robot.forces[1] for robot in (again, ROBOT))
    assert (mine.name, mine.kind, mine.powers, mine.rest) == (theirs.name, theirs.kind, theirs.powers, theirs.rest)
    for a, b in zip(mine.pivots, theirs.pivots, strict=True):
        assert a.joint == b.joint
        np.testing.assert_allclose(a.point, b.point, atol=1e-12)
    loops = Loops(((Pivot(6, (0.1, 0.2, 0.3)), Pivot(3, (0.4, 0.5, 0.6))),), (6,), {1: 0.5, 6: -1.0})
    closed = replace(ROBOT, joints=(*JOINTS, Joint("j6", 0)), loops=loops)
    assert robot_from_dict(robot_to_dict(closed), "f").loops == loops
    bare = Robot("bare", (Joint("a", 0),))
    assert set(robot_to_dict(bare)) == {"name", "gravity", "base", "joints", "parameters"}
    assert set(robot_to_dict(bare)["joints"][0]["limits"]) == set()


TABLE = {"joints": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"joints": {}}, "there are no joints"),
        ({"joints": []}, "there are no joints"),
        ({"joints": [{"name": "a", "sigma": 2}]}, "joint 'a' has type 2"),
        ({"joints": [{"name": "a", "sigma": True}]}, "joint 'a' has type True"),
        ({"joints": [{"name": "a", "type": 1}]}, "joint 'a' has type 1"),
        ({"joints": [{"name": "a", "type": "prismatic", "sigma": 0}]}, "and sigma 0"),
        ({"joints": [{"name": "a", "parent": False}]}, "unknown joint False"),
        ({"joints": [{"name": "a", "parent": 1}]}, "unknown joint 1"),
        ({"joints": [{"name": "a", "limits": {"velocity": -1}}]}, "impossible"),
        ({"joints": [{"name": "a", "limits": {"effort": -1}}]}, "impossible"),
        ({"joints": [{"name": "a", "limits": {"acceleration": -1}}]}, "impossible"),
        ({"joints": [{"name": "a", "symbols": {"d": 3}}]}, "symbol 3"),
        ({"joints": [{"name": "a", "symbols": {"q": "D"}}]}, "unknown key 'q'"),
        ({"joints": [{"name": "a", "sensor": "gear"}]}, "joint 'a': the sensor is 'gear'"),
        ({"coupling": {}}, "coupling is not a list"),
        ({"coupling": [{"motor": "a", "joints": {"a": 1, "b": 1}, "independent_inertia": 1}]}, "independent_inertia 1"),
        ({"coupling": [{"motor": 0, "joints": {"a": 1, "b": 1}}]}, "unknown joint 0"),
        ({"coupling": [{"motor": 4, "joints": {"a": 1, "b": 1}}]}, "unknown joint 4"),
        ({"coupling": [{"motor": True, "joints": {"a": 1, "b": 1}}]}, "unknown joint True"),
        ({"friction": {}}, "friction is not a list"),
        ({"friction": [{"joint": "a", "term": "glue"}]}, "unknown friction term 'glue'"),
        ({"friction": [{"joint": "a", "term": "temperature", "coefficient": 1}]}, "has no reference"),
        ({"forces": {}}, "forces is not a list"),
        ({"forces": [{"type": "rocket"}]}, "force 'force 1' has type 'rocket'"),
        ({"forces": [{"type": "spring", "joints": {"a": 1}, "coefficients": {"stiffness": -1}}]}, "stiffness -1"),
        ({"notes": "text"}, "notes is not a list"),
        ({"notes": [3]}, "notes is not a list"),
        ({"base_link": "x"}, "base_link without urdf"),
        ({"tip_link": "x"}, "tip_link without urdf"),
        ({"urdf": 3}, "urdf: 3"),
        ({"urdf": "r.urdf"}, "urdf: 'r.urdf'"),
        ({"tools": {"hand": {"joint": "z", "transform": np.eye(4).tolist()}}}, "tool 'hand': unknown joint 'z'"),
    ],
)
def test_files_that_are_no_robot(change, words):
    with pytest.raises(InputError, match=words):
        robot_from_dict(TABLE | change, "f")


def test_names_numbers_and_defaults():
    robot = robot_from_dict(
        TABLE
        | {
            "coupling": [{"motor": 3, "joints": {"c": 1, 2: 0.5}}],
            "passive": {"a": {"b": 2, "offset": 0.5}},
            "tools": {"tip": np.eye(4).tolist(), "stand": {"joint": 0, "transform": np.eye(4).tolist()}},
            "forces": [
                {"type": "cable", "joints": {"b": 1}},
                {"name": "s", "type": "spring", "joints": {"c": 1}, "coefficients": ["cubic", "preload"]},
            ],
        },
        "f",
        name="given",
    )
    assert robot.name == "given" and robot.coupling == (Coupling(3, {3: 1.0, 2: 0.5}),)
    assert robot.passive == (Passive(1, {2: 2.0}, 0.5),)
    assert (robot.tools["tip"][0], robot.tools["stand"][0]) == (3, 0)
    assert [(f.name, f.powers) for f in robot.forces] == [("force 1", (1, 3)), ("s", (0, 3))]
    assert [j.parent for j in robot.joints] == [0, 1, 2] and robot.joints[0].limits == Limits()
    unnamed = robot_from_dict({"joints": [{}, {"parent": 0}, {"parent": "joint1", "type": "continuous"}]}, "f")
    assert [(j.name, j.parent) for j in unnamed.joints] == [("joint1", 0), ("joint2", 0), ("joint3", 1)]


@pytest.mark.parametrize("joint", [None, "", [], "d", 4, -1])
def test_a_tool_is_on_a_joint_that_there_is_or_on_the_base(joint):
    with pytest.raises(InputError, match="tool 'tip': unknown joint"):
        robot_from_dict(TABLE | {"tools": {"tip": {"joint": joint, "transform": np.eye(4).tolist()}}}, "f")


@pytest.mark.parametrize("key", ["lower", "upper", "velocity", "acceleration", "effort"])
def test_a_limit_may_be_infinite_and_no_other_number(key):
    """A joint that the file gives no limit, beside one of the URDF that it takes away."""
    none = -np.inf if key == "lower" else np.inf
    joint = {"name": "a", "limits": {"lower": -1.0, "upper": 1.0, "velocity": 2.0, "effort": 3.0} | {key: none}}
    (found,) = robot_from_dict({"joints": [joint]}, "f").joints
    assert getattr(found.limits, key) == none
    for wrong in ({"limits": {key: np.nan}}, {"d": np.inf}, {"theta": -np.inf}):
        with pytest.raises(InputError, match="give a finite number"):
            robot_from_dict({"joints": [{"name": "a"} | wrong]}, "f")


@pytest.mark.parametrize(("unit", "factor"), [("rad", 1.0), ("deg", np.pi / 180)])
def test_only_angles_have_another_unit(unit, factor):
    entry = {
        "gamma": 0.1,
        "alpha": 0.2,
        "theta": 0.3,
        "b": 0.4,
        "d": 0.5,
        "r": 0.6,
        "limits": {"lower": -1, "upper": 2},
    }
    (joint,) = robot_from_dict({"angle_unit": unit, "joints": [entry]}, "f").joints
    assert (joint.gamma, joint.alpha, joint.theta) == pytest.approx((0.1 * factor, 0.2 * factor, 0.3 * factor))
    assert (joint.b, joint.d, joint.r, joint.limits.lower, joint.limits.upper) == (0.4, 0.5, 0.6, -1.0, 2.0)


@pytest.mark.parametrize("key", ["gamma", "alpha", "theta"])
def test_rounded_angles_are_exact_where_that_is_wanted(key):
    data = {"joints": [{"name": "a", key: 1.5708, "d": 1.5708}]}
    exact, plain = (robot_from_dict(data, "f", snap=snap) for snap in (True, False))
    assert getattr(exact.joints[0], key) == np.pi / 2 and exact.joints[0].d == 1.5708
    assert getattr(plain.joints[0], key) == 1.5708 and not plain.notes and f"a {key}" in exact.notes[0]
    assert not robot_from_dict({"joints": [{"name": "a", key: np.pi / 2 + 5e-11}]}, "f", snap=True).notes


def test_a_file_refines_the_robot_of_a_urdf():
    read = Robot("urdf", JOINTS[:3], parameters={"M1": 1.0}, notes=("read",))
    asked = []

    def read_urdf(path, chain):
        asked.append((path, chain))
        return read

    data = {
        "urdf": "r.urdf", "base_link": "b", "tip_link": "t", "hold": {"x": 0.5}, "name": "mine",
        "gravity": [0, 1, 2], "joints": [{"name": "j2", "limits": {"effort": 77}, "symbols": {"r": "R2"}}],
        "parameters": {"M2": 2.0}, "notes": ["more"],
    }  # fmt: skip
    robot = robot_from_dict(data, "f", read_urdf=read_urdf)
    assert asked == [("r.urdf", {"base_link": "b", "tip_link": "t", "hold": {"x": 0.5}, "floating_base": False})]
    assert robot.joints[1].limits == Limits(-2, 4.0, 6.0, 8.0, 77.0) and robot.joints[1].symbols == {"r": "R2"}
    assert robot.joints[0] == JOINTS[0] and robot.joints[2] == JOINTS[2]
    assert robot.parameters == {"M1": 1.0, "M2": 2.0} and robot.notes == ("read", "more")
    assert robot.name == "mine" and robot.gravity.tolist() == [0, 1, 2]
    plain = robot_from_dict({"urdf": "r.urdf"}, "f", read_urdf=read_urdf)
    assert plain.name == "urdf" and plain.gravity.tolist() == [0, 0, -9.81]
    assert asked[1][1] == {"base_link": None, "tip_link": None, "hold": {}, "floating_base": False}
    for wrong, words in (
        ({"base": np.eye(4).tolist()}, "base beside urdf"),
        ({"tools": {}}, "tools beside urdf"),
        ({"angle_unit": "deg"}, "angle_unit beside urdf"),
        ({"joints": {}}, "joints is not a list"),
        ({"joints": [{"name": "z"}]}, "unknown joint 'z'"),
        ({"joints": [{"name": "j1", "d": 1}]}, "unknown key 'd'"),
        ({"hold": {"x": "far"}}, "hold of x"),
    ):
        with pytest.raises(InputError, match=words):
            robot_from_dict({"urdf": "r.urdf"} | wrong, "f", read_urdf=read_urdf)
