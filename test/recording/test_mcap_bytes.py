# SPDX-License-Identifier: Apache-2.0

"""What is written into an MCAP file, byte by byte, by a reader of its own: mcap.dev/spec."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import writer
from ros2_dynid.recording.bag.storage import decompress

METADATA = {"serialized_metadata": "x: 1", "more": ""}


class Bytes:
    """Numbers and texts, taken off the front one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found if len(found) > 1 else found[0]

    def part(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self):
        return self.part(self.take("I")).decode()

    def pairs(self, key, value):
        end = self.take("I") + self.at
        found = []
        while self.at < end:
            found.append((key(self), value(self)))
        assert self.at == end
        return found


def records(data, first=0):
    """Return (opcode, position, content) of all records from `first` up to the footer."""
    at, found = first, []
    while at < len(data) - 8:
        opcode, length = struct.unpack_from("<BQ", data, at)
        found.append((opcode, at, data[at + 9 : at + 9 + length]))
        at += 9 + length
    assert at == len(data) - 8 and data[-8:] == data[:8] == b"\x89MCAP0\r\n"
    return found


def file_of(compression):
    """Return a file with two schemas, three channels and two chunks, and the messages of its channels."""
    schemas = [writer.schema(k, f"pkg/msg/T{k}", f"int32 x{k}\n") for k in (1, 2)]
    channels = [writer.channel(k, 1 + k % 2, f"/topic{k}", {"offered_qos_profiles": "q" * k}) for k in (1, 2, 5)]
    data, indexes, sent, counts = writer.beginning("dynid"), [], [], {}
    data += b"".join(schemas) + b"".join(channels)
    rng = np.random.default_rng(0)
    for first in (1000, 5000):
        chunk = writer.Chunk()
        for channel in (2, 1, 5, 2):
            stamps = first + rng.integers(0, 500, 4)
            payloads = [rng.bytes(int(n)) for n in rng.integers(0, 40, 4)]
            parts = [
                writer.message(channel, 7 + k, int(t), int(t) - 3, p)
                for k, (t, p) in enumerate(zip(stamps, payloads, strict=True))
            ]
            sizes = np.array([len(part) for part in parts])
            chunk.add(channel, stamps, sizes, b"".join(parts))
            sent += [(channel, 7 + k, int(t), p) for k, (t, p) in enumerate(zip(stamps, payloads, strict=True))]
            counts[channel] = counts.get(channel, 0) + 4
        assert chunk.count == 16
        packed = writer.pack(chunk, len(data), compression)
        data += packed.data
        indexes.append(packed.chunk_index)
    stamps = [t for _, _, t, _ in sent]
    totals = writer.Totals(schemas, channels, indexes, counts, min(stamps), max(stamps))
    return data + writer.ending(len(data), totals, METADATA), sent


@pytest.mark.parametrize("compression", ["", "zstd"])
def test_every_record_and_every_offset_of_a_file(compression):
    data, sent = file_of(compression)
    found = records(data, 8)
    kinds = [opcode for opcode, _, _ in found]
    assert kinds[:6] == [1, 3, 3, 4, 4, 4]
    head = Bytes(found[0][2])
    assert (head.text(), head.text()) == ("ros2", "dynid")
    for k, (_, _, content) in enumerate(found[1:3], start=1):
        one = Bytes(content)
        assert (one.take("H"), one.text(), one.text(), one.text()) == (k, f"pkg/msg/T{k}", "ros2msg", f"int32 x{k}\n")
    for k, (_, _, content) in zip((1, 2, 5), found[3:6], strict=True):
        one = Bytes(content)
        assert one.take("HH") == (k, 1 + k % 2) and (one.text(), one.text()) == (f"/topic{k}", "cdr")
        assert one.pairs(Bytes.text, Bytes.text) == [("offered_qos_profiles", "q" * k)]
    # chunks: their messages in order, the times they span, the check sum
    messages, chunks = [], [(at, content) for opcode, at, content in found if opcode == 6]
    assert len(chunks) == 2
    raws = {}
    for at, content in chunks:
        one = Bytes(content)
        first, last, size, crc = one.take("QQQI")
        assert one.text() == compression
        stored = one.part(one.take("Q"))
        raw = decompress("zstd", stored, size) if compression else stored
        assert len(raw) == size and zlib.crc32(raw) == crc and one.at == len(content)
        inner, times, place = Bytes(raw), [], 0
        while place < size:
            opcode, length = inner.take("BQ")
            body = Bytes(inner.part(length))
            channel, sequence, logged, published = body.take("HIQQ")
            assert opcode == 5 and published == logged - 3
            messages.append((channel, sequence, logged, body.data[22:]))
            times.append(logged)
            place += 9 + length
        assert (first, last) == (min(times), max(times))
        raws[at] = (raw, len(content) + 9)
    assert messages == sent
    # the index behind each chunk leads to its messages
    where = {}
    for opcode, at, content in found:
        if opcode != 7:
            continue
        one = Bytes(content)
        channel = one.take("H")
        chunk = max(place for place in raws if place < at)
        for logged, offset in one.pairs(lambda b: b.take("Q"), lambda b: b.take("Q")):
            body = Bytes(raws[chunk][0][offset + 9 :])
            assert raws[chunk][0][offset] == 5 and body.take("HIQ")[::2] == (channel, logged)
        where[chunk, channel] = at
    assert len(where) == 6
    # the summary: statistics, where the chunks are, metadata
    footer = Bytes(found[-1][2])
    summary, offsets, crc = footer.take("QQI")
    assert found[-1][0] == 2 and zlib.crc32(data[summary : len(data) - 12]) == crc
    told = [(opcode, at, content) for opcode, at, content in found if summary <= at < offsets]
    assert [opcode for opcode, _, _ in told] == [3, 3, 4, 4, 4, 11, 8, 8, 13]
    statistics = Bytes(next(content for opcode, _, content in told if opcode == 11))
    times = [t for _, _, t, _ in sent]
    assert statistics.take("QHIIIIQQ") == (32, 2, 3, 0, 1, 2, min(times), max(times))
    counts = dict(statistics.pairs(lambda b: b.take("H"), lambda b: b.take("Q")))
    assert counts == {1: 8, 2: 16, 5: 8}
    for _, _, content in (one for one in told if one[0] == 8):
        one = Bytes(content)
        first, last, at, length = one.take("QQQQ")
        assert (raws[at][1], data[at]) == (length, 6)
        assert (first, last) == Bytes(data[at + 9 :]).take("QQ")
        places = dict(one.pairs(lambda b: b.take("H"), lambda b: b.take("Q")))
        assert places == {channel: place for (chunk, channel), place in where.items() if chunk == at}
        behind = one.take("Q")
        ends = [next_at for _, next_at, _ in found if next_at >= at + length + behind]
        assert min(ends) == at + length + behind and one.text() == compression
        stored, raw = one.take("QQ")
        assert raw == len(raws[at][0]) and (stored == raw) == (not compression)
    info = Bytes(next(content for opcode, _, content in told if opcode == 13))
    at, length = info.take("QQ")
    opcode, size = struct.unpack_from("<BQ", data, at)
    assert opcode == 12 and length == size + 9 and info.text() == "rosbag2"
    record = Bytes(data[at + 9 : at + length])
    assert record.text() == "rosbag2" and dict(record.pairs(Bytes.text, Bytes.text)) == METADATA
    # each group of the summary is where its offset says
    groups = [Bytes(content).take("BQQ") for opcode, at, content in found if opcode == 14]
    assert [kind for kind, _, _ in groups] == [3, 4, 11, 8, 13]
    for kind, start, length in groups:
        assert data[start] == kind
        after = {at for _, at, _ in found}
        assert start + length in after
    assert sum(length for _, _, length in groups) == offsets - summary
    assert data[:8] == mcap.MAGIC
