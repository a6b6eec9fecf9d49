# SPDX-License-Identifier: Apache-2.0

"""What the panel hears."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from in_process import joint_state
from ros2_dynid.control.reference import reference
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.panel import listening

pytestmark = pytest.mark.in_process


ROBOT = load_robot("demo3")


NAMES = ROBOT.active_names


STRANGE = trajectory_message(reference(("left",), np.ones(1), np.ones((1, 1))))


def way(factor=1.0):
    """Return a trajectory of two seconds along which every joint has another speed."""
    q = factor * np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]])
    return reference(NAMES, np.array([0.0, 2.0]), q)


@pytest.fixture
def heard(monkeypatch):
    """Return what listens, the callbacks by topic, and the node around it, whose clock a test sets."""
    callbacks, plans = {}, []

    def stream(node, kind, topic, callback, qos, rest):
        callbacks[topic] = callback
        return SimpleNamespace(close=lambda: callbacks.pop(topic))

    monkeypatch.setattr(listening, "Stream", stream)
    node = SimpleNamespace(robot=ROBOT, now=100.0, now_ns=lambda: round(node.now * 1e9))
    node.create_subscription = lambda kind, topic, callback, qos: callbacks.update({topic: callback})
    return listening.Listening(node, 0.05, plans.append), callbacks, node, plans


def send(callbacks, message, stamp=None):
    if stamp is not None:
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(stamp * 1e9), 10**9)
    callbacks["joint_trajectory"](message)


def at(callbacks, stamp):
    """Let a joint state come with this stamp [s]."""
    callbacks["joint_states"](joint_state(NAMES, (0, 0, 0), stamp=round(stamp * 1e9)))


def test_the_reference_is_that_of_the_joint_state_shown(heard):
    listens, callbacks, node, _ = heard
    assert listens.reference() is None
    send(callbacks, trajectory_message(way()), 100.5)
    node.now = 101.0
    at(callbacks, 0.0)
    np.testing.assert_allclose(listens.reference(), (0.5, 1.0, 1.5), err_msg="a driver that does not stamp: now")
    at(callbacks, 100.75)
    np.testing.assert_allclose(listens.reference(), (0.25, 0.5, 0.75), err_msg="a joint state that is late")
    at(callbacks, 99.5)
    np.testing.assert_allclose(listens.reference(), (0.5, 1.0, 1.5), err_msg="one by another clock")
    node.now = 103.4
    np.testing.assert_allclose(listens.reference(), (2.0, 4.0, 6.0), err_msg="at its end")
    node.now = 103.6
    assert listens.reference() is None, "a second after its end"
    node.now = 200.0
    send(callbacks, trajectory_message(way()))
    node.now = 201.0
    np.testing.assert_allclose(listens.reference(), (1.0, 2.0, 3.0), err_msg="without a stamp it began on arrival")
    send(callbacks, STRANGE)
    np.testing.assert_allclose(listens.reference(), (1.0, 2.0, 3.0), err_msg="that of others is nothing to show")
