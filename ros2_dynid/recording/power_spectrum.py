# SPDX-License-Identifier: Apache-2.0

"""Power spectra by Welch's method, averaged over all stretches of a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
