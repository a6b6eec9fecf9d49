# SPDX-License-Identifier: Apache-2.0

"""Node sim_robot: a simulated robot behind the topics of real hardware."""

from ros2_dynid.nodes.sim_robot.node import main

__all__ = ["main"]
