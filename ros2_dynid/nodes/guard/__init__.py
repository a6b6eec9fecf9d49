# SPDX-License-Identifier: Apache-2.0

"""Node guard: the stop of the suite, and a watch over who commands the robot."""

from ros2_dynid.nodes.guard.node import main

__all__ = ["main"]
