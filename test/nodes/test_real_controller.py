# SPDX-License-Identifier: Apache-2.0

"""The excitation beside ros2_control's own joint_trajectory_controller: by topic and by action, stops, and switches."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from std_srvs.srv import Trigger

from motions import saved_motion
from real_control import CONTROLLER, RealControl, need_ros2_control
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.nodes.common.caller import ClientError
from ros_graph import graph

START = (0.0, -1.0, 0.0)


@contextlib.contextmanager
def scene(folder, action, **controller):
    """Yield the graph and the controller manager; its controller is inactive, a slow motion is planned."""
    need_ros2_control()
    with graph(folder) as made:
        control = RealControl(made, START, **controller)
        try:
            saved_motion(folder / "trajectories", made.robot)
            long_motion(folder / "trajectories", made.robot)
            way = {"action": f"/{CONTROLLER}/follow_joint_trajectory"} if action else {}
            made.start(
                "excitation", start_delay=0.0, settle_seconds=0.1, approach_speed=0.6, stale_seconds=0.5,
                collisions="false", remap=(f"joint_trajectory:=/{CONTROLLER}/joint_trajectory",), **way,
            )  # fmt: skip
            made.ready("excitation")
            made.client.position()
            made.client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
            yield made, control
        finally:
            control.close()


def long_motion(folder, robot):
    """Write a minute at 100 Hz."""
    t = np.linspace(0.0, 60.0, 6001)
    size, w = np.array([0.4, 0.3, 0.5]), 2 * np.pi / 5.0
    q = np.array(START) + size * ((1 - np.cos(w * t)) / 2)[:, None]
    dq = size * (w / 2 * np.sin(w * t))[:, None]
    dq[[0, -1]] = 0.0
    save_trajectory(folder / "long.yaml", Trajectory(robot.active_names, through_points(t, q, dq)), 100.0)


def reached(made, *states, timeout=40.0):
    """Wait for one of these states of the excitation and return it."""
    made.client.wait(lambda: made.client.excitation_state.text.startswith(states), timeout, f"{states}")
    return made.client.excitation_state.text


def is_refused(made):
    """Ask for a start; return whether the inactive controller was named: it is once the manager has been found."""
    try:
        made.client.call(Trigger, "excitation/start")
    except ClientError as error:
        return f"{CONTROLLER} is inactive; activate it" in str(error)
    made.client.call(Trigger, "excitation/stop")
    reached(made, "aborted")
    return False


def in_motion(made, speed=0.08):
    """Start and wait until the robot moves along the trajectory."""
    made.run()
    assert reached(made, "exciting", "aborted") == "exciting"
    made.client.wait(lambda: made.client.speed() > speed, 20.0, "the motion")


@pytest.mark.timeout(170)
@pytest.mark.parametrize("action", [False, True], ids=["topic", "action"])
def test_the_real_controller_moves_stops_and_is_named_when_it_is_off(tmp_path, action):
    with scene(tmp_path, action, interpolate_from_desired_state=True) as (made, control):
        made.client.wait(lambda: is_refused(made), 20.0, "the refusal")
        control.switch(on=[CONTROLLER])
        made.run()
        assert reached(made, "done", "aborted") == "done"
        in_motion(made)
        made.client.call(Trigger, "excitation/stop")
        assert "stop was called" in reached(made, "aborted")
        in_motion(made)
        control.switch(off=[CONTROLLER])
        if action:
            assert "deactivate" in reached(made, "aborted") or "is inactive" in made.client.excitation_state.text
        else:
            assert f"the controller {CONTROLLER} is inactive" in reached(made, "aborted"), "not: off its reference"
        with pytest.raises(ClientError, match=f"{CONTROLLER} is inactive"):
            made.client.call(Trigger, "excitation/start")
        control.switch(on=[CONTROLLER])
        a_plan_of_a_minute_arrives(made)
        assert "interpolate_from_desired_state" not in made.log("excitation")


def a_plan_of_a_minute_arrives(made):
    """Of 6001 points as few are sent as the curve needs: none is lost."""
    made.client.call(PlanExcitation, "excitation/plan", file=["long.yaml"])
    for _ in range(3):
        in_motion(made)
        time.sleep(0.5)
        assert made.client.excitation_state.state == ExcitationState.EXCITING
        made.client.call(Trigger, "excitation/stop")
        assert "stop was called" in reached(made, "aborted")


@pytest.mark.timeout(120)
def test_a_controller_that_steps_back_at_a_stop_is_advised(tmp_path):
    with scene(tmp_path, False, interpolate_from_desired_state=False) as (made, control):
        control.switch(on=[CONTROLLER])
        in_motion(made)
        assert "set its parameter interpolate_from_desired_state to true" in made.log("excitation")
        made.client.call(Trigger, "excitation/stop")
        assert "stop was called" in reached(made, "aborted")
