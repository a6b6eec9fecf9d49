"""What codegen writes is read back by plain readers; springs, loops, units of the text and refusals of every kind."""

from __future__ import annotations

import math
import os
import stat
import struct
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
from ros2_dynid.codegen.frames import Rotation
from ros2_dynid.codegen.functions import torque
from ros2_dynid.codegen.graph import ABS, GAUSS, INVERSE_ROOT, LOG, ROOT, Count, Graph, evaluate
from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.codegen.newton_euler_expressions import RecursionPlan
from ros2_dynid.codegen.operation_search import constants_of, starting_constants
from ros2_dynid.codegen.plain_library import PlainLibrary, PlainTorque
from ros2_dynid.codegen.program import chosen_parameters, contact_torque, load_columns, tool_of
from ros2_dynid.codegen.regressor_expressions import energy_row, regressor_columns
from ros2_dynid.codegen.representation import space_of
from ros2_dynid.codegen.runtime_export import KINDS, ErrorBars, runtime_bytes
from ros2_dynid.codegen.text import code_of, comment, identifier, number
from ros2_dynid.codegen.urdf_export import updated_urdf
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot
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


# --- the fast door


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
        fill = regressor_function(SMALL, 10 * backend.LARGE)
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


@pytest.mark.parametrize(
    ("choice", "samples", "ready", "asked"),
    [("numpy", 9999, True, False), ("auto", 1999, False, False), ("auto", 2000, False, True), ("auto", 5, True, True),
     ("compiled", 1, False, True)],
)  # fmt: skip
def test_who_serves(monkeypatch, choice, samples, ready, asked):
    monkeypatch.setenv("DYNID_BACKEND", choice)
    monkeypatch.setattr(backend, "is_ready", lambda *_: ready)
    monkeypatch.setattr(backend, "library", lambda robot, kind: (robot, kind))
    assert backend._library(SMALL, "torque", samples) == ((SMALL, "torque") if asked else None)


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
    keys = {compiled._robot_text(robot) for robot in robots}
    assert len(keys) == len(robots)
    assert compiled._robot_text(replace(base, name="x", parameters={})) == compiled._robot_text(base)


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
    for _ in range(r.take("I") if r.version == 2 else 0):
        pivoted, rest = r.take("I"), r.take("d")
        where = [(r.take("I"), r.take("d", 3)) for _ in range(2)] if pivoted else r.weights()
        found["forces"].append((rest, where, [(r.take("I"), r.take("d")) for _ in range(r.take("I"))]))
    found["tools"] = [(r.text(), r.take("I"), r.take("d", 12)) for _ in range(r.take("I"))]
    found["bars"] = [r.take("d", 2) for _ in range(len(found["joints"]) - len(found["passive"]))]
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
    assert (found["version"], found["name"]) == (2 if robot.forces else 1, robot.name)
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
    assert found["friction"] == [((t.joint, KINDS.index(t.kind)), (t.coefficient, t.shape)) for t in robot.friction]
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
