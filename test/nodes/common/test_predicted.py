# SPDX-License-Identifier: Apache-2.0

"""Predicted torque beside the measured one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from in_process import joint_state
from publishing_node import OneNode
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.recording.live import LiveStates


def predicted_for(*names):
    """Return the last prediction of torques 1 (a) and 2 (b), after joint states of which the last have these names."""
    node = OneNode()
    predicted, states = Predicted(node, rate=1000.0), LiveStates(("a", "b"))
    for k in range(100):
        first = joint_state(("a",), (0.005 * k,), stamp=5 * 10**6 * (k + 1)) if names == ("b",) else b""
        data = joint_state(names, [0.005 * k] * len(names), stamp=5 * 10**6 * (k + 1))
        for message in filter(None, (first, data)):
            if states.take(message) is not None:
                predicted.take(message, states, lambda q, dq, ddq: np.array([1.0, 2.0]))
    (publisher,) = node.made.values()
    return publisher.sent[-1]


def test_predicted_efforts_stand_where_the_measured_ones_do():
    message = predicted_for("x", "b", "a")
    assert list(message.name) == ["x", "b", "a"]
    np.testing.assert_array_equal(message.effort, [np.nan, 2.0, 1.0])
    np.testing.assert_allclose(message.velocity, [np.nan, 1.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("names", [("b",), ("a", "b", "a")], ids=["a part of them", "a name twice"])
def test_they_stand_in_our_order_where_a_message_is_no_list_of_the_joints(names):
    message = predicted_for(*names)
    assert list(message.name) == ["a", "b"] and list(message.effort) == [1.0, 2.0]
