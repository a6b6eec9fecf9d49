# SPDX-License-Identifier: Apache-2.0

"""The simulated robot behind the topics of real hardware."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Inertia, Vector3
from ros2_dynid.srv import SetPayload
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState, Temperature
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.stop import quintic
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS, JOINT_STATES
from ros_graph import graph

START, END = np.array([0.2, -1.0, 0.3]), np.array([0.5, -0.8, 0.2])


@pytest.mark.timeout(120)
def test_a_robot_tells_its_state_obeys_and_can_be_stopped(tmp_path):
    with graph(tmp_path) as made:
        client, names = made.client, list(made.robot.active_names)
        states, clocks, temperatures, told = [], [], {}, {}
        subscribe = client.create_subscription
        subscribe(JointState, "joint_states", states.append, JOINT_STATES)
        subscribe(Clock, "clock", clocks.append, 10)
        subscribe(
            Temperature, "joint_temperatures", lambda m: temperatures.update({m.header.frame_id: m.temperature}), 10
        )
        subscribe(DiagnosticArray, "/diagnostics", lambda m: told.update({s.name: s.message for s in m.status}), 10)
        trajectories = client.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        efforts = client.create_publisher(Float64MultiArray, "effort_commands", COMMANDS)
        made.start("sim_robot", start=START.tolist(), publish_clock="true", cold=31.0, warm=31.0)
        made.ready("sim_robot")
        client.wait(lambda: len(states) > 100 and len(clocks) > 10, 10.0, "joint states and the clock")
        last = states[-1]
        assert list(last.name) == names and len(last.velocity) == len(last.effort) == 3
        np.testing.assert_allclose(last.position, START, atol=0.02)
        stamps = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in states])
        np.testing.assert_allclose(np.diff(stamps), 0.002, atol=1e-6)
        client.wait(lambda: temperatures == dict.fromkeys(names, 31.0), 10.0, "the temperatures")
        client.wait(lambda: told.get("sim_robot: state") in ("running", "behind real time"), 10.0, "diagnostics")

        # joints of a trajectory may come in any order
        way = quintic(tuple(names), START, END, 1.0)
        message, order = trajectory_message(way), [2, 0, 1]
        message.joint_names = [names[k] for k in order]
        for point in message.points:
            for field in ("positions", "velocities", "accelerations"):
                setattr(point, field, [getattr(point, field)[k] for k in order])
        trajectories.publish(message)

        def near(q):
            return bool(states and np.abs(np.array(states[-1].position) - q).max() < 0.03)

        client.wait(lambda: near(END), 10.0, "the end of the way")

        # what it cannot follow is refused, and the robot stays where it is
        message.joint_names = ["moon"] * 3
        trajectories.publish(message)
        efforts.publish(Float64MultiArray(data=[1.0]))
        for words in ("joint_trajectory refused", "effort_commands refused"):
            client.wait(lambda words=words: words in made.log("sim_robot"), 10.0, words)
        with pytest.raises(ClientError, match="no last link"):
            client.call(SetPayload, "sim_robot/set_payload", link="moon", payload=Inertia(m=1.0))

        # a payload is felt, brakes hold
        before = np.mean([m.effort[1] for m in states[-100:]])
        client.call(SetPayload, "sim_robot/set_payload", payload=Inertia(m=3.0, com=Vector3(x=0.1)))
        time.sleep(1.0)
        assert abs(np.mean([m.effort[1] for m in states[-100:]]) - before) > 1.0
        assert client.call(SetBool, "sim_robot/emergency_stop", data=True).message == "brakes on"
        client.wait(lambda: told.get("sim_robot: state") == "emergency stop", 10.0, "diagnostics")
        assert client.call(SetBool, "sim_robot/emergency_stop", data=False).message == "brakes off, holding"
