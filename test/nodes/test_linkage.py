# SPDX-License-Identifier: Apache-2.0

"""A four-bar over real nodes: planned, excited, recorded, identified, and fed forward; its passive joints follow."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.action import Identify
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import FillEfforts, GetBaseParameters, PlanExcitation

from linkages import driven_four_bar
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.robot_file import robot_to_dict
from ros2_dynid.nodes.common.model_messages import model_of_message
from ros2_dynid.sim.truth import true_parameters
from ros_graph import graph


@pytest.mark.timeout(200)
def test_a_four_bar_from_plan_to_feedforward(tmp_path):
    robot = driven_four_bar()
    (tmp_path / "four_bar.yaml").write_text(yaml.safe_dump(robot_to_dict(robot)))
    with graph(tmp_path, str(tmp_path / "four_bar.yaml")) as made:
        nodes = ("sim_robot", "excitation", "recorder", "identification", "feedforward")
        for node in nodes:
            made.start(node, **({"seed": 1, "spread": 0.2} if node == "sim_robot" else {}))
        made.ready(*nodes)
        client = made.client
        plan = client.call(PlanExcitation, "excitation/plan", seed=3, method=["fourier"], timeout=90.0)
        assert list(plan.trajectory.joint_names) == ["crank"]
        made.run()
        client.wait_for_excitation(ExcitationState.DONE, ExcitationState.ABORTED, timeout=90.0)
        assert client.excitation_state.state == ExcitationState.DONE
        client.wait(lambda: client.recording != "", 10.0, "the bag")

        client.act(Identify, "identification/identify", Identify.Goal(cross_validate=[3]))
        served, chi = model_of_message(client.call(GetBaseParameters, "identification/get_base_parameters").parameters)
        rng = np.random.default_rng(0)
        q = random_positions(robot, rng, 100, 1.0)
        dq, ddq = rng.uniform(-2.0, 2.0, (2, *q.shape))
        expected = inverse_dynamics(robot, true_parameters(robot, 1, 0.2), q, dq, ddq)
        error = inverse_dynamics(served, chi, q, dq, ddq) - expected
        assert np.linalg.norm(error) < 0.03 * np.linalg.norm(expected)

        filled = client.call(FillEfforts, "feedforward/fill_efforts", trajectory=plan.trajectory)
        points = filled.trajectory.points[1:-1]
        rows = [np.array([getattr(p, name) for p in points]) for name in ("positions", "velocities", "accelerations")]
        moving = np.abs(rows[1][:, 0]) > 0.2  # the sign of friction is smooth near rest
        efforts = np.array([p.effort for p in points])[moving]
        expected = inverse_dynamics(robot, true_parameters(robot, 1, 0.2), *(row[moving] for row in rows))
        assert np.linalg.norm(efforts - expected) < 0.03 * np.linalg.norm(expected)
