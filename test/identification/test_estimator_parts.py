"""Parts that estimators and the preparation are made of: each against a plain way to the same answer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import eigh

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import large_delay, lower_cutoff, sequential
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.covariance import Moments, block_moments, jackknife
from ros2_dynid.identification.estimators.didim import output_error
from ros2_dynid.identification.estimators.fit import Problem, fitter, identify_arrays, inform
from ros2_dynid.identification.estimators.information import (
    Block,
    Information,
    different_motion,
    each_triangle,
    gather,
    restrict,
)
from ros2_dynid.identification.estimators.least_squares import (
    error_levels,
    ols,
    own_errors,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.identification.estimators.prior import (
    WEIGHTS,
    Prior,
    Weighing,
    _held_out,
    drawn,
    drawn_fit,
    torque_scale,
    weigh,
)
from ros2_dynid.identification.estimators.recursive import recursive
from ros2_dynid.identification.estimators.robust import _robust_scales, _scale, irls, reweighted
from ros2_dynid.identification.estimators.total_least_squares import _less_noise, disturbed, tls
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, effort_later
from ros2_dynid.identification.preparation.cutoffs import Spectrum, looked_at, propose, spectrum
from ros2_dynid.identification.preparation.effort_streams import effort_streams, swapped
from ros2_dynid.identification.preparation.elsewhere import changed_now, emptied, outline, outline_of, over, range_of
from ros2_dynid.identification.preparation.even_grid import FirstPiece
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.rows import Rows, most_threads, row_chunks, windows
from ros2_dynid.model.load import load_robot
from ros2_dynid.notes import remark
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
    rows = wls(inform(ROBOT, base, [as_prepared(ROBOT, q, dq, ddq, tau)], delay=False))
    np.testing.assert_allclose(found.covariance, rows.covariance, rtol=1e-6, atol=1e-9 * np.abs(rows.covariance).max())
    assert found.dof == pytest.approx(rows.dof)


def test_every_second_chunk_holds_half_of_the_rows(monkeypatch):
    parts = [as_prepared(ROBOT, *measured(500, seed=k)[1:]) for k in range(2)]
    from ros2_dynid.identification.estimators import fit

    monkeypatch.setattr(fit, "rows_of_a_chunk", lambda prepared: 50)
    monkeypatch.setattr("ros2_dynid.identification.preparation.rows.rows_of_a_chunk", lambda prepared: 50)
    whole, half = (inform(ROBOT, BASE, parts, delay=False, every=every) for every in (1, 2))
    assert list(whole.rows) == [1000] * 3 and list(half.rows) == [500] * 3
    kept = np.arange(500) // 50 % 2 == 0
    A = np.vstack([regressor(ROBOT, p.q, p.dq, p.ddq)[kept][:, 1, BASE.columns(ROBOT)] for p in parts])
    R = half.triangle(1)[:, :-1]
    np.testing.assert_allclose(R.T @ R, (A.T @ A)[np.ix_(half.columns[1], half.columns[1])], atol=1e-8)


def test_rows_made_by_threads_are_the_same(monkeypatch):
    from ros2_dynid.identification.preparation import rows

    prepared = as_prepared(ROBOT, *measured(700)[1:])
    columns = BASE.columns(ROBOT)
    plain = list(row_chunks(ROBOT, prepared, columns, n_rows=60))
    monkeypatch.setattr(rows, "WORTH_THREADS", 100)
    token = most_threads.set(4)
    try:
        threaded = list(row_chunks(ROBOT, prepared, columns, n_rows=60))
        few = list(row_chunks(ROBOT, prepared, columns, n_rows=60, every=3, first=1))
    finally:
        most_threads.reset(token)
    assert len(plain) == len(threaded) == len(list(windows(prepared, 60))) == 12
    for a, b in zip(plain, threaded, strict=True):
        for field in ("t", "W", "tau", "keep"):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    assert [rows_.t[0] for rows_ in few] == [plain[k].t[0] for k in (1, 4, 7, 10)]


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
    information = inform(ROBOT, BASE, [as_prepared(ROBOT, q, dq, ddq, tau)], delay=False)
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


def test_rows_filtered_again_at_a_lower_cutoff():
    p = replace(filtered_recording(), segments=(slice(0, 40), slice(40, 3000)))
    found = lower_cutoff.refiltered(p, 4.0)
    np.testing.assert_allclose(found.kernel, lowpass_kernel(4.0, 100.0), atol=1e-12)
    np.testing.assert_allclose(found.slope_kernel, lowpass_kernel(4.0, 100.0, 1), atol=1e-9)
    assert found.step == 5 and found.filter.row_cutoff == 4.0 and found.filter.row_rate == pytest.approx(20.0)
    assert found.segments == (slice(40, 3000),) and len(found.kernel) > 40
    for cutoff, step in ((3.7, 5), (4.4, 5), (45.0, 1)):
        other = lower_cutoff.refiltered(p, cutoff)
        assert other.step == step and other.filter.row_rate == pytest.approx(100.0 / step), "the nearest, one at least"
    exact = replace(p, segments=(slice(0, len(found.kernel)), slice(100, 99 + len(found.kernel))))
    assert lower_cutoff.refiltered(exact, 4.0).segments == (slice(0, len(found.kernel)),)


def test_the_beginning_of_a_long_recording():
    p = filtered_recording(150.0)
    k = len(p.kernel)
    p = replace(p, t=p.t + 7.0, segments=(slice(0, 5000), slice(5000, 12_000 - k), slice(12_000 - k, 15_000)))
    found = lower_cutoff._beginning(p, 7.0)
    assert found.segments == (slice(0, 5000), slice(5000, 12_000 - k), slice(12_000 - k, 12_000))
    short = replace(p, segments=(slice(0, 5000), slice(12_001 - k, 15_000)))
    assert lower_cutoff._beginning(short, 7.0).segments == (slice(0, 5000),)
    assert lower_cutoff._beginning(p, 40.0) is p
    bare = replace(p, kernel=None, segments=(slice(0, 5000), slice(11_999, 12_100), slice(12_000, 15_000)))
    assert lower_cutoff._beginning(bare, 7.0).segments == (slice(0, 5000), slice(11_999, 12_000))


def test_held_out_errors_are_those_of_thirds_predicted_by_the_rest():
    both = [measured(600, noise=0.5, seed=seed)[1:] for seed in (0, 1)]
    information = inform(ROBOT, BASE, [as_prepared(ROBOT, *one) for one in both], delay=False)
    found = lower_cutoff.held_out_error(information, information)
    q, dq, ddq, tau = (np.concatenate(column) for column in zip(*both, strict=True))
    W = regressor(ROBOT, q, dq, ddq)[:, :, BASE.columns(ROBOT)]
    block = np.arange(1200) // 20  # 30 of each recording
    error = torque = 0.0
    for fold in range(3):
        out = block // 20 == fold
        rest = (block < 20 * fold - 1) | (block > 20 * fold + 20)  # those beside the stretch are not fitted to
        part = inform(ROBOT, BASE, [as_prepared(ROBOT, q[rest], dq[rest], ddq[rest], tau[rest])], delay=False)
        value = lower_cutoff._fit(part)
        error += np.sum((tau[out] - W[out] @ value) ** 2)
        torque += np.sum(tau[out] ** 2)
    assert found == pytest.approx(np.sqrt(error / torque), rel=1e-6)


@pytest.mark.parametrize(
    ("row", "fitted", "errors", "wanted"),
    [
        (60.0, 0.5, {20.0: 0.1, 4.0: 0.2, 60.0: 0.5}, 20.0),
        (60.0, 0.5, {20.0: 0.24, 4.0: 0.2, 60.0: 0.41}, 4.0),
        (60.0, 0.5, {20.0: 0.24, 4.0: 0.2, 60.0: 0.39}, None),  # not much better
        (60.0, 0.04, {20.0: 0.1, 4.0: 0.2, 60.0: 0.5}, None),  # good enough as it is
        (29.0, 0.5, {20.0: 0.1, 4.0: 0.2, 29.0: 0.5}, 4.0),  # 20 Hz is not well below
        (5.9, 0.5, {5.9: 0.5}, None),
    ],
)
def test_a_lower_cutoff_is_taken_where_it_predicts_much_better(monkeypatch, row, fitted, errors, wanted):
    p = filtered_recording(60.0, row=30.0)
    p = replace(p, filter=replace(p.filter, row_cutoff=row))
    monkeypatch.setattr(lower_cutoff, "_fit", lambda information: None)
    monkeypatch.setattr(lower_cutoff, "joint_errors", lambda information, value: np.array([fitted]))
    monkeypatch.setattr(lower_cutoff, "joint_torques", lambda information: np.array([1.0]))
    bands = []
    monkeypatch.setattr(lower_cutoff, "held_out_error", lambda part, band: bands.append(band) or errors[part])
    found = lower_cutoff.lower_cutoff([p], None, lambda looked: looked[0].filter.row_cutoff)
    assert found == wanted and set(bands) <= {4.0}


def test_short_recordings_are_not_filtered_so_low(monkeypatch):
    p = filtered_recording(8.0, row=30.0)
    seen = []
    monkeypatch.setattr(lower_cutoff, "held_out_error", lambda part, band: 1.0)
    lower_cutoff.lower_cutoff(
        [p],
        inform(ROBOT, BASE, [replace(p, tau=p.tau[::-1])], delay=False),
        lambda looked: seen.append(looked[0].filter.row_cutoff),
    )
    lowest = lower_cutoff.LOBES / (lower_cutoff.SHARE_OF_ENDS * float(p.t[-1] - p.t[0]))
    assert lowest > 4.0 and seen[:2] == [20.0, pytest.approx(lowest)]


def test_of_several_recordings_the_lowest_cutoff_and_the_shortest_decide(monkeypatch):
    monkeypatch.setattr(lower_cutoff, "_fit", lambda information: None)
    monkeypatch.setattr(lower_cutoff, "joint_errors", lambda information, value: np.array([1.0]))
    monkeypatch.setattr(lower_cutoff, "joint_torques", lambda information: np.array([1.0]))
    monkeypatch.setattr(lower_cutoff, "held_out_error", lambda part, band: 1.0)
    long, short = filtered_recording(60.0, row=30.0), filtered_recording(8.0, row=30.0)
    lowest = lower_cutoff.LOBES / (lower_cutoff.SHARE_OF_ENDS * float(short.t[-1] - short.t[0]))
    for pair in ((long, short), (short, long)):
        seen = []
        lower_cutoff.lower_cutoff(pair, None, lambda looked, seen=seen: seen.append(looked[0].filter.row_cutoff))
        assert seen == [20.0, pytest.approx(lowest), 30.0]
    narrow = replace(long, filter=replace(long.filter, row_cutoff=29.0))
    for pair in ((long, narrow), (narrow, long)):
        seen = []
        lower_cutoff.lower_cutoff(pair, None, lambda looked, seen=seen: seen.append(looked[1].filter.row_cutoff))
        assert seen == [4.0, pair[1].filter.row_cutoff], "20 Hz is not well below 29 Hz"


@pytest.mark.parametrize(("fitted", "looked_again"), [(0.049, False), (0.051, True)])
def test_a_fit_within_five_percent_is_not_looked_at_again(monkeypatch, fitted, looked_again):
    p = filtered_recording(60.0, row=60.0)
    monkeypatch.setattr(lower_cutoff, "_fit", lambda information: None)
    monkeypatch.setattr(lower_cutoff, "joint_errors", lambda information, value: fitted * np.array([3.0, 4.0]))
    monkeypatch.setattr(lower_cutoff, "joint_torques", lambda information: np.array([4.0, 3.0]))
    monkeypatch.setattr(lower_cutoff, "held_out_error", lambda part, band: 1.0)
    seen = []
    assert lower_cutoff.lower_cutoff([p], None, seen.append) is None
    assert bool(seen) == looked_again


# --- large delays


def late(seconds, rate=100.0):
    t, q, dq, ddq = motion(3000, 2, rate)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    n = round(seconds * rate)
    p = as_prepared(ROBOT, q, dq, ddq, np.roll(tau, n, axis=0), t)
    p = effort_later(replace(p, segments=(slice(100, 2900),)), 0.0)
    row = 4.0
    kernels = [lowpass_kernel(row, rate, k) for k in (0, 1)]
    known = FirstPiece(rate, Spectrum(np.zeros(3), np.full(3, 1.3), np.full(3, 10.0)))
    return replace(
        p, kernel=kernels[0], slope_kernel=kernels[1], known=known, step=5, filter=replace(p.filter, row_cutoff=row)
    )


@pytest.mark.parametrize(("seconds", "moved"), [(0.0, 0.0), (0.05, 0.05), (-0.08, -0.08), (0.11, 0.11)])
def test_a_large_delay_is_taken_off_step_by_step(seconds, moved):
    p = late(seconds)

    def informed(parts):
        return inform(ROBOT, BASE, parts, delay=True)

    found, information = large_delay.without_large_delay([p], informed([p]), informed)
    assert found[0].filter.delay == pytest.approx(moved, abs=0.0101)
    left, error = large_delay._delay_and_error(information)
    assert found[0].filter.delay + left == pytest.approx(seconds, abs=2e-3) and error < 0.05
    bare = inform(ROBOT, BASE, [p], delay=False)
    assert large_delay.without_large_delay([p], bare, informed)[0][0] is p
    unknown = replace(p, known=None)
    assert large_delay.without_large_delay([unknown], informed([unknown]), informed)[0][0] is unknown


def stepped(monkeypatch, told, *, motion=(0.4, 1.3, 9.0), rate=1000.0, before=0.0, length=3000, others=()):
    """Return the delays of the steps taken, where the information says these (delay, error), one after the other."""
    p = as_prepared(ROBOT, *np.zeros((4, length, 3)), np.arange(length) / rate)
    spectrum = Spectrum(np.zeros(3), np.array(motion), np.full(3, 10.0))
    p = replace(p, known=FirstPiece(rate, spectrum), filter=replace(p.filter, delay=before))
    monkeypatch.setattr(large_delay, "_delay_and_error", lambda information: information.told)
    answers = iter([SimpleNamespace(layout=SimpleNamespace(n_delay=1), told=one) for one in told])
    first = next(answers)
    steps = []

    def inform(parts):
        steps.append(parts[0].filter.delay)
        return next(answers)

    found, information = large_delay.without_large_delay([p, *others], first, inform)
    assert information.told in told
    return found[0].filter.delay - before, information.told, steps


@pytest.mark.parametrize(("delay", "options", "moved"), [
    (0.0060, {}, False),  # 0.05 rad of 1.3 Hz, the median of the joints, are 6.1 ms
    (0.0063, {}, True),
    (-0.0060, {}, False),
    (-0.0063, {}, True),
    (0.009, {"rate": 100.0}, False),  # less than a sample
    (0.011, {"rate": 100.0}, True),
    (0.078, {"motion": (0.0, 0.0, 0.0)}, False),  # at least 0.1 Hz
    (0.081, {"motion": (0.0, 0.0, 0.0)}, True),
    (0.249, {}, True),
    (0.251, {}, False),  # something else is wrong
    (-0.251, {}, False),
    (0.06, {"before": 0.2}, False),  # with what was taken off before
    (0.06, {"before": 0.18}, True),
    (-0.06, {"before": 0.2}, True),
    (0.24, {"length": 200}, False),  # the recording is too short for that
])  # fmt: skip
def test_how_large_a_delay_must_be_to_be_taken_off_and_how_large_it_may_be(monkeypatch, delay, options, moved):
    found, told, steps = stepped(monkeypatch, [(delay, 1.0), (0.0, 0.5)], **options)
    assert bool(steps) == moved == (told == (0.0, 0.5))
    assert found == pytest.approx(delay if moved else 0.0, abs=0.5 / options.get("rate", 1000.0)), "whole samples"


@pytest.mark.parametrize(("told", "taken"), [
    ([(0.1, 1.0), (0.03, 0.5), (0.01, 0.4), (0.0, 0.3)], 3),
    ([(0.1, 1.0), (0.03, 0.5), (0.01, 0.6)], 1),  # the last step made it worse
    ([(0.1, 1.0), (0.03, 1.0)], 0),  # no better
    ([(0.05, 1.0), (0.05, 0.9), (0.05, 0.8), (-0.05, 0.7), (0.05, 0.6), (0.0, 0.5)], 4),
])  # fmt: skip
def test_steps_are_taken_as_long_as_the_error_falls_four_at_most(monkeypatch, told, taken):
    found, last, _ = stepped(monkeypatch, told)
    assert last == told[taken] and found == pytest.approx(sum(delay for delay, _ in told[:taken]))


def test_the_fastest_recording_says_how_large_a_delay_is_and_all_must_be_known(monkeypatch):
    slow = {"motion": (0.1, 0.2, 9.0)}
    fast = as_prepared(ROBOT, *np.zeros((4, 3000, 3)), np.arange(3000) / 1000.0)
    known = FirstPiece(1000.0, Spectrum(np.zeros(3), np.full(3, 2.0), np.full(3, 10.0)))
    assert stepped(monkeypatch, [(0.005, 1.0), (0.0, 0.5)], **slow)[2] == []
    assert len(stepped(monkeypatch, [(0.005, 1.0), (0.0, 0.5)], **slow, others=[replace(fast, known=known)])[2]) == 1
    assert stepped(monkeypatch, [(0.1, 1.0), (0.0, 0.5)], others=[fast])[2] == []


def test_the_delay_that_is_left_and_the_mean_error_of_the_joints():
    p = late(0.01)
    information = inform(ROBOT, BASE, [p], delay=True)
    delay, error = large_delay._delay_and_error(information)
    found = wls(information)
    assert delay == pytest.approx(found.delay, rel=0.2) and delay == pytest.approx(0.01, abs=2e-3)
    shares = []
    for j, columns in enumerate(information.columns):
        R = information.triangle(j)
        shares.append(np.linalg.norm(R[:, -1] - R[:, :-1] @ found.value[columns]) / np.linalg.norm(R[:, -1]))
    assert error == pytest.approx(np.mean(shares), rel=0.1)


# --- outlines


def warm_part(start, count, seed):
    rng = np.random.default_rng(seed)
    p = as_prepared(ROBOT, *rng.normal(size=(4, count, 3)), t=start + np.arange(count) / 10.0)
    heat = 30.0 + rng.normal(size=(count, 3))
    return replace(
        p,
        temperature=heat,
        temperatures=np.array((heat.min(axis=0), heat.max(axis=0))),
        notes=(remark("same"), remark(f"of {seed}")),
        segments=(slice(0, 4), slice(6, count)),
    )


def test_an_outline_has_all_but_the_samples():
    parts = [warm_part(5.0, 20, 0), warm_part(9.0, 15, 1)]
    found = outline_of(parts)
    assert list(found.t) == [5.0, pytest.approx(9.0 + 1.4)] and len(found.q) == len(found.sign) == 0
    assert found.segments == (slice(0, 4), slice(6, 20), slice(20, 24), slice(26, 35))
    np.testing.assert_array_equal(found.top_speed, np.maximum(parts[0].top_speed, parts[1].top_speed))
    low, high = (np.array([p.temperatures[k] for p in parts]) for k in (0, 1))
    np.testing.assert_array_equal(found.temperatures, [low.min(axis=0), high.max(axis=0)])
    assert [note.text for note in found.notes] == ["same", "of 0", "of 1"] and found.temperature is None
    assert [note.text for note in outline(parts[1], parts).notes] == ["same", "of 1"]
    empty = emptied(parts[0])
    for field in ("q", "dq", "ddq", "tau"):
        assert getattr(empty, field).shape == (0, 3)
    assert list(empty.t) == [parts[0].t[0], parts[0].t[-1]] and empty.bridged.shape == (0,)
    assert range_of([parts[0].temperatures, None]) is None and range_of([]) is None


def test_functions_over_recordings_here():
    parts = [warm_part(0.0, 20, 0), warm_part(9.0, 15, 1)]
    assert over(lambda whole, some: (whole, *some), parts) == [(p, p) for p in parts]
    assert over(lambda whole, some, k: (len(whole.t), k), parts, ["a", "b"]) == [(20, "a"), (15, "b")]
    assert over(None, []) == []
    found = changed_now(lambda p: replace(p, source=f"{len(p.t)}"), parts)
    assert [p.source for p in found] == ["20", "15"]


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


def test_a_short_recording_keeps_its_ends():
    found = Spectrum(np.zeros(1), np.ones(1), np.array([10.0]))
    long, short = (propose(found, n, 100.0, PreparationOptions()).row for n in (10_000, 500))
    assert long == pytest.approx(3.0) and short == pytest.approx(lower_cutoff.LOBES * 100.0 / (0.05 * 500))


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
    joints = tuple(replace(joint, felt=() if k != 1 else joint.felt) for k, joint in enumerate(ROBOT.joints))
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
    every = replace(ROBOT, joints=tuple(replace(joint, felt=()) for joint in ROBOT.joints), parameters={})
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
    information = inform(ROBOT, BASE, parts, delay=False)
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
    plain = fitter(Method.OLS, problem)(blocks)
    np.testing.assert_allclose(plain.value, solved(W, tau, np.ones_like(tau)), rtol=1e-6, atol=1e-7)
    found = fitter(Method.WLS, problem)(blocks)
    np.testing.assert_allclose(found.value, solved(W, tau, np.ones_like(tau) / found.sigma), rtol=1e-6, atol=1e-7)
    for estimate, weight in ((plain, np.ones(3)), (found, 1.0 / found.sigma)):
        left = tau - W @ estimate.value
        A = np.einsum("mnb,n,mnc->bc", W, weight**2, W)
        used = [np.trace(np.linalg.solve(A, weight[j] ** 2 * W[:, j].T @ W[:, j])) for j in range(3)]
        sigma = np.sqrt(np.sum(left**2, axis=0) / (len(tau) - np.array(used)))
        np.testing.assert_allclose(estimate.sigma, sigma, rtol=1e-5)


@pytest.mark.parametrize("blocks", [None, [*range(3, 28), *range(33, 55)]])
def test_robust_least_squares_of_two_recordings(blocks):
    problem, parts = two_recordings(outliers=15)
    W, tau = stacked(parts, blocks)
    found = fitter(Method.IRLS, problem)(blocks)
    value = found.value
    for _ in range(60):  # from there it must not move
        error = np.abs(tau - W @ value)
        scale = np.array([_scale(error[:, j]) for j in range(3)])
        weight = np.sqrt(1.345 / np.maximum(error / scale, 1.345)) / scale
        value = solved(W, tau, weight)
    np.testing.assert_allclose(found.value, value, atol=0.02 * found.std.max(), rtol=2e-3)
    assert np.all(np.abs(found.value - value) < 0.05 * found.std)
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    z = (found.value - truth) / found.std
    assert 0.4 < np.sqrt(np.mean(z**2)) < 1.8
    plain = fitter(Method.WLS, problem)(blocks)
    assert np.median(np.abs(found.value - truth) / np.abs(plain.value - truth)) < 0.7


def numbered_rows(seed=0):
    """Return two chunks of rows of two joints, each row with the number of its block; the second joint is exact."""
    rng = np.random.default_rng(seed)
    found = []
    for first in (0, 40):
        W = rng.normal(size=(3, 2, 40))
        tau = np.einsum("b,bjt->jt", [1.0, 2.0, 3.0], W)
        tau[0] += 0.5 * rng.standard_t(2, 40)
        keep = rng.uniform(size=(2, 40)) > 0.2
        found.append(((first + np.arange(40)) // 10, Rows(first + np.arange(40.0), W, tau, keep)))
    return found


def test_robust_scales_are_those_of_rows_kept_in_the_blocks_that_count():
    chunks, value = numbered_rows(), np.array([1.0, 2.0, 3.0])
    for blocks in ({0, 1, 2, 3, 4, 5, 6, 7}, {1, 2}, {2, 6}):
        errors = [
            np.abs(rows.tau - np.einsum("b,bjt->jt", value, rows.W))[0, rows.keep[0] & np.isin(numbers, list(blocks))]
            for numbers, rows in chunks
        ]
        found = _robust_scales(chunks, value, 2, blocks)
        assert found[0] == pytest.approx(_scale(np.concatenate(errors)))
        assert found[1] == pytest.approx(1e-12 * found[0], rel=0.1, abs=0.0), "an exact joint still has a scale"


def test_weights_of_rows_are_found_anew_until_nothing_moves():
    """By hand: errors by the last values, scales of the blocks that count, the root of the weight for every row."""
    chunks = [(numbers, replace(rows, W=rows.W[:, :1], tau=rows.tau[:1], keep=rows.keep[:1]))
              for numbers, rows in numbered_rows()]  # fmt: skip
    W, tau, keep = (np.concatenate([getattr(rows, x) for _, rows in chunks], axis=-1) for x in ("W", "tau", "keep"))
    calls = []

    def regather(weight):
        factors = [weight(rows) for _, rows in chunks]
        calls.append(np.concatenate(factors, axis=1)[0])
        made = (replace(rows, W=rows.W * factor, tau=rows.tau * factor, still=None)
                for (_, rows), factor in zip(chunks, factors, strict=True))  # fmt: skip
        return gather(made, np.ones((1, 3), bool), 80, n_blocks=8)

    information = gather((rows for _, rows in chunks), np.ones((1, 3), bool), 80, n_blocks=8)
    for chosen in (None, [0, 2, 3, 4, 6]):
        calls.clear()
        robust, slopes, weights = reweighted(information, lambda: chunks, regather, None, chosen)
        blocks = list(range(8)) if chosen is None else chosen
        counts = keep[0] & np.isin(np.arange(80) // 10, blocks)
        start = wls(information.take(blocks))
        value = start.value
        for k, roots in enumerate(calls[:-1]):
            error = np.abs(tau[0] - value @ W[:, 0])
            scale = _scale(error[counts])
            np.testing.assert_allclose(roots, np.sqrt(1.345 / np.maximum(error / scale, 1.345)), rtol=1e-9)
            used = roots[counts]
            before, value = value, np.linalg.lstsq((W[:, 0, counts] * used).T, tau[0, counts] * used, rcond=None)[0]
            moved = np.max(np.abs(value - before) / start.std)
            assert (moved <= 1e-3) == (k == len(calls) - 2), "until a thousandth of the deviation"
        np.testing.assert_array_equal(calls[-1], error / scale <= 1.345)
        assert weights == pytest.approx([1.0 / scale]) and 2 < len(calls) <= 11
        for part, factor in ((robust, calls[-2]), (slopes, calls[-1])):
            A = np.vstack((W[:, 0], tau))[:, counts] * factor[counts]
            np.testing.assert_allclose(part.triangle(0).T @ part.triangle(0), A @ A.T, atol=1e-8)
            assert len(part.blocks) == len(blocks)


def test_joint_by_joint_from_the_last_one():
    problem, parts = two_recordings()
    W, tau = stacked(parts)
    found = fitter(Method.RECURSIVE, problem)(None)
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
    assert wls(information, iterations=0) is once and wls(information) is often
    start = 1.0 / own_errors(information)
    np.testing.assert_allclose(once.value, solve(weighted_triangle(information, start).R).value, rtol=1e-9)
    end = 1.0 / often.sigma
    np.testing.assert_allclose(often.value, solve(weighted_triangle(information, end).R).value, rtol=1e-6, atol=1e-9)


def weighted_by_hand(information, blocks=None):
    """Return the fit whose rows are divided by the errors of each joint fitted alone; column 4 is zero."""
    part = information if blocks is None else information.take(blocks)
    seen, rows = [0, 1, 2, 3, 5], []
    for j, own in enumerate(information.columns):
        R = np.vstack([block.R[j] for block in part.blocks])
        wide = np.zeros((len(R), 7))
        wide[:, [*own, 6]] = R
        rows.append(wide / own_errors(part)[j])
    A = np.vstack(rows)
    value = np.zeros(6)
    value[seen] = np.linalg.lstsq(A[:, seen], A[:, 6], rcond=None)[0]
    return value


def test_the_delay_and_the_error_are_those_of_joints_weighted_by_their_own_errors():
    information = small_information(7)
    value, shares = weighted_by_hand(information), []
    for j, own in enumerate(information.columns):
        R = np.vstack([block.R[j] for block in information.blocks])
        shares.append(np.linalg.norm(R[:, -1] - R[:, :-1] @ value[own]) / np.linalg.norm(R[:, -1]))
    delay, error = large_delay._delay_and_error(information)
    assert delay == pytest.approx(value[5], rel=1e-8) and error == pytest.approx(np.mean(shares), rel=1e-8)


def test_fits_to_one_band_are_compared_in_another():
    """Blocks of both cover the same times, however many they are."""
    information, band = small_information(8, blocks=12), small_information(9, blocks=9)
    error = torque = 0.0
    for fold in range(3):
        near = [k for k in range(12) if not fold - 0.05 <= (k + 0.5) / 4 <= fold + 1.05]
        value = weighted_by_hand(information, near)
        for block in band.blocks[3 * fold : 3 * fold + 3]:
            for R, own in zip(block.R, band.columns, strict=True):
                error += np.sum((R[:, -1] - R[:, :-1] @ value[own]) ** 2)
                torque += np.sum(R[:, -1] ** 2)
    assert lower_cutoff.held_out_error(information, band) == pytest.approx(np.sqrt(error / torque), rel=1e-8)


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


def test_total_least_squares_by_its_definition():
    """(W^T W - lambda D) base = W^T tau, and the same share of D is taken off the moments of every block."""
    problem, parts = two_recordings()
    noisy = []
    for p in parts:
        rng = np.random.default_rng(len(p.t))
        noisy.append(as_prepared(ROBOT, p.q + 1e-3 * rng.normal(size=p.q.shape), p.dq, p.ddq, p.tau, p.t))
    information = problem.information
    W, other = stacked(parts)[0], stacked(noisy)[0]
    plain = wls(information)
    weight = 1.0 / plain.sigma
    dW = ((other - W) * weight[:, None]).reshape(-1, len(BASE))
    felt = np.zeros((3, len(BASE)), dtype=bool)
    for j, columns in enumerate(information.columns):
        felt[j, columns] = True
    chunks = [Rows(np.arange(930.0), (other - W).transpose(2, 1, 0), np.zeros((3, 930)), np.ones((3, 930), dtype=bool))]
    found = tls(information, gather(chunks, felt, 930))
    full = np.column_stack(((W * weight[:, None]).reshape(-1, len(BASE)), (stacked(parts)[1] * weight).ravel()))
    S, D = full.T @ full, dW.T @ dW
    C = np.zeros_like(S)
    C[:-1, :-1], C[-1, -1] = D, information.rows.sum()
    smallest = 1.0 / eigh(C, S, eigvals_only=True)[-1]
    value = np.linalg.solve(S[:-1, :-1] - smallest * D, S[:-1, -1])
    np.testing.assert_allclose(found.value, value, rtol=1e-4, atol=1e-5)
    assert np.abs(found.value - plain.value).max() > 1e-6 and found.method is Method.TLS
    moments = Moments(np.ones((4, 2, 2)), np.ones((4, 2)), np.zeros(4))
    less = _less_noise(moments, np.array([[4.0, 0.0], [0.0, 8.0]]), np.array([1.0, 3.0]))
    np.testing.assert_allclose(less.A[1], [[0.0, 1.0], [1.0, -1.0]])
    np.testing.assert_allclose(less.g[2], [2.0, 7.0])


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


# --- estimates drawn towards a prior


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
    told = weigh(information, found, prior, force=True)
    by_phase = weigh(different_motion(information), found, prior, force=True)
    by_time = weigh(replace(information, phases=()), found, prior, force=True)
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
            found = drawn_fit(information, fit, prior, force=force, serve=served)(chosen)
            part = information if chosen is None else information.take(chosen)
            told = weigh(part, wls(part), prior, force=force, serve=served)
            wanted = drawn(part, wls(part), prior, told)
            assert asked[-1] == chosen and found.prior is prior
            assert (found.weighing.weight, found.weighing.bodies) == (told.weight, told.bodies)
            assert told.weight > 0.0 and told.bodies == (served is not None), "it helps here"
            np.testing.assert_array_equal(found.estimate.value, wanted.estimate.value)
            np.testing.assert_array_equal(found.share, wanted.share)
    far = Prior(-9.0 * prior.mean, prior.information, "far")
    assert (drawn_fit(information, fit, far, force=force)(None).weighing.weight > 0.0) == force


def test_weights_that_are_tried_and_the_root_of_what_hardly_is_an_information():
    np.testing.assert_allclose(np.log10(WEIGHTS), np.arange(-4, 13) / 2.0, atol=1e-12)
    L = np.diag([4.0, 9.0, -1e-15])
    root = Prior(np.zeros(3), L, "").root
    np.testing.assert_allclose(root.T @ root, np.diag([4.0, 9.0, 0.0]), atol=1e-12)
    oblique = Prior(np.zeros(2), np.array([[2.0, 1.0], [0.0, 2.0]]), "").root
    np.testing.assert_allclose(oblique.T @ oblique, [[2.0, 0.5], [0.5, 2.0]], atol=1e-12)


def test_what_a_fold_does_not_show_is_that_of_the_prior_without_it_too():
    """Only the first blocks move column 4: the fit to the others leaves it where the prior has it."""
    information = small_information(5, blocks=15)
    blocks = []
    for k, block in enumerate(information.blocks):
        R = block.R[0].copy()
        if k < 2:
            R[:, 3] = np.random.default_rng(k).normal(size=len(R))
        blocks.append(replace(block, R=(R, block.R[1])))
    some = replace(information, blocks=tuple(blocks))
    assert torque_scale(information, 4) == np.inf, "a column that nothing moves"
    first = np.vstack([block.R[0] for block in blocks])
    assert torque_scale(some, 4) == pytest.approx(np.linalg.norm(first[:, -1]) / np.linalg.norm(first[:, 3]))
    prior = Prior(np.array([0.0, 0.0, 0.0, 0.0, 5.0, 0.0]), np.eye(6), "x")
    found = wls(some)
    (logs,) = _held_out(some, found, prior, [[0, 1, 2]], [1.0], None)[:1]
    rest = weighted_triangle(some.take(range(3, 15)), 1.0 / found.sigma)
    seen = [0, 1, 2, 3, 5]
    value = np.zeros(6)
    value[seen] = np.linalg.lstsq(rest.W[:, seen], rest.tau, rcond=None)[0]
    value[4] = 5.0
    out = weighted_triangle(some.take(range(3)), 1.0 / found.sigma)
    assert logs[0] == pytest.approx(np.log(np.linalg.norm(out.tau - out.W @ value)), rel=1e-8)


def test_an_estimate_of_any_method_is_drawn_from_its_own_values():
    """|W (x - value)|^2 + weight (x - mean)^T L (x - mean); what only the prior knows is known then."""
    information = small_information(5)
    found = wls(information, np.array([0.0, 0.0, 0.0, 0.0, 2.0, 0.0]))
    found = replace(found, value=1.3 * found.value + 0.1)
    prior = Prior(np.array([1.0, -2.0, 0.5, 3.0, 9.0, 0.1]), np.diag([40.0, 90.0, 20.0, 70.0, 4.0, 10.0]), "x")
    told = drawn(information, found, prior, Weighing(3.0, 0.1, 0.01))
    W = weighted_triangle(information, 1.0 / found.sigma).W
    A, L = W.T @ W, 3.0 * prior.information
    wanted = np.linalg.solve(A + L, A @ found.value + L @ prior.mean)
    np.testing.assert_allclose(told.estimate.value, wanted, rtol=1e-8)
    assert not found.identified[4] and told.estimate.identified.all() and told.share[4] == pytest.approx(1.0)


def test_the_share_of_base_parameters_is_not_that_of_the_delay():
    information, found, prior = drawn_problem(False)
    told = drawn(information, found, prior, Weighing(1.0, 0.1, 0.01))
    assert told.base_share == pytest.approx(told.share[:4].mean()) and abs(told.share[4] - told.base_share) > 1e-3
