# SPDX-License-Identifier: Apache-2.0

"""Temperatures of the drives."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from ros2_dynid.nodes.common.temperatures import dynamic_temperatures


def test_temperatures_of_joints_that_have_them():
    def state(**values):
        return SimpleNamespace(interface_names=list(values), values=list(values.values()))

    message = SimpleNamespace(
        joint_names=["a", "b", "c"],
        interface_values=[state(position=1.0, temperature=40.5), state(position=2.0), state(temperature=30.0)],
    )
    assert dynamic_temperatures(message) == {"a": 40.5, "c": 30.0}
