# SPDX-License-Identifier: Apache-2.0

"""From rows to estimators: parts of recordings, several of them, and what each method takes from which."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators import simulated_loop
from ros2_dynid.identification.estimators.energy_rows import energy_rows
from ros2_dynid.identification.estimators.estimator import build_estimator, identify_arrays
from ros2_dynid.identification.estimators.instrumental import in_band, instrument_motion, moments_with, motion_band
from ros2_dynid.identification.estimators.joint_by_joint import recursive
from ros2_dynid.identification.estimators.sequential import sequential, start_filter, update_filter
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import row_count
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import block_moments, jackknife
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, each_triangle, gather
from ros2_dynid.identification.regression.least_squares import error_levels, own_errors, solve, wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 2)
COLUMNS = BASE.columns(ROBOT)


@cache
def recorded(seed=0, seconds=6.0, noise=1e-4, reference=True, late=0.0):
    """Return a prepared recording at 20 and 4 Hz."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 0.005)
    amplitude, phase = rng.uniform(0.1, 0.4, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.15, 0.3, 0.5, 0.7, 0.9])

    def at(time):
        angle = np.multiply.outer(time, w)[:, None] + phase
        return [np.sum(amplitude * w**k * np.sin(angle + k * np.pi / 2), axis=2) for k in range(3)]

    tau = inverse_dynamics(ROBOT, CHI, *at(t - late))
    tau = tau + 0.02 * tau.std(axis=0) * rng.normal(size=tau.shape)
    q = at(t)[0]
    samples = Samples(t, ROBOT.active_names, q + noise * rng.normal(size=q.shape), tau=tau,
                      q_r=q if reference else None, source=f"run{seed}")  # fmt: skip
    return prepare(ROBOT, samples, PreparationOptions(position_cutoff=20.0, row_cutoff=4.0))


def problem_of(*prepared, delay=False, **more):
    information = build_information(ROBOT, BASE, prepared, delay=delay)
    return Problem(ROBOT, BASE, tuple(prepared), information, np.zeros(information.size), **more)


def exact(count, seed=0, rate=1.0):
    """Return motion as it is, every sample a row."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-1.5, 1.5, (3, count, 3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq) + 0.1 * rng.normal(size=q.shape)
    return as_prepared(ROBOT, q, dq, ddq, tau, np.arange(count) / rate)


# --- several recordings


def repeating(seconds=9.0, seed=0, period=3.0):
    t = np.arange(0.0, seconds, 0.02)
    w = 2.0 * np.pi / period * np.array([1.0, 2.0, 3.0])
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0.0, 6.0, 3)
    q, dq, ddq = (w**k * np.sin(np.outer(t, w) + phase + k * np.pi / 2) for k in range(3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    return as_prepared(ROBOT, q, dq, ddq, tau + 0.3 * rng.normal(size=tau.shape), t)


def test_rows_gathered_again_are_in_the_same_blocks_and_phases():
    problem = problem_of(repeating(), exact(90, 1, 50.0))
    again, done = problem.gather_rows(problem.rows), []
    for name in ("blocks", "phases"):
        ours, theirs = getattr(problem.information, name), getattr(again, name)
        assert len(ours) == len(theirs) > 30
        for a, b in zip(ours, theirs, strict=True):
            assert (a.start, a.end, a.recording, a.rows.tolist()) == (b.start, b.end, b.recording, b.rows.tolist())
            np.testing.assert_allclose(a.R[1].T @ a.R[1], b.R[1].T @ b.R[1], atol=1e-9)
    half = problem.gather_rows(problem.rows, weight=lambda rows: np.full(rows.tau.shape, 0.5), on_chunk=done.append)
    np.testing.assert_allclose(half.phases[3].R[2].T @ half.phases[3].R[2],
                               0.25 * again.phases[3].R[2].T @ again.phases[3].R[2], atol=1e-9)  # fmt: skip
    assert done and done[-1] == pytest.approx(1.0)


def test_motion_that_repeats_is_left_out_by_phase():
    problem = problem_of(repeating())
    tested = problem.with_different_blocks()
    assert tested.information.blocks == problem.information.phases and tested.prepared == problem.prepared


def test_progress_is_that_of_all_recordings():
    done = []
    build_information(ROBOT, BASE, [exact(500), exact(90, 1)], done.append, delay=False)
    assert done == pytest.approx([0.4, 0.5, 1.0]), "chunks of 400 rows"


@pytest.mark.parametrize("bars", [True, False])
def test_error_bars_are_left_out_where_nobody_asks_for_them(bars):
    found = build_estimator(Method.WLS, problem_of(exact(90)), error_bars=bars)(None)
    assert np.isfinite(found.covariance).all() == np.isfinite(found.dof) == bars


def test_a_plain_problem_has_one_sensor():
    terms = (FrictionTerm(2, FrictionKind.CUBIC),)
    prepared = (exact(90),)
    information = build_information(ROBOT, BASE, prepared, delay=False, terms=terms)
    problem = Problem(ROBOT, BASE, prepared, information, np.zeros(information.size), terms, second="both")
    assert problem.plain().second is None
    assert replace(problem, terms=()).plain().second == "both", "nothing is left out there"


def test_noise_that_instruments_share_is_looked_for_in_every_recording():
    quiet = recorded(0, reference=False)
    loud = replace(quiet.spectrum, floor=np.full(3, 1.0))
    spoilt = replace(quiet, spectrum=loud, source="loud")
    build_estimator(Method.IV, problem_of(quiet))
    for method in (Method.IV, Method.IDIM_IV):
        with pytest.raises(InputError, match=r"loud: joint .*instruments made from the positions have it too"):
            build_estimator(method, problem_of(quiet, spoilt))


@pytest.mark.parametrize("method", [Method.IRLS, Method.TLS, Method.ENERGY])
def test_methods_that_go_through_the_rows_again_tell_how_far_they_are_and_can_be_stopped(method):
    problem, done = problem_of(recorded(0), recorded(1)), []
    build_estimator(method, problem, done.append)(None)
    assert len(done) >= 2 and done[-1] == pytest.approx(1.0) and min(done) > 0.0

    def stop(fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_estimator(method, problem, stop)(None)


# --- the power balance


def test_the_power_balance_is_ordinary_least_squares_with_bars_of_half_the_correction():
    prepared = (recorded(0), recorded(1, 4.5))
    problem = problem_of(*prepared, delay=True)
    done = []
    fit = build_estimator(Method.ENERGY, problem, done.append)
    assert done and done[-1] == pytest.approx(1.0)
    some = list(range(5, len(problem.information.blocks) - 4))
    felt = np.ones((1, problem.information.size), dtype=bool)
    powers = [
        gather(energy_rows(ROBOT, p, COLUMNS, delay=True), felt, row_count(p), problem.information.layout)
        for p in prepared
    ]
    for chosen in (None, some):
        found = fit(chosen)
        blocks = [block.R[0] for part in powers for block in part.blocks]
        A = np.vstack([blocks[k] for k in (range(len(blocks)) if chosen is None else chosen)])
        size = np.linalg.norm(A[:, :-1], axis=0)
        value = np.linalg.lstsq(A[:, :-1] / size, A[:, -1], rcond=None)[0] / size
        np.testing.assert_allclose(found.value, value, rtol=1e-4, atol=1e-5 * np.abs(value).max())
        assert found.method is Method.ENERGY and found.sigma.shape == (3,)
        information = problem.information if chosen is None else problem.information.take(chosen)
        np.testing.assert_allclose(found.sigma, error_levels(information, found.value, np.ones(3)), rtol=1e-9)
    one = powers[0]
    alone = build_estimator(Method.ENERGY, problem_of(prepared[0], delay=True))(None)
    moments = block_moments(one, alone.value, np.ones(1))
    half, dof = jackknife(moments, alone.identified, half=True)
    np.testing.assert_allclose(alone.covariance, half, rtol=1e-5)
    assert alone.dof == pytest.approx(dof)
    with pytest.raises(InputError, match="rows for"):
        fit([0])


def test_what_power_does_not_show_stays_with_the_prior():
    p = recorded(0)
    still = replace(p, q=p.q * [1, 1, 0], dq=p.dq * [1, 1, 0], ddq=p.ddq * [1, 1, 0], sign=p.sign * [1, 1, 0])
    problem = replace(problem_of(p), prepared=(still,))
    prior = np.arange(1.0, len(BASE) + 1.0)
    found = build_estimator(Method.ENERGY, replace(problem, prior=prior))(None)
    k = BASE.leaders.index("Fv3")
    assert not found.identified[k] and found.value[k] == prior[k]


# --- the recording once more, simulated


def test_samples_that_were_filtered_by_others_are_not_simulated():
    p = recorded(0)
    for bad in (
        replace(p, spectrum=None), replace(p, kernel=None), replace(p, filter=replace(p.filter, row_cutoff=None)),
    ):  # fmt: skip
        with pytest.raises(InputError, match="needs positions as recorded"):
            simulated_loop.simulated(ROBOT, CHI, bad, None)


def test_instruments_of_a_simulation_are_its_motion_at_the_recorded_times():
    p = recorded(0)
    N, m = len(p.t), 3
    p = replace(p, segments=(slice(0, 150), slice(160, N)), temperature=p.tau + 5.0)
    p = replace(p, bridged=np.where(np.isin(np.arange(N), [3, 155, 170]), 0.5, 0.0))
    rng = np.random.default_rng(0)
    sizes = [m * 149 + 1, m * (N - 161) + 1]
    q, tau, gear_torque = np.cumsum(rng.normal(size=(3, sum(sizes), 3)), axis=1) * 0.01
    t = np.concatenate([np.linspace(p.t[s.start], p.t[s.stop - 1], size)
                        for s, size in zip(p.segments, sizes, strict=True)])  # fmt: skip
    parts = (slice(0, sizes[0]), slice(sizes[0], sum(sizes)))
    motion = replace(p, t=t, q=q, tau=tau, gear_torque=gear_torque, segments=parts, step=m * p.step,
                     bridged=np.ones(sum(sizes)))  # fmt: skip
    found = simulated_loop.simulated_instruments(ROBOT, p, motion)
    at = np.concatenate((np.arange(0, sizes[0], m), np.arange(sizes[0], sum(sizes), m)))
    own = np.concatenate((np.arange(150), np.arange(160, N)))
    assert found.segments == (slice(0, 150), slice(150, N - 10)) and found.step == p.step
    np.testing.assert_allclose(found.t, p.t[own])
    np.testing.assert_array_equal(found.bridged, p.bridged[own])
    np.testing.assert_array_equal(found.temperature, p.temperature[own])
    band = motion_band(p)
    for part in found.segments:
        for field, source in (("q", q), ("tau", tau), ("gear_torque", gear_torque)):
            slow = in_band(source[at][part], band, p.filter.inner_rate)
            np.testing.assert_allclose(getattr(found, field)[part], slow, atol=1e-9)
    assert simulated_loop.simulated_instruments(ROBOT, replace(p, temperature=None), motion).temperature is None


# --- what each estimator takes from a problem


@pytest.mark.parametrize("method", [Method.OLS, Method.WLS, Method.RECURSIVE, Method.SEQUENTIAL])
def test_what_no_row_shows_stays_with_the_prior(method):
    """A column of zeros: its value is that of the problem, and it is not identified."""
    problem, k = problem_of(exact(200)), 4
    blind = each_triangle(
        problem.information,
        lambda R, columns: R * np.append(columns != k, True),
        problem.information.columns,
        problem.information.layout,
    )
    blind_problem = replace(problem, information=blind, prior=np.full(len(BASE), 7.5))
    for error_bars in (True, False):
        fit = build_estimator(method, blind_problem, error_bars=error_bars)
        for blocks in (None, list(range(25))):
            estimate = fit(blocks)
            assert estimate.value[k] == pytest.approx(7.5) and not estimate.identified[k]
            assert estimate.identified.sum() == len(BASE) - 1


def test_instruments_of_several_recordings_are_moments_of_each_in_its_own_blocks():
    """Against sums over rows; a motion that repeats also by phase, another one by time in the same place."""
    rng = np.random.default_rng(0)
    parts = (recorded(0), recorded(1, 4.0))
    problem = problem_of(*parts)
    motions = [instrument_motion(ROBOT, prepared) for prepared in parts]
    found = moments_with(problem, lambda number: problem.rows_of(motions[number]))
    assert found.phases is None and len(found.A) == len(problem.information.blocks)
    at = 0
    for k in (0, 1):
        blocks = [block for block in problem.information.blocks if block.recording == k]
        ours, theirs = list(problem.rows(k)), list(problem.rows_of(motions[k]))
        t = np.concatenate([rows.t for rows in ours])
        W, Z = (np.concatenate([rows.W for rows in some], axis=2) for some in (ours, theirs))
        tau = np.concatenate([rows.tau for rows in ours], axis=1)
        keep = np.concatenate([a.keep & b.keep for a, b in zip(ours, theirs, strict=True)], axis=1)
        for i in (0, 11, len(blocks) - 1):
            for j in range(3):
                inside = (t >= blocks[i].start) & (t <= blocks[i].end) & keep[j]
                A = Z[:, j, inside] @ W[:, j, inside].T
                np.testing.assert_allclose(found.A[at + i, j], A, atol=1e-9 * max(np.abs(A).max(), 1.0))
                np.testing.assert_allclose(found.y[at + i, j], Z[:, j, inside] @ tau[j, inside], atol=1e-8)
        at += len(blocks)
    both = problem_of(exact(90, 1, 50.0), repeating())
    noisy = moments_with(
        both, lambda number: (replace(r, W=r.W + rng.normal(size=r.W.shape)) for r in both.rows(number))
    )
    assert len(noisy.phases.A) == len([b for b in both.information.blocks if b.recording == 0]) + 30
    np.testing.assert_allclose(noisy.phases.y.sum(axis=0), noisy.y.sum(axis=0))


def test_filter_row_by_row():
    rng = np.random.default_rng(0)
    W, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    R = np.zeros((0, 5))
    for row in np.column_stack((W, y)):
        R = update_filter(R, row[None])
    assert np.allclose(solve(R).value, np.linalg.lstsq(W, y, rcond=None)[0])


def motion(count=600, seed=0, rate=100.0):
    """Return t and a smooth motion of all joints."""
    return np.arange(count) / rate, *slow_motion(seed, count, rate, (0.5, 8.0), 4)


def measured(count=600, noise=0.05, seed=0):
    t, q, dq, ddq = motion(count, seed)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    return t, q, dq, ddq, tau + noise * np.array([1.0, 3.0, 0.4]) * np.random.default_rng(seed).normal(size=q.shape)


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


def test_the_filter_is_batch_least_squares_with_a_prior():
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    std, mean = np.array([0.5, 2.0, 1.0]), np.array([1.0, -1.0, 3.0])
    state = start_filter(mean, std)
    for first in range(0, 50, 7):
        state = update_filter(state, np.column_stack((A, y))[first : first + 7])
    wanted = np.linalg.solve(A.T @ A + np.diag(std**-2), A.T @ y + mean / std**2)
    np.testing.assert_allclose(solve(state).value, wanted)
    for bad, words in (
        (np.zeros((2, 3)), "give 4 columns"), (np.zeros(4), "give 4 columns"),
        (np.full((1, 4), np.nan), "not finite"), (np.full((1, 4), np.inf), "not finite"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            update_filter(state, bad)
    for args in ((mean[:2], std), (mean, std[:2]), (mean, 0.0 * std), (mean, -std)):
        with pytest.raises(InputError, match="positive standard deviations"):
            start_filter(*args)


def test_blocks_in_their_order_are_the_weighted_fit():
    _, q, dq, ddq, tau = measured(600)
    information = build_information(ROBOT, BASE, [as_prepared(ROBOT, q, dq, ddq, tau)], delay=False)
    found = sequential(information)
    sigma = own_errors(information)
    W = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)] / sigma[:, None]
    wanted = np.linalg.lstsq(W.reshape(-1, len(BASE)), (tau / sigma).ravel(), rcond=None)[0]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6, atol=1e-7)


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
