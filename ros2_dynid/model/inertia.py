# SPDX-License-Identifier: Apache-2.0

"""Inertias of bodies: as standard parameters in the frame of a joint, and as matrices.

A link is physically consistent if its pseudo-inertia P = [[S, m], [m^T, M]] is positive definite, with S = tr(J)/2 E -
J the second moment of mass, m the first moment and M the mass. This covers mass, centre of mass, inertia and the
triangle inequality.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.model.parameters import LINK, by_joint
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class Inertia:
    """A body seen from a frame: mass [kg], first moment M c [kg.m], inertia matrix J about the origin [kg.m^2]."""

    mass: float
    first_moment: Array
    matrix: Array

    @staticmethod
    def at_centre_of_mass(mass: float, centre: Array, matrix: Array) -> Inertia:
        """Return the body with the inertia `matrix` about its centre of mass, as URDF gives it."""
        return Inertia(mass, mass * centre, matrix + mass * _huygens(centre))

    def moved(self, pose: Array) -> Inertia:
        """Return the same body seen from the frame in which its present frame has the pose (4, 4).

        With s = R M c: M c' = s + M t and J' = R J R^T + M (t.t E - t t^T) + 2 s.t E - s t^T - t s^T.
        """
        rotation, shift = pose[:3, :3], pose[:3, 3]
        moment = rotation @ self.first_moment
        cross = 2.0 * (moment @ shift) * np.eye(3) - np.outer(moment, shift) - np.outer(shift, moment)
        matrix = rotation @ self.matrix @ rotation.T + self.mass * _huygens(shift) + cross
        return Inertia(self.mass, moment + self.mass * shift, matrix)

    def fault(self) -> str | None:
        """Return why no body can have this inertia, or None.

        Physical: M > 0, J about the centre of mass positive, and no principal moment above the sum of the others.
        """
        if self.mass <= 0:
            return "inertia without mass" if np.any(self.matrix != 0) else None
        centre = self.first_moment / self.mass
        central = self.matrix - self.mass * _huygens(centre)
        moments = np.linalg.eigvalsh((central + central.T) / 2)
        # The moments were given to a few digits, and the move to the centre of mass costs some of the last ones.
        slack = 1e-6 * moments[2] + 1e-12 * np.abs(self.matrix).max()
        if moments[0] < -slack:
            return "negative principal moment of inertia"
        if moments[0] + moments[1] < moments[2] - slack:
            return "principal moments of inertia violate the triangle inequality"
        return None

    def standard(self) -> dict[str, float]:
        """Return the ten inertial parameters by kind: XX XY XZ YY YZ ZZ MX MY MZ M."""
        j, m = self.matrix, self.first_moment
        values = (j[0, 0], j[0, 1], j[0, 2], j[1, 1], j[1, 2], j[2, 2], m[0], m[1], m[2], self.mass)
        kinds = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
        return {kind: float(value) for kind, value in zip(kinds, values, strict=True)}


def merged(bodies: Iterable[Inertia]) -> Inertia:
    """Return the rigid sum of bodies seen from one frame."""
    mass, moment, matrix = 0.0, np.zeros(3), np.zeros((3, 3))
    for body in bodies:
        mass, moment, matrix = mass + body.mass, moment + body.first_moment, matrix + body.matrix
    return Inertia(mass, moment, matrix)


def _huygens(shift: Array) -> Array:
    """Return c.c E - c c^T: the inertia [m^2] of a unit point mass at c."""
    return np.asarray((shift @ shift) * np.eye(3) - np.outer(shift, shift))


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
