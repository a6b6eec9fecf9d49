# SPDX-License-Identifier: Apache-2.0

"""Sending trajectories to a joint trajectory controller: by topic, or by FollowJointTrajectory with control_msgs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from rclpy.serialization import serialize_message
from rclpy.time import Time
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.reference import Reference
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS

Refused = Callable[[int, str], None]
"""Takes the number of a command and why the controller refused it or gave it up."""
WHOLE_BYTES = 60_000
"""What fits one datagram: longer messages travel in fragments, and a best-effort subscription, such as that of a joint
trajectory controller, gets all of them or nothing."""
_STAMP = {1: struct.Struct("<iI"), 0: struct.Struct(">iI")}


class Sender(Protocol):
    """The way to the controller."""

    def prepare(self, points: Reference) -> None:
        """Build the message now, so that sending takes no time."""

    def send(self, points: Reference, delay: float, number: int) -> None:
        """Send a trajectory, which replaces the one followed; it starts on arrival, or `delay` [s] from now."""

    def problem(self) -> str:
        """Return what is wrong with the connection, or nothing ("")."""

    @property
    def name(self) -> str:
        """The full name of the topic or the action."""


def _stamp(node: Node, delay: float) -> Time | None:
    """Return the time of the node's clock in `delay` [s]; none for a trajectory that starts on arrival."""
    return node.get_clock().now() + Duration(nanoseconds=int(1e9 * delay)) if delay else None


class TopicSender:
    """Publishes serialized messages: converting a long one takes longer than a robot may wait."""

    def __init__(self, node: Node, topic: str) -> None:
        """Publish on `topic`."""
        self._node = node
        self._publisher = node.create_publisher(JointTrajectory, topic, COMMANDS)
        self._ready: WeakKeyDictionary[Reference, bytes] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The topic, resolved."""
        return str(self._publisher.topic_name)

    def prepare(self, points: Reference) -> None:
        """Build the message now, so that sending takes no time; refuse one that would be lost on the way."""
        data = bytes(serialize_message(trajectory_message(points)))
        if len(data) > WHOLE_BYTES and self._best_effort():
            raise InputError(
                f"the trajectory takes {len(points.t)} points, {len(data) // 1000} kB, and who listens on {self.name}"
                f" is sure of no more than {WHOLE_BYTES // 1000} kB",
                "set the parameter action to the controller's follow_joint_trajectory, or lower point_rate",
            )
        self._ready[points] = data

    def _best_effort(self) -> bool:
        """Return whether a subscription of the topic is not reliable."""
        listeners = self._node.get_subscriptions_info_by_topic(self.name)
        return any(info.qos_profile.reliability is not ReliabilityPolicy.RELIABLE for info in listeners)

    def send(self, points: Reference, delay: float, number: int) -> None:
        """Publish; the stamp, the first field after four bytes of encapsulation, is that of this moment."""
        data = bytearray(self._ready.get(points) or serialize_message(trajectory_message(points)))
        if (stamp := _stamp(self._node, delay)) is not None:
            _STAMP[data[1] & 1].pack_into(data, 4, *divmod(stamp.nanoseconds, 1_000_000_000))
        self._publisher.publish(bytes(data))

    def problem(self) -> str:
        """Return what is wrong with the connection, or nothing ("")."""
        return "" if self._publisher.get_subscription_count() else f"nobody listens on {self.name}"


class ActionSender:
    """Sends goals; an answer belongs to its goal, and what became of one that was replaced is nobody's concern."""

    def __init__(self, node: Node, action: str, refused: Refused) -> None:
        """Send goals to `action`; tell `refused` what went wrong."""
        try:
            from control_msgs.action import FollowJointTrajectory
            from rclpy.action.client import ActionClient
        except ImportError:
            hint = "install ros-DISTRO-control-msgs, or leave the parameter action empty to use the topic"
            raise InputError("control_msgs is not installed", hint) from None
        self._node, self._refused, self.name = node, refused, node.resolve_topic_name(action)
        self._kind: Any = FollowJointTrajectory
        self._client: Any = ActionClient(node, FollowJointTrajectory, action)
        self._ready: WeakKeyDictionary[Reference, JointTrajectory] = WeakKeyDictionary()

    def prepare(self, points: Reference) -> None:
        """Build the message now, so that sending takes no time."""
        self._ready[points] = trajectory_message(points)

    def send(self, points: Reference, delay: float, number: int) -> None:
        """Send a goal."""
        message = self._ready.get(points) or trajectory_message(points)
        stamp = _stamp(self._node, delay)
        message.header.stamp = (stamp or Time()).to_msg()
        goal = self._client.send_goal_async(self._kind.Goal(trajectory=message))
        goal.add_done_callback(partial(self._answered, number))

    def problem(self) -> str:
        """Return what is wrong with the connection, or nothing ("")."""
        return "" if self._client.server_is_ready() else f"the controller's action {self.name} is not there"

    def _answered(self, number: int, future: Any) -> None:
        handle = future.result()
        if handle.accepted:
            handle.get_result_async().add_done_callback(partial(self._ended, number))
        else:
            self._refused(number, "the controller refused the trajectory")

    def _ended(self, number: int, future: Any) -> None:
        result = future.result().result
        if result.error_code != self._kind.Result.SUCCESSFUL:
            self._refused(number, f"the controller gave up: {result.error_string or result.error_code}")
