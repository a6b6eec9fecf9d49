# SPDX-License-Identifier: Apache-2.0

"""Descriptions at the edge of what is taken: limits, rounding, nesting, sizes; and bodies as sums of points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model import files
from ros2_dynid.model.files import check_structure, parse_yaml, read_bytes
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.inertia import Inertia, merged
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.mdh import (
    FAR_SINE,
    Axis,
    cos_sin,
    inverse,
    mdh_table,
    rotation_about,
    rotation_rpy,
    snap_angle,
    snap_axes,
    transform,
)
from ros2_dynid.model.robot import Joint, Limits, Robot
from ros2_dynid.model.urdf import clean_urdf, name_list, parse_urdf
from urdf_text import joint, link, urdf

# --- files


def test_a_file_may_be_as_large_as_its_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(InputError, match="more than 4e-06 MB"):
        read_bytes(tmp_path / "a", 4)
    with pytest.raises(InputError, match="this is a folder"):
        read_bytes(tmp_path, 5)
    with pytest.raises(InputError, match="no such file"):
        read_bytes(tmp_path / "b", 5)
    assert (files.MAX_YAML, files.MAX_DEPTH) == (5_000_000, 50)


def test_yaml_may_be_nested_fifty_deep():
    for kind in ("[]", "{}"):
        inner = 48  # the stream and the document are two more
        text = "[" * (inner - 1) + kind + "]" * (inner - 1)
        check_structure(text)
        with pytest.raises(ValueError, match="too deeply"):
            check_structure(f"[{text}]")
    check_structure("[" + ", ".join(["[[]]"] * 100) + "]")


def laughing(levels, merge):
    """Return YAML of a few hundred bytes whose aliases, or merge keys, stand for 9^levels values."""
    lines = ["a0: &a0 {" + ", ".join(f"k{k}: 1" for k in range(9)) + "}"]
    for level in range(1, levels):
        parts = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{parts}]}}" if merge else f"[{parts}]"))
    return "\n".join(lines)


@pytest.mark.parametrize("merge", [False, True])
def test_aliases_do_not_make_a_small_file_large(merge):
    assert parse_yaml(laughing(3, merge), "robot.yaml")
    with pytest.raises(InputError, match="aliases make more than 100000 values"):
        parse_yaml(laughing(12, merge), "robot.yaml")
    with pytest.raises(InputError, match="not known before it, or for itself"):
        parse_yaml("a: &a [*a]", "robot.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: 1\nb: 2\na: 3", r"line 3: key 'a' occurs twice"), ("a: [1", r"not YAML \(line"), ("a:\n\t- 1", "not YAML")],
)
def test_yaml_that_is_none(text, words):
    with pytest.raises(InputError, match=words):
        parse_yaml(text, "f")


def test_yaml_with_keys_of_every_kind():
    assert parse_yaml("{a: 1, 1: 2, 2.5: 3}", "f") == {"a": 1, 1: 2, 2.5: 3}
    merged_keys = parse_yaml("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: {<<: *x}", "f")
    assert merged_keys["y"] == {"a": 1, "b": 3} and merged_keys["z"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(("levels", "found"), [(0, True), (7, True), (8, False)])
def test_limits_under_the_names_of_nodes(tmp_path, levels, found):
    text = "joint_limits: {a: {max_velocity: 2.0}}"
    for k in range(levels):
        text = f"l{k}: {{{text}}}"
    (tmp_path / "l.yaml").write_text(text)
    robot = Robot("r", (Joint("a", 0, limits=Limits(-1.0, 1.0, 5.0, 6.0, 7.0)),))
    if found:
        limits = with_joint_limits(robot, tmp_path / "l.yaml").joints[0].limits
        assert limits == Limits(-1.0, 1.0, 2.0, 6.0, 7.0)
    else:
        with pytest.raises(InputError, match="no mapping joint_limits"):
            with_joint_limits(robot, tmp_path / "l.yaml")


# --- URDFs


def test_names_in_one_line():
    assert name_list("joint", ["a"]) == "joint 'a'" and name_list("joint", "ab") == "joints 'a', 'b'"
    assert name_list("link", range(7)) == "links 0, 1, 2, 3, 4, 5 and 1 more"
    assert name_list("link", range(6)).endswith("5") and name_list("link", range(3), 2) == "links 0, 1 and 1 more"


@pytest.mark.parametrize(
    ("kind", "inside", "limits", "told"),
    [
        ("revolute", '<limit lower="-1" upper="2" velocity="3" effort="4"/>', (-1, 2, 3, 4), 0),
        ("revolute", '<limit lower="-1" upper="2"/>', (-1, 2, np.inf, np.inf), 0),
        ("prismatic", '<limit lower="0" upper="0.5" velocity="3" effort="4"/>', (0, 0.5, 3, 4), 0),
        ("revolute", '<limit velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 1),
        ("revolute", '<limit lower="2" upper="1" velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 1),
        ("revolute", '<limit lower="1" upper="1" velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 1),
        ("revolute", '<limit lower="-1" upper="1" velocity="0" effort="-4"/>', (-1, 1, np.inf, np.inf), 2),
        ("revolute", "<!-- no <limit -->", (-np.inf, np.inf, np.inf, np.inf), 1),
        ("continuous", "", (-np.inf, np.inf, np.inf, np.inf), 0),
        ("continuous", '<limit lower="-1" upper="1" velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 0),
    ],
)
def test_limits_of_a_urdf(kind, inside, limits, told):
    robot = robot_from_urdf_string(urdf(link("b"), link("a"), joint("j", "b", "a", type=kind, inside=inside)))
    found = robot.joints[0].limits
    assert (found.lower, found.upper, found.velocity, found.effort) == limits and found.acceleration == np.inf
    assert len([note for note in robot.notes if "unlimited" in str(note)]) == told


@pytest.mark.parametrize(
    ("dynamics", "Fv", "Fc", "told"),
    [("", 0.0, 0.0, 0), ('<dynamics damping="2"/>', 2.0, 0.0, 0), ('<dynamics friction="3"/>', 0.0, 3.0, 0),
     ('<dynamics damping="-2" friction="-3"/>', -2.0, -3.0, 2)],
)  # fmt: skip
def test_friction_of_a_urdf(dynamics, Fv, Fc, told):
    robot = robot_from_urdf_string(urdf(link("b"), link("a"), joint("j", "b", "a", inside=dynamics)))
    assert (robot.parameters.get("Fv1", 0.0), robot.parameters.get("Fc1", 0.0)) == (Fv, Fc)
    assert len([note for note in robot.notes if "negative" in str(note)]) == told


@pytest.mark.parametrize("size", [1e-13, 1e-11])
def test_an_axis_needs_a_direction(size):
    text = urdf(link("b"), link("a"), joint("j", "b", "a", axis=f"0 {size} 0"))
    if size < 1e-12:
        with pytest.raises(InputError, match="zero axis"):
            clean_urdf(text, "f")
    else:
        np.testing.assert_allclose(parse_urdf(text).joints["j"].axis, [0.0, 1.0, 0.0])


def test_the_axis_of_a_joint_that_names_none_and_unit_length():
    for axis, wanted in (("3 0 4", [0.6, 0.0, 0.8]), ("0 0 -7", [0.0, 0.0, -1.0])):
        found = parse_urdf(urdf(link("b"), link("a"), joint("j", "b", "a", axis=axis))).joints["j"].axis
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


# --- rounding


@pytest.mark.parametrize("quarter", range(-3, 4))
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_angles_within_a_hundred_thousandth_are_right_angles(quarter, side):
    exact = quarter * (math.pi / 2)
    assert snap_angle(exact + side * 0.9e-5) == exact
    assert snap_angle(exact + side * 1.1e-5) == exact + side * 1.1e-5
    assert snap_angle(exact + side * 1e-7, 1e-8) == exact + side * 1e-7
    c, s = cos_sin(exact)
    assert (c, s) == (round(math.cos(exact)), round(math.sin(exact)))
    assert cos_sin(exact + side * 1e-3) == (math.cos(exact + side * 1e-3), math.sin(exact + side * 1e-3))


@pytest.mark.parametrize(("angle", "snapped", "told"), [
    (0.9e-5, True, True), (1.1e-5, False, False), (5e-11, True, False), (2e-10, True, True), (0.3, False, False),
])  # fmt: skip
@pytest.mark.parametrize("right", [False, True])
def test_axes_that_are_nearly_parallel_or_perpendicular(angle, snapped, told, right):
    z = np.array([0.0, 0.0, 1.0])
    turned = angle + (math.pi / 2 if right else 0.0)
    other = np.array([math.sin(turned), 0.0, math.cos(turned)])
    axes, changes = snap_axes([Axis(0, z, np.zeros(3)), Axis(1, other, np.array([0.3, 0.1, 0.2]))], z)
    wanted = (np.array([1.0, 0.0, 0.0]) if right else z) if snapped else other
    np.testing.assert_allclose(axes[1].direction, wanted, atol=1e-15)
    assert (2 in changes) == told and 1 not in changes
    if told:
        assert changes[2] == pytest.approx(angle, rel=1e-4)
    first, changes = snap_axes([Axis(0, other, np.zeros(3))], z)
    np.testing.assert_allclose(first[0].direction, wanted, atol=1e-15)
    back, _ = snap_axes([Axis(0, z, np.zeros(3)), Axis(1, -other, np.zeros(3))], z)
    np.testing.assert_allclose(back[1].direction, -wanted, atol=1e-15)


def chained(rows):
    frame = np.eye(4)
    for row in rows:
        frame = (
            frame @ transform(rotation_about(np.array([0.0, 0, 1]), row.gamma), np.array([0, 0, row.b]))
            @ transform(rotation_about(np.array([1.0, 0, 0]), row.alpha), np.array([row.d, 0, 0]))
            @ transform(rotation_about(np.array([0.0, 0, 1]), row.theta), np.array([0, 0, row.r]))
        )  # fmt: skip
        yield frame


@pytest.mark.parametrize("tilt", [0.5 * FAR_SINE, 2.0 * FAR_SINE, 0.4, -0.4, math.pi / 2])
@pytest.mark.parametrize("offset", [(0.3, 0.2, 0.4), (0.0, 0.0, 0.4), (0.0, 0.2, 0.0)])
def test_rows_give_the_axes_back(tilt, offset):
    axes = [
        Axis(0, np.array([0.0, 0.0, 1.0]), np.array([0.1, 0.0, 0.2])),
        Axis(1, np.array([math.sin(tilt), 0.0, math.cos(tilt)]), np.array(offset)),
        Axis(2, np.array([0.0, 1.0, 0.0]), np.array([0.5, 0.1, 0.9])),
    ]
    rows, found = mdh_table(axes, np.array([1.0, 0.0, 0.0]))
    for frame, axis, place in zip(chained(rows), axes, found[1:], strict=True):
        here = found[0] @ frame
        np.testing.assert_allclose(here, place, atol=1e-9)
        np.testing.assert_allclose(here[:3, 2], axis.direction, atol=1e-9)
        np.testing.assert_allclose(np.cross(here[:3, 3] - axis.point, axis.direction), 0.0, atol=1e-9)
    if abs(math.sin(tilt)) <= FAR_SINE:
        assert np.abs(found[:, :3, 3]).max() < 2.0, "frames stay near the robot"
    for row in rows:
        for angle in (row.gamma, row.alpha, row.theta):
            assert -math.pi < angle <= math.pi
    with pytest.raises(ValueError, match="must not be parallel"):
        mdh_table(axes, np.array([0.0, 0.0, 1.0]))


@pytest.mark.parametrize(("small", "kept"), [(5e-7, True), (1e-10, True), (1e-12, False), (0.0, False)])
@pytest.mark.parametrize("size", [0.5, 500.0])
def test_small_angles_and_lengths_are_geometry_and_rounding_errors_are_not(small, kept, size):
    """Three parallel axes nearly in one plane, the third of them `small` beside it, in units of their distance."""
    z, x = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    places = size * np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, small, 0.0]])
    rows, _ = mdh_table([Axis(k, z, place) for k, place in enumerate(places)], x)
    assert rows[1].theta == (pytest.approx(small, rel=1e-4) if kept else 0.0)
    across = np.array([0.0, 1.0, 0.0])
    rows, _ = mdh_table(
        [Axis(0, z, places[0]), Axis(1, across, places[1] * small + size * z), Axis(2, z, places[1])], x
    )
    assert rows[1].d == (pytest.approx(size * small) if kept else 0.0)


@pytest.mark.parametrize("error", [1e-13, 0.0, -1e-13])
def test_half_a_turn_is_written_in_one_way(error):
    z, back = np.array([0.0, 0.0, 1.0]), np.array([error, 0.0, -1.0])
    rows, _ = mdh_table([Axis(0, z, np.zeros(3)), Axis(1, back, np.array([0.0, 0.5, 0.0]))], np.array([0.0, 1.0, 0.0]))
    assert rows[1].alpha == math.pi and rows[1].d == 0.5


# --- bodies


def points(seed, count=12):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.2, 2.0, count), rng.normal(size=(count, 3))


def body(mass, where):
    J = sum(m * ((p @ p) * np.eye(3) - np.outer(p, p)) for m, p in zip(mass, where, strict=True))
    return Inertia(float(mass.sum()), mass @ where, J)


def same(one, other):
    assert one.mass == pytest.approx(other.mass)
    np.testing.assert_allclose(one.first_moment, other.first_moment, atol=1e-12)
    np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_bodies_are_sums_of_points(seed):
    mass, where = points(seed)
    R, shift = rotation_rpy(*np.random.default_rng(seed + 9).normal(size=3)), np.array([0.3, -1.0, 0.7])
    pose = transform(R, shift)
    same(body(mass, where).moved(pose), body(mass, where @ R.T + shift))
    same(body(mass, where).moved(pose).moved(inverse(pose)), body(mass, where))
    more = points(seed + 50)
    same(merged([body(mass, where), body(*more)]), body(np.append(mass, more[0]), np.vstack((where, more[1]))))
    centre = mass @ where / mass.sum()
    same(Inertia.at_centre_of_mass(mass.sum(), centre, body(mass, where - centre).matrix), body(mass, where))
    found = body(mass, where).standard()
    J = body(mass, where).matrix
    wanted = {
        "XX": J[0, 0], "XY": J[0, 1], "XZ": J[0, 2], "YY": J[1, 1], "YZ": J[1, 2], "ZZ": J[2, 2],
        **dict(zip(("MX", "MY", "MZ"), mass @ where, strict=True)), "M": mass.sum(),
    }  # fmt: skip
    assert found == pytest.approx(wanted) and body(mass, where).fault() is None
    assert merged([]).standard() == dict.fromkeys(wanted, 0.0)


@pytest.mark.parametrize(
    ("moments", "fault"),
    [
        ((1.0, 1.0, 1.0), None),
        ((1.0, 1.0, 2.0), None),  # a disc
        ((1.0, 1.0, 2.0 + 1e-6), None),
        ((1.0, 1.0, 2.0 + 1e-5), "triangle"),
        ((2.0 + 1e-5, 1.0, 1.0), "triangle"),
        ((0.0, 1.0, 1.0), None),  # a rod
        ((-1e-7, 1.0, 1.0), None),
        ((-1e-5, 1.0, 1.0), "negative"),
        ((1.0, -1e-5, 1.0), "negative"),
    ],
)
@pytest.mark.parametrize("centre", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.1)])
def test_bodies_that_cannot_be(moments, fault, centre):
    found = Inertia.at_centre_of_mass(2.0, np.array(centre), np.diag(moments)).fault()
    assert (found is None) == (fault is None) and (fault is None or fault in found)


def test_bodies_without_mass():
    assert Inertia(0.0, np.zeros(3), np.zeros((3, 3))).fault() is None
    assert Inertia(0.0, np.zeros(3), np.diag([0.0, 0.1, 0.0])).fault() == "inertia without mass"
