# SPDX-License-Identifier: Apache-2.0

"""Obstacles: distances as coal has them, gradients as differences have them, and plans that keep clear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from excitation_robots import example_urdf
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.collision import clearance, collision_term, make_shapes, nearest, obstacle_distances
from ros2_dynid.excitation.obstacles import (
    SIZES,
    Obstacle,
    bodies_of,
    obstacles_text,
    parse_entries,
    read_entries,
    read_obstacles,
    segment_to_obstacle,
    signed_distance,
)
from ros2_dynid.excitation.shapes import capsules_of, urdf_solids
from ros2_dynid.excitation.surroundings import known_shapes
from ros2_dynid.excitation.trajectory import load_trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.usecases.plan import PlanRequest, Surroundings, plan
from ros2_dynid.usecases.robot_source import RobotSource

UR5 = "ur_description/urdf/ur5_robot.urdf"


def some(kind, rng):
    size = tuple(rng.uniform(0.1, 0.6, SIZES[kind]))
    return Obstacle(kind, kind, size, transform(rotation_rpy(*rng.uniform(-3, 3, 3)), rng.uniform(-1, 1, 3)))


def coal_shape(coal, one):
    shapes = {
        "sphere": coal.Sphere, "cylinder": coal.Cylinder, "capsule": coal.Capsule, "box": coal.Box,
        "plane": lambda: coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0),
    }  # fmt: skip
    return shapes[one.kind](*one.size)


@pytest.mark.parametrize("kind", SIZES)
def test_distances_are_those_of_coal(kind):
    coal = pytest.importorskip("coal")
    rng = np.random.default_rng(3)
    request, apart = coal.DistanceRequest(), 0
    for _ in range(60):
        one, ends = some(kind, rng), rng.uniform(-1.5, 1.5, (2, 3))
        length = np.linalg.norm(ends[1] - ends[0])
        z = (ends[1] - ends[0]) / length
        x = np.linalg.svd(z[None])[2][1]
        R = np.stack((x, np.cross(z, x), z), axis=1)
        bodies = [coal_shape(coal, one), coal.Transform3s(one.pose[:3, :3], one.pose[:3, 3])]
        bodies += [coal.Capsule(1e-3, float(length)), coal.Transform3s(R, ends.mean(axis=0))]
        theirs = coal.distance(*bodies, request, coal.DistanceResult()) + 1e-3
        distance, point, away = segment_to_obstacle(one, ends[:1], ends[1:])
        assert (distance[0] > 0) == (theirs > 0) or abs(theirs) < 2e-3
        if theirs > 2e-3:
            apart += 1
            assert distance[0] == pytest.approx(theirs, abs=2e-5)
            step = 1e-6 * away[0]
            further = segment_to_obstacle(replace_at(one, -step), point, point)[0][0]
            assert further - distance[0] == pytest.approx(1e-6, rel=1e-3), "away is the way from it"
    assert apart > 15


def replace_at(one, step):
    pose = one.pose.copy()
    pose[:3, 3] += step
    return replace(one, pose=pose)


@pytest.fixture(scope="module")
def ur5():
    file = example_urdf(UR5)
    robot = load_robot(file)
    capsules = capsules_of(urdf_solids(robot, file)[0])
    rng = np.random.default_rng(0)
    obstacles = [replace_at(some(kind, rng), [0.3, 0.3, 0.2]) for kind in SIZES]
    return robot, make_shapes(robot, capsules, obstacles=obstacles)


def test_the_penalty_falls_along_its_gradient(ur5):
    robot, shapes = ur5
    shapes = replace(shapes, pairs=shapes.pairs[:0])
    term, rng = collision_term(robot, shapes), np.random.default_rng(1)
    for q in rng.uniform(-2, 2, (12, 6)):
        value, gradient = term(q[None])
        steps = 1e-6 * np.eye(6)
        differences = [(term((q + step)[None])[0] - term((q - step)[None])[0]) / 2e-6 for step in steps]
        np.testing.assert_allclose(gradient[0], differences, rtol=1e-4, atol=1e-3 * max(value, 1e-6))
    assert term(rng.uniform(-2, 2, (50, 6)))[0] > 0


def test_clearance_and_the_closest_pair_are_those_of_all_distances(ur5):
    robot, shapes = ur5
    shapes = replace(shapes, pairs=shapes.pairs[:0])
    q = np.random.default_rng(2).uniform(-2, 2, (60, 6))
    every = obstacle_distances(robot, shapes, q)
    least, what = clearance(robot, shapes, q)
    k = shapes.obstacle_pairs[np.unravel_index(np.argmin(every), every.shape)[1]]
    assert least == every.min() and what == f"{shapes.links[k[0]]} and {shapes.obstacles[k[1]].name}"
    found = nearest(robot, shapes, q)
    np.testing.assert_array_equal(found.distance, every.min(axis=1))
    np.testing.assert_array_equal(-1 - found.second, shapes.obstacle_pairs[np.argmin(every, axis=1), 1])
    outside = found.distance > 0
    gap = np.linalg.norm(found.p - found.r, axis=1)
    np.testing.assert_allclose(gap[outside], found.distance[outside], atol=1e-6)
    close = obstacle_distances(robot, shapes, q, 0.05)
    np.testing.assert_array_equal(close[every < 0.05], every[every < 0.05])


def test_what_is_touched_in_nearly_every_pose_is_said_and_what_is_always_as_far_is_left_out():
    file = example_urdf(UR5)
    robot = load_robot(file)
    capsules = capsules_of(urdf_solids(robot, file)[0])
    around = Obstacle("cage", "box", (9.0, 9.0, 9.0), np.eye(4))
    shapes = make_shapes(robot, capsules, obstacles=[around])
    assert not len(shapes.obstacle_pairs) and any("cage" in note for note in shapes.notes)
    _, shapes = known_shapes(robot, file)
    assert shapes.obstacles == () and len(shapes.obstacle_pairs) == 0


def test_a_plan_keeps_clear_of_an_obstacle(tmp_path):
    """A ball where the wrist of an unaware plan is farthest from its start."""
    file, around = example_urdf(UR5), tmp_path / "around.yaml"
    robot, source, clear = load_robot(file), RobotSource(str(file)), {}
    for name in ("unaware", "aware"):
        target = str(tmp_path / f"{name}.yaml")
        standing = Surroundings(obstacles=str(around) if name == "aware" else None)
        plan(PlanRequest(source, target, seed=1, time_budget=6.0, surroundings=standing))
        q = load_trajectory(target).sample(200.0).q
        if name == "unaware":
            wrist = frames(robot, q)[:, -1, :3, 3]
            place = wrist[np.argmax(np.linalg.norm(wrist - wrist[0], axis=1))]
            around.write_text(f"obstacles: [{{name: ball, sphere: 0.05, at: {place.tolist()}}}]")
        clear[name] = clearance(robot, known_shapes(robot, file, obstacles=around)[1], q)
    assert clear["unaware"][0] < 0.0 and clear["unaware"][1].endswith(" and ball")
    assert clear["aware"][0] >= 0.02 - 1e-3


@pytest.mark.parametrize(
    "text",
    [
        "obstacles: 3", "[]", "obstacles: [3]", "obstacles: [{box: [1, 1, 1], sphere: 1}]", "obstacles: [{name: x}]",
        "obstacles: [{box: [1, 1]}]", "obstacles: [{box: [1, 1, 0]}]", "obstacles: [{sphere: -1}]",
        "obstacles: [{sphere: .nan}]", "obstacles: [{sphere: 1, at: [0, 0]}]", "obstacles: [{sphere: true}]",
        "obstacles: [{sphere: 1, att: [0, 0, 0]}]", "obstacles: [{plane: 1}]",
        "obstacles: [{sphere: 1, at: [.inf, 0, 0]}]",
        f"obstacles: [{', '.join(['{sphere: 1}'] * 201)}]",
    ],
)  # fmt: skip
def test_a_file_that_is_not_complete_is_refused(tmp_path, text):
    (tmp_path / "o.yaml").write_text(text)
    with pytest.raises(InputError):
        read_obstacles(tmp_path / "o.yaml")


def test_a_file_is_read_as_it_is_written(tmp_path):
    (tmp_path / "o.yaml").write_text(
        "obstacles:\n- {name: table, box: [1, 0.8, 0.1], at: [0.5, 0, -0.1], rpy: [0, 0, 1.5707963267948966]}\n"
        "- {plane: [], at: [0, 0, -0.2]}\n- {sphere: 0.2}\n"
    )
    table, ground, ball = read_obstacles(tmp_path / "o.yaml")
    assert (table.name, table.kind, table.size) == ("table", "box", (1.0, 0.8, 0.1))
    np.testing.assert_allclose(table.pose @ [0.5, 0, 0, 1], [0.5, 0.5, -0.1, 1], atol=1e-12)
    assert (ground.name, ground.size, ball.name, ball.size) == ("plane 2", (), "sphere 3", (0.2,))
    assert segment_to_obstacle(ground, np.zeros((1, 3)), np.ones((1, 3)))[0] == 0.2


def test_a_second_robot_stands_at_its_pose_as_the_shapes_that_the_planner_gives_it(tmp_path):
    file = tmp_path / "around.yaml"
    file.write_text(
        f"obstacles: [{{name: other, robot: {example_urdf(UR5)}, at: [1.2, 0.1, 0], rpy: [0, 0, 3],"
        " q: {shoulder_lift_joint: -1.0, elbow_joint: 0.5}}]"
    )
    bodies = read_obstacles(file)
    robot = load_robot(example_urdf(UR5))
    q = np.zeros((1, 6))
    q[0, 1:3] = -1.0, 0.5
    T = [np.eye(4), *frames(robot, q)[0]]
    base = transform(rotation_rpy(0, 0, 3), np.array([1.2, 0.1, 0]))
    capsules = capsules_of(urdf_solids(robot, example_urdf(UR5))[0])
    assert len(bodies) == len(capsules) >= 6
    for body, (_, joint, a, b, radius) in zip(bodies, capsules, strict=True):
        for end in (a, b, 0.5 * (a + b)):
            place = (base @ T[joint] @ np.append(end, 1.0))[:3]
            assert signed_distance(body, place)[0] == pytest.approx(-radius, abs=1e-5), "inside by its radius"
    text = obstacles_text(read_entries(file))
    again = bodies_of(parse_entries(text, "text"))
    assert all(np.allclose(one.pose, two.pose) and one.size == two.size for one, two in zip(bodies, again, strict=True))
    with pytest.raises(InputError, match="names a robot's file"):
        parse_entries(file.read_text(), "request")
    file.write_text(f"obstacles: [{{robot: {example_urdf(UR5)}, q: {{nose: 1}}}}]")
    with pytest.raises(InputError, match="it has no joint 'nose'"):
        read_obstacles(file)
