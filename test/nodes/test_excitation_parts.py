# SPDX-License-Identifier: Apache-2.0

"""What the excitation node makes of parameters, requests, plans and answers of a controller: part by part."""

from __future__ import annotations

import math
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from builtin_interfaces.msg import Time
from rcl_interfaces.msg import ParameterType, ParameterValue
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.parameter import Parameter
from rclpy.time import Time as Moment
from ros2_dynid.srv import PlanExcitation
from std_srvs.srv import Trigger

from in_process import Kept, joint_state, node_of, soon
from motions import saved_motion
from ros2_dynid.control.excitation_machine import (
    Announce,
    ConnectionProblem,
    ExcitationOutcome,
    ExcitationTick,
    JointStateArrived,
    Phase,
    Stop,
)
from ros2_dynid.control.motion_limits import MotionSettings, motion_limits
from ros2_dynid.control.reference import reference
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, save_trajectory
from ros2_dynid.jobs import PLAN
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.lifecycle_node import ERROR, OK, WARN
from ros2_dynid.nodes.common.messages import LATCHED, trajectory_message
from ros2_dynid.nodes.excitation.controllers import Controllers, controller_of
from ros2_dynid.nodes.excitation.node import SETTINGS, Excitation
from ros2_dynid.nodes.excitation.owner import ExcitationOwner, OwnerContext
from ros2_dynid.nodes.excitation.planning import SafePlan
from ros2_dynid.nodes.excitation.sender import ActionSender, TopicSender

pytestmark = pytest.mark.in_process

ROBOT = load_robot("demo3")
START = np.array([0.0, -1.0, 0.0])


@pytest.fixture
def excitation_of(tmp_path):
    """Return what makes an excitation node with these parameters, whose announcements are kept."""
    made = []

    def make(**parameters):
        around = node_of(Excitation, **{"robot": "demo3", "folder": tmp_path / "plans", **parameters})
        made.append(around)
        node = around.__enter__()
        node._planner._planned = Kept()
        return node

    yield make
    for around in made:
        around.__exit__(None, None, None)


# --- parameters

VALUES = {
    "tracking_tolerance": 0.11, "stale_seconds": 0.12, "limit_overshoot": 0.13, "approach_speed": 0.14,
    "settle_seconds": 0.15, "stop_deceleration": 0.16, "stop_lead": 0.17, "start_delay": 0.18,
}  # fmt: skip
MEANT = MotionSettings(
    tracking=0.11,
    stale=0.12,
    overshoot=0.13,
    approach_speed=0.14,
    settle=0.15,
    deceleration=0.16,
    lead=0.17,
    delay=0.18,
)


def test_every_parameter_of_the_motion_is_its_own_setting(excitation_of):
    node = excitation_of(**VALUES, control_period=0.007)
    assert set(VALUES) == set(SETTINGS)
    assert node._machine.settings == MEANT and node._owner.period == 0.007
    node.set_parameters([Parameter("stale_seconds", value=0.5)])
    assert node._machine.settings == replace(MEANT, stale=0.5), "a change takes effect, and nothing else with it"
    node._owner.ask = lambda make: ExcitationOutcome(False, "not while it moves")
    (answer,) = node.set_parameters([Parameter("approach_speed", value=0.9)])
    assert not answer.successful and answer.reason == "not while it moves"
    assert node.value("approach_speed") == 0.14
    (answer,) = node.set_parameters([Parameter("point_rate", value=50.0)])
    assert answer.successful, "none of the machine's"


# --- announcements and joint states


def test_joint_states_reach_the_machine_in_its_order_with_their_own_time(excitation_of):
    node, came = excitation_of(), []
    node._stream.close()
    node._owner.state = came.append
    names = ("elbow", "waist", "shoulder")
    for stamp in (1_000_000_000, 1_250_000_000):
        node._on_state(joint_state(names, (3, 1, 2), (6, 4, 5), (9, 7, 8), stamp))
    node._on_state(joint_state(("left", "right"), (1, 2), stamp=2_000_000_000))
    assert len(came) == 2, "of other joints there is nothing to say"
    for event in came:
        np.testing.assert_array_equal((event.state.q, event.state.dq, event.state.tau), np.arange(1, 10).reshape(3, 3))
    first, second = came
    assert first.measured_at == first.now, "the quickest so far has no delay"
    assert second.measured_at <= second.now and abs(second.now - time.monotonic()) < 60.0


def test_simulated_time_is_that_of_the_joint_states(excitation_of):
    node, came = excitation_of(use_sim_time=True), []
    node._stream.close()
    node._owner.state, node.now_ns = came.append, lambda: 5_000_000_000
    names = ("elbow", "waist", "shoulder")
    node._on_state(joint_state(names, (3, 1, 2), stamp=4_900_000_000))
    assert (came[-1].now, came[-1].measured_at) == (5.0, pytest.approx(4.9))
    node._on_state(joint_state(names, (3, 1, 2), stamp=5_200_000_000))
    assert came[-1].now == pytest.approx(5.2), "simulated time is at least that of what was measured"
    node.now_ns = lambda: 905_300_000_000
    node._on_state(joint_state(names, (3, 1, 2), stamp=905_250_000_000))
    assert came[-1].now < 10.0, "a simulated clock that leaps does not take the motion with it"
    assert came[-1].measured_at == pytest.approx(came[-1].now - 0.05), "nor do the stamps: it was 50 ms under way"


# --- start and rehearsal


class SpyPlan(SafePlan):
    """A plan that keeps the way that it is asked about."""

    def check_way(self, q):
        type(self).way = q
        super().check_way(q)


class Way:
    """A sender that keeps what it prepares."""

    name = "/arm_controller/joint_trajectory"

    def __init__(self):
        self.prepared, self.wrong = [], ""

    def prepare(self, points):
        self.prepared.append(points)

    def problem(self):
        return self.wrong


@pytest.fixture
def ready(excitation_of, tmp_path):
    """Return a node that has a plan and a robot at rest, and what it would let start."""
    node = excitation_of(rehearsal_speed=0.25, point_rate=200.0)
    saved_motion(tmp_path / "plans", ROBOT)
    node._stream.close()
    robot = node._machine.robot
    trajectory = load_trajectory(tmp_path / "plans" / "slow.yaml")
    node._planner.plan = SpyPlan(robot, trajectory, None)
    node._sender, node.started = Way(), []
    node._controllers = SimpleNamespace(
        check=lambda name: f"{name} asked", advice=lambda name: "", problem=lambda name: ""
    )
    node._activated_at = -math.inf
    settings = node._machine.settings
    node._machine = SimpleNamespace(
        robot=robot, moving=False, phase=Phase.IDLE, stops=4, settings=settings, limits=motion_limits(robot, settings),
        where=lambda now: START + 0.1, unknown=lambda now: "", at_rest=True, commands=0,
    )  # fmt: skip

    def ask(make):
        node.started.append(make(7.0))
        return ExcitationOutcome(True, "begins")

    node._owner.ask = ask
    return node


def call(node, act):
    return node._service(act)(Trigger.Request(), Trigger.Response())


def test_a_start_prepares_the_way_and_the_run_from_where_the_robot_is(ready):
    node = ready
    answer = call(node, node._start)
    assert answer.success and answer.message == "begins"
    (event,) = node.started
    motion = event.motion
    assert (motion.name, motion.stops, event.now) == ("exciting", 4, 7.0) and motion.robot is node._machine.robot
    assert [id(points) for points in node._sender.prepared] == [id(motion.way.points), id(motion.run.points)]
    np.testing.assert_allclose(motion.way.points.q[0], START + 0.1)
    np.testing.assert_allclose(motion.way.points.q[-1], START, atol=1e-9)
    np.testing.assert_allclose(SpyPlan.way[[0, -1]], [START + 0.1, START], atol=1e-9)
    run = motion.run.points
    assert run.duration - run.t[0] == pytest.approx(6.0)
    np.testing.assert_allclose(run.q[np.argmin(np.abs(run.t - run.t[0] - 3.0))], START + 0.4, atol=1e-6)

    assert call(node, node._rehearse).success
    slow = node.started[-1].motion
    assert slow.name == "rehearsing"
    assert slow.run.points.duration - slow.run.points.t[0] == pytest.approx(24.0), "at a quarter of the speed"
    np.testing.assert_allclose(slow.run.points.q.max(axis=0), START + 0.4, atol=1e-6)


def test_a_start_is_refused_for_every_reason_and_nothing_leaves(ready):
    node = ready
    machine, plan = node._machine, node._planner.plan

    def refused(words):
        answer = call(node, node._start)
        assert not answer.success and words in answer.message, answer.message
        assert not node.started

    node._sender.wrong = "nobody listens on it"
    refused("nobody listens on it; start the controller")
    node._sender.wrong = ""
    machine.moving = True
    refused("a motion is under way (idle)")
    machine.moving = False
    node._planner.plan = None
    refused("there is no plan")
    node._planner.plan = replace(plan, robot=load_robot("demo3"))
    refused("the robot has changed since the trajectory was planned")
    node._planner.plan = plan
    node.active = False
    refused("the node is inactive")
    node.active = True

    def inactive(name):
        assert name == node._sender.name
        raise InputError("the controller is inactive", "activate it")

    node._controllers.check, kept = inactive, node._controllers.check
    refused("the controller is inactive")
    node._controllers.check = kept
    machine.where = lambda now: START + 9.0
    refused("outside of its limits")
    machine.robot = None
    refused("the robot is not known yet")
    node._owner.ask = lambda make: ExcitationOutcome(False, "the robot is not at rest")
    machine.robot, machine.where = plan.robot, lambda now: START
    refused("the robot is not at rest")


def test_a_stop_is_passed_on_whatever_else_is_known(ready):
    ready._planner.plan = ready._sender = None
    answer = call(ready, ready._stop)
    assert answer.success and answer.message == "begins"
    (event,) = ready.started
    assert isinstance(event, Stop) and event.now == 7.0


def test_a_stop_while_a_start_is_prepared_holds(ready):
    """What is sent to the machine tells how many stops there were when the preparation began."""
    node = ready

    def check(name):
        node._machine.stops += 1
        return ""

    node._controllers.check = check
    assert call(node, node._start).success
    assert node.started[-1].motion.stops == 4 and node._machine.stops == 5


@pytest.mark.parametrize("action", ["", "arm/follow"])
def test_trajectories_go_to_the_action_where_there_is_one(excitation_of, monkeypatch, action):
    made = []

    class Action:
        name = "arm/follow"

        def __init__(self, *args):
            made.append(args)

        def problem(self):
            return ""

    monkeypatch.setattr("ros2_dynid.nodes.excitation.node.ActionSender", Action)
    node = excitation_of(action=f'"{action}"')
    if action:
        assert isinstance(node._sender, Action) and made == [(node, action, node._refused)]
    else:
        assert isinstance(node._sender, TopicSender) and node._sender.name == "/joint_trajectory" and not made


def test_what_leaves_keeps_its_delay_and_number(excitation_of):
    node, sent = excitation_of(), []
    node._sender = SimpleNamespace(send=lambda *args: sent.append(args), problem=lambda: "", name="")
    node._now = lambda: 3.0 + len(sent)
    assert node._send("points", 0.25, 7) == 3.0, "the time before it is sent: the controller may be as early as that"
    assert sent == [("points", 0.25, 7)]


def test_a_new_robot_makes_the_plan_void(ready):
    ready.on_robot(load_robot("demo6"))
    assert ready._planner.plan is None
    assert ready.started[-1].robot.name == load_robot("demo6").name


@pytest.mark.parametrize("ends", ["seen", "rest", "connected", "stopped", "time"])
def test_a_start_waits_only_right_after_the_activation_and_only_for_what_it_needs(ready, ends):
    node, machine = ready, ready._machine
    asked = []

    def unknown(now):
        asked.append(now)
        if len(asked) == 3:
            change[ends]()
        return "" if machine.seen else "no joint states"

    machine.seen, machine.at_rest, node._sender.wrong = ends not in ("seen", "stopped", "time"), ends != "rest", ""
    machine.unknown = unknown
    problem = SimpleNamespace(text="nobody" if ends == "connected" else "")

    def wrong():
        if ends == "connected":
            unknown(0.0)
        return problem.text

    node._sender.problem = wrong
    change = {
        "seen": lambda: setattr(machine, "seen", True),
        "rest": lambda: setattr(machine, "at_rest", True),
        "connected": lambda: setattr(problem, "text", ""),
        "stopped": lambda: setattr(machine, "stops", 5),
        "time": lambda: setattr(node, "_activated_at", -math.inf),
    }
    node._activated_at = time.monotonic() + 3600.0
    node._wait_if_fresh(node._sender, 4)
    assert len(asked) >= 3
    machine.limits, before = None, len(asked)
    machine.seen = False
    node._activated_at = time.monotonic() + 3600.0
    node._wait_if_fresh(node._sender, machine.stops)
    assert len(asked) == before, "a robot without limits does not get any"


def test_what_diagnostics_say(ready):
    level, message, values = ready.status()
    assert (level, message) == (OK, "idle")
    assert values == {"planned": True, "commands": 0, "position": "known", "at_rest": True, "controller": "connected"}
    ready._machine.phase, ready._planner.plan, ready._sender.wrong = Phase.ABORTED, None, "nobody listens"
    ready._machine.unknown = lambda now: "silent"
    level, message, values = ready.status()
    assert (level, message, values["planned"]) == (ERROR, "aborted", False)
    assert (values["position"], values["controller"]) == ("silent", "nobody listens")
    ready._machine.phase, ready._sender.wrong = Phase.NO_ROBOT, ""
    ready._controllers.problem = lambda name: f"{name} is off"
    level, _, values = ready.status()
    assert level == WARN and values["controller"] == f"{Way.name} is off"


def test_a_refusal_of_the_controller_is_that_of_its_command(excitation_of):
    node, posted = excitation_of(), []
    node._owner.post = posted.append
    node._refused(3, "path tolerance")
    event = posted[0](9.0)
    assert (event.now, event.number, event.text) == (9.0, 3, "path tolerance")
    node._owner.post = type(node._owner).post.__get__(node._owner)


def test_a_deactivated_node_has_stopped_and_listens_no_more(excitation_of):
    node = excitation_of()
    assert node._machine.phase is Phase.IDLE and node._stream is not None
    assert time.monotonic() - node._activated_at < 60.0
    cancelled, waited, wait = [], [], node._owner.wait_inactive
    node._planner._job.cancel = lambda: cancelled.append(True)
    node._owner.wait_inactive = lambda patience: waited.append(patience) or wait(patience)
    node.trigger_deactivate()
    assert cancelled == [True], "a plan that is being made ends too"
    assert len(waited) == 1 and waited[0] > 10.0, "a robot may need its time to stop"
    assert node._machine.phase is Phase.INACTIVE and node._stream is None
    assert "the node is inactive" in call(node, node._start).message
    node.trigger_activate()
    assert node._machine.phase is Phase.IDLE
    node.close()
    assert waited[1] < 1.0, "who ends a process kills it after about a second"
    node.trigger_deactivate()
    node.trigger_activate()
    assert node._machine.phase is Phase.IDLE
    node.trigger_shutdown()
    assert node._machine.phase is Phase.INACTIVE, "also when it is shut down while active"


# --- planning


def plan(node, **fields):
    return node._planner._on_plan(PlanExcitation.Request(**fields), PlanExcitation.Response())


def job(node, monkeypatch, names=("elbow", "waist", "shoulder"), cond=12.5):
    """Let planning jobs write a motion of these joints; return their requests."""
    asked = []

    def work(use_case, request):
        assert use_case is PLAN
        asked.append(request)
        q = np.array([(0.0, 0.0, -1.0), (0.5, 0.2, -0.9), (0.0, 0.0, -1.0)])
        order = [("elbow", "waist", "shoulder").index(name) for name in names]
        curve = through_points(np.array([0.0, 2.0, 4.0]), q[:, order], np.zeros((3, 3)))
        save_trajectory(Path(request.output), Trajectory(names, curve))
        return SimpleNamespace(notes=("mind the gap",), cond=cond)

    monkeypatch.setattr(node._planner._job, "work", work)
    return asked


def test_a_plan_is_asked_for_with_the_request_and_the_parameters(excitation_of, monkeypatch):
    box = [-1.0, 1.5, -2.0, 2.5, -3.0, 3.5]
    node = excitation_of(
        method="points", duration=7.0, planning_seconds=3.0, collisions="false", collision_margin=0.07, workspace=box
    )
    asked, checked = job(node, monkeypatch), []

    def shapes_of(source, around, *, planning):
        checked.append((source, around, planning))
        return None, None

    monkeypatch.setattr("ros2_dynid.nodes.excitation.planning.robot_and_shapes", shapes_of)
    answer = plan(node, seed=5)
    assert answer.success, answer.message
    (request,) = asked
    assert (str(request.method), request.seed, request.duration, request.time_budget) == ("points", 5, 7.0, 3.0)
    around = request.surroundings
    assert (around.collisions, around.margin, around.box) == (False, 0.07, tuple(box))
    assert request.robot.path == "demo3" and request.output == answer.message
    assert checked == [(request.robot, around, False)], "checked with what it was planned with"
    assert (answer.cond, answer.duration) == (12.5, pytest.approx(4.0))
    assert list(answer.trajectory.joint_names) == list(ROBOT.active_names)
    middle = answer.trajectory.points[len(answer.trajectory.points) // 2]
    np.testing.assert_allclose(middle.positions, (0.2, -0.9, 0.5), atol=1e-6)
    assert len(answer.trajectory.points) == 401, "at point_rate"
    assert node._planner._planned.sent == [answer.trajectory]
    assert node._planner.plan.robot is node._machine.robot
    assert node._planner.plan.trajectory.joint_names == ROBOT.active_names
    assert plan(node, method=["fourier"], duration=[9.0]).success
    assert (str(asked[1].method), asked[1].duration) == ("fourier", 9.0), "a request that says so"
    assert asked[1].output != asked[0].output


def test_what_is_planned_by_default_has_no_walls(excitation_of, monkeypatch):
    node = excitation_of()
    asked = job(node, monkeypatch, cond=None)
    answer = plan(node)
    assert answer.success and math.isnan(answer.cond)
    around = asked[0].surroundings
    assert (around.collisions, around.margin, around.box) == (True, 0.02, None)


def test_a_file_is_taken_from_the_folder_alone(excitation_of, tmp_path):
    node = excitation_of(collisions="false")
    saved_motion(tmp_path / "plans", ROBOT)
    answer = plan(node, file=["slow.yaml"])
    assert answer.success and math.isnan(answer.cond) and answer.message == str(tmp_path / "plans" / "slow.yaml")
    saved_motion(tmp_path, ROBOT)
    kept = node._planner.plan
    assert "not inside the folder" in plan(node, file=["../slow.yaml"]).message
    assert node._planner.plan is kept, "a refusal leaves the plan that there was"
    with node._planner._alone():
        assert "already going on" in plan(node, file=["slow.yaml"]).message
    assert plan(node, file=["slow.yaml"]).success


def test_a_trajectory_beyond_a_limit_or_too_close_is_refused(excitation_of, tmp_path, monkeypatch):
    node = excitation_of(point_rate=10.0)
    planning = "ros2_dynid.nodes.excitation.planning"
    saved_motion(tmp_path / "plans", ROBOT)
    margin, near, seconds = 0.02, [0.0], [6.0]
    shapes = SimpleNamespace(margin=margin)
    monkeypatch.setattr(f"{planning}.robot_and_shapes", lambda source, around, planning: (None, shapes))

    def clearance(robot, shapes, q):
        assert robot is node._machine.robot and len(q) >= 100 * seconds[0], "a hundred a second, however few leave"
        return near[0], "arm and wall"

    monkeypatch.setattr(f"{planning}.clearance", clearance)
    for near[0], fits in ((0.0185, False), (0.0195, True), (-0.1, False), (0.5, True)):
        answer = plan(node, file=["slow.yaml"])
        assert answer.success is fits, answer.message
        assert fits or "not safe: arm and wall come within" in answer.message
    fast = np.array([(0.0, -1.0, 0.0), (1.0, -0.5, 1.0), (0.0, -1.0, 0.0)])
    curve = through_points(np.array([0.0, 0.1, 0.2]), fast, np.zeros((3, 3)))
    save_trajectory(tmp_path / "plans" / "fast.yaml", Trajectory(ROBOT.active_names, curve))
    seconds[0] = 0.2
    assert "not safe" in plan(node, file=["fast.yaml"]).message


@pytest.mark.parametrize(
    ("here", "least", "fits"),
    [
        (0.5, 0.0195, True),  # margin 0.02, allowance 0.001
        (0.5, 0.0185, False),
        (0.01, 0.0095, True),  # closer than the margin already: it may stay so, not come closer
        (0.01, 0.0085, False),
        (-0.02, -0.0205, True),
        (-0.02, -0.03, False),
    ],
)
def test_a_way_may_come_no_closer_than_the_margin_or_than_it_begins(monkeypatch, here, least, fits):
    monkeypatch.setattr(
        "ros2_dynid.nodes.excitation.planning.clearance",
        lambda robot, shapes, q: (here if len(q) == 1 else least, "arm and wall"),
    )
    q = np.linspace(0.0, 1.0, 9).reshape(3, 3)
    made = SafePlan(ROBOT, None, SimpleNamespace(margin=0.02))
    if fits:
        made.check_way(q)
    else:
        with pytest.raises(InputError, match="arm and wall would come within"):
            made.check_way(q)
    SafePlan(ROBOT, None, None).check_way(q)


def test_a_plan_takes_no_more_points_than_its_rate(tmp_path):
    t = np.linspace(0.0, 4.0, 201)
    q = START + ((1 - np.cos(5 * np.pi * t)) / 20)[:, None]
    dq = (np.sin(5 * np.pi * t) * np.pi / 4)[:, None] * np.ones(3)
    dq[[0, -1]] = 0.0
    made = SafePlan(ROBOT, Trajectory(ROBOT.active_names, through_points(t, q, dq)), None)
    few, many = (made.points(made.trajectory, rate) for rate in (5.0, 500.0))
    assert len(few.t) <= 5.0 * 4.0 + 1 < len(many.t)
    assert few.joint_names == ROBOT.active_names and few.duration == pytest.approx(4.0)


# --- the thread that owns the machine


class Machine:
    """Keeps its events; `hold` blocks the thread in the next one."""

    def __init__(self):
        self.events, self.moving, self.phase = [], False, Phase.IDLE
        self.hold, self.held, self.fails = threading.Event(), threading.Event(), False
        self.hold.set()

    def handle(self, event):
        self.events.append(event)
        self.held.set()
        assert self.hold.wait(30.0)
        if self.fails and not isinstance(event, Stop):
            raise ValueError("oh")
        names = (f"{len(self.events)}{part}" for part in "ab")
        return ExcitationOutcome(True, "done", tuple(Announce(self.phase, name) for name in names))


@pytest.fixture
def owned(monkeypatch):
    """Return a machine, its owner, and what surrounds them; an error ends the thread alone."""
    ended = threading.Event()

    def guarded(run):
        def alone():
            try:
                run()
            except ValueError:
                ended.set()

        return alone

    monkeypatch.setattr("ros2_dynid.nodes.excitation.owner.guarded", guarded)
    around = SimpleNamespace(now=1.0, problem="", announced=[], ended=ended)
    machine = Machine()
    context = OwnerContext(lambda: around.now, lambda: around.problem, around.announced.append)
    return machine, ExcitationOwner(machine, context), around


def test_requests_come_before_joint_states_and_only_the_newest_of_these(owned):
    machine, owner, around = owned
    machine.hold.clear()
    owner.post(lambda now: Stop(now, "first"))
    assert machine.held.wait(30.0)
    state = State(("a",), *np.zeros((3, 1)), 0)
    for k in range(3):
        owner.state(JointStateArrived(float(k), state, 0.0))
    owner.post(lambda now: Stop(now, "second"))
    owner.post(lambda now: Stop(now, "third"))
    around.now = 2.0
    machine.hold.set()
    soon(lambda: len(machine.events) == 4, "the events")
    assert [event.reason for event in machine.events[:3]] == ["first", "second", "third"]
    assert [event.now for event in machine.events] == [1.0, 2.0, 2.0, 2.0], "the clock is asked when it is done"
    assert isinstance(machine.events[3], JointStateArrived) and machine.events[3].now == 2.0, "the newest"
    outcome = owner.ask(lambda now: Stop(now, "asked"))
    assert outcome.accepted and outcome.answer == "done"
    assert [what.name for what in around.announced] == [f"{k}{part}" for k in range(1, 6) for part in "ab"], "each one"


def test_who_asks_in_vain_is_told(owned):
    machine, owner, _ = owned
    machine.hold.clear()
    with pytest.raises(InputError, match=r"not done within 0\.01 s"):
        owner.ask(lambda now: Stop(now), timeout=0.01)
    machine.hold.set()


def test_while_it_moves_time_and_the_connection_are_watched(owned):
    machine, owner, around = owned
    owner.period = 1e-3
    owner.ask(lambda now: Stop(now))
    assert len(machine.events) == 1, "nothing moves, nothing ticks"
    machine.moving = True
    owner.post(lambda now: Stop(now))
    soon(lambda: len(machine.events) > 10, "ticks")
    assert {type(event) for event in machine.events[2:]} == {ExcitationTick}
    around.problem = "nobody listens"
    soon(lambda: any(isinstance(event, ConnectionProblem) for event in list(machine.events)), "the problem")
    first = next(k for k, event in enumerate(machine.events) if isinstance(event, ConnectionProblem))
    assert machine.events[first].text == "nobody listens"
    soon(lambda: len(machine.events) > first + 4, "what comes after")
    machine.moving = False
    kinds = [type(event) for event in machine.events[first : first + 4]]
    assert kinds == [ConnectionProblem, ExcitationTick] * 2, "time goes on without a connection"


def test_time_goes_on_while_requests_come(owned):
    machine, owner, _ = owned
    owner.period = 0.0
    machine.hold.clear()
    for k in range(4):
        owner.post(lambda now: Stop(now))
        assert k or machine.held.wait(30.0)
    machine.moving = True
    machine.hold.set()
    soon(lambda: len(machine.events) > 8, "the events")
    machine.moving = False
    assert [type(event) for event in machine.events[:8]] == [Stop, ExcitationTick] * 4, "whoever asks too often"


def test_who_waits_for_the_end_is_woken_by_it_and_not_before(owned):
    machine, owner, _ = owned
    assert not owner.wait_inactive(0.05)
    machine.phase = Phase.INACTIVE
    assert owner.wait_inactive(30.0)


@pytest.mark.parametrize("moving", [True, False])
def test_an_error_of_ours_ends_the_thread_with_the_robot_stopped(owned, moving):
    machine, owner, around = owned
    machine.fails, machine.moving = True, moving
    owner.post(ExcitationTick)
    assert around.ended.wait(30.0)
    stops = [event for event in machine.events if isinstance(event, Stop)]
    assert [stop.reason for stop in stops] == (["ValueError: oh"] if moving else [])


# --- the controller


class Future:
    """A future that is done when `done` says so."""

    def __init__(self, value, done=True):
        self._value, self._done = value, done

    def add_done_callback(self, callback):
        if self._done:
            callback(self)

    def result(self):
        return self._value


class Service:
    """A client of a service that answers `value`; None: not at all."""

    def __init__(self, value, ready=True):
        self.value, self.ready, self.asked, self.removed = value, ready, [], []

    def service_is_ready(self):
        return self.ready

    def wait_for_service(self, timeout):
        return self.ready

    def call_async(self, request):
        self.asked.append(request)
        return Future(self.value, self.value is not None)

    def remove_pending_request(self, future):
        self.removed.append(future)


WAY = "/robot/arm_controller/joint_trajectory"


def controllers(client, monkeypatch=None, parameters=None):
    made = []

    def create_client(kind, name, callback_group=None):
        made.append(name)
        return parameters

    found = Controllers(SimpleNamespace(create_client=create_client), "")
    found._manager, found._client, found._kind = "controller_manager", client, SimpleNamespace(Request=lambda: "list")
    return found, made


def listed(**states):
    return SimpleNamespace(controller=[SimpleNamespace(name=name, state=state) for name, state in states.items()])


def test_which_controller_is_behind_a_topic():
    assert controller_of(WAY) == "arm_controller"
    assert controller_of("/arm_controller/joint_trajectory") == "arm_controller"
    assert controller_of("arm_controller/follow_joint_trajectory/") == "arm_controller"
    assert controller_of("/joint_trajectory") == ""


def test_a_controller_that_is_not_active_is_refused_and_what_is_not_known_is_said(monkeypatch):
    found, _ = controllers(Service(listed(arm_controller="active", other="inactive")))
    assert found.check(WAY) == "the controller arm_controller is active"
    with pytest.raises(InputError, match="the controller other is inactive; activate it: ros2 control"):
        found.check("/other/joint_trajectory")
    assert "has no controller 'third'" in found.check("/third/joint_trajectory")
    assert "is not installed" in controllers(None)[0].check(WAY)
    assert "there is no controller_manager" in controllers(Service(None, ready=False))[0].check(WAY)
    monkeypatch.setattr("ros2_dynid.nodes.excitation.controllers.PATIENCE", 0.01)
    silent = Service(None)
    assert "does not answer" in controllers(silent)[0].check(WAY) and len(silent.removed) == 1


@pytest.mark.parametrize("manager", ["cell/controller_manager", ""])
@pytest.mark.parametrize("tells", [True, False])
def test_a_controller_manager_is_asked_and_heard_where_its_messages_are(monkeypatch, manager, tells):
    srv, msg = SimpleNamespace(ListControllers="list"), SimpleNamespace(ControllerManagerActivity="activity")
    for name, module in (("", SimpleNamespace()), (".srv", srv), (".msg", msg if tells else None)):
        monkeypatch.setitem(sys.modules, f"controller_manager_msgs{name}", module)
    asked, heard = [], []
    node = SimpleNamespace(
        create_client=lambda kind, name, callback_group: asked.append((kind, name, callback_group)),
        create_subscription=lambda *args, callback_group: heard.append((*args, callback_group)),
    )
    controllers = Controllers(node, manager)
    assert [found[:2] for found in asked] == ([("list", f"{manager}/list_controllers")] if manager else [])
    assert all(isinstance(found[2], ReentrantCallbackGroup) for found in asked), "it is waited for"
    if not (manager and tells):
        assert not heard, "older controller managers do not tell"
        return
    ((kind, topic, callback, qos, group),) = heard
    assert (kind, topic, callback) == ("activity", f"{manager}/activity", controllers._on_activity)
    assert qos is LATCHED, "what was switched before we came is known too"
    assert isinstance(group, MutuallyExclusiveCallbackGroup), "the last one holds"


def test_a_controller_that_is_switched_off_is_known_at_once():
    found, _ = controllers(None)
    assert found.problem(WAY) == ""
    off = SimpleNamespace(name="arm_controller", state=SimpleNamespace(label="inactive"))
    on = SimpleNamespace(name="other", state=SimpleNamespace(label="active"))
    found._on_activity(SimpleNamespace(controllers=[off, on]))
    assert found.problem(WAY) == "the controller arm_controller is inactive"
    assert found.problem("/other/joint_trajectory") == ""
    off.state.label = "active"
    found._on_activity(SimpleNamespace(controllers=[off]))
    assert found.problem(WAY) == ""


def test_a_controller_that_begins_at_the_measured_state_is_advised():
    def value(kind, flag):
        return Service(SimpleNamespace(values=[ParameterValue(type=kind, bool_value=flag)]))

    boolean = ParameterType.PARAMETER_BOOL
    service = value(boolean, False)
    found, made = controllers(Service(None), parameters=service)
    assert "set its parameter interpolate_from_desired_state to true" in found.advice(WAY)
    assert made == ["/robot/arm_controller/get_parameters"]
    assert service.asked[0].names == ["interpolate_from_desired_state"]
    for other in (value(boolean, True), value(ParameterType.PARAMETER_NOT_SET, False), Service(None, ready=False)):
        assert controllers(Service(None), parameters=other)[0].advice(WAY) == ""
    assert controllers(None, parameters=service)[0].advice(WAY) == "", "nobody to ask"
    assert found.advice("/joint_trajectory") == ""


# --- the action


class Goals:
    """A client of FollowJointTrajectory: keeps goals, and answers them as told."""

    def __init__(self, node, kind, name):
        self.name, self.sent, self.accepted, self.there = name, [], True, True
        self.result = SimpleNamespace(error_code=0, error_string="")
        Goals.last = self

    def server_is_ready(self):
        return self.there

    def send_goal_async(self, goal):
        self.sent.append(goal.trajectory)
        ended = SimpleNamespace(result=self.result)
        return Future(SimpleNamespace(accepted=self.accepted, get_result_async=lambda: Future(ended)))


@pytest.fixture
def action(monkeypatch):
    """Return a sender by action, with the part of control_msgs that it uses, and what it says was refused."""
    module = ModuleType("control_msgs.action")
    module.FollowJointTrajectory = SimpleNamespace(
        Goal=lambda trajectory: SimpleNamespace(trajectory=trajectory), Result=SimpleNamespace(SUCCESSFUL=0)
    )
    monkeypatch.setitem(sys.modules, "control_msgs", ModuleType("control_msgs"))
    monkeypatch.setitem(sys.modules, "control_msgs.action", module)
    monkeypatch.setattr("rclpy.action.client.ActionClient", Goals)
    clock = SimpleNamespace(now=lambda: Moment(nanoseconds=9_500_000_000))
    refused = []
    sender = ActionSender(
        SimpleNamespace(get_clock=lambda: clock), "arm/follow", lambda number, text: refused.append((number, text))
    )
    return sender, Goals.last, refused


POINTS = reference(
    ROBOT.active_names, np.array([0.5, 1.0]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.zeros((2, 3))
)


@pytest.mark.parametrize("prepared", [False, True])
def test_goals_are_the_trajectory_with_the_stamp_of_this_moment(action, prepared):
    sender, client, refused = action
    if prepared:
        sender.prepare(POINTS)
    for delay, stamp in ((0.25, Time(sec=9, nanosec=750_000_000)), (0.0, Time())):
        sender.send(POINTS, delay, 1)
        goal = client.sent[-1]
        assert goal == trajectory_message(POINTS, stamp)
    assert not refused and (sender.name, client.name) == ("arm/follow", "arm/follow")
    assert sender.problem() == ""
    client.there = False
    assert sender.problem() == "the controller's action arm/follow is not there"


def test_what_a_controller_refuses_or_gives_up_is_told_with_its_number(action):
    sender, client, refused = action
    client.accepted = False
    sender.send(POINTS, 0.0, 5)
    assert refused == [(5, "the controller refused the trajectory")]
    client.accepted = True
    for code, text, told in ((-4, "path tolerance", "path tolerance"), (3, "", "3"), (-1, "", "-1")):
        client.result.error_code, client.result.error_string = code, text
        sender.send(POINTS, 0.0, 6)
        assert refused[-1] == (6, f"the controller gave up: {told}")
    client.result.error_code = 0
    sender.send(POINTS, 0.0, 7)
    assert len(refused) == 4, "one that has arrived is no refusal"


def test_without_control_msgs_the_hint_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "control_msgs", None)
    monkeypatch.setitem(sys.modules, "control_msgs.action", None)
    with pytest.raises(InputError, match="control_msgs is not installed"):
        ActionSender(None, "arm/follow", None)
