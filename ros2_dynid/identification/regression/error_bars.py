# SPDX-License-Identifier: Apache-2.0

"""Error bars for errors that are correlated in time: the estimate is repeated with one block of time left out.

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
from functools import lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ros2_dynid.identification.regression.information import Block, Information, pseudo_inverse
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
    inverse = pseudo_inverse(A, 1e-14)
    moves = np.empty((B, b))
    for first in range(0, B, BLOCKS_AT_ONCE):
        some = slice(first, first + BLOCKS_AT_ONCE)
        E = np.eye(b) - (moments.A[some] / np.outer(scale, scale)) @ inverse
        moves[some] = _corrected(E, g[some], half) @ inverse.T
    if identified is not None:
        moves[:, ~identified] = 0.0  # what the data leave open moves by rounding
    factor, dof = _slow_share(moves, moments.recording)
    covariance = moves.T @ moves * np.sqrt(np.outer(factor, factor))
    return covariance / np.outer(scale, scale), dof


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
SIGNIFICANCE = 3.0
"""Standard deviations from zero, or from another value, that are no chance: bench/study_error_bars.py."""


def half_width(dof: float) -> float:
    """Return the half width of a confidence interval in standard deviations that are known with `dof` (Student)."""
    level = 0.5 + CONFIDENCE / 2
    return float(stdtrit(dof, level) if np.isfinite(dof) else ndtri(level))


def deviations_beyond_chance(freedom: float, chance: float) -> float:
    """Return how many standard deviations chance makes that often: 4.3 if they are well known, 8 from ten degrees of
    freedom, at one in 100,000."""
    return -float(stdtrit(freedom, chance) if np.isfinite(freedom) else ndtri(chance))
