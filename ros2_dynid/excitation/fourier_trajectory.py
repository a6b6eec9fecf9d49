# SPDX-License-Identifier: Apache-2.0

"""Fourier trajectories optimised on the torque regressor of the base parameters.

The series of a joint are linear in their coefficients, at rest at both ends by construction (rest_basis). The
criterion is taken on samples of one period, limits are held by a penalty, and at the end the amplitude is reduced
until the exact extrema keep every limit: the rest pose in the middle always does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.criteria import (
    condition_by,
    minus_log_det,
    normalised,
    normalised_back,
    smooth_condition,
)
from ros2_dynid.excitation.descent import TimeBudget, descend
from ros2_dynid.excitation.fourier import FourierSeries, design, rest_basis
from ros2_dynid.excitation.law_columns import law_columns, softened
from ros2_dynid.excitation.limits import all_joints
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.sensitivity import regressor_with_gradient
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

CRITERIA = ("cond", "normalised", "logdet")
SAMPLES_PER_HARMONIC = 16
LAW_FINER = 3
"""With friction terms the regressor's grid is this many times finer: slow passages must not fall between samples."""
FINER = 4
"""Limits, which are cheap, are checked on a grid this many times finer than the regressor's."""
STAGES = ((4.0, 0.1), (8.0, 1.0), (16.0, 10.0), (32.0, 100.0), (64.0, 1000.0))
"""Exponent p of the smooth criterion and weight of the penalty, one stage each: first excite, then keep the limits."""
SOFTNESS = 0.08
"""Fraction of the velocity limit in which sign(dq) goes from 0 to 1 while searching, so that it has a slope."""
STEP = 0.98
SERIES_ITERATIONS = 80
"""Steps of a stage."""


@dataclass(frozen=True, eq=False)
class TorqueModel:
    """The torque regressor of the base parameters: columns are the leaders' places in chi.

    weights: factor on the rows of each active joint, shape (n_active,); criterion: "cond" for cond(W), "normalised" for
    cond of W with columns of norm 1, "logdet" for -log det(W^T W) / (2 b). terms: friction terms whose columns follow.
    """

    robot: Robot
    columns: tuple[int, ...]
    weights: Array
    criterion: str = "cond"
    terms: tuple[FrictionTerm, ...] = ()

    @property
    def size(self) -> int:
        """Number of columns of W."""
        return len(self.columns) + len(self.terms)

    def W(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return W, shape (N n_active, size), rows of one sample together, weighted."""
        Y = regressor(self.robot, q, dq, ddq)
        Yb = Y[:, :, self.columns]
        if self.terms:
            Yb = np.concatenate((Yb, law_columns(self.robot, self.terms, Y, dq)[0]), axis=2)
        return (Yb * self.weights[:, None]).reshape(-1, self.size)

    def value(self, W: Array) -> float:
        """Return the criterion as a number to compare: a condition number, or the mean of -log sigma."""
        if self.criterion == "logdet":
            return minus_log_det(W)[0]
        return condition_by(normalised(W)[0] if self.criterion == "normalised" else W)

    def smooth(self, W: Array, p: float) -> tuple[float, Array]:
        """Return the log of the smooth criterion with exponent p, and its derivative by W."""
        if self.criterion == "logdet":
            return minus_log_det(W)
        if self.criterion == "cond":
            return smooth_condition(W, p)
        Wn, norms = normalised(W)
        value, C = smooth_condition(Wn, p)
        return value, normalised_back(Wn, norms, C)


@dataclass(frozen=True, eq=False)
class FourierProblem:
    """Coefficients y, shape (n, k), of series about the pose `middle`, shape (n,): [c, A, B] = middle + scale Z y."""

    model: TorqueModel
    penalty: Penalty
    period: float
    L: int
    middle: Array
    scale: Array
    fixed_start: bool = False

    def __post_init__(self) -> None:
        """Prepare the matrices that give samples from coefficients: on the regressor's grid and on a finer one."""
        Z = rest_basis(self.L, self.fixed_start)
        N = SAMPLES_PER_HARMONIC * self.L * (LAW_FINER if self.model.terms else 1)
        coarse = tuple(D @ Z for D in design(self.period, self.L, self.period * np.arange(N) / N))
        fine = tuple(D @ Z for D in design(self.period, self.L, self.period * np.arange(N * FINER) / (N * FINER)))
        object.__setattr__(self, "_Z", Z)
        object.__setattr__(self, "_coarse", coarse)
        object.__setattr__(self, "_fine", fine)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of joints and of coefficients of each."""
        return len(self.middle), 2 * self.L - (2 if self.fixed_start else 1)

    def series(self, y: Array, periods: int = 1) -> FourierSeries:
        """Return the curve."""
        c = self.scale[:, None] * (y.reshape(self.shape) @ self._Z.T)  # type: ignore[attr-defined]
        L = self.L
        return FourierSeries(self.period, c[:, 0] + self.middle, c[:, 1 : L + 1], c[:, L + 1 :], periods)

    def _samples(self, y: Array, matrices: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        c = (y.reshape(self.shape) * self.scale[:, None]).T
        q, dq, ddq = (D @ c for D in matrices)
        return q + self.middle, dq, ddq

    def _back(self, matrices: tuple[Array, Array, Array], gradients: tuple[Array, Array, Array]) -> Array:
        g = sum(D.T @ part for D, part in zip(matrices, gradients, strict=True))
        return np.asarray((g * self.scale).T.ravel())

    def cost(self, y: Array, p: float, weight: float) -> tuple[float, Array]:
        """Return log criterion + weight * penalty and its derivative by y."""
        model, penalty = self.model, self.penalty
        coarse, fine = self._coarse, self._fine  # type: ignore[attr-defined]
        velocity = penalty.bounds.velocity
        softness = SOFTNESS * np.where(np.isfinite(velocity), velocity, 1.0)  # a passive joint may have no limit
        softness = softened(softness, model.terms)
        q, dq, ddq = self._samples(y, coarse)
        Y, back = regressor_with_gradient(model.robot, q, dq, ddq, softness)
        law, law_back = law_columns(model.robot, model.terms, Y, dq, softness)
        Yb = np.concatenate((Y[:, :, model.columns], law), axis=2) * model.weights[:, None]
        value, C = model.smooth(Yb.reshape(-1, model.size), p)
        C = C.reshape(Yb.shape) * model.weights[:, None]
        b = len(model.columns)
        every = np.zeros(Y.shape[::-1]).transpose()
        every[:, :, model.columns] = C[:, :, :b]
        of_law = C[:, :, b:]
        if penalty.chi is not None:
            coefficients = np.array([term.coefficient for term in model.terms])
            excess, slope = penalty.torques(Y @ penalty.chi + law @ coefficients)
            value += weight * excess
            every += weight * slope[:, :, None] * penalty.chi
            of_law = of_law + weight * slope[:, :, None] * coefficients
        by_Y, by_speed = law_back(of_law)
        gq, gdq, gddq = back(every + by_Y if model.terms else every)
        gradient = self._back(coarse, (gq, gdq + by_speed, gddq))
        samples = self._samples(y, fine)
        excess, gq, gdq, gddq = penalty.limits(*samples)
        further, hq = penalty.poses(samples[0][::2])
        gq[::2] += hq
        return value + weight * (excess + further), gradient + weight * self._back(fine, (gq, gdq, gddq))

    def W(self, y: Array) -> Array:
        """Return W on the regressor's grid."""
        return self.model.W(*self._samples(y, self._coarse))  # type: ignore[attr-defined]


def shrink(problem: FourierProblem, y: Array, safe: Callable[[FourierSeries], bool]) -> Array:
    """Return factor * y, the factor at most 1 and about as large as the exact limits and `safe` allow.

    Positions, velocities and accelerations are linear in y, so their factor is exact; what `safe` checks beyond them is
    tried with factors STEP^k. All zero means that only standing still is safe.
    """
    y = y * linear_factor(problem, y)

    def fits(k: int) -> bool:
        return safe(problem.series(STEP**k * y))

    if fits(0):
        return y
    low, high = 0, 1
    while not fits(high):
        low, high = high, 2 * high
        if high > 256:
            return np.zeros_like(y)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return np.asarray(STEP**high * y)


def linear_factor(problem: FourierProblem, y: Array) -> float:
    """Return the largest factor <= 1 on y with which the exact extrema keep position, velocity and acceleration."""
    robot, b = problem.model.robot, problem.penalty.bounds
    if robot.loops is None:
        curve, limited = all_joints(robot, problem.series(y)), list(range(robot.n))
        centre = all_joints(robot, problem.series(np.zeros_like(y)))
    else:  # passive joints are not linear in y
        curve, limited = problem.series(y), [j - 1 for j in robot.active]
        centre = problem.series(np.zeros_like(y))
    q, dq, ddq = curve.extrema()
    c = centre.evaluate(np.zeros(1))[0][0]
    keep = 1.0 - 1e-12
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.concatenate(
            [
                (b.upper[limited] - c) / (q[1] - c),
                (c - b.lower[limited]) / (c - q[0]),
                b.velocity[limited] / np.abs(dq).max(axis=0),
                b.acceleration[limited] / np.abs(ddq).max(axis=0),
            ]
        )
    factors = factors[np.isfinite(factors) & (factors > 0)]
    return float(min(1.0, keep * factors.min(initial=np.inf)))


def _search_without_slopes(
    problem: FourierProblem,
    objective: Callable[[Array], tuple[float, Array]],
    rng: np.random.Generator,
    clock: TimeBudget,
    iterations: int,
) -> Array:
    """Return the best safe series that random steps find, for closed loops, whose model has no slopes here.

    An evolution strategy of one parent and one child (Rechenberg 1973): steps grow by a third after a success and
    shrink after a failure so that one in five succeeds.
    """
    best, y_best, step = np.inf, np.zeros(int(np.prod(problem.shape))), 1.0
    for _ in range(iterations):
        y = y_best + step * rng.standard_normal(len(y_best))
        value, y = objective(y)
        step *= STEP_UP if value < best else STEP_UP**-0.25
        if value < best:
            best, y_best = value, y
            clock.report(f"{problem.model.criterion} {best:.4g}")
        if clock.over():
            break
    if not np.isfinite(best):
        hint = Text("narrow the limits to the linkage's reach, or choose another start pose: ", Option("start"))
        raise InputError("no safe motion was found within the loops' reach", hint, problem.model.robot.name)
    return y_best


STEP_UP = 1.33
"""Growth of a random step after a success."""


def optimise_series(
    problem: FourierProblem,
    rng: np.random.Generator,
    clock: TimeBudget,
    safe: Callable[[FourierSeries], bool],
    starts: int = 2,
    candidates: int = 40,
    iterations: int = SERIES_ITERATIONS,
) -> Array:
    """Return the coefficients of the best safe series found within the time budget.

    The best of some random feasible series are improved a little, then through all stages, the best of them first.
    """

    def objective(y: Array) -> tuple[float, Array]:
        y = shrink(problem, y, safe)
        return (problem.model.value(problem.W(y)) if np.any(y) else np.inf), y

    if problem.model.robot.loops is not None:
        return _search_without_slopes(problem, objective, rng, clock, iterations)
    pool = []
    for k in range(max(candidates, starts)):
        y = rng.standard_normal(problem.shape).ravel()
        y *= linear_factor(problem, y)
        pool.append((problem.model.value(problem.W(y)), k, y))
    pool.sort(key=lambda item: item[:2])
    best, y_best = np.inf, pool[0][2]
    for *_, y in pool:  # a first safe answer, whatever the time budget
        best, y_best = objective(y)
        if np.isfinite(best):
            break
    if not np.isfinite(best):
        raise InputError(
            "no safe motion was found around the start pose",
            Text(
                "choose another start pose (",
                Option("start"),
                "), or check the limits, the floor and the collision shapes",
            ),
            problem.model.robot.name,
        )
    (p, weight), *later = STAGES
    free = replace(problem, penalty=replace(problem.penalty, shapes=None))  # collisions join when the limits weigh
    solutions = []
    for k, (*_, y) in enumerate(pool[:starts]):
        y = descend(lambda z: free.cost(z, p, weight), y, clock, iterations, until=0.1 + 0.35 * (k + 1) / starts)
        solutions.append((problem.cost(y, p, 1.0)[0], k, y))
        clock.report(f"start {k + 1} of {starts}")
    solutions.sort(key=lambda item: item[:2])
    for rank, (*_, y) in enumerate(solutions):  # the most promising one, and the others while there is time
        if rank and clock.over(0.85):
            break
        for k, (p, weight) in enumerate(later):
            until = 0.95 if rank else 0.45 + 0.5 * (k + 1) / len(later)
            y = descend(partial(problem.cost, p=p, weight=weight), y, clock, iterations, until)
            value, y_safe = objective(y)
            if value < best:
                best, y_best = value, y_safe
            clock.report(f"{problem.model.criterion} {best:.4g}")
    return y_best
