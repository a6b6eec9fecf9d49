# SPDX-License-Identifier: Apache-2.0

"""The one thread that owns the excitation's state machine: everybody else sends it events and gets answers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ros2_dynid.control.excitation_events import (
    MOVING,
    Announce,
    ConnectionProblem,
    ExcitationOutcome,
    ExcitationTick,
    OthersCommand,
    Phase,
    Stop,
)
from ros2_dynid.control.excitation_machine import ExcitationMachine
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.lease import DEFAULT_TIMES
from ros2_dynid.control.transitions import Event
from ros2_dynid.nodes.common.answers import Reply
from ros2_dynid.nodes.common.fast import guarded

MakeEvent = Callable[[float], Event]


@dataclass(frozen=True)
class OwnerContext:
    """What the machine's thread needs: its clock [s], the state of the connection ("": good), and where to announce.

    keep_command: says, while the robot moves, that we command it, and returns who else does ("": nobody); release: says
    that we do no more; others_command: whether another node commands the robot.
    """

    clock: Callable[[], float]
    connection: Callable[[], str]
    announce: Callable[[Announce], None]
    keep_command: Callable[[], str] = lambda: ""
    release: Callable[[], None] = lambda: None
    others_command: Callable[[], bool] = lambda: False


class ExcitationOwner:
    """Handles events as soon as they come, requests before joint states, and ticks while the robot moves.

    Of joint states only the newest waits: one that is late is of no use beside it.
    """

    def __init__(self, machine: ExcitationMachine, around: OwnerContext) -> None:
        """Start the thread."""
        self._machine, self._around = machine, around
        self._requests: deque[tuple[MakeEvent, Reply[ExcitationOutcome] | None]] = deque()
        self._state: JointStateArrived | None = None
        self._inactive: list[threading.Event] = []
        self._wake = threading.Condition()
        self.period, self._woke_at = 0.002, time.monotonic()
        threading.Thread(target=guarded(self._run), name="motion", daemon=True).start()

    def post(self, make: MakeEvent) -> None:
        """Let the machine handle make(now), and do not wait."""
        with self._wake:
            self._requests.append((make, None))
            self._wake.notify()

    def ask(self, make: MakeEvent, timeout: float = 5.0) -> ExcitationOutcome:
        """Let the machine handle make(now), and wait for its outcome; what is not begun in time is withdrawn."""
        reply: Reply[ExcitationOutcome] = Reply()
        with self._wake:
            self._requests.append((make, reply))
            self._wake.notify()
        return reply.wait(timeout)

    def state(self, event: JointStateArrived) -> None:
        """Take the newest joint state."""
        with self._wake:
            self._state = event
            self._wake.notify()

    def wait_inactive(self, timeout: float) -> bool:
        """Wait until the machine is inactive; return whether it is."""
        done = threading.Event()
        with self._wake:
            self._inactive.append(done)
            self._wake.notify()
        return done.wait(timeout)

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            with self._wake:
                if not self._requests and self._state is None:
                    wait = max(due - time.monotonic(), 0.0) if self._machine.moving else None
                    if wait is None or wait > 0:
                        self._wake.wait(wait)
                request = self._requests.popleft() if self._requests else None
                state, self._state = (None, self._state) if request is not None else (self._state, None)
            self._look_at_pause()
            if request is not None:
                self._answer(*request)
            elif state is not None:
                if self._machine.phase is Phase.ABORTED and self._around.others_command():
                    self._handle(OthersCommand(state.now))
                self._handle(state)
            if self._machine.moving and time.monotonic() >= due:
                due = time.monotonic() + self.period
                self._tick()
            if self._machine.phase is Phase.INACTIVE and self._inactive:
                with self._wake:
                    waiting, self._inactive = self._inactive, []
                for done in waiting:
                    done.set()

    def _look_at_pause(self) -> None:
        """After a pause of the process in which a guard, if there is one, has braked: end the motion."""
        pause, self._woke_at = time.monotonic() - self._woke_at, time.monotonic()
        if pause > DEFAULT_TIMES.silence and self._machine.phase in MOVING:
            self._handle(Stop(self._around.clock(), f"this node stood still for {pause:.1f} s"))

    def _answer(self, make: MakeEvent, reply: Reply[ExcitationOutcome] | None) -> None:
        if reply is None:
            self._handle(make(self._around.clock()))
        elif reply.begin():
            reply.give(self._handle(make(self._around.clock())))

    def _tick(self) -> None:
        if problem := self._around.connection():
            self._handle(ConnectionProblem(self._around.clock(), problem))
        if (rival := self._around.keep_command()) and self._machine.phase in MOVING:
            self._handle(Stop(self._around.clock(), f"{rival} commands the robot as well"))
        self._handle(ExcitationTick(self._around.clock()))

    def _handle(self, event: Event) -> ExcitationOutcome:
        moved = self._machine.moving
        try:
            outcome = self._machine.handle(event)
        except Exception as error:  # ours: the node ends, but not with a robot that moves on
            if self._machine.moving:
                self._machine.handle(Stop(self._around.clock(), f"{type(error).__name__}: {error}"))
            raise
        for what in outcome.announced:
            self._around.announce(what)
        if moved and not self._machine.moving:
            self._around.release()
        return outcome
