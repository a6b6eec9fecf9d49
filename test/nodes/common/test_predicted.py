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


NAMES = ("waist", "shoulder", "elbow")


def moved(predicted, count, torque, band=None, names=("elbow", "waist", "shoulder"), begin=10**9, rate=500):
    """Let joint states come of a motion q = a t^2 / 2 of accelerations 1, 2, 3 in the robot's order."""
    live = LiveStates(NAMES)
    for k in range(count):
        t = k / rate
        q = np.array([1.0, 2.0, 3.0]) * t**2 / 2
        data = joint_state(names, q[[NAMES.index(name) for name in names]], stamp=begin + round(t * 1e9))
        live.take(data)
        predicted.take(data, live, torque, band)


def test_predictions_have_the_acceleration_of_the_motion_and_a_band_on_both_sides():
    node = OneNode()
    predicted = Predicted(node, 50.0, band=True)
    assert predicted.listened

    def torque(q, dq, ddq):
        return 10 * ddq + dq

    moved(predicted, 101, torque, lambda q, dq, ddq: 0.1 * ddq)
    sent = {name: node.made[f"~/predicted{name}"].sent for name in ("", "_lower", "_upper")}
    assert 7 <= len(sent[""]) <= 10, "at 50 Hz, once there is a window"
    message = sent[""][-1]
    t = 1e-9 * message.header.stamp.nanosec
    assert list(message.name) == ["elbow", "waist", "shoulder"] and 0.1 < t < 0.2
    order = [2, 0, 1]
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(message.position, (a * t**2 / 2)[order], atol=1e-9)
    np.testing.assert_allclose(message.velocity, (a * t)[order], rtol=1e-5)
    np.testing.assert_allclose(message.effort, (10 * a + a * t)[order], rtol=1e-5)
    for name, side in (("_lower", -0.1), ("_upper", 0.1)):
        edge = sent[name][-1]
        assert edge.header.stamp == message.header.stamp
        np.testing.assert_allclose(edge.effort, (10 * a + a * t + side * a)[order], rtol=1e-5)
    for topic in ("_lower", "_upper"):
        node.made[f"~/predicted{topic}"].listeners = 0
    count = len(sent["_lower"])
    moved(predicted, 101, torque, lambda q, dq, ddq: 1 / 0, begin=2 * 10**9)
    assert len(sent["_lower"]) == count, "a band for nobody is not computed"
    node.made["~/predicted"].listeners = 0
    assert not predicted.listened
    count = len(sent[""])
    moved(predicted, 50, torque, begin=3 * 10**9)
    node.made["~/predicted"].listeners = 1
    moved(predicted, 50, None, begin=4 * 10**9)
    assert len(sent[""]) == count, "for nobody, or without a model"
    moved(predicted, 60, torque, begin=10**9)
    assert len(sent[""]) > count, "a clock that was set back does not silence it"
