# SPDX-License-Identifier: Apache-2.0

"""The wrench at a link that explains external torques, by damped least squares."""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.kinematics import jacobian
from ros2_dynid.model.robot import Array, Robot

DAMPING = 0.02
"""Directions that the joints feel with less than this [m or 1], as near a singular position, come out smaller."""


def external_wrench(robot: Robot, q: Array, external: Array, link: str, damping: float = DAMPING) -> Array:
    """Return force [N] and moment [N.m] at the link's origin, in its own frame, shape (N, 6).

    F = (J J^T + damping^2 1)^-1 J external, for q and external torques of shape (N, n_active). Fewer than six joints do
    not feel every wrench: F is then the smallest one.
    """
    J = jacobian(robot, q, link)
    n = J.shape[2]
    A = np.concatenate((J.transpose(0, 2, 1), np.broadcast_to(damping * np.eye(6), (len(J), 6, 6))), axis=1)
    b = np.concatenate((external, np.zeros((len(J), 6))), axis=1)
    Q, R = np.linalg.qr(A)
    assert A.shape[1] == n + 6
    return np.asarray(np.linalg.solve(R, np.einsum("tij,ti->tj", Q, b)[..., None])[..., 0])
