# SPDX-License-Identifier: Apache-2.0

"""Whether a process is gone."""

from __future__ import annotations

import time
from pathlib import Path


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; the kernel may take a moment."""
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.005)
    return False
