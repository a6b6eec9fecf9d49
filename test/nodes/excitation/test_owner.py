# SPDX-License-Identifier: Apache-2.0

"""The thread that owns the excitation's machine: requests, joint states, time, and an error of ours."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from in_process import soon
from ros2_dynid.control.excitation_events import (
    Announce,
    ConnectionProblem,
    ExcitationOutcome,
    ExcitationTick,
    Phase,
    Stop,
)
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import State
from ros2_dynid.nodes.excitation.owner import ExcitationOwner, OwnerContext


class Machine:
    """Keeps its events; `hold` blocks the thread in the next one."""

    def __init__(self):
        self.events, self.moving, self.phase = [], False, Phase.IDLE
        self.hold, self.held, self.fails = threading.Event(), threading.Event(), False
        self.hold.set()

    def handle(self, event):
        self.events.append(event)
        self.held.set()
        assert self.hold.wait(30.0)
        if self.fails and not isinstance(event, Stop):
            raise ValueError("oh")
        names = (f"{len(self.events)}{part}" for part in "ab")
        return ExcitationOutcome(True, "done", tuple(Announce(self.phase, name) for name in names))


@pytest.fixture
def owned(monkeypatch):
    """Return a machine, its owner, and what surrounds them; an error ends the thread alone."""
    ended = threading.Event()

    def guarded(run):
        def alone():
            try:
                run()
            except ValueError:
                ended.set()

        return alone

    monkeypatch.setattr("ros2_dynid.nodes.excitation.owner.guarded", guarded)
    around = SimpleNamespace(now=1.0, problem="", announced=[], ended=ended)
    machine = Machine()
    context = OwnerContext(lambda: around.now, lambda: around.problem, around.announced.append)
    return machine, ExcitationOwner(machine, context), around


def test_requests_come_before_joint_states_and_only_the_newest_of_these(owned):
    machine, owner, around = owned
    machine.hold.clear()
    owner.post(lambda now: Stop(now, "first"))
    assert machine.held.wait(30.0)
    state = State(("a",), *np.zeros((3, 1)), 0)
    for k in range(3):
        owner.state(JointStateArrived(float(k), state, 0.0))
    owner.post(lambda now: Stop(now, "second"))
    owner.post(lambda now: Stop(now, "third"))
    around.now = 2.0
    machine.hold.set()
    soon(lambda: len(machine.events) == 4, "the events")
    assert [event.reason for event in machine.events[:3]] == ["first", "second", "third"]
    assert [event.now for event in machine.events] == [1.0, 2.0, 2.0, 2.0], "the clock is asked when it is done"
    assert isinstance(machine.events[3], JointStateArrived) and machine.events[3].now == 2.0, "the newest"
    outcome = owner.ask(lambda now: Stop(now, "asked"))
    assert outcome.accepted and outcome.answer == "done"
    assert [what.name for what in around.announced] == [f"{k}{part}" for k in range(1, 6) for part in "ab"], "each one"


def test_what_was_not_begun_in_time_is_withdrawn(owned):
    machine, owner, _ = owned
    machine.hold.clear()
    owner.post(lambda now: Stop(now, "busy"))
    assert machine.held.wait(30.0)
    with pytest.raises(InputError, match=r"it was not done within 0\.01 s; ask again"):
        owner.ask(lambda now: Stop(now, "withdrawn"), timeout=0.01)
    machine.hold.set()
    assert owner.ask(lambda now: Stop(now, "asked again")).answer == "done"
    assert [event.reason for event in machine.events] == ["busy", "asked again"]


def test_what_was_begun_and_does_not_end_is_told_as_such(owned):
    machine, owner, _ = owned
    machine.hold.clear()
    with pytest.raises(InputError, match=r"begun, but has not ended within 0\.1 s; look what it has done"):
        owner.ask(lambda now: Stop(now, "begun"), timeout=0.05)
    machine.hold.set()


def test_while_it_moves_time_and_the_connection_are_watched(owned):
    machine, owner, around = owned
    owner.period = 1e-3
    owner.ask(lambda now: Stop(now))
    assert len(machine.events) == 1, "nothing moves, nothing ticks"
    machine.moving = True
    owner.post(lambda now: Stop(now))
    soon(lambda: len(machine.events) > 10, "ticks")
    assert {type(event) for event in machine.events[2:]} == {ExcitationTick}
    around.problem = "nobody listens"
    soon(lambda: any(isinstance(event, ConnectionProblem) for event in list(machine.events)), "the problem")
    first = next(k for k, event in enumerate(machine.events) if isinstance(event, ConnectionProblem))
    assert machine.events[first].text == "nobody listens"
    soon(lambda: len(machine.events) > first + 4, "what comes after")
    machine.moving = False
    kinds = [type(event) for event in machine.events[first : first + 4]]
    assert kinds == [ConnectionProblem, ExcitationTick] * 2, "time goes on without a connection"


def test_time_goes_on_while_requests_come(owned):
    machine, owner, _ = owned
    owner.period = 0.0
    machine.hold.clear()
    for k in range(4):
        owner.post(lambda now: Stop(now))
        assert k or machine.held.wait(30.0)
    machine.moving = True
    machine.hold.set()
    soon(lambda: len(machine.events) > 8, "the events")
    machine.moving = False
    assert [type(event) for event in machine.events[:8]] == [Stop, ExcitationTick] * 4, "whoever asks too often"


def test_who_waits_for_the_end_is_woken_by_it_and_not_before(owned):
    machine, owner, _ = owned
    assert not owner.wait_inactive(0.05)
    machine.phase = Phase.INACTIVE
    assert owner.wait_inactive(30.0)


@pytest.mark.parametrize("moving", [True, False])
def test_an_error_of_ours_ends_the_thread_with_the_robot_stopped(owned, moving):
    machine, owner, around = owned
    machine.fails, machine.moving = True, moving
    owner.post(ExcitationTick)
    assert around.ended.wait(30.0)
    stops = [event for event in machine.events if isinstance(event, Stop)]
    assert [stop.reason for stop in stops] == (["ValueError: oh"] if moving else [])
