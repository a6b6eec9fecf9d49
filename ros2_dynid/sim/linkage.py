# SPDX-License-Identifier: Apache-2.0

"""Bodies whose joints follow others or share motors, integrated in the joints that move independently.

M(q) ddq = tau - h(q, dq) by generated code, and Euler's semi-implicit step, as MuJoCo takes it for trees. Loops are
closed exactly, where MuJoCo's equality constraints give way. At the end of its reach the linkage stands still.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.codegen.backend import CompiledLoopTorque, LoopTorque, torque_function
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import OFF, Fc, Fv, by_joint
from ros2_dynid.model.robot import Array, Robot


class Linkage:
    """Positions qpos, speeds qvel and torques qfrc_applied of the active joints, (n,) each, and the time [s]."""

    def __init__(self, robot: Robot, chi: Array, step: float, smoothing: float) -> None:
        """Begin at zero with standard parameters chi; smoothing: of the friction of passive joints and coupled motors.

        Friction of the active joints themselves is the caller's.
        """
        n = len(robot.active)
        self.qpos, self.qvel, self.qfrc_applied, self.time = np.zeros(n), np.zeros(n), np.zeros(n), 0.0
        self._step, self._smoothing = step, smoothing
        self._robot = replace(robot, friction=())
        self._rigid = torque_function(*frictionless(self._robot, chi))
        self._others = chi.copy()
        for j in robot.active:
            by_joint(robot, self._others)[j - 1, [Fv, Fc, OFF]] = 0.0
        self._unit, self._still = np.eye(n), np.zeros(n)

    def inertia(self, q: Array) -> Array:
        """Return M(q), shape (n, n)."""
        Q = self._rigid.torque(q, self._still, self._still)
        return np.column_stack([self._rigid.torque(q, self._still, e) - Q for e in self._unit])

    def advance(self) -> None:
        """Take one step under the torques applied."""
        q, dq = self.qpos, self.qvel
        net = self.qfrc_applied - self._rigid.torque(q, dq, self._still) - self._friction(q, dq)
        dq = dq + self._step * np.linalg.solve(self.inertia(q), net)
        q = q + self._step * dq
        self.time += self._step
        try:
            self._rigid.torque(q, dq, self._still)
        except InputError:  # the end of its reach
            self.qvel[:] = 0.0
            return
        self.qpos[:], self.qvel[:] = q, dq

    def _friction(self, q: Array, dq: Array) -> Array:
        """Return the friction of passive joints and coupled motors at the active joints."""
        rigid = self._rigid
        G = rigid.ratios(q) if isinstance(rigid, LoopTorque | CompiledLoopTorque) else constraint(self._robot)[0]
        return smooth_friction(self._robot, self._others, G).torque(dq, self._smoothing, self._still)
