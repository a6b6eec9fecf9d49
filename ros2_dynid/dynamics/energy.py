# SPDX-License-Identifier: Apache-2.0

"""The energy model: H = T + U = h(q, dq) chi (seed 000, eq. 10), without friction and offset, which dissipate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.coupling import add_rotor_energy
from ros2_dynid.dynamics.elastic import elastic_energies
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.motion import Motion, motion_of
from ros2_dynid.dynamics.spatial import cross, dot, place
from ros2_dynid.model.parameters import JOINT, force_slice, link_slice, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def energy_regressor(robot: Robot, q: ArrayLike, dq: ArrayLike) -> Array:
    """Return h, shape (N, n_standard), such that H = h chi [J]; its columns of friction and offset are zero."""
    return kinetic_energy_regressor(robot, q, dq) + potential_energy_regressor(robot, q)


def kinetic_energy_regressor(robot: Robot, q: ArrayLike, dq: ArrayLike) -> Array:
    """Return the row of the kinetic energy, shape (N, n_standard), such that T = h_T chi [J].

    T_j = w . J w / 2 + m . (v x w) + M v . v / 2 with the velocities w, v of frame j, and Ia dq^2 / 2 of the rotor.
    """
    motion = motion_of(robot, q, dq)
    h = np.zeros((len(standard_names(robot)), motion.q.shape[1]))
    for j, (w, v) in enumerate(link_velocities(robot, motion)):
        x, y, z = w
        h[link_slice(j)] = (
            0.5 * x * x,
            x * y,
            x * z,
            0.5 * y * y,
            y * z,
            0.5 * z * z,
            *cross(v, w),
            0.5 * dot(v, v),
        )
    add_rotor_energy(robot, h, motion.dq)
    return h.T


def potential_energy_regressor(robot: Robot, q: ArrayLike) -> Array:
    """Return the row of the potential energy, shape (N, n_standard), such that U = h_U chi [J], zero at the base.

    U_j = -g . (M p + R m) with the origin p and the rotation R of frame j; springs store their own.
    """
    T = frames(robot, q)
    h = np.zeros((T.shape[0], len(standard_names(robot))))
    for j in range(robot.n):
        h[:, JOINT * j + 6 : JOINT * j + 9] = -np.einsum("i,tik->tk", robot.gravity, T[:, j, :3, :3])
        h[:, JOINT * j + 9] = -T[:, j, :3, 3] @ robot.gravity
    if robot.forces:
        h[:, force_slice(robot)] = elastic_energies(robot, motion_of(robot, q)).T
    return h


def link_velocities(robot: Robot, motion: Motion) -> list[tuple[Array, Array]]:
    """Return angular velocity and velocity of the origin of frames 1 to n, each in its own frame, shape (3, N)."""
    still = np.zeros((3, motion.q.shape[1]))
    velocities = [(still, still)]
    for joint, q, dq in zip(robot.joints, motion.q, motion.dq, strict=True):
        placement = place(joint, q)
        w_parent, v_parent = velocities[joint.parent]
        w, v = placement.to_child(w_parent), placement.to_child(v_parent + cross(w_parent, placement.p))
        along = np.zeros_like(still)
        along[2] = dq
        velocities.append((w, v + along) if joint.sigma == PRISMATIC else (w + along, v))
    return velocities[1:]
