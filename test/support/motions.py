# SPDX-License-Identifier: Apache-2.0

"""Motions that are safe for the shipped three-joint robot, and recordings of it."""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters


def saved_motion(folder, robot, seconds=6.0):
    """Write a slow motion of all joints as a trajectory file."""
    t = np.linspace(0, seconds, 31)
    shape = (1 - np.cos(2 * np.pi * t / seconds)) / 2
    amplitude = np.full(robot.n, 0.4)
    q = shape[:, None] * amplitude - np.array([0.0, 1.0, 0.0])[: robot.n]
    dq = np.pi / seconds * np.sin(2 * np.pi * t / seconds)[:, None] * amplitude
    dq[[0, -1]] = 0.0
    folder.mkdir(parents=True, exist_ok=True)
    save_trajectory(folder / "slow.yaml", Trajectory(robot.active_names, through_points(t, q, dq)))


def recorded_motion(folder, robot, seconds=8.0, seed=1):
    """Write motion.npz, joint states of a motion with noisy torques of the true parameters; return its name."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 2e-3)
    w = 2 * np.pi / seconds * np.arange(1, 9)
    a, phase = rng.uniform(0.02, 0.1, (8, robot.n)), rng.uniform(0, 2 * np.pi, (8, robot.n))
    x = w[:, None] * t[:, None, None] + phase
    q, dq, ddq = (
        (a * np.sin(x)).sum(axis=1),
        (a * w[:, None] * np.cos(x)).sum(axis=1),
        -(a * w[:, None] ** 2 * np.sin(x)).sum(axis=1),
    )
    tau = inverse_dynamics(robot, true_parameters(robot, seed), q, dq, ddq)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "motion.npz", t=t, q=q, dq=dq, ddq=ddq, tau=tau + 0.01 * rng.standard_normal(tau.shape))
    return "motion.npz"


def slow_motion(seed=0, count=1200, rate=100.0, band=(0.6, 6.0), waves=5):
    """Return q, dq, ddq, shape (count, 3) each, of three joints: each the sum of waves in a band [rad/s]."""
    rng, time = np.random.default_rng(seed), np.arange(count) / rate
    q, dq, ddq = np.zeros((3, count, 3))
    for j in range(3):
        for w in rng.uniform(*band, waves):
            a, phase = rng.uniform(0.2, 0.5), rng.uniform(0.0, 6.0)
            q[:, j] += a * np.sin(w * time + phase)
            dq[:, j] += a * w * np.cos(w * time + phase)
            ddq[:, j] -= a * w**2 * np.sin(w * time + phase)
    return q, dq, ddq


def five_waves(robot, chi, seed=0, seconds=12.0, noise=1e-3, late=0.0, step=0.005):
    """Return samples of a smooth motion of three joints; noise: share of the torques, late: of the efforts [s]."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, step)
    amplitude, phase = rng.uniform(0.1, 0.4, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.1, 0.25, 0.4, 0.6, 0.9])

    def at(time, derivative):
        x = np.multiply.outer(time, w)[:, None] + phase + derivative * np.pi / 2
        return np.sum(amplitude * w**derivative * np.sin(x), axis=2)

    tau = inverse_dynamics(robot, chi, *(at(t - late, k) for k in range(3)))
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    q = at(t, 0) + 1e-6 * rng.normal(size=tau.shape)
    return Samples(t, robot.active_names, q, tau=tau, source=f"run{seed}")
