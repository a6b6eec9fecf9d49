# SPDX-License-Identifier: Apache-2.0

"""Minimal combinations found from the last link to the first (Lin 1995), from torques of the links' own parameters."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters.minimal_combinations import combination_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.from_last_link import identify_from_last_link
from ros2_dynid.identification.estimators.joint_by_joint import recursive
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot


def arm(kinds):
    """Return an arm of rotational (0) and translational (1) joints at no right angle."""
    rng = np.random.default_rng(5)
    joints = []
    for j, sigma in enumerate(kinds):
        alpha, d, r = rng.uniform(0.2, 1.2, 3)
        joints.append(Joint(f"j{j + 1}", j, sigma, 0.0, 0.0, alpha, d, 0.7 if sigma == PRISMATIC else 0.0, r))
    return Robot("arm", tuple(joints), gravity=np.array([1.0, 2.0, -9.0]))


def recorded(robot, seed=1):
    """Return true combinations by name, a random motion and its torques from the links' own parameters."""
    rng = np.random.default_rng(seed)
    names, matrix, labels = combination_matrix(robot)
    chi = dict(zip(names, rng.standard_normal(len(names)), strict=True))
    q, dq, ddq = rng.standard_normal((3, 200, robot.n))
    others = dict.fromkeys(standard_names(robot), 0.0)
    tau = inverse_dynamics(robot, standard_vector(robot, others | chi), q, dq, ddq)
    return dict(zip(labels, matrix @ list(chi.values()), strict=True)), (q, dq, ddq), tau


@pytest.mark.parametrize(
    "robot",
    [load_robot("stanford"), load_robot("puma560"), *map(arm, ([0] * 6, [0, 1, 1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 1]))],
    ids=["stanford", "puma560", "RRRRRR", "RTTRTR", "TRTR", "TTT"],
)
def test_the_combinations_are_found_link_by_link(robot):
    truth, motion, tau = recorded(robot)
    found = identify_from_last_link(robot, *motion, tau)
    assert list(found.value) == list(truth)
    np.testing.assert_allclose(list(found.value.values()), list(truth.values()), atol=1e-11)
    assert len(found.cond) == robot.n and all(1.0 <= c < 1e3 for c in found.cond)


def test_a_body_is_found_from_the_torques_of_its_joint_and_those_behind():
    robot = arm([0, 1, 0, 0])
    truth, motion, tau = recorded(robot)
    tau[:, :2] += 1.0
    found = identify_from_last_link(robot, *motion, tau).value
    behind = [name for name in truth if name.endswith(("_3", "_4"))]
    assert behind and all(found[name] == pytest.approx(truth[name], abs=1e-11) for name in behind)
    assert any(abs(found[name] - truth[name]) > 1e-3 for name in truth if name not in behind)


def test_the_method_recursive_finds_the_same_from_the_same_noisy_rows():
    robot = load_robot("stanford")
    truth, (q, dq, ddq), tau = recorded(robot)
    tau += 0.01 * np.random.default_rng(2).standard_normal(tau.shape)
    names, matrix, labels = combination_matrix(robot)
    place = {name: k for k, name in enumerate(standard_names(robot))}
    W = regressor(robot, q, dq, ddq)[:, :, [place[name] for name in names]] @ np.linalg.pinv(matrix)
    feels = tuple(np.flatnonzero(np.abs(W[:, j]).max(axis=0) > 1e-9) for j in range(robot.n))
    blocks = []
    for k in range(10):
        at = slice(20 * k, 20 * k + 20)
        R = tuple(np.column_stack((W[at, j][:, columns], tau[at, j])) for j, columns in enumerate(feels))
        blocks.append(Block(R, np.full(robot.n, 20), float(k), k + 1.0))
    shipped = recursive(Information(tuple(blocks), feels, ColumnLayout(len(labels)))).value
    found = identify_from_last_link(robot, q, dq, ddq, tau).value
    np.testing.assert_allclose(list(found.values()), shipped, atol=1e-10)
    assert max(abs(found[name] - truth[name]) for name in truth) > 1e-4


def test_motions_and_robots_without_an_answer_are_refused():
    robot = arm([0, 0, 0])
    _, (q, dq, ddq), tau = recorded(robot)
    still = np.zeros_like(q)
    with pytest.raises(InputError, match="does not excite joint j3"):
        identify_from_last_link(robot, still, still, still, tau)
    tree = Robot("tree", (Joint("a", 0), Joint("b", 1), Joint("c", 1)))
    with pytest.raises(InputError, match="serial"):
        identify_from_last_link(tree, q, dq, ddq, tau)
