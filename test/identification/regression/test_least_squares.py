# SPDX-License-Identifier: Apache-2.0

"""Error bars against the scatter of simulations and against textbook figures, from both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from scipy.fft import dct
from scipy.linalg import eigh
from scipy.special import stdtrit

from prepared_motions import small_information
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.didim import fit_output_error
from ros2_dynid.identification.estimators.joint_by_joint import recursive
from ros2_dynid.identification.estimators.robust import irls
from ros2_dynid.identification.estimators.sequential import sequential, update_filter
from ros2_dynid.identification.estimators.total_least_squares import tls
from ros2_dynid.identification.loads.drive_gains import drive_gains
from ros2_dynid.identification.loads.payload_fit import identify_loads
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import find_dependence, row_chunks, row_count
from ros2_dynid.identification.regression.error_bars import Moments, block_moments, jackknife, slowest
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import (
    Block,
    Information,
    coarser,
    combine,
    each_triangle,
    gather,
    restrict,
)
from ros2_dynid.identification.regression.least_squares import (
    check_rows,
    error_levels,
    joint_errors,
    joint_torques,
    ols,
    own_errors,
    solve,
    solve_triangle,
    weighted_triangle,
    wls,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_vector

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT, method="closed-form")
NOISE = np.array([0.8, 0.4, 0.1])
LOAD = Load(2.0, np.array([0.05, -0.02, 0.08]), np.diag([0.01, 0.012, 0.006]), ROBOT.n)


def identify_load(robot, base, empty, loaded, **more):
    return identify_loads(robot, base, empty, [loaded], **more)[0]


def information(rng, *, count=600, load=None, gains=1.0, n_blocks=20, noise=NOISE, motion=0):
    """Rows of a fixed random motion with fresh noise; efforts divided by the gains."""
    q, dq, ddq = np.random.default_rng(motion).uniform(-1.5, 1.5, (3, count, ROBOT.n))
    chi = standard_vector(ROBOT)
    if load is not None:
        chi = chi + load_parameters(ROBOT, load, len(chi))
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + noise * rng.standard_normal(q.shape)
    prepared = as_prepared(ROBOT, q, dq, ddq, tau / gains)
    chunks = row_chunks(ROBOT, prepared, BASE.columns(ROBOT))
    return gather(chunks, find_dependence(ROBOT, BASE.columns(ROBOT)), row_count(prepared), n_blocks=n_blocks)


@pytest.mark.parametrize("estimator", [ols, wls])
def test_stated_deviation_is_the_scatter_neither_less_nor_more(estimator):
    rng = np.random.default_rng(1)
    found = [estimator(information(rng)) for _ in range(60)]
    scatter = np.std([f.value for f in found], axis=0, ddof=1)
    stated = np.sqrt(np.mean([f.std**2 for f in found], axis=0))
    ratio = stated / scatter
    assert 0.9 < np.median(ratio) < 1.25, np.median(ratio)
    assert np.all((ratio > 0.7) & (ratio < 1.6)), ratio


def test_the_error_level_counts_the_parameters():
    """With few rows for the parameters, sum of squares over rows alone would be far too small."""
    rng = np.random.default_rng(2)
    levels = []
    for _ in range(60):
        few = information(rng, count=14, n_blocks=7)
        weights = 1.0 / NOISE
        value = solve(weighted_triangle(few, weights).R).value
        levels.append(error_levels(few, value, weights) ** 2)
    ratio = np.sqrt(np.mean(levels, axis=0)) / NOISE
    without = np.sqrt(1.0 - len(BASE) / (3 * 14))
    assert without < 0.8, "the case tells the two apart"
    assert np.all((ratio > 0.85) & (ratio < 1.2)), ratio


def moments(g, recording):
    """Blocks that each hold an equal part of a scalar parameter's information, with scores g."""
    B = len(g)
    return Moments(np.full((B, 1, 1), 4.0), np.array(g, dtype=float)[:, None], np.array(recording, dtype=float))


def test_blocks_of_recordings_of_their_own_are_independent():
    g = [1.0, 0.9, -1.1, -0.8, 1.2, 1.1, -1.0, -1.3]
    B = len(g)
    moves = np.array(g) / (4.0 * (B - 1))  # -(A - A_b)^-1 g_b
    alone, dof = jackknife(moments(g, range(B)))
    assert alone[0, 0] == pytest.approx(np.sum(moves**2)) and dof == B - 1
    half, _ = jackknife(moments(g, range(B)), half=True)
    assert half[0, 0] == pytest.approx(np.sum((np.array(g) / (4.0 * B)) ** 2) / (1 - 1 / B))
    none, _ = jackknife(moments(g, range(B)), np.array([False]))
    assert none[0, 0] == 0.0


@pytest.mark.parametrize("g", [[1.0, 0.9, -1.1, -0.8, 1.2, 1.1, -1.0, -1.2], [1.0, -1.0] * 4])
def test_the_slow_part_of_a_series_of_blocks_counts(g):
    B, K = len(g), 6
    moves = np.array(g) / (4.0 * (B - 1))
    found, dof = jackknife(moments(g, [0] * B), grow=False)
    powers = dct(moves, norm="ortho")[1 : K + 1] ** 2
    assert found[0, 0] == pytest.approx((B - 1) / K * powers.sum())
    assert dof == pytest.approx(2 / (1 / K + 1 / (B - 1)))
    if g[1] < 0:
        assert found[0, 0] < 0.5 * np.sum(moves**2), "errors that swing from block to block cancel"


def test_the_order_of_recordings_does_not_matter():
    rng = np.random.default_rng(3)
    lengths, b = (30, 12, 1, 8), 4
    parts = [rng.standard_normal((length, b)) for length in lengths]
    mean = np.concatenate(parts).mean(axis=0)
    found = []
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        g = np.concatenate([parts[k] - mean for k in order])
        numbers = np.repeat(np.arange(len(order), dtype=float), [lengths[k] for k in order])
        found.append(jackknife(Moments(np.tile(4.0 * np.eye(b), (len(g), 1, 1)), g, numbers)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    assert found[0][1] == found[1][1]
    plain = np.sum((np.concatenate(parts) / 200.0) ** 2, axis=0)
    assert np.all(np.abs(np.log(np.diag(found[0][0]) / plain)) < 0.7)


def test_fewer_cosines_the_more_neighbours_have_in_common():
    counts = [slowest(r, 31) for r in (0.0, -0.1, -0.2, -0.3, -0.4, -0.5)]
    assert counts[0] == 15 and counts[-1] == 6 and counts == sorted(counts, reverse=True)
    assert slowest(0.3, 31) < 15 and slowest(-0.5, 4) == 3


@pytest.mark.parametrize(("common", "most"), [(0.0, 1.15), (-0.6, 1.4), (-0.3, 1.15), (0.3, 1.15)])
def test_errors_that_cancel_or_add_up_between_blocks_give_the_scatter_of_their_sum(common, most):
    """Scores n_k + common n_(k-1) of white n: their sum has the variance B (1 + common)^2, near enough."""
    rng = np.random.default_rng(7)
    B, b, total = 30, 20, 4.0 * 30
    stated, errors = [], []
    for _ in range(60):
        n = rng.standard_normal((B + 1, b))
        scores = n[1:] + common * n[:-1]
        errors.append(scores.sum(axis=0) / total)
        g = scores - scores.mean(axis=0)  # as the fit leaves them
        found, _ = jackknife(Moments(np.tile(4.0 * np.eye(b), (B, 1, 1)), g, np.zeros(B)))
        stated.append(np.diag(found))
    ratio = np.sqrt(np.mean(stated) / np.mean(np.square(errors)))
    assert 0.85 < ratio < most, ratio


def test_gains_have_the_scatter_that_they_state():
    gains = np.array([6.0, 0.25, 1.5])
    rng = np.random.default_rng(3)
    found = [
        drive_gains(
            ROBOT,
            BASE,
            information(rng, gains=gains, noise=0.3 * NOISE),
            information(rng, gains=gains, load=LOAD, noise=0.3 * NOISE, motion=1),
            LOAD.mass,
        )
        for _ in range(25)
    ]
    value, std = np.array([f.value for f in found]), np.array([f.std for f in found])
    known = np.all(np.isfinite(value), axis=0)
    assert known.sum() >= 2
    ratio = np.sqrt(np.mean(std[:, known] ** 2, axis=0)) / np.std(value[:, known], axis=0, ddof=1)
    assert np.all((ratio > 0.6) & (ratio < 1.8)), ratio
    assert np.all(np.abs(np.mean(value[:, known], axis=0) / gains[known] - 1) < 0.05)


def test_the_interval_of_a_load_is_that_of_95_percent():
    rng = np.random.default_rng(4)
    empty, loaded = information(rng, n_blocks=6), information(rng, load=LOAD, motion=1, n_blocks=6)
    found = identify_load(ROBOT, BASE, empty, loaded, free=True)
    factor = found.interval[0] / found.mass_std
    assert stdtrit(200, 0.975) < factor <= stdtrit(5, 0.975), "Student's, of as many blocks as there are"
    np.testing.assert_allclose(found.interval[1], factor * found.com_std)
    np.testing.assert_allclose(found.interval[2], factor * found.inertia_std)
    assert found.significant
    nothing = identify_load(ROBOT, BASE, empty, information(rng, motion=1), free=True)
    assert nothing.significant == (abs(nothing.mass) > nothing.interval[0])
    light = Load(0.4 * found.mass_std, LOAD.com, 0 * LOAD.inertia, ROBOT.n)
    missed = [
        identify_load(ROBOT, BASE, information(rng), information(rng, load=light, motion=1), free=True).significant
        for _ in range(8)
    ]
    assert sum(missed) <= 3, "a load below its own error bar is not significant"


def test_the_load_is_the_body_that_was_put_on():
    quiet = np.full(3, 1e-6)
    rng = np.random.default_rng(5)
    found = identify_load(
        ROBOT, BASE, information(rng, noise=quiet), information(rng, load=LOAD, noise=quiet, motion=1), free=True
    )
    assert found.mass == pytest.approx(LOAD.mass, abs=1e-4)
    np.testing.assert_allclose(found.com, LOAD.com, atol=1e-4)
    np.testing.assert_allclose(found.inertia, LOAD.inertia, atol=1e-4)
    m, c = LOAD.mass, LOAD.com
    J = LOAD.inertia + m * (c @ c * np.eye(3) - np.outer(c, c))
    chi = load_parameters(ROBOT, LOAD, 14 * ROBOT.n).reshape(ROBOT.n, 14)
    assert not chi[:-1].any()
    np.testing.assert_allclose(chi[-1, : len(LINK)], [*J[np.triu_indices(3)], *(m * c), m])


def test_bars_do_not_depend_on_the_order_of_the_recordings():
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((3, 20, 12, 4)) * np.array([1.0, 3.0, 2.0])[:, None, None, None]
    e = rng.standard_normal((3, 20, 12))
    A = np.einsum("rbia,rbic->rbac", rows, rows)
    g = np.einsum("rbia,rbi->rba", rows, e)
    found = []
    for order in ([0, 1, 2], [2, 0, 1], [1, 0, 2]):
        numbers = np.repeat(np.arange(3.0), 20)
        found.append(jackknife(Moments(A[order].reshape(60, 4, 4), g[order].reshape(60, 4), numbers)))
    for covariance, dof in found[1:]:
        np.testing.assert_allclose(covariance, found[0][0], rtol=1e-9)
        assert dof == pytest.approx(found[0][1])


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


def random_information(rows):
    """Return two joints with two blocks of these numbers of rows each, three parameters."""
    rng = np.random.default_rng(0)
    blocks = tuple(
        Block(tuple(rng.normal(size=(max(count, 1), 4)) for count in two), np.array(two), float(k), k + 1.0, 0)
        for k, two in enumerate(rows)
    )
    return Information(blocks, (np.arange(3), np.arange(3)), ColumnLayout(3))


def test_there_must_be_more_rows_than_parameters_and_some_of_every_joint():
    check_rows(random_information([(2, 1), (0, 1)]))
    with pytest.raises(InputError, match="3 rows for 3 base parameters"):
        check_rows(random_information([(1, 1), (0, 1)]))
    with pytest.raises(InputError, match="no row of joint number 2 is left"):
        check_rows(random_information([(5, 0), (5, 0)]))


@pytest.mark.parametrize("rows", [3, 4, 5, 9])
def test_every_row_counts_where_there_are_hardly_more_than_parameters(rows):
    """As many rows as parameters, one more, two more: rows that are no triangle yet."""
    rng = np.random.default_rng(rows)
    R = rng.normal(size=(rows, 4))
    wanted = np.linalg.lstsq(R[:, :3], R[:, 3], rcond=None)[0]
    np.testing.assert_allclose(solve(R).value, wanted, rtol=1e-8)
    state = np.zeros((0, 4))
    for row in R:
        state = update_filter(state, row[None])
    np.testing.assert_allclose(solve(state).value, wanted, rtol=1e-8)
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
        solve_triangle(np.triu(np.ones((3, 3)), 1), np.ones(3))


PARAMETERS = 3


def moments_of(B, seed=0, correlated=0.0, recordings=None):
    """Return moments of blocks with different information, scores that sum to zero and scales far apart."""
    rng = np.random.default_rng(seed)
    scale = np.array([1.0, 1e3, 1e-3])
    A, noise = [], rng.normal(size=(B + 1, PARAMETERS))
    for _ in range(B):
        W = rng.normal(size=(12, PARAMETERS))
        A.append(W.T @ W * np.outer(scale, scale))
    g = noise[1:] + correlated * noise[:-1]
    return Moments(np.array(A), (g - g.mean(axis=0)) * scale, np.array(recordings or [0.0] * B, dtype=float))


@pytest.mark.parametrize("half", [False, True])
def test_every_block_is_left_out_of_all_parameters_at_once(half):
    found = moments_of(7, recordings=range(7))
    covariance, dof = jackknife(found, half=half)
    total = found.A.sum(axis=0)
    wanted = np.zeros((PARAMETERS, PARAMETERS))
    for A, g in zip(found.A, found.g, strict=True):
        E = np.eye(PARAMETERS) - A @ np.linalg.inv(total)
        E = np.real(scipy.linalg.sqrtm(E)) if half else E
        move = np.linalg.inv(total) @ np.linalg.solve(E, g)
        wanted += np.outer(move, move)
        if not half:  # that is the estimate without the block
            np.testing.assert_allclose(move, np.linalg.solve(total - A, g), rtol=1e-9)
    np.testing.assert_allclose(covariance, wanted, rtol=1e-7)
    assert dof == 6
    some, _ = jackknife(found, np.array([True, False, True]), half=half)
    np.testing.assert_allclose(some[np.ix_([0, 2], [0, 2])], wanted[np.ix_([0, 2], [0, 2])], rtol=1e-7)
    assert not some[1].any() and not some[:, 1].any()


def joined(found, groups):
    return Moments(
        np.array([found.A[list(group)].sum(axis=0) for group in groups]),
        np.array([found.g[list(group)].sum(axis=0) for group in groups]),
        np.array([found.recording[group[0]] for group in groups]),
    )


def test_neighbours_with_errors_in_common_are_joined_in_pairs_of_their_recording():
    recordings = [0.0] * 15 + [1.0] * 9
    found = moments_of(24, 3, 1.0, recordings)
    g = found.g / np.sqrt(np.sum(found.g**2, axis=0))
    same = np.array(recordings[1:]) == np.array(recordings[:-1])
    neighbours = np.sum((g[1:] * g[:-1])[same], axis=0)
    pairs = [(k, k + 1) for k in range(0, 12, 2)] + [(12, 13, 14)] + [(k, k + 1) for k in range(15, 21, 2)]
    pairs += [(21, 22, 23)]
    by_hand = joined(found, pairs)
    assert len(by_hand.g) == 11 < 12, "no more pairs are made of these"
    assert max(neighbours.mean(), neighbours.max() / 2.3) > 1.5 / np.sqrt(24)
    covariance, dof = jackknife(found)
    wanted, its_dof = jackknife(by_hand, grow=False)
    np.testing.assert_allclose(covariance, wanted, rtol=1e-9)
    assert dof == its_dof
    other, _ = jackknife(found, grow=False)
    assert not np.allclose(covariance, other, rtol=1e-3)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("correlated", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("count", [30, 24, 12, 11])
def test_blocks_are_joined_where_the_correlation_is_no_chance(seed, correlated, count):
    found = moments_of(count, seed, correlated)
    groups = [(k,) for k in range(count)]
    while len(groups) >= 12:
        now = joined(found, groups)
        g = now.g / np.sqrt(np.sum(now.g**2, axis=0))
        neighbours = np.sum(g[1:] * g[:-1], axis=0)
        if max(neighbours.mean(), neighbours.max() / 2.3) <= 1.5 / np.sqrt(len(g)):
            break
        even = len(groups) - len(groups) % 2
        groups = [a + b for a, b in zip(groups[:even:2], groups[1:even:2], strict=True)]
        if even < len(now.g):
            groups[-1] = groups[-1] + (count - 1,)
    wanted = jackknife(joined(found, groups), grow=False)
    covariance, dof = jackknife(found)
    np.testing.assert_allclose(covariance, wanted[0], rtol=1e-9)
    assert dof == wanted[1]


@pytest.mark.parametrize(("times", "wider"), [(1.0, False), (1.4, False), (2.5, True)])
def test_errors_that_come_again_with_the_period_widen_the_bars_where_that_is_clear(times, wider):
    time = moments_of(8, 5, recordings=range(8))
    plain, dof = jackknife(time)
    phases = Moments(time.A, time.g * np.sqrt(times), time.recording)
    covariance, its_dof = jackknife(Moments(time.A, time.g, time.recording, phases))
    np.testing.assert_allclose(covariance, plain * (times if wider else 1.0), rtol=1e-9)
    assert its_dof == dof
    # one parameter alone: half of its ratio is that of all, as a geometric mean
    only = time.g * np.sqrt([8.0, 1.0, 1.0])
    few = Moments(np.tile(np.eye(3), (8, 1, 1)), time.g, time.recording)
    plain, dof = jackknife(few)
    wide, its_dof = jackknife(Moments(few.A, few.g, few.recording, Moments(few.A, only, few.recording)))
    shared = np.sqrt(np.array([8.0, 1.0, 1.0]) * 8.0 ** (1.0 / 3.0))
    factor = np.where(shared > 1.5, shared, 1.0)
    np.testing.assert_allclose(np.diag(wide), np.diag(plain) * factor, rtol=1e-9)
    np.testing.assert_allclose(wide[0, 1], plain[0, 1] * np.sqrt(factor[0] * factor[1]), rtol=1e-9)


def test_blocks_of_the_period_have_their_own_freedom_and_are_never_joined():
    """Sums over one period come again: neighbours that have errors in common stay blocks of their own."""
    time, phases = moments_of(8, 5, recordings=range(8)), moments_of(30, 2, 1.0)
    other, its_dof = jackknife(phases, grow=False)
    assert not np.allclose(np.diag(other), np.diag(jackknife(phases)[0]), rtol=1e-3), "joining would tell"
    plain, dof = jackknife(time)
    assert dof == 7 and abs(its_dof - dof) > 0.5
    for size in (3.0, 0.1):
        ratio = size**2 * np.diag(other) / np.diag(plain)
        shared = np.sqrt(ratio * np.exp(np.mean(np.log(ratio))))
        wider = np.sqrt(np.where(shared > 1.5, shared, 1.0))
        assert np.all(shared > 1.5) == (size == 3.0)
        scaled = Moments(phases.A, size * phases.g, phases.recording)
        found, freedom = jackknife(Moments(time.A, time.g, time.recording, scaled))
        np.testing.assert_allclose(found, plain * np.outer(wider, wider), rtol=1e-7)
        assert freedom == pytest.approx(its_dof if size == 3.0 else dof)


def test_parameters_that_nobody_feels_leave_the_bars_of_the_others_alone():
    """Neither what is joined nor the factor of the slow part changes, and their own variance is zero."""
    found, more = moments_of(24, 8, 0.6), 20
    g = found.g / np.sqrt(np.sum(found.g**2, axis=0))
    common = np.sum(g[1:] * g[:-1], axis=0)
    assert common.mean() > 1.5 / np.sqrt(24) > common.max() / 2.3, (
        "blocks are joined for the mean of those that are felt"
    )
    A = np.zeros((24, PARAMETERS + more, PARAMETERS + more))
    A[:, :PARAMETERS, :PARAMETERS] = found.A
    g = np.column_stack((found.g, np.zeros((24, more))))
    phases = Moments(A[:6], 9.0 * g[:6], np.zeros(6))
    for by_phase, alone in ((None, None), (phases, Moments(found.A[:6], 9.0 * found.g[:6], np.zeros(6)))):
        covariance, dof = jackknife(Moments(A, g, found.recording, by_phase))
        wanted, its_dof = jackknife(Moments(found.A, found.g, found.recording, alone))
        np.testing.assert_allclose(covariance[:PARAMETERS, :PARAMETERS], wanted, rtol=1e-9)
        assert not covariance[PARAMETERS:].any() and dof == its_dof
    exact = Moments(found.A, 0.0 * found.g, found.recording, Moments(found.A, 0.0 * found.g, found.recording))
    covariance, dof = jackknife(exact)
    assert not covariance.any() and dof == 23.0


def test_the_end_of_a_recording_is_no_neighbour_of_the_next_ones_beginning():
    """Recordings of two blocks with errors of their own; each begins with the error that the one before ended with."""
    rng = np.random.default_rng(1)
    plain = moments_of(24, 1, recordings=np.repeat(np.arange(12.0), 2).tolist())
    noise = rng.normal(size=(13, PARAMETERS))
    g = np.repeat(noise, 2, axis=0)[1:-1]
    found = Moments(plain.A, (g - g.mean(axis=0)) * np.array([1.0, 1e3, 1e-3]), plain.recording)
    across = np.sum(found.g[1::2][:-1] * found.g[2::2], axis=0) / np.sum(found.g**2, axis=0)
    assert across.mean() > 1.5 / np.sqrt(24)
    covariance, dof = jackknife(found)
    wanted, its_dof = jackknife(found, grow=False)
    np.testing.assert_array_equal(covariance, wanted)
    assert dof == its_dof


def test_any_number_of_blocks_is_left_out_one_by_one():
    found = moments_of(300, 4, recordings=range(300))
    covariance, dof = jackknife(found)
    total = found.A.sum(axis=0)
    moves = np.array([np.linalg.solve(total - A, g) for A, g in zip(found.A, found.g, strict=True)])
    np.testing.assert_allclose(covariance, moves.T @ moves, rtol=1e-8)
    assert dof == 299


def test_parameters_that_are_hard_to_tell_apart_have_wide_bars_not_none():
    found = moments_of(8, 7, recordings=range(8))
    mix = np.array([[1.0, 0.0, 0.0], [1.0, 1e-7, 0.0], [0.0, 0.0, 1.0]])  # of sizes 1 and 1e-4
    near = Moments(mix @ found.A @ mix.T, found.g @ mix.T, found.recording)
    back = np.linalg.inv(mix).T
    wanted = back @ jackknife(found)[0] @ back.T
    np.testing.assert_allclose(jackknife(near)[0], wanted, rtol=1e-3)


def test_a_block_without_which_nothing_is_known_keeps_its_score():
    """Of two parameters, one is told by the first block alone: without it there is no estimate to compare with."""
    A = np.tile(np.diag([4.0, 0.0]), (5, 1, 1))
    A[0, 1, 1] = 2.0
    g = np.array([[1.0, 0.4], [-2.0, 0.0], [0.5, 0.0], [0.25, 0.0], [0.25, 0.0]])
    covariance, _ = jackknife(Moments(A, g, np.arange(5.0)))
    first = np.array([1.0 / 20.0, 0.4 / 2.0])  # as it is: A^-1 g
    others = np.column_stack((g[1:, 0] / 16.0, np.zeros(4)))
    moves = np.vstack((first, others))
    np.testing.assert_allclose(covariance, moves.T @ moves, rtol=1e-9)


@pytest.mark.parametrize("count", [3, 6, 7, 14, 31, 60, 201])
@pytest.mark.parametrize("r", [-0.6, -0.48, -0.3, -0.1, -0.02, 0.0, 0.03, 0.2, 0.6])
def test_as_many_slow_cosines_are_used_as_have_nearly_the_power_of_the_slowest(count, r):
    """Their mean power by the integral of the spectrum 1 + 2 r cos(w), within 10 %; six if there are none."""
    r_used = min(max(r, -0.49), 0.49)
    wanted = min(6, count - 1)
    for K in range(7, (count - 1) // 2 + 1):
        w = (np.arange(4000) + 0.5) / 4000 * np.pi * K / (count - 1)
        power = np.mean(1.0 + 2.0 * r_used * np.cos(w)) / (1.0 + 2.0 * r_used)
        if 1.0 / 1.1 <= power <= 1.1:
            wanted = K
    assert slowest(r, count) == wanted


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", [60, 25])
def test_the_slow_part_of_several_parameters_is_shared_by_half(seed, count):
    """One series: the power of its slowest cosines over the sum of squares, and half of the mean of all parameters."""
    found = moments_of(count, seed, [0.0, 0.1, -0.2, -0.5][seed % 4])
    covariance, dof = jackknife(found, grow=False)
    total = found.A.sum(axis=0)
    moves = np.array([np.linalg.solve(total - A, g) for A, g in zip(found.A, found.g, strict=True)])
    squares = np.sum(moves**2, axis=0)
    correlation = np.mean(np.sum(moves[1:] * moves[:-1], axis=0) / squares) + 1.0 / count
    K = slowest(correlation, count)
    powers = dct(moves, norm="ortho", axis=0)[1 : K + 1] ** 2
    ratio = (count - 1) / K * powers.sum(axis=0) / squares
    factor = np.sqrt(ratio * ratio.mean())
    np.testing.assert_allclose(covariance, moves.T @ moves * np.sqrt(np.outer(factor, factor)), rtol=1e-7)
    assert dof == pytest.approx(2.0 / (1.0 / K + 1.0 / (count - 1)))


def test_every_recording_is_a_series_of_its_own():
    """Equal blocks: the power of each recording's slowest cosines, its mean among them, over how many they are."""
    lengths = (9, 1, 6)
    recording = np.repeat(np.arange(3.0), lengths)
    g = np.random.default_rng(2).normal(size=(16, 1))
    g -= g.mean()
    found, dof = jackknife(Moments(np.full((16, 1, 1), 4.0), g, recording), grow=False)
    moves = g[:, 0] / (4.0 * 15)
    order = np.argsort(np.array(lengths)[recording.astype(int)], kind="stable")  # that which tells least comes first
    series, numbers = moves[order], recording[order]
    same = numbers[1:] == numbers[:-1]
    correlation = np.sum((series[1:] * series[:-1])[same]) / np.sum(series**2) + same.mean() / 16
    power = used = 0
    for number, length in enumerate(lengths):
        count = max(1, min(slowest(correlation, length), length))
        powers = dct(moves[recording == number], norm="ortho")[:count] ** 2
        power, used = power + length / count * powers.sum(), used + count
    assert found[0, 0] == pytest.approx(power)
    assert dof == pytest.approx(2.0 / (1.0 / (used - 1) + 1.0 / 15))


def test_robust_bars_allow_for_errors_of_the_period():
    rng = np.random.default_rng(1)
    A = np.tile(rng.normal(size=(12, 2)), (10, 1))
    y = A @ np.array([1.0, -2.0]) + 0.1 * rng.normal(size=120) + np.tile(rng.normal(size=12), 10)
    rows = np.column_stack((A, y))
    blocks, phases = (
        tuple(Block((rows[part],), np.array([len(rows[part])]), float(k), k + 1.0) for k, part in enumerate(parts))
        for parts in ([slice(k, k + 12) for k in range(0, 120, 12)], [slice(k, None, 12) for k in range(12)])
    )
    columns, weights = (np.arange(2),), np.array([3.0])
    information = Information(blocks, columns, ColumnLayout(2), phases)
    found = irls(information, information, weights)
    pull = block_moments(information, found.value, weights)
    wanted, dof = jackknife(pull, found.identified)
    np.testing.assert_allclose(found.covariance, wanted, rtol=1e-9)
    assert found.dof == dof
    plain, _ = jackknife(Moments(pull.A, pull.g, pull.recording), found.identified)
    assert wanted[0, 0] > 1.2 * plain[0, 0], "errors of the motion come again with every period"


def test_rows_inside_the_bend_hold_and_all_pull():
    """The covariance is that of scores of all rows and slopes of those inside alone, by time and by phase."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(120, 2))
    y = A @ np.array([1.0, -2.0]) + rng.normal(size=120) + np.tile(rng.normal(size=12), 10) * A[:, 0]
    rows, inside = np.column_stack((A, y)), rng.uniform(size=120) < 0.8
    columns, weights = (np.arange(2),), np.array([3.0])

    def informed(rows):
        blocks, phases = (
            tuple(Block((rows[part],), np.array([len(rows[part])]), float(k), k + 1.0) for k, part in enumerate(parts))
            for parts in ([slice(k, k + 12) for k in range(0, 120, 12)], [slice(k, None, 12) for k in range(12)])
        )
        return Information(blocks, columns, ColumnLayout(2), phases)

    information = informed(rows)
    found = irls(information, informed(rows * inside[:, None]), weights)
    left = y - A @ found.value
    assert np.abs(A.T @ left).max() < 1e-9

    def moments(parts, phases=None):
        hold = [9.0 * A[part][inside[part]].T @ A[part][inside[part]] for part in parts]
        pull = [9.0 * A[part].T @ left[part] for part in parts]
        return Moments(np.array(hold), np.array(pull), np.zeros(len(parts)), phases)

    by_phase = moments([slice(k, None, 12) for k in range(12)])
    by_time = moments([slice(k, k + 12) for k in range(0, 120, 12)], by_phase)
    wanted, dof = jackknife(by_time)
    np.testing.assert_allclose(found.covariance, wanted, rtol=1e-9)
    assert found.dof == pytest.approx(dof) and found.method is Method.IRLS
    assert not np.allclose(wanted, jackknife(Moments(by_time.A, by_time.g, by_time.recording))[0], rtol=0.1)


def test_moments_of_blocks_are_sums_over_their_rows():
    rng = np.random.default_rng(0)
    columns = (np.array([0, 1]), np.array([1, 2]))
    value, weights = np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.3])
    data = [[rng.normal(size=(n, 3)) for n in sizes] for sizes in ((5, 7), (4, 0), (5, 6))]
    blocks = tuple(
        Block(tuple(two), np.array([len(one) for one in two]), float(k), k + 1.0, k // 2) for k, two in enumerate(data)
    )
    information = Information(blocks, columns, ColumnLayout(3), phases=blocks[:2])
    found = block_moments(information, value, weights)
    np.testing.assert_array_equal(found.recording, [0, 0, 1])
    for k, two in enumerate(data):
        A, g = np.zeros((3, 3)), np.zeros(3)
        for rows, own, w in zip(two, columns, weights, strict=True):
            for row in rows:
                x = np.zeros(3)
                x[own] = row[:-1]
                A += w**2 * np.outer(x, x)
                g += w**2 * x * (row[-1] - x @ value)
        np.testing.assert_allclose(found.A[k], A, atol=1e-12)
        np.testing.assert_allclose(found.g[k], g, atol=1e-12)
    np.testing.assert_array_equal(found.phases.g, found.g[:2])
    assert block_moments(Information(blocks, columns, ColumnLayout(3)), value, weights).phases is None


MOTION_ROBOT = load_robot("demo6")


MOTION_BASE = base_parameters(MOTION_ROBOT, method="closed-form")


def arrays(n_samples=400, noise=0.0, seed=0, chi=None):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, n_samples, MOTION_ROBOT.n))
    tau = inverse_dynamics(MOTION_ROBOT, standard_vector(MOTION_ROBOT) if chi is None else chi, q, dq, ddq)
    return q, dq, ddq, tau + noise * rng.standard_normal(tau.shape)


def motion_information(*args, n_blocks=30):
    prepared = as_prepared(MOTION_ROBOT, *args)
    chunks = row_chunks(MOTION_ROBOT, prepared, MOTION_BASE.columns(MOTION_ROBOT))
    return gather(
        chunks, find_dependence(MOTION_ROBOT, MOTION_BASE.columns(MOTION_ROBOT)), row_count(prepared), n_blocks=n_blocks
    )


def test_ols_is_lstsq():
    q, dq, ddq, tau = arrays(noise=0.5)
    W = regressor(MOTION_ROBOT, q, dq, ddq)[:, :, MOTION_BASE.columns(MOTION_ROBOT)].reshape(-1, len(MOTION_BASE))
    expected, left, rank, _ = np.linalg.lstsq(W, tau.reshape(-1), rcond=None)
    found = ols(motion_information(q, dq, ddq, tau))
    assert np.allclose(found.value, expected, rtol=1e-9, atol=1e-9)
    assert found.rank == rank == len(MOTION_BASE)
    errors = joint_errors(motion_information(q, dq, ddq, tau), found.value)
    assert np.isclose(np.sum(errors**2), left[0], rtol=1e-9)


def test_wls_is_lstsq_of_rows_divided_by_the_joints_errors():
    q, dq, ddq, tau = arrays()
    tau = tau + np.array([5.0, 3.0, 1.0, 0.3, 0.1, 0.03]) * np.random.default_rng(1).standard_normal(tau.shape)
    found = wls(motion_information(q, dq, ddq, tau))
    W = regressor(MOTION_ROBOT, q, dq, ddq)[:, :, MOTION_BASE.columns(MOTION_ROBOT)] / found.sigma[None, :, None]
    expected = np.linalg.lstsq(W.reshape(-1, len(MOTION_BASE)), (tau / found.sigma).reshape(-1), rcond=None)[0]
    assert np.allclose(found.value, expected, rtol=1e-5, atol=1e-7)
    assert np.allclose(found.sigma, [5.0, 3.0, 1.0, 0.3, 0.1, 0.03], rtol=0.15)


def test_pinocchio_torques_give_back_the_urdf():
    pin = pytest.importorskip("pinocchio")
    from recordings import ROOT

    urdf = ROOT / "config" / "robots" / "demo6.urdf"
    robot = load_robot(urdf)
    base = base_parameters(robot, groups=("inertial",), method="closed-form")
    model = pin.buildModelFromUrdf(str(urdf))
    data = model.createData()
    q, dq, ddq = np.random.default_rng(0).uniform(-2.0, 2.0, (3, 200, robot.n))
    tau = np.array([pin.rnea(model, data, *sample) for sample in zip(q, dq, ddq, strict=True)])
    prepared = as_prepared(robot, q, dq, ddq, tau)
    info = gather(
        row_chunks(robot, prepared, base.columns(robot)),
        find_dependence(robot, base.columns(robot)),
        row_count(prepared),
    )
    truth = base.values(robot, standard_vector(robot))
    assert np.allclose(ols(info).value, truth, atol=1e-9)
    assert np.allclose(wls(info).value, truth, atol=1e-8)
    assert np.allclose(recursive(info).value, truth, atol=1e-7)


def test_blocks_and_recordings_combine_to_the_whole():
    first, second = arrays(noise=0.3, seed=1), arrays(noise=0.3, seed=2)
    joined = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    together = ols(combine([motion_information(*first, n_blocks=7), motion_information(*second, n_blocks=3)]))
    assert np.allclose(together.value, ols(motion_information(*joined)).value, rtol=1e-8, atol=1e-9)


def test_sequential_ends_at_the_batch_answer():
    info = motion_information(*arrays(noise=0.3))
    found = sequential(info)
    weights = 1.0 / np.array(found.sigma)
    from ros2_dynid.identification.regression.least_squares import own_errors

    weights = 1.0 / own_errors(info)
    batch = solve(weighted_triangle(info, weights).R)
    assert np.allclose(found.value, batch.value, rtol=1e-9, atol=1e-10)


def test_fewer_rows_than_parameters_are_refused():
    with pytest.raises(InputError, match="rows for"):
        wls(motion_information(*arrays(n_samples=5)))


def test_what_the_data_leave_open_keeps_its_prior_and_has_no_error_bar():
    q, dq, ddq, tau = arrays(noise=0.1)
    q[:, 5] = 0.3
    dq[:, 5] = ddq[:, 5] = 0.0
    tau = inverse_dynamics(MOTION_ROBOT, standard_vector(MOTION_ROBOT), q, dq, ddq)
    prior = MOTION_BASE.values(MOTION_ROBOT, standard_vector(MOTION_ROBOT))
    found = wls(motion_information(q, dq, ddq, tau), prior)
    k = MOTION_BASE.leaders.index("Fv6")
    assert not found.identified[k]
    assert np.isinf(found.std[k])
    assert found.value[k] == pytest.approx(prior[k])
    assert found.identified[MOTION_BASE.leaders.index("Fv1")]
    assert found.rank < len(MOTION_BASE)


def test_independent_errors_give_the_textbook_covariance():
    info = motion_information(*arrays(n_samples=3000, noise=1.0), n_blocks=60)
    found = ols(info)
    R = weighted_triangle(info, np.ones(6)).W[: len(MOTION_BASE)]
    textbook = np.sqrt(np.diag(np.linalg.inv(R.T @ R)))
    ratio = found.std / textbook
    assert 0.85 < np.median(ratio) < 1.25


def test_correlated_errors_widen_the_error_bars():
    q, dq, ddq, tau = arrays(n_samples=3000)
    slow = np.repeat(np.random.default_rng(3).standard_normal((60, 6)), 50, axis=0)  # one error for 50 samples
    found = ols(motion_information(q, dq, ddq, tau + slow, n_blocks=30))
    R = weighted_triangle(motion_information(q, dq, ddq, tau), np.ones(6)).W[: len(MOTION_BASE)]
    textbook = np.sqrt(np.diag(np.linalg.inv(R.T @ R)))
    k = MOTION_BASE.leaders.index("off1")  # an offset is what a slow error looks like
    assert found.std[k] > 3.0 * textbook[k]


def test_jackknife_is_the_scatter_of_estimates_with_a_block_left_out():
    info = motion_information(*arrays(noise=0.5), n_blocks=20)
    found = ols(info)
    values = [ols(info.take([k for k in range(20) if k != out])).value for out in range(20)]
    moves = np.array(values) - found.value
    A = block_moments(info, found.value, np.ones(6))
    shuffled = A.__class__(A.A, A.g, np.arange(20.0))  # no neighbours
    covariance, _ = jackknife(shuffled)
    assert np.allclose(covariance, moves.T @ moves, rtol=1e-6, atol=1e-12 * np.max(np.abs(covariance)))


def test_blocks_taken_from_blocks_taken_have_the_r_factor_of_their_rows():
    info = motion_information(*arrays(n_samples=2100, noise=0.5), n_blocks=150)
    outer = [k for k in range(150) if not 40 <= k < 71]
    inner = [k for k in range(len(outer)) if k % 50 > 3]
    part = info.take(outer).take(inner)
    rows = [info.blocks[outer[k]].R for k in inner]
    assert len(part.blocks) == len(inner) and np.array_equal(part.rows, sum(info.blocks[outer[k]].rows for k in inner))
    for j in range(MOTION_ROBOT.n):
        A = np.vstack([R[j] for R in rows])
        assert np.allclose(part.triangle(j).T @ part.triangle(j), A.T @ A, rtol=1e-11, atol=1e-9)
    joined = coarser(info, 20)
    assert len(joined.blocks) == 19 and np.array_equal(joined.rows, info.rows)
    assert np.allclose(ols(joined).value, ols(info).value, rtol=1e-9, atol=1e-9)
    assert coarser(info, 150) is info


def test_without_error_bars_the_values_are_the_same():
    info = motion_information(*arrays(noise=0.5))
    with_bars, without = wls(info), wls(info, error_bars=False)
    assert np.array_equal(with_bars.value, without.value) and np.array_equal(with_bars.sigma, without.sigma)
    assert np.isnan(without.covariance).all()


def test_errors_and_torques_are_those_of_the_rows():
    q, dq, ddq, tau = arrays(noise=0.2)
    info = motion_information(q, dq, ddq, tau)
    assert np.allclose(joint_torques(info), np.linalg.norm(tau, axis=0))


def solved(W, tau, weight):
    """Return the least-squares solution of rows times weight (rows, n)."""
    return np.linalg.lstsq((weight[:, :, None] * W).reshape(-1, W.shape[2]), (weight * tau).ravel(), rcond=None)[0]


def test_joint_by_joint_with_a_delay_and_a_column_that_does_not_show():
    """The delay is that of all joints; each group of parameters is fitted to the rows of one joint alone."""
    information = small_information()
    prior = np.array([0.0, 0.0, 0.0, 0.0, 7.0, 0.0])
    whole, found = wls(information, prior), recursive(information, prior)
    stacks = [np.vstack([block.R[j] for block in information.blocks]) for j in (0, 1)]
    value = np.zeros(6)
    value[4], value[5] = 7.0, whole.value[5]
    last, first = stacks[1], stacks[0]
    value[2:4] = np.linalg.lstsq(last[:, :2], last[:, 3] - last[:, 2] * value[5], rcond=None)[0]
    known = first[:, 5] - first[:, 2] * value[2] - first[:, 4] * value[5]
    value[:2] = np.linalg.lstsq(first[:, :2], known, rcond=None)[0]
    np.testing.assert_allclose(found.value, value, rtol=1e-9)
    assert found.identified.tolist() == [True, True, True, True, False, True] and found.rank == 5
    conds = []
    for A in (last[:, :2], np.column_stack((first[:, :2], np.zeros(len(first))))):
        s = np.linalg.svd(A / np.maximum(np.linalg.norm(A, axis=0), 1e-300), compute_uv=False)
        conds.append(s[0] / s[1])
    assert found.cond == pytest.approx(max(conds)) and conds[0] > 1.2 * conds[1], "the last joint's is the largest"
    A, g = np.zeros((8, 6, 6)), np.zeros((8, 6))
    for k, block in enumerate(information.blocks):
        for R, own, group in zip(block.R, information.columns, ([0, 1], [2, 3]), strict=True):
            left = R[:, -1] - R[:, :-1] @ value[own]
            for c in group:
                x = R[:, list(own).index(c)]
                A[k, c, own] = x @ R[:, :-1]
                g[k, c] = x @ left
    numbers = np.array([float(block.recording) for block in information.blocks])
    solved = np.array([True, True, True, True, False, False])
    covariance, dof = jackknife(Moments(A, g, numbers), solved, half=True)
    covariance[5, 5] = whole.covariance[5, 5]
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-15)
    assert found.dof == pytest.approx(dof) and found.delay_std == pytest.approx(whole.delay_std)
    np.testing.assert_allclose(found.sigma, error_levels(information, value, 1.0 / whole.sigma), rtol=1e-9)


def robust(information, prior=None):
    return irls(information, information, np.ones(2), prior)


def total(information, prior=None):
    rng = np.random.default_rng(0)

    def noise(R, columns):
        return 0.3 * rng.normal(size=R.shape) * np.append(columns != 4, False)

    return tls(information, each_triangle(information, noise, information.columns, information.layout), prior)


@pytest.mark.parametrize("method", [ols, wls, sequential, recursive, fit_output_error, robust, total])
def test_what_does_not_show_has_the_value_of_the_prior_that_was_given_last(method):
    information = small_information(1)
    for open_value in (7.0, -3.0):
        prior = np.array([0.0, 0.0, 0.0, 0.0, open_value, 0.0])
        found = method(information, prior)
        assert prior.tolist() == [0.0, 0.0, 0.0, 0.0, open_value, 0.0], "it is left as it was"
        assert found.value[4] == pytest.approx(open_value) and not found.identified[4] and np.isinf(found.std[4])
        assert not found.covariance[4].any() and not found.covariance[:, 4].any()
    assert method(information).value[4] == 0.0


def test_weights_are_iterated_as_often_as_is_asked_for():
    information = small_information(2)
    once, often = wls(information, iterations=0), wls(information)
    assert not np.allclose(once.value, often.value, rtol=1e-6)
    start = 1.0 / own_errors(information)
    np.testing.assert_allclose(once.value, solve(weighted_triangle(information, start).R).value, rtol=1e-9)
    end = 1.0 / often.sigma
    np.testing.assert_allclose(often.value, solve(weighted_triangle(information, end).R).value, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loud", [0.001, 5.0])
def test_a_joint_whose_fit_leaves_a_tenth_of_its_rows_or_less_has_the_median_error_of_the_others(loud):
    """Joints with ten columns of their own: 11 rows leave too little over, 12 do not. As a share of their torques."""
    rng = np.random.default_rng(0)
    counts, noise = (60, 40, 12, 30, 11), (0.3, 0.1, 0.2, 0.6, loud)
    rows, columns = [], []
    for j, (count, size) in enumerate(zip(counts, noise, strict=True)):
        W = rng.normal(size=(count, 10)) * (j + 1.0)
        rows.append(np.column_stack((W, W @ rng.normal(size=10) + size * rng.normal(size=count))))
        columns.append(np.arange(10 * j, 10 * j + 10))
    block = Block(tuple(rows), np.array(counts), 0.0, 1.0)
    information = Information((block,), tuple(columns), ColumnLayout(50))
    weights = np.array([3.0, 0.5, 1.0, 2.0, 9.0])
    value, level, torque = np.empty(50), np.empty(5), np.empty(5)
    for j, own in enumerate(columns):
        A, y = rows[j][:, :-1], rows[j][:, -1]
        value[own] = np.linalg.lstsq(A, y, rcond=None)[0]
        level[j] = np.linalg.norm(y - A @ value[own]) / np.sqrt(counts[j] - 10)
        torque[j] = np.sqrt(np.mean(y**2))
    np.testing.assert_allclose(own_errors(information), level, rtol=1e-9)
    common = np.median(level[:4] / torque[:4])
    wanted = [*level[:4], max(level[4], common * torque[4])]
    assert (wanted[4] == level[4]) == (loud == 5.0)
    np.testing.assert_allclose(error_levels(information, value, weights), wanted, rtol=1e-9)
    few = information.of_joints([4])
    np.testing.assert_allclose(error_levels(few, value, weights[4:]), level[4:], rtol=1e-9), "no others"


def test_bars_of_total_least_squares_are_those_of_its_own_equations_by_time_and_by_phase():
    rng = np.random.default_rng(5)
    information = small_information(3, blocks=10)
    rows = [np.vstack([block.R[j] for block in information.blocks]) for j in (0, 1)]
    for R in rows:  # errors that come again with every period
        R[:, -1] += np.tile(rng.normal(size=12), 10) * R[:, 1]
    phases = tuple(Block(tuple(R[k::12] for R in rows), np.array([10, 10]), float(k), k + 1.0) for k in range(12))
    information = replace(information, phases=phases)

    def more(R, own):
        return 0.5 * rng.normal(size=R.shape) * np.append(own != 4, False)

    noise = Information(
        tuple(replace(block, R=tuple(map(more, block.R, information.columns))) for block in information.blocks),
        information.columns,
        information.layout,
    )
    prior = np.array([0.0, 0.0, 0.0, 0.0, 7.0, 0.0])
    plain = wls(information, prior)
    weights = 1.0 / plain.sigma
    seen = [0, 1, 2, 3, 5]
    R = weighted_triangle(information, weights).R[:, [*seen, 6]]
    D = weighted_triangle(noise, weights).W[:, seen]
    S, D = R.T @ R, D.T @ D
    C = np.zeros_like(S)
    C[:-1, :-1], C[-1, -1] = D, 240.0
    least = 1.0 / eigh(C, S, eigvals_only=True)[-1]
    five = restrict(information, seen, ColumnLayout(4, 1))
    found = tls(five, restrict(noise, seen, ColumnLayout(4, 1)))
    value = np.linalg.solve(S[:-1, :-1] - least * D, S[:-1, -1])
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    assert np.abs(value - plain.value[seen]).max() > 1e-3, "noise in W matters here"
    moments = block_moments(five, value, weights)
    less = [Moments(part.A - least * D / len(part.g), part.g + least * D @ value / len(part.g), part.recording)
            for part in (moments, moments.phases)]  # fmt: skip
    covariance, dof = jackknife(replace(less[0], phases=less[1]))
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-5)
    assert found.dof == pytest.approx(dof)
    np.testing.assert_allclose(found.sigma, error_levels(five, value, weights), rtol=1e-9)
    assert not np.allclose(found.sigma, wls(five).sigma, rtol=1e-6)
    assert not np.allclose(covariance, jackknife(less[0])[0], rtol=0.1), "the period tells more"


def test_total_least_squares_is_that_of_what_the_data_determine():
    """Columns that are the same, and one that does not move, stay as ordinary least squares leaves them."""
    information = small_information(6)
    same = each_triangle(
        information,
        lambda R, columns: R[:, [0, 0, *range(2, R.shape[1])]] if 1 in columns else R,
        information.columns,
        information.layout,
    )
    prior = np.array([0.5, -0.5, 0.0, 0.0, 7.0, 0.0])
    plain, found = wls(same, prior), total(same, prior)
    assert plain.identified.tolist() == found.identified.tolist() == [False, False, True, True, False, True]
    open_ = ~found.identified
    np.testing.assert_array_equal(found.value[open_], plain.value[open_])
    held = each_triangle(
        same,
        lambda R, columns: np.column_stack((R[:, :-1], R[:, -1] - R[:, :-1] @ (open_ * plain.value)[columns])),
        same.columns,
        same.layout,
    )
    alone = restrict(held, [2, 3, 5], ColumnLayout(2, 1))
    rng = np.random.default_rng(0)
    noise = each_triangle(
        same, lambda R, c: 0.3 * rng.normal(size=R.shape) * np.append(c != 4, False), same.columns, same.layout
    )
    weights = 1.0 / plain.sigma
    R, D = weighted_triangle(alone, weights).R, weighted_triangle(noise, weights).W[:, [2, 3, 5]]
    S, C = R.T @ R, np.zeros((4, 4))
    C[:3, :3], C[3, 3] = D.T @ D, same.rows.sum()
    least = 1.0 / eigh(C, S, eigvals_only=True)[-1]
    value = np.linalg.solve(S[:3, :3] - least * D.T @ D, S[:3, 3])
    np.testing.assert_allclose(found.value[~open_], value, rtol=1e-6)
    assert not np.allclose(value, plain.value[~open_], rtol=1e-6)
    assert not found.covariance[open_].any() and np.all(np.diag(found.covariance)[~open_] > 0.0)
