# SPDX-License-Identifier: Apache-2.0

"""The excitation's state machine with a robot that follows: its phases, what stops it, and the table of its events."""

from __future__ import annotations

import copy
import itertools
import re
from dataclasses import fields, replace

import numpy as np
import pytest

from follower import PERIOD, Follower
from ros2_dynid.control.along_path import resumed_motion
from ros2_dynid.control.checked_motion import checked_motion, jog_motion
from ros2_dynid.control.excitation_events import (
    MOVING,
    PAUSABLE,
    TRANSITIONS,
    ActivateExcitation,
    ConnectionProblem,
    DeactivateExcitation,
    ExcitationTick,
    GoalRefused,
    Jog,
    JogHeld,
    JogReleased,
    OthersCommand,
    ParametersChanged,
    Pause,
    Phase,
    Resume,
    RobotChanged,
    Start,
    Stop,
)
from ros2_dynid.control.excitation_machine import ExcitationMachine
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_gate import MotionGate
from ros2_dynid.control.motion_limits import MotionSettings, motion_limits
from ros2_dynid.control.stop import braking, quintic
from ros2_dynid.control.stop_switch import STOP_SET, HoldBack
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
LIMITS = motion_limits(ROBOT, MotionSettings())
PARTS = [phase for phase in Phase if phase in PAUSABLE]


def within_limits(made, share=1.03):
    """What the controller was led through has kept the limits of velocity and acceleration."""
    assert np.all(made.fastest <= LIMITS.velocity * share), made.fastest
    assert np.all(made.hardest <= LIMITS.acceleration * share), made.hardest


@pytest.mark.parametrize("from_desired", [True, False])
@pytest.mark.parametrize("droop", [0.0, 0.006])
def test_a_motion_goes_through_its_phases_without_a_kick(from_desired, droop):
    made = Follower(ROBOT, from_desired=from_desired, droop=droop)
    assert made.start().answer.startswith("exciting begins in")
    made.until(Phase.DONE)
    assert [a.name for a in made.announced] == ["idle", "approach", "settle", "exciting", "done"]
    assert np.allclose(made.desired[0], [0.6, -0.8, 0.6])
    assert len(made.sent) == 2
    within_limits(made)
    assert made.hardest[0] > 0.3, "it did move"


def test_the_approach_takes_its_share_of_the_limits():
    for share in (0.1, 0.6):
        made = Follower(ROBOT, settings=MotionSettings(settle=0.1, approach_speed=share, tracking=0.02))
        made.start(q_from=(1.5, -0.2, 1.2), q_to=(1.5, -0.2, 1.21), seconds=3.0)
        made.until(Phase.SETTLE)
        use = max((made.fastest / LIMITS.velocity).max(), (made.hardest / LIMITS.acceleration).max())
        assert 0.9 * share < use <= 1.01 * share


def test_the_approach_speeds_up_by_its_share_though_a_stop_would_be_softer():
    """Without an acceleration limit joints speed up as planning assumes and brake as the settings say: two numbers."""
    bare = replace(ROBOT, joints=tuple(replace(j, limits=replace(j.limits, acceleration=np.inf)) for j in ROBOT.joints))
    for share in (0.2, 0.5):
        settings = MotionSettings(approach_speed=share, deceleration=1.0, tracking=0.02)
        limits, start = motion_limits(bare, settings), np.array([0.0, -1.0, 0.0])
        assert np.all(limits.acceleration > 2.0 * limits.deceleration)
        run = quintic(bare.active_names, start + 0.1, start + 0.15, 1.0)
        way = checked_motion("exciting", bare, run, start, settings, limits).way.points
        hardest = np.abs(way.within(np.linspace(0.0, 1.0, 400))[2]).max(axis=0)
        assert 0.98 < np.max(hardest / limits.acceleration) / share < 1.01


def test_a_start_says_when_the_trajectory_begins():
    made = Follower(ROBOT, settings=MotionSettings(settle=0.7, tracking=0.1))
    said, begin = made.start().answer, made.now
    made.until(Phase.RUNNING)
    assert float(said.split()[-2]) == pytest.approx(made.now - begin, abs=0.07)


def test_positions_that_have_jumped_are_trusted_again_after_five_seconds():
    made = Follower(ROBOT)
    made.tampered = lambda s: replace(s, q=s.q + np.array([0.0, 0.5, 0.0]))
    made.step()
    made.tampered = lambda s: s
    made.run(4.9)
    refused = made.start()
    assert not refused.accepted and "have just jumped" in refused.answer
    made.run(0.2)
    assert made.start().accepted


def test_a_part_is_over_when_the_robot_is_seen_to_have_had_its_time():
    """Joint states that are 80 ms old say nothing yet about the end of a motion that is due now."""
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.3))
    made.tampered = lambda s: replace(s, stamp=s.stamp - 80_000_000)
    made.run(0.5)
    assert made.start().accepted
    ends = made.ends
    made.until(Phase.SETTLE)
    assert 0.08 - 1e-6 <= made.now - ends <= 0.08 + 3 * PERIOD


@pytest.mark.parametrize("phase", [Phase.APPROACH, Phase.RUNNING])
def test_no_part_is_over_before_its_time_though_states_come_from_the_future(phase):
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.3))
    made.tampered = lambda s: replace(s, stamp=s.stamp + 50_000_000)
    made.run(0.3)
    assert made.start(seconds=1.5).accepted
    made.until(phase)
    ends = made.ends
    made.until(Phase.SETTLE if phase is Phase.APPROACH else Phase.DONE)
    assert ends - 1e-9 <= made.now <= ends + 0.2


@pytest.mark.parametrize("phase", [Phase.APPROACH, Phase.RUNNING])
def test_silence_before_a_delayed_motion_begins_stops_it(phase):
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.1, delay=1.0))
    assert made.start().accepted
    made.until(phase)
    made.silent, begin = True, made.now
    made.run(0.12)
    assert made.machine.phase is Phase.BRAKING and "no joint state for" in made.reason
    assert made.now - begin < 1.0, "the motion was still to begin"


def far_off(made):
    """Let the elbow be pushed away from what is desired, by 0.5 rad/s."""

    def pushed(s):
        made.droop = made.droop + np.array([0.0, 0.0, 0.002])
        return s

    made.tampered = pushed


def frozen(made):
    last = made.state
    made.tampered = lambda s: last


def same_values(made):
    last = made.state
    made.tampered = lambda s: replace(last, stamp=s.stamp)


def add(where, value):
    def change(made):
        offset = np.zeros(3)
        offset[where] = value
        made.tampered = lambda s: replace(s, q=s.q + offset)

    return change


def beyond(joint, side):
    """Let a joint drift over its limit, with a reference that does so too: only the limit can be wrong."""

    def change(made):
        limit = (LIMITS.upper if side > 0 else LIMITS.lower)[joint]
        made.force(tracking=10.0)
        drift = {"by": 0.0}

        def tampered(s):
            drift["by"] += 0.006
            q = s.q.copy()
            q[joint] += side * drift["by"]
            assert side * (q[joint] - limit) < 0.08, "stopped within some steps"
            return replace(s, q=q)

        made.tampered = tampered

    return change


def too_fast(joint, side, stated):
    """Let a joint's velocity, as stated or by its positions, pass the limit by 10 %."""

    def change(made):
        made.force(tracking=10.0)
        drift = {"by": 0.0}

        def tampered(s):
            q, dq = s.q.copy(), s.dq.copy()
            if stated:
                dq[joint] = side * LIMITS.velocity[joint] * 1.1
            else:
                drift["by"] += PERIOD * (1.1 * LIMITS.velocity[joint] + abs(s.dq[joint]))
                q[joint] += side * drift["by"]
            return replace(s, q=q, dq=dq)

        made.tampered = tampered

    return change


@pytest.mark.parametrize(
    ("trouble", "said", "soon"),
    [
        (lambda made: made.do(Stop(made.now)), "stop was called", 0.0),
        (far_off, "elbow is 0.10. off its reference", 0.22),
        (lambda made: setattr(made, "silent", True), "no joint state for 0.10", 0.109),
        (frozen, "repeated the same stamp for 0.10", 0.109),
        (same_values, "off its reference", 0.9),
        (lambda made: made.do(ConnectionProblem(made.now, "nobody listens")), "nobody listens", 0.0),
        (add(1, np.nan), "shoulder: its position is not a number", 0.0081),
        (add(2, 0.5), "elbow jumped by 0.5", 0.0081),
        (beyond(0, 1), "waist is above its upper limit", 2.0),
        (beyond(0, -1), "waist is below its lower limit", 3.0),
        (beyond(2, 1), "elbow is above its upper limit", 2.0),
        (beyond(1, -1), "shoulder is below its lower limit", 2.0),
        (too_fast(0, 1, True), "waist is faster than its limit", 0.03),
        (too_fast(2, -1, True), "elbow is faster than its limit", 0.03),
        (too_fast(1, -1, False), "shoulder is faster than its limit", 0.03),
        (too_fast(0, 1, False), "waist is faster than its limit", 0.03),
        (lambda made: made.do(RobotChanged(made.now, load_robot("demo3"))), "description has changed", 0.0),
        (lambda made: made.do(DeactivateExcitation(made.now)), "the node was deactivated", 0.0),
        (lambda made: made.do(GoalRefused(made.now, 2, "the controller gave up")), "the controller gave up", 0.0),
    ],
)
def test_trouble_stops_it_in_time_and_within_the_limits(trouble, said, soon):
    for from_desired in (True, False):
        stops_in_time(running(from_desired), trouble, said, soon)


def stops_in_time(made, trouble, said, soon):
    before, begin = len(made.sent), made.now
    trouble(made)
    made.until(Phase.BRAKING)
    assert made.now - begin <= soon + 1e-9
    assert re.search(said, made.reason)
    assert len(made.sent) == before + 1 and np.all(made.sent[-1][2].dq[-1] == 0)
    made.tampered = lambda s: s
    made.silent = False
    made.until(Phase.ABORTED, Phase.INACTIVE)
    assert np.all(made.desired[1] == 0.0), "at rest when it says so"
    assert re.search(said, made.reason)
    within_limits(made)


@pytest.mark.parametrize("droop", [-0.09, 0.09])
def test_a_stop_without_joint_states_allows_for_a_robot_that_lags(droop):
    """The controller starts from the measured state, which lags at nearly full speed, and nobody can see it."""
    made = Follower(ROBOT, from_desired=False)
    assert made.start(q_from=(-1.5, -1.2, 0.2), q_to=(1.5, -0.8, 0.6), seconds=2.35).accepted
    made.until(Phase.RUNNING)
    made.wait(lambda: made.desired[1][0] >= 0.93 * LIMITS.velocity[0], "almost the highest speed")
    made.silent, made.droop = True, droop
    made.until(Phase.BRAKING)
    assert made.desired[1][0] > 0.9 * LIMITS.velocity[0], "in full motion"
    made.until(Phase.ABORTED)
    assert np.all(made.desired[1] == 0.0)
    within_limits(made, share=1.0 + 1e-6)


@pytest.mark.parametrize("longer", [0.0, 0.05, 0.5])
def test_a_stop_without_joint_states_allows_for_a_robot_that_has_stood_since(longer):
    """The robot's computer is paused and goes on from where it was, when the reference is far ahead."""
    made = Follower(ROBOT, from_desired=False)
    assert made.start(q_from=(-1.5, -1.2, 0.2), q_to=(1.5, -0.8, 0.6), seconds=2.35).accepted
    made.until(Phase.RUNNING)
    made.wait(lambda: made.desired[1][0] >= 0.93 * LIMITS.velocity[0], "almost the highest speed")
    made.paused = made.silent = True
    made.until(Phase.BRAKING)
    made.run(longer)
    made.paused = False
    made.until(Phase.ABORTED)
    assert np.all(made.desired[1] == 0.0)
    within_limits(made, share=1.0 + 1e-6)


def test_a_lost_stop_of_a_robot_that_has_hardly_begun_is_missed_when_it_should_have_moved():
    made = Follower(ROBOT)
    assert made.start(q_from=(0.5, -1.2, 0.2)).accepted
    made.run(0.3)
    assert np.abs(made.desired[1]).max() < 0.01, "it seems to be at rest"
    made.lost = lambda k: k == 2
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    assert np.all(made.desired[1] == 0.0) and len(made.sent) == 3
    made.run(2.0)
    assert made.machine.phase is Phase.ABORTED and np.all(made.desired[1] == 0.0) and len(made.sent) == 3
    within_limits(made)


@pytest.mark.parametrize("others", [False, True])
def test_a_robot_that_goes_on_long_after_it_was_stopped_is_stopped_again(others):
    """Its controller waits for the time of the trajectory's stamp, and the stop in between is lost."""
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.1, delay=4.0))
    assert made.start(q_from=(0.5, -1.2, 0.2)).accepted
    made.run(0.5)
    made.lost = lambda k: k == 2
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    assert made.now < 104.0 and len(made.sent) == 2, "nothing has moved yet"
    if others:
        made.do(OthersCommand(made.now))
        made.run(3.0)
        assert made.machine.phase is Phase.ABORTED and len(made.sent) == 2, "it is another node's motion"
        return
    made.until(Phase.BRAKING, limit=3.0)
    assert made.reason == "the robot goes on though it was stopped"
    made.until(Phase.ABORTED)
    assert np.all(made.desired[1] == 0.0) and len(made.sent) == 3
    within_limits(made)


def test_another_description_does_not_make_positions_right_that_have_jumped():
    made = Follower(ROBOT)
    made.tampered = lambda s: replace(s, q=s.q + 0.5)
    made.run(0.2)
    made.do(RobotChanged(made.now, replace(ROBOT)))
    made.run(0.3)
    assert "positions have just jumped" in made.start().answer and not made.sent


def test_who_moves_the_robot_elsewhere_after_a_stop_is_left_alone():
    made = running(from_desired=True)
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    sent, away = len(made.sent), quintic(ROBOT.active_names, made.desired[0], made.desired[0] - 0.5, 0.8)
    made.arriving.append((made.now, away.shifted(0.01), 0.0))
    made.run(1.2)
    assert made.machine.phase is Phase.ABORTED and len(made.sent) == sent


def test_a_robot_that_is_seen_again_at_rest_is_not_stopped_again():
    made = running(from_desired=True)
    before = len(made.sent)
    made.silent = True
    made.until(Phase.BRAKING)
    made.run(1.0)
    made.silent = False
    made.until(Phase.ABORTED)
    assert len(made.sent) == before + 1 and np.all(made.desired[1] == 0.0)
    assert "not known whether" not in made.reason


@pytest.mark.parametrize("side", [-1, 1])
def test_a_stop_is_not_aimed_beyond_a_limit_where_the_robot_may_have_gone_by_now(side):
    """Off its reference, near the limit, and not seen for a while: at its speed it would be beyond the limit."""
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.25))
    edge = LIMITS.upper[0] if side > 0 else LIMITS.lower[0]
    assert made.start(q_from=(edge - side * 1.6, -1.2, 0.2), q_to=(edge, -0.8, 0.6), seconds=2.0).accepted
    made.until(Phase.RUNNING)
    ahead = 0.0
    end = made.now + 10.0
    while side * (edge - made.measured[0][0]) > 0.07:
        assert made.now < end, "the robot did not come near its limit within 10 s"
        ahead = min(ahead + 1.2e-3, 0.2)
        made.droop = -side * np.array([ahead, 0.0, 0.0])
        made.step()
    made.silent = True
    made.run(0.09)
    assert made.machine.phase is Phase.RUNNING
    made.do(Stop(made.now))
    assert np.all(side * (edge - made.sent[-1][2].q[:, 0]) >= -1e-9)


@pytest.mark.parametrize("every", [2, 3])
def test_of_two_drivers_that_contradict_each_other_no_velocity_is_taken(every):
    """A second driver says that the robot rests where it was: a stop goes on along the reference and not backwards."""
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.04))
    assert made.start(q_from=(-1.5, -1.2, 0.2), q_to=(1.5, -0.8, 0.6), seconds=2.6).accepted
    made.until(Phase.RUNNING)
    made.wait(lambda: made.desired[1][0] >= 1.5, "a speed of 1.5 rad/s")
    first, count, begin = made.desired[0].copy(), itertools.count(), len(made.path)
    made.tampered = lambda s: replace(s, q=first, dq=np.zeros(3)) if next(count) % every == 0 else s
    made.until(Phase.BRAKING)
    made.until(Phase.ABORTED, limit=60.0)
    assert np.all(np.diff(np.array(made.path[begin:])[:, 0]) > -1e-4), "it does not turn round"
    within_limits(made)


def test_one_fast_sample_is_jitter_and_not_a_motion():
    made = running()
    count = {"k": 0}

    def jitter(s):
        count["k"] += 1
        return replace(
            s, dq=s.dq * (40.0 if count["k"] % 3 == 0 else 1.0) + (count["k"] % 3 == 0) * 1.05 * LIMITS.velocity
        )

    made.tampered = jitter
    made.until(Phase.DONE, Phase.BRAKING)
    assert made.machine.phase is Phase.DONE


def test_stamps_of_zero_are_judged_by_arrival():
    made = Follower(ROBOT)
    made.tampered = lambda s: replace(s, stamp=0)
    made.run(0.3)
    assert made.start().accepted
    made.until(Phase.DONE)
    made.running(0.5)
    far_off(made)
    inner = made.tampered
    made.tampered = lambda s: replace(inner(s), stamp=0)
    made.until(Phase.BRAKING)
    assert "off its reference" in made.reason


def test_a_controller_that_takes_nothing_is_named_as_such():
    made = Follower(ROBOT)
    made.deaf = True
    assert made.start().accepted
    made.until(Phase.BRAKING)
    assert "the controller did not take the trajectory" in made.reason and "active?" in made.reason


def test_a_stop_that_is_lost_is_sent_again():
    made = running()
    count = len(made.sent)
    made.lost = lambda k: k in (count + 1, count + 2)
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    assert len(made.sent) == count + 3 and np.all(made.desired[1] == 0.0)
    within_limits(made)


def test_a_robot_that_cannot_be_stopped_or_seen_is_said_to_be():
    made = running()
    made.lost, begin = (lambda k: True), made.now
    made.tampered = lambda s: replace(s, q=s.q + 0.05 * (made.now - begin))
    made.do(Stop(made.now))
    ends = made.ends
    made.until(Phase.ABORTED)
    assert "does not come to rest" in made.reason
    assert ends > begin and 10.0 <= made.now - ends <= 10.05, "it has tried for long enough, after the stop's own time"
    made = running()
    made.silent = True
    made.until(Phase.BRAKING)
    ends = made.now + made.sent[-1][2].duration
    made.until(Phase.ABORTED)
    assert "not known whether the robot is at rest" in made.reason
    assert 1.99 <= made.now - ends <= 2.05, "joint states may come back, and then it is known"


def test_a_robot_that_is_lost_sight_of_after_several_stops_has_the_time_of_the_last_one():
    made = running()
    made.lost, begin = (lambda k: True), made.now
    made.tampered = lambda s: replace(s, q=s.q + 0.05 * (made.now - begin))
    made.do(Stop(made.now))
    made.run(4.0)
    made.silent, last, ends = True, made.sent[-1], made.ends
    assert last[0] > begin + 3.0 and ends >= last[0] + last[2].duration
    made.until(Phase.ABORTED)
    assert "not known whether the robot is at rest" in made.reason
    ends = max(ends, made.sent[-1][0] + made.sent[-1][2].duration)
    assert 1.99 <= made.now - ends <= 2.05


def test_nothing_but_braking_leaves_after_a_stop():
    made = running()
    made.do(Stop(made.now))
    assert made.do(Stop(made.now)).answer == "already stopping"
    refused = made.start()
    assert not refused.accepted and "being stopped" in refused.answer
    made.until(Phase.ABORTED)
    rest = len(made.sent)
    made.run(3.0)
    assert len(made.sent) == rest
    assert made.start().accepted, "and it can be started again"


def test_a_stop_during_the_preparation_of_a_start_holds():
    made = Follower(ROBOT)
    machine = made.machine
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    motion = checked_motion(
        "exciting", ROBOT, run, machine.where(made.now), machine.settings, machine.limits, machine.stops
    )
    assert made.do(Stop(made.now)).answer == "nothing was moving"
    refused = made.do(Start(made.now, motion))
    assert not refused.accepted and "stop was called" in refused.answer and not made.sent
    motion = checked_motion(
        "exciting", ROBOT, run, machine.where(made.now), machine.settings, machine.limits, machine.stops
    )
    made.do(DeactivateExcitation(made.now))
    made.do(ActivateExcitation(made.now))
    made.run(1.0)
    assert not made.do(Start(made.now, motion)).accepted and not made.sent, "nor does one from before a deactivation"


def test_a_start_needs_fresh_joint_states_at_rest_of_this_robot():
    blank = ExcitationMachine(MotionSettings(), MotionGate(lambda *_: 0.0))
    assert not blank.at_rest and blank.unknown(0.0) == "the robot or its limits are not known"
    assert blank.joint_names == () and not blank.moving
    made = Follower(ROBOT)
    assert made.machine.at_rest and not made.machine.unknown(made.now)
    made.silent = True
    made.run(0.2)
    with pytest.raises(InputError, match="no joint state for 0"):
        made.start()
    made.silent = False
    made.run(0.3)
    machine = made.machine
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    q = machine.where(made.now)

    def motion(robot=ROBOT, q=q, limits=None):
        return checked_motion("exciting", robot, run, q, machine.settings, limits or machine.limits)

    for wrong, said in (
        (motion(robot=load_robot("demo3")), "robot has changed"),
        (motion(q=q + 0.05), "has moved since"),
        (motion(limits=replace(LIMITS)), "limits have changed"),
    ):
        refused = made.do(Start(made.now, wrong))
        assert not refused.accepted and said in refused.answer
    good = motion()
    made.silent = True
    made.run(0.2)
    refused = made.do(Start(made.now, good))
    assert not refused.accepted and "no joint state for" in refused.answer
    made.silent = False
    made.desired = made.desired[0] + 0.001, made.desired[1]
    k = {"n": 0}

    def drifting(s):
        k["n"] += 1
        return replace(s, q=s.q + 0.0002 * k["n"])

    made.tampered = drifting
    made.run(0.15)
    refused = made.do(Start(made.now, good))
    assert not refused.accepted and "not at rest" in refused.answer
    assert not made.sent


def test_joints_in_another_order_move_the_right_ones():
    made = Follower(ROBOT)
    names = ("elbow", "waist", "shoulder")
    run = quintic(names, np.array([0.2, 0.0, -1.0]), np.array([0.8, 0.0, -1.0]), 3.0)
    machine = made.machine
    made.tampered = lambda s: State(names, s.q[[2, 0, 1]], s.dq[[2, 0, 1]], s.tau[[2, 0, 1]], s.stamp)
    made.run(0.2)
    motion = checked_motion("exciting", ROBOT, run, machine.where(made.now), machine.settings, machine.limits)
    assert made.do(Start(made.now, motion)).accepted
    made.until(Phase.DONE)
    assert made.desired[0] == pytest.approx([0.0, -1.0, 0.8])
    assert all(points.joint_names == ROBOT.active_names for _, _, points in made.sent)


def test_the_way_is_checked_before_anything_moves():
    def never(q):
        assert q.shape[1] == 3 and len(q) > 20
        raise InputError("it touches itself", "move away")

    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    with pytest.raises(InputError, match="touches itself"):
        checked_motion("exciting", ROBOT, run, np.array([0.0, -1.0, 0.0]), MotionSettings(), LIMITS, 0, never)
    with pytest.raises(InputError, match="no joint states"):
        checked_motion("exciting", ROBOT, run, np.array([0.0, np.nan, 0.0]), MotionSettings(), LIMITS)
    beside = np.array([0.0, 0.06, 0.0])
    for outside in (LIMITS.lower - beside, LIMITS.upper + beside):
        with pytest.raises(InputError, match=r"'shoulder' is 0\.06 outside of its limits"):
            checked_motion("exciting", ROBOT, run, outside, MotionSettings(), LIMITS)
    assert checked_motion("exciting", ROBOT, run, LIMITS.upper + 0.03, MotionSettings(), LIMITS), (
        "a little outside may come back"
    )


def test_the_way_leads_from_where_the_robot_is_to_the_first_point():
    q = np.array([0.1, -1.0, 0.2])
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0, points=4)
    motion = checked_motion("exciting", ROBOT, run, q, MotionSettings(), LIMITS, 7)
    way = motion.way.points
    assert np.array_equal(way.q[0], q) and np.array_equal(way.q[-1], run.q[0]) and motion.stops == 7
    assert not way.dq[[0, -1]].any() and not way.ddq[[0, -1]].any()
    assert motion.run.points.t[0] == way.t[0] and np.array_equal(motion.run.points.q, run.q)
    assert np.allclose(np.diff(motion.run.points.t), np.diff(run.t))


def test_another_robot_is_taken_once_the_one_that_moves_has_stopped():
    made = running()
    other = load_robot("demo3")
    made.do(RobotChanged(made.now, other))
    assert made.machine.robot is ROBOT and made.machine.phase is Phase.BRAKING
    made.until(Phase.ABORTED)
    assert made.machine.robot is other
    made.run(0.2)
    assert made.start().accepted


def test_settings_take_effect_between_motions_alone():
    made = Follower(ROBOT)
    assert made.set(stale=0.05).accepted and made.start().accepted
    made.until(Phase.RUNNING)
    for field in fields(MotionSettings):
        before = made.machine.settings
        refused = made.set(**{field.name: getattr(before, field.name) + 0.01})
        assert not refused.accepted and f"{field.name} takes effect with the next start" in refused.answer
        assert made.machine.settings is before
    made.silent, begin = True, made.now
    made.until(Phase.BRAKING)
    assert made.now - begin <= 0.059
    assert not made.set(settle=1.0).accepted, "it is still being moved"
    made.silent = False
    made.until(Phase.ABORTED)
    assert made.set(deceleration=2.0).accepted and made.set(approach_speed=0.6, tracking=0.01).accepted
    made.run(0.3)
    assert made.start().accepted
    made.until(Phase.RUNNING)
    made.droop = 0.011
    made.until(Phase.BRAKING)
    assert "more than 0.01" in made.reason


@pytest.mark.parametrize("phase", PARTS)
def test_a_goal_that_is_refused_stops_every_part_of_a_motion(phase):
    made = Follower(ROBOT)
    made.start()
    made.until(phase)
    made.do(GoalRefused(made.now, len(made.sent), "the controller gave up"))
    assert made.machine.phase is Phase.BRAKING and made.reason == "the controller gave up"


def test_an_answer_to_an_old_goal_is_nobodys_concern():
    made = running()
    made.do(GoalRefused(made.now, 1, "the approach was replaced"))
    assert made.machine.phase is Phase.RUNNING
    made.do(GoalRefused(made.now, 2, "the controller gave up"))
    assert made.machine.phase is Phase.BRAKING
    made.until(Phase.ABORTED)
    assert made.start().accepted, "it does not stick"


def test_a_stop_that_is_refused_is_sent_again_a_tenth_of_a_second_after_it_at_the_soonest():
    """A controller that refuses every stop at once must not be flooded with stops."""
    made = running()
    made.do(Stop(made.now))
    count = len(made.sent)
    made.run(0.096)
    made.do(GoalRefused(made.now, count, "refused"))
    assert len(made.sent) == count and made.machine.phase is Phase.BRAKING
    made.run(0.008)
    made.do(GoalRefused(made.now, count - 1, "refused"))
    assert len(made.sent) == count, "that is what the stop has replaced"
    made.do(GoalRefused(made.now, count, "refused"))
    assert len(made.sent) == count + 1 and made.machine.phase is Phase.BRAKING
    assert np.all(made.sent[-1][2].dq[-1] == 0.0)
    made.do(GoalRefused(made.now, count + 1, "refused"))
    assert len(made.sent) == count + 1, "the time counts from the last stop"


def test_simulated_time_that_starts_again_stops_the_robot():
    made = running()
    made.followed, made.arriving = None, []
    made.now -= 50.0
    made.step()
    assert made.machine.phase is Phase.BRAKING and "clock was set back" in made.reason
    made.until(Phase.ABORTED)


def test_a_clock_that_is_set_back_does_not_bring_the_robot_back_to_the_start():
    made = running()
    made.run(0.6)
    q, first = made.desired[0].copy(), made.sent[-1][2].q[0]
    assert np.abs(q - first).max() > 0.05, "the robot is on its way"
    made.do(ExcitationTick(made.now - 0.5))
    assert made.machine.phase is Phase.BRAKING and "clock was set back" in made.reason
    assert np.abs(made.sent[-1][2].q[-1] - q).max() < 0.25 * np.abs(q - first).max(), "it stops where it is"


def test_a_robot_without_limits_is_known_but_not_moved():
    joints = tuple(replace(j, limits=replace(j.limits, velocity=np.inf)) for j in ROBOT.joints)
    made = Follower(ROBOT)
    assert made.do(RobotChanged(made.now, replace(ROBOT, joints=joints))).accepted
    made.run(0.2)
    with pytest.raises(InputError, match=r"no velocity limit.*add it to the URDF"):
        made.machine.where(made.now)


def running(from_desired=True):
    """Return a copy of a machine whose trajectory runs."""
    if from_desired not in CACHE:
        made = Follower(ROBOT, from_desired=from_desired)
        made.running(0.6)
        CACHE[from_desired] = made
    return copied(CACHE[from_desired])


CACHE: dict[bool, Follower] = {}


def copied(made):
    return copy.deepcopy(made, {id(ROBOT): ROBOT})


def in_phase(phase):
    """Return a machine with its robot in this phase."""
    made = Follower(ROBOT)
    if phase is Phase.NO_ROBOT:
        made.machine = ExcitationMachine(MotionSettings(), MotionGate(made.publish))
        made.do(ActivateExcitation(made.now))
    elif phase is Phase.INACTIVE:
        made.do(DeactivateExcitation(made.now))
    elif phase in PAUSABLE:
        made.start()
        made.until(phase)
    elif phase in (Phase.SLOWING, Phase.PAUSED):
        made.running(0.3)
        assert made.do(Pause(made.now)).accepted
        made.until(phase)
    elif phase is Phase.JOGGING:
        made.jog("elbow", 1)
        made.run(0.1)
    elif phase is Phase.DONE:
        made.start(seconds=1.0)
        made.until(phase)
    elif phase in (Phase.BRAKING, Phase.ABORTED):
        made.start()
        made.until(Phase.RUNNING)
        made.until_moving()
        made.do(Stop(made.now))
        made.until(phase)
    assert made.machine.phase is phase
    return made


def event_of(kind, made):
    now, q = made.now, np.array([0.0, -1.0, 0.0])
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    limits = made.machine.limits or LIMITS
    q = made.measured[0]
    state = State(ROBOT.active_names, q.copy(), np.zeros(3), np.zeros(3), int(now * 1e9) + 1)
    return {
        ActivateExcitation: lambda: ActivateExcitation(now),
        DeactivateExcitation: lambda: DeactivateExcitation(now),
        RobotChanged: lambda: RobotChanged(now, load_robot("demo3")),
        ParametersChanged: lambda: ParametersChanged(now, replace(made.machine.settings)),
        Start: lambda: Start(now, checked_motion("x", ROBOT, run, q, MotionSettings(), limits, made.machine.stops)),
        Stop: lambda: Stop(now),
        Pause: lambda: Pause(now),
        Resume: lambda: Resume(now, resumed_motion(made.machine.paused, limits, MotionSettings(), made.machine.stops)),
        Jog: lambda: Jog(now, jog_motion(ROBOT, "elbow", 1, q, MotionSettings(), limits, made.machine.stops)),
        JogHeld: lambda: JogHeld(now, "elbow", 1),
        JogReleased: lambda: JogReleased(now),
        HoldBack: lambda: HoldBack(now, STOP_SET),
        OthersCommand: lambda: OthersCommand(now),
        JointStateArrived: lambda: JointStateArrived(now, state, now),
        ExcitationTick: lambda: ExcitationTick(now),
        ConnectionProblem: lambda: ConnectionProblem(now, "nobody listens"),
        GoalRefused: lambda: GoalRefused(now, len(made.sent), "refused"),
    }[kind]()


WHY_NOT = {
    Phase.INACTIVE: "the node is inactive; activate it",
    Phase.NO_ROBOT: "the robot is not known yet; publish robot_description or set the parameter robot",
    Phase.IDLE: "the node is active already; nothing is to be done",
    Phase.APPROACH: "a motion is under way (approach); wait for its end or stop it",
    Phase.SETTLE: "a motion is under way (settle); wait for its end or stop it",
    Phase.RUNNING: "a motion is under way (exciting); wait for its end or stop it",
    Phase.SLOWING: "a motion is under way (slowing); wait for its end or stop it",
    Phase.PAUSED: "a motion is paused; resume or stop it",
    Phase.JOGGING: "a motion is under way (jogging); wait for its end or stop it",
    Phase.BRAKING: "the robot is being stopped; wait until it is at rest",
    Phase.DONE: "the node is active already; nothing is to be done",
    Phase.ABORTED: "the node is active already; nothing is to be done",
}


WHY_EVENT_NOT = {
    Pause: "no motion is under way that could be paused; start one",
    Resume: "no motion is paused; pause one",
    JogHeld: "no joint is being jogged; wait until the robot is at rest",
}


def test_only_what_makes_no_sense_is_refused():
    refused = {(kind, phase) for kind in TRANSITIONS for phase in Phase if phase not in TRANSITIONS[kind]}
    wanted = {(ActivateExcitation, phase) for phase in Phase if phase is not Phase.INACTIVE}
    wanted |= {
        (k, phase) for k in (Start, Jog) for phase in Phase if phase not in (Phase.IDLE, Phase.DONE, Phase.ABORTED)
    }
    wanted |= {(Pause, phase) for phase in Phase if phase not in PAUSABLE}
    wanted |= {(Resume, phase) for phase in Phase if phase is not Phase.PAUSED}
    wanted |= {(JogHeld, phase) for phase in Phase if phase is not Phase.JOGGING}
    assert refused == wanted
    assert {phase for phases in TRANSITIONS[Start].values() for phase in phases} == {
        *TRANSITIONS[Start],
        Phase.APPROACH,
    }
    for kind in (Stop, ConnectionProblem, DeactivateExcitation, RobotChanged):
        assert all(TRANSITIONS[kind][phase] == {Phase.BRAKING} for phase in (*MOVING, Phase.BRAKING)), kind


@pytest.mark.parametrize("phase", Phase)
def test_the_table_of_events_is_what_the_machine_does(phase):
    base = in_phase(phase)
    for kind in TRANSITIONS:
        made = copied(base)
        sent = len(made.sent)
        allowed = TRANSITIONS[kind].get(phase)
        if kind is Resume and allowed is None:
            outcome = made.do(Resume(made.now, None))
        else:
            outcome = made.do(event_of(kind, made))
        if allowed is None:
            assert not outcome.accepted and not outcome.announced, (phase, kind)
            assert outcome.answer == WHY_EVENT_NOT.get(kind, WHY_NOT[phase])
            assert made.machine.phase is phase and len(made.sent) == sent
            continue
        assert outcome.accepted, (phase, kind, outcome.answer)
        assert made.machine.phase in allowed, (phase, kind)
        if made.machine.phase is Phase.BRAKING and phase is not Phase.BRAKING:
            assert len(made.sent) == sent + 1
        sends = kind in (Start, Jog, Resume, Pause) or made.machine.phase in (
            Phase.BRAKING,
            Phase.RUNNING,
            Phase.SLOWING,
        )
        if not sends:
            assert len(made.sent) == sent, "nothing else sends"


def test_patience_with_a_robot_that_does_not_rest_is_that_of_the_new_time():
    """A clock that is set back while the robot is being stopped takes no time from it and gives it none."""
    made = running()
    made.lost, begin, back = (lambda k: True), made.now, [0.0]
    made.tampered = lambda s: replace(s, q=s.q + 0.05 * (made.now + back[0] - begin))
    made.do(Stop(made.now))
    ends = made.ends
    made.run(3.0)
    assert made.machine.phase is Phase.BRAKING
    back[0], made.arriving = 50.0, []
    made.now -= 50.0
    made.until(Phase.ABORTED)
    assert "does not come to rest" in made.reason
    assert 9.9 <= made.now + 50.0 - ends <= 10.2


def test_a_robot_that_is_being_stopped_rests_in_the_new_time_of_a_clock_that_was_set_back():
    made = running()
    made.do(Stop(made.now))
    made.run(0.1)
    before, ends = len(made.sent), made.now + 0.4
    made.now -= 50.0
    made.begin -= 50.0
    made.until(Phase.ABORTED, limit=1.0)
    assert made.now + 50.0 < ends and made.reason == "stop was called" and len(made.sent) == before


@pytest.mark.parametrize("jump", [-1.0, 1.0])
def test_a_stop_is_not_aimed_at_positions_that_have_jumped(jump):
    """The encoder of a joint shows something else from now on, and every stop is lost: none leads there."""
    made = running()
    made.lost = lambda k: True
    before = len(made.sent)
    made.tampered = lambda s: replace(s, q=s.q + np.array([0.0, jump, 0.0]))
    made.until(Phase.BRAKING)
    assert "jumped" in made.reason
    made.run(2.5)
    stops = [points for _, _, points in made.sent[before:]]
    assert len(stops) >= 2, "sent again, since the robot still moves"
    for points in stops:
        assert np.abs(points.q[:, 1] - made.desired[0][1]).max() < 0.9 * abs(jump)


def test_no_stop_is_aimed_at_a_position_that_is_wrong_now_and_then_after_a_silence():
    """The first joint state after a silence may be a wrong one: how far the robot has come is not known."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        made = running()
        made.silent = True
        made.run(rng.uniform(0.1, 0.9))
        made.silent, before, count = False, len(made.sent), 0
        wrong = np.zeros(3)
        wrong[rng.integers(3)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.5)
        every = int(rng.integers(2, 25))

        def spoil(state, wrong=wrong, every=every):
            nonlocal count
            count += 1
            return replace(state, q=state.q + wrong) if count % every == 1 else state

        made.tampered = spoil
        made.run(2.0)
        for _, _, points in made.sent[before:]:
            assert np.all((points.q >= LIMITS.lower) & (points.q <= LIMITS.upper)), seed
            assert np.all(np.abs(points.q - made.desired[0]) < 0.4), seed


def pushed(made, droop, seconds=0.12):
    """Let the robot be pushed away from what is desired, shape (3,) [rad], slowly enough to be believed."""
    before, steps = made.droop, round(seconds / PERIOD)
    for k in range(1, steps + 1):
        made.droop = before + k / steps * (np.array(droop) - before)
        made.step()


def was_sent(found, wanted):
    np.testing.assert_allclose(found.t, wanted.t, atol=1e-12)
    np.testing.assert_allclose(found.q, wanted.q, atol=1e-12)
    np.testing.assert_allclose(found.dq, wanted.dq, atol=1e-12)


def on_its_way(made):
    """Return the trajectory that is followed, as a function of the machine's time: q and dq, shape (3,)."""
    sent_at, _, points = made.sent[-1]
    return lambda now: points.at(now - sent_at)[:2]


@pytest.mark.parametrize("old", [0.0, 0.048])
@pytest.mark.parametrize("no_velocities", [False, True])
def test_a_stop_begins_where_the_robot_must_be_by_now_at_the_speed_of_its_reference(old, no_velocities):
    """It counts with the error that was seen, joint by joint; a controller that tells no velocity gets dense points."""
    made = running()
    pushed(made, [0.05, -0.03, 0.02])
    made.tampered = lambda s: replace(s, dq=np.full(3, np.nan)) if no_velocities else s
    made.run(0.02)
    way, seen = on_its_way(made), made.measured[0]
    error = np.abs(seen - way(made.now)[0])
    made.silent = True
    made.run(old)
    made.do(Stop(made.now))
    q, dq = way(made.now)
    unseen = q - way(made.now - old)[0]
    assert np.all(np.abs(dq) > 0.1) and np.ptp(error) > 0.02
    stop = braking(LIMITS, seen + unseen, dq, error, 0.01, doubt=np.abs(unseen), dense=no_velocities)
    was_sent(made.sent[-1][2], stop.points)


def test_a_stop_goes_no_further_on_than_states_may_be_old():
    """States of 0.15 s ago are still good for a stop; what they say is taken for 0.1 s old at most."""
    made = running()
    made.force(tracking=0.5)
    made.tampered = lambda s: replace(s, stamp=s.stamp - 150_000_000)
    made.run(0.16)
    assert made.machine.phase is Phase.RUNNING
    way, seen = on_its_way(made), made.measured[0]
    made.do(Stop(made.now))
    (q, dq), error = way(made.now), np.abs(seen - way(made.now - 0.15)[0])
    unseen = q - way(made.now - 0.1)[0]
    wanted = braking(LIMITS, seen + unseen, dq, error, 0.01, doubt=np.abs(unseen)).points
    np.testing.assert_allclose(made.sent[-1][2].t, wanted.t)
    np.testing.assert_allclose(made.sent[-1][2].q, wanted.q, atol=1e-8)


def test_a_state_of_the_future_is_one_of_now():
    made = running()
    made.tampered = lambda s: replace(s, stamp=s.stamp + 50_000_000)
    made.run(0.1)
    (q, dq), seen = on_its_way(made)(made.now), made.measured[0]
    made.do(Stop(made.now))
    was_sent(made.sent[-1][2], braking(LIMITS, seen, dq, np.abs(seen - q), 0.01).points)


@pytest.mark.parametrize("silence", [0.104, 0.3])
def test_a_stop_without_joint_states_follows_the_reference_and_doubts_what_was_not_seen(silence):
    made = running()
    made.force(stale=silence - 0.002)
    pushed(made, [0.05, -0.03, 0.02])
    way, then = on_its_way(made), made.now
    error = np.abs(made.measured[0] - way(then)[0])
    made.silent = True
    made.until(Phase.BRAKING)
    assert made.now == pytest.approx(then + silence)
    q, dq = way(made.now)
    doubt = 0.1 + np.abs(q - way(then)[0])
    was_sent(made.sent[-1][2], braking(LIMITS, q, dq, error, 0.01, doubt=doubt).points)


def test_a_robot_off_its_reference_is_stopped_from_its_own_speed():
    """The difference of both speeds is what the controller may be off."""
    made, seen = running(), []

    def drifting(s):
        made.droop = made.droop + np.array([0.0, 0.003, 0.0])
        seen.append(s.q)
        return s

    made.tampered = drifting
    way = on_its_way(made)
    made.until(Phase.BRAKING)
    (q, dq), own = way(made.now), (seen[-1] - seen[-6]) / (5 * PERIOD)
    assert np.abs(own - dq)[1] > 0.5
    wanted = braking(LIMITS, seen[-1], own, np.abs(seen[-1] - q), 0.01, speed_error=np.abs(own - dq)).points
    np.testing.assert_allclose(made.sent[-1][2].t, wanted.t)
    np.testing.assert_allclose(made.sent[-1][2].q, wanted.q, atol=5e-4)


def test_positions_that_are_trusted_again_are_what_a_stop_begins_from():
    made = Follower(ROBOT)
    made.tampered = lambda s: replace(s, q=s.q + 0.5)
    made.step()
    made.tampered = lambda s: s
    made.run(5.2)
    made.running(0.4)
    pushed(made, [0.04, -0.03, 0.05])
    (q, dq), seen = on_its_way(made)(made.now), made.measured[0]
    made.do(Stop(made.now))
    was_sent(made.sent[-1][2], braking(LIMITS, seen, dq, np.abs(seen - q), 0.01).points)


def test_where_the_trajectory_cannot_be_begun_the_robot_is_stopped_before_it():
    """It was pushed further off the start than the controller can make up for within the limits."""
    made = Follower(ROBOT, settings=MotionSettings(settle=0.6, tracking=0.02))
    assert made.start().accepted
    made.until(Phase.SETTLE)
    made.force(tracking=2.0)
    pushed(made, [0.0, 0.3, 0.0], 0.4)
    made.until(Phase.BRAKING)
    assert "the trajectory begins 0.3 from joint 'shoulder'" in made.reason and len(made.sent) == 2
    assert np.all(made.sent[-1][2].dq == 0.0)
    made.until(Phase.ABORTED)


@pytest.mark.parametrize("phase", PARTS)
def test_a_clock_that_is_set_back_stops_every_part_of_a_motion(phase):
    made = Follower(ROBOT)
    made.start()
    made.until(phase)
    outcome = made.do(ExcitationTick(made.now - 0.5))
    assert not outcome.accepted and outcome.answer == made.reason == "the clock was set back"
    assert made.machine.phase is Phase.BRAKING and np.all(made.sent[-1][2].dq[-1] == 0.0)


def test_small_steps_back_of_a_clock_add_up():
    made = running()
    for back in (0.08, 0.16):
        assert made.do(ExcitationTick(made.now - back)).accepted and made.machine.phase is Phase.RUNNING
    assert not made.do(ExcitationTick(made.now - 0.24)).accepted
    assert made.machine.phase is Phase.BRAKING and made.reason == "the clock was set back"


def test_where_the_robot_is_is_what_it_said_last():
    made = Follower(ROBOT)
    made.tampered = lambda s: replace(s, q=s.q + 0.01 * (made.now - 100.0))
    made.run(0.1)
    np.testing.assert_allclose(made.machine.where(made.now), np.array([0.0, -1.0, 0.0]) + 0.01 * (made.now - 100.0))


@pytest.mark.parametrize("joint", range(3))
@pytest.mark.parametrize(("moved", "starts"), [(0.019, True), (-0.019, True), (0.021, False), (-0.021, False)])
def test_a_way_is_good_for_a_robot_within_two_hundredths_of_where_it_was_checked(joint, moved, starts):
    made = Follower(ROBOT)
    machine = made.machine
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    q = machine.where(made.now) - moved * np.eye(3)[joint]
    outcome = made.do(Start(made.now, checked_motion("exciting", ROBOT, run, q, machine.settings, machine.limits)))
    assert outcome.accepted == starts and ("has moved since" in outcome.answer) != starts


def test_the_whole_way_to_the_start_is_shown_to_who_checks_it():
    seen = []
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    q = np.array([0.1, -1.0, 0.5])
    motion = checked_motion("exciting", ROBOT, run, q, MotionSettings(), LIMITS, 0, seen.append)
    (way,) = seen
    np.testing.assert_array_equal(way[[0, -1]], [q, run.q[0]])
    assert len(way) >= 50 and np.all(np.diff(way, axis=0) * np.sign(run.q[0] - q) >= 0)
    points = motion.way.points
    at = np.linspace(points.t[0], points.t[-1], len(way))
    np.testing.assert_allclose(points.sampled(at)[0], way, atol=1e-9)


def test_both_parts_leave_a_controller_that_is_off_its_time():
    """The first points come so late that the tracking tolerance is made up for within the share of the limits."""
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    for tracking, share in ((0.2, 0.3), (0.05, 0.3), (0.2, 0.9)):
        settings = MotionSettings(tracking=tracking, approach_speed=share)
        motion = checked_motion("exciting", ROBOT, run, np.array([0.0, -1.0, 0.0]), settings, LIMITS)
        # velocity 1.5 d / t of 2.2 rad/s at most, acceleration 6 d / t^2 of 7 rad/s^2 at most
        ahead = max(1.5 * tracking / (share * 2.2), np.sqrt(6 * tracking / (share * 7.0)))
        for part in (motion.way, motion.run):
            assert ahead <= part.points.t[0] <= ahead + 1.1e-3
            assert part.limits is LIMITS


def test_a_trajectory_beyond_a_limit_is_refused_before_anything_moves():
    q = np.array([0.0, -1.0, 0.0])
    good = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    with pytest.raises(InputError, match="acceleration of joint 'waist' would pass its limit"):
        checked_motion("exciting", ROBOT, good, q, MotionSettings(approach_speed=1.1), LIMITS)
    for to, seconds, said in (
        ([0.6, 0.61, 0.6], 9.0, "position of joint 'shoulder'"),
        ([1.3, -1.2, 0.2], 0.5, "velocity of joint 'waist'"),
        ([0.3, -1.2, 0.4], 0.3, "acceleration of joint 'elbow'"),
    ):
        run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array(to), seconds)
        with pytest.raises(InputError, match=said):
            checked_motion("exciting", ROBOT, run, q, MotionSettings(), LIMITS)
    beyond = quintic(ROBOT.active_names, np.array([0.3, 0.62, 0.2]), np.array([0.3, 0.0, 0.2]), 9.0)
    with pytest.raises(InputError, match="position of joint 'shoulder'"):
        checked_motion("exciting", ROBOT, beyond, q, MotionSettings(), LIMITS)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("joint", range(3))
def test_a_robot_may_come_back_from_as_far_outside_as_is_tolerated(joint, side):
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    q = np.array([0.0, -1.0, 0.0])
    for outside, allowed in ((0.049, True), (0.051, False)):
        q[joint] = (LIMITS.upper if side > 0 else LIMITS.lower)[joint] + side * outside
        if allowed:
            assert checked_motion("exciting", ROBOT, run, q, MotionSettings(), LIMITS).way.limits is LIMITS
        else:
            with pytest.raises(InputError, match=rf"'{ROBOT.active_names[joint]}' is 0\.051 outside"):
                checked_motion("exciting", ROBOT, run, q, MotionSettings(), LIMITS)


def test_a_stop_while_the_robot_is_being_stopped_voids_a_start_that_is_prepared():
    made = running()
    made.do(Stop(made.now))
    made.run(0.15)
    machine = made.machine
    assert machine.phase is Phase.BRAKING
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    motion = checked_motion("x", ROBOT, run, made.desired[0], machine.settings, machine.limits, machine.stops)
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    assert "stop was called while" in made.do(Start(made.now, motion)).answer


def test_the_last_of_several_robots_is_the_one_that_is_taken():
    made, first, second, third = running(), replace(ROBOT), replace(ROBOT), replace(ROBOT)
    made.do(RobotChanged(made.now, first))
    made.do(RobotChanged(made.now, second))
    made.until(Phase.ABORTED)
    assert made.machine.robot is second
    made.do(RobotChanged(made.now, third))
    assert made.machine.robot is third and made.machine.phase is Phase.IDLE
    made.run(0.3)
    made.running(0.2)
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    assert made.machine.robot is third


def test_a_robot_with_limits_can_follow_one_without():
    made = Follower(ROBOT)
    joints = tuple(replace(j, limits=replace(j.limits, velocity=np.inf)) for j in ROBOT.joints)
    made.do(RobotChanged(made.now, replace(ROBOT, joints=joints)))
    made.run(0.1)
    assert made.machine.unknown(made.now) == "the robot or its limits are not known" and not made.machine.at_rest
    made.do(RobotChanged(made.now, ROBOT))
    made.run(0.3)
    assert made.start().accepted


def test_another_deceleration_holds_for_the_next_stop():
    joints = tuple(replace(j, limits=replace(j.limits, acceleration=np.inf)) for j in ROBOT.joints)
    made = Follower(replace(ROBOT, joints=joints))
    for deceleration in (5.0, 2.0, 9.0):
        made.set(deceleration=deceleration)
        made.run(0.2)
        made.running(0.3)
        sent_at, _, points = made.sent[-1]
        dq = points.at(made.now - sent_at)[1]
        made.do(Stop(made.now))
        T = made.sent[-1][2].duration
        # the lead of 10 ms may be off by its way: a T^2 - |dq| T - 6 |dq| 0.01 = 0
        top = np.abs(dq).max()
        assert deceleration * T**2 - top * T - 0.06 * top == pytest.approx(0.0, abs=0.01)
        made.until(Phase.ABORTED)


def test_states_are_put_in_the_order_of_the_robots_joints():
    made = Follower(ROBOT)
    names = ("elbow", "waist", "shoulder")
    state = State(names, np.array([0.002, 0.001, -1.001]), np.array([3.0, 1.0, 2.0]), np.array([6.0, 4.0, 5.0]), 7)
    made.do(JointStateArrived(made.now + PERIOD, state, made.now + PERIOD))
    np.testing.assert_array_equal(made.machine.where(made.now + PERIOD), [0.001, -1.001, 0.002])


@pytest.mark.parametrize("end", [1.9, 2.1])
def test_a_robot_has_two_seconds_to_rest_at_the_end_of_its_trajectory(end):
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.5))
    assert made.start().accepted
    made.until(Phase.RUNNING)
    ends = made.ends
    made.tampered = lambda s: setattr(made, "droop", made.droop + (1e-4 if made.now < ends + end else 0.0)) or s
    made.until(Phase.DONE, Phase.BRAKING)
    assert made.machine.phase is (Phase.DONE if end < 2 else Phase.BRAKING)
    if end > 2:
        assert 2.0 < made.now - ends < 2.01 and "does not come to rest at the end" in made.reason


def test_a_start_after_a_delay_says_when_the_trajectory_begins():
    made = Follower(ROBOT, settings=MotionSettings(settle=0.7, tracking=0.1, delay=1.5))
    said = float(made.start().answer.split()[-2])
    way = made.sent[-1][2]
    assert said == pytest.approx(1.5 + way.duration + 0.7, abs=0.051)
    made.until(Phase.SETTLE)
    assert made.now - 100.3 == pytest.approx(1.5 + way.duration, abs=2 * PERIOD)
    made.until(Phase.RUNNING)
    made.run(1.4)
    np.testing.assert_allclose(made.desired[0], [0.3, -1.2, 0.2], atol=1e-9)
    assert made.machine.phase is Phase.RUNNING, "the trajectory waits as long, and is expected to"
    made.until(Phase.DONE)


def test_a_state_that_is_too_old_is_not_judged_by_what_it_says():
    made = running()
    made.tampered = lambda s: replace(s, q=s.q + 0.15, stamp=s.stamp - 250_000_000)
    made.until(Phase.BRAKING)
    assert made.reason == "the joint states come 0.250 s late"


@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize(("joint", "side"), [(0, 1.0), (1, -1.0), (2, 1.0)])
def test_a_stop_is_sent_again_once_the_robot_is_further_off_than_it_may_be(unseen, joint, side):
    """By 0.05 rad beside the error that was seen, and beside all that is in doubt if nothing was."""
    base = running()
    pushed(base, [0.02, -0.03, 0.04])
    way, then = on_its_way(base), base.now
    error = np.abs(base.measured[0] - way(then)[0])
    if unseen:
        base.silent = True
        base.until(Phase.BRAKING)
    else:
        base.do(Stop(base.now))
    doubt = unseen * (0.1 + np.abs(way(base.now)[0] - way(then)[0]))
    most = np.max(error + doubt) + 0.05
    for off, again in ((most - 0.012, False), (most + 0.012, True)):
        made = copied(base)
        made.silent = False
        count, away = len(made.sent), off * side * np.eye(3)[joint]
        if unseen:
            made.droop = away
        pushed(made, away, 0.08)
        assert len(made.sent) == count, "it has a tenth of a second to come"
        made.run(0.06)
        assert (len(made.sent) > count) == again


@pytest.mark.parametrize("jump", [-1.0, 1.0])
def test_positions_that_have_jumped_do_not_show_that_a_stop_was_lost(jump):
    made = running()
    before = len(made.sent)
    made.tampered = lambda s: replace(s, q=s.q + np.array([0.0, jump, 0.0]))
    made.until(Phase.ABORTED)
    assert len(made.sent) == before + 1 and np.all(made.desired[1] == 0.0)
    assert "joint shoulder jumped by" in made.reason


def test_a_way_that_begins_too_far_off_for_its_first_point_is_not_sent():
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=1e-3))
    machine = made.machine
    run = quintic(ROBOT.active_names, np.array([0.3, -1.2, 0.2]), np.array([0.6, -0.8, 0.6]), 2.0)
    q = machine.where(made.now) - np.array([0.0, 0.019, 0.0])
    refused = made.do(Start(made.now, checked_motion("exciting", ROBOT, run, q, machine.settings, machine.limits)))
    assert not refused.accepted and "begins 0.019 from joint 'shoulder'" in refused.answer and not made.sent
    assert machine.phase is Phase.IDLE


def test_a_stop_is_over_when_the_robot_is_seen_to_have_had_its_time():
    made = Follower(ROBOT, settings=MotionSettings(settle=0.1, tracking=0.5))
    made.start(seconds=4.0)
    made.until(Phase.RUNNING)
    made.tampered = lambda s: replace(s, stamp=s.stamp - 80_000_000)
    made.run(0.3)
    made.do(Stop(made.now))
    ends = made.ends
    made.until(Phase.ABORTED)
    assert made.now - ends >= 0.08 - 1e-6


def test_a_robot_that_has_just_appeared_is_not_started():
    """It may move: a tenth of a second of joint states shows that it rests."""
    made = Follower(ROBOT)
    made.do(RobotChanged(made.now, ROBOT))
    made.run(0.08)
    assert not made.machine.unknown(made.now) and not made.machine.at_rest
    refused = made.start()
    assert not refused.accepted and "has not been seen for long enough" in refused.answer and not made.sent
    made.run(0.04)
    assert made.machine.at_rest and made.start().accepted


@pytest.mark.parametrize("first", [DeactivateExcitation, RobotChanged])
def test_a_robot_that_changes_while_the_node_is_deactivated_is_there_when_it_is_active_again(first):
    made, other = running(), replace(ROBOT)
    for kind in (first, RobotChanged if first is DeactivateExcitation else DeactivateExcitation):
        made.do(kind(made.now) if kind is DeactivateExcitation else kind(made.now, other))
        assert made.machine.phase is Phase.BRAKING
    made.until(Phase.INACTIVE, limit=2.0)
    assert made.machine.robot is other and [a.phase for a in made.announced[-2:]] == [Phase.ABORTED, Phase.INACTIVE]
    made.run(0.3)
    made.do(ActivateExcitation(made.now))
    assert made.machine.phase is Phase.IDLE and made.start().accepted
    made.until(Phase.RUNNING)
    made.do(Stop(made.now))
    made.until(Phase.ABORTED)
    made.run(0.1)
    assert made.machine.phase is Phase.ABORTED, "a stop deactivates nothing"


@pytest.mark.parametrize("phase", PARTS)
def test_what_is_wrong_stops_every_part_of_a_motion(phase):
    base = Follower(ROBOT, settings=MotionSettings(settle=0.5, tracking=0.1))
    base.start()
    base.until(phase)
    base.run(0.02)
    for trouble, said in (
        (lambda made: setattr(made, "silent", True), "no joint state for 0.10"),
        (frozen, "repeated the same stamp"),
        (add(1, np.nan), "shoulder: its position is not a number"),
        (add(2, -0.5), "elbow jumped by 0.5"),
        (far_off, "elbow is 0.10. off its reference"),
    ):
        made = copied(base)
        trouble(made)
        made.run(0.24)
        assert made.machine.phase is Phase.BRAKING and re.search(said, made.reason), (phase, said)
        assert len(made.sent) >= len(base.sent) + 1


def test_a_stop_says_what_moves_though_it_moves_nothing():
    """Somebody else moves the elbow at 0.7 rad/s; then joint states are missing; then the node is inactive."""
    made = Follower(ROBOT)
    names, begin = ROBOT.active_names, made.now
    for k in range(200):
        made.now = begin + 0.004 * (k + 1)
        q = np.array([0.0, -1.0, 0.0028 * k])
        state = State(names, q, np.array([0.0, 0.0, 0.7]), np.zeros(3), round(1e9 * made.now))
        made.do(JointStateArrived(made.now, state, made.now))
    answer = made.do(Stop(made.now)).answer
    assert answer == "nothing was moved by the excitation, but joint 'elbow' moves at 0.7 rad/s: stop who moves it"
    made.now += 1.0
    assert "whether the robot moves is not known: no joint state" in made.do(Stop(made.now)).answer
    made.do(DeactivateExcitation(made.now))
    assert made.do(Stop(made.now)).answer == "nothing was moved by the excitation"
    assert not made.sent
