# SPDX-License-Identifier: Apache-2.0

"""Filters: exact on polynomials, flat in the pass band, deaf beyond; spectra of known signals."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.identification.preparation.filters import filtered, lowpass_kernel, output_index, spectrum

RATE, CUTOFF = 1000.0, 20.0


@pytest.mark.parametrize("derivative", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 7])
def test_parabolas_pass_exactly(derivative, step):
    t = np.arange(2000) / RATE
    x = np.column_stack((3.0 - 2.0 * t + 5.0 * t**2, t))
    kernel = lowpass_kernel(CUTOFF, RATE, derivative)
    at = output_index(len(t), len(kernel), step).astype(int)
    expected = (x, np.column_stack((-2.0 + 10.0 * t, np.ones_like(t))), np.tile([10.0, 0.0], (len(t), 1)))[derivative]
    got = filtered(x, kernel, step)
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
    assert np.allclose(filtered(x, kernel, 1), direct, atol=1e-12)


def test_shift_looks_ahead():
    t = np.arange(3000) / RATE
    x = np.sin(2 * np.pi * t)[:, None]
    kernel = lowpass_kernel(CUTOFF, RATE, shift=0.0004)
    at = output_index(len(t), len(kernel), 1) / RATE
    assert np.allclose(filtered(x, kernel, 1)[:, 0], np.sin(2 * np.pi * (at + 0.0004)), atol=1e-4)


def test_too_short_data_give_nothing():
    assert filtered(np.zeros((10, 2)), lowpass_kernel(CUTOFF, RATE), 1).shape == (0, 2)


def test_only_two_derivatives():
    with pytest.raises(ValueError, match="0, 1 or 2"):
        lowpass_kernel(CUTOFF, RATE, 3)


def test_spectrum_finds_motion_and_noise():
    rng = np.random.default_rng(0)
    t = np.arange(20000) / RATE
    q = np.column_stack((np.sin(2 * np.pi * 1.0 * t), np.sin(2 * np.pi * 3.0 * t)))
    noise = 1e-5
    found = spectrum([q + noise * rng.standard_normal(q.shape)], RATE)
    assert np.allclose(found.motion, [1.0, 3.0], atol=0.45)
    assert np.allclose(np.sqrt(found.floor * RATE / 2), noise, rtol=0.15)
