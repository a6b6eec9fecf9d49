# SPDX-License-Identifier: Apache-2.0

"""Motions that repeat, within a recording and from one recording to another, and recordings given twice.

Errors that belong to the motion (a sign change between two samples, the step of an encoder, what the model lacks) come
again with every repetition. Stretches of time all have them alike; only stretches of the motion tell how large they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import remark
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class RepetitionThresholds:
    """When a motion repeats.

    difference: after a period, or between two recordings, rms over all joints, below this share of the motion. periods:
    seen at least; filters take the ends of a motion that was run twice. shortest: period [s]; faster ones are
    vibrations. rate: up to which positions are compared [Hz]. overlap: two recordings have the same motion if this
    share of the shorter one does. compared: of recordings with each other, their first seconds. same_effort: efforts
    that differ by less than this share are the same data, since a sensor's noise is never the same twice.
    """

    difference: float = 0.02
    periods: float = 1.8
    shortest: float = 1.0
    rate: float = 50.0
    overlap: float = 0.5
    compared: float = 300.0
    same_effort: float = 1e-4


def find_motion_period(prepared: Prepared, thresholds: RepetitionThresholds | None = None) -> float | None:
    """Return the period [s] of a recording's motion, or None if it does not repeat."""
    limits = thresholds or RepetitionThresholds()
    segment = max(prepared.segments, key=lambda part: part.stop - part.start)
    step = max(1, int(prepared.filter.inner_rate / limits.rate))
    return measure_motion_period(prepared.q[segment][::step], prepared.filter.inner_rate / step, limits)


def measure_motion_period(q: Array, rate: float, thresholds: RepetitionThresholds | None = None) -> float | None:
    """Return the period [s] of positions, shape (N, n), at `rate` [Hz]; None if they do not repeat."""
    limits = thresholds or RepetitionThresholds()
    first, last = int(limits.shortest * rate), int(len(q) / limits.periods)
    if last <= first + 2:
        return None
    x = (q - q.mean(axis=0)) / np.maximum(q.std(axis=0), 1e-300)
    difference = _differences(x, x)[: len(x)]
    near = np.flatnonzero(difference[first:last] < limits.difference) + first
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
        if len(around) < 2 * width + 1 or around.min() >= limits.difference:
            break
        period = _between(difference, expected - width + int(np.argmin(around))) / count
        if count == int((len(q) - 3) / period):
            break
    return float(period / rate)


@dataclass(frozen=True)
class Repetition:
    """A recording repeats the motion of recording number `motion`: its time t is that one's time t + offset [s].

    period: of that motion [s] if it repeats itself, too.
    """

    motion: int
    offset: float = 0.0
    period: float | None = None

    def motion_time(self, t: float) -> float:
        """Return the time [s] in the motion, from its start or from that of its period, of the recording's time t."""
        return t + self.offset if self.period is None else (t + self.offset) % self.period


def find_repetitions(
    prepared: Sequence[Prepared], thresholds: RepetitionThresholds | None = None
) -> tuple[Repetition | None, ...]:
    """Return which recordings have the motion of another, None for those that have not."""
    if len(prepared) < 2:
        return (None,) * len(prepared)
    limits = thresholds or RepetitionThresholds()
    rate = min(limits.rate, *(part.filter.inner_rate for part in prepared))
    starts, positions = zip(*(_positions(part, rate, limits.compared) for part in prepared), strict=True)
    every = np.concatenate(positions)
    scaled = [(q - every.mean(axis=0)) / np.maximum(every.std(axis=0), 1e-300) for q in positions]
    repetitions: list[Repetition | None] = [None] * len(prepared)
    leaders: list[int] = []
    for k in sorted(range(len(prepared)), key=lambda k: -len(scaled[k])):
        for leader in leaders:
            lag = _common_lag(scaled[leader], scaled[k], limits)
            if lag is None:
                continue
            first = repetitions[leader] or Repetition(leader, period=find_motion_period(prepared[leader], limits))
            repetitions[leader] = first
            repetitions[k] = Repetition(leader, starts[leader] - starts[k] + lag / rate, first.period)
            break
        else:
            leaders.append(k)
    return tuple(repetitions)


def leave_out_copies(prepared: Sequence[Prepared]) -> tuple[Prepared, ...]:
    """Return the recordings without those that hold the data of an earlier one, which gets a note for each."""
    kept: list[Prepared] = []
    for part in prepared:
        copied = next((k for k, other in enumerate(kept) if is_copy(part, other)), None)
        if copied is None:
            kept.append(part)
        else:
            first = kept[copied]
            note = remark(f"{part.source} and {first.source} hold the same data: counted once")
            kept[copied] = replace(first, notes=(*first.notes, note))
    return tuple(kept)


def is_copy(one: Prepared, other: Prepared, thresholds: RepetitionThresholds | None = None) -> bool:
    """Return whether two recordings hold the same efforts at the same positions: the same data, and not once more."""
    limits = thresholds or RepetitionThresholds()
    return one.q.shape == other.q.shape and all(
        np.linalg.norm(a - b) <= limits.same_effort * np.linalg.norm(a)
        for a, b in ((one.q, other.q), (one.tau, other.tau))
    )


def _positions(prepared: Prepared, rate: float, seconds: float) -> tuple[float, Array]:
    """Return the start [s] of the longest segment and its positions at `rate` [Hz], of its first seconds."""
    segment = max(prepared.segments, key=lambda part: part.stop - part.start)
    t, q = prepared.t[segment], prepared.q[segment]
    even = np.arange(t[0], min(t[-1], t[0] + seconds), 1.0 / rate)
    return float(t[0]), np.column_stack([np.interp(even, t, own) for own in q.T])


def _common_lag(one: Array, other: Array, limits: RepetitionThresholds) -> float | None:
    """Return the lag [samples] at which `other`, not longer than `one`, has its motion; None if it has another."""
    difference = _differences(one, other)
    lags = np.arange(len(difference))
    lags = np.where(lags < len(one), lags, lags - len(difference))
    overlap = np.minimum(len(one) - lags, len(other)) - np.maximum(-lags, 0)
    usable = np.where(overlap >= limits.overlap * len(other), difference, np.inf)
    best = int(np.argmin(usable))
    return float(lags[best]) if usable[best] < limits.difference else None


def _differences(a: Array, b: Array) -> Array:
    """Return rms of a(t + lag) - b(t) over that of both where they overlap, for all lags.

    These are 0 to len(a) - 1, then -len(b) + 1 to -1. a, b: shape (samples, n), the joints scaled alike.
    """
    size = len(a) + len(b) - 1
    padded = 1 << (size - 1).bit_length()
    product = np.fft.irfft((np.fft.rfft(a, padded, axis=0) * np.fft.rfft(b, padded, axis=0).conj()).sum(axis=1), padded)
    product = np.concatenate((product[: len(a)], product[padded - len(b) + 1 :]))
    lags = np.concatenate((np.arange(len(a)), np.arange(-len(b) + 1, 0)))
    power_a, power_b = (np.concatenate(([0.0], np.cumsum(np.sum(x**2, axis=1)))) for x in (a, b))
    start, stop = np.maximum(lags, 0), np.minimum(len(b) + lags, len(a))
    both = power_a[stop] - power_a[start] + power_b[stop - lags] - power_b[start - lags]
    return np.asarray(np.sqrt(np.maximum(both - 2.0 * product, 0.0) / np.maximum(both, 1e-300)))


def _between(difference: Array, lag: int) -> float:
    """Return where the difference is smallest near `lag`, between samples: its square is a parabola there."""
    if not 0 < lag < len(difference) - 1:
        return float(lag)
    a, b, c = (difference[lag + k] ** 2 for k in (-1, 0, 1))
    curve = a - 2.0 * b + c
    return float(lag + (0.5 * (a - c) / curve if curve > 0.0 else 0.0))
