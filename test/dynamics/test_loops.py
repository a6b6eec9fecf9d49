# SPDX-License-Identifier: Apache-2.0

"""Closed loops of any form: against closed solutions of linkages, Pinocchio's Jacobians, and the balance of power."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linkages import (
    COUPLER,
    CRANK,
    GROUND,
    ROCKER,
    cassie_leg,
    counterbalanced_arm,
    cylinder_arm,
    delta,
    four_bar,
    linkages,
    slider_crank,
)
from oracle import pin_model, pin_regressor
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.backend import fast_energy_regressor, fast_inverse_dynamics, fast_regressor, torque_function
from ros2_dynid.dynamics.energy import energy_regressor, momentum
from ros2_dynid.dynamics.friction import without_friction
from ros2_dynid.dynamics.kinematics import motion_of, random_positions, velocity_ratios
from ros2_dynid.dynamics.loops import loop_margin
from ros2_dynid.dynamics.newton_euler import inertia_matrix, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Joint, Loops, Passive, Robot, open_tree


def motion(robot: Robot, seed: int, count: int = 40):
    """Return random q, dq, ddq of the active joints, around the pose of assembly, and standard parameters.

    Of more positions those farthest from singular ones: differences of positions tell derivatives there.
    """
    rng = np.random.default_rng(seed)
    q = random_positions(robot, rng, 3 * count, 0.25)
    q = q[np.argsort(-loop_margin(robot, motion_of(robot, q).q))[:count]]
    dq, ddq = rng.uniform(-2.0, 2.0, (2, *q.shape))
    return q, dq, ddq, rng.normal(size=len(standard_names(robot)))


def test_a_four_bar_follows_its_closed_solution_through_full_turns():
    """The triangle of rocker, coupler and the diagonal, for an open (not crossed) linkage."""
    angle = np.linspace(-2.0 * np.pi, 2.0 * np.pi, 400)
    motion = motion_of(four_bar(), angle[:, None])
    tip = CRANK * np.exp(1j * angle)
    diagonal = tip - GROUND
    inner = np.arccos((ROCKER**2 + np.abs(diagonal) ** 2 - COUPLER**2) / (2.0 * ROCKER * np.abs(diagonal)))
    rocker = np.angle(diagonal * np.exp(-1j * inner))
    coupler = np.angle(GROUND + ROCKER * np.exp(1j * rocker) - tip) - angle
    np.testing.assert_allclose(np.exp(1j * motion.q[2]), np.exp(1j * rocker), atol=1e-12)
    np.testing.assert_allclose(np.exp(1j * motion.q[1]), np.exp(1j * coupler), atol=1e-12)


def test_a_slider_crank_follows_its_closed_solution():
    angle, speed = np.linspace(-3.0, 3.0, 50), np.linspace(-2.0, 2.0, 50)
    motion = motion_of(slider_crank(), angle[:, None], speed[:, None])
    root = np.sqrt(0.6**2 - (0.2 * np.sin(angle)) ** 2)
    np.testing.assert_allclose(np.abs(motion.q[2]), 0.2 * np.cos(angle) + root, atol=1e-12)
    piston_speed = -0.2 * np.sin(angle) * (1.0 + 0.2 * np.cos(angle) / root) * speed
    np.testing.assert_allclose(motion.dq[2] * np.sign(motion.q[2]), piston_speed, atol=1e-11)


@pytest.mark.parametrize("robot", [*linkages(), cassie_leg(), counterbalanced_arm()], ids=lambda robot: robot.name)
def test_pinocchio_sees_the_loops_closed_and_gives_the_same_regressor(robot):
    pin = pytest.importorskip("pinocchio")
    q, dq, ddq, _ = motion(robot, 1)
    every = motion_of(robot, q, dq, ddq)
    tree = pin_regressor(open_tree(robot), every.q.T, every.dq.T, every.ddq.T)
    model = pin_model(robot)
    ends = []
    for k, pair in enumerate(robot.loops.pairs):
        places = [pin.SE3(np.eye(3), np.array(pivot.point)) for pivot in pair]
        ends.append(
            [
                model.addFrame(pin.Frame(f"{k}{i}", pivot.joint, 0, place, pin.FrameType.OP_FRAME))
                for i, (pivot, place) in enumerate(zip(pair, places, strict=True))
            ]
        )
    data = model.createData()
    passive = [j - 1 for j in robot.loops.passive]
    active = [j - 1 for j in robot.active]
    Y = regressor(robot, q, dq, ddq)
    inertial = [k for k, name in enumerate(standard_names(robot)) if k % 14 < 10 and k < 14 * robot.n]
    assert len(inertial) == tree.shape[2]
    aligned = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    for sample, (position, speed, acceleration) in enumerate(zip(every.q.T, every.dq.T, every.ddq.T, strict=True)):
        pin.forwardKinematics(model, data, position, speed, acceleration)
        pin.computeJointJacobians(model, data, position)
        pin.updateFramePlacements(model, data)
        J = []
        for one, other in ends:
            np.testing.assert_allclose(data.oMf[one].translation, data.oMf[other].translation, atol=1e-12)
            for get in (pin.getFrameVelocity, pin.getFrameClassicalAcceleration):
                a, b = (get(model, data, end, aligned).linear for end in (one, other))
                np.testing.assert_allclose(a, b, atol=1e-9 * max(1.0, np.abs(a).max()))
            J.append(np.diff([pin.getFrameJacobian(model, data, end, aligned)[:3] for end in (one, other)], axis=0)[0])
        J = np.vstack(J)
        G = np.eye(robot.n)[:, active]
        G[passive] = -np.linalg.lstsq(J[:, passive], J[:, active], rcond=None)[0]
        expected = G.T @ tree[sample]
        np.testing.assert_allclose(Y[sample][:, inertial], expected, atol=1e-9 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("robot", linkages(), ids=lambda robot: robot.name)
def test_power_is_the_change_of_energy_and_momentum_changes_by_the_torque(robot):
    q, dq, ddq, chi = motion(robot, 2, 20)
    chi = without_friction(robot, chi)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    step = 1e-5

    def later(s: float):
        return q + s * dq + 0.5 * s**2 * ddq, dq + s * ddq

    change = [energy_regressor(robot, *later(s)) @ chi for s in (step, -step)]
    power = np.sum(tau * dq, axis=1)
    np.testing.assert_allclose((change[0] - change[1]) / (2 * step), power, atol=1e-5 * np.abs(power).max())
    p, beta = momentum(robot, chi, q, dq)
    expected = np.einsum("tij,tj->ti", inertia_matrix(robot, chi, q), dq)
    np.testing.assert_allclose(p, expected, atol=1e-9 * np.abs(p).max())
    rate = (momentum(robot, chi, *later(step))[0] - momentum(robot, chi, *later(-step))[0]) / (2 * step)
    np.testing.assert_allclose(rate, beta + tau, atol=1e-5 * np.abs(tau).max())


def test_compiled_code_gives_the_same_for_batches_and_for_sample_after_sample(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "compiled")
    robot = cylinder_arm()
    q, dq, ddq, chi = motion(robot, 3)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    close = {"rtol": 0, "atol": 1e-11 * np.abs(tau).max()}
    np.testing.assert_allclose(fast_inverse_dynamics(robot, chi, q, dq, ddq), tau, **close)
    np.testing.assert_allclose(fast_regressor(robot, q, dq, ddq) @ chi, tau, **close)
    np.testing.assert_allclose(fast_energy_regressor(robot, q, dq), energy_regressor(robot, q, dq), atol=1e-11)
    torque = torque_function(robot, chi)
    rows = [torque.torque(*sample) for sample in zip(q, dq, ddq, strict=True)]
    np.testing.assert_allclose(rows, tau, **close)


@pytest.mark.parametrize(
    "robot",
    [four_bar(), slider_crank(), cylinder_arm(), delta(), cassie_leg(), counterbalanced_arm()],
    ids=lambda robot: robot.name,
)
def test_base_parameters_are_as_many_as_the_rank_and_give_the_torque(robot):
    """The rank that Pinocchio's regressor has with Jacobians from differences of positions."""
    q, dq, ddq, chi = motion(robot, 5, 200)
    base = base_parameters(robot, groups=["inertial"])
    every = motion_of(robot, q, dq, ddq)
    tree = pin_regressor(open_tree(robot), every.q.T, every.dq.T, every.ddq.T)
    step = 1e-6
    G = np.empty((len(q), robot.n, q.shape[1]))
    for k, e in enumerate(np.eye(q.shape[1])):
        G[:, :, k] = (motion_of(robot, q + step * e).q - motion_of(robot, q - step * e).q).T / (2 * step)
    W = np.einsum("tjk,tjc->tkc", G, tree).reshape(-1, tree.shape[2])
    size = np.linalg.norm(W, axis=0)
    live = size > 1e-8 * size.max()
    singular = np.linalg.svd(W[:, live] / size[live], compute_uv=False)
    assert len(base.names) == np.sum(singular > 1e-7 * singular[0])
    columns = base.columns(robot)
    names = standard_names(robot)
    inertial = np.array([chi[names.index(name)] for name in base.standard_names])
    chosen = [names.index(name) for name in base.standard_names]
    Y = regressor(robot, q, dq, ddq)
    expected = Y[:, :, chosen] @ inertial
    got = Y[:, :, columns] @ (base.M @ inertial)
    np.testing.assert_allclose(got, expected, atol=1e-8 * np.abs(expected).max())


def test_what_the_linkage_cannot_reach_is_refused_by_sample():
    robot = cylinder_arm()
    q = np.array([[0.0, 0.7, 0.0], [0.0, 5.0, 0.0]])
    with pytest.raises(InputError, match="do not close in sample 1, at yaw = 0, rod = 5, wrist = 0"):
        regressor(robot, q, q, q)
    with pytest.raises(InputError, match="too far from the loops' pose of assembly"):
        motion_of(four_bar(), np.array([[1e6]]))


@pytest.mark.parametrize(
    ("loops", "message"),
    [
        (Loops(((Pivot(2, (0.9, 0, 0)), Pivot(2, (0.7, 0, 0))),), (2, 3)), "points of one link"),
        (Loops(((Pivot(2, (0.9, 0, 0)), Pivot(4, (0.7, 0, 0))),), (2, 3)), "unknown joint"),
        (Loops(((Pivot(2, (np.nan, 0, 0)), Pivot(3, (0.7, 0, 0))),), (2, 3)), "not finite"),
        (Loops(((Pivot(2, (0.9, 0, 0)), Pivot(3, (0.7, 0, 0))),), ()), "do not determine 0 passive joints"),
        (Loops(((Pivot(2, (0.9, 0, 0)), Pivot(3, (0.7, 0, 0))),), (1, 2, 3)), "leave an active joint"),
    ],
)
def test_loops_that_cannot_be_are_refused(loops, message):
    with pytest.raises(InputError, match=message):
        replace(four_bar(), loops=loops)


def test_loops_stand_beside_joints_that_follow_linearly():
    """A tool that is held level by a joint that follows the crank turns with it, while the rocker does not."""
    robot = four_bar()
    level = replace(robot, joints=(*robot.joints, Joint("level", 1, d=0.1)), passive=(Passive(4, {1: -1.0}, 0.2),))
    G = velocity_ratios(level, np.array([[0.4], [1.0]]))
    np.testing.assert_allclose(G[:, 3, 0], -1.0)
    np.testing.assert_allclose(G[:, :3], velocity_ratios(robot, np.array([[0.4], [1.0]])))
