"""Base parameters in closed form: exact coefficients from the geometry, without sampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.nullspace import observed
from ros2_dynid.base_parameters.numeric import by_qr, in_column_order
from ros2_dynid.base_parameters.reduced_form import build, noise_level, tidy
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.base_parameters.sampling import natural_units
from ros2_dynid.base_parameters.transfer import units
from ros2_dynid.errors import Option, Text
from ros2_dynid.model.robot import Robot

TOLERANCE = 1e-10
CLEAR = 1e3
"""A ratio between what is kept and what is dropped below which the count of base parameters is doubtful."""


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
    B, clarity = observed(robot, tuple(names), length=length, tilting_base=tilting_base, tolerance=tolerance)
    found = in_column_order(by_qr(B[:, list(order)], tolerance), order)
    kept, dropped = min(found.kept, clarity.kept), max(found.dropped, clarity.dropped)
    leaders = found.leaders
    beta = tidy(found.beta / size[None, :] * size[leaders, None], size, leaders, noise_level(kept))
    warnings = doubts(kept, dropped)
    if found.doubt:
        warnings.append(Text(f"{found.doubt}; set ", Option("tolerance")))
    gap = kept / dropped if dropped > 0.0 else np.inf
    return build(names, leaders, beta, source=source, method="closed-form", gap=gap, warnings=warnings)


def doubts(kept: float, dropped: float) -> list[str]:
    """Return a warning if the smallest relative pivot kept and the largest one dropped are not far apart."""
    if dropped > 0.0 and kept / dropped < CLEAR:
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
