# SPDX-License-Identifier: Apache-2.0

"""What the feedforward node sends: torques, trajectories with efforts, and the dynamic coefficients."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from builtin_interfaces.msg import Time
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.feedforward import TorqueCoefficients
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.torque_limiter import LimitedTorque
from ros2_dynid.msg import DynamicCoefficients
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS


class TorqueOutput:
    """Publishers; the messages of torques are made once for their joints and filled each time."""

    def __init__(self, node: Node, now_ns: Callable[[], int]) -> None:
        """Advertise the topics of `node`, whose clock says now_ns()."""
        self._now_ns = now_ns
        self.efforts = node.create_publisher(JointState, "feedforward_effort", COMMANDS)
        self._commands = node.create_publisher(Float64MultiArray, "effort_commands", COMMANDS)
        self._trajectories = node.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        self._coefficients = node.create_publisher(DynamicCoefficients, "dynamic_coefficients", 10)
        self._state, self._command = JointState(), Float64MultiArray()
        self._names: tuple[str, ...] = ()

    def send(self, torque: LimitedTorque) -> None:
        """Send torques: by name in the robot's order, and as commands in the order of joint_order."""
        if self._commands.get_subscription_count():
            self._command.data = array("d", torque.command)
            self._commands.publish(self._command)
        if self.efforts.get_subscription_count():
            state, stamp = self._state, self._state.header.stamp
            if self._names is not torque.joint_names:
                self._names, state.name = torque.joint_names, list(torque.joint_names)
            stamp.sec, stamp.nanosec = divmod(self._now_ns(), 1_000_000_000)
            state.effort = array("d", torque.tau)
            self.efforts.publish(state)

    def pass_on(self, trajectory: Reference, stamp: Time | None) -> None:
        """Send a trajectory with efforts to the controller; without a stamp it starts when it arrives."""
        self._trajectories.publish(trajectory_message(trajectory, stamp))

    @property
    def wants_coefficients(self) -> bool:
        """Whether somebody listens to the coefficients."""
        return bool(self._coefficients.get_subscription_count())

    def send_coefficients(self, coefficients: TorqueCoefficients) -> None:
        """Send M, C and Q."""
        message = DynamicCoefficients(joint_names=list(coefficients.joint_names))
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self._now_ns(), 1_000_000_000)
        message.position, message.velocity = array("d", coefficients.q), array("d", coefficients.dq)
        message.inertia = array("d", coefficients.M.ravel())
        message.velocity_torque, message.gravity_torque = array("d", coefficients.C), array("d", coefficients.Q)
        self._coefficients.publish(message)
