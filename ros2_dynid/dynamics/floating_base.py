# SPDX-License-Identifier: Apache-2.0

"""The six joints of a floating base in the words of its user: pose, twist and acceleration, wrenches from outside.

The base link's origin stands at p in the world, turned by R = Rz(yaw) Ry(pitch) Rx(roll). Seen from the base link,
    w = B (yaw', pitch', roll')     and     v = R^T p',
so with the rows (R f, B^T m) of the six joints a force f and a moment m on the base link are known. At a pitch of
+-90 deg B is singular: a recording that comes near it is refused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.kinematics import jacobian
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import BASE_JOINTS, Array, Robot

MOST_PITCH = np.deg2rad(85.0)
"""Pitch beyond which yaw and roll turn about nearly the same axis: their moments differ by less than noise."""


def base_positions(position: ArrayLike, orientation: ArrayLike) -> Array:
    """Return x, y, z [m], yaw, pitch, roll [rad], shape (N, 6), without jumps of a turn.

    position: of the base link in the world, (N, 3) [m]; orientation: quaternions x, y, z, w, shape (N, 4), of any sign.
    """
    p, quaternion = np.asarray(position, dtype=float), np.asarray(orientation, dtype=float)
    if p.shape != (len(p), 3) or quaternion.shape != (len(p), 4):
        what = f"position and orientation of the base have shapes {p.shape} and {quaternion.shape}"
        raise InputError(what, "give (N, 3) [m] and (N, 4), quaternions x, y, z, w")
    with np.errstate(invalid="ignore"):
        x, y, z, w = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    pitch = np.arcsin(np.clip(2 * (w * y - x * z), -1.0, 1.0))
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    q = np.column_stack((p, yaw, pitch, roll))
    known = np.isfinite(q).all(axis=1)
    q[known, 3:] = np.unwrap(q[known, 3:], axis=0)
    check_pitch(q)
    return q


def check_pitch(q: Array, source: str | None = None) -> None:
    """Refuse positions of the base, shape (N, 6), whose pitch comes near +-90 deg."""
    largest = float(np.nanmax(np.abs(q[:, 4]), initial=0.0))
    if largest > MOST_PITCH:
        what = f"the base pitches by {np.degrees(largest):.0f} deg, where yaw and roll cannot be told apart"
        raise InputError(what, "cut the recording, or choose a base link whose x axis stays level", source)


def base_rotation(q: Array) -> Array:
    """Return R, shape (N, 3, 3), base link to world, for positions of the base joints q (N, 6)."""
    (cy, cp, cr), (sy, sp, sr) = np.cos(q[:, 3:6]).T, np.sin(q[:, 3:6]).T
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return np.moveaxis(np.array(rows), 2, 0)


def angle_rates(q: Array) -> Array:
    """Return B, shape (N, 3, 3): the angular velocity in the base link's frame is B (yaw', pitch', roll')."""
    (cp, cr), (sp, sr) = np.cos(q[:, 4:6]).T, np.sin(q[:, 4:6]).T
    zero, one = np.zeros_like(cp), np.ones_like(cp)
    return np.moveaxis(np.array(((-sp, zero, one), (cp * sr, cr, zero), (cp * cr, -sr, zero))), 2, 0)


def base_motion(q: Array, velocity: Array, acceleration: Array) -> tuple[Array, Array]:
    """Return dq and ddq of the six joints, shape (N, 6), for the base link's motion given in its own frame, (N, 6).

    velocity: of its origin, then angular; acceleration: that of the origin in the world, R^T p'', as an accelerometer
    has it beside gravity, then the derivative of the angular velocity.
    """
    R, B = base_rotation(q), angle_rates(q)
    linear = np.einsum("tij,tj->ti", R, velocity[:, :3])
    rates = np.linalg.solve(B, velocity[:, 3:, None])[:, :, 0]
    # B' (yaw', pitch', roll') from the derivatives of B's elements by pitch and roll
    (cp, cr), (sp, sr), (yaw, pitch, roll) = np.cos(q[:, 4:6]).T, np.sin(q[:, 4:6]).T, rates.T
    change = np.column_stack(
        (
            -cp * pitch * yaw,
            (cp * cr * roll - sp * sr * pitch) * yaw - sr * roll * pitch,
            -(sp * cr * pitch + cp * sr * roll) * yaw - cr * roll * pitch,
        )
    )
    angular = np.linalg.solve(B, (acceleration[:, 3:] - change)[:, :, None])[:, :, 0]
    dq = np.column_stack((linear, rates))
    return dq, np.column_stack((np.einsum("tij,tj->ti", R, acceleration[:, :3]), angular))


def base_wrench(q: Array, efforts: Array) -> Array:
    """Return force and moment on the base link in its own frame, shape (N, 6, ...), from the six joints' rows.

    efforts: shape (N, 6, ...): torques of a robot, or its regressor's rows; q: positions of the base joints (N, 6).
    """
    turn, B = base_rotation(q).transpose(0, 2, 1), angle_rates(q)
    columns = efforts.reshape(*efforts.shape[:2], -1)
    wrench = np.concatenate((turn @ columns[:, :3], np.linalg.solve(B.transpose(0, 2, 1), columns[:, 3:])), axis=1)
    return wrench.reshape(efforts.shape)


def contact_efforts(robot: Robot, q: ArrayLike, link: str, wrench: Array) -> Array:
    """Return J^T wrench, shape (N, n_active): what a force and moment on `link`, in its frame, (N, 6), are worth.

    Drives and contacts together give the torque of the model: tau + sum of J^T wrench = Y chi.
    """
    if not robot.floating:
        raise InputError("contacts are those of a robot with a floating base", f"let the base float: {BASE_JOINTS[0]}")
    return np.asarray(np.einsum("tki,tk->ti", jacobian(robot, q, link), wrench))
