# SPDX-License-Identifier: Apache-2.0

"""dynid report: the HTML page of an identification, or the comparison of several."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.report import ReportOutcome, ReportRequest


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "report",
        help="write the HTML report of a result, or compare several",
        description="Write the HTML report of an identification, or a page that compares several.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="DIR", help="result folder of dynid identify; several are compared"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="page of a comparison (default: comparison.html)")
    parser.add_argument("--overwrite", action="store_true", help="replace the page of a comparison if it exists")
    parser.add_argument("--no-figures", action="store_true", help="write the page and tables only, no PNG or PDF")


def request_of(args: argparse.Namespace) -> ReportRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.usecases.report import ReportRequest

    return ReportRequest(tuple(args.folders), args.output, not args.no_figures, args.overwrite)


def run(args: argparse.Namespace) -> ReportOutcome:
    """Write the page."""
    from ros2_dynid.usecases.report import report

    return report(request_of(args))


def show(outcome: ReportOutcome, console: Console) -> None:
    """Print where the page is and what changed."""
    for label, names in outcome.changed.items():
        changes = ", ".join(names) if names else "no significant change"
        console.print(f"{label} against {outcome.models[0]}: {changes}", markup=False)
    console.print(f"report: {outcome.report}", markup=False, soft_wrap=True)
