# SPDX-License-Identifier: Apache-2.0

"""Decode live joint states straight from the serialized message, and keep statistics of the stream."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from joint_state_messages import STORE, Header, JointState, Time, serialized
from ros2_dynid.recording.bag.decode import parse
from ros2_dynid.recording.bag.writer import joint_state
from ros2_dynid.recording.live import MAX_CLOCK_DRIFT, LiveStates, LiveStatistics, StampClock, stamp_ns


def test_how_fast_another_clock_may_drift():
    """Half a millisecond a second: what goes with it is followed, what is faster is taken for delay."""
    for drift, followed in ((4.5e-4, True), (6e-4, False)):
        clock = StampClock()
        for k in range(1001):
            now = 10.0 + k * (1.0 + drift)
            made = clock.time_of(10**9 + k * 10**9, now)
        assert (abs(made - now) < 1e-6) == followed
        assert followed or made == pytest.approx(now - 0.1, abs=0.01)


MS = 1_000_000


def states_at(stamps, names=("a",), tau=None):
    return [joint_state(names, int(s), [np.ones(len(names)), None, tau]) for s in stamps]


def test_a_stamp_in_either_byte_order():
    message = joint_state(("a",), 12_345_678_901, [[1.0], None, None])
    assert stamp_ns(message) == 12_345_678_901
    assert stamp_ns(b"\0\0\0\0" + struct.pack(">iI", 12, 345_678_901)) == 12_345_678_901
    assert stamp_ns(b"\0\1\0\0" + struct.pack("<iI", -1, 5)) == -999_999_995


@pytest.mark.parametrize("count", [1, 2, 50, 4096, 4097, 9000])
def test_the_period_is_the_median_of_the_last_intervals(count):
    rng = np.random.default_rng(count)
    stamps = 10**12 + np.cumsum(rng.integers(MS // 2, 3 * MS // 2, count))
    if count > 4200:
        stamps[: count - 4200] = np.arange(count - 4200) * 10  # what was long ago does not count
    statistics = LiveStatistics()
    for message in states_at(stamps):
        statistics.take(message)
    intervals = np.diff(stamps)[-4096:] * 1e-9
    expected = np.median(intervals[intervals > 0]) if count > 1 else np.nan
    np.testing.assert_allclose(statistics.period, expected, rtol=2e-3)
    assert (statistics.count, statistics.first_ns, statistics.last_ns) == (count, stamps[0], stamps[-1])
    assert statistics.jumps_back == 0


def test_stamps_that_repeat_or_go_back_have_no_period():
    statistics = LiveStatistics()
    for message in states_at(np.array([5, 5, 5, 5, 15, 15, 15, 3, 13, 13]) * MS):
        statistics.take(message)
    assert statistics.period == pytest.approx(0.01) and statistics.jumps_back == 1


def test_gaps_among_stamps():
    statistics = LiveStatistics()
    assert statistics.gaps([]) == (0, 0.0) and statistics.gaps([5]) == (0, 0.0) and statistics.gaps([9, 5]) == (0, 0.0)
    steps = np.array([10, 10, 14, 10, 16, 10, -30, 0, 10, 40]) * MS
    assert statistics.gaps(np.cumsum(steps)) == (2, pytest.approx(0.04))


def test_a_stream_without_efforts_or_with_its_clock_set_back_is_told():
    statistics = LiveStatistics()
    for message in states_at([10, 20, 15, 30, 25]):
        statistics.take(message)
    assert statistics.problems() == ["the clock jumped back 2 times", "5 of 5 joint states have no effort"]
    fine = LiveStatistics()
    for message in states_at([10, 20, 20, 30], tau=[1.0]):
        fine.take(message)
    assert fine.problems() == [] and fine.with_nan == 0
    fine.take(b"\0\1\0\0" + struct.pack("<iI", 0, 40) + b"rubbish")
    assert fine.count == 5 and fine.without_effort == 0


def test_a_stamp_clock_is_the_least_delay_with_drift():
    rng = np.random.default_rng(0)
    clock, offset, since = StampClock(), np.inf, 0.0
    for k in range(300):
        stamp, now = 10**12 + k * 10 * MS, 50.0 + 0.01 * k + rng.exponential(0.02)
        offset = min(now - 1e-9 * stamp, offset + MAX_CLOCK_DRIFT * (now - since))
        since = now
        assert clock.time_of(stamp, now) == pytest.approx(1e-9 * stamp + offset, abs=1e-9)
    own = StampClock(same=True)
    assert own.time_of(5 * 10**9, 5.9) == 5.0 and own.time_of(5 * 10**9, 4.1) == 5.0
    assert own.time_of(5 * 10**9, 6.1) == pytest.approx(6.1) and StampClock(same=True).time_of(5 * 10**9, 3.9) == 3.9


def test_permuted_partial_and_foreign_joints():
    states = LiveStates(("a", "b"))
    assert states.take(serialized(("x", "b", "a"), [9, 2, 1], [0.9, 0.2, 0.1], [90, 20, 10]))
    assert list(states.q) == [1, 2] and list(states.dq) == [0.1, 0.2] and list(states.tau) == [10, 20]
    before = states.state
    with pytest.raises(ValueError, match="read-only"):
        before.q[0] = 3.0
    assert not states.take(serialized(("x",), [5.0]))
    assert not states.take(serialized(("a",), [7.0]))
    assert states.take(serialized(("b",), [8.0], stamp=123))
    assert list(states.q) == [7, 8] and states.stamp == 123 and states.state.joint_names == ("a", "b")
    assert np.isnan(states.dq).all(), "what a message does not say is not known any more"
    assert list(before.q) == [1, 2] and before.stamp == 1_000_000_000, "a state is a value: nothing writes into it"
    assert not states.take(b"\0\1\0\0garbage")
    assert LiveStates(()).take(serialized(("a",), [7.0])) is None, "of no joints there is no state"


def test_statistics_find_nan_jumps_and_gaps():
    statistics, stamps, stamp = LiveStatistics(), [], 10**12
    for k in range(1000):
        stamp += {500: -20_000_000, 700: 8_000_000}.get(k, 1_000_000)
        effort = [np.nan if k == 300 else 1.0]
        data = serialized(("a",), [0.1], [0.0], effort, stamp)
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
        statistics.take(serialized(("a", "b", "c"), [0.1] * 3, [0.0] * 3, [np.nan, 1.0, np.nan], 10**9 + k * 10**6))
    (problem,) = statistics.problems()
    assert "effort of a, c is NaN in 100 of 100" in problem and "no effort state interface" in problem


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "bc", "d")])
def test_padding_is_not_taken_for_a_number(names):
    ones = np.ones(len(names))
    clean = serialized(names, ones, ones, ones)
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
        statistics.take(serialized(("a",), q, dq, tau))
    assert statistics.with_nan == 4 and statistics.without_effort == 2


def test_nan_of_joints_whose_names_keep_changing_take_no_more_room():
    statistics = LiveStatistics()
    for k in range(2000):
        statistics.take(serialized((f"joint_{k}",), [1], [1], [np.nan]))
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


def test_a_message_that_is_cut_is_not_read_by_the_layout_of_a_whole_one():
    states, statistics = LiveStates(("a", "b")), LiveStatistics()
    whole = serialized(("a", "b"), [1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
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
    for data in (serialized(("b", "a"), [7.0, 8.0], [9.0, 9.0], [9.0, 9.0]), big, big):
        found = states.take(data)
        statistics.take(data)
    assert found.q.tolist() == [2.0, 1.0] and found.tau.tolist() == [6.0, 5.0] and found.stamp == 3_000_000_004
    assert np.isnan(found.dq[0]) and found.dq[1] == 3.0
    assert statistics.problems()[1:] == ["velocity of a is NaN in 2 of 3 joint states"] and statistics.with_nan == 2


def test_every_state_needs_all_joints_anew():
    states = LiveStates(("a", "b", "c"))
    for k in range(3):
        assert states.take(serialized(("b",), [10.0 + k], stamp=10 * k)) is None
        assert states.take(serialized(("b",), [20.0 + k], stamp=10 * k + 1)) is None, "again is not all"
        assert states.take(serialized(("c", "x"), [30.0 + k, 0.0], stamp=10 * k + 2)) is None
        found = states.take(serialized(("a",), [float(k)], stamp=10 * k + 3))
        assert found is not None and list(found.q) == [k, 20 + k, 30 + k] and found.stamp == 10 * k + 3


def test_arrays_that_do_not_fit_their_names_are_of_no_joint():
    statistics = LiveStatistics()
    statistics.take(serialized(("a", "b"), [1.0, 2.0], [np.nan], [1.0, 2.0, np.nan]))
    assert statistics.with_nan == 1 and statistics.problems() == []
    states = LiveStates(("b", "a"))
    found = states.take(serialized(("a", "b"), [1.0, 2.0], [5.0], [1.0, 2.0, 3.0]))
    assert list(found.q) == [2.0, 1.0] and np.isnan(found.dq).all() and np.isnan(found.tau).all()
