"""Parts that estimators and the preparation are made of: each against a plain way to the same answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import large_delay, lower_cutoff, sequential
from ros2_dynid.identification.estimators.covariance import Moments
from ros2_dynid.identification.estimators.fit import Problem, fitter, identify_arrays, inform
from ros2_dynid.identification.estimators.information import gather
from ros2_dynid.identification.estimators.least_squares import own_errors, wls
from ros2_dynid.identification.estimators.robust import _scale
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
    rng, t = np.random.default_rng(seed), np.arange(count) / rate
    q, dq, ddq = np.zeros((3, count, 3))
    for j in range(3):
        for w in rng.uniform(0.5, 8.0, 4):
            a, phase = rng.uniform(0.2, 0.5), rng.uniform(0.0, 6.0)
            q[:, j] += a * np.sin(w * t + phase)
            dq[:, j] += a * w * np.cos(w * t + phase)
            ddq[:, j] -= a * w**2 * np.sin(w * t + phase)
    return t, q, dq, ddq


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
    for bad in (np.zeros((2, 3)), np.full((1, 4), np.nan)):
        with pytest.raises(InputError):
            sequential.update(state, bad)
    for forgetting in (0.0, 1.01, -1.0):
        with pytest.raises(InputError, match="more than 0 and at most 1"):
            sequential.update(state, np.zeros((1, 4)), forgetting)
    for args in ((prior[:2], std), (prior, std[:2]), (prior, 0.0 * std)):
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
