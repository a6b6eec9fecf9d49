# SPDX-License-Identifier: Apache-2.0

"""Every backend gives one torque, Pinocchio's, on trees with linear constraints; code that differs is refused."""

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from oracle import pin_regressor, random_loop, random_parallelogram
from ros2_dynid.codegen import backend, compiled, kernels
from ros2_dynid.codegen import program as programs
from ros2_dynid.codegen.backend import NumpyTorque, fast_inverse_dynamics, fast_regressor, torque_function
from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.emit_numpy import emit_numpy
from ros2_dynid.codegen.functions import velocity_torques
from ros2_dynid.codegen.program import ProgramOptions, program_of
from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import IA, JOINT, by_joint, standard_names
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.usecases.mjcf import mjcf_files
from runtime_robots import INCLUDE, ROOT

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("g++") is None, reason="needs gcc")
SAMPLES = 33
ROBOTS = [f"parallelogram{k}" for k in range(8)] + [f"loop{k}" for k in range(8)]


def small_robot(r):
    """Return two joints, compiled in a moment; libraries are told apart by the length r [m]."""
    return Robot("small", (Joint("a", 0, d=0.1), Joint("b", 1, alpha=np.pi / 2, r=r)))


def robot_of(name):
    rng = np.random.default_rng(int(name[-1]))
    return random_parallelogram(rng) if name.startswith("parallelogram") else random_loop(rng, 6)


def motions(robot, seed=3):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, SAMPLES, len(robot.active)))


def oracle_torque(robot, chi, q, dq, ddq):
    """Return G^T times the torque of the tree: Pinocchio's of the links, and the drives as Gautier 2013 writes them."""
    G, offset = constraint(robot)
    q, dq, ddq = q @ G.T + offset, dq @ G.T, ddq @ G.T
    tau = pin_regressor(robot, q, dq, ddq) @ by_joint(robot, chi)[:, :IA].ravel()
    Ia, Fv, Fc, off = by_joint(robot, chi)[:, IA:].T
    tau = tau + Ia * ddq + Fv * dq + Fc * np.sign(dq) + off
    value = dict(zip(standard_names(robot), chi, strict=True))
    for coupling in robot.coupling:
        k, joints = coupling.motor, np.array(list(coupling.weights)) - 1
        weights = np.array(list(coupling.weights.values()))
        inertia = value[f"Iam{k}" if coupling.independent_inertia else f"Ia{k}"]
        moved = inertia * ddq[:, joints] + value[f"Fvm{k}"] * dq[:, joints]
        others = (moved @ weights)[:, None] - moved * weights  # of the joints beside each one
        dry = value[f"Fcm{k}"] * np.sign(dq[:, joints] @ weights)
        tau[:, joints] += weights * (others + dry[:, None])
    return tau @ G


def close(a, b, relative=1e-11):
    assert a.shape == b.shape
    return np.abs(a - b).max() <= relative * np.abs(b).max()


@pytest.mark.parametrize("name", ROBOTS)
def test_numpy_and_exported_numpy_give_the_torque_of_pinocchio(name):
    robot = robot_of(name)
    q, dq, ddq = motions(robot)
    names = standard_names(robot)
    chi = np.random.default_rng(4).normal(size=len(names))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    assert close(tau, oracle_torque(robot, chi, q, dq, ddq))
    scope = {"__name__": "generated"}
    program = program_of(robot, names, chi, ProgramOptions(effort=25))
    exec(emit_numpy(program)[f"{program.name}.py"], scope)
    assert close(scope["torque"](q, dq, ddq), tau)
    M, Q = scope["inertia_gravity"](q)
    assert close(M, inertia_matrix(robot, chi, q)) and close(Q, gravity_torque(robot, chi, q))
    assert close(scope["synchronous"](M, Q + scope["velocity_torques"](q, dq), ddq), tau)


@needs_compiler
@pytest.mark.parametrize("name", [*ROBOTS[:3], *ROBOTS[8:11]])
def test_compiled_and_exported_c_give_the_torque_of_numpy(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "compiled")
    robot = robot_of(name)
    q, dq, ddq = motions(robot)
    names = standard_names(robot)
    chi = np.random.default_rng(4).normal(size=len(names))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    assert close(fast_inverse_dynamics(robot, chi, q, dq, ddq), tau)
    one = torque_function(robot, chi)
    assert close(np.array([one.torque(*row) for row in zip(q, dq, ddq, strict=True)]), tau)
    if name in (ROBOTS[0], ROBOTS[8]):  # the larger library
        assert close(fast_regressor(robot, q, dq, ddq) @ chi, tau)
    program = program_of(robot, names, chi, ProgramOptions(effort=25), functions=("torque",))
    for file, text in emit_c(program).items():
        (tmp_path / file).write_text(text)
    command = ["gcc", "-std=c99", "-O1", "-shared", "-fPIC", f"{program.name}.c", "-o", "torque.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    function = getattr(ctypes.CDLL(str(tmp_path / "torque.so")), f"{program.name}_torque")
    function.argtypes, function.restype = [np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")] * 4, None
    exported = np.empty_like(tau)
    for row in zip(q, dq, ddq, exported, strict=True):
        function(*row)
    assert close(exported, tau)


@needs_compiler
def test_the_runtime_gives_the_torque_of_numpy(tmp_path):
    source = ROOT / "test" / "runtime" / "runtime_program.cpp"
    subprocess.run(["g++", "-std=c++17", "-O0", f"-I{INCLUDE}", str(source), "-o", str(tmp_path / "run")], check=True)
    for name in ROBOTS:
        robot = robot_of(name)
        chi = np.random.default_rng(4).normal(size=len(standard_names(robot)))
        q, dq, ddq = motions(robot)
        (tmp_path / "model.dynid").write_bytes(runtime_bytes(robot, chi))
        (tmp_path / "in").write_bytes(np.ascontiguousarray(np.hstack((q, dq, ddq, q))).tobytes())
        subprocess.run(["./run", "model.dynid", "in", "out"], cwd=tmp_path, check=True)
        rows = np.frombuffer((tmp_path / "out").read_bytes()).reshape(SAMPLES, -1)
        assert close(rows[:, : len(robot.active)], inverse_dynamics(robot, chi, q, dq, ddq)), name


@pytest.mark.parametrize("name", ROBOTS)
def test_mjcf_gives_the_torque_of_numpy(name, tmp_path):
    """MuJoCo ties followers softly, so its torque is that of the tree, without the ties, projected by G^T."""
    mujoco = pytest.importorskip("mujoco")
    robot = replace(robot_of(name), coupling=())
    rng = np.random.default_rng(5)
    links = np.zeros((robot.n, JOINT))
    for link in links:
        mass, centre, A = rng.uniform(0.5, 5.0), rng.uniform(-0.3, 0.3, 3), rng.normal(size=(3, 3))
        J = (A @ A.T).trace() * np.eye(3) - A @ A.T + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        link[: IA + 1] = *J[np.triu_indices(3)], *(mass * centre), mass, 0.3
    model = mujoco.MjModel.from_xml_string(next(iter(mjcf_files(robot, links.ravel()).files.values())).decode())
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EQUALITY
    data = mujoco.MjData(model)
    q, dq, ddq = motions(robot)
    G, offset = constraint(robot)
    place = [model.joint(joint.name).dofadr[0] for joint in robot.joints]  # MuJoCo numbers branch by branch
    tau = np.empty_like(q)
    for row, q_active, dq_active, ddq_active in zip(tau, q, dq, ddq, strict=True):
        data.qpos[place], data.qvel[place], data.qacc[place] = G @ q_active + offset, G @ dq_active, G @ ddq_active
        mujoco.mj_inverse(model, data)
        row[:] = G.T @ data.qfrc_inverse[place]
    assert close(tau, inverse_dynamics(robot, links.ravel(), q, dq, ddq), 1e-8)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder for libraries of its own."""
    monkeypatch.setenv("DYNID_CACHE", str(tmp_path / "cache"))
    compiled.cache_folder.cache_clear()
    yield tmp_path / "cache"
    monkeypatch.undo()
    compiled.cache_folder.cache_clear()


FAULTS = {
    "single call": ("torque", "tau[0] = ", "tau[0] = 1e-6 + "),
    "batch": ("torque", "tau[1][i] = ", "tau[1][i] = 1e-6 + "),
    "no number": ("torque", "tau[0] = ", "tau[0] = NAN + "),
    "regressor": ("regressor", "9.81", "9.81001"),
    "energy": ("energy", "9.81", "9.81001"),
}


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_a_library_that_differs_is_refused_and_not_kept(cache, monkeypatch, fault):
    kind, right, wrong = FAULTS[fault]
    source, built = kernels.SOURCES[kind], []

    def faulty_source(robot):
        built.append(robot)
        return source(robot).replace(right, wrong)

    robot = small_robot(0.6 + 0.01 * list(FAULTS).index(fault))
    assert right in source(robot), "the fault has to change the code"
    monkeypatch.setitem(kernels.SOURCES, kind, faulty_source)
    for _ in range(2):
        with pytest.raises(
            compiled.WrongResultError, match=rf"the compiled {kind} of 'small' differs .*=numpy"
        ) as told:
            compiled.library(robot, kind)
        assert "\n" not in str(told.value)
    assert len(built) == 1, "it is not built again"
    assert not list(cache.glob("*.so")) and not compiled.is_ready(robot, kind)


@needs_compiler
def test_numpy_serves_where_a_library_differs(cache, monkeypatch):
    source = kernels.SOURCES["torque"]
    monkeypatch.setitem(kernels.SOURCES, "torque", lambda robot: source(robot).replace("tau[0] = ", "tau[0] = 1e-3 + "))
    monkeypatch.setenv("DYNID_BACKEND", "auto")
    monkeypatch.setattr(backend, "_warned", False)
    robot = small_robot(0.5)
    chi = np.random.default_rng(0).normal(size=len(standard_names(robot)))
    with pytest.warns(RuntimeWarning, match="differs from that of NumPy"):
        one = torque_function(robot, chi)
    assert isinstance(one, NumpyTorque)
    q, dq, ddq = np.random.default_rng(1).normal(size=(3, backend.MIN_BUILD_SAMPLES, 2))
    assert np.array_equal(fast_inverse_dynamics(robot, chi, q, dq, ddq), inverse_dynamics(robot, chi, q, dq, ddq))


def test_code_that_differs_is_not_exported(monkeypatch):
    def faulty(graph, robot, slots, plan):
        first, *others = velocity_torques(graph, robot, slots, plan)
        return [first + graph.number(1e-6) * graph.variable("dq", 0), *others]

    robot = small_robot(0.5)
    names = standard_names(robot)
    program_of(robot, names, np.zeros(len(names)), ProgramOptions(effort=1))
    monkeypatch.setattr(programs, "velocity_torques", faulty)
    with pytest.raises(InputError, match=r"small: the generated code differs from the NumPy recursions by .* report"):
        program_of(robot, names, np.zeros(len(names)), ProgramOptions(effort=1))
