"""A motion in parts: to the start, rest there, along the trajectory; watched all the way, stopped when it goes wrong.

Nothing here knows how a trajectory reaches the controller or how phases are announced: `send` and `announce` do that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import approach, deceleration_limits, stopping
from ros2_dynid.control.supervisor import Supervisor, Tolerances
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot

FASTEST = 3.0
"""Velocity [rad/s or m/s] taken for joints without a velocity limit."""


@dataclass(frozen=True)
class Manner:
    """How to move: approach_speed as a share of the limits; settle [s] at the start; lead [s] from sending to effect.

    deceleration [rad/s^2 or m/s^2]: of joints without an acceleration limit. delay [s]: trajectories but for stops are
    stamped this far ahead, so that robot and supervisor agree on their start; 0: they start on arrival.
    """

    approach_speed: float = 0.3
    settle: float = 0.5
    lead: float = 0.005
    deceleration: float = 5.0
    delay: float = 0.0


class Motion:
    """Phases: idle, approach, settle, then the trajectory's own name, then done, or aborted. Times of one clock [s].

    A part ends when the robot's own joint states have reached its end, however late they come.
    """

    def __init__(
        self,
        robot: Robot,
        tolerances: Tolerances,
        manner: Manner,
        send: Callable[[Reference, float | None], None],
        announce: Callable[[str, str], None],
    ) -> None:
        """Send trajectories, to start at a time [s] or on arrival (None), with `send`.

        `announce` tells the phase, and the reason of an abort.
        """
        self._robot, self._manner, self._send, self._announce = robot, manner, send, announce
        self._tolerances = tolerances
        self._supervisor = Supervisor(robot, tolerances)
        self._queue: list[tuple[str, Reference | None]] = []
        self._until = 0.0
        self._q = np.full(len(robot.active), np.nan)
        self._heard = self._measured_at = -np.inf
        self.phase = "idle"

    @property
    def moving(self) -> bool:
        """Whether a motion is under way."""
        return self._supervisor.watching

    def start(self, name: str, points: Reference, now: float, check: Callable[[Array], None] | None = None) -> float:
        """Begin: approach, settle, then `points` as phase `name`; return the time [s] until that begins.

        check: gets the positions on the way to the start, shape (N, n), before anything moves, and raises to refuse it.
        """
        if self.moving:
            raise InputError(f"a motion is under way ({self.phase})", "wait for its end or stop it")
        if now - self._heard > self._tolerances.stale or not np.all(np.isfinite(self._q)):
            raise InputError("there are no joint states of all joints", "check the topic joint_states")
        speed = self._manner.approach_speed
        limits = [self._robot.joints[j - 1].limits for j in self._robot.active]
        velocity = speed * np.array([min(limit.velocity, FASTEST) for limit in limits])
        acceleration = speed * deceleration_limits(self._robot, self._manner.deceleration)
        points = points.ordered(self._robot.active_names)
        way = approach(points.joint_names, self._q.copy(), points.q[0], velocity, acceleration)
        if check is not None:
            check(way.q)
        self._queue = [("approach", way), ("settle", None), (name, points)]
        self._next(now)
        return way.duration + self._manner.settle

    def observe(self, q: Array, dq: Array, now: float, measured_at: float | None = None) -> str:
        """Take a joint state, shape (n,), that comes `now`; return why the robot was stopped, or nothing ("")."""
        self._q, self._heard = q, now
        self._measured_at = now if measured_at is None else measured_at
        problem = self._supervisor.observe(q, dq, now, measured_at)
        if problem:
            self.abort(problem, now)
        return problem

    def watch(self, connection: str, now: float) -> str:
        """Go on to the next part when one ends, or stop if the `connection` has a problem; return why, or ""."""
        if not self.moving:
            return ""
        problem = self._supervisor.silence(now) or connection
        if problem:
            self.abort(problem, now)
        elif min(now, self._measured_at) >= self._until:
            self._next(now)
        return problem

    def abort(self, reason: str, now: float) -> bool:
        """Brake from the reference within the limits; return whether anything was moving."""
        if not self.moving:
            return False
        q, dq = self._supervisor.reference(now)
        braking = deceleration_limits(self._robot, self._manner.deceleration)
        self._send(stopping(self._robot.active_names, q, dq, braking, self._manner.lead), None)
        self._supervisor.end()
        self._queue = []
        self._enter("aborted", reason)
        return True

    def _next(self, now: float) -> None:
        if not self._queue:
            self._supervisor.end()
            self._enter("done")
            return
        phase, points = self._queue.pop(0)
        if points is None:
            self._until = now + self._manner.settle
        else:
            points = points.shifted(self._manner.lead)
            begin = now + self._manner.delay
            self._until = begin + points.duration
            self._supervisor.begin(points, begin)
            self._send(points, begin if self._manner.delay else None)
        self._enter(phase)

    def _enter(self, phase: str, reason: str = "") -> None:
        self.phase = phase
        self._announce(phase, reason)
