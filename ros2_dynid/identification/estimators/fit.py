"""All estimators with one signature: each becomes a function from blocks of time to an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.dynamics.friction_terms import active_terms
from ros2_dynid.errors import InputError, Option, RankError, Text
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.didim import didim, output_error, refuse_other_motion, refuse_unknown_loop
from ros2_dynid.identification.estimators.energy_rows import energy_rows
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.estimators.friction_selection import Trial
from ros2_dynid.identification.estimators.idim_iv import idim_iv
from ros2_dynid.identification.estimators.information import (
    Information,
    block_length,
    combine,
    different_motion,
    gather,
    restrict,
)
from ros2_dynid.identification.estimators.instrumental import CrossMoments, cross_moments, iv, joined_moments
from ros2_dynid.identification.estimators.instruments import instrument_motion, refuse_shared_noise
from ros2_dynid.identification.estimators.least_squares import (
    check_rows,
    error_levels,
    finish,
    ols,
    solve,
    weighted_triangle,
    wls,
)
from ros2_dynid.identification.estimators.recursive import recursive
from ros2_dynid.identification.estimators.robust import NumberedRows, irls, reweighted
from ros2_dynid.identification.estimators.sequential import sequential
from ros2_dynid.identification.estimators.simulated_loop import (
    model_of_estimate,
    simulated,
    simulated_instruments,
)
from ros2_dynid.identification.estimators.standstill import with_standstill
from ros2_dynid.identification.estimators.total_least_squares import disturbed, tls
from ros2_dynid.identification.estimators.two_sensors import TwoSensors
from ros2_dynid.identification.friction.dissipation import RecordedRange, dissipation_rows
from ros2_dynid.identification.friction.laws import top_speeds
from ros2_dynid.identification.preparation.elsewhere import over, range_of
from ros2_dynid.identification.preparation.prepared import Prepared, as_prepared
from ros2_dynid.identification.preparation.repetition import repetition
from ros2_dynid.identification.preparation.rows import (
    RowMemory,
    Rows,
    Window,
    felt_by,
    row_chunks,
    row_count,
    rows_of_a_chunk,
    windows,
)
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.tracking_loop import JointController

FROM_TRIANGLES = (Method.OLS, Method.WLS, Method.RECURSIVE, Method.SEQUENTIAL)
"""Methods that need no more of the rows than their R factors, in whatever blocks these are."""
Fit = Callable[[Sequence[int] | None], Estimate]
"""From the numbers of the blocks to use, None for all, to the estimate."""
OnChunk = Callable[[float], None]
Watch = Callable[[Prepared, Window, Rows], None]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be identified: prepared recordings of a robot, the information in their rows, and a priori values.

    prior: a value for each column of the information's layout: base parameters and delay of the effort. terms:
    friction terms whose columns follow the base's; tried: how they were chosen. controller: the robot's own, None if it
    is not known. second: the rows of two efforts of the joints, if there are two.
    """

    robot: Robot
    base: BaseParameters
    prepared: tuple[Prepared, ...]
    information: Information
    prior: Array
    terms: tuple[FrictionTerm, ...] = ()
    tried: tuple[Trial, ...] = ()
    controller: JointController | None = None
    second: TwoSensors | None = None

    @property
    def repeats(self) -> bool:
        """Whether a motion repeats itself, so that blocks of time hold what others hold too."""
        return bool(self.information.phases)

    @cached_property
    def friction_rows(self) -> Array:
        """Rows g of which friction that brakes makes g . value >= 0 (friction/dissipation.py), shape (m, size)."""
        recorded = RecordedRange(
            top_speeds([p.top_speed for p in self.prepared]), range_of([p.temperatures for p in self.prepared])
        )
        return dissipation_rows(self.robot, self.base.leaders, self.terms, recorded, self.information.size)

    def to_test(self, method: Method) -> Problem:
        """Return the same in blocks to leave out in turn: none has the motion of another, if the method allows that."""
        if method not in FROM_TRIANGLES or not self.repeats:
            return self
        return replace(self, information=different_motion(self.information))

    def plain(self) -> Problem:
        """Return the same without friction terms: their columns are left out."""
        layout = self.information.layout
        if not self.terms:
            return self
        kept = [k for k in range(layout.size) if not layout.friction.start <= k < layout.friction.stop]
        information = restrict(self.information, kept, replace(layout, n_friction=0))
        return replace(self, information=information, prior=self.prior[kept], terms=(), second=None)

    def rows(self, prepared: Prepared) -> Iterator[Rows]:
        """Yield the rows of one recording, with the delay's column if the delay is estimated."""
        delay = bool(self.information.layout.n_delay)
        return row_chunks(self.robot, prepared, self.base.columns(self.robot), delay=delay, terms=self.terms)

    def gathered(
        self,
        rows: Callable[[Prepared], Iterable[Rows]],
        *,
        weight: Callable[[Rows], Array] | None = None,
        on_chunk: OnChunk | None = None,
    ) -> Information:
        """Return the information of all recordings from other rows of theirs, in the same blocks."""
        layout, felt = self.information.layout, _felt(self.information)
        return combine(
            [
                gather(rows(p), felt, row_count(p), layout, weight=weight, on_chunk=on_chunk, period=repetition(p))
                for p in self.prepared
            ]
        )


def inform(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    on_chunk: OnChunk | None = None,
    *,
    delay: bool = True,
    terms: Sequence[FrictionTerm] = (),
    every: int = 1,
    memory: RowMemory | None = None,
) -> Information:
    """Return what prepared recordings say about base parameters, friction terms and, with `delay`, the effort's delay.

    every: 2 takes every second chunk of rows only, and so on. memory: of the same recordings, with other terms.
    """
    one = informing(robot, base, delay=delay, terms=terms, every=every)
    if prepared and prepared[0].elsewhere is not None:
        return with_standstill(combine(over(one, prepared)))
    found = [one(p, (p,), _within(on_chunk, k, len(prepared)), memory=memory) for k, p in enumerate(prepared)]
    return with_standstill(combine(found))


def informing(
    robot: Robot, base: BaseParameters, *, delay: bool = True, terms: Sequence[FrictionTerm] = (), every: int = 1
) -> Callable[..., Information]:
    """Return `informed` for the columns asked for: a function of one recording, whole and in parts."""
    layout = ColumnLayout(len(base), n_delay=int(delay), n_friction=len(terms))
    felt = np.ones((len(robot.active), layout.size), dtype=bool)
    felt[:, layout.base] = felt_by(robot, base.columns(robot))
    felt[:, layout.friction] = np.array([[k == j for j, _ in active_terms(robot, terms)] for k in range(len(felt))])
    return partial(informed, robot, base, felt, layout, tuple(terms), every)


def informed(
    robot: Robot,
    base: BaseParameters,
    felt: NDArray[np.bool_],
    layout: ColumnLayout,
    terms: Sequence[FrictionTerm],
    every: int,
    whole: Prepared,
    parts: Iterable[Prepared],
    on_chunk: OnChunk | None = None,
    watch: Watch | None = None,
    memory: RowMemory | None = None,
) -> Information:
    """Return what one recording says; its samples come in parts, one after the other in time.

    watch: sees all rows as they pass; not with `every`. memory: of rows with other terms.
    """
    columns, delay = base.columns(robot), bool(layout.n_delay)

    def rows() -> Iterator[Rows]:
        before = 0
        for part in parts:
            first = -before % every
            chunks = row_chunks(robot, part, columns, delay=delay, terms=terms, every=every, first=first, memory=memory)
            if watch is None:
                yield from chunks
            else:
                for window, chunk in zip(windows(part, rows_of_a_chunk(part)), chunks, strict=True):
                    watch(part, window, chunk)
                    yield chunk
            if every > 1:
                before += sum(1 for _ in windows(part, rows_of_a_chunk(part)))

    period = repetition(whole) if every == 1 else None
    return gather(rows(), felt, -(-row_count(whole) // every), layout, on_chunk=on_chunk, period=period)


def fitter(method: Method, problem: Problem, on_chunk: OnChunk | None = None, *, bars: bool = True) -> Fit:
    """Return the estimator of that name for the problem; what it needs of the rows is computed once, here.

    bars: whether error bars are asked for; without, an estimator may leave them out, as wls does.
    """
    information, prior = problem.information, problem.prior
    if problem.second is not None:
        if method is not Method.WLS:
            what = "efforts at the motors and torques at the links are fitted together by wls only"
            raise InputError(
                what, Text("choose ", Option("method", "wls"), ", or leave one of them out of the recording")
            )
        return problem.second.fit

    simple: dict[Method, Callable[..., Estimate]] = {
        Method.OLS: ols,
        Method.WLS: partial(wls, bars=bars),
        Method.RECURSIVE: recursive,
        Method.SEQUENTIAL: sequential,
    }
    if method in simple:
        return lambda chosen: simple[method](_taken(information, chosen), prior)
    if method is Method.IRLS:
        return lambda chosen: irls(*_reweighted(problem, on_chunk, chosen), prior)
    if method is Method.TLS:
        noise = _differences(problem, on_chunk)
        return lambda chosen: tls(_taken(information, chosen), _taken(noise, chosen), prior)
    if method is Method.ENERGY:
        return _by_energy(problem, on_chunk)
    if method is Method.IV:
        return _by_instruments(problem)
    if method is Method.IDIM_IV:
        return _by_simulated_instruments(problem)
    if method is Method.DIDIM:
        return _by_output_error(problem)
    raise InputError(f"unknown method {method!r}", f"choose from {', '.join(map(str, Method))}")


def _reweighted(
    problem: Problem, on_chunk: OnChunk | None, chosen: Sequence[int] | None
) -> tuple[Information, Information, Array]:
    def numbered() -> Iterator[NumberedRows]:
        offset = 0
        for prepared in problem.prepared:
            n_rows = row_count(prepared)
            length, at = block_length(n_rows), 0
            for rows in problem.rows(prepared):
                yield offset + np.arange(at, at + len(rows.t)) // length, rows
                at += len(rows.t)
            offset += -(-n_rows // length)

    def regather(weight: Callable[[Rows], Array]) -> Information:
        return problem.gathered(problem.rows, weight=weight, on_chunk=on_chunk)

    return reweighted(problem.information, numbered, regather, problem.prior, chosen)


def _differences(problem: Problem, on_chunk: OnChunk | None) -> Information:
    """Return the information of W with the encoders' noise added less W without."""
    seeds = {id(prepared): k for k, prepared in enumerate(problem.prepared)}

    def rows(prepared: Prepared) -> Iterator[Rows]:
        noisy = problem.rows(disturbed(prepared, seeds[id(prepared)]))
        for clean, more in zip(problem.rows(prepared), noisy, strict=True):
            yield Rows(clean.t, more.W - clean.W, np.zeros_like(clean.tau), clean.keep)

    return problem.gathered(rows, on_chunk=on_chunk)


def _by_energy(problem: Problem, on_chunk: OnChunk | None) -> Fit:
    """Return the fit of the power balance, whose rows have one equation for all joints."""
    columns, layout = problem.base.columns(problem.robot), problem.information.layout
    delay, felt = bool(layout.n_delay), np.ones((1, layout.size), dtype=bool)
    powers = combine(
        [
            gather(energy_rows(problem.robot, p, columns, delay=delay), felt, row_count(p), layout, on_chunk=on_chunk)
            for p in problem.prepared
        ]
    )

    def fit(chosen: Sequence[int] | None) -> Estimate:
        part, unit = _taken(powers, chosen), np.ones(1)
        check_rows(part)
        # one equation a row: a block holds much of what is known
        solution = solve(weighted_triangle(part, unit).R, problem.prior)
        found = finish(part, solution, unit, Method.ENERGY, half=True)
        information = _taken(problem.information, chosen)
        return replace(found, sigma=error_levels(information, found.value, np.ones(information.n)))

    return fit


def _by_instruments(problem: Problem) -> Fit:
    for prepared in problem.prepared:
        refuse_shared_noise(prepared, problem.robot.active_names)
    together = _moments(problem, lambda prepared: problem.rows(instrument_motion(problem.robot, prepared)))
    return lambda chosen: iv(problem.information, together, problem.prior, chosen)


def _moments(problem: Problem, instruments: Callable[[Prepared], Iterable[Rows]]) -> CrossMoments:
    """Return the moments of all recordings; instruments: from a recording to the rows of its instruments."""
    moments = []
    for k, prepared in enumerate(problem.prepared):
        starts = np.array([block.start for block in problem.information.blocks if block.recording == k])
        rows = instruments(prepared), problem.rows(prepared)
        moments.append(cross_moments(*rows, starts, repetition(prepared)))
    return joined_moments(moments)


def _by_simulated_instruments(problem: Problem) -> Fit:
    simulation = _Simulation(problem)

    def instruments(found: Estimate) -> CrossMoments:
        simulation.run(found)
        return _moments(problem, simulation.instruments)

    whole, moments = idim_iv(problem.information, _start(problem), instruments, problem.prior)

    def fit(chosen: Sequence[int] | None) -> Estimate:
        if chosen is None:
            return whole
        return replace(iv(problem.information, moments, problem.prior, chosen), method=Method.IDIM_IV)

    return fit


def _by_output_error(problem: Problem) -> Fit:
    for prepared in problem.prepared:
        refuse_unknown_loop(problem.robot, prepared, problem.controller, problem.terms)
    simulation = _Simulation(problem)

    def rows(prepared: Prepared) -> Iterator[Rows]:
        for ours, theirs in zip(simulation.rows(prepared), problem.rows(prepared), strict=True):
            yield replace(ours, tau=theirs.tau)

    def on_simulated_rows(found: Estimate) -> Information:
        simulation.run(found)
        return problem.gathered(rows)

    whole, information = didim(_start(problem), on_simulated_rows, problem.prior)
    for prepared in problem.prepared:
        refuse_other_motion(prepared, simulation.motion(prepared), problem.robot.active_names)
    return lambda chosen: whole if chosen is None else output_error(information.take(chosen), problem.prior)


def _start(problem: Problem) -> Estimate:
    """Return the first model to simulate: the one of plain instruments, which noise does not bias, if they suffice."""
    try:
        return _by_instruments(problem)(None)
    except RankError:
        return wls(problem.information, problem.prior)


class _Simulation:
    """The recordings as the model of an estimate moves in closed loop, and their rows.

    Which rows are too slow is settled by the first simulation: else rows that come and go would keep estimates moving.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._motions: dict[int, Prepared] = {}
        self._keep: dict[int, list[NDArray[np.bool_]]] = {}

    def run(self, found: Estimate) -> None:
        """Simulate all recordings with the model of an estimate."""
        problem = self._problem
        robot, chi = model_of_estimate(problem.robot, problem.base, problem.terms, found)
        for prepared in problem.prepared:
            self._motions[id(prepared)] = simulated(robot, chi, prepared, problem.controller)

    def motion(self, prepared: Prepared) -> Prepared:
        """Return a recording as it was last simulated."""
        return self._motions[id(prepared)]

    def instruments(self, prepared: Prepared) -> Iterator[Rows]:
        """Yield the rows of its simulated motion, as instruments."""
        problem = self._problem
        return self._kept(prepared, simulated_instruments(problem.robot, prepared, self.motion(prepared)))

    def rows(self, prepared: Prepared) -> Iterator[Rows]:
        """Yield the rows of its simulated motion."""
        return self._kept(prepared, self.motion(prepared))

    def _kept(self, prepared: Prepared, motion: Prepared) -> Iterator[Rows]:
        rows = self._problem.rows(motion)
        if id(prepared) not in self._keep:
            chunks = list(rows)
            self._keep[id(prepared)] = [chunk.keep for chunk in chunks]
            yield from chunks
        else:
            for chunk, keep in zip(rows, self._keep[id(prepared)], strict=True):
                yield replace(chunk, keep=keep)


def _taken(information: Information, chosen: Sequence[int] | None) -> Information:
    return information if chosen is None else information.take(chosen)


def _felt(information: Information) -> NDArray[np.bool_]:
    felt = np.zeros((information.n, information.size), dtype=bool)
    for j, columns in enumerate(information.columns):
        felt[j, columns] = True
    return felt


def _within(on_chunk: OnChunk | None, k: int, count: int) -> OnChunk | None:
    return None if on_chunk is None else lambda fraction: on_chunk((k + fraction) / count)


@small_matrices
def identify_arrays(
    robot: Robot, q: Array, dq: Array, ddq: Array, tau: Array, *, base: BaseParameters | None = None
) -> tuple[BaseParameters, Estimate]:
    """Return the base parameters and their weighted least-squares estimate from motion as it is, (N, n_active) each.

    No filter and no delay: for data that are smooth already, such as simulated or prepared ones.
    """
    base = base or base_parameters(robot, method="closed-form")
    prepared = as_prepared(robot, q, dq, ddq, tau)
    columns, n_rows = base.columns(robot), row_count(prepared)
    whole = min(rows_of_a_chunk(prepared), block_length(n_rows))  # a chunk is a block, if that is not too long
    chunks = row_chunks(robot, prepared, columns, n_rows=whole)
    return base, wls(gather(chunks, felt_by(robot, columns), n_rows))
