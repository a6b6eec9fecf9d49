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
LEAST = 3
"""Robots that it takes to call one of them different."""


@dataclass(frozen=True, eq=False)
class Own:
    """What one robot's recordings say: x (b,), C (b, b), which are identified (b,), degrees of freedom of C."""

    value: Array
    covariance: Array
    identified: NDArray[np.bool_]
    dof: float


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
    known = np.array([robot.identified for robot in robots], dtype=bool) & np.isfinite(s)
    dof = np.array([robot.dof for robot in robots])
    m, b = x.shape
    mean, mean_std, spread = (np.full(b, np.nan) for _ in range(3))
    z, limit = np.full((m, b), np.nan), np.full((m, b), np.inf)
    chance = CHANCE / (2 * max(int(known.sum()), 1))
    for k in range(b):
        rows = np.flatnonzero(known[:, k])
        if len(rows) == 0:
            continue
        inside = _inside(x[rows, k], s[rows, k], dof[rows], chance)
        used = rows[inside]
        mean[k], mean_std[k], spread[k] = _mean_and_spread(x[used, k], s[used, k])
        for i in rows:
            others = used[used != i]
            if len(others) >= LEAST - 1:
                z[i, k], limit[i, k] = _distance(x[i, k], s[i, k], dof[i], x[others, k], s[others, k], chance)
    shrunk, shrunk_std = _shrunk(robots, mean, spread, known)
    return Kind(mean, mean_std, spread, z, limit, shrunk, shrunk_std)


def _inside(x: Array, s: Array, dof: Array, chance: float) -> NDArray[np.bool_]:
    """Return which robots the mean and the spread are taken from: all but those that stand out, found by turns.

    It begins with median and median deviation, which a few that are far off hardly move.
    """
    m = len(x)
    if m < LEAST:
        return np.ones(m, dtype=bool)
    centre = float(np.median(x))
    deviation = 1.4826 * float(np.median(np.abs(x - centre)))
    spread = np.sqrt(max(deviation**2 - float(np.median(s)) ** 2, 0.0))
    quantile = -float(stdtrit(max(m - 2, 1), chance))
    inside = np.abs(x - centre) <= quantile * np.sqrt(spread**2 + s**2)
    for _ in range(ROUNDS):
        if np.count_nonzero(inside) < LEAST - 1:
            return np.ones(m, dtype=bool)
        before = inside.copy()
        for i in range(m):
            others = np.flatnonzero(before & (np.arange(m) != i))
            if len(others) >= LEAST - 1:
                z, limit = _distance(x[i], s[i], dof[i], x[others], s[others], chance)
                inside[i] = abs(z) <= limit
        if np.array_equal(before, inside):
            break
    return inside if np.count_nonzero(inside) >= LEAST - 1 else np.ones(m, dtype=bool)


def _mean_and_spread(x: Array, s: Array) -> tuple[float, float, float]:
    """Return the mean, its std, and the spread between robots beyond their errors (Paule and Mandel).

    The spread makes sum w (x - mean)^2 = robots - 1 with w = 1 / (s^2 + spread^2); 0 if the errors alone explain it.
    """
    if len(x) == 1:
        return float(x[0]), float(s[0]), np.nan
    scale = max(float(np.ptp(x)), float(np.max(s)), 1e-300)
    floor = (1e-12 * max(scale, float(np.max(np.abs(x))))) ** 2

    def excess(square: float) -> float:
        w = 1.0 / (s**2 + square + floor)
        return float(np.sum(w * (x - np.sum(w * x) / np.sum(w)) ** 2)) - (len(x) - 1)

    low, high = 0.0, scale**2
    if excess(0.0) > 0.0:
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
            if high - low <= 1e-12 * scale**2:
                break
    square = low
    w = 1.0 / (s**2 + square + floor)
    return float(np.sum(w * x) / np.sum(w)), float(1.0 / np.sqrt(np.sum(w))), float(np.sqrt(square))


def _distance(x: float, s: float, dof: float, others: Array, s_others: Array, chance: float) -> tuple[float, float]:
    """Return how many sigmas x is from the others, and how many are no chance.

    The spread of a few robots is poorly known, and so is the std from a few blocks: the quantile is Student's, with the
    degrees of freedom of the sum (Satterthwaite).
    """
    mean, mean_std, spread = _mean_and_spread(others, s_others)
    spread = 0.0 if np.isnan(spread) else spread
    between, own = spread**2 + mean_std**2, s**2
    total = between + own
    if total <= 0.0:
        return 0.0, np.inf
    freedom = total**2 / (between**2 / max(len(others) - 1, 1) + own**2 / max(dof, 1.0))
    return float((x - mean) / np.sqrt(total)), -float(stdtrit(freedom, chance))


def _shrunk(robots: Sequence[Own], mean: Array, spread: Array, known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return each robot drawn to the mean by its own information, with std, shape (robots, b) each."""
    values, stds = (np.full(known.shape, np.nan) for _ in range(2))
    for i, robot in enumerate(robots):
        use = np.flatnonzero(known[i] & np.isfinite(mean) & np.isfinite(spread))
        free = np.flatnonzero(~known[i] & np.isfinite(mean))
        values[i, free], stds[i, free] = mean[free], spread[free]
        if len(use) == 0:
            continue
        C = robot.covariance[np.ix_(use, use)]
        T = np.diag(spread[use] ** 2)
        # x - C (C + T)^-1 (x - mean): the same without an inverse of what may be zero
        scale = np.sqrt(np.maximum(np.diag(C) + np.diag(T), 1e-300))
        gain = np.linalg.lstsq((C + T) / np.outer(scale, scale), (C / scale[:, None]), rcond=1e-12)[0].T / scale
        values[i, use] = robot.value[use] - gain @ (robot.value[use] - mean[use])
        stds[i, use] = np.sqrt(np.maximum(np.diag(C - gain @ C), 0.0))
    return values, stds
