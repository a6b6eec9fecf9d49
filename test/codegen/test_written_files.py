# SPDX-License-Identifier: Apache-2.0

"""What codegen writes is read back by plain readers; springs, loops, units of the text and refusals of every kind."""

from __future__ import annotations

import math
import os
import stat
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as ScipyRotation

from oracle import random_robot
from ros2_dynid.codegen import backend, compiled
from ros2_dynid.codegen.backend import (
    TermsTorque,
    fast_energy_regressor,
    fast_inverse_dynamics,
    fast_regressor,
    regressor_function,
    torque_function,
)
from ros2_dynid.codegen.compiled import PlainLibrary, PlainTorque
from ros2_dynid.codegen.elastic_expressions import elastic_torques
from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.emit_numpy import emit_numpy
from ros2_dynid.codegen.functions import joint_values, recursion_with_links, torque
from ros2_dynid.codegen.graph import ABS, GAUSS, INVERSE_ROOT, LOG, ROOT, Count, Graph, evaluate
from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.codegen.newton_euler_expressions import RecursionPlan, Rotation, turn, variable_rotation
from ros2_dynid.codegen.operation_search import constants_of, starting_constants
from ros2_dynid.codegen.program import (
    ProgramOptions,
    chosen_parameters,
    contact_torque,
    load_columns,
    program_of,
    tool_of,
)
from ros2_dynid.codegen.regressor_expressions import energy_row, regressor_columns
from ros2_dynid.codegen.representation import space_of
from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.codegen.text import code_of, comment, identifier, number
from ros2_dynid.codegen.urdf_export import updated_urdf
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Passive, Robot
from runtime_robots import coupled_loop, with_forces, with_terms

SMALL = Robot("small", (Joint("a", 0, d=0.1), Joint("b", 1, alpha=np.pi / 2, r=0.2)))


def close(a, b, scale=1e-11):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.abs(a - b).max() <= scale * (1.0 + np.abs(b).max())


# --- springs, coupled motors and loops as expressions


@pytest.mark.parametrize("which", ["springs", "loop"])
@pytest.mark.parametrize("unit", [1.0, 0.37])
def test_springs_and_loops_are_those_of_numpy(which, unit):
    robot = with_forces(load_robot("demo6")) if which == "springs" else coupled_loop(np.random.default_rng(3))
    names = standard_names(robot)
    rng = np.random.default_rng(8)
    chi = rng.normal(size=len(names))
    q, dq, ddq = rng.uniform(-2, 2, (3, len(robot.active)))
    row = q[None], dq[None], ddq[None]
    variables = {"q": q, "dq": dq, "ddq": ddq}
    graph = Graph()
    columns = regressor_columns(graph, robot)
    Y = np.array(evaluate(graph, [e for column in columns for e in column], variables, {})).reshape(len(columns), -1).T
    assert close(Y, regressor(robot, *row)[0])
    h = evaluate(graph, energy_row(graph, robot), variables, {})
    assert close(h, energy_regressor(robot, q[None], dq[None])[0])
    plan = RecursionPlan(unit)
    space = space_of(robot)
    used, rows = constants_of(robot, space, starting_constants(space, np.eye(len(names))), plan)
    graph = Graph()
    slots = {slot: graph.parameter(name) if sign > 0 else -graph.parameter(name) for slot, name, sign in used}
    constants = dict(zip(dict.fromkeys(name for _, name, _ in used), np.array(rows) @ chi, strict=True))
    assert close(
        evaluate(graph, torque(graph, robot, slots, plan), variables, constants), inverse_dynamics(robot, chi, *row)[0]
    )


@pytest.mark.parametrize("unit", [1.0, 0.37])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "felt"), [(0, 3, {1, 2, 3}), (1, 3, {2, 3}), (4, 3, {2, 3, 4})], ids=["base", "branch", "branches"]
)
def test_a_cylinder_pulls_its_pivots_together_whichever_is_named_first(one, other, felt, turned, unit):
    """Its torques are the force times the slopes of the pivots' distance, on one branch of a tree or on two."""
    first, second = (other, one) if turned else (one, other)
    robot = Robot(
        "tree",
        (
            Joint("a", 0, alpha=0.3, d=0.2, r=0.1),
            Joint("b", 1, alpha=np.pi / 2, d=0.4, r=-0.2),
            Joint("c", 2, PRISMATIC, alpha=-0.7, d=0.1),
            Joint("d", 1, gamma=0.5, b=0.3, alpha=1.1, d=-0.2),
        ),
    )
    points = {0: (0.3, 0.1, 0.2), 1: (0.1, -0.2, 0.3), 3: (0.2, 0.4, -0.1), 4: (-0.3, 0.2, 0.5)}
    pivots = tuple(Pivot(joint, points[joint]) for joint in (first, second))
    robot = replace(robot, forces=(Force("strut", ForceKind.CYLINDER, (0, 1), {}, pivots, 0.25),))
    q = np.array([0.4, -0.9, 0.6, 1.3])

    def distance(q):
        poses = [robot.base, *frames(robot, q[None])[0]]
        a, b = (poses[joint] @ [*points[joint], 1.0] for joint in (first, second))
        return np.linalg.norm(a - b)

    graph = Graph()
    recursion, _ = recursion_with_links(graph, robot, RecursionPlan(unit), "q g")
    slots = {("Kf", 1): graph.number(3.0), ("Ks", 1): graph.number(2.0)}
    tau = elastic_torques(graph, robot, recursion.frames, joint_values(graph, robot, "q"), unit, slots)
    slopes = [(distance(q + 1e-6 * e) - distance(q - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    wanted = (3.0 + 2.0 * (distance(q) - 0.25)) * np.array(slopes)
    np.testing.assert_allclose(evaluate(graph, tau, {"q": q}, {}), wanted, atol=1e-8)
    assert set(np.flatnonzero(np.abs(wanted) > 1e-4) + 1) == felt, "nothing is felt above where the chains meet"


def test_functions_of_one_node():
    graph = Graph()
    x = graph.variable("x", 0)
    for value in (-1.7, 0.4, 3.0):
        asked = [graph.even(kind, -x) for kind in (ABS, ROOT, GAUSS, INVERSE_ROOT, LOG)]
        asked += [graph.sign(x), graph.sign(-x), graph.power(x, 1.7), graph.power(x, 0.5)]
        size = abs(value)
        wanted = [size, math.sqrt(size), math.exp(-value * value), 1 / math.sqrt(size), math.log(size)]
        wanted += [math.copysign(1, value), -math.copysign(1, value), size**1.7, size**0.5]
        assert evaluate(graph, asked, {"x": [value]}, {}) == pytest.approx(wanted, rel=1e-12)
    assert evaluate(graph, [graph.sign(x), graph.power(x, 1.7)], {"x": [0.0]}, {}) == pytest.approx(
        [0.0, 0.0], abs=1e-40
    )
    assert Count(3, 4).total == 7


# --- batches and single samples


def batch(robot, N, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, N, len(robot.active)))


def test_friction_terms_are_added_to_generated_code(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "numpy")
    robot = with_terms(load_robot("puma560"), np.random.default_rng(7))
    chi = np.random.default_rng(1).uniform(0.1, 1.0, len(standard_names(robot)))
    q, dq, ddq = batch(robot, 7)
    wanted = inverse_dynamics(robot, chi, q, dq, ddq)
    one = torque_function(robot, chi)
    assert isinstance(one, TermsTorque)
    assert close(one.torques(q, dq, ddq), wanted) and close(one.torque(q[2], dq[2], ddq[2]), wanted[2])
    assert close(fast_inverse_dynamics(robot, chi, q, dq, ddq), wanted)
    warm = replace(robot, friction=(FrictionTerm(2, FrictionKind.CUBIC, 0.5),))
    more = fast_inverse_dynamics(warm, chi, q, dq, ddq) - inverse_dynamics(replace(robot, friction=()), chi, q, dq, ddq)
    assert close(more[:, 1], 0.5 * dq[:, 1] ** 3) and close(np.delete(more, 1, axis=1), np.zeros((7, 5)))


@pytest.mark.parametrize("choice", ["numpy", "compiled"])
def test_memory_that_is_given_is_filled(monkeypatch, choice):
    monkeypatch.setenv("DYNID_BACKEND", choice)
    if choice == "compiled" and not compiled.shutil.which("cc"):
        pytest.skip("needs a C compiler")
    for N in (0, 1, 31, 32, 33, 70):
        q, dq, ddq = batch(SMALL, N)
        Y = regressor(SMALL, q, dq, ddq)
        out = fast_regressor(SMALL, q, dq, ddq)
        assert out.shape == Y.shape == (N, 2, 28) and out.transpose().flags.c_contiguous
        if not N:
            continue
        assert close(out, Y)
        turned = fast_regressor(SMALL, -q, dq, 2.0 * ddq, out=out)
        assert np.shares_memory(turned, out) and close(out, regressor(SMALL, -q, dq, 2.0 * ddq))
        assert close(fast_energy_regressor(SMALL, q, dq), energy_regressor(SMALL, q, dq))
        fill = regressor_function(SMALL, 10 * backend.MIN_BUILD_SAMPLES)
        assert close(fill(q, dq, ddq), Y.transpose(2, 1, 0)) and close(
            fill(dq, q, ddq).transpose(2, 1, 0), regressor(SMALL, dq, q, ddq)
        )
        for wrong in (np.zeros((N + 1, 2, 28)).transpose(), np.zeros((N, 2, 28)), np.zeros((28, 2, N + 1)).transpose()):
            if wrong.shape == out.shape and wrong.transpose().flags.c_contiguous:
                continue
            with pytest.raises(InputError, match="out does not fit"):
                fast_regressor(SMALL, q, dq, ddq, out=wrong)


def test_batches_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "numpy")
    good = np.zeros((4, 2))
    for wrong in (np.zeros(2), np.zeros((4, 3)), np.zeros((3, 2)), np.zeros((1, 4, 2))):
        with pytest.raises(InputError, match=r"give samples by joints, \(N, 2\)"):
            fast_regressor(SMALL, good, wrong, good)
    bad = good.copy()
    bad[2, 1] = np.inf
    with pytest.raises(InputError, match="ddq of joint 'b' is not finite in sample 2"):
        fast_regressor(SMALL, good, good, bad)


def test_temperatures_and_loads_reach_the_friction_terms(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "numpy")
    terms = (
        FrictionTerm(1, FrictionKind.LOAD, 0.3),
        FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, 0.2, reference=30.0),
    )
    robot = replace(SMALL, friction=terms)
    chi = np.random.default_rng(1).uniform(0.1, 1.0, 28)
    q, dq, ddq = batch(robot, 5)
    T = np.random.default_rng(2).uniform(10.0, 60.0, (5, 2))
    T[3, 1] = np.nan
    wanted = inverse_dynamics(robot, chi, q, dq, ddq, T)
    assert close(fast_inverse_dynamics(robot, chi, q, dq, ddq, T), wanted)
    cold = inverse_dynamics(robot, chi, q, dq, ddq)
    assert not close(cold, wanted) and close(fast_inverse_dynamics(robot, chi, q, dq, ddq), cold)
    one = torque_function(robot, chi)
    assert close(one.torques(q, dq, ddq), cold)
    assert close(one.torque(q[1].tolist(), dq[1].tolist(), ddq[1].tolist()), cold[1])


def test_ctypes_refuses_what_the_extension_refuses():
    calls = []
    names = ("prepare", "torque_one", "torque_batch", "fill_batch")
    library = SimpleNamespace(**{name: lambda *a, name=name: calls.append((name, a)) for name in names})
    for kind, rows in (("regressor", 56), ("energy", 28)):
        made = PlainLibrary(library, kind, SMALL)
        made.fill(*[np.zeros((3, 2))] * (3 if kind == "regressor" else 2), np.zeros(3 * rows))
        name, arguments = calls[-1]
        assert name == "fill_batch" and arguments[0].value == 3 and len(arguments) == 5
        assert (arguments[3] is None) == (kind == "energy")
        for out in (np.zeros(3 * rows + 1), np.zeros(3 * rows, np.float32), np.zeros(6 * rows)[::2]):
            with pytest.raises(ValueError, match="wrong type or size"):
                made.fill(np.zeros((3, 2)), np.zeros((3, 2)), out)
        with pytest.raises(ValueError, match="wrong shape"):
            made.fill(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(3 * rows))
        assert isinstance(made.Torque(np.zeros(28)), PlainTorque)
        with pytest.raises(ValueError, match="wrong shape"):
            made.Torque(np.zeros(27))
    one = made.Torque(np.zeros(28))
    assert one.torque(np.zeros(2), [0, 0], np.zeros(2)).shape == (2,) and one.torques(*np.zeros((3, 5, 2))).shape == (
        5,
        2,
    )
    assert calls[-1][1][0].value == 5 and len(calls[-1][1]) == 6 and len(calls[-2][1]) == 5
    for wrong in (np.zeros(3), np.zeros((1, 2))):
        with pytest.raises(ValueError, match="wrong shape"):
            one.torque(np.zeros(2), wrong, np.zeros(2))


# --- private folders and compilers


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o710, False), (0o704, False), (0o750, False)])
def test_only_folders_that_are_ours_alone_are_private(tmp_path, mode, private):
    folder = tmp_path / "x"
    folder.mkdir()
    folder.chmod(mode)
    assert compiled.is_private_folder(folder) == private
    file = folder / "a.so"
    file.write_bytes(b"")
    for own, ours in ((0o700, True), (0o600, True), (0o755, True), (0o720, False), (0o702, False)):
        file.chmod(own)
        assert compiled.is_private_file(file) == (ours and private)
    assert not compiled.is_private_file(folder / "none") and not compiled.is_private_folder(file)
    assert not compiled.is_private_folder(folder / "none") and not compiled.is_private_file(folder)


def test_folders_of_other_people_are_not_private(tmp_path, monkeypatch):
    folder = tmp_path / "x"
    folder.mkdir(mode=0o700)
    file = folder / "a.so"
    file.write_bytes(b"")
    file.chmod(0o600)
    assert compiled.is_private_folder(folder) and compiled.is_private_file(file)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not compiled.is_private_folder(folder) and not compiled.is_private_file(file)
    monkeypatch.undo()
    true = Path.lstat

    def owned(path, user):
        status = true(path)
        return SimpleNamespace(st_mode=status.st_mode, st_uid=user if path == tmp_path else status.st_uid)

    for user, private in ((0, True), (os.geteuid(), True), (12345, False)):
        monkeypatch.setattr(Path, "lstat", lambda path, user=user: owned(path, user))
        assert compiled.is_private_folder(folder) == private, "the folder above is another's"
    monkeypatch.undo()
    tmp_path.chmod(0o720)
    assert not compiled.is_private_folder(folder)
    tmp_path.chmod(0o702)
    assert not compiled.is_private_folder(folder)
    tmp_path.chmod(0o702 | stat.S_ISVTX)
    assert compiled.is_private_folder(folder)
    tmp_path.chmod(0o755)
    assert compiled.is_private_folder(folder)


def test_the_compiler_is_the_one_named_or_the_first_there_is(monkeypatch):
    there = {"gcc": "/usr/bin/gcc", "clang": "/usr/bin/clang", "mycc": "/opt/mycc"}
    monkeypatch.setattr("ros2_dynid.codegen.compiled.shutil.which", there.get)
    monkeypatch.delenv("CC", raising=False)
    assert compiled.compiler() == ["/usr/bin/gcc"]
    monkeypatch.setenv("CC", "mycc -m64 '-D X'")
    assert compiled.compiler() == ["/opt/mycc", "-m64", "-D X"]
    monkeypatch.setenv("CC", "gone -m64")
    assert compiled.compiler() == ["/usr/bin/gcc"]
    there.clear()
    with pytest.raises(compiled.BuildError, match="no C compiler"):
        compiled.compiler()


def test_a_compiler_that_does_not_know_the_processor_is_asked_again(tmp_path, monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(command)
        assert options["timeout"] == 300.0 and options["cwd"] == tmp_path
        return SimpleNamespace(returncode=codes.pop(0), stderr="a warning\nx.c:1: error: no\nmore")

    monkeypatch.setattr("ros2_dynid.codegen.compiled.subprocess.run", run)
    monkeypatch.setattr(compiled, "compiler", lambda: ["cc"])
    codes = [0]
    compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
    assert (
        len(asked) == 1
        and "-march=native" in asked[0]
        and asked[0][-4:-1] == ["-o", str(tmp_path / "a.so"), str(tmp_path / "a.c")]
    )
    codes = [1, 0]
    compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
    assert len(asked) == 3 and "-march=native" not in asked[2]
    codes = [1, 1]
    with pytest.raises(compiled.BuildError, match=r"cc failed \(x\.c:1: error: no\)"):
        compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
    for headers in (True, False):
        monkeypatch.setattr(compiled, "has_headers", lambda headers=headers: headers)
        codes = [0]
        compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
        assert ("-DDYNID_PYTHON" in asked[-1]) == headers


def test_a_library_is_named_by_all_that_makes_it():
    """Whatever changes the machine code changes the name; what does not (names, parameters) leaves it."""
    base = coupled_loop(np.random.default_rng(3))
    forces = with_forces(load_robot("demo6"))
    robots = [base, forces, load_robot("demo6")]
    robots += [
        replace(base, gravity=-base.gravity),
        replace(base, coupling=base.coupling[:1]),
        replace(base, passive=()),
    ]
    moved = base.base.copy()
    moved[0, 3] += 1e-9
    robots += [replace(base, base=moved)]
    for field in ("gamma", "b", "alpha", "d", "theta", "r"):
        joint = replace(base.joints[2], **{field: getattr(base.joints[2], field) + 1e-12})
        robots.append(replace(base, joints=(*base.joints[:2], joint, *base.joints[3:])))
    robots.append(replace(forces, forces=(replace(forces.forces[0], rest=0.3), *forces.forces[1:])))
    robots.append(replace(forces, forces=(replace(forces.forces[0], powers=(1,)), *forces.forces[1:])))
    keys = {compiled.library_key(robot, "torque") for robot in robots}
    assert len(keys) == len(robots)
    renamed = replace(base, name="x", parameters={})
    assert compiled.library_key(renamed, "torque") == compiled.library_key(base, "torque")


def test_whatever_a_library_would_be_wrong_without_is_in_its_name():
    base, forces = coupled_loop(np.random.default_rng(3)), with_forces(load_robot("demo6"))
    one, two = base.coupling
    last = base.joints[-1]
    element = forces.forces[2]
    pivot = element.pivots[1]
    nearer = replace(pivot, point=(pivot.point[0], pivot.point[1] + 1e-9, pivot.point[2]))
    others = [
        replace(base, joints=(*base.joints[:-1], replace(last, sigma=1 - last.sigma))),
        replace(base, joints=(*base.joints[:-1], replace(last, parent=last.parent - 1))),
        replace(base, coupling=(replace(one, independent_inertia=not one.independent_inertia), two)),
        replace(base, coupling=(replace(one, weights={**one.weights, one.motor: 2.0}), two)),
        replace(base, passive=(replace(base.passive[0], offset=0.31), base.passive[1])),
        replace(base, passive=(replace(base.passive[0], terms={1: 1.0, 4: -0.71}), base.passive[1])),
        replace(forces, forces=(*forces.forces[:2], replace(element, pivots=(element.pivots[0], nearer)))),
        replace(
            forces, forces=(*forces.forces[:2], replace(element, pivots=(element.pivots[0], Pivot(3, pivot.point))))
        ),
        replace(forces, forces=(replace(forces.forces[0], weights={1: 1.0, 4: -0.6}), *forces.forces[1:])),
    ]
    robots = (base, forces, replace(forces, forces=forces.forces[:3]), *others)
    keys = [compiled.library_key(robot, "torque") for robot in robots]
    keys += [compiled.library_key(base, kind) for kind in ("regressor", "energy")]
    assert len(set(keys)) == len(keys)


def test_another_compiler_is_told_apart(tmp_path, monkeypatch):
    keys = []
    for name, text in (("one", "#!/bin/sh\n"), ("two", "#!/bin/sh\n#\n")):
        tool = tmp_path / name
        tool.write_text(text)
        tool.chmod(0o700)
        for options in ("", " -m64"):
            monkeypatch.setenv("CC", f"{tool}{options}")
            keys.append(compiled.library_key(SMALL, "torque"))
    assert len(set(keys)) == 4


def test_where_libraries_are_kept(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(compiled.atexit, "register", lambda *a, **k: made.append((a, k)))

    def folder(**environment):
        for name in ("DYNID_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        return compiled.cache_folder.__wrapped__()

    assert folder(DYNID_CACHE=tmp_path / "a" / "b", XDG_CACHE_HOME=tmp_path / "x") == tmp_path / "a" / "b"
    assert folder(XDG_CACHE_HOME=tmp_path / "x") == tmp_path / "x" / "ros2_dynid"
    assert folder(HOME=tmp_path / "home") == tmp_path / "home" / ".cache" / "ros2_dynid" and not made
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        aside = folder(DYNID_CACHE=tmp_path / "a" / "b")
    assert aside.is_dir() and compiled.is_private_folder(aside) and aside != tmp_path / "a" / "b"
    ((remove, gone), options) = made.pop()
    remove(gone, **options)
    assert gone == aside and not aside.exists()


@pytest.mark.parametrize(
    "failure", [OSError("gone"), subprocess.TimeoutExpired("cc", 300.0)], ids=["no program", "too long"]
)
def test_a_compiler_that_does_not_run_is_told(tmp_path, monkeypatch, failure):
    def run(command, **options):
        assert options["stdin"] == subprocess.DEVNULL, "it must not wait for somebody to type"
        raise failure

    monkeypatch.setattr("ros2_dynid.codegen.compiled.subprocess.run", run)
    monkeypatch.setattr(compiled, "compiler", lambda: ["cc"])
    with pytest.raises(compiled.BuildError, match="the C compiler cc did not run"):
        compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")


# --- the runtime's file


class Reader:
    def __init__(self, data):
        assert data[:8] == b"DYNIDRT\n"
        self.version, crc, length = struct.unpack("<III", data[8:20])
        self.data, self.at = data[20:], 0
        assert crc == zlib.crc32(self.data) and length == len(self.data)

    def take(self, form, count=1):
        found = struct.unpack_from(f"<{count}{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{count}{form}")
        return found if count > 1 else found[0]

    def text(self):
        length = self.take("I")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def weights(self):
        return {self.take("I"): self.take("d") for _ in range(self.take("I"))}


def read_runtime(data):
    """Return the model in a runtime file as plain values, by the layout in its header (include/ros2_dynid)."""
    r = Reader(data)
    found = {"version": r.version, "name": r.text(), "gravity": r.take("d", 3), "base": r.take("d", 12), "joints": []}
    for _ in range(r.take("I")):
        found["joints"].append((r.text(), r.take("I", 2), r.take("d", 6), r.take("d", 5), r.take("d", 14)))
    found["coupling"] = [(r.take("I", 2), r.take("d", 3), r.weights()) for _ in range(r.take("I"))]
    found["passive"] = [(r.take("I"), r.take("d"), r.weights()) for _ in range(r.take("I"))]
    found["friction"] = [(r.take("I", 2), r.take("d", 2)) for _ in range(r.take("I"))]
    found["forces"] = []
    for _ in range(r.take("I") if r.version >= 2 else 0):
        pivoted, rest = r.take("I"), r.take("d")
        where = [(r.take("I"), r.take("d", 3)) for _ in range(2)] if pivoted else r.weights()
        found["forces"].append((rest, where, [(r.take("I"), r.take("d")) for _ in range(r.take("I"))]))
    found["warm"] = [(r.take("I", 2), r.take("d", 2)) for _ in range(r.take("I") if r.version >= 3 else 0)]
    found["tools"] = [(r.text(), r.take("I"), r.take("d", 12)) for _ in range(r.take("I"))]
    found["bars"] = [r.take("d", 2) for _ in range(len(found["joints"]) - len(found["passive"]))]
    active = len(found["bars"])
    found["adds"] = [(r.take("I", 3), r.take("d")) for _ in range(active if r.version >= 4 else 0)]
    found["recorded"] = [r.take("d") for _ in found["friction"]] if r.version >= 5 else []
    assert r.at == len(r.data)
    return found


@pytest.mark.parametrize("which", ["loop", "springs"])
def test_a_runtime_file_says_all_of_the_model(which):
    rng = np.random.default_rng(2)
    robot = with_forces(load_robot("demo6")) if which == "springs" else coupled_loop(rng)
    robot = with_terms(robot, rng)
    pose = np.eye(4)
    pose[:3, 3] = (0.1, 0.2, 0.3)
    robot = replace(robot, tools={"base_tool": (0, pose), "händ": (robot.n, pose)})
    chi = rng.normal(size=len(standard_names(robot)))
    place = dict(zip(standard_names(robot), chi.tolist(), strict=True))
    n = len(robot.active)
    found = read_runtime(runtime_bytes(robot, chi, ErrorBars(np.arange(n) + 1.0, -np.arange(n) - 1.0)))
    declared = [robot.joints[j - 1].adds for j in robot.active]
    assert (found["version"], found["name"]) == (5, robot.name)
    assert found["recorded"] == [term.recorded_speed for term in robot.friction]
    older = replace(robot, friction=tuple(replace(term, recorded_speed=0.0) for term in robot.friction))
    version = read_runtime(runtime_bytes(older, chi))["version"]
    assert version == (4 if any(declared) else 2 if robot.forces else 1)
    assert found["adds"] == [
        ((0, 0, 0), 0.0) if one is None else ((1, one.gravity, one.payload), one.friction) for one in declared
    ]
    assert found["gravity"] == tuple(robot.gravity)
    assert found["base"] == (*robot.base[:3, :3].ravel(), *robot.base[:3, 3])
    for (name, numbers, geometry, limits, values), joint, own in zip(
        found["joints"], robot.joints, chi[: 14 * robot.n].reshape(-1, 14), strict=True
    ):
        assert (name, numbers) == (joint.name, (joint.parent, joint.sigma))
        assert geometry == (joint.gamma, joint.b, joint.alpha, joint.d, joint.theta, joint.r)
        lim = joint.limits
        assert limits == (lim.lower, lim.upper, lim.velocity, lim.acceleration, lim.effort) and values == tuple(own)
    for (numbers, values, weights), own in zip(found["coupling"], robot.coupling, strict=True):
        m = own.motor
        assert numbers == (m, int(own.independent_inertia)) and weights == dict(own.weights)
        assert values == (place.get(f"Iam{m}", 0.0), place[f"Fvm{m}"], place[f"Fcm{m}"])
    assert found["passive"] == [(p.joint, p.offset, dict(p.terms)) for p in robot.passive]
    assert found["friction"] == [((t.joint, t.kind.code), (t.coefficient, t.shape)) for t in robot.friction]
    for k, ((rest, where, powers), own) in enumerate(zip(found["forces"], robot.forces, strict=True), start=1):
        assert rest == own.rest
        assert where == ([(p.joint, p.point) for p in own.pivots] if own.pivots else dict(own.weights))
        assert [p for p, _ in powers] == list(own.powers)
        assert [c for _, c in powers] == [v for name, v in place.items() if name[0] == "K" and name[2:] == str(k)]
    assert found["tools"] == [("händ", robot.n, (*pose[:3, :3].ravel(), 0.1, 0.2, 0.3))]
    assert found["bars"] == [(k + 1.0, -k - 1.0) for k in range(n)]
    assert np.isnan(read_runtime(runtime_bytes(robot, chi))["bars"]).all()
    for wrong in (chi[:-1], np.where(np.arange(len(chi)) == 3, np.nan, chi)):
        with pytest.raises(InputError, match="missing or not finite"):
            runtime_bytes(robot, wrong)


@pytest.mark.parametrize("which", ["loop", "springs"])
def test_a_runtime_file_tells_how_friction_changes_with_the_temperature(which):
    rng = np.random.default_rng(3)
    robot = with_forces(load_robot("demo6")) if which == "springs" else coupled_loop(rng)
    robot = with_terms(robot, rng)
    robot = replace(robot, friction=tuple(replace(term, recorded_speed=0.0) for term in robot.friction))
    first, last = robot.active[0], robot.active[-1]
    warm = (
        FrictionTerm(last, FrictionKind.TEMPERATURE_VISCOUS, -0.15, reference=35.0),
        FrictionTerm(first, FrictionKind.TEMPERATURE, 0.04, reference=28.0),
    )
    chi = rng.normal(size=len(standard_names(robot)))
    cold = read_runtime(runtime_bytes(robot, chi))
    found = read_runtime(runtime_bytes(replace(robot, friction=(warm[0], *robot.friction, warm[1])), chi))
    assert found["warm"] == [((last, 1), (-0.15, 35.0)), ((first, 0), (0.04, 28.0))] and cold["warm"] == []
    declared = any(robot.joints[j - 1].adds is not None for j in robot.active)
    assert found["version"] == (4 if declared else 3)
    assert cold["version"] == (4 if declared else 2 if robot.forces else 1)
    for key in set(found) - {"warm", "version", "bars"}:
        assert found[key] == cold[key], key


# --- notes, texts, tools


def test_what_a_format_cannot_say_is_listed_and_no_more():
    robot = load_robot("demo3")
    clean = standard_vector(robot).reshape(3, 14).copy()
    clean[:, 10] = (0.1, 0.0, 0.3)
    clean[:, 11:13] = 0.5
    clean[:, 13] = 0.0
    assert left_out(robot, clean.ravel(), "X", rotors=True) == []
    assert left_out(robot, clean.ravel(), "X", rotors=False) == ["X has no rotor inertia: Ia1 0.1, Ia3 0.3 left out"]
    clean[1, 13], clean[2, 13] = -0.25, 2.0
    assert left_out(robot, clean.ravel(), "X", rotors=True) == ["X has no constant torque: off2 -0.25, off3 2 left out"]
    clean[:, 13] = 0.0
    clean[0, 10], clean[1, 11], clean[2, 12] = -0.1, -0.2, -0.3
    negative = "X takes no negative drive parameter: {} written as 0"
    assert left_out(robot, clean.ravel(), "X", rotors=True) == [negative.format("Ia1, Fv2, Fc3")]
    assert left_out(robot, clean.ravel(), "X", rotors=False)[1:] == [negative.format("Fv2, Fc3")]
    springs = with_forces(load_robot("demo6"))
    chi = np.zeros(len(standard_names(springs)))
    assert left_out(springs, chi, "X", rotors=True)[-1].endswith("cables: those of the robot left out")
    chi[-1] = 7.0
    assert left_out(springs, chi, "X", rotors=True)[-1].endswith(f"cables: {standard_names(springs)[-1]} 7 left out")
    coupled = load_robot("tx40")
    note = left_out(coupled, np.zeros(len(standard_names(coupled))), "X", rotors=True)[-1]
    assert note == f"X has no coupled motors: the coupling of {coupled.joints[5].name} left out"


def test_texts_of_generated_code():
    assert [identifier(x) for x in ("My Robot-2", "2x", "", "__", "Ä9")] == [
        "my_robot_2",
        "robot_2x",
        "robot",
        "robot",
        "robot_9",
    ]
    assert comment("a*/\n\"b' c") == "a????b? c" and len(comment("x" * 300)) == 200
    for value in (0.1, 1.0, -2.5e-7, 1e22, 3.0e8):
        assert float(number(value)) == value
        text = number(value, "float")
        assert text.endswith("f") and np.float32(text[:-1]) == np.float32(value) and set(text[:-1]) & set(".e")
    graph = Graph()
    x, y, z = (graph.variable("q", k) for k in range(3))
    p = graph.parameter("p")
    outputs = [("a", x - (y - z)), ("b", -(x + y)), ("c", (x + y) * z), ("d", -(p * x)), ("e", graph.sin(x + y))]
    code = code_of(graph, outputs, functions={"sin": "sin({x})"})
    values = {"q": [0.3, -1.1, 2.2], "p": 0.7, "sin": math.sin}
    for statement in code.statements:
        values[statement.name] = eval(statement.text, {}, values)  # of our own making
    found = [eval(statement.text, {}, values) for statement in code.outputs]
    assert found == pytest.approx(evaluate(graph, [e for _, e in outputs], {"q": values["q"]}, {"p": 0.7}), rel=1e-14)
    assert code.arrays == {"q"} and [name for name, _ in code.constants] == ["p"]
    assert "s12" in [statement.name for statement in code.statements]
    long = graph.sum(graph.variable("quantity", k) for k in range(40))
    assert max(len(s.text) for s in code_of(graph, [("a", long)], functions={}).statements) < 84 + 30


def test_loads_and_wrenches_at_a_tool():
    """Virtual work: the wrench's power is that of its torques; a load is a body fixed to the tool."""
    rng = np.random.default_rng(4)
    robot = random_robot(rng, 5, tree=False, prismatic=0.4)
    pose = np.eye(4)
    pose[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    pose[:3, :3] *= np.linalg.det(pose[:3, :3])
    pose[:3, 3] = rng.normal(size=3)
    robot = replace(robot, tools={"hand": (4, pose)})
    assert tool_of(robot, "hand")[:1] + tool_of(robot, "hand")[2:] == (4, "link hand")
    joint, unit, words = tool_of(robot, None)
    assert joint == 5 and np.array_equal(unit, np.eye(4)) and robot.joints[-1].name in words
    with pytest.raises(InputError, match="choose from hand"):
        tool_of(robot, "foot")
    q, wrench = rng.normal(size=5), rng.normal(size=6)
    assert any(j.sigma == PRISMATIC for j in robot.joints) and any(j.sigma != PRISMATIC for j in robot.joints)
    tau = contact_torque(robot, q, wrench, 4, pose)

    def tool(q):
        return frames(robot, q[None])[0, 3] @ pose

    T, h = tool(q), 1e-6
    force, moment = T[:3, :3] @ wrench[:3], T[:3, :3] @ wrench[3:]
    for k in range(5):
        step = h * np.eye(5)[k]
        change = (tool(q + step) - tool(q - step)) / (2 * h)
        spin = change[:3, :3] @ T[:3, :3].T
        turning = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        assert tau[k] == pytest.approx(force @ change[:3, 3] + moment @ turning, abs=1e-7)
    columns = load_columns(robot, 4, pose)
    names = standard_names(robot)
    mass = dict(zip(names, columns[:, LINK.index("M")], strict=True))
    d = pose[:3, 3]
    J = d @ d * np.eye(3) - np.outer(d, d)
    wanted = {"M4": 1.0, "MX4": d[0], "MY4": d[1], "MZ4": d[2], "XX4": J[0, 0], "XY4": J[0, 1], "ZZ4": J[2, 2]}
    assert {name: mass[name] for name in wanted} == pytest.approx(wanted)
    assert not any(value for name, value in mass.items() if not name.endswith("4"))


def test_parameters_that_appear_are_those_asked_for():
    robot = load_robot("demo3")
    names, values = chosen_parameters(robot, ["ZZ2", "M3", "ZZ2"])
    chi = dict(zip(standard_names(robot), standard_vector(robot), strict=True))
    assert names == ("ZZ2", "M3") and values.tolist() == [chi["ZZ2"], chi["M3"]]
    kinds = {name.rstrip("0123456789") for name in chosen_parameters(robot, ["friction"])[0]}
    assert kinds == {"Fv", "Fc"}
    bare = replace(robot, parameters={k: v for k, v in robot.parameters.items() if not k.startswith(("F", "off"))})
    assert not any(name.startswith(("F", "off")) for name in chosen_parameters(bare, None)[0])
    assert any(name.startswith("Fv") for name in chosen_parameters(robot, None)[0])
    with pytest.raises(InputError, match="neither a group nor a parameter"):
        chosen_parameters(robot, ["inertial", "XX9"])


# --- URDF


URDF = b"""<robot name="r"><link name="base"/>
  <link name="arm"/>
  <link name="hand"><inertial><mass value="1.0"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
  <joint name="b" type="revolute"><parent link="arm"/><child link="hand"/><origin xyz="0.5 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/><dynamics damping="1.0" friction="2.0"/></joint>
</robot>
"""  # noqa: E501


def test_a_urdf_gets_only_what_it_lacks_and_what_has_changed():
    robot = robot_from_urdf_string(URDF)
    body = {"XX1": 0.4, "YY1": 0.5, "ZZ1": 0.6, "XY1": 0.01, "XZ1": -0.02, "YZ1": 0.03, "MX1": 0.2, "MY1": -0.1,
            "MZ1": 0.3, "M1": 2.0}  # fmt: skip
    text, notes = updated_urdf(URDF, robot, {**body, "Fv1": 0.0, "Fc1": 0.0})
    assert notes == [] and text.count(b"<dynamics") == 1, "no friction where there is none"
    again = robot_from_urdf_string(text).parameters
    assert {name: again[name] for name in body} == pytest.approx(body, rel=1e-9)
    assert b'<link name="arm">\n    <inertial>\n      <origin xyz="0.1 -0.05 0.15" rpy="0 0 0"/>\n' in text
    assert b"\n    </inertial>\n  </link>" in text
    text, _ = updated_urdf(URDF, robot, {"Fv1": 0.0, "Fc1": 0.25, "Fc2": 3.0})
    assert b'<dynamics damping="0.0" friction="0.25"/>' in text and b'damping="1.0" friction="3.0"' in text
    assert robot_from_urdf_string(text).parameters["Fc1"] == 0.25
    for change, kept in ((1e-13, True), (1e-11, False)):
        text, _ = updated_urdf(URDF, robot, {"Fv2": 1.0 + change})
        assert (text == URDF) == kept, "rounding is no change"
    assert updated_urdf(URDF, robot, {})[0] == URDF
    _, notes = updated_urdf(URDF, robot, {**body, "XX1": -5.0})
    assert len(notes) == 1 and "link 'arm'" in str(notes[0])


def test_tags_are_found_by_their_ends_and_their_links():
    """Quotes of either kind may hold a >, a visual has an origin of its own, and a link may come twice in a path."""
    text = URDF.replace(b'<mass value="1.0"/>', b"<mass note='a > b \"' value='1.0'/><origin xyz='0.1 0 0'/>")
    text = text.replace(b"</inertial></link>", b'</inertial><visual><origin xyz="9 9 9"/></visual></link>')
    robot = robot_from_urdf_string(text)
    body = {"XX2": 2.0, "YY2": 2.1, "ZZ2": 2.2, "MX2": 0.3, "M2": 3.0}
    new, notes = updated_urdf(text, robot, body)
    assert notes == [] and b'<mass note=\'a > b "\' value="3.0"/>' in new and b'xyz="9 9 9"' in new
    again = robot_from_urdf_string(new).parameters
    assert {name: again[name] for name in body} == pytest.approx(body)
    with pytest.raises(InputError, match="UTF-8"):
        updated_urdf(b"\xfe\xff" + text.decode().encode("utf-16-be"), robot, body)


def test_a_moment_without_a_mass_is_written_and_told():
    robot = robot_from_urdf_string(URDF)
    text, notes = updated_urdf(URDF, robot, {"ZZ2": 0.5})
    assert b'<mass value="0.0"/>' in text and b'izz="0.5"' in text and b"nan" not in text
    assert len(notes) == 1 and "link 'hand': inertia without mass; identify with " in str(notes[0])
    text, notes = updated_urdf(URDF, robot, {"M2": 2.0, "XX2": 1.0, "YY2": 1.0, "ZZ2": -0.1})
    assert len(notes) == 1 and "link 'hand': negative principal moment" in str(notes[0])
    for small, kept in ((1e-18, True), (1e-15, False)):  # beside a zero there is nothing to be small against
        text, _ = updated_urdf(URDF.replace(b'damping="1.0"', b'damping="0"'), robot, {"Fv2": small})
        assert (b'damping="0"' in text) == kept


# --- programs


def small_program(robot, **options):
    chi = np.random.default_rng(3).uniform(0.5, 1.0, len(standard_names(robot)))
    return program_of(robot, standard_names(robot), chi, ProgramOptions(effort=1, **options))


def test_joints_and_temperatures_of_a_loop_are_those_of_its_active_joints():
    joints = (*SMALL.joints, Joint("p", 2, PRISMATIC, alpha=0.3), Joint("d", 3, d=0.2))
    terms = (
        FrictionTerm(4, FrictionKind.TEMPERATURE, 0.1, reference=33.0),
        FrictionTerm(3, FrictionKind.POWER, 0.2, exponent=1.5),
    )
    robot = Robot("loop", joints, passive=(Passive(2, {1: 0.5}, 0.1),), friction=terms)
    program = small_program(robot)
    assert program.references == [0.0, 0.0, 33.0] and program.thermal
    files = {**emit_c(program), **emit_numpy(program)}
    header = files["loop.h"]
    assert [line[5:] for line in header.splitlines() if line.endswith(("te)", "ic)"))] == [
        "0: a (revolute)",
        "1: p (prismatic)",
        "2: d (revolute)",
    ]
    assert "#define LOOP_JOINTS 3" in header and f"#define LOOP_PARAMETERS {14 * 4}" in header
    count = program.functions["inertia_gravity"].count
    assert f" *   inertia_gravity: {count.multiplications}, {count.additions}\n" in header
    scope = {"__name__": "generated"}
    exec(files["loop.py"], scope)
    test = program.tests[1]
    with np.errstate(all="raise"):  # a joint that stands still has no speed to take the logarithm of
        still = scope["friction"](np.zeros((1, 3)), test["carried"][None], test["temperature"][None])
    assert still[0, 1] == pytest.approx(program.values[standard_names(robot).index("off3")])
    for fault in ("0.0", "1e-6", "np.nan"):
        text = files["loop.py"].replace("    tau[:, 1] = ", f"    tau[:, 1] = {fault} + ", 1)
        with pytest.raises(SystemExit) as ended:
            exec(text, {"__name__": "__main__"})
        assert bool(ended.value.code) == (fault != "0.0")


@pytest.mark.parametrize("wrench", [False, True])
def test_coupled_motors_friction_terms_and_a_tool_turned_by_little_are_all_in_the_code(wrench):
    """The module compares torque, velocity torques and friction with the recursions, to 1e-10."""
    rng = np.random.default_rng(6)
    pose = np.eye(4)
    pose[:3, :3] = ScipyRotation.from_rotvec((3e-4, -5e-4, 2e-4)).as_matrix()
    pose[:3, 3] = (0.1, -0.2, 0.3)
    robot = with_terms(replace(coupled_loop(rng), tools={"hand": (7, pose)}), rng)
    program = small_program(robot, wrench=wrench, tool="hand")
    module = emit_numpy(program)[f"{program.name}.py"]
    with pytest.raises(SystemExit) as ended:
        exec(module, {"__name__": "__main__"})
    assert not ended.value.code
    scope = {"__name__": "generated"}
    exec(module, scope)
    q, dq, ddq, carried = (program.tests[0][x][None] for x in ("q", "dq", "ddq", "carried"))
    if not wrench:  # what the split functions add up to is the whole
        M, Q = scope["inertia_gravity"](q)
        sum_of_parts = scope["synchronous"](M, Q + scope["velocity_torques"](q, dq), ddq)
        assert close(sum_of_parts, carried) and close(
            sum_of_parts + scope["friction"](dq, sum_of_parts), program.tests[0]["tau"][None]
        )


def test_reference_values_have_loads_wrenches_and_temperatures_that_matter():
    """Each is drawn for each sample, and the torque is that of the recursion with the load on its link."""
    pose = np.eye(4)
    pose[:3, 3] = (0.1, -0.2, 0.3)
    robot = replace(
        SMALL, tools={"hand": (1, pose)}, friction=(FrictionTerm(2, FrictionKind.TEMPERATURE, 0.1, reference=33.0),)
    )
    program = small_program(robot, load=True, wrench=True, tool="hand")
    for test in program.tests:
        assert all(np.abs(test[x]).min() > 1e-3 for x in ("load", "wrench", "temperature"))
        chi = program.values + load_columns(robot, 1, pose) @ test["load"]
        row = [test[x][None] for x in ("q", "dq", "ddq")]
        tau = inverse_dynamics(robot, chi, *row, test["temperature"][None])[0]
        assert close(test["tau"], tau - contact_torque(robot, test["q"], test["wrench"], 1, pose))
    assert len({test[x].tobytes() for test in program.tests for x in ("load", "wrench", "temperature")}) == 9
    assert program.tool == "link hand" and "about the origin and in the axes of link hand" in emit_c(program)["small.h"]


# --- frames


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_rotation_turns_about_its_axis(axis):
    graph = Graph()
    angle = graph.variable("q", 0)
    turn = Rotation(axis, graph.cos(angle), graph.sin(angle))
    v = [graph.variable("v", k) for k in range(3)]
    values = {"q": [0.7], "v": [1.0, -2.0, 3.0]}
    R = ScipyRotation.from_rotvec(0.7 * np.eye(3)[axis]).as_matrix()
    assert evaluate(graph, turn.out(v), values, {}) == pytest.approx(R @ values["v"])
    assert evaluate(graph, turn.into(v), values, {}) == pytest.approx(R.T @ values["v"])


def test_quarter_turns_are_exact_and_no_others():
    exact = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
    for k in range(-8, 9):
        right = k * (math.pi / 2)
        assert turn(right) == exact[k % 4]
        for off in (-1e-9, 1e-9, 0.3):
            assert turn(right + off) == (math.cos(right + off), math.sin(right + off))
        for off in (0.0, 1e-9, -0.3):
            graph = Graph()
            angle = graph.variable("q", 0)
            rotation = variable_rotation(graph, angle, right + off)
            c, s = evaluate(graph, [rotation.c, rotation.s], {"q": [0.7]}, {})
            assert (c, s) == pytest.approx((math.cos(0.7 + right + off), math.sin(0.7 + right + off)), abs=2e-15)
            assert graph.count([rotation.c, rotation.s]) == Count(0, int(off != 0.0)), "a quarter turn costs nothing"
