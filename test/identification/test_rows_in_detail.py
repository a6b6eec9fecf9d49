# SPDX-License-Identifier: Apache-2.0

"""Columns of friction through their filters, and rows of joints and coupled motors that are slow, by plain sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, prepare
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.rows import fast_and_still, row_chunks, row_filter, windows
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import error_levels, joint_errors, own_errors, weighted
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo3")


def prepared(rate, robot=ROBOT, seconds=8.0):
    n = len(robot.active)
    t = np.arange(int(seconds * rate)) / rate
    w = np.linspace(2.0, 5.0, n)
    q = 0.7 * np.sin(w * t[:, None]) + 0.2 * np.sin(2.1 * w * t[:, None])
    warmth = 20.0 + np.outer(t, np.arange(1.0, n + 1.0))
    samples = Samples(t, robot.active_names, q, tau=np.cos(w * t[:, None]), temperature=warmth)
    samples = samples.take(np.r_[0 : int(3.2 * rate), int(4.2 * rate) : len(t)])
    found = prepare(robot, samples, PreparationOptions(position_cutoff=12.0, row_cutoff=3.0))
    assert len(found.segments) == 2
    return replace(found, gear_torque=5.0 * np.sin(3.0 * found.t[:, None] + np.arange(n)))


STRIBECK = FrictionTerm(2, FrictionKind.STRIBECK, speed=0.4)
TERMS = (
    FrictionTerm(1, FrictionKind.LOAD),
    STRIBECK,
    replace(STRIBECK, of_shape=True),
    FrictionTerm(3, FrictionKind.TEMPERATURE, reference=25.0),
    FrictionTerm(3, FrictionKind.ROOT),
)


@pytest.mark.parametrize("rate", [100.0, 500.0])
def test_columns_of_terms_are_made_finer_and_filtered_as_the_torque_was(rate):
    p = prepared(rate)
    columns = base_parameters(ROBOT).columns(ROBOT)
    b = len(columns)
    found = np.concatenate([c.W[b:] for c in row_chunks(ROBOT, p, columns, terms=TERMS, n_rows=7)], axis=2)
    finer = max(4, round(rate / p.filter.inner_rate))
    kernel = lowpass_kernel(12.0, p.filter.inner_rate * finer)
    half = len(kernel) // 2
    wanted = []
    for segment in p.segments:
        N = segment.stop - segment.start
        places = np.clip(np.arange(-half, (N - 1) * finer + half + 1) / finer, 0, N - 1)
        v, load, T = (
            np.column_stack([np.interp(places, np.arange(N), x[segment, j]) for j in range(3)])
            for x in (p.dq, p.gear_torque, p.temperature)
        )
        s = np.sign(v)
        drop = s[:, 1] * np.exp(-((v[:, 1] / 0.4) ** 2))
        fine = np.array([
            np.abs(load[:, 0]) * s[:, 0], drop, drop * 2.0 * (v[:, 1] / 0.4) ** 2, (T[:, 2] - 25.0) * s[:, 2],
            s[:, 2] * np.sqrt(np.abs(v[:, 2])),
        ])  # fmt: skip
        inner = np.array([np.convolve(x, kernel, "valid")[::finer] for x in fine])
        rows = np.array([np.convolve(x, p.kernel, "valid")[:: p.step] for x in inner])
        wanted.append(rows)
    wanted = np.concatenate(wanted, axis=1)
    assert found.shape == (5, 3, wanted.shape[1])
    for k, joint in enumerate((0, 1, 1, 2, 2)):
        np.testing.assert_allclose(found[k, joint], wanted[k], atol=1e-9 * max(1.0, np.abs(wanted[k]).max()))
        assert not np.delete(found[k], joint, axis=0).any()


def test_columns_of_terms_do_not_depend_on_their_order():
    p, columns = prepared(100.0), base_parameters(ROBOT).columns(ROBOT)
    stribeck, power = TERMS[1], FrictionTerm(2, FrictionKind.POWER, exponent=1.4)
    terms = (
        stribeck,
        replace(stribeck, of_shape=True),
        power,
        replace(power, of_shape=True),
        FrictionTerm(2, FrictionKind.CUBIC),
    )
    b = len(columns)

    def made(chosen):
        return np.concatenate([c.W[b:] for c in row_chunks(ROBOT, p, columns, terms=chosen)], axis=2)[:, 1]

    wanted = made(terms)
    assert len({tuple(np.round(column, 6)) for column in wanted}) == 5
    for order in ((4, 3, 2, 1, 0), (0, 4, 1, 2, 3), (2, 1, 0, 3, 4), (1, 3, 0, 2, 4)):
        np.testing.assert_allclose(made([terms[k] for k in order]), wanted[list(order)], atol=1e-12)


def members_of(coupling):
    return [j - 1 for j in coupling.weights]


@pytest.mark.parametrize("filtered", [True, False])
def test_slow_joints_and_motors_that_couple_into_them(filtered):
    robot = load_robot("tx40")
    (coupling,) = robot.coupling
    if filtered:
        p = prepared(100.0, robot)
    else:
        q, dq, ddq, tau = np.random.default_rng(0).normal(size=(4, 300, 6))
        p = as_prepared(robot, q, dq, ddq, tau)
    bridged, dq = np.zeros(len(p.t)), p.dq.copy()
    bridged[100:106] = bridged[215:221] = 1.0
    dq[130:230, 2] = 0.0
    dq[200:270, members_of(coupling)] *= 0.01
    p = replace(p, dq=dq)
    p = replace(p, filter=replace(p.filter, slow=0.25), bridged=bridged if filtered else p.bridged)
    joints = [replace(joint, measured_drive=("Fv",)) if k == 0 else joint for k, joint in enumerate(robot.joints)]
    robot = replace(robot, joints=tuple(joints), parameters={})
    passed = row_filter(p.kernel, p.step)
    slow = np.abs(p.dq) <= 0.25 * p.top_speed
    slow[:, 0] = False  # an effort without Coulomb friction is kept
    members = members_of(coupling)
    motor = np.abs(sum(c * p.dq[:, j - 1] for j, c in coupling.weights.items())) <= 0.25 * p.top_speed[members].max()
    crawling, resting = slow.copy(), slow.copy()
    for j in members:
        crawling[:, j] |= motor
        resting[:, j] &= motor
    kernel = np.abs(p.kernel[::-1]) / np.abs(p.kernel).sum() if filtered else np.ones(1)
    half = len(kernel) // 2
    some = [0, 0]
    for window in windows(p, 20):
        keep, still = fast_and_still(robot, p, window, passed)
        for k, centre in enumerate(window.at):
            around = slice(centre - half, centre + half + 1)
            whole = kernel @ p.bridged[around] <= 0.05
            np.testing.assert_array_equal(keep[:, k], whole & (kernel @ crawling[around] <= 0.2))
            np.testing.assert_array_equal(still[:, k], whole & (kernel @ resting[around] > 0.8))
        some[0] += np.count_nonzero(~keep[members])
        some[1] += np.count_nonzero(still)
    assert all(some)
    fast = replace(p, filter=replace(p.filter, slow=0.0), bridged=np.zeros(len(p.t)))
    keep, still = fast_and_still(robot, fast, next(windows(fast, 20)), passed)
    assert keep.all() and not still.any()


def test_exact_rows_have_an_error_level_of_rounding():
    A = np.random.default_rng(1).integers(-5, 6, (40, 3)).astype(float)
    tau = A @ np.array([1.0, -2.0, 3.0])
    block = Block((np.column_stack((A, tau)), np.column_stack((A, 10.0 * tau))), np.array([40, 40]), 0.0, 1.0)
    information = Information((block,), (np.arange(3), np.arange(3, 6)), ColumnLayout(6))
    level = 1e-12 * np.linalg.norm(tau) / np.sqrt(40) * np.array([1.0, 10.0])
    np.testing.assert_allclose(own_errors(information), level)
    value = np.array([1.0, -2.0, 3.0, 10.0, -20.0, 30.0])
    np.testing.assert_allclose(error_levels(information, value, np.ones(2)), level)
    # a known error, and degrees of freedom that the weights share
    off = value + np.array([0.1, 0.0, 0.0, 0.0, 0.2, 0.0])
    errors = np.array([0.1 * np.linalg.norm(A[:, 0]), 0.2 * np.linalg.norm(A[:, 1])])
    np.testing.assert_allclose(error_levels(information, off, np.array([5.0, 0.1])), errors / np.sqrt(40 - 3))


def test_a_joint_with_hardly_more_rows_than_parameters_does_not_draw_all_weight_to_itself():
    """16 rows of one joint for 20 parameters that all share: they would be met exactly, whatever the others say."""
    rng = np.random.default_rng(4)
    truth, rows = rng.normal(size=20), (16, 30, 30)
    parts = [rng.normal(size=(count, 20)) for count in rows]
    noisy = [np.column_stack((A, A @ truth + 0.05 * rng.normal(size=len(A)))) for A in parts]
    information = Information((Block(tuple(noisy), np.array(rows), 0.0, 1.0),), (np.arange(20),) * 3, ColumnLayout(20))
    found, weights = weighted(information)
    assert 0.3 < weights[0] / np.median(weights[1:]) < 3.0
    assert np.all(joint_errors(information, found.value) > 1e-3)
    assert np.linalg.norm(found.value - truth) < 0.06
    # a level that is seen is left as it is
    alike = error_levels(information, found.value, np.array([1e-3, 1.0, 1.0]))
    assert alike[0] == pytest.approx(joint_errors(information, found.value)[0] / 4.0, rel=0.01)
