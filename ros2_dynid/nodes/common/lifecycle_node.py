# SPDX-License-Identifier: Apache-2.0

"""A managed node: described parameters, the robot from a parameter or robot_description, diagnostics, autostart."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.parameters import COMMON, Described, Value
from ros2_dynid.nodes.common.qos import SERVICES
from ros2_dynid.nodes.common.rclpy_private import check_rclpy, state_label
from ros2_dynid.nodes.common.robot_finder import RobotFinder

if TYPE_CHECKING:
    from ros2_dynid.usecases.robot_source import RobotSource

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
NodeStatus = tuple[bytes, str, Mapping[str, object]]
"""Level, message and values."""
TASK = "state"
PERIOD = 1.0
"""Name and period [s] of what a node says of itself on /diagnostics."""


class ManagedNode(LifecycleNode):
    """Base of the nodes: on_robot(robot) is called once the robot is known, status() once a second for diagnostics."""

    needs_robot = True

    def __init__(self, name: str, parameters: Sequence[Described]) -> None:
        """Declare the parameters; a parameter out of its range ends the node with one line."""
        super().__init__(name)
        self._described = {parameter.name: parameter for parameter in (*COMMON, *parameters)}
        self.active = self._configured = False
        for parameter in self._described.values():
            self._declare(parameter)
        self.add_on_set_parameters_callback(self._on_set)
        self.add_post_set_parameters_callback(self._on_changed)
        self._source = RobotFinder(self, self.value, self.on_robot)
        publish_diagnostics(self, self.status)
        if warning := check_rclpy():
            self.get_logger().warning(warning)
        self.create_timer(
            1.0, lambda: self.raise_priority() if self.active else None
        )  # threads come as they are needed

    def value(self, name: str) -> Any:
        """Return a parameter's value now."""
        return self.get_parameter(name).value

    def autostart(self) -> None:
        """Configure and activate, if the parameter says so."""
        if self.value("autostart"):
            self.trigger_configure()
            if state_label(self) == "inactive":
                self.trigger_activate()

    def create_service(self, srv_type: Any, srv_name: str, callback: Any, **more: Any) -> Any:
        """Offer a service whose requests wait until they are answered, however many come at once."""
        return super().create_service(srv_type, srv_name, callback, **{"qos_profile": SERVICES, **more})

    def now_ns(self) -> int:
        """Return the time of the node's clock [ns]: the robot's if use_sim_time is set."""
        return int(self.get_clock().now().nanoseconds)

    @property
    def robot(self) -> Robot | None:
        """The robot, once it is known."""
        return self._source.robot

    @property
    def description_text(self) -> str:
        """The URDF's text, as far as the robot came as a URDF."""
        return self._source.text

    @property
    def base_link(self) -> str:
        """The frame of the robot's base."""
        return self._source.base_link

    def known_robot(self) -> Robot:
        """Return the robot, or refuse what needs it."""
        return self._source.known()

    def robot_source(self) -> RobotSource:
        """Return how a use case in another process finds the robot, or refuse what needs it."""
        return self._source.source()

    def raise_priority(self) -> None:
        """Give the threads there are now the real-time priority of the parameter `priority`, if there is one."""
        wanted = self.value("priority") if self.has_parameter("priority") else 0
        if wanted and not raise_priority(wanted):
            self.get_logger().info("no real-time priority: allow it by ulimit -r, or set priority to 0", once=True)

    # --- parameters

    def _declare(self, parameter: Described) -> None:
        try:
            value: Any = self.declare_parameter(parameter.name, parameter.default, parameter.descriptor()).value
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise InputError(f"parameter {parameter.name}: {error}", "correct it", self.get_name()) from None
        if problem := parameter.problem(value):
            raise InputError(f"parameter {problem}", "correct it", self.get_name())

    def _on_set(self, changes: Sequence[Parameter[Any]]) -> SetParametersResult:
        """Refuse with one line what has no effect or no meaning; nothing is changed then."""
        state = {"configured": self._configured, "active": self.active}
        ours = {change.name: change.value for change in changes if change.name in self._described}
        problems = [self._described[name].problem(value, **state) for name, value in ours.items()]
        reason = next((problem for problem in problems if problem), "")
        try:
            if ours and not reason:
                self.check_parameters(ours)
        except DynidError as error:
            reason = str(error)
        return SetParametersResult(successful=not reason, reason=reason)

    def _on_changed(self, changes: Sequence[Parameter[Any]]) -> None:
        ours = {change.name: change.value for change in changes if change.name in self._described}
        if ours:
            self.parameters_changed(ours)

    # --- what a node fills in

    def check_parameters(self, changes: Mapping[str, Value]) -> None:
        """Raise DynidError to refuse new values that are in their ranges but do not fit; before they are set."""

    def parameters_changed(self, changes: Mapping[str, Value]) -> None:
        """Let new values take effect; called after they are set."""

    def configure(self) -> None:
        """Make publishers, subscriptions and services."""

    def activate(self) -> None:
        """Start to act."""

    def deactivate(self) -> None:
        """Stop acting, safely."""

    def on_robot(self, robot: Robot) -> None:
        """Take the robot."""

    def status(self) -> NodeStatus:
        """Return level, message and values for /diagnostics."""
        return OK, "", {}

    def close(self) -> None:
        """Save what is to be saved; the process ends."""
        if self.active:
            self.deactivate()

    # --- transitions

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make the interfaces and get the robot; bad input is one line in the log and a failed transition."""
        self._kept = {id(entity) for entities, _ in self._entities() for entity in entities}
        try:
            self.configure()
            if self.needs_robot:
                self._source.find()
        except (DynidError, OSError) as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # rclpy would drop it without a word
            self.get_logger().fatal(f"{type(error).__name__}: {error}")
            raise
        self._configured = True
        return super().on_configure(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take down what configure() made."""
        for entities, destroy in self._entities():
            for entity in [entity for entity in entities if id(entity) not in self._kept]:
                destroy(entity)
        self._source.forget()
        self._configured = False
        return super().on_cleanup(state)

    def _entities(self) -> list[tuple[list[Any], Any]]:
        """Return what the node has, with what destroys it; actions stay, as executors hang on one taken away."""
        return [
            (list(self.publishers), self.destroy_publisher),
            (list(self.subscriptions), self.destroy_subscription),
            (list(self.services), self.destroy_service),
            (list(self.timers), self.destroy_timer),
        ]

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to act."""
        self.active = True
        self.activate()
        self.raise_priority()
        return super().on_activate(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop acting, safely, also when it is shut down while active: rclpy itself would not deactivate it."""
        if self.active:
            self.deactivate()
            self.active = False
        return super().on_shutdown(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop acting, safely."""
        self.deactivate()
        self.active = False
        return super().on_deactivate(state)


def raise_priority(priority: int) -> bool:
    """Schedule all threads there are now first in, first out with `priority` (1 to 99); return whether that is allowed.

    For nodes that others wait for, where the system grants it (ulimit -r, or CAP_SYS_NICE). Processes and threads
    started later are ordinary ones again: a compiler must not run before everything else.
    """
    try:
        for thread in Path("/proc/self/task").iterdir():
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
    except (OSError, AttributeError):  # not allowed, or not Linux
        return False
    return True


def publish_diagnostics(node: Node, status: Callable[[], NodeStatus]) -> None:
    """Publish status() of `node` every second as `NAME: state`, NAME with its namespace, as long as the node lives."""
    name = node.get_fully_qualified_name().strip("/")
    try:
        from diagnostic_updater import Updater
    except ImportError:
        publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 1)
        node.create_timer(PERIOD, lambda: publisher.publish(_array(node, f"{name}: {TASK}", status())))
        return
    updater = Updater(node, PERIOD)
    updater.setHardwareID("none")
    updater.node_name = name
    updater.add(TASK, lambda wrapper: _filled(wrapper, status()))


def _array(node: Node, name: str, status: NodeStatus) -> DiagnosticArray:
    level, message, values = status
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    array = DiagnosticArray(
        status=[DiagnosticStatus(level=level, name=name, message=message, hardware_id="none", values=pairs)]
    )
    array.header.stamp = node.get_clock().now().to_msg()
    return array


def _filled(wrapper: Any, status: NodeStatus) -> Any:
    level, message, values = status
    wrapper.summary(level, message)
    for key, value in values.items():
        wrapper.add(key, str(value))
    return wrapper
