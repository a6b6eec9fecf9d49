# SPDX-License-Identifier: Apache-2.0

"""What the torques of a tree robot can tell of its parameters, exactly and without sampling.

Take the composite body of link j: link j and all that it carries, moved into frame j at q = 0. Let the rows of D_j be
what is felt of it: what changes the torque of joint j, or the energy that the links before feel as q_j varies. A change
of parameters is invisible if and only if D_j (composite change of link j) = 0 for every joint j: an invisible change of
the last link acts as a constant change of the link before, and so on inwards. So the number of base parameters is the
sum of the ranks of D_j, and the rows D_j (composite of j), over all standard parameters, span what is identifiable.

D_j follows from the motions that the link before can attain (reach.py), so no sampling is needed. Wensing, Niemeyer and
Slotine ("Observability in inertial parameter identification") have the recursion for links; offset, rotors, couplings
and friction are added here.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.base_parameters.reach import RankMargin, Reach, reaches, span
from ros2_dynid.base_parameters.transfer import FLOW, SPATIAL_INERTIA, placements, transfer_matrix
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import REVOLUTE, Array, Robot


def identifiable_rows(
    robot: Robot,
    names: tuple[str, ...],
    *,
    length: float = 1.0,
    tilting_base: bool = False,
    tolerance: float = 1e-10,
) -> tuple[Array, RankMargin]:
    """Return B, shape (rows, len(names)), whose rows span the identifiable combinations of the parameters named.

    names: standard parameters taken part in, in the order of chi; those left out count as known. B refers to
    parameters in units of `length` [m] and |g| (transfer.units). Its null space is that of the torque regressor.
    """
    if robot.passive:
        raise InputError("closed loops have no exact recursion", "use a numerical method: qr or svd", robot.name)
    margin = RankMargin()
    T = placements(robot, length)
    A = transfer_matrix(T)
    column = {name: k for k, name in enumerate(names)}
    composite = _composites(robot, A)
    inertial = [k for name, k in column.items() if name.rstrip("0123456789") in LINK]
    blocks = []
    for j, reach in enumerate(reaches(robot, T, A, tilting_base, tolerance, margin), start=1):
        D, drive_names = _effect_rows(robot, j, length, reach, column)
        rows = span(D, tolerance, margin)
        block = np.zeros((len(rows), len(column)))
        block[:, [column[name] for name in drive_names]] = rows[:, 10:]
        if len(inertial):
            block[:, inertial] = rows[:, :10] @ composite[j - 1]
        blocks.append(block)
    return np.vstack((*blocks, _drive_rows(robot, column, length))), margin


def _effect_rows(robot: Robot, j: int, length: float, reach: Reach, column: dict[str, int]) -> tuple[Array, list[str]]:
    """Return D_j as rows over the composite body's ten parameters, then over drive parameters, and those' names."""
    s = robot.joints[j - 1].sigma
    axis_inertia = SPATIAL_INERTIA[2 + 3 * s]
    V, G = reach.V @ axis_inertia, reach.G[:, :3] @ axis_inertia[3:6]
    steady = reach.F @ FLOW[s]  # energies that the links before feel must not change with q_j
    own = axis_inertia[2 + 3 * s][None]
    coupled_inertias = {i: _coupled_inertia(robot, i, j, length) for i in reach.E}
    drive_names = [f"Ia{j}", f"off{j}", *(name for share in coupled_inertias.values() for name in share)]
    drive_names = [name for name in dict.fromkeys(drive_names) if name in column]
    blocks = [own, G, V, steady, *(rows[:, :6] @ axis_inertia for rows in reach.E.values())]
    D = np.zeros((sum(map(len, blocks)), 10 + len(drive_names)))
    D[:, :10] = np.vstack(blocks)
    if f"Ia{j}" in drive_names:
        D[0, 10] = 1.0
    if f"off{j}" in drive_names:  # torque = -g . felt + off, in units of |g|
        D[1 : 1 + len(G), 10 + drive_names.index(f"off{j}")] = -reach.G[:, 3]
    at = 1 + len(G) + len(V) + len(steady)
    for i, rows in reach.E.items():
        for name, weight in coupled_inertias[i].items():
            if name in drive_names:
                D[at : at + len(rows), 10 + drive_names.index(name)] = weight * rows[:, 6]
        at += len(rows)
    return D, drive_names


def _coupled_inertia(robot: Robot, i: int, j: int, length: float) -> dict[str, float]:
    """Return what element (i, j), i != j, of the inertia matrix owes to coupled motors, by their inertia's name."""
    arm = _arms(robot, length)
    inertias = {}
    for coupling in robot.coupling:
        if i in coupling.weights and j in coupling.weights:
            name = f"{'Iam' if coupling.independent_inertia else 'Ia'}{coupling.motor}"
            unit = arm[coupling.motor - 1] ** 2 / (arm[i - 1] * arm[j - 1])
            inertias[name] = coupling.weights[i] * coupling.weights[j] * unit
    return inertias


def _arms(robot: Robot, length: float) -> list[float]:
    """Return the unit of length that turns a joint's force unit into that of its effort: 1 for a prismatic joint."""
    return [length if joint.sigma == REVOLUTE else 1.0 for joint in robot.joints]


def _composites(robot: Robot, A: Array) -> Array:
    """Return the composite bodies at q = 0, rows over all links' ten parameters, shape (n, 10, 10 n)."""
    composite = np.zeros((robot.n, 10, 10 * robot.n))
    for j in range(robot.n - 1, -1, -1):
        composite[j, :, 10 * j : 10 * j + 10] = np.eye(10)
        parent = robot.joints[j].parent
        if parent:
            composite[parent - 1] += A[j] @ composite[j]
    return composite


def _drive_rows(robot: Robot, column: dict[str, int], length: float) -> Array:
    """Return the rows of friction, and of motors that couple joints of different branches.

    Each Fv and Fc stands alone. Fvm of a motor weighs c_i c_j at every pair of its joints; Fcm goes with the sign of
    the motor's own speed, so two motors share it only if they turn alike.
    """
    arm = _arms(robot, length)
    rows = []
    for name, k in column.items():
        if name[:2] in ("Fv", "Fc") and name[2] != "m":
            rows.append({k: 1.0})
    ancestors = _ancestors(robot)
    pairs = sorted({(i, j) for c in robot.coupling for i in c.weights for j in c.weights if i < j})
    for i, j in pairs:
        motors = [c for c in robot.coupling if i in c.weights and j in c.weights]
        friction = {f"Fvm{c.motor}": c.weights[i] * c.weights[j] * arm[c.motor - 1] ** 2 for c in motors}
        rows.append({column[name]: weight for name, weight in friction.items() if name in column})
        if i not in ancestors[j]:
            inertia = _coupled_inertia(robot, i, j, length)
            rows.append({column[name]: weight for name, weight in inertia.items() if name in column})
    directions: dict[tuple[tuple[int, float], ...], dict[int, float]] = {}
    for c in robot.coupling:
        size = float(np.linalg.norm(list(c.weights.values())))
        first = c.weights[min(c.weights)]
        key = tuple((j, round(c.weights[j] / (size * np.sign(first)), 12)) for j in sorted(c.weights))
        if f"Fcm{c.motor}" in column:
            directions.setdefault(key, {})[column[f"Fcm{c.motor}"]] = size * arm[c.motor - 1]
    B = np.zeros((len(rows) + len(directions), len(column)))
    for k, row in enumerate([*rows, *directions.values()]):
        B[k, list(row)] = list(row.values())
    return B


def _ancestors(robot: Robot) -> list[set[int]]:
    """Return for every joint number the numbers of the joints before it (entry 0 is the base's)."""
    before: list[set[int]] = [set()]
    for joint in robot.joints:
        before.append(before[joint.parent] | ({joint.parent} if joint.parent else set()))
    return before
