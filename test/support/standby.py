# SPDX-License-Identifier: Apache-2.0

"""A node that has imported all it needs and waits for a line before it starts: `python -m standby NODE ROS-ARGUMENTS`.

A node that was killed is replaced within a few tenths of a second instead of seconds. The line names the folder where
the node's process writes down how long the machine kept it waiting.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from pauses import file_of, watch_pauses


def main() -> int:
    """Import the node, wait for the line, run it."""
    node = importlib.import_module(f"ros2_dynid.nodes.{sys.argv.pop(1)}.node")
    folder = sys.stdin.readline().strip()
    if not folder:
        return 0
    watch_pauses(file_of(Path(folder), os.getpid()))
    return int(node.main())


if __name__ == "__main__":
    sys.exit(main())
