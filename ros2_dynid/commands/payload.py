"""dynid payload: mass, centre of mass and inertia of an unknown load."""

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
    parser = subparsers.add_parser("payload", help="identify an unknown load from recordings without and with it")
    add_robot_arguments(parser)
    parser.add_argument("--empty", metavar="BAG", action="append", required=True, help="recording without the load")
    parser.add_argument("--loaded", metavar="BAG", action="append", required=True, help="recording with the load")
    parser.add_argument("--link", metavar="LINK", help="give the load in this link's frame (default: the last link's)")
    add_preprocess_arguments(parser)
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Identify the load, and return what the JSON holds."""
    from ros2_dynid.pipeline import IdentifyOptions, identify_payload

    with told(args) as progress:
        load = identify_payload(
            robot_from_args(args),
            args.empty,
            args.loaded,
            link=args.link,
            options=IdentifyOptions(preparation=preprocess_options(args), reading=reading_of(args)),
            progress=progress,
        )
    mass, com, inertia = load.interval
    return {
        "mass": load.mass,
        "com": load.com,
        "inertia": load.inertia,
        "std": {"mass": load.mass_std, "com": load.com_std, "inertia": load.inertia_std},
        "interval95": {"mass": mass, "com": com, "inertia": inertia},
        "frame": load.frame,
        "significant": load.significant,
    }


def show(result: dict[str, Any], console: Console) -> None:
    """Print the load."""
    std = result["std"]
    console.print(f"load in the frame of {result['frame']}, +- one standard deviation")
    console.print(f"  mass     {result['mass']:.4f} +- {std['mass']:.4f} kg")
    for axis, value, error in zip("xyz", result["com"], std["com"], strict=True):
        console.print(f"  com {axis}    {value:.5f} +- {error:.5f} m")
    for i, k in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        name = f"I{'xyz'[i]}{'xyz'[k]}"
        console.print(f"  {name}      {result['inertia'][i][k]:.6f} +- {std['inertia'][i][k]:.6f} kg.m^2")
    if not result["significant"]:
        console.print("the load's mass does not differ from zero")
