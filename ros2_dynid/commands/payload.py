# SPDX-License-Identifier: Apache-2.0

"""dynid payload: mass, centre of mass and inertia of an unknown payload."""

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
from ros2_dynid.commands.shared.terminal import print_body, progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.payload import PayloadOutcome, PayloadRequest, PayloadsOutcome

USUAL_OPTIONS = (
    "--empty",
    "--loaded",
    "--link",
    "--free",
    "--sensor",
    "--topic",
    "--columns",
    "--start",
    "--end",
    "--tip-link",
)
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "payload",
        help="identify an unknown payload from recordings without and with it",
        description="Identify mass, centre of mass and inertia of a payload, with error bars, from recordings with it "
        "and either recordings or a model without it.",
    )
    add_robot_arguments(parser, help_text="robot, or its model identified without the payload (model.yaml)")
    parser.add_argument(
        "--empty", metavar="BAG", action="append", default=[], help="recording without the payload; not with a model"
    )
    parser.add_argument(
        "--loaded",
        metavar="BAG",
        action="extend",
        nargs="+",
        required=True,
        help="recordings with the payload, one or several; NAME=BAG for several payloads in one fit",
    )
    parser.add_argument("--free", action="store_true", help="best-fitting inertia, even if physically inconsistent")
    parser.add_argument(
        "--link",
        metavar="LINK",
        help="link that carries the payload and tells its frame (default: the last one)",
    )
    add_sensor_argument(parser)
    add_preparation_arguments(parser)
    add_reading_arguments(parser)


def request_of(args: argparse.Namespace) -> PayloadRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.identification.options import IdentifyOptions
    from ros2_dynid.usecases.payload import PayloadRequest

    options = IdentifyOptions(preparation=preparation_of(args), reading=reading_of(args), sensor=args.sensor)
    return PayloadRequest(robot_source(args), tuple(args.empty), tuple(args.loaded), args.link, options, args.free)


def run(args: argparse.Namespace) -> PayloadOutcome | PayloadsOutcome:
    """Identify the payload, or several by name."""
    from ros2_dynid.usecases.payload import has_names, payload, payloads

    request = request_of(args)
    with progress_bar(no_color=args.no_color) as progress:
        return payloads(request, progress) if has_names(request.loaded) else payload(request, progress)


def show(outcome: PayloadOutcome | PayloadsOutcome, console: Console) -> None:
    """Print the payload, or each of several."""
    from ros2_dynid.usecases.payload import PayloadsOutcome

    if isinstance(outcome, PayloadsOutcome):
        for name, one in outcome.loads.items():
            console.print(name, markup=False, style="bold")
            show(one, console)
        return
    console.print(f"payload in the frame of {outcome.frame}, +- one standard deviation", markup=False)
    print_body(outcome, console)
    if outcome.contradicting:
        masses = ", ".join(f"{name} {row.mass:.3f} +- {row.std:.3f}" for name, row in outcome.joint_mass.items())
        names = ", ".join(outcome.contradicting)
        console.print(
            f"joints disagree on the mass ({names}), and the error bars allow for it: {masses} kg", markup=False
        )
    if not outcome.significant:
        console.print("the payload's mass does not differ significantly from zero")
