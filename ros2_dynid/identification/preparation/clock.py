"""When the samples were taken: their period, and whether the stamps or an even grid tell the times better."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.cutoffs import spectrum
from ros2_dynid.identification.preparation.spline import spline_at
from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note, NoteKind
from ros2_dynid.recording.power_spectrum import power_spectrum

JITTER = 0.02
"""Stamps off an even grid by less than this fraction of a period count as even."""
GAP = 3.5
"""A pause between stamps longer than this many periods is a gap."""
REGULAR, NEAR = 0.95, 0.2
"""Stamps are regular if more than this share of their steps lie this near to a whole number of periods."""
SMOOTHER = 0.5
"""An even grid is preferred where it leaves less than this share of the noise that the stamps leave."""
COMPARED = 60.0
"""Stamps and even grid are compared on this much of the recording [s] at most."""


@dataclass(frozen=True, eq=False)
class Clock:
    """Times t (N,) [s] at which the samples count as taken, and the period of publishing [s]."""

    t: Array
    period: float
    notes: tuple[Note, ...] = ()


def period_of(t: Array, source: str = "") -> float:
    """Return the period [s] of stamps t that increase: where they jitter, of their mean, not of their median.

    A lost sample or a gap does not count. Of regular stamps, which may be rounded, each step is a number of periods.
    """
    steps = np.diff(t)
    period = float(np.median(steps))
    if not period > 0:
        raise InputError("the time stamps do not advance", "record with a running clock", source)
    usual = steps[steps <= GAP * period]
    turns = np.round(usual / period)
    if np.mean(np.abs(usual - turns * period) <= NEAR * period) > REGULAR:
        return float(np.sum(usual) / np.sum(turns))
    period = float(np.mean(steps))
    for _ in range(10):  # gaps make the mean too long at first
        period = float(np.mean(steps[steps <= max(GAP * period, steps.min())]))
    return period


def clock_of(t: Array, q: Array, fresh: NDArray[np.bool_], period: float) -> Clock:
    """Return when samples with stamps t (N,) and positions q (N, n) were taken; `fresh` ones do not repeat others.

    Stamps set when a message was sent or received jitter although the robot samples evenly; others tell when it really
    sampled. The right times are those along which the motion is smoother.
    """
    edges = gap_edges(t, GAP * period)
    even = np.concatenate([_even_times(t[a:b], period) for a, b in itertools.pairwise(edges)])
    off = float(np.sqrt(np.mean((t - even) ** 2))) / period
    if float(np.max(np.abs(t - even))) <= JITTER * period or np.any(np.diff(even) <= 0):
        return Clock(t, period)
    longest = int(np.argmax(np.diff(edges)))
    part = slice(int(edges[longest]), int(min(edges[longest + 1], edges[longest] + COMPARED / period)))
    used = fresh[part]
    if np.count_nonzero(used) < 64:
        return Clock(t, period)
    parts = [_resampled(times[part][used], q[part][used], period) for times in (t, even)]
    if _noise_ratio(parts[0], parts[1], 1.0 / period) > SMOOTHER:
        return Clock(t, period)
    text = f"the stamps jitter by {off:.0%} of a period, the motion does not: taken as even, {1.0 / period:.5g} Hz"
    return Clock(even, period, (Note(NoteKind.STAMPS, text),))


def gap_edges(t: Array, limit: float) -> NDArray[np.intp]:
    """Return the numbers of the first sample of each stretch without a pause longer than `limit` [s], and N."""
    return np.concatenate(([0], np.flatnonzero(np.diff(t) > limit) + 1, [len(t)]))


def _even_times(t: Array, period: float) -> Array:
    """Return the times of an even grid for stamps without a gap: each sample has a number, some may be missing.

    A message comes late, never early, so a stamp that lies too near to its successor is the one that is off.
    """
    count = np.arange(len(t))
    turns = (t - t[0]) / period
    if abs(turns[-1] - count[-1]) > 0.5:
        phase = float(np.angle(np.mean(np.exp(2j * np.pi * turns))) / (2.0 * np.pi))
        numbers = np.round(turns - phase)
        numbers = np.minimum.accumulate((numbers - count)[::-1])[::-1] + count
    else:
        numbers = count.astype(float)
    return np.asarray(period * numbers + np.mean(t - period * numbers))


def _resampled(t: Array, q: Array, period: float) -> Array:
    grid = t[0] + period * np.arange(int((t[-1] - t[0]) / period) + 1)
    return spline_at(t, q, grid)


def _noise_ratio(first: Array, second: Array, rate: float) -> float:
    """Return the noise of the second motion over that of the first: velocity power beyond four times the motion's."""
    motion = min(float(np.median(spectrum([q], rate).motion)) for q in (first, second))
    beyond = min(4.0 * motion, rate / 4.0)
    powers = []
    for q in (first, second):
        f, P = power_spectrum([np.diff(q, axis=0) * rate], rate)
        powers.append(np.sum(P[f > beyond], axis=0) * f[0])
    tiny = np.finfo(float).tiny
    return float(np.exp(np.mean(np.log(powers[1] + tiny) - np.log(powers[0] + tiny))))
