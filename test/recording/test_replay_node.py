# SPDX-License-Identifier: Apache-2.0

"""dynid replay over real ROS 2: every message arrives, in order, with /clock, at the speed asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from bagmaker import plain_messages, write_bag
from ros2_dynid.processes import own_domain

rclpy = pytest.importorskip("rclpy")


@pytest.fixture
def listener(monkeypatch):
    from rclpy.qos import QoSProfile
    from rosgraph_msgs.msg import Clock
    from sensor_msgs.msg import JointState

    with own_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        context = rclpy.Context()
        rclpy.init(context=context)
        node = rclpy.create_node("listener", context=context)
        executor = rclpy.executors.SingleThreadedExecutor(context=context)
        executor.add_node(node)
        states, clocks = [], []
        node.create_subscription(JointState, "/played", states.append, QoSProfile(depth=5000))
        node.create_subscription(Clock, "/clock", clocks.append, QoSProfile(depth=5000))
        yield states, clocks, lambda: executor.spin_once(timeout_sec=0.05)
        node.destroy_node()
        rclpy.shutdown(context=context)


def test_a_bag_is_played_at_twice_its_speed(tmp_path, listener):
    states, clocks, spin = listener
    messages, _, stamps, q, _, tau = plain_messages(2000)
    bag = write_bag(tmp_path / "bag", messages)
    flags = ["--rate", "2", "--clock", "--to", "/played", "--wait", "20", "--json"]
    command = [sys.executable, "-m", "ros2_dynid.cli", "replay", str(bag), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ.copy())
    end = time.monotonic() + 60
    while time.monotonic() < end and (len(states) < 2000 or process.poll() is None):
        spin()
    assert process.poll() is not None, f"the replay did not end within 60 s; {len(states)} of 2000 states came"
    for _ in range(50):
        spin()
    result = json.loads(process.stdout.read())
    assert process.wait(10) == 0
    assert result["published"] == len(states) == 2000 and result["listeners"]
    assert result["seconds"] > 0.95
    assert [s.header.stamp.sec * 10**9 + s.header.stamp.nanosec for s in states] == stamps.tolist()
    assert [list(s.position) for s in states] == q.tolist() and [list(s.effort) for s in states] == tau.tolist()
    times = [c.clock.sec * 10**9 + c.clock.nanosec for c in clocks]
    assert times == sorted(times) and times[-1] == messages[-1][1]


def test_nothing_is_played_beside_a_robot(tmp_path, listener):
    from sensor_msgs.msg import JointState

    states, _, spin = listener
    bag = write_bag(tmp_path / "bag", plain_messages(200)[0])
    context = rclpy.Context()
    rclpy.init(context=context)
    robot = rclpy.create_node("driver", namespace="arm", context=context)
    robot.create_publisher(JointState, "/played", 10)
    command = [sys.executable, "-m", "ros2_dynid.cli", "replay", str(bag), "--to", "/played"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    robot.destroy_node()
    rclpy.shutdown(context=context)
    for _ in range(4):
        spin()
    assert found.returncode == 2 and not states
    assert "/arm/driver publishes on /played: a robot is there; play on another topic" in found.stderr.replace(
        "\n", " "
    )
