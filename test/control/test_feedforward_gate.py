# SPDX-License-Identifier: Apache-2.0

"""What the feedforward follows or passes on has passed the motion gate; a stop ends it and says what moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from feedforward_fuzz import BARE, CHI, NAMES, ROBOT, arrived, later
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    AskFiller,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardTick,
    NewDescription,
    NewModel,
    NewReference,
    StopFeedforward,
    StreamedPoint,
    UnreadableReference,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Limits

HERE, STILL, UNIT = np.array([0.2, -0.8, 0.4]), np.zeros(3), np.eye(3)
LIMITS = [joint.limits for joint in ROBOT.joints]
GOOD = quintic(NAMES, HERE, HERE + 0.4, 1.0)


class Run:
    """A machine of demo3 at HERE, its clock, and the last torque."""

    def __init__(self, *, stream, robot=ROBOT, **settings):
        self.machine = FeedforwardMachine(FeedforwardSettings(hold=False, **settings), stream)
        self.now, self.stamp, self.tau = 1.0, 0, None
        for event in (later(NewDescription, robot), later(NewModel, BARE, CHI, "base_parameters"), ActivateFeedforward):
            assert not self.give(event).refused
        self.see()

    def give(self, make):
        outcome = self.machine.handle(make(self.now))
        self.tau = self.tau if outcome.torque is None else outcome.torque.tau
        return outcome

    def see(self, q=HERE, dq=STILL):
        self.stamp += 1
        self.give(arrived(NAMES, q, dq, self.stamp))

    def run(self, seconds, q=HERE, dq=STILL, point=None):
        for _ in range(round(500 * seconds)):
            self.now += 0.002
            self.see(q, dq)
            if point is not None:
                assert not self.give(later(StreamedPoint, NAMES, *point)).refused
            self.give(FeedforwardTick)

    @property
    def state(self):
        return self.machine.state


def moved(**changes):
    """Return the good trajectory with other values."""
    values = {"t": GOOD.t, "q": GOOD.q, "dq": GOOD.dq, "ddq": GOOD.ddq} | changes
    return reference(NAMES, *values.values())


def beyond_by(kind):
    """Return a trajectory from HERE that passes one limit of the elbow, and by how much."""
    elbow, to = LIMITS[2], HERE.copy()
    if kind == "position":
        to[2] = elbow.upper + 0.1
        return quintic(NAMES, HERE, to, 5.0), 0.1
    to[2] += 1.0
    if kind == "velocity":
        T = 1.875 / (1.3 * elbow.velocity)
        return quintic(NAMES, HERE, to, T), 0.3 * elbow.velocity
    to[2] = HERE[2] + 0.2
    T = np.sqrt(5.7735 * 0.2 / (1.3 * elbow.acceleration))
    return quintic(NAMES, HERE, to, T), 0.3 * elbow.acceleration


BAD = {
    "position": (beyond_by("position")[0], "position of joint 'elbow' would pass its limit by 0.1"),
    "velocity": (beyond_by("velocity")[0], "velocity of joint 'elbow' would pass its limit by 0."),
    "acceleration": (beyond_by("acceleration")[0], "acceleration of joint 'elbow' would pass its limit by 3."),
    "every limit": (quintic(NAMES, HERE, np.array([3.7, 1.6, 3.0]), 0.4), "joint 'waist' would pass its limit by 1"),
    "end velocity": (moved(dq=np.vstack((GOOD.dq[:-1], [[3.0, 0, 0]]))), "does not end at rest"),
    "no velocities": (moved(dq=None, ddq=None), "no velocities"),
    "jump at the start": (quintic(NAMES, HERE + 0.5 * UNIT[2], HERE, 2.0), "begins 0.5 from joint 'elbow'"),
    "moving start": (
        reference(NAMES, np.array([0.0, 2.0]), np.array([HERE, HERE + 1]), np.array([np.ones(3), STILL])),
        "begins with a speed 1 apart from that of joint",
    ),
    "swapped joints": (replace(GOOD, joint_names=("elbow", "shoulder", "waist")), "begins 0.2 from joint 'waist'"),
    "unknown joints": (replace(GOOD, joint_names=("a", "b", "c")), "lacks 'waist'"),
    "past": (GOOD, "lies in the past"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", BAD)
def test_a_trajectory_that_does_not_pass_is_refused_and_nothing_leaves(kind, stream):
    points, words = BAD[kind]
    run = Run(stream=stream)
    outcome = run.give(later(NewReference, points, run.now - (5.0 if kind == "past" else 0.0)))
    assert words in outcome.refused and "\n" not in outcome.refused
    assert outcome.trajectory is None and outcome.torque is None and run.state is FeedforwardState.WAITING
    run.run(0.1)
    assert run.tau is None
    good = run.give(later(NewReference, GOOD, run.now))
    assert not good.refused and (good.torque if stream else good.trajectory) is not None


@pytest.mark.parametrize("stream", [False, True])
def test_more_effort_than_there_is_is_refused(stream):
    weak = replace(
        ROBOT, joints=tuple(replace(joint, limits=replace(joint.limits, effort=50.0)) for joint in ROBOT.joints)
    )
    run = Run(stream=stream, robot=weak)
    way = quintic(NAMES, HERE, np.array([0.2, -0.05, 0.0]), 1.0)
    refused = run.give(later(NewReference, way, run.now)).refused
    assert refused.startswith("the effort of joint 'shoulder' would pass its limit by ")
    need = gravity_torque(ROBOT, CHI, way.q[-1:])[0][1]
    assert float(refused.split(" by ")[1].split(";")[0]) >= abs(need) - 50.0 - 1e-2


def test_the_filler_passes_the_same_gate_but_may_begin_elsewhere():
    filler = Run(stream=False).give(AskFiller).filler
    for kind in ("position", "velocity", "acceleration", "end velocity", "no velocities", "unknown joints"):
        points, words = BAD[kind]
        with pytest.raises(InputError, match=words.replace(".", r"\.")):
            filler.filled(points)
    assert filler.filled(BAD["jump at the start"][0]).tau is not None, "the robot may be brought there before"


@pytest.mark.parametrize("stream", [False, True])
def test_a_robot_that_is_not_seen_follows_nothing(stream):
    for wait, dead in ((0.05, False), (0.2, True)):
        run = Run(stream=stream)
        run.now += wait
        assert ("position of the robot is not known" in run.give(later(NewReference, GOOD, run.now)).refused) is dead


def test_a_controller_may_take_its_time_to_the_first_point():
    """From 0.3 rad away by a cubic: 6 d / t1^2 and 1.5 d / t1 within the limits."""
    away = HERE + np.array([0.3, 0.0, 0.0])
    for t1, passes in ((0.6, True), (0.4, False)):
        run = Run(stream=False)
        way = quintic(NAMES, away, HERE, 2.0).shifted(t1)
        outcome = run.give(later(NewReference, way, run.now))
        assert bool(outcome.trajectory) is passes
        assert passes or "the way to the reference's start: the acceleration of joint 'waist'" in outcome.refused
        ahead = Run(stream=False).give(later(NewReference, quintic(NAMES, away, HERE, 2.0), 1.0 + t1))
        assert bool(ahead.trajectory) is passes, "the same by a stamp"


def test_a_trajectory_stamped_ahead_is_checked_where_the_robot_is_when_it_begins():
    for drift, begins in ((0.05, True), (0.2, False)):
        run = Run(stream=True)
        assert not run.give(later(NewReference, GOOD, run.now + 0.2)).refused
        for share in np.linspace(0.0, 1.0, 110):
            run.run(0.002, q=HERE + share * drift)
        assert (run.state is FeedforwardState.FOLLOWING) is begins
        said = [news.text for news in run.machine.news() if news.warning]
        assert begins or "the reference begins 0.18" in said[0]


STREAMED = {
    "position": ((HERE + 1.5 * UNIT[1], STILL, STILL), "position of joint 'shoulder' would pass its limit by 0.1"),
    "velocity": ((HERE, np.array([0, 0, -3.3]), STILL), "velocity of joint 'elbow' would pass its limit by 0.3"),
    "acceleration": ((HERE, STILL, np.array([9.0, 0, 0])), "acceleration of joint 'waist' would pass its limit by 1;"),
    "nan": ((HERE * [1, np.nan, 1], STILL, STILL), "position of joint 'shoulder' is not finite"),
    "infinite": ((HERE, STILL, np.array([0, 0, np.inf])), "acceleration of joint 'elbow' is not finite"),
    "jump": ((HERE + 0.45 * UNIT[0], STILL, STILL), "joint 'waist'"),
}


@pytest.mark.parametrize("kind", STREAMED)
def test_a_streamed_point_that_does_not_pass_is_refused_and_the_stream_ends_in_gravity(kind):
    point, words = STREAMED[kind]
    run = Run(stream=True)
    first = run.give(later(StreamedPoint, NAMES, *point))
    assert words in first.refused and run.tau is None and run.state is FeedforwardState.WAITING
    run.run(0.2, point=(HERE, STILL, np.array([2.0, 1.0, 3.0])))
    before = run.tau
    run.now += 0.002
    outcome = run.give(later(StreamedPoint, NAMES, *point))
    assert words in outcome.refused and outcome.torque is None and run.state is FeedforwardState.FADING
    run.run(0.5)
    np.testing.assert_allclose(run.tau, gravity_torque(ROBOT, CHI, HERE[None])[0], atol=1e-9)
    assert np.abs(before - run.tau).max() > 1.0


def test_a_stream_may_be_as_fast_as_the_limits_and_jitter_but_not_creep_faster():
    speed, points = np.array([2.4, 0.0, 0.0]), []
    for k, late in enumerate(np.tile([0.0, 0.0, 0.0, 0.03, 0.0], 40)):
        points.append((2e-3 * k + late, HERE + speed * 2e-3 * k))
    run = Run(stream=True)
    begin, q = run.now, HERE
    for arrives, q in sorted(points, key=lambda point: point[0]):
        run.now = begin + arrives
        run.see(q, speed)
        if abs(q[0] - HERE[0]) < 0.8:
            assert not run.give(later(StreamedPoint, NAMES, q, speed, STILL)).refused
    creeping = Run(stream=True)
    refused = ""
    for k in range(200):  # 5 rad/s though the points claim to rest
        creeping.now += 2e-3
        creeping.see(HERE + 0.01 * k * UNIT[0])
        refused = refused or creeping.give(later(StreamedPoint, NAMES, HERE + 0.01 * k * UNIT[0], STILL, STILL)).refused
    assert "the stream's position of joint 'waist' jumps" in refused


def test_whatever_is_refused_ends_what_was_followed():
    for refused in (
        later(NewReference, BAD["position"][0], 1.2),
        later(StreamedPoint, ("a", "b", "c"), HERE, STILL, STILL),
        later(UnreadableReference, "positions hold a value that is not finite; correct the trajectory"),
    ):
        run = Run(stream=True)
        run.give(later(NewReference, GOOD, run.now))
        run.run(0.2)
        assert run.state is FeedforwardState.FOLLOWING
        assert run.give(refused).refused and run.state is FeedforwardState.FADING
        run.run(0.5)
        np.testing.assert_allclose(run.tau, gravity_torque(ROBOT, CHI, HERE[None])[0], atol=1e-9)


@pytest.mark.parametrize("stream", [False, True])
def test_without_limits_of_motion_nothing_but_the_start_and_the_end_is_checked(stream):
    free = replace(ROBOT, joints=tuple(replace(j, limits=Limits(effort=1e4)) for j in ROBOT.joints))
    for kind, (points, words) in BAD.items():
        if kind in ("position", "velocity", "acceleration", "every limit"):
            run = Run(stream=stream, robot=free)
            assert not run.give(later(NewReference, points, run.now)).refused
        elif kind not in ("past", "moving start"):
            run = Run(stream=stream, robot=free)
            assert words in run.give(later(NewReference, points, run.now)).refused


def test_limits_of_the_model_count_where_the_description_has_none():
    bare = Run(stream=False, robot=replace(BARE, joints=tuple(
        replace(joint, limits=Limits(effort=own.effort)) for joint, own in zip(BARE.joints, LIMITS, strict=True)
    )))  # fmt: skip
    points = BAD["position"][0]
    assert not bare.give(later(NewReference, points, bare.now)).refused
    assert not bare.give(later(NewModel, ROBOT, CHI, "model.yaml")).refused
    assert "would pass its limit" in bare.give(later(NewReference, points, bare.now)).refused


# --- stop


def test_a_stop_brakes_what_was_passed_on_within_the_limits_and_says_how_fast_it_was():
    run = Run(stream=False)
    way = quintic(NAMES, HERE, HERE + np.array([1.5, 0.5, -1.2]), 1.2)
    run.give(later(NewReference, way, run.now))
    q, dq, _, _ = way.at(0.5)
    run.now += 0.5
    run.see(q + 0.01, dq)
    outcome = run.give(StopFeedforward)
    assert outcome.answer == f"braking: joint 'waist' moves at {abs(dq[0]):.2g} rad/s"
    stop = outcome.trajectory
    assert not stop.dq[-1].any() and stop.tau is not None and stop.duration < 1.0
    decel = np.abs(dq) / stop.duration
    assert np.all(decel <= [1.02 * x.acceleration for x in LIMITS])
    low, high = np.array([x.lower for x in LIMITS]), np.array([x.upper for x in LIMITS])
    assert np.all((stop.q >= low) & (stop.q <= high))
    assert "was stopped" in run.give(later(NewReference, quintic(NAMES, q + 0.01, HERE, 2.0), run.now)).refused
    run.see(q + 0.1)
    assert run.give(StopFeedforward).answer == "nothing was moved by the feedforward: the robot was at rest"
    for event in (DeactivateFeedforward, ActivateFeedforward):
        run.give(event)
    run.see(HERE)
    assert run.give(later(NewReference, GOOD, run.now)).trajectory is not None


@pytest.mark.parametrize("follow", ["points", "trajectory"])
def test_a_stop_of_streamed_torques_goes_over_to_gravity_and_holds(follow):
    run = Run(stream=True)
    moving = np.array([0.0, 0.0, 0.7])
    if follow == "points":
        run.run(0.1, dq=moving, point=(HERE, moving, STILL))
    else:
        run.give(later(NewReference, GOOD, run.now))
        run.run(0.1, dq=moving)
    assert run.give(StopFeedforward).answer == "going over to gravity: joint 'elbow' moves at 0.7 rad/s"
    for _ in range(300):  # the sender goes on
        run.now += 0.002
        run.see()
        assert "was stopped" in run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL)).refused
        run.give(FeedforwardTick)
    assert run.state is FeedforwardState.HOLDING
    np.testing.assert_allclose(run.tau, gravity_torque(ROBOT, CHI, HERE[None])[0], atol=1e-9)
    assert "stopped" in run.machine.status.remark


def test_a_stop_says_the_truth_where_it_moves_nothing():
    stopped = FeedforwardMachine()
    assert stopped.handle(StopFeedforward(0.0)).answer == "nothing was moved by the feedforward: it is not active"
    run = Run(stream=True)
    run.see(dq=np.array([0.7, 0.0, 0.0]))
    assert "joint 'waist' moves at 0.7 rad/s" in run.give(StopFeedforward).answer
    run.now += 1.0
    assert "not known" in run.give(StopFeedforward).answer
    other = Run(stream=False)  # somebody else moves it: a stop is a stop
    other.see(dq=np.array([0.7, 0.0, 0.0]))
    outcome = other.give(StopFeedforward)
    assert outcome.answer == "braking: joint 'waist' moves at 0.7 rad/s" and not outcome.trajectory.dq[-1].any()
