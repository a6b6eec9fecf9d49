# SPDX-License-Identifier: Apache-2.0

"""The thread that owns the feedforward: it takes references and joint states itself, and what others ask in between.

It waits for the reference alone, until the next torque is due or somebody asks; joint states are taken in pieces when
it is awake. So a streamed point is answered by the thread that the middleware wakes, without a lock or a second thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.context import Context
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.feedforward_events import (
    REFUSALS,
    SENDING,
    Background,
    DeactivateFeedforward,
    FeedforwardOutcome,
    FeedforwardState,
    FeedforwardTick,
    NewReference,
    StopFeedforward,
    StreamedPoint,
    UnreadableReference,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.lease import DEFAULT_TIMES
from ros2_dynid.control.stop_switch import HoldBack, Reason
from ros2_dynid.control.transitions import Event
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.answers import Reply
from ros2_dynid.nodes.common.commander_topic import CommanderTopic
from ros2_dynid.nodes.common.fast import ending, unpacked
from ros2_dynid.nodes.common.messages import ahead, reference_of
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.nodes.common.rclpy_private import Logger, Waiter, taken
from ros2_dynid.nodes.feedforward.external_effort import ExternalEffort
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput
from ros2_dynid.recording.live import LiveStates
from ros2_dynid.recording.live_points import LivePoints

STATES_SECONDS = 0.002
"""Joint states are taken this often [s]: 1 kHz in pieces costs less than single messages."""
BEAT_SECONDS = DEFAULT_TIMES.beat
"""How often [s] it is looked at who commands the robot, and said if it is us."""
CLAIMED = "the joints are being claimed", "send it again"
MOST = 200
"""Messages taken at once."""
ASK_SECONDS = 5.0

Do = Callable[[], None]
MakeEvent = Callable[[float], Event]
"""Makes an event of its time [s]."""
ReferenceEvent = StreamedPoint | NewReference | UnreadableReference


class FeedforwardOwner:
    """Runs the machine in a thread of its own from start to close; others `ask` it."""

    def __init__(
        self,
        machine: FeedforwardMachine,
        context: Context,
        output: TorqueOutput,
        predicted: Predicted,
        external: ExternalEffort,
        now_ns: Callable[[], int],
        logger: Logger,
        commander: CommanderTopic,
    ) -> None:
        """Start; `now_ns` is the clock that headers are stamped by."""
        self._machine, self._context, self._output, self._commander = machine, context, output, commander
        self._stop: Reason | None = None
        self._not_ours: Reason | None = CLAIMED
        self._held_back: Reason | None = None
        self._deferred: bytes | None = None
        self._rival, self._woke_at, self._beat_due = "", time.monotonic(), 0.0
        self._predicted, self._external, self._now_ns, self._logger = predicted, external, now_ns, logger
        self.background_period = 0.02
        self._gains: tuple[float, ...] = ()
        self._states, self._points = LiveStates(()), LivePoints(())
        self._subscriptions: tuple[Any, Any] | None = None
        self._requests: deque[Do] = deque()
        self._waiter = Waiter(context)
        self._states_due = self._background_due = 0.0
        self._running = True
        self._thread = threading.Thread(target=self._guarded_run, name="feedforward", daemon=True)
        self._thread.start()

    # --- for other threads

    def ask(self, make: MakeEvent, timeout: float = ASK_SECONDS) -> FeedforwardOutcome:
        """Give the machine the event make(now) and return what became of it; a refusal raises.

        What is not begun in time is withdrawn.
        """
        reply: Reply[FeedforwardOutcome] = Reply()

        def act() -> None:
            if reply.begin():
                reply.give(self._handled(make(time.monotonic())))

        self._do(act)
        outcome = reply.wait(timeout)
        if outcome.refused:
            raise DynidError(outcome.refused)
        return outcome

    def set_stop(self, reason: Reason | None) -> None:
        """Let nothing begin, and end every motion, for this reason; None: the stop is released."""

        def act() -> None:
            self._stop = reason
            self._hold_back(self._not_ours)
            if reason is not None:
                self._end_motion(reason[0])

        self._do(act)

    def listen(self, subscriptions: tuple[Any, Any] | None) -> None:
        """Take messages of these subscriptions, reference and joint states, from now on; None: of none."""
        done = threading.Event()

        def change() -> None:
            self._subscriptions = subscriptions
            done.set()

        self._do(change)
        done.wait(ASK_SECONDS)

    def wait_until(self, states: frozenset[FeedforwardState], timeout: float) -> bool:
        """Wait until the machine is in one of the states; return whether it is."""
        until = time.monotonic() + timeout
        while self._machine.status.state not in states:
            if time.monotonic() > until or not self._thread.is_alive():
                return False
            time.sleep(0.002)
        return True

    def close(self) -> None:
        """End the thread."""
        self._running = False
        self._waiter.wake()
        self._thread.join(1.0)
        if self._commander.held and not self._machine.commands(time.monotonic()):  # else a guard ends what goes on
            self._commander.release()

    def _do(self, act: Do) -> None:
        self._requests.append(act)
        self._waiter.wake()

    # --- the thread itself

    def _guarded_run(self) -> None:
        """Run; an error ends the node, which must not seem alive, after the torque has gone over to gravity."""
        try:
            self._run()
        except Exception:
            if ending.is_set():
                return
            traceback.print_exc()
            with contextlib.suppress(Exception):
                self._end_alone()
            os.kill(os.getpid(), signal.SIGTERM)

    def _run(self) -> None:
        self._hold_back(CLAIMED)
        while self._running and self._context.ok():
            subscriptions = self._subscriptions
            self._waiter.wait(None if subscriptions is None else subscriptions[0], self._due() - time.monotonic())
            self._look_at_pause(time.monotonic())
            if subscriptions is not None:
                waited = _taken(subscriptions[0])
                if waited:
                    self._references(waited)
            while self._requests:
                self._requests.popleft()()
            now = time.monotonic()
            if now >= self._machine.due:
                self._handled(FeedforwardTick(now))
            if now >= self._states_due and self._subscriptions is not None:
                self._states_due = now + STATES_SECONDS
                self._take_states(self._subscriptions[1])
            if now >= self._beat_due:
                self._beat_due = now + BEAT_SECONDS
                self._keep_command(now)
            if now >= self._background_due:
                self._background_due = now + self.background_period
                self._background()

    def _due(self) -> float:
        """Return when [s] something is to be done, if nothing comes."""
        due = min(self._machine.due, self._background_due, self._beat_due)
        if (
            self._subscriptions is None or self._machine.state is FeedforwardState.STREAMING
        ):  # a stream wakes us often enough
            return due
        return min(due, self._states_due)

    def _handled(self, event: Event, stamp: Time | None = None) -> FeedforwardOutcome:
        """Give the machine an event, and send what it says; a trajectory has the stamp of its reference."""
        outcome = self._machine.handle(event)
        if outcome.torque is not None:
            self._output.send(outcome.torque)
        elif outcome.trajectory is not None:
            self._output.pass_on(outcome.trajectory, stamp)
        if self._machine.has_news:
            self._log_news()
        return outcome

    # --- who commands the robot

    def _hold_back(self, not_ours: Reason | None) -> None:
        """Let nothing begin while the stop is set, or while the joints are not ours."""
        self._not_ours = not_ours
        before, self._held_back = self._held_back, self._stop or not_ours
        if self._held_back != before:
            self._handled(HoldBack(time.monotonic(), self._held_back))

    def _end_motion(self, why: str, was_replaced: bool = False) -> None:
        """End every motion without being asked by a service."""
        self._deferred = None
        answer = self._handled(StopFeedforward(time.monotonic(), halt=False, was_replaced=was_replaced)).answer
        self._logger.warning(f"{why}: {answer}")

    def _take_command(self) -> bool:
        """Return whether the joints are ours, which takes some hundredths of a second; log who else has them."""
        at_rest = self._machine.trust.at_rest()
        try:
            granted = self._commander.claim(self._machine.joint_names, at_rest=at_rest)
        except DynidError as error:
            what, _, hint = str(error).partition("; ")
            self._hold_back((what, hint))
            self._deferred = None
            self._logger.error(f"nothing is sent: {error}", throttle_duration_sec=1.0)
            return False
        self._hold_back(None if granted else CLAIMED)
        return granted

    def _keep_command(self, now: float) -> None:
        """Say that we command the robot while we do; claim it for what waits, and release it when nothing does."""
        machine, commander = self._machine, self._commander
        if machine.commands(now) and commander.held:
            efforts = machine.sent_and_holding(now)
            commander.beat(*(() if efforts is None else efforts))
            rival = commander.conflict()
            if rival and rival != self._rival:
                self._end_motion(f"{rival} commands the robot as well")
            self._rival = rival
        elif self._deferred is not None or machine.wants_to_hold(now) or machine.commands(now):
            if self._take_command() and self._deferred is not None:
                data, self._deferred = self._deferred, None
                self._references([data])
        elif commander.held:
            commander.release()
            self._hold_back(CLAIMED)

    def _look_at_pause(self, now: float) -> None:
        """After a pause of the process, in which a guard has taken over, go on from what that has sent."""
        if now - self._woke_at > self._commander.silence and self._commander.held and self._machine.commands(now):
            watched = self._commander.was_watched
            self._end_motion(f"this node stood still for {now - self._woke_at:.1f} s", was_replaced=watched)
        self._woke_at = now

    def _log_news(self) -> None:
        for news in self._machine.news():
            if news.warning:
                self._logger.warning(news.text)
            else:
                self._logger.info(news.text)

    def _references(self, waited: list[bytes]) -> None:
        """Answer references; of streamed points that came together the last: torques of others would come late.

        While the joints are being claimed the last one waits: points of a stream come again.
        """
        if not self._commander.held and not self._take_command():
            self._deferred = waited[-1] if self._not_ours is CLAIMED else None
            return
        if len(waited) == 1:
            self._answer(*self._read(waited[0]))
            return
        read = [self._read(data) for data in waited]
        for k, (event, stamp) in enumerate(read):
            if not (_single(event) and any(_single(later) for later, _ in read[k + 1 :])):
                self._answer(event, stamp)

    def _answer(self, event: ReferenceEvent, stamp: Time | None) -> None:
        outcome = self._handled(event, stamp=stamp)
        if outcome.refused:
            self._logger.error(f"reference refused: {outcome.refused}", throttle_duration_sec=1.0)

    def _read(self, data: bytes) -> tuple[ReferenceEvent, Time | None]:
        """Return the event of a serialized JointTrajectory and the stamp of its header, read once."""
        names = self._joints()
        if self._machine.streaming:
            point = self._points.read(data)
            if point is not None:
                return StreamedPoint(time.monotonic(), names, *point), None
        robot = self._machine.robot
        if robot is None:
            return UnreadableReference(time.monotonic(), "; ".join(REFUSALS[FeedforwardState.NO_MODEL])), None
        try:
            message = unpacked(data, JointTrajectory)
            points = reference_of(message, robot)
        except DynidError as error:
            return UnreadableReference(time.monotonic(), str(error)), None
        stamp, now = message.header.stamp, time.monotonic()
        return NewReference(now, points, now + ahead(stamp, self._now_ns())), stamp

    def _joints(self) -> tuple[str, ...]:
        """Return the joints to read, with readers for them."""
        names, gains = self._machine.joint_names, self._machine.effort_gains
        if names != self._states.names or gains != self._gains:
            self._gains, self._states, self._points = gains, LiveStates(names, np.array(gains)), LivePoints(names)
        return names

    def _take_states(self, subscription: Any) -> None:
        waited = _taken(subscription)
        if not waited or not self._joints():
            return
        trust, has_model = self._machine.trust, self._machine.carried is not None
        plotted = self._predicted.listened and has_model
        felt = self._external.listened and has_model
        for data in waited:
            state = self._states.take(data)
            if state is None:  # of other joints, which another driver publishes
                continue
            now = time.monotonic()
            self._handled(JointStateArrived(now, state, now))
            if felt and not trust.doubt:  # an encoder that jumps is no torque
                self._external.take(state)
            if plotted:
                self._predicted.take(data, self._states, self._machine.law.predicted)

    def _background(self) -> None:
        if self._subscriptions is not None and (
            self._output.wants_coefficients or self._machine.law.settings.options.split
        ):
            coefficients = self._handled(Background(time.monotonic())).coefficients
            if coefficients is not None and self._output.wants_coefficients:
                self._output.send_coefficients(coefficients)
        self._machine.tell()

    def _end_alone(self) -> None:
        """Go over to gravity though something else has failed."""
        self._handled(DeactivateFeedforward(time.monotonic()))
        while self._machine.state in SENDING:
            time.sleep(0.001)
            self._handled(FeedforwardTick(time.monotonic()))


def _single(event: ReferenceEvent) -> bool:
    return isinstance(event, StreamedPoint) or (isinstance(event, NewReference) and len(event.points.t) == 1)


def _taken(subscription: Any) -> list[bytes]:
    """Return the serialized messages that a subscription holds, not so many that others wait for long."""
    waited: list[bytes] = []
    while len(waited) < MOST and (message := taken(subscription)) is not None:
        waited.append(message)
    return waited
