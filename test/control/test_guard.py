# SPDX-License-Identifier: Apache-2.0

"""A guard in the place of a commander that is gone: the robot is braked within its limits, or held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from follower import Follower
from ros2_dynid.control.excitation_events import ExcitationOutcome, Phase
from ros2_dynid.control.guard import DEFAULT_TIMES, Guard
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.lease import Claim, Role
from ros2_dynid.control.motion_limits import MotionSettings, motion_limits
from ros2_dynid.control.stop import quintic
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
LIMITS = motion_limits(ROBOT, MotionSettings())
SILENCE = 0.3


class Guarded(Follower):
    """The excitation's machine, which may be killed, its robot, and a guard that sees the same joint states."""

    def __init__(self, *, seen=False, **more):
        self.seen = seen
        self.guard, self.killed_at, self.said = Guard(MotionSettings(tracking=0.1)), np.inf, []
        self.guard.use(ROBOT)
        self.stops, self.replaced, self.ended = 0, False, False
        super().__init__(ROBOT, **more)

    def publish(self, points, delay, number):
        if self.seen:
            self.guard.follow(points, self.now + delay)
        return super().publish(points, delay, number)

    def do(self, event):
        if isinstance(event, JointStateArrived):
            self.guard.take(event)
        if self.now < self.killed_at:
            return super().do(event)
        if self.now >= self.killed_at + SILENCE:
            self.act()
        return ExcitationOutcome(True, "")

    def act(self):
        gone = Claim(Role.HOLDS, "/excitation", 1, ROBOT.active_names)
        action = self.guard.tick(self.now) if self.replaced else self.guard.replace(gone, self.now)
        self.replaced = True
        self.said += [action.say] if action.say else []
        self.ended |= action.ended
        if action.stop is not None:
            self.stops += 1
            if not self.lost(self.stops):
                self.arriving.append((self.now + self.latency, action.stop, 0.0))


@pytest.mark.parametrize("from_desired", [True, False])
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("phase", [Phase.APPROACH, Phase.SETTLE, Phase.RUNNING])
def test_the_robot_is_braked_within_its_limits_when_its_commander_is_killed(phase, seen, from_desired):
    """Whether the trajectory was seen on its topic, or went to an action."""
    made = Guarded(seen=seen, from_desired=from_desired, droop=0.004)
    assert made.start(seconds=3.0).accepted
    made.until(phase)
    if phase is not Phase.SETTLE:
        made.until_moving()
        made.run(0.5)
    assert phase is Phase.SETTLE or np.abs(made.desired[1]).max() > 0.05
    made.killed_at = made.now
    made.run(SILENCE + 0.6)
    assert not np.any(made.desired[1]), "it stands long before its trajectory ends"
    assert made.said[0] == "/excitation is gone: braking" and made.said[-1] == "the robot is at rest"
    assert made.ended and not made.guard.busy and made.stops == 1
    assert np.all(made.fastest <= 1.03 * LIMITS.velocity) and np.all(made.hardest <= 1.03 * LIMITS.acceleration)


def test_a_stop_that_is_lost_is_sent_again_and_one_that_is_never_followed_is_said():
    made = Guarded()
    made.running(0.3)
    made.lost = lambda k: k <= 1
    made.killed_at = made.now
    made.run(2.0)
    assert made.stops == 2 and "still moves" in made.said[1] and made.said[-1] == "the robot is at rest"
    stubborn = Guarded()
    stubborn.running(0.1)
    stubborn.deaf, stubborn.killed_at = True, stubborn.now
    stubborn.tampered = lambda s: type(s)(s.joint_names, s.q + 0.1 * stubborn.now, s.dq + 0.1, s.tau, s.stamp)
    stubborn.run(SILENCE + DEFAULT_TIMES.patience + 0.1)
    assert "use its emergency stop" in stubborn.said[-1] and stubborn.ended


def test_without_joint_states_it_waits_for_them_and_says_so():
    made = Guarded()
    made.running(0.3)
    made.silent, made.killed_at = True, made.now
    made.run(SILENCE + 0.2)
    assert made.stops == 0 and "no joint state" in made.said[0] and "emergency stop" in made.said[0]
    assert made.guard.motion(made.now)[0] is None
    made.silent = False
    made.run(1.0)
    assert made.stops == 1 and made.said[-1] == "the robot is at rest"
    unknown = Guard(MotionSettings())
    action = unknown.replace(Claim(Role.HOLDS, "/x", 1, ("a",)), 0.0)
    assert action.stop is None and "the robot is not known" in action.say


SPOILED = {
    "silence": lambda made, s: None,
    "jump": lambda made, s: replace(s, q=s.q + 0.7),
    "frozen values": lambda made, s: replace(s, q=made.frozen.q, dq=made.frozen.dq),
    "NaN": lambda made, s: replace(s, q=np.nan * s.q),
}


@pytest.mark.parametrize("fault", SPOILED)
@pytest.mark.parametrize("from_desired", [True, False])
def test_with_spoiled_joint_states_it_brakes_along_the_trajectory_that_was_sent(fault, from_desired):
    made = Guarded(seen=True, from_desired=from_desired)
    made.running(0.4)
    q, dq = made.measured
    made.frozen = State(ROBOT.active_names, q.copy(), dq.copy(), np.zeros(3), 0)
    made.tampered = lambda s: SPOILED[fault](made, s)
    made.killed_at = made.now
    made.run(SILENCE + 1.2)
    assert not np.any(made.desired[1]) and made.stops >= 1
    assert np.all(made.fastest <= 1.03 * LIMITS.velocity) and np.all(made.hardest <= 1.03 * LIMITS.acceleration)


def test_a_robot_that_is_elsewhere_than_its_trajectory_is_not_thrown_there():
    """Its clock stood, or it was started anew: what was sent has long ended elsewhere."""
    made = Guarded(seen=True)
    made.running(0.3)
    q, jitter = made.measured[0], [0.015, -0.015]
    made.followed, made.killed_at = None, made.now
    made.desired = q, np.zeros(3)
    made.guard.follow(quintic(ROBOT.active_names, q + 0.5, q + 0.6, 0.1), made.now)
    made.tampered = lambda s: replace(s, q=s.q + (jitter[int(made.now / 0.004) % 2] if jitter else 0.0))
    made.run(SILENCE + 0.2)
    assert made.stops == 0 and len(made.said) == 1 and "contradict each other" in made.said[0]
    made.silent = True
    made.run(0.2)
    assert made.stops == 0, "nor while it is not seen"
    jitter.clear()
    made.silent = False
    made.run(1.0)
    assert made.stops == 1 and np.abs(made.desired[0] - q).max() < 0.02 and made.said[-1] == "the robot is at rest"


def test_torques_go_over_to_those_that_hold_the_robot():
    guard = Guard(MotionSettings())
    gone = Claim(Role.HOLDS, "/feedforward", 1, ("a", "b"), (10.0, -4.0), (2.0, 6.0))
    sent = [guard.replace(gone, 5.0).efforts]
    now = 5.0
    while guard.busy:
        assert now < 15.0, "the guard did not end within 10 s"
        now += 0.01
        sent.append(guard.tick(now).efforts)
    assert (
        sent[0] == (10.0, -4.0) and sent[-1] == (2.0, 6.0) and now == pytest.approx(5.0 + DEFAULT_TIMES.ramp, abs=0.02)
    )
    steps = np.abs(np.diff(sent, axis=0))
    assert np.all(steps <= 1.01 * 10.0 * 0.01 / DEFAULT_TIMES.ramp), "evenly"
    assert guard.tick(now + 1.0).efforts == ()


def test_it_says_what_moves():
    made = Guarded()
    assert made.guard.motion(made.now) == (False, "the robot is at rest")
    made.running(0.5)
    moves, text = made.guard.motion(made.now)
    assert moves and text.startswith("joint ") and "rad/s" in text
