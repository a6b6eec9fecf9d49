# SPDX-License-Identifier: Apache-2.0

"""The estimator behind a stream: every joint state counts, estimates follow, and drift is noticed.

Joint states become rows as those of a recording do (`preparation`): positions and efforts through the same filters,
the delay of the effort as a column, slow rows left out. Their R factors are kept in blocks of time that count less the
older they are, so that the estimate is weighted least squares with weights that follow the data, and its error bars are
those of the blocks (`covariance`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.model_file import IdentifiedModel, model_of
from ros2_dynid.identification.online.drift import Drift, TorqueErrorWatch
from ros2_dynid.identification.online.fading_blocks import FadingBlocks
from ros2_dynid.identification.online.motion_history import MotionHistory
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.cutoffs import Cutoffs, CutoffThresholds, Spectrum
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE
from ros2_dynid.identification.preparation.prepare import SignalThresholds, prepare
from ros2_dynid.identification.preparation.prepared import FilterSetup, Prepared
from ros2_dynid.identification.preparation.rows import Rows, find_dependence, row_chunks
from ros2_dynid.identification.regression.dissipative_fit import (
    dissipation_rows,
    dissipative_estimate,
    rows_beside_terms,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, gather
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples

ROW_RATE, CUTOFF, MEMORY = 100.0, 15.0, 30.0
"""Rows a second and joint [Hz], cut-off of the positions [Hz] and time constant of forgetting [s] by default."""
CLOCK_STEP = 0.5
"""A stamp that steps back by more than this [s] is a clock that was set: the stream begins anew."""


class OnlineEstimator:
    """The estimator behind a stream of joint states at `rate` [Hz], rows at most at `row_rate` [Hz]."""

    def __init__(
        self,
        robot: Robot,
        rate: float,
        *,
        row_rate: float = ROW_RATE,
        cutoff: float = CUTOFF,
        memory: float = MEMORY,
        block: float = 1.0,
    ) -> None:
        """Start knowing nothing; `cutoff` of the positions [Hz], `memory` [s] after which rows count 1/e.

        block: length [s] of a block of rows at first. `filter` describes the filters; `top_speed` (n,) is that of all
        that was seen [rad/s or m/s].
        """
        self.robot = replace(robot, friction=())
        self._rate, self._block = rate, block
        self.base = base_parameters(robot, method="closed-form")
        self._columns = self.base.columns(robot)
        n = len(robot.active)
        self.layout = ColumnLayout(len(self.base), n_delay=1)
        self._dependence = np.ones((n, self.layout.size), dtype=bool)
        self._dependence[:, self.layout.base] = find_dependence(robot, self._columns)
        position = min(cutoff, MAX_CUTOFF_SHARE * rate)
        self._setup = choose_filters(n, rate, position, row_rate)
        self.filter = self._setup.describe(PreparationOptions.slow)
        self._errors = TorqueErrorWatch(robot, rate, step=max(1, round(rate / row_rate)), cutoff=position)
        self._pending: deque[tuple[float, Array, Array]] = deque()  # one thread may take while another works
        self._waiting: list[Array] = []
        self._last_row = -np.inf
        self._history = MotionHistory(memory)
        self._blocks = FadingBlocks(memory, block)
        self._terms = robot.friction
        self.top_speed = np.zeros(n)
        self.samples = 0

    def take(self, q: Array, tau: Array, t: float | None = None) -> None:
        """Take one joint state: positions and torques, shape (n,), at time t [s]; one with NaN breaks the stream."""
        self._pending.append((self.samples / self._rate if t is None else t, q.copy(), tau.copy()))
        self.samples += 1

    @property
    def blocks(self) -> list[Block]:
        """The blocks of rows, the oldest first."""
        return self._blocks.blocks

    @property
    def newest(self) -> float:
        """Time of the newest joint state that was worked on [s]."""
        return float(self._waiting[-1][-1, 0]) if self._waiting else -np.inf

    def work(self, reference: IdentifiedModel | None = None) -> int:
        """Turn what came into rows and update the estimate; return the number of rows used."""
        new = np.array([(t, *q, *tau) for t, q, tau in (self._pending.popleft() for _ in range(len(self._pending)))])
        if not len(new):
            return 0
        before = self._waiting[-1][-1, 0] if self._waiting else -np.inf
        if not np.all(np.isfinite(new)) or np.any(
            np.diff(new[:, 0], prepend=max(before, new[0, 0] - 1.0)) < -CLOCK_STEP
        ):
            self._errors.restart()
            self._waiting, self._last_row = [], -np.inf
            return 0
        if reference is not None:
            self._errors.follow(new, reference)
        self._history.add(new[:, : len(self.robot.active) + 1])
        self._waiting.append(new)
        first, last = self._waiting[0][0, 0], self._waiting[-1][-1, 0]
        if last - first < self._block + 2.0 * self.filter.dropped:
            return 0
        data = np.concatenate(self._waiting)
        self._waiting = [data[data[:, 0] > last - 2.0 * self.filter.dropped - 2.0 / self.filter.row_rate]]
        return self._use(data, reference)

    def _use(self, data: Array, reference: IdentifiedModel | None) -> int:
        """Make a block of rows of samples [t q tau], shape (N, 2 n + 1); return how many rows it has."""
        n = len(self.robot.active)
        samples = Samples(data[:, 0], self.robot.active_names, data[:, 1 : n + 1], tau=data[:, n + 1 :])
        try:
            prepared = prepare(self.robot, samples, like=self._setup)
        except InputError:  # the robot stands still, or samples were lost
            return 0
        moves = np.ptp(samples.q, axis=0) >= SignalThresholds.least_motion
        speed = np.where(moves, np.quantile(np.abs(prepared.dq), 0.99, axis=0), 0.0)
        self.top_speed = np.maximum(self.top_speed, speed)
        # what a joint shows that has not moved yet is noise and rounding
        prepared = replace(prepared, dq=np.where(self.top_speed > 0.0, prepared.dq, 0.0), top_speed=self.top_speed)
        if reference is not None:
            self._terms = reference.robot.friction  # are taken as they are: only what is linear is followed
            prepared = subtract_friction_terms(reference, prepared)
        chunks = [
            leave_out_used(rows, self._last_row) for rows in row_chunks(self.robot, prepared, self._columns, delay=True)
        ]
        if not any(rows.keep.any() for rows in chunks):
            return 0
        n_rows = sum(len(rows.t) for rows in chunks)
        (block,) = gather(chunks, self._dependence, n_rows, self.layout, n_blocks=1).blocks
        self._last_row = float(chunks[-1].t[-1])
        self._blocks.add(block)
        return int(block.rows.sum())

    def information(self, since: float = -np.inf) -> Information | None:
        """Return what the blocks that began at `since` [s] or later say, the older the less; None before the first."""
        blocks = self._blocks.since(since)
        if not blocks:
            return None
        columns = tuple(np.flatnonzero(row) for row in self._dependence)
        return Information(blocks, columns, self.layout, self._history.join_by_phase(blocks, self._blocks.length))

    def estimate(self) -> IdentifiedModel | None:
        """Return the estimate with its standard deviations, or None before the data determine every parameter."""
        return self.estimate_of(self.information())

    def estimate_of(self, information: Information | None) -> IdentifiedModel | None:
        """Return the estimate from `information`, as above; it touches nothing else that changes."""
        if information is None or len(information.blocks) < 3:
            return None
        try:
            estimate = wls(information)
        except DynidError:  # too few rows yet
            return None
        if not np.all(estimate.base_identified):
            return None
        rows, least = self._friction_rows()
        estimate = dissipative_estimate(information, estimate, rows, least=least)
        delay = {"seconds": estimate.delay, "std": estimate.delay_std}
        sigma = estimate.sigma.tolist()
        return model_of(
            replace(self.robot, friction=self._terms),
            self.base,
            estimate.base,
            estimate.base_std,
            estimate.base_covariance,
            obtained={"method": "sequential", "sigma": sigma, "dof": estimate.dof, "delay": delay},
        )

    def _friction_rows(self) -> tuple[Array, Array]:
        """Return rows and least values with which friction brakes beside the terms that are taken as they are."""
        b, terms = len(self.base), self._terms
        rows = dissipation_rows(self.robot, self.base.leaders, terms, None, b + len(terms))
        own, least = rows_beside_terms(rows, terms)
        return np.pad(own, ((0, 0), (0, self.layout.size - b))), least

    def drift(self, reference: IdentifiedModel, ratio: float) -> Drift:
        """Compare the recent torque error with what the reference's own data and its error bars allow for."""
        return self._errors.compare(reference, ratio)


def choose_filters(n: int, rate: float, position: float, row_rate: float) -> FilterSetup:
    """Return grid and filters of all pieces of a stream of n joints, for a cut-off of the positions [Hz]."""
    limits = CutoffThresholds()
    row, step = position / limits.least_rows_to_position, limits.inner_step(position, rate)
    row_step = limits.row_step(row, rate / step, min(row_rate, limits.row_rate * row))
    spectrum = Spectrum(np.zeros(n), np.ones(n), np.full(n, position), rate)
    return FilterSetup(spectrum, Cutoffs(position, row, step, row_step), ("position",) * n)


def subtract_friction_terms(reference: IdentifiedModel, prepared: Prepared) -> Prepared:
    """Return the piece without the torque of the reference's friction terms."""
    if not reference.robot.friction:
        return prepared
    motion = (prepared.q, prepared.dq, prepared.ddq)
    plain = replace(reference.robot, friction=())
    terms = fast_inverse_dynamics(reference.robot, reference.chi, *motion) - fast_inverse_dynamics(
        plain, reference.chi, *motion
    )
    return replace(prepared, tau=prepared.tau - terms)


def leave_out_used(rows: Rows, last: float) -> Rows:
    """Return the rows without those up to time `last` [s], which were used before."""
    return replace(rows, keep=rows.keep & (rows.t > last + 1e-9))
