"""What the feedforward node sends: torques as JointState and as commands, and the dynamic coefficients."""

from __future__ import annotations

import time
from array import array
from typing import Any

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from ros2_dynid.control.driver import Driver
from ros2_dynid.control.feedforward import Coefficients
from ros2_dynid.model.robot import Array
from ros2_dynid.msg import DynamicCoefficients
from ros2_dynid.nodes.common.messages import COMMANDS


class TorqueOutput:
    """Publishers with messages made once and filled each time."""

    def __init__(self, node: Any) -> None:
        """Advertise the topics of `node`."""
        self._node = node
        self._efforts = node.create_publisher(JointState, "feedforward_effort", COMMANDS)
        self._commands = node.create_publisher(Float64MultiArray, "effort_commands", COMMANDS)
        self._coefficients = node.create_publisher(DynamicCoefficients, "dynamic_coefficients", 10)
        self._state, self._command = JointState(), Float64MultiArray()

    def send(self, tau: Array | None, driver: Driver) -> None:
        """Send torques, shape (n,), in the robot's order and in that of effort_commands."""
        if tau is None:
            return
        if self._commands.get_subscription_count():
            self._command.data = array("d", driver.ordered(tau))
            self._commands.publish(self._command)
        if self._efforts.get_subscription_count():
            state, stamp = self._state, self._state.header.stamp
            if len(state.name) != len(tau):
                state.name = list(driver.robot.active_names)
            stamp.sec, stamp.nanosec = divmod(time.time_ns(), 1_000_000_000)
            state.effort = array("d", tau)
            self._efforts.publish(state)

    def send_coefficients(self, found: Coefficients | None, driver: Driver) -> None:
        """Send M, C and Q."""
        if found is None:
            return
        message = DynamicCoefficients(joint_names=list(driver.robot.active_names))
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.position, message.velocity = array("d", found.q), array("d", found.dq)
        message.inertia = array("d", found.M.ravel())
        message.velocity_torque, message.gravity_torque = array("d", found.C), array("d", found.Q)
        self._coefficients.publish(message)
