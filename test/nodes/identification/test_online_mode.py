# SPDX-License-Identifier: Apache-2.0

"""Node identification while the robot works: drift, estimates, the load that joint states show, the torque's band."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import InertiaStamped
from ros2_dynid.msg import BaseParameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from perfect import perfect_model
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.model.parameters import link_slice
from ros2_dynid.nodes.common.predicted import PLOTTED
from ros2_dynid.nodes.common.qos import LATCHED
from ros_graph import graph

RATE, MASS, CENTRE = 200.0, 2.0, np.array([0.0, 0.2, 0.05])


def motion(robot, chi, seconds=60.0):
    """Return t, q and tau of a lively motion with the load."""
    t = np.arange(0.0, seconds, 1 / RATE)
    w = 2 * np.pi * np.array([0.31, 0.43, 0.59])
    size = np.array([0.9, 0.6, 0.8])
    q = size * np.sin(w * t[:, None]) + np.array([0.0, -0.8, 0.3])
    dq, ddq = size * w * np.cos(w * t[:, None]), -size * w**2 * np.sin(w * t[:, None])
    J = MASS * (CENTRE @ CENTRE * np.eye(3) - np.outer(CENTRE, CENTRE)) + 0.005 * MASS * np.eye(3)
    loaded = chi.copy()
    loaded[link_slice(2)] += (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(MASS * CENTRE), MASS)
    return t, q, inverse_dynamics(robot, loaded, q, dq, ddq)


@pytest.mark.timeout(120)
def test_a_load_is_streamed_with_bars_and_the_torque_with_its_band(tmp_path):
    with graph(tmp_path) as made:
        client, robot = made.client, made.robot
        perfect_model(robot, tmp_path / "model.yaml")
        model = load_model(tmp_path / "model.yaml")
        made.start("identification", online=True, payload=True, model=tmp_path / "model.yaml")
        made.ready("identification")
        loads, stds, bands = [], [], {"predicted": [], "predicted_lower": [], "predicted_upper": []}
        client.create_subscription(InertiaStamped, "identification/payload", loads.append, LATCHED)
        client.create_subscription(InertiaStamped, "identification/payload_std", stds.append, LATCHED)
        for name, into in bands.items():
            client.create_subscription(JointState, f"identification/{name}", into.append, PLOTTED)
        drifts, estimates, told = [], [], {}
        client.create_subscription(Bool, "drift", lambda m: drifts.append(m.data), LATCHED)
        client.create_subscription(BaseParameters, "online_parameters", estimates.append, LATCHED)
        client.create_subscription(
            DiagnosticArray, "/diagnostics", lambda m: told.update({s.name: s.message for s in m.status}), 10
        )
        out = client.create_publisher(JointState, "joint_states", 100)
        t, q, tau = motion(robot, model.chi)
        sent = [0]

        def send() -> None:
            k = sent[0] % len(t)
            order = [2, 0, 1] if sent[0] % 2 else [0, 1, 2]
            names = [robot.active_names[j] for j in order]
            message = JointState(name=names, position=q[k, order].tolist(), effort=tau[k, order].tolist())
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(int((100.0 + t[k]) * 1e9), 1_000_000_000)
            out.publish(message)
            sent[0] += 1

        client.create_timer(1 / RATE, send)
        client.wait(lambda: len(stds) > 2 and all(bands.values()), 25.0, "the load and the band")
        client.wait(lambda: bool(drifts and drifts[-1]), 25.0, "drift: the served model knows nothing of the load")
        client.wait(lambda: told.get("identification: state", "").startswith("drift at joint"), 10.0, "diagnostics")
        client.wait(lambda: bool(estimates), 25.0, "an estimate")
        assert [row.leader for row in estimates[-1].parameters] == list(model.leaders)
        load, std = loads[-1], stds[-1]
        assert load.header.frame_id and abs(load.inertia.m - MASS) < max(0.05 * MASS, 3 * std.inertia.m)
        assert 0.0 < std.inertia.m < 0.2 and 0.0 < std.inertia.com.x < 0.2
        lower, upper = (
            {(m.header.stamp.sec, m.header.stamp.nanosec): m.effort for m in bands[n]}
            for n in ("predicted_lower", "predicted_upper")
        )
        both = lower.keys() & upper.keys()
        assert both and all(np.all(np.array(lower[s]) < np.array(upper[s])) for s in both)
