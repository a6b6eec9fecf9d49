"""What the identification node makes of requests, joint states and models: part by part, without a graph or a job."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from builtin_interfaces.msg import Time
from rclpy.action.server import CancelResponse
from rclpy.time import Time as Moment
from ros2_dynid.action import Identify
from ros2_dynid.msg import BaseParameters, IdentifyOptions
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters, IdentifyPayload, IdentifyRecording

from in_process import Kept, joint_state, node_of
from perfect import perfect_model
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.model_file import TorqueError, load_model, model_of
from ros2_dynid.identification.online import Drift
from ros2_dynid.identification.torque_std import spread_of, torque_std
from ros2_dynid.jobs import IDENTIFY, PAYLOAD
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN
from ros2_dynid.nodes.common.messages import matrix_of
from ros2_dynid.nodes.common.model_messages import model_id, model_message, model_of_message
from ros2_dynid.nodes.identification import online_mode
from ros2_dynid.nodes.identification.identify_action import IdentifyAction, _canceling
from ros2_dynid.nodes.identification.model_services import ModelServices
from ros2_dynid.nodes.identification.node import Identification
from ros2_dynid.nodes.identification.online_mode import Online, OnlineSettings
from urdf_text import joint, urdf

pytestmark = pytest.mark.in_process

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names


def model_with(robot=ROBOT, **fields):
    base = base_parameters(robot)
    b = len(base)
    value = base.values(robot, standard_vector(robot))
    std = 0.01 * np.arange(1, b + 1)
    return replace(model_of(robot, base, value, std, np.diag(std**2)), **fields)


# --- the node


@pytest.fixture
def identification_of(tmp_path):
    """Return what makes an identification node, whose models are kept as they are published."""
    made = []
    for name in ("recordings", "models"):
        (tmp_path / name).mkdir()

    def make(**parameters):
        folders = {f"{name}_folder": tmp_path / name for name in ("recordings", "models")}
        around = node_of(Identification, **{"robot": "demo3", **folders, **parameters})
        made.append(around)
        node = around.__enter__()
        node._out = Kept()
        return node

    yield make
    for around in made:
        around.__exit__(None, None, None)


def job(node, tmp_path, kind=IDENTIFY):
    """Let jobs of the node give a model file; return their requests."""
    asked = []

    def work(use_case, request, progress=None, cancelled=None):
        assert use_case is kind
        asked.append((request, progress, cancelled))
        perfect_model(ROBOT, tmp_path / "found.yaml")
        return SimpleNamespace(model=str(tmp_path / "found.yaml"))

    node._job.work = work
    return asked


def test_a_request_names_recordings_and_files_in_the_folders(identification_of, tmp_path):
    node = identification_of(method="ols", sensor="link")
    asked = job(node, tmp_path)
    for name in ("one.npz", "two.npz", "three.npz", "last.npz"):
        (tmp_path / "recordings" / name).touch()
    for name in ("prior.yaml", "gains.yaml"):
        (tmp_path / "models" / name).touch()

    def ask(**fields):
        return node._on_identify(IdentifyRecording.Request(**fields), IdentifyRecording.Response())

    answer = ask()
    assert not answer.success and "there is no recording yet" in answer.message
    options = IdentifyOptions(prior=["prior.yaml"], controller=["gains.yaml"])
    answer = ask(bags=["one.npz", "two.npz"], validation_bags=["three.npz"], output_directory=["mine"], options=options)
    assert answer.success and answer.model_path == str(tmp_path / "found.yaml")
    request, progress, cancelled = asked[-1]
    recordings, models = tmp_path / "recordings", tmp_path / "models"
    assert request.recordings == (str(recordings / "one.npz"), str(recordings / "two.npz"))
    assert request.validation == (str(recordings / "three.npz"),)
    assert request.output == str(models / "mine") and request.robot.path == "demo3"
    assert (str(request.options.method), request.options.sensor) == ("ols", "link")
    assert request.options.prior == str(models / "prior.yaml")
    assert request.options.controller == str(models / "gains.yaml")
    assert progress is None and cancelled is None
    (published,) = node._out.sent
    assert answer.parameters.robot == published.robot == ROBOT.name and answer.parameters.header == published.header
    assert answer.parameters.model_id == published.model_id
    (models / "mine").mkdir()
    assert ask(bags=["one.npz"], output_directory=["mine"]).success
    assert asked[-1][0].output == str(models / "mine_2"), "nothing is overwritten"

    node._on_recording(SimpleNamespace(data=str(recordings / "last.npz")))
    ended, told = threading.Event(), []
    path, message = node.identify(Identify.Goal(), told.append, ended)
    request, progress, cancelled = asked[-1]
    assert request.recordings == (str(recordings / "last.npz"),) and request.validation == ()
    assert request.options.prior == "auto" and request.options.controller is None
    assert progress == told.append and cancelled is ended
    assert path.endswith("found.yaml") and message.model_id == answer.parameters.model_id

    count = len(asked)
    for fields in (
        {"bags": ["../out.npz"]},
        {"bags": ["missing.npz"]},
        {"bags": ["one.npz"], "validation_bags": ["/etc/passwd"]},
        {"bags": ["one.npz"], "output_directory": "../elsewhere"},
        {"bags": ["one.npz"], "options": IdentifyOptions(prior="../prior.yaml")},
        {"bags": ["one.npz"], "options": IdentifyOptions(controller="/etc/passwd")},
    ):
        assert not ask(**fields).success
    assert len(asked) == count, "refused before anything is started"
    node.trigger_deactivate()
    assert "not active" in ask(bags=["one.npz"]).message


def test_a_payload_is_asked_for_and_answered_field_by_field(identification_of, tmp_path):
    node, asked = identification_of(sensor="link"), []
    inertia = ((1.0, 0.1, 0.2), (0.1, 2.0, 0.3), (0.2, 0.3, 3.0))
    found = SimpleNamespace(
        mass=1.5, com=(0.1, 0.2, 0.3), inertia=inertia, std=SimpleNamespace(mass=0.01, com=(0.02, 0.03, 0.04)),
        frame="hand", significant=True,
    )  # fmt: skip

    def work(use_case, request):
        assert use_case is PAYLOAD
        asked.append(request)
        return found

    node._job.work = work
    for name in ("empty.npz", "full.npz", "more.npz"):
        (tmp_path / "recordings" / name).touch()

    def ask(**fields):
        return node._payload._on_payload(IdentifyPayload.Request(**fields), IdentifyPayload.Response())

    options = IdentifyOptions(row_cutoff=[9.0])
    answer = ask(empty_bags=["empty.npz"], loaded_bags=["full.npz", "more.npz"], link=["hand"], options=options)
    assert answer.success, answer.message
    (request,) = asked
    folder = tmp_path / "recordings"
    assert request.empty == (str(folder / "empty.npz"),)
    assert request.loaded == (str(folder / "full.npz"), str(folder / "more.npz"))
    assert request.link == "hand" and request.options.sensor == "link"
    assert request.options.preparation.row_cutoff == 9.0
    load = answer.payload
    assert (load.m, load.com.x, load.com.y, load.com.z) == (1.5, 0.1, 0.2, 0.3)
    assert (load.ixx, load.ixy, load.ixz, load.iyy, load.iyz, load.izz) == (1.0, 0.1, 0.2, 2.0, 0.3, 3.0)
    assert (answer.mass_std, answer.com_std.x, answer.com_std.y, answer.com_std.z) == (0.01, 0.02, 0.03, 0.04)
    assert answer.frame == "hand" and answer.significant
    assert ask(empty_bags=["empty.npz"], loaded_bags=["full.npz"]).success and asked[-1].link is None
    for fields, words in (
        ({"empty_bags": ["empty.npz"]}, "loaded_bags is empty"),
        ({"loaded_bags": ["full.npz"]}, "empty_bags is empty"),
        ({"empty_bags": ["../x"], "loaded_bags": ["full.npz"]}, "not inside the folder"),
        ({"empty_bags": ["empty.npz"], "loaded_bags": ["../x"]}, "not inside the folder"),
    ):
        answer = ask(**fields)
        assert not answer.success and words in answer.message
    assert len(asked) == 2


def test_the_model_served_is_this_robots(identification_of, tmp_path):
    perfect_model(ROBOT, tmp_path / "model.yaml")
    node = identification_of(model=tmp_path / "model.yaml")
    level, message, values = node.status()
    assert (level, message, values["model"], values["rms"], values["relative"]) == (OK, "serving", "demo3", 1.0, 0.01)
    served = node._served()
    assert served.model_id == model_id(load_model(tmp_path / "model.yaml")) and served.header.frame_id == "base_link"
    answer = node._model_services._on_get(GetBaseParameters.Request(), GetBaseParameters.Response())
    assert answer.success and answer.parameters.model_id == served.model_id
    for drift, expected in (
        (None, (OK, "serving")),
        (Drift(np.ones(3), "elbow", False), (OK, "serving")),
        (Drift(np.ones(3), "elbow", True), (WARN, "drift at joint elbow")),
    ):
        node._online = SimpleNamespace(drift=drift, close=lambda: None)
        assert node.status()[:2] == expected
    with pytest.raises(InputError, match="this robot has"):
        node.on_robot(load_robot("demo6"))


def test_a_model_stays_served_for_the_same_robot_alone(identification_of):
    node = identification_of()
    assert node.status()[:2] == (WARN, "no base parameters yet") and node._served() is None
    answer = node._model_services._on_get(GetBaseParameters.Request(), GetBaseParameters.Response())
    assert not answer.success and "no base parameters yet" in answer.message
    model = model_with()
    node._serve(model)
    node.on_robot(load_robot("demo3"))
    assert node._model is model and len(node._out.sent) == 2
    node.on_robot(load_robot("demo6"))
    assert node._model is None and len(node._out.sent) == 2


def test_the_online_mode_has_the_parameters_by_their_names(identification_of, monkeypatch):
    made, closed = [], []

    def online(node, settings, **around):
        made.append((settings, around))
        return SimpleNamespace(close=lambda: closed.append(True), drift=None)

    monkeypatch.setattr("ros2_dynid.nodes.identification.node.Online", online)
    node = identification_of(
        online="true", online_rate=11.0, online_cutoff=12.0, online_memory=13.0, predicted_rate=14.0, payload="true",
        drift_ratio=5.0,
    )  # fmt: skip
    ((settings, around),) = made
    assert settings == OnlineSettings(row_rate=11.0, cutoff=12.0, memory=13.0, predicted_rate=14.0, payload=True)
    model = model_with()
    node._serve(model)
    assert around["robot"]() is node.robot and around["model"]() is model and around["drift_ratio"]() == 5.0
    cancelled = []
    node._job.cancel = lambda: cancelled.append(True)
    node.trigger_deactivate()
    assert closed == [True] and cancelled == [True] and node._online is None


# --- the action


class Goal:
    """A goal that keeps how it ended."""

    def __init__(self, number, asked=False):
        self.goal_id = SimpleNamespace(uuid=np.full(16, number, dtype=np.uint8))
        self.request, self.is_cancel_requested, self.how, self.feedback = number, asked, "", []

    def execute(self):
        self.how = "begun"

    def publish_feedback(self, message):
        self.feedback.append((message.stage, message.progress))

    def succeed(self):
        self.how = "succeeded"

    def canceled(self):
        self.how = "cancelled"

    def abort(self):
        self.how = "aborted"


def action(monkeypatch, identify):
    monkeypatch.setattr("ros2_dynid.nodes.identification.identify_action.ActionServer", lambda *args, **more: None)
    said, cancelled = [], []

    def cancel(event):
        event.set()
        cancelled.append(event)

    node = SimpleNamespace(get_logger=lambda: SimpleNamespace(error=said.append))
    made = IdentifyAction(node, SimpleNamespace(group=None, cancel=cancel), identify)
    return made, said, cancelled


def test_goals_end_as_they_should(monkeypatch):
    def identify(request, progress, cancelled):
        progress("filters", 0.25)
        if request == 2:
            raise DynidError("the bag is empty")
        if request == 3:
            made._on_cancel(goals[3])
            goals[3].is_cancel_requested = True
            raise DynidError("cancelled")
        return "model.yaml", BaseParameters(robot="arm")

    made, said, cancelled = action(monkeypatch, identify)
    goals = {number: Goal(number) for number in (1, 2, 3)}
    results = {}
    for number, goal in goals.items():
        made._on_accepted(goal)
        assert goal.how == "begun"
        results[number] = made._execute(goal)
    assert [goal.how for goal in goals.values()] == ["succeeded", "aborted", "cancelled"]
    assert goals[1].feedback == [("filters", 0.25)]
    assert results[1].success and (results[1].model_path, results[1].parameters.robot) == ("model.yaml", "arm")
    assert not results[2].success and results[2].message == "the bag is empty" and len(said) == 1
    assert len(cancelled) == 1 and not results[3].success
    assert made._on_cancel(goals[3]) == CancelResponse.REJECT, "it has ended"
    later = Goal(4)
    made._on_accepted(later)
    assert made._on_cancel(later) == CancelResponse.ACCEPT and len(cancelled) == 2
    assert not _canceling(Goal(5), 0.005) and _canceling(Goal(5, asked=True))


# --- services of the model

FREE = '<limit lower="-2" upper="2" velocity="3" effort="90"/>'
BODY = '<inertial><mass value="3"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
ARM = urdf(
    '<link name="root"/><link name="base"/>',
    *(f'<link name="{name}">{BODY}</link>' for name in ("one", "two", "three")),
    '<joint name="stand" type="fixed"><parent link="root"/><child link="base"/><origin xyz="0 0 1"/></joint>',
    joint("a", "base", "one", xyz="0.1 0.2 0.3", inside=FREE),
    joint("b", "one", "two", xyz="0.4 0 0", axis="0 1 0", inside=FREE),
    joint("c", "two", "three", xyz="0.5 0 0", axis="0 1 0", inside=FREE),
    name="arm",
)


def test_a_urdf_becomes_a_table_of_the_chain_asked_for():
    said = SimpleNamespace(error=lambda text: None)
    node = SimpleNamespace(create_service=lambda *args: None, get_logger=lambda: said)
    own = [""]
    services = ModelServices(node, lambda: None, lambda: own[0])

    def ask(**fields):
        return services._on_convert(ConvertUrdf.Request(**fields), ConvertUrdf.Response())

    answer = ask(urdf=[ARM])
    assert answer.success, answer.message
    assert [j.name for j in answer.joints] == ["a", "b", "c"] and list(answer.tool_links) == ["three"]
    robot = robot_from_urdf_string(ARM)
    np.testing.assert_allclose(matrix_of(answer.base), robot.base, atol=1e-12)
    np.testing.assert_allclose(matrix_of(answer.tools[0]), robot.tools["three"][1], atol=1e-12)
    for found, expected in zip(answer.joints, robot.joints, strict=True):
        assert (found.parent, found.sigma) == (expected.parent, expected.sigma)
        for key in ("alpha", "d", "r", "gamma", "b"):
            assert getattr(found, key) == pytest.approx(getattr(expected, key)), key
    answer = ask(urdf=[ARM], base_link=["base"], tip_link=["two"])
    assert [j.name for j in answer.joints] == ["a", "b"] and list(answer.tool_links) == ["two"]
    np.testing.assert_allclose(matrix_of(answer.base)[:3, 3], (0.1, 0.2, 0.3), atol=1e-12)
    answer = ask(urdf=[ARM], hold_joints=["a", "c"], hold_positions=[0.3, -0.4])
    held = robot_from_urdf_string(ARM, hold={"a": 0.3, "c": -0.4})
    assert [j.name for j in answer.joints] == ["b"]
    np.testing.assert_allclose(matrix_of(answer.base), held.base, atol=1e-12)
    assert "differ in number" in ask(urdf=[ARM], hold_joints=["a"]).message
    assert "there is no URDF" in ask().message
    own[0] = ARM
    assert [j.name for j in ask().joints] == ["a", "b", "c"], "the description that the node has"


# --- models as messages


def test_a_message_tells_values_deviations_and_errors_in_their_own_fields():
    model = model_with(
        fit={"elbow": TorqueError(0.1, 0.2), "all": TorqueError(0.3, 0.4)},
        validation={"all": TorqueError(0.5, 0.6)},
        obtained={"method": "irls", "rows": 77, "cond": 8.5},
    )
    message = model_message(model, Time(sec=5), "pedestal")
    assert message.header.frame_id == "pedestal" and message.header.stamp.sec == 5
    assert [p.std for p in message.parameters] == pytest.approx(model.std.tolist())
    assert [p.value for p in message.parameters] == pytest.approx(model.served.tolist())
    assert [p.name for p in message.parameters] == list(model.names)
    assert [p.leader for p in message.parameters] == list(model.leaders)
    np.testing.assert_allclose(np.reshape(message.covariance, model.covariance.shape), model.covariance)
    assert (message.method, message.rows, message.cond) == ("irls", 77, 8.5)
    assert [(e.joint, e.rms, e.relative) for e in message.fit] == [("elbow", 0.1, 0.2), ("all", 0.3, 0.4)]
    assert [(e.joint, e.rms, e.relative) for e in message.validation] == [("all", 0.5, 0.6)]
    gravity = message.gravity
    np.testing.assert_allclose((gravity.x, gravity.y, gravity.z), ROBOT.gravity)
    assert [(j.name, j.parent, j.sigma) for j in message.joints] == [(j.name, j.parent, j.sigma) for j in ROBOT.joints]
    bare = model_message(replace(model, std=np.full(len(model.std), np.inf), obtained={}), Time(), "")
    assert all(np.isnan(p.std) for p in bare.parameters) and np.isnan(bare.cond) and bare.rows == 0
    unknown = np.full_like(model.covariance, np.nan)
    assert not model_message(replace(model, covariance=unknown), Time(), "").covariance


def changed(robot, number, **fields):
    joints = list(robot.joints)
    joints[number] = replace(joints[number], **fields)
    return replace(robot, joints=tuple(joints))


def coupled():
    from ros2_dynid.model.robot import Coupling, Passive

    four = load_robot("demo6")
    return replace(
        four,
        coupling=(Coupling(5, {5: 1.0, 6: -0.5}, True),),
        passive=(Passive(4, {2: 1.0, 3: -1.0}, 0.25),),
    )


def test_the_mark_of_a_model_differs_with_whatever_its_parameters_mean():
    robot = coupled()
    joint = robot.joints[1]
    (coupling,), (passive,) = robot.coupling, robot.passive
    turned = robot.base.copy()
    turned[0, 3] += 0.1
    spring = Force("spring", ForceKind.SPRING, (0, 1), {2: 1.0}, rest=0.1)
    springs = [spring, replace(spring, powers=(1,)), replace(spring, weights={3: 1.0}), replace(spring, rest=0.2)]
    springs.append(replace(spring, weights={2: -1.0}))
    ends = Pivot(1, (0.1, 0.2, 0.3)), Pivot(2, (0.4, 0.5, 0.6)), Pivot(2, (0.4, 0.5, 0.7)), Pivot(3, (0.4, 0.5, 0.6))
    cylinders = [Force("cylinder", ForceKind.CYLINDER, (1,), pivots=(ends[0], end)) for end in ends[1:]]
    others = [
        robot,
        changed(robot, 1, alpha=joint.alpha + 0.1),
        changed(robot, 1, r=joint.r + 0.1),
        changed(robot, 1, name="other"),
        replace(robot, gravity=robot.gravity * np.array([1.0, 1.0, -1.0])),
        replace(robot, base=turned),
        replace(robot, coupling=(replace(coupling, weights={5: 1.0, 6: 0.5}),)),
        replace(robot, coupling=(replace(coupling, motor=6),)),
        replace(robot, passive=(replace(passive, offset=0.5),)),
        replace(robot, passive=(replace(passive, terms={2: 1.0, 3: 1.0}),)),
        replace(robot, passive=(replace(passive, joint=6),)),
        *(replace(robot, forces=(force,)) for force in (*springs, *cylinders)),
    ]
    marks = [model_id(SimpleNamespace(robot=other, leaders=("a", "b"))) for other in others]
    marks.append(model_id(SimpleNamespace(robot=robot, leaders=("a", "c"))))
    assert len(set(marks)) == len(marks)
    assert model_id(SimpleNamespace(robot=coupled(), leaders=("a", "b"))) == marks[0], "and with nothing else"


def test_couplings_and_passive_joints_survive():
    robot = coupled()
    message = model_message(model_with(robot), Time(), "base_link")
    found, chi = model_of_message(message)
    assert found.coupling == robot.coupling and found.passive == robot.passive
    np.testing.assert_allclose(found.gravity, robot.gravity)
    np.testing.assert_allclose(found.base, robot.base, atol=1e-12)
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-1, 1, (3, 5, len(robot.active)))
    expected = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    np.testing.assert_allclose(inverse_dynamics(found, chi, q, dq, ddq), expected, atol=1e-9)


# --- online


class Estimator:
    """An estimator that says what a test wants."""

    def __init__(self, robot, rate, **options):
        self.made, self.taken, self.base = (robot, rate, options), [], "base"
        self.rows, self.found, self.verdict, self.newest, self.since = 0, None, None, 0.0, []

    def take(self, q, tau, t):
        self.taken.append((q.tolist(), tau.tolist(), t))

    def work(self, reference):
        self.reference = reference
        return self.rows

    def drift(self, reference, ratio):
        self.ratio = ratio
        return self.verdict

    def estimate(self):
        return self.found

    def information(self, since):
        self.since.append(since)
        return "information"


@pytest.fixture
def online(monkeypatch):
    """Return the online mode of a robot that stands still in the air, and what is around it."""
    monkeypatch.setattr(online_mode, "OnlineEstimator", Estimator)
    monkeypatch.setattr(online_mode, "Stream", lambda *args, **more: SimpleNamespace(close=lambda: None))
    around = SimpleNamespace(made={}, model=None, ratio=3.0, robot=ROBOT, said=[], destroyed=[])

    def publisher(kind, topic, qos):
        around.made[topic] = Kept(topic)
        return around.made[topic]

    node = SimpleNamespace(
        create_publisher=publisher,
        destroy_publisher=around.destroyed.append,
        create_timer=lambda period, work: "timer",
        destroy_timer=around.destroyed.append,
        get_logger=lambda: SimpleNamespace(warning=lambda text, **more: around.said.append(text)),
        get_clock=lambda: SimpleNamespace(now=lambda: Moment(nanoseconds=9_500_000_000)),
    )
    around.online = Online(
        node,
        OnlineSettings(11.0, 12.0, 13.0, 100.0, payload=True),
        robot=lambda: around.robot,
        model=lambda: around.model,
        drift_ratio=lambda: around.ratio,
        message_of=lambda model: BaseParameters(robot=model.robot.name),
    )
    return around.online, around


def states(count, begin, period=5_000_000):
    names = ("elbow", "waist", "shoulder")
    return [joint_state(names, (3, 1, 2), (), (9, 7, 8), begin + k * period if begin else 0) for k in range(count)]


def test_the_rate_is_measured_and_joint_states_come_in_the_robots_order(online):
    mode, around = online
    around.robot = None
    mode._on_state(states(1, 10**9)[0])
    assert mode._statistics.count == 0, "without a robot there is nothing to estimate"
    around.robot = ROBOT
    for data in [
        *states(200, 10**9),
        b"",
        bytes(11),
        *states(300, 2 * 10**9),
    ]:  # anybody can send what is no joint state
        mode._on_state(data)
    robot, rate, options = mode._estimator.made
    assert robot is ROBOT and rate == pytest.approx(200.0)
    assert options == {"row_rate": 11.0, "cutoff": 12.0, "memory": 13.0}
    assert not mode._estimator.taken
    for data in [*states(2, 10 * 10**9), joint_state(("left",), (1,)), b"", bytes(11)]:
        mode._on_state(data)
    assert mode._estimator.taken == [([1, 2, 3], [7, 8, 9], 0.0), ([1, 2, 3], [7, 8, 9], pytest.approx(0.005))]
    mode._on_state(states(1, 0)[0])
    assert mode._estimator.taken[-1][2] is None, "a driver that does not stamp"


def begun(mode):
    mode._estimator = Estimator(ROBOT, 200.0)
    return mode._estimator


def test_drift_is_told_when_it_changes_and_by_the_ratio_of_now(online):
    mode, around = online
    mode._work()
    estimator, verdicts = begun(mode), around.made["drift"].sent
    around.model, around.ratio = model_with(fit={"all": TorqueError(0.1, 0.1)}), 4.5
    quiet, drifting = (Drift(np.ones(3), "elbow", wrong) for wrong in (False, True))
    for estimator.verdict, estimator.newest in (
        (quiet, 1.0),
        (quiet, 2.0),
        (drifting, 3.0),
        (drifting, 4.0),
        (quiet, 5.0),
    ):
        mode._work()
        assert mode.drift is estimator.verdict
    assert [message.data for message in verdicts] == [False, True, False]
    assert estimator.ratio == 4.5 and estimator.reference is around.model
    assert around.said == ["drift at joint elbow: payload or friction has changed"]
    around.model, mode.drift = model_with(fit={}), None
    mode._work()
    assert mode.drift is None, "a model without a fit cannot be compared with"


def test_estimates_are_published_when_there_are_new_rows(online, monkeypatch):
    mode, around = online
    monkeypatch.setattr(online_mode, "quick_load", lambda *args, **more: None)
    estimator = begun(mode)
    estimator.found = model_with()
    mode._work()
    assert not around.made["online_parameters"].sent
    estimator.rows = 3
    mode._work()
    assert [message.robot for message in around.made["online_parameters"].sent] == ["demo3"]
    assert mode._plotted[0] is estimator.found, "without a model the estimate is plotted"
    around.model = model_with()
    mode._work()
    assert mode._plotted[0] is around.model and not around.made["~/payload"].sent


def test_the_load_is_that_since_the_last_change(online, monkeypatch):
    mode, around = online
    estimator, asked = begun(mode), []
    T = np.eye(4)
    around.model = SimpleNamespace(
        robot=SimpleNamespace(tools={"elbow_camera": (1, T), "hand": (3, T)}, n=3), fit={"all": 1}
    )
    found = SimpleNamespace(
        mass=1.5, com=np.array([0.1, 0.2, 0.3]), inertia=np.diag([1.0, 2.0, 3.0]), frame="hand",
        mass_std=0.5, com_std=np.array([0.01, 0.02, 0.03]), inertia_std=np.diag([0.4, 0.5, 0.6]),
    )  # fmt: skip

    def quick_load(reference, base, information, *, link):
        asked.append((reference, base, information, link))
        return found

    monkeypatch.setattr(online_mode, "quick_load", quick_load)
    monkeypatch.setattr(mode, "_plot", lambda model: None)
    estimator.rows, estimator.verdict, estimator.newest = 1, Drift(np.ones(3), "elbow", False), 7.0
    mode._work()
    estimator.newest, estimator.verdict = 9.0, Drift(np.ones(3), "elbow", True)
    mode._work()
    estimator.newest = 11.0
    mode._work()
    assert estimator.since == [7.0, 9.0, 9.0]
    estimator.newest = 2.0
    mode._work()
    assert estimator.since[-1] == -np.inf, "a clock that was set back"
    assert asked[-1] == (around.model, "base", "information", "hand")
    load, std = (around.made[topic].sent[-1] for topic in ("~/payload", "~/payload_std"))
    for message, mass, com, inertia in (
        (load, 1.5, (0.1, 0.2, 0.3), (1, 2, 3)),
        (std, 0.5, (0.01, 0.02, 0.03), (0.4, 0.5, 0.6)),
    ):
        body = message.inertia
        assert message.header.frame_id == "hand" and message.header.stamp.sec == 9
        assert (body.m, body.com.x, body.com.y, body.com.z) == (mass, *com)
        assert (body.ixx, body.iyy, body.izz) == inertia
    count = len(around.made["~/payload"].sent)

    def refuses(*args, **more):
        raise DynidError("too little motion")

    monkeypatch.setattr(online_mode, "quick_load", refuses)
    mode._work()
    assert "payload: too little motion" in around.said and len(around.made["~/payload"].sent) == count
    mode.close()
    assert len(around.destroyed) == 8, "the timer and every publisher"


def test_the_torque_of_a_plot_and_its_band(online):
    mode, _ = online
    model = model_with()
    mode._plot(model)
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(0.5, 1.0, (3, 3))
    expected = inverse_dynamics(ROBOT, model.chi, q[None], dq[None], ddq[None])[0]
    np.testing.assert_allclose(mode._torque(q, dq, ddq), expected, atol=1e-9)
    np.testing.assert_allclose(
        mode._torque(q, -dq, ddq), inverse_dynamics(ROBOT, model.chi, q[None], -dq[None], ddq[None])[0]
    )
    std = torque_std(model, q[None], dq[None], ddq[None], measured=True)[0]
    np.testing.assert_allclose(mode._band(q, dq, ddq), spread_of(model).width * std)
