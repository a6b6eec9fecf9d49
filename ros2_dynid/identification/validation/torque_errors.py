# SPDX-License-Identifier: Apache-2.0

"""How good a model is: errors of each joint, on data used and not used, whiteness, and against the a priori model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import PICTURE_ROWS, TorqueData, TorqueError
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.identification.preparation.rows import Rows, row_chunks, row_count, rows_of_a_chunk, windows
from ros2_dynid.identification.regression.estimate import Mask
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

Errors = Mapping[str, TorqueError]
"""By joint, and for "all"."""
AS_WELL = 1.05
"""Held-out error over that of another model up to which one predicts as well: that is the error's scatter."""


def torque_errors(names: Sequence[str], information: Information, value: Array) -> Errors:
    """Return the torque errors of a value for each column of W in rows in motion, by joint and for all."""
    information = information.in_motion()
    return tabulate_errors(names, joint_errors(information, value), joint_torques(information), information.rows)


def tabulate_errors(names: Sequence[str], errors: Array, torques: Array, rows: NDArray[np.integer]) -> Errors:
    """Return the table from the norms of errors and torques of each joint, shape (n,), and their number of rows."""
    table = {
        name: TorqueError(float(e / np.sqrt(max(r, 1))), float(e / max(t, 1e-300)))
        for name, e, t, r in zip(names, errors, torques, rows, strict=True)
    }
    error, torque = float(np.linalg.norm(errors)), float(np.linalg.norm(torques))
    count = max(int(np.sum(rows)), 1)
    table["all"] = TorqueError(float(error / np.sqrt(count)), float(error / max(torque, 1e-300)))
    return table


WHITENESS_LAGS = 4
"""Errors are compared with themselves one to WHITENESS_LAGS filter lengths later."""
WHITENESS_ROWS = 4000
"""Rows, the first of a recording, that tell whether errors are random: a few hundred filter lengths are enough."""
ROUNDING = 1e-13
"""What is left of the torque, squared, as a share of it, if all is explained."""


@dataclass(frozen=True)
class Whiteness:
    """Correlation of a joint's error with itself some filter lengths later, and how likely chance alone makes it that.

    Neighbouring rows are correlated by the filter itself, so only lags beyond its length say something about the model.
    """

    correlation: float = 0.0
    probability: float = 1.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """Torques measured and predicted: errors by joint; data: at most PICTURE_ROWS rows, for pictures.

    largest: measured effort of each joint, shape (n,) [N.m or N]; coverage: share of rows inside the 95 % band of the
    prediction, by joint and for "all", without rows whose torque the parameters do not determine. whiteness: of each
    joint's errors in the first recording that has rows.
    """

    errors: Errors
    data: TorqueData
    largest: Array
    coverage: Mapping[str, float]
    whiteness: Mapping[str, Whiteness]


def compare_torques(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    value: Array,
    prior: Array,
    limit: int = PICTURE_ROWS,
    spread: TorqueScatter | None = None,
    terms: Sequence[FrictionTerm] = (),
) -> Comparison:
    """Return how well `value` predicts the torques of recordings, with those of the a priori values beside it.

    value, prior: base parameters, friction terms and delay of the effort [s], a value for each column of W; spread: of
    these, to count the rows inside the band of the prediction.
    """
    names, columns = robot.active_names, base.columns(robot)
    row_counts = [row_count(p) for p in prepared]
    stride, first = _picture_stride(row_counts, limit), next((k for k, count in enumerate(row_counts) if count), 0)
    errors, torques, largest = np.zeros((3, len(names)))
    counts, inside, determined = np.zeros((3, len(names)), dtype=np.int64)
    pictures: list[tuple[Array, ...]] = []
    first_rows: list[tuple[Array, Array, Mask]] = []
    beginning = 0.0
    for number, part in enumerate(prepared):
        shift, passed = beginning - (float(part.t[0]) if len(prepared) > 1 else 0.0), 0
        chunks = row_chunks(robot, part, columns, delay=len(value) > len(columns) + len(terms), terms=terms)
        for window, rows in zip(windows(part, rows_of_a_chunk(part)), chunks, strict=True):
            predicted = np.tensordot(value, rows.W, axes=1)
            residual, keep = rows.tau - predicted, rows.keep
            errors += np.sum(residual**2 * keep, axis=1)
            torques += np.sum(rows.tau**2 * keep, axis=1)
            counts += np.count_nonzero(keep, axis=1)
            largest = np.maximum(largest, np.max(np.abs(rows.tau) * keep, axis=1, initial=0.0))
            if spread is not None:
                std = spread.measured(rows.W)
                known = keep & np.isfinite(std)
                determined += np.count_nonzero(known, axis=1)
                inside += np.count_nonzero(known & (np.abs(residual) <= spread.width * std), axis=1)
            if number == first and passed < WHITENESS_ROWS:
                first_rows.append((residual, rows.tau, keep))
            kept = np.arange(-passed % stride, len(window.at), stride)
            passed += len(window.at)
            if len(kept):
                a_priori = np.tensordot(prior, rows.W[:, :, kept], axes=1)
                pictures.append(_picture(part, shift, window.at[kept], rows, kept, predicted[:, kept], a_priori))
        beginning = shift + float(part.t[-1])
    if not pictures:
        raise InputError("the recordings have no row", "record longer")
    lag, count = filter_length(prepared[first].filter), WHITENESS_ROWS
    error, torque, keep = (np.concatenate(column, axis=1)[:, :count] for column in zip(*first_rows, strict=True))
    return Comparison(
        tabulate_errors(names, np.sqrt(errors), np.sqrt(torques), counts),
        TorqueData(*(np.concatenate(column) for column in zip(*pictures, strict=True))),
        largest,
        {
            name: float(share / count)
            for name, share, count in zip(
                (*names, "all"), (*inside, inside.sum()), (*determined, determined.sum()), strict=True
            )
            if count
        },
        {name: measure_whiteness(error[j], torque[j], keep[j], lag) for j, name in enumerate(names)},
    )


def _picture(
    prepared: Prepared, shift: float, at: NDArray[np.intp], rows: Rows, kept: NDArray[np.intp], *torques: Array
) -> tuple[Array, ...]:
    """Return the columns of TorqueData for the rows `kept`, taken at the samples `at`; torques: predicted, a priori."""
    measured = np.where(rows.keep[:, kept], rows.tau[:, kept], np.nan).T
    warmth = np.full_like(measured, np.nan) if prepared.temperature is None else prepared.temperature[at]
    motion = (prepared.q[at], prepared.dq[at], prepared.ddq[at])
    return rows.t[kept] + shift, *motion, measured, *(tau.T for tau in torques), warmth


def _picture_stride(counts: Sequence[int], limit: int) -> int:
    """Return the smallest power of two with which every stride-th of these rows, by recording, is within the limit."""
    stride = 1
    while sum(-(-count // stride) for count in counts) > limit and stride < max(counts):
        stride *= 2
    return stride


def filter_length(settings: Filter) -> int:
    """Return the length of the rows' filter in rows."""
    return 1 if settings.row_cutoff is None else max(1, round(settings.row_rate / settings.row_cutoff))


def measure_whiteness(error: Array, torque: Array, keep: Mask, lag: int) -> Whiteness:
    """Return how a joint's error is correlated with itself some lags later, where that is farthest from 0.

    error, torque: of successive rows, shape (m,); keep: False for rows left out, shape (m,); lag [rows]: the length of
    the rows' filter.
    """
    count = np.count_nonzero(keep)
    if count == 0 or len(error) <= WHITENESS_LAGS * lag:
        return Whiteness()
    deviation = np.where(keep, error - np.mean(error[keep]), 0.0)
    power = float(deviation @ deviation)
    if power <= ROUNDING * float(np.sum(torque[keep] ** 2)):
        return Whiteness()
    steps = lag * np.arange(1, WHITENESS_LAGS + 1)
    correlations = np.array([deviation[step:] @ deviation[:-step] for step in steps]) / power
    largest = float(correlations[np.argmax(np.abs(correlations))])
    independent = max(count / lag, 2.0)
    chance = 1.0 - (1.0 - 2.0 * ndtr(-abs(largest) * np.sqrt(independent))) ** WHITENESS_LAGS
    return Whiteness(largest, float(np.clip(chance, 0.0, 1.0)))
