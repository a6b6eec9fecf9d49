"""A managed node: described parameters, the robot from a parameter or robot_description, diagnostics, autostart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import String

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.jobs import robot_request
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.messages import LATCHED
from ros2_dynid.nodes.parameters import COMMON, Described

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class ManagedNode(LifecycleNode):
    """Base of the nodes: on_robot(robot) is called once the robot is known, status() once a second for diagnostics."""

    needs_robot = True

    def __init__(self, name: str, parameters: Sequence[Described]) -> None:
        """Declare the parameters; a parameter out of its range ends the node with one line."""
        super().__init__(name)
        for parameter in (*COMMON, *parameters):
            self.declare_parameter(parameter.name, parameter.default, parameter.descriptor())
        self.robot: Robot | None = None
        self.description_text = ""
        """The URDF's text, as far as the robot came as a URDF."""
        self.active = False
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._pulse = self.create_timer(1.0, self._publish_status)
        self._description: Any = None

    def value(self, name: str) -> Any:
        """Return a parameter's value now."""
        return self.get_parameter(name).value

    def autostart(self) -> None:
        """Configure and activate, if the parameter says so."""
        if self.value("autostart"):
            self.trigger_configure()
            if self._state_machine.current_state[1] == "inactive":
                self.trigger_activate()

    def now_ns(self) -> int:
        """Return the time of the node's clock [ns]: the robot's if use_sim_time is set."""
        return int(self.get_clock().now().nanoseconds)

    def known_robot(self) -> Robot:
        """Return the robot, or refuse what needs it."""
        if self.robot is None:
            raise InputError("the robot is not known yet", "publish robot_description or set the parameter robot")
        return self.robot

    def robot_request(self) -> dict[str, str]:
        """Return how a job in another process finds the robot."""
        path = self.value("robot")
        return robot_request(
            path, "" if path else self.description_text, self.value("base_link"), self.value("tip_link")
        )

    # --- what a node fills in

    def configure(self) -> None:
        """Make publishers, subscriptions and services."""

    def activate(self) -> None:
        """Start to act."""

    def deactivate(self) -> None:
        """Stop acting, safely."""

    def on_robot(self, robot: Robot) -> None:
        """Take the robot."""

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Return level, message and values for /diagnostics."""
        return OK, "", {}

    def close(self) -> None:
        """Save what is to be saved; the process ends."""
        if self.active:
            self.deactivate()

    # --- transitions

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make the interfaces and get the robot; bad input is one line in the log and a failed transition."""
        try:
            self.configure()
            if self.needs_robot:
                self._find_robot()
        except (DynidError, OSError) as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # rclpy would drop it without a word
            self.get_logger().fatal(f"{type(error).__name__}: {error}")
            raise
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to act."""
        self.active = True
        self.activate()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop acting, safely."""
        self.deactivate()
        self.active = False
        return super().on_deactivate(state)

    def _find_robot(self) -> None:
        from ros2_dynid.model.load import load_robot

        chain = {"base_link": self.value("base_link") or None, "tip_link": self.value("tip_link") or None}
        path = self.value("robot")
        if path:
            robot = load_robot(path, **chain)
            self.description_text = Path(path).read_text() if path.endswith(".urdf") else ""
            self._take(robot)
        elif self._description is None:
            self._description = self.create_subscription(
                String, "robot_description", lambda message: self._on_description(message, chain), LATCHED
            )

    def _on_description(self, message: String, chain: dict[str, Any]) -> None:
        try:
            robot = robot_from_urdf_string(message.data, **chain)
            self.description_text = message.data
            self._take(robot)
        except DynidError as error:
            self.get_logger().error(f"robot_description: {error}")

    def _take(self, robot: Robot) -> None:
        self.on_robot(robot)
        self.robot = robot
        self.get_logger().info(f"robot {robot.name}: {len(robot.active)} joints")

    def _publish_status(self) -> None:
        level, message, values = self.status()
        name = self.get_fully_qualified_name()
        pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        status = DiagnosticStatus(level=level, name=name.strip("/"), message=message, hardware_id="", values=pairs)
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)
