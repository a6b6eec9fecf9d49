# SPDX-License-Identifier: Apache-2.0

"""How good a model is: errors of each joint, on data used and not used, whiteness, and against the a priori model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import TorqueData, TorqueError
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.identification.preparation.rows import Rows, Window, row_chunks, row_count, rows_of_a_chunk, windows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, block_folds
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.model.friction import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

Errors = Mapping[str, TorqueError]
"""By joint, and for "all"."""
FOLDS = 5
"""Stretches of a cross-validation that nobody asked for.

Each fit keeps four fifths of the data, so it is close to the model that is judged, and each stretch is long enough (six
of a recording's thirty blocks) to hold motion that the rest has not.
"""
AS_WELL = 1.05
"""Held-out error over that of another model up to which one predicts as well: that is the error's scatter."""


class ValidatedBy(str, Enum):
    """What the held-out errors come from."""

    RECORDINGS = "recordings"
    CROSS_VALIDATION = "cross-validation"
    NOTHING = "nothing"

    def __str__(self) -> str:
        """Return the name that callers use."""
        return self.value


class LeftOut(str, Enum):
    """What the folds of a cross-validation leave out in turn.

    A motion that repeats is left out by parts of its period, from all repetitions alike. Where a method cannot do that,
    the stretches left out have the motion that the rest was fitted to.
    """

    STRETCHES = "stretches"
    PARTS_OF_PERIOD = "parts of the period"
    SAME_MOTION = "stretches of the same motion"

    def __str__(self) -> str:
        """Return the words for it."""
        return self.value


@dataclass(frozen=True)
class HeldOut:
    """Torque errors on data that the estimate was not fitted to, what data, and the number of folds (0: recordings).

    left_out: what a fold is; switched_off: no folds were wanted.
    """

    errors: Errors = field(default_factory=dict)
    by: ValidatedBy = ValidatedBy.NOTHING
    folds: int = 0
    left_out: LeftOut = LeftOut.STRETCHES
    switched_off: bool = False


def torque_errors(names: Sequence[str], information: Information, value: Array) -> Errors:
    """Return the torque errors of a value for each column of W in rows in motion, by joint and for all."""
    information = information.in_motion()
    return error_table(names, joint_errors(information, value), joint_torques(information), information.rows)


def error_table(names: Sequence[str], errors: Array, torques: Array, rows: NDArray[np.integer]) -> Errors:
    """Return the table from the norms of errors and torques of each joint, shape (n,), and their number of rows."""
    table = {
        name: TorqueError(float(e / np.sqrt(max(r, 1))), float(e / max(t, 1e-300)))
        for name, e, t, r in zip(names, errors, torques, rows, strict=True)
    }
    error, torque = float(np.linalg.norm(errors)), float(np.linalg.norm(torques))
    count = max(int(np.sum(rows)), 1)
    table["all"] = TorqueError(float(error / np.sqrt(count)), float(error / max(torque, 1e-300)))
    return table


def folds(information: Information, k: int) -> list[list[int]]:
    """Return the numbers of the blocks of k folds: contiguous stretches with about the same number of rows."""
    most = int(np.count_nonzero(information.block_rows.sum(axis=1)))
    if k < 2 or k > most:
        raise InputError(f"{k} folds", f"choose 2 to {most}")
    return block_folds(information, k)


def cross_validate(
    names: Sequence[str], information: Information, k: int, fit: Callable[[Sequence[int]], Estimate]
) -> Errors:
    """Return the errors on k stretches of time, each predicted by a fit to the others."""
    errors, torques = np.zeros(information.n), np.zeros(information.n)
    moving = information.in_motion()
    for fold in folds(information, k):
        out = set(fold)
        rest = [b for b in range(len(information.blocks)) if b not in out]
        value = fit(rest).value
        left_out = moving.take(fold)
        errors += joint_errors(left_out, value) ** 2
        torques += joint_torques(left_out) ** 2
    return error_table(names, np.sqrt(errors), np.sqrt(torques), moving.rows)


def held_out_in_folds(
    names: Sequence[str], information: Information, k: int | None, fit: Callable[[Sequence[int]], Estimate]
) -> HeldOut:
    """Return the errors of a cross-validation with k folds: 0 for none, None for FOLDS, or none if data are too few."""
    if k == 0:
        return HeldOut(switched_off=True)
    if k is not None:
        return HeldOut(cross_validate(names, information, k, fit), ValidatedBy.CROSS_VALIDATION, k)
    try:
        return HeldOut(cross_validate(names, information, FOLDS, fit), ValidatedBy.CROSS_VALIDATION, FOLDS)
    except InputError:
        return HeldOut()


@dataclass(frozen=True)
class Whiteness:
    """Correlation of a joint's error with itself one filter length later, and how likely chance alone makes it that.

    Neighbouring rows are correlated by the filter itself, so only lags beyond its length say something about the model.
    """

    correlation: float
    probability: float

    @property
    def coloured(self) -> bool:
        """Whether the error is clearly and materially correlated in time."""
        return self.probability < 0.01 and abs(self.correlation) > 0.2


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
