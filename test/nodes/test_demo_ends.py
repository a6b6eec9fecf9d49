# SPDX-License-Identifier: Apache-2.0

"""The demo ends with all its processes, at once and without a traceback, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")


def members(mark: str) -> list[int]:
    """Return the processes of this demo: those with the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and (folder / "stat").read_text().split()[2] != "Z":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def interrupt(demo):
    """Send two interrupts within milliseconds, as a launch does."""
    for _ in range(2):
        os.killpg(demo.pid, signal.SIGINT)
        time.sleep(0.005)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("how", "delay"),
    [("interrupts", 0.05), ("interrupts", 0.4), ("interrupts", 2.5), ("interrupts", 7.0), ("kill", 5.0)],
)
def test_nothing_stays(tmp_path, how, delay):
    mark = f"DYNID_TEST_MARK={tmp_path}"
    environment = {**os.environ, "DYNID_TEST_MARK": str(tmp_path)}
    with (tmp_path / "err").open("w") as err:
        demo = subprocess.Popen(
            [sys.executable, "-m", "ros2_dynid.cli", "demo", "--robot", "demo3", "-o", str(tmp_path / "out")],
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=environment,
            start_new_session=True,
        )
        time.sleep(delay)
        begin = time.monotonic()
        if how == "kill":
            demo.kill()
        else:
            interrupt(demo)
        try:
            demo.wait(10.0)
        except subprocess.TimeoutExpired:
            assert delay < 0.1, "only Python's own start may lose an interrupt"
            interrupt(demo)
        demo.wait(10.0)
        while members(mark) and time.monotonic() - begin < 20.0:
            time.sleep(0.02)
        took = time.monotonic() - begin
    said = (tmp_path / "err").read_text() + "".join(log.read_text() for log in tmp_path.glob("out/logs/*.log"))
    assert not members(mark)
    assert "Traceback" not in said or delay < 0.1, said
    print(f"{how} after {delay} s: gone in {took:.2f} s")
