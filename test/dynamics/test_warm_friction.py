# SPDX-License-Identifier: Apache-2.0

"""Friction at a temperature of the drives, as Fc and Fv of the joints that it is of, also beside passive ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.warm_friction import at_temperature, references
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Passive

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
