# SPDX-License-Identifier: Apache-2.0

"""Smooth penalty for exceeding limits, on samples of q, dq, ddq, with its exact gradient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gantry import ROBOT
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.model.parameters import standard_vector

BOUNDS = bounds_of(ROBOT, 0.0)


MIDDLE = np.array([0.5, -1.25, 0.7])


CHI = standard_vector(ROBOT)


def test_a_penalty_counts_each_limit_of_each_joint():
    penalty = Penalty(ROBOT, BOUNDS, tight=0.8, chi=CHI)
    half = 0.5 * (BOUNDS.upper - BOUNDS.lower)
    for j in range(3):
        for k, size in enumerate((half, BOUNDS.velocity, BOUNDS.acceleration)):
            for side in (-1.0, 1.0):
                x = [MIDDLE[None].copy(), np.zeros((1, 3)), np.zeros((1, 3))]
                x[k][0, j] += side * 0.8 * size[j] * 1.25
                value, *gradients = penalty.limits(*x)
                assert value == pytest.approx(0.0625)
                wanted = np.zeros((3, 1, 3))
                wanted[k, 0, j] = side * 2 * 0.25 / (0.8 * size[j])
                np.testing.assert_allclose(gradients, wanted, atol=1e-12)
                x[k][0, j] -= side * 0.8 * size[j] * 0.26
                assert penalty.limits(*x)[0] == 0.0
    tau = np.array([[-600.0, 0.0, 100.0], [0.0, 330.0, 0.0]])
    value, slope = penalty.torques(tau)
    assert value == pytest.approx((600 / 400 - 1) ** 2 + (330 / 320 - 1) ** 2)
    np.testing.assert_allclose(slope[0], [-2 * 0.5 / 400.0, 0.0, 0.0])
    assert penalty.poses(MIDDLE[None])[0] == 0.0
    q = MIDDLE[None] + 0.1
    strong = replace(penalty, bounds=replace(BOUNDS, effort=np.array([1.0, 1.0, 1.0])))
    total, *gradients = strong(q, 0.3 + 0 * q, 0.5 + 0 * q)
    assert total == pytest.approx(
        strong.limits(q, 0.3 + 0 * q, 0.5 + 0 * q)[0] + strong.further(q, 0.3 + 0 * q, 0.5 + 0 * q)[0]
    )
    h = 1e-6
    for k in range(3):
        up = [q, 0.3 + 0 * q, 0.5 + 0 * q]
        down = list(up)
        step = h * np.array([[1.0, -2.0, 0.5]])
        up[k], down[k] = up[k] + step, down[k] - step
        assert (strong(*up)[0] - strong(*down)[0]) / 2 == pytest.approx(np.sum(gradients[k] * step), rel=1e-4)


def test_groups_of_samples_that_a_robot_is_able_to_do():
    penalty = Penalty(ROBOT, BOUNDS, tight=0.9, chi=CHI)
    still = np.zeros((3, 4, 3))
    q = np.tile(MIDDLE, (3, 4, 1))
    tau = np.abs(gravity_torque(ROBOT, CHI, MIDDLE[None])[0])
    assert penalty.able(q, still, still).all()
    k = int(np.argmax(tau))
    effort = np.full(3, np.inf)
    for share, able in ((1.0, False), (1.2, True)):
        effort[k] = share * tau[k] * 1.01
        found = replace(penalty, bounds=replace(BOUNDS, effort=effort)).able(q, still, still)
        assert found.tolist() == [able] * 3
    fast = still.copy()
    fast[1, 2] = 500.0
    effort[k] = 5.0 * tau[k]
    assert replace(penalty, bounds=replace(BOUNDS, effort=effort)).able(q, still, fast).tolist() == [True, False, True]
