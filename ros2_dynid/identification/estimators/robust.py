"""Robust least squares: rows that fit badly count less, by iteratively reweighted least squares (Huber).

A row whose error is beyond HUBER robust standard deviations of its joint gets the weight HUBER / |standardised error|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ros2_dynid.identification.estimators.covariance import Moments, block_moments, jackknife
from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.identification.estimators.least_squares import (
    Estimate,
    check_rows,
    error_levels,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.model.robot import Array

HUBER = 1.345
"""Keeps 95 % of the efficiency of least squares where errors are Gaussian."""
NORMAL_MAD = 0.6745
"""Median of |e| of a Gaussian error of unit standard deviation ..."""
NORMAL_BENT = 0.7102
"""... and mean of its min(|e|, HUBER)^2."""


def reweighted(
    information: Information,
    chunks: Callable[[], Iterable[Rows]],
    regather: Callable[[Callable[[Rows], Array]], Information],
    prior: Array | None = None,
    *,
    iterations: int = 10,
    tolerance: float = 1e-3,
) -> tuple[Information, Information, Array]:
    """Return the information with each row times the root of its weight, that of rows not bent, and joints' weights.

    chunks yields the rows once more; regather turns them into information with a factor for each row. Iterates until no
    value moves by more than `tolerance` of its standard deviation.
    """
    estimate = wls(information, prior)
    value, step = estimate.value, np.maximum(estimate.std, 1e-300)
    for _ in range(iterations):
        scale = _robust_scales(chunks(), value, information.n)

        def root_weight(rows: Rows, value: Array = value, scale: Array = scale) -> Array:
            standardised = np.abs(rows.tau - np.einsum("bnm,b->nm", rows.W, value)) / scale[:, None]
            return np.asarray(np.sqrt(HUBER / np.maximum(standardised, HUBER)))

        def inside(rows: Rows, value: Array = value, scale: Array = scale) -> Array:
            standardised = np.abs(rows.tau - np.einsum("bnm,b->nm", rows.W, value)) / scale[:, None]
            return np.asarray(standardised <= HUBER, dtype=float)

        information = regather(root_weight)
        weights = 1.0 / scale
        before, value = value, solve(weighted_triangle(information, weights), prior).value
        if np.all(np.abs(value - before) <= tolerance * step):
            break
    return information, regather(inside), weights


def irls(information: Information, slopes: Information, weights: Array, prior: Array | None = None) -> Estimate:
    """Return the estimate from information that `reweighted` made.

    A row beyond the bend pulls with a constant force, whatever the parameters: only rows inside it (`slopes`) hold the
    estimate in place, and the covariance must count them alone.
    """
    check_rows(information)
    found = solve(weighted_triangle(information, weights), prior)
    pull = block_moments(information, found.value, weights)
    hold = block_moments(slopes, found.value, weights)
    covariance, dof = jackknife(Moments(hold.A, pull.g, pull.recording), found.identified)
    sigma = error_levels(information, found.value, weights)
    return Estimate(found.value, covariance, found.identified, sigma, found.cond, found.rank, "irls", dof)


def _scale(size: Array) -> float:
    """Return the robust standard deviation of errors of that size: Huber's proposal 2, started from the median.

    The median alone is blind to errors that come with every reversal of a joint: too few to move it, many to ignore.
    """
    s = float(np.median(size)) / NORMAL_MAD
    for _ in range(100):
        before, s = s, s * float(np.sqrt(np.mean(np.minimum(size / max(s, 1e-300), HUBER) ** 2) / NORMAL_BENT))
        if abs(s - before) <= 1e-6 * s:
            break
    return s


def _robust_scales(chunks: Iterable[Rows], value: Array, n: int) -> Array:
    """Return the robust standard deviation of each joint's error, shape (n,)."""
    errors: list[list[Array]] = [[] for _ in range(n)]
    for rows in chunks:
        e = np.abs(rows.tau - np.einsum("bnm,b->nm", rows.W, value))
        for j in range(n):
            errors[j].append(e[j, rows.keep[j]])
    scales = np.array([_scale(np.concatenate(e)) for e in errors])
    return np.asarray(np.maximum(scales, 1e-12 * np.max(scales, initial=1e-300) + 1e-300))
