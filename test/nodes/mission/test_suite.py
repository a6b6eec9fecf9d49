# SPDX-License-Identifier: Apache-2.0

"""The good path over real nodes: plan, start, record, identify by action, serve, feed forward, weigh a payload."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from ros2_dynid.action import Identify
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import (
    ConvertUrdf,
    FillEfforts,
    GetBaseParameters,
    IdentifyRecording,
    PlanExcitation,
    StartRecording,
)
from sensor_msgs.msg import JointState

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.fast import Stream, unpacked
from ros2_dynid.nodes.common.messages import reference_of
from ros2_dynid.nodes.common.model_messages import model_of_message
from ros2_dynid.nodes.common.qos import JOINT_STATES
from ros2_dynid.recording.read import load_samples
from ros2_dynid.sim.truth import true_parameters
from ros_graph import graph


def run(made):
    made.run()
    client = made.client
    client.wait_for_excitation(ExcitationState.DONE, ExcitationState.ABORTED, timeout=90.0)
    assert client.excitation_state.state == ExcitationState.DONE


def both(client, kind, name, requests):
    """Call a service twice at once and return the answers in the order of their success: no, yes."""
    service = client.create_client(kind, name)
    assert service.wait_for_service(20.0)
    answers = []
    for request in requests:
        service.call_async(request).add_done_callback(lambda future: answers.append(future.result()))
    client.wait(lambda: len(answers) == 2, 60.0, "both answers")
    return sorted(answers, key=lambda answer: answer.success)


def cancelled_in_the_middle(client):
    """Send a goal, cancel it when its work has begun, and return how it ended."""
    action = ActionClient(client, Identify, "identification/identify")
    assert action.wait_for_server(20.0)
    handles, begun, ends = [], [], []

    def accepted(future):
        handles.append(future.result())
        future.result().get_result_async().add_done_callback(lambda done: ends.append(done.result()))

    action.send_goal_async(Identify.Goal(cross_validate=[5]), begun.append).add_done_callback(accepted)
    client.wait(lambda: handles and begun, 30.0, "the goal's acceptance and its first progress")
    handles[0].cancel_goal_async()
    client.wait(lambda: bool(ends), 30.0, "the cancelled identification")
    action.destroy()
    return ends[0]


@pytest.mark.timeout(300)
def test_from_plan_to_feedforward(tmp_path):
    with graph(tmp_path) as made:
        nodes = ("sim_robot", "excitation", "recorder", "identification", "feedforward")
        for node in nodes:
            made.start(node, **({"rate": 1000.0} if node == "sim_robot" else {}))
        made.ready(*nodes)
        client, robot = made.client, made.robot
        client.position()
        refused, plan = both(
            client, PlanExcitation, "excitation/plan", [PlanExcitation.Request(seed=s) for s in (3, 4)]
        )
        assert "already going on" in refused.message and plan.success
        assert [point.time_from_start.sec for point in plan.trajectory.points][-1] == 5
        assert np.allclose(plan.trajectory.points[-1].velocities, 0.0, atol=1e-9)
        run(made)
        client.wait(lambda: client.recording != "", 10.0, "the bag")
        samples = load_samples(client.recording, robot)
        assert samples.t[-1] - samples.t[0] > 4.9 and samples.tau is not None

        end = cancelled_in_the_middle(client)
        assert end.status == GoalStatus.STATUS_CANCELED
        assert end.result.message == "cancelled; nothing was written"
        assert not list((tmp_path / "models").glob("*/model.yaml"))

        refused, first = both(client, IdentifyRecording, "identification/identify_recording",
                              [IdentifyRecording.Request()] * 2)  # fmt: skip
        assert "already going on" in refused.message and first.success

        stages = []
        result = client.act(Identify, "identification/identify", Identify.Goal(cross_validate=[3]),
                            lambda message: stages.append(message.feedback.stage))  # fmt: skip
        assert stages[0] == "starting" and len(set(stages)) > 1, "an action tells its progress"
        assert result.model_path.startswith(str(tmp_path / "models"))
        assert len(list((tmp_path / "models").glob("*/model.yaml"))) == 2, "no result overwrites another"
        served, chi = model_of_message(client.call(GetBaseParameters, "identification/get_base_parameters").parameters)
        assert served.active_names == robot.active_names
        truth = true_parameters(robot, 1)
        rng = np.random.default_rng(0)
        motion = [rng.uniform(-1, 1, (200, robot.n)) for _ in range(3)]
        expected = inverse_dynamics(robot, truth, *motion)
        error = inverse_dynamics(served, chi, *motion) - expected
        assert np.linalg.norm(error) < 0.03 * np.linalg.norm(expected)
        base = base_parameters(robot)
        assert len(result.parameters.parameters) == len(base)
        assert len(result.parameters.covariance) == len(base) ** 2

        filled = client.call(FillEfforts, "feedforward/fill_efforts", trajectory=plan.trajectory)
        points = reference_of(filled.trajectory, robot)
        middle = slice(100, 400)
        truth_tau = inverse_dynamics(robot, truth, points.q[middle], points.dq[middle], points.ddq[middle])
        moving = np.abs(points.dq[middle]) > 0.1
        assert np.abs(points.tau[middle] - truth_tau)[moving].max() < 0.05 * np.abs(truth_tau).max()

        predicted_is_measured(client, points)
        refused, first = both(client, StartRecording, "recorder/start", [StartRecording.Request()] * 2)
        assert "already recording" in refused.message and first.success
        with pytest.raises(ClientError, match="no URDF"):
            client.call(ConvertUrdf, "identification/convert_urdf")


def predicted_is_measured(client, points):
    """Follow the trajectory with feedforward: predicted torque comes with measured stamps, close to measured torque."""
    measured, predicted = {}, {}

    def keep(into):
        def take(data):
            message = unpacked(data, JointState)
            stamp = message.header.stamp
            into[stamp.sec, stamp.nanosec] = list(message.name), message.effort

        return take

    streams = [
        Stream(client, JointState, topic, keep(into), JOINT_STATES, rest=0.004)
        for topic, into in (("joint_states", measured), ("feedforward/predicted", predicted))
    ]
    client.go(points.q[0])
    predicted.clear()
    client.follow(points, feedforward=True)
    for stream in streams:
        stream.close()
    both_known = [stamp for stamp in predicted if stamp in measured]
    print(f"{len(predicted)} predicted, {len(both_known)} of them with the stamps of {len(measured)} measured")
    assert len(both_known) > 300, "at 100 Hz, with the stamps of joint states"
    assert all(predicted[stamp][0] == measured[stamp][0] for stamp in both_known)
    tau, model = (np.array([source[stamp][1] for stamp in both_known]) for source in (measured, predicted))
    assert np.linalg.norm(model - tau) < 0.1 * np.linalg.norm(tau)
