# SPDX-License-Identifier: Apache-2.0

"""Stage 2, Prepared -> Problem: the information in the rows of recordings, with the decisions that the data make.

In this order: the cut-off of the rows, the delay of the efforts, the friction law, a second sensor's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.identification.decisions.effort_delay import EffortDelayDecision, shift_late_efforts
from ros2_dynid.identification.decisions.friction_law import choose_friction_law
from ros2_dynid.identification.decisions.friction_selection import Trial
from ros2_dynid.identification.decisions.lower_row_cutoff import RowCutoffDecision, note_lower_cutoff, select_row_cutoff
from ros2_dynid.identification.friction_columns import PLAIN, hold_beyond
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.prepared import Prepared, fastest_speeds, temperature_range
from ros2_dynid.identification.preparation.repetition import leave_out_copies
from ros2_dynid.identification.preparation.rows import PlainRows, Rows, row_chunks, tabulate_rows
from ros2_dynid.identification.recordings import Recording, prepare_recordings
from ros2_dynid.identification.regression.build_information import (
    BuildInformation,
    OnChunk,
    build_information,
    gather_recordings,
)
from ros2_dynid.identification.regression.dissipative_fit import dissipation_rows
from ros2_dynid.identification.regression.information import Information, different_motion, select_friction
from ros2_dynid.identification.regression.two_sensors import TwoSensors, two_sensors
from ros2_dynid.model.efforts import measures_gravity, parse_sensor
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot, with_gravity
from ros2_dynid.progress import Progress

if TYPE_CHECKING:
    from ros2_dynid.sim.tracking_loop import JointController


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be identified: prepared recordings of a robot, the information in their rows, and a priori values.

    prior: a value for each column of the information's layout: base parameters and delay of the effort. terms:
    friction terms whose columns follow the base's; tried: how they were chosen. controller: the robot's own, None if it
    is not known. second: the rows of two efforts of the joints, if there are two. row_cutoff, effort_delay: what was
    decided about the filters and the efforts, with the evidence.
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
    row_cutoff: RowCutoffDecision | None = None
    effort_delay: EffortDelayDecision = field(default_factory=EffortDelayDecision)

    @property
    def repeats(self) -> bool:
        """Whether a motion repeats itself, so that blocks of time hold what others hold too."""
        return bool(self.information.phases)

    @cached_property
    def friction_rows(self) -> Array:
        """Rows g of which friction that brakes makes g . value >= 0 (regression.dissipative_fit), shape (m, size)."""
        warmth = temperature_range([p.temperatures for p in self.prepared])
        return dissipation_rows(self.robot, self.base.leaders, self.terms, warmth, self.information.size)

    def with_different_blocks(self) -> Problem:
        """Return the same in blocks to leave out in turn, none of which has the motion of another."""
        return replace(self, information=different_motion(self.information)) if self.repeats else self

    def plain(self) -> Problem:
        """Return the same without friction terms: their columns are left out."""
        if not self.terms:
            return self
        prior = np.delete(self.prior, self.information.layout.friction)
        return replace(self, information=select_friction(self.information, ()), prior=prior, terms=(), second=None)

    def rows(self, number: int) -> Iterator[Rows]:
        """Yield the rows of recording number `number`, with the delay's column if the delay is estimated."""
        return self.rows_of(self.prepared[number])

    def rows_of(self, prepared: Prepared) -> Iterator[Rows]:
        """Yield the rows of another motion, with the same columns."""
        delay = bool(self.information.layout.n_delay)
        return row_chunks(self.robot, prepared, self.base.columns(self.robot), delay=delay, terms=self.terms)

    def gather_rows(
        self,
        rows: Callable[[int], Iterable[Rows]],
        *,
        weight: Callable[[Rows], Array] | None = None,
        on_chunk: OnChunk | None = None,
    ) -> Information:
        """Return the information of all recordings from other rows, by number, in the same blocks."""
        information = self.information
        dependence = np.zeros((information.n, information.size), dtype=bool)
        for j, columns in enumerate(information.columns):
            dependence[j, columns] = True
        return gather_recordings(self.prepared, rows, dependence, information.layout, weight=weight, on_chunk=on_chunk)


@small_matrices
def build_problem(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, report: Progress) -> Problem:
    """Prepare the recordings, gather what their rows say, and let the data decide filters, delay and friction law.

    The problem's robot has no gravity where the efforts hold none.
    """
    robot = robot if measures_gravity(robot) else with_gravity(robot, (0.0, 0.0, 0.0))
    base, delay = base_parameters(robot, method="closed-form"), options.preparation.delay is None

    def tabulate(prepared: Sequence[Prepared]) -> PlainRows | None:
        """Return the rows that laws which are tried share; plain friction needs them once only."""
        if options.friction == PLAIN:
            return None
        return tabulate_rows(robot, prepared, base.columns(robot), delay=delay)

    def build(prepared: Sequence[Prepared], plain: PlainRows | None = None) -> Information:
        def tell(done: float) -> None:
            report("regressor", 0.35 + 0.35 * done)

        return build_information(robot, base, prepared, tell, delay=delay, plain_rows=plain)

    prepared = leave_out_copies(prepare_recordings(robot, recordings, options, report))
    plain = tabulate(prepared)
    information = build(prepared, plain)
    cutoff = _decide_cutoff(prepared, information, build, options)
    if cutoff is not None and cutoff.cutoff is not None:
        lower = replace(options, preparation=replace(options.preparation, row_cutoff=cutoff.cutoff))
        prepared = leave_out_copies(prepare_recordings(robot, recordings, lower, report))
        prepared = note_lower_cutoff(prepared, cutoff.cutoff)
        plain = tabulate(prepared)
        information = build(prepared, plain)
    before = prepared
    prepared, information, late = shift_late_efforts(prepared, information, build)
    if prepared is not before:
        plain = tabulate(prepared)
    law = choose_friction_law(robot, base, prepared, information, options.friction, options.method, plain)
    terms = hold_beyond(robot, law.terms, fastest_speeds(prepared))
    layout = law.information.layout
    second = None
    if any(part.second is not None for part in law.prepared):
        sensor = parse_sensor(options.torque_sensor).drive
        second = two_sensors(robot, base, law.prepared, layout, terms, sensor)
    return Problem(
        robot,
        base,
        law.prepared,
        law.information,
        prior=layout.vector(base.values(robot, standard_vector(robot))),
        terms=terms,
        tried=law.trials,
        controller=_read_controller(options.controller, robot),
        second=second,
        row_cutoff=cutoff,
        effort_delay=late,
    )


def _decide_cutoff(
    prepared: Sequence[Prepared], information: Information, build: BuildInformation, options: IdentifyOptions
) -> RowCutoffDecision | None:
    """Return what the data say about the cut-off, None where the caller has chosen one."""
    chosen = options.preparation
    if chosen.row_cutoff is not None or chosen.position_cutoff is not None:
        return None
    return select_row_cutoff(prepared, information, build)


def _read_controller(file: str | Path | None, robot: Robot) -> JointController | None:
    """Return the robot's own controller from its parameter file, if one is given."""
    if file is None:
        return None
    from ros2_dynid.sim.controller_file import load_controller  # few identifications simulate the closed loop

    return load_controller(file, robot.active_names)
