# SPDX-License-Identifier: Apache-2.0

"""Feedforward: the torque of the identified model along a reference (Izaguirre 1992).

tau = M(q) ddq + C(q, dq) + Q(q) + friction. The background part finds M, C and Q where the robot is; the synchronous
part multiplies and adds. With generated code the complete torque is as quick, so `split` is a choice, not a need.
Coulomb friction is smoothed, Fc tanh(dq / v0), so that a reference at rest does not chatter.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.backend import CompiledLoopTorque, InverseDynamics, LoopTorque, torque_function
from ros2_dynid.control.effort_command import EffortCommand
from ros2_dynid.control.motion_gate import check_efforts, check_trajectory
from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.smooth_friction import SmoothFriction, smooth_friction
from ros2_dynid.control.torque_limiter import EffortLimits, limit_along
from ros2_dynid.control.torque_ramp import RAMP_SECONDS
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.friction_law import at_temperature, pushing_speeds, pushing_text
from ros2_dynid.dynamics.kinematics import linear_constraint
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import OFF, Fc, Fv, by_joint
from ros2_dynid.model.robot import Array, Robot

MOST_POINTS = 100_000
"""Points of a filled trajectory, at most: times in a wrong unit must not fill the memory."""

EFFORT_CHECKS = 200
"""Instants at which a trajectory that is to be followed is asked for its torques: few enough that a stream of torques
does not pause for it. Each torque that leaves is limited all the same."""


@dataclass(frozen=True)
class FeedforwardOptions:
    """Switches of the feedforward.

    gravity_only: nothing but Q(q); friction: include it; smoothing: v0 [rad/s or m/s]; measured_gravity: Q at the
    measured position; split: M, C and Q from the background, for streamed torques; ramp: time [s] of a change-over.
    """

    gravity_only: bool = False
    friction: bool = True
    smoothing: float = 0.02
    measured_gravity: bool = False
    split: bool = False
    ramp: float = RAMP_SECONDS


@dataclass(frozen=True)
class TorqueCoefficients:
    """M (n, n), C (n,) and Q (n,) of the joints named at q, dq."""

    joint_names: tuple[str, ...]
    q: Array
    dq: Array
    M: Array
    C: Array
    Q: Array


class PoseFriction:
    """Smooth friction. Closed loops whose passive joints rub feel it by ratios of speed that change with the pose."""

    def __init__(self, robot: Robot, chi: Array, dynamics: InverseDynamics) -> None:
        """Take the ratios from `dynamics`, where they change at all."""
        self._robot, self._chi = robot, chi
        drives = by_joint(robot, chi)
        self.offset: Array = np.array([drives[j - 1, OFF] for j in robot.active])
        self._dynamics: LoopTorque | CompiledLoopTorque | None = None
        if not isinstance(dynamics, LoopTorque | CompiledLoopTorque):
            self._constant = smooth_friction(robot, chi)
            self.offset = self._constant.off
            return
        passive = sorted(robot.passive_joints)
        if robot.coupling or any(drives[j - 1, column] for j in passive for column in (Fv, Fc, OFF)):
            self._dynamics = dynamics
        self._constant = smooth_friction(robot, chi, linear_constraint(robot)[0])

    def at(self, q: Array) -> SmoothFriction:
        """Return the friction at q, shape (n,)."""
        if self._dynamics is None:
            return self._constant
        return smooth_friction(self._robot, self._chi, self._dynamics.ratios(q))


class FeedforwardModel:
    """The torque of a robot with standard parameters chi, by generated code where there is a compiler."""

    def __init__(self, robot: Robot, chi: Array, without_load: FeedforwardModel | None = None) -> None:
        """Prepare the functions; a payload is added to chi by the caller, who gives the model without it, too."""
        n = len(robot.active)
        self.robot, self._chi, self._without_load = robot, chi, without_load
        self._rigid: InverseDynamics = torque_function(*frictionless(robot, chi))
        self._friction = PoseFriction(robot, chi, self._rigid)
        self._zero = np.zeros(n)
        self._unit = np.eye(n)

    def at_temperature(self, temperature: Array) -> FeedforwardModel:
        """Return the model with the friction of drives at these temperatures, shape (n,) [deg C]; NaN: not known."""
        warm = copy.copy(self)
        warm._friction = PoseFriction(*at_temperature(self.robot, self._chi, temperature), self._rigid)
        return warm

    def gravity(self, q: Array) -> Array:
        """Return Q(q) [N.m, N]."""
        return self._rigid.torque(q, self._zero, self._zero)

    def gravity_without_load(self, q: Array) -> Array:
        """Return Q(q) of the robot without its payload [N.m, N]."""
        return self.gravity(q) if self._without_load is None else self._without_load.gravity(q)

    @property
    def offset(self) -> Array:
        """The offsets of the motors' torques, shape (n,) [N.m, N]."""
        return self._friction.offset

    def rigid(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque without friction."""
        return self._rigid.torque(q, dq, ddq)

    def friction(self, q: Array, dq: Array, smoothing: float, carried: Array) -> Array:
        """Return Fv dq + Fc tanh(dq / smoothing) + off and the robot's further terms [N.m, N].

        carried: the torque without friction, shape (n,), on which some of them depend. Terms of the temperature are
        those of `at_temperature`, else zero: at T0. q matters to closed loops whose passive joints rub.
        """
        return self._friction.at(q).torque(dq, smoothing, carried)

    def coefficients(self, q: Array, dq: Array) -> TorqueCoefficients:
        """Return M, C and Q: the background part."""
        Q = self.gravity(q)
        C = self._rigid.torque(q, dq, self._zero) - Q
        M = np.column_stack([self._rigid.torque(q, self._zero, e) - Q for e in self._unit])
        return TorqueCoefficients(self.robot.active_names, q.copy(), dq.copy(), M, C, Q)


def refuse_pushing_friction(robot: Robot, chi: Array, source: str) -> None:
    """Refuse a model whose friction pushes at some speed within the limits: fed forward, it drives the robot."""
    pushing = pushing_speeds(robot, chi)
    if pushing:
        raise InputError(pushing_text(pushing), "identify again: friction is fitted so that it brakes", source)


def complete_torque(
    model: FeedforwardModel,
    options: FeedforwardOptions,
    q: Array,
    dq: Array,
    ddq: Array,
    measured: Array | None = None,
    command: EffortCommand | None = None,
) -> Array:
    """Return the torque, shape (n,), along a reference; measured: where the robot is, for measured_gravity.

    command: return what is commanded for it, where the robot adds a part itself.
    """
    place = measured if options.measured_gravity and measured is not None else q
    if options.gravity_only:
        tau, friction = model.gravity(place), None
    else:
        rigid = model.rigid(q, dq, ddq)
        if place is not q:
            rigid = rigid + model.gravity(place) - model.gravity(q)
        friction = model.friction(q, dq, options.smoothing, rigid) if options.friction else None
        tau = rigid if friction is None else rigid + friction
    return tau if command is None else command.of(model, tau, place, friction)


def split_torque(
    model: FeedforwardModel,
    options: FeedforwardOptions,
    coefficients: TorqueCoefficients,
    dq: Array,
    ddq: Array,
    measured: Array | None = None,
    command: EffortCommand | None = None,
) -> Array:
    """Return the torque, shape (n,), by the coefficients that the background has found: M ddq + C + Q + friction.

    command: return what is commanded for it, where the robot adds a part itself.
    """
    place = measured if options.measured_gravity and measured is not None else coefficients.q
    Q = coefficients.Q if place is coefficients.q else model.gravity(place)
    rigid = np.asarray(coefficients.M @ ddq + coefficients.C + Q)
    friction = model.friction(coefficients.q, dq, options.smoothing, rigid) if options.friction else None
    tau = rigid if friction is None else rigid + friction
    return tau if command is None else command.of(model, tau, place, friction)


@dataclass(frozen=True, eq=False)
class Filler:
    """What fills efforts into whole trajectories: always the complete torque, at the points' own positions.

    motion: limits of the motion, which every trajectory but a stop must keep.
    """

    model: FeedforwardModel
    options: FeedforwardOptions
    limits: EffortLimits
    motion: MotionLimits
    command: EffortCommand

    def torques(self, q: Array, dq: Array, ddq: Array, command: EffortCommand | None = None) -> Array:
        """Return the motors' torques, shape (N, n), of a motion, shape (N, n) each, or what is commanded for them."""
        rows = zip(q, dq, ddq, strict=True)
        return np.array([complete_torque(self.model, self.options, *row, command=command) for row in rows])

    def check(self, points: Reference, start: Array | None = None) -> None:
        """Refuse a trajectory that is to be followed if it passes a limit of the motion or of the effort."""
        check_trajectory(points, self.motion, start)
        t = np.linspace(points.t[0], points.t[-1], EFFORT_CHECKS)
        check_efforts(self.torques(*points.sampled(t)), self.limits.effort, self.limits.joint_names)

    def filled(self, points: Reference, rate: float | None = None, start: Array | None = None) -> Reference:
        """Return the trajectory with effort in every point, with at least `rate` points a second if given [Hz].

        One that passes a limit of the motion or of the effort is refused. start: where the robot is, shape (n,), if it
        is to begin there: one beyond a position limit may come back.
        """
        points = points.ordered(self.limits.joint_names)
        check_trajectory(points, self.motion, start)
        filled, tau = self._with_efforts(points, rate)
        check_efforts(tau, self.limits.effort, self.limits.joint_names)
        return filled

    def filled_stop(self, points: Reference) -> Reference:
        """Return a stop with effort in every point, as far as there is effort: not to stop would be worse."""
        return self._with_efforts(points, None)[0]

    def _with_efforts(self, points: Reference, rate: float | None) -> tuple[Reference, Array]:
        """Return the trajectory with limited efforts, and those that it asks for, shape (K, n)."""
        t = points.t
        if rate is not None and len(t) > 1 and np.max(np.diff(t)) > 1.5 / rate:
            if (t[-1] - t[0]) * rate > MOST_POINTS:
                raise InputError(f"the trajectory takes {t[-1] - t[0]:g} s", "give a shorter one, or lower point_rate")
            t = np.sort(np.concatenate((t, np.arange(t[0], t[-1], 1 / rate))))
            t = t[np.append(np.diff(t) > 1e-6, True)]
        q, dq, ddq = points.sampled(t)
        if points.dq is not None:  # the exact values at the ends, where `at` takes the joints for resting
            for end in (0, -1):
                dq[end] = points.dq[end]
                if points.ddq is not None:
                    ddq[end] = points.ddq[end]
        tau, command = self.torques(q, dq, ddq), self.torques(q, dq, ddq, self.command)
        return reference(points.joint_names, t, q, dq, ddq, limit_along(self.limits, t, command)), tau
