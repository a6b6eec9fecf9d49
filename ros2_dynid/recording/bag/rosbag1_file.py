# SPDX-License-Identifier: Apache-2.0

"""Reading one ROS 1 bag (format 2.0) front to back; an index is not needed, so a cut bag gives what it has.

A record is the length of its header (u32), the header's fields (length u32, name=value), the length of its data
(u32) and the data; a chunk's data holds records again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.storage import (
    MAX_CHUNK,
    Budget,
    Channel,
    DamagedDataError,
    MessageBlock,
    block_of,
    decompress,
    type_name,
)

MAGIC = b"#ROSBAG V2.0\n"
MESSAGE, CHUNK, CONNECTION = 2, 5, 7
_MAX_HEADER = 1 << 20
_COMPRESSIONS = {"none": "", "bz2": "bz2", "lz4": "lz4"}
BLOCK_BYTES = 4 << 20


class Rosbag1File:
    """One .bag file: its connections, and its messages in blocks."""

    def __init__(self, path: Path) -> None:
        """Read the connections, which may stand anywhere in the file."""
        self.path = path
        self.size = path.stat().st_size
        self.warnings: list[str] = []
        self._by_id: dict[int, Channel] = {}
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise InputError("this is not a ROS 1 bag of format 2.0", "give a rosbag2 or ROS 1 bag", str(path))
        for _ in self._walk(frozenset()):
            pass
        self.channels = list(self._by_id.values())

    def blocks(self, channel_ids: Collection[int]) -> Iterator[MessageBlock]:
        """Yield the messages of these connections, one block per chunk."""
        return self._walk(frozenset(channel_ids))

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _walk(self, channel_ids: frozenset[int]) -> Iterator[MessageBlock]:
        self._budget = Budget(self.size)
        with self.path.open("rb") as stream:
            stream.seek(len(MAGIC))
            loose: list[tuple[int, int, bytes]] = []
            loose_bytes = 0
            while (good := stream.tell()) < self.size:
                try:
                    header, length = self._head(stream)
                    opcode = (header.get("op") or b"\0")[0]
                    if length > self.size - stream.tell():
                        raise DamagedDataError("a record is cut")
                    if opcode == CHUNK:
                        yield from self._chunk(header, stream, length, channel_ids)
                    elif opcode in (CONNECTION, MESSAGE) and length <= MAX_CHUNK:
                        loose += self._record(opcode, header, stream.read(length), channel_ids)
                        loose_bytes += length
                        if loose and loose_bytes > BLOCK_BYTES:
                            yield _join_messages(loose)
                            loose, loose_bytes = [], 0
                    else:
                        stream.seek(length, 1)
                except DamagedDataError as error:
                    missing = self.size - good
                    share = 100 * missing / self.size
                    self._warn(
                        f"the bag is cut or damaged ({error}): its last {missing} bytes ({share:.2g} %) are missing"
                    )
                    break
            if loose:
                yield _join_messages(loose)

    def _head(self, stream: BinaryIO) -> tuple[dict[str, bytes], int]:
        """Read a record's header from the file; return it and the length of the data that follows."""
        length = int.from_bytes(stream.read(4), "little")
        if length > _MAX_HEADER:
            raise DamagedDataError("a record's header is too long")
        header = stream.read(length)
        tail = stream.read(4)
        if len(header) != length or len(tail) != 4:
            raise DamagedDataError("a record is cut")
        return _fields(header), int.from_bytes(tail, "little")

    def _chunk(
        self, header: dict[str, bytes], stream: BinaryIO, length: int, channel_ids: frozenset[int]
    ) -> Iterator[MessageBlock]:
        size = int.from_bytes(header.get("size", b""), "little")
        kind = header.get("compression", b"").decode("ascii", "replace")
        if length > MAX_CHUNK or size > MAX_CHUNK or kind not in _COMPRESSIONS:
            self._warn(f"a chunk of {size} bytes, compression {kind[:20]!r}, was left out")
            stream.seek(length, 1)
            return
        compressed_data = stream.read(length)  # in any case: the next record begins behind it
        messages: list[tuple[int, int, bytes]] = []
        position = 0
        try:
            self._budget.spend(size)
            data = decompress(_COMPRESSIONS[kind], compressed_data, size)
            while position < len(data):
                head = _slice(data, position)
                body = _slice(data, position + 4 + len(head))
                fields = _fields(head)
                messages += self._record((fields.get("op") or b"\0")[0], fields, body, channel_ids)
                position += 8 + len(head) + len(body)
        except DamagedDataError as error:
            after = f" after {position} of {size} bytes" if position else ""
            self._warn(f"a damaged chunk was left out{after} ({error})")
        if messages:
            yield _join_messages(messages)

    def _record(
        self, opcode: int, header: dict[str, bytes], body: bytes, channel_ids: frozenset[int]
    ) -> list[tuple[int, int, bytes]]:
        """Take in a connection; return a message that is wanted as (connection, stamp [ns], data)."""
        key = int.from_bytes(header.get("conn", b"")[:4], "little")
        if opcode == CONNECTION and key not in self._by_id:
            inner = _fields(body)
            kind = inner.get("type", b"").decode("utf-8", "replace")
            text = inner.get("message_definition", b"").decode("utf-8", "replace")
            topic = header.get("topic", b"").decode("utf-8", "replace")
            self._by_id[key] = Channel(key, topic, type_name(kind), "ros1", text, "ros1msg")
        if opcode == MESSAGE and key in channel_ids:
            stamp = header.get("time", b"").ljust(8, b"\0")
            seconds, nanoseconds = int.from_bytes(stamp[:4], "little"), int.from_bytes(stamp[4:8], "little")
            return [(key, seconds * 10**9 + nanoseconds, body)]
        return []


def _slice(data: bytes, position: int) -> bytes:
    """Return the bytes at position whose length stands before them (u32)."""
    length = int.from_bytes(data[position : position + 4], "little")
    if position + 4 + length > len(data):
        raise DamagedDataError("a record is longer than its chunk")
    return data[position + 4 : position + 4 + length]


def _fields(header: bytes) -> dict[str, bytes]:
    """Return the fields of a record's header."""
    fields: dict[str, bytes] = {}
    position = 0
    while position < len(header):
        name, separator, value = (item := _slice(header, position)).partition(b"=")
        if not separator:
            raise DamagedDataError("a header's field has no name")
        fields[name.decode("ascii", "replace")] = value
        position += 4 + len(item)
    return fields


def _join_messages(messages: list[tuple[int, int, bytes]]) -> MessageBlock:
    channel, stamp, payloads = zip(*messages, strict=True)
    return block_of(list(payloads), list(channel), list(stamp))
