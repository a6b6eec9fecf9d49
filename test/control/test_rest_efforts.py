# SPDX-License-Identifier: Apache-2.0

"""What the robot is declared to add is judged by efforts at rest before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.control.effort_command import EffortCommand
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.rest_efforts import USUAL, Declaration
from ros2_dynid.model.efforts import added_by_joint, declare_added_effort
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

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
    assert "the robot seems to hold itself" in finding.contradiction
    assert not declaration.pending and not declaration.usable


def test_two_joint_states_of_a_stalled_driver_are_too_few_to_judge_by(declaration):
    assert not declaration.take(Q, STILL, np.full(3, 0.5), 0.0)
    assert not declaration.take(Q, STILL, np.full(3, 0.5), 10 * USUAL.seconds)
    assert declaration.pending
