# SPDX-License-Identifier: Apache-2.0

"""What the robot is declared to add is judged by efforts at rest before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.control.effort_command import EffortCommand
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.rest_efforts import USUAL, Declaration, judge_rest
from ros2_dynid.model.efforts import added_by_joint, declare_added_effort, declared_sensors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import with_gravity

ROBOT = declare_added_effort(load_robot("demo3"), ["nothing"])
MODEL = FeedforwardModel(ROBOT, standard_vector(ROBOT))
Q, STILL = np.array([0.0, -1.0, 0.3]), np.zeros(3)


@pytest.fixture
def declaration():
    declared = Declaration()
    declared.command = EffortCommand(added_by_joint(ROBOT), np.full(3, 80.0))
    return declared


def test_nothing_is_sent_until_efforts_at_rest_are_judged_however_late_the_next_joint_state_comes(declaration):
    """A torque between the time that is averaged and the next joint state would apply gravity twice."""
    assert not declaration.pending
    noise = np.full(3, 0.5)
    for k in range(USUAL.samples):
        assert declaration.take(Q, STILL, noise, 0.02 * k - 0.01) == (k == USUAL.samples - 1)
        assert declaration.pending
    finding = declaration.judge(MODEL, 0.02)
    assert "the robot seems to hold itself" in finding
    assert not declaration.pending and not declaration.usable


def test_two_joint_states_of_a_stalled_driver_are_too_few_to_judge_by(declaration):
    assert not declaration.take(Q, STILL, np.full(3, 0.5), 0.0)
    assert not declaration.take(Q, STILL, np.full(3, 0.5), 10 * USUAL.seconds)
    assert declaration.pending


HELD, EMPTY = MODEL.gravity(Q), np.full(3, 0.5)
BLIND = FeedforwardModel(
    with_gravity(declared_sensors(ROBOT, "motor-gravity"), (0.0, 0.0, 0.0)), standard_vector(ROBOT)
)


@pytest.mark.parametrize(
    ("model", "adds", "measures", "tau", "words"),
    [
        (MODEL, "nothing", None, EMPTY, "seems to hold itself"),
        (MODEL, "nothing", None, HELD, ""),
        (MODEL, "gravity", None, EMPTY, ""),
        (MODEL, "gravity", None, HELD, "it would fall; set robot_adds to nothing, or declare"),
        (MODEL, "gravity", False, HELD, "it would fall"),
        (MODEL, "gravity", True, HELD, ""),
        (BLIND, "gravity", False, EMPTY, ""),
        (BLIND, "gravity", False, HELD, "efforts are declared to hold no gravity"),
    ],
)
def test_a_wrong_declaration_of_either_kind_is_refused(model, adds, measures, tau, words):
    declared = added_by_joint(declare_added_effort(ROBOT, [adds]))
    finding = judge_rest(model, EffortCommand(declared, np.full(3, 80.0), measures), 0.02, (Q, tau))
    assert words in finding if words else not finding


def test_an_arm_that_neither_the_model_nor_the_robot_holds_gets_nothing(declaration):
    declaration.command = EffortCommand(added_by_joint(ROBOT), np.full(3, 80.0), unheld=True)
    assert not declaration.usable and "it would fall" in declaration.contradiction
