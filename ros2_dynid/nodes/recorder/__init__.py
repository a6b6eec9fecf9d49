# SPDX-License-Identifier: Apache-2.0

"""Node recorder: joint states into rosbag2 bags and a ring buffer."""

from ros2_dynid.nodes.recorder.node import main

__all__ = ["main"]
