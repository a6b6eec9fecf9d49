# SPDX-License-Identifier: Apache-2.0

"""Efforts recorded late: shifted step by step while the error falls, at either side of every threshold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.decisions.effort_delay import EffortDelayThresholds, shift_late_efforts
from ros2_dynid.identification.preparation.cutoffs import Spectrum
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import own_errors, solve, weighted_triangle
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
RATE = 100.0


def build(prepared):
    return build_information(ROBOT, BASE, prepared, delay=True)


@cache
def late(seconds, motion=(0.4, 1.3, 9.0)):
    """Return a recording whose efforts are late by whole samples, and whose joints move at these frequencies [Hz]."""
    q, dq, ddq = slow_motion(2, 3000, RATE, (0.5, 8.0), 4)
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    prepared = as_prepared(ROBOT, q, dq, ddq, np.roll(tau, round(seconds * RATE), axis=0), np.arange(3000) / RATE)
    kernels = [lowpass_kernel(4.0, RATE, k) for k in (0, 1)]
    return replace(
        prepared,
        kernel=kernels[0],
        slope_kernel=kernels[1],
        segments=(slice(100, 2900),),
        spectrum=Spectrum(np.zeros(3), np.array(motion), np.full(3, 10.0), RATE),
        step=5,
        filter=replace(prepared.filter, row_cutoff=4.0),
    )


def delay_and_error(information):
    """Return the delay of a fit in which joints count by their own errors, and the mean of their relative errors."""
    value = solve(weighted_triangle(information, 1.0 / own_errors(information)).R).value
    shares = []
    for j, columns in enumerate(information.columns):
        R = information.triangle(j)
        shares.append(np.linalg.norm(R[:, -1] - R[:, :-1] @ value[columns]) / np.linalg.norm(R[:, -1]))
    return value[len(BASE)], np.mean(shares)


@pytest.mark.parametrize("seconds", [0.0, 0.05, -0.08, 0.11])
def test_a_large_delay_is_taken_off_step_by_step(seconds):
    prepared = late(seconds)
    (shifted,), information, decision = shift_late_efforts([prepared], build([prepared]), build)
    assert shifted.filter.delay == pytest.approx(seconds, abs=0.0101)
    left, error = delay_and_error(information)
    assert shifted.filter.delay + left == pytest.approx(seconds, abs=2e-3) and error < 0.05
    first = delay_and_error(build([prepared]))
    assert (decision.delays[0], decision.errors[0]) == pytest.approx(first, rel=1e-6)
    assert (decision.delays[-1], decision.errors[-1]) == pytest.approx((left, error), rel=1e-6)
    assert list(decision.errors) == sorted(decision.errors, reverse=True) and (len(decision.errors) > 1) == bool(
        seconds
    )
    later = np.interp(shifted.t + shifted.filter.delay, prepared.t, prepared.tau[:, 1])
    np.testing.assert_allclose(shifted.tau[:, 1], later, atol=1e-9)


def test_nothing_is_shifted_where_the_delay_is_not_estimated_or_the_motion_not_known():
    prepared = late(0.05)
    bare = build_information(ROBOT, BASE, [prepared], delay=False)
    unknown = replace(prepared, spectrum=None)
    for parts, information in (
        ([prepared], bare),
        ([unknown], build([unknown])),
        ([prepared, unknown], build([prepared, unknown])),
    ):
        shifted, same, decision = shift_late_efforts(parts, information, build)
        assert shifted == tuple(parts) and same is information and decision.delays == decision.errors == ()


@pytest.mark.parametrize("seconds", [0.05, -0.05])
def test_a_delay_that_its_column_expresses_is_left_to_it(seconds):
    """0.05 rad of 1.3 Hz, the median of the joints, are 6.1 ms, and never less than a sample."""
    prepared = late(seconds)
    information = build([prepared])
    size = abs(delay_and_error(information)[0])
    for factor, moved in ((1.01, False), (0.99, True)):
        phase = EffortDelayThresholds(first_order=factor * size * 2.0 * np.pi * 1.3)
        assert (shift_late_efforts([prepared], information, build, phase)[0][0] is not prepared) == moved
        slow = late(seconds, (0.0, 0.0, 0.0))
        least = EffortDelayThresholds(first_order=0.05, slowest_motion=0.05 / (factor * size * 2.0 * np.pi))
        assert (shift_late_efforts([slow], information, build, least)[0][0] is not slow) == moved
        rate = replace(prepared, filter=replace(prepared.filter, inner_rate=1.0 / (factor * size)))
        assert (len(shift_late_efforts([rate], information, build)[2].delays) > 1) == moved, "less than a sample"
    fast = late(seconds, (0.1, 5.0, 9.0))
    slow = late(seconds, (0.1, 0.2, 9.0))
    limit = EffortDelayThresholds(first_order=size * 2.0 * np.pi)  # of 1 Hz
    assert shift_late_efforts([slow], information, build, limit)[0][0] is slow
    for pair in ((slow, fast), (fast, slow)):
        assert shift_late_efforts(pair, build(pair), build, limit)[0][0] is not pair[0], "the fastest counts"


@pytest.mark.parametrize("before", [0.0, 0.2, -0.2])
def test_a_delay_that_no_driver_has_is_something_else(before):
    prepared = late(0.05)
    prepared = replace(prepared, filter=replace(prepared.filter, delay=before))
    information = build([prepared])
    total = abs(before + delay_and_error(information)[0])
    for factor, moved in ((1.01, True), (0.99, False)):
        limits = EffortDelayThresholds(largest=factor * total, steps=1)
        assert (shift_late_efforts([prepared], information, build, limits)[0][0] is not prepared) == moved
    assert EffortDelayThresholds().largest == 0.25


def test_as_many_shifts_as_make_the_error_smaller():
    prepared = late(0.11)
    information = build([prepared])
    whole = shift_late_efforts([prepared], information, build)[2]
    assert 2 < len(whole.delays) <= 5
    for steps in (0, 1, 2):
        limits = EffortDelayThresholds(steps=steps)
        assert shift_late_efforts([prepared], information, build, limits)[2].delays == whole.delays[: steps + 1]
    (same,), kept, decision = shift_late_efforts([prepared], information, lambda parts: information)
    assert same is prepared and kept is information and len(decision.errors) == 1, "no better is not good enough"
    short = replace(prepared, segments=(slice(100, 100 + len(prepared.kernel)),))
    assert shift_late_efforts([short], information, build)[0][0] is short, "too short to be shifted"
