# SPDX-License-Identifier: Apache-2.0

"""Encoder noise that passes through the robot's own controller does not bias the estimator that the tool names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closed_loop import closed_loop
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.estimators.instrumental import instrument_motion, motion_band, noise_share
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.validation.estimator_advice import advise_estimator
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

NOISE = 5e-4


@pytest.fixture(scope="module", params=[True, False], ids=["inside", "outside"])
def run(request):
    robot = load_robot("demo3")
    chi = true_parameters(robot, 1)
    samples = closed_loop(robot, chi, 0, NOISE, request.param, seconds=8.0)
    return robot, chi, samples


def problem_of(robot, samples, row_cutoff):
    base = base_parameters(robot, method="closed-form")
    prepared = prepare(robot, samples, PreparationOptions(row_cutoff=row_cutoff))
    return Problem(robot, base, (prepared,), build_information(robot, base, [prepared]), np.zeros(len(base) + 1))


def deviations(problem, chi, method):
    found = build_estimator(method, problem)(None)
    return found, np.abs(found.base - problem.base.values(problem.robot, chi)) / found.base_std


@pytest.mark.parametrize("reference", [False, True])
def test_instruments_are_not_biased_where_least_squares_is(run, reference):
    robot, chi, samples = run
    problem = problem_of(robot, samples if reference else replace(samples, q_r=None), 40.0)
    found, biased = deviations(problem, chi, Method.WLS)
    _, unbiased = deviations(problem, chi, Method.IV)
    assert biased.max() > 6.0, "the case is one that matters"
    assert np.mean(unbiased < 3.0) >= 0.95
    choice = advise_estimator(problem, found)
    assert choice.method is Method.IV and "biases wls" in choice.reason


def test_default_cut_offs_keep_the_noise_out(run):
    robot, chi, samples = run
    problem = problem_of(robot, replace(samples, q_r=None), None)
    found, z = deviations(problem, chi, Method.WLS)
    assert np.mean(z < 3.0) >= 0.95
    assert advise_estimator(problem, found).method is Method.WLS


def test_without_noise_there_is_nothing_to_correct(run):
    """Instruments then only use less of the data, and if they predict worse the reason says so."""
    robot, _, samples = run
    rng = np.random.default_rng(0)
    quiet = replace(samples, q=samples.q_r + 1e-7 * rng.standard_normal(samples.q.shape), q_r=None)
    problem = problem_of(robot, quiet, None)
    fit = build_estimator(Method.IV, problem)
    found = fit(None)
    assert advise_estimator(problem, found).method is Method.WLS
    choice = advise_estimator(problem, found, fit)
    assert choice.method is Method.WLS and choice.reason is None, "and predict as well here"

    def poor(chosen):
        one = fit(chosen)
        return replace(one, value=1.2 * one.value)

    choice = advise_estimator(problem, found, poor)
    assert choice.method is Method.WLS and "biases nothing" in choice.reason and "iv uses less" in choice.reason


def test_noise_share_is_the_power_of_white_noise(run):
    robot, _, samples = run
    prepared = problem_of(robot, samples, 25.0).prepared[0]
    band = motion_band(prepared)
    assert band < 4.0 and noise_share(prepared, band).max() < 1e-4
    rng = np.random.default_rng(0)
    more = replace(prepared, q=prepared.q + 1e-9 * rng.standard_normal(prepared.q.shape))
    assert np.allclose(noise_share(more, band), noise_share(prepared, band), rtol=1e-3)
    assert np.all(noise_share(prepared, 25.0) > 0.05)


def test_instruments_follow_the_reference_where_it_is_known(run):
    robot, _, samples = run
    with_reference = problem_of(robot, samples, 8.0).prepared[0]
    assert with_reference.reference is not None
    moved = instrument_motion(robot, with_reference)
    middle = slice(len(moved.t) // 4, -len(moved.t) // 4)
    assert np.abs(moved.q - with_reference.reference)[middle].max() < 1e-3


def test_noise_in_the_band_of_the_motion_is_refused(run):
    robot, _, samples = run
    rng = np.random.default_rng(1)
    t = samples.t
    fast = 1e-3 * np.sin(2 * np.pi * 30.0 * t)[:, None] * np.ones(robot.n)  # a motion that drowns in its noise
    noisy = replace(samples, q=samples.q[0] + fast + 1e-3 * rng.standard_normal(samples.q.shape), q_r=None)
    problem = problem_of(robot, noisy, 60.0)
    with pytest.raises(InputError, match="instruments made from the positions have it too"):
        build_estimator(Method.IV, problem)
