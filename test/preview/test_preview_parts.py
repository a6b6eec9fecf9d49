# SPDX-License-Identifier: Apache-2.0

"""Parts of the preview in figures: sticks, colours, meshes that are joined, samples of a motion."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import Caps, bounds_of, use_by_joint
from ros2_dynid.excitation.obstacles import Obstacle
from ros2_dynid.excitation.static import approach
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mesh_file import Mesh
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Passive, Robot
from ros2_dynid.preview.bodies import colour_of, named_colours, read_rgba, sticks
from ros2_dynid.preview.meshes import indexed
from ros2_dynid.preview.scene import (
    appearance,
    moment_of_least,
    motion_data,
    names_of,
    sampled_path,
    scene,
    skeleton_of,
)

ROBOT = load_robot("demo3")


# --- sticks


def test_a_robot_of_a_table_is_drawn_by_its_axes_and_ways():
    slider = Joint("slide", 1, alpha=np.pi / 2, d=0.4, sigma=PRISMATIC)
    robot = Robot("r", (Joint("turn", 0, d=0.0), slider, Joint("hand", 2, d=0.3, r=0.4)))
    bodies = sticks(robot)
    T = np.concatenate((np.eye(4)[None], frames(robot, np.zeros((1, 3)))[0]))
    reach = np.linalg.norm(T[1:, :3, 3], axis=1).max()
    thick = 0.025 * reach
    axes = {b.link: b for b in bodies if b.kind == "cylinder"}
    assert list(axes) == ["turn", "slide", "hand"] and [b.joint for b in axes.values()] == [1, 2, 3]
    for name, b in axes.items():
        wanted = (1.1 * thick, 7.0 * thick) if name == "slide" else (1.6 * thick, 5.0 * thick)
        assert b.size == pytest.approx(wanted) and np.array_equal(b.pose, np.eye(4))
    assert axes["slide"].colour != axes["turn"].colour == axes["hand"].colour
    ways = [b for b in bodies if b.kind == "capsule"]
    assert [(b.link, b.joint) for b in ways] == [("turn", 1), ("slide", 2)], "the base has its first joint in it"
    for b, child in zip(ways, (2, 3), strict=True):
        local = np.linalg.inv(T[b.joint]) @ T[child]
        way = local[:3, 3]
        assert b.size == pytest.approx((thick, np.linalg.norm(way)))
        np.testing.assert_allclose(b.pose[:3, 3], way / 2, atol=1e-12)
        np.testing.assert_allclose(b.pose[:3, 2], way / np.linalg.norm(way), atol=1e-12)
        np.testing.assert_allclose(b.pose[:3, :3] @ b.pose[:3, :3].T, np.eye(3), atol=1e-12)
        assert np.linalg.det(b.pose[:3, :3]) == pytest.approx(1.0)
    tool = np.eye(4)
    tool[2, 3] = 0.2
    with_tool = sticks(replace(robot, tools={"flange": (3, tool)}))
    assert with_tool[-1].link == "flange" and with_tool[-1].size[1] == pytest.approx(0.2)


# --- colours


def material(text):
    return ElementTree.fromstring(f"<visual>{text}</visual>")


def test_colours():
    rgba = '<material name="x"><color rgba="{}"/></material>'
    for text, wanted in (
        ("0.1 0.2 0.3 0.4", (0.1, 0.2, 0.3, 0.4)), ("2 -1 0.5 0", (1.0, 0.0, 0.5, 0.1)), ("1 2 3", None),
        ("1 2 3 nan", None), ("a b c d", None), ("", None),
    ):  # fmt: skip
        assert read_rgba(ElementTree.fromstring(rgba.format(text))) == wanted
    assert read_rgba(ElementTree.fromstring("<material/>")) is None
    root = ElementTree.fromstring(f"<robot>{rgba.format('0 1 0 1')}<material name='none'/></robot>")
    named = named_colours(root)
    assert named == {"x": (0.0, 1.0, 0.0, 1.0)}
    assert colour_of(material('<material name="x"/>'), named) == (0.0, 1.0, 0.0, 1.0)
    assert colour_of(material(rgba.format("1 0 0 1")), named) == (1.0, 0.0, 0.0, 1.0), "its own comes first"
    assert colour_of(material(""), named) is None and colour_of(material('<material name="y"/>'), named) is None


# --- meshes


def sheet(n):
    """A flat sheet of 2 n^2 triangles."""
    x, y = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), indexing="ij")
    points = np.stack((x, y, 0 * x), axis=-1)
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[:-1, 1:], points[1:, 1:]
    return np.concatenate(
        (np.stack((a, b, d), axis=2).reshape(-1, 3, 3), np.stack((a, d, c), axis=2).reshape(-1, 3, 3))
    )


def test_corners_at_the_same_place_are_one_and_what_is_flat_is_left_out():
    triangles = sheet(4)
    flat = np.stack([triangles[0, [0, 0, 1]], triangles[0, [0, 1, 1]], triangles[0, [1, 0, 1]]])
    mesh = indexed(np.concatenate((triangles, flat)))
    assert mesh.vertices.shape == (25, 3) and mesh.triangles.shape == (32, 3)
    corners = {tuple(map(tuple, np.sort(t, axis=0))) for t in triangles}
    assert {tuple(map(tuple, np.sort(mesh.vertices[t], axis=0))) for t in mesh.triangles} == corners
    near = triangles + 1e-8 * np.random.default_rng(0).uniform(-1, 1, triangles.shape)
    assert len(indexed(near).vertices) == 25 and len(indexed(1e-3 * triangles - 7.0).vertices) == 25


# --- motions


def test_samples_of_a_motion_are_those_of_the_planner():
    move = approach(ROBOT, [0.0, -0.5, 0.0], [0.6, 0.3, -0.4])
    order = [2, 0, 1]
    turned = Trajectory(tuple(ROBOT.active_names[k] for k in order), move.curve.mapped(np.eye(3)[order], np.zeros(3)))
    look = appearance(ROBOT)
    found = motion_data(ROBOT, turned, look)
    count = int(np.ceil(50.0 * move.duration)) + 1
    assert found.q.shape == (count, 3) and found.duration == move.duration
    np.testing.assert_allclose(found.t, np.linspace(0.0, move.duration, count))
    q, dq, ddq = move.curve.evaluate(found.t)
    for mine, theirs in ((found.q, q), (found.dq, dq), (found.ddq, ddq)):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    np.testing.assert_allclose(found.tau, inverse_dynamics(ROBOT, standard_vector(ROBOT), q, dq, ddq), atol=1e-6)
    bounds = bounds_of(ROBOT, 0.0)
    for name in ("lower", "upper", "velocity", "acceleration", "effort"):
        np.testing.assert_array_equal(getattr(found, name), getattr(bounds, name))
    for kind, used in use_by_joint(ROBOT, move.curve, bounds, standard_vector(ROBOT)).items():
        np.testing.assert_allclose(found.use[kind], used, rtol=1e-9)
    T = frames(ROBOT, q)
    for k, tip in enumerate(look.tips):
        point = T[:, tip.joint - 1, :3, :3] @ tip.point + T[:, tip.joint - 1, :3, 3]
        np.testing.assert_allclose(found.path[:, k], point, atol=1e-9)
    again, path = sampled_path(look, lambda t: move.curve.evaluate(t)[0], move.duration, lambda q: frames(ROBOT, q))
    np.testing.assert_allclose(again, q, atol=1e-9)
    np.testing.assert_allclose(path, found.path, atol=1e-9)
    assert found.nearest is None and moment_of_least(found) is None
    shown = scene(ROBOT, move, look)
    assert any("no collision shapes" in str(note) for note in shown.notes)
    assert not any("no masses" in str(note) for note in shown.notes)


def test_limits_of_a_loop_are_those_of_its_active_joints_with_the_caps_asked_for():
    own = [Limits(-2.0 - k, 2.0 + k, 1.0 + k, 4.0 + k, 50.0 + k) for k in range(3)]
    joints = tuple(replace(joint, limits=limits) for joint, limits in zip(ROBOT.joints, own, strict=True))
    loop = replace(ROBOT, joints=joints, passive=(Passive(2, {1: 0.5}, 0.1),))
    move = approach(loop, [0.0, 0.0], [0.3, -0.2])
    look = appearance(loop)
    caps = Caps(velocity=0.9, acceleration=3.5, effort=20.0)
    for given, velocity, acceleration, effort in (
        (None, [1.0, 3.0], [4.0, 6.0], [50.0, 52.0]),
        (caps, [0.9, 0.9], [3.5, 3.5], [20.0, 20.0]),
    ):
        found = motion_data(loop, move, look, given)
        assert (found.velocity.tolist(), found.acceleration.tolist()) == (velocity, acceleration)
        assert (found.lower.tolist(), found.upper.tolist()) == ([-2.0, -4.0], [2.0, 4.0])
        assert found.effort.tolist() == effort and found.tau.shape == found.q.shape == (len(found.q), 2)
        assert {len(used) for used in found.use.values()} == {2}
        assert found.use["velocity"] == pytest.approx(np.abs(found.dq).max(axis=0) / velocity, rel=0.02)
        assert found.use["effort"] == pytest.approx(np.abs(found.tau).max(axis=0) / effort, rel=0.02)
    free = replace(loop, joints=tuple(replace(j, limits=Limits(effort=7.0 + k)) for k, j in enumerate(joints)))
    assert motion_data(free, move, appearance(free)).effort.tolist() == [7.0, 9.0]


def test_a_joint_that_only_robot_or_trajectory_has_is_named():
    move = approach(ROBOT, [0.0, -0.5, 0.0], [0.6, 0.3, -0.4])
    names = ROBOT.active_names
    for own, told in (((*names[:2], "zz"), names[2]), ((names[0], "zz", names[2]), names[1]), (("0", *names[1:]), "0")):
        with pytest.raises(InputError, match=f"joint '{told}' is in the trajectory or in the robot, but not in both"):
            scene(ROBOT, Trajectory(own, move.curve), appearance(ROBOT))


def test_robots_without_masses_limits_or_gravity():
    bare = replace(ROBOT, parameters={}, gravity=np.zeros(3))
    move = approach(ROBOT, [0.0, -0.5, 0.0], [0.6, 0.3, -0.4])
    look = appearance(bare)
    assert list(look.up) == [0.0, 0.0, 1.0]
    assert list(appearance(replace(ROBOT, gravity=np.array([0.0, 4.0, 0.0]))).up) == [0.0, -1.0, 0.0]
    found = scene(bare, move, look)
    assert found.motion.tau.shape[1] == 0 and any("no masses" in str(note) for note in found.notes)
    unlimited = replace(
        bare, joints=tuple(replace(j, limits=Limits(effort=7.0 + k)) for k, j in enumerate(bare.joints))
    )
    found = scene(unlimited, move, appearance(unlimited))
    assert any("some limits are not known" in str(note) for note in found.notes)
    assert list(found.motion.effort) == [7.0, 8.0, 9.0] and np.isinf(found.motion.velocity).all()


def test_the_kinematics_of_the_page_are_the_robots():
    robot = load_robot("hitachi_hpr")
    bones = skeleton_of(robot)
    q = np.random.default_rng(0).normal(size=len(robot.active))
    every = bones.G @ q + bones.offset
    T = [bones.base]
    for link, x in zip(bones.links, every, strict=True):
        c, s = np.cos(x), np.sin(x)
        move = np.eye(4)
        if link.prismatic:
            move[2, 3] = x
        else:
            move[:2, :2] = [[c, -s], [s, c]]
        T.append(T[link.parent] @ link.zero @ move)
    np.testing.assert_allclose(np.array(T[1:]), frames(robot, q[None])[0], atol=1e-9)


def test_parts_of_a_pair_in_words():
    class Named:
        links, planes = ("arm", "hand"), np.zeros((2, 4))
        obstacles = (Obstacle("table", "sphere", (1.0,), np.eye(4)),)

    assert names_of(Named, 1, -3) == ("hand", "table")
    assert names_of(Named, 0, 1) == ("arm", "hand") and names_of(Named, 1, 0) == ("hand", "arm")
    assert names_of(Named, 1, -1) == ("hand", "plane 1") and names_of(Named, 1, -2) == ("hand", "plane 2")
    assert Mesh(np.zeros((1, 3)), np.zeros((0, 3), int)).colour is None
