# SPDX-License-Identifier: Apache-2.0

"""Optimum points of the energy-difference model (Gautier 1992, section 4).

W has the rows h(point i + 1) - h(point i), so that every point is used twice; the cost is lambda1 cond(W) + lambda2 S.
Limits vanish by the substitutions q = q_I + (q_F - q_I) sin^2 x and dq = dq_M sin x. Positions that W does not depend
on (q1 of a robot whose first axis is vertical) are no variables.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.criteria import (
    MEASURES,
    condition_by,
    smooth_condition,
    smooth_equilibrium,
    structural_equilibrium,
)
from ros2_dynid.excitation.descent import OutOfTimeError, TimeBudget, descend
from ros2_dynid.excitation.sensitivity import energy_with_gradient
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot

OPTIMISERS = ("gradient", "nelder-mead", "quasi-newton", "powell")
"""The default, and the three of Gautier 1992, section 4.3."""
SCIPY_NAMES = {"nelder-mead": "Nelder-Mead", "quasi-newton": "BFGS", "powell": "Powell"}
SHARE_OF_STARTS = 0.5
"""Share of the time budget for the starts; the rest is for the growing weight on S."""
GROWTH = (0.01, 0.1, 1.0)
"""Shares of the weight on S, one after the other."""
NUDGE = 1e-2
"""Standard deviation of what moves the variables away from limits; they are of the order of 1."""
SHARPNESS = (4.0, 8.0, 16.0, 32.0, 64.0)
"""Exponents p of the smooth criteria, one stage each."""


@dataclass(frozen=True, eq=False)
class EnergyModel:
    """The energy-difference model of the base parameters: columns are the leaders' places in chi.

    lambda1, lambda2: weights of cond(W) and of S.
    """

    robot: Robot
    columns: tuple[int, ...]
    lambda1: float = 1.0
    lambda2: float = 0.06

    def W(self, q: Array, dq: Array) -> Array:
        """Return W, shape (r, b), for r + 1 points, shape (r + 1, n_active)."""
        return np.diff(energy_regressor(self.robot, q, dq)[:, self.columns], axis=0)

    def log_cost(self, q: Array, dq: Array, p: float) -> tuple[float, Array, Array]:
        """Return log(lambda1 cond + lambda2 S), cond and S smooth with exponent p, and its derivatives by q and dq."""
        h, back = energy_with_gradient(self.robot, q, dq)
        W = np.diff(h[:, self.columns], axis=0)
        cost, C = 0.0, np.zeros_like(W)
        for weight, smooth in ((self.lambda1, smooth_condition), (self.lambda2, smooth_equilibrium)):
            if weight > 0:
                value, slope = smooth(W, p)
                part = weight * np.exp(min(value, 300.0))
                cost, C = cost + part, C + part * slope
        every = np.zeros((len(q), len(standard_names(self.robot))))
        every[1:, self.columns] += C / cost
        every[:-1, self.columns] -= C / cost
        return float(np.log(cost)), *back(every)

    def cost(self, q: Array, dq: Array, measure: str = "svd") -> float:
        """Return lambda1 cond(W) + lambda2 S with one of the three measures of the condition number."""
        W = self.W(q, dq)
        total = self.lambda1 * condition_by(W, measure)
        return float(total + self.lambda2 * structural_equilibrium(W)) if self.lambda2 > 0 else float(total)


@dataclass(frozen=True, eq=False)
class Substitution:
    """The change of variables that removes the limits (Gautier 1992, section 4.2): x, shape (r + 1, free + n).

    lower, upper, velocity: shape (n,); free: which positions are variables, the others are `fixed`, shape (r + 1, n).
    """

    lower: Array
    upper: Array
    velocity: Array
    free: NDArray[np.bool_]
    fixed: Array

    @property
    def size(self) -> int:
        """Number of variables: (r + 1)(2 n - 1) where W is independent of q1 (eq. 23b)."""
        return len(self.fixed) * int(self.free.sum() + len(self.lower))

    def points(self, x: Array) -> tuple[Array, Array]:
        """Return q, dq, shape (r + 1, n)."""
        X = x.reshape(len(self.fixed), -1)
        k = int(self.free.sum())
        q = self.fixed.copy()
        lower, upper = self.lower[self.free], self.upper[self.free]
        q[:, self.free] = lower + (upper - lower) * np.sin(X[:, :k]) ** 2
        return q, self.velocity * np.sin(X[:, k:])

    def back(self, x: Array, gq: Array, gdq: Array) -> Array:
        """Return the derivative by x from those by q and dq."""
        X = x.reshape(len(self.fixed), -1)
        k = int(self.free.sum())
        slope = ((self.upper - self.lower)[self.free]) * np.sin(2.0 * X[:, :k])
        return np.hstack((gq[:, self.free] * slope, gdq * self.velocity * np.cos(X[:, k:]))).ravel()

    def variables(self, q: Array, dq: Array) -> Array:
        """Return an x that gives the points."""
        span = (self.upper - self.lower)[self.free]
        part = np.clip((q - self.lower)[:, self.free] / span, 0.0, 1.0)
        return np.hstack((np.arcsin(np.sqrt(part)), np.arcsin(np.clip(dq / self.velocity, -1.0, 1.0)))).ravel()


def positions_that_matter(model: EnergyModel, seed: int = 0) -> NDArray[np.bool_]:
    """Return for each active joint whether W depends on its position, shape (n_active,), judged on random points."""
    rng = np.random.default_rng(seed)
    n = len(model.robot.active)
    q, dq = rng.uniform(-2.0, 2.0, (2, 40, n))
    C = np.zeros((40, len(standard_names(model.robot))))
    C[:, model.columns] = rng.standard_normal((40, len(model.columns)))
    size = np.abs(energy_with_gradient(model.robot, q, dq)[1](C)[0]).max(axis=0)
    return np.asarray(size > 1e-9 * size.max())


def optimise_points(
    model: EnergyModel,
    substitution: Substitution,
    rng: np.random.Generator,
    clock: TimeBudget,
    *,
    optimiser: str = "gradient",
    measure: str = "svd",
    starts: int = 4,
    iterations: int = 250,
) -> tuple[Array, Array]:
    """Return the best points q, dq, shape (r + 1, n), found from several random starts within the time budget.

    The variables start from normal random sequences, as in Gautier 1992; each start is polished for cond(W) alone, and
    from the best one on the weight on S grows to its value: both together from a random start end in poor minima. The
    paper's own optimisers make one start.
    """
    if optimiser not in OPTIMISERS:
        raise InputError(f"unknown optimiser {optimiser!r}", f"choose from {', '.join(OPTIMISERS)}")
    if measure not in MEASURES:
        raise InputError(f"unknown measure {measure!r}", f"choose from {', '.join(MEASURES)}")
    if optimiser != "gradient":
        x = _seed_optimiser(model, substitution, rng.standard_normal(substitution.size), clock, optimiser, measure)
        return substitution.points(x)

    grows = model.lambda1 > 0 and model.lambda2 > 0
    plain = replace(model, lambda2=0.0) if grows else model
    candidates = []
    for k in range(starts):
        first = substitution.points(rng.standard_normal(substitution.size))
        share = (SHARE_OF_STARTS if grows else 1.0) * (k + 1) / starts
        q, dq = polish_points(plain, substitution, *first, clock, iterations=iterations // 2, until=share)
        candidates.append((plain.cost(q, dq), k, q, dq))
        clock.report(f"start {k + 1} of {starts}: cost {min(candidates)[0]:.4g}")
    _, _, q, dq = min(candidates)
    best = (model.cost(q, dq), q, dq)
    for growth in GROWTH if grows else ():
        weighted = replace(model, lambda2=growth * model.lambda2)
        q, dq = polish_points(weighted, substitution, q, dq, clock, rng=rng, iterations=iterations)
        best = min(best, (model.cost(q, dq), q, dq), key=lambda found: found[0])
        clock.report(f"{100 * growth:g} % of the weight on S: cost {best[0]:.4g}")
    return best[1:]


def polish_points(
    model: EnergyModel,
    substitution: Substitution,
    q: Array,
    dq: Array,
    clock: TimeBudget,
    *,
    rng: np.random.Generator | None = None,
    iterations: int = 250,
    until: float = 1.0,
) -> tuple[Array, Array]:
    """Return points near q, dq that cost less, by descents with sharper and sharper criteria.

    rng: moves the variables a little first, since a point at a limit has no derivative that would lead away from it.
    until: fraction of the budget that may be spent.
    """

    def cost(p: float, x: Array) -> tuple[float, Array]:
        q, dq = substitution.points(x)
        value, gq, gdq = model.log_cost(q, dq, p)
        return value, substitution.back(x, gq, gdq)

    best = (model.cost(q, dq), q, dq)
    x = substitution.variables(q, dq)
    if rng is not None:
        x += NUDGE * rng.standard_normal(substitution.size)
    for p in SHARPNESS:
        x = descend(partial(cost, p), x, clock, iterations, until)
        q, dq = substitution.points(x)
        best = min(best, (model.cost(q, dq), q, dq), key=lambda found: found[0])
    return best[1:]


def _seed_optimiser(
    model: EnergyModel, substitution: Substitution, x: Array, clock: TimeBudget, optimiser: str, measure: str
) -> Array:
    """Return the variables that one of the paper's optimisers finds, derivatives by differences, in time."""
    from scipy.optimize import minimize  # here, since it takes a while to import

    best: tuple[float, Array] = (np.inf, x)

    def cost(z: Array) -> float:
        nonlocal best
        if clock.over():
            raise OutOfTimeError
        value = model.cost(*substitution.points(z), measure)
        if value < best[0]:
            best = (value, z.copy())
            clock.report(f"{optimiser}: cost {value:.4g}")
        return min(value, 1e30)

    options: Any = {"maxiter": 10**6} | ({"adaptive": True} if optimiser == "nelder-mead" else {})
    method: Any = SCIPY_NAMES[optimiser]
    with suppress(OutOfTimeError):
        minimize(cost, x, method=method, options=options)
    return best[1]
