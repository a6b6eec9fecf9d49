# SPDX-License-Identifier: Apache-2.0

"""Faults at random moments of fast motions from limit to limit, by a robot that lags: no limit is passed."""

from __future__ import annotations

import pytest

from faulty_missions import FAULTS, fly
from ros2_dynid.model.load import load_robot

SEEDS = 2


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_passes_a_limit_and_every_mission_ends_at_rest(fault):
    robot = load_robot("demo3")
    ended = [fly(robot, seed, fault) for seed in range(SEEDS)]
    assert not [outcome for outcome in ended if outcome.wrong]
    if fault == "none":
        assert any(outcome.ended.startswith("done") for outcome in ended)
