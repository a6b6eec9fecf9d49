# SPDX-License-Identifier: Apache-2.0

"""Whether the joints agree about a load: its mass as each joint's rows alone tell it.

A gain that is off or friction that grows with the load makes joints contradict each other, and error bars from the
scatter in time do not see that. What the joints differ by beyond their own bars (DerSimonian and Laird) widens the bars
of the load, as an error of its scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from ros2_dynid.identification.regression.information import Information
from ros2_dynid.model.robot import Array

SIGNIFICANCE = 0.01
"""Joints are called contradictory where chance alone makes them differ as much in 1 of 100 cases."""
WEAK = 0.5
"""Joints that know the scale of the load worse than this are not asked."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Mass by each joint's rows over that by all, with std, shape (n,), NaN if a joint does not tell it.

    Each joint is asked for the mass alone: mass times centre and inertia about the frame are those of all joints.
    variance: of the mean of all joints, by what they differ beyond their bars; contradicting: numbers of the
    joints that contradict the others, from 0.
    """

    scale: Array
    std: Array
    variance: float
    contradicting: tuple[int, ...]


def compare_joints(
    loaded: Information,
    base: Array,
    covariance: Array,
    delay: float,
    load_map: Array,
    load: Array,
    load_covariance: Array,
) -> Agreement:
    """Return whether the joints agree about the ten parameters `load`, whose last one is the mass.

    loaded: rows with the load; base, covariance, delay: of the robot without it; load_map: what ten parameters add to
    the base parameters, shape (b, 10).
    """
    layout, n = loaded.layout, loaded.n
    empty = layout.vector(base + load_map[:, :-1] @ load[:-1], delay)
    with_load = layout.vector(load_map[:, -1] * load[-1])
    others = load_map[:, :-1] @ load_covariance[:-1, :-1] @ load_map[:, :-1].T
    scale, std = np.full(n, np.nan), np.full(n, np.nan)
    for j, columns in enumerate(loaded.columns):
        of_base = columns < layout.n_base
        a, g = np.zeros(len(loaded.blocks)), np.zeros(len(loaded.blocks))
        slope = np.zeros(layout.n_base)
        for k, block in enumerate(loaded.blocks):
            R = block.R[j]
            x = R[:, :-1] @ with_load[columns]
            a[k], g[k] = x @ x, x @ (R[:, -1] - R[:, :-1] @ empty[columns])
            slope[columns[of_base]] += R[:, :-1][:, of_base].T @ x
        total = a.sum()
        if total <= 0.0 or len(a) < 2 or np.any(a >= total):
            continue
        value = g.sum() / total
        own = np.sum(((g - value * a) / (total - a)) ** 2)
        spread = np.sqrt(own + slope @ (covariance + others) @ slope / total**2)
        if 0.0 < spread < WEAK:
            scale[j], std[j] = value, spread
    return Agreement(scale, std, *_between(scale, std))


def _between(scale: Array, std: Array) -> tuple[float, tuple[int, ...]]:
    """Return the variance of the mean scale by the scatter between joints, and the joints that contradict the rest.

    The joint without which the others agree best is named, and so on until the rest agree: a joint with narrow bars
    draws the mean of all to itself, so that the distance from that mean would blame the others. Of two joints that
    contradict each other both are named.
    """
    rest = np.flatnonzero(np.isfinite(scale))
    if len(rest) < 2 or _agree(scale[rest], std[rest]):
        return 0.0, ()
    w = 1.0 / std[rest] ** 2
    between = (_scatter(scale[rest], std[rest]) - (len(rest) - 1)) / (w.sum() - w @ w / w.sum())
    variance = float(between * (w @ w) / w.sum() ** 2)
    named: list[int] = []
    while not _agree(scale[rest], std[rest]):
        if len(rest) == 2:
            named += [int(j) for j in rest]
            break
        without = [np.delete(rest, k) for k in range(len(rest))]
        best = int(np.argmin([_scatter(scale[others], std[others]) for others in without]))
        named.append(int(rest[best]))
        rest = without[best]
    return variance, tuple(sorted(named))


def _scatter(scale: Array, std: Array) -> float:
    """Return the sum of squared distances from the weighted mean, in standard deviations."""
    w = 1.0 / std**2
    return float(w @ (scale - w @ scale / w.sum()) ** 2)


def _agree(scale: Array, std: Array) -> bool:
    """Return whether chance explains what the joints differ by."""
    return len(scale) < 2 or bool(_scatter(scale, std) <= chdtri(len(scale) - 1, SIGNIFICANCE))
