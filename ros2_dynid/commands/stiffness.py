# SPDX-License-Identifier: Apache-2.0

"""dynid stiffness: stiffness of elastic drives from encoders at motors and links."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import add_reading_arguments, add_robot_arguments, reading_of, robot_source

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.stiffness import StiffnessOutcome

USUAL_OPTIONS = ("--output", "--overwrite", "--topic", "--columns", "--start", "--end", "--tip-link")
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "stiffness",
        help="stiffness of elastic drives, from encoders at motors and links",
        description="Estimate the stiffness of each drive from recordings with efforts, positions of the links and of "
        "the motors on the joints' side of the gear (columns NAME.motor_position, npz array q_m).",
    )
    add_robot_arguments(parser)
    parser.add_argument("recordings", metavar="BAG", nargs="+", help="recordings with both positions")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="write the recording again with NAME.torque, the torque at the links"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> StiffnessOutcome:
    """Estimate, and write if asked to."""
    from ros2_dynid.usecases.stiffness import StiffnessRequest, stiffness

    recordings = tuple(args.recordings)
    return stiffness(StiffnessRequest(robot_source(args), recordings, reading_of(args), args.output, args.overwrite))


def show(outcome: StiffnessOutcome, console: Console) -> None:
    """Print the drives."""
    console.print("stiffness of the drives, +- one standard deviation", markup=False)
    for name, drive in outcome.joints.items():
        if drive.stiffness is None:
            console.print(f"  {name}: not identified; {drive.doubt}", markup=False)
            continue
        text = f"{drive.stiffness:.5g} +- {drive.stiffness_std:.2g} {drive.unit}"
        if drive.resonance is not None:
            text += f", resonance of the motor with its link held: {drive.resonance:.3g} Hz"
        console.print(f"  {name}: {text}", markup=False)
    if outcome.output is not None:
        console.print(f"{outcome.output}: with NAME.torque; dynid identify fits it beside the efforts", markup=False)
