"""Instrumental variables (IDIM-IV) against the noise that comes through the regressor.

The instruments must follow the motion but not share its measurement noise. Here every second position sample makes the
regressor and the others make the instruments, through the same filter: encoder noise of different samples is
independent, and neither controller nor reference need be known. Both choices are used, so no sample is wasted:
sum of Z_e^T (tau - W_o base) + Z_o^T (tau - W_e base) = 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, RankError
from ros2_dynid.identification.estimators.covariance import Moments, jackknife
from ros2_dynid.identification.estimators.information import BLOCKS, Information
from ros2_dynid.identification.estimators.least_squares import TOLERANCE, Estimate, error_levels
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.model.robot import Array


def cross_moments(
    even: Iterable[Rows], odd: Iterable[Rows], weights: Array, n_rows: int, *, n_blocks: int = BLOCKS
) -> Moments:
    """Return A and y = sum of Z^T tau (in place of g) of each block, from rows of even and odd samples."""
    length = -(-n_rows // max(1, n_blocks))
    A: list[Array] = []
    y: list[Array] = []
    at = 0
    for first, second in zip(even, odd, strict=True):
        if first.W.shape != second.W.shape:
            raise InputError("even and odd samples give different rows", "record at an even rate")
        b, n, m = first.W.shape
        keep = (first.keep & second.keep) * weights[:, None] ** 2
        start = 0
        while start < m:
            block, take = at // length, min(m - start, length - at % length)
            while len(A) <= block:
                A.append(np.zeros((b, b)))
                y.append(np.zeros(b))
            part = slice(start, start + take)
            for j in range(n):
                Z, W, w = first.W[:, j, part], second.W[:, j, part], keep[j, part]
                cross = (Z * w) @ W.T
                A[block] += cross + cross.T
                y[block] += ((Z + W) * w) @ first.tau[j, part]
            start, at = start + take, at + take
    return Moments(np.array(A), np.array(y), np.zeros(len(A)))


def joined(parts: list[Moments]) -> Moments:
    """Return the moments of several recordings together."""
    recording = np.concatenate([np.full(len(part.g), k, dtype=float) for k, part in enumerate(parts)])
    return Moments(np.concatenate([p.A for p in parts]), np.concatenate([p.g for p in parts]), recording)


def iv(information: Information, moments: Moments, weights: Array, chosen: NDArray[np.intp] | None = None) -> Estimate:
    """Return the instrumental-variable estimate from cross moments (A, Z^T tau) of blocks, all or those chosen."""
    blocks = np.arange(len(moments.g)) if chosen is None else np.asarray(chosen)
    A_b, y_b = moments.A[blocks], moments.g[blocks]
    A, y = A_b.sum(axis=0), y_b.sum(axis=0)
    size = np.sqrt(np.abs(np.diag(A)))
    told = size > 0
    scale = np.where(told, size, 1.0)
    scaled = (A / np.outer(scale, scale))[np.ix_(told, told)]
    s = np.linalg.svd(scaled, compute_uv=False)
    rank = int(np.count_nonzero(s > TOLERANCE * s[0]))
    if rank < np.count_nonzero(told):
        raise RankError(
            "the instruments do not excite all base parameters",
            "use --method wls, which leaves open what is not excited, or excite the robot more",
            rank=rank,
            expected=int(np.count_nonzero(told)),
            tolerance=TOLERANCE,
        )
    value = np.zeros(len(y))
    value[told] = np.linalg.solve(scaled, (y / scale)[told])
    value /= scale
    g = y_b - np.einsum("kij,j->ki", A_b, value)
    covariance, dof = jackknife(Moments(A_b, g, moments.recording[blocks]), told)
    sigma = error_levels(information, value, weights)
    return Estimate(value, covariance, told, sigma, float(np.sqrt(s[0] / s[-1])), rank, "iv", dof)
