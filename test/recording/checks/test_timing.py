# SPDX-License-Identifier: Apache-2.0

"""Checks of the stamps: rate, jitter, gaps, repeats and steps back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ros2_dynid.recording.checks.timing import check_timing


def found(problems):
    return [(p.kind, p.level) for p in problems]


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


def plain_timing(t):
    """Return rate, jitter, duration and gaps by going through the stamps one by one."""
    steps = [b - a for a, b in pairwise(t)]
    forward = sorted(s for s in steps if s > 0)
    period = float(np.median(forward))
    spread = 1.4826 * float(np.median([abs(s - period) for s in forward]))
    usual = [s for s in forward if abs(s - period) < 0.75 * period]
    limit = max(1.75 * period, period + 6 * spread)
    gaps = [(t[k], s, max(round(s / period) - 1, 1)) for k, s in enumerate(steps) if s > limit]
    return 1 / period, float(np.std(usual)), max(t) - min(t), gaps


@pytest.mark.parametrize("seed", range(6))
def test_timing_is_that_of_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    steps = 0.01 + 0.002 * seed * rng.uniform(-1.0, 1.0, 400)
    steps[rng.integers(0, 400, 6)] *= rng.uniform(1.5, 30.0, 6)
    steps[rng.integers(0, 400, 3)] = 0.0
    steps[rng.integers(0, 400, 3)] *= -1.0
    t = 3.0 + np.cumsum(steps)
    rate, jitter, duration, gaps = plain_timing(t.tolist())
    found = check_timing(np.insert(t, 7, np.nan))
    assert found.rate == pytest.approx(rate) and found.jitter == pytest.approx(jitter)
    assert found.duration == pytest.approx(duration) and found.gap_count == len(gaps) == len(found.gaps)
    assert found.missing == sum(m for _, _, m in gaps)
    for gap, (start, length, missing) in zip(found.gaps, gaps, strict=True):
        assert (gap.start, gap.duration, gap.missing) == (start, pytest.approx(length), missing)
    kinds = [p.kind for p in found.problems]
    assert "nan" in kinds and "repeat" in kinds and "backward" in kinds and ("gap" in kinds) == bool(gaps)
    assert ("jitter" in kinds) == (jitter > 0.25 / rate)


RATE = 500.0


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
