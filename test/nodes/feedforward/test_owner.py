# SPDX-License-Identifier: Apache-2.0

"""The thread that owns the feedforward: what others ask, and what an error of ours leads to."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
import rclpy

from feedforward_fuzz import CHI, NAMES, ROBOT, arrived, later
from in_process import ros, soon
from publishing_node import Log
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    AskFiller,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    NewModel,
    NewReference,
    StopFeedforward,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.common.commander_topic import CommanderTopic
from ros2_dynid.nodes.feedforward.owner import FeedforwardOwner

pytestmark = pytest.mark.in_process
HERE = np.array([0.2, -0.8, 0.4])
STOPPED = frozenset({FeedforwardState.STOPPED})


class Failing(FeedforwardMachine):
    """A machine with an error of ours in it: the next event after `fails` is set."""

    fails = False

    def handle(self, event):
        if self.fails:
            self.fails = False
            raise ValueError("oh")
        return super().handle(event)


@pytest.fixture
def owned():
    """Return an owner of a machine of demo3 that streams torques, the machine, and what leaves and is logged."""
    nobody = SimpleNamespace(listened=False)
    sink = SimpleNamespace(sent=[], passed=[], wants_coefficients=False)
    sink.send = lambda torque: sink.sent.append(torque.tau)
    sink.pass_on = lambda trajectory, stamp: sink.passed.append(trajectory)
    sink.log = Log()
    with ros():
        machine = Failing(FeedforwardSettings(), stream=True)
        context = rclpy.get_default_context()
        node = rclpy.create_node("feedforward")
        commander = CommanderTopic(node)
        owner = FeedforwardOwner(machine, context, sink, nobody, nobody, time.time_ns, sink.log, commander)
        try:
            owner.ask(later(NewModel, ROBOT, CHI, "model.yaml"))
            yield owner, machine, sink
        finally:
            owner.close()
            commander.close()
            node.destroy_node()


def sees_the_robot(owner, done):
    """Let joint states come until torques have, which the joints must be claimed for."""
    stamps = itertools.count(1)

    def came():
        owner.ask(arrived(NAMES, HERE, np.zeros(3), next(stamps)))
        return done()

    soon(came, "gravity")


def refusal_of(owner):
    """Return why a reference is refused."""
    with pytest.raises(DynidError) as refused:
        owner.ask(later(NewReference, quintic(NAMES, HERE, HERE + 0.1, 1.0), 1e9))
    return str(refused.value)


def test_what_others_ask_is_answered_by_the_thread_and_torques_leave_in_time(owned):
    owner, machine, sink = owned
    assert owner.ask(AskFiller).filler.model.robot is ROBOT
    with pytest.raises(DynidError, match="the node is not active; activate it"):
        owner.ask(later(NewReference, quintic(NAMES, HERE, HERE + 0.1, 1.0), 0.0))
    owner.ask(ActivateFeedforward)
    assert "the joints are being claimed" in refusal_of(owner), "nothing is followed until they are ours"
    sees_the_robot(owner, lambda: len(sink.sent) > 20)
    np.testing.assert_allclose(sink.sent[0], gravity_torque(ROBOT, CHI, HERE[None])[0], atol=1e-9)
    assert ("info", "holding against gravity at the measured position") in sink.log.said
    soon(lambda: machine.status.sent > 0, "the status, which the background brings up to date")
    owner.ask(DeactivateFeedforward)
    assert owner.wait_until(STOPPED, 30.0)
    assert not owner.wait_until(frozenset({FeedforwardState.HOLDING}), 0.01)
    owner.close()
    assert not owner.wait_until(frozenset({FeedforwardState.HOLDING}), 30.0), "nobody is left to get there"


def test_what_was_not_begun_in_time_is_withdrawn(owned):
    owner, machine, _ = owned
    owner.ask(ActivateFeedforward)
    begun, go_on = threading.Event(), threading.Event()

    def busy(now):
        begun.set()
        assert go_on.wait(30.0)
        return AskFiller(now)

    thread = threading.Thread(target=lambda: owner.ask(busy, timeout=30.0))
    thread.start()
    assert begun.wait(30.0)
    with pytest.raises(InputError, match=r"it was not done within 0\.05 s; ask again"):
        owner.ask(StopFeedforward, timeout=0.05)
    go_on.set()
    thread.join()
    owner.ask(AskFiller)
    assert "stopped" not in machine.status.remark, "the stop was not done later"
    assert owner.ask(StopFeedforward).answer and "stopped" in machine.status.remark


def test_an_error_of_ours_ends_in_gravity_and_then_the_node(owned, monkeypatch):
    owner, machine, sink = owned
    ended = []
    monkeypatch.setattr("ros2_dynid.nodes.feedforward.owner.os.kill", lambda pid, number: ended.append(number))
    owner.ask(ActivateFeedforward)
    sees_the_robot(owner, lambda: len(sink.sent) > 5)
    machine.fails = True
    soon(lambda: ended, "the end")
    assert ended == [signal.SIGTERM] and machine.state is FeedforwardState.STOPPED
    np.testing.assert_allclose(sink.sent[-1], gravity_torque(ROBOT, CHI, HERE[None])[0], atol=1e-9)
