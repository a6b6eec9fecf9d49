# SPDX-License-Identifier: Apache-2.0

"""Where a robot comes from: a file or the text of a URDF, and the sub-chain of it; or an identified model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.model_file import BASE, is_model_file, load_model
from ros2_dynid.model.driver_presets import load_preset, with_driver
from ros2_dynid.model.from_urdf import ChainOptions
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot, check_gravity, with_gravity


@dataclass(frozen=True)
class RobotSource:
    """A URDF, xacro or robot file, or a shipped robot's name (`path`), or the text of a URDF (`urdf`).

    base_link, tip_link, hold {joint: position [rad or m]}: the sub-chain; floating_base: whether the base link floats;
    joint_limits: a MoveIt joint_limits.yaml; gravity: in the base link's frame (3,) [m/s^2], None for that of the
    description; robot_driver: preset of its driver (model/driver_presets.py), empty for none.
    """

    path: str = ""
    urdf: str = ""
    base_link: str | None = None
    tip_link: str | None = None
    hold: Mapping[str, float] = field(default_factory=dict)
    joint_limits: str | None = None
    gravity: tuple[float, ...] | None = None
    robot_driver: str = ""
    floating_base: bool = False

    def __post_init__(self) -> None:
        """Refuse none or two robots."""
        if bool(self.path) == bool(self.urdf):
            what = "two robots are given" if self.path else "no robot is given"
            raise InputError(what, "give either a file (path) or the text of a URDF (urdf)")
        if self.gravity is not None:
            check_gravity(self.gravity)

    @property
    def chain(self) -> ChainOptions:
        """The sub-chain of the description."""
        return ChainOptions(
            base_link=self.base_link,
            tip_link=self.tip_link,
            hold=dict(self.hold),
            floating_base=self.floating_base,
        )

    def load(self) -> Robot:
        """Return the robot."""
        robot = self._described()
        if self.robot_driver:
            robot = with_driver(robot, load_preset(self.robot_driver))
        return robot if self.gravity is None else with_gravity(robot, self.gravity)

    def _described(self) -> Robot:
        if self.path:
            return load_robot(
                self.path,
                **self.chain,
                joint_limits=self.joint_limits,
            )
        robot = robot_from_urdf_string(self.urdf, **self.chain)
        return robot if self.joint_limits is None else with_joint_limits(robot, self.joint_limits)


def load_robot_or_model(source: RobotSource, use: str = "served") -> tuple[Robot, Array]:
    """Return the robot and standard parameters chi: of an identified model, or a robot's a priori ones.

    use: of a model, the set that it serves, its "base" values, or the "standard" or "consistent" parameters if it has
    them.
    """
    if not is_model_file(source.path):
        robot = source.load()
        return robot, standard_vector(robot)
    model = load_model(source.path)
    refuse_other_robot(source, model.robot)
    if use == "served":
        return model.robot, model.chi
    if use == BASE:
        return model.robot, model.chi_of(model.value)
    values = model.standard if use == "standard" else model.consistent
    if values is None:
        what, hint = f"the model has no {use} parameters", Text("identify with ", Option(use, True))
        raise InputError(what, hint, source.path)
    return model.robot, standard_vector(model.robot, values)


def refuse_other_robot(source: RobotSource, robot: Robot, *, chain: bool = True) -> None:
    """Refuse options that ask for another mounting, chain or limits than a model's robot has; chain: compared too."""
    if source.gravity is not None and not np.allclose(source.gravity, robot.gravity):
        what = f"the model was identified with gravity {robot.gravity.tolist()}"
        raise InputError(what, "base parameters hold for one mounting: identify again", source.path)
    options: dict[str, object] = {}
    if chain:
        options = dict(source.chain)
    options |= {"joint_limits": source.joint_limits, "robot_driver": source.robot_driver}
    for name, value in options.items():
        if value:
            what = Text(Option(name), " is given, but the model defines its own joints")
            raise InputError(what, "omit it, or identify the robot with it", source.path)
