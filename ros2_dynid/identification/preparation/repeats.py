"""Samples that repeat the one before: a driver that publishes faster than it reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.robot import Array

MOST = 20
"""A run of more equal samples is a standstill: no driver publishes so much faster than it reads."""
STEP, SMALL = 1.5, 0.1
"""A signal that goes on by more than STEP times its small steps, a share SMALL of all its steps, did move before."""
FEW = 0.005
"""A smaller share of repeated samples does no harm."""


def repeated(x: Array) -> NDArray[np.bool_]:
    """Return, shape (N,), where all joints of x (N, n) have the value of the sample before although they move.

    A joint that moves slowly also keeps its value for a while, but then goes on by one step of its encoder; a
    sample that was read late goes on by all that was missed.
    """
    same = np.zeros(len(x), dtype=bool)
    change = np.abs(np.diff(x, axis=0))
    same[1:] = ~change.any(axis=1)
    if not same.any():
        return same
    small = np.array([_small_step(column) for column in change.T])
    fresh = np.flatnonzero(~same)  # the first sample is one
    run = np.cumsum(~same) - 1
    following = np.append(fresh[1:], -1)
    length = np.diff(np.append(fresh, len(x))) - 1
    moved = np.zeros(len(fresh), dtype=bool)
    moved[:-1] = (np.abs(x[following[:-1]] - x[fresh[:-1]]) > STEP * small).any(axis=1)
    # the last run has no next sample: it counts like the others if they are many
    moved[-1] = bool(np.any(moved[:-1] & (length[:-1] > 0)))
    found = np.asarray(same & (moved & (length <= MOST))[run])
    return found if np.mean(found) > FEW else np.zeros(len(x), dtype=bool)


def _small_step(change: Array) -> float:
    """Return the small steps of a signal from the magnitudes of all its steps; those of rounding do not count."""
    steps = change[change > 1e-9 * np.max(change)]
    return float(np.quantile(steps, SMALL)) if len(steps) else np.inf
