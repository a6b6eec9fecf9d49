"""Scaling of the sample points: J = lambda1 ||W||_F + lambda2 S, minimised row by row (seed 000, "Scaling of W").

W is exact but for rounding errors in proportion to its elements, so it is well scaled when they are of like size. One
optimisation over all points has far too many unknowns; each point alone makes rows that are scaled well enough, and
starting from different random points keeps the rows independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.sampling import Points, model_rows, natural_units, row_units
from ros2_dynid.base_parameters.transfer import units
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

STEPS = (0.5, 0.25, 0.1, 0.04)
"""Lengths of the search's steps in the natural units of each coordinate, one sweep each."""


def criterion(rows: Array, live: Array, lambda1: float, lambda2: float) -> Array:
    """Return J of each point, shape (N,), for rows of shape (N, rows, c); live: elements that are not always zero.

    S counts the live elements only. An element that happens to vanish makes S, and so J, infinite at that point.
    """
    size = np.abs(rows)
    norm = np.sqrt(np.einsum("trc,trc->t", rows, rows))
    smallest = np.min(np.where(live, size, np.inf), axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        S = np.max(size, axis=(1, 2)) / smallest
    return np.asarray(lambda1 * norm + lambda2 * np.where(np.isfinite(S), S, np.inf))


def scaled_points(
    robot: Robot,
    source: str,
    points: Points,
    columns: list[int],
    *,
    lambda1: float = 1.0,
    lambda2: float = 1.0,
) -> Points:
    """Return points moved from where they start so that the rows each gives to W are scaled better.

    Coordinate after coordinate, every point tries a step either way and keeps what lowers its own J, all points at
    once; J never rises. Positions, velocities and accelerations move, gravity does not.
    """
    length, g = natural_units(robot)
    names = standard_names(robot)
    size = units(robot, tuple(names[k] for k in columns), length, g)
    row_size = row_units(robot, source, 1)[:, None]

    def natural(moved: Points) -> Array:
        return model_rows(robot, source, moved, columns) / row_size * size

    start = natural(points)
    live = np.max(np.abs(start), axis=0) > 1e-12
    if not np.any(live):
        return points
    best = criterion(start, live, lambda1, lambda2)
    for step in STEPS:
        for field, scale in _coordinates(robot, source, length, g):
            for k in range(len(robot.active)):
                for sign in (1.0, -1.0):
                    points, best = _try(points, best, field, k, sign * step * scale[k], natural, live, lambda1, lambda2)
    return points


def _coordinates(robot: Robot, source: str, length: float, g: float) -> list[tuple[str, Array]]:
    """Return which arrays of the points the model depends on, with the natural unit of each joint's element."""
    arm = np.array([length if robot.joints[j - 1].sigma == PRISMATIC else 1.0 for j in robot.active])
    second = np.sqrt(length / g)
    units_of = {"q": arm, "dq": arm / second, "ddq": arm / second**2}
    fields = {"torque": ("q", "dq", "ddq"), "accel": ("q", "ddq"), "energy": ("q", "dq")}[source]
    return [(field, units_of[field]) for field in fields]


def _try(
    points: Points,
    best: Array,
    field: str,
    k: int,
    step: float,
    natural: Callable[[Points], Array],
    live: Array,
    lambda1: float,
    lambda2: float,
) -> tuple[Points, Array]:
    """Return the points and their J after a step of coordinate k of `field`, kept only where J is lower."""
    x = getattr(points, field).copy()
    x[:, k] += step
    J = criterion(natural(replace(points, **{field: x})), live, lambda1, lambda2)
    better = best > J
    x[~better] = getattr(points, field)[~better]
    return replace(points, **{field: x}), np.where(better, J, best)
