# SPDX-License-Identifier: Apache-2.0

"""Where the tasks run: a Dask cluster, one of this machine's processes started for it, or this process.

Dask sends tasks as pickles, which run code: a scheduler belongs on a trusted network, with TLS if others are on it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast
from uuid import uuid4

from ros2_dynid.errors import DynidError, InputError, Option, Text
from ros2_dynid.fleet.map_recording import Failed
from ros2_dynid.identification.preparation.rows import most_threads

if TYPE_CHECKING:
    from distributed import Client, Future

AHEAD = 2
"""Tasks handed out for each worker: one that it does and one that waits for it."""
CONNECT = 20.0
"""Seconds to wait for a scheduler."""
SETTINGS = {
    # Workers die of a bug in one task sooner than of bad luck in many; no task is worth more than three of them.
    "distributed.scheduler.allowed-failures": 3,
    "distributed.worker.daemon": True,
    # A worker that looks at itself a hundred times a second loses a tenth of its time with it.
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "100ms",
    "distributed.admin.system-monitor.gil.enabled": False,
    # The outcomes of a year of recordings go with a robot's task; there is nothing a user could do about it.
    "distributed.admin.large-graph-warning-threshold": "1TB",
}


@dataclass(frozen=True, eq=False)
class Task:
    """A function to be called on arguments; subject: what the task is about, for whoever gets the result."""

    function: Callable[..., object]
    arguments: tuple[object, ...]
    subject: str


@dataclass(frozen=True, eq=False)
class Done:
    """A task with what it returned, Failed if workers were lost over it, and the processor time that it took [s]."""

    task: Task
    result: object
    seconds: float


NextTask = Callable[[], Task | None]
"""Gives the next task; None if there is none until more are done."""


class Workers(Protocol):
    """Runs tasks, several at a time; share_files: whether they reach the files of this machine under the same paths."""

    count: int
    dashboard: str
    share_files: bool

    def run(self, next_task: NextTask) -> Iterator[Done]:
        """Yield what is done, as it comes, until there is no task left."""
        ...


class ThisProcess:
    """One after the other in this process."""

    count = 1
    dashboard = ""
    share_files = True

    def run(self, next_task: NextTask) -> Iterator[Done]:
        """Call the functions."""
        while (task := next_task()) is not None:
            began = time.process_time()
            result = task.function(*task.arguments)
            yield Done(task, result, time.process_time() - began)


class DaskWorkers:
    """The workers of a Dask cluster; share_files: whether it was started here."""

    def __init__(self, client: Client, *, share_files: bool) -> None:
        """Use the client's cluster."""
        self._client, self.share_files = client, share_files
        self.count = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        self.dashboard = str(client.dashboard_link or "")

    def run(self, next_task: NextTask) -> Iterator[Done]:
        """Hand tasks out, some ahead, and give results as they come."""
        from distributed import as_completed

        tasks: dict[Future, Task] = {}
        completed = as_completed()

        def hand_out() -> None:
            while len(tasks) < AHEAD * self.count and (task := next_task()) is not None:
                # By their names Dask knows how long tasks of a kind take, and shows them.
                key = f"{task.function.__name__}-{uuid4().hex}"
                future = self._client.submit(time_task, task.function, task.arguments, key=key, pure=False)
                tasks[future] = task
                completed.add(future)

        hand_out()
        while tasks:
            future = next(completed)
            task = tasks.pop(future)
            answer = result_of(future)
            result, seconds = (answer, 0.0) if isinstance(answer, Failed) else cast("tuple[object, float]", answer)
            future.release()
            yield Done(task, result, seconds)
            hand_out()


def result_of(future: Future) -> object:
    """Return what a task returned, or Failed if it took its workers with it.

    A result that is lost with its worker is computed again meanwhile.
    """
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        return future.result()
    except KilledWorker:
        what = "every worker that ran it was lost, probably out of memory"
        return Failed(what, "look at the workers' logs, and give them more memory")
    except (CancelledError, CommClosedError):  # the latter while a result is fetched
        what = "the connection to the scheduler is lost"
        raise InputError(what, "start the scheduler again and repeat the command: finished work is kept") from None


def time_task(function: Callable[..., object], arguments: tuple[object, ...]) -> tuple[object, float]:
    """Call a function on a worker, which has one core to itself; return the processor time [s] beside the result."""
    before = most_threads.set(1)
    began = time.thread_time()
    try:
        return function(*arguments), time.thread_time() - began
    finally:
        most_threads.reset(before)


def quiet_logs() -> None:
    """Keep what Dask's client logs of a scheduler that is gone off the terminal: the error says it in one line.

    Dask gives its loggers levels of their own, so each is set; its thread logs on when the client is closed, so they
    stay as they are.
    """
    for name in ("asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def workers(scheduler: str | None, count: int | None) -> Iterator[Workers]:
    """Yield the workers: of a scheduler's cluster, `count` processes of this machine (None: one a core), or 0: here."""
    if scheduler is not None and count is not None:
        what = "both a scheduler and a number of workers are given"
        raise InputError(what, Text("give ", Option("scheduler"), " for a cluster, or ", Option("workers")))
    if count is not None and count < 0:
        raise InputError(f"workers is {count}", "give their number; 0 runs everything in this process")
    if count == 0:
        yield ThisProcess()
        return
    try:
        import cryptography  # noqa: F401  for the keys of the cluster's own
        import dask
        from distributed import Client, LocalCluster, Security
    except ImportError:
        what = "a fleet needs the Python packages dask[distributed] and cryptography; pip install 'ros2_dynid[fleet]'"
        raise DynidError(what) from None
    with dask.config.set(SETTINGS), ExitStack() as stack:
        if scheduler is not None:
            quiet_logs()
            try:
                client = stack.enter_context(Client(scheduler, timeout=CONNECT))
            except (OSError, ValueError):
                what = "there is no scheduler at this address"
                hint = Text("start one (dask scheduler), or leave out ", Option("scheduler"))
                raise InputError(what, hint, scheduler) from None
            if not client.scheduler_info(n_workers=-1)["workers"]:
                raise InputError("the scheduler has no workers", f"start some: dask worker {scheduler}", scheduler)
        else:
            number = count or len(os.sched_getaffinity(0))
            try:
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=number,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=50,
                        security=Security.temporary(),  # else every process of this machine could run code in them
                    )
                )
                client = stack.enter_context(Client(cluster, timeout=CONNECT))
                client.wait_for_workers(number, timeout=120)
            except TimeoutError as error:
                raise InputError(f"the workers do not start ({error})", "free memory, or start fewer") from None
        yield DaskWorkers(client, share_files=scheduler is None)
