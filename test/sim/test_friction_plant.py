# SPDX-License-Identifier: Apache-2.0

"""A plant with friction that grows with the load and falls from standstill: found, and worth feeding forward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.dynamics.friction import carried_torque, terms_torque
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.controller import pd_gains
from ros2_dynid.sim.simulated_robot import SimulatedRobot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
SECONDS, PERIOD = 6.0, 1e-3


def reference(seed: int) -> tuple[np.ndarray, ...]:
    """Return t, q, dq, ddq of a smooth motion that starts at rest."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, SECONDS, PERIOD)
    w = 2.0 * np.pi * np.array([0.15, 0.3, 0.45, 0.75])
    a = rng.uniform(0.1, 0.4, (3, 4)) * rng.choice((-1.0, 1.0), (3, 4))
    q, dq, ddq = (np.zeros((len(t), 3)) for _ in range(3))
    for j in range(3):
        q[:, j] = np.sum(a[j] * (np.cos(np.outer(t, w)) - 1.0), axis=1)
        dq[:, j] = np.sum(-a[j] * w * np.sin(np.outer(t, w)), axis=1)
        ddq[:, j] = np.sum(-a[j] * w**2 * np.cos(np.outer(t, w)), axis=1)
    return t, q, dq, ddq


def driven(plant, chi, motion, model):
    """Return the recording and the root mean square tracking error of PD with the model's torque [rad]."""
    t, q, dq, ddq = motion
    sim = SimulatedRobot(plant, chi, period=PERIOD, start=q[0], seed=1)
    Kp, Kd = pd_gains(ROBOT, chi, 5.0)
    measured, rows, error = sim.measure(), [], []
    for k in range(len(t)):
        tau = Kp * (q[k] - measured.q) + Kd * (dq[k] - measured.dq)
        if model is not None:
            rigid = model.rigid(q[k], dq[k], ddq[k])
            tau = tau + rigid + model.friction(q[k], dq[k], 0.02, rigid)
        error.append(q[k] - sim.positions)  # before the step: at the time of the reference
        measured = sim.step(tau)
        rows.append((measured.q, measured.tau))
    positions, torques = (np.array(x) for x in zip(*rows, strict=True))
    samples = Samples(t + PERIOD, ROBOT.active_names, positions, tau=torques, source="simulated")
    return samples, float(np.sqrt(np.mean(np.square(error[1000:]))))


def test_what_the_terms_leave_of_a_torque_makes_it_again_with_their_friction():
    terms = (FrictionTerm(2, FrictionKind.LOAD, 0.2), FrictionTerm(3, FrictionKind.LOAD_VISCOUS, 0.1))
    robot = replace(ROBOT, friction=(*terms, FrictionTerm(1, FrictionKind.CUBIC, 3.0)))
    tau, dq = np.random.default_rng(0).uniform(-3.0, 3.0, (2, 40, 3))
    x = carried_torque(robot, tau, dq, np.sign(dq))
    assert np.allclose(x + terms_torque(robot, dq, np.sign(dq), x), tau)


def test_the_full_law_tracks_better_than_coulomb_and_viscous_friction():
    chi = true_parameters(ROBOT, 3)
    coulomb = chi[12::14]
    terms = tuple(
        term
        for j in range(3)
        for term in (
            FrictionTerm(j + 1, FrictionKind.LOAD, 0.2),
            FrictionTerm(j + 1, FrictionKind.STRIBECK, 1.0 * coulomb[j], speed=0.15),
        )
    )
    plant = replace(ROBOT, friction=terms)
    samples, _ = driven(plant, chi, reference(1), FeedforwardModel(ROBOT, chi))
    errors = {}
    for law in ("auto", "viscous+coulomb"):
        model = identify(ROBOT, [samples], options=IdentifyOptions(friction=law)).model
        errors[law] = driven(plant, chi, reference(2), FeedforwardModel(model.robot, model.chi))[1]
        if law == "auto":
            found = {(term.joint, term.kind) for term in model.robot.friction}
    assert {(2, FrictionKind.LOAD), (3, FrictionKind.LOAD)} <= found
    assert errors["viscous+coulomb"] > 1.5 * errors["auto"], errors
