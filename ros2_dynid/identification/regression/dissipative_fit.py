# SPDX-License-Identifier: Apache-2.0

"""Estimates with friction that brakes: least squares under linear inequalities.

Of all x with G x >= 0 (friction/dissipation.py), the one that fits best minimises |W (x - x0)|^2, where x0 is the fit
without the inequalities and W its weighted rows: all other parameters are estimated anew with it. For estimators other
than least squares this is the closest such x by the same measure. A quadratic programme; in z = T (x - x0), with T the
R factor of W, it is Lawson and Hanson's least distance programming, min |z| with G T^-1 z >= -G x0, solved by their
non-negative least squares (Solving Least Squares Problems, chapter 23).

The covariance is that of x0 projected onto the face of the inequalities that hold with equality: with A = T^T T and G_a
their rows, P C P^T, P = 1 - A^-1 G_a^T (G_a A^-1 G_a^T)^-1 G_a. A coefficient that is held at zero has no scatter then:
its error bar says how the fit scatters with it held there, not how well it is known to be zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import error_levels, weighted_triangle
from ros2_dynid.identification.regression.prior import Prior
from ros2_dynid.model.robot import Array

RIDGE = 1e-7
"""Rows added to W of unit columns, so that what the data leave open may move freely but not without bound."""
ROUNDING = 1e-12
"""An inequality holds if it is violated by less, as a share of the sum of its parts' sizes."""


@dataclass(frozen=True, eq=False)
class Constrained:
    """Solution of the quadratic programme: value (size,), and the projection (size, size) onto the active face."""

    value: Array
    projection: Array


def dissipative_estimate(
    information: Information,
    estimate: Estimate,
    rows: Array,
    *,
    least: Array | None = None,
    prior: Prior | None = None,
    weight: float = 0.0,
    free: NDArray[np.bool_] | None = None,
) -> Estimate:
    """Return the estimate under rows @ value >= least, rows of shape (m, size); unchanged where they hold already.

    information: the rows that it was fitted to; least: shape (m,), zero if None; prior, weight: what it was drawn
    towards as well; free: parameters that may change, shape (size,), all if None.
    """
    least = np.zeros(len(rows)) if least is None else least
    if _hold(rows, estimate.value, least):
        return estimate
    weights = np.ones(information.n) if estimate.method is Method.OLS else 1.0 / estimate.sigma
    W = weighted_triangle(information, weights).W
    if prior is not None and weight > 0.0:
        W = np.vstack((W, np.sqrt(weight) * prior.root))
    solution = constrain(W, estimate.value, rows, least, free)
    covariance = solution.projection @ estimate.covariance @ solution.projection.T
    return replace(
        estimate,
        value=solution.value,
        covariance=covariance,
        sigma=error_levels(information, solution.value, weights),
    )


def constrain(
    W: Array, value: Array, rows: Array, least: Array | None = None, free: NDArray[np.bool_] | None = None
) -> Constrained:
    """Return the x with rows @ x >= least (zero if None) that minimises |W (x - value)|; what is not `free` stays."""
    places = np.arange(len(value)) if free is None else np.flatnonzero(free)
    used = np.any(rows[:, places] != 0.0, axis=1)
    rows, least = rows[used], np.zeros(np.count_nonzero(used)) if least is None else least[used]
    projection = np.eye(len(value))
    if _hold(rows, value, least):
        return Constrained(value, projection)
    norm = np.linalg.norm(W[:, places], axis=0)
    scale = np.where(norm > 0.0, norm, 1.0)
    T = np.asarray(np.linalg.qr(np.vstack((W[:, places] / scale, RIDGE * np.eye(len(places)))), mode="r"))
    N = np.linalg.solve(T.T, (rows[:, places] / scale).T).T
    length = np.maximum(np.linalg.norm(N, axis=1), 1e-300)
    N, missing = N / length[:, None], (least - rows @ value) / length
    unit = float(np.abs(missing).max())
    z, active = _shortest(N, missing / unit)
    new = value.copy()
    new[places] += np.linalg.solve(T, unit * z) / scale
    new[_held_at_zero(rows[active & (least == 0.0)])] = 0.0  # and not some 1e-17 beside it
    on_face = np.eye(len(places)) - np.linalg.pinv(N[active]) @ N[active]
    projection[np.ix_(places, places)] = np.linalg.solve(T, on_face @ T) * scale / scale[:, None]
    return Constrained(new, projection)


def _hold(rows: Array, value: Array, least: Array) -> bool:
    """Return whether rows @ value >= least but for rounding."""
    return bool(np.all(rows @ value >= least - ROUNDING * (np.abs(rows) @ np.abs(value))))


def _shortest(A: Array, b: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the shortest z with A z >= b, and which of these hold with equality."""
    E = np.vstack((A.T, b))
    f = np.append(np.zeros(A.shape[1]), 1.0)
    multipliers, _ = nnls(E, f, maxiter=30 * len(A))
    r = E @ multipliers - f
    return -r[:-1] / r[-1], multipliers > 0.0


def _held_at_zero(rows: Array) -> NDArray[np.intp]:
    """Return the parameters that a row of their own holds at zero."""
    alone = rows[np.count_nonzero(rows, axis=1) == 1]
    return np.flatnonzero(np.any(alone != 0.0, axis=0))
