# SPDX-License-Identifier: Apache-2.0

"""Fourier trajectories optimised on the torque regressor of the base parameters."""

from __future__ import annotations

import numpy as np
import pytest

from gantry import ROBOT
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.excitation.fourier_trajectory import STEP, FourierProblem, TorqueModel, linear_factor, shrink
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.excitation.penalty import Penalty

BOUNDS = bounds_of(ROBOT, 0.0)


MIDDLE = np.array([0.5, -1.25, 0.7])


def problem_of(chi=None, penalty=Penalty, fixed=False, bounds=BOUNDS):
    base = base_parameters(ROBOT)
    model = TorqueModel(ROBOT, tuple(base.columns(ROBOT)), np.array([1.0, 2.0, 0.5]), "cond")
    scale = np.array([0.6, 0.4, 0.3])
    return FourierProblem(model, penalty(ROBOT, bounds, tight=0.9, chi=chi), 5.0, 4, MIDDLE, scale, fixed)


@pytest.mark.parametrize("seed", range(4))
def test_a_series_is_shrunk_as_little_as_its_limits_ask_for(seed):
    problem = problem_of()
    y = np.random.default_rng(seed).normal(size=problem.shape).ravel() * 3.0
    factor = linear_factor(problem, y)
    q, dq, ddq = problem.series(factor * y).evaluate(np.linspace(0.0, 5.0, 20_001))
    use = max(
        np.max((q - MIDDLE) / (BOUNDS.upper - MIDDLE)),
        np.max((MIDDLE - q) / (MIDDLE - BOUNDS.lower)),
        np.max(np.abs(dq) / BOUNDS.velocity),
        np.max(np.abs(ddq) / BOUNDS.acceleration),
    )
    assert use == pytest.approx(1.0, abs=1e-5) and factor < 1.0
    assert linear_factor(problem, 1e-3 * y) == 1.0
    size = np.linalg.norm(factor * y)
    assert np.linalg.norm(shrink(problem, y, lambda series: True)) == pytest.approx(size)

    def largest(series):
        return np.abs(np.column_stack((series.A, series.B))).max()

    whole = largest(problem.series(factor * y))
    for share in (0.9, 0.3, 0.02):
        found = shrink(problem, y, lambda series, share=share: largest(series) <= share * whole)
        kept = np.linalg.norm(found) / size
        assert share * STEP <= kept <= share * (1 + 1e-9)
    assert not shrink(problem, y, lambda series: False).any()
