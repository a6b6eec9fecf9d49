# SPDX-License-Identifier: Apache-2.0

"""What becomes of chosen friction terms in the fit of the whole law: which leave it, and how their shapes follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.identification.decisions.friction_selection import DEFAULTS, FrictionThresholds, Trial
from ros2_dynid.identification.friction_columns import SHAPE_STEP, change_shape
from ros2_dynid.identification.regression.dissipative_fit import constrain, dissipative_estimate
from ros2_dynid.identification.regression.information import Information, select_friction
from ros2_dynid.identification.regression.least_squares import solve_weighted, weighted_triangle, wls
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

FIRST_ITERATIONS = 5
"""Iterations of the joints' weights while a law is looked for: the estimate that follows has its own."""


def fit_braking(information: Information, braking_rows: Array) -> Array:
    """Return the provisional fit of friction that brakes, braking_rows @ value >= 0, shape (size,)."""
    solution, weights = solve_weighted(information, iterations=FIRST_ITERATIONS)
    return constrain(weighted_triangle(information, weights).W, solution.value, braking_rows)[0]


BrakingRows = Callable[[Sequence[FrictionTerm], int], Array]
"""From terms and the number of columns to what makes friction brake."""


def drop_insignificant_terms(
    law: Information, terms: tuple[FrictionTerm, ...], braking_rows: BrakingRows, significance: float
) -> tuple[Information, tuple[FrictionTerm, ...]]:
    """Return the law without the terms that the fit with the right shapes and gear torques does not need.

    They were chosen by what a provisional fit left over. The weakest leaves first.
    """
    while terms:
        estimate = dissipative_estimate(law, wls(law, iterations=FIRST_ITERATIONS), braking_rows(terms, law.size))
        covariance = estimate.covariance[law.layout.friction, law.layout.friction]
        deviations = [count_deviations(terms, k, estimate.friction, covariance) for k in range(len(terms))]
        weakest = int(np.argmin(deviations))
        if deviations[weakest] >= significance:
            break
        kept = [k for k, term in enumerate(terms) if not _same_kind(term, terms[weakest])]
        law, terms = select_friction(law, kept), tuple(terms[k] for k in kept)
    return law, terms


def _same_kind(one: FrictionTerm, other: FrictionTerm) -> bool:
    """Return whether two columns are of one term: the term and the column of its shape."""
    return (one.joint, one.kind) == (other.joint, other.kind)


def count_deviations(terms: Sequence[FrictionTerm], k: int, value: Array, covariance: Array) -> float:
    """Return how many standard deviations the term k is from zero, negative on the side that it cannot be on.

    With its shape, if that is estimated too: where the two are hard to tell apart, that there is a term is still clear.
    """
    term = terms[k]
    if term.of_shape:
        return np.inf
    own = [i for i, other in enumerate(terms) if _same_kind(other, term)]
    C = covariance[np.ix_(own, own)]
    if not np.all(np.isfinite(C)) or np.linalg.matrix_rank(C) < len(own):
        return 0.0
    size = float(np.sqrt(value[own] @ np.linalg.solve(C, value[own])))
    return -size if term.positive and value[k] <= 0.0 else size


def mark_dropped_terms(trials: Sequence[Trial], dropped: set[FrictionTerm]) -> tuple[Trial, ...]:
    """Return the trials; a law with a term that was dropped was not taken."""
    kinds = {(term.joint, term.kind) for term in dropped}
    return tuple(
        replace(trial, chosen=trial.chosen and not any((term.joint, term.kind) in kinds for term in trial.terms))
        for trial in trials
    )


def refine_shapes(
    robot: Robot,
    terms: Sequence[FrictionTerm],
    value: Array,
    top: Array,
    fixed: set[int],
    thresholds: FrictionThresholds = DEFAULTS,
) -> tuple[FrictionTerm, ...]:
    """Return the terms with the shapes that `value` (f,) leads to, each followed by the column of its shape.

    A shape that hardly changes stays. One that leaves the range in which it shows is not known: it stays at the end of
    the range without a column, and its joint joins `fixed`.
    """
    changes = {(term.joint, term.kind): float(x) for term, x in zip(terms, value, strict=True) if term.of_shape}
    refined = []
    for term, coefficient in zip(terms, value.tolist(), strict=True):
        shape = term.kind.shape
        if shape is None:
            refined.append(term)
        elif not term.of_shape:
            change = changes.get((term.joint, term.kind), 0.0) / max(coefficient, 1e-300)
            if abs(change) > thresholds.same_shape:
                step = float(np.clip(change, -SHAPE_STEP, SHAPE_STEP))
                unbounded = term.shape * np.exp(step) if shape.logarithmic else term.shape + step
                wanted = change_shape(term, change).shape
                if shape.relative:
                    fastest = float(top[robot.active.index(term.joint)])
                    wanted = float(np.clip(wanted, thresholds.slowest * fastest, thresholds.fastest * fastest))
                if not np.isclose(wanted, unbounded, rtol=1e-12):
                    fixed.add(term.joint)
                term = term.with_shape(wanted)
            refined += [term] if term.joint in fixed else [term, replace(term, of_shape=True)]
    return tuple(refined)


def drop_pushing_terms(
    tried: Information, terms: Sequence[FrictionTerm], chosen: Sequence[int], braking_rows: BrakingRows
) -> tuple[tuple[FrictionTerm, ...], Array]:
    """Return the terms kept when those that friction which brakes has no use for go, and the fit (size,)."""
    kept, first = list(chosen), tried.layout.friction.start
    while kept:
        law, own = select_friction(tried, kept), [terms[k] for k in kept]
        value = fit_braking(law, braking_rows(own, law.size))
        pushing = [term for i, term in enumerate(own) if term.positive and value[first + i] <= 0.0]
        if not pushing:
            return tuple(own), value
        kept = [k for k in kept if not any(_same_kind(terms[k], term) for term in pushing)]
    return (), np.empty(0)
