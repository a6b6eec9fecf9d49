# SPDX-License-Identifier: Apache-2.0

"""dynid bench: our speed beside the peers', interleaved in one run."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.terminal import Column, print_table
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType

    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers

PACKAGES = {"pinocchio": "pin", "example_robot_data": "example-robot-data"}
"""Modules whose package has another name."""


@dataclass(frozen=True)
class BenchOutcome:
    """Peers' times over ours, single times [s], and benchmarks skipped since a peer is missing."""

    ratios: Mapping[str, float]
    seconds: Mapping[str, float]
    left_out: tuple[str, ...]


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "bench",
        help="compare the speed with other libraries",
        description="Run the benchmarks in the folder bench. Each runs ros2_dynid and a peer in turn and compares "
        "medians; a ratio is the peer's time over ours. Peers that are not installed are left out; "
        "./dynid bench in a checkout installs them.",
    )
    parser.add_argument("--only", metavar="NAMES", help="benchmarks to run, separated by commas, such as dynamics")


def run(args: argparse.Namespace) -> BenchOutcome:
    """Run every bench/bench_*.py that has a function measure() -> (ratios, seconds)."""
    folder = bench_folder()
    files = {file.stem.removeprefix("bench_"): file for file in sorted(folder.glob("bench_*.py"))}
    names = list(files) if args.only is None else [name.strip() for name in args.only.split(",")]
    unknown = [name for name in names if name not in files]
    if unknown:
        raise InputError(f"there is no benchmark {unknown[0]!r}", f"choose from {', '.join(files)}")
    ratios: dict[str, float] = {}
    seconds: dict[str, float] = {}
    missing: list[str] = []
    for name in names:
        if args.only is None and "def measure(" not in files[name].read_text():
            continue
        try:
            peer_ratios, times = _module(files[name]).measure()
        except ImportError as error:
            missing.append(f"{name}: {_hint(error)}")
            continue
        ratios |= peer_ratios
        seconds |= times
    return BenchOutcome(ratios, seconds, tuple(missing))


def _hint(error: ImportError) -> str:
    """Return one line on a peer that cannot be imported: which, and how to get it."""
    package = PACKAGES.get(error.name or "", error.name)
    if package is None or not isinstance(error, ModuleNotFoundError):
        return f"a peer does not load ({error})"
    return f"{package} is not installed; get it with ./dynid bench in a checkout, or with pip install {package}"


def bench_folder() -> Path:
    """Return the folder of the benchmarks, or refuse outside of a checkout."""
    folder = Path(__file__).parents[2] / "bench"
    if not folder.is_dir():
        raise InputError("the benchmarks are not installed", "run dynid bench from a checkout")
    return folder


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "measure"):
        raise InputError(f"{file.name} has no function measure", f"run it by itself: python bench/{file.name}")
    return module


def show(outcome: BenchOutcome, console: Console) -> None:
    """Print ratios and times."""
    ratios = [(name, f"{ratio:.1f}") for name, ratio in outcome.ratios.items()]
    print_table(console, [Column("benchmark", wrap=True), Column("peer's time / ours", right=True)], ratios)
    times = [(name, _duration(seconds)) for name, seconds in outcome.seconds.items()]
    print_table(console, [Column("what", wrap=True), Column("time", right=True)], times)
    for line in outcome.left_out:
        console.print(f"left out: {line}", markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    if seconds < 1e-5:
        return f"{seconds * 1e9:.0f} ns"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
