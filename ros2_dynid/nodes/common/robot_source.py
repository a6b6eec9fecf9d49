"""Where a node gets its robot from: a file named by a parameter, or the topic robot_description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from std_msgs.msg import String

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.jobs import robot_request
from ros2_dynid.model.load import load_robot, robot_from_urdf_string, urdf_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.messages import LATCHED


class RobotSource:
    """Finds the robot of `node` and passes it to on_robot, again whenever a new description comes."""

    def __init__(self, node: Any, on_robot: Callable[[Robot], None]) -> None:
        """Know nothing until find() is called."""
        self._node, self._on_robot = node, on_robot
        self._subscribed = False
        self.robot: Robot | None = None
        self.text = ""

    def find(self) -> None:
        """Read the file, or wait for the description."""
        path = self._node.value("robot")
        if path:
            robot = load_robot(path, **self._chain())
            urdf = urdf_of(path)[0]
            self.text = urdf.read_text(encoding="utf-8") if urdf else ""
            self._take(robot)
        elif not self._subscribed:
            self._subscribed = True
            self._node.create_subscription(String, "robot_description", self._on_description, LATCHED)

    def forget(self) -> None:
        """Go back to knowing nothing."""
        self.robot, self.text, self._subscribed = None, "", False

    def known(self) -> Robot:
        """Return the robot, or refuse what needs it."""
        if self.robot is None:
            raise InputError("the robot is not known yet", "publish robot_description or set the parameter robot")
        return self.robot

    def request(self) -> dict[str, str]:
        """Return how a job in another process finds the robot."""
        value = self._node.value
        path = value("robot")
        return robot_request(path, "" if path else self.text, value("base_link"), value("tip_link"))

    def _chain(self) -> dict[str, Any]:
        return {name: self._node.value(name) or None for name in ("base_link", "tip_link")}

    def _on_description(self, message: String) -> None:
        try:
            robot = robot_from_urdf_string(message.data, **self._chain())
            self.text = message.data
            self._take(robot)
        except DynidError as error:
            self._node.get_logger().error(f"robot_description: {error}")

    def _take(self, robot: Robot) -> None:
        before, self.robot = self.robot, robot
        try:
            self._on_robot(robot)
        except DynidError:
            self.robot = before
            raise
        self._node.get_logger().info(f"robot {robot.name}: {len(robot.active)} joints")
