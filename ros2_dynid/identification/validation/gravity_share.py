# SPDX-License-Identifier: Apache-2.0

"""How much of gravity the efforts hold: all of it, or none, as of robots that compensate it in their own controller.

The regressor is a part of the motion and a part of gravity, W = W_m + W_g. With a share s of gravity in the efforts,
tau = (W_m + s W_g) base: for each s a linear fit, so s is found by the one that fits best (variable projection). Its
standard deviation is a jackknife over stretches of time. Whether efforts without gravity (s = 0) are the better
description is decided by errors on stretches left out, in comparison with s = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.identification.preparation.rows import row_chunks, row_count, thin_chunks
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.least_squares import solve_weighted
from ros2_dynid.model.robot import Array, with_gravity


@dataclass(frozen=True)
class GravityThresholds:
    """When efforts are said to hold another share of gravity than all of it.

    blocks: stretches of time that are left out in turn; rows: of each joint that are looked at, enough for the 60
    parameters of a six-joint arm; chunks: of rows that these are taken from, about, as for the friction law; gain:
    standard errors of the gain on stretches left out (recordings with gravity have -3 to -7 of them without it, the
    same less their gravity 1.4 to 8); scatter: standard deviations between the share and 1, so that chance makes it in
    one of ten thousand; distance: shares nearer to 1 are within what errors of a model make of it (a Panda's link
    torques: 1.2); absent: a smaller share is none, since controllers that compensate gravity are that good;
    confirmed: standard deviations between the share and 1 where the a priori masses say the same share, within two
    standard deviations, which chance makes of one in a hundred, and of wrong masses seldom at all; sure: standard
    deviations between the share and 1 that a gain of one standard error will do for: noisy efforts of a slow motion are
    predicted about as well with any share, but tell it.
    """

    blocks: int = 10
    rows: int = 3000
    chunks: int = 60
    gain: float = 2.0
    scatter: float = 4.0
    distance: float = 0.25
    absent: float = 0.05
    confirmed: float = 2.5
    sure: float = 10.0


GRAVITY = GravityThresholds()
RANGE = (-0.5, 2.0)
"""Shares that are tried."""
SHARE_TOLERANCE = 1e-3
"""How exactly the best share is searched for: error bars of recordings are larger."""
RANK = 1e-9
"""Singular values of the scaled columns below this share of the largest are left out: without gravity some vanish."""


@dataclass(frozen=True)
class GravityShare:
    """The share of gravity in the efforts that fits best, with its standard deviation.

    with_gravity, without, best: relative torque error on stretches left out, with all of gravity, none, and this share.
    """

    share: float
    std: float
    with_gravity: float
    without: float
    best: float

    def __str__(self) -> str:
        """Return the share in words."""
        return f"{self.share:.2f} +- {self.std:.2f} of it fits best"


def find_gravity_share(
    problem: Problem, thresholds: GravityThresholds = GRAVITY, *, by_masses: float = np.nan
) -> GravityShare | None:
    """Return the share of gravity in the efforts where it is clearly not all of it, None otherwise.

    by_masses: the share that the a priori masses say, NaN if none.
    """
    if not np.any(problem.robot.gravity):
        return None
    blocks = _block_triangles(problem, thresholds)
    if len(blocks) < thresholds.blocks:
        return None
    remainders = [_join([*blocks[:k], *blocks[k + 1 :]]) for k in range(len(blocks))]
    share = _best_share(_join(blocks))
    errors = [_errors_left_out(blocks, remainders, one) for one in (1.0, 0.0, share)]
    without, best = (_gain_in_errors(errors[0], other) for other in errors[1:])
    asked = abs(1.0 - by_masses) >= thresholds.distance
    if max(without, best) <= min(1.0, thresholds.gain) and not asked:
        return None
    std = float(np.sqrt((len(blocks) - 1) * np.var([_best_share(remainder) for remainder in remainders])))
    away = abs(1.0 - share)
    by_errors = max(without, without if abs(share) <= thresholds.absent else best) > thresholds.gain
    confirmed = asked and abs(share - by_masses) <= max(2.0 * std, thresholds.absent) and best > -1.0
    sure = best > 1.0 and away > thresholds.sure * std
    if not (by_errors or confirmed or sure):
        return None
    if away < max(thresholds.distance, (thresholds.confirmed if confirmed else thresholds.scatter) * std):
        return None
    size = np.sqrt(sum(float(part.tau @ part.tau) for part in blocks))
    return GravityShare(share, std, *(float(np.sqrt(np.sum(squares)) / size) for squares in errors))


@dataclass(frozen=True, eq=False)
class _Triangle:
    """R factors of weighted rows: of the motion, W_m (r, c), of gravity, W_g (r, c), and the torque (r,)."""

    motion: Array
    gravity: Array
    tau: Array

    def columns(self, share: float) -> Array:
        """Return the columns with this share of gravity, shape (r, c)."""
        return self.motion + share * self.gravity


def _block_triangles(problem: Problem, thresholds: GravityThresholds) -> list[_Triangle]:
    """Return the R factors of stretches of time, rows of all joints in units of their errors."""
    robot, columns = problem.robot, problem.base.columns(problem.robot)
    still, delay = with_gravity(robot, (0.0, 0.0, 0.0)), bool(problem.information.layout.n_delay)
    weights = solve_weighted(problem.information)[1]
    some = thin_chunks(problem.prepared, thresholds.chunks)
    every = max(1, sum(map(row_count, problem.prepared)) // (some * thresholds.rows))
    times, chunks = [], []
    for number, prepared in enumerate(problem.prepared):
        both = (row_chunks(one, prepared, columns, delay=delay, every=some) for one in (robot, still))
        for full, motion in zip(*both, strict=True):
            for j, weight in enumerate(weights):
                kept = np.flatnonzero(full.keep[j])[::every]
                alone = motion.W[:, j, kept]
                parts = (alone.T, (full.W[:, j, kept] - alone).T, full.tau[j, kept][:, None])
                times.append(np.column_stack((np.full(len(kept), number), full.t[kept])))
                chunks.append(weight * np.hstack(parts))
    rows, order = np.vstack(chunks), np.lexsort(np.vstack(times).T[::-1])
    if len(rows) < 3 * rows.shape[1]:  # too short to tell
        return []
    size = problem.information.layout.n_base + delay
    return [_triangle(rows[some], size) for some in np.array_split(order, thresholds.blocks)]


def _triangle(rows: Array, size: int) -> _Triangle:
    R: Array = np.linalg.qr(rows, mode="r")  # type: ignore[assignment]
    return _Triangle(R[:, :size], R[:, size : 2 * size], R[:, -1])


def _join(blocks: Sequence[_Triangle]) -> _Triangle:
    rows = np.vstack([np.column_stack((one.motion, one.gravity, one.tau)) for one in blocks])
    return _triangle(rows, blocks[0].motion.shape[1])


def _fit(part: _Triangle, share: float) -> Array:
    columns = part.columns(share)
    scale = np.linalg.norm(columns, axis=0)
    scale[scale == 0.0] = 1.0
    return np.asarray(np.linalg.lstsq(columns / scale, part.tau, rcond=RANK)[0] / scale)


def _square_error(part: _Triangle, share: float, value: Array) -> float:
    error = part.tau - part.columns(share) @ value
    return float(error @ error)


def _best_share(part: _Triangle) -> float:
    from scipy.optimize import minimize_scalar  # here, since it takes a while to import

    tried = np.linspace(*RANGE, 11)
    errors = [_square_error(part, share, _fit(part, share)) for share in tried]
    near = int(np.argmin(errors))
    bounds = (tried[max(near - 1, 0)], tried[min(near + 1, len(tried) - 1)])
    minimum = minimize_scalar(
        lambda share: _square_error(part, share, _fit(part, share)),
        bounds=bounds,
        method="bounded",
        options={"xatol": SHARE_TOLERANCE},
    )
    return float(minimum.x)


def _errors_left_out(blocks: Sequence[_Triangle], remainders: Sequence[_Triangle], share: float) -> Array:
    """Return the squared error on each block of the fit to the others, its remainder."""
    pairs = zip(blocks, remainders, strict=True)
    return np.array([_square_error(block, share, _fit(remainder, share)) for block, remainder in pairs])


def _gain_in_errors(before: Array, after: Array) -> float:
    """Return how much lower the squared errors of blocks became, in standard errors; 0 if they are the same."""
    gains = before - after
    return float(np.mean(gains) / max(np.std(gains, ddof=1) / np.sqrt(len(gains)), 1e-300))
