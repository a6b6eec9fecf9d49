"""Friction and offset of the joints: Fv dq + Fc sign(dq) + off [N.m or N]."""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.parameters import JOINT, OFF, Fc, Fv
from ros2_dynid.model.robot import Array


def friction_torque(chi: Array, dq: Array) -> Array:
    """Return Fv dq + Fc sign(dq) + off, shape (n, N), for chi of shape (n, JOINT) and dq of shape (n, N)."""
    return chi[:, Fv, None] * dq + chi[:, Fc, None] * np.sign(dq) + chi[:, OFF, None]


def add_friction_columns(Y: Array, dq: Array) -> None:
    """Write the columns of Fv, Fc and off into Y, shape (n_standard, n, N), for dq of shape (n, N)."""
    for j in range(dq.shape[0]):
        Y[JOINT * j + Fv, j] = dq[j]
        Y[JOINT * j + Fc, j] = np.sign(dq[j])
        Y[JOINT * j + OFF, j] = 1.0
