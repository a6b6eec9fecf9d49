# SPDX-License-Identifier: Apache-2.0

"""Real nodes in their own processes, in a ROS domain of their own, for one test; nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import GetState
from ros2_dynid.msg import ExcitationState
from std_srvs.srv import Trigger

from node_zygote import ForkedNodes
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.client import Client
from ros2_dynid.processes import Processes, own_domain

NOT_YET = ("the position of the robot is not known", "the robot is not at rest")
"""Refusals of a start that pass by themselves."""


class Patient(Client):
    """A client for a busy machine: what takes long is waited for, so that only what never comes is an error."""

    patience = 60.0

    def wait(self, done: Any, timeout: float, what: str) -> None:
        super().wait(done, 3 * timeout, what)


class Graph:
    """Starts nodes by name with parameters; `client` talks to them."""

    def __init__(self, processes: Processes, folder: Path, robot: str) -> None:
        self._processes, self.folder, self.robot_path = processes, folder, robot
        self.robot = load_robot(robot)
        self.client = Patient(self.robot, "test_client")
        self._folders = {
            "recorder": {"folder": folder / "recordings"},
            "sim_robot": {"rate": 500.0},  # nodes bear 1 kHz, which takes more of the machine's time
            "excitation": {"folder": folder / "trajectories", "planning_seconds": 2.0, "start_delay": 0.5,
                           "stale_seconds": 1.0, "duration": 5.0, "priority": 0},
            "feedforward": {"priority": 0},
            "panel": {"port": 0, "token_file": folder / "token"},
            "identification": {"recordings_folder": folder / "recordings", "models_folder": folder / "models"},
        }  # fmt: skip

    def start(self, node: str, *, name: str | None = None, remap: tuple[str, ...] = (), **parameters: Any) -> Any:
        declared = {"robot_adds": ["nothing"]} if node == "feedforward" else {}  # a URDF cannot say it
        options = {"robot": self.robot_path, **declared, **self._folders.get(node, {}), **parameters}
        arguments = [text for key, value in options.items() if value is not None for text in ("-p", f"{key}:={value}")]
        remaps = [text for rule in remap for text in ("-r", rule)]
        return self._processes.start(name or node, [f"ros2_dynid.nodes.{node}", "--ros-args", *arguments, *remaps])

    def ready(self, *nodes: str) -> None:
        """Wait until the nodes are active, and until the excitation would start: by what it says of itself."""
        for node in nodes:
            self.client.wait(lambda node=node: self._active(node), 40.0, f"the start of {node}")
        if {"excitation", "sim_robot"} <= set(nodes):
            self._sees_the_robot()

    def _sees_the_robot(self) -> None:
        heard: dict[str, str] = {}

        def take(message: DiagnosticArray) -> None:
            for status in message.status:
                if status.name == "excitation: state":
                    heard.update({pair.key: pair.value for pair in status.values})

        wanted = {"position": "known", "at_rest": "True", "controller": "connected"}
        # It stays until the client closes: rclpy's executor, in its own thread, may be about to wait for it.
        self.client.create_subscription(DiagnosticArray, "/diagnostics", take, 10)
        self.client.wait(lambda: wanted.items() <= heard.items(), 20.0, "a robot that the excitation can move")

    def run(self, service: str = "start") -> None:
        """Start, as soon as the excitation sees the robot at rest; the state is empty until it says one anew."""

        def begun() -> bool:
            self.client.excitation_state = ExcitationState()
            try:
                self.client.call(Trigger, f"excitation/{service}")
            except ClientError as error:
                if any(reason in str(error) for reason in NOT_YET):
                    return False
                raise
            return True

        self.client.wait(begun, 20.0, "a robot at rest")

    def _active(self, node: str) -> bool:
        with contextlib.suppress(ClientError):  # one that has just started may not have found us yet
            return self.client.call(GetState, f"{node}/get_state", timeout=3.0).current_state.label == "active"
        return False

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def kill(self, process: subprocess.Popen[str]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10.0)


@contextlib.contextmanager
def graph(folder: Path, robot: str = "demo3", *, forked: bool = True) -> Iterator[Graph]:
    """Yield a graph in a domain of its own; on leaving, every process is gone.

    Nodes are forked from a process that has imported what they need. Not `forked`, they start as on a robot.
    """
    with own_domain() as environment:
        saved = {key: os.environ.get(key) for key in environment}
        os.environ.update(environment)
        rclpy.init()
        try:
            with (ForkedNodes if forked else Processes)(folder, {"OMP_NUM_THREADS": "1"}) as processes:
                made = Graph(processes, folder, robot)
                try:
                    yield made
                finally:
                    made.client.close()
        finally:
            rclpy.try_shutdown()
            for key, value in saved.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value


def jobs_of(pid: int) -> list[str]:
    """Return the processes that a node's process has started."""
    found = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False)
    return found.stdout.split()
