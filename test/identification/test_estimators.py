# SPDX-License-Identifier: Apache-2.0

"""Every estimator on MuJoCo's motion: near the truth, by its own error bars; and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.estimators.instrumental import cross_moments
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.validation.cross_validation import cross_validate, split_folds
from ros2_dynid.identification.validation.torque_errors import torque_errors


@pytest.fixture(scope="module")
def problem():
    robot, _ = simulated_truth()
    base = base_parameters(robot, method="closed-form")
    prepared = prepare(robot, simulated())
    return Problem(robot, base, (prepared,), build_information(robot, base, [prepared]), np.zeros(len(base) + 1))


# didim needs a recording whose controller is known: test_simulated_loop
@pytest.mark.parametrize("method", [method for method in Method if method is not Method.DIDIM])
def test_truth_lies_within_the_error_bars(problem, method):
    robot, chi = simulated_truth()
    found = build_estimator(method, problem)(None)
    z = (found.base - problem.base.values(robot, chi)) / found.base_std
    assert np.all(np.isfinite(z))
    assert np.mean(np.abs(z) < 3.0) >= 0.95
    assert 0.3 < np.sqrt(np.mean(z**2)) < 1.7
    assert found.method == method
    if method is Method.IRLS:
        return  # it weighs reversals down, which move the delay by a period and hardly anything else
    # torque applied over the period that follows the sample: half a period early
    assert abs(found.delay + 0.5e-3) < max(4 * found.delay_std, 0.3e-3)


@pytest.mark.parametrize("method", [Method.OLS, Method.WLS, Method.IRLS, Method.TLS, Method.IV, Method.SEQUENTIAL])
def test_torque_is_explained(problem, method):
    found = build_estimator(method, problem)(None)
    errors = torque_errors(problem.robot.active_names, problem.information, found.value)
    assert errors["all"].relative < 0.01
    assert set(errors) == {*problem.robot.active_names, "all"}


@pytest.mark.parametrize("method", [Method.WLS, Method.IRLS, Method.IV])
def test_cross_validation_is_a_little_worse_than_the_fit(problem, method):
    fit = build_estimator(method, problem)
    names = problem.robot.active_names
    inside = torque_errors(names, problem.information, fit(None).value)["all"].relative
    outside = cross_validate(names, problem.information, 3, fit)["all"].relative
    assert inside < outside < 0.02


def test_robust_estimate_ignores_spikes():
    robot, chi = simulated_truth()
    base = base_parameters(robot, method="closed-form")
    samples, truth = simulated(), base.values(robot, chi)
    hit = [k for k, leader in enumerate(base.leaders) if leader[-1] in "123"]  # the joints with spikes
    ratios = []
    for seed in range(5):
        tau = samples.tau.copy()
        for start in np.random.default_rng(seed).integers(0, len(tau) - 40, 12):
            tau[start : start + 40, :3] += 40.0
        prepared = prepare(robot, replace(samples, tau=tau))
        spiked = Problem(robot, base, (prepared,), build_information(robot, base, [prepared]), np.zeros(len(base) + 1))
        plain, robust = (np.abs(build_estimator(m, spiked)(None).base - truth)[hit] for m in (Method.WLS, Method.IRLS))
        ratios.append(np.median(robust) / np.median(plain))
    assert np.median(ratios) < 0.3


@pytest.mark.parametrize("method", [Method.IRLS, Method.IV])
def test_held_out_blocks_have_no_say_in_the_weights(problem, method):
    """Spoiled torques in blocks that a fit leaves out do not move it; without the spoiled blocks all methods agree."""
    p = problem.prepared[0]
    blocks = problem.information.blocks
    chosen = list(range(len(blocks) // 2))
    spoiled = p.tau.copy()
    spoiled[p.t > blocks[chosen[-1]].end + 1.0] *= 3.0
    after = replace(p, tau=spoiled)
    information = build_information(problem.robot, problem.base, [after])
    other = Problem(problem.robot, problem.base, (after,), information, problem.prior)
    ours, theirs = (build_estimator(method, one)(chosen[:-6]) for one in (problem, other))
    assert np.allclose(ours.value, theirs.value, rtol=1e-9, atol=1e-12)
    assert np.allclose(ours.sigma, theirs.sigma, rtol=1e-9)


def test_rows_fall_into_the_blocks_of_their_time():
    """Their times, not their numbers, say which block rows are of."""
    t = np.array([0.0, 0.3, 0.9, 1.0, 1.7, 2.2, 2.6])
    W = np.arange(1.0, 8.0)[None, None]
    rows = Rows(t, W, 2.0 * W[0], np.ones((1, 7), dtype=bool))
    found = cross_moments([rows], [rows], np.array([0.0, 1.0, 2.5]))
    squares = np.arange(1.0, 8.0) ** 2
    parts = [squares[:3].sum(), squares[3:6].sum(), squares[6:].sum()]
    assert np.allclose(found.A[:, 0, 0, 0], parts) and np.allclose(found.y[:, 0, 0], 2 * np.array(parts))


def test_folds_are_contiguous_and_cover_all(problem):
    parts = split_folds(problem.information, 3)
    assert [b for part in parts for b in part] == list(range(len(problem.information.blocks)))
    with pytest.raises(InputError, match="folds"):
        split_folds(problem.information, 1000)


def test_missing_positions_are_refused(problem):
    robot = problem.robot
    p = problem.prepared[0]
    bare = as_prepared(robot, p.q, p.dq, p.ddq, p.tau)
    without = Problem(robot, problem.base, (bare,), problem.information, problem.prior)
    for method in (Method.IV, Method.ENERGY, Method.TLS):
        with pytest.raises(InputError, match=r"recording|filter"):
            build_estimator(method, without)(None)
