# SPDX-License-Identifier: Apache-2.0

"""Resonances: narrow peaks in the spectrum of what the rigid model leaves of a joint's effort, beyond the motion.

A drive with elasticity swings against its link, at a frequency that neither friction nor wrong inertias have. A peak
counts that stands out of its surroundings in both halves of the recordings at the same frequency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import regressor_function
from ros2_dynid.identification.preparation.cutoffs import power_spectrum
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class ResonanceThresholds:
    """When a peak is a resonance.

    ratio: of the peak over the median of its surroundings, an octave to either side; half_ratio: in each half of the
    data: noise alone stays below 4 in some ten segments of a spectrum, and is elsewhere in the other half. beyond:
    multiple of the motion's frequency, below which errors of the model lie. share: of the residual's power beyond the
    motion that is in the peak: less explains little. width: of the peak at half its height, as a share of its
    frequency: drives swing with less damping, but not alike in every pose. shift: of the frequency between the halves,
    for the same reason. edge: share of the position filter's cut-off up to which the spectrum is whole.
    """

    ratio: float = 5.0
    half_ratio: float = 2.5
    beyond: float = 3.0
    share: float = 0.2
    width: float = 0.6
    shift: float = 0.25
    edge: float = 0.85


THRESHOLDS = ResonanceThresholds()
MAX_SAMPLES = 100_000
"""Samples that are looked at: some twenty minutes of motion, which tell as much as more."""
BATCH = 4096
"""Samples whose regressor is held at a time."""
SAME_RATE = 1e-6
"""Relative difference of rates [Hz] that is rounding: the spectra of other rates are left out."""


@dataclass(frozen=True)
class Resonance:
    """A peak at a frequency [Hz]: over its surroundings, and its share of the residual's power beyond the motion."""

    joint: str
    frequency: float
    ratio: float
    share: float


def find_resonances(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    value: Array,
    thresholds: ResonanceThresholds = THRESHOLDS,
) -> list[Resonance]:
    """Return the resonances that the residual of the efforts shows, at most one for each joint."""
    spectra = [s for s in (p.spectrum for p in prepared) if s is not None]
    if not spectra:
        return []
    rate = min(p.filter.inner_rate for p in prepared)
    alike = [p for p in prepared if abs(p.filter.inner_rate / rate - 1.0) < SAME_RATE]
    parts = _residuals(robot, base, alike, value)
    low = thresholds.beyond * max(float(np.max(s.motion)) for s in spectra)
    high = thresholds.edge * min(p.filter.position_cutoff or 0.0 for p in prepared)
    halves = [half for part in parts for half in np.array_split(part, 2)]
    spectrum, first, second = (power_spectrum(x, rate) for x in (parts, halves[::2], halves[1::2]))
    found = []
    for j, name in enumerate(robot.active_names):
        peaks = [_peak(f, P[:, j], low, high, thresholds) for f, P in (spectrum, first, second)]
        frequencies = [peak[0] for peak in peaks]
        weak = peaks[0][1] < thresholds.ratio or min(peak[1] for peak in peaks) < thresholds.half_ratio
        if weak or peaks[0][2] < thresholds.share:
            continue
        if np.ptp(frequencies) <= thresholds.shift * frequencies[0]:
            found.append(Resonance(name, *peaks[0]))
    return found


def _residuals(robot: Robot, base: BaseParameters, prepared: Sequence[Prepared], value: Array) -> list[Array]:
    """Return what the model leaves of the efforts, stretch by stretch, (N, n): of the first `MAX_SAMPLES` samples."""
    chi = np.zeros(len(standard_names(robot)))
    chi[base.columns(robot)] = value[: len(base)]
    parts, left = [], MAX_SAMPLES
    regressor = regressor_function(robot, min(left, sum(len(p.t) for p in prepared)))
    for p in prepared:
        for part in p.segments:
            rows = range(part.start, min(part.stop, part.start + left), BATCH)
            blocks = [slice(k, min(k + BATCH, rows.stop)) for k in rows]
            predicted = [np.tensordot(chi, regressor(p.q[b], p.dq[b], p.ddq[b]), axes=1).T for b in blocks]
            if blocks:
                residual = p.tau[part.start : rows.stop] - np.concatenate(predicted)
                left -= len(residual)
                parts.append(residual)
    return parts


def _peak(f: Array, P: Array, low: float, high: float, limits: ResonanceThresholds) -> tuple[float, float, float]:
    """Return frequency, ratio to its surroundings and share of the power of the highest narrow peak; zeros: none."""
    best = (0.0, 0.0, 0.0)
    for k in np.flatnonzero((f > low) & (f < high)):
        if P[k] < P[max(k - 1, 0) : k + 2].max():
            continue
        inside = 0.5 * P[k] < P
        begin = k - int(np.argmin(inside[: k + 1][::-1])) + 1 if not inside[: k + 1].all() else 0
        end = k + int(np.argmin(inside[k:])) if not inside[k:].all() else len(f)
        if f[min(end, len(f) - 1)] - f[max(begin - 1, 0)] > limits.width * f[k] + 2.0 * f[0]:
            continue
        around = (f > 0.5 * f[k]) & (f < 2.0 * f[k]) & (np.abs(f / f[k] - 1.0) > 0.25) & (f < high)
        ratio = float(P[k] / np.median(P[around])) if around.any() else 0.0
        near = np.abs(f / f[k] - 1.0) <= 0.25
        share = float(P[near].sum() / P[f > low].sum())
        if ratio > best[1]:
            best = (float(f[k]), ratio, share)
    return best
