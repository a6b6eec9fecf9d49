# SPDX-License-Identifier: Apache-2.0

"""Loads and gains where gears feel the load: exact where the friction is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.loads import loaded_friction
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, link_slice, standard_vector
from ros2_dynid.sim.truth import true_parameters

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
    alone = loaded_friction.identify_load_with_law(problem_with(0.0, 1), problem_with(2.0, 2), TERMS, free=True)
    assert alone.mass == pytest.approx(2.0, abs=5e-3)
    plain = loaded_friction.identify_load_with_law(problem_with(0.0, 1), problem_with(2.0, 2), ())
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
