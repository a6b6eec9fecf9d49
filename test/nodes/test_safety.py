# SPDX-License-Identifier: Apache-2.0

"""What the excitation does when something goes wrong, and what every node refuses."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from jtc_checks import refusal
from motions import saved_motion
from perfect import perfect_model
from ros2_dynid.control.stop import quintic
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.messages import reference_of, trajectory_message
from ros_graph import graph


def moving(made):
    """Start the slow motion and wait until it is under way; return the trajectories sent from now on."""
    client, sent = made.client, []
    came = []

    def take(message):
        sent.append(message)
        came.append(time.time())

    client.create_subscription(JointTrajectory, "joint_trajectory", take, 10)
    client.position()
    client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
    made.run()
    client.wait_for_excitation(ExcitationState.EXCITING, ExcitationState.ABORTED, timeout=40.0)
    assert client.excitation_state.state == ExcitationState.EXCITING
    client.wait(lambda: client.speed() > 0.1, 20.0, "the motion")
    begin = client.measured.stamp
    client.wait(lambda: client.measured.stamp > begin + 500_000_000, 20.0, "half a second of it")
    assert len(sent) >= 2, "the approach and the motion"
    assert_the_controller_takes(sent, came, made.robot)
    sent.clear()
    return sent


def assert_the_controller_takes(sent, came, robot):
    """Put all that was sent through a joint trajectory controller's own checks."""
    for message, now in zip(sent, came, strict=True):
        assert refusal(message, robot.active_names, now) == ""


@pytest.mark.timeout(120)
def test_what_goes_wrong_stops_the_motion_and_what_does_not_fit_moves_nothing(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        made.start("excitation", tracking_tolerance=0.05)
        perfect_model(made.robot, tmp_path / "model.yaml")
        made.start("feedforward", model=tmp_path / "model.yaml")
        made.ready("sim_robot", "excitation", "feedforward")
        client = made.client

        sent = moving(made)
        a_stop_call_brakes_within_the_limits(made, sent)
        with pytest.raises(ClientError, match="not inside the folder"):
            client.call(PlanExcitation, "excitation/plan", file=["../../etc/passwd"])

        moving(made)
        client.call(SetBool, "sim_robot/emergency_stop", data=True)  # the brakes hold: the reference runs away
        client.wait_for_excitation(ExcitationState.ABORTED, timeout=20.0)
        assert "off its reference" in client.excitation_state.text
        client.call(SetBool, "sim_robot/emergency_stop", data=False)

        a_trajectory_for_another_robot_moves_nothing(made)


def a_stop_call_brakes_within_the_limits(made, sent):
    made.client.call(Trigger, "excitation/stop")
    made.client.wait(lambda: bool(sent), 5.0, "the stop")
    assert_the_controller_takes(sent[:1], [time.time()], made.robot)
    points = reference_of(sent[0], made.robot)
    assert points.duration < 1.0 and np.all(points.dq[-1] == 0.0)
    slowing = np.abs(np.diff(points.dq, axis=0) / np.diff(points.t)[:, None])
    limits = np.array([joint.limits.acceleration for joint in made.robot.joints])
    assert np.all(slowing <= limits * 1.001)
    assert made.client.wait_for_excitation(ExcitationState.ABORTED, timeout=20.0).reason.startswith("stop was called")


def a_trajectory_for_another_robot_moves_nothing(made):
    """Send such trajectories straight to the robot and by way of the feedforward, which passes nothing on."""
    client = made.client
    client.wait_for_rest(0.05, 10.0)
    q = client.position()
    names = made.robot.active_names
    strange = trajectory_message(quintic(("left", "right"), q[:2], q[:2] + 0.5, 1.0))
    missing = trajectory_message(quintic(names[:2], q[:2], q[:2] + 0.5, 1.0))
    more = trajectory_message(quintic((*names, "gripper"), np.append(q, 0), np.append(q, 0) + 0.5, 1.0))
    for wrong in (strange, missing, more):
        for feedforward in (False, True):
            client.send(wrong, feedforward=feedforward)
    client.wait(lambda: made.log("sim_robot").count("refused") == 3, 10.0, "the refusals")
    client.wait(lambda: "reference refused" in made.log("feedforward"), 10.0, "the refusals")
    # The trajectories ask for half a radian; under gravity the position control alone sags by a hundredth of one.
    assert np.allclose(client.position(), q, atol=0.05)
    with pytest.raises(InputError, match="lacks 'elbow'"):
        reference_of(missing, made.robot)
