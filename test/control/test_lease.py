# SPDX-License-Identifier: Apache-2.0

"""One owner of the robot at a time, whatever the network and the processes do."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from ros2_dynid.control.lease import Lease, LeaseTimes, Role
from ros2_dynid.errors import InputError

ARM, GRIPPER = ("lift", "bend"), ("finger",)
TIMES = LeaseTimes()


def hear(listener, speaker, now):
    listener.take(speaker.word(), now)


def pair():
    """Return two leases that have listened for long enough, the first with the smaller number."""
    return Lease("/excitation", 1, 0.0), Lease("/feedforward", 2, 0.0)


def test_the_second_is_refused_with_the_name_of_the_first():
    first, second = pair()
    first.claim(ARM, 1.0, at_rest=True)
    assert not first.granted(1.0 + 0.9 * TIMES.claim) and first.granted(1.0 + TIMES.claim)
    hear(second, first, 1.1)
    with pytest.raises(InputError, match="/excitation commands the robot; stop it"):
        second.claim(("bend", "other"), 1.2, at_rest=True)
    second.claim(GRIPPER, 1.2, at_rest=True)  # joints that nobody holds
    second.release()
    first.release()
    hear(second, first, 1.3)
    second.claim(ARM, 1.3, at_rest=False)
    assert second.granted(1.3 + TIMES.claim)


def test_of_two_who_claim_at_once_the_smaller_number_goes_on():
    first, second = pair()
    first.claim(ARM, 1.0, at_rest=True)
    second.claim(ARM, 1.01, at_rest=True)
    hear(first, second, 1.02)
    hear(second, first, 1.03)
    assert first.granted(1.1) and second.role is Role.RELEASED
    with pytest.raises(InputError, match="/excitation has just taken command"):
        second.granted(1.1)
    with pytest.raises(InputError, match="/excitation commands"):
        second.claim(ARM, 1.12, at_rest=True)


def test_whoever_has_just_begun_to_listen_waits_for_the_others():
    late = Lease("/late", 3, 10.0)
    late.claim(ARM, 10.1, at_rest=True)
    assert not late.granted(10.49) and late.granted(10.5)


def test_a_holder_that_falls_silent_is_replaced_only_once_the_robot_rests():
    first, second = pair()
    first.seize(ARM)
    hear(second, first, 1.0)
    with pytest.raises(InputError, match="/excitation commands"):
        second.claim(ARM, 0.99 + TIMES.silence, at_rest=True)
    later = 1.01 + TIMES.silence
    assert [claim.node for claim in second.silent(ARM, later)] == ["/excitation"]
    with pytest.raises(InputError, match="/excitation commanded the robot and is silent; the robot is not seen"):
        second.claim(ARM, later, at_rest=False)
    second.claim(ARM, later, at_rest=True)
    assert second.granted(later + TIMES.claim) and not second.conflict(later + TIMES.claim)
    hear(second, first, later + 1.0)  # it was only asleep
    hear(first, second, later + 1.0)
    assert second.conflict(later + 1.0) == "/excitation" and first.conflict(later + 1.0) == "/feedforward"


def test_a_guard_is_known_while_it_says_so():
    first, guard = pair()
    guard.role = Role.WATCHES
    hear(first, guard, 1.0)
    assert first.watched(0.99 + TIMES.silence) and not first.watched(1.1 + TIMES.silence)
    assert not first.rival(ARM, 1.0) and not first.silent(ARM, 9.0)


@dataclass
class Process:
    """A node in the simulation: when it runs again, when it commands from and to, and what is on the way to it."""

    lease: Lease
    asleep_until: float = 0.0
    commands: bool = False
    wants: bool = False
    inbox: list = field(default_factory=list)


def play(seed, seconds):
    """Let nodes claim and release at random, sleep and be late; return the times [s] in which several commanded."""
    rng = np.random.default_rng(seed)
    nodes = [Process(Lease(f"/node{k}", int(rng.integers(1 << 32)), 0.0)) for k in range(3)]
    both, granted, now = [], 0, 1.0
    while now < seconds:
        now += 0.01
        for node in nodes:
            if rng.random() < 0.002:
                node.asleep_until = now + rng.uniform(0.05, 1.0)
            if now < node.asleep_until:
                continue
            arrived = [(at, word) for at, word in node.inbox if at <= now]
            node.inbox = [(at, word) for at, word in node.inbox if at > now]
            for _, word in arrived:
                node.lease.take(word, now)
            if rng.random() < 0.02:
                node.wants = not node.wants
            try:
                if node.commands and (node.lease.conflict(now) or not node.wants):
                    node.commands, node.wants = False, False
                    node.lease.release()
                elif node.wants and not node.commands:
                    node.lease.claim(ARM, now, at_rest=not any(other.commands for other in nodes))
                    node.commands = node.lease.granted(now)
                    granted += node.commands
            except InputError:
                pass
            for other in nodes:
                if other is not node:
                    other.inbox.append((now + rng.uniform(0.0, 0.02), node.lease.word()))
        if sum(node.commands and now >= node.asleep_until for node in nodes) > 1:
            both.append(now)
    return both, granted


@pytest.mark.parametrize("seed", range(20))
def test_two_never_command_for_longer_than_they_need_to_hear_each_other(seed):
    """Messages take up to 20 ms, processes sleep for up to a second: a holder that wakes up is heard at once."""
    both, granted = play(seed, 30.0)
    assert granted > 20
    runs = np.split(np.array(both), np.flatnonzero(np.diff(both) > 0.015) + 1)
    assert max((len(run) * 0.01 for run in runs), default=0.0) <= 0.05
