# SPDX-License-Identifier: Apache-2.0

"""Damaged recordings: bytes flipped, cut, spliced, and sizes that lie. Each must read or be refused in one line.

python test/support/fuzz_recordings.py [COUNT] [SEED]   (default: 2000 files) prints what was met and the extremes.
"""

from __future__ import annotations

import random
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from bagmaker import ROS1, ROS2, joint_state, plain_messages, write_bag, write_bag1
from ros2_dynid.errors import DynidError
from ros2_dynid.recording.checks import check_samples
from ros2_dynid.recording.read import load_samples

SECONDS = 2.0
MEGABYTES = 850.0
"""More than there was before [MB]: with the libraries a process of its own stays below 1 GB."""
_LIES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


@dataclass
class Outcome:
    """What a run met: kinds of result, the slowest file [s], the peak of memory [MB], and failures."""

    results: Counter = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_name: str = ""
    peak: float = 0.0
    failures: list[str] = field(default_factory=list)


def corpus(folder: Path) -> list[Path]:
    """Write small good recordings of every kind."""
    folder.mkdir()
    messages, names, _, q, dq, tau = plain_messages(120, joints=3)
    other = ROS2.types["std_msgs/msg/String"]
    messages += [("/text", s, other(data="x" * 40)) for _, s, _ in messages[::10]]
    shuffled = [(t, s, joint_state(s, names[::-1], q[k, ::-1])) for k, (t, s, _) in enumerate(messages[:20])]
    files = []
    for plugin, ending in (("mcap", "mcap"), ("sqlite3", "db3")):
        for compression in ("none", "storage", "message", "file"):
            if (plugin, compression) == ("sqlite3", "storage"):
                continue
            bag = write_bag(
                folder / f"{plugin}_{compression}", messages + shuffled, plugin=plugin, compression=compression
            )
            files.append(next(bag.glob(f"*.{ending}*")))
            if compression == "none":
                files.append(bag / "metadata.yaml")
    old = plain_messages(60, store=ROS1)[0]
    files += [write_bag1(folder / f"{kind}.bag", old, kind) for kind in ("NONE", "BZ2", "LZ4")]
    header = ["time", *(f"{name}.{kind}" for kind in ("position", "velocity", "effort") for name in names)]
    table = np.column_stack((np.arange(len(q)) * 1e-3, q, dq, tau))
    csv = folder / "table.csv"
    csv.write_text(",".join(header) + "\n" + "\n".join(",".join(map(repr, row)) for row in table.tolist()) + "\n")
    files.append(csv)
    np.savez(folder / "table.npz", t=table[:, 0], q=q, dq=dq, tau=tau)
    np.savez_compressed(folder / "packed.npz", t=table[:, 0], q=q, dq=dq, tau=tau)
    return [*files, csv, folder / "table.npz", folder / "packed.npz"]


def damage(data: bytes, other: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return the kind of damage and the damaged bytes."""
    out = bytearray(data)
    kind = rng.choice(("flip", "flips", "cut", "splice", "lie", "lies", "insert", "zeros", "double"))
    if kind in ("flip", "flips"):
        for _ in range(1 if kind == "flip" else rng.randint(2, 60)):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del out[rng.randrange(len(out)) :]
    elif kind == "splice":
        begin, end = sorted(rng.randrange(len(out)) for _ in range(2))
        at = rng.randrange(len(other))
        out[begin:end] = other[at : at + rng.randint(0, 4096)]
    elif kind in ("lie", "lies"):
        for _ in range(1 if kind == "lie" else rng.randint(2, 8)):
            size, form = rng.choice(((2, "<H"), (4, "<I"), (8, "<Q"), (4, ">I"), (2, ">H")))
            value = rng.choice(_LIES) & (2 ** (8 * size) - 1)
            at = rng.randrange(max(1, len(out) - size))
            out[at : at + size] = struct.pack(form, value)
    elif kind == "insert":
        at = rng.randrange(len(out))
        out[at:at] = rng.randbytes(rng.randint(1, 300))
    elif kind == "zeros":
        at = rng.randrange(len(out))
        out[at : at + 4096] = bytes(len(out[at : at + 4096]))
    else:
        begin, end = sorted(rng.randrange(len(out)) for _ in range(2))
        out[end:end] = out[begin:end]
    return kind, bytes(out)


class _HangError(BaseException):
    pass


def _alarm(*_: object) -> None:
    raise _HangError


def run(count: int, seed: int, keep: Path | None = None) -> Outcome:
    """Damage `count` recordings and read each; failures are kept in a folder if one is given."""
    rng = random.Random(seed)
    outcome = Outcome()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forgets the peak of what was done before
    before = _high_water()
    previous = signal.signal(signal.SIGALRM, _alarm)
    try:
        with tempfile.TemporaryDirectory() as folder:
            good = corpus(Path(folder) / "good")
            contents = {path: path.read_bytes() for path in good}
            for number in range(count):
                path = good[number % len(good)]
                kind, data = damage(contents[path], contents[rng.choice(good)], rng)
                target = _placed(Path(folder) / f"case{number}", path, data)
                name = f"{number} {path.parent.name}/{path.name} {kind}"
                _try(target, name, outcome, keep, before + MEGABYTES)
                shutil.rmtree(Path(folder) / f"case{number}")
    finally:
        signal.signal(signal.SIGALRM, previous)
    outcome.peak = _high_water()
    return outcome


def _placed(case: Path, original: Path, data: bytes) -> Path:
    """Put damaged bytes into a folder of their own; return the path to read."""
    case.mkdir()
    if original.name != "metadata.yaml":
        (case / original.name).write_bytes(data)
        return case / original.name
    for file in original.parent.iterdir():
        (case / file.name).write_bytes(data if file == original else file.read_bytes())
    return case


def _try(path: Path, name: str, outcome: Outcome, keep: Path | None, most: float) -> None:
    begin = time.perf_counter()
    failure = ""
    try:
        signal.alarm(20)
        check_samples(load_samples(path, in_order=False))
        outcome.results["read"] += 1
    except DynidError as error:
        outcome.results["refused"] += 1
        if not str(error).strip() or "\n" in str(error) or len(str(error)) > 1500:
            failure = f"unreadable error {str(error)[:300]!r}"
    except _HangError:
        failure = "hang"
    except BaseException as error:
        failure = f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.alarm(0)
    seconds = time.perf_counter() - begin
    if seconds > outcome.slowest:
        outcome.slowest, outcome.slowest_name = seconds, name
    if not failure and seconds > SECONDS:
        failure = f"{seconds:.1f} s"
    if not failure and _high_water() > most:
        failure = f"{_high_water():.0f} MB"
    if failure:
        outcome.failures.append(f"{name}: {failure}")
        if keep is not None:
            shutil.copytree(path if path.is_dir() else path.parent, keep / name.split()[0], dirs_exist_ok=True)


def _high_water() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    result = run(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 0, Path(tempfile.mkdtemp(prefix="fuzz-failures-")))
    print(dict(result.results), f"slowest {result.slowest:.2f} s ({result.slowest_name}), peak {result.peak:.0f} MB")
    print(f"{len(result.failures)} failures")
    print("\n".join(result.failures[:50]))
    sys.exit(1 if result.failures else 0)
