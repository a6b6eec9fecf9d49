# SPDX-License-Identifier: Apache-2.0

"""What a storage format of bags provides: channels and messages in blocks; decompression with a size limit."""

from __future__ import annotations

import bz2
import importlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from io import BufferedIOBase
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import MissingPackageError

MAX_CHUNK = 128 << 20
"""Largest chunk [bytes] that is unpacked; rosbag2 writes chunks of about 1 MB."""
MAX_RATIO, ALWAYS_UNPACKED = 1000, 4 << 20
"""Largest accepted ratio of unpacked to stored size, beyond this many bytes of each file."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_RATIO = 256  # LZ4 cannot expand a byte to more than 255


class DamagedDataError(Exception):
    """Compressed or framed data that is cut, damaged or dishonest about its size; callers salvage what is around it."""


class Budget:
    """How many bytes a file may still unpack into; the limit stops decompression bombs."""

    def __init__(self, file_size: int) -> None:
        """Set the budget by the size of the file [bytes]."""
        self.remaining = MAX_RATIO * file_size + ALWAYS_UNPACKED

    def spend(self, size: int) -> None:
        """Subtract `size` bytes; raise DamagedDataError if fewer remain."""
        if size > self.remaining:
            raise DamagedDataError(f"the file unpacks into more than {MAX_RATIO} times its size")
        self.remaining -= size


@cache
def _zstd() -> ModuleType:
    """Return the zstd module of this Python: its own (3.14), or the backport."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingPackageError("backports.zstd", "reading zstd compressed recordings")


@cache
def _lz4() -> ModuleType:
    try:
        return importlib.import_module("lz4.frame")
    except ImportError:
        raise MissingPackageError("lz4", "reading lz4 compressed recordings") from None


def decompress(kind: str, data: bytes | memoryview, limit: int) -> bytes:
    """Return data unpacked ("", "zstd", "lz4" or "bz2"), of at most `limit` bytes [DamagedDataError beyond]."""
    if kind in ("", "none"):
        return bytes(data)
    if limit > MAX_CHUNK:
        raise DamagedDataError(f"a chunk claims {limit} bytes")
    if kind == "lz4" and limit > _LZ4_RATIO * len(data) + 64:
        raise DamagedDataError(f"{len(data)} compressed bytes claim to hold {limit}")
    makers = {
        "zstd": lambda: _zstd().ZstdDecompressor(),
        "lz4": lambda: _lz4().LZ4FrameDecompressor(),
        "bz2": bz2.BZ2Decompressor,
    }
    if kind not in makers:
        raise DamagedDataError(f"unknown compression {kind[:20]!r}")
    parts: list[bytes] = []
    size = 0
    rest = bytes(data)
    while rest:
        decompressor = makers[kind]()
        try:
            part = decompressor.decompress(rest, max_length=limit - size + 1)
        except MissingPackageError:
            raise
        except Exception as error:  # each library has its own error types for damaged data
            raise DamagedDataError(f"{kind} data is damaged ({error})") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            raise DamagedDataError(f"{kind} data holds more than the {limit} bytes it claims")
        if not decompressor.eof:
            raise DamagedDataError(f"{kind} data ends early")
        rest = decompressor.unused_data or b""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def compress_zstd(data: bytes, level: int = 1) -> bytes:
    """Return data as one zstd frame."""
    packed: bytes = _zstd().compress(data, level=level)
    return packed


def open_zstd(path: Path) -> BufferedIOBase:
    """Open a zstd file for reading as a stream of the unpacked bytes."""
    stream: BufferedIOBase = _zstd().ZstdFile(path, "r")
    return stream


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
