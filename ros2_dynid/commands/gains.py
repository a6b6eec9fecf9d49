# SPDX-License-Identifier: Apache-2.0

"""dynid gains: drive gains from a payload of known mass."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import (
    add_preparation_arguments,
    add_reading_arguments,
    add_robot_arguments,
    add_sensor_argument,
    preparation_of,
    reading_of,
    robot_source,
)
from ros2_dynid.commands.shared.terminal import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.gains import GainsOutcome, GainsRequest

USUAL_OPTIONS = ("--empty", "--loaded", "--mass", "--load", "--topic", "--columns", "--start", "--end", "--tip-link")
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "gains",
        help="identify the drive gains (torque per unit of recorded effort)",
        description="Identify the drive gains from recordings of the same motions without and with a known payload.",
    )
    add_robot_arguments(parser)
    parser.add_argument("--empty", metavar="BAG", action="append", required=True, help="recording without the payload")
    parser.add_argument("--loaded", metavar="BAG", action="append", required=True, help="recording with the payload")
    parser.add_argument("--mass", metavar="KG", type=float, required=True, help="mass of the payload [kg]")
    parser.add_argument(
        "--load", metavar="X", type=float, nargs=10, default=(),
        help="ten parameters of the payload, XX XY XZ YY YZ ZZ MX MY MZ M, in the last joint's frame; "
        "with them all joints are fitted together",
    )  # fmt: skip
    add_sensor_argument(parser)
    add_preparation_arguments(parser)
    add_reading_arguments(parser)


def request_of(args: argparse.Namespace) -> GainsRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.identification.options import IdentifyOptions
    from ros2_dynid.usecases.gains import GainsRequest

    options = IdentifyOptions(preparation=preparation_of(args), reading=reading_of(args), sensor=args.sensor)
    return GainsRequest(robot_source(args), tuple(args.empty), tuple(args.loaded), args.mass, options, tuple(args.load))


def run(args: argparse.Namespace) -> GainsOutcome:
    """Identify the gains."""
    from ros2_dynid.usecases.gains import gains

    request = request_of(args)
    with progress_bar(no_color=args.no_color) as progress:
        return gains(request, progress)


def show(outcome: GainsOutcome, console: Console) -> None:
    """Print the gains."""
    console.print("drive gains [N.m or N per unit of the recorded effort], +- one standard deviation", markup=False)
    for name, gain in outcome.gains.items():
        if gain is None:
            console.print(f"  {name}: not identified; use a heavier payload, further from the joint", markup=False)
        else:
            std = outcome.std[name]
            spread = "" if std is None else f" +- {std:.2g}"
            console.print(f"  {name}: {gain:.5g}{spread}   (--gains {name}={gain:.6g})", markup=False)
