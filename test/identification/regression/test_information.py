# SPDX-License-Identifier: Apache-2.0

"""R factors in blocks of time and of phase: gathered, taken, joined, restricted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate, Triangle
from ros2_dynid.identification.regression.information import (
    Block,
    Information,
    _stretches,
    block_folds,
    block_length,
    coarser,
    combine,
    compressed,
    different_motion,
    each_triangle,
    gather,
    phase_of,
    restrict,
)
from ros2_dynid.identification.regression.least_squares import own_errors


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


def test_rows_of_a_block():
    assert [block_length(n, 10) for n in (1, 10, 11, 95, 100, 101)] == [1, 1, 2, 10, 10, 11]
    assert block_length(7, 0) == 7 and block_length(0, 5) == 1


FELT = np.array([[True, True, False, True], [False, True, True, True]])


COLUMNS = (np.array([0, 1, 3]), np.array([1, 2, 3]))


def rows_of(count=130, seed=0, start=5.0, still=False):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(4, 2, count)) * FELT.T[:, :, None]
    keep = rng.uniform(size=(2, count)) > 0.3
    rest = ~keep & (rng.uniform(size=(2, count)) > 0.4) if still else None
    return Rows(start + 0.1 * np.arange(count), W, rng.normal(size=(2, count)), keep, rest)


def in_chunks(rows, sizes):
    at = 0
    for size in sizes:
        part = slice(at, at + size)
        still = None if rows.still is None else rows.still[:, part]
        yield Rows(rows.t[part], rows.W[:, :, part], rows.tau[:, part], rows.keep[:, part], still)
        at += size
    assert at == len(rows.t)


def moment(rows, j, chosen, factor=None):
    A = np.vstack((rows.W[COLUMNS[j], j][:, chosen], rows.tau[j, chosen]))
    A = A if factor is None else A * factor[j, chosen]
    return A @ A.T


def check(block, rows, inside, factor=None):
    for j in range(2):
        chosen = inside & rows.keep[j]
        np.testing.assert_allclose(block.R[j].T @ block.R[j], moment(rows, j, chosen, factor), atol=1e-9)
        assert block.rows[j] == np.count_nonzero(chosen)


def check_still(block, rows, chosen):
    """Check the rows of joints that stand still, of which some are chosen for each joint."""
    if not np.any(chosen):
        assert block.still is None
        return
    for j, own in enumerate(chosen):
        assert block.still.rows[j] == np.count_nonzero(own)
        np.testing.assert_allclose(block.still.R[j].T @ block.still.R[j], moment(rows, j, own), atol=1e-9)


def stills(blocks):
    """Return the rows of joints that stand still, of the blocks that have any."""
    return tuple(block.still for block in blocks if block.still is not None)


@pytest.mark.parametrize("sizes", [(130,), (1,) * 130, (50, 3, 77), (13, 13, 104)])
def test_blocks_of_time_hold_their_rows_however_the_chunks_come(sizes):
    rows, done = rows_of(), []
    found = gather(in_chunks(rows, sizes), FELT, 130, n_blocks=10, on_chunk=done.append)
    number = np.arange(130) // 13
    assert len(found.blocks) == 10 and found.layout == ColumnLayout(4) and found.phases == () == stills(found.blocks)
    for k, block in enumerate(found.blocks):
        check(block, rows, number == k)
        assert (block.start, block.end) == (pytest.approx(5.0 + 1.3 * k), pytest.approx(5.0 + 1.3 * k + 1.2))
    np.testing.assert_allclose(done, np.cumsum(sizes) / 130)
    assert [list(columns) for columns in found.columns] == [[0, 1, 3], [1, 2, 3]]
    factor = np.random.default_rng(1).uniform(size=(2, 130))

    def weight(chunk):
        first = round((chunk.t[0] - 5.0) / 0.1)
        return factor[:, first : first + len(chunk.t)]

    weighted = gather(in_chunks(rows, sizes), FELT, 130, n_blocks=10, weight=weight)
    for k, block in enumerate(weighted.blocks):
        check(block, rows, number == k, factor)


@pytest.mark.parametrize("size", [150, 900])
def test_a_block_of_thousands_of_rows_is_factored_on_the_way(size):
    rows = rows_of(9000, still=True)
    found = gather(in_chunks(rows, (size,) * (9000 // size)), FELT, 9000, n_blocks=2, period=123.4)
    number, place = np.arange(9000) // 4500, phase_of(rows.t, 123.4, 2)
    for blocks, own in ((found.blocks, number), (found.phases, place)):
        for k, block in enumerate(blocks):
            check(block, rows, own == k)
            assert all(len(R) == 4 for R in block.R) and min(block.rows) > 2500


@pytest.mark.parametrize("sizes", [(130,), (1,) * 130, (50, 3, 77)])
def test_blocks_of_phase(sizes):
    rows = rows_of(still=True)
    found = gather(in_chunks(rows, sizes), FELT, 130, n_blocks=10, period=4.13)
    place = phase_of(rows.t, 4.13, 10)
    np.testing.assert_array_equal(place, np.floor((rows.t % 4.13) / 0.413))
    assert len(found.phases) == 10
    for k, block in enumerate(found.phases):
        check(block, rows, place == k)
        assert (block.start, block.end) == (pytest.approx(0.413 * k), pytest.approx(0.413 * k + 0.413))
    pause = rows.still.all(axis=0)
    counts = rows.still & ~(pause & np.append(False, pause[:-1]))
    for blocks, number in ((found.blocks, np.arange(130) // 13), (found.phases, place)):
        for k, block in enumerate(blocks):
            check_still(block, rows, [own & (number == k) for own in counts])
    other = different_motion(found)
    assert other.blocks == found.phases and other.phases == ()
    few = gather(in_chunks(rows_of(20), (20,)), FELT, 20, n_blocks=10, period=4.13)
    assert len(few.phases) == len(np.unique(phase_of(rows_of(20).t, 4.13, 10))), "phases that were met"


@pytest.mark.parametrize("sizes", [(130,), (1,) * 130, (21, 9, 100), (15, 15, 100), (12, 118), (40, 5, 85)])
def test_of_a_pause_of_the_whole_robot_the_first_row_counts_wherever_chunks_end(sizes):
    """All stand still from 10 to 20, from 30 to 45 and at 60 and 61; the second joint alone at 22 and from 46 to 59."""
    rows = rows_of()
    still = np.zeros((2, 130), dtype=bool)
    still[:, 10:21] = still[:, 30:46] = still[:, 60:62] = True
    still[1, 22] = still[1, 46:60] = True
    rows = replace(rows, keep=~still, still=still)
    found = gather(in_chunks(rows, sizes), FELT, 130, n_blocks=10)
    counts = [[10, 30, 60], [10, 22, 30, *range(46, 61)]]
    for k, block in enumerate(found.blocks):
        check_still(block, rows, [np.isin(np.arange(130), own) & (np.arange(130) // 13 == k) for own in counts])


def test_recordings_are_numbered_through():
    one, two = (gather([rows_of(40, seed)], FELT, 40, n_blocks=4) for seed in (0, 1))
    phased = gather([rows_of(40, 2)], FELT, 40, n_blocks=4, period=1.0)
    both = combine([combine([one, two]), phased])
    assert [block.recording for block in both.blocks] == [0] * 4 + [1] * 4 + [2] * 4
    assert [block.recording for block in both.phases] == [0] * 4 + [1] * 4 + [2] * len(phased.phases)
    np.testing.assert_array_equal(both.rows, one.rows + two.rows + phased.rows)
    still = gather([rows_of(40, 3, still=True)], FELT, 40, n_blocks=4)
    mixed = combine([one, still])
    assert stills(mixed.blocks[:4]) == () and stills(mixed.blocks[4:]) == stills(still.blocks) != ()
    with pytest.raises(InputError, match="different robots"):
        combine([one, replace(two, layout=ColumnLayout(3, 1))])
    with pytest.raises(InputError, match="different robots"):
        combine([one, replace(two, columns=(COLUMNS[1], COLUMNS[0]))])


@pytest.mark.parametrize("most", [1, 2, 3, 5, 30])
def test_coarser_blocks_stay_within_their_recording(most):
    parts = [gather([rows_of(70, seed, 100.0 * seed)], FELT, 70, n_blocks=7) for seed in range(3)]
    whole = combine(parts)
    found = coarser(whole, most)
    length = -(-21 // most)
    if length < 2:
        assert found is whole
        return
    at = 0
    for k in range(3):
        for first in range(7 * k, 7 * k + 7, length):
            some = whole.blocks[first : min(first + length, 7 * k + 7)]
            block = found.blocks[at]
            at += 1
            assert (block.start, block.end, block.recording) == (some[0].start, some[-1].end, k)
            np.testing.assert_array_equal(block.rows, sum(b.rows for b in some))
            np.testing.assert_allclose(block.R[1].T @ block.R[1], sum(b.R[1].T @ b.R[1] for b in some), atol=1e-9)
    assert at == len(found.blocks)


def test_columns_left_out_and_changed():
    whole = gather([rows_of(100, still=True)], FELT, 100, n_blocks=5, period=3.0)
    small = restrict(whole, [3, 1])
    assert [list(columns) for columns in small.columns] == [[1, 0], [1, 0]] and small.size == 2
    for a, b in zip((*small.blocks, *small.phases), (*whole.blocks, *whole.phases), strict=True):
        for j, kept in enumerate(([1, 2, 3], [0, 2, 3])):
            np.testing.assert_allclose(a.R[j].T @ a.R[j], (b.R[j].T @ b.R[j])[np.ix_(kept, kept)], atol=1e-9)
    twice = each_triangle(whole, lambda R, columns: R * np.append(columns + 1.0, 2.0), whole.columns, whole.layout)
    for a, b in zip((*twice.blocks, *twice.phases), (*whole.blocks, *whole.phases), strict=True):
        np.testing.assert_allclose(a.R[1], b.R[1] * np.array([2.0, 3.0, 4.0, 2.0]))


@pytest.mark.parametrize("count", [2, 4, 5, 60])
def test_a_triangle_has_the_moments_of_its_rows(count):
    A = np.random.default_rng(0).normal(size=(count, 4))
    R = compressed(A)
    np.testing.assert_allclose(R.T @ R, A.T @ A, atol=1e-10)
    assert len(R) == min(count, 4) and (count <= 4 or np.array_equal(R, np.triu(R)))
    layout = ColumnLayout(2, 1)
    triangle = Triangle(A, layout)
    value = np.array([5.0, 6.0, 0.7])
    np.testing.assert_allclose(triangle.tau_of_base(value), A[:, 3] - 0.7 * A[:, 2])
    np.testing.assert_array_equal(triangle.base, A[:, :2])


def test_places_of_columns():
    layout = ColumnLayout(4, 1, 10, 3, 2)
    order = [layout.base, layout.friction, layout.delay, layout.load, layout.sensor]
    assert [(s.start, s.stop) for s in order] == [(0, 4), (4, 7), (7, 8), (8, 18), (18, 20)] and layout.size == 20
    assert np.flatnonzero(layout.is_base).tolist() == [0, 1, 2, 3]
    vector = layout.vector(np.arange(1.0, 5.0), 0.5)
    assert vector[:4].tolist() == [1, 2, 3, 4] and vector[7] == 0.5 and np.count_nonzero(vector) == 5


def test_rows_of_taken_blocks():
    whole = gather([rows_of(100)], FELT, 100, n_blocks=10)
    part = whole.take([7, 2, 5])
    np.testing.assert_array_equal(part.block_rows, whole.block_rows[[7, 2, 5]])
    np.testing.assert_array_equal(part.rows, whole.block_rows[[7, 2, 5]].sum(axis=0))
    assert whole.take(range(10)) is whole
    pairs = zip(whole.blocks, whole.blocks[::-1], strict=True)
    moved = replace(whole, blocks=tuple(replace(block, moving=other) for block, other in pairs))
    assert moved.take([0, 1]).in_motion().blocks == (whole.blocks[9], whole.blocks[8])
    assert moved.in_motion().blocks == whole.blocks[::-1] and whole.in_motion() is whole
    assert isinstance(part.blocks[0], Block)


@pytest.mark.parametrize(
    ("numbers", "stretches"),
    [
        (range(64), [(2, 0)]),
        (range(1, 64), [*((0, k) for k in range(1, 8)), *((1, k) for k in range(1, 8))]),
        (range(64, 128), [(2, 1)]),
        (range(63), [*((1, k) for k in range(7)), *((0, k) for k in range(56, 63))]),
        ([k for k in range(32) if k != 9], [(1, 0), (0, 8), *((0, k) for k in range(10, 16)), (1, 2), (1, 3)]),
        ([], []),
    ],
)
def test_blocks_are_put_together_from_few_stretches(numbers, stretches):
    found = _stretches(list(numbers))
    assert found == stretches
    assert [k for level, at in found for k in range(at * 8**level, (at + 1) * 8**level)] == list(numbers)


def test_blocks_may_be_taken_twice_and_in_any_order():
    whole = gather([rows_of(200)], FELT, 200, n_blocks=20)
    for numbers in ([0, 1, 1, 3, 4, 5, 6, 7], [8, 10, 9, 11, 12, 13, 14, 15, 2], [7, 6, 5, 4, 3, 2, 1, 0]):
        part = whole.take(numbers)
        np.testing.assert_array_equal(part.block_rows, whole.block_rows[numbers])
        for j in range(2):
            wanted = sum(whole.blocks[k].R[j].T @ whole.blocks[k].R[j] for k in numbers)
            np.testing.assert_allclose(part.triangle(j).T @ part.triangle(j), wanted, atol=1e-9)
        inner = part.take([1, 2, 3])
        assert inner.blocks == tuple(whole.blocks[numbers[k]] for k in (1, 2, 3))
        np.testing.assert_array_equal(inner.rows, whole.block_rows[[numbers[k] for k in (1, 2, 3)]].sum(axis=0))


def test_recordings_with_others_are_another_whole():
    first, second, third = (gather([rows_of(40, seed)], FELT, 40, n_blocks=4) for seed in range(3))
    both = combine([first, second])
    other = combine([first, third])
    assert other is not both and other.blocks[5].R is third.blocks[1].R and both.blocks[5].R is second.blocks[1].R
    some = both.of_joints([1, 0])
    assert [block.recording for block in some.blocks] == [0] * 4 + [1] * 4
    assert [(block.start, block.end) for block in some.blocks] == [(block.start, block.end) for block in both.blocks]
    np.testing.assert_array_equal(some.block_rows, both.block_rows[:, [1, 0]])


def test_rows_at_rest_and_those_in_motion_stay_with_their_blocks_and_phases():
    """One recording repeats, the other does not: its blocks of time stand where the other has phases."""
    plain = gather([rows_of(40, 1, still=True)], FELT, 40, n_blocks=4)
    phased = gather([rows_of(60, 2, still=True)], FELT, 60, n_blocks=6, period=2.0)
    for parts in ([plain, phased], [phased, plain]):
        both = combine(parts)
        assert len(both.phases) == len(both.blocks) == 10
        assert stills(both.blocks) == tuple(one for part in parts for one in stills(part.blocks))
        assert stills(both.phases) == tuple(one for part in parts for one in stills(part.phases or part.blocks))

    def slowed(blocks):
        return tuple(replace(block, moving=replace(block, start=-1.0 - k)) for k, block in enumerate(blocks))

    moved = replace(phased, blocks=slowed(phased.blocks), phases=slowed(phased.phases))
    assert different_motion(moved).in_motion().blocks == tuple(block.moving for block in moved.phases)
    assert moved.in_motion().blocks == tuple(block.moving for block in moved.blocks)
    small = restrict(moved, [3, 1])
    for few, every in zip((*small.blocks, *small.phases), (*moved.blocks, *moved.phases), strict=True):
        assert few.moving.start == every.moving.start
        a, b = few.moving.R[0], every.moving.R[0][:, [1, 2, 3]]
        np.testing.assert_allclose(a.T @ a, b.T @ b, atol=1e-9)
    assert coarser(moved, 2).phases == moved.phases
    rested = replace(plain, blocks=tuple(replace(block, resting=k + 1) for k, block in enumerate(plain.blocks)))
    assert [block.resting for block in combine([phased, rested]).blocks] == [0] * 6 + [1, 2, 3, 4]


def test_folds_have_about_the_same_number_of_rows_in_motion():
    R = tuple(np.ones((1, len(columns) + 1)) for columns in COLUMNS)
    blocks = [Block(R, np.array([50, 50]), float(k), k + 1.0, 0, 90 if k < 4 else 0) for k in range(8)]
    information = Information(tuple(blocks), COLUMNS, ColumnLayout(4))
    assert block_folds(information, 2) == [[0, 1, 2, 3, 4, 5], [6, 7]]
    still = replace(information, blocks=tuple(replace(block, resting=100) for block in blocks))
    assert block_folds(still, 2) == []


def test_exact_rows_still_have_an_error():
    """Of 1e-12 of the torque, so that weights are finite."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(40, 3))
    rows = np.column_stack((W, W @ [1.0, 2.0, 3.0]))
    information = Information((Block((rows,), np.array([40]), 0.0, 1.0),), (np.arange(3),), ColumnLayout(3))
    size = np.sqrt(np.mean(rows[:, -1] ** 2))
    assert own_errors(information) == pytest.approx(1e-12 * size, rel=1e-6, abs=0.0)
    silent = Information((Block((0.0 * rows,), np.array([40]), 0.0, 1.0),), (np.arange(3),), ColumnLayout(3))
    assert own_errors(silent)[0] == 1e-300
