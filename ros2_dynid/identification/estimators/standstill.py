"""Rows of joints that stand still: they tell gravity, and what the motion of others does, but not the joint's friction.

Friction at standstill has any size up to Coulomb's, so such a row is off by as much. Rows of a joint at rest are a
class of their own beside those of its motion: as every joint's rows are weighted by the inverse of their error, so are
these, and then they join the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.identification.estimators.information import Block, Information, compressed
from ros2_dynid.identification.estimators.least_squares import (
    error_levels,
    joint_errors,
    weighted,
)
from ros2_dynid.model.robot import Array

FIRST = 0.1
"""Weight of rows at rest before their error is known: where there are others, these decide."""
ROUNDS = 3
ITERATIONS = 5
"""Of the joints' weights in each round."""


def with_standstill(information: Information) -> Information:
    """Return the information with the rows at rest among the others, each joint's with the weight of their error.

    The error of rows at rest is judged by parameters that all rows lead to, and cannot make them count for more than
    rows of the joint's motion. Rows at rest that are no more than the parameters their joint feels have no error that
    could be told, and are left out, unless there are as few in motion.
    """
    if not information.still:
        return information
    if "standstill" not in information.known:
        information.known["standstill"] = _with_standstill(information)
    return cast(Information, information.known["standstill"])


def _with_standstill(information: Information) -> Information:
    count = len(information.blocks)
    moving = replace(information, still=())
    resting = replace(moving, blocks=information.still[:count], phases=())
    felt = np.array([len(columns) for columns in information.columns])
    few = moving.rows <= felt
    told = (resting.rows > felt) | few
    if not told.any():
        return moving
    rows = np.maximum(resting.rows, 1)
    weight = np.where(told, FIRST, 0.0)
    for _ in range(ROUNDS):
        every = _together(moving, resting, weight)
        if np.any(every.rows == 0) or int(every.rows.sum()) <= every.size:
            break  # too few rows in any case: whoever fits says so
        found, weights = weighted(every, iterations=ITERATIONS)
        level = error_levels(moving, found.value, weights)
        at_rest = joint_errors(resting, found.value) / np.sqrt(rows)
        weight = np.where(few, 1.0, told * np.minimum(level / np.maximum(at_rest, 1e-300), 1.0))
    return _joined(information, weight)


def _together(moving: Information, resting: Information, weight: Array) -> Information:
    """Return all rows, those at rest times each joint's weight, shape (n,), in one block: weights need no more."""
    every = _both(_whole(moving), _whole(resting), weight)
    return Information((every,), moving.columns, moving.layout)


def _whole(part: Information) -> Block:
    R = tuple(map(part.triangle, range(part.n)))
    return Block(R, part.rows, part.blocks[0].start, part.blocks[-1].end)


def _joined(information: Information, weight: Array) -> Information:
    """Return blocks and phases with the rows at rest, times each joint's weight, shape (n,)."""
    every = (*information.blocks, *information.phases)
    joined = tuple(_both(a, b, weight) for a, b in zip(every, information.still, strict=True))
    count = len(information.blocks)
    moved = np.sum([block.rows for block in information.blocks], axis=0) > 0
    motion = every if moved.all() else tuple(_where_moved(a, b, moved) for a, b in zip(every, joined, strict=True))
    return Information(joined[:count], information.columns, information.layout, joined[count:], motion=motion)


def _where_moved(moving: Block, both: Block, moved: NDArray[np.bool_]) -> Block:
    """Return the rows in motion; of a joint that never moves, shape (n,) of `moved`, those at rest are all there is."""
    R = tuple(a if some else b for a, b, some in zip(moving.R, both.R, moved, strict=True))
    return replace(moving, R=R, rows=np.where(moved, moving.rows, both.rows))


def _both(moving: Block, resting: Block, weight: Array) -> Block:
    if not any(map(len, resting.R)):  # as in most blocks
        return moving
    R = tuple(
        compressed(np.vstack((a, w * b))) if len(b) and w > 0.0 else a
        for a, b, w in zip(moving.R, resting.R, weight, strict=True)
    )
    rows = np.where(weight > 0.0, resting.rows, 0)
    return replace(moving, R=R, rows=moving.rows + rows, resting=int(rows.sum()))
