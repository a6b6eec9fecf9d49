# SPDX-License-Identifier: Apache-2.0

"""Motion of another kind: what the error bars make of it, and that the verdict warns where it is predicted badly."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.validation.other_motions import combine_anew, unknown_share
from ros2_dynid.model.load import load_robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROBOT, RATE, SECONDS = load_robot("demo3"), 100.0, 20.0
CHI = true_parameters(ROBOT, 3)


def sines(frequencies, seed=0):
    """Return t, q, dq, ddq of joints that are sums of sines; frequencies: [Hz], shape (k, n)."""
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    w = 2.0 * np.pi * np.asarray(frequencies)
    x = t[:, None, None] * w + np.random.default_rng(seed).uniform(0.0, 6.0, w.shape)
    size = 0.25 / len(w)
    return (
        t,
        (size * np.sin(x)).sum(axis=1),
        (size * w * np.cos(x)).sum(axis=1),
        -(size * w**2 * np.sin(x)).sum(axis=1),
    )


ONE_FREQUENCY = [(0.9, 1.1, 1.3)]
SERIES = [(0.3, 0.45, 0.35), (0.9, 1.1, 1.3), (1.6, 1.5, 1.8)]


def test_the_share_is_that_of_parameters_drawn_from_their_covariance():
    t, *motion = sines(ONE_FREQUENCY)
    tau = inverse_dynamics(ROBOT, CHI, *motion)
    tau += 0.02 * np.random.default_rng(1).normal(size=tau.shape) * tau.std(axis=0)
    prepared, base = as_prepared(ROBOT, *motion, tau, t), base_parameters(ROBOT)
    estimate = wls(build_information(ROBOT, base, [prepared], delay=False))
    anew = combine_anew([prepared])
    for recorded, combined in zip(motion, anew, strict=True):
        assert all(np.isin(combined[:, j], recorded[:, j]).all() for j in range(ROBOT.n))
    assert abs(np.corrcoef(anew[0][:, 0], anew[2][:, 0])[0, 1]) < 0.15  # -1 as recorded
    Y = regressor(ROBOT, *anew)[:, :, base.columns(ROBOT)]
    draws = np.random.default_rng(2).multivariate_normal(np.zeros(len(base)), estimate.covariance, 4000)
    rms = np.sqrt(np.mean(np.square(np.tensordot(draws, Y, axes=(1, 2)))))
    wanted = rms / np.sqrt(np.mean(np.square(Y @ estimate.base)))
    assert unknown_share(ROBOT, base, estimate, [prepared]) == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize(("recorded", "warned"), [(ONE_FREQUENCY, True), (SERIES, False)])
def test_the_verdict_warns_where_another_motion_is_predicted_badly(recorded, warned):
    """Where each joint has one frequency, its acceleration is its position times a constant."""
    rng = np.random.default_rng(4)
    t, *motion = sines(recorded)
    tau = inverse_dynamics(ROBOT, CHI, *motion)
    tau += 0.1 * rng.normal(size=tau.shape) * tau.std(axis=0)
    q = motion[0] + 1e-5 * rng.normal(size=tau.shape)
    samples = Samples(t, ROBOT.active_names, q, tau=tau, source="sines")
    options = IdentifyOptions(friction="viscous+coulomb", prior="none", checks=False)
    found = identify(ROBOT, [samples], options=options)
    _, *other = sines([(0.2, 0.25, 0.3), (1.2, 1.4, 1.0)], seed=5)
    true = inverse_dynamics(ROBOT, CHI, *other)
    error = np.linalg.norm(found.model.torque(*other) - true) / np.linalg.norm(true)
    left_out = found.outcome.validation["all"].relative
    assert (error > 1.5 * left_out) == warned, (error, left_out)
    assert any("motion of another kind" in remark.text for remark in found.outcome.verdict) == warned
