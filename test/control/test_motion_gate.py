# SPDX-License-Identifier: Apache-2.0

"""What passes the gate, and what does not: joints, order, numbers, times, ends, limits, the step from the robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.knots import reference_by_knots
from ros2_dynid.control.motion_gate import ApprovedStop, ApprovedTrajectory, MotionGate
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
    np.array([4.0, 6.0]),
)


def move(q_from, q_to, seconds, names=NAMES):
    return quintic(names, np.array(q_from), np.array(q_to), seconds).shifted(0.1)


def test_a_good_trajectory_passes():
    assert ApprovedTrajectory(move([0.0, 0.0], [1.0, -0.9], 2.0), LIMITS).points.duration == pytest.approx(2.1)


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
        ApprovedTrajectory(move(q_from, q_to, seconds), LIMITS)


@pytest.mark.parametrize("joint", [0, 1])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("position", 0.7e-6, 1.4e-6),
        ("velocity", 1.9, 2.1),
        ("acceleration", 1.9, 2.1),
        ("end", 0.7, 1.4),
        ("start", 0.7, 1.4),
    ],
)
def test_as_much_as_is_forgiven_and_no_more(joint, side, kind, least, most):
    """Positions to a micrometre, rates to 2 %, speeds at the ends to 1e-9: both signs, the joint with its own limit."""
    for size, refused in ((least, False), (most, True)):
        t, q, dq, ddq = np.array([0.5, 1.5]), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))
        if kind == "position":
            limit = (LIMITS.upper if side > 0 else LIMITS.lower)[joint]
            q[:, joint] = limit + side * size
        elif kind == "velocity":  # a line in the middle, at a speed of its own
            speed = side * LIMITS.velocity[joint] * (1 + size / 100)
            t, q = np.array([0.5, 1.5, 1.6, 2.6]), np.zeros((4, 2))
            q[:, joint] = 0.2 + speed * np.array([-0.55, -0.05, 0.05, 0.55])
            dq = np.zeros((4, 2))
            dq[1:3, joint] = speed
            ddq = np.zeros((4, 2))
        elif kind == "acceleration":
            ddq[0, joint] = side * LIMITS.acceleration[joint] * (1 + size / 100)
        else:
            dq[-1 if kind == "end" else 0, joint] = side * size * 1e-9
        points = reference(NAMES, t, q, dq, ddq)
        if refused:
            with pytest.raises(
                InputError, match="at rest" if kind in ("end", "start") else f"{kind} of joint '{NAMES[joint]}'"
            ):
                ApprovedTrajectory(points, LIMITS)
        else:
            ApprovedTrajectory(points, LIMITS)


def test_wrong_joints_order_numbers_and_times_do_not_pass():
    good = move([0.0, 0.0], [1.0, -0.9], 2.0)
    for names in (("b", "a"), ("a", "x")):
        with pytest.raises(InputError, match=f"is for {names[0]}, {names[1]}"):
            ApprovedTrajectory(replace(good, joint_names=names), LIMITS)
    bad = good.q.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match="not finite"):
        ApprovedTrajectory(replace(good, q=bad), LIMITS)
    times = good.t.copy()
    times[5] = times[4]
    with pytest.raises(InputError, match="do not increase"):
        ApprovedTrajectory(replace(good, t=times), LIMITS)
    with pytest.raises(InputError, match="or start now"):
        ApprovedTrajectory(good.shifted(-0.1), LIMITS)
    with pytest.raises(InputError, match="no velocities"):
        ApprovedTrajectory(replace(good, dq=None), LIMITS)
    for speed in (1e-3, -1e-3, 1e-8, -1e-8):
        moving_end, moving_start = good.dq.copy(), good.dq.copy()
        moving_end[-1, 0] = moving_start[0, 1] = speed
        with pytest.raises(InputError, match="end at rest"):
            ApprovedTrajectory(replace(good, dq=moving_end), LIMITS)
        with pytest.raises(InputError, match="begin at rest"):
            ApprovedTrajectory(replace(good, dq=moving_start), LIMITS)


def test_limits_are_looked_for_between_the_points():
    t, still = np.array([0.1, 1.1]), np.zeros((2, 2))
    hidden = reference(NAMES, np.append(t, 2.1), np.array([[1.9, 0.0], [1.9, 0.0], [1.9, 0.0]]),
                       np.array([[0.0, 0.0], [0.9, 0.0], [0.0, 0.0]]))  # fmt: skip
    with pytest.raises(InputError, match="position of joint 'a'"):
        ApprovedTrajectory(hidden, LIMITS)
    assert ApprovedTrajectory(reference(NAMES, t, still, still), LIMITS)


def test_what_is_sent_was_approved_for_these_limits_and_begins_where_the_robot_is():
    sent = []
    gate = MotionGate(lambda points, delay, number: sent.append((points, delay, number)) or 7.0)
    good = ApprovedTrajectory(move([0.0, 0.0], [1.0, -0.9], 2.0), LIMITS)
    with pytest.raises(InputError, match="limits have changed"):
        gate.send(good, replace(LIMITS), np.zeros(2))
    # first point after 0.1 s: acceleration 6 d / t^2 <= 5, so d <= 8.3 mrad; with a delay of 0.4 s, 0.2 rad
    with pytest.raises(InputError, match=r"begins 0\.02 from joint 'a'"):
        gate.send(good, LIMITS, np.array([-0.02, 0.0]))
    with pytest.raises(InputError, match=r"begins 0\.3 from joint 'b'"):
        gate.send(good, LIMITS, np.array([0.0, 0.3]))
    assert not sent and gate.number == 0
    assert gate.send(good, LIMITS, np.array([0.008, -0.008])) == 7.0
    assert gate.send(good, LIMITS, np.array([-0.02, 0.0]), delay=0.4) == 7.0
    with pytest.raises(InputError, match="begins nan"):
        gate.send(good, LIMITS, np.array([np.nan, 0.0]))
    assert [number for _, _, number in sent] == [1, 2] and sent[1][1] == 0.4


def test_a_stop_may_begin_outside_of_the_limits_but_must_not_lead_further():
    q, dq = np.array([2.05, 0.0]), np.array([0.5, 1.0])
    brake = braking(LIMITS, q, dq, np.zeros(2), 0.01)
    with pytest.raises(InputError, match="position of joint 'a'"):  # it cannot stop at once
        ApprovedStop(brake.points, brake.expected, LIMITS)
    brake = braking(LIMITS, np.array([2.05, 0.0]), np.array([0.0, 1.0]), np.zeros(2), 0.01)
    assert ApprovedStop(brake.points, brake.expected, LIMITS)
    brake = braking(LIMITS, np.zeros(2), np.array([0.9, -1.9]), np.zeros(2), 0.01)
    found = ApprovedStop(brake.points, brake.expected, LIMITS)
    assert found.points is brake.points
    with pytest.raises(InputError, match="would pass its limit"):
        ApprovedStop(brake.points, _hurried(brake.expected), LIMITS)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_stop_of_a_robot_that_is_outside_and_comes_back_or_is_too_fast_passes(side):
    limit = LIMITS.upper if side > 0 else LIMITS.lower
    back = braking(LIMITS, limit + side * np.array([0.05, 0.0]), -side * np.array([0.8, 0.1]), np.zeros(2), 0.05)
    assert ApprovedStop(back.points, back.expected, LIMITS)
    fast = braking(LIMITS, np.zeros(2), side * np.array([1.3, 0.1]), np.zeros(2), 0.05)
    assert ApprovedStop(fast.points, fast.expected, LIMITS)
    t = fast.expected.t.copy()
    faster = reference(NAMES, t, fast.expected.q * np.array([1.2, 1.0]), fast.expected.dq)
    with pytest.raises(InputError, match="velocity of joint 'a'"):
        ApprovedStop(fast.points, faster, LIMITS)


def test_a_stop_has_the_form_of_every_trajectory():
    brake = braking(LIMITS, np.zeros(2), np.array([0.5, -0.5]), np.zeros(2), 0.01)
    t, q = brake.points.t, brake.points.q
    for points, words in (
        (reference(NAMES[::-1], t, q, 0 * q), "in this order"),
        (reference(NAMES, np.array([0.0]), q, 0 * q), "start now"),
        (reference(NAMES, t, q), "no velocities"),
        (reference(NAMES, t, q, q + 0.1), "does not end at rest"),
    ):
        with pytest.raises(InputError, match=words):
            ApprovedStop(points, brake.expected, LIMITS)


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
    for duration in (0.4, 1.0, 2.7):  # segments of 1 s at most to begin with
        slow = FourierSeries(duration, np.zeros(2), 1e-9 * A, 1e-9 * B, 1)
        few = reference_by_knots(NAMES, slow.evaluate, duration, wide, 100.0)
        assert len(few.t) == 1 + np.ceil(duration) and few.duration == duration
    capped = reference_by_knots(NAMES, curve.evaluate, curve.duration, wide, 5.0)
    assert np.min(np.diff(capped.t)) >= 0.1 and len(capped.t) <= len(points.t)


@pytest.mark.parametrize(
    ("field", "degree", "bound", "halvings"),
    [(1, 5, 0.01, 1), (2, 5, 0.01, 1), (1, 3, 0.1, 3), (2, 3, 0.1, 3), (0, 3, 1e-3, 3)],
)
def test_segments_are_halved_where_a_bound_is_passed_and_only_there(field, degree, bound, halvings):
    """Position within 1 mrad; velocity and acceleration within 1 % of the limits by the quintic, 10 % by the cubic.

    A fast sine, of which the one bound in question asks for segments of 2^-halvings s: with a use of it just below 1
    these stay, just above they are halved. Wide segments are the quintic's matter, narrow ones the cubic's.
    """

    def sine(size):
        def curve(t):
            x = 10.0 * t[:, None] + np.array([0.0, 1.0])
            return size * np.sin(x), size * 10.0 * np.cos(x), -size * 100.0 * np.sin(x)

        return curve

    count = 4 * 2**halvings
    t, between = np.linspace(0.0, 4.0, count + 1), np.linspace(0.0, 4.0, 8 * count + 1)[1:-1]
    q, dq, ddq = sine(1.0)(t)
    found = reference(NAMES, t, q, dq, ddq if degree == 5 else None)
    worst = np.abs(found.sampled(between)[field] - sine(1.0)(between)[field]).max()
    for use, halved in ((0.8, False), (1.25, True)):
        size = bound * use / worst if field == 0 else 1e-5
        limits = {k: np.full(2, size * worst / bound / use if field == k else 1e9) for k in (1, 2)}
        tight = replace(LIMITS, velocity=limits[1], acceleration=limits[2])
        points = reference_by_knots(NAMES, sine(size), 4.0, tight, 1000.0)
        assert len(points.t) >= count + 1 and (len(points.t) > count + 1) == halved


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize(("joint", "t1"), [(0, 4.0), (1, 3.0)])
def test_the_way_to_the_first_point_keeps_the_velocity_limit_too(joint, t1, side):
    """With much time the cubic's velocity, 1.5 d / t1, is met long before its acceleration."""
    far = replace(LIMITS, lower=LIMITS.lower * 9, upper=LIMITS.upper * 9)
    gate = MotionGate(lambda points, delay, number: 7.0)
    late = ApprovedTrajectory(quintic(NAMES, np.zeros(2), np.array([0.3, -0.2]), 2.0).shifted(t1), far)
    most = far.velocity[joint] * t1 / 1.5
    assert 6 * most / t1**2 < 0.5 * far.acceleration[joint]
    q = np.zeros(2)
    q[joint] = side * 0.999 * most
    assert gate.send(late, far, q) == 7.0
    q[joint] = side * 1.001 * most
    with pytest.raises(InputError, match=f"from joint '{NAMES[joint]}'"):
        gate.send(late, far, q)
    assert gate.send(late, far, q, delay=0.1) == 7.0


@pytest.mark.parametrize(("speed", "kept"), [(5e-10, False), (-5e-10, False), (2e-9, True)])
@pytest.mark.parametrize("end", [0, -1])
def test_velocities_of_rounding_at_the_ends_of_a_curve_are_none(speed, kept, end):
    def curve(t):
        way = quintic(NAMES, np.zeros(2), np.array([0.3, -0.2]), 2.0)
        q, dq, ddq = way.sampled(t)
        dq[end] += [0.0, speed]
        return q, dq, ddq

    points = reference_by_knots(NAMES, curve, 2.0, LIMITS, 100.0)
    np.testing.assert_array_equal(points.dq[end] != 0.0, [False, kept])
    assert not points.dq[-1 - end].any()


def test_the_joint_named_is_the_one_furthest_beyond_its_own_limit():
    good = ApprovedTrajectory(move([0.0, 0.0], [1.0, -0.9], 2.0), LIMITS)
    gate = MotionGate(lambda points, delay, number: 7.0)
    for q, name, distance in (
        ([0.02, 0.03], "a", "0.02"),
        ([0.02, 0.035], "b", "0.035"),
        ([-0.02, -0.03], "a", "0.02"),
    ):
        with pytest.raises(InputError, match=rf"begins {distance} from joint '{name}'"):
            gate.send(good, LIMITS, np.array(q))


@pytest.mark.parametrize(("kind", "seconds"), [("velocity", 1.875), ("acceleration", np.sqrt(5.7735 / 5.0))])
def test_a_move_of_two_points_is_looked_at_between_them(kind, seconds):
    """From rest to rest: at its ends, and in the middle of either, nothing shows that it is too fast or too hard."""
    other = {"velocity": {"acceleration": np.full(2, 99.0)}, "acceleration": {"velocity": np.full(2, 99.0)}}[kind]
    limits, still = replace(LIMITS, **other), np.zeros((2, 2))
    for over, refused in ((1.012, False), (1.028, True)):
        T = seconds / over if kind == "velocity" else seconds / np.sqrt(over)
        for to in ([1.0, 0.0], [-1.0, 0.0]):
            points = reference(NAMES, np.array([0.5, 0.5 + T]), np.array([[0.0, 0.0], to]), still, still)
            if refused:
                with pytest.raises(InputError, match=rf"{kind} of joint 'a' would pass its limit by 0\.[01]"):
                    ApprovedTrajectory(points, limits)
            else:
                assert ApprovedTrajectory(points, limits).limits is limits


@pytest.mark.parametrize("field", ["t", "q", "dq", "ddq", "tau"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_no_field_may_hold_what_is_no_number(field, wrong):
    good = move([0.0, 0.0], [1.0, -0.9], 2.0)
    good = reference(NAMES, good.t, good.q, good.dq, good.ddq, 0.1 * good.q)
    assert ApprovedTrajectory(good, LIMITS)
    values = getattr(good, field).copy()
    values.flat[-2] = wrong
    with pytest.raises(InputError, match="not finite"):
        ApprovedTrajectory(replace(good, **{field: values}), LIMITS)


@pytest.mark.parametrize("joint", [0, 1])
def test_a_stop_may_use_the_harder_of_acceleration_and_deceleration(joint):
    for acceleration, deceleration in ((8.0, 3.0), (3.0, 8.0)):
        limits = replace(LIMITS, acceleration=np.full(2, acceleration), deceleration=np.full(2, deceleration))
        for share, refused in ((1.0, False), (1.05, True)):
            dq = 0.6 * np.eye(2)[joint]
            T = 0.6 / (8.0 * share)
            expected = reference(
                NAMES, np.array([0.0, 0.01, 0.01 + T]), np.stack((0 * dq, 0.01 * dq, (0.01 + T / 2) * dq)),
                np.stack((dq, dq, 0 * dq)),
            )  # fmt: skip
            points = reference(NAMES, np.array([T]), expected.q[-1:], 0 * expected.q[-1:])
            if refused:
                with pytest.raises(InputError, match=f"acceleration of joint '{NAMES[joint]}'"):
                    ApprovedStop(points, expected, limits)
            else:
                assert ApprovedStop(points, expected, limits)


@pytest.mark.parametrize("most_hz", [2.0, 5.0, 7.0, 11.0, 100.0])
def test_of_a_curve_that_no_segment_fits_there_are_as_many_points_as_the_rate_allows(most_hz):
    def wild(t):
        x = 1e4 * t[:, None] ** 2 + np.array([0.0, 1.0])
        return np.sin(x), 9.0 * np.cos(x), 9.0 * np.sin(2 * x)

    steps = np.diff(reference_by_knots(NAMES, wild, 3.3, LIMITS, most_hz).t)
    assert np.all(steps <= 1.5 / most_hz + 1e-9) and np.all(steps > 0.75 / most_hz - 1e-9)
    np.testing.assert_allclose(steps, steps[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["lower", "upper", "velocity", "acceleration"])
def test_a_stop_is_judged_by_the_limits_of_each_joint(kind, seed):
    """Joints of which one does a hundred times what another does: only the one that is beyond its own is named."""
    rng = np.random.default_rng(seed)
    names, size = ("a", "b", "c"), rng.permutation([0.1, 1.0, 10.0])
    q = size * np.stack((0 * size, rng.uniform(0.2, 0.4, 3), -rng.uniform(0.2, 0.4, 3), 0 * size))
    dq = size * np.concatenate((rng.uniform(-0.1, 0.1, (3, 3)), np.zeros((1, 3))))
    expected = reference(names, np.array([0.0, 0.5, 1.0, 1.5]), q, dq)
    points = reference(names, np.array([1.5]), q[-1:], 0 * q[-1:])
    way, speed, push = expected.within(np.linspace(0.0, 1.0, 401))
    room = {"lower": way.min(axis=0), "upper": way.max(axis=0), "velocity": np.abs(speed).max(axis=0)}
    room |= dict.fromkeys(("acceleration", "deceleration"), np.abs(push).max(axis=0))
    assert ApprovedStop(points, expected, MotionLimits(names, **room))
    for joint in range(3):
        changed = (kind, "deceleration") if kind == "acceleration" else (kind,)
        tight = room | {name: np.where(np.arange(3) == joint, 0.95, 1.0) * room[name] for name in changed}
        what = "position" if kind in ("lower", "upper") else kind
        with pytest.raises(InputError, match=f"the {what} of joint '{names[joint]}' would pass its limit"):
            ApprovedStop(points, expected, MotionLimits(names, **tight))
