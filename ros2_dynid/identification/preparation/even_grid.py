# SPDX-License-Identifier: Apache-2.0

"""Stretches on an even grid: repeats left out, bursts interpolated, short gaps bridged, long ones left open."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgtsv

from ros2_dynid.errors import InputError, Note, NoteKind, remark, repaired
from ros2_dynid.identification.preparation.filters import Spectrum, looked_at, power_spectrum, spectrum
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Samples

FEWEST_SAMPLES = 16
"""A stretch with fewer samples is of no use."""
BRIDGED_PERIOD_SHARE = 0.05
"""A gap is bridged if it is shorter than this share of the motion's period: a spline misses 1 % of the acceleration."""
SLOWEST_MOTION = 0.1
"""Motion counts as at least this fast [Hz], so that gaps of half a second are never bridged."""
PROVISIONAL_GAP_PERIODS = 12.0
"""Gaps of up to this many periods are bridged to see how fast the motion is."""
COARSE_STEP_SHARE = 1e-3
"""Steps of the encoder that are larger than this share of a joint's motion are coarse."""
STALE_EFFORT_SHARE = 0.02
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
    if np.count_nonzero(~stale) < FEWEST_SAMPLES:
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
    limit = max(GAP_PERIODS * period, BRIDGED_PERIOD_SHARE / max(float(np.median(found.motion)), SLOWEST_MOTION))
    parts, uneven = _parts(samples, period, limit)
    pauses = np.diff(samples.t)
    split, short = int(np.count_nonzero(pauses > limit)), pauses[(pauses > GAP_PERIODS * period) & (pauses <= limit)]
    if len(short):
        text = f"{len(short)} gaps of at most {1e3 * float(short.max()):.3g} ms are bridged, rows near them left out"
        notes.append(repaired(text))
    if split:
        notes.append(remark(f"{split} gaps split the recording" if split > 1 else "a gap splits the recording"))
    if uneven:
        notes.append(repaired(f"uneven stamps: resampled to {1.0 / period:.5g} Hz"))
    if quantum is not None and np.any(coarse := quantum > COARSE_STEP_SHARE * np.ptp(samples.q, axis=0)):
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
    parts, _ = _parts(samples, period, PROVISIONAL_GAP_PERIODS * period)
    return spectrum(looked_at([part.q for part in parts], 1.0 / period), 1.0 / period, quantum)


def _with_fresh_efforts(samples: Samples, stale: NDArray[np.bool_]) -> tuple[Samples, list[Note]]:
    """Return samples whose efforts that repeat the one before, beside fresh positions, are interpolated."""
    assert samples.tau is not None
    held = repeated(samples.tau)
    share = float(np.mean(held & ~stale))
    if share <= STALE_EFFORT_SHARE:
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
        if stop - start < FEWEST_SAMPLES:
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
    if len(even) == len(t) and np.max(np.abs(even - t)) <= JITTER_SHARE * period:
        whole = np.zeros(len(even), dtype=bool)
        return Stretch(even, part.q, part.tau, dq, whole, q_r, temperature, tau_f, second), False
    before = np.clip(np.searchsorted(t, even, side="right") - 1, 0, len(t) - 2)
    bridged = np.diff(t)[before] > GAP_PERIODS * period
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


JITTER_SHARE = 0.02
"""Stamps off an even grid by less than this fraction of a period count as even."""
GAP_PERIODS = 3.5
"""A pause between stamps longer than this many periods is a gap."""
REGULAR_SHARE, NEAR_PERIOD = 0.95, 0.2
"""Stamps are regular if more than this share of their steps lie this near to a whole number of periods."""
SMOOTHER_SHARE = 0.5
"""An even grid is preferred where it leaves less than this share of the noise that the stamps leave."""
COMPARED_SECONDS = 60.0
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
    usual = steps[steps <= GAP_PERIODS * period]
    turns = np.round(usual / period)
    if np.mean(np.abs(usual - turns * period) <= NEAR_PERIOD * period) > REGULAR_SHARE:
        return float(np.sum(usual) / np.sum(turns))
    period = float(np.mean(steps))
    for _ in range(10):  # gaps make the mean too long at first
        period = float(np.mean(steps[steps <= max(GAP_PERIODS * period, steps.min())]))
    return period


def clock_of(t: Array, q: Array, fresh: NDArray[np.bool_], period: float) -> Clock:
    """Return when samples with stamps t (N,) and positions q (N, n) were taken; `fresh` ones do not repeat others.

    Stamps set when a message was sent or received jitter although the robot samples evenly; others tell when it really
    sampled. The right times are those along which the motion is smoother.
    """
    edges = gap_edges(t, GAP_PERIODS * period)
    even = np.concatenate([_even_times(t[a:b], period) for a, b in itertools.pairwise(edges)])
    off = float(np.sqrt(np.mean((t - even) ** 2))) / period
    if float(np.max(np.abs(t - even))) <= JITTER_SHARE * period or np.any(np.diff(even) <= 0):
        return Clock(t, period)
    longest = int(np.argmax(np.diff(edges)))
    part = slice(int(edges[longest]), int(min(edges[longest + 1], edges[longest] + COMPARED_SECONDS / period)))
    used = fresh[part]
    if np.count_nonzero(used) < 64:
        return Clock(t, period)
    parts = [_resampled(times[part][used], q[part][used], period) for times in (t, even)]
    if _noise_ratio(parts[0], parts[1], 1.0 / period) > SMOOTHER_SHARE:
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


LONGEST_RUN = 20
"""A run of more equal samples is a standstill: no driver publishes so much faster than it reads."""
MISSED_STEPS, SMALL_STEP_QUANTILE = 1.5, 0.1
"""A signal did move before if it goes on by more than MISSED_STEPS of its small steps, a quantile of all its steps."""
HARMLESS_SHARE = 0.005
"""A smaller share of repeated samples does no harm."""


def repeated(x: Array) -> NDArray[np.bool_]:
    """Return, shape (N,), where all joints of x (N, n) have the value of the sample before although they move.

    A joint that moves slowly also keeps its value for a while, but then goes on by one step of its encoder; a
    sample that was read late goes on by all that was missed.
    """
    same = np.zeros(len(x), dtype=bool)
    change = np.abs(np.diff(x, axis=0))
    same[1:] = ~change.any(axis=1)
    if not same.any():
        return same
    small = np.array([_small_step(column) for column in change.T])
    fresh = np.flatnonzero(~same)  # the first sample is one
    run = np.cumsum(~same) - 1
    following = np.append(fresh[1:], -1)
    length = np.diff(np.append(fresh, len(x))) - 1
    moved = np.zeros(len(fresh), dtype=bool)
    moved[:-1] = (np.abs(x[following[:-1]] - x[fresh[:-1]]) > MISSED_STEPS * small).any(axis=1)
    # the last run has no next sample: it counts like the others if they are many
    moved[-1] = bool(np.any(moved[:-1] & (length[:-1] > 0)))
    found = np.asarray(same & (moved & (length <= LONGEST_RUN))[run])
    return found if np.mean(found) > HARMLESS_SHARE else np.zeros(len(x), dtype=bool)


def _small_step(change: Array) -> float:
    """Return the small steps of a signal from the magnitudes of all its steps; those of rounding do not count."""
    steps = change[change > 1e-9 * np.max(change)]
    return float(np.quantile(steps, SMALL_STEP_QUANTILE)) if len(steps) else np.inf


QUANTUM_ROUNDING = 1e-9
"""Steps smaller than this share of the largest are rounding of floating-point numbers."""
OFF_GRID, ON_GRID_SHARE = 0.02, 0.99
"""Positions are quantised if a share of their steps, the second, are multiples of the smallest, but for the first."""
QUANTUM_SAMPLES = 20_000
"""Samples looked at."""


def quantum_of(q: Array) -> Array:
    """Return the step that positions q (N, n) are quantised to, shape (n,) [rad or m], 0 where they are not."""
    change = np.abs(np.diff(q[:QUANTUM_SAMPLES], axis=0))
    found = np.zeros(q.shape[1])
    for j, steps in enumerate(change.T):
        steps = steps[steps > QUANTUM_ROUNDING * np.max(steps, initial=0.0)]
        if len(steps) < 2:
            continue
        smallest = float(steps.min())
        turns = steps / smallest
        if np.mean(np.abs(turns - np.round(turns)) < OFF_GRID) >= ON_GRID_SHARE:
            found[j] = smallest
    return found


NOISE_ORDER = 4
NOISE_BLOCK = 12
"""Samples looked at together; a jump changes NOISE_ORDER + 1 differences, fewer than half of a block."""
USUAL_QUANTILE, BURST_FACTOR = 0.9, 6.0
"""A burst is this many times as noisy as this share of the recording: most of it may stand still without a sound."""
BURST_EFFORT_SHARE = 0.3
"""Differences that are smaller than this share of the joint's torque do no harm: noise of 4 % of it."""
MAX_BURST_SHARE = 0.05
"""Where more of a recording than this is noisy, that is how it is, and not a burst."""


def bursts(tau: Array) -> NDArray[np.bool_]:
    """Return, shape (N, n), where the effort of a joint, tau (N, n), is much noisier than elsewhere."""
    N, n = tau.shape
    found = np.zeros((N, n), dtype=bool)
    count = (N - NOISE_ORDER) // NOISE_BLOCK
    if count < 1 / MAX_BURST_SHARE:
        return found
    jagged = np.abs(np.diff(tau, NOISE_ORDER, axis=0))[: count * NOISE_BLOCK].reshape(count, NOISE_BLOCK, n)
    level = jagged.mean(axis=1)
    limit = np.maximum(
        BURST_FACTOR * np.quantile(level, USUAL_QUANTILE, axis=0), BURST_EFFORT_SHARE * np.std(tau, axis=0)
    )
    blocks, joints = np.nonzero(level > limit)
    noisy = np.median(jagged[blocks, :, joints], axis=1) > limit[joints]
    share = np.bincount(joints[noisy], minlength=n) / count
    for block, joint in zip(blocks[noisy], joints[noisy], strict=True):
        if share[joint] <= MAX_BURST_SHARE:  # it begins and ends within the blocks beside this one
            found[max((block - 1) * NOISE_BLOCK, 0) : (block + 2) * NOISE_BLOCK + NOISE_ORDER, joint] = True
    return found


def smoothed_over(t: Array, tau: Array, noisy: NDArray[np.bool_]) -> Array:
    """Return the efforts at t (N,) with those that are `noisy` (N, n) interpolated."""
    filled = tau.copy()
    for j in np.flatnonzero(noisy.any(axis=0)):
        bad = noisy[:, j]
        filled[bad, j] = np.interp(t[bad], t[~bad], tau[~bad, j])
    return filled


def spline_at(t: Array, x: Array, at: Array) -> Array:
    """Return the cubic spline through x (N, n) at increasing times t (N,), N > 2, at other times, shape (m, n).

    In the first and the last interval the curve is a parabola.
    """
    h, slope = np.diff(t), np.diff(x, axis=0) / np.diff(t)[:, None]
    # Unknown: second derivatives M at the samples; continuous slopes give N - 2 equations, parabolas the other two.
    lower, upper = np.append(h[:-1], -1.0), np.append(-1.0, h[1:])
    middle = np.concatenate(([1.0], 2.0 * (h[:-1] + h[1:]), [1.0]))
    right = np.zeros_like(x)
    right[1:-1] = 6.0 * np.diff(slope, axis=0)
    *_, M, info = dgtsv(lower, middle, upper, right)
    if info != 0:
        raise ValueError("the times of a spline must increase")
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    d, width = (at - t[k])[:, None], h[k][:, None]
    bend = (M[k + 1] - M[k]) / width
    first = slope[k] - width * (2.0 * M[k] + M[k + 1]) / 6.0
    return np.asarray(x[k] + d * (first + d * (0.5 * M[k] + d * bend / 6.0)))
