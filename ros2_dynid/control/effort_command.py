# SPDX-License-Identifier: Apache-2.0

"""What is commanded: the torque that the motors shall give, minus what the robot adds (model/efforts.py).

A model identified from efforts that lack what the robot adds lacks it too: of that there is nothing to subtract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.control.torque_limiter import EffortLimits
from ros2_dynid.model.efforts import (
    AddedByJoint,
    added_beyond_model,
    added_by_joint,
    declare_added_effort,
    in_amperes,
    measures_gravity,
    parse_sensor,
    with_added_effort,
)
from ros2_dynid.model.robot import Array, Robot

if TYPE_CHECKING:
    from ros2_dynid.control.feedforward import FeedforwardModel
    from ros2_dynid.control.feedforward_events import FeedforwardSettings


def added_torque(model: FeedforwardModel, adds: AddedByJoint, q: Array, friction: Array | None = None) -> Array:
    """Return what the robot adds at q, shape (n,) [N.m, N], for a torque that holds `friction`, None if it holds none.

    Gravity's part holds the robot still; with friction in the torque, that includes the offset. Friction's part is a
    share of what motion adds to the offset.
    """
    holding = np.where(adds.payload, model.gravity(q), model.gravity_without_load(q))
    if friction is None:
        return np.where(adds.gravity, holding, 0.0)
    offset = model.offset
    return np.where(adds.gravity, holding + offset, 0.0) + adds.friction * (friction - offset)


@dataclass(frozen=True, eq=False)
class EffortCommand:
    """Commands for a robot that adds `adds` of the model's torque itself, motors giving `effort` (n,) [N.m, N] at most.

    measures_gravity: whether its measured efforts hold gravity, None if that is not declared; unheld: whether neither
    the model nor the robot holds the arm against gravity; in_amperes: whether the model's torques are none.
    """

    adds: AddedByJoint
    effort: Array
    measures_gravity: bool | None = None
    unheld: bool = False
    in_amperes: bool = False

    def of(self, model: FeedforwardModel, tau: Array, q: Array, friction: Array | None = None) -> Array:
        """Return the command, shape (n,), with which the motors give tau, whose gravity is that at q.

        tau is kept within the motors' limits first: the robot's part must not lead beyond them. One that is not finite
        stays so.
        """
        if self.adds.nothing:
            return tau
        limited = np.where(np.isfinite(tau), np.clip(tau, -self.effort, self.effort), tau)
        return np.asarray(limited - added_torque(model, self.adds, q, friction))


def declared_command(
    model: Robot, described: Robot | None, settings: FeedforwardSettings, limits: EffortLimits
) -> EffortCommand | None:
    """Return what turns torques of a model into commands; None: nobody declares what the robot adds.

    The parameters robot_adds and robot_measures come first, then the model, then the description. Robots with other
    joints than those of the limits declare nothing.
    """
    robots = [robot for robot in (model, described) if robot is not None and robot.active_names == limits.joint_names]
    measures = next((one for one in (_measures_gravity(robot, settings) for robot in robots) if one is not None), None)
    for robot in robots:
        declared = declare_added_effort(robot, settings.robot_adds)
        if added_by_joint(declared) is None:
            continue
        # what it adds is declared by whoever does, what the model lacks by the model
        whole = with_added_effort(
            model, {joint.name: joint.adds for joint in declared.joints if joint.adds is not None}
        )
        adds, beyond = added_by_joint(whole), added_beyond_model(whole)
        assert adds is not None and beyond is not None
        unheld = not measures_gravity(model) and not adds.gravity.all()
        return EffortCommand(beyond, limits.effort, measures, unheld, in_amperes(model))
    return None


def _measures_gravity(robot: Robot, settings: FeedforwardSettings) -> bool | None:
    """Return whether measured efforts hold gravity, by the parameter or the robot; None: not declared."""
    texts = [text for text in settings.robot_measures if text]
    if texts:
        return all(parse_sensor(text).gravity for text in texts)
    declared = all(robot.joints[j - 1].measures is not None for j in robot.active)
    return measures_gravity(robot) if declared else None
