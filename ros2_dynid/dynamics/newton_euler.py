# SPDX-License-Identifier: Apache-2.0

"""Inverse dynamics by the Newton-Euler recursion in modified DH frames.

Rotors, and motors coupled to several joints (Gautier 2013, eq. 34 and 35): motor k turns with q_m = sum of c_j q_j on
the joint side. As Gautier 2013 writes it, the parameters Ia_j, Fv_j and Fc_j of a joint already hold what a motor adds
at its own joint, so coupling adds at joint j only what the other joints bring: c_j (sum over l != j of c_l ddq_l)
times Ia_k (or Iam_k), the same in velocity times Fvm_k, and c_j sign(dq_m) Fcm_k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.elastic import elastic_torque
from ros2_dynid.dynamics.friction import friction_torque, terms_torque, without_friction
from ros2_dynid.dynamics.kinematics import Motion, link_motions, motion_of, placements_of
from ros2_dynid.dynamics.placement import chunks, cross
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import IA, JOINT, by_joint, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Coupling, Robot


def _others(coupling: Coupling, x: Array) -> dict[int, Array]:
    """Return c_j sum_{l != j} c_l x_l by joint number j, for x of shape (n, N)."""
    total = np.einsum("j,jt->t", list(coupling.weights.values()), x[[j - 1 for j in coupling.weights]])
    return {j: c * (total - c * x[j - 1]) for j, c in coupling.weights.items()}


def add_coupling_columns(robot: Robot, Y: Array, dq: Array, ddq: Array) -> None:
    """Write the columns of Ia, Iam, Fvm and Fcm into Y, shape (n_standard, n, N), for dq, ddq of shape (n, N)."""
    for j in range(robot.n):
        Y[JOINT * j + IA, j] = ddq[j]
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = JOINT * (coupling.motor - 1) + IA
        if coupling.independent_inertia:
            inertia, column = column, column + 1
        speed = sum(c * dq[j - 1] for j, c in coupling.weights.items())
        acceleration, velocity = _others(coupling, ddq), _others(coupling, dq)
        for j, c in coupling.weights.items():
            Y[inertia, j - 1] += acceleration[j]
            Y[column, j - 1] = velocity[j]
            Y[column + 1, j - 1] = c * np.sign(speed)
        column += 2


def drive_torque(robot: Robot, chi: Array, dq: Array, ddq: Array) -> Array:
    """Return the torque of rotors and couplings, shape (n, N), for chi of shape (n_standard,), dq, ddq (n, N)."""
    tau: Array = by_joint(robot, chi)[:, IA, None] * ddq
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = chi[JOINT * (coupling.motor - 1) + IA]
        if coupling.independent_inertia:
            inertia, column = chi[column], column + 1
        speed = sum(c * dq[j - 1] for j, c in coupling.weights.items())
        acceleration, velocity = _others(coupling, ddq), _others(coupling, dq)
        for j, c in coupling.weights.items():
            tau[j - 1] += inertia * acceleration[j] + chi[column] * velocity[j] + chi[column + 1] * c * np.sign(speed)
        column += 2
    return tau


def add_rotor_energy(robot: Robot, h: Array, dq: Array) -> None:
    """Write the kinetic energy of rotors and couplings into h, shape (n_standard, N): dT/dIa_j = dq_j^2 / 2."""
    for j in range(robot.n):
        h[JOINT * j + IA] = 0.5 * dq[j] ** 2
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = JOINT * (coupling.motor - 1) + IA
        if coupling.independent_inertia:
            inertia, column = column, column + 1
        for j, others in _others(coupling, dq).items():
            h[inertia] += 0.5 * dq[j - 1] * others
        column += 2


def inverse_dynamics(
    robot: Robot, chi: ArrayLike, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, temperature: Array | None = None
) -> Array:
    """Return tau = Y(q, dq, ddq) chi, shape (N, n_active) [N.m, N], friction, rotors and offsets included.

    The robot's friction terms are added to it. chi: standard parameters, shape (n_standard,); q, dq, ddq: shape
    (N, n_active); temperature: of the drives [deg C], in that shape; None or NaN: not known.
    """
    chi = checked_standard(robot, chi)
    motion = motion_of(robot, q, dq, ddq)
    tau = rigid_body_torque(robot, chi, motion)
    if robot.forces:
        tau += elastic_torque(robot, chi, motion)
    rotors = drive_torque(robot, without_friction(robot, chi), motion.dq, motion.ddq) if robot.friction else None
    gear_torque = None if rotors is None else motion.to_active(tau + rotors).T
    tau += drive_torque(robot, chi, motion.dq, motion.ddq)
    tau += friction_torque(by_joint(robot, chi), motion.dq)
    total = motion.to_active(tau).T
    if gear_torque is not None:
        speed = np.asarray(dq, dtype=float)
        total = total + terms_torque(robot, speed, np.sign(speed), gear_torque, temperature)
    return total


def checked_standard(robot: Robot, chi: ArrayLike) -> Array:
    """Return chi as an array of shape (n_standard,), or refuse it."""
    array = np.asarray(chi, dtype=float)
    expected = len(standard_names(robot))
    if array.shape != (expected,):
        raise InputError(f"chi has shape {array.shape}", f"give all {expected} standard parameters", robot.name)
    return array


def rigid_body_torque(robot: Robot, chi: Array, motion: Motion, gravity: Array | None = None) -> Array:
    """Return the torque of the links alone, shape (n, N); gravity [m/s^2, base frame]: instead of the robot's."""
    tau = np.empty_like(motion.q)
    for part in chunks(motion.q.shape[1]):
        piece = Motion(motion.q[:, part], motion.dq[:, part], motion.ddq[:, part])
        tau[:, part] = _newton_euler(robot, chi, piece, gravity)
    return tau


def _newton_euler(robot: Robot, chi: Array, motion: Motion, gravity: Array | None) -> Array:
    placements = placements_of(robot, motion)
    force, moment = [], []  # of link j on its joint, in frame j, about its origin
    for link, parameters in zip(link_motions(robot, motion, placements, gravity), by_joint(robot, chi), strict=True):
        XX, XY, XZ, YY, YZ, ZZ = parameters[:6]
        J = np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ)))
        m = parameters[6:9, None]
        force.append(parameters[9] * link.a + cross(link.dw, m) + cross(link.w, cross(link.w, m)))
        moment.append(J @ link.dw + cross(link.w, J @ link.w) + cross(m, link.a))
    tau = np.empty_like(motion.q)
    for j in range(robot.n - 1, -1, -1):
        joint, placement = robot.joints[j], placements[j]
        tau[j] = force[j][2] if joint.sigma == PRISMATIC else moment[j][2]
        if joint.parent:
            f = placement.to_parent(force[j])
            force[joint.parent - 1] = force[joint.parent - 1] + f
            moment[joint.parent - 1] = moment[joint.parent - 1] + placement.to_parent(moment[j]) + cross(placement.p, f)
    return tau


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
    """Return C(q, dq), shape (N, n_active) [N.m, N]: centrifugal and Coriolis torques.

    Those of rotors too, which passive joints of closed loops accelerate at constant speeds of the active ones.
    """
    motion, chi = motion_of(robot, q, dq), checked_standard(robot, chi)
    tau = rigid_body_torque(robot, chi, motion, NO_GRAVITY)
    if motion.Gdot is not None:
        tau += drive_torque(robot, without_friction(robot, chi), np.zeros_like(motion.dq), motion.ddq)
    return motion.to_active(tau).T
