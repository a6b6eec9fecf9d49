# SPDX-License-Identifier: Apache-2.0

"""Arms whose axes lie on a grid, where every tie of the table's rules is met; and which of two wishes counts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mdh import Axis, mdh_table, mdh_transform, snap_axes
from ros2_dynid.model.robot import Joint, Passive
from ros2_dynid.model.same_robot import check_same_robot
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


# --- names and ends


def arm(name="seven", tools=True):
    return urdf(
        *(link(f"l{k}") for k in range(4)),
        link("flange"),
        link("bracket"),
        joint("j1", "l0", "l1", xyz="0 0 0.3"),
        joint("j2", "l1", "l2", xyz="0.4 0 0", axis="0 1 0"),
        joint("j3", "l2", "l3", xyz="0.2 0 0", axis="0 1 0"),
        joint("on", "l1", "bracket", type="fixed", xyz="0 0.1 0"),
        joint("end", "l3", "flange", type="fixed", xyz="0.1 0 0"),
        name=name,
    )


def test_a_robot_has_its_urdfs_name():
    assert robot_from_urdf_string(arm("seven")).name == "seven"
    assert robot_from_urdf_string(arm().replace(' name="seven"', "")).name == "robot"
    assert robot_from_urdf_string(arm("")).name == "robot"


def test_tools_are_the_links_behind_the_last_joints():
    robot = robot_from_urdf_string(arm())
    assert {name: number for name, (number, _) in robot.tools.items()} == {"l3": 3, "flange": 3}
    pose = robot.tools["flange"][1]
    np.testing.assert_allclose(pose[:3, 3] - robot.tools["l3"][1][:3, 3], pose[:3, :3] @ [0.1, 0.0, 0.0], atol=1e-12)
    assert list(robot_from_urdf_string(arm(), tip_link="bracket").tools) == ["bracket"]
    assert robot_from_urdf_string(arm(), tip_link="bracket").tools["bracket"][0] == 1
    assert [j.name for j in robot_from_urdf_string(arm(), tip_link="bracket").joints] == ["j1"]
    two = robot_from_urdf_string(
        arm().replace("</robot>", joint("j4", "bracket", "finger") + link("finger") + "</robot>")
    )
    wanted = {name: two.active_names.index(carrier) + 1 for name, carrier in
              (("l3", "j3"), ("flange", "j3"), ("finger", "j4"))}  # fmt: skip
    assert {name: number for name, (number, _) in two.tools.items()} == wanted, "every branch has its own end"


def test_the_shape_of_a_friction_term():
    assert FrictionTerm(1, FrictionKind.STRIBECK, 1.0, speed=0.3).shape == 0.3
    assert FrictionTerm(1, FrictionKind.POWER, 1.0, exponent=0.7).shape == 0.7
    assert FrictionTerm(1, FrictionKind.CUBIC, 1.0).shape == 0.0


# --- which of two wishes counts


@pytest.fixture
def files(tmp_path):
    """Return a writer of robot files beside arm.urdf, in a folder that is not the present one."""
    folder = tmp_path / "robots"
    folder.mkdir()
    (folder / "arm.urdf").write_text(arm())

    def write(text, name="r.yaml"):
        (folder / name).write_text(text)
        return folder / name

    return write


def test_what_is_asked_for_counts_before_what_the_file_says(files):
    file = files("urdf: arm.urdf\nbase_link: l1\ntip_link: l3\nhold: {j1: 0.5}\n")
    assert [j.name for j in load_robot(file).joints] == ["j2", "j3"]
    assert [j.name for j in load_robot(file, base_link="l2").joints] == ["j3"]
    assert [j.name for j in load_robot(file, tip_link="l2").joints] == ["j2"]
    assert [j.name for j in load_robot(file, hold={"j3": 0.0}).joints] == ["j2"]
    held = files("urdf: arm.urdf\nhold: {j1: 0.5, j3: 0.25}\n", "held.yaml")
    for given, wanted in ((None, 0.5), ({"j1": -0.7}, -0.7)):
        robot = load_robot(held, hold=given)
        assert [j.name for j in robot.joints] == ["j2"]
        axis = robot.base[:3, :3] @ mdh_transform(robot.joints[0])[:3, 2]
        np.testing.assert_allclose(axis, [-np.sin(wanted), np.cos(wanted), 0.0], atol=1e-12)


def test_limits_that_a_robot_file_names_lie_beside_it(files):
    files(
        "joint_limits: {j2: {max_acceleration: 3.5, min_position: -1.25, max_position: 0.75, max_effort: 9}}\n",
        "l.yaml",
    )
    file = files("urdf: arm.urdf\njoint_limits: l.yaml\n")
    own = load_robot(file).joints[1].limits
    assert (own.lower, own.upper, own.velocity, own.acceleration, own.effort) == (-1.25, 0.75, 2.0, 3.5, 9.0)
    more = files("joint_limits: {j2: {max_acceleration: 1.5}}\n", "more.yaml")
    assert load_robot(file, joint_limits=more).joints[1].limits.acceleration == 1.5


def test_limits_for_moveit(files):
    robot = robot_from_urdf_string(arm())
    for flag, entry, changed in (
        ("position", "min_position: -1, max_position: 1.5", {"lower": -1.0, "upper": 1.5}),
        ("velocity", "max_velocity: 0.5", {"velocity": 0.5}),
        ("acceleration", "max_acceleration: 0.25", {"acceleration": 0.25}),
        ("effort", "max_effort: 7", {"effort": 7.0}),
    ):
        before = robot.joints[1].limits
        for has, counts in (("", True), (f", has_{flag}_limits: true", True), (f", has_{flag}_limits: false", False)):
            file = files(f"joint_limits: {{j2: {{{entry}{has}}}}}\n", "l.yaml")
            joints = with_joint_limits(robot, file).joints
            for kind in ("lower", "upper", "velocity", "acceleration", "effort"):
                wanted = changed.get(kind, getattr(before, kind)) if counts else getattr(before, kind)
                assert getattr(joints[1].limits, kind) == wanted
            assert joints[0] == robot.joints[0] and joints[2] == robot.joints[2]
    lone = files("joint_limits: {j2: {has_position_limits: true, max_position: 1.0}}\n", "l.yaml")
    assert with_joint_limits(robot, lone).joints[1].limits.lower == -3.0
    for wrong in ("min_position: 4", "max_position: -3.5", "min_position: 2, max_position: 1"):
        with pytest.raises(InputError, match="min_position > max_position"):
            with_joint_limits(robot, files(f"joint_limits: {{j2: {{{wrong}}}}}\n", "l.yaml"))
    for wrong in ("max_velocity: 0", "max_acceleration: -1", "max_effort: 0"):
        with pytest.raises(InputError, match="give a positive number"):
            with_joint_limits(robot, files(f"joint_limits: {{j2: {{{wrong}}}}}\n", "l.yaml"))
    for wrong in ("max_velocity: true", "max_velocity: .inf", "max_velocity: fast", "min_position: .nan"):
        with pytest.raises(InputError, match="give a finite number"):
            with_joint_limits(robot, files(f"joint_limits: {{j2: {{{wrong}}}}}\n", "l.yaml"))
    inner = "robot_description_planning: {joint_limits: {j1: {max_velocity: 1}}}"
    wrapped = files(f"/**: {{ros__parameters: {{{inner}}}}}\n", "l.yaml")
    assert with_joint_limits(robot, wrapped).joints[0].limits.velocity == 1.0
    two = files(f"a: {{{inner}}}\nb: {{{inner}}}\n", "l.yaml")
    with pytest.raises(InputError, match="no mapping joint_limits"):
        with_joint_limits(robot, two)


@pytest.mark.parametrize("name", ["", "  ", "demo3\0", "a\0.urdf"])
def test_what_is_no_name_of_a_robot(name):
    with pytest.raises(InputError, match="is not a robot"):
        load_robot(name)


def test_followers_of_a_urdf_stay_beside_those_of_the_file(files):
    mimic = '<mimic joint="j1" multiplier="-0.5" offset="0.2"/>'
    (files("", "x").parent / "arm.urdf").write_text(
        arm().replace('<joint name="j2" type="revolute">', f'<joint name="j2" type="revolute">{mimic}')
    )
    plain = load_robot(files("urdf: arm.urdf\n"))
    assert [(p.joint, dict(p.terms), p.offset) for p in plain.passive] == [(2, {1: -0.5}, 0.2)]
    both = load_robot(files("urdf: arm.urdf\npassive: {j3: {j1: 2.0, offset: -0.1}}\n"))
    assert [(p.joint, dict(p.terms), p.offset) for p in both.passive] == [(2, {1: -0.5}, 0.2), (3, {1: 2.0}, -0.1)]
    other = load_robot(files("urdf: arm.urdf\npassive: {j2: {j3: 1.5}}\n"))
    assert [(p.joint, dict(p.terms), p.offset) for p in other.passive] == [(2, {3: 1.5}, 0.0)]


def test_nobody_changes_a_robot():
    robot = robot_from_urdf_string(arm())
    for values in (robot.gravity, robot.base, robot.tools["flange"][1]):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


def test_forces_name_joints_that_there_are():
    robot = robot_from_urdf_string(arm())
    spring = Force("s", ForceKind.SPRING, (1,), {2: 1.0})
    assert replace(robot, forces=(spring,)).forces == (spring,)
    base = Force("c", ForceKind.CYLINDER, (0, 1), pivots=(Pivot(0, (0.0, 0.0, 1.0)), Pivot(3, (0.0, 0.0, 0.0))))
    assert replace(robot, forces=(base,)).forces == (base,)
    for wrong, number in (({0: 1.0}, 0), ({4: 1.0}, 4), ({1: 1.0, 0: -1.0}, 0)):
        with pytest.raises(InputError, match=f"names joint {number}"):
            replace(robot, forces=(replace(spring, weights=wrong),))
    with pytest.raises(InputError, match="names joint 4"):
        replace(robot, forces=(replace(base, pivots=(Pivot(0, (0.0, 0.0, 1.0)), Pivot(4, (0.0, 0.0, 0.0)))),))


@pytest.mark.parametrize(
    ("sensor", "kept"), [("motor", "Ia Fv Fc"), ("link", ""), ("link+Fc", "Fc"), ("link+Ia+Fv", "Ia Fv")]
)
def test_values_of_what_an_effort_does_not_hold_are_dropped(files, sensor, kept):
    values = "{Ia1: 0.1, Fv1: 0.2, Fc1: 0.3, off1: 0.4, Ia2: 0.5, Fv2: 0.6, Fc2: 0.7, off2: 0.8, M2: 0.9}"
    robot = load_robot(files(f"urdf: arm.urdf\njoints: [{{name: j2, sensor: {sensor}}}]\nparameters: {values}\n"))
    assert [joint.measured_drive for joint in robot.joints] == [
        ("Ia", "Fv", "Fc"),
        tuple(kept.split()),
        ("Ia", "Fv", "Fc"),
    ]
    wanted = {"Ia1": 0.1, "Fv1": 0.2, "Fc1": 0.3, "off1": 0.4, "off2": 0.8, "M2": 0.9}
    wanted |= {f"{part}2": value for part, value in (("Ia", 0.5), ("Fv", 0.6), ("Fc", 0.7)) if part in kept.split()}
    assert robot.parameters == wanted


def test_a_robot_with_one_more_follower_is_another_one():
    robot = robot_from_urdf_string(arm())
    more = replace(robot, joints=(*robot.joints, Joint("extra", 3)), passive=(Passive(4, {1: 1.0}),))
    assert more.active_names == robot.active_names
    for pair in ((robot, more), (more, robot)):
        with pytest.raises(InputError, match="other coupled motors or closed loops"):
            check_same_robot(*pair, "model.yaml")
    check_same_robot(more, replace(more, name="of another name"), "model.yaml")


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


@pytest.mark.parametrize("name", ["arm", "arm.txt", "arm.model"])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \n\t", "utf-16"])
def test_a_urdf_is_known_by_its_text_where_its_name_does_not_tell(tmp_path, name, before):
    text = arm()
    plain = text.replace('<?xml version="1.0"?>', "")
    data = text.encode("utf-16") if before == "utf-16" else before + plain.encode()
    (tmp_path / name).write_bytes(data)
    assert load_robot(tmp_path / name).active_names == ("j1", "j2", "j3")


@pytest.mark.parametrize("text", ["joints: []", "{}", "", "# <robot>"])
def test_what_is_neither_a_urdf_nor_a_robot_file_is_refused(tmp_path, text):
    (tmp_path / "arm.txt").write_text(text)
    with pytest.raises(InputError, match="neither a URDF nor a robot file"):
        load_robot(tmp_path / "arm.txt")
