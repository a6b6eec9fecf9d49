# SPDX-License-Identifier: Apache-2.0

"""Identification while the robot works: every joint state counts, estimates follow, and drift is noticed.

Joint states become rows as those of a recording do (`preparation`): positions and efforts through the same filters,
the delay of the effort as a column, slow rows left out. Their R factors are kept in blocks of time that count less the
older they are, so that the estimate is weighted least squares with weights that follow the data, and its error bars are
those of the blocks (`covariance`). Drift is a torque error of the served model well above what its own data and its
error bars allow for: a payload picked up or changed friction shows at once, before the estimates have moved.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.model_file import IdentifiedModel, model_of
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.cutoffs import Cutoffs, CutoffThresholds, Spectrum
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE, filter_signal, lowpass_kernel
from ros2_dynid.identification.preparation.prepare import SignalThresholds, prepare
from ros2_dynid.identification.preparation.prepared import FilterSetup, Prepared
from ros2_dynid.identification.preparation.repetition import measure_motion_period
from ros2_dynid.identification.preparation.rows import Rows, find_dependence, row_chunks
from ros2_dynid.identification.regression.dissipative_fit import (
    dissipation_rows,
    dissipative_estimate,
    rows_beside_terms,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import BLOCKS, Block, Information, gather, join_blocks, phase_of
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.torque_std import torque_scatter, torque_std
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples

ROW_RATE, CUTOFF, MEMORY = 100.0, 15.0, 30.0
"""Rows a second and joint [Hz], cut-off of the positions [Hz] and time constant of forgetting [s] by default."""
DRIFT_SECONDS = 1.0
"""Time constant of the torque error that drift is judged by."""
STILL_SPEED = 0.02
"""Torque errors of joints slower than this [rad/s or m/s] are left out: Coulomb friction has no known sign there."""
MAX_BLOCKS = 60
"""Blocks kept: then pairs are joined, or the oldest forgotten."""
LONGEST_BLOCK_SHARE = 0.1
"""Longest block, as a share of the memory: within a block nothing is forgotten."""
HISTORY_RATE = 20
"""Positions that are kept of a second, to see whether the motion repeats."""
FEWEST_PHASES = 6
"""Blocks of the period from which on they tell something."""
CLOCK_STEP = 0.5
"""A stamp that steps back by more than this [s] is a clock that was set: the stream begins anew."""


@dataclass(frozen=True)
class Drift:
    """For each joint: torque error of the reference model now over what was to be expected; worst joint and verdict."""

    ratio: Array
    joint: str
    drifting: bool


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

        block: length [s] of a block of rows at first.
        """
        self.robot = replace(robot, friction=())
        self._rate, self._memory, self._block = rate, memory, block
        self.base = base_parameters(robot, method="closed-form")
        self._columns = self.base.columns(robot)
        n = len(robot.active)
        self.layout = ColumnLayout(len(self.base), n_delay=1)
        self._dependence = np.ones((n, self.layout.size), dtype=bool)
        self._dependence[:, self.layout.base] = find_dependence(robot, self._columns)
        position = min(cutoff, MAX_CUTOFF_SHARE * rate)
        self._setup = _choose_filters(n, rate, position, row_rate)
        self._filter = self._setup.describe(PreparationOptions.slow)
        # drift is judged as the samples come
        self._step = max(1, round(rate / row_rate))
        self._kernels = [lowpass_kernel(position, rate, derivative) for derivative in range(3)]
        self._tail = np.empty((0, 2 * n + 1))
        self._pending: deque[tuple[float, Array, Array]] = deque()  # one thread may take while another works
        self._waiting: list[Array] = []
        self._last_row = -np.inf
        self._history: deque[Array] = deque(maxlen=int(HISTORY_RATE * 4.0 * memory) + 1)
        self._length = block
        self.blocks: list[Block] = []
        self._terms = robot.friction
        self._error, self._variance = np.zeros(n), np.zeros(n)
        self._top_speed = np.zeros(n)
        self.samples = 0

    def take(self, q: Array, tau: Array, t: float | None = None) -> None:
        """Take one joint state: positions and torques, shape (n,), at time t [s]; one with NaN breaks the stream."""
        self._pending.append((self.samples / self._rate if t is None else t, q.copy(), tau.copy()))
        self.samples += 1

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
            self._tail, self._waiting, self._last_row = self._tail[:0], [], -np.inf
            return 0
        if reference is not None:
            self._watch(new, reference)
        self._remember(new)
        self._waiting.append(new)
        first, last = self._waiting[0][0, 0], self._waiting[-1][-1, 0]
        if last - first < self._block + 2.0 * self._filter.dropped:
            return 0
        data = np.concatenate(self._waiting)
        self._waiting = [data[data[:, 0] > last - 2.0 * self._filter.dropped - 2.0 / self._filter.row_rate]]
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
        self._top_speed = np.maximum(self._top_speed, speed)
        # what a joint shows that has not moved yet is noise and rounding
        prepared = replace(prepared, dq=np.where(self._top_speed > 0.0, prepared.dq, 0.0), top_speed=self._top_speed)
        if reference is not None:
            self._terms = reference.robot.friction  # are taken as they are: only what is linear is followed
            prepared = _without_terms(reference, prepared)
        chunks = [self._new(rows) for rows in row_chunks(self.robot, prepared, self._columns, delay=True)]
        if not any(rows.keep.any() for rows in chunks):
            return 0
        n_rows = sum(len(rows.t) for rows in chunks)
        (block,) = gather(chunks, self._dependence, n_rows, self.layout, n_blocks=1).blocks
        self._last_row = float(chunks[-1].t[-1])
        self._add(block)
        return int(block.rows.sum())

    def _new(self, rows: Rows) -> Rows:
        """Return the rows with those left out that were used before."""
        return replace(rows, keep=rows.keep & (rows.t > self._last_row + 1e-9))

    def _add(self, block: Block) -> None:
        if self.blocks and block.start < self.blocks[-1].start:  # the clock was set back: what is old stays old
            back = self.blocks[-1].end - block.start
            self.blocks = [replace(one, start=one.start - back, end=one.end - back) for one in self.blocks]
        if self.blocks and self.blocks[-1].end - self.blocks[-1].start < 0.6 * self._length:
            self.blocks[-1] = self._joined(self.blocks[-1], block)
        else:
            self.blocks.append(block)
        if len(self.blocks) <= MAX_BLOCKS:
            return
        if 2.0 * self._length <= LONGEST_BLOCK_SHARE * self._memory:
            self._length *= 2.0
            pairs = [self.blocks[k : k + 2] for k in range(0, len(self.blocks), 2)]
            self.blocks = [pair[0] if len(pair) == 1 else self._joined(*pair) for pair in pairs]
        else:
            del self.blocks[0]

    def _joined(self, older: Block, newer: Block) -> Block:
        """Return two neighbouring blocks as one, as old as the newer of them."""
        return join_blocks([self._faded(older, newer.end), newer])

    def _faded(self, block: Block, now: float) -> Block:
        """Return a block as it counts at time `now` [s]."""
        share = np.exp(-max(now - block.end, 0.0) / self._memory)
        R = tuple(np.sqrt(share) * triangle for triangle in block.R)
        return Block(R, np.rint(share * block.rows).astype(np.int64), block.start, block.end)

    def information(self, since: float = -np.inf) -> Information | None:
        """Return what the blocks that began at `since` [s] or later say, the older the less; None before the first."""
        chosen = [block for block in self.blocks if block.start >= since]
        if not chosen:
            return None
        columns = tuple(np.flatnonzero(row) for row in self._dependence)
        blocks = tuple(self._faded(block, chosen[-1].end) for block in chosen)
        return Information(blocks, columns, self.layout, self._phases(blocks))

    def _remember(self, new: Array) -> None:
        """Keep some of the positions, from which it is seen whether the motion repeats."""
        last = self._history[-1][0] if self._history else -np.inf
        if new[0, 0] < last:
            self._history.clear()
            last = -np.inf
        for row in new:
            if row[0] - last >= 1.0 / HISTORY_RATE:
                last = row[0]
                self._history.append(row[: len(self.robot.active) + 1])

    def _phases(self, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return the blocks joined by their phase if the motion repeats: then its own errors come again."""
        if len(self._history) < HISTORY_RATE:
            return ()
        history = np.array(self._history)
        grid = np.arange(history[0, 0], history[-1, 0], 1.0 / HISTORY_RATE)
        period = measure_motion_period(
            np.column_stack([np.interp(grid, history[:, 0], q) for q in history.T[1:]]), HISTORY_RATE
        )
        if period is None or period < FEWEST_PHASES * self._length:
            return ()
        count = min(BLOCKS, int(period / self._length))
        places = phase_of(np.array([0.5 * (block.start + block.end) for block in blocks]), period, count)
        joined = {k: join_blocks([blocks[i] for i in np.flatnonzero(places == k)]) for k in np.unique(places)}
        return tuple(replace(block, start=float(k), end=float(k + 1)) for k, block in joined.items())

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

    def _watch(self, new: Array, reference: IdentifiedModel) -> None:
        """Follow the torque error of the reference, and the variance that its error bars give it."""
        data = np.concatenate((self._tail, new))
        length, n = len(self._kernels[0]), len(self.robot.active)
        usable = (len(data) - length) // self._step if len(data) >= length else 0
        if usable <= 0:
            self._tail = data
            return
        # Outputs at every step-th sample from where the kernel first fits; the tail keeps what later ones need.
        count = usable * self._step
        stretch = data[: length - 1 + count]
        self._tail = data[count:]
        q, dq, ddq = (_inside(stretch[:, 1 : n + 1], kernel, self._step) for kernel in self._kernels)
        tau = _inside(stretch[:, n + 1 :], self._kernels[0], self._step)
        error = tau - fast_inverse_dynamics(reference.robot, reference.chi, q, dq, ddq)
        std = torque_std(reference, q, dq, ddq)
        share = np.exp(-self._step / self._rate / DRIFT_SECONDS)
        for square, spread, speed in zip(error**2, np.where(np.isfinite(std), std, 0.0) ** 2, np.abs(dq), strict=True):
            fast = speed > STILL_SPEED
            self._error[fast] = share * self._error[fast] + (1 - share) * square[fast]
            self._variance[fast] = share * self._variance[fast] + (1 - share) * spread[fast]

    def drift(self, reference: IdentifiedModel, ratio: float) -> Drift:
        """Compare the recent torque error with what the reference's own data and its error bars allow for."""
        usual = np.array([reference.fit[name].rms for name in self.robot.active_names])
        level = np.maximum(usual, torque_scatter(reference).sigma)
        expected = np.sqrt(level**2 + self._variance)
        now = np.sqrt(self._error) / np.where(expected > 0, expected, 1.0)
        worst = int(np.argmax(now))
        return Drift(now, self.robot.active_names[worst], bool(now[worst] > ratio))


def _choose_filters(n: int, rate: float, position: float, row_rate: float) -> FilterSetup:
    """Return grid and filters of all pieces of a stream of n joints, for a cut-off of the positions [Hz]."""
    limits = CutoffThresholds()
    row, step = position / limits.least_rows_to_position, limits.inner_step(position, rate)
    row_step = limits.row_step(row, rate / step, min(row_rate, limits.row_rate * row))
    spectrum = Spectrum(np.zeros(n), np.ones(n), np.full(n, position), rate)
    return FilterSetup(spectrum, Cutoffs(position, row, step, row_step), ("position",) * n)


def _without_terms(reference: IdentifiedModel, prepared: Prepared) -> Prepared:
    """Return the piece without the torque of the reference's friction terms."""
    if not reference.robot.friction:
        return prepared
    motion = (prepared.q, prepared.dq, prepared.ddq)
    plain = replace(reference.robot, friction=())
    terms = fast_inverse_dynamics(reference.robot, reference.chi, *motion) - fast_inverse_dynamics(
        plain, reference.chi, *motion
    )
    return replace(prepared, tau=prepared.tau - terms)


def _inside(x: Array, kernel: Array, step: int) -> Array:
    """Return the kernel's outputs at every step-th place of x, shape (N, n), from the first one where it fits."""
    pad = (-(len(kernel) - 1)) % step  # `filter_signal` counts its places from the first sample
    padded = np.concatenate((np.zeros((pad, x.shape[1])), x)) if pad else x
    return filter_signal(padded, kernel, step)
