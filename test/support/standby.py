"""A node that has imported all it needs and waits for a line before it starts: `python -m standby NODE ROS-ARGUMENTS`.

A node that was killed is replaced within a few tenths of a second instead of seconds.
"""

from __future__ import annotations

import importlib
import sys


def main() -> int:
    """Import the node, wait for the line, run it."""
    node = importlib.import_module(f"ros2_dynid.nodes.{sys.argv.pop(1)}.node")
    return int(node.main()) if sys.stdin.readline() else 0


if __name__ == "__main__":
    sys.exit(main())
