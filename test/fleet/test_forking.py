# SPDX-License-Identifier: Apache-2.0

"""The process that workers are forked from."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ros2_dynid.fleet import forking


def test_workers_are_forked_from_a_process_that_has_what_they_need():
    """In a process of its own: here Dask is loaded already, and has chosen."""
    code = """
import os, sys
from ros2_dynid.fleet.forking import METHOD, begin_to_start
before = dict(os.environ)
begin_to_start()
begin_to_start()
assert dict(os.environ) == before and "numpy" not in sys.modules and "distributed" not in sys.modules
import dask
assert dask.config.get(METHOD) == "forkserver"
from ros2_dynid.fleet.workers import Task, workers
from ros2_dynid.fleet.recordings import is_url
import builtins
waiting = [Task(builtins.eval, ("sorted(__import__('sys').modules)",), "a"), Task(os.getenv, ("OMP_NUM_THREADS",), "b")]
with workers(None, 1) as hands:
    found = {done.task.subject: done.result for done in hands.run(lambda: waiting.pop() if waiting else None)}
assert "ros2_dynid.fleet.reduce_robot" in found["a"] and "ros2_dynid.fleet.map_recording" in found["a"]
assert found["b"] == "1", found["b"]
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
    user = {**environment, "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "spawn"}
    kept = "import dask; from ros2_dynid.fleet.forking import METHOD, begin_to_start as b; b()"
    code = f"{kept}; assert dask.config.get(METHOD) == 'spawn'"
    subprocess.run([sys.executable, "-c", code], check=True, env=user, timeout=60)


@pytest.fixture
def fork_server(monkeypatch):
    """Let no process be started; return the environments that it would have had, and what it would have loaded."""
    started = []
    context = multiprocessing.get_context("forkserver")
    monkeypatch.setattr(context, "set_forkserver_preload", lambda names: started.append(names))
    monkeypatch.setattr(forking.forkserver, "ensure_running", lambda: started.append(dict(os.environ)))
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    for name in forking.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return started


@pytest.mark.parametrize("paths", [None, "/some/where"])
def test_the_process_that_workers_are_forked_from_finds_our_modules_and_has_one_thread(fork_server, monkeypatch, paths):
    dask = pytest.importorskip("dask")
    if paths is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", paths)
    monkeypatch.setattr(sys, "path", ["/a", "", "/b", *sys.path])
    before = dict(os.environ)
    with dask.config.set({forking.METHOD: None}):
        forking.begin_to_start()
        assert dask.config.get(forking.METHOD) == "forkserver"
    names, theirs = fork_server
    assert names == ["distributed.nanny", "ros2_dynid.fleet.reduce_robot", "ros2_dynid.fleet.map_recording"]
    assert theirs["PYTHONPATH"].split(os.pathsep) == [path for path in sys.path if path]
    assert {theirs[name] for name in forking.VARIABLES} == {"1"} and len(forking.VARIABLES) >= 3
    assert dict(os.environ) == before, "our own stays as it was"


def test_what_the_user_has_chosen_for_threads_and_for_the_start_of_workers_holds(fork_server, monkeypatch):
    dask = pytest.importorskip("dask")
    first, *others = forking.VARIABLES
    monkeypatch.setenv(first, "4")
    with dask.config.set({forking.METHOD: "spawn"}):
        forking.begin_to_start()
        assert dask.config.get(forking.METHOD) == "spawn"
    assert fork_server[1][first] == "4" == os.environ[first] and not set(others) & set(fork_server[1])
    fork_server.clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "dask", None)
        forking.begin_to_start()  # whoever needs it says so
    fork_server.clear()
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace())
    forking.begin_to_start()
    assert not fork_server, "Dask is loaded, and has chosen"
