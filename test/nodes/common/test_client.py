# SPDX-License-Identifier: Apache-2.0

"""What a client of the suite sees of a robot."""

from __future__ import annotations

import contextlib
import re
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from sensor_msgs.msg import JointState

from in_process import ros
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.client import Client

pytestmark = [pytest.mark.in_process, pytest.mark.timeout(60)]
ROBOT = load_robot("demo3")
PERIOD = 0.002
COUNT = 2.4e-5
"""One count of an encoder [rad]: within a period a joint that rests seems to move at 12 mrad/s."""


class Robot:
    """Publishes joint states in a thread; `motion` gives the positions of the k-th one, None: there is none."""

    def __init__(self, client):
        self.motion = lambda k: None
        self._publisher = client.create_publisher(JointState, "joint_states", 100)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        k, before = 0, np.zeros(3)
        while not self._ended.wait(PERIOD):
            q = self.motion(k)
            if q is None:
                continue
            message = JointState(name=list(ROBOT.active_names), position=q.tolist())
            message.velocity = ((q - before) / PERIOD).tolist()
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
            self._publisher.publish(message)
            before, k = q, k + 1

    def close(self):
        self._ended.set()
        self._thread.join(5.0)
        assert not self._thread.is_alive(), "the robot still publishes after 5 s"


@pytest.fixture
def watched():
    """Return a client and the robot that it sees."""
    with ros(), contextlib.ExitStack() as stack:
        client = Client(ROBOT)
        stack.callback(client.close)
        robot = Robot(client)
        stack.callback(robot.close)
        yield client, robot


def test_a_joint_between_two_counts_of_its_encoder_rests(watched):
    client, robot = watched
    robot.motion = lambda k: np.array([0.5 + COUNT * (k % 2), -1.0, 0.0])
    np.testing.assert_allclose(client.position(), [0.5, -1.0, 0.0], atol=2 * COUNT)
    assert client.speed() > 0.005, "by its velocity it never does"
    client.wait_for_rest(0.005, 10.0)


def test_who_waits_for_rest_in_vain_is_told_whether_the_robot_moves_or_is_silent(watched):
    client, robot = watched
    robot.motion = lambda k: np.full(3, 0.02 * k * PERIOD)
    client.position()
    with pytest.raises(ClientError, match=r"rest took longer than 1 s; .* joint state is 0\.\d+ s old: q \[") as moving:
        client.wait_for_rest(0.005, 1.0)
    assert age(moving) < 0.5
    robot.motion = lambda k: None
    with pytest.raises(ClientError, match="rest took longer than 1 s") as silent:
        client.wait_for_rest(0.005, 1.0)
    assert age(silent) >= 0.9


def age(raised):
    """Return how old the last joint state was [s]."""
    return float(re.search(r"joint state is ([\d.]+) s old", str(raised.value))[1])
