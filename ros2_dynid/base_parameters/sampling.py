# SPDX-License-Identifier: Apache-2.0

"""Random sample points and the matrix W of the models d, d0 and h (seed 000, eq. 6, 9 and 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.transfer import typical_length
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.regressor import regressor, regressor_d0
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

SOURCES = ("torque", "accel", "energy")
"""The models: d (torque), d0 (torque at zero velocity, "accel"), h (energy)."""
TILTS = 4
"""Directions of gravity sampled when the base tilts; three span them all."""


@dataclass(frozen=True)
class Points:
    """Sample points, each of shape (N, n_active), in SI units, and gravity at each, shape (N, 3)."""

    q: Array
    dq: Array
    ddq: Array
    gravity: Array

    def at(self, index: NDArray[np.intp]) -> Points:
        """Return the points selected."""
        return Points(self.q[index], self.dq[index], self.ddq[index], self.gravity[index])


def natural_units(robot: Robot) -> tuple[float, float]:
    """Return the typical length [m] and |g| [m/s^2] of the robot, 1 where there is none."""
    return typical_length(robot), float(np.linalg.norm(robot.gravity)) or 1.0


def random_points(
    robot: Robot, count: int, rng: np.random.Generator, *, tilting_base: bool = False, spread: float = 1.0
) -> Points:
    """Return random points: any angle, shifts of about the robot's own lengths, whatever its limits.

    The structure of the model does not depend on the limits. Time is measured in sqrt(length / g), so that gravity,
    velocity and acceleration weigh alike in the torque of a robot of any size. spread: factor on the velocities.
    """
    length, g = natural_units(robot)
    second = np.sqrt(length / g)
    arm = np.array([length if robot.joints[j - 1].sigma == PRISMATIC else 1.0 for j in robot.active])
    turn = np.array([1.0 if robot.joints[j - 1].sigma == PRISMATIC else np.pi for j in robot.active])
    shape = (count, len(robot.active))
    q = rng.uniform(-1.0, 1.0, shape) * turn * arm
    dq = rng.uniform(-1.0, 1.0, shape) * spread * arm / second
    ddq = rng.uniform(-1.0, 1.0, shape) * spread**2 * arm / second**2
    gravity = np.tile(robot.gravity, (count, 1))
    if tilting_base:
        tilts = rng.standard_normal((TILTS, 3))
        tilts *= np.linalg.norm(robot.gravity) / np.linalg.norm(tilts, axis=1, keepdims=True)
        gravity = tilts[np.arange(count) % TILTS]
    return Points(q, dq, ddq, gravity)


def points_needed(robot: Robot, source: str, columns: int, excess: float = 2.0) -> int:
    """Return how many points give `excess` times as many rows as columns, and a few more."""
    rows = 1 if source == "energy" else len(robot.active)
    return ceil(excess * columns / rows) + 8


def model_rows(robot: Robot, source: str, points: Points, columns: Sequence[int] | None = None) -> Array:
    """Return d, d0 or h at the points, shape (N, rows, columns); rows: n_active, or 1 for the energy.

    `comparable` makes W of them.
    """
    every = np.arange(len(standard_names(robot))) if columns is None else np.asarray(columns, dtype=int)
    n_rows = 1 if source == "energy" else len(robot.active)
    W = np.empty((len(points.q), n_rows, len(every)))
    directions, member = np.unique(points.gravity, axis=0, return_inverse=True)
    for k, direction in enumerate(directions):
        at = np.flatnonzero(member.reshape(-1) == k)
        tilted = robot if np.array_equal(direction, robot.gravity) else replace(robot, gravity=direction.copy())
        part = points.at(at)
        if source == "torque":
            rows = regressor(tilted, part.q, part.dq, part.ddq)
        elif source == "accel":
            rows = regressor_d0(tilted, part.q, part.ddq)
        else:
            rows = energy_regressor(tilted, part.q, part.dq)[:, None]
        W[at] = rows[..., every]
    return W


def comparable(rows: Array, source: str, points: Points) -> Array:
    """Return W, shape (r, c), from the model's rows at the points, shape (N, rows, c).

    Of the energy only differences count (seed 000, eq. 11), so its mean over the points is taken off: what is constant
    then vanishes. Points of different gravity belong to different motions, each with a mean of its own.
    """
    if source == "energy":
        rows = rows.copy()
        _, member = np.unique(points.gravity, axis=0, return_inverse=True)
        for k in range(member.max() + 1):
            at = np.flatnonzero(member.reshape(-1) == k)
            rows[at] -= rows[at].mean(axis=0)
    return rows.reshape(-1, rows.shape[-1])


def row_units(robot: Robot, source: str, count: int) -> Array:
    """Return the size of each row of W, shape (r,), in natural units: a torque, a force, or an energy."""
    length, g = natural_units(robot)
    if source == "energy":
        return np.full(count, g * length)
    torque = np.array([g if robot.joints[j - 1].sigma == PRISMATIC else g * length for j in robot.active])
    return np.tile(torque, count)
