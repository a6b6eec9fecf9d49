# SPDX-License-Identifier: Apache-2.0

"""The checks of single signals and of stamps as tables: evidence just below and just above each of their limits."""

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
from ros2_dynid.recording.checks.timing import check_timing

RATE = 500.0


def signal(values, name="effort", unit="N.m"):
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
    problems = check_unknown(signal(values))
    assert told(problems) == [("nan", level) for level in found]
    if problems:
        assert problems[0].what.startswith(f"{unknown} values of effort (")


@pytest.mark.parametrize(("name", "level"), [("effort", "red"), ("velocity", "yellow"), ("position", "yellow")])
def test_a_signal_that_never_changes_though_the_joint_moves(name, level):
    still, moving = np.full(100, 3.5), np.ones(100, dtype=bool)
    assert told(check_stuck(signal(still, name), moving)) == [("stuck", level)]
    moving[10:] = False
    assert told(check_stuck(signal(still, name), moving)) == [("stuck", level)]
    moving[9:] = False
    assert check_stuck(signal(still, name), moving) == [], "it hardly moves"


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
    assert told(check_stuck(signal(x, "position", "rad"), np.ones(5000, dtype=bool))) == [("stuck", v) for v in found]


@pytest.mark.parametrize(("levels", "name", "found"), [
    (150, "position", True), (250, "position", False), (150, "effort", False), (30, "effort", True),
    (30, "velocity", True),
])  # fmt: skip
def test_coarse_steps(levels, name, found):
    x = wave()
    step = np.ptp(x) / levels
    values = np.round(x / step) * step
    problems = check_quantised(signal(values, name), np.ones(len(x), dtype=bool))
    assert told(problems) == ([("quantised", "yellow")] if found else [])
    if found:
        assert f"only {len(np.unique(values))} distinct values, about {step:.2g}" in problems[0].what
    assert check_quantised(signal(values, name), np.arange(len(x)) < 49) == [], "too little motion to tell"
    assert check_quantised(signal(values[:99], name), np.ones(99, dtype=bool)) == []


@pytest.mark.parametrize(("repeat", "found"), [(2, False), (4, True)])
def test_values_that_repeat(repeat, found):
    """Each value of a fine signal twice: half of the steps are zero; four times: three quarters are."""
    x = np.repeat(wave(), repeat)[:5000]
    moving = np.ones(5000, dtype=bool)
    assert told(check_quantised(signal(x, "position"), moving)) == ([("quantised", "yellow")] if found else [])
    assert check_quantised(signal(x, "effort"), moving) == [], "an effort may be refreshed when it likes"
    still = np.concatenate((wave(2500), np.full(2500, 1.0)))
    assert check_quantised(signal(still, "position"), np.arange(5000) < 2500) == [], "at rest it repeats rightly"


@pytest.mark.parametrize(("clip", "limit", "found"), [
    (6.0, 6.0, ("saturation", "red")), (9.6, 9.6, ("saturation", "yellow")), (6.0, 9.0, ("saturation", "yellow")),
    (99.0, 11.0, None), (99.0, np.inf, None), (99.0, 0.0, None), (99.0, 3.4, None),
    (99.0, 3.0, ("effort_unit", "yellow")),
])  # fmt: skip
@pytest.mark.parametrize("sign", [1, -1])
def test_values_at_their_limit(clip, limit, found, sign):
    """Of a signal of up to 10; a limit far from where it is clipped is not the cause, but clipped it is."""
    x = wave()
    x *= 10.0 / np.abs(x).max()
    values = sign * np.clip(x, -clip, clip)
    assert told(check_saturated(signal(values), limit)) == ([found] if found else [])
    if found and found[0] == "effort_unit":
        assert check_saturated(signal(values, "velocity"), limit) == [], "only efforts have units of all kinds"
    assert check_saturated(signal(np.zeros(50)), 5.0) == [] and check_saturated(signal([np.nan] * 5), 5.0) == []


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
    assert told(check_coverage(signal(x, "position", "rad"), joint)) == ([found] if found else [])
    if not np.isfinite(limits[0]):
        assert told(check_coverage(signal(x, "position", "rad"), None)) == ([found] if found else [])


def test_a_sliding_joint_has_limits_of_its_own():
    joint = Joint("elbow", 0, sigma=PRISMATIC, limits=Limits(-0.5, 0.5))
    for high, found in ((0.0015, "red"), (0.015, "yellow"), (0.06, None)):
        x = np.linspace(0.0, high, 100)
        assert told(check_coverage(signal(x, "position", "m"), joint)) == ([("coverage", found)] if found else [])
    far = np.linspace(0.0, 70.0, 100)
    assert told(check_coverage(signal(far, "position", "m"), joint)) == [("limits", "yellow")], "metres are no degrees"


@pytest.mark.parametrize(("factor", "found"), [
    (1.0, False), (0.75, False), (1.35, False), (0.65, True), (1.45, True), (57.3, True), (-1.0, True),
])  # fmt: skip
def test_velocities_against_the_positions(factor, found):
    true = wave(500)
    problems = check_velocity(signal(factor * true, "velocity", "rad/s"), true)
    assert told(problems) == ([("velocity_unit", "yellow")] if found else [])
    if found:
        assert f"{factor:.3g} times" in problems[0].what
    assert check_velocity(signal(factor * true[:99], "velocity"), true[:99]) == [], "too short to tell"
    noise = np.random.default_rng(0).normal(size=500) * 100
    assert check_velocity(signal(noise, "velocity"), true) == [], "what has nothing to do with it has no factor"


# --- stamps


def kinds(t):
    return [(p.kind, p.level) for p in check_timing(np.asarray(t, dtype=float)).problems]


def test_stamps_in_figures():
    t = np.delete(np.arange(5000) / RATE, [1000, 2000, 2001, 2002])
    found = check_timing(t)
    assert found.rate == pytest.approx(RATE) and found.duration == pytest.approx(9.998)
    assert found.jitter == pytest.approx(0.0, abs=1e-9)
    assert [(g.missing, round(g.start, 3), round(g.duration, 3)) for g in found.gaps] == [
        (1, 1.998, 0.004),
        (3, 3.998, 0.008),
    ]
    assert (found.gap_count, found.missing) == (2, 4) and kinds(t) == [("gap", "yellow")]
    assert kinds(np.delete(np.arange(5000) / RATE, slice(1000, 1300))) == [("gap", "red")]
    assert kinds(np.delete(np.arange(5000) / RATE, slice(1000, 1200))) == [("gap", "yellow")], "4 % are missing"


def test_of_many_gaps_the_first_are_listed_and_all_are_counted():
    t = np.delete(np.arange(6000) / RATE, np.arange(2, 6000, 4))
    found = check_timing(t)
    assert len(found.gaps) == 1000 and found.gap_count == found.missing == 1500
    assert found.gaps[-1].start == pytest.approx((4 * 999 + 1) / RATE)


@pytest.mark.parametrize(("share", "found"), [(0.25, []), (0.35, [("jitter", "yellow")])])
def test_jitter(share, found):
    """Stamps off by up to a share of the period, evenly: periods scatter by sqrt(2/3) of it."""
    t = (np.arange(20000) + np.random.default_rng(0).uniform(-share, share, 20000)) / RATE
    timing = check_timing(t)
    assert timing.jitter == pytest.approx(np.sqrt(2 / 3) * share / RATE, rel=0.02)
    assert [(p.kind, p.level) for p in timing.problems] == found


def test_order_rate_length_and_unknown_times():
    t = np.arange(5000) / RATE
    assert kinds(t) == []
    repeated = t.copy()
    repeated[1:1000] = repeated[0]
    assert ("repeat", "yellow") in kinds(repeated)
    repeated[1:1100] = repeated[0]
    assert ("repeat", "red") in kinds(repeated)
    back = t.copy()
    back[[700, 701]] = back[[701, 700]]
    assert ("backward", "yellow") in kinds(back)
    reset = t.copy()
    reset[2500:] -= 4.0
    assert ("backward", "red") in kinds(reset) and ("backward", "yellow") not in kinds(reset)
    assert kinds(np.arange(500) / 51.0) == [] and kinds(np.arange(500) / 49.0) == [("rate", "yellow")]
    assert kinds(np.arange(1002) / RATE) == [] and kinds(np.arange(998) / RATE) == [("short", "yellow")]
    unknown = t.copy()
    unknown[-3:] = np.nan
    assert kinds(unknown) == [("nan", "yellow")] and check_timing(unknown).duration == pytest.approx(t[-4])
    for nothing in ([], [1.0], [1.0, 1.0, 1.0], [3.0, 2.0]):
        assert ("short", "red") in kinds(nothing)
