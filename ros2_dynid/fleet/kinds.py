# SPDX-License-Identifier: Apache-2.0

"""What robots of one kind share: mean and spread of each base parameter between them, and who stands out.

A hierarchical estimate. Robot i has base parameters beta_i ~ N(mean, diag(spread^2)), and its recordings say x_i with
covariance C_i. mean and spread come from all robots but those that stand out; the shrunk estimate of a robot,

    (C_i^-1 + T^-1)^-1 (C_i^-1 x_i + T^-1 mean),    T = diag(spread^2),

draws it to the mean by as much as its own recordings leave open. A robot stands out in a parameter if its estimate is
further from the mean of the others than chance makes any robot in any parameter, once in CHANCE runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ros2_dynid.model.robot import Array

CHANCE = 0.01
"""Chance of naming any robot of a fleet in which none stands out."""
ROUNDS = 20
STEPS, CLOSE = 100, 1e-9
"""Steps to the spread at most, and the relative change of its square at which it is found."""
LEAST = 3
"""Robots that it takes to call one of them different."""
RIDGE = 1e-12
"""Added to scaled covariances, which may be singular where robots do not differ."""
MANY = 40
"""Robots from which on each is compared with the mean of all, not of all others: it is a small part of it."""


@dataclass(frozen=True, eq=False)
class Own:
    """What one robot's recordings say: x (b,), C (b, b), and which are identified (b,)."""

    value: Array
    covariance: Array
    identified: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Kind:
    """Robots of one kind: mean, its std, spread between robots, shape (b,); NaN where too few robots show it.

    z: how many sigmas each robot is from the others, shape (robots, b); limit: sigmas that are no chance, same shape;
    shrunk, shrunk_std: of each robot, same shape.
    """

    mean: Array
    mean_std: Array
    spread: Array
    z: Array
    limit: Array
    shrunk: Array
    shrunk_std: Array

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        """Which robot stands out in which parameter, shape (robots, b)."""
        return np.abs(self.z) > self.limit


def compare_kind(robots: Sequence[Own]) -> Kind:
    """Return what robots of one kind share and what scatters."""
    x = np.array([robot.value for robot in robots])
    s = np.array([np.sqrt(np.maximum(np.diag(robot.covariance), 0.0)) for robot in robots])
    is_identified = np.array([robot.identified for robot in robots], dtype=bool) & np.isfinite(s)
    m, b = x.shape
    chance = CHANCE / (2 * max(int(is_identified.sum()), 1))
    apart = np.zeros(m, dtype=bool)
    for _ in range(ROUNDS):
        mean, mean_std, spread = (np.full(b, np.nan) for _ in range(3))
        z, limit = np.full((m, b), np.nan), np.full((m, b), np.inf)
        for k in range(b):
            rows = np.flatnonzero(is_identified[:, k])
            usual = rows[~apart[rows]] if np.count_nonzero(~apart[rows]) >= LEAST else rows
            if len(usual) == 0:
                continue
            inliers = usual[select_usual(x[usual, k], s[usual, k], chance)]
            mean[k], mean_std[k], spread[k] = estimate_mean_and_spread(x[inliers, k], s[inliers, k])
            inside = np.isin(rows, inliers)
            z[rows, k], limit[rows, k] = compare_with_others(x[rows, k], s[rows, k], inside, chance)
        outliers = np.any(np.abs(z) > limit, axis=1) | apart
        if np.array_equal(outliers, apart):
            break
        apart = outliers  # a robot that stands out in one parameter says little about the usual value of another
    shrunk, shrunk_std = _shrunk(robots, mean, spread, is_identified)
    return Kind(mean, mean_std, spread, z, limit, shrunk, shrunk_std)


def guess_usual(x: Array, s: Array, chance: float) -> NDArray[np.bool_]:
    """Return which robots are near the median, by the median deviation: a few that are far off hardly move both."""
    centre = float(np.median(x))
    deviation = 1.4826 * float(np.median(np.abs(x - centre)))
    spread = np.sqrt(max(deviation**2 - float(np.median(s)) ** 2, 0.0))
    quantile = -float(stdtrit(max(len(x) - 2, 1), chance))
    return np.asarray(np.abs(x - centre) <= quantile * np.sqrt(spread**2 + s**2))


def select_usual(x: Array, s: Array, chance: float) -> NDArray[np.bool_]:
    """Return which robots the mean and the spread are taken from: all but those that stand out, found by turns."""
    if len(x) < LEAST:
        return np.ones(len(x), dtype=bool)
    usual = guess_usual(x, s, chance)
    for _ in range(ROUNDS):
        if np.count_nonzero(usual) < LEAST - 1:
            break
        z, limit = compare_with_others(x, s, usual, chance)
        before, usual = usual, ~(np.abs(z) > limit)
        if np.array_equal(before, usual):
            break
    return usual if np.count_nonzero(usual) >= LEAST - 1 else np.ones(len(x), dtype=bool)


def estimate_mean_and_spread(x: Array, s: Array) -> tuple[float, float, float]:
    """Return the mean, its std, and the spread between robots beyond their errors (Paule and Mandel).

    The spread makes sum w (x - mean)^2 = robots - 1 with w = 1 / (s^2 + spread^2); 0 if the errors alone explain it.
    """
    if len(x) == 1:
        return float(x[0]), float(s[0]), np.nan
    n, s2 = len(x), s**2
    floor = (1e-12 * max(float(np.max(np.abs(x))), float(np.max(s)), 1e-300)) ** 2
    # The sum is convex and falls with the spread: Newton's steps from the left of the root never pass it. If all s were
    # as large as the largest, this would be the root.
    square = max(float(np.sum((x - x.mean()) ** 2)) / (n - 1) - float(np.max(s2)) - floor, 0.0)
    for _ in range(STEPS):
        w = 1.0 / (s2 + (square + floor))
        mean = float(np.sum(w * x) / np.sum(w))
        own = w * (x - mean) ** 2
        excess = float(np.sum(own)) - (n - 1)
        step = excess / max(float(np.sum(w * own)), 1e-300)
        if excess <= 0.0 or step <= CLOSE * square:
            break
        square += step
    return mean, float(1.0 / np.sqrt(np.sum(w))), float(np.sqrt(square))


def compare_with_others(x: Array, s: Array, inside: NDArray[np.bool_], chance: float) -> tuple[Array, Array]:
    """Return how many sigmas each robot is from the others inside, and how many are no chance; NaN with too few.

    The spread of a few robots is poorly known: the quantile is Student's with their degrees of freedom.
    """
    z, limit = np.full(len(x), np.nan), np.full(len(x), np.inf)
    count = np.count_nonzero(inside) - (inside & (np.count_nonzero(inside) <= MANY))
    centre, scatter = np.full(len(x), np.nan), np.full(len(x), np.nan)
    together = estimate_mean_and_spread(x[inside], s[inside])
    centre[:], scatter[:] = together[0], together[1] ** 2 + together[2] ** 2
    if np.count_nonzero(inside) <= MANY:  # among more, one robot hardly moves the mean of all
        for i in np.flatnonzero(inside & (count >= LEAST - 1)):
            others = inside & (np.arange(len(x)) != i)
            mean, mean_std, spread = estimate_mean_and_spread(x[others], s[others])
            centre[i], scatter[i] = mean, mean_std**2 + spread**2
    total = scatter + s**2
    enough = (count >= LEAST - 1) & (total > 0.0)
    z[enough] = (x[enough] - centre[enough]) / np.sqrt(total[enough])
    limit[enough] = -stdtrit(count[enough] - 1.0, chance)
    return z, limit


def _shrunk(robots: Sequence[Own], mean: Array, spread: Array, is_identified: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return each robot drawn to the mean by its own information, with std, shape (robots, b) each."""
    values, stds = (np.full(is_identified.shape, np.nan) for _ in range(2))
    for i, robot in enumerate(robots):
        use = np.flatnonzero(is_identified[i] & np.isfinite(mean) & np.isfinite(spread))
        free = np.flatnonzero(~is_identified[i] & np.isfinite(mean))
        values[i, free], stds[i, free] = mean[free], spread[free]
        if len(use) == 0:
            continue
        C = robot.covariance[np.ix_(use, use)]
        T = np.diag(spread[use] ** 2)
        # x - C (C + T)^-1 (x - mean): the same without an inverse of what may be zero
        scale = np.sqrt(np.maximum(np.diag(C) + np.diag(T), 1e-300))
        A = (C + T) / np.outer(scale, scale) + RIDGE * np.eye(len(use))
        gain = np.linalg.solve(A, C / scale[:, None]).T / scale
        values[i, use] = robot.value[use] - gain @ (robot.value[use] - mean[use])
        stds[i, use] = np.sqrt(np.maximum(np.diag(C - gain @ C), 0.0))
    return values, stds
