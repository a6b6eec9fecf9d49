# SPDX-License-Identifier: Apache-2.0

"""Damaged, cut and dishonest bags: what is whole is read, what is lost is said, and nothing explodes."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing

import lz4.frame
import numpy as np
import pytest

from bagmaker import EPOCH, ROS1, plain_messages, write_bag, write_bag1
from fuzz_recordings import run as fuzz
from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import writer
from ros2_dynid.recording.bag.definitions import JOINT_STATE_DEFINITION
from ros2_dynid.recording.bag.mcap_file import McapFile
from ros2_dynid.recording.bag.storage import MAX_CHUNK, DamagedDataError, compress_zstd, decompress
from ros2_dynid.recording.bag.writer import BagWriter, joint_state
from ros2_dynid.recording.read import load_samples

NAMES = ("a", "b")
BEGINNING = (
    writer.beginning("test")
    + writer.schema(1, "sensor_msgs/msg/JointState", JOINT_STATE_DEFINITION)
    + writer.channel(1, 1, "/joint_states", {})
)


def written(path, count=3000, chunks=10):
    """Write a bag of several chunks; return its file and where each chunk begins."""
    size = count // chunks
    with BagWriter(path) as writer:
        channel = writer.add_topic("/joint_states")
        for k in range(chunks):
            rows = np.arange(k * size, k * size + size)
            q = np.column_stack((rows, -rows)).astype(float)
            writer.write_joint_states(channel, NAMES, EPOCH + rows * 1_000_000, [q, None, None])
            writer.flush()
    file = path / f"{path.name}_0.mcap"
    data = file.read_bytes()
    found, at = [], len(mcap.MAGIC)
    while data[at] != mcap.DATA_END:
        if data[at] == mcap.CHUNK:
            found.append(at)
        at += mcap.FRAME.size + mcap.FRAME.unpack_from(data, at)[1]
    return file, found


def chunk(raw, compression="", stored=None, claimed=None, crc=0):
    stored = raw if stored is None else stored
    head = struct.pack("<QQQI", 0, 1, len(raw) if claimed is None else claimed, crc)
    body = head + writer.text(compression) + struct.pack("<Q", len(stored)) + stored
    return writer.record(mcap.CHUNK, body)


def states(first, count, names=NAMES):
    return b"".join(
        writer.message(1, k, EPOCH + k, EPOCH + k, joint_state(names, EPOCH + k * 10**6, [[k, -k], None, None]))
        for k in range(first, first + count)
    )


def test_a_truncated_mcap_is_read_up_to_its_last_whole_chunk(tmp_path):
    file, starts = written(tmp_path / "bag")
    data = file.read_bytes()
    for place, whole in ((starts[4] + 500, 4), (starts[4] + 5, 4), (starts[9] + 1, 9)):
        file.write_bytes(data[:place])
        samples = load_samples(tmp_path / "bag")
        assert np.array_equal(samples.q[:, 0], np.arange(300 * whole))
        assert any("after the last whole chunk, are missing" in note.text for note in samples.notes)
        assert f"{3000 - 300 * whole} of the 3000 messages announced by metadata.yaml are missing" in map(
            str, samples.notes
        )


def test_zeros_at_the_end_as_after_a_power_cut(tmp_path):
    file, starts = written(tmp_path / "bag")
    data = file.read_bytes()
    file.write_bytes(data[: starts[6]] + bytes(100_000))
    samples = load_samples(file)
    assert len(samples) == 1800 and any("are missing" in note.text for note in samples.notes)


def test_a_damaged_chunk_is_left_out_and_the_others_read(tmp_path):
    file, starts = written(tmp_path / "bag")
    data = bytearray(file.read_bytes())
    data[starts[3] + 2000] ^= 1
    file.write_bytes(data)
    samples = load_samples(file)
    assert np.array_equal(samples.q[:, 0], np.delete(np.arange(3000), np.arange(900, 1200)))
    assert any("damaged chunk of 0.299 s was left out (its checksum is wrong)" in note.text for note in samples.notes)


def test_a_broken_frame_is_stepped_over_by_the_index(tmp_path):
    file, starts = written(tmp_path / "bag")
    data = bytearray(file.read_bytes())
    data[starts[3] + 1 : starts[3] + 9] = struct.pack("<Q", 2**62)
    file.write_bytes(data)
    samples = load_samples(file)
    assert len(samples) == 2700
    assert any("are damaged and were left out" in note.text for note in samples.notes)


@pytest.mark.parametrize("compression", ["", "lz4", "zstd"])
def test_chunks_of_every_compression_without_an_index(tmp_path, compression):
    parts = []
    for first in (0, 100, 200):
        raw = states(first, 100)
        packed = {"": raw, "lz4": lz4.frame.compress(raw), "zstd": compress_zstd(raw)}[compression]
        parts.append(chunk(raw, compression, packed))
    (tmp_path / "a.mcap").write_bytes(BEGINNING + b"".join(parts))
    samples = load_samples(tmp_path / "a.mcap")
    assert np.array_equal(samples.q, np.column_stack((np.arange(300), -np.arange(300))))


def test_messages_outside_chunks_with_other_records_between(tmp_path):
    private = writer.record(0x80, b"x" * 50)
    data = BEGINNING + b"".join(states(k, 1) + private for k in range(50)) + states(50, 5000)
    (tmp_path / "a.mcap").write_bytes(data + writer.record(mcap.DATA_END, bytes(4)))
    samples = load_samples(tmp_path / "a.mcap")
    assert np.array_equal(samples.q[:, 0], np.arange(5050)) and samples.notes == ()


def test_a_truncated_ros1_bag_is_salvaged(tmp_path):
    old = write_bag1(tmp_path / "old.bag", plain_messages(9000, store=ROS1)[0])
    old.write_bytes(old.read_bytes()[: int(0.6 * old.stat().st_size)])
    samples = load_samples(old)
    assert 2000 < len(samples) < 9000 and any("cut or damaged" in note.text for note in samples.notes)


@pytest.mark.parametrize("share", [0.99, 0.7, 0.3])
def test_a_truncated_database_is_read_as_far_as_it_goes(tmp_path, share):
    messages, _, _, q, _, tau = plain_messages(3000)
    bag = write_bag(tmp_path / "lite", messages, plugin="sqlite3")
    file = bag / "lite.db3"
    size = file.stat().st_size
    kept = file.read_bytes()[: int(share * size)]
    file.write_bytes(kept)
    samples = load_samples(bag)
    assert 0.8 * share * 3000 < len(samples) < 3000
    assert np.array_equal(samples.q, q[: len(samples)]) and np.array_equal(samples.tau, tau[: len(samples)])
    lost = size - int(share * size)
    assert any(f"{lost} of {size} bytes" in note.text for note in samples.notes)
    assert file.read_bytes() == kept and sorted(p.name for p in bag.iterdir()) == ["lite.db3", "metadata.yaml"]


def test_a_database_of_which_hardly_anything_is_left_is_refused(tmp_path):
    bag = write_bag(tmp_path / "lite", plain_messages(300)[0], plugin="sqlite3")
    file = bag / "lite.db3"
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"is not a rosbag2 SQLite3 file or it is damaged|no tables of topics"):
        load_samples(bag)


def test_a_write_ahead_log_beside_the_database_is_read(tmp_path):
    """A recorder that was killed leaves its last messages there."""
    import shutil
    import sqlite3

    bag = write_bag(tmp_path / "bag", plain_messages(100)[0], plugin="sqlite3")
    connection = sqlite3.connect(bag / "bag.db3")
    connection.execute("PRAGMA journal_mode=WAL")
    row = connection.execute("SELECT topic_id, timestamp, data FROM messages ORDER BY id DESC LIMIT 1").fetchone()
    data = bytearray(row[2])
    data[4:8] = struct.pack("<i", EPOCH // 10**9 + 5)
    connection.execute(
        "INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)", (row[0], row[1] + 1, bytes(data))
    )
    connection.commit()
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in bag.glob("bag.db3*"):
        shutil.copy(file, killed)
    connection.close()
    assert (killed / "bag.db3-wal").stat().st_size > 0
    assert len(load_samples(killed)) == 101


def test_bombs_are_refused_before_they_unpack(tmp_path):
    zeros = bytes(100 << 20)
    packed = compress_zstd(zeros)
    for claimed, words in (
        (len(zeros), "the file unpacks into more than 1000 times its size"),
        (100, "zstd data holds more than the 100 bytes it claims"),
        (2**63, f"it claims {2**63} bytes"),
    ):
        (tmp_path / "a.mcap").write_bytes(BEGINNING + chunk(zeros, "zstd", packed, claimed))
        assert any(words in text for text in McapFile(tmp_path / "a.mcap").warnings)
        with pytest.raises(InputError, match="no message that can be read"):
            load_samples(tmp_path / "a.mcap")
    (tmp_path / "b.db3.zstd").write_bytes(packed)
    with pytest.raises(InputError, match="unpacks into more than"):
        load_samples(tmp_path / "b.db3.zstd")
    with pytest.raises(DamagedDataError, match="more than"):
        decompress("zstd", packed, 1000)
    with pytest.raises(DamagedDataError):
        decompress("lz4", lz4.frame.compress(zeros), 1000)
    with pytest.raises(DamagedDataError):
        decompress("zstd", packed, MAX_CHUNK + 1)
    with pytest.raises(DamagedDataError, match="ends early"):
        decompress("zstd", packed[:-5], len(zeros))


def test_joints_that_differ_in_every_message_are_refused(tmp_path):
    data = b"".join(states(k, 1, (f"x{k}", "y")) for k in range(500))
    (tmp_path / "a.mcap").write_bytes(BEGINNING + chunk(data))
    with pytest.raises(InputError, match="changes its joints from message to message"):
        load_samples(tmp_path / "a.mcap")


def test_names_that_are_no_text_do_not_crash(tmp_path):
    """In all four makes of bags: a topic beside the joints whose name and type are bytes of no encoding."""
    odd, path = b"/\xff\xfe", tmp_path / "a.mcap"
    text = struct.pack("<I", len(odd)) + odd
    schema = writer.record(mcap.SCHEMA, struct.pack("<H", 2) + text * 3)
    channel = writer.record(mcap.CHANNEL, struct.pack("<HH", 2, 2) + text * 2 + struct.pack("<I", 0))
    path.write_bytes(BEGINNING + schema + channel + states(0, 5))
    assert len(load_samples(path)) == 5

    lite = write_bag(tmp_path / "lite", plain_messages(5)[0], plugin="sqlite3") / "lite.db3"
    with closing(sqlite3.connect(lite)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(topics)")]
        values = [99 if name == "id" else odd.decode("latin-1") for name in columns]
        connection.execute(f"INSERT INTO topics VALUES ({','.join('?' * len(values))})", values)
        for name in ("name", "type", "serialization_format"):
            connection.execute(f"UPDATE topics SET {name} = CAST(x'{odd.hex()}' AS TEXT) WHERE id = 99")
    assert len(load_samples(lite)) == 5

    old = write_bag1(tmp_path / "old.bag", plain_messages(5, store=ROS1)[0])
    fields = (b"op=\x07", b"conn=\x63\0\0\0", b"topic=" + odd, odd + b"=1")
    head = b"".join(struct.pack("<I", len(x)) + x for x in fields)
    inner = b"".join(struct.pack("<I", len(x)) + x for x in (b"type=" + odd, b"message_definition=" + odd))
    chunk_head = b"".join(struct.pack("<I", len(x)) + x for x in (b"op=\x05", b"compression=" + odd))
    more = [
        struct.pack("<I", len(h)) + h + struct.pack("<I", len(d)) + d for h, d in ((head, inner), (chunk_head, b"x"))
    ]
    old.write_bytes(old.read_bytes() + b"".join(more))
    assert len(load_samples(old)) == 5

    (tmp_path / "a.csv").write_bytes(b"time,gr\xf6\xdfe,a.position\n0,\xff,1\n1,\xfe,2\n")
    assert load_samples(tmp_path / "a.csv").q[:, 0].tolist() == [1, 2]


def test_a_damaged_description_of_a_topic_is_told_and_the_others_count(tmp_path):
    bad = writer.record(mcap.CHANNEL, struct.pack("<HHI", 2, 1, 1000) + b"/cut")
    for data in (BEGINNING + bad + states(0, 5), BEGINNING + chunk(bad + states(0, 5))):
        (tmp_path / "a.mcap").write_bytes(data)
        samples = load_samples(tmp_path / "a.mcap")
        assert len(samples) == 5 and "a damaged description of a topic was left out" in map(str, samples.notes)


def test_metadata_nested_without_end_does_not_crash(tmp_path):
    file, _ = written(tmp_path / "bag")
    for text in ("[" * 100_000, "- " * 100_000, "{a: " * 50_000):
        (tmp_path / "bag/metadata.yaml").write_text(text)
        samples = load_samples(tmp_path / "bag")
        assert len(samples) == 3000 and "damaged" in samples.notes[0].text
    assert file.exists()


def test_a_view_that_pretends_to_be_a_table_is_refused(tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "a.db3") as connection:
        connection.execute("CREATE TABLE topics(id INTEGER, name TEXT, type TEXT, serialization_format TEXT)")
        connection.execute("INSERT INTO topics VALUES(1, '/j', 'sensor_msgs/msg/JointState', 'cdr')")
        endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
        connection.execute(f"CREATE VIEW messages AS {endless} SELECT 1 topic_id, x timestamp, x'00' data FROM r")
    with pytest.raises(InputError, match="no tables of topics and messages"):
        load_samples(tmp_path / "a.db3")


def test_damaged_recordings_never_crash_hang_or_grow():
    outcome = fuzz(300, seed=20)
    assert outcome.failures == []
    assert outcome.results["read"] > 50 and outcome.results["refused"] > 50
