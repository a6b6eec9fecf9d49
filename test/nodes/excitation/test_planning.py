# SPDX-License-Identifier: Apache-2.0

"""Plans that are asked for, and files that are taken for plans: what is not safe is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from ros2_dynid.srv import PlanExcitation

from motions import saved_motion
from publishing_node import OneNode
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.excitation.parameters import PARAMETERS
from ros2_dynid.nodes.excitation.planning import Planner, SafePlan, plan_request
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = load_robot("demo3")
START = np.array([0.0, -1.0, 0.0])
SOURCE = RobotSource(path="demo3")


def values(**given):
    """Return what gives a parameter's value."""
    return {**{parameter.name: parameter.default for parameter in PARAMETERS}, **given}.__getitem__


@pytest.fixture
def planner(tmp_path):
    """Return a planner of demo3 without a graph, what answers its requests, and what it publishes."""
    node = OneNode()
    given = values(folder=str(tmp_path / "plans"), collisions=False, point_rate=10.0)
    made = Planner(node, given, lambda: ROBOT, lambda: SOURCE)

    def ask(**fields):
        return node.made["~/plan"](PlanExcitation.Request(**fields), PlanExcitation.Response())

    yield made, ask, node.made["~/planned"].sent
    made.close()


def test_a_request_says_what_differs_from_the_parameters():
    box = [-1.0, 1.5, -2.0, 2.5, -3.0, 3.5]
    given = values(
        method="points", duration=7.0, planning_seconds=3.0, collisions=False, collision_margin=0.07, workspace=box
    )
    request = plan_request(PlanExcitation.Request(seed=5), SOURCE, Path("out.yaml"), given)
    assert (str(request.method), request.seed, request.duration, request.time_budget) == ("points", 5, 7.0, 3.0)
    around = request.surroundings
    assert (around.collisions, around.margin, around.box) == (False, 0.07, tuple(box))
    assert request.robot == SOURCE and request.output == "out.yaml"
    asked = PlanExcitation.Request(method=["fourier"], duration=[9.0])
    request = plan_request(asked, SOURCE, Path("out.yaml"), given)
    assert (str(request.method), request.duration) == ("fourier", 9.0)
    around = plan_request(PlanExcitation.Request(), SOURCE, Path("out.yaml"), values()).surroundings
    assert (around.collisions, around.margin, around.box) == (True, 0.02, None), "by default there are no walls"


def test_a_file_is_taken_from_the_folder_alone(planner, tmp_path):
    made, ask, planned = planner
    saved_motion(tmp_path / "plans", ROBOT)
    answer = ask(file=["slow.yaml"])
    assert answer.success and math.isnan(answer.cond) and answer.message == str(tmp_path / "plans" / "slow.yaml")
    assert list(answer.trajectory.joint_names) == list(ROBOT.active_names) and planned == [answer.trajectory]
    assert len(answer.trajectory.points) == 61, "6 s at point_rate"
    assert made.plan.robot is ROBOT and made.plan.trajectory.joint_names == ROBOT.active_names
    saved_motion(tmp_path, ROBOT)
    kept = made.plan
    assert "not inside the folder" in ask(file=["../slow.yaml"]).message
    assert made.plan is kept, "a refusal leaves the plan that there was"
    assert ask(file=["slow.yaml"]).success


def test_a_trajectory_beyond_a_limit_is_refused(planner, tmp_path):
    made, ask, _ = planner
    fast = np.array([(0.0, -1.0, 0.0), (1.0, -0.5, 1.0), (0.0, -1.0, 0.0)])
    curve = through_points(np.array([0.0, 0.1, 0.2]), fast, np.zeros((3, 3)))
    (tmp_path / "plans").mkdir(exist_ok=True)
    save_trajectory(tmp_path / "plans" / "fast.yaml", Trajectory(ROBOT.active_names, curve))
    answer = ask(file=["fast.yaml"])
    assert not answer.success and "the trajectory is not safe" in answer.message and made.plan is None


def test_a_plan_takes_no_more_points_than_its_rate():
    t = np.linspace(0.0, 4.0, 201)
    q = START + ((1 - np.cos(5 * np.pi * t)) / 20)[:, None]
    dq = (np.sin(5 * np.pi * t) * np.pi / 4)[:, None] * np.ones(3)
    dq[[0, -1]] = 0.0
    made = SafePlan(ROBOT, Trajectory(ROBOT.active_names, through_points(t, q, dq)), None)
    few, many = (made.points(made.trajectory, rate) for rate in (5.0, 500.0))
    assert len(few.t) <= 5.0 * 4.0 + 1 < len(many.t)
    assert few.joint_names == ROBOT.active_names and few.duration == pytest.approx(4.0)
