# SPDX-License-Identifier: Apache-2.0

"""What stands around the excitation's robot: by a file, by ~/set_obstacles, and in MoveIt's planning scene."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_msgs.msg import String

from ros2_dynid.atomic import write_text
from ros2_dynid.confined import Folder
from ros2_dynid.errors import DynidError, InputError, one_line
from ros2_dynid.excitation.obstacles import ObstacleEntry, obstacles_text, parse_entries, read_entries
from ros2_dynid.excitation.planning_scene import SceneObjects, take_scene
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.optional import optional
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.srv import SetObstacles

IN_USE = "obstacles_in_use.yaml"
"""File of the node's folder that holds what was set and what MoveIt told: planning runs in another process."""
LONGEST = 1_000_000
"""Characters of a request."""


class Obstacles:
    """Answers ~/set_obstacles, hears the planning scene, and tells on ~/obstacles what holds: as in a file."""

    def __init__(
        self,
        node: Node,
        value: Callable[[str], Any],
        folder: Folder,
        group: CallbackGroup,
        changed: Callable[[], str],
        base_frame: Callable[[], str] = lambda: "",
    ) -> None:
        """Offer the service; value(name) is a parameter's value; changed() is called for new obstacles.

        changed: refuses them while a motion is under way, and returns what they mean for the plan. base_frame: the link
        that the planning scene is to be given in.
        """
        self._logger, self._value, self._folder = node.get_logger(), value, folder
        self._changed, self._base_frame, self._lock = changed, base_frame, threading.Lock()
        self._set: tuple[ObstacleEntry, ...] | None = None
        self._scene = self._heard = SceneObjects()  # what holds of the planning scene, and what it is now
        self._publisher = node.create_publisher(String, "~/obstacles", LATCHED)
        node.create_service(SetObstacles, "~/set_obstacles", self._on_set, callback_group=group)
        self._listen(node, value("planning_scene"))
        try:
            self._publish()
        except (DynidError, OSError) as error:  # each plan says it again
            self._logger.error(str(error))

    @property
    def file(self) -> str | None:
        """The file of the obstacles that hold, None if there are none."""
        given = self._value("obstacles")
        if self._set is None and not self._scene.objects:
            return str(Path(given).expanduser()) if given else None
        return str(self._folder.path / IN_USE)

    def entries(self) -> tuple[ObstacleEntry, ...]:
        """Return the obstacles that hold: those that were set, or else the file's, and MoveIt's."""
        given = self._value("obstacles")
        own = self._set
        if own is None:
            own = read_entries(Path(given).expanduser()) if given else ()
        return (*own, *self._scene.entries())

    def catch_up(self) -> None:
        """Take what the planning scene told while a motion was under way."""
        with self._lock:
            self._follow_scene()

    def use_file(self) -> None:
        """Use the parameter's file again, in place of what was set."""
        with self._lock:
            self._take(None, self._scene)

    def _listen(self, node: Node, topic: str) -> None:
        try:
            from moveit_msgs.msg import PlanningScene
        except ImportError:
            return
        if topic:
            node.create_subscription(PlanningScene, topic, self._on_scene, 10)

    def _on_set(self, request: SetObstacles.Request, response: SetObstacles.Response) -> SetObstacles.Response:
        with answering(response, self._logger), self._lock:
            if len(request.obstacles) > LONGEST:
                raise InputError("the obstacles are too long", "leave some of them out")
            entries = parse_entries(request.obstacles, "request", self._folder.existing)
            name = optional(request.save)
            kept = self._folder.new(name) if name else None
            plan = self._take(entries, self._scene)
            if kept is not None:
                write_text(kept, obstacles_text(entries), overwrite=False)
            count = f"{len(entries)} obstacle{'' if len(entries) == 1 else 's'}"
            response.message = "; ".join(part for part in (count, plan, f"kept in {kept}" if kept else "") if part)
        return response

    def _on_scene(self, message: Any) -> None:
        try:
            with self._lock:
                self._heard, notes = take_scene(self._heard, message, self._base_frame())
                for note in notes:
                    self._logger.warning(f"planning scene: {note}", throttle_duration_sec=5.0)
                self._follow_scene()
        except (DynidError, OSError) as error:
            self._logger.warning(f"planning scene: {one_line(str(error))}", throttle_duration_sec=5.0)

    def _follow_scene(self) -> None:
        if self._heard.entries() != self._scene.entries() and (plan := self._take(self._set, self._heard)):
            self._logger.info(f"planning scene: {plan}")

    def _take(self, own: tuple[ObstacleEntry, ...] | None, scene: SceneObjects) -> str:
        """Use these obstacles; return what they mean for the plan, or refuse them and keep those before."""
        before = self._set, self._scene
        self._set, self._scene = own, scene
        try:
            self._write()
            plan = self._changed()
        except (DynidError, OSError):
            self._set, self._scene = before
            self._write()
            raise
        self._publish()
        return plan

    def _write(self) -> None:
        if self._set is not None or self._scene.objects:
            write_text(self._folder.path / IN_USE, obstacles_text(self.entries()))

    def _publish(self) -> None:
        self._publisher.publish(String(data=obstacles_text(self.entries())))
