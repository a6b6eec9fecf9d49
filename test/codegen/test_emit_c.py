# SPDX-License-Identifier: Apache-2.0

"""Exported C: no warnings in C99 and C++, right numbers, harmless names."""

import ctypes
import itertools
import re
import shutil
import string
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import pin_model, random_robot
from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.emit_numpy import emit_numpy
from ros2_dynid.codegen.program import ProgramOptions, chosen_parameters, program_of
from ros2_dynid.codegen.text import comment, identifier, number
from ros2_dynid.dynamics.friction import terms_torque
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_names
from ros2_dynid.model.robot import PRISMATIC, Joint, Passive, Robot
from runtime_robots import with_forces, with_terms
from small_program import small_program
from urdf_oracle import exact_urdf, example_urdfs

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("g++") is None, reason="needs gcc")
STRICT = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
LANGUAGES = (["gcc", "-std=c99"], ["g++", "-x", "c++", "-std=c++11"])


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)


def build_and_run(folder, name):
    """Compile as C and as C++ without a warning, and run the program that checks itself."""
    for language in LANGUAGES:
        command = [*language, *STRICT, f"{name}.c", "main.c", "-o", "check", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        check = subprocess.run(["./check"], cwd=folder, capture_output=True, text=True)
        assert check.returncode == 0, check.stdout


@needs_compiler
@pytest.mark.parametrize(
    ("robot", "options"),
    [
        ("stanford", ProgramOptions()),
        ("puma560", ProgramOptions(effort=10, load=True, wrench=True)),
        ("tx40_iam6", ProgramOptions(effort=10, runtime=True)),
        ("hitachi_hpr", ProgramOptions(effort=10, runtime=True, load=True, wrench=True)),
        ("puma260", ProgramOptions(effort=10, real="float", load=True)),
    ],
)
def test_exports_compile_without_warning_and_check_themselves(robot, options, tmp_path):
    robot = load_robot(robot)
    program = program_of(robot, *chosen_parameters(robot, None), options)
    write(tmp_path, emit_c(program))
    build_and_run(tmp_path, program.name)


def test_reference_samples_are_what_the_generated_code_is_given():
    """Single precision numbers for single precision code, so that its check does not see the rounding of its inputs."""
    robot = load_robot("demo3")
    for real, rounded in (("float", True), ("double", False)):
        options = ProgramOptions(effort=1, real=real, load=True, wrench=True)
        program = program_of(robot, *chosen_parameters(robot, None), options)
        for test, name in itertools.product(program.tests, ("q", "dq", "ddq", "load", "wrench")):
            assert np.array_equal(test[name], test[name].astype(np.float32)) == rounded


@cache
def rubbing(name):
    """Return robots with friction terms of every kind: a tree with a wrist, a closed loop, springs and cylinders."""
    rng = np.random.default_rng(7)
    robot = {"loop": load_robot("hitachi_hpr"), "springs": with_forces(load_robot("demo6"))}.get(name)
    robot = with_terms(robot or load_robot("puma560"), rng)
    names = standard_names(robot)
    values = {n: float(rng.uniform(0.1, 1.0)) for n in names if n.startswith(("F", "off", "K"))}
    return replace(robot, parameters={**robot.parameters, **values})


@needs_compiler
@pytest.mark.parametrize(
    ("robot", "options"),
    [
        ("wrist", ProgramOptions(effort=2, runtime=True, load=True, wrench=True)),
        ("loop", ProgramOptions(effort=2, load=True)),
        ("springs", ProgramOptions(effort=2, wrench=True)),
        ("springs", ProgramOptions(effort=2, real="float")),
    ],
)
def test_split_torques_and_wrenches_have_all_friction_terms(robot, options, tmp_path):
    robot = rubbing(robot)
    program = program_of(robot, *chosen_parameters(robot, None), options)
    assert program.functions["friction"].count.multiplications > 0
    files = emit_c(program)
    assert f"friction: {program.functions['friction'].count.multiplications}, " in files[f"{program.name}.h"]
    write(tmp_path, files)
    build_and_run(tmp_path, program.name)
    namespace = {"__name__": "generated"}
    exec(emit_numpy(program)[f"{program.name}.py"], namespace)
    loaded = {"load": program.tests[0]["load"]} if options.load else {}
    q, dq, ddq, wrench = (program.tests[0][x][None] for x in ("q", "dq", "ddq", "wrench"))
    tau = namespace["torque"](q, dq, ddq, *([wrench] if options.wrench else []), **loaded)
    assert np.allclose(tau, program.tests[0]["tau"], rtol=1e-9)
    if not options.wrench:
        M, Q = namespace["inertia_gravity"](q, **loaded)
        h = Q + namespace["velocity_torques"](q, dq, **loaded)
        carried = namespace["synchronous"](M, h, ddq)
        assert np.allclose(carried + namespace["friction"](dq, carried, **loaded), tau, rtol=1e-9)


def warming(robot):
    """Return the robot with friction of two joints that changes with the temperature, beside its other terms."""
    warm = (
        FrictionTerm(2, FrictionKind.TEMPERATURE, -0.04, reference=35.0),
        FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, -0.15, reference=35.0),
        FrictionTerm(4, FrictionKind.TEMPERATURE_VISCOUS, 0.2, reference=28.0),
    )
    return replace(robot, friction=(*robot.friction, *warm))


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [ProgramOptions(effort=2, runtime=True, load=True, wrench=True), ProgramOptions(effort=2)],
    ids=["prepared", "compiled in"],
)
def test_generated_code_takes_the_temperature(options, tmp_path):
    """C and NumPy agree with reference values of the law; at T0 they are those of the law without these terms."""
    robot = warming(rubbing("wrist"))
    program = program_of(robot, *chosen_parameters(robot, None), options)
    files = emit_c(program)
    assert "_TEMPERATURES {0.0, 35.0, 0.0, 28.0, 0.0, 0.0}" in files[f"{program.name}.h"]
    write(tmp_path, files)
    build_and_run(tmp_path, program.name)
    namespace = {"__name__": "generated"}
    exec(emit_numpy(program)[f"{program.name}.py"], namespace)
    loaded = {"load": program.tests[0]["load"]} if options.load else {}
    q, dq, ddq, wrench, T = (program.tests[0][x][None] for x in ("q", "dq", "ddq", "wrench", "temperature"))
    given = [q, dq, ddq, *([wrench] if options.wrench else [])]
    warm = namespace["torque"](*given, T, **loaded)
    reference = namespace["torque"](*given, np.array([namespace["TEMPERATURES"]]), **loaded)
    more = np.zeros(6)  # the law, by hand
    more[1] = (T[0, 1] - 35.0) * (-0.04 * np.sign(dq[0, 1]) - 0.15 * dq[0, 1])
    more[3] = 0.2 * (T[0, 3] - 28.0) * dq[0, 3]
    assert np.abs(more[[1, 3]]).min() > 0.05
    assert np.allclose(warm[0] - reference[0], more, rtol=1e-9)
    cold = program_of(rubbing("wrist"), *chosen_parameters(robot, None), options)
    assert np.allclose(reference[0], cold.tests[0]["tau"], rtol=1e-9)


def test_code_without_such_terms_is_not_told_the_temperature():
    program = program_of(rubbing("wrist"), *chosen_parameters(rubbing("wrist"), None), ProgramOptions(effort=1))
    texts = [*emit_c(program).values(), *emit_numpy(program).values()]
    assert not any("temperature" in text.lower() for text in texts)


def test_a_wrench_loads_the_gears():
    """By d'Alembert: friction of a gear that carries a wrench is that of one that carries the same torque otherwise."""
    robot = rubbing("wrist")
    program = program_of(robot, *chosen_parameters(robot, None), ProgramOptions(effort=1, wrench=True))
    test = program.tests[0]
    plain = program_of(
        replace(robot, friction=()), *chosen_parameters(robot, None), ProgramOptions(effort=1, wrench=True)
    )
    more = terms_torque(robot, test["dq"], np.sign(test["dq"]), test["carried"])
    assert np.allclose(test["tau"] - plain.tests[0]["tau"], more)
    assert np.abs(more).max() > 0.1


@needs_compiler
@pytest.mark.parametrize("fault", ["1e-3 + ", "(double)NAN + "])
@pytest.mark.parametrize("joint", [0, 2])
def test_the_check_can_fail(tmp_path, fault, joint):
    robot = load_robot("demo3")
    program = program_of(robot, *chosen_parameters(robot, None), ProgramOptions(effort=1))
    files = emit_c(program)
    files[f"{program.name}.c"] = re.sub(rf"(tau\[{joint}\] = )", rf"\g<1>{fault}", files[f"{program.name}.c"], count=1)
    write(tmp_path, files)
    with pytest.raises(AssertionError, match="torque: sample 0"):
        build_and_run(tmp_path, program.name)


def compiled_torque(folder, robot, chi):
    """Return the exported C function tau(q, dq, ddq) with the standard parameters chi at run time."""
    names = standard_names(robot)
    program = program_of(robot, names, chi, ProgramOptions(effort=10), functions=("torque",))
    write(folder, emit_c(program))
    command = ["gcc", "-std=c99", *STRICT, "-shared", "-fPIC", f"{program.name}.c", "-o", "torque.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    function = getattr(ctypes.CDLL(str(folder / "torque.so")), f"{program.name}_torque")
    pointer = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    function.argtypes = [pointer] * 4
    function.restype = None

    def torque(q, dq, ddq):
        tau = np.empty(len(q))
        function(q, dq, ddq, tau)
        return tau

    return torque


def urdf_of(name):
    return next(path for path in example_urdfs() if path.name == name)


@needs_compiler
@pytest.mark.parametrize("urdf", ["ur10_robot.urdf", "panda.urdf", "solo.urdf"])  # two arms, and a tree
def test_exported_c_agrees_with_pinocchio_on_urdfs(urdf, tmp_path):
    pin = pytest.importorskip("pinocchio")
    text = exact_urdf(urdf_of(urdf).read_bytes())
    robot = robot_from_urdf_string(text)
    if robot.passive or len(robot.joints) > 40:
        robot = Robot(robot.name, robot.joints, robot.gravity, robot.base, parameters=robot.parameters)
    model = pin.buildModelFromXML(text)
    data = model.createData()
    chi = np.array([0.0 if n[:2] in ("Fv", "Fc") else robot.parameters.get(n, 0.0) for n in standard_names(robot)])
    torque = compiled_torque(tmp_path, robot, chi)
    rng = np.random.default_rng(0)
    place = [model.joints[model.getJointId(joint.name)] for joint in robot.joints]
    for _ in range(20):
        q, dq, ddq = rng.uniform(-1.5, 1.5, (3, robot.n))
        full_q, full_v, full_a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for joint, x, v, a in zip(place, q, dq, ddq, strict=True):
            full_q[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
            full_v[joint.idx_v], full_a[joint.idx_v] = v, a
        tau = pin.rnea(model, data, full_q, full_v, full_a)
        expected = np.array([tau[joint.idx_v] for joint in place])
        assert np.abs(torque(q, dq, ddq) - expected).max() <= 1e-10 * max(1.0, np.abs(expected).max())


@needs_compiler
@pytest.mark.parametrize("which", ["tx40", "stanford", "tree"])
def test_exported_c_agrees_with_pinocchio_on_tables(which, tmp_path):
    pin = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(3)
    robot = random_robot(rng, 6, tree=True) if which == "tree" else load_robot(which)
    robot = Robot(robot.name, robot.joints, robot.gravity, robot.base)  # links only: Pinocchio knows no coupling
    model = pin_model(robot)
    names = standard_names(robot)
    chi = np.zeros(len(names))
    for j in range(1, robot.n + 1):
        mass, centre = rng.uniform(0.5, 5.0), rng.uniform(-0.3, 0.3, 3)
        A = rng.normal(size=(3, 3))
        inertia = pin.Inertia(mass, centre, 0.1 * A @ A.T)
        model.inertias[j] = inertia
        J = inertia.inertia + mass * ((centre @ centre) * np.eye(3) - np.outer(centre, centre))
        values = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * centre), mass)
        for kind, value in zip(LINK, values, strict=True):
            chi[names.index(f"{kind}{j}")] = value
    data = model.createData()
    torque = compiled_torque(tmp_path, robot, chi)
    for _ in range(20):
        q, dq, ddq = rng.uniform(-1.5, 1.5, (3, robot.n))
        expected = pin.rnea(model, data, q, dq, ddq)
        assert np.abs(torque(q, dq, ddq) - expected).max() <= 1e-10 * max(1.0, np.abs(expected).max())


HOSTILE = [
    'a"; system("x"); //',
    "*/ int evil(void) { return 1; } /*",
    "new\nline #error no",
    "back\\",
    "??/",
    "{0}%s",
    "é",
]


@needs_compiler
def test_hostile_names_stay_in_comments(tmp_path):
    joints = tuple(Joint(name, k, alpha=1.0, d=0.3) for k, name in enumerate(HOSTILE))
    robot = Robot('r"*/\n#injected\\', joints)
    names = standard_names(robot)
    program = program_of(
        robot, names, np.ones(len(names)), ProgramOptions(effort=1), about=['*/ #pragma "x"\n'], functions=("torque",)
    )
    files = emit_c(program)
    for text in files.values():
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        assert not any(word in code for word in ("evil", "system", "#error", "#pragma", "#injected"))
        assert set(code) <= set(string.printable), "only ASCII reaches the compiler"
    write(tmp_path, files)
    for language in LANGUAGES:
        done = subprocess.run(
            [*language, *STRICT, "-c", f"{program.name}.c"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    module = emit_numpy(program)[f"{program.name}.py"]
    compile(module, "module", "exec")
    assert '"""' not in module.split('"""', 2)[1]


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_name_is_made_harmless(text):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", identifier(text))
    assert not set(comment(text)) & set("*/\\\"'\n\r?#{}<>") - {"?"}
    assert "??" not in comment(text).replace("??", "") and "*/" not in comment(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=500, deadline=None)
def test_numbers_survive_bit_by_bit(value):
    assert float(number(value)).hex() == value.hex()
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isfinite(single):
        assert np.float32(number(value, "float").removesuffix("f")) == single


@needs_compiler
def test_compiled_numbers_are_those_of_python(tmp_path):
    rng = np.random.default_rng(0)
    values = [*rng.normal(size=50) * 10.0 ** rng.integers(-300, 300, 50), 5e-324, 0.1, 1e22, -0.0]
    body = ", ".join(number(float(v)) for v in values)
    (tmp_path / "x.c").write_text(f"const double x[] = {{{body}}};\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "x.c", "-o", "x.so"], cwd=tmp_path, check=True)
    read = (ctypes.c_double * len(values)).in_dll(ctypes.CDLL(str(tmp_path / "x.so")), "x")
    assert [v.hex() for v in read] == [float(v).hex() for v in values]


def test_numpy_export_is_the_numpy_recursion():
    for name, options in (
        ("puma560", ProgramOptions(effort=20)),
        ("hitachi_hpr", ProgramOptions(effort=10, load=True, runtime=True)),
    ):
        robot = load_robot(name)
        parameters, values = chosen_parameters(robot, None)
        program = program_of(robot, parameters, values, options)
        scope = {"__name__": "exported"}
        exec(emit_numpy(program)[f"{program.name}.py"], scope)
        rng = np.random.default_rng(0)
        q, dq, ddq = rng.uniform(-2, 2, (3, 50, len(robot.active)))
        chi = np.zeros(len(standard_names(robot)))
        chi[[standard_names(robot).index(p) for p in parameters]] = values
        expected = inverse_dynamics(robot, chi, q, dq, ddq)
        found = scope["torque"](q, dq, ddq)
        assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()
        M, Q = scope["inertia_gravity"](q)
        h = Q + scope["velocity_torques"](q, dq)
        two_rates = scope["synchronous"](M, h, ddq)
        assert np.abs(two_rates - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@needs_compiler
def test_cmake_builds_and_tests_the_export(tmp_path):
    robot = load_robot("stanford")
    program = program_of(robot, *chosen_parameters(robot, None), ProgramOptions(effort=1))
    write(tmp_path, emit_c(program))
    for command in (["cmake", "-S", ".", "-B", "b"], ["cmake", "--build", "b"], ["ctest", "--test-dir", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


SMALL = Robot("small", (Joint("a", 0, d=0.1), Joint("b", 1, alpha=np.pi / 2, r=0.2)))


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
