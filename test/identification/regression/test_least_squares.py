# SPDX-License-Identifier: Apache-2.0

"""Error bars against the scatter of simulations and against textbook figures, from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import dct
from scipy.special import stdtrit

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.loads.drive_gains import drive_gains
from ros2_dynid.identification.loads.payload_fit import identify_load
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.rows import find_dependence, row_chunks, row_count
from ros2_dynid.identification.regression.information import gather
from ros2_dynid.identification.regression.least_squares import (
    Moments,
    error_levels,
    jackknife,
    ols,
    slowest,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_vector

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT, method="closed-form")
NOISE = np.array([0.8, 0.4, 0.1])
LOAD = Load(2.0, np.array([0.05, -0.02, 0.08]), np.diag([0.01, 0.012, 0.006]), ROBOT.n)


def information(rng, *, count=600, load=None, gains=1.0, n_blocks=20, noise=NOISE, motion=0):
    """Rows of a fixed random motion with fresh noise; efforts divided by the gains."""
    q, dq, ddq = np.random.default_rng(motion).uniform(-1.5, 1.5, (3, count, ROBOT.n))
    chi = standard_vector(ROBOT)
    if load is not None:
        chi = chi + load_parameters(ROBOT, load, len(chi))
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + noise * rng.standard_normal(q.shape)
    prepared = as_prepared(ROBOT, q, dq, ddq, tau / gains)
    chunks = row_chunks(ROBOT, prepared, BASE.columns(ROBOT))
    return gather(chunks, find_dependence(ROBOT, BASE.columns(ROBOT)), row_count(prepared), n_blocks=n_blocks)


@pytest.mark.parametrize("estimator", [ols, wls])
def test_stated_deviation_is_the_scatter_neither_less_nor_more(estimator):
    rng = np.random.default_rng(1)
    found = [estimator(information(rng)) for _ in range(60)]
    scatter = np.std([f.value for f in found], axis=0, ddof=1)
    stated = np.sqrt(np.mean([f.std**2 for f in found], axis=0))
    ratio = stated / scatter
    assert 0.9 < np.median(ratio) < 1.25, np.median(ratio)
    assert np.all((ratio > 0.7) & (ratio < 1.6)), ratio


def test_the_error_level_counts_the_parameters():
    """With few rows for the parameters, sum of squares over rows alone would be far too small."""
    rng = np.random.default_rng(2)
    levels = []
    for _ in range(60):
        few = information(rng, count=14, n_blocks=7)
        weights = 1.0 / NOISE
        value = solve(weighted_triangle(few, weights).R).value
        levels.append(error_levels(few, value, weights) ** 2)
    ratio = np.sqrt(np.mean(levels, axis=0)) / NOISE
    without = np.sqrt(1.0 - len(BASE) / (3 * 14))
    assert without < 0.8, "the case tells the two apart"
    assert np.all((ratio > 0.85) & (ratio < 1.2)), ratio


def moments(g, recording):
    """Blocks that each hold an equal part of a scalar parameter's information, with scores g."""
    B = len(g)
    return Moments(np.full((B, 1, 1), 4.0), np.array(g, dtype=float)[:, None], np.array(recording, dtype=float))


def test_blocks_of_recordings_of_their_own_are_independent():
    g = [1.0, 0.9, -1.1, -0.8, 1.2, 1.1, -1.0, -1.3]
    B = len(g)
    moves = np.array(g) / (4.0 * (B - 1))  # -(A - A_b)^-1 g_b
    alone, dof = jackknife(moments(g, range(B)))
    assert alone[0, 0] == pytest.approx(np.sum(moves**2)) and dof == B - 1
    half, _ = jackknife(moments(g, range(B)), half=True)
    assert half[0, 0] == pytest.approx(np.sum((np.array(g) / (4.0 * B)) ** 2) / (1 - 1 / B))
    none, _ = jackknife(moments(g, range(B)), np.array([False]))
    assert none[0, 0] == 0.0


@pytest.mark.parametrize("g", [[1.0, 0.9, -1.1, -0.8, 1.2, 1.1, -1.0, -1.2], [1.0, -1.0] * 4])
def test_the_slow_part_of_a_series_of_blocks_counts(g):
    B, K = len(g), 6
    moves = np.array(g) / (4.0 * (B - 1))
    found, dof = jackknife(moments(g, [0] * B), grow=False)
    powers = dct(moves, norm="ortho")[1 : K + 1] ** 2
    assert found[0, 0] == pytest.approx((B - 1) / K * powers.sum())
    assert dof == pytest.approx(2 / (1 / K + 1 / (B - 1)))
    if g[1] < 0:
        assert found[0, 0] < 0.5 * np.sum(moves**2), "errors that swing from block to block cancel"


def test_the_order_of_recordings_does_not_matter():
    rng = np.random.default_rng(3)
    lengths, b = (30, 12, 1, 8), 4
    parts = [rng.standard_normal((length, b)) for length in lengths]
    mean = np.concatenate(parts).mean(axis=0)
    found = []
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        g = np.concatenate([parts[k] - mean for k in order])
        numbers = np.repeat(np.arange(len(order), dtype=float), [lengths[k] for k in order])
        found.append(jackknife(Moments(np.tile(4.0 * np.eye(b), (len(g), 1, 1)), g, numbers)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    assert found[0][1] == found[1][1]
    plain = np.sum((np.concatenate(parts) / 200.0) ** 2, axis=0)
    assert np.all(np.abs(np.log(np.diag(found[0][0]) / plain)) < 0.7)


def test_fewer_cosines_the_more_neighbours_have_in_common():
    counts = [slowest(r, 31) for r in (0.0, -0.1, -0.2, -0.3, -0.4, -0.5)]
    assert counts[0] == 15 and counts[-1] == 6 and counts == sorted(counts, reverse=True)
    assert slowest(0.3, 31) < 15 and slowest(-0.5, 4) == 3


@pytest.mark.parametrize(("common", "most"), [(0.0, 1.15), (-0.6, 1.4), (-0.3, 1.15), (0.3, 1.15)])
def test_errors_that_cancel_or_add_up_between_blocks_give_the_scatter_of_their_sum(common, most):
    """Scores n_k + common n_(k-1) of white n: their sum has the variance B (1 + common)^2, near enough."""
    rng = np.random.default_rng(7)
    B, b, total = 30, 20, 4.0 * 30
    stated, errors = [], []
    for _ in range(60):
        n = rng.standard_normal((B + 1, b))
        scores = n[1:] + common * n[:-1]
        errors.append(scores.sum(axis=0) / total)
        g = scores - scores.mean(axis=0)  # as the fit leaves them
        found, _ = jackknife(Moments(np.tile(4.0 * np.eye(b), (B, 1, 1)), g, np.zeros(B)))
        stated.append(np.diag(found))
    ratio = np.sqrt(np.mean(stated) / np.mean(np.square(errors)))
    assert 0.85 < ratio < most, ratio


def test_gains_have_the_scatter_that_they_state():
    gains = np.array([6.0, 0.25, 1.5])
    rng = np.random.default_rng(3)
    found = [
        drive_gains(
            ROBOT,
            BASE,
            information(rng, gains=gains, noise=0.3 * NOISE),
            information(rng, gains=gains, load=LOAD, noise=0.3 * NOISE, motion=1),
            LOAD.mass,
        )
        for _ in range(25)
    ]
    value, std = np.array([f.value for f in found]), np.array([f.std for f in found])
    known = np.all(np.isfinite(value), axis=0)
    assert known.sum() >= 2
    ratio = np.sqrt(np.mean(std[:, known] ** 2, axis=0)) / np.std(value[:, known], axis=0, ddof=1)
    assert np.all((ratio > 0.6) & (ratio < 1.8)), ratio
    assert np.all(np.abs(np.mean(value[:, known], axis=0) / gains[known] - 1) < 0.05)


def test_the_interval_of_a_load_is_that_of_95_percent():
    rng = np.random.default_rng(4)
    empty, loaded = information(rng, n_blocks=6), information(rng, load=LOAD, motion=1, n_blocks=6)
    found = identify_load(ROBOT, BASE, empty, loaded, free=True)
    factor = found.interval[0] / found.mass_std
    assert stdtrit(200, 0.975) < factor <= stdtrit(5, 0.975), "Student's, of as many blocks as there are"
    np.testing.assert_allclose(found.interval[1], factor * found.com_std)
    np.testing.assert_allclose(found.interval[2], factor * found.inertia_std)
    assert found.significant
    nothing = identify_load(ROBOT, BASE, empty, information(rng, motion=1), free=True)
    assert nothing.significant == (abs(nothing.mass) > nothing.interval[0])
    light = Load(0.4 * found.mass_std, LOAD.com, 0 * LOAD.inertia, ROBOT.n)
    missed = [
        identify_load(ROBOT, BASE, information(rng), information(rng, load=light, motion=1), free=True).significant
        for _ in range(8)
    ]
    assert sum(missed) <= 3, "a load below its own error bar is not significant"


def test_the_load_is_the_body_that_was_put_on():
    quiet = np.full(3, 1e-6)
    rng = np.random.default_rng(5)
    found = identify_load(
        ROBOT, BASE, information(rng, noise=quiet), information(rng, load=LOAD, noise=quiet, motion=1), free=True
    )
    assert found.mass == pytest.approx(LOAD.mass, abs=1e-4)
    np.testing.assert_allclose(found.com, LOAD.com, atol=1e-4)
    np.testing.assert_allclose(found.inertia, LOAD.inertia, atol=1e-4)
    m, c = LOAD.mass, LOAD.com
    J = LOAD.inertia + m * (c @ c * np.eye(3) - np.outer(c, c))
    chi = load_parameters(ROBOT, LOAD, 14 * ROBOT.n).reshape(ROBOT.n, 14)
    assert not chi[:-1].any()
    np.testing.assert_allclose(chi[-1, : len(LINK)], [*J[np.triu_indices(3)], *(m * c), m])


def test_bars_do_not_depend_on_the_order_of_the_recordings():
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((3, 20, 12, 4)) * np.array([1.0, 3.0, 2.0])[:, None, None, None]
    e = rng.standard_normal((3, 20, 12))
    A = np.einsum("rbia,rbic->rbac", rows, rows)
    g = np.einsum("rbia,rbi->rba", rows, e)
    found = []
    for order in ([0, 1, 2], [2, 0, 1], [1, 0, 2]):
        numbers = np.repeat(np.arange(3.0), 20)
        found.append(jackknife(Moments(A[order].reshape(60, 4, 4), g[order].reshape(60, 4), numbers)))
    for covariance, dof in found[1:]:
        np.testing.assert_allclose(covariance, found[0][0], rtol=1e-9)
        assert dof == pytest.approx(found[0][1])
