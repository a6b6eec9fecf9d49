# SPDX-License-Identifier: Apache-2.0

"""Base parameters in closed form: exact coefficients from the geometry of a tree robot, without sampling.

With the pseudo-inertia P = [[tr(J)/2 I - J, m], [m^T, M]] (4, 4) of a link and the homogeneous transform T of its frame
in another one, P becomes T P T^T there, and two twists U, V of the link, as 4x4 matrices, give U . I V = tr(U P V^T).

What links can attain are spans: of their twists, of gravity and of their kinetic energies. Outwards from the base, a
joint turns these spans about z_j or shifts them along it, and adds its own twist. All that a vector becomes under exp(q
A) spans the same as x, A x, A^2 x and so on, so a few powers close a span exactly.

Take the composite body of link j: link j and all that it carries, moved into frame j at q = 0. Let the rows of D_j be
what is felt of it: what changes the torque of joint j, or the energy that the links before feel as q_j varies. A change
of parameters is invisible if and only if D_j (composite change of link j) = 0 for every joint j: an invisible change of
the last link acts as a constant change of the link before, and so on inwards. So the number of base parameters is the
sum of the ranks of D_j, and the rows D_j (composite of j), over all standard parameters, span what is identifiable.

D_j follows from the motions that the link before can attain, so no sampling is needed. Wensing, Niemeyer and
Slotine ("Observability in inertial parameter identification") have the recursion for links; offset, rotors, couplings
and friction are added here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dgesdd

from ros2_dynid.base_parameters.numeric import by_qr, in_column_order, natural_units
from ros2_dynid.base_parameters.result import BaseParameters, build, si_coefficients
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.forces import SYMBOLS
from ros2_dynid.model.parameters import FIRST_MOMENT, INERTIA, LINK, split_name
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Array, Robot


def _unit_pseudo_inertias() -> Array:
    """Return P of a unit XX, XY, ... M, shape (10, 4, 4)."""
    P = np.zeros((10, 4, 4))
    for k, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        J = np.zeros((3, 3))
        J[a, b] = J[b, a] = 1.0
        P[k, :3, :3] = 0.5 * np.trace(J) * np.eye(3) - J
    for k in range(3):
        P[6 + k, k, 3] = P[6 + k, 3, k] = 1.0
    P[9, 3, 3] = 1.0
    return P


def _parameter_reader() -> Array:
    """Return the matrix (16, 10) that reads the ten parameters from a flattened P: J = tr(S) I - S."""
    read = np.zeros((4, 4, 10))
    for k, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        read[a, b, k] -= 1.0
        if a == b:
            read[range(3), range(3), k] += 1.0
    for k in range(3):
        read[k, 3, 6 + k] = 1.0
    read[3, 3, 9] = 1.0
    return read.reshape(16, 10)


def _twist_matrices() -> Array:
    """Return the 4x4 matrices of the unit twists (w_x w_y w_z v_x v_y v_z), shape (6, 4, 4)."""
    X = np.zeros((6, 4, 4))
    for k, (a, b) in enumerate(((2, 1), (0, 2), (1, 0))):
        X[k, a, b], X[k, b, a] = 1.0, -1.0
        X[3 + k, k, 3] = 1.0
    return X


UNIT, PARAMETER_READER, TWIST = _unit_pseudo_inertias(), _parameter_reader(), _twist_matrices()
SPATIAL_INERTIA: Array = np.einsum("aij,kjl,bil->abk", TWIST, UNIT, TWIST)
"""FELT[a, b] . chi = e_a . I(chi) e_b: the spatial inertia's elements as rows over the ten parameters (6, 6, 10)."""
AXIS = (TWIST[2], TWIST[5])
"""The twist of a joint in its own frame, by sigma: a turn about z, a shift along z."""


def _flow(X: Array) -> Array:
    """Return d/dq, shape (10, 10), of the ten parameters moved along the twist X: chi(q) = exp(q flow) chi."""
    return np.asarray(((X @ UNIT + UNIT @ X.T).reshape(10, 16) @ PARAMETER_READER).T)


def _drift(X: Array) -> Array:
    """Return the Lie brackets of the twist X with the unit twists as rows, shape (6, 6)."""
    brackets = X @ TWIST - TWIST @ X
    return np.stack([brackets[:, a, b] for a, b in ((2, 1), (0, 2), (1, 0), (0, 3), (1, 3), (2, 3))], axis=1)


FLOW = (_flow(AXIS[0]), _flow(AXIS[1]))
DRIFT = (_drift(AXIS[0]), _drift(AXIS[1]))
"""How parameters, and twists seen from the link, change along a revolute and along a prismatic joint."""


def placements(robot: Robot, length: float = 1.0) -> Array:
    """Return the transforms a(j) -> j at q = 0, shape (n, 4, 4), lengths in units of `length` [m]."""
    table = np.array([(j.gamma, j.alpha, j.theta, j.b, j.d, j.r) for j in robot.joints]).T
    (cg, ca, ct), (sg, sa, st) = _cos_sin(table[:3])
    b, d, r = table[3:] / length
    T = np.zeros((4, 4, robot.n))
    T[0] = cg * ct - sg * ca * st, -cg * st - sg * ca * ct, sg * sa, cg * d + sg * sa * r
    T[1] = sg * ct + cg * ca * st, -sg * st + cg * ca * ct, -cg * sa, sg * d - cg * sa * r
    T[2] = sa * st, sa * ct, ca, b + ca * r
    T[3, 3] = 1.0
    return np.ascontiguousarray(T.transpose(2, 0, 1))


def _cos_sin(angle: Array) -> tuple[Array, Array]:
    """Return cosines and sines, exact at multiples of pi/2, where rounding errors would hide that axes are aligned."""
    quarters = angle / (np.pi / 2)
    nearest = np.round(quarters)
    exact = np.abs(quarters - nearest) < 1e-14 * np.maximum(1.0, np.abs(quarters))
    step = nearest.astype(int) % 4
    c = np.where(exact, np.array([1.0, 0.0, -1.0, 0.0])[step], np.cos(angle))
    s = np.where(exact, np.array([0.0, 1.0, 0.0, -1.0])[step], np.sin(angle))
    return c, s


def transfer_matrix(T: Array) -> Array:
    """Return A, shape (..., 10, 10): the parameters given in a frame placed at T are A chi in the frame T refers to."""
    P = T[..., None, :, :] @ UNIT @ np.swapaxes(T, -1, -2)[..., None, :, :]
    return np.swapaxes(P.reshape(*P.shape[:-2], 16) @ PARAMETER_READER, -1, -2)


def twists_to_child(T: Array, V: Array) -> Array:
    """Return twists, rows (w, v) given in the frame that T refers to, as rows in the frame placed at T."""
    R, (x, y, z) = T[:3, :3], T[:3, 3]
    w, v = V[:, :3], V[:, 3:]
    arm = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])  # w @ arm = w x p
    return np.hstack((w @ R, (v + w @ arm) @ R))


def units(robot: Robot, names: tuple[str, ...], length: float, gravity: float) -> Array:
    """Return the size of each parameter when mass 1 kg, `length` [m] and `gravity` [m/s^2] are the units.

    In these units the columns of a regressor are of like size whatever the robot's own size; time is measured in
    sqrt(length / gravity).
    """
    second = np.sqrt(length / gravity)
    force = (gravity * length, gravity)
    drive: dict[str, tuple[float, float]] = {  # of a revolute joint, of a prismatic one
        **dict.fromkeys(("Ia", "Iam"), (length**2, 1.0)),
        **dict.fromkeys(("Fv", "Fvm"), (force[0] * second, force[1] * second / length)),
        **dict.fromkeys(("Fc", "Fcm", "off"), force),
    }
    link = {**dict.fromkeys(INERTIA, length**2), **dict.fromkeys(FIRST_MOMENT, length), "M": 1.0}
    size = np.empty(len(names))
    for k, name in enumerate(names):
        kind = name.rstrip("0123456789")
        if kind in SYMBOLS:
            element, power = robot.forces[int(name[len(kind) :]) - 1], SYMBOLS.index(kind)
            linear = bool(element.pivots) or robot.joints[min(element.weights) - 1].sigma == PRISMATIC
            size[k] = force[linear] / (length**power if linear else 1.0)
            continue
        size[k] = link[kind] if kind in link else drive[kind][robot.joints[int(name[len(kind) :]) - 1].sigma]
    return size


TWIST_POWERS, ENERGY_POWERS = (3, 2), (5, 3)
"""Powers of the joint's operator after which the span of a twist, or of an energy, is closed, by sigma."""
SPIN = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


@dataclass
class RankMargin:
    """How clear-cut the decisions of rank were: smallest singular value kept, largest one dropped, both relative."""

    kept: float = 1.0
    dropped: float = 0.0


@dataclass(frozen=True)
class Reach:
    """What a link can attain, in its own frame: rows that span it.

    V: twists (k, 6) of the joints before that no coupling names; G: directions of gravity with a constant 1 appended
    (k, 4); F: kinetic energies (k, 10), rows over the link's ten parameters; E: twists of coupled joints by number,
    with a constant 1 appended (k, 7). The constant tells what stays the same in every position from what does not.
    """

    V: Array
    G: Array
    F: Array
    E: dict[int, Array] = field(default_factory=dict)

    @property
    def twists(self) -> Array:
        """Return rows that span all attainable twists, shape (k, 6)."""
        return np.vstack((self.V, *(E[:, :6] for E in self.E.values()))) if self.E else self.V


def span(rows: Array, tolerance: float, margin: RankMargin) -> Array:
    """Return orthonormal rows that span the rows given, singular values below tolerance times the largest left out."""
    if not len(rows):
        return rows
    _, values, Vt, info = dgesdd(rows, full_matrices=0)  # many small ones: NumPy's way to it takes longer than it does
    if info:
        _, values, Vt = np.linalg.svd(rows, full_matrices=False)
    s = values.tolist()
    rank = sum(value > tolerance * s[0] for value in s)
    if rank == 0:
        return rows[:0]
    margin.kept = min(margin.kept, s[rank - 1] / s[0])
    if rank < len(s):
        margin.dropped = max(margin.dropped, s[rank] / s[0])
    return np.asarray(Vt[:rank]) if rank < rows.shape[1] else np.eye(rank)


def gravity_reach(robot: Robot, tilting_base: bool) -> Array:
    """Return the span of (g, 1) in frame 0 in units of |g|, shape (k, 4): all of it if the base tilts."""
    g = robot.base[:3, :3].T @ robot.gravity
    size = float(np.linalg.norm(g))
    if tilting_base and size > 0.0:
        return np.eye(4)
    return np.append(g / size if size > 0.0 else g, 1.0)[None]


def reaches(robot: Robot, T: Array, A: Array, tilting_base: bool, tolerance: float, margin: RankMargin) -> list[Reach]:
    """Return the reach of links 1 to n before their own joint's twist is added, for placements T and transfers A.

    T: transforms a(j) -> j at q = 0; A: the same for the ten parameters (transfer.moved).
    """
    coupled = {j for coupling in robot.coupling for j in coupling.weights}
    links = [Reach(np.zeros((0, 6)), gravity_reach(robot, tilting_base), np.zeros((0, 10)))]  # own twist added
    before = []
    for j, joint in enumerate(robot.joints, start=1):
        parent, s = links[joint.parent], joint.sigma
        V, F, G, E = parent.V, parent.F, parent.G, {}
        whole_V, whole_F = _is_all(V), _is_all(F)
        if not whole_V:
            V = close_span(twists_to_child(T[j - 1], V), DRIFT[s], TWIST_POWERS[s])
        if not whole_F:
            F = close_span(F @ A[j - 1], FLOW[s], ENERGY_POWERS[s])
        if not _is_all(G):
            G = np.hstack((G[:, :3] @ T[j - 1, :3, :3], G[:, 3:]))
            G = span(close_span(G, _SPIN_1, 3), tolerance, margin) if s == REVOLUTE else G
        for i, rows in parent.E.items():
            here = np.hstack((twists_to_child(T[j - 1], rows[:, :6]), rows[:, 6:]))
            E[i] = span(close_span(here, _DRIFT_1[s], TWIST_POWERS[s]), tolerance, margin)
        before.append(Reach(V, G, F, E))
        if j in coupled:
            V = V if whole_V else span(V, tolerance, margin)
            E = {**E, j: _OWN_1[s]}
        elif not whole_V:
            V = span(np.vstack((V, _OWN[s])), tolerance, margin)
        if not whole_F:
            energies = Reach(V, G, F, E).twists @ SPATIAL_INERTIA[2 + 3 * s]
            F = span(np.vstack((F, energies)), tolerance, margin)
        links.append(Reach(V, G, F, E))
    return before


def _is_all(rows: Array) -> bool:
    """Return whether independent rows span the whole space: links far out attain all, and nothing adds to that."""
    return bool(len(rows) == rows.shape[1])


def close_span(rows: Array, operator: Array, powers: int) -> Array:
    """Return x, x A, x A^2 ... stacked: they span all x exp(q A)."""
    stack = [rows]
    for _ in range(powers - 1):
        stack.append(stack[-1] @ operator)
    return np.vstack(stack)


def _with_constant(operator: Array) -> Array:
    """Return the operator with a further coordinate that it leaves alone."""
    size = len(operator)
    extended = np.zeros((size + 1, size + 1))
    extended[:size, :size] = operator
    return extended


_SPIN_1, _DRIFT_1 = _with_constant(SPIN), (_with_constant(DRIFT[0]), _with_constant(DRIFT[1]))
_OWN = (np.eye(6)[2:3], np.eye(6)[5:6])
_OWN_1 = (np.eye(7)[2:3] + np.eye(7)[6:7], np.eye(7)[5:6] + np.eye(7)[6:7])
"""The joint's own twist, without and with the constant, by sigma."""


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
    if robot.passive_joints:
        raise InputError("closed loops have no exact recursion", "use a numerical method: qr or svd", robot.name)
    margin = RankMargin()
    T = placements(robot, length)
    A = transfer_matrix(T)
    column = {name: k for k, name in enumerate(names)}
    composite = _composites(robot, A)
    links = [split_name(name) for name in names]
    inertial = [k for k, (kind, _) in enumerate(links) if kind in LINK]
    places = [len(LINK) * (links[k][1] - 1) + LINK.index(links[k][0]) for k in inertial]
    blocks = []
    for j, reach in enumerate(reaches(robot, T, A, tilting_base, tolerance, margin), start=1):
        D, drive_names = _effect_rows(robot, j, length, reach, column)
        rows = span(D, tolerance, margin)
        block = np.zeros((len(rows), len(column)))
        block[:, [column[name] for name in drive_names]] = rows[:, 10:]
        if len(inertial):
            block[:, inertial] = rows[:, :10] @ composite[j - 1][:, places]
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
                f"the number of base parameters is uncertain: a pivot of {kept:.1e} was kept, {dropped:.1e} dropped; "
                "check the robot's geometry for axes that are almost parallel, or set ",
                Option("tolerance"),
            )
        ]
    if kept < 1e-6:
        return [
            Text(
                f"a base parameter depends on a misalignment of only {kept:.1e}; "
                "if the axes are meant to be aligned, correct the geometry or set a higher ",
                Option("tolerance"),
            )
        ]
    return []
