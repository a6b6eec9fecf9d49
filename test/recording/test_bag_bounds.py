# SPDX-License-Identifier: Apache-2.0

"""Bounds of the bag readers, from both sides: publishers that stop, missing files, sizes that are too large."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from bagmaker import EPOCH, plain_messages, write_bag
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import writer as bag_writer
from ros2_dynid.recording.bag.decode import CONTROLLER_STATE, DYNAMIC_STATE, JOINT_STATE, READERS, Decoded, Decoder
from ros2_dynid.recording.bag.definitions import JOINT_STATE_DEFINITION
from ros2_dynid.recording.bag.mcap_file import McapFile
from ros2_dynid.recording.bag.merge import Merger
from ros2_dynid.recording.bag.read_bag import Bag, open_bag
from ros2_dynid.recording.bag.sqlite_file import SqliteFile
from ros2_dynid.recording.bag.storage import Channel, block_of
from ros2_dynid.recording.bag.writer import BagWriter, joint_state
from ros2_dynid.recording.playback import recorded_messages
from ros2_dynid.recording.read import in_order, iter_samples, load_samples
from ros2_dynid.recording.samples import Reading, Samples

S = 10**9


def feed(merger, topic, stamp, names, **arrays):
    stamp = np.asarray(stamp, np.int64)
    merger.add(topic, [Decoded(np.arange(len(stamp)), stamp, tuple(names), arrays)], stamp + 5)


def column(values):
    return np.asarray(values, float)[:, None]


# --- publishers that complete each other


@pytest.mark.parametrize(("seconds", "waits"), [(4.9, True), (5.1, False)])
def test_a_publisher_that_has_stopped_is_waited_for_five_seconds(seconds, waits):
    merger = Merger(("x", "y"))
    t = np.array([0, S // 2, S, S + int(seconds * S)])
    feed(merger, "/a", t, ("x",), q=column(t), dq=column(t))
    feed(merger, "/b", [0, S // 4, S // 2, 3 * S // 4, S], ("y",), q=column(range(5)))
    window = merger.window()
    assert window.stamp.tolist() == [0, S // 2, S] and window.arrays["q"][:, 1].tolist() == [0.0, 2.0, 4.0]
    assert merger.dropped == (0 if waits else 1)
    assert merger.waiting == 1, "a sample of the one, or the last of the other"
    if waits:  # a single new stamp says nothing of the period: that of the window before counts
        feed(merger, "/b", [t[-1] + 7], ("y",), q=column([9]))
        assert merger.window(final=True) is None and merger.dropped == 1, "nothing is interpolated over such a gap"


def test_samples_wait_for_the_slowest_of_all_publishers():
    merger = Merger(("x", "y", "z"))
    t = np.arange(0, 70, 10)
    feed(merger, "/a", t, ("x",), q=column(t), dq=column(t))
    feed(merger, "/b", [0, 20], ("y",), q=column([0, 20]))
    feed(merger, "/c", [0, 40], ("z",), q=column([0, 40]))
    first = merger.window()
    feed(merger, "/b", [60], ("y",), q=column([60]))
    feed(merger, "/c", [60], ("z",), q=column([60]))
    rest = merger.window(final=True)
    assert first.stamp.tolist() == [0, 10, 20] and rest.stamp.tolist() == [30, 40, 50, 60] and merger.dropped == 0
    for window in (first, rest):
        assert window.arrays["q"].tolist() == [[s, s, s] for s in window.stamp]


def test_the_track_with_most_signals_gives_the_times_and_goes_on_to():
    def two(first, second, **more):
        merger = Merger(("x", "y"))
        for topic, (stamp, name) in zip(("/a", "/b"), (first, second), strict=True):
            arrays = {"q": column(stamp)} | ({"tau": column(stamp)} if topic in more.get("tau", ()) else {})
            feed(merger, topic, stamp, (name,), **arrays)
        return merger, merger.window(final=True)

    few, many = [0, 40, 80], [0, 20, 40, 60, 80]
    assert two((few, "x"), (many, "y"))[1].stamp.tolist() == many
    assert two((many, "x"), (few, "y"))[1].stamp.tolist() == many
    assert two((few, "x"), (many, "y"), tau=("/a",))[1].stamp.tolist() == few, "signals before samples"
    merger, _ = two((few, "x"), (many, "y"))
    feed(merger, "/a", range(100, 200, 10), ("x",), q=column(range(10)))
    feed(merger, "/b", [100, 150], ("y",), q=column(range(2)))
    assert merger.window(final=True).stamp.tolist() == [100, 150], "the same as before, though it has fewer now"


def test_of_two_that_have_a_joint_the_longer_counts():
    merger = Merger(("x", "y"))
    feed(merger, "/a", range(10), ("x",), q=column(range(10)), dq=column(range(10)))
    feed(merger, "/short", [0, 9], ("y",), q=column([50, 50]))
    feed(merger, "/long", [0, 5, 9], ("y",), q=column([70, 70, 70]), tau=column([1, 2, 3]))
    window = merger.window(final=True)
    assert set(window.arrays["q"][:, 1]) == {70.0} and window.arrays["tau"][:, 1][[0, 5, 9]].tolist() == [1, 2, 3]
    assert np.isnan(window.arrays["dq"][:, 1]).all() and window.arrays["dq"][:, 0].tolist() == list(range(10))
    assert merger.interpolated == {"y"}


def test_a_field_of_a_joint_from_elsewhere_leaves_no_sample_out():
    merger = Merger(("x",))
    feed(merger, "/a", range(10), ("x",), q=column(range(10)))
    feed(merger, "/b", [3, 5], ("x",), tau=column([30, 50]))
    window = merger.window(final=True)
    assert window.stamp.tolist() == list(range(10)) and merger.dropped == 0 and not merger.interpolated
    np.testing.assert_array_equal(window.arrays["tau"][:, 0], [np.nan] * 3 + [30, 40, 50] + [np.nan] * 4)


def test_tracks_of_one_robot_that_follow_each_other_are_one_and_those_that_overlap_are_not():
    merger = Merger(("x",))
    feed(merger, "/a", [10, 20], ("x", "p"), q=np.array([[1.0, 8], [2, 8]]))
    feed(merger, "/a", [21, 30], ("r", "x"), q=np.array([[8.0, 3], [8, 4]]))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [10, 20, 21, 30] and window.arrays["q"][:, 0].tolist() == [1, 2, 3, 4]
    feed(merger, "/a", [70, 80], ("x", "p"), q=np.array([[7.0, 8], [8, 8]]))
    feed(merger, "/a", [50, 60], ("r", "x"), q=np.array([[8.0, 5], [8, 6]]))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [50, 60, 70, 80] and window.arrays["q"][:, 0].tolist() == [5, 6, 7, 8]
    merger = Merger(("x",))
    feed(merger, "/a", [10, 20], ("x", "p"), q=np.array([[1.0, 8], [2, 8]]))
    feed(merger, "/a", [20, 30, 40], ("r", "x"), q=np.array([[8.0, 3], [8, 4], [8, 5]]))
    assert merger.window(final=True).stamp.tolist() == [20, 30, 40]


def test_a_publisher_that_exchanges_a_field_for_another_stays_one():
    merger = Merger(("x",))
    feed(merger, "/a", [10, 20], ("x",), q=column([1, 2]), dq=column([5, 6]))
    feed(merger, "/a", [30, 40], ("x",), q=column([3, 4]), tau=column([7, 8]))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [10, 20, 30, 40] and window.arrays["q"][:, 0].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(window.arrays["dq"][:, 0], [5, 6, np.nan, np.nan])
    np.testing.assert_array_equal(window.arrays["tau"][:, 0], [np.nan, np.nan, 7, 8])
    merger = Merger(("x",))
    for k in range(1, 7):  # every other one has an effort
        feed(merger, "/a", [k], ("x",), q=column([k]), **({} if k % 2 else {"tau": column([10 * k])}))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(window.arrays["tau"][:, 0], [np.nan, 20, np.nan, 40, np.nan, 60])
    merger = Merger(("x",))
    feed(merger, "/a", [10, 20, 30], ("x",), q=column([1, 2, 3]))
    merger.window(final=True)
    feed(merger, "/a", [40], ("x",), q=column([4]))
    feed(merger, "/a", [41], ("x",), tau=column([9]))  # the effort is another's: it gives no times
    assert merger.window(final=True).stamp.tolist() == [40]


def test_messages_of_a_topic_keep_their_own_times_of_recording():
    """A block holds the messages of other topics too: the rows say which of its times are theirs."""
    merger = Merger(("x",), "bag")
    merger.add("/a", [Decoded(np.array([1, 3]), np.zeros(2, int), ("x",), {"q": column([1, 3])})], np.arange(100, 106))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [101, 103] and window.arrays["q"][:, 0].tolist() == [1, 3]


def test_what_comes_late_from_another_publisher_is_put_in_order_before_it_is_interpolated():
    merger = Merger(("x", "y"))
    feed(merger, "/a", range(0, 31, 5), ("x",), q=column(range(7)), dq=column(range(7)))
    feed(merger, "/b", [0, 20, 10, 30, 10], ("y",), q=column([0, 200, 100, 300, 999]))
    window = merger.window(final=True)
    assert window.arrays["q"][:, 1].tolist() == [0, 50, 100, 150, 200, 250, 300], "the first of a time counts"


def test_stamps_of_one_publisher_are_enough_to_use_them():
    merger = Merger(("x", "y"))
    feed(merger, "/a", [5, 6, 7], ("x",), q=column(range(3)))
    feed(merger, "/b", [0, 0, 0], ("y",), q=column(range(3)))
    assert merger.window(final=True) is None and merger.stamps == "header" and merger.dropped == 3


def test_of_a_joint_that_a_message_names_twice_the_first_counts():
    for wanted, names, q in ((None, ("x", "y"), [[1, 2]]), (("y", "x"), ("y", "x"), [[2, 1]])):
        merger = Merger(wanted)
        feed(merger, "/a", [10], ("x", "y", "x"), q=np.array([[1.0, 2.0, 3.0]]))
        window = merger.window(final=True)
        assert window.names == names and window.arrays["q"].tolist() == q


def test_joints_that_are_not_published_yet_cost_as_many_samples_as_there_are():
    merger = Merger(("x", "y"))
    feed(merger, "/a", [1, 2], ("x",), q=column([1, 2]))
    feed(merger, "/b", [1, 2, 3, 4, 5], ("x",), tau=column(range(5)))
    feed(merger, "/c", [1, 2, 3], ("x",), dq=column(range(3)))
    assert merger.window(final=True) is None and merger.dropped == 5


def test_messages_of_a_block_stay_in_its_order_however_they_were_decoded():
    merger = Merger(("x", "y"))
    first = Decoded(
        np.array([1, 2, 5]), np.array([11, 12, 15]), ("x", "y"), {"q": np.array([[1.0, 10], [2, 20], [5, 50]])}
    )
    other = Decoded(
        np.array([0, 3, 4]), np.array([10, 13, 14]), ("y", "x"), {"q": np.array([[0.0, 0], [30, 3], [40, 4]])}
    )
    merger.add("/a", [first, other], np.arange(100, 106))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [10, 11, 12, 13, 14, 15]
    assert window.arrays["q"].tolist() == [[k, 10.0 * k] for k in range(6)]
    merger = Merger(("x", "y"), "bag")
    merger.add("/a", [first, other], np.arange(100, 106))
    assert merger.window(final=True).stamp.tolist() == [100, 101, 102, 103, 104, 105]


@pytest.mark.parametrize(("last", "left_out"), [(10**15 + 9, 1), (10**15 - 9, 0)])
def test_a_stamp_of_zero_among_dates_was_never_set(last, left_out):
    merger = Merger(None)
    feed(merger, "/a", [last - 2, 0, last - 1, last], ("x",), q=column(range(4)))
    window = merger.window(final=True)
    assert merger.unstamped == left_out and len(window.stamp) == 4 - left_out


def test_what_is_left_out_is_counted_over_all_windows_and_publishers():
    merger, date = Merger(("x", "y")), 10**15
    for k in (1, 2, 3):
        start = date + k * S
        feed(merger, "/a", [0, start, start + 10, start + 20], ("x",), q=column(range(4)), dq=column(range(4)))
        feed(merger, "/b", [start, 0, start + 5, start + 10], ("y",), q=column(range(4)))
        window = merger.window(final=True)
        assert window.stamp.tolist() == [start, start + 10] and merger.interpolated == {"y"}
        assert merger.unstamped == 2 * k and merger.dropped == k


def test_how_many_sets_of_joints_a_topic_may_have():
    merger = Merger(("x",))
    for k in range(64):
        feed(merger, "/a", [k], ("x", f"y{k}"), q=np.ones((1, 2)))
        feed(merger, "/a", [k], (f"z{k}",), q=np.ones((1, 1)))
    with pytest.raises(InputError, match="topic /a changes its joints from message to message: 65 different sets"):
        feed(merger, "/a", [64], ("x", "y64"), q=np.ones((1, 2)))
    merger = Merger(("x",))
    for part in range(3):
        names = [f"j{part}_{k}" for k in range(6000)]
        feed(merger, "/a", [part], names, q=np.ones((1, 6000)))
    assert len(merger.seen_names) == 12_000, "beyond ten thousand names no more are kept"
    feed(merger, "/a", [9], ("x",))
    assert merger.waiting == 0 and "x" not in merger.seen_names, "a message without values says nothing"


# --- folders


def metadata(folder, files, count=None):
    content = {"relative_file_paths": files} | ({} if count is None else {"message_count": count})
    (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": content}))


def parts(folder, *names, count=10):
    """Write bag files with so many joint states each, whose positions tell the file and the row."""
    folder.mkdir()
    for number, name in enumerate(names):
        with BagWriter(folder / "tmp", name=name) as writer:
            rows = np.arange(number * 100, number * 100 + count)
            writer.write_joint_states(
                writer.add_topic("/joint_states"), ("a",), EPOCH + rows * 10**6, [rows[:, None] * 1.0, None, None]
            )
        (folder / "tmp" / f"{name}_0.mcap").rename(folder / f"{name}.mcap")
        (folder / "tmp" / "metadata.yaml").unlink()
        (folder / "tmp").rmdir()
    return folder


def test_of_metadata_four_megabytes_are_read(tmp_path):
    folder = parts(tmp_path / "bag", "b", "a")
    for size, announced in ((4 << 20, 20), ((4 << 20) + 1, None)):
        head = "rosbag2_bagfile_information:\n  relative_file_paths: [b.mcap, a.mcap]\n#"
        tail = "\n  message_count: 20"
        (folder / "metadata.yaml").write_text(head + "x" * (size - len(head) - len(tail)) + tail)
        found = open_bag(folder)
        assert (found.announced == 20) == (announced == 20) and len(found.files) == 2


def test_the_files_that_metadata_names(tmp_path):
    folder = parts(tmp_path / "bag", "b", "a", "c")

    def read(files, count=None):
        metadata(folder, files, count)
        samples = load_samples(folder)
        return sorted({int(x) // 100 for x in samples.q[:, 0]}), [str(note) for note in samples.notes]

    assert read(["b.mcap", "a.mcap", "c.mcap"]) == ([0, 1, 2], [])
    assert read(["old/folder/a.mcap", "a.mcap"]) == ([1], []), "older bags name the folder; one file counts once"
    found, notes = read(["b.mcap", "x.mcap", "c.mcap.zstd"])
    assert found == [0, 2] and notes == ["metadata.yaml names the file 'x.mcap', which is not there"]
    assert read(["x.mcap"])[0] == [0, 1, 2], "then all there are"
    for odd in ([], "b.mcap", [1], None):
        assert read(odd)[0] == [0, 1, 2]
    for count, missing in ((30, None), (31, 1), (29, None), (0, None), (-5, None), ("x", None), (99, 69)):
        _, notes = read(["b.mcap", "a.mcap", "c.mcap"], count)
        text = f"{missing} of the {count} messages announced by metadata.yaml are missing"
        assert notes == ([text] if missing else [])


def test_of_metadata_the_first_ten_thousand_files_count(tmp_path):
    folder = parts(tmp_path / "bag", "b", "a")
    for before, files in ((9_999, ["b.mcap", "a.mcap"]), (10_000, ["b.mcap"])):
        text = "rosbag2_bagfile_information:\n  relative_file_paths:\n" + "  - b.mcap\n" * before + "  - a.mcap\n"
        (folder / "metadata.yaml").write_text(text)
        assert [file.path.name for file in open_bag(folder).files] == files


def test_a_file_that_cannot_be_read_is_left_out_unless_it_is_the_only_one(tmp_path):
    folder = parts(tmp_path / "bag", "a", "b")
    metadata(folder, ["a.mcap", "b.mcap"])
    (folder / "a.mcap").write_bytes(b"rubbish")
    bag = open_bag(folder)
    assert len(bag.files) == 1 and len(bag.warnings) == 1 and "a file of the bag was left out" in bag.warnings[0]
    (folder / "b.mcap").write_bytes(b"rubbish")
    with pytest.raises(InputError, match="no file of this bag can be read"):
        open_bag(folder)
    with pytest.raises(InputError, match="not an MCAP file"):
        open_bag(folder / "a.mcap")


def test_a_folder_with_one_file_that_cannot_be_read_says_why(tmp_path):
    folder = parts(tmp_path / "bag", "a")
    metadata(folder, ["a.mcap"])
    (folder / "a.mcap").write_bytes(b"rubbish")
    with pytest.raises(InputError, match="not an MCAP file") as caught:
        open_bag(folder)
    assert str(caught.value).startswith(f"{folder / 'a.mcap'}: this is not an MCAP file; give a rosbag2 bag")


def test_a_number_of_messages_is_announced_if_it_is_one(tmp_path):
    folder = parts(tmp_path / "bag", "a")
    for count, announced in ((7, 7), (1, 1), (0, None), (-1, None), ("7", None), (None, None)):
        metadata(folder, ["a.mcap"], count)
        assert open_bag(folder).announced == announced


def test_warnings_name_the_file_where_there_are_several():
    files = [SimpleNamespace(channels=[], warnings=[text] if text else []) for text in ("cut", "", "damaged")]
    assert Bag(Path("x"), tuple(files), ("odd",)).file_warnings() == ["odd", "file 1: cut", "file 3: damaged"]
    assert Bag(Path("x"), tuple(files[:1]), ("odd",)).file_warnings() == ["odd", "cut"]


def test_of_a_folder_without_metadata_one_kind_of_file_counts(tmp_path):
    folder = parts(tmp_path / "bag", "b_10", "b_9")
    (folder / "z.db3").write_bytes(b"rubbish")
    (folder / "notes.txt").write_text("x")
    bag = open_bag(folder)
    assert [file.path.name for file in bag.files] == ["b_9.mcap", "b_10.mcap"] and bag.announced is None


# --- MCAP


def test_a_summary_of_very_many_records(tmp_path):
    """A summary is scanned in parts; what stands behind the first fifty thousand records counts too."""
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        for k in range(3):
            writer.write(channel, joint_state(("a",), k, [[k], None, None]), 1000 + k)
            writer.flush()
    file = tmp_path / "bag" / "bag_0.mcap"
    data = file.read_bytes()
    footer = len(data) - 9 - 20 - 8
    (start,) = struct.unpack_from("<Q", data, footer + 9)
    filler = bag_writer.record(0x80, b"") * 50_001
    tail = bag_writer.record(mcap.FOOTER, struct.pack("<QQI", start, 0, 0)) + mcap.MAGIC
    file.write_bytes(data[:start] + filler + data[start:footer] + tail)
    read = McapFile(file)
    assert len(read.chunks) == 3 and [(c.topic, c.count) for c in read.channels] == [("/joint_states", 3)]
    assert sum(len(block) for block in read.blocks([channel])) == 3 and not read.warnings


def test_the_first_description_of_an_id_counts(tmp_path):
    """A file that is damaged may give an id twice; messages were read by the first."""
    head = bag_writer.schema(1, JOINT_STATE, "one") + bag_writer.schema(1, "other/msg/Type", "two")
    head += bag_writer.channel(1, 1, "/j", {}) + bag_writer.channel(1, 1, "/k", {})
    (tmp_path / "a.mcap").write_bytes(bag_writer.beginning("t") + head + bag_writer.message(1, 0, 5, 5, b"data"))
    (found,) = McapFile(tmp_path / "a.mcap").channels
    assert (found.topic, found.type, found.definition, found.count) == ("/j", JOINT_STATE, "one", 1)


@pytest.mark.parametrize(("more", "known"), [(0, True), (1, False)])
def test_a_description_in_a_chunk_may_have_four_megabytes(tmp_path, more, known):
    name = "sensor_msgs/msg/JointState"
    size = (4 << 20) + more - 2 - 4 - len(name) - 4 - len("ros2msg") - 4
    records = bag_writer.schema(1, name, "#" * size) + bag_writer.channel(1, 1, "/j", {})
    records += bag_writer.message(1, 0, 5, 5, b"data")
    body = struct.pack("<QQQI", 5, 5, len(records), 0) + bag_writer.text("") + struct.pack("<Q", len(records))
    (tmp_path / "a.mcap").write_bytes(bag_writer.beginning("t") + bag_writer.record(mcap.CHUNK, body + records))
    (found,) = McapFile(tmp_path / "a.mcap").channels
    assert (found.type, found.count) == (name if known else "", 1)


@pytest.mark.parametrize(("more", "known"), [(0, True), (1, False)])
def test_a_description_may_have_four_megabytes(tmp_path, more, known):
    """No summary: the file is walked through, and a record that is too long is not read."""
    name = "sensor_msgs/msg/JointState"
    size = (4 << 20) + more - 2 - 4 - len(name) - 4 - len("ros2msg") - 4
    schema = bag_writer.schema(1, name, "#" * size)
    assert len(schema) == 9 + (4 << 20) + more
    rest = bag_writer.channel(1, 1, "/j", {}) + bag_writer.message(1, 0, 5, 5, b"data")
    (tmp_path / "a.mcap").write_bytes(bag_writer.beginning("t") + schema + rest)
    found = McapFile(tmp_path / "a.mcap")
    assert [c.type for c in found.channels] == ([name] if known else [])
    assert bool(found.warnings)


def test_a_database_that_lists_more_than_it_can_hold(tmp_path):
    import sqlite3
    from contextlib import closing

    path = tmp_path / "a.db3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE topics (id INTEGER, name TEXT, type TEXT, serialization_format TEXT)")
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp, data BLOB)")
        connection.executemany(
            "INSERT INTO messages (topic_id, timestamp, data) VALUES (1, ?, ?)", [(k, bytes(1000)) for k in range(3)]
        )
    file = SqliteFile(path)
    for spare, blocks in ((0, 1), (-1, 0)):
        file.size = 3 * (1000 + 8) + spare - (1 << 20)
        assert len(list(file.blocks([1]))) == blocks
        assert file.warnings == (
            [] if blocks else ["the database is damaged: it lists more messages than the file can hold"]
        )


# --- messages


def test_a_description_with_its_fields_in_another_order_is_followed():
    head = "std_msgs/Header header # when\nstring[] name\n"
    plain = head + "float64[] position\nfloat64[] velocity\nfloat64[] effort\n"
    turned = head + "float64[] effort\nfloat64[] velocity\nfloat64[] position\n"
    payload = joint_state(("a", "b"), 7, [[1.0, 2.0], None, [5.0, 6.0]])
    for text, q, tau in ((plain, [1, 2], [5, 6]), (turned, [5, 6], [1, 2]), ("", [1, 2], [5, 6])):
        decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr", text))
        (found,) = decoder.decode(block_of([payload], [1], [0]))
        assert (found.arrays["q"].tolist(), found.arrays["tau"].tolist()) == ([q], [tau]) and "dq" not in found.arrays
        assert found.header.tolist() == [7] and found.names == ("a", "b") and decoder.failed == 0
        (found,) = decoder.decode(block_of([joint_state((), 8, [None] * 3)], [1], [0]))
        assert found.names == () and not found.arrays, "of no joints there are no signals"
    for text, quick in ((JOINT_STATE_DEFINITION, True), (plain, True), ("", True), (turned, False)):
        assert Decoder(Channel(1, "/j", JOINT_STATE, "cdr", text)).by_layout == quick, "many at once, as it is known"
    decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr", "float64[] ] nonsense"))
    assert list(decoder.decode(block_of([payload] * 3, [1] * 3, [0] * 3))) == [] and decoder.failed == 3
    assert "description of sensor_msgs/msg/JointState cannot be read" in decoder.reason


def test_a_message_of_another_encapsulation_is_not_taken_for_one_of_the_same_form():
    good = [joint_state(("a", "b"), k, [[k, 2.0], None, None]) for k in range(3)]
    decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr"))
    (found,) = decoder.decode(block_of([good[0], b"\0\7" + good[1][2:], good[2]], [1] * 3, [0] * 3))
    assert found.rows.tolist() == [0, 2] and found.header.tolist() == [0, 2]
    assert decoder.failed == 1 and decoder.reason == "unknown encapsulation 0007"


def test_messages_that_the_library_cannot_read_are_counted_and_the_others_read():
    turned = "std_msgs/Header header\nstring[] name\nfloat64[] effort\nfloat64[] velocity\nfloat64[] position\n"
    good = [joint_state(("a",), k, [[k], None, [-k]]) for k in range(4)]
    for bad in (good[1][:-5], b"\0\1\0\0" + bytes(8) + b"\xff" * 20, b"\7" * 60):
        decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr", turned))
        found = list(decoder.decode(block_of([good[0], bad, *good[2:]], [1] * 4, [0] * 4)))
        assert [int(d.rows[0]) for d in found] == [0, 2, 3] == [int(d.header[0]) for d in found]
        assert [d.arrays["tau"].item() for d in found] == [0, 2, 3] and decoder.failed == 1 and decoder.reason


def test_messages_of_impossible_sizes_are_counted():
    good = joint_state(("a",), 7, [[1.0], None, None])
    most = 16 << 20
    decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr"))
    block = block_of([bytes(3), good, bytes(most + 1), good], [1] * 4, [0] * 4)
    rows = np.concatenate([found.rows for found in decoder.decode(block)])
    assert rows.tolist() == [1, 3] and decoder.failed == 2 and decoder.reason == "a message has an impossible size"
    decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr"))
    (found,) = decoder.decode(block_of([bytes(4), bytes(most)], [1] * 2, [0] * 2))
    assert found.rows.tolist() == [1] and not found.arrays, "zeros are a message without joints"
    assert decoder.failed == 1 and decoder.reason == "the message is too short"


@pytest.mark.parametrize("count", [5, 40])
def test_messages_of_many_forms_are_all_read_in_their_order(count):
    """More forms of one length than are kept: those left are read one by one, with the same values."""
    rng = np.random.default_rng(count)
    names = [(f"{k:02d}", "zz") for k in range(count)]
    which = rng.integers(0, count, 300)
    values = rng.normal(size=(300, 2))
    payloads = [joint_state(names[w], k, [values[k], None, -values[k]]) for k, w in enumerate(which)]
    decoder = Decoder(Channel(1, "/j", JOINT_STATE, "cdr"))
    for _ in range(2):
        seen = {}
        for found in decoder.decode(block_of(payloads, [1] * 300, [0] * 300)):
            for row, stamp, q, tau in zip(
                found.rows, found.header, found.arrays["q"], found.arrays["tau"], strict=True
            ):
                assert row not in seen and stamp == row and found.names == names[which[row]]
                seen[int(row)] = (q.tolist(), tau.tolist())
        assert seen == {k: (v.tolist(), (-v).tolist()) for k, v in enumerate(values)} and decoder.failed == 0


def stamped(sec, nanosec, **fields):
    return SimpleNamespace(
        header=SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=nanosec)), joint_names=["a", "b"], **fields
    )


def point(base, *, effort=True):
    fields = ("positions", "velocities", "accelerations", "effort")
    values = {name: np.array([base + k, base + k + 0.5]) for k, name in enumerate(fields)}
    return SimpleNamespace(**(values if effort else values | {"effort": np.zeros(0)}))


@pytest.mark.parametrize("today", [True, False])
@pytest.mark.parametrize(("effort", "output"), [(True, True), (False, True), (False, False)])
def test_points_of_a_controller(today, effort, output):
    measured, commanded = ("feedback", "reference") if today else ("actual", "desired")
    fields = {measured: point(10, effort=effort), commanded: point(20)} | ({"output": point(30)} if output else {})
    stamp, names, arrays = READERS[CONTROLLER_STATE](stamped(3, 4, **fields))
    assert stamp == 3_000_000_004 and names == ("a", "b")
    found = {field: values.tolist() for field, values in arrays.items()}
    tau = [13, 13.5] if effort else [33, 33.5] if output else []
    expected = {
        "q": [10, 10.5],
        "dq": [11, 11.5],
        "ddq": [12, 12.5],
        "tau": tau,
        "q_r": [20, 20.5],
        "tau_f": [23, 23.5],
    }
    assert found == expected


def test_interfaces_of_dynamic_joint_states():
    def interfaces(**values):
        return SimpleNamespace(interface_names=list(values), values=list(values.values()))

    first = interfaces(position=1.0, velocity=2.0, acceleration=3.0, effort=4.0, temperature=5.0, current=6.0)
    message = stamped(0, 9, interface_values=[first, interfaces(torque=7.0, position=8.0), interfaces(position=0.0)])
    stamp, names, arrays = READERS[DYNAMIC_STATE](message)
    assert stamp == 9 and names == ("a", "b")
    nan = np.nan
    expected = {"q": [1, 8], "dq": [2, nan], "ddq": [3, nan], "tau": [4, 7], "temperature": [5, nan]}
    assert set(arrays) == set(expected)
    short = SimpleNamespace(interface_names=["position", "velocity"], values=[1.5])
    _, _, few = READERS[DYNAMIC_STATE](stamped(0, 9, interface_values=[short]))
    np.testing.assert_array_equal(few["q"], [1.5, nan])
    assert set(few) == {"q"}, "names without a value say nothing"
    for field, values in expected.items():
        np.testing.assert_array_equal(arrays[field], values)


# --- samples of a bag


def test_times_of_a_bag_count_from_its_first_sample_also_if_others_are_earlier(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        for k, ms in enumerate((10, 0, 20)):
            writer.write(channel, joint_state(("a",), EPOCH + ms * 10**6, [[ms], None, None]), EPOCH + k)
    found = load_samples(tmp_path / "bag")
    assert found.t.tolist() == [-0.01, 0.0, 0.01] and found.start_ns == EPOCH + 10**7
    assert found.q[:, 0].tolist() == [0, 10, 20]


def test_pieces_are_yielded_when_so_many_wait(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        for k in range(12):
            rows = np.arange(10 * k, 10 * k + 10)
            writer.write_joint_states(channel, ("a",), EPOCH + rows * 10**6, [rows[:, None] * 1.0, None, None])
            writer.flush()
    for chunk, sizes in ((30, [30] * 4), (35, [40] * 3), (120, [120]), (10, [10] * 12), (70, [70, 50])):
        found = list(iter_samples(tmp_path / "bag", chunk=chunk))
        assert [len(piece) for piece in found] == sizes
        np.testing.assert_array_equal(np.concatenate([p.t for p in found]), np.arange(120) / 1000)
        assert {p.start_ns for p in found} == {EPOCH}
    evenly = list(iter_samples(tmp_path / "bag", chunk=70, reading=Reading(rate=50.0)))
    np.testing.assert_allclose(np.concatenate([p.t for p in evenly]), np.arange(120) / 50.0)


def test_what_waits_for_a_slower_publisher_is_no_reason_to_hurry(tmp_path):
    """One joint comes 60 samples after the other: pieces are still of about as many samples as asked for."""
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        for k in range(0, 300, 10):
            for name, rows in (("a", np.arange(k, k + 10)), ("b", np.arange(k - 60, k - 50))):
                rows = rows[rows >= 0]
                if len(rows):
                    values = [rows[:, None] * 1.0, None, None]
                    writer.write_joint_states(channel, (name,), EPOCH + rows * 10**6, values)
            writer.flush()
    robot = Robot("r", (Joint("a", 0), Joint("b", 1)))
    found = list(iter_samples(tmp_path / "bag", robot, chunk=80))
    np.testing.assert_array_equal(np.concatenate([p.t for p in found]), np.arange(240) / 1000)
    q = np.concatenate([p.q for p in found])
    np.testing.assert_allclose(q, np.arange(240.0)[:, None] * [1.0, 1.0], atol=1e-9)
    assert min(len(p) for p in found[1:-1]) >= 80, [len(p) for p in found]
    notes = []
    alone = list(iter_samples(tmp_path / "bag", chunk=50, notes=notes))
    assert {p.joint_names for p in alone} == {("a",)} and sum(map(len, alone)) == 300
    assert [note.text for note in notes] == ["ignored joints that appear only later: b"]


def test_what_a_bag_that_gives_nothing_says(tmp_path):
    for name, payload, words in (
        ("damaged", b"\0\1\0\0" + bytes(3), r"none of the 4 messages on /joint_states can be decoded \(.+\)"),
        ("blank", joint_state(("a",), 5, [None, None, None]), "there is no joint state on /joint_states; record"),
    ):
        with BagWriter(tmp_path / name) as writer:
            channel = writer.add_topic("/joint_states")
            for k in range(4):
                writer.write(channel, payload, EPOCH + k)
        with pytest.raises(InputError, match=words):
            load_samples(tmp_path / name)


def test_joints_that_are_never_there_at_the_same_time(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        for k in range(40):
            stamp = EPOCH + k * 10**6
            writer.write(channel, joint_state(("a" if k < 20 else "b",), stamp, [[k], None, None]), stamp)
    robot = Robot("r", (Joint("a", 0), Joint("b", 1)))
    with pytest.raises(InputError, match="the joints of the robot never appear together on /joint_states; record all"):
        load_samples(tmp_path / "bag", robot)


def test_times_before_the_first_that_is_known():
    """A logger may begin with rows that have no time."""
    pieces = [Samples(np.full(3, np.nan), ("a",), np.ones((3, 1))), Samples(np.arange(4.0), ("a",), np.ones((4, 1)))]
    notes = []
    found = list(in_order(lambda _: iter(pieces), notes, size=2))
    assert np.concatenate([piece.t for piece in found]).tolist() == [0, 1, 2, 3]
    assert [note.text for note in notes] == ["3 samples without a time were dropped"]


def test_messages_packed_one_by_one_are_not_played(tmp_path):
    bag = write_bag(tmp_path / "bag", plain_messages(5)[0], compression="message")
    with pytest.raises(InputError, match="compressed message by message; convert it first"):
        list(recorded_messages(bag))


def test_messages_of_a_chunk_are_played_in_the_order_of_their_times(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        a, b = writer.add_topic("/a/joint_states"), writer.add_topic("/b/joint_states")
        states = [joint_state(("x" if k % 2 else "y",), k, [[k], None, None]) for k in range(4)]
        writer.flush()  # what follows within a quarter of a second is one chunk
        for k in (3, 1, 2, 0):
            writer.write(a if k % 2 else b, states[k], EPOCH + k)
    found = [
        (m.stamp - EPOCH, m.topic) for m in recorded_messages(tmp_path / "bag", topic="/a/joint_states,b/joint_states")
    ]
    assert found == [(0, "/b/joint_states"), (1, "/a/joint_states"), (2, "/b/joint_states"), (3, "/a/joint_states")]


# --- descriptions of types


@pytest.mark.parametrize(
    ("form", "definition"),
    [
        ("ros2idl", "module m { const long X = 1 << 16000000000; struct S { long x; }; };"),
        ("ros2idl", "module m { const long X = " + "(" * 40 + "1" + ")" * 40 + "; struct S { long x; }; };"),
        ("ros2msg", "nothing/Nothing[4294967295] x\n====\nMSG: nothing/Nothing\n"),
        ("ros1msg", "nothing/Nothing[] x\n====\nMSG: nothing/Nothing\n"),
        ("ros1msg", "nothing/More[] x\n====\nMSG: nothing/More\nNothing y\n====\nMSG: nothing/Nothing\n"),
    ],
)
def test_a_description_that_stands_for_any_size_is_refused_at_once(form, definition):
    encoding = "ros1" if form == "ros1msg" else "cdr"
    channel = Channel(1, "/s", "control_msgs/msg/DynamicJointState", encoding, definition, form)
    decoder = Decoder(channel)
    assert list(decoder.decode(block_of([b"\xff" * 32], [1], [1]))) == []
    assert decoder.failed == 1 and "cannot be read" in decoder.reason
