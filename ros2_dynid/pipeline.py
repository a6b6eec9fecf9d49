"""Identification from recordings to a model: the method, step by step.

`identify` reads and prepares recordings, gathers what they say, estimates base parameters, tests them on data not used,
finds physical parameters, judges and writes. Recordings are paths or Samples; requests that name files and outcomes as
plain data are the use cases' (`ros2_dynid.usecases`). Progress is reported, and a caller can cancel.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import write_text
from ros2_dynid.blas import small_matrices
from ros2_dynid.codec import Plain, encode
from ros2_dynid.errors import InputError, MissingPackageError, Option, ProgrammeError, Text
from ros2_dynid.identification.account import (
    coverage_remarks,
    delay_of,
    elimination_of,
    friction_rows,
    friction_trials,
    notes_of,
    prior_remarks,
    prior_use,
    provenance,
    second_sensors,
    sensor_remarks,
    sensor_rows,
    speeds_and_loads,
)
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import Estimate, Fit, Problem, fitter
from ros2_dynid.identification.estimators.dissipative_fit import dissipative_fit
from ros2_dynid.identification.estimators.identified_terms import friction_covariance, identified_terms
from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.identification.estimators.least_squares import wls
from ros2_dynid.identification.estimators.prior import Draw, Drawn, Serve, drawn_fit
from ros2_dynid.identification.friction import PLAIN
from ros2_dynid.identification.judgement import (
    essential_remarks,
    held_friction_remarks,
    held_out_level,
    impossible_remarks,
    possible,
    predicted_recordings,
    refuse_wrong_data,
    served_set,
    validation_of,
    verdict_of,
)
from ros2_dynid.identification.loads import Gains, Payload, identify_load_on_model, identify_loads
from ros2_dynid.identification.loads.loaded_friction import (
    drive_gains_with_law,
    identify_load_on_model_with_law,
    identify_loads_with_law,
    law_of,
)
from ros2_dynid.identification.model_file import (
    BASE,
    CONSISTENT,
    IdentifiedModel,
    SetErrors,
    is_model_file,
    load_model,
    model_of,
    save_model,
)
from ros2_dynid.identification.options import PRIORS, SENSORS, IdentifyOptions
from ros2_dynid.identification.outcome import (
    IdentifyOutcome,
)
from ros2_dynid.identification.physical import Essential, essential
from ros2_dynid.identification.physical.parameter_sets import ESSENTIAL, imposed_on, set_fits
from ros2_dynid.identification.physical.prior_sources import described_prior, model_prior
from ros2_dynid.identification.physical_parameters import PhysicalParameters, physical_parameters
from ros2_dynid.identification.read_problem import (
    Recording,
    read_problem,
)
from ros2_dynid.identification.torque_data import TorqueData, save_torque_data
from ros2_dynid.identification.validation import (
    Level,
    Remark,
    fitted_torques,
    torque_errors,
)
from ros2_dynid.identification.validation.method_choice import method_choice
from ros2_dynid.identification.validation.sensor_side import found_sensors, sensor_sides
from ros2_dynid.identification.validation.torque_errors import held_out_in_folds
from ros2_dynid.model.effort_sensors import declared_sensors, with_sensors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot, with_gravity
from ros2_dynid.progress import Cancelled, Progress, Reporter
from ros2_dynid.report.build import DATA, MODEL, PAGE, write_page
from ros2_dynid.results import check_place, committed, digest

__all__ = [
    "Cancelled",
    "Identified",
    "IdentifyOptions",
    "check_output",
    "identify",
    "identify_gains",
    "identify_payload",
    "identify_payload_on_model",
    "identify_payloads",
    "read_problem",
    "robot_or_model",
]
SUMMARY = "summary.json"


@dataclass(frozen=True, eq=False)
class Identified:
    """The model, the outcome as data, the torques of the report ("fit", "validation"), and the model file written."""

    model: IdentifiedModel
    outcome: IdentifyOutcome
    torques: Mapping[str, TorqueData]
    path: Path | None = None

    @property
    def summary(self) -> dict[str, Plain]:
        """The outcome as plain data: what the command line prints as JSON."""
        data = encode(self.outcome)
        assert isinstance(data, dict)
        return data


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
    cancelled: Callable[[], bool] | None = None,
) -> Identified:
    """Identify the robot's base parameters from recordings (paths or Samples) and write output/model.yaml.

    An existing model in `output` is only replaced if `overwrite`; it is written last and atomically, so that neither an
    error nor a cancelled run harms it. Beside it: data.npz (torques measured and predicted), summary.json
    and report.html. command: what to type to repeat it, for the report.
    """
    options = options or IdentifyOptions()
    began, report = time.perf_counter(), Reporter(progress, cancelled)
    target = check_output(output, [*recordings, *validate], overwrite)
    if not recordings:
        raise InputError("there is no recording", "give at least one bag, csv or npz file")

    robot = sensing(robot, options)
    problem = read_problem(robot, recordings, options, report)
    if options.sensor == "found":
        at_link = found_sensors(sensor_sides(problem, wls(problem.information, problem.prior)))
        if at_link:
            robot = with_sensors(robot, at_link)
            problem = read_problem(robot, recordings, options, report)
    fit = fitter(options.method, problem, lambda done: report("estimating", 0.7 + 0.1 * done))
    found = fit(None)
    findings = refuse_wrong_data(problem, found, options.friction) if options.checks else ()
    choice = method_choice(problem, found, fit)
    sides = sensor_sides(problem, found)
    draws, drawn = _draws(problem, options), None
    if draws is not None:
        report("prior", 0.81)
        drawn = draws(fit, True)(None)
        found = drawn.estimate
    full, selection = found, None
    found = dissipative_fit(problem, full, drawn)
    values = {BASE: found.value}
    if options.essential:
        report("essential parameters", 0.82)
        selection = essential(problem.information, full, relative_std=options.essential_std)
        found = dissipative_fit(problem, selection.estimate, kept=selection.kept)
        values[ESSENTIAL] = found.value
    report("physical parameters", 0.84)
    as_found = possible(robot, problem.base, found.base)
    bodies = drawn is not None and drawn.weighing.weight > 0.0 and drawn.weighing.bodies
    physical = _physical(problem, found, selection, options, drawn, as_found=as_found and not bodies)
    if physical.value is not None:
        values[CONSISTENT] = physical.value

    report("validating", 0.85)
    tested = problem.to_test(options.method)
    quick = options.method is Method.WLS and not options.essential  # which are chosen by their error bars
    again = quick or tested is not problem
    tested_fit = fitter(options.method, tested, bars=not quick) if again else fit
    tested_draws = draws if tested is problem else _draws(tested, options)
    # a prior that does not help the estimate is not weighed with bodies in every fold: that takes a while
    weighed = drawn is not None and drawn.weighing.bodies
    made = partial(
        set_fits,
        tested,
        tested_fit,
        with_essential=ESSENTIAL in values,
        with_consistent=CONSISTENT in values,
        essential_std=options.essential_std,
        dropped=None if selection is None else sum(step.dropped for step in selection.steps),
    )
    fits = made(draw=None if tested_draws is None else tested_draws(tested_fit, weighed))
    level = held_out_level(tested, found, fits[BASE])
    held_out = predicted_recordings(problem, validate, values, replace(found, sigma=level), options, report)
    validations = {
        name: validation_of(problem, tested, fits[name], None if held_out is None else held_out[name], options)
        for name in values
    }
    sets = {
        name: SetErrors(torque_errors(robot.active_names, problem.information, value), validations[name].errors)
        for name, value in values.items()
    }
    same_draw = drawn is None or drawn.weighing.weight > 0.0  # in folds, as in the estimate
    judged = sets
    asked = options.consistent or bodies  # a prior that was weighed with bodies is served with them
    if CONSISTENT in sets and not asked and not (held_out is None and same_draw):
        names, k = robot.active_names, options.cross_validate
        plain = fits if same_draw else made()
        judged = {
            name: SetErrors(errors.fit, held_out_in_folds(names, tested.information, k, plain[name]).errors)
            for name, errors in sets.items()
        }
    served = served_set(judged, asked=asked)
    if held_out is None:  # nor may the errors that are shown speak against it
        served = min(served, served_set(sets, asked=asked), key=list(sets).index)
    validation, fitted = validations[served], fitted_torques(problem, values[served])

    errors = sets[served].fit
    doubts = [Remark(Level.PROBLEM, Text(finding.what, "; ", finding.hint)) for finding in findings]
    prior = None if drawn is None else prior_use(problem, drawn)
    if choice.reason is not None:
        doubts.append(Remark(Level.WARNING, choice.reason))
    remarks = [*doubts, *verdict_of(problem, found, errors, validation, fitted.white), *prior_remarks(prior)]
    remarks += essential_remarks(sets) + held_friction_remarks(problem, full, found)
    if not as_found and not options.consistent:
        remarks += impossible_remarks(judged, served)
    remarks += sensor_remarks(sides)
    remarks += coverage_remarks({} if held_out is None else held_out[served].coverage)
    obtained = provenance(options, problem, found, validation, remarks, command)
    obtained["band_sigma"] = encode(level)
    if np.isfinite(found.dof):
        obtained["dof"] = found.dof
    if prior is not None:
        obtained["prior"] = encode(prior)
    terms, tried = identified_terms(problem.terms, found), friction_trials(robot, problem.tried)
    if tried:
        obtained["friction_tried"] = encode(tried)
    obtained["used"] = speeds_and_loads(robot, problem, values[served], fitted.data)
    model = model_of(
        replace(robot, friction=terms),
        problem.base,
        found.base,
        found.base_std,
        found.base_covariance,
        essential=None if selection is None else tuple(problem.base.names[k] for k in selection.kept),
        standard=physical.standard,
        consistent=physical.consistent,
        fit=errors,
        validation=validation.errors,
        obtained=obtained,
        serve=CONSISTENT if served == CONSISTENT else BASE,
        sets=sets,
        friction_covariance=friction_covariance(problem.terms, found) if terms else None,
    )
    outcome = IdentifyOutcome(
        base=model.table(),
        essential=model.essential or (),
        standard=model.standard or {},
        consistent=model.consistent or {},
        fit=errors,
        validation=validation.errors,
        validated_by=validation.by,
        folds=validation.folds,
        cond=found.cond if np.isfinite(found.cond) else None,
        rows=int(problem.information.rows.sum()),
        method=options.method,
        filter=problem.prepared[0].filter,
        delay=delay_of(problem, found),
        verdict=tuple(remarks),
        notes=notes_of(problem),
        seconds=time.perf_counter() - began,
        elimination=None if selection is None else elimination_of(problem, selection),
        consistency=physical.consistency,
        serve=model.serve,
        sets=sets,
        band_coverage={} if held_out is None else held_out[served].coverage,
        friction=friction_rows(model.robot),
        friction_tried=tried,
        prior=prior,
        sensors=sensor_rows(robot, sides),
        second=second_sensors(problem),
        recommended=choice.method,
    )
    torques = {"fit": fitted.data} | ({} if held_out is None else {"validation": held_out[served].data})
    if target is not None:
        report("writing", 0.97)
        outcome = write_result(target.parent, model, replace(outcome, model=str(target)), torques)
    report("done", 1.0)
    return Identified(model, outcome, torques, target)


def _physical(
    problem: Problem,
    found: Estimate,
    selection: Essential | None,
    options: IdentifyOptions,
    drawn: Drawn | None,
    *,
    as_found: bool,
) -> PhysicalParameters:
    """Return the standard and consistent parameters asked for; the latter too where `found` is not to be served.

    as_found: whether it may be. Without the package of the semidefinite programme, or its solution, it is anyway.
    """
    if not as_found and not options.consistent:
        with contextlib.suppress(MissingPackageError, ProgrammeError):
            return physical_parameters(problem, found, selection, replace(options, consistent=True), drawn)
    return physical_parameters(problem, found, selection, options, drawn)


def sensing(robot: Robot, options: IdentifyOptions) -> Robot:
    """Return the robot with the torque sensors that the options declare, if they declare any."""
    return robot if options.sensor in SENSORS else declared_sensors(robot, options.sensor)


def _declared(robot: Robot, options: IdentifyOptions) -> Robot:
    """Return the same where efforts without and with a load are compared: sensors are not looked for there."""
    if options.sensor == "found":
        hint = "declare them, or identify the robot without the load first and give its model"
        raise InputError("torque sensors are not looked for beside a load", hint)
    return sensing(robot, options)


def _draws(problem: Problem, options: IdentifyOptions) -> Callable[[Fit, bool], Draw] | None:
    """Return what draws an estimator towards the prior asked for, None without one.

    It is also told whether to weigh the prior by bodies that exist; a given model is weighed without them.
    """
    if problem.second is not None and (options.essential or options.prior not in ("auto", "none")):
        what = "efforts at the motors and torques at the links are fitted together: without a prior, and all parameters"
        raise InputError(what, Text("leave out ", Option("essential", True), " and ", Option("prior")))
    if options.prior == "none" or options.essential or problem.second is not None:
        return None
    if options.prior not in PRIORS:
        prior = model_prior(problem, load_model(options.prior), options.prior)
        return lambda fit, bodies: drawn_fit(problem.information, fit, prior, force=True)
    described = described_prior(problem, guess=options.prior == "auto")
    force, serve = options.prior == "urdf", bodies_served(problem)
    return lambda fit, bodies: drawn_fit(
        problem.information, fit, described, force=force, serve=serve if bodies else None
    )


def bodies_served(problem: Problem) -> Serve | None:
    """Return what makes the values to serve of an estimate: bodies, where it has a prior or is of no possible robot.

    None without the package of the semidefinite programme.
    """
    if importlib.util.find_spec("clarabel") is None:
        return None

    def serve(part: Information, found: Estimate, drawn: Drawn | None) -> Array:
        if drawn is None and possible(problem.robot, problem.base, found.base):
            return found.value
        try:
            return found.with_base(imposed_on(problem, part, found, drawn).value).value
        except ProgrammeError:  # as `identify` serves it then
            return found.value

    return serve


@small_matrices
def identify_payload(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Sequence[Recording],
    *,
    link: str | None = None,
    free: bool = False,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Payload:
    """Identify a load on the robot's last link from recordings without and with it.

    The load is given in the frame of `link` (default: the first that the last joint carries, or the joint's frame); its
    ten parameters are those of a body that exists unless `free`.
    """
    found = identify_payloads(
        robot, empty, {"": loaded}, link=link, free=free, options=options, progress=progress, cancelled=cancelled
    )
    return found[""]


@small_matrices
def identify_payloads(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Mapping[str, Sequence[Recording]],
    *,
    link: str | None = None,
    free: bool = False,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Payload]:
    """Identify several loads by name, each from recordings of its own, in one fit; else as identify_payload."""
    options, report = options or IdentifyOptions(), Reporter(progress, cancelled)
    robot = _declared(robot, options)
    without = read_problem(robot, empty, options, report)
    plain = replace(options, friction=PLAIN)
    with_load = [read_problem(robot, recordings, plain, report) for recordings in loaded.values()]
    report("estimating", 0.9)
    link = _load_link(robot, link)
    terms = law_of(without)
    if terms:
        found = identify_loads_with_law(without, with_load, terms, link=link, free=free)
    else:
        rows = [part.information for part in with_load]
        found = identify_loads(robot, without.base, without.information, rows, link=link, free=free)
    return dict(zip(loaded, found, strict=True))


@small_matrices
def identify_payload_on_model(
    model: IdentifiedModel,
    loaded: Sequence[Recording],
    *,
    link: str | None = None,
    free: bool = False,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Payload:
    """Identify a load from recordings with it and the model of the robot without it; else as identify_payload."""
    options, report = options or IdentifyOptions(), Reporter(progress, cancelled)
    if options.sensor not in SENSORS:
        raise InputError("sensors are declared beside a model", "the model has its own: leave them out")
    problem = read_problem(model.robot, loaded, replace(options, friction=PLAIN), report)
    report("estimating", 0.9)
    link = _load_link(model.robot, link)
    if model.robot.friction:
        return identify_load_on_model_with_law(model, problem, link=link, free=free)
    return identify_load_on_model(model, problem.base, problem.information, link=link, free=free)


def _load_link(robot: Robot, link: str | None) -> str | None:
    carried = [name for name, (number, _) in robot.tools.items() if number == robot.n]
    return link if link is not None or not carried else carried[0]


@small_matrices
def identify_gains(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Sequence[Recording],
    mass: float,
    *,
    load: Array | None = None,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Gains:
    """Identify the drive gains from recordings without and with a load of known mass [kg].

    load: its ten parameters in the last joint's frame, shape (10,), if known: then all joints are fitted at once.
    """
    options, report = options or IdentifyOptions(), Reporter(progress, cancelled)
    plain, robot = replace(options, friction=PLAIN), _declared(robot, options)
    without, with_load = (read_problem(robot, part, plain, report) for part in (empty, loaded))
    report("estimating", 0.9)
    return drive_gains_with_law(without, with_load, options.friction, options.method, mass, load)


def robot_or_model(
    path: str | Path,
    *,
    use: str = "served",
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    joint_limits: str | Path | None = None,
    gravity: Sequence[float] | None = None,
) -> tuple[Robot, Array]:
    """Return the robot and standard parameters chi: of an identified model, or a robot's a priori ones.

    use: of a model, the set that it serves, its "base" values, or the "standard" or "consistent" parameters if it has
    them. The rest: which sub-chain of a robot, and gravity in its base link's frame (3,) [m/s^2]; a model keeps its
    own.
    """
    if is_model_file(path):
        model = load_model(path)
        if gravity is not None and not np.allclose(gravity, model.robot.gravity):
            what = f"the model was identified with gravity {model.robot.gravity.tolist()}"
            raise InputError(what, "base parameters hold for one mounting: identify again", str(path))
        if use == "served":
            return model.robot, model.chi
        if use == BASE:
            return model.robot, model.chi_of(model.value)
        values = model.standard if use == "standard" else model.consistent
        if values is None:
            what, hint = f"the model has no {use} parameters", Text("identify with ", Option(use, True))
            raise InputError(what, hint, str(path))
        return model.robot, standard_vector(model.robot, values)
    robot = load_robot(path, base_link=base_link, tip_link=tip_link, hold=hold, joint_limits=joint_limits)
    return robot if gravity is None else with_gravity(robot, gravity), standard_vector(robot)


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
