# SPDX-License-Identifier: Apache-2.0

"""Error bars of long recordings: errors that last longer than a block, and errors that come again with every period."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.repetition import find_motion_period
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import (
    build_information,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import BLOCKS, gather, phase_of
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

RATE = 100.0


def motion(seconds, period, n=2, rate=RATE, drift=0.0):
    t = np.arange(0.0, seconds, 1 / rate)
    w = 2 * np.pi / period * (1.0 + drift * t / seconds)
    return t, np.column_stack([np.sin(w * t) + 0.4 * np.sin((2 + k) * w * t + k) for k in range(n)])


def repeating(t, q):
    robot = load_robot("demo3")
    zero = np.zeros((len(t), 3))
    q3 = np.column_stack((q, q[:, 0]))
    return find_motion_period(as_prepared(robot, q3, zero, zero, zero, t))


@pytest.mark.parametrize("period", [7.0, 12.345])
def test_period_is_found_between_samples(period):
    found = repeating(*motion(200.0, period))
    assert found == pytest.approx(period, rel=2e-5)


def test_motion_that_does_not_repeat_has_no_period():
    assert repeating(*motion(20.0, 12.0)) is None, "too few periods"
    assert repeating(*motion(200.0, 7.0, drift=0.2)) is None
    t, q = motion(200.0, 7.0)
    assert repeating(t, q + 0.1 * np.random.default_rng(0).standard_normal(q.shape).cumsum(axis=0) / 30) is None


def test_phases_hold_the_same_rows():
    rng = np.random.default_rng(0)
    t = np.arange(0.0, 100.0, 0.05)
    W, tau = rng.standard_normal((3, 1, len(t))), rng.standard_normal((1, len(t)))
    rows = [Rows(t[a:b], W[:, :, a:b], tau[:, a:b], np.ones((1, b - a), bool)) for a, b in ((0, 700), (700, len(t)))]
    found = gather(rows, np.ones((1, 3), bool), len(t), ColumnLayout(3), period=7.0)
    assert len(found.phases) == BLOCKS
    together = sum(block.R[0].T @ block.R[0] for block in found.phases)
    assert np.allclose(together, sum(block.R[0].T @ block.R[0] for block in found.blocks))
    inside = phase_of(t, 7.0) == 4
    A = np.column_stack((W[:, 0, inside].T, tau[0, inside]))
    assert np.allclose(found.phases[4].R[0].T @ found.phases[4].R[0], A.T @ A)
    assert np.array_equal(found.phases[4].rows, [inside.sum()])


@pytest.mark.parametrize("lasts", [0.05, 2.0])
def test_blocks_grow_with_the_time_that_errors_last(lasts):
    """Stated over empirical standard deviation of an offset and a wave; lasts: time constant in blocks."""
    rng = np.random.default_rng(1)
    N, runs = 1500, 60
    x = np.vstack((np.ones(N), np.sin(np.arange(N) * 2 * np.pi / 37.0)))
    share = np.exp(-BLOCKS / (lasts * N))
    values, stds = [], []
    for _ in range(runs):
        e = np.empty(N)
        e[0] = rng.standard_normal()
        kicks = np.sqrt(1 - share**2) * rng.standard_normal(N)
        for k in range(1, N):
            e[k] = share * e[k - 1] + kicks[k]
        rows = Rows(np.arange(N, dtype=float), x[:, None], e[None], np.ones((1, N), bool))
        found = wls(gather([rows], np.ones((1, 2), bool), N))
        values.append(found.value)
        stds.append(found.std)
    ratio = np.sqrt(np.mean(np.square(stds), axis=0)) / np.sqrt(np.mean(np.square(values), axis=0))
    assert 0.75 < ratio[0] < 1.3 and 0.75 < ratio[1] < 2.0, "the wave is hardly touched by slow errors"


@pytest.mark.parametrize("method", [Method.WLS, Method.IV])
def test_errors_of_the_motion_count_once_however_often_it_repeats(method):
    """Torque errors that come again with every period: ten minutes know no more than they tell in one period."""
    robot = load_robot("demo3")
    chi = true_parameters(robot, 1)
    base = base_parameters(robot, method="closed-form")
    truth = base.values(robot, chi)
    period = 10.0
    z = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        t = np.arange(0.0, 12 * period, 0.01)
        q, dq, ddq = (np.zeros((len(t), 3)) for _ in range(3))
        wrong = np.zeros((len(t), 3))
        for j in range(3):
            for h in range(1, 6):
                a, b = rng.normal(size=2)
                w = 2 * np.pi * h / period
                q[:, j] += (a * np.sin(w * t) - b * np.cos(w * t)) / w / 3
                dq[:, j] += (a * np.cos(w * t) + b * np.sin(w * t)) / 3
                ddq[:, j] += w * (b * np.cos(w * t) - a * np.sin(w * t)) / 3
            for h in range(1, 40):
                wrong[:, j] += 0.05 * rng.normal() * np.sin(2 * np.pi * h / period * t + rng.uniform(0, 6.3))
        tau = inverse_dynamics(robot, chi, q, dq, ddq) + wrong + 0.02 * rng.standard_normal(q.shape)
        samples = Samples(t, robot.active_names, q + 1e-6 * rng.standard_normal(q.shape), tau=tau)
        prepared = prepare(robot, samples)
        problem = Problem(robot, base, (prepared,), build_information(robot, base, [prepared]), np.zeros(len(base) + 1))
        found = build_estimator(method, problem)(None)
        z.append((found.base - truth) / found.base_std)
    assert np.sqrt(np.mean(np.square(z))) < 1.5
    assert np.mean(np.abs(z) < 3.0) >= 0.95
