# SPDX-License-Identifier: Apache-2.0

"""Arguments of every command that reads a recording."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.recording.units import ANGLE_UNITS, EFFORT_UNITS, LENGTH_UNITS, TIME_UNITS, Units

if TYPE_CHECKING:
    from ros2_dynid.recording.reading import Reading


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a recording."""
    group = parser.add_argument_group("reading the recording")
    group.add_argument("--topic", metavar="TOPIC", help="topic of the joint states, or A,B (default: found by type)")
    group.add_argument(
        "--torque-topic", metavar="TOPIC", help="topic of link-side torques, recorded beside motor efforts"
    )
    group.add_argument("--start", metavar="S", type=float, help="ignore data before this time [s]")
    group.add_argument("--end", metavar="S", type=float, help="ignore data after this time [s]")
    group.add_argument(
        "--stamps",
        choices=("auto", "header", "bag"),
        default="auto",
        help="stamps of a bag to use (default: the header stamps)",
    )
    group.add_argument(
        "--rate",
        metavar="HZ",
        type=float,
        help="sampling rate [Hz], for recordings without valid times",
    )
    group.add_argument(
        "--columns",
        metavar="MAP",
        help="headers of a CSV or npz file: time=stamp,elbow.position=q3,...; {name}.effort=tau_{j} stands for all "
        "joints ({j} counts from 1, {i} from 0); or a YAML file",
    )
    group.add_argument(
        "--time-unit", choices=tuple(TIME_UNITS), default="s", help="time unit of a CSV or npz file (default: s)"
    )
    group.add_argument(
        "--angle-unit",
        choices=tuple(ANGLE_UNITS),
        default="rad",
        help="unit of revolute joints, also in rates (default: rad)",
    )
    group.add_argument(
        "--length-unit",
        choices=tuple(LENGTH_UNITS),
        default="m",
        help="unit of prismatic joints, also in rates (default: m)",
    )
    group.add_argument(
        "--effort-unit", choices=tuple(EFFORT_UNITS), default="N.m", help="unit of efforts (default: N.m)"
    )


def reading_of(args: argparse.Namespace) -> Reading:
    """Return how to read a recording, as the arguments of add_reading_arguments say."""
    from ros2_dynid.recording.reading import Reading  # here, since NumPy would slow down `dynid --help`
    from ros2_dynid.recording.table.column_map import parse_columns

    units = Units(args.time_unit, args.angle_unit, args.length_unit, args.effort_unit)
    columns = parse_columns(args.columns) or None
    return Reading(args.topic, columns, units, args.stamps, args.start, args.end, args.rate, args.torque_topic)
