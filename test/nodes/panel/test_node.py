# SPDX-License-Identifier: Apache-2.0

"""The panel between browsers and nodes: this process plays both, over HTTP and over services and topics."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import Log
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros2_dynid.msg import BaseParameter, BaseParameters, ExcitationState, TorqueError
from ros2_dynid.srv import Jog, PlanExcitation, SetObstacles, SetPayload, StartRecording, StopRecording
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.stop import quintic
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import ANNOUNCED, COMMANDS, LATCHED
from ros_graph import graph

NAMES = ("waist", "shoulder", "elbow")
ENDED = {"samples": 7, "duration": 1.5, "rate": 100.0, "problems": ["gap", "nan"]}
HERE = np.array([0.1, -1.0, 0.2])
THERE = np.array([0.4, -0.6, 0.6])


class Nodes:
    """The other nodes: services that keep what they were asked, and what these publish."""

    def __init__(self, client):
        self.asked, self.refuse = [], {}
        for name, kind, answer in (
            ("excitation/plan", PlanExcitation, {"duration": 5.0, "cond": 12.0, "message": "plan.yaml"}),
            ("excitation/set_obstacles", SetObstacles, {"message": "1 obstacle"}),
            ("excitation/pause", Trigger, {"message": "pausing"}),
            ("excitation/jog", Jog, {"message": "moves"}),
            ("excitation/rehearse", Trigger, {"message": "rehearsing"}),
            ("excitation/start", Trigger, {"message": "starting"}),
            ("excitation/stop", Trigger, {"message": "stopping"}),
            ("recorder/start", StartRecording, {"path": "/bags/one"}),
            ("recorder/stop", StopRecording, ENDED),
            ("feedforward/set_payload", SetPayload, {}),
        ):  # fmt: skip
            client.create_service(kind, name, self._answering(name, kind, answer))
        publish = client.create_publisher
        self.states = publish(ExcitationState, "excitation_state", ANNOUNCED)
        self.planned = publish(JointTrajectory, "excitation/planned", LATCHED)
        self.obstacles = publish(String, "excitation/obstacles", LATCHED)
        self.sent = publish(JointTrajectory, "joint_trajectory", COMMANDS)
        self.recorded, self.drift = publish(String, "recording", LATCHED), publish(Bool, "drift", LATCHED)
        self.models = publish(BaseParameters, "base_parameters", LATCHED)
        self.diagnostics = publish(DiagnosticArray, "/diagnostics", 10)
        streams = ("joint_states", "feedforward/predicted", "feedforward/external_effort")
        self._streams = {name: publish(JointState, name, 10) for name in streams}

    def _answering(self, name, kind, answer):
        def serve(request, response):
            self.asked.append((name, request))
            for field, value in answer.items():
                setattr(response, field, value)
            response.success = name not in self.refuse
            if not response.success:
                response.message = self.refuse[name]
            return response

        return serve

    def excitation(self, state, text, rehearsal=""):
        self.states.publish(ExcitationState(state=state, text=text, rehearsal=rehearsal))

    def plan(self, q_to=THERE):
        self.planned.publish(trajectory_message(quintic(NAMES, HERE, q_to, 2.0)))

    def stream(self, name, q=(), effort=()):
        """Publish a joint state, the joints in another order than the robot's."""
        order = [2, 0, 1]
        message = JointState(name=[NAMES[k] for k in order])
        message.position = [float(q[k]) for k in order] if len(q) else []
        message.effort = [float(effort[k]) for k in order] if len(effort) else []
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
        self._streams[name].publish(message)


class Page:
    """A browser: asks, and keeps the newest state that it was sent."""

    def __init__(self, port, token, name="one"):
        self._port, self._token, self._name, self.state = port, token, name, {}
        self._events = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._events.request("GET", f"/events?client={name}", headers={"X-Dynid-Token": token})
        self._answer = self._events.getresponse()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            while line := self._answer.readline():
                if line.startswith(b"data:"):
                    self.state = json.loads(line[5:])

    def ask(self, action, token=None, **fields):
        other = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {"X-Dynid-Token": self._token if token is None else token, "X-Dynid-Client": self._name}
        other.request("POST", "/do", json.dumps({"action": action, **fields}), headers)
        answer = other.getresponse()
        return answer.status, json.loads(answer.read())["line"]

    def get(self, path):
        other = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        other.request("GET", path)
        answer = other.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture
def panel(tmp_path):
    """Return the graph, the other nodes, and what opens a page."""
    with graph(tmp_path) as made:
        nodes = Nodes(made.client)
        made.start("panel", stop_on_disconnect="true")
        made.ready("panel")
        made.client.wait(lambda: "http://" in made.log("panel"), 20.0, "the panel's address")
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", made.log("panel"))[1])
        token = (tmp_path / "token").read_text().strip()
        yield made, nodes, lambda name="one": Page(port, token, name)


def until(made, page, what, **wanted):
    """Wait until the page was sent a state with these values."""
    made.client.wait(lambda: all(page.state.get(key) == value for key, value in wanted.items()), 5.0, what)


@pytest.mark.timeout(120)
def test_actions_reach_their_nodes_with_their_figures_and_refusals_the_page(panel, tmp_path):
    made, nodes, opened = panel
    page, token, told = opened(), (tmp_path / "token").read_text().strip(), []
    kept = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    made.client.create_subscription(Log, "/rosout", lambda message: told.append(message.msg), kept)
    nodes.excitation(ExcitationState.IDLE, "idle")
    until(made, page, "the state", excitation="idle", moving=False, stopped=False)
    assert page.state["refused"]["rehearse"] == "there is no plan yet" and page.ask("rehearse")[0] != 200
    assert page.ask("plan", seed=4, duration=6.5) == (200, "5 s, condition number 12, plan.yaml")
    name, request = nodes.asked[-1]
    assert (name, request.seed, list(request.duration)) == ("excitation/plan", 4, [6.5])
    assert page.ask("plan", seed=1, duration=0)[0] == 200
    assert list(nodes.asked[-1][1].duration) == [], "as the node is configured"
    assert page.ask("record") == (200, "recording /bags/one")
    assert page.ask("payload", mass=2.5, x=0.1, y=-0.2, z=0.3) == (200, "2.5 kg")
    load = nodes.asked[-1][1].payload
    assert (load.m, load.com.x, load.com.y, load.com.z, load.ixx) == (2.5, 0.1, -0.2, 0.3, 0.0)
    text = "obstacles: [{name: lamp, sphere: 0.1, at: [0, 0, 2]}]"
    assert page.ask("set_obstacles", text=text) == (200, "1 obstacle") and nodes.asked[-1][1].obstacles == text
    assert page.get("/obstacles")[0] == 404, "none were told"
    nodes.obstacles.publish(String(data=text))
    until(made, page, "the obstacles", obstacles=1)
    lamp = {"name": "lamp", "sphere": [0.1], "at": [0.0, 0.0, 2.0], "rpy": [0.0, 0.0, 0.0]}
    assert page.get("/obstacles") == (200, {"number": 1, "entries": [lamp]})
    assert page.ask("jog", joint="elbow", direction=-1) == (200, "moves")
    assert (nodes.asked[-1][1].joint, nodes.asked[-1][1].direction) == ("elbow", -1)
    assert page.ask("let_go")[0] == 200 and nodes.asked[-1][1].direction == 0
    count = len(nodes.asked)
    for action, fields, reason in (
        ("jog", {"joint": "elbow", "direction": 2}, "a direction of 1 or -1"),
        ("pause", {}, "no motion is under way that could be paused"),
        ("set_obstacles", {"text": 7}, "no obstacles are given"),
        ("plan", {"seed": "4"}, "seed is not a number"),
        ("payload", {"mass": True}, "mass is not a number"),
        ("end_recording", {}, "nothing is being recorded"),
        ("identify", {}, "identification does not answer"),
        ("load_model", {"path": "m.yaml"}, "identification does not answer"),
        ("cancel", {}, "no identification is under way"),
        ("dance", {}, "there is no action 'dance'"),
    ):
        status, line = page.ask(action, **fields)
        assert status != 200 and reason in line
    assert "wrong token" in page.ask("plan", token="guess", seed=1)[1]
    assert len(nodes.asked) == count, "nothing reached a node"
    nodes.refuse["excitation/plan"] = "the joints have no limits"
    assert "the joints have no limits" in page.ask("plan", seed=1)[1]
    other = opened("two")
    assert "another browser commands" in other.ask("plan", seed=1)[1]
    assert other.ask("stop", token="")[0] == 200 and nodes.asked[-1][0] == "excitation/stop", "anyone may stop"
    made.client.wait(lambda: page.state["refused"]["start"] == "the stop is set: release it", 5.0, "the stop")
    assert page.ask("release") == (200, "the stop is released") and other.ask("release", token="")[0] != 200
    made.client.wait(lambda: page.state["refused"]["release"] == "the stop is not set", 5.0, "the release")
    recording = [KeyValue(key="path", value="/bags/one")]
    nodes.diagnostics.publish(DiagnosticArray(status=[DiagnosticStatus(name="recorder: state", values=recording)]))
    until(made, page, "the recording", recording=True)
    assert page.ask("end_recording") == (200, "7 joint states in 1.5 s at 100 Hz; gap; nan")
    made.client.wait(lambda: any("wrong token" in line for line in told), 5.0, "a warning of the wrong token")
    assert any("its token is in" in line for line in told), "all lines since the start came"
    for text in (*told, made.log("panel")):
        assert token not in text


@pytest.mark.timeout(120)
def test_a_plans_rehearsal_is_passed_before_it_starts(panel):
    made, nodes, opened = panel
    page = opened()

    def excitation(*states):
        for state, text in states:
            nodes.excitation(state, text)
            until(made, page, text, excitation=text)

    made.client.wait(lambda: page.get("/robot")[0] == 200, 20.0, "the robot's looks")
    assert page.get("/robot")[1]["warning"].startswith("Collisions are NOT checked"), "demo3 has no shapes"
    excitation((ExcitationState.IDLE, "idle"))
    nodes.plan()
    until(made, page, "the plan", plan=1, rehearsal="")
    plan = page.get("/plan")[1]
    assert plan["number"] == 1 and plan["duration"] == 2.0 and plan["count"] > 10
    for anyway in (False, 1, "true", None):
        assert "not been rehearsed" in page.ask("start", anyway=anyway)[1]
    excitation((ExcitationState.REHEARSING, "rehearsing"), (ExcitationState.ABORTED, "aborted: stop"))
    assert page.state["stopped"] and not page.state["rehearsal"]
    assert page.ask("start", anyway=True) == (200, "starting")
    excitation((ExcitationState.REHEARSING, "rehearsing"))
    until(made, page, "the motion", moving=True)
    assert "the robot moves" in page.ask("plan", seed=1)[1]
    for verdict, code in (("failed: \nlags", 409), ("passed: well", 200)):
        nodes.excitation(ExcitationState.DONE, "done", verdict)
        until(made, page, "the end", rehearsal=verdict.replace("\n", " "), moving=False)
        assert page.ask("start")[0] == code
    lines = {line["text"]: line["level"] for line in page.state["lines"]}
    assert lines["excitation: aborted: stop"] == "bad" and lines["excitation: done"] == "good"
    nodes.plan(HERE + 0.1)
    until(made, page, "another plan", plan=2)


@pytest.mark.timeout(120)
def test_a_page_shows_what_the_nodes_tell(panel):
    made, nodes, opened = panel
    page, running = opened(), [True]

    def stream():
        while running[0]:
            nodes.stream("joint_states", HERE, (7, 8, 9))
            nodes.stream("feedforward/predicted", effort=(4, 5, 6))
            nodes.stream("feedforward/external_effort", effort=(0.1, 0.2, np.nan))
            time.sleep(0.02)

    thread = threading.Thread(target=stream, daemon=True)
    thread.start()
    until(made, page, "figures in the robot's order", q=HERE.tolist(), effort=[7.0, 8.0, 9.0])
    until(made, page, "torques", predicted=[4.0, 5.0, 6.0], external=[0.1, 0.2, None], ghost=None, error=None)
    nodes.excitation(ExcitationState.EXCITING, "exciting")
    nodes.sent.publish(trajectory_message(quintic(NAMES, HERE, THERE, 60.0)))
    made.client.wait(lambda: page.state["error"] is not None, 5.0, "the reference")
    np.testing.assert_allclose(np.array(page.state["q"]) - page.state["ghost"], page.state["error"], atol=2e-6)
    fit = [TorqueError(joint="elbow", relative=0.5), TorqueError(joint="all", relative=0.031)]
    nodes.models.publish(BaseParameters(robot="arm", parameters=[BaseParameter()] * 4, fit=fit))
    nodes.drift.publish(Bool(data=True))
    nodes.recorded.publish(String(data="/bags/\none"))
    told = "arm: 4 base parameters, torque error 3.1 % on its own data"
    until(made, page, "the model", model=told, drift=True, recorded="/bags/ one")
    running[0] = False
    thread.join(10.0)
    assert not thread.is_alive(), "the stream has not ended within 10 s"
    until(made, page, "silence", q=None, effort=None, predicted=None, external=None)


@pytest.mark.timeout(120)
def test_a_commander_that_leaves_stops_the_motion(panel):
    made, nodes, opened = panel
    page, watching = opened(), opened("two")
    nodes.excitation(ExcitationState.EXCITING, "exciting")
    until(made, watching, "the motion", moving=True)
    assert page.ask("take_over")[0] == 200
    made.client.wait(lambda: any(name == "excitation/stop" for name, _ in nodes.asked), 15.0, "the stop")
    gone = "the browser that commanded is gone"
    made.client.wait(lambda: any(line["text"] == gone for line in watching.state["lines"]), 5.0, "the word")
    until(made, watching, "nobody commands", commander="")
