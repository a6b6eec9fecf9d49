# SPDX-License-Identifier: Apache-2.0

"""The limiter for torque: joints, finiteness, effort limits and rates of all that leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.torque_limiter import (
    LONGEST_STEP,
    EffortLimits,
    TorqueLimiter,
    effort_limits,
    known_efforts,
    limit_along,
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
    limiter = TorqueLimiter(LIMITS)
    assert list(limiter.limit(np.array([99.0, -99.0, 5.0]), 0.0).tau) == [10.0, -20.0, 5.0]
    assert limiter.held_back and not limiter.lagging
    after = limiter.limit(np.array([-99.0, 99.0, 5.0]), 0.001).tau
    assert np.allclose(after, [10.0 - 0.2, -20.0 + 0.4, 5.0]) and limiter.lagging
    assert (
        np.allclose(limiter.limit(np.array([9.8, -19.6, 5.0]), 0.002).tau, [9.8, -19.6, 5.0]) and not limiter.held_back
    )
    late = limiter.limit(np.array([-99.0, 99.0, -30.0]), 100.0).tau
    assert np.allclose(late, [9.8 - 200 * LONGEST_STEP, -19.6 + 400 * LONGEST_STEP, 5 - 600 * LONGEST_STEP])
    back = limiter.limit(np.array([-99.0, 99.0, -30.0]), 1.0).tau
    assert np.allclose(back, late), "a clock that goes back gives no time"


def test_what_is_not_finite_does_not_leave_and_what_has_left_is_read_only():
    limiter = TorqueLimiter(LIMITS)
    first = limiter.limit(np.array([1.0, 2.0, 3.0]), 0.0)
    with pytest.raises(InputError, match="not finite"):
        limiter.limit(np.array([1.0, np.nan, 3.0]), 0.001)
    assert limiter.last is first
    with pytest.raises(ValueError, match="read-only"):
        first.tau[0] = 5.0
    for tau in ([np.inf, 0.0, 0.0], [0.0, -np.inf, 0.0], [np.inf, -np.inf, 0.0]):
        with pytest.raises(InputError, match="not finite"):  # and not as the limit, which would be the largest torque
            limiter.limit(np.array(tau), 0.002)
        with pytest.raises(InputError, match="not finite"):
            limit_along(LIMITS, np.array([0.0, 1.0]), np.array([np.zeros(3), tau]))
    assert limiter.last is first


def test_commands_are_in_their_own_order():
    limiter = TorqueLimiter(LIMITS, ("c", "a", "b"))
    out = limiter.limit(np.array([1.0, 2.0, 3.0]), 0.0)
    assert list(out.command) == [3.0, 1.0, 2.0] and out.command_names == ("c", "a", "b") and out.joint_names == NAMES
    for names, wanted in (
        (("a", "c", "b"), [1.0, 3.0, 2.0]),
        (("b", "a", "c"), [2.0, 1.0, 3.0]),
        (NAMES, [1.0, 2.0, 3.0]),
    ):
        assert list(TorqueLimiter(LIMITS, names).limit(np.array([1.0, 2.0, 3.0]), 0.0).command) == wanted
    for names in (("c", "a", "x"), ("a", "b", "c", "d"), ("a", "b"), ("a", "b", "b")):
        with pytest.raises(InputError, match="joint_order"):
            TorqueLimiter(LIMITS, names)


def test_a_new_limiter_goes_on_where_the_old_one_was():
    old = TorqueLimiter(LIMITS)
    old.limit(np.array([10.0, 20.0, 30.0]), 0.0)
    new = TorqueLimiter(effort_limits(NAMES, np.array([5.0, 20.0, 30.0]), (0.0,), 0.3)).continue_from(old)
    assert np.allclose(new.limit(np.zeros(3), 0.001).tau, [5.0 - 0.1, 20.0 - 0.4, 30.0 - 0.6])
    other = TorqueLimiter(effort_limits(("x", "y", "z"), np.full(3, 5.0), (0.0,), 0.3)).continue_from(old)
    assert other.last is None
    new.forget()
    assert np.allclose(new.limit(np.array([-5.0, 0.0, 0.0]), 0.002).tau, [-5.0, 0.0, 0.0])


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
    limiter = TorqueLimiter(limits, ("b", "c", "a"))
    found = plain(limits, times, wanted, 0.02)
    clipped = np.clip(wanted, -limits.effort, limits.effort)
    for k in range(60):
        torque = limiter.limit(wanted[k], float(times[k]))
        np.testing.assert_allclose(torque.tau, found[k], rtol=1e-12)
        np.testing.assert_array_equal(torque.command, torque.tau[[1, 2, 0]])
        assert limiter.held_back == bool(np.any(torque.tau != wanted[k]))
        assert limiter.lagging == bool(np.any(torque.tau != clipped[k]))
    np.testing.assert_allclose(limit_along(limits, times, wanted), plain(limits, times, wanted, np.inf), rtol=1e-12)
    limiter.forget()
    assert limiter.last is None and not limiter.held_back and not limiter.lagging


def test_limits_that_are_no_numbers_let_nothing_out():
    nobody = EffortLimits(NAMES, np.array([1.0, np.nan, 1.0]), np.full(3, 100.0))
    with pytest.raises(InputError, match="not finite"):
        TorqueLimiter(nobody).limit(np.ones(3), 0.0)
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


def test_a_new_limiter_knows_what_left_when_and_what_was_wanted():
    old = TorqueLimiter(LIMITS)
    old.limit(np.zeros(3), 50.0)
    old.limit(np.array([9.0, 0.0, 0.0]), 50.001)
    assert old.held_back and old.lagging
    new = TorqueLimiter(LIMITS).continue_from(old)
    assert new.held_back and new.lagging and new.last is old.last
    np.testing.assert_allclose(new.limit(np.array([9.0, 0.0, 0.0]), 50.002).tau, [0.4, 0.0, 0.0])
    quiet = TorqueLimiter(LIMITS)
    quiet.limit(np.ones(3), 50.0)
    after = TorqueLimiter(LIMITS).continue_from(quiet)
    assert not after.held_back and not after.lagging
    empty = TorqueLimiter(LIMITS).continue_from(TorqueLimiter(LIMITS)).continue_from(None)
    assert empty.last is None and not empty.held_back and not empty.lagging
    narrow = TorqueLimiter(effort_limits(NAMES, np.full(3, 0.5), (0.0,), 0.3)).continue_from(quiet)
    wide = TorqueLimiter(LIMITS).continue_from(narrow)  # nothing has left through the narrow one
    np.testing.assert_allclose(wide.limit(np.ones(3), 50.001).tau, 1.0)


def test_after_a_clock_that_goes_back_the_rate_counts_from_there():
    limiter = TorqueLimiter(LIMITS)
    limiter.limit(np.zeros(3), 50.0)
    assert np.all(limiter.limit(np.ones(3), 10.0).tau == 0.0)
    np.testing.assert_allclose(limiter.limit(np.full(3, 9.0), 10.001).tau, [0.2, 0.4, 0.6])


def test_every_point_of_a_trajectory_passes_the_limiter():
    t = np.array([0.0, 0.1, 1.1])
    tau = np.array([[0.0, 0.0, 99.0], [99.0, 1.0, -99.0], [-99.0, -99.0, 0.0]])
    limits = EffortLimits(NAMES, np.array([10.0, 20.0, 30.0]), np.array([10.0, 20.0, 30.0]))
    np.testing.assert_allclose(limit_along(limits, t, tau), [[0.0, 0.0, 30.0], [1.0, 1.0, 27.0], [-9.0, -19.0, 0.0]])
    assert np.abs(tau).max() == 99.0, "those given stay as they are"
