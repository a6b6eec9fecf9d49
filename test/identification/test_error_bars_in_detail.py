# SPDX-License-Identifier: Apache-2.0

"""The jackknife of several parameters by its definition: blocks left out, joined, and of the period of a motion."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy.fft import dct

from ros2_dynid.identification.estimators.robust import irls
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import Moments, block_moments, jackknife, slowest

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
