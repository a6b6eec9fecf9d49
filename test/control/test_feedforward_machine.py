"""The feedforward's state machine: every event in every state, and what must hold whatever comes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from feedforward_fuzz import BARE, CHI, LONGER, NAMES, OTHER, ROBOT, fuzz
from ros2_dynid.control.feedforward import FeedforwardModel, FeedforwardOptions
from ros2_dynid.control.feedforward_events import (
    SENDING,
    ActivateFeedforward,
    AskFiller,
    Background,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardStatus,
    FeedforwardTick,
    MeasuredState,
    MeasuredTemperature,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    OptionsChanged,
    OutputChanged,
    StreamedPoint,
)
from ros2_dynid.control.feedforward_machine import LEGAL, FeedforwardMachine
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.inertia_matrix import gravity_torque
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import standard_vector

HERE, STILL = np.array([0.2, -0.8, 0.4]), np.zeros(3)
DESCRIBED, MODEL = NewDescription(ROBOT), NewModel(BARE, CHI, "base_parameters")
WAY = quintic(NAMES, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.5, 0.5]), 1.0)
LOAD = Load(3.0, np.array([0.0, 0.3, 0.0]), 0.01 * np.eye(3), 3)


def gravity(q=HERE, chi=CHI):
    return gravity_torque(ROBOT, chi, q[None])[0]


class Run:
    """A machine with a clock of its own, and all the torques that it sent."""

    def __init__(self, *events, settings=None, stream=True):
        self.machine = FeedforwardMachine(settings or FeedforwardSettings(hold=False), stream)
        self.now, self.stamp, self.sent = 1.0, 0, []
        for event in events:
            assert not self.give(event).refused

    def give(self, event, after=0.0):
        self.now += after
        outcome = self.machine.handle(event, self.now)
        if outcome.torque is not None:
            self.sent.append(outcome.torque.tau)
        return outcome

    def see(self, q=HERE, dq=STILL):
        self.stamp += 1
        return self.give(MeasuredState(NAMES, q, dq, self.stamp))

    def run(self, seconds, q=HERE, point=None):
        """Let time pass at 1 kHz with fresh states at q (None: no states), and a streamed point each time if given."""
        for _ in range(round(1000 * seconds)):
            self.now += 1e-3
            if q is not None:
                self.see(q)
            if point is not None:
                self.give(StreamedPoint(NAMES, *point))
            if self.now >= self.machine.due:
                self.give(FeedforwardTick())
        return self

    @property
    def state(self):
        return self.machine.state

    def words(self):
        return " | ".join(news.text for news in self.machine.news())

    def biggest_step(self):
        return np.abs(np.diff(np.array(self.sent), axis=0)).max()


def ready(**more):
    run = Run(DESCRIBED, MODEL, ActivateFeedforward(), **more)
    run.see()
    return run


def in_state(state):
    """Return a machine in this state, by a way that a user could take."""
    if state is FeedforwardState.STOPPED:
        return Run(DESCRIBED, MODEL)
    if state is FeedforwardState.NO_MODEL:
        return Run(DESCRIBED, ActivateFeedforward())
    if state is FeedforwardState.NO_LIMITS:
        return Run(MODEL, ActivateFeedforward())
    run = ready()
    if state is FeedforwardState.FOLLOWING:
        run.give(NewReference(WAY, run.now))
    elif state is not FeedforwardState.WAITING:
        run.give(StreamedPoint(NAMES, HERE, STILL, STILL))
        if state in (FeedforwardState.FADING, FeedforwardState.HOLDING):
            run.run(0.1 if state is FeedforwardState.FADING else 0.5)
        elif state is FeedforwardState.ENDING:
            run.give(DeactivateFeedforward())
    return run


EVENTS = {
    NewModel: MODEL,
    NewPayload: NewPayload(LOAD),
    NewDescription: DESCRIBED,
    NewReference: None,  # it depends on the time
    StreamedPoint: StreamedPoint(NAMES, HERE, STILL, STILL),
    MeasuredState: MeasuredState(NAMES, HERE, STILL, 10**9),
    MeasuredTemperature: MeasuredTemperature(NAMES, np.array([30.0, 40.0, 50.0])),
    FeedforwardTick: FeedforwardTick(),
    Background: Background(),
    AskFiller: AskFiller(),
    OptionsChanged: OptionsChanged(FeedforwardSettings(timeout=0.07, hold=False)),
    OutputChanged: OutputChanged(False),
    ActivateFeedforward: ActivateFeedforward(),
    DeactivateFeedforward: DeactivateFeedforward(),
}
S = FeedforwardState
LEADS = {
    (S.NO_LIMITS, NewDescription): S.WAITING,
    (S.NO_MODEL, NewModel): S.WAITING,
    (S.STOPPED, ActivateFeedforward): S.WAITING,
    **{(state, NewReference): S.FOLLOWING for state in (S.WAITING, S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING)},
    **{(state, StreamedPoint): S.STREAMING for state in (S.WAITING, S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING)},
    **{(state, OutputChanged): S.ENDING for state in (S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING)},
    **{(state, DeactivateFeedforward): S.ENDING for state in (S.FOLLOWING, S.STREAMING, S.FADING, S.HOLDING, S.ENDING)},
    **{(state, DeactivateFeedforward): S.STOPPED for state in (S.NO_MODEL, S.NO_LIMITS, S.WAITING)},
}
"""Where an event leads at once; where it is not here the state stays."""


def test_the_table_has_every_event_in_every_state():
    assert set(LEGAL) == set(EVENTS)
    assert all(set(row) == set(FeedforwardState) for row in LEGAL.values())


@pytest.mark.parametrize("state", FeedforwardState)
def test_every_event_in_every_state(state):
    for kind, event in EVENTS.items():
        run = in_state(state)
        assert run.state is state
        outcome = run.give(event if event is not None else NewReference(WAY, run.now))
        legal = LEGAL[kind][state]
        assert bool(outcome.refused) == (legal == "refused"), (state, kind, outcome.refused)
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
        tau = run.give(StreamedPoint(NAMES, q, dq, ddq), 1e-3).torque.tau
        assert np.allclose(tau, inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-9)


def test_before_the_first_reference_it_holds_against_gravity_if_it_is_to():
    for hold in (True, False):
        run = Run(DESCRIBED, MODEL, ActivateFeedforward(), settings=FeedforwardSettings(hold=hold))
        run.run(0.05, q=None)
        assert not run.sent, "where the robot is nobody knows"
        run.run(0.05)
        assert bool(run.sent) == hold
        if hold:
            assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[0], gravity()), (
                "at once: less would let it fall"
            )
    trajectory = Run(DESCRIBED, MODEL, ActivateFeedforward(), settings=FeedforwardSettings(hold=True), stream=False)
    assert not trajectory.run(0.1).sent


def test_when_the_reference_stops_it_ramps_to_gravity_where_the_robot_is_and_says_so():
    run = ready()
    run.give(NewReference(WAY, run.now))
    run.run(1.5)
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity())
    after = Run.biggest_step(run)
    assert after < 0.02 * np.abs(run.sent[-1]).max() + 0.1
    assert "the reference has stopped" in run.words()


def test_a_trajectory_is_followed_in_time_and_one_stamped_ahead_waits():
    run = ready(settings=FeedforwardSettings(FeedforwardOptions(smoothing=1e-6), hold=False))
    run.give(NewReference(WAY, run.now + 0.2))
    run.run(0.15)
    assert run.state is FeedforwardState.WAITING and not run.sent
    begin = run.now + 0.05
    run.run(0.45)
    q, dq, ddq, _ = WAY.at(run.now - begin)
    assert np.allclose(run.sent[-1], inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-6)
    outcome = run.give(NewReference(WAY, run.now - 5.0))
    assert "past" in outcome.refused and run.state is FeedforwardState.FOLLOWING
    turned = WAY.ordered((NAMES[2], NAMES[0], NAMES[1]))
    run.give(NewReference(turned, run.now))
    run.run(0.5)
    q, dq, ddq, _ = WAY.at(0.5)
    assert np.allclose(run.sent[-1], inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-6)


@pytest.mark.parametrize("ending", [DeactivateFeedforward(), OutputChanged(False)])
def test_an_ending_in_mid_motion_leaves_gravity_at_the_measured_position(ending):
    run = ready()
    run.give(NewReference(WAY, run.now))
    there = HERE + 0.3
    for share in np.linspace(0.0, 1.0, 300):
        run.run(1e-3, q=HERE + share * 0.3)
    moving = run.sent[-1]
    assert np.abs(moving - gravity(there)).max() > 5.0, "dynamic torque"
    run.give(ending)
    assert run.state is FeedforwardState.ENDING
    run.run(0.6, q=there)
    assert run.state is (FeedforwardState.STOPPED if ending == DeactivateFeedforward() else FeedforwardState.WAITING)
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
            run.give(StreamedPoint(NAMES, HERE, STILL, 1e-3 * k * np.array([40.0, 40.0, 40.0])), 1e-3)
            run.see()
        run.give(DeactivateFeedforward())
        run.give(FeedforwardTick(), 5.0)  # the computer pauses: that brings the torque no nearer
        run.run(2.6)
        assert run.state is FeedforwardState.STOPPED and np.allclose(run.sent[-1], gravity(), atol=1e-9)


def test_without_limits_nothing_leaves_and_one_line_says_how_to_give_them():
    run = Run(MODEL, ActivateFeedforward())
    run.run(0.1)
    assert run.state is FeedforwardState.NO_LIMITS and not run.sent
    for event in (StreamedPoint(NAMES, HERE, STILL, STILL), NewReference(WAY, run.now), AskFiller(), NewPayload(LOAD)):
        assert "robot_description" in run.give(event).refused and "effort_limits" in run.give(event).refused
    assert run.words().count("effort limits are not known") == 1
    assert not run.give(OptionsChanged(FeedforwardSettings(efforts=(50.0,), hold=False))).refused
    assert run.state is FeedforwardState.WAITING
    wild = run.give(StreamedPoint(NAMES, HERE, STILL, np.full(3, 1e4))).torque.tau
    assert np.allclose(wild, 50.0)


def test_the_robots_own_limits_bound_every_torque():
    run = ready()
    tau = run.give(StreamedPoint(NAMES, HERE, STILL, np.array([1e5, 1e5, -1e5]))).torque.tau
    assert np.allclose(np.abs(tau), [120.0, 180.0, 80.0])
    model_file = Run(NewModel(ROBOT, CHI, "model.yaml"), ActivateFeedforward())
    assert list(model_file.machine.limits.effort) == [120.0, 180.0, 80.0]
    model_file.give(StreamedPoint(NAMES, HERE, STILL, STILL))
    assert not model_file.give(MODEL).refused, "base_parameters bring none of their own: those known stay"
    assert list(model_file.machine.limits.effort) == [120.0, 180.0, 80.0]


def test_absurd_models_and_payloads_are_refused_and_the_stream_goes_on():
    run = ready()
    run.run(0.1, point=(HERE, STILL, STILL))
    before = run.sent[-1]
    heavy = Load(1e9, np.array([0.0, 0.0, 0.05]), np.zeros((3, 3)), 3)
    for event, words in (
        (NewPayload(heavy), "payload"),
        (NewPayload(replace(LOAD, mass=-1.0)), "mass"),
        (NewPayload(replace(LOAD, joint=9)), "joint"),
        (NewModel(BARE, 1e4 * CHI, "base_parameters"), "the model"),
        (NewModel(BARE, np.full(len(CHI), np.nan), "base_parameters"), "not finite"),
        (NewModel(OTHER, standard_vector(OTHER), "base_parameters"), "joints"),
        (NewModel(LONGER, CHI, "base_parameters"), "geometry"),
    ):
        refused = run.give(event).refused
        assert words in refused, refused
        run.run(0.02, point=(HERE, STILL, STILL))
        assert run.state is FeedforwardState.STREAMING and np.allclose(run.sent[-1], before)


def test_another_robots_model_is_refused_without_a_description_too():
    run = Run(OptionsChanged(FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL, ActivateFeedforward())
    run.see()
    run.run(0.1, point=(HERE, STILL, STILL))
    assert "joints" in run.give(NewModel(OTHER, standard_vector(OTHER), "base_parameters")).refused
    assert "geometry" in run.give(NewModel(LONGER, CHI, "base_parameters")).refused
    run.run(0.1, point=(HERE, STILL, STILL))
    assert run.state is FeedforwardState.STREAMING and len(run.sent) == 200


def test_a_description_of_another_robot_ends_in_the_gravity_of_the_old_model():
    run = ready()
    run.run(0.3, point=(HERE, STILL, np.array([3.0, 3.0, 3.0])))
    assert not run.give(NewDescription(OTHER)).refused
    run.run(0.5, q=None)
    run.see()
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity())
    assert "joints" in run.give(StreamedPoint(NAMES, HERE, STILL, STILL)).refused
    assert "deactivate first" in run.give(NewModel(OTHER, standard_vector(OTHER), "base_parameters")).refused
    run.give(DeactivateFeedforward())
    run.run(0.6, q=None)
    assert run.state is FeedforwardState.STOPPED and np.allclose(run.sent[-1], gravity())
    assert not run.give(NewModel(OTHER, standard_vector(OTHER), "base_parameters")).refused
    # back and forth, without limits the second time: those known stay while torques are sent
    back = ready()
    back.run(0.1, point=(HERE, STILL, STILL))
    back.give(NewDescription(OTHER))
    assert not back.give(NewDescription(BARE)).refused
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
    point = (np.array([0.1, -0.5, 0.2]), STILL, STILL)
    run.run(0.5, point=point)
    run.give(NewModel(BARE, 1.5 * CHI, "base_parameters"))
    run.run(0.7, point=point)
    run.give(NewPayload(LOAD))
    run.run(0.7, point=point)
    change = np.abs(run.sent[-1] - run.sent[0]).max()
    assert change > 5.0 and run.biggest_step() < 1.2 * change * 1e-3 / 0.3
    loaded = 1.5 * CHI + load_parameters(ROBOT, LOAD, len(CHI))
    assert np.allclose(
        run.sent[-1], FeedforwardModel(ROBOT, loaded).gravity(point[0]) + 1.5 * CHI.reshape(3, 14)[:, 13]
    )
    run.give(NewPayload(replace(LOAD, mass=0.0, inertia=np.zeros((3, 3)))))
    run.run(0.7, point=point)
    assert np.allclose(
        run.sent[-1], FeedforwardModel(ROBOT, 1.5 * CHI).gravity(point[0]) + 1.5 * CHI.reshape(3, 14)[:, 13]
    )


def test_a_new_model_carries_the_load_on_but_for_one_of_another_robot():
    run = ready()
    run.give(NewPayload(LOAD))
    run.give(NewModel(BARE, 1.2 * CHI, "base_parameters"))
    run.run(0.5, point=(HERE, STILL, STILL))
    off = 1.2 * CHI.reshape(3, 14)[:, 13]
    assert np.allclose(run.sent[-1], gravity(chi=1.2 * CHI + load_parameters(ROBOT, LOAD, len(CHI))) + off)
    run.give(NewDescription(LONGER))  # the model is used no more, and holds until there is one of this robot
    assert not run.give(NewModel(LONGER, CHI, "base_parameters")).refused
    run.run(0.5, point=(HERE, STILL, STILL))
    assert np.allclose(run.sent[-1], gravity_torque(LONGER, CHI, HERE[None])[0] + CHI.reshape(3, 14)[:, 13])


def test_limits_that_are_taken_away_are_not_used_any_more():
    run = Run(OptionsChanged(FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL)
    assert not run.give(OptionsChanged(FeedforwardSettings(hold=False))).refused, "nothing is sent yet"
    run.give(ActivateFeedforward())
    run.see()
    assert run.state is FeedforwardState.NO_LIMITS
    assert "effort_limits" in run.give(StreamedPoint(NAMES, HERE, STILL, STILL)).refused and not run.sent


def test_a_stream_that_stops_is_noticed_after_its_timeout():
    run = ready(settings=FeedforwardSettings(timeout=0.07, hold=False))
    for _ in range(3):
        run.give(StreamedPoint(NAMES, HERE, STILL, STILL), 0.01)
        assert run.machine.due == pytest.approx(run.now + 0.07)
    assert run.give(FeedforwardTick(), 0.069).torque is None and run.state is FeedforwardState.STREAMING
    assert run.machine.due == pytest.approx(run.now + 0.001)
    assert run.give(FeedforwardTick(), 0.002).torque is not None and run.state is FeedforwardState.FADING


def test_a_state_that_is_older_than_the_last_point_but_fresh_says_where_the_robot_is():
    settings = FeedforwardSettings(FeedforwardOptions(ramp=0.0), timeout=0.05, stale=0.1, hold=False)
    run = ready(settings=settings)
    run.give(StreamedPoint(NAMES, HERE + 0.3, STILL, STILL), 0.001)
    tau = run.give(FeedforwardTick(), 0.06).torque.tau
    assert run.state is FeedforwardState.HOLDING and np.allclose(tau, gravity()), "measured, not wished for"
    tau = run.give(FeedforwardTick(), 0.05).torque.tau
    assert np.allclose(tau, gravity(HERE + 0.3)), "stale: where its reference was last"


def test_a_model_must_be_holdable_by_the_limits_that_are_known():
    needed = np.abs(gravity()).max()
    for efforts, described, holds in (
        ((2 * needed,), False, True),
        ((0.3 * needed,), False, False),  # all there is
        ((0.3 * needed,), True, True),  # tighter than the robot's own: torques are clipped, the model may be true
    ):
        run = Run(OptionsChanged(FeedforwardSettings(efforts=efforts, hold=False)), *([DESCRIBED] if described else []))
        refused = run.give(MODEL).refused
        assert bool(refused) != holds, refused
        assert holds or "the model is beyond the effort limits" in refused


def test_a_trajectory_of_one_point_is_a_streamed_point_and_one_of_two_is_not():
    dq, ddq = np.full(3, 0.5), np.array([1.0, 2.0, 3.0])
    settings = FeedforwardSettings(FeedforwardOptions(smoothing=1e-6), hold=False)
    t, q, still = np.array([0.5]), HERE[None], STILL[None]
    for given, dq_meant, ddq_meant in (
        ((), STILL, STILL),
        ((dq[None],), dq, STILL),
        ((dq[None], ddq[None]), dq, ddq),
    ):
        run = ready(settings=settings)
        tau = run.give(NewReference(reference(NAMES, t, q, *given), run.now)).torque.tau
        assert run.state is FeedforwardState.STREAMING
        wanted = inverse_dynamics(ROBOT, CHI, HERE[None], dq_meant[None], ddq_meant[None])[0]
        assert np.allclose(tau, wanted)
    run = ready(settings=settings)
    two = reference(NAMES, np.array([0.0, 0.5]), np.vstack((q, q + 0.1)), np.vstack((still, still)))
    run.give(NewReference(two, run.now))
    assert run.state is FeedforwardState.FOLLOWING


def test_a_machine_without_settings_has_those_of_the_documentation():
    machine = FeedforwardMachine()
    assert machine.state is FeedforwardState.STOPPED and not machine.streaming and not machine.splitting
    assert machine.due == np.inf and machine.robot is None and machine.limits is None and not machine.has_model
    assert machine.status == FeedforwardStatus(FeedforwardState.STOPPED, "", (), 0, False, False, "")
    settings = FeedforwardSettings()
    assert (settings.timeout, settings.stale, settings.period, settings.point_rate) == (0.05, 0.1, 1e-3, 100.0)
    assert settings.hold and settings.efforts == settings.rates == (0.0,)
    assert (settings.options.smoothing, settings.options.ramp) == (0.02, 0.3)
    split = FeedforwardMachine(FeedforwardSettings(FeedforwardOptions(split=True)), stream=True)
    assert split.splitting and split.streaming


def test_a_prediction_needs_a_model():
    with pytest.raises(InputError, match="model"):
        Run().machine.predicted(HERE, STILL, STILL)
    dq, ddq = np.array([0.5, -0.4, 0.3]), np.array([1.0, 2.0, 3.0])
    options = FeedforwardOptions(gravity_only=True, friction=False, smoothing=1e-6)
    found = ready(settings=FeedforwardSettings(options, hold=False)).machine.predicted(HERE, dq, ddq)
    whole = inverse_dynamics(ROBOT, CHI, HERE[None], dq[None], ddq[None])[0]
    assert np.allclose(found, whole), "all of it, whatever the options"


def test_changes_within_a_ramp_begin_at_the_torque_that_is_being_sent():
    rng = np.random.default_rng(3)
    run = ready()
    point = (np.array([0.1, -0.5, 0.2]), STILL, STILL)
    run.run(0.1, point=point)
    for _ in range(40):
        if rng.random() < 0.5:
            assert not run.give(NewModel(BARE, rng.uniform(0.5, 1.5) * CHI, "base_parameters")).refused
        else:
            mass = rng.uniform(0.5, 4.0)
            assert not run.give(NewPayload(replace(LOAD, mass=mass))).refused
        run.run(rng.uniform(0.002, 0.2), point=point)
    # the largest change there can be is between the lightest and the heaviest
    heavy = np.abs(gravity(point[0], 1.5 * CHI + load_parameters(ROBOT, replace(LOAD, mass=4.0), len(CHI))))
    assert run.biggest_step() < 1.1 * heavy.max() * 1e-3 / 0.3


def test_options_change_without_a_jump():
    run = ready()
    point = (np.array([0.1, -0.5, 0.2]), np.full(3, 0.5), np.full(3, 2.0))
    run.run(0.4, point=point)
    for options in (
        FeedforwardOptions(gravity_only=True),
        FeedforwardOptions(friction=False),
        FeedforwardOptions(measured_gravity=True),
        FeedforwardOptions(),
    ):
        run.give(OptionsChanged(FeedforwardSettings(options, hold=False)))
        run.run(0.4, point=point)
    assert np.abs(np.ptp(run.sent, axis=0)).max() > 5.0 and run.biggest_step() < 0.3
    assert np.allclose(run.sent[-1], run.sent[100])


def test_states_that_are_nan_foreign_frozen_or_stale_never_reach_the_torque():
    settings = FeedforwardSettings(FeedforwardOptions(measured_gravity=True), hold=False)
    point = (np.array([0.1, -0.5, 0.2]), STILL, STILL)
    run = ready(settings=settings)
    run.run(0.5, point=point)
    at_measured = run.sent[-1]
    for bad in (np.array([np.nan, -0.8, 0.4]), np.full(3, np.inf)):
        run.see(bad)
        run.give(StreamedPoint(NAMES, *point), 1e-3)
        assert np.allclose(run.sent[-1], at_measured)
    assert "'waist' is not finite" in run.words()
    assert run.give(MeasuredState(OTHER.active_names, np.zeros(6), np.zeros(6), 10**9)).refused
    run.run(0.6, q=None, point=point)
    off = CHI.reshape(3, 14)[:, 13]
    assert np.allclose(run.sent[-1], gravity(point[0]) + off), "gravity at the reference, since nothing is measured"
    assert "no new joint state" in run.words()
    for _ in range(600):  # the same state again and again is not a new one
        run.give(MeasuredState(NAMES, HERE, STILL, run.stamp))
        run.give(StreamedPoint(NAMES, *point), 1e-3)
    assert np.allclose(run.sent[-1], gravity(point[0]) + off)
    run.run(0.6, q=None)  # the reference stops, too: where it was last is where the robot is
    assert run.state is FeedforwardState.HOLDING and np.allclose(run.sent[-1], gravity(point[0]))
    run.run(0.6)
    assert np.allclose(run.sent[-1], gravity()), "measured again"
    for _ in range(600):  # a driver without stamps is judged by arrival, though a robot at rest repeats its values
        run.give(MeasuredState(NAMES, HERE + 0.1, STILL, 0))
        run.give(StreamedPoint(NAMES, *point), 1e-3)
    assert np.allclose(run.sent[-1], gravity(HERE + 0.1) + off)


def test_positions_that_jump_are_not_believed_until_they_are_back_or_stay():
    run = ready(settings=FeedforwardSettings(hold=True))
    run.run(0.6)
    assert np.allclose(run.sent[-1], gravity())
    away = HERE + np.array([0.0, 1.0, -0.8])
    run.run(0.6, q=away)
    assert np.allclose(run.sent[-1], gravity()) and "jumps further" in run.words()
    run.run(0.6)
    assert np.allclose(run.sent[-1], gravity()) and run.machine.status.fresh, "back, and believed at once"
    run.run(4.5, q=away)
    assert np.allclose(run.sent[-1], gravity())
    run.run(1.5, q=away)
    assert np.allclose(run.sent[-1], gravity(away)), "it has stayed there: the encoder was set"


@pytest.mark.parametrize(("share", "believed"), [(2.8, True), (3.3, False)])
def test_a_joint_state_is_believed_up_to_three_times_the_speed_limit(share, believed):
    """Steps of 0.2 s, so that the slack for noise does not decide; each joint by its own limit."""
    limits = [joint.limits.velocity for joint in ROBOT.joints]
    for k, side in itertools.product(range(3), (-1, 1)):
        run = ready()
        away = HERE.copy()
        away[k] += side * (share * limits[k] * 0.2 + 0.02)
        run.now += 0.2
        run.see(away)
        assert ("jumps further" in run.words()) != believed


def test_a_refusal_names_what_is_missing_first():
    point = StreamedPoint(NAMES, HERE, STILL, STILL)
    for events, words in (((), "no model yet"), ((MODEL,), "effort limits"), ((DESCRIBED, MODEL), "not active")):
        assert words in Run(*events).give(point).refused


def test_nothing_is_due_while_it_is_stopped():
    run = ready(settings=FeedforwardSettings(hold=True))
    run.run(0.1)
    run.give(DeactivateFeedforward())
    run.run(0.6)
    assert run.state is FeedforwardState.STOPPED and run.machine.due == np.inf
    run.give(OptionsChanged(FeedforwardSettings(hold=True, timeout=0.07)))
    assert run.machine.due == np.inf
    run.give(ActivateFeedforward())
    assert run.machine.due == run.now, "it looks for a state to hold at"


def test_split_uses_the_background_for_streams_only_while_it_is_fresh():
    options = FeedforwardOptions(split=True, smoothing=1e-6)
    run = ready(settings=FeedforwardSettings(options, hold=False))
    dq, ddq = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    q = np.array([0.5, -0.2, 0.1])
    run.see(HERE, dq)
    assert run.give(Background()).coefficients is not None
    here = inverse_dynamics(ROBOT, CHI, HERE[None], dq[None], ddq[None])[0]
    there = inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0]
    assert np.allclose(run.give(StreamedPoint(NAMES, q, dq, ddq)).torque.tau, here, atol=1e-9)
    filled = run.give(AskFiller()).filler.filled(WAY)
    last = [x[-1][None] for x in (filled.q, filled.dq, filled.ddq)]
    assert np.allclose(filled.tau[-1], inverse_dynamics(ROBOT, CHI, *last)[0], atol=1e-6), "complete"
    run.run(0.6, q=None, point=(q, dq, ddq))
    assert np.allclose(run.sent[-1], there, atol=1e-9), "coefficients that are stale are not used"


def test_a_reference_whose_torque_is_not_finite_is_refused_and_ends_in_gravity():
    run = ready()
    wild = StreamedPoint(NAMES, HERE, np.full(3, 1e200), STILL)
    assert "not finite" in run.give(wild).refused and not run.sent and run.state is FeedforwardState.WAITING
    run.run(0.1, point=(HERE, STILL, STILL))
    assert "not finite" in run.give(wild).refused and run.state is FeedforwardState.FADING
    run.run(0.5)
    assert np.allclose(run.sent[-1], gravity())


def test_a_reference_whose_torque_is_not_finite_ends_in_gravity_without_joint_states_too():
    run = Run(DESCRIBED, MODEL, ActivateFeedforward())
    run.run(0.1, q=None, point=(HERE, STILL, np.full(3, 2.0)))
    assert "not finite" in run.give(StreamedPoint(NAMES, HERE, np.full(3, 1e200), STILL)).refused
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
            assert run.give(OptionsChanged(bad, try_only)).refused
    assert run.machine._settings.timeout == 0.05
    assert not run.give(OptionsChanged(good, try_only=True)).refused and run.machine._settings.timeout == 0.05
    assert not run.give(OptionsChanged(good)).refused and run.machine._settings.timeout == 0.07
    only = Run(OptionsChanged(FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL, ActivateFeedforward())
    assert "effort_limits" in only.give(OptionsChanged(FeedforwardSettings(hold=False))).refused, (
        "the only limits there are"
    )


def test_commands_come_in_the_order_asked_for():
    run = ready(settings=FeedforwardSettings(command_names=("elbow", "waist", "shoulder"), hold=False))
    torque = run.give(StreamedPoint(NAMES, HERE, STILL, np.array([1.0, 2.0, 3.0]))).torque
    assert torque.joint_names == NAMES and list(torque.command) == list(torque.tau[[2, 0, 1]])


def test_whatever_comes_only_torques_leave_that_may():
    seen, endings, torques = set(), 0, 0
    for seed in range(8):
        made = fuzz(seed, 2500)
        seen |= made.seen
        endings += made.endings
        torques += made.torques
    assert endings > 20 and torques > 3000
    missing = set(itertools.product(FeedforwardState, LEGAL)) - seen
    assert len(missing) <= 6, f"the fuzz meets nearly every event in every state: {missing}"


@pytest.mark.parametrize("news", ["payload", "model"])
def test_what_the_background_found_of_another_model_or_load_is_not_used(news):
    options = FeedforwardOptions(split=True, friction=False, ramp=0.02)
    run = ready(settings=FeedforwardSettings(options, hold=False, stale=10.0, rates=(1e6,)))
    ddq = np.array([0.3, -0.2, 0.5])
    run.see()
    assert run.give(Background()).coefficients is not None
    run.run(0.05, point=(HERE, STILL, ddq))
    before = inverse_dynamics(ROBOT, frictionless(ROBOT, CHI)[1], HERE[None], STILL[None], ddq[None])[0]
    np.testing.assert_allclose(run.sent[-1], before, rtol=1e-9, atol=1e-9)
    chi = CHI + load_parameters(ROBOT, LOAD, len(CHI)) if news == "payload" else 0.9 * CHI
    assert not run.give(NewPayload(LOAD) if news == "payload" else NewModel(BARE, chi, "base_parameters")).refused
    run.run(0.05, point=(HERE, STILL, ddq))
    after = inverse_dynamics(ROBOT, frictionless(ROBOT, chi)[1], HERE[None], STILL[None], ddq[None])[0]
    np.testing.assert_allclose(run.sent[-1], after, rtol=1e-9, atol=1e-9)
    assert np.abs(after - before).max() > 1.0


@pytest.mark.parametrize("begins", [-0.1, 0.05])
def test_a_streamed_point_takes_the_place_of_a_trajectory_that_runs_or_waits(begins):
    run = ready()
    run.give(NewReference(WAY, run.now + begins))
    point = (HERE, STILL, np.array([0.5, 0.1, -0.3]))
    run.run(0.6, point=point)
    assert run.state is FeedforwardState.STREAMING
    np.testing.assert_allclose(run.sent[-1], run.machine.predicted(*point), atol=1e-9)
    run.run(0.1)  # the stream has stopped: what it took the place of does not come back
    assert run.state is FeedforwardState.FADING
    run.run(0.7)
    assert run.state is FeedforwardState.HOLDING
    np.testing.assert_allclose(run.sent[-1], gravity(), atol=1e-9)


def test_without_joint_states_it_ends_where_the_reference_was_that_last_had_a_torque():
    run = Run(DESCRIBED, MODEL, ActivateFeedforward())
    run.run(0.1, q=None, point=(HERE, STILL, STILL))
    elsewhere = HERE + np.array([0.0, 0.6, -0.5])
    assert "not finite" in run.give(StreamedPoint(NAMES, elsewhere, np.full(3, 1e200), STILL)).refused
    run.run(0.8, q=None)
    np.testing.assert_allclose(run.sent[-1], gravity(), atol=1e-9)
    assert np.abs(gravity(elsewhere) - gravity()).max() > 1.0


def test_a_trajectory_that_waits_does_not_survive_a_change_of_the_output():
    run = ready()
    run.give(NewReference(WAY, run.now + 0.2))
    run.give(OutputChanged(False))
    run.give(OutputChanged(True))
    run.run(0.5)
    assert run.state is FeedforwardState.WAITING and not run.sent


def test_while_stopped_the_model_of_another_robot_is_taken_if_nobody_described_one():
    run = Run(OptionsChanged(FeedforwardSettings(efforts=(200.0,), hold=False)), MODEL)
    for robot, chi in ((LONGER, CHI), (OTHER, standard_vector(OTHER)), (BARE, CHI)):
        assert not run.give(NewModel(robot, chi, "base_parameters")).refused
        assert run.machine.robot is robot and run.machine.joint_names == robot.active_names
    run.give(ActivateFeedforward())
    assert "geometry" in run.give(NewModel(LONGER, CHI, "base_parameters")).refused
    described = Run(DESCRIBED, MODEL)
    assert "geometry" in described.give(NewModel(LONGER, CHI, "base_parameters")).refused, "stopped, but described"


def test_the_status_is_brought_up_to_date_by_the_background():
    run = ready()
    run.run(0.2, point=(HERE, STILL, STILL))
    run.see()
    assert run.give(Background()).coefficients is not None
    status = run.machine.status
    assert status.sent == len(run.sent) == 200 and status.fresh and status.state is FeedforwardState.STREAMING
