# SPDX-License-Identifier: Apache-2.0

"""dynid preview TRAJECTORY ROBOT: watch a motion in 3D in the browser before the robot moves."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import (
    DESCRIPTIONS,
    add_robot_arguments,
    add_surroundings_arguments,
    robot_source,
    surroundings_of,
)
from ros2_dynid.commands.shared.terminal import Column, print_notes, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.preview import PreviewOutcome, PreviewRequest

USUAL_OPTIONS = (
    "--save",
    "--overwrite",
    "--screenshot",
    "--no-browser",
    "--floor",
    "--box",
    "--no-collision",
    "--package-path",
    "--tip-link",
    "--hold",
)
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "preview",
        help="watch a trajectory in 3D in the browser before the robot moves",
        description="Show a trajectory in the browser: the robot in 3D with the path of its tip, the closest links and "
        "their distance, the use of every limit, and curves of position, velocity, acceleration and torque. Without "
        "--save or --screenshot, the command serves the page until Ctrl-C.",
    )
    parser.add_argument(
        "trajectory", metavar="TRAJECTORY", help="file written by dynid excite, or a JointTrajectory in YAML"
    )
    add_robot_arguments(parser)
    add_surroundings_arguments(parser.add_argument_group("collision checks"))
    output = parser.add_argument_group("files")
    output.add_argument("--save", metavar="FILE.html", help="write the page as one file that needs no server")
    output.add_argument("--overwrite", action="store_true", help="replace files that exist")
    output.add_argument("--screenshot", metavar="FILE.png", help="write a picture of the page (needs chromium)")
    output.add_argument(
        "--at", metavar="S", type=float, help="time of the picture [s] (default: at the smallest distance)"
    )
    output.add_argument("--size", metavar="WxH", type=_size, default=(1280, 800), help="size of the picture [pixels]")
    output.add_argument("--no-browser", action="store_true", help="print the page's address instead of opening it")


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 100 <= int(width) <= 8000 and 100 <= int(height) <= 8000):
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 1280x800")
    return int(width), int(height)


def request_of(args: argparse.Namespace) -> PreviewRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.usecases.preview import PreviewRequest

    if args.trajectory.endswith(DESCRIPTIONS) and not args.robot.endswith(DESCRIPTIONS):
        args.trajectory, args.robot = args.robot, args.trajectory
    return PreviewRequest(
        args.trajectory,
        robot_source(args),
        surroundings_of(args),
        save=args.save,
        screenshot=args.screenshot,
        at=args.at,
        width=args.size[0],
        height=args.size[1],
        overwrite=args.overwrite,
    )


def run(args: argparse.Namespace) -> PreviewOutcome:
    """Write the page and the requested files."""
    from ros2_dynid.usecases.preview import previewed

    outcome, args.page = previewed(request_of(args))
    return outcome


def finish(args: argparse.Namespace) -> None:
    """Show the page unless files were requested."""
    if args.save is None and args.screenshot is None:
        show_page(args.page, browser=not args.no_browser)


def show_page(page: str, *, browser: bool = True) -> None:
    """Serve the page on this computer and open it, until Ctrl-C."""
    from ros2_dynid.preview.page import serve_page

    def print_address(address: str) -> None:
        print(f"preview: {address} (Ctrl-C ends it)", file=sys.stderr, flush=True)

    serve_page(page, print_address, browser=browser)


def show(outcome: PreviewOutcome, console: Console) -> None:
    """Print what the page shows, and where it is."""
    if outcome.warning:
        console.print(f"warning: {outcome.warning}", style="bold red", markup=False)
    rows = [("duration", f"{outcome.duration:.4g} s")]
    if outcome.clearance is not None and outcome.pair is not None:
        rows.append(("smallest distance between capsules", f"{outcome.clearance:.4g} m at {outcome.at:.4g} s"))
        rows.append(("between", " and ".join(outcome.pair)))
    rows += [(f"{kind} limit used", f"{100 * fraction:.1f} %") for kind, fraction in outcome.use.items()]
    columns = [Column("", wrap=True), Column("value", right=True, wrap=True)]
    print_table(console, columns, rows, title=f"{outcome.robot}: {outcome.kind} trajectory")
    for file in (outcome.file, outcome.picture):
        if file:
            console.print(f"written: {file}", markup=False, soft_wrap=True)
    print_notes(console, outcome.notes)
