# SPDX-License-Identifier: Apache-2.0

"""MCAP records as bytes: what the writer puts into a file. The format is described at mcap.dev."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.recording.bag import mcap_records as mcap
from ros2_dynid.recording.bag.compression import compress_zstd
from ros2_dynid.recording.bag.mcap_records import FRAME, MAGIC, MESSAGE_HEAD
from ros2_dynid.recording.bag.storage import Ints

_HEAD = struct.Struct("<BQHIQQ")
RECORD_HEAD = FRAME.size + MESSAGE_HEAD
"""Bytes of a message record before its data."""


def record(opcode: int, content: bytes) -> bytes:
    """Return a whole record."""
    return FRAME.pack(opcode, len(content)) + content


def text(value: str) -> bytes:
    """Return a string with its length (u32) before it."""
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def mapping(values: Mapping[str, str]) -> bytes:
    """Return a map of strings with its length (u32) before it."""
    content = b"".join(text(key) + text(value) for key, value in values.items())
    return struct.pack("<I", len(content)) + content


def beginning(library: str) -> bytes:
    """Return the magic and the header that a file begins with."""
    return MAGIC + record(mcap.HEADER, text("ros2") + text(library))


def schema(key: int, name: str, definition: str) -> bytes:
    """Return a schema record for a message type described in ROS 2's .msg language."""
    return record(mcap.SCHEMA, struct.pack("<H", key) + text(name) + text("ros2msg") + text(definition))


def channel(key: int, schema_key: int, topic: str, metadata: Mapping[str, str]) -> bytes:
    """Return a channel record for CDR messages."""
    return record(mcap.CHANNEL, struct.pack("<HH", key, schema_key) + text(topic) + text("cdr") + mapping(metadata))


def message(channel_key: int, sequence: int, log_time: int, publish_time: int, payload: bytes) -> bytes:
    """Return a message record."""
    length = MESSAGE_HEAD + len(payload)
    return _HEAD.pack(mcap.MESSAGE, length, channel_key, sequence & 0xFFFFFFFF, log_time, publish_time) + payload


@dataclass
class Chunk:
    """A chunk being filled: its records, and for the index the log time [ns] and offset of each message."""

    records: bytearray = field(default_factory=bytearray)
    index: dict[int, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    first: int = 2**63 - 1
    last: int = 0
    count: int = 0

    def add(self, channel_key: int, stamps: Ints, sizes: Ints, data: bytes) -> None:
        """Add message records of one channel: their log times [ns], their sizes and the records themselves."""
        offsets = len(self.records) + np.cumsum(sizes) - sizes
        self.index.setdefault(channel_key, []).append((stamps, offsets))
        self.records += data
        self.first = min(self.first, int(stamps.min()))
        self.last = max(self.last, int(stamps.max()))
        self.count += len(stamps)


@dataclass(frozen=True)
class Packed:
    """A finished chunk: its bytes with the message indexes behind it, and its entry in the summary."""

    data: bytes
    chunk_index: bytes


def pack(chunk: Chunk, position: int, compression: str) -> Packed:
    """Return a chunk as it goes into the file at position ("zstd" or "" for compression)."""
    raw = bytes(chunk.records)
    first = chunk.first if chunk.count else 0
    stored = compress_zstd(raw) if compression == "zstd" else raw
    content = struct.pack("<QQQI", first, chunk.last, len(raw), zlib.crc32(raw))
    content += text(compression) + struct.pack("<Q", len(stored)) + stored
    body = record(mcap.CHUNK, content)
    indexes: list[bytes] = []
    offsets = b""
    place = position + len(body)
    for key, parts in chunk.index.items():
        entries = np.empty(sum(len(stamps) for stamps, _ in parts), np.dtype([("stamp", "<u8"), ("offset", "<u8")]))
        entries["stamp"] = np.concatenate([stamps for stamps, _ in parts])
        entries["offset"] = np.concatenate([offset for _, offset in parts])
        packed = entries.tobytes()
        indexes.append(record(mcap.MESSAGE_INDEX, struct.pack("<HI", key, len(packed)) + packed))
        offsets += struct.pack("<HQ", key, place)
        place += len(indexes[-1])
    behind = b"".join(indexes)
    entry = struct.pack("<QQQQI", first, chunk.last, position, len(body), len(offsets)) + offsets
    entry += struct.pack("<Q", len(behind)) + text(compression) + struct.pack("<QQ", len(stored), len(raw))
    return Packed(body + behind, record(mcap.CHUNK_INDEX, entry))


@dataclass(frozen=True)
class Totals:
    """What the statistics of a file say; messages by channel, times in ns."""

    schemas: list[bytes]
    channels: list[bytes]
    chunk_indexes: list[bytes]
    counts: Mapping[int, int]
    first: int
    last: int


def ending(position: int, totals: Totals, metadata: Mapping[str, str]) -> bytes:
    """Return all that follows the last chunk: a rosbag2 metadata record, the summary, the footer and the magic."""
    info = record(mcap.METADATA, text("rosbag2") + mapping(metadata))
    info_index = record(mcap.METADATA_INDEX, struct.pack("<QQ", position, len(info)) + text("rosbag2"))
    data = info + record(mcap.DATA_END, struct.pack("<I", 0))
    counts = b"".join(struct.pack("<HQ", key, count) for key, count in totals.counts.items())
    statistics = struct.pack(
        "<QHIIIIQQI",
        sum(totals.counts.values()),
        len(totals.schemas),
        len(totals.channels),
        0,
        1,
        len(totals.chunk_indexes),
        totals.first,
        totals.last,
        len(counts),
    )
    groups = [
        (mcap.SCHEMA, b"".join(totals.schemas)),
        (mcap.CHANNEL, b"".join(totals.channels)),
        (mcap.STATISTICS, record(mcap.STATISTICS, statistics + counts)),
        (mcap.CHUNK_INDEX, b"".join(totals.chunk_indexes)),
        (mcap.METADATA_INDEX, info_index),
    ]
    start = position + len(data)
    summary, offsets = b"", b""
    for opcode, group in groups:
        if group:
            offsets += record(mcap.SUMMARY_OFFSET, struct.pack("<BQQ", opcode, start + len(summary), len(group)))
            summary += group
    head = FRAME.pack(mcap.FOOTER, 20) + struct.pack("<QQ", start, start + len(summary))
    crc = zlib.crc32(summary + offsets + head)
    return data + summary + offsets + head + struct.pack("<I", crc) + MAGIC
