# SPDX-License-Identifier: Apache-2.0

"""Play a recording: its joint states as serialized messages, each at its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.files import missing
from ros2_dynid.recording.bag.decode import JOINT_STATE
from ros2_dynid.recording.bag.read_bag import choose_topics, is_bag, open_bag
from ros2_dynid.recording.bag.writer import joint_states
from ros2_dynid.recording.read import iter_samples
from ros2_dynid.recording.samples import Reading

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot

TICK = 0.01
"""While waiting, a player reports the recording's time at least this often [s]."""


@dataclass(frozen=True)
class Message:
    """A JointState in CDR, its topic, and when it was recorded [ns]."""

    stamp: int
    topic: str
    payload: bytes


def recorded_messages(
    path: str | Path,
    robot: Robot | None = None,
    *,
    topic: str | None = None,
    start: float | None = None,
    end: float | None = None,
) -> Iterator[Message]:
    """Yield the joint states of a recording in order; start, end: seconds from its first message.

    Those of a ROS 2 bag come as they were recorded; what else can be read (CSV, npz, ROS 1 bags, control messages)
    is made into JointStates.
    """
    path = Path(path)
    messages = _raw_messages(path, robot, topic) if is_bag(path) else None
    if messages is None:
        messages = _encode_samples(path, robot, topic)
    first: int | None = None
    for message in messages:
        first = message.stamp if first is None else first
        at = (message.stamp - first) * 1e-9
        if end is not None and at > end:
            return
        if start is None or at >= start:
            yield message


def _raw_messages(path: Path, robot: Robot | None, topic: str | None) -> Iterator[Message] | None:
    """Return the messages of a bag as they are, or None if they are not ROS 2's JointStates, one by one."""
    if not path.exists():
        raise missing(path)
    bag = open_bag(path)
    topics = choose_topics(bag, None if robot is None else robot.active_names, topic)
    topic_channels = [channel for channel in bag.channels if channel.topic in topics]
    if any((channel.type, channel.encoding) != (JOINT_STATE, "cdr") for channel in topic_channels):
        return None

    def generate() -> Iterator[Message]:
        for block, channels in bag.blocks(topics):
            names = {channel.id: channel.topic for channel in channels}
            for row in np.argsort(block.stamp, kind="stable"):
                payload = block.payload(int(row))
                if payload[:1] != b"\0":  # not plain CDR: compressed by message
                    raise InputError(
                        "this bag is compressed message by message", "convert it first: dynid convert", str(path)
                    )
                yield Message(int(block.stamp[row]), names[int(block.channel[row])], payload)

    return generate()


def _encode_samples(path: Path, robot: Robot | None, topic: str | None) -> Iterator[Message]:
    for samples in iter_samples(path, robot, chunk=4096, reading=Reading(topic=topic)):
        stamps = samples.start_ns + np.round(samples.t * 1e9).astype(np.int64)
        arrays = samples.arrays()
        fields = [arrays.get(field) for field in ("q", "dq", "tau")]
        for stamp, row in zip(stamps, joint_states(samples.joint_names, stamps, fields), strict=True):
            yield Message(int(stamp), "/joint_states", row.tobytes())


def timed(
    messages: Iterator[Message],
    rate: float = 1.0,
    *,
    stopped: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[int, Message | None]]:
    """Yield (time in the recording [ns], message) at its time, and (time, None) while waiting.

    rate: 1 plays as recorded, 2 twice as fast. A player that is late does not wait, so that it keeps up.
    """
    if not (np.isfinite(rate) and rate > 0):
        raise InputError(f"rate {rate} is not a speed", "give a number above 0, 1 for the recording's own")
    first: int | None = None
    begin = 0.0
    for message in messages:
        if first is None:
            first, begin = message.stamp, clock()
        due = begin + (message.stamp - first) * 1e-9 / rate
        while (wait := due - clock()) > 0:
            if stopped():
                return
            sleep(min(wait, TICK))
            if wait > TICK:
                yield first + int((clock() - begin) * rate * 1e9), None
        if stopped():
            return
        yield message.stamp, message
