"""The argument --sensor: where the efforts are measured."""

from __future__ import annotations

import argparse


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
