# SPDX-License-Identifier: Apache-2.0

"""Arguments of preprocessing: filters, velocities, drive gains, delay, and where efforts are measured."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import VelocitySource

if TYPE_CHECKING:
    from ros2_dynid.identification.preparation.preparation_options import PreparationOptions


def add_preparation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of preprocessing; the defaults come from the data."""
    group = parser.add_argument_group("preprocessing (default: proposed from the data)")
    group.add_argument("--position-cutoff", metavar="HZ", type=float, help="low-pass of the positions [Hz]")
    group.add_argument("--row-cutoff", metavar="HZ", type=float, help="low-pass of both torque and regressor [Hz]")
    group.add_argument("--row-rate", metavar="HZ", type=float, help="rows per joint after decimation [Hz]")
    group.add_argument(
        "--slow", metavar="FRACTION", type=float, default=0.02, help="drop rows below this fraction of the top speed"
    )
    group.add_argument(
        "--velocity",
        choices=[str(source) for source in VelocitySource],
        default="auto",
        help="velocities derived from positions, as measured, or auto: the better one of each joint",
    )
    group.add_argument(
        "--gains",
        metavar="JOINT=GAIN,...",
        action="append",
        default=[],
        help="drive gains: torque [N.m or N] per unit of the recorded effort",
    )
    group.add_argument("--delay", metavar="S", type=float, help="delay of the recorded effort [s] (default: estimated)")


def add_sensor_argument(parser: argparse.ArgumentParser) -> None:
    """Add --sensor."""
    parser.add_argument(
        "--sensor",
        metavar="SENSOR",
        default="auto",
        help="where efforts are measured: motor (includes rotor inertia and friction), link (torque sensor, includes "
        "neither), or link+Fc (includes some of Ia, Fv, Fc); for all joints, or JOINT=link,JOINT=motor. auto "
        "(default): as the robot file says, else motor, with a remark where the data disagree; found: as held-out "
        "data show",
    )


def preparation_of(args: argparse.Namespace) -> PreparationOptions:
    """Return PreparationOptions from the arguments."""
    from ros2_dynid.identification.preparation.preparation_options import PreparationOptions

    return PreparationOptions(
        position_cutoff=args.position_cutoff,
        row_cutoff=args.row_cutoff,
        row_rate=args.row_rate,
        slow=args.slow,
        velocity=VelocitySource(args.velocity),
        gains=parse_gains(args.gains),
        delay=args.delay,
    )


def parse_gains(items: list[str]) -> dict[str, float]:
    """Return {joint: gain} from JOINT=GAIN texts; the last `=` separates."""
    gains: dict[str, float] = {}
    for item in (part for text in items for part in text.split(",")):
        name, separator, text = item.rpartition("=")
        try:
            gains[name] = float(text)
        except ValueError:
            separator = ""
        if not (separator and name):
            raise InputError(
                f"--gains {item!r} is not a joint and a number", "write --gains elbow=12.5 [N.m for each unit]"
            )
    return gains
