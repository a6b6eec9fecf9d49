"""The simulated robot's own controller, drives and sensors, in figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.inertia_matrix import gravity_torque, inertia_matrix
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.sim.controller import TrajectoryController, pd_gains
from ros2_dynid.sim.mjcf import rigid_body
from ros2_dynid.sim.simulated_robot import Imperfections, Measurement, SimulatedRobot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
START = np.array([0.1, -0.9, 0.3])
Kp, Kd = np.array([100.0, 200.0, 50.0]), np.array([10.0, 30.0, 5.0])


def seen(q, dq=(0.0, 0.0, 0.0)):
    return Measurement(0.0, np.array(q, dtype=float), np.array(dq, dtype=float), np.zeros(3), np.full(3, 25.0))


def test_it_holds_by_pd_until_a_trajectory_comes():
    controller = TrajectoryController(Kp, Kd, START)
    assert not controller.busy
    off, speed = np.array([0.01, -0.02, 0.03]), np.array([0.1, 0.2, -0.4])
    np.testing.assert_allclose(controller.torque(seen(START + off, speed), 5.0), -Kp * off - Kd * speed)
    controller.hold(START + 1.0)
    np.testing.assert_allclose(controller.torque(seen(START), 6.0), Kp)


def test_it_follows_from_the_state_it_desired_with_the_points_effort():
    controller = TrajectoryController(Kp, Kd, START)
    controller.torque(seen(START), 9.0)
    way = quintic(NAMES, START + 0.1, START + 0.6, 2.0)
    efforts = np.outer(np.linspace(1.0, 2.0, len(way.t)), [1.0, 2.0, 3.0])
    way = reference(NAMES, way.t + 0.5, way.q, way.dq, way.ddq, efforts)
    controller.follow(way, 10.0)
    assert controller.busy
    for after in (0.25, 0.5, 1.3):
        q, dq, _, effort = way.at(after) if after >= 0.5 else (None, None, None, None)
        tau = controller.torque(seen(START, (0.1, 0.1, 0.1)), 10.0 + after)
        if q is None:  # on the way to the first point
            assert np.all(controller.desired[0] > START) and np.all(controller.desired[0] < START + 0.1)
        else:
            np.testing.assert_allclose(controller.desired[0], q)
            np.testing.assert_allclose(tau, Kp * (q - START) + Kd * (dq - 0.1) + effort)
    tau = controller.torque(seen(START + 0.6), 99.0)
    np.testing.assert_allclose(tau, efforts[-1], atol=1e-9)
    assert controller.busy, "the last effort holds it"
    plain = quintic(NAMES, START + 0.6, START, 1.0)
    controller.follow(plain, 100.0)
    controller.torque(seen(START), 100.5)
    assert controller.busy
    np.testing.assert_allclose(controller.torque(seen(START + 0.1), 101.0), -0.1 * Kp)
    assert not controller.busy
    with pytest.raises(InputError, match="end at rest"):
        controller.follow(reference(NAMES, np.array([0.5]), START[None], np.ones((1, 3))), 0.0)


def test_gains_give_the_frequency_and_damping_asked_for():
    chi = standard_vector(ROBOT)
    P, D = pd_gains(ROBOT, chi, 1.0, 0.5)
    q = np.random.default_rng(0).uniform(-1.5, 1.5, (128, 3))
    inertia = np.einsum("tjj->tj", inertia_matrix(ROBOT, chi, q)).mean(axis=0)
    w = 2 * np.pi
    np.testing.assert_allclose(P, inertia * w**2)
    np.testing.assert_allclose(D, inertia * w)
    P, D = pd_gains(ROBOT, chi, 60.0, 0.7)
    M = inertia_matrix(ROBOT, chi, q)
    lightest = 1 / np.einsum("tjj->tj", np.linalg.inv(M)).max(axis=0)
    share = D * 2e-3 / lightest
    assert np.all(share <= 0.3 * (1 + 1e-9)) and np.any(share > 0.29)
    np.testing.assert_allclose(P / D, 2 * np.pi * 60.0 / 1.4)


def test_drives_are_late_limited_and_noisy_as_told():
    chi = true_parameters(ROBOT, 1)
    limits = np.array([joint.limits.effort for joint in ROBOT.joints])
    quiet = Imperfections(resolution=1e-12, torque_noise=0.0, latency=2)
    sim = SimulatedRobot(ROBOT, chi, imperfections=quiet, start=START)
    sent = [np.array([1.0, -2.0, 3.0]), 1e6 * np.array([1.0, -1.0, 1.0]), np.zeros(3), np.zeros(3)]
    got = [sim.step(tau).tau for tau in sent]
    np.testing.assert_allclose(got[2], sent[0])
    np.testing.assert_allclose(got[3], limits * [1.0, -1.0, 1.0])
    np.testing.assert_allclose(got[:2], 0.0)
    noisy = SimulatedRobot(ROBOT, chi, imperfections=replace(quiet, torque_noise=0.01, latency=0), start=START, seed=3)
    torque = gravity_torque(ROBOT, chi, START[None])[0]
    errors = np.array([noisy.step(torque).tau - torque for _ in range(400)])
    np.testing.assert_allclose(errors.std(axis=0), 0.01 * limits, rtol=0.15)
    assert np.all(np.abs(errors.mean(axis=0)) < 0.003 * limits)
    coarse = SimulatedRobot(ROBOT, chi, imperfections=replace(quiet, resolution=0.01), start=START)
    measured = coarse.step(torque).q
    np.testing.assert_allclose(measured / 0.01, np.round(measured / 0.01), atol=1e-6)
    assert np.all(np.abs(measured - coarse.positions) <= 0.005 + 1e-9)


def test_the_truth_is_off_by_its_spread_and_not_more():
    robot = load_robot("demo6")
    known = standard_vector(robot).reshape(robot.n, 14)
    ratios = []
    for seed in range(40):
        chi = true_parameters(robot, seed, 0.1).reshape(robot.n, 14)
        ratios.append(chi[:, 9] / known[:, 9])
        centre, own = (rigid_body(x[0, :10])[1] for x in (chi, known))
        moved = np.abs(own) > 1e-6
        assert np.all(np.abs(centre[moved] / own[moved] - 1) <= 0.1 + 1e-9)
        assert np.all(chi[:, 10] > 0) and np.all(chi[:, 11] > 0) and np.all(chi[:, 12] > 0), "every drive has them"
    ratios = np.array(ratios)
    assert np.all(np.abs(ratios - 1) <= 0.1 + 1e-9) and ratios.max() > 1.09 and ratios.min() < 0.91
    np.testing.assert_allclose(true_parameters(robot, 5, 0.0).reshape(-1, 14)[:, 9], known[:, 9])
