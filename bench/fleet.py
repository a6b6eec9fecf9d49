# SPDX-License-Identifier: Apache-2.0

"""A fleet of simulated arms: who is broken, how it scales, what it costs.

    ./dynid python bench/fleet.py [--robots 50] [--recordings 20] [--seconds 30,7] [--rate 100]
                                  [--friction viscous+coulomb] [--workers 1,2] [--keep FOLDER]

Makes RECORDINGS recordings (MCAP, from the model, with noise) of each of ROBOTS three-joint arms whose parameters
differ by 2 %: once of half a minute, as a nightly check takes, and once of a few seconds, where all that is not reading
weighs most. Three arms are broken: one has twice the friction in a joint, one a drive whose gain is another one's, one
carries a load that nobody told of. Then a run of the fleet, a process of its own, goes over them once for each number
of workers, each time into an empty folder. Printed are who stands out, the time from the start of the process to its
end, what of it comes after the last recording, the processor time of recordings, robots and fleet, the largest memory
of a worker, whether the results are the same files, and what follows for 10,000 hours on 64 cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ros2_dynid.codec import decode  # noqa: E402
from ros2_dynid.dynamics.newton_euler import inverse_dynamics  # noqa: E402
from ros2_dynid.fleet.run import Work  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import standard_names  # noqa: E402
from ros2_dynid.recording.samples import Samples  # noqa: E402
from ros2_dynid.recording.save import save_samples  # noqa: E402
from ros2_dynid.sim.truth import true_parameters  # noqa: E402

ROBOT = load_robot("demo3")
START, DAY = 1_700_000_000_000_000_000, 86_400_000_000_000
SPREAD, NOISE = 0.02, 0.01
LOAD_KG, ARM_M = 1.0, 0.1
MAKERS = 4
"""Processes that make recordings: they mostly wait for the disk."""
RUN = """
import json, sys, time
from pathlib import Path
from ros2_dynid.fleet.forking import begin_to_start
begin_to_start()
from ros2_dynid.codec import encode
from ros2_dynid.fleet.run import run_fleet
work = run_fleet(Path(sys.argv[1]), Path(sys.argv[2]), count=int(sys.argv[3])).work
print(json.dumps({"work": encode(work), "itself": time.process_time()}))
"""
"""What `dynid fleet` does; it prints what the run had to do, and the processor time of the command itself [s]."""


def broken(robots: int) -> dict[str, str]:
    """Return the arms that are broken, and how."""
    one, two, three = (round(robots * share) for share in (0.14, 0.46, 0.82))
    return {name(one): "friction", name(two): "gain", name(three): "load"}


def name(robot: int) -> str:
    """Return the id of an arm."""
    return f"cell{robot:03d}"


def parameters(robot: int, fault: str) -> np.ndarray:
    """Return the standard parameters of an arm, shape (14 n,)."""
    chi = true_parameters(ROBOT, 1)
    chi = chi * (1.0 + SPREAD * np.random.default_rng([7, robot]).standard_normal(len(chi)))
    place = {text: k for k, text in enumerate(standard_names(ROBOT))}
    if fault == "friction":
        chi[[place["Fv2"], place["Fc2"]]] *= 2.0
    if fault == "load":  # a point mass on the last link, ARM_M along its x axis
        chi[place["M3"]] += LOAD_KG
        chi[place["MX3"]] += LOAD_KG * ARM_M
        chi[[place["YY3"], place["ZZ3"]]] += LOAD_KG * ARM_M**2
    return chi


def motion(rng: np.random.Generator, seconds: float, rate: float) -> tuple[np.ndarray, ...]:
    """Return t, q, dq, ddq of a periodic motion of all joints, five waves each."""
    t = np.arange(round(seconds * rate)) / rate
    base = min(seconds, 10.0)
    w = 2 * np.pi / base * np.arange(1, 6)
    n = len(ROBOT.active)
    a, phase = rng.uniform(0.4, 1.0, (5, n)) / np.arange(1, 6)[:, None] ** 1.2 * 0.5, rng.uniform(0, 2 * np.pi, (5, n))
    x = w[:, None] * t[:, None, None] + phase
    q = (a * np.sin(x)).sum(axis=1)
    dq, ddq = (a * w[:, None] * np.cos(x)).sum(axis=1), -(a * w[:, None] ** 2 * np.sin(x)).sum(axis=1)
    return t, q, dq, ddq


def record(folder: Path, robot: int, number: int, seconds: float, fault: str, rate: float = 100.0) -> None:
    """Write recording `number` of an arm."""
    rng = np.random.default_rng([11, robot, number])
    t, q, dq, ddq = motion(rng, seconds, rate)
    tau = inverse_dynamics(ROBOT, parameters(robot, fault), q, dq, ddq)
    if fault == "gain":
        tau[:, 1] *= 1.25
    tau += NOISE * tau.std(axis=0) * rng.standard_normal(tau.shape)
    file = folder / "bags" / name(robot) / f"night{number:03d}.mcap"
    file.parent.mkdir(parents=True, exist_ok=True)
    save_samples(Samples(t, ROBOT.active_names, q, tau=tau, start_ns=START + number * DAY), file)


def make(folder: Path, robots: int, recordings: int, seconds: float, rate: float) -> None:
    """Write all recordings that are not there."""
    faults = broken(robots)
    with ProcessPoolExecutor(MAKERS) as pool:
        waiting = [
            pool.submit(record, folder, robot, number, seconds, faults.get(name(robot), ""), rate)
            for robot in range(robots)
            for number in range(recordings)
            if not (folder / "bags" / name(robot) / f"night{number:03d}.mcap").exists()
        ]
        for one in waiting:
            one.result()


class Watch:
    """The largest memory of a worker [MB]: the kernel keeps it, so that a look a second is enough."""

    def __init__(self, process: int) -> None:
        """Begin to look at what that process starts."""
        self.memory = 0.0
        self._process = psutil.Process(process)
        self._running = True
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while self._running:
            try:
                children = self._process.children(recursive=True)
            except psutil.Error:
                return
            for child in children:
                try:
                    if "forkserver" in " ".join(child.cmdline()):
                        status = Path(f"/proc/{child.pid}/status").read_text()
                        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
                        self.memory = max(self.memory, int(peak.split()[1]) * 1024 / 1e6)
                except (psutil.Error, OSError, StopIteration):
                    continue
            time.sleep(1.0)

    def end(self) -> None:
        """Look no more."""
        self._running = False
        self._thread.join()


def digest(folder: Path) -> str:
    """Return a hash of what a run wrote for people and programs: fleet.json and the models."""
    found = hashlib.sha256()
    for file in sorted((folder / "robots").rglob("model.yaml")):
        found.update(file.read_bytes())
    found.update((folder / "fleet.json").read_bytes())
    return found.hexdigest()[:16]


def judged(folder: Path, faults: dict[str, str]) -> None:
    """Print who stands out and in what, and whether that is right."""
    found = json.loads((folder / "fleet.json").read_text())
    named: dict[str, list[str]] = {}
    for one in found["outliers"]:
        named.setdefault(one["robot"], []).append(f"{one['parameter']} {one['sigmas']:+.1f}")
    for robot in sorted({*faults, *named}):
        print(
            f"  {robot}: {faults.get(robot, 'nothing is wrong'):10s} {', '.join(named.get(robot, ['NOT FOUND'])[:6])}"
        )
    wrong = sorted(set(named) - set(faults)), sorted(set(faults) - set(named))
    print(f"  found {len(set(named) & set(faults))} of {len(faults)}; named without a fault: {wrong[0] or 'none'}")
    print(f"  {len(found['failed'])} recordings failed, page {(folder / 'index.html').stat().st_size / 1e3:.0f} kB")


@dataclass(frozen=True)
class Printed:
    """What a run prints: see RUN."""

    work: Work
    itself: float


def measured(file: Path, out: Path, count: int) -> tuple[Printed, float, float]:
    """Run over the fleet; return what it did, the time from start to end [s], and the memory of a worker [MB]."""
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
    command = [sys.executable, "-c", RUN, str(file), str(out), str(count)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        watch = Watch(process.pid)
        printed, _ = process.communicate()
    total = time.monotonic() - began
    watch.end()
    if process.returncode:
        raise SystemExit(f"the run with {count} workers ended with {process.returncode}")
    return decode(Printed, json.loads(printed), "run"), total, watch.memory


def bench(folder: Path, seconds: float, args: argparse.Namespace) -> None:
    """Make a fleet with recordings of that length and run over it."""
    faults, began = broken(args.robots), time.monotonic()
    make(folder, args.robots, args.recordings, seconds, args.rate)
    made = time.monotonic() - began
    file = folder / "fleet.yaml"
    file.write_text(f"defaults: {{robot: demo3, options: {{friction: {args.friction}}}}}\nfolders: bags\n")
    count = args.robots * args.recordings
    hours = count * seconds / 3600
    print(f"{count} recordings of {seconds:g} s of {args.robots} robots: {hours:.3g} h, made in {made:.0f} s")
    totals: dict[int, float] = {}
    digests = set()
    for number in map(int, args.workers.split(",")):
        out = Path(tempfile.mkdtemp(prefix=f"out{number}_", dir=folder))
        printed, total, memory = measured(file, out, number)
        did = printed.work
        totals[number] = min(total, totals.get(number, np.inf))  # what a busy machine adds is not ours
        digests.add(digest(out))
        print(f"{number} workers: {total:.1f} s, {memory:.0f} MB at most in one, {did.mapped} recordings mapped")
        print(f"  after the last recording: {did.after:.2f} s, {100 * did.after / total:.1f} % of the time")
        reduction = did.identifying + did.comparing
        core = did.mapping + reduction
        times = f"recordings {did.mapping:.1f} s, robots {did.identifying:.1f} s, fleet {did.comparing:.2f} s"
        each = did.identifying / max(did.reduced, 1)
        times += f", the command itself {printed.itself:.1f} s"
        print(f"  of a core: {times}: {100 * reduction / core:.0f} % is reduction, {each:.2f} s a robot")
    judged(out, faults)
    print(f"  the same files by content: {'yes' if len(digests) == 1 else 'NO'}")
    if {1, 2} <= totals.keys():
        print(f"two workers against one: {totals[1] / totals[2]:.2f} times")
    print(
        f"{core / hours:.1f} s of a core for an hour of recording, {did.mapping / hours:.1f} s of it reading: "
        f"10,000 h on 64 cores take {core / hours * 1e4 / 64 / 3600:.2f} h"
    )


def main() -> int:
    """Make the fleets and run over them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, default=50)
    parser.add_argument("--recordings", type=int, default=20)
    parser.add_argument("--seconds", default="30,7", help="lengths of recordings, a fleet for each")
    parser.add_argument("--rate", type=float, default=100.0, help="of the joint states [Hz]")
    parser.add_argument("--friction", default="viscous+coulomb")
    parser.add_argument("--workers", default="1,2", help="numbers of workers to run with, such as 1,2,1,2")
    parser.add_argument("--keep", type=Path, help="folder for recordings and results, used again")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        for seconds in map(float, args.seconds.split(",")):
            folder = (args.keep or Path(temporary)) / f"{seconds:g}s"
            folder.mkdir(parents=True, exist_ok=True)
            bench(folder, seconds, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
