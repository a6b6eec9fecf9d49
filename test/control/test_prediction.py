# SPDX-License-Identifier: Apache-2.0

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
    for stamp, position in ((0.01, 0.0), (t[-1], 0.0), (5.0, 0.0), (0.1, np.nan)):
        window = MotionWindow()
        assert fed(window, t, q) is not None
        window.take(round(1e9 * stamp), np.array([position]))
        assert window.middle() is None


def plain_middle(stream, window=0.06):
    """The rule as it is written down, from the whole stream: the stamps that are fitted, or None."""
    kept = []
    for t, q in stream:
        if not np.all(np.isfinite(q)):
            kept = []
            continue
        if kept:
            pause = 1e-9 * (t - kept[-1][0])
            usual = 1e-9 * (kept[-1][0] - kept[0][0]) / (len(kept) - 1) if len(kept) > 1 else window
            if pause <= 0 or pause > max(0.5 * window, 3 * usual):
                kept = []
            elif pause < window / 64:
                continue
        kept = [*kept, (t, q)][-64:]
        while len(kept) > 7 and 1e-9 * (t - kept[1][0]) > window:
            kept = kept[1:]
    if len(kept) < 7 or 1e-9 * (kept[-1][0] - kept[0][0]) < 0.9 * window:
        return None
    return kept if len(kept) % 2 else kept[1:]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_fitted_follows_the_rule_as_it_is_written_down(seed):
    """Any rate from 40 Hz to 4 kHz, uneven, with pauses, jumps back and numbers that are none."""
    rng = np.random.default_rng(seed)
    period, length = 10 ** rng.uniform(-3.6, -1.6), float(rng.choice([0.06, 0.03, 0.2]))
    window, stream, t, ready = MotionWindow(length) if length != 0.06 else MotionWindow(), [], 10**9, 0
    for k in range(300):
        odd = rng.random()
        step = period * (rng.uniform(1.5, 8.0) if odd < 0.03 else rng.uniform(0.2, 1.8))
        t += round(-2e8 if odd > 0.995 else 1e9 * step)
        q = np.array([np.nan, 0.0]) if 0.985 < odd < 0.99 else rng.normal(size=2)
        stream.append((t, q))
        window.take(t, q)
        found, wanted = window.middle(), plain_middle(stream[-200:], length) if k % 3 == 0 else None
        if k % 3 == 0:
            assert (found is None) == (wanted is None)
        if wanted is not None:
            ready += 1
            stamp, q = wanted[len(wanted) // 2]
            assert found.stamp == stamp and np.array_equal(found.q, q)
            x = 1e-9 * np.array([at - stamp for at, _ in wanted])
            fit = np.polyfit(x, np.array([row for _, row in wanted]), 3)
            np.testing.assert_allclose(found.dq, fit[2], rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(found.ddq, 2 * fit[1], rtol=1e-6, atol=1e-4)
    assert ready > 5


def test_what_was_taken_does_not_change_with_the_callers_array():
    window, q = MotionWindow(), np.zeros(1)
    for k in range(40):
        q[0] = k
        window.take(2_000_000 * k, q)
    assert window.middle().dq == pytest.approx(500.0)
