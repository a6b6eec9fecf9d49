# SPDX-License-Identifier: Apache-2.0

"""Direct dynamics of a model: accelerations from motor torques, batched over states, friction smooth at standstill.

M(q) ddq = tau - h(q, dq) - friction. The sign of a speed v is tanh(v / v0) here, so that an integrator gets through
standstill. A gear whose friction grows with its load carries what carried_torque says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ros2_dynid.codegen.backend import InverseDynamics, pad_to_block, torque_function
from ros2_dynid.dynamics.friction import carried_torque, frictionless, terms_torque, without_friction
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.dynamics.newton_euler import checked_standard, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import JOINT, Fc, standard_names
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True, eq=False)
class Accelerations:
    """What torques do at B states: M (B, n, n), ddq, gear_torque (B, n), and the signs of all speeds, (B, n_speeds)."""

    M: Array
    ddq: Array
    gear_torque: Array
    sign: Array


@dataclass(frozen=True, eq=False)
class ForwardDynamics:
    """A robot with standard parameters chi, shape (n_standard,); v0: [rad/s or m/s] of each active joint, (n,)."""

    robot: Robot
    chi: Array
    v0: Array

    def __post_init__(self) -> None:
        """Refuse parameters and speeds that do not fit the robot."""
        checked_standard(self.robot, self.chi)
        if self.v0.shape != (self.n,) or not np.all(self.v0 > 0):
            raise InputError("v0 does not fit the robot", f"give {self.n} positive speeds", self.robot.name)

    @property
    def n(self) -> int:
        """Number of active joints."""
        return len(self.robot.active)

    def inertia(self, q: Array) -> Array:
        """Return M(q), shape (B, n, n), for q of shape (B, n)."""
        return self._inertia_and_rest(q, np.zeros_like(q))[0]

    def accelerations(self, q: Array, dq: Array, tau: Array) -> Accelerations:
        """Return what motor torques tau do at the states q, dq, shape (B, n) each."""
        M, rest = self._inertia_and_rest(q, dq)
        sign = np.tanh(dq @ self._speeds.T / self._speeds_v0)
        net_torque = tau - dq @ self.viscous.T - (self._coulomb * sign) @ self._speeds - self._offset
        gear_torque = net_torque
        if self.robot.friction:
            gear_torque = carried_torque(self.robot, net_torque, dq, np.tanh(dq / self.v0))
        ddq = np.asarray(np.linalg.solve(M, (gear_torque - rest)[..., None])[..., 0], dtype=float)
        return Accelerations(M, ddq, gear_torque, sign)

    def damping(self, dq: Array) -> Array:
        """Return D, shape (B, n, n), such that D dq is at least the friction at the speeds dq, (B, n): its chord.

        Linear in the speed, it lets an implicit integrator take friction without ever turning a joint round by it.
        """
        v = dq @ self._speeds.T
        chord = self._coulomb / np.maximum(np.abs(v), self._speeds_v0)
        D = self.viscous + np.einsum("bk,ki,kj->bij", chord, self._speeds, self._speeds)
        if self.robot.friction:
            terms = terms_torque(self.robot, dq, np.tanh(dq / self.v0), np.zeros_like(dq))
            D[:, range(self.n), range(self.n)] += np.abs(terms) / np.maximum(np.abs(dq), self.v0)
        return np.asarray(D)

    def _inertia_and_rest(self, q: Array, dq: Array) -> tuple[Array, Array]:
        """Return M, and the torque at these speeds without acceleration and friction: n + 1 inverse dynamics."""
        B, n = q.shape
        unit = np.concatenate((np.zeros((1, n)), np.eye(n)))
        states = [np.repeat(x[None], n + 1, axis=0).reshape(-1, n) for x in (q, dq)]
        ddq = np.repeat(unit[:, None], B, axis=1).reshape(-1, n)
        arrays = pad_to_block([*states, ddq])
        tau = self._rigid.torques(*(np.ascontiguousarray(a) for a in arrays))[: B * (n + 1)].reshape(n + 1, B, n)
        M = (tau[1:] - tau[0]).transpose(1, 2, 0)
        return M, tau[0]

    @cached_property
    def _rigid(self) -> InverseDynamics:
        return torque_function(*frictionless(self.robot, self.chi))

    @cached_property
    def _friction_only(self) -> Array:
        """The parameters of friction and offsets alone: with them torques do not depend on position."""
        return self.chi - without_friction(self.robot, self.chi)

    @cached_property
    def viscous(self) -> Array:
        """Viscous friction V, shape (n, n): torque V dq. Couplings make it more than a diagonal."""
        chi = self._friction_only * [not name.startswith(("Fc", "off")) for name in standard_names(self.robot)]
        zero, unit = np.zeros((self.n, self.n)), np.eye(self.n)
        return np.asarray(inverse_dynamics(self._plain, chi, zero, unit, zero).T)

    @cached_property
    def _offset(self) -> Array:
        zero = np.zeros((1, self.n))
        return np.asarray(inverse_dynamics(self._plain, self._friction_only, zero, zero, zero)[0])

    @cached_property
    def _plain(self) -> Robot:
        return frictionless(self.robot, self.chi)[0]

    @cached_property
    def _speeds(self) -> Array:
        """The speeds that Coulomb friction follows: S dq of all joints and then of coupled motors, (n_speeds, n)."""
        G, _ = constraint(self.robot)
        motors = [sum(c * G[j - 1] for j, c in coupling.weights.items()) for coupling in self.robot.coupling]
        return np.array([*G, *motors])

    @cached_property
    def _speeds_v0(self) -> Array:
        """v0 of those speeds: that of the slowest joint that takes part."""
        joint_v0 = np.where(self._speeds != 0.0, np.abs(self._speeds) * self.v0, np.inf)
        return np.where(np.isfinite(slowest := joint_v0.min(axis=1)), slowest, 1.0)

    @cached_property
    def _coulomb(self) -> Array:
        place = {name: k for k, name in enumerate(standard_names(self.robot))}
        own = [self.chi[JOINT * j + Fc] for j in range(self.robot.n)]
        return np.array([*own, *(self.chi[place[f"Fcm{c.motor}"]] for c in self.robot.coupling)])
