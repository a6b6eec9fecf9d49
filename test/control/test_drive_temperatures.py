# SPDX-License-Identifier: Apache-2.0

"""Friction at the temperature of the drives: the law by its definition, the feedforward that follows it, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from bagmaker import control_store
from feedforward_fuzz import BARE, CHI, NAMES, ROBOT, arrived, later
from ros2_dynid.control.drive_temperatures import DriveTemperatures
from ros2_dynid.control.feedforward import FeedforwardModel, FeedforwardOptions, complete_torque, split_torque
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    AskFiller,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardTick,
    MeasuredTemperature,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    StreamedPoint,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.held_load import Load
from ros2_dynid.control.momentum_observer import MomentumObserver
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.friction_law import at_temperature, references
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

TERMS = (
    FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, -0.05, reference=35.0),
    FrictionTerm(2, FrictionKind.LOAD, 0.1),
    FrictionTerm(3, FrictionKind.TEMPERATURE, 0.04, reference=28.0),
)
WARM = replace(ROBOT, friction=TERMS)
Q, DQ, DDQ = np.array([0.2, -0.8, 0.4]), np.array([1.0, 0.9, -1.2]), np.array([1.0, -2.0, 3.0])
T = np.array([60.0, 50.0, 48.0])
MORE = np.array([0.0, -0.05 * 15.0 * 0.9, -0.04 * 20.0])
"""What the terms of the temperature add at T, by hand."""
ONE = np.array([0.0, -0.05 * 0.9, -0.04])
"""What one degree more adds."""
UNKNOWN = np.full(3, np.nan)


def test_a_law_at_a_temperature_has_that_much_more_viscous_and_coulomb_friction():
    robot, chi = at_temperature(WARM, CHI, T)
    assert [term.kind for term in robot.friction] == [FrictionKind.LOAD]
    tau = inverse_dynamics(robot, chi, Q[None], DQ[None], DDQ[None])[0]
    assert np.allclose(tau, inverse_dynamics(WARM, CHI, Q[None], DQ[None], DDQ[None], T[None])[0])
    cold, same = at_temperature(WARM, CHI, UNKNOWN)
    assert np.array_equal(same, CHI)
    assert np.allclose(tau - inverse_dynamics(cold, same, Q[None], DQ[None], DDQ[None])[0], MORE)
    # the line leads below zero at 35 + 2.8 / 0.05 = 91 deg C: friction does not push
    _, far = at_temperature(WARM, CHI, np.array([60.0, 150.0, -60.0]))
    changed = np.flatnonzero(far != CHI)
    assert np.array_equal(changed, [14 + 11, 28 + 12]) and np.all(far[changed] == 0.0)
    with pytest.raises(InputError, match="2 temperatures for 3 joints"):
        at_temperature(WARM, CHI, T[:2])


def test_complete_and_split_torques_follow_the_temperature():
    model, options = FeedforwardModel(WARM, CHI), FeedforwardOptions()
    warm = model.at_temperature(T)
    found = model.coefficients(Q, DQ)
    for torque in (
        lambda m: complete_torque(m, options, Q, DQ, DDQ),
        lambda m: split_torque(m, options, found, DQ, DDQ),
    ):
        assert np.allclose(torque(warm) - torque(model), MORE)
        assert np.allclose(torque(warm.at_temperature(UNKNOWN)), torque(model))
    expected = inverse_dynamics(WARM, CHI, Q[None], DQ[None], DDQ[None], T[None])[0]
    assert np.allclose(complete_torque(warm, options, Q, DQ, DDQ), expected)


def test_temperatures_that_cannot_be_are_not_used_and_old_ones_are_forgotten():
    heard = DriveTemperatures()
    wrong = heard.take(("a", *NAMES), np.array([20.0, 30.0, np.nan, 320.0]), 5.0)
    assert wrong == [
        f"the temperature of {NAMES[1]!r} is nan deg C: not used",
        f"the temperature of {NAMES[2]!r} is 320 deg C: not used",
    ]
    assert heard.take(NAMES, np.array([-273.15, 40.0, 41.0]), 8.0) == [
        f"the temperature of {NAMES[0]!r} is -273.15 deg C: not used"
    ]
    assert np.array_equal(heard.at(WARM, 9.0, 10.0), [30.0, 40.0, 41.0])
    assert np.array_equal(heard.at(WARM, 16.0, 10.0), [np.nan, 40.0, 41.0], equal_nan=True)
    assert references(WARM) == {1: 35.0, 2: 28.0} and references(ROBOT) == {}


class Streamed:
    """A machine that streams the torque of one moving point at 1 kHz."""

    def __init__(self, robot):
        self.machine = FeedforwardMachine(FeedforwardSettings(hold=False, temperature_stale=2.0), True)
        self.now, self.stamp, self.words = 1.0, 0, []
        for event in (later(NewDescription, ROBOT), later(NewModel, robot, CHI, "test"), ActivateFeedforward):
            assert not self.machine.handle(event(self.now)).refused

    def tell(self, temperature, names=NAMES):
        return self.machine.handle(MeasuredTemperature(self.now, names, np.asarray(temperature)))

    def run(self, seconds):
        """Return all torques sent in that time."""
        sent = []
        for _ in range(round(1000 * seconds)):
            self.now += 1e-3
            self.stamp += 1
            self.machine.handle(arrived(NAMES, Q, DQ, self.stamp)(self.now))
            sent.append(self.machine.handle(StreamedPoint(self.now, NAMES, Q, DQ, DDQ)).torque.tau)
        self.words += [news.text for news in self.machine.news()]
        return np.array(sent)


def test_streamed_torques_follow_and_fall_back_without_a_step():
    stream = Streamed(replace(BARE, friction=TERMS))
    cold = stream.run(0.5)[-1]
    at_reference = inverse_dynamics(WARM, CHI, Q[None], DQ[None], DDQ[None])[0]
    assert np.allclose(cold, at_reference)
    said = [
        f"the temperature of {NAMES[k]!r} is not known: its friction is that at {at} deg C"
        for k, at in ((1, 35), (2, 28))
    ]
    assert [text for text in stream.words if "temperature" in text] == said
    assert "not known" in stream.machine.status.temperature
    stream.tell(T)
    sent = np.vstack((cold, stream.run(0.5)))
    assert np.allclose(sent[-1] - cold, MORE)
    assert np.abs(np.diff(sent, axis=0)).max() < 0.01, "over a ramp"
    # a degree more is followed at once, less than it can be told from is not
    stream.tell(T + 1.0)
    assert np.allclose(stream.run(0.01)[-1] - cold, MORE + ONE)
    stream.tell(T + 1.05)
    assert np.allclose(stream.run(0.01)[-1] - cold, MORE + ONE)
    stream.tell(T)
    # what cannot be is told once and not used
    before = len(stream.words)
    for _ in range(3):
        stream.tell([60.0, np.inf, 48.0])
    assert np.allclose(stream.run(0.01)[-1] - cold, MORE)
    assert stream.words[before:] == [f"the temperature of {NAMES[1]!r} is inf deg C: not used"]
    assert stream.tell(T[:2]).refused == "2 temperatures for 3 joints; give one for each joint"
    # a payload keeps the temperature; the filler and the observer's model have it, too
    load = later(NewPayload, Load(1.0, np.array([0.0, 0.1, 0.0]), 0.01 * np.eye(3), 3))
    assert not stream.machine.handle(load(stream.now)).refused
    loaded = stream.machine.carried
    assert loaded is not None and np.allclose(loaded.chi[14 + 11] - CHI[14 + 11], -0.75)
    assert MomentumObserver(loaded.robot, loaded.chi).robot.friction == (TERMS[1],)
    stream.machine.handle(NewPayload(stream.now, Load(0.0, np.zeros(3), np.zeros((3, 3)), 3)))
    way = quintic(NAMES, np.array([0.0, -1.0, 0.0]), np.array([0.9, 0.0, 1.0]), 1.0)
    filler = stream.machine.handle(AskFiller(stream.now)).filler
    assert filler is not None
    filled = filler.filled(way, 50.0)
    assert filled.tau is not None and filled.dq is not None and filled.ddq is not None
    expected = inverse_dynamics(WARM, CHI, filled.q, filled.dq, filled.ddq, np.tile(T, (len(filled.t), 1)))
    moving = np.all(np.abs(filled.dq) > 0.4, axis=1)
    assert moving.sum() > 5 and np.allclose(filled.tau[moving], expected[moving])
    # nothing for two seconds: back to T0
    stream.run(2.6)
    assert np.allclose(stream.run(0.1)[-1], at_reference)


def test_other_robots_do_not_care():
    stream = Streamed(BARE)
    before = stream.run(0.4)[-1]
    stream.tell(T)
    assert np.array_equal(stream.run(0.4)[-1], before)
    assert stream.machine.status.temperature == "" and not any("temperature" in text for text in stream.words)


def test_temperatures_of_a_dynamic_joint_state():
    pytest.importorskip("rclpy")
    from ros2_dynid.nodes.common.temperatures import dynamic_temperatures

    store = control_store()
    value, dynamic = (store.types[f"control_msgs/msg/{n}"] for n in ("InterfaceValue", "DynamicJointState"))
    states = [
        value(interface_names=["position", "temperature"], values=np.array([0.1, 41.0])),
        value(interface_names=["position", "velocity"], values=np.array([0.2, 0.3])),
        value(interface_names=["temperature"], values=np.array([-5.5])),
    ]
    message = dynamic(header=None, joint_names=["a", "b", "c"], interface_values=states)
    assert dynamic_temperatures(message) == {"a": 41.0, "c": -5.5}


def test_what_the_robot_weighs_is_at_the_last_temperatures_not_at_the_sum_of_all():
    stream = Streamed(replace(BARE, friction=TERMS))
    for more in (0.0, 10.0, -3.0):
        stream.tell(T + more)
        carried = stream.machine.carried
        assert carried is not None
        np.testing.assert_allclose(carried.chi, at_temperature(WARM, CHI, T + more)[1], rtol=1e-12)
        np.testing.assert_array_equal(carried.cold, CHI)


def test_a_temperature_that_goes_missing_again_is_told_again():
    stream = Streamed(replace(BARE, friction=TERMS))
    stream.run(0.1)
    first = [text for text in stream.words if "not known" in text]
    stream.run(0.1)
    assert len(first) == 2 and [text for text in stream.words if "not known" in text] == first, "once"
    stream.tell(T)
    stream.run(2.2)
    assert [text for text in stream.words if "not known" in text] == [*first, *first]


@pytest.mark.parametrize("joint", [1, 2])
def test_friction_follows_each_drive_by_a_tenth_of_a_degree(joint):
    stream = Streamed(replace(BARE, friction=TERMS))
    stream.tell(T)
    before = stream.run(0.4)[-1]
    one = np.where(np.arange(3) == joint, 1.0, 0.0)
    for change, followed in ((0.09, False), (-0.09, False), (0.11, True)):
        stream.tell(T + change * one)
        after = stream.run(0.002)[-1]
        np.testing.assert_allclose(after - before, followed * change * one * ONE, atol=1e-9)
        stream.machine.tell()
        assert f"{NAMES[joint]} {T[joint] + followed * change:.1f} deg C" in stream.machine.status.temperature


@pytest.mark.parametrize("joint", [1, 2])
@pytest.mark.parametrize("side", [-1, 1])
def test_friction_goes_over_a_ramp_where_a_drive_is_two_degrees_warmer_at_once(joint, side):
    one = np.where(np.arange(3) == joint, 1.0, 0.0)
    for change, ramped in ((1.9, False), (2.1, True)):
        stream = Streamed(replace(BARE, friction=TERMS))
        stream.tell(T)
        before = stream.run(0.4)[-1]
        stream.tell(T + side * change * one)
        sent = stream.run(0.4)
        np.testing.assert_allclose(sent[-1] - before, side * change * one * ONE, atol=1e-9)
        assert np.allclose(sent[0], sent[-1], atol=1e-9) != ramped


def test_a_drive_whose_temperature_goes_missing_is_at_its_reference_again_over_a_ramp():
    stream = Streamed(replace(BARE, friction=TERMS))
    stream.tell(T)
    stream.run(1.0)
    stream.tell(T[[0, 2]], (NAMES[0], NAMES[2]))
    warm = stream.run(0.9)[-1]
    sent = np.vstack((warm, stream.run(0.7)))
    np.testing.assert_allclose(sent[-1] - warm, [0.0, -MORE[1], 0.0], atol=1e-9)
    assert np.abs(np.diff(sent, axis=0)).max() < 0.01, "over a ramp"
    assert stream.words[-1] == f"the temperature of {NAMES[1]!r} is not known: its friction is that at 35 deg C"
    stream.machine.tell()
    assert stream.machine.status.temperature == f"{NAMES[1]} not known, {NAMES[2]} 48.0 deg C"


def test_a_model_without_terms_of_the_temperature_asks_for_none():
    stream = Streamed(replace(BARE, friction=TERMS))
    stream.run(0.01)
    told = [text for text in stream.words if "temperature" in text]
    assert not stream.machine.handle(NewModel(stream.now, BARE, CHI, "test")).refused
    stream.run(0.01)
    assert stream.machine.status.temperature == ""
    assert [text for text in stream.words if "temperature" in text] == told
    assert not stream.machine.handle(NewModel(stream.now, replace(BARE, friction=TERMS[:2]), CHI, "test")).refused
    stream.run(0.01)
    assert stream.machine.status.temperature == f"{NAMES[1]} not known"
    bars = ErrorBars(np.ones(3), np.full(3, 2.0))
    assert not stream.machine.handle(NewModel(stream.now, replace(BARE, friction=TERMS), CHI, "test", bars)).refused
    for temperature in (T, T + 5.0):
        stream.tell(temperature)
        assert stream.machine.carried is not None and stream.machine.carried.bars is bars


def test_temperatures_from_sixty_below_zero_to_two_hundred_are_used_while_they_last():
    for value, used in ((-60.5, False), (-59.5, True), (0.0, True), (150.0, True), (199.5, True), (200.5, False)):
        heard = DriveTemperatures()
        assert bool(heard.take(NAMES, np.array([value, 30.0, 40.0]), 5.0)) != used
        assert np.array_equal(heard.at(WARM, 5.0, 10.0), [value if used else np.nan, 30.0, 40.0], equal_nan=True)
    turned = replace(WARM, joints=tuple(replace(j, name=n) for j, n in zip(WARM.joints, "cab", strict=True)))
    heard = DriveTemperatures()
    heard.take(("a", "b", "c"), np.array([1.0, 2.0, 3.0]), 5.0)
    assert np.array_equal(heard.at(turned, 14.9, 10.0), [3.0, 1.0, 2.0])
    assert np.isnan(heard.at(turned, 15.1, 10.0)).all()


@pytest.mark.parametrize("ask", ["trajectory", "filler"])
def test_trajectories_are_filled_at_the_temperatures_of_now(ask):
    settings = FeedforwardSettings(hold=False, temperature_stale=2.0)
    machine = FeedforwardMachine(settings, stream=False)
    for event in (
        later(NewDescription, ROBOT),
        later(NewModel, replace(BARE, friction=TERMS), CHI, "test"),
        ActivateFeedforward,
    ):
        machine.handle(event(1.0))
    machine.handle(MeasuredTemperature(1.0, NAMES, T))
    machine.news()
    way = reference(
        NAMES, np.array([0.0, 1.0]), np.array([Q, Q + DQ / 2]), np.array([DQ, 0 * DQ]), np.array([DDQ, DDQ])
    )
    for now, temperature in ((2.9, T), (3.1, None)):
        machine.handle(arrived(NAMES, Q, DQ, round(1e9 * now))(now))
        if ask == "trajectory":
            filled = machine.handle(NewReference(now, way, now)).trajectory
        else:
            filled = machine.handle(AskFiller(now)).filler.filled(way)
        wanted = inverse_dynamics(
            WARM, CHI, Q[None], DQ[None], DDQ[None], None if temperature is None else temperature[None]
        )
        np.testing.assert_allclose(filled.tau[0], wanted[0], atol=1e-6)
        said = [news for news in machine.news() if "not known" in news.text]
        assert len(said) == (0 if temperature is not None else 2) and all(news.warning for news in said)


def test_a_temperature_that_cannot_be_is_a_warning():
    stream = Streamed(replace(BARE, friction=TERMS))
    stream.machine.news()
    stream.tell([60.0, 500.0, 48.0])
    assert [(news.text, news.warning) for news in stream.machine.news()] == [
        (f"the temperature of {NAMES[1]!r} is 500 deg C: not used", True)
    ]


def test_temperatures_count_for_a_minute_unless_it_is_set():
    assert FeedforwardSettings().temperature_stale == 60.0


@pytest.mark.parametrize("comes", ["states", "points"])
def test_temperatures_grow_old_whatever_else_comes(comes):
    stream = Streamed(replace(BARE, friction=TERMS))
    stream.run(0.001)
    stream.tell(T)
    for now, warm in ((2.9, True), (3.1, False)):
        if comes == "states":
            stream.machine.handle(arrived(NAMES, Q, DQ, round(1e9 * now))(now))
        else:
            assert not stream.machine.handle(StreamedPoint(now, NAMES, Q, DQ, DDQ)).refused
        carried = stream.machine.carried
        assert carried is not None
        np.testing.assert_allclose(carried.chi, at_temperature(WARM, CHI, T if warm else UNKNOWN)[1], rtol=1e-12)


def test_a_model_that_goes_takes_its_temperatures_with_it():
    efforts = FeedforwardSettings(hold=False, efforts=(400.0,))
    other = load_robot("demo6")
    machine = FeedforwardMachine(efforts, True)

    def streamed(robot, chi):
        for event in (later(NewModel, robot, chi, "test"), ActivateFeedforward):
            assert not machine.handle(event(1.0)).refused
        still = np.zeros(len(robot.active))
        machine.handle(arrived(robot.active_names, still, still, 1)(1.0))
        machine.handle(StreamedPoint(1.0, robot.active_names, still, still, still))
        machine.handle(DeactivateFeedforward(1.0))
        for k in range(100):
            machine.handle(FeedforwardTick(1.0 + 0.02 * k))
        assert machine.state is FeedforwardState.STOPPED
        return [news.text for news in machine.news() if "not known" in news.text]

    terms = (FrictionTerm(2, FrictionKind.TEMPERATURE, 0.04, reference=25.0),)
    assert len(streamed(replace(BARE, friction=TERMS), CHI)) == 2
    told = streamed(replace(other, friction=terms), standard_vector(other))
    assert told == [f"the temperature of {other.active_names[1]!r} is not known: its friction is that at 25 deg C"]
    waiting = Streamed(replace(BARE, friction=TERMS))
    waiting.machine.handle(NewDescription(waiting.now, other))
    assert waiting.machine.carried is None and waiting.machine.status.temperature == ""


def test_a_model_is_at_the_temperatures_that_were_told_before_it_came():
    stream = Streamed(BARE)
    stream.tell(T)
    stream.machine.handle(NewModel(stream.now, replace(BARE, friction=TERMS), CHI, "test"))
    carried = stream.machine.carried
    assert carried is not None
    np.testing.assert_allclose(carried.chi, at_temperature(WARM, CHI, T)[1], rtol=1e-12)


@pytest.mark.parametrize("values", [T[:2], np.append(T, 40.0), T[None], np.array(40.0)])
def test_temperatures_are_one_for_each_joint(values):
    stream = Streamed(replace(BARE, friction=TERMS))
    assert f"{values.size} temperatures for 3 joints" in stream.tell(values).refused
    stream.machine.tell()
    assert stream.machine.status.temperature == f"{NAMES[1]} not known, {NAMES[2]} not known"
