# SPDX-License-Identifier: Apache-2.0

"""What is kept of rows: every stride-th one, and moments that tell which errors are random in time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.rows import Rows, Window
from ros2_dynid.identification.validation.torque_errors import FIRST, LAGS, RowCollector, whiteness
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
COLUMNS = (np.array([0, 1, 2]), np.array([1, 3]), np.array([3]))
VALUE = np.array([0.7, -1.2, 0.4, 2.0])


def made(errors, keep=None, seed=0):
    """Return rows of three joints with these errors, shape (3, m), and the motion they are of."""
    rng = np.random.default_rng(seed)
    m = errors.shape[1]
    W = np.zeros((4, 3, m))
    for j, felt in enumerate(COLUMNS):
        W[felt, j] = rng.standard_normal((len(felt), m))
    tau = np.einsum("b,bjt->jt", VALUE, W) + errors
    q = rng.standard_normal((m, 3))
    prepared = as_prepared(ROBOT, q, q + 1.0, q + 2.0, tau.T)
    keep = np.ones((3, m), dtype=bool) if keep is None else keep
    return prepared, Rows(np.arange(m) * 0.1, W, tau, keep)


def collected(prepared, rows, stride=1, lag=5, chunk=170):
    found = RowCollector(stride, lag)
    for first in range(0, len(rows.t), chunk):
        some = slice(first, first + chunk)
        at = np.arange(len(rows.t))[some]
        part = Rows(rows.t[some], rows.W[:, :, some], rows.tau[:, some], rows.keep[:, some])
        found.take(prepared, Window(some, at), part)
    return found.evidence(COLUMNS)


def direct(error, keep, lag):
    """Return the correlation furthest from 0 of one joint's errors with themselves 1 ... LAGS lags later."""
    e = np.where(keep, error - error[keep].mean(), 0.0)
    rho = [float(e[k * lag :] @ e[: -k * lag]) / float(e @ e) for k in range(1, LAGS + 1)]
    return max(rho, key=abs)


def test_moments_give_the_correlations_of_the_errors_themselves():
    rng = np.random.default_rng(3)
    white = 0.1 * rng.standard_normal((3, 1500))
    slow = 0.1 * np.convolve(rng.standard_normal(1600), np.ones(40) / 6.0, "valid")[:1500]
    errors = np.vstack((white[0], slow + 0.3, white[2]))
    keep = rng.uniform(size=errors.shape) > 0.2
    evidence = collected(*made(errors, keep))
    found = whiteness(("a", "b", "c"), evidence.successive, COLUMNS, VALUE)
    for j, name in enumerate("abc"):
        rho = direct(errors[j], keep[j], 5)
        assert found[name].correlation == pytest.approx(rho, abs=1e-9)
        one = 2.0 * norm.sf(abs(rho) * np.sqrt(np.count_nonzero(keep[j]) / 5))
        assert found[name].probability == pytest.approx(1.0 - (1.0 - one) ** LAGS, rel=1e-6, abs=1e-12)
    assert [name for name in found if found[name].coloured] == ["b"]
    few = keep & (np.arange(1500) < 8)  # fewer than two independent rows
    found = whiteness(("a", "b", "c"), collected(*made(errors, few)).successive, COLUMNS, VALUE)
    for j, name in enumerate("abc"):
        one = 2.0 * norm.sf(abs(direct(errors[j], few[j], 5)) * np.sqrt(2.0))
        assert found[name].probability == pytest.approx(1.0 - (1.0 - one) ** LAGS, rel=1e-6)


def test_errors_that_hang_together_beyond_the_filter_are_seen():
    """Noise filtered over 10 rows is white beyond them; a slow wave, of either sign one filter later, is not."""
    rng = np.random.default_rng(2)
    white = np.convolve(rng.normal(size=4009), np.ones(10) / 10, mode="valid")
    t = np.arange(4000)
    slow, turning = (white + 0.3 * np.sin(2 * np.pi * t / period) for period in (400.0, 20.0))
    evidence = collected(*made(np.vstack((white, slow, turning))), lag=10)
    found = whiteness(("white", "slow", "turning"), evidence.successive, COLUMNS, VALUE)
    assert not found["white"].coloured and found["slow"].coloured and found["turning"].coloured
    assert found["slow"].correlation == pytest.approx(0.045 / (0.045 + 0.1), abs=0.1)
    at = np.array([turning[k:] @ turning[:-k] / (turning @ turning) for k in (10, 20, 30, 40)])
    assert found["turning"].correlation == pytest.approx(at[np.argmax(np.abs(at))], abs=0.01) and at.min() < -0.2
    away = collected(*made(np.vstack((white + 100.0, slow, turning))), lag=10)
    shifted = whiteness(("white", "slow", "turning"), away.successive, COLUMNS, VALUE)["white"]
    assert shifted.correlation == pytest.approx(found["white"].correlation), "an offset is none of its business"


def test_only_the_first_rows_count_and_exact_rows_are_not_judged():
    rng = np.random.default_rng(4)
    errors = 0.1 * rng.standard_normal((3, FIRST + 900))
    late = errors.copy()
    late[:, FIRST:] += 50.0
    both = [collected(*made(one)).successive for one in (errors, late)]
    assert (
        both[0].rows == FIRST == 4000
        and LAGS == 4
        and all(np.array_equal(a, b) for a, b in zip(both[0].C, both[1].C, strict=True))
    )
    exact = collected(*made(np.zeros((3, 500)))).successive
    assert not any(one.coloured for one in whiteness(("a", "b", "c"), exact, COLUMNS, VALUE).values())
    for rows, told in ((20, False), (21, True)):  # four lags of five rows each
        short = collected(*made(errors[:, :rows])).successive
        found = whiteness(("a", "b", "c"), short, COLUMNS, VALUE)["a"]
        assert (found.probability < 1.0) == (found.correlation != 0.0) == told


def test_a_recording_without_rows_is_refused():
    with pytest.raises(InputError, match="no row"):
        RowCollector(1, 5).evidence(COLUMNS)
