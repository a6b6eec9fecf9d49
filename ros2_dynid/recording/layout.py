"""JointState messages decoded by layout: many messages of one shape become arrays without a step of Python for each.

Where a message's names and array sizes are known, the stamp and the three arrays stand at fixed offsets. The first
message of a shape is parsed field by field, every size checked against the message's end; others of the same length
are taken by the same offsets only if all bytes that fix the layout (names, sizes, encapsulation) are equal to it.

CDR: 4 bytes of encapsulation, then fields aligned to their size counted from there, strings with a closing NUL.
ROS 1: no alignment, no NUL, a sequence number (u32) before the stamp; so the stamp is at offset 4 in both.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.recording.blocks import Block, Bytes, Ints
from ros2_dynid.recording.compression import DamagedDataError

STAMP = 4
MAX_JOINTS = 10_000


@dataclass(frozen=True)
class Layout:
    """Where the fields of a JointState are; `fixed` are the stretches of bytes that must agree: (offset, bytes)."""

    length: int
    byte_order: str
    signed_seconds: bool
    names: tuple[str, ...]
    arrays: tuple[tuple[int, int], ...]
    """(offset, count) of position, velocity and effort"""
    fixed: tuple[tuple[int, Bytes], ...]
    spans: tuple[tuple[int, Bytes], ...]
    """The same with the padding between them: fewer and longer, for a first and quick look."""


@dataclass(frozen=True)
class Rows:
    """K messages of one length as rows of a buffer: row k begins at offset + k * stride."""

    buffer: Bytes
    offset: int
    stride: int
    count: int
    length: int

    def column(self, offset: int, width: int, dtype: str) -> NDArray[np.generic]:
        """Return `width` numbers at an offset of every message, shape (K, width), without copying."""
        size = np.dtype(dtype).itemsize
        if offset + width * size > self.length:
            raise DamagedDataError("a field lies beyond the end of its message")
        return np.ndarray(
            (self.count, width), dtype, buffer=self.buffer, offset=self.offset + offset, strides=(self.stride, size)
        )


def rows_of(block: Block, rows: NDArray[np.intp]) -> Rows:
    """Return messages of one length as Rows: in place where they are evenly spaced, gathered where not."""
    return even_rows(block.data, block.start[rows], int(block.length[rows[0]]))


def even_rows(data: Bytes, start: Ints, length: int) -> Rows:
    """Return `length` bytes from each start on as Rows."""
    steps = np.diff(start)
    stride = int(steps[0]) if len(steps) else length
    if stride >= length and (steps == stride).all():
        return Rows(data, int(start[0]), stride, len(start), length)
    gathered = data[start[:, None] + np.arange(length)]
    return Rows(gathered, 0, length, len(start), length)


def agrees(layout: Layout, rows: Rows) -> NDArray[np.bool_]:
    """Return for each message whether it has this layout."""
    if all(_all_equal(rows, offset, expected) for offset, expected in layout.spans):
        return np.ones(rows.count, bool)
    same = np.ones(rows.count, bool)  # some differ, perhaps only in what happens to be in their padding
    for offset, expected in layout.fixed:
        same &= (rows.column(offset, len(expected), "u1") == expected).all(axis=1)
    return same


def _all_equal(rows: Rows, offset: int, expected: Bytes) -> bool:
    """Return whether all messages have the bytes expected at an offset; eight bytes are compared at a time."""
    words = len(expected) // 8
    whole, rest = expected[: 8 * words], expected[8 * words :]
    if words and not (rows.column(offset, words, "u8") == whole.view("u8")).all():
        return False
    return not len(rest) or bool((rows.column(offset + 8 * words, len(rest), "u1") == rest).all())


def stamps(layout: Layout, rows: Rows) -> Ints:
    """Return the header stamps [ns]."""
    seconds = rows.column(STAMP, 1, layout.byte_order + ("i4" if layout.signed_seconds else "u4"))[:, 0]
    nanoseconds = rows.column(STAMP + 4, 1, layout.byte_order + "u4")[:, 0]
    result: Ints = seconds.astype(np.int64) * 10**9 + nanoseconds.astype(np.int64)
    return result


def array(layout: Layout, rows: Rows, field: int) -> NDArray[np.generic] | None:
    """Return position (0), velocity (1) or effort (2), shape (K, n), or None unless there is one value a joint."""
    offset, count = layout.arrays[field]
    if count != len(layout.names) or count == 0:
        return None
    return rows.column(offset, count, layout.byte_order + "f8")


def parse(message: bytes, encoding: str) -> Layout:
    """Read one message field by field and return its layout [DamagedDataError if it is not a whole JointState]."""
    cdr = encoding == "cdr"
    if cdr and message[:2] not in (b"\0\0", b"\0\1"):
        raise DamagedDataError(f"unknown encapsulation {message[:2].hex()}")
    order = ">" if cdr and message[1] == 0 else "<"
    reader = _Reader(message, order, cdr)
    reader.position = STAMP + 8
    if len(message) < reader.position:
        raise DamagedDataError("the message is too short")
    fixed: list[tuple[int, int]] = [(0, 2)] if cdr else []
    frame = reader.size(1)
    fixed.append((reader.position - 4, reader.position))
    reader.skip(frame)
    count = reader.size(4)
    if count > MAX_JOINTS:
        raise DamagedDataError(f"the message claims {count} joints")
    fixed.append((reader.position - 4, reader.position))
    names: list[str] = []
    for _ in range(count):
        length = reader.size(1)
        begin = reader.position
        text = message[begin : begin + length]
        reader.skip(length)
        if cdr and length:
            if text[-1:] != b"\0":
                raise DamagedDataError("a string does not end")
            text = text[:-1]
        names.append(_decoded(text))
        fixed.append((begin - 4, reader.position))
    arrays: list[tuple[int, int]] = []
    for _ in range(3):
        count = reader.size(8)
        fixed.append((reader.position - 4, reader.position))
        if count:
            reader.align(8)
        arrays.append((reader.position, count))
        reader.skip(8 * count)
    data = np.frombuffer(message, np.uint8)
    return Layout(
        len(message),
        order,
        cdr,
        tuple(names),
        tuple(arrays),
        tuple((begin, data[begin:end].copy()) for begin, end in _joined(fixed, 0)),
        tuple((begin, data[begin:end].copy()) for begin, end in _joined(fixed, 3)),
    )


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise DamagedDataError("a joint's name is not text") from None


def _joined(stretches: list[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return the stretches, with those put together that are no more than `gap` bytes apart."""
    joined: list[tuple[int, int]] = []
    for begin, end in stretches:
        if joined and begin - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


class _Reader:
    """Steps through a message, aligned as CDR wants it, never beyond its end."""

    def __init__(self, message: bytes, order: str, aligned: bool) -> None:
        self.message, self.aligned, self.position = message, aligned, 0
        self._size = struct.Struct(order + "I")

    def align(self, size: int) -> None:
        if self.aligned:
            self.position += -(self.position - 4) % size

    def size(self, item: int) -> int:
        """Return a length (u32) whose items of at least `item` bytes fit into the rest of the message."""
        self.align(4)
        if self.position + 4 > len(self.message):
            raise DamagedDataError("the message is cut")
        (size,) = self._size.unpack_from(self.message, self.position)
        self.position += 4
        if size * item > len(self.message) - self.position:
            raise DamagedDataError("an array is longer than its message")
        return int(size)

    def skip(self, size: int) -> None:
        self.position += size
        if self.position > len(self.message):
            raise DamagedDataError("the message is cut")
