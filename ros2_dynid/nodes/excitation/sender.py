"""Sending trajectories to a joint trajectory controller: by topic, or by FollowJointTrajectory with control_msgs."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from rclpy.duration import Duration
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.reference import Reference
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.messages import COMMANDS, trajectory_message


class Sender:
    """The way to the controller."""

    def __init__(self, node: Any, topic: str, action: str) -> None:
        """Publish on `topic`, or send goals to `action` if it is named."""
        self._topic, self._clock = topic, node.get_clock()
        self._client: Any = None
        self._publisher: Any = None
        self._refused, self._sent = "", 0
        if action:
            try:
                from control_msgs.action import FollowJointTrajectory
                from rclpy.action import ActionClient
            except ImportError:
                cure = "install ros-DISTRO-control-msgs, or leave the parameter action empty to use the topic"
                raise InputError("control_msgs is not installed", cure) from None
            self._kind, self._client = FollowJointTrajectory, ActionClient(node, FollowJointTrajectory, action)
        else:
            self._publisher = node.create_publisher(JointTrajectory, topic, COMMANDS)

    def send(self, points: Reference, begin: float | None = None) -> None:
        """Send a trajectory, which replaces the one followed; it starts on arrival, or at `begin` (monotonic) [s]."""
        stamp = None
        if begin is not None:
            stamp = (self._clock.now() + Duration(nanoseconds=int(1e9 * (begin - time.monotonic())))).to_msg()
        message = trajectory_message(points, stamp)
        if self._publisher is not None:
            self._publisher.publish(message)
            return
        self._refused, self._sent = "", self._sent + 1
        goal = self._client.send_goal_async(self._kind.Goal(trajectory=message))
        goal.add_done_callback(partial(self._answered, self._sent))

    def _answered(self, number: int, future: Any) -> None:
        handle = future.result()
        if handle.accepted:
            handle.get_result_async().add_done_callback(partial(self._ended, number))
        elif number == self._sent:
            self._refused = "the controller refused the trajectory"

    def _ended(self, number: int, future: Any) -> None:
        """Take note of a failure, unless that goal was replaced by a later one: then it was to end early."""
        result = future.result().result
        if number == self._sent and result.error_code != self._kind.Result.SUCCESSFUL:
            self._refused = f"the controller gave up: {result.error_string or result.error_code}"

    def problem(self) -> str:
        """Return what is wrong with the connection, or nothing ("")."""
        if self._publisher is not None:
            lost = self._publisher.get_subscription_count() == 0
            return f"nobody listens on {self._topic}" if lost else ""
        return self._refused or ("" if self._client.server_is_ready() else "the controller's action is gone")
