# SPDX-License-Identifier: Apache-2.0

"""Nodes made in the process of the test: spun in a thread, or not, and then their callbacks are called one by one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

from ros2_dynid.processes import own_domain


@contextlib.contextmanager
def ros(**parameters: Any) -> Iterator[None]:
    """Start rclpy in a domain of its own; the parameters are those of every node made inside."""
    options = [text for name, value in parameters.items() for text in ("-p", f"{name}:={value}")]
    with own_domain() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        rclpy.init(args=["--ros-args", *options], signal_handler_options=SignalHandlerOptions.NO)
        try:
            yield
        finally:
            rclpy.try_shutdown()


@contextlib.contextmanager
def node_of(kind: Callable[[], Any], **parameters: Any) -> Iterator[Any]:
    """Yield a node of this kind with these parameters, and close it at the end."""
    with ros(**parameters):
        node = kind()
        try:
            yield node
        finally:
            node.close()
            node.destroy_node()


class Kept:
    """A publisher that keeps what it sends, as a subscriber gets it, with so many who listen."""

    def __init__(self, topic: str = "", listeners: int = 1) -> None:
        self.topic_name, self.listeners, self.sent = topic, listeners, []

    def get_subscription_count(self) -> int:
        return self.listeners

    def publish(self, message: Any) -> None:
        raw = isinstance(message, bytes)
        self.sent.append(message if raw else deserialize_message(serialize_message(message), type(message)))


class Future:
    """A future that is done, unless its value is None."""

    def __init__(self, value):
        self._value = value

    def add_done_callback(self, callback):
        if self._value is not None:
            callback(self)

    def result(self):
        return self._value


def joint_state(
    names: Sequence[str],
    q: Any,
    dq: Any = (),
    tau: Any = (),
    stamp: int | None = None,
) -> bytes:
    """Return a serialized JointState; stamp [ns], now if there is none."""
    message = JointState(name=list(names))
    message.position, message.velocity, message.effort = (
        [float(x) for x in np.ravel(values)] for values in (q, dq, tau)
    )
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns() if stamp is None else stamp, 10**9)
    return bytes(serialize_message(message))


def soon(done: Callable[[], Any], what: str, patience: float = 30.0) -> None:
    """Wait until done() is true, which another thread sees to."""
    until = time.monotonic() + patience
    while not done():
        assert time.monotonic() < until, what
        time.sleep(0.001)


@contextlib.contextmanager
def spun(*nodes: Any, threads: int = 2) -> Iterator[None]:
    """Spin nodes in a thread; they are destroyed at the end."""
    executor = SingleThreadedExecutor() if threads == 1 else MultiThreadedExecutor(threads)
    for node in nodes:
        executor.add_node(node)
    thread = threading.Thread(target=executor.spin, name="spin", daemon=True)
    thread.start()
    try:
        yield
    finally:
        executor.shutdown(timeout_sec=5.0)
        thread.join(5.0)
        for node in nodes:
            node.destroy_node()
        assert not thread.is_alive(), "the executor still spins after 5 s"
