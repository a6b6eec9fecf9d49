# SPDX-License-Identifier: Apache-2.0

"""What is known of the controller that we send to, where ros2_control's controller_manager can be asked."""

from __future__ import annotations

import threading
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node

from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.qos import LATCHED

PATIENCE = 1.0
"""Time [s] for the controller manager, or the controller, to answer: it is asked, but nobody depends on it."""
FROM_DESIRED = "interpolate_from_desired_state"
"""Parameter of joint_trajectory_controller: without it a stop begins with a step back to the measured state."""


class Controllers:
    """Asks MANAGER/list_controllers and listens to MANAGER/activity, as far as its messages are installed."""

    def __init__(self, node: Node, manager: str) -> None:
        """Ask the controller manager of this name; an empty one asks nobody."""
        self._node, self._manager = node, node.resolve_service_name(manager) if manager else ""
        self._group = ReentrantCallbackGroup()
        self._client: Any = None
        self._parameters: Any = None
        self._states: dict[str, str] = {}
        self._loaded: set[str] = set()
        if manager:
            try:
                from controller_manager_msgs.srv import ListControllers
            except ImportError:
                return
            self._kind = ListControllers
            self._client = node.create_client(
                ListControllers, f"{self._manager}/list_controllers", callback_group=self._group
            )
            self._listen()

    def _listen(self) -> None:
        """Hear at once of a controller that is switched; older controller managers do not tell."""
        try:
            from controller_manager_msgs.msg import ControllerManagerActivity
        except ImportError:
            return
        self._node.create_subscription(
            ControllerManagerActivity,
            f"{self._manager}/activity",
            self._on_activity,
            LATCHED,
            callback_group=MutuallyExclusiveCallbackGroup(),  # one after the other: the last one holds
        )

    def _on_activity(self, message: Any) -> None:
        self._states = {controller.name: controller.state.label for controller in message.controllers}
        self._loaded |= self._states.keys()

    def problem(self, way: str) -> str:
        """Return that the controller behind the topic or action `way` is known not to be active, or nothing ("")."""
        name = controller_of(way, self._manager)
        state = self._states.get(name, "unloaded" if name in self._loaded else "active")
        return "" if state == "active" else f"the controller {name} is {state}"

    def check(self, way: str) -> str:
        """Refuse if the controller behind the topic or action `way` is known not to be active; return what is known."""
        if self._client is None:
            return "the controller's state is not known: controller_manager_msgs is not installed"
        if not self._client.service_is_ready():
            return f"the controller's state is not known: there is no {self._manager}"
        answer = self._answer(self._client, self._kind.Request())
        if answer is None:
            return f"the controller's state is not known: {self._manager} does not answer"
        name = controller_of(way, self._manager)
        states = {controller.name: controller.state for controller in answer.controller}
        if name not in states:
            return f"the controller's state is not known: {self._manager} has no controller {name!r}"
        if states[name] != "active":
            raise InputError(
                f"the controller {name} is {states[name]}",
                f"activate it: ros2 control switch_controllers --activate {name}",
            )
        return f"the controller {name} is active"

    def advice(self, way: str) -> str:
        """Return what should be set otherwise in a joint_trajectory_controller behind `way`, or nothing ("")."""
        name = controller_of(way, self._manager)
        if self._client is None or not name:
            return ""
        if self._parameters is None:
            service = f"{way.rstrip('/').rsplit('/', 1)[0]}/get_parameters"
            self._parameters = self._node.create_client(GetParameters, service, callback_group=self._group)
            self._parameters.wait_for_service(PATIENCE)
        if not self._parameters.service_is_ready():
            return ""
        answer = self._answer(self._parameters, GetParameters.Request(names=[FROM_DESIRED]))
        values = [] if answer is None else answer.values
        if not values or values[0].type != ParameterType.PARAMETER_BOOL or values[0].bool_value:
            return ""
        return (
            f"the controller {name} begins every trajectory at the measured state, so that starts and stops begin with"
            f" a step to it: set its parameter {FROM_DESIRED} to true"
        )

    def _answer(self, client: Any, request: Any) -> Any:
        """Return the response of a service, or None if there is none in time."""
        done = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        if not done.wait(PATIENCE):
            client.remove_pending_request(future)
            return None
        return future.result()


def controller_of(way: str, manager: str) -> str:
    """Return the name by which a manager lists the controller behind a topic or action, "" if it is another manager's.

    That is the full name, such as /left/arm_controller/joint_trajectory, without its end and the manager's namespace:
    controllers of one name in two namespaces are two.
    """
    controller, space = way.strip("/").rpartition("/")[0], manager.strip("/").rpartition("/")[0]
    if not space:
        return controller
    return controller.removeprefix(f"{space}/") if controller.startswith(f"{space}/") else ""
