# SPDX-License-Identifier: Apache-2.0

"""Check: are these recordings usable?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.recording.checks import RED
from ros2_dynid.recording.samples import Reading, Units
from ros2_dynid.usecases.check import CheckRequest, check, check_recording
from usecase_recordings import DEMO, NAMES, ROBOT, samples_of


def test_a_check_reads_as_asked_and_has_the_evidence_of_identification(tmp_path):
    samples = samples_of()
    np.savez(tmp_path / "run.npz", t=samples.t, q=samples.q, tau=-1e3 * samples.tau * [1.0, -1.0, -1.0])
    reading = Reading(units=Units(effort="mN.m"), start=1.0)
    told = check(CheckRequest(DEMO, (str(tmp_path / "run.npz"),), reading, PreparationOptions(gains={NAMES[0]: -1.0})))
    assert told.duration == pytest.approx(7.0, abs=0.05)
    scales = [row.gravity_scale for row in told.joints[1:]]
    assert np.allclose(scales, 1.0, atol=0.2) and told.joints[0].gravity_scale is None, "the waist is vertical"
    assert not [problem for problem in told.problems if problem.level == RED]
    wrong = check(CheckRequest(DEMO, (str(tmp_path / "run.npz"),), reading))
    signs = [problem for problem in wrong.problems if problem.kind == "effort_sign"]
    assert [(p.joint, p.level) for p in signs] == [(NAMES[0], RED)]


def test_samples_that_came_late_are_checked_as_recorded_and_judged_in_order():
    late = samples_of()
    order = np.arange(len(late.t))
    order[[100, 101]] = 101, 100
    mixed = replace(late, t=late.t[order], q=late.q[order], tau=late.tau[order])
    told, straight = check_recording(mixed, ROBOT), check_recording(late, ROBOT)
    assert {problem.kind for problem in told.problems} > {problem.kind for problem in straight.problems}
    for row, other in zip(told.joints, straight.joints, strict=True):
        assert row.gravity_scale == other.gravity_scale and row.friction_correlation == other.friction_correlation


def test_a_check_ends_where_identification_would():
    short = samples_of(seconds=0.2)
    problems = check_recording(short, ROBOT).problems
    assert any(problem.level == RED for problem in problems)
    turned = replace(samples_of(), q=np.degrees(samples_of().q))
    kinds = [(problem.kind, problem.joint) for problem in check_recording(turned, ROBOT).problems]
    degrees = [pair for pair in kinds if pair[0] == "position_unit"]
    assert degrees == [("position_unit", name) for name in NAMES], "not said twice"
