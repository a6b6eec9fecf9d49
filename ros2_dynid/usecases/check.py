# SPDX-License-Identifier: Apache-2.0

"""Check: are these recordings usable?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.options import SENSORS, IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.even_grid import find_repeats
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.least_squares import solve_weighted
from ros2_dynid.identification.validation.diagnosis import Diagnosis, diagnose, refuse_contradictions
from ros2_dynid.identification.validation.finding import Finding
from ros2_dynid.model.efforts import declared_sensors
from ros2_dynid.model.robot import Robot
from ros2_dynid.recording.checks import (
    GREEN,
    RED,
    YELLOW,
    JointCheck,
    RecordingCheck,
    RecordingProblem,
    check_samples,
    replace_problems,
    with_problems,
)
from ros2_dynid.recording.checks.problems import worst
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.samples import Reading, Samples, ordered
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class CheckRequest:
    """Recordings (paths), how they are read and prepared, the robot they are of, and what its efforts hold."""

    robot: RobotSource
    recordings: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)
    preparation: PreparationOptions = field(default_factory=PreparationOptions)
    sensor: str = SENSORS[0]


@dataclass(frozen=True)
class RecordingsCheck:
    """Several recordings of one robot: the worst verdict, each by itself, and the problems of all together."""

    verdict: str
    recordings: tuple[RecordingCheck, ...]
    problems: tuple[RecordingProblem, ...]


CheckOutcome = RecordingCheck | RecordingsCheck


def check(request: CheckRequest) -> CheckOutcome:
    """Read and check the recordings."""
    robot = request.robot.load()
    if request.sensor not in SENSORS:
        robot = declared_sensors(robot, request.sensor)
    samples = [read_samples(path, robot, request.reading, in_order=False) for path in request.recordings]
    if len(samples) == 1:
        return check_recording(samples[0], robot, request.preparation)
    return check_recordings(samples, robot, request.preparation)


@small_matrices
def check_recording(samples: Samples, robot: Robot, preparation: PreparationOptions | None = None) -> RecordingCheck:
    """Check samples as recorded, and, as identification would, whether they are of this robot."""
    (samples,), preparation = _with_gains([samples], robot, preparation)
    result = _check_alone(samples, robot)
    if _ends_early([result]):
        return result
    diagnosis, problems = _judge_together([samples], [result], robot, preparation)
    if diagnosis is None:
        return with_problems(result, problems)
    rows = tuple(
        replace(
            row,
            gravity_scale=_or_none(evidence.gravity_scale),
            gravity_correlation=_or_none(evidence.gravity_r),
            friction_correlation=_or_none(evidence.friction_r),
        )
        for row, evidence in zip(result.joints, diagnosis.evidence, strict=True)
    )
    return with_problems(replace(result, joints=rows), problems)


@small_matrices
def check_recordings(
    samples: Sequence[Samples], robot: Robot, preparation: PreparationOptions | None = None
) -> RecordingsCheck:
    """Check each recording, and, as identification would, all of them together; a joint has to move in one of them."""
    samples, preparation = _with_gains(samples, robot, preparation)
    results = [_check_alone(one, robot) for one in samples]
    everywhere = set.intersection(*({p.joint for p in one.problems if p.kind == "coverage"} for one in results))
    results = [
        replace_problems(one, [p for p in one.problems if p.kind != "coverage" or p.joint in everywhere])
        for one in results
    ]
    together = [] if _ends_early(results) else _judge_together(samples, results, robot, preparation)[1]
    verdict = worst((*(one.verdict for one in results), *(problem.level for problem in together)))
    return RecordingsCheck(verdict, tuple(results), tuple(together))


def _with_gains(
    samples: Sequence[Samples], robot: Robot, preparation: PreparationOptions | None
) -> tuple[list[Samples], PreparationOptions]:
    """Return the samples with the gains in their efforts, and a preparation without gains."""
    preparation = preparation or PreparationOptions()
    gains = preparation.gains_of(robot)
    scaled = [one if one.tau is None else replace(one, tau=one.tau * gains) for one in samples]
    return scaled, replace(preparation, gains=dict.fromkeys(robot.active_names, 1.0))


def _check_alone(samples: Samples, robot: Robot) -> RecordingCheck:
    """Return the check of a recording as such, with samples that a driver publishes again."""
    known = ordered(samples.take(np.asarray(np.isfinite(samples.q).all(axis=1))))
    share = float(np.mean(find_repeats(known.q))) if len(known) > 1 else 0.0
    what = f"{100 * share:.2g} % of the samples repeat the one before although the joints move"
    do = "they are left out; let the driver publish each sample once, or record at the rate at which it reads"
    repeats = [RecordingProblem("repeat", YELLOW, what, do)] if share > 0.0 else []
    return with_problems(check_samples(samples, robot), repeats)


def _ends_early(results: Sequence[RecordingCheck]) -> bool:
    """Return whether identification would not come so far as to compare the recordings with the robot."""
    reached = ("position_unit", "coverage")  # of joints that stood still, identification tells those that hardly moved
    return any(p.level == RED and p.kind not in reached for result in results for p in result.problems)


def _judge_together(
    samples: Sequence[Samples], results: Sequence[RecordingCheck], robot: Robot, preparation: PreparationOptions
) -> tuple[Diagnosis | None, list[RecordingProblem]]:
    """Return what identification says of the recordings as recordings of this robot, beside what is known of each."""
    options = IdentifyOptions(preparation=preparation, friction=PLAIN)  # other laws if need be
    try:
        problem = build_problem(robot, [ordered(one) for one in samples], options, lambda *_: None)
    except InputError as error:
        still = any(p.level == RED and p.kind == "coverage" for result in results for p in result.problems)
        return None, [] if still else [RecordingProblem("unusable", RED, error.what, error.hint)]
    diagnosis = diagnose(problem, options.friction)
    in_degrees = {p.joint for result in results for p in result.problems if p.kind == "position_unit"}
    problems = [
        problem
        for problem in map(_as_problem, diagnosis.findings)
        if problem.joint not in in_degrees and not (in_degrees and problem.kind == "position_unit")
    ]
    if not any(problem.level == RED for problem in problems):
        sources = [part.source for part in problem.prepared]
        try:
            refuse_contradictions(problem.information, solve_weighted(problem.information)[0].value, sources)
        except InputError as error:
            problems.append(RecordingProblem("contradiction", RED, f"{error.source}: {error.what}", error.hint))
    return diagnosis, problems


def _as_problem(finding: Finding) -> RecordingProblem:
    """Return a finding as a problem of the recording, or of its joint if it is about one."""
    level = RED if finding.certain else YELLOW
    joint = finding.joints[0] if len(finding.joints) == 1 else None
    return RecordingProblem(finding.kind, level, finding.what, finding.hint, joint)


def _or_none(x: float) -> float | None:
    return None if np.isnan(x) else float(x)


__all__ = [
    "GREEN",
    "CheckOutcome",
    "CheckRequest",
    "JointCheck",
    "RecordingsCheck",
    "check",
    "check_recording",
    "check_recordings",
]
