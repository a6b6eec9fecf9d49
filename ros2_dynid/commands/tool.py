# SPDX-License-Identifier: Apache-2.0

"""dynid tool: mass, centre of mass and inertia beyond a wrist force-torque sensor, and its bias."""

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
from ros2_dynid.commands.shared.terminal import print_body, progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.tool import ToolOutcome, ToolRequest

USUAL_OPTIONS = ("--wrench", "--sensor-link", "--free", "--topic", "--columns", "--start", "--end", "--tip-link")
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "tool",
        help="identify the tool beyond a wrist force-torque sensor, and the sensor's bias",
        description="Identify mass, centre of mass and inertia of the tool beyond a wrist force-torque sensor, and the "
        "sensor's bias and drift, with error bars, from one recording with joint states and wrenches. Turn the sensor "
        "about two axes that are not vertical. Inertia needs fast motion.",
    )
    add_robot_arguments(parser)
    parser.add_argument("recording", metavar="BAG", help="recording with joint states and wrenches")
    parser.add_argument(
        "--wrench",
        metavar="TOPIC",
        required=True,
        help="topic of geometry_msgs/WrenchStamped; for CSV the prefix of the columns (PREFIX.force.x ... "
        "PREFIX.torque.z), for npz the array (N, 6)",
    )
    parser.add_argument(
        "--sensor-link", metavar="LINK", help="link in whose frame the wrenches are given (default: the last link)"
    )
    parser.add_argument("--free", action="store_true", help="best-fitting inertia, even if physically inconsistent")
    add_preparation_arguments(parser)
    add_reading_arguments(parser)


def request_of(args: argparse.Namespace) -> ToolRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.identification.options import IdentifyOptions
    from ros2_dynid.usecases.tool import ToolRequest

    options = IdentifyOptions(preparation=preparation_of(args), reading=reading_of(args))
    return ToolRequest(robot_source(args), args.recording, args.wrench, args.sensor_link, options, args.free)


def run(args: argparse.Namespace) -> ToolOutcome:
    """Identify the tool."""
    from ros2_dynid.usecases.tool import tool

    request = request_of(args)
    with progress_bar(no_color=args.no_color) as progress:
        return tool(request, progress)


def show(outcome: ToolOutcome, console: Console) -> None:
    """Print the tool and the sensor's bias."""
    console.print(f"tool beyond the sensor, in the frame of {outcome.frame}, +- one standard deviation", markup=False)
    print_body(outcome, console)
    console.print("bias of the sensor, and its drift in a minute")
    names = ("fx", "fy", "fz", "tx", "ty", "tz")
    for k, name in enumerate(names):
        unit = "N" if k < 3 else "N.m"
        bias, error = outcome.bias[k], outcome.sensor_std.bias[k]
        console.print(f"  {name}       {bias:.4f} +- {error:.4f} {unit}, {60 * outcome.drift[k]:+.4f}")
    for note in outcome.notes:
        console.print(note, markup=False)
    if not outcome.significant:
        console.print("the tool's mass does not differ significantly from zero")
