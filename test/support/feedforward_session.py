"""Sessions of the feedforward's machine, event by event, as text: what the user, the robot and the clock did to it.

    ./dynid python test/support/feedforward_session.py     write test/control/sessions/feedforward.txt anew

Read the difference before you keep it: every line is something that a robot would have felt or a user have read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from feedforward_fuzz import BARE, CHI, LONGER, NAMES, OTHER, ROBOT
from ros2_dynid.codegen.runtime_export import ErrorBars
from ros2_dynid.control.feedforward import FeedforwardOptions
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    AskFiller,
    Background,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardTick,
    MeasuredState,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    OptionsChanged,
    OutputChanged,
    StreamedPoint,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.held_load import Load
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.model.parameters import standard_vector

FILE = Path(__file__).resolve().parents[1] / "control" / "sessions" / "feedforward.txt"
HERE, STILL = np.array([0.2, -0.8, 0.4]), np.zeros(3)
THERE = np.array([0.5, -0.3, 0.1])
LOAD = Load(3.0, np.array([0.02, 0.3, -0.05]), np.diag([0.01, 0.015, 0.02]), 3)
DESCRIBED, MODEL = NewDescription(ROBOT), NewModel(BARE, CHI, "base_parameters")
SLOW = FeedforwardSettings(FeedforwardOptions(ramp=0.06), period=0.02, hold=False)


class Session:
    """A machine, its clock, and the lines."""

    def __init__(self, title, settings=SLOW, *, stream=True):
        self.machine, self.now, self.stamp = FeedforwardMachine(settings, stream), 10.0, 0
        self.lines = [f"# {title}"]

    def give(self, label, event, after=0.0):
        self.now += after
        m = self.machine
        outcome = m.handle(event, self.now)
        due = "never" if m.due == np.inf else f"{round(m.due - self.now, 4) + 0.0:+.4f}"
        parts = [f"{self.now:.3f} {label}: {m.state.name} {due}"]
        if outcome.refused:
            parts.append(f"refused: {outcome.refused}")
        if outcome.torque is not None:
            parts.append("tau " + _row(outcome.torque.tau))
            if outcome.torque.command_names != outcome.torque.joint_names:
                parts.append("command " + _row(outcome.torque.command))
        if outcome.trajectory is not None:
            made = outcome.trajectory
            parts.append(f"{len(made.t)} points, ends {_row(made.tau[0])} and {_row(made.tau[-1])}")
        if outcome.filler is not None:
            parts.append(f"filler of {_row(outcome.filler.limits.effort)}")
        if outcome.coefficients is not None:
            found = outcome.coefficients
            parts.append(f"M {_row(found.M.ravel())} C {_row(found.C)} Q {_row(found.Q)}")
        m.tell()
        s = m.status
        told = (
            f"{s.state.name} {s.robot or '-'} {len(s.joint_names)} {s.sent}{' held' * s.held_back}{' fresh' * s.fresh}"
        )
        parts.append(told + (f" ({s.remark[:40]})" if s.remark else ""))
        assert m.has_news == bool(m._news)
        parts += [f"{'warn' if n.warning else 'says'}: {n.text}" for n in m.news()]
        self.lines.append(" | ".join(parts))
        return outcome

    def see(self, q=HERE, dq=STILL, after=0.0, *, stamp=None, names=NAMES):
        self.stamp += 1
        return self.give("state " + _row(q), MeasuredState(names, q, dq, self.stamp if stamp is None else stamp), after)

    def point(self, q=HERE, dq=STILL, ddq=STILL, after=0.0, names=NAMES):
        return self.give(f"point {_row(q)} {_row(dq)} {_row(ddq)}", StreamedPoint(names, q, dq, ddq), after)

    def ticks(self, count, after=0.02, q=HERE):
        for _ in range(count):
            if q is not None:
                self.see(q, after=after)
            self.give("tick", FeedforwardTick(), 0.0 if q is not None else after)


def _row(values):
    return " ".join(f"{x + 0.0:.4g}" if abs(x) > 1e-9 else "0" for x in values)


def beginnings():
    s = Session("no model, no limits, no state yet; then it holds", replace(SLOW, hold=True))
    s.give("tick", FeedforwardTick())
    s.point()
    s.give("activate", ActivateFeedforward(), 0.01)
    s.give("payload", NewPayload(LOAD))
    s.give("background", Background())
    s.give("state before any robot", MeasuredState(NAMES, HERE, STILL, 1))
    s.give("model without limits", MODEL)
    s.give("filler", AskFiller())
    s.give("description", DESCRIBED)
    s.give("tick", FeedforwardTick(), 0.005)
    s.give("background without a state", Background())
    s.see(after=0.005)
    s.give("tick", FeedforwardTick())
    s.give("background", Background(), 0.002)
    s.ticks(2)
    s.give("activate again", ActivateFeedforward())
    s.give("deactivate", DeactivateFeedforward())
    s.ticks(6)
    s.give("deactivate again", DeactivateFeedforward())
    s.give("filler while stopped", AskFiller())
    return s


def stale_states():
    s = Session("holding, states go stale and come back", replace(SLOW, hold=True))
    for label, event in (("description", DESCRIBED), ("model", MODEL), ("activate", ActivateFeedforward())):
        s.give(label, event)
    s.see(HERE, after=0.01)
    s.ticks(2)
    s.see(HERE + 0.02, after=0.01)
    s.give("tick", FeedforwardTick(), 0.1)  # still fresh
    s.give("tick", FeedforwardTick(), 0.001)  # stale
    s.give("tick", FeedforwardTick(), 0.02)
    s.give("the same state again", MeasuredState(NAMES, HERE + 0.02, STILL, s.stamp), 0.01)
    s.give("tick", FeedforwardTick(), 0.01)
    s.give("its stamp, another velocity", MeasuredState(NAMES, HERE + 0.02, STILL + 0.1, s.stamp), 0.01)
    s.give("tick", FeedforwardTick(), 0.01)
    for q in (np.array([0.2, np.nan, 0.4]), np.array([np.inf, -0.8, 0.4])):
        s.see(q, after=0.01)
    s.see(np.zeros(2), np.zeros(2))
    s.give("velocities of two", MeasuredState(NAMES, HERE, np.zeros(2), 99))
    s.see(names=("a", "b", "c"))
    for q in (HERE + np.array([0.0, 0.0, 0.6]), HERE + np.array([0.0, 0.0, 0.61]), HERE + np.array([0.1, 0.0, 0.0])):
        s.see(q, after=0.01)
        s.give("tick", FeedforwardTick(), 0.01)
    s.see(HERE + np.array([0.0, 0.9, 0.0]), after=0.01)
    for _ in range(3):
        s.see(HERE + np.array([0.0, 0.9, 0.0]), after=1.66)
        s.give("tick", FeedforwardTick(), 0.01)
    s.see(HERE + np.array([0.0, 0.9, 0.0]), after=0.1)
    s.ticks(5, q=HERE + np.array([0.0, 0.9, 0.0]))
    return s


def begun_again():
    s = Session("positions have jumped; what was forgotten with a deactivation, and what a new output forgets", SLOW)
    for label, event in (("description", DESCRIBED), ("model", MODEL), ("activate", ActivateFeedforward())):
        s.give(label, event)
    s.see()
    s.point(after=0.01)
    s.see(HERE + 0.9, after=0.01)
    s.give("deactivate", DeactivateFeedforward())
    s.ticks(6)
    s.give("hold from now on", OptionsChanged(replace(SLOW, hold=True)))
    s.give("activate", ActivateFeedforward(), 0.1)
    s.see(THERE)
    s.ticks(1, q=None)
    for _ in range(3):
        s.see(THERE + 0.2, after=0.1)  # as quick as the joints may move
        s.give("tick", FeedforwardTick())
    s.give("no more torques", OutputChanged(False))
    s.ticks(6, q=THERE)
    s.give("torques", OutputChanged(True), 0.01)
    s.ticks(2, q=HERE)
    return s


def streaming():
    s = Session("points, their timeout, change-overs within a ramp, an end in mid-motion")
    for label, event in (("description", DESCRIBED), ("model", MODEL), ("activate", ActivateFeedforward())):
        s.give(label, event)
    s.see()
    fast, hard = np.array([0.5, -0.4, 0.3]), np.array([4.0, -3.0, 5.0])
    s.point(THERE, fast, hard, 0.01)
    s.point(THERE, fast, -hard, 0.01)
    s.point(names=NAMES[::-1])
    s.give("payload", NewPayload(LOAD), 0.005)
    for _ in range(2):
        s.point(THERE, fast, -hard, 0.02)
    s.give("heavier model", NewModel(BARE, 1.2 * CHI, "base_parameters"))
    for _ in range(5):
        s.point(THERE, fast, -hard, 0.02)
    s.give("payload off", NewPayload(Load(0.0, STILL, np.zeros((3, 3)), 3)))
    for options in (
        FeedforwardOptions(gravity_only=True, ramp=0.0),
        FeedforwardOptions(friction=False, ramp=0.0),
        FeedforwardOptions(measured_gravity=True, ramp=0.0),
        FeedforwardOptions(split=True, ramp=0.0),
        FeedforwardOptions(split=True, measured_gravity=True, smoothing=0.5, ramp=0.0),
    ):
        s.give("options", OptionsChanged(replace(SLOW, options=options)))
        s.see(after=0.01)
        s.give("background", Background())
        s.point(THERE, fast, hard, 0.02)
    s.point(THERE, fast, hard, 0.08)  # the coefficients and the state are stale
    s.point(THERE, fast, hard, 0.02)
    s.give("options", OptionsChanged(SLOW))
    s.point(THERE, fast, hard, 0.02)
    s.give("tick", FeedforwardTick(), 0.049)
    s.see(HERE)
    s.give("tick", FeedforwardTick(), 0.002)
    s.ticks(5)
    s.point(THERE, fast, hard, 0.02)
    s.give("no more torques", OutputChanged(False))
    s.point(THERE, fast, hard, 0.01)
    s.ticks(1)
    s.give("torques after all", OutputChanged(True))
    s.ticks(5)
    s.give("no more torques", OutputChanged(False))
    s.give("the same", OutputChanged(False))
    s.ticks(5)
    s.give("torques", OutputChanged(True))
    s.point(THERE, fast, hard, 0.02)
    s.give("deactivate", DeactivateFeedforward())
    s.point()
    s.give("activate while it ends", ActivateFeedforward())
    s.give("computer pauses", FeedforwardTick(), 3.0)
    s.ticks(5)
    return s


def trajectories():
    s = Session("a trajectory now, one stamped ahead, one that is past; then where the reference was last")
    for label, event in (("description", DESCRIBED), ("model", MODEL), ("activate", ActivateFeedforward())):
        s.give(label, event)
    s.see()
    way = quintic(NAMES, HERE, THERE, 0.2)
    s.give("trajectory ahead", NewReference(way, s.now + 0.05))
    s.give("tick", FeedforwardTick(), 0.03)
    s.ticks(6)
    s.give("another, of other order", NewReference(way.ordered(NAMES[::-1]), s.now - 0.05))
    s.ticks(4)
    s.give("past", NewReference(way, s.now - 0.21))
    s.give("nearly past", NewReference(way, s.now - 0.19))
    s.ticks(8, q=None)
    s.give("one point", NewReference(reference(NAMES, np.array([0.5]), THERE[None]), s.now))
    s.ticks(9, q=None)
    s.give("unknown joints", NewReference(reference(("x", "y", "z"), np.array([0.0, 1.0]), np.zeros((2, 3))), s.now))
    s.give("no more torques", OutputChanged(False))
    s.ticks(6)
    s.give("to be filled", NewReference(quintic(NAMES, HERE, THERE, 1.0, 4), s.now))
    s.give("options", OptionsChanged(replace(SLOW, point_rate=20.0, efforts=(0.0, 70.0, 0.0))))
    s.give("to be filled", NewReference(quintic(NAMES, HERE, THERE, 1.0, 4), s.now))
    s.give("filler", AskFiller())
    return s


def other_robots():
    s = Session("other robots, models that cannot be, limits that come and go")
    s.give("model of a file", NewModel(ROBOT, CHI, "model.yaml", ErrorBars(np.ones(3), np.ones(3))))
    s.give("activate", ActivateFeedforward())
    s.see()
    s.point()
    assert s.machine.carried is not None and s.machine.carried.bars is not None
    s.give("base parameters", MODEL)
    assert s.machine.carried.bars is None
    wild = np.where(np.arange(len(CHI)) == 3, np.nan, CHI)
    for label, event in (
        ("heavy model", NewModel(BARE, 1e3 * CHI, "base_parameters")),
        ("broken model", NewModel(BARE, wild, "base_parameters")),
        ("other joints", NewModel(OTHER, standard_vector(OTHER), "base_parameters")),
        ("longer", NewModel(LONGER, CHI, "base_parameters")),
        ("heavy load", NewPayload(replace(LOAD, mass=60.0, inertia=np.eye(3)))),
        ("load at joint 0", NewPayload(replace(LOAD, joint=0))),
        ("load at joint 4", NewPayload(replace(LOAD, joint=4))),
        ("load at joint 1", NewPayload(replace(LOAD, joint=1))),
        ("limits", OptionsChanged(replace(SLOW, efforts=(60.0, 70.0, 50.0)))),
        ("limits of two", OptionsChanged(replace(SLOW, efforts=(60.0, 70.0)))),
        ("rates of two", OptionsChanged(replace(SLOW, rates=(60.0, 70.0)))),
        ("low rates", OptionsChanged(replace(SLOW, rates=(1.0,)))),
        ("joint order", OptionsChanged(replace(SLOW, command_names=("a", "b", "c")))),
        ("order to try", OptionsChanged(replace(SLOW, command_names=NAMES[::-1]), try_only=True)),
    ):
        s.give(label, event)
        s.point(ddq=np.array([3.0, 30.0, 40.0]), after=0.03)
    s.give("order", OptionsChanged(replace(SLOW, command_names=NAMES[::-1])))
    s.point(after=0.03)
    s.give("description without limits", NewDescription(BARE))
    s.point(after=0.02)
    s.give("description of a longer one", NewDescription(LONGER))
    s.point(after=0.02)
    s.ticks(5)
    s.give("filler", AskFiller())
    s.give("its model", NewModel(LONGER, CHI, "base_parameters"))
    s.ticks(4)
    s.give("description of other joints", NewDescription(OTHER))
    s.give("its model", NewModel(OTHER, standard_vector(OTHER), "base_parameters"))
    s.ticks(3)
    s.give("deactivate", DeactivateFeedforward())
    s.ticks(8)
    s.give("its model", NewModel(OTHER, standard_vector(OTHER), "base_parameters"))
    s.give("description while stopped", DESCRIBED)
    s.give("activate", ActivateFeedforward())
    s.give("description while waiting", DESCRIBED)
    s.give("its model", MODEL)
    s.give("tick", FeedforwardTick(), 0.01)
    return s


def limits_last():
    s = Session("limits come last, or only from the user; a torque that is not finite")
    s.give("activate", ActivateFeedforward())
    s.give("a model that no limits forbid yet", NewModel(BARE, 1e3 * CHI, "base_parameters"))
    s.give("its limits", DESCRIBED)
    s.give("model", MODEL)
    s.see()
    wild = np.full(3, 1e200)
    s.point(dq=wild)
    s.point(ddq=np.ones(3), after=0.01)
    s.point(THERE, dq=wild, after=0.01)
    s.ticks(5, q=None)
    given = Session("limits of the user", replace(SLOW, efforts=(90.0, 91.0, 92.0)))
    for label, event in (("model", MODEL), ("activate", ActivateFeedforward())):
        given.give(label, event)
    given.point(ddq=np.full(3, 1e3))
    given.give("no limits any more", OptionsChanged(SLOW))
    given.give("deactivate", DeactivateFeedforward())
    given.ticks(8)
    given.give("no limits any more", OptionsChanged(SLOW))
    given.point()
    s.lines += given.lines
    return s


def slow_endings():
    s = Session("an ending as slow as may be", replace(SLOW, options=FeedforwardOptions(ramp=9.0), rates=(200.0,)))
    for label, event in (("description", DESCRIBED), ("model", MODEL), ("activate", ActivateFeedforward())):
        s.give(label, event)
    s.see()
    for k in range(30):
        s.point(ddq=np.array([200.0, -200.0, 200.0]) * min(k, 8), after=0.02)
    s.give("deactivate", DeactivateFeedforward())
    s.ticks(40)
    return s


def sessions() -> list[str]:
    """Return the lines of all of them."""
    made = (beginnings, stale_states, begun_again, streaming, trajectories, other_robots, limits_last, slow_endings)
    return [line for session in made for line in session().lines]


if __name__ == "__main__":
    FILE.write_text("\n".join(sessions()) + "\n", encoding="utf-8")
