# SPDX-License-Identifier: Apache-2.0

"""The cut-off of the rows: do lower ones than proposed predict the slow torques better?

Noise that looks like motion in the spectrum (stamps that are off, samples that come late) cannot be told from it there:
the proposed cut-off runs up to the highest that the rate allows, and the noise spoils the fit. The rows are then
filtered again at a ladder of lower cut-offs, and all fits are compared on stretches that they have not seen, in the
band that they share. A lower cut-off is taken if it is better by more than the stretches scatter; of those that are as
good as the best, the one in the middle, whose neighbours are as good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ros2_dynid.errors import remark
from ros2_dynid.identification.preparation.cutoffs import CutoffThresholds, SpectrumThresholds
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE, filter_signal, lowpass_kernel, output_index
from ros2_dynid.identification.preparation.prepared import Prepared, consecutive_slices
from ros2_dynid.identification.regression.build_information import BuildInformation
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, solve_by_own_errors
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class RowCutoffThresholds:
    """When the cut-off that the spectrum proposes gives way to a lower one.

    cutoffs: tried [Hz], as far as the recordings are long enough. band: in which errors are compared [Hz], that of slow
    arm motion. doubtful: a proposed cut-off above this [Hz], or at the highest that the rate allows, may be that of
    noise; below, it is that of an arm's motion and friction. well_below: a cut-off is tried if the proposed one is this
    many times as high; a nearer one changes little. scatter: a lower one is taken if its error on stretches left out is
    smaller by this many standard errors of the difference, and by least_gain of itself. as_good: error over the best
    one's up to which a cut-off is as good. folds: stretches left out in turn.
    """

    cutoffs: tuple[float, ...] = (32.0, 20.0, 12.0, 8.0, 5.0, 3.2, 2.0)
    band: float = 4.0
    doubtful: float = 12.0
    well_below: float = 1.5
    scatter: float = 3.0
    least_gain: float = 0.05
    as_good: float = 1.05
    folds: int = 10


@dataclass(frozen=True)
class RowCutoffDecision:
    """The cut-off [Hz] to use in place of the `proposed` one, None to keep that; held-out errors by cut-off tried."""

    proposed: float
    cutoff: float | None = None
    errors: Mapping[float, float] = field(default_factory=dict)


def select_row_cutoff(
    prepared: Sequence[Prepared],
    information: Information,
    build: BuildInformation,
    thresholds: RowCutoffThresholds | None = None,
) -> RowCutoffDecision:
    """Return whether a lower cut-off of the rows predicts much better than that of `prepared`.

    information: of these recordings; build: makes it of recordings with other filters.
    """
    limits = thresholds or RowCutoffThresholds()
    proposed = min(p.filter.row_cutoff or 0.0 for p in prepared)
    if not _is_doubtful(prepared, proposed, limits):
        return RowCutoffDecision(proposed)
    beginnings = [_beginning(p) for p in prepared]
    lowest = max(CutoffThresholds().lowest_cutoff(float(p.t[-1] - p.t[0]), 1.0) for p in beginnings)
    tried = [one for one in limits.cutoffs if one >= lowest and limits.well_below * one <= proposed]
    if not tried:
        return RowCutoffDecision(proposed)
    band = build([refilter_rows(p, min(max(limits.band, lowest), proposed)) for p in beginnings])
    whole = all(part is p for part, p in zip(beginnings, prepared, strict=True))
    squares = {proposed: held_out_squares(information if whole else build(beginnings), band, limits.folds)}
    for cutoff in tried:
        squares[cutoff] = held_out_squares(build([refilter_rows(p, cutoff) for p in beginnings]), band, limits.folds)
    chosen = _choose(proposed, squares, limits)
    return RowCutoffDecision(proposed, chosen, {cutoff: float(np.sqrt(one.sum())) for cutoff, one in squares.items()})


def note_lower_cutoff(prepared: Sequence[Prepared], cutoff: float) -> tuple[Prepared, ...]:
    """Return the recordings with a note on the cut-off [Hz] that was taken instead of the proposed one."""
    note = remark(f"the cut-off proposed lets too much noise in: rows are filtered at {cutoff:g} Hz instead")
    return tuple(replace(part, notes=(*part.notes, note)) for part in prepared)


def _is_doubtful(prepared: Sequence[Prepared], proposed: float, limits: RowCutoffThresholds) -> bool:
    """Return whether a proposed cut-off may be that of noise: high, or the highest that the rate allows."""
    rate = min(p.filter.rate for p in prepared)
    highest = MAX_CUTOFF_SHARE * rate / CutoffThresholds.least_rows_to_position
    return proposed > limits.doubtful or proposed > 0.99 * highest


def _choose(proposed: float, squares: Mapping[float, Array], limits: RowCutoffThresholds) -> float | None:
    """Return the cut-off [Hz] to take instead of the proposed one; squares: of errors of each fold, by cut-off."""
    lower = {cutoff: float(np.sqrt(one.sum())) for cutoff, one in squares.items() if cutoff != proposed}
    best = min(lower, key=lambda cutoff: lower[cutoff])
    gain = squares[proposed] - squares[best]
    scatter = float(np.std(gain, ddof=1) * np.sqrt(len(gain)))
    before = float(np.sqrt(squares[proposed].sum()))
    if float(gain.sum()) <= limits.scatter * scatter or lower[best] > (1.0 - limits.least_gain) * before:
        return None
    as_good = sorted(cutoff for cutoff, error in lower.items() if error <= limits.as_good * lower[best])
    return as_good[(len(as_good) - 1) // 2]


def refilter_rows(prepared: Prepared, cutoff: float) -> Prepared:
    """Return the recording with a lower second low-pass [Hz], and a first one in its usual distance above it.

    As far as its stretches are long enough for both; at a lower inner rate where these allow it.
    """
    limits = CutoffThresholds()
    thinned = _thin_motion(prepared, limits.rows_to_position * cutoff, limits)
    rate = thinned.filter.inner_rate
    kernel = lowpass_kernel(cutoff, rate)
    step = limits.row_step(cutoff, rate)
    return replace(
        thinned,
        kernel=kernel,
        slope_kernel=lowpass_kernel(cutoff, rate, 1),
        step=step,
        segments=tuple(s for s in thinned.segments if s.stop - s.start >= len(kernel)),
        filter=replace(thinned.filter, row_cutoff=cutoff, row_rate=rate / step),
    )


def _thin_motion(prepared: Prepared, cutoff: float, limits: CutoffThresholds) -> Prepared:
    """Return motion and torque low-passed at `cutoff` [Hz], at a whole fraction of the inner rate; as it is at 1."""
    rate = prepared.filter.inner_rate
    step = limits.inner_step(cutoff, rate)
    if step == 1:
        return prepared
    kernel = lowpass_kernel(cutoff, rate)
    long = [s for s in prepared.segments if s.stop - s.start >= len(kernel)]

    signals: dict[str, Any] = dict.fromkeys(("gear_torque", "reference", "commands", "temperature", "second"))
    for name in ("q", "dq", "ddq", "tau", "sign", "bridged"):
        signals[name] = np.concatenate([filter_signal(getattr(prepared, name)[s], kernel, step) for s in long])
    places = [s.start + output_index(s.stop - s.start, len(kernel), step).astype(int) for s in long]
    return replace(
        prepared,
        t=np.concatenate([prepared.t[at] for at in places]),
        segments=consecutive_slices(map(len, places)),
        filter=replace(prepared.filter, inner_rate=rate / step, position_cutoff=cutoff),
        **signals,
    )


def held_out_squares(information: Information, band: Information, folds: int) -> Array:
    """Return the squared torque error in `band` of each stretch of time, predicted by a fit to the others, (folds,).

    As shares of the squared torque of all. The blocks of both cover the same times, nearly: those beside the stretch
    left out are not fitted to.
    """
    errors = np.zeros(folds)
    for fold in range(folds):
        fitted = [k for k, place in _places(information) if not fold - 0.05 <= place * folds <= fold + 1.05]
        tested = [k for k, place in _places(band) if int(place * folds) == fold]
        value = solve_by_own_errors(information.take(fitted))
        errors[fold] = float(np.sum(joint_errors(band.take(tested), value) ** 2))
    return errors / max(float(np.sum(joint_torques(band) ** 2)), 1e-300)


def _places(information: Information) -> list[tuple[int, float]]:
    """Return the blocks' numbers with their places, from 0 to 1."""
    count = len(information.blocks)
    return [(k, (k + 0.5) / count) for k in range(count)]


def _beginning(prepared: Prepared) -> Prepared:
    """Return as much of a recording as its spectrum is taken from."""
    end = int(np.searchsorted(prepared.t, float(prepared.t[0]) + SpectrumThresholds.seconds))
    if end >= len(prepared.t):
        return prepared
    kernel = 1 if prepared.kernel is None else len(prepared.kernel)
    segments = (slice(s.start, min(s.stop, end)) for s in prepared.segments)
    return replace(prepared, segments=tuple(s for s in segments if s.stop - s.start >= kernel))
