"""The reduction for one robot: the R factors of its recordings become its model, by the code of `dynid identify`.

The choices that look at all recordings (cut-offs, delay, friction terms) are those of `pipeline.identify`, which asks
for what it needs of the samples (`distant`). Beside the model: the estimate with plain friction, which robots of one
kind share, and what each recording says by itself.
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
from ros2_dynid.errors import DynidError
from ros2_dynid.fleet.distant import Map, Recordings, here
from ros2_dynid.fleet.map_recording import KINDS, Failed, Outcome
from ros2_dynid.fleet.parts import Source
from ros2_dynid.fleet.robot_folder import RecordingRow, RobotResult, StoredRobot, file_names, store_robot
from ros2_dynid.fleet.store import read_whole, unpacked
from ros2_dynid.fleet.trends import FrictionPoint, frictions_of
from ros2_dynid.identification.estimators import Estimate, Information, combine, wls
from ros2_dynid.identification.estimators.least_squares import joint_errors, joint_torques
from ros2_dynid.identification.estimators.standstill import with_standstill
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.parameters import standard_vector, unit_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.report.build import MODEL


@dataclass(frozen=True, eq=False)
class RobotJob:
    """A robot with its recordings, their outcomes as they are stored, and its recordings to validate on.

    outcomes: as bytes, or the files they are in, where the worker reaches the output folder. folder: where its model
    will be, as the files name it; command: what to type to repeat it. target: the folder to write the result into, with
    its key; None to hand the files back.
    """

    id: str
    robot: Robot
    options: IdentifyOptions
    sources: tuple[Source, ...]
    outcomes: tuple[bytes | Path, ...]
    validation: tuple[Source, ...]
    folder: str
    command: str
    key: str = ""
    target: Path | None = None


@dataclass(frozen=True, eq=False)
class _Mapped:
    """A robot's recordings in order of time, and of content where that is the same, with their outcomes."""

    job: RobotJob
    sources: tuple[Source, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, eq=False)
class Reduced:
    """A robot's result and the files of its model, none if there is no model; stored: if it is written already."""

    result: RobotResult
    files: Mapping[str, bytes]
    stored: StoredRobot | None = None


def reduce_robot(job: RobotJob, run: Map = here) -> Reduced | Failed:
    """Identify a robot from the outcomes of its recordings; `run` maps questions about samples."""
    mapped = _in_order(job)
    if isinstance(mapped, Failed):
        return mapped
    return _reduced(mapped, run)


def _in_order(job: RobotJob) -> _Mapped | Failed:
    found = []
    for source, data in zip(job.sources, job.outcomes, strict=True):
        whole = read_whole(data) if isinstance(data, Path) else data
        if whole is None:
            return Failed("its outcome is gone from the output folder", "repeat the command", source.place)
        outcome = unpacked(whole, Outcome, KINDS)
        if outcome is None:
            return Failed("the stored outcome of a recording is foreign", "remove the folder outcomes", source.place)
        found.append((replace(source, long=outcome.long, twice=outcome.twice), outcome))
    found.sort(key=lambda one: (one[1].start_ns, one[0].content))
    sources, outcomes = zip(*found, strict=True)
    return _Mapped(job, sources, outcomes)


@small_matrices
def _reduced(mapped: _Mapped, run: Map) -> Reduced:
    job = mapped.job
    robot = job.robot
    base = base_parameters(robot, method="closed-form")
    together = with_standstill(combine([outcome.information for outcome in mapped.outcomes]))
    try:
        # With the a priori values of `identify`, which then has this fit already if it keeps to plain friction.
        found = wls(together, together.layout.vector(base.values(robot, standard_vector(robot))))
    except DynidError as error:
        return _without_model(job, _without_estimate(job, base, str(error)))
    top_speed = np.asarray(np.median([outcome.outline.top_speed for outcome in mapped.outcomes], axis=0))
    points = frictions_of(robot, base, together, found, top_speed)
    rows = tuple(_row(mapped, k, together.recordings[k], found, point) for k, point in enumerate(points))
    result = RobotResult(
        id=job.id,
        joints=tuple(robot.active_names),
        names=tuple(base.names),
        units=tuple(unit_of(robot, leader) for leader in base.leaders),
        value=found.base,
        covariance=found.base_covariance,
        identified=found.base_identified,
        rows=rows,
        level="",
        verdict=(),
        fit={},
        validation={},
    )
    return _identified(mapped, result, run)


def _identified(mapped: _Mapped, result: RobotResult, run: Map) -> Reduced:
    job = mapped.job
    sources = {source.place: source for source in (*mapped.sources, *job.validation)}
    known = {source.place: outcome for source, outcome in zip(mapped.sources, mapped.outcomes, strict=True)}
    recordings = Recordings(sources, known, run)
    try:
        found = pipeline.identify(
            job.robot,
            recordings.distant([source.place for source in mapped.sources]),
            options=job.options,
            validate=recordings.distant([source.place for source in job.validation]),
            command=job.command,
        )
    except DynidError as error:
        return _without_model(job, replace(result, level="bad", problem=str(error)))
    outcome = replace(found.outcome, model=f"{job.folder}/{MODEL}", seconds=0.0)
    # The date of the data, and no duration: the same data give the same files.
    model = replace(found.model, obtained={**found.model.obtained, "created": _date(mapped.outcomes)})
    levels = [str(remark.level.value) for remark in outcome.verdict]
    level = next((name for name in ("problem", "warning", "note") if name in levels), "good")
    texts = tuple(f"{remark.level.value}: {remark.text}" for remark in outcome.verdict)
    result = replace(result, level=level, verdict=texts, fit=dict(outcome.fit), validation=dict(outcome.validation))
    write = partial(pipeline.write_files, model=model, outcome=outcome, torques=found.torques)
    if job.target is not None:
        return Reduced(result, {}, store_robot(job.target, job.key, result, write))
    with tempfile.TemporaryDirectory(prefix="dynid-") as place, unsynced():
        folder = Path(place)
        write(folder)
        return Reduced(result, {name: (folder / name).read_bytes() for name in file_names(folder)})


def _without_model(job: RobotJob, result: RobotResult) -> Reduced:
    return Reduced(result, {}, None if job.target is None else store_robot(job.target, job.key, result, None))


def _row(mapped: _Mapped, k: int, own: Information, found: Estimate, friction: FrictionPoint | None) -> RecordingRow:
    """Return recording number k, with its own information and friction."""
    outcome = mapped.outcomes[k]
    torque = max(float(np.linalg.norm(joint_torques(own))), 1e-300)
    return RecordingRow(
        place=mapped.sources[k].place,
        together=float(np.linalg.norm(joint_errors(own, found.value))) / torque,
        alone=outcome.alone,
        seconds=float(outcome.outline.t[-1] - outcome.outline.t[0]),
        time=outcome.start_ns * 1e-9,
        friction=friction,
        notes=tuple(str(note) for note in outcome.outline.notes[:5]),
    )


def _without_estimate(job: RobotJob, base: BaseParameters, problem: str) -> RobotResult:
    b = len(base)
    none: dict[str, TorqueError] = {}
    return RobotResult(
        job.id, tuple(job.robot.active_names), tuple(base.names),
        tuple(unit_of(job.robot, leader) for leader in base.leaders),
        np.zeros(b), np.zeros((b, b)), np.zeros(b, dtype=bool), (), "bad", (), none, none, problem,
    )  # fmt: skip


def _date(outcomes: Sequence[Outcome]) -> str:
    newest = max(outcome.start_ns for outcome in outcomes)
    return datetime.fromtimestamp(newest * 1e-9, timezone.utc).isoformat(timespec="seconds")
