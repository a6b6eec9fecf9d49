# SPDX-License-Identifier: Apache-2.0

"""Node payload_bridge: an identified payload for the robot's driver."""

from ros2_dynid.nodes.payload_bridge.node import main

__all__ = ["main"]
