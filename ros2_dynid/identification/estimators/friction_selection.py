"""Which friction terms a recording supports: a term joins a joint's law only if it helps on data left out.

Everything is computed from the R factors that hold the columns of all candidates. The blocks of time are put into
folds; a law is judged by the weighted squared error of each fold under the fit to the others. Terms are added one at a
time, the best first, while the gain on the folds exceeds its own scatter and is worth having at its joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.identification.estimators.information import Information, block_folds
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array

FOLDS = 10
"""Each fit leaves out a tenth: with fewer folds, what is left of a short recording does not show the inertias."""
SCATTER = 1.0
"""A term must gain more than this many standard errors of its gain over the folds ..."""
WORTH = 0.1
"""... and lower the squared held-out error by this share of its joint's: 5 % of the error itself."""
RIDGE = 1e-12
"""Added to the scaled normal equations, which only compare laws: the estimate comes from orthogonal factors."""


@dataclass(frozen=True)
class Trial:
    """A term tried: gain in squared held-out error as a share of its joint's, its scatter over folds, and whether it
    joined the law."""

    name: str
    joint: int
    kind: FrictionKind
    speed: float
    gain: float
    scatter: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class Selection:
    """Numbers of the chosen terms among the candidates, and what was tried: of every round the best, and the last."""

    chosen: tuple[int, ...]
    trials: tuple[Trial, ...]


def select_terms(
    information: Information, terms: Sequence[FrictionTerm], sigma: Array, *, force: bool = False
) -> Selection:
    """Return the terms whose columns help on blocks left out; sigma: error of each joint under plain friction (n,).

    force: take a term of every kind that there is for a joint, with its best speed, unless its sign is impossible.
    """
    layout = information.layout
    first = layout.friction.start
    fixed = [k for k in range(layout.size) if not first <= k < layout.friction.stop]
    joint_of = _own_joints(information, len(terms))
    folds = block_folds(information, FOLDS)
    if len(folds) < 3 or not terms:
        return Selection((), ())
    squares = _normal_equations(information, folds)
    weights = 1.0 / sigma**2
    chosen: list[int] = []
    trials: list[Trial] = []
    while True:
        total = np.einsum("fjab,j->fab", squares, weights)
        used = [*fixed, *(first + k for k in chosen)]
        free = [k for k in range(len(terms)) if _may_join(terms, chosen, k)]
        if not free:
            break
        joints = [joint_of[k] for k in free]
        own, gains, coefficients = _gains(total, squares, weights, used, [first + k for k in free], joints)
        scatter = gains.std(axis=0, ddof=1) * np.sqrt(len(folds))
        gain = gains.sum(axis=0)
        share = gain / own
        allowed = np.array([c > 0 or not terms[k].kind.positive for k, c in zip(free, coefficients, strict=True)])
        good = allowed & (force | ((gain > SCATTER * scatter) & (share > WORTH)))
        best = int(np.argmax(np.where(good if good.any() else allowed, gain, -np.inf)))
        term = terms[free[best]]
        join = bool(good[best])
        figures = float(share[best]), float(scatter[best] / own[best])
        trials.append(Trial(term.name, term.joint, term.kind, term.speed, *figures, join))
        if not join:
            break
        chosen.append(free[best])
        weights = _weights(squares, [*fixed, *(first + k for k in chosen)], weights, information)
    return Selection(tuple(sorted(chosen)), tuple(trials))


def _may_join(terms: Sequence[FrictionTerm], chosen: Sequence[int], k: int) -> bool:
    """Return whether a term may still join: each kind once for a joint."""
    return all(terms[c].joint != terms[k].joint or terms[c].kind is not terms[k].kind for c in chosen)


def _own_joints(information: Information, count: int) -> list[int]:
    """Return the place of the joint that feels each term."""
    first = information.layout.friction.start
    return [next(j for j, columns in enumerate(information.columns) if first + k in columns) for k in range(count)]


def _normal_equations(information: Information, folds: Sequence[Sequence[int]]) -> Array:
    """Return [W tau]^T [W tau] of each fold and joint, shape (folds, n, size + 1, size + 1)."""
    D = information.size + 1
    out = np.zeros((len(folds), information.n, D, D))
    for f, fold in enumerate(folds):
        for j, columns in enumerate(information.columns):
            places = np.append(columns, D - 1)
            R = np.vstack([information.blocks[b].R[j] for b in fold])
            out[f, j][np.ix_(places, places)] = R.T @ R
    return out


def _gains(
    total: Array, squares: Array, weights: Array, used: Sequence[int], more: Sequence[int], joints: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Return the held-out squared error of each candidate's joint (more,), the gains by fold (folds, more), and the
    candidates' coefficients (more,) in the fit to everything.

    One factorisation a fold serves all candidates: a column c joins by its Schur complement.
    """
    F, D = len(total), total.shape[1]
    used_, more_ = np.array(used), np.array(more)
    everything = total.sum(axis=0)
    scale = np.sqrt(np.maximum(np.diag(everything), 1e-300))
    gains = np.empty((F, len(more)))
    per_joint = np.zeros(squares.shape[1])
    for f in range(F):
        x, X, c = _joined(everything - total[f], used_, more_, scale)
        base = np.zeros(D)
        base[used_], base[-1] = x, -1.0
        per_joint += weights * np.einsum("a,jab,b->j", base, squares[f], base)
        V = np.zeros((D, len(more)))
        V[used_] = x[:, None] - X * c
        V[-1] = -1.0
        V[more_, np.arange(len(more))] = c
        gains[f] = base @ total[f] @ base - np.einsum("am,am->m", V, total[f] @ V)
    own = np.maximum(per_joint[list(joints)], 1e-300)
    return own, gains, _joined(everything, used_, more_, scale)[2]


def _joined(A: Array, used: Array, more: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return x (u,) of the columns used, X = A_uu^-1 A_um (u, m), and the coefficient of each further column (m,)."""
    S = A / np.outer(scale, scale)
    core = S[np.ix_(used, used)] + RIDGE * np.eye(len(used))
    solved = np.linalg.solve(core, np.column_stack((S[used, -1], S[np.ix_(used, more)])))
    x, X = solved[:, 0], solved[:, 1:]
    left = np.diag(S[np.ix_(more, more)]) - np.einsum("um,um->m", S[np.ix_(used, more)], X)
    right = S[more, -1] - S[np.ix_(used, more)].T @ x
    c = np.where(left > 1e-9, right / np.where(left > 1e-9, left, 1.0), 0.0)
    unit = scale[-1]
    return x * unit / scale[used], X * (scale[more] / scale[used][:, None]), c * unit / scale[more]


def _weights(squares: Array, used: Sequence[int], weights: Array, information: Information) -> Array:
    """Return 1 / variance of each joint's error under the present law, shape (n,)."""
    every = squares.sum(axis=0)
    total = np.einsum("jab,j->ab", every, weights)
    places = np.array(used)
    scale = np.sqrt(np.maximum(np.diag(total), 1e-300))
    x, _, _ = _joined(total, places, places[:0], scale)
    value = np.zeros(total.shape[0])
    value[places], value[-1] = x, -1.0
    errors = np.einsum("a,jab,b->j", value, every, value)
    return np.asarray(information.rows / np.maximum(errors, 1e-300))
