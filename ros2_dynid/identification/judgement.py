"""How good an estimate is: what is wrong with its data, errors on data not used, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import Option, Text
from ros2_dynid.identification.estimators import Estimate, Fit, Problem
from ros2_dynid.identification.estimators.carried_torque import with_carried
from ros2_dynid.identification.model_file import BASE, CONSISTENT, SetErrors
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical.consistency import smallest_joint_inertia
from ros2_dynid.identification.physical.parameter_sets import ESSENTIAL
from ros2_dynid.identification.preparation.elsewhere import changed
from ros2_dynid.identification.read_problem import (
    Recording,
    all_prepared,
)
from ros2_dynid.identification.torque_std import TorqueScatter, band_level
from ros2_dynid.identification.validation import (
    Comparison,
    Errors,
    HeldOut,
    LeftOut,
    Level,
    Remark,
    ValidatedBy,
    compare_torques,
    evidence_of,
    held_out_in_folds,
    torque_errors,
    verdict,
)
from ros2_dynid.identification.validation.diagnosis import Finding, diagnose, refuse
from ros2_dynid.identification.validation.effort_scale import refuse_contradictions
from ros2_dynid.identification.validation.torque_errors import Whiteness
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.progress import Progress

POSES = 256
"""Random positions at which the inertia matrix is looked at."""
PUSHING = 3.0
"""Friction that is below zero by so many standard deviations is no chance."""
WORSE = 1.05
"""Parameters left out that make the held-out error larger by less are rightly left out: that is its scatter."""


def refuse_wrong_data(problem: Problem, found: Estimate, friction: str) -> tuple[Finding, ...]:
    """Refuse what is certainly wrong with the recordings; return what is likely. friction: the law asked for."""
    sources = [prepared.source for prepared in problem.prepared]
    findings = diagnose(problem, friction=friction).findings
    refuse(findings, sources[0])
    refuse_contradictions(problem.information, found.value, sources)
    return findings


def predicted_recordings(
    problem: Problem,
    recordings: Sequence[Recording],
    values: Mapping[str, Array],
    found: Estimate,
    options: IdentifyOptions,
    report: Progress,
) -> dict[str, Comparison] | None:
    """Return how the value of each parameter set predicts recordings that it was not fitted to.

    The band of the prediction is that of the estimate `found`.
    """
    if not recordings:
        return None
    filters = max(problem.prepared, key=lambda fitted: len(fitted.t) / fitted.filter.inner_rate).filter
    prepared = all_prepared(problem.robot, recordings, options, report, (0.85, 0.0), filters)
    spread = TorqueScatter(found.covariance, found.identified, found.sigma, found.dof)
    compared = {}
    for name, value in values.items():
        if problem.terms:
            own = value[problem.information.layout.base]
            carrying = partial(with_carried, problem.robot, problem.base, own)
            prepared = [changed(carrying, part, same_rows=True) for part in prepared]
        compared[name] = compare_torques(
            problem.robot, problem.base, prepared, value, problem.prior, spread=spread, terms=problem.terms
        )
    return compared


def held_out_level(problem: Problem, found: Estimate, fit: Fit) -> Array:
    """Return the level of errors that the band of predictions allows for: that of blocks of `problem` left out."""
    names = problem.robot.active_names
    tested = held_out_in_folds(names, problem.information, None, fit).errors
    return band_level(problem.information, found, np.array([tested[name].rms for name in names]) if tested else None)


def validation_of(
    problem: Problem, tested: Problem, fit: Fit, held_out: Comparison | None, options: IdentifyOptions
) -> HeldOut:
    """Return the held-out errors: on the recordings given, else on blocks of `tested` left out in turn."""
    if held_out is not None:
        return HeldOut(held_out.errors, ValidatedBy.RECORDINGS)
    found = held_out_in_folds(problem.robot.active_names, tested.information, options.cross_validate, fit)
    if not problem.repeats or not found.folds:
        return found
    return replace(found, left_out=LeftOut.SAME_MOTION if tested.repeats else LeftOut.PARTS_OF_PERIOD)


def essential_remarks(sets: Mapping[str, SetErrors]) -> list[Remark]:
    """Say so where the essential parameters alone predict held-out data worse than all of them."""
    if ESSENTIAL not in sets or not sets[ESSENTIAL].validation:
        return []
    every, few = (sets[name].validation["all"].relative for name in (BASE, ESSENTIAL))
    if few <= WORSE * every:
        return []
    text = f"the essential parameters alone have {100 * few:.1f} % on held-out data, all of them {100 * every:.1f} %"
    hint = Text(text, ": too few are left; identify without ", Option("essential", True))
    return [Remark(Level.WARNING, hint)]


def possible(robot: Robot, base: BaseParameters, value: Array) -> bool:
    """Return whether base parameters (b,), served as they are, have a positive kinetic energy wherever it is looked."""
    chi = np.zeros(len(standard_names(robot)))
    chi[base.columns(robot)] = value
    return smallest_joint_inertia(robot, chi, count=POSES) > 0.0


def served_set(sets: Mapping[str, SetErrors], *, asked: bool) -> str:
    """Return which of the sets, in the order of their making, is the model: the last one.

    Consistent parameters that nobody asked for must predict held-out data, or fit where there are none, as well as the
    set before them does: where no bodies fit, something acts that the robot's description lacks.
    """
    *before, last = sets
    if last != CONSISTENT or asked or not before:
        return last
    best, possible_ones = (
        (sets[name].validation or sets[name].fit)["all"].relative for name in (before[-1], CONSISTENT)
    )
    return CONSISTENT if possible_ones <= WORSE * best else before[-1]


def impossible_remarks(sets: Mapping[str, SetErrors], served: str) -> list[Remark]:
    """Say so where base parameters would have motions of negative kinetic energy; served: the set that is the model."""
    text = "the inertia matrix of the base parameters is not positive definite at some positions"
    if served == CONSISTENT:
        return [Remark(Level.NOTE, Text(text, ": the closest parameters of possible bodies are served instead"))]
    why = ", and a controller that inverts it fails there: "
    if CONSISTENT not in sets:
        return [Remark(Level.WARNING, Text(text, why, "serve possible bodies, ", Option("consistent", True)))]
    other, best = (100.0 * (sets[name].validation or sets[name].fit)["all"].relative for name in (CONSISTENT, served))
    hint = (
        f"no possible bodies predict as well ({other:.1f} % instead of {best:.1f} %); springs or a counterbalance that "
    )
    return [Remark(Level.WARNING, Text(text, why, hint, "the robot file lacks may be the cause"))]


def held_friction_remarks(problem: Problem, free: Estimate, found: Estimate) -> list[Remark]:
    """Say which coefficients of friction only brake because the fit holds them at zero; free: the fit without that."""
    names = (*problem.base.names, *(term.name for term in problem.terms))
    pushing = free.value < -PUSHING * free.std
    held = [name for name, before, after in zip(names, pushing, found.value, strict=False) if before and after == 0.0]
    if not held:
        return []
    text = f"friction that would push is held at zero ({', '.join(held)}): check whether the effort is filtered or late"
    return [Remark(Level.NOTE, text)]


def verdict_of(
    problem: Problem, found: Estimate, fit: Errors, validation: HeldOut, white: Mapping[str, Whiteness]
) -> list[Remark]:
    """Return what is to be said about the estimate, from all the evidence."""
    robot, base, information = problem.robot, problem.base, problem.information
    names = robot.active_names
    prior_error = None
    if np.any(problem.prior):
        prior_error = torque_errors(names, information, problem.prior)["all"].relative
    return verdict(
        evidence_of(
            robot,
            base,
            information,
            found,
            fit,
            validation,
            prior_error=prior_error,
            whiteness=white,
            seconds=sum(float(p.t[-1] - p.t[0]) for p in problem.prepared),
            terms=problem.terms,
        )
    )
