# SPDX-License-Identifier: Apache-2.0

"""Random robots: every method finds the same leaders and coefficients, and torques do not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.minimal_combinations import combination_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Coupling, Joint, Robot

GROUPS = (None, ("inertial",), ("inertial", "rotor"), ("inertial", "offset"))


def robot_of(seed: int, *, coupled: bool = False) -> Robot:
    """Return a random robot: serial or tree, gravity along an axis, in general, or none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    robot = random_robot(rng, n, tree=bool(seed % 2))
    gravity = ([0.0, 0.0, -9.81], [0.0, -9.81, 0.0], rng.normal(size=3) * 5, [0.0, 0.0, 0.0])[int(rng.integers(4))]
    robot = replace(robot, gravity=np.array(gravity), base=np.eye(4) if seed % 3 else robot.base.copy())
    if coupled and n > 1:
        motor, *others = (int(j) + 1 for j in rng.permutation(n)[: int(rng.integers(2, 4))])
        weights = {motor: 1.0, **{j: float(rng.choice([1.0, -1.0, 0.5])) for j in others}}
        robot = replace(robot, coupling=(Coupling(motor, weights, bool(rng.integers(2))),))
    return robot


def assert_same(a, b):
    assert a.leaders == b.leaders
    np.testing.assert_allclose(a.M, b.M, rtol=0, atol=1e-10 * max(1.0, np.abs(a.M).max(initial=0.0)))
    assert (a.eliminated, a.regrouped, a.names) == (b.eliminated, b.regrouped, b.names)


@pytest.mark.parametrize("block", range(10))
def test_closed_form_agrees_with_qr_on_hundreds_of_robots(block):
    for seed in range(40 * block, 40 * block + 20):
        robot, groups = robot_of(seed), GROUPS[seed % 4]
        assert_same(
            base_parameters(robot, method="closed-form", groups=groups),
            base_parameters(robot, groups=groups, seed=seed),
        )


@pytest.mark.parametrize("source", ["accel", "energy"])
@pytest.mark.parametrize("method", ["qr", "svd"])
def test_other_models_and_svd_agree(source, method):
    for seed in range(1000, 1030):
        robot = robot_of(seed, coupled=seed % 4 == 0)
        exact = base_parameters(robot, source=source, method="closed-form")
        found = base_parameters(robot, source=source, method=method)
        assert found.warnings[0].startswith("friction and offset left out")
        assert_same(exact, found)


def test_coupled_motors_agree():
    for seed in range(2000, 2040):
        robot = robot_of(seed, coupled=True)
        exact = base_parameters(robot, method="closed-form")
        assert_same(exact, base_parameters(robot, method="qr"))
        assert_same(exact, base_parameters(robot, method="svd"))


def test_a_tilting_base_agrees_and_shows_more():
    more = 0
    for seed in range(3000, 3040):
        robot = robot_of(seed)
        exact = base_parameters(robot, method="closed-form", tilting_base=True)
        for source in ("torque", "energy"):
            groups = None if source == "torque" else ("inertial", "rotor")
            assert_same(
                base_parameters(robot, source=source, groups=groups, method="closed-form", tilting_base=True),
                base_parameters(robot, source=source, groups=groups, tilting_base=True),
            )
        standing = base_parameters(robot, method="closed-form")
        assert len(exact) >= len(standing)
        more += len(exact) > len(standing)
    assert more > 10


def test_any_order_of_preference_agrees():
    for seed in range(4000, 4030):
        robot = robot_of(seed, coupled=seed % 3 == 0)
        order = [str(j) for j in np.random.default_rng(seed).permutation(robot.n) + 1]
        exact = base_parameters(robot, method="closed-form", order=order)
        assert_same(exact, base_parameters(robot, order=order))
        assert_same(exact, base_parameters(robot, method="svd", order=order))
        # A leader depends on no column preferred to it; a regrouped one is made of such columns only.
        rank = {name: k for k, name in enumerate(sorted(exact.standard_names, key=lambda name: _rank(name, order)))}
        for name in exact.regrouped:
            column = exact.standard_names.index(name)
            assert all(rank[exact.leaders[k]] < rank[name] for k in np.flatnonzero(exact.M[:, column]))


def _rank(name: str, order: list[str]) -> int:
    return order.index(name.lstrip("XYZMIaFvcmof"))


def test_the_span_of_theorem_2_is_that_of_the_base_parameters():
    """Lin's sets are independent, as many as the base parameters, and span the same, prismatic joints and trees too."""
    for seed in range(5000, 5150):
        robot = robot_of(seed)
        if not np.any(robot.gravity):
            continue
        base = base_parameters(robot, method="closed-form", groups=("inertial",))
        _, rows, _ = combination_matrix(robot)
        assert len(rows) == len(base)
        if len(rows):
            # Every combination is a combination of base parameters: its coefficients at the leaders are the factors.
            at = [base.standard_names.index(name) for name in base.leaders]
            np.testing.assert_allclose(rows[:, at] @ base.M, rows, rtol=0, atol=1e-10)
            assert np.linalg.matrix_rank(rows[:, at], tol=1e-9) == len(base)


@pytest.mark.parametrize("method", ["qr", "svd", "closed-form"])
def test_torques_do_not_change_when_base_parameters_replace_the_standard_ones(method):
    for seed in range(6000, 6024):
        robot = robot_of(seed, coupled=seed % 2 == 0)
        rng = np.random.default_rng(seed)
        q, dq, ddq = rng.normal(size=(3, 25, robot.n))
        chi = rng.normal(size=len(standard_names(robot)))
        tau = inverse_dynamics(robot, chi, q, dq, ddq)
        base = base_parameters(robot, method=method)
        columns = base.columns(robot)
        values = base.values(robot, chi)
        np.testing.assert_allclose(
            regressor(robot, q, dq, ddq)[:, :, columns] @ values, tau, rtol=0, atol=1e-10 * np.abs(tau).max()
        )
        alone = np.zeros_like(chi)
        alone[columns] = values
        np.testing.assert_allclose(
            inverse_dynamics(robot, alone, q, dq, ddq), tau, rtol=0, atol=1e-10 * np.abs(tau).max()
        )


def test_results_do_not_depend_on_the_seed_nor_on_the_size_of_the_robot():
    robot = robot_of(7003)
    first = base_parameters(robot, seed=0)
    for seed in range(1, 8):
        assert_same(first, base_parameters(robot, seed=seed))
    for scale in (1e-3, 1e3):
        joints = tuple(
            replace(joint, b=joint.b * scale, d=joint.d * scale, r=joint.r * scale) for joint in robot.joints
        )
        small = replace(robot, joints=joints)
        assert base_parameters(small).leaders == first.leaders
        assert base_parameters(small, method="closed-form").leaders == first.leaders


@pytest.mark.parametrize("tree", [False, True])
def test_thirty_joints(tree):
    robot = random_robot(np.random.default_rng(30 + tree), 30, tree=tree)
    exact = base_parameters(robot, method="closed-form")
    assert_same(exact, base_parameters(robot))
    assert len(exact.standard_names) == 420


def test_general_geometry_has_the_known_count():
    """Revolute joints in general position: 3 parameters for the first joint, 7 for each one after it, and rotors."""
    rng = np.random.default_rng(5)
    joints = tuple(Joint(f"j{j}", j, 0, 0.0, 0.0, *(float(x) for x in rng.uniform(0.3, 1.2, 4))) for j in range(6))
    robot = Robot("general", joints)
    for method in ("qr", "svd", "closed-form"):
        assert len(base_parameters(robot, method=method, groups=("inertial",))) == 3 + 5 * 7
        assert len(base_parameters(robot, method=method, groups=("inertial", "rotor"))) == 3 + 5 * 7 + 5
