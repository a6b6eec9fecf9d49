# SPDX-License-Identifier: Apache-2.0

"""The reduction for one robot: its recordings, prepared by the map, become its model by the stages of `identify`.

Beside the model: the estimate with plain friction, which robots of one kind share, and what each recording says by
itself. The folder of a robot has the files of its model, and its result with the key of what it was made from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ros2_dynid import pipeline
from ros2_dynid.atomic import committed, digest, unsynced
from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.codegen.backend import MIN_BUILD_SAMPLES, regressor_function, torque_function
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.errors import DynidError
from ros2_dynid.fleet.map_recording import STORED_KINDS, Failed, MappedRecording, Source, StoredRecording
from ros2_dynid.fleet.store import ENDING, packed, read_whole, unpacked, write_whole
from ros2_dynid.fleet.trends import FrictionPoint, friction_of
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, solve_weighted, wls
from ros2_dynid.model.parameters import standard_vector, unit_of
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.progress import ignore_progress
from ros2_dynid.report.build import MODEL, PAGE

OWN = f"robot{ENDING}"


@dataclass(frozen=True, eq=False)
class RecordingRow:
    """A recording in the robot's light: relative torque error under the robot's estimate and under its own, duration
    [s], first stamp [s since 1970, 0: not known], friction."""

    place: str
    together: float
    alone: float
    seconds: float
    time: float
    friction: FrictionPoint | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RobotResult:
    """A robot reduced: the plain estimate of its base parameters, its recordings, the verdict on its model.

    problem: why there is no model.
    """

    id: str
    joints: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    value: Array
    covariance: Array
    identified: NDArray[np.bool_]
    rows: tuple[RecordingRow, ...]
    level: str
    verdict: tuple[str, ...]
    fit: dict[str, TorqueError]
    validation: dict[str, TorqueError]
    problem: str = ""


@dataclass(frozen=True, eq=False)
class StoredRobot:
    """A robot's result with the key of what it was made from, and the digests of its model's files by name."""

    key: str
    result: RobotResult
    files: dict[str, str]


KINDS = (FrictionPoint, RecordingRow, RobotResult, StoredRobot, TorqueError)
"""All that a stored robot may hold."""


def stored_robot(folder: Path) -> StoredRobot | None:
    """Return the result that an earlier run left, None if there is none or a file of its model is not that one."""
    data = read_whole(folder / OWN)
    record = None if data is None else unpacked(data, StoredRobot, KINDS)
    if record is None or not isinstance(record.files, dict):
        return None
    whole = all((folder / name).is_file() and digest(folder / name) == own for name, own in record.files.items())
    return record if whole else None


def store_robot(folder: Path, key: str, result: RobotResult, write: Callable[[Path], object] | None) -> StoredRobot:
    """Write a robot: the files of its model, then its result with their digests; the key comes last.

    write: writes the files into the folder that it is given, None if there is no model: those of an earlier one are
    taken away. Nobody waits for the disk: after a power cut the digests tell, and the robot is identified again.
    """
    (folder / OWN).unlink(missing_ok=True)
    digests: dict[str, str] = {}
    if write is not None:
        with unsynced(), committed(folder, last=MODEL) as new:
            write(new)
            digests = {name: digest(new / name) for name in file_names(new)}
    else:
        for name in (MODEL, PAGE):
            (folder / name).unlink(missing_ok=True)
    record = StoredRobot(key, result, digests)
    write_whole(folder / OWN, packed(record))
    return record


def put(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a model that was made elsewhere."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def file_names(folder: Path) -> list[str]:
    """Return the names of all files below a folder, relative to it, in order."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


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
    own = information.recordings
    points = [friction_of(robot, base, one, estimate, top_speed) for one in own.values()]
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
    newest = max(one.mapped.start_ns for one in recordings if one.mapped is not None)
    created = datetime.fromtimestamp(newest * 1e-9, timezone.utc).isoformat(timespec="seconds")
    model = replace(identification.model, obtained={**identification.model.obtained, "created": created})
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
