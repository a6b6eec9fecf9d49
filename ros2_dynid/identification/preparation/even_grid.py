"""Stretches without a gap, on an even grid."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note, remark, repaired
from ros2_dynid.recording.samples import Samples

JITTER = 0.02
"""Stamps off an even grid by less than this fraction of a period count as even."""
GAP = 3.5
"""A pause between stamps longer than this many periods splits a recording."""
FEWEST = 16
"""A stretch with fewer samples is of no use."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Samples without a gap at even times t (N,) [s]: q, tau (N, n), and dq where it was recorded throughout."""

    t: Array
    q: Array
    tau: Array
    dq: Array | None = None


def stretches(samples: Samples) -> tuple[list[Stretch], float, tuple[Note, ...]]:
    """Return stretches on an even grid, their rate [Hz] and notes. Samples must be in order and finite."""
    t = samples.t
    if len(t) < FEWEST:
        raise InputError(f"only {len(t)} usable samples are left", "record longer", samples.source)
    period = float(np.median(np.diff(t)))
    if not period > 0:
        raise InputError("the time stamps do not advance", "record with a running clock", samples.source)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(t) > GAP * period) + 1, [len(t)]))
    notes = [remark(f"{len(edges) - 2} gaps split the recording")] if len(edges) > 2 else []
    # The median of rounded stamps is coarse: the longest stretch's mean period is the better clock.
    longest = int(np.argmax(np.diff(edges)))
    span = t[edges[longest] : edges[longest + 1]]
    mean = float((span[-1] - span[0]) / (len(span) - 1))
    period = mean if abs(mean - period) < 0.1 * period else period
    found, uneven = [], False
    for start, stop in itertools.pairwise(edges):
        if stop - start < FEWEST:
            continue
        stretch, resampled = _even(samples.take(slice(int(start), int(stop))), period)
        found.append(stretch)
        uneven |= resampled
    if not found:
        raise InputError("gaps cut the recording into shreds", "record without losing samples", samples.source)
    if uneven:
        notes.append(repaired(f"uneven stamps: resampled to {1.0 / period:.5g} Hz"))
    return found, 1.0 / period, tuple(notes)


def _even(part: Samples, period: float) -> tuple[Stretch, bool]:
    """Return samples without a gap on the grid of `period` [s], and whether they had to be resampled, by splines."""
    t = part.t
    even = t[0] + period * np.arange(int(np.floor((t[-1] - t[0]) / period + 1e-6)) + 1)
    assert part.tau is not None
    dq = part.dq if part.dq is not None and np.isfinite(part.dq).all() else None
    if len(even) == len(t) and np.max(np.abs(even - t)) <= JITTER * period:
        return Stretch(even, part.q, part.tau, dq), False

    def at_even(x: Array) -> Array:
        return np.asarray(CubicSpline(t, x, axis=0)(even))

    return Stretch(even, at_even(part.q), at_even(part.tau), None if dq is None else at_even(dq)), True
