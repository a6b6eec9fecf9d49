# SPDX-License-Identifier: Apache-2.0

"""Quintics and Fourier series: end conditions, exact extrema, shortest times; each against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ros2_dynid.errors import InputError
from ros2_dynid.excitation.fourier import FourierSeries, design, rest_basis, series_extrema
from ros2_dynid.excitation.quintic import PiecewiseQuintic, hermite, shortest_times, through_points


def brute(curve, N=200_001):
    return [np.stack((x.min(axis=0), x.max(axis=0))) for x in curve.evaluate(np.linspace(0.0, curve.duration, N))]


def test_coefficients_are_those_of_the_seed():
    qa, qb, dqa, dqb, u = 0.3, -1.1, 0.7, -0.2, 1.7
    A = qb - qa
    a = hermite(*(np.array([[x]]) for x in (qa, qb, dqa, dqb)), np.array([u]))[0, :, 0]
    seed = [  # eq. 28
        qa,
        dqa,
        0.0,
        10 * A / u**3 - (6 * dqa + 4 * dqb) / u**2,
        -15 * A / u**4 + (8 * dqa + 7 * dqb) / u**3,
        6 * A / u**5 - 3 * (dqa + dqb) / u**4,
    ]
    np.testing.assert_allclose(a, [c * u**k for k, c in enumerate(seed)], rtol=1e-13)


def test_quintic_meets_its_states():
    rng = np.random.default_rng(0)
    t = np.concatenate(([0.0], np.cumsum(rng.uniform(0.3, 2.0, 7))))
    q, dq, ddq = rng.normal(size=(3, 8, 3))
    for seen, wanted in zip(through_points(t, q, dq, ddq).evaluate(t), (q, dq, ddq), strict=True):
        np.testing.assert_allclose(seen, wanted, atol=1e-10)
    assert np.allclose(through_points(t, q, dq).evaluate(t)[2], 0.0, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_exact_extrema_of_quintics(seed):
    rng = np.random.default_rng(seed)
    t = np.concatenate(([0.0], np.cumsum(rng.uniform(0.3, 2.0, 5))))
    curve = through_points(t, *rng.normal(size=(3, 6, 4)))
    for exact, seen in zip(curve.extrema(), brute(curve), strict=True):
        assert np.all(exact[0] <= seen[0] + 1e-12) and np.all(exact[1] >= seen[1] - 1e-12)
        np.testing.assert_allclose(exact, seen, atol=1e-7)


def test_shortest_times_touch_a_limit_and_keep_all():
    rng = np.random.default_rng(1)
    qa, qb = rng.uniform(-3, 3, (2, 60, 3))
    dqa, dqb = rng.uniform(-2, 2, (2, 60, 3))
    v, w = np.array([2.1, 2.5, 3.0]), np.array([8.0, 10.0, 6.0])
    u = shortest_times(qa, qb, dqa, dqb, v, w)
    for k in range(60):
        a = hermite(qa[k : k + 1], qb[k : k + 1], dqa[k : k + 1], dqb[k : k + 1], u[k : k + 1])
        _, dq, ddq = PiecewiseQuintic(np.array([0.0, u[k]]), a).extrema()
        assert max(np.max(np.abs(dq) / v), np.max(np.abs(ddq) / w)) == pytest.approx(1.0, abs=1e-9)


def test_no_time_serves_a_velocity_beyond_its_limit():
    one = np.ones((1, 1))
    assert shortest_times(0 * one, one, 3 * one, one, np.array([2.0]), np.array([10.0]))[0] == np.inf


def test_every_admissible_trip_has_a_shortest_time():
    one = np.ones((1, 1))
    slow = shortest_times(0 * one, 6 * one, 0 * one, 0 * one, np.array([0.5]), np.array([1.0]))
    np.testing.assert_allclose(slow, 15.0 / 8.0 * 6.0 / 0.5)  # peak velocity of a quintic from rest to rest
    crawl = shortest_times(0 * one, one, 0 * one, 0 * one, np.array([1e-6]), np.array([1.0]))
    np.testing.assert_allclose(crawl, 15.0 / 8.0 * 1e6)
    rng = np.random.default_rng(0)
    v, w = np.array([0.02, 1.0, 3.0]), np.array([0.01, 0.1, 50.0])
    qa, qb = rng.uniform(-6.0, 6.0, (2, 400, 3))
    dqa, dqb = v * rng.choice((-1.0, 0.0, 0.3, 1.0), (2, 400, 3))  # the limits themselves as well
    u = shortest_times(qa, qb, dqa, dqb, v, w)
    assert np.all(np.isfinite(u))
    a = hermite(qa, qb, dqa, dqb, u)
    for k in range(0, 400, 40):
        _, dq, ddq = PiecewiseQuintic(np.array([0.0, u[k]]), a[k : k + 1]).extrema()
        assert np.all(np.abs(dq) <= v * (1 + 1e-9)) and np.all(np.abs(ddq) <= w * (1 + 1e-9))
    assert shortest_times(np.nan * one, one, 0 * one, one, v[:1], w[:1])[0] == np.inf


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([1.0, 1e-7, 1e-13, 0.0]))
def test_exact_extrema_of_series(seed, L, last):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(2, 3, L))
    A[:, -1] *= last  # a last harmonic that nearly vanishes is where a companion matrix is weak
    B[:, -1] *= last
    x = np.linspace(0.0, 2 * np.pi, 20_001)
    l = np.arange(1, L + 1)
    values = np.cos(np.outer(x, l)) @ A.T + np.sin(np.outer(x, l)) @ B.T
    low, high = series_extrema(A, B)
    assert np.all(low <= values.min(axis=0) + 1e-12) and np.all(high >= values.max(axis=0) - 1e-12)
    np.testing.assert_allclose((low, high), (values.min(axis=0), values.max(axis=0)), atol=1e-4 * max(1, L**2 / 16))


@pytest.mark.parametrize("fixed", [False, True])
def test_series_rests_at_its_ends(fixed):
    L = 5
    Z = rest_basis(L, fixed)
    assert Z.shape == (2 * L + 1, 2 * L - (2 if fixed else 1))
    np.testing.assert_allclose(Z.T @ Z, np.eye(Z.shape[1]), atol=1e-12)
    c = (Z @ np.random.default_rng(0).normal(size=(Z.shape[1], 2))).T
    curve = FourierSeries(7.0, c[:, 0], c[:, 1 : L + 1], c[:, L + 1 :], periods=2)
    q, dq, ddq = curve.evaluate(np.array([0.0, 7.0, 14.0]))
    assert np.allclose(dq, 0.0, atol=1e-12) and np.allclose(ddq, 0.0, atol=1e-11) and np.ptp(q, axis=0).max() < 1e-12
    if fixed:
        assert np.allclose(q, 0.0, atol=1e-12)
    t = np.linspace(0, 7, 9)
    for D, x in zip(design(7.0, L, t), curve.evaluate(t), strict=True):
        np.testing.assert_allclose(D @ c.T, x, atol=1e-11)


def test_every_period_is_the_first_one_again_and_the_ends_are_held():
    rng = np.random.default_rng(3)
    curve = FourierSeries(4.0, rng.normal(size=2), *rng.normal(size=(2, 2, 5)), periods=3)
    t = np.linspace(0.0, 4.0, 60, endpoint=False)
    first = curve.evaluate(t)
    assert min(np.ptp(x, axis=0).min() for x in first) > 0.5, "it moves"
    for k in (1, 2):
        for later, wanted in zip(curve.evaluate(t + 4.0 * k), first, strict=True):
            np.testing.assert_allclose(later, wanted, rtol=1e-9, atol=1e-9)
    points = through_points(np.array([0.0, 1.0, 3.0]), *rng.normal(size=(2, 3, 2)))
    for held in (curve, points):
        ends = np.array([0.0, held.duration])
        for outside, wanted in zip(held.evaluate(ends + np.array([-0.7, 0.7])), held.evaluate(ends), strict=True):
            np.testing.assert_array_equal(outside, wanted)


def test_derivatives_are_derivatives():
    rng = np.random.default_rng(5)
    curve = FourierSeries(5.0, rng.normal(size=2), *rng.normal(size=(2, 2, 4)))
    t = np.linspace(0.1, 4.9, 50)
    h = 1e-5
    for k in (0, 1):
        seen = (curve.evaluate(t + h)[k] - curve.evaluate(t - h)[k]) / (2 * h)
        np.testing.assert_allclose(curve.evaluate(t)[k + 1], seen, rtol=1e-6, atol=1e-6)


def test_slowed_and_mapped():
    rng = np.random.default_rng(6)
    curves = (
        FourierSeries(5.0, rng.normal(size=2), *rng.normal(size=(2, 2, 4))),
        FourierSeries(2.0, rng.normal(size=2), *rng.normal(size=(2, 2, 4)), periods=3),
        through_points(np.array([0.0, 1.0, 3.0]), *rng.normal(size=(2, 3, 2))),
    )
    G, offset = rng.normal(size=(3, 2)), rng.normal(size=3)
    for curve in curves:
        t = np.linspace(0, curve.duration, 20)
        for order, (slow, fast) in enumerate(zip(curve.slowed(0.2).evaluate(t / 0.2), curve.evaluate(t), strict=True)):
            np.testing.assert_allclose(slow, fast * 0.2**order, atol=1e-9)
        np.testing.assert_allclose(curve.mapped(G, offset).evaluate(t)[0], curve.evaluate(t)[0] @ G.T + offset)


def test_refusals():
    with pytest.raises(InputError):
        PiecewiseQuintic(np.array([0.0, 1.0, 1.0]), np.zeros((2, 6, 1)))
    with pytest.raises(InputError):
        FourierSeries(0.0, np.zeros(1), np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(InputError):
        rest_basis(2, fixed_start=True)
