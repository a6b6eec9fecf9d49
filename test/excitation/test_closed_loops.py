# SPDX-License-Identifier: Apache-2.0

"""Plans for robots with closed loops: within reach, away from singular poses, within the limits of passive joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linkages import cylinder_arm, four_bar
from ros2_dynid.dynamics.kinematics import motion_of
from ros2_dynid.dynamics.loops import loop_margin
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import check_trajectory, closed_way
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.model.robot import Limits, Robot


def limited(robot: Robot, limits: dict[int, Limits]) -> Robot:
    """Return the robot with limits of joints by number."""
    joints = tuple(replace(joint, limits=limits.get(j, joint.limits)) for j, joint in enumerate(robot.joints, start=1))
    return replace(robot, joints=joints)


def lifted_arm() -> Robot:
    """Return the arm on a cylinder with a rod that is longer than the boom lets it be, and limits of the swivel."""
    drives = {1: Limits(-2, 2, 2, 8), 4: Limits(0.3, 1.4, 0.5, 3), 5: Limits(-2, 2, 3, 10)}
    return limited(cylinder_arm(), drives | {3: Limits(-1.3, -0.3)})


BAR = limited(four_bar(), {1: Limits(-3, 3, 4, 20), 3: Limits(1.5, 2.2, 1.5)})


@pytest.mark.parametrize("robot", [BAR, lifted_arm()], ids=["bar", "arm"])
def test_a_plan_keeps_the_limits_of_passive_joints_and_its_distance_from_singular_poses(robot):
    made = plan(robot, PlanOptions(groups=("inertial",), time_budget_s=60.0, iterations=8, seed=1))
    curve = made.trajectory.curve
    t = np.linspace(0.0, curve.duration, 1733)  # other times than those that were checked
    motion = motion_of(robot, *curve.evaluate(t))
    assert loop_margin(robot, motion.q).min() > 0.015
    for j, joint in enumerate(robot.joints):
        assert joint.limits.lower - 1e-3 <= motion.q[j].min() and motion.q[j].max() <= joint.limits.upper + 1e-3
        assert np.abs(motion.dq[j]).max() <= joint.limits.velocity * (1 + 1e-3)
    assert not check_trajectory(robot, made.trajectory)


def test_the_same_plan_is_refused_where_a_passive_joint_has_tighter_limits():
    robot = lifted_arm()
    made = plan(robot, PlanOptions(groups=("inertial",), time_budget_s=60.0, iterations=4, seed=2))
    q = motion_of(robot, made.trajectory.curve.evaluate(np.linspace(0.0, 10.0, 500))[0]).q[2]
    tighter = limited(robot, {3: Limits(-1.3, float(np.quantile(q, 0.7)))})
    problems = check_trajectory(tighter, made.trajectory)
    assert any(problem.joint == "swivel" and problem.quantity == "position" for problem in problems)


def test_other_kinds_of_trajectories_are_refused_in_one_line():
    with pytest.raises(InputError, match="do not cover closed loops"):
        plan(lifted_arm(), PlanOptions(method="points", time_budget_s=5.0))


def test_a_way_is_free_as_far_as_the_loops_close_and_passive_joints_keep_their_limits():
    robot = lifted_arm()
    rod = np.linspace(0.75, 1.4, 300)
    way = np.column_stack((0.0 * rod, rod, 0.0 * rod))
    free, what = closed_way(robot, way)
    swivel = motion_of(robot, way[:free]).q[2]
    assert "'swivel'" in what and swivel.max() == pytest.approx(-0.29, abs=0.005)
    free_of_limits, what = closed_way(cylinder_arm(), way)
    margin = loop_margin(robot, motion_of(robot, way[:free_of_limits]).q)
    assert "the loops would" in what and free_of_limits > free
    assert margin.min() > 0.02 and margin[-1] < 0.2
    assert closed_way(robot, way[:5]) == (5, "")
