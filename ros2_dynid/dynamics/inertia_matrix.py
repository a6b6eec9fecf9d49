# SPDX-License-Identifier: Apache-2.0

"""The parts of tau = M(q) ddq + C(q, dq) + Q(q): inertia matrix, velocity torques and gravity torques."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.coupling import drive_torque
from ros2_dynid.dynamics.elastic import elastic_torque
from ros2_dynid.dynamics.motion import motion_of
from ros2_dynid.dynamics.newton_euler import checked_standard, rigid_body_torque
from ros2_dynid.model.robot import Array, Robot

NO_GRAVITY = np.zeros(3)


def inertia_matrix(robot: Robot, chi: ArrayLike, q: ArrayLike) -> Array:
    """Return M(q), shape (N, n_active, n_active), rotors and couplings included, for q of shape (N, n_active).

    Column k is the torque of a unit acceleration of joint k without gravity, at rest.
    """
    chi = checked_standard(robot, chi)
    q = np.asarray(q, dtype=float)
    n_active = len(robot.active)
    M = np.empty((len(q), n_active, n_active))
    for k in range(n_active):
        motion = motion_of(robot, q, None, np.broadcast_to(np.eye(n_active)[k], q.shape))
        tau = rigid_body_torque(robot, chi, motion, NO_GRAVITY) + drive_torque(robot, chi, motion.dq, motion.ddq)
        M[:, :, k] = motion.to_active(tau).T
    return M


def gravity_torque(robot: Robot, chi: ArrayLike, q: ArrayLike) -> Array:
    """Return Q(q), shape (N, n_active) [N.m, N]: what holds the robot still, without friction and offset.

    Springs, compensators and cables are part of it.
    """
    motion, chi = motion_of(robot, q), checked_standard(robot, chi)
    tau = rigid_body_torque(robot, chi, motion)
    if robot.forces:
        tau += elastic_torque(robot, chi, motion)
    return motion.to_active(tau).T


def velocity_torque(robot: Robot, chi: ArrayLike, q: ArrayLike, dq: ArrayLike) -> Array:
    """Return C(q, dq), shape (N, n_active) [N.m, N]: centrifugal and Coriolis torques."""
    motion = motion_of(robot, q, dq)
    return motion.to_active(rigid_body_torque(robot, checked_standard(robot, chi), motion, NO_GRAVITY)).T
