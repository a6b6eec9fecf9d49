# SPDX-License-Identifier: Apache-2.0

"""Prepared recordings become the information in their rows: R factors of [W tau] for each joint and block of time.

Errors that belong to the motion (a sign change between two samples, the step of an encoder, what the model lacks) come
again with every period. Stretches of time all have them alike; only stretches of the period tell how large they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters import BaseParameters
from ros2_dynid.dynamics.friction import active_terms
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import PlainRows, find_dependence, row_chunks, row_count
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, combine, compressed, gather
from ros2_dynid.identification.regression.least_squares import error_levels, joint_errors, solve_weighted
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class RepetitionThresholds:
    """When a motion repeats.

    difference: after a period, rms over all joints, below this share of the motion. periods: seen at least; filters
    take the ends of a motion that was run twice. shortest: period [s]; faster ones are vibrations. rate: up to which
    positions are compared [Hz].
    """

    difference: float = 0.02
    periods: float = 1.8
    shortest: float = 1.0
    rate: float = 50.0


def find_motion_period(prepared: Prepared, thresholds: RepetitionThresholds | None = None) -> float | None:
    """Return the period [s] of a recording's motion, or None if it does not repeat."""
    limits = thresholds or RepetitionThresholds()
    segment = max(prepared.segments, key=lambda part: part.stop - part.start)
    step = max(1, int(prepared.filter.inner_rate / limits.rate))
    return measure_motion_period(prepared.q[segment][::step], prepared.filter.inner_rate / step, limits)


def measure_motion_period(q: Array, rate: float, thresholds: RepetitionThresholds | None = None) -> float | None:
    """Return the period [s] of positions, shape (N, n), at `rate` [Hz]; None if they do not repeat."""
    limits = thresholds or RepetitionThresholds()
    first, last = int(limits.shortest * rate), int(len(q) / limits.periods)
    if last <= first + 2:
        return None
    difference = _differences(q)
    near = np.flatnonzero(difference[first:last] < limits.difference) + first
    if not len(near):
        return None
    apart = np.flatnonzero(np.diff(near) > 1)
    run = near[: apart[0] + 1] if len(apart) else near
    lag = int(run[np.argmin(difference[run])])
    period = _between(difference, lag)
    count = 1
    while (count + 1) * period < len(q) - 2:  # more periods tell the length of one more exactly
        count = min(2 * count, int((len(q) - 3) / period))
        expected = round(count * period)
        width = max(1, round(0.02 * period))
        around = difference[expected - width : expected + width + 1]
        if len(around) < 2 * width + 1 or around.min() >= limits.difference:
            break
        period = _between(difference, expected - width + int(np.argmin(around))) / count
        if count == int((len(q) - 3) / period):
            break
    return float(period / rate)


def _differences(q: Array) -> Array:
    """Return rms of q(t + lag) - q(t) over rms of q, all joints alike, for every lag up to nearly the length, (N,)."""
    x = (q - q.mean(axis=0)) / np.maximum(q.std(axis=0), 1e-300)
    N = len(x)
    spectrum = np.fft.rfft(x, 2 * N, axis=0)
    product = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:N].sum(axis=1)
    power = np.concatenate(([0.0], np.cumsum(np.sum(x**2, axis=1))))
    both = power[N - np.arange(N)] + power[N] - power[np.arange(N)]
    return np.asarray(np.sqrt(np.maximum(both - 2.0 * product, 0.0) / np.maximum(both, 1e-300)))


def _between(difference: Array, lag: int) -> float:
    """Return where the difference is smallest near `lag`, between samples: its square is a parabola there."""
    if not 0 < lag < len(difference) - 1:
        return float(lag)
    a, b, c = (difference[lag + k] ** 2 for k in (-1, 0, 1))
    curve = a - 2.0 * b + c
    return float(lag + (0.5 * (a - c) / curve if curve > 0.0 else 0.0))


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
    dependence[:, layout.friction] = np.array(
        [[k == j for j, _ in active_terms(robot, terms)] for k in range(len(dependence))]
    )
    parts = []
    for k, one in enumerate(prepared):
        plain = None if plain_rows is None else plain_rows[k]
        chunks = row_chunks(robot, one, columns, delay=delay, terms=terms, every=every, plain=plain)
        period = find_motion_period(one) if every == 1 else None
        count = -(-row_count(one) // every)
        parts.append(
            gather(chunks, dependence, count, layout, on_chunk=_within(on_chunk, k, len(prepared)), period=period)
        )
    return with_standstill(combine(parts))


def _within(on_chunk: OnChunk | None, k: int, count: int) -> OnChunk | None:
    return None if on_chunk is None else lambda fraction: on_chunk((k + fraction) / count)


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
    if not information.still:
        return information
    count = len(information.blocks)
    moving = replace(information, still=())
    resting = replace(moving, blocks=information.still[:count], phases=())
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
