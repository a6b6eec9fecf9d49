# SPDX-License-Identifier: Apache-2.0

"""Checks of signals: unknown, stuck, quantised, saturated and jumping values, and how much a joint moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import Option, Text
from ros2_dynid.model.robot import REVOLUTE, Array, Joint
from ros2_dynid.recording.checks.problems import RED, YELLOW, RecordingProblem
from ros2_dynid.recording.samples import Samples

UNITS = {"position": ("rad", "m"), "velocity": ("rad/s", "m/s"), "effort": ("N.m", "N")}
FEW_LEVELS = 200
"""A signal with fewer distinct values is coarse."""
SHARE_OF_LIMIT = 0.99
FLAT_PEAK_RATIO = 5.0
COARSE_STEP = 0.07
"""Steps of an effort or velocity, as a share of its standard deviation, that add 2 % of noise: 0.02 sqrt(12)."""
MIN_MOTION = (0.02, 0.002)
"""Range [rad, m] below which a joint stood still."""
SMALL_MOTION = (0.2, 0.02)
FROZEN_S = 0.1
"""A signal that stands still for longer [s] and then jumps was frozen."""


@dataclass(frozen=True)
class Signal:
    """One signal of one joint with its times: values (N,), NaN where unknown; its name and unit."""

    joint: str
    name: str
    unit: str
    t: Array
    values: Array


def check_unknown(signal: Signal) -> list[RecordingProblem]:
    """Find NaN among the values."""
    unknown = int(np.count_nonzero(~np.isfinite(signal.values)))
    if not unknown or unknown == len(signal.values):
        return []
    share = unknown / len(signal.values)
    what = f"{unknown} values of {signal.name} ({100 * share:.2g} %) are NaN"
    do = "such samples are dropped; check why the driver does not measure them"
    return [RecordingProblem("nan", RED if share > 0.2 else YELLOW, what, do, signal.joint)]


def check_stuck(signal: Signal, moving: np.ndarray) -> list[RecordingProblem]:
    """Find values that never change, or freeze and then jump, while the joint moves."""
    x = signal.values
    if np.count_nonzero(moving) < 10:
        return []
    if np.nanmax(x) == np.nanmin(x):
        what = f"{signal.name} is {x[np.isfinite(x)][0]:.4g} {signal.unit} all the time, though the joint moves"
        do = "the driver does not measure it; use another topic or interface"
        return [RecordingProblem("stuck", RED if signal.name == "effort" else YELLOW, what, do, signal.joint)]
    begin, end = _runs(x)
    length = signal.t[end] - signal.t[begin]
    steps = np.abs(np.diff(x))
    usual = float(np.nanpercentile(steps[steps > 0], 99)) if np.any(steps > 0) else 0.0
    after = np.append(steps, 0.0)[end]
    before = np.concatenate(([0.0], steps))[begin]
    frozen = (length > FROZEN_S) & (end - begin >= 10) & (np.maximum(after, before) > 3 * usual)
    if not frozen.any():
        return []
    total = float(length[frozen].sum())
    what = f"{signal.name} is frozen {np.count_nonzero(frozen)} times, {total:.3g} s in all, and then jumps"
    do = "cut these times out; check the bus and the driver"
    return [RecordingProblem("stuck", YELLOW if total < 0.05 * np.ptp(signal.t) else RED, what, do, signal.joint)]


def _runs(x: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last index of each stretch of equal values."""
    edges = np.flatnonzero(np.diff(x) != 0) + 1
    return np.concatenate(([0], edges)), np.concatenate((edges - 1, [len(x) - 1]))


def check_quantised(signal: Signal, moving: np.ndarray) -> list[RecordingProblem]:
    """Find values in coarse steps, or repeated since they are updated less often than published."""
    x = signal.values[np.isfinite(signal.values)]
    problems: list[RecordingProblem] = []
    if np.count_nonzero(moving) < 50 or len(x) < 100 or np.ptp(x) == 0:
        return []
    levels = np.unique(x)
    step = float(np.median(np.diff(levels)))
    coarse = signal.name == "position" or step > COARSE_STEP * np.std(x)
    if coarse and len(levels) < FEW_LEVELS and len(levels) < len(x) / 4:
        what = f"{signal.name} has only {len(levels)} distinct values, about {step:.2g} {signal.unit} apart"
        do = "use a finer sensor or unit; averaging over time helps where there is noise"
        problems.append(RecordingProblem("quantised", YELLOW, what, do, signal.joint))
    elif signal.name != "effort":
        both = moving[1:] & moving[:-1]
        same = np.diff(signal.values)[both] == 0
        share = float(np.mean(same)) if same.size else 0.0
        if share > 0.6:
            what = f"{signal.name} repeats its value {100 * share:.0f} % of the time while the joint moves"
            do = "it is updated less often than published, or too coarse: record at its own rate, or filter it"
            problems.append(RecordingProblem("quantised", YELLOW, what, do, signal.joint))
    return problems


def check_saturated(signal: Signal, limit: float) -> list[RecordingProblem]:
    """Find values clipped at the limit (symmetric; infinite if unknown) or at another value."""
    x = np.abs(signal.values[np.isfinite(signal.values)])
    if not x.size or x.max() == 0:
        return []
    share = float(np.mean(x >= SHARE_OF_LIMIT * limit)) if 0 < limit < np.inf else 0.0
    beyond = float(x.max() / limit) if 0 < limit < np.inf else 0.0
    if beyond > 3 and signal.name == "effort":
        what = f"{signal.name} reaches {x.max():.4g} {signal.unit}, {beyond:.3g} times the limit of {limit:.4g}"
        do = "one of the two is wrong: check the unit of the effort (milli, percent, raw counts) and the robot's limit"
        return [RecordingProblem("effort_unit", YELLOW, what, do, signal.joint)]
    if share > 0.002 and _is_clipped(x, limit):
        what = f"{signal.name} is at its limit of {limit:.4g} {signal.unit} for {100 * share:.2g} % of the time"
        do = "record again with slower or smaller motion: clipped values do not follow the model"
        return [RecordingProblem("saturation", RED if share > 0.05 else YELLOW, what, do, signal.joint)]
    begin, end = _runs(signal.values)
    clipped = (np.abs(signal.values[begin]) == x.max()) & (end - begin >= 4)
    if clipped.sum() >= 2 and len(np.unique(x)) > FEW_LEVELS:
        peak = f"{x.max():.4g} {signal.unit}"
        what = f"{signal.name} stays at its largest value {peak} {clipped.sum()} times: it looks clipped"
        do = "record again with slower or smaller motion, or raise the drive's limit"
        return [RecordingProblem("saturation", YELLOW, what, do, signal.joint)]
    return []


def _is_clipped(x: Array, limit: float) -> bool:
    """Return whether values |x| are clipped at the limit, and not just a peak near it.

    A parabola spends 2.4 times as long within 1 % of its peak as in the next 1 %; a clipped signal spends far longer.
    """
    top = float(x.max())
    if not 0.98 < top / limit < 1.02:
        return False  # a limit that is passed does not clip
    upper, lower = np.count_nonzero(x >= 0.99 * top), np.count_nonzero((x >= 0.98 * top) & (x < 0.99 * top))
    return bool(upper > FLAT_PEAK_RATIO * lower)


def check_coverage(signal: Signal, joint: Joint | None) -> list[RecordingProblem]:
    """Check how much of its range a joint covered, and whether its positions are plausible."""
    x = signal.values[np.isfinite(signal.values)]
    if not x.size:
        return []
    sigma = joint.sigma if joint is not None else REVOLUTE
    low, high = float(x.min()), float(x.max())
    span = high - low
    lower, upper = (joint.limits.lower, joint.limits.upper) if joint is not None else (-np.inf, np.inf)
    allowed = upper - lower
    margin = 0.05 * allowed if np.isfinite(allowed) else 0.0
    if np.isfinite(allowed) and (low < lower - margin or high > upper + margin):
        what = f"positions from {low:.4g} to {high:.4g} {signal.unit} leave the limits {lower:.4g} to {upper:.4g}"
        degrees = sigma == REVOLUTE and max(-low, high) > 2 * np.pi
        in_degrees = Text("they look like degrees: set ", Option("angle_unit", "deg"))
        do = in_degrees if degrees else "check zero offset, sign and unit"
        return [
            RecordingProblem(
                "position_unit" if degrees else "limits", RED if degrees else YELLOW, what, do, signal.joint
            )
        ]
    if span < MIN_MOTION[sigma]:
        what = f"the joint stood still: it moved {span:.2g} {signal.unit}"
        do = Text("move it too, or hold it (", Option("hold"), "): a joint that does not move cannot be identified")
        return [RecordingProblem("coverage", RED, what, do, signal.joint)]
    if span < SMALL_MOTION[sigma] or (np.isfinite(allowed) and span < 0.05 * allowed):
        what = f"the joint moved only {span:.3g} {signal.unit}"
        if np.isfinite(allowed):
            what += f", {100 * span / allowed:.2g} % of its range"
        do = "use a larger motion, for example from dynid excite"
        return [RecordingProblem("coverage", YELLOW, what, do, signal.joint)]
    return []


def check_velocity(velocity: Signal, derived: Array) -> list[RecordingProblem]:
    """Compare the velocity with the derivative of the position: sign and unit."""
    finite = np.isfinite(velocity.values) & np.isfinite(derived)
    x, y = derived[finite], velocity.values[finite]
    if len(x) < 100 or np.std(x) == 0 or np.std(y) == 0:
        return []
    r = float(np.corrcoef(x, y)[0, 1])
    slope = float(np.std(y) / np.std(x)) * float(np.sign(r))
    usual = float(np.median(np.abs(y)) / max(np.median(np.abs(x)), np.finfo(float).tiny)) * float(np.sign(r))
    if abs(r) < 0.8 or 0.7 < slope < 1.4 or 0.7 < usual < 1.4:  # lost samples change a few derivatives, not most
        return []
    what = f"velocity is {slope:.3g} times the derivative of position"
    do = "check its sign and unit (deg/s, rpm, motor side); identify with velocities derived from positions"
    return [RecordingProblem("velocity_unit", YELLOW, what, do, velocity.joint)]


@dataclass(frozen=True)
class JumpThresholds:
    """When positions jump: the clock stalled, or samples were lost and their time with them.

    neighbours: steps before and after one that it is compared with: a smooth motion changes little over them. faster:
    its speed over the fastest of them, and over the usual one. usual: quantile of a joint's speeds that this is: jumps
    are fewer than the rest. least: a smaller step [rad or m] does no harm.
    """

    neighbours: int = 3
    faster: float = 3.0
    usual: float = 0.8
    least: float = 0.01


def check_jumps(samples: Samples, thresholds: JumpThresholds | None = None) -> list[RecordingProblem]:
    """Find steps of the positions that are far too fast for the motion around them; samples in order."""
    limits = thresholds or JumpThresholds()
    fresh = samples.take(np.asarray(np.isfinite(samples.q).all(axis=1)))
    fresh = fresh.take(np.append(True, np.any(np.diff(fresh.q, axis=0) != 0, axis=1))[: len(fresh)])
    width = 2 * limits.neighbours + 1
    if len(fresh) <= 10 * width:
        return []
    pauses = np.diff(fresh.t)
    steps = np.abs(np.diff(fresh.q, axis=0))
    speeds = steps / np.maximum(pauses, np.median(pauses))[:, None]  # stamps that jitter are no jumps
    around = np.lib.stride_tricks.sliding_window_view(speeds, width, axis=0)
    nearby = np.delete(around, limits.neighbours, axis=2).max(axis=2)
    inner = slice(limits.neighbours, len(speeds) - limits.neighbours)
    bound = limits.faster * np.maximum(nearby, np.quantile(speeds, limits.usual, axis=0))
    jumps = (speeds[inner] > bound) & (steps[inner] > limits.least)
    at = np.flatnonzero(jumps.any(axis=1))
    if not len(at):
        return []
    row, joint = np.unravel_index(np.argmax(np.where(jumps, steps[inner], 0.0)), jumps.shape)
    size = f"{steps[inner][row, joint]:.2g} rad or m in {1e3 * pauses[inner][row]:.3g} ms"
    what = f"positions jump {len(at)} times, at {fresh.t[inner.start + at[0]]:.4g} s first, by up to {size}"
    do = Text(
        "the clock stalled or samples were lost: use ",
        Option("stamps", "bag"),
        " if those are right, or cut with ",
        Option("start"),
        " and ",
        Option("end"),
    )
    return [RecordingProblem("jump", YELLOW, what, do)]
