# SPDX-License-Identifier: Apache-2.0

"""Stops and starts stay within the limits for every controller: one that starts from what is measured or desired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excitation_robots import with_follower
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings, motion_limits
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import (
    SHORTEST,
    approach_reference,
    braking,
    braking_time,
    catching_up_time,
    joins_within_limit,
    motion_extent,
    start_time,
    stop_with_margin,
)
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Joint, Limits, Robot

NAMES = ("a", "b", "c")
LIMITS = MotionLimits(
    NAMES,
    np.array([-3.0, -2.0, -1.0]),
    np.array([3.0, 2.0, 1.5]),
    np.array([3.0, 2.0, 4.0]),
    np.array([6.0, 9.0, 3.5]),
    np.array([5.0, 8.0, 3.0]),
)
joints = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array)


def controllers_way(brake, q, dq):
    """Return the motion of a controller that is at q, dq when the stop arrives."""
    points = brake.points
    t = np.concatenate(([0.0], points.t))
    return reference(NAMES, t, np.vstack((q, points.q)), np.vstack((dq, points.dq)))


@given(joints, joints, st.floats(0, 2), st.floats(1e-3, 0.02), st.sampled_from([-1, 0, 1]))
def test_whatever_the_controller_starts_from_the_deceleration_holds(dq, error, late, lead, side):
    dq, error = dq * LIMITS.velocity, 0.1 * np.abs(error)
    q = np.zeros(3)
    brake = braking(LIMITS, q, dq, error, lead)
    if np.any(np.abs(brake.points.q[-1] - (q + dq * (lead + brake.points.t[-1] / 2))) > 1e-9):
        return  # led up to a position limit: tested below
    begins = q + dq * lead * late + side * error
    way = controllers_way(brake, begins, dq)
    _, speed, acceleration = way.within(np.linspace(0, 1, 40))
    assert np.all(np.abs(acceleration) <= LIMITS.deceleration * (1 + 1e-6) + 1e-6)
    assert np.all(np.abs(speed) <= LIMITS.velocity * (1 + 1e-9) + 1e-9)
    assert np.all(way.dq[-1] == 0.0)


@given(joints, joints, joints, st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1]))
def test_a_controller_that_has_another_state_is_counted_with(dq, error, speed_error, side, speed_side):
    dq, error, speed_error = 0.3 * dq * LIMITS.velocity, 0.05 * np.abs(error), 0.3 * np.abs(speed_error)
    brake = braking(LIMITS, np.zeros(3), dq, error, 1e-3, speed_error=speed_error)
    way = controllers_way(brake, dq * 1e-3 + side * error, dq + speed_side * speed_error)
    if brake.points.t[-1] < 1.0:
        assert np.all(np.abs(way.within(np.linspace(0, 1, 40))[2]) <= LIMITS.deceleration * (1 + 1e-6) + 1e-6)
    other = braking(LIMITS, np.zeros(3), dq, np.zeros(3), 0.01, speed_error=np.full(3, 20.0))
    assert other.points.t[-1] == pytest.approx(1.0), "however fast it was to be, it stops soon"


@given(joints)
def test_without_errors_it_is_the_quickest_stop_of_the_slowest_joint(dq):
    dq = dq * LIMITS.velocity
    wide = replace(LIMITS, lower=np.full(3, -9.0), upper=np.full(3, 9.0))
    brake = braking(wide, np.zeros(3), dq, np.zeros(3), 0.0)
    T = max(float(np.max(np.abs(dq) / LIMITS.deceleration)), SHORTEST)
    assert T - 1e-9 <= brake.points.t[-1] <= T + 8e-3
    assert brake.points.q[-1] == pytest.approx(dq * (1e-3 + brake.points.t[-1] / 2))
    assert len(brake.points.t) == 1 and np.all(brake.points.dq == 0.0)


def test_the_lead_is_travelled_on_so_nothing_jerks_back():
    dq = np.array([2.0, -1.0, 0.5])
    brake = braking(LIMITS, np.array([0.1, 0.2, 0.3]), dq, np.zeros(3), 0.02)
    q, speed, _ = brake.expected.sampled(np.linspace(0, brake.expected.duration, 400))
    assert np.all(np.diff(q, axis=0) * np.sign(dq) >= -1e-9), "no joint goes back"
    assert np.allclose(speed[1:15], dq, atol=0.12), "it goes on until the stop takes effect"
    assert q[-1] == pytest.approx(np.array([0.1, 0.2, 0.3]) + dq * (0.02 + brake.points.t[-1] / 2))
    without = braking(LIMITS, np.array([0.1, 0.2, 0.3]), dq, np.zeros(3), 0.0)
    assert np.all((brake.points.q[-1] - without.points.q[-1]) * np.sign(dq) >= 0.02 * np.abs(dq) - 1e-9)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_stop_near_a_limit_does_not_lead_over_it(side):
    limit = LIMITS.upper if side > 0 else LIMITS.lower
    dq = side * np.array([1.0, 0.5, 0.8])
    q = limit - side * np.array([1.0, 0.03, 0.5])
    brake = braking(LIMITS, q, dq, np.full(3, 0.05), 0.01)
    assert np.all(side * (limit - brake.points.q[-1]) >= -1e-9)
    assert brake.points.t[-1] >= 0.8 / 3 - 1e-9, "the slowest joint needs its time"
    outside = braking(LIMITS, limit + side * 0.02, dq, np.zeros(3), 0.0)
    assert np.all(side * (outside.points.q[-1] - limit - side * 0.02) <= 1e-9), "outside it goes no further"
    close = braking(LIMITS, limit - side * 1e-3, dq, np.zeros(3), 0.02)
    assert np.all(side * (close.points.q[-1] - limit) <= 1e-9), "nor does what it goes until the stop arrives"


def test_a_controller_of_positions_only_gets_dense_points():
    dq = np.array([2.0, -1.0, 0.5])
    sparse, dense = (braking(LIMITS, np.zeros(3), dq, np.zeros(3), 0.01, dense=flag) for flag in (False, True))
    assert len(dense.points.t) > 10 and np.max(np.diff(dense.points.t)) < 0.031
    assert dense.points.q[-1] == pytest.approx(sparse.points.q[-1])
    straight = (
        np.diff(np.vstack((0.01 * dq, dense.points.q)), axis=0)
        / np.diff(np.concatenate(([0], dense.points.t)))[:, None]
    )
    assert np.all(np.abs(np.diff(np.vstack((dq, straight)), axis=0)) < 0.25), "no step in speed"


@given(joints, joints, st.sampled_from([-1, 1]))
def test_dense_points_leave_a_controller_that_is_off_its_time(dq, error, side):
    """As where joint states come late: the robot has moved on from where the stop begins."""
    dq, error = dq * LIMITS.velocity, 0.2 * np.abs(error)
    wide = replace(LIMITS, lower=np.full(3, -9.0), upper=np.full(3, 9.0))
    brake = braking(wide, np.zeros(3), dq, error, 1e-3, dense=True)
    way = controllers_way(brake, 1e-3 * dq + side * error, dq)
    _, speed, acceleration = way.within(np.linspace(0, 1, 40))
    assert np.all(np.abs(speed) <= LIMITS.velocity + 1e-6)
    assert np.all(np.abs(acceleration) <= 2.0 * LIMITS.deceleration + 0.5), "half of it to stop, the rest to catch up"


def test_a_stop_takes_from_a_twentieth_of_a_second_to_one():
    still, wide = np.zeros(3), replace(LIMITS, lower=np.full(3, -9.0), upper=np.full(3, 9.0))
    assert braking(wide, still, still, still, 0.0).points.t[-1] == pytest.approx(0.05)
    assert start_time(wide, 0.0, 0.3) == pytest.approx(0.05)
    doubtful = braking(wide, still, np.array([0.1, 0.0, 0.0]), still, 0.0, speed_error=np.full(3, 20.0))
    assert doubtful.points.t[-1] == pytest.approx(1.0)
    assert np.diff(braking(wide, still, np.ones(3), still, 0.0, dense=True).points.t)[:-1] == pytest.approx(0.02)


def test_braking_time_is_the_root():
    T = braking_time(np.array([2.0, -2.0, 0.0]), np.array([5.0, 5.0, 5.0]), np.array([0.1, 0.1, 0.1]))
    assert 5 * T**2 - np.array([2.0, 2.0, 0.0]) * T - 6 * 0.1 == pytest.approx(np.zeros(3))


@given(joints, joints, st.floats(0.01, 0.3))
def test_doubt_makes_a_stop_longer_only_where_there_is_room(dq, place, doubt):
    dq, lead, none = dq * LIMITS.velocity, 0.01, np.zeros(3)
    middle, half = (LIMITS.upper + LIMITS.lower) / 2, (LIMITS.upper - LIMITS.lower) / 2
    q = middle + 0.98 * place * half
    sure, unsure = braking(LIMITS, q, dq, none, lead), braking(LIMITS, q, dq, none, lead, doubt=doubt)
    assert unsure.points.t[-1] >= sure.points.t[-1]

    def outside(brake):
        path = controllers_way(brake, q + lead * dq, dq).within(np.linspace(0, 1, 60))[0]
        return np.maximum(path - LIMITS.upper, LIMITS.lower - path).max()

    assert outside(unsure) <= max(outside(sure), 0.0) + 1e-3 * np.abs(dq).max() + 1e-9
    wide = replace(LIMITS, lower=np.full(3, -9.0), upper=np.full(3, 9.0))
    allowed = braking(wide, q, dq, none, lead, doubt=doubt)
    assert allowed.points.t[-1] == braking(wide, q, dq, np.full(3, doubt), lead).points.t[-1], (
        "as an error that is known"
    )


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("unsure", [{"speed_error": np.full(3, 3.0)}, {"doubt": np.full(3, 0.5)}])
def test_what_is_in_doubt_leaves_the_robot_a_tenth_of_the_way_to_a_limit(side, unsure):
    dq, none, lead = side * np.array([1.0, 0.5, 0.2]), np.zeros(3), 1e-3
    limit = LIMITS.upper if side > 0 else LIMITS.lower
    q = limit - side * np.array([0.2, 1.0, 1.0])
    short, long = braking(LIMITS, q, dq, none, lead), braking(LIMITS, q, dq, none, lead, **unsure)
    way = np.abs(limit - q - lead * dq)
    assert np.abs(long.points.q[-1] - q - lead * dq)[0] == pytest.approx(0.9 * way[0], abs=1e-3)
    assert short.points.t[-1] < long.points.t[-1] < 0.5


@pytest.mark.parametrize(("dq", "error"), [(0.0, 0.2), (0.5, 0.2), (-1.9, 0.05), (2.0, 0.2), (2.5, 0.1)])
def test_catching_up_takes_just_as_long_as_the_speed_limit_wants(dq, error):
    T = float(catching_up_time(np.array([dq]), np.array([2.0]), np.array([error]))[0])
    u, s = min(abs(dq), 2.0), np.linspace(0, 1, 10_001)
    assert np.max((1 - s) * (u + 6 * error / T * s)) == pytest.approx(2.0, rel=1e-6)
    assert np.max((1 - s) * (u + 6 * error / (1.01 * T) * s)) <= 2.0


@pytest.mark.parametrize("slow", [1.0, 0.0213])
@pytest.mark.parametrize(("error", "share"), [(0.006, 0.3), (0.2, 0.3), (0.2, 1.0), (0.0, 0.5)])
def test_a_start_does_not_kick(error, share, slow):
    limits = replace(LIMITS, velocity=slow * LIMITS.velocity)
    t = start_time(limits, error, share)
    speed, acceleration = 1.5 * error / t, 6 * error / t**2
    assert np.all(speed <= share * limits.velocity * (1 + 1e-9)) and np.all(acceleration <= share * limits.acceleration)
    assert t >= SHORTEST
    shorter = t - 2e-3
    too_short = shorter < SHORTEST or np.any(1.5 * error / shorter > share * limits.velocity)
    assert too_short or np.any(6 * error / shorter**2 > share * LIMITS.acceleration), "and takes no longer than needed"


def test_limits_come_from_the_robot_or_nothing_moves():
    robot = load_robot("demo3")
    found = motion_limits(robot, MotionSettings(deceleration=7.0))
    assert found.joint_names == robot.active_names
    for k, j in enumerate(robot.active):
        own = robot.joints[j - 1].limits
        assert (found.lower[k], found.upper[k], found.velocity[k]) == (own.lower, own.upper, own.velocity)
        assert found.acceleration[k] == found.deceleration[k] == own.acceleration
    bare = with_limits(robot, acceleration=np.inf)
    found = motion_limits(bare, MotionSettings(deceleration=7.0))
    assert np.all(found.deceleration == 7.0) and np.all(found.acceleration >= 2 * found.velocity)
    for kind, wrong in (
        ("position", {"upper": np.inf}),
        ("position", {"lower": -np.inf}),
        ("velocity", {"velocity": np.inf}),
        ("velocity", {"velocity": 0.0}),
    ):
        for only, name in ((None, "waist"), (1, "shoulder"), (2, "elbow")):
            with pytest.raises(InputError, match=f"'{name}' has no {kind} limit.*add it to the URDF"):
                motion_limits(with_limits(robot, only, **wrong), MotionSettings())


def test_slow_joints_have_limits_too():
    own = Limits(-0.2, 0.3, velocity=0.4, acceleration=0.5)
    robot = Robot("slow", (Joint("a", 0, limits=own),))
    found = motion_limits(robot, MotionSettings())
    assert (*found.lower, *found.upper, *found.velocity) == (-0.2, 0.3, 0.4)
    assert (*found.acceleration, *found.deceleration) == (0.5, 0.5)


def test_a_joint_without_an_acceleration_limit_gets_up_to_speed_in_half_a_second():
    robot = with_limits(load_robot("demo3"), 1, acceleration=np.inf, velocity=8.0)
    found = motion_limits(robot, MotionSettings(deceleration=7.0))
    known = load_robot("demo3").joints[0].limits.acceleration
    assert found.acceleration[1] == 16.0 and found.deceleration[1] == 7.0
    assert found.acceleration[0] == found.deceleration[0] == known
    slow = motion_limits(with_limits(robot, 1, velocity=1.0), MotionSettings(deceleration=7.0))
    assert slow.acceleration[1] == 7.0, "it may speed up as it may stop"
    none = motion_limits(with_limits(robot, 1, acceleration=0.0), MotionSettings(deceleration=7.0))
    assert none.acceleration[1] == 16.0, "0 in a file says that it is not known"


def test_what_holds_unless_somebody_says_otherwise():
    """The defaults are the documented ones of the node's parameters: nobody's robot moves faster by an update."""
    assert MotionSettings() == MotionSettings(
        tracking=0.2, stale=0.1, overshoot=0.05, approach_speed=0.3, settle=0.5, deceleration=5.0, lead=0.01, delay=0.0
    )


def with_limits(robot, only=None, **changes):
    """Return the robot with other limits of all joints, or of one (from 0)."""
    joints = [
        replace(joint, limits=replace(joint.limits, **changes)) if only in (None, k) else joint
        for k, joint in enumerate(robot.joints)
    ]
    return replace(robot, joints=tuple(joints))


def test_limits_are_those_of_the_joints_that_move_by_themselves():
    robot = with_follower()
    found = motion_limits(robot, MotionSettings(deceleration=4.0))
    assert found.joint_names == ("turn", "lift", "tilt")
    for k, number in enumerate((1, 3, 4)):
        own = robot.joints[number - 1].limits
        values = (found.lower[k], found.upper[k], found.velocity[k], found.acceleration[k], found.deceleration[k])
        assert values == (own.lower, own.upper, own.velocity, own.acceleration, own.acceleration)
    free = replace(robot.joints[1], limits=Limits())
    follower = replace(robot, joints=(robot.joints[0], free, *robot.joints[2:]))
    assert motion_limits(follower, MotionSettings()).joint_names == found.joint_names, "a follower needs none"
    bare = replace(robot.joints[3], limits=Limits(velocity=1.0))
    with pytest.raises(InputError, match="joint 'tilt' has no position limit"):
        motion_limits(replace(robot, joints=(*robot.joints[:3], bare)), MotionSettings())


@pytest.mark.parametrize("seed", range(12))
def test_a_point_joins_where_the_cubic_that_catches_up_keeps_the_speed_limit(seed):
    """Its speed is |dq| - c s + k s (1 - s): by brute force over s, for joints with limits and speeds of their own."""
    rng = np.random.default_rng(seed)
    v = rng.uniform(0.3, 3.0, 3)
    dq = v * rng.uniform(-1.0, 1.0, 3)
    T = rng.uniform(0.2, 1.0)
    t = T * rng.uniform(0.1, 1.0)
    s = np.linspace(0.0, 1.0, 4001)[:, None]
    most = []
    for size in np.geomspace(1e-4, 1.0, 25):
        error = size * v * np.array([1.0, 0.7, 0.4])
        u, c, k = np.abs(dq), np.abs(dq) * t / T, 6 * error / t
        top = np.max((u - c * s + k * s * (1 - s)) / v)
        if abs(top - 1.0) > 1e-6:
            assert joins_within_limit(t, T, dq, v, error) == (top < 1.0)
            most.append(top)
    assert min(most) < 1.0 < max(most)


def least_time(limits, dq, off, speed_error=0.0):
    """Return the first multiple of 1 ms in which a cubic that is off stops every joint within its limits, by search."""
    T = 1e-3 * np.arange(1, 4000)[:, None]
    off = off + np.zeros(3)
    u, k = np.minimum(np.abs(dq), limits.velocity), 6 * off / T
    top = np.where(k > u, (u + k) ** 2 / np.maximum(4 * k, 1e-300), u)
    hard = np.abs(dq) / T + k / T + 4 * speed_error / T
    fits = np.all((hard <= limits.deceleration * (1 + 1e-9)) & (top <= limits.velocity * (1 + 1e-9)), axis=1)
    return T[np.argmax(fits), 0]


def plain_stop(limits, q, dq, error, lead, speed_error, doubt):
    """Return the time of a stop, where it takes effect and where it ends, joint by joint."""
    off = error + np.abs(dq) * lead
    begin, room = q + lead * dq, np.full(3, np.inf)
    for j in range(3):
        side, edge = np.sign(dq[j]), limits.upper[j] if dq[j] > 0 else limits.lower[j]
        if side * (begin[j] - edge) > 0:
            begin[j] = edge if side * (q[j] - edge) < 0 else q[j]
        if side:
            room[j] = max(side * (edge - begin[j]), 0.0)
    within = np.ceil(np.min(1.8 * room / np.maximum(np.abs(dq), 1e-12)) * 1e3 - 1e-6) / 1e3
    wanted = max(min(least_time(limits, dq, off, speed_error), 1.0), least_time(limits, dq, off + doubt))
    T = max(least_time(limits, dq, off), min(wanted, within), 0.05)
    return T, begin, begin + np.sign(dq) * np.minimum(0.5 * T * np.abs(dq), room)


@pytest.mark.parametrize("seed", range(36))
def test_a_stop_is_the_one_that_a_plain_search_finds(seed):
    rng = np.random.default_rng(seed)
    limits = replace(LIMITS, deceleration=np.array([4.0, 8.0, 2.5]), acceleration=np.array([5.0, 9.0, 3.0]))
    q = rng.uniform(limits.lower, limits.upper)
    if seed % 3 == 0:  # near a limit, or a little beyond it
        q = np.where(rng.random(3) < 0.5, limits.lower, limits.upper) + rng.uniform(-0.1, 0.1, 3)
    dq = rng.uniform(-1.0, 1.0, 3) * limits.velocity * rng.choice([0.0, 0.3, 1.0, 1.3], 3)
    error, lead = 0.05 * rng.random(3) * (seed % 2), float(rng.choice([0.002, 0.02]))
    speed_error = rng.random(3) * rng.choice([0.0, 0.3, 2.0])
    doubt = rng.random(3) * rng.choice([0.0, 0.2])
    if seed % 6 == 5:  # creeping towards a limit that is half a millimetre away
        q, dq, doubt = limits.upper - 5e-4, 4e-3 * np.eye(3)[seed % 3], np.full(3, 0.2)
    T, begin, end = plain_stop(limits, q, dq, error, lead, speed_error, doubt)
    for dense in (False, True):
        found = braking(limits, q, dq, error, lead, speed_error=speed_error, doubt=doubt, dense=dense)
        assert found.points.t[-1] == pytest.approx(T, abs=1e-9)
        np.testing.assert_allclose(found.points.q[-1], end, atol=1e-9)
        np.testing.assert_allclose(found.expected.t, [0.0, lead, lead + T])
        np.testing.assert_allclose(found.expected.q, [q, begin, end], atol=1e-9)
        np.testing.assert_allclose(found.expected.dq, [dq, dq, 0 * dq])
        assert found.points.joint_names == found.expected.joint_names == NAMES
    # dense points lie on the same curve, every 20 ms, from where a controller that is off can have joined it
    t, off = found.points.t, error + np.abs(dq) * lead
    q_on, dq_on, _ = found.expected.sampled(lead + t[:-1]) if len(t) > 1 else (np.zeros((0, 3)), np.zeros((0, 3)), None)
    np.testing.assert_allclose(found.points.q[:-1], q_on, atol=1e-12)
    np.testing.assert_allclose(found.points.dq[:-1], dq_on, atol=1e-12)
    s = np.linspace(0.0, 1.0, 501)[:, None]
    first = T
    for instant in 0.02 * np.arange(1, int(T / 0.02) + 1):
        caught_up = np.all(limits.deceleration * instant**2 - 4 * speed_error * instant - 6 * error >= 0)
        u = np.minimum(np.abs(dq), limits.velocity)
        speed = u - u * instant / T * s + 6 * off / instant * s * (1 - s)
        if T - instant > 0.01 and caught_up and np.all(speed <= limits.velocity + 1e-9):
            first = instant
            break
    assert t[0] == pytest.approx(first)
    np.testing.assert_allclose(np.diff(t)[:-1], 0.02, atol=1e-9)
    assert len(t) == 1 or 0.01 - 1e-9 <= t[-1] - t[-2] <= 0.03 + 1e-9


@pytest.mark.parametrize("bound", ["velocity", "acceleration", "neither"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_approach_takes_as_long_as_its_hardest_joint_needs(bound, side):
    velocity, acceleration = np.array([1.0, 0.5, 2.0]), np.array([5.0, 8.0, 3.0])
    step = side * {"velocity": np.array([1.0, 0.8, 0.3]), "acceleration": np.array([0.02, 0.01, 0.05]),
                   "neither": np.array([1e-3, 0.0, 1e-3])}[bound]  # fmt: skip
    start = np.array([0.3, -0.2, 0.1])
    way = approach_reference(NAMES, start, start + step, velocity, acceleration)
    x = np.linspace(0.0, 1.0, 50)[:, None]
    np.testing.assert_allclose(way.t, way.duration * x[:, 0])
    shape = np.polynomial.Polynomial([0, 0, 0, 10, -15, 6])
    for order, found in enumerate((way.q - start, way.dq, way.ddq)):
        np.testing.assert_allclose(found, step * shape.deriv(order)(x) / way.duration**order, atol=1e-12)
    fine = np.linspace(0.0, 1.0, 20001)
    use = [np.abs(step) / way.duration**k * np.abs(shape.deriv(k)(fine)).max() for k in (1, 2)]
    most = {"velocity": np.max(use[0] / velocity), "acceleration": np.max(use[1] / acceleration)}
    if bound == "neither":
        assert way.duration == 0.1 and max(most.values()) < 1.0
    else:
        assert most[bound] == max(most.values()) == pytest.approx(1.0, abs=1e-5)


def test_a_position_is_held_at_a_limit_unless_it_began_beyond_it():
    """Of each joint, at both ends: what lies beyond goes no further, and may come back."""
    for q, start, wanted in (
        ([0.1, 0.2, 0.3], [0.0, 0.0, 0.0], [0.1, 0.2, 0.3]),
        ([3.1, 2.1, 1.6], [0.0, 0.0, 0.0], [3.0, 2.0, 1.5]),
        ([-3.1, -2.1, -1.1], [0.0, 0.0, 0.0], [-3.0, -2.0, -1.0]),
        ([3.3, 2.3, 1.8], [3.2, 2.1, 1.6], [3.2, 2.1, 1.6]),
        ([-3.3, -2.3, -1.8], [-3.2, -2.1, -1.6], [-3.2, -2.1, -1.6]),
        ([3.1, -2.05, 1.4], [3.2, -2.1, 1.6], [3.1, -2.05, 1.4]),
        ([-4.0, 4.0, -4.0], [3.2, -2.1, 1.6], [-3.0, 2.0, -1.0]),
    ):
        np.testing.assert_array_equal(LIMITS.not_beyond(np.array(q), np.array(start)), wanted)


def test_a_robot_without_limits_is_named():
    with pytest.raises(InputError, match="has no velocity limit") as told:
        motion_limits(with_limits(load_robot("demo3"), velocity=np.inf), MotionSettings())
    assert told.value.source == load_robot("demo3").name


def test_a_stop_keeps_the_margin_of_the_motion_as_far_as_it_can():
    """A fast joint makes the stop long; one that is about to turn round 0.117 from its limit must not run up to it."""
    limits = motion_limits(load_robot("demo3"), MotionSettings())
    extent, margin = (limits.lower + 0.117, limits.upper - 0.117), 0.117
    q, dq = np.array([0.0, -1.0, limits.upper[2] - 0.167]), np.array([2.4, 0.0, 0.9])

    def brake(bounds):
        return braking(bounds, q, dq, np.zeros(3), 0.01)

    stop, approved = stop_with_margin(limits, extent, brake)
    away = limits.upper[2] - stop.expected.within(np.linspace(0.0, 1.0, 50))[0][:, 2].max()
    assert away > 0.24 * margin, "a quarter of the margin is left"
    assert limits.upper[2] - brake(limits).points.q[-1][2] < 0.1 * margin, "which a stop to the limits would spend"
    assert approved.points is stop.points and not stop.points.dq[-1].any()
    slow = stop_with_margin(limits, extent, lambda bounds: braking(bounds, q, 0.1 * dq, np.zeros(3), 0.01))
    assert limits.upper[2] - slow[0].points.q[-1][2] > margin, "a slow one keeps all of it"
    late = np.array([0.0, -1.0, limits.upper[2] - 0.01])
    assert stop_with_margin(limits, extent, lambda bounds: braking(bounds, late, dq, np.zeros(3), 0.01)) is None


def test_the_extent_of_a_motion_is_that_of_its_curves_not_of_its_points():
    names, t = ("a", "b"), np.array([0.0, 1.0, 2.0])
    q, dq = np.array([[0.0, 0.0], [0.5, -0.2], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    low, high = motion_extent(reference(names, t, q, dq), reference(names, t[:2], np.full((2, 2), 0.1)))
    assert high[0] > 0.55
    np.testing.assert_allclose((high[1], *low), (0.1, 0.0, -0.2), atol=1e-12)
