# SPDX-License-Identifier: Apache-2.0

"""Generated code of linkages: every backend gives NumPy's torque, which is Pinocchio's (test/dynamics), or none."""

import ctypes
import importlib.util
import itertools
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from linkages import counterbalanced_arm, cylinder_arm, delta, four_bar, linkages, slider_crank
from ros2_dynid.codegen.backend import CompiledLoopTorque, torque_function
from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.emit_numpy import emit_numpy
from ros2_dynid.codegen.loop_code import assembled
from ros2_dynid.codegen.program import FUNCTIONS, ProgramOptions, program_of
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Joint, Passive

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
SAMPLES = 40


def robots():
    """Linkages of each kind, one with a joint that follows linearly and friction that grows with the load."""
    level = replace(four_bar(), joints=(*four_bar().joints, Joint("level", 1, d=0.1)))
    level = replace(level, name="level", passive=(Passive(4, {1: -1.0}, 0.2),))
    term = FrictionTerm(1, FrictionKind.LOAD, 0.1)
    return [slider_crank(), counterbalanced_arm(), delta(), linkages()[-1], replace(level, friction=(term,))]


def way(robot, seed=1):
    """Return a way in small steps through random positions near the assembly, dq, ddq and parameters."""
    rng = np.random.default_rng(seed)
    q = random_positions(robot, rng, 3, 0.2)
    q = np.concatenate([np.linspace(a, b, SAMPLES // 2) for a, b in itertools.pairwise(q)])
    dq, ddq = rng.uniform(-2.0, 2.0, (2, *q.shape))
    return q, dq, ddq, rng.normal(size=len(standard_names(robot)))


def load(files, folder, module):
    for name, text in files.items():
        (folder / name).write_text(text)
    spec = importlib.util.spec_from_file_location(module, folder / f"{module}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def build(folder, name):
    strict = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
    subprocess.run([*strict, "main.c", f"{name}.c", "-o", "check", "-lm"], cwd=folder, check=True)
    subprocess.run([*strict, "-shared", "-fPIC", f"{name}.c", "-o", "code.so", "-lm"], cwd=folder, check=True)
    subprocess.run(["./check"], cwd=folder, check=True)  # torque, M, Q, C, friction and both rates
    return ctypes.CDLL(str(folder / "code.so"))


def numbers(x):
    return x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@needs_compiler
@pytest.mark.parametrize("robot", robots(), ids=lambda robot: robot.name)
def test_compiled_and_exported_code_give_the_torque_of_numpy(robot, tmp_path, monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "compiled")
    q, dq, ddq, chi = way(robot)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    close = {"rtol": 0, "atol": 1e-10 * np.abs(tau).max()}
    torque = torque_function(robot, chi)
    np.testing.assert_allclose([torque.torque(*row) for row in zip(q, dq, ddq, strict=True)], tau, **close)
    np.testing.assert_allclose(torque.torques(q, dq, ddq), tau, **close)

    functions = FUNCTIONS if robot.n < 6 else ("torque",)
    program = program_of(robot, standard_names(robot), chi, ProgramOptions(effort=1), functions=functions)
    module = load({**emit_numpy(program), **emit_c(program)}, tmp_path, program.name)
    joints = module.close(q)
    np.testing.assert_allclose(module.torque(joints, dq, ddq), tau, **close)

    code = build(tmp_path, program.name)
    pose, result, rows = assembled(robot), np.empty(len(robot.active)), []
    for row in zip(q, dq, ddq, strict=True):
        position, *motion = map(np.ascontiguousarray, row)
        assert code[f"{program.name}_close"](numbers(position), numbers(pose)) == 1
        code[f"{program.name}_torque"](numbers(pose), *map(numbers, motion), numbers(result))
        rows.append(result.copy())
    np.testing.assert_allclose(rows, tau, **close)


@needs_compiler
def test_code_that_cannot_close_the_loops_says_so_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "compiled")
    robot = cylinder_arm()
    program = program_of(robot, ["M2"], np.ones(1), ProgramOptions(effort=1), functions=("torque",))
    module = load({**emit_numpy(program), **emit_c(program)}, tmp_path, program.name)
    close_in_c = build(tmp_path, program.name)[f"{program.name}_close"]
    torque, still = torque_function(robot, np.ones(len(standard_names(robot)))), np.zeros(3)
    start = assembled(robot)
    # beyond its reach, where boom and rod are in line, far beyond any number of steps, no number, at last a good one
    stretched = np.hypot(0.2, 0.4) + np.hypot(0.6, 0.1)
    for rod, closes in ((5.0, False), (stretched, False), (1e9, False), (np.nan, False), (0.72, True)):
        q, pose = np.array([0.0, rod, 0.0]), start.copy()
        assert close_in_c(numbers(q), numbers(pose)) == closes
        assert np.array_equal(pose, start) != closes
        assert np.isfinite(module.close(q[None])).all() == closes
        if closes:
            assert isinstance(torque, CompiledLoopTorque)
            assert np.isfinite(torque.torque(q, still, still)).all()
        else:
            with pytest.raises(InputError, match="the loops do not close"):
                torque.torque(q, still, still)


@needs_compiler
def test_a_crank_that_turns_on_and_on_stays_on_its_branch(tmp_path):
    """Ten turns in steps of half a radian, and back: the rocker is where it was, the coupler has turned back."""
    robot = four_bar()
    program = program_of(robot, ["M2"], np.ones(1), ProgramOptions(effort=1), functions=("torque",))
    module = load({**emit_numpy(program), **emit_c(program)}, tmp_path, program.name)
    close_in_c, pose = build(tmp_path, program.name)[f"{program.name}_close"], assembled(robot)
    first, rockers = pose.copy(), []
    turns = first[0] + np.arange(0.0, 20.0 * np.pi, 0.5)
    for angle in (*turns, *turns[::-20], first[0]):
        assert close_in_c(numbers(np.array([angle])), numbers(pose)) == 1
        rockers.append(pose[2])
    assert np.min(rockers) > 0.5 and np.max(rockers) < np.pi  # the open branch
    np.testing.assert_allclose(pose, first, atol=1e-12)
    np.testing.assert_allclose(module.close(turns[:, None])[-1][2], rockers[len(turns) - 1], atol=1e-12)


def test_single_precision_is_refused():
    with pytest.raises(InputError, match="single precision"):
        program_of(four_bar(), ["M2"], np.ones(1), ProgramOptions(real="float"))
