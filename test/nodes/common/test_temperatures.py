# SPDX-License-Identifier: Apache-2.0

"""Temperatures of the drives."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Temperature

from publishing_node import OneNode
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.temperatures import Temperatures, dynamic_temperatures


def test_temperatures_of_joints_that_have_them():
    def state(**values):
        return SimpleNamespace(interface_names=list(values), values=list(values.values()))

    message = SimpleNamespace(
        joint_names=["a", "b", "c"],
        interface_values=[state(position=1.0, temperature=40.5), state(position=2.0), state(temperature=30.0)],
    )
    assert dynamic_temperatures(message) == {"a": 40.5, "c": 30.0}


def test_temperatures_are_those_that_came_last(monkeypatch):
    node, came, held = OneNode(), [], {"joint_temperatures": [], "dynamic_joint_states": []}
    monkeypatch.setattr(
        "ros2_dynid.nodes.common.temperatures.taken", lambda topic: held[topic].pop(0) if held[topic] else None
    )
    Temperatures(node, lambda names, T: came.append(dict(zip(names, T.tolist(), strict=True))))
    period, look = node.made["timer"]
    look()
    assert not came and period == 1.0, "nothing came, nothing is said"
    for name, value in (("waist", 30.0), ("elbow", 40.0), ("waist", 31.5)):
        message = Temperature(temperature=value)
        message.header.frame_id = name
        held["joint_temperatures"].append(bytes(serialize_message(message)))
    look()
    assert came == [{"waist": 31.5, "elbow": 40.0}]
    look()
    assert len(came) == 1

    def refuses(names, T):
        raise DynidError("343 deg C")

    again = OneNode()
    Temperatures(again, refuses)
    held["joint_temperatures"].append(bytes(serialize_message(Temperature())))
    again.made["timer"][1]()
    assert "343 deg C" in again.log.said[-1][1]
