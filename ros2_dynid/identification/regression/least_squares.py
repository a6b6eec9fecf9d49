# SPDX-License-Identifier: Apache-2.0

"""Ordinary and weighted least squares from R factors (IDIM-WLS: Gautier 2013, section III), with error bars.

The weights are the inverse of each joint's own error, found by iteration. The error bars do not assume that errors of
neighbouring rows are independent: after filtering they never are. See `error_bars`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrcon, dtrtrs

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.error_bars import Moments, block_moments, jackknife
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate, Mask, Triangle
from ros2_dynid.identification.regression.information import Block, Information, compressed, decompose, pseudo_inverse
from ros2_dynid.model.robot import Array

TOLERANCE = 1e-8
"""Singular values of the scaled W below this fraction of the largest count as zero: not excited."""
ITERATIONS = 20
FREE_ROWS_SHARE = 0.1
"""Share of a joint's rows that the fit must leave over for its error to show."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of min |A x - y|: value, which entries the data determine, rank, and A with columns of unit norm."""

    value: Array
    identified: Mask
    rank: int
    scaled: Array

    @cached_property
    def cond(self) -> float:
        """Condition number of the columns scaled to unit norm, of the part that the data determine."""
        _, s, _ = decompose(self.scaled)
        return float(s[0] / s[self.rank - 1]) if self.rank else np.inf


def weighted_triangle(information: Information, weights: Array) -> Triangle:
    """Return the R factor of the joints' [W tau] stacked, each times its weight."""
    triangles = [information.triangle(j) for j in range(information.n)]
    return Triangle(compressed(stack_joints(information, triangles, weights)), information.layout)


def stack_joints(information: Information, triangles: Sequence[Array], weights: Array) -> Array:
    """Return the joints' [W_j tau_j] below each other with all columns of W, each joint times its weight."""
    parts = []
    for R, columns, weight in zip(triangles, information.columns, weights, strict=True):
        wide = np.zeros((len(R), information.size + 1))
        wide[:, columns] = weight * R[:, :-1]
        wide[:, -1] = weight * R[:, -1]
        parts.append(wide)
    return np.vstack(parts)


def solve(R: Array, prior: Array | None = None) -> Solution:
    """Return x that minimises |R[:, :-1] x - R[:, -1]|, and closest to `prior` where the data leave it open."""
    A, y = R[:, :-1], R[:, -1]
    if not A.size:  # a joint whose effort is not measured
        return Solution(np.zeros(A.shape[1]), np.zeros(A.shape[1], dtype=bool), 0, A)
    scale = np.linalg.norm(A, axis=0)
    unseen = scale <= 0.0
    scale = np.where(unseen, 1.0, scale)
    prior = np.zeros(A.shape[1]) if prior is None else prior
    k = A.shape[1]
    if len(A) >= k and not unseen.any():
        triangle = compressed(R / np.append(scale, 1.0))
        if np.any(np.tril(triangle[:, :-1], -1)):
            triangle = np.asarray(np.linalg.qr(triangle, mode="r"))
        triangle = triangle[:k]
        reciprocal, _ = dtrcon(triangle[:, :-1])
        if reciprocal > 100.0 * TOLERANCE:  # no need to look closer
            value = solve_triangle(triangle[:, :-1], triangle[:, -1]) / scale
            return Solution(value, np.ones(k, dtype=bool), k, triangle[:, :-1])
    U, s, Vt = decompose(A / scale)
    rank = int(np.count_nonzero(s > TOLERANCE * s[0])) if len(s) and s[0] > 0 else 0
    V = Vt[:rank].T
    change = V @ ((U[:, :rank].T @ (y - A @ prior)) / s[:rank])
    return Solution(prior + change / scale, np.sum(V**2, axis=1) > 0.99, rank, A / scale)


def solve_triangle(T: Array, y: Array) -> Array:
    """Return T^-1 y of an upper triangle that is well conditioned."""
    x, info = dtrtrs(T, y)
    if info != 0:
        raise np.linalg.LinAlgError("a triangle is singular")
    return np.asarray(x)


def joint_errors(information: Information, value: Array) -> Array:
    """Return the norm of tau_j - W_j base of each joint, shape (n,), or of each of several values, (..., n)."""
    joints = enumerate(information.columns)
    errors = [np.linalg.norm(residual(information.triangle(j), columns, value), axis=-1) for j, columns in joints]
    return np.stack(errors, axis=-1)


def joint_torques(information: Information) -> Array:
    """Return the norm of each joint's measured torque, shape (n,)."""
    return np.array([np.linalg.norm(information.triangle(j)[:, -1]) for j in range(information.n)])


def residual(R: Array, columns: NDArray[np.intp], value: Array) -> Array:
    """Return R [base; -1] with the sign of tau - W base: its norm is that of the errors; value (..., size)."""
    return np.asarray(R[:, -1] - value[..., columns] @ R[:, :-1].T)


def ols(information: Information, prior: Array | None = None) -> Estimate:
    """Return the ordinary least-squares estimate: every row counts alike."""
    check_rows(information)
    weights = np.ones(information.n)
    solution = solve(weighted_triangle(information, weights).R, prior)
    return add_error_bars(information, solution, weights, Method.OLS)


def wls(
    information: Information, prior: Array | None = None, *, iterations: int = ITERATIONS, error_bars: bool = True
) -> Estimate:
    """Return the weighted estimate: each joint's rows are divided by the standard deviation of its error, iterated.

    error_bars: whether error bars are computed; without them the covariance is not a number.
    """
    solution, weights = solve_weighted(information, prior, iterations=iterations)
    return add_error_bars(information, solution, weights, Method.WLS, error_bars=error_bars)


def solve_weighted(
    information: Information, prior: Array | None = None, *, iterations: int = ITERATIONS
) -> tuple[Solution, Array]:
    """Return the solution of `wls` and the joints' weights, shape (n,), without error bars."""
    check_rows(information)
    weights = 1.0 / own_errors(information)
    triangle = weighted_triangle(information, weights)
    solution = solve(triangle.R, prior)
    for _ in range(iterations):
        before, weights = weights, 1.0 / error_levels(information, solution.value, weights, triangle)
        triangle = weighted_triangle(information, weights)
        solution = solve(triangle.R, prior)
        if np.allclose(weights, before, rtol=1e-6):
            break
    return solution, weights


def solve_by_own_errors(information: Information) -> Array:
    """Return the value (size,) of weighted least squares with the joints' `own_errors`, without any iteration."""
    return solve(weighted_triangle(information, 1.0 / own_errors(information)).R).value


def add_error_bars(
    information: Information,
    solution: Solution,
    weights: Array,
    method: Method,
    *,
    moments: Moments | None = None,
    half: bool = False,
    error_bars: bool = True,
) -> Estimate:
    """Return the estimate with covariance, for a least-squares solution with these weights of the joints.

    moments: of the equations solved, those of least squares by default; half: see `jackknife`.
    """
    value, identified, layout = solution.value, solution.identified, information.layout
    covariance, dof = np.full((information.size, information.size), np.nan), np.inf
    if error_bars:
        covariance, dof = jackknife(moments or block_moments(information, value, weights), identified, half=half)
    sigma = error_levels(information, value, weights)
    return Estimate(layout, value, covariance, identified, sigma, solution.cond, solution.rank, method, dof)


def fit_alone(
    information: Information, rows: Sequence[Array], counts: Sequence[int], *, error_bars: bool = True
) -> Estimate:
    """Return the fit of rows [A y] alone, an array for each block of the information, which stand for so many rows."""
    blocks = tuple(
        Block((own,), np.array([count]), block.start, block.end, block.recording)
        for own, count, block in zip(rows, counts, information.blocks, strict=True)
    )
    width = rows[0].shape[1] - 1
    alone = Information(blocks, (np.arange(width),), ColumnLayout(width))
    return add_error_bars(alone, solve(alone.triangle(0)), np.ones(1), Method.OLS, error_bars=error_bars)


def own_errors(information: Information) -> Array:
    """Return the standard deviation of each joint's error when its rows alone are fitted, shape (n,).

    Infinite where the effort is not measured: such a joint has no weight.
    """
    sigma = np.full(information.n, np.inf)
    for j in (j for j, columns in enumerate(information.columns) if len(columns)):
        R, rows = information.triangle(j), information.rows[j]
        solution = solve(R)
        error = np.linalg.norm(R[:, -1] - R[:, :-1] @ solution.value)
        sigma[j] = _level(error, rows, solution.rank, np.linalg.norm(R[:, -1]))
    return sigma


def error_levels(information: Information, value: Array, weights: Array, triangle: Triangle | None = None) -> Array:
    """Return the standard deviation of each joint's error, degrees of freedom shared by the joints' weights.

    A joint with hardly more rows than the fit spends on it shows no error: it would draw all weight to itself until its
    rows are met exactly. Its error is taken as large beside its torque as that of the others in the median. triangle:
    of all rows with these weights, if it is known.
    """
    triangle = triangle or weighted_triangle(information, weights)
    sigma, shown = np.empty(information.n), np.empty(information.n, dtype=bool)
    size = np.linalg.norm(triangle.W, axis=0)
    scale = np.where(size > 0, size, 1.0)
    inverse = _inverse(triangle.W / scale)
    for j, columns in enumerate(information.columns):
        R = information.triangle(j)
        own = weights[j] * R[:, :-1] / scale[columns]
        used = float(np.sum((own @ inverse[columns]) ** 2))  # trace of the joint's part of the hat matrix
        error = np.linalg.norm(residual(R, columns, value))
        sigma[j] = _level(error, information.rows[j], used, np.linalg.norm(R[:, -1]))
        if not len(columns):
            sigma[j] = np.inf  # not measured
        shown[j] = not len(columns) or used < (1.0 - FREE_ROWS_SHARE) * information.rows[j]
    if shown.any() and not shown.all():
        torque = joint_torques(information) / np.sqrt(np.maximum(information.rows, 1))
        known = shown & np.isfinite(sigma)
        common = np.median(sigma[known] / np.maximum(torque[known], 1e-300))
        sigma[~shown] = np.maximum(sigma[~shown], common * torque[~shown])
    return sigma


def _inverse(A: Array) -> Array:
    """Return A^+ of a triangle, with or without rows of zeros below it, or of few rows as they are."""
    k = A.shape[1]
    if len(A) >= k and not np.any(np.tril(A, -1)) and dtrcon(A[:k])[0] > 100.0 * TOLERANCE:
        return solve_triangle(A[:k], np.eye(k))
    return pseudo_inverse(A, TOLERANCE)


def check_rows(information: Information) -> None:
    """Raise InputError if there are fewer rows than parameters."""
    total, rows = int(np.sum(information.rows)), information.rows
    if total <= information.size:
        what = f"there are {total} rows for {information.size} base parameters"
        raise InputError(what, Text("record longer, or keep more rows a second: ", Option("row_rate")))
    missing = (rows == 0) & [len(columns) > 0 for columns in information.columns]
    if np.any(missing):
        what = f"no row of joint number {int(np.argmax(missing)) + 1} is left: it is always slow"
        raise InputError(what, Text("excite it faster, or keep slow rows: ", Option("slow", 0)))


def _level(error: float | np.floating, rows: int | np.integer, used: float, torque: float | np.floating) -> float:
    """Return the standard deviation, never quite zero so that exact data still have weights."""
    return float(max(error / np.sqrt(max(rows - used, 1.0)), 1e-12 * torque / np.sqrt(max(rows, 1)), 1e-300))
