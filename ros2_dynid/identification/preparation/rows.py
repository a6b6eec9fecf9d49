"""The rows of tau = W base: regressor and torque through the same filter, in chunks, so that memory does not grow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.codegen.backend import regressor_function
from ros2_dynid.dynamics.friction_terms import active_terms, term_column
from ros2_dynid.identification.friction.columns import put_signs
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

ROWS = 200
"""Rows of a chunk for each joint: with six joints 1200, which keep a chunk and its R factor in the cache."""
UNFILTERED_ROWS = 1200
"""The same where every sample is a row: no filter has to be fed."""
WORTH_BUILDING = 300_000
"""Samples from which on it pays to compile the robot's regressor first; one compiled earlier is always used."""
SLOW_SHARE = 0.2
"""Share of a row's filter that may lie on samples too slow for Coulomb friction."""
BRIDGED_SHARE = 0.05
"""Share of a row's filter that may lie in bridged gaps."""


@dataclass(frozen=True)
class Rows:
    """A chunk: t (m,), W (b, n, m), tau (n, m), keep (n, m): False where a joint is too slow for its friction.

    W is kept with samples last: W[:, j].T is what LAPACK wants for joint j. With a delay column, W has b + 1 columns,
    the last one -dtau/dt.
    """

    t: Array
    W: Array
    tau: Array
    keep: NDArray[np.bool_]


def toeplitz(kernel: Array | None, step: int, n_rows: int) -> Array | None:
    """Return T, shape (n_inputs, n_rows): x @ T is the kernel's output at every `step`-th input."""
    if kernel is None:
        return None
    T = np.zeros(((n_rows - 1) * step + len(kernel), n_rows))
    for k in range(n_rows):
        T[k * step : k * step + len(kernel), k] = kernel[::-1]
    return T


def rows_of_a_chunk(prepared: Prepared) -> int:
    """Return how many rows of each joint a chunk of `row_chunks` has at most."""
    return UNFILTERED_ROWS if prepared.kernel is None else ROWS


@dataclass(frozen=True)
class Window:
    """Inner samples `inputs` that make the rows at the inner samples `at`, and the segment they are of."""

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


def row_times(prepared: Prepared) -> Array:
    """Return the times [s] of all rows, shape (N_rows,)."""
    return np.concatenate([prepared.t[w.at] for w in windows(prepared, 1 << 30)] or [np.empty(0)])


def row_count(prepared: Prepared) -> int:
    """Return the number of rows of one joint before slow ones are left out."""
    return sum(len(w.at) for w in windows(prepared, 1 << 30))


def row_chunks(
    robot: Robot,
    prepared: Prepared,
    columns: Sequence[int],
    *,
    delay: bool = False,
    n_rows: int | None = None,
    terms: Sequence[FrictionTerm] = (),
    every: int = 1,
    first: int = 0,
) -> Iterator[Rows]:
    """Yield the rows chunk by chunk: the regressor's `columns` and the torque, filtered and decimated alike.

    With `delay`, W gets one more column, -dtau/dt, whose parameter is how late the effort was recorded [s]: to first
    order W base = tau(t + delay) = tau + delay dtau/dt. Without a filter there is no slope, and the column is zero.
    terms: friction terms, whose columns come between those of the regressor and of the delay. every: 2 leaves every
    second chunk out, and so on; first: chunks left out before that.
    """
    n_rows = n_rows or rows_of_a_chunk(prepared)
    robot = replace(robot, friction=()) if robot.friction else robot  # which are not in the regressor
    evaluate = regressor_function(robot, len(prepared.t) if len(prepared.t) > WORTH_BUILDING else 0)
    T = toeplitz(prepared.kernel, prepared.step, n_rows)
    slope = toeplitz(prepared.slope_kernel, prepared.step, n_rows) if delay else None
    b, n = len(columns), len(robot.active)
    for window in itertools.islice(windows(prepared, n_rows), first, None, every):
        part, m = window.inputs, len(window.at)
        Y = evaluate(prepared.q[part], prepared.dq[part], prepared.ddq[part])
        if T is not None:
            put_signs(robot, Y, prepared.sign[part])
        W = Y[list(columns)]
        tau = np.ascontiguousarray(prepared.tau[part].T)
        if T is not None:
            used = T[: W.shape[2], :m]
            parts = [(W.reshape(b * n, -1) @ used).reshape(b, n, m)]
        else:
            used, parts = None, [W]
        if terms:
            parts.append(_term_rows(robot, prepared, part, terms, used))
        if delay:
            slopes = np.zeros((n, m)) if slope is None else -(tau @ slope[: tau.shape[1], :m])
            parts.append(slopes[None])
        W = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if used is not None:
            tau = tau @ used
        yield Rows(prepared.t[window.at], W, tau, fast_enough(robot, prepared, window, T))


def _term_rows(
    robot: Robot, prepared: Prepared, part: slice, terms: Sequence[FrictionTerm], used: Array | None
) -> Array:
    """Return the columns of friction terms, shape (f, n, m), through the rows' filter: zero but for their own joint."""
    columns = []
    for k, term in active_terms(robot, terms):
        v, sign = prepared.dq[part, k], prepared.sign[part, term.joint - 1]
        carried = np.zeros_like(v) if prepared.carried is None else prepared.carried[part, k]
        columns.append(term_column(term.kind, term.speed, v, sign, carried))
    X = np.array(columns) if used is None else np.array(columns) @ used
    W = np.zeros((len(terms), len(robot.active), X.shape[1]))
    for i, (k, _) in enumerate(active_terms(robot, terms)):
        W[i, k] = X[i]
    return W


def fast_enough(robot: Robot, prepared: Prepared, window: Window, T: Array | None) -> NDArray[np.bool_]:
    """Return keep, shape (n, m): False where joint j, or a motor that couples into it, is slow within the row's filter.

    False for all joints near a bridged gap.
    Friction near standstill is no sign times a constant, and the filter spreads what happens there over its length: a
    row is left out if slow samples make up more than SLOW_SHARE of its kernel.
    """
    slow, whole = prepared.filter.slow, np.ones(len(window.at), dtype=bool)
    bridged = prepared.bridged[window.inputs]
    if T is not None and bridged.any():
        kernel = np.abs(T[: len(bridged), : len(window.at)])
        whole = bridged @ kernel <= BRIDGED_SHARE * np.abs(T[:, 0]).sum()
    dq = prepared.dq[window.inputs if T is not None else window.at].T
    if slow == 0.0:
        return np.tile(whole, (len(dq), 1))
    crawling = np.abs(dq) <= slow * prepared.top_speed[:, None]
    column = {joint: k for k, joint in enumerate(robot.active)}
    for coupling in robot.coupling:
        members = [column[j] for j in coupling.weights if j in column]
        speed = sum(c * dq[column[j]] for j, c in coupling.weights.items() if j in column)
        crawling[members] |= np.abs(speed) <= slow * max(prepared.top_speed[k] for k in members)
    if T is None:
        return ~crawling
    kernel = np.abs(T[:, : len(window.at)])
    return np.asarray(whole & (crawling @ kernel[: crawling.shape[1]] <= SLOW_SHARE * kernel[:, 0].sum()))
