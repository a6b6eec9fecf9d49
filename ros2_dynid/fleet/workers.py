"""Where the tasks run: a Dask cluster, one of this machine's processes started for it, or this process.

Dask sends tasks as pickles, which run code: a scheduler belongs on a trusted network, with TLS if others are on it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ros2_dynid.errors import DynidError, InputError, Option, Text
from ros2_dynid.fleet.map_recording import Failed
from ros2_dynid.fleet.reduce_robot import Reduced, RobotJob, reduce_robot

if TYPE_CHECKING:
    from distributed import Client, Future

AHEAD = 4
"""Tasks handed out for each worker: enough that none waits, few enough that results are stored as they come."""
CONNECT = 20.0
"""Seconds to wait for a scheduler."""


class Workers(Protocol):
    """Runs functions on arguments, several at a time."""

    count: int
    dashboard: str

    def run(
        self, function: Callable[..., object], arguments: Iterable[tuple[object, ...]]
    ) -> Iterator[tuple[int, object]]:
        """Yield (number, result) as they come; Failed where a worker was lost over it."""
        ...

    def reduce(self, jobs: Iterable[RobotJob], count: int) -> Iterator[tuple[int, Reduced | Failed]]:
        """Yield (number, result) of `count` robots as they come."""
        ...


class ThisProcess:
    """One after the other in this process."""

    count = 1
    dashboard = ""

    def run(
        self, function: Callable[..., object], arguments: Iterable[tuple[object, ...]]
    ) -> Iterator[tuple[int, object]]:
        """Call the function."""
        for number, argument in enumerate(arguments):
            yield number, function(*argument)

    def reduce(self, jobs: Iterable[RobotJob], count: int) -> Iterator[tuple[int, Reduced | Failed]]:
        """Reduce one robot after the other."""
        for number, job in enumerate(jobs):
            yield number, reduce_robot(job)


class DaskWorkers:
    """The workers of a Dask cluster."""

    def __init__(self, client: Client) -> None:
        """Use the client's cluster."""
        self._client = client
        self.count = max(1, len(self._addresses()))
        self.dashboard = str(client.dashboard_link or "")

    def _addresses(self) -> list[str]:
        return sorted(self._client.scheduler_info(n_workers=-1)["workers"])

    def run(
        self, function: Callable[..., object], arguments: Iterable[tuple[object, ...]]
    ) -> Iterator[tuple[int, object]]:
        """Hand tasks out, some ahead, and give results as they come."""

        def submit(number: int, argument: tuple[object, ...]) -> Future:
            return self._client.submit(function, *argument, pure=False)

        return self._given(enumerate(arguments), submit, AHEAD * self.count)

    def reduce(self, jobs: Iterable[RobotJob], count: int) -> Iterator[tuple[int, Reduced | Failed]]:
        """Reduce one robot on each worker at a time; the last ones, fewer than workers, share their questions."""

        def submit(number: int, argument: tuple[object, ...]) -> Future:
            addresses = self._addresses()
            function = _reduce_together if count - number <= self.count else reduce_robot
            place = [addresses[number % len(addresses)]] if addresses else None
            return self._client.submit(
                function, *argument, pure=False, workers=place, allow_other_workers=place is not None
            )

        for number, result in self._given(enumerate((job,) for job in jobs), submit, self.count):
            assert isinstance(result, Reduced | Failed)
            yield number, result

    def _given(
        self,
        tasks: Iterable[tuple[int, tuple[object, ...]]],
        submit: Callable[[int, tuple[object, ...]], Future],
        ahead: int,
    ) -> Iterator[tuple[int, object]]:
        from distributed import as_completed

        waiting = iter(tasks)
        numbers: dict[Future, int] = {}
        done = as_completed()

        def more() -> None:
            for number, argument in waiting:
                future = submit(number, argument)
                numbers[future] = number
                done.add(future)
                return

        for _ in range(ahead):
            more()
        while numbers:
            future = next(done)
            number = numbers.pop(future)
            yield number, self._result(future)
            future.release()
            more()

    def _result(self, future: Future) -> object:
        """Return what a task returned, or Failed if it took its workers with it."""
        from distributed import KilledWorker

        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                what = "every worker that took it on was lost, most likely for want of memory"
                return Failed(what, "look at the workers' logs, and give them more memory")
            assert isinstance(error, BaseException)
            raise error
        if future.status in ("cancelled", "lost"):
            raise lost()
        return future.result()


def _reduce_together(job: RobotJob) -> Reduced:
    """Reduce a robot on a worker that asks the whole cluster about the recordings."""
    from distributed import worker_client

    with worker_client() as client:

        def ask(function: Callable[..., object], arguments: Sequence[object]) -> list[object]:
            return list(client.gather(client.map(function, list(arguments), pure=False)))

        return reduce_robot(job, ask)


def lost() -> InputError:
    """Return the error of a scheduler that is gone."""
    what = "the scheduler is gone, or the connection to it"
    return InputError(what, "start it again and repeat the command: what was done is kept")


def quiet_logs() -> None:
    """Keep what Dask's client logs of a scheduler that is gone off the terminal: `lost` says it in one line.

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
        raise InputError(f"workers is {count}", "give their number; 0 does all in this process")
    if count == 0:
        yield ThisProcess()
        return
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        what = "a fleet needs the Python package dask[distributed]; install it: pip install 'ros2_dynid[fleet]'"
        raise DynidError(what) from None
    # Workers die of a bug in one task sooner than of bad luck in many; no task is worth more than three of them.
    settings = {"distributed.scheduler.allowed-failures": 3, "distributed.worker.daemon": True}
    with dask.config.set(settings):
        try:
            if scheduler is not None:
                quiet_logs()
                with Client(scheduler, timeout=CONNECT) as client:
                    if not client.scheduler_info(n_workers=-1)["workers"]:
                        what = "the scheduler has no workers"
                        raise InputError(what, f"start some: dask worker {scheduler}", scheduler)
                    yield DaskWorkers(client)
                return
            number = count or len(os.sched_getaffinity(0))
            with (
                LocalCluster(
                    n_workers=number,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=50,
                ) as cluster,
                Client(cluster, timeout=CONNECT) as client,
            ):
                client.wait_for_workers(number, timeout=120)
                yield DaskWorkers(client)
        except TimeoutError as error:
            if scheduler is None:
                raise InputError(f"the workers do not start ({error})", "free memory, or start fewer") from None
            what = "there is no scheduler at this address"
            raise InputError(what, "start one (dask scheduler), or leave the address away", scheduler) from None
