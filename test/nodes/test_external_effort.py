# SPDX-License-Identifier: Apache-2.0

"""The feedforward node feels a push: external effort, wrench and contact, with a model file's error bars."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from geometry_msgs.msg import WrenchStamped
from ros2_dynid.msg import Contact
from sensor_msgs.msg import JointState

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.external_wrench import external_wrench
from ros2_dynid.dynamics.kinematics import jacobian
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.fast import Ticker
from ros2_dynid.nodes.common.predicted import PLOTTED
from ros2_dynid.nodes.common.qos import JOINT_STATES, LATCHED
from ros_graph import graph

HERE = np.array([0.3, -0.9, 0.5, 0.2, 0.4, -0.1])


@pytest.mark.timeout(120)
def test_a_push_is_felt_and_let_go(tmp_path):
    robot = load_robot("demo6")
    base, chi = base_parameters(robot), standard_vector(robot)
    value = base.values(robot, chi)
    model = model_of(
        robot, base, value, np.full(len(base), 1e-3), 1e-6 * np.eye(len(base)), obtained={"sigma": [0.5] * 6}
    )
    save_model(model, tmp_path / "model.yaml")
    Q = gravity_torque(robot, chi, HERE[None])[0]
    push, heard = np.zeros(6), {"contact": [], "effort": [], "wrench": []}
    with graph(tmp_path, "demo6") as made:
        client = made.client
        states = client.create_publisher(JointState, "joint_states", JOINT_STATES)

        def tick():
            message = JointState(name=list(robot.active_names), position=HERE.tolist(), velocity=[0.0] * 6)
            message.effort = (Q - push).tolist()
            message.header.stamp = client.get_clock().now().to_msg()
            states.publish(message)

        for kind, topic, key, qos in (
            (Contact, "contact", "contact", LATCHED),
            (JointState, "external_effort", "effort", PLOTTED),
            (WrenchStamped, "external_wrench", "wrench", PLOTTED),
        ):
            client.create_subscription(kind, f"feedforward/{topic}", heard[key].append, qos)
        ticker = Ticker(0.002, tick)
        try:
            made.start("feedforward", model=tmp_path / "model.yaml")
            made.ready("feedforward")
            client.wait(lambda: len(heard["effort"]) > 200, 20.0, "external efforts")
            assert np.abs(heard["effort"][-1].effort).max() < 1e-6 and not heard["contact"]
            link = next(iter(robot.tools))
            F = np.array((0.0, 0.0, 30.0, 0.0, 0.0, 0.0))
            push[:] = jacobian(robot, HERE[None], link)[0].T @ F
            client.wait(lambda: heard["contact"] and heard["contact"][-1].contact, 20.0, "a contact")
            found = heard["contact"][-1]
            assert list(found.joints) == list(robot.active_names) and any(found.beyond)
            for k in np.flatnonzero(found.beyond):
                assert abs(found.external_effort[k]) > found.threshold[k] > 0.0
            client.wait(
                lambda: np.allclose(heard["effort"][-1].effort, push, atol=1e-3), 20.0, f"the push {np.round(push, 2)}"
            )
            expected = external_wrench(robot, HERE[None], push[None], link)[0]  # damped: not quite F
            client.wait(lambda: abs(heard["wrench"][-1].wrench.force.z - expected[2]) < 0.1, 20.0, "the force")
            assert heard["wrench"][-1].header.frame_id == link
            push[:] = 0.0
            client.wait(lambda: not heard["contact"][-1].contact, 20.0, "the end of the contact")
            with pytest.raises(ClientError, match="contact_thresholds has 2 values"):
                client.set("feedforward", contact_thresholds=[1.0, 2.0])
            with pytest.raises(ClientError, match="no link 'nowhere'"):
                client.set("feedforward", wrench_link="nowhere")
            client.set("feedforward", contact_thresholds=[1000.0])
            count = len(heard["contact"])
            push[1] = 50.0
            client.wait(lambda: abs(heard["effort"][-1].effort[1] - 50.0) < 0.1, 20.0, "the second push")
            assert len(heard["contact"]) == count  # below the thresholds given
        finally:
            ticker.close()
