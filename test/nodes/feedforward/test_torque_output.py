# SPDX-License-Identifier: Apache-2.0

"""What the feedforward node sends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from builtin_interfaces.msg import Time
from rclpy.qos import ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.time import Time as Moment

from ros2_dynid.control.feedforward import TorqueCoefficients
from ros2_dynid.control.torque_limiter import LimitedTorque
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput


class Publisher:
    """A publisher that keeps what it sends, with so many who listen."""

    def __init__(self, topic, listeners=1, info=()):
        self.topic_name, self.sent, self.listeners = topic, [], listeners

    def get_subscription_count(self):
        return self.listeners

    def publish(self, message):
        kept = message if isinstance(message, bytes) else deserialize_message(serialize_message(message), type(message))
        self.sent.append(kept)


class OneNode:
    """A node with publishers alone, whose clock stands at 9.5 s."""

    def __init__(self, reliability=ReliabilityPolicy.RELIABLE):
        self.made = {}
        self._info = SimpleNamespace(qos_profile=SimpleNamespace(reliability=reliability))

    def create_publisher(self, kind, topic, qos):
        self.made[topic] = Publisher(topic)
        return self.made[topic]

    def get_clock(self):
        return SimpleNamespace(now=lambda: Moment(nanoseconds=9_500_000_000))

    def get_subscriptions_info_by_topic(self, topic):
        return [self._info] if topic == "joint_trajectory" else []


def test_torques_go_out_by_name_and_as_commands():
    node = OneNode()
    output = TorqueOutput(node, lambda: 3_000_000_007)
    for names in (("a", "b"), ("c", "d")):
        output.send(LimitedTorque(names, np.array([1.0, 2.0]), names[::-1], np.array([2.0, 1.0])))
    states = node.made["feedforward_effort"].sent
    assert [list(state.name) for state in states] == [["a", "b"], ["c", "d"]]
    assert [list(state.effort) for state in states] == [[1.0, 2.0]] * 2
    assert (states[0].header.stamp.sec, states[0].header.stamp.nanosec) == (3, 7)
    assert [list(command.data) for command in node.made["effort_commands"].sent] == [[2.0, 1.0]] * 2


def test_nothing_is_sent_to_nobody():
    node = OneNode()
    output = TorqueOutput(node, lambda: 0)
    node.made["feedforward_effort"].listeners = 0
    output.send(LimitedTorque(("a",), np.array([1.0]), ("a",), np.array([1.0])))
    assert not node.made["feedforward_effort"].sent and len(node.made["effort_commands"].sent) == 1
    assert output.wants_coefficients
    node.made["dynamic_coefficients"].listeners = 0
    assert not output.wants_coefficients


def test_coefficients_have_their_own_fields():
    node = OneNode()
    M = np.array([[1.0, 2.0], [3.0, 4.0]])
    vectors = np.arange(8.0).reshape(4, 2)
    q, dq, C, Q_ = vectors
    TorqueOutput(node, lambda: 1_000_000_002).send_coefficients(
        TorqueCoefficients(joint_names=("a", "b"), q=q, dq=dq, M=M, C=C, Q=Q_)
    )
    (sent,) = node.made["dynamic_coefficients"].sent
    found = [sent.position, sent.velocity, sent.velocity_torque, sent.gravity_torque]
    np.testing.assert_array_equal(found, vectors)
    assert list(sent.inertia) == [1.0, 2.0, 3.0, 4.0], "row by row"
    assert list(sent.joint_names) == ["a", "b"] and sent.header.stamp == Time(sec=1, nanosec=2)
