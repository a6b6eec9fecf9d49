# SPDX-License-Identifier: Apache-2.0

"""Poses of a robot on its feet: feet, limits and balance, judged by Pinocchio, and what the poses tell."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from ros2_dynid.dynamics.floating_base import base_rotation
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.standing_poses import Sway, standing_poses
from ros2_dynid.model.load import load_robot
from urdf_oracle import example_urdfs

GO2 = next(path for path in example_urdfs() if path.name == "go2.urdf")
ROBOT = load_robot(GO2, floating_base=True)
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
STANCE = np.r_[0, 0, 0.3, 0, 0, 0, np.tile((0.0, 0.8, -1.6), 4)]


def information(q):
    """Return the logarithm of the product of what stands out of the singular values of the rows at rest."""
    rest = np.zeros_like(q)
    Y = regressor(ROBOT, q, rest, rest)[:, :6].reshape(6 * len(q), -1)
    s = np.linalg.svd(Y, compute_uv=False)
    return np.sum(np.log(s[s > 1e-6 * s[0]][:20]))


def test_feet_stay_and_carry_the_weight():
    q = standing_poses(ROBOT, FEET, STANCE, 12)
    assert q.shape == (12, 18)
    model = pin.buildModelFromUrdf(str(GO2), pin.JointModelFreeFlyer())
    data = model.createData()
    places, centres = [], []
    for one in np.vstack((STANCE, q)):
        configuration = pin.neutral(model)
        configuration[:7] = *one[:3], *Rotation.from_matrix(base_rotation(one[None])[0]).as_quat()
        for name, value in zip(ROBOT.active_names[6:], one[6:], strict=True):
            configuration[model.joints[model.getJointId(name)].idx_q] = value
        pin.framesForwardKinematics(model, data, configuration)
        places.append([data.oMf[model.getFrameId(foot)].translation.copy() for foot in FEET])
        centres.append(pin.centerOfMass(model, data, configuration).copy())
    assert np.abs(np.array(places) - places[0]).max() < 1e-6
    edges = ConvexHull(np.array(places[0])[:, :2]).equations
    assert np.max(np.array(centres[1:])[:, :2] @ edges[:, :2].T + edges[:, 2]) <= -Sway().margin + 1e-6
    for joint, column in zip(ROBOT.joints[6:], q[:, 6:].T, strict=True):
        assert column.min() >= joint.limits.lower and column.max() <= joint.limits.upper
    assert np.ptp(q[:, :3], axis=0).min() > 0.03  # and the trunk does move


def test_they_tell_more_than_any_poses_do():
    best = information(standing_poses(ROBOT, FEET, STANCE, 8))
    rng = np.random.default_rng(1)
    every = standing_poses(ROBOT, FEET, STANCE, 60)
    others = [information(every[rng.choice(60, 8, replace=False)]) for _ in range(20)]
    assert best > np.max(others)
    np.testing.assert_array_equal(standing_poses(ROBOT, FEET, STANCE, 3), standing_poses(ROBOT, FEET, STANCE, 8)[:3])


@pytest.mark.parametrize(
    ("feet", "stance", "words"),
    [
        (FEET[:2], STANCE, "span no polygon"),
        (FEET, STANCE[:-1], "shape"),
        (FEET, np.r_[STANCE[:6], np.zeros(12)], "keep feet, limits and balance"),
    ],
)
def test_what_cannot_stand_is_refused(feet, stance, words):
    with pytest.raises(InputError, match=words):
        standing_poses(ROBOT, feet, stance, 5)
    with pytest.raises(InputError, match="floating base"):
        standing_poses(load_robot(GO2), FEET, STANCE, 5)
