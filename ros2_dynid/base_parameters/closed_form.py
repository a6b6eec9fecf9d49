# SPDX-License-Identifier: Apache-2.0

"""Base parameters in closed form: exact coefficients from the geometry of a tree robot, without sampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.numeric import by_qr, in_column_order, natural_units
from ros2_dynid.base_parameters.reach import (
    FLOW,
    SPATIAL_INERTIA,
    RankMargin,
    Reach,
    placements,
    reaches,
    span,
    transfer_matrix,
    units,
)
from ros2_dynid.base_parameters.result import BaseParameters, build, si_coefficients
from ros2_dynid.errors import InputError, Option, Text
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


TOLERANCE = 1e-10
CLEAR_GAP = 1e3
"""Ratio of the smallest pivot kept to the largest one dropped below which the number of base parameters is doubtful."""


def closed_form(
    robot: Robot,
    names: Sequence[str],
    order: Sequence[int],
    *,
    source: str = "torque",
    tilting_base: bool = False,
    tolerance: float | None = None,
) -> BaseParameters:
    """Return the base parameters of a serial or tree robot over the standard parameters named, taken in `order`.

    tolerance: relative size below which a singular value or pivot counts as zero.
    """
    tolerance = TOLERANCE if tolerance is None else tolerance
    length, gravity = natural_units(robot)
    size = units(robot, tuple(names), length, gravity)
    B, margin = identifiable_rows(robot, tuple(names), length=length, tilting_base=tilting_base, tolerance=tolerance)
    dependence = in_column_order(by_qr(B[:, list(order)], tolerance), order)
    kept, dropped = min(dependence.kept, margin.kept), max(dependence.dropped, margin.dropped)
    beta = si_coefficients(dependence, size, kept)
    gap = kept / dropped if dropped > 0.0 else np.inf
    warnings = rank_warnings(kept, dropped, dependence.doubt)
    return build(names, dependence.leaders, beta, source=source, method="closed-form", gap=gap, warnings=warnings)


def rank_warnings(kept: float, dropped: float, doubt: str | None = None) -> list[str]:
    """Return warnings if the smallest relative pivot kept and the largest one dropped are not far apart.

    doubt: of the factorisation itself, if it has one.
    """
    return [*_gap_warnings(kept, dropped), *([Text(f"{doubt}; set ", Option("tolerance"))] if doubt else [])]


def _gap_warnings(kept: float, dropped: float) -> list[str]:
    if dropped > 0.0 and kept / dropped < CLEAR_GAP:
        return [
            Text(
                f"the count is not clear-cut: {kept:.1e} was kept and {dropped:.1e} dropped; "
                "check the robot's geometry for axes that are almost parallel, or set ",
                Option("tolerance"),
            )
        ]
    if kept < 1e-6:
        return [
            Text(
                f"a base parameter hangs on a misalignment of only {kept:.1e}; "
                "if the axes are meant to be aligned, correct the geometry or set a higher ",
                Option("tolerance"),
            )
        ]
    return []
