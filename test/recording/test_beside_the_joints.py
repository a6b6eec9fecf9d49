# SPDX-License-Identifier: Apache-2.0

"""What comes beside joint states: wrenches and torques on topics of their own; remote files; reading ahead; saving."""

from __future__ import annotations

import bz2
import io
import os
import struct
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from bagmaker import EPOCH, ROS1, ROS2, header, plain_messages, write_bag, write_bag1
from bagmaker import joint_state as bag_state
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Robot
from ros2_dynid.recording.bag import rosbag1_file, storage
from ros2_dynid.recording.bag.read_bag import Bag, choose_topics
from ros2_dynid.recording.bag.rosbag1_file import MAGIC, Rosbag1File
from ros2_dynid.recording.bag.storage import Budget, Channel, DamagedDataError, compress_zstd, decompress
from ros2_dynid.recording.bag.writer import BagWriter, joint_state
from ros2_dynid.recording.checks.problems import GREEN, RED, YELLOW, RecordingProblem
from ros2_dynid.recording.checks.recording_check import check_samples, derived_velocity, with_problems
from ros2_dynid.recording.playback import recorded_messages
from ros2_dynid.recording.read import Growing, ahead, iter_samples, load_samples
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import Reading, Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.recording.torque_topic import MAX_GAP_S, with_torques
from ros2_dynid.recording.wrench import read_wrenches

# --- wrenches in bags


def wrench(stamp, values, frame="wrist", store=ROS2, seq=None):
    vector = store.types["geometry_msgs/msg/Vector3"]
    force, torque = (vector(*(float(x) for x in part)) for part in (values[:3], values[3:]))
    inside = store.types["geometry_msgs/msg/Wrench"](force=force, torque=torque)
    return store.types["geometry_msgs/msg/WrenchStamped"](header=header(stamp, frame, store, seq), wrench=inside)


def wrenches(count=30, *, store=ROS2, frame="wrist", stamped=True):
    """Return messages 10 ms apart, logged 3 ms after they were stamped, and their values."""
    values = np.random.default_rng(0).normal(size=(count, 6))
    stamps = EPOCH + np.arange(count) * 10_000_000
    messages = [
        ("/ft", int(s) + 3_000_000, wrench(int(s) if stamped else 0, w, frame, store, 7 if store is ROS1 else None))
        for s, w in zip(stamps, values, strict=True)
    ]
    return messages, values


@pytest.mark.parametrize("frame", ["", "w", "wri", "wrist_3_link"])
@pytest.mark.parametrize(
    ("make", "compressed"), [("mcap", "none"), ("mcap", "message"), ("sqlite3", "none"), ("ros1", "")]
)
def test_wrenches_of_bags(tmp_path, frame, make, compressed):
    messages, values = wrenches(store=ROS1 if make == "ros1" else ROS2, frame=frame)
    if make == "ros1":
        bag = write_bag1(tmp_path / "b.bag", messages)
    else:
        bag = write_bag(tmp_path / "bag", messages, plugin=make, compression=compressed)
    found = read_wrenches(bag, "ft", EPOCH - 500_000_000)
    np.testing.assert_array_equal(found.w, values)
    np.testing.assert_allclose(found.t, 0.5 + 0.01 * np.arange(30), atol=1e-9)
    assert found.frame == frame
    logged = read_wrenches(bag, "/ft", EPOCH, Reading(stamps="bag"))
    np.testing.assert_allclose(logged.t, 0.003 + 0.01 * np.arange(30), atol=1e-9)


def test_wrenches_without_stamps_are_timed_by_the_bag(tmp_path):
    messages, values = wrenches(20, stamped=False)
    bag = write_bag(tmp_path / "bag", messages)
    found = read_wrenches(bag, "/ft", EPOCH)
    np.testing.assert_allclose(found.t, 0.003 + 0.01 * np.arange(20), atol=1e-9)
    np.testing.assert_array_equal(found.w, values)
    with pytest.raises(InputError, match="only 1 wrenches"):
        read_wrenches(bag, "/ft", EPOCH, Reading(stamps="header"))


def test_single_wrenches_without_a_stamp_are_left_out(tmp_path):
    messages, values = wrenches(30)
    for k in (0, 7):
        messages[k] = ("/ft", messages[k][1], wrench(0, values[k]))
    bag = write_bag(tmp_path / "bag", messages)
    kept = np.delete(np.arange(30), (0, 7))
    found = read_wrenches(bag, "/ft", EPOCH)
    np.testing.assert_allclose(found.t, 0.01 * kept, atol=1e-9)
    np.testing.assert_array_equal(found.w, values[kept])
    assert len(read_wrenches(bag, "/ft", EPOCH, Reading(stamps="bag")).t) == 30
    simulated = [("/ft", k, wrench(k * 10_000_000, w)) for k, w in enumerate(values)]  # its time begins at zero
    assert len(read_wrenches(write_bag(tmp_path / "simulated", simulated), "/ft", 0).t) == 30


def test_wrenches_that_are_not_there(tmp_path):
    messages, *_ = plain_messages(20)
    bag = write_bag(tmp_path / "bag", [*messages, *wrenches(20)[0]])
    with pytest.raises(InputError, match=r"no topic 'wrist'; choose a topic of type geometry_msgs/msg/Wrench.*: /ft"):
        read_wrenches(bag, "wrist", 0)
    with pytest.raises(InputError, match="topic joint_states has type sensor_msgs/msg/JointState"):
        read_wrenches(bag, "joint_states", 0)
    only = write_bag(tmp_path / "only", messages)
    with pytest.raises(InputError, match="there is none"):
        read_wrenches(only, "ft", 0)


def test_damaged_wrenches_are_left_out(tmp_path):
    good = [ROS2.serialize_cdr(m, m.__msgtype__) for _, _, m in wrenches(20)[0]]
    for name, cut, left in (("some", 2, 18), ("all", 20, 0)):
        with BagWriter(tmp_path / name) as writer:
            channel = writer.add_topic("/ft", "geometry_msgs/msg/WrenchStamped", definition="")
            for k, data in enumerate(good):
                writer.write(channel, bytes(data)[: -8 if k < cut else None], EPOCH + k)
        if left:
            assert len(read_wrenches(tmp_path / name, "/ft", EPOCH).t) == left
        else:
            with pytest.raises(InputError, match=r"no wrench on /ft can be read \(20 damaged\)"):
                read_wrenches(tmp_path / name, "/ft", EPOCH)


# --- torques at the links


def states(t, names, tau, start_ns=0):
    t = np.asarray(t, float)
    return Samples(t, tuple(names), np.zeros((len(t), len(names))), tau=tau, start_ns=start_ns)


def test_torques_are_interpolated_at_the_times_of_the_states():
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0.0, 4.0, 400))
    known = np.arange(0.5, 3.0, 0.02)
    known = known[(known < 1.2) | (known > 1.5)]  # a pause
    y = np.column_stack((np.sin(known), 3.0 * known))
    y[10, 0] = np.nan
    offset = 0.25  # the torques' times count from a later stamp
    pieces = [states(part, ("a", "b", "c"), None, 10**9) for part in np.split(t, (100, 101, 250))]
    torques = [
        states(known[k] - offset, ("b", "x", "a"), np.column_stack((y[k, 1], 0 * known[k], y[k, 0])), 1_250_000_000)
        for k in np.split(np.arange(len(known)), (1, 30, 30, 60))
    ]
    found = list(with_torques(iter(pieces), iter(torques), "bag"))
    assert [len(p) for p in found] == [100, 1, 149, 150]
    tau = np.concatenate([p.tau_l for p in found])
    for column, values in ((0, y[:, 0]), (1, y[:, 1])):
        good = np.isfinite(values)
        x, z = known[good], values[good]
        expected = np.interp(t, x, z)
        after = np.searchsorted(x, t).clip(1, len(x) - 1)
        expected[(t < x[0]) | (t > x[-1]) | (x[after] - x[after - 1] > MAX_GAP_S)] = np.nan
        assert 0.3 < np.isfinite(expected).mean() < 0.9
        np.testing.assert_allclose(tau[:, column], expected, atol=1e-12)
    assert np.isnan(tau[:, 2]).all()


def test_torques_of_nobody_are_refused_and_a_single_one_says_nothing():
    pieces = [states(np.arange(5) / 10, ("a",), None)]
    for torques in ([states([0.0, 0.5], ("x", "y"), np.zeros((2, 2)))], [states([0.0, 0.5], ("a",), None)], []):
        with pytest.raises(InputError, match="no efforts of the robot's joints"):
            list(with_torques(iter(pieces), iter(torques), "bag"))
    (found,) = with_torques(iter(pieces), iter([states([0.2], ("a",), np.ones((1, 1)))]), "bag")
    assert np.isnan(found.tau_l).all()
    assert MAX_GAP_S == 0.1
    near, far = MAX_GAP_S * 0.99, MAX_GAP_S * 1.01
    for step, known in ((near, True), (far, False)):
        pieces = [states([step / 2], ("a",), None)]
        (found,) = with_torques(iter(pieces), iter([states([0.0, step], ("a",), np.array([[1.0], [3.0]]))]), "bag")
        assert found.tau_l[0, 0] == pytest.approx(2.0) if known else np.isnan(found.tau_l[0, 0])


def test_torques_are_kept_for_states_that_come_late():
    """A second at least: states may be late by that much, and torques come in pieces of their own."""
    t = np.arange(0.0, 10.0, 0.05)
    torques = [states(t[k : k + 4], ("a",), 2.0 * t[k : k + 4, None]) for k in range(0, len(t), 4)]
    late = [np.array([2.0, 3.0, 4.0]), np.array([3.01, 4.5]), np.array([3.51, 6.0]), np.array([5.01])]
    pieces = [states(part, ("a",), None) for part in late]
    found = np.concatenate([p.tau_l for p in with_torques(iter(pieces), iter(torques), "bag")])
    np.testing.assert_allclose(found[:, 0], 2.0 * np.concatenate(late))


def test_torques_that_come_late_are_put_in_order():
    t, tau = np.array([0.0, 0.06, 0.02, 0.04, 0.08]), np.array([1.0, 9.0, 3.0, 1.0, 5.0])
    at = [0.01, 0.03, 0.05, 0.07]
    (found,) = with_torques(iter([states(at, ("a",), None)]), iter([states(t, ("a",), tau[:, None])]), "bag")
    np.testing.assert_allclose(found.tau_l[:, 0], [2.0, 2.0, 5.0, 7.0])


def test_torques_that_no_state_can_need_any_more_are_let_go():
    t, held = np.arange(0.0, 20.0, 0.05), []

    def torques():
        for k in range(0, len(t), 4):
            piece = states(t[k : k + 4], ("a",), t[k : k + 4, None])
            held.append(weakref.ref(piece))
            yield piece

    pieces = (states(part, ("a",), None) for part in np.split(t, 50))
    alive = [sum(ref() is not None for ref in held) for _ in with_torques(pieces, torques(), "bag")]
    assert len(held) == 100 and max(alive) <= 12, "those of the last second, in pieces of a fifth of one"


def test_torques_on_a_topic_of_a_bag(tmp_path):
    messages, *_, tau = plain_messages(60)
    more = [
        ("/sensed", when, type(m)(m.header, m.name, m.position, m.velocity, 2 * m.effort)) for _, when, m in messages
    ]
    bag = write_bag(tmp_path / "bag", [*messages, *more])
    (found,) = iter_samples(bag, reading=Reading(topic="/joint_states", torque_topic="/sensed"))
    np.testing.assert_allclose(found.tau_l, 2 * tau)
    np.testing.assert_array_equal(found.tau, tau)


def test_torques_are_timed_as_the_states_are(tmp_path):
    """The sensor's own clock is off by a second, but its messages were recorded beside those of the joints."""
    messages, names, stamps, *_, tau = plain_messages(60)
    sensed = [
        ("/sensed", when, bag_state(int(s) + 10**9, names, effort=3 * tau[k]))
        for k, ((_, when, _), s) in enumerate(zip(messages, stamps, strict=True))
    ]
    bag = write_bag(tmp_path / "bag", [*messages, *sensed])
    reading = Reading(topic="/joint_states", torque_topic="/sensed", stamps="bag")
    (found,) = iter_samples(bag, reading=reading)
    np.testing.assert_allclose(found.tau_l, 3 * tau)
    (found,) = iter_samples(bag, reading=replace(reading, stamps="header"))
    assert np.isnan(found.tau_l).all()


# --- remote files and reading ahead


def test_a_remote_file_is_read_in_ranges(tmp_path):
    data = np.random.default_rng(2).integers(0, 256, 5000, np.uint8).tobytes()
    asked = []

    def read(offset, count):
        asked.append((offset, count))
        return data[offset : offset + min(count, 700)]  # a server may give less

    file = RemoteFile("s3://x", len(data), read)
    assert str(file) == "s3://x" and not asked
    with file.open() as stream:
        assert stream.read(10) == data[:10] and stream.tell() == 10
        assert stream.seek(-100, io.SEEK_END) == 4900 and stream.read() == data[4900:] and stream.read(5) == b""
        assert stream.seek(50) == 50 and stream.read(30) == data[50:80]
        assert stream.seek(20, io.SEEK_CUR) == 100 and stream.read(3) == data[100:103]
        assert stream.seek(0) == 0 and stream.read() == data
    assert file.received == sum(min(count, 700, len(data) - offset) for offset, count in asked)
    assert all(offset + count <= len(data) for offset, count in asked)
    file.check()
    raw = file.open().raw
    assert raw.seek(-7) == 0 and raw.tell() == 0 and raw.readable() and raw.seekable()
    raw.seek(4000)
    assert raw.seek(500, io.SEEK_CUR) == 4500 and raw.read(10) == data[4500:4510]


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("gone")])
def test_a_remote_file_that_fails_says_so(error):
    def read(offset, count):
        raise error

    file = RemoteFile("s3://x", 100, read)
    with pytest.raises(OSError, match="gone"):
        file.open().read(1)
    with pytest.raises(InputError, match=r"could not be read to its end \(gone\)"):
        file.check()


def test_a_remote_bag(tmp_path):
    messages, _, _, q, *_ = plain_messages(200)
    (path,) = write_bag(tmp_path / "bag", messages).glob("*.mcap")
    data = path.read_bytes()
    file = RemoteFile("far.mcap", len(data), lambda offset, count: data[offset : offset + count])
    found = list(iter_samples(file))
    np.testing.assert_array_equal(np.concatenate([s.q for s in found]), q)
    file.check()


def test_pieces_are_read_one_ahead_in_one_thread():
    threads, closed = set(), []

    def pieces():
        try:
            for k in range(4):
                threads.add(threading.current_thread())
                yield states([k], ("a",), None)
        finally:
            closed.append(threading.current_thread())

    assert [float(s.t[0]) for s in ahead(pieces())] == [0.0, 1.0, 2.0, 3.0]
    assert len(threads) == 1 and threading.current_thread() not in threads
    closed.clear()
    early = ahead(pieces())
    next(early)
    early.close()
    assert len(closed) == 1


def test_the_next_piece_is_read_while_the_caller_works():
    second = threading.Event()

    def pieces():
        yield states([0.0], ("a",), None)
        second.set()
        yield states([1.0], ("a",), None)

    found = ahead(pieces())
    assert next(found).t.tolist() == [0.0] and second.wait(30.0), "though nobody asked for it yet"
    assert [piece.t.tolist() for piece in found] == [[1.0]]


def test_arrays_grow_with_nan_where_rows_are_missing():
    growing = Growing()
    growing.append(np.ones((2, 3)), 1)
    growing.append(np.full((20, 3), 2.0), 5)
    assert len(growing) == 25
    array = growing.array(27)
    expected = np.full((27, 3), np.nan)
    expected[1:3], expected[5:25] = 1.0, 2.0
    np.testing.assert_array_equal(array, expected)


# --- saving


@pytest.mark.parametrize("form", ["a.csv", "a.npz", "a.mcap"])
def test_long_samples_are_saved_once_each(tmp_path, form):
    """They are written twenty thousand at a time."""
    t = np.arange(40_001) / 1000
    samples = Samples(t, ("a",), t[:, None])
    save_samples(samples, tmp_path / form)
    back = load_samples(tmp_path / form, in_order=False)
    assert np.array_equal(back.t, t) and np.array_equal(back.q[:, 0], t) and back.notes == ()


def test_a_bag_is_saved_with_the_topic_asked_for(tmp_path):
    samples = Samples(np.arange(3.0), ("a",), np.ones((3, 1)))
    for name, options, topic in (("a", {}, "/joint_states"), ("b.mcap", {"topic": "/left/states"}, "/left/states")):
        save_samples(samples, tmp_path / name, **options)
        assert {m.topic for m in recorded_messages(tmp_path / name)} == {topic}


@pytest.mark.parametrize("form", ["a.csv", "a.npz", "bag"])
def test_arrays_in_any_order_of_memory_are_saved_alike(tmp_path, form):
    q = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    samples = Samples(np.arange(8.0)[::2], ("a", "b", "c"), q, q[::-1], None, q[:, ::-1])
    save_samples(samples, tmp_path / form)
    back = load_samples(tmp_path / form)
    for field in ("t", "q", "dq", "tau"):
        np.testing.assert_array_equal(getattr(back, field), getattr(samples, field))


def test_what_a_joint_state_cannot_hold_is_said(tmp_path):
    t = np.arange(5) / 10
    one = np.ones((5, 1))
    plain = Samples(t, ("a",), one)
    assert save_samples(plain, tmp_path / "plain") == []
    for field, words in (
        ("ddq", "accelerations"), ("q_r", "commanded positions"), ("temperature", "temperatures"),
        ("tau_f", "feedforward efforts"), ("tau_l", "torques at the links"),
    ):  # fmt: skip
        samples = plain.with_arrays(t, {"q": one, field: 2 * one})
        (note,) = save_samples(samples, tmp_path / field)
        assert words in note
        for form in ("csv", "npz"):
            assert save_samples(samples, tmp_path / f"{field}.{form}") == []
            again = load_samples(tmp_path / f"{field}.{form}")
            np.testing.assert_array_equal(getattr(again, field), 2 * one)


# --- budgets and compression


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


# --- ROS 1 bags, record by record


def record1(data, **fields):
    """Return a record of a ROS 1 bag."""
    head = b"".join(struct.pack("<I", len(k) + 1 + len(v)) + k.encode() + b"=" + v for k, v in fields.items())
    return struct.pack("<I", len(head)) + head + struct.pack("<I", len(data)) + data


def connection1(key, topic=b"/j", kind=b"sensor_msgs/JointState"):
    inner = b"".join(struct.pack("<I", len(x)) + x for x in (b"type=" + kind, b"message_definition=text"))
    return record1(inner, op=b"\x07", conn=struct.pack("<I", key), topic=topic)


def message1(key, seconds, nanoseconds, data):
    return record1(data, op=b"\x02", conn=struct.pack("<I", key), time=struct.pack("<II", seconds, nanoseconds))


def read1(path, *records, wanted=(3,)):
    path.write_bytes(MAGIC + b"".join(records))
    file = Rosbag1File(path)
    blocks = list(file.blocks(wanted))
    rows = [(int(b.channel[k]), int(b.stamp[k]), bytes(b.payload(k))) for b in blocks for k in range(len(b))]
    return file, rows, [len(b) for b in blocks]


def test_records_of_a_ros1_bag(tmp_path, monkeypatch):
    inside = connection1(3) + connection1(4, b"/other") + message1(3, 7, 5, b"one") + message1(4, 7, 6, b"not wanted")
    chunk = record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", len(inside)))
    loose = [message1(3, 8, 900_000_000, b"two"), message1(3, 2_000_000_000, 1, b"three")]
    index = record1(b"index", op=b"\x04")
    file, rows, sizes = read1(tmp_path / "a.bag", index, chunk, index, *loose, index)
    assert rows == [(3, 7_000_000_005, b"one"), (3, 8_900_000_000, b"two"), (3, 2_000_000_000 * 10**9 + 1, b"three")]
    assert sizes == [1, 2] and not file.warnings
    assert [(c.id, c.topic, c.type, c.encoding, c.definition) for c in file.channels] == [
        (3, "/j", "sensor_msgs/msg/JointState", "ros1", "text"),
        (4, "/other", "sensor_msgs/msg/JointState", "ros1", "text"),
    ]
    monkeypatch.setattr(rosbag1_file, "BLOCK_BYTES", 6)
    many = [message1(3, k, 0, b"1234") for k in range(5)]
    assert read1(tmp_path / "b.bag", connection1(4), *many)[2] == [1, 2, 2]  # with the bytes of the connection
    assert read1(tmp_path / "c.bag", connection1(4), *many, wanted=(4,))[2] == []


def test_chunks_of_a_ros1_bag_that_are_left_out(tmp_path):
    inside = connection1(3) + message1(3, 7, 5, b"one")
    size = struct.pack("<I", len(inside))
    good = record1(inside, op=b"\x05", compression=b"none", size=size)
    for bad, words in (
        (record1(inside, op=b"\x05", compression=b"rar", size=size), "compression 'rar', was left out"),
        (record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", (128 << 20) + 1)), "134217729 bytes"),
        (record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", 100 << 20)), "more than 1000 times"),
        (record1(inside[:-1], op=b"\x05", compression=b"none", size=size), "longer than its chunk"),
        (record1(b"\x04\0\0\0" + b"\x01\0\0\0", op=b"\x05", compression=b"none", size=size), "damaged chunk"),
    ):  # fmt: skip
        file, rows, _ = read1(tmp_path / "a.bag", bad, good)
        assert rows == [(3, 7_000_000_005, b"one")] and words in file.warnings[0] and len(file.warnings) == 1
    for tail, words in (
        (struct.pack("<I", (1 << 20) + 1) + bytes(30), "header is too long"),
        (struct.pack("<I", 40) + bytes(30), "a record is cut"),
        (good[:-3], "a record is cut"),
        (record1(b"", op=b"\x04")[:-2], "a record is cut"),
        (struct.pack("<II", 5, 1) + b"x" + bytes(8), "has no name"),
    ):
        file, rows, _ = read1(tmp_path / "b.bag", good, tail)
        assert rows == [(3, 7_000_000_005, b"one")] and words in file.warnings[0]
        assert f"its last {len(tail)} bytes" in file.warnings[0]
    (tmp_path / "c.bag").write_bytes(b"#ROSBAG V1.2\n")
    with pytest.raises(InputError, match="not a ROS 1 bag"):
        Rosbag1File(tmp_path / "c.bag")


def test_the_id_of_a_connection_has_four_bytes(tmp_path):
    """Of a damaged one with more the rest does not count: an id must be a number that arrays can hold."""
    inner = struct.pack("<I", 11) + b"type=x/Type"
    conn = struct.pack("<I", 3) + b"\xff" * 8
    records = (
        record1(inner, op=b"\x07", conn=conn, topic=b"/j"),
        record1(b"one", op=b"\x02", conn=conn, time=struct.pack("<II", 7, 5) + b"\xff" * 4),
    )
    file, rows, _ = read1(tmp_path / "a.bag", *records)
    assert [c.id for c in file.channels] == [3] and rows == [(3, 7_000_000_005, b"one")]


def test_the_first_connection_of_an_id_counts(tmp_path):
    records = (connection1(3), connection1(3, b"/k", b"other/Type"), message1(3, 7, 5, b"one"))
    file, rows, _ = read1(tmp_path / "a.bag", *records)
    assert [(c.topic, c.type) for c in file.channels] == [("/j", "sensor_msgs/msg/JointState")] and len(rows) == 1


@pytest.mark.parametrize("kind", ["none", "bz2"])
def test_what_comes_before_the_damage_of_a_ros1_chunk_is_kept(tmp_path, kind):
    inside = connection1(3) + message1(3, 7, 5, b"one") + message1(3, 7, 6, b"two")
    for tail, after in ((b"\xff" * 9, len(inside)), (message1(3, 8, 0, b"three")[:-1], len(inside))):
        raw = inside + tail
        stored = bz2.compress(raw) if kind == "bz2" else raw
        chunk = record1(stored, op=b"\x05", compression=kind.encode(), size=struct.pack("<I", len(raw)))
        later = message1(3, 9, 0, b"four")
        file, rows, sizes = read1(tmp_path / "a.bag", chunk, later)
        assert [row[2] for row in rows] == [b"one", b"two", b"four"] and sizes == [2, 1]
        (text,) = file.warnings
        assert f"a damaged chunk was left out after {after} of {len(raw)} bytes (a record is longer" in text


def test_a_ros1_bag_may_be_read_again_and_again(tmp_path):
    """Each reading may unpack 4 MiB and a thousand times the file's size."""
    inside = connection1(3) + message1(3, 7, 5, b"one")
    chunk = record1(inside, op=b"\x05", compression=b"none", size=struct.pack("<I", 2 << 20))
    (tmp_path / "a.bag").write_bytes(MAGIC + chunk)
    file = Rosbag1File(tmp_path / "a.bag")
    for _ in range(4):
        assert sum(len(block) for block in file.blocks((3,))) == 1 and not file.warnings


# --- topics that are not found


class Listed:
    """A file of a bag with channels and no messages."""

    def __init__(self, *channels, warnings=()):
        self.channels, self.warnings = list(channels), list(warnings)

    def blocks(self, wanted):
        return iter(())


def test_bags_without_joint_states_say_what_they_have(tmp_path):
    joint, control = "sensor_msgs/msg/JointState", "control_msgs/msg/JointTrajectoryControllerState"
    for channels, words in (
        ((), "the bag holds no messages; record a topic of type"),
        ((Channel(1, "/tf", "tf2_msgs/msg/TFMessage", "cdr"),), r"only /tf \(tf2_msgs/msg/TFMessage\)"),
        ((Channel(1, "/c", control, "cdr"),), f"topic /c has type {control}, which this bag does not describe"),
        ((Channel(1, "/j", joint, "json"),), r"only /j \(sensor_msgs/msg/JointState\)"),
        ((Channel(1, "/j", joint, "cdr", count=0),), "topic /j has no message that can be read"),
    ):
        with pytest.raises(InputError, match=words):
            choose_topics(Bag(tmp_path, (Listed(*channels),)), None, None)
    many = Bag(tmp_path, (Listed(*(Channel(k, f"/t{k}", "x/msg/X", "cdr") for k in range(9))),))
    with pytest.raises(InputError, match=r"/t6 \(x/msg/X\); /t7 \(x/msg/X\); record"):
        choose_topics(many, None, None)
    odd = Bag(tmp_path, (Listed(Channel(1, "/j", joint, "cdr", count=0), warnings=["it is cut"]),))
    with pytest.raises(InputError, match=r"can be read \(it is cut\)"):
        choose_topics(odd, None, None)
    bag = Bag(
        tmp_path,
        (Listed(Channel(1, "/j", joint, "cdr"), Channel(2, "/k", joint, "json"), Channel(3, "/t", "x", "cdr")),),
    )
    assert choose_topics(bag, None, None) == ("/j",) == choose_topics(bag, None, "j")
    assert choose_topics(bag, None, "j, /j") == ("/j", "/j") == choose_topics(bag, None, ["/j", "j"])
    with pytest.raises(InputError, match="no topic 'q'; choose from its topics: /j, /k"):
        choose_topics(bag, None, "q")
    for name in ("/k", "t"):
        with pytest.raises(InputError, match="choose a topic of a type that carries joints"):
            choose_topics(bag, None, name)


# --- the figures of a check


def test_the_row_of_a_joint():
    t = np.arange(400) / 100
    q = np.column_stack((0.5 * np.sin(t) - 0.2, np.full(400, 0.3)))
    q[5, 0] = np.nan
    tau = np.column_stack((-3.0 + np.cos(t), np.full(400, np.nan)))
    robot = Robot("r", (Joint("a", 0, limits=Limits(-1.0, 3.0)), Joint("b", 1, PRISMATIC)))
    check = check_samples(Samples(t, ("a", "b"), q, tau=tau), robot)
    a, b = check.joints
    assert (a.position_min, a.position_max) == (np.nanmin(q[:, 0]), np.nanmax(q[:, 0]))
    assert a.coverage == pytest.approx(np.ptp(q[np.isfinite(q[:, 0]), 0]) / 4.0)
    assert a.effort_max == pytest.approx(np.abs(tau[:, 0]).max()) and a.effort_max > 0
    assert a.effort_rms == pytest.approx(np.sqrt(np.mean(tau[:, 0] ** 2)))
    assert a.speed_max == pytest.approx(0.5, rel=1e-3)
    assert b.coverage is None and b.effort_max is None and b.effort_rms is None and b.speed_max == 0.0
    assert (b.position_min, b.position_max) == (0.3, 0.3)
    kinds = {(p.kind, p.joint): p.level for p in check.problems}
    assert kinds["missing_effort", "b"] == RED and kinds["missing_velocity", None] == YELLOW and check.verdict == RED
    assert b.level == RED and check.problems[0].level == RED
    empty = check_samples(Samples(t, ("a", "b"), np.full((400, 2), np.nan), dq=np.zeros((400, 2)), tau=tau), robot)
    kinds = [(p.kind, p.joint) for p in empty.problems]
    assert ("missing_position", None) in kinds and ("missing_position", "a") not in kinds
    assert [row.speed_max for row in empty.joints] == [0.0, 0.0]
    assert empty.joints[0].coverage == 0.0 and empty.joints[0].position_min is None
    half = q.copy()
    half[:, 0] = np.nan
    kinds = [(p.kind, p.joint) for p in check_samples(Samples(t, ("a", "b"), half, dq=half * np.nan, tau=tau)).problems]
    assert ("missing_position", "a") in kinds and ("missing_position", None) not in kinds
    levels = {
        (p.kind, p.joint): p.level
        for p in check_samples(Samples(t, ("a", "b"), half, dq=half * np.nan, tau=tau)).problems
    }
    assert levels["missing_velocity", "a"] == YELLOW and levels["missing_position", "a"] == RED


def test_more_problems_change_the_verdict_and_the_rows():
    t = np.arange(2000) / 100
    q = np.column_stack((np.sin(t), np.cos(1.3 * t)))
    dq = np.column_stack((np.cos(t), -1.3 * np.sin(1.3 * t)))
    tau = np.random.default_rng(0).normal(size=(2000, 2))
    check = check_samples(Samples(t, ("a", "b"), q, dq=dq, tau=tau))
    before = [row.level for row in check.joints]
    found = with_problems(check, [RecordingProblem("x", YELLOW, "w", "d"), RecordingProblem("y", RED, "w", "d", "b")])
    assert [row.level for row in found.joints] == [before[0], RED] and found.verdict == RED
    assert found.problems[0].kind == "y" and len(found.problems) == len(check.problems) + 2
    assert before[0] in (GREEN, YELLOW)


def test_speeds_are_differences_over_20_ms():
    t = np.arange(300) / 500
    q = np.random.default_rng(1).normal(size=300)
    found = derived_velocity(t, q)
    k = np.arange(300)
    a, b = np.maximum(k - 5, 0), np.minimum(k + 5, 299)
    np.testing.assert_allclose(found, (q[b] - q[a]) / (t[b] - t[a]), rtol=1e-12)
    q[7] = np.inf
    assert np.isnan(derived_velocity(t, q)[7]) and np.isfinite(np.delete(derived_velocity(t, q), 7)).all()
    q[7] = np.nan
    assert np.isnan(derived_velocity(t, q)[7]) and np.isfinite(np.delete(derived_velocity(t, q), 7)).all()
    slow = derived_velocity(np.arange(6.0), np.arange(6.0) ** 2)
    np.testing.assert_allclose(slow, [1.0, 2.0, 4.0, 6.0, 8.0, 9.0])
    assert np.isnan(derived_velocity(np.arange(4.0), np.arange(4.0))).all()
    assert np.isfinite(derived_velocity(np.arange(5.0), np.arange(5.0))).all()


def test_a_joint_state_is_stamped_to_the_nanosecond():
    data = joint_state(("a",), 12_345_678_901, [[1.0], None, [2.0]])
    assert struct.unpack_from("<iI", data, 4) == (12, 345_678_901)
