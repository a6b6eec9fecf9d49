# SPDX-License-Identifier: Apache-2.0

"""Trajectories on their way to the controller."""

from __future__ import annotations

import struct

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from builtin_interfaces.msg import Time
from rclpy.qos import ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory

from publishing_node import OneNode
from ros2_dynid.control.reference import reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.messages import (
    trajectory_message,
)
from ros2_dynid.nodes.excitation.sender import TopicSender

ROBOT = load_robot("demo3")


NAMES = ROBOT.active_names


rng = np.random.default_rng(5)


T = np.array([0.25, 1.000000001, 2.5])


Q, DQ, DDQ, TAU = rng.uniform(-1, 1, (4, 3, 3))


@pytest.mark.parametrize("prepared", [False, True])
def test_a_trajectory_is_stamped_when_it_is_sent(prepared):
    node = OneNode()
    sender = TopicSender(node, "joint_trajectory")
    points = reference(NAMES, T, Q, DQ)
    if prepared:
        sender.prepare(points)
    for delay, stamp in ((0.25, Time(sec=9, nanosec=750_000_000)), (0.0, Time())):
        sender.send(points, delay, 1)
        found = deserialize_message(node.made["joint_trajectory"].sent[-1], JointTrajectory)
        assert found.header.stamp == stamp
        found.header.stamp = Time()
        assert found == trajectory_message(points)
    assert sender.problem() == ""
    node.made["joint_trajectory"].listeners = 0
    assert sender.problem() == "nobody listens on joint_trajectory"


def test_a_trajectory_longer_than_a_datagram_needs_a_reliable_listener():
    def points(count):
        return reference(NAMES, 0.01 * np.arange(1, count + 1), np.zeros((count, 3)))

    def size(count):
        return len(serialize_message(trajectory_message(points(count))))

    fits = next(count for count in range(60_000 // (size(101) - size(100)), 0, -1) if size(count) <= 60_000)
    assert size(fits + 1) > 60_000
    TopicSender(OneNode(), "joint_trajectory").prepare(points(fits + 1))
    with pytest.raises(InputError, match=rf"takes {fits + 1} points, 60 kB"):
        TopicSender(OneNode(ReliabilityPolicy.BEST_EFFORT), "joint_trajectory").prepare(points(fits + 1))
    TopicSender(OneNode(ReliabilityPolicy.BEST_EFFORT), "joint_trajectory").prepare(points(fits))


def test_stamps_of_either_byte_order_lie_after_the_encapsulation():
    data = bytes(serialize_message(JointTrajectory()))
    order = "<" if data[1] & 1 else ">"
    message = JointTrajectory()
    message.header.stamp = Time(sec=258, nanosec=3)
    assert struct.unpack_from(f"{order}iI", bytes(serialize_message(message)), 4) == (258, 3)
