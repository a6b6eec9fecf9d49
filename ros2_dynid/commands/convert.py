# SPDX-License-Identifier: Apache-2.0

"""dynid convert IN OUT: csv, npz and rosbag2, any to any, cutting by time."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import add_reading_arguments, add_robot_arguments, reading_of, robot_from_args

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers

USUAL_OPTIONS = ("--robot", "--overwrite", "--topic", "--start", "--end", "--columns", "--rate", "--angle-unit")
"""Options that --help shows; --help-all shows every option."""


@dataclass(frozen=True)
class ConvertOutcome:
    """What was written: samples from `start` to `end` [s], their joints and fields (q, dq, ddq, tau)."""

    output: str
    samples: int
    start: float
    end: float
    joints: tuple[str, ...]
    fields: tuple[str, ...]
    notes: tuple[str, ...]


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "convert",
        help="convert a recording between CSV, npz and rosbag2, or cut it",
        description="Write a recording in another format. OUT ends in .csv, .npz or .mcap; any other name becomes a "
        "rosbag2 folder. With --robot the joints are those of the robot, in its order.",
    )
    parser.add_argument(
        "input", metavar="IN", help="rosbag2 folder or file, ROS 1 bag, CSV, npz, HDF5 or MATLAB file, LeRobot data set"
    )
    parser.add_argument("output", metavar="OUT", help=".csv, .npz or .mcap file, or the folder of a rosbag2 bag")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--out-topic", metavar="TOPIC", default="/joint_states", help="topic in the written bag")
    add_robot_arguments(parser, positional=False, required=False)
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> ConvertOutcome:
    """Read, cut and write, some samples at a time."""
    from ros2_dynid.recording.read import iter_samples, streamed
    from ros2_dynid.recording.save import check_target, save_pieces

    check_target(args.output, inputs=[args.input, args.robot], overwrite=args.overwrite)
    robot = None if args.robot is None else robot_from_args(args)
    reading = reading_of(args)
    recording = streamed(
        lambda notes: iter_samples(args.input, robot, reading=reading, notes=notes), args.start, args.end
    )
    outline = recording.outline
    notes = save_pieces(outline, recording.pieces, args.output, overwrite=args.overwrite, topic=args.out_topic)
    return ConvertOutcome(
        output=args.output,
        samples=outline.count,
        start=outline.first,
        end=outline.last,
        joints=tuple(outline.joint_names),
        fields=tuple(outline.fields),
        notes=(*map(str, outline.notes), *notes),
    )


def show(outcome: ConvertOutcome, console: Console) -> None:
    """Print what was written."""
    span = f"{outcome.start:.4g} to {outcome.end:.4g} s"
    what = f"{outcome.samples} samples of {len(outcome.joints)} joints, {span} ({', '.join(outcome.fields)})"
    console.print(f"{outcome.output}: {what}", markup=False)
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)
