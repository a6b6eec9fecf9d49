# SPDX-License-Identifier: Apache-2.0

"""Torques compared row by row: rows left out, stretches, parts of a long recording, temperature, terms and delay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, block_folds
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.identification.validation.cross_validation import (
    HeldOut,
    cross_validate,
    split_folds,
    validate_in_folds,
)
from ros2_dynid.identification.validation.effort_sign_and_unit import sample_motion
from ros2_dynid.identification.validation.torque_errors import (
    WHITENESS_LAGS,
    WHITENESS_ROWS,
    Whiteness,
    compare_torques,
    filter_length,
    measure_whiteness,
    tabulate_errors,
    torque_errors,
)
from ros2_dynid.identification.validation.verdict import gather_evidence
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 3)
VALUE = BASE.values(ROBOT, CHI)
PRIOR = 0.8 * VALUE
TERMS = (FrictionTerm(2, FrictionKind.CUBIC), FrictionTerm(3, FrictionKind.ASYMMETRIC))
EVERY = np.ones(len(BASE) + 2, dtype=bool)


def recording(seed=0, count=900, slow=0.3, start=5.0):
    """Return a recording in two stretches with slow rows, a term of friction that no base parameter has, and warmth."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, count, 3)) * np.array([1.0, 0.5, 2.0])
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq) + np.array([0.5, 1.0, 0.2]) * rng.normal(size=q.shape)
    tau[:, 1] += 0.7 * dq[:, 1] ** 3
    whole = as_prepared(ROBOT, q, dq, ddq, tau, start + np.arange(count) / 100.0, slow=slow)
    slow_rows = np.abs(dq) <= slow * np.abs(dq).max(axis=0)
    whole.tau[slow_rows] += 50.0  # what nobody is to see
    return replace(whole, segments=(slice(7, 450), slice(470, count)), temperature=q + 40.0)


def rows_of(prepared):
    """Return the places of the rows, which of them count, and W (N, n, b + 2) with the columns of the terms."""
    at = np.concatenate([np.arange(s.start, s.stop) for s in prepared.segments])
    q, dq, ddq = (x[at] for x in (prepared.q, prepared.dq, prepared.ddq))
    keep = np.abs(dq) > prepared.filter.slow * np.abs(prepared.dq).max(axis=0)
    W = np.zeros((len(at), 3, len(BASE) + 2))
    W[:, :, : len(BASE)] = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)]
    W[:, 1, -2], W[:, 2, -1] = dq[:, 1] ** 3, np.abs(dq[:, 2])
    coulomb = [k for k, leader in enumerate(BASE.leaders) if leader.startswith("Fc")]
    for k in (*coulomb, len(BASE), len(BASE) + 1):
        W[:, :, k] *= keep  # friction of a joint that stands still has any size
    return at, keep, W


@pytest.mark.parametrize("delay", [False, True])
def test_rows_left_out_are_in_no_number_and_blank_in_pictures(delay):
    """Two recordings of two stretches each: numbers are those of the rows themselves."""
    recordings = (recording(0), recording(1, 800))
    recordings = (recordings[0], replace(recordings[1], temperature=None))
    prepared = recordings
    value, prior = np.append(VALUE, (0.6, 0.3)), np.append(PRIOR, (0.1, 0.0))
    S = np.diag(np.linspace(0.0, 2e-4, len(value)))
    spread = TorqueScatter(S, EVERY, np.array([0.3, 0.6, 0.08]), 12.0)
    if delay:
        value, prior = np.append(value, 0.01), np.append(prior, 0.0)
        spread = TorqueScatter(np.pad(S, (0, 1)), np.append(EVERY, True), spread.sigma, 12.0)
    found = compare_torques(ROBOT, BASE, prepared, value, prior, limit=400, spread=spread, terms=TERMS)
    own = [rows_of(one) for one in recordings]
    keep, W = (np.concatenate([one[k] for one in own]) for k in (1, 2))
    tau = np.concatenate([one.tau[at] for one, (at, _, _) in zip(recordings, own, strict=True)])
    assert 0.5 < keep.mean() < 0.9
    predicted = W @ value[: W.shape[2]]
    error = tau - predicted
    std = np.hypot(np.sqrt(np.sum(W @ S * W, axis=2)), spread.sigma)
    inside = np.abs(error) <= 2.178812829667228 * std  # Student, 12 degrees of freedom
    for j, name in enumerate(ROBOT.active_names):
        e, t = error[keep[:, j], j], tau[keep[:, j], j]
        assert found.errors[name].rms == pytest.approx(np.sqrt(np.mean(e**2)))
        assert found.errors[name].relative == pytest.approx(np.linalg.norm(e) / np.linalg.norm(t))
        assert (
            found.coverage[name] == pytest.approx(inside[keep[:, j], j].mean()) and 0.05 < found.coverage[name] < 0.95
        )
        assert found.largest[j] == pytest.approx(np.abs(t).max())
    assert found.coverage["all"] == pytest.approx(inside[keep].mean())
    first = len(own[0][0])
    some = np.concatenate((np.arange(0, first, 8), np.arange(first, len(tau), 8)))  # at most 400 of them
    assert 200 < len(some) < 400
    np.testing.assert_allclose(found.data.tau, np.where(keep, tau, np.nan)[some])
    np.testing.assert_allclose(found.data.predicted, predicted[some])
    np.testing.assert_allclose(found.data.prior, (W @ prior[: W.shape[2]])[some])
    for name in ("q", "dq", "ddq"):
        whole = np.concatenate([getattr(one, name)[at] for one, (at, _, _) in zip(recordings, own, strict=True)])
        np.testing.assert_array_equal(getattr(found.data, name), whole[some])
    warmth = np.concatenate((recordings[0].temperature[own[0][0]], np.full((len(tau) - first, 3), np.nan)))
    np.testing.assert_array_equal(found.data.temperature, warmth[some])
    t = np.concatenate((recordings[0].t[own[0][0]] - 5.0, recordings[1].t[own[1][0]] - 5.0 + 8.99))
    np.testing.assert_allclose(found.data.t, t[some])


def test_times_of_several_recordings_follow_each_other_and_one_keeps_its_own():
    recordings = [recording(k, 500, start=s) for k, s in enumerate((5.0, 100.0, -3.0))]
    recordings = [replace(one, segments=(slice(0, 500),)) for one in recordings]
    found = compare_torques(ROBOT, BASE, recordings, VALUE, PRIOR)
    np.testing.assert_allclose(found.data.t, np.concatenate([4.99 * k + np.arange(500) / 100.0 for k in range(3)]))
    alone = compare_torques(ROBOT, BASE, recordings[1:2], VALUE, PRIOR)
    np.testing.assert_allclose(alone.data.t, recordings[1].t)
    assert dict(alone.coverage) == {}, "without a spread there is no band"
    with pytest.raises(InputError, match="no row"):
        compare_torques(ROBOT, BASE, [replace(recordings[0], segments=())], VALUE, PRIOR)


@pytest.mark.parametrize(("limit", "stride"), [(1500, 1), (1499, 2), (750, 2), (749, 4), (10, 256)])
def test_no_more_rows_are_pictured_than_allowed(limit, stride):
    recordings = [replace(recording(k, 500), segments=(slice(0, 500),)) for k in range(3)]
    found = compare_torques(ROBOT, BASE, recordings, VALUE, PRIOR, limit=limit)
    np.testing.assert_array_equal(found.data.q, np.concatenate([one.q[::stride] for one in recordings]))
    assert len(found.data.q) <= limit


def test_fitted_rows_have_their_terms_and_what_is_left_out_is_blank():
    whole = recording(0)
    value = np.concatenate((VALUE, (0.6, 0.3, 0.01)))
    found = compare_torques(ROBOT, BASE, [whole], value, np.append(PRIOR, np.zeros(3)), limit=450, terms=TERMS)
    at, keep, W = rows_of(whole)
    some = slice(0, None, 2)
    np.testing.assert_allclose(found.data.predicted, (W @ value[:-1])[some])
    np.testing.assert_allclose(found.data.tau, np.where(keep, whole.tau[at], np.nan)[some])
    np.testing.assert_array_equal(found.data.temperature, whole.temperature[at][some])
    np.testing.assert_allclose(found.data.t, whole.t[at][some])
    for j, name in enumerate(ROBOT.active_names):
        e = whole.tau[at, j] - W[:, j] @ value[:-1]
        e = np.where(keep[:, j], e - e[keep[:, j]].mean(), 0.0)
        rho = [float(e[k:] @ e[:-k]) / float(e @ e) for k in range(1, 5)]
        assert found.whiteness[name].correlation == pytest.approx(max(rho, key=abs), abs=1e-9)


@pytest.mark.parametrize(
    ("rate", "cutoff", "lag"), [(20.0, None, 1), (20.0, 5.0, 4), (20.0, 5.2, 4), (20.0, 7.5, 3), (3.0, 9.0, 1)]
)
def test_the_length_of_the_filter_in_rows(rate, cutoff, lag):
    settings = replace(as_prepared(ROBOT, *np.zeros((4, 3, 3))).filter, row_rate=rate, row_cutoff=cutoff)
    assert filter_length(settings) == lag


def test_samples_are_spread_over_stretches_alone():
    whole = recording(0, 900)
    stretches = ((0, 61), (100, 138), (300, 317), (850, 900))
    few = replace(whole, segments=tuple(slice(*one) for one in stretches))
    found = sample_motion([few], count=75)
    at = np.concatenate([np.arange(*one) for one in stretches])
    assert len(at) == 166, "not of 900"
    np.testing.assert_array_equal(found.tau, whole.tau[at][::2])
    np.testing.assert_array_equal(sample_motion([few], count=20).tau, whole.tau[at][::8])
    assert len(sample_motion([whole]).q) == 873


def moved(noise):
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 600, 3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    return as_prepared(ROBOT, q, dq, ddq, tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape))


def test_only_rows_in_motion_are_judged():
    """Rows of joints that stand still are fitted to, but no model predicts their friction."""
    still, moving = (build_information(ROBOT, BASE, [moved(noise)]) for noise in (0.1, 0.02))
    fewer = tuple(replace(block, rows=block.rows // 2 + np.arange(3)) for block in moving.blocks)
    moving = replace(moving, blocks=fewer)  # than there are at rest and in motion
    pairs = zip(still.blocks, moving.blocks, strict=True)
    both = replace(still, blocks=tuple(replace(block, moving=alone) for block, alone in pairs))
    names = ROBOT.active_names
    value = wls(still).value
    assert torque_errors(names, both, value) == torque_errors(names, moving, value)
    fit = torque_errors(names, moving, value)
    seen, wanted = (gather_evidence(ROBOT, BASE, one, wls(still), fit, HeldOut()).joints for one in (both, moving))
    assert seen == wanted

    def fitted(blocks):
        return wls(still.take(blocks))

    found = cross_validate(names, both, 3, fitted)
    errors, torques = np.zeros(3), np.zeros(3)
    for fold in split_folds(still, 3):
        rest = [b for b in range(len(still.blocks)) if b not in fold]
        x = fitted(rest).value
        for k in fold:
            for j, (R, columns) in enumerate(zip(moving.blocks[k].R, still.columns, strict=True)):
                errors[j] += np.sum((R[:, -1] - R[:, :-1] @ x[columns]) ** 2)
                torques[j] += np.sum(R[:, -1] ** 2)
    for j, name in enumerate(names):
        assert found[name].relative == pytest.approx(np.sqrt(errors[j] / torques[j]))
        assert found[name].rms == pytest.approx(np.sqrt(errors[j] / moving.rows[j]))


def test_folds_need_rows_in_as_many_blocks():
    rows = [10, 0, 10, 10, 0, 10]
    blocks = tuple(
        Block((np.random.default_rng(k).normal(size=(max(n, 1), 3)),), np.array([n]), float(k), k + 1.0)
        for k, n in enumerate(rows)
    )
    information = Information(blocks, (np.arange(2),), ColumnLayout(2))
    assert len(split_folds(information, 4)) == 4
    with pytest.raises(InputError, match=r"5 folds.*choose 2 to 4"):
        split_folds(information, 5)
    none = validate_in_folds(["a"], information, None, lambda blocks: wls(information.take(blocks)))
    assert none == HeldOut() and none.folds == 0 and dict(none.errors) == {}
    with pytest.raises(InputError, match="5 folds"):
        validate_in_folds(["a"], information, 5, lambda blocks: wls(information.take(blocks)))
    assert validate_in_folds(["a"], information, 0, lambda blocks: None) == HeldOut(switched_off=True)


def information(rows):
    """Return blocks with so many rows of two joints each."""
    rng = np.random.default_rng(0)
    blocks = tuple(
        Block(tuple(rng.normal(size=(max(n, 1), 3)) for n in counts), np.array(counts), float(k), k + 1.0)
        for k, counts in enumerate(rows)
    )
    return Information(blocks, (np.arange(2), np.arange(2)), ColumnLayout(2))


def test_errors_of_joints_and_of_all():
    found = tabulate_errors(["a", "b"], np.array([3.0, 4.0]), np.array([30.0, 5.0]), np.array([9, 16]))
    assert (found["a"].rms, found["a"].relative) == (1.0, 0.1) and (found["b"].rms, found["b"].relative) == (1.0, 0.8)
    assert found["all"].rms == pytest.approx(5.0 / 5.0) and found["all"].relative == pytest.approx(5.0 / np.sqrt(925.0))
    empty = tabulate_errors(["a"], np.zeros(1), np.zeros(1), np.array([0]))
    assert empty["a"].rms == empty["a"].relative == empty["all"].relative == 0.0


def test_folds_are_stretches_of_about_the_same_number_of_rows():
    info = information([(10, 10)] * 6)
    assert split_folds(info, 3) == [[0, 1], [2, 3], [4, 5]] and split_folds(info, 2) == [[0, 1, 2], [3, 4, 5]]
    for k in (0, 1, 7):
        with pytest.raises(InputError, match="choose 2 to 6"):
            split_folds(info, k)
    heavy = information([(60, 60), (10, 10), (10, 10), (10, 10), (10, 10), (20, 20)])
    assert split_folds(heavy, 2) == [[0], [1, 2, 3, 4, 5]]
    ending = information([(10, 10), (10, 10), (10, 10), (10, 10), (0, 0)])
    assert block_folds(ending, 2) == [[0, 1], [2, 3, 4]], "a last block without rows is lost nowhere"
    assert block_folds(information([(10, 10), (0, 0)]), 3) == [] and len(block_folds(info, 9)) == 6


# --- are errors random in time?


def whiteness_by_definition(error, keep, lag):
    """Return the correlation furthest from 0 of errors with themselves some lags later, and its chance."""
    e = np.where(keep, error - error[keep].mean(), 0.0)
    rho = max((float(e[k * lag :] @ e[: -k * lag]) / float(e @ e) for k in range(1, WHITENESS_LAGS + 1)), key=abs)
    one = 2.0 * norm.sf(abs(rho) * np.sqrt(max(np.count_nonzero(keep) / lag, 2.0)))
    return rho, 1.0 - (1.0 - one) ** WHITENESS_LAGS


@pytest.mark.parametrize("few", [False, True])
def test_the_whiteness_of_errors_is_that_of_its_definition(few):
    rng = np.random.default_rng(3)
    for error in (rng.normal(size=1500), 0.3 + np.convolve(rng.normal(size=1600), np.ones(40) / 6.0, "valid")[:1500]):
        keep = rng.uniform(size=1500) > 0.2
        keep &= np.arange(1500) < (8 if few else 1500)  # fewer than two independent rows
        found = measure_whiteness(error, np.ones(1500), keep, 5)
        wanted = whiteness_by_definition(error, keep, 5)
        assert (found.correlation, found.probability) == (pytest.approx(wanted[0]), pytest.approx(wanted[1], abs=1e-12))


def test_errors_that_hang_together_beyond_the_filter_are_seen():
    """Noise filtered over 10 rows is white beyond them; a slow wave, of either sign one filter later, is not."""
    rng = np.random.default_rng(2)
    white = np.convolve(rng.normal(size=4009), np.ones(10) / 10, mode="valid")
    t, keep = np.arange(4000), np.ones(4000, dtype=bool)
    slow, turning = (white + 0.3 * np.sin(2 * np.pi * t / period) for period in (400.0, 20.0))
    found = [measure_whiteness(error, 10.0 + white, keep, 10) for error in (white, slow, turning, white + 100.0)]
    assert found[0].probability > 0.01 > max(found[1].probability, found[2].probability)
    assert found[1].correlation == pytest.approx(0.045 / (0.045 + 0.1), abs=0.1) and found[2].correlation < -0.2
    assert found[3].correlation == pytest.approx(found[0].correlation), "an offset is none of its business"


def test_exact_rows_and_few_rows_are_not_judged():
    error, keep = np.random.default_rng(4).normal(size=500), np.ones(500, dtype=bool)
    nothing = Whiteness(0.0, 1.0)
    assert (
        measure_whiteness(1e-7 * error, np.full(500, 1.0), keep, 5)
        == nothing
        != measure_whiteness(1e-6 * error, np.full(500, 1.0), keep, 5)
    )
    for rows, told in ((20, False), (21, True)):  # four lags of five rows each
        found = measure_whiteness(error[:rows], np.ones(rows), keep[:rows], 5)
        assert (found != nothing) == told
    assert measure_whiteness(error, error, ~keep, 5) == nothing


def test_only_the_first_rows_of_the_first_recording_tell_whether_errors_are_random():
    long, late, other = recording(0, WHITENESS_ROWS + 900), recording(0, WHITENESS_ROWS + 900), recording(1, 800)
    late.tau[WHITENESS_ROWS + 200 :] += 50.0
    found = [compare_torques(ROBOT, BASE, [first, other], VALUE, PRIOR).whiteness for first in (long, late, other)]
    assert found[0] == found[1] != found[2]
    empty = replace(other, segments=())
    assert compare_torques(ROBOT, BASE, [empty, long], VALUE, PRIOR).whiteness == found[0], "the first that has rows"
