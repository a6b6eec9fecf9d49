"""A few samples of prepared recordings: enough to judge efforts by, and as fast for an hour as for a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.robot import Array

MOST = 1500
"""Samples: some twenty for each of the standard parameters of a six-axis arm."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Smooth motion and torque, shape (N, n) each [rad or m, N.m or N]."""

    q: Array
    dq: Array
    ddq: Array
    tau: Array


def motion_of(prepared: Sequence[Prepared], most: int = MOST) -> Motion:
    """Return at most about `most` samples, evenly spread over the recordings' segments."""
    count = sum(segment.stop - segment.start for p in prepared for segment in p.segments)
    stride = max(1, -(-count // most))
    parts = [tuple(x[segment][::stride] for x in (p.q, p.dq, p.ddq, p.tau)) for p in prepared for segment in p.segments]
    return Motion(*(np.concatenate(column) for column in zip(*parts, strict=True)))
