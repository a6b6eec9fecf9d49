# SPDX-License-Identifier: Apache-2.0

"""Link-side torques on a topic of their own: joint states whose efforts are these torques."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Samples, shortened

MAX_GAP_S = 0.1
"""Longest gap between torques that is interpolated [s]."""


def with_torques(pieces: Iterator[Samples], torques: Iterator[Samples], source: str) -> Iterator[Samples]:
    """Yield the pieces with tau_l: the efforts of `torques` at the pieces' times, NaN for joints and times without."""
    waiting: list[tuple[Array, Samples]] = []
    has_torques = False
    for piece in pieces:
        last = float(piece.t[-1]) if len(piece) else -np.inf
        while not waiting or waiting[-1][0][-1] < last:
            more = next(torques, None)
            if more is None:
                break
            if len(more):
                waiting.append((more.t + 1e-9 * (more.start_ns - piece.start_ns), more))
        tau_l = np.full(piece.q.shape, np.nan)
        for k, name in enumerate(piece.joint_names):
            columns = [
                (t, s.tau[:, s.joint_names.index(name)])
                for t, s in waiting
                if s.tau is not None and name in s.joint_names
            ]
            if columns:
                tau_l[:, k] = interpolate(piece.t, *(np.concatenate(x) for x in zip(*columns, strict=True)))
                has_torques = True
        yield replace(piece, tau_l=tau_l)
        while len(waiting) > 2 and waiting[1][0][-1] < last - 1.0:
            waiting.pop(0)
    if not has_torques:
        names = {name for _, s in waiting for name in s.joint_names}
        what = f"the torque topic has no efforts of the robot's joints, only of {shortened(sorted(names)) or 'none'}"
        raise InputError(what, "name the topic whose joint states have the torques of the sensors as efforts", source)


def interpolate(t: Array, known_times: Array, values: Array) -> Array:
    """Return values, known at other times, at times t: linear between them, NaN outside and across long pauses."""
    good = np.isfinite(values)
    order = np.argsort(known_times[good], kind="stable")
    x, y = known_times[good][order], values[good][order]
    if len(x) < 2:
        return np.full(len(t), np.nan)
    after = np.clip(np.searchsorted(x, t), 1, len(x) - 1)
    outside = (x[after] - x[after - 1] > MAX_GAP_S) | (t < x[0]) | (t > x[-1])
    return np.where(outside, np.nan, np.interp(t, x, y))
