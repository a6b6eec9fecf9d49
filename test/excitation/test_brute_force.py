# SPDX-License-Identifier: Apache-2.0

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
    capsule_reach,
    clearance,
    collision_term,
    distances,
    make_shapes,
    nearest,
    planes_of,
    random_poses,
    segment_distance,
)
from ros2_dynid.excitation.criteria import column_norms, normalised, relative_std
from ros2_dynid.excitation.limits import (
    Caps,
    bounds_of,
    check_trajectory,
    known_parameters,
    limit_problems,
    peak_effort,
    use_by_joint,
    use_of,
)
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Passive, Robot

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


def test_slow_joints_are_joints():
    b = bounds_of(uneven(tuple(Limits(-0.4, 0.4, 0.3, 0.2, effort=0.1) for _ in OWN)), 0.0, Caps(*[0.05] * 4))
    for found in (b.upper, -b.lower, b.velocity, b.acceleration, b.effort):
        np.testing.assert_allclose(found, 0.05)


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


def looped(narrow=None):
    """Two motors and a passive joint between them, q_p = q_a - q_b, of which little is known unless `narrow`."""
    own = (Limits(-1.0, 2.0, 1.5, 6.0, 40.0), narrow or Limits(), Limits(-2.5, 0.5, 2.5, 9.0, 90.0))
    joints = [Joint(name, parent, limits=x) for parent, (name, x) in enumerate(zip(("a", "p", "b"), own, strict=True))]
    return Robot("loop", tuple(joints), passive=(Passive(2, {1: 1.0, 3: -1.0}),))


def test_a_passive_joint_needs_no_limits_and_keeps_those_it_has():
    b = bounds_of(looped(), 0.1)
    np.testing.assert_allclose(b.lower, [-1.0 + 0.15, -np.inf, -2.5 + 0.15])
    np.testing.assert_allclose(b.upper, [2.0 - 0.15, np.inf, 0.5 - 0.15])
    assert np.isinf(b.velocity[1]) and np.isinf(b.acceleration[1]) and b.notes == ()
    np.testing.assert_allclose(b.effort, [36.0, 81.0])
    q = np.array([[0.5, -0.5], [-0.5, -1.0]])
    curve = through_points(np.array([0.0, 4.0]), q, 0 * q)
    use = use_by_joint(looped(), curve, bounds_of(looped(), 0.0))
    assert use["position"][1] == use["velocity"][1] == use["acceleration"][1] == 0.0
    assert use["position"][0] == pytest.approx(1.0 / 1.5) and use["position"][2] == pytest.approx(0.5 / 1.5)
    t = np.linspace(0.0, 4.0, 4001)
    _, dq, ddq = curve.evaluate(t)
    np.testing.assert_allclose(use["velocity"][[0, 2]], np.abs(dq).max(axis=0) / [1.5, 2.5], rtol=1e-4)
    np.testing.assert_allclose(use["acceleration"][[0, 2]], np.abs(ddq).max(axis=0) / [6.0, 9.0], rtol=1e-3)
    narrow = looped(Limits(-0.2, 0.9, 1.0, 5.0))
    found = check_trajectory(narrow, Trajectory(("a", "b"), curve))
    assert [(p.joint, p.quantity) for p in found] == [("p", "position")]
    assert found[0].value == pytest.approx(1.0) and found[0].limit == 0.9


@pytest.mark.parametrize("margin", [0.0, 0.999])
def test_margins_up_to_all_of_a_limit(margin):
    b = bounds_of(uneven(), margin)
    np.testing.assert_allclose(b.velocity, [(1 - margin) * x.velocity for x in OWN])
    assert np.all(b.upper > b.lower)


@pytest.mark.parametrize("joint", range(3))
@pytest.mark.parametrize(("wrong", "words"), [
    ({"lower": -np.inf}, "has no position limit.*max_position"), ({"upper": np.inf}, "has no position limit"),
    ({"velocity": np.inf}, "has no velocity limit.*max_velocity"), ({"velocity": 0.0}, "cannot move"),
    ({"lower": 0.5, "upper": 0.5}, "cannot move"), ({"acceleration": 0.0}, "cannot move"),
])  # fmt: skip
def test_every_joint_needs_its_own_limits(joint, wrong, words):
    own = [replace(x, **wrong) if k == joint else x for k, x in enumerate(OWN)]
    with pytest.raises(InputError, match=f"joint 'j{joint + 1}' {words}"):
        bounds_of(uneven(own), 0.0)


def test_parameters_to_predict_torques_with():
    robot, other = three_dof(), np.arange(42.0)
    assert known_parameters(robot, other) is other
    np.testing.assert_array_equal(known_parameters(robot), standard_vector(robot))
    assert known_parameters(robot, np.zeros(42)) is None


def test_one_effort_limit_that_is_not_known_hides_no_other():
    curve = random_motion(np.random.default_rng(3), 0.3)
    peak = peak_effort(uneven(), curve, standard_vector(uneven()))
    for known in range(3):
        own = [replace(x, effort=0.9 * peak[j] if j == known else np.inf) for j, x in enumerate(OWN)]
        found = [
            p for p in check_trajectory(uneven(own), Trajectory(("j1", "j2", "j3"), curve)) if p.quantity == "effort"
        ]
        assert [p.joint for p in found] == [f"j{known + 1}"]
        assert found[0].value == pytest.approx(peak[known]) and found[0].limit == pytest.approx(0.9 * peak[known])


@pytest.mark.parametrize("joint", range(3))
@pytest.mark.parametrize(("share", "seen"), [(1.0 + 1e-6, False), (1.0, False), (1.0 - 1e-6, True)])
def test_a_torque_may_reach_its_limit_and_no_millionth_more(joint, share, seen):
    curve = random_motion(np.random.default_rng(3), 0.3)
    peak = peak_effort(uneven(), curve, standard_vector(uneven()))
    own = [replace(x, effort=peak[j] * (share if j == joint else 2.0)) for j, x in enumerate(OWN)]
    found = [p for p in check_trajectory(uneven(own), Trajectory(("j1", "j2", "j3"), curve)) if p.quantity == "effort"]
    assert [p.joint for p in found] == ([f"j{joint + 1}"] if seen else [])


def test_the_first_joint_that_is_not_in_both_is_named():
    curve = random_motion(np.random.default_rng(0), 0.1)
    (found,) = check_trajectory(three_dof(), Trajectory(("j1", "j0", "j3"), curve))
    assert (found.joint, found.quantity) == ("j0", "names") and "'j0'" in str(found)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(("speed", "acceleration", "seen"), [
    (2e-6, 0.0, True), (-2e-6, 0.0, True), (0.0, 2e-4, True), (0.0, -2e-4, True), (0.0, 0.0, False),
    (5e-7, 5e-5, False), (-5e-7, -5e-5, False),
])  # fmt: skip
def test_both_ends_are_at_rest(end, speed, acceleration, seen):
    robot = three_dof()
    q, dq, ddq = np.zeros((3, 2, 3))
    q[1] = 0.2
    dq[end, 2], ddq[end, 2] = speed, acceleration
    problems = check_trajectory(robot, Trajectory(robot.active_names, through_points(np.array([0, 5.0]), q, dq, ddq)))
    assert [(p.joint, p.quantity) for p in problems] == ([("j3", "rest")] if seen else [])
    assert not seen or (problems[0].value == pytest.approx(abs(speed), abs=1e-12) and problems[0].limit == 0.0)


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
    each = use_by_joint(robot, curve, bounds_of(robot, 0.0), chi)["effort"]
    np.testing.assert_allclose(each, peak / [40.0, 90.0, 15.0], rtol=1e-3)
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


@pytest.mark.parametrize("seed", range(30))
def test_no_pair_is_passed_over_on_the_way_to_the_closest(seed):
    """Capsules from balls to long sticks, thin and fat: what is known of their middles rules out only what it may."""
    rng = np.random.default_rng(seed)
    robot = three_dof()
    a, b = rng.uniform(-0.4, 0.4, (2, 7, 3))
    b[:2] = a[:2]
    made = [
        (f"c{k}", int(j), a[k], b[k], float(10 ** rng.uniform(-3, -0.7))) for k, j in enumerate([0, 0, 2, 2, 3, 3, 3])
    ]
    shapes = make_shapes(robot, made, margin=0.0)
    q = random_poses(robot, 40 if seed < 5 else 400, rng)  # some that are looked at at once, and many more
    pair = distances(robot, shapes, q)[0]
    k, number = np.unravel_index(np.argmin(pair), pair.shape)
    i, j = shapes.pairs[number]
    found, what = clearance(robot, shapes, q)
    assert found == pytest.approx(pair[k, number], abs=1e-12) and what == f"c{i} and c{j}"
    wanted = 1.15 * 0.1 + 1e-3
    missing = np.maximum(wanted - pair, 0.0) / 0.05
    assert collision_term(robot, replace(shapes, margin=0.1))(q)[0] == pytest.approx(np.sum(missing**2))


def test_only_what_can_be_closest_is_looked_at_closely(monkeypatch):
    """How far capsules reach from their middles is exact, and of many poses few pairs need their true distance."""
    robot, arm = three_dof(), capsules_of_the_arm()
    shapes = make_shapes(robot, arm)
    np.testing.assert_allclose(
        capsule_reach(shapes), [np.linalg.norm(b - a) / 2 + r for _, _, a, b, r in arm], rtol=1e-12
    )
    looked = []

    def counted(*ends):
        looked.append(len(ends[0]))
        return segment_distance(*ends)

    monkeypatch.setattr("ros2_dynid.excitation.collision.segment_distance", counted)
    q = random_poses(robot, 3500, np.random.default_rng(0))
    clearance(robot, shapes, q)
    assert max(looked) == 500 and sum(looked) < 0.3 * len(shapes.pairs) * len(q), "the most promising first"
    looked.clear()
    nearest(robot, shapes, q)
    assert looked == [1000, 1000, 1000, 1000, 1000, 1000, 500, 500], "a block of poses at a time, each pair"


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


@pytest.mark.parametrize("seed", range(3))
def test_what_is_nearest_to_what_at_each_pose(seed):
    robot, arm = three_dof(), capsules_of_the_arm()
    box = [-0.6, 0.7, -0.8, 0.5, -0.9, 0.4]
    shapes = make_shapes(robot, arm, planes=planes_of(None, box), margin=0.02)
    q = random_poses(robot, 1100, np.random.default_rng(seed))  # more than a block
    found = nearest(robot, shapes, q)
    pair, plane = distances(robot, shapes, q)
    each = np.concatenate((pair, plane.reshape(len(q), -1)), axis=1)
    np.testing.assert_allclose(found.distance, each.min(axis=1), atol=1e-12)
    T = np.concatenate((np.broadcast_to(np.eye(4), (len(q), 1, 4, 4)), frames(robot, q)), axis=1)
    held, pairs = list(shapes.plane_shapes), [tuple(p) for p in shapes.pairs]
    for k in range(0, len(q), 11):
        i, j = int(found.first[k]), int(found.second[k])
        at = pairs.index((i, j)) if j >= 0 else len(pairs) + (-1 - j) * len(held) + held.index(i)
        assert each[k, at] == pytest.approx(found.distance[k], abs=1e-12)
        way = found.r[k] - found.p[k]
        assert np.linalg.norm(way) == pytest.approx(abs(found.distance[k]), abs=1e-9)
        for c, point in ((i, found.p[k]), (j, found.r[k])):
            if c >= 0:  # on the surface of its capsule
                apart = np.linalg.norm(along(arm[c], T[k, arm[c][1]], 2001) - point, axis=1).min()
                assert apart == pytest.approx(arm[c][4], abs=1e-5)
            else:
                assert shapes.planes[-1 - c, :3] @ point == pytest.approx(shapes.planes[-1 - c, 3], abs=1e-9)
    assert (found.second < 0).any() and (found.second >= 0).any()


def test_where_segments_are_nearest():
    rng = np.random.default_rng(5)
    a, b, c, d = rng.normal(size=(4, 300, 3))
    b[:20], d[20:40] = a[:20], c[20:40]  # points
    b[30:35] = a[30:35]  # both
    distance, s, t = segment_distance(a, b, c, d)
    assert np.all((s >= 0) & (s <= 1) & (t >= 0) & (t <= 1))
    gap = a + s[:, None] * (b - a) - c - t[:, None] * (d - c)
    np.testing.assert_allclose(np.linalg.norm(gap, axis=1), distance, atol=1e-12)
    share = np.linspace(0, 1, 101)
    p, r = (x[:, None] + share[:, None] * (y - x)[:, None] for x, y in ((a, b), (c, d)))
    dense = np.array([np.linalg.norm(p[k][:, None] - r[k], axis=2).min() for k in range(300)])
    assert np.all(distance <= dense + 1e-12) and np.all(dense - distance < 0.03)


@pytest.mark.parametrize(("off", "moves"), [(0.0, False), (2e-7, True), (1e-3, True)])
def test_only_what_no_pose_changes_is_not_kept_apart(off, moves):
    """A ball on the second axis keeps its distance from the base, and its height; beside it, by however little, not."""
    limits = Limits(-3.0, 3.0, 1.0, 3.0)
    robot = Robot("flat", (Joint("a", 0, limits=limits), Joint("b", 1, d=0.5, alpha=2 * off, limits=limits)))
    balls = [("base", 0, np.zeros(3), np.zeros(3), 0.1), ("hand", 2, np.array([off, 0, 0]), np.array([off, 0, 0]), 0.1)]
    shapes = make_shapes(robot, balls)
    assert shapes.pairs.tolist() == ([[0, 1]] if moves else []) and shapes.close == ()
    lying = replace(robot, joints=(replace(robot.joints[0], alpha=off), robot.joints[1]))
    for height in (-1.0, 0.0):
        assert make_shapes(lying, balls, planes=planes_of(height)).plane_shapes.tolist() == ([1] if moves else [])


@pytest.mark.parametrize("angle", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5])
def test_segments_that_cross_at_a_small_angle(angle):
    """They are nearest where they cross, wherever on them that is, and not at an end: 0.1 apart by construction."""
    rng = np.random.default_rng(7)
    frame = np.linalg.qr(rng.normal(size=(40, 3, 3)))[0]
    u, across, up = (frame[:, :, k] for k in range(3))
    v = np.cos(angle) * u + np.sin(angle) * across
    here, there = rng.uniform(0.2, 0.8, (2, 40, 1))
    a, b = -here * u, (1.0 - here) * u
    c, d = 0.1 * up - 2.0 * there * v, 0.1 * up + 2.0 * (1.0 - there) * v
    for ends in ((a, b, c, d), (b, a, c, d), (c, d, a, b)):
        distance, s, t = segment_distance(*ends)
        np.testing.assert_allclose(distance, 0.1, rtol=1e-9)
        gap = ends[0] + s[:, None] * (ends[1] - ends[0]) - ends[2] - t[:, None] * (ends[3] - ends[2])
        np.testing.assert_allclose(np.linalg.norm(gap, axis=1), 0.1, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 0.03, 1e3])
def test_distances_of_segments_grow_with_their_size(scale):
    """From millimetres to kilometres, of long and short ones, nearly parallel ones among them."""
    rng = np.random.default_rng(6)
    a, b, c, d = rng.normal(size=(4, 200, 3))
    b[:60] = a[:60] + 0.02 * (b[:60] - a[:60])
    d[60:120] = c[60:120] + b[60:120] - a[60:120] + 0.01 * d[60:120]
    ones, others = segment_distance(a, b, c, d), segment_distance(scale * a, scale * b, scale * c, scale * d)
    np.testing.assert_allclose(others[0], scale * ones[0], rtol=1e-9)
    np.testing.assert_allclose(others[1:], ones[1:], atol=1e-6)


@pytest.mark.parametrize(("seconds", "samples"), [(0.1, 200), (0.6, 300), (2.3, 1150)])
def test_torques_are_looked_at_500_times_a_second_and_200_times_at_least(seconds, samples):
    robot = uneven()
    q = np.array([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1]])
    curve = through_points(np.array([0.0, seconds]), q, 0 * q)
    chi = standard_vector(robot)
    seen = inverse_dynamics(robot, chi, *curve.evaluate(np.linspace(0.0, seconds, samples + 1)))
    np.testing.assert_array_equal(peak_effort(robot, curve, chi), np.abs(seen).max(axis=0))


def test_the_penalty_is_the_sum_of_squares_of_what_is_missing():
    """Balls, so that both ends of each are the same point; wanted are 1.15 margins and 1 mm, softened by 5 cm."""
    robot = three_dof()
    balls = [
        ("base", 0, np.zeros(3), 0.15),
        ("upper", 2, np.array([0.4, 0.1, 0.0]), 0.1),
        ("fore", 3, np.array([0.3, 0.0, 0.1]), 0.12),
    ]
    shapes = make_shapes(robot, [(n, j, at, at, r) for n, j, at, r in balls], planes=planes_of(-0.2), margin=0.08)
    q = random_poses(robot, 200, np.random.default_rng(2))
    pair, plane = distances(robot, shapes, q)
    wanted = 1.15 * 0.08 + 1e-3
    missing = [np.maximum(wanted - x, 0.0) / 0.05 for x in (pair, plane)]
    assert np.count_nonzero(missing[0]) > 3 and np.count_nonzero(missing[1]) > 3
    value = collision_term(robot, shapes)(q)[0]
    assert value == pytest.approx(np.sum(missing[0] ** 2) + 2 * np.sum(missing[1] ** 2))


def test_the_penaltys_gradient_through_sliding_and_passive_joints():
    joints = (
        Joint("a", 0, alpha=0.3, limits=OWN[0]),
        Joint("p", 1, alpha=1.2, d=0.3, limits=OWN[1]),
        Joint("slide", 2, alpha=-0.7, d=0.2, sigma=PRISMATIC, limits=Limits(-0.3, 0.4, 1.0, 3.0)),
        Joint("b", 3, alpha=0.9, d=0.2, limits=OWN[1]),
    )
    robot = Robot("mixed", joints, passive=(Passive(2, {1: 1.0, 4: -0.5}),))
    capsules = [
        ("base", 0, np.array([0.0, 0.0, -0.1]), np.array([0.2, 0.0, 0.3]), 0.1),
        ("two", 2, np.zeros(3), np.array([0.3, 0.1, 0.0]), 0.05),
        ("four", 4, np.zeros(3), np.array([0.2, 0.2, 0.1]), 0.05),
        ("side", 3, np.array([0.1, 0.0, 0.0]), np.array([0.1, 0.3, 0.1]), 0.04),
    ]
    shapes = make_shapes(robot, capsules, planes=planes_of(-0.1, [-0.3, 0.4, -9, 9, -9, 9]), margin=0.1)
    assert len(shapes.pairs) >= 3
    term, rng = collision_term(robot, shapes), np.random.default_rng(8)
    q = random_poses(robot, 40, rng)
    _, gradient = term(q)
    for joint in range(3):
        D = np.zeros_like(q)
        D[:, joint] = rng.normal(size=40)
        change = (term(q + 1e-6 * D)[0] - term(q - 1e-6 * D)[0]) / 2e-6
        assert abs(change) > 0.1 and np.sum(gradient * D) == pytest.approx(change, rel=1e-4)


def test_shapes_that_do_not_fit_together_are_refused():
    one, two = np.zeros((1, 3)), np.zeros((2, 3))
    good = {"joint": np.array([1]), "a": one, "b": one, "radius": np.array([0.1]), "links": ("x",)}
    rest = {"pairs": np.zeros((0, 2), int), "planes": np.zeros((0, 4)), "plane_shapes": np.array([0])}
    assert Shapes(**good, **rest).margin == 0.02
    for wrong in ({"joint": np.array([1, 2])}, {"a": two}, {"b": two}, {"links": ("x", "y")}):
        with pytest.raises(InputError, match="do not fit"):
            Shapes(**(good | wrong), **rest)
    for wrong in (
        {"a": np.array([[0.0, np.nan, 0.0]])},
        {"a": np.array([[0.0, 0.0, np.inf]])},
        {"b": np.array([[0.0, np.nan, 0.0]])},
        {"b": np.array([[-np.inf, 0.0, 0.0]])},
        {"radius": np.array([0.0])},
        {"radius": np.array([np.nan])},
    ):
        with pytest.raises(InputError, match="no positive radius or no finite ends"):
            Shapes(**(good | wrong), **rest)
    for margin in (-1e-9, np.nan, np.inf):
        with pytest.raises(InputError, match="margin"):
            Shapes(**good, **rest, margin=margin)
    assert Shapes(**good, **rest, margin=0.0).margin == 0.0


def test_pairs_are_found_whatever_the_order_and_only_of_different_links_that_are_no_neighbours():
    robot = three_dof()
    arm = [*capsules_of_the_arm(), ("hand", 3, np.array([0.4, 0.0, 0.0]), np.array([0.5, 0.0, 0.1]), 0.03)]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        shapes = make_shapes(robot, [arm[k] for k in order])
        named = {frozenset((shapes.links[i], shapes.links[k])) for i, k in shapes.pairs}
        assert named == {frozenset(("base", x)) for x in ("upper", "fore", "hand")} and shapes.close == ()
        assert sorted(shapes.links[k] for k in shapes.plane_shapes) == ["fore", "hand", "upper"]


def test_a_shape_is_held_from_every_plane_if_it_moves_to_or_from_any():
    """Turning about the vertical never changes the height, but the way to a wall."""
    robot = Robot("turntable", (Joint("turn", 0, limits=OWN[0]),))
    arm = [("arm", 1, np.array([0.1, 0.0, 0.2]), np.array([0.5, 0.0, 0.2]), 0.05),
           ("hub", 1, np.array([0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.2]), 0.05)]  # fmt: skip
    shapes = make_shapes(robot, arm, planes=planes_of(0.0, [-0.3, 0.9, -0.9, 0.9, -1.0, 1.0]))
    assert [shapes.links[k] for k in shapes.plane_shapes] == ["arm"]
    q = np.linspace(-1.0, 2.0, 301)[:, None]
    assert clearance(robot, shapes, q) == (pytest.approx(0.3 + 0.5 * np.cos(2.0) - 0.05), "arm and plane 2")


@pytest.mark.parametrize(("share", "kept"), [(0.85, True), (0.95, False)])
def test_pairs_that_are_together_in_nearly_every_pose_belong_together(share, kept):
    robot, arm = three_dof(), [c for c in capsules_of_the_arm() if c[0] != "fore"]
    loose = make_shapes(robot, arm, margin=0.0)
    pair = distances(robot, loose, random_poses(robot, 400, np.random.default_rng(0)))[0]
    shapes = make_shapes(robot, arm, margin=float(np.quantile(pair[:, 0], share)))
    assert len(shapes.pairs) == int(kept) and shapes.close == (() if kept else (("base", "upper"),))


def test_random_poses_fill_the_limits_and_half_a_turn_where_there_are_none():
    own = (OWN[0], Limits(-5.0, 4.0), Limits(), Limits(-np.inf, 1.0))
    robot = Robot("r", tuple(Joint(f"j{k}", k, limits=x) for k, x in enumerate(own)))
    q = random_poses(robot, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(q.min(axis=0), [-1.0, -np.pi, -np.pi, -np.pi], atol=0.01)
    np.testing.assert_allclose(q.max(axis=0), [2.0, np.pi, np.pi, 1.0], atol=0.01)
    beyond = ((4.0, 5.0), (-5.0, -4.0), (4.0, np.inf), (-np.inf, -4.0), (3.0, 9.0), (-9.0, -3.0))
    wanted = ((4.0, 5.0), (-5.0, -4.0), (4.0, 4.0 + 2 * np.pi), (-4.0 - 2 * np.pi, -4.0), (3.0, np.pi), (-np.pi, -3.0))
    robot = Robot("r", tuple(Joint(f"j{k}", k, limits=Limits(*x)) for k, x in enumerate(beyond)))
    q = random_poses(robot, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(np.transpose((q.min(axis=0), q.max(axis=0))), wanted, atol=0.01)


def test_a_floor_and_a_box_with_open_sides():
    normal, offset = planes_of(-0.25)[0]
    assert list(normal) == [0.0, 0.0, 1.0] and offset == -0.25
    planes = planes_of(0.1, [-np.inf, 0.6, -0.7, np.inf, -np.inf, np.inf])
    assert [(list(n), d) for n, d in planes] == [([0, 0, 1], 0.1), ([-1, 0, 0], -0.6), ([0, 1, 0], -0.7)]
    for floor in (np.inf, -np.inf, np.nan):
        with pytest.raises(InputError, match="floor"):
            planes_of(floor)
    good = [-0.5, 0.6, -0.7, 0.8, -0.4, 0.9]
    assert len(planes_of(None, good)) == 6
    for bad in (good[:4], [*good, 1.0, 2.0], *(good[:k] + good[k : k + 2][::-1] + good[k + 2 :] for k in (0, 2, 4))):
        with pytest.raises(InputError, match="a workspace of"):
            planes_of(None, bad)
    for k in range(6):
        for value in (np.nan, good[k ^ 1]):
            with pytest.raises(InputError, match="a workspace of"):
                planes_of(None, [value if j == k else x for j, x in enumerate(good)])


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


def test_an_unknown_acceleration_reaches_the_speed_that_is_allowed_and_all_such_joints_are_named():
    b = bounds_of(uneven([replace(x, acceleration=np.inf) for x in OWN]), 0.1, Caps(velocity=1.0))
    np.testing.assert_allclose(b.acceleration, [0.9 * 1.0 / 0.5, 0.9 * 1.0 / 0.5, 0.9 * 0.7 / 0.5])
    assert "for j1, j2, j3: reaching full speed takes 0.5 s" in b.notes[0]
    capped = bounds_of(uneven([replace(x, acceleration=np.inf) for x in OWN]), 0.0, Caps(acceleration=4.0))
    np.testing.assert_allclose(capped.acceleration, 4.0)
    assert capped.notes == ()


def test_a_robot_that_cannot_move_is_told_its_limits():
    with pytest.raises(InputError, match=r"position 0\.4 to 0\.4, velocity 0\.7, acceleration 3") as told:
        bounds_of(uneven((OWN[0], OWN[1], replace(OWN[2], lower=0.4))), 0.0)
    assert told.value.source == "three" and "hold: {j3: VALUE}" in str(told.value)


def test_margins_and_caps_count_in_the_check_of_a_trajectory():
    """A way of 0.5 rad in a second: what is enough of each limit, and what is not."""
    robot = uneven()
    q = np.zeros((2, 3))
    q[1, 1] = -0.5
    move = Trajectory(robot.active_names, through_points(np.array([0.0, 1.0]), q, 0 * q))
    speed, push = 1.875 * 0.5, 10.0 / np.sqrt(3.0) * 0.5
    none = np.zeros(42)
    assert check_trajectory(robot, move, none) == []
    for kind, value in (("position", 0.5), ("velocity", speed), ("acceleration", push)):
        assert check_trajectory(robot, move, none, caps=Caps(**{kind: 1.001 * value})) == []
        found = check_trajectory(robot, move, none, caps=Caps(**{kind: 0.999 * value}))
        assert {(p.joint, p.quantity) for p in found} == {("j2", kind)}
    for kind, value in (("velocity", speed), ("acceleration", push)):
        for share, kept in ((1.001, True), (0.999, False)):
            found = check_trajectory(robot, move, none, margin=0.1, caps=Caps(**{kind: share * value / 0.9}))
            assert {(p.joint, p.quantity) for p in found} == (set() if kept else {("j2", kind)})
    (found,) = check_trajectory(robot, move, none, caps=Caps(position=0.4995))
    assert "reaches -0.5, the limit is -0.4995" in str(found)


def test_neighbours_are_links_that_a_joint_joins_whatever_their_numbers():
    """Of a tree: two branches on the first link are kept apart from each other, none of them from that link."""
    limits = Limits(-1.0, 1.5, 1.0, 1.0)
    joints = (
        Joint("a", 0, limits=limits),
        Joint("b", 1, alpha=1.0, d=0.5, limits=limits),
        Joint("c", 1, alpha=-1.0, d=-0.5, limits=limits),
    )
    robot, far = Robot("tree", joints), [np.array([0.3, 0.1 * k, 0.05]) for k in range(4)]
    made = make_shapes(robot, [(f"l{k}", k, far[k], far[k], 0.05) for k in range(4)], margin=0.0)
    named = {frozenset((made.links[i], made.links[k])) for i, k in made.pairs}
    assert named == {frozenset(("l2", "l3")), frozenset(("l0", "l2")), frozenset(("l0", "l3"))}
    term, q = collision_term(robot, replace(made, margin=0.6)), random_poses(robot, 20, np.random.default_rng(0))
    _, gradient = term(q)
    for joint in range(3):
        D = 1e-6 * np.eye(3)[joint]
        change = (term(q + D)[0] - term(q - D)[0]) / 2e-6
        assert abs(change) > 0.1 and np.sum(gradient[:, joint]) == pytest.approx(change, rel=1e-4)


@pytest.mark.parametrize("field", ["lower", "upper", "velocity", "acceleration"])
def test_a_limit_that_is_no_number_is_not_kept(field):
    curve, bounds = random_motion(np.random.default_rng(0), 0.01), bounds_of(uneven(), 0.0)
    assert limit_problems(uneven(), curve, bounds) == []
    broken = replace(bounds, **{field: np.where(np.arange(3) == 1, np.nan, getattr(bounds, field))})
    assert {p.joint for p in limit_problems(uneven(), curve, broken)} == {"j2"}


@pytest.mark.parametrize("gap", [-0.05, 0.3])
def test_what_no_pose_changes_is_neither_kept_apart_nor_called_close(gap):
    """Two joints about the same axis: what lies on it stays where it is."""
    limits = Limits(-1.0, 1.5, 1.0, 1.0)
    robot = Robot("coaxial", (Joint("a", 0, limits=limits), Joint("b", 1, r=0.2 + gap, limits=limits)))
    zero = np.zeros(3)
    aside = np.array([0.5, 0.0, 0.0])
    shapes = make_shapes(robot, [("base", 0, zero, zero, 0.1), ("top", 2, zero, zero, 0.1)])
    assert len(shapes.pairs) == 0 and shapes.close == ()
    shapes = make_shapes(robot, [("base", 0, aside, aside, 0.1), ("top", 2, aside, aside, 0.1)])
    assert len(shapes.pairs) == 1


def test_shapes_that_only_the_base_carries_are_near_nothing():
    robot, at = three_dof(), np.array([0.0, 0.0, 0.1])
    shapes = make_shapes(robot, [("base", 0, at, at, 0.05)], planes=planes_of(0.0))
    assert clearance(robot, shapes, np.zeros((3, 3))) == (np.inf, "nothing")
    found = nearest(robot, shapes, np.zeros((3, 3)))
    assert np.all(np.isinf(found.distance)) and collision_term(robot, shapes)(np.zeros((3, 3)))[0] == 0.0
    pair, plane = distances(robot, shapes, np.zeros((3, 3)))
    assert pair.shape == (3, 0) and plane.shape == (3, 1, 0)


def test_where_two_axes_cross_everything_is_a_number():
    robot = three_dof()
    zero, stick = np.zeros(3), np.array([0.3, 0.0, 0.0])
    shapes = Shapes(
        np.array([0, 3]), np.stack((zero, zero)), np.stack((zero, -stick - stick)), np.array([0.1, 0.05]),
        ("base", "fore"), np.array([[0, 1]]), np.zeros((0, 4)), np.array([1]), 0.02,
    )  # fmt: skip
    q = np.array([[0.0, 0.0, 0.0]])
    a, b = (frames(robot, q)[0, 2] @ [*end, 1.0] for end in (zero, -2 * stick))
    base = replace(shapes, a=np.stack((0.5 * (a + b)[:3], zero)), b=np.stack((0.5 * (a + b)[:3], -2 * stick)))
    with np.errstate(all="raise"):
        found = nearest(robot, base, q)
        value, gradient = collision_term(robot, base)(q)
    assert found.distance[0] == pytest.approx(-0.15) and np.all(np.isfinite(found.p)) and np.all(np.isfinite(found.r))
    assert value == pytest.approx(((1.15 * 0.02 + 1e-3 + 0.15) / 0.05) ** 2) and np.all(np.isfinite(gradient))


@pytest.mark.parametrize(("low", "high"), [(-2.4, -1.0), (-0.9, 0.45), (-2.45, -2.4)])
def test_a_motion_on_either_side_of_zero_keeps_its_limits(low, high):
    """Each end of a range counts for itself: the second joint may go from -2.5 to 0.5."""
    robot, q = uneven(), np.zeros((3, 3))
    q[:, 1] = low, high, low
    curve = through_points(np.array([0.0, 3.0, 6.0]), q, 0 * q)
    bounds = bounds_of(robot, 0.0)
    assert limit_problems(robot, curve, bounds) == []
    flipped = replace(bounds, lower=-bounds.upper, upper=-bounds.lower)
    assert limit_problems(robot, curve.mapped(-np.eye(3), np.zeros(3)), flipped) == []
