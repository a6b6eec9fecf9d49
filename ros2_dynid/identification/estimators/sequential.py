# SPDX-License-Identifier: Apache-2.0

"""The square-root information filter (Bierman): rows come one after the other, only a triangle is kept.

R, shape (<= b + 1, b + 1), is the R factor of all weighted rows [W tau] so far; new rows are joined by an orthogonal
transformation. At the end the estimate is that of batch least squares with the same weights.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, compressed
from ros2_dynid.identification.regression.least_squares import (
    add_error_bars,
    check_rows,
    own_errors,
    solve,
    stack_joints,
)
from ros2_dynid.model.robot import Array


def start_filter(mean: Array, std: Array) -> Array:
    """Return R of a prior: mean and standard deviation of each parameter, shape (b,)."""
    if mean.shape != std.shape or np.any(std <= 0):
        raise InputError("mean and std do not fit", "give as many positive standard deviations as values")
    return np.column_stack((np.diag(1.0 / std), mean / std))


def update_filter(R: Array, rows: Array) -> Array:
    """Return R after further weighted rows [W tau], shape (m, b + 1)."""
    if rows.ndim != 2 or rows.shape[1] != R.shape[1]:
        raise InputError(f"rows have shape {rows.shape}", f"give {R.shape[1]} columns")
    if not np.all(np.isfinite(rows)):
        raise InputError("rows hold values that are not finite", "leave them out")
    return compressed(np.vstack((R, rows)))


def sequential(information: Information, prior: Array | None = None) -> Estimate:
    """Return the estimate of the filter run over the blocks in their order."""
    check_rows(information)
    weights = 1.0 / own_errors(information)
    R = np.zeros((0, information.size + 1))
    for block in information.blocks:
        R = update_filter(R, stack_joints(information, block.R, weights))
    return add_error_bars(information, solve(R, prior), weights, Method.SEQUENTIAL)
