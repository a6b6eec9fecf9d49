"""The parameter sets of one identification as estimators: base, essential and consistent.

Each selects and constrains within the blocks of time that it is given, so that the folds of a cross-validation do not
see the data they are tested on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ros2_dynid.identification.estimators.column_layout import Triangle
from ros2_dynid.identification.estimators.dissipative_fit import dissipative_estimate, dissipative_fit
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.estimators.fit import FROM_TRIANGLES, Fit, Problem
from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.identification.estimators.least_squares import weighted_triangle
from ros2_dynid.identification.estimators.prior import Draw, Drawn, joined
from ros2_dynid.identification.estimators.two_sensors import TwoSensors
from ros2_dynid.identification.physical.consistency import Consistent, impose
from ros2_dynid.identification.physical.essential import RELATIVE_STD, essential
from ros2_dynid.identification.physical.prior_sources import bodies_to_start_from
from ros2_dynid.model.parameters import not_felt, standard_names
from ros2_dynid.model.robot import Array

BASE, ESSENTIAL, CONSISTENT = "base", "essential", "consistent"


def set_fits(
    problem: Problem,
    fit: Fit,
    *,
    with_essential: bool,
    with_consistent: bool,
    essential_std: float = RELATIVE_STD,
    dropped: int | None = None,
    draw: Draw | None = None,
) -> dict[str, Fit]:
    """Return an estimator for each parameter set asked for; each starts from the one before it.

    dropped: how many parameters are not essential, so that no fold drops more; draw: draws what `fit` finds towards a
    prior, if there is one.
    """
    information = problem.information
    draw = None if draw is None else _remembered(draw)
    full = _remembered(fit) if draw is None else _estimates(draw)

    def base_fit(chosen: Sequence[int] | None) -> Estimate:
        return dissipative_fit(problem, full(chosen), None if draw is None else draw(chosen), chosen=chosen)

    def essential_fit(chosen: Sequence[int] | None) -> Estimate:
        part = _taken(information, chosen)
        few = essential(part, full(chosen), relative_std=essential_std, most=dropped)
        return dissipative_fit(problem, few.estimate, chosen=chosen, kept=few.kept)

    fits = {BASE: _remembered(base_fit)}
    if with_essential:
        fits[ESSENTIAL] = _remembered(essential_fit)
    start = fits[ESSENTIAL if with_essential else BASE]

    def consistent_fit(chosen: Sequence[int] | None) -> Estimate:
        found = start(chosen)
        drawn = None if draw is None else draw(chosen)
        imposed = imposed_on(problem, _taken(information, chosen), found, drawn, chosen)
        return found.with_base(imposed.value)

    if with_consistent:
        fits[CONSISTENT] = consistent_fit
    return fits


def imposed_on(
    problem: Problem,
    information: Information,
    found: Estimate,
    drawn: Drawn | None = None,
    chosen: Sequence[int] | None = None,
) -> Consistent:
    """Return the consistent parameters closest to the data, weighted as `found` was, beside its delay and friction.

    drawn: towards which prior, and how much, they are drawn as well; chosen: blocks of time that are used.
    """
    reference = bodies_to_start_from(problem.robot, problem.information)
    if problem.second is not None:
        return _imposed_on_both(problem, problem.second, reference, chosen)
    triangle = weighted_triangle(information, 1.0 / found.sigma)
    prior, weight = (None, 0.0) if drawn is None else (drawn.prior, drawn.weighing.weight)
    if prior is not None and weight > 0.0:
        triangle = joined(triangle, prior, weight)
    found = dissipative_estimate(information, found, problem.friction_rows, prior=prior, weight=weight)
    if found.method not in FROM_TRIANGLES:
        triangle = _about(triangle, found.value)
    return impose(problem.robot, problem.base, triangle, found.value, reference, problem.friction_rows)


def _about(triangle: Triangle, value: Array) -> Triangle:
    """Return the rows of [W tau] with the torque of `value` (size,) and the size of its error: least squares finds it.

    Estimators that least squares on these rows would undo, such as instrumental variables, keep what they have found.
    """
    error = np.linalg.norm(triangle.tau - triangle.W @ value)
    rows = np.column_stack((triangle.W, triangle.W @ value))
    return Triangle(np.vstack((rows, np.append(np.zeros(rows.shape[1] - 1), error))), triangle.layout)


def _imposed_on_both(
    problem: Problem, second: TwoSensors, reference: Array, chosen: Sequence[int] | None
) -> Consistent:
    """Return the consistent parameters closest to both streams of efforts, in the base parameters of the first one."""
    robot, part, rows = problem.robot, _taken(second.information, chosen), problem.friction_rows @ second.back
    both = dissipative_estimate(part, second.estimate(chosen), rows)
    triangle = weighted_triangle(part, 1.0 / both.sigma)
    imposed = impose(robot, second.base, triangle, both.value, reference, rows)
    gone = not_felt(robot)
    chi = np.where([name in gone for name in standard_names(robot)], 0.0, imposed.chi)
    return Consistent(chi, problem.base.values(robot, chi), imposed.loss)


def _taken(information: Information, chosen: Sequence[int] | None) -> Information:
    return information if chosen is None else information.take(chosen)


def _estimates(draw: Draw) -> Fit:
    return lambda chosen: draw(chosen).estimate


Found = TypeVar("Found")


def _remembered(fit: Callable[[Sequence[int] | None], Found]) -> Callable[[Sequence[int] | None], Found]:
    """Return the same estimator; what it found from the same blocks is not computed twice."""
    known: dict[tuple[int, ...] | None, Found] = {}

    def remembered(chosen: Sequence[int] | None) -> Found:
        key = None if chosen is None else tuple(chosen)
        if key not in known:
            known[key] = fit(chosen)
        return known[key]

    return remembered
