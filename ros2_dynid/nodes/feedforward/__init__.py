# SPDX-License-Identifier: Apache-2.0

"""Node feedforward: the torque of the identified model along a reference."""

from ros2_dynid.nodes.feedforward.node import main

__all__ = ["main"]
