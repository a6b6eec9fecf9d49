# SPDX-License-Identifier: Apache-2.0

"""Points and segment times chosen together, so that the interpolation keeps every limit (Gautier 1992, section 5).

The path between two points is the quintic of quintic.py; it is held to the limits at samples inside each segment by a
penalty while cond(W) and S are minimised over points and times. Then each segment gets its shortest time on the exact
extrema, and the whole is checked; where the check fails the limits are tightened and the search goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.criteria import condition_by
from ros2_dynid.excitation.descent import TimeBudget, descend
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.points import SHARPNESS, EnergyModel, Substitution
from ros2_dynid.excitation.quintic import (
    PiecewiseQuintic,
    derivative,
    hermite,
    piece_extrema,
    shortest_times,
    through_points,
)
from ros2_dynid.model.robot import Array

INSIDE = 12
"""Samples inside a segment at which the penalty is taken."""
TIME_WEIGHT = 1e-3
"""Weight of the duration [1/s] beside log(cost): of two equally good trajectories the shorter one wins."""
POINT_ITERATIONS = 200
"""Steps of a stage."""
GROWTH = (0.0, 0.0, 0.01, 0.1, 1.0)
"""Share of the weight on S in each stage: with all of it from a random start the search ends in poor minima."""
ATTEMPTS, DETOURS_AFTER = 40, 6
CHECKED = 60
"""Samples per segment at which torques and distances are checked."""
MIN_SEGMENT_S = 0.05
"""No segment is shorter than this [s]: controllers take points that are some milliseconds apart."""


def _basis(s: Array) -> Array:
    """Return what qa, qb, u dqa and u dqb contribute to q, u dq and u^2 ddq at relative times s, shape (3, 4, M)."""
    unit = np.eye(4)[:, :, None]
    a = hermite(unit[:, 0], unit[:, 1], unit[:, 2], unit[:, 3], np.ones(4))  # (4, 6, 1)
    parts = []
    for _ in range(3):
        parts.append(np.stack([np.polynomial.polynomial.polyval(s, row[:, 0]) for row in a]))
        a = derivative(a)
    return np.stack(parts)


@dataclass(frozen=True, eq=False)
class SegmentProblem:
    """Points, a state at rest before and after them (`start`, `end`, shape (n,)), and the times between them."""

    model: EnergyModel
    substitution: Substitution
    penalty: Penalty
    start: Array
    end: Array

    def states(self, x: Array) -> tuple[Array, Array, Array]:
        """Return q, dq of all states, shape (r + 3, n), and the times u between them, shape (r + 2,) [s]."""
        q, dq = self.substitution.points(x[: self.substitution.size])
        rest = np.zeros((1, q.shape[1]))
        u = MIN_SEGMENT_S + np.exp(np.clip(x[self.substitution.size :], -5.0, 5.0))
        return np.vstack((self.start, q, self.end)), np.vstack((rest, dq, rest)), u

    def cost(self, x: Array, p: float, weight: float) -> tuple[float, Array]:
        """Return log(cost) + weight * penalty + time, and its derivative by x."""
        Q, D, u = self.states(x)
        value, gq, gdq = self.model.log_cost(Q[1:-1], D[1:-1], p)
        excess, gQ, gD, gu = self._path_penalty(Q, D, u)
        slope_u = (weight * gu + TIME_WEIGHT) * (u - MIN_SEGMENT_S)
        gx = self.substitution.back(x[: self.substitution.size], gq + weight * gQ[1:-1], gdq + weight * gD[1:-1])
        return value + weight * excess + TIME_WEIGHT * float(u.sum()), np.concatenate((gx, slope_u))

    def _path_penalty(self, Q: Array, D: Array, u: Array) -> tuple[float, Array, Array, Array]:
        """Return the penalty of samples inside the segments and its derivatives by states and times."""
        B = _BASIS
        U = u[:, None]
        ends = np.stack((Q[:-1], Q[1:], U * D[:-1], U * D[1:]))  # (4, K, n)
        q, v, w = (np.einsum("em,ekj->kmj", B[o], ends) for o in range(3))
        scale = U[:, :, None]
        dq, ddq = v / scale, w / scale**2
        K, M, n = q.shape
        value, gq, gdq, gddq = self.penalty(q.reshape(-1, n), dq.reshape(-1, n), ddq.reshape(-1, n))
        gq, gdq, gddq = gq.reshape(K, M, n), gdq.reshape(K, M, n), gddq.reshape(K, M, n)
        gu = -np.sum(gdq * dq + 2.0 * gddq * ddq, axis=(1, 2)) / u
        g_ends = sum(np.einsum("em,kmj->ekj", B[o], g / scale**o) for o, g in enumerate((gq, gdq, gddq)))
        gu += np.sum(g_ends[2] * D[:-1] + g_ends[3] * D[1:], axis=1)
        gQ, gD = np.zeros_like(Q), np.zeros_like(D)
        gQ[:-1] += g_ends[0]
        gQ[1:] += g_ends[1]
        gD[:-1] += U * g_ends[2]
        gD[1:] += U * g_ends[3]
        return value, gQ, gD, gu


_BASIS = _basis(np.linspace(0.0, 1.0, INSIDE + 2)[1:-1])


def optimise_trajectory(
    problem: SegmentProblem,
    rng: np.random.Generator,
    clock: TimeBudget,
    starts: int = 3,
    iterations: int = POINT_ITERATIONS,
) -> tuple[PiecewiseQuintic, Array, Array]:
    """Return a trajectory that keeps the limits, and its points q, dq, shape (r + 1, n).

    Several random starts, the best of them refined with sharper criteria and heavier penalties; then the interpolation.
    If it had to slow points down, the search is repeated from there with tighter limits while there is time.
    """
    full = problem
    problem = replace(problem, penalty=replace(problem.penalty, chi=None), model=_weighted(problem.model, GROWTH[0]))
    candidates = []
    for k in range(starts):
        x = draw_variables(problem, rng)
        x = descend(lambda z: problem.cost(z, SHARPNESS[0], 1.0), x, clock, 60, until=0.3 * (k + 1) / starts)
        candidates.append((problem.cost(x, SHARPNESS[0], 1.0)[0], k, x))
        clock.report(f"start {k + 1} of {starts}")
    x = min(candidates)[2]
    best: tuple[float, PiecewiseQuintic, Array, Array] | None = None
    stages = [(p, 9.0**k) for k, p in enumerate(SHARPNESS)]
    for attempt, tight in enumerate((0.99, 0.97, 0.94, 0.9)):
        # Torques cost most and seldom bind: they join where the first attempt had to give way to them.
        chi = full.penalty.chi if attempt else None
        last = replace(full, penalty=replace(full.penalty, tight=tight, chi=chi))
        for k, (p, weight) in enumerate(stages if attempt == 0 else stages[-2:]):
            share = GROWTH[k] if attempt == 0 else 1.0
            problem = replace(last, model=_weighted(full.model, share))
            until = 0.3 + 0.5 * (k + 1) / len(stages) if attempt == 0 else 0.95
            x = descend(partial(problem.cost, p=p, weight=weight), x, clock, iterations, until)
            Q, D, _ = problem.states(x)
            clock.report(f"p = {p:g}: cond {condition_by(problem.model.W(Q[1:-1], D[1:-1])):.4g}")
        curve, q, dq, slowed = shortest_curve(full, x)
        if curve is not None:
            cost = problem.model.cost(q, dq)
            if best is None or cost < best[0]:
                best = (cost, curve, q, dq)
        if (curve is not None and not slowed) or clock.over(0.85):
            break
    if best is None:
        raise InputError(
            "no trajectory through optimum points keeps all limits",
            Text("give more time (", Option("time_budget"), "), wider limits, or another start pose"),
            problem.model.robot.name,
        )
    return best[1:]


def _weighted(model: EnergyModel, share: float) -> EnergyModel:
    """Return the model with this share of its weight on S, all of it where cond(W) has none."""
    return replace(model, lambda2=share * model.lambda2) if model.lambda1 > 0 else model


def interpolate_points(
    problem: SegmentProblem, q: Array, dq: Array
) -> tuple[PiecewiseQuintic | None, Array, Array, bool]:
    """Return a trajectory through given points, its points, and whether points had to be slowed down; None if no
    interpolation keeps the limits.
    """
    times = np.full(len(q) + 1, 5.0)  # beyond what any segment needs: the shortest times decide
    return shortest_curve(problem, np.concatenate((problem.substitution.variables(q, dq), times)))


def draw_variables(problem: SegmentProblem, rng: np.random.Generator) -> Array:
    """Return random variables: points as in Gautier 1992, times in which a joint crosses its range at half speed."""
    b = problem.substitution
    x = rng.standard_normal(b.size)
    typical = float(np.max((b.upper - b.lower) / b.velocity)) * 0.7
    return np.concatenate((x, np.full(len(b.fixed) + 1, np.log(typical))))


def shortest_curve(problem: SegmentProblem, x: Array) -> tuple[PiecewiseQuintic | None, Array, Array, bool]:
    """Return the curve with the shortest times that keeps all limits, its points, and whether points were slowed.

    A segment that leaves a limit at its shortest time gets the optimised time; if that fails too, the velocities at its
    ends are lowered, at last to zero, since between points at rest a quintic stays between them; one whose torques are
    too high takes more time. Where the path still collides, it takes a detour through the rest pose, which leaves the
    energies of the points as they are; a point from which not even that is reached comes nearer to it. None if none of
    this helps.
    """
    Q, D, u_optimised = problem.states(x)
    bounds = problem.penalty.bounds
    G, offset = constraint(problem.model.robot)
    u, stretch = u_optimised.copy(), np.ones(len(u_optimised))
    points = np.ones(len(Q), dtype=bool)  # the other states are the rest pose
    points[[0, -1]] = False
    open_ = np.arange(len(u))  # segments still to be settled
    slowed = False
    for attempt in range(ATTEMPTS):
        Z, dZ = Q @ G.T + offset, D @ G.T
        shortest = shortest_times(
            Z[open_], Z[open_ + 1], dZ[open_], dZ[open_ + 1], bounds.velocity, bounds.acceleration
        )
        u[open_] = stretch[open_] * np.maximum(shortest, MIN_SEGMENT_S)
        inside, able = _segments_ok(problem, Q, D, u, open_)
        if not attempt:
            failed = open_[~(inside & able)]
            longer = np.where(np.isin(open_, failed), u_optimised[open_], u[open_])
            trial = u.copy()
            trial[open_] = longer
            inside_longer, able_longer = _segments_ok(problem, Q, D, trial, open_)
            better = inside_longer & able_longer & ~(inside & able)
            u[open_[better]] = u_optimised[open_[better]]
            inside, able = inside | better, able | better
        bad = ~(inside & able)
        if not bad.any():
            t = np.concatenate(([0.0], np.cumsum(u)))
            return through_points(t, Q, D), Q[points], D[points], slowed
        slowed = True
        failed = open_[inside & ~able]
        stretch[failed] *= 1.2
        near = np.zeros(len(Q), dtype=bool)
        near[open_[bad]] = near[open_[bad] + 1] = True
        D = np.where(near[:, None], (0.85 if attempt < ATTEMPTS // 2 else 0.0) * D, D)
        open_ = np.flatnonzero(near[:-1] | near[1:])
        if attempt >= DETOURS_AFTER and len(failed):
            alone = np.concatenate((failed[points[failed] & ~points[failed + 1]], failed[~points[failed]] + 1))
            Q[alone] = problem.start + 0.8 * (Q[alone] - problem.start)
            between = failed[points[failed] & points[failed + 1]]
            Q, D = np.insert(Q, between + 1, problem.start, axis=0), np.insert(D, between + 1, 0.0, axis=0)
            points = np.insert(points, between + 1, False)
            u, stretch = np.insert(u, between, 1.0), np.insert(stretch, between, 1.0)
            if len(between):
                open_ = np.arange(len(u))
    return None, Q[points], D[points], slowed


def _segments_ok(
    problem: SegmentProblem, Q: Array, D: Array, u: Array, which: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for the segments `which` whether they keep the limits, exactly, and torques and distances, at samples."""
    robot, bounds, penalty = problem.model.robot, problem.penalty.bounds, problem.penalty
    G, offset = constraint(robot)
    qa, qb, dqa, dqb = Q[which], Q[which + 1], D[which], D[which + 1]
    finite = np.isfinite(u[which])
    u = np.where(finite, u[which], 1.0)
    a = hermite(qa @ G.T + offset, qb @ G.T + offset, dqa @ G.T, dqb @ G.T, u)
    da = derivative(a)
    low, high = piece_extrema(a, np.ones((len(u), 1)))
    v = np.max(np.abs(piece_extrema(da, u[:, None])), axis=0)
    w = np.max(np.abs(piece_extrema(derivative(da), u[:, None] ** 2)), axis=0)
    slack = 1.0 + 1e-11
    inside = finite & np.all((low >= bounds.lower - 1e-11) & (high <= bounds.upper + 1e-11), axis=1)
    inside &= np.all((v <= bounds.velocity * slack) & (w <= bounds.acceleration * slack), axis=1)
    if penalty.chi is None and penalty.shapes is None:
        return inside, np.ones_like(inside)
    s = np.linspace(0.0, 1.0, CHECKED)
    parts = _basis(s)
    ends = np.stack((qa, qb, u[:, None] * dqa, u[:, None] * dqb))
    q, dq, ddq = (np.einsum("em,ekj->kmj", parts[o], ends) / u[:, None, None] ** o for o in range(3))
    return inside, replace(penalty, tight=0.995).able(q, dq, ddq)
