# SPDX-License-Identifier: Apache-2.0

"""Parts of the bag readers one by one: cursors, records, blocks, and what is interpolated between publishers."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag.cdr import CdrReader, CdrWriter
from ros2_dynid.recording.bag.merge import find_uncovered
from ros2_dynid.recording.bag.read_bag import TYPES, choose_topics
from ros2_dynid.recording.bag.storage import Channel, DamagedDataError, block_of, distinct, type_name
from ros2_dynid.recording.bag.writer import joint_state, joint_states

# --- CDR


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


# --- MCAP records


def record(opcode, content):
    return mcap.FRAME.pack(opcode, len(content)) + content


def message(channel, stamp, data, sequence=0):
    return record(mcap.MESSAGE, struct.pack("<HIQQ", channel, sequence, stamp, 0) + data)


@pytest.mark.parametrize("seed", range(5))
def test_records_are_found_as_by_stepping_through_them(seed):
    """Runs of messages of one size, shorter and longer than those taken at once, others between them."""
    rng = np.random.default_rng(seed)
    data, wanted, others = b"", [], []
    for _ in range(12):
        size, stamp = int(rng.integers(0, 40)), int(rng.integers(1, 2**62))
        for k in range(int(rng.choice([1, 3, 15, 16, 17, 90, 700]))):
            body = rng.bytes(size)
            wanted.append((int(k % 3), stamp + k, body))
            data += message(k % 3, stamp + k, body)
        if rng.random() < 0.7:
            content = rng.bytes(int(rng.integers(0, 30)))
            others.append((mcap.SCHEMA, len(data) + mcap.FRAME.size, len(content)))
            data += record(mcap.SCHEMA, content)
    found = mcap.scan(data)
    assert found.others == others and found.end == len(data)
    block = mcap.messages_of(data, found)
    assert (
        list(
            zip(
                block.channel.tolist(), block.stamp.tolist(), (block.payload(k) for k in range(len(block))), strict=True
            )
        )
        == wanted
    )
    half = len(data) // 2
    cut = mcap.scan(data[:half])
    assert cut.end <= half and len(cut.position) + len(cut.others) < len(found.position) + len(found.others)
    rest = mcap.scan(data, cut.end)
    assert len(cut.position) + len(rest.position) == len(wanted) and rest.end == len(data)


def test_a_scan_ends_after_very_many_records():
    """Memory stays bounded; who goes on where it ended finds them all."""
    for data in ((message(1, 5, b"ab") + message(1, 5, b"abc")) * 26_000, record(mcap.SCHEMA, b"") * 52_000):
        first = mcap.scan(data)
        assert len(first.position) + len(first.others) == 50_000 and first.end < len(data)
        rest = mcap.scan(data, first.end)
        assert len(rest.position) + len(rest.others) == 2_000 and rest.end == len(data)
    assert len(mcap.scan(message(1, 5, b"ab") * 52_000).position) == 52_000, "those of one size take a step"


def test_a_scan_ends_where_it_is_told():
    data = message(1, 5, b"ab") + record(mcap.DATA_END, b"xy") + message(1, 6, b"cd")
    assert mcap.scan(data, stop_at=(mcap.DATA_END,)).end == len(message(1, 5, b"ab"))
    assert len(mcap.scan(data).position) == 2
    assert mcap.scan(data[:10] + b"\0").position.size == 0 and mcap.scan(b"\0" * 40).end == 0
    short = record(mcap.MESSAGE, b"too short") + message(2, 2**64 - 1, b"z")
    block = mcap.messages_of(short, mcap.scan(short))
    assert block.channel.tolist() == [2] and block.stamp.tolist() == [2**63 - 1] and block.payload(0) == b"z"
    assert len(mcap.messages_of(b"", mcap.scan(b""))) == 0


def test_fields_of_a_record():
    text = struct.pack("<I", 2) + b"ab"
    content = struct.pack("<HQ", 7, 8) + text + struct.pack("<I", 12) + text + text + b"rest"
    fields = mcap.Fields(b"xx" + content + b"yy", 2, len(content))
    assert (fields.integer(2), fields.integer(8), fields.text()) == (7, 8, "ab")
    assert fields.mapping() == {"ab": "ab"} and fields.take(4) == b"rest"
    for wrong in (1, -1):
        with pytest.raises(DamagedDataError, match="does not fit"):
            fields.take(wrong)
    assert mcap.Fields(b"abc").take(3) == b"abc"


# --- blocks


def test_single_messages_in_a_block():
    block = block_of([b"ab", b"", b"cde"], [3, 1, 3], [10, 20, 30])
    assert [block.payload(k) for k in range(3)] == [b"ab", b"", b"cde"] and len(block) == 3
    few = block.take(np.array([2, 0]))
    assert [few.payload(k) for k in range(2)] == [b"cde", b"ab"] and few.stamp.tolist() == [30, 10]
    assert (
        distinct(block.channel) == [1, 3] and distinct(np.array([4, 4, 4])) == [4] and distinct(np.zeros(0, int)) == []
    )
    assert (
        type_name("sensor_msgs/JointState") == "sensor_msgs/msg/JointState" == type_name("sensor_msgs/msg/JointState")
    )
    assert type_name("plain") == "plain"


# --- between publishers


def test_nothing_is_interpolated_beyond_the_ends_nor_across_a_gap():
    """A gap is longer than ten periods, and than 50 ms."""
    ms = 1_000_000
    for period, pause, gap in ((1, 45, False), (1, 55, True), (10, 95, False), (10, 105, True)):
        first = np.arange(20) * period * ms
        stamp = np.concatenate((first, first[-1] + pause * ms + first))
        at = np.array(
            [
                -1,
                0,
                first[-1],
                first[-1] + 1,
                first[-1] + pause * ms - 1,
                first[-1] + pause * ms,
                stamp[-1],
                stamp[-1] + 1,
            ]
        )
        wanted = [True, False, False, gap, gap, False, False, True]
        assert find_uncovered(at, stamp, period * ms).tolist() == wanted
    assert find_uncovered(np.array([4, 5, 6]), np.array([5]), 0.0).tolist() == [True, False, True]
    gaps = np.array([0, 500, 1000]) * ms
    at = np.array([0, 1, 500, 999, 1000]) * ms
    assert find_uncovered(at, gaps, 5.0 * ms).tolist() == [False, True, False, True, False], "what is known is no gap"


# --- which topics


class Listed:
    """A bag of single joint states on two topics, a block each, that counts what is read of it."""

    path, read = "bag", 0

    def __init__(self, names, blocks):
        kind = "sensor_msgs/msg/JointState"
        self.channels = [Channel(k, topic, kind, "cdr", count=9) for k, topic in enumerate(names)]
        self._names, self._blocks = list(names.values()), blocks

    def file_warnings(self):
        return []

    def blocks(self, topics):
        for k in range(self._blocks):
            self.read += 1
            channel = k % len(self.channels)
            names = self._names[channel]
            payload = joint_state(names, k, [np.zeros(len(names)), None, None])
            yield block_of([payload], [channel], [k]), [self.channels[channel]]


def test_topics_are_known_by_the_joints_of_their_first_messages():
    bag = Listed({"/left": ("a", "b"), "/right": ("c", "d")}, 1000)
    assert choose_topics(bag, ("c", "d"), None) == ("/right",)
    assert bag.read == 100, "fifty messages of each are enough"
    assert choose_topics(Listed({"/left": ("a", "b"), "/right": ("c",)}, 40), ("a", "c"), None) == ("/left", "/right")
    three = {"/left": ("a", "b"), "/gripper": ("g",), "/right": ("c",)}
    assert choose_topics(Listed(three, 40), ("a", "c"), None) == ("/left", "/right"), (
        "what has none of them is not read"
    )
    assert choose_topics(Listed(three, 40), ("x", "y"), None) == tuple(three), "who reads them says what is missing"
    one_sided = Listed({"/left": ("a", "b"), "/right": ("c", "d")}, 1000)
    one_sided.blocks = lambda topics, inner=one_sided.blocks: (x for x in inner(topics) if x[1][0].topic == "/left")
    assert choose_topics(one_sided, ("a", "b"), None) == ("/left",) and one_sided.read < 500, (
        "it does not read all of it"
    )
    both = {"/joint_states": ("a",), "/copy/joint_states": ("a",), "/other": ("a",)}
    with pytest.raises(InputError, match="3 topics carry joint states"):
        choose_topics(Listed(both, 30), ("a",), None)
    assert choose_topics(Listed({"/joint_states": ("a",), "/other": ("a",)}, 30), ("a",), None) == ("/joint_states",)
    assert choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), None, " y , /x") == ("/y", "/x")
    more = {"/part": ("a",), "/whole": ("c", "b", "a"), "/foreign": ("d",)}
    assert choose_topics(Listed(more, 30), ("a", "b"), None) == ("/whole",), "it may have further joints"
    with pytest.raises(InputError, match="no topic 'z'; choose from its topics: /x, /y"):
        choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), None, "z")


def test_topics_of_nobody_in_particular():
    """Without a robot a single topic of the usual name is taken, and else one must be named."""
    assert choose_topics(Listed({"/joint_states": ("a",), "/other": ("b",)}, 30), None, None) == ("/joint_states",)
    with pytest.raises(InputError, match="2 topics carry joint states"):
        choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), None, None)
    with pytest.raises(InputError, match="2 topics carry joint states"):
        choose_topics(Listed({"/x/joint_states": ("a",), "/y/joint_states": ("b",)}, 30), None, None)
    assert choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), ("z",), None) == ("/x", "/y"), "nobody has it"
    assert choose_topics(Listed({"/x": ("a", "b"), "/y": ("b", "c")}, 30), ("b", "z"), None) == ("/x", "/y")


def test_messages_of_a_block_are_counted_one_by_one():
    bag = Listed({"/left": ("a",), "/right": ("b",)}, 1000)

    def tens(topics, inner=bag.blocks):
        for block, channels in inner(topics):
            yield block.take(np.zeros(10, int)), channels

    bag.blocks = tens
    assert choose_topics(bag, ("b",), None) == ("/right",) and bag.read == 10, "five blocks of ten for each"


@pytest.mark.parametrize(
    ("topics", "chosen"),
    [
        ({"/dynamic": TYPES[1], "/joints": TYPES[0]}, ("/joints",)),
        ({"/controller": TYPES[2], "/dynamic": TYPES[1]}, ("/dynamic",)),
        ({"/tf": "tf2_msgs/msg/TFMessage", "/controller": TYPES[2]}, ("/controller",)),
    ],
)
def test_joint_states_come_before_other_types(monkeypatch, topics, chosen):
    monkeypatch.setattr("ros2_dynid.recording.bag.read_bag.can_decode", lambda channel: channel.type in TYPES)
    bag = Listed({}, 0)
    bag.channels = [Channel(k, topic, kind, "cdr", count=9) for k, (topic, kind) in enumerate(topics.items())]
    assert choose_topics(bag, ("a",), None) == chosen
    silent = Channel(9, "/joint_states", TYPES[0], "cdr", count=0)
    bag.channels = [silent, *bag.channels]
    assert choose_topics(bag, ("a",), None) == chosen, "a topic without messages is passed over"
