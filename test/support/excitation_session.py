# SPDX-License-Identifier: Apache-2.0

"""Sessions of the excitation's machine with a robot that follows, as text: what it announced, and what it sent.

    ./dynid python test/support/excitation_session.py     write test/control/sessions/excitation.txt anew

Read the difference before you keep it: every line is something that a robot would have done or a user have read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from follower import Follower
from ros2_dynid.control.excitation_events import ExcitationTick, GoalRefused, Phase
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.errors import InputError
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


def sessions() -> list[str]:
    """Return the lines of all of them."""
    made = (plain, refused_goals)
    return [line for session in made for line in session().lines]


if __name__ == "__main__":
    FILE.write_text("\n".join(sessions()) + "\n", encoding="utf-8")
