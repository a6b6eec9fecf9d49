# SPDX-License-Identifier: Apache-2.0

"""What a bag's writer holds and lets go: chunks by size and age, space in reserve, syncing, and a disk that fails."""

from __future__ import annotations

import errno
import os
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from mcap.reader import make_reader

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import writer as module
from ros2_dynid.recording.bag.writer import BagWriter, WriteError, joint_state

START = 1_700_000_000_000_000_000


def payload(k=0):
    return joint_state(("a",), START + k, [[float(k)], None, None])


def chunks(path):
    """Return (first time, last time, unpacked size) of each chunk as mcap's own library reads it."""
    (file,) = Path(path).glob("*.mcap")
    with file.open("rb") as stream:
        summary = make_reader(stream, validate_crcs=True).get_summary()
    return [(c.message_start_time, c.message_end_time, c.uncompressed_size) for c in summary.chunk_indexes]


def of_folder(path):
    """Return what of a folder, also deleted, this process holds open."""
    links = [Path("/proc/self/fd") / name.name for name in Path("/proc/self/fd").iterdir()]
    found = [str(link.readlink()) for link in links if link.is_symlink()]
    return [target for target in found if target.startswith(str(path))]


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module.time, "monotonic", made)
    return made


# --- chunks


@pytest.mark.parametrize("many", [True, False])
def test_a_chunk_ends_at_three_quarters_of_a_megabyte(tmp_path, clock, many):
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        names = tuple(f"joint_{k}" for k in range(50))
        if many:
            writer.write_joint_states(channel, names, START + np.arange(2000), [np.ones((2000, 50))] * 3)
        else:
            one = joint_state(names, START, [np.ones(50)] * 3)
            for k in range(1300):
                writer.write(channel, one, START + k)
    found = chunks(tmp_path / "bag")
    most = 1_600_000 if many else 800_000  # many go into a chunk in parts, none of which is larger than a chunk
    assert all(700_000 < c[2] < most for c in found[:-1]) and found[-1][2] < most and len(found) > 2
    assert all(a[1] + 1 == b[0] for a, b in pairwise(found))


def test_a_chunk_is_written_when_it_is_a_quarter_of_a_second_old(tmp_path, clock):
    writer = BagWriter(tmp_path / "bag")
    (file,) = (tmp_path / "bag").glob("*.mcap")
    size = file.stat().st_size
    clock.now += 5.0
    writer.poll()
    channel = writer.add_topic("/joint_states")
    clock.now += 5.0
    writer.poll()
    assert writer.count == 0 and file.stat().st_size == size, "topics without messages wait"
    writer.flush()
    writer.write(channel, payload(), START)
    clock.now += 0.24
    writer.poll()
    writer.write(channel, payload(1), START + 1)
    assert writer.count == 0
    clock.now += 0.02
    writer.poll()
    assert writer.count == 2
    writer.write(channel, payload(2), START + 2)
    writer.poll()
    assert writer.count == 2, "the age counts from the last chunk"
    clock.now += 0.26
    writer.write(channel, payload(3), START + 3)
    assert writer.count == 4, "also without poll"
    clock.now += 5.0
    writer.poll()
    writer.close()
    assert [c[:2] for c in chunks(tmp_path / "bag")] == [(0, 0), (START, START + 1), (START + 2, START + 3)]
    writer.poll()
    writer.close()
    assert writer.count == 4
    for act in (lambda: writer.write(channel, payload(), START), lambda: writer.add_topic("/late"), writer.flush):
        with pytest.raises(InputError, match="the bag is closed; open a new one"):
            act()


def test_messages_are_numbered_by_channel_and_keep_both_their_times(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        a, b = writer.add_topic("/a"), writer.add_topic("/b")
        writer.write(a, payload(0), START + 50, START + 40)
        writer.write_joint_states(b, ("a",), np.array([START + 60, START + 55]), [np.ones((2, 1)), None, None])
        writer.write(a, payload(1), START + 45)
        writer.write(b, payload(2), START + 70, 0)
        writer.sequence[b] = 2**32 - 1
        writer.write_joint_states(b, ("a",), np.array([START + 80, START + 81]), [np.ones((2, 1)), None, None])
        writer.write(b, payload(3), START + 82)
    with (tmp_path / "bag" / "bag_0.mcap").open("rb") as stream:
        found = [
            (c.topic, m.sequence, m.log_time - START, m.publish_time - START)
            for _, c, m in make_reader(stream).iter_messages(log_time_order=False)
        ]
    assert sorted(found, key=lambda row: row[2]) == [
        ("/a", 1, 45, 45), ("/a", 0, 50, 40), ("/b", 1, 55, 55), ("/b", 0, 60, 60), ("/b", 2, 70, -START),
        ("/b", 2**32 - 1, 80, 80), ("/b", 0, 81, 81), ("/b", 1, 82, 82),
    ]  # fmt: skip
    information = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["starting_time"] == {"nanoseconds_since_epoch": START + 45}
    assert information["duration"] == {"nanoseconds": 37} and information["message_count"] == 8
    counts = {t["topic_metadata"]["name"]: t["message_count"] for t in information["topics_with_message_count"]}
    assert counts == {"/a": 2, "/b": 6}


def test_chunks_may_go_back_in_time(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        channel = writer.add_topic("/joint_states")
        for k in (50, 90, 20, 60):
            writer.write(channel, payload(k), START + k)
            writer.flush()
    information = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["starting_time"] == {"nanoseconds_since_epoch": START + 20}
    assert information["duration"] == {"nanoseconds": 70}
    with (tmp_path / "bag" / "bag_0.mcap").open("rb") as stream:
        statistics = make_reader(stream).get_summary().statistics
    assert (statistics.message_start_time, statistics.message_end_time) == (START + 20, START + 90)


def test_a_bag_without_messages_begins_when_it_was_made(tmp_path):
    before = time.time_ns()
    writer = BagWriter(tmp_path / "bag", name="other")
    after = time.time_ns()
    writer.close()
    information = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert before <= information["starting_time"]["nanoseconds_since_epoch"] <= after
    assert information["duration"] == {"nanoseconds": 0} and information["relative_file_paths"] == ["other_0.mcap"]
    with (tmp_path / "bag" / "other_0.mcap").open("rb") as stream:
        statistics = make_reader(stream).get_summary().statistics
    assert (statistics.message_start_time, statistics.message_end_time) == (0, 0)
    with pytest.raises(InputError, match="unknown compression 'lz4'; choose none or zstd"):
        BagWriter(tmp_path / "next", compression="lz4")
    assert not (tmp_path / "next").exists()


# --- what it holds


def test_nothing_stays_open_behind_a_bag(tmp_path):
    others = set(threading.enumerate())
    writer = BagWriter(tmp_path / "bag")
    (syncer,) = set(threading.enumerate()) - others
    assert syncer.name == "bag-sync" and syncer.daemon
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "bag" / "bag_0.mcap").stat().st_mode & 0o7777 == 0o644 & ~umask
    assert len(of_folder(tmp_path)) == 2, "the file, and the space in reserve"
    writer.write(writer.add_topic("/joint_states"), payload(), START)
    writer.flush()
    assert len(of_folder(tmp_path)) == 2
    writer.close()
    assert of_folder(tmp_path) == []
    syncer.join(0.5)
    assert not syncer.is_alive(), "it does not wait for its next turn"
    assert sorted(p.name for p in (tmp_path / "bag").iterdir()) == ["bag_0.mcap", "metadata.yaml"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_disk_without_room_for_the_reserve_is_refused_at_once(tmp_path, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    if number in (errno.EOPNOTSUPP, errno.EINVAL):  # a filesystem that cannot reserve space
        with BagWriter(tmp_path / "bag") as writer:
            writer.write(writer.add_topic("/joint_states"), payload(), START)
        assert len(chunks(tmp_path / "bag")) == 1
        return
    words = "File too large" if number == errno.EFBIG else "the disk is full"
    with pytest.raises(InputError, match=f"{words}; free 2 MB at least, or record elsewhere") as caught:
        BagWriter(tmp_path / "bag")
    assert list(tmp_path.iterdir()) == [] and of_folder(tmp_path) == [], "though the error holds the writer"
    assert caught.tb is not None


# --- syncing


# --- a disk that fails


@pytest.mark.parametrize("times", [1, 2, 10])
def test_what_a_full_disk_keeps_is_told_and_ended_properly(tmp_path, monkeypatch, times):
    """The reserve is let go first: then there is room for the chunk (1), or for the end only (2), or for nothing."""
    writer = BagWriter(tmp_path / "bag")
    channel = writer.add_topic("/joint_states")
    for k in range(3):
        writer.write(channel, payload(k), START + k)
    writer.flush()
    for k in range(3, 7):
        writer.write(channel, payload(k), START + k)
    failed, write = [], os.write

    def full(fd, data):
        if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".mcap" and len(failed) < times:
            failed.append(len(of_folder(tmp_path)) == 2)  # the space in reserve is still there
            raise OSError(errno.ENOSPC, "no space")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WriteError, match="the disk is full") as caught:
        writer.flush()
    kept = 7 if times == 1 else 3
    assert caught.value.kept == kept == writer.count and caught.value is writer.error
    assert f"the {kept} messages written so far are kept" in str(caught.value)
    assert failed[0] and not any(failed[1:]), "the reserve goes before the second try"
    assert of_folder(tmp_path) == []
    with pytest.raises(WriteError):
        writer.write(channel, payload(9), START)
    writer.poll()
    writer.close()
    if times < 10:
        stamps = [c[:2] for c in chunks(tmp_path / "bag")]
        assert stamps == [(START, START + 2), (START + 3, START + 6)][: 2 if times == 1 else 1]


def test_an_end_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    writer = BagWriter(tmp_path / "bag")
    writer.write(writer.add_topic("/joint_states"), payload(), START)
    writer.flush()

    def fail(fd, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(WriteError, match="Input/output error; the 1 messages") as caught:
        writer.close()
    assert writer.error is caught.value and of_folder(tmp_path) == []
    writer.close()
    writer.poll()


def test_bags_close_with_an_error_too(tmp_path):
    others = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), BagWriter(tmp_path / "bag") as writer:
        writer.write(writer.add_topic("/joint_states"), payload(), START)
        raise ZeroDivisionError
    assert len(chunks(tmp_path / "bag")) == 1
    for thread in set(threading.enumerate()) - others:
        thread.join(5.0)
        assert not thread.is_alive(), f"{thread.name} has not ended within 5 s"
