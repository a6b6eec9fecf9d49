# SPDX-License-Identifier: Apache-2.0

"""The simulated robot is MuJoCo's, and its inertias are exactly those of the standard parameters."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.inertia import pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.sim.mjcf import mjcf
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot
from ros2_dynid.sim.truth import true_parameters

PERFECT = Imperfections(resolution=1e-12, torque_noise=0.0, latency=0)


def without_friction(robot, chi):
    drives = chi.reshape(robot.n, 14).copy()
    drives[:, 11:] = 0
    return drives.ravel()


@pytest.mark.parametrize("name", ["demo3", "demo6"])
def test_mujoco_agrees_with_inverse_dynamics(name):
    robot = load_robot(name)
    chi = without_friction(robot, true_parameters(robot, 3))
    model = mujoco.MjModel.from_xml_string(mjcf(robot, chi, 1e-3))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for _ in range(20):
        data.qpos[:], data.qvel[:], data.qacc[:] = rng.normal(size=(3, robot.n))
        mujoco.mj_inverse(model, data)
        tau = inverse_dynamics(robot, chi, data.qpos[None], data.qvel[None], data.qacc[None])[0]
        assert np.allclose(tau, data.qfrc_inverse, rtol=1e-9, atol=1e-9)


def test_the_truth_is_physical_and_not_the_files():
    robot = load_robot("demo6")
    chi = true_parameters(robot, 7)
    known = standard_vector(robot)
    for j in range(robot.n):
        assert np.linalg.eigvalsh(pseudo_inertia(chi[14 * j : 14 * j + 10])).min() > 0
        assert chi[14 * j + 9] != pytest.approx(known[14 * j + 9], rel=1e-3)
    assert np.array_equal(chi, true_parameters(robot, 7))
    assert not np.array_equal(chi, true_parameters(robot, 8))


def test_a_payload_changes_the_torque_by_its_own():
    robot = load_robot("demo3")
    chi = without_friction(robot, true_parameters(robot, 1))
    com, inertia, mass = np.array([0.1, 0.2, 0.05]), 0.02 * np.eye(3), 2.0
    q = np.array([0.3, -1.0, 0.5])
    torques = []
    for load in (0.0, mass):
        sim = SimulatedRobot(robot, chi, imperfections=PERFECT, start=q)
        sim.attach(load, com, load * inertia)
        mujoco.mj_inverse(sim.mj_model, sim.mj_data)
        torques.append(np.array(sim.mj_data.qfrc_inverse))
    J = mass * inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
    extra = np.zeros_like(chi)
    extra[28:38] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass)
    zero = np.zeros((1, 3))
    assert np.allclose(torques[1] - torques[0], inverse_dynamics(robot, extra, q[None], zero, zero)[0], atol=1e-9)
    with pytest.raises(InputError, match="not physical"):
        sim.attach(-1.0, com, inertia)


@pytest.mark.parametrize("pressed", [3, 4])
def test_branches_may_be_numbered_in_any_order(pressed):
    """Torques and pushes reach the joints they name on two arms whose joints take turns; MuJoCo numbers arm by arm."""
    made = random_robot(np.random.default_rng(2), 6, prismatic=0.2)
    joints = tuple(replace(j, parent=p) for j, p in zip(made.joints, (0, 0, 1, 2, 3, 4), strict=True))
    bodies = {f"{kind}{j}": 1.0 for j in range(1, 7) for kind in ("M", "XX", "YY", "ZZ")}
    robot = replace(made, joints=joints, parameters=bodies)
    chi = without_friction(robot, true_parameters(robot, 5))
    q, ddq = np.random.default_rng(3).uniform(-1.0, 1.0, (2, 6))
    force, at, still, period = np.array([3.0, -2.0, 4.0]), np.array([0.1, 0.2, -0.1]), np.zeros(6), 1e-4
    held, moved = (inverse_dynamics(robot, chi, q[None], still[None], a[None])[0] for a in (still, ddq))
    sim = SimulatedRobot(robot, chi, period=period, imperfections=PERFECT, start=q)
    assert np.array_equal(sim.positions, q)
    sim.step(held)
    assert np.allclose(sim.positions, q, atol=1e-12)
    sim.press(force, at, pressed)

    def height(q):  # of the point pressed, along the force
        return force @ (frames(robot, q[None])[0, pressed - 1] @ [*at, 1.0])[:3]

    push = np.array([height(q + 1e-6 * e) - height(q - 1e-6 * e) for e in np.eye(6)]) / 2e-6
    sim.step(moved - push)
    assert np.allclose(sim.positions - q, period**2 * ddq, atol=1e-7 * period**2)


def plant(**imperfections):
    robot = load_robot("demo3")
    start = np.array([0.0, -1.0, 0.0])
    options = {"seed": 1, "spread": 0.1, "period": 1e-3, "start": start, "stiffness": 8.0}
    return Plant(robot, imperfections=Imperfections(**imperfections), **options)


def test_it_follows_a_trajectory_and_measures_like_hardware():
    made = plant(resolution=1e-4, torque_noise=0.01)
    made.follow(quintic(made.robot.active_names, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.7, 0.6]), 2.0))
    rows = [made.step() for _ in range(2500)]
    q = np.array([row.q for row in rows])
    assert np.allclose(q[-1], [0.5, -0.7, 0.6], atol=0.05)
    assert np.allclose(q / 1e-4, np.round(q / 1e-4), atol=1e-6)
    quiet = plant(resolution=1e-9, torque_noise=0.01)
    still = np.array([quiet.step().tau for _ in range(1500)])[500:]
    assert np.allclose(still.std(axis=0), [1.2, 1.8, 0.8], rtol=0.1)


def test_brakes_stop_it_and_torques_stay_until_something_else_comes():
    made = plant()
    made.push(np.array([30.0, 0.0, 0.0]))
    for _ in range(200):
        made.step()
    assert abs(made.sim.mj_data.qvel[0]) > 0.1
    made.brake(True)
    for _ in range(200):
        made.step()
    assert np.abs(made.sim.mj_data.qvel).max() < 1e-6
    with pytest.raises(InputError, match="finite"):
        made.push(np.array([np.nan, 0, 0]))
    with pytest.raises(InputError, match="give 3"):
        made.push(np.zeros(2))
