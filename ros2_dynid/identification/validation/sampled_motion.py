"""A few samples of prepared recordings: enough to judge efforts by, and as fast for an hour as for a minute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    """Smooth motion and torque, shape (N, n) each [rad or m, N.m or N]; stride: every how many samples."""

    q: Array
    dq: Array
    ddq: Array
    tau: Array
    stride: int = 1

    def thinned(self, stride: int) -> SampledMotion:
        """Return every stride-th sample of the recording; stride: a multiple of the present one."""
        some = slice(None, None, stride // self.stride)
        return SampledMotion(self.q[some], self.dq[some], self.ddq[some], self.tau[some], stride)


def sampled_motion(prepared: Sequence[Prepared], most: int = MOST) -> SampledMotion:
    """Return `most` samples, up to twice as many, evenly spread over the recordings' segments; all if they are few."""
    stride = motion_stride(sum(map(sample_count, prepared)), most)
    found = over(partial(motion_samples, stride), prepared)
    return _joined([(one.q, one.dq, one.ddq, one.tau) for one in found], stride)


def sample_count(prepared: Prepared) -> int:
    """Return the number of samples in the segments of a recording."""
    return sum(segment.stop - segment.start for segment in prepared.segments)


def motion_stride(count: int, most: int = MOST) -> int:
    """Return the largest power of two that leaves `most` of `count` samples: a multiple of that for fewer samples."""
    return 1 << max(0, (count // most).bit_length() - 1)


class MotionSampler:
    """Takes every stride-th sample of a recording's segments as its parts pass."""

    def __init__(self, stride: int) -> None:
        """Nothing has passed yet."""
        self._stride, self._seen = stride, 0
        self._taken: list[tuple[Array, Array, Array, Array]] = []

    def over(self, parts: Iterable[Prepared]) -> Iterator[Prepared]:
        """Yield the parts, looked at."""
        for part in parts:
            for segment in part.segments:
                some = slice(segment.start + -self._seen % self._stride, segment.stop, self._stride)
                self._taken.append((part.q[some], part.dq[some], part.ddq[some], part.tau[some]))
                self._seen += segment.stop - segment.start
            yield part

    def samples(self) -> SampledMotion:
        """Return what was taken."""
        return _joined(self._taken, self._stride)


def _joined(parts: Sequence[tuple[Array, Array, Array, Array]], stride: int) -> SampledMotion:
    q, dq, ddq, tau = (np.concatenate(column) for column in zip(*parts, strict=True))
    return SampledMotion(q, dq, ddq, tau, stride)


def motion_samples(stride: int, whole: Prepared, parts: Iterable[Prepared]) -> SampledMotion:
    """Return every stride-th sample of one recording's segments."""
    sampler = MotionSampler(stride)
    for _ in sampler.over(parts):
        pass
    return sampler.samples()
