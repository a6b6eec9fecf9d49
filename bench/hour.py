# SPDX-License-Identifier: Apache-2.0

"""One hour of bag to its report: `dynid identify` on 3.6 million samples of 7 joints, beside reading the file alone.

    python bench/hour.py [--minutes M] [--keep FOLDER]

Prints wall time, CPU time, peak memory and seconds for each million samples, of the command as a user runs it (its own
process, start of Python included). The bag (MCAP, 1.3 GB an hour) is made once, in a temporary folder or in FOLDER,
where a later run finds it again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ros2_dynid.codegen.backend import fast_inverse_dynamics  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import standard_names, standard_vector  # noqa: E402
from ros2_dynid.recording.bag.writer import BagWriter  # noqa: E402

RATE = 1000.0
START = 1_700_000_000 * 10**9
PIECE = 50_000
GEOMETRY = (
    # alpha [deg], d [m], r [m]: shoulder, elbow and wrist of a seven-axis arm
    (0.0, 0.0, 0.333),
    (-90.0, 0.0, 0.0),
    (90.0, 0.0, 0.316),
    (90.0, 0.0825, 0.0),
    (-90.0, -0.0825, 0.384),
    (90.0, 0.0, 0.0),
    (90.0, 0.088, 0.0),
)
READ = """
import sys
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.read import iter_samples
print(sum(len(piece) for piece in iter_samples(sys.argv[2], load_robot(sys.argv[1]))))
"""


def robot_text() -> str:
    """Return the robot file of a seven-axis arm whose links weigh 4 to 1 kg."""
    lines = ["name: seven", "angle_unit: deg", "joints:"]
    parameters = []
    for k, (alpha, d, r) in enumerate(GEOMETRY, 1):
        lines.append(
            f"  - {{name: joint{k}, parent: {k - 1}, type: revolute, alpha: {alpha}, d: {d}, theta: 0, r: {r}}}"
        )
        mass = 4.5 - 0.5 * k
        x, y, z = 0.03 * (-1) ** k, 0.05, 0.02 * k
        parameters += [f"M{k}: {mass}", f"MX{k}: {mass * x:.4g}", f"MY{k}: {mass * y:.4g}", f"MZ{k}: {mass * z:.4g}"]
        inertia = {
            "XX": y * y + z * z,
            "YY": x * x + z * z,
            "ZZ": x * x + y * y,
            "XY": -x * y,
            "XZ": -x * z,
            "YZ": -y * z,
        }
        own = {"XX": 0.01, "YY": 0.01, "ZZ": 0.01}
        parameters += [f"{name}{k}: {mass * (value + own.get(name, 0.0)):.4g}" for name, value in inertia.items()]
    return "\n".join([*lines, f"parameters: {{{', '.join(parameters)}}}", ""])


def write(folder: Path, minutes: float) -> tuple[Path, Path]:
    """Write the robot file and a bag of that length, unless they are there; return both."""
    robot_file, bag = folder / "seven.yaml", folder / f"bag_{minutes:g}"
    robot_file.write_text(robot_text())
    if bag.exists():
        return robot_file, bag
    robot = load_robot(robot_file)
    chi = standard_vector(robot)
    for k, name in enumerate(standard_names(robot)):
        chi[k] += {"Ia": 0.2, "Fv": 1.5, "Fc": 1.0}.get(name[:2], 0.0)
    rng, n = np.random.default_rng(0), robot.n
    w = 2.0 * np.pi * np.sort(rng.uniform(0.02, 0.6, 12))
    a, b = rng.normal(0.0, 0.5, (2, 12, n)) / np.sqrt(np.arange(1, 13))[:, None]
    with BagWriter(bag) as writer:
        channel = writer.add_topic("/joint_states")
        for begin in range(0, round(60.0 * minutes * RATE), PIECE):
            k = np.arange(begin, begin + PIECE, dtype=np.int64)
            stamps = np.asarray(START + k * round(1e9 / RATE), dtype=np.int64)
            sin, cos = np.sin(w * (k / RATE)[:, None]), np.cos(w * (k / RATE)[:, None])
            q, dq, ddq = sin @ a + cos @ b, (cos * w) @ a - (sin * w) @ b, -(sin * w**2) @ a - (cos * w**2) @ b
            tau = fast_inverse_dynamics(robot, chi, q, dq, ddq) + rng.normal(0.0, 0.1, q.shape)
            fields = [q + rng.normal(0.0, 1e-5, q.shape), dq + rng.normal(0.0, 1e-3, q.shape), tau]
            writer.write_joint_states(channel, robot.active_names, stamps, fields)
    return robot_file, bag


def run(command: list[str]) -> tuple[float, float, float]:
    """Return wall time [s], CPU time [s] with that of its children, and peak memory [MB] of a command."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.02)
        wall = time.perf_counter() - begin
        if process.returncode:
            out.seek(0)
            raise SystemExit(out.read().decode(errors="replace")[-2000:])
    return wall, _children_cpu(), peak


def _resident(pid: int) -> float:
    """Return the memory of a process and its children [MB]: shared pages counted once (Pss)."""
    total = 0.0
    for one in (pid, *_children(pid)):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    return total


def _children(pid: int) -> list[int]:
    try:
        found = [int(k) for k in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*found, *(grandchild for child in found for grandchild in _children(child))]


_spent = 0.0


def _children_cpu() -> float:
    """Return the CPU time of children since the last call [s]."""
    global _spent
    times = os.times()
    now = times.children_user + times.children_system
    spent, _spent = now - _spent, now
    return spent


def main() -> None:
    """Make the bag, read it, identify from it, and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the recording [min]")
    parser.add_argument("--keep", type=Path, help="folder to keep the bag in")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = args.keep or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        robot, bag = write(folder, args.minutes)
        size = sum(file.stat().st_size for file in bag.iterdir()) / 1e6
        millions = 60.0 * args.minutes * RATE / 1e6
        print(f"{millions:.2f} million samples, {size:.0f} MB", flush=True)
        commands = {
            "read alone": ["-c", READ, str(robot), str(bag)],
            "to report": ["-m", "ros2_dynid.cli", "identify", str(robot), str(bag), "-o", str(Path(place) / "model")],
        }
        for name, command in commands.items():
            wall, cpu, peak = run([sys.executable, *command])
            print(
                f"{name}: {wall:.2f} s wall, {cpu:.2f} s CPU, {peak:.0f} MB; "
                f"{wall / millions:.2f} s for each million samples",
                flush=True,
            )


if __name__ == "__main__":
    main()
