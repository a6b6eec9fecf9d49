"""dynid check BAG ROBOT: is this recording usable?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, robot_from_args

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"green": "green", "yellow": "yellow", "red": "bold red"}
SHOWN_PROBLEMS = 40


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "check",
        help="is this recording usable?",
        description="Check a recording before it is used: rate, jitter, gaps, repeated and backward stamps, NaN, stuck "
        "and quantised signals, missing efforts and velocities, saturation, sign and unit of the efforts, and how much "
        "each joint moved. The exit code is 0 whenever the recording could be read; see `verdict` in the JSON.",
    )
    parser.add_argument("recording", metavar="BAG", help="rosbag2 folder or file, ROS 1 bag, CSV or npz file")
    add_robot_arguments(parser)
    from ros2_dynid.commands.shared.reading_arguments import add_reading_arguments

    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Read and check the recording."""
    from ros2_dynid.commands.shared.reading_arguments import read_recording
    from ros2_dynid.recording.checks import check_samples

    robot = robot_from_args(args)
    return check_samples(read_recording(args.recording, args, robot, in_order=False), robot)


def show(result: dict[str, Any], console: Console) -> None:
    """Print the verdict, a table of the joints and the problems with what to do."""
    from rich.markup import escape
    from rich.table import Table

    style = STYLES[result["verdict"]]
    console.print(f"[{style}]{result['verdict']}[/]  {escape(result['source'])}")
    console.print(
        f"{result['samples']} samples in {result['duration']:.4g} s at {result['rate']:.5g} Hz, "
        f"jitter {1e3 * result['jitter']:.3g} ms, {result['gap_count']} gaps"
    )
    console.print(_joints(result["joints"]))
    problems = Table.grid(padding=(0, 1))  # wrapped lines stay beside the level they belong to
    for problem in result["problems"][:SHOWN_PROBLEMS]:
        where = f"{problem['joint']}: " if problem["joint"] else ""
        problems.add_row(f"[{STYLES[problem['level']]}]{problem['level']}[/]", escape(where + problem["what"]))
        problems.add_row("", f"[dim]{escape(problem['do'])}[/]")
    console.print(problems)
    hidden = len(result["problems"]) - SHOWN_PROBLEMS
    if hidden > 0:
        console.print(f"... and {hidden} problems more, see --json")
    for note in result["notes"]:
        console.print(f"note: {escape(note)}")


def _joints(rows: list[dict[str, Any]]) -> Table:
    """Return the table of the joints, which fits into 80 columns; long names fold."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("joint", overflow="fold", min_width=8)
    table.add_column("", no_wrap=True)
    titles = ("position\n\\[rad, m]", "range\nused", "speed\nmax \\[/s]", "effort\nrms", "\\[N.m, N]\nmax")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        span = f"{_number(row['position_min'])} .. {_number(row['position_max'])}"
        coverage = "" if row["coverage"] is None else f"{100 * row['coverage']:.0f} %"
        numbers = [_number(row[key]) for key in ("speed_max", "effort_rms", "effort_max")]
        level = f"[{STYLES[row['level']]}]{row['level']}[/]"
        table.add_row(escape(row["name"]), level, span, coverage, *numbers)
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
