# SPDX-License-Identifier: Apache-2.0

"""What is commanded of a robot that adds a part itself: their sum is the model's torque; what is not declared stays."""

from dataclasses import replace

import numpy as np
import pytest

from feedforward_fuzz import BARE, CHI, NAMES, ROBOT, SILENT, arrived, later
from oracle import random_robot
from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.effort_command import EffortCommand, declared_command
from ros2_dynid.control.feedforward import FeedforwardModel, FeedforwardOptions, Filler, complete_torque, split_torque
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    AskFiller,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardTick,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    StreamedPoint,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.control.motion_limits import known_limits
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.control.stop import quintic
from ros2_dynid.control.torque_limiter import EffortLimits
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import (
    added_by_joint,
    added_effort,
    declare_added_effort,
    declared_sensors,
    parse_sensor,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import OFF, by_joint, standard_names
from ros2_dynid.model.robot import with_gravity
from runtime_robots import with_forces, with_terms

HERE, STILL = np.array([0.2, -0.8, 0.4]), np.zeros(3)


def robots():
    """Return robots of every kind: trees, couplings, closed loops with offsets, springs, friction terms."""
    rng = np.random.default_rng(3)
    return {
        "tree": random_robot(rng, 5, tree=True),
        "terms": with_terms(load_robot("demo6"), rng),
        "springs": with_forces(load_robot("demo6")),
        "coupled": load_robot("tx40"),
        "loop": load_robot("hitachi_hpr"),
    }


def added_by_hand(robot, chi, load, q, dq, rigid, smoothing, friction):
    """Return what the robot adds, joint by joint, as its declaration says."""
    loaded = chi + load_parameters(robot, load, len(chi))
    Q, Q_arm = (gravity_torque(robot, x, q[None])[0] for x in (loaded, chi))
    law = smooth_friction(robot, chi)
    whole, off = law.torque(dq, smoothing, rigid), law.off
    out = np.zeros(len(q))
    for a, j in enumerate(robot.active):
        adds = robot.joints[j - 1].adds
        if adds.gravity:
            out[a] += (Q if adds.payload else Q_arm)[a] + (off[a] if friction else 0.0)
        if friction:
            out[a] += adds.friction * (whole[a] - off[a])
    return out


@pytest.mark.parametrize("name", list(robots()))
def test_command_and_what_the_robot_adds_are_the_models_torque(name):
    rng = np.random.default_rng(0)
    robot = robots()[name]
    n = len(robot.active)
    chi = rng.uniform(0.2, 1.0, len(standard_names(robot)))
    load = Load(1.7, np.array([0.02, -0.1, 0.2]), 0.01 * np.eye(3), robot.active[-1])
    bare = FeedforwardModel(robot, chi)
    model = FeedforwardModel(robot, chi + load_parameters(robot, load, len(chi)), bare)
    choices = ("nothing", "gravity", "arm-gravity", "gravity+friction:0.8", "friction:0.3", "arm-gravity+friction:1")
    for k in range(12):
        robot = declare_added_effort(robot, [choices[i] for i in rng.integers(0, len(choices), n)])
        command = EffortCommand(added_by_joint(robot), np.full(n, 1e9))
        q, dq, ddq = rng.uniform(-1, 1, (3, n))
        measured = q + 0.3
        options = FeedforwardOptions(friction=k % 3 != 0, measured_gravity=k % 2 == 0)
        place = measured if options.measured_gravity else q
        total = complete_torque(model, options, q, dq, ddq, measured)
        left = complete_torque(model, options, q, dq, ddq, measured, command)
        rigid = model.rigid(q, dq, ddq) + model.gravity(place) - model.gravity(q)
        added = added_by_hand(robot, chi, load, place, dq, rigid, options.smoothing, options.friction)
        np.testing.assert_allclose(left + added, total, rtol=1e-10, atol=1e-9)
        found = model.coefficients(q, dq)
        total = split_torque(model, options, found, dq, ddq, measured)
        left = split_torque(model, options, found, dq, ddq, measured, command)
        rigid = found.M @ ddq + found.C + model.gravity(place)
        added = added_by_hand(robot, chi, load, place, dq, rigid, options.smoothing, options.friction)
        np.testing.assert_allclose(left + added, total, rtol=1e-10, atol=1e-9)


def test_filled_trajectories_leave_out_what_the_robot_adds():
    way = quintic(NAMES, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.5, 0.5]), 1.0, points=9)
    limits = EffortLimits(NAMES, np.full(3, 1e4), np.full(3, 1e9))
    model, options = FeedforwardModel(ROBOT, CHI), FeedforwardOptions()
    filled = {
        text: Filler(
            model,
            options,
            limits,
            known_limits(ROBOT),
            EffortCommand(added_by_joint(declare_added_effort(ROBOT, [text])), limits.effort),
        ).filled(way)
        for text in ("nothing", "gravity")
    }
    held = gravity_torque(ROBOT, CHI, way.q) + by_joint(ROBOT, CHI)[:, OFF]
    np.testing.assert_allclose(filled["nothing"].tau - filled["gravity"].tau, held, atol=1e-9)


def test_the_motors_sum_stays_within_their_limits():
    adds = added_by_joint(declare_added_effort(ROBOT, ["gravity"]))
    model, rng = FeedforwardModel(ROBOT, CHI), np.random.default_rng(1)
    effort = np.array([30.0, 120.0, 40.0])
    for _ in range(50):
        q, tau = rng.uniform(-1, 1, 3), rng.normal(0, 200, 3)
        command = EffortCommand(adds, effort).of(model, tau, q)
        np.testing.assert_allclose(command + model.gravity(q), np.clip(tau, -effort, effort), atol=1e-9)
    wild = np.array([np.inf, np.nan, 1.0])
    assert not np.isfinite(EffortCommand(adds, effort).of(model, wild, HERE)[:2]).any()


# --- the machine


def machine_of(*events, settings=None, stream=True):
    machine = FeedforwardMachine(settings or FeedforwardSettings(), stream)
    for event in events:
        assert not machine.handle(event(1.0)).refused
    return machine


def rest(machine, now, tau, q=HERE, seconds=0.3):
    """Let a robot at rest at q with these efforts be seen for a time at 1 kHz; return the torques sent and the time."""
    sent = []
    for k in range(round(1000 * seconds)):
        now += 1e-3
        machine.handle(arrived(NAMES, q, STILL, k + 1 + int(now * 1e6), tau)(now))
        if now >= machine.due:
            torque = machine.handle(FeedforwardTick(now)).torque
            if torque is not None:
                sent.append(torque.tau)
    return sent, now


def test_nothing_leaves_while_it_is_not_declared():
    for stream in (True, False):
        machine = machine_of(
            later(NewDescription, SILENT), later(NewModel, SILENT, CHI, "model"), ActivateFeedforward, stream=stream
        )
        assert machine.state is FeedforwardState.UNDECLARED
        sent, now = rest(machine, 1.0, None)
        way = quintic(NAMES, HERE, HERE + 0.1, 1.0)
        for event in (later(StreamedPoint, NAMES, HERE, STILL, STILL), later(NewReference, way, now), AskFiller):
            outcome = machine.handle(event(now))
            assert outcome.torque is None and outcome.trajectory is None and outcome.filler is None
            assert "robot_adds" in outcome.refused and "nothing, gravity, arm-gravity" in outcome.refused
        assert not sent and sum("robot_adds" in news.text for news in machine.news()) == 1
    with pytest.raises(InputError, match="choose nothing, gravity"):
        FeedforwardSettings(robot_adds=("everything",))


def test_a_model_in_amperes_commands_nothing_whatever_is_declared():
    currents = declared_sensors(BARE, "current")
    for stream in (True, False):
        machine = machine_of(
            later(NewDescription, ROBOT), later(NewModel, currents, CHI, "model"), ActivateFeedforward, stream=stream
        )
        sent, now = rest(machine, 1.0, None)
        way = quintic(NAMES, HERE, HERE + 0.1, 1.0)
        for event in (later(StreamedPoint, NAMES, HERE, STILL, STILL), later(NewReference, way, now), AskFiller):
            outcome = machine.handle(event(now))
            assert outcome.torque is None and outcome.trajectory is None and outcome.filler is None
            assert "in amperes; find the gains" in outcome.refused
        assert not sent
    with pytest.raises(InputError, match="in amperes"):
        runtime_bytes(currents, CHI)


def test_the_parameter_comes_before_the_model_and_the_model_before_the_description():
    lifted, plain = declare_added_effort(ROBOT, ["gravity"]), declare_added_effort(BARE, ["nothing"])
    silent = replace(SILENT, joints=tuple(replace(joint, limits=BARE.joints[0].limits) for joint in SILENT.joints))
    Q = gravity_torque(ROBOT, CHI, HERE[None])[0]
    for texts, model, described, expected in (
        (("nothing",), declare_added_effort(BARE, ["gravity"]), lifted, Q),
        ((), plain, lifted, Q),
        ((), silent, lifted, 0 * Q),
        (("nothing", "gravity", "nothing"), silent, ROBOT, Q * (1, 0, 1)),
    ):
        settings = FeedforwardSettings(robot_adds=texts)
        machine = machine_of(
            later(NewDescription, described), later(NewModel, model, CHI, "m"), ActivateFeedforward, settings=settings
        )
        sent, _ = rest(machine, 1.0, None)
        np.testing.assert_allclose(sent[-1], expected, atol=1e-9)


def test_an_arm_that_adds_gravity_is_held_and_left_with_zero_and_its_unknown_payload_is_carried():
    load = Load(3.0, np.array([0.0, 0.3, 0.0]), 0.01 * np.eye(3), 3)
    own = gravity_torque(ROBOT, load_parameters(ROBOT, load, len(CHI)), HERE[None])[0]
    for text, expected in (("gravity", np.zeros(3)), ("arm-gravity", own)):
        settings = FeedforwardSettings(robot_adds=(text,))
        machine = machine_of(
            later(NewDescription, ROBOT), later(NewModel, BARE, CHI, "m"), ActivateFeedforward, settings=settings
        )
        sent, now = rest(machine, 1.0, np.full(3, 0.01))
        np.testing.assert_allclose(sent, np.zeros((len(sent), 3)), atol=1e-12)
        assert not machine.handle(NewPayload(now, load)).refused
        sent, now = rest(machine, now, np.full(3, 0.01), seconds=0.5)
        np.testing.assert_allclose(sent[-1], expected, atol=1e-9)
        machine.handle(DeactivateFeedforward(now))
        sent, now = rest(machine, now, np.full(3, 0.01), seconds=1.0)
        assert machine.state is FeedforwardState.STOPPED
        np.testing.assert_allclose(sent[-1], expected, atol=1e-9)


def test_a_model_that_declares_something_else_is_refused_while_torques_leave():
    machine = machine_of(later(NewDescription, SILENT), later(NewModel, BARE, CHI, "m"), ActivateFeedforward)
    _, now = rest(machine, 1.0, None)
    assert machine.state is FeedforwardState.HOLDING
    other = later(NewModel, declare_added_effort(BARE, ["gravity"]), CHI, "m")
    assert "deactivate first" in machine.handle(other(now)).refused
    assert "not declared" in machine.handle(NewModel(now, SILENT, CHI, "m")).refused
    assert not machine.handle(NewModel(now, BARE, CHI, "m")).refused


# --- efforts at rest


def test_a_declaration_that_efforts_at_rest_contradict_is_refused_before_the_first_torque():
    Q = gravity_torque(ROBOT, CHI, HERE[None])[0]
    events = later(NewDescription, ROBOT), later(NewModel, BARE, CHI, "m"), ActivateFeedforward
    little = np.full(3, 0.5)
    machine = machine_of(*events)
    sent, now = rest(machine, 1.0, little)
    assert not sent and machine.state is FeedforwardState.UNDECLARED
    assert any(news.warning and "seems to hold itself" in news.text for news in machine.news())
    assert "robot_adds" in machine.handle(StreamedPoint(now, NAMES, HERE, STILL, STILL)).refused
    # a reference that comes before the average is whole is judged by what there is
    machine = machine_of(*events)
    machine.handle(arrived(NAMES, HERE, STILL, 1, little)(1.001))
    assert "seems to hold itself" in machine.handle(StreamedPoint(1.002, NAMES, HERE, STILL, STILL)).refused
    # activated anew, it is looked at again: the brakes are released
    machine.handle(DeactivateFeedforward(1.1))
    machine.handle(ActivateFeedforward(1.2))
    sent, _ = rest(machine, 1.2, Q)
    np.testing.assert_allclose(sent[-1], Q, atol=1e-9)


@pytest.mark.parametrize(
    "case", ["held", "unknown", "zeros", "not finite", "moving", "switched off", "friction", "unloaded"]
)
def test_what_is_not_certain_is_not_refused(case):
    Q = gravity_torque(ROBOT, CHI, HERE[None])[0]
    settings = FeedforwardSettings(check_rest=case != "switched off", robot_adds=("nothing",))
    chi = CHI.copy()
    if case == "friction":  # it could hold the arm
        by_joint(ROBOT, chi)[:, 12] = np.abs(Q)
    if case == "unloaded":
        chi = chi * (np.arange(len(chi)) % 14 > 9)
    machine = machine_of(
        later(NewDescription, ROBOT), later(NewModel, BARE, chi, "m"), ActivateFeedforward, settings=settings
    )
    tau = {"held": Q, "unknown": None, "zeros": STILL, "not finite": np.array([np.nan, 1, 1])}.get(
        case, np.full(3, 0.5)
    )
    sent = []
    for k in range(300):
        now = 1.0 + 1e-3 * k
        dq = np.full(3, 0.1) if case == "moving" else STILL
        machine.handle(arrived(NAMES, HERE, dq, k + 1, tau)(now))
        torque = machine.handle(FeedforwardTick(now)).torque if now >= machine.due else None
        sent += [torque.tau] if torque is not None else []
    assert len(sent) > 100 and not any("seems" in news.text for news in machine.news())


def test_efforts_that_hold_the_arm_are_refused_where_gravity_is_declared_unless_they_are_declared_to():
    Q = gravity_torque(ROBOT, CHI, HERE[None])[0]
    events = later(NewDescription, ROBOT), later(NewModel, BARE, CHI, "m"), ActivateFeedforward
    machine = machine_of(*events, settings=FeedforwardSettings(robot_adds=("gravity",)))
    sent, _ = rest(machine, 1.0, Q)
    assert not sent and machine.state is FeedforwardState.UNDECLARED
    assert any("it would fall" in news.text and news.warning for news in machine.news())
    machine = machine_of(*events, settings=FeedforwardSettings(robot_adds=("gravity",), robot_measures=("motor",)))
    sent, _ = rest(machine, 1.0, Q)
    np.testing.assert_allclose(sent, np.zeros((len(sent), 3)), atol=1e-12)
    assert sent and not any(news.warning for news in machine.news())
    with pytest.raises(InputError, match="the sensor is"):
        FeedforwardSettings(robot_measures=("gear",))


@pytest.mark.parametrize("adds", ["gravity", "gravity+friction:0.8", "nothing", "friction:0.3"])
@pytest.mark.parametrize("measures", ["motor", "motor-gravity", "motor-gravity-friction:0.8", "motor-friction:0.5"])
def test_a_model_of_efforts_that_lack_a_part_commands_what_the_motors_need(adds, measures):
    """The motors shall give tau = M ddq + ... + Q + F; the model was identified from what the efforts hold of that."""
    rng, robot = np.random.default_rng(5), declare_added_effort(declared_sensors(ROBOT, measures), [adds])
    lacks, told = parse_sensor(measures), added_effort(adds)
    chi = CHI.copy()
    by_joint(ROBOT, chi)[:, 11:13] *= 1.0 - lacks.missing
    robot = robot if lacks.gravity else with_gravity(robot, (0.0, 0.0, 0.0))
    limits = EffortLimits(NAMES, np.full(3, 1e9), np.full(3, 1e9))
    command = declared_command(robot, ROBOT, FeedforwardSettings(), limits)
    assert command.unheld == (not lacks.gravity and not told.gravity)
    if command.unheld:
        return
    full, model, options = FeedforwardModel(ROBOT, CHI), FeedforwardModel(robot, chi), FeedforwardOptions()
    for _ in range(5):
        q, dq, ddq = rng.uniform(-1, 1, (3, 3))
        F = full.friction(q, dq, options.smoothing, full.rigid(q, dq, ddq)) - full.offset
        tau = complete_torque(full, options, q, dq, ddq, q)
        left = complete_torque(model, options, q, dq, ddq, q, command)
        # an offset is part of what holds the robot still, and stays in efforts that lack gravity
        added = told.gravity * (full.gravity(q) + lacks.gravity * full.offset) + told.friction * F
        np.testing.assert_allclose(left + added, tau, rtol=1e-10, atol=1e-9)
