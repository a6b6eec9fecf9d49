# SPDX-License-Identifier: Apache-2.0

"""Which estimator suits the data: bias by the encoders' noise, told at either side of its thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closed_loop import closed_loop
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.estimators.instrumental import noise_share
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.validation.cross_validation import validate_in_folds
from ros2_dynid.identification.validation.estimator_advice import DEFAULTS, advise_estimator
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT, method="closed-form")


def problem_of(samples, row_cutoff):
    prepared = (prepare(ROBOT, samples, PreparationOptions(row_cutoff=row_cutoff)),)
    return Problem(ROBOT, BASE, prepared, build_information(ROBOT, BASE, prepared), np.zeros(len(BASE) + 1))


@pytest.fixture(scope="module")
def noisy():
    """Return a problem in which encoder noise matters, and its estimate by instruments."""
    samples = closed_loop(ROBOT, true_parameters(ROBOT, 1), 0, 5e-4, True, seconds=8.0)
    problem = problem_of(replace(samples, q_r=None), 40.0)
    return problem, build_estimator(Method.IV, problem)(None), samples


def moved(estimate, place, deviations):
    value = estimate.value.copy()
    value[place] += deviations * estimate.std[place]
    return replace(estimate, value=value, method=Method.WLS)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bias_is_told_by_the_parameter_that_is_off_by_most_bars_of_the_estimate_without(noisy, sign):
    problem, unbiased, _ = noisy
    well = np.flatnonzero(unbiased.base_std < DEFAULTS.well_known * np.abs(unbiased.base))
    poor = np.flatnonzero(unbiased.base_std > 2.0 * DEFAULTS.well_known * np.abs(unbiased.base))
    assert len(well) > 1 and len(poor)
    place = well[1]
    near = advise_estimator(problem, moved(unbiased, place, sign * 0.99 * DEFAULTS.bias))
    assert near.method is Method.WLS and near.reason is None
    far = advise_estimator(problem, moved(unbiased, place, sign * 1.01 * DEFAULTS.bias))
    assert far.method is Method.IV and f"{BASE.names[place]} is off by 3.0 standard deviations" in far.reason
    assert "biases wls" in far.reason
    assert near.noise == far.noise == np.max(noise_share(problem.prepared[0], 40.0))
    assert f"{100 * far.noise:.2g} %" in far.reason or f"{100 * far.noise:.0f} %" in far.reason
    hardly = replace(moved(unbiased, poor[0], sign * 50.0), covariance=unbiased.covariance)
    assert advise_estimator(problem, hardly).reason is None, "what is hardly excited says nothing"
    narrow = unbiased.covariance.copy()
    narrow[poor[0], poor[0]] = (0.5 * DEFAULTS.well_known * unbiased.base[poor[0]]) ** 2
    told = advise_estimator(problem, replace(hardly, covariance=narrow))
    assert told.method is Method.IV, "well excited, as either estimate says"
    lost = unbiased.identified.copy()
    lost[place] = False
    assert advise_estimator(problem, replace(moved(unbiased, place, 50.0), identified=lost)).reason is None


def test_nothing_is_said_of_an_estimate_without_bias_or_where_the_noise_is_not_known(noisy):
    problem, unbiased, _ = noisy
    for method in (Method.IV, Method.IDIM_IV, Method.DIDIM):
        same = advise_estimator(problem, replace(moved(unbiased, 1, 50.0), method=method))
        assert same.method is method and same.reason is None
    unknown = replace(problem, prepared=tuple(replace(p, spectrum=None) for p in problem.prepared))
    told = advise_estimator(unknown, moved(unbiased, 1, 50.0))
    assert (told.method, told.noise, told.reason) == (Method.WLS, None, None)


def test_noise_that_instruments_share_is_told_with_what_to_record(noisy):
    """A motion that drowns in its noise: no instrument is without it."""
    _, unbiased, samples = noisy
    fast = 1e-3 * np.sin(2 * np.pi * 30.0 * samples.t)[:, None] * np.ones(ROBOT.n)
    loud = samples.q[0] + fast + 1e-3 * np.random.default_rng(1).normal(size=samples.q.shape)
    told = advise_estimator(problem_of(replace(samples, q=loud, q_r=None), 60.0), moved(unbiased, 1, 50.0))
    assert told.method is Method.WLS and "may be biased" in told.reason and "record the commanded" in told.reason


def test_least_squares_is_named_where_it_predicts_better_than_what_corrects_nothing(noisy):
    _, _, samples = noisy
    quiet = replace(samples, q=samples.q_r + 1e-7 * np.random.default_rng(0).normal(size=samples.q.shape), q_r=None)
    problem = problem_of(quiet, None)
    fit, plain = build_estimator(Method.IV, problem), build_estimator(Method.WLS, problem)
    ours, theirs = (
        validate_in_folds(ROBOT.active_names, problem.information, None, one).errors["all"].relative
        for one in (fit, plain)
    )

    def worse(share):
        """Return an estimator whose held-out error is this many times that of least squares."""

        def estimate(blocks):
            one = plain(blocks)
            off = one.value.copy()
            off[: len(BASE)] *= 1.0 + share
            return replace(one, value=off, method=Method.IV)

        return estimate

    def ratio(share):
        errors = validate_in_folds(ROBOT.active_names, problem.information, None, worse(share)).errors
        return errors["all"].relative / theirs

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ratio(middle) < DEFAULTS.as_well else (low, middle)
    assert advise_estimator(problem, fit(None)).method is Method.WLS
    for share, said in ((0.98 * low, False), (1.02 * high, True)):
        told = advise_estimator(problem, fit(None), worse(share))
        assert told.method is Method.WLS and (told.reason is not None) == said
    assert f"least squares {100 * theirs:.1f} %" in told.reason and "uses less of the data" in told.reason
    assert (advise_estimator(problem, fit(None), fit).reason is not None) == (ours > DEFAULTS.as_well * theirs)
