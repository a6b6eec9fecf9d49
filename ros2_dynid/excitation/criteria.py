# SPDX-License-Identifier: Apache-2.0

"""How well a trajectory excites: condition number, equilibrium S and log-determinant of W, and their gradients.

cond(W) bounds the relative error of the base parameters by that of the measurements (Gautier 1992, eq. 12, 13); S says
how even the elements of W are (eq. 19). The smooth forms are p-norms of the singular values, or of the elements: with
p = 4 the condition number is the Frobenius one of W^T W (eq. 21), with p -> inf it is sigma_1 / sigma_b.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ros2_dynid.model.robot import Array

MEASURES = ("svd", "qr", "frobenius")


def condition_by(W: Array, measure: str = "svd") -> float:
    """Return the condition number of W by one of the three measures of Gautier 1992, section 4.1; inf without rank.

    svd: sigma_1 / sigma_b; qr: |R_11 / R_bb| of the QR factorisation with column pivoting, an estimate of it from
    below; frobenius: ||A||_F ||A^-1||_F of A = W^T W, which is about the square of the others.
    """
    if measure == "qr":
        R = scipy.linalg.qr(W, mode="r", pivoting=True)[0]
        diagonal = np.abs(np.diag(R))
        return float(diagonal[0] / diagonal[-1]) if diagonal[-1] > 0 else np.inf
    sigma = np.linalg.svd(W, compute_uv=False)
    if sigma[-1] <= 0:
        return np.inf
    if measure == "frobenius":
        return float(np.sqrt(np.sum(sigma**4) * np.sum(sigma**-4)))
    return float(sigma[0] / sigma[-1])


def structural_equilibrium(W: Array, structural: Array | None = None) -> float:
    """Return S = max |W_ij| / min |W_ij| over the elements of the mask `structural` (default: all).

    It is inf where an element is 0, or nothing but rounding, as the torque of a joint that stands still.
    """
    size = np.abs(W if structural is None else W[structural])
    smallest, largest = float(size.min()), float(size.max())
    return largest / smallest if smallest > 1e-12 * largest else np.inf


def column_norms(W: Array) -> Array:
    """Return the norms of the columns, 1 where a column is zero."""
    norms = np.linalg.norm(W, axis=0)
    return np.where(norms > 0, norms, 1.0)


def smooth_condition(W: Array, p: float) -> tuple[float, Array]:
    """Return log of the p-norm condition number, (1/p) log(sum sigma^p sum sigma^-p), and its derivative by W."""
    R = np.linalg.qr(W, mode="r") if len(W) > 2 * W.shape[1] else W
    _, sigma, Vt = np.linalg.svd(R, full_matrices=False)
    log_sigma = np.log(np.maximum(sigma, 1e-300))
    high, low = np.exp(p * (log_sigma - log_sigma[0])), np.exp(p * (log_sigma[-1] - log_sigma))
    value = log_sigma[0] - log_sigma[-1] + (np.log(high.sum()) + np.log(low.sum())) / p
    slope = high / high.sum() - low / low.sum()  # d value / d log sigma
    return float(value), W @ ((Vt.T * (slope / np.maximum(sigma, 1e-150) ** 2)) @ Vt)


def smooth_equilibrium(W: Array, p: float) -> tuple[float, Array]:
    """Return log of the p-mean equilibrium, (1/p) log(mean |W_ij|^p mean |W_ij|^-p), and its derivative by W.

    Means, not sums: with hundreds of elements a sum would weigh S many times too heavily as long as p is small.
    """
    size = np.maximum(np.abs(W), 1e-12)
    logs = np.log(size)
    high, low = np.exp(p * (logs - logs.max())), np.exp(p * (logs.min() - logs))
    value = logs.max() - logs.min() + (np.log(high.mean()) + np.log(low.mean())) / p
    return float(value), (high / high.sum() - low / low.sum()) * np.where(W < 0, -1.0, 1.0) / size


def minus_log_det(W: Array) -> tuple[float, Array]:
    """Return -log det(W^T W) / (2 b), the mean of -log sigma, and its derivative by W: D-optimality."""
    R = np.linalg.qr(W, mode="r") if len(W) > 2 * W.shape[1] else W
    _, sigma, Vt = np.linalg.svd(R, full_matrices=False)
    b = len(sigma)
    value = -float(np.mean(np.log(np.maximum(sigma, 1e-300))))
    return value, W @ ((Vt.T * (-1.0 / (b * np.maximum(sigma, 1e-150) ** 2))) @ Vt)


def normalised(W: Array) -> tuple[Array, Array]:
    """Return W with columns of norm 1, and the norms."""
    norms = column_norms(W)
    return W / norms, norms


def normalised_back(Wn: Array, norms: Array, C: Array) -> Array:
    """Return df/dW from C = df/dWn, Wn = W / norms: the part along each column does not change Wn."""
    return np.asarray((C - Wn * np.sum(C * Wn, axis=0)) / norms)


def relative_std(W: Array, base: Array, sigma: float = 1.0) -> Array:
    """Return the predicted standard deviation of each base parameter over its size, in percent, shape (b,).

    Cov = sigma^2 (W^T W)^-1 for rows of W divided by their torque noise; inf where the base parameter is 0.
    """
    R = np.linalg.qr(W, mode="r")
    inverse = scipy.linalg.solve_triangular(R, np.eye(len(R)))
    std = sigma * np.linalg.norm(inverse, axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(100.0 * std / np.abs(base))
