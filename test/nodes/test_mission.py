"""The good path over real nodes: plan, start, record, identify by action, serve, feed forward, weigh a payload."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from ros2_dynid.action import Identify
from ros2_dynid.srv import ConvertUrdf, FillEfforts, GetBaseParameters, PlanExcitation, StartRecording, StopRecording
from std_srvs.srv import Trigger

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.nodes.caller import ClientError
from ros2_dynid.nodes.messages import reference_of
from ros2_dynid.nodes.model_messages import model_of_message
from ros2_dynid.recording.load import load_samples
from ros2_dynid.sim.truth import true_parameters
from ros_graph import graph


def run(client, service="start"):
    client.excitation_state = ""
    client.call(Trigger, f"excitation/{service}")
    client.wait(lambda: client.excitation_state.startswith(("done", "aborted")), 90.0, service)
    assert client.excitation_state == "done"


@pytest.mark.timeout(300)
def test_from_plan_to_feedforward(tmp_path):
    with graph(tmp_path) as made:
        for node in ("sim_robot", "excitation", "recorder", "identification", "feedforward"):
            made.start(node)
        client, robot = made.client, made.robot
        client.position()
        plan = client.call(PlanExcitation, "excitation/plan", seed=3, timeout=60.0)
        assert [point.time_from_start.sec for point in plan.trajectory.points][-1] == 5
        assert np.allclose(plan.trajectory.points[-1].velocities, 0.0, atol=1e-9)
        run(client)
        client.wait(lambda: client.recording != "", 10.0, "the bag")
        samples = load_samples(client.recording, robot)
        assert len(samples) > 4500 and samples.tau is not None

        stages = []
        result = client.act(Identify, "identification/identify", Identify.Goal(cross_validate=3),
                            lambda message: stages.append(message.feedback.stage))  # fmt: skip
        assert stages, "an action tells its progress"
        assert result.model_path.startswith(str(tmp_path / "models"))
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

        with pytest.raises(ClientError, match="no URDF"):
            client.call(ConvertUrdf, "identification/convert_urdf")


@pytest.mark.timeout(120)
def test_a_second_plan_at_once_is_refused_and_cancel_ends_an_identification(tmp_path):
    with graph(tmp_path) as made:
        for node in ("sim_robot", "excitation", "recorder", "identification"):
            made.start(node, **({"planning_seconds": 5.0} if node == "excitation" else {}))
        client = made.client
        client.position()
        service = client.create_client(PlanExcitation, "excitation/plan")
        assert service.wait_for_service(20.0)
        answers = []
        for seed in (1, 2):
            service.call_async(PlanExcitation.Request(seed=seed)).add_done_callback(
                lambda f: answers.append(f.result())
            )
        client.wait(lambda: len(answers) == 2, 60.0, "both answers")
        assert sorted(answer.success for answer in answers) == [False, True]
        assert "already going on" in next(answer.message for answer in answers if not answer.success)

        client.call(StartRecording, "recorder/start", path="still")
        begin = client._live.stamp
        client.wait(lambda: client._live.stamp > begin + 2_000_000_000, 20.0, "two seconds")
        bag = client.call(StopRecording, "recorder/stop").path
        action = ActionClient(client, Identify, "identification/identify")
        assert action.wait_for_server(20.0)
        ends = []

        def accepted(future):
            handle = future.result()
            handle.get_result_async().add_done_callback(lambda done: ends.append(done.result()))
            handle.cancel_goal_async()

        action.send_goal_async(Identify.Goal(bags=[bag])).add_done_callback(accepted)
        client.wait(lambda: bool(ends), 30.0, "the cancelled identification")
        # Why the job ended may be told as its cancelling or, where it was quicker, as what it found wrong with the bag.
        assert ends[0].status == GoalStatus.STATUS_CANCELED
        assert not ends[0].result.success
        assert not list((tmp_path / "models").glob("*/model.yaml"))
