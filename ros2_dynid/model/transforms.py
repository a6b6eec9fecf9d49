# SPDX-License-Identifier: Apache-2.0

"""Rigid transforms as 4x4 matrices: rpy, axis and angle, modified DH; angles that a file rounded."""

from __future__ import annotations

import math

import numpy as np

from ros2_dynid.model.robot import PRISMATIC, Array, Joint

SNAP_ANGLE = 1e-5
"""Angles this close [rad] to a multiple of pi/2 were rounded in the file (1.5708) and are taken as exact."""
NOTE_ANGLE = 1e-10
"""A snap by more than this [rad] is worth a note; below it is the last digit of a long decimal."""


def snap_angle(angle: float, tolerance: float = SNAP_ANGLE) -> float:
    """Return the multiple of pi/2 within `tolerance` of the angle [rad], or the angle itself."""
    nearest = round(angle / (math.pi / 2)) * (math.pi / 2)
    return nearest if abs(angle - nearest) <= tolerance else angle


def cos_sin(angle: float) -> tuple[float, float]:
    """Return cos and sin of an angle [rad], exactly 0 and +-1 at the multiples of pi/2 that a float can hold."""
    quarter = round(angle / (math.pi / 2))
    if angle == quarter * (math.pi / 2):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarter % 4]
    return math.cos(angle), math.sin(angle)


def cross3(a: Array, b: Array) -> Array:
    """Return a x b of two vectors (3,); np.cross takes ten times as long for single ones."""
    return np.array((a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))


def rotation_about(axis: Array, angle: float) -> Array:
    """Return the rotation matrix (3, 3) by an angle [rad] about a unit axis (3,): Rodrigues' formula."""
    c, s = cos_sin(angle)
    x, y, z = axis
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(c * np.eye(3) + s * skew + (1.0 - c) * np.outer(axis, axis))


def rotation_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Return Rot(z, yaw) Rot(y, pitch) Rot(x, roll), shape (3, 3), as URDF's rpy means it; angles in rad."""
    (cr, sr), (cp, sp), (cy, sy) = cos_sin(roll), cos_sin(pitch), cos_sin(yaw)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def transform(rotation: Array, position: Array) -> Array:
    """Return the homogeneous matrix (4, 4) of a rotation (3, 3) and a position (3,) [m]."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    matrix[:3, 3] = position
    return matrix


def inverse(matrix: Array) -> Array:
    """Return the inverse of a rigid transform (4, 4)."""
    rotation = matrix[:3, :3].T
    return transform(rotation, -rotation @ matrix[:3, 3])


def mdh_transform(joint: Joint, q: float = 0.0) -> Array:
    """Return the transform a(j) -> j, shape (4, 4), at joint position q [rad or m]."""
    theta = joint.theta if joint.sigma == PRISMATIC else joint.theta + q
    r = joint.r + q if joint.sigma == PRISMATIC else joint.r
    (cg, sg), (ca, sa), (ct, st) = cos_sin(joint.gamma), cos_sin(joint.alpha), cos_sin(theta)
    antecedent = np.array([[cg, -sg, 0, 0], [sg, cg, 0, 0], [0, 0, 1, joint.b], [0, 0, 0, 1]], dtype=float)
    neighbour = np.array([[1, 0, 0, joint.d], [0, ca, -sa, 0], [0, sa, ca, 0], [0, 0, 0, 1]], dtype=float)
    own = np.array([[ct, -st, 0, 0], [st, ct, 0, 0], [0, 0, 1, r], [0, 0, 0, 1]], dtype=float)
    return np.asarray(antecedent @ neighbour @ own)
