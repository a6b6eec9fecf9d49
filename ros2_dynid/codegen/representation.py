# SPDX-License-Identifier: Apache-2.0

"""Which constants the generated code uses: any that give the same torque for every motion will do.

The recursions use *slots*: second moments E11 ... E33 (E = tr(J)/2 - J), first moments, masses, rotor inertias and
friction. Adding a null vector v of the regressor (W v = 0) to the slots changes no torque, so slots that cost much can
be traded for slots that cost little: a mass on a joint's axis can be counted to the link before, and so on. One choice
is a matrix X: slots = X parameters, where the parameters are the base (or the essential) ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.newton_euler_expressions import LINK_SLOTS
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.model.parameters import JOINT, group_of, split_name, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

_DEPENDENCE_TOLERANCE = 1e-9
"""What remains of a column, relative to it, below which it counts as dependent, to be confirmed."""
_ZERO_TOLERANCE = 1e-13
"""Size of a column, relative to the largest, below which the slot has no effect."""
_NULL_TOLERANCE = 1e-12
"""How well a null vector must hold, relative to its largest part."""
MAX_GROWTH = 1e3
"""An exchange that blows the constants up by more than this would cost digits."""
Slot = tuple[str, int]
"""Kind and joint number, such as ("E11", 3) or ("Fv", 2)."""


@dataclass(frozen=True, eq=False)
class Space:
    """The slots of a robot with their regressor columns at random motions, and the null vectors among them."""

    slots: tuple[Slot, ...]
    from_standard: Array
    """slots = from_standard chi."""
    W: Array
    null: tuple[Array, ...]


def slots_of(robot: Robot) -> tuple[Slot, ...]:
    """Return all slots of the robot, in the order of the standard parameters they stand for."""
    slots: list[Slot] = []
    for j in range(1, robot.n + 1):
        slots += [(kind, j) for kind in (*LINK_SLOTS, "Ia", "Fv", "Fc", "off")]
    return tuple(slots + [split_name(name) for name in standard_names(robot)[JOINT * robot.n :]])


def to_slots(robot: Robot) -> Array:
    """Return the square matrix S with slots = S chi: E = tr(J)/2 - J for the second moments, else the identity."""
    S = np.eye(len(standard_names(robot)))
    block = np.zeros((6, 6))  # E11 E12 E13 E22 E23 E33 from XX XY XZ YY YZ ZZ
    block[0, [0, 3, 5]] = -0.5, 0.5, 0.5
    block[3, [0, 3, 5]] = 0.5, -0.5, 0.5
    block[5, [0, 3, 5]] = 0.5, 0.5, -0.5
    block[1, 1] = block[2, 2] = block[4, 4] = -1.0
    for j in range(robot.n):
        S[JOINT * j : JOINT * j + 6, JOINT * j : JOINT * j + 6] = block
    return S


def space_of(robot: Robot, seed: int = 0) -> Space:
    """Return the robot's slots, their columns at random motions, and sparse null vectors of these columns."""
    S = to_slots(robot)
    rng = np.random.default_rng(seed)
    n = len(robot.active)
    samples = -(-2 * len(S) // n)
    q = random_positions(robot, rng, samples, np.pi)
    dq, ddq = (rng.uniform(-np.pi, np.pi, (samples, n)) for _ in range(2))
    Y = regressor(robot, q, dq, ddq)
    W = Y.reshape(-1, Y.shape[2]) @ np.linalg.inv(S)
    # friction and offset get rows of their own: a weight on a vertical axis must not be taken for an offset, as gravity
    # and friction are outputs of different functions
    drive = np.array([group_of(name) in ("friction", "offset") for name in standard_names(robot)])
    # the triangle of a QR factorisation has the same dependences between columns, and fewer rows
    W = np.linalg.qr(np.vstack((np.where(drive, 0.0, W), np.where(drive, W, 0.0))))[1]
    slots = slots_of(robot)
    return Space(slots, S, W, tuple(_null_vectors(robot, slots, W)))


def _null_vectors(robot: Robot, slots: tuple[Slot, ...], W: Array) -> list[Array]:
    """Return vectors v with W v = 0: those of single joints, zero and equal columns, and a basis of all of them.

    The first are exact; what sampling found must hold to rounding, or it is left out.
    """
    size = np.linalg.norm(W, axis=0)
    unit = np.eye(len(slots))
    candidates = [*joint_null_vectors(robot, slots)]
    candidates += [unit[k] for k in np.flatnonzero(size <= _ZERO_TOLERANCE * size.max())]
    nonzero = np.flatnonzero(size > _ZERO_TOLERANCE * size.max())
    cosines = (W[:, nonzero] / size[nonzero]).T @ (W[:, nonzero] / size[nonzero])
    for a, b in zip(*np.nonzero(np.triu(np.abs(cosines) > 1.0 - 1e-9, 1)), strict=True):
        i, k = nonzero[a], nonzero[b]
        candidates.append(unit[i] - (W[:, i] @ W[:, k]) / size[k] ** 2 * unit[k])
    basis = independent(W, range(len(slots)))
    others = [k for k in nonzero if k not in set(basis)]
    beta = _coordinates(W[:, basis], W[:, others])
    for column, k in enumerate(others):
        v = unit[k].copy()
        v[basis] = -np.where(np.abs(beta[:, column]) > _DEPENDENCE_TOLERANCE, beta[:, column], 0.0)
        candidates.append(v)
    return [
        v
        for v in candidates
        if np.linalg.norm(W @ v) <= _NULL_TOLERANCE * max(np.abs(v * size).max(), _ZERO_TOLERANCE * size.max())
    ]


def joint_null_vectors(robot: Robot, slots: tuple[Slot, ...]) -> list[Array]:
    """Return what a joint cannot tell apart: moments on its axis (prismatic: any second moments), own or the parent's.

    The caller checks W v = 0, which couplings and loops may break.
    """
    index = {slot: k for k, slot in enumerate(slots)}
    vectors = []
    for j, joint in enumerate(robot.joints, start=1):
        if not joint.parent:
            continue
        ca, sa, cg, sg = np.cos(joint.alpha), np.sin(joint.alpha), np.cos(joint.gamma), np.sin(joint.gamma)
        ct, st = np.cos(joint.theta), np.sin(joint.theta)
        turn = np.array([[cg, -sg, 0], [sg, cg, 0], [0, 0, 1.0]]) @ np.array([[1.0, 0, 0], [0, ca, -sa], [0, sa, ca]])
        z = turn[:, 2]
        p = turn @ np.array([joint.d, 0.0, joint.r]) + np.array([0.0, 0.0, joint.b])
        moves: list[tuple[dict[str, float], Array, Array, float]] = []  # own slots, parent's E, first moments, mass
        if joint.sigma == PRISMATIC:
            R = turn @ np.array([[ct, -st, 0], [st, ct, 0], [0, 0, 1.0]])
            for kind in LINK_SLOTS[:6]:
                a, b = int(kind[1]) - 1, int(kind[2]) - 1
                E = np.zeros((3, 3))
                E[a, b] = E[b, a] = 1.0
                moves.append(({kind: 1.0}, R @ E @ R.T, np.zeros(3), 0.0))
        else:
            moves = [
                ({"E33": 1.0}, np.outer(z, z), np.zeros(3), 0.0),
                ({"MZ": 1.0}, np.outer(p, z) + np.outer(z, p), z, 0.0),
                ({"M": 1.0}, np.outer(p, p), p, 1.0),
            ]
        for own, E, m, mass in moves:
            v = np.zeros(len(slots))
            for kind, value in own.items():
                v[index[kind, j]] = value
            parent = (E[0, 0], E[0, 1], E[0, 2], E[1, 1], E[1, 2], E[2, 2], *m, mass)
            for kind, value in zip(LINK_SLOTS, parent, strict=True):
                v[index[kind, joint.parent]] = -value if abs(value) > 1e-14 else 0.0
            vectors.append(v)
    return vectors


def independent(W: Array, order: Iterable[int]) -> list[int]:
    """Return the columns of W, taken in `order`, that do not depend on those taken before."""
    Q = np.empty((W.shape[0], 0))
    basis: list[int] = []
    scale = np.linalg.norm(W, axis=0).max()
    for k in order:
        size = np.linalg.norm(W[:, k])
        if size <= _ZERO_TOLERANCE * scale:
            continue
        rest = W[:, k] / size
        for _ in range(2):  # twice is enough to be orthogonal
            rest = rest - Q @ (Q.T @ rest)
        if np.linalg.norm(rest) > _DEPENDENCE_TOLERANCE:
            Q = np.column_stack((Q, rest / np.linalg.norm(rest)))
            basis.append(k)
    return basis


def represent(space: Space, columns: Array, cost: Array) -> Array:
    """Return X with slots = X parameters: as few slots as needed, and those of low `cost`.

    columns: standard parameters for a unit of each parameter, shape (n_standard, P): chi = columns parameters.
    """
    exact = clean(space.from_standard @ columns)
    for v in reversed(space.null):
        k = int(np.flatnonzero(v).max())  # of the link that is farther out
        if exact[k].any():
            exact = eliminate_slot(exact, v, k)
    # taking columns by cost gives the cheapest set of independent ones; kept if no digits are lost on the way
    basis = independent(space.W, np.argsort(cost, kind="stable"))
    target = space.W @ (space.from_standard @ columns)
    X = np.zeros_like(exact)
    X[basis] = _coordinates(space.W[:, basis], target)
    X = np.where(np.abs(X) > _NULL_TOLERANCE * np.abs(X).max(axis=0, initial=0.0), X, 0.0)
    error = np.linalg.norm(space.W @ X - target, axis=0)
    is_exact = np.all(error <= _NULL_TOLERANCE * np.linalg.norm(target, axis=0))
    return X if is_exact and np.abs(X).max(initial=0.0) <= MAX_GROWTH * np.abs(exact).max(initial=0.0) else exact


def eliminate_slot(X: Array, v: Array, k: int) -> Array:
    """Return X with the null vector v added so that slot k becomes zero."""
    other = clean(X - np.outer(v / v[k], X[k]))
    other[k] = 0.0
    return other


def _coordinates(A: Array, B: Array) -> Array:
    """Return X with A X = B for independent columns of A that span B."""
    Q, R = np.linalg.qr(A)
    X = np.linalg.solve(R, Q.T @ B)
    return np.asarray(X + np.linalg.solve(R, Q.T @ (B - A @ X)))  # the second round takes away rounding of the first


def clean(X: Array) -> Array:
    """Return X with what is zero but for rounding set to zero."""
    return np.where(np.abs(X) > 1e-14 * np.abs(X).max(axis=0, initial=0.0), X, 0.0)
