# SPDX-License-Identifier: Apache-2.0

"""The controllers' loops without ros2_control: what is read, decided and written from activation to the end."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.model.efforts import added_by_joint, declare_added_effort
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import OFF, Fc, by_joint
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot
from ros2_dynid.sim.truth import true_parameters
from runtime_robots import INCLUDE, STRICT

HERE = Path(__file__).parent
MISSES = 3  # longest_miss of interface_values.hpp
DT, RAMP, SMOOTHING, TIMEOUT, BRAKE_TIME, STALE = 1e-3, 0.1, 0.02, 0.01, 0.1, 0.1
HOLD, FOLLOW, BLIND = range(3)
BRAKE, PASS = range(2)
RESTS, WRITTEN = 1, 2
KP, KD, DAMPING = np.arange(60.0, 120.0, 10.0), np.arange(6.0, 12.0), np.arange(1.0, 7.0)
Q0 = np.array((0.1, -0.6, 0.5, 0.2, -0.3, 0.1))
STILL = np.zeros(6)
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def doubles(values):
    return np.ascontiguousarray(values, dtype=float).ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    path = tmp_path_factory.mktemp("loops") / "loops.so"
    command = ["g++", *STRICT, "-shared", "-fPIC", "-Wl,-Bsymbolic", f"-I{INCLUDE}", str(HERE / "loops_library.cpp")]
    done = subprocess.run([*command, "-o", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(path))
    library.why.restype = ctypes.c_char_p
    library.allocations.restype = ctypes.c_long
    for name in ("bench_new", "current_new", "reader_new"):
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("bench_start", "bench_follow", "bench_payload", "current_parameters", "current_load"):
        getattr(library, name).restype = ctypes.c_bool
    yield library
    assert library.allocations() == 0  # whatever the tests of this file did


@cache
def arm(adds="nothing"):
    """Return the arm, its true parameters and its effort limits."""
    robot = declare_added_effort(load_robot("demo6"), [adds])
    return robot, true_parameters(robot, 3), np.array([joint.limits.effort for joint in robot.joints])


@pytest.fixture
def model(tmp_path):
    return written(tmp_path, *arm()[:2])


def written(folder, robot, chi, name="arm.dynid"):
    (folder / name).write_bytes(runtime_bytes(robot, chi))
    return folder / name


def limits_and_rates():
    effort = arm()[2]
    return effort * np.linspace(0.9, 0.7, 6), effort * np.linspace(8.0, 20.0, 6)


class Bench:
    """A loop with its interfaces."""

    def __init__(self, loops, kind, path, lead=-1.0, limits=None, rates=None):
        usual = limits_and_rates()
        limits, rates = (x if given is None else np.broadcast_to(given, 6) for x, given in zip(usual, (limits, rates)))  # noqa: B905
        lists = np.concatenate((KP, KD, DAMPING, limits, rates))
        numbers = (lead, DT, RAMP, 2 * DT, SMOOTHING, TIMEOUT, BRAKE_TIME)
        pointer = loops.bench_new(ctypes.c_char(kind.encode()), str(path).encode(), doubles(lists), doubles(numbers))
        assert pointer, loops.why()
        self.loops, self.pointer, self.kind = loops, ctypes.c_void_p(pointer), kind
        self.references = 7 if kind == "e" else 6 if kind == "b" else 18
        self.put("r", np.full(self.references, np.nan))

    def put(self, kind, values):
        self.loops.bench_put(self.pointer, ctypes.c_char(kind.encode()), doubles(np.concatenate(np.atleast_2d(values))))

    def get(self, kind, count):
        out = np.zeros(count)
        self.loops.bench_get(self.pointer, ctypes.c_char(kind.encode()), doubles(out))
        return out

    def hold(self, kind, place, times):
        self.loops.bench_hold(self.pointer, ctypes.c_char(kind.encode()), place, times)

    def start(self, q=Q0, dq=STILL, just_ended=False):
        self.put("s", (q, dq))
        return self.loops.bench_start(self.pointer, just_ended)

    def step(self, q=Q0, dq=STILL, references=None, chained=True, dt=DT):
        self.put("s", (q, dq))
        if references is not None:
            self.put("r", references)
        return bool(self.loops.bench_update(self.pointer, chained, ctypes.c_double(dt)))

    def stop(self, q=Q0, dq=STILL):
        self.put("s", (q, dq))
        return self.loops.bench_stop(self.pointer)

    def follow(self, values):
        return self.loops.bench_follow(self.pointer, doubles(np.concatenate(values)))

    @property
    def mode(self):
        return self.loops.bench_mode(self.pointer)

    @property
    def torque(self):
        return self.get("c", 6)


def held(q, adds="nothing"):
    """Return the command that holds the arm still: gravity and offset, unless the arm adds them."""
    robot, chi, _ = arm(adds)
    return (gravity_torque(robot, chi, q[None])[0] + by_joint(robot, chi)[:, OFF]) * ("gravity" not in adds)


def followed(reference, q, dq, lead):
    """Return the torque of the feedforward law."""
    robot, chi, _ = arm()
    q_r, dq_r, ddq_r = reference
    rigid = inverse_dynamics(*frictionless(robot, chi), q_r[None], dq_r[None], ddq_r[None])[0]
    now, speed = q_r - lead * dq_r + lead**2 / 2 * ddq_r, dq_r - lead * ddq_r
    torque = rigid + smooth_friction(robot, chi).torque(dq_r, SMOOTHING, rigid)
    return torque + KP * (now - q) + KD * (speed - dq)


def braked(q, dq):
    robot, chi, _ = arm()
    return held(q) - inertia_matrix(robot, chi, q[None])[0] @ dq / BRAKE_TIME - DAMPING * dq


@pytest.mark.parametrize("kind", ["f", "b", "g"])
def test_it_begins_with_the_torque_that_holds_the_arm_or_not_at_all(loops, model, kind):
    bench = Bench(loops, kind, model)
    for place in range(12):
        bench.put("c", np.full(6, 7.0))
        state = np.concatenate((Q0, STILL))
        state[place] = np.nan
        assert not bench.start(state[:6], state[6:])
        assert np.all(bench.torque == 7.0)
        assert bench.start()
        bench.hold("s", place, 1)  # held by another thread: what was read before is not taken
        assert not bench.start()
    if kind == "g":
        assert not bench.start(Q0 + 9.0)
    assert bench.start(Q0, np.full(6, 0.1))
    assert np.allclose(bench.torque, held(Q0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lead", [-1.0, 0.0, 0.004])
def test_references_of_another_controller_and_of_the_topic(loops, model, lead):
    """With limits and rates out of the way the command is the law's once the ramp is over."""
    rng = np.random.default_rng(3)
    reference, (q, dq) = 0.3 * rng.uniform(-1, 1, (3, 6)), Q0 + 0.1 * rng.uniform(-1, 1, (2, 6))
    bench = Bench(loops, "f", model, lead, limits=1e6, rates=1e12)
    bench.put("r", reference)
    assert bench.start(q, dq)
    assert bench.step(q, dq) and bench.mode == HOLD  # what was there before the start is not followed
    for _ in range(int(RAMP / DT) + 1):
        assert bench.step(q, dq, reference)
    assert bench.mode == FOLLOW and np.all(np.isnan(bench.get("r", 18)))
    assert np.allclose(bench.torque, followed(reference, q, dq, DT if lead < 0 else lead), rtol=1e-9, atol=1e-9)
    modes = [bench.step(q, dq) and bench.mode for _ in range(12)]  # the other controller has stopped
    assert modes[8] == FOLLOW and modes[11] == HOLD
    assert bench.start(q, dq) and bench.step(q, dq, reference, chained=False) and bench.mode == HOLD
    for _ in range(int(RAMP / DT) + 1):
        assert bench.follow(reference) and bench.step(q, dq, chained=False)
    assert np.allclose(bench.torque, followed(reference, q, dq, max(lead, 0.0)), rtol=1e-9, atol=1e-9)
    assert not bench.follow(reference + np.array([[9.0], [0.0], [0.0]]))
    assert bench.step(q, dq, chained=False) and bench.mode == HOLD


@pytest.mark.parametrize("kind", ["f", "b", "g"])
def test_a_lost_state_or_command_is_an_error_after_a_moment(loops, model, kind):
    for place in range(12):
        bench = Bench(loops, kind, model)
        assert bench.start() and bench.step()
        bench.hold("s", place, 1000)
        results = [bench.step() for _ in range(100)]
        late = MISSES + round((TIMEOUT if kind != "g" else 0.05) / DT)
        assert all(results[: late - 1]) and not any(results[late + 1 :])
        assert np.allclose(bench.torque, held(Q0), rtol=1e-9, atol=1e-9)
    for place in range(6):
        bench = Bench(loops, kind, model)
        assert bench.start() and bench.step()
        bench.hold("c", place, MISSES + 1)
        assert [bench.step() for _ in range(MISSES + 2)] == [True] * MISSES + [False, True]


@pytest.mark.parametrize("kind", ["f", "b", "g"])
@pytest.mark.parametrize("adds", ["nothing", "gravity+friction:0.4"])
def test_what_is_left_behind_and_a_restart_in_the_same_update(loops, tmp_path, kind, adds):
    robot, chi, _ = arm(adds)
    bench = Bench(loops, kind, written(tmp_path, robot, chi))
    rates = limits_and_rates()[1]
    dq = np.array((0.5, -0.5, 0.0, 0.4, 0.0, -0.3))
    assert bench.start()
    for _ in range(40):
        bench.step(Q0, dq)
    before = bench.torque
    q = Q0 + 0.1
    bench.hold("c", 3, 50)
    assert bench.stop(q, dq) == WRITTEN
    share = 0.5 * (0.6 if "friction" in adds else 1.0)
    assert np.allclose(bench.torque, held(q, adds) - share * np.sign(dq) * by_joint(robot, chi)[:, Fc], rtol=1e-9)
    for place in range(12):  # a state that was read since: the robot has carried what was left behind
        moved = np.concatenate((q, dq)) + 1e-9 * (np.arange(12) == place)
        assert bench.start(moved[:6], moved[6:], just_ended=True)
        assert np.allclose(bench.torque, held(moved[:6], adds), rtol=1e-12, atol=1e-12)
    assert bench.start(q, dq) and np.allclose(bench.torque, held(q, adds), rtol=1e-12, atol=1e-12)
    assert bench.start(q, dq, just_ended=True) and np.allclose(bench.torque, before, rtol=1e-12, atol=1e-12)
    assert bench.step(q, dq) and np.all(np.abs(bench.torque - before) <= rates * DT * (1 + 1e-9))
    assert bench.stop(q, STILL) == RESTS + WRITTEN
    bench.hold("c", 5, 1000)
    assert bench.stop(q, STILL) == RESTS


# --- the brake


def test_efforts_are_passed_on_within_limits_and_rates(loops, model):
    limits, rates = limits_and_rates()
    bench = Bench(loops, "b", model)
    wanted = np.array((5.0, 3 * limits[1], -2.0, -3 * limits[3], 0.5, 0.1))
    bench.put("r", wanted)
    assert bench.start() and bench.step() and bench.mode == BRAKE  # written before the start
    assert bench.step(references=wanted, chained=False) and bench.mode == BRAKE
    last = bench.torque
    for _ in range(300):
        assert bench.step(references=wanted) and bench.mode == PASS
        assert np.all(np.abs(bench.torque - last) <= rates * DT * (1 + 1e-9))
        last = bench.torque
    assert np.allclose(last, np.clip(wanted, -limits, limits), rtol=1e-12)
    assert bench.start() and bench.step() and bench.mode == BRAKE  # of before nothing is passed on


@pytest.mark.parametrize("end", ["stops", *range(6)])
def test_when_efforts_stop_the_brake_begins_at_once_within_the_rates(loops, model, end):
    """The efforts stop, or one of them is no number."""
    limits, rates = limits_and_rates()
    rng = np.random.default_rng(5)
    dq = rng.uniform(-1, 1, 6)
    wanted = 0.5 * limits * rng.uniform(-1, 1, 6)
    bench = Bench(loops, "b", model)
    assert bench.start(Q0, dq)
    for _ in range(300):
        assert bench.step(Q0, dq, wanted)
    bad = None if end == "stops" else np.where(np.arange(6) == end, np.nan, wanted)
    count = 0
    while bench.mode == PASS:
        before = bench.torque
        assert bench.step(Q0, dq, bad)
        count += 1
    assert abs(count - 1 - TIMEOUT / DT) <= 1
    goal = np.clip(braked(Q0, dq), -limits, limits)
    assert np.allclose(bench.torque, before + np.clip(goal - before, -rates * DT, rates * DT), rtol=1e-9, atol=1e-9)
    for _ in range(300):
        assert bench.step(Q0, dq, bad)
    assert np.allclose(bench.torque, goal, rtol=1e-9, atol=1e-9)  # the whole brake: it is not faded


@pytest.mark.parametrize("adds", ["nothing", "gravity+friction:0.4"])
def test_an_arm_in_motion_is_braked_within_the_limits_and_then_held(loops, tmp_path, adds):
    robot, chi, _ = arm(adds)
    limits, rates = limits_and_rates()
    bench = Bench(loops, "b", written(tmp_path, robot, chi))
    added = added_by_joint(robot)
    plant = SimulatedRobot(robot, chi, start=Q0, imperfections=Imperfections(torque_noise=0.0), adds=added)
    measured = plant.measure()
    assert bench.start(measured.q, measured.dq)
    push = np.array((25.0, 20.0, 15.0, 3.0, 3.0, 2.0))
    for _ in range(250):
        assert bench.step(measured.q, measured.dq, held(measured.q, adds) + push)
        measured = plant.step(bench.torque)
    assert np.abs(measured.dq).min() > 0.3
    torque, path, speed = bench.torque, [plant.positions], [measured.dq]
    for _ in range(1500):
        assert bench.step(measured.q, measured.dq)
        assert np.all(np.abs(bench.torque - torque) <= rates * DT * (1 + 1e-9))
        assert np.all(np.abs(bench.torque + (held(measured.q) if "gravity" in adds else 0.0)) <= 1.05 * limits)
        torque = bench.torque
        measured = plant.step(torque)
        path.append(plant.positions)
        speed.append(measured.dq)
    path, speed = np.array(path), np.abs(speed)
    resting = np.abs(speed[600:]).max(axis=0)
    assert np.all(resting < SMOOTHING), resting
    assert np.all(np.abs(path[-1] - path[0]) < 0.3 * speed[0])  # about a fifth of a second of the speed it had
    assert np.abs(path[-1] - path[1000]).max() < 2e-3  # held


def test_a_wrong_inertia_or_a_lost_model_does_not_drive_the_arm(loops, tmp_path):
    robot, chi, _ = arm()
    for factor in (-1.0, np.nan):
        wrong = chi.copy()
        blocks = by_joint(robot, wrong)
        if np.isnan(factor):
            blocks[:, 0] = blocks[:, 3] = blocks[:, 5] = 1e308  # M overflows, gravity does not
        else:
            blocks[:, 5] *= factor
            blocks[:, 10] *= factor
        bench = Bench(loops, "b", written(tmp_path, robot, wrong), limits=1e6, rates=1e12)
        dq = np.array((0.0, 0.0, 0.0, 0.0, 0.0, 0.5))
        assert bench.start(Q0, dq)
        bench.step(Q0, dq)
        gravity = gravity_torque(robot, wrong, Q0[None])[0] + by_joint(robot, wrong)[:, OFF]
        assert np.allclose(bench.torque, gravity - DAMPING * dq, rtol=1e-9, atol=1e-9), factor


# --- what reaches the loop from outside


class Current:
    def __init__(self, loops, path, effort=None):
        pointer = loops.current_new(str(path).encode(), None if effort is None else doubles(effort))
        assert pointer, loops.why()
        self.loops, self.pointer = loops, ctypes.c_void_p(pointer)
        self.reader = ctypes.c_void_p(loops.reader_new())

    def parameters(self, path, trial=False):
        return self.loops.current_parameters(self.pointer, str(path).encode(), trial)

    def load(self, mass, joint=6):
        return self.loops.current_load(self.pointer, joint, ctypes.c_double(mass))

    def see(self, q):
        self.loops.current_see(self.pointer, doubles(q))

    def news(self, times=1):
        out = np.zeros(7)
        self.loops.current_news(self.pointer, self.reader, times, doubles(out))
        return out


def test_new_parameters_and_loads_are_taken_together_or_not_at_all(loops, model, tmp_path):
    robot, chi, effort = arm()
    other = written(tmp_path, robot, 1.01 * chi, "other.dynid")
    heavy = chi.copy()
    by_joint(robot, heavy)[:, 6:9] *= 1.7
    heavier = written(tmp_path, robot, heavy, "heavy.dynid")
    stranger = written(tmp_path, load_robot("tx40"), true_parameters(load_robot("tx40"), 3), "stranger.dynid")
    current = Current(loops, model, effort)
    assert np.array_equal(current.news()[[0, 1, 3, 4]], (0, 0, 0, 0))  # nothing is new yet
    assert current.parameters(other, trial=True) and current.news()[0] == 0
    assert current.parameters(other)
    first = 1.01 * chi[0]
    assert np.allclose(current.news(3), (1, 0, first, 1, 1, 0, first))  # told once
    assert np.array_equal(current.news()[3:5], (0, 0))
    assert current.load(1.0) and np.allclose(current.news(2), (2, 1, first, 1, 1, 1, first))
    assert not current.load(500.0) and not current.load(-1.0) and not current.load(1.0, joint=9)
    assert not current.parameters(stranger) and current.news()[0] == 2
    mass = 1.0
    while current.load(1.05 * mass):  # the heaviest that can be held in most positions
        mass *= 1.05
    number = current.news()[0]
    assert not current.parameters(heavier) and b"beyond the effort limits" in loops.why()  # with the load it carries
    assert current.news()[0] == number and np.isclose(current.news()[1], mass)
    assert current.load(0.0) and current.parameters(heavier)
    assert Current(loops, model).load(500.0)  # an observer commands nothing
    assert not loops.current_new(str(model).encode(), doubles(0.01 * effort)) and b"the model is refused" in loops.why()


def test_a_load_must_be_held_where_the_arm_is(loops, model):
    _, _, effort = arm()
    current = Current(loops, model, effort)
    mass = 1.0
    while current.load(1.05 * mass):
        mass *= 1.05
    places = np.random.default_rng(0).uniform(-np.pi, np.pi, (200, 6))
    taken = []
    for q in places:
        current.see(q)
        taken.append(current.load(0.9 * mass))
        if not taken[-1]:
            assert b"where the robot is" in loops.why()
            current.see(np.where(np.arange(6) == 2, np.nan, STILL))  # no position: the last one stays
            assert not current.load(0.9 * mass)
    assert any(taken) and not all(taken)


def test_each_reference_of_a_stream_is_followed_once(loops):
    out = np.zeros(9)
    count = loops.followed(doubles((1, 2, 3, 3, 4, 4, 2, 6)), 8, ctypes.c_double(2.0), doubles(out))
    assert np.array_equal(out[:count], (3, 4, 6))


def test_external_efforts_are_given_while_they_are_known(loops, tmp_path):
    robot, chi, _ = arm()
    path = written(tmp_path, robot, chi)
    bench = Bench(loops, "e", path, limits=3.0)  # thresholds

    def feel(external, count, efforts=None):
        events = []
        for _ in range(count):
            bench.put("s", (Q0, STILL, held(Q0) - external if efforts is None else efforts))
            events.append(loops.bench_update(bench.pointer, False, ctypes.c_double(DT)))
        return events

    assert bench.loops.bench_start(bench.pointer, False)
    assert not any(feel(STILL, 600))
    found = bench.get("r", 7)
    assert np.allclose(found[:6], 0.0, atol=1e-6) and found[6] == 0.0
    push = np.array((0.0, 0.0, 30.0, 0.0, 0.0, 0.0))
    assert sorted(set(feel(push, 200))) == [0, 1]
    found = bench.get("r", 7)
    assert np.allclose(found[:6], push, rtol=1e-4, atol=1e-3) and found[6] == 1.0
    for joint in range(6):
        lost = np.where(np.arange(6) == joint, np.nan, held(Q0) - push)
        assert not any(feel(push, round(STALE / DT) - 1, lost))
        assert np.allclose(bench.get("r", 7)[:6], push, rtol=1e-3, atol=1e-3)  # for a moment the last ones stand
        assert not any(feel(push, 3, lost)) and np.all(np.isnan(bench.get("r", 7)))
        assert not any(feel(push, 3))
    assert loops.bench_start(bench.pointer, False)  # nothing is left of before
    feel(STILL, 1)
    assert np.allclose(bench.get("r", 7), 0.0)
