# SPDX-License-Identifier: Apache-2.0

"""Find a pose where the robot can rest: within its limits, without collision, held by its motors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gantry import GANTRY, ROBOT, wall
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import pose as poses
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.model.parameters import standard_vector

NAMES, INDEX = ROBOT.active_names, [0, 1, 2]


BOUNDS = bounds_of(ROBOT, 0.0)


MIDDLE = np.array([0.5, -1.25, 0.7])


CHI = standard_vector(ROBOT)


def test_without_a_start_it_rests_in_the_middle_or_at_zero():
    np.testing.assert_allclose(poses.rest_pose(ROBOT, BOUNDS), MIDDLE)
    zero = poses.rest_pose(ROBOT, BOUNDS, zero_first=True)
    np.testing.assert_allclose(zero, [0.0, -1.25, 0.7]), "zero where that is within the limits"


def test_a_pose_that_is_not_safe_is_left_for_one_that_is():
    np.testing.assert_allclose(poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 0.45, -1.0)), [0.0, -1.25, 0.7])
    found = poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 1.0), seed=3)
    lower, upper = 0.7 * BOUNDS.lower + 0.3 * MIDDLE, 0.7 * BOUNDS.upper + 0.3 * MIDDLE
    assert found[0] >= 1.15 and np.all((found >= lower) & (found <= upper))
    np.testing.assert_array_equal(found, poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 1.0), seed=3))
    for seed in range(3):  # nowhere as far as is enough: the farthest
        assert poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 1.45), seed=seed)[0] > 1.52
    narrow = replace(BOUNDS, lower=np.array([0.5, -2.0, 0.2]), upper=np.array([0.51, -0.5, 1.2]))
    rests = poses.rest_pose(GANTRY, narrow, shapes=wall(0, 0.44))  # beyond the margin, but never by half of it
    assert 0.505 < rests[0] <= 0.51
    with pytest.raises(InputError, match=r"in the middle of its limits hand and plane 1 are 0\.035 m apart"):
        poses.rest_pose(GANTRY, narrow, shapes=wall(0, 0.47))


@pytest.mark.parametrize(("distance", "first"), [(0.16, True), (0.14, False)])
def test_the_first_pose_with_enough_room_is_taken(distance, first):
    found = poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, MIDDLE[0] - distance))
    assert np.allclose(found, MIDDLE) == first


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ([0.0, -1.0], "has 2 values"),
        ([0.0, np.nan, 0.5], "3 values"),
        ([2.1, -1.0, 0.5], f"joint '{NAMES[0]}' at 2.1, outside -1 to 2"),
        ([0.0, -2.1, 0.5], f"joint '{NAMES[1]}'"),
        ([0.0, -1.0, 0.1], f"joint '{NAMES[2]}' at 0.1, outside 0.2 to 1.2"),
    ],
)
def test_starts_that_cannot_be(start, words):
    with pytest.raises(InputError, match=words):
        poses.rest_pose(ROBOT, BOUNDS, start=start)


def test_a_start_is_taken_as_it_is_if_the_robot_can_stand_there():
    start = [2.0, -2.0, 1.2]
    for shapes in (None, wall(0, 1.9499)):
        np.testing.assert_array_equal(poses.rest_pose(GANTRY, BOUNDS, start=start, shapes=shapes), start)
    with pytest.raises(InputError, match="at the start pose hand and plane 1"):
        poses.rest_pose(GANTRY, BOUNDS, start=start, shapes=wall(0, 1.951))


def test_motors_must_hold_the_robot():
    pose = np.array([0.3, -0.9, 0.6])
    tau = np.abs(gravity_torque(ROBOT, CHI, pose[None])[0])
    k = int(np.argmax(tau))
    for share, spare, stands in ((0.99, 1.0, False), (1.01, 1.0, True), (1.4, 1.5, False), (1.6, 1.5, True)):
        effort = np.full(3, np.inf)
        effort[k] = share * tau[k]
        told = poses.fault_of(ROBOT, replace(BOUNDS, effort=effort), None, CHI, pose, spare)
        assert (told == "") == stands and (stands or f"joint '{NAMES[k]}' needs" in told)
    assert poses.fault_of(ROBOT, replace(BOUNDS, effort=np.zeros(3)), None, None, pose) == ""


@pytest.mark.parametrize(
    ("distance", "spare", "fine"), [(0.051, 1.0, True), (0.049, 1.0, False), (0.074, 1.5, False), (0.076, 1.5, True)]
)
def test_room_to_spare_is_asked_for_beyond_the_margin(distance, spare, fine):
    told = poses.fault_of(GANTRY, BOUNDS, wall(0, MIDDLE[0] - distance), None, MIDDLE, spare)
    words = f"hand and plane 1 are {distance:.4g} m apart, the margin is 0.05 m"
    assert (told == "") == fine and (fine or told == words)
