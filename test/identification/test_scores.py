# SPDX-License-Identifier: Apache-2.0

"""Stage 5 where motions repeat or recordings differ: what is left out, and whose filters recordings held out pass."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from motions import five_waves
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.candidates import build_candidates
from ros2_dynid.identification.estimation import estimate_parameters
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import different_motion
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.scores import predict_recordings, score_candidates
from ros2_dynid.identification.validation.cross_validation import LeftOut, ValidatedBy, validate_in_folds
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 2)
OPTIONS = IdentifyOptions(friction="viscous+coulomb", prior="none", checks=False, cross_validate=4)


def silent(stage, done):
    """Tell nobody."""


def problem_of(*prepared):
    information = build_information(ROBOT, BASE, prepared, delay=False)
    return Problem(ROBOT, BASE, prepared, information, np.zeros(information.size))


@pytest.fixture(scope="module")
def repeating():
    """Return a problem of four periods of 3 s."""
    t = np.arange(0.0, 12.0, 0.02)
    w = 2.0 * np.pi / 3.0 * np.array([1.0, 2.0, 3.0])
    rng = np.random.default_rng(0)
    phase = rng.uniform(0.0, 6.0, 3)
    q, dq, ddq = (w**k * np.sin(np.outer(t, w) + phase + k * np.pi / 2) for k in range(3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    return problem_of(as_prepared(ROBOT, q, dq, ddq, tau + 0.3 * rng.normal(size=tau.shape), t))


@pytest.mark.parametrize(
    ("method", "left_out"), [(Method.WLS, LeftOut.PARTS_OF_PERIOD), (Method.IRLS, LeftOut.SAME_MOTION)]
)
def test_of_a_motion_that_repeats_parts_of_the_period_are_left_out(repeating, method, left_out):
    """Where the estimator needs no more than R factors; others leave out stretches that hold the same motion."""
    options = replace(OPTIONS, method=method)
    estimation = estimate_parameters(repeating, options, silent)
    candidates = build_candidates(repeating, estimation, options, silent)
    scores = score_candidates(repeating, estimation, candidates, (), options, silent)
    tested = scores.validations["base"]
    assert (tested.by, tested.left_out, tested.folds) == (ValidatedBy.CROSS_VALIDATION, left_out, 4)
    blocks = repeating
    if method is Method.WLS:
        blocks = replace(repeating, information=different_motion(repeating.information))
        by_time = validate_in_folds(ROBOT.active_names, repeating.information, 4, build_estimator(method, repeating))
        assert tested.errors["all"].relative > 1.003 * by_time.errors["all"].relative, "the same motion tells too much"
    own = validate_in_folds(ROBOT.active_names, blocks.information, 4, build_estimator(method, blocks))
    assert tested.errors["all"].relative == pytest.approx(own.errors["all"].relative, rel=1e-4)


def test_recordings_held_out_pass_the_filters_of_the_longest_recording():
    """Each set predicts them with its own values."""
    long, short = (
        prepare(ROBOT, five_waves(ROBOT, CHI, k, seconds), PreparationOptions(row_cutoff=cutoff))
        for k, seconds, cutoff in ((0, 12.0, 5.0), (1, 6.0, 8.0))
    )
    problem = problem_of(short, long)
    estimate, asked = wls(problem.information), []

    def stored(robot, options, reading, filters=None):
        asked.append(filters)
        return prepare(robot, five_waves(ROBOT, CHI, 2), options, filters=filters)

    values = {"base": estimate.value, "consistent": 1.1 * estimate.value}
    recordings = [SimpleNamespace(prepare=stored)]
    compared = predict_recordings(problem, recordings, values, estimate, OPTIONS, silent)
    assert asked == [long.filter]
    assert 10.0 * compared["base"].errors["all"].relative < compared["consistent"].errors["all"].relative
    assert compared["consistent"].errors["all"].relative == pytest.approx(0.1, rel=0.05)
    assert 0.0 <= compared["consistent"].coverage["all"] < compared["base"].coverage["all"] <= 1.0
    assert predict_recordings(problem, (), values, estimate, OPTIONS, silent) is None
