# SPDX-License-Identifier: Apache-2.0

"""Nodes, driver and network misbehave at random moments of missions, two at a time: the robot is never endangered."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from fault_campaign import AND, LANES, STARVED, campaign, described, fault_names, plan_of

PAIRS = 0.5
"""Share of the missions that meet two faults."""
SEED = int(os.environ.get("DYNID_CAMPAIGN_SEED", "1"))
ENOUGH = 0.9
"""Share of the runs that must have been judged for the campaign to say anything."""
MOVES = 0.02
"""Share of the speed limit that shows that torques have moved the robot."""
MOSTLY = 0.3
"""Share of the missions that must come to their end: a suite that never moves would pass everything else."""
CALM_RUNS = 8
"""Runs without a pause of the machine that a share is taken of: of 8 that move with probability 0.8 each, less
than 0.3 do once in 800 campaigns."""


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_no_fault_passes_a_limit_and_every_run_ends_at_rest_with_its_recording(tmp_path):
    names = {kind: fault_names(kind) for kind in LANES}
    plans = {kind: plan_of(kind, len(names[kind]), SEED, PAIRS) for kind in LANES}
    runs = campaign(plans, SEED, tmp_path)
    for run in runs:
        print(described(run))
    judged = [run for run in runs if not run.spoilt]
    bad = [described(run) for run in judged if run.violations]
    assert not bad, "\n".join(bad)
    met = {kind: {name for run in runs if run.lane == kind for name in run.fault.split(AND)} for kind in LANES}
    assert met == {kind: set(found) for kind, found in names.items()}
    if len(judged) < ENOUGH * len(runs):
        pytest.skip(
            f"a busy machine paused processes in {len(runs) - len(judged)} of {len(runs)} runs, three times each"
        )
    calm = [run for run in runs if run.paused < STARVED]
    moved = [run for run in calm if run.lane != "effort" and AND not in run.fault]  # two faults end most missions
    assert is_share(sum(run.ended == "done" for run in moved), len(moved), MOSTLY)
    followed = [run for run in calm if run.lane == "effort"]
    assert is_share(sum(run.peak_speed > MOVES for run in followed), len(followed), MOSTLY)
    assert is_share(sum(run.recorded > 50 for run in calm), len(calm), 0.5)


def is_share(count, runs, share):
    """Return whether the count is the share of the runs, or these are too few, on a busy machine, to have one."""
    return count >= share * runs or runs < CALM_RUNS
