# SPDX-License-Identifier: Apache-2.0

"""Essential parameters: base parameters that the data support (Gautier 2013, section III; Izaguirre 1992).

Backward elimination: the parameter with the largest relative standard deviation is set to zero, if a test says that the
error does not grow by more than chance, and if stretches of time left out in turn are predicted as well without it; the
rest is fitted again; until all that are left are well determined.

Or by significance: what never makes a certain share of a joint's largest torque is set to zero at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtri

from ros2_dynid.identification.options import RELATIVE_STD, Method
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.error_bars import block_moments, jackknife
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import (
    FOLDS,
    Information,
    block_folds,
    different_motion,
    pseudo_inverse,
    restrict,
)
from ros2_dynid.identification.regression.least_squares import (
    Solution,
    add_error_bars,
    error_levels,
    joint_errors,
    solve,
    weighted_triangle,
)
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class EssentialThresholds:
    """When a parameter leaves the essential ones.

    relative_std: standard deviation over value above which it may. confidence: the error may then grow as far as chance
    makes it with this probability. folds: stretches left out in turn, as in the cross-validation that sets are judged
    by; 0: none, as in the papers. least_growth, most_growth: the squared error on these may grow by its scatter over
    them, by the first share in any case (half a percent of the error is nobody's loss), and by the second at most (5 %
    of the error: so few stretches may scatter by more).
    """

    relative_std: float = RELATIVE_STD
    confidence: float = 0.99
    folds: int = FOLDS
    least_growth: float = 0.01
    most_growth: float = 0.1


@dataclass(frozen=True)
class Step:
    """One elimination tried: parameter (its number), its relative std, the test's statistic and limit, the outcome.

    growth: of the squared error on stretches left out when as many are dropped, as a share; allowed: its limit. Both 0
    where the first test failed, or where no stretches are left out.
    """

    parameter: int
    relative_std: float
    statistic: float
    limit: float
    dropped: bool
    growth: float = 0.0
    allowed: float = 0.0


@dataclass(frozen=True, eq=False)
class Essential:
    """The essential parameters (numbers), the estimate with the others at zero, and the steps that led there."""

    kept: tuple[int, ...]
    estimate: Estimate
    steps: tuple[Step, ...]


def essential(
    information: Information,
    full: Estimate,
    thresholds: EssentialThresholds | None = None,
    *,
    most: int | None = None,
) -> Essential:
    """Return the essential parameters, starting from the full estimate; delay and friction terms stay.

    The test compares the weighted sum of squared errors with and without all that was dropped (F test). Errors are
    correlated in time, so it is scaled by how much larger their variances are than those of independent errors. What
    the model lacks is no such error: so the elimination also stops before the error on stretches left out grows.
    most: drop no more than these, whatever the stretches say.
    """
    limits, weights = thresholds or EssentialThresholds(), 1.0 / full.sigma
    growth = _left_out_growth(information, weights, limits) if most is None else ()
    if most is None:
        passed = [k for k, (grown, allowed) in enumerate(growth, start=1) if grown <= allowed]
        most = max(passed, default=0) if growth else information.size
    R = weighted_triangle(information, weights).R
    steps: list[Step] = []
    kept = [int(k) for k in range(information.size) if full.identified[k]]
    dropped = 0
    for step, rest in _eliminate(information, full, R, weights, limits):
        if step.dropped and growth:
            grown, allowed = growth[min(dropped, len(growth) - 1)]  # a fold that drops no more stays as it is
            step = replace(step, growth=grown, allowed=allowed)
        if step.dropped and dropped == most:
            steps.append(replace(step, dropped=False))
            break
        steps.append(step)
        kept, dropped = rest, dropped + step.dropped
    return _fit_kept(information, full, R, kept, tuple(steps))


def significant(information: Information, full: Estimate, largest: tuple[Array, Array], share: float) -> Essential:
    """Return the parameters that make at least `share` of a joint's largest torque, and the fit of these alone.

    Izaguirre 1992, section 7. largest: see largest_rows. Delay and friction terms stay.
    """
    shares, protected = share_of_largest(*largest, full.value), ~information.layout.is_base
    kept = [k for k in range(information.size) if full.identified[k] and (protected[k] or shares[k] >= share)]
    return _fit_kept(information, full, weighted_triangle(information, 1.0 / full.sigma).R, kept, ())


def _fit_kept(
    information: Information, full: Estimate, R: Array, kept: list[int], steps: tuple[Step, ...]
) -> Essential:
    """Return the fit of the columns `kept` with the others at zero; a value that is held is known."""
    solution, value, covariance, dof = _refit(information, R, 1.0 / full.sigma, kept)
    identified, sigma = np.ones(information.size, dtype=bool), error_levels(information, value, 1.0 / full.sigma)
    identified[kept] = solution.identified
    layout, cond, rank = information.layout, solution.cond, solution.rank
    estimate = Estimate(layout, value, covariance, identified, sigma, cond, rank, full.method, dof)
    return Essential(tuple(k for k in kept if layout.is_base[k]), estimate, steps)


def _eliminate(
    information: Information, full: Estimate, R: Array, weights: Array, limits: EssentialThresholds
) -> Iterator[tuple[Step, list[int]]]:
    """Yield the steps of the elimination, each with the columns that are left after it."""
    kept = [int(k) for k in range(information.size) if full.identified[k]]
    protected = {int(k) for k in np.flatnonzero(~information.layout.is_base)}
    least, rows, inflation = _squares(R, kept), float(np.sum(information.rows)), _inflation(R, full)
    # Blocks of time are nearly independent: each is worth a row at least, however correlated the rows in it are.
    free = max(rows / inflation - len(kept), float(len(information.blocks) - 1), 1.0)
    value, std = full.value, full.std.copy()
    dropped = 0
    while True:
        candidates = [k for k in kept if k not in protected]
        relative = {k: std[k] / max(abs(value[k]), 1e-300) for k in candidates}
        worst = max(candidates, key=lambda k: relative[k], default=None)
        if worst is None or relative[worst] <= limits.relative_std:
            return
        rest = [k for k in kept if k != worst]
        grown = (_squares(R, rest) - least) / inflation / (dropped + 1)
        limit = float(fdtri(dropped + 1, free, limits.confidence))
        statistic = float(grown / (least / max(rows - len(kept), 1.0)))
        drop = statistic <= limit
        if drop:
            kept, dropped = rest, dropped + 1
        yield Step(worst, float(relative[worst]), statistic, limit, drop), kept
        if not drop:
            protected.add(worst)
            continue
        solution, value, covariance, _ = _refit(information, R, weights, kept)
        std[kept] = np.where(solution.identified, np.sqrt(np.diag(covariance)[kept]), np.inf)


def _left_out_growth(
    information: Information, weights: Array, limits: EssentialThresholds
) -> tuple[tuple[float, float], ...]:
    """Return, for every number of parameters dropped, how the squared error on stretches left out grows and may grow.

    As shares. Every stretch has its own elimination, which does not see it. Counted are torques as they are, and in
    units of each joint's error: the one that is nearer to its limit.
    """
    information = different_motion(information)
    folds = block_folds(information, limits.folds)
    if len(folds) < 2:
        return ()
    paths = [_left_out_errors(information, fold, weights, limits) for fold in folds]
    length = max(map(len, paths))
    errors = np.array([path + [path[-1]] * (length - len(path)) for path in paths])  # (folds, dropped, 2)
    before = np.maximum(errors[:, 0].sum(axis=0), 1e-300)
    change = errors[:, 1:] - errors[:, :1]
    growth = change.sum(axis=0) / before
    scatter = np.sqrt(len(folds)) * change.std(axis=0, ddof=1) / before
    allowed = np.clip(scatter, limits.least_growth, limits.most_growth)
    nearer = np.argmax(growth - allowed, axis=1)
    return tuple((float(growth[k, n]), float(allowed[k, n])) for k, n in enumerate(nearer))


def _left_out_errors(
    information: Information, fold: Sequence[int], weights: Array, limits: EssentialThresholds
) -> list[tuple[float, float]]:
    """Return the squared errors on one stretch, of torques and of weighted ones, with ever fewer parameters."""
    part, left_out = information.split(fold)
    R = weighted_triangle(part, weights).R
    full = add_error_bars(part, solve(R), weights, Method.WLS)
    every = [int(k) for k in np.flatnonzero(full.identified)]
    steps = _eliminate(part, full, R, weights, limits)
    errors = []
    for kept in (every, *(rest for step, rest in steps if step.dropped)):
        value = np.zeros(information.size)
        value[list(kept)] = solve(R[:, [*kept, R.shape[1] - 1]]).value
        squares = joint_errors(left_out, value) ** 2
        errors.append((float(squares.sum()), float(squares @ weights**2)))
    return errors


def share_of_largest(W: Array, tau: Array, value: Array) -> Array:
    """Return the largest torque that each parameter makes at any joint, as a share of the joint's largest, shape (b,).

    W, tau: see largest_rows. Izaguirre 1992 calls parameters below 1 % not significant.
    """
    share = W / np.where(tau > 0, tau, np.inf)
    return np.asarray(np.max(share * np.abs(value)[:, None], axis=1))


def largest_of(recordings: Iterable[Iterable[Rows]]) -> tuple[Array, Array]:
    """Return largest_rows of several recordings together."""
    largest = [found for found in map(largest_rows, recordings) if found is not None]
    W, tau = (np.max(part, axis=0) for part in zip(*largest, strict=True))
    return W, tau


def largest_rows(chunks: Iterable[Rows]) -> tuple[Array, Array] | None:
    """Return the largest entry of each column of W at each joint (b, n), and each joint's largest torque (n,)."""
    largest, torque = None, None
    for rows in chunks:
        keep = rows.keep
        W = np.max(np.abs(rows.W) * keep, axis=2, initial=0.0)
        tau = np.max(np.abs(rows.tau) * keep, axis=1, initial=0.0)
        largest = W if largest is None else np.maximum(largest, W)
        torque = tau if torque is None else np.maximum(torque, tau)
    return None if largest is None or torque is None else (largest, torque)


def _squares(R: Array, kept: Sequence[int]) -> float:
    """Return the weighted sum of squared errors with the columns `kept`."""
    columns = [*kept, R.shape[1] - 1]
    triangle = np.asarray(np.linalg.qr(R[:, columns], mode="r"))
    return float(np.sum(triangle[len(kept) :, -1] ** 2))


def _inflation(R: Array, full: Estimate) -> float:
    """Return the typical variance stated over that of independent errors of unit size, at least 1."""
    identified = np.flatnonzero(full.identified)
    scale = np.linalg.norm(R[:, identified], axis=0)
    inverse = pseudo_inverse(R[:, identified] / scale, 1e-15)
    naive = np.sum(inverse**2, axis=1) / scale**2
    return float(max(1.0, np.median(np.diag(full.covariance)[identified] / naive)))


def _refit(
    information: Information, R: Array, weights: Array, kept: Sequence[int]
) -> tuple[Solution, Array, Array, float]:
    """Return the solution of the columns `kept`, values (size,) and covariance (size, size) of all, and the freedom."""
    columns = list(kept)
    solution = solve(R[:, [*columns, R.shape[1] - 1]])
    value, covariance = np.zeros(information.size), np.zeros((information.size, information.size))
    moments = block_moments(restrict(information, columns), solution.value, weights)
    value[columns] = solution.value
    covariance[np.ix_(columns, columns)], dof = jackknife(moments, solution.identified)
    return solution, value, covariance, dof
