"""The recorder before streams as robots send them: permuted, partial, with NaN, with a clock that jumps back."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState

from ros2_dynid.recording.load import load_samples
from ros_graph import graph


@pytest.mark.timeout(120)
def test_what_comes_is_written_and_what_is_wrong_is_said(tmp_path):
    with graph(tmp_path) as made:
        made.start("recorder")
        client, names = made.client, list(made.robot.active_names)
        publisher = client.create_publisher(JointState, "joint_states", 1000)
        client.call(StartRecording, "recorder/start", path="odd")
        client.wait(lambda: publisher.get_subscription_count() >= 2, 10.0, "the recorder's subscription")
        order = [*reversed(names), "gripper"]
        stamp = 1_000_000_000_000
        for k in range(1000):
            stamp += 1_000_000 if k != 600 else -50_000_000
            message = JointState(name=order)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
            message.position = [0.3 + k * 1e-4, 0.2 + k * 1e-4, 0.1 + k * 1e-4, 9.0]
            message.velocity = [0.1] * 4
            message.effort = [1.0, 2.0, 3.0 if k < 900 else float("nan"), 0.0]
            publisher.publish(message)
            time.sleep(0.0005)
        time.sleep(0.5)
        stopped = client.call(StopRecording, "recorder/stop")
        assert stopped.samples == 1000
        assert any("jumped back" in problem for problem in stopped.problems)
        assert any("NaN" in problem for problem in stopped.problems)
        samples = load_samples(stopped.path, made.robot, in_order=False)
        assert samples.joint_names == tuple(names)
        assert np.allclose(samples.q[0], [0.1, 0.2, 0.3])
        assert np.isnan(samples.tau[950, 0]) and samples.tau[0, 2] == 1.0
