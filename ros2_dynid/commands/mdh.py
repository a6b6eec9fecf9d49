# SPDX-License-Identifier: Apache-2.0

"""dynid mdh ROBOT: the modified Denavit-Hartenberg table of a URDF or a robot file."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import add_robot_arguments, robot_from_args
from ros2_dynid.commands.shared.terminal import Column, print_table
from ros2_dynid.model.robot import NO_LOOPS

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers

ANGLES = ("gamma", "alpha", "theta")
Pose = Sequence[Sequence[float]]
"""Rows of a (4, 4) transform."""


@dataclass(frozen=True)
class JointLimits:
    """Limits of a joint [rad or m, and per s, s^2; N.m or N], infinite where there is none."""

    lower: float
    upper: float
    velocity: float
    acceleration: float
    effort: float


@dataclass(frozen=True)
class Follows:
    """A passive joint: q = offset + sum of factors times joints; without terms, it follows by a closed loop."""

    terms: Mapping[str, float]
    offset: float


@dataclass(frozen=True)
class MdhJoint:
    """A row of the table: parent (number of the joint before, 0 for the base), angles [rad] and lengths [m]."""

    name: str
    parent: int
    sigma: int
    gamma: float
    b: float
    alpha: float
    d: float
    theta: float
    r: float
    type: str
    limits: JointLimits
    passive: Follows | None = None


@dataclass(frozen=True)
class MdhOutcome:
    """The table, base and tool frames, gravity [m/s^2], a priori parameters and notes of the reader."""

    name: str
    joints: tuple[MdhJoint, ...]
    base: Pose
    tools: Mapping[str, Pose]
    tool_joints: Mapping[str, int]
    gravity: Sequence[float]
    parameters: Mapping[str, float]
    notes: tuple[str, ...]


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "mdh",
        help="print the modified Denavit-Hartenberg parameters of a URDF",
        description="Print the robot's modified Denavit-Hartenberg table. The transform from the frame of a joint's "
        "parent to its own is Rot(z,gamma) Trans(z,b) Rot(x,alpha) Trans(x,d) Rot(z,theta) Trans(z,r), with theta + q "
        "for a revolute and r + q for a prismatic joint.",
    )
    add_robot_arguments(parser)


def run(args: argparse.Namespace) -> MdhOutcome:
    """Read the robot."""
    robot = robot_from_args(args)
    followers = {
        constraint.joint: Follows(
            {robot.joints[j - 1].name: factor for j, factor in constraint.terms.items()}, constraint.offset
        )
        for constraint in robot.passive
    } | dict.fromkeys((robot.loops or NO_LOOPS).passive, Follows({}, 0.0))
    joints = tuple(
        MdhJoint(
            joint.name,
            joint.parent,
            joint.sigma,
            joint.gamma,
            joint.b,
            joint.alpha,
            joint.d,
            joint.theta,
            joint.r,
            "prismatic" if joint.sigma else "revolute",
            JointLimits(
                joint.limits.lower,
                joint.limits.upper,
                joint.limits.velocity,
                joint.limits.acceleration,
                joint.limits.effort,
            ),
            followers.get(number),
        )
        for number, joint in enumerate(robot.joints, start=1)
    )
    return MdhOutcome(
        robot.name,
        joints,
        robot.base.tolist(),
        {link: pose.tolist() for link, (_, pose) in robot.tools.items()},
        {link: number for link, (number, _) in robot.tools.items()},
        robot.gravity.tolist(),
        dict(robot.parameters),
        tuple(robot.notes),
    )


def show(outcome: MdhOutcome, console: Console) -> None:
    """Print the table: angles in degrees, lengths in metres."""
    branched = any(joint.gamma or joint.b for joint in outcome.joints)
    columns_shown = ("gamma", "b", "alpha", "d", "theta", "r")[0 if branched else 2 :]
    rows = []
    for number, joint in enumerate(outcome.joints, start=1):
        values = {"gamma": joint.gamma, "b": joint.b, "alpha": joint.alpha, "d": joint.d}
        values |= {"theta": joint.theta, "r": joint.r}
        cells = [_cell(key, values[key], moving="r" if joint.sigma else "theta") for key in columns_shown]
        rows.append((str(number), joint.name, str(joint.parent), str(joint.sigma), *cells, _limits(joint)))
    right = [Column(title, right=True) for title in (*columns_shown, "limits")]
    columns = [Column("j", right=True), Column("joint", wrap=True), Column("a(j)", right=True)]
    print_table(
        console,
        [*columns, Column("sigma", right=True), *right],
        rows,
        title=f"{outcome.name}: modified Denavit-Hartenberg parameters",
        caption="gamma, alpha, theta in deg; b, d, r in m; limits in deg (prismatic: m)",
        compact=True,
    )
    console.print("base link -> frame 0:")
    _print_pose(outcome.base, console)
    for link, pose in outcome.tools.items():
        console.print(f"frame {outcome.tool_joints[link]} -> {link}:", markup=False)
        _print_pose(pose, console)
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)


def _cell(key: str, value: float, moving: str) -> str:
    value = math.degrees(value) if key in ANGLES else value
    text = f"{value:.6g}"
    if key != moving:
        return text
    return "q" if value == 0 else f"q {'-' if value < 0 else '+'} {abs(value):.6g}"


def _limits(joint: MdhJoint) -> str:
    """Return the range of positions, in deg or m."""
    if joint.passive is not None:
        return "passive"
    factor = 1.0 if joint.sigma else 180 / math.pi
    lower, upper = joint.limits.lower, joint.limits.upper
    if not (math.isfinite(lower) or math.isfinite(upper)):
        return "none"
    return f"{lower * factor:.4g} .. {upper * factor:.4g}"


def _print_pose(pose: Pose, console: Console) -> None:
    for row in pose[:3]:
        console.print("  " + " ".join(f"{value:11.6g}" for value in row), markup=False)
