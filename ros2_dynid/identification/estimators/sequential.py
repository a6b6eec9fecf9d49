# SPDX-License-Identifier: Apache-2.0

"""The square-root information filter (Bierman): rows come one after the other, only a triangle is kept.

R is the R factor of all rows seen so far, [W tau] weighted; new rows are joined by an orthogonal transformation. With
forgetting, what was seen before counts `forgetting` times as much with every row, so that changes show. At the end the
estimate is that of batch least squares with the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import Solution, check_rows, finish, own_errors, solve
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class FilterState:
    """R, shape (<= b + 1, b + 1), of the rows seen; rows: their number, those forgotten counted less."""

    R: Array
    rows: float = 0.0

    @property
    def solution(self) -> Solution:
        """The least-squares solution of the rows seen."""
        return solve(self.R)


def start(size: int, prior: Array | None = None, std: Array | None = None) -> FilterState:
    """Return the filter before any row, for `size` parameters, or one that knows a prior with standard deviations."""
    if prior is None or std is None:
        return FilterState(np.zeros((0, size + 1)))
    if prior.shape != (size,) or std.shape != (size,) or np.any(std <= 0):
        raise InputError("prior and std do not fit", f"give {size} values and positive standard deviations")
    return FilterState(np.column_stack((np.diag(1.0 / std), prior / std)))


def update(state: FilterState, rows: Array, forgetting: float = 1.0) -> FilterState:
    """Return the state after weighted rows [W tau], shape (m, b + 1); forgetting: 0 to 1 for each row."""
    if rows.ndim != 2 or rows.shape[1] != state.R.shape[1]:
        raise InputError(f"rows have shape {rows.shape}", f"give {state.R.shape[1]} columns")
    if not 0.0 < forgetting <= 1.0:
        raise InputError(f"forgetting is {forgetting}", "choose more than 0 and at most 1")
    if not np.all(np.isfinite(rows)):
        raise InputError("rows hold values that are not finite", "leave them out")
    m = len(rows)
    age = forgetting ** (0.5 * np.arange(m, -1, -1))
    stacked = np.vstack((age[0] * state.R, age[1:, None] * rows))
    R = np.linalg.qr(stacked, mode="r") if len(stacked) > stacked.shape[1] else stacked
    return FilterState(np.asarray(R), forgetting**m * state.rows + float(np.sum(age[1:] ** 2)))


def sequential(information: Information, prior: Array | None = None, *, forgetting: float = 1.0) -> Estimate:
    """Return the estimate of the filter run over the blocks in their order; each block forgets as its rows do."""
    check_rows(information)
    weights = 1.0 / own_errors(information)
    state = start(information.size)
    for block in information.blocks:
        count = int(np.sum(block.rows))
        parts = []
        for j, columns in enumerate(information.columns):
            wide = np.zeros((len(block.R[j]), information.size + 1))
            wide[:, columns] = weights[j] * block.R[j][:, :-1]
            wide[:, -1] = weights[j] * block.R[j][:, -1]
            parts.append(wide)
        faded = FilterState(forgetting ** (0.5 * count) * state.R, forgetting**count * state.rows)
        state = update(faded, np.vstack(parts))
    return finish(information, solve(state.R, prior), weights, Method.SEQUENTIAL)
