"""Efforts that were recorded late by more than the delay's column of W can express: they are moved, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.information import Inform, Information
from ros2_dynid.identification.estimators.least_squares import (
    joint_errors,
    joint_torques,
    own_errors,
    solve,
    weighted_triangle,
)
from ros2_dynid.identification.preparation.effort_delay import effort_later
from ros2_dynid.identification.preparation.elsewhere import changed_now
from ros2_dynid.identification.preparation.prepared import Prepared

FIRST_ORDER = 0.05
"""A delay of more than this many radians of the motion's fastest oscillation is too large for a first-order column."""
LARGEST = 0.25
"""A larger delay [s] is none: something else is wrong with the efforts."""
STEPS = 4


def without_large_delay(
    prepared: Sequence[Prepared], information: Information, inform: Inform
) -> tuple[list[Prepared], Information]:
    """Return the recordings with their efforts moved by a delay that is too large for its column, and the information.

    Each step must make the error smaller.
    """
    found = list(prepared)
    if not information.layout.n_delay or any(p.known is None for p in found):
        return found, information
    fastest = max(float(np.median(p.known.spectrum.motion)) for p in found if p.known is not None)
    limit = FIRST_ORDER / (2.0 * np.pi * max(fastest, 0.1))
    delay, error = _delay_and_error(information)
    for _ in range(STEPS):
        total = found[0].filter.delay + delay
        if abs(delay) < max(limit, 1.0 / found[0].filter.inner_rate) or abs(total) > LARGEST:
            break
        try:
            moved = changed_now(partial(effort_later, delay=delay), found)
        except InputError:
            break
        new = inform(moved)
        new_delay, new_error = _delay_and_error(new)
        if new_error >= error:
            break
        found, information, delay, error = moved, new, new_delay, new_error
    return found, information


def _delay_and_error(information: Information) -> tuple[float, float]:
    """Return the delay that is left [s], and the relative error, the mean of the joints."""
    weights = 1.0 / own_errors(information)
    value = solve(weighted_triangle(information, weights).R).value
    error = float(np.mean(joint_errors(information, value) / np.maximum(joint_torques(information), 1e-300)))
    return float(value[information.layout.delay].sum()), error
