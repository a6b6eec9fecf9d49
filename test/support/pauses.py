# SPDX-License-Identifier: Apache-2.0

"""How long a busy machine keeps a process waiting: a thread that wants to wake every few milliseconds tells.

The last pauses are in a small mapped file that another process reads, also after a kill or on a full disk.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

PERIOD = 0.01
"""Time [s] that the thread sleeps."""
NOTED = 0.02
"""Shortest pause [s] that is written down."""
KEPT = 200


def file_of(folder: Path, pid: int) -> Path:
    """Return where the pauses of a process are."""
    return folder / f"pauses_{pid}.bin"


def watch_pauses(file: Path) -> None:
    """Start the thread for this process."""
    ring = np.memmap(file, dtype=float, mode="w+", shape=(KEPT, 2))

    def run() -> None:
        count, before = 0, time.monotonic()
        while True:
            time.sleep(PERIOD)
            now = time.monotonic()
            if now - before - PERIOD > NOTED:
                ring[count % KEPT] = now, now - before - PERIOD
                count += 1
            before = now

    threading.Thread(target=run, name="pauses", daemon=True).start()


def longest_pause(file: Path, since: float) -> float:
    """Return the longest pause [s] that ended after `since` [s of the steady clock]; 0 if nothing is known."""
    try:
        ring = np.fromfile(file, dtype=float)
    except FileNotFoundError:
        return 0.0
    ring = ring[: 2 * KEPT].reshape(-1, 2)
    return float(ring[ring[:, 0] > since, 1].max(initial=0.0))
