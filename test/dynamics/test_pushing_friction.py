# SPDX-License-Identifier: Apache-2.0

"""Friction that pushes is found wherever it does, and friction that brakes is not blamed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.feedforward import refuse_pushing_friction
from ros2_dynid.dynamics.pushing_friction import pushing_speeds
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import Coupling

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
    with pytest.raises(InputError, match="pushes instead of braking; identify again") as refused:
        refuse_pushing_friction(*model(Fv2=-5.0), "model.yaml")
    assert "\n" not in str(refused.value) and "model.yaml" in str(refused.value)
