"""What nodes turn messages into and back, and how one thread asks another: without a graph."""

from __future__ import annotations

import struct
import threading
from array import array
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Inertia, Transform
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.time import Time as Moment
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ros2_dynid.control.feedforward import TorqueCoefficients
from ros2_dynid.control.reference import reference
from ros2_dynid.control.torque_limiter import LimitedTorque
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.answers import answering, reason
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.diagnostics import _array
from ros2_dynid.nodes.common.inbox import Inbox
from ros2_dynid.nodes.common.messages import (
    ANNOUNCED,
    COMMANDS,
    JOINT_STATES,
    LATCHED,
    STREAMED,
    ahead,
    duration,
    inertia_message,
    inertia_of,
    matrix_of,
    reference_of,
    seconds,
    trajectory_message,
    transform_message,
)
from ros2_dynid.nodes.common.parameters import Described, Settable
from ros2_dynid.nodes.common.predicted import _names, _spread
from ros2_dynid.nodes.common.temperatures import dynamic_temperatures
from ros2_dynid.nodes.excitation.sender import TopicSender
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
rng = np.random.default_rng(5)
T = np.array([0.25, 1.000000001, 2.5])
Q, DQ, DDQ, TAU = rng.uniform(-1, 1, (4, 3, 3))


# --- trajectories


def message_of(names=NAMES, fields=("positions", "velocities", "accelerations", "effort")):
    """Return a trajectory whose joints come in the order of `names`."""
    order = [NAMES.index(name) for name in names]
    values = dict(zip(("positions", "velocities", "accelerations", "effort"), (Q, DQ, DDQ, TAU), strict=True))
    points = [
        JointTrajectoryPoint(
            time_from_start=duration(float(t)), **{field: values[field][k, order].tolist() for field in fields}
        )
        for k, t in enumerate(T)
    ]
    return JointTrajectory(joint_names=list(names), points=points)


def test_a_trajectory_is_put_in_the_robots_order():
    found = reference_of(message_of(("elbow", "waist", "shoulder")), ROBOT)
    assert found.joint_names == NAMES
    for values, expected in ((found.t, T), (found.q, Q), (found.dq, DQ), (found.ddq, DDQ), (found.tau, TAU)):
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_what_a_trajectory_lacks_stays_lacking():
    found = reference_of(message_of(fields=("positions",)), ROBOT)
    assert found.dq is None and found.ddq is None and found.tau is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda m: m.points.clear(), "no points"),
        (lambda m: setattr(m.points[1], "positions", [0.0, 0.0]), r"positions have lengths \[2, 3\]"),
        (lambda m: setattr(m.points[1], "velocities", []), r"velocities have lengths \[0, 3\]"),
        (lambda m: [setattr(p, "velocities", [0.0, 0.0]) for p in m.points], r"velocities have lengths \[2\]; give 3"),
        (lambda m: [setattr(p, "effort", [0.0] * 4) for p in m.points], r"effort have lengths \[4\]; give 3"),
        (lambda m: [setattr(point, "positions", []) for point in m.points], "no positions"),
        (lambda m: setattr(m, "joint_names", ["waist", "shoulder", "wrist"]), "wrist|elbow"),
        (lambda m: setattr(m, "joint_names", ["waist", "shoulder"]), "elbow"),
    ],
)
def test_trajectories_that_a_controller_would_refuse(spoil, said):
    message = message_of()
    spoil(message)
    with pytest.raises(InputError, match=said):
        reference_of(message, ROBOT)


def test_the_message_of_a_trajectory_has_every_value_in_its_place():
    message = trajectory_message(reference(NAMES, T, Q, DQ, DDQ, TAU), Time(sec=7, nanosec=8))
    assert message.joint_names == list(NAMES) and message.header.stamp == Time(sec=7, nanosec=8)
    for field, values in (("positions", Q), ("velocities", DQ), ("accelerations", DDQ), ("effort", TAU)):
        np.testing.assert_array_equal([getattr(point, field) for point in message.points], values)
    assert [(p.time_from_start.sec, p.time_from_start.nanosec) for p in message.points] == [
        (0, 250_000_000), (1, 1), (2, 500_000_000),
    ]  # fmt: skip
    bare = trajectory_message(reference(NAMES, T, Q))
    assert bare.header.stamp == Time() and not bare.points[0].velocities and not bare.points[0].effort


def test_times_and_durations():
    assert seconds(Time(sec=3, nanosec=250_000_000)) == 3.25
    for value, expected in ((1.9999999999, (2, 0)), (-0.25, (-1, 750_000_000)), (0.0, (0, 0))):
        made = duration(value)
        assert (made.sec, made.nanosec) == expected
    now = 5_000_000_000
    assert ahead(Time(sec=5, nanosec=500_000_000), now) == 0.5
    assert ahead(Time(sec=4), now) == -1.0, "late"
    assert ahead(Time(), now) == 0.0, "a stamp of zero means at once"
    assert ahead(Time(nanosec=1), now) < -4.9, "and no other"


def test_how_topics_are_connected():
    """docs/nodes.md and every other node rely on these."""
    reliable, best_effort = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
    assert LATCHED.durability is DurabilityPolicy.TRANSIENT_LOCAL and LATCHED.depth == 1
    assert ANNOUNCED.durability is DurabilityPolicy.TRANSIENT_LOCAL
    assert ANNOUNCED.liveliness is LivelinessPolicy.AUTOMATIC
    assert ANNOUNCED.liveliness_lease_duration.nanoseconds == 1_500_000_000
    assert {LATCHED.reliability, ANNOUNCED.reliability, COMMANDS.reliability, STREAMED.reliability} == {reliable}
    assert JOINT_STATES.reliability is best_effort and JOINT_STATES.depth == 2000


# --- poses and loads


def rotation(axis, angle):
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def test_poses_survive_and_turn_the_right_way():
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation((0.6, 0.0, 0.8), 0.7), (1.0, -2.0, 3.0)
    message = transform_message(pose)
    quaternion = np.array((message.rotation.x, message.rotation.y, message.rotation.z, message.rotation.w))
    expected = np.array((*(np.sin(0.35) * np.array((0.6, 0.0, 0.8))), np.cos(0.35)))
    np.testing.assert_allclose(quaternion * np.sign(quaternion[3]), expected, atol=1e-12)
    np.testing.assert_allclose(matrix_of(message), pose, atol=1e-12)


@pytest.mark.parametrize("part", ["rotation", "translation"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_poses_that_are_none(part, value):
    message = Transform()
    getattr(message, part).x = value
    with pytest.raises(InputError, match="not a number"):
        matrix_of(message)


def test_a_rotation_of_zero_is_none():
    message = Transform()
    message.rotation.w = 0.0
    with pytest.raises(InputError, match="unit quaternion"):
        matrix_of(message)


def load():
    return inertia_message(2.5, (0.1, -0.2, 0.3), ((1.0, 0.1, 0.2), (0.1, 2.0, 0.3), (0.2, 0.3, 3.0)))


def test_a_load_and_its_message():
    message = load()
    found = [getattr(message, name) for name in ("m", "ixx", "ixy", "ixz", "iyy", "iyz", "izz")]
    assert found == [2.5, 1.0, 0.1, 0.2, 2.0, 0.3, 3.0]
    assert (message.com.x, message.com.y, message.com.z) == (0.1, -0.2, 0.3)


def test_a_load_is_turned_into_the_frame_of_its_joint():
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation((0.0, 0.6, 0.8), 0.9), (0.5, 0.6, 0.7)
    first = np.eye(4)
    first[:3, 3] = (0.0, 0.0, 9.0)
    robot = SimpleNamespace(tools={"hand": (3, first), "camera": (2, pose)}, n=3, name="arm")
    I = np.array(((1.0, 0.1, 0.2), (0.1, 2.0, 0.3), (0.2, 0.3, 3.0)))
    mass, com, inertia, joint = inertia_of(load(), robot, "camera")
    assert (mass, joint) == (2.5, 2)
    np.testing.assert_allclose(com, pose[:3, :3] @ (0.1, -0.2, 0.3) + pose[:3, 3])
    np.testing.assert_allclose(inertia, pose[:3, :3] @ I @ pose[:3, :3].T)
    _, com, inertia, joint = inertia_of(load(), robot, "")
    assert joint == 3
    np.testing.assert_allclose(com, (0.1, -0.2, 9.3))
    np.testing.assert_allclose(inertia, I)
    with pytest.raises(InputError, match="no last link 'foot'; choose from hand, camera"):
        inertia_of(load(), robot, "foot")
    _, com, _, joint = inertia_of(load(), SimpleNamespace(tools={}, n=6, name="bare"), "")
    assert joint == 6
    np.testing.assert_allclose(com, (0.1, -0.2, 0.3))


def test_an_empty_message_is_no_load():
    assert inertia_of(Inertia(), ROBOT, "")[0] == 0.0


# --- what is sent


class Publisher:
    """A publisher that keeps what it sends, with so many who listen."""

    def __init__(self, topic, listeners=1, info=()):
        self.topic_name, self.sent, self.listeners = topic, [], listeners

    def get_subscription_count(self):
        return self.listeners

    def publish(self, message):
        kept = message if isinstance(message, bytes) else deserialize_message(serialize_message(message), type(message))
        self.sent.append(kept)


class OneNode:
    """A node with publishers alone, whose clock stands at 9.5 s."""

    def __init__(self, reliability=ReliabilityPolicy.RELIABLE):
        self.made = {}
        self._info = SimpleNamespace(qos_profile=SimpleNamespace(reliability=reliability))

    def create_publisher(self, kind, topic, qos):
        self.made[topic] = Publisher(topic)
        return self.made[topic]

    def get_clock(self):
        return SimpleNamespace(now=lambda: Moment(nanoseconds=9_500_000_000))

    def get_subscriptions_info_by_topic(self, topic):
        return [self._info] if topic == "joint_trajectory" else []


def test_torques_go_out_by_name_and_as_commands():
    node = OneNode()
    output = TorqueOutput(node, lambda: 3_000_000_007)
    for names in (("a", "b"), ("c", "d")):
        output.send(LimitedTorque(names, np.array([1.0, 2.0]), names[::-1], np.array([2.0, 1.0])))
    states = node.made["feedforward_effort"].sent
    assert [list(state.name) for state in states] == [["a", "b"], ["c", "d"]]
    assert [list(state.effort) for state in states] == [[1.0, 2.0]] * 2
    assert (states[0].header.stamp.sec, states[0].header.stamp.nanosec) == (3, 7)
    assert [list(command.data) for command in node.made["effort_commands"].sent] == [[2.0, 1.0]] * 2


def test_nothing_is_sent_to_nobody():
    node = OneNode()
    output = TorqueOutput(node, lambda: 0)
    node.made["feedforward_effort"].listeners = 0
    output.send(LimitedTorque(("a",), np.array([1.0]), ("a",), np.array([1.0])))
    assert not node.made["feedforward_effort"].sent and len(node.made["effort_commands"].sent) == 1
    assert output.wants_coefficients
    node.made["dynamic_coefficients"].listeners = 0
    assert not output.wants_coefficients


def test_coefficients_have_their_own_fields():
    node = OneNode()
    M = np.array([[1.0, 2.0], [3.0, 4.0]])
    vectors = np.arange(8.0).reshape(4, 2)
    q, dq, C, Q_ = vectors
    TorqueOutput(node, lambda: 1_000_000_002).send_coefficients(
        TorqueCoefficients(joint_names=("a", "b"), q=q, dq=dq, M=M, C=C, Q=Q_)
    )
    (sent,) = node.made["dynamic_coefficients"].sent
    found = [sent.position, sent.velocity, sent.velocity_torque, sent.gravity_torque]
    np.testing.assert_array_equal(found, vectors)
    assert list(sent.inertia) == [1.0, 2.0, 3.0, 4.0], "row by row"
    assert list(sent.joint_names) == ["a", "b"] and sent.header.stamp == Time(sec=1, nanosec=2)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_trajectory_is_stamped_when_it_is_sent(prepared):
    node = OneNode()
    sender = TopicSender(node, "joint_trajectory")
    points = reference(NAMES, T, Q, DQ)
    if prepared:
        sender.prepare(points)
    for delay, stamp in ((0.25, Time(sec=9, nanosec=750_000_000)), (0.0, Time())):
        sender.send(points, delay, 1)
        found = deserialize_message(node.made["joint_trajectory"].sent[-1], JointTrajectory)
        assert found.header.stamp == stamp
        found.header.stamp = Time()
        assert found == trajectory_message(points)
    assert sender.problem() == ""
    node.made["joint_trajectory"].listeners = 0
    assert sender.problem() == "nobody listens on joint_trajectory"


def test_a_trajectory_longer_than_a_datagram_needs_a_reliable_listener():
    def points(count):
        return reference(NAMES, 0.01 * np.arange(1, count + 1), np.zeros((count, 3)))

    def size(count):
        return len(serialize_message(trajectory_message(points(count))))

    fits = next(count for count in range(60_000 // (size(101) - size(100)), 0, -1) if size(count) <= 60_000)
    assert size(fits + 1) > 60_000
    TopicSender(OneNode(), "joint_trajectory").prepare(points(fits + 1))
    with pytest.raises(InputError, match=rf"takes {fits + 1} points, 60 kB"):
        TopicSender(OneNode(ReliabilityPolicy.BEST_EFFORT), "joint_trajectory").prepare(points(fits + 1))
    TopicSender(OneNode(ReliabilityPolicy.BEST_EFFORT), "joint_trajectory").prepare(points(fits))


def test_stamps_of_either_byte_order_lie_after_the_encapsulation():
    data = bytes(serialize_message(JointTrajectory()))
    order = "<" if data[1] & 1 else ">"
    message = JointTrajectory()
    message.header.stamp = Time(sec=258, nanosec=3)
    assert struct.unpack_from(f"{order}iI", bytes(serialize_message(message)), 4) == (258, 3)


# --- plots, temperatures, diagnostics


def test_predicted_efforts_stand_where_the_measured_ones_do():
    def data(*names):
        return bytes(serialize_message(JointState(name=list(names))))

    assert _names(data("x", "b", "a"), ("a", "b")) == ["x", "b", "a"]
    assert _names(data("b"), ("a", "b")) == ["a", "b"], "a part of them"
    assert _names(data("a", "b", "a"), ("a", "b")) == ["a", "b"], "a name twice"
    spread = _spread(np.array([1.0, 2.0]), [2, 0], 4)
    assert isinstance(spread, array)
    np.testing.assert_array_equal(spread, [2.0, np.nan, 1.0, np.nan])


def test_temperatures_of_joints_that_have_them():
    def state(**values):
        return SimpleNamespace(interface_names=list(values), values=list(values.values()))

    message = SimpleNamespace(
        joint_names=["a", "b", "c"],
        interface_values=[state(position=1.0, temperature=40.5), state(position=2.0), state(temperature=30.0)],
    )
    assert dynamic_temperatures(message) == {"a": 40.5, "c": 30.0}


def test_diagnostics_name_level_and_values():
    made = _array(OneNode(), "arm/recorder: state", (DiagnosticStatus.WARN, "gaps", {"count": 3, "rate": "99.5"}))
    (status,) = made.status
    assert (status.name, status.level, status.message) == ("arm/recorder: state", DiagnosticStatus.WARN, "gaps")
    assert {pair.key: pair.value for pair in status.values} == {"count": "3", "rate": "99.5"}
    assert made.header.stamp == Time(sec=9, nanosec=500_000_000)


# --- answers, requests and parameters


class Log:
    """Keeps errors."""

    def __init__(self):
        self.errors = []

    def error(self, text):
        self.errors.append(text)


def answered(error=None):
    log, response = Log(), SimpleNamespace(success=None, message="")
    with answering(response, log):
        if error is not None:
            raise error
    return response, log


def test_answers_say_whether_and_why_not():
    response, log = answered()
    assert response.success is True and response.message == "" and not log.errors
    response, log = answered(InputError("no robot", "set it"))
    assert response.success is False and response.message == "no robot; set it" and not log.errors
    response, log = answered(OSError(28, "No space left\non device"))
    assert response.success is False and "\n" not in response.message and not log.errors
    response, log = answered(ValueError("a\nb"))
    assert response.success is False and response.message == "ValueError: a b; the log has the details"
    assert "Traceback" in log.errors[0], "what nobody foresaw is in the log"
    assert reason(DynidError("known"), log) == "known"


def test_an_inbox_does_what_is_asked_in_order_and_passes_errors_on():
    inbox, done, ended = Inbox(), [], threading.Event()

    def serve():
        while not ended.wait(0.001):
            inbox.empty()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        for k in range(3):
            inbox.do(lambda k=k: done.append((k, threading.current_thread())))
        with pytest.raises(ZeroDivisionError):
            inbox.do(lambda: 1 / 0)
        inbox.do(lambda: done.append((3, thread)))
    finally:
        ended.set()
        thread.join()
    assert done == [(k, thread) for k in range(4)], "by the thread that is asked"
    with pytest.raises(InputError, match=r"not done within 0\.01 s"):
        inbox.do(lambda: None, timeout=0.01)


class Job:
    """A job that lasts until it is cancelled or told to end."""

    def __init__(self, use_case, request):
        self.request, self.cancelled, self.end = request, False, threading.Event()
        Job.last = self

    def cancel(self):
        self.cancelled = True
        self.end.set()

    def wait(self, progress):
        assert self.end.wait(10.0)
        return "cancelled" if self.cancelled else self.request


def test_one_job_at_a_time_and_only_its_own_cancel_ends_it(monkeypatch):
    monkeypatch.setattr("ros2_dynid.nodes.common.background.Job", Job)
    one, mine, other = OneJob("a plan"), threading.Event(), threading.Event()
    found = []
    Job.last = None
    thread = threading.Thread(target=lambda: found.append(one.work(None, "asked", None, mine)))
    thread.start()
    try:
        while Job.last is None:
            threading.Event().wait(0.001)
        with pytest.raises(DynidError, match="a plan is already going on"):
            one.work(None, "second")
        one.cancel(other)
        assert other.is_set() and not Job.last.cancelled, "that of another request"
        one.cancel(mine)
        assert mine.is_set()
    finally:
        Job.last.end.set()
        thread.join()
    assert found == ["cancelled"]
    assert one.work(None, "next", None, mine) == "cancelled", "one that is cancelled already ends at once"


def test_a_job_without_an_event_is_cancelled_by_anybody(monkeypatch):
    monkeypatch.setattr("ros2_dynid.nodes.common.background.Job", Job)
    one, found = OneJob("a plan"), []
    Job.last = None
    thread = threading.Thread(target=lambda: found.append(one.work(None, "asked")))
    thread.start()
    while Job.last is None:
        threading.Event().wait(0.001)
    one.cancel()
    thread.join()
    assert found == ["cancelled"]
    one.cancel()  # nothing there


SHARE = Described("share", 0.5, "a share", 0.0, 1.0)
COUNT = Described("count", 3, "how many", 1, 9, settable=Settable.INACTIVE)
LAW = Described("law", "a", "which", choices=("a", "b"), settable=Settable.UNCONFIGURED, read_only=True)
POSE = Described("pose", [0.0], "where", -1.0, 1.0)


@pytest.mark.parametrize(
    ("parameter", "value", "state", "said"),
    [
        (SHARE, 0.0, {}, ""),
        (SHARE, 1.0, {"active": True, "configured": True}, ""),
        (SHARE, -0.001, {}, "share is out of range (0 to 1): -0.001"),
        (SHARE, 1.001, {}, "share is out of range (0 to 1): 1.001"),
        (SHARE, float("nan"), {}, "share is not finite: give numbers"),
        (POSE, [0.5, -1.0, 1.0], {}, ""),
        (POSE, [0.5, -2.0], {}, "pose is out of range (-1 to 1): -2"),
        (POSE, [0.5, float("inf")], {}, "pose is not finite: give numbers"),
        (LAW, "b", {}, ""),
        (LAW, "c", {}, "law is 'c': choose from a, b"),
        (LAW, "b", {"configured": True}, "law takes effect when the node is configured: clean up first"),
        (LAW, "b", {"active": True}, "law takes effect when the node is configured: clean up first"),
        (COUNT, 4, {"configured": True}, ""),
        (COUNT, 4, {"active": True}, "count takes effect when the node is activated: deactivate first"),
    ],
)
def test_which_values_a_parameter_takes_and_when(parameter, value, state, said):
    assert parameter.problem(value, **state) == said


def test_descriptors_show_ranges_choices_and_when():
    share, count, law = SHARE.descriptor(), COUNT.descriptor(), LAW.descriptor()
    (range_,) = share.floating_point_range
    assert (range_.from_value, range_.to_value, share.description) == (0.0, 1.0, "a share")
    (range_,) = count.integer_range
    assert (range_.from_value, range_.to_value) == (1, 9)
    assert count.additional_constraints == "set it while the node is not active"
    assert law.additional_constraints == "one of a, b; set it while the node is unconfigured"
    assert law.read_only and not share.read_only and share.additional_constraints == ""
    assert not POSE.descriptor().floating_point_range, "of a list ROS has none"
