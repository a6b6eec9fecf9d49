# SPDX-License-Identifier: Apache-2.0

"""Where a robot comes from: a file or the text of a URDF, and the sub-chain of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.robot import Robot, check_gravity, with_gravity


@dataclass(frozen=True)
class RobotSource:
    """A URDF, xacro or robot file, or a shipped robot's name (`path`), or the text of a URDF (`urdf`).

    base_link, tip_link, hold {joint: position [rad or m]}: the sub-chain; joint_limits: a MoveIt joint_limits.yaml;
    gravity: in the base link's frame (3,) [m/s^2], None for that of the description.
    """

    path: str = ""
    urdf: str = ""
    base_link: str | None = None
    tip_link: str | None = None
    hold: Mapping[str, float] = field(default_factory=dict)
    joint_limits: str | None = None
    gravity: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse none or two robots."""
        if bool(self.path) == bool(self.urdf):
            what = "two robots are given" if self.path else "no robot is given"
            raise InputError(what, "give either a file (path) or the text of a URDF (urdf)")
        if self.gravity is not None:
            check_gravity(self.gravity)

    def load(self) -> Robot:
        """Return the robot."""
        robot = self._described()
        return robot if self.gravity is None else with_gravity(robot, self.gravity)

    def _described(self) -> Robot:
        if self.path:
            return load_robot(
                self.path,
                base_link=self.base_link,
                tip_link=self.tip_link,
                hold=self.hold,
                joint_limits=self.joint_limits,
            )
        robot = robot_from_urdf_string(
            self.urdf, base_link=self.base_link, tip_link=self.tip_link, hold=dict(self.hold)
        )
        return robot if self.joint_limits is None else with_joint_limits(robot, self.joint_limits)
