# SPDX-License-Identifier: Apache-2.0

"""A slow run on a robot in MuJoCo shows the friction that was planted in it, and what a driver has wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ros2_dynid.control.knots import reference_by_knots
from ros2_dynid.control.motion_limits import MotionSettings, motion_limits
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.excitation.trajectory import rehearsal
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import Fc, Fv, by_joint
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import INDUSTRIAL_ARM
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.usecases.rehearsal import Rehearsal, judge_rehearsal, observe_friction

SPEED, SPREAD = 0.2, 0.3


@cache
def rehearsed(name, seed):
    """Return the joint states of a slow run of a planned motion, at 250 Hz, and the largest tracking error."""
    robot = load_robot(name)
    motion = rehearsal(plan(robot, PlanOptions(duration_s=6.0, time_budget_s=1.0, seed=seed)).trajectory, SPEED)
    curve = motion.ordered(robot.active_names).curve
    points = reference_by_knots(
        robot.active_names, curve.evaluate, curve.duration, motion_limits(robot, MotionSettings()), 100.0
    )
    plant = Plant(
        robot, seed=seed, spread=SPREAD, period=0.002, imperfections=INDUSTRIAL_ARM, start=points.q[0], stiffness=10.0
    )
    plant.follow(points)
    measured = [plant.step() for _ in range(int(points.duration / plant.period))]
    t, q, tau = (np.array([getattr(m, field) for m in measured])[::2] for field in ("t", "q", "tau"))
    error = np.abs(q - points.sampled(t)[0]).max()
    return robot, Rehearsal(Samples(t, robot.active_names, q, tau=tau), float(error), 0.2, SPEED)


@pytest.mark.parametrize(("name", "seed"), [("demo3", 1), ("demo6", 4)])
def test_a_rehearsal_shows_the_friction_that_was_planted(name, seed):
    robot, run = rehearsed(name, seed)
    friction = observe_friction(robot, run.samples, run.speed)
    planted = by_joint(robot, true_parameters(robot, seed, SPREAD))
    true = planted[:, Fc] + planted[:, Fv] * friction.speed
    assert np.all(np.abs(friction.value - true) <= 0.1 * true + 4.0 * friction.std), (friction, true)
    assert np.all(friction.std < 0.1 * true)
    verdict = judge_rehearsal(robot, run)
    assert verdict.passed and str(verdict).startswith("passed: largest tracking error")
    assert all(joint in verdict.text for joint in robot.active_names)


def test_what_a_driver_has_wrong_fails_a_rehearsal():
    robot, run = rehearsed("demo3", 1)
    q, tau = run.samples.q, run.samples.tau

    def verdict(tau=tau, **more):
        return judge_rehearsal(robot, replace(run, samples=replace(run.samples, tau=tau), **more))

    turned = verdict(tau * [1.0, -1.0, 1.0])
    assert not turned.passed and "'shoulder' drives it where friction should brake" in turned.text
    amounts = verdict(tau * 1000.0)
    assert not amounts.passed and "unit of its effort is wrong" in amounts.text
    lags = verdict(worst_error=0.11)
    assert not lags.passed and str(lags).startswith("failed: largest tracking error 0.11, more than 0.1")
    assert verdict(worst_error=0.09).passed
    blind = verdict(np.full_like(tau, np.nan))
    assert blind.passed and "friction was not observed (there are no efforts)" in blind.text
    short = judge_rehearsal(
        robot, replace(run, samples=replace(run.samples, t=run.samples.t[:300], q=q[:300], tau=tau[:300]))
    )
    assert short.passed and "friction was not observed (it is too short)" in short.text
