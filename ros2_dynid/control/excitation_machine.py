# SPDX-License-Identifier: Apache-2.0

"""The excitation's motion as a state machine: to the start, rest there, along the trajectory, and to rest again.

One thread owns it: services, parameters, descriptions and joint states reach it as events, one after the other. What
leaves goes through the motion gate. It never moves a robot that it does not watch, and after a stop nothing but braking
leaves until the robot is at rest. A motion can be paused, at rest on its trajectory, and one joint can be jogged.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ros2_dynid.control.along_path import Paused, ResumedMotion, stop_on_path
from ros2_dynid.control.checked_motion import CheckedMotion, JogMotion
from ros2_dynid.control.excitation_events import (
    MOVING,
    RESTING,
    TRANSITIONS,
    WHY_EVENT_REFUSED,
    WHY_REFUSED,
    ActivateExcitation,
    Announce,
    ConnectionProblem,
    DeactivateExcitation,
    ExcitationOutcome,
    ExcitationTick,
    GoalRefused,
    Jog,
    JogHeld,
    JogReleased,
    OthersCommand,
    ParametersChanged,
    Pause,
    Phase,
    Resume,
    RobotChanged,
    Start,
    Stop,
)
from ros2_dynid.control.joint_trust import TRUST, JointStateArrived
from ros2_dynid.control.motion_gate import MotionGate
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings, fastest_joint, motion_limits
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop_in_progress import PATIENCE, StopInProgress
from ros2_dynid.control.stop_switch import HoldBack, Reason
from ros2_dynid.control.supervisor import Supervisor
from ros2_dynid.control.transitions import Event, StateMachine
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.robot import Array, Robot

MOVED = 0.02
"""Distance [rad or m] that the robot may be from where its way to the start was checked."""
SET_BACK = 0.2
"""A clock that goes back by more than this [s] was set: simulated time that starts again."""
JOG_HOLD = 0.3
"""A joint that is jogged brakes when nobody has said for this long [s] that it is held: the page says it ten times a
second, and three that are lost in a row are a connection that is gone."""


class ExcitationMachine(StateMachine[Phase, ExcitationOutcome]):
    """See the module. `handle` takes an event and returns its outcome; commands leave through the gate meanwhile."""

    table = TRANSITIONS

    def __init__(self, settings: MotionSettings, gate: MotionGate) -> None:
        """Know no robot, and be inactive."""
        self.settings, self._gate = settings, gate
        self.state = Phase.INACTIVE
        self.robot: Robot | None = None
        self.limits: MotionLimits | None = None
        self._watch: Supervisor | None = None
        self._motion: CheckedMotion | JogMotion | None = None
        self._paused: Paused | None = None
        self._held_until = -np.inf  # when [s] a jog ends that nobody holds any more
        self._worst_error = 0.0
        self._braking = StopInProgress(gate)
        self._until = 0.0  # when [s] the part of the motion that is under way ends
        self._clock = -np.inf
        self.stops = 0
        self._reason = ""
        self._held_back: Reason | None = None
        self._no_limits: tuple[str, str, str | None] | None = None
        self._after = Phase.ABORTED
        self._next_robot: Robot | None = None
        self._announced: list[Announce] = []

    # --- what others may ask at any time: values, never changed

    @property
    def phase(self) -> Phase:
        """What the machine does: its state."""
        return self.state

    @property
    def moving(self) -> bool:
        """Whether the robot is being moved or stopped."""
        return self.phase in MOVING or self.phase is Phase.BRAKING

    @property
    def commands(self) -> int:
        """How many trajectories and stops have been sent."""
        return self._gate.number

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints that are moved."""
        return () if self.robot is None else self.robot.active_names

    def unknown(self, now: float) -> str:
        """Return why the position of the robot is not known, or nothing ("")."""
        watch = self._watch
        return "the robot or its limits are not known" if watch is None else watch.unknown(now)

    @property
    def paused(self) -> Paused | None:
        """The motion that rests on its way, None if there is none."""
        return self._paused if self.phase is Phase.PAUSED else None

    @property
    def worst_error(self) -> float:
        """Largest tracking error [rad or m] of the trajectory that ran last, its pauses included."""
        watch = self._watch
        return self._worst_error if watch is None else max(self._worst_error, watch.worst_error)

    @property
    def at_rest(self) -> bool:
        """Whether the robot has been seen at rest for long enough to start."""
        watch = self._watch
        return watch is not None and watch.at_rest()

    def where(self, now: float) -> Array:
        """Return the measured positions, shape (n,), or refuse: nothing is known, or not any more."""
        watch = self._watch
        if self._no_limits:
            raise InputError(*self._no_limits)
        samples = () if watch is None else watch.samples
        if (unknown := self.unknown(now)) or not samples:
            raise InputError(f"the position of the robot is not known: {unknown}", "check the topic joint_states")
        return samples[-1].state.q

    # --- events

    def handle(self, event: Event) -> ExcitationOutcome:
        """Take an event; one that is not legal now is refused and changes nothing."""
        self._announced = []
        if event.now < self._clock - SET_BACK and self._watch is not None:
            self._set_back(event.now)
            if self.state in MOVING:
                self._stop("the clock was set back", event.now)
                return self._refused("the clock was set back")
        return super().handle(event)

    def _set_back(self, now: float) -> None:
        """Go on by a clock that was set back to `now` [s]."""
        assert self._watch is not None
        shift, self._clock = self._clock - now, now
        self._watch.rewind(now, shift)
        self._braking.rewind(shift)
        self._until -= shift

    def _refused(self, why: str) -> ExcitationOutcome:
        return ExcitationOutcome(False, why, tuple(self._announced))

    def _refusal(self, event: Event) -> str:
        if (why := WHY_EVENT_REFUSED.get(type(event))) is not None:  # type: ignore[arg-type]
            return "; ".join(why)
        under_way = f"a motion is under way ({self._name()})", "wait for its end or stop it"
        return "; ".join(WHY_REFUSED.get(self.state, under_way))

    def _take(self, event: Event) -> ExcitationOutcome:
        self._clock = max(self._clock, event.now)
        answer = self._answer(event)
        return ExcitationOutcome(True, answer, tuple(self._announced))

    def _answer(self, event: Event) -> str:
        """Do what somebody asks for, and return what to answer."""
        now = event.now
        match event:
            case Start():
                return self._start(event.motion, now)
            case Stop():
                return self._on_stop(event.reason, now)
            case Pause():
                return self._slow_down("the motion is being paused", now)
            case Resume():
                return self._resume(event.motion, now)
            case Jog():
                return self._jog(event.motion, now)
            case JogHeld():
                return self._on_held(event.joint, event.direction, now)
            case JogReleased():
                return self._on_released(now)
            case ActivateExcitation():
                self._enter(Phase.NO_ROBOT if self.robot is None else Phase.IDLE)
            case DeactivateExcitation():
                self._on_deactivate(now)
            case RobotChanged():
                self._on_robot(event.robot, now)
            case ParametersChanged():
                self._on_settings(event.settings)
            case _:
                self._notice(event)
        return ""

    def _notice(self, event: Event) -> None:
        """Take what is seen of the robot, of its controller and of who else is there."""
        match event:
            case JointStateArrived():
                self._on_state(event)
            case ExcitationTick():
                self._on_tick(event.now)
            case OthersCommand():
                self._on_others_command()
            case HoldBack():
                self._held_back = event.reason
            case ConnectionProblem():
                if self.phase in MOVING:
                    self._stop(event.text, event.now)
            case GoalRefused():
                if event.number == self._gate.number:
                    self._on_refused(event.text, event.now)

    def _on_stop(self, reason: str, now: float) -> str:
        self.stops += 1
        if self.phase is Phase.BRAKING:
            return "already stopping"
        if self.phase not in MOVING:
            return self._not_moving(now)
        self._stop(reason, now)
        return "stopping"

    def _on_others_command(self) -> None:
        """Leave a robot alone that another node moves, though it may go the way that was stopped."""
        if self.phase in RESTING and self._watch is not None:
            self._watch.forget_stopped()

    def _on_deactivate(self, now: float) -> None:
        self.stops += 1  # a start that is being prepared is void, even if the node is activated again
        self._after = Phase.INACTIVE
        if self.phase in MOVING:
            self._stop("the node was deactivated", now)
        elif self.phase is not Phase.BRAKING:
            self._enter(Phase.INACTIVE)

    def _not_moving(self, now: float) -> str:
        """Answer a stop where this machine moves nothing: what is measured of the robot all the same."""
        watch, robot = self._watch, self.robot
        if watch is None or robot is None or self.phase is Phase.INACTIVE:
            return "nothing was moved by the excitation"
        if unknown := watch.unknown(now):
            return f"nothing was moved by the excitation; whether the robot moves is not known: {unknown}"
        if watch.moves():
            moves = fastest_joint(robot, watch.velocity_seen())
            return f"nothing was moved by the excitation, but {moves}: stop who moves it"
        return "nothing was moving"

    def _on_robot(self, robot: Robot, now: float) -> None:
        if self.moving:
            self._next_robot = robot
            if self.phase in MOVING:
                self._stop("the robot's description has changed", now)
            return
        self._use(robot)
        if self.phase is not Phase.INACTIVE:
            self._enter(Phase.IDLE)

    def _use(self, robot: Robot) -> None:
        """Take a robot; one without limits is known, but nothing moves."""
        before = self._watch
        jumped_at = -np.inf if before is None else before.jumped_at  # another description repairs no encoder
        self.robot, self.limits, self._watch, self._no_limits = robot, None, None, None
        try:
            self.limits = motion_limits(robot, self.settings)
            self._watch = Supervisor(self.limits, self.settings, jumped_at)
            if before is not None and before.limits.joint_names == robot.active_names:
                self._watch.believed = before.believed  # nor does it move the robot
        except InputError as error:
            self._no_limits = (error.what, error.hint, error.source)

    def _on_settings(self, settings: MotionSettings) -> None:
        """Take new settings while nothing moves: how to move, and what stops it, is settled when a motion begins."""
        changed = [
            field.name
            for field in fields(settings)
            if getattr(settings, field.name) != getattr(self.settings, field.name)
        ]
        if self.moving and changed:
            raise InputError(f"{changed[0]} takes effect with the next start", "set it when nothing moves")
        self.settings = settings
        if self.robot is not None and self.limits is not None and self._watch is not None:
            if "deceleration" in changed:
                self.limits = motion_limits(self.robot, settings)
            self._watch.use(self.limits, settings)

    def _start(self, motion: CheckedMotion, now: float) -> str:
        watch = self._begin(motion, now)
        self._enter(Phase.APPROACH)
        return f"{motion.name} begins in {watch.until + self.settings.settle - now:.1f} s"

    def _begin(self, motion: CheckedMotion | JogMotion, now: float) -> Supervisor:
        """Send the first part of a motion, or refuse it; return who watches it."""
        if motion.robot is not self.robot:
            raise InputError("the robot has changed since the trajectory was planned", "plan again")
        q = self._may_begin(motion.stops, now)
        assert self._watch is not None and self.limits is not None
        if np.any(np.abs(q - motion.q) > MOVED):
            raise InputError("the robot has moved since its way to the start was checked", "start again")
        sent = self._gate.send(motion.way, self.limits, q, self.settings.delay)
        self._motion, self._watch.jumped = motion, False
        self._follow(motion.way.points, sent)
        self._after = Phase.ABORTED
        return self._watch

    def _may_begin(self, stops: int, now: float) -> Array:
        """Return where the robot rests, shape (n,), or refuse to move it; stops: when the motion was prepared."""
        if self._held_back is not None:
            raise InputError(*self._held_back)
        if stops != self.stops:
            raise InputError("stop was called while the start was prepared", "start again")
        q = self.where(now)
        assert self._watch is not None
        if now - self._watch.jumped_at < TRUST:
            raise InputError("positions have just jumped: they may be wrong", f"check them, and wait {TRUST:g} s")
        if not self._watch.at_rest():
            raise InputError("the robot is not at rest, or has not been seen for long enough", "start again at rest")
        return q

    # --- pause and jog

    def _slow_down(self, answer: str, now: float) -> str:
        """Slow down to rest on the trajectory; where that would pass a limit, stop."""
        watch = self._watch
        assert watch is not None and self.limits is not None
        points, s = watch.followed(now)
        if self.phase is Phase.RUNNING:
            self._worst_error = max(self._worst_error, watch.worst_error)
        stop = stop_on_path(points, s, self.limits, self.settings, watch.error(now))
        if stop is None:
            self._stop("it cannot slow down on its trajectory from here within the limits", now)
            return "stopping: it cannot slow down on its trajectory from here within the limits"
        part = Phase.RUNNING if self.phase is Phase.RUNNING else Phase.APPROACH
        self._paused = None if self.phase is Phase.JOGGING else Paused(points, stop.rest_at, part)
        self._follow(stop.stop.expected, self._gate.send_stop(stop.stop), delay=0.0)
        self._enter(Phase.SLOWING)
        return answer

    def _resume(self, motion: ResumedMotion, now: float) -> str:
        if motion.paused is not self._paused:
            raise InputError("another motion is paused now", "resume again")
        q = self._may_begin(motion.stops, now)
        assert self.limits is not None
        self._follow(motion.run.points, self._gate.send(motion.run, self.limits, q, self.settings.delay))
        self._paused = None
        assert isinstance(motion.paused.part, Phase)
        self._enter(motion.paused.part)
        return f"{self._name()} goes on"

    def _jog(self, motion: JogMotion, now: float) -> str:
        self._begin(motion, now)
        self._held_until = now + JOG_HOLD
        self._enter(Phase.JOGGING)
        return f"joint {motion.joint!r} moves while it is held"

    def _on_held(self, joint: str, direction: int, now: float) -> str:
        assert isinstance(self._motion, JogMotion)
        if (joint, direction) != (self._motion.joint, self._motion.direction):
            return self._slow_down("slowing down: another joint or direction is held", now)
        self._held_until = now + JOG_HOLD
        return f"joint {joint!r} moves while it is held"

    def _on_released(self, now: float) -> str:
        if self.phase is Phase.JOGGING:
            return self._slow_down("slowing down", now)
        if self.phase in RESTING:
            self.stops += 1  # a jog that is being prepared is void
        return "no joint is being jogged"

    def _follow(self, points: Reference, sent: float, delay: float | None = None) -> None:
        assert self._watch is not None
        self._watch.follow(points, sent + (self.settings.delay if delay is None else delay))
        self._until = self._watch.until

    def _on_state(self, event: JointStateArrived) -> None:
        watch, state = self._watch, event.state
        if watch is None:
            return
        if state.joint_names != watch.limits.joint_names:
            try:
                state = _ordered(state, watch.limits.joint_names)
            except InputError:
                return  # another robot's: as good as none
        problem = watch.take(JointStateArrived(event.now, state, event.measured_at))
        if self.phase in MOVING:
            if problem or (problem := watch.problem() if watch.known(event.now) else ""):
                self._stop(problem, event.now)
        elif self.phase is Phase.BRAKING:
            self._on_braking(event.now)
        elif self.phase is Phase.ABORTED and watch.goes_on(event.now):
            self._stop("the robot goes on though it was stopped", event.now)

    def _on_tick(self, now: float) -> None:
        watch = self._watch
        if self.phase is Phase.BRAKING:
            self._on_braking(now)
        if watch is None or self.phase not in MOVING:
            return
        if problem := watch.silence(now):
            self._stop(problem, now)
        elif self.phase is Phase.JOGGING and now > self._held_until:
            self._slow_down("nobody holds the joint any more", now)
        elif self.phase is not Phase.PAUSED and min(now, watch.last.measured_at) >= self._until:
            self._part_ended(now)

    def _part_ended(self, now: float) -> None:
        assert self._watch is not None and self._motion is not None and self.limits is not None
        if self.phase is Phase.APPROACH:
            self._until = now + self.settings.settle
            self._enter(Phase.SETTLE)
        elif self.phase is Phase.SETTLE:
            assert isinstance(self._motion, CheckedMotion)
            self._worst_error = 0.0
            try:
                sent = self._gate.send(self._motion.run, self.limits, self._watch.last.state.q, self.settings.delay)
            except DynidError as error:
                self._stop(str(error), now)
                return
            self._follow(self._motion.run.points, sent)
            self._enter(Phase.RUNNING)
        elif self._watch.at_rest():
            self._enter(self._next_phase())
        elif now > self._until + PATIENCE:
            self._stop("the robot does not come to rest at the end of the trajectory", now)

    def _next_phase(self) -> Phase:
        """Return where a part of a motion leads that has ended at rest."""
        if self.phase is Phase.RUNNING:
            return Phase.DONE
        return Phase.IDLE if isinstance(self._motion, JogMotion) else Phase.PAUSED

    def _on_refused(self, text: str, now: float) -> None:
        if self.phase in MOVING:
            self._stop(text, now)
        elif self.phase is Phase.BRAKING and self._braking.may_be_lost(now):
            self._brake_again(now)

    # --- braking

    def _stop(self, reason: str, now: float) -> None:
        self._reason = reason
        assert self._watch is not None and self.limits is not None
        extent = self._motion.extent if self._motion is not None and self.phase in MOVING else None
        self._braking.begin(self._watch, self.limits, self.settings, extent, now)
        self._enter(Phase.BRAKING)

    def _brake_again(self, now: float) -> None:
        assert self._watch is not None and self.limits is not None
        self._braking.send_again(self._watch, self.limits, self.settings, now)

    def _on_braking(self, now: float) -> None:
        assert self._watch is not None
        doubt = self._braking.ended(self._watch, now)
        if doubt is not None:
            self._rested(doubt)
        elif self._braking.is_not_followed(self._watch, now):
            self._brake_again(now)

    def _rested(self, doubt: str) -> None:
        self._enter(Phase.ABORTED, f"{self._reason} ({doubt})" if doubt else self._reason)
        robot, self._next_robot = self._next_robot, None
        if robot is not None:
            self._use(robot)
        if self._after is Phase.INACTIVE:
            self._enter(Phase.INACTIVE)

    # --- words

    def _name(self) -> str:
        return self._motion.name if self.phase is Phase.RUNNING and self._motion is not None else self.phase.value

    def _enter(self, phase: Phase, reason: str = "") -> None:
        self.state = phase
        if phase is Phase.BRAKING:
            reason = self._reason
        self._announced.append(Announce(phase, self._name(), reason))


def _ordered(state: State, names: tuple[str, ...]) -> State:
    order = joint_order(names, state.joint_names, "joint state")
    return State(names, state.q[order], state.dq[order], state.tau[order], state.stamp)
