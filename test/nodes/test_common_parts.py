"""What all nodes share, and the smaller ones: clients, the robot they find, lifecycle, replay, simulation, mission."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Inertia, Vector3
from rclpy.parameter import Parameter
from ros2_dynid.action import Identify
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import ForwardPayload, IdentifyPayload, SetPayload
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from in_process import Future, Kept, joint_state, node_of, ros, soon
from ros2_dynid.control.payload_bridge import Asked, Driver
from ros2_dynid.control.reference import reference
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common import fast
from ros2_dynid.nodes.common.caller import Caller, ClientError
from ros2_dynid.nodes.common.client import LEAD, Client
from ros2_dynid.nodes.common.fast import Ticker, guarded
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode
from ros2_dynid.nodes.common.messages import reference_of, reference_points, trajectory_message
from ros2_dynid.nodes.common.parameters import Described, Settable
from ros2_dynid.nodes.common.priority import raise_priority
from ros2_dynid.nodes.common.rclpy_private import RclpyError, check_rclpy
from ros2_dynid.nodes.common.robot_finder import RobotFinder
from ros2_dynid.nodes.feedforward.node import FeedforwardNode
from ros2_dynid.nodes.mission import driving
from ros2_dynid.nodes.mission.node import Mission
from ros2_dynid.nodes.payload_bridge.interfaces import check_path, get_path, set_path
from ros2_dynid.nodes.payload_bridge.node import PayloadBridge
from ros2_dynid.nodes.replay.node import ReplayNode, replay
from ros2_dynid.nodes.sim_robot.node import SimRobot
from ros2_dynid.processes import own_domain
from ros2_dynid.recording.playback import Message
from urdf_text import joint, urdf

pytestmark = pytest.mark.in_process

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names


# --- clients


def caller(answer, ready=True):
    """Return a caller of whom every service answers so, and what it asks."""
    asked, removed = [], []

    def call_async(request):
        asked.append(request)
        return Future(answer)

    made = []

    def create_client(kind, name):
        made.append(name)
        return SimpleNamespace(
            wait_for_service=lambda patience: ready, call_async=call_async, remove_pending_request=removed.append
        )

    found = object.__new__(Caller)
    found._servers, found.patience, found.create_client = {}, 0.01, create_client
    return found, asked, made, removed


def test_a_service_is_called_with_its_fields_and_its_refusal_is_an_error():
    calls, asked, made, _ = caller(SimpleNamespace(success=True))
    calls.call(SetBool, "stop", data=True)
    calls.call(SetBool, "stop", data=False)
    assert [request.data for request in asked] == [True, False] and made == ["stop"], "one client for a service"
    calls.call(SetBool, "other")
    assert made == ["stop", "other"]
    for message, words in (("brakes", "stop: brakes"), ("", "stop: refused")):
        with pytest.raises(ClientError, match=words):
            caller(SimpleNamespace(success=False, message=message))[0].call(SetBool, "stop")
    with pytest.raises(ClientError, match="service stop does not answer"):
        caller(None, ready=False)[0].call(SetBool, "stop")
    silent, _, _, removed = caller(None)
    with pytest.raises(ClientError, match=r"stop has not answered for 0\.01 s"):
        silent.call(SetBool, "stop", timeout=0.01)
    assert len(removed) == 1


def test_parameters_are_set_by_name_and_every_refusal_counts():
    good, bad = SimpleNamespace(successful=True, reason=""), SimpleNamespace(successful=False, reason="out of range")
    calls, asked, made, _ = caller(SimpleNamespace(results=[good, good]))
    calls.set("arm/node", speed=0.5, name="a")
    assert made == ["arm/node/set_parameters"]
    found = {parameter.name: parameter.value for parameter in asked[0].parameters}
    assert found["speed"].double_value == 0.5 and found["name"].string_value == "a"
    for results in ([bad], [bad, good], [good, bad]):
        with pytest.raises(ClientError, match="arm/node: out of range"):
            caller(SimpleNamespace(results=results))[0].set("arm/node", speed=0.5)
    with pytest.raises(ClientError, match=r"rest took longer than 0\.01 s"):
        calls.wait(lambda: False, 0.01, "rest")
    calls.wait(lambda: True, 0.0, "nothing")


def test_a_goal_is_accepted_ended_or_refused(monkeypatch):
    class Action:
        there, accepted, success = True, True, True

        def __init__(self, node, kind, name):
            pass

        def wait_for_server(self, patience):
            return self.there

        def send_goal_async(self, goal, feedback):
            feedback(goal)
            result = SimpleNamespace(success=self.success, message="too short")
            handle = SimpleNamespace(
                accepted=self.accepted, get_result_async=lambda: Future(SimpleNamespace(result=result))
            )
            return Future(handle)

    monkeypatch.setattr("ros2_dynid.nodes.common.caller.ActionClient", Action)
    calls, heard = caller(None)[0], []
    assert calls.act(None, "identify", "goal", heard.append).success and heard == ["goal"]
    for name, words in (
        ("success", "identify: too short"),
        ("accepted", "rejected the goal"),
        ("there", "does not answer"),
    ):
        monkeypatch.setattr(Action, name, False)
        with pytest.raises(ClientError, match=words):
            calls.act(None, "identify", "goal", heard.append)
        monkeypatch.setattr(Action, name, True)


@pytest.fixture
def client():
    """Return a client whose joint states a test gives, and whose trajectories are kept."""
    with ros():
        made = Client(ROBOT, "client")
        made._stream.close()
        made._direct, made._reference = Kept(), Kept()
        yield made
        made._stream = SimpleNamespace(close=lambda: None)
        made.close()


def following(client, publisher, function):
    """Answer what is sent by joint states along it, from a tenth of a second before to after, as `function` says."""
    publish = publisher.publish

    def sent(message):
        publish(message)
        points = reference_of(message, ROBOT)
        stamp = message.header.stamp
        start = stamp.sec * 10**9 + stamp.nanosec or 5 * 10**9
        for k in range(-10, round(100 * points.duration) + 100):
            client._on_state(joint_state(NAMES[::-1], function(points, k / 100)[::-1], stamp=start + k * 10**7))

    publisher.publish = sent


def test_a_client_follows_by_either_way_and_returns_what_was_measured(client):
    way = reference(NAMES, np.array([0.0, 1.0]), np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]))
    for publisher, feedforward in ((client._direct, False), (client._reference, True)):
        following(client, publisher, lambda points, t: points.at(t)[0])
        t, q = client.follow(way, feedforward=feedforward)
        assert len(publisher.sent) == 1
        assert t[0] == pytest.approx(0.0, abs=1e-6) and t[-1] == pytest.approx(1.0) and len(t) in (100, 101)
        np.testing.assert_allclose(q, way.sampled(t)[0], atol=1e-6)
    assert len(client._direct.sent) == 1
    client._on_state(joint_state(NAMES, (1, 2, 3), stamp=1))
    np.testing.assert_array_equal(client.position(), (1, 2, 3))


def test_a_client_follows_to_the_end_by_the_robots_own_time(client):
    way = reference(NAMES, np.array([0.0, 2.0]), np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]))

    def wait(done, timeout, what):
        stamp = client._direct.sent[-1].header.stamp
        start = stamp.sec * 10**9 + stamp.nanosec
        for after, ended in ((-(10**8), False), (0, False), (1_990_000_000, False), (2_000_000_000, True)):
            client._on_state(joint_state(NAMES, way.at(1e-9 * after)[0], stamp=start + after))
            assert done() is ended
        assert timeout > way.duration + LEAD

    client.wait = wait
    t, q = client.follow(way, feedforward=False)
    np.testing.assert_allclose(t, (0.0, 1.99, 2.0), atol=1e-6)
    np.testing.assert_allclose(q, way.sampled(t)[0], atol=1e-6)


def test_a_client_moves_within_the_limits_to_where_it_is_told(client):
    here, begin = (0.1, -0.2, 0.3), 5 * 10**9

    def wait(done, timeout, what):
        if what == "a move":
            last = begin + round(1e9 * reference_of(client._direct.sent[-1], ROBOT).duration)
            for after, ended in ((0, False), (250_000_000, False), (350_000_000, True)):
                client._on_state(joint_state(NAMES, here, stamp=last + after))
                assert done() is ended, "by the robot's own time, and a little longer"
        assert done()

    client.wait = wait
    used = []
    for speed, goal in itertools.product((1.0, 0.25), ((1.5, 1.4, -1.6), (0.12, -0.19, 0.33))):
        client._on_state(joint_state(NAMES, here, stamp=begin))
        client.go(np.array(goal), speed)
        points = reference_of(client._direct.sent[-1], ROBOT)
        np.testing.assert_allclose(points.q[[0, -1]], [here, goal])
        limits = [joint.limits for joint in ROBOT.joints]
        velocity = speed * np.array([min(limit.velocity, 3.0) for limit in limits])
        acceleration = speed * np.array([min(limit.acceleration, 5.0) for limit in limits])
        _, dq, ddq = points.sampled(np.linspace(points.t[0], points.duration, 500))
        used.append(((np.abs(dq) / velocity).max(), (np.abs(ddq) / acceleration).max()))
        assert 0.9 < max(used[-1]) < 1.01, "one joint is at its limit, the others wait for it"
    assert {int(np.argmax(use)) for use in used} == {0, 1}, "far moves are as fast as allowed, near ones as abrupt"


# --- the robot

FREE = '<limit lower="-2" upper="2" velocity="3" effort="90"/>'
BODY = '<inertial><mass value="3"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
ARM = urdf(
    '<link name="root"/>',
    *(f'<link name="{name}">{BODY}</link>' for name in ("one", "two", "three")),
    joint("a", "root", "one", inside=FREE),
    joint("b", "one", "two", xyz="0.4 0 0", axis="0 1 0", inside=FREE),
    joint("c", "two", "three", xyz="0.5 0 0", axis="0 1 0", inside=FREE),
    name="arm",
)


def finder(on_robot=None, **values):
    said, made, found = [], [], []
    log = SimpleNamespace(info=said.append, error=said.append)
    node = SimpleNamespace(get_logger=lambda: log, create_subscription=lambda *args: made.append(args))
    take = on_robot or found.append
    return RobotFinder(node, lambda name: values.get(name, ""), take), said, made, found


def test_a_description_is_taken_once_and_again_when_it_differs():
    finds, said, made, found = finder()
    with pytest.raises(InputError, match="the robot is not known yet"):
        finds.known()
    finds.find()
    finds.find()
    assert len(made) == 1 and made[0][1] == "robot_description", "one subscription"
    describe = made[0][2]
    assert (finds.robot, finds.text, finds.base_link) == (None, "", "base_link")
    describe(String(data=ARM))
    describe(String(data=ARM))
    assert [robot.name for robot in found] == ["arm"] and finds.known() is found[0]
    assert (finds.text, finds.base_link) == (ARM, "root")
    other = ARM.replace('name="arm"', 'name="other"')
    describe(String(data=other))
    assert [robot.name for robot in found] == ["arm", "other"]
    describe(String(data="<robot"))
    assert finds.known().name == "other" and "robot_description" in said[-1], "what cannot be read changes nothing"
    source = finds.source()
    assert (source.path, source.urdf, source.base_link, source.tip_link) == ("", other, None, None)
    finds.forget()
    assert finds.robot is None
    finds.find()
    assert len(made) == 2


def test_a_robot_that_is_refused_leaves_the_one_before():
    refuse = [False]

    def take(robot):
        if refuse[0]:
            raise DynidError("not while it moves")

    finds, said, made, _ = finder(take)
    finds.find()
    made[0][2](String(data=ARM))
    refuse[0] = True
    made[0][2](String(data=ARM.replace('name="arm"', 'name="other"')))
    assert finds.known().name == "arm" and finds.text == ARM and "not while it moves" in said[-1]
    refuse[0] = False
    made[0][2](String(data=ARM.replace('name="arm"', 'name="other"')))
    assert finds.known().name == "other", "and may come again"


def test_a_file_gives_the_chain_asked_for(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    finds, _, made, found = finder(robot=str(path), base_link="one", tip_link="two")
    finds.find()
    assert not made and found[0].active_names == ("b",)
    assert (finds.text, finds.base_link) == (ARM, "one")
    source = finds.source()
    assert (source.path, source.urdf, source.base_link, source.tip_link) == (str(path), "", "one", "two")
    finds, _, _, found = finder(robot=str(path))
    finds.find()
    assert found[0].active_names == ("a", "b", "c") and finds.base_link == "root"
    finds, _, _, found = finder(robot="demo3")
    finds.find()
    assert finds.text == "" and finds.base_link == "base_link", "a table has no links"
    described, _, made, found = finder(base_link="one", tip_link="two")
    described.find()
    made[0][2](String(data=ARM))
    assert found[0].active_names == ("b",) and described.base_link == "one"


# --- lifecycle


class Plain(ManagedNode):
    """A node that keeps what happens to it."""

    def __init__(self):
        self.events, self.fails, self.bad = [], None, False
        own = (
            Described("speed", 0.5, "a share", 0.0, 1.0),
            Described("law", "a", "which", settable=Settable.UNCONFIGURED),
            Described("count", 3, "how many", 1, 9, settable=Settable.INACTIVE),
        )
        super().__init__("plain", own)
        self.autostart()

    def configure(self):
        self.events.append("configure")
        if self.fails:
            raise self.fails
        self.create_publisher(String, "out", 1)
        self.create_service(Trigger, "~/go", lambda request, response: response)
        self.create_timer(100.0, lambda: None)
        self.create_subscription(String, "in", lambda message: None, 1)

    def activate(self):
        assert self.active
        self.events.append("activate")

    def deactivate(self):
        self.events.append("deactivate")

    def on_robot(self, robot):
        self.events.append(robot.name)

    def check_parameters(self, changes):
        if self.bad:
            raise InputError("no", "leave it")
        self.events.append(("try", dict(changes)))

    def parameters_changed(self, changes):
        self.events.append(("set", dict(changes)))


def entities(node):
    return [len(found) for found, _ in node._entities()]


def test_a_node_goes_through_its_life_and_leaves_nothing():
    with node_of(Plain, robot="demo3", autostart="false") as node:
        assert not node.events and not node.active
        before = entities(node)
        for _ in range(2):
            node.trigger_configure()
            assert node.events == ["configure", "demo3"] and node.robot is not None and not node.active
            assert [after - count for after, count in zip(entities(node), before, strict=True)] == [1, 1, 1, 1]
            node.trigger_activate()
            assert node.active
            node.trigger_deactivate()
            assert not node.active and node.events[2:] == ["activate", "deactivate"]
            node.trigger_cleanup()
            assert entities(node) == before and node.robot is None
            node.events.clear()
        node.fails = InputError("no such driver", "choose one")
        node.trigger_configure()
        assert node._state_machine.current_state[1] == "unconfigured" and not node._configured
        node.fails = None
        node.trigger_configure()
        node.trigger_activate()
        node.trigger_shutdown()
        assert node.events[-1] == "deactivate" and not node.active, "shut down while active"


def test_an_active_node_that_is_closed_is_deactivated_first():
    with node_of(Plain, robot="demo3") as node:
        assert node.events == ["configure", "demo3", "activate"], "it starts by itself"
        node.close()
        assert node.events[-1] == "deactivate"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("output", "both", "choose from trajectory, effort"),
        ("effort_limits", "[5.0, -1.0, 5.0]", "out of range (0 to 1e+06): -1"),
        ("contact_thresholds", "[.nan]", "not finite"),
        ("timeout", "50.0", "timeout"),
        ("rate", "fast", "rate"),
    ],
)
def test_a_node_does_not_start_with_a_parameter_that_cannot_be(name, value, words):
    with pytest.raises(InputError, match="parameter") as refused, node_of(FeedforwardNode, **{name: value}):
        pass
    assert words in str(refused.value)


def test_threads_of_an_active_node_have_its_priority(monkeypatch):
    asked = []
    monkeypatch.setattr("ros2_dynid.nodes.common.lifecycle_node.raise_priority", lambda wanted: asked.append(wanted))
    for priority in (7, 0):
        with node_of(FeedforwardNode, robot="demo3", priority=priority, autostart="false") as node:

            def second(node=node):
                for timer in [timer for timer in node.timers if timer.timer_period_ns == 10**9]:
                    timer.callback()

            node.trigger_configure()
            second()
            assert not asked, "nothing is urgent yet"
            node.trigger_activate()
            assert asked == [priority][: bool(priority)], "at once"
            second()
            assert asked == [priority, priority][: 2 * bool(priority)], "threads come as they are needed"
            asked.clear()


def test_parameters_are_tried_then_set_and_only_in_their_state():
    with node_of(Plain, robot="demo3") as node:
        node.events.clear()

        def put(**values):
            (answer,) = node.set_parameters([Parameter(name, value=value) for name, value in values.items()])
            return answer.successful, answer.reason

        assert put(speed=0.75) == (True, "")
        assert node.events == [("try", {"speed": 0.75}), ("set", {"speed": 0.75})] and node.value("speed") == 0.75
        node.events.clear()
        for name, value, words in (
            ("speed", 1.5, "range"),
            ("law", "b", "clean up first"),
            ("count", 4, "deactivate first"),
        ):
            good, reason = put(**{name: value})
            assert not good and words in reason
        node.bad = True
        assert put(speed=0.1) == (False, "no; leave it") and node.value("speed") == 0.75
        assert not node.events
        node.bad = False
        node.trigger_deactivate()
        assert put(count=4)[0] and not put(law="b")[0]
        node.trigger_cleanup()
        assert put(law="b")[0]


@pytest.mark.parametrize(
    ("found", "warned"), [("6.3.1", True), ("7.1.4", False), ("9.1.0", False), ("10.0.1", True), ("", False)]
)
def test_which_rclpy_is_known(found, warned, monkeypatch):
    assert bool(check_rclpy(found)) is warned
    for part in ("WaitSet", "GuardCondition", "Subscription"):
        with monkeypatch.context() as patch:
            stub = SimpleNamespace(WaitSet=1, GuardCondition=1, Subscription=SimpleNamespace(take_message=1))
            delattr(stub, part)
            patch.setattr("ros2_dynid.nodes.common.rclpy_private._rclpy", stub)
            with pytest.raises(RclpyError, match=f"has no {part}"):
                check_rclpy(found)


# --- threads


def test_an_error_in_a_thread_ends_the_node_unless_it_ends_anyway(monkeypatch, capfd):
    ended = []
    monkeypatch.setattr("ros2_dynid.nodes.common.fast.os.kill", lambda pid, number: ended.append((pid, number)))

    def fails():
        raise ValueError("oh")

    guarded(lambda: None)()
    assert not ended
    guarded(fails)()
    assert ended == [(os.getpid(), signal.SIGTERM)] and "ValueError: oh" in capfd.readouterr().err
    monkeypatch.setattr(fast, "ending", SimpleNamespace(is_set=lambda: True))
    guarded(fails)()
    assert len(ended) == 1


def test_a_ticker_keeps_its_period_and_makes_up_for_no_pause(monkeypatch):
    """On a clock of the test: every 10 ms, late ones at once, and after a pause no more than one."""
    clock = SimpleNamespace(now=100.0, ticks=[])

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(fast, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))

    def tick():
        clock.ticks.append(clock.now)
        clock.now += {3: 0.025, 7: 5.0}.get(len(clock.ticks), 0.0)
        if len(clock.ticks) == 10:
            ticker._running = False

    ticker = object.__new__(Ticker)
    ticker._period, ticker._callback, ticker._running = 0.01, tick, True
    ticker._run()
    expected = [100.01, 100.02, 100.03, 100.055, 100.055, 100.06, 100.07, 105.07, 105.08, 105.09]
    np.testing.assert_allclose(clock.ticks, expected, atol=1e-9)


def test_a_priority_is_that_of_every_thread_and_of_no_process_started_later(monkeypatch):
    asked = []

    def schedule(thread, policy, parameter):
        asked.append((thread, policy, parameter.sched_priority))

    monkeypatch.setattr(os, "sched_setscheduler", schedule)
    assert raise_priority(40)
    assert {thread for thread, _, _ in asked} >= {os.getpid()}
    assert {(policy, priority) for _, policy, priority in asked} == {(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 40)}

    def refuses(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuses)
    assert not raise_priority(40)


# --- replay


def test_a_replay_plays_everything_and_counts_it(monkeypatch):
    data = [joint_state(NAMES, (k, k, k), stamp=k) for k in range(3)]
    made = {}
    monkeypatch.setattr(ReplayNode, "_publisher", lambda self, topic: made.setdefault(topic, Kept(topic, listeners)))
    for listeners in (1, 0):
        made.clear()
        messages = (Message(1000 * k, "/ab"[: 2 + k % 2], raw) for k, raw in enumerate(data))
        with own_domain() as environment, monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            told = replay(messages, rate=1.0, clock=False, topic=None, wait=0.0)
        assert {topic: kept.sent for topic, kept in made.items()} == {"/a": [data[0], data[2]], "/ab": [data[1]]}
        assert (told["published"], told["listeners"], told["interrupted"]) == (3, bool(listeners), False)
        assert 0.0 <= told["seconds"] < 60.0


def test_a_recording_is_played_on_its_topics_with_the_clock(monkeypatch):
    data = [joint_state(NAMES, (k, k, k), stamp=k) for k in range(3)]
    ticks = [
        (1_500_000_007, Message(0, "/a", data[0])),
        (2_000_000_000, None),
        (3_000_000_001, Message(0, "/b", data[1])),
        (4_000_000_000, Message(0, "/a", data[2])),
    ]
    asked = []

    def timed(messages, rate, *, stopped):
        asked.append((messages, rate, stopped()))
        return iter(ticks)

    monkeypatch.setattr("ros2_dynid.nodes.replay.node.timed", timed)
    with ros():
        for clock, topic in ((True, None), (False, "/other")):
            node, made = ReplayNode(clock=clock, topic=topic), {}

            def publisher(kind, name, qos, made=made):
                assert kind is JointState
                made[name] = Kept(name)
                return made[name]

            node.create_publisher = publisher
            clocks = Kept()
            node._clock_publisher = clocks if node._clock_publisher is not None else None
            stop = threading.Event()
            node.play("messages", 2.5, stop)
            assert asked[-1] == ("messages", 2.5, False) and node.published == 3
            found = {name: kept.sent for name, kept in made.items()}
            if clock:
                assert found == {"/a": [data[0], data[2]], "/b": [data[1]]}
                stamps = [message.clock for message in clocks.sent]
                assert stamps == [Time(sec=1, nanosec=500_000_007), Time(sec=2), Time(sec=3, nanosec=1), Time(sec=4)]
            else:
                assert found == {"/other": data} and not clocks.sent
            made[topic or "/a"].listeners = 0
            assert not node.wait_for_listeners("/a", 0.01)
            made[topic or "/a"].listeners = 1
            assert node.wait_for_listeners("/a", 30.0)
            node.destroy_node()


# --- the simulated robot


@pytest.fixture
def simulated():
    """Return a simulated robot whose time a test steps, with its messages kept."""
    with node_of(SimRobot, robot="demo3", start="[0.1, -1.0, 0.3]", rate=500.0, torque_noise=0.0) as node:
        node._ticker.close()
        node._states, node._temperatures, node._clock_out = Kept(), Kept(), Kept()
        node._inbox.do, node.do = lambda act: act(), node._inbox.do
        yield node


def step(node, count):
    node._pace.due = lambda now: count
    node._tick()


def test_joint_states_are_those_of_the_robot_with_its_stamps(simulated):
    node = simulated
    assert (node._pace.period_ns, node._pace.most) == (2_000_000, 100)
    before = node._pace.stamp
    step(node, 3)
    sent = node._states.sent
    assert len(sent) == 3 and list(sent[-1].name) == list(NAMES)
    stamps = [message.header.stamp.sec * 10**9 + message.header.stamp.nanosec for message in sent]
    assert stamps == [before + k * 2_000_000 for k in (1, 2, 3)]
    measured = node._plant.measured
    np.testing.assert_array_equal(
        (sent[-1].position, sent[-1].velocity, sent[-1].effort), (measured.q, measured.dq, measured.tau)
    )
    np.testing.assert_allclose(sent[-1].position, (0.1, -1.0, 0.3), atol=0.01)
    assert [message.clock for message in node._clock_out.sent] == [message.header.stamp for message in sent]
    node._tell_temperatures()
    assert [message.header.frame_id for message in node._temperatures.sent] == list(NAMES)
    assert [message.temperature for message in node._temperatures.sent] == pytest.approx(measured.temperature.tolist())
    node.active = False
    node._tell_temperatures()
    assert len(node._temperatures.sent) == 3
    node.active = True


def test_every_parameter_of_the_simulation_is_its_own(monkeypatch):
    made = []

    def plant(robot, **options):
        made.append(options)
        return SimpleNamespace(sim=SimpleNamespace(stopped=False))

    monkeypatch.setattr("ros2_dynid.nodes.sim_robot.node.Plant", plant)
    with node_of(
        SimRobot, robot="demo3", autostart="false", rate=250.0, seed=7, spread=0.25, start="[0.4]", stiffness=3.0,
        resolution=0.001, torque_noise=0.02, latency=5, cold=30.0, warm=50.0, warming_seconds=70.0,
    ) as node:  # fmt: skip
        node.trigger_configure()
        ((options),) = made
        flaws = options["imperfections"]
        assert (options["seed"], options["spread"], options["period"], options["stiffness"]) == (7, 0.25, 0.004, 3.0)
        np.testing.assert_array_equal(options["start"], (0.4, 0.4, 0.4))
        assert (flaws.resolution, flaws.torque_noise, flaws.latency) == (0.001, 0.02, 5)
        assert (flaws.cold, flaws.warm, flaws.warming_time) == (30.0, 50.0, 70.0)
        for wrong in ([0.1, 0.2], [0.1] * 4):
            monkeypatch.setattr(node, "value", lambda name, wrong=wrong: wrong)
            with pytest.raises(InputError, match=f"start has {len(wrong)} positions; give one, or 3"):
                node._start_of(ROBOT)


def test_commands_reach_the_robot_in_its_order_and_at_their_time(simulated, monkeypatch):
    node, done = simulated, []
    plant = node._plant
    for name in ("follow", "push", "brake"):
        monkeypatch.setattr(plant, name, lambda *args, name=name: done.append((name, *args)))
    monkeypatch.setattr(plant.sim, "attach", lambda *args: done.append(("attach", *args)))
    way = reference(NAMES, np.array([1.0, 2.0]), np.arange(6.0).reshape(2, 3)).ordered(("elbow", "waist", "shoulder"))
    at = node._pace.stamp + 1_500_000_000
    node._on_trajectory(trajectory_message(way, Time(sec=at // 10**9, nanosec=at % 10**9)))
    name, points, delay = done.pop()
    assert name == "follow" and delay == pytest.approx(1.5) and points.joint_names == NAMES
    assert node._pace.most == 10_000, "from the first trajectory on, no time is dropped"
    np.testing.assert_array_equal(points.q, np.arange(6.0).reshape(2, 3))
    node._on_trajectory(trajectory_message(way))
    assert done.pop()[2] == 0.0
    node._on_efforts(Float64MultiArray(data=[1.0, 2.0, 3.0]))
    name, torque = done.pop()
    assert name == "push" and torque.tolist() == [1.0, 2.0, 3.0]
    for on, words in ((True, "brakes on"), (False, "brakes off, holding")):
        answer = node._on_emergency_stop(SetBool.Request(data=on), SetBool.Response())
        assert answer.success and answer.message == words and done.pop() == ("brake", on)
    payload = Inertia(m=2.0, com=Vector3(x=0.1, y=0.2, z=0.3), ixx=0.4)
    answer = node._on_payload(SetPayload.Request(payload=payload), SetPayload.Response())
    name, mass, _, inertia, number = done.pop()
    assert answer.success and (name, mass, number, inertia[0, 0]) == ("attach", 2.0, 3, pytest.approx(0.4))
    node.active = False
    answer = node._on_emergency_stop(SetBool.Request(data=True), SetBool.Response())
    assert not answer.success and "not active" in answer.message and not done
    node.active = True


def test_the_description_goes_to_everybody_else(tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    with node_of(SimRobot, robot=tmp_path / "arm.urdf", autostart="false") as node:
        made = {}
        node.create_publisher = lambda kind, topic, qos: made.setdefault(topic, Kept(topic))
        node.trigger_configure()
        assert [message.data for message in made["robot_description"].sent] == [ARM]
        for message in (JointTrajectory(), Float64MultiArray()):
            said = []
            node.get_logger = lambda said=said: SimpleNamespace(error=said.append)
            (node._on_trajectory if isinstance(message, JointTrajectory) else node._on_efforts)(message)
            assert len(said) == 1 and "refused" in said[0], "a command that cannot be ends nothing"
        del node.get_logger


def test_what_is_asked_is_done_between_two_steps(simulated, monkeypatch):
    node, done = simulated, []
    node._inbox.do = node.do
    steps = node._plant.step
    monkeypatch.setattr(node._plant, "step", lambda: done.append("step") or steps())
    asking = threading.Thread(target=node._ask, args=(lambda plant, pace: done.append((plant, pace)),), daemon=True)
    asking.start()
    soon(lambda: len(node._inbox._waiting) == 1, "the question")
    assert not done, "another thread owns the robot"
    step(node, 2)
    asking.join(30.0)
    assert done == [(node._plant, node._pace), "step", "step"] and not asking.is_alive()


def test_what_the_simulation_says_of_itself(simulated):
    node = simulated
    assert node.status()[:2] == (OK, "running")
    node._pace.dropped = 3
    level, message, values = node.status()
    assert (level, message, values["dropped"]) == (WARN, "behind real time", 3)
    node._plant.sim.stopped = True
    assert node.status()[:2] == (WARN, "emergency stop")
    node._plant = None
    assert node.status()[:2] == (WARN, "no robot yet")


# --- the payload bridge

DRIVER = Driver(
    "arm", "ros2_dynid/srv/SetPayload", "driver/set_payload", "tool",
    {"payload.m": "mass", "payload.com.x": "com.x", "payload.com.y": "com.y", "payload.com.z": "com.z", "link": "link"},
    "success", "message", 5.0, 0.5,
    Asked("ros2_dynid/srv/IdentifyPayload", "driver/get_payload", {"payload.m": "mass", "payload.com.y": "com.y"}),
)  # fmt: skip


class Service:
    """A driver's service."""

    def __init__(self, answer):
        self.answer, self.asked, self.there, self.removed = answer, [], True, []

    def wait_for_service(self, patience):
        return self.there

    def service_is_ready(self):
        return self.there

    def call_async(self, request):
        self.asked.append(request)
        return Future(self.answer)

    def remove_pending_request(self, future):
        self.removed.append(future)


@pytest.fixture
def bridge(tmp_path):
    """Return a bridge with its driver's two services, set and get; tool and camera are links of the robot."""
    arm = urdf(
        f'<link name="root"/><link name="one">{BODY}</link><link name="tool"/><link name="camera"/>',
        joint("a", "root", "one", inside=FREE),
        '<joint name="m" type="fixed"><parent link="one"/><child link="tool"/><origin xyz="0.1 0 0"/></joint>',
        '<joint name="n" type="fixed"><parent link="one"/><child link="camera"/><origin xyz="0 0.2 0"/></joint>',
        name="arm",
    )
    (tmp_path / "arm.urdf").write_text(arm)
    (tmp_path / "bridges.yaml").write_text(
        "bridges:\n  arm: {type: ros2_dynid/srv/SetPayload, service: driver/set_payload, link: tool,"
        " fields: {payload.m: mass, payload.com.x: com.x, link: link}, success: success, message: message,"
        " limits: {mass: 5.0, com: 0.5}}\n"
    )
    with node_of(
        PayloadBridge, robot=tmp_path / "arm.urdf", driver="arm", bridges_file=tmp_path / "bridges.yaml", timeout=0.1,
        driver_service="other/set_payload",
    ) as node:  # fmt: skip
        assert node._driver.service == "other/set_payload" and node._asking is None
        node._driver = DRIVER
        told = IdentifyPayload.Response(payload=Inertia(m=2.0, com=Vector3(y=0.05)))
        node.put, node.get = Service(SetPayload.Response(success=True)), Service(told)
        node._client, node._asking = (SetPayload, node.put), (IdentifyPayload, node.get)
        yield node


def sent(node, **fields):
    payload = Inertia(m=2.0, com=Vector3(x=0.11, y=0.05, z=0.02))
    good = {"payload": payload, "link": "one", "mass_std": 0.02, "com_std": Vector3(x=1e-3, y=2e-3, z=3e-3)}
    return node._on_send(ForwardPayload.Request(**{**good, **fields}), ForwardPayload.Response())


def test_a_payload_is_sent_in_the_frame_chosen_and_confirmed(bridge):
    node = bridge
    answer = sent(node)
    assert answer.success and "; the driver confirms it" in answer.message, answer.message
    request = node.put.asked[-1]
    assert (request.payload.m, request.link) == (2.0, "tool")
    np.testing.assert_allclose(
        (request.payload.com.x, request.payload.com.y, request.payload.com.z), (0.01, 0.05, 0.02)
    )
    assert "2 kg with its centre at (10.0, 50.0, 20.0) mm of tool sent to driver/set_payload" in answer.message
    assert node.status() == (OK, "ready", {"driver": "arm", "last": answer.message})
    node.get.answer.payload.com.y = -0.15
    node.set_parameters([Parameter("driver_link", value="camera")])
    answer = sent(node)
    assert answer.success and node.put.asked[-1].link == "camera"
    assert node.put.asked[-1].payload.com.x == pytest.approx(0.11)
    (refused,) = node.set_parameters([Parameter("driver_link", value="nowhere")])
    assert not refused.successful and "no link 'nowhere'" in refused.reason
    node._asking = None
    assert "cannot be asked back" in sent(node).message


def test_error_bars_are_held_against_the_parameters(bridge):
    node = bridge
    for fields in (
        {"mass_std": 0.2},
        {"com_std": Vector3(x=0.02, y=1e-3, z=1e-3)},
        {"com_std": Vector3(x=1e-3, y=0.02, z=1e-3)},
        {"com_std": Vector3(x=1e-3, y=1e-3, z=0.02)},
    ):
        assert not sent(node, **fields).success and not node.put.asked
    node.set_parameters([Parameter("largest_mass_std", value=0.2), Parameter("largest_com_std", value=0.05)])
    assert sent(node, mass_std=0.2, com_std=Vector3(x=0.02, y=0.02, z=0.02)).success


def test_whatever_the_driver_does_is_passed_on(bridge):
    node = bridge
    node.get.answer.payload.m = 2.5
    assert "tells another mass" in sent(node).message
    node.get.answer.payload.m = 2.0
    node.put.answer = SetPayload.Response(success=False, message="it moves")
    answer = sent(node)
    assert not answer.success and "refuses the payload: it moves" in answer.message
    node.put.answer = SetPayload.Response(success=False)
    assert "it gives no reason" in sent(node).message
    node.put.answer = None
    assert "has not answered for 0.1 s" in sent(node).message and len(node.put.removed) == 1
    node.put.there = False
    assert "driver/set_payload is not there" in sent(node).message
    assert node.status()[:2] == (WARN, "the driver's service is not there")
    count = len(node.put.asked)
    with node._sending:
        assert "another payload is being sent" in sent(node).message
    node.active = False
    assert "not active" in sent(node).message and len(node.put.asked) == count
    node.active = True


def test_fields_are_set_and_read_by_path():
    message = SetPayload.Request()
    set_path(message, "payload.com.y", 0.5)
    set_path(message, "link", "tool")
    assert (message.payload.com.y, message.link) == (0.5, "tool")
    assert get_path(message, "payload.com.y") == 0.5 and get_path(message, "link") == "tool"
    values = Float64MultiArray()
    set_path(values, "data", (1.0, 2.0, 3.0))
    assert get_path(values, "data") == (1.0, 2.0, 3.0)
    check_path(Float64MultiArray, "data", "com")
    check_path(Float64MultiArray, "data", "inertia")
    check_path(SetPayload.Request, "link", "link")
    for kind, path, figure in (
        (Float64MultiArray, "data", "mass"),
        (SetPayload.Request, "payload.m", "link"),
        (SetPayload.Request, "payload.m", "com"),
    ):
        with pytest.raises(InputError, match="cannot hold"):
            check_path(kind, path, figure)


@pytest.mark.parametrize(
    ("figure", "fits"),
    [
        ("mass", ("double", "float", "float64", "float32")),
        ("link", ("string",)),
        ("com", ("double[3]", "float[3]", "sequence<double>", "sequence<float>")),
        ("inertia", ("double[9]", "float[9]", "sequence<double>", "sequence<float>")),
    ],
)
def test_a_figure_goes_where_there_is_room_for_all_of_it(figure, fits):
    others = ("int32", "boolean", "double[6]", "double[12]", "sequence<double, 3>", "geometry_msgs/Vector3")
    for field in {*fits, *others, "double", "string", "double[3]", "double[9]", "sequence<float>"}:
        kind = SimpleNamespace(get_fields_and_field_types=lambda field=field: {"value": field})
        if field in fits:
            check_path(lambda kind=kind: kind, "value", figure)
        else:
            with pytest.raises(InputError, match="cannot hold"):
                check_path(lambda kind=kind: kind, "value", figure)


# --- the mission


class Pilot:
    """A client that keeps what it is told, and is off the reference by so much."""

    robot = ROBOT

    def __init__(self, **off):
        self.off, self.done = off, []

    def go(self, q):
        self.done.append(("go", np.round(q, 6).tolist()))

    def position(self):
        return np.zeros(3)

    def set(self, node, **values):
        self.done.append((node, values))

    def follow(self, points, *, feedforward):
        self.done.append(("follow", feedforward, points))
        t = np.linspace(0.0, points.duration, 5)
        error = np.zeros((5, 3))
        error[2] = self.off["with_" if feedforward else "without"]
        return t, points.sampled(t)[0] + error


def test_tracking_is_compared_without_and_with_feedforward():
    pilot = Pilot(without=(0.4, 0.0, 0.0), with_=(0.0, -0.1, 0.0))
    way = reference(NAMES, np.array([0.0, 2.0]), np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]))
    found = driving.tracking(pilot, way)
    assert found.without == pytest.approx(0.4 / np.sqrt(15)) and found.with_ == pytest.approx(0.1 / np.sqrt(15))
    assert found.ratio == pytest.approx(4.0)
    start = ("go", [1.0, 2.0, 3.0])
    assert [done[:2] for done in pilot.done] == [start, ("follow", False), start, ("follow", True), start]


def test_the_open_loop_moves_a_fifth_of_the_range_and_sets_back_what_it_set():
    pilot = Pilot(with_=(0.1, -0.2, 0.0))
    found = driving.open_loop(pilot, {"slow": 2.0, "quick": 1.0})
    limits = [joint.limits for joint in ROBOT.joints]
    lower, upper = (np.array([max(x.lower, -1.5) for x in limits]), np.array([min(x.upper, 1.5) for x in limits]))
    travel, middle = 0.2 * (upper - lower), (lower + upper) / 2
    share = np.array([0.1, 0.2, 0.0]) / travel
    assert set(found) == {
        f"{s}, {g}" for s in ("slow", "quick") for g in ("gravity at the reference", "on-line gravity")
    }
    for one in found.values():
        assert (one.worst, one.mean) == (pytest.approx(share.max()), pytest.approx(share.mean()))
    follows = [done[2] for done in pilot.done if done[0] == "follow"]
    assert [points.duration for points in follows] == pytest.approx([2.0, 2.0, 1.0, 1.0])
    np.testing.assert_allclose(follows[0].q[[0, -1]], [middle - travel / 2, middle + travel / 2])
    settings = [done[1] for done in pilot.done if done[0] == "feedforward"]
    assert [s["measured_gravity"] for s in settings] == [False, False, True, False] * 2
    assert [s["output"] for s in settings] == ["effort", "trajectory"] * 4
    assert settings[0]["hold_gravity_on_activate"] is False
    assert pilot.done[0] == ("go", np.round(middle - travel / 2, 6).tolist())


def test_a_payload_is_weighed_against_the_truth():
    payload = Inertia(m=1.8, com=Vector3(x=0.1, y=0.2, z=0.3))
    asked = []

    def call(kind, name, **fields):
        asked.append((name, fields))
        return SimpleNamespace(payload=payload, mass_std=0.05)

    found = driving.weighed(SimpleNamespace(call=call), "empty.bag", "loaded.bag", 2.0)
    assert asked[0][1]["empty_bags"] == ["empty.bag"] and asked[0][1]["loaded_bags"] == ["loaded.bag"]
    assert (found.true_mass, found.bag, found.mass, found.mass_std) == (2.0, "loaded.bag", 1.8, 0.05)
    assert found.com == (0.1, 0.2, 0.3) and found.relative_error == pytest.approx(0.1) and found.error is None

    def refuses(kind, name, **fields):
        raise ClientError("not excited")

    found = driving.weighed(SimpleNamespace(call=refuses), "empty.bag", "loaded.bag", 2.0)
    assert found.error == "not excited" and found.mass is None


class Operator:
    """The mission's client: an excitation that runs at once and a recorder that follows it."""

    def __init__(self, ends="done"):
        self.recording, self.excitation_state, self.asked, self.ends, self.refuse = "old", None, [], ends, []

    def call(self, kind, name, timeout=60.0, **fields):
        self.asked.append((name, fields))
        if self.refuse:
            raise ClientError(self.refuse.pop())
        if name in ("excitation/start", "excitation/rehearse"):
            self.excitation_state = self.ends
            if name.endswith("start"):
                self.recording = f"bag {len(self.asked)}"
        way = trajectory_message(reference(NAMES, np.array([0.0, 2.0]), np.arange(6.0).reshape(2, 3)))
        return SimpleNamespace(duration=2.0, cond=3.0, trajectory=way)

    def wait(self, done, timeout, what):
        assert done(), what

    def wait_for_excitation(self, *states, timeout):
        state = getattr(ExcitationState, self.ends.partition(":")[0].upper())
        assert state in states and self.excitation_state == self.ends
        return ExcitationState(state=state, text=self.ends)


def mission(operator):
    made = object.__new__(Mission)
    load = SimpleNamespace(mass=2.0, com=(0.1, 0.2, 0.3), inertia=np.eye(3).tolist())
    made._request = SimpleNamespace(seed=5, duration=7.0, rehearsal_speed=0.5, payload=load)
    made.robot, made._client = ROBOT, operator
    return made


def test_the_mission_identifies_from_its_own_recordings(capsys):
    operator, asked = Operator(), []

    def act(kind, name, goal, feedback):
        asked.append((kind, name, list(goal.bags), list(goal.validation_bags)))
        for stage in ("reading", "filters", "filters", "reading", "solving"):
            feedback(SimpleNamespace(feedback=SimpleNamespace(stage=stage)))
        return SimpleNamespace(model_path="model.yaml", parameters="parameters")

    operator.act = act
    found = mission(operator)._identify(["a", "b"], ["c"])
    assert asked == [(Identify, "identification/identify", ["a", "b"], ["c"])]
    assert found == ("model.yaml", ("reading", "filters", "solving"), "parameters"), "each stage once"
    assert "identifying" in capsys.readouterr().out


def test_the_mission_plans_rehearses_and_records(monkeypatch, capsys):
    monkeypatch.setattr("ros2_dynid.nodes.mission.node.time.sleep", lambda seconds: None)
    operator = Operator()
    points, bag = mission(operator)._excite("exciting trajectory", seed=5)
    names = [name for name, _ in operator.asked]
    assert names == ["excitation/plan", "excitation/rehearse", "excitation/start"]
    assert operator.asked[0][1] == {"seed": 5, "duration": [7.0]}
    assert bag == operator.recording == "bag 3" and points.joint_names == NAMES
    assert json.loads(capsys.readouterr().out.splitlines()[0])["say"].startswith("exciting trajectory: 2.0 s")
    _, bag = mission(operator)._excite("validation", seed=6, rehearse=False)
    assert [name for name, _ in operator.asked[3:]] == ["excitation/plan", "excitation/start"] and bag == "bag 5"
    with pytest.raises(ClientError, match="the excitation stopped: aborted: stop"):
        mission(Operator("aborted: stop"))._excite("exciting trajectory", seed=5)
    operator.refuse = ["the robot is not at rest", "the position of the robot is not known: silent"]
    mission(operator)._accepted("start")
    operator.refuse = ["there is no plan"]
    with pytest.raises(ClientError, match="no plan"):
        mission(operator)._accepted("start")


def test_the_mission_validates_on_another_plan_and_tells_all_that_it_found(monkeypatch):
    made, excited = mission(Operator()), []
    made._client.position = lambda: None
    made._request.open_loop_seconds = {"slow": 2.0}

    def excite(what, seed, rehearse=True):
        excited.append((seed, rehearse))
        return f"way {seed}", f"bag {seed}"

    def identify(bags, validation):
        assert (bags, validation) == (["bag 5"], ["bag 6"])
        own, held = (SimpleNamespace(joint="all", rms=rms, relative=rms / 2) for rms in (0.2, 0.4))
        return "model.yaml", ("filters",), SimpleNamespace(fit=[own], validation=[held])

    made._excite, made._identify, made._payload = excite, identify, lambda bag: f"payload of {bag}"
    module = "ros2_dynid.nodes.mission.node"
    monkeypatch.setattr(f"{module}.tracking", lambda client, way: f"tracking along {way}")
    monkeypatch.setattr(f"{module}.open_loop", lambda client, seconds: dict(seconds))
    found = made.run()
    assert excited == [(5, True), (6, False)]
    assert (found.bags, found.validation_bags, found.model) == (("bag 5",), ("bag 6",), "model.yaml")
    assert (found.fit["all"].rms, found.fit["all"].relative, found.validation["all"].rms) == (0.2, 0.1, 0.4)
    assert (found.tracking, found.payload) == ("tracking along way 5", "payload of bag 5")
    assert found.open_loop == {"slow": 2.0} and found.stages == ("filters",)


def test_the_mission_attaches_its_payload_and_takes_it_off(monkeypatch):
    operator, weighed = Operator(), []

    def weigh(client, empty, loaded, mass):
        weighed.append((empty, loaded, mass, operator.asked[-1][0]))
        return "weighed"

    monkeypatch.setattr("ros2_dynid.nodes.mission.node.weighed", weigh)
    assert mission(operator)._payload("empty.bag") == "weighed"
    first, start, last = operator.asked
    assert first[0] == last[0] == "sim_robot/set_payload" and start[0] == "excitation/start"
    load = first[1]["payload"]
    assert (load.m, load.com.x, load.com.y, load.com.z, load.ixx) == (2.0, 0.1, 0.2, 0.3, 1.0)
    assert last[1]["payload"] == Inertia() and weighed == [("empty.bag", "bag 2", 2.0, "excitation/start")]


def test_samples_of_a_plan_become_points():
    samples = SimpleNamespace(
        t=np.array([0.0, 1.0]), **{k: v * np.ones((2, 3)) for k, v in (("q", 1), ("dq", 2), ("ddq", 3))}
    )
    points = reference_points(NAMES, samples)
    message = trajectory_message(points)
    assert isinstance(message, JointTrajectory)
    point = message.points[1]
    assert (point.positions[0], point.velocities[0], point.accelerations[0]) == (1.0, 2.0, 3.0)
