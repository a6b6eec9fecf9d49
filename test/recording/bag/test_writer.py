# SPDX-License-Identifier: Apache-2.0

"""Write rosbag2 MCAP bags that survive a crash, a power cut or a full disk."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import writer
from ros2_dynid.recording.bag.cdr import CdrReader
from ros2_dynid.recording.bag.decode import JOINT_STATE
from ros2_dynid.recording.bag.writer import BagWriter, WriteError, joint_state, joint_states
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.session import Session
from small_bag import small_bag, stamps


def test_times_that_a_stamp_cannot_hold_are_refused():
    q = np.array([[1.0, 2.0], [3.0, 4.0]])
    stamps = np.array([2_000_000_001, -1], dtype=np.int64)
    rows = joint_states(("a", "b"), stamps, (q, None, q + 10), head=3)
    for k in range(2):
        reader = CdrReader(rows[k, 3:].tobytes())
        assert (reader.u32(), reader.u32()) == ((2, 1) if k == 0 else (2**32 - 1, 999_999_999))
        assert reader.string() == "" and reader.u32() == 2 and reader.string() == "a" and reader.string() == "b"
        for values in (q[k], [], q[k] + 10):
            begin, count = reader.doubles()
            assert list(np.frombuffer(rows[k, 3:].tobytes(), "<f8", count, begin)) == list(values)
    assert not rows[:, :3].any()
    for bad in (2**31 * 10**9, -(2**31) * 10**9 - 1):
        with pytest.raises(InputError, match="1901 to 2038"):
            joint_states(("a", "b"), np.array([0, bad], dtype=np.int64), (q, None, None))
    assert len(joint_states(("a", "b"), np.array([(2**31 - 1) * 10**9, -(2**31) * 10**9]), (q, None, None))) == 2


@pytest.fixture(autouse=True)
def chunks_end_where_they_are_told(monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.bag.writer.CHUNK_SECONDS", 1e9)


def test_a_summary_that_breaks_off_is_not_believed(tmp_path):
    """Its statistics and indexes are whole, but the last record claims more than there is; no checksum tells."""
    file, data, frames = small_bag(tmp_path / "bag")
    whole, bad = stamps(file)[0], bytearray(data)
    bad[frames[-1][2] - 4 : frames[-1][2]] = bytes(4)
    file.write_bytes(bad)
    assert len(stamps(file)[1].chunks) == 5, "without a checksum it is believed"
    _, last, _ = frames[-2]
    struct.pack_into("<Q", bad, last + 1, 1 << 40)
    file.write_bytes(bad)
    found, read = stamps(file)
    assert found == whole and not read.chunks and not read.warnings
    assert {c.topic: c.count for c in read.channels} == {"/joint_states": 12, "/other": 3}


def test_messages_outside_chunks(tmp_path):
    file = tmp_path / "loose.mcap"
    head = writer.beginning("t") + writer.schema(1, JOINT_STATE, "") + writer.channel(1, 1, "/j", {})
    body = [writer.message(1, k, 10 + k, 10 + k, bytes(k)) for k in range(5)]
    later = writer.channel(2, 1, "/k", {}) + writer.message(2, 0, 99, 99, b"x")
    file.write_bytes(head + b"".join(body) + later)
    found, read = stamps(file)
    assert found == [10, 11, 12, 13, 14, 99] and {c.topic: c.count for c in read.channels} == {"/j": 5, "/k": 1}
    assert stamps(file, "/k")[0] == [99]
    file.write_bytes(head + b"".join(body)[:-1])
    assert stamps(file)[0] == [10, 11, 12, 13]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_chunk_has_the_size_that_it_claims(tmp_path, more):
    file = tmp_path / "claims.mcap"
    head = writer.beginning("t") + writer.schema(1, JOINT_STATE, "") + writer.channel(1, 1, "/j", {})
    records = b"".join(writer.message(1, k, 10 + k, 10 + k, bytes(k)) for k in range(3))
    body = struct.pack("<QQQI", 0, 1, len(records) + more, 0) + writer.text("") + struct.pack("<Q", len(records))
    file.write_bytes(head + writer.record(mcap.CHUNK, body + records))
    found, read = stamps(file)
    assert found == ([10, 11, 12] if more == 0 else [])
    assert any("its size differs from the size that it claims" in text for text in read.warnings) == (more != 0)


@pytest.mark.parametrize(("first", "last", "words"), [
    (5 * 10**8, 2 * 10**9, "chunk of 1.5 s was left out"), (0, 10**13 - 10**10, "chunk of 9.99e+03 s was left out"),
    (7, 7 + 10**13, "chunk was left out"), (9, 9, "chunk was left out"), (9, 3, "chunk was left out"),
    (0, 2**64 - 1, "chunk was left out"),
])  # fmt: skip
def test_how_long_a_damaged_chunk_was_is_said_if_it_can_be(tmp_path, first, last, words):
    body = struct.pack("<QQQI", first, last, 9, 0) + writer.text("rar") + struct.pack("<Q", 3) + b"abc"
    file = tmp_path / "a.mcap"
    file.write_bytes(writer.beginning("t") + writer.record(mcap.CHUNK, body))
    assert f"a damaged {words} (unknown compression 'rar')" in stamps(file)[1].warnings


def test_a_chunk_that_breaks_off_inside_gives_what_came_before(tmp_path):
    file = tmp_path / "inside.mcap"
    head = writer.beginning("t") + writer.schema(1, JOINT_STATE, "") + writer.channel(1, 1, "/j", {})
    good = b"".join(writer.message(1, k, 10 + k, 10 + k, bytes(k)) for k in range(3))
    for tail, told in ((struct.pack("<BQ", mcap.MESSAGE, 1 << 40), True), (b"", False)):
        records = good + tail
        body = struct.pack("<QQQI", 0, 1, len(records), 0) + writer.text("") + struct.pack("<Q", len(records))
        file.write_bytes(head + writer.record(mcap.CHUNK, body + records))
        found, read = stamps(file)
        assert found == [10, 11, 12]
        text = f"a damaged chunk was left out after {len(good)} of {len(records)} bytes"
        assert (text in read.warnings) == told


def test_a_topic_that_never_names_the_same_joints_twice_is_refused(tmp_path):
    robot = Robot("r", (Joint("a", 0),))
    for count, words in ((199, "joint 'a' of the robot is not in the recording"), (201, "changes its joints")):
        path = tmp_path / str(count)
        with BagWriter(path) as writer:
            channel = writer.add_topic("/joint_states")
            for k in range(count):
                writer.write(channel, joint_state((f"x{k:03}",), k, [[1.0], None, None]), k)
        with pytest.raises(InputError, match=words):
            load_samples(path, robot)


def test_a_joint_state_is_stamped_to_the_nanosecond():
    data = joint_state(("a",), 12_345_678_901, [[1.0], None, [2.0]])
    assert struct.unpack_from("<iI", data, 4) == (12, 345_678_901)


def states_at(stamps, names=("a",), tau=None):
    return [joint_state(names, int(s), [np.ones(len(names)), None, tau]) for s in stamps]


@pytest.mark.parametrize("when", ["write", "poll"])
def test_a_disk_that_fails_ends_the_bag_and_is_told_once(tmp_path, monkeypatch, when):
    session = Session("/joint_states", 3)
    session.begin(tmp_path / "bag", 0)
    error = WriteError(tmp_path / "bag", "the disk is full", 7)

    def fail(*_):
        raise error

    writer = session.writer
    monkeypatch.setattr(writer, when, fail)
    if when == "write":
        session.take(states_at([1])[0], 1)
    else:
        assert session.poll() is error
    assert session.failure is error and session.path is None and session.buffered == (when == "write")
    if when == "write":
        assert session.poll() is error
    assert session.poll() is None
    with pytest.raises(WriteError, match="the disk is full"):
        session.end()
    writer.close()
    session.begin(tmp_path / "again", 0)
    assert session.failure is None
    session.end()
