# SPDX-License-Identifier: Apache-2.0

"""A streamed reference, a JointTrajectory of one point, straight from the serialized message.

At 1 kHz the message comes with the same names and sizes every time, so its numbers stand at fixed offsets: the first
message is read field by field, the next ones by those offsets if all other bytes but the stamp are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag.cdr import CdrReader
from ros2_dynid.recording.bag.storage import DamagedDataError

AFTER_STAMP = 12
"""Where the header's stamp ends in the serialized message [bytes]."""


@dataclass(frozen=True)
class _PointPlaces:
    """length of the message, the bytes (start, end, text) that must agree, where the numbers stand, and our order.

    The arrays of positions, velocities and accelerations begin at offset, offset + stride and offset + 2 stride.
    """

    length: int
    fixed: tuple[tuple[int, int, bytes], ...]
    offset: int
    stride: int
    order: NDArray[np.intp]


class LivePoints:
    """Reads messages with exactly the joints named, in any order, with positions, velocities and accelerations."""

    def __init__(self, names: Sequence[str]) -> None:
        """Expect the joints named."""
        self._names = tuple(names)
        self._shape: _PointPlaces | None = None

    def read(self, message: bytes) -> tuple[Array, Array, Array] | None:
        """Return q, dq, ddq, shape (n,), or None unless the message is a single complete point."""
        shape = self._shape
        if shape is None or len(message) != shape.length or any(message[a:b] != text for a, b, text in shape.fixed):
            shape = self._shape = _parse_layout(message, self._names)
        if shape is None:
            return None
        rows = np.ndarray((3, len(shape.order)), "<f8", message, shape.offset, (shape.stride, 8))[:, shape.order]
        if not np.isfinite(rows).all():
            return None
        return rows[0], rows[1], rows[2]


def _parse_layout(message: bytes, names: tuple[str, ...]) -> _PointPlaces | None:
    """Read a message field by field; None if it is anything else than a single point of these joints."""
    try:
        reader = CdrReader(message)
        if reader.byte_order != "<":
            return None
        fixed_from = AFTER_STAMP
        reader.skip(fixed_from - reader.position)
        reader.skip(reader.count(1))  # frame_id
        joint_names = [reader.string() for _ in range(reader.count(4))]
        if sorted(joint_names) != sorted(names) or reader.u32() != 1:
            return None
        offsets, fixed = [], []
        for expected in (len(names), len(names), len(names), 0):  # positions, velocities, accelerations, effort
            offset, count = reader.doubles()
            if count != expected:
                return None
            if count:
                offsets.append(offset)
                fixed.append((fixed_from, offset, message[fixed_from:offset]))
                fixed_from = reader.position
        reader.skip(8)  # time_from_start
        fixed.append((fixed_from, reader.position, message[fixed_from : reader.position]))
    except DamagedDataError:
        return None
    if not offsets:
        return None
    order = np.array([joint_names.index(name) for name in names], dtype=np.intp)
    return _PointPlaces(len(message), tuple(fixed), offsets[0], offsets[1] - offsets[0], order)
