# SPDX-License-Identifier: Apache-2.0

"""Where a node gets its robot from: a file named by a parameter, or the topic robot_description."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rclpy.node import Node
from std_msgs.msg import String

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.driver_presets import load_preset, with_driver
from ros2_dynid.model.load import load_robot, robot_from_urdf_string, urdf_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.urdf import parse_urdf
from ros2_dynid.nodes.common.answers import reason
from ros2_dynid.nodes.common.qos import LATCHED

if TYPE_CHECKING:
    from ros2_dynid.usecases.robot_source import RobotSource

MAX_DESCRIPTION = 5_000_000
"""A longer robot_description [characters] is refused: a humanoid takes less than one million, parsed in a second."""
BASE_LINK = "base_link"
"""Name of the base link of a robot that is given by a table, without links."""


@dataclass(frozen=True)
class FoundRobot:
    """A robot, the URDF's text if it came as one, and the name of its base link."""

    robot: Robot
    text: str
    base_link: str


class RobotFinder:
    """Finds the robot and passes it to on_robot, again whenever a description comes that differs.

    Descriptions are read on a thread of their own, one after the other, since that may take seconds; of those that come
    meanwhile the last one counts.
    """

    def __init__(self, node: Node, parameter: Callable[[str], str], on_robot: Callable[[Robot], None]) -> None:
        """Know nothing until find() is called; parameter(name) is robot, base_link, tip_link or robot_driver now."""
        self._node, self._parameter, self._on_robot = node, parameter, on_robot
        self._subscribed = False
        self._known: FoundRobot | None = None
        self._lock = threading.Lock()
        self._waiting: str | None = None
        self._reader: threading.Thread | None = None

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
        """Go back to knowing nothing, once what is being read is read."""
        with self._lock:
            self._waiting, reader = None, self._reader
        if reader is not None:
            reader.join()
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
            robot_driver=self._parameter("robot_driver"),
        )

    def _chain(self, name: str) -> str | None:
        return self._parameter(name) or None

    def _on_description(self, message: String) -> None:
        with self._lock:
            self._waiting = message.data
            if self._reader is None:
                self._reader = threading.Thread(target=self._read_descriptions, name="description", daemon=True)
                self._reader.start()

    def _read_descriptions(self) -> None:
        """Read what waits, until nothing does."""
        while True:
            with self._lock:
                text, self._waiting = self._waiting, None
                if text is None:
                    self._reader = None
                    return
            self._read_description(text)

    def _read_description(self, text: str) -> None:
        if self._known is not None and text == self._known.text:
            return
        try:
            if len(text) > MAX_DESCRIPTION:
                raise InputError(f"it has more than {MAX_DESCRIPTION // 10**6} MB", "publish it without meshes")
            base_link, tip_link = self._chain("base_link"), self._chain("tip_link")
            robot = robot_from_urdf_string(text, base_link=base_link, tip_link=tip_link)
            self._take(FoundRobot(robot, text, base_link or _root(text)))
        except Exception as error:  # the text comes from the network
            logger = self._node.get_logger()
            logger.error(f"robot_description: {reason(error, logger)}")

    def _take(self, known: FoundRobot) -> None:
        driver = self._parameter("robot_driver")
        if driver:
            known = replace(known, robot=with_driver(known.robot, load_preset(driver)))
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
