# SPDX-License-Identifier: Apache-2.0

"""The feedforward's state machine: every event in every state, and what must hold whatever comes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from feedforward_fuzz import BARE, CHI, LONGER, NAMES, OTHER, ROBOT, SILENT, arrived, fuzz, later
from ros2_dynid.control.feedforward import FeedforwardModel, FeedforwardOptions, complete_torque
from ros2_dynid.control.feedforward_events import (
    SENDING,
    TRANSITIONS,
    ActivateFeedforward,
    AskFiller,
    Background,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardStatus,
    FeedforwardTick,
    MeasuredTemperature,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    OptionsChanged,
    OutputChanged,
    StopFeedforward,
    StreamedPoint,
    UnreadableReference,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.control.stop_switch import STOP_SET, HoldBack
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Limits

HERE, STILL = np.array([0.2, -0.8, 0.4]), np.zeros(3)
NEARBY = HERE + np.array([-0.09, 0.08, -0.07])
"""A reference may begin here, though gravity is another one than where the robot is."""
FREE = replace(
    ROBOT,
    joints=tuple(replace(joint, limits=Limits(effort=joint.limits.effort)) for joint in ROBOT.joints),
)
"""The robot with no limits but those of effort, for torques that a motion within its limits does not need."""
DESCRIBED, MODEL = later(NewDescription, ROBOT), later(NewModel, BARE, CHI, "base_parameters")
WAY = quintic(NAMES, HERE, np.array([0.7, -0.3, 0.9]), 1.0)
LOAD = Load(3.0, np.array([0.0, 0.3, 0.0]), 0.01 * np.eye(3), 3)


def gravity(q=HERE, chi=CHI):
    return gravity_torque(ROBOT, chi, q[None])[0]


class Run:
    """A machine with a clock of its own, and all the torques that it sent."""

    def __init__(self, *events, settings=None, stream=True):
        settings = settings or FeedforwardSettings(hold=False)
        self.machine = FeedforwardMachine(settings, stream)
        self.now, self.stamp, self.sent = 1.0, 0, []
        for event in events:
            assert not self.give(event).refused

    def give(self, make, after=0.0):
        self.now += after
        event = make(self.now)
        outcome = self.machine.handle(event)
        if outcome.torque is not None:
            self.sent.append(outcome.torque.tau)
        return outcome

    def see(self, q=HERE, dq=STILL):
        self.stamp += 1
        return self.give(arrived(NAMES, q, dq, self.stamp))

    def run(self, seconds, q=HERE, point=None):
        """Let time pass at 1 kHz with fresh states at q (None: no states), and a streamed point each time if given."""
        for _ in range(round(1000 * seconds)):
            self.now += 1e-3
            if q is not None:
                self.see(q)
            if point is not None:
                self.give(later(StreamedPoint, NAMES, *point))
            if self.now >= self.machine.due:
                self.give(FeedforwardTick)
        return self

    @property
    def state(self):
        return self.machine.state

    def words(self):
        return " | ".join(news.text for news in self.machine.news())

    def biggest_step(self):
        return np.abs(np.diff(np.array(self.sent), axis=0)).max()


def ready(robot=ROBOT, **more):
    run = Run(later(NewDescription, robot), MODEL, ActivateFeedforward, **more)
    run.see()
    return run


def until_it_has_ended(run):
    """Yield while an ending lasts, a thousand times at most."""
    return itertools.takewhile(lambda _: run.state is FeedforwardState.ENDING, range(1000))


def in_state(state):
    """Return a machine in this state, by a way that a user could take."""
    if state is FeedforwardState.STOPPED:
        return Run(DESCRIBED, MODEL)
    if state is FeedforwardState.NO_MODEL:
        return Run(DESCRIBED, ActivateFeedforward)
    if state is FeedforwardState.NO_LIMITS:
        return Run(MODEL, ActivateFeedforward)
    if state is FeedforwardState.UNDECLARED:
        return Run(later(NewDescription, SILENT), later(NewModel, SILENT, CHI, "base_parameters"), ActivateFeedforward)
    run = ready()
    if state is FeedforwardState.FOLLOWING:
        run.give(later(NewReference, WAY, run.now))
    elif state is not FeedforwardState.WAITING:
        run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL))
        if state in (FeedforwardState.FADING, FeedforwardState.HOLDING):
            run.run(0.1 if state is FeedforwardState.FADING else 0.5)
        elif state is FeedforwardState.ENDING:
            run.give(DeactivateFeedforward)
    return run


EVENTS = {
    NewModel: MODEL,
    NewPayload: later(NewPayload, LOAD),
    NewDescription: DESCRIBED,
    NewReference: None,  # it depends on the time
    StreamedPoint: later(StreamedPoint, NAMES, HERE, STILL, STILL),
    JointStateArrived: arrived(NAMES, HERE, STILL, 10**9),
    MeasuredTemperature: later(MeasuredTemperature, NAMES, np.array([30.0, 40.0, 50.0])),
    FeedforwardTick: FeedforwardTick,
    Background: Background,
    AskFiller: AskFiller,
    OptionsChanged: later(OptionsChanged, FeedforwardSettings(period=2e-3, hold=False)),
    OutputChanged: later(OutputChanged, False),
    StopFeedforward: StopFeedforward,
    HoldBack: later(HoldBack, STOP_SET),
    UnreadableReference: later(UnreadableReference, "it holds NaN; send numbers"),
    ActivateFeedforward: ActivateFeedforward,
    DeactivateFeedforward: DeactivateFeedforward,
}
S = FeedforwardState
LEADS = {
    (S.NO_LIMITS, NewDescription): S.WAITING,
    (S.UNDECLARED, NewDescription): S.WAITING,
    (S.UNDECLARED, NewModel): S.WAITING,
    (S.NO_MODEL, NewModel): S.WAITING,
    (S.STOPPED, ActivateFeedforward): S.WAITING,
    **{(state, NewReference): S.FOLLOWING for state in (S.WAITING, S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING)},
    **{(state, StreamedPoint): S.STREAMING for state in (S.WAITING, S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING)},
    **{
        (state, kind): S.FADING
        for state in (S.FOLLOWING, S.STREAMING)
        for kind in (StopFeedforward, UnreadableReference)
    },
    **{(state, OutputChanged): S.ENDING for state in (S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING)},
    **{(state, DeactivateFeedforward): S.ENDING for state in (S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING, S.ENDING)},
    **{(state, DeactivateFeedforward): S.STOPPED for state in (S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED, S.WAITING)},
}
"""Where an event leads at once; where it is not here the state stays."""


REFUSED = {
    NewPayload: {S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED},
    AskFiller: {S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED},
    NewReference: {S.STOPPED, S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED, S.ENDING},
    StreamedPoint: {S.STOPPED, S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED, S.ENDING},
    ActivateFeedforward: {S.ENDING},
    UnreadableReference: set(S),
}
"""Where an event is refused."""


def test_the_table_has_every_event():
    assert set(TRANSITIONS) == set(EVENTS)


@pytest.mark.parametrize("state", FeedforwardState)
def test_every_event_in_every_state(state):
    for kind, event in EVENTS.items():
        run = in_state(state)
        assert run.state is state
        outcome = run.give(event if event is not None else later(NewReference, WAY, run.now))
        refused = state in REFUSED.get(kind, ())
        assert refused == bool(outcome.refused), (state, kind, outcome.refused)
        if kind is not UnreadableReference:
            assert refused == (state not in TRANSITIONS[kind])
        if outcome.refused:
            assert "; " in outcome.refused and "\n" not in outcome.refused
        assert run.state is LEADS.get((state, kind), state), (kind, run.state)
        allowed = state in SENDING or run.state in SENDING
        assert (outcome.torque is None) or allowed


def test_streamed_points_are_answered_with_the_models_torque():
    rng = np.random.default_rng(0)
    run = ready(settings=FeedforwardSettings(FeedforwardOptions(smoothing=1e-6), hold=False))
    for k in range(20):
        q, dq, ddq = HERE + 1e-3 * k, rng.uniform(0.1, 0.101, 3), rng.uniform(0, 0.01, 3)
        tau = run.give(later(StreamedPoint, NAMES, q, dq, ddq), 1e-3).torque.tau
        assert np.allclose(tau, inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-9)


def test_before_the_first_reference_it_holds_against_gravity_if_it_is_to():
    for hold in (True, False):
        run = Run(DESCRIBED, MODEL, ActivateFeedforward, settings=FeedforwardSettings(hold=hold))
        run.run(0.05, q=None)
        assert not run.sent, "where the robot is nobody knows"
        run.run(0.05)
        assert bool(run.sent) == hold
        if hold:
            assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[0], gravity()), (
                "at once: less would let it fall"
            )
    trajectory = Run(DESCRIBED, MODEL, ActivateFeedforward, settings=FeedforwardSettings(hold=True), stream=False)
    assert not trajectory.run(0.1).sent


def test_when_the_reference_stops_it_ramps_to_gravity_where_the_robot_is_and_says_so():
    run = ready()
    run.give(later(NewReference, WAY, run.now))
    run.run(1.5)
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity())
    after = Run.biggest_step(run)
    assert after < 0.02 * np.abs(run.sent[-1]).max() + 0.1
    assert "the reference has stopped" in run.words()


def test_each_time_that_a_state_begins_it_is_said_and_what_is_wrong_once_in_each():
    run = ready()
    run.words()
    bad = arrived(NAMES, np.array([0.2, np.nan, 0.4]), STILL, 7)
    for _ in range(2):
        run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL))
        for _ in range(3):
            run.give(bad)
        run.run(0.6)
        words = run.words()
        for text in (
            "following streamed points",
            "the reference has stopped",
            "holding against gravity",
            "not a number",
        ):
            assert words.count(text) == 1, words


def test_a_trajectory_is_followed_in_time_and_one_stamped_ahead_waits():
    run = ready(settings=FeedforwardSettings(FeedforwardOptions(smoothing=1e-6), hold=False))
    run.give(later(NewReference, WAY, run.now + 0.2))
    run.run(0.15)
    assert run.state is FeedforwardState.WAITING and not run.sent
    begin = run.now + 0.05
    run.run(0.45)
    q, dq, ddq, _ = WAY.at(run.now - begin)
    assert np.allclose(run.sent[-1], inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-6)
    outcome = run.give(later(NewReference, WAY, run.now - 5.0))
    assert "past" in outcome.refused and run.state is FeedforwardState.FADING
    turned = WAY.ordered((NAMES[2], NAMES[0], NAMES[1]))
    run.give(later(NewReference, turned, run.now))
    run.run(0.5)
    q, dq, ddq, _ = WAY.at(0.5)
    assert np.allclose(run.sent[-1], inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-6)


@pytest.mark.parametrize("ending", [DeactivateFeedforward, later(OutputChanged, False)])
def test_an_ending_in_mid_motion_leaves_gravity_at_the_measured_position(ending):
    run = ready()
    run.give(later(NewReference, WAY, run.now))
    there = HERE + 0.3
    for share in np.linspace(0.0, 1.0, 300):
        run.run(1e-3, q=HERE + share * 0.3)
    moving = run.sent[-1]
    assert np.abs(moving - gravity(there)).max() > 5.0, "dynamic torque"
    run.give(ending)
    assert run.state is FeedforwardState.ENDING
    run.run(0.6, q=there)
    assert run.state is (FeedforwardState.STOPPED if ending == DeactivateFeedforward else FeedforwardState.WAITING)
    assert np.allclose(run.sent[-1], gravity(there), atol=1e-9)
    count = len(run.sent)
    run.run(0.2, q=there)
    assert len(run.sent) == count, "nothing after the end"
    assert run.biggest_step() < 2.0


def test_an_ending_takes_no_longer_than_somebody_waits():
    slow = tuple(1.01 * np.array([120.0, 180.0, 80.0]))
    for settings in (
        FeedforwardSettings(FeedforwardOptions(ramp=10.0), hold=False),
        FeedforwardSettings(FeedforwardOptions(ramp=0.0), rates=slow, hold=False),
    ):
        run = ready(settings=settings)
        for k in range(3000):
            run.give(later(StreamedPoint, NAMES, HERE, STILL, 1e-3 * k * np.array([40.0, 40.0, 40.0])), 1e-3)
            run.see()
        run.give(DeactivateFeedforward)
        run.give(FeedforwardTick, 5.0)  # the computer pauses: that brings the torque no nearer
        run.run(2.6)
        assert run.state is FeedforwardState.STOPPED and np.allclose(run.sent[-1], gravity(), atol=1e-9)


def test_without_limits_nothing_leaves_and_one_line_says_how_to_give_them():
    run = Run(MODEL, ActivateFeedforward)
    run.run(0.1)
    assert run.state is FeedforwardState.NO_LIMITS and not run.sent
    for event in (
        later(StreamedPoint, NAMES, HERE, STILL, STILL),
        later(NewReference, WAY, run.now),
        AskFiller,
        later(NewPayload, LOAD),
    ):
        assert "robot_description" in run.give(event).refused and "effort_limits" in run.give(event).refused
    assert run.words().count("effort limits are not known") == 1
    assert not run.give(later(OptionsChanged, FeedforwardSettings(efforts=(50.0,), hold=False))).refused
    assert run.state is FeedforwardState.WAITING
    wild = run.give(later(StreamedPoint, NAMES, HERE, STILL, np.full(3, 1e4))).torque.tau
    assert np.allclose(wild, 50.0)


def test_the_robots_own_limits_bound_every_torque():
    run = ready(FREE)
    tau = run.give(later(StreamedPoint, NAMES, HERE, STILL, np.array([1e5, 1e5, -1e5]))).torque.tau
    assert np.allclose(np.abs(tau), [120.0, 180.0, 80.0])
    model_file = Run(later(NewModel, ROBOT, CHI, "model.yaml"), ActivateFeedforward)
    assert list(model_file.machine.limits.effort) == [120.0, 180.0, 80.0]
    model_file.give(later(StreamedPoint, NAMES, HERE, STILL, STILL))
    assert not model_file.give(MODEL).refused, "base_parameters bring none of their own: those known stay"
    assert list(model_file.machine.limits.effort) == [120.0, 180.0, 80.0]


def test_absurd_models_and_payloads_are_refused_and_the_stream_goes_on():
    run = ready()
    run.run(0.1, point=(HERE, STILL, STILL))
    before = run.sent[-1]
    heavy = Load(1e9, np.array([0.0, 0.0, 0.05]), np.zeros((3, 3)), 3)
    for event, words in (
        (later(NewPayload, heavy), "payload"),
        (later(NewPayload, replace(LOAD, mass=-1.0)), "mass"),
        (later(NewPayload, replace(LOAD, joint=9)), "joint"),
        (later(NewModel, BARE, 1e4 * CHI, "base_parameters"), "the model"),
        (later(NewModel, BARE, np.full(len(CHI), np.nan), "base_parameters"), "not finite"),
        (later(NewModel, OTHER, standard_vector(OTHER), "base_parameters"), "joints"),
        (later(NewModel, LONGER, CHI, "base_parameters"), "geometry"),
    ):
        refused = run.give(event).refused
        assert words in refused, refused
        run.run(0.02, point=(HERE, STILL, STILL))
        assert run.state is FeedforwardState.STREAMING and np.allclose(run.sent[-1], before)


def test_another_robots_model_is_refused_without_a_description_too():
    run = Run(later(OptionsChanged, FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL, ActivateFeedforward)
    run.see()
    run.run(0.1, point=(HERE, STILL, STILL))
    assert "joints" in run.give(later(NewModel, OTHER, standard_vector(OTHER), "base_parameters")).refused
    assert "geometry" in run.give(later(NewModel, LONGER, CHI, "base_parameters")).refused
    run.run(0.1, point=(HERE, STILL, STILL))
    assert run.state is FeedforwardState.STREAMING and len(run.sent) == 200


def test_a_description_of_another_robot_ends_in_the_gravity_of_the_old_model():
    run = ready()
    run.run(0.3, point=(HERE, STILL, np.array([3.0, 3.0, 3.0])))
    assert not run.give(later(NewDescription, OTHER)).refused
    run.run(0.5, q=None)
    run.see()
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity())
    assert "joints" in run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL)).refused
    assert "deactivate first" in run.give(later(NewModel, OTHER, standard_vector(OTHER), "base_parameters")).refused
    run.give(DeactivateFeedforward)
    run.run(0.6, q=None)
    assert run.state is FeedforwardState.STOPPED and np.allclose(run.sent[-1], gravity())
    assert not run.give(later(NewModel, OTHER, standard_vector(OTHER), "base_parameters")).refused
    # back and forth, without limits the second time: those known stay while torques are sent
    back = ready()
    back.run(0.1, point=(HERE, STILL, STILL))
    back.give(later(NewDescription, OTHER))
    assert not back.give(later(NewDescription, BARE)).refused
    back.run(0.5)
    assert back.state is FeedforwardState.HOLDING and np.allclose(back.sent[-1], gravity())
    # an equal one changes nothing
    same = ready()
    same.run(0.3, point=(HERE, STILL, STILL))
    same.give(DESCRIBED)
    same.run(0.01, point=(HERE, STILL, STILL))
    assert same.state is FeedforwardState.STREAMING and same.biggest_step() < 1e-9


def test_new_parameters_and_a_payload_come_without_a_jump_to_exactly_their_torque():
    run = ready()
    point = (NEARBY, STILL, STILL)
    run.run(0.5, point=point)
    run.give(later(NewModel, BARE, 1.5 * CHI, "base_parameters"))
    run.run(0.7, point=point)
    run.give(later(NewPayload, LOAD))
    run.run(0.7, point=point)
    change = np.abs(run.sent[-1] - run.sent[0]).max()
    assert change > 5.0 and run.biggest_step() < 1.2 * change * 1e-3 / 0.3
    loaded = 1.5 * CHI + load_parameters(ROBOT, LOAD, len(CHI))
    assert np.allclose(
        run.sent[-1], FeedforwardModel(ROBOT, loaded).gravity(point[0]) + 1.5 * CHI.reshape(3, 14)[:, 13]
    )
    run.give(later(NewPayload, replace(LOAD, mass=0.0, inertia=np.zeros((3, 3)))))
    run.run(0.7, point=point)
    assert np.allclose(
        run.sent[-1], FeedforwardModel(ROBOT, 1.5 * CHI).gravity(point[0]) + 1.5 * CHI.reshape(3, 14)[:, 13]
    )


def test_a_new_model_carries_the_load_on_but_for_one_of_another_robot():
    run = ready()
    run.give(later(NewPayload, LOAD))
    run.give(later(NewModel, BARE, 1.2 * CHI, "base_parameters"))
    run.run(0.5, point=(HERE, STILL, STILL))
    off = 1.2 * CHI.reshape(3, 14)[:, 13]
    assert np.allclose(run.sent[-1], gravity(chi=1.2 * CHI + load_parameters(ROBOT, LOAD, len(CHI))) + off)
    run.give(later(NewDescription, LONGER))  # the model is used no more, and holds until there is one of this robot
    assert not run.give(later(NewModel, LONGER, CHI, "base_parameters")).refused
    run.run(0.5, point=(HERE, STILL, STILL))
    assert np.allclose(run.sent[-1], gravity_torque(LONGER, CHI, HERE[None])[0] + CHI.reshape(3, 14)[:, 13])
    np.testing.assert_array_equal(run.machine.carried.chi, CHI)
    assert not run.give(later(NewModel, LONGER, 1.1 * CHI, "base_parameters")).refused
    np.testing.assert_array_equal(run.machine.carried.chi, 1.1 * CHI)


def test_limits_that_are_taken_away_are_not_used_any_more():
    run = Run(later(OptionsChanged, FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL)
    assert not run.give(later(OptionsChanged, FeedforwardSettings(hold=False))).refused, "nothing is sent yet"
    run.give(ActivateFeedforward)
    run.see()
    assert run.state is FeedforwardState.NO_LIMITS
    assert "effort_limits" in run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL)).refused and not run.sent


def test_a_stream_that_stops_is_noticed_after_its_timeout():
    run = ready(settings=FeedforwardSettings(timeout=0.07, hold=False))
    for _ in range(3):
        run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL), 0.01)
        assert run.machine.due == pytest.approx(run.now + 0.07)
    assert run.give(FeedforwardTick, 0.069).torque is None and run.state is FeedforwardState.STREAMING
    assert run.machine.due == pytest.approx(run.now + 0.001)
    assert run.give(FeedforwardTick, 0.002).torque is not None and run.state is FeedforwardState.FADING


def test_a_state_that_is_older_than_the_last_point_but_fresh_says_where_the_robot_is():
    settings = FeedforwardSettings(FeedforwardOptions(ramp=0.0), timeout=0.05, stale=0.1, hold=False)
    run = ready(settings=settings)
    run.give(later(StreamedPoint, NAMES, NEARBY, STILL, STILL), 0.001)
    tau = run.give(FeedforwardTick, 0.06).torque.tau
    assert run.state is FeedforwardState.HOLDING and np.allclose(tau, gravity()), "measured, not wished for"
    tau = run.give(FeedforwardTick, 0.05).torque.tau
    assert np.allclose(tau, gravity(NEARBY)), "stale: where its reference was last"


def test_a_model_must_be_holdable_by_the_limits_that_are_known():
    needed = np.abs(gravity()).max()
    for efforts, described, holds in (
        ((2 * needed,), False, True),
        ((0.3 * needed,), False, False),  # all there is
        ((0.3 * needed,), True, True),  # tighter than the robot's own: torques are clipped, the model may be true
    ):
        run = Run(
            later(OptionsChanged, FeedforwardSettings(efforts=efforts, hold=False)), *([DESCRIBED] if described else [])
        )
        refused = run.give(MODEL).refused
        assert bool(refused) != holds, refused
        assert holds or "the model is beyond the effort limits" in refused
    weak = later(NewDescription, limited(effort=(1.0, 0.3 * needed, 1.0)))
    assert "the model" in Run(weak).give(MODEL).refused
    more = later(OptionsChanged, FeedforwardSettings(efforts=(2 * needed,), hold=False))
    assert not Run(more, weak).give(MODEL).refused, "who gives more knows the motors better"


def test_a_trajectory_of_one_point_is_a_streamed_point_and_one_of_two_is_not():
    dq, ddq = np.full(3, 0.4), np.array([1.0, 2.0, 3.0])
    settings = FeedforwardSettings(FeedforwardOptions(smoothing=1e-6), hold=False)
    t, q, still = np.array([0.5]), HERE[None], STILL[None]
    for given, dq_meant, ddq_meant in (
        ((), STILL, STILL),
        ((dq[None],), dq, STILL),
        ((dq[None], ddq[None]), dq, ddq),
    ):
        run = ready(settings=settings)
        tau = run.give(later(NewReference, reference(NAMES, t, q, *given), run.now)).torque.tau
        assert run.state is FeedforwardState.STREAMING
        wanted = inverse_dynamics(ROBOT, CHI, HERE[None], dq_meant[None], ddq_meant[None])[0]
        assert np.allclose(tau, wanted)
    run = ready(settings=settings)
    two = reference(NAMES, np.array([0.0, 0.5]), np.vstack((q, q + 0.1)), np.vstack((still, still)))
    run.give(later(NewReference, two, run.now))
    assert run.state is FeedforwardState.FOLLOWING


def test_a_machine_without_settings_has_those_of_the_documentation():
    machine = FeedforwardMachine()
    assert (
        machine.state is FeedforwardState.STOPPED and not machine.streaming and not machine.law.settings.options.split
    )
    assert machine.due == np.inf and machine.robot is None and machine.limits is None and machine.carried is None
    assert machine.status == FeedforwardStatus(FeedforwardState.STOPPED, "", (), 0, False, False, "")
    settings = FeedforwardSettings()
    assert (settings.timeout, settings.stale, settings.period, settings.point_rate) == (0.05, 0.1, 1e-3, 100.0)
    assert settings.hold and settings.efforts == settings.rates == (0.0,)
    assert (settings.options.smoothing, settings.options.ramp) == (0.02, 0.3)
    assert not settings.command_names
    options = settings.options
    assert options.friction and not (options.gravity_only or options.measured_gravity or options.split)
    assert not OptionsChanged(0.0, settings).try_only and MODEL(0.0).bars is None
    split = FeedforwardMachine(FeedforwardSettings(FeedforwardOptions(split=True)), stream=True)
    assert split.law.settings.options.split and split.streaming


def test_a_prediction_needs_a_model():
    with pytest.raises(InputError, match="model"):
        Run().machine.law.predicted(HERE, STILL, STILL)
    dq, ddq = np.array([0.5, -0.4, 0.3]), np.array([1.0, 2.0, 3.0])
    options = FeedforwardOptions(gravity_only=True, friction=False, smoothing=1e-6)
    found = ready(settings=FeedforwardSettings(options, hold=False)).machine.law.predicted(HERE, dq, ddq)
    whole = inverse_dynamics(ROBOT, CHI, HERE[None], dq[None], ddq[None])[0]
    assert np.allclose(found, whole), "all of it, whatever the options"


def test_changes_within_a_ramp_begin_at_the_torque_that_is_being_sent():
    rng = np.random.default_rng(3)
    run = ready()
    point = (NEARBY, STILL, STILL)
    run.run(0.1, point=point)
    for _ in range(40):
        if rng.random() < 0.5:
            assert not run.give(later(NewModel, BARE, rng.uniform(0.5, 1.5) * CHI, "base_parameters")).refused
        else:
            mass = rng.uniform(0.5, 4.0)
            assert not run.give(later(NewPayload, replace(LOAD, mass=mass))).refused
        run.run(rng.uniform(0.002, 0.2), point=point)
    # the largest change there can be is between the lightest and the heaviest
    heavy = np.abs(gravity(point[0], 1.5 * CHI + load_parameters(ROBOT, replace(LOAD, mass=4.0), len(CHI))))
    assert run.biggest_step() < 1.1 * heavy.max() * 1e-3 / 0.3


def test_options_change_without_a_jump():
    run = ready()
    point = (NEARBY, np.full(3, 0.4), np.full(3, 2.0))
    run.run(0.4, point=point)
    for options in (
        FeedforwardOptions(gravity_only=True),
        FeedforwardOptions(friction=False),
        FeedforwardOptions(measured_gravity=True),
        FeedforwardOptions(),
    ):
        run.give(later(OptionsChanged, FeedforwardSettings(options, hold=False)))
        run.run(0.4, point=point)
    assert np.abs(np.ptp(run.sent, axis=0)).max() > 3.0 and run.biggest_step() < 0.3
    assert np.allclose(run.sent[-1], run.sent[100])


def test_states_that_are_nan_foreign_frozen_or_stale_never_reach_the_torque():
    settings = FeedforwardSettings(FeedforwardOptions(measured_gravity=True), hold=False)
    point = (NEARBY, STILL, STILL)
    run = ready(settings=settings)
    run.run(0.5, point=point)
    at_measured = run.sent[-1]
    for bad in (np.array([np.nan, -0.8, 0.4]), np.full(3, np.inf)):
        run.see(bad)
        run.give(later(StreamedPoint, NAMES, *point), 1e-3)
        assert np.allclose(run.sent[-1], at_measured)
    assert "joint waist: its position is not a number" in run.words()
    assert run.give(arrived(OTHER.active_names, np.zeros(6), np.zeros(6), 10**9)).refused
    run.run(0.6, q=None, point=point)
    off = CHI.reshape(3, 14)[:, 13]
    assert np.allclose(run.sent[-1], gravity(point[0]) + off), "gravity at the reference, since nothing is measured"
    assert "no new joint state" in run.words()
    for _ in range(600):  # the same state again and again is not a new one
        run.give(arrived(NAMES, HERE, STILL, run.stamp))
        run.give(later(StreamedPoint, NAMES, *point), 1e-3)
    assert np.allclose(run.sent[-1], gravity(point[0]) + off)
    run.run(0.6, q=None)  # the reference stops, too: where it was last is where the robot is
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity(point[0]))
    run.run(0.6)
    assert np.allclose(run.sent[-1], gravity()), "measured again"
    for _ in range(600):  # a driver without stamps is judged by arrival, though a robot at rest repeats its values
        run.give(arrived(NAMES, HERE + 0.01, STILL, 0))
        run.give(later(StreamedPoint, NAMES, *point), 1e-3)
    assert np.allclose(run.sent[-1], gravity(HERE + 0.01) + off)


def test_positions_that_jump_are_not_believed_until_they_are_back_or_stay():
    run = ready(ROBOT, settings=FeedforwardSettings(hold=True))
    run.run(0.6)
    assert np.allclose(run.sent[-1], gravity())
    away = HERE + np.array([0.0, 1.0, -0.8])
    run.run(0.6, q=away)
    assert np.allclose(run.sent[-1], gravity()) and "its positions are not used" in run.words()
    run.run(0.6)
    assert np.allclose(run.sent[-1], gravity()) and run.machine.status.fresh, "back, and believed at once"
    run.run(4.5, q=away)
    assert np.allclose(run.sent[-1], gravity())
    run.run(1.5, q=away)
    assert np.allclose(run.sent[-1], gravity(away)), "it has stayed there: the encoder was set"


def test_a_refusal_names_what_is_missing_first():
    point = later(StreamedPoint, NAMES, HERE, STILL, STILL)
    for events, words in (((), "no model yet"), ((MODEL,), "effort limits"), ((DESCRIBED, MODEL), "not active")):
        assert words in Run(*events).give(point).refused


def test_nothing_is_due_while_it_is_stopped():
    run = ready(settings=FeedforwardSettings(hold=True))
    run.run(0.1)
    run.give(DeactivateFeedforward)
    run.run(0.6)
    assert run.state is FeedforwardState.STOPPED and run.machine.due == np.inf
    run.give(later(OptionsChanged, FeedforwardSettings(hold=True, timeout=0.07)))
    assert run.machine.due == np.inf
    run.give(ActivateFeedforward)
    assert run.machine.due == run.now, "it looks for a state to hold at"


def test_split_uses_the_background_for_streams_only_while_it_is_fresh():
    options = FeedforwardOptions(split=True, smoothing=1e-6)
    run = ready(settings=FeedforwardSettings(options, hold=False))
    dq, ddq = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    q = NEARBY
    run.see(HERE, dq)
    assert run.give(Background).coefficients is not None
    here = inverse_dynamics(ROBOT, CHI, HERE[None], dq[None], ddq[None])[0]
    there = inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0]
    assert np.allclose(run.give(later(StreamedPoint, NAMES, q, dq, ddq)).torque.tau, here, atol=1e-9)
    filled = run.give(AskFiller).filler.filled(WAY)
    last = [x[-1][None] for x in (filled.q, filled.dq, filled.ddq)]
    assert np.allclose(filled.tau[-1], inverse_dynamics(ROBOT, CHI, *last)[0], atol=1e-6), "complete"
    run.run(0.6, q=None, point=(q, dq, ddq))
    assert np.allclose(run.sent[-1], there, atol=1e-9), "coefficients that are stale are not used"


def test_a_reference_whose_torque_is_not_finite_is_refused_and_ends_in_gravity():
    run = ready(FREE)
    wild = later(StreamedPoint, NAMES, HERE, np.full(3, 1e200), STILL)
    assert "not finite" in run.give(wild).refused and not run.sent and run.state is FeedforwardState.WAITING
    run.run(0.1, point=(HERE, STILL, STILL))
    assert "not finite" in run.give(wild).refused and run.state is FeedforwardState.FADING
    run.run(0.5)
    assert np.allclose(run.sent[-1], gravity())


def test_a_reference_whose_torque_is_not_finite_ends_in_gravity_without_joint_states_too():
    run = ready(FREE)
    run.now += 0.09  # as stale as may be at the start of a stream
    run.run(0.1, q=None, point=(HERE, STILL, np.full(3, 2.0)))
    assert "not finite" in run.give(later(StreamedPoint, NAMES, HERE, np.full(3, 1e200), STILL)).refused
    assert run.state is FeedforwardState.FADING
    run.run(0.5, q=None)
    assert np.allclose(run.sent[-1], gravity()), "where the reference was last"


def test_settings_that_do_not_fit_are_refused_and_nothing_changes():
    run = ready()
    good = FeedforwardSettings(timeout=0.07, hold=False)
    for bad in (
        replace(good, efforts=(1.0, 2.0)),
        replace(good, rates=(1.0, 2.0)),
        replace(good, rates=(0.5,)),
        replace(good, command_names=("a", "b", "c")),
    ):
        for try_only in (True, False):
            assert run.give(later(OptionsChanged, bad, try_only)).refused
    assert run.machine.law.settings.timeout == 0.05
    assert not run.give(later(OptionsChanged, good, try_only=True)).refused and run.machine.law.settings.timeout == 0.05
    assert not run.give(later(OptionsChanged, good)).refused and run.machine.law.settings.timeout == 0.07
    only = Run(later(OptionsChanged, FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL, ActivateFeedforward)
    assert "effort_limits" in only.give(later(OptionsChanged, FeedforwardSettings(hold=False))).refused, (
        "the only limits there are"
    )


def test_commands_come_in_the_order_asked_for():
    run = ready(settings=FeedforwardSettings(command_names=("elbow", "waist", "shoulder"), hold=False))
    torque = run.give(later(StreamedPoint, NAMES, HERE, STILL, np.array([1.0, 2.0, 3.0]))).torque
    assert torque.joint_names == NAMES and list(torque.command) == list(torque.tau[[2, 0, 1]])


def test_whatever_comes_only_torques_leave_that_may():
    seen, endings, torques = set(), 0, 0
    for seed in range(22):
        made = fuzz(seed, 2500)
        seen |= made.seen
        endings += made.endings
        torques += made.torques
    assert endings > 20 and torques > 3000
    missing = set(itertools.product(FeedforwardState, TRANSITIONS)) - seen
    assert len(missing) <= 6, f"the fuzz meets nearly every event in every state: {missing}"


@pytest.mark.parametrize("news", ["payload", "model"])
def test_what_the_background_found_of_another_model_or_load_is_not_used(news):
    options = FeedforwardOptions(split=True, friction=False, ramp=0.02)
    run = ready(settings=FeedforwardSettings(options, hold=False, stale=10.0, rates=(1e6,)))
    ddq = np.array([0.3, -0.2, 0.5])
    run.see()
    assert run.give(Background).coefficients is not None
    run.run(0.05, point=(HERE, STILL, ddq))
    before = inverse_dynamics(ROBOT, frictionless(ROBOT, CHI)[1], HERE[None], STILL[None], ddq[None])[0]
    np.testing.assert_allclose(run.sent[-1], before, rtol=1e-9, atol=1e-9)
    chi = CHI + load_parameters(ROBOT, LOAD, len(CHI)) if news == "payload" else 0.9 * CHI
    assert not run.give(
        later(NewPayload, LOAD) if news == "payload" else later(NewModel, BARE, chi, "base_parameters")
    ).refused
    run.run(0.05, point=(HERE, STILL, ddq))
    after = inverse_dynamics(ROBOT, frictionless(ROBOT, chi)[1], HERE[None], STILL[None], ddq[None])[0]
    np.testing.assert_allclose(run.sent[-1], after, rtol=1e-9, atol=1e-9)
    assert np.abs(after - before).max() > 1.0


@pytest.mark.parametrize("begins", [-0.1, 0.05])
def test_a_streamed_point_takes_the_place_of_a_trajectory_that_runs_or_waits(begins):
    run = ready()
    run.give(later(NewReference, WAY, run.now + begins))
    point = (HERE, STILL, np.array([0.5, 0.1, -0.3]))
    run.run(0.6, point=point)
    assert run.state is FeedforwardState.STREAMING
    np.testing.assert_allclose(run.sent[-1], run.machine.law.predicted(*point), atol=1e-9)
    run.run(0.1)  # the stream has stopped: what it took the place of does not come back
    assert run.state is FeedforwardState.FADING
    run.run(0.7)
    assert run.state is FeedforwardState.HOLDING
    np.testing.assert_allclose(run.sent[-1], gravity(), atol=1e-9)


def test_without_joint_states_it_ends_where_the_reference_was_that_last_had_a_torque():
    run = ready(FREE)
    run.now += 0.09  # as stale as may be at the start of a stream
    run.run(0.1, q=None, point=(HERE, STILL, STILL))
    elsewhere = NEARBY
    assert "not finite" in run.give(later(StreamedPoint, NAMES, elsewhere, np.full(3, 1e200), STILL)).refused
    run.run(0.8, q=None)
    np.testing.assert_allclose(run.sent[-1], gravity(), atol=1e-9)
    assert np.abs(gravity(elsewhere) - gravity()).max() > 0.5


def test_a_trajectory_that_waits_does_not_survive_a_change_of_the_output():
    run = ready()
    run.give(later(NewReference, WAY, run.now + 0.2))
    run.give(later(OutputChanged, False))
    run.give(later(OutputChanged, True))
    run.run(0.5)
    assert run.state is FeedforwardState.WAITING and not run.sent


def test_while_stopped_the_model_of_another_robot_is_taken_if_nobody_described_one():
    run = Run(later(OptionsChanged, FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL)
    for robot, chi in ((LONGER, CHI), (OTHER, standard_vector(OTHER)), (BARE, CHI)):
        assert not run.give(later(NewModel, robot, chi, "base_parameters")).refused
        assert run.machine.robot is robot and run.machine.joint_names == robot.active_names
    run.give(ActivateFeedforward)
    assert "geometry" in run.give(later(NewModel, LONGER, CHI, "base_parameters")).refused
    described = Run(DESCRIBED, MODEL)
    assert "geometry" in described.give(later(NewModel, LONGER, CHI, "base_parameters")).refused, (
        "stopped, but described"
    )


def test_the_status_is_brought_up_to_date_by_the_background():
    run = ready()
    run.run(0.2, point=(HERE, STILL, STILL))
    run.see()
    assert run.give(Background).coefficients is not None
    status = run.machine.status
    assert status.sent == len(run.sent) == 200 and status.fresh and status.state is FeedforwardState.STREAMING


# --- which robot, which limits, which positions


def limited(robot=ROBOT, **values):
    """The robot with these limits in place of its own: one value a joint each."""
    joints = tuple(
        replace(joint, limits=replace(joint.limits, **{name: each[k] for name, each in values.items()}))
        for k, joint in enumerate(robot.joints)
    )
    return replace(robot, joints=joints)


WEAK, STRONG = (60.0, 90.0, 40.0), (150.0, 220.0, 100.0)


@pytest.mark.parametrize("first", ["description", "model"])
def test_limits_of_a_description_count_before_those_of_a_model_file(first):
    events = [later(NewDescription, limited(effort=WEAK)), later(NewModel, limited(effort=STRONG), CHI, "model.yaml")]
    run = Run(*(events if first == "description" else reversed(events)), ActivateFeedforward)
    assert tuple(run.machine.limits.effort) == WEAK
    for event in (later(OptionsChanged, FeedforwardSettings(timeout=0.07, hold=False)), events[1]):
        assert not run.give(event).refused
        assert tuple(run.machine.limits.effort) == WEAK, "whatever makes the limiter anew"


def test_limits_known_stay_where_a_description_has_none_or_not_all():
    for efforts in ((np.inf,) * 3, (60.0, np.inf, 40.0), (0.0, 90.0, 40.0)):
        run = Run(DESCRIBED, MODEL, ActivateFeedforward)
        assert not run.give(later(NewDescription, limited(effort=efforts))).refused
        assert list(run.machine.limits.effort) == [120.0, 180.0, 80.0] and run.state is FeedforwardState.WAITING


def test_limits_of_another_robot_are_not_those_of_this_one():
    run = Run(
        later(NewDescription, OTHER),
        later(NewDescription, BARE),
        later(NewModel, ROBOT, CHI, "model.yaml"),
        ActivateFeedforward,
    )
    assert list(run.machine.limits.effort) == [120.0, 180.0, 80.0] and run.state is FeedforwardState.WAITING


def test_lower_limits_that_come_with_a_description_clip_the_torques_that_are_sent():
    run = ready()
    run.run(0.1, point=(HERE, STILL, STILL))
    assert not run.give(later(NewDescription, limited(effort=(60.0, 5.0, 40.0)))).refused
    run.run(0.5, point=(HERE, STILL, STILL))
    assert run.state is FeedforwardState.STREAMING
    assert abs(run.sent[0][1]) > 5.0 and abs(run.sent[-1][1]) == 5.0


@pytest.mark.parametrize("first", ["description", "model"])
def test_models_and_loads_are_judged_in_the_positions_of_the_description(first):
    """An elbow that only hangs down holds what one that turns freely could not."""
    arm = Load(12.0, np.array([0.6, 0.0, 0.0]), np.zeros((3, 3)), 3)
    loaded = FeedforwardModel(ROBOT, CHI + load_parameters(ROBOT, arm, len(CHI)))
    down = np.array([0.0, -np.pi / 2, 0.0])
    assert np.abs(loaded.gravity(down)).max() < 30.0 < np.abs(loaded.gravity(np.zeros(3))).max()
    near = limited(lower=tuple(down - 0.05), upper=tuple(down + 0.05), effort=(120.0, 60.0, 60.0))
    free = limited(lower=(-2.0, -2.0, -2.0), upper=(2.0, 2.0, 2.0), effort=(120.0, 60.0, 60.0))
    for described, holds in ((near, True), (free, False)):
        events = [later(NewDescription, described), later(NewModel, BARE, CHI, "base_parameters")]
        run = Run(*(events if first == "description" else reversed(events)), ActivateFeedforward)
        assert bool(run.give(later(NewPayload, arm)).refused) != holds
        heavy = later(NewModel, BARE, CHI + load_parameters(ROBOT, arm, len(CHI)), "base_parameters")
        assert bool(Run(later(NewDescription, described)).give(heavy).refused) != holds


def test_a_load_is_judged_where_the_robot_is_while_that_is_known():
    arm = Load(12.0, np.array([0.6, 0.0, 0.0]), np.zeros((3, 3)), 3)
    down, out = np.array([0.0, -np.pi / 2, 0.0]), np.zeros(3)
    near = limited(lower=tuple(down - 0.05), upper=tuple(down + 0.05), effort=(120.0, 60.0, 60.0))
    for place, age, refused in ((out, 0.09, True), (out, 0.11, False), (down, 0.09, False)):
        run = Run(later(NewDescription, near), MODEL, ActivateFeedforward)
        run.see(place)
        run.now += age
        assert ("against gravity where the robot is" in run.give(later(NewPayload, arm)).refused) == refused


def test_a_load_is_judged_by_itself_too():
    """A counterweight that the robot's own weight hides is nothing that its motors could hold."""
    own = gravity()
    back = Load(12.0, np.array([0.0, -0.35, 0.0]), np.zeros((3, 3)), 3)
    whole = gravity(chi=CHI + load_parameters(ROBOT, back, len(CHI)))
    assert np.abs(whole - own)[2] > 1.2 * np.abs(whole)[2]
    between = 0.5 * (np.abs(whole - own)[2] + np.abs(whole)[2])
    for effort, refused in ((between, True), (1.1 * np.abs(whole - own)[2], False)):
        run = Run(later(NewDescription, limited(effort=(1e3, 1e3, effort))), MODEL, ActivateFeedforward)
        run.see()
        assert ("where the robot is" in run.give(later(NewPayload, back)).refused) == refused


def test_states_of_a_robot_that_was_described_before_are_not_those_of_this_one():
    turned = replace(ROBOT, joints=tuple(replace(joint, name=f"{joint.name}2") for joint in ROBOT.joints))
    run = Run(later(NewDescription, turned), ActivateFeedforward, settings=FeedforwardSettings(hold=True))
    assert not run.give(arrived(turned.active_names, HERE + 0.5, STILL, 1)).refused
    for event in (DESCRIBED, MODEL):
        assert not run.give(event).refused
    run.give(FeedforwardTick, 0.01)
    assert run.state is FeedforwardState.WAITING and not run.sent, "where this one is nobody has told"
    run.see()
    run.give(FeedforwardTick, 0.001)
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity())
    early = Run(ActivateFeedforward, settings=FeedforwardSettings(hold=True))
    early.give(arrived((), np.empty(0), np.empty(0), 1))
    for event in (DESCRIBED, MODEL, FeedforwardTick):
        assert not early.give(event).refused
    assert early.state is FeedforwardState.WAITING and not early.sent


def test_a_model_of_other_joints_takes_nothing_of_the_one_before():
    efforts = later(OptionsChanged, FeedforwardSettings(efforts=(400.0,), hold=False))
    run = Run(efforts, MODEL, later(NewPayload, replace(LOAD, joint=2)))
    assert not run.give(later(NewModel, OTHER, standard_vector(OTHER), "base_parameters")).refused
    np.testing.assert_array_equal(run.machine.carried.chi, standard_vector(OTHER))
    run.give(ActivateFeedforward)
    q = np.array([0.1, -0.4, 0.3, 0.2, 0.5, -0.1])
    still = np.zeros(6)
    run.give(arrived(OTHER.active_names, q, still, 1))
    tau = run.give(later(StreamedPoint, OTHER.active_names, q, still, still)).torque.tau
    np.testing.assert_allclose(tau, FeedforwardModel(OTHER, standard_vector(OTHER)).friction(still, still, 0.02, still)
                               + gravity_torque(OTHER, standard_vector(OTHER), q[None])[0], atol=1e-9)  # fmt: skip
    assert run.machine.status.robot == OTHER.name and run.machine.status.joint_names == OTHER.active_names


# --- a model that is used no more


@pytest.mark.parametrize("ahead", [-0.1, 0.2])
def test_a_description_of_another_robot_ends_trajectories_that_run_or_wait(ahead):
    run = ready()
    run.run(0.05, point=(HERE, STILL, STILL))
    run.give(later(NewReference, WAY, run.now + ahead))
    assert not run.give(later(NewDescription, LONGER)).refused
    assert run.machine.robot is BARE and run.machine.joint_names == NAMES, "torques are still those of the old one"
    assert "geometry" in run.machine.status.remark
    run.run(0.6)
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity())
    run.give(DeactivateFeedforward)
    run.run(0.6)
    assert run.state is FeedforwardState.STOPPED and run.machine.carried is None
    assert run.machine.robot is LONGER and run.machine.status.remark == "" and run.machine.carried is None


def test_a_description_of_another_robot_does_not_call_an_ending_off():
    run = ready()
    run.run(0.3, point=(HERE, STILL, np.array([3.0, 3.0, 3.0])))
    run.give(DeactivateFeedforward)
    run.run(0.05)
    run.give(later(NewDescription, OTHER))
    assert run.state is FeedforwardState.ENDING
    run.run(0.6, q=None)
    assert run.state is FeedforwardState.STOPPED and np.allclose(run.sent[-1], gravity())


def test_an_ending_for_another_output_becomes_one_that_stops():
    run = ready()
    run.run(0.3, point=(HERE, STILL, np.array([3.0, 3.0, 3.0])))
    run.give(later(OutputChanged, False))
    run.give(DeactivateFeedforward)
    run.give(later(OutputChanged, True))
    assert run.state is FeedforwardState.ENDING, "who deactivates is not overruled by an output"
    run.run(0.6)
    assert run.state is FeedforwardState.STOPPED and np.allclose(run.sent[-1], gravity())


def test_gravity_at_the_measured_position_goes_over_to_that_of_the_reference_and_back():
    settings = FeedforwardSettings(FeedforwardOptions(measured_gravity=True), hold=False)
    point = (NEARBY, STILL, STILL)
    run = ready(settings=settings)
    run.run(0.5, point=point)
    run.run(0.6, q=None, point=point)
    run.run(0.6, point=point)
    change = np.abs(np.ptp(run.sent, axis=0)).max()
    assert change > 2.0 and run.biggest_step() < 1.2 * change * 1e-3 / 0.3


def test_velocities_that_are_not_known_are_none_for_the_background():
    run = ready()
    run.give(arrived(NAMES, HERE, np.array([0.4, np.nan, np.inf]), 7))
    found = run.give(Background).coefficients
    wanted = FeedforwardModel(ROBOT, CHI).coefficients(HERE, np.array([0.4, 0.0, 0.0]))
    np.testing.assert_allclose(found.C, wanted.C, atol=1e-9)
    np.testing.assert_allclose(found.M, wanted.M, atol=1e-9)
    assert run.give(Background, 0.11).coefficients is None, "stale"


def test_coefficients_are_used_while_they_are_fresh_and_not_for_gravity_alone():
    dq, ddq = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    q = NEARBY
    for only in (False, True):
        options = FeedforwardOptions(split=True, gravity_only=only, friction=False, ramp=0.0)
        run = ready(settings=FeedforwardSettings(options, hold=False, rates=(1e6,)))
        model = FeedforwardModel(ROBOT, CHI)
        run.see(HERE, dq)
        run.give(Background, 0.05)
        here = model.gravity(q) if only else model.rigid(HERE, dq, ddq)
        there = model.gravity(q) if only else model.rigid(q, dq, ddq)
        for after, wanted in ((0.0, here), (0.099, here), (0.002, there)):
            tau = run.give(later(StreamedPoint, NAMES, q, dq, ddq), after).torque.tau
            np.testing.assert_allclose(tau, wanted, atol=1e-9)


# --- times and change-overs


def test_a_trajectory_ahead_does_not_keep_a_stream_alive():
    run = ready()
    run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL))
    run.give(later(NewReference, WAY, run.now + 1.0))
    assert run.machine.due == pytest.approx(run.now + 0.05)
    run.run(0.06)
    assert run.state is FeedforwardState.FADING
    late = ready()
    late.give(later(StreamedPoint, NAMES, HERE, STILL, STILL))
    late.give(later(NewReference, WAY, late.now + 0.02))
    assert late.machine.due == pytest.approx(late.now + 0.02)


def test_a_clock_that_goes_back_takes_no_change_over_beyond_its_beginning():
    run = ready()
    run.run(0.1, point=(HERE, STILL, STILL))
    before = run.sent[-1]
    run.give(later(NewModel, BARE, 1.3 * CHI, "base_parameters"))
    run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL), 1e-3)
    run.now -= 0.2
    run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL))
    for _ in range(20):
        run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL), 5e-3)
        np.testing.assert_allclose(run.sent[-1], before, atol=1e-9)


@pytest.mark.parametrize(("ramp", "seconds"), [(0.3, 0.3), (2.0, 0.5), (0.1, 0.1)])
def test_an_ending_is_a_straight_line_to_gravity_of_half_a_second_at_most(ramp, seconds):
    run = ready(settings=FeedforwardSettings(FeedforwardOptions(ramp=ramp), hold=False))
    run.run(0.05, point=(HERE, STILL, np.array([3.0, 2.0, -3.0])))
    last = run.sent[-1]
    run.give(DeactivateFeedforward)
    begin = run.now
    for _ in until_it_has_ended(run):
        run.run(1e-3)
        if run.now > begin + 1.5e-3:
            share = min((run.now - begin - 1e-3) / seconds, 1.0)
            np.testing.assert_allclose(run.sent[-1], gravity() + (1 - share) * (last - gravity()), atol=1e-9)
    assert run.now - begin == pytest.approx(seconds + 1e-3, abs=2e-3)


def test_a_prediction_is_smoothed_as_the_torques_are():
    dq, ddq = np.array([0.05, -0.1, 0.02]), np.array([1.0, 2.0, 3.0])
    for smoothing in (0.02, 0.2):
        options = FeedforwardOptions(smoothing=smoothing)
        run = ready(settings=FeedforwardSettings(options, hold=False))
        Fv, Fc, off = CHI.reshape(3, 14)[:, 11:].T
        rigid = FeedforwardModel(ROBOT, CHI).rigid(HERE, dq, ddq)
        wanted = rigid + Fv * dq + Fc * np.tanh(dq / smoothing) + off
        np.testing.assert_allclose(run.machine.law.predicted(HERE, dq, ddq), wanted, atol=1e-9)
        np.testing.assert_allclose(run.give(later(StreamedPoint, NAMES, HERE, dq, ddq)).torque.tau, wanted, atol=1e-9)


def test_an_ending_by_the_least_rate_reaches_gravity_from_the_other_limit():
    """From one effort limit to near the other takes nearly 2 s, which no ending may cut short."""
    efforts = (120.0, 40.0, 80.0)
    settings = FeedforwardSettings(efforts=efforts, rates=tuple(1.01 * x for x in efforts), hold=False)
    run = ready(FREE, settings=settings)
    run.give(later(StreamedPoint, NAMES, HERE, STILL, np.array([0.0, 1e3, 0.0])))
    assert run.sent[-1][1] == 40.0 and gravity()[1] < -37.0
    run.give(DeactivateFeedforward)
    begin = run.now
    for _ in until_it_has_ended(run):
        run.now += 0.01
        run.see()
        run.give(FeedforwardTick)
    np.testing.assert_allclose(run.sent[-1], gravity(), atol=1e-9)
    assert run.now - begin == pytest.approx((40.0 - gravity()[1]) / 40.4, abs=0.03)


def test_an_ending_is_over_after_two_and_a_half_seconds_whatever_happens():
    """Joint states that come and go begin a change-over each time."""
    run = ready(FREE, settings=FeedforwardSettings(FeedforwardOptions(ramp=0.5), stale=0.05, hold=False))
    run.give(later(StreamedPoint, NAMES, NEARBY, STILL, np.array([3.0, 3.0, 3.0])))
    run.give(DeactivateFeedforward)
    begin = run.now
    for _ in until_it_has_ended(run):
        run.now += 0.01
        if round(100 * (run.now - begin)) % 12 == 0:
            run.see()
        run.give(FeedforwardTick)
    assert run.now - begin == pytest.approx(2.5, abs=0.03)


def test_a_description_of_another_robot_is_refused_while_stopped_and_takes_the_model_while_waiting():
    for other, words in ((OTHER, "joints"), (LONGER, "geometry")):
        stopped = Run(DESCRIBED, MODEL)
        assert words in stopped.give(later(NewDescription, other)).refused
        assert stopped.machine.carried and not stopped.give(MODEL).refused, "it is still the robot described first"
        waiting = ready()
        assert not waiting.give(later(NewDescription, other)).refused
        assert waiting.state is FeedforwardState.NO_MODEL and waiting.machine.limits is None
        assert waiting.machine.robot is other and waiting.machine.joint_names == other.active_names
        assert words in waiting.words() and waiting.machine.status.remark == ""
        assert words in waiting.give(MODEL).refused


def test_a_model_is_used_again_once_its_robot_is_described_again():
    run = ready()
    run.give(later(NewPayload, LOAD))
    run.run(0.05, point=(HERE, STILL, STILL))
    run.give(later(NewDescription, LONGER))
    assert run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL)).refused and run.give(AskFiller).refused
    assert not run.give(DESCRIBED).refused and run.machine.status.remark == ""
    run.run(0.6, point=(HERE, STILL, STILL))
    loaded = CHI + load_parameters(ROBOT, LOAD, len(CHI))
    assert run.state is FeedforwardState.STREAMING
    np.testing.assert_allclose(run.sent[-1], gravity(chi=loaded) + CHI.reshape(3, 14)[:, 13], atol=1e-9)
    assert run.give(AskFiller).filler is not None


def test_a_prediction_has_the_friction_of_the_load():
    robot = replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.LOAD, 0.2),))
    run = Run(later(NewModel, robot, CHI, "model.yaml"), later(NewPayload, LOAD))
    dq, ddq = np.array([0.5, -0.4, 0.3]), np.array([1.0, 2.0, 3.0])
    plain = FeedforwardModel(ROBOT, CHI + load_parameters(ROBOT, LOAD, len(CHI)))
    x = plain.rigid(HERE, dq, ddq)
    wanted = x + plain.friction(HERE, dq, 0.02, x) - np.array([0.0, 0.2 * abs(x[1]), 0.0])
    np.testing.assert_allclose(run.machine.law.predicted(HERE, dq, ddq), wanted, atol=1e-6)


def test_what_the_robot_weighs_is_told_with_its_load_and_its_bars():
    bars = ErrorBars(np.ones(3), np.full(3, 2.0))
    run = Run(DESCRIBED, later(NewModel, BARE, CHI, "model.yaml", bars))
    for load in (LOAD, replace(LOAD, mass=1.0), replace(LOAD, mass=0.0, inertia=np.zeros((3, 3)))):
        run.give(later(NewPayload, load))
        carried = run.machine.carried
        np.testing.assert_allclose(carried.chi, CHI + load_parameters(ROBOT, load, len(CHI)), rtol=1e-12)
        np.testing.assert_array_equal(carried.cold, carried.chi)
        assert carried.robot is BARE and carried.bars is bars
    run.give(MODEL)
    assert run.machine.carried.bars is None


def test_a_trajectory_is_followed_up_to_its_last_instant():
    run = ready()
    begin = run.now
    run.give(later(NewReference, WAY, begin))
    for now, state in ((begin + WAY.duration, FeedforwardState.FOLLOWING), (begin + 1.001, FeedforwardState.FADING)):
        run.now = now
        run.give(FeedforwardTick)
        assert run.state is state


def test_holding_begins_with_gravity_whatever_was_left_of_an_ending():
    run = ready(settings=FeedforwardSettings(FeedforwardOptions(ramp=0.5), stale=0.05, hold=True))
    run.give(later(StreamedPoint, NAMES, HERE + 0.5, STILL, np.array([3.0, 3.0, 3.0])))
    run.give(later(OutputChanged, False))
    for _ in until_it_has_ended(run):  # cut short: joint states come and go
        run.now += 0.01
        if round(100 * run.now) % 12 == 0:
            run.see()
        run.give(FeedforwardTick)
    assert run.state is FeedforwardState.WAITING
    run.give(later(OutputChanged, True))
    run.see()
    np.testing.assert_allclose(run.give(FeedforwardTick).torque.tau, gravity(), atol=1e-9)
    assert run.state is FeedforwardState.HOLDING


def test_a_new_beginning_knows_no_trajectory_and_no_position_of_the_one_before():
    run = ready(settings=FeedforwardSettings(FeedforwardOptions(ramp=0.0), hold=False))
    run.give(later(NewReference, WAY, run.now + 0.1))
    run.give(DeactivateFeedforward)
    run.give(later(OptionsChanged, FeedforwardSettings(FeedforwardOptions(ramp=0.0), hold=True)))
    run.give(ActivateFeedforward)
    run.give(FeedforwardTick, 1e-3)
    assert run.state is FeedforwardState.WAITING and not run.sent, "no joint state since then"
    there = HERE + np.array([0.0, -1.5, 1.0])  # somebody has moved it
    run.see(there)
    run.give(FeedforwardTick)
    np.testing.assert_allclose(run.sent[-1], gravity(there), atol=1e-9)
    run.run(0.3, q=there)
    assert run.state is FeedforwardState.HOLDING and "following a trajectory" not in run.words()


def test_joints_of_closed_loops_are_those_of_their_names():
    """Passive joints are counted among the joints, but not among those that are measured and driven."""
    loop = load_robot("hitachi_hpr")
    joints = tuple(
        replace(joint, limits=replace(joint.limits, velocity=0.5 * k, effort=1000.0 * k))
        for k, joint in enumerate(loop.joints, start=1)
    )
    robot, names, n = replace(loop, joints=joints), loop.active_names, len(loop.active)
    assert n < robot.n and list(loop.active) != list(range(1, n + 1))
    chi = np.random.default_rng(0).uniform(0.1, 1.0, len(standard_vector(robot)))
    run = Run(later(NewModel, robot, chi, "model.yaml"), ActivateFeedforward)
    assert list(run.machine.limits.effort) == [1000.0 * j for j in loop.active]
    assert list(run.machine.trust.velocity) == [0.5 * j for j in loop.active]
    assert not run.give(arrived(names, np.zeros(n), np.zeros(n), 1)).refused
    for joint, words in ((robot.n, ""), (robot.n + 1, f"no joint {robot.n + 1}"), (0, "no joint 0")):
        load = Load(0.1, np.full(3, 0.01), np.zeros((3, 3)), joint)
        refused = run.give(later(NewPayload, load)).refused
        assert words in refused and bool(refused) == bool(words)


def test_limits_and_rates_are_those_of_the_newest_settings():
    run = ready()
    own = np.array([120.0, 180.0, 80.0])
    for ramp, efforts, rates, wanted in (
        (0.05, (0.0,), (0.0,), 2 * own / 0.05),
        (0.3, (0.0,), (0.0,), 2 * own / 0.1),
        (0.05, (50.0, 0.0, 60.0), (0.0,), 2 * np.array([50.0, 180.0, 60.0]) / 0.05),
        (0.05, (0.0,), (0.0, 300.0, 0.0), np.array([4800.0, 300.0, 3200.0])),
    ):
        settings = FeedforwardSettings(FeedforwardOptions(ramp=ramp), efforts=efforts, rates=rates, hold=False)
        assert not run.give(later(OptionsChanged, settings)).refused
        np.testing.assert_allclose(run.machine.limits.rate, wanted)
        np.testing.assert_allclose(run.machine.limits.effort, np.where(np.array(efforts) > 0, efforts, own))


def test_split_torques_have_gravity_where_the_robot_is_now_if_it_is_to_be_measured():
    dq, ddq = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    model = FeedforwardModel(ROBOT, CHI)
    for measured in (True, False):
        options = FeedforwardOptions(split=True, measured_gravity=measured, friction=False, ramp=0.0)
        run = ready(settings=FeedforwardSettings(options, hold=False))
        run.see(HERE, dq)
        run.give(Background)
        run.see(HERE + 0.01, dq)
        wanted = model.rigid(HERE, dq, ddq) + (gravity(HERE + 0.01) - gravity() if measured else 0.0)
        tau = run.give(later(StreamedPoint, NAMES, NEARBY, dq, ddq)).torque.tau
        np.testing.assert_allclose(tau, wanted, atol=1e-9)


@pytest.mark.parametrize("options", [
    FeedforwardOptions(gravity_only=True), FeedforwardOptions(friction=False), FeedforwardOptions(smoothing=0.5),
])  # fmt: skip
def test_efforts_are_filled_with_the_options_that_are_set(options):
    model = FeedforwardModel(ROBOT, CHI)
    run = Run(DESCRIBED, MODEL, ActivateFeedforward, settings=FeedforwardSettings(options), stream=False)
    run.see(WAY.q[0])
    filler = run.give(AskFiller).filler
    for filled in (run.give(later(NewReference, WAY, run.now)).trajectory, filler.filled(WAY, 100.0)):
        k = len(filled.t) // 3
        wanted = complete_torque(model, options, filled.q[k], filled.dq[k], filled.ddq[k])
        np.testing.assert_allclose(filled.tau[k], wanted, atol=1e-9)
        assert len(filled.t) > 90 and filled.t[-1] == WAY.t[-1]


@pytest.mark.parametrize("state", FeedforwardState)
def test_an_output_that_is_set_to_what_it_is_changes_nothing(state):
    run = in_state(state)
    due = run.machine.due
    run.give(later(OutputChanged, True))
    assert run.state is state and run.machine.due == due and run.machine.streaming


@pytest.mark.parametrize("state", [S.STOPPED, S.WAITING, S.FOLLOWING, S.HOLDING])
def test_model_load_and_limits_outlive_a_deactivation(state):
    run = in_state(state)
    run.give(later(NewPayload, LOAD))
    run.give(DeactivateFeedforward)
    run.run(0.6)
    run.give(ActivateFeedforward)
    assert run.state is FeedforwardState.WAITING and list(run.machine.limits.effort) == [120.0, 180.0, 80.0]
    run.see()
    tau = run.give(later(StreamedPoint, NAMES, HERE, STILL, STILL)).torque.tau
    off = CHI.reshape(3, 14)[:, 13]
    np.testing.assert_allclose(tau, gravity(chi=CHI + load_parameters(ROBOT, LOAD, len(CHI))) + off, atol=1e-9)


def test_settings_of_another_number_of_joints_are_refused_before_limits_are_known():
    run = Run(MODEL, ActivateFeedforward)
    assert run.state is FeedforwardState.NO_LIMITS
    for wrong in ({"rates": (300.0, 300.0)}, {"efforts": (300.0, 300.0)}, {"command_names": ("a", "b")}):
        assert run.give(later(OptionsChanged, FeedforwardSettings(hold=False, **wrong))).refused


@pytest.mark.parametrize(("last", "felt"), [(-0.4, True), (1e308, False)])
def test_an_ending_ends_though_gravity_is_no_number_where_the_robot_seems_to_be(last, felt):
    slide = replace(FREE, joints=(*FREE.joints[:2], replace(FREE.joints[2], sigma=1)))
    run = Run(later(NewDescription, slide), later(NewModel, slide, CHI, "model.yaml"), ActivateFeedforward)
    run.see()
    run.run(0.2, q=None, point=(HERE, STILL, STILL))
    run.see(np.array([0.2, -0.8, last]))
    streamed = len(run.sent)
    assert not run.give(DeactivateFeedforward).refused
    run.run(3.0, q=None)
    assert run.state is S.STOPPED
    assert (len(run.sent) > streamed) is felt
    assert ("torques end without gravity: the torque is not finite" in run.words()) is not felt
