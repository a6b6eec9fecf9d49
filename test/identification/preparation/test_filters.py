# SPDX-License-Identifier: Apache-2.0

"""Low-pass filters that differentiate, and the cut-offs that the spectrum of a motion proposes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.cutoffs import (
    Spectrum,
    estimate_spectrum,
    first_seconds,
    power_spectrum,
    propose_cutoffs,
    third_octaves,
)
from ros2_dynid.identification.preparation.filters import (
    MAX_CUTOFF_SHARE,
    filter_signal,
    finer_kernel,
    half_length,
    lowpass_kernel,
    output_index,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo3")


NAMES = ROBOT.active_names


W = np.array([2.0, 3.1, 4.3])


def moving(t, scale=1.0):
    """Return a recording at these times whose signals all differ."""
    q = np.sin(np.outer(t, scale * W))
    return Samples(t, NAMES, q, tau=5.0 * np.cos(np.outer(t, scale * W[::-1])), source="made")


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
    found = estimate_spectrum([q], rate)
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
    white = estimate_spectrum(parts, rate).floor
    steps = np.array([quantum, 2.0 * quantum, 0.0])
    speed = rate * np.mean([np.abs(np.diff(part, axis=0)).mean(axis=0) for part in parts], axis=0)
    f, _ = power_spectrum(parts, rate)
    of_steps = [
        q**2 / 12.0 / min(max(v / q, f[0]), rate / 2.0) if q else 0.0 for q, v in zip(steps, speed, strict=True)
    ]
    np.testing.assert_allclose(estimate_spectrum(parts, rate, steps).floor, np.maximum(white, of_steps), rtol=1e-9)


@pytest.mark.parametrize(("times", "slow"), [(0.98, False), (1.02, True)])
def test_a_rate_is_slow_where_rows_would_keep_more(times, slow):
    motion = times * MAX_CUTOFF_SHARE * 50.0 / 2.2 / 3.0
    found = Spectrum(np.zeros(3), np.full(3, motion), np.full(3, 1.0), 100.0)
    cutoffs = propose_cutoffs(replace(found, rate=50.0), 100_000, PreparationOptions())
    assert cutoffs.slow_rate == slow and cutoffs.row == pytest.approx(min(times, 1.0) * MAX_CUTOFF_SHARE * 50.0 / 2.2)
    assert not propose_cutoffs(replace(found, rate=50.0), 100_000, PreparationOptions(row_cutoff=6.0)).slow_rate


@pytest.mark.parametrize("name", ["position", "row"])
def test_cut_offs_up_to_the_highest_are_carried(name):
    found = Spectrum(np.zeros(3), np.ones(3), np.full(3, 10.0), 100.0)
    for value, good in ((MAX_CUTOFF_SHARE * 100.0, True), (1.01 * MAX_CUTOFF_SHARE * 100.0, False)):
        asked = PreparationOptions(**{f"{name}_cutoff": value})
        if name == "row":
            asked = replace(asked, position_cutoff=20.0)
        if good:
            assert getattr(propose_cutoffs(replace(found, rate=100.0), 100_000, asked), name) == value
        else:
            with pytest.raises(InputError, match=rf"the {name} cut-off of 31\.31 Hz .* choose at most 31 Hz"):
                propose_cutoffs(replace(found, rate=100.0), 100_000, asked, "made")


@pytest.mark.parametrize("length", [5, 21, 141, 401])
@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize("more", [5, 6, 12, 200, 5001])
def test_outputs_of_a_filter_are_those_of_a_convolution(length, step, more):
    rng = np.random.default_rng(length + step + more)
    x, kernel = rng.normal(size=(length + more, 2, 2)), rng.normal(size=length)
    found, at = filter_signal(x, kernel, step), output_index(len(x), length, step)
    whole = np.array([[np.convolve(x[:, i, j], kernel, "valid") for j in range(2)] for i in range(2)])
    places = [p for p in range(length - 1, len(x)) if p % step == 0]
    assert found.shape == (len(places), 2, 2)
    np.testing.assert_allclose(found, whole[:, :, [p - length + 1 for p in places]].transpose(2, 0, 1), atol=1e-9)
    np.testing.assert_array_equal(at, [p - length // 2 for p in places])
    assert len(output_index(length - 1, length, step)) == len(filter_signal(x[: length - 1], kernel, step)) == 0


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
        kernel = lowpass_kernel(factor * MAX_CUTOFF_SHARE * 100.0, 100.0)
        at_nyquist = abs(np.sum(kernel * np.where(np.arange(len(kernel)) % 2, -1.0, 1.0)))
        assert (at_nyquist < 3e-3) == quiet
    kernel = lowpass_kernel(5.0, 100.0)
    assert half_length(5.0, 100.0) == 50 == len(kernel) // 2 and half_length(1e9, 100.0) == 1
    k = np.arange(-50, 51)
    window = 0.42 + 0.5 * np.cos(np.pi * k / 51) + 0.08 * np.cos(2 * np.pi * k / 51)
    h = np.sinc(2.0 * 5.0 * k / 100.0) * window
    np.testing.assert_allclose(kernel, h / h.sum(), atol=1e-12)


RATE, CUTOFF = 1000.0, 20.0


@pytest.mark.parametrize("derivative", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 7])
def test_parabolas_pass_exactly(derivative, step):
    t = np.arange(2000) / RATE
    x = np.column_stack((3.0 - 2.0 * t + 5.0 * t**2, t))
    kernel = lowpass_kernel(CUTOFF, RATE, derivative)
    at = output_index(len(t), len(kernel), step).astype(int)
    expected = (x, np.column_stack((-2.0 + 10.0 * t, np.ones_like(t))), np.tile([10.0, 0.0], (len(t), 1)))[derivative]
    got = filter_signal(x, kernel, step)
    curvature = 0.0 if derivative else 5.0 * np.sum(kernel * ((np.arange(len(kernel)) - len(kernel) // 2) / RATE) ** 2)
    assert got.shape == (len(at), 2)
    assert np.allclose(got - [curvature, 0.0], expected[at], atol=1e-7)


@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_pass_band_is_flat_and_differentiates_without_loss(derivative):
    f = np.array([0.5, 2.0, 8.0])
    kernel = lowpass_kernel(CUTOFF, RATE, derivative)
    t = (np.arange(len(kernel)) - len(kernel) // 2) / RATE
    response = np.exp(-2j * np.pi * np.outer(f, t)) @ kernel
    assert np.allclose(response / (2j * np.pi * f) ** derivative, 1.0, atol=3e-3)


def test_stop_band():
    kernel = lowpass_kernel(CUTOFF, RATE)
    t = (np.arange(len(kernel)) - len(kernel) // 2) / RATE
    f = np.linspace(1.6 * CUTOFF, RATE / 2, 200)
    assert np.max(np.abs(np.exp(-2j * np.pi * np.outer(f, t)) @ kernel)) < 2e-3


def test_fast_convolution_is_the_direct_one():
    rng = np.random.default_rng(0)
    x, kernel = rng.standard_normal((3000, 3)), lowpass_kernel(CUTOFF, RATE)
    direct = np.column_stack([np.convolve(x[:, j], kernel, mode="valid") for j in range(3)])
    assert np.allclose(filter_signal(x, kernel, 1), direct, atol=1e-12)


def test_shift_looks_ahead():
    t = np.arange(3000) / RATE
    x = np.sin(2 * np.pi * t)[:, None]
    kernel = lowpass_kernel(CUTOFF, RATE, shift=0.0004)
    at = output_index(len(t), len(kernel), 1) / RATE
    assert np.allclose(filter_signal(x, kernel, 1)[:, 0], np.sin(2 * np.pi * (at + 0.0004)), atol=1e-4)


def test_too_short_data_give_nothing():
    assert filter_signal(np.zeros((10, 2)), lowpass_kernel(CUTOFF, RATE), 1).shape == (0, 2)


def test_only_two_derivatives():
    with pytest.raises(ValueError, match="0, 1 or 2"):
        lowpass_kernel(CUTOFF, RATE, 3)


def test_spectrum_finds_motion_and_noise():
    rng = np.random.default_rng(0)
    t = np.arange(20000) / RATE
    q = np.column_stack((np.sin(2 * np.pi * 1.0 * t), np.sin(2 * np.pi * 3.0 * t)))
    noise = 1e-5
    found = estimate_spectrum([q + noise * rng.standard_normal(q.shape)], RATE)
    assert np.allclose(found.motion, [1.0, 3.0], atol=0.45)
    assert np.allclose(np.sqrt(found.floor * RATE / 2), noise, rtol=0.15)


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
    found = Spectrum(np.zeros(3), np.array([0.5, 1.0, 2.0]) * motion_hz, np.array([0.5, 1.0, 2.0]) * visible, rate)
    cutoffs = propose_cutoffs(found, n, PreparationOptions())
    highest = cutoffs.position if rate == 200.0 else None
    assert cutoffs.row == pytest.approx(row, rel=0.1 if highest else 1e-9)
    assert cutoffs.position == pytest.approx(position, rel=0.1 if highest else 1e-9)
    assert cutoffs.slow_rate == (rate == 200.0)
    assert cutoffs.step == max(1, int(rate / (4.0 * cutoffs.position)))
    assert cutoffs.row_step == max(1, int(rate / cutoffs.step / (5.0 * cutoffs.row) + 0.5))
    asked = propose_cutoffs(found, n, PreparationOptions(position_cutoff=11.0, row_cutoff=3.0, row_rate=7.0))
    assert (asked.position, asked.row, asked.row_step) == (11.0, 3.0, int(rate / asked.step / 7.0 + 0.5))


def test_a_spectrum_tells_noise_motion_and_where_it_drowns():
    rng, rate = np.random.default_rng(0), 200.0
    t = np.arange(8000) / rate
    sigma = np.array([1e-4, 1e-3, 1e-4])
    q = np.column_stack((np.sin(2 * np.pi * 0.5 * t), np.sin(2 * np.pi * 2.0 * t), np.zeros_like(t)))
    q = q + sigma * rng.normal(size=q.shape)
    found = estimate_spectrum([q[:5000], q[5000:]], rate)
    np.testing.assert_allclose(found.floor, sigma**2 / (0.5 * rate), rtol=0.15)
    assert 0.4 < found.motion[0] < 1.0 and 1.6 < found.motion[1] < 2.5
    assert 0.5 < found.visible[0] < 10.0 and 2.0 < found.visible[1] < 15.0
    assert found.motion[2] == found.visible[2] == 0.0
    step = np.array([1e-2, 0.0, 1e-9])
    coarse = estimate_spectrum([np.round(q / 1e-2) * 1e-2], rate, np.array([1e-2, 1e-2, 1e-2]))
    speed = np.mean(np.abs(np.diff(np.round(q[:, 0] / 1e-2) * 1e-2))) * rate
    assert coarse.floor[0] >= step[0] ** 2 / 12.0 / (speed / 1e-2) * 0.999


def test_only_the_first_two_minutes_are_looked_at():
    parts = [np.zeros((n, 2)) for n in (5000, 4000, 9000, 10)]
    assert [len(x) for x in first_seconds(parts, 100.0)] == [5000, 4000, 3000]
    assert [len(x) for x in first_seconds(parts, 1000.0)] == [5000, 4000, 9000, 10]
    assert [len(x) for x in first_seconds([np.zeros((11_999, 1)), np.zeros((5, 1))], 100.0)] == [11_999]
