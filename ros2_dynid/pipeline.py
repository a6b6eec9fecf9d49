"""Identification from recordings to a model: the method, step by step.

`identify` reads and prepares recordings, gathers what they say, estimates base parameters, tests them on data not used,
finds physical parameters, judges and writes. Recordings are paths or Samples; requests that name files and outcomes as
plain data are the use cases' (`ros2_dynid.usecases`). Progress is reported, and a caller can cancel.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import write_text
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.codec import Plain, encode
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import Estimate, Fit, Problem, fitter, inform
from ros2_dynid.identification.estimators.carried_torque import with_carried
from ros2_dynid.identification.estimators.friction_law import identified_terms, with_law
from ros2_dynid.identification.estimators.friction_selection import Trial
from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.identification.estimators.large_delay import without_large_delay
from ros2_dynid.identification.estimators.least_squares import weighted_triangle
from ros2_dynid.identification.estimators.lower_cutoff import lower_cutoff
from ros2_dynid.identification.estimators.prior import Draw, Drawn, drawn_fit
from ros2_dynid.identification.friction import PLAIN
from ros2_dynid.identification.loads import Gains, Payload, identify_load, identify_load_on_model
from ros2_dynid.identification.loads.loaded_friction import (
    drive_gains_with_law,
    identify_load_on_model_with_law,
    identify_load_with_law,
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
from ros2_dynid.identification.options import PRIORS, IdentifyOptions
from ros2_dynid.identification.outcome import (
    Consistency,
    Delay,
    Elimination,
    EliminationStep,
    FrictionRow,
    FrictionTrial,
    IdentifyOutcome,
    PriorUse,
)
from ros2_dynid.identification.physical import Essential, closest, essential, made_consistent
from ros2_dynid.identification.physical.consistency import smallest_joint_inertia
from ros2_dynid.identification.physical.consistency import table as consistent_counts
from ros2_dynid.identification.physical.essential import largest_rows, share_of_largest
from ros2_dynid.identification.physical.parameter_sets import ESSENTIAL, imposed_on, set_fits
from ros2_dynid.identification.physical.prior_sources import described_prior, has_masses, model_prior
from ros2_dynid.identification.physical.standard import essential_change, full_map, on_leaders, with_drives
from ros2_dynid.identification.preparation import Filter, Prepared, effort_later, prepare, prepare_pieces
from ros2_dynid.identification.preparation.elsewhere import Distant, changed, over
from ros2_dynid.identification.preparation.rows import row_chunks
from ros2_dynid.identification.torque_data import TorqueData, save_torque_data
from ros2_dynid.identification.torque_std import TorqueScatter, band_level
from ros2_dynid.identification.validation import (
    Comparison,
    Errors,
    HeldOut,
    Level,
    Remark,
    ValidatedBy,
    compare_torques,
    evidence_of,
    held_out_in_folds,
    torque_errors,
    verdict,
)
from ros2_dynid.identification.validation.diagnosis import Finding, diagnose, refuse
from ros2_dynid.identification.validation.effort_scale import refuse_contradictions
from ros2_dynid.identification.validation.method_choice import method_choice
from ros2_dynid.identification.validation.torque_errors import whiteness
from ros2_dynid.model.friction_kinds import UNITS, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot, with_gravity
from ros2_dynid.notes import Note, remark
from ros2_dynid.progress import Cancelled, Progress, Reporter
from ros2_dynid.recording.ahead import ahead
from ros2_dynid.recording.in_order import ClockSetBackError, in_order, joined_samples
from ros2_dynid.recording.read import iter_samples
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.streamed import streamed
from ros2_dynid.report.build import DATA, MODEL, PAGE, write_page
from ros2_dynid.results import check_place, committed, digest
from ros2_dynid.version import __version__

__all__ = [
    "Cancelled",
    "Identified",
    "IdentifyOptions",
    "check_output",
    "identify",
    "identify_gains",
    "identify_payload",
    "identify_payload_on_model",
    "read_problem",
    "robot_or_model",
]
SUMMARY = "summary.json"
COVERED = 0.9
"""Share of held-out rows inside the 95 % band of the torque below which the error bars do not hold."""
PIECE = 200_000
"""Samples of a recording held at a time."""
Recording = str | Path | Samples | Distant


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


@dataclass(frozen=True)
class PhysicalParameters:
    """Standard and consistent parameters by name, as far as asked for, and how many links are consistent.

    value: base parameters and delay of the consistent ones.
    """

    standard: Mapping[str, float] | None = None
    consistent: Mapping[str, float] | None = None
    value: Array | None = None
    consistency: Consistency | None = None


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

    problem = read_problem(robot, recordings, options, report)
    fit = fitter(options.method, problem, lambda done: report("estimating", 0.7 + 0.1 * done))
    found = fit(None)
    findings = _refuse_wrong_data(problem, found) if options.checks else ()
    choice = method_choice(problem, found)
    draw, drawn = _draw(problem, fit, options), None
    if draw is not None:
        report("prior", 0.81)
        drawn = draw(None)
        found = drawn.estimate
    values, selection = {BASE: found.value}, None
    if options.essential:
        report("essential parameters", 0.82)
        selection = essential(problem.information, found, relative_std=options.essential_std)
        found = selection.estimate
        values[ESSENTIAL] = found.value
    report("physical parameters", 0.84)
    physical = _physical_parameters(problem, found, selection, options, drawn)
    if physical.value is not None:
        values[CONSISTENT] = physical.value
    served = list(values)[-1]

    report("validating", 0.87)
    fitted = compare_torques(robot, problem.base, problem.prepared, values[served], problem.prior, terms=problem.terms)
    fits = set_fits(
        problem,
        fit,
        with_essential=ESSENTIAL in values,
        with_consistent=CONSISTENT in values,
        essential_std=options.essential_std,
        draw=draw,
    )
    level = _band_level(problem, found, fits[BASE])
    held_out = _held_out(problem, validate, values, replace(found, sigma=level), options, report)
    validations = {
        name: _validation(problem, fits[name], None if held_out is None else held_out[name], options) for name in values
    }
    validation = validations[served]
    sets = {
        name: SetErrors(torque_errors(robot.active_names, problem.information, value), validations[name].errors)
        for name, value in values.items()
    }

    errors = sets[served].fit
    doubts = [Remark(Level.PROBLEM, Text(finding.what, "; ", finding.cure)) for finding in findings]
    prior = None if drawn is None else _prior_use(problem, drawn)
    if choice.reason is not None:
        doubts.append(Remark(Level.WARNING, choice.reason))
    remarks = [*doubts, *_verdict(problem, found, errors, validation, fitted), *_prior_remarks(prior)]
    remarks += _coverage_remarks({} if held_out is None else held_out[served].coverage)
    obtained = _provenance(options, problem, found, validation, remarks, command)
    obtained["band_sigma"] = encode(level)
    if np.isfinite(found.dof):
        obtained["dof"] = found.dof
    if prior is not None:
        obtained["prior"] = encode(prior)
    terms = identified_terms(problem.terms, found)
    if terms:
        obtained["used"] = _speeds_and_loads(robot, problem, values[served], fitted.data)
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
        delay=_delay(problem, found),
        verdict=tuple(remarks),
        notes=_notes(problem),
        seconds=time.perf_counter() - began,
        elimination=None if selection is None else _elimination(problem, selection),
        consistency=physical.consistency,
        serve=model.serve,
        sets=sets,
        band_coverage={} if held_out is None else held_out[served].coverage,
        friction=_friction_rows(model.robot),
        friction_tried=_friction_trials(robot, problem.tried),
        prior=prior,
        recommended=choice.method,
    )
    torques = {"fit": fitted.data} | ({} if held_out is None else {"validation": held_out[served].data})
    if target is not None:
        report("writing", 0.97)
        outcome = write_result(target.parent, model, replace(outcome, model=str(target)), torques)
    report("done", 1.0)
    return Identified(model, outcome, torques, target)


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
    options, report = options or IdentifyOptions(), Reporter(progress, cancelled)
    without = read_problem(robot, empty, options, report)
    with_load = read_problem(robot, loaded, replace(options, friction=PLAIN), report)
    report("estimating", 0.9)
    link = _load_link(robot, link)
    terms = law_of(without)
    if terms:
        return identify_load_with_law(without, with_load, terms, link=link, free=free)
    return identify_load(robot, without.base, without.information, with_load.information, link=link, free=free)


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
    plain = replace(options, friction=PLAIN)
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
            what, cure = f"the model has no {use} parameters", Text("identify with ", Option(use, True))
            raise InputError(what, cure, str(path))
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


@small_matrices
def read_problem(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, report: Progress) -> Problem:
    """Read and prepare the recordings, and gather what they say about the base parameters."""
    base = base_parameters(robot, method="closed-form")
    chosen = options.preparation

    def read() -> list[Prepared]:
        return _all_prepared(robot, recordings, options, report, (0.05, 0.3))

    def informed(prepared: Sequence[Prepared]) -> Information:
        on_chunk = partial(_regressor_done, report)
        return inform(robot, base, prepared, on_chunk, delay=chosen.delay is None)

    prepared = read()
    information = informed(prepared)
    if chosen.row_cutoff is None and chosen.position_cutoff is None:
        lower = lower_cutoff(prepared, information, informed)
        if lower is not None:
            note = remark(f"the cut-off proposed lets too much noise in: rows are filtered at {lower:g} Hz instead")
            options = replace(options, preparation=replace(chosen, row_cutoff=lower))
            prepared = [replace(part, notes=(*part.notes, note)) for part in read()]
            information = informed(prepared)
    prepared, information = without_large_delay(prepared, information, informed)
    law = with_law(robot, base, prepared, information, options.friction, options.method)
    prior = law.information.layout.vector(base.values(robot, standard_vector(robot)))
    return Problem(robot, base, law.prepared, law.information, prior, law.terms, law.tried)


def _regressor_done(report: Progress, done: float) -> None:
    report("regressor", 0.35 + 0.35 * done)


def _all_prepared(
    robot: Robot,
    recordings: Sequence[Recording],
    options: IdentifyOptions,
    report: Progress,
    span: tuple[float, float],
    filters: Filter | None = None,
) -> list[Prepared]:
    """Return the recordings prepared; span: of the progress, where it begins and how long it is."""
    distant = [recording for recording in recordings if isinstance(recording, Distant)]
    if distant:
        report("reading recordings", span[0])
        found = distant[0].place.prepare(robot, distant, options.preparation, options.reading, filters)
        return found if filters is None else [effort_later(p, filters.delay - p.filter.delay) for p in found]
    return [
        _prepared(robot, part, options, report, span[0] + span[1] * k / len(recordings), filters=filters)
        for k, part in enumerate(recordings)
    ]


def _prepared(
    robot: Robot,
    recording: Recording,
    options: IdentifyOptions,
    report: Progress,
    at: float,
    filters: Filter | None = None,
) -> Prepared:
    """Return a recording prepared; a file is read once, in pieces, and twice if its clock was set back.

    filters: of the recordings fitted to, which those held out pass too, and whose efforts were as late.
    """
    report("reading recordings", at)
    found = _prepared_as_recorded(robot, recording, options, report, at, filters)
    return found if filters is None else effort_later(found, filters.delay - found.filter.delay)


def _prepared_as_recorded(
    robot: Robot,
    recording: Recording,
    options: IdentifyOptions,
    report: Progress,
    at: float,
    filters: Filter | None,
) -> Prepared:
    assert not isinstance(recording, Distant)
    if isinstance(recording, Samples):
        return prepare(robot, recording, options.preparation, filters=filters)
    for pieces in (pieces_read_once, pieces_read_twice):
        notes: list[Note] = []
        reading = pieces(robot, recording, options.reading, notes)
        try:
            found = prepare_pieces(robot, _reported(ahead(reading), report, at), options.preparation, filters=filters)
        except ClockSetBackError:
            continue
        return replace(found, notes=tuple(dict.fromkeys((*notes, *found.notes))))
    raise AssertionError("a recording read twice is always in order")


def pieces_read_once(
    robot: Robot, path: str | Path | RemoteFile, reading: Reading, notes: list[Note]
) -> Generator[Samples]:
    """Yield a recording in order, PIECE samples at a time; ClockSetBackError if that takes two readings."""
    yield from in_order(
        lambda found: iter_samples(path, robot, reading=reading, notes=found),
        notes,
        reading.start,
        reading.end,
        size=PIECE,
    )


def pieces_read_twice(
    robot: Robot, path: str | Path | RemoteFile, reading: Reading, notes: list[Note]
) -> Generator[Samples]:
    """Yield the same where the clock was set back: the longest stretch of it."""
    recording = streamed(
        lambda found: iter_samples(path, robot, reading=reading, notes=found), reading.start, reading.end
    )
    waiting: list[Samples] = []
    for chunk in recording.pieces:
        waiting.append(chunk)
        if sum(map(len, waiting)) >= PIECE:
            yield joined_samples(waiting)
            waiting = []
    if waiting:
        yield joined_samples(waiting)
    notes += recording.outline.notes


def _reported(pieces: Iterator[Samples], report: Progress, at: float) -> Iterator[Samples]:
    for piece in pieces:
        report("reading recordings", at)
        yield piece


def _friction_rows(robot: Robot) -> tuple[FrictionRow, ...]:
    return tuple(
        FrictionRow(
            name=term.name,
            joint=robot.joints[term.joint - 1].name,
            term=str(term.kind),
            value=term.coefficient,
            std=term.std,
            unit=UNITS[term.kind][robot.joints[term.joint - 1].sigma],
            speed=term.speed or None,
            speed_std=term.speed_std,
        )
        for term in robot.friction
    )


def _friction_trials(robot: Robot, tried: Sequence[Trial]) -> tuple[FrictionTrial, ...]:
    return tuple(
        FrictionTrial(
            name="+".join(term.name for term in trial.terms),
            joint=robot.joints[trial.joint - 1].name,
            term="+".join(str(term.kind) for term in trial.terms),
            gain=trial.gain,
            scatter=trial.scatter,
            chosen=trial.chosen,
            speed=max(term.speed for term in trial.terms) or None,
        )
        for trial in tried
    )


def _refuse_wrong_data(problem: Problem, found: Estimate) -> tuple[Finding, ...]:
    """Refuse what is certainly wrong with the recordings; return what is likely."""
    sources = [prepared.source for prepared in problem.prepared]
    findings = diagnose(problem).findings
    refuse(findings, sources[0])
    refuse_contradictions(problem.information, found.value, sources)
    return findings


def _draw(problem: Problem, fit: Fit, options: IdentifyOptions) -> Draw | None:
    """Return the estimator drawn towards the prior asked for; None without one."""
    if options.prior == "none" or options.essential:
        return None
    if options.prior not in PRIORS:
        prior = model_prior(problem, load_model(options.prior), options.prior)
        return drawn_fit(problem.information, fit, prior, force=True)
    if options.prior == "auto" and not has_masses(problem.robot):
        return None
    return drawn_fit(problem.information, fit, described_prior(problem), force=options.prior == "urdf")


def _prior_use(problem: Problem, drawn: Drawn) -> PriorUse:
    shares = drawn.share[problem.information.layout.base]
    return PriorUse(
        source=drawn.prior.source,
        weight=drawn.weighing.weight,
        gain=drawn.weighing.gain,
        scatter=drawn.weighing.scatter,
        share=drawn.base_share,
        parameters=dict(zip(problem.base.names, shares.tolist(), strict=True)),
    )


def _prior_remarks(prior: PriorUse | None) -> list[Remark]:
    """Say how much of the model is not the data's."""
    if prior is None or prior.weight == 0.0:
        return []
    most = [name for name, share in prior.parameters.items() if share > 0.5]
    text = (
        f"{100 * prior.share:.0f} % of what is said about the base parameters comes from {prior.source}, which lowers "
        f"the held-out error by {100 * prior.gain:.0f} +- {100 * prior.scatter:.0f} %; mostly from there: "
        f"{', '.join(most) or 'none'}"
    )
    return [Remark(Level.NOTE, text)]


def _held_out(
    problem: Problem,
    recordings: Sequence[Recording],
    values: Mapping[str, Array],
    found: Estimate,
    options: IdentifyOptions,
    report: Progress,
) -> dict[str, Comparison] | None:
    """Return how the value of each parameter set predicts recordings that it was not fitted to.

    The band of the prediction is that of the estimate `found`.
    """
    if not recordings:
        return None
    filters = max(problem.prepared, key=lambda fitted: len(fitted.t) / fitted.filter.inner_rate).filter
    prepared = _all_prepared(problem.robot, recordings, options, report, (0.85, 0.0), filters)
    spread = TorqueScatter(found.covariance, found.identified, found.sigma, found.dof)
    compared = {}
    for name, value in values.items():
        if problem.terms:
            own = value[problem.information.layout.base]
            carrying = partial(with_carried, problem.robot, problem.base, own)
            prepared = [changed(carrying, part, same_rows=True) for part in prepared]
        compared[name] = compare_torques(
            problem.robot, problem.base, prepared, value, problem.prior, spread=spread, terms=problem.terms
        )
    return compared


def _band_level(problem: Problem, found: Estimate, fit: Fit) -> Array:
    """Return the level of errors that the band of predictions allows for: that of stretches left out in turn."""
    names = problem.robot.active_names
    tested = held_out_in_folds(names, problem.information, None, fit).errors
    return band_level(problem.information, found, np.array([tested[name].rms for name in names]) if tested else None)


def _coverage_remarks(coverage: Mapping[str, float]) -> list[Remark]:
    """Say whether the 95 % band of the prediction holds on data that were not used."""
    if "all" not in coverage:
        return []
    share = coverage["all"]
    text = f"the 95 % band of the torque holds {100 * share:.0f} % of the held-out rows"
    if share >= COVERED:
        return [Remark(Level.GOOD, text)]
    low = [name for name, one in coverage.items() if one < COVERED and name != "all"]
    text += f", too few at {', '.join(low)}: the error bars do not hold there; record longer, and more varied motion"
    return [Remark(Level.WARNING, text)]


def _validation(problem: Problem, fit: Fit, held_out: Comparison | None, options: IdentifyOptions) -> HeldOut:
    if held_out is not None:
        return HeldOut(held_out.errors, ValidatedBy.RECORDINGS)
    return held_out_in_folds(problem.robot.active_names, problem.information, options.cross_validate, fit)


def _physical_parameters(
    problem: Problem,
    found: Estimate,
    selection: Essential | None,
    options: IdentifyOptions,
    drawn: Drawn | None = None,
) -> PhysicalParameters:
    """Return the standard and consistent parameters asked for, and how many links are consistent (Table III)."""
    if not (options.standard or options.consistent):
        return PhysicalParameters()
    robot, base, names = problem.robot, problem.base, standard_names(problem.robot)
    a_priori = standard_vector(robot)
    reference, weights = made_consistent(robot, a_priori), 1.0 / found.sigma
    consistency = Consistency(a_priori=consistent_counts(robot, a_priori))
    standard = consistent = value = None
    if options.standard:
        full = found if selection is None else fitter(Method.WLS, problem)(None)
        chi = closest(robot, base, full.base, reference, options.distance)
        consistency = replace(consistency, base=consistent_counts(robot, chi))
        if selection is not None:
            known = with_drives(robot, chi, reference)
            change = essential_change(robot, base, problem.information, weights, selection.kept, known, found.value)
            if options.distance == "euclidean":
                chi = on_leaders(robot, base, change - full_map(robot, base) @ known, known)
            else:
                chi = closest(robot, base, change, known)
            consistency = replace(consistency, essential=consistent_counts(robot, chi))
        standard = dict(zip(names, chi.tolist(), strict=True))
        consistency = replace(consistency, smallest_joint_inertia=smallest_joint_inertia(robot, chi))
    if options.consistent:
        information = problem.information
        imposed = imposed_on(problem, information, found, drawn)
        value = found.with_base(imposed.value).value
        consistent = dict(zip(names, imposed.chi.tolist(), strict=True))
        consistency = replace(
            consistency,
            imposed=consistent_counts(robot, imposed.chi),
            fit=torque_errors(robot.active_names, information, value),
            loss=imposed.loss,
            smallest_joint_inertia_imposed=smallest_joint_inertia(robot, imposed.chi),
        )
    return PhysicalParameters(standard, consistent, value, consistency)


def _speeds_and_loads(robot: Robot, problem: Problem, value: Array, data: TorqueData) -> dict[str, Plain]:
    """Return, by joint, the top speed [rad/s or m/s] and the mean torque that its gear carried [N.m or N]."""
    chi = np.zeros(len(standard_names(robot)))
    chi[problem.base.columns(robot)] = value[problem.information.layout.base]
    load = np.mean(np.abs(inverse_dynamics(*frictionless(robot, chi), data.q, data.dq, data.ddq)), axis=0)
    top = np.max(np.abs(data.dq), axis=0)
    pairs = zip(robot.active_names, top.tolist(), load.tolist(), strict=True)
    return {name: {"speed": speed, "load": carried} for name, speed, carried in pairs}


def _elimination(problem: Problem, selection: Essential) -> Elimination:
    """Return the steps of the elimination, and the largest share of a joint's torque that each parameter makes."""
    names, found = problem.base.names, selection.estimate
    columns, delay = problem.base.columns(problem.robot), bool(problem.information.layout.n_delay)
    largest = over(partial(_largest_rows, problem.robot, columns, delay, problem.terms), problem.prepared)
    W, tau = (np.max(part, axis=0) for part in zip(*(one for one in largest if one is not None), strict=True))
    share = share_of_largest(W, tau, found.value)
    steps = tuple(
        EliminationStep(
            parameter=names[step.parameter],
            relative_std=step.relative_std if np.isfinite(step.relative_std) else None,
            statistic=step.statistic,
            limit=step.limit,
            dropped=step.dropped,
        )
        for step in selection.steps
    )
    return Elimination(steps, dict(zip(names, share[found.layout.base].tolist(), strict=True)))


def _largest_rows(
    robot: Robot,
    columns: Sequence[int],
    delay: bool,
    terms: Sequence[FrictionTerm],
    whole: Prepared,
    parts: Iterable[Prepared],
) -> tuple[Array, Array] | None:
    return largest_rows(rows for part in parts for rows in row_chunks(robot, part, columns, delay=delay, terms=terms))


def _verdict(problem: Problem, found: Estimate, fit: Errors, validation: HeldOut, fitted: Comparison) -> list[Remark]:
    robot, base, information = problem.robot, problem.base, problem.information
    names = robot.active_names
    prior_error = None
    if np.any(problem.prior):
        prior_error = torque_errors(names, information, problem.prior)["all"].relative
    settings = problem.prepared[0].filter
    lag = 1 if settings.row_cutoff is None else max(1, round(settings.row_rate / settings.row_cutoff))
    return verdict(
        evidence_of(
            robot,
            base,
            information,
            found,
            fit,
            validation,
            prior_error=prior_error,
            whiteness=whiteness(names, fitted.residual, lag),
            seconds=sum(float(p.t[-1] - p.t[0]) for p in problem.prepared),
            terms=problem.terms,
        )
    )


def _provenance(
    options: IdentifyOptions,
    problem: Problem,
    found: Estimate,
    validation: HeldOut,
    remarks: Sequence[Remark],
    command: str,
) -> dict[str, Plain]:
    """Return how the model was obtained, for the model file."""
    prepared = problem.prepared
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "method": found.method.value,
        "options": encode(options),
        "data": [
            {"source": p.source, "seconds": float(p.t[-1] - p.t[0]), "rate": p.filter.rate, "segments": len(p.segments)}
            for p in prepared
        ],
        "filter": encode(prepared[0].filter),
        "rows": int(problem.information.rows.sum()),
        "cond": encode(found.cond),
        "singular_values": _singular_values(problem, found),
        "rank": found.rank,
        "sigma": encode(found.sigma),
        "delay": encode(_delay(problem, found)),
        "validated_by": {"data": validation.by.value, "folds": validation.folds},
        "verdict": [encode(remark) for remark in remarks],
        "notes": list(_notes(problem)),
        "versions": {"ros2_dynid": __version__, "numpy": np.__version__, "python": platform.python_version()},
        **({"command": command} if command else {}),
    }


def _delay(problem: Problem, found: Estimate) -> Delay:
    """Return how late the effort was in all: what it was moved by, and what was estimated of the rest."""
    estimated = bool(found.layout.n_delay) and np.isfinite(found.delay_std)
    return Delay(problem.prepared[0].filter.delay + found.delay, found.delay_std if estimated else None)


def _notes(problem: Problem) -> tuple[str, ...]:
    return tuple(note.text for prepared in problem.prepared for note in prepared.notes)


def _singular_values(problem: Problem, found: Estimate) -> list[float]:
    """Return the singular values of the weighted W with columns scaled to unit norm; the effort's delay is left out."""
    known = found.sigma.shape == (problem.information.n,) and bool(np.all(found.sigma > 0.0))
    weights = 1.0 / found.sigma if known else np.ones(problem.information.n)
    W = weighted_triangle(problem.information, weights).base
    norms = np.linalg.norm(W, axis=0)
    return [float(s) for s in np.linalg.svd(W / np.where(norms > 0.0, norms, 1.0), compute_uv=False)]


def write_result(
    folder: Path, model: IdentifiedModel, outcome: IdentifyOutcome, torques: Mapping[str, TorqueData]
) -> IdentifyOutcome:
    """Write data.npz, summary.json, model.yaml and the report together; return the outcome with the page's name.

    The outcome names the model file already.
    """
    with committed(folder, last=MODEL) as new:
        save_torque_data(new / DATA, torques)
        write_text(new / SUMMARY, json.dumps(encode(outcome), indent=1))
        digests = {name: digest(new / name) for name in (DATA, SUMMARY)}
        save_model(replace(model, obtained={**model.obtained, "files": digests}), new / MODEL)
        page = write_page(new, model, torques, figures=False)
    return replace(outcome, report=str(folder / page.name))
