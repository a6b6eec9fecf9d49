# SPDX-License-Identifier: Apache-2.0

"""CDR, the serialization of ROS 2, field by field: one cursor that reads and one that writes.

A message begins with 4 bytes of encapsulation; then each field is aligned to its size, counted from there. A string
carries its length (u32) and a closing NUL, a sequence its number of items (u32), and an empty one no padding.
ROS 1 messages are the same without encapsulation, alignment and NUL.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.recording.bag.storage import DamagedDataError

ENCAPSULATION = 4
_BIG, _LITTLE = b"\0\0", b"\0\1"


class CdrReader:
    """Reads a message field by field; raises DamagedDataError at its end."""

    def __init__(self, message: bytes, encoding: str = "cdr") -> None:
        """Begin after the encapsulation of a "cdr" message, or at the first byte of a "ros1" message."""
        self.message, self.cdr = message, encoding == "cdr"
        if self.cdr and message[:2] not in (_BIG, _LITTLE):
            raise DamagedDataError(f"unknown encapsulation {message[:2].hex()}")
        self.byte_order = ">" if self.cdr and message[:2] == _BIG else "<"
        self.position = ENCAPSULATION if self.cdr else 0
        self._u32 = struct.Struct(self.byte_order + "I")

    def align(self, size: int) -> None:
        """Step over the padding before a field of `size` bytes."""
        if self.cdr:
            self.position += -(self.position - ENCAPSULATION) % size

    def skip(self, size: int) -> None:
        """Step over bytes."""
        self.position += size
        if self.position > len(self.message):
            raise DamagedDataError("the message is cut")

    def u32(self) -> int:
        """Return the next unsigned integer of 4 bytes."""
        self.align(4)
        if self.position + 4 > len(self.message):
            raise DamagedDataError("the message is cut")
        (value,) = self._u32.unpack_from(self.message, self.position)
        self.position += 4
        return int(value)

    def count(self, item: int) -> int:
        """Return a number of items of at least `item` bytes each, which fit into the rest of the message."""
        count = self.u32()
        if count * item > len(self.message) - self.position:
            raise DamagedDataError("an array is longer than its message")
        return count

    def string(self) -> str:
        """Return the next string."""
        length = self.count(1)
        begin = self.position
        self.skip(length)
        text = self.message[begin : self.position]
        if self.cdr and length:
            if text[-1:] != b"\0":
                raise DamagedDataError("a string does not end")
            text = text[:-1]
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise DamagedDataError("a name is not text") from None

    def doubles(self) -> tuple[int, int]:
        """Step over the next sequence of doubles and return where it begins and how many it has."""
        count = self.count(8)
        if count:
            self.align(8)
        begin = self.position
        self.skip(8 * count)
        return begin, count


class CdrWriter:
    """Builds a little-endian message field by field."""

    def __init__(self) -> None:
        """Begin with the encapsulation."""
        self._out = bytearray(_LITTLE + b"\0\0")

    def u32(self, value: int) -> None:
        """Add an unsigned integer of 4 bytes."""
        self._align(4)
        self._out += struct.pack("<I", value)

    def stamp(self, stamp_ns: int) -> None:
        """Add a time [ns] as seconds and nanoseconds."""
        self._align(4)
        self._out += struct.pack("<iI", stamp_ns // 10**9, stamp_ns % 10**9)

    def string(self, value: str) -> None:
        """Add a string."""
        data = value.encode() + b"\0"
        self.u32(len(data))
        self._out += data

    def doubles(self, values: NDArray[np.float64]) -> None:
        """Add a sequence of doubles."""
        self.u32(len(values))
        if len(values):
            self._align(8)
            self._out += np.asarray(values, "<f8").tobytes()

    def message(self) -> bytes:
        """Return the whole message."""
        return bytes(self._out)

    def _align(self, size: int) -> None:
        self._out += bytes(-(len(self._out) - ENCAPSULATION) % size)
