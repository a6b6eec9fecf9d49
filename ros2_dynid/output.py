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
    """Make the standard streams of this process ones that never block; return what ends that at the process's end.

    The function returned waits, at most the seconds that it is given, until all that was written is passed on.
    """
    if sys.stderr.isatty():
        os.environ.setdefault(COLOURS, "1")
    sys.stdout.flush()
    sys.stderr.flush()
    streams = [(descriptor, *_pass_on(descriptor)) for descriptor in (1, 2)]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_DroppingStream(number), encoding="utf-8", errors="replace", line_buffering=True)  # type: ignore[type-var]
        for number in (1, 2)
    )

    def pass_on_the_rest(seconds: float) -> None:
        end = time.monotonic() + seconds
        for descriptor, real, thread in streams:
            os.dup2(real, descriptor)  # closes the pipe: its thread ends when it has passed all on
            thread.join(max(end - time.monotonic(), 0.0))

    return pass_on_the_rest


def _pass_on(descriptor: int) -> tuple[int, threading.Thread]:
    """Put a pipe in place of a stream; return the real one, and the thread that passes the pipe's content on to it."""
    real = os.dup(descriptor)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.dup2(writer, descriptor)
    os.close(writer)
    thread = threading.Thread(target=_copy, args=(reader, real), name="output", daemon=True)
    thread.start()
    return real, thread


def _copy(reader: int, real: int) -> None:
    while data := os.read(reader, PIPE_BYTES):
        with contextlib.suppress(OSError):  # the terminal or the collector is gone: go on, so that nothing waits
            while data:
                data = data[os.write(real, data) :]
