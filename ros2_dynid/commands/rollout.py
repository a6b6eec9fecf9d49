# SPDX-License-Identifier: Apache-2.0

"""dynid rollout: an identified model in closed loop along commanded positions, as a simulator would run it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.rollout import RolloutOutcome


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "rollout",
        help="simulate an identified model along the commanded positions of a table",
        description="Simulate an identified model in closed loop along commanded positions (NAME.reference) and write "
        "positions, velocities and torques. Where the table has positions, tell how far off the simulated ones are.",
    )
    parser.add_argument("model", metavar="MODEL", help="identified model (model.yaml or its folder)")
    parser.add_argument("input", metavar="IN.csv", help="time and NAME.reference, and NAME.position if recorded")
    parser.add_argument("output", metavar="OUT.csv", help="table to write: time and NAME.position, .velocity, .effort")
    parser.add_argument(
        "--horizon",
        metavar="S",
        type=float,
        help="start again from the recorded state every S seconds (default: never)",
    )
    parser.add_argument("--std", action="store_true", help="add NAME.position_std: standard deviation of each position")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT.csv if it exists")
    parser.add_argument(
        "--controller",
        metavar="FILE.yaml",
        help="controller gains as in ros2_control, for a model from torques, which has no servo of its own",
    )


def run(args: argparse.Namespace) -> RolloutOutcome:
    """Roll the model out and write the table."""
    from ros2_dynid.usecases.rollout import RolloutRequest, rollout

    request = RolloutRequest(
        args.model, args.input, args.output, args.horizon, args.std, args.controller, args.overwrite
    )
    return rollout(request)


def show(outcome: RolloutOutcome, console: Console) -> None:
    """Print what was written, and the errors."""
    console.print(f"{outcome.rows} rows written to {outcome.output}", markup=False)
    for horizon, error in outcome.error.items():
        when = "over the whole motion" if horizon == "whole" else f"after {horizon} s"
        joints = ", ".join(f"{name} {1e3 * value:.3g}" for name, value in outcome.joints[horizon].items())
        console.print(f"  {when}: {1e3 * error:.3g} mrad (or mm) rms ({joints})", markup=False)
    if outcome.covered is not None:
        console.print(f"{100 * outcome.covered:.1f} % of the positions lie in their 95 % band", markup=False)
