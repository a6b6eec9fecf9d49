# SPDX-License-Identifier: Apache-2.0

"""Streams of 1 kHz beside the executor: a thread of its own takes the messages of a subscription, or keeps a period.

rclpy's executors rebuild their list of everything the node has for every message. At 1 kHz that costs 25 to 33 % of a
core with one thread; with four threads it costs more than half a core and falls behind; the experimental
EventsExecutor of rclpy 9.1 delivers none of them, for 26 % and more (bench/executors.py). Here a thread waits for one
subscription alone, for 6 to 11 %, or 4 to 7 % in pieces of 4 ms. The callback gets serialized bytes, and must lock what
others use. Everything else of a node is served by rclpy's executors (spin.py).
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message

from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.rclpy_private import Waiter, taken_with_time

STOP_SECONDS = 0.2
ending = threading.Event()
"""Set when the process ends: what its threads then miss is no error."""


def guarded(run: Callable[[], None]) -> Callable[[], None]:
    """Return run() such that an error in it ends the whole node: one that has lost a thread must not seem alive."""

    def run_guarded() -> None:
        try:
            run()
        except Exception:
            if not ending.is_set():
                traceback.print_exc()
                os.kill(os.getpid(), signal.SIGTERM)

    return run_guarded


class NotForExecutors(CallbackGroup):
    """Keeps executors away from what our own threads take."""

    def can_execute(self, entity: Any) -> bool:
        """Refuse: no executor may take from it."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Refuse: no executor may take from it."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Do nothing: no executor has begun."""


class Stream:
    """Calls back with every serialized message of a topic, as soon as it comes.

    rest: time [s] slept after the messages there were are taken, so that the next ones come together: 1 kHz in pieces
    of 4 ms costs a quarter of single messages. timed: the callback also gets when [s] a message was sent, by the clock
    of who sent it.
    """

    def __init__(
        self,
        node: Node,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        qos: QoSProfile,
        *,
        rest: float = 0.0,
        timed: bool = False,
    ) -> None:
        """Subscribe and start the thread."""
        self._callback, self._rest, self._timed, self._node = callback, rest, timed, node
        self._waiter = Waiter(node.context)
        self._subscription = node.create_subscription(
            kind, topic, lambda message: None, qos, raw=True, callback_group=NotForExecutors()
        )
        self._running = True
        self._thread = threading.Thread(target=guarded(self._run), name=f"stream {topic}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and the subscription."""
        self._running = False
        self._waiter.wake()
        self._thread.join(2 * STOP_SECONDS)
        self._node.destroy_subscription(self._subscription)

    def _run(self) -> None:
        with self._subscription.handle:
            while self._running and self._node.context.ok():
                self._waiter.wait(self._subscription, STOP_SECONDS)
                while self._running and (message := taken_with_time(self._subscription)) is not None:
                    self._callback(*(message if self._timed else message[:1]))
                if self._rest:
                    time.sleep(self._rest)


class Ticker:
    """Calls back every `period` [s] of the machine's clock, from a thread of its own."""

    def __init__(self, period: float, callback: Callable[[], None]) -> None:
        """Start the thread."""
        self._period, self._callback = period, callback
        self._running = True
        self._thread = threading.Thread(target=guarded(self._run), name="ticker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._running = False
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * STOP_SECONDS)

    def _run(self) -> None:
        due = time.monotonic()
        while self._running:
            due += self._period
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            elif wait < -0.1:  # after a pause of the machine there is nothing to make up for
                due = time.monotonic()
            self._callback()


def unpacked(data: bytes, kind: Any) -> Any:
    """Return the message of serialized bytes, or raise DynidError for bytes that are none: anybody may send them."""
    try:
        return deserialize_message(data, kind)
    except Exception as error:  # rclpy has no type of its own for it
        raise InputError(f"a damaged {kind.__name__} came ({type(error).__name__})", "check who publishes it") from None
