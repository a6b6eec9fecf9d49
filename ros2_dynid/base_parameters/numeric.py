# SPDX-License-Identifier: Apache-2.0

"""Base parameters by QR and by SVD of W, sampled at random points for the models d, d0 and h (Gautier 1991)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.regressor import regressor, regressor_d0
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

SOURCES = ("torque", "accel", "energy")
"""The models: d (torque), d0 (torque at zero velocity, "accel"), h (energy)."""
TILTS = 4
"""Directions of gravity sampled when the base tilts; three span them all."""


@dataclass(frozen=True)
class Points:
    """Sample points, each of shape (N, n_active), in SI units, and gravity at each, shape (N, 3)."""

    q: Array
    dq: Array
    ddq: Array
    gravity: Array

    def at(self, index: NDArray[np.intp]) -> Points:
        """Return the points selected."""
        return Points(self.q[index], self.dq[index], self.ddq[index], self.gravity[index])


def typical_length(robot: Robot) -> float:
    """Return the root mean square of the robot's lengths that are not zero [m], 1 if it has none."""
    lengths = [x for joint in robot.joints for x in (joint.b, joint.d, joint.r) if x != 0.0]
    return math.hypot(*lengths) / math.sqrt(len(lengths)) if lengths else 1.0


def natural_units(robot: Robot) -> tuple[float, float]:
    """Return the typical length [m] and |g| [m/s^2] of the robot, 1 where there is none."""
    return typical_length(robot), float(np.linalg.norm(robot.gravity)) or 1.0


def random_points(
    robot: Robot, count: int, rng: np.random.Generator, *, tilting_base: bool = False, spread: float = 1.0
) -> Points:
    """Return random points: any angle, shifts of about the robot's own lengths, whatever its limits.

    The structure of the model does not depend on the limits. Time is measured in sqrt(length / g), so that gravity,
    velocity and acceleration weigh alike in the torque of a robot of any size. spread: factor on the velocities.
    """
    length, g = natural_units(robot)
    second = np.sqrt(length / g)
    arm = np.array([length if robot.joints[j - 1].sigma == PRISMATIC else 1.0 for j in robot.active])
    turn = np.array([1.0 if robot.joints[j - 1].sigma == PRISMATIC else np.pi for j in robot.active])
    shape = (count, len(robot.active))
    q = random_positions(robot, rng, count, turn * arm)
    dq = rng.uniform(-1.0, 1.0, shape) * spread * arm / second
    ddq = rng.uniform(-1.0, 1.0, shape) * spread**2 * arm / second**2
    gravity = np.tile(robot.gravity, (count, 1))
    if tilting_base:
        tilts = rng.standard_normal((TILTS, 3))
        tilts *= np.linalg.norm(robot.gravity) / np.linalg.norm(tilts, axis=1, keepdims=True)
        gravity = tilts[np.arange(count) % TILTS]
    return Points(q, dq, ddq, gravity)


def points_needed(robot: Robot, source: str, columns: int, excess: float = 2.0) -> int:
    """Return how many points give `excess` times as many rows as columns, and a few more."""
    rows = 1 if source == "energy" else len(robot.active)
    return ceil(excess * columns / rows) + 8


def model_rows(robot: Robot, source: str, points: Points, columns: Sequence[int] | None = None) -> Array:
    """Return d, d0 or h at the points, shape (N, rows, columns); rows: n_active, or 1 for the energy.

    `comparable` makes W of them.
    """
    every = np.arange(len(standard_names(robot))) if columns is None else np.asarray(columns, dtype=int)
    n_rows = 1 if source == "energy" else len(robot.active)
    W = np.empty((len(points.q), n_rows, len(every)))
    directions, member = np.unique(points.gravity, axis=0, return_inverse=True)
    for k, direction in enumerate(directions):
        at = np.flatnonzero(member.reshape(-1) == k)
        tilted = robot if np.array_equal(direction, robot.gravity) else replace(robot, gravity=direction.copy())
        part = points.at(at)
        if source == "torque":
            rows = regressor(tilted, part.q, part.dq, part.ddq)
        elif source == "accel":
            rows = regressor_d0(tilted, part.q, part.ddq)
        else:
            rows = energy_regressor(tilted, part.q, part.dq)[:, None]
        W[at] = rows[..., every]
    return W


def comparable(rows: Array, source: str, points: Points) -> Array:
    """Return W, shape (r, c), from the model's rows at the points, shape (N, rows, c).

    Of the energy only differences count (Gautier 1991, eq. 11), so its mean over the points is taken off: what is
    constant then vanishes. Points of different gravity belong to different motions, each with a mean of its own.
    """
    if source == "energy":
        rows = rows.copy()
        _, member = np.unique(points.gravity, axis=0, return_inverse=True)
        for k in range(member.max() + 1):
            at = np.flatnonzero(member.reshape(-1) == k)
            rows[at] -= rows[at].mean(axis=0)
    return rows.reshape(-1, rows.shape[-1])


def row_units(robot: Robot, source: str, count: int) -> Array:
    """Return the size of each row of W, shape (r,), in natural units: a torque, a force, or an energy."""
    length, g = natural_units(robot)
    if source == "energy":
        return np.full(count, g * length)
    torque = np.array([g if robot.joints[j - 1].sigma == PRISMATIC else g * length for j in robot.active])
    return np.tile(torque, count)


EPS = float(np.finfo(float).eps)
NEAR_DEPENDENCE = 1e-6
"""Relative residual below which a column counts as made of others if the rank is reached without it."""


@dataclass(frozen=True)
class Dependence:
    """What a factorisation found: leaders (columns), beta of shape (b, c) with unit columns at the leaders.

    kept, dropped: the last diagonal element (singular value) counted as regular and the first one counted as zero,
    relative to the largest; tolerance: the relative limit between them.
    """

    leaders: list[int]
    beta: Array
    kept: float
    dropped: float
    tolerance: float
    doubt: str | None = None

    @property
    def gap(self) -> float:
        """Return kept over dropped, infinite if nothing but exact zeros was dropped."""
        return self.kept / self.dropped if self.dropped > 0.0 else np.inf


def by_qr(W: Array, tolerance: float | None = None) -> Dependence:
    """Return leaders and beta = R1^-1 R2 by QR (Gautier 1991, eq. 13 to 17), for the columns in the order given.

    The rank comes from QR with column pivoting, |T_ii| <= tau = r |T_11| eps counting as zero (tolerance: in place of
    r eps); the columns to delete from QR without pivoting, as those with a zero on the diagonal of R.
    """
    r, c = W.shape
    relative = r * EPS if tolerance is None else tolerance
    norms, live = _norms(W)
    R = _triangle(W[:, live] / norms)
    rank, kept, dropped = _rank(np.abs(np.diagonal(scipy.linalg.qr(R, mode="r", pivoting=True)[0])), relative)
    leads = independent_columns(R, _limit(relative, kept, dropped), rank)
    doubt = None
    if len(leads) != rank:
        doubt = f"QR with pivoting counts {rank} base parameters and QR without {len(leads)}"
    Q, R1 = np.linalg.qr(R[:, leads])
    beta = np.zeros((len(leads), c))
    beta[:, live] = scipy.linalg.solve_triangular(R1, Q.T @ R) * norms / norms[leads, None]
    return Dependence([live[k] for k in leads], beta, kept, dropped, relative, doubt)


def by_svd(W: Array, tolerance: float | None = None) -> Dependence:
    """Return leaders and beta = -V21 V22^-1 by SVD (Gautier 1991, eq. 21 to 28), for the columns in the order given.

    The rank comes from the singular values; the columns to delete are those whose rows of V2, taken from the last one,
    make the first regular V22: the columns that depend on those before them, which S V1^T shows as W does.
    """
    r, c = W.shape
    relative = r * EPS if tolerance is None else tolerance
    norms, live = _norms(W)
    R = _triangle(W[:, live] / norms)
    _, s, Vt = np.linalg.svd(R)
    rank, kept, dropped = _rank(s, relative)
    V2 = Vt[rank:].T
    leads = independent_columns(s[:rank, None] * Vt[:rank], _limit(relative, kept, dropped), rank)
    dependent = sorted(set(range(len(live))) - set(leads))
    doubt = None
    if len(leads) != rank:
        doubt = f"the singular values count {rank} base parameters and V2 leaves {len(leads)}"
    beta = np.zeros((len(leads), c))
    beta[np.arange(len(leads)), [live[k] for k in leads]] = 1.0
    if dependent and leads:
        regroup = -np.linalg.lstsq(V2[dependent].T, V2[leads].T, rcond=None)[0].T
        beta[:, [live[k] for k in dependent]] = regroup * norms[dependent] / norms[leads, None]
    return Dependence([live[k] for k in leads], beta, kept, dropped, relative, doubt)


def independent_columns(R: Array, limit: float, rank: int) -> list[int]:
    """Return the columns of R, none larger than about 1, that depend on none before them: at most `rank`.

    These are the columns that QR without pivoting keeps. A dependent column leaves nothing but rounding error, which
    that QR would take for a direction and remove from all columns after it. A small multiple of the unit matrix below R
    prevents that: what is left of a dependent column is then the multiple itself, far below the limit.
    """
    c = R.shape[1]
    bordered = np.vstack((R, 1e-4 * limit * np.eye(c)))
    residuals = np.abs(np.diagonal(np.linalg.qr(bordered, mode="r")))
    leads = [int(k) for k in np.flatnonzero(residuals > limit)]
    return leads if len(leads) == rank else _one_by_one(R, limit, rank)


def _one_by_one(R: Array, limit: float, rank: int) -> list[int]:
    """Return the same by orthogonalising column after column, each twice, for coefficients above 10^4."""
    Q = np.empty((len(R), min(len(R), rank)), order="F")
    leads: list[int] = []
    for k in range(R.shape[1]):
        if len(leads) == rank:
            break
        basis, x = Q[:, : len(leads)], R[:, k]
        x = x - basis @ (x @ basis)
        x -= basis @ (x @ basis)
        size = math.sqrt(x @ x)
        if size > limit:
            np.divide(x, size, out=Q[:, len(leads)])
            leads.append(k)
    return leads


def _limit(relative: float, kept: float, dropped: float) -> float:
    """Return the residual below which a column depends on those before it.

    It stands in the middle of the gap that pivoting has shown, where noise cannot reach it. A column that is nearly
    made of those before it, by a misalignment that rounded geometry brings, is left to later ones too: W has its full
    rank without it, and with it coefficients would be of the size of the misalignment's inverse.
    """
    return max(relative, math.sqrt(kept * dropped), min(NEAR_DEPENDENCE, 1e-3 * kept))


def condition(W: Array) -> float:
    """Return the condition number of W in the 2-norm, 1 for a matrix without columns."""
    s = np.linalg.svd(_triangle(W), compute_uv=False) if W.shape[1] else np.ones(1)
    return float(s[0] / s[-1]) if s[-1] > 0.0 else np.inf


def equilibrium(W: Array, floor: float = 1e-12) -> float:
    """Return S = |W_ij|max / |W_ij|min over the elements that are not zero (Gautier 1991); 1 for an empty matrix.

    floor: elements below it, relative to the largest of their column, are structural zeros in rounding error.
    """
    size = np.abs(W)
    largest = np.max(size, axis=0, initial=0.0)
    there = size > floor * largest
    return float(np.max(size) / np.min(size[there])) if np.any(there) else 1.0


def _triangle(W: Array) -> Array:
    """Return R of W = Q R, whose columns depend on each other as those of W, if that saves rows; else W."""
    return np.asarray(np.linalg.qr(W, mode="r")) if len(W) > W.shape[1] else W


def _norms(W: Array) -> tuple[Array, list[int]]:
    """Return what the columns that are not zero are divided by, and their places.

    Large columns come down to unit norm. Small ones stay small: their rounding errors are those of the larger numbers
    that made them, and would grow with them.
    """
    norms = np.linalg.norm(W, axis=0)
    live = np.flatnonzero(norms > 0.0)
    return np.maximum(norms[live], np.sqrt(len(W))), [int(k) for k in live]


def _rank(diagonal: Array, relative: float) -> tuple[int, float, float]:
    """Return the rank, and the last element kept and the first one dropped, relative to the first."""
    if not len(diagonal):
        return 0, 1.0, 0.0
    diagonal = diagonal / diagonal[0]
    rank = int(np.count_nonzero(diagonal > relative))
    dropped = float(diagonal[rank]) if rank < len(diagonal) else 0.0
    return rank, float(diagonal[rank - 1]), dropped


def without_effect(W: Array, tolerance: float = 1e-12) -> list[int]:
    """Return the columns of W, in natural units, that are zero: parameters that do not affect the model."""
    size = np.max(np.abs(W), axis=0, initial=0.0)
    return [int(k) for k in np.flatnonzero(size <= tolerance * max(1.0, float(np.max(size, initial=0.0))))]


def in_column_order(dependence: Dependence, order: Sequence[int]) -> Dependence:
    """Return what was found for W[:, order] in terms of W's own columns."""
    beta = np.zeros_like(dependence.beta)
    beta[:, list(order)] = dependence.beta
    return Dependence(
        [int(order[k]) for k in dependence.leaders],
        beta,
        dependence.kept,
        dependence.dropped,
        dependence.tolerance,
        dependence.doubt,
    )
