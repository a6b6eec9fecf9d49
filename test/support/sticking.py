# SPDX-License-Identifier: Apache-2.0

"""Recordings of the simulated robot under its own PD control: joints stick for a while where they reverse."""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.controller import pd_gains
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot

PERIOD = 1e-3
STIFFNESS = 8.0
"""Frequency of the position control [Hz]."""
SPEED = 0.9
"""Share of its speed limit that each joint reaches."""
TURN = 1.0
"""Time that the robot takes from rest into its motion, and back [s]."""


def sticking(robot: Robot, chi: Array, seed: int, seconds: float, *, torque_noise: float = 0.005) -> Samples:
    """Return `seconds` of a fast random motion of six harmonics of 1/8 Hz, from rest to rest, in MuJoCo.

    chi: the true standard parameters; torque_noise: standard deviation over the effort limits. The robot follows with
    its controller alone, and not exactly, so that where it turns is up to its friction.
    """
    rng = np.random.default_rng(seed)
    n = robot.n
    t = np.arange(0.0, seconds, PERIOD)
    w = 2.0 * np.pi * np.arange(1, 7) / 8.0
    a, b = rng.normal(size=(2, 6, n)) / np.arange(1, 7)[:, None]
    ramp = np.clip(np.minimum(t, seconds - t) / TURN, 0.0, 1.0)
    q_r = (np.sin(np.outer(t, w)) @ a + np.cos(np.outer(t, w)) @ b) * (ramp**3 * (10 - 15 * ramp + 6 * ramp**2))[
        :, None
    ]
    limits = np.array([joint.limits.velocity for joint in robot.joints])
    q_r *= SPEED * np.where(np.isfinite(limits), limits, 2.0) / np.abs(np.gradient(q_r, PERIOD, axis=0)).max(axis=0)
    dq_r = np.gradient(q_r, PERIOD, axis=0)
    Kp, Kd = pd_gains(robot, chi, STIFFNESS)
    made = Imperfections(torque_noise=torque_noise)
    plant = SimulatedRobot(robot, chi, period=PERIOD, imperfections=made, start=q_r[0], seed=seed)
    measured = plant.measure()
    q, tau = np.empty_like(q_r), np.empty_like(q_r)
    for k in range(len(t)):
        measured = plant.step(Kp * (q_r[k] - measured.q) + Kd * (dq_r[k] - measured.dq))
        q[k], tau[k] = measured.q, measured.tau
    return Samples(t, robot.active_names, q, tau=tau, source="simulated robot")
