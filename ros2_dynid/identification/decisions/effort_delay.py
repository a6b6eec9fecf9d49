# SPDX-License-Identifier: Apache-2.0

"""Efforts that were recorded late by more than the delay's column of W can express: they are shifted, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import Prepared, shift_effort
from ros2_dynid.identification.regression.build_information import BuildInformation
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, solve_by_own_errors


@dataclass(frozen=True)
class EffortDelayThresholds:
    """When efforts are shifted.

    first_order: phase [rad] of the motion's fastest oscillation up to which a column of first order expresses a delay:
    it misses 0.1 % of the torque there. largest: delay [s] above which something else is wrong with the efforts; no
    driver is later. slowest_motion: the motion counts as at least this fast [Hz]. steps: shifts at most.
    """

    first_order: float = 0.05
    largest: float = 0.25
    slowest_motion: float = 0.1
    steps: int = 4


@dataclass(frozen=True)
class EffortDelayDecision:
    """Delay that is left [s] and mean relative error of the joints, before each shift and after the last one."""

    delays: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()


def shift_late_efforts(
    prepared: Sequence[Prepared],
    information: Information,
    build: BuildInformation,
    thresholds: EffortDelayThresholds | None = None,
) -> tuple[tuple[Prepared, ...], Information, EffortDelayDecision]:
    """Return the recordings with their efforts shifted by a delay that is too large for its column, their information
    and the evidence. Each shift must make the error smaller."""
    limits, recordings = thresholds or EffortDelayThresholds(), tuple(prepared)
    if not information.layout.n_delay or any(p.spectrum is None for p in recordings):
        return recordings, information, EffortDelayDecision()
    fastest = max(float(np.median(p.spectrum.motion)) for p in recordings if p.spectrum is not None)
    expressed = limits.first_order / (2.0 * np.pi * max(fastest, limits.slowest_motion))
    evidence = [_delay_and_error(information)]
    for _ in range(limits.steps):
        delay, error = evidence[-1]
        total = recordings[0].filter.delay + delay
        if abs(delay) < max(expressed, 1.0 / recordings[0].filter.inner_rate) or abs(total) > limits.largest:
            break
        try:
            shifted = tuple(shift_effort(p, delay) for p in recordings)
        except InputError:
            break
        after = build(shifted)
        if _delay_and_error(after)[1] >= error:
            break
        recordings, information = shifted, after
        evidence.append(_delay_and_error(information))
    delays, errors = zip(*evidence, strict=True)
    return recordings, information, EffortDelayDecision(delays, errors)


def _delay_and_error(information: Information) -> tuple[float, float]:
    """Return the delay that is left [s], and the relative error, the mean of the joints."""
    value = solve_by_own_errors(information)
    error = float(np.mean(joint_errors(information, value) / np.maximum(joint_torques(information), 1e-300)))
    return float(value[information.layout.delay].sum()), error
