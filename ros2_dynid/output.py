# SPDX-License-Identifier: Apache-2.0

"""Output that cannot block: a terminal that is stopped or a pipe that nobody reads must not freeze a moving robot.

rclpy's loggers write to the standard streams with Python's lock held: a write that blocks (Ctrl-S, a hung log
collector) stops every thread of the process. Here both streams become a pipe whose writing end never blocks. A thread
passes its content on to the real streams, without the lock while it waits; what the pipe cannot hold is dropped.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import threading
import time
from collections.abc import Callable

PIPE_BYTES = 65536
COLOURS = "RCUTILS_COLORIZED_OUTPUT"
"""Whether rclpy's loggers use colours: decided by the real stream, since a pipe has none."""


class _DroppingStream(io.RawIOBase):
    """A stream to a file descriptor that drops what cannot be written at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        """Write what can be written at once; say that all was."""
        with contextlib.suppress(OSError):  # full, or the reader is gone
            os.write(self._descriptor, data)
        return len(data)


def unblock_output() -> Callable[[float], None]:
    """Make the standard streams of this process ones that never block; return what waits until all is passed on.

    The function returned waits at most the seconds that it is given.
    """
    if sys.stderr.isatty():
        os.environ.setdefault(COLOURS, "1")
    sys.stdout.flush()
    sys.stderr.flush()
    pipes = [_pass_on(descriptor) for descriptor in (1, 2)]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_DroppingStream(number), encoding="utf-8", errors="replace", line_buffering=True)  # type: ignore[type-var]
        for number in (1, 2)
    )

    def wait_until_passed_on(seconds: float) -> None:
        end = time.monotonic() + seconds
        for idle in pipes:
            while not idle() and time.monotonic() < end:
                time.sleep(0.005)

    return wait_until_passed_on


def _pass_on(descriptor: int) -> Callable[[], bool]:
    """Put a pipe in place of a stream, with a thread that passes its content on; return whether all is passed on."""
    real = os.dup(descriptor)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.dup2(writer, descriptor)
    os.close(writer)
    waiting = threading.Event()
    threading.Thread(target=_copy, args=(reader, real, waiting), name="output", daemon=True).start()

    def is_idle() -> bool:
        return waiting.is_set() and not _has_data(reader)

    return is_idle


def _has_data(reader: int) -> bool:
    return bool(select.select([reader], [], [], 0.0)[0])


def _copy(reader: int, real: int, waiting: threading.Event) -> None:
    while True:
        waiting.set()
        data = os.read(reader, PIPE_BYTES)
        waiting.clear()
        try:
            while data:
                data = data[os.write(real, data) :]
        except OSError:  # the terminal or the collector is gone: go on reading, so that nothing waits for them
            continue
