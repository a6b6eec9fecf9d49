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
        node.create_subscription(JointState, "/joint_states", states.append, QoSProfile(depth=5000))
        node.create_subscription(Clock, "/clock", clocks.append, QoSProfile(depth=5000))
        yield states, clocks, lambda: executor.spin_once(timeout_sec=0.05)
        node.destroy_node()
        rclpy.shutdown(context=context)


def test_a_bag_is_played_at_twice_its_speed(tmp_path, listener):
    states, clocks, spin = listener
    messages, _, stamps, q, _, tau = plain_messages(2000)
    bag = write_bag(tmp_path / "bag", messages)
    command = [sys.executable, "-m", "ros2_dynid.cli", "replay", str(bag), "--rate", "2", "--clock", "--json"]
    process = subprocess.Popen([*command, "--wait", "20"], stdout=subprocess.PIPE, env=os.environ.copy())
    end = time.monotonic() + 60
    while time.monotonic() < end and (len(states) < 2000 or process.poll() is None):
        spin()
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
