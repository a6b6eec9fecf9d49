# SPDX-License-Identifier: Apache-2.0

"""The feedforward's moving part: a state machine without ROS that decides which torque leaves when.

One thread owns it and gives it events in order; every time is from one clock [s]. Whatever changes, a model, a load,
an option, the reference, the torque goes over from what was sent last: tau = target + (1 - s) (last - target then),
s rising from 0 to 1 over the ramp, so a change within a ramp begins where the first one has led to. Every torque leaves
through one limiter (control/torque_limiter.py), and every ending is gravity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ros2_dynid.control.drive_temperatures import FrictionTemperatures
from ros2_dynid.control.effort_command import EffortCommand
from ros2_dynid.control.feedforward import FeedforwardModel, Filler, TorqueCoefficients, complete_torque, split_torque
from ros2_dynid.control.feedforward_events import (
    SENDING,
    ActivateFeedforward,
    AskFiller,
    Background,
    CarriedModel,
    DeactivateFeedforward,
    FeedforwardEvent,
    FeedforwardOutcome,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardStatus,
    FeedforwardTick,
    MeasuredState,
    MeasuredTemperature,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    News,
    OptionsChanged,
    OutputChanged,
    StopFeedforward,
    StreamedPoint,
    UnreadableReference,
)
from ros2_dynid.control.held_load import Load, check_holdable, checked_load, load_parameters, reachable_poses
from ros2_dynid.control.joint_trust import JointTrust
from ros2_dynid.control.motion_gate import ApprovedStop, StreamGate, check_start, check_way
from ros2_dynid.control.motion_limits import MotionLimits, fastest_joint, known_limits
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.rest_efforts import RestEfforts, judge_rest
from ros2_dynid.control.stop import braking
from ros2_dynid.control.torque_limiter import LONGEST_STEP, EffortLimits, TorqueLimiter, effort_limits, known_efforts
from ros2_dynid.control.torque_ramp import TorqueRamp
from ros2_dynid.control.transitions import Table, check_transition
from ros2_dynid.dynamics.friction_law import at_temperature
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.efforts import CHOICES, ErrorBars, added_by_joint, declare_added_effort
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.model.same_robot import check_same_robot

ENDING_RAMP = 0.5
"""Longest ramp [s] of an ending that somebody waits for: those who stop a node give it about a second."""
LONGEST_ENDING = 2.5
"""An ending is over after this time [s] of torques at the latest; by the least rate it takes 2 s."""
REST_SPEED = 0.02
"""A joint slower than this [rad/s or m/s] is at rest, as the excitation takes it."""
HALTED = "stopped: references are refused until it is activated again"
NOTHING = FeedforwardOutcome()

A, I, R = "accepted", "ignored", "refused"
_ALL = tuple(FeedforwardState)
_NEEDS_MODEL = {FeedforwardState.NO_MODEL: R, FeedforwardState.NO_LIMITS: R, FeedforwardState.UNDECLARED: R}
_NEEDS_ALL = {**_NEEDS_MODEL, FeedforwardState.STOPPED: R, FeedforwardState.ENDING: R}

LEGAL: dict[type[FeedforwardEvent], dict[FeedforwardState, str]] = {
    NewModel: dict.fromkeys(_ALL, A),
    NewPayload: {**dict.fromkeys(_ALL, A), **_NEEDS_MODEL},
    NewDescription: dict.fromkeys(_ALL, A),
    NewReference: {**dict.fromkeys(_ALL, A), **_NEEDS_ALL},
    StreamedPoint: {**dict.fromkeys(_ALL, A), **_NEEDS_ALL},
    UnreadableReference: dict.fromkeys(_ALL, A),
    StopFeedforward: dict.fromkeys(_ALL, A),
    MeasuredState: dict.fromkeys(_ALL, A),
    MeasuredTemperature: dict.fromkeys(_ALL, A),
    FeedforwardTick: {
        **dict.fromkeys(_ALL, A),
        FeedforwardState.STOPPED: I,
        FeedforwardState.NO_MODEL: I,
        FeedforwardState.NO_LIMITS: I,
        FeedforwardState.UNDECLARED: I,
    },
    Background: dict.fromkeys(_ALL, A),
    AskFiller: {**dict.fromkeys(_ALL, A), **_NEEDS_MODEL},
    OptionsChanged: dict.fromkeys(_ALL, A),
    OutputChanged: dict.fromkeys(_ALL, A),
    ActivateFeedforward: {**dict.fromkeys(_ALL, I), FeedforwardState.STOPPED: A, FeedforwardState.ENDING: R},
    DeactivateFeedforward: {**dict.fromkeys(_ALL, A), FeedforwardState.STOPPED: I},
}
"""What becomes of an event in a state. An accepted one may still be refused for what it holds."""

Ways = dict[FeedforwardState, frozenset[FeedforwardState]]
_WITHOUT_TORQUE = frozenset((*_NEEDS_MODEL, FeedforwardState.WAITING))
_FOLLOWED = (FeedforwardState.FOLLOWING, FeedforwardState.STREAMING)
_STAY: Ways = {state: frozenset((state,)) for state in _ALL}
_JUDGE: Ways = {  # efforts measured at rest may contradict what is declared
    **_STAY,
    FeedforwardState.WAITING: frozenset((FeedforwardState.WAITING, FeedforwardState.UNDECLARED)),
}
_SETTLE: Ways = {**_STAY, **dict.fromkeys(_WITHOUT_TORQUE, _WITHOUT_TORQUE)}
_END: Ways = {**_STAY, **{state: frozenset((FeedforwardState.FADING,)) for state in _FOLLOWED}}
_TAKE: Ways = {
    **_STAY,
    **{
        state: _JUDGE[state] | {FeedforwardState.WAITING, *SENDING} - {FeedforwardState.ENDING}
        for state in (FeedforwardState.WAITING, *SENDING)
        if state is not FeedforwardState.ENDING
    },
}

TRANSITIONS: Table[FeedforwardState] = {
    NewModel: _SETTLE,
    NewPayload: _JUDGE,
    NewDescription: {
        **_SETTLE,
        **{state: frozenset((state, FeedforwardState.FADING)) for state in SENDING - {FeedforwardState.ENDING}},
    },
    NewReference: _TAKE,
    StreamedPoint: _TAKE,
    UnreadableReference: _END,
    StopFeedforward: _END,
    MeasuredState: _JUDGE,
    MeasuredTemperature: _STAY,
    FeedforwardTick: {
        **_TAKE,
        FeedforwardState.ENDING: frozenset((FeedforwardState.ENDING, FeedforwardState.STOPPED, *_WITHOUT_TORQUE)),
    },
    Background: _STAY,
    AskFiller: _JUDGE,
    OptionsChanged: _SETTLE,
    OutputChanged: {
        **_SETTLE,
        **{state: frozenset((state, FeedforwardState.ENDING)) for state in SENDING},
        FeedforwardState.ENDING: frozenset((FeedforwardState.ENDING, FeedforwardState.FADING)),
    },
    ActivateFeedforward: {**_STAY, FeedforwardState.STOPPED: _WITHOUT_TORQUE},
    DeactivateFeedforward: {
        FeedforwardState.STOPPED: _STAY[FeedforwardState.STOPPED],
        **{state: frozenset((FeedforwardState.STOPPED,)) for state in _WITHOUT_TORQUE},
        **{state: frozenset((FeedforwardState.ENDING,)) for state in SENDING},
    },
}
"""Where an event may lead; what leads elsewhere is an error."""

REFUSALS = {
    FeedforwardState.STOPPED: ("the node is not active", "activate it"),
    FeedforwardState.NO_MODEL: ("there is no model yet", "load one, or publish base_parameters"),
    FeedforwardState.NO_LIMITS: (
        "the effort limits are not known",
        "publish robot_description, or set the parameter robot or effort_limits",
    ),
    FeedforwardState.UNDECLARED: (
        "what the robot itself adds to a commanded effort is not declared",
        f"set robot_adds to {CHOICES}, or drives: in the robot file",
    ),
    FeedforwardState.ENDING: ("the feedforward is ending", "wait until it has stopped"),
}


class FeedforwardMachine:
    """The feedforward of one robot; `handle` takes an event, `status` and `news` tell of it."""

    def __init__(self, settings: FeedforwardSettings | None = None, stream: bool = False) -> None:
        """Begin stopped; `stream`: torques are sent, not trajectories."""
        self.status = FeedforwardStatus()
        self._settings, self._stream = settings or FeedforwardSettings(), stream
        self._state = FeedforwardState.STOPPED
        self._after = FeedforwardState.STOPPED  # where an ending leads to
        self._left = self._ticked = 0.0  # time that an ending still has, and when it was last looked at
        self._described: Robot | None = None
        self._limited: Robot | None = None  # the last one known that gives effort limits
        self._robot: Robot | None = None
        self._names: tuple[str, ...] = ()
        self._chi = np.empty(0)
        self._load: Load | None = None
        self._model: FeedforwardModel | None = None
        self._bars: ErrorBars | None = None
        self.carried: CarriedModel | None = None
        self._retired = ""  # why the model only holds gravity, if it is one of another robot
        self._output = TorqueRamp()
        self._motion: MotionLimits | None = None
        self._stream_gate: StreamGate | None = None
        self._passed_on: tuple[Reference, float] | None = None  # the last trajectory that was passed on, and its begin
        self._halted = False  # by a stop, until it is activated again
        self._command: EffortCommand | None = None  # None while it is not declared what the robot adds
        self._rest_efforts = RestEfforts()
        self._rest_judged, self._contradiction = False, ""
        self._poses = np.empty((0, 0))
        self._trust = JointTrust()
        self._fresh = False
        self._temperatures = FrictionTemperatures()
        self._place: tuple[float, Array] | None = None  # when and where a reference was last
        self._coefficients: tuple[float, TorqueCoefficients] | None = None
        self._points: tuple[Reference, float] | None = None
        self._pending: tuple[Reference, float] | None = None
        self._streamed = -np.inf
        self._due = np.inf
        self._news: list[News] = []
        self._said: set[str] = set()  # in this state
        handlers: dict[type[FeedforwardEvent], Callable[..., FeedforwardOutcome]] = {
            NewModel: self._on_model,
            NewPayload: self._on_payload,
            NewDescription: self._on_description,
            NewReference: self._on_reference,
            StreamedPoint: self._on_point,
            UnreadableReference: self._on_unreadable,
            StopFeedforward: self._on_stop,
            MeasuredState: self._on_state,
            MeasuredTemperature: self._on_temperature,
            FeedforwardTick: self._on_tick,
            Background: self._on_background,
            AskFiller: self._on_filler,
            OptionsChanged: self._on_options,
            OutputChanged: self._on_output,
            ActivateFeedforward: self._on_activate,
            DeactivateFeedforward: self._on_deactivate,
        }
        self._rows = {
            state: {kind: (LEGAL[kind][state], handlers[kind]) for kind in LEGAL} for state in FeedforwardState
        }
        self._row = self._rows[self._state]

    @property
    def state(self) -> FeedforwardState:
        """What it does now."""
        return self._state

    @property
    def robot(self) -> Robot | None:
        """The robot of the model, else the one described."""
        return self._robot or self._described

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of that robot; none while it is not known."""
        return self._names

    @property
    def has_model(self) -> bool:
        """Whether there is a model to predict with."""
        return self._model is not None

    @property
    def splitting(self) -> bool:
        """Whether torques need the background's coefficients."""
        return self._settings.options.split

    @property
    def streaming(self) -> bool:
        """Whether torques are streamed, not filled into trajectories."""
        return self._stream

    @property
    def limits(self) -> EffortLimits | None:
        """The limits of what leaves, None while they are not known."""
        return self._output.limits

    @property
    def due(self) -> float:
        """When [s] the next FeedforwardTick is wanted; infinite if nothing is to be sent by itself."""
        return self._due

    def handle(self, event: FeedforwardEvent, now: float) -> FeedforwardOutcome:
        """Take an event at `now` [s]; a refusal is an outcome, too."""
        legal, handler = self._row[type(event)]
        if legal == I:
            return NOTHING
        if legal == R:
            return FeedforwardOutcome(refused="; ".join(self._refusal()))
        before = self._state
        try:
            outcome = handler(event, now)
        except DynidError as error:
            outcome = FeedforwardOutcome(refused=str(error))
        check_transition(TRANSITIONS, type(event), before, self._state)
        return outcome

    def predicted(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque, shape (n,), that the model and the load expect of a motion, whatever the options."""
        if self._model is None:
            raise InputError(*REFUSALS[FeedforwardState.NO_MODEL])
        rigid = self._model.rigid(q, dq, ddq)
        return rigid + self._model.friction(dq, self._settings.options.smoothing, rigid)

    @property
    def has_news(self) -> bool:
        """Whether there is something to say."""
        return bool(self._news)

    def news(self) -> list[News]:
        """Return what has changed since the last call, in words."""
        news, self._news = self._news, []
        return news

    # --- models, loads, descriptions

    def _on_model(self, event: NewModel, now: float) -> FeedforwardOutcome:
        robot = event.robot
        if self._described is not None:
            check_same_robot(self._described, robot, event.source)
        elif self._robot is not None and self._state is not FeedforwardState.STOPPED:
            check_same_robot(self._robot, robot, event.source)
        if self._robot is not None and self._robot.active_names != robot.active_names:
            if self._state in SENDING:
                raise InputError("torques of a robot with other joints are being sent", "deactivate first")
            self._drop_model()
        if not np.isfinite(event.chi).all():
            raise InputError("the model holds a parameter that is not finite", "identify again", event.source)
        limiter = self._new_limiter(robot, self._settings)
        self._check_declaration(robot, limiter)
        load = None if self._retired else self._load
        model = self._checked_model(robot, event.chi, load, now, "the model", "load this robot's model", event.source)
        if self._trust.measured is not None and self._trust.measured.joint_names != robot.active_names:
            self._forget_motion()  # of a robot that was described before
        self._robot, self._chi, self._load, self._model = robot, event.chi, load, model
        self._bars = event.bars
        self._temperatures.use(robot)
        self._carry(now)
        self._retired = ""
        if self._limits_of(robot) is robot:  # no description has given any
            self._keep_limits(robot)
        self._take_limiter(limiter)
        self._motion = self._known_motion(robot)
        self._rest_judged, self._contradiction = False, ""
        self._poses = reachable_poses(self._described or robot)
        self._coefficients = None
        self._output.change_over()
        self._news.append(News(f"model of {robot.name} from {event.source}"))
        self._settle(now)
        return NOTHING

    def _checked_model(
        self, robot: Robot, chi: Array, load: Load | None, now: float, what: str, hint: str, source: str = ""
    ) -> FeedforwardModel:
        """Return the model with the load, or refuse it where the robot could not hold it."""
        bare = FeedforwardModel(robot, chi)
        loaded = chi if load is None else chi + load_parameters(robot, load, len(chi))
        model = bare if load is None else FeedforwardModel(robot, loaded, bare)
        names = robot.active_names
        own = known_efforts(names, (0.0,), self._limits_of(robot))
        given = known_efforts(names, self._settings.efforts, None)
        effort = np.where(np.isfinite(own) & np.isfinite(given), np.maximum(own, given), np.minimum(own, given))
        q = (
            self._trust.measured.q
            if self._is_fresh(now) and self._trust.measured and self._trust.measured.joint_names == names
            else None
        )
        poses = self._poses if self._robot is robot else reachable_poses(self._described or robot)
        try:
            check_holdable(model, None if load is None else bare, effort, q, poses, what, hint)
        except InputError as error:
            raise InputError(error.what, error.hint, source or None) from None
        return model

    def _on_payload(self, event: NewPayload, now: float) -> FeedforwardOutcome:
        self._usable()
        assert self._robot is not None
        load = checked_load(event.load)
        if not 1 <= load.joint <= self._robot.n:
            raise InputError(
                f"there is no joint {load.joint}", "give the load at a link of the robot", self._robot.name
            )
        kept = load if load.mass else None
        self._model = self._checked_model(
            self._robot, self._chi, kept, now, "the payload", "give its true mass [kg] and centre [m]"
        )
        self._load = kept
        self._carry(now)
        self._coefficients = None
        self._output.change_over()
        self._news.append(News(f"payload of {load.mass:g} kg" if kept else "payload taken off"))
        return NOTHING

    def _on_description(self, event: NewDescription, now: float) -> FeedforwardOutcome:
        if self._robot is not None:
            try:
                check_same_robot(event.robot, self._robot, "robot_description")
            except InputError as error:
                if self._state is FeedforwardState.STOPPED:
                    raise
                self._retire(str(error), now)
                self._describe(event.robot)
                self._settle(now)
                return NOTHING
        self._describe(event.robot)
        self._retired = ""
        if self._robot is not None:
            self._motion = self._known_motion(self._robot)
            self._poses = reachable_poses(event.robot)
            limiter = self._new_limiter(self._robot, self._settings)
            if limiter is not None and self._output.limiter is None:  # the limits come after the model: can it be true?
                try:
                    self._checked_model(self._robot, self._chi, self._load, now, "the model", "load this robot's model")
                except InputError as error:
                    self._drop_model()
                    self._settle(now)
                    raise error
            self._take_limiter(limiter)
        self._settle(now)
        return NOTHING

    def _describe(self, robot: Robot) -> None:
        """Take the description; one without effort limits leaves those known for the same joints."""
        self._described = robot
        self._keep_limits(robot)

    def _keep_limits(self, robot: Robot) -> None:
        if np.isfinite(known_efforts(robot.active_names, (0.0,), robot)).all():
            self._limited = robot

    def _limits_of(self, robot: Robot) -> Robot:
        """Return who gives the effort limits: base_parameters have none, a description or a model file may."""
        kept = self._limited
        return kept if kept is not None and kept.active_names == robot.active_names else robot

    def _known_motion(self, robot: Robot) -> MotionLimits:
        """Return the limits of the motion: of the description, of the model, or of who gives the effort limits."""
        return known_limits(self._described or robot, robot, self._limits_of(robot))

    def _retire(self, reason: str, now: float) -> None:
        """Use the model no more: while torques are sent it still holds against gravity."""
        self._say(reason, warning=True)
        self._pending = None
        if self._state in SENDING:
            self._retired = reason
            if self._state is not FeedforwardState.ENDING:
                self._go_over(FeedforwardState.FADING, now)
        else:
            self._drop_model()

    def _carry(self, now: float) -> None:
        """Tell what the robot weighs now: others read it at any time."""
        assert self._robot is not None
        chi = self._chi if self._load is None else self._chi + load_parameters(self._robot, self._load, len(self._chi))
        self.carried = CarriedModel(self._robot, chi, self._bars, chi)
        self._temperatures.restart(self._robot)
        self._warm_up(now)

    def _on_temperature(self, event: MeasuredTemperature, now: float) -> FeedforwardOutcome:
        if event.temperature.shape != (len(event.joint_names),):
            what = f"{event.temperature.size} temperatures for {len(event.joint_names)} joints"
            raise InputError(what, "give one for each joint")
        for wrong in self._temperatures.take(event.joint_names, event.temperature, now):
            self._say(wrong, warning=True)
        self._warm_up(now)
        return NOTHING

    def _warm_up(self, now: float) -> None:
        """Bring friction to the temperatures of the drives, if it depends on them and they have changed."""
        if self._model is None or self._robot is None or self.carried is None:
            return
        changed = self._temperatures.changed(self._robot, now, self._settings.temperature_stale)
        if changed is None:
            return
        T, much = changed
        self._model = self._model.at_temperature(T)
        carried = self.carried
        self.carried = CarriedModel(*at_temperature(self._robot, carried.cold, T), carried.bars, carried.cold)
        if much:
            self._output.change_over()

    def _tell_missing(self) -> None:
        """Say which temperatures are missing, once, now that torques need them."""
        self._news += [News(text, warning=True) for text in self._temperatures.untold(self._names)]

    def _drop_model(self) -> None:
        self._model = self._robot = self._motion = self._command = self._load = self.carried = None
        self._output.use(None)
        self._temperatures.drop()
        self._retired = ""
        self._forget_motion()  # the next model may have other joints

    def _forget_motion(self) -> None:
        """Forget where the robot was, and where it was to go."""
        self._pending = self._place = self._passed_on = None
        self._trust.forget()
        self._rest_efforts.forget()
        self._rest_judged, self._contradiction = False, ""

    def _new_limiter(self, robot: Robot, settings: FeedforwardSettings) -> TorqueLimiter | None:
        """Return the limiter for torques of this robot, or None while effort limits are not known."""
        names = robot.active_names
        if settings.command_names:
            joint_order(names, settings.command_names, "parameter joint_order")
        effort = known_efforts(names, settings.efforts, self._limits_of(robot))
        if len(settings.rates) not in (1, len(names)):
            effort_limits(names, effort, settings.rates, settings.options.ramp)  # refuses with the reason
        if not np.isfinite(effort).all():
            return None
        limits = effort_limits(names, effort, settings.rates, settings.options.ramp)
        return TorqueLimiter(limits, settings.command_names)

    def _take_limiter(self, limiter: TorqueLimiter | None) -> None:
        """Use another limiter; while torques are sent the one there is stays, if the new limits are not known."""
        if limiter is not None or self._state not in SENDING:
            self._output.use(limiter)
            self._command = self._new_command(self._robot, limiter)

    def _new_command(self, robot: Robot | None, limiter: TorqueLimiter | None) -> EffortCommand | None:
        """Return what turns torques into commands: by the parameter, else the model, else the description."""
        for one in (robot, self._described):
            if robot is not None and one is not None and limiter is not None and one.active_names == robot.active_names:
                adds = added_by_joint(declare_added_effort(one, self._settings.robot_adds))
                if adds is not None:
                    return EffortCommand(adds, limiter.limits.effort)
        return None

    def _check_declaration(self, robot: Robot, limiter: TorqueLimiter | None) -> None:
        """Refuse a model that declares something else than the commands that are being sent hold."""
        if self._state not in SENDING or self._command is None or limiter is None:
            return
        new, old = self._new_command(robot, limiter), self._command.adds
        if new is None:
            raise InputError(*REFUSALS[FeedforwardState.UNDECLARED])
        if not all(np.array_equal(getattr(new.adds, key), getattr(old, key)) for key in vars(old)):
            raise InputError("the model declares that the robot adds something else to an effort", "deactivate first")

    def _judge_rest(self) -> None:
        """Compare what is declared with efforts measured at rest, once, before the first torque."""
        measured = self._rest_efforts.measured
        if self._rest_judged or not self._settings.check_rest or measured is None:
            return
        if self._model is None or self._command is None or self._state in SENDING:
            return
        self._rest_judged = True
        command, smoothing = self._command, self._settings.options.smoothing
        found = judge_rest(self._model, command.adds, command.effort, smoothing, measured)
        self._contradiction = found.contradiction
        if found.contradiction or found.warning:
            self._news.append(News(found.contradiction or found.warning, warning=True))
        if found.contradiction and self._state is FeedforwardState.WAITING:
            self._enter(FeedforwardState.UNDECLARED)
            self._due = np.inf

    # --- settings, beginning and end

    def _on_options(self, event: OptionsChanged, now: float) -> FeedforwardOutcome:
        settings = event.settings
        limiter = None if self._robot is None else self._new_limiter(self._robot, settings)
        if limiter is None and self._output.limiter is not None and self._state is not FeedforwardState.STOPPED:
            raise InputError("without effort limits nothing can be sent", "give effort_limits above 0")
        if event.try_only:
            return NOTHING
        changed = settings.options != self._settings.options
        self._settings = settings
        self._take_limiter(limiter)
        if changed:
            self._output.change_over()
        self._settle(now)
        return NOTHING

    def _on_output(self, event: OutputChanged, now: float) -> FeedforwardOutcome:
        if event.stream == self._stream:
            return NOTHING
        self._stream = event.stream
        if self._state is FeedforwardState.ENDING:
            if event.stream and self._after is FeedforwardState.WAITING:
                self._go_over(FeedforwardState.FADING, now)
        elif self._state in SENDING:
            self._end(FeedforwardState.WAITING, now)
        elif event.stream:
            self._output.forget()
        self._pending = None
        self._settle(now)
        return NOTHING

    def _on_activate(self, event: ActivateFeedforward, now: float) -> FeedforwardOutcome:
        self._forget_motion()
        self._halted = False
        self._output.forget()
        self._enter(self._waiting_state())
        self._settle(now)
        return NOTHING

    def _on_deactivate(self, event: DeactivateFeedforward, now: float) -> FeedforwardOutcome:
        if self._state is FeedforwardState.ENDING:
            self._after = FeedforwardState.STOPPED
        elif self._state in SENDING:
            self._end(FeedforwardState.STOPPED, now)
        else:
            self._enter(FeedforwardState.STOPPED)
        self._due = now if self._state is FeedforwardState.ENDING else np.inf
        return NOTHING

    def _end(self, after: FeedforwardState, now: float) -> None:
        self._after, self._left, self._ticked = after, LONGEST_ENDING, now
        self._go_over(FeedforwardState.ENDING, now)

    # --- references and states

    def _on_reference(self, event: NewReference, now: float) -> FeedforwardOutcome:
        try:
            return self._take_reference(event, now)
        except InputError:
            self._abandon(now)
            raise

    def _take_reference(self, event: NewReference, now: float) -> FeedforwardOutcome:
        self._check_allowed()
        limiter, begin = self._usable(), event.begin
        points = event.points.ordered(limiter.limits.joint_names, "reference")
        if len(points.t) == 1 and self._stream:
            still = np.zeros_like(points.q[0])
            dq = still if points.dq is None else points.dq[0]
            ddq = still if points.ddq is None else points.ddq[0]
            return self._take_point(StreamedPoint(points.joint_names, points.q[0], dq, ddq), now)
        if begin + points.duration < now:
            raise InputError("the reference lies in the past", "give it a later stamp, or none to start at once")
        if not self._stream:
            return self._pass_on(points, begin, now)
        self._filler().check(points, None if self._trust.measured is None else self._trust.measured.q)
        if begin <= now:
            self._check_start(points, begin, now)
        self._pending = (points, begin)
        self._due = min(self._due, max(now, begin))
        return self._on_tick(FeedforwardTick(), now) if begin <= now else NOTHING

    def _pass_on(self, points: Reference, begin: float, now: float) -> FeedforwardOutcome:
        """Return a trajectory with efforts for a controller, which goes to its first point by itself."""
        assert self._motion is not None
        measured, ahead = self._known_state(now), begin + float(points.t[0]) - now
        try:
            self._check_start(points, begin, now)
        except InputError:
            if ahead <= 0:
                raise
            check_way(points, ahead, measured, self._motion)
        self._warm_up(now)
        self._tell_missing()
        filled = self._filler().filled(points, self._settings.point_rate, measured[0])
        self._passed_on = (filled, begin)
        return FeedforwardOutcome(trajectory=filled)

    def _check_start(self, points: Reference, begin: float, now: float) -> None:
        """Refuse a reference that is not where the robot is: its first point, or where it has come to by now."""
        assert self._motion is not None
        first = points.q[0], np.zeros_like(points.q[0]) if points.dq is None else points.dq[0]
        if now - begin > points.t[0]:
            first = points.at(now - begin)[:2]
        check_start(first, self._known_state(now), self._motion, self._settings.near)

    def _known_state(self, now: float) -> tuple[Array, Array]:
        """Return q and dq, shape (n,), as measured; a robot that is not seen follows no reference."""
        if self._trust.measured is None or not self._is_fresh(now):
            raise InputError("the position of the robot is not known", "check the topic joint_states")
        return self._trust.measured.q, self._trust.measured.dq

    def _on_point(self, event: StreamedPoint, now: float) -> FeedforwardOutcome:
        try:
            return self._take_point(event, now)
        except InputError:
            self._abandon(now)
            raise

    def _take_point(self, event: StreamedPoint, now: float) -> FeedforwardOutcome:
        self._check_allowed()
        limiter = self._usable()
        if event.joint_names != limiter.limits.joint_names:
            raise InputError(
                f"the streamed point is of {', '.join(event.joint_names)}",
                f"name {', '.join(limiter.limits.joint_names)}",
            )
        if not self._stream:
            raise InputError("torques are not streamed", "set output to effort")
        begins = self._state is not FeedforwardState.STREAMING
        if begins or self._stream_gate is None:
            assert self._motion is not None
            self._stream_gate = StreamGate(self._motion, self._known_state(now), self._settings.near)
        self._stream_gate.check(event.q, event.dq, event.ddq, now)
        if begins:
            self._go_over(FeedforwardState.STREAMING, now)
        fresh = self._note_freshness(now)
        self._pending = None
        self._streamed = now
        self._due = now + self._settings.timeout
        return self._follow(event.q, event.dq, event.ddq, fresh, now)

    def _on_unreadable(self, event: UnreadableReference, now: float) -> FeedforwardOutcome:
        self._abandon(now)
        return FeedforwardOutcome(refused=event.reason)

    def _abandon(self, now: float) -> None:
        """Follow nothing any more: a sender whose reference is refused is not trusted with the one before."""
        self._pending = None
        if self._state in (FeedforwardState.FOLLOWING, FeedforwardState.STREAMING):
            self._go_over(FeedforwardState.FADING, now)

    def _check_allowed(self) -> None:
        if self._halted:
            raise InputError("the feedforward was stopped", "deactivate and activate it to go on")

    def _on_stop(self, event: StopFeedforward, now: float) -> FeedforwardOutcome:
        if self._state is FeedforwardState.STOPPED:
            return FeedforwardOutcome(answer="nothing was moved by the feedforward: it is not active")
        self._halted = True
        following = self._state in (FeedforwardState.FOLLOWING, FeedforwardState.STREAMING) or self._pending is not None
        brake = None if self._stream else self._brake(now)
        self._abandon(now)
        self.tell()
        seen = self._seen_motion(now)
        if brake is not None:
            return FeedforwardOutcome(answer=f"braking: {seen}", trajectory=brake)
        if following:
            return FeedforwardOutcome(answer=f"going over to gravity: {seen}")
        return FeedforwardOutcome(answer=f"nothing was moved by the feedforward: {seen}")

    def _seen_motion(self, now: float) -> str:
        """Return in words what is measured of the robot's motion."""
        robot = self.robot
        if self._trust.measured is None or robot is None or not self._is_fresh(now):
            return "whether the robot moves is not known, joint states are missing"
        dq = self._trust.measured.dq
        if not np.isfinite(dq).all():
            return "whether the robot moves is not known, joint states have no velocities"
        return fastest_joint(robot, dq) if np.any(np.abs(dq) > REST_SPEED) else "the robot was at rest"

    def _brake(self, now: float) -> Reference | None:
        """Return a stop for the controller, or None if nothing is known to move.

        It begins where the robot is seen; with the velocity of what was passed on while the robot follows that.
        """
        motion, passed = self._motion, self._passed_on
        if motion is None or self._output.limiter is None:
            return None
        seen = self._trust.measured if self._is_fresh(now) else None
        if passed is not None and now < passed[1] + passed[0].duration:
            q, dq = passed[0].at(now - passed[1])[:2]
            error = np.full_like(q, self._settings.near)
        elif seen is not None and np.any(np.abs(np.nan_to_num(seen.dq)) > REST_SPEED):
            q, dq, error = seen.q, np.nan_to_num(seen.dq), np.zeros_like(seen.q)
        else:
            return None
        if seen is not None:
            error = np.abs(seen.q - q)
            if np.any(error > self._settings.near):
                dq = np.where(np.isfinite(seen.dq), seen.dq, dq)
            q = seen.q
        brake = braking(motion, q, dq, error, self._settings.lead, dense=True)
        try:
            ApprovedStop(brake.points, brake.expected, motion)
        except InputError as error_found:
            self._say(f"no stop keeps the limits: {error_found.what}", warning=True)
        self._passed_on = None
        if self._command is None:  # undeclared meanwhile: a stop without efforts is still a stop
            return brake.points
        return self._filler().filled_stop(brake.points)

    def _usable(self) -> TorqueLimiter:
        if self._retired:
            raise InputError(self._retired, "deactivate, and load the model of this robot")
        self._judge_rest()
        if self._output.limiter is None or self._waiting_state() is not FeedforwardState.WAITING:
            raise InputError(*self._refusal())
        return self._output.limiter

    def _on_state(self, event: MeasuredState, now: float) -> FeedforwardOutcome:
        self._warm_up(now)
        if event.joint_names != self._names:
            raise InputError(
                f"the joint state is of {', '.join(event.joint_names)}", f"read {', '.join(self._names) or 'none yet'}"
            )
        for what, values in (("positions", event.q), ("velocities", event.dq)):
            if values.shape != (len(self._names),):
                raise InputError(f"{values.size} {what} for {len(self._names)} joints", "give one for each joint")
        if wrong := self._trust.take(event, now, self._described or self._robot):
            self._say(wrong, warning=True)
        if self._trust.measured is event and not self._rest_judged and self._state not in SENDING:
            self._rest_efforts.take(event.q, event.dq, event.tau, now)
            if not self._rest_efforts.pending(now):
                self._judge_rest()
        return NOTHING

    def _is_fresh(self, now: float) -> bool:
        return self._trust.is_fresh(now, self._settings.stale)

    def _where(self, now: float) -> Array | None:
        """Return where the robot is, shape (n,): measured, or where its reference was last while states are stale."""
        if self._place is not None and self._place[0] > self._trust.arrival and not self._is_fresh(now):
            return self._place[1]
        return None if self._trust.measured is None else self._trust.measured.q

    # --- time

    def _on_tick(self, event: FeedforwardTick, now: float) -> FeedforwardOutcome:
        if not self._stream and self._state is not FeedforwardState.ENDING:
            self._due = np.inf
            return NOTHING
        fresh = self._note_freshness(now)
        if self._state is FeedforwardState.ENDING:
            return self._finish(now)
        if self._pending is not None and self._pending[1] <= now:
            self._begin_pending(*self._pending, now)
        if self._state is FeedforwardState.FOLLOWING and self._points is not None:
            points, begin = self._points
            if now - begin <= points.duration:
                self._due = now + self._settings.period
                return self._follow(*points.at(now - begin)[:3], fresh, now)
            self._go_over(FeedforwardState.FADING, now)
        if self._state is FeedforwardState.STREAMING:
            if now - self._streamed < self._settings.timeout:
                self._due = self._streamed + self._settings.timeout
                return NOTHING
            self._go_over(FeedforwardState.FADING, now)
        if self._state is FeedforwardState.WAITING:
            if not (self._settings.hold and self._is_fresh(now)) or self._rest_efforts.pending(now):
                self._due = self._waiting_due(now)
                return NOTHING
            self._enter(FeedforwardState.HOLDING)
            self._output.change_over()
        self._due = now + self._settings.period
        outcome = self._rest(now)
        if self._state is FeedforwardState.FADING and not self._output.ramping:
            self._enter(FeedforwardState.HOLDING)
        return outcome

    def _begin_pending(self, points: Reference, begin: float, now: float) -> None:
        """Follow the reference whose time has come, if the robot is there."""
        try:
            self._check_start(points, begin, now)
        except InputError as error:
            self._say(f"reference refused: {error}", warning=True)
            self._abandon(now)
            return
        self._points, self._pending = (points, begin), None
        self._go_over(FeedforwardState.FOLLOWING, now)

    def _finish(self, now: float) -> FeedforwardOutcome:
        """Send the next torque of an ending, the last one if it has reached gravity."""
        try:
            outcome = self._rest(now)
        except InputError as error:  # gravity there is no number: nothing more can be sent
            self._say(f"torques end without gravity: {error}", warning=True)
            outcome, self._left = NOTHING, 0.0
        self._left -= min(now - self._ticked, LONGEST_STEP)  # a pause of the computer brings no torque nearer
        self._ticked = now
        if self._output.settled or self._left <= 0:
            if self._retired:
                self._drop_model()
            after = self._after
            self._enter(FeedforwardState.STOPPED if after is FeedforwardState.STOPPED else self._waiting_state())
            self._settle(now)
        else:
            self._due = now + self._settings.period
        return outcome

    def _waiting_due(self, now: float) -> float:
        """Return when to look again while waiting: at a trajectory's start, or for a state to hold against gravity."""
        begin = np.inf if self._pending is None else self._pending[1]
        return min(begin, now + 0.01) if self._settings.hold else begin

    # --- torques

    def _follow(self, q: Array, dq: Array, ddq: Array, fresh: bool, now: float) -> FeedforwardOutcome:
        """Return the torque of a point of the reference; one without a finite torque ends the reference."""
        model, options = self._model, self._settings.options
        assert model is not None
        self._tell_missing()
        measured = self._trust.measured.q if fresh and self._trust.measured is not None else None
        before, self._place = self._place, (now, q)
        found = self._coefficients
        if options.split and not options.gravity_only and found is not None and now - found[0] <= self._settings.stale:
            tau = split_torque(model, options, found[1], dq, ddq, measured, self._command)
        else:
            tau = complete_torque(model, options, q, dq, ddq, measured, self._command)
        try:
            return self._let_out(tau, now)
        except InputError:
            self._pending = None
            self._place = before  # where the reference was last that had a torque: the ending needs a place
            if self._where(now) is not None and self._output.has_sent:
                self._go_over(FeedforwardState.FADING, now)
            else:
                self._enter(self._waiting_state())
                self._settle(now)
            raise

    def _rest(self, now: float) -> FeedforwardOutcome:
        """Return the torque against gravity where the robot is; nothing if that was never known."""
        place, command = self._where(now), self._command
        if place is None or self._model is None or command is None:
            return NOTHING
        return self._let_out(command.of(self._model, self._model.gravity(place), place), now)

    def _let_out(self, target: Array, now: float) -> FeedforwardOutcome:
        """Send the torque that the robot needs, shape (n,): every torque that is streamed leaves here."""
        ramp = self._settings.options.ramp
        ending = self._state is FeedforwardState.ENDING
        return FeedforwardOutcome(torque=self._output.send(target, now, min(ramp, ENDING_RAMP) if ending else ramp))

    # --- states

    def _go_over(self, state: FeedforwardState, now: float) -> None:
        if state is not self._state or state is FeedforwardState.FOLLOWING:
            self._output.change_over()
        self._enter(state)
        self._due = now

    def _enter(self, state: FeedforwardState) -> None:
        if state is not self._state:
            self._state, self._row = state, self._rows[state]
            self._said.clear()
            if state not in (FeedforwardState.NO_LIMITS, FeedforwardState.UNDECLARED, FeedforwardState.STOPPED):
                self._say(state.value)
        self.tell()

    def _settle(self, now: float) -> None:
        """Go to the state that model and limits allow, unless torques are being sent."""
        state = self._state
        if state in _NEEDS_MODEL or state is FeedforwardState.WAITING:
            self._enter(self._waiting_state())
            if self._state in (FeedforwardState.NO_LIMITS, FeedforwardState.UNDECLARED) and not self._contradiction:
                self._say("; ".join(REFUSALS[self._state]), warning=True)
        if self._state is FeedforwardState.STOPPED:
            self._due = np.inf
        elif self._state is FeedforwardState.WAITING:
            self._due = self._waiting_due(now) if self._stream else np.inf
            if self._stream and self._settings.hold:
                self._due = now
        elif self._state in _NEEDS_MODEL:
            self._due = np.inf
        elif self._state is not FeedforwardState.STREAMING:
            self._due = now
        self.tell()

    def _waiting_state(self) -> FeedforwardState:
        if self._model is None:
            return FeedforwardState.NO_MODEL
        if self._output.limiter is None:
            return FeedforwardState.NO_LIMITS
        declared = self._command is not None and not self._contradiction
        return FeedforwardState.WAITING if declared else FeedforwardState.UNDECLARED

    def _refusal(self) -> tuple[str, str]:
        missing = self._waiting_state()
        if missing is FeedforwardState.UNDECLARED and self._contradiction:
            what, _, hint = self._contradiction.partition("; ")
            return what, hint
        if self._state is FeedforwardState.STOPPED and missing is not FeedforwardState.WAITING:
            return REFUSALS[missing]
        return REFUSALS[self._state]

    def _filler(self) -> Filler:
        assert self._model is not None and self._output.limiter is not None
        assert self._motion is not None and self._command is not None
        limits = self._output.limiter.limits
        return Filler(self._model, self._settings.options, limits, self._motion, self._command)

    def _on_filler(self, event: AskFiller, now: float) -> FeedforwardOutcome:
        self._usable()
        self._warm_up(now)
        self._tell_missing()
        return FeedforwardOutcome(filler=self._filler())

    def _on_background(self, event: Background, now: float) -> FeedforwardOutcome:
        if self._model is None or self._trust.measured is None or not self._is_fresh(now):
            return NOTHING
        dq = np.where(np.isfinite(self._trust.measured.dq), self._trust.measured.dq, 0.0)
        found = self._model.coefficients(self._trust.measured.q, dq)
        self._coefficients = (now, found)
        self.tell()
        return FeedforwardOutcome(coefficients=found)

    def _note_freshness(self, now: float) -> bool:
        """Return whether joint states are fresh; a change of that is said and begins a change-over."""
        self._warm_up(now)
        fresh = self._is_fresh(now)
        if fresh != self._fresh:
            self._fresh = fresh
            if self._state in SENDING:
                options = self._settings.options
                if options.measured_gravity or self._state in (
                    FeedforwardState.FADING,
                    FeedforwardState.HOLDING,
                    FeedforwardState.ENDING,
                ):
                    self._output.change_over()
                if not fresh:
                    self._say(f"no new joint state for {self._settings.stale:g} s: gravity where the robot was", True)
        return fresh

    def _say(self, text: str, warning: bool = False) -> None:
        """Say something, once in a state."""
        if text not in self._said:
            self._said.add(text)
            self._news.append(News(text, warning))

    def tell(self) -> None:
        """Bring `status` up to date: others read it at any time."""
        robot = self._robot
        self._names = () if self.robot is None else self.robot.active_names
        self.status = FeedforwardStatus(
            self._state,
            "" if robot is None else robot.name,
            () if robot is None else robot.active_names,
            self._output.sent,
            self._output.held_back,
            self._fresh,
            self._retired or (HALTED if self._halted else ""),
            self._temperatures.text(self._names),
        )
