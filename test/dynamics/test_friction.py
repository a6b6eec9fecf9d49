# SPDX-License-Identifier: Apache-2.0

"""Friction that pushes is found wherever it does, and friction that brakes is not blamed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

from oracle import random_robot
from ros2_dynid.control.feedforward import refuse_pushing_friction
from ros2_dynid.dynamics.friction import term_column
from ros2_dynid.dynamics.friction_law import at_temperature, nearest_plain, pushing_speeds, references
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import JOINT, Fc, Fv, standard_names, standard_vector
from ros2_dynid.model.robot import Coupling, Passive

ROBOT = load_robot("demo3")
NAMES = standard_names(ROBOT)


def model(*terms, limit=2.0, **values):
    """Return the robot with terms, joint 2 limited to that speed, and chi with some values."""
    joints = list(ROBOT.joints)
    joints[1] = replace(joints[1], limits=replace(joints[1].limits, velocity=limit))
    chi = standard_vector(ROBOT).copy()
    for name, value in values.items():
        chi[NAMES.index(name)] = value
    return replace(ROBOT, joints=tuple(joints), friction=terms), chi


ROOT = FrictionTerm(2, FrictionKind.ROOT, 10.0)


@pytest.mark.parametrize(
    ("made", "speed"),
    [
        (model(), None),
        (model(Fv2=-0.1, Fc2=1.0), None),  # 0.8 at the limit
        (model(Fv2=-0.6, Fc2=1.0), 2.0),
        (model(Fv2=-0.6, Fc2=1.0, limit=1.5), None),
        (model(Fv2=-0.1, Fc2=1.0, limit=np.inf), None),  # to a turn a second
        (model(Fv2=-0.2, Fc2=1.0, limit=np.inf), 2.0 * np.pi),
        (model(ROOT, Fv2=-1.0, Fc2=-0.5), 2e-4),
        (model(ROOT, Fv2=-1.0, Fc2=0.0), None),
        (model(FrictionTerm(2, FrictionKind.ASYMMETRIC, 1.0), Fv2=0.5, Fc2=0.1), 2.0),  # in one direction
        (model(Fv2=1.0, Fc2=1.0, off2=50.0), None),
        (model(Fv2=0.0, Fc2=-1e-12), None),
    ],
)
def test_a_joint_that_friction_pushes_is_named_with_the_speed(made, speed):
    told = pushing_speeds(*made)
    assert told == ({} if speed is None else {ROBOT.joints[1].name: pytest.approx(speed, rel=1e-6)})


def test_a_coupled_motor_counts():
    robot = replace(ROBOT, coupling=(Coupling(3, {2: 1.0, 3: 1.0}),))
    chi = np.append(standard_vector(ROBOT), [0.0, -9.0])
    assert set(pushing_speeds(robot, chi)) == {ROBOT.joints[1].name, ROBOT.joints[2].name}


def test_a_feedforward_refuses_such_a_model_in_one_line():
    refuse_pushing_friction(*model(), "model.yaml")
    with pytest.raises(InputError, match="drives the motion instead of braking it; identify again") as refused:
        refuse_pushing_friction(*model(Fv2=-5.0), "model.yaml")
    assert "\n" not in str(refused.value) and "model.yaml" in str(refused.value)


TERMS = (
    FrictionTerm(1, FrictionKind.CUBIC, 0.2),
    FrictionTerm(3, FrictionKind.TEMPERATURE, -0.04, reference=30.0),
    FrictionTerm(3, FrictionKind.LOAD, 0.1),
    FrictionTerm(3, FrictionKind.TEMPERATURE_VISCOUS, 0.05, reference=30.0),
    FrictionTerm(4, FrictionKind.TEMPERATURE_VISCOUS, -0.03, reference=22.0),
)
"""Of a robot whose second joint follows the first: joints 3 and 4 are the active ones at places 1 and 2."""


def warm_robot():
    rng = np.random.default_rng(4)
    robot = replace(random_robot(rng, 4), passive=(Passive(2, {1: 0.5}, 0.2),), friction=TERMS)
    return robot, rng.uniform(1.0, 2.0, len(standard_names(robot))), *rng.normal(size=(3, 6, 3))


def test_the_law_at_a_temperature_is_the_law_told_that_temperature():
    robot, chi, q, dq, ddq = warm_robot()
    before = chi.copy()
    for T in ([25.0, 40.0, 10.0], [np.nan, 35.0, np.nan], [20.0, np.nan, 40.0], [np.nan] * 3):
        plain, there = at_temperature(robot, chi, np.array(T))
        assert [term.name for term in plain.friction] == ["Fcub1", "Fl3"]
        expected = inverse_dynamics(robot, chi, q, dq, ddq, np.tile(T, (6, 1)))
        np.testing.assert_allclose(inverse_dynamics(plain, there, q, dq, ddq), expected, rtol=1e-12)
    np.testing.assert_array_equal(chi, before)


def test_each_coefficient_goes_to_its_joint():
    robot, chi, *_ = warm_robot()
    _, there = at_temperature(robot, chi, np.array([90.0, 40.0, 12.0]))
    change = {name: new - old for name, old, new in zip(standard_names(robot), chi, there, strict=True) if new != old}
    assert change == pytest.approx({"Fc3": -0.04 * 10.0, "Fv3": 0.05 * 10.0, "Fv4": -0.03 * -10.0})
    assert references(robot) == {1: 30.0, 2: 22.0} and references(replace(robot, friction=TERMS[:1])) == {}


def test_friction_falls_to_zero_and_no_further_but_stays_where_it_was_below():
    robot, chi, *_ = warm_robot()
    place = standard_names(robot).index("Fc3")
    for cold, T, warm in ((1.0, 54.9, 1.0 - 0.04 * 24.9), (1.0, 55.1, 0.0), (1.0, 200.0, 0.0), (-0.5, 31.0, -0.5),
                          (-0.5, 29.0, -0.46), (-0.5, 0.0, 0.7)):  # fmt: skip
        chi[place] = cold
        assert at_temperature(robot, chi, np.array([20.0, T, 20.0]))[1][place] == pytest.approx(warm, abs=1e-12)


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros(4), np.zeros((3, 1))])
def test_one_temperature_for_each_active_joint(wrong):
    robot, chi, *_ = warm_robot()
    with pytest.raises(InputError, match=f"{wrong.size} temperatures for 3 joints; give one for each joint"):
        at_temperature(robot, chi, wrong)


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
