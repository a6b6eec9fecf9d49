# SPDX-License-Identifier: Apache-2.0

"""A robot that is not there: recordings of an arm that is a quarter heavier than its description says."""

from dataclasses import replace

import numpy as np

import ros2_dynid as dynid

HEAVIER = 1.25
RATE, SECONDS = 200.0, 20.0


def simulate(robot: dynid.Robot, *, seed: int = 0, load: float = 0.0) -> dynid.Samples:
    """Return positions, velocities and efforts of a smooth motion; load: mass [kg] 0.1 m in front of the last frame."""
    rng = np.random.default_rng(seed)
    n = len(robot.active_names)
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    w, phase = 2 * np.pi * rng.uniform(0.1, 0.5, (4, n)), rng.uniform(0, 2 * np.pi, (4, n))
    angle = t[:, None, None] * w + phase
    q, dq, ddq = 0.4 * np.sin(angle), 0.4 * w * np.cos(angle), -0.4 * w**2 * np.sin(angle)

    true = {name: HEAVIER * value for name, value in robot.parameters.items()}
    for kind, share in (("M", 1.0), ("MZ", 0.1), ("XX", 0.1**2), ("YY", 0.1**2)):
        true[f"{kind}{n}"] = true.get(f"{kind}{n}", 0.0) + share * load
    arm = replace(robot, parameters=true)
    tau = dynid.compute_torque(arm, q.sum(axis=1), dq.sum(axis=1), ddq.sum(axis=1))
    tau += 0.1 * rng.standard_normal(tau.shape)
    return dynid.Samples(t, robot.active_names, q.sum(axis=1), dq.sum(axis=1), tau=tau)
