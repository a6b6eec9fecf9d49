# SPDX-License-Identifier: Apache-2.0

"""Check: is this recording usable?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction import PLAIN
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.validation.diagnosis import Finding, diagnose
from ros2_dynid.identification.validation.effort_scale import EffortEvidence
from ros2_dynid.model.robot import Robot
from ros2_dynid.recording.checks import (
    GREEN,
    RED,
    YELLOW,
    JointCheck,
    RecordingCheck,
    RecordingProblem,
    check_samples,
    with_problems,
)
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.samples import Reading, Samples, ordered
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class CheckRequest:
    """A recording (path), how it is read and prepared, and the robot it is of."""

    robot: RobotSource
    recording: str
    reading: Reading = field(default_factory=Reading)
    preparation: PreparationOptions = field(default_factory=PreparationOptions)


CheckOutcome = RecordingCheck


def check(request: CheckRequest) -> CheckOutcome:
    """Read and check the recording."""
    robot = request.robot.load()
    samples = read_samples(request.recording, robot, request.reading, in_order=False)
    return check_recording(samples, robot, request.preparation)


@small_matrices
def check_recording(samples: Samples, robot: Robot, preparation: PreparationOptions | None = None) -> CheckOutcome:
    """Check samples as recorded, and, as identification would, whether they are of this robot."""
    preparation = preparation or PreparationOptions()
    if samples.tau is not None:
        samples = replace(samples, tau=samples.tau * preparation.gains_of(robot))
    found = check_samples(samples, robot)
    if any(problem.level == RED for problem in found.problems if problem.kind != "position_unit"):
        return found  # identification would not come so far
    options = IdentifyOptions(preparation=replace(preparation, gains={}), friction=PLAIN)  # as the diagnosis looks
    try:
        problem = build_problem(robot, [ordered(samples)], options, lambda *_: None)
    except InputError as error:
        return with_problems(found, [RecordingProblem("unusable", RED, error.what, error.hint)])
    diagnosis = diagnose(problem, friction=options.friction)
    known = {p.joint for p in found.problems if p.kind == "position_unit"}
    more = [p for finding in diagnosis.findings for p in _problems(finding, robot) if p.joint not in known]
    return with_problems(_with_evidence(found, diagnosis.evidence), more)


def _problems(finding: Finding, robot: Robot) -> list[RecordingProblem]:
    """Return a finding as problems: one for the recording, or one that names its joints."""
    level = RED if finding.certain else YELLOW
    joint = finding.joints[0] if len(finding.joints) == 1 else None
    return [RecordingProblem(finding.kind, level, finding.what, finding.hint, joint)]


def _with_evidence(found: RecordingCheck, evidence: Sequence[EffortEvidence]) -> RecordingCheck:
    rows = [
        replace(
            row,
            gravity_scale=_known(seen.gravity_scale),
            gravity_correlation=_known(seen.gravity_r),
            friction_correlation=_known(seen.friction_r),
        )
        for row, seen in zip(found.joints, evidence, strict=True)
    ]
    return replace(found, joints=tuple(rows))


def _known(x: float) -> float | None:
    return None if np.isnan(x) else float(x)


__all__ = ["GREEN", "CheckOutcome", "CheckRequest", "JointCheck", "check", "check_recording"]
