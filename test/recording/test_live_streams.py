# SPDX-License-Identifier: Apache-2.0

"""Joint states straight from serialized messages, and recording sessions."""

from __future__ import annotations

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.decode import parse
from ros2_dynid.recording.live import LiveStates, LiveStatistics, StampClock, stamp_ns
from ros2_dynid.recording.live_points import LivePoints
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.session import Session

STORE = get_typestore(Stores.ROS2_JAZZY)
JointState = STORE.types["sensor_msgs/msg/JointState"]
Header, Time = STORE.types["std_msgs/msg/Header"], STORE.types["builtin_interfaces/msg/Time"]


def message(names, q, dq=(), tau=(), stamp=1_000_000_000):
    arrays = [np.array(x, dtype=float) for x in (q, dq, tau)]
    header = Header(stamp=Time(sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="")
    return bytes(STORE.serialize_cdr(JointState(header, list(names), *arrays), JointState.__msgtype__))


def test_permuted_partial_and_foreign_joints():
    states = LiveStates(("a", "b"))
    assert states.take(message(("x", "b", "a"), [9, 2, 1], [0.9, 0.2, 0.1], [90, 20, 10]))
    assert list(states.q) == [1, 2] and list(states.dq) == [0.1, 0.2] and list(states.tau) == [10, 20]
    before = states.state
    with pytest.raises(ValueError, match="read-only"):
        before.q[0] = 3.0
    assert not states.take(message(("x",), [5.0]))
    assert not states.take(message(("a",), [7.0]))
    assert states.take(message(("b",), [8.0], stamp=123))
    assert list(states.q) == [7, 8] and states.stamp == 123 and states.state.joint_names == ("a", "b")
    assert np.isnan(states.dq).all(), "what a message does not say is not known any more"
    assert list(before.q) == [1, 2] and before.stamp == 1_000_000_000, "a state is a value: nothing writes into it"
    assert not states.take(b"\0\1\0\0garbage")
    assert LiveStates(()).take(message(("a",), [7.0])) is None, "of no joints there is no state"


def test_statistics_find_nan_jumps_and_gaps():
    statistics, stamps, stamp = LiveStatistics(), [], 10**12
    for k in range(1000):
        stamp += {500: -20_000_000, 700: 8_000_000}.get(k, 1_000_000)
        effort = [np.nan if k == 300 else 1.0]
        data = message(("a",), [0.1], [0.0], effort, stamp)
        assert stamp_ns(data) == stamp
        statistics.take(data)
        stamps.append(stamp)
    assert statistics.period == pytest.approx(1e-3)
    assert statistics.gaps(stamps) == (1, pytest.approx(8e-3))
    assert statistics.jumps_back == 1 and statistics.with_nan == 1
    assert len(statistics.problems()) == 2
    assert "effort of a is NaN in 1 of 1000 joint states" in statistics.problems()


def test_an_effort_interface_that_is_missing_is_named_with_its_joints():
    statistics = LiveStatistics()
    for k in range(100):
        statistics.take(message(("a", "b", "c"), [0.1] * 3, [0.0] * 3, [np.nan, 1.0, np.nan], 10**9 + k * 10**6))
    (problem,) = statistics.problems()
    assert "effort of a, c is NaN in 100 of 100" in problem and "no effort state interface" in problem


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "bc", "d")])
def test_padding_is_not_taken_for_a_number(names):
    ones = np.ones(len(names))
    clean = message(names, ones, ones, ones)
    values = {k for offset, count in parse(clean, "cdr").arrays for k in range(offset, offset + 8 * count)}
    start = min(values)
    sizes = [k for k in range(start, len(clean)) if k not in values]  # counts (u32) and the padding behind them
    padding = [k for j, k in enumerate(sizes) if j % 8 >= 4]
    assert len(padding) == 8 and not any(clean[k] for k in padding)
    dirty = bytearray(clean)
    for k in padding:
        dirty[k] = 0xFF  # a count followed by this padding would read as NaN
    statistics = LiveStatistics()
    statistics.take(bytes(dirty))
    assert statistics.with_nan == 0 and statistics.without_effort == 0
    states = LiveStates(names)
    assert states.take(bytes(dirty)) and np.array_equal(states.tau, ones)


def test_nan_is_counted_in_every_array():
    statistics = LiveStatistics()
    for q, dq, tau in (
        ([np.nan], [1], [1]),
        ([1], [np.nan], [1]),
        ([1], [1], [np.nan]),
        ([np.nan], [], []),
        ([1], [], []),
    ):
        statistics.take(message(("a",), q, dq, tau))
    assert statistics.with_nan == 4 and statistics.without_effort == 2


def test_nan_of_joints_whose_names_keep_changing_take_no_more_room():
    statistics = LiveStatistics()
    for k in range(2000):
        statistics.take(message((f"joint_{k}",), [1], [1], [np.nan]))
    assert statistics.with_nan == 2000
    assert len("".join(statistics.problems())) < 10_000


def test_a_stamp_clock_sees_through_delays_and_offsets():
    clock, rng = StampClock(), np.random.default_rng(0)
    for k in range(500):
        delay = 0.0 if k == 20 else rng.exponential(0.01)
        made = clock.time_of(10**12 + k * 1_000_000, 55.0 + k * 1e-3 + delay)
    assert made == pytest.approx(55.0 + 0.499, abs=3e-4)
    assert clock.time_of(0, 77.0) == 77.0, "a driver that does not stamp"
    assert clock.time_of(5 * 10**9, 80.0) == 80.0, "a clock that was set back"
    simulated = StampClock(same=True)
    assert simulated.time_of(5 * 10**9, 5.3) == 5.0, "stamps are of this clock"
    assert simulated.time_of(6 * 10**9, 1006.1) == pytest.approx(1006.1), "the clock was set, the stamps go on"
    assert StampClock(same=True).time_of(6 * 10**9, 0.0) == 0.0, "no message of the clock yet"
    assert simulated.time_of(7 * 10**9, 1007.3) == pytest.approx(1007.1, abs=1e-3), "and the delay is seen again"


def test_a_stamp_clock_that_was_set_back_sees_delays_again():
    clock = StampClock()
    assert clock.time_of(900 * 10**9, 50.0) == 50.0
    assert clock.time_of(5 * 10**9, 51.0) == 51.0, "set back"
    assert clock.time_of(6 * 10**9, 52.5) == pytest.approx(52.0, abs=1e-3), "half a second late"
    assert clock.time_of(7 * 10**9, 53.25) == pytest.approx(53.0, abs=2e-3)
    assert clock.time_of(900 * 10**9, 54.0) == 54.0, "ahead of all: the quickest so far"


def test_a_stamp_clock_takes_messages_that_overtake_each_other_for_that():
    """Late ones in disorder are as late as they are: a clock that starts again would take them for new."""
    clock = StampClock()
    for k in range(100):
        clock.time_of(10**9 + k * 10**7, 50.0 + 0.01 * k)
    late = [clock.time_of(10**9 + k * 10**7, 51.4 + 0.01 * j) for j, k in enumerate((101, 100, 109, 102, 103))]
    assert late == pytest.approx([51.01, 51.0, 51.09, 51.02, 51.03], abs=1e-3)
    assert clock.time_of(10**9 + 98 * 10**7, 51.5) == 51.5, "further back: the clock was set"


def test_a_stamp_clock_follows_a_drift_but_no_delay():
    clock = StampClock()
    for k in range(36_000):  # an hour at 10 Hz of a clock that loses 100 ppm
        made, now = clock.time_of(10**9 + k * 99_990_000, 5.0 + 0.1 * k), 5.0 + 0.1 * k
    assert made == pytest.approx(now, abs=1e-3)
    for k in range(20):  # messages that wait ever longer
        late = clock.time_of(10**9 + (36_000 + k) * 99_990_000, now + 0.1 * k + 0.5 + 0.05 * k)
    assert late == pytest.approx(now + 2.0, abs=0.15)


def test_a_session_keeps_what_it_took(tmp_path):
    session = Session("/joint_states", 50)
    for k in range(100):
        session.take(message(("a",), [0.1 * k], [0.0], [1.0], 10**9 + k * 10**6), 10**9 + k * 10**6)
    assert session.buffered == 50
    session.begin(tmp_path / "bag", since_ns=10**9 + 80 * 10**6)
    with pytest.raises(InputError, match="already recording"):
        session.begin(tmp_path / "other", 0)
    for k in range(100, 200):
        session.take(message(("a",), [0.1 * k], [0.0], [1.0], 10**9 + k * 10**6), 10**9 + k * 10**6)
    summary = session.end()
    assert summary.samples == 120 and summary.gaps == 0 and summary.rate == pytest.approx(1000)
    samples = load_samples(summary.path)
    assert np.allclose(samples.q[:, 0], 0.1 * np.arange(80, 200))
    assert session.save(tmp_path / "buffer") == 50
    with pytest.raises(InputError, match="nothing is buffered"):
        Session("/joint_states", 50).save(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(InputError, match="nothing is being recorded"):
        session.end()


def test_paths_stay_in_their_folder(tmp_path):
    folder = Folder(tmp_path / "in")
    (tmp_path / "secret").write_text("x")
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    (tmp_path / "in" / "bag").mkdir()
    assert folder.existing("bag") == tmp_path / "in" / "bag"
    assert folder.existing(str(tmp_path / "in" / "bag")) == tmp_path / "in" / "bag"
    for name in ("../secret", str(tmp_path / "secret"), "link/secret", "", ".", "a\0b"):
        with pytest.raises(InputError):
            folder.existing(name)
    with pytest.raises(InputError, match="exists already"):
        folder.new("bag")
    assert folder.new("bag", unique=True).name == "bag_2"


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


def test_a_message_that_is_cut_is_not_read_by_the_layout_of_a_whole_one():
    states, statistics = LiveStates(("a", "b")), LiveStatistics()
    whole = message(("a", "b"), [1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    for end in range(12, len(whole)):
        assert states.take(whole).tau.tolist() == [5.0, 6.0]
        assert states.take(whole[:end]) is None
        statistics.take(whole)
        statistics.take(whole[:end])
    assert statistics.with_nan == statistics.without_effort == 0 and statistics.count == 2 * (len(whole) - 12)


def test_messages_in_the_other_byte_order_are_read_too():
    header = Header(stamp=Time(sec=3, nanosec=4), frame_id="base")
    values = [np.array(x) for x in ([1.0, 2.0], [3.0, np.nan], [5.0, 6.0])]
    big = bytes(
        STORE.serialize_cdr(JointState(header, ["b", "a"], *values), JointState.__msgtype__, little_endian=False)
    )
    states, statistics = LiveStates(("a", "b")), LiveStatistics()
    for data in (message(("b", "a"), [7.0, 8.0], [9.0, 9.0], [9.0, 9.0]), big, big):
        found = states.take(data)
        statistics.take(data)
    assert found.q.tolist() == [2.0, 1.0] and found.tau.tolist() == [6.0, 5.0] and found.stamp == 3_000_000_004
    assert np.isnan(found.dq[0]) and found.dq[1] == 3.0
    assert statistics.problems()[1:] == ["velocity of a is NaN in 2 of 3 joint states"] and statistics.with_nan == 2


def test_every_state_needs_all_joints_anew():
    states = LiveStates(("a", "b", "c"))
    for k in range(3):
        assert states.take(message(("b",), [10.0 + k], stamp=10 * k)) is None
        assert states.take(message(("b",), [20.0 + k], stamp=10 * k + 1)) is None, "again is not all"
        assert states.take(message(("c", "x"), [30.0 + k, 0.0], stamp=10 * k + 2)) is None
        found = states.take(message(("a",), [float(k)], stamp=10 * k + 3))
        assert found is not None and list(found.q) == [k, 20 + k, 30 + k] and found.stamp == 10 * k + 3


def test_arrays_that_do_not_fit_their_names_are_of_no_joint():
    statistics = LiveStatistics()
    statistics.take(message(("a", "b"), [1.0, 2.0], [np.nan], [1.0, 2.0, np.nan]))
    assert statistics.with_nan == 1 and statistics.problems() == []
    states = LiveStates(("b", "a"))
    found = states.take(message(("a", "b"), [1.0, 2.0], [5.0], [1.0, 2.0, 3.0]))
    assert list(found.q) == [2.0, 1.0] and np.isnan(found.dq).all() and np.isnan(found.tau).all()


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


def test_a_message_too_short_for_a_stamp_ends_no_recording(tmp_path):
    session, whole = Session("/joint_states", 50), message(("a",), [0.1])
    cut = [whole[:k] for k in (0, 1, 2, 4, 11)]
    for one in cut:
        session.take(one, 1)
    assert session.buffered == 0 and session.statistics.too_short == 5
    session.begin(tmp_path / "bag", 0)
    for one in (whole, *cut, whole[:12]):
        session.take(one, 2)
    summary = session.end()
    assert summary.samples == 2 and session.statistics.count == 2
    assert "5 messages were too short for joint states and left out" in summary.problems
    assert np.array_equal(load_samples(summary.path).q, [[0.1]])
