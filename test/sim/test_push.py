# SPDX-License-Identifier: Apache-2.0

"""A push on the simulated arm in fast motion: found within 10 ms, torques within 10 %; free motion is no contact."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from ros2_dynid.control.contact import ContactDetector, ContactEvent
from ros2_dynid.control.momentum_observer import MomentumObserver
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections
from ros2_dynid.sim.truth import true_parameters

STEP = 1e-3


def study():
    """Return the module bench/study_contact.py, which moves and pushes."""
    path = Path(__file__).parents[2] / "bench" / "study_contact.py"
    spec = importlib.util.spec_from_file_location("study_contact", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["study_contact"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(3))
def test_a_push_in_motion_is_found_within_10_ms(seed):
    made, robot = study(), load_robot("demo6")
    rng = np.random.default_rng(seed)
    points = made.free_motion(robot, rng, 6.0)
    plant = Plant(
        robot, seed=seed, spread=0.15, period=STEP, imperfections=Imperfections(), start=points.q[0], stiffness=6.0
    )
    effort = np.array([joint.limits.effort for joint in robot.joints])
    observer = MomentumObserver(robot, true_parameters(robot, seed, 0.15))
    contacts = ContactDetector(ErrorBars(0.002 * effort, 0.004 * effort))
    plant.follow(points)

    def run(steps):
        measured = [plant.step() for _ in range(steps)]
        q, dq, tau = (np.array([getattr(m, key) for m in measured]) for key in ("q", "dq", "tau"))
        found = observer.take(q, dq, tau, np.full(steps, STEP))
        samples = zip(found.external[found.used], found.undecided[found.used], strict=True)
        return [contacts.update(*sample, STEP) for sample in samples], found.external, q

    assert set(run(2500)[0]) == {ContactEvent.NONE}  # free motion
    direction = rng.standard_normal(3)
    force, at = 100.0 * direction / np.linalg.norm(direction), rng.uniform(-0.05, 0.05, 3)
    plant.sim.press(force, at)
    events, external, q = run(150)
    true = made.felt(robot, q, force, at)
    assert np.max(np.abs(true[0]) / contacts.thresholds) > 2.0  # such a push must be found
    assert ContactEvent.BEGINS in events[:10]
    late = slice(50, 150)
    error = (external - true)[late].mean(axis=0)
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(true[late].mean(axis=0))
    plant.sim.press(None)
    assert run(300)[0].count(ContactEvent.ENDS) == 1
