# SPDX-License-Identifier: Apache-2.0

"""The columns of friction in the regressor: Fv dq + Fc sign(dq) + off for every joint and coupled motor.

The sign of a speed changes between two samples of a filtered motion. So the columns of Coulomb friction hold the sign
taken at the recording's own rate and filtered like the torque, instead of the sign of the filtered speed.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.motion import constraint
from ros2_dynid.model.parameters import JOINT, Fc, standard_names
from ros2_dynid.model.robot import Array, Coupling, Robot


def signs(robot: Robot, dq: Array) -> Array:
    """Return the sign of the speeds of all joints of the tree and of the coupled motors, shape (N, n + couplings)."""
    G, _ = constraint(robot)
    every = dq @ G.T
    motors = [sum(c * every[:, j - 1] for j, c in coupling.weights.items()) for coupling in robot.coupling]
    return np.asarray(np.sign(np.column_stack([every, *motors])))


def put_signs(robot: Robot, Y: Array, sign: Array) -> None:
    """Write the filtered signs, shape (N, n + couplings), into the Coulomb columns of Y (n_standard, n_active, N)."""
    G, _ = constraint(robot)
    for j in range(robot.n):
        for k in np.flatnonzero(G[j]):
            Y[JOINT * j + Fc, k] = G[j, k] * sign[:, j]
    for m, (column, coupling) in enumerate(_motor_columns(robot)):
        Y[column] = 0.0
        for j, c in coupling.weights.items():
            for k in np.flatnonzero(G[j - 1]):
                Y[column, k] += c * G[j - 1, k] * sign[:, robot.n + m]


def _motor_columns(robot: Robot) -> list[tuple[int, Coupling]]:
    """Return the column of Fcm of each coupled motor, with its coupling."""
    place = {name: k for k, name in enumerate(standard_names(robot))}
    return [(place[f"Fcm{coupling.motor}"], coupling) for coupling in robot.coupling]
