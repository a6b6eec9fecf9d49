# SPDX-License-Identifier: Apache-2.0

"""Friction that grows with the load on the gears, while a load is identified: it changes what the gears carry.

The law is found from the recordings without the load. Its columns for the recordings with it hang on the torque that
links, rotors and load ask for, base + M_L phi, so the load is estimated in turns: phi gives the gear torque, which
gives phi, until the mass stays. Friction is the same in both recordings, but for what the load does to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.identification.decisions.friction_law import FrictionDecision, choose_friction_law
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads.drive_gains import Gains, drive_gains
from ros2_dynid.identification.loads.payload_fit import (
    Payload,
    build_load_information,
    identify_load_on_model,
    identify_loads,
    load_map,
)
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import with_gear_torque
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import Information, select_friction
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionTerm, law_columns
from ros2_dynid.model.robot import Array, Robot

ROUNDS = 6
GAIN_ROUNDS = 4
SAME_GAIN = 1e-3
"""Change of a gain, relative, below which the torque is that of the gains found."""
SAME_LOAD = 1e-4
"""Change of the load, relative, below which the gear torque is that of the load found."""


def law_of(choice: Problem | FrictionDecision) -> tuple[FrictionTerm, ...]:
    """Return the terms that were chosen, at the Stribeck speeds tried last."""
    return tuple(term for term in choice.terms if not term.of_shape)


def identify_loads_with_law(
    empty: Problem,
    loaded: Sequence[Problem],
    terms: Sequence[FrictionTerm],
    *,
    link: str | None = None,
    free: bool = False,
) -> list[Payload]:
    """Return loads on one link, each with recordings of its own, in one fit, for a law found without them."""
    robot, base = empty.robot, empty.base
    M_L, delay = load_map(robot, base, link), bool(empty.information.layout.n_delay)
    bare, with_load = empty.plain().information, [part.information for part in loaded]
    loads = np.zeros((len(loaded), M_L.shape[1]))
    for _ in range(ROUNDS if terms else 0):
        estimate, before = wls(build_load_information(robot, base, bare, with_load, link)), loads
        value, loads = estimate.base, estimate.load.reshape(loads.shape)
        change, size = (np.linalg.norm(x @ M_L.T, axis=1) for x in (loads - before, loads))
        if np.all(change <= SAME_LOAD * size):
            break
        bare = _build_with_terms(robot, base, empty.prepared, value, terms, delay)
        with_load = [
            _build_with_terms(robot, base, part.prepared, value + M_L @ load, terms, delay)
            for part, load in zip(loaded, loads, strict=True)
        ]
    return identify_loads(robot, base, bare, with_load, link=link, free=free)


def identify_load_on_model_with_law(
    model: IdentifiedModel, loaded: Problem, *, link: str | None = None, free: bool = False
) -> Payload:
    """Return the load from recordings with it and a model, whose friction terms are taken as they are.

    Their error bars enter those of the load, unless the model's file is too old to tell how they go with the others'.
    """
    robot, base = loaded.robot, loaded.base
    M_L = load_map(robot, base, link)
    terms = model.robot.friction
    known = model.friction_covariance is not None
    columns = law_columns(terms) if known else terms
    coefficients = np.array([term.coefficient for term in terms])
    delay = bool(loaded.information.layout.n_delay)
    load = np.zeros(M_L.shape[1])
    for _ in range(ROUNDS):
        before = load
        rows = _build_with_terms(robot, base, loaded.prepared, model.value + M_L @ load, columns, delay)
        rows = rows if known else select_friction(rows, (), coefficients)
        payload = identify_load_on_model(model, base, rows, link=link, free=free)
        load = payload.parameters
        if np.linalg.norm(M_L @ (load - before)) <= SAME_LOAD * np.linalg.norm(M_L @ load):
            break
    return payload


def drive_gains_with_law(
    empty: Problem, loaded: Problem, friction: str, method: Method, mass: float, load: Array | None
) -> Gains:
    """Return the gains of all joints from problems with plain friction; friction: a law or auto.

    Efforts times gains are torques, from which follow the law and the gear torque, from which follow the gains: in
    turns, from the gains of plain friction on.
    """
    robot, base = empty.robot, empty.base
    delay = bool(empty.information.layout.n_delay)
    M_L = load_map(robot, base)
    gains = drive_gains(robot, base, empty.information, loaded.information, mass, load=load)
    for _ in range(GAIN_ROUNDS if friction != PLAIN else 0):
        known = np.where(np.isfinite(gains.value), gains.value, 1.0)
        parts = [tuple(replace(p, tau=p.tau * known) for p in problem.prepared) for problem in (empty, loaded)]
        bare, full = (build_information(robot, base, part, delay=delay) for part in parts)
        terms = law_of(choose_friction_law(robot, base, parts[0], bare, friction, method))
        if not terms:
            break
        estimate = wls(build_load_information(robot, base, bare, [full]))
        values = (estimate.base, estimate.base + M_L @ estimate.load)
        bare, full = (_build_with_terms(robot, base, p, v, terms, delay) for p, v in zip(parts, values, strict=True))
        again = drive_gains(robot, base, bare, full, mass, load=load)
        value, std = again.value * known, again.std * np.abs(known)
        gains = replace(again, value=value, std=std)
        if np.all(np.abs(again.value[np.isfinite(value)] - 1.0) < SAME_GAIN):
            break
    return gains


def _build_with_terms(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    value: Array,
    terms: Sequence[FrictionTerm],
    delay: bool,
) -> Information:
    """Return the information with the columns of the terms, for gears that carry what `value`, shape (b,), asks for."""
    carrying = [with_gear_torque(robot, base, value, part) for part in prepared]
    return build_information(robot, base, carrying, delay=delay, terms=terms)
