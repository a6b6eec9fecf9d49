# SPDX-License-Identifier: Apache-2.0

"""Which standard parameter can be identified alone, which only in combination, which not at all, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.closed_form import RankMargin, placements, reaches, transfer_matrix
from ros2_dynid.base_parameters.expressions import combination
from ros2_dynid.base_parameters.numeric import typical_length
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.model.parameters import INERTIA, LINK, split_name
from ros2_dynid.model.robot import REVOLUTE, Robot

ALONE, COMBINED, NOT_IDENTIFIABLE = "alone", "in combination", "not"


@dataclass(frozen=True)
class Identifiability:
    """How far one standard parameter can be identified: alone, in combination or not, in which base parameters, why."""

    name: str
    status: str
    base: tuple[str, ...]
    reason: str


def identifiability(robot: Robot, base: BaseParameters, *, tilting_base: bool = False) -> tuple[Identifiability, ...]:
    """Return one entry for each standard parameter taken part in, in the order of chi."""
    turn_dimensions = None if robot.passive_joints else _turn_dimensions(robot, tilting_base)
    table = []
    for column, name in enumerate(base.standard_names):
        rows = np.flatnonzero(base.M[:, column])
        within = tuple(base.names[row] for row in rows)
        if not len(rows):
            table.append(Identifiability(name, NOT_IDENTIFIABLE, (), _no_effect(robot, name, turn_dimensions)))
        elif name in base.leaders and np.count_nonzero(base.M[rows[0]]) == 1:
            table.append(Identifiability(name, ALONE, within, "no other parameter has the same effect"))
        elif name in base.leaders:
            others = [other for other in base.terms(int(rows[0])) if other != name]
            table.append(Identifiability(name, COMBINED, within, f"only together with {_list_in_words(others)}"))
        else:
            acts = combination({base.leaders[row]: float(base.M[row, column]) for row in rows})
            table.append(Identifiability(name, COMBINED, within, f"acts as {acts}{_regrouping_reason(robot, name)}"))
    return tuple(table)


def _list_in_words(names: list[str], max_names: int = 8) -> str:
    """Return names as a list in words, cut after `max_names`."""
    words = names if len(names) <= max_names else [*names[:max_names], f"{len(names) - max_names} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _regrouping_reason(robot: Robot, name: str) -> str:
    """Return why a link's parameter moves to the link before it."""
    kind, j = split_name(name)
    if kind not in LINK or robot.passive_joints:
        return ""
    joint = robot.joints[j - 1]
    if joint.sigma == REVOLUTE and kind in ("YY", "MZ", "M"):
        what = f"XX{j} + YY{j}" if kind == "YY" else f"{kind}{j}"
        return f": the effect of {what} on link {joint.parent} does not depend on q{j}"
    if joint.sigma != REVOLUTE and kind in INERTIA:
        return f": link {j} turns with link {joint.parent}"
    return ""


def _turn_dimensions(robot: Robot, tilting_base: bool) -> list[int]:
    """Return for every link the dimension of the directions that it can turn about: 0, 1 or 3."""
    T = placements(robot, typical_length(robot))
    dimensions = []
    for joint, reach in zip(
        robot.joints, reaches(robot, T, transfer_matrix(T), tilting_base, 1e-10, RankMargin()), strict=True
    ):
        turns = reach.twists[:, :3]
        if joint.sigma == REVOLUTE:
            turns = np.vstack((turns, (0.0, 0.0, 1.0)))
        dimensions.append(int(np.linalg.matrix_rank(turns, tol=1e-10)) if len(turns) else 0)
    return dimensions


def _no_effect(robot: Robot, name: str, turn_dimensions: list[int] | None) -> str:
    """Return why a parameter has no effect on any torque."""
    kind, j = split_name(name)
    if turn_dimensions is None or kind not in LINK:
        return "it changes no torque in any motion that the joints allow"
    dimension = turn_dimensions[j - 1]
    if kind == "M":
        return f"the origin of frame {j} never moves"
    if dimension == 0:
        return f"link {j} never turns, so only its mass has an effect"
    if kind in INERTIA:
        return f"link {j} only turns about one direction, and {name} is not a moment about it"
    pull = f"gravity does no work on {name}" if np.any(robot.gravity) else "there is no gravity"
    where = "link {j} turns about a fixed line" if dimension == 1 else "the origin of frame {j} never moves"
    return f"{where.format(j=j)}, and {pull}"
