# SPDX-License-Identifier: Apache-2.0

"""The robot's own controller: follows a joint trajectory with PD and the points' effort, or passes torques through.

It does what ros2_control's joint_trajectory_controller does with effort command interfaces,
tau = Kp (q_r - q) + Kd (dq_r - dq) + effort, and what forward_command_controller does.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.control.reference import Reference, check_end, reference
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import inertia_matrix
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.simulated_robot import Measurement

REACTION_TIME = 2e-3
"""Time [s] from a measurement to its torque: a control period and the drive's latency."""
MAX_DAMPING = 0.3
"""Largest Kd * REACTION over the inertia: at 1 the sampled damping would begin to drive the joint."""


class TrajectoryController:
    """PD gains Kp [N.m/rad], Kd [N.m.s/rad] of shape (n,) and the trajectory that is being followed."""

    def __init__(self, Kp: Array, Kd: Array, q: Array) -> None:
        """Hold the positions q, shape (n,), until a trajectory comes."""
        self.Kp, self.Kd = Kp, Kd
        self.hold_position = q.copy()
        self._zero = np.zeros_like(q)
        self.trajectory: Reference | None = None
        self.start_time = 0.0
        self.desired: tuple[Array, Array] = (self.hold_position, self._zero)

    def follow(self, points: Reference, now: float) -> None:
        """Replace the trajectory; the way to its first point starts from the state desired now [s]."""
        check_end(points)
        if points.t[0] > 0:
            points = prepend_state(points, *self.desired)
        self.trajectory, self.start_time = points, now

    def hold(self, q: Array) -> None:
        """Drop the trajectory and hold q, shape (n,)."""
        self.trajectory, self.hold_position = None, q.copy()
        self.desired = (self.hold_position, self._zero)

    @property
    def busy(self) -> bool:
        """Whether a trajectory is being followed."""
        return self.trajectory is not None

    def torque(self, measured: Measurement, now: float) -> Array:
        """Return the motor torques, shape (n,) [N.m or N], for what was measured, at time `now` [s]."""
        q, dq, effort = self.hold_position, self._zero, None
        if self.trajectory is not None:
            q, dq, _, effort = self.trajectory.at(now - self.start_time)
            if now - self.start_time >= self.trajectory.duration and effort is None:
                self.hold(q)
        self.desired = (q, dq)
        tau = self.Kp * (q - measured.q) + self.Kd * (dq - measured.dq)
        return tau if effort is None else tau + effort


def pd_gains(robot: Robot, chi: Array, frequency: float = 5.0, damping: float = 0.7) -> tuple[Array, Array]:
    """Return Kp and Kd, shape (n,), that give each joint alone `frequency` [Hz] and `damping` at its mean inertia.

    A joint that others yield to, as one wrist axis in line with another does, is as light as 1 / (M^-1)_jj: its gains
    are held to what a controller of some milliseconds can do at that inertia.
    """
    rng = np.random.default_rng(0)
    q = random_positions(robot, rng, 128, 1.5)
    M = inertia_matrix(robot, chi, q)
    inertia = np.einsum("tjj->tj", M).mean(axis=0)
    w = 2 * np.pi * frequency
    lightest = 1.0 / np.einsum("tjj->tj", np.linalg.inv(M)).max(axis=0)
    inertia = np.minimum(inertia, MAX_DAMPING * lightest / (2 * damping * w * REACTION_TIME))
    return inertia * w**2, 2 * damping * w * inertia


def prepend_state(points: Reference, q: Array, dq: Array) -> Reference:
    """Return the points with the desired state q, dq, shape (n,), put before the first one at t = 0."""

    def before(first: Array, rest: Array | None) -> Array | None:
        return None if rest is None else np.concatenate((first[None], rest))

    t = np.concatenate(([0.0], points.t))
    at_start = np.zeros_like(q) if points.ddq is None else points.ddq[0]
    tau = None if points.tau is None else before(points.tau[0], points.tau)
    q_all = before(q, points.q)
    assert q_all is not None
    return reference(points.joint_names, t, q_all, before(dq, points.dq), before(at_start, points.ddq), tau)
