# SPDX-License-Identifier: Apache-2.0

"""Simulated time as a motion sees it."""

from __future__ import annotations

import threading

import pytest

from ros2_dynid.control.steady_time import SteadyTime


def test_a_leap_is_left_out_and_everything_else_passes():
    steady, epoch = SteadyTime(), 2.0**30
    assert steady.at(0.0, 10.0) == 0.0, "no message of the clock yet"
    assert steady.at(epoch, 10.5) == epoch, "the first one"
    assert steady.at(epoch + 0.25, 10.5) == epoch + 0.25, "a step"
    assert steady.at(epoch + 50.0, 11.5) == epoch + 50.0, "fifty times real time"
    assert steady.at(epoch + 1050.0, 11.5) == epoch + 50.0, "set ahead by 1000 s"
    assert steady.at(epoch + 1050.5, 12.0) == epoch + 50.5, "it goes on from there"
    assert steady.at(epoch + 1053.0, 13.5) == epoch + 53.0, "messages that were held up"
    assert steady.at(epoch, 13.75) == epoch + 53.0, "set back"
    assert steady.at(epoch + 0.25, 14.0) == epoch + 53.25


def test_a_clock_that_has_died_is_replaced_by_real_time():
    steady = SteadyTime()
    assert steady.at(100.0, 10.0) == steady.at(100.0, 11.0) == steady.at(100.0, 12.0) == 100.0, "it may be paused"
    assert steady.at(100.0, 12.5) == 100.5
    assert steady.at(100.0, 14.5) == 102.5
    assert steady.at(100.25, 15.0) == 102.75, "it runs again"


def test_stamps_show_how_late_the_clock_is_and_a_clock_that_was_set_is_not_outvoted():
    steady = SteadyTime()
    assert steady.at(100.0, 10.0) == 100.0
    steady.heard(100.25)
    assert steady.at(100.0, 10.25) == 100.25, "the clock is late"
    steady.heard(100.2)
    assert steady.at(100.0, 10.25) == 100.25, "jitter of the stamps"
    assert steady.at(100.5, 10.5) == 100.5, "it has caught up"
    steady.heard(1100.0)
    assert steady.at(100.75, 10.75) == 100.75, "a stamp of another clock"
    steady.heard(101.0)
    assert steady.at(100.75, 11.0) == 101.0, "right again"
    assert steady.at(20.0, 11.0) == 101.0, "the simulation begins anew"
    steady.heard(20.25)
    assert steady.at(20.0, 11.25) == 101.25


@pytest.mark.parametrize(("back", "taken"), [(0.0, False), (0.09, False), (0.11, True)])
def test_a_stamp_that_goes_back_by_a_tenth_of_a_second_was_set_back(back, taken):
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    steady.heard(100.5)
    steady.heard(100.5 - back)
    assert steady.at(100.0, 10.1) == pytest.approx(100.5 - back if taken else 100.5)


@pytest.mark.parametrize(("ahead", "used"), [(-0.2, False), (0.01, True), (0.49, True), (0.99, True), (1.01, False)])
def test_a_stamp_counts_up_to_a_second_ahead_of_the_clock(ahead, used):
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    steady.heard(100.0 + ahead)
    assert steady.at(100.0, 11.0) == pytest.approx(100.0 + ahead if used else 100.0)


@pytest.mark.parametrize(
    ("step", "real", "leaps"),
    [
        (-0.09, 0.0, False),
        (-0.11, 0.0, True),
        (0.49, 0.0, False),
        (0.51, 0.0, True),
        (10.4, 0.1, False),
        (10.6, 0.1, True),
        (-5.0, 0.1, True),
    ],
)
def test_what_is_a_step_and_what_a_leap(step, real, leaps):
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    assert steady.at(100.0 + step, 10.0 + real) == pytest.approx(100.0 if leaps else 100.0 + step)
    assert steady.at(100.0 + step + 0.3, 10.5 + real) == pytest.approx(100.3 if leaps else 100.3 + step), "it goes on"


def test_a_clock_that_stands_is_dead_after_two_seconds_of_the_real_one():
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    assert steady.at(100.0, 11.99) == 100.0
    assert steady.at(100.0, 12.25) == pytest.approx(100.25)
    assert steady.at(100.0, 12.0) == pytest.approx(100.25), "threads may ask in any order"
    assert steady.at(100.0, 12.5) == pytest.approx(100.5)
    unborn = SteadyTime()
    assert unborn.at(0.0, 10.0) == unborn.at(0.0, 50.0) == 0.0, "none has been heard yet"


def test_stamps_of_the_simulated_clock_lie_in_steady_time_whatever_was_left_out():
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    assert steady.ns_of(100_000_000_000) == 100_000_000_000 and steady.ns_of(0) == 0
    assert steady.at(100.0, 13.0) == 101.0, "it stood for three seconds"
    assert steady.at(103.25, 13.25) == 104.25, "and is back"
    assert steady.ns_of(103_250_000_000) == 104_250_000_000
    assert steady.at(1103.5, 13.5) == 104.25, "set ahead"
    assert steady.ns_of(1_103_500_000_000) == 104_250_000_000
    assert steady.ns_of(0) == 0, "none is none"


@pytest.mark.parametrize("ask", [lambda s: s.at(101.0, 11.0), lambda s: s.heard(100.5), lambda s: s.ns_of(5)])
def test_one_thread_at_a_time(ask):
    """While one thread is inside, another one waits: what is read and written belongs together."""
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    other = threading.Thread(target=ask, args=(steady,), daemon=True)
    with steady.lock:
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join(5.0)
    assert not other.is_alive()


def test_a_clock_that_comes_back_may_have_run_as_fast_as_any_since_its_last_message():
    """Asked again and again meanwhile: the real time since the message counts, not that since the last question."""
    steady = SteadyTime()
    steady.at(100.0, 10.0)
    for real in (10.2, 10.4, 10.6):
        assert steady.at(100.0, real) == 100.0
    assert steady.at(150.0, 10.6) == 150.0
