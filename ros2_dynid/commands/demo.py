"""dynid demo: the whole loop over real ROS 2 nodes on a simulated robot."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo", help="the whole loop over real ROS 2 nodes on a simulated robot, then the report"
    )
    parser.add_argument("--robot", metavar="ROBOT", default="demo6", help="URDF, robot file or shipped robot (demo6)")
    parser.add_argument("--seed", type=int, default=1, help="of the true parameters, the noise and the plans (1)")
    parser.add_argument("--duration", type=float, default=8.0, help="of the exciting trajectory [s] (default 8)")
    parser.add_argument("--payload", type=float, default=1.5, help="mass of the payload to be found [kg] (1.5)")
    parser.add_argument("-o", "--output", metavar="DIR", help="new folder for what it writes (dynid_demo_DATE)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the demo; what goes on is told on standard error."""
    from ros2_dynid.errors import InputError
    from ros2_dynid.processes import short_interrupts

    if not args.duration > 0 or not args.payload > 0:
        raise InputError("--duration and --payload must be positive", "give seconds and kilograms above 0")
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}", "give a number from 0 on")
    _check_installation()
    folder = Path(args.output or time.strftime("dynid_demo_%Y%m%d_%H%M%S")).resolve()
    if folder.exists():
        raise InputError("the output exists already", "name a new folder with -o", str(folder))
    with short_interrupts("dynid"):
        from rich.console import Console

        from ros2_dynid.demo import demo
    console = Console(stderr=True, no_color=args.no_color or None, highlight=False)
    begin = time.monotonic()
    return demo(
        args.robot,
        folder,
        seed=args.seed,
        duration=args.duration,
        payload=args.payload,
        say=lambda text: console.print(f"[dim]{time.monotonic() - begin:6.1f} s[/dim]  {text}"),
    )


def _check_installation() -> None:
    """Refuse at once what the nodes, in their own processes, would fail for."""
    from importlib.util import find_spec

    from ros2_dynid.errors import InputError, MissingPackageError

    if find_spec("rclpy") is None or find_spec("ros2_dynid.msg") is None:
        raise InputError(
            "the demo needs ROS 2 and the messages of ros2_dynid, which are not installed here",
            "run ./dynid demo in a checkout, which installs both, or build the package in a ROS 2 workspace",
        )
    if find_spec("mujoco") is None:
        raise MissingPackageError("mujoco", "the simulated robot of the demo")


def show(result: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    from rich.table import Table

    torque = Table(title="torque error, norm of the error over norm of the torque")
    for title in ("joint", "fit", "validation", "rms [N.m]"):
        torque.add_column(title, justify="left" if title == "joint" else "right")
    for joint, row in result["validation"].items():
        fit = result["fit"][joint]["relative"]
        torque.add_row(joint, f"{fit:.2%}", f"{row['relative']:.2%}", f"{row['rms']:.3f}")
    console.print(torque)
    base = Table(title="base parameters beside the truth")
    for title in ("parameter", "true", "identified", "std"):
        base.add_column(title, justify="left" if title == "parameter" else "right")
    for name, row in result["truth"]["base"].items():
        std = "-" if row["std"] is None else f"{row['std']:.4f}"
        base.add_row(name, f"{row['true']:.4f}", f"{row['value']:.4f}", std)
    console.print(base)
    tracking, payload = result["tracking"], result["payload"]
    console.print(
        f"tracking error {1e3 * tracking['without']:.2f} mrad without feedforward, {1e3 * tracking['with']:.2f} with: "
        f"{tracking['ratio']:.1f} times smaller"
    )
    if "error" in payload:
        console.print(f"payload not identified: {payload['error']}", markup=False)
    else:
        console.print(
            f"payload {payload['mass']:.4f} +- {payload['mass_std']:.4f} kg, really {payload['true_mass']:g} kg"
        )
    for name, row in result["open_loop"].items():
        console.print(f"open loop, {name}: {row['worst']:.1%} of the travel at worst, {row['mean']:.1%} on average")
    for demand, met in result["demands"].items():
        console.print(f"{'yes' if met else 'NO ':3s}  {demand}")
    console.print(f"report: {result['report']}", markup=False)
    console.print(f"{result['seconds']:.0f} s; recordings, model and logs are in {result['folder']}")
