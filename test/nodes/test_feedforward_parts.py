# SPDX-License-Identifier: Apache-2.0

"""What the feedforward node makes of parameters, references, joint states and loads: part by part, without a graph."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Inertia, Vector3
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from ros2_dynid.msg import BaseParameters
from ros2_dynid.srv import FillEfforts, SetPayload
from sensor_msgs.msg import Temperature

from in_process import Kept, joint_state, node_of, ros, soon
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.external_wrench import external_wrench
from ros2_dynid.control.feedforward import FeedforwardOptions
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    AskFiller,
    Background,
    CarriedModel,
    DeactivateFeedforward,
    FeedforwardOutcome,
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
    News,
    OptionsChanged,
    OutputChanged,
    StreamedPoint,
)
from ros2_dynid.control.feedforward_machine import LONGEST_ENDING
from ros2_dynid.control.reference import reference
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.model_file import TorqueError, model_of, save_model
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.model_messages import model_message
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.nodes.common.temperatures import Temperatures
from ros2_dynid.nodes.feedforward import external_effort
from ros2_dynid.nodes.feedforward.external_effort import MOST, ExternalEffort, Feeling
from ros2_dynid.nodes.feedforward.node import FeedforwardNode
from ros2_dynid.nodes.feedforward.owner import FeedforwardOwner
from ros2_dynid.nodes.feedforward.services import FeedforwardServices
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput
from ros2_dynid.recording.live import LiveStates

pytestmark = pytest.mark.in_process

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
HERE = np.array([0.3, -0.9, 0.5])


class Log:
    """Keeps what is logged."""

    def __init__(self):
        self.said = []

    def _keep(self, level):
        return lambda text, **options: self.said.append((level, text))

    def __getattr__(self, level):
        return self._keep(level)


class Stub:
    """A node with publishers that keep, and services and subscriptions by name."""

    def __init__(self):
        self.made, self.log = {}, Log()

    def create_publisher(self, kind, topic, qos):
        self.made[topic] = Kept(topic)
        return self.made[topic]

    def create_service(self, kind, name, callback, callback_group=None):
        self.made[name] = callback

    def create_subscription(self, kind, topic, callback, qos, **options):
        self.made[topic] = callback
        return topic

    def create_timer(self, period, callback):
        self.made["timer"] = (period, callback)

    def get_logger(self):
        return self.log


# --- the node: parameters, lifecycle, status

OPTIONS = {
    "output": "effort", "hold_gravity_on_activate": "false", "rate": 500.0, "split": "true", "gravity_only": "true",
    "friction": "false", "measured_gravity": "true", "smoothing": 0.03, "ramp_seconds": 0.4, "timeout": 0.06,
    "stale_seconds": 0.07, "temperature_stale_seconds": 8.0, "point_rate": 90.0,
    "joint_order": "[elbow, waist, shoulder]", "effort_limits": "[10.0, 11.0, 12.0]",
    "effort_rates": "[500.0, 510.0, 520.0]", "background_rate": 40.0,
    "observer_bandwidth": 13.0, "contact_thresholds": "[14.0, 15.0, 16.0]", "wrench_link": "hand",
    "predicted_rate": 17.0, "priority": 0,
}  # fmt: skip
MEANT = FeedforwardSettings(
    options=FeedforwardOptions(
        gravity_only=True, friction=False, smoothing=0.03, measured_gravity=True, split=True, ramp=0.4
    ),
    timeout=0.06,
    stale=0.07,
    hold=False,
    period=0.002,
    efforts=(10.0, 11.0, 12.0),
    rates=(500.0, 510.0, 520.0),
    command_names=("elbow", "waist", "shoulder"),
    point_rate=90.0,
    temperature_stale=8.0,
)


def test_every_parameter_is_its_own_setting():
    with node_of(FeedforwardNode, **OPTIONS, autostart="false") as node:
        assert node._settings({}) == MEANT
        assert node._feeling({}) == Feeling(13.0, (14.0, 15.0, 16.0), "hand")
        changed = node._settings({"timeout": 0.5, "rate": 100.0, "joint_order": [""]})
        assert (changed.timeout, changed.period, changed.command_names) == (0.5, 0.01, ())
        assert (changed.stale, changed.efforts) == (0.07, (10.0, 11.0, 12.0))
        changes = {"observer_bandwidth": 20.0, "contact_thresholds": [1.0], "wrench_link": "tool"}
        assert node._feeling(changes) == Feeling(20.0, (1.0,), "tool")
        node.trigger_configure()
        assert node.machine._settings == MEANT and node.machine._stream
        assert node.owner.background_period == 1 / 40.0 and node._predicted.rate == 17.0
        assert node.external._feeling == Feeling(13.0, (14.0, 15.0, 16.0), "hand")


@pytest.mark.parametrize("simulated", [True, False])
def test_what_is_sent_is_stamped_by_the_clock_of_the_joint_states(simulated):
    with node_of(FeedforwardNode, robot="demo3", priority=0, use_sim_time=simulated, autostart="false") as node:
        node.now_ns = lambda: 7
        node.trigger_configure()
        assert node.output._now_ns() == 7 if simulated else node.output._now_ns is time.time_ns
        assert node.owner._now_ns() == 7, "references are stamped by the node's clock"


@pytest.fixture
def spied():
    """Return an active node, and the events that its owner is asked from now on."""
    with node_of(FeedforwardNode, robot="demo3", priority=0) as node:
        asked, ask = [], node.owner.ask

        def spy(event):
            asked.append(event)
            return ask(event)

        node.owner.ask = spy
        yield node, asked


def test_a_change_is_tried_first_and_then_takes_effect(spied):
    node, asked = spied
    (answer,) = node.set_parameters([Parameter("ramp_seconds", value=0.7)])
    assert answer.successful
    tried, done = asked
    assert tried.try_only and not done.try_only
    assert tried.settings == done.settings and done.settings.options.ramp == 0.7
    for name, value in (("background_rate", 20.0), ("predicted_rate", 30.0), ("observer_bandwidth", 40.0)):
        node.set_parameters([Parameter(name, value=value)])
    assert node.owner.background_period == 1 / 20.0 and node._predicted.rate == 30.0
    assert node.external._feeling.bandwidth == 40.0
    asked.clear()
    waited, wait = [], node.owner.wait_until

    def wait_until(states, timeout):
        waited.append(states)
        return wait(states, timeout)

    node.owner.wait_until = wait_until
    node.set_parameters([Parameter("output", value="effort")])
    assert waited == [frozenset(FeedforwardState) - {FeedforwardState.ENDING}], "over before the change is answered"
    assert [type(event) for event in asked] == [OptionsChanged, OptionsChanged, OutputChanged]
    assert asked[-1].stream is True
    node.set_parameters([Parameter("output", value="trajectory")])
    assert asked[-1].stream is False
    tried = []

    def refuses(event):
        tried.append(event.try_only)
        raise DynidError("effort_limits do not fit")

    ask, node.owner.ask = node.owner.ask, refuses
    (answer,) = node.set_parameters([Parameter("effort_limits", value=[1.0, 2.0])])
    assert not answer.successful and answer.reason == "effort_limits do not fit"
    assert tried == [True] and list(node.value("effort_limits")) == [0.0]
    node.owner.ask = ask


def test_it_listens_while_it_is_active_and_ends_before_it_is_not(spied):
    node, asked = spied
    heard = node._heard
    assert [subscription.topic_name for subscription in heard] == ["/reference", "/joint_states"]
    assert node.owner._subscriptions == heard
    ended, wait = [], node.owner.wait_until

    def wait_until(states, timeout):
        ended.append((states, timeout, type(asked[-1]), node.owner._subscriptions))
        return wait(states, timeout)

    node.owner.wait_until = wait_until
    node.trigger_deactivate()
    assert [type(event) for event in asked] == [DeactivateFeedforward]
    ((states, timeout, event, listening),) = ended
    assert states == {FeedforwardState.STOPPED} and timeout > LONGEST_ENDING
    assert event is DeactivateFeedforward and listening == heard, "it ends in gravity while it still listens"
    assert node.owner._subscriptions is None and node._heard is None
    node.trigger_activate()
    assert isinstance(asked[-1], ActivateFeedforward) and node.owner._subscriptions == node._heard
    node.on_robot(ROBOT)
    assert isinstance(asked[-1], NewDescription) and asked[-1].robot is ROBOT
    node._temperatures._take(("elbow", "waist"), np.array([31.5, 40.0]))
    assert isinstance(asked[-1], MeasuredTemperature) and asked[-1].joint_names == ("elbow", "waist")
    np.testing.assert_array_equal(asked[-1].temperature, (31.5, 40.0))
    owner, external = node.owner, node.external
    node.trigger_shutdown()
    assert isinstance(asked[-1], DeactivateFeedforward), "also when it is shut down while active"
    assert node.owner is None and not owner._thread.is_alive() and not external._thread.is_alive()


def test_a_node_that_is_cleaned_up_has_no_threads_and_is_configured_anew(spied):
    node, _ = spied
    owner, external = node.owner, node.external
    node.trigger_deactivate()
    node.trigger_cleanup()
    assert node.owner is None and not owner._thread.is_alive() and not external._thread.is_alive()
    (answer,) = node.set_parameters([Parameter("ramp_seconds", value=0.7)])
    assert answer.successful, "nobody is there to be told"
    node.trigger_configure()
    assert node.owner._thread.is_alive() and node.external._thread.is_alive()
    assert node.machine._settings.options.ramp == 0.7


def test_a_configure_that_failed_leaves_no_thread(tmp_path):
    with node_of(FeedforwardNode, robot="demo3", model=tmp_path / "missing.yaml", priority=0) as node:
        owner, external = node.owner, node.external
        assert owner is not None and not node._configured, "the model is not there"
        node.trigger_configure()
        assert node.owner is not owner and not owner._thread.is_alive() and not external._thread.is_alive()


@pytest.mark.parametrize(
    ("status", "level", "message"),
    [
        (FeedforwardStatus(FeedforwardState.STREAMING), OK, "following streamed points"),
        (FeedforwardStatus(FeedforwardState.NO_MODEL), WARN, "no model yet"),
        (FeedforwardStatus(FeedforwardState.NO_LIMITS), WARN, "effort limits are not known"),
        (FeedforwardStatus(FeedforwardState.STREAMING, held_back=True), WARN, "following streamed points"),
        (FeedforwardStatus(FeedforwardState.STREAMING, remark="late"), WARN, "late"),
    ],
)
def test_what_diagnostics_say(status, level, message):
    with node_of(FeedforwardNode, autostart="false") as node:
        node.machine = SimpleNamespace(status=status)
        found = node.status()
        assert found[:2] == (level, message)
        assert (found[2]["joint states"], found[2]["limited"]) == ("none or stale", status.held_back)
        node.machine.status = FeedforwardStatus(FeedforwardState.HOLDING, "arm", (), 5, fresh=True, temperature="40")
        values = node.status()[2]
        assert (values["robot"], values["sent"], values["joint states"], values["temperature"]) == (
            "arm",
            5,
            "fresh",
            "40",
        )


# --- the owner


class Machine:
    """Keeps its events."""

    def __init__(self):
        self.events, self.due, self.state = [], np.inf, FeedforwardState.WAITING
        self.status = FeedforwardStatus(FeedforwardState.WAITING)
        self.streaming, self.robot, self.joint_names, self.has_model = False, ROBOT, NAMES, True
        self.splitting, self.told, self.outcome, self.lines = False, 0, FeedforwardOutcome(), []
        self.fails = False

    def handle(self, event, now):
        self.events.append(event)
        if self.fails:
            self.fails = False
            raise ValueError("oh")
        return self.outcome

    @property
    def has_news(self):
        return bool(self.lines)

    def news(self):
        lines, self.lines = self.lines, []
        return lines

    def tell(self):
        self.told += 1

    def predicted(self, q, dq, ddq):
        return q


def owner_of(machine, running=False):
    sink = SimpleNamespace(sent=[], passed=[], coefficients=[], wants_coefficients=False)
    sink.send, sink.send_coefficients = sink.sent.append, sink.coefficients.append
    sink.pass_on = lambda trajectory, stamp: sink.passed.append((trajectory, stamp))
    predicted = SimpleNamespace(listened=False, taken=[])
    predicted.take = lambda data, states, torque: predicted.taken.append((states.q.copy(), torque))
    external = SimpleNamespace(listened=False, taken=[])
    external.take = external.taken.append
    log = Log()
    owner = FeedforwardOwner(
        machine, rclpy.get_default_context(), sink, predicted, external, lambda: 5_000_000_000, log
    )
    if not running:
        owner.close()
    return owner, SimpleNamespace(sink=sink, predicted=predicted, external=external, log=log.said)


@pytest.fixture
def quiet():
    """Return an owner whose thread has ended, its machine, and what is around it."""
    with ros():
        machine = Machine()
        owner, around = owner_of(machine)
        yield owner, machine, around


def single(value, names=NAMES, stamp=None):
    """Return a serialized trajectory of one point whose numbers tell which it is."""
    rows = [
        value + np.array([[1.0, 2.0, 3.0]]),
        value + np.array([[4.0, 5.0, 6.0]]),
        value + np.array([[7.0, 8.0, 9.0]]),
    ]
    points = reference(NAMES, np.zeros(1), *rows).ordered(names)
    return bytes(serialize_message(trajectory_message(points, stamp)))


def several(value, stamp=None):
    rows = np.full((2, 3), value)
    return bytes(serialize_message(trajectory_message(reference(NAMES, np.array([0.5, 1.0]), rows), stamp)))


def test_a_streamed_point_is_read_by_name(quiet):
    owner, machine, _ = quiet
    machine.streaming = True
    owner._references([single(0.0, ("elbow", "waist", "shoulder"))])
    (event,) = machine.events
    assert isinstance(event, StreamedPoint) and event.joint_names == NAMES
    np.testing.assert_array_equal((event.q, event.dq, event.ddq), np.arange(1.0, 10.0).reshape(3, 3))
    machine.streaming = False
    owner._references([single(0.0, ("elbow", "waist", "shoulder"))])
    event = machine.events[-1]
    assert isinstance(event, NewReference), "without torques to stream it is a trajectory of one point"
    found = (event.points.q, event.points.dq, event.points.ddq)
    np.testing.assert_array_equal(found, np.arange(1.0, 10.0).reshape(3, 1, 3))


def test_other_joints_of_the_same_number_are_read_by_their_names(quiet, monkeypatch):
    owner, machine, _ = quiet
    machine.streaming = True
    for names in (NAMES, NAMES[::-1]):
        machine.joint_names = names
        owner._references([single(0.0)])
        assert machine.events[-1].joint_names == names
        assert machine.events[-1].q.tolist() == [1.0 + NAMES.index(name) for name in names]
        waiting(monkeypatch, *states(10))
        owner._take_states("joint_states")
        assert machine.events[-1].q.tolist() == [10.0 + NAMES.index(name) for name in names]


@pytest.mark.parametrize("streaming", [True, False])
def test_of_points_that_came_together_the_last_is_answered_and_every_trajectory(quiet, streaming):
    owner, machine, _ = quiet
    machine.streaming = streaming
    owner._references([single(10.0), several(20.0), single(30.0), several(40.0), single(50.0), several(60.0)])
    first = [event.q[0] if isinstance(event, StreamedPoint) else event.points.q[0, 0] for event in machine.events]
    assert first == [20.0, 40.0, 51.0, 60.0]


@pytest.mark.parametrize(("stamp", "begins"), [(Time(), 0.0), (Time(sec=7), 2.0), (Time(sec=4, nanosec=10**8), -0.9)])
def test_a_trajectory_begins_at_its_stamp(quiet, monkeypatch, stamp, begins):
    owner, machine, around = quiet
    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.time.monotonic", lambda: 100.0)
    machine.outcome = FeedforwardOutcome(trajectory="filled")
    owner._references([several(1.0, stamp)])
    (event,) = machine.events
    assert isinstance(event, NewReference) and event.begin == pytest.approx(100.0 + begins)
    assert around.sink.passed == [("filled", stamp)]


def test_torques_leave_and_news_are_logged_as_they_are(quiet):
    owner, machine, around = quiet
    machine.outcome, machine.lines = FeedforwardOutcome(torque="tau"), [News("good"), News("bad", warning=True)]
    owner._handled(FeedforwardTick())
    assert around.sink.sent == ["tau"] and around.log == [("info", "good"), ("warning", "bad")]


def waiting(monkeypatch, *messages):
    """Let a subscription hold these messages."""
    held = list(messages)
    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.taken", lambda subscription: held.pop(0) if held else None)


def states(*values):
    names = ("elbow", "waist", "shoulder")
    own = [joint_state(names, (v + 2, v, v + 1), (v + 5, v + 3, v + 4), (v + 8, v + 6, v + 7), int(v)) for v in values]
    return [joint_state(("left", "right"), (1, 2)), *own]


@pytest.mark.parametrize("plotted", [False, True])
@pytest.mark.parametrize("felt", [False, True])
def test_joint_states_reach_everybody_who_wants_them(quiet, monkeypatch, plotted, felt):
    owner, machine, around = quiet
    around.predicted.listened, around.external.listened = plotted, felt
    waiting(monkeypatch, *states(10, 20, 30))
    owner._take_states("joint_states")
    assert all(isinstance(event, MeasuredState) and event.joint_names == NAMES for event in machine.events)
    found = [(event.q.tolist(), event.dq.tolist(), event.stamp) for event in machine.events]
    expected = [([v, v + 1, v + 2], [v + 3, v + 4, v + 5], v) for v in (10, 20, 30)]
    assert found == (expected[-1:] if plotted else expected), "beside a plot the newest is enough"
    assert [q.tolist() for q, _ in around.predicted.taken] == ([q for q, _, _ in expected] if plotted else [])
    assert [state.tau.tolist() for state in around.external.taken] == (
        [[v + 6, v + 7, v + 8] for v in (10, 20, 30)] if felt else []
    )
    machine.has_model = False
    around.predicted.taken.clear()
    around.external.taken.clear()
    waiting(monkeypatch, *states(40))
    owner._take_states("joint_states")
    assert not around.predicted.taken and not around.external.taken and machine.events[-1].stamp == 40


def test_coefficients_are_found_for_whoever_listens(quiet):
    owner, machine, around = quiet
    machine.outcome, machine.told = FeedforwardOutcome(coefficients="MCQ"), 0
    for listening, wanted, splitting, found, sent in (
        (False, True, True, False, False),
        (True, False, False, False, False),
        (True, True, False, True, True),
        (True, False, True, True, False),
    ):
        machine.events.clear()
        around.sink.coefficients.clear()
        owner._subscriptions = ("reference", "joint_states") if listening else None
        around.sink.wants_coefficients, machine.splitting = wanted, splitting
        owner._background()
        assert [type(event) for event in machine.events] == ([Background] if found else [])
        assert around.sink.coefficients == (["MCQ"] if sent else [])
    assert machine.told == 4, "in any case"


def test_when_something_is_to_be_done(quiet):
    owner, machine, _ = quiet
    owner._background_due, owner._states_due, machine.due = 3.0, 2.0, 5.0
    assert owner._due() == 3.0, "nothing is heard"
    owner._subscriptions = ("reference", "joint_states")
    assert owner._due() == 2.0
    machine.state = FeedforwardState.STREAMING
    assert owner._due() == 3.0, "a stream wakes it often enough"
    machine.due = 1.0
    assert owner._due() == 1.0


def test_what_others_ask_is_answered_by_the_thread():
    with ros():
        machine = Machine()
        machine.due = 0.0
        owner, _ = owner_of(machine, running=True)
        try:
            soon(lambda: len(machine.events) > 3, "ticks")
            machine.due = np.inf
            machine.outcome = FeedforwardOutcome(filler="filler")
            assert owner.ask(AskFiller()).filler == "filler"
            machine.outcome = FeedforwardOutcome(refused="no")
            with pytest.raises(DynidError, match="no"):
                owner.ask(AskFiller())
            assert owner.wait_until(frozenset({FeedforwardState.WAITING}), 30.0)
            assert not owner.wait_until(frozenset({FeedforwardState.STOPPED}), 0.01)
            soon(lambda: machine.told > 0, "the background")
        finally:
            owner.close()
        assert not owner._thread.is_alive()
        assert not owner.wait_until(frozenset({FeedforwardState.STOPPED}), 30.0), "nobody is left to get there"


def test_torques_leave_when_they_are_due(quiet, monkeypatch):
    owner, machine, _ = quiet
    clock, ticks = SimpleNamespace(now=99.9995), []

    def wait(subscription, seconds):
        assert seconds == owner._due() - clock.now
        clock.now = max(owner._due(), clock.now)
        owner._running = len(ticks) < 5

    def handle(event, now):
        assert isinstance(event, FeedforwardTick) and now == clock.now
        ticks.append(now - machine.due)
        machine.due += 0.001
        return FeedforwardOutcome()

    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.time.monotonic", lambda: clock.now)
    owner._waiter, machine.handle, machine.due = SimpleNamespace(wait=wait), handle, 100.0
    owner._running, owner._background_due = True, np.inf
    owner._run()
    assert ticks == [0.0] * 6, "neither late nor early"


def test_the_background_comes_in_its_own_period(quiet, monkeypatch):
    owner, machine, _ = quiet
    clock, machine.told = SimpleNamespace(now=100.0), 0

    def wait(subscription, seconds):
        clock.now += 0.01
        owner._running = clock.now < 100.995

    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.time.monotonic", lambda: clock.now)
    owner._waiter = SimpleNamespace(wait=wait)
    owner._running, owner._background_due, owner.background_period = True, 0.0, 0.25
    owner._run()
    assert machine.told == 4, "at 0.01, 0.26, 0.51 and 0.76 s"


def test_an_error_of_ours_ends_in_gravity_and_then_the_node(monkeypatch):
    ended = []
    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.os.kill", lambda pid, number: ended.append(number))
    with ros():
        machine = Machine()
        machine.fails = True
        machine.state = FeedforwardState.ENDING
        owner, _ = owner_of(machine, running=True)
        owner._do(lambda: owner._handled(FeedforwardTick()))
        soon(lambda: len(machine.events) > 4, "the way to gravity")
        assert not ended
        machine.state = FeedforwardState.STOPPED
        soon(lambda: bool(ended), "the end")
        assert ended == [signal.SIGTERM]
        assert isinstance(machine.events[1], DeactivateFeedforward), "the first after the error"
        owner.close()


def test_an_error_while_the_process_ends_is_none(monkeypatch, capfd):
    killed = []
    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.os.kill", lambda pid, number: killed.append(number))
    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.ending", SimpleNamespace(is_set=lambda: True))
    with ros():
        machine = Machine()
        machine.fails = True
        owner, _ = owner_of(machine, running=True)
        owner._do(lambda: owner._handled(FeedforwardTick()))
        owner._thread.join(30.0)
        assert not owner._thread.is_alive() and len(machine.events) == 1 and not killed
        assert "Traceback" not in capfd.readouterr().err


# --- services


def services(ask, described=lambda: None):
    node = Stub()
    FeedforwardServices(node, ask, described)
    return node


def test_a_payload_is_turned_by_the_links_of_the_description():
    T = np.eye(4)
    T[:3, 3] = (0.1, 0.2, 0.3)
    described = SimpleNamespace(tools={"hand": (2, T)}, n=3, name="described")
    filler = SimpleNamespace(model=SimpleNamespace(robot=SimpleNamespace(tools={}, n=3, name="model")))
    asked = []

    def ask(event):
        asked.append(event)
        return FeedforwardOutcome(filler=filler)

    payload = Inertia(m=2.0, com=Vector3(x=1.0), ixx=0.1, iyy=0.2, izz=0.3)
    for robot, link, joint, com in (
        (described, "hand", 2, (1.1, 0.2, 0.3)),
        (described, "", 2, (1.1, 0.2, 0.3)),
        (None, "", 3, (1.0, 0.0, 0.0)),
    ):
        node = services(ask, lambda robot=robot: robot)
        answer = node.made["~/set_payload"](SetPayload.Request(payload=payload, link=link), SetPayload.Response())
        assert answer.success
        load = asked[-1].load
        assert isinstance(asked[-1], NewPayload) and (load.mass, load.joint) == (2.0, joint)
        np.testing.assert_allclose(load.com, com)
        np.testing.assert_allclose(load.inertia, np.diag((0.1, 0.2, 0.3)))
    answer = node.made["~/set_payload"](SetPayload.Request(payload=payload, link="foot"), SetPayload.Response())
    assert not answer.success and "no last link 'foot'" in answer.message


def test_efforts_are_filled_in_the_robots_order_and_keep_their_stamp():
    def filled(points):
        assert points.joint_names == NAMES
        return reference(NAMES, points.t, points.q, tau=10 * points.q)

    def ask(event):
        assert isinstance(event, AskFiller)
        return FeedforwardOutcome(filler=SimpleNamespace(model=SimpleNamespace(robot=ROBOT), filled=filled))

    node = services(ask)
    way = reference(NAMES, np.array([1.0, 2.0]), np.arange(6.0).reshape(2, 3)).ordered(("elbow", "waist", "shoulder"))
    request = FillEfforts.Request(trajectory=trajectory_message(way, Time(sec=3, nanosec=4)))
    answer = node.made["~/fill_efforts"](request, FillEfforts.Response())
    assert answer.success and answer.trajectory.header.stamp == Time(sec=3, nanosec=4)
    np.testing.assert_array_equal(
        [point.effort for point in answer.trajectory.points], 10 * np.arange(6.0).reshape(2, 3)
    )
    request.trajectory.joint_names[0] = "knee"
    answer = node.made["~/fill_efforts"](request, FillEfforts.Response())
    assert not answer.success and "knee" in answer.message

    def refuses(event):
        raise DynidError("there is no model yet")

    answer = services(refuses).made["~/fill_efforts"](request, FillEfforts.Response())
    assert not answer.success and answer.message == "there is no model yet"


def identified(sigma=True):
    base, chi = base_parameters(ROBOT), standard_vector(ROBOT)
    fit = {name: TorqueError(0.1 * (k + 1), 0.01) for k, name in enumerate(NAMES)} if sigma else {}
    b = len(base)
    return model_of(ROBOT, base, base.values(ROBOT, chi), np.full(b, 0.01), 1e-4 * np.eye(b), fit=fit)


def test_base_parameters_become_a_model_with_its_error_bars():
    asked = []
    node = services(asked.append)
    node.made["base_parameters"](model_message(identified(), Time(), "base_link"))
    (event,) = asked
    assert isinstance(event, NewModel) and event.source == "base_parameters" and event.robot.active_names == NAMES
    np.testing.assert_allclose(event.bars.sigma, (0.1, 0.2, 0.3))
    assert np.all(event.bars.torque_std > 0)
    Q = gravity_torque(ROBOT, standard_vector(ROBOT), HERE[None])
    np.testing.assert_allclose(gravity_torque(event.robot, event.chi, HERE[None]), Q, atol=1e-9)
    node.made["base_parameters"](model_message(identified(sigma=False), Time(), "base_link"))
    assert asked[-1].bars is None, "without a fit nothing is known of its errors"
    message = model_message(identified(), Time(), "base_link")
    message.covariance = []
    node.made["base_parameters"](message)
    assert isinstance(asked.pop(), NewModel) and asked[-1].bars is None, "nor without a covariance"
    message.parameters[0].value = float("nan")
    node.made["base_parameters"](message)
    assert len(asked) == 2 and "base_parameters refused" in node.log.said[-1][1]
    node.made["base_parameters"](BaseParameters())
    assert len(asked) == 2


def test_a_model_file_is_carried_with_its_error_bars(tmp_path):
    save_model(replace(identified(), obtained={"sigma": [0.1, 0.2, 0.3]}), tmp_path / "model.yaml")
    with node_of(FeedforwardNode, model=tmp_path / "model.yaml", priority=0) as node:
        carried = node.machine.carried
        np.testing.assert_allclose(carried.bars.sigma, (0.1, 0.2, 0.3))
        np.testing.assert_allclose(carried.chi, identified().chi)
        assert carried.robot.active_names == NAMES


def test_a_trajectory_passed_on_keeps_its_stamp():
    node = Stub()
    points = reference(NAMES, np.ones(1), np.ones((1, 3)), tau=np.array([[1.0, 2.0, 3.0]]))
    TorqueOutput(node, lambda: 0).pass_on(points, Time(sec=8, nanosec=9))
    assert node.made["joint_trajectory"].sent == [trajectory_message(points, Time(sec=8, nanosec=9))]


# --- external effort

CHI = standard_vector(ROBOT)
SIX = load_robot("demo6")
CHI6 = standard_vector(SIX)
POSE = np.array([0.3, -0.9, 0.5, 0.2, 0.4, -0.1])


@pytest.fixture
def felt():
    """Return an ExternalEffort whose thread has ended, its node, and a place for the model that is carried."""
    node, place = (
        Stub(),
        SimpleNamespace(carried=CarriedModel(SIX, CHI6, ErrorBars(np.full(6, 0.1), np.full(6, 0.1)), CHI6)),
    )
    place.described = None
    external = ExternalEffort(node, lambda: place.carried, lambda: place.described)
    external.close()
    assert not external._thread.is_alive()
    return external, node, place


def resting(push, count, begin=1_000_000_000, period=2_000_000, robot=SIX, chi=CHI6, q=POSE):
    """Return joint states of a robot at rest that feels a push, shape (n,)."""
    tau = gravity_torque(robot, chi, q[None])[0] - push
    return [State(robot.active_names, q, np.zeros(len(q)), tau, begin + k * period) for k in range(count)]


def test_a_push_comes_out_by_its_own_time_whatever_the_pieces(felt):
    """After n samples of dt at a bandwidth K, 1 - exp(-K n dt) of it: the sample before is that of the last piece."""
    external, node, _ = felt
    push = np.array([1.0, -2.0, 3.0, -0.4, 0.5, -0.6])
    external.use(Feeling(20.0, (0.0,), ""))
    samples = resting(push, 31)
    for piece in (samples[:1], samples[1:11], samples[11:12], samples[12:]):
        external._feel(piece)
    sent = node.made["~/external_effort"].sent
    assert len(sent) == 3, "nothing is known of the first"
    expected = push * (1 - np.exp(-20.0 * 30 * 0.002))
    np.testing.assert_allclose(sent[-1].effort, expected, rtol=1e-6)
    assert list(sent[-1].name) == list(SIX.active_names) and sent[-1].header.stamp == Time(sec=1, nanosec=60_000_000)
    F = external_wrench(SIX, POSE[None], expected[None], next(iter(SIX.tools)))[0]
    wrench = node.made["~/external_wrench"].sent[-1]
    found = wrench.wrench
    np.testing.assert_allclose(
        (found.force.x, found.force.y, found.force.z, found.torque.x, found.torque.y, found.torque.z), F, rtol=1e-6
    )
    assert wrench.header.frame_id == next(iter(SIX.tools)) and wrench.header.stamp == Time(sec=1, nanosec=60_000_000)
    assert external.status == "observed"


def test_other_parameters_and_other_models_begin_anew_and_warm_friction_does_not(felt):
    external, node, place = felt
    push = np.full(6, 1.0)
    external._feel(resting(push, 20))
    before = external._senses
    external._feel(resting(push, 20, 2_000_000_000))
    assert external._senses is before
    place.carried = CarriedModel(SIX, 1.01 * CHI6, place.carried.bars, place.carried.cold)
    external._feel(resting(push, 20, 3_000_000_000))
    assert external._senses is before and before.model is place.carried, "nothing but temperatures has changed"
    np.testing.assert_array_equal(before.observer._rigid[1], frictionless(SIX, 1.01 * CHI6)[1])
    external.use(Feeling(30.0, (5.0,), ""))
    external._feel(resting(push, 20, 4_000_000_000))
    changed = external._senses
    assert changed is not before and changed.observer.options.bandwidth == 30.0
    assert changed.contacts.options.bandwidth == 30.0
    np.testing.assert_array_equal(changed.contacts._given, np.full(6, 5.0))
    place.carried = CarriedModel(SIX, CHI6, None, CHI6.copy())
    external.use(Feeling(30.0, (0.0,), ""))
    external._feel(resting(push, 20, 5_000_000_000))
    assert external._senses is not changed
    assert external.status == external_effort.NO_BARS and external_effort.NO_BARS in node.log.said[-1][1]
    count = len(node.log.said)
    external._feel(resting(push, 20, 5_040_000_000))
    assert len(node.log.said) == count, "said when it changes"
    place.carried = None
    external._feel(resting(push, 20))
    assert external._senses is None


def test_a_contact_is_told_when_it_begins_and_when_it_ends(felt):
    external, node, _ = felt
    external.use(Feeling(100.0, (2.0, 2.1, 2.2, 2.3, 2.4, 2.5), ""))
    external._feel(resting(np.zeros(6), 400))
    contacts = node.made["~/contact"].sent
    assert not contacts
    push = np.array([0.5, 0.0, -8.0, 0.0, 0.0, 0.0])
    begin = 1_000_000_000 + 400 * 2_000_000
    external._feel(resting(push, 100, begin))
    (told,) = contacts
    assert told.contact and list(told.beyond) == [False, False, True, False, False, False]
    assert list(told.joints) == list(SIX.active_names)
    np.testing.assert_allclose(
        np.array(told.threshold) - (2.0, 2.1, 2.2, 2.3, 2.4, 2.5), external._senses.observer.undecided
    )
    at = told.header.stamp.sec * 10**9 + told.header.stamp.nanosec
    assert begin < at < begin + 50 * 2_000_000, "with the stamp of the sample that showed it"
    found = np.array(told.external_effort)
    assert -8.0 < found[2] < -told.threshold[2]
    np.testing.assert_allclose(found / found[2], push / push[2], atol=1e-6)
    external._feel(resting(np.zeros(6), 200, begin + 100 * 2_000_000))
    assert [message.contact for message in contacts] == [True, False]


def test_a_contact_is_judged_by_the_time_of_each_sample(felt, monkeypatch):
    external, _, _ = felt
    external._feel(resting(np.zeros(6), 5))
    steps, senses = [], external._senses
    update = senses.contacts.update
    monkeypatch.setattr(senses.contacts, "update", lambda *args: steps.append(args[2]) or update(*args))
    stamps = 1_008_000_000 + np.cumsum([1_000_000, 2_000_000, 3_000_000])
    samples = [resting(np.zeros(6), 1, int(stamp))[0] for stamp in stamps]
    external._feel(samples)
    assert steps == pytest.approx([0.001, 0.002, 0.003])


def test_joint_states_of_others_and_without_torque_are_passed_over(felt):
    external, node, _ = felt
    external._feel(resting(np.zeros(3), 5, robot=ROBOT, chi=CHI, q=HERE))
    assert external._last == 0 and not node.made["~/external_effort"].sent
    blind = [State(SIX.active_names, POSE, np.zeros(6), np.full(6, np.nan), 10**9 + k * 10**6) for k in range(3)]
    external._feel(blind)
    assert external.status == external_effort.NO_MOTION and not node.made["~/external_effort"].sent


def test_a_driver_that_does_not_stamp_is_felt_by_when_its_joint_states_come(felt, monkeypatch):
    external, node, _ = felt
    clock = iter(range(10**18, 2 * 10**18, 2_000_000))
    monkeypatch.setattr(external_effort.time, "time_ns", lambda: next(clock))
    push = np.array([1.0, -2.0, 3.0, -0.4, 0.5, -0.6])
    external.use(Feeling(20.0, (0.0,), ""))
    external._feel(resting(push, 31, begin=0, period=0))
    sent = node.made["~/external_effort"].sent[-1]
    np.testing.assert_allclose(sent.effort, push * (1 - np.exp(-20.0 * 30 * 0.002)), rtol=1e-6)
    assert sent.header.stamp == Time(sec=10**9, nanosec=60_000_000)


def test_parameters_that_do_not_fit_the_robot_are_refused_and_change_nothing(felt):
    external, _, place = felt
    link = next(iter(SIX.tools))
    kept = external._feeling
    for feeling, words in (
        (Feeling(10.0, (1.0, 2.0), ""), "contact_thresholds has 2 values; give 6, or one"),
        (Feeling(10.0, (1.0,), "nowhere"), f"no link 'nowhere'; choose from {link}"),
    ):
        with pytest.raises(InputError, match=words):
            external.use(feeling)
    assert external._feeling is kept
    fits = Feeling(10.0, (1.0,) * 6, link)
    external.use(fits, try_only=True)
    assert external._feeling is kept
    external.use(fits)
    assert external._feeling is fits
    place.carried = None
    external.use(Feeling(10.0, (1.0, 2.0), "nowhere"))  # nothing is known yet


def test_the_wrench_is_at_the_link_chosen_of_the_robot_described(felt):
    external, node, place = felt
    T = np.eye(4)
    T[:3, 3] = (0.0, 0.1, 0.2)
    described = SIX.__class__(**{**SIX.__dict__, "tools": {**SIX.tools, "probe": (SIX.n, T)}})
    bare = SIX.__class__(**{**SIX.__dict__, "tools": {}})
    place.carried, place.described = CarriedModel(bare, CHI6, None, CHI6), described
    external.use(Feeling(100.0, (1.0,), "probe"))
    push = np.array([1.0, -2.0, 3.0, -0.4, 0.5, -0.6])
    external._feel(resting(push, 500))
    wrench = node.made["~/external_wrench"].sent[-1]
    F = external_wrench(described, POSE[None], push[None], "probe")[0]
    assert wrench.header.frame_id == "probe"
    assert wrench.wrench.force.y == pytest.approx(F[1], rel=1e-6) and wrench.wrench.torque.z == pytest.approx(
        F[5], rel=1e-6
    )
    place.described = None
    count = len(node.made["~/external_wrench"].sent)
    external._feel(resting(push, 5, 3_000_000_000))
    assert len(node.made["~/external_wrench"].sent) == count, "a robot without links has no wrench"


@pytest.mark.parametrize(
    ("error", "said", "kept"),
    [
        (DynidError("the model does not fit"), "the model does not fit", True),
        (ValueError("oh"), "the observer has failed: see the log", False),
    ],
)
def test_an_error_of_the_observer_is_told_and_the_next_joint_states_are_taken(error, said, kept):
    node, taken = Stub(), []
    external = ExternalEffort(node, lambda: None, lambda: None)

    def feel(states):
        taken.extend(states)
        if len(taken) == 1:
            raise error

    external._feel, external._senses = feel, "senses"
    try:
        external.take("first")
        soon(lambda: external._said == said, "what went wrong")
        assert external.status == said and any(said in line[-1] for line in node.log.said)
        external.take("second")
        soon(lambda: taken == ["first", "second"], "the next")
        assert (external._senses == "senses") is kept
    finally:
        external.close()


def test_joint_states_wait_for_a_busy_thread_in_their_order(felt):
    external, _, _ = felt
    for k in range(MOST + 5):
        external.take(k)
    assert list(external._waiting) == list(range(5, MOST + 5)), "two seconds of them at 1 kHz, the newest"
    assert MOST == 2000


def test_somebody_listens_to_one_of_the_three():
    node = Stub()
    external = ExternalEffort(node, lambda: None, lambda: None)
    try:
        for topic in ("~/external_effort", "~/external_wrench", "~/contact"):
            for other in node.made.values():
                other.listeners = 0
            assert not external.listened
            node.made[topic].listeners = 1
            assert external.listened
        node.made["~/contact"].listeners = 0
        external.take(State(NAMES, HERE, HERE, HERE, 1))
        soon(lambda: not external._waiting, "the thread takes what waits")
    finally:
        external.close()


# --- temperatures and predictions


def test_temperatures_are_those_that_came_last(monkeypatch):
    node, came, held = Stub(), [], {"joint_temperatures": [], "dynamic_joint_states": []}
    monkeypatch.setattr(
        "ros2_dynid.nodes.common.temperatures.taken", lambda topic: held[topic].pop(0) if held[topic] else None
    )
    Temperatures(node, lambda names, T: came.append(dict(zip(names, T.tolist(), strict=True))))
    period, look = node.made["timer"]
    look()
    assert not came and period == 1.0, "nothing came, nothing is said"
    for name, value in (("waist", 30.0), ("elbow", 40.0), ("waist", 31.5)):
        message = Temperature(temperature=value)
        message.header.frame_id = name
        held["joint_temperatures"].append(bytes(serialize_message(message)))
    look()
    assert came == [{"waist": 31.5, "elbow": 40.0}]
    look()
    assert len(came) == 1

    def refuses(names, T):
        raise DynidError("343 deg C")

    again = Stub()
    Temperatures(again, refuses)
    held["joint_temperatures"].append(bytes(serialize_message(Temperature())))
    again.made["timer"][1]()
    assert "343 deg C" in again.log.said[-1][1]


def moved(predicted, count, torque, band=None, names=("elbow", "waist", "shoulder"), begin=10**9, rate=500):
    """Let joint states come of a motion q = a t^2 / 2 of accelerations 1, 2, 3 in the robot's order."""
    live = LiveStates(NAMES)
    for k in range(count):
        t = k / rate
        q = np.array([1.0, 2.0, 3.0]) * t**2 / 2
        data = joint_state(names, q[[NAMES.index(name) for name in names]], stamp=begin + round(t * 1e9))
        live.take(data)
        predicted.take(data, live, torque, band)


def test_predictions_have_the_acceleration_of_the_motion_and_a_band_on_both_sides():
    node = Stub()
    predicted = Predicted(node, 50.0, band=True)
    assert predicted.listened

    def torque(q, dq, ddq):
        return 10 * ddq + dq

    moved(predicted, 101, torque, lambda q, dq, ddq: 0.1 * ddq)
    sent = {name: node.made[f"~/predicted{name}"].sent for name in ("", "_lower", "_upper")}
    assert 7 <= len(sent[""]) <= 10, "at 50 Hz, once there is a window"
    message = sent[""][-1]
    t = 1e-9 * message.header.stamp.nanosec
    assert list(message.name) == ["elbow", "waist", "shoulder"] and 0.1 < t < 0.2
    order = [2, 0, 1]
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(message.position, (a * t**2 / 2)[order], atol=1e-9)
    np.testing.assert_allclose(message.velocity, (a * t)[order], rtol=1e-5)
    np.testing.assert_allclose(message.effort, (10 * a + a * t)[order], rtol=1e-5)
    for name, side in (("_lower", -0.1), ("_upper", 0.1)):
        edge = sent[name][-1]
        assert edge.header.stamp == message.header.stamp
        np.testing.assert_allclose(edge.effort, (10 * a + a * t + side * a)[order], rtol=1e-5)
    for topic in ("_lower", "_upper"):
        node.made[f"~/predicted{topic}"].listeners = 0
    count = len(sent["_lower"])
    moved(predicted, 101, torque, lambda q, dq, ddq: 1 / 0, begin=2 * 10**9)
    assert len(sent["_lower"]) == count, "a band for nobody is not computed"
    node.made["~/predicted"].listeners = 0
    assert not predicted.listened
    count = len(sent[""])
    moved(predicted, 50, torque, begin=3 * 10**9)
    node.made["~/predicted"].listeners = 1
    moved(predicted, 50, None, begin=4 * 10**9)
    assert len(sent[""]) == count, "for nobody, or without a model"
    moved(predicted, 60, torque, begin=10**9)
    assert len(sent[""]) > count, "a clock that was set back does not silence it"
