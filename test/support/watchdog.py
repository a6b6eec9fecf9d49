# SPDX-License-Identifier: Apache-2.0

"""Reads what the robot really does, and what really leaves the suite, and notes every limit that is passed."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from jtc_checks import refusal
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.errors import DynidError
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.messages import reference_of
from ros2_dynid.recording.live import LiveStates

RESOLUTION = 1e-4
"""Of the encoders [rad]: a position at its limit may read this much beyond it."""
RESTING = 0.03
"""A joint slower than this rests [rad/s]; friction and the drives' noise leave less."""
REST_SAMPLES = 25
LAG = 0.1
"""The position control and the proxy are behind by up to this [rad] at full speed."""
LEAST = 1e-3
SILENT = 0.1
"""The robot itself is dead or paused when it has sent nothing for this long [s]."""
SAMPLING = 500
"""Points at which the polynomials of a trajectory are looked at."""
EFFORT_STEP = 0.35
"""Largest change of a torque from one command to the next, as a share of the limit."""


class Watchdog:
    """Truth of one robot. Violations are lines of text, the first of each kind; `begin` starts a new list."""

    def __init__(self, robot: Robot, *, controlled: bool = True) -> None:
        limits = [robot.joints[j - 1].limits for j in robot.active]
        self._robot, self._controlled = robot, controlled
        self._lower, self._upper, self._velocity, self._acceleration, self._effort = (
            np.array([getattr(limit, name) for limit in limits])
            for name in ("lower", "upper", "velocity", "acceleration", "effort")
        )
        self._states = LiveStates(robot.active_names)
        self._lock = threading.Lock()
        self._resting = 0
        self._last_efforts: Any = None
        self._worst: dict[str, float | None] = {}
        self.endangered = False
        self.count, self._heard = 0, 0.0
        self.peak_speed = self.longest_gap = self._begun = 0.0
        self.sent: list[str] = []
        self.trajectories = self.torques = 0

    def begin(self) -> None:
        with self._lock:
            self._worst, self.peak_speed, self.longest_gap = {}, 0.0, 0.0
            self.endangered = False
            self._heard = self._begun = time.monotonic()
            self.sent = []
            self._last_efforts = None

    def note(self, what: str, value: float | None = None, *, danger: bool = False) -> None:
        """Note a violation with its largest value; danger: a robot or a recording was at risk."""
        with self._lock:
            self.endangered |= danger
            if value is None or abs(value) > abs(self._worst.get(what, 0.0) or 0.0):
                self._worst[what] = value

    @property
    def violations(self) -> list[str]:
        """What was wrong since `begin`, one line each."""
        with self._lock:
            return [what if value is None else f"{what}: {value:.3f}" for what, value in self._worst.items()]

    @property
    def resting(self) -> bool:
        """Whether no joint has moved in the last samples."""
        return self._resting >= REST_SAMPLES

    @property
    def hears(self) -> bool:
        """Whether the robot's own states come."""
        return time.monotonic() - self._heard < SILENT

    @property
    def speed(self) -> float:
        """The speed [rad/s] of the fastest joint, as the robot itself says."""
        return float(np.abs(self._states.dq).max())

    @property
    def q(self) -> Any:
        """The true positions, shape (n,)."""
        return self._states.q

    def forget(self) -> None:
        """The robot is a new one."""
        self._resting = 0

    def state(self, data: bytes) -> None:
        """Look at a joint state that the robot sent."""
        state = self._states.take(data)
        if state is None:
            self.note("the robot itself sent something else than its state")
            return
        self.count += 1
        now = time.monotonic()
        late = 1e-9 * (time.time_ns() - state.stamp)
        self.longest_gap = max(self.longest_gap, now - self._heard, late)
        self._heard = now
        q, speed = state.q, np.abs(state.dq)
        self._resting = self._resting + 1 if speed.max() < RESTING else 0
        self.peak_speed = max(self.peak_speed, float((speed / self._velocity).max()))
        for wrong, what, value in (
            (self._controlled & (q < self._lower - RESOLUTION), "is below its limit", q),
            (self._controlled & (q > self._upper + RESOLUTION), "is above its limit", q),
            (speed > self._velocity, "is faster than its limit", state.dq),
        ):
            if wrong.any():
                j = int(np.argmax(wrong))
                self.note(f"{self._robot.active_names[j]} {what}", float(value[j]), danger=True)

    def trajectory(self, message: Any) -> None:
        """Look at a trajectory that left the suite."""
        self.trajectories += 1
        self._tell(message)
        if why := refusal(message, self._robot.active_names, 0.0, effort_interface=True):
            self.note(f"a trajectory that a controller refuses was sent: {why}", danger=True)
            return
        try:
            points = reference_of(message, self._robot)
        except DynidError as error:
            self.note(f"a trajectory that is none was sent: {error}", danger=True)
            return
        t = np.linspace(points.t[0], points.t[-1], SAMPLING)
        q, dq, ddq = points.sampled(t)
        for values, limit, what in (
            (np.maximum(self._lower - q, q - self._upper), RESOLUTION, "position"),
            (np.abs(dq) - self._velocity, 1e-6, "velocity"),
            (np.abs(ddq) - 1.05 * self._acceleration, 1e-6, "acceleration"),
        ):
            if np.nanmax(values) > limit:
                self.note(f"a trajectory beyond its {what} limit was sent", float(np.nanmax(values)), danger=True)
        if self.hears and not message.header.stamp.sec:
            self._check_way(points)

    def _tell(self, message: Any) -> None:
        """Write down what was sent, and where the robot was, for those who look for the reason of a violation."""
        shown = [message.points[k] for k in sorted({0, len(message.points) // 2, len(message.points) - 1})]
        text = "; ".join(
            f"{p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec:.3f} s: {np.round(p.positions, 3).tolist()}"
            for p in shown
        )
        state = f"at {np.round(self._states.q, 3).tolist()}, {np.round(self._states.dq, 2).tolist()} rad/s"
        since = time.monotonic() - self._begun
        self.sent = [*self.sent[-9:], f"{since:.3f} s {state} sent {len(message.points)} points: {text}"]

    def _check_way(self, points: Reference) -> None:
        """Look at the way from where the robot is to the first point, as a controller interpolates it."""
        q, dq = self._states.q, self._states.dq
        first = q + np.sign(points.q[0] - q) * np.maximum(np.abs(points.q[0] - q) - LAG, 0.0)
        speed = np.zeros_like(q) if points.dq is None else points.dq[0]
        way = reference(
            points.joint_names,
            np.array([0.0, max(float(points.t[0]), LEAST)]),
            np.array([q, first]),
            np.array([dq, speed]),
        )
        fastest = np.abs(way.sampled(np.linspace(0, way.duration, 50))[1][1:-1]) / self._velocity
        if fastest.max() > 1.05:
            self.note(
                "a trajectory was sent whose start is out of reach, at this share of the speed limit",
                fastest.max(),
                danger=True,
            )

    def efforts(self, message: Any) -> None:
        """Look at torques that left the suite."""
        tau = np.array(message.data)
        self.torques += 1
        if tau.shape != self._effort.shape or not np.all(np.isfinite(tau)):
            self.note(f"torques {tau} were sent", danger=True)
            return
        if np.any(np.abs(tau) > self._effort * (1 + 1e-9)):
            self.note(
                "torques beyond their limits were sent, by this factor",
                float(np.max(np.abs(tau) / self._effort)),
                danger=True,
            )
        if self._last_efforts is not None:
            step = np.abs(tau - self._last_efforts) / self._effort
            if step.max() > EFFORT_STEP:
                self.note(
                    "a torque jumped from one command to the next, by this share of its limit",
                    float(step.max()),
                    danger=True,
                )
        self._last_efforts = tau
