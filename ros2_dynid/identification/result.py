# SPDX-License-Identifier: Apache-2.0

"""Stage 7, Choice -> Identification: the model to write, and the outcome as data, with how both were obtained."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import numpy as np

from ros2_dynid.codec import Plain, encode, finite_or_none
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.standing import joints_without_rows
from ros2_dynid.identification.candidates import Candidates, Consistency
from ros2_dynid.identification.decisions.friction_selection import Trial
from ros2_dynid.identification.estimation import Estimation
from ros2_dynid.identification.model_file import (
    BASE,
    CONSISTENT,
    BaseRow,
    IdentifiedModel,
    SetErrors,
    TorqueData,
    TorqueError,
    model_of,
)
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.physical.essential import Essential, largest_of, share_of_largest
from ros2_dynid.identification.preparation.prepared import Filter, fastest_speeds
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate, friction_covariance, identified_terms
from ros2_dynid.identification.regression.least_squares import weighted_triangle
from ros2_dynid.identification.regression.prior import PriorFit
from ros2_dynid.identification.regression.two_sensors import drive_values, second_errors
from ros2_dynid.identification.scores import Scores
from ros2_dynid.identification.served_set import Choice
from ros2_dynid.identification.servo.model import DriveRow
from ros2_dynid.identification.validation.cross_validation import ValidatedBy
from ros2_dynid.identification.validation.sensor_side import SensorSide, find_link_sensors
from ros2_dynid.identification.validation.torque_errors import Errors
from ros2_dynid.identification.validation.verdict import Remark
from ros2_dynid.model.efforts import DRIVE, sensor_name
from ros2_dynid.model.parameters import standard_names, unit_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.version import __version__


@dataclass(frozen=True)
class Delay:
    """How late the effort was recorded [s], with standard deviation."""

    value: float
    std: float | None


@dataclass(frozen=True)
class EliminationStep:
    """One elimination tried: the parameter, its relative std, the test's statistic and limit, the outcome.

    growth, allowed: of the squared error on stretches left out, without all dropped so far, as a share.
    """

    parameter: str
    relative_std: float | None
    statistic: float
    limit: float
    dropped: bool
    growth: float = 0.0
    allowed: float = 0.0


@dataclass(frozen=True)
class Elimination:
    """The steps to the essential parameters, and the largest share of a joint's torque that each parameter makes."""

    steps: tuple[EliminationStep, ...]
    torque_share: Mapping[str, float]


@dataclass(frozen=True)
class FrictionRow:
    """A friction term beyond Fv, Fc and off: coefficient and standard deviation in `unit`.

    speed, speed_std: vs of a Stribeck term with its standard deviation [rad/s or m/s]; exponent, exponent_std: p of a
    power term; reference: temperature T0 at which a term of the temperature is zero [deg C].
    """

    name: str
    joint: str
    term: str
    value: float
    std: float | None
    unit: str
    speed: float | None = None
    speed_std: float | None = None
    exponent: float | None = None
    exponent_std: float | None = None
    reference: float | None = None


@dataclass(frozen=True)
class FrictionTrial:
    """A law tried at a joint, its terms joined by +, the best of its size: gain in squared held-out error over the law
    taken before and its scatter over folds, as shares of the joint's error."""

    name: str
    joint: str
    term: str
    gain: float
    scatter: float
    chosen: bool
    speed: float | None = None


@dataclass(frozen=True)
class SensorRow:
    """Which torque a joint's effort is: motor, link, link+Fc, ... (model/efforts.py).

    used: as what it was identified; found: what the comparison on held-out data says, None where it was declared to be
    at the link; clear: whether that is certain. share: largest share of the joint's torque that viscous friction
    makes, with two standard deviations on top, None if not known.
    """

    used: str
    found: str | None = None
    clear: bool = True
    share: float | None = None


@dataclass(frozen=True)
class SecondSensor:
    """A joint's second effort, fitted beside the first: what it is, its torque errors, its bias [N.m or N] with std.

    drive: Ia, Fv and Fc that the two tell apart, with `drive_std`.
    """

    sensor: str
    fit: TorqueError
    bias: float
    bias_std: float | None
    drive: Mapping[str, float]
    drive_std: Mapping[str, float]


@dataclass(frozen=True)
class PriorUse:
    """A prior that was tried: its source, its weight: that which serves unseen data best, a weak one, or 0.

    gain, scatter: share by which it lowers the held-out error, with its standard error; share: how much of what is
    said about the base parameters is the prior's; parameters: the same for each.
    """

    source: str
    weight: float
    gain: float
    scatter: float
    share: float
    parameters: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class IdentifyOutcome:
    """What was identified; `model` and `report` are the files written, None if there was no output folder.

    serve: which parameter set is the model, "base" or "consistent". fit, validation: of that set, by joint and for
    "all"; sets: those of every set computed ("base", "essential", "consistent"). rows: of all joints together; seconds:
    that it took. validated_by: what the held-out data of `validation` are; folds: of a cross-validation, 0 if there was
    none. band_coverage: share of the rows of validation recordings inside the 95 % band of the prediction, by
    joint and for "all"; empty without such recordings.
    friction: terms beyond Fv, Fc and off that the joints were found to have; friction_tried: how each was judged.
    sensors: which torque the effort of each joint is; second: other efforts that were fitted beside it, by joint.
    prior: what the estimate was drawn towards, if anything was tried. recommended: the estimator that suits the
    data: another than `method` where encoder noise biases that one. units: of each joint's effort, N.m or N; "all" if
    they are alike. servos: the drives of a robot under position servos, identified without efforts, and rollout:
    the errors of its positions [rad or m] by horizon and joint.
    """

    base: tuple[BaseRow, ...]
    essential: tuple[str, ...] = ()
    standard: Mapping[str, float] = field(default_factory=dict)
    consistent: Mapping[str, float] = field(default_factory=dict)
    fit: Mapping[str, TorqueError] = field(default_factory=dict)
    validation: Mapping[str, TorqueError] = field(default_factory=dict)
    cond: float | None = None
    rows: int = 0
    method: Method
    filter: Filter
    delay: Delay
    verdict: tuple[Remark, ...]
    notes: tuple[str, ...]
    seconds: float = 0.0
    validated_by: ValidatedBy = ValidatedBy.NOTHING
    folds: int = 0
    elimination: Elimination | None = None
    consistency: Consistency | None = None
    serve: str = BASE
    sets: Mapping[str, SetErrors] = field(default_factory=dict)
    band_coverage: Mapping[str, float] = field(default_factory=dict)
    friction: tuple[FrictionRow, ...] = ()
    friction_tried: tuple[FrictionTrial, ...] = ()
    prior: PriorUse | None = None
    sensors: Mapping[str, SensorRow] = field(default_factory=dict)
    second: Mapping[str, SecondSensor] = field(default_factory=dict)
    recommended: Method | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    servos: tuple[DriveRow, ...] = ()
    rollout: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    model: str | None = None
    report: str | None = None


@dataclass(frozen=True, eq=False)
class Identification:
    """All stages of an identification: the model, the outcome as data, and the torques of the report by name.

    torques: "fit", and "validation" where there were recordings to validate on. problem: None of position servos,
    which have no torques.
    """

    model: IdentifiedModel
    outcome: IdentifyOutcome
    torques: Mapping[str, TorqueData]
    problem: Problem | None

    @property
    def summary(self) -> dict[str, Plain]:
        """The outcome as plain data: what the command line prints as JSON."""
        data = encode(self.outcome)
        assert isinstance(data, dict)
        return data


def assemble_servos(model: IdentifiedModel, verdict: tuple[Remark, ...], notes: tuple[str, ...]) -> Identification:
    """Return the model of position servos and its outcome: nothing in it comes from torques."""
    assert model.servo is not None
    outcome = IdentifyOutcome(
        base=model.table(),
        method=Method.DIDIM,
        filter=Filter(0.0, None, None, 0.0, 0.0, 0.0, 0.0),
        delay=Delay(0.0, None),
        verdict=verdict,
        notes=notes,
        servos=model.servo.rows(),
        rollout=model.servo.errors,
    )
    return Identification(model, outcome, {}, None)


def assemble_identification(
    problem: Problem,
    estimation: Estimation,
    candidates: Candidates,
    scores: Scores,
    choice: Choice,
    options: IdentifyOptions,
    command: str,
) -> Identification:
    """Return the model and the outcome of the parameter set chosen; command: what to type to repeat it."""
    estimate, selection, physical = candidates.estimate, candidates.selection, candidates.physical
    terms = identified_terms(problem.terms, estimate)
    model = model_of(
        replace(problem.robot, friction=terms),
        problem.base,
        estimate.base,
        estimate.base_std,
        estimate.base_covariance,
        essential=None if selection is None else tuple(problem.base.names[k] for k in selection.kept),
        standard=physical.standard,
        consistent=physical.consistent,
        fit=_of_measured(problem.robot, choice.errors.fit),
        validation=_of_measured(problem.robot, choice.validation.errors),
        serve=CONSISTENT if choice.served == CONSISTENT else BASE,
        sets=scores.sets,
        friction_covariance=friction_covariance(problem.terms, estimate) if terms else None,
    )
    outcome = _build_outcome(problem, estimation, candidates, scores, choice, model, options)
    obtained = _provenance(problem, estimate, choice, options, outcome)
    obtained |= {"band_sigma": encode(scores.band_level), **({"command": command} if command else {})}
    torques = {"fit": choice.fitted.data}
    if scores.comparisons is not None:
        torques["validation"] = scores.comparisons[choice.served].data
    return Identification(replace(model, obtained=obtained), outcome, torques, problem)


def _of_measured(robot: Robot, errors: Errors) -> Errors:
    """Return the errors without those of joints that have no rows."""
    left_out = {name for name, spent in zip(robot.active_names, joints_without_rows(robot), strict=True) if spent}
    return {name: error for name, error in errors.items() if name not in left_out}


def _build_outcome(
    problem: Problem,
    estimation: Estimation,
    candidates: Candidates,
    scores: Scores,
    choice: Choice,
    model: IdentifiedModel,
    options: IdentifyOptions,
) -> IdentifyOutcome:
    estimate, selection = candidates.estimate, candidates.selection
    return IdentifyOutcome(
        base=model.table(),
        essential=model.essential or (),
        standard=model.standard or {},
        consistent=model.consistent or {},
        fit=_of_measured(problem.robot, choice.errors.fit),
        validation=_of_measured(problem.robot, choice.validation.errors),
        validated_by=choice.validation.by,
        folds=choice.validation.folds,
        cond=finite_or_none(estimate.cond),
        rows=int(problem.information.rows.sum()),
        method=options.method,
        filter=problem.prepared[0].filter,
        delay=total_delay(problem, estimate),
        verdict=choice.remarks,
        notes=tuple(note.text for prepared in problem.prepared for note in prepared.notes),
        elimination=None if selection is None else _elimination(problem, selection),
        consistency=candidates.physical.consistency,
        serve=model.serve,
        sets=scores.sets,
        band_coverage={} if scores.comparisons is None else scores.comparisons[choice.served].coverage,
        friction=_friction_rows(model.robot),
        friction_tried=_friction_trials(problem.robot, problem.tried),
        prior=None if candidates.prior_fit is None else _prior_use(problem, candidates.prior_fit),
        sensors=_sensor_rows(problem.robot, estimation.sensor_sides),
        second=_second_sensors(problem),
        recommended=estimation.advice.method,
        units=effort_units(problem.robot),
    )


def effort_units(robot: Robot) -> dict[str, str]:
    """Return the unit of each active joint's effort, and under "all" the one that all have."""
    units = {robot.joints[j - 1].name: unit_of(robot, f"off{j}") for j in robot.active}
    return {**units, "all": next(iter(units.values()))} if len(set(units.values())) == 1 else units


def _provenance(
    problem: Problem, estimate: Estimate, choice: Choice, options: IdentifyOptions, outcome: IdentifyOutcome
) -> dict[str, Plain]:
    """Return how the model was obtained, for the model file."""
    validation, told = choice.validation, ("filter", "rows", "cond", "delay", "verdict", "notes")
    obtained: dict[str, Plain] = {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "method": estimate.method.value,
        "options": encode(options),
        "data": [
            {"source": p.source, "seconds": float(p.t[-1] - p.t[0]), "rate": p.filter.rate, "segments": len(p.segments)}
            for p in problem.prepared
        ],
        **{name: encode(getattr(outcome, name)) for name in told},
        "singular_values": _singular_values(problem, estimate),
        "rank": estimate.rank,
        "sigma": encode(estimate.sigma),
        "validated_by": {
            "data": validation.by.value,
            "folds": validation.folds,
            "left_out": validation.left_out.value,
        },
        "versions": {"ros2_dynid": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    decisions = {"row_cutoff": encode(problem.row_cutoff), "effort_delay": encode(problem.effort_delay)}
    obtained["decisions"] = {name: evidence for name, evidence in decisions.items() if evidence}
    if np.isfinite(estimate.dof):
        obtained["dof"] = estimate.dof
    tried = {"prior": outcome.prior, "friction_tried": outcome.friction_tried}
    obtained |= {name: encode(one) for name, one in tried.items() if one}
    obtained["used"] = _speeds_and_loads(problem, choice)
    return obtained


def _friction_rows(robot: Robot) -> tuple[FrictionRow, ...]:
    """Return the friction terms of the identified robot, with units and error bars."""
    return tuple(
        FrictionRow(
            name=term.name,
            joint=robot.joints[term.joint - 1].name,
            term=str(term.kind),
            value=term.coefficient,
            std=term.std,
            unit=term.kind.units[robot.joints[term.joint - 1].sigma],
            speed=term.speed or None,
            speed_std=term.speed_std,
            exponent=term.exponent or None,
            exponent_std=term.exponent_std,
            reference=term.reference if term.kind.thermal else None,
        )
        for term in robot.friction
    )


def _friction_trials(robot: Robot, tried: Sequence[Trial]) -> tuple[FrictionTrial, ...]:
    """Return the laws that were tried, joint by joint."""
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


def _prior_use(problem: Problem, prior_fit: PriorFit) -> PriorUse:
    """Return where the prior came from, its weight, and how much of each base parameter it made."""
    shares = prior_fit.share[problem.information.layout.base]
    return PriorUse(
        source=prior_fit.prior.source,
        weight=prior_fit.weight.weight,
        gain=prior_fit.weight.gain,
        scatter=prior_fit.weight.scatter,
        share=prior_fit.base_share,
        parameters=dict(zip(problem.base.names, shares.tolist(), strict=True)),
    )


def _sensor_rows(robot: Robot, sides: Mapping[str, SensorSide]) -> dict[str, SensorRow]:
    """Return which torque the effort of each joint is, as it was used and as it was found."""
    rows, sensors = {}, find_link_sensors(sides)
    for j, name in zip(robot.active, robot.active_names, strict=True):
        used, side = str(robot.joints[j - 1].measured), sides.get(name)
        if side is None:
            rows[name] = SensorRow(used)
            continue
        rows[name] = SensorRow(used, sensor_name(sensors.get(name, DRIVE)), side.clear, finite_or_none(side.share))
    return rows


def _second_sensors(problem: Problem) -> dict[str, SecondSensor]:
    """Return what the second efforts were, by joint; empty without them."""
    two = problem.second
    if two is None:
        return {}
    estimate, rows = two.estimate(), {}
    bias = estimate.layout.sensor.stop - len(two.joints)
    for k, (joint, (error, torque, count)) in enumerate(zip(two.joints, second_errors(two, estimate), strict=True)):
        drive = drive_values(two, estimate, joint)
        rows[problem.robot.active_names[joint]] = SecondSensor(
            sensor=sensor_name(two.robot.joints[two.robot.active[joint] - 1].measured_drive),
            fit=TorqueError(error / max(count, 1) ** 0.5, error / max(torque, 1e-300)),
            bias=float(estimate.value[bias + k]),
            bias_std=finite_or_none(estimate.std[bias + k]),
            drive={part: value for part, (value, _) in drive.items()},
            drive_std={part: spread for part, (_, spread) in drive.items()},
        )
    return rows


def _speeds_and_loads(problem: Problem, choice: Choice) -> dict[str, Plain]:
    """Return, by joint, the top speed [rad/s or m/s] and the mean torque that its gear carried [N.m or N]."""
    robot, data = problem.robot, choice.fitted.data
    chi = np.zeros(len(standard_names(robot)))
    chi[problem.base.columns(robot)] = choice.value[problem.information.layout.base]
    load = np.mean(np.abs(inverse_dynamics(*frictionless(robot, chi), data.q, data.dq, data.ddq)), axis=0)
    rows = zip(robot.active_names, fastest_speeds(problem.prepared).tolist(), load.tolist(), strict=True)
    return {name: {"speed": speed, "load": torque} for name, speed, torque in rows}


def _elimination(problem: Problem, selection: Essential) -> Elimination:
    """Return the steps of the elimination, and the largest share of a joint's torque that each parameter makes."""
    names, estimate = problem.base.names, selection.estimate
    largest = largest_of(problem.rows(k) for k in range(len(problem.prepared)))
    share = share_of_largest(*largest, estimate.value)
    steps = tuple(
        EliminationStep(
            **{**vars(step), "parameter": names[step.parameter], "relative_std": finite_or_none(step.relative_std)}
        )
        for step in selection.steps
    )
    return Elimination(steps, dict(zip(names, share[estimate.layout.base].tolist(), strict=True)))


def total_delay(problem: Problem, estimate: Estimate) -> Delay:
    """Return how late the effort was in all: what it was moved by, and what was estimated of the rest."""
    std = finite_or_none(estimate.delay_std) if estimate.layout.n_delay else None
    return Delay(problem.prepared[0].filter.delay + estimate.delay, std)


def _singular_values(problem: Problem, estimate: Estimate) -> list[float]:
    """Return the singular values of the weighted W with columns scaled to unit norm; the effort's delay is left out."""
    known = estimate.sigma.shape == (problem.information.n,) and bool(np.all(estimate.sigma > 0.0))
    weights = 1.0 / estimate.sigma if known else np.ones(problem.information.n)
    W = weighted_triangle(problem.information, weights).base
    norms = np.linalg.norm(W, axis=0)
    return [float(s) for s in np.linalg.svd(W / np.where(norms > 0.0, norms, 1.0), compute_uv=False)]
