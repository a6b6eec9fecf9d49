"""The door for torque: joints, finiteness, effort limits and rates of all that leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.torque_door import (
    LONGEST_STEP,
    EffortLimits,
    TorqueDoor,
    effort_limits,
    known_efforts,
    through_door,
)
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot

NAMES = ("a", "b", "c")
LIMITS = effort_limits(NAMES, np.array([10.0, 20.0, 30.0]), (0.0,), 0.3)


def test_limits_given_come_before_the_robots_own_and_by_name():
    robot = load_robot("demo3")
    names = robot.active_names
    own = {joint.name: joint.limits.effort for joint in robot.joints}
    turned = tuple(reversed(names))
    assert list(known_efforts(turned, (0.0,), robot)) == [own[name] for name in turned]
    assert list(known_efforts(names, (0.0, 7.0, 0.0), robot)) == [own[names[0]], 7.0, own[names[2]]]
    assert list(known_efforts(names, (5.0,), robot)) == [5.0] * 3
    assert np.isinf(known_efforts(names, (0.0, 7.0, 0.0), None)[[0, 2]]).all()
    limits = [
        replace(joint.limits, effort=effort) for joint, effort in zip(robot.joints, (0.5, 0.0, 80.0), strict=True)
    ]
    weak = replace(robot, joints=tuple(replace(j, limits=x) for j, x in zip(robot.joints, limits, strict=True)))
    assert list(known_efforts(names, (0.0,), weak)) == [0.5, np.inf, 80.0], "0 says that it is not known"
    assert list(known_efforts(names, (0.2,), weak)) == [0.2] * 3
    with pytest.raises(InputError, match="effort_limits has 2 values for 3 joints"):
        known_efforts(names, (1.0, 2.0), robot)


@pytest.mark.parametrize(("ramp", "seconds"), [(0.3, 0.1), (0.05, 0.05), (0.0, 0.01), (10.0, 0.1)])
def test_a_derived_rate_leads_from_limit_to_limit_within_the_ramp(ramp, seconds):
    found = effort_limits(NAMES, np.array([10.0, 20.0, 30.0]), (0.0,), ramp)
    assert np.allclose(found.rate, np.array([20.0, 40.0, 60.0]) / seconds)


def test_rates_given_are_kept_unless_an_ending_would_take_too_long():
    assert list(effort_limits(NAMES, np.full(3, 10.0), (50.0, 0.0, 60.0), 0.3).rate) == [50.0, 200.0, 60.0]
    with pytest.raises(InputError, match="effort rate of 'b'"):
        effort_limits(NAMES, np.full(3, 10.0), (50.0, 9.0, 60.0), 0.3)
    with pytest.raises(InputError, match="effort_rates has 2 values"):
        effort_limits(NAMES, np.full(3, 10.0), (50.0, 9.0), 0.3)


def test_limits_and_rates_bound_both_signs_and_every_joint():
    door = TorqueDoor(LIMITS)
    assert list(door.streamed(np.array([99.0, -99.0, 5.0]), 0.0).tau) == [10.0, -20.0, 5.0]
    assert door.held_back and not door.lagging
    after = door.streamed(np.array([-99.0, 99.0, 5.0]), 0.001).tau
    assert np.allclose(after, [10.0 - 0.2, -20.0 + 0.4, 5.0]) and door.lagging
    assert np.allclose(door.streamed(np.array([9.8, -19.6, 5.0]), 0.002).tau, [9.8, -19.6, 5.0]) and not door.held_back
    late = door.streamed(np.array([-99.0, 99.0, -30.0]), 100.0).tau
    assert np.allclose(late, [9.8 - 200 * LONGEST_STEP, -19.6 + 400 * LONGEST_STEP, 5 - 600 * LONGEST_STEP])
    back = door.streamed(np.array([-99.0, 99.0, -30.0]), 1.0).tau
    assert np.allclose(back, late), "a clock that goes back gives no time"


def test_what_is_not_finite_does_not_leave_and_what_has_left_is_read_only():
    door = TorqueDoor(LIMITS)
    first = door.streamed(np.array([1.0, 2.0, 3.0]), 0.0)
    with pytest.raises(InputError, match="not finite"):
        door.streamed(np.array([1.0, np.nan, 3.0]), 0.001)
    assert door.last is first
    with pytest.raises(ValueError, match="read-only"):
        first.tau[0] = 5.0
    for tau in ([np.inf, 0.0, 0.0], [0.0, -np.inf, 0.0], [np.inf, -np.inf, 0.0]):
        with pytest.raises(InputError, match="not finite"):  # and not as the limit, which would be the largest torque
            door.streamed(np.array(tau), 0.002)
        with pytest.raises(InputError, match="not finite"):
            through_door(LIMITS, np.array([0.0, 1.0]), np.array([np.zeros(3), tau]))
    assert door.last is first


def test_commands_are_in_their_own_order():
    door = TorqueDoor(LIMITS, ("c", "a", "b"))
    out = door.streamed(np.array([1.0, 2.0, 3.0]), 0.0)
    assert list(out.command) == [3.0, 1.0, 2.0] and out.command_names == ("c", "a", "b") and out.joint_names == NAMES
    for names, wanted in (
        (("a", "c", "b"), [1.0, 3.0, 2.0]),
        (("b", "a", "c"), [2.0, 1.0, 3.0]),
        (NAMES, [1.0, 2.0, 3.0]),
    ):
        assert list(TorqueDoor(LIMITS, names).streamed(np.array([1.0, 2.0, 3.0]), 0.0).command) == wanted
    for names in (("c", "a", "x"), ("a", "b", "c", "d"), ("a", "b"), ("a", "b", "b")):
        with pytest.raises(InputError, match="joint_order"):
            TorqueDoor(LIMITS, names)


def test_a_new_door_goes_on_where_the_old_one_was():
    old = TorqueDoor(LIMITS)
    old.streamed(np.array([10.0, 20.0, 30.0]), 0.0)
    new = TorqueDoor(effort_limits(NAMES, np.array([5.0, 20.0, 30.0]), (0.0,), 0.3)).like(old)
    assert np.allclose(new.streamed(np.zeros(3), 0.001).tau, [5.0 - 0.1, 20.0 - 0.4, 30.0 - 0.6])
    other = TorqueDoor(effort_limits(("x", "y", "z"), np.full(3, 5.0), (0.0,), 0.3)).like(old)
    assert other.last is None
    new.forget()
    assert np.allclose(new.streamed(np.array([-5.0, 0.0, 0.0]), 0.002).tau, [-5.0, 0.0, 0.0])


def plain(limits, times, wanted, longest):
    """The rule, joint by joint: within the limit, and from one command to the next within the rate."""
    out = []
    for k, row in enumerate(wanted):
        made = []
        for j, tau in enumerate(row):
            value = min(max(tau, -limits.effort[j]), limits.effort[j])
            if k:
                step = limits.rate[j] * min(max(times[k] - times[k - 1], 0.0), longest)
                value = min(max(value, out[-1][j] - step), out[-1][j] + step)
            made.append(value)
        out.append(made)
    return np.array(out)


@pytest.mark.parametrize("seed", range(5))
def test_all_that_leaves_follows_the_rule_of_limits_and_rates(seed):
    rng = np.random.default_rng(seed)
    limits = effort_limits(NAMES, rng.uniform(5.0, 50.0, 3), tuple(rng.uniform(60.0, 900.0, 3)), 0.3)
    times = np.cumsum(10 ** rng.uniform(-4, -1.2, 60))
    wanted = rng.normal(0.0, 40.0, (60, 3))
    door = TorqueDoor(limits, ("b", "c", "a"))
    found = plain(limits, times, wanted, 0.02)
    clipped = np.clip(wanted, -limits.effort, limits.effort)
    for k in range(60):
        torque = door.streamed(wanted[k], float(times[k]))
        np.testing.assert_allclose(torque.tau, found[k], rtol=1e-12)
        np.testing.assert_array_equal(torque.command, torque.tau[[1, 2, 0]])
        assert door.held_back == bool(np.any(torque.tau != wanted[k]))
        assert door.lagging == bool(np.any(torque.tau != clipped[k]))
    np.testing.assert_allclose(through_door(limits, times, wanted), plain(limits, times, wanted, np.inf), rtol=1e-12)
    door.forget()
    assert door.last is None and not door.held_back and not door.lagging


def test_limits_that_are_no_numbers_let_nothing_out():
    nobody = EffortLimits(NAMES, np.array([1.0, np.nan, 1.0]), np.full(3, 100.0))
    with pytest.raises(InputError, match="not finite"):
        TorqueDoor(nobody).streamed(np.ones(3), 0.0)
    with pytest.raises(ValueError, match="read-only"):
        LIMITS.effort[0] = 99.0
    with pytest.raises(ValueError, match="read-only"):
        LIMITS.rate[0] = 99.0


def test_the_least_rate_is_one_effort_limit_a_second():
    effort = np.array([10.0, 20.0, 30.0])
    assert list(effort_limits(NAMES, effort, (10.0, 20.0, 30.0), 0.3).rate) == [10.0, 20.0, 30.0]
    for k in range(3):
        rates = [11.0, 22.0, 33.0]
        rates[k] = 0.99 * effort[k]
        with pytest.raises(InputError, match=f"rate of '{NAMES[k]}' is {rates[k]:g}.*at least {effort[k]:g}"):
            effort_limits(NAMES, effort.copy(), rates, 0.3)


@pytest.mark.parametrize("effort", [0.05, 0.5, 5.0, 500.0])
def test_rates_of_weak_and_of_strong_joints_are_held_to_their_own_limits(effort):
    """One effort limit a second is the least, of a gripper's tenth of a newton metre as of a large arm's hundreds."""
    limits = np.array([100.0, effort])
    with pytest.raises(InputError, match="effort rate of 'b'"):
        effort_limits(("a", "b"), limits.copy(), (200.0, 0.99 * effort), 0.3)
    found = effort_limits(("a", "b"), limits.copy(), (200.0, 1.01 * effort), 0.3)
    np.testing.assert_allclose(found.rate, [200.0, 1.01 * effort])
    derived = effort_limits(("a", "b"), limits.copy(), (0.0, 0.0), 0.3)
    np.testing.assert_allclose(derived.rate, 2 * limits / 0.1)


def test_efforts_given_count_above_the_robots_own_too_and_strangers_have_none():
    robot = load_robot("demo3")
    assert list(known_efforts(robot.active_names, (500.0, 0.0, 90.0), robot)) == [500.0, 180.0, 90.0]
    assert list(known_efforts(("waist", "gripper"), (0.0,), robot)) == [120.0, np.inf]


def test_a_new_door_knows_what_left_when_and_what_was_wanted():
    old = TorqueDoor(LIMITS)
    old.streamed(np.zeros(3), 50.0)
    old.streamed(np.array([9.0, 0.0, 0.0]), 50.001)
    assert old.held_back and old.lagging
    new = TorqueDoor(LIMITS).like(old)
    assert new.held_back and new.lagging and new.last is old.last
    np.testing.assert_allclose(new.streamed(np.array([9.0, 0.0, 0.0]), 50.002).tau, [0.4, 0.0, 0.0])
    quiet = TorqueDoor(LIMITS)
    quiet.streamed(np.ones(3), 50.0)
    after = TorqueDoor(LIMITS).like(quiet)
    assert not after.held_back and not after.lagging
    empty = TorqueDoor(LIMITS).like(TorqueDoor(LIMITS)).like(None)
    assert empty.last is None and not empty.held_back and not empty.lagging
    narrow = TorqueDoor(effort_limits(NAMES, np.full(3, 0.5), (0.0,), 0.3)).like(quiet)
    wide = TorqueDoor(LIMITS).like(narrow)  # nothing has left through the narrow one
    np.testing.assert_allclose(wide.streamed(np.ones(3), 50.001).tau, 1.0)


def test_after_a_clock_that_goes_back_the_rate_counts_from_there():
    door = TorqueDoor(LIMITS)
    door.streamed(np.zeros(3), 50.0)
    assert np.all(door.streamed(np.ones(3), 10.0).tau == 0.0)
    np.testing.assert_allclose(door.streamed(np.full(3, 9.0), 10.001).tau, [0.2, 0.4, 0.6])


def test_every_point_of_a_trajectory_passes_the_door():
    t = np.array([0.0, 0.1, 1.1])
    tau = np.array([[0.0, 0.0, 99.0], [99.0, 1.0, -99.0], [-99.0, -99.0, 0.0]])
    limits = EffortLimits(NAMES, np.array([10.0, 20.0, 30.0]), np.array([10.0, 20.0, 30.0]))
    np.testing.assert_allclose(through_door(limits, t, tau), [[0.0, 0.0, 30.0], [1.0, 1.0, 27.0], [-9.0, -19.0, 0.0]])
    assert np.abs(tau).max() == 99.0, "those given stay as they are"
