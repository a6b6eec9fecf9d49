# SPDX-License-Identifier: Apache-2.0

"""kill -9 of the recorder node at random moments while it records 1 kHz: is every bag there up to the last second?

    ./dynid python bench/recorder_kills.py [KILLS] [--seed N] [--json]

After each kill the bag must open, hold every message sent from the first to its last one, and miss less than a second
before the kill; bags from before must not have changed by a byte; the node must start and record again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from recorder_load import caller, environment_with_bench, start_load, start_recorder, start_sender
from ros2_dynid.processes import Processes, own_domain
from ros2_dynid.recording.read import load_samples

LONGEST = 6.0
"""A kill comes at most so long [s] after a recording has begun."""


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def listeners(client: Any) -> set[bytes]:
    """Return the identities of the subscriptions to joint states."""
    return {bytes(info.endpoint_gid) for info in client.get_subscriptions_info_by_topic("joint_states")}


def flows(path: str) -> bool:
    """Return whether the sender has found the new node, which may take DDS some seconds: the bag has a chunk."""
    return any(file.stat().st_size > 1000 for file in Path(path).glob("*.mcap"))


def started(client: Any, name: str) -> str:
    """Start a recording; while DDS still remembers the killed node, a request may go there and be lost."""
    from ros2_dynid.srv import StartRecording

    from ros2_dynid.nodes.common.caller import ClientError

    for attempt in range(10):
        with contextlib.suppress(ClientError):
            return str(client.call(StartRecording, "recorder/start", timeout=3.0, path=[f"{name}_{attempt}"]).path)
    raise AssertionError("the recorder does not start again")


def main(kills: int, seed: int) -> list[dict[str, float]]:
    """Kill so often and return what each bag lost: messages between its ends, and time before the kill [s]."""
    rng = np.random.default_rng(seed)
    found = []
    with tempfile.TemporaryDirectory() as name, own_domain() as environment:
        folder = Path(name)
        os.environ.update(environment)
        with Processes(folder, environment_with_bench(environment)) as processes:
            start_load(processes)
            sender = start_sender(processes, 1000.0, 3600.0, False, folder / "sent.npy")
            sender.stdin.write("go\n")
            sender.stdin.flush()
            client = caller()
            before: dict[str, str] = {}
            for k in range(kills):
                old = listeners(client)  # DDS remembers a killed node for some 20 s
                node = start_recorder(processes, folder, f"recorder_{k}")
                client.wait(lambda old=old: listeners(client) - old, 30.0, "the start of the recorder")
                path = started(client, f"run_{k}")
                client.wait(lambda path=path: flows(path), 30.0, "the first joint state")
                time.sleep(rng.uniform(0.0, LONGEST))
                os.kill(node.pid, signal.SIGKILL)
                killed = time.time_ns()
                node.wait()
                found.append({"kill": k, **judged(path, killed, folder / "sent.npy")})
                after = fingerprint(folder / "bags")
                if any(after.get(file) != text for file, text in before.items()):
                    raise AssertionError("an earlier bag has changed")
                before = after
    return found


def judged(path: str, killed: int, log: Path) -> dict[str, float]:
    """Return how many samples a bag has, how many are missing between its ends, and what it lacks at its end [s]."""
    samples = load_samples(path, in_order=False)
    stamps = samples.start_ns + np.round(samples.t * 1e9).astype(np.int64)
    time.sleep(2.5)  # the sender saves what it sent once a second
    sent = np.load(log)
    inside = sent[(sent >= stamps[0]) & (sent <= stamps[-1])]
    missing = len(np.setdiff1d(inside, stamps))
    return {"samples": len(stamps), "missing": missing, "lost_s": (killed - int(stamps[-1])) / 1e9}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=10, help="how many (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = main(args.kills, args.seed)
    for row in [] if args.json else rows:
        print(f"kill {row['kill']}: {row['samples']} samples, {row['missing']} missing, {row['lost_s']:.3f} s lost")
    if args.json:
        print(json.dumps(rows))
    sys.stdout.flush()
    os._exit(0)  # rclpy's threads need not be waited for
