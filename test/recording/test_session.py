# SPDX-License-Identifier: Apache-2.0

"""Recording a stream of serialized joint states: a ring buffer always, a bag between begin and end, statistics."""

from __future__ import annotations

import numpy as np
import pytest

from joint_state_messages import serialized
from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.writer import joint_state
from ros2_dynid.recording.live import stamp_ns
from ros2_dynid.recording.playback import recorded_messages
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.session import Session

MS = 1_000_000


def states_at(stamps, names=("a",), tau=None):
    return [joint_state(names, int(s), [np.ones(len(names)), None, tau]) for s in stamps]


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


def test_a_session_keeps_what_it_took(tmp_path):
    session = Session("/joint_states", 50)
    for k in range(100):
        session.take(serialized(("a",), [0.1 * k], [0.0], [1.0], 10**9 + k * 10**6), 10**9 + k * 10**6)
    assert session.buffered == 50
    session.begin(tmp_path / "bag", since_ns=10**9 + 80 * 10**6)
    with pytest.raises(InputError, match="already recording"):
        session.begin(tmp_path / "other", 0)
    for k in range(100, 200):
        session.take(serialized(("a",), [0.1 * k], [0.0], [1.0], 10**9 + k * 10**6), 10**9 + k * 10**6)
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


def test_a_message_too_short_for_a_stamp_ends_no_recording(tmp_path):
    session, whole = Session("/joint_states", 50), serialized(("a",), [0.1])
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
