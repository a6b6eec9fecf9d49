"""A streamed reference, a JointTrajectory of one point, straight from the serialized message.

At 1 kHz the message comes with the same names and sizes every time, so its numbers stand at fixed offsets: the first
message is read field by field, the next ones by those offsets if all other bytes but the stamp are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.robot import Array

_STAMP = slice(4, 12)


@dataclass(frozen=True)
class _Shape:
    """length of the message, the bytes (start, end, text) that must agree, the arrays' offsets, and our order."""

    length: int
    fixed: tuple[tuple[int, int, bytes], ...]
    offsets: tuple[int, int, int]
    order: NDArray[np.intp]


class LivePoints:
    """Reads messages with exactly the joints named, in any order, with positions, velocities and accelerations."""

    def __init__(self, names: Sequence[str]) -> None:
        """Expect the joints named."""
        self._names = tuple(names)
        self._shape: _Shape | None = None

    def read(self, message: bytes) -> tuple[Array, Array, Array] | None:
        """Return q, dq, ddq, shape (n,), or None for whatever is not a single whole point that starts at once."""
        shape = self._shape
        if shape is None or len(message) != shape.length or any(message[a:b] != text for a, b, text in shape.fixed):
            shape = self._shape = _parsed(message, self._names)
        if shape is None or message[_STAMP] != bytes(8):
            return None
        n = len(self._names)
        q, dq, ddq = (np.frombuffer(message, "<f8", n, offset)[shape.order] for offset in shape.offsets)
        if not (np.isfinite(q).all() and np.isfinite(dq).all() and np.isfinite(ddq).all()):
            return None
        return q, dq, ddq


def _parsed(message: bytes, names: tuple[str, ...]) -> _Shape | None:
    """Read a message field by field; None if it is anything else than a single point of these joints."""
    if len(message) < 24 or message[:2] != b"\0\1":
        return None
    try:
        at = _skip_string(message, 12)
        at, found = _strings(message, at)
        if sorted(found) != sorted(names) or _u32(message, at) != 1:
            return None
        at, offsets, fixed_from, fixed = at + 4, [], 12, []
        for field in range(4):
            at = _aligned(at, 4)
            count = _u32(message, at)
            at += 4
            if count != (len(names) if field < 3 else 0):
                return None
            if count:
                at = _aligned(at, 8)
                offsets.append(at)
                fixed.append((fixed_from, at, message[fixed_from:at]))
                at = fixed_from = at + 8 * count
        if at + 8 > len(message):
            return None
        fixed.append((fixed_from, at + 8, message[fixed_from : at + 8]))
    except (struct.error, UnicodeDecodeError):
        return None
    order = np.array([found.index(name) for name in names], dtype=np.intp)
    return _Shape(len(message), tuple(fixed), (offsets[0], offsets[1], offsets[2]), order)


def _aligned(at: int, size: int) -> int:
    """Return the next offset aligned to `size`, counted from the end of the encapsulation's 4 bytes."""
    return at + (-(at - 4)) % size


def _u32(message: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", message, at)[0])


def _skip_string(message: bytes, at: int) -> int:
    at = _aligned(at, 4)
    return at + 4 + _u32(message, at)


def _strings(message: bytes, at: int) -> tuple[int, list[str]]:
    at = _aligned(at, 4)
    count = _u32(message, at)
    at += 4
    found = []
    for _ in range(min(count, len(message))):
        start = _aligned(at, 4) + 4
        at = _skip_string(message, at)
        if at > len(message):
            raise struct.error("a name lies beyond the message's end")
        found.append(message[start : at - 1].decode())
    return _aligned(at, 4), found
