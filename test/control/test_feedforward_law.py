"""The feedforward: the model's torque, without jumps, within limits."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.control.driver import Driver
from ros2_dynid.control.feedforward import Model, Options
from ros2_dynid.control.reference import reference
from ros2_dynid.control.smooth_friction import smooth_friction, without_friction
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.inertia import gravity_torque, inertia_matrix, velocity_torque
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector

ROBOT = load_robot("demo3")
CHI = standard_vector(ROBOT)
MEASURED = np.array([0.2, -0.8, 0.4])


@pytest.fixture
def driver():
    made = Driver(ROBOT, [0.0], ROBOT, [""])
    made.take(ROBOT, CHI, 0.0)
    made.choose(Options(smoothing=1e-6), 0.05, True)
    made.measured(MEASURED, np.zeros(3))
    return made


def streamed(driver, q, dq, ddq, now):
    return driver.follow(reference(driver.robot.active_names, np.zeros(1), q[None], dq[None], ddq[None]), now)


def test_it_is_inverse_dynamics_with_friction(driver):
    rng = np.random.default_rng(0)
    for k in range(20):
        q, dq, ddq = rng.uniform(-0.5, 0.5, (3, 3))
        tau = streamed(driver, q, dq, ddq, 1.0 + 1e-3 * k)
        assert np.allclose(tau, inverse_dynamics(ROBOT, CHI, q[None], dq[None], ddq[None])[0], atol=1e-9)


def test_the_background_part_is_the_coefficients():
    q, dq = np.random.default_rng(1).normal(size=(2, 3))
    found = Model(ROBOT, CHI).coefficients(q, dq)
    assert np.allclose(found.M, inertia_matrix(ROBOT, CHI, q[None])[0], atol=1e-9)
    assert np.allclose(found.C, velocity_torque(ROBOT, CHI, q[None], dq[None])[0], atol=1e-9)
    assert np.allclose(found.Q, gravity_torque(ROBOT, CHI, q[None])[0], atol=1e-9)


def test_split_agrees_where_the_coefficients_were_found(driver):
    driver.choose(Options(smoothing=1e-6, split=True), 0.05, True)
    dq, ddq = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    driver.measured(MEASURED, dq)
    driver.background()
    tau = streamed(driver, MEASURED, dq, ddq, 1.0)
    assert np.allclose(tau, inverse_dynamics(ROBOT, CHI, MEASURED[None], dq[None], ddq[None])[0], atol=1e-9)


def test_switches(driver):
    q, dq, ddq = np.array([0.1, -0.5, 0.2]), np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.0, 1.0])
    driver.choose(Options(gravity_only=True), 0.05, True)
    assert np.allclose(streamed(driver, q, dq, ddq, 1.0), gravity_torque(ROBOT, CHI, q[None])[0])
    driver.choose(Options(gravity_only=True, measured_gravity=True), 0.05, True)
    assert np.allclose(streamed(driver, q, dq, ddq, 1.0), gravity_torque(ROBOT, CHI, MEASURED[None])[0])
    driver.choose(Options(friction=False), 0.05, True)
    plain = CHI.reshape(3, 14).copy()
    plain[:, 11:] = 0
    expected = inverse_dynamics(ROBOT, plain.ravel(), q[None], dq[None], ddq[None])[0]
    assert np.allclose(streamed(driver, q, dq, ddq, 1.0), expected)


def test_limits_hold():
    made = Driver(ROBOT, [1.0], ROBOT, [""])
    made.take(ROBOT, CHI, 0.0)
    tau = streamed(made, np.array([0.0, -0.5, 0.3]), np.ones(3), 20 * np.ones(3), 1.0)
    assert np.abs(tau).max() == 1.0
    own = Driver(ROBOT, [0.0], ROBOT, [""])
    own.take(ROBOT, CHI, 0.0)
    tau = streamed(own, np.zeros(3), np.ones(3), 1e4 * np.ones(3), 1.0)
    assert np.allclose(np.abs(tau), [120.0, 180.0, 80.0])


def biggest_step(torques):
    return np.abs(np.diff(np.array(torques), axis=0)).max()


def test_new_parameters_and_a_payload_come_without_a_jump(driver):
    q, zero = np.array([0.1, -0.5, 0.2]), np.zeros(3)
    torques, now = [], 1.0
    for k in range(2000):
        now += 1e-3
        if k == 500:
            driver.take(ROBOT, 1.5 * CHI, now)
        if k == 1200:
            driver.load(3.0, np.array([0.0, 0.3, 0.0]), 0.01 * np.eye(3), 3, now)
        torques.append(streamed(driver, q, zero, zero, now))
    jump = np.abs(torques[-1] - torques[0]).max()
    assert jump > 5.0
    assert biggest_step(torques) < 1.2 * jump * 1e-3 / 0.3 * 2
    loaded = 1.5 * CHI
    expected = gravity_torque(ROBOT, loaded, q[None])[0]
    assert not np.allclose(torques[-1], expected, atol=1.0), "the payload is felt"


def test_when_the_reference_stops_it_ramps_to_gravity_where_the_robot_is_and_says_so(driver):
    way = quintic(ROBOT.active_names, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.5, 0.5]), 1.0)
    driver.follow(way, 0.0)
    torques = [tau for k in range(2000) if (tau := driver.tick(1e-3 * k)) is not None]
    assert np.allclose(torques[-1], gravity_torque(ROBOT, CHI, MEASURED[None])[0])
    after = torques[1001:]
    assert biggest_step(after) < 0.02 * np.abs(torques[-1]).max() + 0.1
    assert any("stopped" in text for text in driver.news())


def test_a_streamed_reference_that_stops_is_noticed(driver):
    zero = np.zeros(3)
    streamed(driver, np.array([0.1, -0.5, 0.2]), zero, zero, 1.0)
    assert driver.tick(1.04) is None
    assert driver.tick(1.06) is not None


def test_efforts_of_a_whole_trajectory(driver):
    driver.choose(Options(), 0.05, False)
    way = quintic(ROBOT.active_names, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.5, 0.5]), 1.0, points=5)
    dense = driver.filled(way, 100.0)
    assert len(dense.t) > 100 and dense.t[-1] == way.t[-1]
    k = len(dense.t) // 2
    row = [x[k][None] for x in (dense.q, dense.dq, dense.ddq)]
    assert np.allclose(dense.tau[k], inverse_dynamics(ROBOT, CHI, *row)[0], atol=1e-3)
    assert len(driver.filled(way, None).t) == 5


def test_order_and_refusals():
    turned = Driver(ROBOT, [0.0], ROBOT, ["elbow", "waist", "shoulder"])
    assert list(turned.ordered(np.array([1.0, 2.0, 3.0]))) == [3.0, 1.0, 2.0]
    with pytest.raises(InputError, match="joint_order"):
        Driver(ROBOT, [0.0], ROBOT, ["a", "b", "c"])
    with pytest.raises(InputError, match="effort limits"):
        Driver(ROBOT, [1.0, 2.0], ROBOT, [""])
    with pytest.raises(InputError, match="no model yet"):
        Driver(ROBOT, [0.0], ROBOT, [""]).filled(quintic(ROBOT.active_names, np.zeros(3), np.ones(3), 1.0), None)


@pytest.mark.parametrize("name", ["tx40", "tx40_iam6", "hitachi_hpr"])
def test_coupled_motors_and_closed_loops_are_fed_forward_too(name):
    robot = load_robot(name)
    n = len(robot.active)
    rng = np.random.default_rng(4)
    chi = rng.uniform(0.1, 1.0, len(standard_names(robot)))
    made = Driver(robot, [1e6], robot, [""])
    made.take(robot, chi, 0.0)
    made.choose(Options(smoothing=1e-9), 0.05, True)
    for k in range(10):
        q, dq, ddq = rng.uniform(-0.5, 0.5, (3, n))
        tau = streamed(made, q, dq, ddq, 1.0 + 1e-3 * k)
        assert np.allclose(tau, inverse_dynamics(robot, chi, q[None], dq[None], ddq[None])[0], atol=1e-8)
    found = Model(robot, chi).coefficients(q, dq)
    assert np.allclose(found.M, inertia_matrix(robot, chi, q[None])[0], atol=1e-8)
    made.choose(Options(friction=False), 0.05, True)
    expected = inverse_dynamics(robot, without_friction(robot, chi), q[None], dq[None], ddq[None])[0]
    assert np.allclose(streamed(made, q, dq, ddq, 2.0), expected, atol=1e-8)


def test_smooth_friction_is_odd_and_saturates():
    robot = load_robot("tx40")
    chi = np.random.default_rng(5).uniform(0.1, 1.0, len(standard_names(robot)))
    found = smooth_friction(robot, chi)
    dq = np.linspace(-1.0, 1.0, 6)
    forth, back = found.torque(dq, 0.02) - found.off, found.torque(-dq, 0.02) - found.off
    assert np.allclose(forth, -back, atol=1e-12)
    assert np.allclose(found.torque(np.zeros(6), 0.02), found.off)
