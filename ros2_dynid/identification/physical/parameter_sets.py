"""The parameter sets of one identification as estimators: base, essential and consistent.

Each selects and constrains within the blocks of time that it is given, so that the folds of a cross-validation do not
see the data they are tested on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ros2_dynid.dynamics.friction_terms import term_column
from ros2_dynid.identification.estimators.column_layout import Triangle
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.estimators.fit import FROM_TRIANGLES, Fit, Problem
from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.identification.estimators.least_squares import weighted_triangle
from ros2_dynid.identification.estimators.prior import Draw, Drawn, joined
from ros2_dynid.identification.estimators.two_sensors import TwoSensors
from ros2_dynid.identification.physical.consistency import Consistent, impose
from ros2_dynid.identification.physical.essential import RELATIVE_STD, essential
from ros2_dynid.identification.physical.prior_sources import bodies_to_start_from
from ros2_dynid.identification.preparation.elsewhere import range_of
from ros2_dynid.model.friction_kinds import THERMAL, FrictionKind
from ros2_dynid.model.parameters import not_felt, standard_names
from ros2_dynid.model.robot import Array

BASE, ESSENTIAL, CONSISTENT = "base", "essential", "consistent"
SPEEDS = np.linspace(0.02, 1.0, 50)
"""Shares of a joint's top speed at which its friction must dissipate; below, rows are left out as too slow."""


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
    fits = {BASE: _remembered(fit) if draw is None else _estimates(draw)}

    def essential_fit(chosen: Sequence[int] | None) -> Estimate:
        part, full = _taken(information, chosen), fits[BASE](chosen)
        return essential(part, full, relative_std=essential_std, most=dropped).estimate

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
        return _imposed_on_both(problem, problem.second, found, reference, chosen)
    triangle = weighted_triangle(information, 1.0 / found.sigma)
    if drawn is not None and drawn.weighing.weight > 0.0:
        triangle = joined(triangle, drawn.prior, drawn.weighing.weight)
    if found.method not in FROM_TRIANGLES:
        triangle = _about(triangle, found.value)
    return impose(problem.robot, problem.base, triangle, found.value, reference, least_friction(problem, found))


def _about(triangle: Triangle, value: Array) -> Triangle:
    """Return the rows of [W tau] with the torque of `value` (size,) and the size of its error: least squares finds it.

    Estimators that least squares on these rows would undo, such as instrumental variables, keep what they have found.
    """
    error = np.linalg.norm(triangle.tau - triangle.W @ value)
    rows = np.column_stack((triangle.W, triangle.W @ value))
    return Triangle(np.vstack((rows, np.append(np.zeros(rows.shape[1] - 1), error))), triangle.layout)


def _imposed_on_both(
    problem: Problem, second: TwoSensors, found: Estimate, reference: Array, chosen: Sequence[int] | None
) -> Consistent:
    """Return the consistent parameters closest to both streams of efforts, in the base parameters of the first one."""
    robot, both = problem.robot, second.estimate(chosen)
    triangle = weighted_triangle(_taken(second.information, chosen), 1.0 / both.sigma)
    imposed = impose(robot, second.base, triangle, both.value, reference, least_friction(problem, found))
    gone = not_felt(robot)
    chi = np.where([name in gone for name in standard_names(robot)], 0.0, imposed.chi)
    return Consistent(chi, problem.base.values(robot, chi), imposed.loss)


def least_friction(problem: Problem, found: Estimate) -> dict[str, float]:
    """Return, by name, how large Fv and Fc must be for friction to dissipate in both directions and at every
    temperature recorded, beside the terms that may be negative. Less than zero where other terms make up for it."""
    warmth = range_of([prepared.temperatures for prepared in problem.prepared])
    least = _below_zero(problem, found)
    for term, value in zip(problem.terms, found.friction.tolist(), strict=True):
        if term.kind is FrictionKind.ASYMMETRIC:
            least[f"Fv{term.joint}"] = least.get(f"Fv{term.joint}", 0.0) + abs(value)
        elif term.kind in THERMAL and warmth is not None:
            name = f"{'Fc' if term.kind is FrictionKind.TEMPERATURE else 'Fv'}{term.joint}"
            changes = value * (warmth[:, problem.robot.active.index(term.joint)] - term.reference)
            least[name] = least.get(name, 0.0) + max(0.0, -float(np.nan_to_num(changes).min()))
    return least


def _below_zero(problem: Problem, found: Estimate) -> dict[str, float]:
    """Return the least Fv and Fc, by name, with which a joint's law as a whole dissipates at the speeds recorded.

    A root term and a negative Fv together are a curve that flattens: Fv may be as negative as it was found, and Fc what
    is needed beside that and the terms. Laws with terms that differ between the directions or with the temperature are
    left out.
    """
    robot, layout = problem.robot, problem.information.layout
    terms = list(zip(problem.terms, found.value[layout.friction].tolist(), strict=True))
    least: dict[str, float] = {}
    for k, joint in enumerate(robot.active):
        own = [(term, value) for term, value in terms if term.joint == joint]
        odd = any(term.kind is FrictionKind.ASYMMETRIC or term.kind in THERMAL for term, _ in own)
        names = (f"Fv{joint}", f"Fc{joint}")
        if not own or odd or not set(names) <= set(problem.base.leaders):
            continue
        viscous = min(0.0, float(found.base[problem.base.leaders.index(names[0])]))
        speed = SPEEDS * max(float(prepared.top_speed[k]) for prepared in problem.prepared)
        force = viscous * speed
        for term, value in own:
            force += value * term_column(term, speed, np.ones_like(speed), np.zeros_like(speed), None)
        least |= {names[0]: viscous, names[1]: -float(force.min())}
    return least


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
