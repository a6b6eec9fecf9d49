# SPDX-License-Identifier: Apache-2.0

"""Recordings of small fleets of simulated arms."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recordings import study
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
DAY = 86_400_000_000_000


def record(path: Path, robot: int, number: int, seconds: float = 8.0, late: float = 0.0) -> Path:
    """Write a recording of one of several arms that differ a little; late: delay of the efforts [s]."""
    rng = np.random.default_rng([robot, number])
    chi = true_parameters(ROBOT, 1)
    chi = chi * (1.0 + 0.03 * np.random.default_rng(robot).standard_normal(len(chi)))
    t, q, dq, ddq = study().fourier(rng, len(ROBOT.active), seconds)
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    tau = np.roll(tau, round(late / (t[1] - t[0])), axis=0)
    tau += 0.02 * tau.std(axis=0) * rng.standard_normal(tau.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    start = 1_700_000_000_000_000_000 + number * DAY
    save_samples(Samples(t[::4], ROBOT.active_names, q[::4], tau=tau[::4], start_ns=start), path)
    return path


def write_fleet(folder: Path, text: str) -> Path:
    """Write the fleet file."""
    path = folder / "fleet.yaml"
    path.write_text(text)
    return path
