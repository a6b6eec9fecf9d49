# SPDX-License-Identifier: Apache-2.0

"""Trajectories through FollowJointTrajectory, where control_msgs is installed: run, stop, and a refusal."""

from __future__ import annotations

import importlib
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
pytest.importorskip("control_msgs.action")

import rclpy
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionServer, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.nodes.common.caller import ClientError
from ros_graph import graph


class Controller:
    """A joint trajectory controller's action: passes goals on to the robot; a new goal ends the one before."""

    def __init__(self) -> None:
        self.node = rclpy.create_node("arm_controller")
        self.goals: list[JointTrajectory] = []
        self.willing = True
        self._out = self.node.create_publisher(JointTrajectory, "joint_trajectory", 10)
        self._server = ActionServer(
            self.node,
            FollowJointTrajectory,
            "~/follow_joint_trajectory",
            self._execute,
            goal_callback=lambda goal: GoalResponse.ACCEPT if self.willing else GoalResponse.REJECT,
            callback_group=ReentrantCallbackGroup(),
        )
        self._executor = MultiThreadedExecutor(4)
        self._executor.add_node(self.node)
        threading.Thread(target=self._executor.spin, daemon=True).start()

    def _execute(self, handle):
        trajectory = handle.request.trajectory
        self.goals.append(trajectory)
        number = len(self.goals)
        self._out.publish(trajectory)
        last = trajectory.points[-1].time_from_start
        end = time.monotonic() + last.sec + 1e-9 * last.nanosec
        while time.monotonic() < end and number == len(self.goals):
            time.sleep(0.005)
        result = FollowJointTrajectory.Result()
        if number == len(self.goals):
            handle.succeed()
        else:
            handle.abort()  # replaced: no fault of the new one
            result.error_code, result.error_string = result.PATH_TOLERANCE_VIOLATED, "replaced"
        return result

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=1.0)


def an_inactive_controller_is_named(controller, client):
    """Ask a controller manager, as far as its messages are installed."""
    messages = pytest.importorskip("controller_manager_msgs.srv")
    state = importlib.import_module("controller_manager_msgs.msg").ControllerState

    def listed(_, response):
        response.controller = [state(name="arm_controller", state="inactive"), state(name="other", state="active")]
        return response

    controller.node.create_service(messages.ListControllers, "/controller_manager/list_controllers", listed)

    def refused():  # once the excitation has found the manager
        try:
            client.call(Trigger, "excitation/start")
        except ClientError as error:
            return "arm_controller is inactive; activate it: ros2 control" in str(error)
        client.call(Trigger, "excitation/stop")
        return False

    client.wait(refused, 20.0, "the refusal")


@pytest.mark.timeout(100)
def test_motions_and_stops_go_through_the_action(tmp_path):
    with graph(tmp_path) as made:
        q = np.array([[0.0, -1.0, 0.0], [0.3, -0.8, 0.2], [0.0, -1.0, 0.0]])
        motion = Trajectory(made.robot.active_names, through_points(np.array([0.0, 2.0, 4.0]), q, 0 * q), "points")
        (tmp_path / "trajectories").mkdir()
        save_trajectory(tmp_path / "trajectories" / "slow.yaml", motion)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        made.start("excitation", action="/arm_controller/follow_joint_trajectory")
        controller = Controller()
        try:
            made.ready("sim_robot", "excitation")
            client = made.client
            client.position()
            client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])

            def started(until):
                made.run()
                client.wait(lambda: client.excitation_state.text.startswith(until), 30.0, "the state")
                return client.excitation_state.text

            assert started(("done", "aborted")) == "done"
            assert np.allclose(client.position(), q[-1], atol=0.05)
            assert started(("exciting", "aborted")) == "exciting"
            client.call(Trigger, "excitation/stop")
            client.wait(lambda: controller.goals[-1].points[-1].time_from_start.sec < 1, 5.0, "the stop")
            assert np.all(np.array(controller.goals[-1].points[-1].velocities) == 0.0)
            client.wait_for_excitation(ExcitationState.ABORTED, timeout=20.0)
            controller.willing = False
            assert "refused the trajectory" in started("aborted")
            controller.willing = True  # the refusal belonged to that goal, and does not stick
            assert started(("done", "aborted")) == "done"
            an_inactive_controller_is_named(controller, client)
        finally:
            controller.close()
