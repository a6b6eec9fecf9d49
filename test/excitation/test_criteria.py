# SPDX-License-Identifier: Apache-2.0

"""Condition numbers and equilibrium: NumPy's own figures, the examples of Gautier 1992's appendix, and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.excitation.criteria import (
    condition_by,
    minus_log_det,
    normalised,
    normalised_back,
    relative_std,
    smooth_condition,
    smooth_equilibrium,
    structural_equilibrium,
)


def test_condition_numbers_of_the_seeds_example():
    A = np.array([[4.1, 2.8], [9.7, 6.6]])  # Gautier 1992, A1: Cond_1 = 2249.4, any two norms are within a factor of n
    assert condition_by(A) == pytest.approx(np.linalg.cond(A))
    assert 2249.4 / 2 < condition_by(A) < 2249.4 * 2
    assert condition_by(np.diag([1.0, 1e-6])) == pytest.approx(1e6)  # example 2


def test_three_measures_agree_in_order():
    W = np.random.default_rng(0).normal(size=(30, 8)) * np.logspace(0, 2, 8)
    svd, qr, frobenius = (condition_by(W, measure) for measure in ("svd", "qr", "frobenius"))
    A = W.T @ W
    assert svd == pytest.approx(np.linalg.cond(W))
    assert frobenius == pytest.approx(np.linalg.norm(A) * np.linalg.norm(np.linalg.inv(A)))
    assert svd**2 <= frobenius <= 8 * svd**2
    assert svd / 20 <= qr <= svd * (1 + 1e-12)


def test_equilibrium_is_largest_over_smallest():
    assert structural_equilibrium(np.array([[1.0, -8.0], [2.0, 0.5]])) == 16.0
    assert structural_equilibrium(np.array([[1.0, 0.0]])) == np.inf
    assert structural_equilibrium(np.array([[1.0, 0.0]]), np.array([[True, False]])) == 1.0


def test_no_rank_is_an_infinite_condition_number():
    assert condition_by(np.zeros((3, 2))) == np.inf
    assert condition_by(np.ones((3, 2)), "qr") > 1e15


def test_smooth_criteria_reach_the_sharp_ones():
    W = np.random.default_rng(1).normal(size=(20, 5))
    assert np.exp(smooth_condition(W, 4.0)[0]) ** 2 == pytest.approx(condition_by(W, "frobenius"))
    assert np.exp(smooth_condition(W, 500.0)[0]) == pytest.approx(condition_by(W), rel=0.02)
    assert np.exp(smooth_equilibrium(W, 1000.0)[0]) == pytest.approx(structural_equilibrium(W), rel=0.02)
    assert minus_log_det(W)[0] == pytest.approx(-np.linalg.slogdet(W.T @ W)[1] / 10)


@pytest.mark.parametrize("rows", [6, 40], ids=["direct", "by QR"])
@pytest.mark.parametrize(
    "criterion",
    [lambda W: smooth_condition(W, 8.0), lambda W: smooth_equilibrium(W, 8.0), minus_log_det],
    ids=["cond", "S", "logdet"],
)
def test_gradients_against_differences(criterion, rows):
    rng = np.random.default_rng(2)
    W, D = rng.normal(size=(2, rows, 5))
    slope = np.sum(criterion(W)[1] * D)
    assert slope == pytest.approx((criterion(W + 1e-6 * D)[0] - criterion(W - 1e-6 * D)[0]) / 2e-6, rel=1e-5)


def test_gradient_of_normalised_columns():
    rng = np.random.default_rng(3)
    W, D = rng.normal(size=(2, 20, 5))

    def value(X):
        return smooth_condition(normalised(X)[0], 8.0)[0]

    Wn, norms = normalised(W)
    slope = np.sum(normalised_back(Wn, norms, smooth_condition(Wn, 8.0)[1]) * D)
    assert slope == pytest.approx((value(W + 1e-6 * D) - value(W - 1e-6 * D)) / 2e-6, rel=1e-5)


def test_predicted_deviation_is_what_noise_does():
    rng = np.random.default_rng(4)
    W, x = rng.normal(size=(60, 4)), np.array([1.0, -2.0, 0.5, 4.0])
    errors = [np.linalg.lstsq(W, W @ x + 0.3 * rng.normal(size=60), rcond=None)[0] - x for _ in range(4000)]
    seen = 100.0 * np.std(errors, axis=0) / np.abs(x)
    np.testing.assert_allclose(relative_std(W, x, 0.3), seen, rtol=0.06)
