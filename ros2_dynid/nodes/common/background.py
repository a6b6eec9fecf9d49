# SPDX-License-Identifier: Apache-2.0

"""Long services and actions: a callback may wait for a job in another process while the node answers everybody else."""

from __future__ import annotations

import threading
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup

from ros2_dynid.jobs import AnyOutcome, Job, JobError, Request, UseCase
from ros2_dynid.progress import Progress

THREADS = 4
"""Of the executor of a node with jobs: one for the job awaited, the others to answer."""


class OneJob:
    """At most one job of a node at a time; a second request is refused, not queued.

    group: for callbacks that wait.
    """

    def __init__(self, what: str) -> None:
        """`what` the job is, in words, for the refusal."""
        self._what = what
        self._job: Job[Any, Any] | None = None
        self._cancelled: threading.Event | None = None
        self._lock = threading.Lock()
        self.group = ReentrantCallbackGroup()

    def work(
        self,
        use_case: UseCase[Request, AnyOutcome],
        request: Request,
        progress: Progress | None = None,
        cancelled: threading.Event | None = None,
    ) -> AnyOutcome:
        """Wait for a job and return its outcome, or raise DynidError; one that is `cancelled` already ends at once."""
        with self._lock:
            if self._job is not None:
                raise JobError(f"{self._what} is already going on; wait for it or cancel it")
            job = Job(use_case, request)
            self._job, self._cancelled = job, cancelled
        try:
            if cancelled is not None and cancelled.is_set():
                job.cancel()
            return job.wait(progress)
        finally:
            with self._lock:
                self._job = self._cancelled = None

    def cancel(self, whose: threading.Event | None = None) -> None:
        """End the job there is; with `whose`, which is set first, only the one that was run with this event."""
        if whose is not None:
            whose.set()
        with self._lock:
            if self._job is not None and (whose is None or whose is self._cancelled):
                self._job.cancel()
