# SPDX-License-Identifier: Apache-2.0

"""The torque error that drift is judged by, and the verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.identification.online.drift import TorqueErrorWatch, filter_from_first_fit
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.torque_std import torque_std
from ros2_dynid.sim.truth import true_parameters
from served_model import ROBOT, served_model


def test_drift_is_the_error_over_what_the_models_data_and_bars_allow_for():
    watch = TorqueErrorWatch(ROBOT, 100.0, step=1, cutoff=15.0)
    watch.error, watch.variance = np.array([4.0, 9.0, 1.0]), np.array([0.0, 3.0, 0.0])
    model = served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    expected = np.array([2.0 / 2.0, 3.0 / 2.0, 1.0 / 0.2])
    found = watch.compare(model, 4.9)
    np.testing.assert_allclose(found.ratio, expected)
    assert found.joint == ROBOT.active_names[2] and found.drifting
    assert not watch.compare(model, 5.1).drifting


@pytest.mark.parametrize("piece", [1, 37, 600])
def test_the_error_that_is_followed_is_that_of_the_reference(piece):
    """A constant torque beyond the model: its square is approached as 1 - exp(-t), whatever pieces it comes in."""
    watch = TorqueErrorWatch(ROBOT, 200.0, step=2, cutoff=15.0)
    t = np.arange(600) / 200.0
    w = np.array([2.0, 3.0, 2.5])
    q, dq, ddq = np.sin(w * t[:, None]), w * np.cos(w * t[:, None]), -(w**2) * np.sin(w * t[:, None])
    still = np.array([1.0, 1.0, 0.0])
    q, dq, ddq = q * still, dq * still, ddq * still
    chi = true_parameters(ROBOT, 2)
    chi[[12, 26, 40]] = 0.0  # no dry friction: its jumps are not those of a filtered motion
    base = base_parameters(ROBOT)
    size = len(base)
    model = model_of(ROBOT, base, base.values(ROBOT, chi), np.full(size, 0.1), 0.01 * np.eye(size))
    extra = np.array([2.0, -3.0, 5.0])
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + extra
    rows = np.column_stack((t, q, tau))
    for first in range(0, 600, piece):
        watch.follow(rows[first : first + piece], model)
    reach = len(lowpass_kernel(15.0, 200.0)) - 1
    share = 1.0 - np.exp(-(600 - reach) / 200.0)
    np.testing.assert_allclose(watch.error[:2], extra[:2] ** 2 * share, rtol=0.06)
    assert watch.error[2] == watch.variance[2] == 0.0, "a joint that stands still is not judged"
    spread = torque_std(model, q, dq, ddq)[200:].mean(axis=0)
    assert np.all(np.sqrt(watch.variance[:2] / share) < 1.3 * spread[:2])
    assert np.all(np.sqrt(watch.variance[:2] / share) > 0.7 * spread[:2])


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [9, 10, 40])
def test_outputs_of_a_kernel_start_where_it_first_fits(step, count):
    rng = np.random.default_rng(step)
    x, kernel = rng.normal(size=(count, 2)), rng.normal(size=9)
    found = filter_from_first_fit(x, kernel, step)
    wanted = np.column_stack([np.convolve(column, kernel, mode="valid") for column in x.T])[::step]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize(("speed", "judged"), [(0.018, False), (0.022, True), (-0.018, False), (-0.022, True)])
def test_torque_errors_count_from_a_speed_on(speed, judged):
    watch = TorqueErrorWatch(ROBOT, 200.0, step=2, cutoff=15.0)
    t = np.arange(400) / 200.0
    model = served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2), std=0.1)
    q = speed * t[:, None] * np.array([1.0, 0.0, -1.0])
    watch.follow(np.column_stack((t, q, np.full((400, 3), 50.0))), model)
    assert (watch.error > 0.0).tolist() == [judged, False, judged]
    assert (watch.variance > 0.0).tolist() == [judged, False, judged]


def test_what_the_data_did_not_determine_adds_no_variance():
    model = served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2), std=0.1)
    std = model.std.copy()
    std[model.leaders.index("Fv1")] = np.inf
    t = np.arange(400) / 200.0
    w = np.array([2.0, 3.0, 2.5])
    rows = np.column_stack((t, np.sin(w * t[:, None]), np.zeros((400, 3))))
    known, unknown, wider = (TorqueErrorWatch(ROBOT, 200.0, step=2, cutoff=15.0) for _ in range(3))
    known.follow(rows, model)
    unknown.follow(rows, replace(model, std=std))
    assert unknown.variance[0] == 0.0 and np.all(known.variance > 0.0)
    np.testing.assert_allclose(unknown.variance[1:], known.variance[1:])
    np.testing.assert_allclose(unknown.error, known.error)
    wider.follow(rows, served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2), std=0.2))
    np.testing.assert_allclose(wider.variance, 4.0 * known.variance)


def test_drift_of_a_joint_whose_model_allows_for_nothing():
    watch = TorqueErrorWatch(ROBOT, 100.0, step=1, cutoff=15.0)
    watch.error = np.array([4.0, 0.0, 0.0])
    found = watch.compare(served_model((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), 1.5)
    assert found.ratio.tolist() == [2.0, 0.0, 0.0] and found.drifting and found.joint == ROBOT.active_names[0]


def test_a_restart_forgets_the_samples_before():
    """A jump in the positions would be an acceleration that the model's torque is wrong by."""
    model = served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    t = np.arange(400) / 200.0
    w = np.array([2.0, 3.0, 2.5])
    rows = np.column_stack((t, np.sin(w * t[:, None]), np.zeros((400, 3))))
    elsewhere = rows + np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    fresh, again = (TorqueErrorWatch(ROBOT, 200.0, step=2, cutoff=15.0) for _ in range(2))
    again.follow(elsewhere[:30], model)  # less than a kernel: nothing is judged yet
    again.restart()
    for watch in (fresh, again):
        watch.follow(rows, model)
    np.testing.assert_array_equal(again.error, fresh.error)
