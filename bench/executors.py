# SPDX-License-Identifier: Apache-2.0

"""CPU and latency of a node that takes joint states at 1 kHz: rclpy's executors beside the streams of our nodes.

    ./dynid python bench/executors.py [SECONDS] [--json]

A process publishes 7 joints at 1 kHz. Another one, a managed node with its services and timers, takes them raw: in a
stream of its own thread (one by one, or in pieces of 4 ms), or as a subscription of rclpy's EventsExecutor,
SingleThreadedExecutor or MultiThreadedExecutor. CPU is that of the taking process, latency from the message's stamp.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

RATE = 1000
WARM_UP = 4.0
"""Time [s] before it is measured."""
KINDS = ("stream", "stream in pieces of 4 ms", "EventsExecutor", "SingleThreadedExecutor", "MultiThreadedExecutor")


def publish(seconds: float) -> None:
    """Publish joint states for some time [s]."""
    import rclpy
    from sensor_msgs.msg import JointState

    rclpy.init()
    node = rclpy.create_node("robot")
    publisher = node.create_publisher(JointState, "joint_states", 10)
    message = JointState(name=[f"joint_{k}" for k in range(7)])
    message.position = message.velocity = message.effort = [0.1] * 7
    start = time.monotonic()
    for k in range(int(seconds * RATE)):
        wait = start + k / RATE - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
        publisher.publish(message)


def take(kind: str, seconds: float) -> None:
    """Print CPU [%], messages a second, and latencies [ms] at the median and the 99th percentile."""
    import numpy as np
    import rclpy
    from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
    from rclpy.experimental import EventsExecutor
    from sensor_msgs.msg import JointState

    from ros2_dynid.nodes.common.fast import Stream
    from ros2_dynid.nodes.common.lifecycle_node import ManagedNode
    from ros2_dynid.nodes.common.qos import JOINT_STATES
    from ros2_dynid.recording.live import stamp_ns

    rclpy.init()
    node = ManagedNode("taker", ())
    late: list[int] = []

    def on_state(data: bytes) -> None:
        late.append(time.time_ns() - stamp_ns(data))

    executor: Any = SingleThreadedExecutor()
    if kind.startswith("stream"):
        Stream(node, JointState, "joint_states", on_state, JOINT_STATES, rest=0.004 if "pieces" in kind else 0.0)
    else:
        node.create_subscription(JointState, "joint_states", on_state, JOINT_STATES, raw=True)
        executors = {"EventsExecutor": EventsExecutor, "MultiThreadedExecutor": lambda: MultiThreadedExecutor(4)}
        executor = executors.get(kind, SingleThreadedExecutor)()
    executor.add_node(node)
    marks: list[tuple[float, float, int]] = []

    def mark() -> None:
        marks.append((time.process_time(), time.monotonic(), len(late)))
        if len(marks) > 1:
            (cpu, begin, first), (used, end, last) = marks
            p50, p99 = np.percentile(1e-6 * np.array(late[first:last]), (50, 99)) if last > first else (0.0, 0.0)
            took = end - begin
            row = {"cpu": 100 * (used - cpu) / took, "rate": (last - first) / took, "p50_ms": p50, "p99_ms": p99}
            print(json.dumps(row), flush=True)
            os._exit(0)

    for delay in (WARM_UP, WARM_UP + seconds):
        threading.Timer(delay, mark).start()
    executor.spin()  # in the main thread, where every executor may be


def main() -> None:
    """Measure one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--take", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--publish", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.publish:
        publish(args.seconds)
    elif args.take:
        take(args.take, args.seconds)
    else:
        compare(args.seconds, as_json=args.json)


def compare(seconds: float, *, as_json: bool) -> None:
    """Run every kind in processes of its own."""
    table: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        robot = subprocess.Popen([sys.executable, __file__, str(seconds + 60.0), "--publish"])
        try:
            command = [sys.executable, __file__, str(seconds), "--take", kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 20.0)
            table[kind] = json.loads(done.stdout.splitlines()[-1])
        finally:
            robot.kill()
            robot.wait()
        if not as_json:
            row = table[kind]
            print(
                f"{kind:26} {row['cpu']:5.1f} % of a core, {row['rate']:6.0f} a second, "
                f"{row['p50_ms']:.2f} ms at the median, {row['p99_ms']:.2f} ms at the 99th percentile",
                flush=True,
            )
    if as_json:
        print(json.dumps(table))


if __name__ == "__main__":
    main()
