# SPDX-License-Identifier: Apache-2.0

"""The wrench that a force-torque sensor at a link measures of what lies beyond it.

In the sensor's frame, about its origin, with w, dw its angular velocity and acceleration and a its acceleration less
gravity: force = M a + dw x m + w x (w x m), torque = J dw + w x J w + m x a. That is linear in the ten parameters phi
of what lies beyond the sensor: wrench = Y phi.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.kinematics import link_motions, motion_of, placements_of
from ros2_dynid.dynamics.placement import cross
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array, Robot

AXES = 6


def sensor_regressor(robot: Robot, link: str, q: Array, dq: Array, ddq: Array) -> Array:
    """Return Y, shape (N, 6, 10): the wrench in the frame of `link` that moves a body of ten parameters given there."""
    if link not in robot.tools or not robot.tools[link][0]:
        known = ", ".join(name for name, (joint, _) in robot.tools.items() if joint)
        raise InputError(f"no moving link {link!r} carries the sensor", f"choose from {known}", robot.name)
    carrier, pose = robot.tools[link]
    motion = motion_of(robot, q, dq, ddq)
    body = link_motions(robot, motion, placements_of(robot, motion))[carrier - 1]
    R, p = pose[:3, :3].T, pose[:3, 3][:, None]
    w, dw = R @ body.w, R @ body.dw
    a = R @ (body.a + cross(body.dw, p) + cross(body.w, cross(body.w, p)))
    Y = np.zeros((AXES, len(LINK), a.shape[1]))
    D, W = _six(dw), _six(w)
    skew_w = _skew(w)
    Y[3:, :6] = D + np.einsum("ijt,jkt->ikt", skew_w, W)  # J dw + w x J w
    Y[3:, 6:9] = -_skew(a)  # m x a
    Y[:3, 6:9] = _skew(dw) + np.einsum("ijt,jkt->ikt", skew_w, skew_w)
    Y[:3, 9] = a
    return np.ascontiguousarray(Y.transpose(2, 0, 1))


def _skew(v: Array) -> Array:
    """Return the matrices of v x, shape (3, 3, N), for v of shape (3, N)."""
    out = np.zeros((3, 3, v.shape[1]))
    out[0, 1], out[0, 2], out[1, 2] = -v[2], v[1], -v[0]
    out[1, 0], out[2, 0], out[2, 1] = v[2], -v[1], v[0]
    return out


def _six(v: Array) -> Array:
    """Return matrices of shape (3, 6, N) with J v = matrix (XX XY XZ YY YZ ZZ)."""
    out = np.zeros((3, 6, v.shape[1]))
    x, y, z = v
    out[0, 0], out[0, 1], out[0, 2] = x, y, z
    out[1, 1], out[1, 3], out[1, 4] = x, y, z
    out[2, 2], out[2, 4], out[2, 5] = x, y, z
    return out
