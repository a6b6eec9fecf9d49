# SPDX-License-Identifier: Apache-2.0

"""Joint states as robots send them: permuted, with other joints, with NaN, with a clock that jumps, none at all."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import BaseParameters, ExcitationState
from ros2_dynid.srv import IdentifyRecording, PlanExcitation, StartRecording, StopRecording
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from odd_states import Oddity
from perfect import perfect_model
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.fast import Stream, unpacked
from ros2_dynid.nodes.common.qos import JOINT_STATES, LATCHED
from ros2_dynid.recording.read import load_samples
from ros_graph import graph

ODD = ("joint_states:=odd_states",)


@pytest.mark.timeout(180)
def test_a_mission_on_a_stream_that_is_odd_in_every_way(tmp_path):
    with graph(tmp_path) as made:
        client, robot = made.client, made.robot
        perfect_model(robot, tmp_path / "model.yaml")
        odd = Oddity(client)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        for node, more in (
            ("excitation", {}),
            ("recorder", {}),
            ("identification", {"online": True, "model": tmp_path / "model.yaml"}),
            ("feedforward", {"model": tmp_path / "model.yaml"}),
        ):
            made.start(node, remap=ODD, **more)
        made.ready("sim_robot", "excitation", "recorder", "identification", "feedforward")
        client.position()
        predicted, estimates = {"feedforward": [], "identification": []}, []
        streams = [
            Stream(client, JointState, f"{node}/predicted", into.append, JOINT_STATES)
            for node, into in predicted.items()
        ]
        client.create_subscription(BaseParameters, "online_parameters", estimates.append, LATCHED)

        # permuted and extra joints: it is approached, excited, recorded
        client.call(PlanExcitation, "excitation/plan", seed=3, timeout=60.0)
        made.run()
        client.wait(
            lambda: client.excitation_state.state in (ExcitationState.EXCITING, ExcitationState.ABORTED),
            40.0,
            "the start",
        )
        # a clock that jumps back in the middle of the motion stops nothing
        seen = odd.count
        client.wait(lambda: odd.count > seen + 500, 20.0, "a second")
        odd.offset = -100
        client.wait_for_excitation(ExcitationState.DONE, ExcitationState.ABORTED, timeout=40.0)
        assert client.excitation_state.state == ExcitationState.DONE
        client.wait(lambda: client.recording != "", 10.0, "the bag")
        samples = load_samples(client.recording, robot, in_order=False)
        assert samples.joint_names == robot.active_names and len(samples) > 1900
        assert np.abs(samples.q).max() < 6.0, "the stranger is left out"
        for node, into in predicted.items():
            prediction_is_right(node, [unpacked(data, JointState) for data in list(into)], robot, odd.efforts)
        found = client.call(IdentifyRecording, "identification/identify_recording", timeout=60.0).parameters
        assert found.fit[-1].joint == "all" and found.fit[-1].relative < 0.05, "cut where the clock jumped"
        assert estimates, "the online estimator has come through it too"

        # NaN effort: recorded, said, and refused by the identification
        odd.nan_effort = True
        client.call(StartRecording, "recorder/start", path=["nan"])
        seen = odd.count
        client.wait(lambda: odd.count > seen + 700, 20.0, "a second")
        stopped = client.call(StopRecording, "recorder/stop")
        assert any("NaN" in problem for problem in stopped.problems)
        with pytest.raises(ClientError, match=r"(?i)nan|effort|finite"):
            client.call(IdentifyRecording, "identification/identify_recording", bags=[stopped.path], timeout=60.0)

        # joint states that stop: the motion is stopped, and everybody still answers
        made.run()
        client.wait(
            lambda: client.excitation_state.state in (ExcitationState.EXCITING, ExcitationState.ABORTED),
            40.0,
            "the start",
        )
        assert client.excitation_state.state == ExcitationState.EXCITING
        odd.silent = True
        client.wait_for_excitation(ExcitationState.ABORTED, timeout=20.0)
        assert "no joint state" in client.excitation_state.text
        with pytest.raises(ClientError, match="no joint state for"):
            client.call(Trigger, "excitation/start")
        odd.silent = False
        client.call(StartRecording, "recorder/start", path=["after"])
        for part in (odd, *streams):
            part.close()


def prediction_is_right(node, messages, robot, efforts):
    """Compare with the measured torque of the same stamp, whatever the joints' order."""
    rows = []
    for message in messages:
        order = [message.name.index(name) for name in robot.active_names]
        assert np.isnan(message.effort[message.name.index("gripper")])
        stamp = message.header.stamp.sec, message.header.stamp.nanosec
        rows.append((np.array(message.effort)[order], efforts[stamp]))
    predicted, measured = (np.array(column) for column in zip(*rows, strict=True))
    assert len(rows) > 100, node
    assert np.linalg.norm(predicted - measured) < 0.1 * np.linalg.norm(measured), node
