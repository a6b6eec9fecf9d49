# SPDX-License-Identifier: Apache-2.0

"""The friction law of recordings: the terms that were asked for, or those that the data support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions.friction_selection import DEFAULTS, FrictionThresholds, Trial, select_terms
from ros2_dynid.identification.friction_columns import (
    AUTO,
    SHAPE_STEP,
    build_standstill_terms,
    change_shape,
    list_candidate_terms,
    read_law_terms,
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
from ros2_dynid.identification.regression.information import Information, different_motion, select_friction
from ros2_dynid.identification.regression.least_squares import solve_weighted, weighted_triangle, wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot

FIRST_ITERATIONS = 5
"""Iterations of the joints' weights while a law is looked for: the estimate that follows has its own."""


@dataclass(frozen=True, eq=False)
class FrictionDecision:
    """Friction terms with the recordings' information on them; trials: how they were chosen."""

    prepared: tuple[Prepared, ...]
    information: Information
    terms: tuple[FrictionTerm, ...] = ()
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True, eq=False)
class _LawRows:
    """What a law is fitted to: recordings, whether the delay is estimated, and the rows that no law changes."""

    robot: Robot
    base: BaseParameters
    prepared: tuple[Prepared, ...]
    delay: bool
    plain_rows: PlainRows | None
    top_speed: Array
    temperatures: Array | None

    def with_gear_torque(self, value: Array) -> _LawRows:
        """Return the same with the gear torque of base parameters `value`, shape (b,)."""
        return replace(self, prepared=tuple(with_gear_torque(self.robot, self.base, value, p) for p in self.prepared))

    def build(self, terms: Sequence[FrictionTerm], every: int = 1) -> Information:
        """Return the information of every so many chunks of rows, with the columns of these terms."""
        return build_information(
            self.robot,
            self.base,
            self.prepared,
            delay=self.delay,
            terms=terms,
            every=every,
            plain_rows=self.plain_rows,
        )

    def braking_rows(self, terms: Sequence[FrictionTerm], size: int) -> Array:
        """Return rows g of which friction that brakes makes g . value >= 0, shape (m, size)."""
        return dissipation_rows(self.robot, self.base.leaders, terms, self.temperatures, size)


def choose_friction_law(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    information: Information,
    friction: str,
    method: Method,
    plain_rows: PlainRows | None = None,
    thresholds: FrictionThresholds = DEFAULTS,
) -> FrictionDecision:
    """Return the friction terms asked for, or those that the data support (auto), with the information on them.

    friction: auto or a law, such as "load+stribeck". information: of the base parameters with plain friction, whose
    estimate gives the gear torque at first. The terms are chosen from a part of the rows if there are many. plain_rows:
    of these recordings, with the delay's column if that is estimated.
    """
    top = np.max([p.top_speed for p in prepared], axis=0)
    temperatures = temperature_range([p.temperatures for p in prepared])
    auto = friction == AUTO
    terms = (
        list_candidate_terms(robot, top, temperatures, thresholds.temperature_change)
        if auto
        else read_law_terms(robot, friction, top, temperatures)
    )
    plain = FrictionDecision(tuple(prepared), information)
    if method is Method.ENERGY and terms and not auto:
        raise InputError("the energy model has no friction terms", "choose another method, or plain friction")
    if method is Method.ENERGY or not terms:
        return plain
    delay = bool(information.layout.n_delay)
    rows = _LawRows(robot, base, tuple(prepared), delay, plain_rows, top, temperatures)
    chunks = sum(-(-row_count(p) // rows_of_a_chunk(p)) for p in prepared)
    every = max(1, chunks // thresholds.chunks)
    solution, weights = solve_weighted(information, iterations=FIRST_ITERATIONS)
    rows = rows.with_gear_torque(solution.value[information.layout.base])
    if any(term.kind.loaded for term in terms):
        # a fit with plain friction is off where friction grows with the load, and so is the gear torque
        with_load = [FrictionTerm(joint, FrictionKind.LOAD) for joint in robot.active]
        solution, weights = solve_weighted(rows.build(with_load, every))
        rows = rows.with_gear_torque(solution.value[information.layout.base])
    reversals = build_standstill_terms(robot, terms, top, max(p.filter.slow for p in prepared)) if auto else ()
    tried = rows.build((*terms, *reversals), every)
    independent = min(_independent_share(p.filter) for p in prepared)
    selection = select_terms(
        different_motion(tried), terms, 1.0 / weights, force=not auto, independent=independent, thresholds=thresholds
    )
    kept, value = _drop_pushing_terms(tried, terms, selection.chosen, rows.braking_rows)
    trials = _without_terms(selection.trials, {terms[k] for k in selection.chosen} - set(kept))
    if not kept:
        return replace(plain, trials=trials)
    law = select_friction(tried, [terms.index(term) for term in kept])
    rows, law, fitted = _refine_law(rows, law, kept, value, every, thresholds)
    if not auto:
        return FrictionDecision(rows.prepared, law, fitted, trials)
    law, significant = _drop_insignificant_terms(law, fitted, rows.braking_rows, thresholds.significance)
    trials = _without_terms(trials, set(fitted) - set(significant))
    if not significant:
        return replace(plain, trials=trials)
    return FrictionDecision(rows.prepared, law, significant, trials)


def _refine_law(
    rows: _LawRows,
    law: Information,
    terms: tuple[FrictionTerm, ...],
    value: Array,
    every: int,
    thresholds: FrictionThresholds,
) -> tuple[_LawRows, Information, tuple[FrictionTerm, ...]]:
    """Return the law fitted to all rows, with the shapes and the gear torques that its own fit leads to.

    value: of the fit so far, shape (size,), to every so many chunks of rows.
    """
    fixed: set[int] = set()
    for _ in range(thresholds.rounds):
        refined = rows.with_gear_torque(value[law.layout.base])
        wanted = _refine_shapes(rows.robot, terms, value[law.layout.friction], rows.top_speed, fixed, thresholds)
        if every == 1 and wanted == terms and _same_gear_torque(rows, refined, thresholds.same_load):
            break
        rows, every, terms = refined, 1, wanted
        law = rows.build(terms)
        value = _fit_braking(law, rows.braking_rows(terms, law.size))
    return rows, law, terms


def _same_gear_torque(before: _LawRows, after: _LawRows, share: float) -> bool:
    """Return whether the gear torque of every joint changes by no more than a share."""
    for old, new in zip(before.prepared, after.prepared, strict=True):
        assert old.gear_torque is not None and new.gear_torque is not None
        change, size = (np.linalg.norm(x, axis=0) for x in (new.gear_torque - old.gear_torque, old.gear_torque))
        if np.any(change > share * np.maximum(size, 1e-300)):
            return False
    return True


def _independent_share(filters: Filter) -> float:
    """Return the share of the rows whose noise is independent: two for each period of the cut-off, at most all."""
    return 1.0 if filters.row_cutoff is None else min(1.0, 2.0 * filters.row_cutoff / filters.row_rate)


def _fit_braking(information: Information, braking_rows: Array) -> Array:
    """Return the provisional fit of friction that brakes, braking_rows @ value >= 0, shape (size,)."""
    solution, weights = solve_weighted(information, iterations=FIRST_ITERATIONS)
    return constrain(weighted_triangle(information, weights).W, solution.value, braking_rows)[0]


BrakingRows = Callable[[Sequence[FrictionTerm], int], Array]
"""From terms and the number of columns to what makes friction brake."""


def _drop_insignificant_terms(
    law: Information, terms: tuple[FrictionTerm, ...], braking_rows: BrakingRows, significance: float
) -> tuple[Information, tuple[FrictionTerm, ...]]:
    """Return the law without the terms that the fit with the right shapes and gear torques does not need.

    They were chosen by what a provisional fit left over. The weakest leaves first.
    """
    while terms:
        estimate = dissipative_estimate(law, wls(law, iterations=FIRST_ITERATIONS), braking_rows(terms, law.size))
        covariance = estimate.covariance[law.layout.friction, law.layout.friction]
        deviations = [_deviations(terms, k, estimate.friction, covariance) for k in range(len(terms))]
        weakest = int(np.argmin(deviations))
        if deviations[weakest] >= significance:
            break
        kept = [k for k, term in enumerate(terms) if not _same_kind(term, terms[weakest])]
        law, terms = select_friction(law, kept), tuple(terms[k] for k in kept)
    return law, terms


def _same_kind(one: FrictionTerm, other: FrictionTerm) -> bool:
    """Return whether two columns are of one term: the term and the column of its shape."""
    return (one.joint, one.kind) == (other.joint, other.kind)


def _deviations(terms: Sequence[FrictionTerm], k: int, value: Array, covariance: Array) -> float:
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


def _without_terms(trials: Sequence[Trial], dropped: set[FrictionTerm]) -> tuple[Trial, ...]:
    """Return the trials; a law with a term that was dropped was not taken."""
    kinds = {(term.joint, term.kind) for term in dropped}
    return tuple(
        replace(trial, chosen=trial.chosen and not any((term.joint, term.kind) in kinds for term in trial.terms))
        for trial in trials
    )


def _refine_shapes(
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


def _drop_pushing_terms(
    tried: Information, terms: Sequence[FrictionTerm], chosen: Sequence[int], braking_rows: BrakingRows
) -> tuple[tuple[FrictionTerm, ...], Array]:
    """Return the terms kept when those that friction which brakes has no use for go, and the fit (size,)."""
    kept, first = list(chosen), tried.layout.friction.start
    while kept:
        law, own = select_friction(tried, kept), [terms[k] for k in kept]
        value = _fit_braking(law, braking_rows(own, law.size))
        pushing = [term for i, term in enumerate(own) if term.positive and value[first + i] <= 0.0]
        if not pushing:
            return tuple(own), value
        kept = [k for k in kept if not any(_same_kind(terms[k], term) for term in pushing)]
    return (), np.empty(0)
