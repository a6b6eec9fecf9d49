"""The main of every node: spins in a thread, and ends in order on the first SIGINT or SIGTERM, whatever comes after.

Signals only wake the main thread, which waits for them and does nothing else: a second SIGINT, as launch and a terminal
send it within milliseconds, finds nothing to interrupt.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.fast import ending
from ros2_dynid.processes import end_with_parent

SWITCH_SECONDS = 5e-4
"""Longest time [s] that one Python thread keeps the others waiting: streams of 1 kHz have threads of their own."""
PATIENCE = 0.8
"""Time [s] that leaving the graph may take: those who stop a node wait about a second before they kill it."""
END_WITH_PARENT = "DYNID_END_WITH_PARENT"
"""Set by the launch files: a launch that gets SIGTERM or is killed leaves its nodes to themselves."""
SIGEV_THREAD = 2
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(make_node: Callable[[], Any], threads: int = 1) -> int:
    """Spin the node that make_node() returns until a signal comes; return the process's exit code.

    threads: more than one if callbacks may wait for something.
    """
    wait, wake = _signals()
    if END_WITH_PARENT in os.environ:
        end_with_parent()
    sys.setswitchinterval(SWITCH_SECONDS)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    failures: list[str] = []
    try:
        node = make_node()
    except DynidError as error:
        print(f"{error}", file=sys.stderr)
        rclpy.shutdown()
        return 2
    executor = SingleThreadedExecutor() if threads == 1 else MultiThreadedExecutor(threads)
    executor.add_node(node)
    gc.collect()
    gc.freeze()  # what the modules hold is never looked through again: a pause of tens of milliseconds
    thread = threading.Thread(target=_spin, args=(executor, failures, wake), name="spin", daemon=True)
    thread.start()
    wait()
    ending.set()
    node.close()  # first, since it ends the jobs that callbacks of the executor may be waiting for
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    _exit_after(PATIENCE, 1 if failures else 0)
    last = threading.Thread(target=_leave, args=([executor, node], thread), daemon=True)
    del executor, node
    last.start()
    last.join()
    os._exit(1 if failures else 0)  # the middleware's threads may take seconds to end; nothing is left to be saved


def _exit_after(seconds: float, code: int) -> None:
    """Let the C library end the process in `seconds`, whatever holds Python's lock by then.

    Nodes that leave at once, as they do on Ctrl-C, can meet a deadlock in the middleware, inside a call of rclpy's.
    """
    libc = ctypes.CDLL(None)
    event = (ctypes.c_uint64 * 8)(code, SIGEV_THREAD << 32, ctypes.cast(libc._exit, ctypes.c_void_p).value or 0)
    timer, when = ctypes.c_void_p(), (ctypes.c_long * 4)(0, 0, int(seconds), int(1e9 * (seconds % 1)))
    if libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) == 0:
        libc.timer_settime(timer, 0, when, None)


def _leave(parts: list[Any], spinning: threading.Thread) -> None:
    """Take the node out of the graph: with the last reference the middleware's files in shared memory go, too."""
    with contextlib.suppress(Exception):
        parts[0].shutdown(0.2)
        spinning.join(0.2)
        parts[1].destroy_node()
    parts.clear()
    context = rclpy.get_default_context()
    context.try_shutdown()
    gc.unfreeze()
    gc.collect()
    context.destroy()


def _signals() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return what waits for the first signal that ends the process, and what ends the wait as a signal would."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in ENDING:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # written to whichever thread the signal meets
    return lambda: os.read(reader, 1), lambda: os.write(writer, b"x")


def _spin(executor: Any, failures: list[str], wake: Callable[[], object]) -> None:
    try:
        while True:
            try:
                executor.spin()
                break
            except InvalidHandle:  # a cleanup took down what another thread was about to serve
                continue
    except ExternalShutdownException:
        pass
    except BaseException as error:
        failures.append(f"{type(error).__name__}: {error}")
        if "DYNID_TRACEBACK" in os.environ:
            traceback.print_exc()
    finally:
        wake()
