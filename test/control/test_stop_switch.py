# SPDX-License-Identifier: Apache-2.0

"""The stop of the suite: a latched switch, an enabling switch, and what both machines do while one of them holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from feedforward_fuzz import BARE, CHI, NAMES, ROBOT, arrived, later
from follower import Follower
from ros2_dynid.control.excitation_events import Phase, Stop
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardTick,
    NewDescription,
    NewModel,
    NewReference,
    OptionsChanged,
    StopFeedforward,
)
from ros2_dynid.control.feedforward_machine import GUARDS, FeedforwardMachine
from ros2_dynid.control.stop import quintic
from ros2_dynid.control.stop_switch import NOT_ENABLED, STOP_SET, HoldBack, StopSwitch
from ros2_dynid.model.load import load_robot

HERE = np.array([0.2, -0.8, 0.4])


def test_the_newest_word_counts_in_whatever_order_words_come():
    words = [(1.0, False), (2.0, True), (3.0, False), (4.0, True), (5.0, False)]
    for seed in range(50):
        rng, switch = np.random.default_rng(seed), StopSwitch()
        heard = rng.permutation(len(words))[: rng.integers(1, 6)]
        for k in heard:
            switch.take_stop(words[k][1], words[k][0], 0.5)
        assert switch.reason(0.0) == (STOP_SET if words[max(heard)][1] else None)


def test_a_stop_is_obeyed_whatever_the_clock_of_its_sender_says():
    for seed in range(50):
        rng, switch, now = np.random.default_rng(seed), StopSwitch(0.0, 100.0), 101.5
        ahead = rng.uniform(-3600.0, 3600.0, 3)  # three computers, whose clocks differ
        newest = now + ahead[0]
        assert switch.take_stop(False, newest, now), "released before"
        for _ in range(20):
            now += rng.uniform(0.01, 5.0)
            stop, said_at, before = bool(rng.integers(2)), now + rng.choice(ahead), switch.reason(now)
            believed = switch.take_stop(stop, said_at, now)
            if stop:
                assert believed and switch.reason(now) == STOP_SET
            elif said_at <= newest:  # it may have been said before the stop, and be heard again
                assert switch.reason(now) == before and believed == (before is None)
            else:
                assert believed and switch.reason(now) is None
            newest = max(newest, said_at)


def test_an_enabling_switch_counts_while_it_says_that_it_is_pressed():
    switch = StopSwitch(enabled_for=0.2)
    assert switch.reason(0.0) == NOT_ENABLED, "nobody has pressed it yet"
    switch.take_enabling(True, 1.0)
    assert switch.reason(1.2) is None and switch.reason(1.21) == NOT_ENABLED
    switch.take_enabling(True, 2.0)
    switch.take_enabling(False, 2.01)
    assert switch.reason(2.01) == NOT_ENABLED
    switch.take_enabling(True, 2.02)
    switch.take_stop(True, 2.02, 2.02)
    assert switch.reason(2.03) == STOP_SET, "pressed or not"
    assert StopSwitch().reason(1e9) is None, "without an enabling switch nothing is waited for"


def test_the_excitation_brakes_and_starts_nothing_until_the_stop_is_released():
    made = Follower(load_robot("demo3"))
    assert made.start().accepted
    made.until(Phase.RUNNING)
    made.do(HoldBack(made.now, STOP_SET))
    assert made.do(Stop(made.now, STOP_SET[0])).answer == "stopping"
    made.until(Phase.ABORTED)
    made.run(0.3)
    sent = len(made.sent)
    for _ in range(2):
        refused = made.start()
        assert not refused.accepted and refused.answer == "; ".join(STOP_SET)
    assert len(made.sent) == sent
    made.do(HoldBack(made.now, None))
    assert made.start().accepted


class Streaming:
    """A feedforward of demo3 that streams torques, at HERE, and what has left it."""

    def __init__(self, *, stream=True, held=None):
        self.machine, self.now, self.stamp = FeedforwardMachine(FeedforwardSettings(), stream), 1.0, 0
        self.left = []
        self.give(lambda now: HoldBack(now, held))
        for event in (later(NewDescription, ROBOT), later(NewModel, BARE, CHI, "base_parameters"), ActivateFeedforward):
            assert not self.give(event).refused

    def give(self, make):
        outcome = self.machine.handle(make(self.now))
        self.left += [x for x in (outcome.torque, outcome.trajectory) if x is not None]
        return outcome

    def run(self, seconds):
        for _ in range(round(500 * seconds)):
            self.now, self.stamp = self.now + 0.002, self.stamp + 1
            self.give(arrived(NAMES, HERE, np.zeros(3), self.stamp))
            self.give(FeedforwardTick)

    def refer(self):
        return self.give(lambda now: NewReference(now, quintic(NAMES, HERE, HERE + 0.2, 1.0), now))


@pytest.mark.parametrize("stream", [False, True])
def test_the_feedforward_follows_nothing_until_the_stop_is_released(stream):
    made = Streaming(stream=stream)
    made.run(0.3)
    assert not made.refer().refused
    made.run(0.3)
    made.give(lambda now: HoldBack(now, STOP_SET))
    stopped = made.give(lambda now: StopFeedforward(now, halt=False))
    assert stopped.answer.startswith("going over to gravity" if stream else "braking")
    made.run(0.5)
    assert made.refer().refused == "; ".join(STOP_SET)
    if stream:
        assert made.machine.state is FeedforwardState.HOLDING, "an arm without torque falls"
    made.give(lambda now: HoldBack(now, None))
    made.run(0.1)
    assert not made.refer().refused, "releasing is enough"


def test_no_torque_begins_while_the_stop_is_set():
    made = Streaming(held=STOP_SET)
    made.run(0.5)
    assert made.machine.state is FeedforwardState.WAITING and not made.left
    made.give(lambda now: HoldBack(now, None))
    made.run(0.1)
    assert made.machine.state is FeedforwardState.HOLDING and made.left
    made.give(lambda now: HoldBack(now, STOP_SET))
    made.give(DeactivateFeedforward)
    made.run(1.0)
    count = len(made.left)
    made.give(ActivateFeedforward)
    made.run(0.3)
    assert made.machine.state is FeedforwardState.WAITING and len(made.left) == count, "activating releases nothing"


@pytest.mark.parametrize("stream", [False, True])
def test_what_guards_torques_is_settled_while_the_robot_moves(stream):
    other = FeedforwardSettings(efforts=(50.0,), rates=(5e3,), timeout=9.0, stale=9.0, near=9.0, lead=0.2,
                                check_rest=False, command_names=NAMES[::-1])  # fmt: skip
    changes = {name: getattr(other, name) for name in GUARDS}
    assert all(value != getattr(FeedforwardSettings(), name) for name, value in changes.items())
    made = Streaming(stream=stream)

    def change(name):
        return made.give(lambda now: OptionsChanged(now, replace(made.machine.law.settings, **{name: changes[name]})))

    made.run(0.3)
    assert not made.refer().refused
    made.run(0.2)
    for name in changes:
        assert change(name).refused.startswith(f"{name} guards the motion"), name
    assert made.machine.law.settings == FeedforwardSettings()
    options = replace(FeedforwardSettings().options, friction=False)
    assert not made.give(lambda now: OptionsChanged(now, FeedforwardSettings(options))).refused, "a law fades in"
    made.run(1.5)
    for name in changes:
        assert not change(name).refused, "at rest it may be set"
