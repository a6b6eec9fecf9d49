# SPDX-License-Identifier: Apache-2.0

"""One job of a node at a time."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from light_jobs import ODD, Answer, Wish, light_job_process
from ros2_dynid.jobs import JobError
from ros2_dynid.nodes.common.background import OneJob

BEGINS = 'tell({"stage": "begun", "progress": 0.0}); '


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Return how to write the process that jobs start."""
    return light_job_process(tmp_path, monkeypatch)


class Waiting:
    """Somebody who waits for a job of `one`, which has begun; ended() returns what became of it."""

    def __init__(self, one, cancelled=None):
        self._outcome, begun = [], threading.Event()

        def wait():
            try:
                self._outcome.append(one.work(ODD, Wish(1), lambda *_: begun.set(), cancelled))
            except JobError as error:
                self._outcome.append(str(error))

        self._thread = threading.Thread(target=wait, daemon=True)
        self._thread.start()
        assert begun.wait(20.0), "the job has not begun within 20 s"

    def ended(self):
        self._thread.join(20.0)
        assert not self._thread.is_alive(), "the job has not ended within 20 s"
        return self._outcome[0]


def test_one_job_at_a_time_and_only_its_own_cancel_ends_it(process):
    process(BEGINS + "time.sleep(60)")
    one, mine, other = OneJob("a plan"), threading.Event(), threading.Event()
    waiting = Waiting(one, mine)
    one.cancel(other)
    assert other.is_set(), "that of another request"
    with pytest.raises(JobError, match="a plan is already going on"):
        one.work(ODD, Wish(2))
    one.cancel(mine)
    assert mine.is_set() and waiting.ended() == "cancelled; nothing was written"
    with pytest.raises(JobError, match="cancelled"):
        one.work(ODD, Wish(3), None, mine)  # one that is cancelled already ends at once
    process('tell({"result": {"text": "done"}})')
    assert one.work(ODD, Wish(4), None, threading.Event()) == Answer("done")


def test_a_job_without_an_event_is_cancelled_by_anybody(process):
    process(BEGINS + "time.sleep(60)")
    one = OneJob("a plan")
    waiting = Waiting(one)
    one.cancel()
    assert waiting.ended() == "cancelled; nothing was written"
    one.cancel()  # nothing there
