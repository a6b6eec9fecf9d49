# SPDX-License-Identifier: Apache-2.0

"""Friction terms: their torque, their files, their choice by held-out data, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.codegen.backend import fast_inverse_dynamics, torque_function
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters
from sticking import sticking

ROBOT = load_robot("demo3")
PLAIN = {name: value for name, value in ROBOT.parameters.items() if not name.startswith(("F", "off"))}
CHI = standard_vector(ROBOT, {**PLAIN, "Fv1": 2.0, "Fv2": 3.0, "Fv3": 1.0, "Fc1": 4.0, "Fc2": 6.0, "Fc3": 2.0})
TERMS = (
    FrictionTerm(1, FrictionKind.STRIBECK, 3.0, speed=0.2),
    FrictionTerm(1, FrictionKind.ROOT, 1.5),
    FrictionTerm(2, FrictionKind.LOAD, 0.1, 0.01),
    FrictionTerm(2, FrictionKind.CUBIC, 0.3),
    FrictionTerm(3, FrictionKind.LOAD_VISCOUS, 0.05),
    FrictionTerm(3, FrictionKind.ASYMMETRIC, -0.2),
    FrictionTerm(3, FrictionKind.POWER, 0.7, exponent=1.6, exponent_std=0.1),
)
RUBBING = replace(ROBOT, friction=TERMS)


def motion(count: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).uniform(-1.5, 1.5, (3, count, 3)))


def recording(terms: tuple[FrictionTerm, ...], seed: int) -> Samples:
    """Return 30 s of a smooth motion at 200 Hz with these terms; noise in positions and efforts."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 30.0, 0.005)
    amplitude, phase = rng.uniform(0.1, 0.35, (3, 6)), rng.uniform(0.0, 6.3, (3, 6))
    w = 2.0 * np.pi * np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    waves = [np.sin(np.multiply.outer(t, w)[:, None] + phase + k * np.pi / 2) for k in range(3)]
    q, dq, ddq = (np.sum(amplitude * w**k * wave, axis=2) for k, wave in enumerate(waves))
    tau = inverse_dynamics(replace(ROBOT, friction=terms), CHI, q, dq, ddq)
    tau += rng.normal(0.0, 0.02 * tau.std(axis=0), tau.shape)
    return Samples(t, ROBOT.active_names, q + rng.normal(0.0, 1e-5, q.shape), tau=tau, source="simulated")


def test_the_torque_of_the_terms_is_as_the_notation_page_writes_it():
    q, dq, ddq = motion(50)
    carried = inverse_dynamics(*frictionless(RUBBING, CHI), q, dq, ddq)
    more = inverse_dynamics(RUBBING, CHI, q, dq, ddq) - inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    s, v, load = np.sign(dq), dq, np.abs(carried)
    expected = [
        3.0 * np.exp(-((v[:, 0] / 0.2) ** 2)) * s[:, 0] + 1.5 * np.sqrt(np.abs(v[:, 0])) * s[:, 0],
        0.1 * load[:, 1] * s[:, 1] + 0.3 * v[:, 1] ** 3,
        0.05 * load[:, 2] * v[:, 2] - 0.2 * np.abs(v[:, 2]) + 0.7 * np.abs(v[:, 2]) ** 1.6 * s[:, 2],
    ]
    assert np.allclose(more, np.transpose(expected), atol=1e-12)


def test_generated_code_and_feedforward_have_the_terms():
    q, dq, ddq = motion(40)
    tau = inverse_dynamics(RUBBING, CHI, q, dq, ddq)
    assert np.allclose(fast_inverse_dynamics(RUBBING, CHI, q, dq, ddq), tau, rtol=1e-12, atol=1e-12)
    assert np.allclose(torque_function(RUBBING, CHI).torque(q[0], dq[0], ddq[0]), tau[0], rtol=1e-12)
    model = FeedforwardModel(RUBBING, CHI)
    rigid = model.rigid(q[1], dq[1], ddq[1])
    assert np.allclose(rigid + model.friction(q[1], dq[1], 1e-6, rigid), tau[1], rtol=1e-9)
    still = np.zeros(3)
    gravity = model.rigid(q[1], still, still)
    assert np.allclose(model.friction(q[1], still, 0.02, gravity), 0.0)  # no chatter at rest


def test_a_robot_file_keeps_the_terms_exactly():
    again = robot_from_dict(robot_to_dict(RUBBING), "test")
    assert again.friction == TERMS


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"joint": "joint1", "term": "glue", "coefficient": 1.0}, "unknown friction term"),
        ({"joint": "nobody", "term": "load", "coefficient": 1.0}, "unknown joint"),
        ({"joint": 1, "term": "load", "coefficient": -0.1}, "coefficient -0.1"),
        ({"joint": 1, "term": "stribeck", "coefficient": 1.0}, "speed"),
        ({"joint": 1, "term": "stribeck", "coefficient": 1.0, "speed": -1.0}, "speed"),
        ({"joint": 1, "term": "load", "coefficient": 0.1, "speed": 1.0}, "speed"),
        ({"joint": 1, "term": "power", "coefficient": 1.0}, "exponent 0"),
        ({"joint": 1, "term": "power", "coefficient": 1.0, "exponent": 7.0}, "exponent 7"),
        ({"joint": 1, "term": "power", "coefficient": -1.0, "exponent": 2.0}, "coefficient -1"),
        ({"joint": 1, "term": "cubic", "coefficient": 1.0, "exponent": 2.0}, "exponent 2"),
    ],
)
def test_bad_terms_are_refused_in_one_line(entry, what):
    data = robot_to_dict(ROBOT)
    if isinstance(entry["joint"], str) and entry["joint"] == "joint1":
        entry = {**entry, "joint": ROBOT.joints[0].name}
    with pytest.raises(InputError, match=what):
        robot_from_dict({**data, "friction": [entry]}, "test")


@pytest.mark.parametrize("law", ["glue", "load+glue", "elbow=glue", ""])
def test_an_unknown_law_is_refused(law):
    with pytest.raises(InputError, match="unknown term"):
        IdentifyOptions(friction=law)


def test_a_law_for_an_unknown_joint_is_refused():
    with pytest.raises(InputError, match="nobody"):
        identify(ROBOT, [recording((), 1)], options=IdentifyOptions(friction="nobody=load"))


@pytest.mark.parametrize("seed", [1, 2])
def test_plain_friction_gets_no_term(seed):
    found = identify(ROBOT, [recording((), seed)])
    assert found.model.robot.friction == ()
    assert found.outcome.friction_tried and not any(trial.chosen for trial in found.outcome.friction_tried)


@pytest.mark.parametrize("seed", [3, 7])
def test_a_joint_that_sticks_where_it_reverses_has_plain_friction(seed):
    pytest.importorskip("mujoco")
    robot = load_robot("demo6")
    samples = sticking(robot, true_parameters(robot, seed), seed, 10.0, torque_noise=0.0005)
    assert identify(robot, [samples]).model.robot.friction == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_load_dependent_friction_is_found_with_its_coefficient(seed, tmp_path):
    true = FrictionTerm(2, FrictionKind.LOAD, 0.15)
    found = identify(ROBOT, [recording((true,), seed)], output=tmp_path / "result")
    terms = found.model.robot.friction
    assert [(term.joint, term.kind) for term in terms] == [(2, FrictionKind.LOAD)]
    assert terms[0].std is not None
    assert abs(terms[0].coefficient - 0.15) < 4.0 * terms[0].std
    assert terms[0].std < 0.02
    assert load_model(tmp_path / "result").robot.friction == terms


def test_an_asked_law_is_fitted_whatever_the_data_say():
    options = IdentifyOptions(friction=f"{ROBOT.active_names[0]}=root")
    true = FrictionTerm(1, FrictionKind.ROOT, 5.0)
    (term,) = identify(ROBOT, [recording((true,), 3)], options=options).model.robot.friction
    assert term.kind is FrictionKind.ROOT
    assert term.std is not None and abs(term.coefficient - 5.0) < 4.0 * term.std


@pytest.mark.parametrize(("seed", "exponent", "coefficient"), [(1, 1.8, 8.0), (2, 2.6, 6.0), (3, 0.5, 8.0)])
def test_a_free_exponent_is_found_with_its_error_bar(seed, exponent, coefficient, tmp_path):
    true = FrictionTerm(1, FrictionKind.POWER, coefficient, exponent=exponent)
    options = IdentifyOptions(friction=f"{ROBOT.active_names[0]}=power")
    found = identify(ROBOT, [recording((true,), seed)], options=options, output=tmp_path / "result")
    (term,) = found.model.robot.friction
    assert term.exponent_std is not None and 0.0 < term.exponent_std < 0.5
    assert abs(term.exponent - exponent) < 4.0 * term.exponent_std
    assert term.std is not None and abs(term.coefficient - coefficient) < 4.0 * term.std
    assert load_model(tmp_path / "result").robot.friction == (term,)
    (row,) = found.outcome.friction
    assert (row.exponent, row.exponent_std) == (term.exponent, term.exponent_std)
