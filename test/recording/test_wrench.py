# SPDX-License-Identifier: Apache-2.0

"""Wrenches of a force-torque sensor beside the joint states, from a bag and from a table."""

from __future__ import annotations

import numpy as np
import pytest

from bagmaker import EPOCH, ROS1, ROS2, header, plain_messages, write_bag, write_bag1
from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.writer import BagWriter
from ros2_dynid.recording.samples import Reading
from ros2_dynid.recording.wrench import read_wrenches


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
            with pytest.raises(InputError, match=r"no message on /ft can be read \(20 damaged\)"):
                read_wrenches(tmp_path / name, "/ft", EPOCH)
