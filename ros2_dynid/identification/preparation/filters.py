# SPDX-License-Identifier: Apache-2.0

"""Zero-phase low-pass filters that differentiate exactly in their pass band."""

from __future__ import annotations

from functools import cache

import numpy as np

from ros2_dynid.model.robot import Array

KERNEL_LOBES = 2.5
"""Half length of a kernel in units of 1 / cutoff: its transition band reaches from 0.45 to 1.55 times the cut-off."""
MAX_CUTOFF_SHARE = 0.31
"""Highest cut-off as a fraction of the sampling rate: beyond it the transition would pass the Nyquist frequency."""
DIRECT_TAPS = 60
"""Taps for each output up to which direct sums beat fast Fourier transforms."""


def half_length(cutoff: float, rate: float) -> int:
    """Return K, the samples that the kernel of a low-pass at `cutoff` [Hz] reaches to either side at `rate` [Hz]."""
    return max(1, int(np.ceil(KERNEL_LOBES * rate / cutoff)))


def lowpass_kernel(cutoff: float, rate: float, derivative: int = 0, shift: float = 0.0, K: int | None = None) -> Array:
    """Return h, shape (2K + 1,), whose convolution with x at `rate` [Hz] is a derivative (0 to 2) of x, low-passed.

    h(t) = w(t) s(t), s(t) = 2 integral of cos(2 pi f t) over 0 <= f <= cutoff. The derivatives are those of h itself,
    so that no gain is lost to differences; they are scaled to be exact for constants, ramps and parabolas. With
    `shift` [s], less than a few periods, the output is x at later times, t + shift. K: another length.
    """
    K = half_length(cutoff, rate) if K is None else K
    k = np.arange(-K, K + 1)
    t = k / rate + shift
    nodes, weights = _quadrature()
    f = 0.5 * cutoff * (nodes + 1.0)
    omega = 2.0 * np.pi * f[:, None]
    df = cutoff * weights
    s = df @ np.cos(omega * t)
    s1 = -df @ (omega * np.sin(omega * t))
    s2 = -df @ (omega**2 * np.cos(omega * t))
    nu = np.pi / ((K + 1) / rate + abs(shift))
    w = 0.42 + 0.5 * np.cos(nu * t) + 0.08 * np.cos(2 * nu * t)
    w1 = -nu * (0.5 * np.sin(nu * t) + 0.16 * np.sin(2 * nu * t))
    w2 = -(nu**2) * (0.5 * np.cos(nu * t) + 0.32 * np.cos(2 * nu * t))
    if derivative == 0:
        h = s * w
        return np.asarray(h / h.sum())
    if derivative == 1:
        h = s1 * w + s * w1
        return np.asarray(h / -(h @ t))
    if derivative != 2:
        raise ValueError("derivative must be 0, 1 or 2")
    h = s2 * w + 2.0 * s1 * w1 + s * w2
    h0 = s * w / (s * w).sum()
    h = h - h.sum() * h0  # a constant has no acceleration
    return np.asarray(2.0 * h / (h @ t**2))


@cache
def _quadrature() -> tuple[Array, Array]:
    """Return nodes and weights of the integral over the frequency: finding them takes longer than a kernel."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return nodes, weights


def finer_kernel(cutoff: float, rate: float, m: int, derivative: int = 0) -> Array:
    """Return the kernel of `lowpass_kernel` sampled m times as densely, for x at m times the `rate` [Hz].

    It reaches exactly as far, 2 m K + 1 taps, so that its outputs belong to the same times.
    """
    if m == 1:
        return lowpass_kernel(cutoff, rate, derivative)
    K = half_length(cutoff, rate)
    h = lowpass_kernel(cutoff, m * rate, derivative, K=m * (K + 1) - 1)  # the window ends where the coarse one does
    return h[m - 1 : len(h) - (m - 1)]


def filter_signal(x: Array, kernel: Array, step: int) -> Array:
    """Return the kernel's outputs at every `step`-th sample, for x of shape (N, ...), where it lies inside the data.

    The outputs belong to the samples of `output_index`. scipy.signal.upfirdn does the same in 8 times the time.
    """
    if len(x) < len(kernel):
        return np.empty((0, *x.shape[1:]))
    first = -(-(len(kernel) - 1) // step)
    inputs = x[first * step - (len(kernel) - 1) :].reshape(-1, int(np.prod(x.shape[1:])))
    count = (len(inputs) - len(kernel)) // step + 1
    outputs = (_filter_by_fft if len(kernel) > DIRECT_TAPS * step else _filter_by_sums)(inputs, kernel, step, count)
    return outputs.reshape(count, *x.shape[1:])


def _filter_by_sums(x: Array, kernel: Array, step: int, count: int) -> Array:
    """Return `count` outputs of x (N, n): blocks of outputs are products with one matrix of shifted kernels."""
    m = min(count, max(8, len(kernel) // step))
    taps = np.zeros((m, (m - 1) * step + len(kernel)))
    for k in range(m):
        taps[k, k * step : k * step + len(kernel)] = kernel[::-1]
    whole = count // m
    blocks = np.lib.stride_tricks.sliding_window_view(x, taps.shape[1], axis=0)[:: m * step][:whole]
    out = np.empty((count, x.shape[1]))
    out[: whole * m] = np.matmul(taps, blocks.swapaxes(1, 2)).reshape(whole * m, -1)
    if whole * m < count:
        last = x[whole * m * step :][: (count - whole * m - 1) * step + len(kernel)]
        out[whole * m :] = taps[: count - whole * m, : len(last)] @ last
    return out


def _filter_by_fft(x: Array, kernel: Array, step: int, count: int) -> Array:
    """Return `count` outputs of x (N, n): overlapping blocks, each a product of Fourier transforms."""
    K = len(kernel)
    size = 1 << (min(max(4 * K, 1 << 12), len(x)) - 1).bit_length()
    m = max(1, (size - K) // step + 1)  # outputs of a block
    transform = np.fft.rfft(kernel, size)[:, None]
    out = np.empty((count, x.shape[1]))
    for begin in range(0, count, m):
        block = x[begin * step : begin * step + size]
        y = np.fft.irfft(np.fft.rfft(block, size, axis=0) * transform, size, axis=0)
        part = y[K - 1 : len(block) : step][: min(m, count - begin)]
        out[begin : begin + len(part)] = part
    return out


def output_index(n_samples: int, kernel_length: int, step: int) -> Array:
    """Return the places of the outputs of `filter_signal` among its n_samples inputs."""
    first = -(-(kernel_length - 1) // step)
    m = np.arange(first, (n_samples - 1) // step + 1)
    return np.asarray(m * step - (kernel_length - 1) // 2, dtype=float)
