# SPDX-License-Identifier: Apache-2.0

"""What the simulated robot really weighs: parameters that differ from the CAD's and that the suite does not know.

Every link stays physically consistent: mass, centre of mass and inertia about it are changed, and the inertia is made
that of a real mass distribution (its second moment has no negative eigenvalue).
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix
from ros2_dynid.model.parameters import IA, by_joint, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Array, Robot
from ros2_dynid.sim.mjcf import rigid_body

MIN_MASS, MIN_MOMENT = 1e-3, 1e-8
MAX_ACCELERATION = 1000.0
"""Acceleration [rad/s^2 or m/s^2] that no drive exceeds at its largest effort: its rotor is not lighter than that."""


def true_parameters(robot: Robot, seed: int, spread: float = 0.15) -> Array:
    """Return chi, shape (n_standard,), each value off the robot's a priori one by about `spread` of itself.

    Where the robot names no rotor inertia or friction, plausible ones are made up, since every drive has them.
    """
    rng = np.random.default_rng(seed)
    chi = standard_vector(robot)
    for j in range(robot.n):
        parameters = by_joint(robot, chi)[j]
        parameters[:IA] = _real_link(parameters[:IA], rng, spread)
        parameters[IA:] *= 1 + spread * rng.uniform(-1, 1, 4)
    return _with_drives(robot, chi, rng)


def _real_link(parameters: Array, rng: np.random.Generator, spread: float) -> Array:
    """Return the ten parameters of a link changed by up to `spread`, those of a real mass distribution."""
    if parameters[9] <= 0:
        parameters = np.array((*np.full(6, 0.0), 0.0, 0.0, 0.0, MIN_MASS))
    M, c, I = rigid_body(parameters)
    M *= 1 + spread * rng.uniform(-1, 1)
    c = c * (1 + spread * rng.uniform(-1, 1, 3))
    moments, axes = np.linalg.eigh(np.trace(I) / 2 * np.eye(3) - I)  # second moment of mass about the centre
    moments = np.maximum(moments * (1 + spread * rng.uniform(-1, 1, 3)), MIN_MOMENT)
    S = axes * moments @ axes.T
    I = np.trace(S) * np.eye(3) - S
    J = I + M * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(M * c), M))


def _with_drives(robot: Robot, chi: Array, rng: np.random.Generator) -> Array:
    """Return chi with rotor inertia and friction where the robot has none: shares of what the links ask for."""
    n = len(robot.active)
    q = rng.uniform(-1.5, 1.5, (64, n)) if robot.loops is None else random_positions(robot, rng, 64, 1.5)
    weight = np.abs(gravity_torque(robot, chi, q)).max(axis=0)
    inertia = np.einsum("tjj->tj", inertia_matrix(robot, chi, q)).mean(axis=0)
    for j, number in enumerate(robot.active):
        joint, drive = robot.joints[number - 1], by_joint(robot, chi)[number - 1, IA:]
        effort = joint.limits.effort if np.isfinite(joint.limits.effort) else 2 * max(weight[j], inertia[j])
        speed = joint.limits.velocity if np.isfinite(joint.limits.velocity) else 2.0
        if drive[0] == 0:
            drive[0] = inertia[j] * rng.uniform(0.2, 0.4) if joint.sigma != PRISMATIC else inertia[j] * 0.2
            drive[0] = max(drive[0], effort / MAX_ACCELERATION)
        if drive[1] == 0 and drive[2] == 0:
            drive[1] = 0.03 * effort / speed * rng.uniform(0.7, 1.3)
            drive[2] = 0.03 * effort * rng.uniform(0.7, 1.3)
    return chi
