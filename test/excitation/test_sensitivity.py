# SPDX-License-Identifier: Apache-2.0

"""Gradients of the regressors against differences, on random trees with couplings, passive and prismatic joints."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.excitation.sensitivity import energy_with_gradient, regressor_with_gradient
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Coupling, Joint, Passive, Robot

STEP = 1e-6


FORCES = (
    Force("spring", ForceKind.SPRING, (0, 1, 2, 3), {1: 1.0, 3: -0.5}, rest=0.2),
    Force("piston", ForceKind.CYLINDER, (0, 1, 2), {}, (Pivot(0, (0.3, -2.0, 0.1)), Pivot(4, (0.5, 0.2, 3.0))), 0.4),
)


def random_robot(
    seed: int, *, tree: bool = False, coupled: bool = False, passive: bool = False, elastic: bool = False
) -> Robot:
    rng = np.random.default_rng(seed)
    joints = tuple(
        Joint(f"j{j}", int(rng.integers(0, j)) if tree else j - 1, int(rng.random() < 0.4), *rng.normal(size=6))
        for j in range(1, 6)
    )
    return Robot(
        "random",
        joints,
        gravity=5.0 * rng.normal(size=3),
        coupling=(Coupling(5, {4: 0.7, 5: 1.3}, True), Coupling(1, {1: 1.0, 2: -0.5, 3: 0.2})) if coupled else (),
        passive=(Passive(2, {1: 0.5, 3: -2.0}, 0.3),) if passive else (),
        base=transform(rotation_rpy(0.3, -0.2, 0.5), np.array([0.1, 0.4, -0.3])) if elastic else np.eye(4),
        forces=FORCES if elastic else (),
    )


KINDS = (
    {},
    {"tree": True},
    {"coupled": True},
    {"tree": True, "coupled": True, "passive": True},
    {"coupled": True, "passive": True, "elastic": True},
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_regressor_and_its_gradient(kind, seed):
    robot = random_robot(seed, **kind)
    rng = np.random.default_rng(seed)
    x = list(rng.normal(size=(3, 4, len(robot.active))))
    C = rng.normal(size=(4, len(robot.active), len(standard_names(robot))))
    Y, back = regressor_with_gradient(robot, *x)
    np.testing.assert_allclose(Y, regressor(robot, *x), rtol=1e-12, atol=1e-12)
    for i, gradient in enumerate(back(C)):
        for k in range(len(robot.active)):
            sides = []
            for sign in (1.0, -1.0):
                moved = [a.copy() for a in x]
                moved[i][:, k] += sign * STEP
                sides.append(np.sum(regressor(robot, *moved) * C, axis=(1, 2)))
            np.testing.assert_allclose(gradient[:, k], (sides[0] - sides[1]) / (2 * STEP), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_energy_and_its_gradient(kind, seed):
    robot = random_robot(seed, **kind)
    rng = np.random.default_rng(seed)
    x = list(rng.normal(size=(2, 4, len(robot.active))))
    C = rng.normal(size=(4, len(standard_names(robot))))
    h, back = energy_with_gradient(robot, *x)
    np.testing.assert_allclose(h, energy_regressor(robot, *x), rtol=1e-12, atol=1e-12)
    for i, gradient in enumerate(back(C)):
        for k in range(len(robot.active)):
            sides = []
            for sign in (1.0, -1.0):
                moved = [a.copy() for a in x]
                moved[i][:, k] += sign * STEP
                sides.append(np.sum(energy_regressor(robot, *moved) * C, axis=1))
            np.testing.assert_allclose(gradient[:, k], (sides[0] - sides[1]) / (2 * STEP), rtol=2e-6, atol=2e-6)


def test_softened_friction_has_its_gradient():
    robot = random_robot(7, tree=True, coupled=True, passive=True)
    rng = np.random.default_rng(7)
    x = list(rng.normal(size=(3, 4, len(robot.active))))
    C = rng.normal(size=(4, len(robot.active), len(standard_names(robot))))
    softness = np.linspace(0.3, 0.9, robot.n)
    gradient = regressor_with_gradient(robot, *x, softness)[1](C)[1]
    for k in range(len(robot.active)):
        sides = []
        for sign in (1.0, -1.0):
            dq = x[1].copy()
            dq[:, k] += sign * STEP
            sides.append(np.sum(regressor_with_gradient(robot, x[0], dq, x[2], softness)[0] * C, axis=(1, 2)))
        np.testing.assert_allclose(gradient[:, k], (sides[0] - sides[1]) / (2 * STEP), rtol=2e-6, atol=2e-6)
