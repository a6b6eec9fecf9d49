"""What the feedforward sends when: along a trajectory, with streamed points, and when the reference has stopped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.control.feedforward import Coefficients, Feedforward, Model, Options
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import JOINT, link_slice
from ros2_dynid.model.robot import Array, Robot


class Driver:
    """The feedforward of one robot with its reference; every time is from one clock [s]."""

    def __init__(
        self, robot: Robot, effort_limits: Sequence[float], limited: Robot, joint_order: Sequence[str]
    ) -> None:
        """Limit torques to effort_limits, or to those of the robot `limited` where they are 0."""
        n = len(robot.active)
        own = np.array([limited.joints[j - 1].limits.effort for j in limited.active])
        given = np.broadcast_to(np.array(effort_limits, dtype=float), (n,)) if len(effort_limits) in (1, n) else None
        if given is None:
            raise InputError(f"{len(effort_limits)} effort limits for {n} joints", "give one for each joint")
        self.robot = robot
        self._feedforward = Feedforward(np.where(given > 0, given, own), Options())
        order = [name for name in joint_order if name]
        if order and sorted(order) != sorted(robot.active_names):
            raise InputError(f"joint_order is {', '.join(order)}", f"name {', '.join(robot.active_names)}", robot.name)
        self._order = [robot.active_names.index(name) for name in order or robot.active_names]
        self._chi: Array | None = None
        self._load = np.zeros(JOINT * robot.n)
        self._q: Array | None = None
        self._dq = np.zeros(n)
        self._points: Reference | None = None
        self._begin = self._streamed = -np.inf
        self._stream = False
        self._timeout = 0.05
        self._news: list[str] = []
        self.state = "waiting for a reference"
        self.used = False
        self.sent = 0

    def choose(self, options: Options, timeout: float, stream: bool) -> None:
        """Change the options; `stream`: torques are sent, not trajectories."""
        self._feedforward.options, self._timeout = options, timeout
        if self._stream and not stream:
            self._points, self.used = None, False
        self._stream = stream

    def take(self, robot: Robot, chi: Array, now: float) -> None:
        """Use other parameters of the same robot, gradually."""
        self.robot, self._chi = robot, chi
        load = np.zeros_like(chi)
        load[: len(self._load)] = self._load
        self._feedforward.take(Model(robot, chi + load), now)

    def load(self, mass: float, com: Array, inertia: Array, joint: int, now: float) -> None:
        """Carry a load: mass [kg], centre (3,) and inertia about it in the frame of `joint`; mass 0 takes it off."""
        if not mass >= 0 or not np.all(np.isfinite(com)) or not np.all(np.isfinite(inertia)):
            raise InputError("the payload is not physical", "give mass >= 0 [kg] and finite numbers")
        J = inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
        self._load = np.zeros(JOINT * self.robot.n)
        self._load[link_slice(joint - 1)] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass)
        if self._chi is not None:
            self.take(self.robot, self._chi, now)

    def measured(self, q: Array, dq: Array) -> None:
        """Take the robot's state, shape (n,) each."""
        if np.all(np.isfinite(q)):
            self._q = q
            self._dq = np.where(np.isfinite(dq), dq, 0.0)

    def follow(self, points: Reference, now: float) -> Array | None:
        """Follow a trajectory from now on, or one streamed point at once; return the torque of the latter."""
        if len(points.t) > 1:
            self._points, self._begin = points, now
            self._tell("following a trajectory")
            return None
        still = np.zeros_like(points.q[0])
        dq = still if points.dq is None else points.dq[0]
        ddq = still if points.ddq is None else points.ddq[0]
        return self.streamed(points.q[0], dq, ddq, now)

    def streamed(self, q: Array, dq: Array, ddq: Array, now: float) -> Array:
        """Return the torque of a streamed point, shape (n,) each."""
        self._points, self._streamed = None, now
        self._tell("following streamed points")
        return self._sent(self._feedforward.moving(q, dq, ddq, self._q, now))

    def quiet(self, now: float) -> bool:
        """Return whether `tick` has nothing to send: streamed points come by themselves, or nothing was asked for."""
        return self._points is None and (not self.used or now - self._streamed <= self._timeout)

    def tick(self, now: float) -> Array | None:
        """Return the torque to send now, or None: nothing was asked for, or a streamed point has just been sent."""
        if not self._stream or self._feedforward.model is None:
            return None
        if self._points is not None:
            t = now - self._begin
            if t < 0 and not self.used:
                return None
            if t <= self._points.duration:
                q, dq, ddq, _ = self._points.at(t)
                return self._sent(self._feedforward.moving(q, dq, ddq, self._q, now))
            self._points = None
        if now - self._streamed <= self._timeout or not self.used or self._q is None:
            return None
        self._tell("the reference has stopped: going over to gravity at the measured position")
        return self._sent(self._feedforward.resting(self._q, now))

    def final(self, now: float) -> Array | None:
        """Return the torque to leave behind: gravity's."""
        if self._q is None or self._feedforward.model is None:
            return None
        return self._sent(self._feedforward.resting(self._q, now + 1e6))

    def filled(self, points: Reference, rate: float | None) -> Reference:
        """Return the trajectory with effort in every point, with at least `rate` points a second if given [Hz]."""
        t = points.t
        if rate is not None and len(t) > 1 and np.max(np.diff(t)) > 1.5 / rate:
            t = np.unique(np.concatenate((t, np.arange(t[0], t[-1], 1 / rate))))
            t = t[np.append(np.diff(t) > 1e-6, True)]
        q, dq, ddq = points.sampled(t)
        if points.dq is not None:  # the exact values at the ends, where `at` takes the joints for resting
            for end in (0, -1):
                dq[end] = points.dq[end]
                if points.ddq is not None:
                    ddq[end] = points.ddq[end]
        return reference(points.joint_names, t, q, dq, ddq, self._feedforward.filled(q, dq, ddq))

    def predicted(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque, shape (n,), that the model and the load expect of a motion, whatever the options."""
        model = self._feedforward.model
        if model is None:
            raise InputError("there is no model yet", "load one, or publish base parameters")
        return model.rigid(q, dq, ddq) + model.friction(dq, self._feedforward.options.smoothing)

    def background(self) -> Coefficients | None:
        """Return M, C and Q where the robot is; the split torque uses them from now on."""
        return None if self._q is None else self._feedforward.background(self._q, self._dq)

    def ordered(self, tau: Array) -> Array:
        """Return torques in the order of effort_commands."""
        return tau[self._order]

    def news(self) -> list[str]:
        """Return what has changed since the last call, in words."""
        told, self._news = self._news, []
        return told

    def _sent(self, tau: Array) -> Array:
        self.used = True
        self.sent += 1
        return tau

    def _tell(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self._news.append(state)
