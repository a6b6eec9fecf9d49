# SPDX-License-Identifier: Apache-2.0

"""Reading a bag of JointStates of 7 joints at 1 kHz into arrays: compared with the rosbags library's decoder.

python bench/bench_bag_read.py [MESSAGES]   prints rate, ratio and peak of memory (default: 600,000)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ros2_dynid.recording.bag.writer import BagWriter
from ros2_dynid.recording.read import load_samples

JOINTS = tuple(f"joint_a{j}" for j in range(1, 8))
START = 1_700_000_000 * 10**9


def write(folder: Path, count: int) -> None:
    """Write a bag of `count` JointStates with all fields."""
    rng = np.random.default_rng(0)
    with BagWriter(folder) as writer:
        channel = writer.add_topic("/joint_states")
        for begin in range(0, count, 50_000):
            k = min(50_000, count - begin)
            stamps = START + np.arange(begin, begin + k) * 1_000_000
            writer.write_joint_states(channel, JOINTS, stamps, [rng.normal(size=(k, 7)) for _ in range(3)])


def by_the_library(folder: Path) -> list[np.ndarray]:
    """Read position, velocity and effort with the rosbags library, message by message."""
    from rosbags.rosbag2 import Reader
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.LATEST)
    with Reader(folder) as reader:
        count = reader.message_count
        stamps, arrays = np.empty(count), [np.empty((count, 7)) for _ in range(3)]
        for k, (connection, _, raw) in enumerate(reader.messages()):
            message = store.deserialize_cdr(raw, connection.msgtype)
            stamps[k] = (message.header.stamp.sec - START // 10**9) + message.header.stamp.nanosec * 1e-9
            arrays[0][k], arrays[1][k], arrays[2][k] = message.position, message.velocity, message.effort
    return [stamps, *arrays]


def ours(folder: Path) -> list[np.ndarray]:
    """Read the same with load_samples."""
    samples = load_samples(folder)
    assert samples.dq is not None and samples.tau is not None
    return [samples.t, samples.q, samples.dq, samples.tau]


def measure(count: int = 100_000, repeats: int = 3) -> tuple[dict[str, float], dict[str, float]]:
    """Return the ratio (the library's time over ours) and the times [s] for `count` messages, values compared."""
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        write(bag, count)
        times: dict[str, list[float]] = {"ours": [], "library": []}
        for _ in range(repeats):
            begin = time.perf_counter()
            a = ours(bag)
            middle = time.perf_counter()
            b = by_the_library(bag)
            times["library"].append(time.perf_counter() - middle)
            times["ours"].append(middle - begin)
            if not all(np.array_equal(x, y) for x, y in zip(a[1:], b[1:], strict=True)):
                raise AssertionError("our values are not those of the library")
    seconds = {name: statistics.median(values) for name, values in times.items()}
    named = {"bag_read_ours": seconds["ours"], "bag_read_rosbags": seconds["library"]}
    return {"bag_read": seconds["library"] / seconds["ours"]}, named


def peak(folder: Path) -> tuple[float, float]:
    """Return the peak of memory above the state before reading, and the size of the arrays [MB], of this process."""
    before = _high_water()
    size = sum(array.nbytes for array in ours(folder))
    return _high_water() - before, size / 2**20


def _high_water() -> float:
    """Return the most memory that this process has held [MB]; ru_maxrss would count its parent's too."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print(*peak(Path(sys.argv[2])))
    else:
        messages = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
        ratios, seconds = measure(messages)
        for name, value in seconds.items():
            print(f"{name}: {value:.2f} s, {messages / value:,.0f} messages/s")
        print(f"ratio {ratios['bag_read']:.1f}")
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "bag", messages)
            command = [sys.executable, __file__, "--peak", str(Path(folder) / "bag")]
            peak_mb, arrays = map(float, subprocess.run(command, capture_output=True, check=True).stdout.split())
        print(f"peak of memory {peak_mb:.0f} MB, the arrays {arrays:.0f} MB, above them {peak_mb - arrays:.0f} MB")
