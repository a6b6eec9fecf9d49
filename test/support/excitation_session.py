# SPDX-License-Identifier: Apache-2.0

"""Sessions of the excitation's machine with a robot that follows, as text: what it announced, and what it sent.

    ./dynid python test/support/excitation_session.py     write test/control/sessions/excitation.txt anew

Read the difference before you keep it: every line is something that a robot would have done or a user have read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from follower import Follower
from ros2_dynid.control.excitation_machine import (
    ActivateExcitation,
    ConnectionProblem,
    DeactivateExcitation,
    ExcitationTick,
    GoalRefused,
    JointStateArrived,
    Phase,
    RobotChanged,
    Stop,
)
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot

FILE = Path(__file__).resolve().parents[1] / "control" / "sessions" / "excitation.txt"
ROBOT = load_robot("demo3")
PACE = np.array([0.3, -0.5, 0.2])


class Session(Follower):
    """The machine and its robot; what happens becomes lines."""

    def __init__(self, title, **more):
        self.lines = [f"# {title}"]
        super().__init__(ROBOT, **{"settings": MotionSettings(settle=0.1, tracking=0.08, approach_speed=0.8), **more})

    def publish(self, points, delay, number):
        at = super().publish(points, delay, number)
        self.tell(f"sends {number}: {len(points.t)} points from {points.t[0]:.3f} to {points.t[-1]:.3f} s"
                  f" + {delay:g}, {_row(points.q[0])} to {_row(points.q[-1])}")  # fmt: skip
        return at

    def do(self, event):
        outcome = super().do(event)
        if not isinstance(event, JointStateArrived | ExcitationTick) or not outcome.accepted:
            answer = f"{'yes' if outcome.accepted else 'no'}: {outcome.answer}"
            self.tell(f"{type(event).__name__} {answer}; at rest {self.machine.at_rest}, {self.machine.commands} sent")
        for a in outcome.announced:
            self.tell(f"{a.phase.value} ({a.name}) {a.reason}")
        return outcome

    def tell(self, text):
        self.lines.append(f"{self.now:.3f} {text}")

    def go(self, **more):
        try:
            return self.start(**{"seconds": 0.8, **more})
        except InputError as error:
            self.tell(f"cannot start: {error}")
            return None

    def in_motion(self):
        self.go()
        self.until(Phase.RUNNING)
        self.until_moving()
        self.run(0.3)


def _row(values):
    return " ".join(f"{round(float(x), 4) + 0.0:g}" for x in values)


def drift(s, rate):
    """Let the joints drift away from what is desired by `rate` [rad/s]."""
    begin, droop = s.now, s.droop

    def pushed(state):
        s.droop = droop + rate * (s.now - begin)
        return state

    s.tampered = pushed


def plain():
    s = Session("a motion with delays, twice, and its settings", latency=0.008, droop=0.003)
    s.go()
    s.until(Phase.DONE)
    s.set(delay=0.2, settle=0.0, approach_speed=0.5, deceleration=3.0)
    s.go(q_to=(0.1, -0.9, 0.3))
    s.run(0.1)
    s.set(delay=0.1)
    s.set(tracking=0.09)
    s.go()
    s.until(Phase.DONE)
    return s


def stops():
    s = Session("stopped in every phase, deactivated, described anew")
    s.do(Stop(s.now, "before anything"))
    for phase in (Phase.APPROACH, Phase.SETTLE, Phase.RUNNING):
        s.go()
        s.until(phase)
        s.run(0.06)
        s.do(Stop(s.now))
        s.do(Stop(s.now, "again"))
        s.do(RobotChanged(s.now, replace(ROBOT)) if phase is Phase.SETTLE else ConnectionProblem(s.now, "gone"))
        s.go()
        s.until(Phase.ABORTED)
        s.run(0.15)
    s.in_motion()
    s.do(ConnectionProblem(s.now, "nobody listens"))
    s.until(Phase.ABORTED)
    s.in_motion()
    s.do(DeactivateExcitation(s.now))
    s.do(DeactivateExcitation(s.now))
    s.until(Phase.INACTIVE)
    s.go()
    s.do(ActivateExcitation(s.now))
    s.do(ActivateExcitation(s.now))
    s.do(RobotChanged(s.now, replace(ROBOT)))
    s.go()
    s.run(0.2)
    s.in_motion()
    s.do(RobotChanged(s.now, replace(ROBOT)))
    s.until(Phase.ABORTED)
    return s


def refused_goals():
    s = Session("goals that are refused")
    s.in_motion()
    s.do(GoalRefused(s.now, 1, "an old one"))
    s.do(GoalRefused(s.now, 2, "given up"))
    s.do(GoalRefused(s.now, 3, "at once"))
    s.run(0.09)
    s.do(GoalRefused(s.now, 3, "soon"))
    s.run(0.03)
    s.do(GoalRefused(s.now, 3, "later"))
    s.until(Phase.ABORTED)
    s.do(GoalRefused(s.now, 4, "too late"))
    return s


def lost_stops():
    s = Session("stops that are lost, one that is not followed, a robot that never rests")
    s.in_motion()
    count = len(s.sent)
    s.lost = lambda k: k in (count + 1, count + 2)
    s.do(Stop(s.now))
    s.until(Phase.ABORTED)
    s.lost = lambda k: False
    s.in_motion()
    s.do(Stop(s.now))
    drift(s, 0.4 * PACE)
    s.run(1.5)
    s.tampered = lambda state: state
    s.droop = 0.0
    s.until(Phase.ABORTED)
    s.run(6.0)
    s.in_motion()
    s.lost = lambda k: True
    drift(s, -0.1 * PACE)
    s.do(Stop(s.now))
    s.until(Phase.ABORTED)
    return s


def blind():
    s = Session("states that are missing, frozen, not numbers, of others, or jump", from_desired=False, latency=0.0)
    s.in_motion()
    s.silent = True
    s.until(Phase.ABORTED)
    s.go()
    s.silent = False
    s.go()
    s.run(0.15)
    s.in_motion()
    s.tampered = lambda state: State(("x", "y", "z"), state.q, state.dq, state.tau, state.stamp)
    s.run(0.12)
    s.tampered = lambda state: State(
        ("elbow", "waist", "shoulder"), state.q[[2, 0, 1]], state.dq[[2, 0, 1]], state.tau, state.stamp
    )
    s.until(Phase.ABORTED)
    s.in_motion()
    s.tampered = lambda state: replace(state, q=state.q + np.array([0.0, 0.6, 0.0]))
    s.run(0.02)
    s.tampered = lambda state: state
    s.until(Phase.ABORTED)
    s.go()
    s.run(4.0)
    s.go()
    s.run(1.2)
    s.in_motion()
    s.tampered = lambda state: replace(state, dq=np.full(3, np.nan))
    s.run(0.05)
    s.do(Stop(s.now))
    s.until(Phase.ABORTED)
    s.in_motion()
    s.tampered = lambda state: replace(state, dq=state.dq * np.array([1.0, np.nan, 1.0]))
    s.run(0.05)
    s.do(Stop(s.now))
    s.until(Phase.ABORTED)
    for old in (60, 130):
        s.tampered = lambda state: state
        s.in_motion()
        s.tampered = lambda state, old=old: replace(state, stamp=state.stamp - old * 1_000_000)
        s.set(tracking=0.5)
        s.run(0.2)
        s.do(Stop(s.now))
        s.until(Phase.ABORTED)
    s.tampered = lambda state: replace(state, q=state.q * np.array([1.0, 1.0, np.nan]))
    s.run(0.1)
    s.go()
    return s


def astray():
    s = Session("off the reference, a controller that takes nothing, an end without rest, a push that stays")
    s.in_motion()
    drift(s, PACE)
    s.until(Phase.BRAKING)
    s.run(0.1)
    s.tampered = lambda state: state
    s.until(Phase.ABORTED)
    s.droop = 0.0
    s.run(6.0)
    s.deaf = True
    s.go()
    s.until(Phase.ABORTED)
    s.deaf = False
    s.set(tracking=0.5)
    s.go()
    s.until(Phase.RUNNING)
    drift(s, 0.1 * PACE)
    s.until(Phase.BRAKING)
    s.tampered = lambda state: state
    s.until(Phase.ABORTED)
    return s


def clocks():
    s = Session("a clock that is set back: a little, in motion, while braking, at rest")
    s.in_motion()
    s.do(ExcitationTick(s.now - 0.15))
    s.do(ExcitationTick(s.now - 0.5))
    s.now -= 0.5
    s.run(0.02)
    s.do(ExcitationTick(s.now - 0.3))
    s.until(Phase.ABORTED)
    s.do(ExcitationTick(s.now - 5.0))
    s.now -= 5.0
    s.go()
    s.run(0.2)
    s.go()
    s.until(Phase.DONE)
    return s


def sessions() -> list[str]:
    """Return the lines of all of them."""
    made = (plain, stops, refused_goals, lost_stops, blind, astray, clocks)
    return [line for session in made for line in session().lines]


if __name__ == "__main__":
    FILE.write_text("\n".join(sessions()) + "\n", encoding="utf-8")
