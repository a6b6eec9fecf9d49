# SPDX-License-Identifier: Apache-2.0

"""The ten parameters of a link as matrices: inertia about the origin, at the centre of mass, and pseudo-inertia.

A link is physically consistent if its pseudo-inertia P = [[S, m], [m^T, M]] is positive definite, with S = tr(J)/2 E -
J the second moment of mass, m the first moment and M the mass. This covers mass, centre of mass, inertia and the
triangle inequality.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.parameters import LINK, by_joint
from ros2_dynid.model.robot import Array, Robot


def link_inertia(parameters: Array) -> Array:
    """Return J about the frame's origin, shape (3, 3), of a link's ten parameters."""
    XX, XY, XZ, YY, YZ, ZZ = parameters[:6]
    return np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ)))


def central_inertia(parameters: Array) -> Array | None:
    """Return the inertia at the centre of mass (eq. 36), shape (3, 3), or None without a positive mass."""
    m, M = parameters[6:9], parameters[9]
    if M <= 0:
        return None
    return np.asarray(link_inertia(parameters) - (m @ m * np.eye(3) - np.outer(m, m)) / M)


def pseudo_inertia(parameters: Array) -> Array:
    """Return P, shape (4, 4), of a link's ten parameters."""
    J = link_inertia(parameters)
    P = np.empty((4, 4))
    P[:3, :3] = 0.5 * np.trace(J) * np.eye(3) - J
    P[:3, 3] = P[3, :3] = parameters[6:9]
    P[3, 3] = parameters[9]
    return P


def links_of(robot: Robot, chi: Array) -> Array:
    """Return the ten parameters of every link, shape (n, 10)."""
    return by_joint(robot, chi)[:, : len(LINK)]
