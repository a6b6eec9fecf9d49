"""What the feedforward node is asked and told: efforts of a whole trajectory, a payload, new base parameters."""

from __future__ import annotations

import time
from typing import Any

from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.driver import Driver
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.fast import unpacked
from ros2_dynid.nodes.common.messages import COMMANDS, LATCHED, ahead, inertia_of, reference_of, trajectory_message
from ros2_dynid.nodes.common.model_messages import check_same_robot, model_of_message
from ros2_dynid.recording.live import LiveStates
from ros2_dynid.recording.live_points import LivePoints
from ros2_dynid.srv import FillEfforts, SetPayload


class FeedforwardServices:
    """Answers ~/fill_efforts and ~/set_payload, and listens to base_parameters."""

    def __init__(self, node: Any, lock: Any) -> None:
        """Offer the services of `node`, whose driver `lock` guards."""
        self._node, self._lock = node, lock
        self._passed_on = node.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        node.create_service(FillEfforts, "~/fill_efforts", self._on_fill)
        node.create_service(SetPayload, "~/set_payload", self._on_payload)
        node.create_subscription(BaseParameters, "base_parameters", self._on_parameters, LATCHED)

    def use(self, robot: Robot, chi: Array, source: str) -> None:
        """Take a model, gradually if there is one already; one of another robot is refused."""
        node = self._node
        if node.robot is not None:
            check_same_robot(node.robot, robot, source)
        with self._lock:
            if node.driver is None or node.driver.robot.active_names != robot.active_names:
                limits, order = node.value("effort_limits"), node.value("joint_order")
                node.driver = Driver(robot, limits, node.robot or robot, order)
                node.states, node.points = LiveStates(robot.active_names), LivePoints(robot.active_names)
                node.choose()
            node.driver.take(robot, chi, time.monotonic())
        node.get_logger().info(f"model of {robot.name} from {source}")

    def needed(self) -> Driver:
        """Return what decides on the torque, or refuse what needs a model."""
        if self._node.driver is None:
            raise InputError("there is no model yet", "load one, or publish base_parameters")
        return self._node.driver

    def follow(self, data: bytes, now: float) -> None:
        """Follow a serialized JointTrajectory: by torques, or by passing it on with effort in its points."""
        node = self._node
        try:
            message, driver = unpacked(data, JointTrajectory), self.needed()
            points = reference_of(message, driver.robot)
            with self._lock:
                if node.streaming:
                    begin = now + ahead(message.header.stamp, node.now_ns())
                    node.output.send(driver.follow(points, begin), driver)
                else:
                    filled = driver.filled(points, node.value("point_rate"))
                    self._passed_on.publish(trajectory_message(filled, message.header.stamp))
        except DynidError as error:
            node.get_logger().error(f"reference refused: {error}", throttle_duration_sec=1.0)

    def _on_parameters(self, message: BaseParameters) -> None:
        try:
            self.use(*model_of_message(message), "base_parameters")
        except DynidError as error:
            self._node.get_logger().error(f"base_parameters refused: {error}")

    def _on_fill(self, request: FillEfforts.Request, response: FillEfforts.Response) -> FillEfforts.Response:
        try:
            driver, wanted = self.needed(), request.trajectory
            points = driver.filled(reference_of(wanted, driver.robot), None)
            response.trajectory = trajectory_message(points, wanted.header.stamp)
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response

    def _on_payload(self, request: SetPayload.Request, response: SetPayload.Response) -> SetPayload.Response:
        try:
            driver = self.needed()
            load = inertia_of(request.payload, self._node.robot or driver.robot, request.link)
            with self._lock:
                driver.load(*load, time.monotonic())
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response
