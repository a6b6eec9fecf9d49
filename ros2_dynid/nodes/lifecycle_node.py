"""A managed node: described parameters, the robot from a parameter or from robot_description, diagnostics, autostart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import String

from ros2_dynid.errors import DynidError
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.messages import LATCHED

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


@dataclass(frozen=True)
class Described:
    """A parameter: its default, what it means with its unit, and the range it may have."""

    name: str
    default: Any
    text: str
    lower: float | None = None
    upper: float | None = None

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor that `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(description=self.text)
        if self.lower is not None and self.upper is not None:
            if isinstance(self.default, int):
                descriptor.integer_range = [IntegerRange(from_value=int(self.lower), to_value=int(self.upper), step=0)]
            else:
                descriptor.floating_point_range = [FloatingPointRange(from_value=self.lower, to_value=self.upper)]
        return descriptor


COMMON = (
    Described("autostart", True, "configure and activate at start, without a lifecycle manager"),
    Described("robot", "", "URDF or robot file (path, or name of a shipped robot); empty: wait for robot_description"),
    Described("base_link", "", "link of the URDF that stands still; empty: its root"),
    Described("tip_link", "", "keep only the joints between base_link and this link; empty: all"),
)


class ManagedNode(LifecycleNode):
    """Base of the nodes: on_robot(robot) is called once the robot is known, status() once a second for diagnostics."""

    def __init__(self, name: str, parameters: Sequence[Described]) -> None:
        """Declare the parameters; a parameter out of its range ends the node with one line."""
        super().__init__(name)
        for parameter in (*COMMON, *parameters):
            self.declare_parameter(parameter.name, parameter.default, parameter.descriptor())
        self.robot: Robot | None = None
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
            self._find_robot()
        except (DynidError, OSError) as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
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
            self._take(load_robot(path, **chain))
        elif self._description is None:
            self._description = self.create_subscription(
                String, "robot_description", lambda message: self._on_description(message, chain), LATCHED
            )

    def _on_description(self, message: String, chain: dict[str, Any]) -> None:
        try:
            self._take(robot_from_urdf_string(message.data, **chain))
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
