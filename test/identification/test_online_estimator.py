"""The online estimator on a stream from MuJoCo: it finds the truth, and notices a payload."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.reference import reference
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import TorqueError, model_of
from ros2_dynid.identification.online import OnlineEstimator
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")


def motion(seconds):
    """Return a lively motion around the middle of the ranges that starts and ends at rest."""
    t = np.arange(0.0, seconds, 0.02)
    phase = 2 * np.pi * np.array([0.31, 0.43, 0.59]) * t[:, None]
    envelope = np.minimum(1.0, np.minimum(t, seconds - t) / 2)[:, None] ** 2 * (np.array([0.9, 0.6, 0.8]))
    q = np.array([0.0, -1.0, 0.0]) + envelope * np.sin(phase)
    dq = np.gradient(q, 0.02, axis=0)
    dq[[0, -1]] = 0.0
    return reference(("waist", "shoulder", "elbow"), t, q, dq)


@pytest.fixture(scope="module")
def run():
    """Stream 24 s through the estimator, with a payload from the 16th second on; return what it said."""
    plant = Plant(
        ROBOT,
        seed=2,
        spread=0.15,
        period=1e-3,
        imperfections=Imperfections(torque_noise=0.005),
        start=np.array([0.0, -1.0, 0.0]),
        stiffness=8.0,
    )
    plant.follow(motion(26.0))
    estimator = OnlineEstimator(ROBOT, 1000.0, memory=30.0)
    reference_model, verdicts, found = None, [], None
    for k in range(24_000):
        if k == 16_000:
            plant.sim.attach(2.0, np.array([0.0, 0.25, 0.0]), 0.01 * np.eye(3))
        measured = plant.step()
        estimator.take(measured.q, measured.tau)
        if k % 200 == 199:
            estimator.work(reference_model)
            if k == 11_999:
                found = estimator.estimate()
                chi = true_parameters(ROBOT, 2)
                base = base_parameters(ROBOT)
                value, size = base.values(ROBOT, chi), len(base)
                usual = {name: TorqueError(0.4, 0.01) for name in (*ROBOT.active_names, "all")}
                reference_model = model_of(ROBOT, base, value, np.full(size, 1e-3), 1e-6 * np.eye(size), fit=usual)
            if reference_model is not None:
                verdicts.append((k, estimator.drift(reference_model, 3.0)))
    return found, verdicts


def test_the_estimate_has_the_torques_of_the_truth(run):
    found, _ = run
    assert found is not None and np.all(found.std > 0)
    rng = np.random.default_rng(0)
    q, dq, ddq = (rng.uniform(-1, 1, (200, 3)) for _ in range(3))
    truth = inverse_dynamics(ROBOT, true_parameters(ROBOT, 2), q, dq, ddq)
    assert np.linalg.norm(found.torque(q, dq, ddq) - truth) < 0.05 * np.linalg.norm(truth)


def test_the_bars_of_the_estimate_hold_the_truth(run):
    found, _ = run
    base = base_parameters(ROBOT)
    z = (found.value - base.values(ROBOT, true_parameters(ROBOT, 2))) / found.std
    assert np.mean(np.abs(z) < 3.0) >= 0.95
    assert 0.3 < np.sqrt(np.mean(z**2)) < 2.0


def test_blocks_are_joined_and_the_old_forgotten():
    """A stream far longer than the memory: a bounded number of blocks, and only what is recent counts."""
    rng = np.random.default_rng(0)
    estimator = OnlineEstimator(ROBOT, 100.0, memory=20.0)
    base = base_parameters(ROBOT)
    chi = true_parameters(ROBOT, 2)
    t = np.arange(0.0, 240.0, 0.01)
    phase = 2 * np.pi * np.array([0.31, 0.43, 0.59]) * t[:, None]
    size = np.array([0.9, 0.6, 0.8])
    w = 2 * np.pi * np.array([0.31, 0.43, 0.59])
    q, dq, ddq = size * np.sin(phase), size * w * np.cos(phase), -size * w**2 * np.sin(phase)
    changed = chi.copy()
    changed[12] += 5.0  # Coulomb friction of the first joint, from the first minute on
    tau = np.where(
        (t < 60.0)[:, None], inverse_dynamics(ROBOT, chi, q, dq, ddq), inverse_dynamics(ROBOT, changed, q, dq, ddq)
    )
    tau += 0.05 * rng.standard_normal(tau.shape)
    for k in range(len(t)):
        estimator.take(q[k], tau[k], float(t[k]))
        if k % 100 == 99:
            estimator.work()
    assert len(estimator.blocks) <= 60 and estimator.blocks[-1].end - estimator.blocks[-1].start <= 2.5
    found = estimator.estimate()
    k = list(base.leaders).index("Fc1")
    assert abs(found.value[k] - base.values(ROBOT, changed)[k]) < 0.1


def test_a_clock_that_is_set_back_begins_anew():
    estimator = OnlineEstimator(ROBOT, 1000.0)
    for k in range(4000):
        estimator.take(np.full(3, 0.3 * np.sin(k / 100)), np.full(3, np.cos(k / 100)), 1e-3 * k)
    assert estimator.work() > 0
    estimator.take(np.zeros(3), np.zeros(3), 0.0)
    assert estimator.work() == 0
    for k in range(4000):
        estimator.take(np.full(3, 0.3 * np.sin(k / 100)), np.full(3, np.cos(k / 100)), 1.0 + 1e-3 * k)
    assert estimator.work() > 0


def test_a_payload_is_noticed_within_two_seconds_and_not_before(run):
    _, verdicts = run
    before = [verdict.drifting for k, verdict in verdicts if k < 16_000]
    after = [verdict for k, verdict in verdicts if 18_000 <= k < 20_000]
    assert not any(before)
    assert all(verdict.drifting for verdict in after)


def test_a_broken_stream_starts_again():
    estimator = OnlineEstimator(ROBOT, 1000.0)
    for k in range(2000):
        estimator.take(np.full(3, 0.1 * np.sin(k / 50)), np.full(3, np.nan if k == 1999 else 1.0))
    assert estimator.work() == 0 and estimator.estimate() is None
