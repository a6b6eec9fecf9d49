# SPDX-License-Identifier: Apache-2.0

"""Static poses and ramps: they hold still, move at constant velocity, and keep every limit."""

from __future__ import annotations

import numpy as np
import pytest

from excitation_robots import three_dof
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.friction_sweeps import friction_sweeps
from ros2_dynid.excitation.limits import check_trajectory
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
