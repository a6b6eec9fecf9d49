"""The step of an encoder, from the positions alone."""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.robot import Array

ROUNDING = 1e-9
"""Steps smaller than this share of the largest are rounding of floating-point numbers."""
OFF, MOST = 0.02, 0.99
"""Positions are quantised if a share MOST of their steps are whole multiples, but for OFF, of the smallest step."""
LOOKED_AT = 20_000
"""Samples looked at."""


def quantum_of(q: Array) -> Array:
    """Return the step that positions q (N, n) are quantised to, shape (n,) [rad or m], 0 where they are not."""
    change = np.abs(np.diff(q[:LOOKED_AT], axis=0))
    found = np.zeros(q.shape[1])
    for j, steps in enumerate(change.T):
        steps = steps[steps > ROUNDING * np.max(steps, initial=0.0)]
        if len(steps) < 2:
            continue
        smallest = float(steps.min())
        turns = steps / smallest
        if np.mean(np.abs(turns - np.round(turns)) < OFF) >= MOST:
            found[j] = smallest
    return found
