"""dynid mdh ROBOT: the modified Denavit-Hartenberg table of a URDF or a robot file."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, robot_from_args

if TYPE_CHECKING:
    from rich.console import Console

GEOMETRY = ("gamma", "b", "alpha", "d", "theta", "r")


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "mdh",
        help="URDF to modified Denavit-Hartenberg parameters",
        description="Print the robot's modified Denavit-Hartenberg table. The transform from the frame of a joint's "
        "parent to its own is Rot(z,gamma) Trans(z,b) Rot(x,alpha) Trans(x,d) Rot(z,theta) Trans(z,r), with theta + q "
        "for a revolute and r + q for a prismatic joint.",
    )
    add_robot_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the table: joints, base and tools, with the a priori parameters and the reader's notes."""
    robot = robot_from_args(args)
    passive = {constraint.joint: constraint for constraint in robot.passive}
    joints = []
    for number, joint in enumerate(robot.joints, start=1):
        entry: dict[str, Any] = {"name": joint.name, "parent": joint.parent, "sigma": joint.sigma}
        entry |= {key: getattr(joint, key) for key in GEOMETRY}
        entry["type"] = "prismatic" if joint.sigma else "revolute"
        entry["limits"] = {
            key: getattr(joint.limits, key) for key in ("lower", "upper", "velocity", "acceleration", "effort")
        }
        if number in passive:
            terms = {robot.joints[j - 1].name: factor for j, factor in passive[number].terms.items()}
            entry["passive"] = {"terms": terms, "offset": passive[number].offset}
        joints.append(entry)
    return {
        "name": robot.name,
        "joints": joints,
        "base": robot.base.tolist(),
        "tools": {link: pose.tolist() for link, (_, pose) in robot.tools.items()},
        "tool_joints": {link: number for link, (number, _) in robot.tools.items()},
        "gravity": robot.gravity.tolist(),
        "parameters": dict(robot.parameters),
        "notes": list(robot.notes),
    }


def show(result: dict[str, Any], console: Console) -> None:
    """Print the table for people: angles in degrees, lengths in metres."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=f"{escape(result['name'])}: modified Denavit-Hartenberg parameters",
        box=SIMPLE_HEAD,
        caption="gamma, alpha, theta in deg; b, d, r in m; limits in deg (prismatic: m)",
    )
    table.add_column("j", justify="right")
    table.add_column("joint", overflow="fold", min_width=8)
    table.add_column("a(j)", justify="right")
    table.add_column("sigma", justify="right")
    branched = any(joint["gamma"] or joint["b"] for joint in result["joints"])
    columns = GEOMETRY if branched else GEOMETRY[2:]
    for key in columns:
        table.add_column(key, justify="right", no_wrap=True)
    table.add_column("limits", justify="right", no_wrap=True)
    for number, joint in enumerate(result["joints"], start=1):
        cells = [_cell(joint, key) for key in columns]
        table.add_row(
            str(number), escape(joint["name"]), str(joint["parent"]), str(joint["sigma"]), *cells, _limits(joint)
        )
    console.print(table)
    console.print("base link -> frame 0:")
    _print_pose(result["base"], console)
    for link, pose in result["tools"].items():
        console.print(f"frame {result['tool_joints'][link]} -> {escape(link)}:")
        _print_pose(pose, console)
    for note in result["notes"]:
        console.print(f"note: {escape(note)}")


def _is_angle(key: str) -> bool:
    return key in ("gamma", "alpha", "theta")


def _cell(joint: dict[str, Any], key: str) -> str:
    value = math.degrees(joint[key]) if _is_angle(key) else joint[key]
    text = f"{value:.6g}"
    moving = "r" if joint["sigma"] else "theta"
    if key != moving:
        return text
    return "q" if value == 0 else f"q {'-' if value < 0 else '+'} {abs(value):.6g}"


def _limits(joint: dict[str, Any]) -> str:
    """Return the range of positions, in deg or m."""
    if "passive" in joint:
        return "passive"
    factor = 1.0 if joint["sigma"] else 180 / math.pi
    lower, upper = joint["limits"]["lower"], joint["limits"]["upper"]
    if not (math.isfinite(lower) or math.isfinite(upper)):
        return "none"
    return f"{lower * factor:.4g} .. {upper * factor:.4g}"


def _print_pose(pose: list[list[float]], console: Console) -> None:
    for row in pose[:3]:
        console.print("  " + " ".join(f"{value:11.6g}" for value in row), markup=False)
