# SPDX-License-Identifier: Apache-2.0

"""dynid check BAG... ROBOT: are these recordings usable?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import (
    add_preparation_arguments,
    add_reading_arguments,
    add_robot_arguments,
    add_sensor_argument,
    preparation_of,
    reading_of,
    robot_source,
    sort_robot,
)
from ros2_dynid.commands.shared.terminal import STYLES, Column, print_levels, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.recording.checks import RecordingProblem
    from ros2_dynid.usecases.check import CheckOutcome, CheckRequest

SHOWN_PROBLEMS = 40

USUAL_OPTIONS = ("--strict", "--topic", "--columns", "--start", "--end", "--gains", "--tip-link", "--hold")
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="check whether recordings are usable",
        description="Check recordings before you use them: rate, jitter, gaps, repeated and backward stamps, repeated "
        "samples and jumps, NaN, stuck and quantised signals, missing efforts and velocities, saturation, sign and "
        "unit of the efforts, and how much each joint moved. Several recordings are checked one by one and, as "
        "identify takes them, together. The exit code is 0 whenever the recordings could be read; with --strict, 1 for "
        "a red verdict.",
    )
    parser.add_argument(
        "recordings", metavar="BAG", nargs="+", help="rosbag2 folders or files, ROS 1 bags, CSV or npz files"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the verdict is red")
    add_robot_arguments(parser)
    add_preparation_arguments(parser)
    add_sensor_argument(parser)
    add_reading_arguments(parser)


def request_of(args: argparse.Namespace) -> CheckRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.usecases.check import CheckRequest

    sort_robot(args)
    recordings = tuple(args.recordings)
    return CheckRequest(robot_source(args), recordings, reading_of(args), preparation_of(args), args.sensor)


def run(args: argparse.Namespace) -> CheckOutcome:
    """Read and check the recordings."""
    from ros2_dynid.usecases.check import check

    return check(request_of(args))


def exit_code(args: argparse.Namespace, outcome: CheckOutcome) -> int:
    """Return 1 for a red verdict, if that is asked for."""
    return int(args.strict and outcome.verdict == "red")


def show(outcome: CheckOutcome, console: Console) -> None:
    """Print the verdict, a table of the joints and the problems with what to do, of each recording."""
    from rich.text import Text

    from ros2_dynid.usecases.check import RecordingsCheck

    if isinstance(outcome, RecordingsCheck):
        for one in outcome.recordings:
            show(one, console)
        console.print(Text.assemble((outcome.verdict, STYLES.get(outcome.verdict, outcome.verdict)), "  all together"))
        _show_problems(outcome.problems, console)
        return
    console.print(Text.assemble((outcome.verdict, STYLES.get(outcome.verdict, outcome.verdict)), f"  {outcome.source}"))
    console.print(
        f"{outcome.samples} samples in {outcome.duration:.4g} s at {outcome.rate:.5g} Hz, "
        f"jitter {1e3 * outcome.jitter:.3g} ms, {outcome.gap_count} gaps"
    )
    rows: list[list[str | Text]] = []
    for row in outcome.joints:
        span = f"{_number(row.position_min)} .. {_number(row.position_max)}"
        coverage = "" if row.coverage is None else f"{100 * row.coverage:.0f} %"
        figures = [_number(value) for value in (row.speed_max, row.effort_rms, row.effort_max)]
        rows.append([row.name, Text(row.level, STYLES.get(row.level, row.level)), span, coverage, *figures])
    titles = (
        "position\n[rad, m]",
        "range\nused",
        "speed max\n[rad/s, m/s]",
        "effort rms\n[N.m, N]",
        "effort max\n[N.m, N]",
    )
    columns = [Column("joint", wrap=True), Column(""), *(Column(title, right=True) for title in titles)]
    print_table(console, columns, rows, compact=True)
    _show_problems(outcome.problems, console)
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)


def _show_problems(problems: Sequence[RecordingProblem], console: Console) -> None:
    """Print the problems, each with what to do about it."""
    rows = []
    for problem in problems[:SHOWN_PROBLEMS]:
        where = "" if not problem.joint or problem.joint in problem.what else f"{problem.joint}: "
        rows += [(problem.level, f"{where}{problem.what}"), ("", problem.do)]
    print_levels(console, rows)
    hidden = len(problems) - SHOWN_PROBLEMS
    if hidden > 0:
        console.print(f"... and {hidden} more problems, see --json")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
