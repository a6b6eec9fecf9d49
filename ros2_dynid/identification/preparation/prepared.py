# SPDX-License-Identifier: Apache-2.0

"""A recording prepared: smooth motion and torque on an even grid, and the filters that made them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError, Note
from ros2_dynid.identification.friction_columns import signs
from ros2_dynid.identification.preparation.cutoffs import Cutoffs, Spectrum
from ros2_dynid.identification.preparation.filters import half_length
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class Filter:
    """The filters used, all frequencies in Hz; dropped: seconds lost at either end of a segment."""

    rate: float
    position_cutoff: float | None
    row_cutoff: float | None
    inner_rate: float
    row_rate: float
    slow: float
    dropped: float
    delay: float = 0.0
    velocity: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FilterSetup:
    """Grid and filters that the pieces of a recording share; velocity: source of each joint's, shape (n,)."""

    spectrum: Spectrum
    cutoffs: Cutoffs
    velocity: tuple[str, ...]

    def describe(self, slow: float, delay: float = 0.0) -> Filter:
        """Return the filters as they are reported; slow: share of the top speed, delay: of the efforts [s]."""
        rate, position, row, step = self.spectrum.rate, self.cutoffs.position, self.cutoffs.row, self.cutoffs.step
        inner_rate = rate / step
        dropped = (half_length(position, rate) + step * half_length(row, inner_rate)) / rate
        row_rate = inner_rate / self.cutoffs.row_step
        return Filter(rate, position, row, inner_rate, row_rate, slow, dropped, delay, self.velocity)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Smooth motion and torque of one recording at the inner rate: t (N,), q, dq, ddq, tau (N, n), and how they came.

    sign: of the speed of every joint of the tree and then of every coupled motor, shape (N, n + couplings), taken at
    the recording's own rate and filtered like the torque: friction changes between two inner samples.
    bridged: share of each sample's filter that lies in bridged gaps, shape (N,).
    segments: stretches without a longer gap; step: inner samples between rows; kernel, slope_kernel: the second filter,
    and the one that also differentiates, None if there is none;
    top_speed: of each joint, shape (n,) [rad/s or m/s]; position_noise: standard deviation of its recorded positions.
    gear_torque: of links and rotors without friction, shape (N, n), which load-dependent friction needs; None: zero.
    reference: commanded positions at the same times, shape (N, n); None where they were not recorded.
    commands: the same and the efforts that the controller adds to its own, at the recording's rate, which a simulated
    loop needs: those from each inner sample up to the next, shape (N, samples, 2, n).
    temperature: of the drives at the same times, shape (N, n) [deg C], NaN for a joint where it is not known; None: not
    recorded. temperatures: the lowest and the highest of each joint, shape (2, n).
    second: efforts of a second sensor, shape (N, n), NaN for a joint without; None: not recorded.
    spectrum, cutoffs: of the recorded positions, and proposed by it; None where motion was given as it is.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    sign: Array
    bridged: Array
    segments: tuple[slice, ...]
    kernel: Array | None
    slope_kernel: Array | None
    step: int
    top_speed: Array
    position_noise: Array
    filter: Filter
    source: str = ""
    notes: tuple[Note, ...] = ()
    cutoffs: Cutoffs | None = None
    spectrum: Spectrum | None = None
    gear_torque: Array | None = None
    reference: Array | None = None
    commands: Array | None = None
    temperature: Array | None = None
    temperatures: Array | None = None
    second: Array | None = None

    @property
    def setup(self) -> FilterSetup | None:
        """Grid and filters for further pieces of the same recording; None where motion was given as it is."""
        if self.spectrum is None or self.cutoffs is None:
            return None
        return FilterSetup(self.spectrum, self.cutoffs, self.filter.velocity)


SIGNALS = (
    *("t", "q", "dq", "ddq", "tau", "sign", "bridged"),
    *("gear_torque", "reference", "commands", "temperature", "second"),
)
"""The signals of a prepared recording: one value, or one row of values, for each inner sample."""


def consecutive_slices(lengths: Iterable[int]) -> tuple[slice, ...]:
    """Return slices of these lengths, one after the other."""
    return tuple(slice(a, b) for a, b in itertools.pairwise((0, *itertools.accumulate(lengths))))


def join_signals(signals: Sequence[Array | None]) -> Array | None:
    """Return a signal of several parts, one after the other, or None if one of them has none."""
    known = [signal for signal in signals if signal is not None]
    return np.concatenate(known) if len(known) == len(signals) else None


def fastest_speeds(prepared: Sequence[Prepared]) -> Array:
    """Return the fastest speed of each active joint in all of the recordings, shape (n,) [rad/s or m/s]."""
    return np.asarray(np.max([np.abs(part.dq).max(axis=0) for part in prepared], axis=0))


def temperature_range(ranges: Sequence[Array | None]) -> Array | None:
    """Return the lowest and the highest temperatures, shape (2, n), of several such ranges; None if one is not known.

    A joint whose temperature is not known in one of them, NaN, stays so.
    """
    known = [one for one in ranges if one is not None]
    if not known or len(known) < len(ranges):
        return None
    return np.array((np.min([one[0] for one in known], axis=0), np.max([one[1] for one in known], axis=0)))


def as_prepared(
    robot: Robot,
    q: Array,
    dq: Array,
    ddq: Array,
    tau: Array,
    t: Array | None = None,
    *,
    slow: float = 0.0,
    source: str = "",
) -> Prepared:
    """Return motion and torque, shape (N, n) each, as they are: no filter, every sample a row."""
    q, dq, ddq, tau = (np.asarray(x, dtype=float) for x in (q, dq, ddq, tau))
    if not q.shape == dq.shape == ddq.shape == tau.shape or q.ndim != 2:
        what = f"q, dq, ddq and tau have shapes {q.shape}, {dq.shape}, {ddq.shape}, {tau.shape}"
        raise InputError(what, "give each the shape (samples, joints)", source or None)
    t = np.arange(len(q), dtype=float) if t is None else np.asarray(t, dtype=float)
    for name, x in (("time", t), ("q", q), ("dq", dq), ("ddq", ddq), ("tau", tau)):
        if not np.all(np.isfinite(x)):
            raise InputError(f"{name} holds values that are not finite", "leave those samples out", source or None)
    rate = 1.0 / float(np.median(np.diff(t))) if len(t) > 1 else 1.0
    settings = Filter(rate, None, None, rate, rate, slow, 0.0)
    top = np.max(np.abs(dq), axis=0, initial=0.0)
    whole, noise = (slice(0, len(t)),), np.zeros(len(top))
    sign, bridged = signs(robot, q, dq), np.zeros(len(t))
    return Prepared(t, q, dq, ddq, tau, sign, bridged, whole, None, None, 1, top, noise, settings, source)


def shift_effort(prepared: Prepared, delay: float) -> Prepared:
    """Return the recording with tau(t + delay) in place of tau(t), delay [s] rounded to whole inner samples.

    What is left of the delay is a fraction of a sample, which the delay's column of W takes to first order.
    """
    n = round(delay * prepared.filter.inner_rate)
    if n == 0:
        return prepared
    shortest = 1 if prepared.kernel is None else len(prepared.kernel)
    motion, effort = [], []
    for segment in prepared.segments:
        index = np.arange(segment.start, segment.stop)
        length = len(index) - abs(n)
        if length < shortest:
            continue
        motion.append(index[max(-n, 0) :][:length])
        effort.append(index[max(n, 0) :][:length])
    if not motion:
        what = f"no stretch of the recording is longer than the effort's delay of {delay:.3g} s and the filters"
        raise InputError(what, "record longer", prepared.source)
    rows, later = np.concatenate(motion), np.concatenate(effort)
    signals: dict[str, Any] = {name: None if (x := getattr(prepared, name)) is None else x[rows] for name in SIGNALS}
    signals["tau"] = prepared.tau[later]
    signals["bridged"] = np.maximum(prepared.bridged[rows], prepared.bridged[later])
    settings = replace(prepared.filter, delay=prepared.filter.delay + n / prepared.filter.inner_rate)
    return replace(prepared, **signals, segments=consecutive_slices(map(len, motion)), filter=settings)
