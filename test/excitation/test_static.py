# SPDX-License-Identifier: Apache-2.0

"""Static poses and ramps: they hold still, move at constant velocity, and keep every limit."""

from __future__ import annotations

import numpy as np
import pytest

from excitation_robots import three_dof
from gantry import AXES, GANTRY, HAND, ROBOT, wall
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import pose as poses
from ros2_dynid.excitation import static
from ros2_dynid.excitation.collision import make_shapes
from ros2_dynid.excitation.friction_sweeps import friction_sweeps
from ros2_dynid.excitation.limits import bounds_of, check_trajectory
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.static import approach, ramps, static_poses
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector


def test_static_poses_are_held_and_tell_gravity():
    robot = three_dof()
    tour = static_poses(robot, poses=8, hold_s=1.5, seed=3)
    assert check_trajectory(robot, tour, margin=0.05) == []
    knots = tour.curve.knots
    held = np.flatnonzero(np.isclose(np.diff(knots), 1.5))
    assert len(held) == 9  # eight poses and the rest at the end
    for k in held:
        s = tour.at(np.linspace(knots[k], knots[k + 1], 7))
        assert np.ptp(s.q, axis=0).max() < 1e-12 and np.abs(s.dq).max() < 1e-9
    poses = tour.at(knots[held[:-1]]).q
    W = regressor(robot, poses, 0 * poses, 0 * poses).reshape(-1, 42)
    # MXR2, MY2, MX3, MY3 and three offsets are all that a robot at rest shows
    sigma = np.linalg.svd(W, compute_uv=False)
    assert np.sum(sigma > 1e-9 * sigma[0]) == 7


def test_ramps_have_constant_velocity_one_joint_at_a_time():
    robot = three_dof()
    found = ramps(robot, speeds=(0.1, 0.3))
    assert check_trajectory(robot, found, margin=0.05) == []
    s = found.sample(200.0)
    assert np.all(np.sum(np.abs(s.dq) > 1e-9, axis=1) <= 1)
    for k in range(3):
        steady = (np.abs(s.ddq[:, k]) < 1e-9) & (np.abs(s.dq[:, k]) > 1e-6)
        speeds = np.unique(np.round(s.dq[steady, k], 6))
        np.testing.assert_allclose(speeds, [-0.855, -0.285, 0.285, 0.855], atol=1e-5)


def test_friction_sweeps_have_several_speeds_and_loads_both_ways():
    robot = load_robot("demo6")
    found = friction_sweeps(robot, speeds=(0.05, 0.3), loads=3, seed=1, candidates=40)
    assert check_trajectory(robot, found, margin=0.05) == []
    s = found.sample(100.0)
    load = gravity_torque(robot, standard_vector(robot), s.q)
    for k in range(1, 4):  # shoulder, elbow and the first of the wrist feel gravity
        alone = np.abs(np.delete(s.dq, k, axis=1)).max(axis=1) < 1e-9
        steady = alone & (np.abs(s.ddq[:, k]) < 1e-9) & (np.abs(s.dq[:, k]) > 1e-6)
        speeds = np.unique(np.round(s.dq[steady, k], 4))
        assert len(speeds[speeds > 0]) >= 2 and np.allclose(speeds, -speeds[::-1])
        size = np.abs(load[steady, k])
        assert np.quantile(size, 0.9) > 3.0 * np.quantile(size, 0.1)
    assert np.allclose(s.q[0], s.q[-1])


def test_approach_is_rest_to_rest_inside_the_limits():
    robot = three_dof()
    move = approach(robot, [0.1, 0.2, 0.3], [3.0, -3.0, 0.3], speed=0.5)
    s = move.at(np.array([0.0, move.duration]))
    np.testing.assert_allclose(s.q, [[0.1, 0.2, 0.3], [3.0, -3.0, 0.3]], atol=1e-12)
    np.testing.assert_allclose((s.dq, s.ddq), 0.0, atol=1e-9)
    assert np.abs(move.curve.extrema()[1]).max() == pytest.approx(1.5, rel=1e-6)
    assert approach(robot, [0, 0, 0], [0, 0, 0]).duration > 0


def test_refusals():
    with pytest.raises(InputError):
        static_poses(three_dof(), poses=0)
    with pytest.raises(InputError):
        ramps(three_dof(), speeds=(1.5,))
    with pytest.raises(InputError):
        friction_sweeps(three_dof(), loads=0)
    with pytest.raises(InputError):
        approach(three_dof(), [0, 0], [0, 0])
    with pytest.raises(InputError):
        approach(three_dof(), [0, 0, 0], [1, 1, 1], speed=0.0)


NAMES, INDEX = ROBOT.active_names, [0, 1, 2]


BOUNDS = bounds_of(ROBOT, 0.0)


MIDDLE = np.array([0.5, -1.25, 0.7])


CHI = standard_vector(ROBOT)


def post(q):
    """Return shapes of GANTRY with a ball where the hand is at q."""
    place = AXES.T @ np.asarray(q)
    return make_shapes(GANTRY, [HAND, ("post", 0, place, place, 0.01)], margin=0.05)


@pytest.mark.parametrize("speed", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("way", [(1.0, 0.0, 0.0), (0.0, -1.2, 0.0), (0.3, 0.2, 0.9), (0.01, 0.0, 0.0)])
def test_the_time_of_a_move_is_the_shortest_within_the_share_of_the_limits(speed, way):
    a, b = MIDDLE, MIDDLE + np.array(way)
    u = static.time_between(BOUNDS, INDEX, a, b, speed)
    curve = through_points(np.array([0.0, u]), np.array([a, b]), np.zeros((2, 3)))
    _, dq, ddq = curve.evaluate(np.linspace(0.0, u, 4001))
    used = max(np.max(np.abs(dq) / BOUNDS.velocity) / speed, np.max(np.abs(ddq) / BOUNDS.acceleration) / speed, 0.2 / u)
    assert used == pytest.approx(1.0, rel=1e-4) and used <= 1.0
    for wrong in (0.0, -0.1, 1.01):
        with pytest.raises(InputError, match="speed"):
            static.time_between(BOUNDS, INDEX, a, b, wrong)


@pytest.mark.parametrize("joint", [0, 1, 2])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_approach_begins_and_ends_inside(joint, side):
    good, bad = MIDDLE.copy(), MIDDLE.copy()
    good[joint] = BOUNDS.upper[joint] if side > 0 else BOUNDS.lower[joint]
    bad[joint] = good[joint] + 1e-6 * side
    static.approach(ROBOT, MIDDLE, good)
    static.approach(ROBOT, good, MIDDLE)
    for pair in ((MIDDLE, bad), (bad, MIDDLE)):
        with pytest.raises(InputError, match=f"joint '{NAMES[joint]}' begins or ends outside"):
            static.approach(ROBOT, *pair)
    with pytest.raises(InputError, match="begins or ends outside"):
        static.approach(ROBOT, MIDDLE, good, margin=0.01)


def test_a_way_is_clear_if_all_of_it_is():
    a, b = MIDDLE, MIDDLE + np.array([1.0, 0.0, 0.0])
    assert static.way_is_clear(GANTRY, None, a, b)
    assert static.way_is_clear(GANTRY, wall(2, MIDDLE[2] - 0.0501), a, b)
    assert static.way_is_clear(GANTRY, post(a - np.array([0.08, 0.0, 0.0])), a, b)
    for near in (a[0], a[0] + 0.5, b[0]):
        assert not static.way_is_clear(GANTRY, post([near, *a[1:]]), a, b)
    long = MIDDLE + np.array([9.0, 0.0, 0.0])
    between = a[0] + 26.5 * 9.0 / 59.0  # of sixty places along the way none is near
    assert not static.way_is_clear(GANTRY, post([between, *a[1:]]), a, long), "a long way is looked at in more places"


@pytest.mark.parametrize(
    ("joint", "reach", "span"),
    [(0, 0.4, (0.1, 0.9)), (0, 9.0, (-1.0, 2.0)), (1, 9.0, (-2.0, -0.5)), (2, 0.4, (0.3, 1.1)), (2, 0.6, (0.2, 1.2))],
)
def test_how_far_a_joint_may_sweep(joint, reach, span):
    assert static.sweep_span(GANTRY, BOUNDS, None, MIDDLE, joint, reach) == pytest.approx(span)
    end = MIDDLE[joint] + 0.5 * (span[1] - MIDDLE[joint])
    low, high = static.sweep_span(GANTRY, BOUNDS, wall(joint, end + 0.05, -1.0), MIDDLE, joint, reach)
    way = end - MIDDLE[joint]
    assert low == pytest.approx(span[0]) and 0.8 * way <= high - MIDDLE[joint] <= way + 1e-9
    with pytest.raises(InputError, match=f"joint '{GANTRY.active_names[joint]}' cannot do a ramp"):
        static.sweep_span(GANTRY, BOUNDS, wall(joint, MIDDLE[joint]), MIDDLE, joint, reach)


@pytest.mark.parametrize("joint", [0, 1, 2])
def test_a_joint_needs_a_hundredth_to_sweep(joint):
    low, high = static.sweep_span(ROBOT, BOUNDS, None, MIDDLE, joint, 0.00501)
    assert (low, high) == pytest.approx((MIDDLE[joint] - 0.00501, MIDDLE[joint] + 0.00501), abs=1e-12)
    with pytest.raises(InputError, match=f"joint '{NAMES[joint]}' cannot do a ramp"):
        static.sweep_span(ROBOT, BOUNDS, None, MIDDLE, joint, 0.00499)


def test_ramps_of_joints_with_limits_of_their_own():
    found = static.ramps(ROBOT, speeds=(0.1, 0.5), reach=0.4, margin=0.0, start=MIDDLE)
    s = found.sample(400.0)
    for k in range(3):
        moves = np.abs(s.dq[:, k]) > 1e-9
        low, high = static.sweep_span(ROBOT, BOUNDS, None, MIDDLE, k, 0.4)
        assert (s.q[:, k].min(), s.q[:, k].max()) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
        steady = moves & (np.abs(s.ddq[:, k]) < 1e-9)
        a_max = 0.5 * BOUNDS.acceleration[k]
        most = np.sqrt((high - low) * a_max / 3.0)
        wanted = sorted({min(f * BOUNDS.velocity[k], most) for f in (0.1, 0.5)})
        speeds = np.unique(np.round(s.dq[steady, k], 6))
        np.testing.assert_allclose(speeds, [*(-x for x in wanted[::-1]), *wanted], atol=1e-5)
        ramp = np.abs(s.ddq[moves, k])
        assert ramp.max() <= a_max * (1 + 1e-6)
        others = np.delete(s.q, k, axis=1)[moves]
        assert np.ptp(others, axis=0).max() < 1e-9
    np.testing.assert_allclose(s.q[[0, -1]], [MIDDLE, MIDDLE])
    for speeds, reach in (((), 1.0), ((0.0,), 1.0), ((0.5,), 0.0)):
        with pytest.raises(InputError, match="speeds of ramps"):
            static.ramps(ROBOT, speeds=speeds, reach=reach)


def test_static_poses_are_chosen_for_what_they_add():
    tour = static.static_poses(ROBOT, poses=3, hold_s=0.5, seed=1, margin=0.0, start=MIDDLE)
    knots = tour.curve.knots
    q = tour.at(knots).q
    np.testing.assert_allclose(q[[0, -1]], [MIDDLE, MIDDLE])
    assert len(knots) == 9 and np.allclose(np.diff(knots)[1::2], 0.5)
    held = q[1::2]
    np.testing.assert_allclose(held, q[2::2])
    steps = np.diff(knots)[::2]
    for k, (a, b) in enumerate(zip([MIDDLE, *held[:-1]], held, strict=True)):
        assert steps[k] == pytest.approx(static.time_between(BOUNDS, INDEX, a, b, static.SLOW))
    pool = np.random.default_rng(1).uniform(BOUNDS.lower, BOUNDS.upper, (400, 3))
    safe = [pose for pose in pool if not poses.fault_of(ROBOT, BOUNDS, None, CHI, pose)]
    Y = regressor(ROBOT, np.array(safe), np.zeros((len(safe), 3)), np.zeros((len(safe), 3)))
    Y = Y[:, :, np.abs(Y).max(axis=(0, 1)) > 0]
    Y = Y / np.linalg.norm(Y, axis=(0, 1))
    information, left = 1e-6 * np.eye(Y.shape[2]), list(range(len(safe)))
    for pose in held[:3]:  # each adds most to what is known by then
        best = max(left, key=lambda k: np.linalg.slogdet(information + Y[k].T @ Y[k])[1])
        np.testing.assert_allclose(pose, safe[best])
        information = information + Y[best].T @ Y[best]
        left.remove(best)
    for count, hold in ((0, 1.0), (1, 0.0)):
        with pytest.raises(InputError, match="at least one and a positive time"):
            static.static_poses(ROBOT, poses=count, hold_s=hold)
