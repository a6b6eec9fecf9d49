# SPDX-License-Identifier: Apache-2.0

"""Viscous and Coulomb friction nearest to a law: exact where the law is plain, no better pair beside it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

from ros2_dynid.dynamics.friction_terms import term_column
from ros2_dynid.dynamics.nearest_friction import nearest_plain
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import JOINT, Fc, Fv, standard_vector
from ros2_dynid.model.robot import Passive


def with_term(kind, coefficient, **more):
    return replace(load_robot("demo3"), friction=(FrictionTerm(2, kind, coefficient, **more),))


def test_load_dependent_friction_at_one_load_is_coulomb_and_viscous():
    speed, load = np.full(3, 2.0), np.array([1.0, 20.0, 3.0])
    for kind, place, gain in ((FrictionKind.LOAD, Fc, 2.0), (FrictionKind.LOAD_VISCOUS, Fv, 2.0)):
        robot = with_term(kind, 0.1)
        chi = standard_vector(robot)
        change = nearest_plain(robot, chi, speed, load) - chi
        assert change[JOINT + place] == pytest.approx(gain)
        change[JOINT + place] = 0.0
        assert np.abs(change).max() < 1e-12


@pytest.mark.parametrize(
    ("kind", "more"), [(FrictionKind.CUBIC, {}), (FrictionKind.ROOT, {}), (FrictionKind.STRIBECK, {"speed": 0.3})]
)
def test_no_pair_that_is_allowed_comes_closer(kind, more):
    robot = with_term(kind, 3.0, **more)
    chi = standard_vector(robot)
    found = nearest_plain(robot, chi, np.full(3, 2.0), np.zeros(3))
    half = np.linspace(0.05, 1.0, 40) * 2.0
    v = np.concatenate((-half, half))
    law = chi[JOINT + Fv] * v + chi[JOINT + Fc] * np.sign(v)
    law = law + 3.0 * term_column(robot.friction[0], v, np.sign(v), 0 * v)

    def error(pair):
        return np.linalg.norm(law - pair[0] * v - pair[1] * np.sign(v))

    ours = found[[JOINT + Fv, JOINT + Fc]]
    assert np.all(ours >= 0.0)
    for step in np.random.default_rng(0).normal(0.0, 0.3, (200, 2)):
        assert error(np.maximum(ours + step, 0.0)) >= error(ours) - 1e-12


def test_only_the_joints_with_terms_change_and_the_parameters_given_stay():
    """Joint 2 follows: the terms are of the joints 1 and 3, which are the active ones at places 0 and 1."""
    terms = (FrictionTerm(1, FrictionKind.LOAD, 0.2), FrictionTerm(3, FrictionKind.LOAD_VISCOUS, 0.1))
    robot = replace(load_robot("demo3"), passive=(Passive(2, {1: 1.0}),), friction=terms)
    chi = standard_vector(robot)
    before = chi.copy()
    found = nearest_plain(robot, chi, np.array([2.0, 3.0]), np.array([5.0, -7.0]))
    np.testing.assert_array_equal(chi, before)
    change = {int(k): found[k] - chi[k] for k in np.flatnonzero(np.abs(found - chi) > 1e-12)}
    assert change == pytest.approx({Fc: 0.2 * 5.0, 2 * JOINT + Fv: 0.1 * 7.0})


@pytest.mark.parametrize("plain", [(0.0, 0.0), (0.0, 5.0), (5.0, 0.0), (-20.0, -20.0), (-20.0, 3.0)])
@pytest.mark.parametrize("top", [0.5, 2.0])
def test_the_nearest_pair_is_that_of_nonnegative_least_squares(plain, top):
    for kind, more in ((FrictionKind.CUBIC, {}), (FrictionKind.ROOT, {}), (FrictionKind.STRIBECK, {"speed": 0.3}),
                       (FrictionKind.ASYMMETRIC, {})):  # fmt: skip
        robot = with_term(kind, 3.0, **more)
        chi = standard_vector(robot)
        chi[[JOINT + Fv, JOINT + Fc]] = plain
        half = np.linspace(0.05, 1.0, 40) * top
        v = np.concatenate((-half, half))
        law = plain[0] * v + plain[1] * np.sign(v) + 3.0 * term_column(robot.friction[0], v, np.sign(v), 0 * v)
        wanted, _ = nnls(np.column_stack((v, np.sign(v))), law)
        found = nearest_plain(robot, chi, np.array([9.0, top, 9.0]), np.zeros(3))
        assert found[[JOINT + Fv, JOINT + Fc]] == pytest.approx(wanted, abs=1e-9)
