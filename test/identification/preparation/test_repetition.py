# SPDX-License-Identifier: Apache-2.0

"""Recordings with the motion of another are found, and the stretches that they share are left out together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.repetition import (
    Repetition,
    find_motion_period,
    find_repetitions,
    leave_out_copies,
    measure_motion_period,
)
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import block_folds
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)


def recording(start=0.0, seconds=20.0, *, motion=0, rate=100.0, noise=1e-3, clock=0.0, period=None):
    """Return seconds of a motion from its time `start` on, with noise of its own; its clock begins at `clock`."""
    t = np.arange(0.0, seconds, 1.0 / rate)
    phase = np.random.default_rng(motion).uniform(0.0, 6.0, (3, 4))
    w = np.array([0.31, 0.83, 1.21, 1.97]) if period is None else 2.0 * np.pi / period * np.arange(1, 5)
    q = sum(np.sin(w[k] * (t + start)[:, None] + phase[:, k]) for k in range(4))
    rng = np.random.default_rng([motion, int(1e3 * start), int(rate), int(1e3 * clock)])
    tau = q + rng.normal(size=q.shape)
    return as_prepared(ROBOT, q + noise * rng.normal(size=q.shape), q, q, tau, t + clock, source=f"motion{motion}")


def test_the_same_motion_is_found_in_another_recording():
    parts = [recording(2.0, 15.0, clock=100.0), recording(), recording(motion=1), recording(3.0, 12.0, rate=160.0)]
    first, longest, other, last = find_repetitions(parts)
    assert longest == Repetition(1) and other is None
    assert (first.motion, last.motion) == (1, 1)
    assert first.offset == pytest.approx(2.0 - 100.0, abs=0.02) and last.offset == pytest.approx(3.0, abs=0.02)
    assert find_repetitions(parts[:1]) == (None,)
    assert find_repetitions([recording(), recording(noise=0.2, clock=1.0)]) == (None, None), "a fifth is another motion"
    assert find_repetitions([recording(), recording(15.0)]) == (None, None), "a quarter of it is shared"


def test_a_part_of_a_periodic_motion_has_its_phase():
    whole, part = find_repetitions([recording(seconds=24.0, period=6.0), recording(1.5, 5.0, period=6.0)])
    assert whole.period == part.period == pytest.approx(6.0, rel=1e-3)
    assert part.motion_time(5.0) == pytest.approx(0.5, abs=0.05)


def test_folds_leave_a_shared_motion_out_of_all_its_recordings():
    parts = [recording(), recording(motion=1), recording(0.5, clock=7.0)]
    information = build_information(ROBOT, BASE, parts, delay=False)
    folds = block_folds(information, 5)
    assert sorted(k for fold in folds for k in fold) == list(range(90))
    of = {k: f for f, fold in enumerate(folds) for k in fold}
    middle = {k: (b.start + b.end) / 2 for k, b in enumerate(information.blocks)}
    shared = [(a, b) for a in range(30) for b in range(60, 90) if abs(middle[a] - (middle[b] - 7.0 + 0.5)) < 0.34]
    together = [of[a] == of[b] for a, b in shared]
    assert len(shared) > 28 and together.count(False) <= 4, "all but one at each edge of a fold"
    apart = block_folds(build_information(ROBOT, BASE, parts[:2], delay=False), 5)
    assert [k for fold in apart for k in fold] == list(range(60)), "motions of their own stay in the order of time"


def test_data_given_twice_count_once():
    one, two = recording(), recording(clock=3.0)
    kept = leave_out_copies([one, two, replace(one, source="again")])
    assert [len(part.t) for part in kept] == [2000, 2000] and not kept[1].notes
    assert "again and motion0 hold the same data" in kept[0].notes[-1].text


@pytest.mark.parametrize(("period", "found"), [(0.9, 1.8), (1.1, 1.1), (3.3, 3.3)])
def test_the_shortest_period_is_a_second_and_the_first_that_fits_is_taken(period, found):
    t = np.arange(0.0, 20.0, 0.02)
    q = np.column_stack(
        [np.sin(2.0 * np.pi * k * t / period + k) + 0.3 * np.cos(2.0 * np.pi * t / period) for k in (1, 2)]
    )
    assert measure_motion_period(q, 50.0) == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(("noise", "repeats"), [(0.0085, True), (0.024, False)])
def test_a_motion_repeats_where_the_difference_is_below_a_fiftieth(noise, repeats):
    """Of white noise of this share the difference after a period is its root of 2 over that of both: the share."""
    t = np.arange(0.0, 24.0, 0.02)
    q = np.column_stack([np.sin(2.0 * np.pi * k * t / 4.0 + k) for k in (1, 2, 3)])
    noisy = q + noise * q.std(axis=0) * np.random.default_rng(0).normal(size=q.shape)
    assert (measure_motion_period(noisy, 50.0) is not None) == repeats


def test_the_longest_segment_is_looked_at_and_at_fifty_hertz():
    rate = 200.0
    t = np.arange(0.0, 60.0, 1.0 / rate)
    q = np.column_stack([np.sin(2.0 * np.pi * k * t / 5.0 + k) for k in (1, 2, 3)])
    q[:4000] = np.cumsum(np.random.default_rng(0).normal(size=(4000, 3)), axis=0)
    p = as_prepared(ROBOT, q, q, q, q, t)
    assert find_motion_period(replace(p, segments=(slice(0, 4000), slice(4000, 12_000)))) == pytest.approx(
        5.0, rel=1e-4
    )
    assert find_motion_period(replace(p, segments=(slice(0, 4000), slice(4000, 6000)))) is None
    assert find_motion_period(replace(p, q=p.q[:0])) is None


@pytest.mark.parametrize("periods", [1.7, 2.3, 5.4, 17.2])
def test_the_period_of_a_motion(periods):
    t = np.arange(int(periods * 3.217 * 50.0)) / 50.0
    w = 2.0 * np.pi / 3.217
    q = np.column_stack((np.sin(w * t) + 0.3 * np.cos(3 * w * t), 20.0 * np.cos(2 * w * t + 1.0) + 5.0 * np.sin(w * t)))
    found = measure_motion_period(q, 50.0)
    if periods < 1.8:
        assert found is None
    else:
        assert found == pytest.approx(3.217, rel=1e-4 if periods < 5.0 else 2e-5 if periods < 17.0 else 5e-6)
    spoiled = q + np.random.default_rng(0).normal(size=q.shape) * 0.03 * q.std(axis=0)
    assert measure_motion_period(spoiled, 50.0) is None, "4 % are not the same"
