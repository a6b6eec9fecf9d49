# SPDX-License-Identifier: Apache-2.0

"""Limits: margins, caps, refusals, and the check of trajectories on exact extrema."""

from __future__ import annotations

import numpy as np
import pytest

from excitation_robots import three_dof
from gantry import ROBOT
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import Caps, bounds_of, check_trajectory, use_of
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.static import approach
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.robot import Joint, Limits, Passive, Robot


def test_margin_and_caps():
    b = bounds_of(three_dof(), 0.1, Caps(position=2.0, acceleration=5.0))
    np.testing.assert_allclose(b.upper, 1.8)
    np.testing.assert_allclose(b.lower, -1.8)
    np.testing.assert_allclose(b.velocity, 2.7)
    np.testing.assert_allclose(b.acceleration, 4.5)
    np.testing.assert_allclose(b.effort, 180.0)


def test_unknown_acceleration_is_said():
    robot = three_dof(acceleration=np.inf)
    b = bounds_of(robot, 0.0)
    np.testing.assert_allclose(b.acceleration, 6.0)
    assert "acceleration" in b.notes[0]


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"lower": -np.inf}, "position"),
        ({"velocity": np.inf}, "velocity"),
        ({"velocity": 0.0}, "cannot move"),
        ({"lower": 1.0, "upper": 1.0}, "cannot move"),
    ],
)
def test_robots_without_or_with_impossible_limits(limits, word):
    values = {"lower": -1.0, "upper": 1.0, "velocity": 1.0} | limits
    with pytest.raises(InputError, match=word):
        bounds_of(Robot("r", (Joint("a", 0, limits=Limits(**values)),)))


@pytest.mark.parametrize("margin", [-0.1, 1.0, np.nan])
def test_margins_that_are_none(margin):
    with pytest.raises(InputError):
        bounds_of(three_dof(), margin)


def test_check_finds_what_is_between_samples():
    # an extremum of the position between knots, which no sample of the file shows
    t, q, dq = np.array([0.0, 1.0, 2.0]), np.zeros((3, 3)), np.zeros((3, 3))
    q[1], dq[1, 0] = 0.99 * np.pi, 1.0
    problems = check_trajectory(three_dof(), Trajectory(("j1", "j2", "j3"), through_points(t, q, dq)))
    assert {p.quantity for p in problems} == {"position", "velocity", "acceleration"} or problems[0].joint == "j1"
    assert any(p.joint == "j1" and p.quantity == "position" for p in problems)


def test_check_knows_joint_names_in_any_order():
    robot = three_dof()
    move = approach(robot, [0, 0, 0], [1.0, -2.0, 0.5])
    assert check_trajectory(robot, move) == []
    order = [2, 0, 1]
    curve = move.curve.mapped(np.eye(3)[order], np.zeros(3))
    assert check_trajectory(robot, Trajectory(tuple(robot.active_names[k] for k in order), curve)) == []
    for k, name in enumerate(robot.active_names):  # the one that is wrong is named, first or last
        for other, told in (("a", "a"), ("z", name)):
            names = [other if i == k else same for i, same in enumerate(robot.active_names)]
            (found,) = check_trajectory(robot, Trajectory(tuple(names), move.curve))
            assert (
                found.joint == told
                and str(found) == f"joint {told!r} is in the trajectory or in the robot, but not in both"
            )


def test_torque_and_rest_are_checked():
    robot = three_dof(effort=30.0)
    move = approach(robot, [0, 0, 0], [1.0, -2.0, 0.5])
    assert any(p.quantity == "effort" for p in check_trajectory(robot, move))
    moving = Trajectory(robot.active_names, through_points(np.array([0.0, 1.0]), np.zeros((2, 3)), np.ones((2, 3))))
    assert any(p.quantity == "rest" for p in check_trajectory(robot, moving))


def test_passive_joints_keep_their_own_limits():
    wide, narrow = Limits(-3, 3, 5, 50), Limits(-0.5, 0.5, 5, 50)
    robot = Robot(
        "loop",
        (Joint("a", 0, limits=wide), Joint("p", 1, limits=narrow), Joint("b", 2, limits=wide)),
        passive=(Passive(2, {1: 1.0, 3: -1.0}),),
    )
    t = np.array([0.0, 2.0])
    zero = np.zeros((2, 2))
    together = Trajectory(("a", "b"), through_points(t, np.array([[0, 0], [1.0, 1.0]]), zero))
    apart = Trajectory(("a", "b"), through_points(t, np.array([[0, 0], [1.0, -1.0]]), zero))
    assert check_trajectory(robot, together) == []
    assert check_trajectory(robot, apart)[0].joint == "p"


def test_use_is_the_fraction_of_the_limit():
    robot = three_dof()
    use = use_of(robot, approach(robot, [0, 0, 0], [np.pi / 2, 0, 0], speed=1.0).curve, bounds_of(robot, 0.0))
    assert use["position"] == pytest.approx(0.5)
    assert max(use["velocity"], use["acceleration"]) == pytest.approx(1.0)


def test_approach_refuses_what_is_outside():
    with pytest.raises(InputError, match="outside"):
        approach(three_dof(), [4.0, 0, 0], [0, 0, 0])


def test_limits_of_a_request_beside_the_robots():
    bounds = bounds_of(ROBOT, 0.1, Caps(velocity=1.5))
    np.testing.assert_allclose(bounds.velocity, 0.9 * np.array([1.5, 1.0, 1.5]))
