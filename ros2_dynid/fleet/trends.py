# SPDX-License-Identifier: Apache-2.0

"""Friction over time: one point for each recording and joint, and the date when it left its band.

The friction of a recording is fitted to what the robot's model leaves of its torque: only Fv, Fc and off of each joint
are free, so a short recording suffices. A point is the friction torque at a speed that the joint usually has, where Fv
and Fc are known best together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ros2_dynid.base_parameters import BaseParameters
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Block, Information, compressed
from ros2_dynid.identification.regression.least_squares import Moments, jackknife, solve, wls
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


def frictions_of(
    robot: Robot, base: BaseParameters, information: Information, estimate: Estimate, top_speed: Array
) -> list[FrictionPoint | None]:
    """Return the friction in each recording of `information`, as friction_of does.

    Where no joint feels another one's friction, weights of the joints change nothing, and all recordings are fitted
    joint by joint.
    """
    own, free = _friction_columns(robot, base)
    friction_columns = [[int(c) for c in columns if int(c) in set(free)] for columns in information.columns]
    if sum(map(len, friction_columns)) > len(set().union(*friction_columns)):
        return [friction_of(robot, base, one, estimate, top_speed) for one in information.recordings.values()]
    rest = estimate.value.copy()
    rest[free] = 0.0
    place = {k: i for i, k in enumerate(free)}
    numbers = {number: i for i, number in enumerate(information.recordings)}
    which = np.array([numbers[block.recording] for block in information.blocks])
    B, b = len(information.blocks), len(free)
    A, g, value = np.zeros((B, b, b)), np.zeros((B, b)), np.zeros((len(numbers), b))
    identified = np.zeros((len(numbers), b), dtype=bool)
    for j, columns in enumerate(information.columns):
        at = np.array([place[k] for k in friction_columns[j]], dtype=np.intp)
        if not len(at):
            continue
        R = np.concatenate([block.R[j] for block in information.blocks])
        few = R[:, [*np.flatnonzero(np.isin(columns, friction_columns[j])), -1]]
        few[:, -1] -= R[:, :-1] @ rest[columns]
        lengths = [len(block.R[j]) for block in information.blocks]
        of = np.repeat(np.arange(B), lengths)
        for i in range(len(numbers)):
            rows = few[which[of] == i]
            fit = solve(compressed(rows)) if len(rows) else None
            if fit is not None:
                value[i, at], identified[i, at] = fit.value, fit.identified
        error = few[:, -1] - np.sum(few[:, :-1] * value[:, at][which[of]], axis=1)
        starts = np.cumsum([0, *lengths[:-1]])
        some = np.flatnonzero(lengths)
        if len(some):
            W = few[:, :-1]
            A[np.ix_(some, at, at)] = np.add.reduceat(W[:, :, None] * W[:, None, :], starts[some])
            g[np.ix_(some, at)] = np.add.reduceat(W * error[:, None], starts[some])
    points: list[FrictionPoint | None] = []
    for i in range(len(numbers)):
        blocks = which == i
        rows_of_joints = information.block_rows[blocks].sum(axis=0)
        if rows_of_joints.sum() <= b or not rows_of_joints.all():
            points.append(None)
            continue
        moments = Moments(A[blocks], g[blocks], which[blocks].astype(float))
        covariance, _ = jackknife(moments, identified[i])
        points.append(_point(own, place, value[i], covariance, identified[i], top_speed))
    return points


def _friction_columns(robot: Robot, base: BaseParameters) -> tuple[list[list[int | None]], list[int]]:
    """Return the places of Fv, Fc and off of each joint, None where there is none, and all that there are."""
    leaders = {leader: k for k, leader in enumerate(base.leaders)}
    own = [[leaders.get(f"{kind}{number}") for kind in FRICTION] for number in robot.active]
    return own, [k for three in own for k in three if k is not None]


def _point(
    own: Sequence[Sequence[int | None]],
    place: Mapping[int, int],
    value: Array,
    covariance: Array,
    identified: NDArray[np.bool_],
    top_speed: Array,
) -> FrictionPoint:
    """Return the friction torque of each joint from the values in the places of its columns."""
    torque, std = np.full(len(own), np.nan), np.full(len(own), np.nan)
    for j, (Fv, Fc, _) in enumerate(own):
        if Fv is None or Fc is None or not identified[[place[Fv], place[Fc]]].all():
            continue
        at, weights = [place[Fv], place[Fc]], np.array([TYPICAL * top_speed[j], 1.0])
        torque[j] = weights @ value[at]
        std[j] = np.sqrt(max(float(weights @ covariance[np.ix_(at, at)] @ weights), 0.0))
    return FrictionPoint(torque, std)


def friction_of(
    robot: Robot, base: BaseParameters, information: Information, estimate: Estimate, top_speed: Array
) -> FrictionPoint | None:
    """Return the friction in one recording beside the other parameters of `estimate`; None if it does not show it.

    information: of that recording alone, with plain friction; top_speed: of each joint, shape (n,).
    """
    own, free = _friction_columns(robot, base)
    place = {k: i for i, k in enumerate(free)}
    rest = estimate.value.copy()
    rest[free] = 0.0
    blocks = []
    columns = tuple(
        np.array([place[int(c)] for c in joint_columns if int(c) in place], dtype=np.intp)
        for joint_columns in information.columns
    )
    masks = [np.array([*(int(c) in place for c in joint_columns), True]) for joint_columns in information.columns]
    for block in information.blocks:
        parts = []
        for R, joint_columns, mask in zip(block.R, information.columns, masks, strict=True):
            few = R[:, mask]
            few[:, -1] -= R[:, :-1] @ rest[joint_columns]
            parts.append(few)
        blocks.append(Block(tuple(parts), block.rows, block.start, block.end, block.recording))
    try:
        friction = wls(Information(tuple(blocks), columns, ColumnLayout(len(free))))
    except DynidError:
        return None
    return _point(own, place, friction.value, friction.covariance, friction.identified, top_speed)


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
