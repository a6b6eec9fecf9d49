# SPDX-License-Identifier: Apache-2.0

"""The C++ runtime: torques of `dynid torque` and all their parts for every kind of robot; damaged files are refused."""

import itertools
import json
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from linkages import cylinder_arm, delta, four_bar, linkages
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.kinematics import random_positions, velocity_ratios
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics, velocity_torque
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from runtime_robots import INCLUDE, STRICT, robots, with_terms

HERE = Path(__file__).parent
SAMPLES = 20
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("runtime") / "runtime_program"
    command = ["g++", *STRICT, f"-I{INCLUDE}", str(HERE / "runtime_program.cpp"), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def evaluate(program, folder, robot, chi, motion, load=()):
    """Return what the program computes, by name."""
    (folder / "model.dynid").write_bytes(runtime_bytes(robot, chi))
    (folder / "in").write_bytes(np.ascontiguousarray(np.hstack(motion)).tobytes())
    command = [str(program), "model.dynid", "in", "out", *map(repr, load)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    n, rows = len(robot.active), np.frombuffer((folder / "out").read_bytes()).reshape(len(motion[0]), -1)
    names = ("tau", "rigid", "Q", "C", "p", "beta", "carried", "friction", "smooth", "undecided")
    parts = {name: rows[:, k * n : (k + 1) * n] for k, name in enumerate(names)}
    return parts | {"M": rows[:, 10 * n :].reshape(-1, n, n)}


def close(found, expected, relative=1e-12):
    return np.abs(found - expected).max() <= relative * max(np.abs(expected).max(), 1e-3)


@pytest.mark.parametrize("name", list(robots()))
def test_every_part_is_that_of_the_python_recursions(program, tmp_path, name):
    robot = robots()[name]
    rng = np.random.default_rng(1)
    chi = rng.uniform(-1.0, 1.0, len(standard_names(robot)))  # the identities hold for any parameters
    motion = [rng.uniform(-2.0, 2.0, (SAMPLES, len(robot.active))) for _ in range(4)]
    motion[1][0] = 0.0  # sign(0) is 0
    q, dq, ddq, motor = motion
    found = evaluate(program, tmp_path, robot, chi, motion)
    rigid = inverse_dynamics(*frictionless(robot, chi), q, dq, ddq)
    M, Q = inertia_matrix(robot, chi, q), gravity_torque(robot, chi, q)
    assert close(found["tau"], inverse_dynamics(robot, chi, q, dq, ddq))
    assert close(found["rigid"], rigid)
    assert close(found["Q"], Q)
    assert close(found["C"], velocity_torque(robot, chi, q, dq))
    assert close(found["M"], M)
    assert close(found["p"], np.einsum("tij,tj->ti", M, dq))
    assert close(found["carried"] + found["friction"], motor)
    friction = smooth_friction(robot, chi)
    smooth = [friction.torque(v, 0.05, carried) for v, carried in zip(dq, rigid, strict=True)]
    assert close(found["smooth"], np.array(smooth))
    # C^T dq is the gradient of the kinetic energy, here by central differences of M
    step, gradient = 1e-6, np.empty_like(q)
    for k in range(q.shape[1]):
        shift = step * np.eye(q.shape[1])[k]
        dM = (inertia_matrix(robot, chi, q + shift) - inertia_matrix(robot, chi, q - shift)) / (2 * step)
        gradient[:, k] = 0.5 * np.einsum("ti,tij,tj->t", dq, dM, dq)
    assert close(found["beta"], gradient - Q, 1e-7)


def test_a_payload_is_that_of_the_feedforward(program, tmp_path):
    robot = load_robot("puma560")
    rng = np.random.default_rng(2)
    chi = rng.uniform(-1.0, 1.0, len(standard_names(robot)))
    inertia = np.diag((0.02, 0.03, 0.04)) + 0.001
    load = Load(2.5, np.array((0.1, -0.05, 0.2)), inertia, 6)
    I = inertia[np.triu_indices(3)]
    motion = [rng.uniform(-2.0, 2.0, (SAMPLES, robot.n)) for _ in range(4)]
    found = evaluate(program, tmp_path, robot, chi, motion, (6, load.mass, *map(float, load.com), *map(float, I)))
    assert close(found["tau"], inverse_dynamics(robot, chi + load_parameters(robot, load, len(chi)), *motion[:3]))
    for wrong in ((6, -1.0, 0, 0, 0, *I), (6, 1.0, 0, 0, 0, 1.0, 0, 0, 0.1, 0, 0.1), (7, 1.0, 0, 0, 0, *I)):
        command = [str(program), "model.dynid", "in", "out", *map(str, wrong)]
        assert subprocess.run(command, cwd=tmp_path).returncode == 4


def test_the_exported_model_gives_the_torques_of_dynid_torque(program, tmp_path, capsys):
    rng = np.random.default_rng(3)
    robot = with_terms(load_robot("tx40"), rng)
    base = base_parameters(robot)
    value = rng.uniform(0.5, 1.0, len(base))
    sigma = [0.1 * (k + 1) for k in range(6)]
    model = model_of(robot, base, value, value / 50, np.diag((value / 50) ** 2), obtained={"sigma": sigma})
    save_model(model, tmp_path / "model.yaml")
    assert main(["export", str(tmp_path / "model.yaml"), "--to", "runtime", "-o", str(tmp_path), "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["error_bars"] and Path(outcome["files"][0]).name == "tx40.dynid"
    motion = rng.uniform(-1.0, 1.0, (4, SAMPLES, 6))
    header = [f"{name}.{kind}" for kind in ("position", "velocity", "acceleration") for name in robot.active_names]
    table = np.column_stack((np.arange(SAMPLES) * 0.01, *motion[:3]))
    np.savetxt(tmp_path / "in.csv", table, delimiter=",", header=",".join(["time", *header]), comments="", fmt="%.17g")
    assert main(["torque", *(str(tmp_path / x) for x in ("model.yaml", "in.csv", "out.csv"))]) == 0
    expected = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)[:, 1:]
    (tmp_path / "in").write_bytes(np.ascontiguousarray(np.hstack(motion)).tobytes())
    subprocess.run([str(program), "tx40.dynid", "in", "out"], cwd=tmp_path, check=True)
    found = np.frombuffer((tmp_path / "out").read_bytes()).reshape(SAMPLES, -1)[:, :6]
    assert close(found, expected)
    told = subprocess.run([str(program), "tx40.dynid", "check"], cwd=tmp_path, check=True, capture_output=True)
    lines = told.stdout.decode().split("\n")
    assert lines[:6] == list(robot.active_names)
    bars = np.array([[float(x) for x in line.split()] for line in lines[6:12]])
    assert np.array_equal(bars[:, 0], sigma) and np.all(bars[:, 1] > 0.0)


def test_damaged_files_are_refused(program, tmp_path):
    good = runtime_bytes(load_robot("tx40"), np.ones(len(standard_names(load_robot("tx40")))))

    def read(data):
        (tmp_path / "x.dynid").write_bytes(data)
        done = subprocess.run(
            [str(program), "x.dynid", "check"], cwd=tmp_path, capture_output=True, text=True, errors="replace"
        )
        assert done.returncode in (0, 2)
        assert (done.returncode == 2) == bool(done.stderr) and done.stderr.count("\n") <= 1
        return done.stderr

    def sealed(body):
        return good[:8] + struct.pack("<III", 1, zlib.crc32(body), len(body)) + bytes(body)

    assert read(good) == ""
    rng = np.random.default_rng(0)
    for cut in (0, 7, 19, 20, 100, len(good) - 1):
        assert "x.dynid" in read(good[:cut])
    for at in rng.integers(8, len(good), 20):
        assert read(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
    assert "version 9" in read(good[:8] + struct.pack("<I", 9) + good[12:])
    assert "bytes too many" in read(good + b"x")
    assert "no runtime model" in read(b"PK" + good)
    for at in rng.integers(20, len(good) - 4, 40):  # with a right checksum: never a crash
        read(sealed(good[20:at] + b"\xff\xff\xff\xff" + good[at + 4 :]))
    for cut in range(21, len(good), 97):
        assert read(sealed(good[20:cut]))
    assert read(str(tmp_path / "none").encode())


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_finds_the_installed_runtime_without_ros(tmp_path):
    (tmp_path / "user").mkdir()
    (tmp_path / "user/CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user CXX)\nfind_package(ros2_dynid 0.1 REQUIRED)\n"
        "add_executable(user main.cpp)\ntarget_link_libraries(user PRIVATE ros2_dynid::runtime)\n"
    )
    (tmp_path / "user/main.cpp").write_text(
        '#include "ros2_dynid/dynamics.hpp"\nint main() { return ros2_dynid::load_exists({}) ? 0 : 1; }\n'
    )
    clean = {name: value for name, value in os.environ.items() if "PREFIX_PATH" not in name}
    for command in (
        ["cmake", "-S", str(HERE.parents[1]), "-B", "runtime", "-DDYNID_RUNTIME_ONLY=ON"],
        ["cmake", "--install", "runtime", "--prefix", "prefix"],
        ["cmake", "-S", "user", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}"],
        ["cmake", "--build", "build"],
        ["build/user"],
    ):
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("robot", [four_bar(), cylinder_arm(), delta(), linkages()[-1]], ids=lambda robot: robot.name)
def test_closed_loops_give_the_parts_of_the_python_recursions_or_none(program, tmp_path, robot):
    rng = np.random.default_rng(6)
    chi = rng.uniform(-1.0, 1.0, len(standard_names(robot)))
    corners = random_positions(robot, rng, 3, 0.2)
    q = np.concatenate([np.linspace(a, b, SAMPLES) for a, b in itertools.pairwise(corners)])
    dq, ddq, motor = rng.uniform(-2.0, 2.0, (3, *q.shape))
    found = evaluate(program, tmp_path, robot, chi, (q, dq, ddq, motor))
    rigid = inverse_dynamics(*frictionless(robot, chi), q, dq, ddq)
    assert close(found["tau"], inverse_dynamics(robot, chi, q, dq, ddq), 1e-10)
    assert close(found["rigid"], rigid, 1e-10)
    assert close(found["Q"], gravity_torque(robot, chi, q), 1e-10)
    assert close(found["C"], velocity_torque(robot, chi, q, dq), 1e-10)
    steady = inverse_dynamics(*frictionless(robot, chi), q, dq, np.zeros_like(q))
    assert close(found["C"], steady - gravity_torque(robot, chi, q), 1e-10)
    assert close(found["M"], inertia_matrix(robot, chi, q), 1e-10)
    assert close(found["carried"] + found["friction"], motor)
    ratios = velocity_ratios(robot, q)
    smooth = [smooth_friction(robot, chi, G).torque(v, 0.05, x) for G, v, x in zip(ratios, dq, rigid, strict=True)]
    assert close(found["smooth"], np.array(smooth), 1e-10)
    assert np.isnan(found["p"]).all() and np.isnan(found["beta"]).all()
    # out of reach no part that depends on the pose is a number; the next sample within reach is none the worse
    far = q[:4].copy()
    far[1, :], far[2, 0] = 50.0, np.nan
    some = evaluate(program, tmp_path, robot, chi, (far, dq[:4], ddq[:4], motor[:4]))
    for part in ("tau", "rigid", "Q", "C", "friction", "M"):
        if robot.name == "four_bar":  # its crank turns on and on, but not that far in one step
            assert np.isnan(some[part][2]).all()
        else:
            assert np.isnan(some[part][1:3]).all()
        assert np.array_equal(some[part][[0, 3]], found[part][[0, 3]]) or close(some[part][[0, 3]], found[part][[0, 3]])


def test_runtime_files_of_loops_that_cannot_be_are_refused(program, tmp_path):
    data = bytearray(runtime_bytes(four_bar(), np.ones(len(standard_names(four_bar())))))
    passive = struct.pack("<III", 2, 2, 3)  # two passive joints, 2 and 3
    at = data.index(passive)
    for wrong, message in (((2, 2, 9), "a joint that the robot does not have"), ((2, 2, 2), "follows twice")):
        data[at : at + 12] = struct.pack("<III", *wrong)
        data[12:16] = struct.pack("<I", zlib.crc32(bytes(data[20:])))
        (tmp_path / "wrong.dynid").write_bytes(data)
        done = subprocess.run([str(program), "wrong.dynid", "check"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr
