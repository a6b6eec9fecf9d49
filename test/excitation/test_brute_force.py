"""Limits and clearance against a dense brute-force check, with different limits for every joint and every side."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from excitation_robots import three_dof
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.collision import (
    Shapes,
    clearance,
    collision_term,
    distances,
    make_shapes,
    planes_of,
    random_poses,
)
from ros2_dynid.excitation.criteria import column_norms, normalised, relative_std
from ros2_dynid.excitation.limits import Caps, bounds_of, check_trajectory, peak_effort, use_of
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Limits

DENSE_HZ = 2000.0
OWN = (
    Limits(-1.0, 2.0, velocity=1.5, acceleration=6.0, effort=40.0),
    Limits(-2.5, 0.5, velocity=2.5, acceleration=9.0, effort=90.0),
    Limits(-0.3, 0.4, velocity=0.7, acceleration=3.0, effort=15.0),
)
"""No two joints and no two sides are alike."""


def uneven(own=OWN):
    robot = three_dof()
    return replace(robot, joints=tuple(replace(j, limits=x) for j, x in zip(robot.joints, own, strict=True)))


def random_motion(rng, size):
    """A motion through random states, at rest at both ends, that passes some limits and keeps others."""
    t = np.concatenate(([0.0], np.cumsum(rng.uniform(0.5, 1.5, 3))))
    q = rng.uniform(-1.0, 1.0, (4, 3)) * size
    dq = rng.uniform(-1.0, 1.0, (4, 3)) * size
    dq[[0, -1]] = 0.0
    return through_points(t, q, dq)


def test_bounds_are_those_of_each_joint():
    b = bounds_of(uneven(), 0.1, Caps(position=1.8, velocity=2.0, acceleration=5.0, effort=50.0))
    np.testing.assert_allclose(b.lower, [-1.0 + 0.05 * 2.8, -1.8 + 0.05 * 2.3, -0.3 + 0.05 * 0.7])
    np.testing.assert_allclose(b.upper, [1.8 - 0.05 * 2.8, 0.5 - 0.05 * 2.3, 0.4 - 0.05 * 0.7])
    np.testing.assert_allclose(b.velocity, [0.9 * 1.5, 0.9 * 2.0, 0.9 * 0.7])
    np.testing.assert_allclose(b.acceleration, [0.9 * 5.0, 0.9 * 5.0, 0.9 * 3.0])
    np.testing.assert_allclose(b.effort, [0.9 * 40.0, 0.9 * 50.0, 0.9 * 15.0])
    assert b.names == ("j1", "j2", "j3") and b.notes == ()
    for bad in ({"position": 0.0}, {"velocity": -1.0}, {"acceleration": np.nan}, {"effort": 0.0}):
        with pytest.raises(InputError, match="positive"):
            bounds_of(uneven(), 0.0, Caps(**bad))
    with pytest.raises(InputError, match="cannot move"):
        bounds_of(uneven((OWN[0], replace(OWN[1], acceleration=0.0), OWN[2])))


def test_an_unknown_acceleration_is_named_and_only_that():
    b = bounds_of(uneven((OWN[0], replace(OWN[1], acceleration=np.inf), OWN[2])), 0.0)
    np.testing.assert_allclose(b.acceleration, [6.0, 2.5 / 0.5, 3.0])
    assert len(b.notes) == 1 and "j2" in str(b.notes[0]) and "j1" not in str(b.notes[0])


@pytest.mark.parametrize("seed", range(12))
def test_violations_are_those_of_a_dense_check(seed):
    """Each joint, quantity and side is reported if and only if the dense samples pass it, whatever the joint order."""
    rng = np.random.default_rng(seed)
    robot = uneven()
    curve = random_motion(rng, rng.uniform(0.3, 1.2))
    t = np.linspace(0.0, curve.duration, int(curve.duration * DENSE_HZ) + 1)
    b = bounds_of(robot, 0.0)
    wanted = {}
    limits = ((b.lower, b.upper), (-b.velocity, b.velocity), (-b.acceleration, b.acceleration))
    for quantity, values, (lower, upper) in zip(
        ("position", "velocity", "acceleration"), curve.evaluate(t), limits, strict=True
    ):
        for j, name in enumerate(robot.active_names):
            for side, limit, extreme in ((-1, lower[j], values[:, j].min()), (1, upper[j], values[:, j].max())):
                if side * (extreme - limit) > 0:
                    wanted[name, quantity, limit] = extreme
    order = rng.permutation(3)
    permuted = Trajectory(tuple(robot.active_names[k] for k in order), curve.mapped(np.eye(3)[order], np.zeros(3)))
    found = {
        (p.joint, p.quantity, p.limit): p.value
        for p in check_trajectory(robot, permuted, chi=np.zeros(42))
        if p.quantity != "effort"
    }
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        assert value == pytest.approx(wanted[key], rel=1e-4, abs=1e-4)
    use = use_of(robot, curve, b)
    q = curve.evaluate(t)[0]
    middle, half = (b.upper + b.lower) / 2, (b.upper - b.lower) / 2
    assert use["position"] == pytest.approx(np.max(np.abs(q - middle) / half), rel=1e-4)
    assert use["velocity"] == pytest.approx(np.max(np.abs(curve.evaluate(t)[1]) / b.velocity), rel=1e-4)
    assert use["acceleration"] == pytest.approx(np.max(np.abs(curve.evaluate(t)[2]) / b.acceleration), rel=1e-3)
    assert use["effort"] == 0.0


@pytest.mark.parametrize(("sign", "excess"), list(itertools.product((-1, 1), (2e-9, 1e-6, 1e-4))))
def test_hardly_too_far_is_too_far(sign, excess):
    robot = three_dof()
    q = np.zeros((2, 3))
    q[1, 1] = sign * (np.pi + excess)
    problems = check_trajectory(robot, Trajectory(robot.active_names, through_points(np.array([0, 9.0]), q, 0 * q)))
    assert [(p.joint, p.quantity) for p in problems if p.quantity != "effort"] == [("j2", "position")]
    q[1, 1] = sign * np.pi
    problems = check_trajectory(robot, Trajectory(robot.active_names, through_points(np.array([0, 9.0]), q, 0 * q)))
    assert [p for p in problems if p.quantity != "effort"] == []


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(("speed", "acceleration", "seen"), [
    (1e-5, 0.0, True), (-1e-5, 0.0, True), (0.0, 1e-3, True), (0.0, -1e-3, True), (0.0, 0.0, False),
])  # fmt: skip
def test_both_ends_are_at_rest(end, speed, acceleration, seen):
    robot = three_dof()
    q, dq, ddq = np.zeros((3, 2, 3))
    q[1] = 0.2
    dq[end, 2], ddq[end, 2] = speed, acceleration
    problems = check_trajectory(robot, Trajectory(robot.active_names, through_points(np.array([0, 5.0]), q, dq, ddq)))
    assert [(p.joint, p.quantity) for p in problems] == ([("j3", "rest")] if seen else [])


def test_torque_of_each_joint_is_held_to_its_own_limit():
    robot = uneven()
    curve = random_motion(np.random.default_rng(3), 0.3)
    chi = standard_vector(robot)
    t = np.linspace(0.0, curve.duration, 20001)
    tau = inverse_dynamics(robot, chi, *curve.evaluate(t))
    peak = np.abs(tau).max(axis=0)
    np.testing.assert_allclose(peak_effort(robot, curve, chi), peak, rtol=1e-3)
    assert np.any(tau.max(axis=0) < peak), "for one joint at least the largest torque is negative"
    use = use_of(robot, curve, bounds_of(robot, 0.0), chi)["effort"]
    assert use == pytest.approx(np.max(peak / [40.0, 90.0, 15.0]), rel=1e-3)
    for over in range(3):
        own = [replace(x, effort=peak[j] * (0.98 if j == over else 1.02)) for j, x in enumerate(OWN)]
        problems = check_trajectory(uneven(own), Trajectory(robot.active_names, curve))
        assert [p.joint for p in problems if p.quantity == "effort"] == [f"j{over + 1}"]
        assert check_trajectory(uneven(own), Trajectory(robot.active_names, curve), chi=0.5 * chi) == [
            p for p in problems if p.quantity != "effort"
        ]


def capsules_of_the_arm():
    return [
        ("base", 0, np.array([0.0, 0.0, -0.5]), np.array([0.1, 0.0, -0.2]), 0.1),
        ("upper", 2, np.array([0.05, 0.1, 0.0]), np.array([0.5, 0.0, 0.1]), 0.05),
        ("fore", 3, np.array([0.0, 0.0, 0.05]), np.array([0.45, 0.1, 0.0]), 0.03),
    ]


def along(capsule, T, count=201):
    """Points of the axis of a capsule in the base frame."""
    s = np.linspace(0.0, 1.0, count)[:, None]
    points = capsule[2] + s * (capsule[3] - capsule[2])
    return points @ T[:3, :3].T + T[:3, 3]


@pytest.mark.parametrize("seed", range(4))
def test_clearance_is_that_of_dense_points(seed):
    robot = three_dof()
    box = [-0.6, 0.7, -0.8, 0.5, -0.9, 0.4]
    arm = capsules_of_the_arm()
    shapes = make_shapes(robot, arm, planes=planes_of(-0.7, box), margin=0.02)
    q = random_poses(robot, 20, np.random.default_rng(seed))
    T = np.concatenate((np.broadcast_to(np.eye(4), (20, 1, 4, 4)), frames(robot, q)), axis=1)
    least, what = np.inf, ""
    for k in range(20):
        points = [along(c, T[k, c[1]]) for c in arm]
        for i, j in ((0, 1), (0, 2)):
            gap = np.linalg.norm(points[i][:, None] - points[j], axis=2).min() - arm[i][4] - arm[j][4]
            if gap < least:
                least, what = gap, f"{arm[i][0]} and {arm[j][0]}"
        for c, p in list(zip(arm, points, strict=True))[1:]:
            walls = [p[:, 2].min() + 0.7]
            for axis in range(3):
                walls += [p[:, axis].min() - box[2 * axis], box[2 * axis + 1] - p[:, axis].max()]
            if min(walls) - c[4] < least:
                least, what = min(walls) - c[4], f"{c[0]} and plane {int(np.argmin(walls)) + 1}"
    seen, text = clearance(robot, shapes, q)
    assert seen == pytest.approx(least, abs=3e-5) and text == what


@pytest.mark.parametrize("wall", range(6))
def test_each_wall_keeps_the_whole_capsule_inside(wall):
    """A ball of radius 0.1 at a known place: its distance to every wall of the box, and the penalty near one."""
    robot = three_dof()
    at = np.array([0.3, -0.2, 0.15])
    ball = Shapes(
        np.array([1]), at[None], at[None], np.array([0.1]), ("ball",), np.zeros((0, 2), int),
        np.array([[*n, d] for n, d in planes_of(None, [-0.5, 0.6, -0.7, 0.8, -0.4, 0.9])]), np.array([0]), 0.02,
    )  # fmt: skip
    _, plane = distances(robot, ball, np.zeros((1, 3)))
    wanted = [0.3 + 0.5, 0.6 - 0.3, -0.2 + 0.7, 0.8 + 0.2, 0.15 + 0.4, 0.9 - 0.15]
    np.testing.assert_allclose(plane[0, :, 0], np.array(wanted) - 0.1, atol=1e-12)
    one = replace(ball, planes=ball.planes[[wall]])
    assert clearance(robot, one, np.zeros((1, 3)))[0] == pytest.approx(wanted[wall] - 0.1)
    # moved up to the wall, the ball is penalised as soon as its surface is nearer than wanted
    for gap, penalised in ((0.0235, True), (0.0245, False)):
        near = replace(one, planes=one.planes + np.array([0, 0, 0, wanted[wall] - 0.1 - gap]))
        assert (collision_term(robot, near, tight=1.15)(np.zeros((1, 3)))[0] > 0) == penalised


def test_a_floor_and_a_box_with_open_sides():
    normal, offset = planes_of(-0.25)[0]
    assert list(normal) == [0.0, 0.0, 1.0] and offset == -0.25
    planes = planes_of(0.1, [-np.inf, 0.6, -0.7, np.inf, -np.inf, np.inf])
    assert [(list(n), d) for n, d in planes] == [([0, 0, 1], 0.1), ([-1, 0, 0], -0.6), ([0, 1, 0], -0.7)]
    with pytest.raises(InputError, match="floor"):
        planes_of(np.inf)


def test_columns_are_scaled_and_predicted_one_by_one():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(40, 3)) * [1.0, 100.0, 0.01]
    W[:, 2] += 0.009 * W[:, 0]  # far from orthogonal, as columns of real motions are
    np.testing.assert_allclose(column_norms(W), [np.sqrt(np.sum(W[:, k] ** 2)) for k in range(3)])
    np.testing.assert_allclose(np.sum(normalised(W)[0] ** 2, axis=0), 1.0)
    assert list(column_norms(np.zeros((4, 2)))) == [1.0, 1.0]
    base = np.array([2.0, -0.5, 4.0])
    covariance = 0.3**2 * np.linalg.inv(W.T @ W)
    np.testing.assert_allclose(relative_std(W, base, 0.3), 100.0 * np.sqrt(np.diag(covariance)) / np.abs(base))
    assert relative_std(W, np.array([2.0, 0.0, 4.0]))[1] == np.inf
