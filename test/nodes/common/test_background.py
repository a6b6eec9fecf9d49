# SPDX-License-Identifier: Apache-2.0

"""One job of a node at a time."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.background import OneJob


class Job:
    """A job that lasts until it is cancelled or told to end."""

    def __init__(self, use_case, request):
        self.request, self.cancelled, self.end = request, False, threading.Event()
        Job.last = self

    def cancel(self):
        self.cancelled = True
        self.end.set()

    def wait(self, progress):
        assert self.end.wait(10.0)
        return "cancelled" if self.cancelled else self.request


def test_one_job_at_a_time_and_only_its_own_cancel_ends_it(monkeypatch):
    monkeypatch.setattr("ros2_dynid.nodes.common.background.Job", Job)
    one, mine, other = OneJob("a plan"), threading.Event(), threading.Event()
    found = []
    Job.last = None
    thread = threading.Thread(target=lambda: found.append(one.work(None, "asked", None, mine)))
    thread.start()
    try:
        while Job.last is None:
            threading.Event().wait(0.001)
        with pytest.raises(DynidError, match="a plan is already going on"):
            one.work(None, "second")
        one.cancel(other)
        assert other.is_set() and not Job.last.cancelled, "that of another request"
        one.cancel(mine)
        assert mine.is_set()
    finally:
        Job.last.end.set()
        thread.join()
    assert found == ["cancelled"]
    assert one.work(None, "next", None, mine) == "cancelled", "one that is cancelled already ends at once"


def test_a_job_without_an_event_is_cancelled_by_anybody(monkeypatch):
    monkeypatch.setattr("ros2_dynid.nodes.common.background.Job", Job)
    one, found = OneJob("a plan"), []
    Job.last = None
    thread = threading.Thread(target=lambda: found.append(one.work(None, "asked")))
    thread.start()
    while Job.last is None:
        threading.Event().wait(0.001)
    one.cancel()
    thread.join()
    assert found == ["cancelled"]
    one.cancel()  # nothing there
