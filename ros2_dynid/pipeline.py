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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import committed, digest, write_text
from ros2_dynid.blas import small_matrices
from ros2_dynid.codec import encode
from ros2_dynid.dynamics.standing import check_standing
from ros2_dynid.errors import InputError
from ros2_dynid.identification.candidates import build_candidates
from ros2_dynid.identification.estimation import estimate_parameters
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.model_file import IdentifiedModel, TorqueData, save_model, save_torque_data
from ros2_dynid.identification.options import SENSORS, IdentifyOptions
from ros2_dynid.identification.problem import Problem, build_problem
from ros2_dynid.identification.recordings import Recording
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.result import Identification, IdentifyOutcome, assemble_identification, assemble_servos
from ros2_dynid.identification.scores import score_candidates
from ros2_dynid.identification.served_set import choose_candidate
from ros2_dynid.identification.validation.sensor_side import compare_sensor_sides, find_link_sensors
from ros2_dynid.model.efforts import declared_sensors, with_gain, with_sensors
from ros2_dynid.model.robot import Robot
from ros2_dynid.output_files import check_folder, locked_folder
from ros2_dynid.progress import Progress, ignore_progress
from ros2_dynid.recording.read import iter_samples, read_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.report.build import DATA, MODEL, PAGE, write_page

SUMMARY = "summary.json"
RESULT_FILES = (MODEL, DATA, SUMMARY, PAGE, "tables/base_parameters.csv", "tables/base_parameters.tex")


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
    with reserved_output(output, [*recordings, *validate], overwrite) as target:
        if has_only_commands(robot, recordings, options):
            identification = identify_servo_recordings(robot, recordings, validate, options, report, command)
        else:
            problem = pose_problem(robot, recordings, options, report)
            identification = identify_problem(problem, options, validate, report, command)
        outcome = replace(identification.outcome, seconds=time.perf_counter() - began)
        if target is not None:
            report("writing", 0.97)
            outcome = replace(outcome, model=str(target))
            outcome = write_result(target.parent, identification.model, outcome, identification.torques)
    report("done", 1.0)
    return replace(identification, outcome=outcome)


def has_only_commands(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions) -> bool:
    """Return whether the recordings begin with commanded positions and no efforts: those of position servos."""
    if not recordings:
        return False
    first = recordings[0]
    if isinstance(first, str | Path):
        first = next(iter_samples(first, robot, reading=options.reading))
    if not isinstance(first, Samples) or first.q_r is None or np.isnan(first.q_r).all():
        return False
    return first.tau_l is None and (first.tau is None or bool(np.isnan(first.tau).all()))


def identify_servo_recordings(
    robot: Robot,
    recordings: Sequence[Recording],
    validate: Sequence[Recording],
    options: IdentifyOptions,
    report: Progress,
    command: str = "",
) -> Identification:
    """Return the model of position servos from recordings of commands and positions, without efforts."""
    from ros2_dynid.identification.servo.identify import identify_servos  # few robots have position servos

    report("reading recordings", 0.02)
    fitted, unseen = ([_in_memory(robot, recording, options) for recording in some] for some in (recordings, validate))
    model, verdict = identify_servos(robot, fitted, unseen, report, command=command)
    notes = dict.fromkeys(str(note) for samples in (*fitted, *unseen) for note in samples.notes)
    return assemble_servos(model, verdict, tuple(notes))


def _in_memory(robot: Robot, recording: Recording, options: IdentifyOptions) -> Samples:
    if isinstance(recording, Samples):
        return recording
    if isinstance(recording, str | Path):
        return read_samples(recording, robot, options.reading)
    raise InputError("position servos are identified from files or samples", "give the files themselves")


def pose_problem(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, report: Progress) -> Problem:
    """Return the problem of recordings; which torque the efforts are is declared, or found by a first estimate."""
    if not recordings:
        raise InputError("there is no recording", "give at least one bag, csv or npz file")
    robot = declare_sensors(robot, options)
    if options.standing:
        robot, options = replace(robot, standing=options.standing), replace(options, friction=PLAIN)
        check_standing(robot)
    problem = build_problem(robot, recordings, options, report)
    if options.sensor == "found":
        sensors = find_link_sensors(compare_sensor_sides(problem, wls(problem.information, problem.prior)))
        if sensors:
            measures = {
                joint.name: replace(joint.measured, drive=sensors[joint.name])
                for joint in robot.joints
                if joint.name in sensors
            }
            return build_problem(with_sensors(robot, measures), recordings, options, report)
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
    """Return the robot with the torque sensors and the drive gains that the options declare, if they declare any.

    A model must know its gains: at run time they turn measured efforts into torques.
    """
    robot = robot if options.sensor in SENSORS else declared_sensors(robot, options.sensor)
    if not options.preparation.gains:
        return robot
    gains = zip(robot.active, options.preparation.gains_of(robot).tolist(), strict=True)
    known = {robot.joints[j - 1].name: with_gain(robot.joints[j - 1].measured, gain) for j, gain in gains}
    return with_sensors(robot, {name: known[name] for name in options.preparation.gains})


@contextmanager
def reserved_output(
    output: str | Path | None, recordings: Sequence[Recording], overwrite: bool
) -> Iterator[Path | None]:
    """Yield the model file to write, the folder's lock held; refuse what is a recording, or not to be replaced."""
    if output is None:
        yield None
        return
    folder, inputs = Path(output), [recording for recording in recordings if isinstance(recording, str | Path)]
    with locked_folder(folder):
        check_folder(folder, RESULT_FILES, inputs=inputs, overwrite=overwrite)
        yield folder / MODEL


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
