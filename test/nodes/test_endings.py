# SPDX-License-Identifier: Apache-2.0

"""A node ends on SIGINT and SIGTERM at any moment: at once, in order, and without a traceback."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.processes import Processes, own_domain

NODES = ("sim_robot", "excitation", "recorder", "identification", "feedforward")
FOLDERS = {"excitation": ("folder",), "recorder": ("folder",), "identification": ("recordings_folder", "models_folder")}


@pytest.mark.timeout(90)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_nodes_end_together_at_any_moment(tmp_path, number):
    rng = random.Random(time.time_ns())
    delay = rng.uniform(0.2, 5.0)
    with own_domain() as environment, Processes(tmp_path, environment) as processes:
        running = {}
        for node in NODES:
            options = ["robot:=demo3", *(f"{name}:={tmp_path / node}" for name in FOLDERS.get(node, ()))]
            arguments = [text for option in options for text in ("-p", option)]
            running[node] = processes.start(node, [f"ros2_dynid.nodes.{node}", "--ros-args", *arguments])
        time.sleep(delay)
        for process in running.values():
            process.send_signal(number)
        codes = {node: process.wait(30.0) for node, process in running.items()}
    said = "".join((tmp_path / f"{node}.log").read_text() for node in NODES)
    # before a node handles signals, while its modules are loaded, the signal itself ends it
    assert set(codes.values()) <= {0, -number}, f"after {delay:.2f} s: {codes}\n{said}"
    assert "Traceback" not in said, f"after {delay:.2f} s: {said}"


def test_a_middleware_that_hangs_cannot_hold_a_node():
    """The process ends though a call that holds Python's lock does not return."""
    start = "import ctypes; from ros2_dynid.processes import exit_after; exit_after(0.3, 0); "
    code = start + "ctypes.PyDLL(None).sleep(30)"
    assert subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 0
