# SPDX-License-Identifier: Apache-2.0

"""The numbers that the page draws, from an identified model and the rows it was identified from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import block_diag

from ros2_dynid.dynamics.friction import frictionless, term_column
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import BASE, CONSISTENT, IdentifiedModel, TorqueData
from ros2_dynid.identification.torque_std import torque_scatter, torque_std
from ros2_dynid.model.friction_kinds import FrictionTerm, law_columns
from ros2_dynid.model.inertia import central_inertia, links_of, pseudo_inertia
from ros2_dynid.model.parameters import explain_parameter, split_name, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Array, Joint, Robot

TITLES = {"fit": "fitted data", "validation": "validation data, not used in the fit"}
DIGITS = 5
"""Significant digits of what is drawn: more than a screen shows, and half the file."""
DOTS = 600
"""Points of a friction picture."""


Numbers = list[float | None]
"""Values for JSON; None where one is not finite."""


@dataclass(frozen=True)
class BaseTableRow:
    """A base parameter in the tables: value, std and a priori value in `unit`, relative deviation in percent.

    served: the value of the set that the model serves, where that is not `value`; meaning: of the name, in words.
    """

    name: str
    value: float
    std: float | None
    unit: str
    expression: str
    percent: float | None
    prior: float | None
    essential: str | None
    served: float | None = None
    meaning: str = ""


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, and the standard deviation of the normal distribution to draw."""

    edges: Numbers
    counts: list[int]
    sigma: float | None


@dataclass(frozen=True)
class ErrorRow:
    """A joint's torque errors: rms in `unit`, relative in percent, on the data used and on data left out of the fit."""

    joint: str
    unit: str
    rms: float
    percent: float
    held_rms: float | None = None
    held_percent: float | None = None


@dataclass(frozen=True)
class TorqueCurves:
    """A joint's measured, predicted and a priori effort in `unit`, with rms and histogram of the residual.

    lower, upper: 95 % band about the prediction.
    """

    name: str
    unit: str
    measured: Numbers
    predicted: Numbers
    prior: Numbers | None
    rms: float
    histogram: Histogram
    lower: Numbers
    upper: Numbers


@dataclass(frozen=True)
class TorqueSet:
    """The torques of one data set over time t [s]."""

    title: str
    t: Numbers
    joints: list[TorqueCurves]


@dataclass(frozen=True)
class CoverageRow:
    """How much of a joint's range and limits was used; range, speed_use, effort_use in percent, None without limit."""

    joint: str
    from_: float
    to: float
    range: float | None
    speed: float
    speed_use: float | None
    acceleration: float
    effort: float
    effort_use: float | None
    unit: str


@dataclass(frozen=True)
class LineData:
    """A line: y over x."""

    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class FrictionPicture:
    """A joint's friction over its speed: measured dots x, y and the identified curve, with its 95 % band (half width).

    load: gear torque at each dot; light, heavy: the curve at the 10 and 90 % quantiles of the load, None for a law that
    does not depend on it. position, residual: of the same dots; residual: measured minus the whole model. temperature:
    of the drive at the dots [deg C], empty where it was not recorded.
    """

    name: str
    unit: str
    speed_unit: str
    x: Numbers
    y: Numbers
    curve: LineData
    band: Numbers = field(default_factory=list)
    load: Numbers = field(default_factory=list)
    light: LineData | None = None
    heavy: LineData | None = None
    position: Numbers = field(default_factory=list)
    position_unit: str = ""
    residual: Numbers = field(default_factory=list)
    temperature: Numbers = field(default_factory=list)


@dataclass(frozen=True)
class ConsistencyRow:
    """A link with a set of parameters: mass, smallest eigenvalues of central and pseudo-inertia, and whether it is
    physically consistent.
    """

    link: str
    set: str
    mass: float
    smallest: float | None
    pseudo: float
    verdict: str


@dataclass(frozen=True)
class PageData:
    """All that page.js draws of one identification; held: what the data left out of the fit are, in words."""

    base: list[BaseTableRow]
    torque: Mapping[str, TorqueSet]
    cond: float | None
    singular_values: list[float]
    coverage: list[CoverageRow]
    friction: list[FrictionPicture]
    consistency: list[ConsistencyRow]
    errors: list[ErrorRow] = field(default_factory=list)
    held: str = ""


@dataclass(frozen=True)
class ComparisonData:
    """All that page.js draws of a comparison: labels of the models, and a row for each parameter."""

    models: list[str]
    comparison: list[Mapping[str, str | float | None]]
    base: list[BaseTableRow]


def base_rows(model: IdentifiedModel) -> list[BaseTableRow]:
    """Return the base parameters as the tables show them, relative deviation in percent, with the a priori value."""
    prior = model.robot.parameters
    has_prior = any(prior.values())
    rows = []
    for k, row in enumerate(model.table()):
        percent = None if row.relative_std is None else 100 * row.relative_std
        rows.append(
            BaseTableRow(
                name=row.name,
                value=row.value,
                std=row.std,
                unit=row.unit,
                meaning=explain_parameter(row.name, row.leader),
                expression=row.expression,
                percent=percent,
                served=None if model.serve == BASE else row.served,
                prior=sum(c * prior.get(name, 0.0) for name, c in model.terms[k].items()) if has_prior else None,
                essential=None if model.essential is None else ("yes" if row.name in model.essential else "no"),
            )
        )
    return rows


def error_rows(model: IdentifiedModel) -> list[ErrorRow]:
    """Return the torque errors of every joint, and of all of them as the last row."""
    units = {joint.name: effort_unit(joint.sigma) for joint in active(model.robot)}
    units["all"] = next(iter(units.values())) if len(set(units.values())) == 1 else "N.m, N"
    rows = []
    for name, fit in model.fit.items():
        held = model.validation.get(name)
        other = () if held is None else (held.rms, 100.0 * held.relative)
        rows.append(ErrorRow(name, units.get(name, ""), fit.rms, 100.0 * fit.relative, *other))
    return rows


def held_out_words(model: IdentifiedModel) -> str:
    """Return what the data left out of the fit are: another recording validates, parts of the same one less."""
    by = model.obtained.get("validated_by")
    folds = by.get("folds") if isinstance(by, Mapping) else 0
    return f"{folds} parts left out in turn" if folds else "other recordings"


def torque_sets(model: IdentifiedModel, sets: Mapping[str, TorqueData]) -> dict[str, TorqueSet]:
    """Return measured, predicted and a priori torque by data set and joint, with residual rms and histogram."""
    has_prior = any(model.robot.parameters.values())
    torque_sets_by_key: dict[str, TorqueSet] = {}
    for name, rows in sets.items():
        joints = []
        width = torque_scatter(model).width * torque_std(model, rows.q, rows.dq, rows.ddq, measured=True)
        for j, joint in enumerate(active(model.robot)):
            residual = rows.tau[:, j] - rows.predicted[:, j]
            residual = residual[np.isfinite(residual)]
            rms = float(np.sqrt(np.mean(residual**2))) if residual.size else 0.0
            edge = max(4 * rms, 1e-9)
            counts, edges = np.histogram(np.clip(residual, -edge, edge), bins=41, range=(-edge, edge))
            joints.append(
                TorqueCurves(
                    name=joint.name,
                    unit=effort_unit(joint.sigma),
                    measured=round_values(rows.tau[:, j]),
                    predicted=round_values(rows.predicted[:, j]),
                    prior=round_values(rows.prior[:, j]) if has_prior else None,
                    rms=rms,
                    histogram=Histogram(round_values(edges), counts.tolist(), rms or None),
                    lower=round_values(rows.predicted[:, j] - width[:, j]),
                    upper=round_values(rows.predicted[:, j] + width[:, j]),
                )
            )
        torque_sets_by_key[name] = TorqueSet(TITLES.get(name, name), round_values(rows.t - rows.t[0], 7), joints)
    return torque_sets_by_key


def coverage(robot: Robot, rows: TorqueData) -> list[CoverageRow]:
    """Return how much of each joint's range and limits the motion used; shares in percent, None without a limit."""
    coverage_rows = []
    for j, joint in enumerate(active(robot)):
        limits = joint.limits
        span = limits.upper - limits.lower
        low, high = float(rows.q[:, j].min()), float(rows.q[:, j].max())
        speed, acceleration = float(np.abs(rows.dq[:, j]).max()), float(np.abs(rows.ddq[:, j]).max())
        effort = float(np.nanmax(np.abs(rows.tau[:, j]), initial=0.0))
        coverage_rows.append(
            CoverageRow(
                joint=joint.name,
                from_=low,
                to=high,
                range=share(high - low, span),
                speed=speed,
                speed_use=share(speed, limits.velocity),
                acceleration=acceleration,
                effort=effort,
                effort_use=share(effort, limits.effort),
                unit="m, s, N" if joint.sigma == PRISMATIC else "rad, s, N.m",
            )
        )
    return coverage_rows


def friction_pictures(model: IdentifiedModel, rows: TorqueData) -> list[FrictionPicture]:
    """Return, by joint, the measured friction torque over speed (all else subtracted), and the friction curve.

    Terms that grow with the load are drawn at the joint's median load, those of the temperature at their T0.
    """
    robot = model.robot
    names = standard_names(robot)
    value = dict(zip(names, model.chi, strict=True))
    own = [split_name(name)[0] in ("Fv", "Fc", "off") for name in names]
    motion = rows.q, rows.dq, rows.ddq
    rest = rows.tau - inverse_dynamics(replace(robot, friction=()), np.where(own, 0.0, model.chi), *motion)
    load_torque = np.abs(inverse_dynamics(*frictionless(robot, model.chi), *motion))
    light, load, heavy = np.quantile(load_torque, (0.1, 0.5, 0.9), axis=0)
    residual = rows.tau - rows.predicted
    pictures = []
    for j, joint in zip(robot.active, active(robot), strict=True):
        k = robot.active.index(j)
        pick = np.flatnonzero(np.isfinite(rest[:, k]))
        pick = pick[:: max(1, len(pick) // DOTS)]
        top = float(np.abs(rows.dq[:, k]).max()) or 1.0
        x = np.concatenate((np.linspace(-top, -1e-9, 20), np.linspace(1e-9, top, 20)))
        terms = [term for term in robot.friction if term.joint == j]
        plain = value[f"Fv{j}"] * x + value[f"Fc{j}"] * np.sign(x) + value[f"off{j}"]
        curves = [plain + _of_terms(terms, x, level[k]) for level in (light, load, heavy)]
        loaded = any(term.kind.loaded for term in terms)
        pictures.append(
            FrictionPicture(
                name=joint.name,
                unit=effort_unit(joint.sigma),
                speed_unit="m/s" if joint.sigma == PRISMATIC else "rad/s",
                x=round_values(rows.dq[pick, k]),
                y=round_values(rest[pick, k]),
                curve=LineData(round_values(x), round_values(curves[1])),
                band=round_values(2.0 * _friction_std(model, j, x, float(load[k]))),
                load=round_values(load_torque[pick, k]),
                light=LineData(round_values(x), round_values(curves[0])) if loaded else None,
                heavy=LineData(round_values(x), round_values(curves[2])) if loaded else None,
                position=round_values(rows.q[pick, k]),
                position_unit="m" if joint.sigma == PRISMATIC else "rad",
                residual=round_values(residual[pick, k]),
                temperature=round_values(warmth) if np.any(np.isfinite(warmth := rows.temperature[pick, k])) else [],
            )
        )
    return pictures


def _of_terms(terms: Sequence[FrictionTerm], v: Array, load: float) -> Array:
    """Return the torque of a joint's further terms at speeds v, any shape, at the gear torque `load`."""
    columns = [term.coefficient * term_column(term, v, np.sign(v), np.full_like(v, load)) for term in terms]
    return np.asarray(np.sum([np.zeros_like(v), *columns], axis=0))


def _friction_std(model: IdentifiedModel, joint: int, v: Array, load: float) -> Array:
    """Return the standard deviation of a joint's friction at speeds v, shape (N,), with the covariances of its law."""
    plain = {f"Fv{joint}": v, f"Fc{joint}": np.sign(v), f"off{joint}": np.ones_like(v)}
    place = {leader: k for k, leader in enumerate(model.leaders)}
    columns = {place[name]: x for name, x in plain.items() if name in place and np.isfinite(model.std[place[name]])}
    C, terms = model.known_covariance, law_columns(model.robot.friction)
    if model.friction_covariance is None:  # of the terms, what each is known by itself
        terms = model.robot.friction
        C = block_diag(C, np.diag([(term.std or 0.0) ** 2 for term in terms]))
    for k, term in enumerate(terms, start=len(place)):
        if term.joint == joint:
            columns[k] = term_column(term, v, np.sign(v), np.full_like(v, load))
    at, g = list(columns), np.array(list(columns.values())).reshape(len(columns), len(v))
    variance = np.einsum("iv,ij,jv->v", g, C[np.ix_(at, at)], g)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def active(robot: Robot) -> list[Joint]:
    """Return the active joints in the order of the columns."""
    return [robot.joints[j - 1] for j in robot.active]


def effort_unit(sigma: int) -> str:
    """Return the unit of a joint's effort."""
    return "N" if sigma == PRISMATIC else "N.m"


def share(part: float, whole: float) -> float | None:
    """Return part of whole in percent, None where the whole is not known."""
    return 100 * part / whole if np.isfinite(whole) and whole > 0 else None


def round_values(values: Array, digits: int = DIGITS) -> Numbers:
    """Return values for JSON with few digits; None where a value is not finite."""
    x = np.asarray(values, dtype=float)
    finite = np.isfinite(x)
    x = np.where(finite, x, 0.0)
    # Whole numbers and powers of ten are exact: their quotient or product is the float nearest to the decimal.
    places = digits - 1 - np.floor(np.log10(np.maximum(np.abs(x), 1e-300))).astype(int)
    fine, coarse = 10.0 ** np.clip(places, 0, 22), 10.0 ** np.clip(-places, 0, 22)
    short = (np.rint(x / coarse * fine) / fine * coarse).tolist()
    return short if finite.all() else [v if ok else None for v, ok in zip(short, finite.tolist(), strict=True)]


def consistency_rows(model: IdentifiedModel) -> list[ConsistencyRow]:
    """Return, for each link and each set of standard parameters, whether it is physically consistent."""
    rows = []
    sets = {"identified": model.standard, "identified, made consistent": model.consistent}
    if model.serve == CONSISTENT:  # what the model uses comes first
        sets = dict(reversed(sets.items()))
    sets["a priori"] = model.robot.parameters
    for title, values in sets.items():
        if not values:
            continue
        chi = standard_vector(model.robot, values)
        for joint, parameters in zip(model.robot.joints, links_of(model.robot, chi), strict=True):
            central = central_inertia(parameters)
            smallest_pseudo = float(np.linalg.eigvalsh(pseudo_inertia(parameters))[0])
            rows.append(
                ConsistencyRow(
                    link=joint.name,
                    set=title,
                    mass=float(parameters[9]),
                    smallest=None if central is None else float(np.linalg.eigvalsh(central)[0]),
                    pseudo=smallest_pseudo,
                    verdict="yes" if smallest_pseudo > 0 else "no",
                )
            )
    return rows
