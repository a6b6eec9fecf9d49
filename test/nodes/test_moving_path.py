# SPDX-License-Identifier: Apache-2.0

"""The moving path through real nodes: what once moved a robot unwatched, or moved the wrong joint, is tried again."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import GetParameters
from rclpy.qos import qos_profile_sensor_data
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from jtc_checks import refusal
from motions import saved_motion
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.fast import Stream, unpacked
from ros2_dynid.nodes.common.messages import reference_of
from ros2_dynid.nodes.common.qos import JOINT_STATES, LATCHED
from ros_graph import graph

START = np.array([0.0, -1.0, 0.0])


class Relay:
    """Passes joint_states on as relayed_states, changed by `change`; None drops one."""

    def __init__(self, node):
        self.change = lambda message: message
        self._out = node.create_publisher(JointState, "relayed_states", 1000)
        self._stream = Stream(node, JointState, "joint_states", self._on_state, JOINT_STATES)

    def _on_state(self, data):
        message = self.change(unpacked(data, JointState))
        if message is not None:
            self._out.publish(message)

    def close(self):
        self._stream.close()


class Scene:
    """Excitation, robot and a relay between them; `sent` is what left for the controller."""

    def __init__(self, made):
        self.made, self.client = made, made.client
        self.relay = Relay(made.client)
        self.sent = []
        made.client.create_subscription(JointTrajectory, "joint_trajectory", self._on_sent, 10)

    def _on_sent(self, message):
        assert refusal(message, self.made.robot.active_names, time.time()) == ""
        self.sent.append(message)

    def heal(self):
        self.relay.change = lambda message: message
        self.at_rest()

    def plan(self, file="slow.yaml"):
        return self.client.call(PlanExcitation, "excitation/plan", file=[file])

    def start(self):
        self.made.run()

    def moving(self, speed=0.08):
        """Start, and wait until the trajectory moves the robot."""
        self.start()
        self.state("exciting", "aborted")
        self.client.wait(lambda: self.client.speed() > speed, 20.0, "the motion")

    def state(self, *begin, timeout=40.0):
        self.client.wait(lambda: self.client.excitation_state.text.startswith(begin), timeout, f"{begin}")
        return self.client.excitation_state.text

    def at_rest(self):
        """Wait until the robot itself, whatever is told of it, is at rest."""
        self.client.wait_for_rest(0.02, 20.0)


@pytest.mark.timeout(170)
def test_nothing_moves_unwatched(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot)
        permuted(tmp_path / "trajectories", made.robot)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        made.start(
            "excitation", robot=None, tracking_tolerance=0.05, stale_seconds=0.5, start_delay=0.0, settle_seconds=0.1,
            approach_speed=0.6, collisions="false", remap=("joint_states:=relayed_states",),
        )  # fmt: skip
        scene = Scene(made)
        describe = made.client.create_publisher(String, "robot_description", LATCHED)
        describe.publish(String(data=description(made.robot)))
        made.ready("sim_robot", "excitation")
        made.client.position()
        try:
            no_plan_is_said(scene)
            scene.plan()
            the_state_of_the_controller_is_said(scene)
            equal_and_different_descriptions(scene, describe)
            frozen_states(scene)
            stamps_of_zero(scene)
            parameters(scene)
            permuted_joints(scene)
            a_controller_that_does_not_follow(scene)
            stops_at_any_time(scene)
            deactivated_in_motion(scene)
            shut_down_in_motion(scene)
        finally:
            scene.relay.close()


def description(robot):
    """Return a URDF with the robot's joints and limits."""
    parts = ['<link name="base"/>']
    for k, joint in enumerate(robot.joints):
        own, parent = joint.limits, "base" if k == 0 else f"link{k - 1}"
        parts.append(
            f'<link name="link{k}"/><joint name="{joint.name}" type="revolute"><parent link="{parent}"/>'
            f'<child link="link{k}"/><axis xyz="0 0 1"/><limit lower="{own.lower}" upper="{own.upper}"'
            f' velocity="{own.velocity}" effort="{own.effort}"/></joint>'
        )
    return f'<robot name="three">{"".join(parts)}</robot>'


def permuted(folder, robot):
    """Write a trajectory that moves the elbow by 0.5 rad, with its joints in another order."""
    names = ("elbow", "waist", "shoulder")
    q = np.array([[0.0, 0.0, -1.0], [0.5, 0.0, -1.0], [0.5, 0.0, -1.0]])
    assert set(names) == set(robot.active_names) and names != robot.active_names
    curve = through_points(np.array([0.0, 1.5, 2.0]), q, 0 * q)
    save_trajectory(folder / "permuted.yaml", Trajectory(names, curve))


def no_plan_is_said(scene):
    with pytest.raises(ClientError, match="there is no plan; call ~/plan"):
        scene.client.call(Trigger, "excitation/start")
    assert scene.client.call(Trigger, "excitation/stop").message == "nothing was moving"


def the_state_of_the_controller_is_said(scene):
    """Item 24: without a controller manager it is said that the state is not known."""
    scene.start()
    assert "the controller's state is not known" in scene.made.log("excitation")
    scene.client.call(Trigger, "excitation/stop")
    scene.state("aborted")
    scene.heal()


def equal_and_different_descriptions(scene, describe):
    """Item 1."""
    text = description(scene.made.robot)
    scene.moving()
    describe.publish(String(data=text))
    time.sleep(0.5)
    assert scene.client.excitation_state.state == ExcitationState.EXCITING, "an equal one changes nothing"
    describe.publish(String(data=text.replace("<robot", "<!-- another day --><robot", 1)))
    assert "description has changed" in scene.state("aborted")
    scene.at_rest()
    with pytest.raises(ClientError, match="there is no plan"):
        scene.client.call(Trigger, "excitation/start")
    assert scene.client.call(Trigger, "excitation/stop").message == "nothing was moving"
    scene.plan()
    scene.heal()


def frozen_states(scene):
    """Item 3: the same stamp and values again and again."""
    scene.moving()
    held = []

    def freeze(message):
        held.append(message)
        return held[0]

    scene.relay.change = freeze
    assert "frozen" in scene.state("braking", "aborted")
    scene.at_rest()
    scene.state("aborted")
    scene.heal()


def stamps_of_zero(scene):
    """Item 4: a driver that does not stamp: the motion goes through, and a joint off its path stops it."""
    offset = [0.0]

    def unstamped(message):
        message.header.stamp.sec = message.header.stamp.nanosec = 0
        message.position[0] += offset[0]
        return message

    scene.relay.change = unstamped
    scene.moving()
    step = threading.Event()
    for _ in range(60):
        offset[0] += 0.002
        step.wait(0.005)
    assert (
        "waist is 0." in scene.state("braking", "aborted") and "off its reference" in scene.client.excitation_state.text
    )
    scene.state("aborted")
    scene.at_rest()
    while offset[0] > 1e-9:
        offset[0] -= 0.002
        step.wait(0.005)
    scene.heal()


def parameters(scene):
    """Item 5: a change takes effect, or is refused with a reason; none is made while the robot moves."""
    client = scene.client
    with pytest.raises(ClientError, match="range"):
        client.set("excitation", approach_speed=7.0)
    with pytest.raises(ClientError, match="choose from points, fourier"):
        client.set("excitation", method="nonsense")
    scene.moving()
    names = {"approach_speed": 0.2, "tracking_tolerance": 10.0, "stale_seconds": 10.0, "limit_overshoot": 1.0}
    before = client.call(GetParameters, "excitation/get_parameters", names=list(names)).values
    for name, value in names.items():
        with pytest.raises(ClientError, match="next start"):
            client.set("excitation", **{name: value})
    assert client.call(GetParameters, "excitation/get_parameters", names=list(names)).values == before
    client.call(Trigger, "excitation/stop")
    scene.state("aborted")
    scene.at_rest()
    client.set("excitation", tracking_tolerance=0.0002)
    scene.start()
    assert "more than 0.0002" in scene.state("braking", "aborted")
    scene.state("aborted")
    client.set("excitation", tracking_tolerance=0.05)
    scene.heal()


def permuted_joints(scene):
    """Item 6: the elbow moves by 0.5 rad, and nothing else does."""
    planned = scene.plan("permuted.yaml")
    assert list(planned.trajectory.joint_names) == list(scene.made.robot.active_names)
    scene.start()
    assert scene.state("done", "aborted") == "done"
    assert np.allclose(scene.client.position(), [0.0, -1.0, 0.5], atol=0.03)
    assert all(list(message.joint_names) == list(scene.made.robot.active_names) for message in scene.sent)
    scene.plan()


def a_controller_that_does_not_follow(scene):
    """Items 21 and 24: with the brakes on nothing moves from the start."""
    scene.client.call(SetBool, "sim_robot/emergency_stop", data=True)
    scene.start()
    said = scene.state("braking", "aborted")
    assert "the controller did not take the trajectory" in said and "active?" in said
    scene.state("aborted")
    scene.client.call(SetBool, "sim_robot/emergency_stop", data=False)
    scene.heal()


def stops_at_any_time(scene):
    """Items 2 and 19: whenever a stop comes, what leaves after it brakes, and the robot rests."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        scene.sent.clear()
        scene.start()
        time.sleep(float(rng.uniform(0.0, 2.5)))
        scene.client.call(Trigger, "excitation/stop")
        scene.state("aborted")
        scene.at_rest()
        sent = [reference_of(message, scene.made.robot) for message in scene.sent]
        first = next(k for k, points in enumerate(sent) if len(points.t) == 1)
        for points in sent[first:]:
            assert points.duration < 1.5 and len(points.t) == 1 and np.all(points.dq[-1] == 0)
    scene.heal()


def deactivated_in_motion(scene):
    """Item 2: a deactivated node has stopped its robot."""
    scene.moving()
    transition(scene, "deactivate", 4)
    over = time.time_ns()
    scene.client.wait(lambda: scene.client.measured.stamp >= over, 10.0, "what the robot does then")
    assert np.all(np.abs(scene.client.measured.dq) < 0.05), "at rest when the transition is over"
    assert "the node was deactivated" in scene.state("aborted")
    count = len(scene.sent)
    with pytest.raises(ClientError, match="the node is inactive; activate it"):
        scene.client.call(Trigger, "excitation/start")
    time.sleep(0.5)
    assert len(scene.sent) == count
    scene.at_rest()


def shut_down_in_motion(scene):
    """A node that is shut down by its lifecycle has stopped its robot too, and starts nothing any more."""
    transition(scene, "activate", 3)
    scene.moving()
    transition(scene, "shutdown", 7)
    over = time.time_ns()
    scene.client.wait(lambda: scene.client.measured.stamp >= over, 10.0, "what the robot does then")
    assert np.all(np.abs(scene.client.measured.dq) < 0.05), "at rest when the transition is over"
    scene.at_rest()


@pytest.mark.timeout(120)
def test_long_plans_go_in_few_points_and_sensors_may_jitter(tmp_path):
    """Items 20, 21, 22 and 25: a plan of a minute, an arm that droops, velocities with jitter."""
    with graph(tmp_path) as made:
        long_motion(tmp_path / "trajectories", made.robot)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]", stiffness=3.0)
        made.start(
            "excitation", stale_seconds=0.5, start_delay=0.0, settle_seconds=0.1, approach_speed=0.6,
            collisions="false", remap=("joint_states:=relayed_states",),
        )  # fmt: skip
        scene = Scene(made)
        made.ready("sim_robot", "excitation")
        made.client.position()
        limits = np.array([joint.limits.velocity for joint in made.robot.joints])
        count = [0]

        def jitter(message):
            count[0] += 1
            if count[0] % 7 == 0:
                message.velocity = [float(v) for v in 1.06 * limits * np.sign(np.array(message.velocity) + 1e-9)]
            return message

        scene.relay.change = jitter
        try:
            scene.plan("long.yaml")
            before = made.client.position()
            scene.moving()
            made.client.wait(lambda: len(scene.sent) >= 2, 10.0, "what was sent")
            approach, run = scene.sent[:2]
            first = reference_of(approach, made.robot)
            assert np.allclose(first.q[0], before, atol=5e-3), "it begins where the arm is, not where it should be"
            assert np.all(first.dq[0] == 0) and first.t[0] > 0.2
            assert len(approach.points) < 10 and len(run.points) < 600
            points = reference_of(run, made.robot)
            assert points.duration > 60.0 and points.t[0] > 0.2 and np.all(points.dq[0] == 0)
            time.sleep(2.0)
            assert made.client.excitation_state.state == ExcitationState.EXCITING, "jitter stops nothing"
            made.client.call(Trigger, "excitation/stop")
            scene.state("aborted")
            scene.at_rest()
            assert json.dumps(made.client.excitation_state.text).count("stop was called") == 1
            what_would_be_lost_is_refused(scene)
        finally:
            scene.relay.close()


def what_would_be_lost_is_refused(scene):
    """Item 21: a curve that needs thousands of points, and a listener that is not reliable, as real controllers are."""
    t = np.linspace(0.0, 12 * np.pi, 4001)
    q = START + ((1 - np.cos(t)) / 2)[:, None] * np.array([0.4, 0.3, 0.5])
    dq = (np.sin(t) / 2)[:, None] * np.array([0.4, 0.3, 0.5])
    dq[[0, -1]] = 0.0
    curve = through_points(t, q, dq)  # without accelerations at the points: between them they come and go
    save_trajectory(scene.made.folder / "trajectories" / "dense.yaml", Trajectory(scene.made.robot.active_names, curve))
    scene.plan("dense.yaml")
    scene.client.create_subscription(JointTrajectory, "joint_trajectory", lambda m: None, qos_profile_sensor_data)
    count = len(scene.sent)

    def refused():  # once the excitation has found the listener
        try:
            scene.client.call(Trigger, "excitation/start")
        except ClientError as error:
            return "set the parameter action" in str(error) and "points" in str(error)
        scene.client.call(Trigger, "excitation/stop")
        scene.state("aborted")
        return False

    scene.client.wait(refused, 20.0, "the refusal")
    assert len(scene.sent) == count


def long_motion(folder, robot):
    """Write a motion of a minute at 100 Hz, as a plain JointTrajectory."""
    t = np.arange(0.0, 60.005, 0.01)
    w = 2 * np.pi / 6.0
    shape = (1 - np.cos(w * t)) / 2
    q = START + shape[:, None] * np.array([0.4, 0.3, 0.5])
    dq = 0.5 * w * np.sin(w * t)[:, None] * np.array([0.4, 0.3, 0.5])
    dq[[0, -1]] = 0.0
    ddq = 0.5 * w**2 * np.cos(w * t)[:, None] * np.array([0.4, 0.3, 0.5])
    ddq[[0, -1]] = 0.0
    folder.mkdir(parents=True, exist_ok=True)
    save_trajectory(folder / "long.yaml", Trajectory(robot.active_names, through_points(t, q, dq, ddq)), 100.0)


@pytest.mark.timeout(90)
def test_a_start_right_after_activation_waits_until_the_robot_is_seen(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        made.start(
            "excitation", autostart="false", start_delay=0.0, collisions="false",
            remap=("joint_states:=relayed_states",),
        )  # fmt: skip
        made.ready("sim_robot")
        made.client.position()
        scene = Scene(made)
        scene.relay.change = lambda message: None
        try:
            transition(scene, "configure", 1)
            scene.plan()
            client = made.client.create_client(Trigger, "excitation/start")
            assert client.wait_for_service(20.0)
            transition(scene, "activate", 3)
            answer = client.call_async(Trigger.Request())
            time.sleep(0.3)
            assert not answer.done() and not scene.sent, "nothing is known of the robot yet"
            scene.relay.change = lambda message: message
            made.client.wait(answer.done, 20.0, "the answer")
            assert answer.result().success, answer.result().message
            scene.state("approach", "settle", "exciting")
            made.client.call(Trigger, "excitation/stop")
            scene.state("aborted")
            scene.at_rest()
        finally:
            scene.relay.close()


def transition(scene, name, number):
    """Ask the excitation for a lifecycle transition."""
    request = ChangeState.Request()
    request.transition.id = number
    answer = scene.client.call(ChangeState, "excitation/change_state", transition=request.transition)
    assert answer.success, name
