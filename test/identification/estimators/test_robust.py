# SPDX-License-Identifier: Apache-2.0

"""Robust least squares by its definition: Huber's weights and scale, iterated by hand, in the blocks that count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.estimators.robust import reweight_rows, robust_scale
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import gather
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
BEND = 1.345


def huber_scale(errors):
    """Return s with mean(min(|e| / s, BEND)^2) = 0.7102, that of Gaussian errors (Huber's proposal 2)."""
    low, high = 1e-9, 10.0 * errors.max()
    for _ in range(200):
        s = np.sqrt(low * high)
        low, high = (s, high) if np.mean(np.minimum(errors / s, BEND) ** 2) > 0.7102 else (low, s)
    return s


def two_recordings(counts=(600, 331)):
    """Return recordings with outliers, the second far noisier; its rows do not fill its last block."""
    parts, rng = [], np.random.default_rng(9)
    for seed, count in enumerate(counts):
        q, dq, ddq = slow_motion(seed, count, 100.0, (0.5, 8.0), 4)
        tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
        tau += (0.3 + 1.5 * seed) * np.array([1.0, 3.0, 0.4]) * rng.normal(size=q.shape)
        tau[rng.choice(count, 15, replace=False)] += 40.0 * rng.choice([-1.0, 1.0], (15, 3))
        parts.append(as_prepared(ROBOT, q, dq, ddq, tau, np.arange(count) / 100.0))
    return Problem(ROBOT, BASE, tuple(parts), build_information(ROBOT, BASE, parts, delay=False), np.zeros(len(BASE)))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("some", [False, True])
def test_robust_least_squares_of_two_recordings(order, some):
    problem = two_recordings()
    prepared = problem.prepared[::order]
    problem = replace(problem, prepared=prepared, information=build_information(ROBOT, BASE, prepared, delay=False))
    information = problem.information
    chosen = [k for k in range(len(information.blocks)) if k % 30 > 3] if some else None
    number = [np.flatnonzero([b.recording == k for b in information.blocks]) for k in (0, 1)]
    starts = [np.array([information.blocks[i].start for i in own]) for own in number]
    block = np.concatenate(
        [own[np.searchsorted(s, p.t, side="right") - 1] for own, s, p in zip(number, starts, prepared, strict=True)]
    )
    counts = np.ones(len(block), bool) if chosen is None else np.isin(block, chosen)
    W = np.concatenate([regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, BASE.columns(ROBOT)] for p in prepared])[counts]
    tau = np.concatenate([p.tau for p in prepared])[counts]
    found = build_estimator(Method.IRLS, problem)(chosen)
    value = found.value
    for _ in range(40):  # from there it must not move
        error = np.abs(tau - W @ value)
        scale = np.array([huber_scale(error[:, j]) for j in range(3)])
        weight = np.sqrt(BEND / np.maximum(error / scale, BEND))
        root = (weight / scale)[:, :, None]
        value = np.linalg.lstsq((root * W).reshape(-1, len(BASE)), (root[:, :, 0] * tau).ravel(), rcond=None)[0]
    assert np.all(np.abs(found.value - value) < 0.05 * found.std)
    left = np.sqrt(np.mean((weight * (tau - W @ value)) ** 2, axis=0))
    np.testing.assert_allclose(found.sigma, left, rtol=0.03)
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    assert 0.4 < np.sqrt(np.mean(((found.value - truth) / found.std) ** 2)) < 1.8
    plain = build_estimator(Method.WLS, problem)(chosen)
    assert np.median(np.abs(found.value - truth) / np.abs(plain.value - truth)) < 0.8


def test_nothing_is_learnt_from_blocks_that_do_not_count():
    """Whatever they hold: rows are numbered as the blocks of all recordings, the last of which may be short."""
    problem = two_recordings((331, 600))
    first = sum(block.recording == 0 for block in problem.information.blocks)
    chosen = [*range(first), *range(first, len(problem.information.blocks), 2)]
    p = problem.prepared[1]
    starts = np.array([block.start for block in problem.information.blocks if block.recording == 1])
    odd = (np.searchsorted(starts, p.t, side="right") - 1) % 2 == 1
    spoilt = (problem.prepared[0], replace(p, tau=np.where(odd[:, None], 1e5 * p.tau, p.tau)))
    other = replace(problem, prepared=spoilt, information=build_information(ROBOT, BASE, spoilt, delay=False))
    ours, theirs = (build_estimator(Method.IRLS, one)(chosen) for one in (problem, other))
    np.testing.assert_allclose(theirs.value, ours.value, rtol=1e-9)
    np.testing.assert_allclose(theirs.sigma, ours.sigma, rtol=1e-9)


def test_rows_are_weighted_anew_until_nothing_moves():
    """By hand: errors by the last values, scales of the blocks that count, the root of the weight for every row."""
    rng, chunks = np.random.default_rng(0), []
    for first in (0, 40):
        W = rng.normal(size=(3, 1, 40))
        tau = np.einsum("b,bjt->jt", [1.0, 2.0, 3.0], W) + 0.5 * rng.standard_t(2, (1, 40))
        rows = Rows(first + np.arange(40.0), W, tau, rng.uniform(size=(1, 40)) > 0.2)
        chunks.append(((first + np.arange(40)) // 10, rows))
    W, tau, keep = (np.concatenate([getattr(rows, x) for _, rows in chunks], axis=-1) for x in ("W", "tau", "keep"))
    factors = []

    def regather(weight):
        made = [weight(rows) for _, rows in chunks]
        factors.append(np.concatenate(made, axis=1)[0])
        weighted = (
            replace(rows, W=rows.W * factor, tau=rows.tau * factor, still=None)
            for (_, rows), factor in zip(chunks, made, strict=True)
        )
        return gather(weighted, np.ones((1, 3), bool), 80, n_blocks=8)

    information = gather((rows for _, rows in chunks), np.ones((1, 3), bool), 80, n_blocks=8)
    for chosen in (None, [0, 2, 3, 4, 6]):
        factors.clear()
        robust, slopes, weights = reweight_rows(information, lambda: chunks, regather, None, chosen)
        blocks = list(range(8)) if chosen is None else chosen
        counts = keep[0] & np.isin(np.arange(80) // 10, blocks)
        start = wls(information.take(blocks))
        value = start.value
        for k, roots in enumerate(factors[:-1]):
            error = np.abs(tau[0] - value @ W[:, 0])
            scale = huber_scale(error[counts])
            np.testing.assert_allclose(roots, np.sqrt(BEND / np.maximum(error / scale, BEND)), rtol=1e-4)
            used = roots[counts]
            before, value = value, np.linalg.lstsq((W[:, 0, counts] * used).T, tau[0, counts] * used, rcond=None)[0]
            moved = np.max(np.abs(value - before) / start.std)
            assert (moved <= 1e-3) == (k == len(factors) - 2), "until a thousandth of the deviation"
        np.testing.assert_array_equal(factors[-1], error / scale <= BEND)
        assert weights == pytest.approx([1.0 / scale], rel=1e-4) and 2 < len(factors) <= 11
        for part, factor in ((robust, factors[-2]), (slopes, factors[-1])):
            A = np.vstack((W[:, 0], tau))[:, counts] * factor[counts]
            np.testing.assert_allclose(part.triangle(0).T @ part.triangle(0), A @ A.T, atol=1e-8)
            assert len(part.blocks) == len(blocks)


def test_the_robust_scale_is_the_standard_deviation_of_gaussian_errors_and_not_of_outliers():
    rng = np.random.default_rng(0)
    size = np.abs(rng.normal(0.0, 3.0, 20_000))
    assert robust_scale(size) == pytest.approx(3.0, rel=0.02)
    spoilt = size.copy()
    spoilt[:1000] = 1e4
    s = robust_scale(spoilt)
    assert 3.0 < s < 3.5
    assert np.mean(np.minimum(spoilt / s, 1.345) ** 2) == pytest.approx(0.7102, rel=1e-4), "Huber's proposal 2"
    assert robust_scale(np.zeros(10)) == 0.0
