# SPDX-License-Identifier: Apache-2.0

"""The controllers' laws without ROS: torque and gains, bounds, ramps, guards; lost references, states and models."""

import ctypes
import shutil
import subprocess
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.effort_command import EffortCommand, added_torque
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.control.rest_efforts import judge_rest
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.friction_law import at_temperature
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import (
    added_by_joint,
    added_effort,
    declare_added_effort,
    declared_sensors,
    measures_gravity,
)
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import OFF, Fc, by_joint, standard_names, standard_vector
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot
from ros2_dynid.sim.truth import true_parameters
from runtime_robots import coupled_loop, with_forces, with_terms

HERE = Path(__file__).parent
STRICT = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
HOLD, FOLLOW, BLIND = range(3)
GUIDE, BRAKE = range(2)
POINTS, JOINTS, SIZES, STALE, ORDER, NOT_FINITE, POSITION, VELOCITY = range(8)
DT, TIMEOUT, RAMP, SMOOTHING = 1e-3, 0.05, 0.1, 0.02
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def doubles(values):
    array = np.ascontiguousarray(values, dtype=float)
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@pytest.fixture(scope="module")
def laws(tmp_path_factory):
    path = tmp_path_factory.mktemp("laws") / "laws.so"
    command = ["g++", *STRICT, "-shared", "-fPIC", "-Wl,-Bsymbolic", f"-I{HERE.parents[1] / 'include'}"]
    done = subprocess.run([*command, str(HERE / "laws_library.cpp"), "-o", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(path))
    library.why.restype = ctypes.c_char_p
    library.allocations.restype = ctypes.c_long
    for kind in ("follow", "guide"):
        getattr(library, f"{kind}_new").restype = ctypes.c_void_p
        getattr(library, f"{kind}_command").restype = ctypes.POINTER(ctypes.c_double)
    for name in ("reader_new", "refused_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.follow_refused.restype = ctypes.c_ulong
    for name in ("start", "reference", "reference_of", "update", "gains", "parameters", "payload", "end"):
        getattr(library, f"follow_{name}").restype = ctypes.c_bool
    for name in ("start", "update", "friction", "parameters", "payload", "end"):
        getattr(library, f"guide_{name}").restype = ctypes.c_bool
    for name in ("message_torque", "warm_torque", "same_robot", "payload_torque", "holds", "declared", "reader_take"):
        getattr(library, name).restype = ctypes.c_bool
    yield library
    assert library.allocations() == 0  # whatever the tests of this file did


@cache
def arm():
    """Return the arm, its true parameters and its effort limits."""
    robot = load_robot("demo6")
    return robot, true_parameters(robot, 3), np.array([joint.limits.effort for joint in robot.joints])


@pytest.fixture
def model(tmp_path):
    robot, chi, _ = arm()
    path = tmp_path / "arm.dynid"
    path.write_bytes(runtime_bytes(robot, chi))
    return path


class Law:
    """One of the laws, with the methods of the C++ class."""

    def __init__(self, library, kind, pointer, n):
        assert pointer, library.why()
        self.library, self.kind, self.pointer, self.n = library, kind, ctypes.c_void_p(pointer), n

    def __getattr__(self, name):
        function = getattr(self.library, f"{self.kind}_{name}")

        def call(*arguments):
            kept = [np.ascontiguousarray(x, dtype=float) if isinstance(x, np.ndarray) else x for x in arguments]
            return function(self.pointer, *(doubles(x) if isinstance(x, np.ndarray) else x for x in kept))

        return call

    def step(self, q, dq, dt=DT):
        return self.update(q, dq, ctypes.c_double(dt))

    @property
    def torque(self):
        return np.array(self.command()[: self.n])


def follower(laws, path, kp=100.0, kd=10.0, damping=8.0, limits=None, rates=None, ramp=RAMP):
    _, _, effort = arm()
    limits = effort if limits is None else np.broadcast_to(limits, effort.shape)
    rates = 20 * limits if rates is None else np.broadcast_to(rates, effort.shape)
    lists = np.concatenate([np.broadcast_to(x, effort.shape) for x in (kp, kd, damping, limits, rates)])
    numbers = (ctypes.c_double(x) for x in (ramp, 2 * DT, SMOOTHING, TIMEOUT))
    return Law(laws, "follow", laws.follow_new(str(path).encode(), doubles(lists), *numbers), len(effort))


def held(q):
    """Return the torque that holds the arm still: gravity and offset."""
    robot, chi, _ = arm()
    return gravity_torque(robot, chi, q[None])[0] + by_joint(robot, chi)[:, OFF]


def reference_torque(chi, q, dq, ddq):
    robot = arm()[0]
    rigid = inverse_dynamics(*frictionless(robot, chi), q[None], dq[None], ddq[None])[0]
    return rigid + smooth_friction(robot, chi).torque(dq, SMOOTHING, rigid)


def settle(law, q, dq, steps=300, reference=None):
    for _ in range(steps):
        if reference is not None:
            assert law.reference(*reference)
        assert law.step(q, dq)


def test_the_command_is_the_models_torque_and_the_gains_of_the_error(laws, model):
    rng = np.random.default_rng(0)
    law = follower(laws, model, limits=1e6, rates=1e12)
    q, dq, q_r, dq_r, ddq_r = rng.uniform(-1, 1, (5, 6))
    assert law.start(q)
    assert np.allclose(law.torque, held(q), rtol=1e-12, atol=1e-12)
    settle(law, q, dq, reference=(q_r, dq_r, ddq_r))
    assert law.mode() == FOLLOW
    expected = reference_torque(arm()[1], q_r, dq_r, ddq_r) + 100 * (q_r - q) + 10 * (dq_r - dq)
    assert np.allclose(law.torque, expected, rtol=1e-11, atol=1e-9)


def test_a_reference_of_the_periods_end_is_compared_with_where_it_is_now(laws, model):
    rng = np.random.default_rng(9)
    law = follower(laws, model, limits=1e6, rates=1e12)
    q, dq, q_r, dq_r, ddq_r = rng.uniform(-1, 1, (5, 6))
    assert law.start(q)
    lead = 0.01
    for _ in range(200):
        assert law.reference_of(q_r, dq_r, ddq_r, ctypes.c_double(lead)) and law.step(q, dq)
    now, speed = q_r - lead * dq_r + lead**2 / 2 * ddq_r, dq_r - lead * ddq_r
    expected = reference_torque(arm()[1], q_r, dq_r, ddq_r) + 100 * (now - q) + 10 * (speed - dq)
    assert np.allclose(law.torque, expected, rtol=1e-11, atol=1e-9)


def test_limits_and_rates_hold_whatever_comes(laws, model):
    rng = np.random.default_rng(1)
    _, _, effort = arm()
    law = follower(laws, model, kp=3000.0, kd=300.0)
    assert law.start(np.zeros(6))
    last = law.torque
    for k in range(3000):
        scale = 10.0 ** rng.integers(-1, 4)
        values = rng.normal(size=(5, 6)) * scale
        dt = rng.choice([DT, 0.0, -1.0, 0.05, 10.0, np.nan, np.inf])
        if rng.random() < 0.2:
            values[rng.integers(5), rng.integers(6)] = rng.choice([np.nan, np.inf, -np.inf, 1e308])
        law.reference(*values[2:])
        law.step(values[0], values[1], dt)
        if k % 50 == 0:
            assert law.gains(*rng.uniform(0, 3000, (3, 6)))
        if k % 70 == 0:
            assert law.payload(6, ctypes.c_double(rng.uniform(0, 3)), *(ctypes.c_double(0.05),) * 3)
        torque = law.torque
        assert np.all(np.isfinite(torque)) and np.all(np.abs(torque) <= effort)
        step = min(float(dt), 2 * DT) if dt > 0 else 0.0
        assert np.all(np.abs(torque - last) <= 20 * effort * step * (1 + 1e-9))  # also when the update is late
        last = torque


@pytest.mark.parametrize("end", ["stops", "nan", "infinite", "huge"])
def test_a_reference_that_stops_or_is_not_finite_ends_in_gravity_and_damping(laws, model, end):
    rng = np.random.default_rng(2)
    q, dq, q_r, dq_r, ddq_r = 0.3 * rng.uniform(-1, 1, (5, 6))
    law = follower(laws, model)
    assert law.start(q)
    settle(law, q, dq, reference=(q_r, dq_r, ddq_r))
    assert law.mode() == FOLLOW
    following = law.torque
    for k in range(300):
        if end != "stops":
            bad = q_r.copy()
            bad[2] = {"nan": np.nan, "infinite": np.inf, "huge": 1e307}[end]
            assert law.reference(
                q_r if end == "huge" else bad, dq_r, np.full(6, 1.7e308) if end == "huge" else ddq_r
            ) == (end == "huge")
        assert law.step(q, dq)
        late = 0 if end == "huge" else round(TIMEOUT / DT)
        if k + 1 != late:
            assert law.mode() == (HOLD if k + 1 > late else FOLLOW), k
        if k + 1 < late:
            assert np.allclose(law.torque, following)
    assert np.allclose(law.torque, held(q) - 8 * dq, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("joint", range(6))
@pytest.mark.parametrize("beyond", ["lower", "upper", "forwards", "backwards"])
def test_a_reference_beyond_a_limit_of_any_joint_stops_the_arm_at_once(laws, model, joint, beyond):
    robot, _, _ = arm()
    limits = robot.joints[joint].limits
    q, dq = np.full(6, 0.1), np.full(6, 0.05)
    law = follower(laws, model)
    assert law.start(q)
    settle(law, q, dq, reference=(q, dq, dq))
    bad_q, bad_dq = q.copy(), dq.copy()
    if beyond in ("lower", "upper"):
        bad_q[joint] = getattr(limits, beyond) + (0.002 if beyond == "upper" else -0.002)
        fault, other = POSITION, VELOCITY
    else:
        bad_dq[joint] = 1.03 * limits.velocity * (1 if beyond == "forwards" else -1)
        fault, other = VELOCITY, POSITION
    assert not law.reference(bad_q, bad_dq, dq)
    assert law.refused(fault) == 1 and law.refused(other) == law.refused(NOT_FINITE) == 0
    before = law.torque
    assert law.step(q, dq) and law.mode() == HOLD
    assert np.all(np.abs(law.torque - before) <= 20 * arm()[2] * DT * (1 + 1e-9))
    settle(law, q, dq)
    assert np.allclose(law.torque, held(q) - 8 * dq, rtol=1e-9, atol=1e-9)
    bad_q[joint] = q[joint] if beyond not in ("lower", "upper") else getattr(limits, beyond)  # up to the limit itself
    bad_dq[joint] = np.sign(bad_dq[joint]) * min(abs(bad_dq[joint]), limits.velocity)
    assert law.reference(bad_q, bad_dq, dq)


def test_references_that_are_not_finite_are_counted_at_every_input(laws, model):
    law = follower(laws, model)
    assert law.start(np.zeros(6))
    count = 0
    for k in range(3):
        for joint in range(6):
            for wrong in (np.nan, np.inf, -np.inf):
                values = np.zeros((3, 6))
                values[k, joint] = wrong
                assert not law.reference(*values)
                count += 1
    assert law.refused(NOT_FINITE) == count and law.refused(POSITION) == law.refused(VELOCITY) == 0


def test_an_update_that_is_late_by_50_ms(laws, model):
    _, _, effort = arm()
    q, dq = np.full(6, 0.2), np.full(6, 0.1)
    law = follower(laws, model)
    assert law.start(q)
    settle(law, q, dq, reference=(q, dq, np.zeros(6)))
    before = law.torque
    assert law.reference(q + 0.05 * 2.0, dq, np.zeros(6))  # the reference has gone on meanwhile
    assert law.step(q, dq, 0.051)
    assert law.mode() == FOLLOW
    assert np.all(np.abs(law.torque - before) <= 20 * effort * 2 * DT * (1 + 1e-9))
    settle(law, q, dq, reference=(q, dq, np.zeros(6)))
    assert law.step(q, dq, 0.051)  # late, and no reference came with it
    assert law.mode() == HOLD


def test_a_state_that_is_not_finite_is_survived_and_then_an_error(laws, model):
    rng = np.random.default_rng(3)
    q, dq, q_r = 0.3 * rng.uniform(-1, 1, (3, 6))
    law = follower(laws, model)
    assert not law.start(np.full(6, np.nan))
    assert law.start(q)
    settle(law, q, dq, reference=(q_r, dq, dq))
    lost = q.copy()
    lost[4] = np.nan
    results = []
    for _ in range(200):
        assert law.reference(q_r, dq, dq)
        results.append(law.step(lost, dq))
        assert law.mode() == BLIND
    assert all(results[:49]) and not any(results[51:])
    assert np.allclose(law.torque, held(q), rtol=1e-9, atol=1e-9)  # where it was last seen, without feedback
    settle(law, q, dq, steps=1, reference=(q_r, dq, dq))
    assert law.mode() == FOLLOW


def test_new_gains_payload_and_parameters_fade_in(laws, model, tmp_path):
    rng = np.random.default_rng(4)
    robot, chi, _ = arm()
    q, dq, q_r, dq_r, ddq_r = 0.3 * rng.uniform(-1, 1, (5, 6))
    law = follower(laws, model, limits=1e6, rates=1e12)
    other = chi * rng.uniform(0.9, 1.1, len(chi))
    (tmp_path / "other.dynid").write_bytes(runtime_bytes(robot, other))
    load = Load(1.5, np.array((0.0, 0.02, 0.05)), np.zeros((3, 3)), 6)
    assert law.start(q)
    settle(law, q, dq, reference=(q_r, dq_r, ddq_r))
    error, speed = q_r - q, dq_r - dq
    steps = [
        (lambda: law.gains(np.full(6, 50.0), np.full(6, 5.0), np.full(6, 2.0)), chi, 50, 5),
        (lambda: law.payload(6, *map(ctypes.c_double, (load.mass, *load.com))), None, 50, 5),
        (lambda: law.parameters(str(tmp_path / "other.dynid").encode()), other, 50, 5),
    ]
    carried = np.zeros(len(chi))
    for change, parameters, kp, kd in steps:
        if parameters is None:
            carried, parameters = load_parameters(robot, load, len(chi)), chi
        start = law.torque
        end = reference_torque(parameters + carried, q_r, dq_r, ddq_r) + kp * error + kd * speed
        assert np.abs(end - start).max() > 0.05
        assert change()
        path = []
        for _ in range(120):
            assert law.reference(q_r, dq_r, ddq_r) and law.step(q, dq)
            path.append(law.torque)
        line = start + np.minimum(1, np.arange(1, 121) * DT / RAMP)[:, None] * (end - start)
        assert np.allclose(path, line, rtol=1e-9, atol=1e-9)
    assert not law.gains(np.full(6, -1.0), np.zeros(6), np.zeros(6))
    assert not law.payload(6, ctypes.c_double(-1.0), *(ctypes.c_double(0.0),) * 3)
    before = law.torque
    settle(law, q, dq, steps=1, reference=(q_r, dq_r, ddq_r))
    assert np.allclose(law.torque, before)


def test_new_parameters_of_springs_are_taken(laws, tmp_path):
    rng = np.random.default_rng(14)
    robot = with_forces(arm()[0])
    q, still = 0.3 * rng.uniform(-1, 1, 6), np.zeros(6)
    first = rng.uniform(0.5, 1.5, len(standard_names(robot)))
    other = first.copy()
    other[14 * robot.n :] *= rng.uniform(1.5, 2.0, len(first) - 14 * robot.n)  # the springs alone
    for name, chi in (("first", first), ("other", other)):
        (tmp_path / name).write_bytes(runtime_bytes(robot, chi))
    law = follower(laws, tmp_path / "first", limits=1e6, rates=1e12)
    assert law.start(q)
    for name, chi in (("first", first), ("other", other)):
        assert law.parameters(str(tmp_path / name).encode())
        settle(law, q, still, reference=(q, still, still))
        expected = gravity_torque(robot, chi, q[None])[0] + by_joint(robot, chi)[:, OFF]
        assert np.allclose(law.torque, expected, rtol=1e-9, atol=1e-9)
    assert np.abs(gravity_torque(robot, other, q[None]) - gravity_torque(robot, first, q[None])).max() > 0.1


def test_wrong_settings_are_refused(laws, model):
    for wrong in ({"kp": -1.0}, {"kd": np.nan}, {"limits": np.inf}, {"limits": 0.0}, {"rates": -1.0}, {"ramp": -1.0}):
        with pytest.raises(AssertionError):
            follower(laws, model, **wrong)
        assert laws.why()


def track(laws, path, chi):
    """Return the RMS tracking error (6,) of the simulated arm under the law with the model of this file."""
    robot = arm()[0]
    q0 = np.array((0.1, -0.6, 0.5, 0.2, -0.3, 0.1))
    plant = SimulatedRobot(robot, chi, start=q0, imperfections=Imperfections(latency=1))
    law = follower(laws, path, kp=(400, 400, 400, 60, 60, 60), kd=(40, 40, 40, 6, 6, 6))
    assert law.start(q0)
    measured, errors = plant.measure(), []
    for k in range(2000):
        t, amplitude, w = k * DT, 0.4, np.pi * np.array((0.9, 1.0, 1.1, 1.2, 1.3, 1.4))
        s = min(1.0, t / 0.5)
        blend, slope = s**3 * (10 - 15 * s + 6 * s * s), (30 * s**2 - 60 * s**3 + 30 * s**4) / 0.5 * (s < 1)
        curve = (60 * s - 180 * s**2 + 120 * s**3) / 0.25 * (s < 1)
        x, dx, ddx = amplitude * np.sin(w * t), amplitude * w * np.cos(w * t), -amplitude * w**2 * np.sin(w * t)
        q_r, dq_r, ddq_r = q0 + blend * x, slope * x + blend * dx, curve * x + 2 * slope * dx + blend * ddx
        assert law.reference(q_r, dq_r, ddq_r) and law.step(measured.q, measured.dq)
        measured = plant.step(law.torque)
        errors.append(plant.positions - q_r)
    return np.sqrt(np.mean(np.square(errors), axis=0))


def test_the_simulated_arm_tracks_five_times_better_than_with_the_gains_alone(laws, model, tmp_path):
    robot, chi, _ = arm()
    nothing = tmp_path / "nothing.dynid"
    nothing.write_bytes(runtime_bytes(robot, np.zeros_like(chi)))
    ratio = track(laws, nothing, chi) / track(laws, model, chi)
    assert np.sqrt(np.mean(ratio**2)) > 5 and ratio.min() > 2, ratio


# --- hand guiding


def guide(laws, path, friction=0.5, speed=1.0, lower=None, upper=None, damping=0.0, rates=None):
    robot, _, effort = arm()
    lower = [joint.limits.lower for joint in robot.joints] if lower is None else lower
    upper = [joint.limits.upper for joint in robot.joints] if upper is None else upper
    columns = (speed, lower, upper, 0.1, damping, effort, 20 * effort if rates is None else rates)
    lists = np.concatenate([np.broadcast_to(np.asarray(x, dtype=float), effort.shape) for x in columns])
    pointer = laws.guide_new(str(path).encode(), doubles(lists), *map(ctypes.c_double, (friction, RAMP, 2 * DT)))
    return Law(laws, "guide", pointer, len(effort))


def guided(law, chi, q0, push, seconds, loads=None):
    """Return the true positions (steps, 6) and modes of the arm, pushed by a hand with push(t) (6,)."""
    plant = SimulatedRobot(arm()[0], chi, start=q0, imperfections=Imperfections(torque_noise=0.0))
    if loads:
        plant.attach(*loads)
    measured, path, modes = plant.measure(), [], []
    for k in range(int(seconds / DT)):
        assert law.step(measured.q, measured.dq)
        measured = plant.step(law.torque + push(k * DT))
        path.append(plant.positions)
        modes.append(law.mode())
    return np.array(path), np.array(modes)


Q0 = np.array((0.1, -0.6, 0.5, 0.2, -0.3, 0.1))


def test_guiding_torque_is_gravity_and_a_fraction_of_friction(laws, model):
    robot, chi, _ = arm()
    law = guide(laws, model, friction=0.6, rates=1e12)
    dq = np.array((0.1, -0.2, 0.3, -0.1, 0.2, 0.05))
    assert law.start(Q0)
    for _ in range(3):
        assert law.step(Q0, dq)
    gravity = gravity_torque(robot, chi, Q0[None])[0]
    off = by_joint(robot, chi)[:, OFF]
    friction = smooth_friction(robot, chi).torque(dq, 0.05, gravity) - off
    assert np.allclose(law.torque, gravity + off + 0.6 * friction, rtol=1e-9, atol=1e-9)


def test_an_arm_that_is_let_go_stays_and_one_that_is_pushed_moves(laws, model):
    _, chi, _ = arm()
    law = guide(laws, model)
    assert law.start(Q0)
    path, modes = guided(law, chi, Q0, lambda t: np.zeros(6), 1.0)
    assert np.abs(path[-1] - Q0).max() < 2e-3 and np.all(modes == GUIDE)
    push = np.zeros(6)
    push[2] = 1.3 * by_joint(arm()[0], chi)[2, Fc]
    moved = []
    for fraction in (0.0, 0.9):
        law = guide(laws, model, friction=fraction)
        assert law.start(Q0)
        path, _ = guided(law, chi, Q0, lambda t: push, 0.5)
        moved.append(path[-1, 2] - Q0[2])
    assert moved[0] > 0 and moved[1] > 2 * moved[0]


def test_speed_is_guarded(laws, model):
    _, chi, effort = arm()
    law = guide(laws, model, speed=0.5)
    assert law.start(Q0)
    push = np.array((0.4 * effort[0], 0, 0, 0, 0, 0))
    path, _ = guided(law, chi, Q0, lambda t: push * (t < 0.5), 0.6)
    speed = np.abs(np.diff(path, axis=0)).max(axis=0) / DT
    free, _ = guided(guide_free(laws, model), chi, Q0, lambda t: push * (t < 0.5), 0.6)
    assert speed[0] < 0.75 * np.abs(np.diff(free, axis=0)).max(axis=0)[0] / DT


def guide_free(laws, model):
    law = guide(laws, model, speed=100.0, lower=np.full(6, -np.inf), upper=np.full(6, np.inf))
    assert law.start(Q0)
    return law


def test_an_arm_that_runs_away_is_braked_until_it_rests(laws, model):
    """The model does not know the load that the arm carries, as when a payload was never told."""
    _, chi, _ = arm()
    law = guide(laws, model, speed=0.3)
    assert law.start(Q0)
    heavy = (8.0, np.array((0.0, 0.0, 0.1)), np.zeros((3, 3)))
    path, modes = guided(law, chi, Q0, lambda t: np.zeros(6), 1.5, heavy)
    speed = np.abs(np.diff(path, axis=0)) / DT
    free, _ = guided(guide_free(laws, model), chi, Q0, lambda t: np.zeros(6), 1.5, heavy)
    assert np.any(modes == BRAKE)
    assert speed.max() < 0.4 * np.abs(np.diff(free, axis=0)).max() / DT
    law = guide(laws, model, speed=0.3)
    assert law.start(Q0)
    fast, still = np.array((0.7, 0, 0, 0, 0, 0)), np.zeros(6)
    assert law.step(Q0, fast) and law.mode() == BRAKE
    for _ in range(495):
        assert law.step(Q0, still) and law.mode() == BRAKE
    for _ in range(10):
        law.step(Q0, still)
    assert law.mode() == GUIDE


def test_the_range_has_a_wall(laws, model):
    _, chi, effort = arm()
    lower, upper = Q0 - 1.0, Q0 + 0.3
    push = np.array((0.15 * effort[0], 0, 0, 0, 0, 0))
    law = guide(laws, model, lower=lower, upper=upper, speed=1.0)
    assert law.start(Q0)
    path, _ = guided(law, chi, Q0, lambda t: push, 2.0)
    assert path[:, 0].max() < upper[0]  # 0.15 of the limit: less than the wall's 0.25
    assert not law.start(upper + 0.01)
    assert not law.start(np.full(6, np.nan))


def test_guiding_survives_the_loss_of_state_and_model(laws, model, tmp_path):
    robot, chi, _ = arm()
    law = guide(laws, model)
    assert law.start(Q0)
    for _ in range(200):
        assert law.step(Q0, np.zeros(6))
    results = [law.step(np.full(6, np.nan), np.zeros(6)) for _ in range(200)]
    assert all(results[:49]) and not any(results[51:])
    assert law.mode() == BLIND and np.allclose(law.torque, held(Q0), atol=1e-9)
    lost = chi.copy()
    lost[0 : 14 * 6 : 14] = 1e300
    lost[6 : 14 * 6 : 14] = 1e308  # first moments: torques overflow
    (tmp_path / "lost.dynid").write_bytes(runtime_bytes(robot, lost))
    law = guide(laws, model)
    assert law.start(Q0)
    assert law.parameters(str(tmp_path / "lost.dynid").encode())
    results = [law.step(Q0, np.zeros(6)) for _ in range(200)]
    assert all(results[:49]) and not any(results[51:])
    assert np.allclose(law.torque, held(Q0), atol=1e-9)  # what was last known
    assert law.parameters(str(model).encode())
    assert law.step(Q0, np.zeros(6))
    assert law.friction(ctypes.c_double(0.9)) and not law.friction(ctypes.c_double(1.0))


def test_guiding_bounds_hold_whatever_comes(laws, model):
    rng = np.random.default_rng(7)
    _, _, effort = arm()
    law = guide(laws, model)
    assert law.start(Q0)
    last = law.torque
    for _ in range(2000):
        q, dq = rng.normal(size=(2, 6)) * 10.0 ** rng.integers(-1, 4)
        if rng.random() < 0.2:
            q[rng.integers(6)] = rng.choice([np.nan, np.inf, 1e308])
        dt = rng.choice([DT, 0.05, np.nan, -1.0])
        law.step(q, dq, dt)
        torque = law.torque
        assert np.all(np.isfinite(torque)) and np.all(np.abs(torque) <= effort)
        assert np.all(np.abs(torque - last) <= 20 * effort * 2 * DT * (1 + 1e-9))
        last = torque


# --- the end, and one step after each event


def law_of(laws, path, kind, **options):
    return (follower if kind == "follow" else guide)(laws, path, **options)


@pytest.mark.parametrize("kind", ["follow", "guide"])
@pytest.mark.parametrize("adds", ["nothing", "gravity+friction:0.6"])
def test_the_last_command_holds_the_arm_and_brakes_with_half_of_what_friction_holds(laws, tmp_path, kind, adds):
    robot, chi, effort = arm()
    path = adding(tmp_path, robot, chi, [adds])
    declared = added_effort(adds)
    law = law_of(laws, path, kind)
    smoothing = SMOOTHING if kind == "follow" else 0.05
    brake = 0.5 * (1 - declared.friction) * by_joint(robot, chi)[:, Fc]
    hold = held(Q0) * (not declared.gravity)
    assert law.start(Q0) and law.step(Q0, np.full(6, 0.1))
    assert law.end(Q0, np.full(6, 0.9 * smoothing)) and np.allclose(law.torque, hold, rtol=1e-12, atol=1e-12)
    for joint in range(6):
        for speed in (1.1 * smoothing, -3.0):
            dq = np.zeros(6)
            dq[joint] = speed
            assert not law.end(Q0, dq)
            assert np.allclose(law.torque, hold - np.sign(dq) * brake, rtol=1e-12, atol=1e-12)
        for wrong in (np.nan, np.inf):
            dq = np.full(6, 1.0)
            dq[joint] = wrong
            assert not law.end(Q0, dq)  # an unknown speed is no rest, and is not braked
            assert np.allclose(law.torque, hold - brake * np.isfinite(dq), rtol=1e-12, atol=1e-12)
            q = Q0 + 0.2
            q[joint] = wrong
            law.end(q, np.zeros(6))  # where the arm was last seen
            assert np.allclose(law.torque, hold, rtol=1e-12, atol=1e-12)
    assert np.all(np.abs(law.torque) <= effort)
    light = law_of(laws, path, kind, **({"limits": 1.0} if kind == "follow" else {}))
    assert light.start(Q0)
    light.end(Q0, np.ones(6))
    assert kind == "guide" or np.all(np.abs(light.torque) <= 1.0 + np.abs(held(Q0)) * declared.gravity)


@pytest.mark.parametrize("kind", ["follow", "guide"])
def test_an_arm_that_is_left_in_motion_comes_to_rest_sooner_and_stays(laws, model, kind):
    robot, chi, _ = arm()
    law = law_of(laws, model, kind)
    assert law.start(Q0)
    push = np.array((25.0, 0.0, 0.0, 3.0, 3.0, 2.0))
    paths = []
    for braked in (True, False):
        plant = SimulatedRobot(robot, chi, start=Q0, imperfections=Imperfections(torque_noise=0.0))
        for _ in range(150):
            measured = plant.step(held(plant.positions) + push)
        assert np.abs(measured.dq).max() > 0.3
        law.end(measured.q, measured.dq if braked else np.zeros(6))
        path = [plant.positions]
        for _ in range(1500):
            plant.step(law.torque)
            path.append(plant.positions)
        paths.append(np.array(path))
    moved = np.abs(np.diff(paths[0][-300:], axis=0)).max() / DT
    assert moved < SMOOTHING  # it rests: friction holds what is left, up to its creep in the simulation
    assert np.abs(paths[0][-1] - paths[0][0]).sum() < 0.85 * np.abs(paths[1][-1] - paths[1][0]).sum()


def test_one_step_after_each_event(laws, model, tmp_path):
    """Each joint has limits and rates of its own; a step fades over the ramp, within them."""
    robot, chi, effort = arm()
    rng = np.random.default_rng(21)
    limits, rates = effort * rng.uniform(0.5, 0.9, 6), effort * rng.uniform(2.0, 6.0, 6)
    other = chi * rng.uniform(0.8, 1.2, len(chi))
    (tmp_path / "other.dynid").write_bytes(runtime_bytes(robot, other))
    q, dq, q_r, dq_r, ddq_r = 0.2 * rng.uniform(-1, 1, (5, 6))
    kp, kd, damping = rng.uniform(50, 100, 6), rng.uniform(5, 10, 6), rng.uniform(1, 8, 6)
    load = (1.5, 0.0, 0.02, 0.05)
    carried = load_parameters(robot, Load(load[0], np.array(load[1:]), np.zeros((3, 3)), 6), len(chi))
    lost = np.where(np.arange(6) == 3, np.nan, q)

    def follow_torque(parameters, p=kp, d=kd):
        return reference_torque(parameters, q_r, dq_r, ddq_r) + p * (q_r - q) + d * (dq_r - dq)

    def still_torque(parameters):
        return gravity_torque(robot, parameters, q[None])[0] + by_joint(robot, parameters)[:, OFF]

    events = {
        "gains": (lambda law: law.gains(2 * kp, 3 * kd, damping), (q, dq), follow_torque(chi, 2 * kp, 3 * kd)),
        "payload": (lambda law: law.payload(6, *map(ctypes.c_double, load)), (q, dq), follow_torque(chi + carried)),
        "parameters": (
            lambda law: law.parameters(str(tmp_path / "other.dynid").encode()),
            (q, dq),
            follow_torque(other),
        ),
        "no reference": (lambda law: law.clear() or True, (q, dq), still_torque(chi) - damping * dq),
        "beyond": (lambda law: not law.reference(q_r + 9.0, dq_r, ddq_r), (q, dq), still_torque(chi) - damping * dq),
        "lost": (lambda law: True, (lost, dq), still_torque(chi)),
        "nothing": (lambda law: True, (q, dq), follow_torque(chi)),
    }
    for name, (change, state, goal) in events.items():
        law = follower(laws, model, kp, kd, damping, limits, rates)
        assert law.start(q)
        settle(law, q, dq, steps=600, reference=(q_r, dq_r, ddq_r))
        before = law.torque
        assert np.allclose(before, np.clip(follow_torque(chi), -limits, limits), rtol=1e-9, atol=1e-9), name
        if name not in ("no reference", "beyond"):
            assert law.reference(q_r, dq_r, ddq_r)
        assert change(law) and law.step(*state), name
        wanted = np.clip(goal + (1 - DT / RAMP) * (before - goal), -limits, limits)
        expected = before + np.clip(wanted - before, -rates * DT, rates * DT)
        assert np.allclose(law.torque, expected, rtol=1e-9, atol=1e-9), name
        assert (np.abs(law.torque - before).max() > 1e-3) == (name != "nothing"), name


def test_an_end_without_a_position_holds_the_arm_where_it_was_last_seen(laws, model):
    """Not where it was last held: it has followed a reference since."""
    law, still = follower(laws, model), np.zeros(6)
    assert law.start(Q0)
    settle(law, Q0 + 0.3, still, steps=5, reference=(Q0 + 0.3, still, still))
    assert law.end(np.where(np.arange(6) == 2, np.nan, Q0), still)
    assert np.allclose(law.torque, held(Q0 + 0.3), rtol=1e-12, atol=1e-12)


def test_new_damping_acts_without_a_reference(laws, model):
    dq, damping = np.linspace(0.05, 0.2, 6), np.linspace(9.0, 2.0, 6)
    law = follower(laws, model)
    assert law.start(Q0) and law.gains(np.full(6, 50.0), np.full(6, 5.0), damping)
    settle(law, Q0, dq)
    assert np.allclose(law.torque, held(Q0) - damping * dq, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["follow", "guide"])
def test_a_state_that_is_not_finite_is_noticed_at_every_input(laws, model, kind):
    for which in range(2):
        for joint in range(6):
            for wrong in (np.nan, np.inf, -np.inf):
                state = np.array((Q0, np.full(6, 0.1)))
                law = law_of(laws, model, kind)
                assert law.start(Q0) and law.step(*state)
                state[which, joint] = wrong
                for _ in range(150):
                    well = law.step(*state)
                assert not well and law.mode() == BLIND
                assert np.allclose(law.torque, held(Q0), rtol=1e-9, atol=1e-9)
                assert which or not law.start(state[0])


@pytest.mark.parametrize("kind", ["follow", "guide"])
def test_nothing_of_the_last_activation_is_left(laws, model, tmp_path, kind):
    """A ramp that was not finished, a reference, a brake and a lost state end with the activation."""
    robot, chi, _ = arm()
    (tmp_path / "other.dynid").write_bytes(runtime_bytes(robot, 0.5 * chi))
    q, still = Q0 + 0.1, np.zeros(6)
    law = law_of(laws, model, kind)
    for last in ("ramp", "change", "lost", "brake", "reference"):
        assert law.start(Q0) and law.parameters(str(model).encode()) and law.step(Q0, still)
        settle(law, Q0, still)
        if last in ("ramp", "change"):
            assert law.parameters(str(tmp_path / "other.dynid").encode())
            for _ in range(20 if last == "ramp" else 0):
                assert law.step(Q0, still)
            assert law.parameters(str(model).encode()) and (last == "change" or law.step(Q0, still))
        elif last == "lost":
            assert not [law.step(np.full(6, np.nan), still) for _ in range(60)][-1]
        elif last == "brake":
            law.step(Q0, np.full(6, 9.0))
        elif kind == "follow":
            assert law.reference(Q0, still, np.full(6, 3.0)) and law.step(Q0, still)
            assert law.reference(Q0, still, np.full(6, 3.0))
        assert law.start(q), last
        assert law.mode() == 0 and np.allclose(law.torque, held(q), rtol=1e-12, atol=1e-12), last
        assert law.step(q, still) and law.mode() == 0, last
        assert np.allclose(law.torque, held(q), rtol=1e-9, atol=1e-9), last
        assert law.step(np.full(6, np.nan), still), last  # the time of a loss begins anew


# --- each guard of hand guiding alone


SPEED = np.array((0.8, 0.9, 1.0, 1.1, 1.2, 1.3))
LOWER, UPPER = Q0 - np.array((1.0, 1.1, 1.2, 1.3, 1.4, 1.5)), Q0 + np.array((1.5, 1.4, 1.3, 1.2, 1.1, 1.0))


def guided_torque(q, dq, brake=False, fraction=0.6, damping=0.0, wall=0.25, time=0.05, margin=0.1):
    """Return the torque of hand_guiding_law.hpp's equation, guard by guard."""
    robot, chi, effort = arm()
    gravity, off = gravity_torque(robot, chi, q[None])[0], by_joint(robot, chi)[:, OFF]
    help_ = fraction * (smooth_friction(robot, chi).torque(dq, 0.05, gravity) - off)
    help_ *= np.clip(2 - 2 * np.abs(dq) / SPEED, 0, 1) * (not brake)
    above, below = (np.clip(1 + x / margin, 0, 2) for x in (q - UPPER, LOWER - q))
    inside, side = np.maximum(above, below), np.where(above > below, 1.0, -1.0)
    outward = dq * side > 0
    help_[outward] *= np.maximum(0, 1 - inside[outward])
    over = np.sign(dq) * np.maximum(0, np.abs(dq) - SPEED)
    over = np.where(outward, over + np.minimum(1, inside) * (dq - over), over)
    over = dq if brake else over
    M = inertia_matrix(robot, chi, q[None])[0]
    return gravity + off + help_ - damping * dq - side * wall * effort * inside - M @ over / time


@pytest.mark.parametrize("joint", range(6))
@pytest.mark.parametrize("guard", ["none", "speed", "helps less", "upper", "lower", "beyond", "inward", "brake"])
def test_each_guard_alone(laws, model, joint, guard):
    effort = arm()[2]
    q, dq = Q0.copy(), np.zeros(6)
    dq[joint] = {"speed": 1.5, "helps less": 0.75, "brake": 2.01}.get(guard, 0.2) * SPEED[joint]
    if guard in ("upper", "inward"):
        q[joint] = UPPER[joint] - 0.03
    elif guard == "lower":
        q[joint] = LOWER[joint] + 0.03
    elif guard == "beyond":
        q[joint] = UPPER[joint] + 0.05
    dq[joint] *= -1 if guard in ("lower", "inward") else 1
    law = guide(laws, model, friction=0.6, speed=SPEED, lower=LOWER, upper=UPPER, rates=1e9)
    assert law.start(Q0) and law.step(Q0, np.zeros(6))
    law.step(q, dq)
    assert law.mode() == (BRAKE if guard == "brake" else GUIDE)
    expected = guided_torque(q, dq, guard == "brake")
    assert np.allclose(law.torque, np.clip(expected, -effort, effort), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("joint", range(6))
def test_the_brake_acts_at_once_and_lets_go_when_every_joint_rests(laws, model, joint):
    effort = arm()[2]
    law = guide(laws, model, friction=0.6, speed=SPEED, lower=LOWER, upper=UPPER, rates=1e9)
    assert law.start(Q0) and law.step(Q0, np.zeros(6))
    dq = np.zeros(6)
    dq[joint] = 2.01 * SPEED[joint]
    for _ in range(3):  # the whole brake in the first step: nothing is faded in
        assert law.step(Q0, dq) and law.mode() == BRAKE
        assert np.allclose(law.torque, np.clip(guided_torque(Q0, dq, True), -effort, effort), rtol=1e-9, atol=1e-9)
    dq[joint] = 0.11 * SPEED[joint]
    for _ in range(700):  # all others rest, this one does not
        assert law.step(Q0, dq) and law.mode() == BRAKE
    dq[joint] = 0.09 * SPEED[joint]
    modes = [law.step(Q0, dq) and law.mode() for _ in range(510)]
    assert modes[495] == BRAKE and modes[503] == GUIDE


# --- models and loads from messages


def message_robots():
    rng = np.random.default_rng(5)
    tree = random_robot(rng, 7, tree=True)
    sprung = with_forces(with_terms(load_robot("demo6"), rng))
    loop = with_forces(coupled_loop(rng))
    return {"tx40": load_robot("tx40"), "demo6": load_robot("demo6"), "tree": tree, "sprung": sprung, "loop": loop}


@pytest.mark.parametrize("name", list(message_robots()))
def test_the_message_gives_the_model_of_its_leaders(laws, tmp_path, name):
    robot = message_robots()[name]
    base = base_parameters(robot)
    rng = np.random.default_rng(6)
    values = rng.uniform(-1, 1, len(base))
    chi = np.zeros(len(standard_names(robot)))
    chi[[standard_names(robot).index(name) for name in base.leaders]] = values
    path = tmp_path / "robot.dynid"
    path.write_bytes(runtime_bytes(robot, np.ones(len(chi))))
    leaders = list(base.leaders)
    q, dq, ddq = rng.uniform(-2, 2, (3, len(robot.active)))
    tau = np.zeros(len(robot.active))

    def ask(names, numbers):
        return laws.message_torque(
            str(path).encode(),
            " ".join(names).encode(),
            doubles(numbers),
            doubles(q),
            doubles(dq),
            doubles(ddq),
            doubles(tau),
        )

    assert ask(leaders, values), laws.why()
    expected = inverse_dynamics(robot, chi, q[None], dq[None], ddq[None])[0]
    assert np.abs(tau - expected).max() <= 1e-12 * np.abs(expected).max()
    assert not ask(leaders, np.where(np.arange(len(values)) == 3, np.nan, values)) and b"not finite" in laws.why()
    assert not ask(["ZZ99"], values) and b"ZZ99" in laws.why()
    assert not ask([], values)


def test_friction_at_a_temperature_is_that_of_the_law(laws, tmp_path):
    """From a file and from a message; beyond where the line crosses zero friction does not push."""
    warm = (
        FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, -0.15, reference=35.0),
        FrictionTerm(3, FrictionKind.TEMPERATURE, 0.04, reference=28.0),
    )
    rng = np.random.default_rng(4)
    for forces in (False, True):
        robot = with_terms(with_forces(load_robot("demo6")) if forces else load_robot("demo6"), rng)
        robot = replace(robot, friction=(*robot.friction, *warm))
        chi = rng.uniform(0.5, 1.5, len(standard_names(robot)))
        chi[14 + 11] = 8.0  # Fv2
        (tmp_path / "warm").write_bytes(runtime_bytes(robot, chi))
        q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 6))
        tau = np.zeros(6)

        def ask(T, message, motion=(q, dq, ddq), tau=tau):
            path = str(tmp_path / "warm").encode()
            return laws.warm_torque(path, message, doubles(T), len(T), *(doubles(x) for x in motion), doubles(tau))

        for message in (False, True):
            for T in (np.full(6, 50.0), np.array([np.nan, 20.0, np.nan, 1.0, 2.0, 3.0]), np.full(6, np.nan)):
                assert ask(T, message), laws.why()
                expected = inverse_dynamics(robot, chi, q[None], dq[None], ddq[None], T[None])[0]
                assert np.abs(tau - expected).max() <= 1e-12 * np.abs(expected).max()
            hot = np.full(6, 150.0)
            assert ask(hot, message), laws.why()
            expected = inverse_dynamics(*at_temperature(robot, chi, hot), q[None], dq[None], ddq[None])[0]
            assert np.abs(tau - expected).max() <= 1e-12 * np.abs(expected).max()
            assert not ask(hot[:5], message) and b"5 temperatures for 6 joints" in laws.why()


def test_parameters_of_another_robot_are_refused(laws, tmp_path):
    robot = load_robot("demo6")
    longer = replace(robot.joints[2], d=robot.joints[2].d + 0.01)
    joints = (*robot.joints[:2], longer, *robot.joints[3:])
    others = {
        "same": robot,
        "longer": replace(robot, joints=joints),
        "hanging": replace(robot, gravity=-robot.gravity),
        "sprung": with_forces(robot),
        "other": load_robot("tx40"),
    }
    loop = coupled_loop(np.random.default_rng(5))
    for k, following in enumerate(loop.passive):
        moved = [replace(p, offset=p.offset + 0.01) if j == k else p for j, p in enumerate(loop.passive)]
        others[f"loop {following.joint}"] = replace(loop, passive=tuple(moved))
    for name, one in (*others.items(), ("loop", loop)):
        (tmp_path / name).write_bytes(runtime_bytes(one, np.ones(len(standard_names(one)))))
    for name in others:
        first = "loop" if name.startswith("loop") else "same"
        assert laws.same_robot(*(str(tmp_path / x).encode() for x in (first, name))) == (name == "same")
    assert b"closed loop differs" in laws.why()


def test_a_payload_is_given_at_a_link(laws, model):
    robot, chi, effort = arm()
    link, (joint, T) = next(iter(robot.tools.items()))
    I = np.diag((0.02, 0.03, 0.04)) + 0.001
    com, R = np.array((0.05, -0.02, 0.1)), T[:3, :3]
    body = np.array((2.0, *com, *I[np.triu_indices(3)]))
    rng = np.random.default_rng(8)
    q, ddq = rng.uniform(-1, 1, (2, 6))
    load = Load(2.0, R @ com + T[:3, 3], R @ I @ R.T, joint)
    expected = inverse_dynamics(robot, chi + load_parameters(robot, load, len(chi)), q[None], 0 * q[None], ddq[None])[0]
    for name in (link, ""):
        tau = np.zeros(6)
        arguments = (doubles(x) for x in (body, q, ddq, tau))
        assert laws.payload_torque(str(model).encode(), name.encode(), *arguments)
        assert np.abs(tau - expected).max() <= 1e-12 * np.abs(expected).max()
    arrays = [doubles(x) for x in (body, q, ddq, tau)]
    assert not laws.payload_torque(str(model).encode(), b"nothing", *arrays)
    assert link.encode() in laws.why()
    body[0] = -1.0
    assert not laws.payload_torque(str(model).encode(), b"", *arrays)
    assert laws.holds(str(model).encode(), 6, ctypes.c_double(1.0), doubles(effort), doubles(Q0)), laws.why()
    assert not laws.holds(str(model).encode(), 6, ctypes.c_double(500.0), doubles(effort), doubles(Q0))
    assert not laws.holds(str(model).encode(), 6, ctypes.c_double(500.0), doubles(effort), None)


@pytest.mark.parametrize("name", ["demo6", "loop"])
def test_the_jacobian_is_the_derivative_of_the_pose(laws, tmp_path, name):
    robot = load_robot("demo6") if name == "demo6" else coupled_loop(np.random.default_rng(5))
    n, step = len(robot.active), 1e-6
    if not robot.tools:
        turned = frames(robot, np.full((1, n), 0.3))[0, robot.n - 1]
        robot = replace(robot, tools={"hand": (robot.n, turned)})
    link, (joint, T) = next(iter(robot.tools.items()))
    path = tmp_path / "robot.dynid"
    path.write_bytes(runtime_bytes(robot, np.ones(len(standard_names(robot)))))
    q = np.random.default_rng(3).uniform(-1, 1, n)
    J = np.zeros((6, n))
    laws.link_jacobian(str(path).encode(), link.encode(), doubles(q), J.ctypes.data_as(ctypes.c_void_p))
    here = frames(robot, q[None])[0, joint - 1] @ T
    for a in range(n):
        ahead, behind = (frames(robot, (q + d * np.eye(n)[a])[None])[0, joint - 1] @ T for d in (step, -step))
        change = here[:3, :3].T @ (ahead - behind)[:3] / (2 * step)
        spin = np.array((change[2, :3] @ (0, 1, 0), change[0, :3] @ (0, 0, 1), change[1, :3] @ (1, 0, 0)))
        assert np.allclose(J[:, a], np.concatenate((change[:, 3], spin)), atol=1e-8), a


def test_the_pose_of_a_link(laws, model):
    robot = arm()[0]
    link, (joint, T) = next(iter(robot.tools.items()))
    out = np.zeros(12)
    laws.link_pose(str(model).encode(), link.encode(), doubles(Q0), doubles(out))
    expected = frames(robot, Q0[None])[0, joint - 1] @ T
    assert np.allclose(out[:9].reshape(3, 3), expected[:3, :3], atol=1e-14)
    assert np.allclose(out[9:], expected[:3, 3], atol=1e-14)


# --- what the robot adds itself


ADDS = ("nothing", "gravity", "arm-gravity", "gravity+friction:0.8", "friction:0.3", "arm-gravity+friction:1")


def adding(tmp_path, robot, chi, texts, name="adding.dynid"):
    path = tmp_path / name
    path.write_bytes(runtime_bytes(declare_added_effort(robot, texts), chi))
    return path


def laws_robots():
    rng = np.random.default_rng(11)
    return {
        "demo6": load_robot("demo6"),
        "sprung": with_forces(with_terms(load_robot("demo6"), rng)),
        "coupled": load_robot("tx40"),
        "loop": load_robot("hitachi_hpr"),
    }


@pytest.mark.parametrize("name", list(laws_robots()))
def test_both_laws_leave_out_what_the_robot_adds_as_in_python(laws, tmp_path, name):
    rng = np.random.default_rng(12)
    robot = laws_robots()[name]
    n = len(robot.active)
    chi = np.array(true_parameters(robot, 3) if not robot.passive else standard_vector(robot))
    by_joint(robot, chi)[:, OFF] = rng.uniform(-2.0, 2.0, robot.n)
    load = Load(0.8, np.array((0.02, -0.03, 0.1)), np.zeros((3, 3)), robot.active[-1])
    loaded = chi + load_parameters(robot, load, len(chi))
    model = FeedforwardModel(robot, loaded, FeedforwardModel(robot, chi))
    limits = [robot.joints[j - 1].limits for j in robot.active]
    middle = np.array([(one.lower + one.upper) / 2 if np.isfinite(one.lower + one.upper) else 0.0 for one in limits])
    kp, kd, damping, wide = (np.full(n, x) for x in (30.0, 3.0, 8.0, 1e7))
    for _ in range(6):
        texts = [ADDS[k] for k in rng.integers(0, len(ADDS), n)]
        path = adding(tmp_path, robot, chi, texts)
        adds = added_by_joint(declare_added_effort(robot, texts))
        q, q_r = middle + 0.1 * rng.uniform(-1, 1, (2, n))
        dq, dq_r, ddq_r = 0.3 * rng.uniform(-1, 1, (3, n))
        numbers = [ctypes.c_double(x) for x in (0.0, 2 * DT, SMOOTHING, TIMEOUT)]
        lists = np.concatenate((kp, kd, damping, wide, 1e9 * wide))
        follow = Law(laws, "follow", laws.follow_new(str(path).encode(), doubles(lists), *numbers), n)
        assert follow.payload(load.joint, *map(ctypes.c_double, (load.mass, *load.com)))
        still = model.gravity(q) + model.offset - added_torque(model, adds, q, model.offset)
        assert follow.start(q)
        assert np.allclose(follow.torque, still, rtol=1e-9, atol=1e-9)
        assert follow.reference(q_r, dq_r, ddq_r) and follow.step(q, dq)
        rigid = model.rigid(q_r, dq_r, ddq_r)
        friction = model.friction(q_r, dq_r, SMOOTHING, rigid)
        left = rigid + friction - added_torque(model, adds, q_r, friction)
        assert np.allclose(follow.torque, left + kp * (q_r - q) + kd * (dq_r - dq), rtol=1e-9, atol=1e-8)
        assert follow.end(q, 0 * q)
        assert np.allclose(follow.torque, still, rtol=1e-9, atol=1e-9)

        columns = (np.full(n, 10.0), middle - 3, middle + 3, np.full(n, 0.1), damping, wide, 1e9 * wide)
        options = map(ctypes.c_double, (0.6, 0.0, 2 * DT))
        guiding = Law(laws, "guide", laws.guide_new(str(path).encode(), doubles(np.concatenate(columns)), *options), n)
        assert guiding.payload(load.joint, *map(ctypes.c_double, (load.mass, *load.com)))
        assert guiding.start(q)
        assert np.allclose(guiding.torque, still, rtol=1e-9, atol=1e-9)
        assert guiding.step(q, dq)
        friction = model.friction(q, dq, 0.05, model.gravity(q))
        total = model.gravity(q) + model.offset + 0.6 * (friction - model.offset) - damping * dq
        assert np.allclose(guiding.torque, total - added_torque(model, adds, q, friction), rtol=1e-9, atol=1e-8)
        assert guiding.end(q, 0 * q)
        assert np.allclose(guiding.torque, still, rtol=1e-9, atol=1e-9)


def test_an_arm_that_adds_gravity_is_guided_and_followed_without_it(laws, tmp_path):
    """The simulated arm holds itself: guided, it stays where it is let go; left, it has a command of nearly nothing."""
    robot, chi, effort = arm()
    adds = added_by_joint(declare_added_effort(robot, ["gravity+friction:0.5"]))
    path = adding(tmp_path, robot, chi, ["gravity+friction:0.5"])
    plant = SimulatedRobot(robot, chi, start=Q0, imperfections=Imperfections(torque_noise=0.0), adds=adds)
    for law in (guide(laws, path), follower(laws, path)):
        assert law.start(Q0)
        assert np.allclose(law.torque, 0.0, atol=1e-9)
        measured = plant.measure()
        for _ in range(800):
            assert law.step(measured.q, measured.dq)
            measured = plant.step(law.torque)
            assert np.all(np.abs(law.torque) < 0.02 * effort)
        assert np.abs(plant.positions - Q0).max() < 2e-3


def test_the_declaration_is_read_from_texts_files_and_messages(laws, tmp_path):
    robot, chi, _ = arm()
    silent = replace(robot, joints=tuple(replace(joint, adds=None) for joint in robot.joints))
    for name, one in (("silent", silent), ("plain", robot), ("lifted", declare_added_effort(robot, ["gravity"]))):
        (tmp_path / name).write_bytes(runtime_bytes(one, chi))
    out = np.zeros((6, 4))

    def ask(name, texts, places=tuple(range(6)), message=False):
        path = str(tmp_path / name).encode()
        return laws.declared(path, texts.encode(), doubles(places), message, doubles(out))

    assert not ask("silent", "") and b"`robot_adds` to nothing, gravity, arm-gravity" in laws.why()
    with pytest.raises(AssertionError):
        follower(laws, tmp_path / "silent")
    assert b"robot_adds" in laws.why()
    with pytest.raises(AssertionError):
        guide(laws, tmp_path / "silent")
    for message in (False, True):
        assert ask("plain", "-", message=message) and np.array_equal(out, np.tile((1.0, 0, 0, 0), (6, 1)))
        assert ask("lifted", "", message=message) and np.array_equal(out, np.tile((1.0, 1, 1, 0), (6, 1)))
        assert ask("silent", " ".join(ADDS), tuple(range(6))[::-1], message)
        expected = [added_effort(text) for text in reversed(ADDS)]
        assert np.allclose(out, [(1.0, one.gravity, one.payload, one.friction) for one in expected])
    for wrong in ("everything", "gravity+", "gravityfriction:0.5", "friction:", "friction:1.1", "friction:-0.1",
                  "friction:0.5+gravity", "gravity+friction:x", "gravity+friction:0.5x", "arm-gravity+gravity",
                  "nothing+gravity", "+friction:0.5", "gravity nothing"):  # fmt: skip
        assert not ask("silent", wrong), wrong
        with pytest.raises(InputError):
            added_effort(wrong)
    damaged = bytearray((tmp_path / "lifted").read_bytes())
    damaged[-8:] = np.array(1.5).tobytes()
    damaged[12:16] = zlib.crc32(damaged[20:]).to_bytes(4, "little")
    (tmp_path / "damaged").write_bytes(damaged)
    assert not ask("damaged", "") and b"share of friction" in laws.why()


# --- what efforts measured at rest say against it


FINDINGS = {
    0: "",
    1: "the robot seems to hold itself",
    2: "it would fall",
    3: "are declared to hold no gravity",
}


@pytest.mark.parametrize("measures", ["", "motor", "motor-gravity"])
def test_a_wrong_declaration_is_noticed_at_rest_as_in_python(laws, tmp_path, measures):
    rng = np.random.default_rng(21)
    plain, chi, effort = arm()
    found = []
    for _ in range(60):
        adds = [ADDS[k] for k in rng.integers(0, len(ADDS), 6)] if rng.uniform() < 0.3 else [ADDS[rng.integers(0, 3)]]
        adds = ["gravity"] if measures == "motor-gravity" else adds
        robot = declare_added_effort(declared_sensors(plain, measures) if measures else plain, adds)
        robot = robot if measures_gravity(robot) else with_gravity(robot, (0.0, 0.0, 0.0))
        path = adding(tmp_path, robot, chi, [])
        law = follower(laws, path)
        q = Q0 + 0.5 * rng.uniform(-1, 1, 6)
        share = rng.choice([0.0, 1.0]) + rng.choice([0.02, 0.3]) * rng.normal(size=6)
        tau = share * held(q) + 0.1 * rng.normal(size=6)
        declared = EffortCommand(added_by_joint(robot), effort, True if measures == "motor" else None)
        expected = judge_rest(FeedforwardModel(robot, chi), declared, SMOOTHING, (q, tau))
        verdict = law.judge(q, np.zeros(6), tau)
        assert FINDINGS[verdict] in expected and bool(verdict) == bool(expected), (expected, laws.why())
        assert FINDINGS[verdict].encode() in laws.why() and b"\n" not in laws.why()
        found.append(verdict)
        for unknown in (np.zeros(6), np.where(np.arange(6) == 4, np.nan, tau)):
            assert not law.judge(q, np.zeros(6), unknown)
        assert not law.judge(np.where(np.arange(6) == 2, np.nan, q), np.zeros(6), tau)
        for speed in (0.03, -0.03, np.nan):
            assert not law.judge(q, np.where(np.arange(6) == 5, speed, 0.0), tau)
    assert set(found) == {"": {0, 1, 2}, "motor": {0, 1}, "motor-gravity": {0, 3}}[measures]


def test_a_model_of_efforts_that_lack_a_part_keeps_its_declaration(laws, tmp_path):
    """Declared anew, what is left to command would be wrong: without gravity nobody would hold the arm."""
    robot, chi, _ = arm()
    blind = with_gravity(declared_sensors(robot, "motor-gravity"), (0.0, 0.0, 0.0))
    out = np.zeros((6, 4))

    def ask(path, texts):
        return laws.declared(str(path).encode(), texts.encode(), doubles(tuple(range(6))), False, doubles(out))

    with pytest.raises(InputError, match="declared not to add it"):
        runtime_bytes(declare_added_effort(blind, ["nothing"]), chi)
    silent = replace(blind, joints=tuple(replace(joint, adds=None) for joint in blind.joints))
    (tmp_path / "silent").write_bytes(runtime_bytes(silent, chi))
    for sensor in ("motor-gravity", "motor-friction:0.5"):
        path = adding(tmp_path, declared_sensors(robot, sensor), chi, ["gravity+friction:0.8"])
        assert ask(path, "") and np.all(out[:, 0] == 1.0)
        for texts in ("nothing", "gravity"):
            assert not ask(path, texts) and b"leave `robot_adds` empty" in laws.why()
    assert not ask(tmp_path / "silent", "") and not ask(tmp_path / "silent", "nothing")


# --- streamed references


def test_streamed_references_are_put_into_order_and_what_is_wrong_is_counted(laws):
    names, n = ("a", "b", "c"), 3
    reader = ctypes.c_void_p(laws.reader_new(b"a b c", ctypes.c_double(0.05)))
    refused = ctypes.c_void_p(laws.refused_new())
    out = np.zeros(9)
    values = np.arange(1.0, 10.0)

    def take(order=names, points=1, sizes=(n, n, n), numbers=values, stamp=0.0, now=100.0):
        arguments = (" ".join(order).encode(), points, doubles(sizes), doubles(numbers))
        return laws.reader_take(reader, refused, *arguments, ctypes.c_double(stamp), ctypes.c_double(now), doubles(out))

    def news():
        laws.refused_news(refused)
        return laws.why().decode()

    assert take() and np.array_equal(out, values)
    assert take(("c", "a", "b")) and np.array_equal(out, (2, 3, 1, 5, 6, 4, 8, 9, 7))
    assert news() == ""
    for wrong, text in (
        ({"points": 0}, "without exactly one point"),
        ({"points": 2}, "without exactly one point"),
        ({"order": ("a", "b")}, "of other joints"),
        ({"order": ("a", "b", "x")}, "of other joints"),
        ({"order": ("a", "b", "b")}, "of other joints"),
        ({"order": ()}, "of other joints"),
        ({"sizes": (3, 3, 0)}, "without one position"),
        ({"sizes": (2, 3, 3)}, "without one position"),
        *(({"numbers": np.where(np.arange(9) == k, np.nan, values)}, "not finite") for k in range(9)),
        ({"stamp": 99.9}, "too old or ahead"),
        ({"stamp": 100.1}, "too old or ahead"),
    ):
        assert not take(**wrong), wrong
        assert news().startswith(f"references refused: 1 {text}"), wrong
    before = out.copy()
    assert take(stamp=99.99) and take(stamp=99.995)
    assert not take(stamp=99.995) and not take(stamp=99.99, numbers=2 * values)  # again, and late
    assert news() == "references refused: 2 not newer than the one before" and news() == ""
    assert np.array_equal(out, values) and len(before) == 9
    assert take() and take(stamp=99.996)  # without a stamp there is no order
    assert take(stamp=50.0, now=50.01) and not take(stamp=49.99, now=50.02)  # the clock is set back: it begins anew
    laws.reader_delete(reader)
    laws.refused_delete(refused)
