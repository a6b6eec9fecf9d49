# SPDX-License-Identifier: Apache-2.0

"""Where a node gets its robot from: a file named by a parameter, or the topic robot_description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rclpy.node import Node
from std_msgs.msg import String

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.load import load_robot, robot_from_urdf_string, urdf_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.urdf import parse_urdf
from ros2_dynid.nodes.common.answers import reason
from ros2_dynid.nodes.common.qos import LATCHED

if TYPE_CHECKING:
    from ros2_dynid.usecases.robot_source import RobotSource

BASE_LINK = "base_link"
"""Name of the base link of a robot that is given by a table, without links."""


@dataclass(frozen=True)
class FoundRobot:
    """A robot, the URDF's text if it came as one, and the name of its base link."""

    robot: Robot
    text: str
    base_link: str


class RobotFinder:
    """Finds the robot and passes it to on_robot, again whenever a description comes that differs."""

    def __init__(self, node: Node, parameter: Callable[[str], str], on_robot: Callable[[Robot], None]) -> None:
        """Know nothing until find() is called; parameter(name) is robot, base_link or tip_link now."""
        self._node, self._parameter, self._on_robot = node, parameter, on_robot
        self._subscribed = False
        self._known: FoundRobot | None = None

    @property
    def robot(self) -> Robot | None:
        """The robot, once it is known."""
        return None if self._known is None else self._known.robot

    @property
    def text(self) -> str:
        """The URDF's text, as far as the robot came as a URDF."""
        return "" if self._known is None else self._known.text

    @property
    def base_link(self) -> str:
        """The frame in which gravity and the base transform are given."""
        return BASE_LINK if self._known is None else self._known.base_link

    def find(self) -> None:
        """Read the file, or wait for the description."""
        path = self._parameter("robot")
        if path:
            robot = load_robot(path, base_link=self._chain("base_link"), tip_link=self._chain("tip_link"))
            urdf, chain = urdf_of(path, base_link=self._chain("base_link"), tip_link=self._chain("tip_link"))
            text = urdf.read_text(encoding="utf-8") if urdf else ""
            self._take(FoundRobot(robot, text, chain.get("base_link") or _root(text)))
        elif not self._subscribed:
            self._subscribed = True
            self._node.create_subscription(String, "robot_description", self._on_description, LATCHED)

    def forget(self) -> None:
        """Go back to knowing nothing."""
        self._known, self._subscribed = None, False

    def known(self) -> Robot:
        """Return the robot, or refuse what needs it."""
        if self._known is None:
            raise InputError("the robot is not known yet", "publish robot_description or set the parameter robot")
        return self._known.robot

    def source(self) -> RobotSource:
        """Return how a use case in another process finds the robot."""
        from ros2_dynid.usecases.robot_source import RobotSource  # here: with all that it loads, for nodes with jobs

        self.known()
        path = self._parameter("robot")
        return RobotSource(
            path=path,
            urdf="" if path else self.text,
            base_link=self._chain("base_link"),
            tip_link=self._chain("tip_link"),
        )

    def _chain(self, name: str) -> str | None:
        return self._parameter(name) or None

    def _on_description(self, message: String) -> None:
        if self._known is not None and message.data == self._known.text:
            return
        try:
            base_link, tip_link = self._chain("base_link"), self._chain("tip_link")
            robot = robot_from_urdf_string(message.data, base_link=base_link, tip_link=tip_link)
            self._take(FoundRobot(robot, message.data, base_link or _root(message.data)))
        except Exception as error:  # the text comes from the network
            logger = self._node.get_logger()
            logger.error(f"robot_description: {reason(error, logger)}")

    def _take(self, known: FoundRobot) -> None:
        before, self._known = self._known, known
        try:
            self._on_robot(known.robot)
        except Exception:
            self._known = before
            raise
        self._node.get_logger().info(f"robot {known.robot.name}: {len(known.robot.active)} joints")


def _root(text: str) -> str:
    """Return the root link of a URDF; a table, or a xacro file, has none that we know."""
    try:
        return parse_urdf(text).root if text else BASE_LINK
    except DynidError:
        return BASE_LINK
