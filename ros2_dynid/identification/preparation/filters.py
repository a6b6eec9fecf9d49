# SPDX-License-Identifier: Apache-2.0

"""Zero-phase low-pass filters that differentiate exactly in their pass band, and their cut-offs from the spectrum.

Cut-offs come from the spectrum of the positions: where the motion is, and where it drowns in noise. Stamps that are
off, or samples that repeat, make noise that follows the speed: it lies above the encoder's noise over decades of
frequency. The spectrum is therefore smoothed in third octaves, and motion is only what hangs together with its peak:
power beyond the first band that is near the noise does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.model.robot import Array

SEGMENT = 5.0
"""Length of the segments that a spectrum is averaged over [s]."""
MIN_SAMPLES = 64
"""Samples of a segment at least."""


def power_spectrum(parts: Sequence[Array], rate: float) -> tuple[Array, Array]:
    """Return f (m,) [Hz] without 0, and the one-sided power spectrum P (m, n) of signals, shape (N_k, n) each, at rate.

    Segments are detrended by their mean, have a Hann window and overlap by half. Stretches shorter than a segment are
    left out, unless all are: then the longest sets the segment's length.
    """
    longest = max(len(part) for part in parts)
    length = min(longest, max(MIN_SAMPLES, int(SEGMENT * rate)))
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(length) / length)
    total, count = np.zeros((length // 2 + 1, parts[0].shape[1])), 0
    for part in parts:
        for start in range(0, len(part) - length + 1, max(1, length // 2)):
            x = part[start : start + length]
            spectrum = np.fft.rfft((x - x.mean(axis=0)) * window[:, None], axis=0)
            total += spectrum.real**2 + spectrum.imag**2
            count += 1
    P = 2.0 * total / (count * rate * np.sum(window**2))
    return np.arange(1, length // 2 + 1) * rate / length, P[1:]


def third_octaves(f: Array, P: Array) -> tuple[Array, Array]:
    """Return the upper edges (b,) [Hz] of the third-octave bands of f, and the mean (b, n) of P in them."""
    number = np.floor(3.0 * np.log2(f / f[0]) + 0.5).astype(int)
    first = np.flatnonzero(np.diff(number, prepend=-1))
    counts = np.diff(np.append(first, len(f)))
    return f[first + counts - 1], np.add.reduceat(P, first, axis=0) / counts[:, None]


LOBES = 2.5
"""Half length of a kernel in units of 1 / cutoff: its transition band reaches from 0.45 to 1.55 times the cut-off."""
HIGHEST = 0.31
"""Highest cut-off as a fraction of the sampling rate: beyond it the transition would pass the Nyquist frequency."""
FAST = 60
"""Taps for each output above which fast Fourier transforms beat the direct sum."""


def half_length(cutoff: float, rate: float) -> int:
    """Return K, the samples that the kernel of a low-pass at `cutoff` [Hz] reaches to either side at `rate` [Hz]."""
    return max(1, int(np.ceil(LOBES * rate / cutoff)))


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


def filtered(x: Array, kernel: Array, step: int) -> Array:
    """Return the kernel's outputs at every `step`-th sample, for x of shape (N, ...), where it lies inside the data.

    The outputs belong to the samples of `output_index`.
    """
    first = -(-(len(kernel) - 1) // step)
    if len(x) < len(kernel):
        return np.empty((0, *x.shape[1:]))
    wanted = x[first * step - (len(kernel) - 1) :]
    count = (len(wanted) - len(kernel)) // step + 1
    columns = wanted.reshape(len(wanted), -1)
    found = (_by_fft if len(kernel) > FAST * step else _by_sums)(columns, kernel, step, count)
    return found.reshape(count, *x.shape[1:])


def _by_sums(x: Array, kernel: Array, step: int, count: int) -> Array:
    """Return `count` outputs of x (N, n): blocks of outputs are products with one matrix of shifted kernels."""
    m = min(count, max(8, len(kernel) // step))
    taps = np.zeros((m, (m - 1) * step + len(kernel)))
    for k in range(m):
        taps[k, k * step : k * step + len(kernel)] = kernel[::-1]
    whole = count // m
    blocks = np.lib.stride_tricks.sliding_window_view(x, taps.shape[1], axis=0)[:: m * step][:whole]
    out = np.empty((count, x.shape[1]))
    out[: whole * m] = np.matmul(taps, blocks.swapaxes(1, 2)).reshape(whole * m, -1)
    left = count - whole * m
    if left:
        rest = x[whole * m * step :][: (left - 1) * step + len(kernel)]
        out[whole * m :] = taps[:left, : len(rest)] @ rest
    return out


def _by_fft(x: Array, kernel: Array, step: int, count: int) -> Array:
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
    """Return the places of the outputs of `filtered` among its n_samples inputs."""
    first = -(-(kernel_length - 1) // step)
    m = np.arange(first, (n_samples - 1) // step + 1)
    return np.asarray(m * step - (kernel_length - 1) // 2, dtype=float)


MOTION_TO_ROWS = 3.0
"""The cut-off of the second low-pass over the frequency that holds 99 % of the velocity's power. Torques have products
of two signals of the motion, up to twice its frequency, which pass nearly whole; beyond, there is mostly what the model
lacks."""
ROWS_TO_POSITION = 5.0
"""The positions are low-passed this far above the second filter, so that its pass band is not touched."""
RATE_OVER_CUTOFF = 4.0
"""Rate at which the regressor is computed, over the positions' cut-off. The filter ends at 1.6 times the cut-off,
products of two signals at 3.2 times: at this rate they fold to 0.8 times it, beyond the rows' filter."""
ROW_RATE_OVER_CUTOFF = 5.0
"""Rate of the rows kept, over the cut-off of the second filter: its transition ends below half of this."""
FOR_FRICTION = (2.0, 8.0)
"""Friction changes faster than the motion: where positions are clean enough, the second low-pass keeps this much [Hz],
at least the first, at most the second. More changes nothing: the torque of a sign change is spread over its filter."""
SHARE_OF_ENDS = 0.05
"""It never goes so low that its transient takes more than this share of the recording at either end."""
ABOVE_FLOOR = 10.0
"""Motion stands out of the noise where its power is more than this many times the floor."""
LOOKED_AT = 120.0
"""The spectrum is taken from at most this much of a recording [s]."""


@dataclass(frozen=True)
class Cutoffs:
    """Cut-offs proposed or asked for [Hz]; step: samples between inner ones; row_step: inner samples between rows.

    slow_rate: whether the rows would keep more, were there more samples a second.
    """

    position: float
    row: float
    step: int
    row_step: int
    slow_rate: bool = False


def propose(found: Spectrum, n_samples: int, rate: float, options: PreparationOptions, source: str = "") -> Cutoffs:
    """Return the filters for n_samples positions at `rate` [Hz] with this spectrum, unless asked for."""
    highest = HIGHEST * rate
    motion = float(np.median(found.motion))
    visible = float(np.median(found.visible))
    lowest = max(float(np.clip(visible / ROWS_TO_POSITION, *FOR_FRICTION)), LOBES * rate / (SHARE_OF_ENDS * n_samples))
    wished = options.row_cutoff or max(MOTION_TO_ROWS * motion, lowest)
    row = options.row_cutoff or min(wished, highest / 2.2)
    position = options.position_cutoff or min(max(min(ROWS_TO_POSITION * row, visible), 2.2 * row), highest)
    for name, value in (("position", position), ("row", row)):
        if value > highest * 1.0001:
            what = f"the {name} cut-off of {value:g} Hz is too high for data at {rate:.4g} Hz"
            raise InputError(what, f"choose at most {highest:.4g} Hz", source)
    step = max(1, int(rate / (RATE_OVER_CUTOFF * position)))
    wanted = options.row_rate or ROW_RATE_OVER_CUTOFF * row
    return Cutoffs(position, row, step, max(1, int(rate / step / wanted + 0.5)), wished > row)


@dataclass(frozen=True)
class Spectrum:
    """What the positions' spectrum says, for each joint, shape (n,).

    floor: white noise of the positions [rad^2/Hz]; motion: frequency [Hz] below which 99 % of the velocity's power lie,
    which vibrations hardly change; visible: frequency [Hz] up to which the motion stands out of the noise.
    """

    floor: Array
    motion: Array
    visible: Array


def spectrum(parts: Sequence[Array], rate: float, quantum: Array | None = None) -> Spectrum:
    """Return the figures of positions, shape (N_k, n) each, sampled at `rate` [Hz], averaged over all stretches.

    quantum: the steps of the encoders, shape (n,). Their noise is not white where a joint takes many samples for a
    step: all of its power quantum^2 / 12 lies below the frequency of the steps.
    """
    # velocities leak less over the window's side lobes than positions do
    f, P = power_spectrum([np.diff(q, axis=0) * rate for q in parts], rate)
    gain = (2.0 * rate * np.sin(np.pi * f / rate)) ** 2  # of the difference, from positions to velocities
    white = P / gain[:, None]
    floor = np.median(white[f > rate / 3.0], axis=0)
    if quantum is not None:
        speed = np.mean([np.mean(np.abs(np.diff(q, axis=0)), axis=0) for q in parts], axis=0) * rate
        steps = np.clip(speed / np.maximum(quantum, 1e-300), f[0], rate / 2.0)
        floor = np.maximum(floor, quantum**2 / 12.0 / steps)
    edges, level = third_octaves(f, white)
    # noise of the positions grows with f in the velocities: only what stands out of it can be the motion's peak
    power = (
        third_octaves(f, np.maximum(P - ABOVE_FLOOR * gain[:, None] * floor, 0.0))[1]
        * np.diff(edges, prepend=0.0)[:, None]
    )
    n = P.shape[1]
    motion, visible = np.zeros(n), np.zeros(n)
    for j in range(n):
        peak = int(np.argmax(power[:, j]))
        if not power[peak, j] > 0:
            continue
        drowned = np.flatnonzero(level[peak:, j] <= ABOVE_FLOOR * floor[j])
        end = edges[max(peak + int(drowned[0]) - 1, 0)] if len(drowned) else edges[-1]
        inside = np.cumsum(np.where(f <= end, P[:, j], 0.0))
        motion[j] = f[int(np.searchsorted(inside, 0.99 * inside[-1]))]
        visible[j] = end
    return Spectrum(floor, motion, visible)


def looked_at(parts: Sequence[Array], rate: float) -> list[Array]:
    """Return the first LOOKED_AT seconds of stretches, shape (N_k, n) each, that a spectrum is taken from."""
    left, taken = int(LOOKED_AT * rate), []
    for part in parts:
        if left <= 1:
            break
        taken.append(part[:left])
        left -= len(taken[-1])
    return taken
