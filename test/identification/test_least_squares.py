# SPDX-License-Identifier: Apache-2.0

"""Least squares from R factors: equal to the textbook's, to Pinocchio's parameters, and honest where data are poor."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.recursive import recursive
from ros2_dynid.identification.estimators.sequential import sequential, start, update
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.rows import find_dependence, row_chunks, row_count
from ros2_dynid.identification.regression.information import coarser, combine, gather
from ros2_dynid.identification.regression.least_squares import (
    block_moments,
    jackknife,
    joint_errors,
    joint_torques,
    ols,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

ROBOT = load_robot("demo6")
BASE = base_parameters(ROBOT, method="closed-form")


def arrays(n_samples=400, noise=0.0, seed=0, chi=None):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, n_samples, ROBOT.n))
    tau = inverse_dynamics(ROBOT, standard_vector(ROBOT) if chi is None else chi, q, dq, ddq)
    return q, dq, ddq, tau + noise * rng.standard_normal(tau.shape)


def information(*args, n_blocks=30):
    prepared = as_prepared(ROBOT, *args)
    chunks = row_chunks(ROBOT, prepared, BASE.columns(ROBOT))
    return gather(chunks, find_dependence(ROBOT, BASE.columns(ROBOT)), row_count(prepared), n_blocks=n_blocks)


def test_ols_is_lstsq():
    q, dq, ddq, tau = arrays(noise=0.5)
    W = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)].reshape(-1, len(BASE))
    expected, left, rank, _ = np.linalg.lstsq(W, tau.reshape(-1), rcond=None)
    found = ols(information(q, dq, ddq, tau))
    assert np.allclose(found.value, expected, rtol=1e-9, atol=1e-9)
    assert found.rank == rank == len(BASE)
    errors = joint_errors(information(q, dq, ddq, tau), found.value)
    assert np.isclose(np.sum(errors**2), left[0], rtol=1e-9)


def test_wls_is_lstsq_of_rows_divided_by_the_joints_errors():
    q, dq, ddq, tau = arrays()
    tau = tau + np.array([5.0, 3.0, 1.0, 0.3, 0.1, 0.03]) * np.random.default_rng(1).standard_normal(tau.shape)
    found = wls(information(q, dq, ddq, tau))
    W = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)] / found.sigma[None, :, None]
    expected = np.linalg.lstsq(W.reshape(-1, len(BASE)), (tau / found.sigma).reshape(-1), rcond=None)[0]
    assert np.allclose(found.value, expected, rtol=1e-5, atol=1e-7)
    assert np.allclose(found.sigma, [5.0, 3.0, 1.0, 0.3, 0.1, 0.03], rtol=0.15)


def test_pinocchio_torques_give_back_the_urdf():
    pin = pytest.importorskip("pinocchio")
    from recordings import ROOT

    urdf = ROOT / "config" / "robots" / "demo6.urdf"
    robot = load_robot(urdf)
    base = base_parameters(robot, groups=("inertial",), method="closed-form")
    model = pin.buildModelFromUrdf(str(urdf))
    data = model.createData()
    q, dq, ddq = np.random.default_rng(0).uniform(-2.0, 2.0, (3, 200, robot.n))
    tau = np.array([pin.rnea(model, data, *sample) for sample in zip(q, dq, ddq, strict=True)])
    prepared = as_prepared(robot, q, dq, ddq, tau)
    info = gather(
        row_chunks(robot, prepared, base.columns(robot)),
        find_dependence(robot, base.columns(robot)),
        row_count(prepared),
    )
    truth = base.values(robot, standard_vector(robot))
    assert np.allclose(ols(info).value, truth, atol=1e-9)
    assert np.allclose(wls(info).value, truth, atol=1e-8)
    assert np.allclose(recursive(info).value, truth, atol=1e-7)


def test_blocks_and_recordings_combine_to_the_whole():
    first, second = arrays(noise=0.3, seed=1), arrays(noise=0.3, seed=2)
    joined = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    together = ols(combine([information(*first, n_blocks=7), information(*second, n_blocks=3)]))
    assert np.allclose(together.value, ols(information(*joined)).value, rtol=1e-8, atol=1e-9)


def test_sequential_ends_at_the_batch_answer():
    info = information(*arrays(noise=0.3))
    found = sequential(info)
    weights = 1.0 / np.array(found.sigma)
    from ros2_dynid.identification.regression.least_squares import own_errors

    weights = 1.0 / own_errors(info)
    batch = solve(weighted_triangle(info, weights).R)
    assert np.allclose(found.value, batch.value, rtol=1e-9, atol=1e-10)


def test_filter_row_by_row_and_forgetting():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((300, 4))
    before, after = np.array([1.0, -2.0, 3.0, 0.5]), np.array([2.0, -2.0, 1.0, 0.0])
    y = np.concatenate((W[:150] @ before, W[150:] @ after))
    remembering, forgetful = start(4), start(4)
    for row in np.column_stack((W, y)):
        remembering, forgetful = update(remembering, row[None]), update(forgetful, row[None], forgetting=0.9)
    assert np.allclose(remembering.solution.value, np.linalg.lstsq(W, y, rcond=None)[0])
    assert np.allclose(forgetful.solution.value, after, atol=1e-3)
    assert remembering.rows == 300
    assert forgetful.rows == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.full((2, 5), np.nan)])
def test_filter_refuses_rows_that_do_not_fit(bad):
    with pytest.raises(InputError):
        update(start(4), bad)
    with pytest.raises(InputError):
        update(start(4), np.zeros((1, 5)), forgetting=0.0)


def test_fewer_rows_than_parameters_are_refused():
    with pytest.raises(InputError, match="rows for"):
        wls(information(*arrays(n_samples=5)))


def test_what_the_data_leave_open_keeps_its_prior_and_has_no_error_bar():
    q, dq, ddq, tau = arrays(noise=0.1)
    q[:, 5] = 0.3
    dq[:, 5] = ddq[:, 5] = 0.0
    tau = inverse_dynamics(ROBOT, standard_vector(ROBOT), q, dq, ddq)
    prior = BASE.values(ROBOT, standard_vector(ROBOT))
    found = wls(information(q, dq, ddq, tau), prior)
    k = BASE.leaders.index("Fv6")
    assert not found.identified[k]
    assert np.isinf(found.std[k])
    assert found.value[k] == pytest.approx(prior[k])
    assert found.identified[BASE.leaders.index("Fv1")]
    assert found.rank < len(BASE)


def test_independent_errors_give_the_textbook_covariance():
    info = information(*arrays(n_samples=3000, noise=1.0), n_blocks=60)
    found = ols(info)
    R = weighted_triangle(info, np.ones(6)).W[: len(BASE)]
    textbook = np.sqrt(np.diag(np.linalg.inv(R.T @ R)))
    ratio = found.std / textbook
    assert 0.85 < np.median(ratio) < 1.25


def test_correlated_errors_widen_the_error_bars():
    q, dq, ddq, tau = arrays(n_samples=3000)
    slow = np.repeat(np.random.default_rng(3).standard_normal((60, 6)), 50, axis=0)  # one error for 50 samples
    found = ols(information(q, dq, ddq, tau + slow, n_blocks=30))
    R = weighted_triangle(information(q, dq, ddq, tau), np.ones(6)).W[: len(BASE)]
    textbook = np.sqrt(np.diag(np.linalg.inv(R.T @ R)))
    k = BASE.leaders.index("off1")  # an offset is what a slow error looks like
    assert found.std[k] > 3.0 * textbook[k]


def test_jackknife_is_the_scatter_of_estimates_with_a_block_left_out():
    info = information(*arrays(noise=0.5), n_blocks=20)
    found = ols(info)
    values = [ols(info.take([k for k in range(20) if k != out])).value for out in range(20)]
    moves = np.array(values) - found.value
    A = block_moments(info, found.value, np.ones(6))
    shuffled = A.__class__(A.A, A.g, np.arange(20.0))  # no neighbours
    covariance, _ = jackknife(shuffled)
    assert np.allclose(covariance, moves.T @ moves, rtol=1e-6, atol=1e-12 * np.max(np.abs(covariance)))


def test_blocks_taken_from_blocks_taken_have_the_r_factor_of_their_rows():
    info = information(*arrays(n_samples=2100, noise=0.5), n_blocks=150)
    outer = [k for k in range(150) if not 40 <= k < 71]
    inner = [k for k in range(len(outer)) if k % 50 > 3]
    part = info.take(outer).take(inner)
    rows = [info.blocks[outer[k]].R for k in inner]
    assert len(part.blocks) == len(inner) and np.array_equal(part.rows, sum(info.blocks[outer[k]].rows for k in inner))
    for j in range(ROBOT.n):
        A = np.vstack([R[j] for R in rows])
        assert np.allclose(part.triangle(j).T @ part.triangle(j), A.T @ A, rtol=1e-11, atol=1e-9)
    joined = coarser(info, 20)
    assert len(joined.blocks) == 19 and np.array_equal(joined.rows, info.rows)
    assert np.allclose(ols(joined).value, ols(info).value, rtol=1e-9, atol=1e-9)
    assert coarser(info, 150) is info


def test_without_error_bars_the_values_are_the_same():
    info = information(*arrays(noise=0.5))
    with_bars, without = wls(info), wls(info, error_bars=False)
    assert np.array_equal(with_bars.value, without.value) and np.array_equal(with_bars.sigma, without.sigma)
    assert np.isnan(without.covariance).all()


def test_errors_and_torques_are_those_of_the_rows():
    q, dq, ddq, tau = arrays(noise=0.2)
    info = information(q, dq, ddq, tau)
    assert np.allclose(joint_torques(info), np.linalg.norm(tau, axis=0))
