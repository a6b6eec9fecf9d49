# SPDX-License-Identifier: Apache-2.0

"""Each limit of the checks from both sides, with evidence that differs in nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits
from ros2_dynid.recording import save
from ros2_dynid.recording.checks import check_samples
from ros2_dynid.recording.checks.signal_checks import (
    Signal,
    check_coverage,
    check_quantised,
    check_saturated,
    check_stuck,
    check_velocity,
)
from ros2_dynid.recording.checks.timing import check_timing
from ros2_dynid.recording.live import StampClock
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples


def signal(values, name="effort", rate=500.0):
    values = np.asarray(values, dtype=float)
    return Signal("elbow", name, "N.m", np.arange(len(values)) / rate, values)


def found(problems):
    return [(p.kind, p.level) for p in problems]


def ramp(count):
    """Steps of one, up and down, without a constant stretch."""
    return np.cumsum(np.where(np.arange(count) // 100 % 2, -1.0, 1.0))


# --- frozen


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


# --- coarse


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


@pytest.mark.parametrize(("slow", "told"), [(0.15, True), (0.05, False)])
def test_a_joint_moves_above_a_tenth_of_its_largest_speed(slow, told):
    """Quick and fine for a while, then slow, with positions that are refreshed at every tenth sample."""
    t = np.arange(6000) / 500.0
    quick = t < 2.0
    q = np.where(quick, np.sin(5 * t), np.sin(10.0) + 5 * slow * 0.1 * np.sin((t - 2.0) / 0.1))
    q[~quick] = np.repeat(q[~quick][::10], 10)
    check = check_samples(Samples(t, ("a",), q[:, None], tau=t[:, None] % 0.37))
    assert any(p.kind == "quantised" and "repeats its value" in p.what for p in check.problems) == told


# --- at the limit


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


# --- positions and velocities


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


# --- stamps


@pytest.mark.parametrize(("swaps", "level"), [(190, "yellow"), (210, "red")])
def test_how_many_stamps_step_back(swaps, level):
    t = np.arange(1001) / 100.0
    at = 1 + 4 * np.arange(swaps)
    t[at], t[at + 1] = t[at + 1], t[at].copy()
    (problem,) = [p for p in check_timing(t).problems if p.kind == "backward"]
    assert problem.level == level and problem.what == f"{swaps} stamps step back, by up to 10 ms"


def test_late_stamps_and_a_clock_that_was_set_are_told_apart():
    t = np.arange(1000) / 100.0
    t[300] -= 0.5
    t[600:] -= 3.0
    told = {p.what: p.level for p in check_timing(t).problems if p.kind == "backward"}
    assert told == {
        "1 stamps step back, by up to 490 ms": "yellow",
        "the clock was set back 1 times, by up to 2.99 s": "red",
    }


def test_the_words_of_gaps_jitter_and_rate():
    t = np.delete(np.arange(1000) / 40.0, [100, 500, 501])
    told = {p.kind: p.what for p in check_timing(t).problems}
    assert told == {
        "gap": "2 gaps, about 3 samples (0.3 %) are missing, longest gap 0.075 s",
        "rate": "40 samples per second are too few",
    }
    (short,) = check_timing(np.arange(100) / 100.0).problems
    assert short.what == "the recording lasts only 0.99 s"
    even = np.arange(400) / 100.0
    even[1::2] += 0.004
    (jitter,) = check_timing(even).problems
    assert jitter.kind == "jitter" and jitter.what == "the period of 14 ms varies by 4 ms"


@pytest.mark.parametrize(("lost", "level"), [(49, "yellow"), (51, "red")])
def test_the_share_that_is_missing_is_of_what_should_be_there(lost, level):
    t = np.delete(np.arange(1000) / 100.0, slice(300, 300 + lost))
    (problem,) = check_timing(t).problems
    assert (problem.kind, problem.level) == ("gap", level) and f"{lost} samples ({lost / 10:.2g} %)" in problem.what


@pytest.mark.parametrize(("step", "gap"), [(2.9, False), (3.5, True)])
def test_of_uneven_stamps_a_gap_is_longer(step, gap):
    """Periods evenly from half to one and a half: their spread is 1.4826 quarters, and six of them beyond is a gap."""
    steps = np.random.default_rng(0).permutation(np.linspace(0.5, 1.5, 401))
    steps[200] = step
    found = check_timing(0.01 * np.cumsum(steps))
    assert found.gap_count == int(gap)


def test_stamps_without_a_usual_period_have_no_jitter():
    assert check_timing(np.array([0.0, 1.0, 11.0])).jitter == 0.0, "neither step is near the median"


def test_samples_are_checked_as_they_were_recorded():
    t = np.arange(1000) / 100.0
    t[300], t[301], t[500] = t[301], t[300].copy(), t[499]
    t[700] = np.nan
    q = np.sin(np.arange(1000) / 50.0)[:, None]
    check = check_samples(Samples(t, ("a",), q, dq=q, tau=q))
    assert check.samples == 1000 and {"backward", "repeat", "nan"} <= {p.kind for p in check.problems}


# --- clocks of others


def test_how_fast_another_clock_may_drift():
    """Half a millisecond a second: what goes with it is followed, what is faster is taken for delay."""
    for drift, followed in ((4.5e-4, True), (6e-4, False)):
        clock = StampClock()
        for k in range(1001):
            now = 10.0 + k * (1.0 + drift)
            made = clock.time_of(10**9 + k * 10**9, now)
        assert (abs(made - now) < 1e-6) == followed
        assert followed or made == pytest.approx(now - 0.1, abs=0.01)


# --- saving


def plain(t, start_ns=0):
    t = np.asarray(t, float)
    return Samples(t, ("a",), t[:, None], start_ns=start_ns)


def test_times_that_a_bag_can_hold(tmp_path):
    for k, (t, words) in enumerate((
        ([0.0, 1.0], None), ([-1.0, 1.0], "before 1970"), ([0.0, 9.1e9], "not a number of seconds"),
        ([0.0, -9.1e9], "not a number of seconds"), ([0.0, np.inf], "not a number of seconds"),
        ([0.0, 8.9e9], "1901 to 2038"),
    )):  # fmt: skip
        if words is None:
            assert save_samples(plain(t), tmp_path / str(k)) == []
            continue
        with pytest.raises(InputError, match=words):
            save_samples(plain(t), tmp_path / str(k))
        assert not (tmp_path / str(k)).exists()
    assert save_samples(plain([-1.0, 1.0], start_ns=2 * 10**9), tmp_path / "later") == []


def test_an_old_bag_stays_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    save_samples(plain([0.0, 1.0]), tmp_path / "bag")
    before = {path.name: path.read_bytes() for path in (tmp_path / "bag").iterdir()}
    rename = save.Path.rename
    for name in ("bag", "new"):

        def busy(path, target, place=tmp_path / name):
            if target == place and path.name == "bag" and path.parent != tmp_path:
                raise OSError("busy")
            return rename(path, target)

        monkeypatch.setattr(save.Path, "rename", busy)
        with pytest.raises(OSError, match="busy"):
            save_samples(plain([5.0]), tmp_path / name, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["bag"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "bag").iterdir()} == before
