# SPDX-License-Identifier: Apache-2.0

"""Which joint states are new, can be right, and say where the robot is; how it moves is test_supervisor.py's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ros2_dynid.control.joint_trust import JointStateArrived, JointTrust
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
VELOCITY = np.array([2.5, 1.5, 3.0])
HERE, STILL = np.array([0.2, -0.8, 0.4]), np.zeros(3)
JOINT_AND_SIDE = list(itertools.product(range(3), (-1, 1)))


class Stream:
    """Joint states of a driver, by its own stamps."""

    def __init__(self, stale=0.1):
        self.trust, self.now = JointTrust(stale, VELOCITY), 10.0

    def take(self, q=HERE, dq=STILL, *, after=1e-3, stamp=None):
        self.now += after
        stamp = round(1e9 * self.now) if stamp is None else stamp
        state = State(NAMES, np.array(q, dtype=float), np.array(dq, dtype=float), np.zeros(3), stamp)
        return self.trust.take(JointStateArrived(self.now, state, self.now))

    def stay(self, q, seconds, period=0.05):
        for _ in range(round(seconds / period)):
            self.take(q, after=period)
        return self

    @property
    def where(self):
        seen = self.trust.seen(self.now)
        return None if seen is None else seen.q


def moved(joint, way):
    away = HERE.copy()
    away[joint] += way
    return away


def test_the_first_joint_state_is_believed_and_says_where_the_robot_is():
    made = Stream()
    assert made.where is None
    with pytest.raises(InputError, match="position of the robot is not known; check the topic joint_states"):
        made.trust.known_motion(made.now)
    made.take(dq=[0.0, -0.5, 0.1])
    q, dq = made.trust.known_motion(made.now + 0.0999)
    assert np.array_equal(q, HERE) and np.array_equal(dq, [0.0, -0.5, 0.1])
    assert made.trust.seen(made.now + 0.101) is None, "as long as it is fresh"


def test_what_is_measured_of_the_motion_is_told():
    made = Stream()
    assert "joint states are missing" in made.trust.motion_text(made.now, ROBOT)
    made.take(dq=[0.0, -0.5, 0.1])
    assert made.trust.motion_text(made.now, ROBOT) == "joint 'shoulder' moves at 0.5 rad/s"
    made.take(dq=[0.0, 0.019, 0.0])
    assert made.trust.motion_text(made.now, ROBOT) == "the robot was at rest"
    made.take(dq=[0.0, np.nan, 0.0])
    assert "have no velocities" in made.trust.motion_text(made.now, ROBOT)


@pytest.mark.parametrize("dq", [STILL, np.full(3, np.nan)])
def test_a_state_is_new_by_its_stamp_its_positions_or_its_velocities(dq):
    def is_new(q=HERE, speed=dq, stamp=5):
        made = Stream()
        made.take(dq=dq, stamp=5 if stamp else 0)
        made.take(q, speed, stamp=stamp, after=0.05)
        return made.trust.heard == made.now

    assert not is_new(), "frozen"
    assert is_new(stamp=6) and is_new(stamp=4), "a clock that was set"
    assert is_new(q=HERE + 1e-6) and is_new(speed=np.full(3, 1e-6))
    assert is_new(stamp=0), "a driver without stamps is judged by arrival"


@pytest.mark.parametrize(("joint", "side"), JOINT_AND_SIDE)
def test_a_step_that_the_velocity_limit_allows_is_believed_and_a_longer_one_is_not(joint, side):
    """Over 0.08 s, so that nearness does not decide; each joint by its own limit."""
    reach = 3.0 * VELOCITY[joint] * 0.08 + 0.02
    for share, believed in ((0.99, True), (1.01, False)):
        made = Stream().stay(HERE, 0.2)
        away = moved(joint, side * share * reach)
        assert bool(made.take(away, after=0.08)) is not believed
        assert np.array_equal(made.where, away if believed else HERE)
        assert bool(made.trust.doubt) is not believed and (NAMES[joint] in made.trust.doubt) is not believed


@pytest.mark.parametrize(("joint", "side"), JOINT_AND_SIDE)
def test_after_a_jump_positions_near_the_last_ones_believed_are_believed(joint, side):
    for step, believed in ((0.149, True), (0.151, False)):
        made = Stream().stay(HERE, 0.2)
        made.take(HERE + 2.0)
        away = moved(joint, side * step)
        made.take(away)
        assert np.array_equal(made.where, away if believed else HERE)
        assert (made.trust.doubt == "") is believed


def test_an_encoder_that_was_set_twice_is_believed_five_seconds_after_the_second_time():
    made = Stream().stay(HERE, 0.2)
    first, second = HERE + np.array([0.0, 0.9, 0.0]), HERE + np.array([0.0, 0.4, 0.7])
    made.stay(first, 4.0)
    assert made.where is None and "'shoulder' has jumped: its positions are not used" in made.trust.doubt
    made.stay(second, 4.9)
    assert made.where is None
    made.stay(second, 0.2)
    assert np.array_equal(made.where, second) and not made.trust.doubt


@pytest.mark.parametrize(("joint", "side"), JOINT_AND_SIDE)
def test_after_a_short_silence_the_robot_may_be_where_its_velocity_limit_allows(joint, side):
    reach = 0.15 + VELOCITY[joint] * 0.3
    for share, believed in ((0.99, True), (1.01, False)):
        made = Stream().stay(HERE, 0.2)
        away = moved(joint, side * share * reach)
        assert made.take(away, after=0.3) == "", "nothing is wrong with the data themselves"
        assert (made.where is not None) is believed is not made.trust.lost
        assert (made.trust.jumped_at == made.now) is not believed, "nothing starts from there for a while"


@pytest.mark.parametrize("silence", [0.6, 7.0, 1e4])
def test_after_a_long_silence_only_positions_near_the_last_ones_are_believed(silence):
    """Another driver may have taken the place of the one that is silent: however long it goes on."""
    for step, believed in ((0.149, True), (0.151, False)):
        made = Stream().stay(HERE, 0.2)
        away = moved(1, step)
        made.take(away, after=silence)
        made.stay(away, 20.0)
        assert np.array_equal(made.where, away) if believed else made.where is None
        if not believed:
            assert "'shoulder' is not where it was last seen" in made.trust.doubt
            made.take(moved(1, 0.1))
            assert np.array_equal(made.where, moved(1, 0.1)) and not made.trust.lost, "the true one is back"


def test_what_is_forgotten_is_not_compared():
    made = Stream().stay(HERE, 0.2)
    made.take(HERE + 1.0, after=3.0)
    assert made.trust.lost and made.where is None
    made.trust.forget()
    made.take(HERE + 1.0)
    assert np.array_equal(made.where, HERE + 1.0) and not made.trust.doubt


def test_positions_that_are_no_numbers_say_nothing():
    made = Stream().stay(HERE, 0.2)
    for bad in (np.nan, np.inf):
        said = made.take(moved(2, bad))
        assert said == f"joint {NAMES[2]}: its position is not a number" == made.trust.doubt
        assert np.array_equal(made.where, HERE), "what was believed before still holds for a while"
    made.take()
    assert made.trust.doubt == ""
