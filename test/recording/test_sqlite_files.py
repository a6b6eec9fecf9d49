# SPDX-License-Identifier: Apache-2.0

"""SQLite3 files of rosbag2, row by row: what is taken, in which blocks, and what is left out."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import sqlite_file
from ros2_dynid.recording.bag.sqlite_file import SqliteFile
from ros2_dynid.recording.bag.storage import compress_zstd

TOPICS = ((1, "/j", "sensor_msgs/JointState", "cdr"), (2, "/k", "sensor_msgs/msg/JointState", "cdr"))


def database(path, rows, topics=TOPICS, definitions=None):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE topics (id INTEGER, name TEXT, type TEXT, serialization_format TEXT)")
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp, data BLOB)")
        connection.executemany("INSERT INTO topics VALUES (?, ?, ?, ?)", topics)
        connection.executemany("INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)", rows)
        if definitions is not None:
            connection.execute("CREATE TABLE message_definitions (topic_type, encoding, encoded_message_definition)")
            connection.executemany("INSERT INTO message_definitions VALUES (?, ?, ?)", definitions)
    return SqliteFile(path)


def sizes(file, wanted=(1,)):
    return [len(block) for block in file.blocks(wanted)]


def test_rows_become_messages_in_their_order(tmp_path):
    rows = [(1, 30, b"abc"), (2, 40, b"d"), (1, 20, b"ef"), (1, "x", b"bad stamp"), (1, 50, "text"), (1, 10, b"")]
    kind = "sensor_msgs/JointState"
    file = database(tmp_path / "a.db3", rows, definitions=[(kind, "ros2msg", "float64 x"), ("other", "idl", "y")])
    (block,) = file.blocks((1,))
    assert [block.payload(k) for k in range(len(block))] == [b"abc", b"ef", b""] and block.stamp.tolist() == [
        30,
        20,
        10,
    ]
    assert sizes(file, (1, 2)) == [4] and sizes(file, (2,)) == [1] and sizes(file, (3,)) == [] and not file.warnings
    first, second = file.channels
    assert (first.id, first.topic, first.type, first.encoding) == (1, "/j", "sensor_msgs/msg/JointState", "cdr")
    assert (first.definition, first.definition_format) == ("float64 x", "ros2msg") and second.definition == ""


def test_an_index_does_not_change_the_order(tmp_path):
    database(tmp_path / "a.db3", [(2 - k % 2, 90 - k, bytes([k])) for k in range(9)])
    with closing(sqlite3.connect(tmp_path / "a.db3")) as connection, connection:
        connection.execute("CREATE INDEX by_topic ON messages (topic_id, timestamp)")
    (block,) = SqliteFile(tmp_path / "a.db3").blocks((1, 2))
    assert block.stamp.tolist() == list(range(90, 81, -1)) and block.channel.tolist() == [2, 1] * 4 + [2]


def test_blocks_end_after_so_many_rows_or_bytes(tmp_path, monkeypatch):
    file = database(tmp_path / "many.db3", [(1, k, b"x") for k in range(5000)])
    assert sizes(file) == [4096, 904]
    large = database(tmp_path / "large.db3", [(1, k, bytes(2 << 20)) for k in range(5)])
    assert sizes(large) == [2, 2, 1]
    assert sqlite_file.MAX_MESSAGE == 16 << 20
    monkeypatch.setattr(sqlite_file, "MAX_MESSAGE", 10)
    assert sizes(database(tmp_path / "b.db3", [(1, 0, bytes(10)), (1, 1, bytes(11)), (1, 2, b"x")])) == [2]
    monkeypatch.setattr(sqlite_file, "BLOCK_BYTES", 6)
    assert sizes(database(tmp_path / "c.db3", [(1, k, bytes(3)) for k in range(5)])) == [2, 2, 1]


def test_a_packed_file_is_unpacked_within_a_bound(tmp_path):
    database(tmp_path / "a.db3", [(1, k, bytes(1000)) for k in range(300)])
    data = (tmp_path / "a.db3").read_bytes()
    packed = tmp_path / "b.db3.zstd"
    packed.write_bytes(compress_zstd(data))
    file = SqliteFile(packed)
    assert sizes(file) == [300] and not file.warnings
    packed.write_bytes(compress_zstd(data)[:-20])
    assert any("the compressed file is cut or damaged" in text for text in SqliteFile(packed).warnings)
    bomb = tmp_path / "bomb.db3.zst"
    bomb.write_bytes(compress_zstd(bytes(12 << 20)))
    with pytest.raises(InputError, match="it unpacks into more than 300 times its size"):
        SqliteFile(bomb)


def test_other_databases_are_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.db3")) as connection, connection:
        connection.execute("CREATE TABLE topics (id INTEGER)")
    with pytest.raises(InputError, match="has no tables of topics and messages"):
        SqliteFile(tmp_path / "x.db3")
    for view in ("topics", "messages"):
        database(tmp_path / f"{view}.db3", [(1, 5, b"x")])
        with closing(sqlite3.connect(tmp_path / f"{view}.db3")) as connection, connection:
            connection.execute(f"ALTER TABLE {view} RENAME TO old")
            connection.execute(f"CREATE VIEW {view} AS SELECT * FROM old")
        with pytest.raises(InputError, match="has no tables of topics and messages"):
            SqliteFile(tmp_path / f"{view}.db3")
    (tmp_path / "y.db3").write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(InputError, match=r"damaged|no tables"):
        SqliteFile(tmp_path / "y.db3")
    odd = database(tmp_path / "z.db3", [], topics=[("one", "/j", "t", "cdr"), (2, "/k", "a/b", "cdr")])
    assert [c.topic for c in odd.channels] == ["/k"]


def test_how_many_descriptions_are_read(tmp_path):
    kinds = [(f"a/msg/T{k}", "ros2msg", "float64 x") for k in range(10_001)]
    topics = [(k, f"/t{k}", f"a/msg/T{9_999 + k}", "cdr") for k in range(2)]
    file = database(tmp_path / "a.db3", [], topics=topics, definitions=kinds)
    assert [channel.definition for channel in file.channels] == ["float64 x", ""]


@pytest.mark.parametrize("place", [0.2, 0.7])
def test_what_comes_before_a_damaged_page_is_read_and_the_rest_is_told_missing(tmp_path, place):
    database(tmp_path / "a.db3", [(1, k, bytes([k % 256]) * 1000) for k in range(300)])
    data = bytearray((tmp_path / "a.db3").read_bytes())
    page = int(place * len(data) / 4096)
    data[4096 * page : 4096 * (page + 1)] = b"\xff" * 4096
    (tmp_path / "a.db3").write_bytes(data)
    file = SqliteFile(tmp_path / "a.db3")
    assert file.warnings == []
    found = [(int(s), b.payload(k)) for b in file.blocks((1,)) for k, s in enumerate(b.stamp)]
    assert found == [(k, bytes([k % 256]) * 1000) for k in range(len(found))]
    assert (place - 0.1) * 300 < len(found) < (place + 0.1) * 300
    (text,) = file.warnings
    assert text.startswith("the database is cut or damaged: messages after the damage are missing (")
