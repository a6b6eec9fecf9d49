# SPDX-License-Identifier: Apache-2.0

"""Small parts of the identification against figures made by hand: clocks, delays, pieces, solutions, errors, loads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError, remark
from ros2_dynid.identification.estimators import sequential
from ros2_dynid.identification.loads.joint_agreement import _between
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.even_grid import _even_times, gap_edges, period_of
from ros2_dynid.identification.preparation.prepare import joined_prepared
from ros2_dynid.identification.preparation.prepared import shift_effort
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import (
    check_rows,
    error_levels,
    own_errors,
    solve,
    upper_solved,
    wls,
)
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")

# --- when samples were taken


def test_the_period_of_even_rounded_gappy_and_jittering_stamps():
    even = np.arange(4000) / 333.0
    assert period_of(even) == pytest.approx(1 / 333.0, rel=1e-9)
    rounded = np.round(even, 3)  # steps of 3 and 4 ms
    assert period_of(np.unique(rounded)) == pytest.approx(1 / 333.0, rel=2e-3)
    lost = np.delete(even, slice(None, None, 10))
    assert period_of(lost) == pytest.approx(1 / 333.0, rel=1e-6), "a lost sample is two periods"
    gappy = np.concatenate((even, even + 100.0, even + 500.0))
    assert period_of(gappy) == pytest.approx(1 / 333.0, rel=1e-6)
    late = even + np.random.default_rng(0).uniform(0.0, 1.5 / 333.0, 4000)
    late = np.sort(np.concatenate((late, late + 60.0)))
    assert np.median(np.diff(late)) < 0.98 / 333.0
    assert period_of(late) == pytest.approx(1 / 333.0, rel=2e-3), "of the mean, not of the median"
    with pytest.raises(InputError, match="do not advance"):
        period_of(np.array([1.0, 1.0, 1.0, 2.0]))


def test_stretches_without_a_pause():
    t = np.array([0.0, 0.1, 0.2, 0.55, 0.65, 2.0])
    assert list(gap_edges(t, 0.3)) == [0, 3, 5, 6]
    assert list(gap_edges(t, 0.4)) == [0, 5, 6] and list(gap_edges(t, 5.0)) == [0, 6]


def test_even_times_of_stamps_that_come_late():
    rng = np.random.default_rng(1)
    true = 5.0 + 0.01 * np.arange(300)
    late = rng.uniform(0.0, 0.004, 300)
    found = _even_times(true + late, 0.01)
    np.testing.assert_allclose(found, true + late.mean(), atol=1e-9)
    kept = np.delete(np.arange(300), [40, 41, 170])
    found = _even_times((true + late)[kept], 0.01)
    np.testing.assert_allclose(found, true[kept] + late[kept].mean(), atol=1e-9)


# --- efforts that are late, and pieces


def prepared(count=60, start=0.0, seed=0):
    rng = np.random.default_rng(seed)
    q, dq, ddq, tau = rng.normal(size=(4, count, 3))
    return as_prepared(ROBOT, q, dq, ddq, tau, t=start + np.arange(count) / 100.0)


@pytest.mark.parametrize("samples", [3, -4])
def test_a_late_effort_is_taken_later_in_every_stretch(samples):
    whole = replace(prepared(), segments=(slice(0, 25), slice(25, 27), slice(27, 60)))
    rate = whole.filter.inner_rate
    assert shift_effort(whole, 0.4 / rate) is whole
    found = shift_effort(whole, samples / rate)
    size = abs(samples)
    rows = np.concatenate([np.arange(a, b - size) for a, b in ((0, 25), (27, 60))])
    motion, effort = (rows, rows + size) if samples > 0 else (rows + size, rows)
    for field in ("t", "q", "dq", "ddq", "sign"):
        np.testing.assert_array_equal(getattr(found, field), getattr(whole, field)[motion])
    np.testing.assert_array_equal(found.tau, whole.tau[effort])
    assert found.segments == (slice(0, 25 - size), slice(25 - size, 25 - size + 33 - size)), "2 samples are too short"
    assert found.filter.delay == pytest.approx(samples / rate)
    again = shift_effort(found, 1 / rate)
    assert again.filter.delay == pytest.approx((samples + 1) / rate)
    with pytest.raises(InputError, match=r"longer than the effort's delay of .*record longer"):
        shift_effort(whole, 40 / rate)


def test_pieces_are_joined_in_their_order():
    a, b, c = (replace(prepared(30, 10.0 * k, k), notes=(remark("same"), remark(f"of {k}"))) for k in range(3))
    b = replace(b, segments=(slice(0, 12), slice(15, 30)), top_speed=b.top_speed * np.array([9.0, 0.1, 1.0]))
    found = joined_prepared([a, b, c], (remark("last"),))
    for field in ("t", "q", "dq", "ddq", "tau", "sign", "bridged"):
        joined = np.concatenate([getattr(x, field) for x in (a, b, c)])
        np.testing.assert_array_equal(getattr(found, field), joined)
    assert found.segments == (slice(0, 30), slice(30, 42), slice(45, 60), slice(60, 90))
    np.testing.assert_array_equal(found.top_speed, np.max([x.top_speed for x in (a, b, c)], axis=0))
    assert [note.text for note in found.notes] == ["same", "of 0", "of 1", "of 2", "last"]
    assert found.reference is None
    commanded = [replace(x, reference=x.q + 1.0) for x in (a, b, c)]
    np.testing.assert_array_equal(joined_prepared(commanded).reference, found.q + 1.0)
    assert joined_prepared([*commanded[:2], c]).reference is None, "not of all"
    assert [note.text for note in joined_prepared([a], (remark("last"),)).notes] == ["same", "of 0", "last"]


# --- solutions


def test_what_the_data_leave_open_stays_with_the_prior():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(40, 5)) * np.array([1.0, 1e3, 1e-3, 1.0, 1.0])
    A[:, 4] = 0.0
    A[:, 3] = 2.0 * A[:, 0]
    truth, prior = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.5, 0.0, 0.0, 1.0, -7.0])
    found = solve(np.column_stack((A, A @ truth)), prior)
    assert found.rank == 3 and list(found.identified) == [False, True, True, False, False]
    np.testing.assert_allclose(found.value[1:3], truth[1:3], rtol=1e-9)
    assert found.value[0] + 2 * found.value[3] == pytest.approx(9.0) and found.value[4] == -7.0
    # closest to the prior in columns of unit norm: the change is shared by both in proportion to their columns
    change = found.value - prior
    assert change[0] * 1.0 == pytest.approx(change[3] * 2.0)
    s = np.linalg.svd(A[:, :4] / np.linalg.norm(A[:, :4], axis=0), compute_uv=False)
    assert found.cond == pytest.approx(s[0] / s[2])
    nothing = solve(np.zeros((4, 3)), np.array([1.0, 2.0]))
    assert nothing.rank == 0 and nothing.cond == np.inf and list(nothing.value) == [1.0, 2.0]
    good = rng.normal(size=(40, 3))
    whole = solve(np.column_stack((good, good @ [1.0, -2.0, 0.5])))
    np.testing.assert_allclose(whole.value, [1.0, -2.0, 0.5])
    scaled = np.linalg.svd(good / np.linalg.norm(good, axis=0), compute_uv=False)
    assert whole.cond == pytest.approx(scaled[0] / scaled[-1]) and whole.identified.all() and whole.rank == 3
    few = solve(np.column_stack((good[:2], good[:2] @ [1.0, -2.0, 0.5])))
    assert few.rank == 2 and not few.identified.all()


@pytest.mark.parametrize(("share", "identified"), [(0.3, [False] * 3), (0.05, [True, False, False])])
def test_what_hardly_matters_in_a_direction_that_is_open_is_known(share, identified):
    """The third column is made of the first two: more than 99 % of a value must be told by the data."""
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 2)))[0]
    A = np.column_stack((A, share * A[:, 0] + np.sqrt(1.0 - share**2) * A[:, 1]))
    found = solve(np.column_stack((A, A @ [1.0, 2.0, 3.0])))
    assert found.rank == 2 and found.identified.tolist() == identified


def information(rows):
    """Return two joints with two blocks of these numbers of rows each, three parameters."""
    rng = np.random.default_rng(0)
    blocks = tuple(
        Block(tuple(rng.normal(size=(max(count, 1), 4)) for count in two), np.array(two), float(k), k + 1.0, 0)
        for k, two in enumerate(rows)
    )
    return Information(blocks, (np.arange(3), np.arange(3)), ColumnLayout(3))


def test_there_must_be_more_rows_than_parameters_and_some_of_every_joint():
    check_rows(information([(2, 1), (0, 1)]))
    with pytest.raises(InputError, match="3 rows for 3 base parameters"):
        check_rows(information([(1, 1), (0, 1)]))
    with pytest.raises(InputError, match="no row of joint number 2 is left"):
        check_rows(information([(5, 0), (5, 0)]))


@pytest.mark.parametrize("rows", [3, 4, 5, 9])
def test_every_row_counts_where_there_are_hardly_more_than_parameters(rows):
    """As many rows as parameters, one more, two more: rows that are no triangle yet."""
    rng = np.random.default_rng(rows)
    R = rng.normal(size=(rows, 4))
    wanted = np.linalg.lstsq(R[:, :3], R[:, 3], rcond=None)[0]
    np.testing.assert_allclose(solve(R).value, wanted, rtol=1e-8)
    state = sequential.start(3)
    for row in R:
        state = sequential.update(state, row[None])
    np.testing.assert_allclose(state.solution.value, wanted, rtol=1e-8)
    few = Information((Block((R,), np.array([rows]), 0.0, 1.0),), (np.arange(3),), ColumnLayout(3))
    left = np.linalg.norm(R[:, 3] - R[:, :3] @ wanted) / np.sqrt(max(rows - 3, 1))
    if rows > 3:
        np.testing.assert_allclose(error_levels(few, wanted, np.array([2.0])), [left], rtol=1e-7)
        np.testing.assert_allclose(own_errors(few), [left], rtol=1e-7)
        np.testing.assert_allclose(wls(few).value, wanted, rtol=1e-7)


@pytest.mark.parametrize(("ratio", "rank"), [(0.8e-8, 1), (1.3e-8, 2)])
def test_directions_below_a_hundred_millionth_are_not_excited(ratio, rank):
    """Two columns of unit norm at an angle of which half is the ratio of their singular values."""
    u, v = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 2)))[0].T
    A = np.column_stack((u, np.cos(2.0 * ratio) * u + np.sin(2.0 * ratio) * v))
    assert solve(np.column_stack((7.0 * A, A @ [1.0, 2.0]))).rank == rank
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        upper_solved(np.triu(np.ones((3, 3)), 1), np.ones(3))


def test_parts_of_an_estimate_by_name():
    layout = ColumnLayout(2, 1, 10, 3, 2)
    rng = np.random.default_rng(0)
    S = rng.normal(size=(18, 18))
    C, value, known = S @ S.T, np.arange(18.0), np.arange(18) % 5 != 0
    found = Estimate(layout, value, C, known, np.ones(1), 1.0, 18, Method.WLS)
    std = np.where(known, np.sqrt(np.diag(C)), np.inf)
    for name, part in (("base", slice(0, 2)), ("friction", slice(2, 5))):
        np.testing.assert_array_equal(getattr(found, name), value[part])
        np.testing.assert_array_equal(getattr(found, f"{name}_std"), std[part])
    np.testing.assert_array_equal(found.base_covariance, C[:2, :2])
    np.testing.assert_array_equal(found.base_identified, known[:2])
    assert found.dof == np.inf and np.isinf(found.std[[0, 5, 10, 15]]).all()
    assert (found.delay, found.delay_std) == (5.0, np.inf)
    late = replace(found, identified=np.ones(18, dtype=bool))
    assert late.delay_std == pytest.approx(np.sqrt(C[5, 5]))
    np.testing.assert_array_equal(found.load, value[6:16])
    np.testing.assert_array_equal(found.load_covariance, C[6:16, 6:16])
    np.testing.assert_array_equal(found.load_identified, known[6:16])
    other = found.with_base(np.array([-1.0, -2.0]))
    np.testing.assert_array_equal(other.value, [-1.0, -2.0, *range(2, 18)])
    np.testing.assert_array_equal(found.value, np.arange(18.0))
    bare = Estimate(ColumnLayout(2), value[:2], -np.eye(2), known[1:3], np.ones(1), 1.0, 2, Method.WLS)
    assert (bare.delay, bare.delay_std, bare.load.shape) == (0.0, 0.0, (0,)) and bare.std.tolist() == [0.0, 0.0]


# --- do joints agree about a load?


def by_dersimonian_and_laird(x, s):
    w = s**-2.0
    mean = np.sum(w * x) / np.sum(w)
    Q = np.sum(w * (x - mean) ** 2)
    between = (Q - (len(x) - 1)) / (np.sum(w) - np.sum(w**2) / np.sum(w))
    return between * np.sum(w**2) / np.sum(w) ** 2


@pytest.mark.parametrize(("scale", "std", "named"), [
    ((1.0, 1.02, 0.97), (0.02, 0.03, 0.03), ()),
    ((1.0, 1.0, 1.5), (0.02, 0.03, 0.03), (2,)),
    ((0.5, 1.0, 1.0), (0.02, 0.03, 0.03), (0,)),
    ((1.0, 1.6, 1.01, 0.3, 0.99), (0.03, 0.03, 0.03, 0.03, 0.03), (1, 3)),
    ((1.0, 1.5, 1.0, 1.0), (0.05, 0.001, 0.05, 0.05), (1,)),  # its narrow bars draw the mean to itself
    ((1.0, 1.5), (0.02, 0.02), (0, 1)),
    ((1.0, np.nan, 1.5), (0.02, np.nan, 0.02), (0, 2)),
    ((1.0, np.nan, np.nan), (0.02, np.nan, np.nan), ()),
    ((np.nan, 1.0, 1.02, np.nan, 1.5), (np.nan, 0.03, 0.03, np.nan, 0.03), (4,)),
    ((np.nan, 1.9, 1.0, 1.02, 1.01, 0.4), (np.nan, 0.03, 0.03, 0.03, 0.03, 0.03), (1, 5)),
    ((1.0, 1.07), (0.02, 0.02), ()),  # 2.5 sigma: once in a hundred
    ((1.0, 1.08), (0.02, 0.02), (0, 1)),
])  # fmt: skip
def test_joints_that_contradict_the_others_are_named(scale, std, named):
    x, s = np.array(scale), np.array(std)
    variance, found = _between(x, s)
    assert found == named
    known = np.isfinite(x)
    assert variance == pytest.approx(by_dersimonian_and_laird(x[known], s[known]) if named else 0.0)
