# SPDX-License-Identifier: Apache-2.0

"""The identification node among others: requests stay in its folders, and its model is that of the robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from action_msgs.msg import GoalStatus
from rclpy.action.client import ActionClient
from ros2_dynid.action import Identify
from ros2_dynid.msg import BaseParameters, IdentifyOptions
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters, IdentifyPayload, IdentifyRecording
from std_msgs.msg import String

from motions import recorded_motion
from perfect import perfect_model
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.model.load import robot_from_urdf_string
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.messages import matrix_of
from ros2_dynid.nodes.common.qos import LATCHED
from ros_graph import graph
from urdf_text import joint, link, urdf

DEMO6 = Path(__file__).parents[3] / "config" / "robots" / "demo6.urdf"
OTHER = urdf(link("base"), link("arm"), joint("turn", "base", "arm"))
RNG = np.random.default_rng(0)
ARM = urdf(
    link("root"),
    link("base"),
    *(link(name, RNG) for name in ("one", "two", "three")),
    joint("stand", "root", "base", type="fixed", xyz="0 0 1"),
    joint("a", "base", "one", xyz="0.1 0.2 0.3"),
    joint("b", "one", "two", xyz="0.4 0 0", axis="0 1 0"),
    joint("c", "two", "three", xyz="0.5 0 0", axis="0 1 0"),
)


@pytest.mark.timeout(60)
def test_a_model_is_served_though_a_description_of_another_robot_comes(tmp_path):
    with graph(tmp_path, str(DEMO6)) as made:
        client = made.client
        perfect_model(made.robot, tmp_path / "model.yaml")
        description = client.create_publisher(String, "robot_description", LATCHED)
        description.publish(String(data=DEMO6.read_text()))
        node = made.start("identification", robot=None, model=tmp_path / "model.yaml")
        made.ready("identification")
        heard = []
        client.create_subscription(BaseParameters, "base_parameters", heard.append, LATCHED)
        client.wait(lambda: bool(heard), 10.0, "the model")
        for other in (OTHER, "<robot", ""):
            count = made.log("identification").count("robot_description: ")
            description.publish(String(data=other))
            client.wait(lambda n=count: made.log("identification").count("robot_description: ") > n, 10.0, "a refusal")
            served = client.call(GetBaseParameters, "identification/get_base_parameters").parameters
            assert served.model_id == heard[0].model_id and served.robot == made.robot.name
        assert len(heard) == 1 and node.poll() is None


@pytest.mark.timeout(120)
def test_requests_stay_in_their_folders_and_are_answered_whole(tmp_path):
    with graph(tmp_path) as made:
        client = made.client
        made.start("identification", method="ols")
        made.ready("identification")

        def identified(**fields):
            return client.call(IdentifyRecording, "identification/identify_recording", **fields)

        # nothing yet: no model, no recording
        with pytest.raises(ClientError, match="no base parameters yet"):
            client.call(GetBaseParameters, "identification/get_base_parameters")
        with pytest.raises(ClientError, match="there is no recording yet"):
            identified()

        # paths outside of the folders are refused
        bag = recorded_motion(tmp_path / "recordings", made.robot)
        (tmp_path / "models").mkdir(exist_ok=True)
        for fields, reason in (
            ({"bags": ["../motion.npz"]}, "not inside the folder"),
            ({"bags": ["missing.npz"]}, "missing.npz"),
            ({"bags": [bag], "validation_bags": ["/etc/passwd"]}, "not inside the folder"),
            ({"bags": [bag], "output_directory": ["../elsewhere"]}, "not inside the folder"),
            ({"bags": [bag], "options": IdentifyOptions(prior=["../prior.yaml"])}, "not inside the folder"),
            ({"bags": [bag], "options": IdentifyOptions(controller=["/etc/passwd"])}, "not inside the folder"),
        ):
            with pytest.raises(ClientError, match=reason):
                identified(**fields)

        # the node's method, unless the request names one; nothing is overwritten; the last recording is taken
        recording = client.create_publisher(String, "recording", LATCHED)
        recording.publish(String(data=str(tmp_path / "recordings" / bag)))
        heard = []
        client.create_subscription(BaseParameters, "base_parameters", heard.append, LATCHED)
        first = identified(bags=[bag], output_directory=["mine"], cross_validate=[0])
        assert first.model_path == str(tmp_path / "models" / "mine" / "model.yaml")
        assert first.parameters.method == "ols" and not first.parameters.validation
        with np.load(tmp_path / "recordings" / bag) as motion:
            again = dict(motion)
        again["tau"] = again["tau"] + 0.01 * np.random.default_rng(5).standard_normal(again["tau"].shape)
        np.savez(tmp_path / "recordings" / "again.npz", **again)
        second = identified(output_directory=["mine"], method=["wls"], validation_bags=["again.npz"])
        assert second.model_path == str(tmp_path / "models" / "mine_2" / "model.yaml")
        assert second.parameters.method == "wls" and second.parameters.validation
        client.wait(lambda: len(heard) == 2, 10.0, "both models")
        served = client.call(GetBaseParameters, "identification/get_base_parameters").parameters
        assert served.parameters == second.parameters.parameters == heard[1].parameters
        model = load_model(second.model_path)
        assert [row.value for row in served.parameters] == pytest.approx(model.served.tolist())


@pytest.mark.timeout(120)
def test_a_payload_is_answered_field_by_field(tmp_path):
    with graph(tmp_path) as made:
        client, folder = made.client, tmp_path / "recordings"
        made.start("identification")
        made.ready("identification")
        bag = recorded_motion(folder, made.robot)
        with np.load(folder / bag) as plain:
            empty = dict(plain)
        load = {"mass": 1.5, "com": np.array([0.1, 0.02, -0.05])}
        np.savez(folder / "loaded.npz", **empty | {"tau": loaded_torque(made.robot, empty, **load)})
        for fields, reason in (
            ({"empty_bags": [bag]}, "loaded_bags is empty"),
            ({"loaded_bags": ["loaded.npz"]}, "empty_bags is empty"),
            ({"empty_bags": [bag], "loaded_bags": ["../loaded.npz"]}, "not inside the folder"),
            ({"empty_bags": [bag], "loaded_bags": ["loaded.npz"], "link": ["moon"]}, "moon"),
        ):
            with pytest.raises(ClientError, match=reason):
                client.call(IdentifyPayload, "identification/identify_payload", **fields)
        found = client.call(
            IdentifyPayload, "identification/identify_payload", empty_bags=[bag], loaded_bags=["loaded.npz"]
        )
        assert found.significant and found.frame
        assert found.payload.m == pytest.approx(load["mass"], abs=max(0.05, 4 * found.mass_std))
        assert 0.0 < found.mass_std < 0.1 and all(x > 0.0 for x in (found.com_std.x, found.com_std.y, found.com_std.z))


def loaded_torque(robot, motion, mass, com):
    """Return the recorded torques and those of a point mass at `com` in the last joint's frame, shape (N, n)."""
    from ros2_dynid.dynamics.newton_euler import inverse_dynamics
    from ros2_dynid.model.parameters import link_slice, standard_vector

    chi = 0.0 * standard_vector(robot)
    J = mass * (com @ com * np.eye(3) - np.outer(com, com))
    chi[link_slice(robot.n - 1)] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass)
    return motion["tau"] + inverse_dynamics(robot, chi, motion["q"], motion["dq"], motion["ddq"])


@pytest.mark.timeout(60)
def test_a_urdf_becomes_a_table_of_the_chain_asked_for(tmp_path):
    with graph(tmp_path, str(DEMO6)) as made:
        made.start("identification")
        made.ready("identification")

        def converted(**fields):
            return made.client.call(ConvertUrdf, "identification/convert_urdf", **fields)

        robot, answer = robot_from_urdf_string(ARM), converted(urdf=[ARM])
        assert [j.name for j in answer.joints] == ["a", "b", "c"] and list(answer.tool_links) == ["three"]
        np.testing.assert_allclose(matrix_of(answer.base), robot.base, atol=1e-12)
        np.testing.assert_allclose(matrix_of(answer.tools[0]), robot.tools["three"][1], atol=1e-12)
        for found, expected in zip(answer.joints, robot.joints, strict=True):
            for key in ("parent", "sigma", "alpha", "d", "theta", "r", "gamma", "b"):
                assert getattr(found, key) == pytest.approx(getattr(expected, key)), key
        answer = converted(urdf=[ARM], base_link=["base"], tip_link=["two"])
        assert [j.name for j in answer.joints] == ["a", "b"] and list(answer.tool_links) == ["two"]
        np.testing.assert_allclose(matrix_of(answer.base)[:3, 3], (0.1, 0.2, 0.3), atol=1e-12)
        answer = converted(urdf=[ARM], hold_joints=["a", "c"], hold_positions=[0.3, -0.4])
        assert [j.name for j in answer.joints] == ["b"]
        held = robot_from_urdf_string(ARM, hold={"a": 0.3, "c": -0.4})
        np.testing.assert_allclose(matrix_of(answer.base), held.base, atol=1e-12)
        assert [j.name for j in converted().joints] == list(made.robot.active_names), "that of the node's robot"


@pytest.mark.timeout(60)
def test_goals_end_as_they_should(tmp_path):
    with graph(tmp_path) as made:
        client = made.client
        made.start("identification")
        made.ready("identification")
        bag = recorded_motion(tmp_path / "recordings", made.robot)
        action = ActionClient(client, Identify, "identification/identify")
        assert action.wait_for_server(20.0)

        def ended(goal, cancel=False):
            """Return how a goal ended, its result, and the stages that it told."""
            handles, results, stages = [], [], []
            sent = action.send_goal_async(goal, lambda m: stages.append((m.feedback.stage, m.feedback.progress)))
            sent.add_done_callback(lambda future: handles.append(future.result()))
            client.wait(lambda: bool(handles), 20.0, "the goal")
            assert handles[0].accepted, "every goal is: its result says why it cannot be met"
            handles[0].get_result_async().add_done_callback(lambda future: results.append(future.result()))
            if cancel:
                client.wait(lambda: bool(stages), 20.0, "a stage")
                handles[0].cancel_goal_async()
            client.wait(lambda: bool(results), 30.0, "the result")
            return results[0].status, results[0].result, stages

        status, result, stages = ended(Identify.Goal(bags=[bag]))
        assert status == GoalStatus.STATUS_SUCCEEDED and result.success and Path(result.model_path).is_file()
        shares = [share for _, share in stages]
        assert len({stage for stage, _ in stages}) > 2 and shares == sorted(shares) and shares[-1] <= 1.0
        status, result, _ = ended(Identify.Goal(bags=["missing.npz"]))
        assert status == GoalStatus.STATUS_ABORTED and not result.success and "missing.npz" in result.message
        assert "missing.npz" in made.log("identification")
        status, result, _ = ended(Identify.Goal(bags=[bag], consistent=True), cancel=True)
        assert status == GoalStatus.STATUS_CANCELED and not result.success and "cancelled" in result.message
