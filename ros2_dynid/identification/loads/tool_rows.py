# SPDX-License-Identifier: Apache-2.0

"""Rows of the wrench of a force-torque sensor: filtered wrenches about bias, delay and the tool's ten parameters."""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.sensor_wrench import AXES, sensor_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE, filter_signal, lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, block_length, compressed
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.wrench import Wrenches

DRIFT_SECONDS = 60.0
"""The bias is linear over pieces of at most this length [s]: sensors warm up over minutes."""
LEAST_SPREAD = 0.02
"""Least spread of the directions of gravity in the sensor's frame: of the singular values of their unit vectors."""


def build_tool_information(
    robot: Robot, prepared: Prepared, wrenches: Wrenches, link: str
) -> tuple[Information, Array]:
    """Return blocks of rows about [bias at the knots, delay, phi], and the knots [s]."""
    Y = sensor_regressor(robot, link, prepared.q, prepared.dq, prepared.ddq)
    w, known = smooth_wrenches(prepared, wrenches)
    if spread_of_directions(Y[:, :3, 9]) < LEAST_SPREAD:
        hint = "turn the sensor by some tens of degrees about two axes that are not vertical"
        raise InputError(
            "the sensor hardly turns against gravity: its bias and the weight do not part", hint, robot.name
        )
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


def smooth_wrenches(prepared: Prepared, wrenches: Wrenches) -> tuple[Array, Array]:
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


def spread_of_directions(a: Array) -> float:
    """Return how far the directions of vectors (N, 3) spread about the second axis: 0 if they stay in one plane."""
    unit = a / np.linalg.norm(a, axis=1, keepdims=True)
    return float(np.linalg.svd(unit - unit.mean(axis=0), compute_uv=False)[1] / np.sqrt(len(unit)))
