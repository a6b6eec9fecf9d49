"""The main of every node: spins in a thread, and ends in order on the first SIGINT or SIGTERM, whatever comes after.

Signals are blocked in all threads and awaited by the main one, so a second SIGINT, as launch and a terminal send it
within milliseconds, finds nobody to interrupt. A node started by the demo ends with it (DYNID_PARENT), also by kill -9.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from ros2_dynid.errors import DynidError

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
PR_SET_PDEATHSIG = 1


def run(make_node: Callable[[], Any], threads: int = 1) -> int:
    """Spin the node that make_node() returns until a signal comes; return the process's exit code.

    threads: more than one if callbacks may wait for something.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)  # a shell's background jobs inherit SIGINT ignored: it would be lost
    end_with_parent()
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
    thread = threading.Thread(target=_spin, args=(executor, failures), name="spin", daemon=True)
    thread.start()
    signal.sigwait(ENDING)
    close = getattr(node, "close", None)
    executor.shutdown(timeout_sec=0)
    thread.join(0.5)
    if close is not None:
        close()
    rclpy.try_shutdown()
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if failures else 0)  # the middleware's threads may take seconds to end; nothing is left to be saved


def _spin(executor: Any, failures: list[str]) -> None:
    try:
        executor.spin()
    except ExternalShutdownException:
        pass
    except BaseException as error:
        failures.append(f"{type(error).__name__}: {error}")
        if "DYNID_TRACEBACK" in os.environ:
            import traceback

            traceback.print_exc()
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, if the parent said so by its process number."""
    parent = os.environ.get("DYNID_PARENT")
    if parent is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before we asked
        os._exit(1)
