# SPDX-License-Identifier: Apache-2.0

"""Start and end processes: children that end together, signal handling, forced exit."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from ros2_dynid.errors import DynidError

PATIENCE = 1.0
"""Time [s] that processes have to end in order before they are killed."""
PR_SET_PDEATHSIG = 1
SIGEV_THREAD = 2
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DOMAINS = range(20, 100)


_libc = ctypes.CDLL(None)


def end_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGTERM when the parent of this process dies, also by kill -9; end if `parent` has already."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back the signals that end a process: between fork and exec they would raise KeyboardInterrupt."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_child(parent: int) -> None:
    """Let a forked child end by the signals that were held back, as a new program does, and with its parent."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    end_with_parent(parent)


def exit_after(seconds: float, code: int) -> None:
    """Let the C library end the process in `seconds`, whatever holds Python's lock by then.

    Nodes that leave at once, as they do on Ctrl-C, can meet a deadlock in the middleware, inside a call of rclpy's.
    """
    event = (ctypes.c_uint64 * 8)(code, SIGEV_THREAD << 32, ctypes.cast(_libc._exit, ctypes.c_void_p).value or 0)
    timer, when = ctypes.c_void_p(), (ctypes.c_long * 4)(0, 0, int(seconds), int(1e9 * (seconds % 1)))
    if _libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) == 0:
        _libc.timer_settime(timer, 0, when, None)


def first_signal() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a function that waits for SIGINT or SIGTERM, and one that ends the wait."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in ENDING:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # written to whichever thread the signal meets
    return lambda: os.read(reader, 1), lambda: os.write(writer, b"x")


class ProcessError(DynidError):
    """A process ended unexpectedly."""


class Processes:
    """Python modules as processes, which end with the `with` block."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        """Write their output to files in `logs`."""
        self._logs = logs
        self._environment = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
        self._running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Processes:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all."""
        self.close()

    def start(self, name: str, arguments: Sequence[str], *, talk: bool = False) -> subprocess.Popen[str]:
        """Start `python -m` with the arguments; with `talk` its standard input and output are pipes."""
        with (self._logs / f"{name}.log").open("w", encoding="utf-8") as log:
            pipe: int | IO[str] = subprocess.PIPE if talk else log
            with _signals_held():
                process = subprocess.Popen(
                    [sys.executable, "-m", *arguments],
                    stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
                    stdout=pipe,
                    stderr=log,
                    env=self._environment,
                    text=True,
                    start_new_session=True,
                    preexec_fn=functools.partial(_begin_child, os.getpid()),
                )
        self._running[name] = process
        return process

    def check(self) -> None:
        """Raise ProcessError if one has ended."""
        for name, process in self._running.items():
            if process.poll() not in (None, 0):
                last = (self._logs / f"{name}.log").read_text(encoding="utf-8").strip().splitlines()
                why = last[-1] if last else f"code {process.returncode}"
                raise ProcessError(f"{name} ended: {why}; its output is in {self._logs / name}.log")

    def close(self) -> None:
        """Terminate all, then kill those that remain; interrupts are ignored meanwhile."""
        with ignored_interrupts():
            self._close()

    def _close(self) -> None:
        running = [process for process in self._running.values() if process.poll() is None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        for process in running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for process in self._running.values():
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@contextlib.contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Ignore SIGINT while the block runs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def short_interrupts(name: str) -> Iterator[None]:
    """End the process at once on SIGINT while the block runs: an exception would leave imports inconsistent."""

    def end(*_: object) -> None:
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(130)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def own_domain() -> Iterator[dict[str, str]]:
    """Yield environment variables that keep DDS on this machine, in a ROS domain of its own."""
    first = os.getpid() % len(DOMAINS)  # so that demos that cannot see each other's locks hardly meet
    for domain in (*DOMAINS[first:], *DOMAINS[:first]):
        lock = Path(tempfile.gettempdir()) / f"ros2_dynid-domain-{domain}.lock"
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        try:
            yield {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": str(domain)}
        finally:
            os.close(handle)
        return
    raise ProcessError(f"all ROS domains {DOMAINS[0]} to {DOMAINS[-1]} are in use by demos; end one of them")
