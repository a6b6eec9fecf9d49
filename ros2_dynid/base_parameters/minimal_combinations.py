# SPDX-License-Identifier: Apache-2.0

"""The minimal linear combinations of Lin's Theorem 2 (Lin 1995), as the paper gives them, from composite bodies.

The constants of the composite body i, U_i (inertia), k_i (first moment) and m_i (mass), gather from the last link
inwards what of the links behind stays the same in frame i whatever they do (eq. 8 to 15). Which of their elements are
minimal linear combinations follows from the first rotational joint r and the nearest one, s, not parallel to it.

With prismatic joints these sets are not in reduced form: tau is not W[:, leaders] times them. Their span is that of the
base parameters. Trees are covered as well, r and s being looked for along the path from the base. Rotors are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.closed_form import placements, transfer_matrix
from ros2_dynid.base_parameters.numeric import typical_length
from ros2_dynid.base_parameters.result import noise_level, tidy
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.parameters import select_groups
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

PARALLEL_TOLERANCE = 1e-9
"""Sine of the angle [rad], or distance in the robot's own unit of length, below which axes count as parallel, equal."""
XX, XY, XZ, YY, YZ, ZZ, X, Y, Z, M = range(10)
"""Places of the elements of U, k and m in a composite body's ten constants."""


@dataclass(frozen=True)
class Combination:
    """One minimal linear combination: its name in the paper's terms and its coefficients by standard parameter."""

    name: str
    terms: dict[str, float]


def minimal_combinations(robot: Robot) -> tuple[Combination, ...]:
    """Return the set S of Theorem 2 for a serial or tree robot under gravity, inertial parameters only."""
    names, rows, labels = combination_matrix(robot)
    rows = tidy(rows, np.ones(len(names)), [0] * len(rows), noise_level(1.0))
    return tuple(
        Combination(label, {names[k]: float(row[k]) for k in np.flatnonzero(row)})
        for label, row in zip(labels, rows, strict=True)
    )


def combination_matrix(robot: Robot) -> tuple[tuple[str, ...], Array, list[str]]:
    """Return the inertial parameters' names, the combinations as rows over them, and the combinations' names."""
    if robot.passive_joints:
        raise InputError("closed loops are not covered by Theorem 2", "use the numerical methods", robot.name)
    if not np.any(robot.gravity):
        raise InputError(
            "Theorem 2 takes gravity for granted",
            Text("use ", Option("method", "closed-form"), " without it"),
            robot.name,
        )
    names = select_groups(robot, ("inertial",))
    bodies = _composite_constants(robot)
    paths = _paths(robot)
    labels, rows = [], []
    for j in range(1, robot.n + 1):
        for label, row in _minimal_elements(robot, j, paths[j], bodies[j - 1]):
            labels.append(f"{label}_{j}")
            rows.append(row)
    return names, np.array(rows).reshape(-1, len(names)), labels


def _composite_constants(robot: Robot) -> Array:
    """Return U, k and m of the composite bodies as rows over the inertial parameters, shape (n, 10, 10 n).

    Across a rotational joint only m, k_z and the equal moments (U_22, U_22, 0) stay the same; across a translational
    one all of U, k and m do, except for the part that its displacement r brings (eq. 10, 12 and 14).
    """
    n = robot.n
    undisplaced = replace(
        robot, joints=tuple(joint if joint.sigma == REVOLUTE else replace(joint, r=0.0) for joint in robot.joints)
    )
    A = transfer_matrix(placements(undisplaced))
    bodies = np.zeros((n, 10, 10 * n))
    for j in range(n - 1, -1, -1):
        bodies[j, :, 10 * j : 10 * j + 10] += np.eye(10)
        joint = robot.joints[j]
        if joint.parent:
            unchanged = bodies[j]
            if joint.sigma == REVOLUTE:
                unchanged = np.zeros_like(unchanged)
                unchanged[XX] = unchanged[YY] = bodies[j, YY]
                unchanged[Z], unchanged[M] = bodies[j, Z], bodies[j, M]
            bodies[joint.parent - 1] += A[j] @ unchanged
    return bodies


@dataclass(frozen=True)
class _Path:
    """The path from the base to joint j at q = 0, in frame j: axes u, shape (k, 3), points on them p, and gravity."""

    joints: list[int]
    u: Array
    p: Array
    g: Array


def axis_before(robot: Robot, j: int) -> Array:
    """Return the axis of the first rotational joint on the way to joint j, in frame j, shape (3,): u_r (eq. 87)."""
    path = _paths(robot)[j]
    first = next(k for k, i in enumerate(path.joints) if robot.joints[i - 1].sigma == REVOLUTE)
    return np.asarray(path.u[first])


def _paths(robot: Robot) -> list[_Path]:
    """Return the path of every joint, itself last (entry 0 is the base's, without joints)."""
    T = placements(robot, typical_length(robot))
    g = robot.base[:3, :3].T @ robot.gravity
    paths = [_Path([], np.zeros((0, 3)), np.zeros((0, 3)), g / np.linalg.norm(g))]
    for j, joint in enumerate(robot.joints, start=1):
        parent, R, p = paths[joint.parent], T[j - 1, :3, :3], T[j - 1, :3, 3]
        paths.append(
            _Path(
                [*parent.joints, j],
                np.vstack((parent.u @ R, (0.0, 0.0, 1.0))),
                np.vstack(((parent.p - p) @ R, np.zeros(3))),
                parent.g @ R,
            )
        )
    return paths


def _parallel(a: Array, b: Array) -> bool:
    """Return whether two directions are parallel or one is zero."""
    return float(np.linalg.norm(np.cross(a, b))) < PARALLEL_TOLERANCE


def _minimal_elements(robot: Robot, j: int, path: _Path, body: Array) -> list[tuple[str, Array]]:
    """Return the elements of the composite body j that belong to S, with their names (Theorem 2, 1 to 5)."""
    rotational = [k for k, i in enumerate(path.joints) if robot.joints[i - 1].sigma == REVOLUTE]
    r = rotational[0] if rotational else None
    s = next((k for k in rotational if r is not None and not _parallel(path.u[r], path.u[k])), None)
    translational = robot.joints[j - 1].sigma != REVOLUTE
    if translational:
        elements = [("m", body[M])]  # 3
        if s is not None:  # 4
            elements += [("kx", body[X]), ("ky", body[Y]), ("kz", body[Z])]
        elif r is not None and not _parallel(path.u[r], path.u[-1]):  # 5
            ux, uy, uz = path.u[r]
            elements.append(("kappa1", -uy * body[X] + ux * body[Y]))
            elements.append(("kappa2", -uz * (ux * body[X] + uy * body[Y]) + (1.0 - uz**2) * body[Z]))
        return elements
    elements = [("U33", body[ZZ])]
    if s is not None:  # 2
        elements.insert(0, ("U11-U22", body[XX] - body[YY]))
        elements += [("U12", body[XY]), ("U13", body[XZ]), ("U23", body[YZ])]
    if s is not None or not _along_gravity(path, rotational):  # 1: delta
        elements += [("kx", body[X]), ("ky", body[Y])]
    return elements


def _along_gravity(path: _Path, rotational: list[int]) -> bool:
    """Return whether all axes up to joint j are parallel to gravity, the rotational ones on one line (delta_j = 0)."""
    axis = path.u[-1]
    return all(_parallel(axis, u) for u in (*path.u, path.g)) and all(_parallel(axis, path.p[k]) for k in rotational)
