# SPDX-License-Identifier: Apache-2.0

"""Bags that we write open with a tool that is not ours, and survive kill -9, a full disk and a second try."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from bagmaker import EPOCH, ROS2, joint_state
from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag import writer as bag_writer
from ros2_dynid.recording.bag.definitions import describe
from ros2_dynid.recording.bag.writer import BagWriter, WriteError
from ros2_dynid.recording.read import load_samples

NAMES = ("shoulder", "elbow.left", "größe")
STORE = get_typestore(Stores.ROS2_JAZZY)


def messages_of(path):
    """Return (topic, log time, message) of a bag as the rosbags library reads it."""
    with Reader(path) as reader:
        return [(c.topic, t, STORE.deserialize_cdr(raw, c.msgtype)) for c, t, raw in reader.messages()]


def some_arrays(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, len(NAMES))) for _ in range(3)]


@pytest.mark.parametrize("velocity", [True, False])
def test_a_joint_state_is_what_the_library_writes(velocity):
    rng = np.random.default_rng(1)
    for stamp in (0, EPOCH, 2**31 * 10**9 - 1):
        q, dq, tau = rng.normal(size=(3, 3))
        arrays = [q, dq if velocity else None, tau]
        ours = bag_writer.joint_state(NAMES, stamp, arrays, frame_id="base")
        theirs = ROS2.serialize_cdr(
            joint_state(stamp, NAMES, q, dq if velocity else (), tau, frame="base"), "sensor_msgs/msg/JointState"
        )
        assert ours == bytes(theirs)
        (many,) = bag_writer.joint_states(NAMES, np.array([stamp]), [a if a is None else a[None] for a in arrays])
        assert many.tobytes() == bag_writer.joint_state(NAMES, stamp, arrays)


def test_the_description_of_joint_state_is_ros2s_own():
    text, type_hash = describe("sensor_msgs/msg/JointState")
    assert type_hash == STORE.hash_rihs01("sensor_msgs/msg/JointState")
    theirs = STORE.generate_msgdef("sensor_msgs/msg/JointState", ros_version=2)[0]
    assert text.split() == theirs.split()
    with pytest.raises(InputError, match="message type 'my_msgs/msg/Own' is not known; give its definition text"):
        describe("my_msgs/msg/Own")


@pytest.mark.parametrize("compression", ["", "zstd"])
def test_written_bags_open_with_the_library(tmp_path, compression):
    count = 5000
    stamps = EPOCH + np.arange(count) * 1_000_000
    arrays = some_arrays(count)
    text = STORE.types["std_msgs/msg/String"](data="<robot/>")
    with BagWriter(tmp_path / "bag", compression=compression, custom={"robot": "test"}) as writer:
        channel = writer.add_topic("/joint_states")
        writer.write_joint_states(channel, NAMES, stamps, arrays)
        description = writer.add_topic("/robot_description", "std_msgs/msg/String", latched=True)
        writer.write(description, bytes(STORE.serialize_cdr(text, "std_msgs/msg/String")), EPOCH + 5 * 10**9)
        one = bag_writer.joint_state(NAMES, EPOCH + 6 * 10**9, [a[0] for a in arrays])
        writer.write(channel, one, EPOCH + 6 * 10**9)
    found = messages_of(tmp_path / "bag")
    assert len(found) == count + 2
    states = [message for topic, _, message in found if topic == "/joint_states"]
    assert [t for topic, t, _ in found if topic == "/joint_states"][:count] == stamps.tolist()
    for index, field in enumerate(("position", "velocity", "effort")):
        assert np.array_equal([getattr(m, field) for m in states[:count]], arrays[index])
    assert tuple(states[0].name) == NAMES
    assert [message.data for topic, _, message in found if topic == "/robot_description"] == ["<robot/>"]
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == count + 2
        assert (reader.start_time, reader.duration) == (EPOCH, 6 * 10**9 + 1)
        counts = {c.topic: c.msgcount for c in reader.connections}
        assert counts == {"/joint_states": count + 1, "/robot_description": 1}
        qos = next(c.ext.offered_qos_profiles for c in reader.connections if c.topic == "/robot_description")
        assert qos[0].durability.name == "TRANSIENT_LOCAL"
    information = yaml.safe_load((tmp_path / "bag/metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["relative_file_paths"] == ["bag_0.mcap"]
    assert information["custom_data"] == {"robot": "test"}
    assert sorted(p.name for p in (tmp_path / "bag").iterdir()) == ["bag_0.mcap", "metadata.yaml"]
    samples = load_samples(tmp_path / "bag")
    assert np.array_equal(samples.tau[:count], arrays[2])


def test_an_earlier_bag_is_never_touched(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        writer.write_joint_states(writer.add_topic("/j"), NAMES, np.array([EPOCH]), some_arrays(1))
    before = {p.name: p.read_bytes() for p in (tmp_path / "bag").iterdir()}
    with pytest.raises(InputError, match="exists already; choose another name"):
        BagWriter(tmp_path / "bag")
    assert {p.name: p.read_bytes() for p in (tmp_path / "bag").iterdir()} == before
    with pytest.raises(InputError, match="the bag is closed"):
        writer.flush()


def test_an_empty_bag_is_valid(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        writer.add_topic("/joint_states")
    assert messages_of(tmp_path / "bag") == []
    with pytest.raises(InputError, match="has no message that can be read"):
        load_samples(tmp_path / "bag")


def test_messages_reach_the_file_within_a_second_without_close(tmp_path):
    writer = BagWriter(tmp_path / "bag")
    channel = writer.add_topic("/joint_states")
    stamp = EPOCH
    for _ in range(3):
        writer.write(channel, bag_writer.joint_state(NAMES, stamp, [np.zeros(3)] * 3), stamp)
        stamp += 10**9
    time.sleep(0.6)
    writer.poll()
    samples = load_samples(tmp_path / "bag")
    assert len(samples) == 3
    assert any("not closed" in note.text for note in samples.notes)
    writer.close()
    assert load_samples(tmp_path / "bag").notes == ()


RECORDER = """
import sys, time
from ros2_dynid.recording.bag.writer import joint_state
from ros2_dynid.recording.bag.writer import BagWriter
writer = BagWriter(sys.argv[1])
channel = writer.add_topic("/joint_states")
start, k = time.monotonic(), 0
while True:
    now = time.time_ns()
    writer.write(channel, joint_state(("a", "b"), now, [(k, k), (0.0, 0.0), (1.0, 1.0)]), now)
    k += 1
    if k % 50 == 0:
        print(k, flush=True)
    time.sleep(max(0.0, start + k * 1e-3 - time.monotonic()))
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_leaves_everything_up_to_the_last_second(tmp_path, seed):
    process = subprocess.Popen([sys.executable, "-c", RECORDER, str(tmp_path / "bag")], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    time.sleep(random.Random(seed).uniform(0.9, 1.8))
    process.send_signal(signal.SIGKILL)
    killed = time.time_ns()
    written = int(process.stdout.read().split()[-1])
    process.wait(30.0)
    samples = load_samples(tmp_path / "bag")
    assert np.array_equal(samples.q[:, 0], np.arange(len(samples)))
    assert killed - (samples.start_ns + samples.t[-1] * 1e9) < 1e9
    assert written - 1000 <= len(samples)
    assert (tmp_path / "bag/metadata.yaml").exists()


def _limited(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_is_an_error_and_keeps_what_there_was(tmp_path):
    """The kernel refuses to let the file grow, in the middle of a chunk."""
    code = """
import sys
import numpy as np
from ros2_dynid.errors import DynidError
from ros2_dynid.recording.bag.writer import BagWriter
writer = BagWriter(sys.argv[1])
channel = writer.add_topic("/joint_states")
try:
    for k in range(1000):
        stamps = 10**18 + np.arange(k * 1000, k * 1000 + 1000) * 10**6
        q = np.arange(k * 1000, k * 1000 + 1000.0)[:, None]
        writer.write_joint_states(channel, ("a",), stamps, [q, None, None])
        writer.flush()
except DynidError as error:
    print(error)
writer.close()
"""
    command = [sys.executable, "-c", code, str(tmp_path / "bag")]
    done = subprocess.run(command, preexec_fn=_limited(3_000_000), capture_output=True, text=True, check=True)
    assert "messages written so far are kept" in done.stdout
    assert done.stdout.count("\n") == 1
    kept = int(re.search(r"the (\d+) messages", done.stdout)[1])
    samples = load_samples(tmp_path / "bag")
    assert len(samples) == kept > 20_000
    assert np.array_equal(samples.q[:, 0], np.arange(kept))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_without_room_still_gets_a_complete_bag(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        writer = BagWriter(disk / "bag")
        channel = writer.add_topic("/joint_states")
        with pytest.raises(WriteError, match="the disk is full") as caught:
            for k in range(1000):
                stamps = EPOCH + np.arange(k * 1000, k * 1000 + 1000) * 10**6
                writer.write_joint_states(channel, NAMES, stamps, some_arrays(1000, k))
        with pytest.raises(WriteError):
            writer.flush()
        writer.close()
        assert len(messages_of(disk / "bag")) == caught.value.kept > 5000
        assert load_samples(disk / "bag").notes == ()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_times_that_a_stamp_cannot_hold_are_refused():
    with pytest.raises(InputError, match="1901 to 2038"):
        bag_writer.joint_states(("a",), np.array([2**62]), [np.zeros((1, 1)), None, None])


def test_a_bag_is_on_the_disk_before_it_is_called_complete(tmp_path, monkeypatch):
    done = []
    fsync, replace_file = os.fsync, Path.replace

    def synced(handle):
        done.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def replaced(path, target):
        done.append(f"{path.name} -> {Path(target).name}")
        return replace_file(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    writer = BagWriter(tmp_path / "bag")
    place = ".metadata.yaml.new -> metadata.yaml"
    assert done == [".metadata.yaml.new", place, "bag", tmp_path.name], "the folder's own entry too"
    done.clear()
    writer.close()
    (data,) = (file.name for file in (tmp_path / "bag").glob("*.mcap"))
    assert done == [data, ".metadata.yaml.new", place, "bag"]
