# SPDX-License-Identifier: Apache-2.0

"""Is this recording usable? All checks together: a verdict, a row for each joint, and problems with what to do."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.recording.checks.recording_check import derived_velocity


def test_speeds_are_differences_over_20_ms():
    t = np.arange(300) / 500
    q = np.random.default_rng(1).normal(size=300)
    found = derived_velocity(t, q)
    k = np.arange(300)
    a, b = np.maximum(k - 5, 0), np.minimum(k + 5, 299)
    np.testing.assert_allclose(found, (q[b] - q[a]) / (t[b] - t[a]), rtol=1e-12)
    q[7] = np.inf
    assert np.isnan(derived_velocity(t, q)[7]) and np.isfinite(np.delete(derived_velocity(t, q), 7)).all()
    q[7] = np.nan
    assert np.isnan(derived_velocity(t, q)[7]) and np.isfinite(np.delete(derived_velocity(t, q), 7)).all()
    slow = derived_velocity(np.arange(6.0), np.arange(6.0) ** 2)
    np.testing.assert_allclose(slow, [1.0, 2.0, 4.0, 6.0, 8.0, 9.0])
    assert np.isnan(derived_velocity(np.arange(4.0), np.arange(4.0))).all()
    assert np.isfinite(derived_velocity(np.arange(5.0), np.arange(5.0))).all()


@pytest.mark.parametrize("rate", [20.0, 500.0, 1000.0])
def test_speeds_over_twenty_milliseconds(rate):
    t = np.arange(300) / rate
    q = np.sin(3 * t) + 0.2
    q[[40, 41]] = np.nan
    found = derived_velocity(t, q)
    half = max(1, round(0.01 * rate))
    known = np.flatnonzero(np.isfinite(q))
    for place, k in enumerate(known):
        a, b = known[max(place - half, 0)], known[min(place + half, len(known) - 1)]
        assert found[k] == pytest.approx((q[b] - q[a]) / (t[b] - t[a]))
    assert np.isnan(found[[40, 41]]).all()
    assert np.isnan(derived_velocity(t[:4], q[:4])).all() and np.isfinite(derived_velocity(t[:5], q[:5])).all()
