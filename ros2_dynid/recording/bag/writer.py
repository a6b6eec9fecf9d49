# SPDX-License-Identifier: Apache-2.0

"""Write rosbag2 MCAP bags that survive a crash, a power cut or a full disk.

Messages gather in a chunk for at most a quarter of a second, then the chunk goes to the kernel in one write: a process
that is killed loses no more than that. A thread syncs the file once a second, so that a power cut loses little more;
the caller never waits for the disk. A bag is always a new folder; metadata.yaml is written at the start and replaced at
the end. Reserved space lets a full disk take the last chunk and the index. load_samples reads a bag whose writer was
killed; rosbag2 does after rebuilding the index.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag import decode as by_layout
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag.cdr import CdrWriter
from ros2_dynid.recording.bag.decode import JOINT_STATE
from ros2_dynid.recording.bag.definitions import (
    TopicInfo,
    bag_information,
    describe,
    embedded_yaml,
    metadata_yaml,
    qos_text,
)
from ros2_dynid.recording.bag.mcap_file import FRAME, MAGIC, MESSAGE_HEAD
from ros2_dynid.recording.bag.storage import Bytes, Ints, compress_zstd
from ros2_dynid.version import __version__


def joint_state(
    names: Sequence[str], stamp_ns: int, arrays: Sequence[Sequence[float] | Array | None], frame_id: str = ""
) -> bytes:
    """Return one JointState in CDR: names, stamp [ns], and position, velocity, effort (None: left empty)."""
    writer = CdrWriter()
    writer.stamp(stamp_ns)
    writer.string(frame_id)
    writer.u32(len(names))
    for name in names:
        writer.string(name)
    for values in arrays:
        writer.doubles(np.asarray([] if values is None else values, float))
    return writer.message()


def joint_states(names: Sequence[str], stamps_ns: Ints, arrays: Sequence[Array | None], head: int = 0) -> Bytes:
    """Return K JointStates as rows of bytes, each with `head` free bytes before it."""
    seconds = stamps_ns // 10**9
    if len(seconds) and not (seconds.min() >= -(2**31) and seconds.max() < 2**31):
        raise InputError("a time lies beyond the years 1901 to 2038 that a ROS stamp can hold", "give times in seconds")
    blank = [None if values is None else np.zeros(len(names)) for values in arrays]
    template = joint_state(names, 0, blank)
    layout = by_layout.parse(template, "cdr")
    rows = np.zeros((len(stamps_ns), head + len(template)), np.uint8)
    rows[:, head:] = np.frombuffer(template, np.uint8)
    view = by_layout.MessageRows(rows, head, rows.shape[1], len(rows), len(template))
    view.column(by_layout.STAMP, 1, "<i4")[:, 0] = seconds
    view.column(by_layout.STAMP + 4, 1, "<u4")[:, 0] = stamps_ns - seconds * 10**9
    for index, values in enumerate(arrays):
        if values is not None and len(names):
            column = by_layout.array(layout, view, index)
            assert column is not None
            column[...] = values
    return rows


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
    chunk_data = compress_zstd(raw) if compression == "zstd" else raw
    content = struct.pack("<QQQI", first, chunk.last, len(raw), zlib.crc32(raw))
    content += text(compression) + struct.pack("<Q", len(chunk_data)) + chunk_data
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
    entry += struct.pack("<Q", len(behind)) + text(compression) + struct.pack("<QQ", len(chunk_data), len(raw))
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


CHUNK_BYTES = 768 << 10
CHUNK_SECONDS = 0.25
SYNC_SECONDS = 1.0
_RESERVE = 1 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class WriteError(DynidError):
    """Writing failed; `kept` messages are safe in `path`."""

    def __init__(self, path: Path, reason: str, kept: int) -> None:
        """Say why, and what was kept."""
        self.path, self.reason, self.kept = path, reason, kept
        super().__init__(
            f"{path}: {reason}; the {kept} messages written so far are kept, free some space and record again"
        )


class BagWriter:
    """Writes one bag: a folder with NAME_0.mcap and metadata.yaml. All times are in ns since the epoch."""

    def __init__(
        self,
        folder: str | Path,
        *,
        compression: str = "",
        custom: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        """Make the folder, which must not exist; compression of chunks is "" or "zstd"; files are called `name`_0."""
        self.path = Path(folder)
        if compression not in ("", "zstd"):
            raise InputError(f"unknown compression {compression!r}", "choose none or zstd")
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            what = "this bag exists already"
            raise InputError(what, "choose another name; a recording is never overwritten", str(self.path)) from None
        self.count = 0
        self.error: WriteError | None = None
        self._custom = dict(custom or {})
        self._compression = compression
        self._topics: dict[int, TopicInfo] = {}
        self.sequence: dict[int, int] = {}
        self._schemas: list[bytes] = []
        self._channels: list[bytes] = []
        self._chunk_indexes: list[bytes] = []
        self._first, self._last = 2**63 - 1, 0
        self._chunk, self._chunk_since = Chunk(), time.monotonic()
        self._created = time.time_ns()
        self._lock = threading.Lock()
        self._file = self.path / f"{name or self.path.name}_0.mcap"
        self._fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._position = 0
        self._reserve: IO[bytes] | None = None
        self._reserved = 0
        self._closed = False
        self._synced = 0
        self._wake = threading.Event()
        try:
            self._hold_reserve(must=True)
            self._append(beginning(f"ros2_dynid {__version__}"))
            self._write_metadata(provisional=True)
        except OSError as error:
            self._release_reserve()
            os.close(self._fd)
            shutil.rmtree(self.path, ignore_errors=True)
            hint = f"free {_RESERVE >> 19} MB at least, or record elsewhere"
            raise InputError(_why(error), hint, str(self.path)) from None
        self._syncer = threading.Thread(target=self._sync_loop, name="bag-sync", daemon=True)
        self._syncer.start()

    def __enter__(self) -> BagWriter:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bag, also after an error: what was written is kept."""
        self.close()

    def add_topic(
        self, topic: str, kind: str = JOINT_STATE, *, definition: str | None = None, latched: bool = False
    ) -> int:
        """Add a topic and return its channel; definition: text of a type that ROS 2's common interfaces lack."""
        text, type_hash = describe(kind) if definition is None else (definition, "")
        with self._lock:
            self._check_open()
            key = len(self._topics) + 1
            self._topics[key] = TopicInfo(topic, kind, text, type_hash, latched)
            self.sequence[key] = 0
            self._schemas.append(schema(key, kind, text))
            details = {"offered_qos_profiles": qos_text(latched), "topic_type_hash": type_hash}
            self._channels.append(channel(key, key, topic, details))
            self._chunk.records += self._schemas[-1] + self._channels[-1]
            with suppress(OSError):  # the first chunk meets a full disk and reports it
                self._write_metadata(provisional=True)  # rosbag2 plays the topics that it names, also of a killed bag
        return key

    def note(self, key: str, text: str) -> None:
        """Write a text about the bag into the custom data of its metadata when it is closed."""
        self._custom[key] = text

    def write(self, channel: int, payload: bytes, log_time: int, publish_time: int | None = None) -> None:
        """Write one message; it reaches the file with its chunk, within a quarter of a second if poll() is called."""
        publish_time = log_time if publish_time is None else publish_time
        with self._lock:
            self._check_open()
            data = message(channel, self.sequence[channel], log_time, publish_time, payload)
            self._add(channel, np.array([log_time], np.int64), np.array([len(data)], np.int64), data)
            self._flush_if_due()

    def write_joint_states(
        self, channel: int, names: tuple[str, ...], stamps: Ints, arrays: list[np.ndarray | None]
    ) -> None:
        """Write many JointStates: stamps [ns] (K,), which are also the log times, and position, velocity, effort."""
        from ros2_dynid.recording.bag.writer import joint_states

        rows = joint_states(names, stamps, arrays, head=RECORD_HEAD)
        size = rows.shape[1]
        head = np.zeros(
            len(rows),
            np.dtype(
                {
                    "names": ["op", "length", "channel", "sequence", "log", "publish"],
                    "formats": ["u1", "<u8", "<u2", "<u4", "<u8", "<u8"],
                    "offsets": [0, 1, 9, 11, 15, 23],
                    "itemsize": RECORD_HEAD,
                }
            ),
        )
        head["op"], head["length"], head["channel"] = 5, size - 9, channel
        head["log"] = head["publish"] = stamps
        step = max(1, CHUNK_BYTES // size)
        with self._lock:
            head["sequence"] = self.sequence[channel] + np.arange(len(rows))  # modulo 2**32
            rows[:, :RECORD_HEAD] = head.view(np.uint8).reshape(len(rows), -1)
            for begin in range(0, len(rows), step):
                self._check_open()
                part = rows[begin : begin + step]
                self._add(channel, stamps[begin : begin + step], np.full(len(part), size), part.tobytes())
                self._flush_if_due()

    def _add(self, channel: int, stamps: Ints, sizes: Ints, data: bytes) -> None:
        self._chunk.add(channel, stamps, sizes, data)
        self.sequence[channel] += len(stamps)

    def poll(self) -> None:
        """Write the chunk if it is a quarter of a second old: call it from a timer, for when messages stop coming."""
        with self._lock:
            if not self._closed:
                self._flush_if_due()

    def flush(self) -> None:
        """Write the chunk now."""
        with self._lock:
            self._check_open()
            self._flush()

    def _flush_if_due(self) -> None:
        age = time.monotonic() - self._chunk_since
        if len(self._chunk.records) >= CHUNK_BYTES or (self._chunk.count and age >= CHUNK_SECONDS):
            self._flush()

    def _flush(self) -> None:
        chunk, self._chunk, self._chunk_since = self._chunk, Chunk(), time.monotonic()
        if not chunk.records:
            return
        packed = pack(chunk, self._position, self._compression)
        try:
            self._append(packed.data)
        except OSError as error:
            self._release_reserve()  # a second chance: space for this chunk and for the end of the file
            with suppress(OSError):
                self._append(packed.data)
                self._count(chunk, packed.chunk_index)
            self._fail(error)
        self._count(chunk, packed.chunk_index)
        if _RESERVE + 256 * len(self._chunk_indexes) > self._reserved:
            self._hold_reserve()

    def _count(self, chunk: Chunk, chunk_index: bytes) -> None:
        self._chunk_indexes.append(chunk_index)
        self.count += chunk.count
        for key, parts in chunk.index.items():
            count = self._topics[key].count + sum(len(stamps) for stamps, _ in parts)
            self._topics[key] = replace(self._topics[key], count=count)
        self._first, self._last = min(self._first, chunk.first), max(self._last, chunk.last)

    def _append(self, data: bytes) -> None:
        """Write all of data at the end, or nothing of it."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self._position)
            os.lseek(self._fd, self._position, os.SEEK_SET)
            raise
        self._position += len(data)

    def _fail(self, error: OSError) -> None:
        self.error = WriteError(self.path, _why(error), self.count)
        self._finish()
        raise self.error

    def _check_open(self) -> None:
        if self.error is not None:
            raise self.error
        if self._closed:
            raise InputError("the bag is closed", "open a new one", str(self.path))

    def close(self) -> None:
        """Write the last chunk, the index and metadata.yaml, which complete the bag. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._flush()
            self._finish()

    def _finish(self) -> None:
        """Complete the file as far as disk space allows, and replace the provisional metadata.yaml."""
        self._closed = True
        self._wake.set()
        self._release_reserve()
        totals = Totals(
            self._schemas,
            self._channels,
            self._chunk_indexes,
            {key: topic.count for key, topic in self._topics.items()},
            self._first if self.count else 0,
            self._last,
        )
        try:
            self._append(ending(self._position, totals, {"serialized_metadata": embedded_yaml(self._information())}))
            os.fsync(self._fd)
            self._write_metadata(provisional=False)
        except OSError as error:
            if self.error is None:
                self.error = WriteError(self.path, _why(error), self.count)
                raise self.error from None
        finally:
            os.close(self._fd)

    def _information(self) -> dict[str, object]:
        start = self._first if self.count else self._created
        duration = self._last - self._first if self.count else 0
        return bag_information(self._file.name, list(self._topics.values()), start, duration, self._custom)

    def _write_metadata(self, *, provisional: bool) -> None:
        """Write metadata.yaml atomically."""
        target, new = self.path / "metadata.yaml", self.path / ".metadata.yaml.new"
        with new.open("w", encoding="utf-8") as stream:
            stream.write(metadata_yaml(self._information()))
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(target)
        folders = (self.path, self.path.parent) if provisional else (self.path,)
        for folder in folders:
            handle = os.open(folder, os.O_RDONLY)
            try:
                with suppress(OSError):  # some filesystems cannot sync a folder
                    os.fsync(handle)
            finally:
                os.close(handle)

    def _hold_reserve(self, *, must: bool = False) -> None:
        """Reserve disk space in an unnamed file that vanishes with the process; `must`: raise OSError on failure."""
        size = 2 * (_RESERVE + 256 * len(self._chunk_indexes))
        try:
            if self._reserve is None:
                self._reserve = tempfile.TemporaryFile(dir=self.path)  # noqa: SIM115  held until close
            os.posix_fallocate(self._reserve.fileno(), 0, size)
        except OSError as error:
            if must and error.errno in _NO_ROOM:  # others: a filesystem that cannot reserve space
                raise
        self._reserved = size

    def _release_reserve(self) -> None:
        if self._reserve is not None:
            self._reserve.close()
            self._reserve = None

    def _sync_loop(self) -> None:
        """Sync the file to disk once a second."""
        while not self._wake.wait(SYNC_SECONDS):
            with self._lock:
                if self._closed:
                    return
                handle, position = os.dup(self._fd), self._position
            try:
                if position != self._synced:
                    os.fdatasync(handle)
                    self._synced = position
            except OSError:
                pass  # the next write or the end of the bag meets the same error and can report it
            finally:
                os.close(handle)


def _why(error: OSError) -> str:
    return "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror or error)
