# SPDX-License-Identifier: Apache-2.0

"""The recorder node before a stream of joint states at 1 kHz, with the other core loaded: does it lose any?

    ./dynid python bench/recorder_load.py [MINUTES] [--rate HZ] [--best-effort] [--json]

A process of its own sends numbered JointStates of 7 joints, another one keeps a core busy; the real node is started and
stopped by its services. Afterwards every message sent is looked for in the bag, by number, stamp and values.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.processes import Processes, own_domain
from ros2_dynid.recording.bag.writer import joint_state
from ros2_dynid.recording.read import load_samples

JOINTS = tuple(f"joint_a{j}" for j in range(1, 8))
SETTLE = 3.0
"""Time [s] after a start before the node's memory is taken as its normal one."""


def publish(rate: float, seconds: float, best_effort: bool, log: Path) -> None:
    """Send JointStates on a line on standard input, then save what was sent: stamps [ns] and when [ns]."""
    import rclpy
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import JointState

    rclpy.init()
    node = rclpy.create_node("sender")
    reliability = ReliabilityPolicy.BEST_EFFORT if best_effort else ReliabilityPolicy.RELIABLE
    publisher = node.create_publisher(JointState, "joint_states", QoSProfile(depth=10, reliability=reliability))
    print("ready", flush=True)
    sys.stdin.readline()
    count = round(rate * seconds)
    stamps = np.zeros(count, np.int64)
    begin = time.perf_counter()
    worst = 0.0
    for k in range(count):
        while (wait := begin + k / rate - time.perf_counter()) > 0:
            time.sleep(wait)
        worst = max(worst, -wait)
        stamps[k] = time.time_ns()
        publisher.publish(joint_state(JOINTS, int(stamps[k]), values(k)))
        if count > 10**6 and k % 1000 == 0:  # without end: what was sent must be known while it still sends
            np.save(log, stamps[: k + 1])
    np.save(log, stamps)
    print(worst, flush=True)
    sys.stdin.readline()
    os._exit(0)


def values(k: Any) -> list[Any]:
    """Return position, velocity and effort of message k, from which k can be recovered."""
    return [k + 0.01 * np.arange(7), -(k + 0.01 * np.arange(7)), 2.0 * k + np.arange(7)]


def listen(sender: Any, what: str) -> str:
    """Return the next line of a process."""
    line = sender.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"the sender ended before it was {what}")
    return str(line)


def resident(pid: int) -> int:
    """Return the resident memory of a process [kB]."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def busy(pid: int) -> float:
    """Return the processor time that a process has used [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def caller() -> Any:
    """Return a node that calls services, spinning in a thread."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor

    from ros2_dynid.nodes.common.caller import Caller

    rclpy.init()
    node = Caller("bench")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    threading.Thread(target=executor.spin, daemon=True).start()
    return node


def start_recorder(processes: Processes, folder: Path, name: str = "recorder") -> Any:
    """Start the real node."""
    return processes.start(name, ["ros2_dynid.nodes.recorder", "--ros-args", "-p", f"folder:={folder / 'bags'}"])


def start_sender(processes: Processes, rate: float, seconds: float, best_effort: bool, log: Path) -> Any:
    """Start the process that sends, and wait until it is ready."""
    arguments = ["recorder_load", "--publish", str(log), "--rate", str(rate), str(seconds / 60)]
    sender = processes.start("sender", arguments + ["--best-effort"] * best_effort, talk=True)
    listen(sender, "ready")
    return sender


def start_load(processes: Processes) -> None:
    """Keep the last core busy."""
    code = f"import os; os.sched_setaffinity(0, {{{os.cpu_count() - 1}}})"
    processes.start("load", ["timeit", "-n", "1", "-r", "1", "-s", code, "while True: pass"])


def environment_with_bench(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables with this folder among Python's."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def compare(sent: np.ndarray, path: str) -> dict[str, float]:
    """Return how many of the messages sent are missing from the bag; those that are there must be right."""
    samples = load_samples(path, in_order=False)
    stamps = samples.start_ns + np.round(samples.t * 1e9).astype(np.int64)
    number = np.round(samples.q[:, 0]).astype(np.int64)
    expected = values(number[:, None] + np.zeros(7))
    wrong = np.any(stamps != sent[number]) or not all(
        np.array_equal(a, b) for a, b in zip((samples.q, samples.dq, samples.tau), expected, strict=True)
    )
    if wrong:
        raise AssertionError("the bag holds what was not sent")
    return {
        "sent": len(sent),
        "recorded": len(number),
        "missing": len(sent) - len(np.unique(number)),
        "repeated": len(number) - len(np.unique(number)),
        "largest_gap_ms": float(np.diff(np.sort(stamps)).max()) / 1e6,
        "largest_gap_sent_ms": float(np.diff(sent).max()) / 1e6,
    }


def main(minutes: float, rate: float, best_effort: bool) -> dict[str, float]:
    """Measure and return counts, gaps [ms], size [MB], growth of memory [MB] and load of the core [%]."""
    from ros2_dynid.srv import StartRecording, StopRecording

    with tempfile.TemporaryDirectory() as name, own_domain() as environment:
        folder = Path(name)
        os.environ.update(environment)
        with Processes(folder, environment_with_bench(environment)) as processes:
            node = start_recorder(processes, folder)
            start_load(processes)
            sender = start_sender(processes, rate, 60 * minutes, best_effort, folder / "sent.npy")
            client = caller()
            client.call(StartRecording, "recorder/start", path=["load"])
            client.wait(lambda: client.count_subscribers("joint_states") > 0, 10.0, "the recorder's subscription")
            time.sleep(1.0)
            sender.stdin.write("go\n")
            sender.stdin.flush()
            time.sleep(SETTLE)
            memory, used, since = resident(node.pid), busy(node.pid), time.monotonic()
            late = float(listen(sender, "done"))
            growth, cpu = resident(node.pid) - memory, (busy(node.pid) - used) / (time.monotonic() - since)
            time.sleep(1.0)
            processes.check()
            stopped = client.call(StopRecording, "recorder/stop")
            found = compare(np.load(folder / "sent.npy"), stopped.path)
            size = sum(file.stat().st_size for file in Path(stopped.path).iterdir())
            said = {"said_samples": stopped.samples, "said_gaps": stopped.gaps, "said_rate": stopped.rate}
            found |= {**said, "size_MB": size / 1e6, "growth_MB": growth / 1e3, "cpu_percent": 100 * cpu}
            return found | {"sender_late_ms": 1e3 * late}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, nargs="?", default=1.0, help="how long (default: 1)")
    parser.add_argument("--rate", type=float, default=1000.0, help="joint states in a second [Hz] (default: 1000)")
    parser.add_argument("--best-effort", action="store_true", help="the sender's QoS (default: reliable)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--publish", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.publish:
        publish(args.rate, 60 * args.minutes, args.best_effort, args.publish)
    result = main(args.minutes, args.rate, args.best_effort)
    print(json.dumps(result) if args.json else "\n".join(f"{key:20s} {value:.6g}" for key, value in result.items()))
    sys.stdout.flush()
    os._exit(0)  # rclpy's threads need not be waited for
