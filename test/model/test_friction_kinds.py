# SPDX-License-Identifier: Apache-2.0

"""Each kind of friction term is defined once: a new one is fitted, evaluated, generated and exported by that alone."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.emit_numpy import emit_numpy
from ros2_dynid.codegen.program import chosen_parameters, program_of
from ros2_dynid.codegen.runtime_header import HEADER, runtime_header
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.friction import column_slopes, term_column
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.friction_kinds import REGISTERED, FrictionKind, FrictionTerm, law_columns, register
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo3")
CHI = standard_vector(ROBOT)


@pytest.fixture
def square(monkeypatch):
    """Register a toy, friction that grows with the square of the speed, for one test."""
    toy = FrictionKind(
        name="square",
        symbol="Fsq",
        column=lambda x: x.v * x.absolute(x.v),
        units=("N.m.s^2/rad^2", "N.s^2/m^2"),
        formula="Fsq v |v|",
        meaning="drag",
        code=len([kind for kind in FrictionKind if not kind.thermal]),
    )
    monkeypatch.setitem(REGISTERED, "square", toy)
    return toy


def motion(count=1500, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(count) / 100.0
    w = 2.0 * np.pi * np.array([0.2, 0.5, 0.9])
    a, b = rng.normal(0.0, 0.5, (2, 3, 3))
    phase = t[:, None] * w
    q = np.sin(phase) @ a - np.cos(phase) @ b
    return (
        t,
        q,
        (np.cos(phase) * w) @ a + (np.sin(phase) * w) @ b,
        (np.cos(phase) * w**2) @ b - (np.sin(phase) * w**2) @ a,
    )


def test_a_new_kind_is_fitted_evaluated_and_exported(square, tmp_path):
    robot = replace(ROBOT, friction=(FrictionTerm(2, square, 3.0),))
    t, q, dq, ddq = motion()
    tau = inverse_dynamics(robot, CHI, q, dq, ddq)
    np.testing.assert_allclose(tau - inverse_dynamics(ROBOT, CHI, q, dq, ddq), 3.0 * dq * np.abs(dq) * [0, 1, 0])
    options = IdentifyOptions(friction=f"{ROBOT.active_names[1]}=square", checks=False, prior="none")
    found = identify(ROBOT, [Samples(t, ROBOT.active_names, q, tau=tau)], options=options)
    (term,) = found.model.robot.friction
    assert (term.name, term.kind) == ("Fsq2", square) and term.coefficient == pytest.approx(3.0, rel=0.02)
    assert found.outcome.friction[0].unit == "N.m.s^2/rad^2"
    again = robot_from_dict(robot_to_dict(robot), "toy")
    assert again.friction == robot.friction
    smooth = smooth_friction(robot, CHI).torque(np.array([0.0, 2.0, 0.0]), 0.01, np.zeros(3))
    plain = smooth_friction(ROBOT, CHI).torque(np.array([0.0, 2.0, 0.0]), 0.01, np.zeros(3))
    np.testing.assert_allclose(smooth - plain, [0.0, 12.0, 0.0], atol=1e-9)
    parameters, values = chosen_parameters(robot, None)
    program = program_of(robot, parameters, values)
    for name, text in emit_numpy(program).items():
        (tmp_path / name).write_text(text)
    run_all = "import glob, runpy; [runpy.run_path(f, run_name='__main__') for f in sorted(glob.glob('*.py'))]"
    line = [sys.executable, "-c", run_all]
    checked = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert any("fabs" in text for text in emit_c(program).values())


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_the_runtime_has_every_kind_and_a_new_one(square, tmp_path):
    header = tmp_path / "friction_kinds.hpp"
    header.write_text(runtime_header())
    assert "case FrictionKind::square: return v * std::fabs(v);" in header.read_text()
    kinds = [kind for kind in FrictionKind if not kind.thermal]
    lines = [f'std::printf("%.17g\\n", friction_column(FrictionKind::{kind}, -0.7, -1.0, 3.0, 0.4));' for kind in kinds]
    begin = '#include "friction_kinds.hpp"\n#include <cstdio>\nint main() { using namespace ros2_dynid; '
    source = f"{begin}{''.join(lines)} }}"
    (tmp_path / "main.cpp").write_text(source)
    subprocess.run(["c++", "-std=c++17", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    v, sign, load = np.array(-0.7), np.array(-1.0), np.array(-3.0)
    for kind, text in zip(kinds, out, strict=True):
        shape = {} if kind.shape is None else {kind.shape.field: 0.4}
        assert float(text) == pytest.approx(
            float(term_column(FrictionTerm(1, kind, **shape), v, sign, load)), rel=1e-12
        )


def test_the_header_of_the_runtime_is_made_of_the_definitions():
    assert HEADER.read_text() == runtime_header(), "run: python -m ros2_dynid.codegen.runtime_header"


@pytest.mark.parametrize("recorded", [0.0, 1.0])
@pytest.mark.parametrize("kind", list(FrictionKind), ids=str)
def test_slopes_are_those_of_the_columns(kind, recorded):
    """By speed, by load, and by shape."""
    field = {} if kind.shape is None else {kind.shape.field: 0.6}
    term = FrictionTerm(1, kind, recorded_speed=recorded, **field)
    v, carried = np.array([-1.2, -0.3, 0.4, 1.5]), np.array([2.0, -3.0, 0.5, -1.0])
    sign, turn, h = np.tanh(v / 0.2), (1.0 - np.tanh(v / 0.2) ** 2) / 0.2, 1e-6

    def column(dv=0.0, dload=0.0, one=term):
        return term_column(one, v + dv, np.tanh((v + dv) / 0.2), carried + dload)

    value, by_speed, by_load = column_slopes(term, v, sign, turn, carried)
    np.testing.assert_allclose(value, column(), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(by_speed, (column(h) - column(-h)) / (2 * h), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_load, (column(dload=h) - column(dload=-h)) / (2 * h), rtol=1e-6, atol=1e-8)
    if kind.shape is not None:
        near = [term.with_shape(kind.shape.changed(term.shape, step)) for step in (h, -h)]
        slope = (column(one=near[0]) - column(one=near[1])) / (2 * h)
        np.testing.assert_allclose(column(one=replace(term, of_shape=True)), slope, rtol=1e-6, atol=1e-8)


def test_kinds_are_one_object_each_and_have_names_and_codes_of_their_own():
    for kind in FrictionKind:
        assert pickle.loads(pickle.dumps(kind)) is kind is copy.deepcopy(kind) is FrictionKind[str(kind)]
        assert getattr(FrictionKind, kind.name.upper()) is kind and kind.formula.startswith(kind.symbol)
    first = next(iter(FrictionKind))
    with pytest.raises(InputError, match="same name, symbol or code"):
        register(replace(first, name="another"))
    with pytest.raises(InputError, match="unknown friction term 'glue'; choose from asymmetric, cubic"):
        FrictionKind["glue"]
    with pytest.raises(AttributeError):
        _ = FrictionKind.GLUE


def test_the_shape_of_a_friction_term():
    assert FrictionTerm(1, FrictionKind.STRIBECK, 1.0, speed=0.3).shape == 0.3
    assert FrictionTerm(1, FrictionKind.POWER, 1.0, exponent=0.7).shape == 0.7
    assert FrictionTerm(1, FrictionKind.CUBIC, 1.0).shape == 0.0


JOINTS = [{"name": f"j{k}", "d": 0.1 * k} for k in (1, 2, 3)]


def robot(**more):
    return robot_from_dict({"joints": JOINTS, **more}, "x.yaml")


TERMS = (
    FrictionTerm(1, FrictionKind.CUBIC, 0.5, 0.25),
    FrictionTerm(2, FrictionKind.STRIBECK, 1.5, None, 0.125, 0.01),
    FrictionTerm(2, FrictionKind.POWER, 2.5, 0.5, exponent=0.75, exponent_std=0.02),
    FrictionTerm(3, FrictionKind.TEMPERATURE, -0.5, reference=35.0),
    FrictionTerm(3, FrictionKind.TEMPERATURE_VISCOUS, 0.25, reference=0.0),
    FrictionTerm(1, FrictionKind.LOAD, 0.1),
    FrictionTerm(1, FrictionKind.ASYMMETRIC, -0.3, 0.0),
)


def test_friction_terms_go_to_a_file_and_back():
    made = replace(robot(), friction=TERMS)
    data = robot_to_dict(made)
    assert data["friction"] == [
        {"joint": "j1", "term": "cubic", "coefficient": 0.5, "std": 0.25},
        {"joint": "j2", "term": "stribeck", "coefficient": 1.5, "speed": 0.125, "speed_std": 0.01},
        {"joint": "j2", "term": "power", "coefficient": 2.5, "std": 0.5, "exponent": 0.75, "exponent_std": 0.02},
        {"joint": "j3", "term": str(FrictionKind.TEMPERATURE), "coefficient": -0.5, "reference": 35.0},
        {"joint": "j3", "term": str(FrictionKind.TEMPERATURE_VISCOUS), "coefficient": 0.25, "reference": 0.0},
        {"joint": "j1", "term": "load", "coefficient": 0.1},
        {"joint": "j1", "term": str(FrictionKind.ASYMMETRIC), "coefficient": -0.3, "std": 0.0},
    ]
    assert robot_from_dict(data, "x.yaml").friction == TERMS
    bare = robot(friction=[{"joint": 2, "term": "cubic"}]).friction
    assert bare == (FrictionTerm(2, FrictionKind.CUBIC, 0.0),)
    none = robot(friction=[{"joint": 2, "term": "cubic", "coefficient": None, "speed": None}]).friction
    assert none == bare


@pytest.mark.parametrize(
    ("friction", "words"),
    [
        ({}, "friction is not a list"),
        (["cubic"], "an entry of friction is not a mapping"),
        ([{"joint": "j1", "term": "cubic", "coeff": 1}], "unknown key 'coeff'; did you mean 'coefficient'"),
        ([{"joint": "j9", "term": "cubic"}], "unknown joint 'j9'"),
        ([{"joint": 0, "term": "cubic"}], "unknown joint 0"),
        ([{"joint": 4, "term": "cubic"}], "unknown joint 4"),
        ([{"joint": True, "term": "cubic"}], "unknown joint True"),
        ([{"joint": "j1", "term": "square"}], "unknown friction term 'square'; choose from"),
        ([{"joint": "j1", "term": "cubic", "coefficient": "much"}], "friction, coefficient is 'much'"),
        ([{"joint": "j2", "term": str(FrictionKind.TEMPERATURE)}], "of joint 'j2' has no reference"),
        ([{"joint": "j2", "term": "stribeck"}], "has speed 0"),
        ([{"joint": "j2", "term": "cubic"}] * 2, "occurs twice"),
    ],
)
def test_friction_terms_that_are_none(friction, words):
    with pytest.raises(InputError, match=rf"x\.yaml.*{words}"):
        robot(friction=friction)


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (FrictionKind.CUBIC, {"coefficient": np.nan}, "coefficient nan; give a number that is not negative"),
        (FrictionKind.CUBIC, {"coefficient": -0.1}, "coefficient -0.1"),
        (FrictionKind.ASYMMETRIC, {"coefficient": np.inf}, "give a finite number"),
        (FrictionKind.CUBIC, {"std": -1.0}, "standard deviation -1"),
        (FrictionKind.CUBIC, {"std": np.nan}, "deviation nan"),
        (FrictionKind.STRIBECK, {"speed": 1.0, "speed_std": -1.0}, "standard deviation"),
        (FrictionKind.POWER, {"exponent": 1.0, "exponent_std": np.inf}, "standard deviation"),
        (FrictionKind.STRIBECK, {}, "has speed 0; give the speed"),
        (FrictionKind.STRIBECK, {"speed": -1.0}, "speed -1"),
        (FrictionKind.STRIBECK, {"speed": np.inf}, "speed inf"),
        (FrictionKind.CUBIC, {"speed": 0.5}, "leave speed out"),
        (FrictionKind.CUBIC, {"speed_std": 0.1}, "has no speed"),
        (FrictionKind.POWER, {"exponent": 0.19}, "exponent 0.19; give one of 0.2 to 5"),
        (FrictionKind.POWER, {"exponent": 5.1}, "exponent 5.1"),
        (FrictionKind.CUBIC, {"exponent": 1.0}, "leave exponent out"),
        (FrictionKind.CUBIC, {"exponent_std": 0.1}, "has no exponent"),
        (FrictionKind.TEMPERATURE, {"reference": np.nan}, "reference nan"),
        (FrictionKind.TEMPERATURE_VISCOUS, {"reference": -274.0}, "reference -274"),
        (FrictionKind.LOAD, {"reference": 20.0}, "does not change with the temperature"),
        (FrictionKind.LOAD, {"of_shape": True}, "takes no shape"),
    ],
)
def test_what_is_no_friction_term(kind, values, words):
    with pytest.raises(InputError, match=words):
        FrictionTerm(2, kind, **values)


def test_friction_terms_and_their_names():
    for kind, values, name in (
        (FrictionKind.ASYMMETRIC, {"coefficient": -1.0, "std": 0.0}, "Fva3"),
        (FrictionKind.CUBIC, {"coefficient": 0.0}, "Fcub3"), (FrictionKind.ROOT, {}, "Frt3"),
        (FrictionKind.STRIBECK, {"speed": 0.01, "speed_std": 0.0}, "Fs3"), (FrictionKind.LOAD, {}, "Fl3"),
        (FrictionKind.LOAD_VISCOUS, {}, "Flv3"), (FrictionKind.POWER, {"exponent": 0.2}, "Fp3"),
        (FrictionKind.POWER, {"exponent": 5.0, "exponent_std": 0.1}, "Fp3"),
        (FrictionKind.TEMPERATURE, {"coefficient": -0.5, "reference": -273.0}, "Ft3"),
        (FrictionKind.TEMPERATURE_VISCOUS, {"coefficient": -0.5}, "Ftv3"),
        (FrictionKind.STRIBECK, {"speed": 0.5, "of_shape": True, "coefficient": -1.0}, "vs3"),
        (FrictionKind.POWER, {"exponent": 0.5, "of_shape": True, "coefficient": -1.0}, "p3"),
    ):  # fmt: skip
        assert FrictionTerm(3, kind, **values).name == name


def test_a_coefficient_times_its_column_is_a_torque_or_a_force():
    """By hand, from the laws: N.m, or N of a sliding joint, over the unit of what the coefficient stands before."""
    turning = {"asymmetric": "N.m.s/rad", "cubic": "N.m.s^3/rad^3", "root": "N.m.(s/rad)^0.5", "stribeck": "N.m",
               "load": "1", "load_viscous": "s/rad", "power": "N.m.(s/rad)^p", "temperature": "N.m/K",
               "temperature_viscous": "N.m.s/(rad.K)"}  # fmt: skip
    for kind in FrictionKind:
        unit = turning[kind.name]
        assert kind.units == (unit, unit.replace("N.m", "N").replace("rad", "m"))


def test_columns_of_a_law_are_its_terms_and_the_shapes_that_were_estimated():
    plain = FrictionTerm(1, FrictionKind.CUBIC, 1.0, std=0.1)
    fixed = FrictionTerm(2, FrictionKind.STRIBECK, 1.0, speed=0.3)
    slow = FrictionTerm(1, FrictionKind.STRIBECK, 1.0, speed=0.3, speed_std=0.01)
    bent = FrictionTerm(3, FrictionKind.POWER, 1.0, exponent=1.5, exponent_std=0.0)
    names = [(term.name, term.of_shape) for term in law_columns((plain, slow, fixed, bent))]
    assert names == [("Fcub1", False), ("Fs1", False), ("vs1", True), ("Fs2", False), ("Fp3", False), ("p3", True)]
    assert law_columns(()) == () and law_columns((slow,))[1] == replace(slow, of_shape=True)
