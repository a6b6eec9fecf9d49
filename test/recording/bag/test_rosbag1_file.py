# SPDX-License-Identifier: Apache-2.0

"""Reading one ROS 1 bag (format 2.0) front to back; an index is not needed, so a cut bag gives what it has."""

from __future__ import annotations

import bz2
import struct

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import rosbag1_file
from ros2_dynid.recording.bag.rosbag1_file import MAGIC, Rosbag1File


def record1(data, **fields):
    """Return a record of a ROS 1 bag."""
    head = b"".join(struct.pack("<I", len(k) + 1 + len(v)) + k.encode() + b"=" + v for k, v in fields.items())
    return struct.pack("<I", len(head)) + head + struct.pack("<I", len(data)) + data


def connection1(key, topic=b"/j", kind=b"sensor_msgs/JointState"):
    inner = b"".join(struct.pack("<I", len(x)) + x for x in (b"type=" + kind, b"message_definition=text"))
    return record1(inner, op=b"\x07", conn=struct.pack("<I", key), topic=topic)


def message1(key, seconds, nanoseconds, data):
    return record1(data, op=b"\x02", conn=struct.pack("<I", key), time=struct.pack("<II", seconds, nanoseconds))


def read1(path, *records, wanted=(3,)):
    path.write_bytes(MAGIC + b"".join(records))
    file = Rosbag1File(path)
    blocks = list(file.blocks(wanted))
    rows = [(int(b.channel[k]), int(b.stamp[k]), bytes(b.payload(k))) for b in blocks for k in range(len(b))]
    return file, rows, [len(b) for b in blocks]


def test_records_of_a_ros1_bag(tmp_path, monkeypatch):
    inside = connection1(3) + connection1(4, b"/other") + message1(3, 7, 5, b"one") + message1(4, 7, 6, b"not wanted")
    chunk = record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", len(inside)))
    loose = [message1(3, 8, 900_000_000, b"two"), message1(3, 2_000_000_000, 1, b"three")]
    index = record1(b"index", op=b"\x04")
    file, rows, sizes = read1(tmp_path / "a.bag", index, chunk, index, *loose, index)
    assert rows == [(3, 7_000_000_005, b"one"), (3, 8_900_000_000, b"two"), (3, 2_000_000_000 * 10**9 + 1, b"three")]
    assert sizes == [1, 2] and not file.warnings
    assert [(c.id, c.topic, c.type, c.encoding, c.definition) for c in file.channels] == [
        (3, "/j", "sensor_msgs/msg/JointState", "ros1", "text"),
        (4, "/other", "sensor_msgs/msg/JointState", "ros1", "text"),
    ]
    monkeypatch.setattr(rosbag1_file, "BLOCK_BYTES", 6)
    many = [message1(3, k, 0, b"1234") for k in range(5)]
    assert read1(tmp_path / "b.bag", connection1(4), *many)[2] == [1, 2, 2]  # with the bytes of the connection
    assert read1(tmp_path / "c.bag", connection1(4), *many, wanted=(4,))[2] == []


def test_chunks_of_a_ros1_bag_that_are_left_out(tmp_path):
    inside = connection1(3) + message1(3, 7, 5, b"one")
    size = struct.pack("<I", len(inside))
    good = record1(inside, op=b"\x05", compression=b"none", size=size)
    for bad, words in (
        (record1(inside, op=b"\x05", compression=b"rar", size=size), "compression 'rar', was left out"),
        (record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", (128 << 20) + 1)), "134217729 bytes"),
        (record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", 100 << 20)), "more than 1000 times"),
        (record1(inside[:-1], op=b"\x05", compression=b"none", size=size), "longer than its chunk"),
        (record1(b"\x04\0\0\0" + b"\x01\0\0\0", op=b"\x05", compression=b"none", size=size), "damaged chunk"),
    ):  # fmt: skip
        file, rows, _ = read1(tmp_path / "a.bag", bad, good)
        assert rows == [(3, 7_000_000_005, b"one")] and words in file.warnings[0] and len(file.warnings) == 1
    for tail, words in (
        (struct.pack("<I", (1 << 20) + 1) + bytes(30), "header is too long"),
        (struct.pack("<I", 40) + bytes(30), "a record is cut"),
        (good[:-3], "a record is cut"),
        (record1(b"", op=b"\x04")[:-2], "a record is cut"),
        (struct.pack("<II", 5, 1) + b"x" + bytes(8), "has no name"),
    ):
        file, rows, _ = read1(tmp_path / "b.bag", good, tail)
        assert rows == [(3, 7_000_000_005, b"one")] and words in file.warnings[0]
        assert f"its last {len(tail)} bytes" in file.warnings[0]
    (tmp_path / "c.bag").write_bytes(b"#ROSBAG V1.2\n")
    with pytest.raises(InputError, match="not a ROS 1 bag"):
        Rosbag1File(tmp_path / "c.bag")


def test_the_id_of_a_connection_has_four_bytes(tmp_path):
    """Of a damaged one with more the rest does not count: an id must be a number that arrays can hold."""
    inner = struct.pack("<I", 11) + b"type=x/Type"
    conn = struct.pack("<I", 3) + b"\xff" * 8
    records = (
        record1(inner, op=b"\x07", conn=conn, topic=b"/j"),
        record1(b"one", op=b"\x02", conn=conn, time=struct.pack("<II", 7, 5) + b"\xff" * 4),
    )
    file, rows, _ = read1(tmp_path / "a.bag", *records)
    assert [c.id for c in file.channels] == [3] and rows == [(3, 7_000_000_005, b"one")]


def test_the_first_connection_of_an_id_counts(tmp_path):
    records = (connection1(3), connection1(3, b"/k", b"other/Type"), message1(3, 7, 5, b"one"))
    file, rows, _ = read1(tmp_path / "a.bag", *records)
    assert [(c.topic, c.type) for c in file.channels] == [("/j", "sensor_msgs/msg/JointState")] and len(rows) == 1


@pytest.mark.parametrize("kind", ["none", "bz2"])
def test_what_comes_before_the_damage_of_a_ros1_chunk_is_kept(tmp_path, kind):
    inside = connection1(3) + message1(3, 7, 5, b"one") + message1(3, 7, 6, b"two")
    for tail, after in ((b"\xff" * 9, len(inside)), (message1(3, 8, 0, b"three")[:-1], len(inside))):
        raw = inside + tail
        stored = bz2.compress(raw) if kind == "bz2" else raw
        chunk = record1(stored, op=b"\x05", compression=kind.encode(), size=struct.pack("<I", len(raw)))
        later = message1(3, 9, 0, b"four")
        file, rows, sizes = read1(tmp_path / "a.bag", chunk, later)
        assert [row[2] for row in rows] == [b"one", b"two", b"four"] and sizes == [2, 1]
        (text,) = file.warnings
        assert f"a damaged chunk was left out after {after} of {len(raw)} bytes (a record is longer" in text


def test_a_ros1_bag_may_be_read_again_and_again(tmp_path):
    """Each reading may unpack 4 MiB and a thousand times the file's size."""
    inside = connection1(3) + message1(3, 7, 5, b"one")
    chunk = record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", 2 << 20))
    (tmp_path / "a.bag").write_bytes(MAGIC + chunk)
    file = Rosbag1File(tmp_path / "a.bag")
    for _ in range(4):
        assert sum(len(block) for block in file.blocks((3,))) == 1 and not file.warnings
