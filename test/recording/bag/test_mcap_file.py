# SPDX-License-Identifier: Apache-2.0

"""Read one MCAP file front to back, chunk by chunk, and salvage what survived a crash or damage."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import writer
from ros2_dynid.recording.bag.mcap_file import ForwardStream, McapFile
from ros2_dynid.recording.bag.storage import DamagedDataError
from small_bag import small_bag, stamps


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


@pytest.fixture(autouse=True)
def chunks_end_where_they_are_told(monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.bag.writer.CHUNK_SECONDS", 1e9)


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


def test_outlying_runs_of_messages_are_all_found():
    """Runs of one size are taken as arrays; whatever their lengths, each message is found once."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = np.repeat(rng.integers(0, 3, 12), rng.integers(1, 60, 12))
        data = b"".join(writer.message(1, k, k, k, bytes(int(n))) for k, n in enumerate(sizes))
        block = mcap.messages_of(data, mcap.scan(data))
        assert block.stamp.tolist() == list(range(len(sizes))) and block.length.tolist() == sizes.tolist()
