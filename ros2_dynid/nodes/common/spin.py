# SPDX-License-Identifier: Apache-2.0

"""The main of every node: spins in a thread, and ends in order on the first SIGINT or SIGTERM, whatever comes after.

Signals only wake the main thread, which waits for them and does nothing else: a second SIGINT, as launch and a terminal
send it within milliseconds, finds nothing to interrupt.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.fast import ending
from ros2_dynid.output import unblock_output
from ros2_dynid.processes import end_with_parent, exit_after, first_signal

SWITCH_SECONDS = 5e-4
"""Longest time [s] that one Python thread keeps the others waiting: streams of 1 kHz have threads of their own."""
LAST_LINES = 0.1
"""Time [s] that the last lines of output have to reach a terminal; one that is stopped does not get them."""
PATIENCE = 0.8
"""Time [s] that leaving the graph may take: those who stop a node wait about a second before they kill it."""
END_WITH_PARENT = "DYNID_END_WITH_PARENT"
"""Set by the launch files: a launch that gets SIGTERM or is killed leaves its nodes to themselves."""


def run(make_node: Callable[[], Any], threads: int = 1) -> int:
    """Spin the node that make_node() returns until a signal comes; return the process's exit code.

    threads: more than one if callbacks may wait for something.
    """
    pass_on_the_rest = unblock_output()
    wait, wake = first_signal()
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
        pass_on_the_rest(PATIENCE)
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
    exit_after(PATIENCE, 1 if failures else 0)
    last = threading.Thread(target=_leave, args=([executor, node], thread), daemon=True)
    del executor, node
    last.start()
    last.join()
    pass_on_the_rest(LAST_LINES)
    os._exit(1 if failures else 0)  # the middleware's threads may take seconds to end; nothing is left to be saved


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
