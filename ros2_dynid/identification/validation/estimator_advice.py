# SPDX-License-Identifier: Apache-2.0

"""Which estimator suits the data: is least squares biased by the noise of the encoders?

Where the noise is strong enough to matter at all, an estimate that it does not bias is put beside the other
(Hausman): they differ by more than chance only if the latter is biased. Of the estimators without bias that one counts
which has the smallest error bars: instrumental variables, and where the robot's controller is known those that simulate
its closed loop. Where there is no such noise they have nothing to correct, and only use less of what the data say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import InputError, Option, RankError, Text
from ros2_dynid.identification.estimators.estimator import Fit, build_estimator
from ros2_dynid.identification.estimators.instrumental import noise_share
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.error_bars import SIGNIFICANCE
from ros2_dynid.identification.regression.estimate import Estimate, Mask
from ros2_dynid.identification.validation.cross_validation import validate_in_folds
from ros2_dynid.identification.validation.torque_errors import AS_WELL

UNBIASED = (Method.IV, Method.IDIM_IV, Method.DIDIM)
"""Estimators that noise of the encoders does not bias, in or outside the loop, the cheapest first."""


@dataclass(frozen=True)
class EstimatorThresholds:
    """When another estimator than the one used suits the data.

    noise: power of the encoders' noise over that of the motion below which it biases nothing. bias: standard deviations
    of the estimate without bias by which a parameter differs from it. well_known: relative standard deviation, as
    either estimate states it, below which a parameter counts; others say nothing about bias. as_well: held-out error
    over that of least squares up to which an estimator without bias predicts as well.
    """

    noise: float = 1e-4
    bias: float = SIGNIFICANCE
    well_known: float = 0.05
    as_well: float = AS_WELL


DEFAULTS = EstimatorThresholds()


@dataclass(frozen=True)
class EstimatorAdvice:
    """The estimator that suits the data, and why if it is another one than was used.

    noise: power of the encoders' noise over that of the motion in the accelerations of the rows, worst joint; None
    where it is not known.
    """

    method: Method
    noise: float | None = None
    reason: str | None = None


def advise_estimator(
    problem: Problem, estimate: Estimate, fit: Fit | None = None, thresholds: EstimatorThresholds = DEFAULTS
) -> EstimatorAdvice:
    """Return which estimator suits the data of an estimate; fit: the estimator that made it."""
    noise = _noise_share(problem)
    if noise is not None and noise < thresholds.noise and estimate.method in UNBIASED:
        return _advise_least_squares(problem, estimate, fit, noise, thresholds)
    as_used = EstimatorAdvice(estimate.method, noise)
    if noise is None or noise < thresholds.noise or estimate.method in UNBIASED:
        return as_used
    percent = f"{100 * noise:.0f}" if noise >= 1.0 else f"{100 * noise:.2g}"
    share = f"encoder noise makes {percent} % of the power of a joint's accelerations"
    try:
        unbiased = _estimate_without_bias(problem, thresholds)
    except RankError:
        return as_used
    except InputError as error:
        # the refusal's own hint is a method without instruments, which this one already is
        hint = "; record the commanded positions too, or faster motion"
        return replace(as_used, reason=Text(f"{share}: the parameters may be biased; ", error.what, hint))
    counts = _are_well_known(estimate, unbiased, thresholds)
    deviations = np.where(counts, np.abs(estimate.base - unbiased.base) / unbiased.base_std, 0.0)
    worst = int(np.argmax(deviations))
    if deviations[worst] <= thresholds.bias:
        return as_used
    reason = Text(
        f"{share}, which biases {estimate.method}: {problem.base.names[worst]} is off by {deviations[worst]:.1f} "
        "standard deviations; use ",
        Option("method", unbiased.method.value),
    )
    return EstimatorAdvice(unbiased.method, noise, reason)


def _advise_least_squares(
    problem: Problem, estimate: Estimate, fit: Fit | None, noise: float, thresholds: EstimatorThresholds
) -> EstimatorAdvice:
    """Return least squares where the encoders' noise biases nothing, and why, if it predicts better.

    Only there is it fair to compare errors on stretches left out: with noise, least squares predicts the noisy best.
    """
    if fit is None:
        return EstimatorAdvice(Method.WLS, noise)
    names, least_squares = problem.robot.active_names, build_estimator(Method.WLS, problem, error_bars=False)
    ours, theirs = (validate_in_folds(names, problem.information, None, one).errors for one in (fit, least_squares))
    if not ours or not theirs or ours["all"].relative <= thresholds.as_well * theirs["all"].relative:
        return EstimatorAdvice(Method.WLS, noise)
    reason = Text(
        f"the encoders' noise biases nothing here, and {estimate.method} uses less of the data: stretches left out "
        f"have {100 * ours['all'].relative:.1f} %, least squares {100 * theirs['all'].relative:.1f} %; use ",
        Option("method", Method.WLS.value),
    )
    return EstimatorAdvice(Method.WLS, noise, reason)


def _estimate_without_bias(problem: Problem, thresholds: EstimatorThresholds) -> Estimate:
    """Return the estimate without bias that has the smallest error bars, over the parameters that are well known.

    A closed loop is simulated only where that of the robot is known: else its instruments say what those of iv do.
    """
    best = build_estimator(Method.IV, problem)(None)
    if problem.controller is None or any(prepared.reference is None for prepared in problem.prepared):
        return best
    for method in UNBIASED[1:]:
        try:
            other = build_estimator(method, problem)(None)
        except (InputError, RankError):  # it says itself, where it is asked for, why it cannot be used here
            continue
        counts = _are_well_known(best, other, thresholds)
        if counts.any() and np.median(np.log(other.base_std[counts] / best.base_std[counts])) < 0.0:
            best = other
    return best


def _are_well_known(estimate: Estimate, unbiased: Estimate, thresholds: EstimatorThresholds) -> Mask:
    """Return which base parameters are well known, as either estimate says: noise may widen one of them."""
    std = np.minimum(estimate.base_std, unbiased.base_std)
    small = std < thresholds.well_known * np.abs(unbiased.base)
    return np.asarray(small & estimate.base_identified & unbiased.base_identified)


def _noise_share(problem: Problem) -> float | None:
    """Return the encoders' noise over the motion, as power of the rows' accelerations, worst joint; None: not known."""
    shares = [
        float(np.max(noise_share(prepared, prepared.filter.row_cutoff)))
        for prepared in problem.prepared
        if prepared.spectrum is not None and prepared.filter.row_cutoff is not None
    ]
    return max(shares, default=None)
