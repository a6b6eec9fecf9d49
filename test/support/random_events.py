# SPDX-License-Identifier: Apache-2.0

"""Fires random events at the excitation's machine and its robot, and checks the invariants after every one of them.

After a stop nothing but braking leaves; what leaves is finite, in limits and for the right joints; nothing is followed
without being watched; and every ending is at rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from follower import PERIOD, Follower
from ros2_dynid.control.excitation_events import (
    MOVING,
    ActivateExcitation,
    ConnectionProblem,
    DeactivateExcitation,
    GoalRefused,
    JogHeld,
    JogReleased,
    Pause,
    Phase,
    RobotChanged,
    Stop,
)
from ros2_dynid.control.joint_trust import REST_WINDOW
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import State


@dataclass
class Seen:
    steps: int = 0
    events: int = 0
    sent: int = 0


def play(robot, seed, seconds):
    """Let `seconds` pass with random events; raise AssertionError where an invariant breaks."""
    rng = np.random.default_rng(seed)
    made = Follower(
        robot,
        settings=MotionSettings(settle=0.05, tracking=0.05, approach_speed=0.8),
        from_desired=bool(rng.integers(2)),
        latency=float(rng.uniform(0.0, 0.02)),
        droop=float(rng.uniform(-0.003, 0.003)),
    )
    seen, checked, stopped, stopped_at = Seen(), 0, False, 0
    faults_until = rested_at = 0.0
    end = made.now + seconds
    while made.now < end:
        made.step()
        seen.steps += 1
        if made.now > faults_until:
            _heal(made)
            if rng.random() < 0.01:
                _fault(made, rng)
                faults_until = made.now + rng.uniform(0.01, 0.4)
        before = made.machine.phase
        if (rng.random() < 0.01 and (before in MOVING or before is Phase.BRAKING)) or rng.random() < 0.05:
            seen.events += 1
            sent = len(made.sent)
            if _event(made, rng, robot) == "stop" and before in MOVING:
                stopped, stopped_at = True, sent
                assert made.machine.phase is Phase.BRAKING
        for number, (_, _, points) in enumerate(made.sent[checked:], start=checked):
            _leaves_well(made, points)
            if stopped and made.machine.phase is Phase.BRAKING and number >= stopped_at:
                assert len(points.t) <= 1 or np.isnan(made.machine._watch.last.state.dq).all(), "only stops leave"
        checked = len(made.sent)
        phase = made.machine.phase
        if phase not in MOVING and phase is not Phase.BRAKING:
            stopped = False
            rests = np.all(np.abs(made.desired[1]) < 0.05) and not made.arriving
            said = [a.reason for a in made.announced if a.reason][-1:]
            doubt = said and ("not known whether" in said[0] or "does not come to rest" in said[0])
            rested_at = made.now if rests or doubt else rested_at
            assert made.now - rested_at < REST_WINDOW + 2 * PERIOD, f"{phase} while it moves: {said}"
        else:
            rested_at = made.now
    assert np.all(made.fastest <= 1.1 * made.machine.limits.velocity), made.fastest
    seen.sent = len(made.sent)
    return seen


def _leaves_well(made, points):
    limits = made.machine.limits
    assert points.joint_names == limits.joint_names
    assert np.all(np.isfinite(points.q)) and np.all(points.dq[-1] == 0.0) and np.all(np.diff(points.t) > 0)
    slack = made.machine.settings.overshoot + 1e-6
    assert np.all(points.q >= limits.lower - slack) and np.all(points.q <= limits.upper + slack)
    _, dq, ddq = points.within(np.linspace(0, 1, 7))
    assert np.all(np.abs(dq) <= limits.velocity * 1.02 + 1e-9)
    assert np.all(np.abs(ddq) <= np.maximum(limits.acceleration, limits.deceleration) * 1.02 + 1e-9)


KINDS = [
    *("start", "stop", "start", "start", "parameters", "robot", "connection", "goal", "off", "on"),
    *("pause", "pause", "resume", "resume", "resume", "jog", "jog", "hold", "hold", "release"),
]


def _event(made, rng, robot):
    now = made.now
    kind = rng.choice(KINDS)
    if kind == "start":
        q = rng.uniform([-1, -1.5, -1], [1, 0, 1])
        try:
            made.start(q_from=q, q_to=q + rng.uniform(-0.4, 0.4, 3), seconds=float(rng.uniform(1.0, 2.0)))
        except InputError:
            return "refused"
    elif kind == "stop":
        made.do(Stop(now))
    elif kind in ("pause", "resume", "jog", "hold", "release"):
        return _slow_event(made, rng, robot, kind)
    elif kind == "parameters":
        made.set(stale=float(rng.uniform(0.05, 0.2)), settle=float(rng.uniform(0, 0.1)))
    elif kind == "robot" and rng.random() < 0.2:
        made.do(RobotChanged(now, replace(robot)))
    elif kind == "connection" and rng.random() < 0.3:
        made.do(ConnectionProblem(now, "nobody listens"))
    elif kind == "goal" and rng.random() < 0.3:
        made.do(GoalRefused(now, int(rng.integers(0, len(made.sent) + 2)), "refused"))
    elif kind == "off" and rng.random() < 0.3:
        made.do(DeactivateExcitation(now))
    elif kind == "on":
        made.do(ActivateExcitation(now))
    return kind


def _slow_event(made, rng, robot, kind):
    now, motion = made.now, made.machine._motion
    if kind == "pause":
        made.do(Pause(now))
    elif kind == "resume" and made.machine.paused is not None:
        made.resume()
    elif kind == "jog" and made.machine.limits is not None:
        try:
            made.jog(str(rng.choice(robot.active_names)), int(rng.choice([-1, 1])))
        except InputError:
            return "refused"
    elif kind == "hold":
        made.do(JogHeld(now, getattr(motion, "joint", "waist"), getattr(motion, "direction", 1)))
    elif kind == "release":
        made.do(JogReleased(now))
    return kind


def _heal(made):
    made.silent = made.deaf = False
    made.tampered = lambda s: s
    made.lost = lambda k: False


def _fault(made, rng):
    kind = rng.choice(["silent", "frozen", "nan", "jump", "lost", "names", "zero", "jitter"])
    if kind == "silent":
        made.silent = True
    elif kind == "frozen" and made.machine._watch is not None and made.machine._watch._history:
        last = made.machine._watch.last.state
        made.tampered = lambda s: last
    elif kind == "nan":
        made.tampered = lambda s: replace(s, q=s.q * np.where(np.arange(3) == 1, np.nan, 1.0))
    elif kind == "jump":
        by = rng.uniform(-2, 2, 3)
        made.tampered = lambda s: replace(s, q=s.q + by)
    elif kind == "lost":
        made.lost = lambda k: bool(rng.integers(2))
    elif kind == "names":
        made.tampered = lambda s: State(("x", "y", "z"), s.q.copy(), s.dq.copy(), s.tau.copy(), s.stamp)
    elif kind == "zero":
        made.tampered = lambda s: replace(s, stamp=0)
    elif kind == "jitter":
        made.tampered = lambda s: replace(s, dq=s.dq + rng.normal(size=3))


if __name__ == "__main__":
    import sys

    from ros2_dynid.model.load import load_robot

    for seed in range(int(sys.argv[1])):
        print(seed, play(load_robot("demo3"), seed, 20.0), f"{PERIOD=}")
