# SPDX-License-Identifier: Apache-2.0

"""Link-side torques on a topic of their own: joint states whose efforts are these torques."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from joint_state_batches import states
from ros2_dynid.errors import InputError
from ros2_dynid.recording.torque_topic import MAX_GAP_S, with_torques


def test_torques_are_interpolated_at_the_times_of_the_states():
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0.0, 4.0, 400))
    known = np.arange(0.5, 3.0, 0.02)
    known = known[(known < 1.2) | (known > 1.5)]  # a pause
    y = np.column_stack((np.sin(known), 3.0 * known))
    y[10, 0] = np.nan
    offset = 0.25  # the torques' times count from a later stamp
    pieces = [states(part, ("a", "b", "c"), None, 10**9) for part in np.split(t, (100, 101, 250))]
    torques = [
        states(known[k] - offset, ("b", "x", "a"), np.column_stack((y[k, 1], 0 * known[k], y[k, 0])), 1_250_000_000)
        for k in np.split(np.arange(len(known)), (1, 30, 30, 60))
    ]
    found = list(with_torques(iter(pieces), iter(torques), "bag"))
    assert [len(p) for p in found] == [100, 1, 149, 150]
    tau = np.concatenate([p.tau_l for p in found])
    for column, values in ((0, y[:, 0]), (1, y[:, 1])):
        good = np.isfinite(values)
        x, z = known[good], values[good]
        expected = np.interp(t, x, z)
        after = np.searchsorted(x, t).clip(1, len(x) - 1)
        expected[(t < x[0]) | (t > x[-1]) | (x[after] - x[after - 1] > MAX_GAP_S)] = np.nan
        assert 0.3 < np.isfinite(expected).mean() < 0.9
        np.testing.assert_allclose(tau[:, column], expected, atol=1e-12)
    assert np.isnan(tau[:, 2]).all()


def test_torques_of_nobody_are_refused_and_a_single_one_says_nothing():
    pieces = [states(np.arange(5) / 10, ("a",), None)]
    for torques in ([states([0.0, 0.5], ("x", "y"), np.zeros((2, 2)))], [states([0.0, 0.5], ("a",), None)], []):
        with pytest.raises(InputError, match="no efforts of the robot's joints"):
            list(with_torques(iter(pieces), iter(torques), "bag"))
    (found,) = with_torques(iter(pieces), iter([states([0.2], ("a",), np.ones((1, 1)))]), "bag")
    assert np.isnan(found.tau_l).all()
    assert MAX_GAP_S == 0.1
    near, far = MAX_GAP_S * 0.99, MAX_GAP_S * 1.01
    for step, known in ((near, True), (far, False)):
        pieces = [states([step / 2], ("a",), None)]
        (found,) = with_torques(iter(pieces), iter([states([0.0, step], ("a",), np.array([[1.0], [3.0]]))]), "bag")
        assert found.tau_l[0, 0] == pytest.approx(2.0) if known else np.isnan(found.tau_l[0, 0])


def test_torques_are_kept_for_states_that_come_late():
    """A second at least: states may be late by that much, and torques come in pieces of their own."""
    t = np.arange(0.0, 10.0, 0.05)
    torques = [states(t[k : k + 4], ("a",), 2.0 * t[k : k + 4, None]) for k in range(0, len(t), 4)]
    late = [np.array([2.0, 3.0, 4.0]), np.array([3.01, 4.5]), np.array([3.51, 6.0]), np.array([5.01])]
    pieces = [states(part, ("a",), None) for part in late]
    found = np.concatenate([p.tau_l for p in with_torques(iter(pieces), iter(torques), "bag")])
    np.testing.assert_allclose(found[:, 0], 2.0 * np.concatenate(late))


def test_torques_that_come_late_are_put_in_order():
    t, tau = np.array([0.0, 0.06, 0.02, 0.04, 0.08]), np.array([1.0, 9.0, 3.0, 1.0, 5.0])
    at = [0.01, 0.03, 0.05, 0.07]
    (found,) = with_torques(iter([states(at, ("a",), None)]), iter([states(t, ("a",), tau[:, None])]), "bag")
    np.testing.assert_allclose(found.tau_l[:, 0], [2.0, 2.0, 5.0, 7.0])


def test_torques_that_no_state_can_need_any_more_are_let_go():
    t, held = np.arange(0.0, 20.0, 0.05), []

    def torques():
        for k in range(0, len(t), 4):
            piece = states(t[k : k + 4], ("a",), t[k : k + 4, None])
            held.append(weakref.ref(piece))
            yield piece

    pieces = (states(part, ("a",), None) for part in np.split(t, 50))
    alive = [sum(ref() is not None for ref in held) for _ in with_torques(pieces, torques(), "bag")]
    assert len(held) == 100 and max(alive) <= 12, "those of the last second, in pieces of a fifth of one"
