# SPDX-License-Identifier: Apache-2.0

"""Which friction terms a recording supports: a law is taken only if it helps on data left out.

Everything is computed from the R factors that hold the columns of all candidates. The blocks of time, or of the period
where a motion repeats, are put into folds; a law is judged by the weighted squared error of each fold under the fit to
the others. The base parameters are eliminated from the normal equations of each fold once; what is left has one row and
column for each candidate, so that every law of a joint, a set of terms, costs one small system. A term with a shape,
such as the speed of a Stribeck term, is tried at a few shapes, each with the column of its change beside it, so that no
further term is taken for what the grid misses. Joint by joint, the laws of the others held, the best law of each size
is compared with the best smaller one, and is taken if it gains more than chance would and is worth having, and if it
also gains on recordings that are left out as a whole, where there are several. The joints are gone through again until
no law changes.

What chance does: d terms that mean nothing lower the errors that the fit sees by Q, in units of the variance of an
independent row, and those held out by Q - 2 d (Stone 1977: cross-validation is Akaike's criterion); that gain scatters
by about 2 sqrt(Q) over the folds. Q would be chi-squared with d degrees of freedom if the variance were known. It is
known from as many numbers as there are folds, so Q is d times Fisher's F, and of all the terms tried the luckiest
counts. So few folds, many candidates and short recordings ask for more. bench/study_friction.py shows what it does.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from ros2_dynid.identification.regression.error_bars import SIGNIFICANCE
from ros2_dynid.identification.regression.information import Information, block_folds
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array

RIDGE = 1e-12
"""Added to the scaled normal equations, which only compare laws: the estimate comes from orthogonal factors."""
LEAST_VARIANCE_SHARE = 1e-16
"""Least variance of a joint's error as a share of the largest."""


@dataclass(frozen=True)
class FrictionThresholds:
    """When a joint's law is taken, and when its refinement ends.

    folds: stretches of time that are left out in turn; with fewer than ten, what is left of a short recording does not
    show the inertias. chance: how often chance alone may add a term to a robot with plain friction, over all joints and
    terms together; kinds that take over forces which are not in the model ask for more (`evidence` in model/friction).
    alike: standard errors by which a doubtful law must be better than one of its size that was taken: one in ten by
    chance (Student, ten folds). gain: share of the joint's squared held-out error that each further term must take off,
    3.5 % of the error; what is linearised, shapes and load, is known no better. terms: of a joint's law, at most,
    beside those of the temperature; more cannot be told apart by one motion. shape_change: largest change of log vs, or
    of an exponent, from a shape on the grid, one and a quarter of its steps; a term that asks for more is another law.
    collinear: least share of a column's squared norm beyond the other columns of friction and links, and least
    determinant of a law's columns of unit norm; below, terms could cancel each other.

    significance: standard deviations that a coefficient of the finished law is from zero; at three, error bars hold the
    truth in 95 of 100 cases. chunks: of rows that a choice is made from, about; a quarter of an hour at the usual
    rates, and more do not change it. same_load: change of the load on the gears, as a share, that is none: what is left
    is a share of a share of the torque. same_shape: change of log vs, or of an exponent, that is none: its column
    accounts for the rest. slowest, fastest: range of a shape that is a speed, as shares of the top speed: beyond, it
    does not show. rounds: of shapes and loads, at most. sweeps: over the joints' laws, at most. temperature_change:
    least change of a drive's temperature [K] for its terms to be tried: drives tell theirs in whole degrees.
    """

    folds: int = 10
    chance: float = 0.05
    alike: float = 1.4
    gain: float = 0.07
    terms: int = 3
    shape_change: float = 0.6
    collinear: float = 1e-6
    significance: float = SIGNIFICANCE
    chunks: int = 60
    same_load: float = 0.02
    same_shape: float = 0.03
    slowest: float = 0.02
    fastest: float = 0.45
    rounds: int = 3
    sweeps: int = 4
    temperature_change: float = 2.0


DEFAULTS = FrictionThresholds()


@dataclass(frozen=True)
class Trial:
    """A law tried at a joint: gain in squared held-out error over the best smaller law, as a share of the joint's, its
    scatter over folds, and whether it was taken."""

    terms: tuple[FrictionTerm, ...]
    joint: int
    gain: float
    scatter: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class Selection:
    """Numbers of the chosen terms among the candidates, and what was tried: the best law of each size and joint."""

    chosen: tuple[int, ...]
    trials: tuple[Trial, ...]


@dataclass(frozen=True, eq=False)
class _Reduced:
    """Normal equations of the candidates alone, of each fit without one fold and, last, of the fit to everything.

    S (F + 1, m, m) c = r (F + 1, m) gives the coefficients c; the error held out is e + 2 h.c + c.H c with e (F,),
    h (F, m), H (F, m, m). b (F, D) + Z (F, D, m) c is the fit to all but a fold, with -1 for the torque. distinct:
    (m,), False for a candidate whose column the others explain. norm (m,): of the candidates' columns, of norm 1 here.
    """

    S: Array
    r: Array
    H: Array
    h: Array
    e: Array
    b: Array
    Z: Array
    distinct: NDArray[np.bool_]
    norm: Array
    thresholds: FrictionThresholds

    def with_held(self, held: Sequence[int], kept: Sequence[int]) -> _Reduced:
        """Return the same for the columns `kept` alone, numbered anew, with the columns `held` always fitted too."""
        j, k = np.array(kept, dtype=np.intp), np.array(held, dtype=np.intp)
        J, K = j[:, None], k[:, None]
        S, r, H, h, Z = self.S[:, J, j], self.r[:, j], self.H[:, J, j], self.h[:, j], self.Z[:, :, j]
        e, b = self.e, self.b
        if len(k):
            Sjk, Hjk, Hkk, Zk = self.S[:, J, k], self.H[:, J, k], self.H[:, K, k], self.Z[:, :, k]
            right = np.concatenate((self.r[:, k, None], Sjk.transpose(0, 2, 1)), axis=2)
            solved = np.linalg.solve(self.S[:, K, k], right)
            x, X = solved[:, :, :1], solved[:, :, 1:]
            S, r = S - Sjk @ X, r - (Sjk @ x)[:, :, 0]
            x, X = x[:-1], X[:-1]
            HX, Xt = Hjk @ X, X.transpose(0, 2, 1)
            H = H - HX - HX.transpose(0, 2, 1) + Xt @ Hkk @ X
            hx = self.h[:, k, None] + Hkk @ x
            h = h + (Hjk @ x - Xt @ hx)[:, :, 0]
            e = e + np.sum((self.h[:, k, None] + hx) * x, axis=(1, 2))
            b, Z = b + (Zk @ x)[:, :, 0], Z - Zk @ X
        return _Reduced(S, r, H, h, e, b, Z, self.distinct[j], self.norm[j], self.thresholds)

    def try_laws(self, laws: NDArray[np.intp]) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return held-out errors (laws, F), coefficients of all fits (laws, F + 1, s), and which are told apart.

        laws: numbers of the columns, shape (laws, s).
        """
        rows, columns = laws[:, :, None], laws[:, None, :]
        S, r = self.S[:, rows, columns].swapaxes(0, 1), self.r[:, laws].swapaxes(0, 1)
        own, unit = np.einsum("lfss->lfs", S), np.eye(laws.shape[1])
        apart = np.all(self.distinct[laws], axis=1) & np.all(own > 0.0, axis=(1, 2))
        S = np.where(apart[:, None, None, None], S, unit)
        size = np.sqrt(np.where(apart[:, None, None], own, 1.0))
        apart &= np.all(np.linalg.det(S / size[..., :, None] / size[..., None, :]) > self.thresholds.collinear, axis=1)
        S = np.where(apart[:, None, None, None], S, unit)
        c = np.linalg.solve(S, r[..., None])[..., 0]
        H, h, held = self.H[:, rows, columns].swapaxes(0, 1), self.h[:, laws].swapaxes(0, 1), c[:, :-1]
        errors = self.e + np.sum((2.0 * h + np.einsum("lfab,lfb->lfa", H, held)) * held, axis=2)
        return np.asarray(errors), np.asarray(c), apart

    def joint_error(self, squares: Array, law: Sequence[int]) -> float:
        """Return the held-out error of one joint, whose normal equations are squares (F, D, D), under a law."""
        parts = len(squares)
        v = self.b[:parts]
        if law:
            _, c, _ = self.try_laws(np.array([law]))
            v = v + np.einsum("fds,fs->fd", self.Z[:parts, :, list(law)], c[0, :parts])
        return float(np.sum((v[:, None, :] @ squares)[:, 0] * v))


@dataclass(frozen=True, eq=False)
class _JointEvidence:
    """What a joint's laws are judged by: own, its weighted normal equations (F, D, D), and its independent rows.

    chance: largest Q of 1, 2, ... terms that mean nothing. parts: how many of the folds are parts of the recordings;
    the rest are recordings left out as a whole.
    """

    own: Array
    rows: float
    chance: Sequence[float]
    parts: int
    thresholds: FrictionThresholds

    def least_scatters(self, further: int) -> float:
        """Return how many times its own scatter so many further terms must gain."""
        Q = self.chance[further - 1]
        return float((Q - 2.0 * further) / (2.0 * np.sqrt(Q)))

    def least_share(self, further: int) -> float:
        """Return the share of the joint's squared error that so many further terms must gain."""
        return max(self.thresholds.gain * further, (self.chance[further - 1] - 2.0 * further) / self.rows)


def select_terms(
    information: Information,
    terms: Sequence[FrictionTerm],
    sigma: Array,
    *,
    force: bool = False,
    independent: float = 1.0,
    thresholds: FrictionThresholds = DEFAULTS,
) -> Selection:
    """Return the terms whose columns help on blocks left out; sigma: error of each joint under plain friction (n,).

    The first friction columns of the information are those of `terms`; any further ones are always fitted.
    force: take a term of every kind that there is for a joint, with its best speed, unless its sign is impossible.
    independent: share of the rows whose noise is independent, the rest being what the filter makes of it. thresholds:
    by which laws are judged.
    """
    folds = block_folds(information, thresholds.folds)
    if len(folds) < 3 or not terms:
        return Selection((), ())
    parts = len(folds)
    squares = _normal_equations(information, [*folds, *_whole_recordings(information)])
    weights = _finite_weights(sigma**2)
    tests = sum(not term.of_shape for term in terms)
    chance = [
        _largest_by_chance(further, parts, tests, thresholds.chance) for further in range(1, len(FrictionKind) + 1)
    ]
    joints = sorted({term.joint for term in terms})
    place = _own_joints(information, terms)
    always = _always_fitted(squares[:parts], information, weights, len(terms))
    chosen: dict[int, tuple[int, ...]] = dict.fromkeys(joints, ())
    trials: dict[int, list[Trial]] = {}
    for _ in range(thresholds.sweeps):
        reduced = _eliminate_always_fitted(squares, weights, information, len(terms), always, parts, thresholds)
        before = dict(chosen)
        for joint in joints:
            others = [k for other, law in chosen.items() if other != joint for k in law]
            k = place[joint]
            evidence = _JointEvidence(
                weights[k] * squares[:parts, k],
                max(1.0, independent * float(information.rows[k])),
                chance,
                parts,
                thresholds,
            )
            own = [k for k, term in enumerate(terms) if term.joint == joint]
            law, trials[joint] = _choose_law(
                reduced.with_held(others, own), evidence, [terms[k] for k in own], force=force
            )
            chosen[joint] = tuple(own[k] for k in law)
        if chosen == before:
            break
        taken = information.layout.friction.start + np.array([k for law in chosen.values() for k in law], dtype=np.intp)
        weights = _reweight(squares[:parts], information, weights, np.append(always, taken))
    return Selection(
        tuple(sorted(k for law in chosen.values() for k in law)), tuple(t for joint in joints for t in trials[joint])
    )


def _choose_law(
    given: _Reduced, evidence: _JointEvidence, terms: Sequence[FrictionTerm], *, force: bool
) -> tuple[tuple[int, ...], list[Trial]]:
    """Return the law of a joint, the numbers of its terms among those it may have, and what was tried."""
    parts, limits = evidence.parts, evidence.thresholds
    columns = tuple((term.kind, term.of_shape) for term in terms)
    kinds = tuple(dict.fromkeys(kind for kind, _ in columns))
    thermal = sum(kind.thermal for kind in kinds)
    largest = min(limits.terms, len(kinds) - thermal) + thermal
    law: tuple[int, ...] = ()
    law_errors, trials = given.e, []
    for size in range(len(kinds), 0, -1) if force else range(1, largest + 1):
        laws = _laws_of_size(columns, size, force, limits.terms)
        errors, possible = _held_out_errors(given, laws)
        smaller, smaller_errors = law, law_errors
        joint_error = max(given.joint_error(evidence.own, smaller), 1e-300)
        further = size - sum(not terms[k].of_shape for k in smaller)
        held = {terms[k].kind for k in smaller}
        doubts = np.max(np.where([kind in held for kind in kinds], 0.0, laws.evidence), axis=1)
        for doubtful in (False,) if force else (False, True):
            allowed = possible if force else possible & ((doubts > 0.0) == doubtful)
            if not allowed.any():
                continue
            best = int(np.argmin(np.where(allowed, errors[:, :parts].sum(axis=1), np.inf)))
            gain, scatter, in_recordings = _sum_gains(smaller_errors - errors[best], parts)
            scatters = max(evidence.least_scatters(further), float(doubts[best]))
            enough = gain > scatters * scatter and gain > evidence.least_share(further) * joint_error
            if law != smaller:  # that there is such a law is known: the doubtful one must be the better of the two
                more, spread, in_recordings = _sum_gains(law_errors - errors[best], parts)
                enough = more > (0.0 if enough else limits.alike * spread)
            taken = force or (enough and in_recordings)
            own_terms = tuple(terms[k] for k in laws.sets[best] if not terms[k].of_shape)
            trials.append(Trial(own_terms, own_terms[0].joint, gain / joint_error, scatter / joint_error, taken))
            if taken:
                law, law_errors = laws.sets[best], errors[best]
        if force and law:
            break
    return law, trials


def _largest_by_chance(further: int, folds: int, tests: int, chance: float) -> float:
    """Return the largest Q of so many terms by chance, of `tests` terms and shapes that are tried, all positive."""
    return float(further * fdtri(further, folds - 1, 1.0 - min(2.0 * chance / tests, 1.0)))


@dataclass(frozen=True, eq=False)
class _Laws:
    """Laws of one size as sets of columns; the same for all joints that may have the same kinds of terms.

    evidence: that each kind asks for in each set, shape (sets, kinds), zero where it is not in it. by_width: sets with
    as many columns together: their numbers, the columns (sets, s), which must be positive, and which are of a shape.
    """

    sets: tuple[tuple[int, ...], ...]
    evidence: Array
    by_width: tuple[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_], NDArray[np.bool_]], ...]


@functools.lru_cache(maxsize=64)
def _laws_of_size(columns: tuple[tuple[FrictionKind, bool], ...], size: int, force: bool, largest: int) -> _Laws:
    """Return all laws of `size` kinds, at most `largest` of them not thermal unless they are asked for (force).

    columns: the kind of each, and whether it is of the shape of the one before.
    """
    kinds: dict[FrictionKind, list[tuple[int, ...]]] = {}
    for k, (kind, of_shape) in enumerate(columns):
        if of_shape:
            kinds[kind][-1] = (*kinds[kind][-1], k)
        else:
            kinds.setdefault(kind, []).append((k,))
    groups = [
        group
        for group in itertools.combinations(kinds, size)
        if force or sum(not kind.thermal for kind in group) <= largest
    ]
    laws = [
        (tuple(itertools.chain(*law)), [kind.evidence if kind in group else 0.0 for kind in kinds])
        for group in groups
        for law in itertools.product(*(kinds[kind] for kind in group))
    ]
    sets = tuple(law for law, _ in laws)
    positive = np.array([kind.positive and not of_shape for kind, of_shape in columns])
    shapes = np.array([of_shape for _, of_shape in columns])
    by_width = []
    for width in sorted({len(law) for law in sets}):
        at = np.array([i for i, law in enumerate(sets) if len(law) == width], dtype=np.intp)
        numbers = np.array([sets[i] for i in at], dtype=np.intp)
        by_width.append((at, numbers, positive[numbers], shapes[numbers]))
    return _Laws(sets, np.array([evidence for _, evidence in laws]), tuple(by_width))


def _held_out_errors(given: _Reduced, laws: _Laws) -> tuple[Array, NDArray[np.bool_]]:
    """Return the held-out errors of laws, shape (laws, F), and whether each can be: told apart, signs, shapes."""
    errors = np.empty((len(laws.sets), len(given.e)))
    possible = np.zeros(len(laws.sets), dtype=bool)
    for at, columns, positive, shape in laws.by_width:
        errors[at], coefficients, apart = given.try_laws(columns)
        value = coefficients[:, -1] / given.norm[columns]
        apart &= np.all((value > 0.0) | ~positive, axis=1)
        before = np.abs(np.roll(value, 1, axis=1))  # a shape's column follows that of its term
        possible[at] = apart & np.all(~shape | (np.abs(value) <= given.thresholds.shape_change * before), axis=1)
    return errors, possible


def _sum_gains(gains: Array, parts: int) -> tuple[float, float, bool]:
    """Return the sum of gains over the parts, its scatter, and whether recordings left out as a whole gain too.

    A part that gains far more than the others, such as the only one with slow moves, makes for much scatter, but is no
    evidence against a law: the scatter is that of the others, as a share of what they gain, where that is smaller.
    """
    own = np.sort(gains[:parts])
    gain, rest = float(own.sum()), float(own[:-1].sum())
    scatter = float(own.std(ddof=1) * np.sqrt(parts))
    if rest > 0.0 and parts > 3:
        scatter = min(scatter, float(own[:-1].std(ddof=1) * np.sqrt(parts - 1)) * gain / rest)
    return gain, scatter, len(gains) == parts or bool(gains[parts:].sum() > 0.0)


def _whole_recordings(information: Information) -> list[list[int]]:
    """Return the blocks of each recording, if there are several."""
    numbers = [block.recording for block in information.blocks]
    wholes = [[b for b, number in enumerate(numbers) if number == one] for one in sorted(set(numbers))]
    return wholes if len(wholes) > 1 else []


def _own_joints(information: Information, terms: Sequence[FrictionTerm]) -> dict[int, int]:
    """Return the place, among the information's joints, of the joint that feels each joint's terms."""
    first = information.layout.friction.start
    return {
        term.joint: next(j for j, columns in enumerate(information.columns) if first + k in columns)
        for k, term in enumerate(terms)
    }


def _normal_equations(information: Information, folds: Sequence[Sequence[int]]) -> Array:
    """Return [W tau]^T [W tau] of each fold and joint, shape (folds, n, size + 1, size + 1)."""
    D = information.size + 1
    out = np.zeros((len(folds), information.n, D, D))
    for j, columns in enumerate(information.columns):
        places = np.append(columns, D - 1)
        square = np.ix_(places, places)
        for f, fold in enumerate(folds):
            R = np.vstack([information.blocks[b].R[j] for b in fold])
            out[f, j][square] = R.T @ R
    return out


def _eliminate_always_fitted(
    squares: Array,
    weights: Array,
    information: Information,
    m: int,
    always: NDArray[np.intp],
    parts: int,
    thresholds: FrictionThresholds,
) -> _Reduced:
    """Return the normal equations of the m candidates, the columns `always` eliminated; columns of unit norm."""
    folds, n, D, _ = squares.shape
    total = (weights @ squares.reshape(folds, n, D * D)).reshape(folds, D, D)
    norm = np.sqrt(np.maximum(np.diag(total[:parts].sum(axis=0)), 0.0))
    moved = norm > 0.0
    scale = np.where(moved, norm, 1.0)
    used, more = always[moved[always]], information.layout.friction.start + np.arange(m)
    order = np.concatenate((used, more, [len(scale) - 1]))
    u, own = slice(0, len(used)), slice(len(used), len(used) + m)
    T = total[:, order[:, None], order] / np.outer(scale[order], scale[order])
    everything = T[:parts].sum(axis=0)
    A = np.concatenate((everything - T, everything[None]))
    solved = np.linalg.solve(A[:, u, u] + RIDGE * np.eye(len(used)), A[:, u, own.start :])
    X, x = solved[:, :, :-1], solved[:, :, -1:]
    S = A[:, own, own] - A[:, own, u] @ X
    r = (A[:, own, -1:] - A[:, own, u] @ x)[:, :, 0]
    # the error held out is |T^1/2 (b + Z c)|^2: b takes the base parameters' share, Z what they give way to
    X, x = X[:-1], x[:-1]
    Xt, TX = X.transpose(0, 2, 1), T[:, own, u] @ X
    H = T[:, own, own] - TX - TX.transpose(0, 2, 1) + Xt @ (T[:, u, u] @ X)
    Tb = T[:, :, u] @ x - T[:, :, -1:]
    h = (Tb[:, own] - Xt @ Tb[:, u])[:, :, 0]
    e = np.sum(x * Tb[:, u], axis=(1, 2)) - Tb[:, -1, 0]
    b, Z = np.zeros((len(T), len(scale))), np.zeros((len(T), len(scale), m))
    b[:, used], b[:, -1] = x[:, :, 0] / scale[used], -1.0 / scale[-1]
    Z[:, used] = -X / scale[used, None]
    Z[:, more, np.arange(m)] = 1.0 / scale[more]
    beyond = np.einsum("fmm->fm", S)
    least = thresholds.collinear * np.maximum(np.diag(everything)[own], 1e-300)
    return _Reduced(S, r, H, h, e, b, Z, moved[more] & np.all(beyond > least, axis=0), scale[more], thresholds)


def _always_fitted(squares: Array, information: Information, weights: Array, m: int) -> NDArray[np.intp]:
    """Return the columns that are fitted whatever the law: all but those of the m candidates.

    Of the friction columns beyond, which stand for what happens near standstill, those that take friction away: a joint
    that sticks has less than Coulomb's there, one that has more has a Stribeck term.
    """
    first, last = information.layout.friction.start + m, information.layout.friction.stop
    columns = np.array([k for k in range(information.size) if not first - m <= k < first], dtype=np.intp)
    value = _fit_columns(squares, weights, columns)
    return np.asarray(columns[(columns < first) | (columns >= last) | (value[columns] < 0.0)], dtype=np.intp)


def _fit_columns(squares: Array, weights: Array, columns: NDArray[np.intp]) -> Array:
    """Return the fit of these columns to everything, shape (D,): zero for others, and -1 for the torque."""
    total = np.tensordot(squares.sum(axis=0), weights, axes=(0, 0))
    scale = np.sqrt(np.maximum(np.diag(total), 0.0))
    used = columns[scale[columns] > 0.0]
    S = total[np.ix_(used, used)] / np.outer(scale[used], scale[used]) + RIDGE * np.eye(len(used))
    value = np.zeros(len(total))
    value[used] = np.linalg.solve(S, total[used, -1] / scale[used]) / scale[used]
    value[-1] = -1.0
    return value


def _reweight(squares: Array, information: Information, weights: Array, columns: NDArray[np.intp]) -> Array:
    """Return 1 / variance of each joint's error under the fit of these columns, shape (n,)."""
    value = _fit_columns(squares, weights, columns)
    errors = np.einsum("a,jab,b->j", value, squares.sum(axis=0), value)
    return _finite_weights(errors / np.maximum(information.rows, 1))


def _finite_weights(variance: Array) -> Array:
    """Return 1 / variance; a joint whose effort is exact, such as one that records none, must not outweigh the rest."""
    return np.asarray(1.0 / np.maximum(variance, max(LEAST_VARIANCE_SHARE * float(variance.max()), 1e-200)))
