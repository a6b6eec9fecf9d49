# SPDX-License-Identifier: Apache-2.0

"""The closed loop, the direct dynamics and the drives against plain re-implementations, number by number."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from closed_loop import controller_of, fourier
from ros2_dynid.control.reference import reference
from ros2_dynid.dynamics.elastic import elastic_torque
from ros2_dynid.dynamics.friction import carried_torque, terms_torque
from ros2_dynid.dynamics.kinematics import motion_of
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import consecutive_slices
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.inertia import pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Limits, Passive, Robot, with_gravity
from ros2_dynid.sim.controller import TrajectoryController, prepend_state
from ros2_dynid.sim.controller_file import load_controller
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.mjcf import mjcf, rest_poses
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot
from ros2_dynid.sim.tracking_loop import (
    ClosedLoop,
    Command,
    JointController,
    refuse_lost_control,
    simulate_tracking,
    slowest_pole,
)
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
CHI = true_parameters(ROBOT, 1)
V0 = np.array([0.05, 0.1, 0.2])
MODEL = ForwardDynamics(ROBOT, CHI, V0)
OWN = controller_of(ROBOT, CHI)
GAMMA = 1.0 - np.sqrt(2.0) / 2.0


def command_of(lengths, rate=500.0, seed=0):
    """Return a command of segments of these lengths, with a torque added that changes."""
    t, q, dq, _ = fourier(np.random.default_rng(seed), 3, sum(lengths) / rate)
    step = round(1000.0 / rate)
    q, dq, t = q[::step], dq[::step], t[::step]
    added = np.stack([3.0 * np.sin(t), -5.0 * np.cos(2.0 * t), 1.0 + t], axis=1)
    return Command(rate, q, dq, added, consecutive_slices(lengths))


# --- one step of the loop


def plain_step(controller, command, state, k, after):
    """Return q, dq, dq_f one sample after sample k, by ROS2 with the Jacobian written out."""
    n, h = 3, 1.0 / command.rate
    filtered = np.isfinite(controller.speed_filter)
    Kp, Kd, w = np.diag(controller.Kp), np.diag(controller.Kd), controller.speed_filter

    def slope(y, at):
        q, dq, seen = y.reshape(3, n)
        speed = seen if filtered else dq
        tau = Kp @ (command.q[at] - q) + Kd @ (command.dq[at] - speed) + command.tau_f[at]
        ddq = MODEL.accelerations(q[None], dq[None], tau[None]).ddq[0]
        return np.concatenate((dq, ddq, w * (dq - seen) if filtered else ddq))

    y = state.reshape(-1)
    M, D = MODEL.inertia(state[0][None])[0], MODEL.damping(state[1][None])[0]
    zero, one = np.zeros((n, n)), np.eye(n)
    inner = np.linalg.inv(M)
    turning = [-inner @ Kp, -inner @ (D if filtered else D + Kd), -inner @ Kd if filtered else zero]
    A = np.block([[zero, one, zero], turning, [zero, w * one, -w * one] if filtered else turning])
    wanted = [Kp @ command.q[i] + Kd @ command.dq[i] + command.tau_f[i] for i in (k, after)]
    pushed = inner @ (wanted[1] - wanted[0]) / h
    in_time = np.concatenate((np.zeros(n), pushed, np.zeros(n) if filtered else pushed))
    left = np.eye(3 * n) - GAMMA * h * A
    k1 = np.linalg.solve(left, slope(y, k) + GAMMA * h * in_time)
    k2 = np.linalg.solve(left, slope(y + h * k1, after) - 2.0 * k1 - GAMMA * h * in_time)
    return (y + 1.5 * h * k1 + 0.5 * h * k2).reshape(3, n)


@pytest.mark.parametrize("corner", [np.inf, 60.0, 400.0])
def test_a_step_is_that_of_the_integrator_with_its_jacobian_written_out(corner):
    command = command_of([400])
    controller = JointController(OWN.Kp * [1.0, 0.7, 1.4], OWN.Kd * [0.6, 1.0, 1.3], corner)
    loop = ClosedLoop(MODEL, controller, command)
    at = np.array([3, 120, 398])
    rng = np.random.default_rng(1)
    state = np.array((command.q[at], command.dq[at], command.dq[at])) + 0.05 * rng.normal(size=(3, 3, 3))
    if np.isinf(corner):
        state[2] = state[1]
    found, tau = loop.evaluate(state, at)
    speed = state[1] if np.isinf(corner) else state[2]
    wanted = controller.Kp * (command.q[at] - state[0]) + controller.Kd * (command.dq[at] - speed) + command.tau_f[at]
    np.testing.assert_allclose(tau, wanted, rtol=1e-12)
    after = loop.step(state, at, at + 1, found)
    for b, k in enumerate(at):
        expected = plain_step(controller, command, state[:, b], k, k + 1)
        np.testing.assert_allclose(after[:, b], expected, rtol=1e-8, atol=1e-9)


def test_a_stretch_starts_as_far_behind_as_its_torque_needs():
    """There the controller's lead alone gives the reference's acceleration."""
    command = command_of([400])
    at = np.array([0, 57, 301, 399])
    q, dq, seen = ClosedLoop(MODEL, OWN, command).start(at)
    assert np.array_equal(dq, command.dq[at]) and np.array_equal(seen, dq)
    needed = np.diff(command.dq, axis=0, append=command.dq[-1:])[at] * command.rate
    tau = OWN.Kp * (command.q[at] - q) + command.tau_f[at]
    found = MODEL.accelerations(command.q[at], dq, tau).ddq
    np.testing.assert_allclose(found, needed, rtol=1e-8, atol=1e-8)


def test_stretches_are_one_motion_from_each_segments_own_start():
    command = command_of([1300, 900])
    found = simulate_tracking(MODEL, OWN, command)
    loop = ClosedLoop(MODEL, OWN, command)
    late = int(np.ceil(14.0 * found.time_constant * command.rate))
    assert late < 450
    for part in command.segments:
        state = loop.start(np.array([part.start]))
        rows = []
        for k in range(part.start, part.stop):
            now, tau = loop.evaluate(state, np.array([k]))
            rows.append((state[0, 0], state[1, 0], tau[0], now.gear_torque[0], now.sign[0]))
            state = loop.step(state, np.array([k]), np.array([min(k + 1, part.stop - 1)]), now)
        for mine, name in zip(zip(*rows, strict=True), ("q", "dq", "tau", "gear_torque", "sign"), strict=True):
            theirs, mine = getattr(found, name)[part], np.array(mine)
            np.testing.assert_allclose(theirs[: late - 1], mine[: late - 1], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(theirs, mine, atol=1e-4 * max(np.abs(mine).max(), 1e-9))
        np.testing.assert_allclose(found.ddq[part], np.gradient(found.dq[part], 1.0 / command.rate, axis=0))
    assert found.time_constant == pytest.approx(1.0 / slowest_pole(MODEL, OWN, command))
    assert consecutive_slices([3, 1, 2]) == (slice(0, 3), slice(3, 4), slice(4, 6))


@pytest.mark.parametrize("corner", [np.inf, 200.0])
def test_the_slowest_pole_is_that_of_the_linear_loop(corner):
    """Roots of det(M s^2 + (V + H(s) Kd) s + Kp), H the speed filter: each must make that matrix singular."""
    command = command_of([4000])
    controller = JointController(OWN.Kp * [1.0, 2.0, 0.5], OWN.Kd * [1.0, 0.5, 2.0], corner)
    rate = slowest_pole(MODEL, controller, command)
    V = np.diag(CHI[11:42:14])
    np.testing.assert_allclose(MODEL.viscous, V, atol=1e-12)
    slowest = np.inf
    for k in np.linspace(0, len(command.q) - 1, 64).astype(int):
        M = inertia_matrix(ROBOT, CHI, command.q[k][None])[0]
        inner = np.linalg.inv(M)
        zero, one = np.zeros((3, 3)), np.eye(3)
        P, D = np.diag(controller.Kp), np.diag(controller.Kd)
        if np.isinf(corner):
            A = np.block([[zero, one], [-inner @ P, -inner @ (V + D)]])
        else:
            A = np.block([[zero, one, zero], [-inner @ P, -inner @ V, -inner @ D], [zero, corner * one, -corner * one]])
        roots = np.linalg.eigvals(A)
        for s in roots:
            filtered = 1.0 if np.isinf(corner) else corner / (s + corner)
            values = np.linalg.svd(M * s**2 + (V + filtered * D) * s + P, compute_uv=False)
            assert values[-1] < 1e-6 * values[0]
        slowest = min(slowest, -roots.real.max())
    assert rate == pytest.approx(slowest, rel=1e-9)
    needed = 14.0 / rate * command.rate / 0.5
    enough, short = int(np.ceil(needed)) + 1, int(needed) - 1
    slowest_pole(MODEL, controller, replace(command, segments=(slice(0, 5), slice(5, 5 + enough))))
    with pytest.raises(InputError, match="too slow"):
        slowest_pole(MODEL, controller, replace(command, segments=(slice(0, short), slice(short, 2 * short))))


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("joint", [0, 1, 2])
def test_the_joint_that_is_lost_is_named_at_half_the_span(joint, side):
    command = command_of([200, 300])
    q = command.q.copy()
    span = np.ptp(command.q[:, joint])
    q[321, joint] += side * 0.499 * span
    refuse_lost_control(MODEL, command, q)
    q[321, joint] += side * 0.002 * span
    with pytest.raises(InputError, match=f"joint '{ROBOT.active_names[joint]}'"):
        refuse_lost_control(MODEL, command, q)
    refuse_lost_control(MODEL, replace(command, segments=(slice(0, 200), slice(330, 500))), q)
    wide = command.q.copy()
    wide[210:220] += 1e3  # between the segments nothing is followed
    apart = replace(command, q=wide, segments=(slice(0, 200), slice(230, 500)))
    with pytest.raises(InputError, match=f"joint '{ROBOT.active_names[joint]}'"):
        refuse_lost_control(MODEL, apart, q)
    q[321, joint] = np.nan
    with pytest.raises(InputError, match=f"joint '{ROBOT.active_names[joint]}'"):
        refuse_lost_control(MODEL, command, q)


# --- direct dynamics


def parts_of_friction(robot, chi):
    """Yield V, S and Coulomb friction of each drive, torque V dq + S^T Fc sign(S dq), from single parameters."""
    names, n = standard_names(robot), robot.n

    def columns(name):
        unit = np.array([float(one == name) for one in names])
        return inverse_dynamics(robot, unit, np.zeros((n, n)), np.eye(n), np.zeros((n, n))).T

    for k, name in enumerate(names):
        if name.startswith("Fv"):
            own = columns("Fc" + name[2:])  # S^T sign(S_i) in column i
            S = own[:, np.flatnonzero(own.any(axis=0))[0]]
            yield chi[k] * columns(name), S, chi[names.index("Fc" + name[2:])]


@pytest.mark.parametrize("name", ["demo3", "tx40", "geared"])  # tx40: a coupled motor
def test_friction_near_standstill_is_smooth_and_its_chord_bounds_it(name):
    geared = replace(ROBOT, coupling=(Coupling(3, {2: 0.5, 3: -2.0}),), parameters={**ROBOT.parameters, "Fcm3": 3.0})
    robot = geared if name == "geared" else load_robot(name)
    chi = true_parameters(robot, 2)
    chi[13 : 14 * robot.n : 14] = np.linspace(-1.0, 2.0, robot.n)  # offsets
    v0 = np.linspace(0.05, 0.2, robot.n)
    model = ForwardDynamics(robot, chi, v0)
    rng = np.random.default_rng(0)
    q, dq, tau = rng.normal(size=(3, 30, robot.n)) * np.array([1.0, 0.15, 20.0])[:, None, None]
    dq[0] = 0.0
    friction, D, signs = np.zeros_like(dq), np.zeros((30, robot.n, robot.n)), []
    for V, S, coulomb in parts_of_friction(robot, chi):
        slowest = np.min((np.abs(S) * v0)[S != 0.0])
        v = dq @ S
        friction += dq @ V.T + np.outer(coulomb * np.tanh(v / slowest), S)
        D += V + (coulomb / np.maximum(np.abs(v), slowest))[:, None, None] * np.outer(S, S)
        signs.append(np.tanh(v / slowest))
    found = model.accelerations(q, dq, tau)
    no_friction = chi.copy()
    for k, one in enumerate(standard_names(robot)):
        if one.startswith(("Fv", "Fc", "off")):
            no_friction[k] = 0.0
    offset = chi[13 : 14 * robot.n : 14]
    rigid = inverse_dynamics(robot, no_friction, q, dq, found.ddq)
    np.testing.assert_allclose(rigid + friction + offset, tau, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.gear_torque, rigid, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.sign, np.array(signs).T, atol=1e-9)
    np.testing.assert_allclose(model.damping(dq), D, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.M, inertia_matrix(robot, chi, q), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.inertia(q), found.M, rtol=1e-9, atol=1e-12)


def test_terms_of_friction_are_damped_by_their_chord():
    terms = (FrictionTerm(2, FrictionKind.LOAD, 0.1), FrictionTerm(3, FrictionKind.STRIBECK, 0.4, speed=0.3))
    robot = replace(ROBOT, friction=terms)
    dq = np.random.default_rng(0).normal(size=(20, 3)) * 0.2
    own = terms_torque(robot, dq, np.tanh(dq / V0), np.zeros_like(dq))
    extra = ForwardDynamics(robot, CHI, V0).damping(dq) - MODEL.damping(dq)
    chord = np.abs(own) / np.maximum(np.abs(dq), V0)
    np.testing.assert_allclose(extra, chord[:, :, None] * np.eye(3), atol=1e-12)
    assert np.all(chord[:, 2] > 0.0) and not chord[:, :2].any()


def test_friction_that_grows_with_the_load_is_smooth_near_standstill():
    terms = (FrictionTerm(2, FrictionKind.LOAD, 0.3), FrictionTerm(3, FrictionKind.STRIBECK, 4.0, speed=0.3))
    robot = replace(ROBOT, friction=terms)
    model = ForwardDynamics(robot, CHI, V0)
    q, dq, tau = np.random.default_rng(4).normal(size=(3, 20, 3)) * np.array([1.0, 0.05, 30.0])[:, None, None]
    sign = np.tanh(dq / V0)
    Fv, Fc, off = (CHI[k:42:14] for k in (11, 12, 13))
    found = model.accelerations(q, dq, tau)
    np.testing.assert_allclose(found.gear_torque, carried_torque(robot, tau - Fv * dq - Fc * sign - off, dq, sign))
    rigid = CHI.reshape(3, 14).copy()
    rigid[:, 11:] = 0.0
    moved = inverse_dynamics(ROBOT, rigid.ravel(), q, dq, found.ddq)
    np.testing.assert_allclose(moved, found.gear_torque, rtol=1e-8, atol=1e-8)


def test_many_states_are_those_of_one():
    """A batch longer than a block of the generated code, and one state alone."""
    q, dq, tau = np.random.default_rng(3).normal(size=(3, 700, 3))
    found = MODEL.accelerations(q, dq, tau)
    for k in (0, 1, 350, 699):
        one = MODEL.accelerations(q[k : k + 1], dq[k : k + 1], tau[k : k + 1])
        np.testing.assert_allclose(found.ddq[k], one.ddq[0], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(found.M[k], one.M[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("chi", [CHI[:-1], np.append(CHI, 1.0), CHI.reshape(3, 14)])
def test_parameters_that_do_not_fit_are_refused(chi):
    with pytest.raises(InputError):
        ForwardDynamics(ROBOT, chi, V0)


@pytest.mark.parametrize("v0", [np.full(2, 0.1), np.full((1, 3), 0.1), np.array([0.1, 0.0, 0.1]), -V0])
def test_speeds_that_do_not_fit_are_refused(v0):
    with pytest.raises(InputError, match="give 3 positive speeds"):
        ForwardDynamics(ROBOT, CHI, v0)


# --- the robot in MuJoCo


SPRUNG = replace(
    ROBOT,
    friction=(
        FrictionTerm(1, FrictionKind.TEMPERATURE, -0.5, reference=20.0),
        FrictionTerm(2, FrictionKind.LOAD, 0.1),
        FrictionTerm(3, FrictionKind.STRIBECK, 2.0, speed=0.3),
    ),
    forces=(Force("balance", ForceKind.SPRING, (1,), {1: 1.0, 2: -0.5}, rest=0.2),),
)


@pytest.mark.parametrize(("period", "substeps"), [(1e-3, 1), (2e-3, 2)])
def test_the_robot_moves_by_its_equations(period, substeps):
    """Semi-implicit steps with our own inertia matrix and inverse dynamics, friction, springs and offsets."""
    chi = np.concatenate((CHI, [40.0]))
    chi[13:42:14] = (2.0, -3.0, 1.0)
    made = Imperfections(resolution=1e-12, torque_noise=0.0, latency=0)
    sim = SimulatedRobot(SPRUNG, chi, period=period, imperfections=made, start=np.array([0.1, -0.9, 0.3]))
    rigid = CHI.reshape(3, 14).copy()
    rigid[:, 11:] = 0.0
    rigid = rigid.ravel()
    q, dq, h = sim.positions, np.zeros(3), period / substeps
    Fv, Fc, off = (chi[k:42:14] for k in (11, 12, 13))
    for k in range(12):
        tau = np.array([60.0, -90.0, 30.0]) * np.cos(0.3 * k)
        for _ in range(substeps):
            sign = np.tanh(dq / sim.v0)
            left = tau - Fv * dq - Fc * sign - off
            carried = carried_torque(SPRUNG, left, dq, sign, np.full(3, 25.0))
            carried = carried - elastic_torque(SPRUNG, chi, motion_of(SPRUNG, q[None]))[:, 0]
            rest = inverse_dynamics(ROBOT, rigid, q[None], dq[None], np.zeros((1, 3)))[0]
            dq = dq + h * np.linalg.solve(inertia_matrix(ROBOT, rigid, q[None])[0], carried - rest)
            q = q + h * dq
        sim.step(tau)
        np.testing.assert_allclose(sim.positions, q, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(sim.mj_data.qvel, dq, rtol=1e-7, atol=1e-9)


def test_noise_is_added_in_its_order_and_joints_without_a_limit_have_it_too():
    joints = (*ROBOT.joints[:2], replace(ROBOT.joints[2], limits=replace(ROBOT.joints[2].limits, effort=np.inf)))
    robot = replace(ROBOT, joints=joints)
    made = Imperfections(torque_noise=0.01, latency=0)
    sim = SimulatedRobot(robot, CHI, imperfections=made, seed=3)
    scale = 0.01 * np.array([joints[0].limits.effort, joints[1].limits.effort, 10.0])
    drawn = np.random.default_rng(3).standard_normal((5, 3))
    for noise in drawn:
        tau = np.array([1.0, -2.0, 5e3])
        np.testing.assert_allclose(sim.step(tau).tau, tau + scale * noise)
    assert not sim.measure().tau.any() and sim.measure().t == pytest.approx(5e-3)


def test_what_mujoco_cannot_have_is_refused():
    for name in ("tx40", "hitachi_hpr"):
        robot = load_robot(name)
        with pytest.raises(InputError, match="closed loops and coupled motors"):
            mjcf(robot, standard_vector(robot), 1e-3)
    for place, change in ((0, -1.0), (0, 50.0), (3, 50.0), (5, 50.0)):  # none, and more than the other two together
        thin = CHI.reshape(3, 14).copy()
        thin[1, place] += change
        with pytest.raises(InputError, match="physically consistent"):
            SimulatedRobot(ROBOT, thin.ravel())


def test_bodies_lie_as_at_zero_and_gravity_is_the_robots_own():
    tilted = with_gravity(ROBOT, (1.0, -2.0, 9.0))
    sim = SimulatedRobot(tilted, CHI, imperfections=Imperfections(torque_noise=0.0))
    assert sim.mj_model.opt.gravity.tolist() == [1.0, -2.0, 9.0]
    mujoco.mj_inverse(sim.mj_model, sim.mj_data)
    np.testing.assert_allclose(sim.mj_data.qfrc_inverse, gravity_torque(tilted, CHI, np.zeros((1, 3)))[0], atol=1e-9)
    tied = replace(ROBOT, passive=(Passive(2, {1: 0.5}, 0.3),))
    for mine, free in zip(rest_poses(tied), rest_poses(ROBOT), strict=True):
        np.testing.assert_allclose(mine, free, atol=1e-12)


def quiet_robot(**more):
    made = Imperfections(resolution=1e-12, torque_noise=0.0, latency=0)
    return SimulatedRobot(ROBOT, CHI, imperfections=made, start=np.array([0.1, -0.9, 0.3]), **more)


@pytest.mark.parametrize("number", [1, 2, 3, None])
def test_a_payload_in_motion_is_a_body_more(number):
    """MuJoCo's torques at any speed and acceleration, with and without it, differ by the load's inverse dynamics."""
    com, mass = np.array([0.1, -0.2, 0.05]), 2.0
    own = np.array([[0.05, 0.01, -0.004], [0.01, 0.06, 0.006], [-0.004, 0.006, 0.07]])
    q, dq, ddq = np.random.default_rng(5).normal(size=(3, 3))
    torques = []
    for loaded in (False, True):
        sim = quiet_robot()
        if loaded:
            sim.attach(mass, com, own, number)
        sim.mj_data.qpos[:], sim.mj_data.qvel[:], sim.mj_data.qacc[:] = q, dq, ddq
        mujoco.mj_inverse(sim.mj_model, sim.mj_data)
        torques.append(sim.mj_data.qfrc_inverse.copy())
    J = own + mass * (com @ com * np.eye(3) - np.outer(com, com))
    load = np.zeros((3, 14))
    load[(number or 3) - 1, :10] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass)
    wanted = inverse_dynamics(ROBOT, load.ravel(), q[None], dq[None], ddq[None])[0]
    np.testing.assert_allclose(torques[1] - torques[0], wanted, rtol=1e-9, atol=1e-9)


def test_a_push_without_a_point_is_at_the_origin_of_the_link():
    speeds = []
    for at in (None, np.zeros(3), np.ones(3)):
        sim = quiet_robot()
        sim.step(np.zeros(3))
        sim.press(np.array([30.0, -20.0, 40.0]), at)
        sim.step(np.zeros(3))
        speeds.append(sim.mj_data.qvel.copy())
    assert np.array_equal(speeds[0], speeds[1]) and np.abs(speeds[0] - speeds[2]).max() > 1e-3


def test_a_robot_starts_at_rest_where_it_is_told_or_at_zero():
    assert SimulatedRobot(ROBOT, CHI).positions.tolist() == [0.0, 0.0, 0.0]
    sim = quiet_robot()
    found = sim.measure()
    np.testing.assert_allclose(found.q, [0.1, -0.9, 0.3], atol=1e-11)
    assert found.t == 0.0 and not found.dq.any() and not sim.stopped and sim.steps == 0
    assert not sim.mj_data.qvel.any()


def test_a_rotor_of_negative_inertia_is_none():
    chi = CHI.reshape(3, 14).copy()
    chi[:, 10] = (-0.5, 0.0, 0.25)
    sim = SimulatedRobot(ROBOT, chi.ravel() + 0.0)
    assert sim.mj_model.dof_armature.tolist() == [0.0, 0.0, 0.25]


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ("{p: 100.0}", "p 100 and d 0"),
        ("{d: 3.0}", "p 0 and d 3"),
        ("{p: -1.0, d: 3.0}", "p -1 and d 3"),
        ("{p: 1.0, d: -3.0}", "p 1 and d -3"),
        ("{p: 1.0, d: 3.0, ff_velocity_scale: -0.5}", "a feedforward of the velocity"),
        ("{p: 1.0, d: 3.0, i: -0.5}", "an integral gain"),
    ],
)
def test_gains_of_either_sign_that_cannot_be_are_refused(tmp_path, gains, words):
    path = tmp_path / "controllers.yaml"
    path.write_text(f"deep: {{down: {{gains: {{a: {gains}}}}}}}\n")
    with pytest.raises(InputError, match=words):
        load_controller(path, ("a",))
    path.write_text("gains: {a: {p: 1.0, d: 3.0, ff_velocity_scale: 0.0, i: 0}}\nspeed_filter: 0\n")
    with pytest.raises(InputError, match="give a positive frequency"):
        load_controller(path, ("a",))


# --- trajectories and truth


def test_the_way_to_the_first_point_starts_from_what_was_desired():
    names, t = ROBOT.active_names, np.array([0.5, 1.0])
    q, dq, ddq, tau = np.arange(24.0).reshape(4, 2, 3) / 10.0
    here, speed = np.array([0.3, -0.2, 0.1]), np.array([0.1, 0.2, -0.3])
    full = prepend_state(reference(names, t, q, dq, ddq, tau), here, speed)
    assert full.t.tolist() == [0.0, 0.5, 1.0]
    for found, first, rest in (
        (full.q, here, q),
        (full.dq, speed, dq),
        (full.ddq, ddq[0], ddq),
        (full.tau, tau[0], tau),
    ):
        np.testing.assert_array_equal(found, np.concatenate((first[None], rest)))
    bare = prepend_state(reference(names, t, q), here, speed)
    assert bare.dq is None and bare.ddq is None and bare.tau is None
    np.testing.assert_array_equal(bare.q, np.concatenate((here[None], q)))
    controller = TrajectoryController(np.ones(3), np.ones(3), here)
    at_once = reference(names, t - 0.5, q)
    controller.follow(at_once, 3.0)
    assert len(controller.trajectory.t) == 2, "a point for now needs no way to it"
    controller.follow(reference(names, t, q), 3.0)
    assert len(controller.trajectory.t) == 3 and controller.start_time == 3.0


def plain_truth(robot, seed, spread):
    """Return what true_parameters says, by pseudo-inertia matrices and the draws in their order."""
    rng = np.random.default_rng(seed)
    chi = standard_vector(robot).reshape(robot.n, 14).copy()

    def off(size=None):
        return 1 + spread * rng.uniform(-1, 1, size)

    for link in chi:
        own = link[:10] if link[9] > 0 else np.array([0.0] * 9 + [1e-3])
        P = pseudo_inertia(own)
        mass, c = own[9], own[6:9] / own[9]
        second = P[:3, :3] - mass * np.outer(c, c)
        mass, c = mass * off(), c * off(3)
        moments, axes = np.linalg.eigh(second)
        second = axes @ np.diag(np.maximum(moments * off(3), 1e-8)) @ axes.T + mass * np.outer(c, c)
        J = np.trace(second) * np.eye(3) - second
        link[:10] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * c), mass)
        link[10:] *= off(4)
    q = rng.uniform(-1.5, 1.5, (64, robot.n))
    weight = np.abs(gravity_torque(robot, chi.ravel(), q)).max(axis=0)
    inertia = np.array([np.diag(M) for M in inertia_matrix(robot, chi.ravel(), q)]).mean(axis=0)
    for link, joint, w, m in zip(chi, robot.joints, weight, inertia, strict=True):
        limits = joint.limits
        effort = limits.effort if np.isfinite(limits.effort) else 2 * max(w, m)
        speed = limits.velocity if np.isfinite(limits.velocity) else 2.0
        if link[10] == 0:
            link[10] = max(m * (0.2 if joint.sigma == PRISMATIC else rng.uniform(0.2, 0.4)), effort / 1000.0)
        if link[11] == 0 and link[12] == 0:
            link[11] = 0.03 * effort / speed * rng.uniform(0.7, 1.3)
            link[12] = 0.03 * effort * rng.uniform(0.7, 1.3)
    return chi.ravel()


def without(robot, *kinds):
    return replace(robot, parameters={k: v for k, v in robot.parameters.items() if not k.startswith(kinds)})


SLIDE = Robot(
    "slide",
    (Joint("z", 0, sigma=PRISMATIC, limits=Limits(velocity=3.0)), Joint("turn", 1, d=0.3, alpha=0.4)),
    parameters={"M1": 5.0, "M2": 2.0, "MX2": 0.4, "MY2": -0.2, "XX2": 0.2, "YY2": 0.3, "ZZ2": 0.4, "Fc2": 0.5},
)


UNLIMITED = replace(without(ROBOT, "Ia", "F"), joints=tuple(replace(joint, limits=Limits()) for joint in ROBOT.joints))


@pytest.mark.parametrize(
    "robot",
    [ROBOT, without(ROBOT, "Ia"), without(ROBOT, "F", "off"), replace(ROBOT, parameters={}), SLIDE, UNLIMITED],
    ids=["all", "no rotors", "no friction", "nothing", "slide", "no limits"],
)
@pytest.mark.parametrize("spread", [0.15, 0.4])
def test_the_truth_is_its_draws(robot, spread):
    np.testing.assert_allclose(true_parameters(robot, 4, spread), plain_truth(robot, 4, spread), rtol=1e-7, atol=1e-10)
