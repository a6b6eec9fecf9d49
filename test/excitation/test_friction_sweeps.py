# SPDX-License-Identifier: Apache-2.0

"""Friction sweeps: each joint at constant speeds, both ways, under low, medium and high gravity load."""

from __future__ import annotations

import numpy as np
import pytest

from gantry import ROBOT
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import static
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.model.parameters import standard_vector

BOUNDS = bounds_of(ROBOT, 0.0)


MIDDLE = np.array([0.5, -1.25, 0.7])


CHI = standard_vector(ROBOT)


@pytest.mark.parametrize("loads", [1, 2, 4])
def test_poses_of_sweeps_from_little_to_much_gravity(loads):
    rng = np.random.default_rng(0)
    pool = [MIDDLE, *rng.uniform(BOUNDS.lower, BOUNDS.upper, (40, 3))]
    found = sweeps.choose_sweep_poses(ROBOT, BOUNDS, None, CHI, pool, 1, loads, 0.3)

    def load(pose):
        low, high = static.sweep_span(ROBOT, BOUNDS, None, pose, 1, 0.3)
        way = np.repeat(pose[None], 9, axis=0)
        way[:, 1] = np.linspace(low, high, 9)
        return np.mean(np.abs(gravity_torque(ROBOT, CHI, way)[:, 1]))

    every = np.array([load(pose) for pose in pool])
    wanted = np.linspace(every.min(), every.max(), loads) if loads > 1 else [every.max()]
    best = [int(np.argmin(np.abs(every - size))) for size in wanted]
    np.testing.assert_allclose([pose for pose, _, _ in found], [pool[k] for k in dict.fromkeys(best)])
    for pose, low, high in found:
        assert (low, high) == static.sweep_span(ROBOT, BOUNDS, None, pose, 1, 0.3)
    (alone,) = sweeps.choose_sweep_poses(ROBOT, BOUNDS, None, CHI, pool, 0, loads, 0.3)  # a vertical axis
    np.testing.assert_array_equal(alone[0], MIDDLE)
    (bare,) = sweeps.choose_sweep_poses(ROBOT, BOUNDS, None, None, pool, 1, loads, 0.3)
    np.testing.assert_array_equal(bare[0], MIDDLE)
