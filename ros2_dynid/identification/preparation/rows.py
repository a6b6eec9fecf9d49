# SPDX-License-Identifier: Apache-2.0

"""The rows of tau = W base: regressor and torque through the same filter, in chunks, so that memory does not grow."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics, regressor_function
from ros2_dynid.dynamics.friction import active_terms, column_and_shape, frictionless, term_column
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.dynamics.standing import contact_shares, joints_without_rows, take_contacts_out
from ros2_dynid.identification.friction_columns import put_signs
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot

CHUNK_ROWS = 200
"""Rows of a chunk for each joint: with six joints 1200, which keep a chunk and its R factor in the cache."""
UNFILTERED_CHUNK_ROWS = 400
"""The same where every sample is a row: no filter has to be fed."""
COMPILED_SAMPLES = 300_000
"""Samples from which on it pays to compile the robot's regressor first; one compiled earlier is always used."""
THREADED_SAMPLES = 50_000
"""Samples from which on several threads make the rows."""
most_threads: ContextVar[int] = ContextVar("most_threads", default=4)
"""How many there may be: a process that shares its machine with others of its kind has one."""
TERM_RATE_FACTOR = 4
"""Friction terms are computed at no less than so many times the inner rate."""
KEPT_BYTES = 64_000_000
"""Rows that are kept while friction laws are tried; those of a longer recording are computed again."""


@dataclass(frozen=True)
class RowThresholds:
    """Which rows are left out, by the share of their filter that lies on certain samples.

    slow_share: at most this much on samples too slow for Coulomb friction, whose size is not known there. still_share:
    from this much on the joint stands still for the row, which then tells gravity. bridged_share: at most this much in
    bridged gaps, where nothing was measured.
    """

    slow_share: float = 0.2
    still_share: float = 0.8
    bridged_share: float = 0.05


_dependence: WeakKeyDictionary[Robot, dict[tuple[int, ...], NDArray[np.bool_]]] = WeakKeyDictionary()
"""The results of `find_dependence`, of robots that are alive."""


@dataclass(frozen=True)
class Rows:
    """A chunk: t (m,), W (b, n, m), tau (n, m), keep (n, m): False where a joint is too slow for its friction.

    still: (n, m), True where it is too slow since it stands still: its friction has any size up to Coulomb's there, and
    the columns of that are zero. None: such rows are not told apart.
    W is kept with samples last: W[:, j].T is what LAPACK wants for joint j. With a delay column, W has b + 1 columns,
    the last one -dtau/dt.
    """

    t: Array
    W: Array
    tau: Array
    keep: NDArray[np.bool_]
    still: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class RowFilter:
    """The second low-pass: taps, shape (inputs, r), are r shifted kernels, `length` taps each, `step` inputs apart."""

    taps: Array
    length: int
    step: int

    def __call__(self, x: Array, m: int) -> Array:
        """Return the first m outputs of x, shape (..., N): one a `step` of inputs, shape (..., m)."""
        flat = x.reshape(-1, x.shape[-1])
        out = np.empty((len(flat), m))
        r = self.taps.shape[1]
        for first in range(0, m, r):
            count = min(r, m - first)
            inputs = (count - 1) * self.step + self.length
            part = flat[:, first * self.step :][:, :inputs]
            np.matmul(part, self.taps[:inputs, :count], out=out[:, first : first + count])
        return out.reshape(*x.shape[:-1], m)

    @property
    def magnitude(self) -> RowFilter:
        """The same with the magnitudes of its taps: what share of an output comes from which inputs."""
        return RowFilter(np.abs(self.taps), self.length, self.step)

    @property
    def total(self) -> float:
        """Sum of one kernel's taps."""
        return float(self.taps[:, 0].sum())


def row_filter(kernel: Array | None, step: int) -> RowFilter | None:
    """Return the filter of that kernel with outputs every `step` inputs; no kernel, no filter.

    As many outputs are made at once as one kernel is long: half of the products with the taps are not with zero then.
    """
    if kernel is None:
        return None
    r = max(8, len(kernel) // step)
    taps = np.zeros(((r - 1) * step + len(kernel), r))
    for k in range(r):
        taps[k * step : k * step + len(kernel), k] = kernel[::-1]
    return RowFilter(taps, len(kernel), step)


def rows_of_a_chunk(prepared: Prepared) -> int:
    """Return how many rows of each joint a chunk of `row_chunks` has at most."""
    return UNFILTERED_CHUNK_ROWS if prepared.kernel is None else CHUNK_ROWS


@dataclass(frozen=True)
class Window:
    """Inner samples `inputs` that make the rows at the inner samples `at`."""

    inputs: slice
    at: NDArray[np.intp]


def windows(prepared: Prepared, n_rows: int) -> Iterator[Window]:
    """Yield the windows that cover the recording with at most n_rows rows each."""
    length = 1 if prepared.kernel is None else len(prepared.kernel)
    for segment in prepared.segments:
        total = (segment.stop - segment.start - length) // prepared.step + 1
        for first in range(0, total, n_rows):
            m = min(n_rows, total - first)
            start = segment.start + first * prepared.step
            at = start + length // 2 + prepared.step * np.arange(m)
            yield Window(slice(start, start + (m - 1) * prepared.step + length), at)


def row_count(prepared: Prepared) -> int:
    """Return the number of rows of one joint before slow ones are left out."""
    return sum(len(w.at) for w in windows(prepared, 1 << 30))


def thin_chunks(prepared: Sequence[Prepared], count: int) -> int:
    """Return `every` for `row_chunks` such that about `count` chunks of the recordings are left, or all if fewer."""
    return max(1, sum(-(-row_count(p) // rows_of_a_chunk(p)) for p in prepared) // count)


def row_chunks(
    robot: Robot,
    prepared: Prepared,
    columns: Sequence[int],
    *,
    delay: bool = False,
    n_rows: int | None = None,
    terms: Sequence[FrictionTerm] = (),
    every: int = 1,
    plain: Sequence[Rows] | None = None,
) -> Iterator[Rows]:
    """Yield the rows chunk by chunk: the regressor's `columns` and the torque, filtered and decimated alike.

    With `delay`, W gets one more column, -dtau/dt, whose parameter is how late the effort was recorded [s]: to first
    order W base = tau(t + delay) = tau + delay dtau/dt. Without a filter there is no slope, and the column is zero.
    terms: friction terms, whose columns come between those of the regressor and of the delay. every: 2 leaves every
    second chunk out, and so on. plain: all chunks without terms, if they were computed before (`tabulate_rows`).
    """
    n_rows = n_rows or rows_of_a_chunk(prepared)
    robot = replace(robot, friction=()) if robot.friction else robot  # which are not in the regressor
    maker = _RowMaker(robot, prepared, tuple(columns), delay, tuple(terms))
    chosen = itertools.islice(windows(prepared, n_rows), 0, None, every)
    if plain is not None:
        yield from map(maker.with_terms, chosen, plain[::every])
    elif len(prepared.t) // every < THREADED_SAMPLES or most_threads.get() < 2:
        yield from map(maker.rows, chosen)
    else:
        yield from in_threads(maker.rows, chosen)


PlainRows = tuple[tuple[Rows, ...] | None, ...]
"""Chunks of each recording's rows without friction terms, which laws that are tried share; None: too many to keep."""


def tabulate_rows(
    robot: Robot, prepared: Sequence[Prepared], columns: Sequence[int], *, delay: bool, most_bytes: int = KEPT_BYTES
) -> PlainRows:
    """Return the rows of recordings without friction terms, as many recordings as `most_bytes` hold."""
    width, room = 8 * (len(columns) + delay) * len(robot.active), most_bytes
    kept: list[tuple[Rows, ...] | None] = []
    for one in prepared:
        size = width * row_count(one)
        kept.append(tuple(row_chunks(robot, one, columns, delay=delay)) if size <= room else None)
        room -= size if size <= room else 0
    return tuple(kept)


class _RowMaker:
    """Makes the rows of windows of one recording; several threads may use it."""

    def __init__(
        self,
        robot: Robot,
        prepared: Prepared,
        columns: tuple[int, ...],
        delay: bool,
        terms: tuple[FrictionTerm, ...],
    ) -> None:
        self._robot, self._prepared, self._columns, self._delay = robot, prepared, columns, delay
        self._terms = terms
        names = standard_names(robot)
        coulomb = [k for k, column in enumerate(columns) if names[column].startswith("Fc")]
        self._coulomb = np.array(coulomb, dtype=np.intp)
        self._columns_of = _TermColumns(robot, prepared, terms)
        self._own = threading.local()  # the compiled regressor's memory is used again with every call
        self._filter = row_filter(prepared.kernel, prepared.step)
        self._slope = row_filter(prepared.slope_kernel, prepared.step) if delay else None
        if self._filter is not None:  # entries that are always zero need no filter
            nonzero = find_dependence(robot, columns).T  # (b, n)
            self._nonzero = np.flatnonzero(nonzero)
            self._entries = (np.array(columns)[:, None] * len(robot.active) + np.arange(len(robot.active)))[nonzero]

    def _regressor(self) -> Callable[[Array, Array, Array], Array]:
        if not hasattr(self._own, "evaluate"):
            samples = len(self._prepared.t)
            self._own.evaluate = regressor_function(self._robot, samples if samples > COMPILED_SAMPLES else 0)
        evaluate: Callable[[Array, Array, Array], Array] = self._own.evaluate
        return evaluate

    def rows(self, window: Window) -> Rows:
        """Return the rows of a window."""
        return self.with_terms(window, self._without_terms(window))

    def with_terms(self, window: Window, rows: Rows) -> Rows:
        """Return rows, which stay as they are, with the columns of the friction terms."""
        if not self._terms:
            return rows
        robot, lowpass, b, f = self._robot, self._filter, len(self._columns), len(self._terms)
        _, n, m = rows.W.shape
        W = np.zeros((b + f + self._delay, n, m))
        W[:b], W[b + f :] = rows.W[:b], rows.W[b:]
        columns = self._columns_of(window.inputs)
        columns = columns if lowpass is None else lowpass(columns, m)
        for i, (k, _) in enumerate(active_terms(robot, self._terms)):
            W[b + i, k] = columns[i]
        if rows.still is not None:
            W[b : b + f, rows.still] = 0.0
        return replace(rows, W=W)

    def _without_terms(self, window: Window) -> Rows:
        robot, prepared, lowpass = self._robot, self._prepared, self._filter
        part, m = window.inputs, len(window.at)
        b, n = len(self._columns), len(robot.active)
        Y = self._regressor()(prepared.q[part], prepared.dq[part], prepared.ddq[part])
        tau = np.ascontiguousarray(prepared.tau[part].T)
        W = np.zeros((b + self._delay, n, m))
        if robot.standing:
            if lowpass is not None:
                put_signs(robot, Y, prepared.q[part], prepared.sign[part])
            shares = contact_shares(robot, prepared.q[part])
            Y, tau = take_contacts_out(shares, Y), take_contacts_out(shares, tau)
        if lowpass is None:
            Y.take(self._columns, axis=0, out=W[:b], mode="clip")  # which needs no copy before
        else:
            if not robot.standing:
                put_signs(robot, Y, prepared.q[part], prepared.sign[part])
            entries = Y.reshape(-1, Y.shape[2])[self._entries]  # the others are zero
            W[:b].reshape(b * n, m)[self._nonzero] = lowpass(entries, m)
        if self._slope is not None:
            W[-1] = -self._slope(tau, m)
        if lowpass is not None:
            tau = lowpass(tau, m)
        keep, still = find_fast_and_still(robot, prepared, window, lowpass)
        for j in np.flatnonzero(still.any(axis=1)):
            W[self._coulomb[:, None], j, np.flatnonzero(still[j])] = 0.0
        return Rows(prepared.t[window.at], W, tau, keep, still)


def in_threads(make: Callable[[Window], Rows], chosen: Iterable[Window]) -> Iterator[Rows]:
    """Yield make(window) in order, made by as many threads as there are processors, a few ahead of the caller."""
    workers = min(most_threads.get(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    waiting: deque[Future[Rows]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for window in chosen:
            waiting.append(pool.submit(make, window))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def find_dependence(robot: Robot, columns: Sequence[int]) -> NDArray[np.bool_]:
    """Return, shape (n, b), where the torque of a joint depends on a column of the regressor at all."""
    stored, key = _dependence.setdefault(robot, {}), tuple(columns)
    if key not in stored:
        rng = np.random.default_rng(0)
        q = random_positions(robot, rng, 64, 2.0)
        dq, ddq = rng.uniform(-2.0, 2.0, (2, *q.shape))
        Y = regressor(robot, q, dq, ddq)[:, :, list(columns)]
        if robot.standing:
            Y = take_contacts_out(contact_shares(robot, q, bent=False), Y.transpose(2, 1, 0)).transpose(2, 1, 0)
        Y = np.abs(Y)
        stored[key] = np.asarray(Y.max(axis=0) > 1e-12 * Y.max())
        stored[key][list(joints_without_rows(robot))] = False
    return stored[key].copy()


class _TermColumns:
    """The columns of friction terms, each through the filter of the torque, at the inner rate.

    Friction changes within a few samples of a reversal, faster than the inner rate can tell: the terms are computed at
    a finer rate, on speeds interpolated between inner samples, and pass the same low-pass as the torque there.
    """

    def __init__(self, robot: Robot, prepared: Prepared, terms: Sequence[FrictionTerm]) -> None:
        filters = prepared.filter
        self._prepared, self._terms = prepared, active_terms(robot, terms)
        self._step = max(TERM_RATE_FACTOR, round(filters.rate / filters.inner_rate))
        cutoff, rate = filters.position_cutoff, filters.inner_rate * self._step
        kernel = None if cutoff is None else lowpass_kernel(cutoff, rate)
        self._half = 0 if kernel is None else len(kernel) // 2
        self._filter = row_filter(kernel, self._step)

    def __call__(self, part: slice) -> Array:
        """Return the columns, shape (f, samples), at the inner samples `part`, which are of one segment."""
        prepared, count = self._prepared, part.stop - part.start
        if self._filter is None:
            return self._columns(lambda signal, k: signal[part, k])
        segment = next(s for s in prepared.segments if s.start <= part.start < s.stop)
        places = part.start + np.arange(-self._half, (count - 1) * self._step + self._half + 1) / self._step
        places = np.clip(places, segment.start, segment.stop - 1)
        before = np.minimum(places.astype(np.intp), segment.stop - 2)
        share, after = places - before, before + 1

        def between(signal: Array, k: int) -> Array:
            own = np.ascontiguousarray(signal[:, k])
            here = own[before]
            return np.asarray(here + share * (own[after] - here))

        return self._filter(self._columns(between), count)

    def _columns(self, value: Callable[[Array, int], Array]) -> Array:
        """Return the factors of the terms' coefficients; value: from a signal (N, n) and a joint to what is needed."""
        prepared = self._prepared
        columns: list[Array] = []
        for joint, own in itertools.groupby(self._terms, key=lambda one: one[0]):
            v = value(prepared.dq, joint)
            sign = np.sign(v)
            gear_torque = np.zeros_like(v) if prepared.gear_torque is None else value(prepared.gear_torque, joint)
            temperature = None if prepared.temperature is None else value(prepared.temperature, joint)
            slopes: dict[FrictionTerm, Array] = {}  # of shapes, whose columns follow those of their terms
            for _, term in own:
                if term.of_shape and replace(term, of_shape=False) in slopes:
                    columns.append(slopes[replace(term, of_shape=False)])
                elif term.of_shape or term.kind.shape is None:
                    columns.append(term_column(term, v, sign, gear_torque, temperature))
                else:
                    column, slopes[term] = column_and_shape(term, v, sign, gear_torque, temperature)
                    columns.append(column)
        return np.array(columns)


def find_fast_and_still(
    robot: Robot,
    prepared: Prepared,
    window: Window,
    lowpass: RowFilter | None,
    thresholds: RowThresholds | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return keep, shape (n, m): False where joint j, or a motor that couples into it, is slow within the row's filter.

    And still, of the same shape: True where both are slow nearly all over it. Both are False near a bridged gap.
    Friction near standstill is no sign times a constant, and the filter spreads what happens there over its length: a
    row is left out if slow samples make up too much of its kernel. Efforts without Fc are kept.
    """
    keep, still = _find_fast_and_still(robot, prepared, window, lowpass, thresholds or RowThresholds())
    spent = list(joints_without_rows(robot))
    if any(spent):
        keep[spent] = still[spent] = False
    return keep, still


def _find_fast_and_still(
    robot: Robot, prepared: Prepared, window: Window, lowpass: RowFilter | None, limits: RowThresholds
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    slow, m = prepared.filter.slow, len(window.at)
    whole = np.ones(m, dtype=bool)
    share = None if lowpass is None else lowpass.magnitude
    bridged = prepared.bridged[window.inputs]
    if share is not None and bridged.any():
        whole = share(bridged, m) <= limits.bridged_share * share.total
    dq = prepared.dq[window.at if share is None else window.inputs].T
    if slow == 0.0:
        return np.tile(whole, (len(dq), 1)), np.zeros((len(dq), m), dtype=bool)
    crawling = np.abs(dq) <= slow * prepared.top_speed[:, None]
    crawling[["Fc" not in robot.joints[joint - 1].measured_drive for joint in robot.active]] = False
    resting = crawling.copy()
    column = {joint: k for k, joint in enumerate(robot.active)}
    for coupling in robot.coupling:
        members = [column[j] for j in coupling.weights if j in column]
        speed = sum(c * dq[column[j]] for j, c in coupling.weights.items() if j in column)
        motor = np.abs(speed) <= slow * max(prepared.top_speed[k] for k in members)
        crawling[members] |= motor
        resting[members] &= motor
    if share is None:
        return ~crawling, resting
    keep = whole & (share(crawling.astype(float), m) <= limits.slow_share * share.total)
    if not resting.any():
        return np.asarray(keep), np.zeros_like(keep)
    return np.asarray(keep), np.asarray(whole & (share(resting.astype(float), m) > limits.still_share * share.total))


def with_gear_torque(robot: Robot, base: BaseParameters, value: Array, prepared: Prepared) -> Prepared:
    """Return the recording with the torque without friction of base parameters `value`, shape (b,)."""
    chi = np.zeros(len(standard_names(robot)))
    chi[base.columns(robot)] = value
    gear_torque = fast_inverse_dynamics(*frictionless(robot, chi), prepared.q, prepared.dq, prepared.ddq)
    return replace(prepared, gear_torque=gear_torque)
