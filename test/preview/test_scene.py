# SPDX-License-Identifier: Apache-2.0

"""The scene of a motion against Pinocchio's kinematics and against the planner's own numbers."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from excitation_robots import example_urdf, three_dof
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.collision import clearance, nearest
from ros2_dynid.excitation.limits import bounds_of, known_parameters, use_of
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.mesh_file import Mesh, MeshError
from ros2_dynid.preview import bodies
from ros2_dynid.preview.bodies import TRIANGLES, urdf_bodies
from ros2_dynid.preview.meshes import GREY, decimated, indexed
from ros2_dynid.preview.packing import packed_scene
from ros2_dynid.preview.page import preview_page
from ros2_dynid.preview.scene import appearance, moment_of_least, scene
from ros2_dynid.usecases.plan import Surroundings
from ros2_dynid.usecases.preview import robot_appearance, scene_of
from ros2_dynid.usecases.robot_source import RobotSource
from urdf_oracle import PinUrdf, exact_urdf
from urdf_text import joint, link, urdf

UR5 = "ur_description/urdf/ur5_robot.urdf"
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def motion(robot, seconds=4.0, size=0.6, at=None):
    t = np.linspace(0, seconds, 21)
    shape = (1 - np.cos(2 * np.pi * t / seconds)) / 2
    start = np.zeros(len(robot.active)) if at is None else np.array(at)
    way = size * np.linspace(1.0, -1.0, len(robot.active))
    dq = np.pi / seconds * np.sin(2 * np.pi * t / seconds)[:, None] * way
    dq[[0, -1]] = 0.0
    return Trajectory(robot.active_names, through_points(t, start + shape[:, None] * way, dq))


def boxed(visual="", collision="", name="test"):
    shape = '<{0}><geometry><box size="0.1 0.1 0.4"/></geometry></{0}>'
    body = link("arm", np.random.default_rng(0)).replace("</link>", f"{visual}{collision}</link>")
    return urdf(link("base"), body, joint("turn", "base", "arm"), name=name), shape


# --- kinematics


@pytest.mark.parametrize(
    ("path", "chain"),
    [
        (UR5, {}),
        ("panda_description/urdf/panda.urdf", {}),
        ("tiago_description/robots/tiago.urdf", {"base_link": "torso_lift_link", "tip_link": "arm_tool_link"}),
    ],
)
def test_bodies_lie_where_pinocchio_has_them(path, chain):
    pin = pytest.importorskip("pinocchio")
    file = example_urdf(path)
    robot = RobotSource(str(file), **chain).load()
    bodies, notes = urdf_bodies(robot, file, base_link=chain.get("base_link"), tip_link=chain.get("tip_link"))
    assert not notes
    assert sum(body.mesh is not None for body in bodies) > 5
    assert sum(len(body.mesh.triangles) for body in bodies if body.mesh is not None) <= 1.1 * TRIANGLES
    theirs = PinUrdf(exact_urdf(file.read_bytes()), robot)
    shapes = pin.buildGeomFromUrdf(theirs.model, str(file), pin.GeometryType.VISUAL, [str(file.parents[4])])
    rng = np.random.default_rng(1)
    q = rng.uniform(-1, 1, (1, len(robot.active)))
    T = np.concatenate((np.eye(4)[None], frames(robot, q)[0]))
    root = theirs.link(chain["base_link"], q[0]) if chain else np.eye(4)
    data = shapes.createData()
    pin.updateGeometryPlacements(theirs.model, theirs.data, shapes, data, theirs.position(q[0]))
    placed = {}
    for shape, pose in zip(shapes.geometryObjects, data.oMg, strict=True):
        name = theirs.model.frames[shape.parentFrame].name
        placed.setdefault(name, []).append(np.linalg.inv(root) @ pose.homogeneous)
    checked = 0
    for body in bodies:
        ours = T[body.joint] @ body.pose
        if body.link in placed:
            assert min(np.abs(ours - other).max() for other in placed[body.link]) < 1e-6, body.link
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_shapes_of_a_follower_stand_on_its_frame_whatever_its_offset(kind, tmp_path):
    shape = '<visual><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/><geometry><sphere radius="0.1"/></geometry></visual>'
    found = []
    for inside in ("", '<mimic joint="j1" multiplier="2" offset="0.7"/>'):
        arms = [link(name, np.random.default_rng(3)).replace("</link>", shape + "</link>") for name in ("a", "b")]
        second = joint("j2", "a", "b", xyz="0.3 0 0.1", rpy="0.2 0 0.3", axis="0 1 0", type=kind, inside=inside)
        file = tmp_path / "r.urdf"
        file.write_text(urdf(link("base"), *arms, joint("j1", "base", "a", axis="0 1 0"), second))
        robot = robot_from_urdf_string(file.read_bytes())
        assert bool(robot.passive) == bool(inside)
        found.append(urdf_bodies(robot, file)[0])
    for free, follower in zip(*found, strict=True):
        assert (free.link, free.joint) == (follower.link, follower.joint)
        np.testing.assert_allclose(free.pose, follower.pose, atol=1e-12)


def with_meshes(tmp_path, material=""):
    """Return the URDF of two links that share a mesh, the second twice as large, and its robot."""
    (tmp_path / "m.dae").write_text("")
    visual = '<visual><geometry><mesh filename="m.dae" scale="{0} {0} {0}"/></geometry>' + material + "</visual>"
    parts = [
        link(name, np.random.default_rng(3)).replace("</link>", visual.format(size) + "</link>")
        for name, size in (("a", 1), ("b", 2))
    ]
    file = tmp_path / "r.urdf"
    file.write_text(urdf(link("base"), *parts, joint("j1", "base", "a"), joint("j2", "a", "b", xyz="0 0 1")))
    return file, robot_from_urdf_string(file.read_bytes())


def test_a_mesh_has_its_own_colour_before_the_urdfs_and_is_read_once(tmp_path, monkeypatch):
    triangle = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    red, read = (1.0, 0.0, 0.0, 1.0), []
    meshes = [replace(indexed(triangle), colour=red), indexed(triangle)]
    monkeypatch.setattr(bodies, "read_picture_meshes", lambda file: read.append(file) or meshes)
    blue = '<material name="x"><color rgba="0 0 1 1"/></material>'
    for material, other in ((blue, (0.0, 0.0, 1.0, 1.0)), ("", GREY)):
        read.clear()
        file, robot = with_meshes(tmp_path, material)
        found, notes = urdf_bodies(robot, file)
        assert [(b.link, b.colour) for b in found] == [("a", red), ("a", other), ("b", red), ("b", other)]
        assert [np.abs(b.mesh.vertices).max() for b in found] == [1.0, 1.0, 2.0, 2.0]
        assert notes == () and read == [tmp_path / "m.dae"]


@pytest.mark.parametrize("error", [MeshError("it is broken"), PermissionError("it is locked")])
def test_a_mesh_that_cannot_be_read_is_noted_for_all_its_links(tmp_path, monkeypatch, error):
    read = []

    def fail(file):
        read.append(file)
        raise error

    monkeypatch.setattr(bodies, "read_picture_meshes", fail)
    file, robot = with_meshes(tmp_path)
    found, notes = urdf_bodies(robot, file)
    assert found == [] and notes == (f"drawn without its mesh: a, b: {error}",) and len(read) == 1


def test_the_tip_path_is_pinocchios():
    file = example_urdf(UR5)
    robot, look = robot_appearance(RobotSource(str(file)), Surroundings())
    found = scene(robot, motion(robot), look)
    theirs = PinUrdf(exact_urdf(file.read_bytes()), robot)
    for k in (0, 37, 120):
        place = theirs.link(look.tips[0].link, found.motion.q[k])[:3, 3]
        np.testing.assert_allclose(found.motion.path[k, 0], place, atol=1e-6)
        torque = theirs.torque(found.motion.q[k], found.motion.dq[k], found.motion.ddq[k])
        np.testing.assert_allclose(found.motion.tau[k], torque, atol=1e-6)


# --- the planner's numbers


def test_use_and_distances_are_the_planners():
    file = example_urdf(UR5)
    around = Surroundings(floor=-1.5, box=(-2, 2, -2, 2, -2, 2))
    robot, look = robot_appearance(RobotSource(str(file)), around)
    trajectory = motion(robot, at=[0, -1.2, 1.0, 0, 0, 0])
    found = scene(robot, trajectory, look)
    planners = use_of(robot, trajectory.curve, bounds_of(robot, 0.0), known_parameters(robot))
    assert {kind: pytest.approx(used.max()) for kind, used in found.motion.use.items()} == planners
    least, when = moment_of_least(found.motion)
    assert least == pytest.approx(clearance(robot, look.shapes, found.motion.q)[0])
    k = int(np.argmin(found.motion.nearest.distance))
    assert found.motion.t[k] == when


def test_nearest_points_are_that_far_apart():
    file = example_urdf(UR5)
    robot, look = robot_appearance(RobotSource(str(file)), Surroundings(floor=-0.4))
    q = np.random.default_rng(3).uniform(-2, 2, (60, 6))
    found = nearest(robot, look.shapes, q)
    gap = np.linalg.norm(found.p - found.r, axis=1)
    np.testing.assert_allclose(gap, np.abs(found.distance), atol=1e-9)
    assert (found.second < 0).any() and (found.second >= 0).any(), "pairs and the floor both come closest somewhere"
    for k in range(0, 60, 7):
        assert found.distance[k] == pytest.approx(clearance(robot, look.shapes, q[k : k + 1])[0], abs=1e-12)


def test_a_long_motion_stays_small_and_a_foreign_one_is_refused():
    robot = three_dof()
    look = appearance(robot)
    found = scene(robot, motion(robot, seconds=100.0), look)
    assert len(found.motion.q) == 2001
    assert len(look.bodies) >= 3, "sticks, since only a table is known"
    with pytest.raises(InputError, match="not in both"):
        scene(robot, Trajectory(("a", "b", "c"), motion(robot).curve), look)


# --- what it looks like


def test_a_robot_without_visuals_is_drawn_by_its_collision_shapes():
    text, shape = boxed()
    text = text.replace("</link><joint", shape.format("collision") + "</link><joint")
    _, look = robot_appearance(RobotSource(urdf=text), Surroundings())
    assert [body.kind for body in look.bodies] == ["box"]
    text, _ = boxed()
    _, look = robot_appearance(RobotSource(urdf=text), Surroundings())
    assert "cylinder" in [body.kind for body in look.bodies], "sticks where there is nothing"


def test_a_missing_mesh_is_a_note_and_the_rest_is_drawn(tmp_path):
    missing = '<visual><geometry><mesh filename="package://nowhere/arm.stl"/></geometry></visual>'
    text, _ = boxed(visual=missing + '<visual><geometry><sphere radius="0.1"/></geometry></visual>')
    found = scene_of(motion(RobotSource(urdf=text).load()), RobotSource(urdf=text), Surroundings())
    assert [body.kind for body in found.appearance.bodies] == ["sphere"]
    assert any("arm" in note and "not found" in note for note in found.notes)


def stl(path, count):
    """Write a binary STL of a wavy sheet with 2 count^2 triangles."""
    x, y = np.meshgrid(np.arange(count + 1.0), np.arange(count + 1.0), indexing="ij")
    points = np.stack((x, y, 5 * np.sin(x / 40) * np.cos(y / 50)), axis=2) / count
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    corners = np.stack((np.stack((a, b, c), axis=2), np.stack((a, c, d), axis=2)), axis=2).reshape(-1, 3, 3)
    record = np.zeros(len(corners), np.dtype([("n", "<f4", 3), ("c", "<f4", (3, 3)), ("f", "<u2")]))
    record["c"] = corners
    path.write_bytes(bytes(80) + struct.pack("<I", len(corners)) + record.tobytes())


def test_a_mesh_of_50_mb_is_decimated(tmp_path):
    stl(tmp_path / "big.stl", 710)
    assert (tmp_path / "big.stl").stat().st_size > 50e6
    text, _ = boxed(visual='<visual><geometry><mesh filename="big.stl"/></geometry></visual>')
    (tmp_path / "robot.urdf").write_text(text)
    robot = RobotSource(str(tmp_path / "robot.urdf")).load()
    (body,), notes = urdf_bodies(robot, tmp_path / "robot.urdf")
    assert not notes
    assert 0.2 * TRIANGLES < len(body.mesh.triangles) <= TRIANGLES
    low, high = body.mesh.vertices.min(axis=0), body.mesh.vertices.max(axis=0)
    np.testing.assert_allclose(low[:2], 0.0, atol=0.01)
    np.testing.assert_allclose(high[:2], 1.0, atol=0.01)


def test_a_huge_text_mesh_is_refused_with_a_note(tmp_path):
    with (tmp_path / "big.obj").open("wb") as file:
        file.truncate(51_000_000)
    text, shape = boxed(visual='<visual><geometry><mesh filename="big.obj"/></geometry></visual>')
    text = text.replace("</link><joint", shape.format("collision") + "</link><joint")
    (tmp_path / "robot.urdf").write_text(text)
    robot = RobotSource(str(tmp_path / "robot.urdf")).load()
    bodies, notes = urdf_bodies(robot, tmp_path / "robot.urdf")
    assert [body.kind for body in bodies] == ["box"], "its collision shape instead"
    assert "51 MB" in notes[0]


def test_decimation_keeps_small_meshes_and_the_extent_of_large_ones():
    rng = np.random.default_rng(0)
    small = indexed(rng.uniform(-1, 1, (10, 3, 3)))
    assert decimated(small, 10) is small
    u, v = np.meshgrid(np.linspace(0, np.pi, 120), np.linspace(0, 2 * np.pi, 120), indexing="ij")
    ball = np.stack((np.sin(u) * np.cos(v), np.sin(u) * np.sin(v), np.cos(u)), axis=2)
    a, b, c, d = ball[:-1, :-1], ball[1:, :-1], ball[1:, 1:], ball[:-1, 1:]
    mesh = indexed(np.concatenate((np.stack((a, b, c), 2), np.stack((a, c, d), 2))).reshape(-1, 3, 3))
    coarse = decimated(Mesh(mesh.vertices, mesh.triangles, (1, 0, 0, 1)), 2000)
    assert 400 < len(coarse.triangles) <= 2000
    assert coarse.colour == (1, 0, 0, 1)
    radius = np.linalg.norm(coarse.vertices, axis=1)
    assert radius.min() > 0.97 and radius.max() <= 1.0 + 1e-12


def test_hostile_names_stay_text():
    escaped = HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    text, shape = boxed(name=escaped)
    text = text.replace('"turn"', f'"{escaped}"').replace('"arm"', f'"{escaped}"')
    text = text.replace("</link><joint", shape.format("visual") + "</link><joint")
    source = RobotSource(urdf=text)
    page = preview_page(scene_of(motion(source.load()), source, Surroundings()))
    assert HOSTILE not in page and "<img" not in page
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["robot"]["active"] == [HOSTILE]


def test_links_without_a_mesh_are_drawn_from_the_kinematics_and_the_viewer_is_warned_first(tmp_path):
    """Only the last link has a shape that can be read: the others are sticks, on their own joints."""
    box = '<{0}><geometry><box size="0.1 0.1 0.1"/></geometry></{0}>'
    mesh = '<{0}><geometry><mesh filename="package://nowhere/arm.stl"/></geometry></{0}>'
    links, joints = ['<link name="base"/>'], []
    for k in range(1, 4):
        shape = (box if k == 3 else mesh).format("visual")
        inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
        links.append(f'<link name="l{k}">{inertial}{shape}{mesh.format("collision")}</link>')
        parent = "base" if k == 1 else f"l{k - 1}"
        joints.append(
            f'<joint name="j{k}" type="revolute"><parent link="{parent}"/><child link="l{k}"/><origin xyz="0 0 0.5"/>'
            '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="1"/></joint>'
        )
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(f'<robot name="arm">{"".join(links + joints)}</robot>')
    robot, look = robot_appearance(RobotSource(str(urdf)), Surroundings())
    assert {body.joint for body in look.bodies if body.kind != "box"} == {0, 1, 2, 3}
    still = np.zeros((2, 3))
    motion = Trajectory(robot.active_names, through_points(np.array([0.0, 1.0]), still, still, still), "file", 50.0)
    view = scene(robot, motion, look)
    assert view.warning == "Collisions are NOT checked: the robot has no collision shapes that can be read."
    assert any("meshes were looked for beside the URDF and in: " in note for note in view.notes)
    assert packed_scene(view)["warning"] == view.warning
