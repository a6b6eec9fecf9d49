# SPDX-License-Identifier: Apache-2.0

"""Read one MCAP file front to back, chunk by chunk, and salvage what survived a crash or damage.

A record is an opcode (u8), the length of its content (u64) and the content; all numbers are little endian.
"""

from __future__ import annotations

import bisect
import struct
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.decode import even_rows
from ros2_dynid.recording.bag.storage import (
    MAX_CHUNK,
    Budget,
    Bytes,
    Channel,
    DamagedDataError,
    Ints,
    MessageBlock,
    decompress,
    open_zstd,
    type_name,
)
from ros2_dynid.recording.remote_file import RemoteFile

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


MAX_SUMMARY = 128 << 20
MAX_DEFINITION = 4 << 20
_BULK = 1 << 20
_FOOTER = FRAME.size + 20 + len(MAGIC)


class ForwardStream:
    """Forward reading of a file or of a stream that cannot seek; `unread` pushes bytes back."""

    def __init__(self, stream: BufferedIOBase, size: int | None) -> None:
        self.stream, self.size, self.position = stream, size, 0
        self._front = b""

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        if self.size is not None:  # never ask for more than there is: a size may be a lie
            count = min(count, self.size - self.position)
        data = self._front[:count]
        self._front = self._front[len(data) :]
        if len(data) < count:
            data += self._read(count - len(data))
        self.position += len(data)
        return data

    def _read(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count > 0:
            try:
                part = self.stream.read1(min(count, 16 << 20))
            except Exception:  # a damaged compressed stream; what came before it is good
                break
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def unread(self, data: bytes) -> None:
        """Put bytes back in front."""
        self._front = data + self._front
        self.position -= len(data)

    def skip(self, count: int) -> bool:
        """Step over bytes; False if there are not so many."""
        if self.size is None:
            while count > 0:
                part = self.read(min(count, 1 << 20))
                if not part:
                    return False
                count -= len(part)
            return True
        if count > self.size - self.position:
            return False
        self.seek(self.position + count)
        return True

    def seek(self, position: int) -> None:
        """Go to a place of a file that can seek."""
        self._front = b""
        self.stream.seek(position)
        self.position = position


class McapFile:
    """One .mcap file (or .mcap.zstd): its channels, and its messages in blocks, a chunk each."""

    def __init__(self, path: Path | RemoteFile) -> None:
        """Read the catalogue: from the summary at the end, or where there is none by walking through the file."""
        self.path = path
        self.packed = not isinstance(path, RemoteFile) and path.suffix in (".zstd", ".zst")
        self.size = path.size if isinstance(path, RemoteFile) else path.stat().st_size
        self.channels: list[Channel] = []
        self.warnings: list[str] = []
        self._schemas: dict[int, tuple[str, str, str]] = {}
        self._by_id: dict[int, Channel] = {}
        self._chunk_channels: dict[int, frozenset[int]] = {}
        self.chunks: list[int] = []
        with self._open() as stream:
            if ForwardStream(stream, None).read(len(MAGIC)) != MAGIC:
                empty = self.size == 0
                what = "the file is empty" if empty else "this is not an MCAP file"
                raise InputError(what, "give a rosbag2 bag (.mcap, .db3), a ROS 1 .bag, .csv or .npz", str(path))
            counts = None if self.packed else self._read_summary(stream)
        if counts is None:
            counts = {}
            for block in self._walk(None):
                for channel, count in zip(*np.unique(block.channel, return_counts=True), strict=True):
                    counts[int(channel)] = counts.get(int(channel), 0) + int(count)
        self.channels = [replace(channel, count=counts.get(channel.id, 0)) for channel in self._by_id.values()]

    def blocks(self, channel_ids: Collection[int]) -> Iterator[MessageBlock]:
        """Yield the messages of these channels, one block per chunk."""
        return self._walk(np.array(sorted(channel_ids), np.int64))

    def _open(self) -> BufferedIOBase:
        if isinstance(self.path, RemoteFile):
            return self.path.open()
        return open_zstd(self.path) if self.packed else self.path.open("rb")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _read_summary(self, stream: BufferedIOBase) -> dict[int, int] | None:
        """Read channels, chunk indexes and counts from the summary; None unless there is a complete one."""
        if self.size < _FOOTER:
            return None
        stream.seek(self.size - _FOOTER)
        footer = stream.read(_FOOTER)
        opcode, length = FRAME.unpack_from(footer)
        if opcode != FOOTER or length != 20 or footer[-len(MAGIC) :] != MAGIC:
            return None
        fields = Fields(footer, FRAME.size)
        start, _, crc = fields.integer(8), fields.integer(8), fields.integer(4)
        if not len(MAGIC) <= start < self.size - _FOOTER or self.size - _FOOTER - start > MAX_SUMMARY:
            return None
        stream.seek(start)
        data = stream.read(self.size - _FOOTER - start)
        if crc and zlib.crc32(data + footer[: FRAME.size + 16]) != crc:
            return None
        counts: dict[int, int] | None = None
        scanned = scan(data)
        others = list(scanned.others)
        while len(scanned.others) and scanned.end < len(data):
            scanned = scan(data, scanned.end)
            others += scanned.others
        try:
            for opcode, position, length in others:
                fields = Fields(data, position, length)
                if opcode == CHUNK_INDEX:
                    fields.take(16)
                    chunk = fields.integer(8)
                    fields.take(8)
                    index = np.frombuffer(fields.take(fields.integer(4)), np.dtype([("id", "<u2"), ("at", "<u8")]))
                    self._chunk_channels[chunk] = frozenset(index["id"].tolist())
                elif opcode == STATISTICS:
                    fields.take(8 + 2 + 4 * 4 + 8 + 8)
                    table = np.frombuffer(fields.take(fields.integer(4)), np.dtype([("id", "<u2"), ("count", "<u8")]))
                    counts = dict(zip(table["id"].tolist(), table["count"].tolist(), strict=True))
                else:
                    self._learn(opcode, fields)
        except (DamagedDataError, ValueError):
            counts = None
        if scanned.end != len(data) or counts is None or not self._by_id:
            self._chunk_channels = {}
            return None
        self.chunks = sorted(self._chunk_channels)
        return counts

    def _learn(self, opcode: int, fields: Fields) -> None:
        """Take in a schema or a channel; the first of an id counts."""
        if opcode == SCHEMA and fields.stop - fields.position <= MAX_DEFINITION:
            key, name, encoding = fields.integer(2), fields.text(), fields.text()
            self._schemas.setdefault(key, (name, encoding, fields.text()))
        elif opcode == CHANNEL:
            key, schema, topic, encoding = fields.integer(2), fields.integer(2), fields.text(), fields.text()
            name, form, definition = self._schemas.get(schema, ("", "", ""))
            channel = Channel(key, topic, type_name(name), encoding, definition, form)
            self._by_id.setdefault(key, channel)

    def _walk(self, channel_ids: np.ndarray | None) -> Iterator[MessageBlock]:
        """Yield blocks of these channels (None: all, for the catalogue), front to back."""
        budget = Budget(self.size)
        with self._open() as stream:
            window = ForwardStream(stream, None if self.packed else self.size)
            window.skip(len(MAGIC))
            while True:
                good = window.position
                head = window.read(FRAME.size)
                opcode, length = FRAME.unpack(head) if len(head) == FRAME.size else (0, 0)
                if opcode in (DATA_END, FOOTER):
                    return
                if opcode == CHUNK:
                    if self._chunk_is_unwanted(good, channel_ids):
                        whole = window.skip(length)
                    else:
                        content = window.read(length) if length <= MAX_CHUNK else b""
                        whole = len(content) == length
                        if whole:
                            yield from self._chunk(content, channel_ids, budget)
                elif opcode == MESSAGE:
                    bulk = head + window.read(max(length, _BULK) if length <= MAX_CHUNK else 0)
                    scanned = scan(bulk, stop_at=(CHUNK, DATA_END, FOOTER))
                    whole = scanned.end > 0
                    if whole:
                        window.unread(bulk[scanned.end :])
                        yield from self._messages(bulk, scanned, channel_ids)
                elif opcode in (SCHEMA, CHANNEL):
                    content = window.read(length) if length <= MAX_DEFINITION else b""
                    whole = len(content) == length
                    if whole:
                        self._learn_safely(opcode, Fields(content))
                else:
                    whole = opcode != 0 and window.skip(length)
                if not whole and not self._resume(window, good):
                    return

    def _chunk_is_unwanted(self, position: int, channel_ids: np.ndarray | None) -> bool:
        channels = self._chunk_channels.get(position)
        return channel_ids is not None and channels is not None and channels.isdisjoint(channel_ids.tolist())

    def _resume(self, window: ForwardStream, good: int) -> bool:
        """Warn about the data lost after `good`; continue at the next indexed chunk, if any."""
        following = bisect.bisect_right(self.chunks, good)
        if following < len(self.chunks) and self.chunks[following] < self.size:
            self._warn(f"{self.chunks[following] - good} bytes at {good} are damaged and were left out")
            window.seek(self.chunks[following])
            return True
        if self.packed:
            self._warn(f"the file is cut or damaged: nothing could be read after {good / 1e6:.3g} MB (unpacked)")
        elif good == self.size:
            self._warn("the file was not closed: data that the recorder had not yet written are missing")
        else:
            missing_bytes = self.size - good
            self._warn(
                f"the file was not closed properly or is cut: the last {missing_bytes} of {self.size} bytes "
                f"({100 * missing_bytes / self.size:.2g} %), after the last whole chunk, are missing from the samples"
            )
        return False

    def _chunk(self, content: bytes, channel_ids: np.ndarray | None, budget: Budget) -> Iterator[MessageBlock]:
        """Yield the messages of one chunk; a damaged one is left out with a warning."""
        first = last = 0
        try:
            fields = Fields(content)
            first, last = fields.integer(8), fields.integer(8)
            size, crc = fields.integer(8), fields.integer(4)
            compression, length = fields.text(), fields.integer(8)
            if size > MAX_CHUNK:
                raise DamagedDataError(f"it claims {size} bytes")
            budget.spend(size)
            records = decompress(compression, fields.take(length), size)
            if len(records) != size:
                raise DamagedDataError("its size differs from the size that it claims")
            if crc and zlib.crc32(records) != crc:
                raise DamagedDataError("its checksum is wrong")
        except DamagedDataError as error:
            span = f" of {(last - first) * 1e-9:.3g} s" if 0 < last - first < 10**13 else ""
            self._warn(f"a damaged chunk{span} was left out ({error})")
            return
        end = 0
        while end < len(records):
            scanned = scan(records, end)
            if scanned.end == end:
                self._warn(f"a damaged chunk was left out after {end} of {len(records)} bytes")
                return
            end = scanned.end
            yield from self._messages(records, scanned, channel_ids)

    def _messages(self, data: bytes, scanned: Scan, channel_ids: np.ndarray | None) -> Iterator[MessageBlock]:
        for opcode, position, length in scanned.others:
            self._learn_safely(opcode, Fields(data, position, length))
        block = messages_of(data, scanned)
        if channel_ids is not None:
            inside = np.isin(block.channel, channel_ids)
            block = block if inside.all() else block.take(inside)
        if len(block):
            yield block

    def _learn_safely(self, opcode: int, fields: Fields) -> None:
        try:
            self._learn(opcode, fields)
        except DamagedDataError:
            self._warn("a damaged description of a topic was left out")
