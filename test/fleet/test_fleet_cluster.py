# SPDX-License-Identifier: Apache-2.0

"""Runs on workers of Dask: the same files, also after a worker, the scheduler or the command is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ros2_dynid.fleet.run import run_fleet


def test_workers_of_dask_give_the_same_files_also_when_two_are_killed(site, tmp_path):
    pytest.importorskip("distributed")
    import psutil

    file, run = site
    killed = []

    def kill_one(stage: str, done: float) -> None:
        if stage.startswith("reading recordings") and len(killed) < 2:
            for child in psutil.Process().children(recursive=True):
                if "spawn_main" in " ".join(child.cmdline()):  # Dask is loaded already: it spawns
                    killed.append(child.pid)
                    os.kill(child.pid, signal.SIGKILL)
                    return

    lines: list[str] = []
    found = run_fleet(file, tmp_path / "out", count=2, progress=kill_one, say=lines.append)
    assert killed and lines[0].startswith("dashboard: http")
    assert found.work.mapped == 4 and not found.fleet.failed
    assert found.result.read_bytes() == run.result.read_bytes()
    for robot in found.fleet.robots.values():
        theirs = run.result.parent / robot.model
        assert (tmp_path / "out" / robot.model).read_bytes() == theirs.read_bytes()


def started(file: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start the command as a user does."""
    command = [sys.executable, "-m", "ros2_dynid.cli", "fleet", str(file), "-o", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_an_outcome(run: subprocess.Popen[str], out: Path) -> None:
    end = time.monotonic() + 120
    while not list(out.glob("prepared/*/*.fleet")):
        assert run.poll() is None, f"the run ended with code {run.returncode} before its first outcome"
        assert time.monotonic() < end, "no recording was mapped within 120 s"
        time.sleep(0.01)


@pytest.mark.timeout(300)
def test_a_worker_that_is_killed_is_forked_again(site, tmp_path):
    pytest.importorskip("distributed")
    import psutil

    def is_forked(process: psutil.Process) -> bool:
        return all("forkserver" in " ".join(one.cmdline()) for one in (process, process.parent()))

    file, run = site
    begun = started(file, tmp_path / "out", "--workers", "2")
    wait_for_an_outcome(begun, tmp_path / "out")
    workers = list(filter(is_forked, psutil.Process(begun.pid).children(recursive=True)))
    assert len(workers) == 2
    os.kill(workers[0].pid, signal.SIGKILL)
    _, said = begun.communicate(timeout=240)
    assert begun.returncode == 0, said
    assert (tmp_path / "out" / "fleet.json").read_bytes() == run.result.read_bytes()


@pytest.mark.timeout(300)
def test_a_killed_command_leaves_no_process_and_is_taken_up_again(site, tmp_path):
    pytest.importorskip("distributed")
    import psutil

    file, run = site
    out = tmp_path / "out"
    begun = started(file, out, "--workers", "1")
    wait_for_an_outcome(begun, out)
    children = psutil.Process(begun.pid).children(recursive=True)
    os.kill(begun.pid, signal.SIGKILL)
    begun.communicate()
    kept = len(list(out.glob("prepared/*/*.fleet")))
    _, alive = psutil.wait_procs(children, timeout=60)
    assert children and not alive, "its workers end with it"
    again = run_fleet(file, out, count=0)
    assert again.work.mapped <= 4 - kept < 4
    assert again.result.read_bytes() == run.result.read_bytes()


@pytest.mark.timeout(300)
def test_a_killed_scheduler_is_one_line_and_what_was_done_is_kept(site, tmp_path):
    pytest.importorskip("distributed")
    file, run = site
    out, where = tmp_path / "out", tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1"]
    options = ["--no-dashboard", "--scheduler-file", str(where)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*dask, *options], **quiet)
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *options]
    hand = None
    try:
        hand = subprocess.Popen(worker, **quiet, cwd=tmp_path)
        end = time.monotonic() + 120
        while not _written(where) or not _has_workers(json.loads(where.read_text())["address"]):
            assert time.monotonic() < end, "the scheduler did not have its worker within 120 s"
            time.sleep(0.05)
        begun = started(file, out, "--scheduler", json.loads(where.read_text())["address"])
        wait_for_an_outcome(begun, out)
        scheduler.kill()
        _, said = begun.communicate(timeout=120)
    finally:
        for process in (scheduler, hand):
            if process is not None:
                process.kill()
                process.wait()
    if begun.returncode == 0:
        pytest.skip("the run was over before the scheduler was killed")
    lines = [line for line in said.splitlines() if line and not line.startswith("dashboard:")]
    assert begun.returncode == 2 and "Traceback" not in said
    assert "connection to the scheduler is lost" in lines[-1] and "repeat the command" in lines[-1]
    again = run_fleet(file, out, count=0)
    assert again.work.mapped < 4 and again.result.read_bytes() == run.result.read_bytes()


def _written(file):
    """Whether a scheduler's file is there as a whole: it is empty for a moment."""
    return file.is_file() and file.read_text().rstrip().endswith("}")


def _has_workers(address: str) -> bool:
    from distributed import Client

    with Client(address, timeout=60) as client:
        return bool(client.scheduler_info(n_workers=-1)["workers"])
