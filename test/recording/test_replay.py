# SPDX-License-Identifier: Apache-2.0

"""Replay: the messages as recorded, at their time or faster, without falling behind."""

from __future__ import annotations

import numpy as np
import pytest

from bagmaker import EPOCH, ROS1, ROS2, joint_state, plain_messages, write_bag, write_bag1
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.recording.playback import TICK, Message, recorded_messages, timed
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.save import save_samples


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, overhead=0.0):
        self.now, self.overhead, self.naps = 100.0, overhead, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds + self.overhead


def test_messages_of_a_bag_come_as_they_were_recorded(tmp_path):
    messages = plain_messages(300)[0]
    bag = write_bag(tmp_path / "bag", messages)
    played = list(recorded_messages(bag))
    assert [m.stamp for m in played] == [stamp for _, stamp, _ in messages]
    assert {m.topic for m in played} == {"/joint_states"}
    assert played[7].payload == bytes(ROS2.serialize_cdr(messages[7][2], "sensor_msgs/msg/JointState"))
    some = list(recorded_messages(bag, start=0.1, end=0.2))
    assert 99 <= len(some) <= 102
    with pytest.raises(InputError, match="no such file"):
        list(recorded_messages(tmp_path / "nothing"))


@pytest.mark.parametrize("form", ["a.csv", "a.npz", "old.bag"])
def test_other_recordings_become_joint_states(tmp_path, form):
    if form == "old.bag":
        write_bag1(tmp_path / form, plain_messages(50, store=ROS1)[0])
    else:
        save_samples(load_samples(write_bag(tmp_path / "bag", plain_messages(50)[0])), tmp_path / form)
    samples = load_samples(tmp_path / form)
    decoded = [
        ROS2.deserialize_cdr(m.payload, "sensor_msgs/msg/JointState") for m in recorded_messages(tmp_path / form)
    ]
    assert np.array_equal([m.position for m in decoded], samples.q)
    assert np.array_equal([m.effort for m in decoded], samples.tau)
    assert decoded[0].name == list(samples.joint_names)


@pytest.mark.parametrize("form", ["bag", "old.bag"])
def test_what_is_played_is_of_the_topic_named_or_that_of_the_robot(tmp_path, form):
    store = ROS1 if form == "old.bag" else ROS2
    seq = 1 if form == "old.bag" else None
    messages = [
        (topic, EPOCH + 10 * k, joint_state(EPOCH + 10 * k, names, [k, k + 0.5][: len(names)], store=store, seq=seq))
        for k in range(1, 5)
        for topic, names in (("/left", ("a", "b")), ("/right", ("c",)))
    ]
    (write_bag1 if form == "old.bag" else write_bag)(tmp_path / form, messages)
    with pytest.raises(InputError, match="2 topics carry joint states"):
        list(recorded_messages(tmp_path / form))
    robot = Robot("r", (Joint("b", 0), Joint("a", 1)))
    for options, names in (({"topic": "/right"}, {"c"}), ({"robot": robot}, {"a", "b"})):
        played = list(recorded_messages(tmp_path / form, **options))
        decoded = [ROS2.deserialize_cdr(m.payload, "sensor_msgs/msg/JointState") for m in played]
        assert [m.stamp - EPOCH for m in played] == [10, 20, 30, 40]
        for k, m in enumerate(decoded, start=1):
            assert set(m.name) == names
            values = dict(zip(m.name, m.position, strict=True))
            assert values == ({"c": k} if names == {"c"} else {"a": k, "b": k + 0.5})


def test_dates_of_a_table_are_played(tmp_path):
    (tmp_path / "a.csv").write_text("time,a.position\n" + "".join(f"{1.7e9 + 0.25 * k!r},{k}\n" for k in range(5)))
    played = list(recorded_messages(tmp_path / "a.csv", start=0.25, end=0.75))
    assert [m.stamp for m in played] == [1_700_000_000 * 10**9 + 250_000_000 * k for k in (1, 2, 3)]
    decoded = [ROS2.deserialize_cdr(m.payload, "sensor_msgs/msg/JointState") for m in played]
    assert [(m.header.stamp.sec, m.header.stamp.nanosec) for m in decoded] == [
        (1_700_000_000, 250_000_000 * k) for k in (1, 2, 3)
    ]
    assert {m.topic for m in played} == {"/joint_states"}


def stream(times):
    return iter([Message(EPOCH + round(t * 1e9), "/j", b"") for t in times])


@pytest.mark.parametrize("rate", [0.5, 1.0, 4.0])
def test_each_message_comes_at_its_time(rate):
    clock = Clock()
    times = [0.0, 0.001, 0.05, 0.05, 1.0]
    seen = []
    for now, message in timed(stream(times), rate, clock=clock, sleep=clock.sleep):
        at = (now - EPOCH) * 1e-9
        assert at == pytest.approx((clock.now - 100) * rate, abs=1e-6)
        if message is not None:
            seen.append(clock.now - 100)
    assert np.allclose(seen, np.array(times) / rate, atol=1e-9)
    assert max(clock.naps) <= 0.01


def test_the_clock_ticks_while_waiting():
    clock = Clock()
    ticks = [now for now, message in timed(stream([0, 1]), clock=clock, sleep=clock.sleep) if message is None]
    assert len(ticks) > 90 and ticks == sorted(ticks)


def test_a_late_player_keeps_up():
    clock = Clock(overhead=0.004)
    times = np.arange(0, 1, 0.001)
    seen = [clock.now - 100 for _, m in timed(stream(times), clock=clock, sleep=clock.sleep) if m is not None]
    assert len(seen) == 1000 and seen[-1] < 1.01


def test_a_stop_ends_it_and_a_bad_rate_is_refused():
    clock = Clock()
    played = [
        m for _, m in timed(stream([0, 1, 2]), clock=clock, sleep=clock.sleep, stopped=lambda: clock.now > 101.5) if m
    ]
    assert len(played) == 2 and clock.now < 101.52, "in the middle of a wait"
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="is not a speed"):
            list(timed(stream([0]), rate))


@pytest.mark.parametrize("rate", [0.5, 1.0, 4.0])
def test_messages_come_when_their_time_has_come(rate):
    """By a clock of our own: waits are no longer than a tick, and what is late is not waited for."""
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    stamps = [5_000_000_000, 5_000_000_000, 5_010_000_000, 6_000_000_000, 6_500_000_000]
    messages = [Message(stamp, "/j", bytes([k])) for k, stamp in enumerate(stamps)]
    came, between = [], []
    for at, message in timed(iter(messages), rate, clock=lambda: now[0], sleep=sleep):
        if message is None:
            between.append((now[0], at))
        else:
            came.append((now[0] - 100.0, at, message))
        if message is messages[3]:
            now[0] += 10.0  # the player was held up
    assert [message for _, _, message in came] == messages and [at for _, at, _ in came] == stamps
    np.testing.assert_allclose([t for t, _, _ in came[:4]], [0.0, 0.0, 0.01 / rate, 1.0 / rate], atol=1e-9)
    assert came[4][0] == pytest.approx(1.0 / rate + 10.0), "late: at once"
    assert max(slept) <= TICK and sum(slept) == pytest.approx(1.0 / rate)
    assert len(between) >= 0.9 / rate / TICK - 1
    for moment, at in between:
        assert at == pytest.approx(5_000_000_000 + (moment - 100.0) * rate * 1e9, abs=10)
    assert list(timed(iter(messages), rate, stopped=lambda: True, clock=lambda: now[0], sleep=sleep)) == []
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="is not a speed"):
            next(timed(iter(messages), wrong))
