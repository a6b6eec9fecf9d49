# SPDX-License-Identifier: Apache-2.0

"""Stretches on an even grid: repeats left out, bursts interpolated, short gaps bridged, long ones left open."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgtsv

from ros2_dynid.errors import InputError, Note, NoteKind, remark, repaired
from ros2_dynid.identification.preparation.cutoffs import Spectrum, estimate_spectrum, first_seconds, power_spectrum
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Samples

ROUNDING_SHARE = 1e-9
"""Steps of a signal below this share of its largest are rounding of floating-point numbers."""


@dataclass(frozen=True)
class GridThresholds:
    """Which gaps of a recording are bridged, and which split it.

    gap_periods: a pause between stamps longer than this many periods is a gap. bridged_share: it is bridged if it is
    shorter than this share of the motion's period: a spline misses 1 % of the acceleration then. slowest_motion: motion
    counts as at least this fast [Hz], so that gaps of half a second are never bridged. provisional_periods: gaps of up
    to this many periods are bridged to see how fast the motion is. fewest_samples: a stretch with fewer is of no use,
    since no filter fits into it. jitter: stamps off an even grid by less than this share of a period count as even.
    stale_efforts: efforts are interpolated where more than this share of them repeat the one before, which fewer may do
    by chance. coarse_step: steps of an encoder larger than this share of a joint's motion make accelerations poor.
    """

    gap_periods: float = 3.5
    bridged_share: float = 0.05
    slowest_motion: float = 0.1
    provisional_periods: float = 12.0
    fewest_samples: int = 16
    jitter: float = 0.02
    stale_efforts: float = 0.02
    coarse_step: float = 1e-3


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
class Grid:
    """A recording on an even grid: its stretches, the spectrum of its positions with the rate of the grid, notes."""

    parts: tuple[Stretch, ...]
    spectrum: Spectrum
    notes: tuple[Note, ...]


def even_grid(samples: Samples, like: Spectrum | None = None, thresholds: GridThresholds | None = None) -> Grid:
    """Return stretches on an even grid.

    Samples must be in order and finite. like: spectrum of an earlier piece of the recording, whose grid is used again.
    """
    limits = thresholds or GridThresholds()
    repeats = find_repeats(samples.q)
    share = float(np.mean(repeats)) if len(samples) else 0.0
    if np.count_nonzero(~repeats) < limits.fewest_samples:
        what = f"only {np.count_nonzero(~repeats)} usable samples are left"
        raise InputError(what, "record longer", samples.source)
    quantum = measure_quantum(samples.q) if like is None else None
    published = share <= 0.5  # else the driver publishes so much faster that its period says nothing
    stamps = samples.t if published else samples.t[~repeats]
    period = measure_period(stamps, samples.source, limits) if like is None else 1 / like.rate
    notes: list[Note] = []
    if published:
        times, notes = sampling_times(samples.t, samples.q, ~repeats, period, limits)
        samples = samples.with_arrays(times, samples.arrays())
    samples, effort_notes = _with_fresh_efforts(samples, repeats, limits)
    if share > 0.0:
        samples = samples.take(~repeats)
        notes.append(repaired(f"{100 * share:.2g} % of the samples repeat the one before: left out"))
    samples, burst_notes = _without_bursts(samples)
    notes += [*effort_notes, *burst_notes]
    spectrum = like or _provisional_spectrum(samples, period, quantum, limits)
    slowest = max(float(np.median(spectrum.motion)), limits.slowest_motion)
    longest = max(limits.gap_periods * period, limits.bridged_share / slowest)
    parts, uneven = _split_at_gaps(samples, period, longest, limits)
    notes += _gap_notes(np.diff(samples.t), limits.gap_periods * period, longest)
    if uneven:
        notes.append(repaired(f"uneven stamps: resampled to {1.0 / period:.5g} Hz"))
    if quantum is not None and np.any(coarse := quantum > limits.coarse_step * np.ptp(samples.q, axis=0)):
        joint = int(np.flatnonzero(coarse)[0])
        joints = f"the positions of {np.count_nonzero(coarse)} joints, {samples.joint_names[joint]!r} first, have steps"
        notes.append(remark(f"{joints} of {quantum[joint]:.2g} rad or m: accelerations are poor; record them finer"))
    return Grid(tuple(parts), replace(spectrum, rate=1.0 / period), tuple(notes))


def _gap_notes(pauses: Array, gap: float, longest: float) -> list[Note]:
    """Return notes on pauses (N - 1,) [s] longer than `gap`: those up to `longest` are bridged, others split."""
    notes, bridged = [], pauses[(pauses > gap) & (pauses <= longest)]
    if len(bridged):
        gaps = f"{len(bridged)} gaps of at most {1e3 * float(bridged.max()):.3g} ms"
        notes.append(repaired(f"{gaps} are bridged, rows near them left out"))
    if split := int(np.count_nonzero(pauses > longest)):
        notes.append(remark(f"{split} gaps split the recording" if split > 1 else "a gap splits the recording"))
    return notes


def shift_stretch(part: Stretch, n: int) -> Stretch:
    """Return the stretch with the torque of n samples later (earlier if negative), as far as both are there."""
    length = max(len(part.t) - abs(n), 0)
    motion, effort = slice(max(-n, 0), max(-n, 0) + length), slice(max(n, 0), max(n, 0) + length)
    signals = {field.name: getattr(part, field.name) for field in fields(part)}
    moved = {name: None if x is None else x[motion] for name, x in signals.items()}
    return Stretch(**moved | {"tau": part.tau[effort], "bridged": part.bridged[motion] | part.bridged[effort]})


def _provisional_spectrum(samples: Samples, period: float, quantum: Array | None, limits: GridThresholds) -> Spectrum:
    """Return the spectrum of the positions with gaps bridged that are short, however fast the motion may be."""
    parts, _ = _split_at_gaps(samples, period, limits.provisional_periods * period, limits)
    return estimate_spectrum(first_seconds([part.q for part in parts], 1.0 / period), 1.0 / period, quantum)


def _with_fresh_efforts(
    samples: Samples, repeats: NDArray[np.bool_], limits: GridThresholds
) -> tuple[Samples, list[Note]]:
    """Return samples whose efforts that repeat the one before, beside fresh positions, are interpolated."""
    assert samples.tau is not None
    held = find_repeats(samples.tau)
    share = float(np.mean(held & ~repeats))
    if share <= limits.stale_efforts:
        return samples, []
    tau = interpolate_marked(samples.t, samples.tau, np.repeat(held[:, None], samples.tau.shape[1], axis=1))
    text = f"{100 * share:.2g} % of the efforts repeat the one before although the positions do not: interpolated"
    return samples.with_arrays(samples.t, samples.arrays() | {"tau": tau}), [repaired(text)]


def _without_bursts(samples: Samples) -> tuple[Samples, list[Note]]:
    """Return samples whose efforts are interpolated over bursts of noise."""
    assert samples.tau is not None
    noisy = find_bursts(samples.tau)
    at = noisy.any(axis=1)
    if not at.any():
        return samples, []
    count = int(np.count_nonzero(np.diff(at.astype(int), prepend=0) > 0))
    named = [samples.joint_names[j] for j in np.flatnonzero(noisy.any(axis=0))]
    efforts = "all efforts are" if len(named) == len(samples.joint_names) else f"the effort of {', '.join(named)} is"
    arrays = samples.arrays() | {"tau": interpolate_marked(samples.t, samples.tau, noisy)}
    where = f"from {samples.t[at][0] - samples.t[0]:.4g} s on"
    text = f"{efforts} noisy in short bursts, {count} in all, {where}: interpolated there"
    return samples.with_arrays(samples.t, arrays), [repaired(text)]


def _split_at_gaps(
    samples: Samples, period: float, longest: float, limits: GridThresholds
) -> tuple[list[Stretch], bool]:
    """Return the stretches without a pause longer than `longest` [s], and whether any had to be resampled."""
    edges = itertools.pairwise(gap_edges(samples.t, longest))
    lengths = [slice(int(start), int(stop)) for start, stop in edges if stop - start >= limits.fewest_samples]
    if not lengths:
        raise InputError("gaps cut the recording into shreds", "record without losing samples", samples.source)
    stretches, uneven = zip(*(_resample(samples.take(part), period, limits) for part in lengths), strict=True)
    return list(stretches), any(uneven)


def _resample(part: Samples, period: float, limits: GridThresholds) -> tuple[Stretch, bool]:
    """Return samples on the grid of `period` [s], and whether they had to be resampled, by splines.

    Across a gap the torque is interpolated linearly: it is noisy, and a spline through noise swings widely there.
    """
    t = part.t
    even = t[0] + period * np.arange(int(np.floor((t[-1] - t[0]) / period + 1e-6)) + 1)
    assert part.tau is not None
    further = (part.dq, part.q_r, part.tau_f)
    dq, q_r, tau_f = (x if x is not None and np.isfinite(x).all() else None for x in further)
    partly_known = (part.temperature, part.tau_l)
    temperature, second = (None if x is None else _interpolate_known(t, x, even) for x in partly_known)
    if len(even) == len(t) and np.max(np.abs(even - t)) <= limits.jitter * period:
        bridged = np.zeros(len(even), dtype=bool)
        return Stretch(even, part.q, part.tau, dq, bridged, q_r, temperature, tau_f, second), False
    before = np.clip(np.searchsorted(t, even, side="right") - 1, 0, len(t) - 2)
    bridged = np.diff(t)[before] > limits.gap_periods * period
    tau = interpolate_spline(t, part.tau, even)
    if bridged.any():
        inside = even[bridged]
        tau[bridged] = np.column_stack([np.interp(inside, t, column) for column in part.tau.T])
    dq, q_r, tau_f = (None if x is None else interpolate_spline(t, x, even) for x in (dq, q_r, tau_f))
    return Stretch(even, interpolate_spline(t, part.q, even), tau, dq, bridged, q_r, temperature, tau_f, second), True


def _interpolate_known(t: Array, values: Array, even: Array) -> Array:
    """Return signals, shape (N, n), at other times: linear between known values, NaN for a joint without any."""
    filled = np.full((len(even), values.shape[1]), np.nan)
    for k, column in enumerate(values.T):
        known = np.isfinite(column)
        if known.any():
            filled[:, k] = np.interp(even, t[known], column[known])
    return filled


@dataclass(frozen=True)
class ClockThresholds:
    """When stamps give way to an even grid.

    regular_share, near_period: stamps are regular if more than this share of their steps lie within this share of a
    period from a whole number of periods; fewer may be lost samples. smoother: an even grid is preferred where it
    leaves less than this share of the noise that the stamps leave. seconds: both are compared on this much of the
    recording [s] at most; samples: and on this many at least. beyond_motion: noise is what lies above this many times
    the motion's frequency, or above a quarter of the rate.
    """

    regular_share: float = 0.95
    near_period: float = 0.2
    smoother: float = 0.5
    seconds: float = 60.0
    samples: int = 64
    beyond_motion: float = 4.0


def measure_period(
    t: Array, source: str = "", gaps: GridThresholds | None = None, thresholds: ClockThresholds | None = None
) -> float:
    """Return the period [s] of stamps t that increase: where they jitter, of their mean, not of their median.

    A lost sample or a gap does not count. Of regular stamps, which may be rounded, each step is a number of periods.
    """
    limits, longest = thresholds or ClockThresholds(), (gaps or GridThresholds()).gap_periods
    steps = np.diff(t)
    period = float(np.median(steps))
    if not period > 0:
        raise InputError("the time stamps do not advance", "record with a running clock", source)
    usual = steps[steps <= longest * period]
    turns = np.round(usual / period)
    if np.mean(np.abs(usual - turns * period) <= limits.near_period * period) > limits.regular_share:
        return float(np.sum(usual) / np.sum(turns))
    period = float(np.mean(steps))
    for _ in range(10):  # gaps make the mean too long at first
        period = float(np.mean(steps[steps <= max(longest * period, steps.min())]))
    return period


def sampling_times(
    t: Array,
    q: Array,
    fresh: NDArray[np.bool_],
    period: float,
    gaps: GridThresholds | None = None,
    thresholds: ClockThresholds | None = None,
) -> tuple[Array, list[Note]]:
    """Return the times (N,) [s] at which samples with stamps t (N,) and positions q (N, n) were taken, and notes.

    Stamps set when a message was sent or received jitter although the robot samples evenly; others tell when it really
    sampled. The right times are those along which the motion is smoother. fresh: samples that do not repeat others.
    """
    limits, grid = thresholds or ClockThresholds(), gaps or GridThresholds()
    edges = gap_edges(t, grid.gap_periods * period)
    even = np.concatenate([even_times(t[a:b], period) for a, b in itertools.pairwise(edges)])
    if float(np.max(np.abs(t - even))) <= grid.jitter * period or np.any(np.diff(even) <= 0):
        return t, []
    longest = int(np.argmax(np.diff(edges)))
    part = slice(int(edges[longest]), int(min(edges[longest + 1], edges[longest] + limits.seconds / period)))
    used = fresh[part]
    if np.count_nonzero(used) < limits.samples:
        return t, []
    stamped, regular = (_on_grid(times[part][used], q[part][used], period) for times in (t, even))
    if noise_ratio(stamped, regular, 1.0 / period, limits.beyond_motion) > limits.smoother:
        return t, []
    jitter = float(np.sqrt(np.mean((t - even) ** 2))) / period
    text = f"the stamps jitter by {jitter:.0%} of a period, the motion does not: taken as even, {1.0 / period:.5g} Hz"
    return even, [Note(NoteKind.STAMPS, text)]


def gap_edges(t: Array, limit: float) -> NDArray[np.intp]:
    """Return the numbers of the first sample of each stretch without a pause longer than `limit` [s], and N."""
    return np.concatenate(([0], np.flatnonzero(np.diff(t) > limit) + 1, [len(t)]))


def even_times(t: Array, period: float) -> Array:
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


def _on_grid(t: Array, q: Array, period: float) -> Array:
    grid = t[0] + period * np.arange(int((t[-1] - t[0]) / period) + 1)
    return interpolate_spline(t, q, grid)


def noise_ratio(first: Array, second: Array, rate: float, beyond_motion: float) -> float:
    """Return the noise of the second motion over that of the first: velocity power beyond that of the motion."""
    motion = min(float(np.median(estimate_spectrum([q], rate).motion)) for q in (first, second))
    beyond = min(beyond_motion * motion, rate / 4.0)
    powers = []
    for q in (first, second):
        f, P = power_spectrum([np.diff(q, axis=0) * rate], rate)
        powers.append(np.sum(P[f > beyond], axis=0) * f[0])
    tiny = np.finfo(float).tiny
    return float(np.exp(np.mean(np.log(powers[1] + tiny) - np.log(powers[0] + tiny))))


@dataclass(frozen=True)
class RepeatThresholds:
    """Which samples repeat the one before although the joints move.

    longest_run: a run of more equal samples is a standstill, since no driver publishes so much faster than it reads.
    missed_steps: a signal did move before if it goes on by more than this many of its small steps; small_step: quantile
    of all its steps that these are. harmless: a smaller share of repeated samples does no harm.
    """

    longest_run: int = 20
    missed_steps: float = 1.5
    small_step: float = 0.1
    harmless: float = 0.005


def find_repeats(x: Array, thresholds: RepeatThresholds | None = None) -> NDArray[np.bool_]:
    """Return, shape (N,), where all joints of x (N, n) have the value of the sample before although they move.

    A joint that moves slowly also keeps its value for a while, but then goes on by one step of its encoder; a
    sample that was read late goes on by all that was missed.
    """
    limits = thresholds or RepeatThresholds()
    same = np.zeros(len(x), dtype=bool)
    change = np.abs(np.diff(x, axis=0))
    same[1:] = ~change.any(axis=1)
    if not same.any():
        return same
    small = np.array([_small_step(column, limits.small_step) for column in change.T])
    fresh = np.flatnonzero(~same)  # the first sample is one
    run = np.cumsum(~same) - 1
    following = np.append(fresh[1:], -1)
    length = np.diff(np.append(fresh, len(x))) - 1
    moved = np.zeros(len(fresh), dtype=bool)
    moved[:-1] = (np.abs(x[following[:-1]] - x[fresh[:-1]]) > limits.missed_steps * small).any(axis=1)
    # the last run has no next sample: it counts like the others if they are many
    moved[-1] = bool(np.any(moved[:-1] & (length[:-1] > 0)))
    repeats = np.asarray(same & (moved & (length <= limits.longest_run))[run])
    return repeats if np.mean(repeats) > limits.harmless else np.zeros(len(x), dtype=bool)


def _small_step(change: Array, quantile: float) -> float:
    """Return the small steps of a signal from the magnitudes of all its steps; those of rounding do not count."""
    steps = change[change > ROUNDING_SHARE * np.max(change)]
    return float(np.quantile(steps, quantile)) if len(steps) else np.inf


@dataclass(frozen=True)
class QuantumThresholds:
    """When positions count as quantised.

    on_grid: share of their steps that are multiples of the smallest one: stamps that are off hide a few. off_grid:
    largest distance from a multiple, in smallest steps: rounding in a file makes one. samples: looked at, enough steps.
    """

    on_grid: float = 0.99
    off_grid: float = 0.02
    samples: int = 20_000


def measure_quantum(q: Array, thresholds: QuantumThresholds | None = None) -> Array:
    """Return the step that positions q (N, n) are quantised to, shape (n,) [rad or m], 0 where they are not."""
    limits = thresholds or QuantumThresholds()
    change = np.abs(np.diff(q[: limits.samples], axis=0))
    quantum = np.zeros(q.shape[1])
    for j, steps in enumerate(change.T):
        steps = steps[steps > ROUNDING_SHARE * np.max(steps, initial=0.0)]
        if len(steps) < 2:
            continue
        smallest = float(steps.min())
        turns = steps / smallest
        if np.mean(np.abs(turns - np.round(turns)) < limits.off_grid) >= limits.on_grid:
            quantum[j] = smallest
    return quantum


@dataclass(frozen=True)
class BurstThresholds:
    """Where an effort is much noisier than elsewhere.

    order: differences of this order show noise and hide the motion. block: samples looked at together; a jump changes
    order + 1 differences, fewer than half of a block. usual: a burst is compared with the noise that this share of the
    recording stays below: most of it may stand still without a sound; factor: and is this many times as noisy.
    effort_share: differences smaller than this share of the joint's torque do no harm: noise of 4 % of it. most: where
    more of a recording than this share is noisy, that is how it is, and not a burst.
    """

    order: int = 4
    block: int = 12
    usual: float = 0.9
    factor: float = 6.0
    effort_share: float = 0.3
    most: float = 0.05


def find_bursts(tau: Array, thresholds: BurstThresholds | None = None) -> NDArray[np.bool_]:
    """Return, shape (N, n), where the effort of a joint, tau (N, n), is much noisier than elsewhere."""
    limits, (N, n) = thresholds or BurstThresholds(), tau.shape
    marked = np.zeros((N, n), dtype=bool)
    count = (N - limits.order) // limits.block
    if count < 1 / limits.most:
        return marked
    jagged = np.abs(np.diff(tau, limits.order, axis=0))[: count * limits.block].reshape(count, limits.block, n)
    level = jagged.mean(axis=1)
    usual = np.quantile(level, limits.usual, axis=0)
    limit = np.maximum(limits.factor * usual, limits.effort_share * np.std(tau, axis=0))
    blocks, joints = np.nonzero(level > limit)
    noisy = np.median(jagged[blocks, :, joints], axis=1) > limit[joints]
    share = np.bincount(joints[noisy], minlength=n) / count
    for block, joint in zip(blocks[noisy], joints[noisy], strict=True):
        if share[joint] <= limits.most:  # it begins and ends within the blocks beside this one
            marked[max((block - 1) * limits.block, 0) : (block + 2) * limits.block + limits.order, joint] = True
    return marked


def interpolate_marked(t: Array, x: Array, marked: NDArray[np.bool_]) -> Array:
    """Return signals x (N, n) at t (N,) with the values that are `marked` (N, n) interpolated between the others."""
    filled = x.copy()
    for j in np.flatnonzero(marked.any(axis=0)):
        bad = marked[:, j]
        filled[bad, j] = np.interp(t[bad], t[~bad], x[~bad, j])
    return filled


def interpolate_spline(t: Array, x: Array, at: Array) -> Array:
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
