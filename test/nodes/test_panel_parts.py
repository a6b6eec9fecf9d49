"""What the panel hears, shows and asks of other nodes: part by part, without a browser or a graph."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Pose, Vector3
from lifecycle_msgs.msg import Transition
from ros2_dynid.action import Identify
from ros2_dynid.msg import BaseParameter, BaseParameters, ExcitationState, TorqueError
from std_msgs.msg import Bool, ColorRGBA, Header, String

from in_process import Future, Kept, joint_state, node_of, soon
from perfect import perfect_model
from ros2_dynid.control.reference import reference
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.panel import listening
from ros2_dynid.nodes.panel.node import Panel
from ros2_dynid.nodes.panel.rviz import Rviz
from ros2_dynid.nodes.panel.services import LIFECYCLE, LONG, SHORT, Services

pytestmark = pytest.mark.in_process

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
STRANGE = trajectory_message(reference(("left",), np.ones(1), np.ones((1, 1))))


def way(factor=1.0):
    """Return a trajectory of two seconds along which every joint has another speed."""
    q = factor * np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]])
    return reference(NAMES, np.array([0.0, 2.0]), q)


# --- what is heard


@pytest.fixture
def heard(monkeypatch):
    """Return what listens, the callbacks by topic, and the node around it, whose clock a test sets."""
    callbacks, plans = {}, []

    def stream(node, kind, topic, callback, qos, rest):
        callbacks[topic] = callback
        return SimpleNamespace(close=lambda: callbacks.pop(topic))

    monkeypatch.setattr(listening, "Stream", stream)
    node = SimpleNamespace(robot=ROBOT, now=100.0, now_ns=lambda: round(node.now * 1e9))
    node.create_subscription = lambda kind, topic, callback, qos: callbacks.update({topic: callback})
    return listening.Listening(node, 0.05, plans.append), callbacks, node, plans


def send(callbacks, message, stamp=None):
    if stamp is not None:
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(stamp * 1e9), 10**9)
    callbacks["joint_trajectory"](message)


def at(callbacks, stamp):
    """Let a joint state come with this stamp [s]."""
    callbacks["joint_states"](joint_state(NAMES, (0, 0, 0), stamp=round(stamp * 1e9)))


def test_the_reference_is_that_of_the_joint_state_shown(heard):
    listens, callbacks, node, _ = heard
    assert listens.reference() is None
    send(callbacks, trajectory_message(way()), 100.5)
    node.now = 101.0
    at(callbacks, 0.0)
    np.testing.assert_allclose(listens.reference(), (0.5, 1.0, 1.5), err_msg="a driver that does not stamp: now")
    at(callbacks, 100.75)
    np.testing.assert_allclose(listens.reference(), (0.25, 0.5, 0.75), err_msg="a joint state that is late")
    at(callbacks, 99.5)
    np.testing.assert_allclose(listens.reference(), (0.5, 1.0, 1.5), err_msg="one by another clock")
    node.now = 103.4
    np.testing.assert_allclose(listens.reference(), (2.0, 4.0, 6.0), err_msg="at its end")
    node.now = 103.6
    assert listens.reference() is None, "a second after its end"
    node.now = 200.0
    send(callbacks, trajectory_message(way()))
    node.now = 201.0
    np.testing.assert_allclose(listens.reference(), (1.0, 2.0, 3.0), err_msg="without a stamp it began on arrival")
    send(callbacks, STRANGE)
    np.testing.assert_allclose(listens.reference(), (1.0, 2.0, 3.0), err_msg="that of others is nothing to show")


def test_streams_are_in_the_robots_order_and_shown_while_they_are_fresh(heard, monkeypatch):
    listens, callbacks, node, _ = heard
    data = joint_state(("elbow", "waist", "shoulder"), (3, 1, 2), (), (9, 7, 8))
    assert not listens.measured.fresh and listens.predicted() is None
    callbacks["joint_states"](data)
    np.testing.assert_array_equal((listens.measured.states.q, listens.measured.states.tau), ((1, 2, 3), (7, 8, 9)))
    assert listens.measured.fresh and not listens.external.fresh
    callbacks["feedforward/external_effort"](joint_state(NAMES, (), (), (4, 5, 6)))
    np.testing.assert_array_equal(listens.external.states.tau, (4, 5, 6))
    callbacks["identification/predicted"](joint_state(NAMES, (), (), (1, 1, 1)))
    np.testing.assert_array_equal(listens.predicted(), (1, 1, 1))
    callbacks["feedforward/predicted"](joint_state(NAMES, (), (), (2, 2, 2)))
    np.testing.assert_array_equal(listens.predicted(), (2, 2, 2), err_msg="what is fed forward comes first")
    now = time.monotonic()
    monkeypatch.setattr(listening.time, "monotonic", lambda: now + 1.5)
    assert not listens.measured.fresh and listens.predicted() is None
    callbacks["joint_states"](joint_state(("left",), (1,)))
    assert not listens.measured.fresh, "of other joints"
    node.robot = None
    callbacks["joint_states"](data)
    assert not listens.measured.fresh
    listens.close()
    assert not {"joint_states", "feedforward/predicted", "feedforward/external_effort"} & set(callbacks)


def test_what_nodes_tell_is_kept_as_one_line(heard):
    listens, callbacks, _, plans = heard
    callbacks["excitation_state"](excitation("aborted:\nstop"))
    callbacks["recording"](String(data="/tmp/bag"))
    assert (listens.excitation.text, listens.recorded, listens.drift) == ("aborted: stop", "/tmp/bag", None)
    for flag in (True, False):
        callbacks["drift"](Bool(data=flag))
        assert listens.drift is flag
    callbacks["excitation/planned"](STRANGE)
    callbacks["excitation/planned"](trajectory_message(way()))
    assert [plan.joint_names for plan in plans] == [NAMES]
    own = [TorqueError(joint="elbow", relative=0.5), TorqueError(joint="all", relative=0.031)]
    message = BaseParameters(robot="arm", parameters=[BaseParameter()] * 4, fit=own)
    callbacks["base_parameters"](message)
    assert listens.model == "arm: 4 base parameters, torque error 3.1 % on its own data"
    message.validation = [TorqueError(joint="all", relative=0.052)]
    callbacks["base_parameters"](message)
    assert listens.model == "arm: 4 base parameters, torque error 5.2 % on held-out data"


def diagnostics(name, level=DiagnosticStatus.OK, text="", **values):
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    return DiagnosticArray(status=[DiagnosticStatus(name=name, level=level, message=text, values=pairs)])


def test_diagnostics_are_sorted_forgotten_and_tell_of_a_recording(heard, monkeypatch):
    listens, callbacks, _, _ = heard
    tell = callbacks["/diagnostics"]
    tell(diagnostics("recorder: state", DiagnosticStatus.WARN, "gaps", path=""))
    assert not listens.recording
    tell(diagnostics("arm/recorder: state", path="/tmp/bag"))
    assert listens.recording
    tell(diagnostics("excitation: state", DiagnosticStatus.ERROR, "aborted", path=""))
    assert listens.recording, "only the recorder tells of recordings"
    assert listens.diagnostics() == [
        {"name": "arm/recorder: state", "level": 0, "text": ""},
        {"name": "excitation: state", "level": 2, "text": "aborted"},
        {"name": "recorder: state", "level": 1, "text": "gaps"},
    ]
    tell(diagnostics("recorder: state", path=""))
    assert not listens.recording
    for k in range(100):
        tell(diagnostics(f"other {k}"))
    assert len(listens.diagnostics()) == 64
    tell(diagnostics("recorder: state", text="new"))
    assert {"name": "recorder: state", "level": 0, "text": "new"} in listens.diagnostics(), "one that is known"
    now = time.monotonic()
    monkeypatch.setattr(listening.time, "monotonic", lambda: now + 6.0)
    assert listens.diagnostics() == []


# --- the node


class Others:
    """The other nodes: keeps what is asked, and answers as told."""

    def __init__(self):
        self.asked, self.answers, self.there = [], {}, {"excitation", "recorder", "identification", "feedforward"}

    def nodes(self):
        return frozenset(self.there)

    def call(self, name, patience=SHORT, **fields):
        self.asked.append((name, patience, fields))
        answer = self.answers.get(name, SimpleNamespace(message=f"{name} done"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def identify(self, feedback):
        self.asked.append(("identify", None, {}))
        feedback("filters", 0.5)
        self.seen = self.panel._progress, self.panel.situation().identifying
        return SimpleNamespace(model_path=self.path)

    def cancel(self):
        self.asked.append(("cancel", None, {}))

    def load_model(self, path):
        self.asked.append(("load_model", None, {"path": path}))
        self.loading = self.panel.situation().loading


@pytest.fixture
def panel():
    """Return a panel whose nodes answer here, and these; its ticker does not run."""
    with node_of(Panel, robot="demo3", port=0, token="secret") as node:
        node._ticker.close()
        node._others = Others()
        node._others.panel = node
        soon(lambda: node._robot_text, "the robot's looks")
        yield node, node._others


def excitation(text):
    """Return the state of the excitation whose text this is."""
    return ExcitationState(state=getattr(ExcitationState, text.partition(":")[0].upper()), text=text)


def situation(node, **fields):
    for name, value in fields.items():
        setattr(node._listening, name, value)


def test_only_a_plan_rehearsed_to_its_end_counts_as_rehearsed(panel):
    node, others = panel
    node._on_plan(way())
    assert node._plan_number == 1
    for state in ("idle", "approach", "rehearsing", "braking: stop", "aborted: stop", "idle", "done"):
        node._follow(excitation(state))
        assert node._rehearsed == 0
    for state in ("rehearsing", "done"):
        node._follow(excitation(state))
    assert node._rehearsed == 1
    levels = {line["text"]: line["level"] for line in node._lines}
    assert levels["excitation: aborted: stop"] == levels["excitation: braking: stop"] == "bad"
    assert levels["excitation: done"] == "good"
    node._on_plan(way(0.5))
    assert node._plan_number == 2, "another plan is not rehearsed"
    with pytest.raises(DynidError, match="has not been rehearsed"):
        node.act("start", {})
    for state in ("rehearsing",):
        node._follow(excitation(state))
    node._on_plan(way())
    node._follow(excitation("done"))
    assert node._rehearsed == 2, "it is the plan of its beginning that was rehearsed"
    situation(node, excitation=excitation("done"))
    for anyway in (False, 1, "true", None):
        with pytest.raises(DynidError, match="has not been rehearsed"):
            node.act("start", {"anyway": anyway})
    assert not others.asked
    assert node.act("start", {"anyway": True}) == "excitation/start done"
    node._rehearsed = 3
    assert node.act("start", {}) == "excitation/start done"


def test_actions_ask_the_right_node_with_the_right_figures(panel):
    node, others = panel
    node._on_plan(way())
    others.answers |= {
        "excitation/plan": SimpleNamespace(duration=5.0, cond=12.0, message="plan.yaml"),
        "recorder/start": SimpleNamespace(path="/tmp/bag"),
        "recorder/stop": SimpleNamespace(samples=7, duration=1.5, rate=100.0, problems=["gap", "nan"]),
    }
    assert node.act("plan", {"seed": 4, "duration": 6.5}) == "5 s, condition number 12, plan.yaml"
    assert others.asked[-1] == ("excitation/plan", LONG, {"seed": 4, "duration": [6.5]})
    assert node.act("rehearse", {}) == "excitation/rehearse done"
    assert node.act("stop", {}) == "excitation/stop done"
    assert node.act("record", {}) == "recording /tmp/bag"
    situation(node, recording=True)
    assert node.act("end_recording", {}) == "7 joint states in 1.5 s at 100 Hz; gap; nan"
    assert node.act("payload", {"mass": 2.5, "x": 0.1, "y": -0.2, "z": 0.3}) == "2.5 kg"
    name, _, fields = others.asked[-1]
    load = fields["payload"]
    assert name == "feedforward/set_payload"
    assert (load.m, load.com.x, load.com.y, load.com.z, load.ixx) == (2.5, 0.1, -0.2, 0.3, 0.0)
    for name, request in (("plan", {"seed": "4"}), ("payload", {"mass": True}), ("payload", {"y": float("nan")})):
        with pytest.raises(DynidError, match="is not a number"):
            node.act(name, request)
    with pytest.raises(InputError, match="there is no action 'dance'"):
        node.act("dance", {})
    others.answers["excitation/stop"] = DynidError("no")
    with pytest.raises(DynidError, match="no"):
        node.act("stop", {})
    assert node._lines[-1] == {"level": "bad", "text": "stop: no"} and not node._busy
    others.there.remove("recorder")
    situation(node, recording=False)
    with pytest.raises(DynidError, match="the node recorder does not answer"):
        node.act("record", {})


def test_an_identification_shows_its_progress_and_its_verdict(panel, tmp_path):
    node, others = panel
    perfect_model(ROBOT, tmp_path / "model.yaml")
    others.path = str(tmp_path / "model.yaml")
    with pytest.raises(DynidError, match="there is no recording yet"):
        node.act("identify", {})
    with pytest.raises(DynidError, match="no identification is under way"):
        node.act("cancel", {})
    situation(node, recorded="/tmp/bag")
    assert node.act("identify", {}) == others.path
    assert others.seen == (("filters", 0.5), True) and not node.situation().identifying
    assert node._verdict and all(set(line) == {"level", "text"} for line in node._verdict)
    others.path = "/on/another/computer.yaml"
    assert node.act("identify", {}) == others.path and node._verdict == []
    with node._working("identify"):
        assert node.act("cancel", {}) == "the identification ends" and others.asked[-1][0] == "cancel"
        with pytest.raises(DynidError, match="under way"):
            node.act("identify", {})
    for wrong in ({}, {"path": "  "}, {"path": 3}):
        with pytest.raises(DynidError, match="no model file"):
            node.act("load_model", wrong)
    assert node.act("load_model", {"path": " /models/arm.yaml "})
    assert others.asked[-1] == ("load_model", None, {"path": "/models/arm.yaml"}) and others.loading
    assert not node.situation().loading
    situation(node, excitation=excitation("exciting"))
    with pytest.raises(DynidError, match="the robot moves"):
        node.act("load_model", {"path": "/models/arm.yaml"})


@pytest.mark.parametrize(
    ("wanted", "moving", "stopped"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_commander_that_is_gone_stops_the_motion_if_that_is_wanted(panel, monkeypatch, wanted, moving, stopped):
    node, others = panel
    monkeypatch.setattr(node, "value", lambda name: {"stop_on_disconnect": wanted}[name])
    situation(node, excitation=excitation("exciting" if moving else "done"))
    node.access.check("take_over", "first", "secret")
    node._watch_commander()
    assert node.access.commander == "first" and not node._lines
    node.access.check("take_over", "second", "secret")
    node._watch_commander()
    assert node._lines[-1]["text"] == "another browser has taken over"
    node.access._heard = time.monotonic() - 60.0
    node._watch_commander()
    assert node.access.commander == "" and any("is gone" in line["text"] for line in node._lines)
    if stopped:
        soon(lambda: others.asked, "the stop")
        assert others.asked == [("excitation/stop", SHORT, {})]
    else:
        assert not others.asked


def test_the_page_is_closed_with_what_the_node_made(panel):
    node, _ = panel
    closed, close = [], node._server.close
    node._server.close = lambda: closed.append(True) or close()
    node.trigger_deactivate()
    node.trigger_cleanup()
    assert closed == [True] and node._server is None and node.status()[:2] == (WARN, "closed")


@pytest.mark.parametrize("action", ["plan", "identify", "load_model"])
def test_what_takes_its_time_is_not_begun_twice(panel, action):
    node, others = panel
    with node._working(action):
        assert action in node._busy
        with pytest.raises(InputError, match="under way already"), node._working(action):
            others.asked.append("twice")
        assert action in node._busy, "the first one goes on"
    assert not node._busy and not others.asked


def test_what_browsers_get(panel):
    node, _ = panel
    states = []
    node._server.close()
    node._server = SimpleNamespace(watched=1, publish=states.append, close=lambda: None, port=9)
    node._rviz._states = Kept()
    taker = node._listening._taker
    node._on_plan(way())
    taker(node._listening.measured)(joint_state(NAMES, (1.0, 2.0, np.nan), (), (7, 8, 9)))
    taker(node._listening.external)(joint_state(NAMES, (), (), (0.1, 0.2, 0.3)))
    taker(node._listening._predicted[0])(joint_state(NAMES, (), (), (4, 5, 6)))
    situation(node, excitation=excitation("exciting"), recording=True, recorded="/tmp/bag", model="arm", drift=True)
    node._listening.reference = lambda: np.array([0.5, 2.5, 3.0])
    node._tick()
    (state,) = states
    assert state["q"] == [1.0, 2.0, None] and state["effort"] == [7.0, 8.0, 9.0]
    assert state["predicted"] == [4.0, 5.0, 6.0] and state["external"] == [0.1, 0.2, 0.3]
    assert state["ghost"] == [0.5, 2.5, 3.0] and state["error"] == [0.5, -0.5, None], "measured less wanted"
    assert (state["moving"], state["recording"], state["recorded"]) == (True, True, "/tmp/bag")
    assert (state["model"], state["drift"], state["plan"], state["rehearsed"]) == ("arm", True, 1, False)
    assert state["progress"] is None and state["excitation"] == "exciting" and state["refused"]["stop"] == ""
    assert state["refused"]["start"] == "the robot moves"
    situation(node, excitation=excitation("done"))
    node._rehearsed = 1
    with node._working("identify"):
        node._progress = ("filters", 0.5)
        node._tick()
    state = states[-1]
    assert state["ghost"] is None and state["error"] is None and state["rehearsed"] is True
    assert state["progress"] == {"stage": "filters", "share": 0.5}
    shown = [list(message.position) for message in node._rviz._states.sent]
    np.testing.assert_allclose(shown, [way().at(0.05)[0], way().at(0.1)[0]], err_msg="the plan is played at its speed")
    node._server.watched = 0
    node._tick()
    assert len(states) == 2, "nothing is sent to nobody"
    assert node.status() == (OK, "port 9", {"browsers": 0, "commanded": False})
    node._server = None
    assert node.status()[:2] == (WARN, "closed")


def test_a_plan_is_shown_for_this_robot_alone(panel):
    node, _ = panel
    shown = []
    node._rviz.path = lambda path, frame: shown.append((path.shape[2], frame))
    node._on_plan(reference(("a", "b", "c"), np.array([0.0, 1.0]), np.zeros((2, 3))))
    assert node._plan_number == 0 and not shown
    node._on_plan(way())
    text = json.loads(node._plan_text)
    assert (text["number"], text["duration"]) == (1, 2.0) and shown == [(3, "base_link")]
    for _ in range(30):
        node._say("good", "line")
    assert len(node._lines) == 12


def test_the_robot_of_the_plan_goes_through_all_of_it_again_and_again(panel):
    node, _ = panel
    plan, poses = way(), []
    node._on_plan(plan)
    node._rviz.pose = lambda names, q: poses.append((names, q))
    node._ghost_time = 0.01
    for _ in range(120):
        node._tick()
    times = (0.01 + np.arange(1, 121) / 20.0) % (plan.duration + 1.0)
    assert {names for names, _ in poses} == {plan.joint_names}
    np.testing.assert_allclose([q for _, q in poses], plan.sampled(times)[0], atol=1e-6)


class Marker:
    """The part of visualization_msgs/msg/Marker that is used: that package is not needed by the others."""

    LINE_STRIP, ADD = 4, 0

    def __init__(self, **fields):
        self.header, self.pose = Header(), Pose()
        self.scale, self.color, self.points = Vector3(), ColorRGBA(), []
        self.__dict__.update(fields)


def test_paths_for_rviz_have_their_points_in_order():
    made = {}

    def publisher(kind, topic, qos):
        made[topic] = Kept()
        return made[topic]

    now = SimpleNamespace(to_msg=lambda: Time(sec=3))
    node = SimpleNamespace(create_publisher=publisher, get_clock=lambda: SimpleNamespace(now=lambda: now))
    rviz, shown = Rviz(node), []
    rviz._markers, rviz._kind = SimpleNamespace(publish=shown.append), Marker
    rviz._array = lambda markers: markers
    path = np.arange(24.0).reshape(4, 2, 3)
    rviz.path(path, "pedestal")
    ((first, second),) = shown
    for tip, marker in ((0, first), (1, second)):
        assert (marker.id, marker.type, marker.header.frame_id) == (tip, Marker.LINE_STRIP, "pedestal")
        np.testing.assert_array_equal([(p.x, p.y, p.z) for p in marker.points], path[:, tip])
        assert marker.pose.orientation.w == 1.0 and marker.scale.x == 0.004 and marker.color.a == 1.0
    rviz.pose(NAMES, np.array([1.0, 2.0, 3.0]))
    (state,) = made["preview/joint_states"].sent
    assert (list(state.name), list(state.position), state.header.stamp.sec) == (list(NAMES), [1.0, 2.0, 3.0], 3)
    made["preview/joint_states"].listeners = 0
    rviz.pose(NAMES, np.zeros(3))
    assert len(made["preview/joint_states"].sent) == 1


# --- what is asked of other nodes


class Client:
    def __init__(self, answer):
        self.answer, self.asked, self.there = answer, [], True

    def service_is_ready(self):
        return self.there

    def call_async(self, request):
        self.asked.append(request)
        return Future(self.answer(request) if callable(self.answer) else self.answer)


@pytest.fixture
def services(monkeypatch):
    """Return the services of other nodes, each a client that a test makes answer."""
    made = {}

    def create_client(kind, name, callback_group):
        made[name] = Client(SimpleNamespace(success=True, message="fine"))
        return made[name]

    action = SimpleNamespace(there=True, sent=[], handle=None)
    action.server_is_ready = lambda: action.there

    def send_goal(goal, feedback):
        action.sent.append(goal)
        feedback(SimpleNamespace(feedback=Identify.Feedback(stage="rows", progress=0.25)))
        return Future(action.handle)

    action.send_goal_async = send_goal
    monkeypatch.setattr("ros2_dynid.nodes.panel.services.ActionClient", lambda *args, **more: action)
    return Services(SimpleNamespace(create_client=create_client)), made, action


def test_a_service_that_is_not_there_refuses_or_is_silent_is_an_error(services):
    asks, made, _ = services
    assert asks.call("excitation/plan", seed=3).message == "fine"
    assert made["excitation/plan"].asked[0].seed == 3
    made["excitation/stop"].there = False
    with pytest.raises(InputError, match="the node excitation does not answer"):
        asks.call("excitation/stop")
    assert asks.nodes() == {"excitation", "recorder", "identification", "feedforward"}
    for name in made:
        made[name].there = name.startswith("recorder/")
    assert asks.nodes() == {"recorder"}
    for answer, words in (
        (SimpleNamespace(success=False, message="disk full"), "disk full"),
        (SimpleNamespace(success=False, message=""), "refused"),
    ):
        made["recorder/start"].answer = answer
        with pytest.raises(DynidError, match=words):
            asks.call("recorder/start")
    made["recorder/start"].answer = None
    with pytest.raises(DynidError, match=r"recorder/start has not answered for 0\.01 s"):
        asks.call("recorder/start", 0.01)


@pytest.mark.parametrize("failing", ["", "set", "configure", "deactivate"])
def test_a_model_is_loaded_by_the_lifecycle_and_a_wrong_one_leaves_the_node_active(services, failing):
    asks, made, _ = services
    done, names = [], {number: name for name, number in LIFECYCLE.items()}

    def change(request):
        name = names[request.transition.id]
        wrong = name == failing and name not in done
        done.append(name)
        return SimpleNamespace(success=not wrong)

    def put(request):
        (parameter,) = request.parameters
        value = parameter.value.string_value
        done.append(f"{parameter.name}={value}")
        wrong = failing == "set" and value != ""
        return SimpleNamespace(results=[SimpleNamespace(successful=not wrong, reason="no such file")])

    made["identification/change_state"].answer, made["identification/set_parameters"].answer = change, put
    back = ["model=", "configure", "activate"]
    expected = {
        "": ["deactivate", "cleanup", "model=/m.yaml", "configure", "activate"],
        "set": ["deactivate", "cleanup", "model=/m.yaml", *back],
        "configure": ["deactivate", "cleanup", "model=/m.yaml", "configure", *back],
        "deactivate": ["deactivate"],
    }
    if failing:
        with pytest.raises(DynidError, match=r"no such file|refused to"):
            asks.load_model("/m.yaml")
    else:
        asks.load_model("/m.yaml")
    assert done == expected[failing]


def test_transitions_have_the_numbers_of_the_lifecycle():
    numbers = {name: getattr(Transition, f"TRANSITION_{name.upper()}") for name in LIFECYCLE}
    assert numbers == LIFECYCLE and {"configure", "cleanup", "activate", "deactivate"} == set(LIFECYCLE)


def test_an_identification_is_followed_and_can_be_cancelled(services):
    asks, _, action = services
    with pytest.raises(InputError, match="no identification is under way"):
        asks.cancel()
    told, cancelled = [], []

    def result():
        asks.cancel()
        return Future(SimpleNamespace(result=Identify.Result(success=outcome[0], message="too short", model_path="m")))

    def cancel():
        cancelled.append(True)
        return Future(SimpleNamespace(goals_canceling=[1] if len(cancelled) < 3 else []))

    action.handle = SimpleNamespace(accepted=True, get_result_async=result, cancel_goal_async=cancel)
    outcome = [True]
    assert asks.identify(lambda stage, share: told.append((stage, share))).model_path == "m"
    assert told == [("rows", 0.25)] and cancelled == [True] and action.sent[0] == Identify.Goal()
    outcome[0] = False
    with pytest.raises(DynidError, match="too short"):
        asks.identify(lambda *_: None)
    with pytest.raises(DynidError, match="could not be cancelled any more"):
        asks.identify(lambda *_: None)
    with pytest.raises(InputError, match="no identification is under way"):
        asks.cancel()
    action.handle.accepted = False
    with pytest.raises(DynidError, match="refused the goal"):
        asks.identify(lambda *_: None)
    action.there = False
    with pytest.raises(InputError, match="does not answer"):
        asks.identify(lambda *_: None)
