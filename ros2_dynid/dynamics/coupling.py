# SPDX-License-Identifier: Apache-2.0

"""Rotors, and motors coupled to several joints (seed 002, eq. 34 and 35).

Motor k turns with q_m = sum of c_j q_j on the joint side. As seed 002 writes it, the parameters Ia_j, Fv_j and Fc_j of
a joint already hold what a motor adds at its own joint, so coupling adds at joint j only what the other joints bring:
c_j (sum over l != j of c_l ddq_l) times Ia_k (or Iam_k), the same in velocity times Fvm_k, and c_j sign(dq_m) Fcm_k.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.parameters import IA, JOINT, by_joint
from ros2_dynid.model.robot import Array, Coupling, Robot


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
