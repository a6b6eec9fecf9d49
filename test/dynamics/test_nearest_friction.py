"""Viscous and Coulomb friction nearest to a law: exact where the law is plain, no better pair beside it."""

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.dynamics.friction_terms import term_column
from ros2_dynid.dynamics.nearest_friction import nearest_plain
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import JOINT, Fc, Fv, standard_vector


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
