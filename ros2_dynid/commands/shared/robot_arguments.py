# SPDX-License-Identifier: Apache-2.0

"""The ROBOT argument with its sub-chain options, and the robot that they name."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.command import numbers
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot
    from ros2_dynid.usecases.robot_source import RobotSource


def add_robot_arguments(
    parser: argparse.ArgumentParser, *, positional: bool = True, required: bool = True, help_text: str | None = None
) -> None:
    """Add ROBOT (a positional, or --robot if not `positional`) and the options that select a sub-chain of a URDF.

    Not `required`: --robot may be left out; args.robot is None then.
    """
    text = help_text or "URDF, xacro or robot file (YAML), or the name of a shipped robot such as puma560"
    if positional:
        parser.add_argument("robot", metavar="ROBOT", help=text)
    else:
        parser.add_argument("--robot", metavar="ROBOT", required=required, help=text)
    group = parser.add_argument_group("sub-chain of the robot")
    group.add_argument("--base-link", metavar="LINK", help="fixed link (default: the root of the URDF)")
    group.add_argument("--tip-link", metavar="LINK", help="keep only the joints between the base link and this link")
    group.add_argument(
        "--hold",
        metavar="JOINT=VALUE",
        action="append",
        default=[],
        help="fix a joint at a position [rad or m] and lump its link with the one before; repeatable",
    )
    group.add_argument(
        "--gravity",
        metavar="X,Y,Z",
        type=numbers,
        help="gravity in the base link's frame [m/s^2], for an arm on a wall or a ceiling (default: the robot's)",
    )
    group.add_argument(
        "--joint-limits", metavar="FILE", help="MoveIt joint_limits.yaml: velocity and acceleration limits"
    )


def parse_hold(items: list[str]) -> dict[str, float]:
    """Return {joint: position [rad or m]} from JOINT=VALUE texts; the last `=` separates."""
    positions: dict[str, float] = {}
    for item in (part for text in items for part in text.split(",")):
        name, separator, text = item.rpartition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (separator and name and math.isfinite(value)):
            raise InputError(f"--hold {item!r} is not a joint and a number", "write --hold elbow=0.5 [rad or m]")
        if name in positions:
            raise InputError(f"--hold names joint {name!r} twice", "give one position for each joint held")
        positions[name] = value
    return positions


def robot_source(args: argparse.Namespace) -> RobotSource:
    """Return where the robot comes from that the arguments of add_robot_arguments name."""
    from ros2_dynid.usecases.robot_source import RobotSource

    return RobotSource(
        args.robot,
        base_link=args.base_link,
        tip_link=args.tip_link,
        hold=parse_hold(args.hold),
        joint_limits=args.joint_limits,
        gravity=args.gravity,
    )


def robot_from_args(args: argparse.Namespace) -> Robot:
    """Read the robot that the arguments of add_robot_arguments name."""
    return robot_source(args).load()
