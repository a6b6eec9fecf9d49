# SPDX-License-Identifier: Apache-2.0

"""Friction with a smooth change of sign, for any robot: coupled motors and joints of closed loops included.

Whatever rubs with Coulomb friction has a speed s_k that is linear in the active joints' speeds, s = S dq: a joint's
own, a passive joint's, a coupled motor's. By virtual work its friction acts on the active joints along the same row:
tau = A dq + S^T (Fc tanh(S dq / v0)) + off, which for a plain tree is Fv dq + Fc tanh(dq / v0) + off joint by joint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ros2_dynid.dynamics.friction import terms_torque
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.model.parameters import JOINT, OFF, Fc, Fv, by_joint
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class SmoothFriction:
    """A, shape (n, n): viscous; S, shape (m, n): speeds of what rubs; Fc (m,); off (n,); n active joints.

    robot: whose terms beyond Fv, Fc and off are added.
    """

    A: Array
    S: Array
    Fc: Array
    off: Array
    robot: Robot

    @cached_property
    def uncoupled(self) -> Array | None:
        """Fv of each joint, shape (n,), where every joint rubs by itself; else None."""
        n = len(self.off)
        own = self.S.shape == (n, n) and np.array_equal(self.S, np.eye(n))
        return self.A.diagonal().copy() if own and np.array_equal(self.A, np.diag(self.A.diagonal())) else None

    def torque(self, dq: Array, v0: float, carried: Array) -> Array:
        """Return the friction torque, shape (n,) [N.m, N], that changes sign over the speed v0 [rad/s or m/s].

        carried: torque of links and rotors, shape (n,), which load-dependent terms need.
        """
        uncoupled = self.uncoupled
        if uncoupled is not None:
            tau = uncoupled * dq + self.Fc * np.tanh(dq / v0) + self.off
        else:
            tau = np.asarray(self.A @ dq + (self.Fc * np.tanh(self.S @ dq / v0)) @ self.S + self.off)
        return tau + terms_torque(self.robot, dq, np.tanh(dq / v0), carried) if self.robot.friction else tau


def smooth_friction(robot: Robot, chi: Array, G: Array | None = None) -> SmoothFriction:
    """Return the friction of standard parameters chi, shape (n_standard,).

    G: dq/dq_active of all joints, shape (n, n_active), where it is not constant: with closed loops, at one pose.
    """
    G = constraint(robot)[0] if G is None else G
    drives = by_joint(robot, chi)
    A, speeds, coulomb = np.diag(drives[:, Fv]), [np.eye(robot.n)], [drives[:, Fc]]
    column = JOINT * robot.n
    for coupling in robot.coupling:
        column += coupling.independent_inertia
        w = np.zeros(robot.n)
        for joint, weight in coupling.weights.items():
            w[joint - 1] = weight
        A += chi[column] * (np.outer(w, w) - np.diag(w**2))  # a motor's share of its own joint is in Fv (Gautier 2013)
        speeds.append(w[None])
        coulomb.append(chi[column + 1 : column + 2])
        column += 2
    S = np.concatenate(speeds) @ G
    return SmoothFriction(G.T @ A @ G, S, np.concatenate(coulomb), drives[:, OFF] @ G, robot)
