"""Whether the controller that we send to is active, where ros2_control's controller_manager can be asked."""

from __future__ import annotations

import threading
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from ros2_dynid.errors import InputError

PATIENCE = 1.0
"""Time [s] for the controller manager to answer: it is asked, but nobody depends on it."""


class Controllers:
    """Asks MANAGER/list_controllers; without controller_manager_msgs or without a manager nothing is known."""

    def __init__(self, node: Node, manager: str) -> None:
        """Ask the controller manager of this name; an empty one asks nobody."""
        self._manager = manager
        self._client: Any = None
        if manager:
            try:
                from controller_manager_msgs.srv import ListControllers
            except ImportError:
                return
            self._kind = ListControllers
            group = ReentrantCallbackGroup()
            self._client = node.create_client(ListControllers, f"{manager}/list_controllers", callback_group=group)

    def check(self, way: str) -> str:
        """Refuse if the controller behind the topic or action `way` is known not to be active; return what is known."""
        if self._client is None:
            return "the controller's state is not known: controller_manager_msgs is not installed"
        if not self._client.service_is_ready():
            return f"the controller's state is not known: there is no {self._manager}"
        done = threading.Event()
        future = self._client.call_async(self._kind.Request())
        future.add_done_callback(lambda _: done.set())
        if not done.wait(PATIENCE):
            return f"the controller's state is not known: {self._manager} does not answer"
        name = controller_of(way)
        states = {controller.name: controller.state for controller in future.result().controller}
        if name not in states:
            return f"the controller's state is not known: {self._manager} has no controller {name!r}"
        if states[name] != "active":
            raise InputError(
                f"the controller {name} is {states[name]}",
                f"activate it: ros2 control switch_controllers --activate {name}",
            )
        return f"the controller {name} is active"


def controller_of(way: str) -> str:
    """Return the controller's name from its topic or action, such as /arm_controller/joint_trajectory."""
    parts = way.strip("/").split("/")
    return parts[-2] if len(parts) > 1 else ""
