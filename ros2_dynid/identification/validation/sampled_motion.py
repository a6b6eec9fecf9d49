"""A few samples of prepared recordings: enough to judge efforts by, and as fast for an hour as for a minute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ros2_dynid.identification.preparation.elsewhere import over
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.robot import Array

MOST = 1500
"""Samples: some twenty for each of the standard parameters of a six-axis arm."""


@dataclass(frozen=True, eq=False)
class SampledMotion:
    """Smooth motion and torque, shape (N, n) each [rad or m, N.m or N]."""

    q: Array
    dq: Array
    ddq: Array
    tau: Array


def sampled_motion(prepared: Sequence[Prepared], most: int = MOST) -> SampledMotion:
    """Return at most about `most` samples, evenly spread over the recordings' segments."""
    count = sum(segment.stop - segment.start for p in prepared for segment in p.segments)
    stride = max(1, -(-count // most))
    found = over(partial(_taken, stride), prepared)
    arrays = [(one.q, one.dq, one.ddq, one.tau) for one in found]
    return SampledMotion(*(np.concatenate(column) for column in zip(*arrays, strict=True)))


def _taken(stride: int, whole: Prepared, parts: Iterable[Prepared]) -> SampledMotion:
    """Return every stride-th sample of each segment of one recording."""
    taken = [tuple(x[s][::stride] for x in (p.q, p.dq, p.ddq, p.tau)) for p in parts for s in p.segments]
    return SampledMotion(*(np.concatenate(column) for column in zip(*taken, strict=True)))
