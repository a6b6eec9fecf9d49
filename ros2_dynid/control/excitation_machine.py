# SPDX-License-Identifier: Apache-2.0

"""The excitation's motion as a state machine: to the start, rest there, along the trajectory, and to rest again.

One thread owns it: services, parameters, descriptions and joint states reach it as events, one after the other. What
leaves goes through the motion gate. It never moves a robot that it does not watch, and after a stop nothing but braking
leaves until the robot is at rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ros2_dynid.control.joint_trust import TRUST, JointStateArrived
from ros2_dynid.control.motion_gate import ApprovedStop, ApprovedTrajectory, MotionGate
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings, fastest_joint, motion_limits
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.stop import Brake, approach_reference, braking, motion_extent, start_time, stop_with_margin
from ros2_dynid.control.supervisor import Supervisor
from ros2_dynid.control.transitions import Event, StateMachine, Table
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.robot import Array, Robot

AGAIN = 0.1
"""Time [s] after which a stop that is not followed is sent again: it may have been lost on the way."""
ASTRAY = 0.05
"""Distance [rad or m] from a stop's motion, beside what the robot may have been off, that shows it is not followed."""
REACHED = 0.3
"""Time [s] after the end of a stop after which a robot that still moves gets another one."""
PATIENCE, STUBBORN = 2.0, 10.0
"""Time [s] after the end of a motion by which the robot must be seen at rest: without joint states there is no point in
waiting longer; a robot that is seen to move is stopped again and again for STUBBORN seconds. Then it is said."""
MOVED = 0.02
"""Distance [rad or m] that the robot may be from where its way to the start was checked."""


class Phase(Enum):
    """What the machine does."""

    INACTIVE = "inactive"
    NO_ROBOT = "no robot"
    IDLE = "idle"
    APPROACH = "approach"
    SETTLE = "settle"
    RUNNING = "running"
    BRAKING = "braking"
    DONE = "done"
    ABORTED = "aborted"


SET_BACK = 0.2
"""A clock that goes back by more than this [s] was set: simulated time that starts again."""
BETWEEN_MOTIONS = ("approach_speed", "settle", "deceleration", "delay")
"""Settings that must not change while the robot moves."""
MOVING = frozenset((Phase.APPROACH, Phase.SETTLE, Phase.RUNNING))
RESTING = frozenset((Phase.IDLE, Phase.DONE, Phase.ABORTED))


@dataclass(frozen=True, eq=False)
class CheckedMotion:
    """A motion that was checked: the way to the start from q, shape (n,), and the trajectory, called `name`.

    stops: how many there had been when it was prepared: one that came meanwhile holds. extent: its least and largest
    positions, shape (n,) each.
    """

    name: str
    robot: Robot
    q: Array
    way: ApprovedTrajectory
    run: ApprovedTrajectory
    stops: int
    extent: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class ExcitationEvent:
    """Something that happened at time `now` [s]."""

    now: float


@dataclass(frozen=True, eq=False)
class ActivateExcitation(ExcitationEvent):
    """The node becomes active."""


@dataclass(frozen=True, eq=False)
class DeactivateExcitation(ExcitationEvent):
    """The node becomes inactive, once the robot is at rest."""


@dataclass(frozen=True, eq=False)
class RobotChanged(ExcitationEvent):
    """There is a robot, or another one."""

    robot: Robot


@dataclass(frozen=True, eq=False)
class ParametersChanged(ExcitationEvent):
    """New settings."""

    settings: MotionSettings


@dataclass(frozen=True, eq=False)
class Start(ExcitationEvent):
    """Move."""

    motion: CheckedMotion


@dataclass(frozen=True, eq=False)
class Stop(ExcitationEvent):
    """Brake, for this reason."""

    reason: str = "stop was called"


@dataclass(frozen=True, eq=False)
class ExcitationTick(ExcitationEvent):
    """Time passes."""


@dataclass(frozen=True, eq=False)
class ConnectionProblem(ExcitationEvent):
    """The way to the controller is broken."""

    text: str


@dataclass(frozen=True, eq=False)
class GoalRefused(ExcitationEvent):
    """The controller refused a command, or gave it up; `number` is the gate's."""

    number: int
    text: str


_STAY = {phase: frozenset((phase,)) for phase in Phase}
_BRAKE = {phase: frozenset((Phase.BRAKING,)) for phase in MOVING}
TRANSITIONS: Table[Phase] = {
    ActivateExcitation: {Phase.INACTIVE: frozenset((Phase.NO_ROBOT, Phase.IDLE))},
    DeactivateExcitation: {
        **{phase: frozenset((Phase.INACTIVE,)) for phase in (*RESTING, Phase.NO_ROBOT, Phase.INACTIVE)},
        **_BRAKE,
        Phase.BRAKING: _STAY[Phase.BRAKING],
    },
    RobotChanged: {
        Phase.INACTIVE: _STAY[Phase.INACTIVE],
        **{phase: frozenset((Phase.IDLE,)) for phase in (*RESTING, Phase.NO_ROBOT)},
        **_BRAKE,
        Phase.BRAKING: _STAY[Phase.BRAKING],
    },
    ParametersChanged: _STAY,
    Start: {phase: frozenset((phase, Phase.APPROACH)) for phase in RESTING},
    Stop: {**_STAY, **_BRAKE},
    JointStateArrived: {
        **_STAY,
        **{phase: frozenset((phase, Phase.BRAKING)) for phase in MOVING},
        Phase.BRAKING: frozenset((Phase.BRAKING, Phase.ABORTED, Phase.INACTIVE)),
        Phase.ABORTED: frozenset((Phase.ABORTED, Phase.BRAKING)),
    },
    ExcitationTick: {
        **_STAY,
        Phase.APPROACH: frozenset((Phase.APPROACH, Phase.SETTLE, Phase.BRAKING)),
        Phase.SETTLE: frozenset((Phase.SETTLE, Phase.RUNNING, Phase.BRAKING)),
        Phase.RUNNING: frozenset((Phase.RUNNING, Phase.DONE, Phase.BRAKING)),
        Phase.BRAKING: frozenset((Phase.BRAKING, Phase.ABORTED, Phase.INACTIVE)),
    },
    ConnectionProblem: {**_STAY, **_BRAKE},
    GoalRefused: {**_STAY, **{phase: frozenset((phase, Phase.BRAKING)) for phase in MOVING}},
}
"""Where an event may lead from a phase; one that has no row there is refused, for the reason below."""
_WHY = {
    Phase.INACTIVE: ("the node is inactive", "activate it"),
    Phase.IDLE: ("the node is active already", "nothing is to be done"),
    Phase.DONE: ("the node is active already", "nothing is to be done"),
    Phase.ABORTED: ("the node is active already", "nothing is to be done"),
    Phase.NO_ROBOT: ("the robot is not known yet", "publish robot_description or set the parameter robot"),
    Phase.BRAKING: ("the robot is being stopped", "wait until it is at rest"),
}


@dataclass(frozen=True)
class Announce:
    """The phase for everybody: the trajectory's name while it runs; why it was stopped."""

    phase: Phase
    name: str
    reason: str = ""


@dataclass(frozen=True)
class ExcitationOutcome:
    """What an event led to: the answer to who sent it, and what is to be announced."""

    accepted: bool
    answer: str
    announced: tuple[Announce, ...] = ()


def checked_motion(
    name: str,
    robot: Robot,
    run: Reference,
    q: Array,
    settings: MotionSettings,
    limits: MotionLimits,
    stops: int = 0,
    check: Callable[[Array], None] | None = None,
) -> CheckedMotion:
    """Return the motion from q, shape (n,), to the start of `run` and along it, checked and ready to be sent.

    check: gets the positions on the way to the start, shape (N, n), and raises to refuse it. Both parts begin at rest
    with a first point so far ahead that a controller which is off by the tracking tolerance gets there slowly.
    """
    run = run.ordered(robot.active_names)
    if not np.all(np.isfinite(q)):
        raise InputError("there are no joint states of all joints", "check the topic joint_states")
    outside = np.maximum(limits.lower - q, q - limits.upper)
    if np.any(outside > settings.overshoot):
        j = int(np.argmax(outside))
        raise InputError(f"joint {robot.active_names[j]!r} is {outside[j]:.3g} outside of its limits", "move it inside")
    share = settings.approach_speed
    way = approach_reference(robot.active_names, q, run.q[0], share * limits.velocity, share * limits.acceleration)
    if check is not None:
        check(way.q)
    ahead = start_time(limits, settings.tracking, share)
    ends = [0, len(way.t) - 1]  # a quintic between its ends is the way itself
    assert way.dq is not None and way.ddq is not None
    whole = reference(way.joint_names, way.t[ends] + ahead, way.q[ends], way.dq[ends], way.ddq[ends])
    way_there, along = ApprovedTrajectory(whole, limits, q), ApprovedTrajectory(run.shifted(ahead), limits)
    return CheckedMotion(name, robot, q, way_there, along, stops, motion_extent(whole, run))


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
        self._motion: CheckedMotion | None = None
        self._until = self._slack = 0.0
        self._clock = -np.inf
        self.stops = 0
        self._reason = ""
        self._no_limits: tuple[str, str, str | None] | None = None
        self._braked_at = self._stopping_at = 0.0
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
        self._until, self._braked_at, self._stopping_at = (
            at - shift for at in (self._until, self._braked_at, self._stopping_at)
        )

    def _refused(self, why: str) -> ExcitationOutcome:
        return ExcitationOutcome(False, why, tuple(self._announced))

    def _refusal(self) -> str:
        under_way = f"a motion is under way ({self._name()})", "wait for its end or stop it"
        return "; ".join(_WHY.get(self.state, under_way))

    def _take(self, event: Event) -> ExcitationOutcome:
        self._clock = max(self._clock, event.now)
        answer = self._answer(event)
        return ExcitationOutcome(True, answer, tuple(self._announced))

    def _answer(self, event: Event) -> str:
        now = event.now
        match event:
            case JointStateArrived():
                self._on_state(event)
            case ExcitationTick():
                self._on_tick(now)
            case Start():
                return self._start(event.motion, now)
            case Stop():
                return self._on_stop(event.reason, now)
            case ConnectionProblem():
                if self.phase in MOVING:
                    self._stop(event.text, now)
            case GoalRefused():
                if event.number == self._gate.number:
                    self._on_refused(event.text, now)
            case ActivateExcitation():
                self._enter(Phase.NO_ROBOT if self.robot is None else Phase.IDLE)
            case DeactivateExcitation():
                self._on_deactivate(now)
            case RobotChanged():
                self._on_robot(event.robot, now)
            case ParametersChanged():
                self._on_settings(event.settings)
        return ""

    def _on_stop(self, reason: str, now: float) -> str:
        self.stops += 1
        if self.phase is Phase.BRAKING:
            return "already stopping"
        if self.phase not in MOVING:
            return self._not_moving(now)
        self._stop(reason, now)
        return "stopping"

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
        """Watch by the new settings at once; how to move is not changed in the middle of a motion."""
        changed = [name for name in BETWEEN_MOTIONS if getattr(settings, name) != getattr(self.settings, name)]
        if self.moving and changed:
            raise InputError(f"{changed[0]} takes effect with the next start", "set it when nothing moves")
        self.settings = settings
        if self.robot is not None and self.limits is not None and self._watch is not None:
            if "deceleration" in changed:
                self.limits = motion_limits(self.robot, settings)
            self._watch.use(self.limits, settings)

    def _start(self, motion: CheckedMotion, now: float) -> str:
        if motion.stops != self.stops:
            raise InputError("stop was called while the start was prepared", "start again")
        if motion.robot is not self.robot:
            raise InputError("the robot has changed since the trajectory was planned", "plan again")
        q = self.where(now)
        assert self._watch is not None and self.limits is not None
        if np.any(np.abs(q - motion.q) > MOVED):
            raise InputError("the robot has moved since its way to the start was checked", "start again")
        if now - self._watch.jumped_at < TRUST:
            raise InputError("positions have just jumped: they may be wrong", f"check them, and wait {TRUST:g} s")
        if not self._watch.at_rest():
            raise InputError("the robot is not at rest, or has not been seen for long enough", "start again at rest")
        sent = self._gate.send(motion.way, self.limits, q, self.settings.delay)
        self._motion, self._watch.jumped = motion, False
        self._follow(motion.way.points, sent)
        self._after = Phase.ABORTED
        self._enter(Phase.APPROACH)
        begins = self._watch.until + self.settings.settle - now
        return f"{motion.name} begins in {begins:.1f} s"

    def _follow(self, points: Reference, sent: float) -> None:
        assert self._watch is not None
        self._watch.follow(points, sent + self.settings.delay)
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
        elif min(now, watch.last.measured_at) >= self._until:
            self._part_ended(now)

    def _part_ended(self, now: float) -> None:
        assert self._watch is not None and self._motion is not None and self.limits is not None
        if self.phase is Phase.APPROACH:
            self._until = now + self.settings.settle
            self._enter(Phase.SETTLE)
        elif self.phase is Phase.SETTLE:
            try:
                sent = self._gate.send(self._motion.run, self.limits, self._watch.last.state.q, self.settings.delay)
            except DynidError as error:
                self._stop(str(error), now)
                return
            self._follow(self._motion.run.points, sent)
            self._enter(Phase.RUNNING)
        elif self._watch.at_rest():
            self._enter(Phase.DONE)
        elif now > self._until + PATIENCE:
            self._stop("the robot does not come to rest at the end of the trajectory", now)

    def _on_refused(self, text: str, now: float) -> None:
        if self.phase in MOVING:
            self._stop(text, now)
        elif self.phase is Phase.BRAKING and now > self._braked_at + AGAIN:
            self._send_brake(now)

    # --- braking

    def _stop(self, reason: str, now: float) -> None:
        self._reason = reason
        self._send_brake(now)
        self._stopping_at = self._until  # the patience with a robot that does not rest begins when it should
        self._enter(Phase.BRAKING)

    def _send_brake(self, now: float) -> None:
        """Send a stop from what is measured, or from the reference if that is all there is.

        The velocity is the reference's while the robot follows it: measured ones are noisy.
        """
        watch, limits = self._watch, self.limits
        assert watch is not None and limits is not None
        error = watch.error(now)
        q, dq = watch.reference(now)
        follows = self.phase in MOVING and bool(np.all(error <= self.settings.tracking))
        known, speed_error = watch.known(now) and not watch.jumped, np.zeros_like(q)
        known = known and (follows or watch.moves_steadily())
        if known:
            if not follows:
                measured = watch.velocity_seen()
                dq, speed_error = measured, np.abs(measured - dq)
            seen = watch.last.state.q
            since = min(max(now - watch.last.measured_at, 0.0), self.settings.stale)
            q = limits.not_beyond(seen + since * dq, seen)
        else:
            error = np.minimum(error, self.settings.tracking)
        dense = known and bool(np.all(np.isnan(watch.last.state.dq)))
        # A robot that is not seen was not further off than the tolerance when it last was, and may have stood since.
        doubt = np.zeros_like(q) if known else self.settings.tracking + watch.unseen(now)

        def brake_within(bounds: MotionLimits) -> Brake:
            lead = self.settings.lead
            return braking(bounds, q, dq, error, lead, speed_error=speed_error, doubt=doubt, dense=dense)

        kept = None
        if known and follows and self._motion is not None:  # a robot that is not seen needs all the room there is
            kept = stop_with_margin(limits, self._motion.extent, brake_within)
        if kept is not None:
            brake, stop = kept
            sent = self._gate.send_stop(stop)
        else:
            brake, sent = self._stop_within_limits(limits, brake_within)
        self._braked_at, self._slack = sent, float(np.max(error + doubt)) + ASTRAY
        watch.follow(brake.expected, sent, stop=True)
        self._until = watch.until

    def _stop_within_limits(
        self, limits: MotionLimits, brake_within: Callable[[MotionLimits], Brake]
    ) -> tuple[Brake, float]:
        """Send a stop that may use all the room to the limits, and return it and when [s]."""
        brake = brake_within(limits)
        try:
            return brake, self._gate.send_stop(ApprovedStop(brake.points, brake.expected, limits))
        except DynidError as why:  # no stop keeps the limits from there
            return brake, self._gate.force_stop(brake.points, limits, str(why))

    def _on_braking(self, now: float) -> None:
        watch = self._watch
        assert watch is not None
        known = watch.known(now)
        late = watch.last.measured_at - self._until if known else 0.0
        if known and late >= 0 and watch.at_rest() and (late > PATIENCE or not watch.may_go_on()):
            self._rested("")
        elif not known and now > self._until + PATIENCE:
            self._rested("joint states are missing: it is not known whether the robot is at rest")
        elif known and watch.last.measured_at > self._stopping_at + STUBBORN:
            self._rested("the robot does not come to rest: use its emergency stop")
        elif known and watch.last.measured_at > self._braked_at + AGAIN:  # by its own time it has had the stop
            lost = not watch.jumped and float(watch.error(now).max()) > self._slack
            if lost or (watch.last.measured_at > self._until + REACHED and watch.moves()):
                self._send_brake(now)

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
