# SPDX-License-Identifier: Apache-2.0

"""Stage 6, Scores -> Choice: which parameter set is the model, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import Text
from ros2_dynid.identification.candidates import Candidates
from ros2_dynid.identification.estimation import Estimation
from ros2_dynid.identification.model_file import CONSISTENT, SetErrors
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.scores import Scores
from ros2_dynid.identification.validation.cross_validation import HeldOut
from ros2_dynid.identification.validation.other_motions import unknown_share
from ros2_dynid.identification.validation.resonance import find_resonances
from ros2_dynid.identification.validation.torque_errors import AS_WELL, Comparison, compare_torques, torque_errors
from ros2_dynid.identification.validation.verdict import (
    Level,
    Remark,
    gather_evidence,
    give_verdict,
    remark_on_coverage,
    remark_on_essential,
    remark_on_held_friction,
    remark_on_impossible,
    remark_on_prior,
    remark_on_resonances,
    remark_on_sensors,
    sort_remarks,
)
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class Choice:
    """The parameter set that is the model, by name, with its value; remarks: the verdict, problems first."""

    served: str
    value: Array
    errors: SetErrors
    validation: HeldOut
    fitted: Comparison
    remarks: tuple[Remark, ...]


def choose_candidate(
    problem: Problem, estimation: Estimation, candidates: Candidates, scores: Scores, options: IdentifyOptions
) -> Choice:
    """Return the parameter set to serve, and what is to be said about it."""
    asked = options.consistent or candidates.consistent_prior  # a prior weighed for consistent parameters serves them
    served = select_served_set(scores.compared_sets, asked=asked)
    if scores.comparisons is None:  # nor may the errors that are shown speak against it
        served = min(served, select_served_set(scores.sets, asked=asked), key=list(scores.sets).index)
    value, errors = candidates.values[served], scores.sets[served]
    fitted = compare_torques(problem.robot, problem.base, problem.prepared, value, problem.prior, terms=problem.terms)
    choice = Choice(served, value, errors, scores.validations[served], fitted, ())
    remarks = _remarks(problem, estimation, candidates, scores, choice, options)
    return replace(choice, remarks=tuple(sort_remarks(remarks)))


def select_served_set(sets: Mapping[str, SetErrors], *, asked: bool) -> str:
    """Return which of the sets, in the order of their making, is the model: the last one.

    Consistent parameters that nobody asked for must predict held-out data, or fit where there are none, as well as the
    set before them does: where no links that can exist fit, something acts that the robot's description lacks.
    """
    *before, last = sets
    if last != CONSISTENT or asked or not before:
        return last
    best, consistent = ((sets[name].validation or sets[name].fit)["all"].relative for name in (before[-1], CONSISTENT))
    return CONSISTENT if consistent <= AS_WELL * best else before[-1]


def _remarks(
    problem: Problem,
    estimation: Estimation,
    candidates: Candidates,
    scores: Scores,
    choice: Choice,
    options: IdentifyOptions,
) -> list[Remark]:
    remarks = [Remark(Level.PROBLEM, Text(finding.what, "; ", finding.hint)) for finding in estimation.findings]
    if estimation.advice.reason is not None:
        remarks.append(Remark(Level.WARNING, estimation.advice.reason))
    remarks += judge_estimate(problem, candidates, choice)
    remarks += remark_on_prior(candidates.prior_fit, problem.base.names)
    remarks += remark_on_essential(scores.sets)
    names = (*problem.base.names, *(term.name for term in problem.terms))
    remarks += remark_on_held_friction(names, candidates.unconstrained, candidates.estimate)
    if not candidates.positive and not options.consistent:
        remarks += remark_on_impossible(scores.compared_sets, choice.served)
    remarks += remark_on_sensors(estimation.sensor_sides)
    remarks += remark_on_resonances(find_resonances(problem.robot, problem.base, problem.prepared, choice.value))
    coverage = {} if scores.comparisons is None else scores.comparisons[choice.served].coverage
    return remarks + remark_on_coverage(coverage)


def judge_estimate(problem: Problem, candidates: Candidates, choice: Choice) -> list[Remark]:
    """Return what is to be said about the estimate itself, from all the evidence."""
    robot, information, prior_error = problem.robot, problem.information, None
    if np.any(problem.prior):
        prior_error = torque_errors(robot.active_names, information, problem.prior)["all"].relative
    return give_verdict(
        gather_evidence(
            robot,
            problem.base,
            information,
            candidates.estimate,
            choice.errors.fit,
            choice.validation,
            prior_error=prior_error,
            whiteness=choice.fitted.whiteness,
            seconds=sum(float(p.t[-1] - p.t[0]) for p in problem.prepared),
            terms=problem.terms,
            other_motion=unknown_share(robot, problem.base, candidates.estimate, problem.prepared),
        )
    )
