# SPDX-License-Identifier: Apache-2.0

"""External torque of each joint by the generalised momentum, sample by sample as include/ros2_dynid/observer.hpp.

dp/dt = beta + carried + external, with p = M dq and carried the torque that friction leaves of the motors'. From one
sample to the next r' = a r + (1 - a) ((p' - p) / dt - mean of beta + carried), a = exp(-K dt): r follows the external
torque with the time constant 1/K and is stable for every dt. A sample that is not finite, or late, is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.energy import momentum
from ros2_dynid.dynamics.friction import active_terms, carried_torque, column_at_rest, frictionless
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class ObserverOptions:
    """Of the observer; the same in C++.

    bandwidth: K [rad/s]; smoothing: speed over which Coulomb friction changes sign; undecided_speed: below it that sign
    is in doubt [rad/s or m/s]; longest_step: over a longer time nothing is said about the torque [s].
    """

    bandwidth: float = 100.0
    smoothing: float = 0.02
    undecided_speed: float = 0.05
    longest_step: float = 0.04


DEFAULT = ObserverOptions()


@dataclass(frozen=True, eq=False)
class ObservedTorque:
    """After each sample, shape (N, n): external torque, and friction whose sign is in doubt, by which it may be wrong.

    used: shape (N,), whether the sample could be used.
    """

    external: Array
    undecided: Array
    used: NDArray[np.bool_]


class MomentumObserver:
    """The observer of a robot with standard parameters chi, shape (n_standard,), loads included."""

    def __init__(self, robot: Robot, chi: Array, options: ObserverOptions = DEFAULT) -> None:
        """Begin with no external torque."""
        numbers = (options.bandwidth, options.smoothing, options.undecided_speed, options.longest_step)
        if not all(np.isfinite(x) and x > 0 for x in numbers):
            raise InputError("an option of the observer is not positive", "give positive numbers", robot.name)
        self.options = options
        n = len(robot.active)
        self.external, self.undecided = np.zeros(n), np.zeros(n)
        self._last: tuple[Array, Array] | None = None
        self.set_model(robot, chi)

    def set_model(self, robot: Robot, chi: Array) -> None:
        """Use other parameters, or another load, of the same joints from now on."""
        if chi.shape != (len(standard_names(robot)),) or not np.all(np.isfinite(chi)):
            raise InputError("a standard parameter is missing or not finite", "identify the robot again", robot.name)
        if len(robot.active) != len(self.external):
            raise InputError(f"the model has {len(robot.active)} joints", f"give {len(self.external)}", robot.name)
        self.robot = robot
        self._rigid = frictionless(robot, chi)
        self._friction = smooth_friction(robot, chi)
        G, _ = constraint(robot)
        weights = [[coupling.weights.get(j, 0.0) for j in range(1, robot.n + 1)] for coupling in robot.coupling]
        self._rubs = np.abs(np.vstack((np.eye(robot.n), np.reshape(weights, (-1, robot.n))))) @ np.abs(G)
        self._at_rest = [(k, term) for k, term in active_terms(robot, robot.friction) if column_at_rest(term) != 0.0]
        self._last = None  # the momentum jumps without any torque

    def restart(self) -> None:
        """Forget everything: external torque 0, and the next sample starts a new step."""
        self._last = None
        self.external, self.undecided = np.zeros_like(self.external), np.zeros_like(self.undecided)

    def update(self, q: Array, dq: Array, tau: Array, dt: float) -> bool:
        """Take one sample, shape (n,) each, `dt` [s] after the one before; return whether it could be used."""
        return bool(self.take(q[None], dq[None], tau[None], np.array([dt])).used[0])

    def take(self, q: Array, dq: Array, tau: Array, dt: Array) -> ObservedTorque:
        """Take samples in order: q, dq and motor torques tau, shape (N, n), each dt, shape (N,) [s], after the last."""
        finite = np.isfinite(np.hstack((q, dq, tau))).all(axis=1) & np.isfinite(dt) & (dt > 0)
        p, s, doubt = (np.full(q.shape, np.nan) for _ in range(3))
        p[finite], s[finite], doubt[finite] = self._terms(q[finite], dq[finite], tau[finite])
        good = np.isfinite(p).all(axis=1) & np.isfinite(s).all(axis=1)
        external, undecided, used = np.empty(q.shape), np.empty(q.shape), np.zeros(len(q), dtype=bool)
        for k in range(len(q)):
            if good[k]:
                used[k] = self._step(p[k], s[k], doubt[k], float(dt[k]))
            elif dt[k] != 0.0:
                self._last = None
            external[k], undecided[k] = self.external, self.undecided
        return ObservedTorque(external, undecided, used)

    def _step(self, p: Array, s: Array, doubt: Array, dt: float) -> bool:
        last, self._last = self._last, (p, s)
        if last is None or dt > self.options.longest_step:
            self.undecided = doubt
            return False
        keep = float(np.exp(-self.options.bandwidth * dt))
        sample = (p - last[0]) / dt - 0.5 * (s + last[1])
        self.external = keep * self.external + (1.0 - keep) * sample
        self.undecided = np.maximum(doubt, keep * self.undecided)
        return True

    def _terms(self, q: Array, dq: Array, tau: Array) -> tuple[Array, Array, Array]:
        """Return p, beta + carried and the friction in doubt, each of shape (N, n)."""
        with np.errstate(over="ignore", invalid="ignore"):
            p, beta = momentum(*self._rigid, q, dq)
            friction, speeds = self._friction, dq @ self._friction.S.T
            plain = (
                dq @ friction.A.T + (friction.Fc * np.tanh(speeds / self.options.smoothing)) @ friction.S + friction.off
            )
            carried = carried_torque(self.robot, tau - plain, dq, np.tanh(dq / self.options.smoothing))
            doubt = (np.abs(friction.Fc) * self._unclear(speeds)) @ self._rubs
            for k, term in self._at_rest:
                load = np.abs(carried[:, k]) if term.kind.loaded else 1.0
                doubt[:, k] += term.coefficient * load * self._unclear(dq[:, k])
        return p, beta + carried, doubt

    def _unclear(self, speed: Array) -> Array:
        """Return 1 at standstill, falling to 0 with the speed."""
        return np.asarray(1.0 - np.abs(np.tanh(speed / self.options.undecided_speed)))
