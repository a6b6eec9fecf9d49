"""What the excitation does when something goes wrong, and what every node refuses."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.srv import PlanExcitation, StartRecording
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.stop import quintic
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.nodes.caller import ClientError
from ros2_dynid.nodes.messages import reference_of, trajectory_message
from ros_graph import graph


def saved_motion(folder, robot, seconds=6.0):
    """Write a slow motion of all joints as a trajectory file."""
    t = np.linspace(0, seconds, 31)
    shape = (1 - np.cos(2 * np.pi * t / seconds)) / 2
    amplitude = np.full(robot.n, 0.4)
    q = shape[:, None] * amplitude - np.array([0.0, 1.0, 0.0])[: robot.n]
    dq = np.pi / seconds * np.sin(2 * np.pi * t / seconds)[:, None] * amplitude
    dq[[0, -1]] = 0.0
    folder.mkdir(parents=True, exist_ok=True)
    save_trajectory(folder / "slow.yaml", Trajectory(robot.active_names, through_points(t, q, dq)))


def moving(made):
    """Start the slow motion and wait until it is under way; return the trajectories sent from now on."""
    client, sent = made.client, []
    client.create_subscription(JointTrajectory, "joint_trajectory", sent.append, 10)
    client.position()
    client.call(PlanExcitation, "excitation/plan", file="slow.yaml")
    client.call(Trigger, "excitation/start")
    client.wait(lambda: client.excitation_state.startswith(("exciting", "aborted")), 40.0, "the start")
    assert client.excitation_state == "exciting"
    begin = client._live.stamp
    client.wait(lambda: client._live.stamp > begin + 1_500_000_000, 20.0, "the motion")
    sent.clear()
    return sent


@pytest.fixture
def made(tmp_path):
    with graph(tmp_path) as graph_made:
        saved_motion(tmp_path / "trajectories", graph_made.robot)
        graph_made.sim = graph_made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        yield graph_made


@pytest.mark.timeout(120)
def test_a_stop_call_brakes_within_the_limits(made):
    made.start("excitation")
    sent = moving(made)
    made.client.call(Trigger, "excitation/stop")
    made.client.wait(lambda: bool(sent), 5.0, "the stop")
    points = reference_of(sent[0], made.robot)
    assert points.duration < 1.0 and np.all(points.dq[-1] == 0.0)
    slowing = np.abs(np.diff(points.dq, axis=0) / np.diff(points.t)[:, None])
    limits = np.array([joint.limits.acceleration for joint in made.robot.joints])
    assert np.all(slowing <= limits * 1.001)
    made.client.wait(lambda: made.client.excitation_state.startswith("aborted: stop was called"), 5.0, "the state")
    with pytest.raises(ClientError, match="not inside the folder"):
        made.client.call(PlanExcitation, "excitation/plan", file="../../etc/passwd")


@pytest.mark.timeout(120)
def test_joint_states_that_stop_stop_the_motion(made):
    made.start("excitation")
    sent = moving(made)
    made.kill(made.sim)
    made.client.wait(lambda: made.client.excitation_state.startswith("aborted"), 8.0, "the abort")
    assert "no joint state" in made.client.excitation_state or "nobody listens" in made.client.excitation_state
    assert sent and sent[0].points[-1].velocities


@pytest.mark.timeout(120)
def test_a_robot_that_does_not_follow_is_stopped(made):
    made.start("excitation", tracking_tolerance=0.05)
    moving(made)
    from std_srvs.srv import SetBool

    made.client.call(SetBool, "sim_robot/emergency_stop", data=True)  # the brakes hold: the reference runs away
    made.client.wait(lambda: made.client.excitation_state.startswith("aborted"), 5.0, "the abort")
    assert "off its reference" in made.client.excitation_state


@pytest.mark.timeout(120)
def test_a_trajectory_for_another_robot_moves_nothing(made):
    client = made.client
    q = client.position()
    strange = trajectory_message(quintic(q[:2], q[:2] + 0.5, 1.0), ("left", "right"))
    client._direct.publish(strange)
    missing = trajectory_message(quintic(q[:2], q[:2] + 0.5, 1.0), made.robot.active_names[:2])
    client._direct.publish(missing)
    client.wait(lambda: made.log("sim_robot").count("refused") == 2, 10.0, "the refusals")
    # The trajectories ask for half a radian; under gravity the position control alone sags by a hundredth of one.
    assert np.allclose(client.position(), q, atol=0.05)
    with pytest.raises(InputError, match="lacks joint"):
        reference_of(missing, made.robot)


@pytest.mark.timeout(120)
def test_a_recorder_killed_and_started_again_loses_less_than_a_second(made):
    from ros2_dynid.recording.load import load_samples

    recorder = made.start("recorder")
    client = made.client
    client.position()
    with pytest.raises(ClientError, match="not inside the folder"):
        client.call(StartRecording, "recorder/start", path="/tmp/outside")
    path = client.call(StartRecording, "recorder/start", path="first").path
    begin = client._live.stamp
    client.wait(lambda: client._live.stamp > begin + 3_000_000_000, 20.0, "three seconds")
    made.kill(recorder)
    samples = load_samples(path, made.robot)
    assert samples.t[-1] - samples.t[0] > 2.0
    made.start("recorder", name="recorder_again")
    assert answered(client).path != path


def answered(client):
    """Call the new recorder; the killed one's service is known until the middleware has forgotten it."""
    for _ in range(12):
        with contextlib.suppress(ClientError):
            return client.call(StartRecording, "recorder/start", timeout=5.0)
    raise AssertionError("the recorder does not answer")
