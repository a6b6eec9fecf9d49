"""What the torques of a tree robot can tell of its parameters, exactly and without sampling.

Take the composite body of link j: link j and all that it carries, moved into frame j at q = 0. Let the rows of D_j be
what is felt of it: what changes the torque of joint j, or the energy that the links before feel as q_j varies. A change
of parameters is invisible if and only if D_j (composite change of link j) = 0 for every joint j: an invisible change of
the last link acts as a constant change of the link before, and so on inwards. So the number of base parameters is the
sum of the ranks of D_j, and the rows D_j (composite of j), over all standard parameters, span what is identifiable.

D_j follows from the motions that link j can attain, outwards from the base: the span V of its twists, the span G of the
directions of gravity, and the span F of the kinetic energies it can have, all seen from frame j. A joint turns these
spans about z_j or shifts them along it; all that a vector becomes under exp(q A) spans the same as x, A x, A^2 x and
so on, so a few powers close it exactly. (A recursion outwards over such spans is the idea of Wensing, Niemeyer and
Slotine, "Observability in inertial parameter identification"; offset, rotors, couplings and friction are added here.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.base_parameters.transfer import DRIFT, FELT, FLOW, moved, placements, twists_to_child
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

TWIST_POWERS, ENERGY_POWERS = (3, 2), (5, 3)
"""Powers of the joint's operator after which the span of a twist, or of an energy, is closed, by sigma."""
SPIN = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


@dataclass
class Clarity:
    """How clear-cut the decisions of rank were: smallest singular value kept, largest one dropped, both relative."""

    kept: float = 1.0
    dropped: float = 0.0

    @property
    def gap(self) -> float:
        """Return kept over dropped; infinite if nothing was dropped but exact zeros."""
        return self.kept / self.dropped if self.dropped > 0.0 else np.inf


@dataclass(frozen=True)
class Reach:
    """What a link can attain, in its own frame: spans as orthonormal rows.

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
        """Return all attainable twists, shape (k, 6), not orthonormal."""
        return np.vstack((self.V, *(E[:, :6] for E in self.E.values())))


def span(rows: Array, tolerance: float, clarity: Clarity) -> Array:
    """Return orthonormal rows that span the rows given, singular values below tolerance times the largest left out."""
    if not len(rows):
        return rows
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    if s[0] == 0.0:
        return rows[:0]
    s = s / s[0]
    rank = int(np.count_nonzero(s > tolerance))
    clarity.kept = min(clarity.kept, float(s[rank - 1]))
    if rank < len(s):
        clarity.dropped = max(clarity.dropped, float(s[rank]))
    return np.asarray(Vt[:rank]) if rank < rows.shape[1] else np.eye(rank)


def _is_all(rows: Array) -> bool:
    """Return whether independent rows span the whole space: links far out attain all, and nothing adds to that."""
    return bool(len(rows) == rows.shape[1])


def _closed(rows: Array, operator: Array, powers: int) -> Array:
    """Return x, x A, x A^2 ... stacked: they span all x exp(q A)."""
    stack = [rows]
    for _ in range(powers - 1):
        stack.append(stack[-1] @ operator)
    return np.vstack(stack)


def _joined(all_or_part: Array, more: Array, tolerance: float, clarity: Clarity) -> Array:
    """Return the span of both."""
    return all_or_part if _is_all(all_or_part) else span(np.vstack((all_or_part, more)), tolerance, clarity)


def _with_constant(operator: Array) -> Array:
    """Return the operator with a further coordinate that it leaves alone."""
    size = len(operator)
    bordered = np.zeros((size + 1, size + 1))
    bordered[:size, :size] = operator
    return bordered


_SPIN_1, _DRIFT_1 = _with_constant(SPIN), (_with_constant(DRIFT[0]), _with_constant(DRIFT[1]))


def gravity_reach(robot: Robot, tilting_base: bool) -> Array:
    """Return the span of (g, 1) in frame 0 in units of |g|, shape (k, 4): all of it if the base tilts."""
    g = robot.base[:3, :3].T @ robot.gravity
    size = float(np.linalg.norm(g))
    if tilting_base and size > 0.0:
        return np.eye(4)
    return np.append(g / size if size > 0.0 else g, 1.0)[None]


def reaches(robot: Robot, T: Array, A: Array, tilting_base: bool, tolerance: float, clarity: Clarity) -> list[Reach]:
    """Return the reach of links 1 to n before their own joint's twist is added, for placements T and transfers A."""
    coupled = {j for coupling in robot.coupling for j in coupling.weights}
    base = Reach(np.zeros((0, 6)), gravity_reach(robot, tilting_base), np.zeros((0, 10)))
    links = [base]  # after their own joint's twist is added
    before = []
    for j, joint in enumerate(robot.joints, start=1):
        parent, s = links[joint.parent], joint.sigma
        V, F, G = parent.V, parent.F, parent.G
        if not _is_all(V):
            V = span(_closed(twists_to_child(T[j - 1], V), DRIFT[s], TWIST_POWERS[s]), tolerance, clarity)
        if not _is_all(F):
            F = span(_closed(F @ A[j - 1], FLOW[s], ENERGY_POWERS[s]), tolerance, clarity)
        if not _is_all(G):
            G = np.hstack((G[:, :3] @ T[j - 1, :3, :3], G[:, 3:]))
            G = span(_closed(G, _SPIN_1, 3), tolerance, clarity) if s == REVOLUTE else G
        E = {}
        for i, rows in parent.E.items():
            here = np.hstack((twists_to_child(T[j - 1], rows[:, :6]), rows[:, 6:]))
            E[i] = span(_closed(here, _DRIFT_1[s], TWIST_POWERS[s]), tolerance, clarity)
        reach = Reach(V, G, F, E)
        before.append(reach)
        own = np.zeros((1, 7))
        own[0, 2 + 3 * s] = own[0, 6] = 1.0
        if j in coupled:
            after = Reach(V, G, F, {**E, j: own})
        else:
            after = Reach(_joined(V, own[:, :6], tolerance, clarity), G, F, E)
        felt = after.twists @ FELT[2 + 3 * s]
        links.append(Reach(after.V, G, _joined(F, felt, tolerance, clarity), after.E))
    return before


def observed(
    robot: Robot,
    names: tuple[str, ...],
    *,
    length: float = 1.0,
    tilting_base: bool = False,
    tolerance: float = 1e-10,
) -> tuple[Array, Clarity]:
    """Return B, shape (rows, len(names)), whose rows span the identifiable combinations of the parameters named.

    names: standard parameters taken part in, in the order of chi; those left out count as known. B refers to
    parameters in units of `length` [m] and |g| (transfer.units). Its null space is that of the torque regressor.
    """
    if robot.passive:
        raise InputError("closed loops have no exact recursion", "use a numerical method: qr or svd", robot.name)
    clarity = Clarity()
    T = placements(robot, length)
    A = moved(T)
    column = {name: k for k, name in enumerate(names)}
    composite = _composites(robot, A)
    blocks = []
    for j, reach in enumerate(reaches(robot, T, A, tilting_base, tolerance, clarity), start=1):
        D, drive = _felt_at(robot, j, length, reach, column)
        rows = span(D, tolerance, clarity)
        block = np.zeros((len(rows), len(column)))
        block[:, [column[name] for name in drive]] = rows[:, 10:]
        if "XX1" in column:
            for k, transfer in composite[j].items():
                first = column[f"XX{k}"]
                block[:, first : first + 10] = rows[:, :10] @ transfer
        blocks.append(block)
    return np.vstack((*blocks, _drive_rows(robot, column, length))), clarity


def _felt_at(robot: Robot, j: int, length: float, reach: Reach, column: dict[str, int]) -> tuple[Array, list[str]]:
    """Return D_j as rows over the composite body's ten parameters, then over drive parameters, and those' names."""
    s = robot.joints[j - 1].sigma
    feels = FELT[2 + 3 * s]
    V, G = reach.V @ feels, reach.G[:, :3] @ feels[3:6]
    steady = reach.F @ FLOW[s]  # energies that the links before feel must not change with q_j
    own = feels[2 + 3 * s][None]
    shares = {i: _coupled_inertia(robot, i, j, length) for i in reach.E}
    drive = [f"Ia{j}", f"off{j}", *(name for share in shares.values() for name in share)]
    drive = [name for name in dict.fromkeys(drive) if name in column]
    blocks = [own, G, V, steady, *(rows[:, :6] @ feels for rows in reach.E.values())]
    D = np.zeros((sum(map(len, blocks)), 10 + len(drive)))
    if "XX1" in column:
        D[:, :10] = np.vstack(blocks)
    if f"Ia{j}" in drive:
        D[0, 10] = 1.0
    if f"off{j}" in drive:  # torque = -g . felt + off, in units of |g|
        D[1 : 1 + len(G), 10 + drive.index(f"off{j}")] = -reach.G[:, 3]
    at = 1 + len(G) + len(V) + len(steady)
    for i, rows in reach.E.items():
        for name, weight in shares[i].items():
            if name in drive:
                D[at : at + len(rows), 10 + drive.index(name)] = weight * rows[:, 6]
        at += len(rows)
    return D, drive


def _coupled_inertia(robot: Robot, i: int, j: int, length: float) -> dict[str, float]:
    """Return what element (i, j), i != j, of the inertia matrix owes to coupled motors, by their inertia's name."""
    arm = [length if joint.sigma == REVOLUTE else 1.0 for joint in robot.joints]
    shares = {}
    for coupling in robot.coupling:
        if i in coupling.weights and j in coupling.weights:
            name = f"{'Iam' if coupling.independent_inertia else 'Ia'}{coupling.motor}"
            unit = arm[coupling.motor - 1] ** 2 / (arm[i - 1] * arm[j - 1])
            shares[name] = coupling.weights[i] * coupling.weights[j] * unit
    return shares


def _composites(robot: Robot, A: Array) -> list[dict[int, Array]]:
    """Return for every link j the transfers (10, 10) of the links that it carries into frame j at q = 0, by number."""
    composite: list[dict[int, Array]] = [{} for _ in range(robot.n + 1)]
    for j in range(robot.n, 0, -1):
        composite[j][j] = np.eye(10)
        parent = robot.joints[j - 1].parent
        if parent:
            composite[parent].update({k: A[j - 1] @ transfer for k, transfer in composite[j].items()})
    return composite


def _drive_rows(robot: Robot, column: dict[str, int], length: float) -> Array:
    """Return the rows of friction, and of motors that couple joints of different branches.

    Each Fv and Fc stands alone. Fvm of a motor weighs c_i c_j at every pair of its joints; Fcm goes with the sign of
    the motor's own speed, so two motors share it only if they turn alike.
    """
    rows = []
    for name, k in column.items():
        if name[:2] in ("Fv", "Fc") and name[2] != "m":
            rows.append({k: 1.0})
    ancestors = _ancestors(robot)
    pairs = sorted({(i, j) for c in robot.coupling for i in c.weights for j in c.weights if i < j})
    for i, j in pairs:
        sharing = [c for c in robot.coupling if i in c.weights and j in c.weights]
        friction = {f"Fvm{c.motor}": c.weights[i] * c.weights[j] for c in sharing}
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
            directions.setdefault(key, {})[column[f"Fcm{c.motor}"]] = size
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
