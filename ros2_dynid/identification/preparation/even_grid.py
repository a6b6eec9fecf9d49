"""Stretches on an even grid: repeats left out, bursts interpolated, short gaps bridged, long ones left open."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.bursts import bursts, smoothed_over
from ros2_dynid.identification.preparation.clock import GAP, JITTER, clock_of, gap_edges, period_of
from ros2_dynid.identification.preparation.cutoffs import Spectrum, looked_at, spectrum
from ros2_dynid.identification.preparation.quantum import quantum_of
from ros2_dynid.identification.preparation.repeats import repeated
from ros2_dynid.identification.preparation.spline import spline_at
from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note, remark, repaired
from ros2_dynid.recording.samples import Samples

FEWEST = 16
"""A stretch with fewer samples is of no use."""
SHORT = 0.05
"""A gap is bridged if it is shorter than this share of the motion's period: a spline misses 1 % of the acceleration."""
SLOWEST_MOTION = 0.1
"""Motion counts as at least this fast [Hz], so that gaps of half a second are never bridged."""
PROVISIONAL = 12.0
"""Gaps of up to this many periods are bridged to see how fast the motion is."""
COARSE = 1e-3
"""Steps of the encoder that are larger than this share of a joint's motion are coarse."""
STALE = 0.02
"""Efforts are interpolated where more than this share of them repeat the one before: fewer may be chance."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Samples at even times t (N,) [s]: q, tau (N, n), bridged (N,): in a gap.

    dq, q_r, tau_f: velocities, commanded positions and added efforts where they were recorded throughout. temperature:
    of the drives (N, n), NaN for a joint whose temperature is not known; second: efforts of a second sensor, alike.
    """

    t: Array
    q: Array
    tau: Array
    dq: Array | None
    bridged: NDArray[np.bool_]
    q_r: Array | None = None
    temperature: Array | None = None
    tau_f: Array | None = None
    second: Array | None = None


@dataclass(frozen=True, eq=False)
class FirstPiece:
    """What a first piece of a recording says about all of it: the rate of the grid [Hz], and the spectrum."""

    rate: float
    spectrum: Spectrum


@dataclass(frozen=True, eq=False)
class Grid:
    """A recording on an even grid: its stretches, what is known of it, and notes."""

    parts: tuple[Stretch, ...]
    known: FirstPiece
    notes: tuple[Note, ...]


def even_grid(samples: Samples, like: FirstPiece | None = None) -> Grid:
    """Return stretches on an even grid, that of an earlier piece of the same recording if there is one.

    Samples must be in order and finite.
    """
    stale = repeated(samples.q)
    share = float(np.mean(stale)) if len(samples) else 0.0
    if np.count_nonzero(~stale) < FEWEST:
        what = f"only {np.count_nonzero(~stale)} usable samples are left"
        raise InputError(what, "record longer", samples.source)
    quantum = quantum_of(samples.q) if like is None else None
    published = share <= 0.5  # else the driver publishes so much faster that its period says nothing
    period = period_of(samples.t if published else samples.t[~stale], samples.source) if like is None else 1 / like.rate
    notes: list[Note] = []
    if published:
        clock = clock_of(samples.t, samples.q, ~stale, period)
        samples, notes = samples.with_arrays(clock.t, samples.arrays()), [*clock.notes]
    samples, effort_notes = _with_fresh_efforts(samples, stale)
    if share > 0.0:
        samples = samples.take(~stale)
        notes.append(repaired(f"{100 * share:.2g} % of the samples repeat the one before: left out"))
    notes += effort_notes
    samples, burst_notes = _without_bursts(samples)
    notes += burst_notes
    found = like.spectrum if like is not None else _provisional_spectrum(samples, period, quantum)
    limit = max(GAP * period, SHORT / max(float(np.median(found.motion)), SLOWEST_MOTION))
    parts, uneven = _parts(samples, period, limit)
    pauses = np.diff(samples.t)
    split, short = int(np.count_nonzero(pauses > limit)), pauses[(pauses > GAP * period) & (pauses <= limit)]
    if len(short):
        text = f"{len(short)} gaps of at most {1e3 * float(short.max()):.3g} ms are bridged, rows near them left out"
        notes.append(repaired(text))
    if split:
        notes.append(remark(f"{split} gaps split the recording" if split > 1 else "a gap splits the recording"))
    if uneven:
        notes.append(repaired(f"uneven stamps: resampled to {1.0 / period:.5g} Hz"))
    if quantum is not None and np.any(coarse := quantum > COARSE * np.ptp(samples.q, axis=0)):
        joint = int(np.flatnonzero(coarse)[0])
        text = (
            f"the positions of {np.count_nonzero(coarse)} joints, {samples.joint_names[joint]!r} first, have steps of "
        )
        notes.append(remark(f"{text}{quantum[joint]:.2g} rad or m: accelerations are poor; record them finer"))
    return Grid(tuple(parts), FirstPiece(1.0 / period, found), tuple(notes))


def later_effort(part: Stretch, n: int) -> Stretch:
    """Return the stretch with the torque of n samples later (earlier if negative), as far as both are there."""
    if n == 0:
        return part
    length = max(len(part.t) - abs(n), 0)
    motion, effort = slice(max(-n, 0), max(-n, 0) + length), slice(max(n, 0), max(n, 0) + length)
    dq = None if part.dq is None else part.dq[motion]
    q_r, temperature, tau_f = (None if x is None else x[motion] for x in (part.q_r, part.temperature, part.tau_f))
    bridged = part.bridged[motion] | part.bridged[effort]
    second = None if part.second is None else part.second[motion]
    return Stretch(part.t[motion], part.q[motion], part.tau[effort], dq, bridged, q_r, temperature, tau_f, second)


def _provisional_spectrum(samples: Samples, period: float, quantum: Array | None) -> Spectrum:
    """Return the spectrum of the positions with gaps bridged that are short, however fast the motion may be."""
    parts, _ = _parts(samples, period, PROVISIONAL * period)
    return spectrum(looked_at([part.q for part in parts], 1.0 / period), 1.0 / period, quantum)


def _with_fresh_efforts(samples: Samples, stale: NDArray[np.bool_]) -> tuple[Samples, list[Note]]:
    """Return samples whose efforts that repeat the one before, beside fresh positions, are interpolated."""
    assert samples.tau is not None
    held = repeated(samples.tau)
    share = float(np.mean(held & ~stale))
    if share <= STALE:
        return samples, []
    t, tau = samples.t, samples.tau
    filled = np.column_stack([np.interp(t, t[~held], column[~held]) for column in tau.T])
    arrays = samples.arrays() | {"tau": filled}
    return samples.with_arrays(t, arrays), [
        repaired(
            f"{100 * share:.2g} % of the efforts repeat the one before although the positions do not: interpolated"
        )
    ]


def _without_bursts(samples: Samples) -> tuple[Samples, list[Note]]:
    """Return samples whose efforts are interpolated over bursts of noise."""
    assert samples.tau is not None
    noisy = bursts(samples.tau)
    at = noisy.any(axis=1)
    if not at.any():
        return samples, []
    count = int(np.count_nonzero(np.diff(at.astype(int), prepend=0) > 0))
    named = [samples.joint_names[j] for j in np.flatnonzero(noisy.any(axis=0))]
    efforts = "all efforts are" if len(named) == len(samples.joint_names) else f"the effort of {', '.join(named)} is"
    arrays = samples.arrays() | {"tau": smoothed_over(samples.t, samples.tau, noisy)}
    where = f"from {samples.t[at][0] - samples.t[0]:.4g} s on"
    text = f"{efforts} noisy in short bursts, {count} in all, {where}: interpolated there"
    return samples.with_arrays(samples.t, arrays), [repaired(text)]


def _parts(samples: Samples, period: float, limit: float) -> tuple[list[Stretch], bool]:
    """Return the stretches without a pause longer than `limit` [s], and whether any had to be resampled."""
    found, uneven = [], False
    for start, stop in itertools.pairwise(gap_edges(samples.t, limit)):
        if stop - start < FEWEST:
            continue
        stretch, resampled = _even(samples.take(slice(int(start), int(stop))), period)
        found.append(stretch)
        uneven |= resampled
    if not found:
        raise InputError("gaps cut the recording into shreds", "record without losing samples", samples.source)
    return found, uneven


def _even(part: Samples, period: float) -> tuple[Stretch, bool]:
    """Return samples on the grid of `period` [s], and whether they had to be resampled, by splines.

    Across a gap the torque is interpolated linearly: it is noisy, and a spline through noise swings widely there.
    """
    t = part.t
    even = t[0] + period * np.arange(int(np.floor((t[-1] - t[0]) / period + 1e-6)) + 1)
    assert part.tau is not None
    further = (part.dq, part.q_r, part.tau_f)
    dq, q_r, tau_f = (x if x is not None and np.isfinite(x).all() else None for x in further)
    temperature, second = (None if x is None else _filled(t, x, even) for x in (part.temperature, part.tau_l))
    if len(even) == len(t) and np.max(np.abs(even - t)) <= JITTER * period:
        whole = np.zeros(len(even), dtype=bool)
        return Stretch(even, part.q, part.tau, dq, whole, q_r, temperature, tau_f, second), False
    before = np.clip(np.searchsorted(t, even, side="right") - 1, 0, len(t) - 2)
    bridged = np.diff(t)[before] > GAP * period
    tau = spline_at(t, part.tau, even)
    if bridged.any():
        inside = even[bridged]
        tau[bridged] = np.column_stack([np.interp(inside, t, column) for column in part.tau.T])
    dq, q_r, tau_f = (None if x is None else spline_at(t, x, even) for x in (dq, q_r, tau_f))
    return Stretch(even, spline_at(t, part.q, even), tau, dq, bridged, q_r, temperature, tau_f, second), True


def _filled(t: Array, values: Array, even: Array) -> Array:
    """Return signals, shape (N, n), at other times: linear between known values, NaN for a joint without any."""
    filled = np.full((len(even), values.shape[1]), np.nan)
    for k, column in enumerate(values.T):
        known = np.isfinite(column)
        if known.any():
            filled[:, k] = np.interp(even, t[known], column[known])
    return filled
