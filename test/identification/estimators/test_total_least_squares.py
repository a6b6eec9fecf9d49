# SPDX-License-Identifier: Apache-2.0

"""Total least squares by its definition: what noise of the encoders does to the rows is taken off, block by block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from motions import five_waves, slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.estimators.total_least_squares import add_encoder_noise
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.filters import (
    lowpass_kernel,
)
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import Moments, block_moments, jackknife
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)


@pytest.fixture(scope="module")
def problem():
    chi, noise = true_parameters(ROBOT, 2), np.array([0.04, 0.05, 0.03])
    options = PreparationOptions(position_cutoff=20.0, row_cutoff=4.0)
    parts = [prepare(ROBOT, five_waves(ROBOT, chi, seed, 6.0, 0.02), options) for seed in (0, 1)]
    parts = [replace(p, position_noise=noise, filter=replace(p.filter, slow=0.2)) for p in parts]
    information = build_information(ROBOT, BASE, parts, delay=False)
    return Problem(ROBOT, BASE, tuple(parts), information, np.zeros(len(BASE)))


@pytest.mark.parametrize("some", [False, True])
def test_total_least_squares_by_its_definition(problem, some):
    """(W^T W - lambda D) base = W^T tau, and the same share of D is taken off the moments of every block.

    D is of the rows that are kept without the noise; every recording has noise of its own.
    """
    information = problem.information
    chosen = [k for k in range(len(information.blocks)) if k % 5] if some else None
    part = information.take(chosen)
    plain = wls(part, problem.prior)
    weights = 1.0 / plain.sigma
    b = len(BASE)
    S, D = np.zeros((b + 1, b + 1)), np.zeros((b, b))
    for block in part.blocks:
        for R, own, w in zip(block.R, part.columns, weights, strict=True):
            at = np.append(own, b)
            S[np.ix_(at, at)] += w**2 * R.T @ R
    in_motion = information.in_motion()
    for number, prepared in enumerate(problem.prepared):
        blocks = [(k, block) for k, block in enumerate(in_motion.blocks) if block.recording == number]
        starts = np.array([block.start for _, block in blocks])
        for clean, noisy in zip(
            problem.rows(number), problem.rows_of(add_encoder_noise(prepared, number)), strict=True
        ):
            numbers = np.array([k for k, _ in blocks])[np.searchsorted(starts, clean.t, side="right") - 1]
            counts = np.ones(len(clean.t), bool) if chosen is None else np.isin(numbers, chosen)
            for j in range(3):
                dW = (noisy.W - clean.W)[:, j, clean.keep[j] & counts]
                D += weights[j] ** 2 * dW @ dW.T
    C = np.zeros_like(S)
    C[:-1, :-1], C[-1, -1] = D, part.rows.sum()
    smallest = 1.0 / eigh(C, S, eigvals_only=True)[-1]
    value = np.linalg.solve(S[:-1, :-1] - smallest * D, S[:-1, -1])
    found = build_estimator(Method.TLS, problem)(chosen)
    change = value - plain.value
    np.testing.assert_allclose(found.value - plain.value, change, rtol=1e-3, atol=1e-3 * np.abs(change).max())
    assert np.max(np.abs(change) / plain.std) > 0.02 and found.method is Method.TLS
    moments = block_moments(part, value, weights)
    share = smallest * D / len(moments.g)
    less = Moments(moments.A - share, moments.g + share @ value, moments.recording)
    covariance, dof = jackknife(less, plain.identified)
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(covariance), rtol=1e-3)
    assert found.dof == pytest.approx(dof)


def test_the_noise_added_is_that_of_the_encoders_through_the_same_filters(problem):
    (p, _) = problem.prepared
    noisy = add_encoder_noise(p, 3)
    low, rate = p.filter.position_cutoff, p.filter.rate
    for joint, size in enumerate(p.position_noise):
        share = np.std(noisy.q[:, joint] - p.q[:, joint]) / (size * np.sqrt(2.0 * low / rate))
        assert 0.6 < share < 1.6
    slope = np.gradient(noisy.q - p.q, 1.0 / p.filter.inner_rate, axis=0)
    assert np.corrcoef(slope[5:-5, 1], (noisy.dq - p.dq)[5:-5, 1])[0, 1] > 0.9
    np.testing.assert_array_equal(add_encoder_noise(p, 3).q, noisy.q)
    assert not np.allclose(add_encoder_noise(p, 4).q, noisy.q) and noisy.tau is p.tau
    bare = as_prepared(ROBOT, p.q, p.dq, p.ddq, p.tau)
    with pytest.raises(InputError, match="positions as recorded"):
        add_encoder_noise(bare, 0)


def motion(count=600, seed=0, rate=100.0):
    """Return t and a smooth motion of all joints."""
    return np.arange(count) / rate, *slow_motion(seed, count, rate, (0.5, 8.0), 4)


def filtered_recording(seconds=30.0, seed=0, row=20.0):
    rate = 100.0
    t, q, dq, ddq = motion(int(seconds * rate), seed, rate)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    p = as_prepared(ROBOT, q, dq, ddq, tau + 0.05 * np.random.default_rng(seed).normal(size=tau.shape), t)
    kernels = [lowpass_kernel(row, rate, k) for k in (0, 1)]
    return replace(p, kernel=kernels[0], slope_kernel=kernels[1], filter=replace(p.filter, row_cutoff=row))


def test_noise_is_added_through_the_filters_of_the_positions():
    p = filtered_recording(20.0)
    with pytest.raises(InputError, match="positions as recorded"):
        add_encoder_noise(p, 0)
    p = replace(p, filter=replace(p.filter, position_cutoff=10.0), position_noise=np.array([1e-3, 0.0, 2e-3]))
    one, same, two = add_encoder_noise(p, 1), add_encoder_noise(p, 1), add_encoder_noise(p, 2)
    np.testing.assert_array_equal(one.q, same.q)
    assert not np.array_equal(one.q, two.q) and np.array_equal(one.q[:, 1], p.q[:, 1])
    kernels = [lowpass_kernel(10.0, 100.0, k) for k in range(3)]
    for k, field in enumerate(("q", "dq", "ddq")):
        more = getattr(one, field) - getattr(p, field)
        size = np.array([1e-3, 0.0, 2e-3]) * np.linalg.norm(kernels[k])
        np.testing.assert_allclose(more.std(axis=0), size, rtol=0.15)
    fast = add_encoder_noise(replace(p, filter=replace(p.filter, rate=300.0)), 1)
    noise = p.position_noise * np.random.default_rng(1).standard_normal((8000, 3))
    for k, field in enumerate(("q", "dq", "ddq")):
        kernel = lowpass_kernel(10.0, 300.0, k)[::-1]
        for i in (0, 1, 17, len(p.t) - 1):  # of the recording's own rate, as often as positions are kept
            wanted = kernel @ noise[3 * i : 3 * i + len(kernel)]
            np.testing.assert_allclose((getattr(fast, field) - getattr(p, field))[i], wanted, atol=1e-9)
