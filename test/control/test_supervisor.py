# SPDX-License-Identifier: Apache-2.0

"""What the supervisor sees in joint states: both signs, both ends, every joint with limits of its own."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.reference import reference
from ros2_dynid.control.supervisor import Supervisor
from ros2_dynid.model.joint_state import State

NAMES = ("a", "b", "c")
LIMITS = MotionLimits(
    NAMES,
    np.array([-3.0, -2.0, -1.0]),
    np.array([2.5, 2.2, 1.5]),
    np.array([3.0, 2.0, 0.5]),
    np.array([5.0, 8.0, 3.0]),
    np.array([5.0, 8.0, 3.0]),
)
SETTINGS = MotionSettings(stale=0.1, overshoot=0.05, tracking=0.1)
PERIOD = 0.004


class Watched:
    """A supervisor with a robot whose states come at 250 Hz, measured when they come."""

    def __init__(self):
        self.watch, self.now = Supervisor(LIMITS, SETTINGS), 50.0
        self.q = np.array([0.1, -0.2, 0.3])

    def take(self, q=None, dq=None, *, stamp=None, after=PERIOD):
        self.now += after
        self.q = self.q if q is None else np.array(q, dtype=float)
        dq = np.zeros(3) if dq is None else np.array(dq, dtype=float)
        stamp = round(self.now * 1e9) if stamp is None else stamp
        return self.watch.take(JointStateArrived(self.now, State(NAMES, self.q, dq, np.zeros(3), stamp), self.now))

    def still(self, count=60):
        for _ in range(count):
            assert self.take() == ""
        return self


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_each_position_limit_holds_with_its_overshoot(joint, side):
    limit = (LIMITS.upper if side > 0 else LIMITS.lower)[joint]
    for excess, seen in ((0.049, False), (0.051, True)):
        made = Watched()
        made.q[joint] = limit + side * excess
        made.still()
        problem = made.watch.problem()
        where = "above its upper limit" if side > 0 else "below its lower limit"
        assert (problem == f"joint {NAMES[joint]} is {where}: {made.q[joint]:.3f}") == seen
        assert bool(problem) == seen


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_each_velocity_limit_holds_by_positions(joint, side):
    for share, seen in ((1.04, False), (1.06, True)):
        made = Watched().still()
        for k in range(8):
            q = made.q.copy()
            q[joint] += side * share * LIMITS.velocity[joint] * PERIOD
            made.take(q)
            if k < 4:
                assert made.watch.problem() == "", "20 ms have not passed at that speed"
        assert bool(made.watch.problem()) == seen
        if seen:
            limit = LIMITS.velocity[joint]
            assert made.watch.problem() == (
                f"joint {NAMES[joint]} is faster than its limit of {limit:g}: {side * share * limit:.3f}"
            )


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_each_velocity_limit_holds_by_stated_velocities(joint, side):
    for share, count, seen in ((1.06, 6, True), (1.06, 5, False), (1.04, 9, False)):
        made = Watched().still()
        dq = np.zeros(3)
        dq[joint] = side * share * LIMITS.velocity[joint]
        for _ in range(count):
            made.take(dq=dq)
        limit = LIMITS.velocity[joint]
        told = f"joint {NAMES[joint]} is faster than its limit of {limit:g}: {side * share * limit:.3f}"
        assert made.watch.problem() == (told if seen else ""), "all of the last 20 ms must say so"
    swinging = Watched().still()
    for k in range(9):
        dq = np.zeros(3)
        dq[joint] = (-1) ** k * 1.5 * LIMITS.velocity[joint]
        swinging.take(dq=dq)
    assert swinging.watch.problem() == "", "noise of both signs is no motion"


def test_a_start_of_the_stream_says_nothing_about_speed():
    made = Watched()
    made.take()
    made.take(made.q + 2.0 * LIMITS.velocity * PERIOD)
    assert made.watch.problem() == "" and made.watch.known(made.now)


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_a_position_that_cannot_have_moved_there_is_not_believed(joint, side):
    reach = 3.0 * LIMITS.velocity[joint] * PERIOD + 0.02
    for share, seen in ((0.98, False), (1.02, True)):
        made = Watched().still()
        q = made.q.copy()
        q[joint] += side * share * reach
        said = made.take(q)
        assert bool(said) == seen and made.watch.jumped == seen
        assert made.watch.known(made.now) == (not seen)
        if seen:
            assert said == f"joint {NAMES[joint]} jumped by {share * reach:.3f} in 0.004 s: its position is wrong"
            assert made.watch.unknown(made.now) == said and made.watch.jumped_at == made.now
            assert made.take() == "" and made.watch.known(made.now), "the next state, beside it, is believed"
    late = Watched().still()
    late.take(late.q + 5.0, after=0.2)
    assert not late.watch.jumped, "after a silence it may have moved"


def test_the_longer_of_the_times_between_stamps_and_arrivals_counts_for_a_jump():
    """States may come in a burst, and a stamp may be late: either way the joint had the longer of the times."""
    step = np.array([0.0, 0.0, 0.05])
    for stamped, came, seen in ((0.04, 0.001, False), (0.001, 0.04, False), (0.001, 0.001, True)):
        made = Watched().still()
        now, measured_at = made.now + came, made.now + stamped
        state = State(NAMES, made.q + step, np.zeros(3), np.zeros(3), round(1e9 * measured_at))
        assert bool(made.watch.take(JointStateArrived(now, state, measured_at))) == seen == made.watch.jumped


@pytest.mark.parametrize(("back", "kept"), [(0.001, True), (0.099, True), (0.11, False)])
def test_a_state_that_was_overtaken_is_nothing_new(back, kept):
    made = Watched().still()
    last, heard = made.watch.last, made.watch.heard
    state = State(NAMES, made.q + 0.01, np.zeros(3), np.zeros(3), round(1e9 * (last.measured_at - back)))
    assert made.watch.take(JointStateArrived(made.now + 0.05, state, last.measured_at - back)) == ""
    assert (made.watch.last is last) == kept and (made.watch.heard == heard) == kept
    assert len(made.watch.samples) > 10 if kept else len(made.watch.samples) == 1


def test_what_was_before_a_silence_says_nothing_about_motion():
    made = Watched().still()
    assert made.watch.at_rest() and not made.watch.moves()
    made.take(made.q + 0.5, after=0.11)
    assert np.all(made.watch.velocity_seen() == 0.0)
    assert not made.watch.at_rest() and not made.watch.moves(), "it has not been seen for long enough"
    made.still(30)
    assert made.watch.at_rest() and not made.watch.moves()
    for _ in range(30):
        made.take(made.q + 1e-3)
    assert made.watch.moves() and not made.watch.at_rest()


def test_numbers_that_are_none():
    for bad in (np.nan, np.inf):
        made = Watched().still()
        said = made.take([0.1, bad, 0.3])
        assert "joint b: its position is not a number" in said and not made.watch.known(made.now)


def test_silence_begins_when_nothing_new_comes():
    made = Watched()
    assert made.watch.unknown(made.now) == "no joint state of all joints has come yet"
    assert made.watch.silence(made.now) == "no joint state for inf s, more than 0.1 s"
    made.still()
    last = made.now
    assert made.watch.known(last + 0.0999) and not made.watch.known(last + 0.101)
    assert made.watch.silence(last + 0.25) == "no joint state for 0.250 s, more than 0.1 s"
    stamp = round(last * 1e9)
    for _ in range(30):
        made.take(stamp=stamp)
    assert made.watch.heard == last, "what repeats a stamp is not new"
    assert "repeated the same stamp for 0.120 s: their source is frozen" in made.watch.silence(made.now)
    for _ in range(3):
        made.take(stamp=0)  # a driver without stamps counts by arrival
    assert made.watch.heard == made.now and made.watch.known(made.now)


@pytest.mark.parametrize(("late", "known"), [(0.19, True), (0.21, False)])
def test_joint_states_that_come_late_do_not_tell_where_the_robot_is(late, known):
    made = Watched()
    for k in range(60):
        now = 50.0 + k * PERIOD
        state = State(NAMES, made.q, np.zeros(3), np.zeros(3), round(1e9 * (now - late)))
        made.watch.take(JointStateArrived(now, state, now - late))
    assert made.watch.known(now) == known
    assert made.watch.silence(now) == ("" if known else "the joint states come 0.210 s late")


def test_rest_needs_the_whole_window():
    made = Watched().still(23)
    assert not made.watch.at_rest() and not made.watch.moves(), "88 ms are too short to tell"
    made.still(1)
    assert made.watch.at_rest()
    for side, speed, still in ((1, 0.019, True), (-1, 0.019, True), (1, 0.021, False), (-1, 0.021, False)):
        slow = Watched().still()
        for _ in range(40):
            slow.take(slow.q + np.array([0.0, side * speed * PERIOD, 0.0]))
        assert slow.watch.at_rest() == still
        np.testing.assert_allclose(slow.watch.velocity_seen(), [0.0, side * speed, 0.0], rtol=1e-6, atol=1e-12)


def test_a_clock_that_was_set_back_starts_again():
    made = Watched().still()
    made.now -= 10.0
    made.watch.rewind(made.now, 0.0)
    assert made.watch.heard <= made.now and not made.watch.known(made.now)
    made.still(2)
    assert made.watch.known(made.now) and not made.watch.at_rest()


def test_times_of_a_clock_that_was_set_back_are_those_of_the_new_one():
    made = Watched().still()
    line = reference(NAMES, np.array([0.0, 2.0]), np.array([[0.1, -0.2, 0.3], [0.3, 0.0, 0.5]]), np.full((2, 3), 0.1))
    made.watch.follow(line, made.now - 0.5)
    before, until = made.watch.reference(made.now), made.watch.until
    assert "jumped" in made.take(made.q + 1.0)
    assert made.watch.jumped and made.watch.jumped_at == made.now
    made.watch.rewind(made.now - 7.0, 7.0)
    assert made.watch.heard == made.watch.jumped_at == made.now - 7.0
    np.testing.assert_allclose(made.watch.reference(made.now - PERIOD - 7.0), before)
    assert made.watch.until == pytest.approx(until - 7.0) and not made.watch.samples
    calm = Watched()
    calm.watch.rewind(40.0, 10.0)
    assert calm.watch.heard == calm.watch.jumped_at == -np.inf, "what never was is not now"


def test_the_worst_error_is_that_of_the_motion_so_far():
    made = Watched().still()
    line = reference(NAMES, np.array([0.0, 9.0]), np.array([made.q, made.q]), np.zeros((2, 3)))
    made.watch.follow(line, made.now)
    assert made.watch.worst_error == 0.0
    for off, worst in ((0.02, 0.02), (-0.05, 0.05), (0.01, 0.05)):
        made.take(np.array([0.1, -0.2 + off, 0.3]))
        assert made.watch.problem() == "" and made.watch.worst_error == pytest.approx(worst)
        np.testing.assert_allclose(made.watch.error(made.now), [0.0, abs(off), 0.0], atol=1e-12)
    made.watch.follow(line, made.now)
    assert made.watch.worst_error == 0.0
    assert np.array_equal(Watched().watch.error(0.0), np.zeros(3)) and np.array_equal(
        Watched().watch.velocity_seen(), np.zeros(3)
    )


@pytest.mark.parametrize("period", [0.001, 0.01, 0.05, 0.15])
def test_as_much_is_kept_as_rest_needs(period):
    """Two windows of rest, and three states of a slow stream at least."""
    made = Watched()
    made.watch.use(LIMITS, replace(SETTINGS, stale=0.2))
    for _ in range(400):
        assert made.take(after=period) == ""
    kept = made.watch.samples
    assert len(kept) == max(3, int(0.2 / period + 1e-6) + 2) or kept[1].now >= made.now - 0.2 - 1e-9
    assert len(kept) == 3 or kept[0].now <= made.now - 0.2 + 1e-9
    assert len(kept) >= 3


@pytest.mark.parametrize("period", [0.003, 0.007, 0.03, 0.07])
def test_the_oldest_state_that_is_kept_is_the_last_one_before_two_windows_of_rest(period):
    made = Watched()
    for _ in range(round(0.5 / period)):
        assert made.take(after=period) == ""
    first, second, *_ = made.watch.samples
    assert first.now < made.now - 0.2 <= second.now
    assert first.now == pytest.approx(second.now - period)


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_the_reference_is_followed_within_the_tolerance(joint, side):
    line = reference(NAMES, np.array([0.0, 2.0]), np.array([[0.1, -0.2, 0.3], [0.3, 0.0, 0.5]]), np.full((2, 3), 0.1))
    for error, seen in ((0.099, False), (0.101, True)):
        made = Watched().still()
        made.watch.follow(line, made.now + PERIOD)
        assert made.watch.until == pytest.approx(made.now + PERIOD + 2.0)
        offset = np.zeros(3)
        begin = made.now + PERIOD
        for _ in range(100):
            offset[joint] += side * error / 100
            made.take(line.at(made.now + PERIOD - begin)[0] + offset)
        problem = made.watch.problem()
        assert bool(problem) == seen
        np.testing.assert_allclose(made.watch.error(made.now), np.abs(offset), atol=1e-9)
        assert made.watch.worst_error == (pytest.approx(error, abs=1e-6))
        if seen:
            assert f"joint {NAMES[joint]} is 0.101 off its reference, more than 0.1" in problem


def test_a_robot_that_never_moved_has_not_taken_the_trajectory():
    line = reference(NAMES, np.array([0.0, 1.0]), np.array([[0.1, -0.2, 0.3], [0.1, -0.2, 0.6]]), np.zeros((2, 3)))
    made = Watched().still()
    made.watch.follow(line, made.now)
    made.still(250)
    assert "the controller did not take the trajectory: joint c has not moved" in made.watch.problem()
    before = Watched().still()
    before.watch.follow(line.shifted(0.0), before.now + 5.0)
    before.still(10)
    assert before.watch.problem() == "", "the motion has not begun for the robot"


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_motion_is_steady_and_two_drivers_are_not(joint, side):
    made = Watched().still()
    assert made.watch.moves_steadily()
    for k in range(12):  # at full speed, braking hard
        q = made.q.copy()
        q[joint] += side * (LIMITS.velocity[joint] - LIMITS.deceleration[joint] * k * PERIOD) * PERIOD
        made.take(q)
        assert made.watch.moves_steadily()
    for size, steady in ((0.015, True), (0.025, False)):
        here = made.q.copy()
        for k in range(8):
            q = here.copy()
            q[joint] += side * size * (k % 2)
            made.take(q)
        assert made.watch.moves_steadily() is steady
        made.still()


def test_samples_are_those_of_the_moment():
    """Another thread that looks at them is not disturbed by what comes meanwhile."""
    robot = Watched().still(30)
    seen = robot.watch.samples
    last = seen[-1]
    count = len(seen)
    robot.still(100)
    assert len(seen) == count and seen[-1] is last and robot.watch.samples[-1] is robot.watch.last is not last


@pytest.mark.parametrize("shift", [0.0, 20.0, 45.0])
@pytest.mark.parametrize("behind", [0.0, 0.05, 0.5])
def test_a_robot_that_goes_on_is_seen_in_the_new_time_of_a_clock_that_was_set_back(shift, behind):
    """Along what was stopped, as fast and within the tolerance: with a clock set back, that motion began earlier."""
    robot = Watched().still()
    start, way = robot.q.copy(), np.array([1.0, -0.8, 0.4])
    t = np.linspace(0.0, 4.0, 81)
    points = reference(NAMES, t, start + t[:, None] / 4.0 * way, np.vstack((0 * way, *[way / 4.0] * 79, 0 * way)))
    begin = robot.now + PERIOD
    robot.watch.follow(points, begin)
    still = reference(NAMES, np.array([0.0, 0.5]), np.stack((start, start)), np.zeros((2, 3)))
    robot.watch.follow(still, robot.now, stop=True)
    robot.watch.follow(still, robot.now, stop=True)  # stopped again: what goes on is still the first
    if shift:
        robot.now -= shift
        robot.watch.rewind(robot.now, shift)
    for _ in range(300):
        at = robot.now + PERIOD - (begin - shift)
        robot.take(points.at(max(at - behind, 0.0))[0], stamp=0)
    assert robot.watch.goes_on(robot.now) == (behind < 0.2), "as far as the tolerance"
    assert not robot.watch.may_go_on(), "that motion is fast at this time"
    robot.watch.follow(still, robot.now)
    assert not robot.watch.goes_on(robot.now) and not robot.watch.may_go_on(), "a new motion stops nothing"


def test_a_robot_that_comes_to_rest_where_the_stopped_motion_rests_does_not_go_on():
    robot = Watched().still()
    hold = reference(NAMES, np.array([0.0, 9.0]), np.stack((robot.q, robot.q)), np.zeros((2, 3)))
    robot.watch.follow(hold, robot.now)
    robot.watch.follow(hold, robot.now, stop=True)
    for _ in range(15):
        robot.take(robot.q + np.array([0.0, 1e-3, 0.0]))
    robot.still(7)
    assert robot.watch.moves() and not np.any(np.abs(robot.watch.velocity_seen()) > 1e-9)
    assert not robot.watch.goes_on(robot.now)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize(("period", "counts"), [(0.02, False), (0.015, False), (0.01, True), (0.005, True)])
def test_stated_velocities_count_where_three_come_within_a_fiftieth_of_a_second(side, period, counts):
    robot = Watched().still()
    robot.watch.follow(reference(NAMES, np.array([0.0]), robot.q[None]), robot.now + 9.0)
    for _ in range(12):
        robot.take(dq=side * np.array([0.0, 1.2 * 2.0, 0.0]), after=period)
    told = robot.watch.problem()
    assert ("joint b is faster than its limit" in told) == counts and (counts or told == "")


def line(robot, speeds, away=0.0):
    """Return a motion at constant speeds, shape (3,), for 1.2 s, from where the robot is or away from it."""
    dq, q = np.array(speeds), robot.q + away
    return reference(NAMES, np.array([0.0, 1.2]), np.stack((q, q + 1.2 * dq)), np.stack((dq, dq)))


def stopped(robot, points):
    """Follow the points from now on, and stop them at once."""
    robot.watch.follow(points, robot.now)
    still = reference(NAMES, np.array([0.0, 0.5]), np.stack((robot.q, robot.q)), np.zeros((2, 3)))
    robot.watch.follow(still, robot.now, stop=True)
    return robot.now


@pytest.mark.parametrize(("joint", "side"), list(itertools.product(range(3), (-1, 1))))
def test_a_robot_at_rest_may_go_on_along_what_is_slow_at_this_time(joint, side):
    """Up to 0.1 rad/s over the last tenth of a second, and only until its end."""
    for speed, may in ((0.095, True), (0.105, False)):
        robot = Watched().still()
        begin = stopped(robot, line(robot, side * speed * np.eye(3)[joint]))
        robot.still(50)
        assert robot.watch.may_go_on() == may
        robot.still(round((begin + 1.2 - robot.now) / PERIOD) - 1)
        assert robot.watch.may_go_on() == may
        robot.still(2)
        assert not robot.watch.may_go_on(), "it has ended"


@pytest.mark.parametrize("order", [1, -1])
def test_what_was_slow_until_now_may_go_on_and_what_will_be_does_not(order):
    robot = Watched().still()
    t, way = np.array([0.0, 1.0, 2.0]), np.array([[0.0, 0.0, 0.0], [0.0, 0.01, 0.0], [0.0, 0.81, 0.0]])
    way = way if order > 0 else way[-1] - way[::-1]
    stopped(robot, reference(NAMES, t, robot.q + way))
    robot.still(250 - 3)
    assert robot.watch.may_go_on() == (order > 0)


@pytest.mark.parametrize("joint", range(3))
@pytest.mark.parametrize("side", [-1, 1])
def test_a_robot_goes_on_if_each_joint_is_there_and_about_as_fast(joint, side):
    """Within the tolerance of 0.1, and within half of its speed and 0.02 rad/s; one joint that moves is enough."""
    for speed, taken, goes in (
        (0.4, 0.17, False),
        (0.4, 0.19, True),
        (0.4, 0.61, True),
        (0.4, 0.63, False),
        (0.4, -0.4, False),
        (0.03, 0.03, True),
        (0.019, 0.03, False),
    ):
        robot = Watched().still()
        begin, start = stopped(robot, line(robot, side * speed * np.eye(3)[joint])), robot.q.copy()
        for _ in range(40):
            robot.take(start + side * taken * (robot.now + PERIOD - begin) * np.eye(3)[joint])
        assert robot.watch.moves() and robot.watch.goes_on(robot.now) == goes, (speed, taken)
        assert not robot.watch.goes_on(robot.now + 0.11), "not seen for too long"
    for off, goes in ((0.099, True), (0.101, False)):
        robot = Watched().still()
        points = line(robot, [0.3, -0.3, 0.3])
        begin = stopped(robot, points)
        for k in range(100):
            away = min(k / 50, 1.0) * side * off * np.eye(3)[joint]
            robot.take(points.at(robot.now + PERIOD - begin)[0] + away)
        assert robot.watch.goes_on(robot.now) == goes
    robot = Watched().still()
    begin, start = stopped(robot, line(robot, 0.4 * np.eye(3)[(joint + 1) % 3])), robot.q.copy()
    for speed, goes in ((0.019, True), (0.021, False)):
        for _ in range(60):
            t = robot.now + PERIOD - begin
            robot.take(start + 0.4 * t * np.eye(3)[(joint + 1) % 3] + side * speed * t * np.eye(3)[joint])
        assert robot.watch.goes_on(robot.now) == goes, "of one that was to rest"


def test_a_robot_that_rests_does_not_go_on():
    robot = Watched().still()
    stopped(robot, line(robot, [0.022, 0.0, 0.0]))
    robot.still(40)
    assert not robot.watch.goes_on(robot.now), "though its reference is hardly faster, and near"


def test_what_was_not_seen_is_the_way_of_the_reference_since_the_last_state():
    robot = Watched()
    speeds = np.array([0.3, -0.2, 0.0])
    robot.watch.follow(line(robot, speeds), robot.now)
    np.testing.assert_array_equal(robot.watch.unseen(robot.now + 1.0), 0.0)
    robot.still(5)
    for later in (0.0, 0.05, 0.7):
        np.testing.assert_allclose(robot.watch.unseen(robot.now + later), np.abs(speeds) * later, atol=1e-12)
    np.testing.assert_array_equal(robot.watch.unseen(robot.now - 0.01), 0.0)
    q, dq = robot.watch.reference(robot.now)
    np.testing.assert_allclose(q, robot.q + 5 * PERIOD * speeds)
    np.testing.assert_allclose(dq, speeds)


@pytest.mark.parametrize("late", [0.0, 0.03, 0.15])
def test_what_was_not_seen_counts_from_the_time_of_measuring_however_late_a_state_comes(late):
    robot = Watched()
    speeds = np.array([0.3, -0.2, 0.0])
    robot.watch.follow(line(robot, speeds), robot.now)
    now = robot.now + 0.5
    state = State(NAMES, robot.q, np.zeros(3), np.zeros(3), round(1e9 * (now - late)))
    assert robot.watch.take(JointStateArrived(now, state, now - late)) == ""
    for later in (0.0, 0.05):
        np.testing.assert_allclose(robot.watch.unseen(now + later), np.abs(speeds) * (late + later), atol=1e-12)


@pytest.mark.parametrize("late", [0.0, 0.05, -0.05])
def test_an_error_is_that_at_the_time_of_measuring_and_of_now_if_that_lies_ahead(late):
    robot = Watched()
    speeds = np.array([0.3, -0.2, 0.0])
    robot.watch.follow(line(robot, speeds), robot.now)
    begin, now = robot.now, robot.now + 1.0
    state = State(NAMES, robot.q, np.zeros(3), np.zeros(3), round(1e9 * (now - late)))
    assert robot.watch.take(JointStateArrived(now, state, now - late)) == ""
    wanted = np.abs(speeds) * (min(now - late, now) - begin)
    np.testing.assert_allclose(robot.watch.error(now), wanted, atol=1e-9)


@pytest.mark.parametrize("joint", range(3))
@pytest.mark.parametrize(("moved", "taken"), [(0.0, False), (0.0095, False), (-0.0095, False), (0.0105, True)])
def test_a_joint_that_moved_by_a_tenth_of_the_tolerance_shows_that_the_trajectory_was_taken(joint, moved, taken):
    robot = Watched().still()
    robot.watch.follow(line(robot, np.zeros(3)), robot.now)
    robot.take(robot.q + 0.05)
    robot.still()
    robot.watch.follow(line(robot, [0.0, -0.2, 0.0]), robot.now)
    robot.take(robot.q + moved * np.eye(3)[joint])
    robot.still(round(0.6 / PERIOD))
    off = 0.2 * (0.6 + PERIOD) + (moved if joint == 1 else 0.0)
    assert robot.watch.problem() == (
        f"joint b is {off:.3f} off its reference, more than 0.1"
        if taken
        else f"the controller did not take the trajectory: joint b has not moved, its reference has by {off:.3f};"
        " is the controller active?"
    )


def test_a_robot_that_was_not_seen_before_may_have_moved():
    robot = Watched()
    robot.watch.follow(line(robot, [0.0, -0.2, 0.0]), robot.now)
    robot.still(round(0.6 / PERIOD))
    assert robot.watch.problem() == "joint b is 0.120 off its reference, more than 0.1"


def test_a_state_of_before_the_motion_says_nothing_about_it_however_late_it_comes():
    robot = Watched().still()
    robot.watch.follow(line(robot, np.zeros(3), away=0.15), robot.now + 0.05)
    for k in range(1, 30):
        now, measured_at = robot.now + k * PERIOD, robot.now + k * PERIOD - 0.05
        state = State(NAMES, robot.q, np.zeros(3), np.zeros(3), round(1e9 * measured_at))
        robot.watch.take(JointStateArrived(now, state, measured_at))
        begun = measured_at >= robot.now + 0.05
        assert bool(robot.watch.problem()) == begun and robot.watch.worst_error == pytest.approx(0.15 * begun)


def test_what_is_wrong_with_the_data_comes_before_their_age():
    robot = Watched()
    said = robot.take([0.1, np.nan, 0.3])
    assert robot.watch.unknown(robot.now) == said == "joint b: its position is not a number"
    assert robot.watch.unknown(robot.now + 5.0) == said and not robot.watch.samples
    assert robot.take([0.1, -0.2, 0.3]) == "" and robot.watch.unknown(robot.now) == ""
    robot.take([0.1, -0.2, np.inf])
    robot.take(stamp=0)
    assert "joint c" in robot.watch.unknown(robot.now + 5.0), "the one before it was right, and is kept"
    assert robot.take([0.1, -0.2, 0.3]) == "" and robot.watch.known(robot.now)


def test_a_frozen_source_that_goes_on_is_not_called_frozen_any_more():
    robot = Watched().still()
    robot.take(stamp=round(1e9 * robot.now))
    robot.still(1)
    assert robot.watch.silence(robot.now + 0.2) == "no joint state for 0.200 s, more than 0.1 s"


def test_a_jump_forgets_what_was_before_it():
    robot = Watched().still()
    assert "jumped" in robot.take(robot.q + 1.0)
    assert len(robot.watch.samples) == 1 and robot.watch.heard == robot.now == robot.watch.jumped_at
    np.testing.assert_array_equal(robot.watch.last.state.q, robot.q)
    robot.still(5)
    np.testing.assert_array_equal(robot.watch.velocity_seen(), 0.0)
    assert not robot.watch.moves() and robot.watch.jumped, "until somebody trusts it again"


def test_speeds_are_those_of_the_times_of_measuring_however_states_come():
    """Ten states at a time: each was measured 4 ms after the one before."""
    robot = Watched()
    speed = np.array([0.3, -0.2, 0.01])
    for k in range(80):
        measured_at, now = 50.0 + k * PERIOD, 50.0 + (k // 10 + 1) * 10 * PERIOD
        state = State(NAMES, robot.q + speed * k * PERIOD, speed, np.zeros(3), round(1e9 * measured_at))
        assert robot.watch.take(JointStateArrived(now, state, measured_at)) == ""
    np.testing.assert_allclose(robot.watch.velocity_seen(), speed)
    assert robot.watch.moves() and not robot.watch.at_rest()


@pytest.mark.parametrize("worst", range(3))
def test_of_several_joints_off_the_reference_the_worst_is_named(worst):
    robot = Watched().still()
    off = np.array([0.15, -0.15, 0.15])
    off[worst] *= 1.2
    robot.watch.follow(line(robot, np.zeros(3)), robot.now)
    for _ in range(100):
        robot.take(robot.q + off / 100)
    assert robot.watch.problem() == f"joint {NAMES[worst]} is 0.180 off its reference, more than 0.1"


def test_a_jump_is_as_old_as_its_message_however_late_that_came():
    robot = Watched().still()
    now, measured_at = robot.now + 0.06, robot.now + 0.01
    state = State(NAMES, robot.q + 1.0, np.zeros(3), np.zeros(3), round(1e9 * measured_at))
    assert "jumped by 1.000 in 0.060 s" in robot.watch.take(JointStateArrived(now, state, measured_at))
    assert robot.watch.jumped_at == robot.watch.heard == now


def test_a_robot_is_compared_with_its_reference_at_the_time_of_measuring():
    robot = Watched().still()
    points, begin = line(robot, [0.8, -0.6, 0.4]), robot.now
    robot.watch.follow(points, begin)
    for k in range(1, 100):
        measured_at = begin + k * PERIOD
        state = State(NAMES, points.at(k * PERIOD)[0], np.zeros(3), np.zeros(3), round(1e9 * measured_at))
        assert (
            robot.watch.take(JointStateArrived(measured_at + 0.09, state, measured_at)) == ""
            and robot.watch.problem() == ""
        )
    assert robot.watch.worst_error < 1e-9


def test_no_more_is_kept_than_two_thousand_states_though_the_clock_stands():
    robot = Watched()
    for k in range(2005):
        assert robot.take(stamp=k + 1, after=0.0) == ""
    kept = robot.watch.samples
    assert len(kept) == 2000 and (kept[0].state.stamp, kept[-1].state.stamp) == (6, 2005)


def test_a_stop_does_not_brake_a_step_of_the_positions_as_if_it_were_motion():
    made = Watched().still()
    made.watch.follow(reference(NAMES, np.array([0.0, 1.0]), np.array([[1.0, -0.2, 0.3]] * 2)), made.now)
    moves = 0.9 * LIMITS.velocity * PERIOD
    for _ in range(6):
        made.q = made.q + moves
        made.take(made.q)
    start = made.watch.stop_start(made.now, moved=True)
    np.testing.assert_allclose(start.dq, 0.9 * LIMITS.velocity, err_msg="off its reference: what is measured counts")
    made.q = made.q + np.array([0.0, 0.0, 0.015])  # within what noise may add, and faster than the joint can be
    made.take(made.q)
    start = made.watch.stop_start(made.now, moved=True)
    assert start.dq[2] == 0.0 and np.all(start.dq[:2] > 0.0)
