# SPDX-License-Identifier: Apache-2.0

"""Friction over time: one point for each recording and joint, and the date when it left its band.

The friction of a recording is fitted to what the robot's model leaves of its torque: only Fv, Fc and off of each joint
are free, so a short recording suffices. A point is the friction torque at a speed that the joint usually has, where Fv
and Fc are known best together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ros2_dynid.base_parameters import BaseParameters
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, restrict
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.robot import Array, Robot

FRICTION = ("Fv", "Fc", "off")
TYPICAL = 0.5
"""The speed of a point, as a share of the joint's top speed."""
BASELINE, LEAST = 1 / 3, 3
"""Share of the points that the band is made of, the first ones, and how many it takes at least."""
MATERIAL = 0.1
"""A change of friction by less than this share is none that anybody has to act on."""
CHANCE = 0.01
"""Chance that any point of a joint that has not changed is outside its band."""
RUN = 3
"""Points outside one after the other that it takes to have left the band: a warm day is no wear."""


@dataclass(frozen=True, eq=False)
class FrictionPoint:
    """Friction of one recording: torque of each joint at its typical speed, and std, shape (n,) [N.m or N]."""

    torque: Array
    std: Array


@dataclass(frozen=True)
class Trend:
    """Friction of one joint over time.

    time: of each recording [s since 1970]; torque, std [N.m or N]; low, high: the band; slope: change a day as a share
    of the first friction, with its std; left: when it left its band [s since 1970], None if it did not.
    """

    joint: str
    time: tuple[float, ...]
    torque: tuple[float, ...]
    std: tuple[float, ...]
    low: float | None = None
    high: float | None = None
    slope: float | None = None
    slope_std: float | None = None
    left: float | None = None


def friction_of(
    robot: Robot, base: BaseParameters, information: Information, estimate: Estimate, top_speed: Array
) -> FrictionPoint | None:
    """Return the friction in one recording beside the other parameters of `estimate`; None if it does not show it.

    information: of that recording alone, with plain friction; top_speed: of each joint, shape (n,).
    """
    leaders = {leader: k for k, leader in enumerate(base.leaders)}
    kinds = [[leaders.get(f"{kind}{number}") for kind in FRICTION] for number in robot.active]
    free = [k for own in kinds for k in own if k is not None]
    try:
        friction = wls(restrict(information, free, value=estimate.value))
    except DynidError:
        return None
    torque, std = np.full((2, len(kinds)), np.nan)
    for j, (Fv, Fc, _) in enumerate(kinds):
        if Fv is None or Fc is None or not friction.identified[[free.index(Fv), free.index(Fc)]].all():
            continue
        at, weights = [free.index(Fv), free.index(Fc)], np.array([TYPICAL * top_speed[j], 1.0])
        torque[j] = weights @ friction.value[at]
        std[j] = np.sqrt(max(float(weights @ friction.covariance[np.ix_(at, at)] @ weights), 0.0))
    return FrictionPoint(torque, std)


def trends(joints: Sequence[str], times: Sequence[float], points: Sequence[FrictionPoint | None]) -> list[Trend]:
    """Return the friction of each joint over time; times: of the recordings [s since 1970], 0 where not known."""
    over_time = []
    order = sorted(range(len(times)), key=lambda k: times[k])
    for j, joint in enumerate(joints):
        rows = [
            (times[k], float(one.torque[j]), float(one.std[j]))
            for k in order
            if times[k] > 0.0 and (one := points[k]) is not None and np.isfinite(one.torque[j] + one.std[j])
        ]
        if rows:
            time, torque, std = (np.array(column) for column in zip(*rows, strict=True))
            over_time.append(_trend(joint, time, torque, std))
    return over_time


def _trend(joint: str, time: Array, torque: Array, std: Array) -> Trend:
    plain = Trend(joint, tuple(time.tolist()), tuple(torque.tolist()), tuple(std.tolist()))
    count = max(LEAST, int(BASELINE * len(time)))
    if len(time) < LEAST + 1:
        return plain
    first, scatter = torque[:count], float(np.var(torque[:count], ddof=1))
    centre = float(np.mean(first))
    quantile = -float(stdtrit(count - 1, CHANCE / (2 * len(time))))
    spread = np.sqrt(scatter * (1 + 1 / count) + np.maximum(std**2 - float(np.mean(std[:count] ** 2)), 0.0))
    width = np.maximum(quantile * spread, MATERIAL * abs(centre))
    outside = np.abs(torque - centre) > width
    slope, slope_std = _slope((time - time[0]) / 86400.0, torque, centre)
    half = float(np.median(width))
    return Trend(
        joint,
        plain.time,
        plain.torque,
        plain.std,
        centre - half,
        centre + half,
        slope,
        slope_std,
        _time_of_leaving(time, outside),
    )


def _slope(days: Array, torque: Array, centre: float) -> tuple[float | None, float | None]:
    """Return the change a day as a share of the first friction, by least squares, with its std; at least 3 points."""
    spread = float(np.sum((days - days.mean()) ** 2))
    if spread <= 0.0 or centre == 0.0:
        return None, None
    slope = float(np.sum((days - days.mean()) * (torque - torque.mean())) / spread)
    residual = torque - torque.mean() - slope * (days - days.mean())
    std = float(np.sqrt(np.sum(residual**2) / (len(days) - 2) / spread))
    return slope / abs(centre), std / abs(centre)


def _time_of_leaving(time: Array, outside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float | None:
    """Return the time of the first of RUN points outside one after the other."""
    for k in range(len(time) - RUN + 1):
        if outside[k : k + RUN].all():
            return float(time[k])
    return None
