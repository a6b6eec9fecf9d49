# SPDX-License-Identifier: Apache-2.0

"""Is this recording usable? All checks together: a verdict, a row for each joint, and problems with what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import NoteKind
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Array, Joint, Robot
from ros2_dynid.recording.checks import signal_checks as signals
from ros2_dynid.recording.checks.problems import GREEN, RED, YELLOW, RecordingProblem, worst
from ros2_dynid.recording.checks.signal_checks import UNITS, Signal
from ros2_dynid.recording.checks.timing import Gap, check_timing
from ros2_dynid.recording.samples import Samples, ordered

MOVING = 0.1
"""A joint moves where its speed is above this fraction of its largest."""
_SMOOTHING_S = 0.02  # positions are averaged over this time [s] before they are differentiated


@dataclass(frozen=True)
class JointCheck:
    """What the recording shows of a joint; positions [rad or m], speed [/s], efforts [N.m or N]; None where unknown.

    coverage: share of its range that was used; gravity_scale, gravity_correlation, friction_correlation: how its effort
    follows the a priori gravity and its own speed, where efforts were checked; level: of its worst problem.
    """

    name: str
    position_min: float | None
    position_max: float | None
    coverage: float | None
    speed_max: float | None
    effort_rms: float | None
    effort_max: float | None
    gravity_scale: float | None = None
    gravity_correlation: float | None = None
    friction_correlation: float | None = None
    level: str = GREEN


@dataclass(frozen=True)
class RecordingCheck:
    """The verdict (green, yellow, red), rate [Hz], jitter [s], gaps, a row for each joint, and problems."""

    source: str
    verdict: str
    samples: int
    duration: float
    rate: float
    jitter: float
    gaps: tuple[Gap, ...]
    gap_count: int
    missing_samples: int
    joints: tuple[JointCheck, ...]
    problems: tuple[RecordingProblem, ...]
    notes: tuple[str, ...]


def check_samples(samples: Samples, robot: Robot | None = None) -> RecordingCheck:
    """Check samples as recorded (load_samples(..., in_order=False)), in the robot's order if there is one."""
    with np.errstate(all="ignore"):  # values from a file may be as large as a float goes
        return _check_signals(samples, robot)


def _check_signals(samples: Samples, robot: Robot | None) -> RecordingCheck:
    timing = check_timing(samples.t)
    problems = [*_notes(samples), *timing.problems]
    clean = ordered(samples)
    joints: dict[str, Joint] = {} if robot is None else {joint.name: joint for joint in robot.joints}
    problems += [*_missing_signals(clean), *signals.check_jumps(clean)]
    rows = []
    for column, name in enumerate(clean.joint_names):
        joint = joints.get(name)
        row, joint_problems = _check_joint(clean, column, joint)
        rows.append(replace(row, level=worst(p.level for p in joint_problems)))
        problems += joint_problems
    return _sort_problems(
        RecordingCheck(
            source=samples.source,
            verdict=worst(problem.level for problem in problems),
            samples=len(samples),
            duration=timing.duration,
            rate=timing.rate,
            jitter=timing.jitter,
            gaps=timing.gaps,
            gap_count=timing.gap_count,
            missing_samples=timing.missing,
            joints=tuple(rows),
            problems=tuple(problems),
            notes=tuple(note.text for note in samples.notes),
        )
    )


def with_problems(check: RecordingCheck, more: Sequence[RecordingProblem]) -> RecordingCheck:
    """Return the check with more problems, also in the verdict and in the joints' levels."""
    return replace_problems(check, (*check.problems, *more))


def replace_problems(check: RecordingCheck, problems: Sequence[RecordingProblem]) -> RecordingCheck:
    """Return the check with these problems, which make the verdict and the joints' levels."""
    rows = tuple(
        replace(row, level=worst(problem.level for problem in problems if problem.joint == row.name))
        for row in check.joints
    )
    verdict = worst(problem.level for problem in problems)
    return _sort_problems(replace(check, joints=rows, problems=tuple(problems), verdict=verdict))


def _sort_problems(check: RecordingCheck) -> RecordingCheck:
    order = sorted(check.problems, key=lambda problem: (problem.level != RED, problem.joint is not None))
    return replace(check, problems=tuple(order))


def _notes(samples: Samples) -> list[RecordingProblem]:
    """Return the reader's notes on damage as problems of the recording."""
    problems = []
    for note in samples.notes:
        if note.kind is NoteKind.DAMAGE:
            do = "the rest is usable; stop recordings properly to keep all"
            problems.append(RecordingProblem("damaged", YELLOW, note.text, do))
        elif note.kind is NoteKind.STAMPS:
            problems.append(
                RecordingProblem("stamps", YELLOW, note.text, "let the driver stamp its messages when it samples")
            )
    return problems


def _missing_signals(samples: Samples) -> list[RecordingProblem]:
    problems = []
    if not np.isfinite(samples.q).any():
        what = "no positions were recorded"
        problems.append(RecordingProblem("missing_position", RED, what, "record joint states with positions"))
    if samples.tau is None:
        what = "no effort was recorded"
        if samples.q_r is None:
            do = "enable the effort state interface of the driver; without efforts and references nothing is identified"
            problems.append(RecordingProblem("missing_effort", RED, what, do))
        else:
            do = "references and positions tell the drives; to identify the links, record efforts too"
            problems.append(RecordingProblem("missing_effort", YELLOW, what, do))
    if samples.dq is None:
        what = "no velocity was recorded"
        do = "velocities will be derived from positions, which needs a good filter; enable the interface if it exists"
        problems.append(RecordingProblem("missing_velocity", YELLOW, what, do))
    return problems


def _check_joint(samples: Samples, column: int, joint: Joint | None) -> tuple[JointCheck, list[RecordingProblem]]:
    """Return the row of a joint for the table and its problems."""
    name = samples.joint_names[column]
    sigma = PRISMATIC if joint is not None and joint.sigma == PRISMATIC else REVOLUTE
    signals_by_name = {"position": samples.q, "velocity": samples.dq, "effort": samples.tau}
    by_name = {
        kind: Signal(name, kind, UNITS[kind][sigma], samples.t, values[:, column])
        for kind, values in signals_by_name.items()
        if values is not None
    }
    position = by_name["position"]
    speed = derived_velocity(samples.t, position.values)
    fastest = float(np.nanmax(np.abs(speed))) if np.isfinite(speed).any() else 0.0
    span = float(np.ptp(position.values[np.isfinite(position.values)])) if np.isfinite(position.values).any() else 0.0
    moving = np.abs(speed) > MOVING * fastest if span >= signals.MIN_MOTION[sigma] else np.zeros(len(speed), bool)
    problems: list[RecordingProblem] = []
    for kind, signal in by_name.items():
        finite = np.isfinite(signal.values)
        if not finite.any():
            if not (kind == "position" and not np.isfinite(samples.q).any()):
                level = YELLOW if kind == "velocity" else RED
                do = "joint_state_broadcaster fills NaN where the hardware has no such interface: enable it there"
                problems.append(RecordingProblem(f"missing_{kind}", level, f"{kind} is NaN throughout", do, name))
            continue
        problems += signals.check_unknown(signal)
        problems += signals.check_stuck(signal, moving)
        problems += signals.check_quantised(signal, moving)
        if kind != "position":
            limit = np.inf if joint is None else getattr(joint.limits, kind)
            problems += signals.check_saturated(signal, limit)
    problems += signals.check_coverage(position, joint)
    if "velocity" in by_name and moving.any():
        problems += signals.check_velocity(by_name["velocity"], speed)
    return _row(name, by_name, joint, fastest, span), problems


def _row(name: str, by_name: dict[str, Signal], joint: Joint | None, fastest: float, span: float) -> JointCheck:
    def extreme(kind: str, function: Callable[[Array], float]) -> float | None:
        if kind not in by_name:
            return None
        values = by_name[kind].values
        values = values[np.isfinite(values)]
        return float(function(values)) if values.size else None

    allowed = np.inf if joint is None else joint.limits.upper - joint.limits.lower
    return JointCheck(
        name=name,
        position_min=extreme("position", np.min),
        position_max=extreme("position", np.max),
        coverage=span / allowed if 0 < allowed < np.inf else None,
        speed_max=fastest,
        effort_rms=extreme("effort", lambda x: float(np.sqrt(np.mean(x**2)))),
        effort_max=extreme("effort", lambda x: float(np.max(np.abs(x)))),
    )


def derived_velocity(t: Array, q: Array) -> Array:
    """Return dq/dt (N,) by central differences over about 20 ms, so that a coarse encoder does not matter."""
    finite = np.isfinite(q)
    if np.count_nonzero(finite) < 5:
        return np.full(len(t), np.nan)
    times, values = t[finite], q[finite]
    half = int(np.clip(round(0.5 * _SMOOTHING_S / float(np.median(np.diff(times)))), 1, len(times)))
    index = np.arange(len(times))
    before, after = np.maximum(index - half, 0), np.minimum(index + half, len(times) - 1)
    speed = np.full(len(t), np.nan)
    speed[finite] = (values[after] - values[before]) / (times[after] - times[before])
    return speed
