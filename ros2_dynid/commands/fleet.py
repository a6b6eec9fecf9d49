# SPDX-License-Identifier: Apache-2.0

"""dynid fleet: many robots, many recordings, on a Dask cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.terminal import Column, print_table, progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.fleet import FleetOutcome, FleetRequest

MAX_SHOWN_ROBOTS = 40
"""Rows of the table; the page has all."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "fleet",
        help="identify many robots from many recordings, and name those that stand out",
        description="Identify every robot of a fleet file from its recordings, compare robots of one kind, and follow "
        "their friction over time. A second run computes only what is new or changed.",
    )
    parser.add_argument("file", metavar="FLEET.yaml", help="fleet file: the robots and their recordings")
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="result folder; a later run reuses what it contains"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of a Dask scheduler, such as tcp://10.0.0.1:8786"
    )
    where.add_argument(
        "--workers", metavar="N", type=int,
        help="worker processes on this machine (default: one per core; 0: this process only, without Dask)",
    )  # fmt: skip


def request_of(args: argparse.Namespace) -> FleetRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.usecases.fleet import FleetRequest

    # Without the folder and the workers: reports must not depend on them.
    command = shlex.join(["dynid", "fleet", args.file, "-o", "DIR"])
    return FleetRequest(args.file, args.output, args.scheduler, args.workers, command)


def run(args: argparse.Namespace) -> FleetOutcome:
    """Run over the fleet."""
    from ros2_dynid.fleet.forking import begin_to_start

    if args.scheduler is None and args.workers != 0:
        begin_to_start()
    from ros2_dynid.usecases.fleet import fleet

    request = request_of(args)
    with progress_bar(no_color=args.no_color) as progress:
        return fleet(request, progress, say=lambda line: print(f"dynid fleet: {line}", file=sys.stderr, flush=True))


def show(outcome: FleetOutcome, console: Console) -> None:
    """Print the robots, those that need attention first, and what could not be used."""
    calm = ("good", "note")
    rows = sorted(outcome.robots.items(), key=lambda item: (item[1].verdict in calm, item[0]))
    cells = [
        (
            robot,
            one.verdict,
            str(one.recordings),
            "" if "all" not in one.validation else f"{100 * one.validation['all'].relative:.2f} %",
            one.reason,
        )
        for robot, one in rows[:MAX_SHOWN_ROBOTS]
    ]
    columns = [Column("robot"), Column("verdict"), Column("recordings", right=True)]
    columns += [Column("error\n(held out)", right=True), Column("why", wrap=True)]
    print_table(console, columns, cells, title=f"{len(outcome.robots)} robots")
    if len(rows) > MAX_SHOWN_ROBOTS:
        console.print(f"... and {len(rows) - MAX_SHOWN_ROBOTS} more robots on the page")
    for one in outcome.failed[:MAX_SHOWN_ROBOTS]:
        console.print(f"not used: {one.robot}: {one.recording}: {one.reason}", markup=False, soft_wrap=True)
    if len(outcome.failed) > MAX_SHOWN_ROBOTS:
        console.print(f"... and {len(outcome.failed) - MAX_SHOWN_ROBOTS} more recordings that could not be used")
    console.print(
        f"{outcome.recordings} recordings, {outcome.mapped} newly read; {outcome.reduced} robots newly identified"
    )
    console.print(f"report: {outcome.page}", markup=False, soft_wrap=True)
