# SPDX-License-Identifier: Apache-2.0

"""What the links of a tree robot can attain: the spans of their twists, of gravity and of their kinetic energies.

Outwards from the base, a joint turns these spans about z_j or shifts them along it, and adds its own twist. All that a
vector becomes under exp(q A) spans the same as x, A x, A^2 x and so on, so a few powers close a span exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dgesdd

from ros2_dynid.base_parameters.transfer import DRIFT, FLOW, SPATIAL_INERTIA, twists_to_child
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

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
