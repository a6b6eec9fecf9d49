"""Measured and predicted torque, row by row: the errors, the residual, and what pictures show of it, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.fit import Problem
from ros2_dynid.identification.preparation.elsewhere import over
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import row_chunks, row_count, rows_of_a_chunk, windows
from ros2_dynid.identification.torque_data import TorqueData
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.identification.validation.row_evidence import picture_stride, row_evidence, whiteness
from ros2_dynid.identification.validation.torque_errors import Errors, Whiteness, error_table
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

LIMIT = 4000
"""Rows kept for pictures: they show no more, and a report of an hour stays small."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Torques measured and predicted: errors by joint; data: at most LIMIT rows, for pictures.

    largest: measured effort of each joint, shape (n,) [N.m or N]; coverage: share of rows inside the 95 % band of the
    prediction, by joint and for "all", without rows whose torque the parameters do not determine.
    """

    errors: Errors
    data: TorqueData
    largest: Array
    coverage: Mapping[str, float] = field(default_factory=dict)


def compare_torques(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    value: Array,
    prior: Array,
    limit: int = LIMIT,
    spread: TorqueScatter | None = None,
    terms: Sequence[FrictionTerm] = (),
) -> Comparison:
    """Return how well `value` predicts the torques of recordings, with those of the a priori values beside it.

    value, prior: base parameters, friction terms and delay of the effort [s], a value for each column of W; spread: of
    these, to count the rows inside the band of the prediction.
    """
    stride = max(1, -(-sum(row_count(p) for p in prepared) // limit))
    one = partial(_compared, robot, base, value, prior, spread, tuple(terms), stride)
    found = over(one, prepared, _beginnings(prepared))
    parts = [part for one_recording in found for part in one_recording.pictured]
    if not parts:
        raise InputError("the recordings have no row", "record longer")
    errors, torques, counts, inside, judged = (
        np.sum([getattr(one_recording, name) for one_recording in found], axis=0)
        for name in ("errors", "torques", "counts", "inside", "judged")
    )
    return Comparison(
        error_table(robot.active_names, np.sqrt(errors), np.sqrt(torques), counts),
        TorqueData(*(np.concatenate(column) for column in zip(*parts, strict=True))),
        np.max([one_recording.largest for one_recording in found], axis=0),
        _shares([*robot.active_names, "all"], np.append(inside, inside.sum()), np.append(judged, judged.sum())),
    )


@dataclass(frozen=True, eq=False)
class FittedTorques:
    """The torques fitted to: at most LIMIT rows, for pictures, and whether each joint's errors are random in time."""

    data: TorqueData
    white: Mapping[str, Whiteness]


def fitted_torques(problem: Problem, value: Array, limit: int = LIMIT) -> FittedTorques:
    """Return the torques of the problem's recordings beside those of `value` and of the a priori values.

    Errors are judged in the first recording.
    """
    robot, information, prepared = problem.robot, problem.information, problem.prepared
    columns, delay = information.columns, bool(information.layout.n_delay)
    stride = picture_stride([row_count(p) for p in prepared], limit)
    one = partial(row_evidence, robot, problem.base, tuple(problem.terms), delay, columns, stride)
    found = over(one, prepared, [number == 0 for number in range(len(prepared))])
    shifts = [beginning.shift for beginning in _beginnings(prepared)]
    rows = [one_recording.pictured for one_recording in found]
    data = TorqueData(
        np.concatenate([part.t + shift for part, shift in zip(rows, shifts, strict=True)]),
        np.concatenate([part.q for part in rows]),
        np.concatenate([part.dq for part in rows]),
        np.concatenate([part.ddq for part in rows]),
        np.concatenate([part.tau for part in rows]),
        np.concatenate([part.predicted(columns, value) for part in rows]),
        np.concatenate([part.predicted(columns, problem.prior) for part in rows]),
        np.concatenate([part.temperature for part in rows]),
    )
    assert found[0].successive is not None
    return FittedTorques(data, whiteness(robot.active_names, found[0].successive, columns, value))


@dataclass(frozen=True)
class _Beginning:
    """Rows of the recordings before one, and the shift of its times in the pictures [s]."""

    seen: int
    shift: float


def _beginnings(prepared: Sequence[Prepared]) -> list[_Beginning]:
    found: list[_Beginning] = []
    begin, seen = 0.0, 0
    for recording in prepared:
        shift = begin - (float(recording.t[0]) if len(prepared) > 1 else 0.0)
        found.append(_Beginning(seen, shift))
        begin, seen = shift + float(recording.t[-1]), seen + row_count(recording)
    return found


@dataclass(frozen=True, eq=False)
class _Compared:
    """Sums over the rows of one recording, shape (n,) each; pictured: rows for pictures."""

    errors: Array
    torques: Array
    largest: Array
    counts: NDArray[np.int64]
    inside: NDArray[np.int64]
    judged: NDArray[np.int64]
    pictured: tuple[tuple[Array, ...], ...]


def _compared(
    robot: Robot,
    base: BaseParameters,
    value: Array,
    prior: Array,
    spread: TorqueScatter | None,
    terms: Sequence[FrictionTerm],
    stride: int,
    whole: Prepared,
    parts: Iterable[Prepared],
    beginning: _Beginning,
) -> _Compared:
    """Compare the torques of one recording, whose samples come in parts."""
    n, columns = len(robot.active), base.columns(robot)
    pictured: list[tuple[Array, ...]] = []
    errors, torques, largest = np.zeros(n), np.zeros(n), np.zeros(n)
    counts = np.zeros(n, dtype=np.int64)
    inside, judged = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    seen = beginning.seen
    delay = len(value) > len(columns) + len(terms)
    for part in parts:
        chunks = row_chunks(robot, part, columns, delay=delay, terms=terms)
        for window, rows in zip(windows(part, rows_of_a_chunk(part)), chunks, strict=True):
            predicted = np.einsum("b,bjt->jt", value, rows.W)
            residual = rows.tau - predicted
            errors += np.sum(residual**2 * rows.keep, axis=1)
            torques += np.sum(rows.tau**2 * rows.keep, axis=1)
            counts += np.count_nonzero(rows.keep, axis=1)
            if spread is not None:
                std = spread.measured(rows.W)
                known = rows.keep & np.isfinite(std)
                judged += np.count_nonzero(known, axis=1)
                inside += np.count_nonzero(known & (np.abs(residual) <= spread.width * std), axis=1)
            largest = np.maximum(largest, np.max(np.abs(rows.tau) * rows.keep, axis=1, initial=0.0))
            kept = np.arange((-seen) % stride, len(window.at), stride)
            seen += len(window.at)
            if not len(kept):
                continue
            at = window.at[kept]
            measured = np.where(rows.keep[:, kept], rows.tau[:, kept], np.nan).T
            a_priori = np.einsum("b,bjt->tj", prior, rows.W[:, :, kept])
            motion = (part.q[at], part.dq[at], part.ddq[at])
            warmth = np.full_like(measured, np.nan) if part.temperature is None else part.temperature[at]
            torques_of = (measured, predicted[:, kept].T, a_priori)
            pictured.append((rows.t[kept] + beginning.shift, *motion, *torques_of, warmth))
    return _Compared(errors, torques, largest, counts, inside, judged, tuple(pictured))


def _shares(names: Sequence[str], inside: NDArray[np.int64], judged: NDArray[np.int64]) -> dict[str, float]:
    return {name: float(i / c) for name, i, c in zip(names, inside, judged, strict=True) if c}
