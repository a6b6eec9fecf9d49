"""Friction and offset of the joints: Fv dq + Fc sign(dq) + off [N.m or N]."""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.parameters import PER_JOINT
from ros2_dynid.model.robot import Array

Fv, Fc, OFF = (PER_JOINT.index(kind) for kind in ("Fv", "Fc", "off"))
"""Places of the friction parameters among the 14 of a joint."""


def friction_torque(chi: Array, dq: Array) -> Array:
    """Return Fv dq + Fc sign(dq) + off, shape (n, N), for chi of shape (n, 14) and dq of shape (n, N)."""
    return chi[:, Fv, None] * dq + chi[:, Fc, None] * np.sign(dq) + chi[:, OFF, None]


def add_friction_columns(Y: Array, dq: Array) -> None:
    """Write the columns of Fv, Fc and off into Y, shape (n_standard, n, N), for dq of shape (n, N)."""
    for j in range(dq.shape[0]):
        Y[14 * j + Fv, j] = dq[j]
        Y[14 * j + Fc, j] = np.sign(dq[j])
        Y[14 * j + OFF, j] = 1.0
