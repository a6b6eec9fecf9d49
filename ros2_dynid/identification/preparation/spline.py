"""Cubic splines through uneven samples."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dgtsv

from ros2_dynid.model.robot import Array


def spline_at(t: Array, x: Array, at: Array) -> Array:
    """Return the cubic spline through x (N, n) at increasing times t (N,), N > 2, at other times, shape (m, n).

    In the first and the last interval the curve is a parabola.
    """
    h, slope = np.diff(t), np.diff(x, axis=0) / np.diff(t)[:, None]
    # Unknown: second derivatives M at the samples; continuous slopes give N - 2 equations, parabolas the other two.
    lower, upper = np.append(h[:-1], -1.0), np.append(-1.0, h[1:])
    middle = np.concatenate(([1.0], 2.0 * (h[:-1] + h[1:]), [1.0]))
    right = np.zeros_like(x)
    right[1:-1] = 6.0 * np.diff(slope, axis=0)
    *_, M, info = dgtsv(lower, middle, upper, right)
    if info != 0:
        raise ValueError("the times of a spline must increase")
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    d, width = (at - t[k])[:, None], h[k][:, None]
    bend = (M[k + 1] - M[k]) / width
    first = slope[k] - width * (2.0 * M[k] + M[k + 1]) / 6.0
    return np.asarray(x[k] + d * (first + d * (0.5 * M[k] + d * bend / 6.0)))
