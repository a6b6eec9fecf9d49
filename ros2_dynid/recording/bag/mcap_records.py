# SPDX-License-Identifier: Apache-2.0

"""MCAP framing: find the records in a buffer, vectorised over runs of equal size.

A record is an opcode (u8), the length of its content (u64) and the content; all numbers are little endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from ros2_dynid.recording.bag.compression import DamagedDataError
from ros2_dynid.recording.bag.message_layout import even_rows
from ros2_dynid.recording.bag.storage import Bytes, Ints, MessageBlock

MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX, CHUNK_INDEX = range(1, 9)
ATTACHMENT, ATTACHMENT_INDEX, STATISTICS, METADATA, METADATA_INDEX, SUMMARY_OFFSET, DATA_END = range(9, 16)
FRAME = struct.Struct("<BQ")
MESSAGE_HEAD = 22
"""Bytes before a message's data: channel u16, sequence u32, log time u64, publish time u64."""
_RUN = 16  # records of one size in a row before the rest is tried as an array
_MAX_STEPS = 50_000  # steps of one scan


@dataclass(frozen=True)
class Scan:
    """Records found: positions and content lengths of the messages, the others, and where the scan ended."""

    position: Ints
    length: Ints
    others: list[tuple[int, int, int]]
    """(opcode, position of the content, its length)"""
    end: int


def scan(data: bytes, start: int = 0, stop_at: tuple[int, ...] = ()) -> Scan:
    """Find the whole records in data from start on, up to one that is cut, has opcode 0 or one of `stop_at`.

    It also ends after _MAX_STEPS steps, to bound memory: continue at `end` as long as it grows.
    """
    array = np.frombuffer(data, np.uint8)
    runs: list[tuple[int, int, int]] = []  # (position of the first, size of each with its frame, how many)
    others: list[tuple[int, int, int]] = []
    position, stop, previous, alike = start, len(data), -1, 0
    unpack = FRAME.unpack_from
    while position + FRAME.size <= stop and len(runs) + len(others) < _MAX_STEPS:
        opcode, length = unpack(data, position)
        if length > stop - position - FRAME.size or opcode == 0 or opcode in stop_at:
            break
        size = FRAME.size + length
        if opcode != MESSAGE:
            others.append((opcode, position + FRAME.size, length))
            previous = -1
            position += size
            continue
        alike = alike + 1 if size == previous else 1
        previous = size
        count = 1
        if alike >= _RUN:
            count = _run(array, position, size)
            alike = 0
        runs.append((position, size, count))
        position += size * count
    if not runs:
        return Scan(np.zeros(0, np.int64), np.zeros(0, np.int64), others, position)
    first, sizes, counts = np.array(runs, np.int64).T
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    positions = np.repeat(first, counts) + within * np.repeat(sizes, counts)
    return Scan(positions, np.repeat(sizes, counts) - FRAME.size, others, position)


def _run(array: Bytes, position: int, size: int) -> int:
    """Return how many message records of one size follow each other from position on."""
    max_records = (len(array) - position) // size
    head = array[position : position + FRAME.size]
    count, window = 1, 64
    while count < max_records:
        rows = min(window, max_records - count)
        start = position + count * size
        heads = np.ndarray((rows, FRAME.size), np.uint8, buffer=array, offset=start, strides=(size, 1))
        same = (heads == head).all(axis=1)
        if not same.all():
            return count + int(np.argmin(same))
        count += rows
        window = min(8 * window, 8192)
    return count


def messages_of(data: bytes, records: Scan) -> MessageBlock:
    """Return the messages of a scan as a block."""
    whole = records.length >= MESSAGE_HEAD
    position, length = records.position[whole], records.length[whole]
    array = np.frombuffer(data, np.uint8)
    if not len(position):
        none = np.zeros(0, np.int64)
        return MessageBlock(array, none, none, none, none)
    heads = even_rows(array, position, FRAME.size + MESSAGE_HEAD)
    channel, stamp = heads.column(FRAME.size, 1, "<u2")[:, 0], heads.column(FRAME.size + 6, 1, "<u8")[:, 0]
    return MessageBlock(
        array,
        channel.astype(np.int64),
        np.minimum(stamp, np.uint64(2**63 - 1)).astype(np.int64),
        position + (FRAME.size + MESSAGE_HEAD),
        length - MESSAGE_HEAD,
    )


class Fields:
    """Reads the fields of one record's content, never beyond its end [DamagedDataError]."""

    def __init__(self, data: bytes, position: int = 0, length: int | None = None) -> None:
        """Read data from position on, for length bytes (default: to the end)."""
        self.data, self.position = data, position
        self.stop = len(data) if length is None else position + length

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= self.stop - self.position:
            raise DamagedDataError(f"a field of {size} bytes does not fit its record")
        self.position += size
        return self.data[self.position - size : self.position]

    def integer(self, size: int) -> int:
        """Return the next unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def text(self) -> str:
        """Return the next string, its length first (u32)."""
        return self.take(self.integer(4)).decode("utf-8", "replace")

    def mapping(self) -> dict[str, str]:
        """Return the next map of strings, its length in bytes first (u32)."""
        content = Fields(self.take(self.integer(4)))
        pairs: dict[str, str] = {}
        while content.position < content.stop:
            key = content.text()
            pairs[key] = content.text()
        return pairs
