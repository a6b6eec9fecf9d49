# SPDX-License-Identifier: Apache-2.0

"""Friction terms and forces in files, sub-chains named by files, joints in another order, transforms, same robots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import screw
from ros2_dynid.errors import InputError
from ros2_dynid.model import load
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.joint_state import DISORDER, State
from ros2_dynid.model.load import shipped_file, shipped_robots, urdf_of
from ros2_dynid.model.mdh import (
    Axis,
    Row,
    cos_sin,
    cross3,
    inverse,
    mdh_table,
    mdh_transform,
    rotation_about,
    rotation_rpy,
    snap_angle,
    transform,
)
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Joint, Robot
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.model.same_robot import check_same_robot
from ros2_dynid.model.urdf import clean_urdf
from urdf_text import joint, link, urdf

JOINTS = [{"name": f"j{k}", "d": 0.1 * k} for k in (1, 2, 3)]


def robot(**more):
    return robot_from_dict({"joints": JOINTS, **more}, "x.yaml")


# --- friction terms in files


TERMS = (
    FrictionTerm(1, FrictionKind.CUBIC, 0.5, 0.25),
    FrictionTerm(2, FrictionKind.STRIBECK, 1.5, None, 0.125, 0.01),
    FrictionTerm(2, FrictionKind.POWER, 2.5, 0.5, exponent=0.75, exponent_std=0.02),
    FrictionTerm(3, FrictionKind.TEMPERATURE, -0.5, reference=35.0),
    FrictionTerm(3, FrictionKind.TEMPERATURE_VISCOUS, 0.25, reference=0.0),
    FrictionTerm(1, FrictionKind.LOAD, 0.1),
    FrictionTerm(1, FrictionKind.ASYMMETRIC, -0.3, 0.0),
)


def test_friction_terms_go_to_a_file_and_back():
    made = replace(robot(), friction=TERMS)
    data = robot_to_dict(made)
    assert data["friction"] == [
        {"joint": "j1", "term": "cubic", "coefficient": 0.5, "std": 0.25},
        {"joint": "j2", "term": "stribeck", "coefficient": 1.5, "speed": 0.125, "speed_std": 0.01},
        {"joint": "j2", "term": "power", "coefficient": 2.5, "std": 0.5, "exponent": 0.75, "exponent_std": 0.02},
        {"joint": "j3", "term": str(FrictionKind.TEMPERATURE), "coefficient": -0.5, "reference": 35.0},
        {"joint": "j3", "term": str(FrictionKind.TEMPERATURE_VISCOUS), "coefficient": 0.25, "reference": 0.0},
        {"joint": "j1", "term": "load", "coefficient": 0.1},
        {"joint": "j1", "term": str(FrictionKind.ASYMMETRIC), "coefficient": -0.3, "std": 0.0},
    ]
    assert robot_from_dict(data, "x.yaml").friction == TERMS
    bare = robot(friction=[{"joint": 2, "term": "cubic"}]).friction
    assert bare == (FrictionTerm(2, FrictionKind.CUBIC, 0.0),)
    none = robot(friction=[{"joint": 2, "term": "cubic", "coefficient": None, "speed": None}]).friction
    assert none == bare


@pytest.mark.parametrize(
    ("friction", "words"),
    [
        ({}, "friction is not a list"),
        (["cubic"], "an entry of friction is not a mapping"),
        ([{"joint": "j1", "term": "cubic", "coeff": 1}], "unknown key 'coeff'; did you mean 'coefficient'"),
        ([{"joint": "j9", "term": "cubic"}], "unknown joint 'j9'"),
        ([{"joint": 0, "term": "cubic"}], "unknown joint 0"),
        ([{"joint": 4, "term": "cubic"}], "unknown joint 4"),
        ([{"joint": True, "term": "cubic"}], "unknown joint True"),
        ([{"joint": "j1", "term": "square"}], "unknown friction term 'square'; choose from"),
        ([{"joint": "j1", "term": "cubic", "coefficient": "much"}], "friction, coefficient is 'much'"),
        ([{"joint": "j2", "term": str(FrictionKind.TEMPERATURE)}], "of joint 'j2' has no reference"),
        ([{"joint": "j2", "term": "stribeck"}], "has speed 0"),
        ([{"joint": "j2", "term": "cubic"}] * 2, "occurs twice"),
    ],
)
def test_friction_terms_that_are_none(friction, words):
    with pytest.raises(InputError, match=rf"x\.yaml.*{words}"):
        robot(friction=friction)


# --- forces in files


def force(**entry):
    return {"forces": [{"name": "s", "type": "spring", "joints": {"j1": 1}, **entry}]}


def cylinder(**entry):
    ends = {"from": {"joint": 0, "point": [1, 2, 3]}, "to": {"joint": "j2", "point": [4, 5, 6]}}
    return {"forces": [{"name": "c", "type": "cylinder", **ends, **entry}]}


def test_forces_have_usual_coefficients():
    for kind, powers in ((ForceKind.SPRING, (1,)), (ForceKind.CABLE, (1, 3)), (ForceKind.CYLINDER, (0, 1))):
        given = cylinder() if kind is ForceKind.CYLINDER else force(type=str(kind))
        (found,) = robot(**given).forces
        assert found.kind is kind and found.powers == powers == kind.usual and found.rest == 0.0
    found = robot(**force(coefficients=["cubic", "preload"], rest=0.5))
    assert found.forces[0].powers == (0, 3) and found.parameters == {"Kf1": 0.0, "Kc1": 0.0}
    assert found.forces[0].rest == 0.5
    found = robot(**cylinder(coefficients={"stiffness": -2.0}))
    assert found.parameters == {"Ks1": -2.0}
    assert robot(**force(coefficients={"preload": -1.0, "stiffness": 0.0})).parameters == {"Kf1": -1.0, "Ks1": 0.0}
    unnamed = {"type": "spring", "joints": {2: -0.5}}
    found = robot(forces=[unnamed, unnamed])
    assert [f.name for f in found.forces] == ["force 1", "force 2"] and dict(found.forces[0].weights) == {2: -0.5}


def test_pivots_are_placed_by_joint_base_or_link():
    base = transform(rotation_rpy(0.3, 0.2, -0.4), np.array((0.1, 0.2, 0.3)))
    tool = transform(rotation_rpy(-0.5, 0.1, 0.8), np.array((-0.3, 0.1, 0.2)))
    point = np.array((1.0, -2.0, 0.5))
    places = {
        "hand": (3, tool[:3, :3] @ point + tool[:3, 3]),
        "foot": (0, (np.linalg.inv(base) @ tool @ [*point, 1.0])[:3]),
    }
    tools = {"hand": {"joint": 3, "transform": tool.tolist()}, "foot": {"joint": 0, "transform": tool.tolist()}}
    for place, (number, expected) in places.items():
        ends = {"from": {"link": place, "point": point.tolist()}, "to": {"joint": 2, "point": [0, 0, 0]}}
        found = robot(base=base.tolist(), tools=tools, **cylinder(**ends)).forces[0].pivots
        assert found[0].joint == number and found[1] == Pivot(2, (0.0, 0.0, 0.0))
        np.testing.assert_allclose(found[0].point, expected, atol=1e-14)
    found = robot(base=base.tolist(), **cylinder()).forces[0].pivots
    np.testing.assert_allclose(found[0].point, (np.linalg.inv(base) @ [1.0, 2.0, 3.0, 1.0])[:3], atol=1e-14)
    with pytest.raises(InputError, match="unknown link 'hnd'; did you mean 'hand'"):
        robot(tools=tools, **cylinder(to={"link": "hnd", "point": [0, 0, 0]}))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"forces": {}}, "forces is not a list"),
        (force(type="rubber"), "force 's' has type 'rubber'; use spring, cable, cylinder"),
        (force(stiff=1), "unknown key 'stiff'"),
        (force(coefficients={"stif": 1}), "unknown key 'stif'"),
        (force(coefficients={"stiffness": -0.1}), "has stiffness -0.1"),
        (force(type="cable", coefficients={"stiffness": -0.1}), "has stiffness -0.1"),
        (force(joints={"j9": 1}), "unknown joint 'j9'"),
        (force(joints={}), "force 's' has no joints"),
        (force(joints={"j1": 0}), "has no joints"),
        (force(rest=float("inf")), "rest is inf"),
        (force(**{"from": {"joint": 0, "point": [0, 0, 0]}}), "has no joints"),
        (cylinder(joints={"j1": 1}), "needs two pivots"),
        (cylinder(to={"joint": 0, "point": [0, 0, 1]}), "both pivots on one link"),
        (cylinder(to={"joint": "j2", "point": [0, 0]}), "give 3 numbers"),
        (cylinder(to={"joint": "j7", "point": [0, 0, 0]}), "unknown joint 'j7'"),
        (cylinder(to=5), "is not a mapping"),
    ],
)
def test_forces_that_are_none(given, words):
    with pytest.raises(InputError, match=rf"x\.yaml.*{words}"):
        robot(**given)


def test_elements_without_meaning():
    ends = (Pivot(0, (0.0, 0.0, 0.0)), Pivot(1, (0.0, 0.0, 1.0)))
    for powers in ((), (1, 0), (1, 1), (4,), (-1,)):
        with pytest.raises(InputError, match="has no coefficients"):
            Force("s", ForceKind.SPRING, powers, {1: 1.0})
    for weights in ({}, {1: np.nan}, {1: 1.0, 2: np.inf}, {1: 1.0, 2: 0.0}):
        with pytest.raises(InputError, match="has no joints"):
            Force("s", ForceKind.SPRING, (1,), weights)
    with pytest.raises(InputError, match="has no joints"):
        Force("s", ForceKind.CABLE, (1,), {1: 1.0}, ends)
    with pytest.raises(InputError, match="needs two pivots"):
        Force("s", ForceKind.CYLINDER, (1,), {}, ends[:1])
    with pytest.raises(InputError, match="a pivot that is not finite"):
        Force("s", ForceKind.CYLINDER, (1,), {}, (ends[0], Pivot(1, (0.0, np.nan, 0.0))))
    for rest in (np.nan, np.inf):
        with pytest.raises(InputError, match="has rest"):
            Force("s", ForceKind.SPRING, (1,), {1: 1.0}, rest=rest)
    assert Force("s", ForceKind.CYLINDER, (0, 3), {}, ends).joints == {0, 1}
    assert Force("s", ForceKind.SPRING, (0, 1, 2, 3), {2: 1.0, 3: -1.0}).joints == {2, 3}


def test_other_forces_make_another_robot():
    ends = (Pivot(0, (0.1, 0.0, 0.0)), Pivot(2, (0.0, 0.0, 1.0)))
    own = Force("c", ForceKind.CYLINDER, (0, 1), {}, ends, 0.3)
    spring = Force("s", ForceKind.SPRING, (1,), {1: 1.0}, rest=0.2)

    def having(*forces):
        return replace(robot(), forces=forces)

    check_same_robot(having(own, spring), having(replace(own, name="other", rest=0.3 + 4e-7), spring), "m")
    near = replace(own, pivots=(ends[0], Pivot(2, (4e-7, 0.0, 1.0))))
    check_same_robot(having(own), having(near), "m")
    for other in (
        replace(own, rest=0.3 + 2e-6), replace(own, powers=(0,)),
        replace(own, pivots=(ends[0], Pivot(1, ends[1].point))),
        replace(own, pivots=(Pivot(0, (0.1 + 2e-6, 0.0, 0.0)), ends[1])), replace(own, pivots=ends[::-1]),
    ):  # fmt: skip
        with pytest.raises(InputError, match="other springs"):
            check_same_robot(having(own), having(other), "m")
    for other in (having(), having(spring, spring), having(replace(spring, weights={1: 1.1}))):
        with pytest.raises(InputError, match="other springs"):
            check_same_robot(having(spring), other, "m")


# --- where robots come from


def test_the_urdf_and_the_chain_that_a_file_names(tmp_path):
    for name in ("a.urdf", "b.xml", "c.xacro", "d.URDF"):
        (tmp_path / name).write_text("<robot/>")
    for name, is_urdf in (("a.urdf", True), ("b.xml", True), ("c.xacro", False), ("d.URDF", True)):
        found, chain = urdf_of(tmp_path / name, base_link="x", hold={"j": 1.0})
        assert found == (tmp_path / name if is_urdf else None)
        assert chain == {"base_link": "x", "tip_link": None, "hold": {"j": 1.0}}
    file = tmp_path / "r.yaml"
    file.write_text("urdf: a.urdf\nbase_link: low\ntip_link: high\nhold: {j1: 0.5, j2: 1.5}\n")
    found, chain = urdf_of(file)
    assert found == tmp_path / "a.urdf"
    assert chain == {"base_link": "low", "tip_link": "high", "hold": {"j1": 0.5, "j2": 1.5}}
    _, chain = urdf_of(file, base_link="mine", hold={"j2": 2.0, "j3": 3.0})
    assert chain == {"base_link": "mine", "tip_link": "high", "hold": {"j1": 0.5, "j2": 2.0, "j3": 3.0}}
    assert urdf_of(file, tip_link="tip")[1]["tip_link"] == "tip"
    file.write_text("urdf: c.xacro\n")
    assert urdf_of(file)[0] is None
    for text in ("joints: []\n", "[1, 2]\n", "urdf:\n"):
        file.write_text(text)
        found, chain = urdf_of(file, tip_link="t")
        assert found is None and chain == {"base_link": None, "tip_link": "t", "hold": {}}


def test_shipped_files(tmp_path, monkeypatch):
    robots = shipped_robots()
    assert robots["puma560"].name == "puma560.yaml" and all(path.is_file() for path in robots.values())
    folder = robots["puma560"].parent
    assert shipped_file("robots/puma560.yaml") == folder / "puma560.yaml"
    for missing in ("robots/none.yaml", "robots"):
        with pytest.raises(InputError, match=f"file config/{missing} is not installed"):
            shipped_file(missing)
    # from a share folder, as installed; a package.xml alone, or config/robots alone, is no checkout
    inner = tmp_path / "lib" / "python" / "ros2_dynid" / "model"
    inner.mkdir(parents=True)
    monkeypatch.setattr(load, "__file__", str(inner / "load.py"))
    assert shipped_robots() == {}
    with pytest.raises(InputError, match="is not installed"):
        shipped_file("x")
    (tmp_path / "lib" / "package.xml").touch()
    (tmp_path / "lib" / "python" / "config" / "robots").mkdir(parents=True)
    assert shipped_robots() == {}
    share = tmp_path / "share" / "ros2_dynid" / "config" / "robots"
    share.mkdir(parents=True)
    (share / "one.yaml").touch()
    (share / "one.urdf").touch()
    (share / "two.urdf").touch()
    assert shipped_robots() == {"one": share / "one.yaml", "two": share / "two.urdf"}
    checkout = tmp_path / "lib" / "config" / "robots"
    checkout.mkdir(parents=True)
    (checkout / "three.yaml").touch()
    assert shipped_robots() == {"three": checkout / "three.yaml"}


# --- joints by name


def test_values_in_another_order():
    assert joint_order(("a", "b", "c"), ("c", "a", "b")) == [1, 2, 0]
    assert joint_order(("a",), ["a"]) == [0]
    for given in (("c", "a"), ("a", "b", "c", "d"), ("a", "b", "b"), ("a", "b", "x"), ("a", "b", "c", "c"), ()):
        with pytest.raises(InputError, match="it must name the joints a, b, c"):
            joint_order(("a", "b", "c"), given)
    with pytest.raises(InputError, match=r"there: .*the reference"):
        joint_order(("a",), ("b",), "reference", "there")


def test_a_state_cannot_be_written_to():
    state = State(("a",), *(np.array([float(k)]) for k in range(3)))
    assert state.stamp == 0 and (state.q[0], state.dq[0], state.tau[0]) == (0.0, 1.0, 2.0)
    for values in (state.q, state.dq, state.tau):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 5.0
    assert DISORDER == 0.1, "[s]: recorders and controllers take older stamps than this for a clock that was set"


def test_parameters_must_be_finite():
    made = Robot("r", (Joint("a", 0),))
    assert standard_vector(made, {"M1": 2.0})[9] == 2.0 and standard_vector(made).sum() == 0.0
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="parameter MX1 is not finite"):
            standard_vector(made, {"M1": 1.0, "MX1": value, "off1": value})


# --- transforms


def test_transforms_are_products_of_screws():
    r, p, y = 0.3, -0.8, 1.9
    expected = screw("z", y, 0.0) @ screw("y", p, 0.0) @ screw("x", r, 0.0)
    np.testing.assert_allclose(rotation_rpy(r, p, y), expected[:3, :3], atol=1e-15)
    for k, axis in enumerate("xyz"):
        np.testing.assert_allclose(rotation_about(np.eye(3)[k], 0.7), screw(axis, 0.7, 0.0)[:3, :3], atol=1e-15)
    axis = np.array((2.0, -1.0, 2.0)) / 3.0
    turn = rotation_about(axis, 1.1)
    np.testing.assert_allclose(turn @ axis, axis, atol=1e-15)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-15)
    assert np.trace(turn) == pytest.approx(1.0 + 2.0 * np.cos(1.1))
    x = np.array((0.3, 0.5, -0.7))
    np.testing.assert_allclose(cross3(axis, x), np.cross(axis, x), atol=1e-16)
    assert axis @ np.cross(x, turn @ x) > 0.0
    T = transform(turn, x)
    np.testing.assert_allclose(inverse(T) @ T, np.eye(4), atol=1e-15)
    for sigma in (REVOLUTE, PRISMATIC):
        joint = Joint("j", 0, sigma, 0.3, -0.2, 0.9, 0.4, -0.6, 0.1)
        turned, shifted = (0.25, 0.0) if sigma == REVOLUTE else (0.0, 0.25)
        expected = screw("z", 0.3, -0.2) @ screw("x", 0.9, 0.4) @ screw("z", -0.6 + turned, 0.1 + shifted)
        np.testing.assert_allclose(mdh_transform(joint, 0.25), expected, atol=1e-15)
        np.testing.assert_allclose(
            mdh_transform(joint), screw("z", 0.3, -0.2) @ screw("x", 0.9, 0.4) @ screw("z", -0.6, 0.1)
        )


def test_right_angles():
    for k in range(-9, 10):
        angle = k * (np.pi / 2)
        assert cos_sin(angle) == [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][k % 4]
        for off in (0.9e-5, -0.9e-5):
            assert snap_angle(angle + off) == angle
            assert cos_sin(angle + off) == (np.cos(angle + off), np.sin(angle + off))
        for off in (1.1e-5, -1.1e-5, 0.7):
            assert snap_angle(angle + off) == angle + off
    assert snap_angle(1.6, 0.1) == np.pi / 2


def test_the_direction_that_x_1_follows():
    up, x = np.array((0.0, 0.0, 1.0)), np.array((1.0, 0.0, 0.0))
    (row,), frames = mdh_table([Axis(0, up, np.array((0.3, 0.2, 0.1)))], x)
    assert row == Row(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    np.testing.assert_allclose(frames[1][:3, 0], x, atol=1e-15)
    (_,), frames = mdh_table([Axis(0, up, np.zeros(3))], np.array((0.0, 2e-3, 1.0)))
    np.testing.assert_allclose(frames[1][:3, 0], [0.0, 1.0, 0.0], atol=1e-12)
    for reference in (up, -up, np.array((0.0, 5e-4, 1.0))):
        with pytest.raises(ValueError, match="must not be parallel to axis 1"):
            mdh_table([Axis(0, up, np.zeros(3))], reference)


@pytest.mark.parametrize(
    ("axis", "x_1"),
    [
        ("0 0 1", (1, 0, 0)),
        ("0 1 0", (1, 0, 0)),
        ("1 0 0", (0, 1, 0)),
        ("-1 0 0", (0, 1, 0)),
        ("0.8 0 0.6", (0.6, 0, -0.8)),
    ],
)
@pytest.mark.parametrize("rpy", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.5)])
def test_x_1_follows_x_of_the_urdf_or_y_where_the_axis_is_x(axis, x_1, rpy):
    """Of a robot with one joint, whose x axis nothing else decides: the part of it across the axis."""
    robot = robot_from_urdf_string(urdf(link("a"), link("b"), joint("j", "a", "b", axis=axis, rpy=rpy)))
    np.testing.assert_allclose(robot.base[:3, 0], rotation_rpy(*rpy) @ x_1, atol=1e-12)
    np.testing.assert_allclose(robot.base[:3, 2], rotation_rpy(*rpy) @ [float(x) for x in axis.split()], atol=1e-12)


def test_notes_of_a_file_are_texts():
    assert robot(notes=["one", "two"]).notes == ("one", "two") and robot().notes == ()
    for wrong in ("one", {"a": 1}, [1], ["one", 2], ["one", None]):
        with pytest.raises(InputError, match="notes is not a list of texts"):
            robot(notes=wrong)


def test_links_with_a_shape_are_known():
    shapes = '<link name="b"><visual/></link><link name="c"><collision/></link>'
    joints = [joint(f"j{k}", *pair) for k, pair in enumerate((("a", "b"), ("b", "c"), ("c", "d")))]
    found = clean_urdf(urdf(link("a"), shapes, link("d"), *joints), "x.urdf")
    assert found.solid == {"b", "c"}
