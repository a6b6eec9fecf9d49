# SPDX-License-Identifier: Apache-2.0

"""Latency of the feedforward node from a streamed reference at 1 kHz to its torque, with the other core loaded.

    ./dynid python bench/feedforward_latency.py [SECONDS] [--feed MESSAGES] [--json]

Two processes over DDS on this machine; a third one keeps a core busy. Every torque is compared with the model's, so a
latency belongs to its reference; of references that come together, after a pause of the machine, the node answers the
last. Such pauses are measured beside it, by a process of the highest priority on each core: `paused_ms` in all, and
`p99_awake_ms` is the 99th percentile of the references that met none.

--feed then gives a node that many references (3600000 are an hour's worth), serialized as they come from the network,
as quickly as it takes them, while another process listens, and compares its memory after a percent and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.identification.model_file import load_model, model_of, save_model
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.processes import Processes, own_domain

RATE = 1000
PERIOD = 4.0
"""Of the motion [s]."""
SMOOTHING = 0.02
PRIORITY = 50
"""Of this process, which stands for the controller: controller managers run with 50 where the system allows it."""
PAUSE = 2e-3
"""A pause of the machine [s]: nothing ran on a core for longer than this."""


def resident(pid: int) -> int:
    """Return the resident memory of a process [kB]."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def motion() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, dq, ddq of one period, shape (N, 6)."""
    w = 2 * np.pi / PERIOD
    phase = w * np.arange(int(PERIOD * RATE))[:, None] / RATE + np.arange(6)
    return 0.3 * np.sin(phase), 0.3 * w * np.cos(phase), -0.3 * w * w * np.sin(phase)


def torques(model: FeedforwardModel) -> np.ndarray:
    """Return the torques of the motion that the node must answer with, shape (N, 6)."""
    rows = [(model.rigid(*row), row) for row in zip(*motion(), strict=True)]
    return np.array([rigid + model.friction(q, dq, SMOOTHING, rigid) for rigid, (q, dq, _) in rows])


class Bench:
    """The node before a stream of references."""

    def __init__(self, names: tuple[str, ...], expected: np.ndarray) -> None:
        """Connect; `expected` are the torques of the motion, shape (N, 6)."""
        import rclpy
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

        from ros2_dynid.nodes.common.fast import Stream
        from ros2_dynid.nodes.common.lifecycle_node import raise_priority
        from ros2_dynid.nodes.common.qos import JOINT_STATES, STREAMED

        sys.setswitchinterval(5e-4)
        rclpy.init()
        self._expected = expected
        self._node = rclpy.create_node("latency")
        self._received: list[tuple[float, bytes]] = []
        self._keep = True
        self._stream = Stream(self._node, JointState, "feedforward_effort", self._on_torque, STREAMED)
        self._sender = self._node.create_publisher(JointTrajectory, "reference", STREAMED)
        self._states = self._node.create_publisher(JointState, "joint_states", JOINT_STATES)
        while self._sender.get_subscription_count() == 0 or self._node.count_publishers("feedforward_effort") == 0:
            time.sleep(0.05)
        q, dq, _ = motion()
        self._state = JointState(name=list(names), position=array("d", q[0]), velocity=array("d", dq[0]))
        self._point = JointTrajectoryPoint()
        self._message = JointTrajectory(joint_names=list(names), points=[self._point])
        self.realtime = raise_priority(PRIORITY)
        self._motion = [[array("d", row) for row in x] for x in motion()]

    def _on_torque(self, data: bytes) -> None:
        if self._keep:
            self._received.append((time.perf_counter(), data))

    def _send(self, k: int) -> None:
        k %= len(self._expected)
        q, dq, ddq = self._motion
        self._point.positions, self._point.velocities, self._point.accelerations = q[k], dq[k], ddq[k]
        self._sender.publish(self._message)

    def paced(self, seconds: float, pauses: list[Path]) -> dict[str, float]:
        """Send at 1 kHz and return percentiles of the latency [ms], the rate [Hz] and what was answered."""
        sent: list[float] = []
        for _ in range(10):  # where the motion begins: a robot that is not seen follows nothing
            self._states.publish(self._state)
            time.sleep(0.005)
        start = time.perf_counter()
        for k in range(int(seconds * RATE)):
            due = start + k / RATE
            while (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            sent.append(time.perf_counter())
            self._send(k)
        time.sleep(0.04)  # less than the node's timeout, after which it would go over to gravity
        self._keep = False
        found = self._matched(sent)
        latency = 1e3 * np.array([took for k, took in found if k >= RATE])
        gaps = [tuple(map(float, line.split())) for log in pauses for line in log.read_text().splitlines()]
        gaps = [(begin, end) for begin, end in gaps if end > sent[RATE]]
        awake = 1e3 * np.array([took for k, took in found if k >= RATE and not _met(gaps, sent[k], took)])
        return {
            "realtime": self.realtime,
            "sent": len(sent),
            "answered": len(found),
            "rate": (len(sent) - 1) / (sent[-1] - sent[0]),
            "median_ms": float(np.median(latency)),
            "p99_ms": float(np.percentile(latency, 99)),
            "worst_ms": float(latency.max()),
            "paused_ms": 1e3 * sum(end - begin for begin, end in gaps),
            "awake": len(awake),
            "p99_awake_ms": float(np.percentile(awake, 99)),
        }

    def _matched(self, sent: list[float]) -> list[tuple[int, float]]:
        """Return each reference that was answered with the right torque, and how long that took [s]."""
        from sensor_msgs.msg import JointState

        from ros2_dynid.nodes.common.fast import unpacked

        found, k, period = [], 0, len(self._expected)
        for came, data in self._received:
            tau = np.array(unpacked(data, JointState).effort)
            for ahead in range(k, min(k + period // 2, len(sent))):
                if np.allclose(self._expected[ahead % period], tau, atol=1e-9):
                    found.append((ahead, came - sent[ahead]))
                    k = ahead + 1
                    break
        return found


def _met(gaps: list[tuple[float, float]], sent: float, took: float) -> bool:
    """Return whether a reference was under way in a pause, or sent right after one."""
    return any(begin < sent + took and sent < end + 2 * PAUSE for begin, end in gaps)


def watch_pauses(core: int) -> None:
    """Print when the machine did not run a thread that nothing can displace: begin and end [s, perf_counter]."""
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
    before = time.perf_counter()
    while True:
        time.sleep(2e-4)
        now = time.perf_counter()
        if now - before > PAUSE:
            print(before, now, flush=True)
        before = now


def feed(path: Path, count: int) -> dict[str, float]:
    """Give the node in this process `count` references and return its memory after a percent and at the end [kB]."""
    import rclpy
    from rclpy.serialization import serialize_message
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from ros2_dynid.nodes.feedforward.node import FeedforwardNode

    rclpy.init(args=["feed", "--ros-args", "-p", f"model:={path}", "-p", "output:=effort", "-p", "priority:=0"])
    node = FeedforwardNode()
    node.owner.close()  # this thread owns it from now on
    names, small = node.machine.joint_names, [0.1 * x for x in motion()]  # quicker than it says, so hardly any way
    now = time.monotonic()
    node.machine.handle(
        JointStateArrived(now, State(names, small[0][0], small[1][0], np.full(len(names), np.nan)), now)
    )
    rows = [[array("d", row) for row in x] for x in small]
    messages = [
        serialize_message(
            JointTrajectory(
                joint_names=list(names),
                points=[JointTrajectoryPoint(positions=q, velocities=dq, accelerations=ddq)],
            )
        )
        for q, dq, ddq in zip(*rows, strict=True)
    ]
    while node.output.efforts.get_subscription_count() == 0:
        time.sleep(0.05)
    before, start = 0, time.monotonic()
    for k in range(count):
        node.owner._references([messages[k % len(messages)]])
        if k == count // 100:
            before = resident(os.getpid())
    after, seconds = resident(os.getpid()), time.monotonic() - start
    return {
        "fed": count,
        "fed_rate": count / seconds,
        "memory_before_kB": before,
        "memory_after_kB": after,
        "growth_kB": after - before,
    }


def main(seconds: float, count: int) -> dict[str, Any]:
    """Measure for `seconds`, then feed `count` references."""
    robot = load_robot("demo6")
    base = base_parameters(robot)
    value = base.values(robot, standard_vector(robot))
    with tempfile.TemporaryDirectory() as name, own_domain() as environment:
        path = Path(name) / "model.yaml"
        save_model(model_of(robot, base, value, np.ones(len(base)), np.eye(len(base))), path)
        model = FeedforwardModel(robot, load_model(path).chi)
        expected = torques(model)
        os.environ.update(environment)
        with Processes(Path(name), {**environment, "PYTHONPATH": _path()}) as processes:
            arguments = ["-p", f"model:={path}", "-p", "output:=effort", "-p", f"smoothing:={SMOOTHING}"]
            node = processes.start("feedforward", ["ros2_dynid.nodes.feedforward", "--ros-args", *arguments])
            load = processes.start("load", ["timeit", "-n", "1", "-r", "1", "while True: pass"])
            cores = sorted(os.sched_getaffinity(0))
            watchers = [
                processes.start(f"pauses{core}", ["feedforward_latency", "--watch", str(core)]) for core in cores
            ]
            bench = Bench(robot.active_names, expected)
            result = bench.paced(seconds, [Path(name) / f"pauses{core}.log" for core in cores])
            for process in (load, node, *watchers):
                process.terminate()
            if not count:
                return result
            fed = processes.start("feed", ["feedforward_latency", "--node", str(path), "--feed", str(count)], talk=True)
            return {**result, **json.loads(fed.communicate()[0])}


def _path() -> str:
    return os.pathsep.join(part for part in (str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")) if part)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Latency of the feedforward node at 1 kHz.")
    parser.add_argument("seconds", nargs="?", type=float, default=20.0, help="how long to measure [s]")
    parser.add_argument("--feed", type=int, default=0, help="references to feed afterwards as quickly as possible")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--node", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.watch is not None:
        watch_pauses(args.watch)
    figures = main(args.seconds, args.feed) if args.node is None else feed(args.node, args.feed)
    if args.json or args.node:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{key:16s} {value:.6g}" for key, value in figures.items()))
    sys.stdout.flush()
    os._exit(0)
