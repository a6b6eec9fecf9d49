# SPDX-License-Identifier: Apache-2.0

"""A problem of a recording: how bad it is, what is wrong and what to do about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from checked_rows import ROBOT, good
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Robot
from ros2_dynid.recording.checks.problems import GREEN, RED, YELLOW, RecordingProblem, worst
from ros2_dynid.recording.checks.recording_check import check_samples, with_problems
from ros2_dynid.recording.samples import Samples


def test_the_row_of_a_joint():
    t = np.arange(400) / 100
    q = np.column_stack((0.5 * np.sin(t) - 0.2, np.full(400, 0.3)))
    q[5, 0] = np.nan
    tau = np.column_stack((-3.0 + np.cos(t), np.full(400, np.nan)))
    robot = Robot("r", (Joint("a", 0, limits=Limits(-1.0, 3.0)), Joint("b", 1, PRISMATIC)))
    check = check_samples(Samples(t, ("a", "b"), q, tau=tau), robot)
    a, b = check.joints
    assert (a.position_min, a.position_max) == (np.nanmin(q[:, 0]), np.nanmax(q[:, 0]))
    assert a.coverage == pytest.approx(np.ptp(q[np.isfinite(q[:, 0]), 0]) / 4.0)
    assert a.effort_max == pytest.approx(np.abs(tau[:, 0]).max()) and a.effort_max > 0
    assert a.effort_rms == pytest.approx(np.sqrt(np.mean(tau[:, 0] ** 2)))
    assert a.speed_max == pytest.approx(0.5, rel=1e-3)
    assert b.coverage is None and b.effort_max is None and b.effort_rms is None and b.speed_max == 0.0
    assert (b.position_min, b.position_max) == (0.3, 0.3)
    kinds = {(p.kind, p.joint): p.level for p in check.problems}
    assert kinds["missing_effort", "b"] == RED and kinds["missing_velocity", None] == YELLOW and check.verdict == RED
    assert b.level == RED and check.problems[0].level == RED
    empty = check_samples(Samples(t, ("a", "b"), np.full((400, 2), np.nan), dq=np.zeros((400, 2)), tau=tau), robot)
    kinds = [(p.kind, p.joint) for p in empty.problems]
    assert ("missing_position", None) in kinds and ("missing_position", "a") not in kinds
    assert [row.speed_max for row in empty.joints] == [0.0, 0.0]
    assert empty.joints[0].coverage == 0.0 and empty.joints[0].position_min is None
    half = q.copy()
    half[:, 0] = np.nan
    kinds = [(p.kind, p.joint) for p in check_samples(Samples(t, ("a", "b"), half, dq=half * np.nan, tau=tau)).problems]
    assert ("missing_position", "a") in kinds and ("missing_position", None) not in kinds
    levels = {
        (p.kind, p.joint): p.level
        for p in check_samples(Samples(t, ("a", "b"), half, dq=half * np.nan, tau=tau)).problems
    }
    assert levels["missing_velocity", "a"] == YELLOW and levels["missing_position", "a"] == RED


def test_references_make_up_for_efforts():
    samples = good()
    found = check_samples(replace(samples, tau=None, q_r=samples.q + 0.1), ROBOT)
    assert kinds(found) == {("missing_effort", None, YELLOW)}


def test_more_problems_change_the_verdict_and_the_rows():
    t = np.arange(2000) / 100
    q = np.column_stack((np.sin(t), np.cos(1.3 * t)))
    dq = np.column_stack((np.cos(t), -1.3 * np.sin(1.3 * t)))
    tau = np.random.default_rng(0).normal(size=(2000, 2))
    check = check_samples(Samples(t, ("a", "b"), q, dq=dq, tau=tau))
    before = [row.level for row in check.joints]
    found = with_problems(check, [RecordingProblem("x", YELLOW, "w", "d"), RecordingProblem("y", RED, "w", "d", "b")])
    assert [row.level for row in found.joints] == [before[0], RED] and found.verdict == RED
    assert found.problems[0].kind == "y" and len(found.problems) == len(check.problems) + 2
    assert before[0] in (GREEN, YELLOW)


def kinds(found):
    return {(p.kind, p.joint, p.level) for p in found.problems}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"tau": None}, {("missing_effort", None, RED)}),
        ({"dq": None}, {("missing_velocity", None, YELLOW)}),
        ({"tau": (slice(None), 1, np.nan)}, {("missing_effort", "b", RED)}),
        ({"dq": (slice(None), 2, np.nan)}, {("missing_velocity", "c", YELLOW)}),
        ({"q": (slice(None), 0, np.nan)}, {("missing_position", "a", RED)}),
        ({"tau": (slice(0, 3), 1, np.nan)}, {("nan", "b", YELLOW)}),
        ({"tau": (slice(None), 2, 4.0)}, {("stuck", "c", RED)}),
        ({"dq": (slice(None), 0, 0.5)}, {("stuck", "a", YELLOW)}),
    ],
)
def test_problems_are_of_the_joint_that_has_them(change, expected):
    samples, arrays = good(), {}
    for field, wrong in change.items():
        if wrong is None:
            samples = replace(samples, **{field: None})
            continue
        rows, joint, value = wrong
        arrays[field] = getattr(samples, field).copy()
        arrays[field][rows, joint] = value
    found = check_samples(replace(samples, **arrays), ROBOT)
    assert kinds(found) == expected
    levels = {joint: level for _, joint, level in expected if joint}
    assert [row.level for row in found.joints] == [levels.get(row.name, GREEN) for row in found.joints]
    assert found.verdict == worst(level for _, _, level in expected)


def test_more_problems_change_rows_order_and_verdict():
    found = check_samples(replace(good(), dq=None), ROBOT)
    more = [
        RecordingProblem("x", YELLOW, "", "", "b"),
        RecordingProblem("y", RED, "", "", "b"),
        RecordingProblem("z", RED, "", ""),
    ]
    again = with_problems(found, more)
    assert [row.level for row in again.joints] == [GREEN, RED, GREEN] and again.verdict == RED
    assert [p.kind for p in again.problems] == ["z", "y", "missing_velocity", "x"]
    assert with_problems(again, []).joints[1].level == RED
    assert with_problems(found, more[:1]).joints[1].level == YELLOW
    assert [worst(x) for x in ((), (GREEN,), (YELLOW, GREEN), (RED, YELLOW))] == [GREEN, GREEN, YELLOW, RED]
