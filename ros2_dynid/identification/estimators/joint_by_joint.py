# SPDX-License-Identifier: Apache-2.0

"""Identification from the last joint to the first (Lin 1995, section IV).

The torque of joint i depends on the links from i on. So joint n alone gives the parameters that it feels; with these
known, joint n - 1 gives those that it feels besides, and so on: n small problems instead of a large one.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.error_bars import Moments, jackknife
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import check_rows, error_levels, solve, wls
from ros2_dynid.model.robot import Array


def recursive(information: Information, prior: Array | None = None) -> Estimate:
    """Return the estimate found joint by joint; what all joints share, the delay, comes from the whole."""
    check_rows(information)
    b = information.size
    whole = wls(information, prior)
    value = np.zeros(b) if prior is None else prior.copy()
    shared = np.zeros(b, dtype=bool)
    shared[information.layout.delay] = True
    value[shared] = whole.value[shared]
    solved = shared.copy()
    group = np.full(b, -1)
    cond = 1.0
    for j in range(information.n - 1, -1, -1):
        columns, R = information.columns[j], information.triangle(j)
        new = ~solved[columns]
        if not new.any():
            continue
        rest = R[:, -1] - R[:, :-1][:, ~new] @ value[columns[~new]]
        solution = solve(np.column_stack((R[:, :-1][:, new], rest)), value[columns[new]])
        value[columns[new]] = solution.value
        known = columns[new][solution.identified]
        solved[known], group[known] = True, j
        cond = max(cond, solution.cond)
    covariance, dof = jackknife(_moments(information, value, group), solved & ~shared, half=True)
    sigma = error_levels(information, value, 1.0 / whole.sigma)
    covariance[shared, shared] = whole.covariance[shared, shared]
    rank = int(np.count_nonzero(solved))
    return Estimate(information.layout, value, covariance, solved, sigma, cond, rank, Method.RECURSIVE, dof)


def _moments(information: Information, value: Array, group: Array) -> Moments:
    """Return the moments of the equations solved: the parameters of group j are fitted to the rows of joint j alone."""
    B, b = len(information.blocks), information.size
    A, g = np.zeros((B, b, b)), np.zeros((B, b))
    for k, block in enumerate(information.blocks):
        for j, columns in enumerate(information.columns):
            own = group[columns] == j
            R = block.R[j]
            W = R[:, :-1]
            A[k][np.ix_(columns[own], columns)] += W[:, own].T @ W
            g[k, columns[own]] += W[:, own].T @ (R[:, -1] - W @ value[columns])
    return Moments(A, g, np.array([block.recording for block in information.blocks], dtype=float))
