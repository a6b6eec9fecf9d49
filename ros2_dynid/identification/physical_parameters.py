"""Standard and consistent parameters of an estimate, as far as they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import Estimate, Problem, fitter
from ros2_dynid.identification.estimators.prior import Drawn
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.outcome import (
    Consistency,
)
from ros2_dynid.identification.physical import Essential, closest, made_consistent
from ros2_dynid.identification.physical.consistency import smallest_joint_inertia
from ros2_dynid.identification.physical.consistency import table as consistent_counts
from ros2_dynid.identification.physical.parameter_sets import imposed_on
from ros2_dynid.identification.physical.standard import essential_change, full_map, on_leaders, with_drives
from ros2_dynid.identification.validation import (
    torque_errors,
)
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class PhysicalParameters:
    """Standard and consistent parameters by name, as far as asked for, and how many links are consistent.

    value: base parameters and delay of the consistent ones.
    """

    standard: Mapping[str, float] | None = None
    consistent: Mapping[str, float] | None = None
    value: Array | None = None
    consistency: Consistency | None = None


def physical_parameters(
    problem: Problem,
    found: Estimate,
    selection: Essential | None,
    options: IdentifyOptions,
    drawn: Drawn | None = None,
) -> PhysicalParameters:
    """Return the standard and consistent parameters asked for, and how many links are consistent (Table III)."""
    if not (options.standard or options.consistent):
        return PhysicalParameters()
    robot, base, names = problem.robot, problem.base, standard_names(problem.robot)
    a_priori = standard_vector(robot)
    reference, weights = made_consistent(robot, a_priori), 1.0 / found.sigma
    consistency = Consistency(a_priori=consistent_counts(robot, a_priori))
    standard = consistent = value = None
    if options.standard:
        full = found if selection is None else fitter(Method.WLS, problem)(None)
        chi = closest(robot, base, full.base, reference, options.distance)
        consistency = replace(consistency, base=consistent_counts(robot, chi))
        if selection is not None:
            known = with_drives(robot, chi, reference)
            change = essential_change(robot, base, problem.information, weights, selection.kept, known, found.value)
            if options.distance == "euclidean":
                chi = on_leaders(robot, base, change - full_map(robot, base) @ known, known)
            else:
                chi = closest(robot, base, change, known)
            consistency = replace(consistency, essential=consistent_counts(robot, chi))
        standard = dict(zip(names, chi.tolist(), strict=True))
        consistency = replace(consistency, smallest_joint_inertia=smallest_joint_inertia(robot, chi))
    if options.consistent:
        information = problem.information
        imposed = imposed_on(problem, information, found, drawn)
        value = found.with_base(imposed.value).value
        consistent = dict(zip(names, imposed.chi.tolist(), strict=True))
        consistency = replace(
            consistency,
            imposed=consistent_counts(robot, imposed.chi),
            fit=torque_errors(robot.active_names, information, value),
            loss=imposed.loss,
            smallest_joint_inertia_imposed=smallest_joint_inertia(robot, imposed.chi),
        )
    return PhysicalParameters(standard, consistent, value, consistency)
