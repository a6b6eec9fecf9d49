# SPDX-License-Identifier: Apache-2.0

"""Lin's recursion against the link-by-link dynamics and Pinocchio, and its counts against the paper's Table II."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import pin_regressor, random_robot
from ros2_dynid.base_parameters.minimal_combinations import combination_matrix
from ros2_dynid.codegen.graph import Count, Graph, evaluate
from ros2_dynid.codegen.minimal_recursion import minimal_inertia, minimal_torque
from ros2_dynid.dynamics.newton_euler import inertia_matrix
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_names
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot


def values_of(robot, seed):
    rng = np.random.default_rng(seed)
    names = standard_names(robot)
    chi = np.where([k % 14 < len(LINK) for k in range(len(names))], rng.standard_normal(len(names)), 0.0)
    inertial, rows, labels = combination_matrix(robot)
    found = rows @ np.array([chi[names.index(name)] for name in inertial])
    return chi, dict(zip(labels, found, strict=True))


def general(kinds, seed=3):
    rng = np.random.default_rng(seed)
    joints = []
    for j, sigma in enumerate(kinds):
        alpha, d, r = rng.uniform(0.2, 1.2, 3)
        joints.append(Joint(f"j{j}", j, sigma, 0.0, 0.0, alpha, d, 0.7 if sigma == PRISMATIC else 0.0, r))
    return Robot("general", tuple(joints), gravity=np.array([1.0, 2.0, -9.0]))


@pytest.mark.parametrize("seed", range(12))
def test_torque_and_inertia_are_those_of_pinocchio(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, 5, prismatic=0.4)
    chi, values = values_of(robot, seed)
    q, dq, ddq = rng.standard_normal((3, 5))
    graph = Graph()
    torque, inertia = minimal_torque(graph, robot).outputs, minimal_inertia(graph, robot).outputs
    expected = pin_regressor(robot, q[None], dq[None], ddq[None])[0] @ chi.reshape(5, 14)[:, : len(LINK)].ravel()
    found = evaluate(graph, torque, {"q": q, "dq": dq, "ddq": ddq}, values)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    M = np.array(evaluate(graph, inertia, {"q": q}, values)).reshape(5, 5)
    reference = inertia_matrix(robot, chi, q[None])[0]
    np.testing.assert_allclose(M, reference, atol=1e-12 * np.abs(reference).max())
    bias = evaluate(graph, torque, {"q": q, "dq": dq, "ddq": 0 * q}, values)
    np.testing.assert_allclose(M @ ddq + bias, expected, atol=1e-11 * np.abs(expected).max())  # forward dynamics


def test_counts_are_those_of_table_2_for_rotational_joints():
    steps = minimal_torque(Graph(), general([0] * 6)).steps
    paper = {"w": (8, 5), "dw": (10, 7), "Omega": (6, 9), "alpha": (0, 3), "a": (17, 13), "rho": (6, 3), "p": (8, 7)}
    for name, count in paper.items():
        assert steps[name][3] == Count(*count), name
    moment = steps["e"][3].multiplications + steps["tau"][3].multiplications
    assert (moment, steps["e"][3].additions + steps["tau"][3].additions) == (12, 11)
    assert steps["zeta"][3] == Count(19, 16)  # the paper charges 22 and 19: it counts U22, which is no combination


def test_counts_are_those_of_table_2_for_translational_joints():
    steps = minimal_torque(Graph(), general([0, 0, 0, PRISMATIC, 0, 0])).steps
    for name, count in {"w": (8, 4), "dw": (8, 4), "rho": (3, 0), "zeta": (9, 5), "p": (8, 7), "e": (12, 11)}.items():
        assert steps[name][3] == Count(*count), name
    assert steps["zeta"][2] == Count(22, 19)  # with a translational joint behind it U22 counts


def test_the_stanford_arm_takes_fewer_operations_than_printed():
    graph = Graph()
    count = graph.count(minimal_torque(graph, load_robot("stanford")).outputs)
    assert (count.multiplications, count.additions) <= (231, 219)


def test_branches_and_loops_are_refused():
    with pytest.raises(InputError, match="serial"):
        minimal_torque(Graph(), load_robot("hitachi_hpr"))
