# SPDX-License-Identifier: Apache-2.0

"""The criterion of exciting trajectories knows the friction laws of a robot file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from excitation_robots import FEW_STEPS, three_dof
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import active_terms, frictionless, term_column
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.excitation.criteria import condition_by, normalised
from ros2_dynid.excitation.descent import TimeBudget, descend
from ros2_dynid.excitation.fourier_trajectory import CRITERIA, FourierProblem, TorqueModel, linear_factor
from ros2_dynid.excitation.law_columns import exciting_terms, law_columns
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.excitation.plan_figures import predicted_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.parameters import standard_vector

TERMS = (
    FrictionTerm(1, FrictionKind.STRIBECK, 2.0, speed=0.3),
    FrictionTerm(1, FrictionKind.CUBIC, 0.5),
    FrictionTerm(2, FrictionKind.LOAD, 0.1),
    FrictionTerm(2, FrictionKind.ASYMMETRIC, -0.3),
    FrictionTerm(3, FrictionKind.LOAD_VISCOUS, 0.1),
    FrictionTerm(3, FrictionKind.ROOT, 1.0),
    FrictionTerm(3, FrictionKind.POWER, 1.0, exponent=1.7),
)
LAW = tuple(
    term
    for j in (1, 2, 3)
    for term in (FrictionTerm(j, FrictionKind.STRIBECK, 2.0, speed=0.1), FrictionTerm(j, FrictionKind.LOAD, 0.1))
)
WARM = FrictionTerm(1, FrictionKind.TEMPERATURE, -0.1, reference=30.0)


def rubbing(effort: float = 200.0):
    return replace(three_dof(effort=effort), friction=(*TERMS, WARM))


def test_the_columns_are_those_of_the_torque():
    robot = rubbing()
    rng = np.random.default_rng(1)
    q, dq, ddq = rng.uniform(-1.5, 1.5, (3, 40, 3))
    columns, _ = law_columns(robot, TERMS, regressor(robot, q, dq, ddq), dq)
    carried = inverse_dynamics(*frictionless(robot, standard_vector(robot)), q, dq, ddq)
    for i, (k, term) in enumerate(active_terms(robot, TERMS)):
        expected = np.zeros_like(dq)
        expected[:, k] = term_column(term, dq[:, k], np.sign(dq[:, k]), carried[:, k])
        assert np.allclose(columns[:, :, i], expected), term.name


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gradient_against_differences(criterion):
    robot = rubbing(effort=20.0)
    base = base_parameters(robot)
    model = TorqueModel(robot, tuple(base.columns(robot)), np.array([1.0, 2.0, 0.5]), criterion, exciting_terms(robot))
    penalty = Penalty(robot, bounds_of(robot, 0.05), chi=standard_vector(robot))
    problem = FourierProblem(model, penalty, 10.0, 5, np.array([0.1, -0.2, 0.3]), np.ones(3))
    y, D = np.random.default_rng(0).normal(size=(2, problem.shape[0] * problem.shape[1]))
    h = 1e-6
    ahead, behind = (problem.cost(y + side * h * D, 8.0, 0.2)[0] for side in (1, -1))
    assert problem.cost(y, 8.0, 0.2)[1] @ D == pytest.approx((ahead - behind) / (2 * h), rel=1e-4)


def test_only_terms_that_a_motion_can_show_are_asked_for():
    robot = rubbing()
    assert exciting_terms(robot) == TERMS
    assert exciting_terms(robot, ["inertial", "rotor"]) == ()
    assert exciting_terms(robot, ["friction"]) == TERMS
    massless = replace(robot, parameters={"Fv1": 1.0})
    assert {term.kind for term in exciting_terms(massless)}.isdisjoint({FrictionKind.LOAD, FrictionKind.LOAD_VISCOUS})


def test_a_motion_for_the_law_shows_it_better_than_one_for_plain_friction():
    robot = replace(three_dof(), friction=LAW)
    columns = tuple(base_parameters(robot).columns(robot))
    penalty = Penalty(robot, bounds_of(robot, 0.05), chi=standard_vector(robot))
    of_law, of_plain = (
        FourierProblem(
            TorqueModel(robot, columns, np.ones(3), "normalised", terms), penalty, 10.0, 4, np.zeros(3), np.full(3, 0.5)
        )
        for terms in (LAW, ())
    )
    start = np.random.default_rng(3).normal(size=of_law.shape).ravel()
    conds = []
    for problem in (of_law, of_plain):
        y = start
        for p, weight in ((4.0, 0.1), (8.0, 1.0)):
            y = descend(partial(problem.cost, p=p, weight=weight), y, TimeBudget(1e6), 25)
        motion = of_law.series(y * linear_factor(of_law, y)).evaluate(np.arange(0.0, 10.0, 0.01))
        conds.append(condition_by(normalised(of_law.model.W(*motion))[0]))
    assert conds[0] < 0.9 * conds[1], conds


def test_a_plan_has_the_columns_of_the_law():
    robot = replace(three_dof(), friction=LAW)
    found = plan(robot, PlanOptions(seed=1, **FEW_STEPS))
    assert found.W.shape[1] == len(found.base) + len(LAW)
    assert predicted_std(robot, found, 1.0)[0].shape == (len(found.base),)
