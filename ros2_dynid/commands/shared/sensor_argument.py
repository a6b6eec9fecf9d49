"""The argument --sensor: where the efforts are measured."""

from __future__ import annotations

import argparse


def add_sensor_argument(parser: argparse.ArgumentParser) -> None:
    """Add --sensor."""
    parser.add_argument(
        "--sensor",
        metavar="SENSOR",
        default="auto",
        help="which torque the efforts are: motor (rotor inertia and friction inside), link (neither: torque sensors), "
        "link+Fc (a part, of Ia, Fv, Fc), for all joints or as JOINT=link,JOINT=motor; auto (default): as the robot "
        "file says, else motor, with a remark where data say otherwise; found: as held-out data say",
    )
