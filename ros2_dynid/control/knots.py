# SPDX-License-Identifier: Apache-2.0

"""A trajectory by as few points as its curve needs: long messages take long to build and are lost on the way.

Controllers put a quintic between points with accelerations, some a cubic that leaves accelerations out. Segments are
halved until both agree with the curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.control.motion_limits import MotionLimits
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.model.robot import Array

POSITION = 1e-3
"""Largest distance of an interpolated position from the curve [rad or m]: below the tracking error of good drives."""
SHARE = 0.01
"""Largest deviation of velocity and acceleration by the quintic, as a share of the limits."""
CUBIC_SHARE = 0.1
"""The same by the cubic, whose acceleration is piecewise linear."""
INSIDE = np.linspace(0.0, 1.0, 9)
AT_REST = 1e-9

MotionFunction = Callable[[Array], tuple[Array, Array, Array]]


def reference_by_knots(
    joint_names: Sequence[str], curve: MotionFunction, duration: float, limits: MotionLimits, most_hz: float
) -> Reference:
    """Return points on the curve, t -> q, dq, ddq of shape (N, n), from 0 to `duration` [s], at most `most_hz` [Hz]."""
    segments = max(int(np.ceil(duration / 1.0)), 1)
    t = np.linspace(0.0, duration, segments + 1)
    while True:
        q, dq, ddq = curve(t)
        for end in (0, -1):  # a controller refuses a last velocity, if only of rounding
            dq[end][np.abs(dq[end]) < AT_REST] = 0.0
        points = reference(joint_names, t, q, dq, ddq)
        steps = np.diff(t)
        wrong = _deviating(points, reference(joint_names, t, q, dq), curve, limits) & (steps > 1.5 / most_hz)
        if not wrong.any():
            return points
        t = np.sort(np.concatenate((t, t[:-1][wrong] + 0.5 * steps[wrong])))


def _deviating(quintic: Reference, cubic: Reference, curve: MotionFunction, limits: MotionLimits) -> NDArray[np.bool_]:
    """Return which segments, shape (K - 1,), leave the curve by too much."""
    t = (quintic.t[:-1, None] + np.diff(quintic.t)[:, None] * INSIDE).ravel()
    true = curve(t)
    far = np.zeros(len(t), dtype=bool)
    for points, share in ((quintic, SHARE), (cubic, CUBIC_SHARE)):
        bounds = (POSITION, share * limits.velocity, share * limits.acceleration)
        for value, exact, bound in zip(points.within(INSIDE), true, bounds, strict=True):
            far |= np.any(np.abs(value - exact) > bound, axis=1)
    return np.asarray(np.any(far.reshape(-1, len(INSIDE)), axis=1))
