# SPDX-License-Identifier: Apache-2.0

"""Node wrist_sensor: a force-torque sensor without the weight of its tool."""

from ros2_dynid.nodes.wrist_sensor.node import main

__all__ = ["main"]
