"""dynid report: the HTML page of an identification, or the comparison of several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Describe the command's arguments."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report", help="HTML page with plots; several folders: what changed", description=__doc__
    )
    parser.add_argument("folders", nargs="+", metavar="DIR", help="folder that dynid identify wrote; several: compare")
    parser.add_argument("-o", "--output", metavar="FILE", help="the comparison's page (default: comparison.html here)")
    parser.add_argument("--no-figures", action="store_true", help="only the page and tables, no PNG and PDF")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Write the page and return its path."""
    from ros2_dynid.errors import InputError
    from ros2_dynid.report.build import write_comparison, write_report

    folders = [Path(folder) for folder in args.folders]
    if len(folders) == 1:
        if args.output:
            raise InputError("-o names the page of a comparison", "leave it out: the page goes into the folder")
        return {"report": str(write_report(folders[0], figures=not args.no_figures))}
    return write_comparison(folders, Path(args.output or "comparison.html"))


def show(result: dict[str, Any], console: Any) -> None:
    """Say where the page is and what changed."""
    for label, names in result.get("changed", {}).items():
        first = result["models"][0]
        console.print(
            f"{label} against {first}: {', '.join(names) if names else 'no significant change'}", markup=False
        )
    console.print(f"report: {result['report']}", markup=False)
