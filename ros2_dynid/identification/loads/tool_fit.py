# SPDX-License-Identifier: Apache-2.0

"""The tool beyond a wrist force-torque sensor, and the sensor's bias, from its wrenches and the robot's motion.

The wrench is linear in the ten parameters phi of what lies beyond the sensor (dynamics/sensor_wrench.py): wrench =
+-Y phi + bias(t). The bias is piecewise linear in time: sensors drift. Rows
are filtered, weighted and given error bars as those of torques are; the six axes take the place of the joints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.dynamics.sensor_wrench import AXES, sensor_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.payload_fit import Payload, payload_in
from ros2_dynid.identification.physical.consistency import closest_body
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE, filter_signal, lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Block, Information, block_length, compressed
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.wrench import Wrenches

DRIFT_SECONDS = 60.0
"""The bias is linear over pieces of at most this length [s]: sensors warm up over minutes."""
LEAST_SPREAD = 0.02
"""Least spread of the directions of gravity in the sensor's frame: of the singular values of their unit vectors."""


@dataclass(frozen=True, eq=False)
class Tool:
    """The tool as a payload in the sensor's frame, and the sensor: mean bias (6,) [N, N.m] and drift (6,) [a second].

    bias_std, drift_std: standard deviations; sigma: residual level of each axis (6,); delay: how late wrenches come
    against joint states [s]; sign: +1 if the sensor shows what the robot exerts on the tool, -1 if the opposite.
    """

    load: Payload
    bias: Array
    bias_std: Array
    drift: Array
    drift_std: Array
    sigma: Array
    delay: float
    sign: int
    rows: int


def identify_tool(robot: Robot, prepared: Prepared, wrenches: Wrenches, link: str, *, free: bool = False) -> Tool:
    """Return the tool beyond the sensor at `link`; free: ten parameters that fit best, even if no body has them."""
    information, knots = _information(robot, prepared, wrenches, link)
    estimate = wls(information)
    if not np.all(estimate.load_identified):
        unknown = [name for name, known in zip(LINK, estimate.load_identified, strict=True) if not known]
        what = f"{', '.join(unknown)} of the tool not excited"
        raise InputError(what, "turn the sensor about axes that are not parallel, and accelerate", robot.name)
    sign = 1 if estimate.load[-1] >= 0 else -1
    estimate = _with_load_sign(estimate, sign)
    if not free:
        value = estimate.value.copy()
        value[estimate.layout.load] = closest_body(estimate.load, estimate.load_covariance)
        estimate = replace(estimate, value=value)
    load = payload_in(estimate, np.eye(4), link, robot.tools[link][0])
    mean, slope = _of_knots(knots)
    bias, drift = (np.kron(np.eye(AXES), row) for row in (mean, slope))
    covariance = estimate.base_covariance
    return Tool(
        load,
        bias @ estimate.base,
        np.sqrt(np.einsum("ij,jk,ik->i", bias, covariance, bias)),
        drift @ estimate.base,
        np.sqrt(np.einsum("ij,jk,ik->i", drift, covariance, drift)),
        estimate.sigma,
        estimate.delay,
        sign,
        int(information.rows.sum()),
    )


def _information(robot: Robot, prepared: Prepared, wrenches: Wrenches, link: str) -> tuple[Information, Array]:
    """Return blocks of rows about [bias at the knots, delay, phi], and the knots [s]."""
    Y = sensor_regressor(robot, link, prepared.q, prepared.dq, prepared.ddq)
    w, known = _smoothed(prepared, wrenches)
    _refuse_one_direction(Y[:, :3, 9], robot.name)
    kernel, slope_kernel, step = prepared.kernel, prepared.slope_kernel, prepared.step
    assert kernel is not None and slope_kernel is not None
    parts = []
    for segment in prepared.segments:
        inside = np.flatnonzero(known[segment]) + segment.start
        for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):  # the sensor may pause
            if len(run) < len(kernel):
                continue
            rows = [filter_signal(x[run], kernel, step) for x in (Y, w, prepared.t[:, None])]
            parts.append((*rows, filter_signal(w[run], slope_kernel, step)))
    if not parts:
        raise InputError("joint states and wrenches have no stretch in common", "record both at once", prepared.source)
    rows_Y, rows_w, t, slope = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    time = t[:, 0]
    knots = np.linspace(time[0], time[-1], 1 + max(1, int(np.ceil((time[-1] - time[0]) / DRIFT_SECONDS))))
    hats = np.column_stack([np.interp(time, knots, row) for row in np.eye(len(knots))])
    k = len(knots)
    layout = ColumnLayout(AXES * k, 1, len(LINK))
    others = np.arange(layout.delay.start, layout.size)
    columns = tuple(np.concatenate((axis * k + np.arange(k), others)).astype(np.intp) for axis in range(AXES))
    blocks, length = [], block_length(len(time))
    for at in range(0, len(time), length):
        part = slice(at, at + length)
        R = tuple(
            compressed(np.column_stack((hats[part], -slope[part, axis], rows_Y[part, axis], rows_w[part, axis])))
            for axis in range(AXES)
        )
        count = np.full(AXES, len(time[part]), dtype=np.int64)
        blocks.append(Block(R, count, float(time[part][0]), float(time[part][-1])))
    return Information(tuple(blocks), columns, layout), knots


def _smoothed(prepared: Prepared, wrenches: Wrenches) -> tuple[Array, Array]:
    """Return the wrenches through the positions' filter at the prepared times, shape (N, 6), and where they are known.

    They are filtered at their own rate, so that noise between two joint states does not fold.
    """
    rate = 1.0 / float(np.median(np.diff(wrenches.t)))
    even = np.arange(wrenches.t[0], wrenches.t[-1], 1.0 / rate)
    w = np.column_stack([np.interp(even, wrenches.t, column) for column in wrenches.w.T])
    cutoff = prepared.filter.position_cutoff
    assert cutoff is not None
    kernel = lowpass_kernel(min(cutoff, MAX_CUTOFF_SHARE * rate), rate)
    smooth, K = filter_signal(w, kernel, 1), len(kernel) // 2
    if len(smooth) < 2:
        raise InputError("the wrenches are too few for their filter", "record for some seconds", prepared.source)
    at = even[K : K + len(smooth)]
    gaps = np.flatnonzero(np.diff(wrenches.t) > max(5.0 / rate, 0.05))
    known = (prepared.t >= at[0]) & (prepared.t <= at[-1])
    for k in gaps:  # what lies in a gap of the sensor, or near it, is not known
        margin = K / rate
        known &= (prepared.t < wrenches.t[k] - margin) | (prepared.t > wrenches.t[k + 1] + margin)
    return np.column_stack([np.interp(prepared.t, at, column) for column in smooth.T]), known


def _refuse_one_direction(a: Array, source: str) -> None:
    """Refuse motions in which the sensor hardly turns against gravity: bias and weight would not part."""
    unit = a / np.linalg.norm(a, axis=1, keepdims=True)
    spread = np.linalg.svd(unit - unit.mean(axis=0), compute_uv=False) / np.sqrt(len(unit))
    if spread[1] < LEAST_SPREAD:
        hint = "turn the sensor by some tens of degrees about two axes that are not vertical"
        raise InputError("the sensor hardly turns against gravity: its bias and the weight do not part", hint, source)


def _with_load_sign(estimate: Estimate, sign: int) -> Estimate:
    """Return the estimate of sign times phi."""
    s = np.ones(estimate.layout.size)
    s[estimate.layout.load] = sign
    return replace(estimate, value=s * estimate.value, covariance=s[:, None] * estimate.covariance * s)


def _of_knots(knots: Array) -> tuple[Array, Array]:
    """Return rows that give mean and mean slope of a piecewise linear function from its values at the knots."""
    mean = np.zeros(len(knots))
    widths = np.diff(knots)
    mean[:-1] += widths / 2
    mean[1:] += widths / 2
    slope = np.zeros(len(knots))
    slope[0], slope[-1] = -1.0, 1.0
    return mean / (knots[-1] - knots[0]), slope / (knots[-1] - knots[0])
