# SPDX-License-Identifier: Apache-2.0

"""What a storage format of bags provides: channels and messages in blocks; decompression with a size limit."""

from __future__ import annotations

import bz2
import os

import numpy as np
import pytest

from ros2_dynid.recording.bag import storage
from ros2_dynid.recording.bag.decode import JOINT_STATE, Decoder, can_decode
from ros2_dynid.recording.bag.storage import (
    Budget,
    Channel,
    DamagedDataError,
    block_of,
    compress_zstd,
    decompress,
    distinct,
    type_name,
)
from ros2_dynid.recording.bag.writer import joint_state


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


@pytest.fixture(autouse=True)
def chunks_end_where_they_are_told(monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.bag.writer.CHUNK_SECONDS", 1e9)


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


def test_what_data_may_unpack_into(monkeypatch):
    budget = Budget(10)
    assert budget.remaining == 10_000 + (4 << 20)
    budget.spend(budget.remaining - 5)
    budget.spend(5)
    with pytest.raises(DamagedDataError, match="more than 1000 times"):
        budget.spend(1)
    data = os.urandom(300)
    packed = {"zstd": compress_zstd(data), "bz2": bz2.compress(data), "": data, "none": data}
    for kind, stored in packed.items():
        assert decompress(kind, stored, 300) == data
    for kind in ("zstd", "bz2"):
        assert decompress(kind, packed[kind] + packed[kind], 600) == data + data
        for limit in (299, 10):
            with pytest.raises(DamagedDataError, match=f"more than the {limit} bytes"):
                decompress(kind, packed[kind], limit)
        with pytest.raises(DamagedDataError, match=r"ends early|damaged"):
            decompress(kind, packed[kind][:-4], 300)
        with pytest.raises(DamagedDataError, match="damaged"):
            decompress(kind, b"nothing of the kind", 300)
        assert storage.MAX_CHUNK == 128 << 20
        assert decompress(kind, packed[kind], 128 << 20) == data
        with pytest.raises(DamagedDataError, match="a chunk claims"):
            decompress(kind, packed[kind], (128 << 20) + 1)
    with pytest.raises(DamagedDataError, match="100 compressed bytes claim to hold 25665"):
        decompress("lz4", bytes(100), 25_665)
    with pytest.raises(DamagedDataError, match="lz4 data is damaged"):
        decompress("lz4", bytes(100), 25_664)
    with pytest.raises(DamagedDataError, match="unknown compression 'rar'"):
        decompress("rar", data, 300)
