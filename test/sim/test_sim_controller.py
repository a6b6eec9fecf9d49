# SPDX-License-Identifier: Apache-2.0

"""The simulated robot's own controller, drives and sensors, in figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Robot
from ros2_dynid.sim.controller import TrajectoryController, pd_gains
from ros2_dynid.sim.mjcf import rigid_body
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections, Measurement, SimulatedRobot, standstill_friction
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


def test_what_is_held_is_a_position_of_its_own():
    q = START.copy()
    controller = TrajectoryController(Kp, Kd, q)
    q += 1.0  # whoever gave it goes on with it
    np.testing.assert_allclose(controller.torque(seen(START), 5.0), 0.0)
    controller.hold(q)
    q += 1.0
    np.testing.assert_allclose(controller.torque(seen(START), 5.0), Kp)
    np.testing.assert_array_equal(controller.desired[0], START + 1.0)
    assert not controller.desired[1].any()


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
    for mine, usual in zip(pd_gains(ROBOT, chi), pd_gains(ROBOT, chi, 5.0, 0.7), strict=True):
        np.testing.assert_array_equal(mine, usual)
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


QUIET = Imperfections(resolution=1e-12, torque_noise=0.0, latency=0)


def test_velocities_are_filtered_differences_of_rounded_positions():
    chi = true_parameters(ROBOT, 1)
    for bandwidth, period in ((150.0, 1e-3), (20.0, 4e-3)):
        made = replace(QUIET, resolution=1e-4, velocity_bandwidth=bandwidth)
        sim = SimulatedRobot(ROBOT, chi, period=period, imperfections=made, start=START)
        before, speed = sim.measure().q, np.zeros(3)
        for k in range(30):
            found = sim.step(np.array([20.0, -30.0, 10.0]))
            speed = speed + (1 - np.exp(-2 * np.pi * bandwidth * period)) * ((found.q - before) / period - speed)
            np.testing.assert_allclose(found.dq, speed, rtol=1e-9, atol=1e-12)
            assert found.t == pytest.approx((k + 1) * period) and sim.steps == k + 1
            before = found.q
        assert np.abs(speed).min() > 1e-3


def test_drives_warm_up_with_their_time_constant():
    warming = replace(QUIET, cold=20.0, warm=50.0, warming_time=0.1)
    sim = SimulatedRobot(ROBOT, true_parameters(ROBOT, 1), imperfections=warming, start=START)
    assert np.allclose(sim.measure().temperature, 20.0)
    for _ in range(100):
        found = sim.step(np.zeros(3))
    np.testing.assert_allclose(found.temperature, 50.0 - 30.0 * np.exp(-1.0), rtol=1e-6)


def test_brakes_stop_it_with_their_time_constant_and_hold():
    sim = SimulatedRobot(ROBOT, true_parameters(ROBOT, 1), imperfections=QUIET, start=START)
    for _ in range(50):
        sim.step(np.array([60.0, -90.0, 30.0]))
    sim.stopped, speed = True, sim.mj_data.qvel.copy()
    found = sim.step(np.array([60.0, -90.0, 30.0]))
    np.testing.assert_allclose(sim.mj_data.qvel, speed * np.exp(-0.1))
    assert not found.tau.any()
    for _ in range(200):
        found = sim.step(np.zeros(3))
    held = found.q.copy()
    np.testing.assert_allclose(sim.step(np.zeros(3)).q, held, atol=1e-8)
    assert sim.steps == 252 and sim.measure().t == pytest.approx(0.252), "time goes on"


@pytest.mark.parametrize(
    ("period", "substeps"),
    [(1e-3, 1), (2e-4, 1), (1.5e-3, 2), (4e-3, 4), (1.000000000001e-3, 1), (3.000000000001e-3, 3)],
)
def test_no_step_of_the_integration_is_longer_than_a_millisecond(period, substeps):
    sim = SimulatedRobot(ROBOT, true_parameters(ROBOT, 1), period=period, imperfections=QUIET, start=START)
    assert sim.mj_model.opt.timestep == pytest.approx(period / substeps)
    assert sim.step(np.zeros(3)).t == pytest.approx(period)


@pytest.mark.parametrize("joint", [2, 3, None])
def test_a_force_pushes_where_it_is_applied(joint):
    """Without friction the first change of speed is that of J^T f, J by differences of the point."""
    chi = true_parameters(ROBOT, 1).reshape(3, 14)
    chi[:, 11:] = 0.0
    chi = chi.ravel()
    force, at = np.array([30.0, -20.0, 40.0]), np.array([0.1, 0.2, -0.1])

    def speed(force):
        sim = SimulatedRobot(ROBOT, chi, period=1e-4, imperfections=QUIET, start=START)
        sim.step(np.zeros(3))
        sim.press(force, at, joint)
        sim.step(np.zeros(3))
        return sim.mj_data.qvel.copy() / 1e-4

    number = 3 if joint is None else joint

    def point(q):
        T = frames(ROBOT, q[None])[0, number - 1]
        return T[:3, :3] @ at + T[:3, 3]

    J = np.column_stack([(point(START + e) - point(START - e)) / 2e-6 for e in 1e-6 * np.eye(3)])
    wanted = np.linalg.solve(inertia_matrix(ROBOT, chi, START[None])[0], J.T @ force)
    np.testing.assert_allclose(speed(force) - speed(None), wanted, rtol=1e-3)
    sim = SimulatedRobot(ROBOT, chi, imperfections=QUIET, start=START)
    sim.press(force)
    sim.step(np.zeros(3))
    sim.press(None)
    assert not sim.mj_data.xfrc_applied.any()


def test_payloads_that_are_none_are_refused_and_one_leaves_the_motion_as_it_is():
    sim = SimulatedRobot(ROBOT, true_parameters(ROBOT, 1), imperfections=QUIET, start=START)
    for _ in range(20):
        sim.step(np.array([60.0, -90.0, 30.0]))
    state = sim.mj_data.qpos.copy(), sim.mj_data.qvel.copy(), sim.mj_data.time
    for mass, com, inertia in (
        (-1.0, np.zeros(3), np.eye(3)), (np.nan, np.zeros(3), np.eye(3)),
        (1.0, np.array([0.0, np.nan, 0.0]), np.eye(3)),
        (1.0, np.zeros(3), np.diag([0.1, 0.1, -0.1])),
    ):  # fmt: skip
        with pytest.raises(InputError, match="not physical"):
            sim.attach(mass, com, inertia)
    before = sim.mj_model.body_mass.copy()
    sim.attach(2.0, np.array([0.0, 0.1, 0.0]), 0.01 * np.eye(3), 2)
    np.testing.assert_allclose(sim.mj_model.body_mass - before, [0.0, 0.0, 2.0, 0.0], atol=1e-9)
    np.testing.assert_array_equal(sim.mj_data.qpos, state[0])
    np.testing.assert_array_equal(sim.mj_data.qvel, state[1])
    assert sim.mj_data.time == state[2]
    sim.attach(0.0, np.zeros(3), np.zeros((3, 3)))
    np.testing.assert_allclose(sim.mj_model.body_mass, before)
    sim.attach(1.0, np.zeros(3), np.zeros((3, 3)))
    assert sim.mj_model.body_mass[3] == pytest.approx(before[3] + 1.0), "the last link, unless told otherwise"


def test_friction_at_standstill_is_smoothed_over_what_the_step_can_follow():
    terms = (
        FrictionTerm(1, FrictionKind.STRIBECK, 4.0, speed=0.1), FrictionTerm(2, FrictionKind.LOAD, 0.1),
        FrictionTerm(3, FrictionKind.CUBIC, 99.0),
    )  # fmt: skip
    robot = replace(ROBOT, friction=terms)
    np.testing.assert_allclose(standstill_friction(robot), [4.0, 0.1 * ROBOT.joints[1].limits.effort, 0.0])
    unlimited = replace(robot, joints=tuple(replace(j, limits=replace(j.limits, effort=np.inf)) for j in robot.joints))
    np.testing.assert_allclose(standstill_friction(unlimited), [4.0, 0.0, 0.0])
    chi = true_parameters(ROBOT, 1)
    Fc = chi.reshape(3, 14)[:, 12]
    lightest = 1 / np.diag(np.linalg.inv(inertia_matrix(ROBOT, chi, START[None])[0]))
    for period, substeps in ((1e-3, 1), (4e-3, 4)):
        sim = SimulatedRobot(robot, chi, period=period, imperfections=QUIET, start=START)
        wanted = (Fc + standstill_friction(robot)) * period / substeps / lightest
        np.testing.assert_allclose(sim.v0, np.maximum(5e-3, wanted))
    assert np.all(SimulatedRobot(ROBOT, chi, imperfections=replace(QUIET, sticking_speed=3.0), start=START).v0 == 3.0)


def test_drives_are_made_up_where_the_robot_names_none():
    robot = replace(load_robot("demo6"), parameters={
        name: value for name, value in load_robot("demo6").parameters.items() if not name.startswith(("Ia", "F", "off"))
    })  # fmt: skip
    shares = []
    for seed in range(20):
        chi = true_parameters(robot, seed, 0.0)
        drives = chi.reshape(6, 14)[:, 10:]
        effort, speed = (np.array([getattr(j.limits, kind) for j in robot.joints]) for kind in ("effort", "velocity"))
        bare = chi.reshape(6, 14).copy()
        bare[:, 10:] = 0.0
        inertia = np.einsum(
            "tjj->tj", inertia_matrix(robot, bare.ravel(), np.random.default_rng(0).uniform(-1.5, 1.5, (200, 6)))
        ).mean(axis=0)
        assert np.all(drives[:, 0] >= effort / 1000.0 - 1e-12) and np.all(drives[:, 3] == 0.0)
        light = drives[:, 0] > 1.001 * effort / 1000.0
        shares += (drives[:, 0] / inertia)[light].tolist()
        for column, scale in ((1, effort / speed), (2, effort)):
            share = drives[:, column] / (0.03 * scale)
            assert np.all((share >= 0.7) & (share <= 1.3))
    assert 0.18 < min(shares) < 0.23 and 0.36 < max(shares) < 0.5
    named = true_parameters(load_robot("demo6"), 3, 0.0)
    np.testing.assert_allclose(named, standard_vector(load_robot("demo6")), atol=1e-6)
    for link in true_parameters(replace(robot, parameters={}), 0).reshape(6, 14):
        mass, _, inertia = rigid_body(link[:10])
        assert 0.8e-3 < mass < 1.2e-3 and np.linalg.eigvalsh(inertia)[0] > 0


def test_the_truth_turns_no_inertia_and_changes_its_moments_by_the_spread():
    """Second moments of mass about the centre, in the same principal axes; what is nearly a point gets a least size."""
    robot = load_robot("demo6")
    known = standard_vector(robot).reshape(6, 14)

    def second(link):
        inertia = rigid_body(link[:10])[2]
        return np.trace(inertia) / 2 * np.eye(3) - inertia

    ratios = []
    for seed in range(10):
        for link, own in zip(true_parameters(robot, seed, 0.2).reshape(6, 14), known, strict=True):
            moments, axes = np.linalg.eigh(second(own))
            found = axes.T @ second(link) @ axes
            np.testing.assert_allclose(found - np.diag(np.diag(found)), 0.0, atol=1e-9 * moments.max() + 1e-12)
            large = moments > 1e-6
            ratios += (np.diag(found)[large] / moments[large]).tolist()
            assert np.all(np.diag(found) >= 1e-8 - 1e-12)
    assert 0.8 - 1e-6 <= min(ratios) < 0.85 and 1.15 < max(ratios) <= 1.2 + 1e-6
    slide = Robot(
        "slide", (Joint("z", 0, sigma=PRISMATIC, limits=Limits(-1, 1, 1, 1, effort=1.0)),), parameters={"M1": 5.0}
    )
    assert true_parameters(slide, 0, 0.0)[10] == pytest.approx(0.2 * 5.0)
    unlimited = replace(slide, joints=(replace(slide.joints[0], limits=Limits()),))
    weight = 5.0 * 9.81  # more than its inertia: twice that stands for the effort, at 2 m/s
    Fv, Fc = true_parameters(unlimited, 0, 0.0)[11:13]
    assert 0.7 <= Fc / (0.03 * 2 * weight) <= 1.3 and 0.7 <= Fv / (0.03 * 2 * weight / 2.0) <= 1.3


def test_the_usual_imperfections_are_those_of_an_industrial_arm():
    usual = SimulatedRobot(ROBOT, true_parameters(ROBOT, 1), start=START)
    assert np.array_equal(usual.measure().temperature, np.full(3, 25.0))
    made = Imperfections()
    assert (made.resolution, made.torque_noise, made.latency) == (2 * np.pi / 2**18, 0.005, 1)
    assert (made.sticking_speed, made.velocity_bandwidth) == (5e-3, 150.0)
    assert (made.cold, made.warm, made.warming_time) == (25.0, 25.0, 600.0)


def made_plant():
    return Plant(ROBOT, seed=1, spread=0.1, period=1e-3, imperfections=QUIET, start=START, stiffness=5.0)


def test_after_torques_a_trajectory_begins_where_the_robot_is_and_else_where_it_was_wanted():
    plant = made_plant()
    for _ in range(50):
        plant.step()
    wanted = plant.controller.desired[0].copy()
    way = quintic(NAMES, START + 0.2, START + 0.3, 1.0).shifted(0.5)
    plant.follow(way)
    assert np.array_equal(plant.controller.trajectory.q[0], wanted), "from the state desired, whatever is measured"
    plant.push(np.array([30.0, -60.0, 20.0]))
    for _ in range(200):
        plant.step()
    away = plant.measured.q.copy()
    assert np.abs(away - wanted).max() > 0.05
    plant.follow(way)
    assert np.array_equal(plant.controller.trajectory.q[0], away) and plant.efforts is None
    assert plant.time == pytest.approx(0.25)
    plant.step()
    assert np.abs(plant.controller.desired[0] - away).max() < 1e-3
    later = made_plant()
    later.follow(way, delay=0.3)
    assert later.controller.trajectory.t[1] == pytest.approx(way.t[0] + 0.3)
    for bad in (np.zeros(2), np.array([0.0, np.nan, 0.0])):
        with pytest.raises(InputError, match="give 3 finite ones"):
            later.push(bad)


def test_torques_replace_each_other_and_are_finite():
    plant = made_plant()
    for torque in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        plant.push(np.array(torque))
        np.testing.assert_allclose(plant.step().tau, torque)
    for bad in ([np.inf, 0.0, 0.0], [0.0, 0.0, -np.inf]):
        with pytest.raises(InputError, match="give 3 finite ones"):
            plant.push(np.array(bad))
    np.testing.assert_allclose(plant.step().tau, [4.0, 5.0, 6.0])
    assert plant.time == pytest.approx(3e-3) == pytest.approx(plant.measured.t)


def test_the_noise_of_a_plant_is_that_of_its_seed():
    noisy = replace(QUIET, torque_noise=0.01)
    plant = Plant(ROBOT, seed=5, spread=0.1, period=1e-3, imperfections=noisy, start=START, stiffness=5.0)
    alone = SimulatedRobot(ROBOT, true_parameters(ROBOT, 5, 0.1), imperfections=noisy, start=START, seed=5)
    plant.push(np.zeros(3))
    for _ in range(3):
        np.testing.assert_array_equal(plant.step().tau, alone.step(np.zeros(3)).tau)


def test_what_a_simulated_robot_was_given_may_change_afterwards():
    chi, force, at = true_parameters(ROBOT, 1), np.array([30.0, -20.0, 40.0]), np.array([0.1, 0.2, -0.1])

    def speeds(spoil):
        mine = chi.copy()
        sim = SimulatedRobot(ROBOT, mine, imperfections=QUIET, start=START)
        pushed, point = force.copy(), at.copy()
        sim.press(pushed, point)
        if spoil:
            mine *= 2.0
            pushed *= 2.0
            point += 1.0
        sim.attach(1.0, np.array([0.0, 0.1, 0.0]), 0.01 * np.eye(3))
        for _ in range(3):
            found = sim.step(np.zeros(3))
        again = sim.measure()
        assert np.array_equal(again.dq, found.dq) and np.array_equal(again.q, found.q) and found.dq.any()
        again.dq[:] = again.q[:] = 99.0  # what was measured is a copy
        assert np.array_equal(sim.measure().dq, found.dq) and np.array_equal(sim.measure().q, found.q)
        return found.dq

    np.testing.assert_array_equal(speeds(False), speeds(True))


def test_brakes_drop_what_was_asked_for_and_hold_where_the_robot_is():
    plant = made_plant()
    plant.push(np.array([30.0, -60.0, 20.0]))
    for _ in range(100):
        plant.step()
    plant.brake(True)
    for _ in range(100):
        plant.step()
    assert plant.sim.stopped and plant.efforts is None
    plant.brake(False)
    assert not plant.sim.stopped and np.array_equal(plant.controller.hold_position, plant.measured.q)


def test_gains_come_from_what_is_known_and_the_drives_own_rotor():
    plant = made_plant()
    truth = true_parameters(ROBOT, 1, 0.1)
    known = standard_vector(ROBOT)
    rotors = np.arange(len(known)) % 14 == 10
    chi = np.where(rotors & (known == 0.0), truth, known)
    np.testing.assert_allclose(plant.controller.Kp, pd_gains(ROBOT, chi, 5.0)[0])
    stiff = Plant(ROBOT, seed=1, spread=0.1, period=1e-3, imperfections=QUIET, start=START, stiffness=2.0)
    np.testing.assert_allclose(stiff.controller.Kp, pd_gains(ROBOT, chi, 2.0)[0])
    np.testing.assert_allclose(stiff.controller.Kd, pd_gains(ROBOT, chi, 2.0)[1])
    bare = replace(ROBOT, parameters={})
    plain = Plant(bare, seed=1, spread=0.1, period=1e-3, imperfections=QUIET, start=START, stiffness=5.0)
    np.testing.assert_allclose(plain.controller.Kp, pd_gains(bare, true_parameters(bare, 1, 0.1), 5.0)[0])
