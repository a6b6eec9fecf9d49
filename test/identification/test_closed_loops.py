# SPDX-License-Identifier: Apache-2.0

"""Robots with closed loops are identified from the efforts of their drives, with error bars that hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linkages import cylinder_arm, delta, four_bar
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples

INERTIAL = {"XX": 0.3, "YY": 0.4, "ZZ": 0.2, "XY": 0.01, "MX": 0.5, "MY": 0.1, "MZ": 0.05, "M": 2.0}


def with_parameters(robot: Robot, seed: int) -> Robot:
    """Return the robot with links that weigh something, and drives with rotors and friction."""
    rng = np.random.default_rng(seed)
    values = {}
    for j in range(1, robot.n + 1):
        values |= {f"{kind}{j}": value * rng.uniform(0.5, 1.5) for kind, value in INERTIAL.items()}
    for j in robot.active:
        values |= {f"Ia{j}": 0.1, f"Fv{j}": rng.uniform(0.5, 2.0), f"Fc{j}": rng.uniform(0.5, 2.0)}
    return replace(robot, parameters=values)


def motion(robot: Robot, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return t [s], q, dq, ddq of 20 s at 200 Hz within the linkage's reach."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 20.0, 0.005)
    reached = random_positions(robot, rng, 400, 0.25 if robot.n > 3 else 2.0)
    middle, half = np.median(reached, axis=0), 0.35 * np.ptp(reached, axis=0)
    q, dq, ddq = (np.zeros((len(t), len(robot.active))) for _ in range(3))
    for k in range(q.shape[1]):
        for harmonic in range(1, 7):
            w, phase = 2.0 * np.pi * harmonic / 10.0 * rng.uniform(0.8, 1.2), rng.uniform(0.0, 6.3)
            size = 0.5 * half[k] / np.sqrt(harmonic) / 1.5
            q[:, k] += size * np.sin(w * t + phase)
            dq[:, k] += size * w * np.cos(w * t + phase)
            ddq[:, k] -= size * w**2 * np.sin(w * t + phase)
    return t, q + middle, dq, ddq


def recording(robot: Robot, seed: int, noise: float) -> Samples:
    """Return that motion with its torques, which have white noise: a share of their root mean square."""
    t, q, dq, ddq = motion(robot, seed)
    rng = np.random.default_rng(seed + 100)
    tau = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    tau += noise * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
    return Samples(t, robot.active_names, q, tau=tau)


@pytest.mark.parametrize("robot", [four_bar(), cylinder_arm(), delta()], ids=lambda robot: robot.name)
def test_base_parameters_are_within_their_error_bars(robot):
    robot = with_parameters(robot, 1)
    options = IdentifyOptions(friction="viscous+coulomb")
    model = identify(replace(robot, parameters={}), [recording(robot, 2, 0.02)], options=options).model
    base = base_parameters(robot)
    true = dict(zip(base.leaders, base.values(robot, standard_vector(robot)), strict=True))
    rows = [row for row in model.table() if row.std is not None]
    deviation = [abs(row.value - true[row.leader]) / row.std for row in rows]
    assert len(rows) > 0.5 * len(base.leaders)
    assert np.mean(np.array(deviation) < 3.0) >= 0.95
    unseen, (q, dq, ddq) = recording(robot, 3, 0.0), motion(robot, 3)[1:]
    error = fast_inverse_dynamics(model.robot, model.chi, q, dq, ddq) - unseen.tau
    assert np.sqrt(np.mean(error**2)) < 0.01 * np.sqrt(np.mean(unseen.tau**2))
