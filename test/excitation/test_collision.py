# SPDX-License-Identifier: Apache-2.0

"""Collisions: distances against coal, gradients against differences, shapes that cover what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from excitation_robots import FEW_STEPS, example_urdf, three_dof
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.collision import (
    clearance,
    collision_term,
    distances,
    make_shapes,
    planes_of,
    random_poses,
    segment_distance,
)
from ros2_dynid.excitation.exact import exact_clearance, narrowed
from ros2_dynid.excitation.limits import Caps, check_trajectory
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.excitation.shapes import (
    bounding_capsule,
    capsules_of,
    cover,
    file_capsules,
    find_mesh,
    missing_note,
    read_triangles,
    urdf_solids,
)
from ros2_dynid.excitation.static import ramps, static_poses
from ros2_dynid.excitation.surroundings import surroundings
from ros2_dynid.model.load import load_robot

coal = pytest.importorskip("coal")
UR5 = "ur_description/urdf/ur5_robot.urdf"


@pytest.fixture(scope="module")
def ur5():
    """Return the UR5, its URDF, its collision shapes and the capsules that cover them."""
    path = example_urdf(UR5)
    robot = load_robot(path)
    solids = urdf_solids(robot, path)[0]
    return robot, path, solids, capsules_of(solids)


def stick(robot):
    """Capsules on the links of the 3-dof robot: a base column, the upper arm, the forearm."""
    return [
        ("base", 0, np.array([0.0, 0.0, -0.5]), np.array([0.0, 0.0, -0.2]), 0.1),
        ("upper", 2, np.zeros(3), np.array([0.5, 0.0, 0.0]), 0.05),
        ("fore", 3, np.zeros(3), np.array([0.45, 0.0, 0.0]), 0.04),
    ]


def test_segments_against_coal():
    rng = np.random.default_rng(0)
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    for k in range(200):
        a, b, c, d = rng.normal(size=(4, 3))
        if k % 10 == 0:
            d = c + (b - a)  # parallel
        seen = segment_distance(a, b, c, d)[0]
        bodies = []
        for one, two in ((a, b), (c, d)):
            z = (two - one) / np.linalg.norm(two - one)
            x = np.linalg.svd(z[None])[2][1]
            R = np.column_stack((x, np.cross(z, x), z))
            bodies += [coal.Capsule(1e-3, float(np.linalg.norm(two - one))), coal.Transform3s(R, 0.5 * (one + two))]
        result.clear()
        assert seen - 2e-3 == pytest.approx(coal.distance(*bodies, request, result), abs=2e-5)


def test_gradient_against_differences():
    robot = three_dof()
    shapes = make_shapes(robot, stick(robot), planes=planes_of(-0.4, [-0.5, 0.5, -9, 9, -9, 0.3]), margin=0.05)
    term = collision_term(robot, shapes)
    rng = np.random.default_rng(1)
    q = random_poses(robot, 30, rng)
    D = rng.normal(size=q.shape)
    value, gradient = term(q)
    assert value > 0
    assert np.sum(gradient * D) == pytest.approx((term(q + 1e-6 * D)[0] - term(q - 1e-6 * D)[0]) / 2e-6, rel=1e-4)


def test_neighbours_and_constant_pairs_are_left_out():
    robot = three_dof()
    shapes = make_shapes(robot, stick(robot), planes=planes_of(-1.0))
    named = {frozenset((shapes.links[i], shapes.links[k])) for i, k in shapes.pairs}
    assert named == {
        frozenset(("base", "fore")),
        frozenset(("base", "upper")),
    }  # upper is on joint 2, not next to the base
    assert 0 not in shapes.plane_shapes


@pytest.mark.parametrize("seed", range(5))
def test_bounding_capsules_hold_their_points(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(80, 3)) * [1.0, 0.3, 0.1] @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + rng.normal(size=3)
    a, b, r = bounding_capsule(points)
    assert np.all(segment_distance(a, b, points, points)[0] <= r + 1e-12)


def test_cover_holds_every_corner_of_a_mesh():
    triangles = read_triangles(
        find_mesh(
            "package://example-robot-data/robots/ur_description/meshes/ur10/collision/forearm.stl", example_urdf(UR5)
        )
    )
    capsules = cover(triangles)
    assert 1 <= len(capsules) <= 4
    gaps = [segment_distance(a, b, triangles.reshape(-1, 3), triangles.reshape(-1, 3))[0] - r for a, b, r in capsules]
    by_triangle = np.array(gaps).reshape(len(capsules), -1, 3).max(axis=2)
    assert np.all(by_triangle.min(axis=0) <= 1e-9)  # one capsule holds all three corners, so the whole triangle


def test_capsules_are_on_the_safe_side_of_the_meshes(ur5):
    robot, _, solids, capsules = ur5
    shapes = make_shapes(robot, capsules, margin=0.0)
    q = random_poses(robot, 12, np.random.default_rng(2))
    pair, _ = distances(robot, shapes, q)
    kept = {frozenset((shapes.links[i], shapes.links[k])) for i, k in shapes.pairs}
    for one, capsule in zip(q, pair.min(axis=1), strict=True):
        exact, what = exact_clearance(robot, solids, one[None])
        if frozenset(what.split(" and ")) in kept:
            assert capsule <= exact + 1e-6


def test_clearance_is_the_smallest_of_all_distances(ur5):
    robot, _, _, capsules = ur5
    shapes = make_shapes(robot, capsules, planes=planes_of(-0.9))
    q = random_poses(robot, 2500, np.random.default_rng(4))
    for part in (q, q[:1], q[1:2], q[2:3]):
        assert clearance(robot, shapes, part)[0] == pytest.approx(min(d.min() for d in distances(robot, shapes, part)))


def test_links_too_close_for_capsules_do_not_touch_in_the_narrowed_ranges(ur5):
    robot, path, solids, capsules = ur5
    close = make_shapes(robot, capsules).close
    kept, shapes = surroundings(robot, path)
    assert any("is limited to" in note for note in shapes.notes)
    rng = np.random.default_rng(5)
    assert exact_clearance(robot, solids, random_poses(robot, 100, rng), only=close)[0] <= 0.0
    assert exact_clearance(kept, solids, random_poses(kept, 150, rng), only=close)[0] > 0.0
    start = np.array([0.0, 0.0, 0.0, -5.0, 0.0, 0.0])  # a turn further on: the range around it
    lower, upper = next(
        (x.limits.lower, x.limits.upper) for x in narrowed(robot, solids, close, start=start)[0].joints[3:]
    )
    assert lower <= -5.0 <= upper


def test_primitives_missing_meshes_and_files(tmp_path):
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(
        """<robot name="arm"><link name="base"><collision>
        <geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>
        <link name="one"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
        <collision><origin xyz="0 0 0.3"/><geometry><cylinder radius="0.05" length="0.4"/></geometry></collision></link>
        <link name="two"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
        <collision><geometry><sphere radius="0.1"/></geometry></collision>
        <collision><geometry><mesh filename="package://nowhere/a.stl"/></geometry></collision></link>
        <joint name="a" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="1" velocity="1" effort="9"/></joint>
        <joint name="b" type="revolute"><parent link="one"/><child link="two"/><origin xyz="0 0 0.6"/>
        <axis xyz="0 1 0"/>        <limit lower="-1" upper="1" velocity="1" effort="9"/></joint></robot>"""
    )
    robot = load_robot(urdf)
    solids, missing = urdf_solids(robot, urdf)
    capsules = capsules_of(solids)
    assert [c[0] for c in capsules] == ["base", "one", "two"] and "two" in missing_note(missing)[0]
    shapes = make_shapes(robot, capsules, margin=0.0)
    # a straight arm: the sphere of link two at 0.6 m, the box up to 0.05 m with a capsule around it
    a, b, _ = (np.array(x) for x in (capsules[0][2], capsules[0][3], 0))
    wanted = segment_distance(a, b, np.array([0, 0, 0.6]), np.array([0, 0, 0.6]))[0] - capsules[0][4] - 0.1
    assert clearance(robot, shapes, np.zeros((1, 2)))[0] == pytest.approx(wanted)
    (tmp_path / "s.yaml").write_text(
        "shapes: [{joint: base, at: [0, 0, 0], radius: 0.1}, {joint: b, from: [0,0,0], to: [0,0,1], radius: 0.2}]"
    )
    assert [c[1] for c in file_capsules(robot, tmp_path / "s.yaml")] == [0, 2]
    for text in (
        "shapes: []",
        "shapes: [{joint: c, at: [0, 0, 0], radius: 1}]",
        "shapes: [{joint: a, at: [0, 0], radius: 1}]",
    ):
        (tmp_path / "s.yaml").write_text(text)
        with pytest.raises(InputError):
            file_capsules(robot, tmp_path / "s.yaml")


def test_plans_keep_the_margin(ur5):
    robot, _, _, capsules = ur5
    shapes = make_shapes(robot, capsules, planes=planes_of(-0.15), margin=0.03)
    caps = Caps(position=np.pi, acceleration=8.0)
    found = plan(robot, PlanOptions(**FEW_STEPS, caps=caps, shapes=shapes, groups=["inertial"]))
    assert clearance(robot, shapes, found.trajectory.sample(1000.0).q)[0] >= 0.03 - 1e-3
    assert check_trajectory(robot, found.trajectory, margin=0.05, caps=caps) == []
    for slow in (
        static_poses(robot, poses=6, caps=caps, shapes=shapes, candidates=80),
        ramps(robot, caps=caps, shapes=shapes),
    ):
        assert clearance(robot, shapes, slow.sample(50.0).q)[0] >= 0.03 - 1e-3
        assert check_trajectory(robot, slow, margin=0.05, caps=caps) == []


def test_points_keep_the_margin_too():
    robot = three_dof()
    shapes = make_shapes(robot, stick(robot), planes=planes_of(-0.8), margin=0.03)
    found = plan(robot, PlanOptions(method="points", rows=16, groups=["inertial"], shapes=shapes, **FEW_STEPS))
    assert clearance(robot, shapes, found.trajectory.sample(500.0).q)[0] >= 0.03 - 1e-3


def test_refusals():
    robot = three_dof()
    shapes = make_shapes(robot, stick(robot), planes=planes_of(0.2))
    with pytest.raises(InputError, match="no pose"):
        plan(robot, PlanOptions(shapes=make_shapes(robot, stick(robot), planes=planes_of(5.0)), time_budget_s=1.0))
    with pytest.raises(InputError, match="start pose"):
        plan(robot, PlanOptions(shapes=shapes, start=[0.0, 0.5, 0.0], time_budget_s=1.0))
    for bad in ([0, 1], [1, 0, 0, 1, 0, 1], [0, 1, 0, 1, 0, float("nan")]):
        with pytest.raises(InputError):
            planes_of(None, bad)
    with pytest.raises(InputError):
        make_shapes(robot, [("a", 1, np.zeros(3), np.zeros(3), -1.0)])
