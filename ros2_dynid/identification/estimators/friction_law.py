"""The friction law of recordings: the terms that were asked for, or those that the data support."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.carried_torque import with_carried
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.friction_selection import Trial, select_terms
from ros2_dynid.identification.estimators.information import Information, restrict
from ros2_dynid.identification.estimators.least_squares import wls
from ros2_dynid.identification.friction.laws import AUTO, candidates, given_terms, top_speeds
from ros2_dynid.identification.preparation.elsewhere import changed, over
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import row_count, rows_of_a_chunk
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot

SELECTION_CHUNKS = 200
"""Chunks of rows that the terms are chosen from, about: more do not change the choice."""
SAME_LOAD = 0.02
"""Carried torques that differ by less, as a share, are the same: what is left is a share of a share of the torque."""
ROUNDS = 3
LOADED = (FrictionKind.LOAD, FrictionKind.LOAD_VISCOUS)


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
) -> LawOfData:
    """Return what the recordings say about base parameters and the friction terms asked for, or found (auto).

    friction: auto or a law (friction/laws.py). information: of the base parameters with plain friction, whose estimate
    says what torque the gears carry at first. The terms are chosen from a part of the rows if there are many.
    """
    top = top_speeds([p.top_speed for p in prepared])
    auto = friction == AUTO
    terms = candidates(robot, top) if auto else given_terms(robot, friction, top)
    if method is Method.ENERGY and terms:
        if not auto:
            raise InputError("the energy model has no friction terms", "choose another method, or plain friction")
        terms = ()
    if not terms:
        return LawOfData(tuple(prepared), information)
    found, delay = wls(information), bool(information.layout.n_delay)
    value = found.base
    loaded = tuple(_carrying(robot, base, value, p) for p in prepared)
    chunks = sum(-(-row_count(p) // rows_of_a_chunk(p)) for p in prepared)
    every = max(1, chunks // SELECTION_CHUNKS)
    tried = inform(robot, base, loaded, delay=delay, terms=terms, every=every)
    selection = select_terms(tried, terms, found.sigma, force=not auto)
    chosen = list(selection.chosen)
    while chosen:
        law = _with_terms(tried, chosen)
        found = wls(law)
        wrong = [k for k, c in zip(chosen, found.friction, strict=True) if terms[k].kind.positive and c <= 0.0]
        if not wrong:
            break
        chosen = [k for k in chosen if k not in wrong]
    kept = tuple(terms[k] for k in chosen)
    if not kept:
        return LawOfData(tuple(prepared), information, (), selection.trials)
    for _ in range(ROUNDS):
        again = tuple(_carrying(robot, base, found.base, p) for p in prepared)
        if every == 1 and all(over(partial(_same, robot, base, value), again)):
            break
        loaded, every, value = again, 1, found.base
        law = inform(robot, base, loaded, delay=delay, terms=kept)
        found = wls(law)
    return LawOfData(loaded, law, kept, selection.trials)


def _with_terms(every: Information, chosen: Sequence[int]) -> Information:
    """Return the information with the base parameters, the chosen friction terms and the delay."""
    layout = every.layout
    first = layout.friction.start
    dropped = set(range(first, layout.friction.stop)) - {first + k for k in chosen}
    kept = [k for k in range(layout.size) if k not in dropped]
    return restrict(every, kept, ColumnLayout(layout.n_base, layout.n_delay, layout.n_load, len(chosen)))


def _carrying(robot: Robot, base: BaseParameters, value: Array, prepared: Prepared) -> Prepared:
    return changed(partial(with_carried, robot, base, value), prepared, same_rows=True)


def _same(robot: Robot, base: BaseParameters, value: Array, whole: Prepared, parts: Iterable[Prepared]) -> bool:
    """Return whether the torque carried is the one that base parameters `value` give, within SAME_LOAD."""
    change, size = np.zeros(len(robot.active)), np.zeros(len(robot.active))
    for part in parts:
        old = with_carried(robot, base, value, part).carried
        assert old is not None and part.carried is not None
        change += np.sum((part.carried - old) ** 2, axis=0)
        size += np.sum(old**2, axis=0)
    return bool(np.all(np.sqrt(change) <= SAME_LOAD * np.maximum(np.sqrt(size), 1e-300)))
