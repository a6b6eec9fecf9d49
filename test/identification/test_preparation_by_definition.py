# SPDX-License-Identifier: Apache-2.0

"""The preparation by its definitions: clocks, spectra, grids, filters, rows and periods in plain loops and sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, remark
from ros2_dynid.identification.options import IdentifyOptions, Method, VelocitySource
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, prepare
from ros2_dynid.identification.preparation import rows as rows_module
from ros2_dynid.identification.preparation.even_grid import (
    FirstPiece,
    Stretch,
    _even_times,
    _noise_ratio,
    _resampled,
    bursts,
    clock_of,
    even_grid,
    later_effort,
    period_of,
    smoothed_over,
)
from ros2_dynid.identification.preparation.filters import (
    HIGHEST,
    Spectrum,
    filtered,
    finer_kernel,
    half_length,
    lowpass_kernel,
    output_index,
    power_spectrum,
    propose,
    spectrum,
    third_octaves,
)
from ros2_dynid.identification.preparation.prepare import check_signals, finite
from ros2_dynid.identification.preparation.rows import (
    find_dependence,
    most_threads,
    row_chunks,
    row_count,
    row_times,
    tabulate_rows,
    windows,
)
from ros2_dynid.identification.regression.build_information import _between, _differences, repetition
from ros2_dynid.identification.regression.build_information import period_of as motion_period
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
W = np.array([2.0, 3.1, 4.3])


def moving(t, scale=1.0):
    """Return a recording at these times whose signals all differ."""
    q = np.sin(np.outer(t, scale * W))
    return Samples(t, NAMES, q, tau=5.0 * np.cos(np.outer(t, scale * W[::-1])), source="made")


# --- clocks


def test_gaps_of_any_size_do_not_make_the_period_longer():
    rng = np.random.default_rng(0)
    steps = rng.uniform(0.2, 1.8, 4000) * 0.003
    steps[::200] = 2.0
    steps[2000] = 3600.0
    usual = np.mean(steps[steps < 1.0])
    assert period_of(np.cumsum(steps)) == pytest.approx(usual, rel=1e-9)


@pytest.mark.parametrize(("off", "regular"), [(0.19, True), (0.21, False)])
def test_steps_near_whole_numbers_of_periods_are_regular(off, regular):
    """Steps of 1 and, a tenth of them, a little more: regular ones count as one period, others by their mean."""
    steps = np.where(np.arange(2000) % 10 == 3, 1.0 + off, 1.0)
    t = np.concatenate(([0.0], np.cumsum(0.01 * steps)))
    assert period_of(t) == pytest.approx(0.01 * np.mean(steps))
    lost = np.where(np.arange(2000) % 7 == 3, 2.0, steps)  # a lost sample is two periods, if stamps are regular
    t = np.concatenate(([0.0], np.cumsum(0.01 * lost)))
    turns = np.where(lost == 2.0, 2.0, 1.0)
    wanted = np.sum(lost) / np.sum(turns) if regular else np.mean(lost)
    assert period_of(t) == pytest.approx(0.01 * wanted)


def test_a_late_message_makes_two_odd_steps_and_the_period_no_shorter():
    number = np.arange(1000.0)
    delay = np.where(np.arange(1000) % 50 == 7, 0.6, 0.0)
    assert period_of(0.01 * (number + delay)) == pytest.approx(0.01, rel=1e-9)


def test_numbers_of_samples_whose_stamps_are_nearly_a_period_late():
    rng = np.random.default_rng(1)
    number = np.delete(np.arange(400), [57, 58, 210])
    delay = rng.uniform(0.0, 0.8, len(number))
    delay[0], delay[-1] = 0.0, 0.75
    found = _even_times(5.0 + 0.01 * (number + delay), 0.01)
    np.testing.assert_allclose(found, 5.0 + 0.01 * (number + delay.mean()), atol=1e-9)
    delay = np.full(len(number), 0.1)
    delay[[100, 250]] = 0.9  # nearer to its successor's place than to its own: the message came late
    found = _even_times(5.0 + 0.01 * (number + delay), 0.01)
    np.testing.assert_allclose(found, 5.0 + 0.01 * (number + delay.mean()), atol=1e-9)


def test_where_no_sample_is_lost_each_has_the_number_of_its_place_however_late_it_is():
    rng, number = np.random.default_rng(2), np.arange(400.0)
    delay = rng.uniform(0.0, 1.6, 400)
    delay[[0, -1]] = 0.8
    stamps = 5.0 + 0.01 * np.sort(number + delay)
    found = _even_times(stamps, 0.01)
    np.testing.assert_allclose(found, 0.01 * number + np.mean(stamps - 0.01 * number), atol=1e-9)


@pytest.mark.parametrize(("begins", "even"), [(0.0, True), (40.0, True), (61.0, False)])
def test_stamps_are_judged_by_the_first_minute(begins, even):
    rng = np.random.default_rng(1)
    true = 0.01 * np.arange(7000)
    stamps = true + rng.uniform(0.0, 0.004, 7000)
    q = np.sin(np.outer(np.maximum(true - begins, 0.0), W))
    assert (clock_of(stamps, q, np.ones(7000, dtype=bool), 0.01).t is not stamps) == even


def test_a_motion_is_resampled_from_its_first_stamp_on():
    t = 5.0 + np.cumsum(np.random.default_rng(0).uniform(0.006, 0.014, 400))
    found = _resampled(t, np.sin(np.outer(t, W)), 0.01)
    grid = t[0] + 0.01 * np.arange(len(found))
    assert grid[-1] <= t[-1] < grid[-1] + 0.01
    np.testing.assert_allclose(found, np.sin(np.outer(grid, W)), atol=1e-5)


@pytest.mark.parametrize(("noise", "even"), [(9e-4, True), (1.6e-3, False)])
def test_an_even_grid_must_leave_half_of_the_noise_at_most(noise, even):
    rng = np.random.default_rng(1)
    true = 0.01 * np.arange(4000)
    stamps = true + rng.uniform(0.0, 0.002, 4000)
    q = np.sin(np.outer(true, W)) + noise * rng.normal(size=(4000, 3))
    grid = true + np.mean(stamps - true)
    ratio = _noise_ratio(*(_resampled(times, q, 0.01) for times in (stamps, grid)), 100.0)
    assert (0.25 < ratio < 0.5) if even else (0.5 < ratio < 0.95)
    assert (clock_of(stamps, q, np.ones(4000, dtype=bool), 0.01).t is not stamps) == even


@pytest.mark.parametrize(("off", "even"), [(0.017, True), (0.023, False)])
def test_stamps_that_are_off_by_a_fiftieth_of_a_period_are_not_even(off, even):
    """Those below are taken as they are; the others are compared, and here an even grid is much smoother."""
    true = 0.01 * np.arange(2000)
    stamps = true + 0.01 * off * np.where(np.random.default_rng(0).random(2000) < 0.5, -1.0, 1.0)
    found = clock_of(stamps, np.sin(np.outer(true, W)), np.ones(2000, dtype=bool), 0.01)
    assert (found.t is stamps) == even and bool(found.notes) != even
    (part,) = even_grid(replace(moving(true), t=stamps)).parts
    np.testing.assert_allclose(part.q, np.sin(np.outer(true, W)), atol=1e-12)


@pytest.mark.parametrize("hertz", [0.6, 8.0])
def test_noise_is_the_power_of_the_speed_beyond_four_times_the_motion(hertz):
    """At most from a quarter of the rate on; the mean of the joints is that of logarithms."""
    rng, rate = np.random.default_rng(3), 100.0
    t = np.arange(4000) / rate
    slow, fast = (np.convolve(rng.normal(size=4040), kernel, "same")[20:-20] for kernel in ([1, 1, 1, 1], [1, -2, 1]))
    motions = [np.column_stack([np.sin(2.0 * np.pi * f * t + k) for k in range(3)]) for f in (hertz, 2.0 * hertz)]
    noises = [np.outer(slow, [1.0, 2.0, 3.0]), np.outer(fast, [1.0, 0.5, 7.0])]
    first, second = (q + 1e-4 * noise for q, noise in zip(motions, noises, strict=True))
    motion = [np.median(spectrum([q], rate).motion) for q in (first, second)]
    beyond = min(4.0 * motion[0], rate / 4.0)
    assert motion[0] < 0.8 * motion[1] and ((beyond < 5.0) if hertz < 1.0 else (beyond == 25.0))
    powers = []
    for q in (first, second):
        f, P = power_spectrum([np.diff(q, axis=0) * rate], rate)
        powers.append(P[f > beyond].sum(axis=0))
    assert _noise_ratio(first, second, rate) == pytest.approx(np.exp(np.mean(np.log(powers[1] / powers[0]))))


# --- spectra


@pytest.mark.parametrize("seed", range(4))
def test_motion_is_what_hangs_together_with_its_peak(seed):
    """Band by band from the strongest one up: it ends before the first that is within ten times the noise."""
    rng, rate, count = np.random.default_rng(seed), 100.0, 6000
    f = np.fft.rfftfreq(count, 1.0 / rate)
    columns = []
    for top in rng.uniform(1.0, 12.0, 3):
        shape = np.where((f > 0.3) & (f < top), 1.0 / np.maximum(f, 0.3), 0.0)
        shape = shape + np.where(
            (f > 20.0) & (f < 21.0), 0.02, 0.0
        )  # a vibration, which does not hang together with it
        columns.append(np.fft.irfft(shape * np.fft.rfft(rng.normal(size=count)), count))
    q = np.column_stack(columns) + 1e-3 * rng.normal(size=(count, 3))
    found = spectrum([q], rate)
    f, P = power_spectrum([np.diff(q, axis=0) * rate], rate)
    white = P / (2.0 * rate * np.sin(np.pi * f / rate))[:, None] ** 2
    floor = np.median(white[f > rate / 3.0], axis=0)
    np.testing.assert_allclose(found.floor, floor)
    edges, level = third_octaves(f, white)
    more = third_octaves(f, np.maximum(P - 10.0 * P / white * floor, 0.0))[1]
    for j in range(3):
        peak = int(np.argmax(more[:, j] * np.diff(edges, prepend=0.0)))
        end = peak
        while end + 1 < len(edges) and level[end + 1, j] > 10.0 * floor[j]:
            end += 1
        assert found.visible[j] == edges[end] < 20.0
        inside = np.cumsum(P[f <= edges[end], j])
        assert found.motion[j] == f[np.flatnonzero(inside >= 0.99 * inside[-1])[0]]


@pytest.mark.parametrize("quantum", [0.0, 1e-3, 3.5e-3, 0.1, 1e3])
def test_the_noise_of_an_encoder_is_that_of_its_steps_where_it_is_larger(quantum):
    rng, rate = np.random.default_rng(0), 100.0
    t = np.arange(6000) / rate
    parts = [np.sin(np.outer(part, 0.2 * W)) + 1e-3 * rng.normal(size=(len(part), 3)) for part in (t[:2000], t[2000:])]
    white = spectrum(parts, rate).floor
    steps = np.array([quantum, 2.0 * quantum, 0.0])
    speed = rate * np.mean([np.abs(np.diff(part, axis=0)).mean(axis=0) for part in parts], axis=0)
    f, _ = power_spectrum(parts, rate)
    of_steps = [
        q**2 / 12.0 / min(max(v / q, f[0]), rate / 2.0) if q else 0.0 for q, v in zip(steps, speed, strict=True)
    ]
    np.testing.assert_allclose(spectrum(parts, rate, steps).floor, np.maximum(white, of_steps), rtol=1e-9)


@pytest.mark.parametrize(("times", "slow"), [(0.98, False), (1.02, True)])
def test_a_rate_is_slow_where_rows_would_keep_more(times, slow):
    motion = times * HIGHEST * 50.0 / 2.2 / 3.0
    found = Spectrum(np.zeros(3), np.full(3, motion), np.full(3, 1.0))
    cutoffs = propose(found, 100_000, 50.0, PreparationOptions())
    assert cutoffs.slow_rate == slow and cutoffs.row == pytest.approx(min(times, 1.0) * HIGHEST * 50.0 / 2.2)
    assert not propose(found, 100_000, 50.0, PreparationOptions(row_cutoff=6.0)).slow_rate


@pytest.mark.parametrize("name", ["position", "row"])
def test_cut_offs_up_to_the_highest_are_carried(name):
    found = Spectrum(np.zeros(3), np.ones(3), np.full(3, 10.0))
    for value, good in ((HIGHEST * 100.0, True), (1.01 * HIGHEST * 100.0, False)):
        asked = PreparationOptions(**{f"{name}_cutoff": value})
        if name == "row":
            asked = replace(asked, position_cutoff=20.0)
        if good:
            assert getattr(propose(found, 100_000, 100.0, asked), name) == value
        else:
            with pytest.raises(InputError, match=rf"the {name} cut-off of 31\.31 Hz .* choose at most 31 Hz"):
                propose(found, 100_000, 100.0, asked, "made")


# --- grids


@pytest.mark.parametrize(
    ("motion", "longest"),
    [((0.2, 1.0, 9.0), 0.05), ((0.001, 0.01, 9.0), 0.5), ((9.0, 50.0, 90.0), 3.5 / 200.0), ((0.1, 0.5, 0.6), 0.1)],
)
def test_gaps_are_bridged_up_to_a_twentieth_of_the_motions_period(motion, longest):
    like = FirstPiece(200.0, Spectrum(np.zeros(3), np.array(motion), np.full(3, 10.0)))
    t = np.arange(2400) / 200.0
    for pause, parts in ((0.97 * longest, 1), (1.03 * longest, 2)):
        grid = even_grid(moving(np.where(t < 6.0, t, t + pause - 1.0 / 200.0), 0.1), like)
        assert len(grid.parts) == parts and grid.known.rate == 200.0 and grid.known.spectrum is like.spectrum


@pytest.mark.parametrize(("lost", "bridged"), [(1, False), (2, False), (3, True), (6, True)])
def test_a_pause_is_a_gap_from_three_and_a_half_periods_on(lost, bridged):
    t = np.delete(np.arange(2000) / 200.0, slice(900, 900 + lost))
    grid = even_grid(moving(t))
    (part,) = grid.parts
    assert np.all(part.bridged[900 : 900 + lost] == bridged) and len(part.t) == 2000
    assert not part.bridged[:899].any() and not part.bridged[901 + lost :].any()
    assert any("gaps of at most" in note.text for note in grid.notes) == bridged
    np.testing.assert_allclose(part.q, np.sin(np.outer(part.t, W)), atol=1e-5)


@pytest.mark.parametrize(("pauses", "told"), [
    ((0.05,), ["1 gaps of at most 50 ms are bridged"]), ((2.0,), ["a gap splits the recording"]),
    ((0.03, 2.0, 0.05), ["2 gaps of at most 50 ms are bridged", "a gap splits the recording"]),
    ((3.0, 0.04, 2.0), ["1 gaps of at most 40 ms are bridged", "2 gaps split the recording"]),
])  # fmt: skip
def test_gaps_are_told_by_what_becomes_of_them(pauses, told):
    like = FirstPiece(200.0, Spectrum(np.zeros(3), np.full(3, 0.5), np.full(3, 10.0)))
    t = np.arange(3200) / 200.0
    for k, pause in enumerate(pauses, start=1):
        t[800 * k :] += pause - 1.0 / 200.0
    notes = [note.text for note in even_grid(moving(t, 0.1), like).notes if "gap" in note.text]
    assert [note.partition(",")[0] for note in notes] == told


def test_a_recording_with_many_gaps_still_shows_how_slow_its_motion_is():
    k = np.arange(6000)
    grid = even_grid(moving(k[k % 40 < 30] / 200.0, 0.5))  # ten samples of forty are lost
    assert len(grid.parts) == 1 and np.all(grid.known.spectrum.motion < 0.7)
    with pytest.raises(InputError, match="gaps cut the recording into shreds"):
        even_grid(moving(k[k % 40 < 12] / 200.0, 0.5))


@pytest.mark.parametrize("times", [2, 4, 10])
def test_the_rate_of_a_driver_that_publishes_faster_than_it_reads(times):
    t = np.arange(8000) / 400.0
    samples = moving(t)
    again = [x[::times].repeat(times, axis=0) for x in (samples.q, samples.tau)]
    grid = even_grid(replace(samples, q=again[0], tau=again[1]))
    (told,) = [note.text for note in grid.notes if "repeat the one before" in note.text]
    assert told.startswith(f"{100.0 * (1.0 - 1.0 / times):.2g} % of the samples")
    assert grid.known.rate == pytest.approx(400.0 / times if times > 2 else 400.0, rel=0.02)
    for part in grid.parts:
        off = np.abs(part.q - np.sin(np.outer(part.t, W)))
        assert np.quantile(off, 0.98) < 2e-3, "but for some where all joints turn back"


def test_a_burst_at_the_very_beginning_is_one_and_the_recording_stays_as_it_is():
    t = np.arange(2400) / 200.0
    samples = moving(t)
    samples.tau[:24, 1] += 40.0 * np.random.default_rng(0).normal(size=24)
    loud = samples.tau.copy()
    (text,) = [note.text for note in even_grid(replace(samples, t=t + 50.0)).notes]
    assert text.startswith(f"the effort of {NAMES[1]} is noisy in short bursts, 1 in all, from 0 s on")
    noisy = bursts(samples.tau)
    assert noisy[:24, 1].all()
    smoothed_over(t, samples.tau, noisy)
    np.testing.assert_array_equal(samples.tau, loud)


@pytest.mark.parametrize("n", [3, -2])
def test_of_all_signals_only_the_effort_is_taken_later(n):
    k = np.arange(20.0)[:, None]
    part = Stretch(k[:, 0], k, 100 + k, 200 + k, k[:, 0] == 7, 300 + k, 400 + k, 500 + k, 600 + k)
    found = later_effort(part, n)
    motion = np.arange(20 - abs(n)) + max(-n, 0)
    for name, first in (("q", 0), ("dq", 200), ("q_r", 300), ("temperature", 400), ("tau_f", 500), ("second", 600)):
        np.testing.assert_array_equal(getattr(found, name)[:, 0], first + motion)
    np.testing.assert_array_equal(found.tau[:, 0], 100 + motion + n)
    assert np.flatnonzero(found.bridged).tolist() == sorted(
        i for i in range(len(motion)) if 7 in (motion[i], motion[i] + n)
    )


def test_signals_with_values_missing_are_left_out_of_a_stretch():
    t = np.arange(400) / 200.0
    whole = {name: np.tile(t[:, None], (1, 3)) for name in ("dq", "q_r", "tau_f")}
    for uneven in (0.0, 0.3):
        times = t + uneven / 200.0 * np.sin(np.arange(400.0))
        for name in whole:
            spoilt = {**whole, name: np.where(np.arange(400)[:, None] == 9, np.nan, whole[name])}
            (part,) = even_grid(replace(moving(times), **spoilt)).parts
            for other in whole:
                assert (getattr(part, other) is None) == (other == name)


# --- filters


@pytest.mark.parametrize("length", [5, 21, 141, 401])
@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize("more", [5, 6, 12, 200, 5001])
def test_outputs_of_a_filter_are_those_of_a_convolution(length, step, more):
    rng = np.random.default_rng(length + step + more)
    x, kernel = rng.normal(size=(length + more, 2, 2)), rng.normal(size=length)
    found, at = filtered(x, kernel, step), output_index(len(x), length, step)
    whole = np.array([[np.convolve(x[:, i, j], kernel, "valid") for j in range(2)] for i in range(2)])
    places = [p for p in range(length - 1, len(x)) if p % step == 0]
    assert found.shape == (len(places), 2, 2)
    np.testing.assert_allclose(found, whole[:, :, [p - length + 1 for p in places]].transpose(2, 0, 1), atol=1e-9)
    np.testing.assert_array_equal(at, [p - length // 2 for p in places])
    assert len(output_index(length - 1, length, step)) == len(filtered(x[: length - 1], kernel, step)) == 0


@pytest.mark.parametrize("m", [1, 3, 8])
@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_a_kernel_sampled_finer_does_the_same_to_the_same_times(m, derivative):
    rate, cutoff = 100.0, 9.0
    coarse, fine = lowpass_kernel(cutoff, rate, derivative), finer_kernel(cutoff, rate, m, derivative)
    assert len(fine) == m * (len(coarse) - 1) + 1
    t = np.arange(len(fine)) / (m * rate)
    for x in (np.sin(2.0 * np.pi * 3.0 * t), np.cos(20.0 * t), 1.0 + t + t**2):
        one, two = np.dot(coarse[::-1], x[::m]), np.dot(fine[::-1], x)
        assert one == pytest.approx(two, rel=5e-3, abs=5e-3 * (2.0 * np.pi * 3.0) ** derivative)


def test_the_highest_cut_off_ends_below_half_of_the_rate_and_the_window_beyond_the_last_tap():
    for factor, quiet in ((1.0, True), (1.3, False)):
        kernel = lowpass_kernel(factor * HIGHEST * 100.0, 100.0)
        at_nyquist = abs(np.sum(kernel * np.where(np.arange(len(kernel)) % 2, -1.0, 1.0)))
        assert (at_nyquist < 3e-3) == quiet
    kernel = lowpass_kernel(5.0, 100.0)
    assert half_length(5.0, 100.0) == 50 == len(kernel) // 2 and half_length(1e9, 100.0) == 1
    k = np.arange(-50, 51)
    window = 0.42 + 0.5 * np.cos(np.pi * k / 51) + 0.08 * np.cos(2 * np.pi * k / 51)
    h = np.sinc(2.0 * 5.0 * k / 100.0) * window
    np.testing.assert_allclose(kernel, h / h.sum(), atol=1e-12)


# --- whole recordings


def test_the_longest_stretch_decides_about_filters_and_velocities():
    t = np.concatenate((np.arange(0.0, 4.0, 0.005), np.arange(10.0, 40.0, 0.005)))
    samples = moving(t, 0.2)
    rng = np.random.default_rng(0)
    speed = 0.2 * W * np.cos(np.outer(t, 0.2 * W))
    speed[:700] *= 3.0  # a measured velocity that does not fit, in the first and shorter stretch
    noisy = replace(samples, q=samples.q + 1e-4 * rng.normal(size=samples.q.shape), dq=speed)
    found = prepare(ROBOT, noisy)
    alone = prepare(ROBOT, noisy.take(t > 9.0))
    assert found.filter.velocity == ("measured",) * 3 and len(found.segments) == 2
    assert found.filter.row_cutoff == pytest.approx(alone.filter.row_cutoff, rel=0.2)
    short = prepare(ROBOT, moving(np.arange(0.0, 4.0, 0.005), 0.2))
    assert short.filter.row_cutoff > 1.5 * alone.filter.row_cutoff


def test_a_recording_that_is_too_short_for_its_filters_says_how_much_they_need():
    asked = PreparationOptions(position_cutoff=5.0, row_cutoff=1.0)
    kernels = 2 * 100 + 1, 2 * int(np.ceil(2.5 * 20.0)) + 1  # the inner rate is 20 Hz, every tenth sample
    with pytest.raises(InputError, match=f"no stretch of {(kernels[0] + 10 * kernels[1]) / 200.0:.2g} s without a gap"):
        prepare(ROBOT, moving(np.arange(0.0, 5.0, 0.005)), asked)
    rows = prepare(ROBOT, moving(np.arange(0.0, 6.1, 0.005)), asked)
    assert len(rows.t) >= kernels[1] and row_count(rows) >= 1
    assert rows.filter.dropped == pytest.approx((100 + 10 * 50) / 200.0)


def test_commands_keep_what_positions_keep():
    t = np.arange(0.0, 6.0, 0.005)
    fast = np.sin(2.0 * np.pi * 18.0 * t)[:, None] * np.ones(3)
    found = prepare(ROBOT, replace(moving(t), q_r=fast), PreparationOptions(position_cutoff=45.0, row_cutoff=4.0))
    wanted = np.sin(2.0 * np.pi * 18.0 * found.t)
    np.testing.assert_allclose(found.commands[:-20, 0, 0, 1], wanted[:-20], atol=0.02)


def test_notes_of_a_recording_stay_and_a_slow_rate_is_told():
    t = np.arange(0.0, 30.0, 0.05)
    found = prepare(ROBOT, replace(moving(t, 2.0), notes=(remark("as recorded"),)))
    assert found.notes[0].text == "as recorded"
    assert any(note.text.startswith("20 samples a second show motion") for note in found.notes)
    fast = prepare(ROBOT, moving(np.arange(0.0, 30.0, 0.005), 2.0))
    assert not any("samples a second" in note.text for note in fast.notes)


def test_times_that_are_not_finite_are_left_out_and_a_joint_to_hold_is_held_where_it_is():
    t = np.arange(400) / 200.0
    samples = moving(t)
    samples.t[7] = np.nan
    samples.q[9, 1] = np.nan
    assert len(finite(samples)) == 398 and "2 samples" in finite(samples).notes[0].text
    held = moving(t)
    held.q[:, 1] = 0.7 + 4e-4 * np.sin(t)
    with pytest.raises(InputError, match=rf"'{NAMES[1]}' never moved .*hold: {{{NAMES[1]}: 0\.7"):
        check_signals(held)


def test_arrays_as_they_are():
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(4, 30, 3)) - 2.0
    found = as_prepared(ROBOT, *arrays, 0.25 * np.arange(30.0), slow=0.1, source="x")
    np.testing.assert_array_equal(found.top_speed, np.abs(arrays[1]).max(axis=0))
    assert (found.filter.rate, found.filter.inner_rate, found.filter.row_rate, found.filter.slow) == (
        4.0,
        4.0,
        4.0,
        0.1,
    )
    assert found.filter.dropped == 0.0 and found.step == 1 and found.segments == (slice(0, 30),) and found.source == "x"
    np.testing.assert_array_equal(found.sign, np.sign(arrays[1]))
    np.testing.assert_array_equal(as_prepared(ROBOT, *arrays).t, np.arange(30.0))
    assert as_prepared(ROBOT, *arrays[:, :1]).filter.rate == 1.0
    assert as_prepared(ROBOT, *arrays[:, :2], np.array([0.0, 0.25])).filter.rate == 4.0
    for k, name in enumerate(("q", "dq", "ddq", "tau")):
        bad = arrays.copy()
        bad[k, 3, 1] = np.inf
        with pytest.raises(InputError, match=f"^x: {name} holds values that are not finite"):
            as_prepared(ROBOT, *bad, source="x")
    with pytest.raises(InputError, match="time holds values"):
        as_prepared(ROBOT, *arrays, np.where(np.arange(30) == 4, np.nan, np.arange(30.0)))


# --- rows


def filtered_recording(seconds=8.0):
    t = np.arange(0.0, seconds, 0.005)
    samples = moving(t[(t < 3.3) | (t > 4.5)])
    found = prepare(ROBOT, samples, PreparationOptions(position_cutoff=15.0, row_cutoff=4.0, slow=0.0))
    assert len(found.segments) == 2
    return found


def all_rows(*args, **more):
    chunks = list(row_chunks(*args, **more))
    return [np.concatenate([getattr(c, name) for c in chunks], axis=-1) for name in ("t", "W", "tau", "keep")]


def plain_rows(p, columns):
    """Return t, W (b, n, m), tau and slope (n, m) by convolution of the regressor, with filtered signs."""
    Y = regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, columns]
    names = standard_names(ROBOT)
    for k, column in enumerate(columns):
        if names[column].startswith("Fc"):
            joint = int(names[column][2:]) - 1
            Y[:, :, k] = 0.0
            Y[:, joint, k] = p.sign[:, joint]
    K = len(p.kernel) // 2

    def passed(x, segment, kernel):
        return np.convolve(x[segment], kernel, "valid")[:: p.step]

    parts = []
    for s in p.segments:
        W = np.array([[passed(Y[:, j, k], s, p.kernel) for j in range(3)] for k in range(len(columns))])
        tau, slope = (
            np.array([passed(p.tau[:, j], s, kernel) for j in range(3)]) for kernel in (p.kernel, p.slope_kernel)
        )
        parts.append((p.t[s][K : len(p.t[s]) - K : p.step], W, tau, slope))
    return [np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)]


@pytest.mark.parametrize("n_rows", [None, 7])
def test_rows_are_regressor_and_torque_through_the_same_filter(n_rows):
    p = filtered_recording()
    columns = base_parameters(ROBOT).columns(ROBOT)
    t, W, tau, keep = all_rows(ROBOT, p, columns, delay=True, n_rows=n_rows)
    wanted = plain_rows(p, columns)
    np.testing.assert_allclose(t, wanted[0])
    np.testing.assert_allclose(W[:-1], wanted[1], atol=1e-9)
    np.testing.assert_allclose(tau, wanted[2], atol=1e-9)
    np.testing.assert_allclose(W[-1], -wanted[3], atol=1e-9)
    assert keep.all() and keep.shape == tau.shape
    np.testing.assert_allclose(row_times(p), t)
    assert row_count(p) == len(t)
    bare = all_rows(replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.CUBIC, 3.0),)), p, columns[::-1])
    np.testing.assert_allclose(bare[1], W[:-1][::-1], atol=1e-9)


def test_rows_of_a_robot_with_passive_joints():
    robot = load_robot("hitachi_hpr")
    assert len(robot.active) == 5 < robot.n
    t = np.arange(0.0, 5.0, 0.01)
    w = np.linspace(1.0, 3.0, 5)
    samples = Samples(t, robot.active_names, 0.4 * np.sin(np.outer(t, w)), tau=np.cos(np.outer(t, w[::-1])))
    p = prepare(robot, samples, PreparationOptions(position_cutoff=12.0, row_cutoff=4.0, slow=0.0))
    columns = base_parameters(robot).columns(robot)
    _, found, tau, _ = all_rows(robot, p, columns)
    Y = regressor(robot, p.q, p.dq, p.ddq)[:, :, columns]
    smooth = [k for k, column in enumerate(columns) if not standard_names(robot)[column].startswith("Fc")]
    for j in range(5):
        np.testing.assert_allclose(tau[j], np.convolve(p.tau[:, j], p.kernel, "valid")[:: p.step], atol=1e-9)
        for k in smooth:
            wanted = np.convolve(Y[:, j, k], p.kernel, "valid")[:: p.step]
            np.testing.assert_allclose(found[k, j], wanted, atol=1e-9 * max(1.0, np.abs(wanted).max()))


def test_rows_made_by_several_threads_come_in_order(monkeypatch):
    p = filtered_recording()
    columns = base_parameters(ROBOT).columns(ROBOT)
    terms = (FrictionTerm(2, FrictionKind.CUBIC, 1.0),)
    alone = list(row_chunks(ROBOT, p, columns, delay=True, terms=terms, n_rows=3))
    started = []
    threads = rows_module.in_threads
    monkeypatch.setattr(rows_module, "in_threads", lambda make, chosen: started.append(1) or threads(make, chosen))
    monkeypatch.setattr(rows_module, "WORTH_THREADS", len(p.t) // 2)
    together = list(row_chunks(ROBOT, p, columns, delay=True, terms=terms, n_rows=3))
    assert len(started) == 1 and len(together) == len(alone) > 12
    for one, other in zip(alone, together, strict=True):
        for name in ("t", "W", "tau", "keep", "still"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    few = list(row_chunks(ROBOT, p, columns, delay=True, terms=terms, n_rows=3, every=3))
    assert len(started) == 1, "a third of them is not worth it"
    assert [chunk.t[0] for chunk in few] == [chunk.t[0] for chunk in alone[::3]]
    token = most_threads.set(1)
    try:
        list(row_chunks(ROBOT, p, columns, n_rows=3))
    finally:
        most_threads.reset(token)
    assert len(started) == 1


def test_columns_that_a_joint_feels_by_brute_force():
    columns = base_parameters(ROBOT).columns(ROBOT)
    q, dq, ddq = np.random.default_rng(5).normal(size=(3, 50, 3))
    felt = np.abs(regressor(ROBOT, q, dq, ddq)[:, :, columns]).max(axis=0) > 1e-9
    np.testing.assert_array_equal(find_dependence(ROBOT, columns), felt)
    np.testing.assert_array_equal(find_dependence(ROBOT, columns[::-1]), felt[:, ::-1])
    find_dependence(ROBOT, columns)[:] = False
    np.testing.assert_array_equal(find_dependence(ROBOT, columns), felt)


def test_friction_is_zero_in_the_rows_of_a_joint_that_rests():
    t = np.arange(0.0, 12.0, 0.005)
    q = np.sin(np.outer(t, W))
    rest = (t > 4.0) & (t < 8.0)
    q[:, 1] = np.where(
        rest,
        q[np.searchsorted(t, 4.0), 1],
        q[:, 1] + np.where(t >= 8.0, q[np.searchsorted(t, 4.0), 1] - q[np.searchsorted(t, 8.0), 1], 0.0),
    )
    samples = replace(moving(t), q=q)
    p = prepare(ROBOT, samples, PreparationOptions(position_cutoff=15.0, row_cutoff=4.0, slow=0.05))
    columns = base_parameters(ROBOT).columns(ROBOT)
    names = [standard_names(ROBOT)[column] for column in columns]
    cubic = FrictionTerm(2, FrictionKind.CUBIC)
    for plain in (None, tabulate_rows(ROBOT, [p], columns, delay=False).of(0)):
        chunks = list(row_chunks(ROBOT, p, columns, terms=(cubic, FrictionTerm(3, FrictionKind.ROOT)), plain=plain))
        time = np.concatenate([c.t for c in chunks])
        Wk, still = (np.concatenate([getattr(c, name) for c in chunks], axis=-1) for name in ("W", "still"))
        deep = (time > 4.7) & (time < 7.3)
        assert still[1][deep].all() and not still[1][(time < 3.3) | (time > 8.7)].any() and not still[[0, 2]].any()
        b = len(columns)
        for k in (names.index("Fc2"), b):
            assert not Wk[k, 1][still[1]].any() and np.abs(Wk[k, 1][~still[1]]).max() > 0.1
        assert np.abs(Wk[b + 1, 2][still[1]]).max() > 0.1 and np.abs(Wk[names.index("Fc3"), 2][still[1]]).max() > 0.1


def test_windows_cover_every_row_once():
    p = filtered_recording()
    at = np.concatenate([window.at for window in windows(p, 7)])
    K = len(p.kernel) // 2
    wanted = [k for s in p.segments for k in range(s.start + K, s.stop - K, p.step)]
    assert at.tolist() == wanted
    for window in windows(p, 7):
        assert window.inputs.start == window.at[0] - K and window.inputs.stop == window.at[-1] + K + 1


# --- motions that repeat


def test_differences_after_every_lag_by_their_definition():
    rng = np.random.default_rng(0)
    q = np.cumsum(rng.normal(size=(60, 2)), axis=0) * np.array([1.0, 30.0]) + 5.0
    x = (q - q.mean(axis=0)) / q.std(axis=0)
    found = _differences(q)
    assert len(found) == 60
    for lag in range(1, 60):
        a, b = x[lag:], x[:-lag]
        assert found[lag] == pytest.approx(np.sqrt(np.sum((a - b) ** 2) / np.sum(a**2 + b**2)), abs=1e-6)


@pytest.mark.parametrize("place", [3.0, 3.3, 2.6])
def test_the_smallest_difference_lies_between_samples(place):
    lags = np.arange(8.0)
    found = np.sqrt(0.01 + 0.2 * (lags - place) ** 2)
    assert _between(found, 3) == pytest.approx(place)
    assert _between(found, 0) == 0.0 and _between(found, 7) == 7.0 and _between(np.ones(8), 3) == 3.0


@pytest.mark.parametrize(("period", "found"), [(0.9, 1.8), (1.1, 1.1), (3.3, 3.3)])
def test_the_shortest_period_is_a_second_and_the_first_that_fits_is_taken(period, found):
    t = np.arange(0.0, 20.0, 0.02)
    q = np.column_stack(
        [np.sin(2.0 * np.pi * k * t / period + k) + 0.3 * np.cos(2.0 * np.pi * t / period) for k in (1, 2)]
    )
    assert motion_period(q, 50.0) == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(("noise", "repeats"), [(0.0085, True), (0.024, False)])
def test_a_motion_repeats_where_the_difference_is_below_a_fiftieth(noise, repeats):
    """Of white noise of this share the difference after a period is its root of 2 over that of both: the share."""
    t = np.arange(0.0, 24.0, 0.02)
    q = np.column_stack([np.sin(2.0 * np.pi * k * t / 4.0 + k) for k in (1, 2, 3)])
    noisy = q + noise * q.std(axis=0) * np.random.default_rng(0).normal(size=q.shape)
    assert (motion_period(noisy, 50.0) is not None) == repeats


def test_the_longest_segment_is_looked_at_and_at_fifty_hertz():
    rate = 200.0
    t = np.arange(0.0, 60.0, 1.0 / rate)
    q = np.column_stack([np.sin(2.0 * np.pi * k * t / 5.0 + k) for k in (1, 2, 3)])
    q[:4000] = np.cumsum(np.random.default_rng(0).normal(size=(4000, 3)), axis=0)
    p = as_prepared(ROBOT, q, q, q, q, t)
    assert repetition(replace(p, segments=(slice(0, 4000), slice(4000, 12_000)))) == pytest.approx(5.0, rel=1e-4)
    assert repetition(replace(p, segments=(slice(0, 4000), slice(4000, 6000)))) is None
    assert repetition(replace(p, q=p.q[:0])) is None


# --- names and defaults


def test_names_of_choices_are_those_that_callers_write():
    assert [str(method) for method in Method] == [
        "ols", "wls", "irls", "tls", "iv", "idim-iv", "didim", "energy", "sequential", "recursive",
    ]  # fmt: skip
    assert [str(source) for source in VelocitySource] == ["auto", "position", "measured"]
    assert all(Method(str(method)) is method for method in Method)


def test_what_is_done_unless_asked_otherwise():
    found = IdentifyOptions()
    assert (found.method, found.cross_validate, found.checks, found.friction) == (Method.WLS, None, True, "auto")
    assert (found.essential, found.standard, found.consistent) == (False, False, False)
    assert (found.prior, found.distance, found.sensor, found.torque_sensor) == ("auto", "scaled", "auto", "link")
    assert found.controller is None and found.preparation == PreparationOptions()
    plain = PreparationOptions()
    assert (plain.position_cutoff, plain.row_cutoff, plain.row_rate, plain.delay) == (None, None, None, None)
    assert (plain.slow, plain.velocity, plain.gains) == (0.02, VelocitySource.AUTO, {})
    gains = {NAMES[2]: 3.0, NAMES[0]: -2.0}
    np.testing.assert_array_equal(PreparationOptions(gains=gains).gains_of(ROBOT), [-2.0, 1.0, 3.0])
