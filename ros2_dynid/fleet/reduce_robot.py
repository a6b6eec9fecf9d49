# SPDX-License-Identifier: Apache-2.0

"""The reduction for one robot: its recordings, prepared by the map, become its model by the stages of `identify`.

Beside the model: the estimate with plain friction, which robots of one kind share, and what each recording says by
itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np

from ros2_dynid import pipeline
from ros2_dynid.atomic import unsynced
from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.codegen.backend import MIN_BUILD_SAMPLES, regressor_function, torque_function
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.errors import DynidError
from ros2_dynid.fleet.map_recording import STORED_KINDS, Failed, MappedRecording, Source, StoredRecording
from ros2_dynid.fleet.robot_folder import RecordingRow, RobotResult, StoredRobot, file_names, store_robot
from ros2_dynid.fleet.store import unpacked
from ros2_dynid.fleet.trends import FrictionPoint, frictions_of
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, solve_weighted, wls
from ros2_dynid.model.parameters import standard_vector, unit_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.progress import ignore_progress
from ros2_dynid.report.build import MODEL


@dataclass(frozen=True, eq=False)
class RobotJob:
    """A robot with its recordings, as the map has stored them, and its recordings to validate on.

    stored: as bytes, or the files they are in, where the worker reaches the output folder. folder: where its model
    will be, as the files name it; command: what to type to repeat it. target: the folder to write the result into, with
    its key; None to hand the files back.
    """

    id: str
    robot: Robot
    options: IdentifyOptions
    sources: tuple[Source, ...]
    stored: tuple[bytes | Path, ...]
    validation: tuple[Source, ...]
    folder: str
    command: str
    key: str = ""
    target: Path | None = None


@dataclass(frozen=True, eq=False)
class Reduced:
    """A robot's result and the files of its model, none if there is no model; stored: if it is written already."""

    result: RobotResult
    files: Mapping[str, bytes]
    stored: StoredRobot | None = None


@small_matrices
def reduce_robot(job: RobotJob) -> Reduced | Failed:
    """Identify a robot from its recordings, as the map has stored them."""
    recordings = load_recordings(job)
    if isinstance(recordings, Failed):
        return recordings
    _build_dynamics(job.robot)
    try:
        problem = pipeline.pose_problem(job.robot, recordings, job.options, ignore_progress)
        plain = problem.plain()
        estimate = wls(plain.information, plain.prior)
    except DynidError as error:
        return _without_model(job, _without_estimate(job, str(error)))
    result = _compare_recordings(job, recordings, plain, estimate)
    return _identify(job, recordings, problem, result)


def load_recordings(job: RobotJob) -> list[StoredRecording] | Failed:
    """Return the recordings in the order of time, and of content where that is the same."""
    recordings: list[tuple[int, str, StoredRecording]] = []
    for source, data in zip(job.sources, job.stored, strict=True):
        mapped = unpacked(data, MappedRecording, STORED_KINDS)
        if mapped is None:
            return Failed("its stored R factors are missing or damaged", "repeat the command", source.place)
        recordings.append((mapped.start_ns, source.content, StoredRecording(source, mapped)))
    return [recording for _, _, recording in sorted(recordings, key=lambda one: one[:2])]


def _build_dynamics(robot: Robot) -> None:
    """Build the robot's compiled dynamics first, if they can be: a result must not depend on who built them when."""
    regressor_function(robot, MIN_BUILD_SAMPLES)
    torque_function(*frictionless(robot, standard_vector(robot)))


def _compare_recordings(
    job: RobotJob, recordings: Sequence[StoredRecording], plain: Problem, estimate: Estimate
) -> RobotResult:
    """Return the estimate with plain friction, and each recording beside it; the model is still missing."""
    robot, base, information = plain.robot, plain.base, plain.information
    top_speed = np.asarray(np.median([prepared.top_speed for prepared in plain.prepared], axis=0))
    points = frictions_of(robot, base, information, estimate, top_speed)
    own = information.recordings
    return RobotResult(
        id=job.id,
        joints=tuple(robot.active_names),
        names=tuple(base.names),
        units=tuple(unit_of(robot, leader) for leader in base.leaders),
        value=estimate.base,
        covariance=estimate.base_covariance,
        identified=estimate.base_identified,
        rows=tuple(_row(one, own[k], estimate, points[k]) for k, one in enumerate(recordings)),
        level="",
        verdict=(),
        fit={},
        validation={},
    )


def _identify(job: RobotJob, recordings: Sequence[StoredRecording], problem: Problem, result: RobotResult) -> Reduced:
    """Return the robot's model, or why there is none, beside the comparison of its recordings."""
    validate = [StoredRecording(source) for source in job.validation]
    try:
        identification = pipeline.identify_problem(problem, job.options, validate, ignore_progress, job.command)
    except DynidError as error:
        return _without_model(job, replace(result, level="bad", problem=str(error)))
    outcome = replace(identification.outcome, model=f"{job.folder}/{MODEL}")
    # The date of the data, and no duration: the same data give the same files.
    model = replace(
        identification.model, obtained={**identification.model.obtained, "created": _newest_date(recordings)}
    )
    levels = [str(remark.level.value) for remark in outcome.verdict]
    level = next((name for name in ("problem", "warning", "note") if name in levels), "good")
    texts = tuple(f"{remark.level.value}: {remark.text}" for remark in outcome.verdict)
    result = replace(result, level=level, verdict=texts, fit=dict(outcome.fit), validation=dict(outcome.validation))
    write = partial(pipeline.write_files, model=model, outcome=outcome, torques=identification.torques)
    if job.target is not None:
        return Reduced(result, {}, store_robot(job.target, job.key, result, write))
    with tempfile.TemporaryDirectory(prefix="dynid-") as place, unsynced():
        folder = Path(place)
        write(folder)
        return Reduced(result, {name: (folder / name).read_bytes() for name in file_names(folder)})


def _without_model(job: RobotJob, result: RobotResult) -> Reduced:
    return Reduced(result, {}, None if job.target is None else store_robot(job.target, job.key, result, None))


def _row(
    recording: StoredRecording, own: Information, estimate: Estimate, friction: FrictionPoint | None
) -> RecordingRow:
    """Return a recording in the robot's light, with its own information and friction."""
    assert recording.mapped is not None
    prepared, torque = recording.mapped.prepared, max(float(np.linalg.norm(joint_torques(own))), 1e-300)
    return RecordingRow(
        place=recording.source.place,
        together=float(np.linalg.norm(joint_errors(own, estimate.value))) / torque,
        alone=_error_alone(own),
        seconds=float(prepared.t[-1] - prepared.t[0]),
        time=recording.mapped.start_ns * 1e-9,
        friction=friction,
        notes=tuple(str(note) for note in prepared.notes[:5]),
    )


def _error_alone(information: Information) -> float:
    """Return the relative torque error of a recording under its own estimate; NaN if it has none."""
    try:
        error = np.linalg.norm(joint_errors(information, solve_weighted(information)[0].value))
    except DynidError:
        return float("nan")
    return float(error / max(float(np.linalg.norm(joint_torques(information))), 1e-300))


def _without_estimate(job: RobotJob, problem: str) -> RobotResult:
    base: BaseParameters = base_parameters(job.robot, method="closed-form")
    b, none = len(base), dict[str, TorqueError]()
    return RobotResult(
        job.id, tuple(job.robot.active_names), tuple(base.names),
        tuple(unit_of(job.robot, leader) for leader in base.leaders),
        np.zeros(b), np.zeros((b, b)), np.zeros(b, dtype=bool), (), "bad", (), none, none, problem,
    )  # fmt: skip


def _newest_date(recordings: Sequence[StoredRecording]) -> str:
    newest = max(one.mapped.start_ns for one in recordings if one.mapped is not None)
    return datetime.fromtimestamp(newest * 1e-9, timezone.utc).isoformat(timespec="seconds")
