# SPDX-License-Identifier: Apache-2.0

"""Ordinary and weighted least squares from R factors (IDIM-WLS: seed 002, section III), with error bars.

The weights are the inverse of each joint's own error, found by iteration. The error bars do not assume that errors of
neighbouring rows are independent: after filtering they never are. See `covariance`.

Error bars for errors that are correlated in time: the estimate is repeated with one block of time left out.
A least-squares estimate solves sum over rows of z (y - x . base) = 0 with z = weight times x (or instruments). With
A_b = sum of z x^T and g_b = sum of z e over block b, leaving b out moves the estimate by -(A - A_b)^-1 g_b, and the
scatter of these moves gives the covariance. Errors may be correlated within a block, across joints, and may differ in
size along the motion. Blocks are joined as long as neighbours have errors in common: they grow with the time over which
errors are correlated. Neighbours may also have opposite errors: encoder noise differentiated twice adds to one block
what it takes from the next, and so hardly adds to the whole. The moves are therefore taken as a series in time of which
only the slow part adds up over the recording: the power of its slowest cosines, which is never negative, counts.
Errors of a motion that repeats come again with every period: there the larger of two covariances counts, that of blocks
of time and, if it is clearly larger, that of blocks of the period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrcon, dtrtrs
from scipy.special import ndtri, stdtrit

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.estimate import Estimate, Mask, Triangle
from ros2_dynid.identification.regression.information import Block, Information, compressed
from ros2_dynid.model.robot import Array

FEWEST_BLOCKS = 6
"""Blocks are not joined to fewer than this, and no fewer cosines are used."""
LEAKED_SHARE = 0.1
"""Share of a variance that faster errors, which cancel, may add to the power of the slowest cosines."""
CORRELATED_STDS = 1.5
"""Neighbouring blocks are correlated if the mean over all parameters is this many standard deviations of one from 0."""
CHANCE_RATIO = 1.5
"""Variance by blocks of the period over that by blocks of time up to which they differ by chance, since blocks are few.
Errors that come again with each of n periods have n times the variance."""
BLOCKS_AT_ONCE = 256
"""Blocks whose moves are computed together: many for speed, not all for memory."""
SINGLE_FACTOR = 2.3
"""How much larger the correlation of a single parameter must be: the largest of many is that by chance."""


@dataclass(frozen=True, eq=False)
class Moments:
    """A (B, b, b) and g (B, b) of B blocks, and the recording each block is of, shape (B,).

    phases: the same of blocks of the period, where a motion repeats.
    """

    A: Array
    g: Array
    recording: Array
    phases: Moments | None = None


def block_moments(information: Information, value: Array, weights: Array) -> Moments:
    """Return the moments of weighted least squares: z = weight^2 x."""
    phases = _block_moments(information, information.phases, value, weights) if information.phases else None
    return replace(_block_moments(information, information.blocks, value, weights), phases=phases)


def _block_moments(information: Information, blocks: Sequence[Block], value: Array, weights: Array) -> Moments:
    B, b = len(blocks), information.size
    A, g = np.zeros((B, b, b)), np.zeros((B, b))
    for j, columns in enumerate(information.columns):
        to_residual = np.append(-value[columns], 1.0)
        for rows in sorted({len(block.R[j]) for block in blocks}):
            same = np.array([k for k, block in enumerate(blocks) if len(block.R[j]) == rows])
            R = weights[j] * np.stack([blocks[k].R[j] for k in same])
            Wt = R[:, :, :-1].swapaxes(1, 2)
            A[np.ix_(same, columns, columns)] += Wt @ R[:, :, :-1]
            g[np.ix_(same, columns)] += (Wt @ (R @ to_residual)[:, :, None])[:, :, 0]
    return Moments(A, g, np.array([block.recording for block in blocks], dtype=float))


def jackknife(
    moments: Moments, identified: NDArray[np.bool_] | None = None, *, half: bool = False, grow: bool = True
) -> tuple[Array, float]:
    """Return the covariance, shape (b, b), and the degrees of freedom behind it.

    identified: shape (b,), False for parameters that the data leave open, which then have no covariance. Leaving a
    block out overstates its errors where it holds much of what is known; with `half` only half of that correction is
    made, (E - H A^-1)^-1/2 in place of (E - H A^-1)^-1. grow: whether blocks with correlated errors are joined.
    """
    moments, by_phase = _join_correlated(moments) if grow else moments, moments.phases
    covariance, dof = _scatter(moments, identified, half=half)
    if by_phase is None:
        return covariance, dof
    other, its_dof = _scatter(by_phase, identified, half=half)
    excited = (np.diag(covariance) > 0.0) & (np.diag(other) > 0.0)
    if not excited.any():
        return covariance, dof
    ratio = np.diag(other)[excited] / np.diag(covariance)[excited]
    shared = np.sqrt(ratio * np.exp(np.mean(np.log(ratio))))  # half of it from all parameters, which scatters less
    larger = np.ones(len(excited))
    larger[excited] = np.sqrt(np.where(shared > CHANCE_RATIO, shared, 1.0))
    return covariance * np.outer(larger, larger), its_dof if np.median(shared) > CHANCE_RATIO else dof


def _join_correlated(moments: Moments) -> Moments:
    """Return the moments with neighbouring blocks joined in pairs as long as their errors are correlated.

    The correlation is that of the scores of neighbours, over all parameters, each in units of its own scatter.
    Independent scores that sum to zero have one of -1 / (B - 1), with a standard deviation of 1 / sqrt(B) or less.
    """
    while len(moments.g) >= 2 * FEWEST_BLOCKS:
        g = moments.g / np.maximum(np.sqrt(np.sum(moments.g**2, axis=0)), 1e-300)
        same = moments.recording[1:] == moments.recording[:-1]
        neighbours = np.sum(g[1:][same] * g[:-1][same], axis=0)
        excited = np.any(moments.g != 0.0, axis=0)
        limit = CORRELATED_STDS / np.sqrt(len(g))
        if not excited.any() or max(np.mean(neighbours[excited]), np.max(neighbours[excited]) / SINGLE_FACTOR) <= limit:
            break
        pairs = _pairs(moments.recording)
        moments = Moments(
            np.array([moments.A[pair].sum(axis=0) for pair in pairs]),
            np.array([moments.g[pair].sum(axis=0) for pair in pairs]),
            np.array([moments.recording[pair[0]] for pair in pairs]),
        )
    return moments


def _pairs(recording: Array) -> list[list[int]]:
    """Return the numbers of neighbours of one recording in pairs; an odd one joins the pair before it."""
    pairs: list[list[int]] = []
    for k, number in enumerate(recording):
        last = pairs[-1] if pairs else []
        if len(last) == 1 and recording[last[0]] == number:
            last.append(k)
        else:
            pairs.append([k])
    for k in range(len(pairs) - 1, 0, -1):
        if len(pairs[k]) == 1 and recording[pairs[k][0]] == recording[pairs[k - 1][0]]:
            pairs[k - 1] += pairs.pop(k)
    return pairs


def _scatter(
    moments: Moments, identified: NDArray[np.bool_] | None = None, *, half: bool = False
) -> tuple[Array, float]:
    """Return covariance and degrees of freedom of one set of blocks."""
    B, b = moments.g.shape
    A = moments.A.sum(axis=0)
    scale = np.sqrt(np.abs(np.diag(A)))
    scale = np.where(scale > 0, scale, 1.0)
    A = A / np.outer(scale, scale)
    g = moments.g / scale
    inverse = np.linalg.pinv(A, rcond=1e-14)
    moves = np.empty((B, b))
    for first in range(0, B, BLOCKS_AT_ONCE):
        some = slice(first, first + BLOCKS_AT_ONCE)
        E = np.eye(b) - (moments.A[some] / np.outer(scale, scale)) @ inverse
        moves[some] = _corrected(E, g[some], half) @ inverse.T
    factor, dof = _slow_share(moves, moments.recording)
    covariance = moves.T @ moves * np.sqrt(np.outer(factor, factor))
    covariance = covariance / np.outer(scale, scale)
    if identified is not None:
        covariance[~identified] = 0.0
        covariance[:, ~identified] = 0.0
    return covariance, dof


def _slow_share(moves: Array, recording: Array) -> tuple[Array, float]:
    """Return what is left of the moves' variance where neighbours' errors add up or cancel, (b,), and the freedom.

    The power of the K slowest cosines of a series estimates the variance of its sum from K numbers, the sum of squares
    from B - 1; every recording is a series of its own. Each parameter has its own ratio of the two; half of it (as a
    logarithm) is taken from the mean of all parameters, which scatters less. Where no block follows another one of its
    recording there is no series.
    """
    B, b = moves.shape
    variance = np.sum(moves**2, axis=0)
    excited, same = variance > 0.0, recording[1:] == recording[:-1]
    if not same.any() or not excited.any():
        return np.ones(b), float(max(B - 1, 1))
    moves, variance = moves[:, excited], variance[excited]
    neighbours = np.sum(moves[1:][same] * moves[:-1][same], axis=0) / variance
    correlation = float(neighbours.mean()) + same.mean() / B
    numbers = np.unique(recording)
    first = 1 if len(numbers) == 1 else 0  # the mean of all blocks is zero, that of a recording is not
    power, used = np.zeros(len(variance)), 0
    for number in numbers:
        own = moves[recording == number]
        length = len(own)
        count = max(1, min(slowest(correlation, length), length - first))
        norms, waves = _cosines(first, count, length)
        power += (length - first) / count * (norms @ (waves @ own) ** 2)
        used += count
    ratio, factor = power / variance, np.ones(b)
    factor[excited] = np.sqrt(ratio * ratio.mean())
    return factor, 2.0 / (1.0 / max(used + first - 1, 1) + 1.0 / (B - 1))


@lru_cache(maxsize=256)
def _cosines(first: int, count: int, length: int) -> tuple[Array, Array]:
    """Return 1 / |wave|^2 (count,) and `count` cosines (count, length) of rising order from `first` on."""
    orders = np.arange(first, first + count)
    waves = np.cos(np.pi / length * np.outer(orders, np.arange(length) + 0.5))
    return np.where(orders > 0, 2.0, 1.0) / length, waves


def slowest(correlation: float, B: int) -> int:
    """Return how many of the slowest cosines of B blocks to use where neighbours have that correlation, at most half.

    With spectrum 1 + 2 r cos(w), their mean power over that of the slowest one is (1 + 2 r sin(v) / v) / (1 + 2 r) with
    v = pi K / (B - 1), which LEAKED_SHARE bounds.
    """
    r = float(np.clip(correlation, -0.49, 0.49))
    K = np.arange((B - 1) // 2, FEWEST_BLOCKS, -1)
    power = (1.0 + 2.0 * r * np.sinc(K / (B - 1))) / (1.0 + 2.0 * r)
    fits = np.flatnonzero((power >= 1.0 / (1.0 + LEAKED_SHARE)) & (power <= 1.0 + LEAKED_SHARE))
    return int(K[fits[0]]) if len(fits) else min(FEWEST_BLOCKS, B - 1)


def _corrected(E: Array, g: Array, half: bool) -> Array:
    """Return the blocks' scores g (B, b) as if not fitted: E^-1 g with E = 1 - H A^-1, shape (B, b, b).

    Where a block is all there is, its score stays as it is.
    """
    if half:
        E = np.array([np.real(scipy.linalg.sqrtm(one)) for one in E])
    try:
        return np.asarray(np.linalg.solve(E, g[:, :, None]))[:, :, 0]
    except np.linalg.LinAlgError:
        return np.array([_solved(one, score) for one, score in zip(E, g, strict=True)])


def _solved(E: Array, g: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(E, g))
    except np.linalg.LinAlgError:
        return g


CONFIDENCE = 0.95
"""Share of all cases in which a true value lies inside its interval."""


def half_width(dof: float) -> float:
    """Return the half width of a confidence interval in standard deviations that are known with `dof` (Student)."""
    level = 0.5 + CONFIDENCE / 2
    return float(stdtrit(dof, level) if np.isfinite(dof) else ndtri(level))


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
        s = np.linalg.svd(self.scaled, compute_uv=False)
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
    U, s, Vt = np.linalg.svd(A / scale, full_matrices=False)
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
        before, weights = weights, 1.0 / _error_levels(information, solution.value, weights, triangle)
        triangle = weighted_triangle(information, weights)
        solution = solve(triangle.R, prior)
        if np.allclose(weights, before, rtol=1e-6):
            break
    return solution, weights


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


def own_errors(information: Information) -> Array:
    """Return the standard deviation of each joint's error when its rows alone are fitted, shape (n,)."""
    sigma = np.empty(information.n)
    for j in range(information.n):
        R, rows = information.triangle(j), information.rows[j]
        solution = solve(R)
        error = np.linalg.norm(R[:, -1] - R[:, :-1] @ solution.value)
        sigma[j] = _level(error, rows, solution.rank, np.linalg.norm(R[:, -1]))
    return sigma


def error_levels(information: Information, value: Array, weights: Array) -> Array:
    """Return the standard deviation of each joint's error, degrees of freedom shared by the joints' weights.

    A joint with hardly more rows than the fit spends on it shows no error: it would draw all weight to itself until its
    rows are met exactly. Its error is taken as large beside its torque as that of the others in the median.
    """
    return _error_levels(information, value, weights, weighted_triangle(information, weights))


def _error_levels(information: Information, value: Array, weights: Array, triangle: Triangle) -> Array:
    """Return the same; triangle: that of these weights."""
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
        shown[j] = used < (1.0 - FREE_ROWS_SHARE) * information.rows[j]
    if shown.any() and not shown.all():
        torque = joint_torques(information) / np.sqrt(np.maximum(information.rows, 1))
        common = np.median(sigma[shown] / np.maximum(torque[shown], 1e-300))
        sigma[~shown] = np.maximum(sigma[~shown], common * torque[~shown])
    return sigma


def _inverse(A: Array) -> Array:
    """Return A^+ of a triangle, with or without rows of zeros below it, or of few rows as they are."""
    k = A.shape[1]
    if len(A) >= k and not np.any(np.tril(A, -1)) and dtrcon(A[:k])[0] > 100.0 * TOLERANCE:
        return solve_triangle(A[:k], np.eye(k))
    return np.asarray(np.linalg.pinv(A, rcond=TOLERANCE))


def check_rows(information: Information) -> None:
    """Raise InputError if there are fewer rows than parameters."""
    total, rows = int(np.sum(information.rows)), information.rows
    if total <= information.size:
        what = f"there are {total} rows for {information.size} base parameters"
        raise InputError(what, Text("record longer, or keep more rows a second: ", Option("row_rate")))
    if np.any(rows == 0):
        what = f"no row of joint number {int(np.argmin(rows)) + 1} is left: it is always slow"
        raise InputError(what, Text("excite it faster, or keep slow rows: ", Option("slow", 0)))


def _level(error: float | np.floating, rows: int | np.integer, used: float, torque: float | np.floating) -> float:
    """Return the standard deviation, never quite zero so that exact data still have weights."""
    return float(max(error / np.sqrt(max(rows - used, 1.0)), 1e-12 * torque / np.sqrt(max(rows, 1)), 1e-300))
