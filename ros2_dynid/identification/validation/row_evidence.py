"""What is kept of a recording's rows beside its R factors, for values of the parameters that are found later.

Some rows for pictures, and moments of rows that follow each other, which tell whether errors are random in time. Both
are made in one pass, so that the samples are not needed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.identification.preparation.rows import Rows, Window, row_chunks, rows_of_a_chunk, windows
from ros2_dynid.identification.validation.torque_errors import Whiteness
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

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

    def thinned(self, stride: int) -> PicturedRows:
        """Return every stride-th row of the recording; stride: a multiple of the present one."""
        some = slice(None, None, stride // self.stride)
        arrays = (self.t, self.q, self.dq, self.ddq, self.tau, self.temperature)
        t, q, dq, ddq, tau, warmth = (x[some] for x in arrays)
        return PicturedRows(stride, t, q, dq, ddq, tau, warmth, tuple(own[:, some] for own in self.W))

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
    whole: Prepared,
    parts: Iterable[Prepared],
    successive: bool,
) -> RowEvidence:
    """Return the evidence of one recording, whose samples come in parts; successive: whether moments are asked for."""
    collector = RowCollector(stride, lag_of(whole.filter) if successive else None)
    for part in parts:
        chunks = row_chunks(robot, part, base.columns(robot), delay=delay, terms=terms)
        for window, rows in zip(windows(part, rows_of_a_chunk(part)), chunks, strict=True):
            collector.take(part, window, rows)
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
