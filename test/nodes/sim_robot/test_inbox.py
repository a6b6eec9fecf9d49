# SPDX-License-Identifier: Apache-2.0

"""What one thread asks another to do."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.sim_robot.node import Inbox


def test_an_inbox_does_what_is_asked_in_order_and_passes_errors_on():
    inbox, done, ended = Inbox(), [], threading.Event()

    def serve():
        while not ended.wait(0.001):
            inbox.empty()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        for k in range(3):
            inbox.do(lambda k=k: done.append((k, threading.current_thread())))
        with pytest.raises(ZeroDivisionError):
            inbox.do(lambda: 1 / 0)
        inbox.do(lambda: done.append((3, thread)))
    finally:
        ended.set()
        thread.join(10.0)
        assert not thread.is_alive(), "the thread has not ended within 10 s"
    assert done == [(k, thread) for k in range(4)], "by the thread that is asked"
    with pytest.raises(InputError, match=r"not done within 0\.01 s"):
        inbox.do(lambda: None, timeout=0.01)
