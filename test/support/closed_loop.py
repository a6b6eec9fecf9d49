# SPDX-License-Identifier: Apache-2.0

"""Recordings of a robot whose own controller sees the noise of its encoders, or does not: MuJoCo moves it."""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.controller import pd_gains
from ros2_dynid.sim.mjcf import mjcf
from ros2_dynid.sim.tracking_loop import JointController

PERIOD, SUBSTEPS = 1e-3, 2
SPEED_FILTER = 60.0
"""Corner [Hz] of the first-order filter that the controller's speeds pass."""


def fourier(rng: np.random.Generator, n: int, seconds: float, speed: float = 2.0) -> tuple[Array, ...]:
    """Return t, q, dq, ddq of a random Fourier series of five harmonics of 0.1 Hz."""
    t = np.arange(0.0, seconds, PERIOD)
    q, dq, ddq = (np.zeros((len(t), n)) for _ in range(3))
    for j in range(n):
        for h, (a, b) in enumerate(rng.normal(size=(5, 2)), start=1):
            w = 0.2 * np.pi * h
            q[:, j] += a / w * np.sin(w * t) - b / w * np.cos(w * t)
            dq[:, j] += a * np.cos(w * t) + b * np.sin(w * t)
            ddq[:, j] += w * (b * np.cos(w * t) - a * np.sin(w * t))
        scale = min(speed / np.abs(dq[:, j]).max(), 1.5 / np.abs(q[:, j] - q[:, j].mean()).max())
        for x in (q, dq, ddq):
            x[:, j] *= scale
    return t, q, dq, ddq


def controller_of(robot: Robot, chi: Array, stiffness: float = 8.0) -> JointController:
    """Return the controller of `closed_loop`."""
    return JointController(*pd_gains(robot, chi, stiffness), 2.0 * np.pi * SPEED_FILTER)


def closed_loop(
    robot: Robot,
    chi: Array,
    seed: int,
    noise: float,
    inside: bool,
    seconds: float = 12.0,
    *,
    share: float = 0.9,
    stiffness: float = 8.0,
) -> Samples:
    """Return a recording of the robot that follows a random trajectory, with `noise` [rad] of its encoders.

    inside: the controller sees the noise; share: of the true torque that it adds to its own; stiffness: of its loop
    [Hz]. The commanded positions are recorded too, and what was added.
    """
    import mujoco

    rng = np.random.default_rng(seed)
    n = robot.n
    t, q_r, dq_r, ddq_r = fourier(rng, n, seconds)
    model = mujoco.MjModel.from_xml_string(mjcf(robot, chi, PERIOD / SUBSTEPS))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q_r[0], dq_r[0]
    Fv, Fc, off = (chi[k : 14 * n : 14] for k in (11, 12, 13))
    feed = inverse_dynamics(robot, share * chi, q_r, dq_r, ddq_r)
    Kp, Kd = pd_gains(robot, chi, stiffness)
    q, tau = np.empty_like(q_r), np.empty_like(q_r)
    passed = 1.0 - np.exp(-2.0 * np.pi * SPEED_FILTER * PERIOD)
    speed, before = dq_r[0].copy(), q_r[0].copy()
    for k in range(len(t)):
        q[k] = data.qpos + noise * rng.standard_normal(n)
        seen = q[k] if inside else data.qpos.copy()
        if k:
            speed += passed * ((seen - before) / PERIOD - speed)
        before = seen
        tau[k] = feed[k] + Kp * (q_r[k] - seen) + Kd * (dq_r[k] - speed)
        for _ in range(SUBSTEPS):
            data.qfrc_applied[:] = tau[k] - Fv * data.qvel - Fc * np.sign(data.qvel) - off
            mujoco.mj_step(model, data)
    return Samples(t, robot.active_names, q, tau=tau, q_r=q_r, tau_f=feed)
