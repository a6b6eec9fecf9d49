# SPDX-License-Identifier: Apache-2.0

"""Bags of every make read the same as by the rosbags library, value by value."""

from __future__ import annotations

import shutil
import struct

import numpy as np
import pytest
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from bagmaker import (
    EPOCH,
    JOINT_STATE,
    ROS1,
    ROS2,
    control_store,
    header,
    joint_state,
    plain_messages,
    signals,
    write_bag,
    write_bag1,
)
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Joint, Passive, Robot
from ros2_dynid.recording.read import iter_samples, load_samples
from ros2_dynid.recording.samples import Reading, Units


def robot_of(names, passive=()):
    joints = tuple(Joint(name, parent) for parent, name in enumerate(names))
    return Robot("test", joints, passive=tuple(Passive(names.index(p) + 1, {1: 1.0}) for p in passive))


def by_the_library(path, topic="/joint_states"):
    """Return stamps, names, position, velocity, effort as the rosbags library reads them."""
    rows = []
    with AnyReader([path], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
        connections = [c for c in reader.connections if c.topic == topic]
        for connection, _, raw in reader.messages(connections=connections):
            rows.append(reader.deserialize(raw, connection.msgtype))
    stamps = np.array([m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in rows])
    return (
        stamps,
        tuple(rows[0].name),
        *(np.array([getattr(m, f) for m in rows]) for f in ("position", "velocity", "effort")),
    )


def assert_equal(samples, stamps, names, q, dq, tau):
    assert samples.joint_names == tuple(names)
    assert np.array_equal(samples.start_ns + np.round(samples.t * 1e9).astype(np.int64), stamps)
    assert np.array_equal(samples.q, q)
    assert np.array_equal(samples.dq, dq)
    assert np.array_equal(samples.tau, tau)


@pytest.mark.parametrize("plugin", ["mcap", "sqlite3"])
@pytest.mark.parametrize("compression", ["none", "storage", "message", "file"])
def test_rosbag2_of_another_tool_reads_value_by_value(tmp_path, plugin, compression):
    if (plugin, compression) == ("sqlite3", "storage"):
        pytest.skip("SQLite3 has no compression of its own")
    messages, names, stamps, q, dq, tau = plain_messages(1000)
    bag = write_bag(tmp_path / "bag", messages, plugin=plugin, compression=compression)
    samples = load_samples(bag, robot_of(names))
    assert_equal(samples, stamps, names, q, dq, tau)
    assert_equal(samples, *by_the_library(bag))
    assert samples.notes == ()


@pytest.mark.parametrize("compression", ["NONE", "BZ2", "LZ4"])
def test_ros1_bags(tmp_path, compression):
    messages, names, stamps, q, dq, tau = plain_messages(500, store=ROS1)
    bag = write_bag1(tmp_path / "old.bag", messages, compression)
    assert_equal(load_samples(bag), stamps, names, q, dq, tau)
    assert_equal(load_samples(bag), *by_the_library(bag))
    logged = load_samples(bag, stamps="bag")
    assert logged.start_ns == stamps[0] + 250_000
    assert np.allclose(logged.t, 1e-9 * (stamps - stamps[0]), atol=1e-9), (
        "each was logged a quarter of a millisecond later"
    )


@pytest.mark.parametrize("plugin, ending", [("mcap", "mcap"), ("sqlite3", "db3")])
@pytest.mark.parametrize("compression", ["none", "file", "message"])
def test_bare_file_and_folder_without_metadata(tmp_path, plugin, ending, compression):
    messages, names, stamps, q, dq, tau = plain_messages(300)
    bag = write_bag(tmp_path / "bag", messages, plugin=plugin, compression=compression)
    (bag / "metadata.yaml").unlink()
    samples = load_samples(bag)
    assert_equal(samples, stamps, names, q, dq, tau)
    assert any("metadata.yaml" in note.text for note in samples.notes)
    (file,) = bag.glob(f"bag.{ending}*")
    assert_equal(load_samples(file), stamps, names, q, dq, tau)


def test_split_files_follow_each_other_by_number(tmp_path):
    messages, names, stamps, q, dq, tau = plain_messages(1100)
    folder = tmp_path / "split"
    folder.mkdir()
    for part in range(11):
        bag = write_bag(tmp_path / f"part{part}", messages[part * 100 : part * 100 + 100])
        shutil.move(bag / f"part{part}.mcap", folder / f"split_{part}.mcap")
    assert_equal(load_samples(folder), stamps, names, q, dq, tau)


def test_single_messages_without_a_stamp_are_left_out_and_counted(tmp_path):
    messages, names, stamps, q, dq, tau = plain_messages(200)
    blank = [0, 57, 58, 199]
    for k in blank:
        topic, received, _ = messages[k]
        messages[k] = (topic, received, joint_state(0, names, q[k], dq[k], tau[k]))
    samples = load_samples(write_bag(tmp_path / "bag", messages))
    kept = np.delete(np.arange(200), blank)
    assert_equal(samples, stamps[kept], names, q[kept], dq[kept], tau[kept])
    assert [note.text for note in samples.notes] == ["4 messages without a stamp were left out"]


def test_damaged_metadata_is_a_warning(tmp_path):
    messages, names, stamps, q, dq, tau = plain_messages(50)
    bag = write_bag(tmp_path / "bag", messages)
    (bag / "metadata.yaml").write_text("rosbag2_bagfile_information: [")
    samples = load_samples(bag)
    assert_equal(samples, stamps, names, q, dq, tau)
    assert "damaged" in samples.notes[0].text


def test_joints_come_in_the_robots_order_and_others_are_ignored(tmp_path):
    messages, _, stamps, q, dq, tau = plain_messages(200, joints=4)
    bag = write_bag(tmp_path / "bag", messages)
    samples = load_samples(bag, robot_of(["joint3", "joint1"]))
    assert_equal(samples, stamps, ["joint3", "joint1"], q[:, [2, 0]], dq[:, [2, 0]], tau[:, [2, 0]])
    assert "joint2, joint4" in samples.notes[0].text
    with_passive = load_samples(bag, robot_of(["joint3", "free", "joint1"], passive=["free"]))
    assert with_passive.joint_names == ("joint3", "joint1")


def test_missing_joint_is_one_readable_line(tmp_path):
    messages, *_ = plain_messages(20)
    bag = write_bag(tmp_path / "bag", messages)
    with pytest.raises(
        InputError, match="joint 'elbow' of the robot is not in the recording, which has joint1, joint2"
    ):
        load_samples(bag, robot_of(["joint1", "elbow"]))


def test_names_that_change_their_order_from_message_to_message(tmp_path):
    stamps, q, dq, tau = signals(400, 5)
    rng = np.random.default_rng(3)
    names = [f"j{k}" * (k + 1) for k in range(5)]
    messages = []
    for k, stamp in enumerate(stamps):
        order = rng.permutation(5)
        frame = "x" * int(rng.integers(0, 9))
        shuffled = joint_state(int(stamp), [names[i] for i in order], q[k, order], dq[k, order], tau[k, order], frame)
        messages.append(("/joint_states", int(stamp), shuffled))
    bag = write_bag(tmp_path / "bag", messages)
    assert_equal(load_samples(bag, robot_of(names)), stamps, names, q, dq, tau)


def test_missing_and_nan_arrays(tmp_path):
    stamps, q, _, tau = signals(60, 2)
    tau[:, 1] = np.nan
    messages = [
        ("/joint_states", int(s), joint_state(int(s), ["a", "b"], q[k], (), tau[k])) for k, s in enumerate(stamps)
    ]
    samples = load_samples(write_bag(tmp_path / "bag", messages))
    assert samples.dq is None and samples.ddq is None
    assert np.array_equal(samples.q, q)
    assert np.array_equal(samples.tau, tau, equal_nan=True)


def test_effort_that_appears_later_is_nan_before(tmp_path):
    stamps, q, dq, tau = signals(100, 2)
    messages = [
        ("/joint_states", int(s), joint_state(int(s), ["a", "b"], q[k], dq[k], tau[k] if k >= 40 else ()))
        for k, s in enumerate(stamps)
    ]
    samples = load_samples(write_bag(tmp_path / "bag", messages))
    assert np.isnan(samples.tau[:40]).all()
    assert np.array_equal(samples.tau[40:], tau[40:])
    assert np.array_equal(samples.q, q)


def smooth(t, joints):
    phase = np.arange(joints)
    return np.sin(2 * t[:, None] + phase), 2 * np.cos(2 * t[:, None] + phase), np.sin(t[:, None] + phase)


@pytest.mark.parametrize("topics", [("/joint_states", "/joint_states"), ("/left/joint_states", "/right/joint_states")])
@pytest.mark.parametrize("chunk", [65536, 300])
def test_partial_publishers_are_merged(tmp_path, topics, chunk):
    """Two arms at 500 Hz and 200 Hz with an offset, and a gripper that nobody asked for."""
    t1, t2, t3 = np.arange(0, 4, 0.002), np.arange(0.0007, 4, 0.005), np.arange(0, 4, 0.02)
    arms = []
    for t, names, topic in [
        (t1, ["a1", "a2"], topics[0]),
        (t2, ["b2", "b1"], topics[1]),
        (t3, ["finger"], topics[0]),
    ]:
        columns = [["a1", "a2", "b1", "b2", "finger"].index(name) for name in names]
        q, dq, tau = (x[:, columns] for x in smooth(t, 5))
        for k in range(len(t)):
            stamp = EPOCH + round(t[k] * 1e9)
            arms.append((topic, stamp + 300_000, joint_state(stamp, names, q[k], dq[k], tau[k])))
    arms = sorted(arms, key=lambda item: item[1])
    bag = tmp_path / "bag"
    bag.mkdir()
    for part in range(0, len(arms), 250):
        written = write_bag(tmp_path / f"part_{part}", arms[part : part + 250])
        shutil.move(written / f"part_{part}.mcap", bag)
    robot = robot_of(["a1", "b1", "b2", "a2"])
    parts = list(iter_samples(bag, robot, chunk=chunk))
    assert len(parts) > (4 if chunk == 300 else 0)
    t = np.concatenate([part.t for part in parts]) + (parts[0].start_ns - EPOCH) * 1e-9
    assert len(t) >= len(t1) - 5 and np.all(np.diff(t) > 0)
    for index, field in enumerate(("q", "dq", "tau")):
        values = np.concatenate([getattr(part, field) for part in parts])
        truth = smooth(t, 5)[index][:, [0, 2, 3, 1]]
        assert np.array_equal(np.isnan(values), np.zeros_like(values, bool))
        assert np.abs(values - truth).max() < 3e-5  # 5 ms of linear interpolation: h^2/8 |x''|
    samples = load_samples(bag, robot)
    assert any("interpolated" in note.text and "b1, b2" in note.text for note in samples.notes)


def test_position_and_effort_from_different_publishers(tmp_path):
    t = np.arange(0, 2, 0.001)
    q, dq, tau = smooth(t, 2)
    messages = []
    for k in range(len(t)):
        stamp = EPOCH + round(t[k] * 1e9)
        messages.append(("/joint_states", stamp, joint_state(stamp, ["a", "b"], q[k], dq[k])))
        messages.append(("/joint_states", stamp, joint_state(stamp, ["b", "a"], (), (), tau[k, ::-1])))
    samples = load_samples(write_bag(tmp_path / "bag", messages))
    assert np.array_equal(samples.q, q) and np.array_equal(samples.dq, dq)
    assert np.allclose(samples.tau, tau, rtol=0, atol=1e-15)


def test_no_interpolation_across_a_gap(tmp_path):
    t = np.arange(0, 3, 0.002)
    messages = []
    for time in t:
        stamp = EPOCH + round(time * 1e9)
        messages.append(("/joint_states", stamp, joint_state(stamp, ["a"], [time])))
        if not 1 < time < 2:
            messages.append(("/joint_states", stamp, joint_state(stamp, ["b"], [time])))
    samples = load_samples(write_bag(tmp_path / "bag", messages), robot_of(["a", "b"]))
    assert not np.any((samples.t > 1.001) & (samples.t < 1.999))
    assert np.array_equal(samples.q[:, 0], samples.q[:, 1])
    assert any("left out" in note.text for note in samples.notes)


def test_bag_stamps_where_all_header_stamps_are_zero(tmp_path):
    stamps, q, dq, tau = signals(100, 2)
    messages = [
        ("/joint_states", int(s), joint_state(0, ["a", "b"], q[k], dq[k], tau[k])) for k, s in enumerate(stamps)
    ]
    samples = load_samples(write_bag(tmp_path / "bag", messages))
    assert_equal(samples, stamps, ("a", "b"), q, dq, tau)
    assert "not set" in samples.notes[0].text


def test_stamps_can_be_chosen(tmp_path):
    (
        messages,
        *_,
    ) = plain_messages(50)
    bag = write_bag(tmp_path / "bag", messages)
    assert load_samples(bag, stamps="bag").start_ns == messages[0][1]
    with pytest.raises(InputError, match="choose auto, header or bag"):
        load_samples(bag, stamps="wall")


def test_late_repeated_and_reset_stamps(tmp_path):
    """As recorded for the checks; sorted, without repeats and without interleaving for the rest."""
    t = np.arange(100) * 0.01
    t[50] = t[49]
    t[60], t[61] = t[61], t[60]
    messages = [("/j", EPOCH + k, joint_state(EPOCH + round(x * 1e9), ["a"], [k])) for k, x in enumerate(t)]
    bag = write_bag(tmp_path / "bag", messages)
    assert np.array_equal(load_samples(bag, in_order=False).q[:, 0], np.arange(100))
    samples = load_samples(bag)
    assert np.all(np.diff(samples.t) > 0) and len(samples) == 99
    again = [*messages, *messages[:30]]
    samples = load_samples(write_bag(tmp_path / "reset", [(a, EPOCH + k, c) for k, (a, _, c) in enumerate(again)]))
    assert len(samples) == 99
    samples = load_samples(
        write_bag(
            tmp_path / "far",
            [("/j", k, joint_state(EPOCH + s * 10**7, ["a"], [s])) for k, s in enumerate([*range(300), *range(100)])],
        )
    )
    assert np.array_equal(samples.q[:, 0], np.arange(300))
    assert "set back" in samples.notes[0].text


def test_topic_by_name_and_by_type(tmp_path):
    messages, names, stamps, q, dq, tau = plain_messages(100)
    commands = [("/joint_commands", s, joint_state(s, names, q[k] + 1)) for k, (_, s, _) in enumerate(messages)]
    text = ROS2.types["std_msgs/msg/String"]
    other = [("/robot_description", EPOCH, text(data="<robot/>"))]
    bag = write_bag(tmp_path / "bag", [*other, *messages, *commands])
    assert_equal(load_samples(bag, robot_of(names)), stamps, names, q, dq, tau)
    assert np.array_equal(load_samples(bag, topic="joint_commands").q, q + 1)
    with pytest.raises(InputError, match="no topic 'nowhere'; choose from its topics: /joint_states, /joint_commands"):
        load_samples(bag, topic="nowhere")
    with pytest.raises(InputError, match="robot_description has type std_msgs/msg/String"):
        load_samples(bag, topic="/robot_description")
    ambiguous = write_bag(tmp_path / "two", [(t.replace("states", "x"), s, m) for t, s, m in [*messages, *commands]])
    with pytest.raises(InputError, match=r"2 topics carry joint states; choose one \(topic\)"):
        load_samples(ambiguous, robot_of(names))
    empty = write_bag(tmp_path / "none", other)
    with pytest.raises(InputError, match="no joint states, only /robot_description"):
        load_samples(empty)


@pytest.mark.parametrize("plugin", ["mcap", "sqlite3"])
def test_messages_of_ros2_control(tmp_path, plugin):
    store = control_store()
    stamps, q, dq, tau = signals(80, 2)
    value, dynamic = (store.types[f"control_msgs/msg/{n}"] for n in ("InterfaceValue", "DynamicJointState"))
    messages = []
    for k, s in enumerate(stamps):
        values = [
            value(interface_names=["effort", "position", "temperature"], values=np.array([tau[k, j], q[k, j], 40.0]))
            for j in range(2)
        ]
        message = dynamic(header=header(int(s), store=store), joint_names=["a", "b"], interface_values=values)
        messages.append(("/dynamic_joint_states", int(s), message))
    samples = load_samples(write_bag(tmp_path / "dynamic", messages, plugin=plugin, store=store))
    assert np.array_equal(samples.q, q) and np.array_equal(samples.tau, tau) and samples.dq is None
    assert samples.temperature is not None and np.array_equal(samples.temperature, np.full((80, 2), 40.0))

    state, point, duration = (
        store.types[n]
        for n in (
            "control_msgs/msg/JointTrajectoryControllerState",
            "trajectory_msgs/msg/JointTrajectoryPoint",
            "builtin_interfaces/msg/Duration",
        )
    )

    def at(*arrays):
        filled = [np.array(a, float) for a in arrays]
        return point(*filled, time_from_start=duration(sec=0, nanosec=0))

    messages = []
    for k, s in enumerate(stamps):
        message = state(
            header=header(int(s), store=store),
            joint_names=["a", "b"],
            reference=at(q[k] + 9, (), (), ()),
            feedback=at(q[k], dq[k], (), ()),
            error=at((), (), (), ()),
            output=at((), (), (), tau[k]),
        )
        messages.append(("/controller_state", int(s), message))
    samples = load_samples(write_bag(tmp_path / "controller", messages, plugin=plugin, store=store))
    assert np.array_equal(samples.q, q) and np.array_equal(samples.dq, dq) and np.array_equal(samples.tau, tau)


def test_big_endian_and_garbage_in_the_padding(tmp_path):
    """What other middlewares may write: values count, bytes between them do not."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    stamps, q, dq, tau = signals(64, 3)
    names = ["a", "bcd", "ef"]
    rng = np.random.default_rng(0)
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection("/joint_states", JOINT_STATE, typestore=ROS2)
        for k, s in enumerate(stamps):
            message = joint_state(int(s), names, q[k], dq[k], tau[k], frame="ab")
            raw = bytearray(ROS2.serialize_cdr(message, JOINT_STATE, little_endian=bool(k % 2)))
            assert struct.unpack_from("<>"[1 - k % 2] + "I", raw, 12)[0] == 3
            raw[19] = rng.integers(256)  # the one byte of padding behind frame_id
            writer.write(topic, int(s), raw)
    assert_equal(load_samples(tmp_path / "bag"), stamps, names, q, dq, tau)


def test_undecodable_messages_are_counted_and_left_out(tmp_path):
    from rosbags.rosbag2 import StoragePlugin, Writer

    stamps, q, dq, tau = signals(50, 2)
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection("/joint_states", JOINT_STATE, typestore=ROS2)
        for k, s in enumerate(stamps):
            raw = bytearray(ROS2.serialize_cdr(joint_state(int(s), ["a", "b"], q[k], dq[k], tau[k]), JOINT_STATE))
            if k in (7, 20):
                raw[24:28] = b"\xff\xff\xff\x7f"
            writer.write(topic, int(s), raw)
    samples = load_samples(tmp_path / "bag")
    keep = np.setdiff1d(np.arange(50), [7, 20])
    assert np.array_equal(samples.q, q[keep])
    assert any("2 messages could not be decoded" in note.text for note in samples.notes)


def test_chunks_are_yielded_as_they_come(tmp_path):
    messages, _, _, q, *_ = plain_messages(5000)
    bag = write_bag(tmp_path / "bag", messages, plugin="sqlite3")
    parts = list(iter_samples(bag, chunk=1000, reading=Reading(topic="/joint_states")))
    assert len(parts) >= 2
    assert np.array_equal(np.concatenate([part.q for part in parts]), q)


def test_a_path_that_is_no_recording(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_samples(tmp_path / "nothing")
    with pytest.raises(InputError, match="holds no"):
        load_samples(tmp_path)
    (tmp_path / "a.xyz").write_text("x")
    with pytest.raises(InputError, match="give a rosbag2 folder"):
        load_samples(tmp_path / "a.xyz")
    for ending in ("mcap", "db3", "bag", "npz", "csv"):
        for content in (b"", b"rubbish" * 10):
            (tmp_path / f"a.{ending}").write_bytes(content)
            with pytest.raises(InputError):
                load_samples(tmp_path / f"a.{ending}")


def test_a_bag_in_other_units(tmp_path):
    messages, _, _, q, dq, tau = plain_messages(100)
    bag = write_bag(tmp_path / "bag", messages)
    samples = load_samples(bag, units=Units(time="ms", angle="deg", effort="mN.m"))
    assert np.allclose(samples.q, np.radians(q)) and np.allclose(samples.dq, np.radians(dq))
    assert np.allclose(samples.tau, 1e-3 * tau) and samples.t[-1] == load_samples(bag).t[-1]
