# SPDX-License-Identifier: Apache-2.0

"""Cut-offs from the spectrum of the positions: where the motion is, and where it drowns in noise.

Stamps that are off, or samples that repeat, make noise that follows the speed: it lies above the encoder's noise over
decades of frequency. The spectrum is therefore smoothed in third octaves, and motion is only what hangs together with
its peak: power beyond the first band that is near the noise does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.filters import KERNEL_LOBES, MAX_CUTOFF_SHARE
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class SpectrumThresholds:
    """What counts as motion and as noise in the spectrum of the positions.

    seconds: it is taken from at most this much of a recording [s], which shows all of the motion. segment: length of
    the segments that it is averaged over [s], which tells frequencies 0.2 Hz apart; segment_samples: their samples at
    least. noise_from: the rate over this is the frequency [Hz] above which there is nothing but noise. above_floor:
    motion stands out of the noise where its power is more than this many times the floor. power_share: of the
    velocity's power, below the frequency that counts as the motion's; vibrations hold less than the rest.
    """

    seconds: float = 120.0
    segment: float = 5.0
    segment_samples: int = 64
    noise_from: float = 3.0
    above_floor: float = 10.0
    power_share: float = 0.99


@dataclass(frozen=True)
class CutoffThresholds:
    """How the filters follow from the spectrum of the motion.

    motion_to_rows: cut-off of the second low-pass over the motion's frequency. Torques have products of two signals of
    the motion, up to twice its frequency, which pass nearly whole; beyond, there is mostly what the model lacks.
    rows_to_position: the positions are low-passed this far above the second filter, so that its pass band is not
    touched; least_rows_to_position: and never nearer to it, where noise or the rate ask for less. friction: band [Hz]
    that the second low-pass keeps for friction, which changes faster than the motion: at least the first, at most the
    second where the positions are clean enough. More changes nothing: the torque of a sign change is spread over its
    filter. end_share: a filter's transient takes at most this share of the recording at either end. inner_rate: rate at
    which the regressor is computed, over the positions' cut-off. The filter ends at 1.6 times the cut-off, products of
    two signals at 3.2 times: at this rate they fold to 0.8 times it, beyond the rows' filter. row_rate: rate of the
    rows kept, over the cut-off of the second filter, whose transition ends below half of this.
    """

    motion_to_rows: float = 3.0
    rows_to_position: float = 5.0
    least_rows_to_position: float = 2.2
    friction: tuple[float, float] = (2.0, 8.0)
    end_share: float = 0.05
    inner_rate: float = 4.0
    row_rate: float = 5.0

    def lowest_cutoff(self, n_samples: float, rate: float) -> float:
        """Return the lowest cut-off [Hz] whose transients leave enough of n_samples at `rate` [Hz]."""
        return KERNEL_LOBES * rate / (self.end_share * n_samples)

    def inner_step(self, position: float, rate: float) -> int:
        """Return the samples at `rate` [Hz] between two of the regressor, for positions up to a cut-off [Hz]."""
        return max(1, int(rate / (self.inner_rate * position)))

    def row_step(self, row: float, inner_rate: float, wanted: float | None = None) -> int:
        """Return the inner samples between two rows, for a cut-off [Hz] of the rows; wanted: their rate [Hz]."""
        return max(1, int(inner_rate / (wanted or self.row_rate * row) + 0.5))


def power_spectrum(
    parts: Sequence[Array], rate: float, thresholds: SpectrumThresholds | None = None
) -> tuple[Array, Array]:
    """Return f (m,) [Hz] without 0, and the one-sided power spectrum P (m, n) of signals, shape (N_k, n) each, at rate.

    Segments are detrended by their mean, have a Hann window and overlap by half. Stretches shorter than a segment are
    left out, unless all are: then the longest sets the segment's length.
    """
    limits, longest = thresholds or SpectrumThresholds(), max(len(part) for part in parts)
    length = min(longest, max(limits.segment_samples, int(limits.segment * rate)))
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


@dataclass(frozen=True)
class Cutoffs:
    """Cut-offs of positions and rows [Hz]; step: samples between inner ones; row_step: inner samples between rows.

    slow_rate: whether the rows would keep more, were there more samples a second.
    """

    position: float
    row: float
    step: int
    row_step: int
    slow_rate: bool = False


def propose_cutoffs(
    spectrum: Spectrum,
    n_samples: int,
    options: PreparationOptions,
    source: str = "",
    thresholds: CutoffThresholds | None = None,
) -> Cutoffs:
    """Return the filters for n_samples positions with this spectrum, those of the options first."""
    limits, rate = thresholds or CutoffThresholds(), spectrum.rate
    highest = MAX_CUTOFF_SHARE * rate
    motion, visible = float(np.median(spectrum.motion)), float(np.median(spectrum.visible))
    for_friction = float(np.clip(visible / limits.rows_to_position, *limits.friction))
    wished = max(limits.motion_to_rows * motion, for_friction, limits.lowest_cutoff(n_samples, rate))
    row = options.row_cutoff or min(wished, highest / limits.least_rows_to_position)
    far, near = limits.rows_to_position * row, limits.least_rows_to_position * row
    position = options.position_cutoff or min(max(min(far, visible), near), highest)
    for name, value in (("position", position), ("row", row)):
        if value > highest * 1.0001:
            what = f"the {name} cut-off of {value:g} Hz is too high for data at {rate:.4g} Hz"
            raise InputError(what, f"choose at most {highest:.4g} Hz", source)
    step = limits.inner_step(position, rate)
    slow_rate = options.row_cutoff is None and wished > row
    return Cutoffs(position, row, step, limits.row_step(row, rate / step, options.row_rate), slow_rate)


@dataclass(frozen=True)
class Spectrum:
    """Figures of the positions' spectrum, for each joint, shape (n,).

    floor: white noise of the positions [rad^2/Hz]; motion: frequency [Hz] below which 99 % of the velocity's power lie,
    which vibrations hardly change; visible: frequency [Hz] up to which the motion stands out of the noise. rate: at
    which they were sampled [Hz].
    """

    floor: Array
    motion: Array
    visible: Array
    rate: float


def estimate_spectrum(
    parts: Sequence[Array], rate: float, quantum: Array | None = None, thresholds: SpectrumThresholds | None = None
) -> Spectrum:
    """Return the figures of positions, shape (N_k, n) each, sampled at `rate` [Hz], averaged over all stretches.

    quantum: the steps of the encoders, shape (n,). Their noise is not white where a joint takes many samples for a
    step: all of its power quantum^2 / 12 lies below the frequency of the steps.
    """
    limits = thresholds or SpectrumThresholds()
    # velocities leak less over the window's side lobes than positions do
    f, P = power_spectrum([np.diff(q, axis=0) * rate for q in parts], rate, limits)
    gain = (2.0 * rate * np.sin(np.pi * f / rate)) ** 2  # of the difference, from positions to velocities
    white = P / gain[:, None]
    floor = np.median(white[f > rate / limits.noise_from], axis=0)
    if quantum is not None:
        speed = np.mean([np.mean(np.abs(np.diff(q, axis=0)), axis=0) for q in parts], axis=0) * rate
        steps = np.clip(speed / np.maximum(quantum, 1e-300), f[0], rate / 2.0)
        floor = np.maximum(floor, quantum**2 / 12.0 / steps)
    edges, level = third_octaves(f, white)
    # noise of the positions grows with f in the velocities: only what stands out of it can be the motion's peak
    beyond = np.maximum(P - limits.above_floor * gain[:, None] * floor, 0.0)
    power = third_octaves(f, beyond)[1] * np.diff(edges, prepend=0.0)[:, None]
    n = P.shape[1]
    motion, visible = np.zeros(n), np.zeros(n)
    for j in range(n):
        peak = int(np.argmax(power[:, j]))
        if not power[peak, j] > 0:
            continue
        drowned = np.flatnonzero(level[peak:, j] <= limits.above_floor * floor[j])
        end = edges[max(peak + int(drowned[0]) - 1, 0)] if len(drowned) else edges[-1]
        inside = np.cumsum(np.where(f <= end, P[:, j], 0.0))
        motion[j] = f[int(np.searchsorted(inside, limits.power_share * inside[-1]))]
        visible[j] = end
    return Spectrum(floor, motion, visible, rate)


def first_seconds(parts: Sequence[Array], rate: float, thresholds: SpectrumThresholds | None = None) -> list[Array]:
    """Return the beginning of stretches, shape (N_k, n) each, that a spectrum is taken from."""
    count, beginning = int((thresholds or SpectrumThresholds()).seconds * rate), []
    for part in parts:
        if count <= 1:
            break
        beginning.append(part[:count])
        count -= len(beginning[-1])
    return beginning
