# SPDX-License-Identifier: Apache-2.0

"""A node whose process writes down how long the machine kept it waiting: `python -m watched_node FOLDER NODE ...`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from pauses import file_of, watch_pauses


def main() -> int:
    """Run the node; its pauses are in the folder."""
    _, folder, name, *arguments = sys.argv
    watch_pauses(file_of(Path(folder), os.getpid()))
    sys.argv = [name, *arguments]
    return int(importlib.import_module(f"ros2_dynid.nodes.{name}.node").main())


if __name__ == "__main__":
    sys.exit(main())
