# SPDX-License-Identifier: Apache-2.0

"""A load soon after a pick."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.quick_load import quick_load
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.identification.online.estimator import OnlineEstimator
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo6")


CHI = true_parameters(ROBOT, 1)


BASE = base_parameters(ROBOT, method="closed-form")


MODEL = model_of(ROBOT, BASE, BASE.values(ROBOT, CHI), np.full(len(BASE), 1e-4), 1e-8 * np.eye(len(BASE)))


RATE = 200.0


def load_of(mass, centre, own=0.003):
    """Return the ten parameters of a body with a moment of inertia of `own` m^2 times its mass about its centre."""
    c = np.asarray(centre)
    J = mass * (c @ c * np.eye(3) - np.outer(c, c)) + own * mass * np.eye(3)
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * c), mass))


def streamed(seed, seconds, load):
    """Return an estimator that has seen the robot with a load move for some seconds."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1 / RATE)
    q, dq, ddq = (np.zeros((len(t), 6)) for _ in range(3))
    for j in range(6):
        for w in 2 * np.pi * rng.uniform(0.15, 0.6, 3):
            a, phase = rng.uniform(0.15, 0.4), rng.uniform(0, 6.3)
            q[:, j] += a * np.sin(w * t + phase)
            dq[:, j] += a * w * np.cos(w * t + phase)
            ddq[:, j] -= a * w**2 * np.sin(w * t + phase)
    chi = CHI.copy()
    chi[link_slice(5)] += load
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    tau += 0.005 * np.sqrt(np.mean(tau**2, axis=0)) * rng.standard_normal(tau.shape)
    q = q + 1e-5 * rng.standard_normal(q.shape)
    estimator = OnlineEstimator(ROBOT, RATE)
    for k, time in enumerate(t):
        estimator.take(q[k], tau[k], time)
        if k % 40 == 39:
            estimator.work(MODEL)
    estimator.work(MODEL)
    return estimator


@pytest.mark.parametrize(("mass", "seconds"), [(0.3, 12.0), (2.0, 6.0), (5.0, 12.0)])
def test_mass_and_centre_come_with_bars_that_hold(mass, seconds):
    inside = []
    for seed in range(3):
        centre = np.random.default_rng(seed + 10).uniform(-0.1, 0.1, 3) + np.array([0.0, 0.0, 0.12])
        estimator = streamed(seed, seconds, load_of(mass, centre))
        found = quick_load(MODEL, estimator.base, estimator.information(), link=None)
        assert found.significant
        assert abs(found.mass - mass) < 0.02 * mass + 0.01
        assert np.linalg.norm(found.com - centre) < 0.02
        inside += [abs(found.mass - mass) < 3 * found.mass_std, *(np.abs(found.com - centre) < 3 * found.com_std)]
        assert found.mass_std < 0.05 * mass + 0.02
    assert np.mean(inside) >= 0.9


def test_without_a_load_there_is_none():
    estimator = streamed(1, 8.0, np.zeros(10))
    found = quick_load(MODEL, estimator.base, estimator.information())
    assert abs(found.mass) < 3 * found.mass_std < 0.3


def test_too_little_says_nothing_and_foreign_models_are_refused():
    estimator = streamed(2, 3.0, load_of(2.0, [0, 0, 0.1]))
    information = estimator.information()
    few = replace(information, blocks=information.blocks[:1])
    assert quick_load(MODEL, estimator.base, few) is None
    other = replace(MODEL, leaders=MODEL.leaders[::-1])
    with pytest.raises(InputError, match="other base parameters"):
        quick_load(other, estimator.base, information)
