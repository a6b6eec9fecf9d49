# SPDX-License-Identifier: Apache-2.0

"""The cut-off of the rows: compared on stretches left out, with its evidence, at either side of every threshold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.decisions.lower_row_cutoff import (
    held_out_squares,
    refilter_rows,
    select_row_cutoff,
)
from ros2_dynid.identification.preparation.cutoffs import CutoffThresholds
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import own_errors, solve, weighted_triangle
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
RATE = 100.0


def build(prepared):
    return build_information(ROBOT, BASE, prepared, delay=False)


def filtered(tau, motion, row):
    """Return a recording with the second filter at `row` [Hz]."""
    prepared = as_prepared(ROBOT, *motion, tau, np.arange(len(tau)) / RATE)
    kernels = [lowpass_kernel(row, RATE, k) for k in (0, 1)]
    return replace(
        prepared, kernel=kernels[0], slope_kernel=kernels[1], filter=replace(prepared.filter, row_cutoff=row)
    )


@cache
def recording(seconds=30.0, noise=0.05, row=40.0, seed=0):
    """Return motion whose accelerations are noisy above 25 Hz, as where stamps are off."""
    count = int(seconds * RATE)
    q, dq, ddq = slow_motion(seed, count, RATE, (0.5, 8.0), 4)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    rng = np.random.default_rng(seed)
    shake = np.sin(2.0 * np.pi * rng.uniform(25.0, 35.0, 3) * np.arange(count)[:, None] / RATE)
    wild = ddq + 1000.0 * noise * shake
    return filtered(tau + 0.05 * rng.normal(size=tau.shape), (q, dq, wild), row)


def fit(information):
    return solve(weighted_triangle(information, 1.0 / own_errors(information)).R).value


def test_rows_are_filtered_again_at_another_cutoff():
    """As if the recording had been prepared with it: both low-passes, at a lower inner rate."""
    prepared = replace(recording(), segments=(slice(0, 40), slice(40, 3000)))
    again = refilter_rows(prepared, 2.0)
    rate = again.filter.inner_rate
    assert (rate, again.filter.row_cutoff, again.filter.position_cutoff) == pytest.approx((50.0, 2.0, 10.0))
    assert again.filter.row_rate == pytest.approx(rate / again.step) and again.filter.row_rate >= 2.0 * 2.0
    np.testing.assert_allclose(again.kernel, lowpass_kernel(2.0, rate), atol=1e-12)
    np.testing.assert_allclose(again.slope_kernel, lowpass_kernel(2.0, rate, 1), atol=1e-9)
    assert len(again.segments) == 1 and np.all(np.diff(again.t) > 0.019), "a stretch shorter than the filter has no row"
    places = np.searchsorted(prepared.t, again.t + 1e-9) - 1
    np.testing.assert_allclose(again.q, prepared.q[places], atol=1e-3, err_msg="slow motion passes")
    clean = slow_motion(0, 3000, RATE, (0.5, 8.0), 4)[2]
    assert np.std(again.ddq - clean[places]) < 0.1 * np.std(prepared.ddq - clean), "and noise does not"
    assert refilter_rows(prepared, 45.0).filter.inner_rate == pytest.approx(RATE)


@pytest.mark.parametrize("folds", [3, 4])
def test_held_out_errors_are_those_of_stretches_predicted_by_the_rest(folds):
    both = []
    for seed in (0, 1):
        motion = slow_motion(seed, 600, RATE, (0.5, 8.0), 4)
        tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), *motion)
        both.append((*motion, tau + 0.5 * np.random.default_rng(seed).normal(size=tau.shape)))
    information = build([as_prepared(ROBOT, *one) for one in both])
    q, dq, ddq, tau = (np.concatenate(column) for column in zip(*both, strict=True))
    W = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)]
    block, each = np.arange(1200) // 20, 60 // folds  # 30 blocks of each recording
    error = torque = 0.0
    for fold in range(folds):
        left_out = block // each == fold
        rest = (block < each * fold - 1) | (block > each * (fold + 1))  # those beside the stretch are not fitted to
        value = fit(build([as_prepared(ROBOT, q[rest], dq[rest], ddq[rest], tau[rest])]))
        error += np.sum((tau[left_out] - W[left_out] @ value) ** 2)
        torque += np.sum(tau[left_out] ** 2)
    squares = held_out_squares(information, information, folds)
    assert len(squares) == folds and squares.sum() == pytest.approx(error / torque, rel=1e-6)


def test_a_lower_cutoff_is_taken_where_it_predicts_better():
    """Noise of accelerations spoils the fit at 40 Hz; the evidence is the error of every cut-off in the same band."""
    prepared = recording()
    information = build([prepared])
    decision = select_row_cutoff([prepared], information, build)
    assert decision.proposed == 40.0 and list(decision.errors) == [40.0, 20.0, 12.0, 8.0, 5.0, 3.2, 2.0]
    band = build([refilter_rows(prepared, 4.0)])
    for cutoff in (20.0, 5.0):
        squares = held_out_squares(build([refilter_rows(prepared, cutoff)]), band, 10)
        assert decision.errors[cutoff] == pytest.approx(np.sqrt(squares.sum()))
    assert decision.errors[decision.cutoff] <= 1.05 * min(decision.errors.values()) < 0.5 * decision.errors[40.0]
    as_good = [c for c, e in decision.errors.items() if e <= 1.05 * min(decision.errors.values())]
    assert decision.cutoff == sorted(as_good)[(len(as_good) - 1) // 2], "neither the highest nor the lowest of them"
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    after = fit(build([refilter_rows(prepared, decision.cutoff)]))
    assert np.linalg.norm(after - truth) < 0.3 * np.linalg.norm(fit(information) - truth)


@pytest.mark.parametrize("seed", range(4))
def test_a_clean_recording_of_fast_motion_keeps_its_cutoff(seed):
    """Differences by chance, of stretches that scatter, decide nothing."""
    prepared = recording(noise=0.0, seed=seed)
    decision = select_row_cutoff([prepared], build([prepared]), build)
    assert len(decision.errors) == 7 and decision.cutoff is None


@pytest.mark.parametrize(
    ("row", "rate", "tried"),
    [(30.0, 200.0, 6), (29.9, 200.0, 5), (12.1, 200.0, 4), (12.0, 200.0, 0), (7.0, 50.0, 2), (6.9, 50.0, 0)],
)
def test_cutoffs_are_tried_below_one_that_may_be_that_of_noise(row, rate, tried):
    """It is high, or the highest that the rate allows."""
    prepared = recording(row=row)
    prepared = replace(prepared, filter=replace(prepared.filter, rate=rate))
    decision = select_row_cutoff([prepared], build([prepared]), build)
    assert len(decision.errors) == (tried + 1 if tried else 0)
    assert all(1.5 * cutoff <= row for cutoff in list(decision.errors)[1:])


def test_of_several_recordings_the_lowest_cutoff_and_the_shortest_decide():
    """A short recording is not filtered so low that the ends of its filter take it up."""
    long, short = recording(), recording(8.0, seed=1)
    lowest = CutoffThresholds().lowest_cutoff(float(short.t[-1] - short.t[0]), 1.0)
    assert 5.0 < lowest < 12.0
    narrow = recording(row=29.0)
    for pair in ((long, short), (short, long)):
        assert min(select_row_cutoff(pair, build(pair), build).errors) >= lowest
    for pair in ((long, narrow), (narrow, long)):
        assert select_row_cutoff(pair, build(pair), build).proposed == 29.0


def test_only_the_beginning_of_a_long_recording_is_looked_at():
    count = 15_000
    motion = slow_motion(0, count, RATE, (0.5, 8.0), 4)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), *motion)
    prepared = filtered(tau + np.random.default_rng(0).normal(size=tau.shape), motion, 40.0)
    prepared = replace(prepared, t=prepared.t + 7.0)
    spoiled = replace(prepared, tau=np.where(np.arange(count)[:, None] < 12_000, prepared.tau, 1e6))
    first = replace(prepared, segments=(slice(0, 12_000),))
    decisions = [select_row_cutoff([p], build([p]), build) for p in (prepared, spoiled, first)]
    assert decisions[0].errors == decisions[1].errors == pytest.approx(decisions[2].errors)
