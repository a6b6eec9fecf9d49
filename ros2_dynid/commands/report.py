# SPDX-License-Identifier: Apache-2.0

"""dynid report: the HTML page of an identification, or the comparison of several."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.report import ReportOutcome


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "report", help="HTML page with plots; several folders: what changed", description=__doc__
    )
    parser.add_argument("folders", nargs="+", metavar="DIR", help="folder that dynid identify wrote; several: compare")
    parser.add_argument("-o", "--output", metavar="FILE", help="the comparison's page (default: comparison.html here)")
    parser.add_argument("--no-figures", action="store_true", help="only the page and tables, no PNG and PDF")


def run(args: argparse.Namespace) -> ReportOutcome:
    """Write the page."""
    from ros2_dynid.usecases.report import ReportRequest, report

    return report(ReportRequest(tuple(args.folders), args.output, not args.no_figures))


def show(outcome: ReportOutcome, console: Console) -> None:
    """Print where the page is and what changed."""
    for label, names in outcome.changed.items():
        changes = ", ".join(names) if names else "no significant change"
        console.print(f"{label} against {outcome.models[0]}: {changes}", markup=False)
    console.print(f"report: {outcome.report}", markup=False, soft_wrap=True)
