# SPDX-License-Identifier: Apache-2.0

"""Total least squares: noise of the encoders also spoils W, which pulls ordinary estimates towards zero.

The noise that reaches W is measured: white noise as strong as the encoders' is sent through the same filters and the
same regressor, and D = sum of dW^T dW collects what it does. With the errors of tau scaled to one, the solution that
allows for noise in both is base = (W^T W - lambda D)^-1 W^T tau, lambda the smallest generalised eigenvalue of ([W
tau]^T [W tau], diag(D, rows)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg

from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.filters import filter_signal, lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.error_bars import Moments, block_moments, jackknife
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import error_levels, weighted_triangle, wls
from ros2_dynid.model.robot import Array


def add_encoder_noise(prepared: Prepared, seed: int) -> Prepared:
    """Return the motion with the encoders' own noise added once more, filtered as the positions were."""
    settings = prepared.filter
    if settings.position_cutoff is None:
        raise InputError("total least squares needs positions as recorded", "give a recording, not filtered arrays")
    rng = np.random.default_rng(seed)
    step = round(settings.rate / settings.inner_rate)
    kernels = [lowpass_kernel(settings.position_cutoff, settings.rate, k) for k in range(3)]
    count = (len(prepared.t) + 2) * step + len(kernels[0])
    noise = prepared.position_noise * rng.standard_normal((count, prepared.q.shape[1]))
    q, dq, ddq = (filter_signal(noise, kernel, step)[: len(prepared.t)] for kernel in kernels)
    return replace(prepared, q=prepared.q + q, dq=prepared.dq + dq, ddq=prepared.ddq + ddq)


def tls(information: Information, D_of: Information, prior: Array | None = None) -> Estimate:
    """Return the total least-squares estimate; D_of: the differences that the encoders' noise makes, as information.

    What the data do not determine stays as ordinary least squares leaves it.
    """
    ordinary = wls(information, prior)
    weights = 1.0 / ordinary.sigma
    known = ordinary.identified
    triangle = weighted_triangle(information, weights)
    left = triangle.tau - triangle.W[:, ~known] @ ordinary.value[~known]
    R = np.column_stack((triangle.W[:, known], left))
    S = R.T @ R
    rows = float(np.sum(information.rows))
    dW = weighted_triangle(D_of, weights).W[:, known]
    D = dW.T @ dW
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    C = np.zeros_like(S)
    C[:-1, :-1] = D
    C[-1, -1] = rows
    scaled = S / np.outer(scale, scale)
    # the largest ratio of noise to signal is 1 / lambda: well posed even where D is singular
    ratio = scipy.linalg.eigh(C / np.outer(scale, scale), scaled + 1e-15 * np.eye(len(S)), eigvals_only=True)[-1]
    A = S[:-1, :-1] - D / ratio
    small = scale[:-1]
    value = ordinary.value.copy()
    value[known] = np.linalg.solve(A / np.outer(small, small), S[:-1, -1] / small) / small
    noise = np.zeros((information.size, information.size))
    noise[np.ix_(known, known)] = D / ratio
    moments = block_moments(information, value, weights)
    corrected = _less_noise(moments, noise, value)
    if moments.phases is not None:
        corrected = replace(corrected, phases=_less_noise(moments.phases, noise, value))
    covariance, dof = jackknife(corrected, known)
    sigma = error_levels(information, value, weights)
    return replace(ordinary, value=value, covariance=covariance, sigma=sigma, method=Method.TLS, dof=dof)


def _less_noise(moments: Moments, noise: Array, value: Array) -> Moments:
    """Return the moments with the noise's, shape (b, b), taken off, the same share from each block."""
    share = noise / len(moments.g)
    return Moments(moments.A - share, moments.g + share @ value, moments.recording)


def build_fit(problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return total least squares for a problem; the noise of W is that of the encoders, added once more."""

    def noise_rows(number: int) -> Iterator[Rows]:
        noisy = problem.rows_of(add_encoder_noise(problem.prepared[number], number))
        for clean, more in zip(problem.rows(number), noisy, strict=True):
            yield Rows(clean.t, more.W - clean.W, np.zeros_like(clean.tau), clean.keep)

    information, noise = problem.information, problem.gather_rows(noise_rows, on_chunk=on_chunk)

    def fit(blocks: Sequence[int] | None) -> Estimate:
        return tls(information.take(blocks), noise.take(blocks), problem.prior)

    return fit
