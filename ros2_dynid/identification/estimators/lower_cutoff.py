"""An alarm for cut-offs that let too much noise in: do lower ones predict the slow torques much better?

Noise that looks like motion in the spectrum (stamps that are off, for one) cannot be told from it there, but it spoils
the fit. The rows are filtered again at lower cut-offs, and all fits are compared on stretches that they have not seen,
in the band that they share. Cross-validation on a short recording is too unsteady to choose a cut-off by small
differences, so only a large one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ros2_dynid.identification.estimators.information import Inform, Information
from ros2_dynid.identification.estimators.least_squares import (
    joint_errors,
    joint_torques,
    own_errors,
    solve,
    weighted_triangle,
)
from ros2_dynid.identification.preparation.cutoffs import LOOKED_AT, ROW_RATE_OVER_CUTOFF, SHARE_OF_ENDS
from ros2_dynid.identification.preparation.elsewhere import changed
from ros2_dynid.identification.preparation.filters import LOBES, lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.robot import Array

TRIED = (20.0, 4.0)
"""Cut-offs of the rows tried [Hz], higher in short recordings, if they are well below the one proposed; the last is the
band compared in."""
WELL_BELOW = 1.5
MUCH_BETTER = 0.5
"""A lower cut-off is taken if its error on stretches not seen is less than this share of the error before."""
GOOD_ENOUGH = 0.05
"""A fit with a smaller relative error than this is not looked at again: noise has not spoiled it."""
FOLDS = 3


def lower_cutoff(prepared: Sequence[Prepared], information: Information, inform: Inform) -> float | None:
    """Return a cut-off of the rows [Hz] that predicts much better than the one of `prepared`, None if there is none."""
    row = min(p.filter.row_cutoff or 0.0 for p in prepared)
    looked = [changed(partial(_beginning, start=float(p.t[0])), p) for p in prepared]
    lowest = max(LOBES / (SHARE_OF_ENDS * float(p.t[-1] - p.t[0])) for p in looked)
    tried = [cutoff for cutoff in (max(usual, lowest) for usual in TRIED) if WELL_BELOW * cutoff <= row]
    if not tried:
        return None
    value = _fit(information)
    fitted = np.linalg.norm(joint_errors(information, value)) / np.linalg.norm(joint_torques(information))
    if fitted < GOOD_ENOUGH:
        return None
    found = {cutoff: inform([changed(partial(refiltered, cutoff=cutoff), p) for p in looked]) for cutoff in tried}
    band = found[tried[-1]]
    before = held_out_error(inform(looked), band)
    errors = {cutoff: held_out_error(part, band) for cutoff, part in found.items()}
    best = min(errors, key=lambda cutoff: errors[cutoff])
    return best if errors[best] < MUCH_BETTER * before else None


def refiltered(prepared: Prepared, cutoff: float) -> Prepared:
    """Return the recording with another second low-pass [Hz], as far as its stretches are long enough for it."""
    rate = prepared.filter.inner_rate
    kernel = lowpass_kernel(cutoff, rate)
    step = max(1, int(rate / (ROW_RATE_OVER_CUTOFF * cutoff) + 0.5))
    return replace(
        prepared,
        kernel=kernel,
        slope_kernel=lowpass_kernel(cutoff, rate, 1),
        step=step,
        segments=tuple(s for s in prepared.segments if s.stop - s.start >= len(kernel)),
        filter=replace(prepared.filter, row_cutoff=cutoff, row_rate=rate / step),
    )


def held_out_error(information: Information, band: Information) -> float:
    """Return the relative torque error in `band` on FOLDS stretches, each predicted by a fit to the others.

    The blocks of both cover the same times, nearly: those beside the stretch left out are not fitted to.
    """
    error = torque = 0.0
    for fold in range(FOLDS):
        seen = [k for k, place in _places(information) if not fold - 0.05 <= place * FOLDS <= fold + 1.05]
        unseen = [k for k, place in _places(band) if int(place * FOLDS) == fold]
        left_out = band.take(unseen)
        value = _fit(information.take(seen))
        error += float(np.sum(joint_errors(left_out, value) ** 2))
        torque += float(np.sum(joint_torques(left_out) ** 2))
    return float(np.sqrt(error / max(torque, 1e-300)))


def _places(information: Information) -> list[tuple[int, float]]:
    """Return the blocks' numbers with their places, from 0 to 1."""
    count = len(information.blocks)
    return [(k, (k + 0.5) / count) for k in range(count)]


def _fit(information: Information) -> Array:
    return solve(weighted_triangle(information, 1.0 / own_errors(information)).R).value


def _beginning(prepared: Prepared, start: float) -> Prepared:
    """Return the first LOOKED_AT seconds of a recording that begins at `start` [s], or of a part of it."""
    end = int(np.searchsorted(prepared.t, start + LOOKED_AT))
    if end >= len(prepared.t):
        return prepared
    kernel = 1 if prepared.kernel is None else len(prepared.kernel)
    segments = (slice(s.start, min(s.stop, end)) for s in prepared.segments)
    return replace(prepared, segments=tuple(s for s in segments if s.stop - s.start >= kernel))
