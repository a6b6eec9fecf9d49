# SPDX-License-Identifier: Apache-2.0

"""CDR, the serialization of ROS 2, field by field: one cursor that reads and one that writes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag.cdr import CdrReader, CdrWriter
from ros2_dynid.recording.bag.storage import DamagedDataError


def written():
    writer = CdrWriter()
    writer.stamp(-1_500_000_000)
    writer.string("frame")
    writer.u32(7)
    writer.string("")
    writer.doubles(np.array([1.5, -2.5]))
    writer.doubles(np.zeros(0))
    writer.string("äb")
    writer.doubles(np.array([3.0]))
    return writer.message()


def test_what_is_written_is_read_field_by_field():
    message = written()
    reader = CdrReader(message)
    assert reader.byte_order == "<"
    assert struct.unpack_from("<iI", message, 4) == (-2, 500_000_000)
    assert (reader.u32(), reader.u32()) == (2**32 - 2, 500_000_000)
    assert reader.string() == "frame" and reader.u32() == 7 and reader.string() == ""
    begin, count = reader.doubles()
    assert count == 2 and (begin - 4) % 8 == 0 and struct.unpack_from("<2d", message, begin) == (1.5, -2.5)
    assert reader.doubles()[1] == 0 and reader.string() == "äb"
    begin, count = reader.doubles()
    assert count == 1 and struct.unpack_from("<d", message, begin) == (3.0,) and reader.position == len(message)
    for more in (lambda: reader.u32(), lambda: reader.skip(1), lambda: reader.string(), lambda: reader.doubles()):
        with pytest.raises(DamagedDataError):
            more()


def test_an_empty_sequence_has_no_padding():
    writer = CdrWriter()
    writer.doubles(np.zeros(0))
    writer.u32(5)
    assert len(writer.message()) == 4 + 4 + 4


def test_big_endian_ros1_and_what_is_damaged():
    big = CdrReader(b"\0\0\0\0" + struct.pack(">II", 6, 1))
    assert big.byte_order == ">" and big.u32() == 6
    with pytest.raises(DamagedDataError, match="encapsulation"):
        CdrReader(b"\0\2\0\0")
    old = CdrReader(struct.pack("<I3sI", 3, b"abc", 9), "ros1")
    assert old.string() == "abc" and old.u32() == 9, "no NUL, no padding, no encapsulation"
    for data, words in (
        (struct.pack("<I", 3) + b"abc", "does not end"), (struct.pack("<I", 9) + b"abc\0", "longer than its message"),
        (struct.pack("<I", 2) + b"\xff\0", "not text"),
    ):  # fmt: skip
        with pytest.raises(DamagedDataError, match=words):
            CdrReader(b"\0\1\0\0" + data).string()
    with pytest.raises(DamagedDataError, match="longer"):
        CdrReader(b"\0\1\0\0" + struct.pack("<I", 2) + bytes(12)).doubles()
    exact = CdrReader(b"\0\1\0\0" + struct.pack("<Id", 1, 2.0))
    assert exact.count(8) == 1


def record(opcode, content):
    return mcap.FRAME.pack(opcode, len(content)) + content


def message(channel, stamp, data, sequence=0):
    return record(mcap.MESSAGE, struct.pack("<HIQQ", channel, sequence, stamp, 0) + data)
