# SPDX-License-Identifier: Apache-2.0

"""Generated functions are the recursions of ros2_dynid.dynamics, whatever form the search chooses."""

import functools

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.codegen.functions import inertia_gravity, synchronous, torque, torque_with_wrench, velocity_torques
from ros2_dynid.codegen.graph import Count, Graph, evaluate
from ros2_dynid.codegen.newton_euler_expressions import RecursionPlan
from ros2_dynid.codegen.operation_search import constants_of, starting_constants
from ros2_dynid.codegen.program import contact_torque, program_of, unit_columns
from ros2_dynid.codegen.regressor_expressions import energy_row, regressor_columns
from ros2_dynid.codegen.representation import joint_null_vectors, space_of
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics, velocity_torque
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import Joint, Robot

ROBOTS = ["stanford", "puma560", "tx40", "tx40_iam6", "hitachi_hpr", 0, 1, 2, 3, 4, 5]
"""Shipped robots, and seeds of random ones: trees, prismatic joints, general and right angles."""


def robot_of(which):
    if isinstance(which, str):
        return load_robot(which)
    rng = np.random.default_rng(which)
    return random_robot(rng, 4 + which % 3, tree=which % 2 == 1)


def random_plan(rng, robot):
    """Any plan is allowed: combine, child and squares at random."""

    def some(kinds):
        return frozenset((kind, j) for kind in kinds for j in range(1, robot.n + 1) if rng.random() < 0.5)

    squares = frozenset(j for j in range(1, robot.n + 1) if rng.random() < 0.5)
    return RecursionPlan(float(rng.uniform(0.1, 10.0)), some("wuanf"), some("an"), squares)


@functools.cache
def start_of(robot):
    space = space_of(robot)
    return space, starting_constants(space, np.eye(len(standard_names(robot))))


def values_of(builder, robot, plan, chi, q, dq, ddq, **more):
    """Return the outputs of a builder with all standard parameters, for one sample."""
    graph = Graph()
    space, X = start_of(robot)
    used, rows = constants_of(robot, space, X, plan)
    slots = {slot: graph.parameter(name) if sign > 0 else -graph.parameter(name) for slot, name, sign in used}
    names = list(dict.fromkeys(name for _, name, _ in used))
    outputs = builder(graph, robot, slots, plan)
    constants = dict(zip(names, np.array(rows) @ chi, strict=True))
    return np.array(evaluate(graph, outputs, {"q": q, "dq": dq, "ddq": ddq, **more}, constants))


def close(a, b):
    return np.abs(a - b).max() <= 1e-11 * (1.0 + np.abs(b).max())


@pytest.mark.parametrize("which", ROBOTS)
def test_every_plan_gives_the_torque_of_the_numpy_recursion(which):
    robot = robot_of(which)
    rng = np.random.default_rng(7)
    chi = rng.normal(size=len(standard_names(robot)))
    inertial = np.where([group_of(name) in ("inertial", "rotor") for name in standard_names(robot)], chi, 0.0)
    for _ in range(4):
        plan = random_plan(rng, robot)
        q, dq, ddq = rng.uniform(-2, 2, (3, len(robot.active)))
        row = q[None], dq[None], ddq[None]
        wrench = rng.normal(size=6)
        pose = np.eye(4)
        pose[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        pose[:3, 3] = rng.normal(size=3)
        tau = inverse_dynamics(robot, chi, *row)[0]
        assert close(values_of(torque, robot, plan, chi, q, dq, ddq), tau)
        with_wrench = values_of(torque_with_wrench(robot.n, pose), robot, plan, chi, q, dq, ddq, wrench=wrench)
        assert close(with_wrench, tau - contact_torque(robot, q, wrench, robot.n, pose))
        C = values_of(velocity_torques, robot, plan, inertial, q, dq, ddq)
        assert close(C, velocity_torque(robot, inertial, q[None], dq[None])[0])
        found = values_of(inertia_gravity, robot, plan, inertial, q, dq, ddq)
        expected = [inertia_matrix(robot, inertial, q[None])[0].ravel(), gravity_torque(robot, inertial, q[None])[0]]
        assert close(found, np.concatenate(expected))


@pytest.mark.parametrize("which", ROBOTS)
def test_regressor_and_energy_are_those_of_numpy(which):
    robot = robot_of(which)
    rng = np.random.default_rng(8)
    graph = Graph()
    q, dq, ddq = rng.uniform(-2, 2, (3, len(robot.active)))
    variables = {"q": q, "dq": dq, "ddq": ddq}
    columns = regressor_columns(graph, robot)
    Y = np.array(evaluate(graph, [e for column in columns for e in column], variables, {})).reshape(len(columns), -1).T
    assert close(Y, regressor(robot, q[None], dq[None], ddq[None])[0])
    h = np.array(evaluate(graph, energy_row(graph, robot), variables, {}))
    assert close(h, energy_regressor(robot, q[None], dq[None])[0])


@pytest.mark.parametrize("together", [False, True])
def test_parallel_axes_on_branches_turn_by_the_angle_of_their_branch_too(together):
    """Turned at once or joint by joint, the links of a tree see gravity from where gamma, theta and q put them."""
    joints = (
        Joint("a", 0, alpha=0.4, theta=0.2),
        Joint("b", 1, gamma=0.5, b=0.1, d=0.3, theta=-0.7),
        Joint("c", 1, gamma=-1.2, d=0.2),
        Joint("d", 2, gamma=np.pi / 2, d=-0.4, theta=0.9),
    )
    robot = Robot("branches", joints, gravity=np.array([1.0, -4.0, 8.0]))
    rng = np.random.default_rng(2)
    kinds = frozenset((kind, j) for kind in "wuanf" for j in range(1, 5))
    plan = RecursionPlan(combine=kinds if together else frozenset())
    inertial = [group_of(name) in ("inertial", "rotor") for name in standard_names(robot)]
    chi = np.where(inertial, rng.normal(size=len(inertial)), 0.0)
    q, dq, ddq = rng.uniform(-2, 2, (3, 4))
    tau = inverse_dynamics(robot, chi, q[None], dq[None], ddq[None])[0]
    assert close(values_of(torque, robot, plan, chi, q, dq, ddq), tau)
    M, Q = inertia_matrix(robot, chi, q[None])[0], gravity_torque(robot, chi, q[None])[0]
    assert close(values_of(inertia_gravity, robot, plan, chi, q, dq, ddq), np.concatenate((M.ravel(), Q)))


def test_two_rates_give_the_torque():
    robot = load_robot("puma560")
    graph = Graph()
    rng = np.random.default_rng(0)
    M, h, ddq = rng.normal(size=(6, 6)), rng.normal(size=6), rng.normal(size=6)
    outputs = synchronous(graph, robot, {}, RecursionPlan())
    assert np.allclose(evaluate(graph, outputs, {"M": M.ravel(), "h": h, "ddq": ddq}, {}), M @ ddq + h)
    assert graph.count(outputs) == Count(36, 36)  # n multiplications and n additions a joint


def test_only_the_parameters_asked_for_appear():
    robot = load_robot("puma560")
    program = program_of(robot, ("M6", "ZZ3"), np.array([1.0, 2.0]), functions=("torque",))
    assert program.functions["torque"].rows.shape[1] == 2
    with pytest.raises(InputError, match="XX9"):
        unit_columns(robot, ("XX9",))


@pytest.mark.parametrize("seed", range(8))
def test_what_a_joint_cannot_tell_apart_is_exact(seed):
    """Moments that a joint hands to its parent, in trees and behind sliding joints, change no torque at all."""
    robot = random_robot(np.random.default_rng(seed), 5, tree=seed % 2 == 1, prismatic=0.4)
    space = space_of(robot)
    vectors = joint_null_vectors(robot, space.slots)
    assert len(vectors) == sum((6 if joint.sigma else 3) for joint in robot.joints if joint.parent)
    size = np.linalg.norm(space.W, axis=0)
    for v in vectors:
        assert np.linalg.norm(space.W @ v) <= 1e-11 * np.abs(v * size).max() + 1e-13 * size.max()
    for v in space.null:
        assert np.linalg.norm(space.W @ v) <= 1e-11 * np.abs(v * size).max() + 1e-12 * size.max()
