# SPDX-License-Identifier: Apache-2.0

"""A recording of commands and positions, cut into stretches that are simulated side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.servo.simulation import Commands, Stretches
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Samples


@dataclass(frozen=True)
class StretchOptions:
    """How time is cut.

    length: of a stretch [s]: longer than a servo remembers, short enough that many are simulated side by side. least:
    stretches at least, which are shorter then: error bars and held-out time need some, down to `shortest` [s].
    settling: what is simulated ahead of it and not fitted [s]: what the start does not tell is forgotten by then.
    step: largest step of the simulation [s]: its error of a frequency w is (w step)^2 / 12, 0.2 % at 10 Hz. gap:
    longest pause between samples, in periods, that a stretch may contain; smoothing: window that the speed at a start
    is fitted in [s].
    """

    length: float = 3.0
    least: int = 16
    shortest: float = 0.3
    settling: float = 0.4
    step: float = 2.5e-3
    gap: float = 5.0
    smoothing: float = 0.1


@dataclass(frozen=True, eq=False)
class ServoRecording:
    """Commands and positions of one recording: t (N,) [s], y (N, n), v smoothed (N, n); period [s]."""

    commands: Commands
    t: Array
    y: Array
    v: Array
    period: float

    @property
    def commanded(self) -> Array:
        """The commands at the times t, shape (N, n)."""
        return np.asarray(self.commands.position[np.searchsorted(self.commands.t, self.t)])


def servo_recording(samples: Samples, smoothing: float) -> ServoRecording:
    """Return the samples as commands and positions, without those where either is not known."""
    from scipy.signal import savgol_filter  # here, since it takes a while to import and few robots have servos

    assert samples.q_r is not None
    commanded = np.isfinite(samples.q_r).all(axis=1)
    known = commanded & np.isfinite(samples.q).all(axis=1)
    t, y = samples.t[known], samples.q[known]
    commands = Commands(samples.t[commanded], samples.q_r[commanded])
    if len(t) < 10:
        raise InputError(f"only {len(t)} samples have position and reference", "record longer", samples.source)
    period = float(np.median(np.diff(t)))
    window = max(2 * round(0.5 * smoothing / period) + 1, 5)
    even = np.arange(t[0], t[-1] + 0.5 * period, period)
    v = np.empty_like(y)
    for j in range(y.shape[1]):
        slope = savgol_filter(np.interp(even, t, y[:, j]), min(window, len(even) - 1 + len(even) % 2), 2, 1, period)
        v[:, j] = np.interp(t, even, slope)
    return ServoRecording(commands, t, y, v, period)


def unbroken_pieces(t: Array, period: float, gap: float) -> list[slice]:
    """Return the rows between pauses of more than `gap` periods, some at least in each."""
    breaks = np.flatnonzero(np.diff(t) > gap * period) + 1
    return [slice(int(a), int(b)) for a, b in zip([0, *breaks], [*breaks, len(t)], strict=True) if b - a >= 2]


def fitting_length(recordings: Sequence[ServoRecording], options: StretchOptions) -> StretchOptions:
    """Return the options with a length that gives enough stretches."""
    duration = sum(r.t[-1] - r.t[0] for r in recordings)
    return replace(options, length=min(options.length, max(duration / options.least, options.shortest)))


def cut_stretches(recording: ServoRecording, options: StretchOptions) -> Stretches:
    """Return the recording's time in stretches, each with its settling ahead; samples there are not measured."""
    t, period = recording.t, recording.period
    settling, length = (max(round(x / period), 1) for x in (options.settling, options.length))
    starts = [
        (k, k + settling, min(k + settling + length, piece.stop))
        for piece in unbroken_pieces(t, period, options.gap)
        for k in range(piece.start, piece.stop - settling - length // 4, length)
    ]
    if not starts:
        raise InputError("the recording is too short", f"record at least {2 * options.length:g} s without a gap")
    substeps = max(int(np.ceil(period / options.step - 1e-9)), 1)
    step = period / substeps
    first, counted, last = np.array(starts).T
    duration = max(t[last - 1] - t[first])
    steps = int(np.ceil(duration / step - 1e-6))
    rows = [np.arange(a + 1, b) for a, b in zip(first, last, strict=True)]
    stretch = np.concatenate([np.full(len(r), k) for k, r in enumerate(rows)])
    slot = np.concatenate([np.arange(len(r)) for r in rows])
    sample = np.concatenate(rows)
    place = (t[sample] - t[first[stretch]]) / step
    at = np.minimum(np.maximum(np.ceil(place - 1e-9).astype(int) - 1, 0), steps - 1)
    measured = np.full((int(slot.max()) + 1, len(first), recording.y.shape[1]), np.nan)
    fitted = sample >= counted[stretch]
    measured[slot[fitted], stretch[fitted]] = recording.y[sample[fitted]]
    return Stretches(
        np.full(len(first), step),
        steps,
        t[first],
        recording.y[first],
        recording.v[first],
        np.zeros(len(first), dtype=np.intp),
        slot,
        stretch,
        at,
        np.minimum(place - at, 1.0),
        measured,
    )


def measured_motion(recording: ServoRecording, stretches: Stretches, steps: int) -> tuple[Array, Array]:
    """Return positions and smoothed speeds in the middle of `steps` steps, shape (steps, B, n)."""
    at = stretches.begin + stretches.step * (np.arange(steps)[:, None] + 0.5)
    columns = range(recording.y.shape[1])
    q, v = (
        np.stack([np.interp(at, recording.t, signal[:, j]) for j in columns], axis=-1)
        for signal in (recording.y, recording.v)
    )
    return q, v


def join_stretches(parts: Sequence[Stretches]) -> Stretches:
    """Return the stretches of several recordings side by side."""
    steps, slots = max(p.steps for p in parts), max(len(p.measured) for p in parts)
    offsets = np.cumsum([0, *(len(p.begin) for p in parts)])
    measured = [
        np.pad(p.measured, ((0, slots - len(p.measured)), (0, 0), (0, 0)), constant_values=np.nan) for p in parts
    ]
    return Stretches(
        np.concatenate([p.step for p in parts]),
        steps,
        np.concatenate([p.begin for p in parts]),
        np.concatenate([p.y for p in parts]),
        np.concatenate([p.v for p in parts]),
        np.concatenate([np.full(len(p.begin), k) for k, p in enumerate(parts)]),
        np.concatenate([p.slot for p in parts]),
        np.concatenate([p.stretch + k for p, k in zip(parts, offsets, strict=False)]),
        np.concatenate([p.at for p in parts]),
        np.concatenate([p.share for p in parts]),
        np.concatenate(measured, axis=1),
    )
