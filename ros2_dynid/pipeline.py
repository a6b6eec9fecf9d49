# SPDX-License-Identifier: Apache-2.0

"""Identification from recordings to a model: the method, stage by stage.

    Recordings -> Prepared -> Problem -> Estimation -> Candidates -> Scores -> Choice -> Identification

Each arrow is a function of a module of `identification`, with immutable results. Recordings are paths or Samples;
requests that name files and outcomes as plain data are the use cases' (`ros2_dynid.usecases`). Progress is reported,
and a caller stops the work by raising from its callback.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ros2_dynid.atomic import check_place, committed, digest, write_text
from ros2_dynid.blas import small_matrices
from ros2_dynid.codec import encode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.candidates import build_candidates
from ros2_dynid.identification.choice import choose_candidate
from ros2_dynid.identification.estimation import estimate_parameters
from ros2_dynid.identification.model_file import (
    IdentifiedModel,
    TorqueData,
    save_model,
    save_torque_data,
)
from ros2_dynid.identification.options import SENSORS, IdentifyOptions
from ros2_dynid.identification.problem import Problem, build_problem
from ros2_dynid.identification.recordings import Recording
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.result import Identification, IdentifyOutcome, assemble_identification
from ros2_dynid.identification.scores import score_candidates
from ros2_dynid.identification.validation.sensor_side import compare_sensor_sides, find_link_sensors
from ros2_dynid.model.efforts import declared_sensors, with_sensors
from ros2_dynid.model.robot import Robot
from ros2_dynid.progress import Progress, ignore_progress
from ros2_dynid.report.build import DATA, MODEL, PAGE, write_page

SUMMARY = "summary.json"


@small_matrices
def identify(
    robot: Robot,
    recordings: Sequence[Recording],
    *,
    options: IdentifyOptions | None = None,
    validate: Sequence[Recording] = (),
    output: str | Path | None = None,
    overwrite: bool = False,
    command: str = "",
    progress: Progress | None = None,
) -> Identification:
    """Identify the robot's base parameters from recordings (paths or Samples) and write output/model.yaml.

    An existing model in `output` is only replaced if `overwrite`; it is written last and atomically, so that neither an
    error nor a cancelled run harms it. Beside it: data.npz (torques measured and predicted), summary.json
    and report.html. command: what to type to repeat it, for the report.
    """
    options, report, began = options or IdentifyOptions(), progress or ignore_progress, time.perf_counter()
    target = check_output(output, [*recordings, *validate], overwrite)
    problem = pose_problem(robot, recordings, options, report)
    identification = identify_problem(problem, options, validate, report, command)
    outcome = replace(identification.outcome, seconds=time.perf_counter() - began)
    if target is not None:
        report("writing", 0.97)
        outcome = replace(outcome, model=str(target))
        outcome = write_result(target.parent, identification.model, outcome, identification.torques)
    report("done", 1.0)
    return replace(identification, outcome=outcome)


def pose_problem(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, report: Progress) -> Problem:
    """Return the problem of recordings; which torque the efforts are is declared, or found by a first estimate."""
    if not recordings:
        raise InputError("there is no recording", "give at least one bag, csv or npz file")
    robot = declare_sensors(robot, options)
    problem = build_problem(robot, recordings, options, report)
    if options.sensor == "found":
        sensors = find_link_sensors(compare_sensor_sides(problem, wls(problem.information, problem.prior)))
        if sensors:
            return build_problem(with_sensors(robot, sensors), recordings, options, report)
    return problem


def identify_problem(
    problem: Problem, options: IdentifyOptions, validate: Sequence[Recording], report: Progress, command: str = ""
) -> Identification:
    """Return the model of a problem: estimate, parameter sets, their scores, the choice between them."""
    estimation = estimate_parameters(problem, options, report)
    candidates = build_candidates(problem, estimation, options, report)
    scores = score_candidates(problem, estimation, candidates, validate, options, report)
    choice = choose_candidate(problem, estimation, candidates, scores, options)
    return assemble_identification(problem, estimation, candidates, scores, choice, options, command)


def declare_sensors(robot: Robot, options: IdentifyOptions) -> Robot:
    """Return the robot with the torque sensors that the options declare, if they declare any."""
    return robot if options.sensor in SENSORS else declared_sensors(robot, options.sensor)


def check_output(output: str | Path | None, recordings: Sequence[Recording], overwrite: bool) -> Path | None:
    """Return the model file to write, or refuse a folder whose files are recordings, or not to be replaced."""
    if output is None:
        return None
    inputs = [recording for recording in recordings if isinstance(recording, str | Path)]
    check_place(Path(output), (MODEL, DATA, SUMMARY, PAGE), inputs=inputs, overwrite=overwrite)
    return Path(output) / MODEL


def write_result(
    folder: Path, model: IdentifiedModel, outcome: IdentifyOutcome, torques: Mapping[str, TorqueData]
) -> IdentifyOutcome:
    """Write data.npz, summary.json, model.yaml and the report together; return the outcome with the page's name.

    The outcome names the model file already.
    """
    with committed(folder, last=MODEL) as new:
        page = write_files(new, model, outcome, torques)
    return replace(outcome, report=str(folder / page.name))


def write_files(
    folder: Path, model: IdentifiedModel, outcome: IdentifyOutcome, torques: Mapping[str, TorqueData]
) -> Path:
    """Write the files of write_result into a folder that nobody reads yet; return the page."""
    save_torque_data(folder / DATA, torques)
    write_text(folder / SUMMARY, json.dumps(encode(outcome), indent=1))
    digests = {name: digest(folder / name) for name in (DATA, SUMMARY)}
    save_model(replace(model, obtained={**model.obtained, "files": digests}), folder / MODEL)
    return write_page(folder, model, torques, figures=False)
