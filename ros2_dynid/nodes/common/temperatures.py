# SPDX-License-Identifier: Apache-2.0

"""Temperatures of the drives from their topics: joint_temperatures, and dynamic_joint_states with control_msgs.

joint_temperatures carries sensor_msgs/Temperature, whose frame_id names the joint; dynamic_joint_states is what
ros2_control's joint_state_broadcaster publishes, with the interface `temperature` where the hardware has it. Drives
warm up slowly: both are looked at once a second, however fast they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Temperature

from ros2_dynid.errors import DynidError
from ros2_dynid.model.robot import Array
from ros2_dynid.nodes.common.fast import NotForExecutors, unpacked
from ros2_dynid.nodes.common.rclpy_private import taken

PERIOD = 1.0
"""How often they are looked at [s]."""
MOST = 200
"""Joints whose temperatures are kept in between."""

Take = Callable[[tuple[str, ...], Array], object]
"""Takes joint names and their temperatures, shape (len(names),) [deg C]."""


class Temperatures:
    """Listens for a node, and gives it the temperatures that have come."""

    def __init__(self, node: Node, take: Take) -> None:
        """Subscribe; an error that `take` raises is logged."""
        self._take, self._logger, self._group = take, node.get_logger(), NotForExecutors()
        self._single = self._heard(node, Temperature, "joint_temperatures", MOST)
        self._dynamic: Any = None
        try:
            from control_msgs.msg import DynamicJointState
        except ImportError:
            pass
        else:
            self._kind: Any = DynamicJointState
            self._dynamic = self._heard(node, DynamicJointState, "dynamic_joint_states", 1)
        node.create_timer(PERIOD, self._look)

    def _heard(self, node: Node, kind: Any, topic: str, depth: int) -> Any:
        qos = QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT)
        return node.create_subscription(kind, topic, _unused, qos, callback_group=self._group, raw=True)

    def _look(self) -> None:
        try:
            if temperatures := self._arrived():
                self._take(tuple(temperatures), np.array(list(temperatures.values())))
        except DynidError as error:
            self._logger.error(f"temperatures refused: {error}", throttle_duration_sec=10.0)

    def _arrived(self) -> dict[str, float]:
        """Return the temperatures [deg C] that have come since the last time, by joint."""
        temperatures: dict[str, float] = {}
        if self._dynamic is not None and (data := taken(self._dynamic)) is not None:
            temperatures |= dynamic_temperatures(unpacked(data, self._kind))
        while (data := taken(self._single)) is not None:
            message = unpacked(data, Temperature)
            temperatures[message.header.frame_id] = message.temperature
        return temperatures


def dynamic_temperatures(message: Any) -> dict[str, float]:
    """Return the temperatures [deg C] by joint of a DynamicJointState: of those that have this interface."""
    return {
        name: float(value)
        for name, state in zip(message.joint_names, message.interface_values, strict=False)
        for interface, value in zip(state.interface_names, state.values, strict=False)
        if interface == "temperature"
    }


def _unused(message: bytes) -> None:
    """Stand for a callback: messages are taken when it is time."""
