# SPDX-License-Identifier: Apache-2.0

"""dynid demo: the whole loop over real ROS 2 nodes on a simulated robot."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.terminal import Column, console_of, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.demo import DemoOutcome


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo",
        help="run the whole loop on a simulated robot over ROS 2 nodes and write a report",
        description="Plan, record, identify, validate and feed forward on a simulated robot, over real ROS 2 nodes in "
        "processes of their own, and identify a payload. The results are compared with the true values.",
    )
    parser.add_argument(
        "--robot", metavar="ROBOT", default="demo6", help="URDF, robot file or shipped robot (default demo6)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=1, help="seed of true parameters, noise and plans (default 1)"
    )
    parser.add_argument("--duration", metavar="S", type=float, default=8.0, help="exciting trajectory [s] (default 8)")
    parser.add_argument(
        "--payload", metavar="KG", type=float, default=1.5, help="mass of the payload [kg] (default 1.5)"
    )
    parser.add_argument(
        "--panel", action="store_true", help="serve the panel, to watch and stop the robot in the browser"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="output folder, must be new (default dynid_demo_DATE)")


def run(args: argparse.Namespace) -> DemoOutcome:
    """Run the demo; its progress goes to standard error."""
    from ros2_dynid.errors import InputError
    from ros2_dynid.processes import short_interrupts

    if not args.duration > 0 or not args.payload > 0:
        raise InputError("--duration and --payload must be positive", "give seconds and kilograms above 0")
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}", "give a whole number from 0")
    check_installation()
    folder = Path(args.output or time.strftime("dynid_demo_%Y%m%d_%H%M%S")).resolve()
    if folder.exists():
        raise InputError("the output exists already", "name a new folder with -o", str(folder))
    with short_interrupts("dynid"):
        from ros2_dynid.demo import demo

        console = console_of(no_color=args.no_color, stderr=True)
    begin = time.monotonic()
    return demo(
        args.robot,
        folder,
        seed=args.seed,
        duration=args.duration,
        payload=args.payload,
        panel=args.panel,
        say=lambda text: console.print(f"[dim]{time.monotonic() - begin:6.1f} s[/dim]  {text}"),
    )


def check_installation() -> None:
    """Check at once what the nodes need, before their processes fail."""
    from importlib.util import find_spec

    from ros2_dynid.errors import InputError, MissingPackageError

    if find_spec("rclpy") is None or find_spec("ros2_dynid.msg") is None:
        raise InputError(
            "the demo needs ROS 2 and the messages of ros2_dynid, which are not installed here",
            "run ./dynid demo in a checkout, which installs both, or build the package in a ROS 2 workspace",
        )
    if find_spec("mujoco") is None:
        raise MissingPackageError("mujoco", "the simulated robot of the demo")


def show(outcome: DemoOutcome, console: Console) -> None:
    """Print the tables, the tests of the model, and the goals."""
    from ros2_dynid.demo import trials_of

    errors = [
        (joint, f"{outcome.fit[joint].relative:.2%}", f"{error.relative:.2%}", f"{error.rms:.3f}")
        for joint, error in outcome.validation.items()
    ]
    columns = [Column("joint"), *(Column(title, right=True) for title in ("fit", "validation", "rms [N.m]"))]
    print_table(console, columns, errors, title="torque error, norm of the error over norm of the torque")
    base = [
        (name, f"{row.true:.4f}", f"{row.value:.4f}", "-" if row.std is None else f"{row.std:.4f}")
        for name, row in outcome.truth.base.items()
    ]
    columns = [Column("parameter"), *(Column(title, right=True) for title in ("true", "identified", "std"))]
    print_table(console, columns, base, title="base parameters beside the truth")
    for section, rows in trials_of(outcome).items():
        console.print(section, markup=False, style="bold")
        for name, text in rows:
            console.print(f"  {name}: {text}", markup=False)
    for goal, success in outcome.goals.items():
        console.print(f"{'yes' if success else 'NO ':3s}  {goal}", markup=False)
    console.print(f"report: {outcome.report}", markup=False, soft_wrap=True)
    console.print(f"{outcome.seconds:.0f} s; recordings, model and logs are in {outcome.folder}", markup=False)
