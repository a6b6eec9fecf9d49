# SPDX-License-Identifier: Apache-2.0

"""Rehearsals of the excitation node: joint states of a slow run, and the verdict that unlocks the fast one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.excitation_events import Announce, Phase
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.errors import InputError, one_line
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.excitation.planning import SafePlan
from ros2_dynid.recording.samples import Samples
from ros2_dynid.usecases.rehearsal import Rehearsal, RehearsalVerdict, judge_rehearsal

NAME = "rehearsing"
"""Name of a motion that is a rehearsal."""
PERIOD_S = 4e-3
"""Joint states are kept at most this often [s]: friction of a slow motion needs no more."""
MOST_STATES = 200_000
"""Joint states kept: 13 minutes, 20 MB of a robot with six joints."""


@dataclass(frozen=True, eq=False)
class _Run:
    """A rehearsal under way: of which plan, at which share of its speed, and the tracking error tolerated."""

    plan: SafePlan
    speed: float
    tolerance: float


class Rehearsals:
    """Follows the motion's phases, keeps joint states of rehearsals, and tells the verdict as it changes."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Call tell(text) with the verdict on the plan of now, "" where there is none."""
        self._tell = tell
        self._run: _Run | None = None
        self._states: list[JointStateArrived] = []
        self._collecting = False
        self._judged: tuple[SafePlan, RehearsalVerdict] | None = None

    def expect(self, plan: SafePlan, speed: float, tolerance: float) -> None:
        """Take the next motion for a rehearsal of this plan."""
        self._states, self._run = [], _Run(plan, speed, tolerance)

    def cancel(self) -> None:
        """Expect none: it could not begin."""
        self._run = None

    def take(self, event: JointStateArrived) -> None:
        """Keep a joint state while a rehearsal runs."""
        states = self._states
        if not self._collecting or len(states) >= MOST_STATES:
            return
        if not states or event.measured_at - states[-1].measured_at >= PERIOD_S:
            states.append(event)

    def follow(self, what: Announce, worst_error: float) -> None:
        """Notice that a rehearsal begins, ends or is stopped; worst_error: its largest tracking error."""
        self._collecting = what.phase is Phase.RUNNING and what.name == NAME
        run = self._run
        if run is not None and what.phase is Phase.APPROACH:
            self.plan_changed()  # the verdict on the one before holds no more
        if run is None or what.phase not in (Phase.DONE, Phase.ABORTED):
            return
        self._run = None
        if what.phase is Phase.ABORTED:
            self._judge(run.plan, RehearsalVerdict(False, what.reason))
        else:
            states = self._states
            threading.Thread(target=self._examine, args=(run, states, worst_error), name="rehearsal").start()

    def plan_changed(self) -> None:
        """Tell that there is no verdict on the plan of now."""
        self._judged = None
        self._tell("")

    def check(self, plan: SafePlan) -> None:
        """Refuse a plan that was not rehearsed, or whose rehearsal was not passed."""
        judged = self._judged
        if judged is None or judged[0].trajectory is not plan.trajectory:
            raise InputError("this plan has not been rehearsed", "call ~/rehearse, or set require_rehearsal to false")
        if not judged[1].passed:
            raise InputError(f"the rehearsal was not passed: {judged[1].text}", "correct it and call ~/rehearse")

    def _examine(self, run: _Run, states: list[JointStateArrived], worst_error: float) -> None:
        try:
            verdict = judge_rehearsal(
                run.plan.robot, Rehearsal(_samples(run.plan.robot, states), worst_error, run.tolerance, run.speed)
            )
        except Exception as error:  # whatever it is, the fast motion stays locked
            verdict = RehearsalVerdict(False, f"it could not be judged: {type(error).__name__}: {one_line(str(error))}")
        self._judge(run.plan, verdict)

    def _judge(self, plan: SafePlan, verdict: RehearsalVerdict) -> None:
        self._judged = plan, verdict
        self._tell(str(verdict))


def _samples(robot: Robot, states: list[JointStateArrived]) -> Samples:
    """Return joint states as samples; there are three at least."""
    if len(states) < 3:
        raise InputError("too few joint states came", "check the topic joint_states")
    q, tau = ([getattr(event.state, field) for event in states] for field in ("q", "tau"))
    time = np.array([event.measured_at for event in states])
    return Samples(time, robot.active_names, np.array(q), tau=np.array(tau))
