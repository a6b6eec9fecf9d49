# SPDX-License-Identifier: Apache-2.0

"""The feedforward node among others: torques are of the right joints, within limits, and end in gravity.

This process plays the robot, the planner and the identification: it publishes joint states, references, models and
descriptions as an integrator's nodes would, and reads every torque that leaves.
"""

from __future__ import annotations

import signal
import time
from array import array
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from geometry_msgs.msg import Inertia, Vector3
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from ros2_dynid.msg import BaseParameters
from ros2_dynid.srv import FillEfforts, SetPayload
from sensor_msgs.msg import JointState, Temperature
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.fast import Ticker
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.model_messages import model_message
from ros2_dynid.nodes.common.qos import COMMANDS, JOINT_STATES, LATCHED, STREAMED
from ros_graph import graph
from urdf_text import joint, urdf

ROOT = Path(__file__).parents[2]
HERE = np.array([0.3, -0.9, 0.5])
NAMES = ("waist", "shoulder", "elbow")


def body(name, mass, length):
    """Return a link of a rod along x."""
    inertia = mass * length**2 / 12
    return (
        f'<link name="{name}"><inertial><origin xyz="{length / 2} 0 0"/><mass value="{mass}"/><inertia ixx="0.01" '
        f'iyy="{inertia}" izz="{inertia}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def limited(effort):
    return f'<limit lower="-2" upper="2" velocity="3" effort="{effort}"/>'


URDF = urdf(
    '<link name="base"/>',
    body("one", 6.0, 0.2),
    body("two", 5.0, 0.5),
    body("three", 3.0, 0.4),
    joint("waist", "base", "one", inside=limited(120)),
    joint("shoulder", "one", "two", xyz="0.1 0 0.3", axis="0 1 0", inside=limited(180)),
    joint("elbow", "two", "three", xyz="0.5 0 0", axis="0 1 0", inside=limited(80)),
    name="arm3",
)


def identified(robot, scale=1.0):
    """Return a model as an identification would find it, with parameters `scale` times the robot's own."""
    base = base_parameters(robot)
    value = base.values(robot, scale * standard_vector(robot))
    return model_of(robot, base, value, np.full(len(base), 0.01), 1e-4 * np.eye(len(base)))


class World:
    """What surrounds the feedforward node: joint states at 500 Hz, and what a test asks for; it keeps all torques."""

    def __init__(self, made):
        self.client, self.robot = made.client, made.robot
        self.names = self.robot.active_names
        self.limits = np.array([joint.limits.effort for joint in self.robot.joints])
        publisher = self.client.create_publisher
        self._states = publisher(JointState, "joint_states", JOINT_STATES)
        self._references = publisher(JointTrajectory, "reference", STREAMED)
        self._models = publisher(BaseParameters, "base_parameters", LATCHED)
        self._descriptions = publisher(String, "robot_description", LATCHED)
        self.state = JointState(name=list(self.names), position=HERE.tolist(), velocity=[0.0] * 3)
        self.point = None
        self.efforts, self.commands, self.passed_on = [], [], []
        subscribe = self.client.create_subscription
        subscribe(JointState, "feedforward_effort", self._on_effort, 1000)
        subscribe(Float64MultiArray, "effort_commands", lambda m: self.commands.append(np.array(m.data)), 1000)
        subscribe(JointTrajectory, "joint_trajectory", self.passed_on.append, COMMANDS)
        self._ticker = Ticker(0.002, self._tick)

    def _on_effort(self, message):
        stamp = message.header.stamp
        self.efforts.append((tuple(message.name), np.array(message.effort), stamp.sec + 1e-9 * stamp.nanosec))

    def _tick(self):
        state, point = self.state, self.point
        if state is not None:
            stamp = time.time_ns()
            state.header.stamp.sec, state.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
            self._states.publish(state)
        if point is not None:
            self._references.publish(point)

    def connected(self):
        """Return whether what is published here reaches the node, and its torques have a publisher."""
        publishers = (self._references, self._states)
        heard = all(publisher.get_subscription_count() for publisher in publishers)
        return heard and bool(self.client.count_publishers("effort_commands"))

    def close(self):
        self._ticker.close()

    def stream(self, q, ddq=(0.0, 0.0, 0.0)):
        """Stream this point from now on; None as q: nothing."""
        if q is None:
            self.point = None
            return
        arrays = [array("d", np.asarray(x, dtype=float)) for x in (q, np.zeros(3), ddq)]
        point = JointTrajectoryPoint(positions=arrays[0], velocities=arrays[1], accelerations=arrays[2])
        self.point = JointTrajectory(joint_names=list(self.names), points=[point])

    def refer(self, points):
        self._references.publish(trajectory_message(points))

    def refer_raw(self, data):
        self._references.publish(data)

    def describe(self, text):
        self._descriptions.publish(String(data=text))

    def publish_model(self, robot, scale=1.0):
        self._models.publish(model_message(identified(robot, scale), self.client.get_clock().now().to_msg(), "base"))

    def last(self):
        return self.efforts[-1][1] if self.efforts else np.full(3, np.nan)

    def reaches(self, tau, what, within=1e-3, timeout=15.0):
        """Wait until the torque is this one, and stays there for some commands."""
        self.client.wait(
            lambda: len(self.efforts) > 20 and all(np.allclose(x, tau, atol=within) for _, x, _ in self.efforts[-20:]),
            timeout,
            f"{what}: {np.round(tau, 2)}, last {np.round(self.last(), 2)}",
        )

    def all_torques(self, sent=None):
        sent = list(self.efforts) if sent is None else sent
        found = np.array([tau for _, tau, _ in sent])
        assert all(names == self.names for names, _, _ in sent)
        assert np.isfinite(found).all() and np.all(np.abs(found) <= self.limits + 1e-9)
        return found

    def quickest_change(self):
        """Return the largest rate of change [N.m/s]; on a busy computer a torque is sent up to 0.2 s after its time."""
        sent = list(self.efforts)  # more may come meanwhile
        passed = np.diff([stamp for _, _, stamp in sent])
        return float((np.abs(np.diff(self.all_torques(sent), axis=0)).max(axis=1) / (passed + 0.2)).max())

    def transition(self, number):
        request = Transition(id=number)
        self.client.call(ChangeState, "feedforward/change_state", transition=request)


@pytest.fixture
def world_of(tmp_path):
    """Return what starts a feedforward node, with parameters, in a world around it."""
    (tmp_path / "arm3.urdf").write_text(URDF)
    with graph(tmp_path, str(tmp_path / "arm3.urdf")) as made:
        worlds = []

        def start(wait=True, **parameters):
            world = World(made)
            worlds.append(world)
            made.world, made.process = world, made.start("feedforward", **parameters)
            if wait:
                made.ready("feedforward")
                made.client.wait(world.connected, 20.0, "the connection")
            return made

        yield start
        for world in worlds:
            world.close()


@pytest.mark.timeout(120)
def test_a_stream_stays_right_whatever_comes_and_every_ending_is_gravity(world_of):
    """Items 7 to 10, 12 and 13: limits and models that are not there, absurd, foreign, changed twice; NaN; endings."""
    made = world_of(robot=None, output="effort", timeout=1.0, stale_seconds=1.0, start_tolerance=1.0)
    world, client, robot = made.world, made.client, made.robot
    model = FeedforwardModel(robot, standard_vector(robot))
    q, ddq = np.array([0.1, -0.5, 0.2]), np.array([4.0, 4.0, 4.0])

    # no model, then no limits: nothing is sent, and it says how to give them
    world.stream(q, ddq=ddq)
    client.wait(lambda: "there is no model yet" in made.log("feedforward"), 10.0, "the refusal")
    world.publish_model(robot)
    client.wait(lambda: "effort limits are not known; publish robot_description" in made.log("feedforward"), 10.0, "it")
    assert not world.efforts and not world.commands
    filled = trajectory_message(quintic(world.names, q, HERE, 1.0))
    with pytest.raises(ClientError, match="effort limits are not known"):
        client.call(FillEfforts, "feedforward/fill_efforts", trajectory=filled)

    # the description gives them, though the parameter robot is empty; without a reference gravity is held
    world.stream(None)
    world.describe(URDF)
    world.reaches(model.gravity(HERE), "gravity before the first reference")

    def torque(ddq):
        tau = inverse_dynamics(robot, standard_vector(robot), q[None], np.zeros((1, 3)), ddq[None])[0]
        return np.clip(tau, -world.limits, world.limits)

    moving = torque(ddq)
    world.stream(q, ddq=ddq)
    world.reaches(moving, "the point's torque")
    assert np.abs(moving - model.gravity(HERE)).max() > 5.0
    # beyond the limits it is cut off
    world.stream(q, ddq=1e4 * ddq)
    world.reaches(torque(1e4 * ddq), "the limits")
    world.stream(q, ddq=ddq)
    world.reaches(moving, "the point's torque again")

    # references that are no messages are refused; the log tells of one in a second
    def refused():
        for damaged in (b"\x00\x01\x00\x00", b"\x00\x01\x00\x00" + 60 * b"\xff"):
            world.refer_raw(damaged)
        return "a damaged JointTrajectory came" in made.log("feedforward")

    client.wait(refused, 10.0, "the refusal")

    # absurd payloads and foreign models are refused, and the stream goes on
    for payload in (Inertia(m=1e9, com=Vector3(z=0.05)), Inertia(m=float("nan")), Inertia(m=1.0, ixx=-1.0)):
        with pytest.raises(ClientError, match="payload"):
            client.call(SetPayload, "feedforward/set_payload", payload=payload)
    count = len(world.efforts)
    world.publish_model(load_robot("demo6"))
    client.wait(lambda: "base_parameters refused" in made.log("feedforward"), 10.0, "the refusal")
    client.wait(lambda: len(world.efforts) > count + 50, 10.0, "more torques")
    world.reaches(moving, "the point's torque, with the model that was there")

    # joint states that are NaN, of others, or with names of the same length in another order
    world.state = JointState(name=list(world.names), position=[float("nan")] * 3, velocity=[float("nan")] * 3)
    client.set("feedforward", measured_gravity=True)
    count = len(world.efforts)
    client.wait(lambda: len(world.efforts) > count + 200, 10.0, "more torques")
    world.state = JointState(name=["waist", "elbow", "shoulder"], position=HERE[[0, 2, 1]].tolist(), velocity=[0.0] * 3)
    world.reaches(moving - model.gravity(q) + model.gravity(HERE), "gravity where the robot is, by name")
    client.set("feedforward", measured_gravity=False)
    world.reaches(moving, "gravity at the reference")
    world.state = JointState(name=list(world.names), position=HERE.tolist(), velocity=[0.0] * 3)

    # changes within a ramp: no jump
    client.set("feedforward", ramp_seconds=2.0)
    world.efforts.clear()
    for scale in (1.4, 0.6, 1.5, 1.0):
        world.publish_model(robot, scale)
        payload = Inertia(m=3.0 if scale > 1 else 0.0, com=Vector3(x=0.3))
        client.call(SetPayload, "feedforward/set_payload", payload=payload)
        count = len(world.efforts)
        client.wait(lambda count=count: len(world.efforts) > count + 100, 10.0, "part of a ramp")
    world.reaches(moving, "the last model")
    # what is sent stays between -35 and +15 N.m, so a change takes 50 N.m in 2 s at most
    assert 2.0 < np.ptp(world.all_torques(), axis=0).max() < 50.0
    assert world.quickest_change() < 30.0
    client.set("feedforward", ramp_seconds=0.3)

    # settings that make no sense are refused, and change nothing
    for bad, words in (
        ({"output": "nonsense"}, "trajectory, effort"),
        ({"effort_limits": [1.0, 2.0]}, "effort_limits"),
        ({"effort_rates": [1.0]}, "rate"),
        ({"joint_order": ["a", "b", "c"]}, "joint_order"),
        ({"model": "x.yaml"}, "clean up"),
    ):
        with pytest.raises(ClientError, match=words):
            client.set("feedforward", **bad)

    # endings in mid-motion: the other output, deactivation, the signal
    client.set("feedforward", output="trajectory")
    assert ended_in(world, model.gravity(HERE))
    world.transition(Transition.TRANSITION_DEACTIVATE)  # the order guards a motion that is under way
    client.set("feedforward", output="effort", joint_order=["elbow", "waist", "shoulder"])
    world.transition(Transition.TRANSITION_ACTIVATE)
    world.reaches(moving, "the stream again")
    assert np.allclose(world.commands[-1], moving[[2, 0, 1]], atol=1e-3)
    world.transition(Transition.TRANSITION_DEACTIVATE)
    assert ended_in(world, model.gravity(HERE))
    assert np.allclose(world.commands[-1], model.gravity(HERE)[[2, 0, 1]], atol=1e-3)
    world.transition(Transition.TRANSITION_ACTIVATE)
    world.reaches(moving, "the stream after activation")
    made.process.send_signal(signal.SIGINT)
    assert made.process.wait(30.0) == 0
    assert ended_in(world, model.gravity(HERE))
    world.all_torques()
    assert "Traceback" not in made.log("feedforward")


def ended_in(world, tau):
    """Wait until this torque has come, and see that it stays the last one."""
    world.client.wait(lambda: np.allclose(world.last(), tau, atol=1e-3), 10.0, f"an end in {np.round(tau, 2)}")
    count = -1
    while count != len(world.efforts):
        count = len(world.efforts)
        time.sleep(0.3)
    return np.allclose(world.last(), tau, atol=1e-3)


@pytest.mark.timeout(90)
def test_trajectories_have_complete_torques_and_predictions_the_names_of_their_message(world_of, tmp_path: Path):
    """Items 7 and 11: split fills complete torques; names by content; a frozen robot; another robot's description."""
    save_model(identified(robot_from_urdf_string(URDF)), tmp_path / "model.yaml")
    made = world_of(model=tmp_path / "model.yaml", split=True)
    world, client, robot = made.world, made.client, made.robot
    way = quintic(world.names, HERE, np.array([-0.5, 0.4, -0.6]), 1.0)
    world.refer(way.ordered(("elbow", "waist", "shoulder")))
    client.wait(lambda: bool(world.passed_on), 10.0, "the trajectory")
    sent = world.passed_on[-1]
    assert tuple(sent.joint_names) == world.names
    model = FeedforwardModel(robot, standard_vector(robot))
    end = np.array(sent.points[-1].positions)
    assert np.allclose(sent.points[-1].effort, model.gravity(end), atol=1e-3)
    assert np.abs(model.gravity(end) - model.gravity(HERE)).max() > 5.0, "not that of the present pose"
    answered = client.call(FillEfforts, "feedforward/fill_efforts", trajectory=trajectory_message(way)).trajectory
    assert np.allclose(answered.points[-1].effort, model.gravity(end), atol=1e-3)

    # two orders of names of the same length: each prediction has that of its message
    seen = []
    client.create_subscription(JointState, "feedforward/predicted", seen.append, JOINT_STATES)
    expected = dict(zip(world.names, model.gravity(HERE), strict=True))
    for order in (("waist", "shoulder", "elbow"), ("elbow", "shoulder", "waist")):
        places = [world.names.index(name) for name in order]
        world.state = JointState(name=list(order), position=HERE[places].tolist(), velocity=[0.0] * 3)
        client.wait(lambda order=order: bool(seen) and tuple(seen[-1].name) == order, 10.0, "the names")
        seen.clear()
        client.wait(lambda: len(seen) > 5, 10.0, "predictions")
        message = seen[-1]
        wanted = [expected[name] for name in message.name]
        assert tuple(message.name) == order
        assert np.allclose(message.effort, wanted, atol=0.5), (message.effort, wanted)
        assert np.allclose(message.position, HERE[places])


UP = np.array([0.3, 0.2, 0.1])
BEYOND = {
    "every limit by 1 rad, in 0.4 s": (
        quintic(NAMES, HERE, np.array([3.0, 3.0, 3.0]), 0.4),
        "would pass its limit by 1;",
    ),
    "velocity": (quintic(NAMES, HERE, HERE + UP, 0.1), "velocity of joint 'waist' would pass its limit by"),
    "a jump at the start": (quintic(NAMES, HERE + UP, HERE, 2.0), "begins 0.3 from joint 'waist'"),
    "names that are swapped": (
        replace(quintic(NAMES, HERE, HERE + UP, 2.0), joint_names=("elbow", "waist", "shoulder")),
        "begins 1.4 from joint 'shoulder'",
    ),
}


UNSEEN = "the position of the robot is not known"


def refuse_all(made, world):
    """Send references that must not pass, each twice as slowly as the log is throttled, and read why."""
    client = made.client
    moving = trajectory_message(quintic(NAMES, HERE, HERE + UP, 2.0))
    moving.points[-1].velocities[0] = 3.0
    broken = trajectory_message(quintic(NAMES, HERE, HERE + UP, 2.0))
    broken.points[20].positions[1] = float("nan")
    messages = [(trajectory_message(points), words) for points, words in BEYOND.values()]
    for message, words in (*messages, (moving, "does not end at rest"), (broken, "not finite")):
        last = UNSEEN
        while UNSEEN in last:  # a busy machine delivers joint states late, which is a reason of its own
            count = made.log("feedforward").count("reference refused")
            world._references.publish(message)
            client.wait(lambda count=count: made.log("feedforward").count("reference refused") > count, 10.0, words)
            last = [line for line in made.log("feedforward").splitlines() if "reference refused" in line][-1]
            time.sleep(1.1)
        assert words in last, last


@pytest.mark.timeout(120)
def test_a_reference_that_does_not_pass_the_motion_gate_moves_nothing(world_of, tmp_path: Path):
    """Trajectories: refused with the reason, and nothing is published; a good one passes; a stop brakes it."""
    save_model(identified(robot_from_urdf_string(URDF)), tmp_path / "model.yaml")
    made = world_of(model=tmp_path / "model.yaml")
    world, client = made.world, made.client
    client.wait(lambda: "waiting for a reference" in made.log("feedforward"), 10.0, "the model")
    refuse_all(made, world)
    assert not world.passed_on and not world.efforts and not world.commands
    for points, words in list(BEYOND.values())[:2]:
        with pytest.raises(ClientError, match=words):
            client.call(FillEfforts, "feedforward/fill_efforts", trajectory=trajectory_message(points))
    world.refer(quintic(NAMES, HERE, HERE + UP, 2.0).ordered(("elbow", "waist", "shoulder")))
    client.wait(lambda: len(world.passed_on) == 1, 10.0, "the good one")
    np.testing.assert_allclose(world.passed_on[0].points[-1].positions, HERE + UP, atol=1e-9)

    world.state = JointState(name=list(NAMES), position=HERE.tolist(), velocity=[0.0, 0.7, 0.0])
    time.sleep(0.3)
    assert client.call(Trigger, "feedforward/stop").message == "braking: joint 'shoulder' moves at 0.7 rad/s"
    client.wait(lambda: len(world.passed_on) == 2, 10.0, "the stop")
    stop = world.passed_on[1]
    assert not any(stop.points[-1].velocities) and len(stop.points[-1].effort) == 3
    assert stop.points[-1].time_from_start.sec < 1
    world.refer(quintic(NAMES, HERE, HERE + UP, 2.0))
    client.wait(lambda: "the feedforward was stopped" in made.log("feedforward"), 10.0, "the refusal")
    assert len(world.passed_on) == 2
    world.state = JointState(name=list(NAMES), position=HERE.tolist(), velocity=[0.0] * 3)
    for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVATE):
        world.transition(transition)
    time.sleep(0.3)
    world.refer(quintic(NAMES, HERE, HERE + UP, 2.0))
    client.wait(lambda: len(world.passed_on) == 3, 10.0, "a reference after the activation")


@pytest.mark.timeout(120)
def test_streamed_torques_follow_nothing_beyond_the_limits_and_end_in_gravity(world_of, tmp_path: Path):
    """Whole references and points: what follows is gravity; a stop holds it though the sender goes on."""
    save_model(identified(robot_from_urdf_string(URDF)), tmp_path / "model.yaml")
    made = world_of(model=tmp_path / "model.yaml", output="effort", timeout=1.0, stale_seconds=1.0)
    world, client = made.world, made.client
    model = FeedforwardModel(made.robot, standard_vector(made.robot))
    gravity = model.gravity(HERE)
    world.reaches(gravity, "gravity before the first reference")
    refuse_all(made, world)
    assert np.allclose(world.all_torques(), gravity, atol=1e-3)
    ddq = np.array([4.0, 4.0, 4.0])
    moving = model.rigid(HERE, np.zeros(3), ddq)
    for bad in (HERE + np.array([0.0, 0.0, 1.7]), HERE * [1.0, np.nan, 1.0]):
        world.stream(HERE, ddq=ddq)
        world.reaches(moving, "the stream's torque")
        world.stream(bad, ddq=ddq)
        world.reaches(gravity, "gravity instead of a point beyond the limits")
        world.all_torques()
    world.stream(HERE, ddq=ddq)
    world.reaches(moving, "the stream's torque")
    assert client.call(Trigger, "feedforward/stop").message == "going over to gravity: the robot was at rest"
    world.reaches(gravity, "gravity, though the sender goes on")
    world.transition(Transition.TRANSITION_DEACTIVATE)
    world.transition(Transition.TRANSITION_ACTIVATE)
    world.reaches(moving, "the stream after the activation")


WARM = """
friction:
  - {joint: shoulder, term: temperature_viscous, coefficient: -0.05, reference: 35.0}
  - {joint: elbow, term: temperature, coefficient: 0.04, reference: 35.0}
"""


@pytest.mark.timeout(90)
def test_friction_follows_the_temperatures_that_the_robot_publishes(tmp_path: Path):
    """Both nodes: none known, those of the simulated robot, one that cannot be."""
    (tmp_path / "warm.yaml").write_text((ROOT / "config/robots/demo3.yaml").read_text() + WARM)
    robot = load_robot(tmp_path / "warm.yaml")
    chi = standard_vector(robot)
    save_model(identified(robot), tmp_path / "model.yaml")
    with graph(tmp_path, str(tmp_path / "warm.yaml")) as made:
        client = made.client
        names = robot.active_names
        way = trajectory_message(quintic(names, np.array([0.0, -1.0, 0.0]), np.array([0.9, 0.0, 1.0]), 1.0))

        def off(temperature):
            """Return how far the efforts of a trajectory are from the law at a temperature, where all joints move."""
            answered = client.call(FillEfforts, "feedforward/fill_efforts", trajectory=way).trajectory
            rows = [(p.positions, p.velocities, p.accelerations, p.effort) for p in answered.points]
            q, dq, ddq, tau = (np.array(x) for x in zip(*rows, strict=True))
            expected = inverse_dynamics(robot, chi, q, dq, ddq, np.full(q.shape, temperature))
            moving = np.all(np.abs(dq) > 0.4, axis=1)
            assert moving.sum() > 3
            return float(np.abs(tau - expected)[moving].max())

        made.start("feedforward", model=tmp_path / "model.yaml")
        made.ready("feedforward")
        assert off(35.0) < 1e-3 and off(70.0) > 0.5
        log = made.log("feedforward")
        assert log.count("temperature of 'elbow' is not known: its friction is that at 35 deg C") == 1
        made.start("sim_robot", cold=70.0, warm=70.0)
        client.wait(lambda: off(70.0) < 1e-3, 20.0, "the robot's temperature")
        kelvin = client.create_publisher(Temperature, "joint_temperatures", 10)
        message = Temperature(temperature=343.15)
        message.header.frame_id = "elbow"

        def refused():
            kelvin.publish(message)
            time.sleep(0.2)
            return "temperature of 'elbow' is 343.15 deg C: not used" in made.log("feedforward")

        client.wait(refused, 10.0, "the refusal")
        assert off(70.0) < 1e-3


def test_a_nonsense_output_is_refused_at_the_start(world_of):
    made = world_of(wait=False, output="nonsense")
    assert made.process.wait(40.0) == 2
    assert "choose from trajectory, effort" in made.log("feedforward")
