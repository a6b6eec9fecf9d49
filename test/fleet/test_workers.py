# SPDX-License-Identifier: Apache-2.0

"""Workers: in this process, in a cluster of our own, at a scheduler that is there."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from types import SimpleNamespace

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.fleet import workers
from ros2_dynid.fleet.map_recording import Failed
from ros2_dynid.fleet.workers import Task, ThisProcess
from ros2_dynid.identification.preparation.rows import most_threads


def test_tasks_run_one_after_the_other_in_this_process():
    waiting = [Task(lambda a, b: a + b, (1, 2), "sum"), Task(abs, (-3,), "size")]
    done = list(ThisProcess().run(lambda: waiting.pop(0) if waiting else None))
    assert [(one.task.subject, one.result) for one in done] == [("sum", 3), ("size", 3)]
    assert all(one.seconds >= 0.0 for one in done)


def test_workers_of_dask_take_tasks_as_they_become_ready():
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    waiting = [Task(pow, (k, 2), str(k)) for k in range(8)]
    waiting.append(Task(len, (bytes(11_000_000),), "8"))  # as a year of outcomes; Dask warns of 10 MB
    waiting.append(Task(abs, (-7,), "last"))
    open_tasks, most, returned = set(), 0, []

    def next_task():
        nonlocal most
        if len(waiting) == 1 and len(returned) < 9:
            return None  # the last one waits for all others
        if not waiting:
            return None
        open_tasks.add(waiting[0].subject)
        most = max(most, len(open_tasks))
        return waiting.pop(0)

    inside = {"n_workers": 3, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with dask.config.set(workers.SETTINGS), distributed.Client(**inside) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        hands = workers.DaskWorkers(client, share_files=True)
        assert hands.count == 3
        for done in hands.run(next_task):
            open_tasks.discard(done.task.subject)
            returned.append((done.task.subject, done.result))
            assert done.seconds >= 0.0
    assert sorted(returned[:9]) == [*((str(k), k**2) for k in range(8)), ("8", 11_000_000)] and returned[9] == (
        "last",
        7,
    )
    assert most == 2 * 3, "some ahead, and no more"


def test_a_task_on_a_worker_has_one_thread_and_its_time_is_taken():
    def work(number):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return number, most_threads.get()

    before = most_threads.get()
    assert before != 1
    result, seconds = workers.time_task(work, (3,))
    assert result == (3, 1) and 0.02 <= seconds < 1.0 and most_threads.get() == before


@pytest.mark.parametrize(("names", "count"), [((), 1), (("a",), 1), (("a", "b", "c"), 3)])
def test_a_cluster_says_how_many_workers_it_has_and_where_its_dashboard_is(names, count):
    asked = []

    def client(link):
        def info(n_workers):
            asked.append(n_workers)
            return {"workers": dict.fromkeys(names)}

        return SimpleNamespace(scheduler_info=info, dashboard_link=link)

    hands = workers.DaskWorkers(client("http://x:8787"), share_files=True)
    assert (hands.count, hands.dashboard, hands.share_files) == (count, "http://x:8787", True)
    assert workers.DaskWorkers(client(None), share_files=False).dashboard == "" and asked == [-1, -1], "all of them"


def test_workers_that_do_not_start_in_time_are_one_line(monkeypatch):
    distributed = pytest.importorskip("distributed")
    in_threads(monkeypatch)

    def late(self, n_workers, timeout):
        raise TimeoutError(f"only 0 of {n_workers} after {timeout} s")

    monkeypatch.setattr(distributed.Client, "wait_for_workers", late)
    with (
        pytest.raises(InputError, match=r"the workers do not start \(only 0 of 2 after 120 s\)"),
        workers.workers(None, 2),
    ):
        pass


def test_a_task_that_kills_its_workers_has_failed_and_a_lost_scheduler_ends_the_run():
    distributed = pytest.importorskip("distributed")

    def future(error):
        def result():
            raise error

        return SimpleNamespace(result=result)

    found = workers.result_of(future(distributed.KilledWorker("task", None, 3)))
    assert isinstance(found, Failed) and "every worker that ran it was lost" in found.what
    with pytest.raises(InputError, match="connection to the scheduler is lost"):
        workers.result_of(future(distributed.CancelledError("task")))
    assert workers.result_of(SimpleNamespace(result=lambda: 5)) == 5


def test_loggers_of_dask_are_quiet_afterwards():
    names = ("distributed.some", "tornado", "asyncio", "distributedx", "ros2_dynid.x")
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        workers.quiet_logs()
        quiet = [name for name in names if logging.getLogger(name).level > logging.CRITICAL]
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert quiet == ["distributed.some", "tornado", "asyncio"]


def in_threads(monkeypatch):
    """Let clusters that are started have threads for processes: they are there at once."""
    distributed = pytest.importorskip("distributed")
    started, cluster = [], distributed.LocalCluster

    def inside(**settings):
        started.append(dict(settings))
        made = cluster(**{**settings, "processes": False, "protocol": "tls://", "dashboard_address": None})
        started[-1]["address"] = made.scheduler_address
        return made

    monkeypatch.setattr(distributed, "LocalCluster", inside)
    return started


def test_a_cluster_has_a_process_of_one_thread_for_each_core_and_is_closed_to_others(monkeypatch):
    started = in_threads(monkeypatch)
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda process: {0, 5, 7})  # the cores that are ours
    for count, wanted in ((2, 2), (None, 3)):
        with workers.workers(None, count) as hands:
            waiting = [Task(abs, (-k,), "") for k in range(5)]
            found = [done.result for done in hands.run(lambda rest=waiting: rest.pop() if rest else None)]
            assert hands.count == wanted and sorted(found) == [0, 1, 2, 3, 4] and hands.share_files
            assert dask.config.get("distributed.scheduler.allowed-failures") == 3
            assert dask.config.get("distributed.worker.daemon") is True
            tls = started[0]["address"]
            stranger = distributed.Security.temporary().get_connection_args("client")
            with pytest.raises(OSError, match="TLS certificate does not match"):
                asyncio.run(distributed.comm.connect(tls, timeout=1.0, **stranger))
            with pytest.raises(OSError):
                asyncio.run(distributed.comm.connect(tls.replace("tls:", "tcp:"), timeout=1.0))
            ours = started[0]["security"].get_connection_args("client")
            asyncio.run(distributed.comm.connect(tls, timeout=5.0, **ours))
        settings = started.pop()
        assert settings["n_workers"] == wanted and settings["threads_per_worker"] == 1 and settings["processes"]
        assert settings["dashboard_address"] == "127.0.0.1:0", "for this machine only"
        assert settings["silence_logs"] == logging.CRITICAL


def test_a_scheduler_is_used_where_it_is_and_refused_where_it_has_no_workers(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "CONNECT", 1.0)
    quiet = []
    monkeypatch.setattr(workers, "quiet_logs", lambda: quiet.append(True))
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=1, **options) as cluster:
        with workers.workers(cluster.scheduler_address, None) as hands:
            assert hands.count == 1 and isinstance(hands, workers.DaskWorkers)
            assert not hands.share_files, "its workers may be on other machines"
        assert cluster.scheduler.workers, "it is not ours to end"
    with distributed.LocalCluster(n_workers=0, **options) as empty:
        address = empty.scheduler_address
        with pytest.raises(InputError, match="the scheduler has no workers"), workers.workers(address, None):
            pass
    for address in ("tcp://127.0.0.1:9", "nosuch://127.0.0.1:9"):
        with (
            pytest.raises(InputError, match="there is no scheduler at this address") as caught,
            workers.workers(address, None),
        ):
            pass
        assert caught.value.source == address
    assert len(quiet) == 4, "what Dask would log of it is said in one line"


def test_wrong_numbers_of_workers_are_refused():
    with pytest.raises(InputError, match="both a scheduler and a number"), workers.workers("tcp://a:1", 2):
        pass
    with pytest.raises(InputError, match="workers is -1"), workers.workers(None, -1):
        pass
    with workers.workers(None, 0) as hands:
        assert isinstance(hands, ThisProcess) and hands.count == 1 and not hands.dashboard
