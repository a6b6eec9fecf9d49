# SPDX-License-Identifier: Apache-2.0

"""Parts that estimators and the preparation are made of: each against a plain way to the same answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators import sequential
from ros2_dynid.identification.estimators.didim import output_error
from ros2_dynid.identification.estimators.estimator import build_estimator, identify_arrays
from ros2_dynid.identification.estimators.recursive import recursive
from ros2_dynid.identification.estimators.robust import irls
from ros2_dynid.identification.estimators.total_least_squares import disturbed, tls
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared
from ros2_dynid.identification.preparation.filters import Spectrum, looked_at, lowpass_kernel, propose, spectrum
from ros2_dynid.identification.preparation.prepare import effort_streams, swapped
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import (
    Block,
    Information,
    different_motion,
    each_triangle,
    restrict,
)
from ros2_dynid.identification.regression.least_squares import (
    Moments,
    block_moments,
    error_levels,
    jackknife,
    ols,
    own_errors,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.identification.regression.prior import (
    Prior,
    PriorWeight,
    build_prior_fit,
    regularize,
    select_prior_weight,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)


def motion(count=600, seed=0, rate=100.0):
    """Return t and a smooth motion of all joints."""
    return np.arange(count) / rate, *slow_motion(seed, count, rate, (0.5, 8.0), 4)


def measured(count=600, noise=0.05, seed=0):
    t, q, dq, ddq = motion(count, seed)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    return t, q, dq, ddq, tau + noise * np.array([1.0, 3.0, 0.4]) * np.random.default_rng(seed).normal(size=q.shape)


# --- the least-squares estimate of arrays


@pytest.mark.parametrize("count", [200, 600, 5000])
def test_arrays_are_identified_as_numpy_solves_them(count):
    _, q, dq, ddq, tau = measured(count)
    base, found = identify_arrays(ROBOT, q, dq, ddq, tau)
    W = regressor(ROBOT, q, dq, ddq)[:, :, base.columns(ROBOT)] / found.sigma[:, None]
    wanted = np.linalg.lstsq(W.reshape(-1, len(base)), (tau / found.sigma).ravel(), rcond=None)[0]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-4, atol=1e-5)
    assert found.layout.n_delay == 0 and found.rank == len(base)
    z = (found.value - base.values(ROBOT, true_parameters(ROBOT, 1))) / found.std
    assert 0.4 < np.sqrt(np.mean(z**2)) < 2.0
    given = identify_arrays(ROBOT, q, dq, ddq, tau, base=base)[0]
    assert given is base
    rows = wls(build_information(ROBOT, base, [as_prepared(ROBOT, q, dq, ddq, tau)], delay=False))
    np.testing.assert_allclose(found.covariance, rows.covariance, rtol=1e-6, atol=1e-9 * np.abs(rows.covariance).max())
    assert found.dof == pytest.approx(rows.dof)


# --- the filter that takes row after row


def test_the_filter_is_batch_least_squares_with_forgetting():
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    state = sequential.start(3)
    for first in range(0, 50, 7):
        rows = np.column_stack((A, y))[first : first + 7]
        state = sequential.update(state, rows, 0.95)
    w = 0.95 ** (0.5 * np.arange(49, -1, -1))
    np.testing.assert_allclose(state.solution.value, np.linalg.lstsq(w[:, None] * A, w * y, rcond=None)[0])
    assert state.rows == pytest.approx(np.sum(w**2))
    std, prior = np.array([0.5, 2.0, 1.0]), np.array([1.0, -1.0, 3.0])
    drawn = sequential.update(sequential.start(3, prior, std), np.column_stack((A, y)))
    wanted = np.linalg.solve(A.T @ A + np.diag(std**-2), A.T @ y + prior / std**2)
    np.testing.assert_allclose(drawn.solution.value, wanted)
    for bad, words in (
        (np.zeros((2, 3)), "give 4 columns"), (np.zeros(4), "give 4 columns"),
        (np.full((1, 4), np.nan), "not finite"), (np.full((1, 4), np.inf), "not finite"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            sequential.update(state, bad)
    for forgetting in (0.0, 1.01, -1.0):
        with pytest.raises(InputError, match="more than 0 and at most 1"):
            sequential.update(state, np.zeros((1, 4)), forgetting)
    for args in ((prior[:2], std), (prior, std[:2]), (prior, 0.0 * std), (prior, -std)):
        with pytest.raises(InputError, match="positive standard deviations"):
            sequential.start(3, *args)


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_blocks_in_their_order_are_the_weighted_fit(forgetting):
    _, q, dq, ddq, tau = measured(600)
    information = build_information(ROBOT, BASE, [as_prepared(ROBOT, q, dq, ddq, tau)], delay=False)
    found = sequential.sequential(information, forgetting=forgetting)
    sigma = own_errors(information)
    W = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)] / sigma[:, None]
    block = np.arange(600) // 20
    age = forgetting ** (0.5 * 60 * (block.max() - block))
    wanted = np.linalg.lstsq(
        (age[:, None, None] * W).reshape(-1, len(BASE)), (age[:, None] * tau / sigma).ravel(), rcond=None
    )[0]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6, atol=1e-7)


# --- lower cut-offs


def filtered_recording(seconds=30.0, seed=0, row=20.0):
    rate = 100.0
    t, q, dq, ddq = motion(int(seconds * rate), seed, rate)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    p = as_prepared(ROBOT, q, dq, ddq, tau + 0.05 * np.random.default_rng(seed).normal(size=tau.shape), t)
    kernels = [lowpass_kernel(row, rate, k) for k in (0, 1)]
    return replace(p, kernel=kernels[0], slope_kernel=kernels[1], filter=replace(p.filter, row_cutoff=row))


# --- filters proposed


@pytest.mark.parametrize(
    ("motion_hz", "visible", "n", "rate", "row", "position"),
    [
        (1.0, 100.0, 100_000, 500.0, 8.0, 40.0),  # friction wants 8 Hz, positions five times that
        (1.0, 20.0, 100_000, 500.0, 4.0, 20.0),  # as much of it as is seen
        (1.0, 5.0, 100_000, 500.0, 3.0, 6.6),  # the motion itself, and positions well above
        (5.0, 100.0, 100_000, 500.0, 15.0, 75.0),
        (0.1, 1.0, 100_000, 500.0, 2.0, 4.4),
        (30.0, 400.0, 100_000, 200.0, 200.0 * 0.3 / 2.2, 60.0),  # the sampling rate ends it
    ],
)
def test_cutoffs_from_a_spectrum(motion_hz, visible, n, rate, row, position):
    found = Spectrum(np.zeros(3), np.array([0.5, 1.0, 2.0]) * motion_hz, np.array([0.5, 1.0, 2.0]) * visible)
    cutoffs = propose(found, n, rate, PreparationOptions())
    highest = cutoffs.position if rate == 200.0 else None
    assert cutoffs.row == pytest.approx(row, rel=0.1 if highest else 1e-9)
    assert cutoffs.position == pytest.approx(position, rel=0.1 if highest else 1e-9)
    assert cutoffs.slow_rate == (rate == 200.0)
    assert cutoffs.step == max(1, int(rate / (4.0 * cutoffs.position)))
    assert cutoffs.row_step == max(1, int(rate / cutoffs.step / (5.0 * cutoffs.row) + 0.5))
    asked = propose(found, n, rate, PreparationOptions(position_cutoff=11.0, row_cutoff=3.0, row_rate=7.0))
    assert (asked.position, asked.row, asked.row_step) == (11.0, 3.0, int(rate / asked.step / 7.0 + 0.5))


def test_a_spectrum_tells_noise_motion_and_where_it_drowns():
    rng, rate = np.random.default_rng(0), 200.0
    t = np.arange(8000) / rate
    sigma = np.array([1e-4, 1e-3, 1e-4])
    q = np.column_stack((np.sin(2 * np.pi * 0.5 * t), np.sin(2 * np.pi * 2.0 * t), np.zeros_like(t)))
    q = q + sigma * rng.normal(size=q.shape)
    found = spectrum([q[:5000], q[5000:]], rate)
    np.testing.assert_allclose(found.floor, sigma**2 / (0.5 * rate), rtol=0.15)
    assert 0.4 < found.motion[0] < 1.0 and 1.6 < found.motion[1] < 2.5
    assert 0.5 < found.visible[0] < 10.0 and 2.0 < found.visible[1] < 15.0
    assert found.motion[2] == found.visible[2] == 0.0
    step = np.array([1e-2, 0.0, 1e-9])
    coarse = spectrum([np.round(q / 1e-2) * 1e-2], rate, np.array([1e-2, 1e-2, 1e-2]))
    speed = np.mean(np.abs(np.diff(np.round(q[:, 0] / 1e-2) * 1e-2))) * rate
    assert coarse.floor[0] >= step[0] ** 2 / 12.0 / (speed / 1e-2) * 0.999


def test_only_the_first_two_minutes_are_looked_at():
    parts = [np.zeros((n, 2)) for n in (5000, 4000, 9000, 10)]
    assert [len(x) for x in looked_at(parts, 100.0)] == [5000, 4000, 3000]
    assert [len(x) for x in looked_at(parts, 1000.0)] == [5000, 4000, 9000, 10]
    assert [len(x) for x in looked_at([np.zeros((11_999, 1)), np.zeros((5, 1))], 100.0)] == [11_999]


def test_cutoffs_of_another_recording_unless_others_are_asked_for():
    options = PreparationOptions(row_cutoff=3.0)
    assert options.with_filters(None, 5.0, 50.0) is options and options.with_filters(5.0, None, 50.0) is options
    found = options.with_filters(20.0, 5.0, 50.0)
    assert (found.position_cutoff, found.row_cutoff) == (20.0, 3.0)
    low = PreparationOptions().with_filters(20.0, 5.0, 4.0)
    assert (low.position_cutoff, low.row_cutoff) == (4.0, 4.0)
    for gains in ({ROBOT.active_names[0]: 0.0}, {ROBOT.active_names[0]: np.nan}):
        with pytest.raises(InputError, match="zero or not finite"):
            PreparationOptions(gains=gains).gains_of(ROBOT)


# --- two efforts


def test_which_of_two_efforts_comes_first():
    t = np.arange(10) / 10.0
    tau, link = np.full((10, 3), 1.0), np.full((10, 3), 2.0)
    link[:6, 2] = np.nan  # known for less than half of the time
    link[:5, 1] = np.nan
    samples = Samples(t, ROBOT.active_names, np.zeros((10, 3)), tau=tau, tau_l=link, source="x")
    joints = tuple(
        replace(joint, measured_drive=() if k != 1 else joint.measured_drive) for k, joint in enumerate(ROBOT.joints)
    )
    robot = replace(ROBOT, joints=joints, parameters={})
    found = effort_streams(robot, samples)
    assert list(found.tau[9]) == [2.0, 1.0, 1.0]
    np.testing.assert_array_equal(found.tau_l[9], [1.0, 2.0, np.nan])
    assert list(swapped(robot, found)) == [True, False, False]
    plain = replace(samples, tau_l=None)
    assert effort_streams(robot, plain) is plain and not swapped(robot, plain).any()
    nothing = effort_streams(robot, replace(samples, tau_l=np.full((10, 3), np.nan)))
    assert nothing.tau_l is None and (nothing.tau == 1.0).all()
    with pytest.raises(InputError, match="torques at the links and no efforts"):
        effort_streams(robot, replace(samples, tau=None))
    every = replace(ROBOT, joints=tuple(replace(joint, measured_drive=()) for joint in ROBOT.joints), parameters={})
    alone = effort_streams(every, replace(samples, tau=None))
    np.testing.assert_array_equal(alone.tau, link) and alone.tau_l is None


# --- estimators of two recordings by numpy


def two_recordings(outliers=0):
    parts, rng = [], np.random.default_rng(9)
    for seed, count in ((0, 600), (1, 330)):
        t, q, dq, ddq, tau = measured(count, 0.3 + 1.5 * seed, seed)  # the second one is far noisier
        hit = rng.choice(count, outliers, replace=False)
        tau[hit] += 40.0 * rng.choice([-1.0, 1.0], (outliers, 3))
        parts.append(as_prepared(ROBOT, q, dq, ddq, tau, t))
    information = build_information(ROBOT, BASE, parts, delay=False)
    return Problem(ROBOT, BASE, tuple(parts), information, np.zeros(len(BASE))), parts


def stacked(parts, blocks=None):
    """Return W (rows, n, b) and tau of the rows of these blocks: 30 of 20 rows, then 30 of 11."""
    number = np.concatenate((np.arange(600) // 20, 30 + np.arange(330) // 11))
    rows = np.ones(930, dtype=bool) if blocks is None else np.isin(number, blocks)
    W = np.concatenate([regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, BASE.columns(ROBOT)] for p in parts])
    return W[rows], np.concatenate([p.tau for p in parts])[rows]


def solved(W, tau, weight):
    """Return the least-squares solution of rows times weight (rows, n)."""
    return np.linalg.lstsq((weight[:, :, None] * W).reshape(-1, W.shape[2]), (weight * tau).ravel(), rcond=None)[0]


@pytest.mark.parametrize("blocks", [None, [*range(3, 28), *range(33, 55)]])
def test_ordinary_and_weighted_least_squares_of_two_recordings(blocks):
    problem, parts = two_recordings()
    W, tau = stacked(parts, blocks)
    plain = build_estimator(Method.OLS, problem)(blocks)
    np.testing.assert_allclose(plain.value, solved(W, tau, np.ones_like(tau)), rtol=1e-6, atol=1e-7)
    found = build_estimator(Method.WLS, problem)(blocks)
    np.testing.assert_allclose(found.value, solved(W, tau, np.ones_like(tau) / found.sigma), rtol=1e-6, atol=1e-7)
    for estimate, weight in ((plain, np.ones(3)), (found, 1.0 / found.sigma)):
        left = tau - W @ estimate.value
        A = np.einsum("mnb,n,mnc->bc", W, weight**2, W)
        used = [np.trace(np.linalg.solve(A, weight[j] ** 2 * W[:, j].T @ W[:, j])) for j in range(3)]
        sigma = np.sqrt(np.sum(left**2, axis=0) / (len(tau) - np.array(used)))
        np.testing.assert_allclose(estimate.sigma, sigma, rtol=1e-5)


def test_joint_by_joint_from_the_last_one():
    problem, parts = two_recordings()
    W, tau = stacked(parts)
    found = build_estimator(Method.RECURSIVE, problem)(None)
    felt = [np.abs(W[:, j]).max(axis=0) > 1e-9 for j in range(3)]
    value, known = np.zeros(len(BASE)), np.zeros(len(BASE), dtype=bool)
    for j in (2, 1, 0):
        new = felt[j] & ~known
        value[new] = np.linalg.lstsq(W[:, j][:, new], tau[:, j] - W[:, j][:, known] @ value[known], rcond=None)[0]
        known |= new
    np.testing.assert_allclose(found.value, value, rtol=1e-6, atol=1e-7)
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    z = (found.value - truth) / found.std
    assert 0.4 < np.sqrt(np.mean(z**2)) < 1.8 and found.rank == len(BASE)


def small_information(seed=0, blocks=8, rows=12, noise=1.0):
    """Return two joints with base columns 0 to 4 and a delay, which both feel; nothing moves column 4."""
    rng = np.random.default_rng(seed)
    columns = (np.array([0, 1, 2, 4, 5]), np.array([2, 3, 5]))
    truth = np.array([1.0, -2.0, 0.5, 3.0, 9.0, 0.1])
    made = []
    for k in range(blocks):
        R = []
        for own, size, like in zip(columns, (0.3, 0.05), (0.9, 3.0), strict=True):
            W = rng.normal(size=(rows, len(own))) * np.where(own == 4, 0.0, 1.0)
            W[:, 0] += like * W[:, 1]
            R.append(np.column_stack((W, W @ truth[own] + noise * size * rng.normal(size=rows))))
        made.append(Block(tuple(R), np.array([rows, rows]), float(k), k + 1.0, k // 5))
    return Information(tuple(made), columns, ColumnLayout(5, 1))


def test_joint_by_joint_with_a_delay_and_a_column_that_does_not_show():
    """The delay is that of all joints; each group of parameters is fitted to the rows of one joint alone."""
    information = small_information()
    prior = np.array([0.0, 0.0, 0.0, 0.0, 7.0, 0.0])
    whole, found = wls(information, prior), recursive(information, prior)
    stacks = [np.vstack([block.R[j] for block in information.blocks]) for j in (0, 1)]
    value = np.zeros(6)
    value[4], value[5] = 7.0, whole.value[5]
    last, first = stacks[1], stacks[0]
    value[2:4] = np.linalg.lstsq(last[:, :2], last[:, 3] - last[:, 2] * value[5], rcond=None)[0]
    known = first[:, 5] - first[:, 2] * value[2] - first[:, 4] * value[5]
    value[:2] = np.linalg.lstsq(first[:, :2], known, rcond=None)[0]
    np.testing.assert_allclose(found.value, value, rtol=1e-9)
    assert found.identified.tolist() == [True, True, True, True, False, True] and found.rank == 5
    conds = []
    for A in (last[:, :2], np.column_stack((first[:, :2], np.zeros(len(first))))):
        s = np.linalg.svd(A / np.maximum(np.linalg.norm(A, axis=0), 1e-300), compute_uv=False)
        conds.append(s[0] / s[1])
    assert found.cond == pytest.approx(max(conds)) and conds[0] > 1.2 * conds[1], "the last joint's is the largest"
    A, g = np.zeros((8, 6, 6)), np.zeros((8, 6))
    for k, block in enumerate(information.blocks):
        for R, own, group in zip(block.R, information.columns, ([0, 1], [2, 3]), strict=True):
            left = R[:, -1] - R[:, :-1] @ value[own]
            for c in group:
                x = R[:, list(own).index(c)]
                A[k, c, own] = x @ R[:, :-1]
                g[k, c] = x @ left
    numbers = np.array([float(block.recording) for block in information.blocks])
    solved = np.array([True, True, True, True, False, False])
    covariance, dof = jackknife(Moments(A, g, numbers), solved, half=True)
    covariance[5, 5] = whole.covariance[5, 5]
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-15)
    assert found.dof == pytest.approx(dof) and found.delay_std == pytest.approx(whole.delay_std)
    np.testing.assert_allclose(found.sigma, error_levels(information, value, 1.0 / whole.sigma), rtol=1e-9)


def test_a_joint_that_feels_nothing_new_has_no_say_joint_by_joint():
    """The first and the second joint feel what the last one has told already, and the first one thing more."""
    rng = np.random.default_rng(4)
    columns = (np.array([0, 1, 2]), np.array([1, 2]), np.array([1, 2]))
    truth = np.array([2.0, -1.0, 0.5])

    def block(k, off):
        R = []
        for j, own in enumerate(columns):
            W = rng.normal(size=(9, len(own)))
            R.append(np.column_stack((W, W @ truth[own] + 0.1 * rng.normal(size=9) + off[j])))
        return Block(tuple(R), np.array([9, 9, 9]), float(k), k + 1.0)

    blocks = tuple(block(k, (0.0, 5.0, 0.0)) for k in range(8))  # the second joint's efforts are not to be trusted
    found = recursive(Information(blocks, columns, ColumnLayout(3)))
    first, last = (np.vstack([b.R[j] for b in blocks]) for j in (0, 2))
    value = np.empty(3)
    value[1:] = np.linalg.lstsq(last[:, :-1], last[:, -1], rcond=None)[0]
    value[0] = first[:, 0] @ (first[:, -1] - first[:, 1:3] @ value[1:]) / (first[:, 0] @ first[:, 0])
    np.testing.assert_allclose(found.value, value, rtol=1e-9)
    assert found.rank == 3 and found.identified.all() and np.all(found.std < 0.1)


def robust(information, prior=None):
    return irls(information, information, np.ones(2), prior)


def total(information, prior=None):
    rng = np.random.default_rng(0)

    def noise(R, columns):
        return 0.3 * rng.normal(size=R.shape) * np.append(columns != 4, False)

    return tls(information, each_triangle(information, noise, information.columns, information.layout), prior)


@pytest.mark.parametrize("method", [ols, wls, sequential.sequential, recursive, output_error, robust, total])
def test_what_does_not_show_has_the_value_of_the_prior_that_was_given_last(method):
    information = small_information(1)
    for open_value in (7.0, -3.0):
        prior = np.array([0.0, 0.0, 0.0, 0.0, open_value, 0.0])
        found = method(information, prior)
        assert prior.tolist() == [0.0, 0.0, 0.0, 0.0, open_value, 0.0], "it is left as it was"
        assert found.value[4] == pytest.approx(open_value) and not found.identified[4] and np.isinf(found.std[4])
        assert not found.covariance[4].any() and not found.covariance[:, 4].any()
    assert method(information).value[4] == 0.0


def test_weights_are_iterated_as_often_as_is_asked_for():
    information = small_information(2)
    once, often = wls(information, iterations=0), wls(information)
    assert not np.allclose(once.value, often.value, rtol=1e-6)
    start = 1.0 / own_errors(information)
    np.testing.assert_allclose(once.value, solve(weighted_triangle(information, start).R).value, rtol=1e-9)
    end = 1.0 / often.sigma
    np.testing.assert_allclose(often.value, solve(weighted_triangle(information, end).R).value, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loud", [0.001, 5.0])
def test_a_joint_whose_fit_leaves_a_tenth_of_its_rows_or_less_has_the_median_error_of_the_others(loud):
    """Joints with ten columns of their own: 11 rows leave too little over, 12 do not. As a share of their torques."""
    rng = np.random.default_rng(0)
    counts, noise = (60, 40, 12, 30, 11), (0.3, 0.1, 0.2, 0.6, loud)
    rows, columns = [], []
    for j, (count, size) in enumerate(zip(counts, noise, strict=True)):
        W = rng.normal(size=(count, 10)) * (j + 1.0)
        rows.append(np.column_stack((W, W @ rng.normal(size=10) + size * rng.normal(size=count))))
        columns.append(np.arange(10 * j, 10 * j + 10))
    block = Block(tuple(rows), np.array(counts), 0.0, 1.0)
    information = Information((block,), tuple(columns), ColumnLayout(50))
    weights = np.array([3.0, 0.5, 1.0, 2.0, 9.0])
    value, level, torque = np.empty(50), np.empty(5), np.empty(5)
    for j, own in enumerate(columns):
        A, y = rows[j][:, :-1], rows[j][:, -1]
        value[own] = np.linalg.lstsq(A, y, rcond=None)[0]
        level[j] = np.linalg.norm(y - A @ value[own]) / np.sqrt(counts[j] - 10)
        torque[j] = np.sqrt(np.mean(y**2))
    np.testing.assert_allclose(own_errors(information), level, rtol=1e-9)
    common = np.median(level[:4] / torque[:4])
    wanted = [*level[:4], max(level[4], common * torque[4])]
    assert (wanted[4] == level[4]) == (loud == 5.0)
    np.testing.assert_allclose(error_levels(information, value, weights), wanted, rtol=1e-9)
    few = information.of_joints([4])
    np.testing.assert_allclose(error_levels(few, value, weights[4:]), level[4:], rtol=1e-9), "no others"


def test_exact_rows_still_have_an_error():
    """Of 1e-12 of the torque, so that weights are finite."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(40, 3))
    rows = np.column_stack((W, W @ [1.0, 2.0, 3.0]))
    information = Information((Block((rows,), np.array([40]), 0.0, 1.0),), (np.arange(3),), ColumnLayout(3))
    size = np.sqrt(np.mean(rows[:, -1] ** 2))
    assert own_errors(information) == pytest.approx(1e-12 * size, rel=1e-6, abs=0.0)
    silent = Information((Block((0.0 * rows,), np.array([40]), 0.0, 1.0),), (np.arange(3),), ColumnLayout(3))
    assert own_errors(silent)[0] == 1e-300


def test_bars_of_total_least_squares_are_those_of_its_own_equations_by_time_and_by_phase():
    rng = np.random.default_rng(5)
    information = small_information(3, blocks=10)
    rows = [np.vstack([block.R[j] for block in information.blocks]) for j in (0, 1)]
    for R in rows:  # errors that come again with every period
        R[:, -1] += np.tile(rng.normal(size=12), 10) * R[:, 1]
    phases = tuple(Block(tuple(R[k::12] for R in rows), np.array([10, 10]), float(k), k + 1.0) for k in range(12))
    information = replace(information, phases=phases)

    def more(R, own):
        return 0.5 * rng.normal(size=R.shape) * np.append(own != 4, False)

    noise = Information(
        tuple(replace(block, R=tuple(map(more, block.R, information.columns))) for block in information.blocks),
        information.columns,
        information.layout,
    )
    prior = np.array([0.0, 0.0, 0.0, 0.0, 7.0, 0.0])
    plain = wls(information, prior)
    weights = 1.0 / plain.sigma
    seen = [0, 1, 2, 3, 5]
    R = weighted_triangle(information, weights).R[:, [*seen, 6]]
    D = weighted_triangle(noise, weights).W[:, seen]
    S, D = R.T @ R, D.T @ D
    C = np.zeros_like(S)
    C[:-1, :-1], C[-1, -1] = D, 240.0
    least = 1.0 / eigh(C, S, eigvals_only=True)[-1]
    five = restrict(information, seen, ColumnLayout(4, 1))
    found = tls(five, restrict(noise, seen, ColumnLayout(4, 1)))
    value = np.linalg.solve(S[:-1, :-1] - least * D, S[:-1, -1])
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    assert np.abs(value - plain.value[seen]).max() > 1e-3, "noise in W matters here"
    moments = block_moments(five, value, weights)
    less = [Moments(part.A - least * D / len(part.g), part.g + least * D @ value / len(part.g), part.recording)
            for part in (moments, moments.phases)]  # fmt: skip
    covariance, dof = jackknife(replace(less[0], phases=less[1]))
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-5)
    assert found.dof == pytest.approx(dof)
    np.testing.assert_allclose(found.sigma, error_levels(five, value, weights), rtol=1e-9)
    assert not np.allclose(found.sigma, wls(five).sigma, rtol=1e-6)
    assert not np.allclose(covariance, jackknife(less[0])[0], rtol=0.1), "the period tells more"


def test_total_least_squares_is_that_of_what_the_data_determine():
    """Columns that are the same, and one that does not move, stay as ordinary least squares leaves them."""
    information = small_information(6)
    same = each_triangle(
        information,
        lambda R, columns: R[:, [0, 0, *range(2, R.shape[1])]] if 1 in columns else R,
        information.columns,
        information.layout,
    )
    prior = np.array([0.5, -0.5, 0.0, 0.0, 7.0, 0.0])
    plain, found = wls(same, prior), total(same, prior)
    assert plain.identified.tolist() == found.identified.tolist() == [False, False, True, True, False, True]
    open_ = ~found.identified
    np.testing.assert_array_equal(found.value[open_], plain.value[open_])
    held = each_triangle(
        same,
        lambda R, columns: np.column_stack((R[:, :-1], R[:, -1] - R[:, :-1] @ (open_ * plain.value)[columns])),
        same.columns,
        same.layout,
    )
    alone = restrict(held, [2, 3, 5], ColumnLayout(2, 1))
    rng = np.random.default_rng(0)
    noise = each_triangle(
        same, lambda R, c: 0.3 * rng.normal(size=R.shape) * np.append(c != 4, False), same.columns, same.layout
    )
    weights = 1.0 / plain.sigma
    R, D = weighted_triangle(alone, weights).R, weighted_triangle(noise, weights).W[:, [2, 3, 5]]
    S, C = R.T @ R, np.zeros((4, 4))
    C[:3, :3], C[3, 3] = D.T @ D, same.rows.sum()
    least = 1.0 / eigh(C, S, eigvals_only=True)[-1]
    value = np.linalg.solve(S[:3, :3] - least * D.T @ D, S[:3, 3])
    np.testing.assert_allclose(found.value[~open_], value, rtol=1e-6)
    assert not np.allclose(value, plain.value[~open_], rtol=1e-6)
    assert not found.covariance[open_].any() and np.all(np.diag(found.covariance)[~open_] > 0.0)


def test_noise_is_added_through_the_filters_of_the_positions():
    p = filtered_recording(20.0)
    with pytest.raises(InputError, match="positions as recorded"):
        disturbed(p, 0)
    p = replace(p, filter=replace(p.filter, position_cutoff=10.0), position_noise=np.array([1e-3, 0.0, 2e-3]))
    one, same, two = disturbed(p, 1), disturbed(p, 1), disturbed(p, 2)
    np.testing.assert_array_equal(one.q, same.q)
    assert not np.array_equal(one.q, two.q) and np.array_equal(one.q[:, 1], p.q[:, 1])
    kernels = [lowpass_kernel(10.0, 100.0, k) for k in range(3)]
    for k, field in enumerate(("q", "dq", "ddq")):
        more = getattr(one, field) - getattr(p, field)
        size = np.array([1e-3, 0.0, 2e-3]) * np.linalg.norm(kernels[k])
        np.testing.assert_allclose(more.std(axis=0), size, rtol=0.15)
    fast = disturbed(replace(p, filter=replace(p.filter, rate=300.0)), 1)
    noise = p.position_noise * np.random.default_rng(1).standard_normal((8000, 3))
    for k, field in enumerate(("q", "dq", "ddq")):
        kernel = lowpass_kernel(10.0, 300.0, k)[::-1]
        for i in (0, 1, 17, len(p.t) - 1):  # of the recording's own rate, as often as positions are kept
            wanted = kernel @ noise[3 * i : 3 * i + len(kernel)]
            np.testing.assert_allclose((getattr(fast, field) - getattr(p, field))[i], wanted, atol=1e-9)


# --- estimates regularize towards a prior


def drawn_problem(repeats):
    """Return rows of few blocks, in which a prior near the truth helps, its estimate and the prior."""
    information = small_information(6, blocks=10, rows=1, noise=10.0)
    information = restrict(information, [0, 1, 2, 3, 5], ColumnLayout(4, 1))
    if repeats:
        rows = [np.vstack([block.R[j] for block in information.blocks]) for j in (0, 1)]
        parts = [tuple(R[k::6] for R in rows) for k in range(6)]
        phases = tuple(Block(R, np.array([len(R[0])] * 2), float(k), k + 1.0) for k, R in enumerate(parts))
        information = replace(information, phases=phases)
    prior = Prior(np.array([1.0, -2.0, 0.5, 3.0, 0.1]) + 0.01, np.diag([900.0, 400.0, 2000.0, 900.0, 1e4]), "near")
    return information, wls(information), prior


def test_a_prior_is_weighed_by_phase_where_a_motion_repeats():
    """Blocks of time would hold what is left out."""
    information, found, prior = drawn_problem(True)
    told = select_prior_weight(information, found, prior, force=True)
    by_phase = select_prior_weight(different_motion(information), found, prior, force=True)
    by_time = select_prior_weight(replace(information, phases=()), found, prior, force=True)
    assert (told.weight, told.gain) == (by_phase.weight, by_phase.gain)
    assert abs(told.gain - by_time.gain) > 1e-6


@pytest.mark.parametrize("force", [False, True])
def test_a_drawn_fit_weighs_within_the_blocks_that_it_is_given(force):
    information, _, prior = drawn_problem(False)
    asked = []

    def fit(chosen):
        asked.append(chosen)
        return wls(information if chosen is None else information.take(chosen))

    def serve(part, one, told):
        return one.value

    for chosen in (None, [0, 1, 2, 3, 5, 6, 8, 9]):
        for served in (None, serve):
            found = build_prior_fit(information, fit, prior, force=force, served=served)(chosen)
            part = information if chosen is None else information.take(chosen)
            told = select_prior_weight(part, wls(part), prior, force=force, served=served)
            wanted = regularize(part, wls(part), prior, told)
            assert asked[-1] == chosen and found.prior is prior
            assert (found.weight.weight, found.weight.consistent) == (told.weight, told.consistent)
            assert told.weight > 0.0 and told.consistent == (served is not None), "it helps here"
            np.testing.assert_array_equal(found.estimate.value, wanted.estimate.value)
            np.testing.assert_array_equal(found.share, wanted.share)
    far = Prior(-9.0 * prior.mean, prior.information, "far")
    assert (build_prior_fit(information, fit, far, force=force)(None).weight.weight > 0.0) == force


def test_an_estimate_of_any_method_is_drawn_from_its_own_values():
    """|W (x - value)|^2 + weight (x - mean)^T L (x - mean); what only the prior knows is known then."""
    information = small_information(5)
    found = wls(information, np.array([0.0, 0.0, 0.0, 0.0, 2.0, 0.0]))
    found = replace(found, value=1.3 * found.value + 0.1)
    prior = Prior(np.array([1.0, -2.0, 0.5, 3.0, 9.0, 0.1]), np.diag([40.0, 90.0, 20.0, 70.0, 4.0, 10.0]), "x")
    told = regularize(information, found, prior, PriorWeight(3.0, 0.1, 0.01))
    W = weighted_triangle(information, 1.0 / found.sigma).W
    A, L = W.T @ W, 3.0 * prior.information
    wanted = np.linalg.solve(A + L, A @ found.value + L @ prior.mean)
    np.testing.assert_allclose(told.estimate.value, wanted, rtol=1e-8)
    assert not found.identified[4] and told.estimate.identified.all() and told.share[4] == pytest.approx(1.0)


def test_the_share_of_base_parameters_is_not_that_of_the_delay():
    information, found, prior = drawn_problem(False)
    told = regularize(information, found, prior, PriorWeight(1.0, 0.1, 0.01))
    assert told.base_share == pytest.approx(told.share[:4].mean()) and abs(told.share[4] - told.base_share) > 1e-3
