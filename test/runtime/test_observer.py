# SPDX-License-Identifier: Apache-2.0

"""The observer in C++ and in Python: equal sample by sample, with whatever a stream of joint states may hold."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.contact import ContactDetector, ContactEvent
from ros2_dynid.control.external_wrench import external_wrench
from ros2_dynid.control.momentum_observer import MomentumObserver
from ros2_dynid.dynamics.energy import momentum
from ros2_dynid.dynamics.kinematics import frames, jacobian
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from runtime_robots import INCLUDE, STRICT, robots

HERE = Path(__file__).parent
EVENTS = list(ContactEvent)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    path = tmp_path_factory.mktemp("observer") / "observer_program"
    command = ["g++", *STRICT, f"-I{INCLUDE}", str(HERE / "observer_program.cpp"), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def stream(robot, chi, rng, samples=1500):
    """Return q, dq, tau (N, n) and dt (N,) of a smooth motion with noise, a push, rests, and samples that are wrong."""
    n = len(robot.active)
    t = np.cumsum(rng.uniform(0.8e-3, 1.2e-3, samples))
    w, phase = rng.uniform(2.0, 8.0, n), rng.uniform(0.0, 6.0, n)
    angle = t[:, None] * w + phase
    q, dq, ddq = 0.3 * np.sin(angle), 0.3 * w * np.cos(angle), -0.3 * w**2 * np.sin(angle)
    tau = inverse_dynamics(robot, chi, q, dq, ddq) + 0.01 * rng.standard_normal(q.shape)
    tau[samples // 2 : 3 * samples // 5] -= 20.0
    dt = np.diff(t, prepend=t[0] - 1e-3)
    q[200, 0], dq[300, -1], tau[400, 0], dt[500] = np.nan, np.inf, -np.inf, np.nan
    q[220, 0] = 1e300
    dq[320, 0] = 1e200
    dt[600], dt[610], dt[620] = 0.0, -1e-3, 0.05
    return q, dq, tau, dt


def twin(robot, chi, bars, q, dq, tau, dt):
    """Return what the Python observer and detector say, as the program writes it, without the wrench."""
    observer, contacts = MomentumObserver(robot, chi), ContactDetector(bars)
    found = observer.take(q, dq, tau, dt)
    rows = []
    for k in range(len(q)):
        event = ContactEvent.NONE
        if found.used[k]:
            event = contacts.update(found.external[k], found.undecided[k], dt[k])
        said = (found.used[k], EVENTS.index(event))
        rows.append(np.hstack((found.external[k], found.undecided[k], contacts.thresholds, contacts.beyond, said)))
    return np.array(rows)


@pytest.mark.parametrize("name", list(robots()))
def test_python_and_cpp_are_equal_sample_by_sample(program, tmp_path, name):
    robot, rng = robots()[name], np.random.default_rng(3)
    n, chi = len(robot.active), rng.uniform(0.1, 1.0, len(standard_names(robot)))
    bars = ErrorBars(rng.uniform(0.1, 0.3, n), rng.uniform(0.1, 0.3, n))
    samples = stream(robot, chi, rng)
    (tmp_path / "model.dynid").write_bytes(runtime_bytes(robot, chi, bars))
    (tmp_path / "in").write_bytes(np.ascontiguousarray(np.column_stack(samples)).tobytes())
    done = subprocess.run([str(program), "model.dynid", "in", "out"], cwd=tmp_path)
    assert done.returncode == 0  # 3: it has allocated
    cpp = np.frombuffer((tmp_path / "out").read_bytes()).reshape(len(samples[0]), -1)
    python = twin(robot, chi, bars, *samples)
    cpp = np.delete(cpp, np.s_[4 * n : 4 * n + 6], axis=1)
    assert np.array_equal(cpp[:, 3 * n :], python[:, 3 * n :])  # joints beyond, used or not, events
    known = np.isfinite(python[:, : 3 * n])
    assert np.array_equal(known, np.isfinite(cpp[:, : 3 * n]))
    scale = np.abs(python[:, : 3 * n][known]).max()
    assert np.abs(cpp[:, : 3 * n][known] - python[:, : 3 * n][known]).max() <= 1e-10 * scale
    assert {0, 1} <= set(python[:, -1])  # a contact begins
    used = python[:, -2].astype(bool)
    assert not used[[0, 200, 201, 300, 301, 400, 500, 600, 610, 620]].any() and used[[2, 202, 302, 601, 612, 622]].all()


def test_one_by_one_is_the_same_as_many():
    robot, rng = load_robot("tx40"), np.random.default_rng(4)
    chi = rng.uniform(0.1, 1.0, len(standard_names(robot)))
    q, dq, tau, dt = stream(robot, chi, rng, 700)
    whole = MomentumObserver(robot, chi).take(q, dq, tau, dt)
    single = MomentumObserver(robot, chi)
    for k in range(len(q)):
        assert single.update(q[k], dq[k], tau[k], float(dt[k])) == whole.used[k]
        assert np.allclose(single.external, whole.external[k], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["tx40", "loop", "terms", "tree"])
def test_momentum_changes_by_what_acts_on_the_robot(name):
    """dp/dt = beta + tau of the links and rotors, by central differences along a motion."""
    robot, rng = robots()[name], np.random.default_rng(5)
    chi = rng.uniform(0.1, 1.0, len(standard_names(robot)))
    from ros2_dynid.dynamics.friction import frictionless

    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 10, len(robot.active)))
    h = 1e-5

    def p(t):
        return momentum(robot, chi, q + t * dq + t**2 / 2 * ddq, dq + t * ddq)[0]

    rate = (p(h) - p(-h)) / (2 * h)
    _, beta = momentum(robot, chi, q, dq)
    carried = inverse_dynamics(*frictionless(robot, chi), q, dq, ddq)
    assert np.abs(rate - beta - carried).max() < 1e-6 * np.abs(carried).max()


def test_the_wrench_at_a_link_is_found(program, tmp_path):
    robot = load_robot("demo6")
    link = list(robot.tools)[-1]
    rng = np.random.default_rng(6)
    q = rng.uniform(-1.5, 1.5, (20, 6))
    J = jacobian(robot, q, link)
    # the Jacobian is the derivative of the link's position, here in the base frame by central differences
    carrier, pose = robot.tools[link]
    T = frames(robot, q)[:, carrier - 1] @ pose
    for k in range(6):
        shift = 1e-6 * np.eye(6)[k]
        at = [(frames(robot, q + sign * shift)[:, carrier - 1] @ pose)[:, :3, 3] for sign in (1, -1)]
        assert np.allclose(np.einsum("tij,tj->ti", T[:, :3, :3], J[:, :3, k]), (at[0] - at[1]) / 2e-6, atol=1e-8)
    F = rng.uniform(-10.0, 10.0, (20, 6))
    external = np.einsum("tij,ti->tj", J, F)
    regular = np.linalg.svd(J, compute_uv=False)[:, -1] > 0.1
    found = external_wrench(robot, q, external, link, damping=1e-6)
    assert np.allclose(found[regular], F[regular], atol=1e-6)
    # the program's: of the external torques that it found itself
    chi = standard_vector(robot)
    motion = [x[:100] for x in stream(robot, chi, rng, 700)]
    (tmp_path / "model.dynid").write_bytes(runtime_bytes(robot, chi))
    (tmp_path / "in").write_bytes(np.ascontiguousarray(np.column_stack(motion)).tobytes())
    subprocess.run([str(program), "model.dynid", "in", "out", link], cwd=tmp_path, check=True)
    rows = np.frombuffer((tmp_path / "out").read_bytes()).reshape(100, -1)
    expected = external_wrench(robot, motion[0], rows[:, :6], link)
    assert np.abs(rows[:, 24:30] - expected).max() < 1e-9 * np.abs(expected).max()


def test_bad_options_are_refused():
    robot = load_robot("tx40")
    chi, bars = standard_vector(robot), ErrorBars(np.ones(6), np.ones(6))
    from ros2_dynid.control.contact import ContactOptions
    from ros2_dynid.control.momentum_observer import ObserverOptions

    with pytest.raises(InputError, match="not positive"):
        MomentumObserver(robot, chi, ObserverOptions(bandwidth=0.0))
    with pytest.raises(InputError, match="not finite"):
        MomentumObserver(robot, chi * np.nan)
    with pytest.raises(InputError, match="6 joints"):
        MomentumObserver(load_robot("puma3"), standard_vector(load_robot("puma3"))).set_model(robot, chi)
    with pytest.raises(InputError, match="contact thresholds"):
        ContactDetector(bars, (1.0, 2.0))
    with pytest.raises(InputError, match="out of range"):
        ContactDetector(bars, options=ContactOptions(release=1.5))
    with pytest.raises(InputError, match="no link"):
        external_wrench(robot, np.zeros((1, 6)), np.zeros((1, 6)), "nowhere")


def test_without_error_bars_there_is_no_contact():
    contacts = ContactDetector(ErrorBars(np.full(2, np.nan), np.full(2, np.nan)))
    assert not contacts.usable
    for _ in range(2000):
        assert contacts.update(np.array((1e6, -1e6)), np.zeros(2), 1e-3) is ContactEvent.NONE
    assert ContactDetector(ErrorBars(np.full(2, np.nan), np.full(2, np.nan)), (5.0, 0.0)).usable
