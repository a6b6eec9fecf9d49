# SPDX-License-Identifier: Apache-2.0

"""Modified Denavit-Hartenberg frames of a tree of axes in space (Khalil and Kleinfinger)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from named_robots import cylinder
from oracle import screw
from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.inertia import Inertia, merged
from ros2_dynid.model.mdh import (
    FAR_SINE,
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
    snap_axes,
    transform,
)
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Joint
from ros2_dynid.model.robot_file import robot_from_dict
from urdf_text import joint, link, urdf

WAYS = [np.array(way, dtype=float) for way in np.vstack((np.eye(3), -np.eye(3)))]


MARGIN = 0.1


def grid_axes(seed, shift=(0.0, 0.0, 0.0)):
    """Return a tree of six axes along coordinate directions through points of a grid, moved by `shift`."""
    rng = np.random.default_rng(seed)
    parents = [0, *(int(rng.integers(max(0, k - 2), k + 1)) or 1 for k in range(1, 6))]
    return [
        Axis(parent, WAYS[rng.integers(6)], rng.integers(-2, 3, 3).astype(float) + np.array(shift))
        for parent in parents
    ]


@pytest.mark.parametrize("seed", range(60))
def test_tables_of_axes_on_a_grid(seed):
    axes = grid_axes(seed)
    reference = next(way for way in WAYS if abs(way @ axes[0].direction) < 0.5)
    rows, frames = mdh_table(axes, reference)
    for number, (axis, row) in enumerate(zip(axes, rows, strict=True), start=1):
        step = mdh_transform(Joint("j", 0, 0, row.gamma, row.b, row.alpha, row.d, row.theta, row.r))
        np.testing.assert_allclose(frames[axis.parent] @ step, frames[number], atol=1e-12)
        np.testing.assert_array_equal(frames[number][:3, 2], axis.direction)
        off = frames[number][:3, 3] - axis.point
        np.testing.assert_allclose(np.cross(off, axis.direction), 0.0, atol=1e-12)
        for angle in (row.gamma, row.theta):
            assert -math.pi / 2 + MARGIN < angle <= math.pi / 2 + MARGIN
        assert -math.pi < row.alpha <= math.pi
        assert row.alpha in (0.0, math.pi / 2, math.pi, -math.pi / 2), "exact"
        for angle in (row.gamma, row.theta):  # of parallel axes any, but a right angle is exact
            right = round(angle / (math.pi / 2)) * (math.pi / 2)
            assert angle == right or abs(angle - right) > 0.1
        for length in (row.b, row.d, row.r):
            assert length == 0.0 or abs(length) > 0.2
    children = {axis.parent: [k for k, a in enumerate(axes, 1) if a.parent == axis.parent] for axis in axes}
    for parent, carried in children.items():
        if parent:
            assert (rows[carried[0] - 1].gamma, rows[carried[0] - 1].b) == (0.0, 0.0), "the first child's normal is x"
    np.testing.assert_array_equal(frames[0], frames[1])


@pytest.mark.parametrize("seed", range(0, 60, 4))
@pytest.mark.parametrize("shift", [(-1003.0, -2003.0, -3001.0), (0.37, -0.61, 0.13), (1001.7, 12.3, -9.9)])
def test_the_table_does_not_depend_on_where_the_robot_stands(seed, shift):
    axes = grid_axes(seed)
    reference = next(way for way in WAYS if abs(way @ axes[0].direction) < 0.5)
    here, _ = mdh_table(axes, reference)
    there, _ = mdh_table(grid_axes(seed, shift), reference)
    values = np.array([[(r.gamma, r.b, r.alpha, r.d, r.theta, r.r) for r in rows] for rows in (here, there)])
    np.testing.assert_allclose(values[1], values[0], atol=1e-9)
    np.testing.assert_array_equal(values[1] == 0.0, values[0] == 0.0)


@pytest.mark.parametrize("tilt", [-0.09, 0.0, 0.09])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_right_angle_but_for_a_little_keeps_its_side(tilt, side):
    """theta is about +90 deg, whichever way the normal points: -90 deg is its other side."""
    turned = np.array([np.cos(side * math.pi / 2 + tilt), np.sin(side * math.pi / 2 + tilt), 0.0])
    z, x = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    axes = [Axis(0, z, np.zeros(3)), Axis(1, z, 1.0 * x), Axis(2, z, 1.0 * x + 0.5 * turned)]
    rows, _ = mdh_table(axes, x)
    assert rows[1].theta == pytest.approx(math.pi / 2 + tilt) and rows[1].d == pytest.approx(1.0)
    assert rows[2].d == pytest.approx(0.5 * side)


def test_joints_of_the_base_are_aligned_with_the_first_before_the_vertical():
    up, first = np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.0, math.sqrt(0.75)])
    across = np.array([0.0, 1.0, 0.0]) + 4e-6 * first + 3e-6 * up
    across /= np.linalg.norm(across)
    along = -first + 5e-6 * np.array([0.0, 1.0, 0.0])
    along /= np.linalg.norm(along)
    axes = [Axis(0, way, np.zeros(3)) for way in (first, across, along)]
    snapped, changes = snap_axes(axes, up)
    np.testing.assert_array_equal(snapped[0].direction, first)
    assert abs(snapped[1].direction @ first) < 1e-15 and abs(snapped[1].direction @ up) > 1e-7
    np.testing.assert_array_equal(snapped[2].direction, -first)
    assert list(changes) == [2, 3] and changes[3] == pytest.approx(5e-6, rel=1e-3)
    upright, _ = snap_axes([Axis(0, up + 4e-6 * first, np.zeros(3))], up)
    np.testing.assert_array_equal(upright[0].direction, up)
    tilted, none = snap_axes([Axis(0, first, np.zeros(3)), Axis(1, along, np.zeros(3))], up)
    np.testing.assert_array_equal(tilted[1].direction, -first)
    assert list(none) == [2]


@pytest.mark.parametrize(("tilt", "far"), [(0.0009, False), (0.0011, True), (-0.0009, False), (-0.0011, True)])
def test_frames_are_not_put_where_nearly_parallel_axes_meet_far_away(tilt, far):
    """Below a thousandth the common normal is a kilometre away: the frames stay near, and the table is as true."""
    lean = np.array([0.0, math.sin(tilt), math.cos(tilt)])
    axes = [Axis(0, np.array([0.0, 0.0, 1.0]), np.zeros(3)), Axis(1, lean, np.array([1.0, 1.0, 0.0]))]
    rows, frames = mdh_table(axes, np.array([1.0, 0.0, 0.0]))
    assert (np.abs(frames[:, :3, 3]).max() > 100.0) == far
    if far:
        assert frames[1][2, 3] == pytest.approx(-math.cos(tilt) / math.sin(tilt))
    for number, row in enumerate(rows, start=1):
        step = mdh_transform(Joint("j", 0, 0, row.gamma, row.b, row.alpha, row.d, row.theta, row.r))
        np.testing.assert_allclose(frames[number - 1] @ step, frames[number], atol=1e-9)


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


JOINTS = [{"name": f"j{k}", "d": 0.1 * k} for k in (1, 2, 3)]


def robot(**more):
    return robot_from_dict({"joints": JOINTS, **more}, "x.yaml")


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
