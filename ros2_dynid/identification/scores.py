# SPDX-License-Identifier: Apache-2.0

"""Stage 5, Candidates -> Scores: torque errors of every parameter set on data used and on data not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.candidates import Candidates, PriorChoice, build_candidate_fits, choose_prior
from ros2_dynid.identification.estimation import Estimation
from ros2_dynid.identification.estimators.estimator import FROM_TRIANGLES, Fit, build_estimator
from ros2_dynid.identification.model_file import BASE, CONSISTENT, SetErrors
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.preparation.repetition import is_copy
from ros2_dynid.identification.preparation.rows import with_gear_torque
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.recordings import Recording, prepare_recordings
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.torque_std import TorqueScatter, band_level
from ros2_dynid.identification.validation.cross_validation import HeldOut, LeftOut, ValidatedBy, validate_in_folds
from ros2_dynid.identification.validation.torque_errors import Comparison, compare_torques, torque_errors
from ros2_dynid.model.robot import Array
from ros2_dynid.progress import Progress


@dataclass(frozen=True, eq=False)
class Scores:
    """Torque errors of the parameter sets by name: those that are shown, and those that the choice rests on.

    validations: on held-out data, what these are. comparisons: with recordings to validate on, None without any.
    band_level: of the errors about a prediction, shape (n,) [N.m or N].
    """

    sets: Mapping[str, SetErrors]
    compared_sets: Mapping[str, SetErrors]
    validations: Mapping[str, HeldOut]
    comparisons: Mapping[str, Comparison] | None
    band_level: Array


def score_candidates(
    problem: Problem,
    estimation: Estimation,
    candidates: Candidates,
    validate: Sequence[Recording],
    options: IdentifyOptions,
    report: Progress,
) -> Scores:
    """Return how well each parameter set predicts: by cross-validation, and on recordings to validate on, if any."""
    report("validating", 0.85)
    folds = _Folds(problem, estimation, candidates, options)
    level = folds.band_level()
    with_level = replace(candidates.estimate, sigma=level)
    comparisons = predict_recordings(problem, validate, candidates.values, with_level, options, report)
    names = problem.robot.active_names
    validations = {
        name: folds.held_out(name) if comparisons is None else HeldOut(comparisons[name].errors, ValidatedBy.RECORDINGS)
        for name in candidates.values
    }
    sets = {
        name: SetErrors(torque_errors(names, problem.information, value), validations[name].errors)
        for name, value in candidates.values.items()
    }
    compared = sets
    prior_unused = candidates.prior_fit is not None and not candidates.prior_fit.used
    by_prior = options.consistent or candidates.consistent_prior
    if CONSISTENT in sets and not by_prior and (comparisons is not None or prior_unused):
        compared = folds.without_validation(sets, prior_unused=prior_unused)
    return Scores(sets, compared, validations, comparisons, level)


class _Folds:
    """The parameter sets as estimators of blocks of time, and their errors on blocks left out in turn."""

    def __init__(
        self, problem: Problem, estimation: Estimation, candidates: Candidates, options: IdentifyOptions
    ) -> None:
        from_triangles = options.method in FROM_TRIANGLES
        blocks = problem.with_different_blocks() if from_triangles else problem
        # essential parameters are chosen by error bars, which take a while
        quick = options.method is Method.WLS and not options.drops_parameters
        again = quick or blocks is not problem
        self._fit = build_estimator(options.method, blocks, error_bars=not quick) if again else estimation.fit
        self._problem, self._blocks, self._candidates, self._options = problem, blocks, candidates, options
        self._fits = self._build(choose_prior(blocks, options))

    def _build(self, choice: PriorChoice | None) -> dict[str, Fit]:
        return build_candidate_fits(self._blocks, self._fit, self._candidates, self._options, choice)

    def band_level(self) -> Array:
        """Return the level of errors that the band of predictions allows for: that of blocks left out."""
        names, information = self._problem.robot.active_names, self._blocks.information
        errors = validate_in_folds(names, information, None, self._fits[BASE]).errors
        rms = np.array([errors[name].rms for name in names]) if errors else None
        return band_level(information, self._candidates.estimate, rms)

    def held_out(self, name: str) -> HeldOut:
        """Return the errors of a set on the folds asked for, and what they leave out."""
        information, k = self._blocks.information, self._options.cross_validate
        held_out = validate_in_folds(self._problem.robot.active_names, information, k, self._fits[name])
        if not self._problem.repeats or not held_out.folds:
            return held_out
        same = self._blocks.repeats
        return replace(held_out, left_out=LeftOut.SAME_MOTION if same else LeftOut.PARTS_OF_PERIOD)

    def without_validation(self, sets: Mapping[str, SetErrors], *, prior_unused: bool) -> dict[str, SetErrors]:
        """Return the errors that a choice between sets may rest on: not those of recordings to validate on.

        prior_unused: a prior that the estimate does not use is left out of the folds, too.
        """
        names, k = self._problem.robot.active_names, self._options.cross_validate
        fits = self._build(None) if prior_unused else self._fits
        return {
            name: SetErrors(errors.fit, validate_in_folds(names, self._blocks.information, k, fits[name]).errors)
            for name, errors in sets.items()
        }


def predict_recordings(
    problem: Problem,
    recordings: Sequence[Recording],
    values: Mapping[str, Array],
    estimate: Estimate,
    options: IdentifyOptions,
    report: Progress,
) -> dict[str, Comparison] | None:
    """Return how the value of each parameter set predicts recordings that it was not fitted to, None without any.

    The band of the prediction is that of the estimate.
    """
    if not recordings:
        return None
    filters = max(problem.prepared, key=lambda fitted: len(fitted.t) / fitted.filter.inner_rate).filter
    prepared = prepare_recordings(
        problem.robot, recordings, options, report, filters=filters, progress_from=0.85, progress_to=0.85
    )
    for part in prepared:
        if any(is_copy(part, fitted) for fitted in problem.prepared):
            raise InputError(
                f"{part.source} is to be validated on and is fitted to as well",
                "validate on another recording, or on none",
            )
    spread = TorqueScatter(estimate.covariance, estimate.identified, estimate.sigma, estimate.dof)
    compared = {}
    for name, value in values.items():
        if problem.terms:
            base = value[problem.information.layout.base]
            prepared = tuple(with_gear_torque(problem.robot, problem.base, base, part) for part in prepared)
        compared[name] = compare_torques(
            problem.robot, problem.base, prepared, value, problem.prior, spread=spread, terms=problem.terms
        )
    return compared
