# SPDX-License-Identifier: Apache-2.0

"""A streamed reference, a JointTrajectory of one point, straight from the serialized message."""

from __future__ import annotations

import numpy as np
import pytest

from joint_state_messages import STORE, Header, Time
from ros2_dynid.recording.live_points import LivePoints


def trajectory(names, rows, stamp=0, effort=()):
    Point, Trajectory = (STORE.types[f"trajectory_msgs/msg/JointTrajectory{part}"] for part in ("Point", ""))
    Duration = STORE.types["builtin_interfaces/msg/Duration"]
    points = [Point(*(np.array(x, dtype=float) for x in (*row, effort)), Duration(0, 0)) for row in rows]
    header = Header(stamp=Time(sec=stamp, nanosec=0), frame_id="base")
    return bytes(STORE.serialize_cdr(Trajectory(header, list(names), points), Trajectory.__msgtype__))


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "a", "b"), ("long_name_of_a_joint", "b", "c")])
def test_streamed_points_are_read_by_their_layout(names):
    rng = np.random.default_rng(0)
    points = LivePoints(tuple(sorted(names)))
    for _ in range(5):
        row = rng.normal(size=(3, 3))
        found = points.read(trajectory(names, [row]))
        order = [names.index(name) for name in sorted(names)]
        assert found is not None and np.array_equal(np.array(found), row[:, order])
    row = rng.normal(size=(3, 3))
    assert points.read(trajectory(names, [row, row])) is None
    stamped = points.read(trajectory(names, [row], stamp=5))
    assert stamped is not None and np.array_equal(np.array(stamped), row[:, order]), "a stamp changes nothing"
    assert points.read(trajectory(names, [row], effort=[1.0, 2.0, 3.0])) is None
    assert points.read(trajectory((*names[:2], "x"), [row])) is None
    assert points.read(trajectory(names, [row * np.nan])) is None
    whole = trajectory(names, [row])
    for end in range(len(whole)):
        assert points.read(whole[:end]) is None
    assert points.read(whole) is not None


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_points_with_a_single_value_that_is_none(wrong):
    points = LivePoints(("a", "b"))
    for place in np.ndindex(3, 2):
        row = np.ones((3, 2))
        assert points.read(trajectory(("a", "b"), [row])) is not None
        row[place] = wrong
        assert points.read(trajectory(("a", "b"), [row])) is None
    row = np.ones((3, 2))
    assert points.read(trajectory(("a", "b", "a"), [row])) is None, "a joint that is named twice"


def test_points_of_one_length_and_other_names():
    """Messages of one size whose names, numbers of points or arrays differ are not read by the offsets of another."""
    points = LivePoints(("a", "b", "c"))
    row = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    for names in (("a", "b", "c"), ("c", "a", "b"), ("a", "b", "x"), ("b", "a", "c"), ("b", "a", "a"), ("a", "b", "c")):
        message = trajectory(names, [row])
        assert len(message) == len(trajectory(("a", "b", "c"), [row]))
        found = points.read(message)
        if sorted(names) != ["a", "b", "c"]:
            assert found is None
            continue
        order = [names.index(name) for name in "abc"]
        assert np.array_equal(np.array(found), row[:, order])


def test_points_of_no_joints_are_none():
    assert LivePoints(()).read(trajectory((), [((), (), ())])) is None
    big = trajectory(("a",), [([1.0], [2.0], [3.0])])
    assert LivePoints(("a",)).read(b"\0\0" + big[2:]) is None, "big-endian is for others to read"
    for row in (([1.0], [2.0], []), ([1.0], [], [3.0]), ([], [2.0], [3.0])):
        assert LivePoints(("a",)).read(trajectory(("a",), [row])) is None
