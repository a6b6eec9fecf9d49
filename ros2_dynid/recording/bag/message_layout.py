# SPDX-License-Identifier: Apache-2.0

"""JointState messages decoded by layout: many messages of one layout become arrays in one NumPy operation.

Where a message's names and array sizes are known, the stamp and the three arrays stand at fixed offsets. The first
message of a shape is parsed field by field, every size checked against the message's end; others of the same length
are taken by the same offsets only if all bytes that fix the layout (names, sizes, encapsulation) are equal to it.

ROS 1 messages have no encapsulation but a sequence number (u32) before the stamp, so the stamp is at offset 4 in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.recording.bag.cdr import CdrReader
from ros2_dynid.recording.bag.compression import DamagedDataError
from ros2_dynid.recording.bag.storage import Bytes, Ints, MessageBlock

STAMP = 4
MAX_JOINTS = 10_000


@dataclass(frozen=True)
class MessageLayout:
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
class MessageRows:
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


def rows_of(block: MessageBlock, rows: NDArray[np.intp]) -> MessageRows:
    """Return messages of one length as MessageRows: in place where they are evenly spaced, gathered where not."""
    return even_rows(block.data, block.start[rows], int(block.length[rows[0]]))


def even_rows(data: Bytes, start: Ints, length: int) -> MessageRows:
    """Return `length` bytes from each start on as MessageRows."""
    steps = np.diff(start)
    stride = int(steps[0]) if len(steps) else length
    if stride >= length and (steps == stride).all():
        return MessageRows(data, int(start[0]), stride, len(start), length)
    gathered = data[start[:, None] + np.arange(length)]
    return MessageRows(gathered, 0, length, len(start), length)


def agrees(layout: MessageLayout, rows: MessageRows) -> NDArray[np.bool_]:
    """Return for each message whether it has this layout."""
    if all(_all_equal(rows, offset, expected) for offset, expected in layout.spans):
        return np.ones(rows.count, bool)
    same = np.ones(rows.count, bool)  # some differ, perhaps only in what happens to be in their padding
    for offset, expected in layout.fixed:
        same &= (rows.column(offset, len(expected), "u1") == expected).all(axis=1)
    return same


def _all_equal(rows: MessageRows, offset: int, expected: Bytes) -> bool:
    """Return whether all messages have the bytes expected at an offset; eight bytes are compared at a time."""
    words = len(expected) // 8
    whole, rest = expected[: 8 * words], expected[8 * words :]
    if words and not (rows.column(offset, words, "u8") == whole.view("u8")).all():
        return False
    return not len(rest) or bool((rows.column(offset + 8 * words, len(rest), "u1") == rest).all())


def stamps(layout: MessageLayout, rows: MessageRows) -> Ints:
    """Return the header stamps [ns]."""
    seconds = rows.column(STAMP, 1, layout.byte_order + ("i4" if layout.signed_seconds else "u4"))[:, 0]
    nanoseconds = rows.column(STAMP + 4, 1, layout.byte_order + "u4")[:, 0]
    result: Ints = seconds.astype(np.int64) * 10**9 + nanoseconds.astype(np.int64)
    return result


def array(layout: MessageLayout, rows: MessageRows, field: int) -> NDArray[np.generic] | None:
    """Return position (0), velocity (1) or effort (2), shape (K, n), or None unless there is one value per joint."""
    offset, count = layout.arrays[field]
    if count != len(layout.names) or count == 0:
        return None
    return rows.column(offset, count, layout.byte_order + "f8")


def parse(message: bytes, encoding: str) -> MessageLayout:
    """Read one message field by field and return its layout [DamagedDataError if it is not a whole JointState]."""
    reader = CdrReader(message, encoding)
    reader.position = STAMP + 8
    if len(message) < reader.position:
        raise DamagedDataError("the message is too short")
    fixed: list[tuple[int, int]] = [(0, 2)] if reader.cdr else []
    frame = reader.count(1)
    fixed.append((reader.position - 4, reader.position))
    reader.skip(frame)
    count = reader.count(4)
    if count > MAX_JOINTS:
        raise DamagedDataError(f"the message claims {count} joints")
    fixed.append((reader.position - 4, reader.position))
    names: list[str] = []
    for _ in range(count):
        reader.align(4)
        begin = reader.position
        names.append(reader.string())
        fixed.append((begin, reader.position))
    arrays: list[tuple[int, int]] = []
    for _ in range(3):
        reader.align(4)
        fixed.append((reader.position, reader.position + 4))
        arrays.append(reader.doubles())
    data = np.frombuffer(message, np.uint8)
    return MessageLayout(
        len(message),
        reader.byte_order,
        reader.cdr,
        tuple(names),
        tuple(arrays),
        tuple((begin, data[begin:end].copy()) for begin, end in _merge_stretches(fixed, 0)),
        tuple((begin, data[begin:end].copy()) for begin, end in _merge_stretches(fixed, 3)),
    )


def _merge_stretches(stretches: list[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return the stretches, with those put together that are no more than `gap` bytes apart."""
    merged: list[tuple[int, int]] = []
    for begin, end in stretches:
        if merged and begin - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged
