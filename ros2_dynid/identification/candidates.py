# SPDX-License-Identifier: Apache-2.0

"""Stage 4, Estimation -> Candidates: the parameter sets that may be served: base, essential and consistent.

Base parameters are the estimate, regularised by a prior where that helps, with friction that brakes; essential ones
leave out what the data do not support; consistent ones are those of links that can exist. Each set is also an estimator
of blocks of time, which selects and constrains within the blocks that it is given, so that the folds of a
cross-validation do not see the data they are tested on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from ros2_dynid.errors import InputError, Option, ProgrammeError, Text
from ros2_dynid.identification.estimation import Estimation
from ros2_dynid.identification.estimators.estimator import FROM_TRIANGLES, Blocks, Fit, build_estimator
from ros2_dynid.identification.model_file import BASE, CONSISTENT, ESSENTIAL, TorqueError, load_model
from ros2_dynid.identification.options import PRIORS, IdentifyOptions, Method
from ros2_dynid.identification.physical.consistency import (
    ConsistencyProgramme,
    Consistent,
    build_programme,
    has_positive_inertia,
    impose,
    make_consistent,
    smallest_joint_inertia,
)
from ros2_dynid.identification.physical.consistency import table as consistent_counts
from ros2_dynid.identification.physical.essential import (
    Essential,
    EssentialThresholds,
    essential,
    largest_of,
    significant,
)
from ros2_dynid.identification.physical.prior_sources import bodies_to_start_from, described_prior, model_prior
from ros2_dynid.identification.physical.standard import closest, essential_change, on_leaders, with_drives
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.dissipative_fit import dissipative_estimate, dissipative_value
from ros2_dynid.identification.regression.estimate import Estimate, Triangle
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import weighted_triangle
from ros2_dynid.identification.regression.prior import Prior, PriorFit, ServedValues, regularize_estimate, stack_prior
from ros2_dynid.identification.regression.two_sensors import TwoSensors
from ros2_dynid.identification.validation.torque_errors import torque_errors
from ros2_dynid.model.parameters import standard_names, standard_vector, unmeasured_parameters
from ros2_dynid.model.robot import Array
from ros2_dynid.progress import Progress


@dataclass(frozen=True)
class Consistency:
    """Number of links that can exist, by tolerance [kg.m^2] and in full, for each set of standard parameters.

    fit, loss: torque errors of the imposed set, and growth of the weighted error's norm over that of the best fit;
    smallest_joint_inertia: smallest eigenvalue of M(q) over random positions, of the standard and the imposed set.
    """

    a_priori: Mapping[str, int]
    base: Mapping[str, int] | None = None
    essential: Mapping[str, int] | None = None
    imposed: Mapping[str, int] | None = None
    fit: Mapping[str, TorqueError] | None = None
    loss: float | None = None
    smallest_joint_inertia: float | None = None
    smallest_joint_inertia_imposed: float | None = None


@dataclass(frozen=True)
class PhysicalParameters:
    """Standard and consistent parameters by name, as far as asked for, and how many links are consistent.

    value: base parameters and delay of the consistent ones.
    """

    standard: Mapping[str, float] | None = None
    consistent: Mapping[str, float] | None = None
    value: Array | None = None
    consistency: Consistency | None = None


@dataclass(frozen=True, eq=False)
class Candidates:
    """Parameter sets by name, in the order of their making: a value for each column of W.

    unconstrained: the estimate whose friction may push. estimate: of the last set but the consistent one, with its
    error bars. prior_fit: what it was regularised by, if a prior was tried. selection: how the essential parameters
    were found. positive: whether the estimate has a positive kinetic energy wherever it is looked.
    """

    values: Mapping[str, Array]
    unconstrained: Estimate
    estimate: Estimate
    prior_fit: PriorFit | None
    selection: Essential | None
    physical: PhysicalParameters
    positive: bool

    @property
    def consistent_prior(self) -> bool:
        """Whether a prior is used whose weight was chosen for consistent parameters."""
        return self.prior_fit is not None and self.prior_fit.used and self.prior_fit.weight.consistent


@dataclass(frozen=True, eq=False)
class PriorChoice:
    """The prior of a problem; force: used in any case. served: makes the consistent parameters that are compared."""

    prior: Prior
    force: bool
    served: ServedValues | None = None


def build_candidates(
    problem: Problem, estimation: Estimation, options: IdentifyOptions, report: Progress
) -> Candidates:
    """Return the parameter sets that the options ask for, and the consistent one where the estimate is of no robot."""
    choice, full, prior_fit = choose_prior(problem, options), estimation.data, None
    if choice is not None:
        report("prior", 0.81)
        prior_fit = regularize_estimate(
            problem.information, estimation.data, choice.prior, force=choice.force, served=choice.served
        )
        full = prior_fit.estimate
    estimate, selection = brake_friction(problem, full, prior_fit), None
    values = {BASE: estimate.value}
    if options.drops_parameters:
        report("essential parameters", 0.82)
        selection = select_parameters(problem, options)(problem.information, full, None)
        estimate = brake_friction(problem, selection.estimate, kept=selection.kept)
        values[ESSENTIAL] = estimate.value
    report("physical parameters", 0.84)
    positive = has_positive_inertia(problem.robot, problem.base, estimate.base)
    candidates = Candidates(values, full, estimate, prior_fit, selection, PhysicalParameters(), positive)
    physical = _find_physical(problem, candidates, options)
    if physical.value is not None:
        values[CONSISTENT] = physical.value
    return replace(candidates, values=values, physical=physical)


def select_parameters(
    problem: Problem, options: IdentifyOptions
) -> Callable[[Information, Estimate, int | None], Essential]:
    """Return what selects the parameters that stay, from information, estimate and how many may go at most."""
    if options.significant is None:
        thresholds = EssentialThresholds(options.essential_std)
        return lambda part, full, most: essential(part, full, thresholds, most=most)
    largest, share = largest_of(problem.rows(k) for k in range(len(problem.prepared))), options.significant
    return lambda part, full, most: significant(part, full, largest, share)


def choose_prior(problem: Problem, options: IdentifyOptions) -> PriorChoice | None:
    """Return the prior asked for, None without one."""
    if problem.second is not None and (options.drops_parameters or options.prior not in ("auto", "none")):
        what = "efforts at the motors and torques at the links are fitted together: without a prior, and all parameters"
        raise InputError(what, Text("leave out ", Option("essential", True), " and ", Option("prior")))
    if options.prior == "none" or options.drops_parameters or problem.second is not None:
        return None
    if options.prior not in PRIORS:
        return PriorChoice(model_prior(problem, load_model(options.prior), options.prior), force=True)
    prior = described_prior(problem, guess=options.prior == "auto")
    return PriorChoice(prior, options.prior == "urdf", _consistent_values(problem))


def _consistent_values(problem: Problem) -> ServedValues:
    """Return what makes the values to serve: consistent ones with a prior, or where the estimate is of no robot."""

    programme = cache(partial(build_consistency_programme, problem))

    def served(part: Information, estimate: Estimate, prior_fit: PriorFit | None) -> Array:
        if prior_fit is None and has_positive_inertia(problem.robot, problem.base, estimate.base):
            return estimate.value
        try:
            imposed = impose_consistency(problem, part, estimate, prior_fit, programme=programme())
            return estimate.with_base(imposed.value).value
        except ProgrammeError:  # as `build_candidates` serves it then
            return estimate.value

    return served


def build_candidate_fits(
    problem: Problem,
    fit: Fit,
    candidates: Candidates,
    options: IdentifyOptions,
    choice: PriorChoice | None,
) -> dict[str, Fit]:
    """Return an estimator for each parameter set, from the one that `fit` starts with; choice: the prior, if any.

    A prior that does not help the estimate is not weighed by consistent parameters in every fold: that takes a while.
    """
    full, weighed = cache(fit), candidates.prior_fit is not None and candidates.prior_fit.weight.consistent
    dropped = None if candidates.selection is None else sum(step.dropped for step in candidates.selection.steps)

    @cache
    def fit_with_prior(blocks: Blocks) -> PriorFit | None:
        if choice is None:
            return None
        part, served = problem.information.take(blocks), choice.served if weighed else None
        return regularize_estimate(part, fit(blocks), choice.prior, force=choice.force, served=served)

    def fit_base(blocks: Blocks) -> Estimate:
        prior_fit = fit_with_prior(blocks)
        estimate = full(blocks) if prior_fit is None else prior_fit.estimate
        return brake_friction(problem, estimate, prior_fit, blocks=blocks)

    select = select_parameters(problem, options)

    def fit_essential(blocks: Blocks) -> Estimate:
        part = problem.information.take(blocks)
        few = select(part, full(blocks), dropped)
        return brake_friction(problem, few.estimate, blocks=blocks, kept=few.kept)

    fits: dict[str, Fit] = {BASE: cache(fit_base)}
    if ESSENTIAL in candidates.values:
        fits[ESSENTIAL] = cache(fit_essential)
    start = fits[ESSENTIAL if ESSENTIAL in fits else BASE]
    programme = cache(partial(build_consistency_programme, problem))

    def fit_consistent(blocks: Blocks) -> Estimate:
        estimate, part = start(blocks), problem.information.take(blocks)
        prior_fit = fit_with_prior(blocks)
        imposed = impose_consistency(problem, part, estimate, prior_fit, blocks, programme=programme())
        return estimate.with_base(imposed.value)

    if CONSISTENT in candidates.values:
        fits[CONSISTENT] = fit_consistent
    return fits


def brake_friction(
    problem: Problem,
    estimate: Estimate,
    prior_fit: PriorFit | None = None,
    *,
    blocks: Sequence[int] | None = None,
    kept: Sequence[int] | None = None,
) -> Estimate:
    """Return the estimate of a problem under the inequalities of friction that brakes.

    prior_fit: what it was regularised by; blocks: those that it was fitted to; kept: base parameters that are not held
    at zero, all if None.
    """
    rows, two = problem.friction_rows, problem.second
    if two is not None:
        both = two.information.take(blocks)
        return two.in_first_stream(dissipative_estimate(both, two.estimate(blocks), rows @ two.back))
    information, free = problem.information.take(blocks), None
    if kept is not None:
        free = ~information.layout.is_base
        free[list(kept)] = True
    prior, weight = _prior_and_weight(prior_fit)
    return dissipative_estimate(information, estimate, rows, prior=prior, weight=weight, free=free)


def build_consistency_programme(problem: Problem) -> ConsistencyProgramme:
    """Return the programme of parameters that links can have, close to the robot's description."""
    rows, second = problem.friction_rows, problem.second
    reference = bodies_to_start_from(problem.robot, problem.information)
    if second is not None:
        return build_programme(problem.robot, second.base, reference, rows @ second.back)
    return build_programme(problem.robot, problem.base, reference, rows)


def impose_consistency(
    problem: Problem,
    information: Information,
    estimate: Estimate,
    prior_fit: PriorFit | None = None,
    blocks: Sequence[int] | None = None,
    *,
    programme: ConsistencyProgramme | None = None,
) -> Consistent:
    """Return the consistent parameters closest to the data, weighted as the estimate was, with its delay and friction.

    prior_fit: the prior, and its weight, that they are regularised by as well; blocks: those that are used. programme:
    that of the problem, which many fits share; it is built if None.
    """
    programme = programme or build_consistency_programme(problem)
    if problem.second is not None:
        return _impose_on_both(problem, problem.second, programme, blocks)
    triangle, (prior, weight) = weighted_triangle(information, 1.0 / estimate.sigma), _prior_and_weight(prior_fit)
    if prior is not None and weight > 0.0:
        triangle = stack_prior(triangle, prior, weight)
    value = dissipative_value(information, estimate, problem.friction_rows, prior=prior, weight=weight)
    if estimate.method not in FROM_TRIANGLES:
        triangle = _rows_about(triangle, value)
    return _without_unmeasured(problem, impose(programme, triangle, value))


def _without_unmeasured(problem: Problem, imposed: Consistent) -> Consistent:
    """Return the parameters with zero for those that no effort holds, which the programme leaves anywhere."""
    robot, absent = problem.robot, unmeasured_parameters(problem.robot)
    chi = np.where([name in absent for name in standard_names(robot)], 0.0, imposed.chi)
    return Consistent(chi, problem.base.values(robot, chi), imposed.loss)


def _prior_and_weight(prior_fit: PriorFit | None) -> tuple[Prior | None, float]:
    return (None, 0.0) if prior_fit is None else (prior_fit.prior, prior_fit.weight.weight)


def _rows_about(triangle: Triangle, value: Array) -> Triangle:
    """Return the rows of [W tau] with the torque of `value` (size,) and the size of its error: least squares finds it.

    Estimators that least squares on these rows would undo, such as instrumental variables, keep what they have found.
    """
    error = np.linalg.norm(triangle.tau - triangle.W @ value)
    rows = np.column_stack((triangle.W, triangle.W @ value))
    return Triangle(np.vstack((rows, np.append(np.zeros(rows.shape[1] - 1), error))), triangle.layout)


def _impose_on_both(
    problem: Problem, second: TwoSensors, programme: ConsistencyProgramme, blocks: Sequence[int] | None
) -> Consistent:
    """Return the consistent parameters closest to both streams of efforts, in the base parameters of the first one."""
    part, rows = second.information.take(blocks), problem.friction_rows @ second.back
    both = dissipative_estimate(part, second.estimate(blocks), rows)
    triangle = weighted_triangle(part, 1.0 / both.sigma)
    imposed = impose(programme, triangle, both.value)
    return _without_unmeasured(problem, imposed)


def _find_physical(problem: Problem, candidates: Candidates, options: IdentifyOptions) -> PhysicalParameters:
    """Return the standard and consistent parameters asked for; the latter too where the estimate is not to be served.

    Without a solution of the semidefinite programme it is served anyway.
    """
    if (not candidates.positive or candidates.consistent_prior) and not options.consistent:
        with contextlib.suppress(ProgrammeError):
            return find_physical_parameters(problem, candidates, replace(options, consistent=True))
    return find_physical_parameters(problem, candidates, options)


def find_physical_parameters(problem: Problem, candidates: Candidates, options: IdentifyOptions) -> PhysicalParameters:
    """Return the standard and consistent parameters asked for, and how many links are consistent (Table III)."""
    if not (options.standard or options.consistent):
        return PhysicalParameters()
    robot = problem.robot
    physical = PhysicalParameters(consistency=Consistency(a_priori=consistent_counts(robot, standard_vector(robot))))
    if options.standard:
        physical = _add_standard(problem, candidates, options, physical)
    if options.consistent:
        physical = _add_consistent(problem, candidates, physical)
    return physical


def _add_standard(
    problem: Problem, candidates: Candidates, options: IdentifyOptions, physical: PhysicalParameters
) -> PhysicalParameters:
    """Return the standard parameters closest to the a priori ones (Gautier 2013, eq. 30 to 33)."""
    robot, base, estimate, selection = problem.robot, problem.base, candidates.estimate, candidates.selection
    reference = make_consistent(robot, standard_vector(robot))
    full = estimate if selection is None else build_estimator(Method.WLS, problem)(None)
    chi = closest(robot, base, full.base, reference, options.distance)
    assert physical.consistency is not None
    consistency = replace(physical.consistency, base=consistent_counts(robot, chi))
    if selection is not None:
        known = with_drives(robot, chi, reference)
        weights = 1.0 / estimate.sigma
        change = essential_change(robot, base, problem.information, weights, selection.kept, known, estimate.value)
        if options.distance == "euclidean":
            chi = on_leaders(robot, base, change - base.full_map(robot) @ known, known)
        else:
            chi = closest(robot, base, change, known)
        consistency = replace(consistency, essential=consistent_counts(robot, chi))
    consistency = replace(consistency, smallest_joint_inertia=smallest_joint_inertia(robot, chi))
    standard = dict(zip(standard_names(robot), chi.tolist(), strict=True))
    return replace(physical, standard=standard, consistency=consistency)


def _add_consistent(problem: Problem, candidates: Candidates, physical: PhysicalParameters) -> PhysicalParameters:
    """Return the consistent parameters closest to the data."""
    robot, information, estimate = problem.robot, problem.information, candidates.estimate
    imposed = impose_consistency(problem, information, estimate, candidates.prior_fit)
    value = estimate.with_base(imposed.value).value
    assert physical.consistency is not None
    consistency = replace(
        physical.consistency,
        imposed=consistent_counts(robot, imposed.chi),
        fit=torque_errors(robot.active_names, information, value),
        loss=imposed.loss,
        smallest_joint_inertia_imposed=smallest_joint_inertia(robot, imposed.chi),
    )
    consistent = dict(zip(standard_names(robot), imposed.chi.tolist(), strict=True))
    return replace(physical, consistent=consistent, value=value, consistency=consistency)
