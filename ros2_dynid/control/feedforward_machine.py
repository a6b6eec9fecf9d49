# SPDX-License-Identifier: Apache-2.0

"""The feedforward's moving part: a state machine without ROS that decides which torque leaves when.

One thread owns it and gives it events in order. It composes parts with a value each: the law that makes torques of a
model (feedforward_law.py), trust in joint states (joint_trust.py) and the reference (followed_reference.py). Whatever
changes, the torque goes over from what was sent last, and every ending is gravity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ros2_dynid.control.feedforward_events import (
    SENDING,
    TRANSITIONS,
    ActivateFeedforward,
    AskFiller,
    Background,
    DeactivateFeedforward,
    FeedforwardOutcome,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardStatus,
    FeedforwardTick,
    MeasuredTemperature,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    News,
    NewsLog,
    OptionsChanged,
    OutputChanged,
    StopFeedforward,
    StreamedPoint,
    UnreadableReference,
)
from ros2_dynid.control.feedforward_law import FeedforwardLaw
from ros2_dynid.control.followed_reference import FollowedReference, check_reachable
from ros2_dynid.control.joint_trust import JointStateArrived, JointTrust
from ros2_dynid.control.loaded_model import CarriedModel, LoadedModel
from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop_switch import HoldBack, Reason
from ros2_dynid.control.torque_limiter import EffortLimits
from ros2_dynid.control.transitions import StateMachine
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.robot import Array, Robot

GUARDS = ("timeout", "stale", "efforts", "rates", "command_names", "near", "lead", "check_rest")
"""Settings that must not change while the robot moves."""
LOOK_AGAIN = 0.01
"""While waiting, joint states to hold the robot with are looked for this often [s]."""
HALTED = "stopped: references are refused until it is activated again"
NOTHING = FeedforwardOutcome()
S = FeedforwardState
FOLLOWED = frozenset((S.FOLLOWING, S.STREAMING))
UNREADY = frozenset((S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED))
NOT_TICKING = UNREADY | {S.STOPPED}


class FeedforwardMachine(StateMachine[FeedforwardState, FeedforwardOutcome]):
    """The feedforward of one robot; `handle` takes an event, `status` and `news` tell of it.

    due: when [s] the next FeedforwardTick is wanted, infinite if nothing is to be sent by itself; streaming: torques
    are sent, not filled into trajectories; law, trust: for others to read.
    """

    table = TRANSITIONS

    def __init__(self, settings: FeedforwardSettings | None = None, stream: bool = False) -> None:
        """Begin stopped; `stream`: torques are sent, not trajectories."""
        self.state, self.due, self.streaming = S.STOPPED, np.inf, stream
        self.status = FeedforwardStatus()
        self._news = NewsLog()
        self.law = FeedforwardLaw(settings or FeedforwardSettings(), self._news)
        self.trust = JointTrust(self.law.settings.stale)
        self._reference = FollowedReference()
        self._after = S.STOPPED  # where an ending leads to
        self._held_back: Reason | None = None  # why nothing may begin
        self._fresh = False  # whether joint states were when it was last noted

    @property
    def robot(self) -> Robot | None:
        """The robot of the model, else the one described."""
        return self.law.model.robot or self.law.model.described

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of that robot; none while it is not known."""
        return self.law.model.joint_names

    @property
    def effort_gains(self) -> tuple[float, ...]:
        """The torque in one unit of the joints' measured efforts."""
        return self.law.model.effort_gains

    @property
    def carried(self) -> CarriedModel | None:
        """What the robot weighs now, load included; None without a model. Any thread may ask."""
        return self.law.model.carried

    @property
    def limits(self) -> EffortLimits | None:
        """The limits of what leaves, None while they are not known."""
        return self.law.output.limits

    @property
    def has_news(self) -> bool:
        """Whether there is something to say."""
        return bool(self._news.waiting)

    def news(self) -> list[News]:
        """Return what has changed since the last call, in words."""
        return self._news.take()

    def tell(self) -> None:
        """Bring `status` up to date: others read it at any time."""
        model, output, robot = self.law.model, self.law.output, self.law.model.robot
        self.status = FeedforwardStatus(
            self.state,
            "" if robot is None else robot.name,
            () if robot is None else robot.active_names,
            output.sent,
            output.held_back,
            self._fresh,
            self._remark(),
            self.law.temperatures.text(model.joint_names),
        )

    def _remark(self) -> str:
        """Return what keeps it from following references, or nothing ("")."""
        return self.law.model.retired or (HALTED if self._reference.halted else "")

    def _take(self, event: Any) -> FeedforwardOutcome:
        try:
            return self.handlers[type(event)](self, event)
        except DynidError:
            if isinstance(event, StreamedPoint | NewReference | UnreadableReference):
                self._abandon(event.now)  # a sender whose reference is refused is not trusted with the one before
            raise

    def _refused(self, why: str) -> FeedforwardOutcome:
        return FeedforwardOutcome(refused=why)

    def _refusal(self, event: Any) -> str:
        return self.law.refusal(self.state)

    # --- models, loads, descriptions, settings

    def _on_model(self, event: NewModel) -> FeedforwardOutcome:
        before, replaceable = self.law.model, self.state is S.STOPPED
        self.law.take_model(event, self.trust.seen(event.now), sending=self._sending, replaceable=replaceable)
        self._go_on_with_model(before, event.now)
        return NOTHING

    def _on_payload(self, event: NewPayload) -> FeedforwardOutcome:
        self._check_usable()
        self.law.take_load(event, self.trust.seen(event.now))
        return NOTHING

    def _on_description(self, event: NewDescription) -> FeedforwardOutcome:
        before, stopped = self.law.model, self.state is S.STOPPED
        try:
            self.law.describe(event.robot, self.trust.seen(event.now), sending=self._sending, stopped=stopped)
            if self.law.model.retired and not before.retired:
                self._reference.waiting = None
                if self.state is not S.ENDING:
                    self._go_over(S.FADING, event.now)
        finally:
            self._go_on_with_model(before, event.now)
        return NOTHING

    def _go_on_with_model(self, before: LoadedModel, now: float) -> None:
        """Go on with another model, or none; what was known of other joints is forgotten."""
        model = self.law.model
        if before.joint_names != model.joint_names or (before.robot is not None and model.robot is None):
            self._forget_motion()
        self._settle(now)

    def _on_temperature(self, event: MeasuredTemperature) -> FeedforwardOutcome:
        self.law.take_temperatures(event)
        return NOTHING

    def commands(self, now: float) -> bool:
        """Whether the robot carries out what was sent: torques, or a trajectory that is under way at `now` [s]."""
        return self._sending or self._reference.is_under_way(now)

    def wants_to_hold(self, now: float) -> bool:
        """Whether it would send gravity now, if nothing held it back: it is active, and nothing else is followed."""
        settings = self.law.settings
        judged = not (settings.check_rest and self.law.declaration.pending)
        ready = self.state is S.WAITING and self.streaming and settings.hold and judged
        return ready and self.trust.seen(now) is not None

    def sent_and_holding(self, now: float) -> tuple[Array, Array] | None:
        """Return the torques sent last and those that hold the robot where it is, None if no torques are sent."""
        return self.law.sent_and_holding(self._where(now)) if self._sending else None

    def _on_options(self, event: OptionsChanged) -> FeedforwardOutcome:
        stopped, settings = self.state is S.STOPPED, event.settings
        self.law.take_settings(settings, sending=self._sending, stopped=stopped, try_only=True)
        changed = [name for name in GUARDS if getattr(settings, name) != getattr(self.law.settings, name)]
        if changed and self.commands(event.now) and self.state is not S.HOLDING:
            raise InputError(f"{changed[0]} guards the motion that is under way", "set it when nothing moves")
        if not event.try_only:
            self.law.take_settings(settings, sending=self._sending, stopped=stopped, try_only=False)
            self.trust.stale = event.settings.stale
            self._settle(event.now)
        return NOTHING

    def _on_output(self, event: OutputChanged) -> FeedforwardOutcome:
        if event.stream == self.streaming:
            return NOTHING
        self.streaming = event.stream
        if self.state is S.ENDING:
            if event.stream and self._after is S.WAITING:
                self._go_over(S.FADING, event.now)
        elif self._sending:
            self._end(S.WAITING, event.now)
        elif event.stream:
            self.law.output.forget()
        self._reference.waiting = None
        self._settle(event.now)
        return NOTHING

    # --- beginning and end

    def _on_activate(self, event: ActivateFeedforward) -> FeedforwardOutcome:
        if self.state is S.STOPPED:
            self._forget_motion()
            self._reference.halted = False
            self.law.output.forget()
            self.law.declare()
            self._enter(self.law.readiness())
            self._settle(event.now)
        return NOTHING

    def _on_deactivate(self, event: DeactivateFeedforward) -> FeedforwardOutcome:
        if self.state is S.ENDING:
            self._after = S.STOPPED
        elif self._sending:
            self._end(S.STOPPED, event.now)
        else:
            self._enter(S.STOPPED)
        self.due = event.now if self._sending else np.inf
        return NOTHING

    def _end(self, after: FeedforwardState, now: float) -> None:
        self._after = after
        self.law.output.begin_ending(now)
        self._go_over(S.ENDING, now)

    def _forget_motion(self) -> None:
        """Forget where the robot was, and where it was to go."""
        self._reference.forget()
        self.trust.forget()
        self.law.declaration.forget_efforts()

    # --- references

    def _on_reference(self, event: NewReference) -> FeedforwardOutcome:
        now, begin, near = event.now, event.begin, self.law.settings.near
        motion = self._check_usable(reference=True)
        points = event.points.ordered(motion.joint_names, "reference")
        if len(points.t) == 1 and self.streaming:
            still = np.zeros_like(points.q[0])
            dq, ddq = (still if x is None else x[0] for x in (points.dq, points.ddq))
            return self._on_point(StreamedPoint(now, points.joint_names, points.q[0], dq, ddq))
        if begin + points.duration < now:
            raise InputError("the reference lies in the past", "give it a later stamp, or none to start at once")
        if not self.streaming:
            return self._pass_on(points, begin, motion, now)
        believed = self.trust.believed
        self.law.filler().check(points, None if believed is None else believed.state.q)
        self._reference.wait(points, begin)
        if begin > now:
            self.due = min(self.due, begin)
            return NOTHING
        self._reference.begin_waiting(now, self.trust.known_motion(now), motion, near)
        self._note_freshness(now)
        self._go_over(S.FOLLOWING, now)
        return self._on_tick(FeedforwardTick(now))

    def _pass_on(self, points: Reference, begin: float, motion: MotionLimits, now: float) -> FeedforwardOutcome:
        """Return a trajectory with efforts for a controller, which goes to its first point by itself."""
        measured, settings = self.trust.known_motion(now), self.law.settings
        check_reachable(points, begin, now, measured, motion, settings.near)
        self.law.warm_up(now)
        self.law.tell_missing()
        filled = self.law.filler().filled(points, settings.point_rate, measured[0])
        self._reference.passed_on = (filled, begin)
        return FeedforwardOutcome(trajectory=filled)

    def _on_point(self, event: StreamedPoint) -> FeedforwardOutcome:
        now, names, q, dq, ddq = event
        begins = self.state is not S.STREAMING  # what a stream needs stays while it goes on
        motion = self._check_usable(reference=True) if begins else self.law.model.motion
        assert motion is not None
        if names != motion.joint_names:
            raise InputError(f"the streamed point is of {', '.join(names)}", f"name {', '.join(motion.joint_names)}")
        if not self.streaming:
            raise InputError("torques are not streamed", "set output to effort")
        if begins:
            self._reference.begin_stream(self.trust.known_motion(now), motion, self.law.settings.near)
        self._reference.take_point(q, dq, ddq, now)
        if begins:
            self._go_over(S.STREAMING, now)
        seen = self._note_freshness(now)
        self.due = now + self.law.settings.timeout
        return self._follow(q, dq, ddq, seen, now)

    def _on_unreadable(self, event: UnreadableReference) -> FeedforwardOutcome:
        raise DynidError(event.reason)

    def _abandon(self, now: float) -> None:
        """Follow nothing any more."""
        self._reference.waiting = None
        if self.state in FOLLOWED:
            self._go_over(S.FADING, now)

    def _on_stop(self, event: StopFeedforward) -> FeedforwardOutcome:
        if self.state is S.STOPPED:
            return FeedforwardOutcome(answer="nothing was moved by the feedforward: it is not active")
        now = event.now
        self._reference.halted |= event.halt
        if event.was_replaced:
            self.law.output.forget()
        followed = self.state in FOLLOWED or self._reference.waiting is not None
        brake = None if self.streaming else self._brake(now)
        self._abandon(now)
        self.tell()
        answer = "braking" if brake else "going over to gravity" if followed else "nothing was moved by the feedforward"
        return FeedforwardOutcome(answer=f"{answer}: {self.trust.motion_text(now, self.robot)}", trajectory=brake)

    def _on_hold_back(self, event: HoldBack) -> FeedforwardOutcome:
        """Begin nothing, or begin again; torques that are sent go on, since an arm without them falls."""
        self._held_back = event.reason
        self._settle(event.now)
        return NOTHING

    def _brake(self, now: float) -> Reference | None:
        """Return a stop for the controller, or None if nothing is known to move."""
        motion, seen, settings = self.law.model.motion, self.trust.seen(now), self.law.settings
        if motion is None or self.limits is None:
            return None
        measured = None if seen is None else (seen.q, seen.dq)
        brake = self._reference.brake(now, measured, motion, settings.near, settings.lead)
        if brake is None:
            return None
        points, beyond = brake
        if beyond:
            self._news.add_once(f"no stop keeps the limits: {beyond}", warning=True)
        # undeclared meanwhile: a stop without efforts is still a stop
        return points if self.law.declaration.command is None else self.law.filler().filled_stop(points)

    def _check_usable(self, *, reference: bool = False) -> MotionLimits:
        """Return the limits of the motion; refuse what needs a model that may send torques, or may follow something."""
        model = self.law.model
        if reference:
            self._reference.check_allowed()
            if self._held_back is not None:
                raise InputError(*self._held_back)
        if model.retired:
            raise InputError(model.retired, "deactivate, and load the model of this robot")
        self._judge_rest()
        if self.law.readiness() is not S.WAITING:
            raise DynidError(self.law.refusal(self.state))
        assert model.motion is not None
        return model.motion

    def _on_filler(self, event: AskFiller) -> FeedforwardOutcome:
        self._check_usable()
        self.law.warm_up(event.now)
        self.law.tell_missing()
        return FeedforwardOutcome(filler=self.law.filler())

    # --- joint states

    def _on_state(self, event: JointStateArrived) -> FeedforwardOutcome:
        self.law.warm_up(event.now)
        names, state = self.law.model.joint_names, event.state
        if state.joint_names != names:
            read = f"read {', '.join(names) or 'none yet'}"
            raise InputError(f"the joint state is of {', '.join(state.joint_names)}", read)
        for what, values in (("positions", state.q), ("velocities", state.dq)):
            if values.shape != (len(names),):
                raise InputError(f"{values.size} {what} for {len(names)} joints", "give one for each joint")
        if self._sending:
            self.trust.take(event)
        else:  # no torque depends on where it was
            self.trust.take_anywhere(event)
        if self.trust.doubt:
            self._news.add_once(self.trust.doubt, warning=True)
        rests = self.trust.believed is event and not self._sending
        if rests and self.law.declaration.take(state.q, state.dq, state.tau, event.now):
            self._judge_rest()
        return NOTHING

    def _judge_rest(self) -> None:
        """Compare what is declared with efforts measured at rest, once, before the first torque."""
        if not self._sending:
            self.law.judge_rest()
            if self.state is S.WAITING and self.law.declaration.contradiction:
                self._enter(S.UNDECLARED)
                self.due = np.inf

    def _where(self, now: float) -> Array | None:
        """Return where the robot is, shape (n,): measured, or where its reference was last while states are stale."""
        place, believed = self._reference.place, self.trust.believed
        if place is not None and (believed is None or place[0] > believed.now) and self.trust.seen(now) is None:
            return place[1]
        return None if believed is None else believed.state.q

    def _note_freshness(self, now: float) -> State | None:
        """Return where the robot is seen; say it and begin a change-over when joint states become fresh or stale."""
        self.law.warm_up(now)
        seen = self.trust.seen(now)
        fresh = seen is not None
        if fresh == self._fresh:
            return seen
        self._fresh = fresh
        if self._sending:
            if self.law.settings.options.measured_gravity or self.state not in FOLLOWED:
                self.law.output.change_over()
            if not fresh:
                text = f"no new joint state for {self.trust.stale:g} s: gravity where the robot was"
                self._news.add_once(text, warning=True)
        return seen

    def _on_background(self, event: Background) -> FeedforwardOutcome:
        seen = self.trust.seen(event.now)
        if seen is None:
            return NOTHING
        coefficients = self.law.find_coefficients(seen.q, seen.dq, event.now)
        self.tell()
        return FeedforwardOutcome(coefficients=coefficients)

    # --- time

    def _on_tick(self, event: FeedforwardTick) -> FeedforwardOutcome:
        now, reference, settings = event.now, self._reference, self.law.settings
        if self.state in NOT_TICKING:
            return NOTHING
        if not self.streaming and self.state is not S.ENDING:
            self.due = np.inf
            return NOTHING
        seen = self._note_freshness(now)
        if self.state is S.ENDING:
            return self._finish(now)
        if reference.waiting is not None and reference.waiting[1] <= now:
            self._begin_waiting(now)
        if self.state is S.FOLLOWING and reference.running is not None:
            points, begin = reference.running
            if now - begin <= points.duration:
                self.due = now + settings.period
                return self._follow(*points.at(now - begin)[:3], seen, now)
            self._go_over(S.FADING, now)
        if self.state is S.STREAMING:
            if now - reference.streamed < settings.timeout:
                self.due = reference.streamed + settings.timeout
                return NOTHING
            self._go_over(S.FADING, now)
        if self.state is S.WAITING:
            if not self.wants_to_hold(now) or self._held_back is not None:
                self.due = self._waiting_due(now)
                return NOTHING
            self._enter(S.HOLDING)
            self.law.output.change_over()
        self.due = now + settings.period
        torque = self.law.send_gravity(self._where(now), now, ending=False)
        if self.state is S.FADING and not self.law.output.ramping:
            self._enter(S.HOLDING)
        return FeedforwardOutcome(torque=torque)

    def _begin_waiting(self, now: float) -> None:
        """Follow the trajectory whose time has come."""
        motion = self.law.model.motion
        assert motion is not None
        try:
            self._reference.begin_waiting(now, self.trust.known_motion(now), motion, self.law.settings.near)
        except InputError as error:
            self._news.add_once(f"reference refused: {error}", warning=True)
            self._abandon(now)
            return
        self._go_over(S.FOLLOWING, now)

    def _finish(self, now: float) -> FeedforwardOutcome:
        """Send the next torque of an ending, the last one if it has reached gravity."""
        torque, ended = None, False
        try:
            torque = self.law.send_gravity(self._where(now), now, ending=True)
        except InputError as error:  # gravity there is no number: nothing more can be sent
            self._news.add_once(f"torques end without gravity: {error}", warning=True)
            ended = True
        self.due = now + self.law.settings.period
        if self.law.output.has_ended(now) or ended:
            if self.law.model.retired:
                self.law.drop_model()
                self._forget_motion()
            self.law.declare()
            self._enter(S.STOPPED if self._after is S.STOPPED else self.law.readiness())
            self._settle(now)
        return FeedforwardOutcome(torque=torque)

    def _follow(self, q: Array, dq: Array, ddq: Array, seen: State | None, now: float) -> FeedforwardOutcome:
        """Return the torque of a point of the reference; one without a finite torque ends the reference."""
        reference = self._reference
        before, reference.place = reference.place, (now, q)
        try:
            return FeedforwardOutcome(torque=self.law.send_torque(q, dq, ddq, None if seen is None else seen.q, now))
        except InputError:
            reference.waiting = None
            reference.place = before  # where the reference was last that had a torque: the ending needs a place
            if self._where(now) is not None and self.law.output.has_sent:
                self._go_over(S.FADING, now)
            else:
                self._enter(self.law.readiness())
                self._settle(now)
            raise

    # --- states

    @property
    def _sending(self) -> bool:
        return self.state in SENDING

    def _go_over(self, state: FeedforwardState, now: float) -> None:
        if state is not self.state or state is S.FOLLOWING:
            self.law.output.change_over()
        self._enter(state)
        self.due = now

    def _enter(self, state: FeedforwardState) -> None:
        if state is not self.state:
            self.state = state
            self._news.begin_state()
            if state not in (S.NO_LIMITS, S.UNDECLARED, S.STOPPED):
                self._news.add_once(state.value)
        self.tell()

    def _settle(self, now: float) -> None:
        """Go to the state that model and limits allow, unless torques are being sent."""
        if self.law.model.motion is not None:
            self.trust.velocity = self.law.model.motion.velocity
        if self.state in UNREADY or self.state is S.WAITING:
            self._enter(self.law.readiness())
            if self.state in (S.NO_LIMITS, S.UNDECLARED) and not self.law.declaration.contradiction:
                self._news.add_once(self.law.refusal(self.state), warning=True)
        if self.state in NOT_TICKING or (self.state is S.WAITING and not self.streaming):
            self.due = np.inf
        elif self.state is S.WAITING:
            self.due = now if self.law.settings.hold else self._waiting_due(now)
        elif self.state is not S.STREAMING:
            self.due = now
        self.tell()

    def _waiting_due(self, now: float) -> float:
        """Return when to look again while waiting: at a trajectory's start, or for a state to hold against gravity."""
        begin = np.inf if self._reference.waiting is None else self._reference.waiting[1]
        return min(begin, now + LOOK_AGAIN) if self.law.settings.hold else begin

    handlers: ClassVar[dict[type, Callable[..., FeedforwardOutcome]]] = {
        NewModel: _on_model,
        NewPayload: _on_payload,
        NewDescription: _on_description,
        NewReference: _on_reference,
        StreamedPoint: _on_point,
        UnreadableReference: _on_unreadable,
        StopFeedforward: _on_stop,
        HoldBack: _on_hold_back,
        JointStateArrived: _on_state,
        MeasuredTemperature: _on_temperature,
        FeedforwardTick: _on_tick,
        Background: _on_background,
        AskFiller: _on_filler,
        OptionsChanged: _on_options,
        OutputChanged: _on_output,
        ActivateFeedforward: _on_activate,
        DeactivateFeedforward: _on_deactivate,
    }
