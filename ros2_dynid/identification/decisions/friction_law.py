# SPDX-License-Identifier: Apache-2.0

"""The friction law of recordings: the terms that were asked for, or those that the data support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions.friction_selection import Trial, select_terms
from ros2_dynid.identification.friction import (
    AUTO,
    DEFAULTS,
    STEP,
    FrictionThresholds,
    candidates,
    change_shape,
    given_terms,
    near_standstill,
    top_speeds,
)
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Filter, Prepared, temperature_range
from ros2_dynid.identification.preparation.rows import PlainRows, row_count, rows_of_a_chunk, with_gear_torque
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.dissipative_fit import (
    constrain,
    dissipation_rows,
    dissipative_estimate,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Information, restrict
from ros2_dynid.identification.regression.least_squares import weighted, weighted_triangle, wls
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot

FIRST = 5
"""Iterations of the joints' weights while a law is looked for: the estimate that follows has its own."""


@dataclass(frozen=True, eq=False)
class LawOfData:
    """Friction terms with the recordings' information on them; tried: how they were chosen."""

    prepared: tuple[Prepared, ...]
    information: Information
    terms: tuple[FrictionTerm, ...] = ()
    tried: tuple[Trial, ...] = ()


def with_law(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    information: Information,
    friction: str,
    method: Method,
    plain_rows: PlainRows | None = None,
    thresholds: FrictionThresholds = DEFAULTS,
) -> LawOfData:
    """Return what the recordings say about base parameters and the friction terms asked for, or found (auto).

    friction: auto or a law (friction/laws.py). information: of the base parameters with plain friction, whose estimate
    says what torque the gears carry at first. The terms are chosen from a part of the rows if there are many.
    plain_rows: of these recordings, with the delay's column if that is estimated.
    """
    top = top_speeds([p.top_speed for p in prepared])
    auto = friction == AUTO
    warmth = temperature_range([p.temperatures for p in prepared])
    terms = candidates(robot, top, warmth) if auto else given_terms(robot, friction, top, warmth)
    if method is Method.ENERGY and terms:
        if not auto:
            raise InputError("the energy model has no friction terms", "choose another method, or plain friction")
        terms = ()
    if not terms:
        return LawOfData(tuple(prepared), information)
    layout, delay = information.layout, bool(information.layout.n_delay)
    found, weights = weighted(information, iterations=FIRST)
    carries = found.value[layout.base]
    loaded = tuple(_carrying(robot, base, carries, p) for p in prepared)
    chunks = sum(-(-row_count(p) // rows_of_a_chunk(p)) for p in prepared)
    every = max(1, chunks // thresholds.chunks)
    if any(term.kind.loaded for term in terms):
        # a fit with plain friction is off where friction grows with the load, and so is the gear torque
        with_load = [FrictionTerm(joint, FrictionKind.LOAD) for joint in robot.active]
        found, weights = weighted(
            build_information(robot, base, loaded, delay=delay, terms=with_load, every=every, plain_rows=plain_rows)
        )
        carries = found.value[layout.base]
        loaded = tuple(_carrying(robot, base, carries, p) for p in prepared)
    reversals = near_standstill(robot, terms, top, max(p.filter.slow for p in prepared)) if auto else ()
    tried = build_information(
        robot, base, loaded, delay=delay, terms=(*terms, *reversals), every=every, plain_rows=plain_rows
    )
    independent = min(_independent(p.filter) for p in prepared)
    selection = select_terms(
        tried, terms, 1.0 / weights, force=not auto, independent=independent, thresholds=thresholds
    )

    def fit(information: Information, terms: Sequence[FrictionTerm]) -> Array:
        rows = dissipation_rows(robot, base.leaders, terms, warmth, information.size)
        return _braking_value(information, rows)

    kept, value = _of_possible_sign(tried, terms, selection.chosen, fit)
    trials = _judged_again(selection.trials, {terms[k] for k in selection.chosen} - set(kept))
    if not kept:
        return LawOfData(tuple(prepared), information, (), trials)
    law, fitted, fixed = _with_terms(tried, [terms.index(term) for term in kept]), kept, set[int]()
    for _ in range(thresholds.rounds):
        again = tuple(_carrying(robot, base, value[layout.base], p) for p in prepared)
        wanted = _with_shapes(robot, fitted, value[law.layout.friction], top, fixed, thresholds)
        same = all(_same(robot, base, carries, p, thresholds.same_load) for p in again)
        if every == 1 and wanted == fitted and same:
            break
        loaded, every, fitted, carries = again, 1, wanted, value[layout.base]
        law = build_information(robot, base, loaded, delay=delay, terms=fitted, plain_rows=plain_rows)
        value = fit(law, fitted)
    if not auto:
        return LawOfData(loaded, law, fitted, trials)
    law, left = _significant(
        law, fitted, partial(dissipation_rows, robot, base.leaders, warmth=warmth), thresholds.significance
    )
    trials = _judged_again(trials, set(fitted) - set(left))
    if not left:
        return LawOfData(tuple(prepared), information, (), trials)
    return LawOfData(loaded, law, left, trials)


def _independent(filters: Filter) -> float:
    """Return the share of the rows whose noise is independent: two for each period of the cut-off, at most all."""
    return 1.0 if filters.row_cutoff is None else min(1.0, 2.0 * filters.row_cutoff / filters.row_rate)


def _braking_value(information: Information, rows: Array) -> Array:
    """Return the provisional fit of friction that brakes, rows @ value >= 0, shape (size,)."""
    found, weights = weighted(information, iterations=FIRST)
    return constrain(weighted_triangle(information, weights).W, found.value, rows).value


def _significant(
    law: Information,
    terms: tuple[FrictionTerm, ...],
    rows: Callable[..., Array],
    significance: float = DEFAULTS.significance,
) -> tuple[Information, tuple[FrictionTerm, ...]]:
    """Return the law without the terms that the fit with the right shapes and gear torques does not need.

    They were chosen by what a provisional fit left over. rows: from terms to what makes friction brake.
    """
    while terms:
        found = dissipative_estimate(law, wls(law, iterations=FIRST), rows(terms=terms, size=law.size))
        at = law.layout.friction
        certain = [_certain(terms, k, found.friction, found.covariance[at, at]) for k in range(len(terms))]
        weakest = int(np.argmin(certain))
        if certain[weakest] >= significance:
            break
        gone = terms[weakest]
        kept = [k for k, term in enumerate(terms) if (term.joint, term.kind) != (gone.joint, gone.kind)]
        law, terms = _with_terms(law, kept), tuple(terms[k] for k in kept)
    return law, terms


def _certain(terms: Sequence[FrictionTerm], k: int, value: Array, covariance: Array) -> float:
    """Return how many standard deviations the term k is from zero, on the side that it can be on.

    With its shape, if that is estimated too: where the two are hard to tell apart, that there is a term is still clear.
    """
    term = terms[k]
    if term.of_shape:
        return np.inf
    own = [i for i, other in enumerate(terms) if (other.joint, other.kind) == (term.joint, term.kind)]
    C = covariance[np.ix_(own, own)]
    if not np.all(np.isfinite(C)) or np.linalg.matrix_rank(C) < len(own):
        return 0.0
    size = float(np.sqrt(value[own] @ np.linalg.solve(C, value[own])))
    return -size if term.positive and value[k] <= 0.0 else size


def _judged_again(trials: Sequence[Trial], gone: set[FrictionTerm]) -> tuple[Trial, ...]:
    """Return what was tried; a law with a term that left was not taken."""
    kinds = {(term.joint, term.kind) for term in gone}
    return tuple(
        replace(trial, chosen=trial.chosen and not any((term.joint, term.kind) in kinds for term in trial.terms))
        for trial in trials
    )


def _with_shapes(
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
    found = []
    for term, coefficient in zip(terms, value.tolist(), strict=True):
        if term.kind.shape is None:
            found.append(term)
        elif not term.of_shape:
            change = changes.get((term.joint, term.kind), 0.0) / max(coefficient, 1e-300)
            if abs(change) > thresholds.same_shape:
                fastest = float(top[robot.active.index(term.joint)])
                wanted = change_shape(term, change)
                within = wanted.shape
                if term.kind.shape.relative:
                    within = float(np.clip(wanted.shape, thresholds.slowest * fastest, thresholds.fastest * fastest))
                free = (
                    term.shape * np.exp(np.clip(change, -STEP, STEP))
                    if term.kind.shape.logarithmic
                    else (term.shape + np.clip(change, -STEP, STEP))
                )
                if not np.isclose(within, free, rtol=1e-12):
                    fixed.add(term.joint)
                term = term.with_shape(within)
            found.append(term)
            if term.joint not in fixed:
                found.append(replace(term, of_shape=True))
    return tuple(found)


def _of_possible_sign(
    tried: Information,
    terms: Sequence[FrictionTerm],
    chosen: Sequence[int],
    fit: Callable[[Information, Sequence[FrictionTerm]], Array],
) -> tuple[tuple[FrictionTerm, ...], Array]:
    """Return the terms left when those that friction which brakes has no use for go, and the fit (size,)."""
    left = list(chosen)
    while left:
        value = fit(_with_terms(tried, left), [terms[k] for k in left])
        first = tried.layout.friction.start
        wrong = [k for i, k in enumerate(left) if terms[k].positive and value[first + i] <= 0.0]
        if not wrong:
            return tuple(terms[k] for k in left), value
        gone = {(terms[k].joint, terms[k].kind) for k in wrong}
        left = [k for k in left if (terms[k].joint, terms[k].kind) not in gone]
    return (), np.empty(0)


def _with_terms(every: Information, chosen: Sequence[int]) -> Information:
    """Return the information with the base parameters, the chosen friction terms and the delay."""
    layout = every.layout
    first = layout.friction.start
    dropped = set(range(first, layout.friction.stop)) - {first + k for k in chosen}
    kept = [k for k in range(layout.size) if k not in dropped]
    return restrict(every, kept, ColumnLayout(layout.n_base, layout.n_delay, layout.n_load, len(chosen)))


def _carrying(robot: Robot, base: BaseParameters, value: Array, prepared: Prepared) -> Prepared:
    return with_gear_torque(robot, base, value, prepared)


def _same(robot: Robot, base: BaseParameters, value: Array, prepared: Prepared, share: float) -> bool:
    """Return whether the gear torque is the one that base parameters `value` give, within a share."""
    before = with_gear_torque(robot, base, value, prepared).gear_torque
    assert before is not None and prepared.gear_torque is not None
    change, size = (np.linalg.norm(x, axis=0) for x in (prepared.gear_torque - before, before))
    return bool(np.all(change <= share * np.maximum(size, 1e-300)))
