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
from ros2_dynid.model.friction_kinds import REGISTERED, FrictionKind, FrictionTerm, register
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
