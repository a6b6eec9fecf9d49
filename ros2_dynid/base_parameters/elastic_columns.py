"""Base parameters of a robot with springs, compensators or cables: what its other parameters do not explain already.

The closed form holds for links and drives. The coefficients of elastic elements follow in the order of chi; each leads
unless its column is made of those before it: the preload of a joint's spring acts as an offset, a spring between two
pivots whose rest length is zero may act as a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.closed_form import doubts
from ros2_dynid.base_parameters.numeric import by_qr
from ros2_dynid.base_parameters.reduced_form import build, noise_level, tidy
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.base_parameters.sampling import (
    comparable,
    model_rows,
    natural_units,
    points_needed,
    random_points,
    row_units,
)
from ros2_dynid.base_parameters.transfer import units
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Robot


def with_elastic(
    robot: Robot, found: BaseParameters, names: Sequence[str], *, source: str, seed: int, tilting_base: bool
) -> BaseParameters:
    """Return the base parameters over `names`, of which `found` covers all but the elastic coefficients."""
    place = {name: k for k, name in enumerate(standard_names(robot))}
    more = [name for name in names if name not in found.standard_names]
    columns = [*found.leaders, *more]
    points = random_points(
        robot, points_needed(robot, source, len(columns)), np.random.default_rng(seed), tilting_base=tilting_base
    )
    rows = comparable(model_rows(robot, source, points, [place[name] for name in columns]), source, points)
    size = units(robot, tuple(columns), *natural_units(robot))
    natural = rows / row_units(robot, source, len(points.q))[:, None] * size
    seen = by_qr(natural)
    beta = tidy(seen.beta / size[None, :] * size[seen.leaders, None], size, seen.leaders, noise_level(seen.kept))
    whole = np.zeros((len(seen.leaders), len(names)))
    old = [names.index(name) for name in found.standard_names]
    b = len(found.leaders)
    for row, leader in enumerate(seen.leaders):
        if leader < b:
            whole[row, old] = found.M[leader]
        whole[row, [names.index(name) for name in more]] = beta[row, b:]
    leaders = [names.index(columns[k]) for k in seen.leaders]
    built = build(
        names, leaders, whole, source=source, method=found.method, gap=min(found.gap, seen.gap), warnings=found.warnings
    )
    return replace(built, warnings=built.warnings or tuple(doubts(seen.kept, seen.dropped)))
