# SPDX-License-Identifier: Apache-2.0

"""Arguments for collision checks: the robot itself, a floor, the walls of a box."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.command import numbers
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from ros2_dynid.usecases.plan import Surroundings


def add_surroundings_arguments(group: argparse._ArgumentGroup) -> None:
    """Add --floor, --box, --collision, --no-collision and --collision-margin."""
    group.add_argument("--floor", metavar="Z", type=float, help="height of a floor in the base frame [m]")
    group.add_argument(
        "--box",
        metavar="LIST",
        type=numbers,
        help="workspace x,X,y,Y,z,Z: lowest and highest coordinates in the base frame [m]; inf for none",
    )
    group.add_argument(
        "--collision", metavar="FILE", help="URDF with collision shapes, or YAML with spheres and capsules"
    )
    group.add_argument("--no-collision", action="store_true", help="ignore the URDF's collision shapes")
    group.add_argument(
        "--collision-margin", metavar="M", type=float, default=0.02, help="smallest allowed distance [m] (default 0.02)"
    )


def surroundings_of(args: argparse.Namespace) -> Surroundings:
    """Return the surroundings that the arguments name."""
    from ros2_dynid.usecases.plan import Surroundings

    if args.box is not None and len(args.box) != 6:
        raise InputError(f"--box has {len(args.box)} numbers", "give six: x,X,y,Y,z,Z [m]")
    return Surroundings(
        collisions=args.collision is not None or not args.no_collision,
        file=args.collision,
        margin=args.collision_margin,
        floor=args.floor,
        box=args.box,
    )
