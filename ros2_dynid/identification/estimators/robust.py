# SPDX-License-Identifier: Apache-2.0

"""Robust least squares: rows that fit badly count less, by iteratively reweighted least squares (Huber).

A row whose error is beyond HUBER robust standard deviations of its joint gets the weight HUBER / |standardised error|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.rows import Rows, row_count
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.error_bars import Moments, block_moments
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, block_length
from ros2_dynid.identification.regression.least_squares import add_error_bars, check_rows, solve, weighted_triangle, wls
from ros2_dynid.model.robot import Array

NumberedRows = tuple[NDArray[np.intp], Rows]
"""The number of the block that each row is of, shape (m,), and the rows."""
HUBER = 1.345
"""Keeps 95 % of the efficiency of least squares where errors are Gaussian."""
ROUNDS = 10
SETTLED = 1e-3
"""Standard deviations by which no value moves any more once the weights have settled."""
NORMAL_MAD = 0.6745
"""Median of |e| of a Gaussian error of unit standard deviation ..."""
NORMAL_BENT = 0.7102
"""... and mean of its min(|e|, HUBER)^2."""


def reweight_rows(
    information: Information,
    chunks: Callable[[], Iterable[NumberedRows]],
    regather: Callable[[Callable[[Rows], Array]], Information],
    prior: Array | None = None,
    chosen: Sequence[int] | None = None,
) -> tuple[Information, Information, Array]:
    """Return the information with each row times the root of its weight, that of rows not bent, and joints' weights.

    chunks yields the rows once more, with the number of each row's block; regather turns them into information with a
    factor for each row. chosen: the blocks that count (None: all); nothing is learnt from the others. Iterates until no
    value moves by more than SETTLED of its standard deviations.
    """
    blocks = range(len(information.blocks)) if chosen is None else chosen
    estimate = wls(information.take(blocks), prior)
    value, step = estimate.value, np.maximum(estimate.std, 1e-300)
    robust, weights = information, 1.0 / estimate.sigma
    for _ in range(ROUNDS):
        scale = _robust_scales(chunks(), value, information.n, set(blocks))

        def root_weight(rows: Rows, value: Array = value, scale: Array = scale) -> Array:
            return np.asarray(np.sqrt(HUBER / np.maximum(_standardised(rows, value, scale), HUBER)))

        def inside(rows: Rows, value: Array = value, scale: Array = scale) -> Array:
            return np.asarray(_standardised(rows, value, scale) <= HUBER, dtype=float)

        robust, weights = regather(root_weight).take(blocks), 1.0 / scale
        before, value = value, solve(weighted_triangle(robust, weights).R, prior).value
        if np.all(np.abs(value - before) <= SETTLED * step):
            break
    return robust, regather(inside).take(blocks), weights


def irls(information: Information, slopes: Information, weights: Array, prior: Array | None = None) -> Estimate:
    """Return the estimate from information that `reweight_rows` made.

    A row beyond the bend pulls with a constant force, whatever the parameters: only rows inside it (`slopes`) hold the
    estimate in place, and the covariance must count them alone.
    """
    check_rows(information)
    solution = solve(weighted_triangle(information, weights).R, prior)
    pull, hold = (block_moments(part, solution.value, weights) for part in (information, slopes))
    phases = None
    if hold.phases is not None and pull.phases is not None:
        phases = replace(hold.phases, g=pull.phases.g)
    moments = Moments(hold.A, pull.g, pull.recording, phases)
    return add_error_bars(information, solution, weights, Method.IRLS, moments=moments)


def robust_scale(size: Array) -> float:
    """Return the robust standard deviation of errors of that size: Huber's proposal 2, started from the median.

    The median alone is blind to errors that come with every reversal of a joint: too few to move it, many to ignore.
    """
    s = float(np.median(size)) / NORMAL_MAD
    for _ in range(100):
        before, s = s, s * float(np.sqrt(np.mean(np.minimum(size / max(s, 1e-300), HUBER) ** 2) / NORMAL_BENT))
        if abs(s - before) <= 1e-6 * s:
            break
    return s


def _standardised(rows: Rows, value: Array, scale: Array) -> Array:
    return np.asarray(np.abs(rows.tau - np.einsum("bnm,b->nm", rows.W, value)) / scale[:, None])


def _robust_scales(chunks: Iterable[NumberedRows], value: Array, n: int, blocks: Set[int]) -> Array:
    """Return the robust standard deviation of each joint's error, shape (n,), from the rows of these blocks."""
    errors: list[list[Array]] = [[] for _ in range(n)]
    for numbers, rows in chunks:
        counts = np.isin(numbers, list(blocks))
        if not counts.any():
            continue
        e = np.abs(rows.tau - np.einsum("bnm,b->nm", rows.W, value))
        for j in range(n):
            errors[j].append(e[j, rows.keep[j] & counts])
    scales = np.array([robust_scale(np.concatenate(e)) for e in errors])
    return np.asarray(np.maximum(scales, 1e-12 * np.max(scales, initial=1e-300) + 1e-300))


def build_fit(problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return robust least squares for a problem: rows are weighted anew within the blocks that are used."""

    def numbered_rows() -> Iterator[NumberedRows]:
        offset = 0
        for number, prepared in enumerate(problem.prepared):
            n_rows = row_count(prepared)
            length, at = block_length(n_rows), 0
            for rows in problem.rows(number):
                yield offset + np.arange(at, at + len(rows.t)) // length, rows
                at += len(rows.t)
            offset += -(-n_rows // length)

    def regather(weight: Callable[[Rows], Array]) -> Information:
        return problem.gather_rows(problem.rows, weight=weight, on_chunk=on_chunk)

    def fit(blocks: Sequence[int] | None) -> Estimate:
        return irls(*reweight_rows(problem.information, numbered_rows, regather, problem.prior, blocks), problem.prior)

    return fit
