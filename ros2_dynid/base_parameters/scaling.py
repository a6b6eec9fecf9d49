# SPDX-License-Identifier: Apache-2.0

"""Scaling of the sample points: J = lambda1 ||W||_F + lambda2 S, minimised row by row (Gautier 1991, "Scaling of W").

W is exact but for rounding errors in proportion to its elements, so it is well scaled when they are of like size. One
optimisation over all points has far too many unknowns; each point alone makes rows that are scaled well enough, and
starting from different random points keeps the rows independent.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.closed_form import units
from ros2_dynid.base_parameters.numeric import Points, model_rows, natural_units, row_units
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

STEP_LENGTHS = (0.5, 0.25, 0.1, 0.04)
"""Lengths of the search's steps in the natural units of each coordinate, one sweep each."""
FIRST_STEP, STEP_GROWTH, STEP_SHRINK = 0.5, 1.3, 0.8
"""First step of the thorough search, and its factors after success and failure."""


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
    sweeps: int = 0,
    seed: int = 0,
) -> Points:
    """Return points moved from where they start so that the rows each gives to W are scaled better.

    Coordinate after coordinate, every point tries a step either way and keeps what lowers its own J, all points at
    once; J never rises. That makes an unclear rank clear. sweeps: of a thorough search after it, which also tries
    random directions: they lead along the edges of J, where the smallest element changes and no coordinate descends.
    40 bring S of the energy model to the 100 that the paper reports. Gravity does not move.
    """
    length, g = natural_units(robot)
    names = standard_names(robot)
    size = units(robot, tuple(names[k] for k in columns), length, g)
    row_size = row_units(robot, source, 1)[:, None]

    def natural(shifted: Points) -> Array:
        return model_rows(robot, source, shifted, columns) / row_size * size

    start = natural(points)
    live = np.max(np.abs(start), axis=0) > 1e-12
    best = criterion(start, live, lambda1, lambda2)
    rng = np.random.default_rng(seed)
    fields = _coordinates(robot, source, length, g)
    size_of = np.concatenate([scale for _, scale in fields])
    axes = np.eye(len(size_of))

    def attempt(points: Points, best: Array, step: Array) -> tuple[Points, Array, NDArray[np.bool_]]:
        shifted = _shift_points(points, fields, step * size_of)
        J = criterion(natural(shifted), live, lambda1, lambda2)
        lower = best > J
        coordinates = {f: np.where(lower[:, None], getattr(shifted, f), getattr(points, f)) for f, _ in fields}
        return replace(points, **coordinates), np.where(lower, J, best), lower

    for length_of_step in STEP_LENGTHS:
        for axis in axes:
            for sign in (1.0, -1.0):
                points, best, _ = attempt(points, best, sign * length_of_step * axis)
    steps = np.full((len(best), len(axes)), FIRST_STEP)
    for _ in range(sweeps):
        improved = np.zeros_like(steps, dtype=bool)
        for k, axis in enumerate(axes):
            for sign in (1.0, -1.0):
                points, best, lower = attempt(points, best, sign * steps[:, k, None] * axis)
                improved[:, k] |= lower
        for direction in rng.standard_normal((2 * len(axes), len(axes))):
            points, best, _ = attempt(points, best, steps.mean(axis=1)[:, None] * direction)
        steps *= np.where(improved, STEP_GROWTH, STEP_SHRINK)
    return points


def _shift_points(points: Points, fields: list[tuple[str, Array]], by: Array) -> Points:
    """Return the points with their coordinates moved by `by`, shape (coordinates,) or (N, coordinates)."""
    parts = np.split(by, len(fields), axis=-1)
    return replace(points, **{f: getattr(points, f) + part for (f, _), part in zip(fields, parts, strict=True)})


def _coordinates(robot: Robot, source: str, length: float, g: float) -> list[tuple[str, Array]]:
    """Return which arrays of the points the model depends on, with the natural unit of each joint's element."""
    arm = np.array([length if robot.joints[j - 1].sigma == PRISMATIC else 1.0 for j in robot.active])
    second = np.sqrt(length / g)
    units_of = {"q": arm, "dq": arm / second, "ddq": arm / second**2}
    fields = {"torque": ("q", "dq", "ddq"), "accel": ("q", "ddq"), "energy": ("q", "dq")}[source]
    return [(field, units_of[field]) for field in fields]
