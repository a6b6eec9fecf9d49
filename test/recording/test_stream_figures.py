# SPDX-License-Identifier: Apache-2.0

"""Figures of a stream while it comes, and of its stamps afterwards, against plain ways to them."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.writer import WriteError, joint_state
from ros2_dynid.recording.checks.timing import check_timing
from ros2_dynid.recording.live import MAX_CLOCK_DRIFT, LiveStatistics, StampClock, stamp_ns
from ros2_dynid.recording.playback import Message, recorded_messages, timed
from ros2_dynid.recording.read import outline_of
from ros2_dynid.recording.samples import Samples, longest_stretch
from ros2_dynid.recording.save import save_samples
from ros2_dynid.recording.session import Session

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


# --- sessions


def test_a_session_says_what_its_bag_holds(tmp_path):
    session = Session("/joint_states", 3)
    assert session.path is None and session.poll() is None
    stamps = np.array([0, 10, 20, 30, 70, 80, 60]) * MS + 10**9
    for message, stamp in zip(states_at(stamps[:2]), stamps, strict=False):
        session.take(message, int(stamp))
    session.begin(tmp_path / "bag", since_ns=int(stamps[1]))
    assert session.path == tmp_path / "bag"
    for message, stamp in zip(states_at(stamps[2:]), stamps[2:], strict=True):
        session.take(message, int(stamp))
    found = session.end()
    assert (found.samples, found.gaps, found.path) == (6, 1, tmp_path / "bag") and session.path is None
    assert found.duration == pytest.approx(0.05) and found.longest_gap == pytest.approx(0.04)
    assert found.rate == pytest.approx(100.0)
    assert found.problems == ("the clock jumped back 1 times", "6 of 6 joint states have no effort")
    session.begin(tmp_path / "next", since_ns=int(stamps[-2]))  # the statistics begin anew
    assert session.statistics.count == 1
    again = session.end()
    assert again.problems == ("1 of 1 joint states have no effort",)
    assert (again.samples, again.gaps, again.longest_gap, again.duration) == (1, 0, 0.0, 0.0)


def test_messages_are_logged_when_they_were_received(tmp_path):
    session = Session("/arm/joint_states", 10)
    stamps = 10**9 + np.arange(6) * 10 * MS
    for k, message in enumerate(states_at(stamps)):
        if k == 3:
            session.begin(tmp_path / "bag", since_ns=0)
        session.take(message, int(stamps[k]) + 4 * MS)
    session.end()
    session.save(tmp_path / "held")
    for name in ("bag", "held"):
        played = list(recorded_messages(tmp_path / name))
        assert [m.stamp for m in played] == [int(s) + 4 * MS for s in stamps]
        assert [stamp_ns(m.payload) for m in played] == stamps.tolist()
        assert {m.topic for m in played} == {"/arm/joint_states"}


@pytest.mark.parametrize("when", ["write", "poll"])
def test_a_disk_that_fails_ends_the_bag_and_is_told_once(tmp_path, monkeypatch, when):
    session = Session("/joint_states", 3)
    session.begin(tmp_path / "bag", 0)
    error = WriteError(tmp_path / "bag", "the disk is full", 7)

    def fail(*_):
        raise error

    writer = session.writer
    monkeypatch.setattr(writer, when, fail)
    if when == "write":
        session.take(states_at([1])[0], 1)
    else:
        assert session.poll() is error
    assert session.failure is error and session.path is None and session.buffered == (when == "write")
    if when == "write":
        assert session.poll() is error
    assert session.poll() is None
    with pytest.raises(WriteError, match="the disk is full"):
        session.end()
    writer.close()
    session.begin(tmp_path / "again", 0)
    assert session.failure is None
    session.end()


# --- stamps afterwards


def plain_timing(t):
    """Return rate, jitter, duration and gaps by going through the stamps one by one."""
    steps = [b - a for a, b in pairwise(t)]
    forward = sorted(s for s in steps if s > 0)
    period = float(np.median(forward))
    spread = 1.4826 * float(np.median([abs(s - period) for s in forward]))
    usual = [s for s in forward if abs(s - period) < 0.75 * period]
    limit = max(1.75 * period, period + 6 * spread)
    gaps = [(t[k], s, max(round(s / period) - 1, 1)) for k, s in enumerate(steps) if s > limit]
    return 1 / period, float(np.std(usual)), max(t) - min(t), gaps


@pytest.mark.parametrize("seed", range(6))
def test_timing_is_that_of_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    steps = 0.01 + 0.002 * seed * rng.uniform(-1.0, 1.0, 400)
    steps[rng.integers(0, 400, 6)] *= rng.uniform(1.5, 30.0, 6)
    steps[rng.integers(0, 400, 3)] = 0.0
    steps[rng.integers(0, 400, 3)] *= -1.0
    t = 3.0 + np.cumsum(steps)
    rate, jitter, duration, gaps = plain_timing(t.tolist())
    found = check_timing(np.insert(t, 7, np.nan))
    assert found.rate == pytest.approx(rate) and found.jitter == pytest.approx(jitter)
    assert found.duration == pytest.approx(duration) and found.gap_count == len(gaps) == len(found.gaps)
    assert found.missing == sum(m for _, _, m in gaps)
    for gap, (start, length, missing) in zip(found.gaps, gaps, strict=True):
        assert (gap.start, gap.duration, gap.missing) == (start, pytest.approx(length), missing)
    kinds = [p.kind for p in found.problems]
    assert "nan" in kinds and "repeat" in kinds and "backward" in kinds and ("gap" in kinds) == bool(gaps)
    assert ("jitter" in kinds) == (jitter > 0.25 / rate)


def test_the_longest_stretch_between_settings_of_the_clock():
    t = np.concatenate((np.arange(5) + 100.0, np.arange(9.0), np.arange(4.0)))
    assert longest_stretch(t) == (slice(5, 14), 2) and longest_stretch(np.arange(4.0)) == (slice(0, 4), 0)


# --- playing


def test_what_is_played_is_cut_in_time(tmp_path):
    t = np.arange(20) / 10
    save_samples(Samples(t, ("a",), t[:, None], start_ns=10**9), tmp_path / "bag")
    for start, end, first, last in (
        (None, None, 0, 19), (0.45, None, 5, 19), (None, 1.25, 0, 12), (0.25, 0.65, 3, 6), (0.5, 1.5, 5, 15),
        (1.0, 1.0, 10, 10),
    ):  # fmt: skip
        found = list(recorded_messages(tmp_path / "bag", start=start, end=end))
        stamps = [m.stamp - 10**9 for m in found]
        assert stamps == [k * 100 * MS for k in range(first, last + 1)]
        assert all(m.topic == "/joint_states" and stamp_ns(m.payload) == m.stamp for m in found)
    with pytest.raises(InputError, match="no such file"):
        list(recorded_messages(tmp_path / "none"))


@pytest.mark.parametrize("rate", [0.5, 1.0, 4.0])
def test_messages_come_when_they_are_due(rate):
    now = [100.0]
    messages = [Message(10**9 + k * 200 * MS, "/j", b"") for k in range(4)]

    def sleep(seconds):
        assert seconds > 0.0
        now[0] += seconds

    seen = []
    for stamp, message in timed(iter(messages), rate, clock=lambda: now[0], sleep=sleep):
        at = 10**9 + (now[0] - 100.0) * rate * 1e9
        assert stamp == pytest.approx(at, abs=2e3)
        if message is not None:
            seen.append((message.stamp, now[0] - 100.0))
    assert [s for s, _ in seen] == [m.stamp for m in messages]
    np.testing.assert_allclose([when for _, when in seen], np.arange(4) * 0.2 / rate, atol=1e-6)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="not a speed"):
            next(timed(iter(messages), wrong))


def test_the_outline_of_samples():
    t = np.array([0.5, 1.5, 4.0])
    samples = Samples(t, ("a", "b"), np.zeros((3, 2)), tau=np.ones((3, 2)), source="x", start_ns=7)
    found = outline_of(samples)
    assert (found.first, found.last, found.count, found.fields) == (0.5, 4.0, 3, ("q", "tau"))
    assert (found.joint_names, found.start_ns, found.source, found.notes) == (("a", "b"), 7, "x", ())
    none = outline_of(samples.take(slice(0, 0)))
    assert (none.first, none.last, none.count) == (0.0, 0.0, 0)


def test_gaps_and_duration_of_a_bag_are_those_of_its_stamps_however_messages_arrive(tmp_path):
    stamps = np.concatenate((np.arange(40), 60 + np.arange(40), 130 + np.arange(21))) * MS + 10**12
    even, uneven = 2 * 10**12 + np.arange(101) * MS, 2 * 10**12 + np.arange(101) ** 3 * MS
    for name, received in (("even", even), ("uneven", uneven)):
        session = Session("/joint_states", 10)
        session.begin(tmp_path / name, 0)
        for message, at in zip(states_at(stamps), received, strict=True):
            session.take(message, int(at))
        summary = session.end()
        assert (summary.samples, summary.gaps) == (101, 2)
        assert (summary.longest_gap, summary.duration, summary.rate) == pytest.approx((0.031, 0.15, 1000.0))
