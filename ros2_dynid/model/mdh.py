# SPDX-License-Identifier: Apache-2.0

"""Modified Denavit-Hartenberg frames of a tree of axes in space (Khalil and Kleinfinger).

z_j is the axis of joint j. x_j lies along the common normal of z_j and the axis of its first child, at its foot, which
makes gamma and b of that child zero; where the geometry leaves x_j or its origin free (parallel or coincident axes, the
last joint), theta_j and r_j are made zero. Frame 0 is frame 1 at q = 0. Of the two directions of a normal the one
with theta in (-90 deg + m, 90 deg + m], m = 0.1 rad, is taken: it depends neither on the sign of a small distance nor
on the last digit of a right angle, so that a small change of the robot gives a small change of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def rpy_of_rotation(R: Array) -> tuple[float, float, float]:
    """Return roll, pitch, yaw [rad] such that rotation_rpy gives R, shape (3, 3); of several the one with roll 0."""
    if abs(R[2, 0]) > 1 - 1e-12:
        return 0.0, float(-np.arcsin(np.clip(R[2, 0], -1.0, 1.0))), float(np.arctan2(-R[0, 1], R[1, 1]))
    roll, yaw = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(R[1, 0], R[0, 0])
    return float(roll), float(-np.arcsin(R[2, 0])), float(yaw)


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


ZERO_LENGTH = 1e-11
"""Lengths below this fraction of the robot's size are rounding errors and become zero."""
ZERO_ANGLE = 1e-11
"""Angles this close [rad] to a multiple of pi/2 are that multiple: rounding errors of our own."""
FAR_SINE = 1e-3
"""Axes closer to parallel than this [rad] meet so far away that frames are not placed at their common normal."""
MARGIN = 0.1


@dataclass(frozen=True)
class Axis:
    """Axis of a joint in space: antecedent's number, direction (3,) of unit length, a point of it (3,) [m]."""

    parent: int
    direction: Array
    point: Array


@dataclass(frozen=True)
class Row:
    """Geometric parameters of a joint: a row of the modified DH table. Angles in rad, lengths in m."""

    gamma: float
    b: float
    alpha: float
    d: float
    theta: float
    r: float


@dataclass(frozen=True)
class _Relation:
    """Two neighbouring axes: unit `normal` (3,) or None if they coincide, feet on both; parallel axes have no feet."""

    normal: Array | None
    sine: float
    feet: tuple[Array, Array] | None


def snap_axes(axes: Sequence[Axis], up: Array) -> tuple[list[Axis], dict[int, float]]:
    """Make nearly parallel and nearly perpendicular neighbours exactly so; also joint 1 and the vertical `up` (3,).

    Return the axes and the changes [rad] by joint number (from 1).
    """
    snapped: list[Axis] = []
    changes: dict[int, float] = {}
    for number, axis in enumerate(axes, start=1):
        references = [snapped[axis.parent - 1].direction] if axis.parent else [up]
        if axis.parent == 0 and snapped:
            references.insert(0, snapped[0].direction)
        direction = _snap_direction(axis.direction, references)
        change = float(np.linalg.norm(direction - axis.direction))
        if change > NOTE_ANGLE:
            changes[number] = change
        snapped.append(Axis(axis.parent, direction, axis.point))
    return snapped, changes


def _snap_direction(direction: Array, references: Sequence[Array]) -> Array:
    for reference in references:
        if np.linalg.norm(cross3(reference, direction)) <= SNAP_ANGLE:
            return math.copysign(1.0, float(reference @ direction)) * reference
    for reference in references:
        cosine = float(reference @ direction)
        if 0.0 < abs(cosine) <= SNAP_ANGLE:
            perpendicular = direction - cosine * reference
            return np.asarray(perpendicular / np.linalg.norm(perpendicular))
    return direction


def mdh_table(axes: Sequence[Axis], reference_x: Array) -> tuple[list[Row], Array]:
    """Return the rows of the table and the frames at q = 0, shape (n + 1, 4, 4), frame 0 first.

    `reference_x` (3,) is a direction fixed to the base that x_1 follows where it is free, and whose side it takes.
    """
    size = _size(axes)
    children: list[list[int]] = [[] for _ in range(len(axes) + 1)]
    for number, axis in enumerate(axes, start=1):
        children[axis.parent].append(number)
    relations = {
        child: _relate(axes[number - 1], axes[child - 1], size)
        for number in range(1, len(axes) + 1)
        for child in children[number]
    }
    frames = np.zeros((len(axes) + 1, 4, 4))
    rows: list[Row] = []
    for number, axis in enumerate(axes, start=1):
        first = children[number][0] if children[number] else None
        if number == 1:
            origin = _start_point(axes, children, relations)
            normal, feet = _start_side(axes, children, relations, reference_x), (origin, origin)
        else:
            relation = relations.get(number) or _relate(axes[0], axis, size)  # axis 1 is z_0 for joints of the base
            main = children[axis.parent][0] == number
            normal = _oriented(None if main else relation.normal, frames[axis.parent])
            near = _feet_of_parallel(frames[axis.parent][:3, 3], axis)
            feet = relation.feet or near
            origin = feet[1] if relation.sine > FAR_SINE else near[1]
        x = normal
        if first is not None:
            forward = relations[first]
            if forward.normal is not None:
                x = _same_side(forward.normal, normal, axis.direction)
            if forward.feet is not None and forward.sine > FAR_SINE:
                origin = forward.feet[0]
        frames[number] = _frame(x, axis.direction, origin)
        if number == 1:
            frames[0] = frames[1]
        rows.append(_row(frames[axis.parent], frames[number], normal, feet, size))
    return rows, frames


def _size(axes: Sequence[Axis]) -> float:
    """Return the largest coordinate [m], to which rounding errors are in proportion; 1 if all are zero."""
    return float(max(np.abs(axis.point).max() for axis in axes)) or 1.0


def _relate(one: Axis, other: Axis, size: float) -> _Relation:
    product = cross3(one.direction, other.direction)
    sine = float(np.linalg.norm(product))
    between = other.point - one.point
    if sine <= SNAP_ANGLE / 2:
        across = between - (between @ one.direction) * one.direction
        distance = float(np.linalg.norm(across))
        return _Relation(across / distance if distance > ZERO_LENGTH * size else None, sine, None)
    normal = product / sine
    along_one = cross3(between, other.direction) @ normal / sine
    along_other = cross3(between, one.direction) @ normal / sine
    return _Relation(normal, sine, (one.point + along_one * one.direction, other.point + along_other * other.direction))


def _feet_of_parallel(origin: Array, axis: Axis) -> tuple[Array, Array]:
    """Return the feet of the normal through the antecedent's origin, which makes b zero."""
    along = (origin - axis.point) @ axis.direction
    return origin, axis.point + along * axis.direction


def _oriented(normal: Array | None, parent: Array) -> Array:
    """Return the normal on the side of the antecedent's x axis (gamma in the interval of theta), or that axis itself.

    The axis itself is the normal of the first child by choice of the frame, and serves axes that coincide.
    """
    x, z = parent[:3, 0], parent[:3, 2]
    return x if normal is None else _same_side(normal, x, z)


def _same_side(direction: Array, reference: Array, about: Array) -> Array:
    """Return +-direction so that its angle from the reference, about an axis, is in (-pi/2 + m, pi/2 + m]."""
    angle = _angle(reference, direction, about)
    return direction if -math.pi / 2 + MARGIN < angle <= math.pi / 2 + MARGIN else -direction


def _angle(start: Array, end: Array, about: Array) -> float:
    return math.atan2(float(cross3(start, end) @ about), float(start @ end))


def _start_point(axes: Sequence[Axis], children: list[list[int]], relations: dict[int, _Relation]) -> Array:
    """Return the origin of frame 1 if its first child leaves it free: at the height that makes later r zero."""
    number = 1
    while children[number]:
        forward = relations[children[number][0]]
        if forward.feet is not None:
            anchor = forward.feet[0] if forward.sine > FAR_SINE else axes[0].point
            return _feet_of_parallel(anchor, axes[0])[1]
        number = children[number][0]
    return axes[0].point


def _start_side(
    axes: Sequence[Axis], children: list[list[int]], relations: dict[int, _Relation], reference: Array
) -> Array:
    """Return a direction across axis 1: along x of the joints that coincide with it, on the reference's side."""
    axis = axes[0].direction
    across = reference - (reference @ axis) * axis
    if np.linalg.norm(across) < 1e-3:
        raise ValueError("the reference direction must not be parallel to axis 1")
    across = across / np.linalg.norm(across)
    number = 1
    while children[number]:
        forward = relations[children[number][0]]
        if forward.normal is not None:
            return _same_side(forward.normal, across, axis)
        number = children[number][0]
    return np.asarray(across)


def _frame(x: Array, z: Array, origin: Array) -> Array:
    frame = np.eye(4)
    x = x - (x @ z) * z
    x = x / np.linalg.norm(x)
    frame[:3, 0], frame[:3, 1], frame[:3, 2], frame[:3, 3] = x, cross3(z, x), z, origin
    return frame


def _row(parent: Array, own: Array, normal: Array, feet: tuple[Array, Array], size: float) -> Row:
    """Return the parameters of the transform parent -> own by way of the normal and its feet."""
    (xa, za, oa), (xj, zj, oj) = ((frame[:3, 0], frame[:3, 2], frame[:3, 3]) for frame in (parent, own))

    def length(value: float) -> float:
        return 0.0 if abs(value) <= ZERO_LENGTH * size else value

    def angle(value: float) -> float:
        snapped = snap_angle(value, ZERO_ANGLE)
        return math.pi if snapped == -math.pi else snapped

    return Row(
        gamma=angle(_angle(xa, normal, za)),
        b=length(float((feet[0] - oa) @ za)),
        alpha=angle(_angle(za, zj, normal)),
        d=length(float((feet[1] - feet[0]) @ normal)),
        theta=angle(_angle(normal, xj, zj)),
        r=length(float((oj - feet[1]) @ zj)),
    )
