# SPDX-License-Identifier: Apache-2.0

"""Check: is this recording usable?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.validation.diagnosis import Finding, diagnose
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
    result = check_samples(samples, robot)
    if any(problem.level == RED for problem in result.problems if problem.kind != "position_unit"):
        return result  # identification would not come so far
    options = IdentifyOptions(preparation=replace(preparation, gains={}), friction=PLAIN)  # other laws if need be
    try:
        problem = build_problem(robot, [ordered(samples)], options, lambda *_: None)
    except InputError as error:
        return with_problems(result, [RecordingProblem("unusable", RED, error.what, error.hint)])
    diagnosis = diagnose(problem, options.friction)
    degree_joints = {p.joint for p in result.problems if p.kind == "position_unit"}
    more = [p for p in map(_as_problem, diagnosis.findings) if p.joint not in degree_joints]
    rows = tuple(
        replace(
            row,
            gravity_scale=_or_none(evidence.gravity_scale),
            gravity_correlation=_or_none(evidence.gravity_r),
            friction_correlation=_or_none(evidence.friction_r),
        )
        for row, evidence in zip(result.joints, diagnosis.evidence, strict=True)
    )
    return with_problems(replace(result, joints=rows), more)


def _as_problem(finding: Finding) -> RecordingProblem:
    """Return a finding as a problem of the recording, or of its joint if it is about one."""
    level = RED if finding.certain else YELLOW
    joint = finding.joints[0] if len(finding.joints) == 1 else None
    return RecordingProblem(finding.kind, level, finding.what, finding.hint, joint)


def _or_none(x: float) -> float | None:
    return None if np.isnan(x) else float(x)


__all__ = ["GREEN", "CheckOutcome", "CheckRequest", "JointCheck", "check", "check_recording"]
