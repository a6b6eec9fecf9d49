# SPDX-License-Identifier: Apache-2.0

"""The energy model H = T + U = h(q, dq) chi (Gautier 1991, eq. 10), and the generalised momentum p = M dq.

What changes the momentum, without accelerations:
dp/dt = beta + carried + external, with beta = C^T dq - Q and C + C^T = dM/dt. C^T dq is the gradient of the kinetic
energy: with (f, n) the momentum of all that joint k carries, about its origin, and (w, v) the motion of its frame,
dT/dq_k = n . (w x z) + f . (v x z) for a revolute joint and f . (w x z) for a prismatic one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.elastic import elastic_energies
from ros2_dynid.dynamics.friction import without_friction
from ros2_dynid.dynamics.kinematics import Motion, frames, motion_of, placements_of
from ros2_dynid.dynamics.newton_euler import add_rotor_energy, checked_standard, drive_torque, gravity_torque
from ros2_dynid.dynamics.placement import cross, dot, place
from ros2_dynid.model.parameters import JOINT, by_joint, force_slice, link_slice, standard_names
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


def momentum(robot: Robot, chi: ArrayLike, q: ArrayLike, dq: ArrayLike) -> tuple[Array, Array]:
    """Return p and beta, each of shape (N, n_active) [N.m.s or N.s, N.m or N], for q, dq of that shape."""
    chi = checked_standard(robot, chi)
    motion = motion_of(robot, q, dq)
    placements = placements_of(robot, motion)
    still = np.zeros((3, motion.q.shape[1]))
    links, f, n = [(still, still)], [], []
    for j, (joint, placement) in enumerate(zip(robot.joints, placements, strict=True)):
        w, v = links[joint.parent]
        v = placement.to_child(v + cross(w, placement.p))
        w = placement.to_child(w)
        (v if joint.sigma == PRISMATIC else w)[2] += motion.dq[j]
        links.append((w, v))
        XX, XY, XZ, YY, YZ, ZZ, *m, M = by_joint(robot, chi)[j, :10]
        J, first = np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ))), np.array(m)[:, None]
        f.append(M * v + cross(w, first))
        n.append(J @ w + cross(first, v))
    p, gradient = np.empty_like(motion.q), np.empty_like(motion.q)
    for j in range(robot.n - 1, -1, -1):
        joint, placement, (w, v) = robot.joints[j], placements[j], links[j + 1]
        if joint.sigma == PRISMATIC:
            p[j] = f[j][2]
            gradient[j] = f[j][0] * w[1] - f[j][1] * w[0]
        else:
            p[j] = n[j][2]
            gradient[j] = n[j][0] * w[1] - n[j][1] * w[0] + f[j][0] * v[1] - f[j][1] * v[0]
        if joint.parent:
            up = placement.to_parent(f[j])
            f[joint.parent - 1] = f[joint.parent - 1] + up
            n[joint.parent - 1] = n[joint.parent - 1] + placement.to_parent(n[j]) + cross(placement.p, up)
    p += drive_torque(robot, without_friction(robot, chi), motion.dq, motion.dq)
    active_gradient = motion.to_active(gradient)
    if motion.Gdot is not None:  # of dq = G dq_a, by the symmetry of the second derivatives of q = F(q_a)
        active_gradient += np.einsum("jkt,jt->kt", motion.Gdot, p)
    return motion.to_active(p).T, active_gradient.T - gravity_torque(robot, chi, q)
