# SPDX-License-Identifier: Apache-2.0

"""Trajectories on their way to the controller."""

from __future__ import annotations

import struct
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from builtin_interfaces.msg import Time
from rclpy.qos import ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory

from in_process import Future
from publishing_node import OneNode
from ros2_dynid.control.reference import reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.messages import (
    trajectory_message,
)
from ros2_dynid.nodes.excitation.sender import ActionSender, TopicSender

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


class Goals:
    """A client of FollowJointTrajectory: keeps goals, and answers them as told."""

    def __init__(self, node, kind, name):
        self.name, self.sent, self.accepted, self.there = name, [], True, True
        self.result = SimpleNamespace(error_code=0, error_string="")
        Goals.last = self

    def server_is_ready(self):
        return self.there

    def send_goal_async(self, goal):
        self.sent.append(goal.trajectory)
        ended = SimpleNamespace(result=self.result)
        return Future(SimpleNamespace(accepted=self.accepted, get_result_async=lambda: Future(ended)))


@pytest.fixture
def action(monkeypatch):
    """Return a sender by action, with the part of control_msgs that it uses, and what it says was refused."""
    module = ModuleType("control_msgs.action")
    module.FollowJointTrajectory = SimpleNamespace(
        Goal=lambda trajectory: SimpleNamespace(trajectory=trajectory), Result=SimpleNamespace(SUCCESSFUL=0)
    )
    monkeypatch.setitem(sys.modules, "control_msgs", ModuleType("control_msgs"))
    monkeypatch.setitem(sys.modules, "control_msgs.action", module)
    monkeypatch.setattr("rclpy.action.client.ActionClient", Goals)
    refused = []
    sender = ActionSender(OneNode(), "arm/follow", lambda number, text: refused.append((number, text)))
    return sender, Goals.last, refused


POINTS = reference(
    ROBOT.active_names, np.array([0.5, 1.0]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.zeros((2, 3))
)


@pytest.mark.parametrize("prepared", [False, True])
def test_goals_are_the_trajectory_with_the_stamp_of_this_moment(action, prepared):
    sender, client, refused = action
    if prepared:
        sender.prepare(POINTS)
    for delay, stamp in ((0.25, Time(sec=9, nanosec=750_000_000)), (0.0, Time())):
        sender.send(POINTS, delay, 1)
        goal = client.sent[-1]
        assert goal == trajectory_message(POINTS, stamp)
    assert not refused and (sender.name, client.name) == ("/arm/follow", "arm/follow")
    assert sender.problem() == ""
    client.there = False
    assert sender.problem() == "the controller's action /arm/follow is not there"


def test_what_a_controller_refuses_or_gives_up_is_told_with_its_number(action):
    sender, client, refused = action
    client.accepted = False
    sender.send(POINTS, 0.0, 5)
    assert refused == [(5, "the controller refused the trajectory")]
    client.accepted = True
    for code, text, told in ((-4, "path tolerance", "path tolerance"), (3, "", "3"), (-1, "", "-1")):
        client.result.error_code, client.result.error_string = code, text
        sender.send(POINTS, 0.0, 6)
        assert refused[-1] == (6, f"the controller gave up: {told}")
    client.result.error_code = 0
    sender.send(POINTS, 0.0, 7)
    assert len(refused) == 4, "one that has arrived is no refusal"


def test_without_control_msgs_the_hint_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "control_msgs", None)
    monkeypatch.setitem(sys.modules, "control_msgs.action", None)
    with pytest.raises(InputError, match="control_msgs is not installed"):
        ActionSender(None, "arm/follow", None)
