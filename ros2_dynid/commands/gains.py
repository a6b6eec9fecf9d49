"""dynid gains: drive gains from a load of known mass."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.identify import add_preprocess_arguments, preprocess_options, told
from ros2_dynid.commands.shared.reading_arguments import add_reading_arguments, reading_of
from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, robot_from_args

if TYPE_CHECKING:
    from rich.console import Console


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("gains", help="identify the drive gains (torque for each unit of effort)")
    add_robot_arguments(parser)
    parser.add_argument("--empty", metavar="BAG", action="append", required=True, help="recording without the load")
    parser.add_argument("--loaded", metavar="BAG", action="append", required=True, help="recording with the load")
    parser.add_argument("--mass", metavar="KG", type=float, required=True, help="mass of the load [kg]")
    add_preprocess_arguments(parser)
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Identify the gains, and return what the JSON holds."""
    from ros2_dynid.pipeline import IdentifyOptions, identify_gains

    robot = robot_from_args(args)
    with told(args) as progress:
        gains = identify_gains(
            robot,
            args.empty,
            args.loaded,
            args.mass,
            options=IdentifyOptions(preparation=preprocess_options(args), reading=reading_of(args)),
            progress=progress,
        )
    names = robot.active_names
    return {
        "gains": dict(zip(names, gains.value.tolist(), strict=True)),
        "std": dict(zip(names, gains.std.tolist(), strict=True)),
        "from_mass": dict(zip(names, gains.from_mass, strict=True)),
        "mass": args.mass,
    }


def show(result: dict[str, Any], console: Console) -> None:
    """Print the gains."""
    import math

    console.print("drive gains [N.m or N for each unit of the recorded effort], +- one standard deviation")
    for name, gain in result["gains"].items():
        if gain is None or math.isnan(gain):
            console.print(f"  {name}: not found; take a heavier load further out")
        else:
            console.print(f"  {name}: {gain:.5g} +- {result['std'][name]:.2g}   (--gains {name}={gain:.6g})")
