# SPDX-License-Identifier: Apache-2.0

"""What the feedforward node sends."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from builtin_interfaces.msg import Time

from publishing_node import OneNode
from ros2_dynid.control.feedforward import TorqueCoefficients
from ros2_dynid.control.reference import reference
from ros2_dynid.control.torque_limiter import LimitedTorque
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput


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


def test_a_trajectory_passed_on_keeps_its_stamp():
    node = OneNode()
    points = reference(("a", "b", "c"), np.ones(1), np.ones((1, 3)), tau=np.array([[1.0, 2.0, 3.0]]))
    TorqueOutput(node, lambda: 0).pass_on(points, Time(sec=8, nanosec=9))
    assert node.made["joint_trajectory"].sent == [trajectory_message(points, Time(sec=8, nanosec=9))]
