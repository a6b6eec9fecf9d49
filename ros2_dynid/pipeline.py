"""The use cases, which the command line and the nodes both call: progress is told, and a caller can cancel."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.estimators import Problem, fitter, inform
from ros2_dynid.identification.information import Information
from ros2_dynid.identification.least_squares import Estimate
from ros2_dynid.identification.model_file import IdentifiedModel, is_model_file, load_model, model_of, save_model
from ros2_dynid.identification.preprocess import Prepared, PreprocessOptions, prepare
from ros2_dynid.identification.validation import cross_validate, torque_errors
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.version import __version__

Recording = str | Path | Samples
Progress = Callable[[str, float], None]
"""Called with the stage in words and the fraction done, 0 to 1."""


class Cancelled(DynidError):  # noqa: N818  not an error of the user's
    """The caller asked to stop; nothing was written."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("cancelled; nothing was written")


@dataclass(frozen=True)
class IdentifyOptions:
    """What to identify and how; see `identify`."""

    method: str = "wls"
    preprocess: PreprocessOptions = field(default_factory=PreprocessOptions)
    cross_validate: int = 0


@dataclass(frozen=True, eq=False)
class Identified:
    """The outcome: the model, and what the command line prints as JSON (`summary`)."""

    model: IdentifiedModel
    summary: dict[str, Any]
    path: Path | None = None


class _Teller:
    """Passes progress on within a part of the whole, and stops when asked to."""

    def __init__(self, progress: Progress | None, cancelled: Callable[[], bool] | None) -> None:
        self._progress, self._cancelled = progress, cancelled

    def __call__(self, stage: str, fraction: float) -> None:
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        if self._progress is not None:
            self._progress(stage, min(max(fraction, 0.0), 1.0))


def identify(
    robot: Robot,
    recordings: Sequence[Recording],
    *,
    options: IdentifyOptions | None = None,
    validate: Sequence[Recording] = (),
    output: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Identified:
    """Identify the robot's base parameters from recordings (paths or Samples) and write output/model.yaml.

    An existing model in `output` is only replaced if `overwrite`; it is written last and atomically, so that neither an
    error nor a cancelled run harms it.
    """
    options = options or IdentifyOptions()
    begin, tell = time.perf_counter(), _Teller(progress, cancelled)
    target = check_output(output, overwrite)
    if not recordings:
        raise InputError("there is no recording", "give at least one bag, csv or npz file")
    base = base_parameters(robot, method="closed-form")
    prepared = [
        _prepared(robot, recording, options, tell, 0.05 + 0.3 * k / len(recordings))
        for k, recording in enumerate(recordings)
    ]
    information = inform(robot, base, prepared, lambda done: tell("regressor", 0.35 + 0.35 * done))
    tell("estimating", 0.7)
    prior = np.append(base.values(robot, standard_vector(robot)), 0.0)
    halves = partial(_halves, robot, recordings, options, tell)
    problem = Problem(robot, base, tuple(prepared), information, prior, halves)
    fit_to = fitter(options.method, problem, lambda done: tell("estimating", 0.7 + 0.1 * done))
    found = fit_to(None)
    names = robot.active_names
    fit = torque_errors(names, information, found.value)
    validation = {}
    if validate:
        held_out = inform(robot, base, [_prepared(robot, r, options, tell, 0.85) for r in validate])
        validation = torque_errors(names, held_out, found.value)
    elif options.cross_validate:
        validation = cross_validate(names, information, options.cross_validate, fit_to)
    obtained = provenance(options, prepared, information, found)
    model = model_of(
        robot, base, found.value[:-1], found.std[:-1], found.covariance[:-1, :-1], fit=fit, validation=validation, obtained=obtained
    )
    if target is not None:
        tell("writing", 0.98)
        save_model(model, target)
    summary = {
        "base": model.table(),
        "essential": [],
        "standard": {},
        "consistent": {},
        "fit": fit,
        "validation": validation,
        "cond": found.cond,
        "rows": int(information.rows.sum()),
        "filter": obtained["filter"],
        "notes": obtained["notes"],
        "seconds": time.perf_counter() - begin,
        "model": None if target is None else str(target),
    }
    tell("done", 1.0)
    return Identified(model, summary, target)


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
    options: IdentifyOptions, prepared: Sequence[Prepared], information: Information, found: Estimate
) -> dict[str, Any]:
    """Return how the model was obtained, for the model file."""
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "method": found.method,
        "options": {"cross_validate": options.cross_validate, "preprocess": asdict(options.preprocess)},
        "data": [
            {"source": p.source, "seconds": float(p.t[-1] - p.t[0]), "rate": p.filter.rate, "segments": len(p.segments)}
            for p in prepared
        ],
        "filter": asdict(prepared[0].filter),
        "rows": int(information.rows.sum()),
        "cond": found.cond,
        "rank": found.rank,
        "sigma": found.sigma.tolist(),
        "notes": [note for p in prepared for note in p.notes],
        "versions": {"ros2_dynid": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }


def robot_or_model(path: str | Path, **chain: Any) -> tuple[Robot, Array]:
    """Return the robot and its standard parameters chi: of an identified model, or a robot's a priori ones."""
    if is_model_file(path):
        model = load_model(path)
        return model.robot, model.chi
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
        samples = recording
    else:
        from ros2_dynid.recording.load import load_samples

        samples = load_samples(recording, robot)
    tell("filtering", at)
    return prepare(robot, samples, options.preprocess, half=half)
