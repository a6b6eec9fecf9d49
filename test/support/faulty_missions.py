# SPDX-License-Identifier: Apache-2.0

"""Missions of the excitation's machine with a robot that lags, each met by one fault at a random moment, without ROS.

What the fault campaign does with real nodes (fault_campaign.py), in simulated time: a mission takes a fraction of a
second, so that thousands of moments, motions and robots can be tried.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

import numpy as np

from follower import Follower
from ros2_dynid.control.excitation_events import MOVING, ExcitationTick, Phase, Stop
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.model.joint_state import State
from ros2_dynid.recording.live import StampClock

FAULTS = (
    "none", "stop", "silence", "frozen", "frozen values", "NaN", "jump", "spikes", "robot paused", "late", "swapped",
    "stamps jitter", "stamp zero", "stamps back", "stamps ahead", "no velocities", "a second driver", "commands lost",
    "commands late", "commands twice", "machine paused",
)  # fmt: skip
RESOLUTION = 1e-4
"""Of the encoders [rad]: a position at its limit may read this much beyond it."""
STEP = 1e-3
"""Of the robot's dynamics [s]."""
SHARE = 0.7
"""Of the limits of speed and acceleration that the planned motions use; the rest is the robot's own."""
MARGIN = 0.1
"""Distance [rad] of the planned motions from the position limits."""


@dataclass
class Outcome:
    """What a mission with a fault came to: its last phase and words, and what was wrong."""

    fault: str
    seed: int
    ended: str = ""
    wrong: list[str] = field(default_factory=list)


class Mission(Follower):
    """A robot whose position control lags behind what its controller desires, and a fault in between."""

    def __init__(self, robot, seed: int, fault: str) -> None:
        self.rng, self.fault, self.on = np.random.default_rng(seed), fault, False
        self.period = self.rng.choice([2e-3, 4e-3, 8e-3])
        self.frequency, self.damping = self.rng.uniform(25.0, 60.0), self.rng.uniform(1.0, 1.3)
        self.q, self.dq = np.array([0.0, -1.0, 0.0]), np.zeros(3)
        self.outcome = Outcome(fault, seed)
        self.coming, self.number, self.stamps, self.held = [], 0, StampClock(), None
        self.joint, self.size = int(self.rng.integers(3)), float(self.rng.choice([-1, 1]) * self.rng.uniform(0.5, 3.0))
        self.delay, self.shift = float(self.rng.uniform(0.02, 0.4)), float(self.rng.uniform(0.2, 5.0))
        settings = MotionSettings(
            settle=0.1,
            tracking=float(self.rng.uniform(0.12, 0.25)),
            stale=float(self.rng.uniform(0.05, 0.2)),
            approach_speed=0.6,
            lead=float(self.rng.choice([0.005, 0.01, 0.02])),
        )
        super().__init__(
            robot,
            settings=settings,
            from_desired=bool(self.rng.integers(2)),
            latency=float(self.rng.uniform(0.0, 2 * settings.lead)),
        )

    def run(self, seconds):
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.step()

    # --- the robot

    def publish(self, points, delay, number):
        self._look_at(points)
        self.sent.append((self.now, self.machine.phase, points))
        if self.on and self.fault == "commands lost":
            return self.now
        late = self.rng.uniform(0.02, 0.2) if self.on and self.fault == "commands late" else 0.0
        for _ in range(2 if self.on and self.fault == "commands twice" else 1):
            self.arriving.append((self.now + self.latency + late, points, delay))
        self.arriving.sort(key=lambda item: item[0])
        return self.now

    def _move(self) -> None:
        """Let the robot's own time go on by a period."""
        for _ in range(round(self.period / STEP)):
            if self.followed is not None:
                self.desired = self.followed.at(self.now - self.begin)[:2]
            w, d = self.frequency, self.damping
            self.dq = self.dq + STEP * (w**2 * (self.desired[0] - self.q) - 2 * d * w * self.dq)
            self.q = self.q + STEP * self.dq
            self.now += STEP
        limits = self.machine.limits
        if limits is not None:
            for wrong, what in (
                (np.maximum(limits.lower - self.q, self.q - limits.upper) - RESOLUTION, "position"),
                (np.abs(self.dq) - limits.velocity, "speed"),
            ):
                if wrong.max() > 0:
                    self._note(f"the robot's {what} is beyond its limit", wrong.max())

    def _look_at(self, points) -> None:
        limits = self.machine.limits
        q, dq, ddq = points.within(np.linspace(0, 1, 9))
        for wrong, what in (
            (np.maximum(limits.lower - q, q - limits.upper) - RESOLUTION, "position"),
            (np.abs(dq) - limits.velocity * (1 + 1e-6), "speed"),
            (np.abs(ddq) - 1.05 * limits.acceleration, "acceleration"),
        ):
            if wrong.size and wrong.max() > 0:
                self._note(f"what was sent is beyond the limit of {what}", wrong.max())

    def _note(self, what: str, value: float) -> None:
        if not any(line.startswith(what) for line in self.outcome.wrong):
            self.outcome.wrong.append(f"{what} by {value:.4f} at {self.now:.3f} s in {self.machine.phase.value}")

    # --- time

    @property
    def measured(self):
        return self.q, self.dq

    def step(self) -> None:
        paused = self.on and self.fault == "robot paused"
        if paused:
            self.begin += self.period
            self.now += self.period
        else:
            self.arrivals()
            self._move()
            self._emit()
        if self.on and self.fault == "machine paused":
            return
        while self.coming and self.coming[0][0] <= self.now:
            state = heapq.heappop(self.coming)[2]
            self.do(JointStateArrived(self.now, state, self.stamps.time_of(state.stamp, self.now)))
        self.do(ExcitationTick(self.now))

    def _emit(self) -> None:
        """Let the driver say where the robot is."""
        stamp = round((self.now - 37.0) * 1e9)  # a clock of its own
        state = State(self.robot.active_names, self.q.copy(), self.dq.copy(), np.zeros(3), stamp)
        for spoiled, late in self._spoiled(state) if self.on else [(state, 0.0)]:
            self.number += 1
            heapq.heappush(self.coming, (self.now + late, self.number, spoiled))

    def _spoiled(self, s: State) -> list[tuple[State, float]]:
        """Return what comes instead of a state, and how late [s]."""
        rng, unit = self.rng, np.eye(3)[self.joint]
        if self.held is None:
            self.held = s
        match self.fault:
            case "silence":
                return []
            case "frozen":
                return [(self.held, 0.0)]
            case "frozen values":
                return [(replace(self.held, stamp=s.stamp), 0.0)]
            case "NaN":
                return [(replace(s, q=np.where(unit > 0, np.nan, s.q)), 0.0)]
            case "jump":
                return [(replace(s, q=s.q + self.size * unit), 0.0)]
            case "spikes":
                return [(replace(s, q=s.q + self.size * unit * (rng.random() < 0.05)), 0.0)]
            case "late":
                return [(s, self.delay + rng.uniform(0.0, 0.01))]
            case "swapped":
                return [(s, rng.choice([0.0, 1.5 * self.period]))]
            case "stamps jitter":
                return [(replace(s, stamp=s.stamp + round(rng.uniform(-5e7, 5e7))), 0.0)]
            case "stamp zero":
                return [(replace(s, stamp=0), 0.0)]
            case "stamps back":
                return [(replace(s, stamp=s.stamp - round(self.shift * 1e9)), 0.0)]
            case "stamps ahead":
                return [(replace(s, stamp=s.stamp + round(self.shift * 1e9)), 0.0)]
            case "no velocities":
                return [(replace(s, dq=np.full(3, np.nan)), 0.0)]
            case "a second driver":
                return [(s, 0.0), (replace(self.held, stamp=s.stamp + 1), 0.0)]
        return [(s, 0.0)]


def fly(robot, seed: int, fault: str) -> Outcome:
    """Fly a mission to its end, or to the end that the fault brings."""
    made = Mission(robot, seed, fault)
    rng, limits = made.rng, made.machine.limits
    low, high = limits.lower + MARGIN, limits.upper - MARGIN
    there, back = rng.random((2, 3)) < 0.5, rng.random(3) < 0.5  # from limit to limit, or somewhere else
    q_from = np.where(there[0], rng.uniform(low, high), np.where(back, low, high))
    q_to = np.where(there[1], rng.uniform(low, high), np.where(back, high, low))
    D = np.abs(q_to - q_from)
    seconds = max(np.max(1.875 * D / limits.velocity), np.max(np.sqrt(5.7735 * D / limits.acceleration))) / SHARE
    assert made.start(q_from=q_from, q_to=q_to, seconds=float(seconds)).accepted
    if rng.random() < 0.8:
        made.until(Phase.RUNNING, Phase.ABORTED)
        made.run(rng.uniform(0.0, seconds + 0.3))
    else:
        made.run(rng.uniform(0.0, 1.0))
    strikes, lasts = made.now, float(rng.choice([rng.uniform(0.02, 0.3), rng.uniform(0.3, 1.0), 10.0]))
    made.on = True
    if fault == "stop":
        made.do(Stop(made.now))
    while made.now < strikes + lasts and (made.machine.phase in MOVING or made.machine.phase is Phase.BRAKING):
        made.step()
    made.on = False
    patience = made.now + 15.0
    while made.machine.phase in MOVING or made.machine.phase is Phase.BRAKING:
        if made.now > patience:
            made.outcome.wrong.append(f"it does not end: {made.machine.phase.value}")
            break
        made.step()
    made.run(1.5)  # what was paused goes on, and obeys the stop that is waiting for it
    if np.abs(made.dq).max() > 0.03:
        made.outcome.wrong.append(f"the robot moves after its end, at {np.abs(made.dq).max():.3f} rad/s")
    made.outcome.ended = f"{made.machine.phase.value}: {([a.reason for a in made.announced if a.reason] or [''])[-1]}"
    return made.outcome
