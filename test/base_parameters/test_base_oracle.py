# SPDX-License-Identifier: Apache-2.0

"""Rank and span against regressors that Pinocchio computed."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import pin_regressor, random_robot
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import select_groups

pytest.importorskip("pinocchio")


def oracle_matrix(robot, rng, samples=60):
    """Return W, shape (samples n_active, 10 n), of Pinocchio's regressors, loops closed by G^T."""
    G, offset = constraint(robot)
    qa, dqa, ddqa = rng.normal(size=(3, samples, G.shape[1])) * 1.5
    Y = pin_regressor(robot, qa @ G.T + offset, dqa @ G.T, ddqa @ G.T)
    return np.einsum("jk,tjc->tkc", G, Y).reshape(-1, Y.shape[-1])


def check(robot, W, base):
    """The base parameters' columns are independent and make up all others, with the coefficients given."""
    leaders = [base.standard_names.index(name) for name in base.leaders]
    s = np.linalg.svd(W, compute_uv=False)
    assert np.count_nonzero(s > 1e-9 * s[0]) == len(base)
    np.testing.assert_allclose(W[:, leaders] @ base.M, W, rtol=0, atol=1e-10 * np.abs(W).max())


@pytest.mark.parametrize("seed", range(30))
def test_random_robots(seed):
    rng = np.random.default_rng(9000 + seed)
    robot = random_robot(rng, int(rng.integers(1, 9)), tree=bool(seed % 2))
    W = oracle_matrix(robot, rng)
    for method in ("qr", "svd", "closed-form"):
        check(robot, W, base_parameters(robot, method=method, groups=("inertial",)))


@pytest.mark.parametrize("name", ["puma560", "stanford", "tx40", "hitachi_hpr"])
def test_shipped_robots(name):
    robot = load_robot(name)
    W = oracle_matrix(robot, np.random.default_rng(1), samples=120)
    base = base_parameters(robot, groups=("inertial",))
    assert base.standard_names == select_groups(robot, ("inertial",))
    check(robot, W, base)


def test_a_parallelogram_regroups_across_its_loop():
    """Loops are computed numerically; asking for the closed form says so and gives the same."""
    robot = load_robot("hitachi_hpr")
    numeric = base_parameters(robot)
    asked = base_parameters(robot, method="closed-form")
    assert asked.method == "qr" and any("loops" in warning for warning in asked.warnings)
    assert asked.leaders == numeric.leaders
    for source in ("accel", "energy"):
        for method in ("qr", "svd"):
            other = base_parameters(robot, source=source, method=method)
            inertial = base_parameters(robot, groups=("inertial", "rotor"))
            assert other.leaders == inertial.leaders
            np.testing.assert_allclose(other.M, inertial.M, atol=1e-10)
