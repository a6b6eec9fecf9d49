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
from ros2_dynid.identification.preparation.filters import HIGHEST, LOBES
from ros2_dynid.identification.preparation.preparation_options import PreparationOptions
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.power_spectrum import power_spectrum, third_octaves

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
