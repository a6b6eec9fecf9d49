"""All estimators behind one door: each becomes a function from blocks of time to an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.energy import energy_rows
from ros2_dynid.identification.estimators.information import Information, combine, gather
from ros2_dynid.identification.estimators.instrumental import cross_moments, iv, joined
from ros2_dynid.identification.estimators.least_squares import (
    Estimate,
    check_rows,
    error_levels,
    finish,
    ols,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.identification.estimators.recursive import recursive
from ros2_dynid.identification.estimators.robust import irls, reweighted
from ros2_dynid.identification.estimators.sequential import sequential
from ros2_dynid.identification.estimators.total_least_squares import disturbed, tls
from ros2_dynid.identification.preparation.prepared import Prepared, as_prepared
from ros2_dynid.identification.preparation.rows import Rows, row_chunks, row_count
from ros2_dynid.model.robot import Array, Robot

Fit = Callable[[Sequence[int] | None], Estimate]
"""From the numbers of the blocks to use, None for all, to the estimate."""
OnChunk = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be identified: prepared recordings of a robot, the information in their rows, and a priori values.

    The last column of the information is the delay of the effort; prior has b + 1 values. halves(k) prepares the
    recordings from every second position sample.
    """

    robot: Robot
    base: BaseParameters
    prepared: tuple[Prepared, ...]
    information: Information
    prior: Array
    halves: Callable[[int], list[Prepared]] | None = None

    def rows(self, prepared: Prepared) -> Iterator[Rows]:
        """Yield the rows of one recording, with the delay's column."""
        return row_chunks(self.robot, prepared, self.base.columns(self.robot), delay=True)


def felt_by(robot: Robot, base: BaseParameters) -> NDArray[np.bool_]:
    """Return felt, shape (n, b): True where the torque of a joint depends on a base parameter at all."""
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 64, len(robot.active)))
    Y = np.abs(regressor(robot, q, dq, ddq)[:, :, base.columns(robot)])
    return np.asarray(Y.max(axis=0) > 1e-12 * Y.max())


def inform(
    robot: Robot, base: BaseParameters, prepared: Sequence[Prepared], on_chunk: OnChunk | None = None
) -> Information:
    """Return what prepared recordings say about the base parameters and the delay of the effort."""
    columns = base.columns(robot)
    felt = np.column_stack((felt_by(robot, base), np.ones(len(robot.active), dtype=bool)))
    return combine(
        [
            gather(
                row_chunks(robot, p, columns, delay=True), felt, row_count(p), on_chunk=_within(on_chunk, k, prepared)
            )
            for k, p in enumerate(prepared)
        ]
    )


def fitter(method: Method, problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return the estimator of that name for the problem; what it needs of the rows is computed once, here."""
    information, prior = problem.information, problem.prior

    def taken(source: Information, chosen: Sequence[int] | None) -> Information:
        return source if chosen is None else source.take(chosen)

    simple = {
        Method.OLS: ols,
        Method.WLS: wls,
        Method.RECURSIVE: recursive,
        Method.SEQUENTIAL: sequential,
    }
    if method in simple:
        return lambda chosen: simple[method](taken(information, chosen), prior)
    if method is Method.IRLS:
        robust, slopes, weights = _reweighted(problem, on_chunk)
        return lambda chosen: irls(taken(robust, chosen), taken(slopes, chosen), weights, prior)
    if method is Method.TLS:
        noise = _differences(problem, on_chunk)
        return lambda chosen: tls(taken(information, chosen), taken(noise, chosen), prior)
    if method is Method.ENERGY:
        powers = _powers(problem, on_chunk)

        def by_energy(chosen: Sequence[int] | None) -> Estimate:
            part, unit = taken(powers, chosen), np.ones(1)
            check_rows(part)
            # one equation a row: a block holds much of what is known
            found = finish(part, solve(weighted_triangle(part, unit), prior), unit, "energy", half=True)
            sigma = error_levels(taken(information, chosen), found.value, np.ones(information.n))
            return replace(found, sigma=sigma)

        return by_energy
    if method is Method.IV:
        return _instrumental(problem)
    raise InputError(f"unknown method {method!r}", f"choose from {', '.join(map(str, Method))}")


def _reweighted(problem: Problem, on_chunk: OnChunk | None) -> tuple[Information, Information, Array]:
    def chunks() -> Iterable[Rows]:
        for prepared in problem.prepared:
            yield from problem.rows(prepared)

    felt = _felt(problem.information)

    def regather(weight: Callable[[Rows], Array]) -> Information:
        return combine(
            [gather(problem.rows(p), felt, row_count(p), weight=weight, on_chunk=on_chunk) for p in problem.prepared]
        )

    return reweighted(problem.information, chunks, regather, problem.prior)


def _differences(problem: Problem, on_chunk: OnChunk | None) -> Information:
    """Return the information of W with the encoders' noise added less W without."""

    def rows(prepared: Prepared, seed: int) -> Iterator[Rows]:
        noisy = problem.rows(disturbed(prepared, seed))
        for clean, more in zip(problem.rows(prepared), noisy, strict=True):
            yield Rows(clean.t, more.W - clean.W, np.zeros_like(clean.tau), clean.keep)

    felt = _felt(problem.information)
    return combine([gather(rows(p, k), felt, row_count(p), on_chunk=on_chunk) for k, p in enumerate(problem.prepared)])


def _powers(problem: Problem, on_chunk: OnChunk | None) -> Information:
    columns = problem.base.columns(problem.robot)
    felt = np.ones((1, len(columns) + 1), dtype=bool)
    return combine(
        [
            gather(energy_rows(problem.robot, p, columns, delay=True), felt, row_count(p), on_chunk=on_chunk)
            for p in problem.prepared
        ]
    )


def _instrumental(problem: Problem) -> Fit:
    if problem.halves is None:
        raise InputError("instrumental variables need positions as recorded", "give a recording, not filtered arrays")
    weights = 1.0 / wls(problem.information, problem.prior).sigma
    even, odd = problem.halves(0), problem.halves(1)
    moments = joined(
        [cross_moments(problem.rows(e), problem.rows(o), weights, row_count(e)) for e, o in zip(even, odd, strict=True)]
    )

    def by_instruments(chosen: Sequence[int] | None) -> Estimate:
        blocks = None if chosen is None else np.asarray(chosen, dtype=np.intp)
        return iv(problem.information, moments, weights, blocks)

    return by_instruments


def _felt(information: Information) -> NDArray[np.bool_]:
    felt = np.zeros((information.n, information.size), dtype=bool)
    for j, columns in enumerate(information.columns):
        felt[j, columns] = True
    return felt


def _within(on_chunk: OnChunk | None, k: int, all_of: Sequence[object]) -> OnChunk | None:
    return None if on_chunk is None else lambda fraction: on_chunk((k + fraction) / len(all_of))


def identify_arrays(
    robot: Robot, q: Array, dq: Array, ddq: Array, tau: Array, *, base: BaseParameters | None = None
) -> tuple[BaseParameters, Estimate]:
    """Return the base parameters and their weighted least-squares estimate from motion as it is, (N, n_active) each.

    No filter and no delay: for data that are smooth already, such as simulated or prepared ones.
    """
    base = base or base_parameters(robot, method="closed-form")
    prepared = as_prepared(robot, q, dq, ddq, tau)
    chunks = row_chunks(robot, prepared, base.columns(robot))
    return base, wls(gather(chunks, felt_by(robot, base), row_count(prepared)))
