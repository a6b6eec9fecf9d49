# SPDX-License-Identifier: Apache-2.0

"""Friction and offset of the joints: Fv dq + Fc sign(dq) + off [N.m or N]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.model.parameters import JOINT, OFF, Fc, Fv, group_of, standard_names
from ros2_dynid.model.robot import Array, Robot


def friction_torque(chi: Array, dq: Array) -> Array:
    """Return Fv dq + Fc sign(dq) + off, shape (n, N), for chi of shape (n, JOINT) and dq of shape (n, N)."""
    return chi[:, Fv, None] * dq + chi[:, Fc, None] * np.sign(dq) + chi[:, OFF, None]


def add_friction_columns(Y: Array, dq: Array) -> None:
    """Write the columns of Fv, Fc and off into Y, shape (n_standard, n, N), for dq of shape (n, N)."""
    for j in range(dq.shape[0]):
        Y[JOINT * j + Fv, j] = dq[j]
        Y[JOINT * j + Fc, j] = np.sign(dq[j])
        Y[JOINT * j + OFF, j] = 1.0


def frictionless(robot: Robot, chi: Array) -> tuple[Robot, Array]:
    """Return the robot without its friction terms, and chi, shape (n_standard,), without friction and offsets."""
    return replace(robot, friction=()), without_friction(robot, chi)


def without_friction(robot: Robot, chi: Array) -> Array:
    """Return chi, shape (n_standard,), with friction and offsets set to zero; the robot's own terms are not in chi."""
    kept = [group_of(name) not in ("friction", "offset") for name in standard_names(robot)]
    return np.where(kept, chi, 0.0)
