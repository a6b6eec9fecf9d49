# SPDX-License-Identifier: Apache-2.0

"""A robot in MuJoCo behind the interface of real hardware: torques in, quantised positions and noisy torques out.

Closed loops and coupled motors are integrated in the joints that move independently, by sim.linkage.

One control period: the drives take the torque commanded `latency` periods ago, friction Fv dq + Fc tanh(dq / v0) + off
and the robot's further friction terms, springs and compensators act against it, and MuJoCo integrates the links, in
steps of 1 ms at most. The
smoothed sign, with v0 wide enough for the step and the joint's inertia, keeps the integration stable at standstill.
Encoders round positions; velocities are their filtered differences, as a drive computes them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ros2_dynid.control.effort_command import added_torque
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.dynamics.elastic import elastic_torque
from ros2_dynid.dynamics.friction import active_terms, carried_torque, column_at_rest
from ros2_dynid.dynamics.kinematics import motion_of
from ros2_dynid.dynamics.newton_euler import inertia_matrix
from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.model.efforts import AddedByJoint
from ros2_dynid.model.parameters import OFF, Fc, Fv, by_joint, link_slice
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.linkage import Linkage
from ros2_dynid.sim.mjcf import joint_name, link_name, mjcf

BRAKE_TIME_CONSTANT = 0.01
"""Time constant of the brakes [s]."""
MAX_STEP = 1e-3
"""Longest integration step of MuJoCo [s]."""
OWN_SMOOTHING = 0.05
"""Speed over which the friction changes sign that a robot adds itself [rad/s or m/s]: it must not drive a joint."""


@dataclass(frozen=True)
class Imperfections:
    """What separates the robot from its equations.

    resolution: of the encoders [rad or m]; torque_noise: standard deviation, as a share of the joint's effort scale;
    latency: control periods between a command and its torque; sticking_speed: least v0 of the smoothed friction
    [rad/s, m/s]; velocity_bandwidth: of the drives' velocity filter [Hz]. The drives warm up from `cold` to `warm`
    [deg C] with the time constant warming_time [s]: friction may depend on it.
    """

    resolution: float = 2 * np.pi / 2**18
    torque_noise: float = 0.005
    latency: int = 1
    sticking_speed: float = 5e-3
    velocity_bandwidth: float = 150.0
    cold: float = 25.0
    warm: float = 25.0
    warming_time: float = 600.0


INDUSTRIAL_ARM = Imperfections()
"""Those of an industrial arm."""


@dataclass(frozen=True)
class Measurement:
    """What the robot's sensors say: time [s] and, shape (n,) each, position, velocity, motor torque, temperature."""

    t: float
    q: Array
    dq: Array
    tau: Array
    temperature: Array


class SimulatedRobot:
    """The robot with true standard parameters chi, shape (n_standard,), advanced by one control `period` [s] a step."""

    def __init__(
        self,
        robot: Robot,
        chi: Array,
        *,
        period: float = 1e-3,
        imperfections: Imperfections = INDUSTRIAL_ARM,
        start: Array | None = None,
        seed: int = 0,
        adds: AddedByJoint | None = None,
    ) -> None:
        """Build the MuJoCo model at rest at the positions `start`, shape (n,); seed: of the torque noise.

        adds: what the robot adds to commanded torques, from what it truly weighs; its efforts are measured without it.
        """
        try:
            import mujoco
        except ModuleNotFoundError:
            raise MissingPackageError("mujoco", "the simulated robot") from None
        self._mujoco: Any = mujoco
        self.mj_model: Any
        self.mj_data: Any
        self.robot, self.period, self._imperfections = robot, period, imperfections
        self._chi = chi.copy()
        self._substeps = max(1, int(np.ceil(period / MAX_STEP - 1e-9)))
        self._n = n = len(robot.active)
        active = [j - 1 for j in robot.active]
        self._is_linkage = bool(robot.passive_joints or robot.coupling)
        drives = by_joint(robot, chi)[active]
        self._Fv, self._Fc, self._off = (drives[:, k].copy() for k in (Fv, Fc, OFF))
        self._build(chi)
        if start is not None:
            self.mj_data.qpos[self._dofs] = start
        lightest = 1 / np.diag(np.linalg.inv(inertia_matrix(robot, chi, self.positions[None])[0]))
        level = self._Fc + standstill_friction(robot)
        self.v0 = np.maximum(imperfections.sticking_speed, level * period / self._substeps / lightest)
        self._share = 1 - float(np.exp(-2 * np.pi * imperfections.velocity_bandwidth * period))
        effort = np.array([robot.joints[j].limits.effort for j in active])
        self.effort_limit = effort
        self._noise = imperfections.torque_noise * np.where(np.isfinite(effort), effort, 10.0)
        self._rng = np.random.default_rng(seed)
        self._commands: deque[Array] = deque([np.zeros(n)] * imperfections.latency)
        self._last = self._read_encoders()
        self._speed = np.zeros(n)
        self._adds = None if adds is None or adds.nothing else adds
        self._own = self._bare = None if self._adds is None else FeedforwardModel(robot, chi)
        self._press: tuple[int, Array, Array] | None = None
        self.stopped = False
        self.steps = 0

    @property
    def positions(self) -> Array:
        """True positions, shape (n,) [rad or m], which no sensor shows."""
        return np.array(self.mj_data.qpos[self._dofs])

    @property
    def temperature(self) -> Array:
        """Temperature of the drives now, shape (n,) [deg C]."""
        drives = self._imperfections
        remaining = float(np.exp(-self.mj_data.time / drives.warming_time))
        return np.full(self._n, drives.warm + (drives.cold - drives.warm) * remaining)

    def step(self, torque: Array) -> Measurement:
        """Advance by one control period under the motor torques commanded, shape (n,) [N.m or N]."""
        self._commands.append(np.clip(torque, -self.effort_limit, self.effort_limit))
        applied = self._commands.popleft()
        self.steps += 1
        if self.stopped:
            return self._step_braked()
        data = self.mj_data
        motor = np.clip(applied + self._added(), -self.effort_limit, self.effort_limit)
        for _ in range(self._substeps):
            dq = data.qvel[self._dofs]
            sign = np.tanh(dq / self.v0)
            remaining = motor - (self._Fv * dq + self._Fc * sign + self._off)
            gear_torque = (
                carried_torque(self.robot, remaining, dq, sign, self.temperature) if self.robot.friction else remaining
            )
            if self.robot.forces and not self._is_linkage:
                motion = motion_of(self.robot, self.positions[None])
                gear_torque = gear_torque - elastic_torque(self.robot, self._chi, motion)[:, 0]
            data.qfrc_applied[self._dofs] = gear_torque
            if self._press is not None:
                self._press_on(*self._press)
            if self._is_linkage:
                data.advance()
            else:
                self._mujoco.mj_step(self.mj_model, data)
        return self._measure_after(applied)

    def _added(self) -> Array:
        """Return what the robot adds to the command by itself, shape (n,)."""
        if self._adds is None or self._own is None:
            return np.zeros(self._n)
        q, dq = self.positions, np.array(self.mj_data.qvel[self._dofs])
        friction = self._own.friction(q, dq, OWN_SMOOTHING, self._own.gravity(q))
        return added_torque(self._own, self._adds, q, friction)

    def attach(self, mass: float, com: Array, inertia: Array, joint: int | None = None) -> None:
        """Fix a payload to the link of `joint` (default: the last), in that joint's frame; mass 0 takes it off.

        mass [kg], centre com (3,) [m], inertia about it (3, 3) [kg.m^2].
        """
        number = self.robot.n if joint is None else joint
        if not mass >= 0 or not np.all(np.isfinite(com)) or np.any(np.linalg.eigvalsh(inertia) < 0):
            raise InputError("the payload is not physical", "give mass >= 0 [kg] and a positive semidefinite inertia")
        load = np.zeros_like(self._chi)
        J = inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
        load[link_slice(number - 1)] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass)
        state = (self.mj_data.qpos.copy(), self.mj_data.qvel.copy(), self.mj_data.time)
        self._build(self._chi + load)
        if self._bare is not None:
            self._own = FeedforwardModel(self.robot, self._chi + load, self._bare)
        self.mj_data.qpos[:], self.mj_data.qvel[:], self.mj_data.time = state

    def press(self, force: Array | None, at: Array | None = None, joint: int | None = None) -> None:
        """Push the link of `joint` (default: the last) with a force (3,) [N] of the base frame until told otherwise.

        at: the point of the link, in the frame of that joint (3,) [m], default its origin; force None: let go.
        """
        if self._is_linkage:
            raise InputError("pushes are simulated at trees only", "press a robot without loops", self.robot.name)
        number = self.robot.n if joint is None else joint
        self.mj_data.xfrc_applied[:] = 0.0
        self._press = None if force is None else (number, force.copy(), np.zeros(3) if at is None else at.copy())

    def measure(self) -> Measurement:
        """Return what the sensors say without advancing; the torque is that of the offsets alone."""
        still = np.zeros(self._n)
        return Measurement(float(self.mj_data.time), self._last.copy(), self._speed.copy(), still, self.temperature)

    def _step_braked(self) -> Measurement:
        """Advance by one period with the brakes on: they stop the joints within milliseconds, and hold them."""
        data = self.mj_data
        data.qvel[:] *= np.exp(-self.period / BRAKE_TIME_CONSTANT)
        data.qpos[:] += self.period * data.qvel
        data.time += self.period
        return self._measure_after(np.zeros(self._n))

    def _press_on(self, joint: int, force: Array, at: Array) -> None:
        """Apply the force where the point of the link is now; MuJoCo takes it at the link's centre of mass."""
        data, body = self.mj_data, self._bodies[joint]
        point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ at
        data.xfrc_applied[body, :3] = force
        data.xfrc_applied[body, 3:] = np.cross(point - data.xipos[body], force)

    def _build(self, chi: Array) -> None:
        """Build MuJoCo's model of the robot with standard parameters chi, or a linkage; at rest at zero."""
        step = self.period / self._substeps
        if self._is_linkage:
            self.mj_model, self.mj_data = None, Linkage(self.robot, chi, step, OWN_SMOOTHING)
            self._dofs = np.arange(self._n)
            return
        try:
            self.mj_model = self._mujoco.MjModel.from_xml_string(mjcf(self.robot, chi, step))
        except ValueError as error:
            what = f"MuJoCo refuses the robot: {error}"
            raise InputError(what, "give it physically consistent links", self.robot.name) from None
        self.mj_data = self._mujoco.MjData(self.mj_model)
        # MuJoCo numbers joints and bodies branch by branch, whatever the robot's order is
        numbers = range(1, self.robot.n + 1)
        self._dofs = np.array([self.mj_model.joint(joint_name(j)).dofadr[0] for j in numbers])
        self._bodies = [0, *(self.mj_model.body(link_name(j)).id for j in numbers)]

    def _measure_after(self, applied: Array) -> Measurement:
        q = self._read_encoders()
        self._speed += self._share * ((q - self._last) / self.period - self._speed)
        self._last = q
        noise = self._noise * self._rng.standard_normal(len(q))
        return Measurement(float(self.mj_data.time), q, self._speed.copy(), applied + noise, self.temperature)

    def _read_encoders(self) -> Array:
        resolution = self._imperfections.resolution
        return np.array(np.round(self.positions / resolution) * resolution)


def standstill_friction(robot: Robot) -> Array:
    """Return the friction that the robot's terms add near standstill, shape (n,): Stribeck, and that of a full load."""
    level = np.zeros(len(robot.active))
    for k, term in active_terms(robot, robot.friction):
        effort = robot.joints[term.joint - 1].limits.effort
        if np.isfinite(effort) or not term.kind.loaded:
            level[k] += term.coefficient * column_at_rest(term, effort if term.kind.loaded else 0.0)
    return level
