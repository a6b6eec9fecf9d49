"""What passes the door, and what does not: joints, order, numbers, times, ends, limits, the step from the robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.door import Approved, Door, approve, approve_stop
from ros2_dynid.control.knots import reference_by_knots
from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.stop import braking, quintic
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.fourier import FourierSeries

NAMES = ("a", "b")
LIMITS = MotionLimits(
    NAMES,
    np.array([-2.0, -1.0]),
    np.array([2.0, 1.5]),
    np.array([1.0, 2.0]),
    np.array([5.0, 8.0]),
    np.array([5.0, 8.0]),
)


def move(q_from, q_to, seconds, names=NAMES):
    return quintic(names, np.array(q_from), np.array(q_to), seconds).shifted(0.1)


def test_a_good_trajectory_passes():
    assert approve(move([0.0, 0.0], [1.0, -0.9], 2.0), LIMITS).points.duration == pytest.approx(2.1)


@pytest.mark.parametrize(
    ("q_from", "q_to", "seconds", "said"),
    [
        ([0.0, 0.0], [2.1, 0.0], 9.0, "position of joint 'a'"),
        ([0.0, 0.0], [-2.1, 0.0], 9.0, "position of joint 'a'"),
        ([0.0, 0.0], [0.0, 1.6], 9.0, "position of joint 'b'"),
        ([0.0, 0.0], [0.0, -1.1], 9.0, "position of joint 'b'"),
        ([0.0, 0.0], [1.0, 0.0], 1.8, "velocity of joint 'a'"),
        ([0.0, 0.0], [-1.0, 0.0], 1.8, "velocity of joint 'a'"),
        ([0.0, 0.0], [0.0, 1.0], 0.9, "velocity of joint 'b'"),
        ([0.0, 0.0], [0.2, 0.0], 0.45, "acceleration of joint 'a'"),
        ([0.0, 0.0], [0.0, -0.2], 0.36, "acceleration of joint 'b'"),
    ],
)
def test_beyond_a_limit_nothing_passes(q_from, q_to, seconds, said):
    with pytest.raises(InputError, match=said):
        approve(move(q_from, q_to, seconds), LIMITS)


def test_wrong_joints_order_numbers_and_times_do_not_pass():
    good = move([0.0, 0.0], [1.0, -0.9], 2.0)
    for names in (("b", "a"), ("a", "x")):
        with pytest.raises(InputError, match=f"is for {names[0]}, {names[1]}"):
            approve(replace(good, joint_names=names), LIMITS)
    bad = good.q.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match="not finite"):
        approve(replace(good, q=bad), LIMITS)
    times = good.t.copy()
    times[5] = times[4]
    with pytest.raises(InputError, match="do not increase"):
        approve(replace(good, t=times), LIMITS)
    with pytest.raises(InputError, match="or start now"):
        approve(good.shifted(-0.1), LIMITS)
    with pytest.raises(InputError, match="no velocities"):
        approve(replace(good, dq=None), LIMITS)
    moving_end, moving_start = good.dq.copy(), good.dq.copy()
    moving_end[-1, 0] = moving_start[0, 1] = 1e-3
    with pytest.raises(InputError, match="end at rest"):
        approve(replace(good, dq=moving_end), LIMITS)
    with pytest.raises(InputError, match="begin at rest"):
        approve(replace(good, dq=moving_start), LIMITS)


def test_limits_are_looked_for_between_the_points():
    t, still = np.array([0.1, 1.1]), np.zeros((2, 2))
    hidden = reference(NAMES, np.append(t, 2.1), np.array([[1.9, 0.0], [1.9, 0.0], [1.9, 0.0]]),
                       np.array([[0.0, 0.0], [0.9, 0.0], [0.0, 0.0]]))  # fmt: skip
    with pytest.raises(InputError, match="position of joint 'a'"):
        approve(hidden, LIMITS)
    assert approve(reference(NAMES, t, still, still), LIMITS)


def test_what_is_sent_was_approved_for_these_limits_and_begins_where_the_robot_is():
    sent = []
    door = Door(lambda points, delay, number: sent.append((points, delay, number)) or 7.0)
    good = approve(move([0.0, 0.0], [1.0, -0.9], 2.0), LIMITS)
    with pytest.raises(InputError, match="limits have changed"):
        door.send(good, replace(LIMITS), np.zeros(2))
    # first point after 0.1 s: acceleration 6 d / t^2 <= 5, so d <= 8.3 mrad; with a delay of 0.4 s, 0.2 rad
    with pytest.raises(InputError, match=r"begins 0\.02 from joint 'a'"):
        door.send(good, LIMITS, np.array([-0.02, 0.0]))
    with pytest.raises(InputError, match=r"begins 0\.3 from joint 'b'"):
        door.send(good, LIMITS, np.array([0.0, 0.3]))
    assert not sent and door.number == 0
    assert door.send(good, LIMITS, np.array([0.008, -0.008])) == 7.0
    assert door.send(good, LIMITS, np.array([-0.02, 0.0]), delay=0.4) == 7.0
    with pytest.raises(InputError, match="begins nan"):
        door.send(good, LIMITS, np.array([np.nan, 0.0]))
    assert [number for _, _, number in sent] == [1, 2] and sent[1][1] == 0.4


def test_a_stop_may_begin_outside_of_the_limits_but_must_not_lead_further():
    q, dq = np.array([2.05, 0.0]), np.array([0.5, 1.0])
    brake = braking(LIMITS, q, dq, np.zeros(2), 0.01)
    with pytest.raises(InputError, match="position of joint 'a'"):  # it cannot stop at once
        approve_stop(brake.points, brake.expected, LIMITS)
    brake = braking(LIMITS, np.array([2.05, 0.0]), np.array([0.0, 1.0]), np.zeros(2), 0.01)
    assert approve_stop(brake.points, brake.expected, LIMITS).is_stop
    brake = braking(LIMITS, np.zeros(2), np.array([0.9, -1.9]), np.zeros(2), 0.01)
    found = approve_stop(brake.points, brake.expected, LIMITS)
    assert isinstance(found, Approved) and found.points is brake.points
    with pytest.raises(InputError, match="would pass its limit"):
        approve_stop(brake.points, _hurried(brake.expected), LIMITS)


def _hurried(expected: Reference) -> Reference:
    t = expected.t * 0.7
    return reference(NAMES, t, expected.q, expected.dq)


def test_a_long_plan_needs_few_points_and_keeps_its_curve():
    rng = np.random.default_rng(1)
    harmonics = 5
    A, B = rng.normal(size=(2, 2, harmonics)) * 0.02
    curve = FourierSeries(10.0, np.zeros(2), A, B, 6)
    wide = replace(LIMITS, lower=LIMITS.lower * 9, upper=LIMITS.upper * 9)
    points = reference_by_knots(NAMES, curve.evaluate, curve.duration, wide, 100.0)
    assert points.duration == pytest.approx(60.0) and 60 < len(points.t) < 700, "6001 at 100 Hz"
    t = rng.uniform(0, 60, 3000)
    for found, true, bound in zip(
        points.sampled(t), curve.evaluate(t), (1e-3, 0.01 * wide.velocity, 0.01 * wide.acceleration), strict=True
    ):
        assert np.all(np.abs(found - true) <= bound * 1.1)
    cubic = reference(NAMES, points.t, points.q, points.dq)
    assert np.all(np.abs(cubic.sampled(t)[2] - curve.evaluate(t)[2]) <= 0.12 * wide.acceleration)
    capped = reference_by_knots(NAMES, curve.evaluate, curve.duration, wide, 5.0)
    assert np.min(np.diff(capped.t)) >= 0.1 and len(capped.t) <= len(points.t)
