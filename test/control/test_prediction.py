"""The motion behind measured positions: exact for cubics, close for sines, at any rate, and never over a break."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import savgol_filter

from ros2_dynid.control.prediction import WINDOW, MotionWindow


def fed(window, times, positions):
    for t, q in zip(times, positions, strict=True):
        window.take(round(1e9 * t), q)
    return window.middle()


def test_a_cubic_is_fitted_exactly_at_uneven_stamps():
    rng = np.random.default_rng(0)
    t = 1000.0 + np.cumsum(rng.uniform(0.001, 0.004, 200))
    c = rng.normal(size=(4, 3))
    x = (t - t[0])[:, None]
    found = fed(MotionWindow(), t, c[0] + c[1] * x + c[2] * x**2 + c[3] * x**3)
    s = 1e-9 * found.stamp - t[0]
    assert np.allclose(found.q, c[0] + c[1] * s + c[2] * s**2 + c[3] * s**3, atol=1e-6)
    assert np.allclose(found.dq, c[1] + 2 * c[2] * s + 3 * c[3] * s**2, atol=1e-5)
    assert np.allclose(found.ddq, 2 * c[2] + 6 * c[3] * s, atol=2e-3)
    assert t[-1] - t[0] - s < WINDOW


@pytest.mark.parametrize("rate", [50.0, 125.0, 1000.0])
def test_the_acceleration_of_a_sine_at_any_rate(rate):
    t = np.arange(0, 1, 1 / rate)
    w = 2 * np.pi * 2.0
    found = fed(MotionWindow(), t, np.sin(w * t)[:, None])
    s = 1e-9 * found.stamp
    assert abs(found.ddq[0] + w**2 * np.sin(w * s)) < (0.03 if rate > 100 else 0.15) * w**2
    assert abs(found.dq[0] - w * np.cos(w * s)) < 0.03 * w


def test_on_an_even_stream_it_is_savitzky_and_golay():
    t = np.arange(0, 0.4, 0.002)
    q = np.random.default_rng(1).normal(size=(len(t), 2))
    window = MotionWindow()
    found = fed(window, t, q)
    k = round(1e-9 * found.stamp / 0.002)
    count = 2 * (len(t) - 1 - k) + 1
    expected = savgol_filter(q, count, 3, deriv=2, delta=0.002, axis=0)[k]
    assert np.allclose(found.ddq, expected, rtol=1e-6)


def test_a_jump_back_a_pause_and_nan_break_the_stream():
    t = np.arange(0, 0.1, 0.002)
    q = np.zeros((len(t), 1))
    for stamp, position in ((0.01, 0.0), (5.0, 0.0), (0.1, np.nan)):
        window = MotionWindow()
        assert fed(window, t, q) is not None
        window.take(round(1e9 * stamp), np.array([position]))
        assert window.middle() is None
