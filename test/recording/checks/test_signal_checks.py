# SPDX-License-Identifier: Apache-2.0

"""Checks of signals: unknown, stuck, quantised, saturated and jumping values, and how much a joint moved."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.model.robot import PRISMATIC, Joint, Limits
from ros2_dynid.recording.checks.signal_checks import (
    Signal,
    check_coverage,
    check_quantised,
    check_saturated,
    check_stuck,
    check_unknown,
    check_velocity,
)


def signal(values, name="effort", rate=500.0):
    values = np.asarray(values, dtype=float)
    return Signal("elbow", name, "N.m", np.arange(len(values)) / rate, values)


def found(problems):
    return [(p.kind, p.level) for p in problems]


def ramp(count):
    """Steps of one, up and down, without a constant stretch."""
    return np.cumsum(np.where(np.arange(count) // 100 % 2, -1.0, 1.0))


@pytest.mark.parametrize(("rate", "held", "frozen"), [
    (500.0, 60, True), (500.0, 50, False), (500.0, 53, True), (20.0, 10, False), (20.0, 11, True), (20.0, 15, True),
])  # fmt: skip
def test_a_freeze_lasts_a_tenth_of_a_second_and_ten_samples(rate, held, frozen):
    x = ramp(2000)
    x[700 : 700 + held] = x[700]
    x[700 + held :] += x[700] + 5.0 - x[700 + held]
    assert bool(check_stuck(signal(x, "position", rate), np.ones(2000, bool))) == frozen


@pytest.mark.parametrize("where", ["begin", "end"])
@pytest.mark.parametrize(("jump", "frozen"), [(5.0, True), (-5.0, True), (1.0, False)])
def test_a_freeze_may_begin_or_end_with_the_recording(where, jump, frozen):
    x = ramp(2000)
    if where == "begin":
        x[:80] = x[80] + jump
    else:
        x[-80:] = x[-81] + jump
    problems = check_stuck(signal(x, "position"), np.ones(2000, bool))
    assert found(problems) == ([("stuck", "yellow")] if frozen else [])
    if frozen:
        assert "frozen 1 times, 0.158 s in all" in problems[0].what


def test_a_joint_that_is_held_at_either_end_is_not_frozen():
    x = ramp(2000)
    x[:80], x[-80:] = x[80], x[-81]
    assert check_stuck(signal(x, "position"), np.ones(2000, bool)) == []


@pytest.mark.parametrize(("count", "coarse"), [(590, False), (610, True)])
def test_few_levels_are_those_met_four_times_each(count, coarse):
    x = np.tile(np.arange(150.0), 5)[:count]
    assert bool(check_quantised(signal(x, "position"), np.ones(count, bool))) == coarse


@pytest.mark.parametrize(("count", "moving", "told"), [
    (100, 100, True), (99, 99, False), (150, 50, True), (150, 49, False),
])  # fmt: skip
def test_how_much_motion_tells_of_coarse_steps(count, moving, told):
    x = np.tile(np.arange(10.0), 50)[:count]
    assert bool(check_quantised(signal(x, "position"), np.arange(count) < moving)) == told


@pytest.mark.parametrize(("name", "share", "coarse"), [
    ("effort", 0.06, False), ("effort", 0.08, True), ("velocity", 0.06, False), ("velocity", 0.08, True),
    ("position", 0.06, True),
])  # fmt: skip
def test_steps_against_the_spread(name, share, coarse):
    """Levels that are all used alike, so many that their standard deviation is 1/share of a step."""
    count = round(np.sqrt(12) / share)
    x = np.tile(np.random.default_rng(0).permutation(count), 40).astype(float)
    assert np.std(x) * share == pytest.approx(1.0, rel=0.01)
    assert bool(check_quantised(signal(x, name), np.ones(len(x), bool))) == coarse


@pytest.mark.parametrize(("levels", "coarse"), [(199, True), (200, False)])
def test_so_many_levels_are_fine(levels, coarse):
    x = np.tile(np.random.default_rng(0).permutation(levels), 10).astype(float)
    assert bool(check_quantised(signal(x, "position"), np.ones(len(x), bool))) == coarse


@pytest.mark.parametrize(("at_limit", "level"), [
    (1, None), (3, "yellow"), (49, "yellow"), (51, "red"), (200, "red"),
])  # fmt: skip
@pytest.mark.parametrize("sign", [1, -1])
def test_the_share_of_the_time_at_the_limit(at_limit, level, sign):
    x = np.random.default_rng(0).uniform(-90.0, 90.0, 1000)
    x[np.arange(at_limit) * 3] = 100.0 * sign
    assert found(check_saturated(signal(x), 100.0)) == ([("saturation", level)] if level else [])


@pytest.mark.parametrize(("length", "times", "told"), [(5, 2, True), (4, 2, False), (5, 1, False), (9, 3, True)])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_looks_clipped_stays_at_its_largest_value(length, times, told, sign):
    x = np.random.default_rng(0).uniform(-90.0, 90.0, 1000)
    for k in range(times):
        x[200 * k : 200 * k + length] = 100.0 * sign
    problems = check_saturated(signal(x), np.inf)
    assert found(problems) == ([("saturation", "yellow")] if told else [])
    if told:
        assert f"stays at its largest value 100 N.m {times} times" in problems[0].what
    coarse = np.round(x / 2.0) * 2.0
    assert check_saturated(signal(coarse), np.inf) == [], "of few levels the largest comes often"


@pytest.mark.parametrize("name", ["effort", "velocity"])
def test_an_effort_far_beyond_its_limit_is_of_another_unit(name):
    x = np.random.default_rng(0).uniform(-1.0, 1.0, 1000)
    x[5] = -30.2
    assert found(check_saturated(signal(x, name), 10.0)) == ([("effort_unit", "yellow")] if name == "effort" else [])
    x[5] = -29.8
    assert check_saturated(signal(x, name), 10.0) == []


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("reach", "kind"), [(6.2, "limits"), (6.4, "position_unit"), (12.0, "position_unit")])
def test_more_than_a_turn_beyond_the_limits_looks_like_degrees(side, reach, kind):
    x = np.sort(side * np.linspace(0.0, reach, 100))
    joint = Joint("elbow", 0, limits=Limits(-1.0, 1.0))
    assert [p.kind for p in check_coverage(signal(x, "position"), joint)] == [kind]
    slide = Joint("elbow", 0, sigma=PRISMATIC, limits=Limits(-1.0, 1.0))
    assert [p.kind for p in check_coverage(signal(x, "position"), slide)] == ["limits"]


def test_the_margin_beyond_the_limits_is_a_share_of_the_range_at_either_end():
    joint = Joint("elbow", 0, limits=Limits(1.0, 3.0))
    for low, high, told in ((0.91, 2.0, False), (0.89, 2.0, True), (2.0, 3.09, False), (2.0, 3.11, True)):
        problems = check_coverage(signal(np.linspace(low, high, 50), "position"), joint)
        assert [p.kind for p in problems] == (["limits"] if told else [])


def test_little_motion_in_words():
    joint = Joint("elbow", 0, limits=Limits(-4.0, 6.0))
    (problem,) = check_coverage(signal(np.linspace(1.0, 1.4, 50), "position"), joint)
    assert problem.what == "the joint moved only 0.4 N.m, 4 % of its range" and problem.level == "yellow"
    (problem,) = check_coverage(signal(np.linspace(1.0, 1.1, 50), "position"), None)
    assert problem.what == "the joint moved only 0.1 N.m"
    (problem,) = check_coverage(signal(np.linspace(1.0, 1.01, 50), "position"), joint)
    assert problem.what == "the joint stood still: it moved 0.01 N.m" and problem.level == "red"


@pytest.mark.parametrize(("r", "told"), [(0.75, False), (0.85, True), (-0.75, False), (-0.85, True)])
def test_velocities_that_have_little_to_do_with_the_positions(r, told):
    rng = np.random.default_rng(0)
    x, e = np.linalg.qr(rng.normal(size=(400, 3)) - np.zeros(3))[0].T[:2]
    x, e = x - x.mean(), e - e.mean()
    e -= x * (e @ x) / (x @ x)
    y = 2.0 * (r * x / np.linalg.norm(x) + np.sqrt(1 - r**2) * e / np.linalg.norm(e)) * np.linalg.norm(x)
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(r)
    problems = check_velocity(signal(y, "velocity"), x)
    assert bool(problems) == told
    if told:
        assert f"velocity is {2 * np.sign(r):.3g} times" in problems[0].what


def test_a_hundred_samples_tell_of_a_velocity():
    x = np.sin(np.arange(100.0))
    unknown = np.append(np.full(7, np.nan), x)
    for count, told in ((100, True), (99, False)):
        assert bool(check_velocity(signal(2 * x[:count], "velocity"), x[:count])) == told
        values, derived = np.append(2 * x[:count], 5.0), np.append(x[:count], np.nan)
        assert bool(check_velocity(signal(values, "velocity"), derived)) == told, "only what is known counts"
    assert check_velocity(signal(unknown[:107], "velocity"), np.ones(107)) == [], "a joint that stands still"
    assert check_velocity(signal(np.ones(107), "velocity"), unknown) == []


RATE = 500.0


def signal_of_unit(values, name="effort", unit="N.m"):
    values = np.asarray(values, dtype=float)
    return Signal("elbow", name, unit, np.arange(len(values)) / RATE, values)


def told(problems):
    """Return kind and level of each problem; all of them are of this joint."""
    assert all(p.joint == "elbow" for p in problems)
    return [(p.kind, p.level) for p in problems]


def wave(count=5000, seed=0, size=10.0):
    """A smooth signal without a constant stretch."""
    rng = np.random.default_rng(seed)
    t = np.arange(count) / RATE
    phases = rng.uniform(0, 6, 4)
    return size * sum(np.sin(2 * np.pi * f * t + p) for f, p in zip((0.23, 0.61, 1.07, 1.9), phases, strict=True)) / 4


@pytest.mark.parametrize(
    ("unknown", "found"), [(0, []), (1, ["yellow"]), (200, ["yellow"]), (202, ["red"]), (999, ["red"]), (1000, [])]
)
def test_values_that_are_not_known(unknown, found):
    values = wave(1000)
    values[:unknown] = np.nan
    problems = check_unknown(signal_of_unit(values))
    assert told(problems) == [("nan", level) for level in found]
    if problems:
        assert problems[0].what.startswith(f"{unknown} values of effort (")


@pytest.mark.parametrize(("name", "level"), [("effort", "red"), ("velocity", "yellow"), ("position", "yellow")])
def test_a_signal_that_never_changes_though_the_joint_moves(name, level):
    still, moving = np.full(100, 3.5), np.ones(100, dtype=bool)
    assert told(check_stuck(signal_of_unit(still, name), moving)) == [("stuck", level)]
    moving[10:] = False
    assert told(check_stuck(signal_of_unit(still, name), moving)) == [("stuck", level)]
    moving[9:] = False
    assert check_stuck(signal_of_unit(still, name), moving) == [], "it hardly moves"


@pytest.mark.parametrize(
    ("length", "jump", "times", "found"),
    [
        (60, 4.0, 1, ["yellow"]),
        (60, 4.0, -1, ["yellow"]),
        (45, 4.0, 1, []),  # 0.09 s: shorter than 0.1 s
        (60, 2.0, 1, []),  # hardly more than its usual steps
        (60, 4.0, 5, ["red"]),  # 0.6 s of 10 s
    ],
)
def test_a_signal_that_stands_still_and_then_jumps(length, jump, times, found):
    rng = np.random.default_rng(3)
    x = np.cumsum(rng.choice([-1.0, 1.0], 5000))  # steps of 1
    for k in range(abs(times)):
        at = 500 + 900 * k
        x[at : at + length] = x[at]
        x[at + length :] += x[at] + np.sign(times) * jump - x[at + length]
    assert told(check_stuck(signal_of_unit(x, "position", "rad"), np.ones(5000, dtype=bool))) == [
        ("stuck", v) for v in found
    ]


@pytest.mark.parametrize(("levels", "name", "found"), [
    (150, "position", True), (250, "position", False), (150, "effort", False), (30, "effort", True),
    (30, "velocity", True),
])  # fmt: skip
def test_coarse_steps(levels, name, found):
    x = wave()
    step = np.ptp(x) / levels
    values = np.round(x / step) * step
    problems = check_quantised(signal_of_unit(values, name), np.ones(len(x), dtype=bool))
    assert told(problems) == ([("quantised", "yellow")] if found else [])
    if found:
        assert f"only {len(np.unique(values))} distinct values, about {step:.2g}" in problems[0].what
    assert check_quantised(signal_of_unit(values, name), np.arange(len(x)) < 49) == [], "too little motion to tell"
    assert check_quantised(signal_of_unit(values[:99], name), np.ones(99, dtype=bool)) == []


@pytest.mark.parametrize(("repeat", "found"), [(2, False), (4, True)])
def test_values_that_repeat(repeat, found):
    """Each value of a fine signal_of_unit twice: half of the steps are zero; four times: three quarters are."""
    x = np.repeat(wave(), repeat)[:5000]
    moving = np.ones(5000, dtype=bool)
    assert told(check_quantised(signal_of_unit(x, "position"), moving)) == ([("quantised", "yellow")] if found else [])
    assert check_quantised(signal_of_unit(x, "effort"), moving) == [], "an effort may be refreshed when it likes"
    still = np.concatenate((wave(2500), np.full(2500, 1.0)))
    assert check_quantised(signal_of_unit(still, "position"), np.arange(5000) < 2500) == [], (
        "at rest it repeats rightly"
    )


@pytest.mark.parametrize(("clip", "limit", "found"), [
    (6.0, 6.0, ("saturation", "red")), (9.6, 9.6, ("saturation", "yellow")), (6.0, 9.0, ("saturation", "yellow")),
    (99.0, 11.0, None), (99.0, np.inf, None), (99.0, 0.0, None), (99.0, 3.4, None),
    (99.0, 3.0, ("effort_unit", "yellow")),
])  # fmt: skip
@pytest.mark.parametrize("sign", [1, -1])
def test_values_at_their_limit(clip, limit, found, sign):
    """Of a signal_of_unit of up to 10; a limit far from where it is clipped is not the cause, but clipped it is."""
    x = wave()
    x *= 10.0 / np.abs(x).max()
    values = sign * np.clip(x, -clip, clip)
    assert told(check_saturated(signal_of_unit(values), limit)) == ([found] if found else [])
    if found and found[0] == "effort_unit":
        assert check_saturated(signal_of_unit(values, "velocity"), limit) == [], "only efforts have units of all kinds"
    assert (
        check_saturated(signal_of_unit(np.zeros(50)), 5.0) == []
        and check_saturated(signal_of_unit([np.nan] * 5), 5.0) == []
    )


@pytest.mark.parametrize(("low", "high", "limits", "found"), [
    (-1.0, 1.0, (-3.0, 3.0), None),
    (-3.2, 1.0, (-3.0, 3.0), None), (-3.4, 1.0, (-3.0, 3.0), ("limits", "yellow")),
    (-1.0, 3.2, (-3.0, 3.0), None), (-1.0, 3.4, (-3.0, 3.0), ("limits", "yellow")),
    (-1.0, 70.0, (-3.0, 3.0), ("position_unit", "red")), (-70.0, 1.0, (-3.0, 3.0), ("position_unit", "red")),
    (0.5, 0.515, (-3.0, 3.0), ("coverage", "red")), (0.5, 0.6, (-3.0, 3.0), ("coverage", "yellow")),
    (0.5, 0.75, (-3.0, 3.0), ("coverage", "yellow")), (0.5, 0.85, (-3.0, 3.0), None),
    (0.5, 0.75, (-np.inf, np.inf), None), (0.5, 0.69, (-np.inf, np.inf), ("coverage", "yellow")),
    (-70.0, 70.0, (-np.inf, np.inf), None),
])  # fmt: skip
def test_how_far_a_joint_moved(low, high, limits, found):
    x = np.linspace(low, high, 300)
    joint = Joint("elbow", 0, limits=Limits(*limits))
    assert told(check_coverage(signal_of_unit(x, "position", "rad"), joint)) == ([found] if found else [])
    if not np.isfinite(limits[0]):
        assert told(check_coverage(signal_of_unit(x, "position", "rad"), None)) == ([found] if found else [])


def test_a_sliding_joint_has_limits_of_its_own():
    joint = Joint("elbow", 0, sigma=PRISMATIC, limits=Limits(-0.5, 0.5))
    for high, found in ((0.0015, "red"), (0.015, "yellow"), (0.06, None)):
        x = np.linspace(0.0, high, 100)
        assert told(check_coverage(signal_of_unit(x, "position", "m"), joint)) == (
            [("coverage", found)] if found else []
        )
    far = np.linspace(0.0, 70.0, 100)
    assert told(check_coverage(signal_of_unit(far, "position", "m"), joint)) == [("limits", "yellow")], (
        "metres are no degrees"
    )


@pytest.mark.parametrize(("factor", "found"), [
    (1.0, False), (0.75, False), (1.35, False), (0.65, True), (1.45, True), (57.3, True), (-1.0, True),
])  # fmt: skip
def test_velocities_against_the_positions(factor, found):
    true = wave(500)
    problems = check_velocity(signal_of_unit(factor * true, "velocity", "rad/s"), true)
    assert told(problems) == ([("velocity_unit", "yellow")] if found else [])
    if found:
        assert f"{factor:.3g} times" in problems[0].what
    assert check_velocity(signal_of_unit(factor * true[:99], "velocity"), true[:99]) == [], "too short to tell"
    noise = np.random.default_rng(0).normal(size=500) * 100
    assert check_velocity(signal_of_unit(noise, "velocity"), true) == [], "what has nothing to do with it has no factor"
