# SPDX-License-Identifier: Apache-2.0

"""Measured and predicted torque, row by row: the errors, the residual, and what pictures show of it, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.identification.preparation.rows import Rows, Window, row_chunks, row_count, rows_of_a_chunk, windows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.torque_data import TorqueData
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.identification.validation.torque_errors import Errors, Whiteness, error_table
from ros2_dynid.model.friction import FrictionTerm
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
    found = [one(part, beginning) for part, beginning in zip(prepared, _beginnings(prepared), strict=True)]
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
    found = [one(part, successive=number == 0) for number, part in enumerate(prepared)]
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
    prepared: Prepared,
    beginning: _Beginning,
) -> _Compared:
    """Compare the torques of one recording."""
    n, columns = len(robot.active), base.columns(robot)
    pictured: list[tuple[Array, ...]] = []
    errors, torques, largest = np.zeros(n), np.zeros(n), np.zeros(n)
    counts = np.zeros(n, dtype=np.int64)
    inside, judged = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    seen = beginning.seen
    delay = len(value) > len(columns) + len(terms)
    chunks = row_chunks(robot, prepared, columns, delay=delay, terms=terms)
    for window, rows in zip(windows(prepared, rows_of_a_chunk(prepared)), chunks, strict=True):
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
        motion = (prepared.q[at], prepared.dq[at], prepared.ddq[at])
        warmth = np.full_like(measured, np.nan) if prepared.temperature is None else prepared.temperature[at]
        torques_of = (measured, predicted[:, kept].T, a_priori)
        pictured.append((rows.t[kept] + beginning.shift, *motion, *torques_of, warmth))
    return _Compared(errors, torques, largest, counts, inside, judged, tuple(pictured))


def _shares(names: Sequence[str], inside: NDArray[np.int64], judged: NDArray[np.int64]) -> dict[str, float]:
    return {name: float(i / c) for name, i, c in zip(names, inside, judged, strict=True) if c}


LAGS = 4
"""Errors are compared with themselves one to LAGS filter lengths later."""
FIRST = 4000
"""Rows, the first of a recording, that tell whether errors are random: a few hundred filter lengths are enough."""
ROUNDING = 1e-13
"""What is left of the torque, squared, as a share of the largest terms it is the difference of, if all is explained."""


@dataclass(frozen=True, eq=False)
class PicturedRows:
    """Every stride-th row of a recording: t (m,), motion (m, n) each, tau (m, n), NaN where a row was left out.

    temperature: of the drives, shape (m, n) [deg C], NaN where it is not known; W: for each joint the columns that it
    feels, shape (k_j, m).
    """

    stride: int
    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    temperature: Array
    W: tuple[Array, ...]

    def predicted(self, columns: Sequence[NDArray[np.intp]], value: Array) -> Array:
        """Return W value, shape (m, n)."""
        return np.column_stack([value[own] @ W for own, W in zip(columns, self.W, strict=True)])


@dataclass(frozen=True, eq=False)
class Successive:
    """Moments of a recording's first rows and those l lags later, for each joint j and l = 0 ... LAGS.

    C[j], shape (LAGS + 1, k_j + 2, k_j + 2), has the sums over i of y_(i + l lag) y_i^T with y = [W_j, tau_j, 1], zero
    where a row was left out; lag [rows]: the length of the rows' filter, within which all errors are correlated.
    """

    lag: int
    rows: int
    C: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class RowEvidence:
    """Rows for pictures, and moments of successive rows."""

    pictured: PicturedRows
    successive: Successive | None


def picture_stride(counts: Sequence[int], limit: int) -> int:
    """Return the smallest power of two for which every stride-th row of recordings with `counts` are at most `limit`.

    A power of two: a stride for more recordings is a multiple of one for fewer.
    """
    stride = 1
    while sum(-(-count // stride) for count in counts) > limit and stride < max(counts):
        stride *= 2
    return stride


def lag_of(settings: Filter) -> int:
    """Return the length of the rows' filter in rows."""
    return 1 if settings.row_cutoff is None else max(1, round(settings.row_rate / settings.row_cutoff))


class RowCollector:
    """Collects the evidence of one recording as its rows pass."""

    def __init__(self, stride: int, lag: int | None) -> None:
        """Nothing has passed yet; lag: None if no moments are asked for."""
        self._stride, self._lag = stride, lag
        self._seen = 0
        self._kept: list[tuple[Array, ...]] = []
        self._first: list[Rows] = []

    def take(self, part: Prepared, window: Window, rows: Rows) -> None:
        """Look at the rows of a window of a part."""
        kept = np.arange(-self._seen % self._stride, len(window.at), self._stride)
        if len(kept):
            at = window.at[kept]
            tau = np.where(rows.keep[:, kept], rows.tau[:, kept], np.nan).T
            warmth = np.full_like(tau, np.nan) if part.temperature is None else part.temperature[at]
            self._kept.append((rows.t[kept], part.q[at], part.dq[at], part.ddq[at], tau, warmth, rows.W[:, :, kept]))
        if self._lag is not None and self._seen < FIRST:
            self._first.append(rows)
        self._seen += len(window.at)

    def evidence(self, columns: Sequence[NDArray[np.intp]]) -> RowEvidence:
        """Return what was collected; columns: of W, that each joint feels."""
        if not self._kept:
            raise InputError("the recording has no row", "record longer")
        *samples, chunks = zip(*self._kept, strict=True)
        t, q, dq, ddq, tau, warmth = (np.concatenate(column) for column in samples)
        W = np.concatenate(chunks, axis=2)
        own = tuple(np.ascontiguousarray(W[felt, j]) for j, felt in enumerate(columns))
        pictured = PicturedRows(self._stride, t, q, dq, ddq, tau, warmth, own)
        return RowEvidence(pictured, None if self._lag is None else self._successive(self._lag, columns))

    def _successive(self, lag: int, columns: Sequence[NDArray[np.intp]]) -> Successive:
        found, count = [], min(self._seen, FIRST)
        for j, felt in enumerate(columns):
            y = np.concatenate([_padded(rows, j, felt) for rows in self._first], axis=1)[:, :count]
            C = np.zeros((LAGS + 1, len(y), len(y)))
            for step in range(LAGS + 1):
                if step * lag < count:
                    C[step] = y[:, step * lag :] @ y[:, : count - step * lag].T
            found.append(C)
        return Successive(lag, count, tuple(found))


def _padded(rows: Rows, j: int, felt: NDArray[np.intp]) -> Array:
    """Return [W_j, tau_j, 1] of a chunk's rows, shape (k_j + 2, m), zero where a row was left out."""
    return np.asarray(np.vstack((rows.W[felt, j], rows.tau[j], np.ones(len(rows.t)))) * rows.keep[j])


def row_evidence(
    robot: Robot,
    base: BaseParameters,
    terms: tuple[FrictionTerm, ...],
    delay: bool,
    columns: tuple[NDArray[np.intp], ...],
    stride: int,
    prepared: Prepared,
    *,
    successive: bool,
) -> RowEvidence:
    """Return the evidence of one recording; successive: whether moments are asked for."""
    collector = RowCollector(stride, lag_of(prepared.filter) if successive else None)
    chunks = row_chunks(robot, prepared, base.columns(robot), delay=delay, terms=terms)
    for window, rows in zip(windows(prepared, rows_of_a_chunk(prepared)), chunks, strict=True):
        collector.take(prepared, window, rows)
    return collector.evidence(columns)


def whiteness(
    names: Sequence[str], successive: Successive, columns: Sequence[NDArray[np.intp]], value: Array
) -> Mapping[str, Whiteness]:
    """Return, for each joint, how its error tau - W value is correlated with itself one to LAGS lags later."""
    out = {}
    for name, C, felt in zip(names, successive.C, columns, strict=True):
        good = float(C[0, -1, -1])
        y = np.concatenate((-value[felt], (1.0, 0.0)))
        y[-1] = -float(y @ C[0, :, -1]) / max(good, 1.0)  # less their mean
        power = float(y @ C[0] @ y)
        reach = float(np.abs(y) @ np.sqrt(np.diag(C[0]))) ** 2
        if power <= ROUNDING * reach or successive.rows <= LAGS * successive.lag:
            out[name] = Whiteness(0.0, 1.0)
            continue
        rho = np.array([float(y @ later @ y) for later in C[1:]]) / power
        free = max(good / successive.lag, 2.0)
        worst = float(rho[np.argmax(np.abs(rho))])
        chance = 1.0 - (1.0 - 2.0 * ndtr(-abs(worst) * np.sqrt(free))) ** len(rho)
        out[name] = Whiteness(worst, float(np.clip(chance, 0.0, 1.0)))
    return out
