# SPDX-License-Identifier: Apache-2.0

"""Base parameters in closed form: exact coefficients from the geometry, without sampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.nullspace import identifiable_rows
from ros2_dynid.base_parameters.numeric import by_qr, in_column_order
from ros2_dynid.base_parameters.reduced_form import build, si_coefficients
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.base_parameters.sampling import natural_units
from ros2_dynid.base_parameters.transfer import units
from ros2_dynid.errors import Option, Text
from ros2_dynid.model.robot import Robot

TOLERANCE = 1e-10
CLEAR_GAP = 1e3
"""Ratio of the smallest pivot kept to the largest one dropped below which the number of base parameters is doubtful."""


def closed_form(
    robot: Robot,
    names: Sequence[str],
    order: Sequence[int],
    *,
    source: str = "torque",
    tilting_base: bool = False,
    tolerance: float | None = None,
) -> BaseParameters:
    """Return the base parameters of a serial or tree robot over the standard parameters named, taken in `order`.

    tolerance: relative size below which a singular value or pivot counts as zero.
    """
    tolerance = TOLERANCE if tolerance is None else tolerance
    length, gravity = natural_units(robot)
    size = units(robot, tuple(names), length, gravity)
    B, margin = identifiable_rows(robot, tuple(names), length=length, tilting_base=tilting_base, tolerance=tolerance)
    dependence = in_column_order(by_qr(B[:, list(order)], tolerance), order)
    kept, dropped = min(dependence.kept, margin.kept), max(dependence.dropped, margin.dropped)
    beta = si_coefficients(dependence, size, kept)
    gap = kept / dropped if dropped > 0.0 else np.inf
    warnings = rank_warnings(kept, dropped, dependence.doubt)
    return build(names, dependence.leaders, beta, source=source, method="closed-form", gap=gap, warnings=warnings)


def rank_warnings(kept: float, dropped: float, doubt: str | None = None) -> list[str]:
    """Return warnings if the smallest relative pivot kept and the largest one dropped are not far apart.

    doubt: of the factorisation itself, if it has one.
    """
    return [*_gap_warnings(kept, dropped), *([Text(f"{doubt}; set ", Option("tolerance"))] if doubt else [])]


def _gap_warnings(kept: float, dropped: float) -> list[str]:
    if dropped > 0.0 and kept / dropped < CLEAR_GAP:
        return [
            Text(
                f"the count is not clear-cut: {kept:.1e} was kept and {dropped:.1e} dropped; "
                "check the robot's geometry for axes that are almost parallel, or set ",
                Option("tolerance"),
            )
        ]
    if kept < 1e-6:
        return [
            Text(
                f"a base parameter hangs on a misalignment of only {kept:.1e}; "
                "if the axes are meant to be aligned, correct the geometry or set a higher ",
                Option("tolerance"),
            )
        ]
    return []
