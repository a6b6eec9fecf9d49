# SPDX-License-Identifier: Apache-2.0

"""The cut-off of the rows: do lower ones than proposed predict the slow torques much better?

Noise that looks like motion in the spectrum (stamps that are off, for one) cannot be told from it there, but it spoils
the fit. The rows are filtered again at lower cut-offs, and all fits are compared on stretches that they have not seen,
in the band that they share. Cross-validation on a short recording is too unsteady to choose a cut-off by small
differences, so only a large one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.identification.preparation.cutoffs import CutoffThresholds, SpectrumThresholds
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.regression.build_information import BuildInformation
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import (
    joint_errors,
    joint_torques,
    own_errors,
    solve,
    weighted_triangle,
)
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class RowCutoffThresholds:
    """When the cut-off that the spectrum proposes gives way to a lower one.

    cutoffs: tried [Hz], higher in short recordings; the last one is the band in which errors are compared, that of slow
    arm motion. well_below: a cut-off is tried if the proposed one is this many times as high; a nearer one changes
    little. better: largest held-out error, as a share of that before, at which a lower cut-off is taken: three folds of
    a short recording scatter by nearly as much. good_fit: relative error of the fit below which noise has spoiled
    nothing. folds: stretches left out in turn.
    """

    cutoffs: tuple[float, ...] = (20.0, 4.0)
    well_below: float = 1.5
    better: float = 0.5
    good_fit: float = 0.05
    folds: int = 3


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
    beginnings = [_beginning(p) for p in prepared]
    lowest = max(CutoffThresholds().lowest_cutoff(float(p.t[-1] - p.t[0]), 1.0) for p in beginnings)
    cutoffs = [
        cutoff for cutoff in (max(one, lowest) for one in limits.cutoffs) if limits.well_below * cutoff <= proposed
    ]
    if not cutoffs or _fit_error(information) < limits.good_fit:
        return RowCutoffDecision(proposed)
    filtered = {cutoff: build([refilter_rows(p, cutoff) for p in beginnings]) for cutoff in cutoffs}
    band = filtered[cutoffs[-1]]
    before = held_out_error(build(beginnings), band, limits.folds)
    errors = {cutoff: held_out_error(part, band, limits.folds) for cutoff, part in filtered.items()}
    best = min(errors, key=lambda cutoff: errors[cutoff])
    chosen = best if errors[best] < limits.better * before else None
    return RowCutoffDecision(proposed, chosen, {proposed: before, **errors})


def refilter_rows(prepared: Prepared, cutoff: float) -> Prepared:
    """Return the recording with another second low-pass [Hz], as far as its stretches are long enough for it."""
    rate = prepared.filter.inner_rate
    kernel = lowpass_kernel(cutoff, rate)
    step = CutoffThresholds().row_step(cutoff, rate)
    return replace(
        prepared,
        kernel=kernel,
        slope_kernel=lowpass_kernel(cutoff, rate, 1),
        step=step,
        segments=tuple(s for s in prepared.segments if s.stop - s.start >= len(kernel)),
        filter=replace(prepared.filter, row_cutoff=cutoff, row_rate=rate / step),
    )


def held_out_error(information: Information, band: Information, folds: int) -> float:
    """Return the relative torque error in `band` on stretches of time, each predicted by a fit to the others.

    The blocks of both cover the same times, nearly: those beside the stretch left out are not fitted to.
    """
    error = torque = 0.0
    for fold in range(folds):
        fitted = [k for k, place in _places(information) if not fold - 0.05 <= place * folds <= fold + 1.05]
        tested = [k for k, place in _places(band) if int(place * folds) == fold]
        left_out = band.take(tested)
        value = _fit(information.take(fitted))
        error += float(np.sum(joint_errors(left_out, value) ** 2))
        torque += float(np.sum(joint_torques(left_out) ** 2))
    return float(np.sqrt(error / max(torque, 1e-300)))


def _places(information: Information) -> list[tuple[int, float]]:
    """Return the blocks' numbers with their places, from 0 to 1."""
    count = len(information.blocks)
    return [(k, (k + 0.5) / count) for k in range(count)]


def _fit(information: Information) -> Array:
    return solve(weighted_triangle(information, 1.0 / own_errors(information)).R).value


def _fit_error(information: Information) -> float:
    errors = joint_errors(information, _fit(information))
    return float(np.linalg.norm(errors) / np.linalg.norm(joint_torques(information)))


def _beginning(prepared: Prepared) -> Prepared:
    """Return as much of a recording as its spectrum is taken from."""
    end = int(np.searchsorted(prepared.t, float(prepared.t[0]) + SpectrumThresholds.seconds))
    if end >= len(prepared.t):
        return prepared
    kernel = 1 if prepared.kernel is None else len(prepared.kernel)
    segments = (slice(s.start, min(s.stop, end)) for s in prepared.segments)
    return replace(prepared, segments=tuple(s for s in segments if s.stop - s.start >= kernel))
