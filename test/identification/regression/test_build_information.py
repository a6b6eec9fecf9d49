# SPDX-License-Identifier: Apache-2.0

"""Joints that stand still: their rows tell gravity, not friction, and count for as much as their errors allow."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows, row_chunks
from ros2_dynid.identification.regression.build_information import (
    build_information,
    with_standstill,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import combine, different_motion, gather, restrict
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo6")
FRICTION = 4.0


def truth():
    chi = standard_vector(ROBOT)
    chi[11 : 14 * ROBOT.n : 14], chi[12 : 14 * ROBOT.n : 14] = 1.0, FRICTION
    return chi


def one_after_the_other(seed, moves=30, seconds=1.0, pause=2.0, rate=200.0):
    """Return joints that move one at a time, with pauses; stuck joints have any friction up to Coulomb's."""
    rng, chi = np.random.default_rng(seed), truth()
    count = int((seconds + pause) * rate)
    x = np.clip(np.arange(count) / rate / seconds, 0.0, 1.0)[:, None]
    shapes = (
        10 * x**3 - 15 * x**4 + 6 * x**5,
        (30 * x**2 - 60 * x**3 + 30 * x**4) / seconds,
        (60 * x - 180 * x**2 + 120 * x**3) / seconds**2,
    )
    place, parts, stuck = rng.uniform(-1.2, 1.2, ROBOT.n), [], []
    for k in range(moves):
        step = np.zeros(ROBOT.n)
        step[k % ROBOT.n] = rng.uniform(-1.2, 1.2) - place[k % ROBOT.n]
        parts.append((place + shapes[0] * step, shapes[1] * step, shapes[2] * step))
        stuck.append(np.tile(rng.uniform(-FRICTION, FRICTION, ROBOT.n), (count, 1)))
        place = place + step
    q, dq, ddq = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + np.where(dq == 0.0, np.concatenate(stuck), 0.0)
    q = q + 1e-5 * rng.standard_normal(q.shape)
    t = np.arange(len(q)) / rate
    return Samples(t, ROBOT.active_names, q, tau=tau + 0.1 * rng.standard_normal(q.shape), source="one at a time")


def moving_all(seed=1, seconds=10.0, rate=200.0):
    rng, t = np.random.default_rng(seed), np.arange(0.0, seconds, 1.0 / rate)
    w, a = 2.0 * np.pi * rng.uniform(0.2, 0.6, ROBOT.n), rng.uniform(0.5, 1.0, ROBOT.n)
    q, dq, ddq = a * np.sin(w * t[:, None]), a * w * np.cos(w * t[:, None]), -a * w**2 * np.sin(w * t[:, None])
    tau = inverse_dynamics(ROBOT, truth(), q, dq, ddq) + 0.05 * rng.standard_normal(q.shape)
    return Samples(t, ROBOT.active_names, q, tau=tau, source="all at once")


def test_rows_at_rest_have_no_coulomb_friction_and_the_same_torque():
    base = base_parameters(ROBOT, method="closed-form")
    prepared = prepare(ROBOT, one_after_the_other(0, moves=8))
    columns = base.columns(ROBOT)
    place = {name: k for k, name in enumerate(base.leaders)}
    for rows in row_chunks(ROBOT, prepared, columns):
        assert not np.any(rows.keep & rows.still)
        for j in range(ROBOT.n):
            assert np.all(rows.W[place[f"Fc{j + 1}"], j, rows.still[j]] == 0.0)
            assert np.all(rows.W[place[f"off{j + 1}"], j, rows.still[j]] != 0.0)
        value = base.values(ROBOT, truth())
        error = np.abs(np.einsum("b,bjt->jt", value, rows.W) - rows.tau)[rows.still]
        assert np.quantile(error, 0.95) < 1.1 * FRICTION  # any friction up to Coulomb's


def test_weights_are_those_of_the_errors_and_errors_are_of_motion():
    """Rows at rest that are off by ten times as much count a hundredth, and not in the torque errors."""
    rng, N = np.random.default_rng(0), 3000
    W = rng.standard_normal((2, 1, N))
    still = rng.random((1, N)) < 0.5
    still[:, 0] = True
    tau = W[0] * 3.0 - W[1] + rng.standard_normal((1, N)) * np.where(still, 1.0, 0.1)
    rows = Rows(np.arange(N, dtype=float), W, tau, ~still, still)
    gathered = gather([rows], np.ones((1, 2), bool), N, ColumnLayout(2))
    pauses = int(np.sum(np.diff(still[0].astype(int)) == 1)) + 1
    assert sum(block.still.rows[0] for block in gathered.blocks if block.still) == pauses, (
        "of a pause of all joints, one row"
    )
    found = with_standstill(gathered)
    assert found.rows[0] == np.count_nonzero(~still) + pauses
    assert found.in_motion().rows[0] == np.count_nonzero(~still)
    whole, motion = (sum(b.R[0].T @ b.R[0] for b in part.blocks) for part in (found, found.in_motion()))
    first = still[0] & ~np.append(False, still[0, :-1])
    at_rest = np.vstack((W[:, 0, first], tau[:, first])) @ np.vstack((W[:, 0, first], tau[:, first])).T
    assert np.allclose((whole - motion) / at_rest, (whole - motion)[0, 0] / at_rest[0, 0], rtol=1e-6)
    assert (whole - motion)[0, 0] / at_rest[0, 0] == pytest.approx(0.01, rel=0.3)


def test_parts_of_the_information_keep_rows_in_motion_apart():
    base = base_parameters(ROBOT, method="closed-form")
    found = build_information(ROBOT, base, [prepare(ROBOT, one_after_the_other(0, moves=12))])
    assert np.all(found.in_motion().rows < found.rows)
    assert np.array_equal(found.take([0, 1]).in_motion().rows, found.in_motion().take([0, 1]).rows)
    small = restrict(found, range(5))
    assert np.allclose(
        small.in_motion().triangle(0)[:, -1] @ small.in_motion().triangle(0)[:, -1],
        found.in_motion().triangle(0)[:, -1] @ found.in_motion().triangle(0)[:, -1],
    )
    assert different_motion(found) is found
    one, other = (
        gather(row_chunks(ROBOT, prepare(ROBOT, recording), base.columns(ROBOT)), np.ones((6, len(base)), bool), 500)
        for recording in (one_after_the_other(0, moves=8), moving_all())
    )
    both = combine([one, other])
    assert any(block.still for block in both.blocks) and both.blocks[-1].still is None
    assert np.array_equal(with_standstill(both).in_motion().rows, one.rows + other.rows)


def rows_at_rest(moving, resting, seed=0, noise=(0.1, 1.0)):
    """Return rows of joints that feel two columns of their own: so many in motion, and so many at rest, of each."""
    rng, n = np.random.default_rng(seed), len(moving)
    N = sum(moving) + sum(resting)
    W, keep, still = np.zeros((2 * n, n, N)), np.zeros((n, N), bool), np.zeros((n, N), bool)
    at = 0
    for j in range(n):
        keep[j, at : at + moving[j]] = True
        still[j, at + moving[j] : at + moving[j] + resting[j]] = True
        at += moving[j] + resting[j]
        W[2 * j : 2 * j + 2, j] = rng.standard_normal((2, N))
    tau = np.einsum("b,bjt->jt", np.arange(1.0, 2 * n + 1), W)
    tau += rng.standard_normal(tau.shape) * np.where(still, noise[1], noise[0])
    felt = np.kron(np.eye(n), np.ones((1, 2))).astype(bool)
    rows = Rows(np.arange(N, dtype=float), W, tau, keep, still)
    return rows, gather([rows], felt, N, ColumnLayout(2 * n), n_blocks=6)


def weight_of(rows, before, after, j):
    """Return the weight that joint j's rows at rest have got, 0 where they are left out."""
    squares = [sum(b.R[j].T @ b.R[j] for b in part.blocks) for part in (before, after)]
    A = np.vstack((rows.W[2 * j : 2 * j + 2, j], rows.tau[j]))[:, rows.still[j]]
    share = (squares[1] - squares[0])[-1, -1] / (A @ A.T)[-1, -1]
    np.testing.assert_allclose(squares[1] - squares[0], share * (A @ A.T), atol=1e-6)
    return np.sqrt(max(share, 0.0))


def test_rows_at_rest_count_as_their_errors_allow_and_fully_where_there_are_no_others():
    """Joint 1 has ten times the error at rest, 2 too few rows there to tell it; 3 never moves."""
    moving, resting = (400, 400, 0), (400, 2, 60)
    rows, gathered = rows_at_rest(moving, resting)
    found = with_standstill(gathered)
    weights = [weight_of(rows, gathered, found, j) for j in (0, 1, 2)]
    assert weights[0] == pytest.approx(0.1, rel=0.15) and weights[1] == 0.0 and weights[2] == pytest.approx(1.0)
    assert found.rows.tolist() == [800, 400, 60]
    assert found.in_motion().rows.tolist() == [400, 400, 60], "of a joint that never moves, rows at rest"
    assert sum(block.resting for block in found.blocks) == 400 + 60
    whole = sum(b.R[2].T @ b.R[2] for b in found.in_motion().blocks)
    assert whole[-1, -1] == pytest.approx(np.sum(rows.tau[2, rows.still[2]] ** 2))
    quiet, exact = rows_at_rest((400, 400), (300, 300), noise=(0.1, 0.01))
    assert weight_of(quiet, exact, with_standstill(exact), 0) == pytest.approx(1.0), "never more than rows in motion"


@pytest.mark.parametrize(("resting", "used"), [(2, False), (3, True)])
def test_rows_at_rest_that_are_no_more_than_the_parameters_say_nothing(resting, used):
    _, gathered = rows_at_rest((100, 100), (resting, 2))
    found = with_standstill(gathered)
    assert found.rows.tolist() == [100 + (resting if used else 0), 100]
    assert np.array_equal(found.in_motion().rows, [100, 100])


def test_blocks_of_the_period_have_their_rows_at_rest_too():
    rows, _ = rows_at_rest((400, 400), (400, 2))
    felt = np.kron(np.eye(2), np.ones((1, 2))).astype(bool)
    N = len(rows.t)
    gathered = gather([rows], felt, N, ColumnLayout(4), n_blocks=6, period=N / 3.0)
    found = with_standstill(gathered)
    weight = weight_of(rows, gathered, found, 0)
    assert weight == pytest.approx(0.1, rel=0.15) and len(found.phases) == len(gathered.phases) == 6
    assert not any(block.still for block in (*found.blocks, *found.phases))
    for after, before in zip(found.phases, gathered.phases, strict=True):
        still = before.still
        assert all(a is b for a, b in zip(after.moving.R, before.R, strict=True))
        for j, share in enumerate((weight, 0.0)):
            squares = [block.R[j].T @ block.R[j] for block in (after, before, still)]
            np.testing.assert_allclose(squares[0], squares[1] + share**2 * squares[2], atol=1e-6)
        assert after.rows.tolist() == [before.rows[0] + still.rows[0], before.rows[1]]
        assert after.resting == still.rows[0]


def test_a_joint_with_as_few_rows_in_motion_keeps_those_at_rest():
    """Two rows in motion and two at rest for its two parameters: all there is; with three in motion, those decide."""
    for moving, used in ((2, True), (3, False)):
        _, gathered = rows_at_rest((200, moving), (100, 2))
        found = with_standstill(gathered)
        assert found.rows.tolist() == [300, moving + (2 if used else 0)]
    alone = rows_at_rest((200, 200), (2, 1))[1]
    found = with_standstill(alone)
    assert all(a.R is b.R and a.still is None for a, b in zip(found.blocks, alone.blocks, strict=True))
    assert found.in_motion() is found


def test_what_rows_at_rest_say_is_weighed_against_all_rows():
    """The error at rest is rms by the parameters that both kinds of rows lead to, from a tenth on in three rounds."""
    rows, gathered = rows_at_rest((8, 300), (300, 300), seed=4, noise=(0.3, 1.0))
    found = with_standstill(gathered)
    for j in (0, 1):
        A = rows.W[2 * j : 2 * j + 2, j].T
        moving, resting = rows.keep[j], rows.still[j]
        weight, told = 0.1, []
        for _ in range(3):
            w = np.where(moving, 1.0, np.where(resting, weight, 0.0))
            x = np.linalg.lstsq(A * w[:, None], rows.tau[j] * w, rcond=None)[0]
            left = rows.tau[j] - A @ x
            level = np.sqrt(np.sum(left[moving] ** 2) / (np.count_nonzero(moving) - 2))
            weight = min(level / np.sqrt(np.mean(left[resting] ** 2)), 1.0)
            told.append(weight)
        assert weight_of(rows, gathered, found, j) == pytest.approx(weight, rel=1e-6)
        assert j or abs(told[1] - told[0]) > 1e-3 * weight, "one round is not enough"


def test_too_few_rows_are_left_to_whoever_fits():
    """No row of the second joint, or no more rows than parameters: the rows are joined, and nothing is refused here."""
    assert with_standstill(rows_at_rest((50, 0), (50, 0))[1]).rows.tolist() == [100, 0]
    assert with_standstill(rows_at_rest((1, 1), (1, 1))[1]).rows.tolist() == [2, 2]


DEMO3 = load_robot("demo3")


def test_progress_counts_the_chunks_of_every_recording():
    base = base_parameters(ROBOT)
    motion = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 900, ROBOT.n))
    prepared = as_prepared(ROBOT, *motion, inverse_dynamics(ROBOT, standard_vector(ROBOT), *motion))
    told: list[float] = []
    build_information(ROBOT, base, [prepared, prepared], told.append)
    np.testing.assert_allclose(told, np.array([4, 8, 9, 13, 17, 18]) / 18)
