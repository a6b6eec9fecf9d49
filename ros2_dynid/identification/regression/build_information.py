# SPDX-License-Identifier: Apache-2.0

"""Prepared recordings become the information in their rows: R factors of [W tau] for each joint and block of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters import BaseParameters
from ros2_dynid.dynamics.friction import active_terms
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.repetition import find_motion_period, find_repetitions
from ros2_dynid.identification.preparation.rows import PlainRows, Rows, find_dependence, row_chunks, row_count
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, combine, compressed, gather
from ros2_dynid.identification.regression.least_squares import error_levels, joint_errors, solve_weighted
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

OnChunk = Callable[[float], None]
"""Called with the fraction of the rows done; may raise to stop."""
BuildInformation = Callable[[Sequence[Prepared]], Information]
"""From prepared recordings to the information in their rows."""


def build_information(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    on_chunk: OnChunk | None = None,
    *,
    delay: bool = True,
    terms: Sequence[FrictionTerm] = (),
    every: int = 1,
    plain_rows: PlainRows | None = None,
) -> Information:
    """Return what prepared recordings say about base parameters, friction terms and, with `delay`, the effort's delay.

    every: 2 takes every second chunk of rows only, and so on. plain_rows: of the same recordings without terms.
    """
    layout = ColumnLayout(len(base), n_delay=int(delay), n_friction=len(terms))
    columns = base.columns(robot)
    dependence = np.ones((len(robot.active), layout.size), dtype=bool)
    dependence[:, layout.base] = find_dependence(robot, columns)
    dependence[:, layout.delay] = dependence[:, layout.base].any(axis=1, keepdims=True)
    dependence[:, layout.friction] = np.array(
        [[k == j for j, _ in active_terms(robot, terms)] for k in range(len(dependence))]
    )

    def chunks(k: int) -> Iterator[Rows]:
        plain = None if plain_rows is None else plain_rows[k]
        return row_chunks(robot, prepared[k], columns, delay=delay, terms=terms, every=every, plain=plain)

    return with_standstill(gather_recordings(prepared, chunks, dependence, layout, every=every, on_chunk=on_chunk))


def gather_recordings(
    prepared: Sequence[Prepared],
    chunks: Callable[[int], Iterable[Rows]],
    dependence: NDArray[np.bool_],
    layout: ColumnLayout,
    *,
    every: int = 1,
    weight: Callable[[Rows], Array] | None = None,
    on_chunk: OnChunk | None = None,
) -> Information:
    """Return the information of recordings from their rows, by number; other arguments: see `gather`."""
    parts = []
    for k, one in enumerate(prepared):

        def tell(done: float, k: int = k) -> None:
            if on_chunk is not None:
                on_chunk((k + done) / len(prepared))

        count, period = -(-row_count(one) // every), find_motion_period(one) if every == 1 else None
        parts.append(gather(chunks(k), dependence, count, layout, weight=weight, on_chunk=tell, period=period))
    return combine(parts, find_repetitions(prepared))


FIRST_REST_WEIGHT = 0.1
"""Weight of rows at rest before their error is known: where there are others, these decide."""
ROUNDS = 3
ITERATIONS = 5
"""Of the joints' weights in each round."""


def with_standstill(information: Information) -> Information:
    """Return the information with the rows at rest among the others, each joint's with the weight of their error.

    The error of rows at rest is judged by parameters that all rows lead to, and cannot make them count for more than
    rows of the joint's motion. Rows at rest that are no more than the parameters their joint feels have no error that
    would show, and are left out, unless there are as few in motion.
    """
    if not any(block.still for block in information.blocks):
        return information
    empty = tuple(np.empty((0, len(columns) + 1)) for columns in information.columns)
    none = Block(empty, np.zeros(information.n, dtype=np.int64), 0.0, 0.0)
    moving = _each_block(information, lambda block: replace(block, still=None))
    resting = replace(moving, blocks=tuple(block.still or none for block in information.blocks), phases=())
    parameters = np.array([len(columns) for columns in information.columns])
    few = moving.rows <= parameters
    usable = (resting.rows > parameters) | few
    if not usable.any():
        return moving
    rows = np.maximum(resting.rows, 1)
    weight = np.where(usable, FIRST_REST_WEIGHT, 0.0)
    for _ in range(ROUNDS):
        every = _together(moving, resting, weight)
        if np.any(every.rows == 0) or int(every.rows.sum()) <= every.size:
            break  # too few rows in any case: whoever fits says so
        solution, weights = solve_weighted(every, iterations=ITERATIONS)
        level = error_levels(moving, solution.value, weights)
        at_rest = joint_errors(resting, solution.value) / np.sqrt(rows)
        weight = np.where(few, 1.0, usable * np.minimum(level / np.maximum(at_rest, 1e-300), 1.0))
    return _joined(information, weight)


def _together(moving: Information, resting: Information, weight: Array) -> Information:
    """Return all rows, those at rest times each joint's weight, shape (n,), in one block: weights need no more."""
    whole = [Block(tuple(map(part.triangle, range(part.n))), part.rows, 0.0, 0.0) for part in (moving, resting)]
    return Information((_both(whole[0], whole[1], weight),), moving.columns, moving.layout)


def _joined(information: Information, weight: Array) -> Information:
    """Return blocks and phases with the rows at rest, times each joint's weight, shape (n,)."""
    moved = np.sum([block.rows for block in information.blocks], axis=0) > 0

    def join(block: Block) -> Block:
        if block.still is None:  # as in most blocks
            return block
        moving = replace(block, still=None)
        both = _both(moving, block.still, weight)
        return replace(both, moving=_where_moved(moving, both, moved))

    return _each_block(information, join)


def _each_block(information: Information, change: Callable[[Block], Block]) -> Information:
    blocks, phases = (tuple(map(change, some)) for some in (information.blocks, information.phases))
    return Information(blocks, information.columns, information.layout, phases)


def _where_moved(moving: Block, both: Block, moved: NDArray[np.bool_]) -> Block:
    """Return the rows in motion; of a joint that never moves, shape (n,) of `moved`, those at rest are all there is."""
    R = tuple(a if some else b for a, b, some in zip(moving.R, both.R, moved, strict=True))
    return replace(moving, R=R, rows=np.where(moved, moving.rows, both.rows))


def _both(moving: Block, resting: Block, weight: Array) -> Block:
    R = tuple(
        compressed(np.vstack((a, w * b))) if len(b) and w > 0.0 else a
        for a, b, w in zip(moving.R, resting.R, weight, strict=True)
    )
    rows = np.where(weight > 0.0, resting.rows, 0)
    return replace(moving, R=R, rows=moving.rows + rows, resting=int(rows.sum()))
