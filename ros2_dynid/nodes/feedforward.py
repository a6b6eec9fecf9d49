"""Node feedforward: the torque of the identified model along a reference, to a controller that adds it.

By default `effort` is filled into the reference and passed on as joint_trajectory, to a controller that keeps control
when this node dies. Streamed torques (output: effort) go out as JointState and as Float64MultiArray: a forward command
controller applies the last one for ever if this node is killed.
"""

from __future__ import annotations

import threading
import time
from array import array
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.driver import Driver
from ros2_dynid.control.feedforward import Options
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.model.robot import Robot
from ros2_dynid.msg import BaseParameters, DynamicCoefficients
from ros2_dynid.nodes.fast import Stream, Ticker, unpacked
from ros2_dynid.nodes.lifecycle_node import OK, WARN, ManagedNode
from ros2_dynid.nodes.messages import (
    COMMANDS,
    JOINT_STATES,
    LATCHED,
    ahead,
    inertia_of,
    reference_of,
    trajectory_message,
)
from ros2_dynid.nodes.model_messages import check_same_robot, model_of_message
from ros2_dynid.nodes.parameters import FEEDFORWARD
from ros2_dynid.nodes.spin import run
from ros2_dynid.recording.live import LiveStates
from ros2_dynid.srv import FillEfforts, SetPayload


class FeedforwardNode(ManagedNode):
    """Takes references and models at any time; control.driver decides what torque goes out."""

    needs_robot = False

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("feedforward", FEEDFORWARD)
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._parts: list[Any] = []
        self._ticker: list[Ticker] = []
        self.autostart()

    def configure(self) -> None:
        """Make topics and services; load the model file."""
        self._trajectory = self.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        self._efforts = self.create_publisher(JointState, "feedforward_effort", COMMANDS)
        self._commands = self.create_publisher(Float64MultiArray, "effort_commands", COMMANDS)
        self._coefficients = self.create_publisher(DynamicCoefficients, "dynamic_coefficients", 10)
        self.create_subscription(BaseParameters, "base_parameters", self._on_parameters, LATCHED)
        self.create_service(FillEfforts, "~/fill_efforts", self._on_fill)
        self.create_service(SetPayload, "~/set_payload", self._on_payload)
        self.add_post_set_parameters_callback(lambda _: self._choose())
        self.needs_robot = bool(self.value("robot"))
        if self.value("model"):
            model = load_model(self.value("model"))
            self._use(model.robot, model.chi, self.value("model"))

    def on_robot(self, robot: Robot) -> None:
        """Refuse a model of another robot that is already there."""
        if self._driver is not None:
            check_same_robot(robot, self._driver.robot, self.value("model") or "base_parameters")

    def activate(self) -> None:
        """Listen, and tick."""
        self._parts = [
            Stream(self, JointTrajectory, "reference", self._on_reference, COMMANDS),
            Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.002, newest=True),
            Ticker(1 / self.value("background_rate"), self._background),
        ]
        self._choose()

    def deactivate(self) -> None:
        """Send no more; in effort mode the last torque is gravity's."""
        for part in [*self._parts, *self._ticker]:
            part.close()
        self._ticker = []
        with self._lock:
            if self._driver is not None and self.value("output") == "effort" and self._driver.used:
                self._publish(self._driver.final(time.monotonic()))

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Tell what it does."""
        driver = self._driver
        if driver is None:
            return WARN, "no model yet", {}
        return OK, driver.state, {"robot": driver.robot.name, "output": self.value("output"), "sent": driver.sent}

    def _choose(self) -> None:
        """Take the parameters as they are now; torques are streamed by a thread that runs only while they are."""
        stream = self.active and self.value("output") == "effort"
        if stream and not self._ticker:
            self._ticker = [Ticker(1 / self.value("rate"), self._tick)]
        elif not stream and self._ticker:
            self._ticker.pop().close()
        with self._lock:
            if self._driver is not None:
                names = ("gravity_only", "friction", "smoothing", "measured_gravity", "split")
                options = Options(ramp=self.value("ramp_seconds"), **{name: self.value(name) for name in names})
                self._driver.choose(options, self.value("timeout"), self.value("output") == "effort")

    def _use(self, robot: Robot, chi: np.ndarray, source: str) -> None:
        if self.robot is not None:
            check_same_robot(self.robot, robot, source)
        with self._lock:
            if self._driver is None or self._driver.robot.active_names != robot.active_names:
                self._driver = Driver(
                    robot, self.value("effort_limits"), self.robot or robot, self.value("joint_order")
                )
                self._states = LiveStates(robot.active_names)
                self._message = JointState(name=list(robot.active_names))
                self._choose()
            self._driver.take(robot, chi, time.monotonic())
        self.get_logger().info(f"model of {robot.name} from {source}")

    def _on_parameters(self, message: BaseParameters) -> None:
        try:
            self._use(*model_of_message(message), "base_parameters")
        except DynidError as error:
            self.get_logger().error(f"base_parameters refused: {error}")

    def _on_state(self, data: bytes) -> None:
        with self._lock:
            if self._driver is not None and self._states.take(data):
                self._driver.measured(self._states.q, self._states.dq)

    def _on_reference(self, data: bytes) -> None:
        if self._driver is None:
            self.get_logger().error("reference refused: there is no model yet", throttle_duration_sec=1.0)
            return
        try:
            message = unpacked(data, JointTrajectory)
            points, now = reference_of(message, self._driver.robot), time.monotonic()
            with self._lock:
                if self.value("output") == "effort":
                    self._publish(self._driver.follow(points, now + ahead(message.header.stamp, self.now_ns())))
                else:
                    filled = self._driver.filled(points, self.value("point_rate"))
                    self._trajectory.publish(
                        trajectory_message(filled, self._driver.robot.active_names, message.header.stamp)
                    )
        except DynidError as error:
            self.get_logger().error(f"reference refused: {error}", throttle_duration_sec=1.0)

    def _tick(self) -> None:
        with self._lock:
            if self._driver is not None:
                self._publish(self._driver.tick(time.monotonic()))
                for text in self._driver.news():
                    self.get_logger().info(text)

    def _publish(self, tau: np.ndarray | None) -> None:
        if tau is None:
            return
        self._message.effort = array("d", tau)
        stamp = self._message.header.stamp
        stamp.sec, stamp.nanosec = divmod(time.time_ns(), 1_000_000_000)
        self._efforts.publish(self._message)
        self._commands.publish(Float64MultiArray(data=array("d", self._driver.ordered(tau))))

    def _background(self) -> None:
        with self._lock:
            found = None if self._driver is None else self._driver.background()
        if found is None:
            return
        message = DynamicCoefficients(joint_names=list(self._driver.robot.active_names))
        message.header.stamp = self.get_clock().now().to_msg()
        message.position, message.velocity = array("d", found.q), array("d", found.dq)
        message.inertia = array("d", found.M.ravel())
        message.velocity_torque, message.gravity_torque = array("d", found.C), array("d", found.Q)
        self._coefficients.publish(message)

    def _on_fill(self, request: FillEfforts.Request, response: FillEfforts.Response) -> FillEfforts.Response:
        try:
            driver = self._needed()
            points = driver.filled(reference_of(request.trajectory, driver.robot), None)
            response.trajectory = trajectory_message(points, driver.robot.active_names, request.trajectory.header.stamp)
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response

    def _on_payload(self, request: SetPayload.Request, response: SetPayload.Response) -> SetPayload.Response:
        try:
            driver = self._needed()
            load = inertia_of(request.payload, self.robot or driver.robot, request.link)
            with self._lock:
                driver.load(*load, time.monotonic())
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response

    def _needed(self) -> Driver:
        if self._driver is None:
            raise DynidError("there is no model yet; load one, or publish base_parameters")
        return self._driver


def main() -> int:
    """Run the node."""
    return run(FeedforwardNode)


if __name__ == "__main__":
    main()
