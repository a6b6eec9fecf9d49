# SPDX-License-Identifier: Apache-2.0

"""Estimates regularised by a prior: |W x - tau|^2 + weight (x - mean)^T L (x - mean), rows in units of their errors.

The weight is chosen by the data: blocks of time are put into folds, and each fold is predicted by a fit to the others
with every weight of a ladder. Errors are compared in the geometric mean over the folds, since a fit to a short
recording may fail altogether on one of them. Of the weights that cannot be told from the one with the smallest error,
the largest wins: what a recording does not show, such as a joint that moved in one direction only, no fold tells, and
there the prior is all that is known. So a prior that gains nothing keeps a weak weight, unless the folds speak against
it: with that it hardly changes what the data determine, and other motions ask for the rest, too.

Where physically consistent parameters are served, it is these that are compared, with and without the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrcon, dtrtrs

from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate, Triangle
from ros2_dynid.identification.regression.information import (
    Information,
    block_folds,
    compressed,
    different_motion,
    number_by_size,
)
from ros2_dynid.identification.regression.least_squares import (
    TOLERANCE,
    joint_errors,
    solve,
    solve_triangle,
    weighted_triangle,
)
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class PriorThresholds:
    """How the weight of a prior is chosen.

    folds: the blocks are put into three folds and into five. Long stretches left out are more like the motion that a
    model is used on than short ones with the same motion on both sides; short ones leave a fit more of what the
    estimate has. weights: those tried; 1 believes the prior as much as it asks for where errors are white, correlated
    ones count for less. consistent_range: with physically consistent parameters, weights up to so many times smaller or
    larger than the one without are tried. scatters: standard errors by which the held-out error must gain. least_gain:
    share of itself by which it must: less is not worth values that are not the data's own. weak: of a prior that gains
    less, at most: about as many rows as there are for an independent one (five in a period of the cut-off, where noise
    has two), so that the prior counts as what it says. bench/study_priors.py shows what these do on short recordings of
    four real robots.
    """

    folds: tuple[int, ...] = (3, 5)
    weights: tuple[float, ...] = tuple(float(w) for w in 10.0 ** np.arange(-2.0, 6.1, 0.5))
    consistent_range: float = 10.0
    scatters: float = 1.0
    least_gain: float = 0.1
    weak: float = 3.2


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known before: mean (size,) and information L (size, size), one place for each column of W.

    source: where it is from, in words.
    """

    mean: Array
    information: Array
    source: str

    @cached_property
    def root(self) -> Array:
        """Return K, shape (size, size), with K^T K = L."""
        values, vectors = np.linalg.eigh(0.5 * (self.information + self.information.T))
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


@dataclass(frozen=True, eq=False)
class PriorWeight:
    """The weight of a prior that serves unseen data best, 0 if it only does harm.

    gain: share by which the held-out error is smaller with it; scatter: standard error of that share. consistent:
    whether it was chosen for physically consistent parameters, which are then to be served. weak: whether the prior
    does not gain enough, and only tells what the data leave open.
    """

    weight: float
    gain: float = 0.0
    scatter: float = 0.0
    consistent: bool = False
    weak: bool = False


@dataclass(frozen=True, eq=False)
class PriorFit:
    """An estimate regularised by a prior; share: how much of each column's value is the prior's, shape (size,)."""

    estimate: Estimate
    prior: Prior
    weight: PriorWeight
    share: Array

    @property
    def used(self) -> bool:
        """Whether the prior lowers the error on unseen data, or was asked for."""
        return self.weight.weight > 0.0 and not self.weight.weak

    @property
    def base_share(self) -> float:
        """Share of all that is said about base parameters that is the prior's."""
        return float(np.mean(self.share[self.estimate.layout.base]))


ServedValues = Callable[[Information, Estimate, PriorFit | None], Array]
"""From rows, an estimate from them and the prior it is regularised by, if any, to the values that are served."""


def select_prior_weight(
    information: Information,
    estimate: Estimate,
    prior: Prior,
    *,
    force: bool = False,
    served: ServedValues | None = None,
    thresholds: PriorThresholds | None = None,
) -> PriorWeight:
    """Return the weight that serves unseen data best, a weak one if none does; with `force` never 0.

    estimate: without the prior; its errors of the joints weight the rows. served: makes physically consistent
    parameters of an estimate. It takes a while, so it is asked only where the prior helps the estimate as it is.
    """
    limits, information = thresholds or PriorThresholds(), different_motion(information)
    folds = [fold for count in limits.folds for fold in block_folds(information, count)]
    if len(folds) < sum(limits.folds) or estimate.sigma.shape != (information.n,):
        return PriorWeight(1.0 if force else 0.0)
    errors = _held_out_errors(information, estimate, prior, folds, limits.weights, None)
    as_estimated = _select_weight(errors, limits.weights, limits, force=force)
    if as_estimated.weight == 0.0:
        return _weaken(as_estimated, information, estimate, prior, limits)
    if served is None:
        return as_estimated
    reach = limits.consistent_range
    near = [weight for weight in limits.weights[::2] if 1.0 / reach <= weight / as_estimated.weight <= reach]
    of_served = _held_out_errors(information, estimate, prior, folds, near, served)
    if errors[0].mean() < of_served[0].mean():  # without the prior the estimate itself would be served
        of_served[0] = errors[0]
    choice = _select_weight(of_served, near, limits)
    if choice.weight > 0.0:
        return replace(choice, consistent=True)
    return as_estimated if force else _weaken(replace(choice, consistent=True), information, estimate, prior, limits)


def _held_out_errors(
    information: Information,
    estimate: Estimate,
    prior: Prior,
    folds: Sequence[Sequence[int]],
    ladder: Sequence[float],
    served: ServedValues | None,
) -> Array:
    """Return the logarithm of the error of each fold without the prior and with each weight, (1 + weights, folds)."""
    weights = 1.0 / estimate.sigma
    errors = np.empty((1 + len(ladder), len(folds)))
    for f, fold in enumerate(folds):
        part, left_out = information.split(fold)
        triangle = weighted_triangle(part, weights)
        values = [solve(triangle.R, prior.mean).value, *regularized_values(triangle.R, prior, ladder)]
        if served is not None:
            for k, value in enumerate(values):
                one = replace(estimate, value=value)
                fit = None if k == 0 else PriorFit(one, prior, PriorWeight(ladder[k - 1]), np.zeros(len(value)))
                values[k] = served(part, one, fit)
        errors[:, f] = np.linalg.norm(joint_errors(left_out, np.array(values)) * weights, axis=1)
    return np.asarray(np.log(np.maximum(errors, 1e-300)))


def _select_weight(
    errors: Array, ladder: Sequence[float], limits: PriorThresholds, *, force: bool = False
) -> PriorWeight:
    """Return the largest weight whose errors are within their scatter of the smallest ones, if those gain enough.

    errors: logarithms, shape (1 + weights, folds), without the prior first. Else 0, or with `force` the weight of the
    smallest errors.
    """
    chosen = best = 1 + int(np.argmin(errors[1:].mean(axis=1)))
    mean, scatter = _mean(errors[0] - errors[best])
    helps = mean > limits.scatters * scatter and 1.0 - np.exp(-mean) > limits.least_gain
    if helps:
        for k in range(best + 1, len(errors)):
            more, spread = _mean(errors[k] - errors[best])
            chosen = k if more <= spread else chosen
        mean, scatter = _mean(errors[0] - errors[chosen])
    return PriorWeight(ladder[chosen - 1] if helps or force else 0.0, 1.0 - np.exp(-mean), scatter * np.exp(-mean))


def _weaken(
    choice: PriorWeight, information: Information, estimate: Estimate, prior: Prior, limits: PriorThresholds
) -> PriorWeight:
    """Return the choice of no prior with the largest weak weight that the folds do not speak against, if there is one.

    Many weights are about as good here, so that folds in another order would choose another one: they are of
    recordings in the order of their size.
    """
    information = number_by_size(information)
    folds = [fold for count in limits.folds for fold in block_folds(information, count)]
    errors = _held_out_errors(information, estimate, prior, folds, limits.weights, None)
    for k in reversed(range(len(limits.weights))):
        more, spread = _mean(errors[1 + k] - errors[0])
        if limits.weights[k] <= limits.weak and more <= limits.scatters * spread:
            return replace(choice, weight=limits.weights[k], weak=True)
    return choice


def _mean(values: Array) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def regularize(information: Information, data: Estimate, prior: Prior, weight: PriorWeight) -> PriorFit:
    """Return the estimate of any method, `data`, regularised by the prior.

    The covariance is that of the data, shrunk, and the prior's own: with A = W^T W and B = (A + weight L)^-1,
    B A C A B + f weight B L B, where f says how much more the data scatter than white errors would.
    """
    if weight.weight == 0.0:
        return PriorFit(data, prior, weight, np.zeros(data.layout.size))
    triangle = weighted_triangle(information, 1.0 / data.sigma)
    rows = np.column_stack((triangle.W, triangle.W @ data.value))
    solution = solve(_stacked(rows, prior, weight.weight), prior.mean)
    scale = np.linalg.norm(triangle.W, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    A = (triangle.W / scale).T @ (triangle.W / scale)
    L = weight.weight * prior.information / np.outer(scale, scale)
    B = np.linalg.pinv(A + L, rcond=1e-14, hermitian=True)
    C = data.covariance * np.outer(scale, scale)
    white = max(float(np.trace(C @ A)) / max(int(np.count_nonzero(data.identified)), 1), 1.0)
    covariance = (B @ A @ C @ A @ B + white * B @ L @ B) / np.outer(scale, scale)
    share = np.clip(np.diag(B @ L), 0.0, 1.0)
    estimate = replace(
        data,
        value=solution.value,
        covariance=0.5 * (covariance + covariance.T),
        identified=data.identified if weight.weak else data.identified | solution.identified,
    )
    return PriorFit(estimate, prior, weight, share)


def regularized_values(R: Array, prior: Prior, weights: Sequence[float]) -> Array:
    """Return the estimates from the R factor [W tau] with each weight of the prior, shape (weights, size).

    One factorisation serves all weights: [W; K] = [Q1; Q2] T and Q1 = U diag(c) V^T give Q2^T Q2 = V diag(1 - c^2) V^T,
    so that x = mean + T^-1 V diag(c / (c^2 + weight (1 - c^2))) U^T (tau - W mean).
    """
    W, rest = R[:, :-1], R[:, -1] - R[:, :-1] @ prior.mean
    both = np.vstack((W, prior.root))
    scale = np.linalg.norm(both, axis=0)
    T = np.asarray(np.linalg.qr(both / np.where(scale > 0.0, scale, 1.0), mode="r"))
    if np.any(scale <= 0.0) or dtrcon(T)[0] < 100.0 * TOLERANCE:  # neither data nor prior tell some of it
        return np.array([solve(_stacked(R, prior, weight), prior.mean).value for weight in weights])
    U, c, Vt = np.linalg.svd(dtrtrs(T, (W / scale).T, trans=1)[0].T, full_matrices=False)
    c = np.minimum(c, 1.0)
    shrunk = c / (c**2 + np.array(weights)[:, None] * (1.0 - c**2)) * (U.T @ rest)
    return np.asarray(prior.mean + solve_triangle(T, Vt.T @ shrunk.T).T / scale)


def stack_prior(triangle: Triangle, prior: Prior, weight: float) -> Triangle:
    """Return the R factor of the weighted rows with the prior's below them."""
    return Triangle(compressed(_stacked(triangle.R, prior, weight)), triangle.layout)


def _stacked(data: Array, prior: Prior, weight: float) -> Array:
    return np.vstack((data, np.sqrt(weight) * np.column_stack((prior.root, prior.root @ prior.mean))))


def torque_scale(information: Information, column: int) -> float:
    """Return the value of a column at which it alone would make a joint's whole torque; inf where nobody feels it."""
    sizes = [np.inf]
    for j, columns in enumerate(information.columns):
        place = np.flatnonzero(columns == column)
        if len(place):
            R = information.triangle(j)
            norm = float(np.linalg.norm(R[:, place[0]]))
            sizes.append(float(np.linalg.norm(R[:, -1])) / norm if norm > 0.0 else np.inf)
    return min(sizes)


def embed_prior(layout: ColumnLayout, base: Array, information: Array) -> tuple[Array, Array]:
    """Return mean (size,) and information (size, size) of a prior on base parameters alone."""
    mean, L = np.zeros(layout.size), np.zeros((layout.size, layout.size))
    mean[layout.base], L[layout.base, layout.base] = base, information
    return mean, L


def regularize_estimate(
    information: Information, data: Estimate, prior: Prior, *, force: bool, served: ServedValues | None = None
) -> PriorFit:
    """Return an estimate regularised by the prior with the weight that serves unseen data best."""
    weight = select_prior_weight(information, data, prior, force=force, served=served)
    return regularize(information, data, prior, weight)
