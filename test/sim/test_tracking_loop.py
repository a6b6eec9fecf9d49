# SPDX-License-Identifier: Apache-2.0

"""A model in closed loop: its accelerations are MuJoCo's, and its motion is that of a reference integrator."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from closed_loop import closed_loop, controller_of, fourier
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim import tracking_loop
from ros2_dynid.sim.controller_file import load_controller
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.mjcf import mjcf
from ros2_dynid.sim.tracking_loop import Command, JointController, simulate_tracking
from ros2_dynid.sim.truth import true_parameters


def model_of(name="demo3", v0=1e-2, **more):
    robot = replace(load_robot(name), **more)
    return ForwardDynamics(robot, true_parameters(robot, 1), np.full(robot.n, v0))


def command_of(robot, seconds, rate=1000.0, seed=0):
    t, q, dq, _ = fourier(np.random.default_rng(seed), robot.n, seconds)
    step = round(1000.0 / rate)
    return t[::step], Command(rate, q[::step], dq[::step], np.zeros_like(q[::step]), (slice(0, len(q[::step])),))


@pytest.mark.parametrize("name", ["demo3", "tx40"])  # tx40: a coupled motor
def test_accelerations_need_the_torques_that_they_came_from(name):
    robot = load_robot(name)
    chi = true_parameters(robot, 2)
    rng = np.random.default_rng(0)
    q, tau = rng.normal(size=(2, 40, robot.n))
    dq = np.sign(rng.normal(size=(40, robot.n))) * rng.uniform(0.5, 2.0, (40, robot.n))
    found = ForwardDynamics(robot, chi, np.full(robot.n, 1e-3)).accelerations(q, dq, 20 * tau)
    assert np.allclose(inverse_dynamics(robot, chi, q, dq, found.ddq), 20 * tau, rtol=1e-9, atol=1e-8)


def test_accelerations_with_friction_that_grows_with_the_load():
    terms = (FrictionTerm(2, FrictionKind.LOAD, 0.1), FrictionTerm(3, FrictionKind.STRIBECK, 0.4, speed=0.3))
    model = model_of(v0=1e-3, friction=terms)
    q, dq, tau = np.random.default_rng(1).uniform(0.3, 1.5, (3, 20, 3))
    found = model.accelerations(q, dq, tau)
    assert np.allclose(inverse_dynamics(model.robot, model.chi, q, dq, found.ddq), tau, rtol=1e-9, atol=1e-9)
    assert np.all(np.einsum("bij,bj,bi->b", model.damping(dq), dq, dq) > 0)


def test_accelerations_are_those_of_mujoco():
    robot = load_robot("demo6")
    chi = true_parameters(robot, 3)
    for k in (11, 12, 13):
        chi[k : 14 * robot.n : 14] = 0.0
    model, data = ForwardDynamics(robot, chi, np.full(robot.n, 1e-3)), None
    mj = mujoco.MjModel.from_xml_string(mjcf(robot, chi, 1e-3))
    data = mujoco.MjData(mj)
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, dq, tau = rng.normal(size=(3, robot.n))
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, dq, tau
        mujoco.mj_forward(mj, data)
        assert np.allclose(model.accelerations(q[None], dq[None], tau[None]).ddq[0], data.qacc, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("corner", [np.inf, 2 * np.pi * 60])
def test_the_motion_is_that_of_a_reference_integrator(corner):
    model = model_of(v0=0.1)
    t, command = command_of(model.robot, 2.0)
    own = controller_of(model.robot, model.chi)
    controller = JointController(own.Kp, own.Kd, corner)
    found = simulate_tracking(model, controller, command)
    w = 1e3 if np.isinf(corner) else corner

    def slope(now, y):
        q, dq, seen = y.reshape(3, -1)
        wanted, speed = (np.array([np.interp(now, t, x) for x in part.T]) for part in (command.q, command.dq))
        tau = controller.Kp * (wanted - q) + controller.Kd * (speed - (dq if np.isinf(corner) else seen))
        ddq = model.accelerations(q[None], dq[None], tau[None]).ddq[0]
        return np.concatenate((dq, ddq, w * (dq - seen)))

    start = np.concatenate((found.q[0], found.dq[0], found.dq[0]))
    true = solve_ivp(slope, (0.0, 0.2), start, rtol=1e-7, atol=1e-9, max_step=2e-3, t_eval=t[t < 0.2]).y
    led = np.abs(true[:3].T - command.q[: len(true.T)]).max()
    assert np.abs(true[:3].T - found.q[: len(true.T)]).max() < 2e-3 * led
    assert np.abs(true[3:6].T - found.dq[: len(true.T)]).max() < 1e-3


def test_the_integrator_is_of_second_order_and_the_stretches_do_not_show(monkeypatch):
    model = model_of(v0=0.1)
    controller = controller_of(model.robot, model.chi)
    best = simulate_tracking(model, controller, command_of(model.robot, 4.0, 1000.0)[1])
    coarse, coarser = (
        simulate_tracking(model, controller, command_of(model.robot, 4.0, rate)[1]) for rate in (500.0, 250.0)
    )
    late = slice(int(14 * best.time_constant * 1000), None)
    errors = [np.std((best.q[::k] - x.q)[late.start // k :]) for k, x in ((2, coarse), (4, coarser))]
    assert errors[0] < 0.35 * errors[1] and errors[0] < 1e-6
    monkeypatch.setattr(tracking_loop, "SETTLING_TIME_CONSTANTS", 20.0)
    longer = simulate_tracking(model, controller, command_of(model.robot, 4.0)[1])
    assert np.abs((best.q - longer.q)[late]).max() < 1e-7
    assert np.abs((best.tau - longer.tau)[late]).max() < 1e-3 * np.abs(best.tau).max()


def test_the_loop_moves_as_mujoco_does():
    robot = load_robot("demo3")
    chi = true_parameters(robot, 1)
    samples = closed_loop(robot, chi, 0, 0.0, False, 4.0, share=0.0)
    _, command = command_of(robot, 4.0)
    found = simulate_tracking(ForwardDynamics(robot, chi, np.full(3, 5e-3)), controller_of(robot, chi), command)
    late = slice(1000, None)
    led = np.std((samples.q_r - samples.q)[late], axis=0)
    assert np.all(np.std((found.q - samples.q)[late], axis=0) < 0.05 * led)  # MuJoCo's controller is sampled


def test_what_cannot_be_simulated_is_refused():
    model = model_of()
    _, command = command_of(model.robot, 4.0)
    own = controller_of(model.robot, model.chi)
    with pytest.raises(InputError, match="not stable with these gains"):
        simulate_tracking(model, JointController(-own.Kp, own.Kd), command)
    with pytest.raises(InputError, match="too slow for this recording"):
        simulate_tracking(model, JointController(own.Kp, 40 * own.Kd), command)
    light = ForwardDynamics(model.robot, -model.chi, model.v0)
    with pytest.raises(InputError, match="inertia matrix is not positive"):
        simulate_tracking(light, own, command)
    with pytest.raises(InputError, match="does not follow its reference"):
        simulate_tracking(model, own, replace(command, tau_f=command.tau_f + 5e4))
    with pytest.raises(InputError, match="v0 does not fit"):
        ForwardDynamics(model.robot, model.chi, np.zeros(3))


FILE = """
controller_manager: {{ros__parameters: {{update_rate: 500}}}}
joint_trajectory_controller:
  ros__parameters:
    joints: [a, b]
    gains:
      a: {{p: 100.0, i: {i}, d: 7.0}}
      b: {{p: 50.0, d: {d}}}
    {more}
"""


def test_gains_come_from_the_file_that_ros2_control_reads(tmp_path):
    path = tmp_path / "controllers.yaml"
    path.write_text(FILE.format(i=0.0, d=3.0, more="speed_filter: 60.0"))
    found = load_controller(path, ("b", "a"))
    assert found.Kp.tolist() == [50.0, 100.0] and found.Kd.tolist() == [3.0, 7.0]
    assert found.speed_filter == pytest.approx(2 * np.pi * 60)
    path.write_text(FILE.format(i=0.0, d=3.0, more=""))
    assert np.isinf(load_controller(path, ("a",)).speed_filter)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE.format(i=1.0, d=3.0, more=""), "'a' has an integral gain"),
        (FILE.format(i=0.0, d=0.0, more=""), "give two positive ones"),
        (FILE.format(i=0.0, d=3.0, more="speed_filter: -1"), "give a positive frequency"),
        ("gains: {a: {p: 1, d: 1}}", "no controller has gains of all joints"),
        ("x: {gains: {a: {p: 1, d: 1}, b: {p: 1, d: 1}}}\ny: {gains: {a: {p: 1, d: 1}, b: {p: 1, d: 1}}}", "2 contr"),
        ("- 1", "not a mapping"),
    ],
)
def test_gains_that_cannot_be_used_are_refused(tmp_path, text, message):
    path = tmp_path / "controllers.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_controller(path, ("a", "b"))
