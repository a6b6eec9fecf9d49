# SPDX-License-Identifier: Apache-2.0

"""Real-time priority for nodes that others wait for, where the system grants it (ulimit -r, or CAP_SYS_NICE)."""

from __future__ import annotations

import os
from pathlib import Path


def raise_priority(priority: int) -> bool:
    """Schedule all threads there are now first in, first out with `priority` (1 to 99); return whether that is allowed.

    Processes and threads started later are ordinary ones again: a compiler must not run before everything else.
    """
    try:
        for thread in Path("/proc/self/task").iterdir():
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
    except (OSError, AttributeError):  # not allowed, or not Linux
        return False
    return True
