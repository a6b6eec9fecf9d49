"""Noise in bursts: a loose plug, a bus that stalls. Short stretches in which the effort is all noise are interpolated.

Fourth differences of the effort show noise and hardly any motion: of white noise they are 8.4 times as large, of a
motion at f [Hz] sampled at r [Hz] they are (2 pi f / r)^4 times as large. They are looked at block by block; the median
of a block does not see a single jump, such as that of dry friction where a joint turns back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.robot import Array

ORDER = 4
BLOCK = 12
"""Samples looked at together; a jump changes ORDER + 1 differences, fewer than half of a block."""
USUAL, TIMES = 0.9, 6.0
"""A burst is this many times as noisy as this share of the recording: most of it may stand still without a sound."""
MATTERS = 0.3
"""Differences that are smaller than this share of the joint's torque do no harm: noise of 4 % of it."""
MOST = 0.05
"""Where more of a recording than this is noisy, that is how it is, and not a burst."""


def bursts(tau: Array) -> NDArray[np.bool_]:
    """Return, shape (N, n), where the effort of a joint, tau (N, n), is much noisier than elsewhere."""
    N, n = tau.shape
    found = np.zeros((N, n), dtype=bool)
    count = (N - ORDER) // BLOCK
    if count < 1 / MOST:
        return found
    jagged = np.abs(np.diff(tau, ORDER, axis=0))[: count * BLOCK].reshape(count, BLOCK, n)
    level = jagged.mean(axis=1)
    limit = np.maximum(TIMES * np.quantile(level, USUAL, axis=0), MATTERS * np.std(tau, axis=0))
    blocks, joints = np.nonzero(level > limit)
    noisy = np.median(jagged[blocks, :, joints], axis=1) > limit[joints]
    share = np.bincount(joints[noisy], minlength=n) / count
    for block, joint in zip(blocks[noisy], joints[noisy], strict=True):
        if share[joint] <= MOST:  # it begins and ends within the blocks beside this one
            found[max((block - 1) * BLOCK, 0) : (block + 2) * BLOCK + ORDER, joint] = True
    return found


def smoothed_over(t: Array, tau: Array, noisy: NDArray[np.bool_]) -> Array:
    """Return the efforts at t (N,) with those that are `noisy` (N, n) interpolated."""
    filled = tau.copy()
    for j in np.flatnonzero(noisy.any(axis=0)):
        bad = noisy[:, j]
        filled[bad, j] = np.interp(t[bad], t[~bad], tau[~bad, j])
    return filled
