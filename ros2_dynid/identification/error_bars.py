"""How far a model's torque may be wrong at each joint, in two numbers that need no regressor at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.codegen.runtime_export import ErrorBars
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.torque_std import TorqueScatter, spread_of
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Robot

SAMPLES = 500
"""Random motions that stand for all the robot can do."""
WIDE = 1.0
"""Speed [rad/s or m/s] and acceleration taken where the robot has no limit of its own."""


def error_bars(model: IdentifiedModel) -> ErrorBars:
    """Return residual level and largest torque standard deviation of each active joint, shape (n,) [N.m or N].

    The largest is that over random motions within the robot's limits; NaN where the file does not tell the residual
    level, or where the torque depends on a parameter that the data did not determine.
    """
    return bars_of(model.robot, model.leaders, spread_of(model))


def bars_of(robot: Robot, leaders: Sequence[str], spread: TorqueScatter) -> ErrorBars:
    """Return the same of base parameters by their leaders, with the spread of their torques."""
    rng = np.random.default_rng(0)
    n = len(robot.active)
    q, dq, ddq = (rng.uniform(-1.0, 1.0, (SAMPLES, n)) for _ in range(3))
    for k, number in enumerate(robot.active):
        joint = robot.joints[number - 1]
        limits, reach = joint.limits, 1.0 if joint.sigma == PRISMATIC else np.pi
        lower, upper = max(limits.lower, -reach), min(limits.upper, reach)
        q[:, k] = (lower + upper) / 2 + q[:, k] * (upper - lower) / 2
        dq[:, k] *= limits.velocity if np.isfinite(limits.velocity) else WIDE
        ddq[:, k] *= limits.acceleration if np.isfinite(limits.acceleration) else WIDE
    place = {name: k for k, name in enumerate(standard_names(robot))}
    Y = np.asarray(fast_regressor(robot, q, dq, ddq))[:, :, [place[name] for name in leaders]]
    std, sigma = spread.std(np.ascontiguousarray(Y.transpose(2, 1, 0))).max(axis=1), spread.sigma
    return ErrorBars(np.where(sigma > 0.0, sigma, np.nan), np.where(np.isfinite(std), std, np.nan))
