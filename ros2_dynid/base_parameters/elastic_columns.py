# SPDX-License-Identifier: Apache-2.0

"""Base parameters of a robot with springs, compensators or cables: what its other parameters do not explain already.

The closed form holds for links and drives. The coefficients of elastic elements follow in the order of chi; each leads
unless its column is made of those before it: the preload of a joint's spring acts as an offset, a spring between two
pivots whose rest length is zero may act as a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.closed_form import rank_warnings, units
from ros2_dynid.base_parameters.numeric import (
    by_qr,
    comparable,
    model_rows,
    natural_units,
    points_needed,
    random_points,
    row_units,
)
from ros2_dynid.base_parameters.result import BaseParameters, build, si_coefficients
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Robot


def add_elastic_coefficients(
    robot: Robot, rigid: BaseParameters, names: Sequence[str], *, source: str, seed: int, tilting_base: bool
) -> BaseParameters:
    """Return the base parameters over `names`, of which `rigid` covers all but the elastic coefficients."""
    place = {name: k for k, name in enumerate(standard_names(robot))}
    elastic_names = [name for name in names if name not in rigid.standard_names]
    columns = [*rigid.leaders, *elastic_names]
    points = random_points(
        robot, points_needed(robot, source, len(columns)), np.random.default_rng(seed), tilting_base=tilting_base
    )
    rows = comparable(model_rows(robot, source, points, [place[name] for name in columns]), source, points)
    size = units(robot, tuple(columns), *natural_units(robot))
    natural = rows / row_units(robot, source, len(points.q))[:, None] * size
    dependence = by_qr(natural)
    beta = si_coefficients(dependence, size, dependence.kept)
    M = np.zeros((len(dependence.leaders), len(names)))
    rigid_columns = [names.index(name) for name in rigid.standard_names]
    b = len(rigid.leaders)
    for row, leader in enumerate(dependence.leaders):
        if leader < b:
            M[row, rigid_columns] = rigid.M[leader]
        M[row, [names.index(name) for name in elastic_names]] = beta[row, b:]
    leaders = [names.index(columns[k]) for k in dependence.leaders]
    base = build(
        names,
        leaders,
        M,
        source=source,
        method=rigid.method,
        gap=min(rigid.gap, dependence.gap),
        warnings=rigid.warnings,
    )
    return replace(base, warnings=base.warnings or tuple(rank_warnings(dependence.kept, dependence.dropped)))
