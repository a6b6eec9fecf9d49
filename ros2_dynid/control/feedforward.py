"""Feedforward: the torque of the identified model along a reference, without gaps or jumps (seed 004).

tau = M(q) ddq + C(q, dq) + Q(q) + friction. The background part finds M, C and Q where the robot is; the synchronous
part multiplies and adds. With generated code the complete torque is as quick, so `split` is a choice, not a need.
Coulomb friction is smoothed, Fc tanh(dq / v0), so that a reference at rest does not chatter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.backend import Torque, torque_function
from ros2_dynid.control.smooth_friction import smooth_friction, without_friction
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class Options:
    """Switches of the feedforward.

    gravity_only: nothing but Q(q); friction: include it; smoothing: v0 [rad/s or m/s]; measured_gravity: Q at the
    measured position; split: M, C and Q from the last call of `background`; ramp: time [s] of every change-over.
    """

    gravity_only: bool = False
    friction: bool = True
    smoothing: float = 0.02
    measured_gravity: bool = False
    split: bool = False
    ramp: float = 0.3


@dataclass(frozen=True)
class Coefficients:
    """M (n, n), C (n,) and Q (n,) at q, dq."""

    q: Array
    dq: Array
    M: Array
    C: Array
    Q: Array


class Model:
    """The torque of a robot with standard parameters chi, by generated code where there is a compiler."""

    def __init__(self, robot: Robot, chi: Array) -> None:
        """Prepare the functions; a payload is added to chi by the caller."""
        n = len(robot.active)
        self.robot = robot
        self._rigid: Torque = torque_function(robot, without_friction(robot, chi))
        self._friction = smooth_friction(robot, chi)
        self._zero = np.zeros(n)
        self._unit = np.eye(n)

    def gravity(self, q: Array) -> Array:
        """Return Q(q) [N.m, N]."""
        return self._rigid.torque(q, self._zero, self._zero)

    def rigid(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque without friction."""
        return self._rigid.torque(q, dq, ddq)

    def friction(self, dq: Array, smoothing: float) -> Array:
        """Return Fv dq + Fc tanh(dq / smoothing) + off [N.m, N]."""
        return self._friction.torque(dq, smoothing)

    def coefficients(self, q: Array, dq: Array) -> Coefficients:
        """Return M, C and Q: the background part."""
        Q = self.gravity(q)
        C = self._rigid.torque(q, dq, self._zero) - Q
        M = np.column_stack([self._rigid.torque(q, self._zero, e) - Q for e in self._unit])
        return Coefficients(q.copy(), dq.copy(), M, C, Q)


class Feedforward:
    """The running feedforward: models, options and references may change at any time, the torque does so gradually."""

    def __init__(self, effort_limits: Array, options: Options) -> None:
        """Limit torques to +-effort_limits, shape (n,)."""
        self.options = options
        self._limits = effort_limits
        self._model: Model | None = None
        self._before: tuple[Model, float] | None = None
        self._coefficients: Coefficients | None = None
        self._last: Array | None = None
        self._ramp_from: Array | None = None
        self._ramp_begin = 0.0

    @property
    def model(self) -> Model | None:
        """The model in use."""
        return self._model

    def take(self, model: Model, now: float) -> None:
        """Use a new model from time `now` [s] on; the old one fades out over the ramp."""
        self._before = None if self._model is None else (self._model, now)
        self._model = model
        self._coefficients = None

    def background(self, q: Array, dq: Array) -> Coefficients | None:
        """Find the coefficients at q, dq, shape (n,), for `split` and for who asks."""
        if self._model is not None:
            self._coefficients = self._model.coefficients(q, dq)
        return self._coefficients

    def moving(self, q: Array, dq: Array, ddq: Array, measured: Array | None, now: float) -> Array:
        """Return the torque, shape (n,), for a reference at time `now` [s]; measured: the robot's position, or None."""
        self._ramp_from = None
        tau = self._blended(lambda model: self._torque(model, q, dq, ddq, measured), now)
        self._last = tau
        return tau

    def resting(self, measured: Array, now: float) -> Array:
        """Return the torque when there is no reference: it goes over to gravity at the measured position."""
        if self._ramp_from is None:
            self._ramp_from = np.zeros(len(measured)) if self._last is None else self._last
            self._ramp_begin = now
        share = self._share(self._ramp_begin, now)
        tau = self._blended(lambda model: model.gravity(measured), now)
        return self._limited((1 - share) * self._ramp_from + share * tau)

    def settled(self, now: float) -> bool:
        """Return whether the ramp to gravity is over."""
        return self._ramp_from is not None and now - self._ramp_begin >= self.options.ramp

    def filled(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque of many points, shape (N, n): what goes into the effort of a trajectory."""
        if self._model is None:
            raise InputError("there is no model yet", "load one, or publish base parameters")
        model = self._model
        return np.array([self._limited(self._torque(model, *row, None)) for row in zip(q, dq, ddq, strict=True)])

    def _torque(self, model: Model, q: Array, dq: Array, ddq: Array, measured: Array | None) -> Array:
        options = self.options
        place = measured if options.measured_gravity and measured is not None else q
        if options.gravity_only:
            return model.gravity(place)
        found = self._coefficients
        if options.split and found is not None and model is self._model:
            tau = found.M @ ddq + found.C + (model.gravity(place) if options.measured_gravity else found.Q)
        else:
            tau = model.rigid(q, dq, ddq)
            if place is not q:
                tau = tau + model.gravity(place) - model.gravity(q)
        return tau + model.friction(dq, options.smoothing) if options.friction else tau

    def _blended(self, torque: Callable[[Model], Array], now: float) -> Array:
        if self._model is None:
            raise InputError("there is no model yet", "load one, or publish base parameters")
        tau = torque(self._model)
        if self._before is not None:
            old, since = self._before
            share = self._share(since, now)
            if share >= 1:
                self._before = None
            else:
                tau = share * tau + (1 - share) * torque(old)
        return self._limited(tau)

    def _share(self, since: float, now: float) -> float:
        return 1.0 if self.options.ramp <= 0 else min(max((now - since) / self.options.ramp, 0.0), 1.0)

    def _limited(self, tau: Array) -> Array:
        return np.clip(tau, -self._limits, self._limits)
