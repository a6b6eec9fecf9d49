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
    RowCutoffThresholds,
    held_out_error,
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
    prepared = replace(recording(), segments=(slice(0, 40), slice(40, 3000)))
    again = refilter_rows(prepared, 4.0)
    np.testing.assert_allclose(again.kernel, lowpass_kernel(4.0, RATE), atol=1e-12)
    np.testing.assert_allclose(again.slope_kernel, lowpass_kernel(4.0, RATE, 1), atol=1e-9)
    assert again.step == 5 and again.filter.row_cutoff == 4.0 and again.filter.row_rate == pytest.approx(20.0)
    assert again.segments == (slice(40, 3000),) and len(again.kernel) > 40
    for cutoff, step in ((3.7, 5), (4.4, 5), (45.0, 1)):
        other = refilter_rows(prepared, cutoff)
        assert other.step == step and other.filter.row_rate == pytest.approx(RATE / step), "the nearest, one at least"
    exact = replace(prepared, segments=(slice(0, len(again.kernel)), slice(100, 99 + len(again.kernel))))
    assert refilter_rows(exact, 4.0).segments == (slice(0, len(again.kernel)),)


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
    assert held_out_error(information, information, folds) == pytest.approx(np.sqrt(error / torque), rel=1e-6)


def test_a_lower_cutoff_is_taken_where_it_predicts_much_better():
    """Noise of accelerations spoils the fit at 40 Hz; the evidence is the error of every cut-off in the same band."""
    prepared = recording()
    information = build([prepared])
    decision = select_row_cutoff([prepared], information, build)
    assert decision.proposed == 40.0 and list(decision.errors) == [40.0, 20.0, 4.0]
    parts = {cutoff: build([refilter_rows(prepared, cutoff)]) for cutoff in (20.0, 4.0)}
    for cutoff, part in {40.0: information, **parts}.items():
        assert decision.errors[cutoff] == pytest.approx(held_out_error(part, parts[4.0], 3))
    best = min(decision.errors, key=decision.errors.get)
    assert decision.cutoff == best < 40.0
    ratio = decision.errors[best] / decision.errors[40.0]
    for better, cutoff in ((1.01 * ratio, best), (0.99 * ratio, None)):
        assert select_row_cutoff([prepared], information, build, RowCutoffThresholds(better=better)).cutoff == cutoff
    two = select_row_cutoff([prepared], information, build, RowCutoffThresholds(folds=2))
    assert two.errors[40.0] == pytest.approx(held_out_error(information, parts[4.0], 2))


def test_a_good_fit_is_not_looked_at_again():
    prepared = recording()
    information = build([prepared])
    value, error, torque = fit(information), 0.0, 0.0
    for j, columns in enumerate(information.columns):
        R = information.triangle(j)
        error += np.sum((R[:, -1] - R[:, :-1] @ value[columns]) ** 2)
        torque += np.sum(R[:, -1] ** 2)
    share = np.sqrt(error / torque)
    for good_fit, looked in ((1.001 * share, False), (0.999 * share, True)):
        decision = select_row_cutoff([prepared], information, build, RowCutoffThresholds(good_fit=good_fit))
        assert bool(decision.errors) == looked and decision.proposed == 40.0
    assert RowCutoffThresholds().good_fit == 0.05 < share


@pytest.mark.parametrize(("row", "tried"), [(30.0, [20.0, 4.0]), (29.9, [4.0]), (6.0, [4.0]), (5.9, [])])
def test_cutoffs_are_tried_that_are_well_below_the_proposed_one(row, tried):
    prepared = recording(row=row)
    everything = RowCutoffThresholds(good_fit=0.0)
    decision = select_row_cutoff([prepared], build([prepared]), build, everything)
    assert list(decision.errors) == ([row, *tried] if tried else [])
    clean = replace(recording(), filter=replace(recording().filter, row_cutoff=None))
    assert select_row_cutoff([clean], build([clean]), build, everything).errors == {}


def test_of_several_recordings_the_lowest_cutoff_and_the_shortest_decide():
    """A short recording is not filtered so low that the ends of its filter take it up."""
    long, short = recording(), recording(8.0, seed=1)
    lowest = CutoffThresholds().lowest_cutoff(float(short.t[-1] - short.t[0]), 1.0)
    assert 4.0 < lowest < 20.0
    narrow = recording(row=29.0)
    everything = RowCutoffThresholds(good_fit=0.0)
    for pair in ((long, short), (short, long)):
        assert list(select_row_cutoff(pair, build(pair), build, everything).errors)[1:] == [20.0, pytest.approx(lowest)]
    for pair in ((long, narrow), (narrow, long)):
        decision = select_row_cutoff(pair, build(pair), build, everything)
        assert decision.proposed == 29.0 and list(decision.errors) == [29.0, 4.0]


def test_only_the_beginning_of_a_long_recording_is_looked_at():
    count = 15_000
    motion = slow_motion(0, count, RATE, (0.5, 8.0), 4)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), *motion)
    prepared = filtered(tau + np.random.default_rng(0).normal(size=tau.shape), motion, 40.0)
    prepared = replace(prepared, t=prepared.t + 7.0)
    spoiled = replace(prepared, tau=np.where(np.arange(count)[:, None] < 12_000, prepared.tau, 1e6))
    first = replace(prepared, segments=(slice(0, 12_000),))
    everything = RowCutoffThresholds(good_fit=0.0)
    decisions = [select_row_cutoff([p], build([p]), build, everything) for p in (prepared, spoiled, first)]
    assert decisions[0].errors == decisions[1].errors == pytest.approx(decisions[2].errors)
    k = len(prepared.kernel)
    for end, used in ((12_000 - k, True), (12_001 - k, False)):  # a stretch shorter than the filter gives no row
        seen = []

        def watch(parts, seen=seen):
            seen.append(parts[0].segments)
            return build(parts)

        cut = replace(prepared, segments=(slice(0, 5000), slice(end, count)))
        select_row_cutoff([cut], build([cut]), watch, everything)
        assert seen[-1] == ((slice(0, 5000), slice(end, 12_000)) if used else (slice(0, 5000),))
