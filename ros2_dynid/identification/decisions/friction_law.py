# SPDX-License-Identifier: Apache-2.0

"""The friction law of recordings: the terms that were asked for, or those that the data support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions.friction_selection import DEFAULTS, FrictionThresholds, Trial, select_terms
from ros2_dynid.identification.decisions.friction_terms import (
    FIRST_ITERATIONS,
    drop_insignificant_terms,
    drop_pushing_terms,
    fit_braking,
    mark_dropped_terms,
    refine_shapes,
)
from ros2_dynid.identification.friction_columns import (
    AUTO,
    build_standstill_terms,
    list_candidate_terms,
    read_law_terms,
)
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Filter, Prepared, temperature_range
from ros2_dynid.identification.preparation.rows import PlainRows, thin_chunks, with_gear_torque
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.dissipative_fit import dissipation_rows
from ros2_dynid.identification.regression.information import Information, different_motion, select_friction
from ros2_dynid.identification.regression.least_squares import solve_weighted
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot


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
    every = thin_chunks(prepared, thresholds.chunks)
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
    kept, value = drop_pushing_terms(tried, terms, selection.chosen, rows.braking_rows)
    trials = mark_dropped_terms(selection.trials, {terms[k] for k in selection.chosen} - set(kept))
    if not kept:
        return replace(plain, trials=trials)
    law = select_friction(tried, [terms.index(term) for term in kept])
    rows, law, fitted = _refine_law(rows, law, kept, value, every, thresholds)
    if not auto:
        return FrictionDecision(rows.prepared, law, fitted, trials)
    law, significant = drop_insignificant_terms(law, fitted, rows.braking_rows, thresholds.significance)
    trials = mark_dropped_terms(trials, set(fitted) - set(significant))
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
        wanted = refine_shapes(rows.robot, terms, value[law.layout.friction], rows.top_speed, fixed, thresholds)
        if every == 1 and wanted == terms and _same_gear_torque(rows, refined, thresholds.same_load):
            break
        rows, every, terms = refined, 1, wanted
        law = rows.build(terms)
        value = fit_braking(law, rows.braking_rows(terms, law.size))
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
