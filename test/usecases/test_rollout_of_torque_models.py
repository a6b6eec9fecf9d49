# SPDX-License-Identifier: Apache-2.0

"""Rollouts of models from torques: errors of positions after some time and over a motion tell good models from bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from closed_loop import controller_of, fourier
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.tracking_loop import Command, JointController, simulate_tracking
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.usecases.rollout import RolloutRequest, rollout

ROBOT = load_robot("demo3")
CHI = true_parameters(ROBOT, 1)
HORIZONS = ["0.1", "0.5", "2", "whole"]


def write_model(path: Path, chi: Array) -> None:
    """Write a model whose torques are those of standard parameters chi."""
    base = base_parameters(ROBOT)
    place = {name: k for k, name in enumerate(standard_names(ROBOT))}
    value = np.array([sum(c * chi[place[name]] for name, c in base.terms(k).items()) for k in range(len(base))])
    save_model(model_of(ROBOT, base, value, np.ones(len(base)), np.eye(len(base))), path)


def test_errors_are_those_of_the_model(tmp_path: Path) -> None:
    """The model of the plant follows it at every horizon; one that is a third too heavy does not."""
    t, q, dq, _ = fourier(np.random.default_rng(0), ROBOT.n, 9.0)
    gains = JointController(controller_of(ROBOT, CHI).Kp, controller_of(ROBOT, CHI).Kd)
    command = Command(1000.0, q, dq, np.zeros_like(q), (slice(0, len(t)),))
    motion = simulate_tracking(ForwardDynamics(ROBOT, CHI, np.full(ROBOT.n, 5e-3)), gains, command)
    names = ROBOT.active_names
    header = ",".join(["time", *(f"{n}.position" for n in names), *(f"{n}.reference" for n in names)])
    table = tmp_path / "motion.csv"
    np.savetxt(table, np.column_stack((t, motion.q, q))[::4], delimiter=",", header=header, comments="", fmt="%.9f")
    controller = tmp_path / "controller.yaml"
    rows = ", ".join(
        f"{n}: {{p: {p!r}, d: {d!r}}}" for n, p, d in zip(names, gains.Kp.tolist(), gains.Kd.tolist(), strict=True)
    )
    controller.write_text(f"gains: {{{rows}}}\n")
    errors = []
    for factor in (1.0, 1.33):
        model = tmp_path / f"{factor}.yaml"
        write_model(model, factor * CHI)
        outcome = rollout(RolloutRequest(str(model), str(table), controller=str(controller)))
        assert list(outcome.error) == HORIZONS
        errors.append(np.array([outcome.error[h] for h in HORIZONS]))
    deviation = np.sqrt(np.mean((motion.q - q) ** 2))
    assert np.all(errors[0] < 0.05 * deviation)
    assert np.all(errors[1][1:] > 3.0 * errors[0][1:])
