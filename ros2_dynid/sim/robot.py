"""A robot in MuJoCo behind the interface of real hardware: torques in, quantised positions and noisy torques out.

One control period: the drives take the torque commanded `latency` periods ago, friction Fv dq + Fc tanh(dq / v0) + off
acts against it, and MuJoCo integrates the links over several steps. The smoothed sign keeps the integration stable at
standstill. Encoders round positions; velocities are their filtered differences, as a drive computes them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.mjcf import mjcf

SUBSTEPS = 4
"""Integration steps of MuJoCo in a control period."""


@dataclass(frozen=True)
class Imperfections:
    """What separates the robot from its equations.

    resolution: of the encoders [rad or m]; torque_noise: standard deviation, as a share of the joint's effort scale;
    latency: control periods between a command and its torque; sticking_speed: v0 of the smoothed friction [rad/s, m/s];
    velocity_bandwidth: of the drives' velocity filter [Hz].
    """

    resolution: float = 2 * np.pi / 2**18
    torque_noise: float = 0.005
    latency: int = 1
    sticking_speed: float = 5e-3
    velocity_bandwidth: float = 150.0


@dataclass(frozen=True)
class Measurement:
    """What the robot's sensors say: time [s] and, shape (n,) each, position, velocity and motor torque."""

    t: float
    q: Array
    dq: Array
    tau: Array


class SimulatedRobot:
    """The robot with true standard parameters chi, shape (n_standard,), advanced by one control `period` [s] a step."""

    def __init__(
        self,
        robot: Robot,
        chi: Array,
        *,
        period: float = 1e-3,
        imperfections: Imperfections = Imperfections(),  # noqa: B008  frozen
        start: Array | None = None,
        seed: int = 0,
    ) -> None:
        """Build the MuJoCo model at rest at the positions `start`, shape (n,); seed: of the torque noise."""
        try:
            import mujoco
        except ModuleNotFoundError:
            raise MissingPackageError("mujoco", "the simulated robot") from None
        self._mujoco: Any = mujoco
        self.robot, self.period, self._imperfections = robot, period, imperfections
        self._chi = chi.copy()
        try:
            self._model = mujoco.MjModel.from_xml_string(mjcf(robot, chi, period / SUBSTEPS))
        except ValueError as error:
            raise InputError(f"MuJoCo refuses the robot: {error}", "give it physically consistent links", robot.name) from None
        self._data = mujoco.MjData(self._model)
        if start is not None:
            self._data.qpos[:] = start
        drives = chi[: 14 * robot.n].reshape(robot.n, 14)
        self._Fv, self._Fc, self._off = drives[:, 11].copy(), drives[:, 12].copy(), drives[:, 13].copy()
        effort = np.array([joint.limits.effort for joint in robot.joints])
        self.effort_limit = effort
        self._noise = imperfections.torque_noise * np.where(np.isfinite(effort), effort, 10.0)
        self._rng = np.random.default_rng(seed)
        self._commands: deque[Array] = deque([np.zeros(robot.n)] * imperfections.latency)
        self._last = self._rounded()
        self._speed = np.zeros(robot.n)
        self.stopped = False
        self.steps = 0

    @property
    def positions(self) -> Array:
        """True positions, shape (n,) [rad or m], which no sensor shows."""
        return np.array(self._data.qpos)

    def step(self, torque: Array) -> Measurement:
        """Advance by one control period under the motor torques commanded, shape (n,) [N.m or N]."""
        self._commands.append(np.clip(torque, -self.effort_limit, self.effort_limit))
        applied = self._commands.popleft()
        if self.stopped:
            applied = np.zeros_like(applied)
        data, v0 = self._data, self._imperfections.sticking_speed
        for _ in range(SUBSTEPS):
            dq = data.qvel
            friction = self._Fv * dq + self._Fc * np.tanh(dq / v0) + self._off
            data.qfrc_applied[:] = applied - friction
            self._mujoco.mj_step(self._model, data)
            if self.stopped:  # the brakes hold every joint
                data.qvel[:] *= 0.9
        self.steps += 1
        return self._measured(applied)

    def attach(self, mass: float, com: Array, inertia: Array, joint: int | None = None) -> None:
        """Fix a payload to the link of `joint` (default: the last): mass [kg], centre (3,) [m] and inertia about it (3, 3).

        Both in the frame of that joint. Mass 0 takes it off.
        """
        number = self.robot.n if joint is None else joint
        if not mass >= 0 or not np.all(np.isfinite(com)) or np.any(np.linalg.eigvalsh(inertia) < 0):
            raise InputError("the payload is not physical", "give mass >= 0 [kg] and a positive semidefinite inertia")
        load = np.zeros_like(self._chi)
        J = inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
        at = 14 * (number - 1)
        load[at : at + 10] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass)
        loaded = self._mujoco.MjModel.from_xml_string(mjcf(self.robot, self._chi + load, self.period / SUBSTEPS))
        state = (self._data.qpos.copy(), self._data.qvel.copy(), self._data.time)
        self._model, self._data = loaded, self._mujoco.MjData(loaded)
        self._data.qpos[:], self._data.qvel[:], self._data.time = state

    def measure(self) -> Measurement:
        """Return what the sensors say without advancing; the torque is that of the offsets alone."""
        return Measurement(float(self._data.time), self._last.copy(), self._speed.copy(), np.zeros(self.robot.n))

    def _measured(self, applied: Array) -> Measurement:
        q = self._rounded()
        share = 1 - np.exp(-2 * np.pi * self._imperfections.velocity_bandwidth * self.period)
        self._speed += share * ((q - self._last) / self.period - self._speed)
        self._last = q
        noise = self._noise * self._rng.standard_normal(len(q))
        return Measurement(float(self._data.time), q, self._speed.copy(), applied + noise)

    def _rounded(self) -> Array:
        resolution = self._imperfections.resolution
        return np.array(np.round(self._data.qpos / resolution) * resolution)
