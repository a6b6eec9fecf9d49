"""Latency of the feedforward node from a streamed reference at 1 kHz to its torque, with the other core loaded.

    ./dynid python bench/feedforward_latency.py [SECONDS] [--json]

Two processes over DDS on this machine; a third one keeps a core busy. Also the node's memory before and after.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from array import array
from pathlib import Path

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.processes import Processes, own_domain

RATE = 1000


def resident(pid: int) -> int:
    """Return the resident memory of a process [kB]."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def main(seconds: float) -> dict[str, float]:
    """Measure for `seconds` and return percentiles [ms], rate [Hz] and growth [kB]."""
    robot = load_robot("demo6")
    base = base_parameters(robot)
    value = base.values(robot, standard_vector(robot))
    with tempfile.TemporaryDirectory() as name, own_domain() as environment:
        folder = Path(name)
        save_model(model_of(robot, base, value, np.ones(len(base)), np.eye(len(base))), folder / "model.yaml")
        os.environ.update(environment)
        with Processes(folder, environment) as processes:
            arguments = ["-p", f"model:={folder / 'model.yaml'}", "-p", "output:=effort"]
            node = processes.start("feedforward", ["ros2_dynid.nodes.feedforward", "--ros-args", *arguments])
            processes.start("load", ["timeit", "-n", "1", "-r", "1", "while True: pass"])
            return stream(robot, node.pid, seconds)


def stream(robot: object, pid: int, seconds: float) -> dict[str, float]:
    """Send references and take the torques that come back."""
    import rclpy
    from sensor_msgs.msg import JointState
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from ros2_dynid.nodes.fast import Stream
    from ros2_dynid.nodes.messages import JOINT_STATES, STREAMED

    rclpy.init()
    node = rclpy.create_node("latency")
    received: list[float] = []
    Stream(node, JointState, "feedforward_effort", lambda _: received.append(time.perf_counter()), STREAMED)
    sender = node.create_publisher(JointTrajectory, "reference", STREAMED)
    states = node.create_publisher(JointState, "joint_states", JOINT_STATES)
    while sender.get_subscription_count() == 0 or node.count_publishers("feedforward_effort") == 0:
        time.sleep(0.05)
    states.publish(JointState(name=list(robot.active_names), position=[0.0] * 6, velocity=[0.0] * 6))
    point = JointTrajectoryPoint()
    message = JointTrajectory(joint_names=list(robot.active_names), points=[point])
    sent: list[float] = []
    before = 0
    start = time.perf_counter()
    for k in range(int(seconds * RATE)):
        due = start + k / RATE
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        phase = 2 * np.pi * k / RATE / 4
        point.positions = array("d", 0.3 * np.sin(phase + np.arange(6)))
        point.velocities = array("d", 0.3 * np.cos(phase + np.arange(6)))
        point.accelerations = array("d", -0.3 * np.sin(phase + np.arange(6)))
        sent.append(time.perf_counter())
        sender.publish(message)
        if k == RATE:
            before = resident(pid)
    time.sleep(0.03)
    count = min(len(sent), len(received))
    latency = 1e3 * (np.array(received[:count]) - np.array(sent[:count]))[RATE // 2 :]
    result = {
        "sent": len(sent),
        "answered": len(received),
        "rate": (len(sent) - 1) / (sent[-1] - sent[0]),
        "median_ms": float(np.median(latency)),
        "p99_ms": float(np.percentile(latency, 99)),
        "worst_ms": float(latency.max()),
        "growth_kB": resident(pid) - before,
    }
    threading.Thread(target=rclpy.try_shutdown, daemon=True).start()
    return result


if __name__ == "__main__":
    numbers = [float(text) for text in sys.argv[1:] if not text.startswith("-")]
    found = main(numbers[0] if numbers else 20.0)
    print(
        json.dumps(found)
        if "--json" in sys.argv
        else "\n".join(f"{key:10s} {value:.4g}" for key, value in found.items())
    )
    sys.stdout.flush()
    os._exit(0)
