# SPDX-License-Identifier: Apache-2.0

"""The wrist sensor's node: pushes come out in any frame, tools change by service, and it is zeroed."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest
from geometry_msgs.msg import Inertia, Vector3, WrenchStamped
from ros2_dynid.srv import SetPayload
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ros2_dynid.control.tool_wrench import effort_of_wrench, moved_wrench
from ros2_dynid.dynamics.sensor_wrench import sensor_regressor
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.wrist_sensor.node import wrench_message
from ros_graph import graph

LINK, MASS, COM = "flange", 1.2, np.array((0.01, -0.02, 0.08))
BIAS, PUSH = np.array((3.0, -7.0, 12.0, 0.2, 0.1, -0.3)), np.array((5.0, 0.0, -4.0, 0.5, 0.2, 0.0))
Q = np.array((0.3, -0.8, 0.9, 0.2, -0.5, 0.1))
OUTCOME = {
    "frame": LINK, "mass": MASS, "com": COM.tolist(), "inertia": [[0.0] * 3] * 3, "bias": BIAS.tolist(), "sign": 1,
    "std": {"mass": 0.01, "com": [0.001] * 3, "inertia": [[0.0] * 3] * 3}, "sensor_std": {"bias": [0.1] * 6},
    "residual": [0.2] * 6,
}  # fmt: skip


def six(message):
    wrench = message.wrench
    return np.array([getattr(part, axis) for part in (wrench.force, wrench.torque) for axis in "xyz"])


@pytest.mark.timeout(120)
def test_a_push_is_told_without_the_tool_in_the_sensors_and_in_a_chosen_frame(tmp_path):
    (tmp_path / "tool.json").write_text(json.dumps(OUTCOME))
    with graph(tmp_path, "demo6") as made:
        client, robot, running = made.client, made.robot, True
        J = MASS * (COM @ COM * np.eye(3) - np.outer(COM, COM))
        phi = np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(MASS * COM), MASS))
        weight = sensor_regressor(robot, LINK, Q[None], 0 * Q[None], 0 * Q[None])[0] @ phi
        states, wrenches = (
            client.create_publisher(JointState, "joint_states", 10),
            client.create_publisher(WrenchStamped, "wrench", 10),
        )
        came = {name: [] for name in ("wrench", "wrench_std", "external_wrench")}
        for name, kept in came.items():
            client.create_subscription(WrenchStamped, f"wrist_sensor/{name}", kept.append, 10)
        efforts = []
        client.create_subscription(JointState, "wrist_sensor/external_effort", efforts.append, 10)

        def publish():
            while running:
                stamp = time.time_ns()
                message = JointState(name=list(robot.active_names), position=Q.tolist(), velocity=[0.0] * 6)
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
                states.publish(message)
                wrenches.publish(wrench_message(weight + BIAS - PUSH, LINK, stamp))
                time.sleep(0.005)

        made.start("wrist_sensor", tool=tmp_path / "tool.json")
        made.ready("wrist_sensor")
        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        try:
            client.wait(lambda: all(came.values()) and efforts, 30.0, "the wrenches")
            np.testing.assert_allclose(six(came["wrench"][-1]), -PUSH, atol=1e-6)
            assert came["wrench"][-1].header.frame_id == LINK and np.all(six(came["wrench_std"][-1]) > 0.2)
            external = six(came["external_wrench"][-1])
            np.testing.assert_allclose(external, moved_wrench(robot, Q, PUSH, LINK, ""), atol=1e-6)
            np.testing.assert_allclose(efforts[-1].effort, effort_of_wrench(robot, Q, PUSH, LINK), atol=1e-6)
            client.set("wrist_sensor", frame=LINK)
            client.wait(lambda: came["external_wrench"][-1].header.frame_id == LINK, 10.0, "the other frame")
            np.testing.assert_allclose(six(came["external_wrench"][-1]), PUSH, atol=1e-6)
            client.call(SetPayload, "wrist_sensor/set_tool", payload=Inertia())
            client.wait(lambda: np.allclose(six(came["wrench"][-1]), weight - PUSH), 10.0, "no tool")
            with pytest.raises(ClientError, match="not finite"):
                client.call(SetPayload, "wrist_sensor/set_tool", payload=Inertia(m=1.0, com=Vector3(x=float("nan"))))
            client.wait(lambda: len(came["wrench"]) > 100, 20.0, "enough wrenches")
            assert "bias changed" in client.call(Trigger, "wrist_sensor/zero").message
            client.wait(lambda: np.abs(six(came["wrench"][-1])).max() < 1e-6, 10.0, "zero")
        finally:
            running = False
            thread.join(2.0)
