"""The use cases, which the command line and the nodes both call: progress is told, and a caller can cancel."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.atomic import write_text
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.codec import encode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.fit import Problem, fitter, inform
from ros2_dynid.identification.estimators.least_squares import Estimate, weighted_triangle
from ros2_dynid.identification.loads.drive_gains import Gains, drive_gains
from ros2_dynid.identification.loads.payload import Payload, identify_load
from ros2_dynid.identification.model_file import (
    IdentifiedModel,
    is_model_file,
    load_model,
    model_of,
    plain,
    save_model,
)
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical.consistency import impose, made_consistent, smallest_joint_inertia
from ros2_dynid.identification.physical.consistency import table as consistency_table
from ros2_dynid.identification.physical.essential import Essential, essential, significance
from ros2_dynid.identification.physical.standard import closest, essential_change, with_drives
from ros2_dynid.identification.preparation import Prepared, prepare, prepare_pieces
from ros2_dynid.identification.torque_data import evidence, save_evidence
from ros2_dynid.identification.validation.effort_scale import against_prior, refuse_strangers, refuse_wrong_efforts
from ros2_dynid.identification.validation.torque_errors import (
    Errors,
    Series,
    cross_validate,
    series,
    torque_errors,
    whiteness,
)
from ros2_dynid.identification.validation.verdict import Remark, verdict
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note
from ros2_dynid.progress import Cancelled, Progress, Reporter
from ros2_dynid.recording.read import iter_samples
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.streamed import streamed
from ros2_dynid.report.build import write_report
from ros2_dynid.version import __version__

__all__ = [
    "Cancelled",
    "Identified",
    "IdentifyOptions",
    "check_output",
    "identify",
    "identify_gains",
    "identify_payload",
    "read_problem",
    "robot_or_model",
]
PIECE = 200_000
"""Samples of a recording held at a time."""
Recording = str | Path | Samples


@dataclass(frozen=True, eq=False)
class Identified:
    """The outcome: the model, and what the command line prints as JSON (`summary`)."""

    model: IdentifiedModel
    summary: dict[str, Any]
    path: Path | None = None


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
    begin, tell = time.perf_counter(), Reporter(progress, cancelled)
    target = check_output(output, overwrite)
    if not recordings:
        raise InputError("there is no recording", "give at least one bag, csv or npz file")
    problem = read_problem(robot, recordings, options, tell)
    base, information, names = problem.base, problem.information, robot.active_names
    sources = [p.source for p in problem.prepared]
    fit_to = fitter(options.method, problem, lambda done: tell("estimating", 0.7 + 0.1 * done))
    found = fit_to(None)
    if options.checks:
        refuse_strangers(information, found.value, sources)
        refuse_wrong_efforts(robot, base, information, sources[0])
    kept = None
    if options.essential:
        tell("essential parameters", 0.82)
        kept = essential(information, found, always=[len(base)])
        found = kept.estimate
    fit = torque_errors(names, information, found.value)
    validation: Errors = {}
    held_out: list[Prepared] = []
    tell("validating", 0.85)
    if validate:
        held_out = [_prepared(robot, recording, options, tell, 0.85) for recording in validate]
        validation = torque_errors(names, inform(robot, base, held_out), found.value)
    elif options.cross_validate:
        validation = cross_validate(names, information, options.cross_validate, fit_to)
    tell("standard parameters", 0.9)
    physical = _standard(problem, found, kept, options)
    chi = np.zeros(len(standard_names(robot)))
    chi[base.columns(robot)] = found.value[:-1]
    parts = [series(robot, p, chi, float(found.value[-1])) for p in problem.prepared]
    remarks = _verdict(problem, found, fit, validation, parts)
    obtained = provenance(options, problem, found, remarks) | ({"command": command} if command else {})
    model = model_of(
        robot,
        base,
        found.value[:-1],
        found.std[:-1],
        found.covariance[:-1, :-1],
        essential=None if kept is None else tuple(base.names[k] for k in kept.kept),
        standard=physical.get("standard"),
        consistent=physical.get("consistent"),
        fit=fit,
        validation=validation,
        obtained=obtained,
    )
    summary = {
        "base": model.table(),
        "essential": [] if model.essential is None else list(model.essential),
        "standard": dict(model.standard or {}),
        "consistent": dict(model.consistent or {}),
        "fit": fit,
        "validation": validation,
        "cond": found.cond,
        "rows": int(information.rows.sum()),
        "method": options.method.value,
        "filter": obtained["filter"],
        "delay": obtained["delay"],
        "verdict": obtained["verdict"],
        "notes": obtained["notes"],
        **({"elimination": _elimination(problem, kept, found)} if kept is not None else {}),
        **({"consistency": physical["consistency"]} if "consistency" in physical else {}),
        "seconds": time.perf_counter() - begin,
        "model": None if target is None else str(target),
    }
    if target is not None:
        tell("writing", 0.97)
        target.parent.mkdir(parents=True, exist_ok=True)
        sets = {"fit": problem.prepared, "validation": held_out}
        columns = base.columns(robot)
        save_evidence(
            target.parent / "data.npz",
            {key: evidence(robot, p, columns, found.value, problem.prior) for key, p in sets.items() if p},
        )
        write_text(target.parent / "summary.json", json.dumps(plain(summary), indent=1))
        save_model(model, target)
        summary["report"] = str(write_report(target.parent, figures=False))
    tell("done", 1.0)
    return Identified(model, summary, target)


def read_problem(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, tell: Progress) -> Problem:
    """Read and prepare the recordings, and gather what they say about the base parameters."""
    base = base_parameters(robot, method="closed-form")
    prepared = []
    for k, recording in enumerate(recordings):
        prepared.append(_prepared(robot, recording, options, tell, 0.05 + 0.3 * k / len(recordings)))
    information = inform(robot, base, prepared, lambda done: tell("regressor", 0.35 + 0.35 * done))
    prior = np.append(base.values(robot, standard_vector(robot)), 0.0)
    halves = partial(_halves, robot, recordings, options, tell)
    return Problem(robot, base, tuple(prepared), information, prior, halves)


def identify_payload(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Sequence[Recording],
    *,
    link: str | None = None,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Payload:
    """Identify a load on the robot's last link from recordings without and with it.

    The load is given in the frame of `link` (default: the first that the last joint carries, or the joint's frame).
    """
    options, tell = options or IdentifyOptions(), Reporter(progress, cancelled)
    without, with_load = (read_problem(robot, part, options, tell) for part in (empty, loaded))
    tell("estimating", 0.9)
    carried = [name for name, (number, _) in robot.tools.items() if number == robot.n]
    link = link if link is not None or not carried else carried[0]
    return identify_load(robot, without.base, without.information, with_load.information, link=link)


def identify_gains(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Sequence[Recording],
    mass: float,
    *,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Gains:
    """Identify the drive gains from recordings without and with a load of known mass [kg]."""
    options, tell = options or IdentifyOptions(), Reporter(progress, cancelled)
    without, with_load = (read_problem(robot, part, options, tell) for part in (empty, loaded))
    tell("estimating", 0.9)
    return drive_gains(robot, without.base, without.information, with_load.information, mass)


def _standard(problem: Problem, found: Estimate, kept: Essential | None, options: IdentifyOptions) -> dict[str, Any]:
    """Return the standard and consistent parameters asked for, and how many links are consistent (Table III)."""
    if not (options.standard or options.consistent):
        return {}
    robot, base, names = problem.robot, problem.base, standard_names(problem.robot)
    reference = made_consistent(robot, standard_vector(robot))
    value, delay = found.value[:-1], float(found.value[-1])
    weights = 1.0 / found.sigma
    out: dict[str, Any] = {"consistency": {"a_priori": consistency_table(robot, standard_vector(robot))}}
    if options.standard:
        full = value if kept is None else fitter(Method.WLS, problem)(None).value[:-1]
        chi = closest(robot, base, full, reference)
        out["consistency"]["base"] = consistency_table(robot, chi)
        if kept is not None:
            known = with_drives(robot, chi, reference)
            fitted = essential_change(robot, base, problem.information, weights, kept.kept, known, delay)
            chi = closest(robot, base, fitted, known)
            out["consistency"]["essential"] = consistency_table(robot, chi)
        out["standard"] = dict(zip(names, chi.tolist(), strict=True))
        out["consistency"]["smallest_joint_inertia"] = smallest_joint_inertia(robot, chi)
    if options.consistent:
        R = weighted_triangle(problem.information, weights)
        imposed = impose(robot, base, R, delay, reference)
        out["consistent"] = dict(zip(names, imposed.chi.tolist(), strict=True))
        out["consistency"]["imposed"] = consistency_table(robot, imposed.chi)
        out["consistency"]["fit"] = torque_errors(
            robot.active_names, problem.information, np.append(imposed.value, delay)
        )
        out["consistency"]["loss"] = imposed.loss
        out["consistency"]["smallest_joint_inertia_imposed"] = smallest_joint_inertia(robot, imposed.chi)
    return out


def _elimination(problem: Problem, kept: Essential, found: Estimate) -> dict[str, Any]:
    """Return the steps of the elimination, and the largest share of a joint's torque that each parameter makes."""
    names = problem.base.names
    share = significance((rows for p in problem.prepared for rows in problem.rows(p)), found.value)
    steps = [{**asdict(step), "parameter": names[step.parameter]} for step in kept.steps]
    return {"steps": steps, "torque_share": dict(zip(names, share[: len(names)].tolist(), strict=True))}


def _verdict(
    problem: Problem, found: Estimate, fit: Errors, validation: Errors, parts: Sequence[Series]
) -> list[Remark]:
    robot, base, information = problem.robot, problem.base, problem.information
    names = robot.active_names
    drives = [k for k, leader in enumerate(base.leaders) if group_of(leader) != "inertial"] + [len(base)]
    prior_error = None
    if np.any(problem.prior):
        prior_error = torque_errors(names, information, problem.prior)["all"]["relative"]
    settings = problem.prepared[0].filter
    lag = 1 if settings.row_cutoff is None else max(1, round(settings.row_rate / settings.row_cutoff))
    return verdict(
        robot,
        base,
        found,
        fit,
        validation,
        prior_error=prior_error,
        prior_scale=against_prior(information, problem.prior, drives),
        whiteness=whiteness(names, parts[0], lag),
        delay=(float(found.value[-1]), float(found.std[-1])),
        largest=np.max([np.nanmax(np.abs(part.tau), axis=0) for part in parts], axis=0),
        seconds=sum(float(p.t[-1] - p.t[0]) for p in problem.prepared),
    )


def check_output(output: str | Path | None, overwrite: bool) -> Path | None:
    """Return the model file to write, or refuse a folder that cannot take it or already has one."""
    if output is None:
        return None
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise InputError("the output is a file", "name a folder with -o", str(folder))
    target = folder / "model.yaml"
    if target.exists() and not overwrite:
        raise InputError("there is a model already", "choose another folder, or allow it with --overwrite", str(target))
    return target


def provenance(
    options: IdentifyOptions, problem: Problem, found: Estimate, remarks: Sequence[Remark]
) -> dict[str, Any]:
    """Return how the model was obtained, for the model file."""
    prepared = problem.prepared
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "method": found.method,
        "options": encode(options),
        "data": [
            {"source": p.source, "seconds": float(p.t[-1] - p.t[0]), "rate": p.filter.rate, "segments": len(p.segments)}
            for p in prepared
        ],
        "filter": asdict(prepared[0].filter),
        "rows": int(problem.information.rows.sum()),
        "cond": found.cond,
        "singular_values": _singular_values(problem, found),
        "rank": found.rank,
        "sigma": found.sigma.tolist(),
        "delay": {"value": float(found.value[-1]), "std": float(found.std[-1])},
        "verdict": [asdict(remark) for remark in remarks],
        "notes": [note.text for p in prepared for note in p.notes],
        "versions": {"ros2_dynid": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }


def _singular_values(problem: Problem, found: Estimate) -> list[float]:
    """Return the singular values of the weighted W with columns scaled to unit norm; the effort's delay is left out."""
    known = found.sigma.shape == (problem.information.n,) and bool(np.all(found.sigma > 0.0))
    W = weighted_triangle(problem.information, 1.0 / found.sigma if known else np.ones(problem.information.n))[:, :-2]
    norms = np.linalg.norm(W, axis=0)
    return [float(s) for s in np.linalg.svd(W / np.where(norms > 0.0, norms, 1.0), compute_uv=False)]


def robot_or_model(path: str | Path, *, use: str = "base", **chain: Any) -> tuple[Robot, Array]:
    """Return the robot and standard parameters chi: of an identified model, or a robot's a priori ones.

    use: of a model, its "base" values, or the "standard" or "consistent" parameters if it has them.
    """
    if is_model_file(path):
        model = load_model(path)
        if use == "base":
            return model.robot, model.chi
        values = model.standard if use == "standard" else model.consistent
        if values is None:
            raise InputError(f"the model has no {use} parameters", f"identify with --{use}", str(path))
        return model.robot, standard_vector(model.robot, values)
    from ros2_dynid.model.load import load_robot

    robot = load_robot(path, **chain)
    return robot, standard_vector(robot)


def _halves(
    robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, tell: Progress, half: int
) -> list[Prepared]:
    return [_prepared(robot, recording, options, tell, 0.75, half) for recording in recordings]


def _prepared(
    robot: Robot, recording: Recording, options: IdentifyOptions, tell: Progress, at: float, half: int | None = None
) -> Prepared:
    tell("reading recordings", at)
    if isinstance(recording, Samples):
        return prepare(robot, recording, options.preparation, half=half)
    return prepare_pieces(robot, _pieces(robot, recording, options.reading, tell, at), options.preparation, half=half)


def _pieces(robot: Robot, path: str | Path, reading: Reading, tell: Progress, at: float) -> Iterator[Samples]:
    """Yield a recording of any length, in order and cut, in pieces of some minutes."""
    recording = streamed(
        lambda notes: iter_samples(path, robot, reading=reading, notes=notes), reading.start, reading.end
    )
    waiting: list[Samples] = []
    for chunk in recording.pieces:
        waiting.append(chunk)
        if sum(map(len, waiting)) >= PIECE:
            tell("reading recordings", at)
            yield _joined(waiting, ())
            waiting = []
    if waiting:
        yield _joined(waiting, recording.outline.notes)


def _joined(chunks: Sequence[Samples], notes: tuple[Note, ...]) -> Samples:
    def together(name: str) -> Array | None:
        parts = [getattr(chunk, name) for chunk in chunks]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    first = chunks[0]
    arrays: dict[str, Any] = {name: together(name) for name in ("dq", "ddq", "tau")}
    t, q = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("t", "q"))
    return replace(first, t=t, q=q, notes=(*first.notes, *notes), **arrays)
