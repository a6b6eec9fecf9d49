# SPDX-License-Identifier: Apache-2.0

"""What every storage yields: blocks of serialized messages in one buffer, so that decoding can work on arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Channel:
    """One stream of messages: its topic, message type (`sensor_msgs/msg/JointState`) and how the type is described.

    encoding: "cdr" or "ros1"; definition: text of the type in the format named, "" where the bag has none; count:
    messages that the bag says it has, -1 where it does not say.
    """

    id: int
    topic: str
    type: str
    encoding: str
    definition: str = ""
    definition_format: str = "ros2msg"
    count: int = -1


@dataclass(frozen=True)
class MessageBlock:
    """K messages: message k is data[start[k] : start[k] + length[k]], of channel[k], logged at stamp[k] [ns]."""

    data: Bytes
    channel: Ints
    stamp: Ints
    start: Ints
    length: Ints

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.start)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> MessageBlock:
        """Return the messages of the rows given, in the same buffer."""
        return MessageBlock(self.data, self.channel[rows], self.stamp[rows], self.start[rows], self.length[rows])

    def payload(self, row: int) -> bytes:
        """Return the bytes of one message."""
        begin = int(self.start[row])
        return self.data[begin : begin + int(self.length[row])].tobytes()


class Storage(Protocol):
    """One file of a recording."""

    channels: list[Channel]
    warnings: list[str]

    def blocks(self, channel_ids: Collection[int]) -> Iterator[MessageBlock]:
        """Yield the messages of these channels in the order of the file."""
        ...


def block_of(payloads: list[bytes], channel: list[int], stamp: list[int]) -> MessageBlock:
    """Return single messages joined into a block."""
    length = np.fromiter(map(len, payloads), np.int64, len(payloads))
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)[:-1]))
    data = np.frombuffer(b"".join(payloads), np.uint8)
    return MessageBlock(data, np.array(channel, np.int64), np.array(stamp, np.int64), start, length)


def distinct(values: Ints) -> list[int]:
    """Return the different values, ascending; mostly there is one."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    return [int(value) for value in np.unique(values)]


def type_name(name: str) -> str:
    """Return a message type's name as ROS 2 writes it: sensor_msgs/JointState becomes sensor_msgs/msg/JointState."""
    parts = name.split("/")
    return f"{parts[0]}/msg/{parts[1]}" if len(parts) == 2 else name
