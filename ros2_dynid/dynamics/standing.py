# SPDX-License-Identifier: Apache-2.0

"""Feet that stand, whose forces are not known: the drives of their legs tell them.

A contact force f acts on the legs' drives as A_j f and on the base as A_b f, where (A_b, A_j) = J^T. From the rows of
the drives, tau_j + A_j f = Y_j chi, follows f, and the rows of the base become free of it:
    (Y_b - B Y_j) chi = tau_b - B tau_j     with B = A_b A_j^+.
These six rows are what the null space of the contact Jacobian leaves where the contacts take all that their legs'
rows hold; the rows of those legs are then spent.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.kinematics import jacobian
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import BASE_JOINTS, Array, Robot

BASE = len(BASE_JOINTS)
POINT, SOLE = 3, 6
"""Components of what a foot that is a point, or one with a sole, takes from the ground."""
LEAST_GRIP = 1e-3
"""Ratio of the smallest to the largest singular value of A_j below which a leg is straight: its drives do not tell the
force along it."""


def check_standing(robot: Robot) -> None:
    """Refuse feet that are not links of the robot's legs, and a robot whose base is held."""
    for link, size in robot.standing:
        if not robot.floating:
            raise InputError(f"{link!r} stands, but the base does not float", "let the base float", robot.name)
        if link not in robot.tools or robot.tools[link][0] <= robot.base_number:
            feet = ", ".join(name for name, (joint, _) in robot.tools.items() if joint > robot.base_number)
            raise InputError(f"there is no foot {link!r} to stand on", f"choose from {feet}", robot.name)
        if size not in (POINT, SOLE):
            raise InputError(f"foot {link!r} takes {size} components", f"give {POINT} or {SOLE}", robot.name)


@lru_cache(maxsize=64)
def joints_without_rows(robot: Robot) -> tuple[bool, ...]:
    """Return which active joints have no rows of their own: their effort is not measured, or spent on a contact."""
    spent = set()
    for link, _ in robot.standing:
        number = robot.tools[link][0]
        while number > robot.base_number:
            spent.add(number)
            number = robot.joints[number - 1].parent
    return tuple(j in spent or robot.joints[j - 1].measured.absent for j in robot.active)


def contact_shares(robot: Robot, q: Array, *, bent: bool = True) -> Array:
    """Return B, shape (N, 6, n_active - 6), for positions q of the active joints, shape (N, n_active).

    bent: refuse positions in which a leg is straight.
    """
    J = np.concatenate([jacobian(robot, q, link)[:, :size] for link, size in robot.standing], axis=1)
    driven = J[:, :, BASE:]
    s = np.linalg.svd(driven, compute_uv=False)
    if bent and np.any(s[:, -1] < LEAST_GRIP * s[:, 0]):
        raise InputError("a leg that stands is straight: its drives do not tell its force", "bend the legs", robot.name)
    shares: NDArray[np.float64] = J[:, :, :BASE].transpose(0, 2, 1) @ np.linalg.pinv(driven.transpose(0, 2, 1))
    return shares


def take_contacts_out(shares: Array, rows: Array) -> Array:
    """Return rows, shape (..., n_active, N), with those of the base free of the contacts' forces."""
    free = np.array(rows)
    free[..., :BASE, :] -= np.einsum("tij,...jt->...it", shares, rows[..., BASE:, :], optimize=True)
    return free
