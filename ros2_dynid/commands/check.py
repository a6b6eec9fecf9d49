# SPDX-License-Identifier: Apache-2.0

"""dynid check BAG ROBOT: is this recording usable?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import (
    add_preparation_arguments,
    add_reading_arguments,
    add_robot_arguments,
    preparation_of,
    reading_of,
    robot_source,
)
from ros2_dynid.commands.shared.terminal import Column, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.check import CheckOutcome

STYLES = {"green": "green", "yellow": "yellow", "red": "bold red"}
SHOWN_PROBLEMS = 40

USUAL_OPTIONS = ("--topic", "--columns", "--start", "--end", "--gains", "--tip-link", "--hold")
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="check whether a recording is usable",
        description="Check a recording before you use it: rate, jitter, gaps, repeated and backward stamps, NaN, stuck "
        "and quantised signals, missing efforts and velocities, saturation, sign and unit of the efforts, and how much "
        "each joint moved. The exit code is 0 whenever the recording could be read; see `verdict` in the JSON.",
    )
    parser.add_argument("recording", metavar="BAG", help="rosbag2 folder or file, ROS 1 bag, CSV or npz file")
    add_robot_arguments(parser)
    add_preparation_arguments(parser)
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> CheckOutcome:
    """Read and check the recording."""
    from ros2_dynid.usecases.check import CheckRequest, check

    return check(CheckRequest(robot_source(args), args.recording, reading_of(args), preparation_of(args)))


def show(outcome: CheckOutcome, console: Console) -> None:
    """Print the verdict, a table of the joints and the problems with what to do."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text.assemble((outcome.verdict, STYLES[outcome.verdict]), f"  {outcome.source}"))
    console.print(
        f"{outcome.samples} samples in {outcome.duration:.4g} s at {outcome.rate:.5g} Hz, "
        f"jitter {1e3 * outcome.jitter:.3g} ms, {outcome.gap_count} gaps"
    )
    rows: list[list[str | Text]] = []
    for row in outcome.joints:
        span = f"{_number(row.position_min)} .. {_number(row.position_max)}"
        coverage = "" if row.coverage is None else f"{100 * row.coverage:.0f} %"
        figures = [_number(value) for value in (row.speed_max, row.effort_rms, row.effort_max)]
        rows.append([row.name, Text(row.level, STYLES[row.level]), span, coverage, *figures])
    titles = ("position\n[rad, m]", "range\nused", "speed\nmax [/s]", "effort\nrms", "[N.m, N]\nmax")
    columns = [Column("joint", wrap=True), Column(""), *(Column(title, right=True) for title in titles)]
    print_table(console, columns, rows, compact=True)
    problems = Table.grid(padding=(0, 1))  # wrapped lines stay beside the level they belong to
    for problem in outcome.problems[:SHOWN_PROBLEMS]:
        where = f"{problem.joint}: " if problem.joint else ""
        problems.add_row(Text(problem.level, STYLES[problem.level]), Text(where + problem.what))
        problems.add_row("", Text(problem.do, "dim"))
    console.print(problems)
    hidden = len(outcome.problems) - SHOWN_PROBLEMS
    if hidden > 0:
        console.print(f"... and {hidden} more problems, see --json")
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
