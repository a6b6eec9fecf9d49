# SPDX-License-Identifier: Apache-2.0

"""The rows and the verdict of a check: every figure by its definition, every problem at its joint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import Note, NoteKind, remark
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Robot
from ros2_dynid.recording.checks import GREEN, RED, YELLOW, RecordingProblem, check_samples, with_problems
from ros2_dynid.recording.checks.problems import worst
from ros2_dynid.recording.checks.recording_check import derived_velocity
from ros2_dynid.recording.samples import Samples

T = np.arange(5000) / 500.0
ROBOT = Robot(
    "r",
    (
        Joint("a", 0, d=0.1, limits=Limits(-2.0, 3.0, velocity=4.0, effort=50.0)),
        Joint("b", 1, d=0.1, sigma=PRISMATIC, limits=Limits(-0.5, 0.5, velocity=3.0, effort=90.0)),
        Joint("c", 2, d=0.1),
    ),
)


def good():
    q = np.column_stack((np.sin(T), 0.2 * np.cos(1.3 * T), 0.5 + np.sin(0.7 * T)))
    dq = np.column_stack((np.cos(T), -0.26 * np.sin(1.3 * T), 0.7 * np.cos(0.7 * T)))
    noise = 0.1 * np.random.default_rng(0).normal(size=q.shape)
    return Samples(T, ("a", "b", "c"), q, dq, None, 10.0 * q - 3.0 + noise, source="run")


def kinds(found):
    return {(p.kind, p.joint, p.level) for p in found.problems}


def test_every_figure_of_a_good_recording():
    samples = good()
    found = check_samples(samples, ROBOT)
    assert found.problems == () and found.verdict == GREEN and found.source == "run"
    assert (found.samples, found.gap_count, found.missing_samples) == (5000, 0, 0)
    assert found.rate == pytest.approx(500.0) and found.duration == pytest.approx(9.998)
    for k, row in enumerate(found.joints):
        q, tau = samples.q[:, k], samples.tau[:, k]
        assert (row.name, row.level) == ("abc"[k], GREEN)
        assert (row.position_min, row.position_max) == (q.min(), q.max())
        assert row.effort_rms == pytest.approx(np.sqrt(np.mean(tau**2)))
        assert row.effort_max == pytest.approx(np.abs(tau).max())
        assert row.speed_max == pytest.approx(np.abs(samples.dq[:, k]).max(), rel=1e-3)
    assert found.joints[0].coverage == pytest.approx(np.ptp(samples.q[:, 0]) / 5.0)
    assert found.joints[1].coverage == pytest.approx(np.ptp(samples.q[:, 1]) / 1.0)
    assert found.joints[2].coverage is None
    assert all(row.coverage is None for row in check_samples(samples).joints)


@pytest.mark.parametrize("rate", [20.0, 500.0, 1000.0])
def test_speeds_over_twenty_milliseconds(rate):
    t = np.arange(300) / rate
    q = np.sin(3 * t) + 0.2
    q[[40, 41]] = np.nan
    found = derived_velocity(t, q)
    half = max(1, round(0.01 * rate))
    known = np.flatnonzero(np.isfinite(q))
    for place, k in enumerate(known):
        a, b = known[max(place - half, 0)], known[min(place + half, len(known) - 1)]
        assert found[k] == pytest.approx((q[b] - q[a]) / (t[b] - t[a]))
    assert np.isnan(found[[40, 41]]).all()
    assert np.isnan(derived_velocity(t[:4], q[:4])).all() and np.isfinite(derived_velocity(t[:5], q[:5])).all()


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


def test_a_joint_that_may_not_move_has_no_coverage():
    locked = Robot("r", (Joint("a", 0, limits=Limits(1.0, 1.0)), *ROBOT.joints[1:]))
    assert [row.coverage is None for row in check_samples(good(), locked).joints] == [True, False, True]


def test_no_position_at_all_is_said_once():
    found = check_samples(replace(good(), q=np.full((5000, 3), np.nan)), ROBOT)
    assert [p.kind for p in found.problems if p.level == RED] == ["missing_position"]
    assert all(row.position_min is row.position_max is None for row in found.joints)


@pytest.mark.parametrize("field", ["dq", "tau"])
def test_limits_are_those_of_the_signal_and_the_joint(field):
    limit = {"dq": 4.0, "tau": 50.0}[field]
    values = getattr(good(), field).copy()
    values[:, 0] = np.clip(3.0 * limit * np.sin(5 * T), -limit, limit)
    found = check_samples(replace(good(), **{field: values}), ROBOT)
    assert ("saturation", "a", RED) in kinds(found)
    other = getattr(good(), field).copy()
    other[:, 2] = values[:, 0]
    assert ("saturation", "c", RED) not in kinds(check_samples(replace(good(), **{field: other}), ROBOT))


def test_units_are_those_of_the_kind_of_joint():
    samples = good()
    still = samples.q.copy()
    still[:, 0], still[:, 1] = 0.5 + 0.009 * np.sin(T), 0.1 + 0.0009 * np.sin(T)
    found = check_samples(replace(samples, q=still), ROBOT)
    told = {p.joint: p.what for p in found.problems if p.kind == "coverage"}
    assert "rad" in told["a"] and told["b"].endswith(" m") and "c" not in told
    slide = samples.q.copy()
    slide[:, 0], slide[:, 1] = 0.5 + 0.05 * np.sin(T), 0.1 + 0.05 * np.sin(T)
    levels = {
        p.joint: p.level for p in check_samples(replace(samples, q=slide), ROBOT).problems if p.kind == "coverage"
    }
    assert levels == {"a": YELLOW}, "0.1 rad are little, 0.1 m are not"


def test_figures_are_those_of_the_samples_in_order():
    samples, plain = good(), check_samples(good(), ROBOT)
    rows = np.arange(5000)
    rows[1000:1010] = rows[1009:999:-1]
    rows = np.insert(rows, 2000, 1999)
    mixed = check_samples(samples.take(rows), ROBOT)
    assert mixed.joints == plain.joints and {p.kind for p in mixed.problems} == {"backward", "gap", "repeat"}
    assert mixed.samples == 5001 and mixed.duration == plain.duration
    turned = samples.take(np.concatenate((rows[10:20], rows[:10], rows[20:-10], rows[-1:], rows[-10:-1])))
    assert check_samples(turned, ROBOT).duration == plain.duration, "from the first to the last, whichever came when"


def test_notes_of_the_reader_are_problems_too():
    notes = (Note(NoteKind.DAMAGE, "cut short"), Note(NoteKind.STAMPS, "late"), remark("by the way"))
    found = check_samples(replace(good(), notes=notes), ROBOT)
    assert [(p.kind, p.level, p.what) for p in found.problems] == [
        ("damaged", YELLOW, "cut short"),
        ("stamps", YELLOW, "late"),
    ]
    assert found.notes == ("cut short", "late", "by the way") and found.verdict == YELLOW


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


def test_a_velocity_is_compared_only_where_the_joint_moves():
    samples = good()
    wrong = samples.dq.copy()
    wrong[:, 0] *= -1.0
    assert ("velocity_unit", "a", YELLOW) in kinds(check_samples(replace(samples, dq=wrong), ROBOT))
    q = samples.q.copy()
    q[:, 0] = 0.5 + 0.005 * np.sin(T)
    still = check_samples(replace(samples, dq=wrong, q=q), ROBOT)
    assert not any(p.kind == "velocity_unit" for p in still.problems)
