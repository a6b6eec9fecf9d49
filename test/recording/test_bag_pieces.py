# SPDX-License-Identifier: Apache-2.0

"""Bags cut at any byte, streams read in any steps, and publishers merged in any pieces, against plain ways."""

from __future__ import annotations

import io
import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import writer
from ros2_dynid.recording.bag.decode import JOINT_STATE, Decoded, Decoder, can_decode
from ros2_dynid.recording.bag.mcap_file import ForwardStream, McapFile
from ros2_dynid.recording.bag.merge import EPOCH_LIKE, Merger
from ros2_dynid.recording.bag.storage import Channel, block_of, compress_zstd
from ros2_dynid.recording.bag.writer import BagWriter, joint_state
from ros2_dynid.recording.read import load_samples

# --- streams


class Grudging(io.BytesIO):
    """A stream that gives at most seven bytes at a time, and that may not be asked for more than is left."""

    def read1(self, size=-1):
        return super().read1(min(size, 7))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_forward_stream_is_read_in_any_steps(known, seed):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, 500, np.uint8).tobytes()
    window, at = ForwardStream(Grudging(data), len(data) if known else None), 0
    for _ in range(200):
        step, kind = int(rng.integers(0, 40)), rng.integers(0, 4)
        if kind == 0:
            enough = step <= len(data) - at
            assert window.skip(step) == enough
            at = at + step if enough else (at if known else len(data))
        elif kind == 1 and known:
            at = int(rng.integers(0, len(data)))
            window.seek(at)
        else:
            part = window.read(step)
            assert part == data[at : at + step]
            at += len(part)
            if kind == 2 and part:
                back = int(rng.integers(1, len(part) + 1))
                window.unread(part[-back:])
                at -= back
        assert window.position == at
    window.skip(len(data))
    assert known or window.read(5) == b""


# --- MCAP files cut or damaged anywhere


NAMES = ("a",)


@pytest.fixture(autouse=True)
def chunks_end_where_they_are_told(monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.bag.writer.CHUNK_SECONDS", 1e9)


def small_bag(path, chunks=4, each=3, compression=""):
    """Write a bag of a few chunks, the second and fourth with another topic too; return its bytes and the frames."""
    with BagWriter(path, compression=compression) as writer:
        first = writer.add_topic("/joint_states")
        other = writer.add_topic("/other")
        for k in range(chunks):
            for m in range(k * each, (k + 1) * each):
                writer.write(first, joint_state(NAMES, m, [[m], None, None]), 1000 + m)
            if k % 2:
                writer.write(other, joint_state(NAMES, k, [[k], None, None]), 2000 + k)
            writer.flush()
        writer.write(other, joint_state(NAMES, 9, [[9], None, None]), 3000)
    file = path / f"{path.name}_0.mcap"
    data = file.read_bytes()
    frames, at = [], len(mcap.MAGIC)
    while at < len(data) - len(mcap.MAGIC):
        opcode, length = struct.unpack_from("<BQ", data, at)
        frames.append((opcode, at, at + 9 + length))
        at += 9 + length
    return file, data, frames


def stamps(file, wanted=None):
    """Return the log times read of a file, and what it warned of."""
    found = McapFile(file)
    keys = [c.id for c in found.channels if wanted is None or c.topic == wanted]
    return [int(s) for block in found.blocks(keys) for s in block.stamp], found


def test_a_file_cut_at_any_byte_gives_its_whole_chunks(tmp_path):
    file, data, frames = small_bag(tmp_path / "bag")
    whole = [*range(1000, 1003), *range(1003, 1006), 2001, *range(1006, 1009), *range(1009, 1012), 2003, 3000]
    sizes = [3, 4, 3, 4, 1]
    chunks = [(begin, end) for opcode, begin, end in frames if opcode == mcap.CHUNK]
    assert len(chunks) == 5 and stamps(file)[0] == whole and not stamps(file)[1].warnings
    assert {c.topic: c.count for c in stamps(file)[1].channels} == {"/joint_states": 12, "/other": 3}
    ending = next(begin for opcode, begin, _ in frames if opcode == mcap.DATA_END)
    cut = tmp_path / "cut.mcap"
    edges = {end + off for _, _, end in frames for off in (-1, 0, 1, 9)} | set(range(9, len(data), 397))
    for size in sorted(edge for edge in edges if edge < len(data)):
        cut.write_bytes(data[:size])
        found, file_read = stamps(cut)
        kept = sum(end <= size for _, end in chunks)
        assert found == whole[: sum(sizes[:kept])]
        good = max((end for _, _, end in frames if end <= size), default=len(mcap.MAGIC))
        if size >= ending + 9:
            assert not file_read.warnings
        elif good == size:
            assert file_read.warnings == [
                "the file was not closed: data that the recorder had not yet written are missing"
            ]
        else:
            (text,) = file_read.warnings
            assert f"the last {size - good} of {size} bytes ({100 * (size - good) / size:.2g} %)" in text
    cut.write_bytes(b"")
    with pytest.raises(InputError, match="the file is empty"):
        McapFile(cut)
    cut.write_bytes(data[1:])
    with pytest.raises(InputError, match="not an MCAP file"):
        McapFile(cut)


def test_damage_costs_one_chunk_and_is_told(tmp_path):
    file, data, frames = small_bag(tmp_path / "bag")
    whole = stamps(file)[0]
    chunks = [(begin, end) for opcode, begin, end in frames if opcode == mcap.CHUNK]
    bounds = np.cumsum([0, 3, 4, 3, 4, 1])
    broken = tmp_path / "broken.mcap"
    for k, (begin, end) in enumerate(chunks):
        rest = whole[: bounds[k]] + whole[bounds[k + 1] :]
        bad = bytearray(data)
        bad[end - 5] ^= 0xFF  # inside the messages: the checksum tells
        broken.write_bytes(bad)
        found, read = stamps(broken)
        assert found == rest and len(read.warnings) == 1 and "its checksum is wrong" in read.warnings[0]
        assert (" s was left out" in read.warnings[0]) == (k < 4), "how long it was, unless it is of one message"
        bad = bytearray(data)
        bad[begin + 1 : begin + 9] = struct.pack("<Q", 1 << 60)  # the length of the frame: the index tells
        broken.write_bytes(bad)
        found, read = stamps(broken)
        if k < 4:
            assert found == rest
            assert f"{chunks[k + 1][0] - begin} bytes at {begin} are damaged" in read.warnings[0]
        else:
            assert found == whole[: bounds[4]] and f"the last {len(data) - begin} of" in read.warnings[0]


def test_a_summary_that_is_damaged_is_not_believed(tmp_path):
    file, data, frames = small_bag(tmp_path / "bag")
    whole = stamps(file)[0]
    ending = next(begin for opcode, begin, _ in frames if opcode == mcap.DATA_END)
    footer = frames[-1][1]
    broken = tmp_path / "broken.mcap"
    start = struct.unpack_from("<Q", data, footer + 9)[0]
    for at in (*range(start, footer, 71), footer + 9, footer + 10, footer + 1, footer, len(data) - 1):
        bad = bytearray(data)
        bad[at] ^= 0x55
        broken.write_bytes(bad)
        found, read = stamps(broken)
        assert found == whole and not read.warnings, at
        assert not read.chunks, "the index is not used either"
    bad = bytearray(data[:-1])
    assert zlib.crc32(data[start : footer + 9 + 16]) == struct.unpack_from("<I", data, footer + 9 + 16)[0]
    bad[ending:] = b""
    broken.write_bytes(bad)
    assert stamps(broken)[0] == whole


def test_of_a_summary_that_is_not_believed_nothing_is_used(tmp_path):
    """Its chunk indexes name channels that the chunks do not have, and its statistics are not there."""
    file, data, frames = small_bag(tmp_path / "bag")
    whole, bad = stamps(file)[0], bytearray(data)
    bad[frames[-1][2] - 4 : frames[-1][2]] = bytes(4)  # no checksum
    for opcode, begin, _ in frames:
        if opcode == mcap.CHUNK_INDEX:
            struct.pack_into("<H", bad, begin + 9 + 36, 77)
        if opcode == mcap.STATISTICS:
            bad[begin] = 0x80
    file.write_bytes(bad)
    assert stamps(file)[0] == whole and not stamps(file)[1].warnings
    assert {c.topic: c.count for c in stamps(file)[1].channels} == {"/joint_states": 12, "/other": 3}


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


@pytest.mark.parametrize(("kind", "offset"), [(mcap.CHUNK_INDEX, 32), (mcap.STATISTICS, 42)])
@pytest.mark.parametrize("size", [5, 2**32 - 1])
def test_a_summary_whose_tables_do_not_fit_is_not_believed(tmp_path, kind, offset, size):
    """Tables of ids have entries of ten bytes; no checksum tells."""
    file, data, frames = small_bag(tmp_path / "bag")
    whole, bad = stamps(file)[0], bytearray(data)
    bad[frames[-1][2] - 4 : frames[-1][2]] = bytes(4)
    begin = next(begin for opcode, begin, _ in frames if opcode == kind)
    assert struct.unpack_from("<I", bad, begin + 9 + offset)[0] in (10, 20)
    struct.pack_into("<I", bad, begin + 9 + offset, size)
    file.write_bytes(bad)
    found, read = stamps(file)
    assert found == whole and not read.chunks and not read.warnings
    assert {c.topic: c.count for c in read.channels} == {"/joint_states": 12, "/other": 3}


def test_an_index_that_leads_beyond_the_file_is_not_followed(tmp_path):
    file, data, frames = small_bag(tmp_path / "bag")
    whole, bad = stamps(file)[0], bytearray(data)
    bad[frames[-1][2] - 4 : frames[-1][2]] = bytes(4)  # no checksum
    last_index = [begin for opcode, begin, _ in frames if opcode == mcap.CHUNK_INDEX][-1]
    struct.pack_into("<Q", bad, last_index + 9 + 16, len(data))
    broken = [begin for opcode, begin, _ in frames if opcode == mcap.CHUNK][3]
    struct.pack_into("<Q", bad, broken + 1, 1 << 60)
    file.write_bytes(bad)
    found, read = stamps(file)
    assert found == whole[:10]
    (text,) = read.warnings
    assert f"the last {len(data) - broken} of {len(data)} bytes" in text


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


# --- publishers that complete each other


def decoded(rows, stamp, names, **arrays):
    return Decoded(np.asarray(rows), np.asarray(stamp, np.int64), tuple(names), arrays)


def feed(merger, topic, stamp, names, logged=None, **arrays):
    """Give the messages of one publisher, in a block of their own, logged 5 ns later unless said otherwise."""
    if len(stamp):
        logged = np.asarray(stamp) + 5 if logged is None else np.asarray(logged)
        merger.add(topic, [decoded(np.arange(len(stamp)), stamp, names, **arrays)], logged)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_what_one_publisher_lacks_is_interpolated_from_another_in_any_pieces(parts):
    rng = np.random.default_rng(parts)
    start = 10**18
    a = start + np.sort(rng.choice(2_000_000_000, 400, replace=False)).astype(np.int64)
    b = start + 300_000_000 + 7_500_000 * np.arange(200) + rng.integers(0, 5_000_000, 200)
    qa, qb = rng.normal(size=(400, 2)), rng.normal(size=(200, 1))
    tau = rng.normal(size=(200, 1))
    merger = Merger(("z", "x", "y"))
    windows = []
    edges = np.linspace(start, start + 2_000_000_000, parts + 1)
    for low, high in pairwise(edges):
        for topic, t, names, arrays in (
            ("/a", a, ("y", "x"), {"q": qa}), ("/b", b, ("z",), {"q": qb, "tau": tau})
        ):  # fmt: skip
            inside = (t >= low) & (t < high)
            feed(merger, topic, t[inside], names, **{f: v[inside] for f, v in arrays.items()})
        windows.append(merger.window())
    windows.append(merger.window(final=True))
    windows = [w for w in windows if w is not None]
    stamp = np.concatenate([w.stamp for w in windows])
    known = (a >= b[0]) & (a <= b[-1])
    expected = a[known]
    np.testing.assert_array_equal(stamp, expected)
    q = np.concatenate([w.arrays["q"] for w in windows])
    at, of = (expected - start).astype(float), (b - start).astype(float)
    np.testing.assert_allclose(q[:, 0], np.interp(at, of, qb[:, 0]), atol=1e-9)
    np.testing.assert_array_equal(q[:, 1:], qa[known][:, ::-1])
    both = np.concatenate([w.arrays["tau"] for w in windows])
    np.testing.assert_allclose(both[:, 0], np.interp(at, of, tau[:, 0]), atol=1e-9)
    assert np.isnan(both[:, 1:]).all() and merger.interpolated == {"z"}
    assert merger.dropped == np.count_nonzero(~known) and merger.waiting == 0 and merger.unstamped == 0
    assert list(merger.seen_names) == ["y", "x", "z"] and merger.stamps == "header"


def test_which_stamps_count():
    for header, wanted, used in (
        ([0, 0, 0], "auto", "bag"), ([0, 0, 7], "auto", "header"), ([1, 2, 3], "bag", "bag"),
        ([0, 0, 0], "header", "header"),
    ):  # fmt: skip
        merger = Merger(None, wanted)
        feed(merger, "/a", header, ("x",), [11, 12, 13], q=np.ones((3, 1)))
        window = merger.window(final=True)
        assert merger.stamps == used and window.stamp.tolist() == ([11, 12, 13] if used == "bag" else header)
    dates = [EPOCH_LIKE + k for k in range(1, 5)]
    merger = Merger(None)
    feed(merger, "/a", [dates[0], 0, *dates[1:]], ("x",), q=np.arange(5.0)[:, None])
    window = merger.window(final=True)
    assert (
        window.stamp.tolist() == dates and window.arrays["q"][:, 0].tolist() == [0, 2, 3, 4] and merger.unstamped == 1
    )
    merger = Merger(None)
    feed(merger, "/a", [0, 1, 2], ("x",), q=np.ones((3, 1)))  # simulated time begins at zero
    assert merger.window(final=True).stamp.tolist() == [0, 1, 2] and merger.unstamped == 0


def test_joints_that_never_come_together():
    merger = Merger(("x", "y"))
    feed(merger, "/a", [1, 2, 3], ("x",), q=np.ones((3, 1)))
    assert merger.window(final=True) is None and merger.dropped == 3 and Merger(None).window() is None
    feed(merger, "/a", [1, 2], ("q",), q=np.ones((2, 1)))
    assert merger.window(final=True) is None and merger.dropped == 3 and list(merger.seen_names) == ["x", "q"]
    merger = Merger(("x", "y"))
    feed(merger, "/a", [1, 2, 3], ("x",), q=np.ones((3, 1)))
    feed(merger, "/b", [7, 8, 9], ("y",), q=np.ones((3, 1)))
    assert merger.window(final=True) is None and merger.dropped == 3, "one before the other"


def test_a_publisher_that_adds_a_field_or_a_joint_stays_one():
    merger = Merger(("x",))
    feed(merger, "/a", [1, 2], ("x",), q=np.array([[1.0], [2.0]]))
    feed(merger, "/a", [3], ("x",), q=np.array([[3.0]]), tau=np.array([[30.0]]))
    feed(merger, "/a", [4], ("foreign", "x"), q=np.array([[9.0, 4.0]]), tau=np.array([[9.0, 40.0]]))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [1, 2, 3, 4] and window.arrays["q"][:, 0].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(window.arrays["tau"][:, 0], [np.nan, np.nan, 30.0, 40.0])
    assert merger.dropped == 0 and not merger.interpolated


# --- messages that are not as they should be


def test_messages_packed_one_by_one_and_those_that_are_damaged():
    plain = [joint_state(("a", "b"), k, [[k, -k], None, [2 * k, 3 * k]]) for k in range(8)]
    packed = [compress_zstd(m) if k != 5 else m for k, m in enumerate(plain)]
    packed[3] = packed[3][:-3]
    packed.append(b"abc")
    decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr"))
    found = list(decoder.decode(block_of(packed, [1] * 9, list(range(9)))))
    rows = np.concatenate([d.rows for d in found])
    order = np.argsort(rows)
    assert rows[order].tolist() == [0, 1, 2, 4, 5, 6, 7] and decoder.failed == 2
    np.testing.assert_array_equal(np.concatenate([d.header for d in found])[order], [0, 1, 2, 4, 5, 6, 7])
    tau = np.concatenate([d.arrays["tau"] for d in found])[order]
    np.testing.assert_array_equal(tau, [[2 * k, 3 * k] for k in (0, 1, 2, 4, 5, 6, 7)])
    assert all("dq" not in d.arrays and d.names == ("a", "b") for d in found)


def test_which_channels_can_be_read():
    dynamic = "control_msgs/msg/DynamicJointState"
    for channel, good in (
        (Channel(1, "/j", JOINT_STATE, "cdr"), True), (Channel(1, "/j", JOINT_STATE, "ros1"), True),
        (Channel(1, "/j", JOINT_STATE, "json"), False), (Channel(1, "/j", dynamic, "cdr"), False),
        (Channel(1, "/j", dynamic, "cdr", "text"), True), (Channel(1, "/j", dynamic, "json", "text"), False),
        (Channel(1, "/j", "std_msgs/msg/String", "cdr", "text"), False),
    ):  # fmt: skip
        assert can_decode(channel) == good


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


def test_outlying_runs_of_messages_are_all_found():
    """Runs of one size are taken as arrays; whatever their lengths, each message is found once."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = np.repeat(rng.integers(0, 3, 12), rng.integers(1, 60, 12))
        data = b"".join(writer.message(1, k, k, k, bytes(int(n))) for k, n in enumerate(sizes))
        block = mcap.messages_of(data, mcap.scan(data))
        assert block.stamp.tolist() == list(range(len(sizes))) and block.length.tolist() == sizes.tolist()
