# SPDX-License-Identifier: Apache-2.0

"""What the panel hears."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from in_process import joint_state, ros, soon, spun
from ros2_dynid.control.reference import reference
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS
from ros2_dynid.nodes.panel.listening import Listening

pytestmark = [pytest.mark.in_process, pytest.mark.timeout(60)]
ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
STRANGE = trajectory_message(reference(("left",), np.ones(1), np.ones((1, 1))))


class Panel(Node):
    """A node that knows its robot, and whose clock a test sets."""

    robot, now = ROBOT, 100.0

    def now_ns(self):
        return round(self.now * 1e9)


class Scene:
    """What the panel hears of what is published here, once it has arrived."""

    def __init__(self):
        self.node = Panel("panel")
        self.heard = Listening(self.node, 0.005, lambda plan: None)
        self._states = self.node.create_publisher(JointState, "joint_states", 10)
        self._sent = self.node.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        self._taken = 0
        self.node.create_subscription(JointTrajectory, "joint_trajectory", self._take, COMMANDS)

    def _take(self, _):
        self._taken += 1

    def send(self, message, stamp=None):
        """Publish a trajectory, the subscription made after the panel's having got it too."""
        if stamp is not None:
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(stamp * 1e9), 10**9)
        taken = self._taken
        soon(lambda: self._sent.get_subscription_count() == 2, "both subscriptions")
        self._sent.publish(message)
        soon(lambda: self._taken > taken, "the trajectory")

    def state(self, stamp):
        """Publish a joint state with this stamp [s]."""
        soon(lambda: self._states.get_subscription_count() == 1, "the subscription")
        self._states.publish(joint_state(NAMES, (0, 0, 0), stamp=round(stamp * 1e9)))
        soon(lambda: self.heard.measured.states.state.stamp == round(stamp * 1e9), "the joint state")

    def shows(self, expected, why):
        def right():
            found = self.heard.reference()
            return found is not None and np.allclose(found, expected)

        soon(right, f"{why}: {expected}", 5.0)


@pytest.fixture
def scene():
    with ros():
        made = Scene()
        with spun(made.node, threads=1):
            yield made
            made.heard.close()


def way():
    """Return a trajectory of two seconds along which every joint has another speed."""
    return trajectory_message(reference(NAMES, np.array([0.0, 2.0]), np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]])))


def test_the_reference_is_that_of_the_joint_state_shown(scene):
    node = scene.node
    assert scene.heard.reference() is None
    scene.send(way(), 100.5)
    node.now = 101.0
    scene.shows((0.5, 1.0, 1.5), "no joint state: now")
    scene.state(100.75)
    scene.shows((0.25, 0.5, 0.75), "a joint state that is late")
    scene.state(99.5)
    scene.shows((0.5, 1.0, 1.5), "one by another clock")
    scene.state(0.0)
    scene.shows((0.5, 1.0, 1.5), "a driver that does not stamp: now")
    node.now = 103.4
    scene.shows((2.0, 4.0, 6.0), "at its end")
    node.now = 103.6
    assert scene.heard.reference() is None, "a second after its end"
    node.now = 200.0
    scene.send(way())
    node.now = 201.0
    scene.shows((1.0, 2.0, 3.0), "without a stamp it began on arrival")
    scene.send(STRANGE)
    scene.shows((1.0, 2.0, 3.0), "that of others is nothing to show")
