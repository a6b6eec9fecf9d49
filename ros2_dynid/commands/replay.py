# SPDX-License-Identifier: Apache-2.0

"""dynid replay BAG: plays a recording into the running nodes, without rosbag2."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers


@dataclass(frozen=True)
class ReplayOutcome:
    """Number of joint states published, duration [s], whether there was a subscriber, whether it was interrupted."""

    published: int
    seconds: float
    listeners: bool
    interrupted: bool


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "replay",
        help="publish the joint states of a recording to running nodes",
        description="Publish the joint states of a recording at their recorded times, on the topic they were recorded "
        "on. With --clock the time of the recording goes to /clock, for nodes with use_sim_time.",
    )
    parser.add_argument("recording", metavar="BAG", help="rosbag2 folder or file, ROS 1 bag, CSV or npz file")
    parser.add_argument("--rate", metavar="X", type=float, default=1.0, help="playback speed (default 1, as recorded)")
    parser.add_argument("--clock", action="store_true", help="publish /clock with the time of the recording")
    parser.add_argument("--topic", metavar="TOPIC", help="topic in the recording (default: by message type)")
    parser.add_argument("--to", metavar="TOPIC", help="publish on this topic instead of the recorded one")
    parser.add_argument("--start", metavar="S", type=float, help="start this long after the first message [s]")
    parser.add_argument("--end", metavar="S", type=float, help="end this long after the first message [s]")
    parser.add_argument(
        "--wait", metavar="S", type=float, default=3.0, help="wait at most this long for a subscriber [s]"
    )


def run(args: argparse.Namespace) -> ReplayOutcome:
    """Play the recording to its end."""
    import math

    from ros2_dynid.recording.playback import recorded_messages

    if not (math.isfinite(args.rate) and args.rate > 0):
        raise InputError(f"--rate {args.rate:g} is not a speed", "give a number above 0, 1 for the recording's own")
    messages = recorded_messages(args.recording, topic=args.topic, start=args.start, end=args.end)
    try:
        from ros2_dynid.nodes.replay.node import replay
    except ImportError as error:
        what = f"ROS 2 is not available here ({error})"
        raise InputError(what, "source a ROS 2 installation, or run ./dynid replay from a checkout") from None
    counts = replay(messages, rate=args.rate, clock=args.clock, topic=args.to, wait=args.wait)
    return ReplayOutcome(**counts)


def show(outcome: ReplayOutcome, console: Console) -> None:
    """Print what was played."""
    console.print(f"{outcome.published} joint states published in {outcome.seconds:.4g} s")
    if not outcome.listeners:
        console.print("note: there was no subscriber at the start")
    if outcome.interrupted:
        console.print("note: interrupted before the end")
