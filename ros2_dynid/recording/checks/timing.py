# SPDX-License-Identifier: Apache-2.0

"""Checks of the stamps: rate, jitter, gaps, repeats and steps back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import Option, Text
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.checks.problems import RED, YELLOW, RecordingProblem
from ros2_dynid.recording.samples import CLOCK_RESET

MAX_JITTER = 0.25
"""Jitter, as a fraction of the period, from which the times of single samples are doubtful."""
MIN_RATE_HZ = 50.0
"""Rate [Hz] below which the dynamics of most arms are sampled too coarsely."""
MAX_LISTED_GAPS = 1000


@dataclass(frozen=True)
class Gap:
    """A pause of the stamps: its start and length [s], and how many samples are missing."""

    start: float
    duration: float
    missing: int


@dataclass(frozen=True)
class Timing:
    """Rate [Hz], jitter (standard deviation of the period) [s], duration [s], and the first MAX_LISTED_GAPS gaps."""

    rate: float
    jitter: float
    duration: float
    gaps: tuple[Gap, ...]
    gap_count: int
    missing: int
    problems: list[RecordingProblem]


def check_timing(t: Array) -> Timing:
    """Check times [s] in the order they were recorded."""
    problems: list[RecordingProblem] = []
    unknown = int(np.count_nonzero(~np.isfinite(t)))
    if unknown:
        what = f"{unknown} samples have no time"
        problems.append(RecordingProblem("nan", YELLOW, what, "they are dropped; check the logger"))
    t = t[np.isfinite(t)]
    steps = np.diff(t)
    forward = steps[steps > 0]
    if not forward.size:
        what = "the recording has fewer than two different times"
        problems.append(RecordingProblem("short", RED, what, "record the moving robot for about ten seconds"))
        return Timing(0.0, 0.0, 0.0, (), 0, 0, problems)
    period = float(np.median(forward))
    spread = 1.4826 * float(np.median(np.abs(forward - period)))
    usual = forward[np.abs(forward - period) < 0.75 * period]
    jitter = float(np.std(usual)) if usual.size else 0.0
    duration = float(t.max() - t.min())
    problems += _order_problems(steps)
    limit = max(1.75 * period, period + 6 * spread)
    wide = np.flatnonzero(steps > limit)
    missing = np.maximum(np.round(steps[wide] / period).astype(np.int64) - 1, 1)
    absent = int(missing.sum())
    gaps = tuple(
        Gap(float(t[k]), float(steps[k]), int(m))
        for k, m in zip(wide[:MAX_LISTED_GAPS], missing[:MAX_LISTED_GAPS], strict=True)
    )
    if wide.size:
        longest = float(steps[wide].max())
        share = absent / (absent + len(t))
        level = RED if share > 0.05 else YELLOW
        what = (
            f"{wide.size} gaps, about {absent} samples ({100 * share:.2g} %) are missing, longest gap {longest:.3g} s"
        )
        do = "record on an idle machine, with a deeper queue and reliable QoS; derivatives near gaps are unreliable"
        problems.append(RecordingProblem("gap", level, what, do))
    if jitter > MAX_JITTER * period:
        what = f"the period of {period * 1e3:.3g} ms varies by {jitter * 1e3:.3g} ms"
        do = "use stamps set by the driver when it samples, not on arrival"
        problems.append(RecordingProblem("jitter", YELLOW, what, do))
    if 1 / period < MIN_RATE_HZ:
        what = f"{1 / period:.3g} samples per second are too few"
        problems.append(
            RecordingProblem("rate", YELLOW, what, "publish joint states at 100 Hz or more, or move slowly")
        )
    if duration < 2.0:
        what = f"the recording lasts only {duration:.3g} s"
        problems.append(RecordingProblem("short", YELLOW, what, "record about ten seconds of varied motion"))
    return Timing(1 / period, jitter, duration, gaps, int(wide.size), absent, problems)


def _order_problems(steps: Array) -> list[RecordingProblem]:
    problems = []
    repeats, back = int(np.count_nonzero(steps == 0)), int(np.count_nonzero(steps < 0))
    resets = int(np.count_nonzero(steps < -CLOCK_RESET))
    if repeats:
        level = RED if repeats > 0.2 * len(steps) else YELLOW
        what = f"{repeats} samples repeat the stamp of the one before"
        do = "they are left out; check that only one publisher feeds the topic"
        problems.append(RecordingProblem("repeat", level, what, do))
    if back - resets:
        level = RED if back > 0.2 * len(steps) else YELLOW
        what = f"{back - resets} stamps step back, by up to {-float(steps[steps >= -CLOCK_RESET].min()) * 1e3:.3g} ms"
        do = "such samples are sorted in; check the clocks and that only one publisher feeds the topic"
        problems.append(RecordingProblem("backward", level, what, do))
    if resets:
        what = f"the clock was set back {resets} times, by up to {-float(steps.min()):.3g} s"
        do = Text(
            "only the longest stretch is used; record again with a steady clock, or use ", Option("stamps", "bag")
        )
        problems.append(RecordingProblem("backward", RED, what, do))
    return problems
