"""dynid convert IN OUT: csv, npz and rosbag2, any to any, cutting by time."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, robot_from_args

if TYPE_CHECKING:
    from rich.console import Console


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "convert",
        help="csv, npz and rosbag2, any to any, cutting by time",
        description="Write a recording in another form. OUT ends in .csv, .npz or .mcap; any other name becomes a "
        "rosbag2 folder. With --robot the joints are those of the robot, in its order.",
    )
    parser.add_argument("input", metavar="IN", help="rosbag2 folder or file, ROS 1 bag, CSV or npz file")
    parser.add_argument("output", metavar="OUT", help=".csv, .npz or .mcap file, or the folder of a rosbag2 bag")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--out-topic", metavar="TOPIC", default="/joint_states", help="topic of a bag that is written")
    add_robot_arguments(parser, positional=False, required=False)
    from ros2_dynid.commands.shared.reading_arguments import add_reading_arguments

    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Read, cut and write, some samples at a time."""
    from ros2_dynid.commands.shared.reading_arguments import reading_of
    from ros2_dynid.recording.read import iter_samples
    from ros2_dynid.recording.save import check_target, save_pieces
    from ros2_dynid.recording.streamed import streamed

    check_target(args.output, overwrite=args.overwrite)
    robot = None if args.robot is None else robot_from_args(args)
    reading = reading_of(args)
    recording = streamed(
        lambda notes: iter_samples(args.input, robot, reading=reading, notes=notes), args.start, args.end
    )
    outline = recording.outline
    notes = save_pieces(outline, recording.pieces, args.output, overwrite=args.overwrite, topic=args.out_topic)
    return {
        "output": args.output,
        "samples": outline.count,
        "start": outline.first,
        "end": outline.last,
        "joints": list(outline.joint_names),
        "fields": list(outline.fields),
        "notes": [*map(str, outline.notes), *notes],
    }


def show(result: dict[str, Any], console: Console) -> None:
    """Print what was written."""
    from rich.markup import escape

    span = f"{result['start']:.4g} to {result['end']:.4g} s"
    what = f"{result['samples']} samples of {len(result['joints'])} joints, {span} ({', '.join(result['fields'])})"
    console.print(f"{escape(result['output'])}: {what}")
    for note in result["notes"]:
        console.print(f"note: {escape(note)}")
