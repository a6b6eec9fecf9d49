# SPDX-License-Identifier: Apache-2.0

"""What is commanded: the torque that the motors shall give, minus what the robot adds (model/efforts.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.control.torque_limiter import EffortLimits
from ros2_dynid.model.efforts import AddedByJoint, added_by_joint, declare_added_effort
from ros2_dynid.model.robot import Array, Robot

if TYPE_CHECKING:
    from ros2_dynid.control.feedforward import FeedforwardModel


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
    """Commands for a robot that adds `adds` itself and whose motors give `effort` at most, shape (n,) [N.m, N]."""

    adds: AddedByJoint
    effort: Array

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
    robots: Iterable[Robot | None], robot_adds: Sequence[str], limits: EffortLimits
) -> EffortCommand | None:
    """Return what turns torques into commands by the parameter robot_adds, else by the first robot that declares it.

    Robots with other joints than those of the limits declare nothing; None: nobody does.
    """
    for robot in robots:
        if robot is not None and robot.active_names == limits.joint_names:
            adds = added_by_joint(declare_added_effort(robot, robot_adds))
            if adds is not None:
                return EffortCommand(adds, limits.effort)
    return None
