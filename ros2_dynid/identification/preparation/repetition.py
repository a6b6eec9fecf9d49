# SPDX-License-Identifier: Apache-2.0

"""How often a motion repeats: the period after which the robot does the same again.

Errors that belong to the motion (a sign change between two samples, the step of an encoder, what the model lacks) come
again with every period. Stretches of time all have them alike; only stretches of the period tell how large they are.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.robot import Array

SAME = 0.02
"""A motion repeats if the difference after a period is below this share of the motion, rms over all joints."""
FEWEST = 1.8
"""Periods from which on a motion is taken as one that repeats: filters take the ends of one that was run twice."""
SHORTEST = 1.0
"""Shortest period [s]: faster ones are vibrations."""
LOOKED_AT = 50.0
"""Rate [Hz] up to which positions are looked at."""


def repetition(prepared: Prepared) -> float | None:
    """Return the period [s] of the motion, or None if it does not repeat at least FEWEST times."""
    segment = max(prepared.segments, key=lambda part: part.stop - part.start)
    step = max(1, int(prepared.filter.inner_rate / LOOKED_AT))
    return period_of(prepared.q[segment][::step], prepared.filter.inner_rate / step)


def period_of(q: Array, rate: float) -> float | None:
    """Return the period [s] of positions, shape (N, n), at `rate` [Hz]; None if they do not repeat FEWEST times."""
    first, last = int(SHORTEST * rate), int(len(q) / FEWEST)
    if last <= first + 2:
        return None
    difference = _differences(q)
    near = np.flatnonzero(difference[first:last] < SAME) + first
    if not len(near):
        return None
    apart = np.flatnonzero(np.diff(near) > 1)
    run = near[: apart[0] + 1] if len(apart) else near
    lag = int(run[np.argmin(difference[run])])
    period = _between(difference, lag)
    count = 1
    while (count + 1) * period < len(q) - 2:  # more periods tell the length of one more exactly
        count = min(2 * count, int((len(q) - 3) / period))
        expected = round(count * period)
        width = max(1, round(0.02 * period))
        around = difference[expected - width : expected + width + 1]
        if len(around) < 2 * width + 1 or around.min() >= SAME:
            break
        period = _between(difference, expected - width + int(np.argmin(around))) / count
        if count == int((len(q) - 3) / period):
            break
    return float(period / rate)


def _differences(q: Array) -> Array:
    """Return rms of q(t + lag) - q(t) over rms of q, all joints alike, for every lag up to nearly the length, (N,)."""
    x = (q - q.mean(axis=0)) / np.maximum(q.std(axis=0), 1e-300)
    N = len(x)
    spectrum = np.fft.rfft(x, 2 * N, axis=0)
    product = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:N].sum(axis=1)
    power = np.concatenate(([0.0], np.cumsum(np.sum(x**2, axis=1))))
    both = power[N - np.arange(N)] + power[N] - power[np.arange(N)]
    return np.asarray(np.sqrt(np.maximum(both - 2.0 * product, 0.0) / np.maximum(both, 1e-300)))


def _between(difference: Array, lag: int) -> float:
    """Return where the difference is smallest near `lag`, between samples: its square is a parabola there."""
    if not 0 < lag < len(difference) - 1:
        return float(lag)
    a, b, c = (difference[lag + k] ** 2 for k in (-1, 0, 1))
    curve = a - 2.0 * b + c
    return float(lag + (0.5 * (a - c) / curve if curve > 0.0 else 0.0))
