"""Error bars for errors that are correlated in time: the estimate is repeated with one block of time left out.

A least-squares estimate solves sum over rows of z (y - x . base) = 0 with z = weight times x (or instruments). With
A_b = sum of z x^T and g_b = sum of z e over block b, leaving b out moves the estimate by -(A - A_b)^-1 g_b, and the
scatter of these moves gives the covariance. Errors may be correlated within a block, across joints, and may differ in
size along the motion; only blocks must be nearly independent. Neighbouring blocks are tapered into each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class Moments:
    """A (B, b, b) and g (B, b) of B blocks, and the recording each block is of, shape (B,)."""

    A: Array
    g: Array
    recording: Array


def block_moments(information: Information, value: Array, weights: Array) -> Moments:
    """Return the moments of weighted least squares: z = weight^2 x."""
    B, b = len(information.blocks), information.size
    A, g = np.zeros((B, b, b)), np.zeros((B, b))
    for j, columns in enumerate(information.columns):
        square = np.ix_(columns, columns)
        for k, block in enumerate(information.blocks):
            R = weights[j] * block.R[j]
            W = R[:, :-1]
            A[k][square] += W.T @ W
            g[k, columns] += W.T @ (R[:, -1] - W @ value[columns])
    return Moments(A, g, np.array([block.recording for block in information.blocks], dtype=float))


def jackknife(
    moments: Moments, identified: NDArray[np.bool_] | None = None, *, half: bool = False
) -> tuple[Array, float]:
    """Return the covariance, shape (b, b), and the degrees of freedom behind it.

    identified: shape (b,), False for parameters that the data leave open, which then have no covariance. Leaving a
    block out overstates its errors where it holds much of what is known; with `half` only half of that correction is
    made, (E - H A^-1)^-1/2 in place of (E - H A^-1)^-1.
    """
    B, b = moments.g.shape
    A = moments.A.sum(axis=0)
    scale = np.sqrt(np.abs(np.diag(A)))
    scale = np.where(scale > 0, scale, 1.0)
    A = A / np.outer(scale, scale)
    g = moments.g / scale
    inverse = np.linalg.pinv(A, rcond=1e-14)
    moves = np.empty((B, b))
    for k in range(B):
        H = moments.A[k] / np.outer(scale, scale)
        moves[k] = inverse @ _corrected(H, inverse, g[k], half)
    covariance = moves.T @ moves
    same = moments.recording[1:] == moments.recording[:-1]
    neighbours = moves[1:][same].T @ moves[:-1][same]
    tapered = covariance + 0.5 * (neighbours + neighbours.T)
    # Blocks that neighbour each other can share an error; never let their product shrink a variance.
    grow = np.maximum(np.diag(tapered), np.diag(covariance)) / np.maximum(np.diag(covariance), 1e-300)
    covariance = covariance * np.sqrt(np.outer(grow, grow))
    covariance = covariance / np.outer(scale, scale)
    if identified is not None:
        covariance[~identified] = 0.0
        covariance[:, ~identified] = 0.0
    return covariance, float(max(B - 1, 1))


def _corrected(H: Array, inverse: Array, g: Array, half: bool) -> Array:
    """Return the block's score as if not fitted: (E - H A^-1)^-1 g; g itself where the block is all there is."""
    E = np.eye(len(g)) - H @ inverse
    if half:
        E = np.real(scipy.linalg.sqrtm(E))
    try:
        return np.asarray(np.linalg.solve(E, g))
    except np.linalg.LinAlgError:
        return g
