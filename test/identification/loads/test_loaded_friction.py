# SPDX-License-Identifier: Apache-2.0

"""Loads and gains where gears feel the load: exact where the friction is known."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import ros2_dynid
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads import loaded_friction
from ros2_dynid.identification.loads.from_recordings import (
    identify_gains,
    identify_payload,
    identify_payload_on_model,
    identify_payloads,
)
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.inertia import pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, link_slice, standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.usecases.payload import PayloadRequest, payload, payloads
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 4)
LINKS = CHI.copy()
by_joint(ROBOT, LINKS)[:, 10:] = 0.0


def motion(seed, count=600):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (3, count, 3))


# --- loads and gains where friction grows with the load

FRICTION = tuple(FrictionTerm(joint, FrictionKind.LOAD, share) for joint, share in ((1, 0.1), (2, 0.2), (3, 0.15)))
RUBBING = replace(ROBOT, friction=FRICTION)
COM = np.array([0.02, -0.03, 0.1])


def body(mass, com=COM):
    J = 0.01 * np.eye(3) + mass * (com @ com * np.eye(3) - np.outer(com, com))
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass))


@cache
def problem_with(mass, seed, scale=(1.0, 1.0, 1.0)):
    chi = CHI.copy()
    if mass:
        chi[link_slice(2)] += body(mass)
    q, dq, ddq = motion(seed)
    tau = inverse_dynamics(RUBBING, chi, q, dq, ddq) + 1e-3 * np.random.default_rng(seed).normal(size=q.shape)
    prepared = (as_prepared(ROBOT, q, dq, ddq, tau / np.array(scale)),)
    information = build_information(ROBOT, BASE, prepared, delay=False)
    return Problem(ROBOT, BASE, prepared, information, BASE.values(ROBOT, standard_vector(ROBOT)))


TERMS = tuple(replace(term, coefficient=0.0) for term in FRICTION)


def test_loads_are_exact_where_their_friction_is_known():
    found = loaded_friction.identify_loads_with_law(
        problem_with(0.0, 1), [problem_with(2.0, 2), problem_with(0.7, 3)], TERMS
    )
    for load, mass in zip(found, (2.0, 0.7), strict=True):
        assert load.mass == pytest.approx(mass, abs=5e-3) and 1e-5 < load.mass_std < 2e-3
        np.testing.assert_allclose(load.com, COM, atol=5e-3)
        assert load.contradicting == ()
    alone = loaded_friction.identify_loads_with_law(problem_with(0.0, 1), [problem_with(2.0, 2)], TERMS, free=True)[0]
    assert alone.mass == pytest.approx(2.0, abs=5e-3)
    plain = loaded_friction.identify_loads_with_law(problem_with(0.0, 1), [problem_with(2.0, 2)], ())[0]
    assert abs(plain.mass - 2.0) > 0.02, "it is the friction that makes the difference"


def test_a_load_on_a_model_is_exact_with_its_friction():
    base = BASE.values(ROBOT, CHI)
    b = len(base)
    model = model_of(RUBBING, BASE, base, np.full(b, 1e-4), 1e-8 * np.eye(b))
    found = loaded_friction.identify_load_on_model_with_law(model, problem_with(2.0, 2))
    assert found.mass == pytest.approx(2.0, abs=5e-3) and 1e-5 < found.mass_std < 5e-3
    np.testing.assert_allclose(found.com, COM, atol=5e-3)
    problem = problem_with(2.0, 2)
    law = replace(problem, terms=(*TERMS, FrictionTerm(1, FrictionKind.STRIBECK, speed=0.1, of_shape=True)))
    assert loaded_friction.law_of(law) == TERMS


@pytest.mark.parametrize("whole", [False, True])
def test_gains_are_exact_with_the_friction_of_the_load(whole):
    scale = (2.0, -0.5, 1.25)
    empty, loaded = problem_with(0.0, 1, scale), problem_with(2.0, 2, scale)
    load = body(2.0) if whole else None
    found = loaded_friction.drive_gains_with_law(empty, loaded, "load", Method.WLS, 2.0, load)
    known = np.isfinite(found.value)
    assert known[1:].all()
    np.testing.assert_allclose(found.value[known], np.array(scale)[known], rtol=0.02)
    assert np.all(found.std[known] > 1e-5) and np.all(found.std[known] < 0.05)
    if whole:
        plain = loaded_friction.drive_gains_with_law(empty, loaded, "viscous+coulomb", Method.WLS, 2.0, load)
        assert np.nanmax(np.abs(plain.value / scale - 1.0)) > 0.03


MASS, LOAD_COM = 2.8, np.array([0.02, -0.03, 0.1])


J = 0.01 * np.eye(3) + MASS * (LOAD_COM @ LOAD_COM * np.eye(3) - np.outer(LOAD_COM, LOAD_COM))


LOAD = np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(MASS * LOAD_COM), MASS))


@cache
def plant():
    """Return the robot without and with friction that grows with the load, and its true parameters."""
    robot = load_robot("demo6")
    terms = tuple(FrictionTerm(joint, FrictionKind.LOAD, 0.12) for joint in robot.active)
    return robot, replace(robot, friction=terms), true_parameters(robot, 1)


@cache
def recorded(with_load, seed):
    """Return 25 s of smooth motion at 200 Hz with noise in positions and efforts."""
    robot, true, chi = plant()
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 25.0, 1.0 / 200.0)
    w = 2.0 * np.pi * np.array([0.1, 0.17, 0.29, 0.41, 0.53])
    a, phase = rng.normal(0.0, 0.5, (5, 6)) / np.arange(1, 6)[:, None], rng.uniform(0.0, 2 * np.pi, (5, 6))
    angle = w * t[:, None]
    q = sum(a[k] * np.sin(angle[:, k, None] + phase[k]) for k in range(5))
    dq = sum(a[k] * w[k] * np.cos(angle[:, k, None] + phase[k]) for k in range(5))
    ddq = sum(-a[k] * w[k] ** 2 * np.sin(angle[:, k, None] + phase[k]) for k in range(5))
    carried = chi.copy()
    if with_load:
        carried[link_slice(robot.n - 1)] += LOAD
    tau = inverse_dynamics(true, carried, q, dq, ddq)
    tau = tau + rng.normal(0.0, 0.01, tau.shape) * tau.std(axis=0)
    return Samples(t, robot.active_names, q + rng.normal(0.0, 5e-6, q.shape), tau=tau, source="simulated")


OPTIONS = IdentifyOptions(checks=False, prior="none")


def test_payload_is_right_where_plain_friction_is_not():
    robot = plant()[0]
    empty, loaded = recorded(False, 1), recorded(True, 2)
    plain = identify_payload(robot, [empty], [loaded], options=replace(OPTIONS, friction=PLAIN))
    found = identify_payload(robot, [empty], [loaded], options=OPTIONS)
    assert abs(plain.mass - MASS) > 0.02 * MASS
    assert abs(found.mass - MASS) < 0.003 * MASS and abs(found.mass - MASS) < 4.0 * found.mass_std


def test_payload_on_a_model_with_friction_terms():
    robot = plant()[0]
    model = identify(robot, [recorded(False, 1)], options=OPTIONS).model
    assert {term.kind for term in model.robot.friction} == {FrictionKind.LOAD}
    found = identify_payload_on_model(model, [recorded(True, 2)], options=OPTIONS)
    assert abs(found.mass - MASS) < 0.005 * MASS


def test_gains_are_right_too():
    robot = plant()[0]
    empty, loaded = recorded(False, 1), recorded(True, 2)
    units = np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0])
    parts = [replace(s, tau=s.tau / units) for s in (empty, loaded)]
    plain = identify_gains(robot, parts[:1], parts[1:], MASS, options=replace(OPTIONS, friction=PLAIN))
    found = identify_gains(robot, parts[:1], parts[1:], MASS, options=OPTIONS)
    told = np.isfinite(plain.value) & np.isfinite(found.value) & np.array(found.from_mass)
    assert told.sum() >= 2
    off = [float(np.max(np.abs(g.value[told] / units[told] - 1.0))) for g in (plain, found)]
    assert off[1] < 0.03 and off[1] < 0.2 * off[0], off


@pytest.mark.parametrize("friction", ["stribek", "nose=load"])
def test_an_unknown_law_is_refused(friction):
    robot = plant()[0]
    with pytest.raises(Exception, match="friction"):
        identify_payload(robot, [recorded(False, 1)], [recorded(True, 2)], options=replace(OPTIONS, friction=friction))


def test_a_urdf_gets_the_nearest_plain_friction_and_says_so(tmp_path, capsys):
    robot = plant()[0]
    options = replace(OPTIONS, standard=True)
    made = identify(robot, [recorded(False, 1)], options=options, output=tmp_path / "model")
    used = made.model.obtained["used"]
    assert set(used) == set(robot.active_names) and used[robot.active_names[1]]["load"] > 1.0
    urdf = Path(ros2_dynid.__path__[0]).parent / "config" / "robots" / "demo6.urdf"
    command = ["export", str(tmp_path / "model" / "model.yaml"), "--to", "urdf", "--urdf", str(urdf)]
    assert main([*command, "-o", str(tmp_path / "out"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any("fitted to the law with Fl1" in note for note in said["notes"])
    tags = ElementTree.parse(tmp_path / "out" / "demo6.urdf").getroot().iter("dynamics")
    written = [float(tag.get("friction")) for tag in tags]
    plain = [made.model.chi[14 * k + 12] for k in range(6)]
    loads = [used[name]["load"] for name in robot.active_names]
    triples = zip(plain, made.model.robot.friction, loads, strict=True)
    expected = [Fc + term.coefficient * load for Fc, term, load in triples]
    assert np.allclose(sorted(written), sorted(expected), rtol=1e-3)


def test_friction_dissipates_in_both_directions():
    robot, _, chi = plant()
    samples = recorded(False, 1)
    dq = np.gradient(samples.q, samples.t, axis=0)
    tau = samples.tau.copy()
    tau[:, 1] += 3.0 * np.abs(dq[:, 1]) - chi[14 + 11] * dq[:, 1]  # no viscous friction, but a difference of directions
    options = replace(OPTIONS, consistent=True, friction=f"{robot.active_names[1]}=asymmetric")
    model = identify(robot, [replace(samples, tau=tau)], options=options).model
    term = next(term for term in model.robot.friction if term.kind is FrictionKind.ASYMMETRIC)
    assert 1.0 < term.coefficient < 2.0, "half of the difference: the other half is Fv"
    assert model.consistent["Fv2"] >= abs(term.coefficient) * (1.0 - 1e-6)
    assert model.value[model.leaders.index("Fv2")] == pytest.approx(term.coefficient, rel=1e-9)


LIGHT = np.array([0.004, 0.0, 0.0, 0.004, 0.0, 0.003, 0.01, 0.0, 0.05, 0.8])


def with_light(seed):
    """Return the recording of another load, 0.8 kg: that without one, and the torque of the load beside it."""
    robot, true, chi = plant()
    samples = recorded(False, seed)
    dq = np.gradient(samples.q, samples.t, axis=0)
    q, ddq = samples.q, np.gradient(dq, samples.t, axis=0)
    heavier = chi.copy()
    heavier[link_slice(robot.n - 1)] += LIGHT
    more = inverse_dynamics(true, heavier, q, dq, ddq) - inverse_dynamics(true, chi, q, dq, ddq)
    keep = slice(5, -5)
    return replace(samples, tau=samples.tau + more).take(keep)


def test_two_loads_in_one_fit():
    robot = plant()[0]
    loaded = {"box": [recorded(True, 2), recorded(True, 3)], "tool": [with_light(5)]}
    found = identify_payloads(robot, [recorded(False, 1)], loaded, options=OPTIONS)
    assert list(found) == ["box", "tool"]
    for name, mass in (("box", MASS), ("tool", LIGHT[-1])):
        assert abs(found[name].mass - mass) < 0.01 * mass, name
        assert np.linalg.eigvalsh(pseudo_inertia(found[name].parameters))[0] > 0.0
        assert abs(found[name].mass - mass) < 4.0 * found[name].mass_std, name


def test_one_load_by_name_is_that_load():
    """Identity: the fit of one load does not hang on how it is asked for, nor does a load on rows without it."""
    robot, options = plant()[0], replace(OPTIONS, friction=PLAIN)
    one = identify_payload(robot, [recorded(False, 1)], [recorded(True, 2)], options=options)
    named = identify_payloads(robot, [recorded(False, 1)], {"a": [recorded(True, 2)]}, options=options)["a"]
    assert np.allclose(one.parameters, named.parameters) and one.mass_std == pytest.approx(named.mass_std)


def test_the_command_takes_names(tmp_path, capsys):
    paths = {}
    for name, samples in (("empty", recorded(False, 1)), ("box", recorded(True, 2)), ("tool", with_light(5))):
        paths[name] = str(tmp_path / f"{name}.npz")
        save_samples(samples, paths[name])
    command = ["payload", "demo6", "--empty", paths["empty"], "--loaded", f"box={paths['box']}"]
    assert main([*command, "--loaded", f"tool={paths['tool']}", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["loads"]
    assert abs(said["box"]["mass"] - MASS) < 0.01 * MASS and abs(said["tool"]["mass"] - 0.8) < 0.01
    assert main([*command, "--loaded", paths["tool"]]) == 2  # one with a name, one without
    assert "NAME=RECORDING" in capsys.readouterr().err
    request = PayloadRequest(RobotSource("demo6"), (paths["empty"],), (f"box={paths['box']}",))
    with pytest.raises(InputError, match="named"):
        payload(request)
    assert list(payloads(request).loads) == ["box"]
