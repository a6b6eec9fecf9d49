"""Long services and actions: a callback may wait for a job in another process while the node answers everybody else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup

from ros2_dynid.jobs import Job, JobError

THREADS = 4
"""Of the executor of a node with jobs: one for the job awaited, the others to answer."""


class OneJob:
    """At most one job of a node at a time; a second request is refused, not queued.

    group: for callbacks that wait.
    """

    def __init__(self, what: str) -> None:
        """`what` the job is, in words, for the refusal."""
        self._what = what
        self._job: Job | None = None
        self._lock = threading.Lock()
        self.group = ReentrantCallbackGroup()

    def run(self, kind: str, progress: Callable[[str, float], None] | None = None, **request: Any) -> Any:
        """Wait for a job and return its result, or raise DynidError."""
        with self._lock:
            if self._job is not None:
                raise JobError(f"{self._what} is already going on; wait for it or cancel it")
            self._job = job = Job({"kind": kind, **request})
        try:
            return job.wait(progress)
        finally:
            self._job = None

    def cancel(self) -> None:
        """End the job there is."""
        job = self._job
        if job is not None:
            job.cancel()
