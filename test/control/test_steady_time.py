"""Simulated time as a motion sees it."""

from __future__ import annotations

from ros2_dynid.control.steady_time import SteadyTime


def test_a_leap_is_left_out_and_everything_else_passes():
    steady = SteadyTime()
    assert steady.at(0.0, 10.0) == 0.0, "no message of the clock yet"
    assert steady.at(1.7e9, 10.1) == 1.7e9, "the first one"
    assert steady.at(1.7e9 + 0.2, 10.1) == 1.7e9 + 0.2, "a step"
    assert steady.at(1.7e9 + 50.2, 11.1) == 1.7e9 + 50.2, "fifty times real time"
    assert steady.at(1.7e9 + 1050.2, 11.102) == 1.7e9 + 50.2, "set ahead by 1000 s"
    assert abs(steady.at(1.7e9 + 1050.4, 11.3) - (1.7e9 + 50.4)) < 1e-3, "it goes on from there"
    assert steady.at(1.7e9, 11.4) < 1.7e9, "set back: that is passed on"
